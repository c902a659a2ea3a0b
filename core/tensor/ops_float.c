/* SPDX-License-Identifier: MIT */
/*
 * Elementwise: classes of floats, closeness, signs by bits, bit patterns, the threefry words.
 *
 * Bits are read by BITCAST only for comparisons, so nothing here hides a gradient.
 */
#include "tensor/ops.h"
#include <math.h>

static bool is_float(const tn__node *x) { return tn__dtype_is_float((tn_dtype)x->dt); }

static tn__node *falses(tn__node *x) { return tn__const_i(TN_BOOL, 0, x->dims, x->rank); }

tn__node *tn__isnan(tn__node *x)
{
    x = tn__strong(x);
    if (!x || is_float(x)) return tn__binary(TN_OP_NE, x, x);
    return falses(x);
}

tn__node *tn__isinf(tn__node *x, bool positive, bool negative)
{
    x = tn__strong(x);
    if (!x) return NULL;
    tn__node *r = falses(x);
    if (!is_float(x)) return r;
    if (positive) r = tn__binary(TN_OP_EQ, x, tn__like(x, (double)INFINITY));
    if (!negative) return r;
    tn__node *neg = tn__binary(TN_OP_EQ, x, tn__like(x, -(double)INFINITY));
    return positive ? tn__binary(TN_OP_OR, r, neg) : neg;
}

tn__node *tn__isfinite(tn__node *x)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (!is_float(x)) return tn__unary(TN_OP_NOT, falses(x));
    return tn__binary(TN_OP_AND, tn__binary(TN_OP_LT, x, tn__like(x, (double)INFINITY)),
                      tn__binary(TN_OP_LT, tn__like(x, -(double)INFINITY), x));
}

tn__node *tn__isclose(tn__node *a, tn__node *b, double rtol, double atol, bool equal_nan)
{
    tn__node *xs[2] = {a, b};
    if (!tn__unify("isclose", xs, 2)) return NULL;
    a = xs[0], b = xs[1];
    tn__node *r = tn__binary(TN_OP_EQ, a, b), *fa = tn__to_float(a), *fb = tn__to_float(b);
    tn__node *room = tn__add_s(tn__mul_s(tn__abs(fb), rtol), atol);
    tn__node *near = tn__le(tn__abs(tn__binary(TN_OP_SUB, fa, fb)), room);
    near = tn__binary(TN_OP_AND, near, tn__binary(TN_OP_AND, tn__isfinite(fa), tn__isfinite(fb)));
    r = tn__binary(TN_OP_OR, r, near);
    if (!equal_nan) return r;
    return tn__binary(TN_OP_OR, r, tn__binary(TN_OP_AND, tn__isnan(a), tn__isnan(b)));
}

tn__node *tn__lerp(tn__node *a, tn__node *b, tn__node *weight)
{
    tn__node *xs[3] = {tn__strong(a), b, weight};
    if (!tn__unify("lerp", xs, 3)) return NULL;
    return tn__binary(TN_OP_ADD, xs[0],
                      tn__binary(TN_OP_MUL, tn__binary(TN_OP_SUB, xs[1], xs[0]), xs[2]));
}

/* The sign bit as bool, also of zeros and NaN. */
static tn__node *minus(tn__node *x)
{
    size_t size = tn__dtype_size((tn_dtype)x->dt);
    tn_dtype dt = size == 2 ? TN_I16 : size == 4 ? TN_I32 : TN_I64;
    tn__node *bits = tn__bitcast(x, dt);
    return tn__binary(TN_OP_LT, bits, bits ? tn__like(bits, 0) : NULL);
}

tn__node *tn__copysign(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {tn__to_float(a), tn__to_float(b)};
    if (!tn__unify("copysign", xs, 2)) return NULL;
    tn__node *m = tn__abs(xs[0]);
    return tn__where(minus(xs[1]), tn__unary(TN_OP_NEG, m), m);
}

/* m + log1p(exp(-|a - b|)); equal operands, infinities among them, give m + log 2. */
tn__node *tn__logaddexp(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {tn__to_float(a), tn__to_float(b)};
    if (!tn__unify("logaddexp", xs, 2)) return NULL;
    tn_dtype dt = (tn_dtype)xs[0]->dt;
    a = tn__to_wide(xs[0]), b = tn__to_wide(xs[1]);
    tn__node *less = tn__binary(TN_OP_LT, a, b), *same = tn__binary(TN_OP_EQ, a, b);
    tn__node *hi = tn__where(less, b, a), *lo = tn__where(less, a, b);
    tn__node *d = tn__where(same, tn__like(a, 0), tn__binary(TN_OP_SUB, lo, hi));
    /* at equal operands both have half of the slope */
    tn__node *mid = tn__binary(TN_OP_ADD, tn__mul_s(a, 0.5), tn__mul_s(b, 0.5));
    hi = tn__where(same, mid, hi);
    return tn__cast(tn__binary(TN_OP_ADD, hi, tn__log1p(tn__exp(d))), dt);
}

/* ---- bits ---- */

static const tn_dtype word[9] = {[1] = TN_U8, [2] = TN_U16, [4] = TN_U32, [8] = TN_U64};

/* Bits to shift each of k parts by, along the last axis of x's shape. */
static tn__node *part_shift(tn__node *x, size_t part)
{
    if (!x) return NULL;
    tn__node *at = tn__index_along(x, x->rank - 1, (tn_dtype)x->dt);
    return tn__binary(TN_OP_MUL, at,
                      tn__const_i((tn_dtype)x->dt, (int64_t)part * 8, x->dims, x->rank));
}

/* (.., n) wide to (.., n * k) narrow elements, the low bits first. */
static tn__node *split_bits(tn__node *x, tn_dtype dt)
{
    size_t wide = tn__dtype_size((tn_dtype)x->dt), narrow = tn__dtype_size(dt);
    int64_t dims[TN_MAX_RANK], k = (int64_t)(wide / narrow);
    int r = x->rank;
    for (int i = 0; i < r; i++) dims[i] = x->dims[i];
    dims[r] = 1;
    tn__node *y = tn__reshape(tn__bitcast(x, word[wide]), dims, r + 1);
    dims[r] = k;
    y = tn__expand(y, dims, r + 1);
    y = tn__cast(tn__binary(TN_OP_SHR, y, part_shift(y, narrow)), word[narrow]);
    dims[r - 1] *= k;
    return tn__bitcast(tn__reshape(y, dims, r), dt);
}

/* (.., n * k) narrow to (.., n) wide elements. */
static tn__node *join_bits(tn__node *x, tn_dtype dt)
{
    size_t wide = tn__dtype_size(dt), narrow = tn__dtype_size((tn_dtype)x->dt);
    int64_t dims[TN_MAX_RANK], k = (int64_t)(wide / narrow);
    int r = x->rank;
    for (int i = 0; i < r; i++) dims[i] = x->dims[i];
    dims[r - 1] /= k;
    dims[r] = k;
    tn__node *y = tn__cast(tn__reshape(tn__bitcast(x, word[narrow]), dims, r + 1), word[wide]);
    y = tn__reduce(TN_OP_ADD, tn__binary(TN_OP_SHL, y, part_shift(y, narrow)), 1u << r);
    return tn__bitcast(tn__reshape(y, dims, r), dt);
}

tn__node *tn__bitcast_any(tn__node *x, tn_dtype dt)
{
    x = tn__strong(x);
    if (!x) return NULL;
    tn_dtype from = (tn_dtype)x->dt;
    size_t to = tn__dtype_size(dt), size = tn__dtype_size(from);
    if (from == TN_BOOL || dt == TN_BOOL || !to || to == size) return tn__bitcast(x, dt);
    if (!x->rank || x->rank == TN_MAX_RANK) {
        tn__fail(TN_ESHAPE,
                 "bitcast: %s to %s: rank %d: a changing element size needs 1 to %d axes",
                 tn__dtype_name(from), tn__dtype_name(dt), x->rank, TN_MAX_RANK - 1);
        return NULL;
    }
    if (to < size) return split_bits(x, dt);
    if ((size_t)x->dims[x->rank - 1] * size % to) {
        tn__fail(TN_ESHAPE, "bitcast: %s of %s to %s: the last axis must be a multiple of %d",
                 tn__shape_text(x->dims, x->rank), tn__dtype_name(from), tn__dtype_name(dt),
                 (int)(to / size));
        return NULL;
    }
    return join_bits(x, dt);
}

/* Threefry-2x32 with 20 rounds (Salmon et al., Parallel random numbers: as easy as 1, 2, 3): the low half
 * of each 64-bit word is the first 32-bit word. */
tn__node *tn__threefry(tn__node *counter, tn__node *key)
{
    static const int rot[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    tn__node *xs[2] = {counter, key};
    if (!tn__unify("threefry", xs, 2)) return NULL;
    if (xs[0]->dt != TN_U64) {
        tn__fail(TN_EDTYPE, "threefry: %s: takes uint64 counters and keys: cast first",
                 tn__dtype_name((tn_dtype)xs[0]->dt));
        return NULL;
    }
    tn__node *half = tn__const_i(TN_U64, 32, xs[0]->dims, xs[0]->rank);
    tn__node *x0 = tn__cast(xs[0], TN_U32),
             *x1 = tn__cast(tn__binary(TN_OP_SHR, xs[0], half), TN_U32);
    tn__node *k[3] = {tn__cast(xs[1], TN_U32), tn__cast(tn__binary(TN_OP_SHR, xs[1], half), TN_U32),
                      NULL};
    k[2] = tn__binary(TN_OP_XOR, k[0], k[1]);
    k[2] = tn__binary(TN_OP_XOR, k[2], tn__like(k[2], 0x1BD11BDA));
    x0 = tn__binary(TN_OP_ADD, x0, k[0]);
    x1 = tn__binary(TN_OP_ADD, x1, k[1]);
    for (int i = 0; i < 20; i++) {
        int r = rot[i % 8];
        x0 = tn__binary(TN_OP_ADD, x0, x1);
        tn__node *up = tn__binary(TN_OP_SHL, x1, tn__like(x1, r));
        tn__node *down = tn__binary(TN_OP_SHR, x1, tn__like(x1, 32 - r));
        x1 = tn__binary(TN_OP_XOR, tn__binary(TN_OP_OR, up, down), x0);
        if (i % 4 != 3) continue;
        int s = i / 4 + 1;
        x0 = tn__binary(TN_OP_ADD, x0, k[s % 3]);
        x1 = tn__binary(TN_OP_ADD, x1, tn__binary(TN_OP_ADD, k[(s + 1) % 3], tn__like(x1, s)));
    }
    tn__node *high = tn__binary(TN_OP_SHL, tn__cast(x1, TN_U64), half);
    return tn__binary(TN_OP_OR, high, tn__cast(x0, TN_U64));
}
