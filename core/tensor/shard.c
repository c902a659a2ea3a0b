/* SPDX-License-Identifier: MIT */
/* Public: a tensor on several devices.  Nothing here computes; how parts work together is in schedule/placement_pass.c. */
#include "tensor/make.h"
#include "tensor/slot.h"
#include "device/device.h"
#include <inttypes.h>
#include <tenon/core.h>

static bool fits(const tn__node *x, int axis, size_t n)
{
    if (axis < 0 || n == 1) return true;
    if (axis >= x->rank)
        return tn__fail(TN_EAXIS,
                        "shard: axis %d of %s: axes are 0 to %d, or -1 for a copy on each device",
                        axis, tn__dims_of(x), x->rank - 1);
    if (x->dims[axis] % (int64_t)n == 0) return true;
    return tn__fail(TN_ESHAPE,
                    "shard: axis %d of %s over %zu devices: %" PRId64
                    " does not divide evenly: pad or cut it first",
                    axis, tn__dims_of(x), n, x->dims[axis]);
}

static tn__node *shard(tn__node *x, const tn_devices *devices, int axis)
{
    tn__device *dev[TN_LEN(((tn__placement *)0)->dev)];
    const size_t n = devices ? devices->n : 0;
    if (!n || n > TN_LEN(dev)) {
        tn__fail(TN_EVALUE, "shard: %zu devices: takes 1 to %zu: write DEVICES(\"...\", \"...\")",
                 n, TN_LEN(dev));
        return NULL;
    }
    for (size_t i = 0; i < n; i++)
        if (!(dev[i] = tn__device_get(devices->name[i]))) return NULL;
    if (axis < -1) {
        tn__fail(TN_EAXIS,
                 "shard: axis %d: -1 puts a copy on each device, 0 and more split that axis", axis);
        return NULL;
    }
    if (!fits(x, axis, n)) return NULL;
    const tn__placement *p = tn__placement_get(dev, (int)n, axis);
    return p ? tn__copy_to(x, p) : NULL;
}

tn_tensor *(tn_shard)(tn_tensor *t, const tn_devices *devices, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_shard");
    tn__node *x = tn__in(t);
    return tn__call_end(&c, x ? shard(x, devices, axis) : NULL);
}

tn_tensor *(tn_shard_like)(tn_tensor *t, const tn_tensor *y)
{
    tn__call c;
    tn__call_begin(&c, "tn_shard_like");
    tn__node *x = tn__in(t);
    tn__slot *s = x ? tn__slot_get(y) : NULL;
    tn__node *like = s ? tn__slot_in(s, false) : NULL;
    const tn__placement *p = like ? like->place : NULL;
    bool ok = like && (!p || fits(x, p->axis, (size_t)p->n));
    return tn__call_end(&c, !ok ? NULL : p ? tn__copy_to(x, p) : x);
}

tn_tensor *(tn_to_)(tn_tensor *t, const char *device)
{
    tn_tensor *moved = (tn_to)(t, device);
    return (tn_replace)(t, moved);
}

tn_tensor *(tn_shard_)(tn_tensor *t, const tn_devices *devices, int axis)
{
    tn_tensor *moved = (tn_shard)(t, devices, axis);
    return (tn_replace)(t, moved);
}
