/* SPDX-License-Identifier: MIT */
/*
 * Public writes: assign, whole and through windows; what comes from the host; moves between
 * devices.
 *
 * A write gives the cell a new version and joins the thread's effect list; nothing is computed.
 * All operands are checked before anything changes.
 */
#include "tensor/make.h"
#include "tensor/slot.h"
#include "device/device.h"
#include <inttypes.h>
#include <tenon/core.h>

/* src in the shape, dtype and place of dst; storage that somebody else owns is copied. */
static tn__node *fitted(tn__node *src, const tn__node *dst, const tn__placement *place)
{
    if (!src) return NULL;
    int extra = dst->rank - src->rank;
    bool fits = extra >= 0;
    for (int i = 0; fits && i < src->rank; i++)
        fits = src->dims[i] == 1 || src->dims[i] == dst->dims[i + extra];
    if (!fits) {
        tn__fail(TN_ESHAPE, "assign: %s into %s: the value must broadcast to the target's shape",
                 tn__dims_of(src), tn__dims_of(dst));
        return NULL;
    }
    tn__node *v = tn__cast(tn__expand(src, dst->dims, dst->rank), (tn_dtype)dst->dt);
    if (v && place && v->place && v->place != place) v = tn__copy_to(v, place);
    bool stored = v && (v->op == TN_OP_PARAM || atomic_load(&v->val) || atomic_load(&v->kept));
    return stored ? tn__contiguous_copy(v) : v;
}

/* The window's chain over the cell's own node, without a parameter's wrap. */
static tn__node *chain_of(tn__slot *s, tn__cell *c)
{
    tn__node *top = tn__slot_in(s, true);
    tn__merging.since = tn__node_next();
    tn__merging.held = c->cur;
    return top ? tn__chain_over(top, s->base, c->cur) : NULL;
}

static bool assign(tn_tensor *dst, tn_tensor *src)
{
    tn__node *value = tn__in(src);
    tn__slot *s = tn__slot_get(dst);
    tn__cell *c = s && value ? tn__slot_cell(s, true) : NULL;
    if (!c) return false;
    if (!s->window)
        return tn__cell_in(c) && tn__cell_write(c, fitted(value, c->cur, c->cur->place));
    tn__node *view = chain_of(s, c);
    value = view ? fitted(value, view, view->place) : NULL;
    return tn__cell_write(c, tn__update(c->cur, value, view));
}

tn_tensor *(tn_assign)(tn_tensor *dst, tn_tensor *src)
{
    tn__call c;
    tn__call_begin(&c, "tn_assign");
    if (!assign(dst, src)) return tn__call_end(&c, NULL);
    tn__call_done(&c);
    return dst;
}

/* ---- another value under the same name ---- */

/* The slot's handle stands for n, whatever it stood for; what views and expressions show stays. */
static bool rebind(tn__slot *s, tn__node *n)
{
    tn__cell *old = atomic_load(&s->cell), *c = tn__cell_new(n);
    if (!c) return false;
    if (old && !s->window) {
        if (old->param && tn__dtype_is_float((tn_dtype)n->dt) && !tn__cell_mark(c)) {
            tn__cell_unref(c);
            return false;
        }
        c->buffer = old->buffer;
    }
    const bool kept = atomic_load(&s->kept) != 0;
    if (kept) tn__cell_keep(c, 1);
    if (kept && old) tn__cell_keep(old, -1);
    tn__node_unref(s->node);
    tn__node_unref(s->base);
    s->node = s->base = NULL;
    s->window = false;
    atomic_store(&s->cell, c);
    tn__cell_unref(old);
    return true;
}

static bool replace(tn_tensor *t, tn_tensor *x)
{
    tn__node *value = tn__in(x);
    tn__slot *s = tn__slot_get(t);
    tn__node *was = s && value ? tn__slot_in(s, false) : NULL;
    if (!was) return false;
    if (!tn__same_dims(was, value))
        return tn__fail(TN_ESHAPE, "replace: %s by %s: the shapes must be equal", tn__dims_of(was),
                        tn__dims_of(value));
    if (tn__capture)
        return tn__fail(TN_ESTATE, "replace: inside a capture, which would not see it: tn_assign "
                                   "writes what a replay writes again");
    bool stored = value->op == TN_OP_PARAM || atomic_load(&value->val) || atomic_load(&value->kept);
    if (stored) value = tn__contiguous_copy(value);
    return value && rebind(s, value);
}

tn_tensor *(tn_replace)(tn_tensor *t, tn_tensor *x)
{
    tn__call c;
    tn__call_begin(&c, "tn_replace");
    if (!replace(t, x)) return tn__call_end(&c, NULL);
    tn__call_done(&c);
    return t;
}

/* ---- from the host ---- */

/* Options with their defaults filled in, whatever size the caller's struct has. */
static bool options(const tn_data_opts *o, const tn_shape *shape, const void *ptr,
                    tn_data_opts *out, const tn__placement **place)
{
    *out = (tn_data_opts){.size = sizeof *out};
    if (o && o->size >= sizeof *o) *out = *o;
    if (!out->dtype) out->dtype = tn__dtype_default_float();
    if (!shape)
        return tn__fail(TN_ENULL, "from_data: the shape is NULL: write SHAPE(2, 3), or SHAPE0");
    if (shape->n > TN_MAX_RANK)
        return tn__fail(TN_ESHAPE, "from_data: %zu axes: a tensor has 0 to %d", shape->n,
                        TN_MAX_RANK);
    if (!tn__dims_check("from_data", shape->d, (int)shape->n)) return false;
    if (out->dtype >= TN_DTYPES)
        return tn__fail(TN_EDTYPE, "from_data: %d is no dtype", (int)out->dtype);
    bool empty = false;
    for (size_t i = 0; i < shape->n; i++) empty = empty || !shape->d[i];
    if (!ptr && !empty) return tn__fail(TN_ENULL, "from_data: the data is NULL");
    tn__device *d = out->device ? tn__device_get(out->device) : tn__device_default();
    *place = d ? tn__placement_one(d) : NULL;
    return *place != NULL;
}

/* No overflow: a shape that passed tn__dims_check fits 60 bits. */
static size_t byte_count(const tn_shape *shape, tn_dtype dt)
{
    size_t bytes = tn__dtype_size(dt);
    for (size_t i = 0; i < shape->n; i++) bytes *= (size_t)shape->d[i];
    return bytes;
}

tn_tensor *(tn_from_data)(const void *ptr, const tn_shape *shape, const tn_data_opts *o)
{
    tn__call c;
    tn_data_opts opt;
    const tn__placement *p;
    tn__node *n = NULL;
    tn__call_begin(&c, "tn_from_data");
    if (options(o, shape, ptr, &opt, &p)) {
        const size_t bytes = byte_count(shape, opt.dtype);
        tn__value *v = tn__value_new(p, bytes);
        if (v && bytes && !tn__buffer_write(v->buf[0], v->offset, ptr, bytes)) {
            tn__value_unref(v);
            v = NULL;
        }
        n = tn__leaf(v, opt.dtype, shape->d, (int)shape->n, p);
    }
    return tn__call_end(&c, n);
}

tn_tensor *(tn_from_ptr)(void *ptr, const tn_shape *shape, const tn_data_opts *o)
{
    tn__call c;
    tn_data_opts opt;
    const tn__placement *p;
    tn__call_begin(&c, "tn_from_ptr");
    if (!options(o, shape, ptr, &opt, &p)) return tn__call_end(&c, NULL);
    const size_t bytes = byte_count(shape, opt.dtype);
    tn__buffer *b = tn__buffer_wrap(p->dev[0], ptr, bytes, opt.release, opt.user);
    bool borrowed = b && tn__buffer_borrowed(b);
    tn__value *v = b ? tn__value_of(b) : NULL;
    tn_tensor *t = tn__call_end(&c, tn__leaf(v, opt.dtype, shape->d, (int)shape->n, p));
    tn__cell *cell = borrowed && !tn_bad(t) ? tn__cell_of(t) : NULL;
    if (cell) cell->pinned = true;
    return t;
}

tn_tensor *(tn_to)(tn_tensor *t, const char *device)
{
    tn__call c;
    tn__call_begin(&c, "tn_to");
    tn__node *x = tn__in(t);
    tn__device *d = x ? tn__device_get(device) : NULL;
    const tn__placement *p = d ? tn__placement_one(d) : NULL;
    return tn__call_end(&c, p ? tn__copy_to(x, p) : NULL);
}
