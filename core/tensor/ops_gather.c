/* SPDX-License-Identifier: MIT */
/*
 * gather and scatter along an axis, selection by masks.  Each moves the axis to the end, so that the
 * primitives see one row an element of the other axes: (B, V, 1) and (B, N).
 */
#include "tensor/ops.h"
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

/* idx may be smaller than x along the axes other than `axis`. */
static bool index_fits(const char *op, const tn__node *x, const tn__node *idx, int axis)
{
    bool fits = x->rank == idx->rank;
    for (int i = 0; fits && i < x->rank; i++) fits = i == axis || idx->dims[i] <= x->dims[i];
    return fits ||
           tn__fail(
               TN_ESHAPE,
               "%s: indices %s for %s along axis %d: as many axes, and none but that one larger",
               op, text(idx), text(x), axis);
}

static tn__node *as_vector(tn__node *x)
{
    return x && !x->rank ? tn__reshape(x, (int64_t[]){1}, 1) : x;
}

/* x cut to idx's sizes on all axes but `axis`. */
static tn__node *cut_to(tn__node *x, const tn__node *idx, int axis)
{
    int64_t first[TN_MAX_RANK] = {0}, size[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) size[i] = i == axis ? x->dims[i] : idx->dims[i];
    return tn__shrink(x, first, size);
}

/* `axis` last, then (rows, size of the axis). */
static tn__node *rows_of(tn__node *x, int axis, bool element)
{
    x = x ? tn__move_axis(x, axis, x->rank - 1) : NULL;
    if (!x) return NULL;
    int64_t v = x->dims[x->rank - 1], b = 1;
    for (int i = 0; i < x->rank - 1; i++) b *= x->dims[i];
    return tn__reshape(x, (int64_t[]){b, v, 1}, element ? 3 : 2);
}

/* Back from (rows, n, 1) to the shape of `like`, whose axis is in its place. */
static tn__node *rows_back(tn__node *y, const tn__node *like, int axis)
{
    if (!y) return NULL;
    int64_t dims[TN_MAX_RANK];
    int k = 0;
    for (int i = 0; i < like->rank; i++)
        if (i != axis) dims[k++] = like->dims[i];
    dims[k++] = like->dims[axis];
    return tn__move_axis(tn__reshape(y, dims, k), k - 1, axis);
}

tn__node *tn__gather_dim(tn__node *x, int axis, tn__node *idx)
{
    tn__node *shape = idx;
    x = as_vector(tn__strong(x));
    idx = as_vector(tn__strong(idx));
    if (!x || !idx || !tn__axis_of("gather", x, axis, &axis) || !index_fits("gather", x, idx, axis))
        return NULL;
    tn__node *at = tn__index_wrap(idx, x->dims[axis]);
    tn__node *y = tn__gather(rows_of(cut_to(x, idx, axis), axis, true), rows_of(at, axis, false));
    return tn__reshape_like(rows_back(y, idx, axis), shape);
}

/* ---- scatter ---- */

static tn__op combine(tn__scatter_mode m)
{
    switch (m) {
    case TN__SET: return TN_OP_CONST;
    case TN__R_SUM:
    case TN__R_MEAN: return TN_OP_ADD;
    case TN__R_PROD: return TN_OP_MUL;
    case TN__R_MAX: return TN_OP_MAX;
    case TN__R_MIN: return TN_OP_MIN;
    }
    return TN_OP_CONST;
}

/* The value that changes nothing. */
static tn__node *neutral(tn__node *like, tn__scatter_mode m)
{
    tn_dtype dt = (tn_dtype)like->dt;
    bool flt = tn__dtype_is_float(dt);
    if (m == TN__R_PROD) return tn__like(like, 1);
    if (m != TN__R_MAX && m != TN__R_MIN) return tn__like(like, 0);
    if (flt)
        return tn__like(like, m == TN__R_MAX ? -(double)__builtin_inf() : (double)__builtin_inf());
    if (m == TN__R_MAX) return tn__const_i(dt, tn__dtype_int_min(dt), like->dims, like->rank);
    return tn__const(dt, (tn__scalar){.u = tn__dtype_int_max(dt)}, like->dims, like->rank);
}

/* All operands as rows. */
static tn__node *scatter_rows(tn__node *base, tn__node *idx, tn__node *src, tn__scatter_mode m,
                              bool with_base)
{
    if (!base || !idx || !src) return NULL;
    if (with_base && m != TN__R_MEAN) return tn__scatter(combine(m), base, idx, src);
    tn__node *hits = tn__scatter(TN_OP_ADD, tn__const_i(TN_I32, 0, base->dims, 3), idx,
                                 tn__const_i(TN_I32, 1, src->dims, 3));
    tn__node *hit = tn__bool(hits),
             *start = with_base ? base : tn__where(hit, neutral(base, m), base);
    tn__node *y = tn__scatter(combine(m), start, idx, src);
    if (m != TN__R_MEAN) return y;
    tn__node *count = with_base ? tn__add_s(hits, 1)
                                : tn__where(hit, hits, hits ? tn__like(hits, 1) : NULL);
    bool flt = tn__dtype_is_float((tn_dtype)base->dt);
    return tn__binary(flt ? TN_OP_DIV : TN_OP_IDIV, y, tn__cast(count, (tn_dtype)base->dt));
}

tn__node *tn__scatter_dim(tn__node *x, int axis, tn__node *idx, tn__node *src, tn__scatter_mode m,
                          bool with_base)
{
    tn__node *shape = tn__strong(x);
    x = as_vector(shape);
    idx = as_vector(tn__strong(idx));
    if (!x || !idx || !src || !tn__axis_of("scatter", x, axis, &axis) ||
        !index_fits("scatter", x, idx, axis))
        return NULL;
    if (tn__is_weak(src)) src = tn__weak_as(src, (tn_dtype)x->dt);
    src = tn__cast(src, (tn_dtype)x->dt);
    if (src && !src->rank) src = tn__broadcast_to("scatter", src, idx->dims, idx->rank);
    if (!src) return NULL;
    bool fits = src->rank == idx->rank;
    for (int i = 0; fits && i < idx->rank; i++) fits = idx->dims[i] <= src->dims[i];
    if (!fits) {
        tn__fail(TN_ESHAPE,
                 "scatter: %s for indices %s: the source must be as large along every axis",
                 text(src), text(idx));
        return NULL;
    }
    if (!tn__node_numel(idx)) return shape;
    src = cut_to(tn__slice(src, axis, 0, idx->dims[axis]), idx, axis);
    tn__node *part = cut_to(x, idx, axis), *at = tn__index_wrap(idx, x->dims[axis]);
    tn__node *y = scatter_rows(rows_of(part, axis, true), rows_of(at, axis, false),
                               rows_of(src, axis, true), m, with_base);
    y = rows_back(y, part, axis);
    if (part != x && y) { /* the rest of x around it */
        int64_t before[TN_MAX_RANK] = {0}, after[TN_MAX_RANK];
        for (int i = 0; i < x->rank; i++) after[i] = x->dims[i] - part->dims[i];
        y = tn__where(tn__pad_mask(y, before, after), tn__pad(y, before, after), x);
    }
    return tn__reshape_like(y, shape);
}

/* ---- masks ---- */

/* The first `size` elements of src (P each) where the flat mask is true, then fill: the running count of
 * the mask is where each goes, and what goes nowhere lands on one more row that is cut off. */
static tn__node *compact(const char *op, tn__node *mask, tn__node *src, tn__node *fill,
                         int64_t size)
{
    if (!mask || !src || !fill) return NULL;
    int64_t n = mask->dims[0], p = src->dims[2];
    tn_dtype it = n > INT32_MAX || size > INT32_MAX ? TN_I64 : TN_I32;
    fill = tn__broadcast_to(op, fill, (int64_t[]){1, size + 1, p}, 3);
    if (!n) return tn__slice(fill, 1, 0, size);
    tn__node *at = tn__add_s(tn__scan(TN_OP_ADD, tn__cast(mask, it), 0), -1);
    tn__node *last = at ? tn__const_i(it, size, at->dims, 1) : NULL;
    at = tn__where(mask, tn__binary(TN_OP_MIN, at, last), last);
    return tn__slice(tn__scatter(TN_OP_CONST, fill, tn__reshape(at, (int64_t[]){1, n}, 2), src), 1,
                     0, size);
}

static bool size_given(const char *op, int64_t size, int64_t each)
{
    if (size < 0)
        return tn__fail(TN_EVALUE,
                        "%s: size %lld: shapes are fixed, so the number of results must be given",
                        op, (long long)size);
    return tn__dims_fit((int64_t[]){tn__plus(size, 1), each}, 2) ||
           tn__fail(TN_EVALUE, "%s: size %lld: the number of elements does not fit 60 bits", op,
                    (long long)size);
}

tn__node *tn__masked_select(tn__node *x, tn__node *mask, int64_t size, tn__node *fill)
{
    tn__node *xs[2] = {tn__strong(x), tn__bool(mask)};
    if (!size_given("masked_select", size, 1) || !tn__broadcast("masked_select", xs, 2) || !fill)
        return NULL;
    tn_dtype dt = (tn_dtype)xs[0]->dt;
    int64_t n = tn__node_numel(xs[0]);
    fill = tn__cast(fill, dt);
    tn__node *y = compact("masked_select", tn__reshape(xs[1], &n, 1),
                          tn__reshape(xs[0], (int64_t[]){1, n, 1}, 3), fill, size);
    return tn__reshape(y, &size, 1);
}

tn__node *tn__nonzero(tn__node *x, int64_t size, double fill)
{
    x = tn__bool(x);
    if (!x || !size_given("nonzero", size, x->rank)) return NULL;
    int64_t n = tn__node_numel(x), rank = x->rank, dims[2] = {size, rank};
    for (int i = 0; i < rank; i++) {
        if (x->dims[i] <= INT32_MAX) continue;
        tn__fail(TN_ESHAPE, "nonzero: axis %d of %s: positions are int32: cut it first", i,
                 text(x));
        return NULL;
    }
    if (!rank) return tn__const_f(TN_I32, fill, dims, 2);
    tn__node *parts[TN_MAX_RANK];
    for (int i = 0; i < rank; i++)
        parts[i] = tn__reshape(tn__index_along(x, i, TN_I32), (int64_t[]){1, n, 1}, 3);
    tn__node *y = compact("nonzero", tn__reshape(x, &n, 1), tn__cat(parts, (size_t)rank, 2),
                          tn__const_f(TN_I32, fill, NULL, 0), size);
    return tn__reshape(y, dims, 2);
}
