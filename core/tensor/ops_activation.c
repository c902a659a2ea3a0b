/* SPDX-License-Identifier: MIT */
/*
 * Activations.  NaN goes through all of them; exponentials are taken of what cannot overflow, so that
 * neither values nor gradients turn into NaN for large inputs.
 */
#include "tensor/ops.h"
#include <math.h>

static tn__node *mul(tn__node *a, tn__node *b) { return tn__binary(TN_OP_MUL, a, b); }

static tn__node *below(tn__node *x, double v) { return tn__binary(TN_OP_LT, x, tn__like(x, v)); }

/* x where x > 0, else 0; NaN stays; the slope at 0 is 0. */
tn__node *tn__relu(tn__node *x)
{
    x = tn__strong(x);
    if (!x || x->dt == TN_BOOL) return x;
    tn__node *zero = tn__like(x, 0);
    if (!tn__dtype_is_float((tn_dtype)x->dt)) return tn__binary(TN_OP_MAX, x, zero);
    tn__node *off = tn__binary(TN_OP_OR, tn__binary(TN_OP_LT, x, zero),
                               tn__binary(TN_OP_EQ, x, zero));
    return tn__where(off, zero, x);
}

/* z = exp(-|x|) is at most 1: 1 / (1 + z), or z / (1 + z) for negative x. */
static tn__node *sigmoid(tn__node *x)
{
    tn__node *neg = below(x, 0);
    tn__node *z = tn__exp(tn__where(neg, x, tn__unary(TN_OP_NEG, x)));
    tn__node *r = tn__unary(TN_OP_RECIP, tn__add_s(z, 1));
    return tn__where(neg, mul(z, r), r);
}

/* f in at least float32, the result in x's (float) dtype. */
static tn__node *wide(tn__node *f(tn__node *x), tn__node *x)
{
    x = tn__to_float(x);
    return x ? tn__cast(f(tn__to_wide(x)), (tn_dtype)x->dt) : NULL;
}

tn__node *tn__sigmoid(tn__node *x) { return wide(sigmoid, x); }

static tn__node *between(tn__node *x, double lo, double hi)
{
    x = tn__strong(x);
    if (!x) return NULL;
    tn_dtype dt = (tn_dtype)x->dt;
    if (!tn__dtype_is_float(dt)) { /* the whole numbers between, of those that there are */
        double least = (double)tn__dtype_int_min(dt), most = (double)tn__dtype_int_max(dt);
        lo = fmin(fmax(ceil(lo), least), most);
        hi = fmin(fmax(floor(hi), least), most);
    }
    return tn__clamp(x, tn__like(x, lo), tn__like(x, hi));
}

tn__node *tn__relu6(tn__node *x)
{
    x = tn__relu(x);
    return x ? tn__clamp(x, NULL, tn__like(x, 6)) : NULL;
}

tn__node *tn__hardsigmoid(tn__node *x, double alpha, double beta)
{
    return between(tn__add_s(tn__mul_s(tn__to_float(x), alpha), beta), 0, 1);
}

static tn__node *hardswish(tn__node *x)
{
    return tn__mul_s(mul(x, tn__relu6(tn__add_s(x, 3))), 1.0 / 6);
}

tn__node *tn__hardswish(tn__node *x) { return wide(hardswish, x); }

tn__node *tn__hardtanh(tn__node *x, double lo, double hi) { return between(x, lo, hi); }

tn__node *tn__leaky_relu(tn__node *x, double slope)
{
    x = tn__to_float(x);
    return x ? tn__where(below(x, 0), tn__mul_s(x, slope), x) : NULL;
}

static tn__node *quick_gelu(tn__node *x) { return mul(x, sigmoid(tn__mul_s(x, 1.702))); }

tn__node *tn__quick_gelu(tn__node *x) { return wide(quick_gelu, x); }

tn__node *tn__gelu(tn__node *x, bool tanh)
{
    tn__node *in = tn__to_float(x);
    x = tn__to_wide(in);
    if (!x) return NULL;
    tn__node *g;
    if (tanh) {
        tn__node *cube = mul(mul(x, x), x);
        g = tn__tanh(
            tn__mul_s(tn__binary(TN_OP_ADD, x, tn__mul_s(cube, 0.044715)), 0.7978845608028654));
    } else {
        g = tn__erf(tn__mul_s(x, 0.7071067811865476));
    }
    return tn__cast(mul(tn__mul_s(x, 0.5), tn__add_s(g, 1)), (tn_dtype)in->dt);
}

static tn__node *silu(tn__node *x) { return mul(x, sigmoid(x)); }

tn__node *tn__silu(tn__node *x) { return wide(silu, x); }

/* exp(x) - 1 for x <= 0 (0 above): tanh(x/2) (exp(x) + 1), which does not cancel near 0. */
static tn__node *expm1_below(tn__node *x)
{
    if (!x) return NULL;
    tn__node *c = tn__where(below(x, 0), x, tn__like(x, 0));
    return mul(tn__tanh(tn__mul_s(c, 0.5)), tn__add_s(tn__exp(c), 1));
}

/* a expm1(x / scale) below 0, b x above. */
static tn__node *exponential_unit(tn__node *x, double a, double scale, double b)
{
    tn__node *in = tn__to_float(x);
    x = tn__to_wide(in);
    if (!x) return NULL;
    tn__node *under = tn__mul_s(expm1_below(tn__mul_s(x, 1 / scale)), a);
    return tn__cast(tn__where(below(x, 0), under, tn__mul_s(x, b)), (tn_dtype)in->dt);
}

tn__node *tn__elu(tn__node *x, double alpha) { return exponential_unit(x, alpha, 1, 1); }

tn__node *tn__celu(tn__node *x, double alpha) { return exponential_unit(x, alpha, alpha, 1); }

tn__node *tn__selu(tn__node *x, double alpha, double gamma)
{
    return exponential_unit(x, alpha * gamma, 1, gamma);
}

tn__node *tn__softplus(tn__node *x, double beta)
{
    tn__node *in = tn__to_float(x);
    x = tn__to_wide(in);
    if (!x) return NULL;
    tn__node *y = tn__logaddexp(tn__mul_s(x, beta), tn__like(x, 0));
    return tn__cast(tn__mul_s(y, 1 / beta), (tn_dtype)in->dt);
}

static tn__node *mish(tn__node *x) { return mul(x, tn__tanh(tn__softplus(x, 1))); }

tn__node *tn__mish(tn__node *x) { return wide(mish, x); }

static tn__node *logsigmoid(tn__node *x)
{
    return tn__unary(TN_OP_NEG, tn__softplus(tn__unary(TN_OP_NEG, x), 1));
}

tn__node *tn__logsigmoid(tn__node *x) { return wide(logsigmoid, x); }

static tn__node *softsign(tn__node *x)
{
    return tn__binary(TN_OP_DIV, x, tn__add_s(tn__abs(x), 1));
}

tn__node *tn__softsign(tn__node *x) { return wide(softsign, x); }
