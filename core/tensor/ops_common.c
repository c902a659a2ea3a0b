/* SPDX-License-Identifier: MIT */
/*
 * What the methods share: axes, broadcasting, promotion, scalars.
 *
 * Scalars of C arrive as weak constants (TN__NODE_WEAK): rank 0, of the widest dtype, and they take the other
 * operand's dtype; a float beside integers makes the default float, an integer beside bool makes int32.
 * Nothing stays weak: every result here has a dtype of its own.
 */
#include "tensor/ops.h"
#include <string.h>

/* ---- axes ---- */

bool tn__axis_of(const char *op, const tn__node *x, int axis, int *out)
{
    int rank = x->rank ? x->rank : 1;
    if (axis < -rank || axis >= rank)
        return tn__fail(TN_EAXIS, "%s: axis %d of %s: must be in %d..%d", op, axis,
                        tn__shape_text(x->dims, x->rank), -rank, rank - 1);
    *out = axis < 0 ? axis + rank : axis;
    return true;
}

unsigned tn__mask_all(const tn__node *x) { return x->rank ? (1u << x->rank) - 1u : 0u; }

bool tn__axes_mask(const char *op, const tn__node *x, const int *axes, size_t n, unsigned *mask)
{
    unsigned m = 0;
    for (size_t i = 0; i < n; i++) {
        int a = 0;
        if (!tn__axis_of(op, x, axes[i], &a)) return false;
        if (m & 1u << a)
            return tn__fail(TN_EAXIS, "%s: axis %d of %s is named twice", op, axes[i],
                            tn__shape_text(x->dims, x->rank));
        m |= 1u << a;
    }
    *mask = m & tn__mask_all(x);
    return true;
}

/* ---- dtypes ---- */

tn__node *tn__weak_as(tn__node *x, tn_dtype other)
{
    if (!x || !tn__is_weak(x)) return x;
    tn_dtype from = (tn_dtype)x->dt, to = other;
    if (tn__dtype_is_float(from))
        to = tn__dtype_to_float(other);
    else if (from != TN_BOOL && other == TN_BOOL)
        to = TN_I32;
    return tn__const(to, tn__scalar_cast(from, to, x->scalar), NULL, 0);
}

tn__node *tn__strong(tn__node *x)
{
    if (!x || !tn__is_weak(x)) return x;
    tn_dtype from = (tn_dtype)x->dt;
    if (!tn__dtype_is_float(from)) {
        if (from == TN_BOOL) return tn__const(TN_BOOL, x->scalar, NULL, 0);
        bool small = from == TN_U64 ? x->scalar.u <= INT32_MAX
                                    : x->scalar.i >= INT32_MIN && x->scalar.i <= INT32_MAX;
        tn_dtype to = small ? TN_I32 : from;
        return tn__const(to, tn__scalar_cast(from, to, x->scalar), NULL, 0);
    }
    return tn__weak_as(x, tn__dtype_default_float());
}

tn__node *tn__to_float(tn__node *x)
{
    x = tn__strong(x);
    return x ? tn__cast(x, tn__dtype_to_float((tn_dtype)x->dt)) : NULL;
}

tn__node *tn__to_wide(tn__node *x)
{
    x = tn__to_float(x);
    return x ? tn__cast(x, tn__dtype_promote((tn_dtype)x->dt, TN_F32)) : NULL;
}

tn__node *tn__to_acc(tn__node *x)
{
    x = tn__strong(x);
    return x ? tn__cast(x, tn__dtype_sum((tn_dtype)x->dt)) : NULL;
}

bool tn__promote(const char *op, tn__node **xs, int n)
{
    (void)op;
    tn_dtype dt = TN_DTYPE_DEFAULT;
    for (int i = 0; i < n; i++) {
        if (!xs[i]) return false;
        if (tn__is_weak(xs[i])) continue;
        tn_dtype d = (tn_dtype)xs[i]->dt;
        dt = dt == TN_DTYPE_DEFAULT ? d : tn__dtype_promote(dt, d);
    }
    tn_dtype all = dt;
    for (int i = 0; i < n; i++) {
        if (!tn__is_weak(xs[i])) continue;
        xs[i] = dt == TN_DTYPE_DEFAULT ? tn__strong(xs[i]) : tn__weak_as(xs[i], dt);
        if (!xs[i]) return false;
        tn_dtype d = (tn_dtype)xs[i]->dt;
        all = all == TN_DTYPE_DEFAULT ? d : tn__dtype_promote(all, d);
    }
    for (int i = 0; i < n; i++)
        if (!(xs[i] = tn__cast(xs[i], all))) return false;
    return true;
}

/* ---- shapes ---- */

static bool same_shape(const tn__node *x, const int64_t *dims, int rank)
{
    return x->rank == rank && (!rank || !memcmp(x->dims, dims, (size_t)rank * sizeof *dims));
}

tn__node *tn__broadcast_to(const char *op, tn__node *x, const int64_t *dims, int rank)
{
    if (!x) return NULL;
    if (same_shape(x, dims, rank)) return x;
    bool fits = x->rank <= rank;
    for (int i = 0; fits && i < x->rank; i++) {
        int64_t d = x->dims[x->rank - 1 - i];
        fits = d == 1 || d == dims[rank - 1 - i];
    }
    if (!fits) {
        tn__fail(TN_ESHAPE,
                 "%s: %s does not broadcast to %s: from the right, sizes must be equal or 1", op,
                 tn__shape_text(x->dims, x->rank), tn__shape_text(dims, rank));
        return NULL;
    }
    if (!tn__dims_check(op, dims, rank)) return NULL;
    if (x->op == TN_OP_CONST && !x->place) return tn__const((tn_dtype)x->dt, x->scalar, dims, rank);
    return tn__expand(x, dims, rank);
}

bool tn__broadcast(const char *op, tn__node **xs, int n)
{
    int64_t dims[TN_MAX_RANK];
    int rank = 0;
    for (int i = 0; i < n; i++) {
        if (!xs[i]) return false;
        if (xs[i]->rank > rank) rank = xs[i]->rank;
    }
    for (int a = 0; a < rank; a++) {
        dims[a] = 1;
        for (int i = 0; i < n; i++) {
            int at = a - (rank - xs[i]->rank);
            if (at < 0 || xs[i]->dims[at] == 1) continue;
            if (dims[a] != 1 && dims[a] != xs[i]->dims[at])
                return tn__fail(
                    TN_ESHAPE,
                    "%s: shapes %s and %s do not broadcast: axis %d has sizes %lld and %lld, "
                    "neither is 1",
                    op, tn__shape_text(xs[0]->dims, xs[0]->rank),
                    tn__shape_text(xs[i]->dims, xs[i]->rank), a - rank, (long long)dims[a],
                    (long long)xs[i]->dims[at]);
            dims[a] = xs[i]->dims[at];
        }
    }
    for (int i = 0; i < n; i++)
        if (!(xs[i] = tn__broadcast_to(op, xs[i], dims, rank))) return false;
    return true;
}

bool tn__unify(const char *op, tn__node **xs, int n)
{
    return tn__promote(op, xs, n) && tn__broadcast(op, xs, n);
}

/* ---- small pieces ---- */

tn__node *tn__like(tn__node *x, double v) { return tn__const_like(x, v); }

tn__node *tn__index_along(tn__node *x, int axis, tn_dtype dt)
{
    return x ? tn__iota(dt, axis, x->dims, x->rank) : NULL;
}

tn__node *tn__reshape_like(tn__node *x, const tn__node *like)
{
    return x && like ? tn__reshape(x, like->dims, like->rank) : NULL;
}

tn__node *tn__mul_s(tn__node *x, double v) { return tn__binary(TN_OP_MUL, x, tn__like(x, v)); }

tn__node *tn__add_s(tn__node *x, double v) { return tn__binary(TN_OP_ADD, x, tn__like(x, v)); }

tn__node *tn__move_axis(tn__node *x, int from, int to)
{
    if (!x || from == to) return x;
    int perm[TN_MAX_RANK], n = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != from) perm[n++] = i;
    for (int i = n; i > to; i--) perm[i] = perm[i - 1];
    perm[to] = from;
    return tn__permute(x, perm);
}

/* Horner's rule; the constants are rounded to x's dtype. */
tn__node *tn__poly(tn__node *x, const double *c, int n)
{
    tn__node *y = tn__like(x, c[n - 1]);
    for (int i = n - 2; i >= 0; i--) y = tn__add_s(tn__binary(TN_OP_MUL, y, x), c[i]);
    return y;
}
