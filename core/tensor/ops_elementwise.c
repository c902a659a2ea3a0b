/* SPDX-License-Identifier: MIT */
/*
 * Elementwise arithmetic, comparisons and bits.
 *
 * Division and remainder of integers are floor by the primitives' rules; the other rounding modes are
 * corrections of it.  Signs, rounding and classification are comparisons, so that they carry no gradient.
 */
#include "tensor/ops.h"
#include <math.h>

static tn_dtype dt_of(const tn__node *x) { return (tn_dtype)x->dt; }

static bool is_float(const tn__node *x) { return tn__dtype_is_float(dt_of(x)); }

/* Both sources promoted and broadcast, then op. */
static tn__node *pair(tn__op op, const char *name, tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    return tn__unify(name, xs, 2) ? tn__binary(op, xs[0], xs[1]) : NULL;
}

/* ---- arithmetic ---- */

tn__node *tn__add(tn__node *a, tn__node *b) { return pair(TN_OP_ADD, "add", a, b); }

tn__node *tn__sub(tn__node *a, tn__node *b) { return pair(TN_OP_SUB, "sub", a, b); }

tn__node *tn__mul(tn__node *a, tn__node *b) { return pair(TN_OP_MUL, "mul", a, b); }

/* Quotient of integers rounded towards zero: the floor, plus one where it is inexact and negative. */
static tn__node *trunc_div(tn__node *a, tn__node *b)
{
    tn__node *q = tn__binary(TN_OP_IDIV, a, b);
    if (!q || !tn__dtype_is_signed(dt_of(a))) return q;
    tn__node *zero = tn__like(a, 0);
    tn__node *left = tn__binary(TN_OP_NE, tn__binary(TN_OP_MUL, q, b), a);
    tn__node *signs = tn__binary(TN_OP_NE, tn__binary(TN_OP_LT, a, zero),
                                 tn__binary(TN_OP_LT, b, zero));
    tn__node *fix = tn__binary(TN_OP_AND, tn__binary(TN_OP_AND, left, signs),
                               tn__binary(TN_OP_NE, b, zero));
    return tn__binary(TN_OP_ADD, q, tn__cast(fix, dt_of(a)));
}

tn__node *tn__div(tn__node *a, tn__node *b, tn__rounding mode)
{
    tn__node *xs[2] = {a, b};
    if (!tn__unify("div", xs, 2)) return NULL;
    if (mode == TN__DIV_TRUE || is_float(xs[0]) || dt_of(xs[0]) == TN_BOOL) {
        tn__node *q = tn__binary(TN_OP_DIV, tn__to_float(xs[0]), tn__to_float(xs[1]));
        if (mode == TN__DIV_TRUE || !q) return q;
        return tn__unary(mode == TN__DIV_TRUNC ? TN_OP_TRUNC : TN_OP_FLOOR, q);
    }
    return mode == TN__DIV_FLOOR ? tn__binary(TN_OP_IDIV, xs[0], xs[1]) : trunc_div(xs[0], xs[1]);
}

/* a - round(a / b) * b; a itself where the quotient rounds to zero, so that an infinite b is right. */
static tn__node *float_rest(tn__op round, tn__node *a, tn__node *b)
{
    tn__node *q = tn__unary(round, tn__binary(TN_OP_DIV, a, b));
    tn__node *r = tn__binary(TN_OP_SUB, a, tn__binary(TN_OP_MUL, q, b));
    return tn__where(tn__binary(TN_OP_EQ, q, tn__like(q, 0)), a, r);
}

tn__node *tn__mod(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    if (!tn__unify("mod", xs, 2)) return NULL;
    if (is_float(xs[0])) return float_rest(TN_OP_FLOOR, xs[0], xs[1]);
    return tn__binary(TN_OP_IMOD, xs[0], xs[1]);
}

tn__node *tn__fmod(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    if (!tn__unify("fmod", xs, 2)) return NULL;
    if (is_float(xs[0])) return float_rest(TN_OP_TRUNC, xs[0], xs[1]);
    if (!tn__dtype_is_signed(dt_of(xs[0]))) return tn__binary(TN_OP_IMOD, xs[0], xs[1]);
    tn__node *r = tn__binary(TN_OP_SUB, xs[0],
                             tn__binary(TN_OP_MUL, trunc_div(xs[0], xs[1]), xs[1]));
    return tn__where(tn__binary(TN_OP_EQ, xs[1], tn__like(xs[1], 0)), tn__like(r, 0),
                     r); /* x % 0 = 0 */
}

tn__node *tn__maximum(tn__node *a, tn__node *b) { return pair(TN_OP_MAX, "maximum", a, b); }

tn__node *tn__minimum(tn__node *a, tn__node *b) { return pair(TN_OP_MIN, "minimum", a, b); }

/* ---- powers ---- */

/* x ** n for n >= 0 by repeated squaring: exact for integers. */
static tn__node *power(tn__node *x, uint64_t n)
{
    tn__node *r = NULL;
    for (tn__node *b = x; n; n >>= 1) {
        if (n & 1) r = r ? tn__binary(TN_OP_MUL, r, b) : b;
        if (n > 1) b = tn__binary(TN_OP_MUL, b, b);
    }
    return r ? r : tn__like(x, 1);
}

/* Integers to integers element by element: a multiplication a bit of the exponent.  Negative exponents
 * give the reciprocal rounded to zero: 1 and -1 stay units, everything else is 0. */
static tn__node *power_int(tn__node *x, tn__node *n)
{
    tn__node *one = tn__like(x, 1), *zero = tn__like(x, 0), *r = one, *b = x;
    int bits = tn__dtype_bits(dt_of(x)) - (tn__dtype_is_signed(dt_of(x)) ? 1 : 0);
    for (int i = 0; i < bits; i++) {
        tn__node *bit = tn__binary(
            TN_OP_AND, n, tn__const_i(dt_of(x), (int64_t)(UINT64_C(1) << i), n->dims, n->rank));
        r = tn__where(tn__binary(TN_OP_NE, bit, zero), tn__binary(TN_OP_MUL, r, b), r);
        if (i + 1 < bits) b = tn__binary(TN_OP_MUL, b, b);
    }
    if (!tn__dtype_is_signed(dt_of(x))) return r;
    tn__node *odd = tn__binary(TN_OP_NE, tn__binary(TN_OP_AND, n, one), zero);
    tn__node *unit = tn__binary(TN_OP_EQ, x, tn__like(x, -1));
    tn__node *neg = tn__where(tn__binary(TN_OP_EQ, x, one), one,
                              tn__where(unit, tn__where(odd, tn__like(x, -1), one), zero));
    return tn__where(tn__binary(TN_OP_LT, n, zero), neg, r);
}

static tn__node *power_const(tn__node *x, double n)
{
    if (n >= 0 && n <= 4 && n == floor(n)) return power(x, (uint64_t)n);
    if (n == 0.5) return tn__sqrt(x);
    if (n == -0.5) return tn__rsqrt(x);
    if (n == -1 || n == -2) return tn__unary(TN_OP_RECIP, power(x, (uint64_t)-n));
    return tn__binary(TN_OP_POW, x, tn__like(x, n));
}

tn__node *tn__pow(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    if (!tn__unify("pow", xs, 2)) return NULL;
    bool constant = xs[1]->op == TN_OP_CONST;
    tn_dtype dt = dt_of(xs[0]);
    if (dt == TN_BOOL) return tn__binary(TN_OP_OR, xs[0], tn__unary(TN_OP_NOT, xs[1]));
    if (!is_float(xs[0])) {
        if (!constant) return power_int(xs[0], xs[1]);
        if (tn__dtype_is_signed(dt) && xs[1]->scalar.i < 0) {
            tn__fail(
                TN_EVALUE,
                "pow: %s to the power %lld: integers take exponents >= 0: cast to a float first",
                tn__dtype_name(dt), (long long)xs[1]->scalar.i);
            return NULL;
        }
        return power(xs[0], xs[1]->scalar.u);
    }
    if (constant) return tn__cast(power_const(tn__to_wide(xs[0]), xs[1]->scalar.f), dt);
    return tn__cast(tn__binary(TN_OP_POW, tn__to_wide(xs[0]), tn__to_wide(xs[1])), dt);
}

/* ---- bits and truth ---- */

static bool no_floats(const char *name, tn__node *const *xs, int n)
{
    for (int i = 0; i < n; i++)
        if (is_float(xs[i]))
            return tn__fail(TN_EDTYPE,
                            "%s: %s: works on bits of integers and bool: cast or bitcast first",
                            name, tn__dtype_name(dt_of(xs[i])));
    return true;
}

tn__node *tn__bitwise(tn__op op, tn__node *a, tn__node *b)
{
    const char *name = op == TN_OP_AND   ? "bitwise_and"
                       : op == TN_OP_OR  ? "bitwise_or"
                       : op == TN_OP_XOR ? "bitwise_xor"
                       : op == TN_OP_SHL ? "lshift"
                                         : "rshift";
    tn__node *xs[2] = {a, b};
    if (!tn__unify(name, xs, 2) || !no_floats(name, xs, 2)) return NULL;
    return tn__binary(op, xs[0], xs[1]);
}

tn__node *tn__bitwise_not(tn__node *x)
{
    x = tn__strong(x);
    return x && no_floats("bitwise_not", &x, 1) ? tn__unary(TN_OP_NOT, x) : NULL;
}

tn__node *tn__bool(tn__node *x)
{
    x = tn__strong(x);
    return x ? tn__cast(x, TN_BOOL) : NULL;
}

tn__node *tn__logical_not(tn__node *x) { return tn__unary(TN_OP_NOT, tn__bool(x)); }

tn__node *tn__eq(tn__node *a, tn__node *b) { return pair(TN_OP_EQ, "eq", a, b); }

tn__node *tn__ne(tn__node *a, tn__node *b) { return pair(TN_OP_NE, "ne", a, b); }

tn__node *tn__lt(tn__node *a, tn__node *b) { return pair(TN_OP_LT, "lt", a, b); }

tn__node *tn__gt(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    return tn__unify("gt", xs, 2) ? tn__binary(TN_OP_LT, xs[1], xs[0]) : NULL;
}

/* a <= b; false for NaN, so it is not the negation of b < a for floats. */
static tn__node *at_most(tn__node *a, tn__node *b)
{
    if (!a || !b) return NULL;
    if (!is_float(a)) return tn__unary(TN_OP_NOT, tn__binary(TN_OP_LT, b, a));
    return tn__binary(TN_OP_OR, tn__binary(TN_OP_LT, a, b), tn__binary(TN_OP_EQ, a, b));
}

tn__node *tn__le(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    return tn__unify("le", xs, 2) ? at_most(xs[0], xs[1]) : NULL;
}

tn__node *tn__ge(tn__node *a, tn__node *b)
{
    tn__node *xs[2] = {a, b};
    return tn__unify("ge", xs, 2) ? at_most(xs[1], xs[0]) : NULL;
}

tn__node *tn__select(tn__node *c, tn__node *a, tn__node *b)
{
    tn__node *xs[3] = {tn__bool(c), a, b};
    if (!tn__promote("where", xs + 1, 2) || !tn__broadcast("where", xs, 3)) return NULL;
    return tn__where(xs[0], xs[1], xs[2]);
}

tn__node *tn__masked_fill(tn__node *x, tn__node *mask, tn__node *value)
{
    return tn__select(mask, value, x);
}

/* ---- one operand ---- */

tn__node *tn__neg(tn__node *x)
{
    x = tn__strong(x);
    if (x && dt_of(x) == TN_BOOL) return tn__unary(TN_OP_NOT, x);
    return tn__unary(TN_OP_NEG, x);
}

tn__node *tn__reciprocal(tn__node *x) { return tn__unary(TN_OP_RECIP, tn__to_float(x)); }

/* -1, 0 or 1; 0 for NaN, as in PyTorch. */
tn__node *tn__sign(tn__node *x)
{
    x = tn__strong(x);
    if (!x || dt_of(x) == TN_BOOL) return x;
    tn__node *zero = tn__like(x, 0), *one = tn__like(x, 1);
    tn__node *up = tn__where(tn__binary(TN_OP_LT, zero, x), one, zero);
    if (tn__dtype_is_unsigned(dt_of(x))) return up;
    return tn__where(tn__binary(TN_OP_LT, x, zero), tn__like(x, -1), up);
}

/* x * sign(x), where the sign of a zero is itself: |-0| is +0 and the slope at 0 is 0. */
tn__node *tn__abs(tn__node *x)
{
    x = tn__strong(x);
    if (!x || dt_of(x) == TN_BOOL || tn__dtype_is_unsigned(dt_of(x))) return x;
    tn__node *zero = tn__like(x, 0);
    tn__node *neg = tn__binary(TN_OP_LT, x, zero);
    if (!is_float(x)) return tn__where(neg, tn__unary(TN_OP_NEG, x), x);
    tn__node *up = tn__where(tn__binary(TN_OP_LT, zero, x), tn__like(x, 1), tn__detach(x));
    return tn__binary(TN_OP_MUL, x, tn__where(neg, tn__like(x, -1), up));
}

tn__node *tn__square(tn__node *x)
{
    x = tn__strong(x);
    return tn__binary(TN_OP_MUL, x, x);
}

tn__node *tn__sqrt(tn__node *x) { return tn__unary(TN_OP_SQRT, tn__to_float(x)); }

tn__node *tn__rsqrt(tn__node *x) { return tn__unary(TN_OP_RECIP, tn__sqrt(x)); }

static tn__node *rounded(tn__op op, tn__node *x)
{
    x = tn__strong(x);
    return !x || !is_float(x) ? x : tn__unary(op, x);
}

tn__node *tn__trunc(tn__node *x) { return rounded(TN_OP_TRUNC, x); }

tn__node *tn__floor(tn__node *x) { return rounded(TN_OP_FLOOR, x); }

tn__node *tn__ceil(tn__node *x)
{
    x = tn__strong(x);
    if (!x || !is_float(x)) return x;
    return tn__unary(TN_OP_NEG, tn__unary(TN_OP_FLOOR, tn__unary(TN_OP_NEG, x)));
}

/* floor, plus one above the half, and at the half where the floor is odd. */
tn__node *tn__round(tn__node *x)
{
    x = tn__strong(x);
    if (!x || !is_float(x)) return x;
    tn__node *f = tn__unary(TN_OP_FLOOR, x), *d = tn__binary(TN_OP_SUB, x, f),
             *half = tn__like(x, 0.5);
    tn__node *pairs = tn__binary(TN_OP_MUL, f, half);
    tn__node *odd = tn__binary(TN_OP_NE, pairs, tn__unary(TN_OP_FLOOR, pairs));
    tn__node *tie = tn__binary(TN_OP_AND, tn__binary(TN_OP_EQ, d, half), odd);
    tn__node *up = tn__binary(TN_OP_OR, tn__binary(TN_OP_LT, half, d), tie);
    tn__node *r = tn__where(up, tn__add_s(f, 1), f);
    tn__node *none = tn__binary(TN_OP_EQ, r, tn__like(x, 0)); /* a zero has the sign of x */
    return tn__where(none, tn__detach(tn__mul_s(x, 0)), r);
}

tn__node *tn__clamp(tn__node *x, tn__node *lo, tn__node *hi)
{
    x = tn__strong(x);
    if (lo) {
        tn__node *p[2] = {x, lo};
        if (!tn__unify("clamp", p, 2)) return NULL;
        x = tn__where(tn__binary(TN_OP_LT, p[0], p[1]), p[1], p[0]);
    }
    if (hi) {
        tn__node *p[2] = {x, hi};
        if (!tn__unify("clamp", p, 2)) return NULL;
        x = tn__where(tn__binary(TN_OP_LT, p[1], p[0]), p[1], p[0]);
    }
    return x;
}
