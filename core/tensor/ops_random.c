/* SPDX-License-Identifier: MIT */
/*
 * Random tensors from the thread's words (tn__random_bits): uniform numbers have as many bits as the
 * dtype's mantissa and lie in [0, 1); normal ones are Box and Muller's; integers are scaled words.
 */
#include "tensor/ops.h"
#include <math.h>

static tn_dtype float_dtype(const char *op, tn_dtype dt)
{
    if (dt == TN_DTYPE_DEFAULT) return tn__dtype_default_float();
    if (tn__dtype_is_float(dt)) return dt;
    tn__fail(TN_EDTYPE, "%s: %s: takes float dtypes: use randint for integers", op,
             tn__dtype_name(dt));
    return TN_DTYPE_DEFAULT;
}

static tn__node *shifted(tn__node *bits, int by)
{
    return tn__binary(TN_OP_SHR, bits, bits ? tn__like(bits, by) : NULL);
}

tn__node *tn__rand(const int64_t *dims, int rank, tn_dtype dt)
{
    dt = float_dtype("rand", dt);
    if (dt == TN_DTYPE_DEFAULT) return NULL;
    tn__node *bits = tn__random_bits(dims, rank);
    if (dt == TN_F64) { /* 27 bits above 26 */
        tn__node *low = tn__cast(shifted(tn__random_bits(dims, rank), 6), dt);
        tn__node *high = tn__cast(shifted(bits, 5), dt);
        return tn__mul_s(tn__binary(TN_OP_ADD, tn__mul_s(high, 67108864.0), low), 0x1p-53);
    }
    int keep = dt == TN_F32 ? 24 : dt == TN_F16 ? 11 : 8;
    return tn__mul_s(tn__cast(shifted(bits, 32 - keep), dt), ldexp(1, -keep));
}

tn__node *tn__randn(const int64_t *dims, int rank, tn_dtype dt)
{
    dt = float_dtype("randn", dt);
    if (dt == TN_DTYPE_DEFAULT) return NULL;
    tn_dtype in = tn__dtype_promote(dt, TN_F32);
    tn__node *angle = tn__cos(tn__mul_s(tn__rand(dims, rank, in), 6.283185307179586));
    tn__node *u = tn__rand(dims, rank, in); /* 1 - u is in (0, 1] */
    tn__node *r = tn__sqrt(
        tn__mul_s(tn__ln(tn__binary(TN_OP_SUB, u ? tn__like(u, 1) : NULL, u)), -2));
    return tn__cast(tn__binary(TN_OP_MUL, angle, r), dt);
}

/* low + floor(word * range / 2^32); ranges above 2^32 take two words and a remainder. */
tn__node *tn__randint(const int64_t *dims, int rank, int64_t low, int64_t high, tn_dtype dt)
{
    if (dt == TN_DTYPE_DEFAULT) dt = TN_I32;
    if (!tn__dtype_is_int(dt))
        return tn__fail(TN_EDTYPE, "randint: %s: takes integer dtypes", tn__dtype_name(dt)), NULL;
    bool fits = tn__dtype_is_unsigned(dt)
                    ? low >= 0 && (uint64_t)high - 1 <= tn__dtype_int_max(dt)
                    : low >= tn__dtype_int_min(dt) &&
                          tn__minus(high, 1) <= (int64_t)tn__dtype_int_max(dt);
    if (low >= high || !fits) {
        tn__fail(
            TN_EVALUE,
            "randint: from %lld to below %lld as %s: low must be less than high and both must fit",
            (long long)low, (long long)high, tn__dtype_name(dt));
        return NULL;
    }
    uint64_t range = (uint64_t)high - (uint64_t)low;
    tn__node *w = tn__cast(tn__random_bits(dims, rank), TN_U64);
    if (range > UINT64_C(1) << 32) {
        tn__node *up = tn__binary(TN_OP_SHL, tn__cast(tn__random_bits(dims, rank), TN_U64),
                                  w ? tn__like(w, 32) : NULL);
        w = tn__binary(TN_OP_OR, up, w);
        w = tn__binary(TN_OP_IMOD, w, tn__const(TN_U64, (tn__scalar){.u = range}, dims, rank));
    } else {
        w = tn__binary(TN_OP_MUL, w, tn__const(TN_U64, (tn__scalar){.u = range}, dims, rank));
        w = shifted(w, 32);
    }
    return tn__binary(TN_OP_ADD, tn__cast(w, dt), tn__const_i(dt, low, dims, rank));
}

tn__node *tn__uniform(const int64_t *dims, int rank, double low, double high, tn_dtype dt)
{
    if (dt != TN_DTYPE_DEFAULT && !tn__dtype_is_float(dt)) { /* whole numbers of [low, high) */
        tn__node *u = tn__rand(dims, rank, TN_F32);
        return tn__cast(tn__add_s(tn__mul_s(u, high - low), low), dt);
    }
    return tn__add_s(tn__mul_s(tn__rand(dims, rank, dt), high - low), low);
}

tn__node *tn__normal(const int64_t *dims, int rank, double mean, double std, tn_dtype dt)
{
    return tn__add_s(tn__mul_s(tn__randn(dims, rank, dt), std), mean);
}

tn__node *tn__initial(tn__init kind, const int64_t *dims, int rank, double a, tn_dtype dt)
{
    static const char *const names[] = {[TN__SCALED] = "scaled_uniform",
                                        [TN__GLOROT] = "glorot_uniform",
                                        [TN__KAIMING_UNIFORM] = "kaiming_uniform",
                                        [TN__KAIMING_NORMAL] = "kaiming_normal"};
    dt = float_dtype(names[kind], dt);
    if (dt == TN_DTYPE_DEFAULT) return NULL;
    double all = 1, first = rank ? (double)dims[0] : 1;
    for (int i = 0; i < rank; i++) all *= (double)dims[i];
    double in = first != 0 ? all / first : 0, gain = sqrt(2 / (1 + a * a)), bound = 0;
    switch (kind) {
    case TN__SCALED: bound = 1 / sqrt(all); break;
    case TN__GLOROT: bound = sqrt(6 / (first + in)); break;
    case TN__KAIMING_UNIFORM: bound = sqrt(3) * gain / sqrt(in); break;
    case TN__KAIMING_NORMAL: return tn__normal(dims, rank, 0, all > 0 ? gain / sqrt(in) : 0, dt);
    }
    if (!isfinite(bound)) bound = 0; /* no elements */
    return tn__uniform(dims, rank, -bound, bound, dt);
}

tn__node *tn__randperm(int64_t n, tn_dtype dt)
{
    if (n < 0)
        return tn__fail(TN_EVALUE, "randperm: %lld: must not be negative", (long long)n), NULL;
    if (n > INT32_MAX)
        return tn__fail(TN_EVALUE, "randperm: %lld: must be at most 2147483647", (long long)n),
               NULL;
    return tn__cast(tn__argsort(tn__random_bits(&n, 1), false),
                    dt != TN_DTYPE_DEFAULT ? dt : TN_I32);
}

/* With replacement: how many running sums lie at or below a uniform number.  Without: the positions of
 * the least e / w with e exponential (Efraimidis and Spirakis). */
tn__node *tn__multinomial(tn__node *weights, int64_t samples, bool replacement)
{
    tn__node *w = tn__to_wide(weights);
    if (!w) return NULL;
    int64_t n = w->rank ? w->dims[w->rank - 1] : 0;
    if (w->rank < 1 || w->rank > 2 || n < 1 || samples < 1 || (!replacement && samples > n)) {
        tn__fail(TN_EVALUE,
                 "multinomial: %lld samples of weights %s: takes (n,) or (batch, n), and at most n "
                 "samples "
                 "without replacement",
                 (long long)samples, tn__shape_text(w->dims, w->rank));
        return NULL;
    }
    int64_t rows = w->rank == 2 ? w->dims[0] : 1, dims[2] = {rows, samples},
            wide[3] = {rows, samples, n};
    bool flat = w->rank == 1;
    if (!tn__dims_check("multinomial", wide, 3)) return NULL;
    w = tn__reshape(w, (int64_t[]){rows, n}, 2);
    tn__node *at;
    if (!replacement) {
        tn__node *u = tn__rand((int64_t[]){rows, n}, 2, (tn_dtype)w->dt);
        tn__node *e = tn__unary(TN_OP_NEG,
                                tn__ln(tn__binary(TN_OP_SUB, u ? tn__like(u, 1) : NULL, u)));
        at = tn__slice(tn__argsort(tn__binary(TN_OP_DIV, e, w), false), 1, 0, samples);
    } else {
        tn__node *cdf = tn__scan(TN_OP_ADD, w, 1), *total = tn__slice(cdf, 1, n - 1, 1);
        tn__node *u = tn__mul(tn__rand(dims, 2, w ? (tn_dtype)w->dt : TN_F32), total);
        u = tn__expand(tn__unsqueeze(u, 2), wide, 3);
        cdf = tn__expand(tn__unsqueeze(cdf, 1), wide, 3);
        tn__node *over = tn__unary(TN_OP_NOT,
                                   tn__binary(TN_OP_LT, u, cdf)); /* the last sum never counts */
        over = tn__slice(over, 2, 0, n - 1);
        at = tn__drop_axes(tn__reduce(TN_OP_ADD, tn__cast(over, TN_I32), 4), 4, false);
    }
    return flat ? tn__reshape(at, &samples, 1) : at;
}

/* Keeps each element with probability 1 - p, scaled by 1 / (1 - p). */
tn__node *tn__dropout(tn__node *x, double p)
{
    x = tn__strong(x);
    if (!(p >= 0 && p <= 1))
        return tn__fail(TN_EVALUE, "dropout: probability %g: must be in 0..1", p), NULL;
    if (!x || p == 0 || !tn_context_get(TN_TRAINING)) return x;
    x = tn__to_float(x);
    if (!x || p == 1) return x ? tn__like(x, 0) : NULL;
    tn__node *bits = tn__random_bits(x->dims, x->rank);
    tn__node *drop = tn__binary(
        TN_OP_LT, bits, bits ? tn__const_i(TN_U32, (int64_t)(p * 0x1p32), x->dims, x->rank) : NULL);
    return tn__where(drop, tn__like(x, 0), tn__mul_s(x, 1 / (1 - p)));
}
