/* SPDX-License-Identifier: MIT */
/* Public questions about a tensor; scalars; random state; counters.  Nothing here computes. */
#include "tensor/slot.h"
#include "device/device.h"
#include <inttypes.h>
#include <string.h>
#include <tenon/core.h>

/* The node behind a handle, for its shape and dtype; a capture is not told. */
static tn__node *look(const tn_tensor *t, const char *name)
{
    tn__enter(name);
    tn__slot *s = tn__slot_get(t);
    tn__node *n = s ? tn__slot_in(s, false) : NULL;
    tn__leave();
    return n;
}

int tn_ndim(const tn_tensor *t)
{
    const tn__node *n = look(t, "tn_ndim");
    return n ? n->rank : -1;
}

int64_t tn_dim(const tn_tensor *t, int axis)
{
    const tn__node *n = look(t, "tn_dim");
    if (!n) return -1;
    int i = axis < 0 ? axis + n->rank : axis;
    if (i >= 0 && i < n->rank) return n->dims[i];
    tn__enter("tn_dim");
    tn__fail(TN_EAXIS, "dim: axis %d of %s: axes are %d to %d", axis,
             tn__shape_text(n->dims, n->rank), -n->rank, n->rank - 1);
    tn__leave();
    return -1;
}

int64_t tn_numel(const tn_tensor *t)
{
    const tn__node *n = look(t, "tn_numel");
    return n ? tn__node_numel(n) : -1;
}

int tn_shape_of(const tn_tensor *t, int64_t *dims)
{
    const tn__node *n = look(t, "tn_shape_of");
    if (!n) return -1;
    if (n->rank) memcpy(dims, n->dims, n->rank * sizeof *dims);
    return n->rank;
}

tn_dtype tn_dtype_of(const tn_tensor *t)
{
    const tn__node *n = look(t, "tn_dtype_of");
    return n ? (tn_dtype)n->dt : TN_DTYPE_DEFAULT;
}

const char *tn_device(const tn_tensor *t)
{
    const tn__node *n = look(t, "tn_device");
    if (!n) return "";
    const tn__device *d = n->place ? n->place->dev[0] : tn__device_default();
    return d ? tn__device_name(d) : "";
}

const tn_axes *tn_axes_all(void)
{
    static const tn_axes all = {0, NULL};
    return &all;
}

/* ---- scalars ---- */

static tn_tensor *scalar(const char *name, tn_dtype dt, tn__scalar s, bool weak)
{
    tn__call c;
    tn__call_begin(&c, name);
    return tn__call_end(&c, weak ? tn__weak(dt, s) : tn__const(dt, s, NULL, 0));
}

tn_tensor *tn_const(double v)
{
    tn_dtype dt = tn__dtype_default_float();
    return scalar("tn_const", dt, tn__scalar_from_double(dt, v), false);
}

tn_tensor *tn_const_i(int64_t v)
{
    tn_dtype dt = v >= INT32_MIN && v <= INT32_MAX ? TN_I32 : TN_I64;
    return scalar("tn_const_i", dt, (tn__scalar){.i = v}, false);
}

tn_tensor *tn_lift_float(double v) { return scalar("", TN_F64, (tn__scalar){.f = v}, true); }
tn_tensor *tn_lift_int(int64_t v) { return scalar("", TN_I64, (tn__scalar){.i = v}, true); }
tn_tensor *tn_lift_bool(bool v) { return scalar("", TN_BOOL, (tn__scalar){.u = v}, true); }

tn_tensor *tn_lift_uint(uint64_t v)
{
    return scalar("", v <= INT64_MAX ? TN_I64 : TN_U64, (tn__scalar){.u = v}, true);
}

/* ---- random state ---- */

void tn_manual_seed(uint64_t seed) { tn__rng_seed(seed); }

void tn_random_state(uint64_t *key, uint64_t *counter)
{
    tn__rng s = tn__rng_get();
    if (key) *key = s.key;
    if (counter) *counter = s.counter;
}

void tn_random_restore(uint64_t key, uint64_t counter)
{
    tn__rng_set((tn__rng){.key = key, .counter = counter});
}

/* ---- counters ---- */

void tn_counters_get(tn_counters *out)
{
    size_t live, cached;
    tn__devices_bytes(&live, &cached);
    tn_counters c = {
        .size = out->size,
        .host_bytes = tn__live_bytes(),
        .host_blocks = tn__live_blocks(),
        .nodes = tn__node_live(),
        .handles = tn__slot_live(),
        .kernels = atomic_load(&tn__count.kernels),
        .compiles = atomic_load(&tn__count.compiles),
        .schedules = atomic_load(&tn__count.schedules),
        .replays = atomic_load(&tn__count.replays),
        .ops = atomic_load(&tn__count.ops),
        .bytes = atomic_load(&tn__count.bytes),
        .ns = atomic_load(&tn__count.ns),
        .device_bytes = live,
        .device_cached = cached,
    };
    memcpy(out, &c, c.size < sizeof c ? c.size : sizeof c);
}
