/* SPDX-License-Identifier: MIT */
/*
 * Reductions.  Sums accumulate in at least int32, uint32 or float32; sums of float16 and bfloat16 are cast
 * back.  NaN goes through max, min, argmax and argmin; equal extremes give the first position.
 */
#include "tensor/ops.h"
#include <math.h>

static tn_dtype dt_of(const tn__node *x) { return (tn_dtype)x->dt; }

static unsigned masked(const tn__node *x, unsigned axes)
{
    return axes == TN__ALL_AXES ? tn__mask_all(x) : axes & tn__mask_all(x);
}

static int64_t count(const tn__node *x, unsigned axes)
{
    int64_t n = 1;
    for (int i = 0; i < x->rank; i++)
        if (axes >> i & 1) n *= x->dims[i];
    return n;
}

tn__node *tn__drop_axes(tn__node *x, unsigned mask, bool keepdim)
{
    if (!x || keepdim) return x;
    int64_t dims[TN_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!(mask >> i & 1)) dims[rank++] = x->dims[i];
    return tn__reshape(x, dims, rank);
}

/* x, whose axes in the mask have size 1, in the shape of `like`. */
static tn__node *stretch(tn__node *x, const tn__node *like)
{
    return x && like ? tn__broadcast_to("expand", x, like->dims, like->rank) : NULL;
}

tn__node *tn__sum(tn__node *x, unsigned axes, bool keepdim, tn_dtype dt)
{
    x = tn__strong(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    bool chosen = dt != TN_DTYPE_DEFAULT;
    tn_dtype in = dt_of(x), acc = chosen ? dt : tn__dtype_sum(in);
    tn__node *y = tn__reduce(TN_OP_ADD, tn__cast(x, acc), axes);
    if (!chosen && tn__dtype_is_float(in)) y = tn__cast(y, in);
    return tn__drop_axes(y, axes, keepdim);
}

tn__node *tn__prod(tn__node *x, unsigned axes, bool keepdim, tn_dtype dt)
{
    x = tn__strong(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    tn_dtype in = dt != TN_DTYPE_DEFAULT ? dt : dt_of(x);
    bool narrow = in == TN_F16 || in == TN_BF16;
    tn__node *y = tn__reduce(TN_OP_MUL, tn__cast(x, narrow ? TN_F32 : in), axes);
    return tn__drop_axes(tn__cast(y, in), axes, keepdim);
}

static tn__node *extreme(const char *name, tn__op op, tn__node *x, unsigned axes, bool keepdim)
{
    x = tn__strong(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    if (!count(x, axes)) {
        tn__fail(TN_ESHAPE,
                 "%s: %s has no elements along the reduced axes: there is no extreme of nothing",
                 name, tn__shape_text(x->dims, x->rank));
        return NULL;
    }
    return tn__drop_axes(tn__reduce(op, x, axes), axes, keepdim);
}

tn__node *tn__max(tn__node *x, unsigned axes, bool keepdim)
{
    return extreme("max", TN_OP_MAX, x, axes, keepdim);
}

tn__node *tn__min(tn__node *x, unsigned axes, bool keepdim)
{
    return extreme("min", TN_OP_MIN, x, axes, keepdim);
}

static tn__node *truth(tn__op op, tn__node *x, unsigned axes, bool keepdim)
{
    x = tn__bool(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    return tn__drop_axes(tn__reduce(op, x, axes), axes, keepdim);
}

tn__node *tn__any(tn__node *x, unsigned axes, bool keepdim)
{
    return truth(TN_OP_ADD, x, axes, keepdim);
}

tn__node *tn__all(tn__node *x, unsigned axes, bool keepdim)
{
    return truth(TN_OP_MUL, x, axes, keepdim);
}

/* ---- moments, in at least float32; integers give the default float ---- */

static tn__node *mean_wide(tn__node *x, unsigned axes)
{
    if (!x) return NULL;
    tn__node *s = tn__reduce(TN_OP_ADD, x, axes);
    return tn__binary(TN_OP_DIV, s, s ? tn__like(s, (double)count(x, axes)) : NULL);
}

tn__node *tn__mean(tn__node *x, unsigned axes, bool keepdim)
{
    x = tn__strong(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    tn__node *m = mean_wide(tn__to_wide(x), axes);
    return tn__drop_axes(tn__cast(m, tn__dtype_to_float(dt_of(x))), axes, keepdim);
}

static tn__node *var_wide(tn__node *x, unsigned axes, double correction)
{
    if (!x) return NULL;
    tn__node *d = tn__binary(TN_OP_SUB, x, stretch(mean_wide(x, axes), x));
    tn__node *s = tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, d, d), axes);
    double n = (double)count(x, axes) - correction;
    return tn__binary(TN_OP_DIV, s, s ? tn__like(s, n > 0 ? n : 0) : NULL);
}

tn__node *tn__var(tn__node *x, unsigned axes, bool keepdim, double correction)
{
    x = tn__strong(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    tn__node *v = var_wide(tn__to_wide(x), axes, correction);
    return tn__drop_axes(tn__cast(v, tn__dtype_to_float(dt_of(x))), axes, keepdim);
}

tn__node *tn__std(tn__node *x, unsigned axes, bool keepdim, double correction)
{
    x = tn__strong(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    tn__node *v = tn__sqrt(var_wide(tn__to_wide(x), axes, correction));
    return tn__drop_axes(tn__cast(v, tn__dtype_to_float(dt_of(x))), axes, keepdim);
}

/* x / max(norm, eps); p 0 counts, INFINITY is the greatest. */
tn__node *tn__normalize(tn__node *x, double p, int axis, double eps)
{
    int a;
    x = tn__to_float(x);
    if (!x || !tn__axis_of("normalize", x, axis, &a)) return NULL;
    unsigned m = x->rank ? 1u << a : 0;
    tn__node *w = tn__to_wide(x), *n;
    if (p == 2)
        n = tn__sqrt(tn__reduce(TN_OP_ADD, tn__square(w), m));
    else if (p == 1)
        n = tn__reduce(TN_OP_ADD, tn__abs(w), m);
    else if (p == 0)
        n = tn__reduce(TN_OP_ADD, tn__cast(tn__bool(w), dt_of(w)), m);
    else if (isinf(p))
        n = tn__max(tn__abs(w), m, true);
    else {
        tn__node *s = tn__reduce(TN_OP_ADD, tn__pow(tn__abs(w), tn__like(w, p)), m);
        n = tn__pow(s, s ? tn__like(s, 1 / p) : NULL);
    }
    n = n ? tn__clamp(n, tn__like(n, eps), NULL) : NULL;
    return tn__cast(tn__binary(TN_OP_DIV, w, stretch(n, w)), dt_of(x));
}

/* ---- exponentials over axes ---- */

/* x less its greatest value, which carries no gradient; 0 instead of infinite ones where `safe`. */
static tn__node *centred(tn__node *x, unsigned axes, bool safe, tn__node **top)
{
    tn__node *m = tn__detach(tn__reduce(TN_OP_MAX, x, axes));
    if (!m) return NULL;
    if (safe) m = tn__where(tn__isinf(m, true, true), tn__like(m, 0), m);
    *top = m;
    return tn__binary(TN_OP_SUB, x, stretch(m, x));
}

tn__node *tn__logsumexp(tn__node *x, unsigned axes, bool keepdim)
{
    x = tn__to_float(x);
    if (!x) return NULL;
    axes = masked(x, axes);
    tn__node *m, *e = tn__exp(centred(tn__to_wide(x), axes, true, &m));
    if (!e) return NULL;
    tn__node *y = tn__binary(TN_OP_ADD, tn__ln(tn__reduce(TN_OP_ADD, e, axes)), m);
    return tn__drop_axes(tn__cast(y, dt_of(x)), axes, keepdim);
}

static tn__node *softmax_in(const char *name, tn__node *x, unsigned *axes, tn_dtype dt,
                            tn_dtype *out)
{
    x = tn__strong(x);
    if (!x) return NULL;
    *axes = masked(x, *axes);
    if (dt != TN_DTYPE_DEFAULT && !tn__dtype_is_float(dt)) {
        tn__fail(TN_EDTYPE, "%s: dtype %s: the result is a float", name, tn__dtype_name(dt));
        return NULL;
    }
    *out = dt != TN_DTYPE_DEFAULT ? dt : tn__dtype_to_float(dt_of(x));
    return tn__to_wide(
        tn__cast(x, dt != TN_DTYPE_DEFAULT ? tn__dtype_promote(dt, dt_of(x)) : dt_of(x)));
}

tn__node *tn__softmax(tn__node *x, unsigned axes, tn_dtype dt)
{
    tn_dtype out;
    tn__node *m;
    x = softmax_in("softmax", x, &axes, dt, &out);
    tn__node *e = x ? tn__exp(centred(x, axes, false, &m)) : NULL;
    return tn__cast(tn__binary(TN_OP_DIV, e, stretch(tn__reduce(TN_OP_ADD, e, axes), e)), out);
}

/* Negated as floats: the least integer has no negative, and unsigned ones have none at all. */
tn__node *tn__softmin(tn__node *x, unsigned axes, tn_dtype dt)
{
    x = tn__strong(x);
    if (x && !tn__dtype_is_float(dt_of(x)))
        x = tn__cast(x, tn__dtype_is_float(dt) ? dt : tn__dtype_to_float(dt_of(x)));
    return tn__softmax(tn__neg(x), axes, dt);
}

tn__node *tn__log_softmax(tn__node *x, unsigned axes, tn_dtype dt)
{
    tn_dtype out;
    tn__node *m;
    x = softmax_in("log_softmax", x, &axes, dt, &out);
    tn__node *c = x ? centred(x, axes, false, &m) : NULL;
    tn__node *s = tn__ln(tn__reduce(TN_OP_ADD, tn__exp(c), axes));
    return tn__cast(tn__binary(TN_OP_SUB, c, stretch(s, c)), out);
}

/* ---- positions ---- */

/* The least index where x equals its extreme, or is NaN. */
static tn__node *position(const char *name, tn__op op, tn__node *x, unsigned axes, bool keepdim)
{
    x = tn__strong(x);
    if (!x) return NULL;
    int axis = 0, rank = x->rank;
    bool flat = axes == TN__ALL_AXES || !rank;
    if (flat) {
        int64_t n = tn__node_numel(x);
        x = tn__reshape(x, &n, 1);
    } else {
        while (!(axes >> axis & 1)) axis++;
        if (axes >> axis != 1) {
            tn__fail(TN_EAXIS,
                     "%s: several axes of %s: takes one axis, or ALL for the flattened position",
                     name, tn__shape_text(x->dims, rank));
            return NULL;
        }
    }
    if (!x) return NULL;
    tn__node *top = extreme(name, op, x, 1u << axis, true);
    tn__node *hit = tn__binary(TN_OP_EQ, x, stretch(top, x));
    if (tn__dtype_is_float(dt_of(x))) hit = tn__binary(TN_OP_OR, hit, tn__isnan(x));
    tn_dtype it = x->dims[axis] > INT32_MAX ? TN_I64 : TN_I32;
    tn__node *at = tn__index_along(x, axis, it);
    at = tn__reduce(TN_OP_MIN, tn__where(hit, at, tn__const_i(it, x->dims[axis], x->dims, x->rank)),
                    1u << axis);
    if (!flat || !keepdim) return tn__drop_axes(at, 1u << axis, keepdim);
    static const int64_t ones[TN_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
    return tn__reshape(at, ones, rank);
}

tn__node *tn__argmax(tn__node *x, unsigned axes, bool keepdim)
{
    return position("argmax", TN_OP_MAX, x, axes, keepdim);
}

tn__node *tn__argmin(tn__node *x, unsigned axes, bool keepdim)
{
    return position("argmin", TN_OP_MIN, x, axes, keepdim);
}
