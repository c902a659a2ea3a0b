/* SPDX-License-Identifier: MIT */
/*
 * Running reductions and sorting, on SCAN and SORT.  Values are picked by GATHER at the sorted positions,
 * so NaN survives and gradients go back to where the values came from.
 */
#include "tensor/ops.h"
#include <math.h>

static tn_dtype dt_of(const tn__node *x) { return (tn_dtype)x->dt; }

/* x with at least one axis, and the axis; the caller reshapes its result like x. */
static tn__node *along(const char *op, tn__node *x, int *axis)
{
    if (!x || !tn__axis_of(op, x, *axis, axis)) return NULL;
    return x->rank ? x : tn__reshape(x, (int64_t[]){1}, 1);
}

tn__node *tn__cumsum(tn__node *x, int axis)
{
    x = tn__strong(x);
    tn__node *v = along("cumsum", x, &axis);
    if (!v) return NULL;
    tn__node *y = tn__scan(TN_OP_ADD, tn__to_acc(v), axis);
    if (tn__dtype_is_float(dt_of(x))) y = tn__cast(y, dt_of(x));
    return tn__reshape_like(y, x);
}

tn__node *tn__cumprod(tn__node *x, int axis)
{
    x = tn__strong(x);
    tn__node *v = along("cumprod", x, &axis);
    if (!v) return NULL;
    bool narrow = x->dt == TN_F16 || x->dt == TN_BF16;
    tn__node *y = tn__scan(TN_OP_MUL, narrow ? tn__cast(v, TN_F32) : v, axis);
    return tn__reshape_like(tn__cast(y, dt_of(x)), x);
}

/* The index is the latest position whose element is the running extreme, or NaN. */
static tn__node *running(const char *name, tn__op op, tn__node *x, int axis, tn__node **indices)
{
    x = tn__strong(x);
    tn__node *v = along(name, x, &axis), *y = tn__scan(op, v, axis);
    if (!y) return NULL;
    if (indices) {
        tn__node *hit = tn__binary(TN_OP_EQ, v, y);
        if (tn__dtype_is_float(dt_of(v))) hit = tn__binary(TN_OP_OR, hit, tn__isnan(v));
        tn__node *at = tn__index_along(v, axis, TN_I32);
        at = tn__scan(TN_OP_MAX,
                      tn__where(hit, at, at ? tn__const_i(TN_I32, 0, at->dims, at->rank) : NULL),
                      axis);
        if (!(*indices = tn__reshape_like(at, x))) return NULL;
    }
    return tn__reshape_like(y, x);
}

tn__node *tn__cummax(tn__node *x, int axis, tn__node **indices)
{
    return running("cummax", TN_OP_MAX, x, axis, indices);
}

tn__node *tn__cummin(tn__node *x, int axis, tn__node **indices)
{
    return running("cummin", TN_OP_MIN, x, axis, indices);
}

/* Doubling: after the step of distance d each element covers the 2 d elements up to it.  Accurate where
 * the terms differ by any factor, unlike a sum of exponentials about one maximum. */
tn__node *tn__logcumsumexp(tn__node *x, int axis)
{
    x = tn__to_float(x);
    tn__node *y = tn__to_wide(along("logcumsumexp", x, &axis));
    if (!y) return NULL;
    int64_t n = y->dims[axis];
    for (int64_t d = 1; d < n && y; d *= 2) {
        int64_t before[TN_MAX_RANK] = {0}, none[TN_MAX_RANK] = {0};
        before[axis] = d;
        tn__node *earlier = tn__pad_with(tn__slice(y, axis, 0, n - d), before, none,
                                         (tn__scalar){.f = -(double)INFINITY});
        y = tn__logaddexp(y, earlier);
    }
    return y ? tn__reshape_like(tn__cast(y, dt_of(x)), x) : NULL;
}

/* Positions along the axis, which is last in `moved` and in the result. */
static tn__node *sorted(const char *name, tn__node *x, int *axis, bool descending, tn__node **moved)
{
    tn__node *v = along(name, x, axis);
    *moved = v ? tn__move_axis(v, *axis, v->rank - 1) : NULL;
    return tn__argsort(*moved, descending);
}

tn__node *tn__argsort_dim(tn__node *x, int axis, bool descending)
{
    x = tn__strong(x);
    tn__node *v, *at = sorted("argsort", x, &axis, descending, &v);
    return at ? tn__reshape_like(tn__move_axis(at, at->rank - 1, axis), x) : NULL;
}

static tn__node *values_at(tn__node *v, tn__node *at)
{
    if (!v || !at) return NULL;
    int64_t n = v->dims[v->rank - 1], k = at->dims[at->rank - 1], b = 1;
    for (int i = 0; i < v->rank - 1; i++) b *= v->dims[i];
    tn__node *y = tn__gather(tn__reshape(v, (int64_t[]){b, n, 1}, 3),
                             tn__reshape(at, (int64_t[]){b, k}, 2));
    return tn__reshape_like(y, at);
}

tn__node *tn__sort(tn__node *x, int axis, bool descending, tn__node **indices)
{
    x = tn__strong(x);
    tn__node *v, *at = sorted("sort", x, &axis, descending, &v), *y = values_at(v, at);
    if (!y) return NULL;
    if (indices && !(*indices = tn__reshape_like(tn__move_axis(at, at->rank - 1, axis), x)))
        return NULL;
    return tn__reshape_like(tn__move_axis(y, y->rank - 1, axis), x);
}

tn__node *tn__topk(tn__node *x, int64_t k, int axis, bool largest, tn__node **indices)
{
    x = tn__strong(x);
    tn__node *v, *at = sorted("topk", x, &axis, largest, &v);
    if (!at) return NULL;
    int64_t n = at->dims[at->rank - 1];
    if (k < 0 || k > n) {
        tn__fail(TN_EVALUE, "topk: %lld of axis %d of %s: must be in 0..%lld", (long long)k, axis,
                 tn__shape_text(x->dims, x->rank), (long long)n);
        return NULL;
    }
    at = tn__slice(at, at->rank - 1, 0, k);
    tn__node *y = values_at(v, at);
    if (!y) return NULL;
    y = tn__move_axis(y, y->rank - 1, axis);
    at = tn__move_axis(at, at->rank - 1, axis);
    bool scalar = !x->rank && k == 1;
    if (indices && !(*indices = scalar ? tn__reshape(at, NULL, 0) : at)) return NULL;
    return scalar ? tn__reshape(y, NULL, 0) : y;
}
