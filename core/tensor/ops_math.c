/* SPDX-License-Identifier: MIT */
/*
 * Elementwise functions from EXP2, LOG2, SIN, SQRT and polynomials (ops_poly.h).
 *
 * float16 and bfloat16 are computed in float32.  Accuracy is a few units in the last place; corrections
 * that only repair rounding are detached, so that gradients see the plain function.  Branches of a WHERE
 * that are not taken stay finite, so that they add no NaN to gradients.
 */
#include "tensor/ops.h"
#include "tensor/ops_poly.h"
#include <math.h>

#define LN2   0.6931471805599453
#define LOG2E 1.4426950408889634
#define PI    3.141592653589793
/* The table of x's dtype. */
#define POLY(x, name)                                                          \
    ((x) && (x)->dt == TN_F64 ? tn__poly((x), name##64, (int)TN_LEN(name##64)) \
                              : tn__poly((x), name##32, (int)TN_LEN(name##32)))

typedef tn__node *fn(tn__node *x);

/* f in at least float32, the result in x's (float) dtype. */
static tn__node *wide(fn *f, tn__node *x)
{
    x = tn__to_float(x);
    return x ? tn__cast(f(tn__to_wide(x)), (tn_dtype)x->dt) : NULL;
}

static tn__node *mul(tn__node *a, tn__node *b) { return tn__binary(TN_OP_MUL, a, b); }

static tn__node *add(tn__node *a, tn__node *b) { return tn__binary(TN_OP_ADD, a, b); }

static tn__node *sub(tn__node *a, tn__node *b) { return tn__binary(TN_OP_SUB, a, b); }

static tn__node *quot(tn__node *a, tn__node *b) { return tn__binary(TN_OP_DIV, a, b); }

static tn__node *below(tn__node *x, double v) { return tn__binary(TN_OP_LT, x, tn__like(x, v)); }

static tn__node *above(tn__node *x, double v) { return tn__binary(TN_OP_LT, tn__like(x, v), x); }

static tn__node *neg(tn__node *x) { return tn__unary(TN_OP_NEG, x); }

/* |x| with slope 1 at 0. */
static tn__node *size_of(tn__node *x) { return tn__where(below(x, 0), neg(x), x); }

static tn__node *cap(tn__node *x, double v) { return tn__where(above(x, v), tn__like(x, v), x); }

/* ---- exponentials ---- */

/* Exact to the last place or so: kernels take back what rounding takes from the product (lower.c). */
static tn__node *exp_wide(tn__node *x)
{
    if (x && x->op == TN_OP_CONST) return tn__like(x, exp(x->scalar.f));
    return tn__unary(TN_OP_EXP2, tn__mul_s(x, LOG2E));
}

static tn__node *log_wide(tn__node *x) { return tn__mul_s(tn__unary(TN_OP_LOG2, x), LN2); }

static tn__node *exp2_wide(tn__node *x) { return tn__unary(TN_OP_EXP2, x); }

static tn__node *log2_wide(tn__node *x) { return tn__unary(TN_OP_LOG2, x); }

static tn__node *log10_wide(tn__node *x)
{
    return tn__mul_s(tn__unary(TN_OP_LOG2, x), 0.30102999566398120);
}

/* log(u) for u = 1 + x, rounded, plus the first term of what rounding took (Kahan). */
static tn__node *log1p_wide(tn__node *x)
{
    tn__node *u = tn__add_s(x, 1), *du = tn__detach(u);
    tn__node *c = quot(sub(tn__detach(x), tn__add_s(du, -1)), du);
    tn__node *ok = below(mul(c, c), 1);
    return add(log_wide(u), tn__where(ok, c, c ? tn__like(c, 0) : NULL));
}

tn__node *tn__exp(tn__node *x) { return wide(exp_wide, x); }
tn__node *tn__exp2(tn__node *x) { return wide(exp2_wide, x); }
tn__node *tn__ln(tn__node *x) { return wide(log_wide, x); }
tn__node *tn__log2(tn__node *x) { return wide(log2_wide, x); }
tn__node *tn__log10(tn__node *x) { return wide(log10_wide, x); }
tn__node *tn__log1p(tn__node *x) { return wide(log1p_wide, x); }

/* ---- circular ---- */

static tn__node *sin_wide(tn__node *x) { return tn__unary(TN_OP_SIN, x); }

/* |x| < 512: s = x + pi/2 rounded, e what rounding took: sin(s + e) = sin s + e cos s.  Beyond, where that
 * does not hold: 1 - 2 sin(x/2)^2, whose halving is exact. */
static tn__node *cos_wide(tn__node *x)
{
    if (!x) return NULL;
    double half = x->dt == TN_F64 ? PI / 2 : 1.57079637050628662109375;
    double tail = x->dt == TN_F64 ? 6.123233995736766e-17 : -4.37113900018624283e-8;
    tn__node *small = tn__binary(TN_OP_AND, below(x, 512), above(x, -512));
    tn__node *s = tn__add_s(x, half), *ds = tn__detach(s), *dx = tn__detach(x);
    tn__node *b = sub(ds, dx); /* two-sum */
    tn__node *e = add(sub(dx, sub(ds, b)), sub(tn__like(x, half), b));
    e = tn__add_s(e, tail);
    tn__node *h = tn__unary(TN_OP_SIN, tn__mul_s(tn__where(small, ds, x), 0.5));
    tn__node *c = sub(tn__like(x, 1), tn__mul_s(mul(h, h), 2));
    return tn__where(small, add(tn__unary(TN_OP_SIN, s), tn__detach(mul(e, c))), c);
}

/* r, but x itself at a zero: an odd function keeps its sign. */
static tn__node *odd_at_zero(tn__node *x, tn__node *r)
{
    return x ? tn__where(tn__binary(TN_OP_EQ, x, tn__like(x, 0)), x, r) : NULL;
}

static tn__node *tan_wide(tn__node *x) { return quot(sin_wide(x), cos_wide(x)); }

/* 1. |x| > 1: atan x = +-pi/2 - atan 1/x.  2. |t| > tan pi/8: atan t = c pi/4 + atan (t - c) / (1 + c t)
 * with c = +-1.  3. a polynomial. */
static tn__node *atan_wide(tn__node *x)
{
    if (!x) return NULL;
    tn__node *one = tn__like(x, 1);
    tn__node *big = tn__binary(TN_OP_OR, above(x, 1), below(x, -1));
    tn__node *t = quot(tn__where(big, one, x), tn__where(big, x, one));
    const double edge = 0.41421356237309503;
    tn__node *c = tn__where(above(t, edge), one,
                            tn__where(below(t, -edge), tn__like(x, -1), tn__like(x, 0)));
    tn__node *u = quot(sub(t, c), add(one, mul(c, t)));
    tn__node *r = add(tn__mul_s(c, PI / 4), mul(u, POLY(mul(u, u), atan)));
    tn__node *side = tn__where(below(x, 0), tn__like(x, -PI / 2), tn__like(x, PI / 2));
    return odd_at_zero(x, tn__where(big, sub(side, r), r));
}

/* Pieces of asin and acos: x P(x^2) for |x| <= 1/2, and 2 sqrt(z) P(z) with z = (1 - |x|) / 2 beyond. */
typedef struct {
    tn__node *small, *inner, *outer;
} arc;

static arc arc_of(tn__node *x)
{
    arc r = {0};
    tn__node *a = size_of(x);
    r.small = tn__binary(TN_OP_AND, below(x, 0.5), above(x, -0.5));
    tn__node *z = tn__mul_s(sub(tn__like(x, 1), a), 0.5);
    tn__node *p = POLY(tn__where(r.small, mul(x, x), z), asin);
    r.inner = mul(x, p);
    r.outer = tn__mul_s(mul(tn__unary(TN_OP_SQRT, z), p), 2);
    return r;
}

static tn__node *asin_wide(tn__node *x)
{
    arc r = arc_of(x);
    tn__node *far = sub(tn__like(x, PI / 2), r.outer);
    return tn__where(r.small, r.inner, tn__where(below(x, 0), neg(far), far));
}

static tn__node *acos_wide(tn__node *x)
{
    arc r = arc_of(x);
    tn__node *far = tn__where(below(x, 0), sub(tn__like(x, PI), r.outer), r.outer);
    return tn__where(r.small, sub(tn__like(x, PI / 2), r.inner), far);
}

tn__node *tn__sin(tn__node *x) { return wide(sin_wide, x); }
tn__node *tn__cos(tn__node *x) { return wide(cos_wide, x); }
tn__node *tn__tan(tn__node *x) { return wide(tan_wide, x); }
tn__node *tn__atan(tn__node *x) { return wide(atan_wide, x); }
tn__node *tn__asin(tn__node *x) { return wide(asin_wide, x); }
tn__node *tn__acos(tn__node *x) { return wide(acos_wide, x); }

/* ---- hyperbolic ---- */

/* exp|x| / 2, which overflows only where the result does, and its reciprocal's quarter exp(-|x|) / 2. */
static void halves(tn__node *x, tn__node **up, tn__node **down)
{
    tn__node *e = exp_wide(tn__mul_s(size_of(x), 0.5));
    *up = mul(tn__mul_s(e, 0.5), e);
    *down = quot(tn__like(x, 0.25), cap(*up, 1e30));
}

static tn__node *sinh_wide(tn__node *x)
{
    tn__node *up, *down;
    halves(x, &up, &down);
    tn__node *far = sub(up, down);
    tn__node *small = tn__binary(TN_OP_AND, below(x, 1), above(x, -1));
    tn__node *xs = tn__where(small, x, tn__like(x, 0));
    tn__node *near = mul(xs, POLY(mul(xs, xs), sinh));
    return tn__where(small, near, tn__where(below(x, 0), neg(far), far));
}

static tn__node *cosh_wide(tn__node *x)
{
    tn__node *up, *down;
    halves(x, &up, &down);
    return add(up, down);
}

static tn__node *tanh_wide(tn__node *x)
{
    tn__node *small = tn__binary(TN_OP_AND, below(x, 0.6), above(x, -0.6));
    tn__node *e = exp_wide(tn__mul_s(cap(size_of(x), 20), 2));
    tn__node *far = sub(tn__like(x, 1), quot(tn__like(x, 2), tn__add_s(e, 1)));
    tn__node *xs = tn__where(small, x, tn__like(x, 0));
    tn__node *near = mul(xs, POLY(mul(xs, xs), tanh));
    return tn__where(small, near, tn__where(below(x, 0), neg(far), far));
}

/* Beyond this the 1 under the square root does not count. */
static double huge_of(const tn__node *x) { return x->dt == TN_F64 ? 1e9 : 1e5; }

static tn__node *log_twice(tn__node *a, double from)
{
    return tn__add_s(log_wide(tn__where(below(a, from), tn__like(a, from), a)), LN2);
}

static tn__node *asinh_wide(tn__node *x)
{
    if (!x) return NULL;
    double big = huge_of(x);
    tn__node *a = size_of(x), *c = cap(a, big);
    tn__node *q = mul(c, c);
    tn__node *root = tn__unary(TN_OP_SQRT, tn__add_s(q, 1));
    tn__node *r = log1p_wide(add(c, quot(q, tn__add_s(root, 1))));
    r = tn__where(above(a, big), log_twice(a, big), r);
    return odd_at_zero(x, tn__where(below(x, 0), neg(r), r));
}

static tn__node *acosh_wide(tn__node *x)
{
    if (!x) return NULL;
    double big = huge_of(x);
    tn__node *t = cap(tn__add_s(x, -1), big);
    tn__node *r = log1p_wide(add(t, tn__unary(TN_OP_SQRT, add(tn__mul_s(t, 2), mul(t, t)))));
    return tn__where(above(x, big), log_twice(x, big), r);
}

static tn__node *atanh_wide(tn__node *x)
{
    tn__node *a = size_of(x);
    tn__node *r = tn__mul_s(log1p_wide(quot(tn__mul_s(a, 2), sub(tn__like(x, 1), a))), 0.5);
    return odd_at_zero(x, tn__where(below(x, 0), neg(r), r));
}

/* |x| < 1: x P(x^2); beyond: 1 - exp(-x^2) Q, Q a polynomial in t = 2 / (2 + |x|) about its middle. */
static tn__node *erf_wide(tn__node *x)
{
    if (!x) return NULL;
    tn__node *small = tn__binary(TN_OP_AND, below(x, 1), above(x, -1));
    tn__node *xs = tn__where(small, x, tn__like(x, 0));
    tn__node *near = mul(xs, POLY(mul(xs, xs), erf));
    tn__node *a = cap(tn__where(small, tn__like(x, 1), size_of(x)), 6);
    tn__node *t = quot(tn__like(x, 2), tn__add_s(a, 2));
    const double lo = 0.25, hi = 2.0 / 3;
    tn__node *y = tn__mul_s(tn__add_s(t, -(lo + hi) / 2), 2 / (hi - lo));
    tn__node *far = sub(tn__like(x, 1), mul(exp_wide(neg(mul(a, a))), POLY(y, erfcx)));
    return tn__where(small, near, tn__where(below(x, 0), neg(far), far));
}

tn__node *tn__sinh(tn__node *x) { return wide(sinh_wide, x); }
tn__node *tn__cosh(tn__node *x) { return wide(cosh_wide, x); }
tn__node *tn__tanh(tn__node *x) { return wide(tanh_wide, x); }
tn__node *tn__asinh(tn__node *x) { return wide(asinh_wide, x); }
tn__node *tn__acosh(tn__node *x) { return wide(acosh_wide, x); }
tn__node *tn__atanh(tn__node *x) { return wide(atanh_wide, x); }
tn__node *tn__erf(tn__node *x) { return wide(erf_wide, x); }
