/* SPDX-License-Identifier: MIT */
/*
 * Pooling and resizing over the last axes: pad, WINDOW, REDUCE.  What is padded for a maximum is the least
 * value of the dtype, put there by a mask.
 */
#include "tensor/ops.h"
#include <math.h>
#include <string.h>

/* Pads with room for windows that begin inside but end behind the input (ceil mode). */
static tn__window_args padded(const tn__node *x, const tn__window_args *a, bool ceil_mode)
{
    tn__window_args r = *a;
    for (int i = 0; i < a->n && ceil_mode; i++) {
        int64_t in = x->dims[x->rank - a->n + i], span = tn__span(a->kernel[i], a->dilation[i]);
        int64_t all = in + a->before[i] + a->after[i];
        int64_t o = all < span ? 0 : (all - span + a->stride[i] - 1) / a->stride[i] + 1;
        if (o > 0 && (o - 1) * a->stride[i] >= in + a->before[i])
            o--; /* would begin in the padding behind */
        int64_t need = o > 0 ? (o - 1) * a->stride[i] + span - all : 0;
        if (need > 0) r.after[i] += need;
    }
    return r;
}

static bool pool_fits(const char *op, const tn__node *x, const tn__window_args *a)
{
    if (x->rank >= a->n && x->rank + a->n <= TN_MAX_RANK) return true;
    return tn__fail(TN_ESHAPE,
                    "%s: %s with %d spatial axes: the input needs as many, and at most %d in all",
                    op, tn__shape_text(x->dims, x->rank), a->n, TN_MAX_RANK - a->n);
}

/* Pads of all axes from those of the spatial ones. */
static void all_pads(const tn__node *x, const tn__window_args *a, int64_t *before, int64_t *after)
{
    memset(before, 0, TN_MAX_RANK * sizeof *before);
    memset(after, 0, TN_MAX_RANK * sizeof *after);
    for (int i = 0; i < a->n; i++) {
        before[x->rank - a->n + i] = a->before[i];
        after[x->rank - a->n + i] = a->after[i];
    }
}

/* Mask of the kernel axes after windows over the last a->n axes of a tensor of this rank. */
static unsigned kernel_axes(int rank, int n)
{
    unsigned m = 0;
    for (int i = 0; i < n; i++) m |= 1u << (rank - n + 2 * i + 1);
    return m;
}

static tn__node *pooled(tn__op op, const char *name, tn__node *x, const tn__window_args *a)
{
    if (!x) return NULL;
    unsigned m = kernel_axes(x->rank, a->n);
    return tn__drop_axes(tn__reduce(op, tn__windows(name, x, x->rank - a->n, a), m), m, false);
}

tn__node *tn__avg_pool(tn__node *x, const tn__window_args *a, bool ceil_mode, bool count_pad)
{
    x = tn__strong(x);
    if (!x || !pool_fits("avg_pool2d", x, a)) return NULL;
    int64_t before[TN_MAX_RANK], after[TN_MAX_RANK], none[TN_MAX_RANK] = {0}, dims[TN_MAX_RANK],
                                                     k = 1;
    tn_dtype out = tn__dtype_to_float((tn_dtype)x->dt);
    tn__window_args p = padded(x, a, ceil_mode);
    if (!tn__windows_fit("avg_pool2d", x, x->rank - p.n, &p)) return NULL;
    all_pads(x, &p, before, after);
    tn__node *w = tn__to_wide(x),
             *s = pooled(TN_OP_ADD, "avg_pool2d", tn__pad(w, before, after), &p);
    if (!s) return NULL;
    for (int i = 0; i < a->n; i++) k *= a->kernel[i];
    if (count_pad && !ceil_mode)
        return tn__cast(tn__binary(TN_OP_DIV, s, tn__like(s, (double)k)), out);
    /* how much of each window counts */
    for (int i = 0; i < x->rank; i++) dims[i] = i < x->rank - a->n ? 1 : x->dims[i];
    if (count_pad) {
        int64_t b[TN_MAX_RANK], f[TN_MAX_RANK];
        all_pads(x, a, b, f);
        for (int i = 0; i < x->rank; i++)
            dims[i] += b[i] + f[i], after[i] -= f[i], before[i] = none[i];
    }
    tn__node *ones = tn__const_f((tn_dtype)w->dt, 1, dims, x->rank);
    tn__node *n = pooled(TN_OP_ADD, "avg_pool2d", tn__pad(ones, before, after), &p);
    return tn__cast(
        tn__binary(TN_OP_DIV, s, n ? tn__broadcast_to("avg_pool2d", n, s->dims, s->rank) : NULL),
        out);
}

static tn__scalar least(tn_dtype dt)
{
    if (tn__dtype_is_float(dt)) return (tn__scalar){.f = -(double)INFINITY};
    return (tn__scalar){.i = tn__dtype_int_min(dt)};
}

/* Flat position in the plane of the last n axes, in x's shape. */
static tn__node *plane_index(const tn__node *x, int n)
{
    int64_t dims[TN_MAX_RANK], m = 1;
    int rank = x->rank;
    for (int i = 0; i < rank; i++) {
        dims[i] = i < rank - n ? 1 : x->dims[i];
        m *= dims[i];
    }
    tn__node *p = tn__reshape(tn__iota(TN_I32, 0, &m, 1), dims, rank);
    return tn__broadcast_to("max_pool2d", p, x->dims, rank);
}

tn__node *tn__max_pool(tn__node *x, const tn__window_args *a, bool ceil_mode, tn__node **indices)
{
    x = tn__strong(x);
    if (!x || !pool_fits("max_pool2d", x, a)) return NULL;
    int64_t before[TN_MAX_RANK], after[TN_MAX_RANK];
    tn__window_args p = padded(x, a, ceil_mode);
    if (!tn__windows_fit("max_pool2d", x, x->rank - p.n, &p)) return NULL;
    all_pads(x, &p, before, after);
    tn__node *in = tn__pad_with(x, before, after, least((tn_dtype)x->dt));
    if (!indices) return pooled(TN_OP_MAX, "max_pool2d", in, &p);
    int64_t plane = 1;
    for (int i = x->rank - a->n; i < x->rank; i++) plane *= x->dims[i];
    if (plane > INT32_MAX) {
        tn__fail(TN_ESHAPE,
                 "max_pool2d: planes of %lld elements: positions are int32: cut %s first",
                 (long long)plane, tn__shape_text(x->dims, x->rank));
        return NULL;
    }
    unsigned m = kernel_axes(x->rank, a->n);
    tn__node *w = tn__windows("max_pool2d", in, x->rank - a->n, &p),
             *top = tn__reduce(TN_OP_MAX, w, m);
    tn__node *at = tn__pad_with(plane_index(x, a->n), before, after, (tn__scalar){.i = INT32_MAX});
    at = tn__windows("max_pool2d", at, x->rank - a->n, &p);
    if (!top || !at) return NULL;
    tn__node *hit = tn__binary(TN_OP_EQ, w, tn__broadcast_to("max_pool2d", top, w->dims, w->rank));
    if (tn__dtype_is_float((tn_dtype)x->dt)) hit = tn__binary(TN_OP_OR, hit, tn__isnan(w));
    at = tn__where(hit, at, tn__const_i(TN_I32, INT32_MAX, at->dims, at->rank));
    *indices = tn__drop_axes(tn__reduce(TN_OP_MIN, at, m), m, false);
    return *indices ? tn__drop_axes(top, m, false) : NULL;
}

/* Values back to where max_pool2d found them, zeros elsewhere. */
tn__node *tn__max_unpool(tn__node *x, tn__node *idx, const tn__window_args *a, const int64_t *size)
{
    x = tn__strong(x);
    if (!x || !idx || !pool_fits("max_unpool2d", x, a)) return NULL;
    int64_t dims[TN_MAX_RANK], b = 1, v = 1, n = 1;
    int lead = x->rank - a->n;
    bool fits = idx->rank == x->rank && tn__dtype_is_int((tn_dtype)idx->dt);
    for (int i = 0; i < x->rank; i++) {
        fits = fits && idx->dims[i] == x->dims[i];
        dims[i] = x->dims[i];
        if (i < lead) {
            b *= dims[i];
            continue;
        }
        int s = i - lead;
        n *= dims[i];
        const int64_t reach = tn__plus(tn__times(dims[i] - 1, a->stride[s]), a->kernel[s]);
        dims[i] = size ? size[s] : !dims[i] ? 0 : tn__minus(reach, a->before[s] + a->after[s]);
        v = tn__times(v, dims[i]);
    }
    if (!fits) {
        tn__fail(TN_ESHAPE,
                 "max_unpool2d: %s by indices %s: takes integers of the same shape, as max_pool2d "
                 "gives them",
                 tn__shape_text(x->dims, x->rank), tn__shape_text(idx->dims, idx->rank));
        return NULL;
    }
    if (!tn__dims_fit(dims, x->rank)) {
        tn__fail(TN_ESHAPE,
                 "max_unpool2d: the planes of %s become negative or too large: change "
                 ".output_size, .stride or .padding",
                 tn__shape_text(x->dims, x->rank));
        return NULL;
    }
    tn__node *base = tn__const_i((tn_dtype)x->dt, 0, (int64_t[]){b, v, 1}, 3);
    tn__node *y = tn__scatter(TN_OP_CONST, base, tn__reshape(idx, (int64_t[]){b, n}, 2),
                              tn__reshape(x, (int64_t[]){b, n, 1}, 3));
    return tn__reshape(y, dims, x->rank);
}

/* ---- resizing ---- */

/* Where output element i of the axis lies in the input, as a float. */
static tn__node *place_of(int64_t in, int64_t out, tn__resize_mode mode, bool corners, tn_dtype dt)
{
    tn__node *i = tn__iota(dt, 0, &out, 1);
    double scale = (double)in / (double)(out ? out : 1);
    if (mode == TN__NEAREST) return tn__mul_s(i, scale);
    if (mode == TN__NEAREST_EXACT) return tn__mul_s(tn__add_s(i, 0.5), scale);
    if (corners) return tn__mul_s(i, out > 1 ? (double)(in - 1) / (double)(out - 1) : 0);
    tn__node *p = tn__add_s(tn__mul_s(tn__add_s(i, 0.5), scale), -0.5);
    return p ? tn__clamp(p, tn__like(p, 0), tn__like(p, (double)(in - 1))) : NULL;
}

static tn__node *resize_axis(tn__node *x, int axis, int64_t out, tn__resize_mode mode, bool corners)
{
    int64_t in = x->dims[axis];
    tn_dtype dt = x->dt == TN_F64 ? TN_F64 : TN_F32, it = in > INT32_MAX ? TN_I64 : TN_I32;
    tn__node *p = place_of(in, out, mode, corners, dt);
    tn__node *lo = tn__cast(tn__unary(TN_OP_FLOOR, p), it);
    tn__node *last = lo ? tn__const_i(it, in - 1, lo->dims, 1) : NULL;
    lo = tn__binary(TN_OP_MIN, lo, last);
    if (mode != TN__LINEAR) return tn__take(x, axis, lo);
    tn__node *hi = tn__binary(TN_OP_MIN, lo ? tn__add_s(lo, 1) : NULL, last);
    tn__node *w = tn__binary(TN_OP_SUB, p, tn__cast(lo, dt));
    if (!w) return NULL;
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = i == axis ? out : 1;
    w = tn__reshape(w, dims, x->rank);
    return tn__lerp(tn__take(x, axis, lo), tn__take(x, axis, hi), w);
}

tn__node *tn__interpolate(tn__node *x, const int64_t *size, size_t n, tn__resize_mode mode,
                          bool corners)
{
    x = tn__strong(x);
    if (!x) return NULL;
    bool fits = n > 0 && n <= x->rank;
    for (size_t i = 0; fits && i < n; i++)
        fits = size[i] >= 1 && x->dims[(size_t)x->rank - n + i] >= 1;
    if (!fits) {
        tn__fail(TN_ESHAPE,
                 "interpolate: %s to %s: a size of at least 1 for each of the last axes, of which "
                 "none is empty",
                 tn__shape_text(x->dims, x->rank),
                 tn__shape_text(size, n > TN_MAX_RANK ? TN_MAX_RANK : (int)n));
        return NULL;
    }
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    memcpy(dims + x->rank - n, size, n * sizeof *dims);
    if (!tn__dims_check("interpolate", dims, x->rank)) return NULL;
    tn_dtype out = mode == TN__LINEAR ? tn__dtype_to_float((tn_dtype)x->dt) : (tn_dtype)x->dt;
    tn__node *y = mode == TN__LINEAR ? tn__to_wide(x) : x;
    for (size_t i = 0; i < n && y; i++) {
        int axis = x->rank - (int)n + (int)i;
        if (y->dims[axis] != size[i]) y = resize_axis(y, axis, size[i], mode, corners);
    }
    return tn__cast(y, out);
}
