/* SPDX-License-Identifier: MIT */
/* Shared pieces of the public wrappers. */
#include "tensor/api.h"
#include "device/device.h"
#include <string.h>

typedef struct {
    TN_OPTS_HEAD;
} head;

void tn__opts_read(void *dst, size_t full, const void *src)
{
    memset(dst, 0, full);
    if (!src) return;
    size_t n = ((const head *)src)->size;
    memcpy(dst, src, n && n < full ? n : full);
}

bool tn__axes_read(const char *op, const tn__node *x, const tn_axes *ax, unsigned *mask)
{
    if (!x) return false;
    if (!ax) return tn__fail(TN_ENULL, "%s: the axes are NULL: give AX(..) or ALL", op);
    if (ax == tn_axes_all()) {
        *mask = TN__ALL_AXES;
        return true;
    }
    return tn__axes_mask(op, x, ax->v, ax->n, mask);
}

bool tn__shape_read(const char *op, const tn_shape *s)
{
    if (!s) return tn__fail(TN_ENULL, "%s: the shape is NULL: give SHAPE(..)", op);
    if (s->n > TN_MAX_RANK)
        return tn__fail(TN_ESHAPE, "%s: %zu axes: at most %d", op, s->n, TN_MAX_RANK);
    return true;
}

tn__node *tn__on_device(tn__node *x, const char *device)
{
    if (!x || !device) return x;
    tn__device *d = tn__device_get(device);
    const tn__placement *p = d ? tn__placement_one(d) : NULL;
    return p ? tn__copy_to(x, p) : NULL;
}

bool tn__call_end_all(tn__call *c, const char *name, tn__node *const *nodes, size_t n,
                      tn_tensor **out)
{
    bool ok = true;
    for (size_t i = 0; i < n; i++) ok = ok && nodes[i];
    for (size_t i = 0; i < n; i++) tn__node_ref(nodes[i]);
    tn__call_done(c);
    for (size_t i = 0; i < n; i++) {
        tn__call one;
        tn__call_begin(&one, name);
        out[i] = tn__call_end(&one, ok ? nodes[i] : NULL);
        tn__node_unref(nodes[i]);
    }
    return ok;
}

tn_tensor *tn__call_end_two(tn__call *c, const char *name, tn__node *result, tn__node *second,
                            tn_tensor **extra)
{
    if (!extra) return tn__call_end(c, result);
    tn_tensor *out[2];
    tn__call_end_all(c, name, (tn__node *[]){result, second}, 2, out);
    *extra = out[1];
    return out[0];
}

tn__node **tn__in_all(const char *op, const tn_inputs *xs)
{
    if (!xs || !xs->n) {
        tn__fail(xs ? TN_EVALUE : TN_ENULL, "%s: no tensors: give IN(..) with at least one", op);
        return NULL;
    }
    tn__node **nodes = tn__alloc(xs->n * sizeof *nodes);
    for (size_t i = 0; nodes && i < xs->n; i++) {
        nodes[i] = tn__in(xs->t[i]);
        if (nodes[i]) continue;
        tn__free(nodes);
        return NULL;
    }
    return nodes;
}

tn__node *tn__reverse_axes(tn__node *x)
{
    if (!x) return NULL;
    int order[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) order[i] = x->rank - 1 - i;
    return tn__permute(x, order);
}
