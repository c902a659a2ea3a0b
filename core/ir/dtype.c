/* SPDX-License-Identifier: MIT */
/*
 * Element types: their table, the promotion lattice and the conversion of single values.
 *
 * Every conversion rounds once, to nearest even: wide sources are first rounded *to odd* (what is lost
 * sets the last bit) into a format with at least two more bits than the target, which makes the second
 * rounding right (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008).
 * Constant tables; any thread.
 */
#include "ir/dtype.h"
#include <math.h>
#include <string.h>

typedef enum { NONE, BOOL, SIGNED, UNSIGNED, FLOAT } kind;

static const struct {
    const char *name;
    uint8_t size, kind;
} types[TN_DTYPES] = {
    [TN_BOOL] = {"bool", 1, BOOL},      [TN_I8] = {"int8", 1, SIGNED},
    [TN_U8] = {"uint8", 1, UNSIGNED},   [TN_I16] = {"int16", 2, SIGNED},
    [TN_U16] = {"uint16", 2, UNSIGNED}, [TN_I32] = {"int32", 4, SIGNED},
    [TN_U32] = {"uint32", 4, UNSIGNED}, [TN_I64] = {"int64", 8, SIGNED},
    [TN_U64] = {"uint64", 8, UNSIGNED}, [TN_F16] = {"float16", 2, FLOAT},
    [TN_BF16] = {"bfloat16", 2, FLOAT}, [TN_F32] = {"float32", 4, FLOAT},
    [TN_F64] = {"float64", 8, FLOAT},
};

static kind kind_of(tn_dtype dt) { return (unsigned)dt < TN_DTYPES ? (kind)types[dt].kind : NONE; }

size_t tn__dtype_size(tn_dtype dt) { return (unsigned)dt < TN_DTYPES ? types[dt].size : 0; }

const char *tn__dtype_name(tn_dtype dt) { return kind_of(dt) == NONE ? "?" : types[dt].name; }

size_t tn_dtype_size(tn_dtype dt) { return tn__dtype_size(dt); }
const char *tn_dtype_name(tn_dtype dt) { return tn__dtype_name(dt); }

bool tn__dtype_is_float(tn_dtype dt) { return kind_of(dt) == FLOAT; }
bool tn__dtype_is_int(tn_dtype dt) { return kind_of(dt) == SIGNED || kind_of(dt) == UNSIGNED; }
bool tn__dtype_is_signed(tn_dtype dt) { return kind_of(dt) == SIGNED; }
bool tn__dtype_is_unsigned(tn_dtype dt) { return kind_of(dt) == UNSIGNED; }
int tn__dtype_bits(tn_dtype dt) { return (int)tn__dtype_size(dt) * 8; }

/* ---- the lattice ---- */

static tn_dtype signed_of(size_t size)
{
    return size <= 1 ? TN_I8 : size <= 2 ? TN_I16 : size <= 4 ? TN_I32 : TN_I64;
}

tn_dtype tn__dtype_default_float(void)
{
    tn_dtype dt = (tn_dtype)tn_context_get(TN_DEFAULT_FLOAT);
    return tn__dtype_is_float(dt) ? dt : TN_F32;
}

tn_dtype tn__dtype_promote(tn_dtype a, tn_dtype b)
{
    kind ka = kind_of(a), kb = kind_of(b);
    size_t sa = tn__dtype_size(a), sb = tn__dtype_size(b);
    if (a == b || kb == BOOL) return a;
    if (ka == BOOL) return b;
    if (ka == FLOAT && kb == FLOAT) {
        if (sa == sb) return TN_F32; /* float16 with bfloat16 */
        return sa > sb ? a : b;
    }
    if (ka == FLOAT || kb == FLOAT) return ka == FLOAT ? a : b;
    if (ka == kb) return sa > sb ? a : b;
    /* signed with unsigned: the signed type that holds both */
    size_t ss = ka == SIGNED ? sa : sb, su = ka == SIGNED ? sb : sa;
    if (su == 8) return tn__dtype_default_float();
    return signed_of(ss > su ? ss : su * 2);
}

tn_dtype tn__dtype_to_float(tn_dtype dt)
{
    return tn__dtype_is_float(dt) ? dt : tn__dtype_default_float();
}

tn_dtype tn__dtype_sum(tn_dtype dt)
{
    switch (kind_of(dt)) {
    case UNSIGNED: return tn__dtype_size(dt) < 4 ? TN_U32 : dt;
    case FLOAT: return tn__dtype_size(dt) < 4 ? TN_F32 : dt;
    case BOOL: return TN_I32;
    case SIGNED: return tn__dtype_size(dt) < 4 ? TN_I32 : dt;
    case NONE: break;
    }
    return dt;
}

int64_t tn__dtype_int_min(tn_dtype dt)
{
    return kind_of(dt) == SIGNED ? (int64_t)(UINT64_MAX << (tn__dtype_bits(dt) - 1)) : 0;
}

uint64_t tn__dtype_int_max(tn_dtype dt)
{
    switch (kind_of(dt)) {
    case BOOL: return 1;
    case SIGNED: return UINT64_MAX >> (65 - tn__dtype_bits(dt));
    case UNSIGNED: return UINT64_MAX >> (64 - tn__dtype_bits(dt));
    case FLOAT:
    case NONE: break;
    }
    return 0;
}

/* ---- float16 and bfloat16 ---- */

static uint32_t bits_of(float f)
{
    uint32_t x;
    memcpy(&x, &f, sizeof x);
    return x;
}

static float float_of(uint32_t x)
{
    float f;
    memcpy(&f, &x, sizeof f);
    return f;
}

/* m / 2^shift, to nearest even; 1 <= shift <= 31 */
static uint32_t shift_even(uint32_t m, unsigned shift)
{
    uint32_t q = m >> shift, rest = m & ((1u << shift) - 1), half = 1u << (shift - 1);
    return q + (rest > half || (rest == half && (q & 1)));
}

uint16_t tn__f32_to_f16(float f)
{
    uint32_t x = bits_of(f), sign = x >> 16 & 0x8000u, a = x & 0x7fffffffu, h;
    if (a > 0x7f800000u)
        h = 0x7e00u | (a >> 13 & 0x3ffu); /* NaN: quiet, upper payload kept */
    else if (a >= 0x47800000u)
        h = 0x7c00u; /* from 65536 on */
    else if (a >= 0x38800000u)
        h = shift_even(a - 0x38000000u,
                       13); /* normal: a carry climbs into the exponent, up to infinity */
    else if (a > 0x33000000u)
        h = shift_even((a & 0x7fffffu) | 0x800000u,
                       126 - (a >> 23)); /* subnormal, in units of 2^-24 */
    else
        h = 0; /* up to 2^-25, which is the tie to even */
    return (uint16_t)(sign | h);
}

float tn__f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = h >> 10 & 0x1fu, m = h & 0x3ffu;
    if (e == 0x1f) return float_of(sign | 0x7f800000u | m << 13);
    if (e) return float_of(sign | (e + 112) << 23 | m << 13);
    float f = (float)m * 0x1p-24f;
    return sign ? -f : f;
}

uint16_t tn__f32_to_bf16(float f)
{
    uint32_t x = bits_of(f);
    if ((x & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(x >> 16 | 0x40u);
    return (uint16_t)((x + 0x7fffu + (x >> 16 & 1u)) >> 16);
}

float tn__bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

/* ---- single values ---- */

/* To float, rounded to odd: the last bit says whether anything was lost. */
static float to_odd(double v)
{
    float f = (float)v;
    if (isnan(v) || (double)f == v) return f;
    uint32_t x = bits_of(f);
    if (fabs((double)f) > fabs(v)) x--; /* rounded away: one step towards zero */
    return float_of(x | 1u);
}

/* A magnitude as double, rounded to odd. */
static double odd_u64(uint64_t m)
{
    if (m >> 53) m = (m & ~(uint64_t)0x7ff) | (m & 0x7ff ? 0x800u : 0);
    return (double)m;
}

static double round_float(tn_dtype dt, double v)
{
    switch (dt) {
    case TN_F32: return (double)(float)v;
    case TN_F16: return (double)tn__f16_to_f32(tn__f32_to_f16(to_odd(v)));
    case TN_BF16: return (double)tn__bf16_to_f32(tn__f32_to_bf16(to_odd(v)));
    default: return v;
    }
}

/* Keeps the low bits of a 64-bit pattern, with the sign of dt. */
static tn__scalar wrap(tn_dtype dt, uint64_t v)
{
    int drop = 64 - tn__dtype_bits(dt);
    tn__scalar s = {.u = 0};
    if (kind_of(dt) == BOOL)
        s.u = v != 0;
    else if (kind_of(dt) == SIGNED)
        s.i = (int64_t)(v << drop) >> drop;
    else if (kind_of(dt) == UNSIGNED)
        s.u = v << drop >> drop;
    return s;
}

static int64_t saturate_i(double v, int bits)
{
    double top = ldexp(1, bits - 1);
    if (isnan(v)) return 0;
    if (v >= top) return (int64_t)(UINT64_MAX >> (65 - bits));
    if (v <= -top) return (int64_t)(UINT64_MAX << (bits - 1));
    return (int64_t)v;
}

static uint64_t saturate_u(double v, int bits)
{
    if (isnan(v) || v <= 0) return 0;
    if (v >= ldexp(1, bits)) return UINT64_MAX >> (64 - bits);
    return (uint64_t)v;
}

tn__scalar tn__scalar_from_double(tn_dtype dt, double v)
{
    tn__scalar s = {.u = 0};
    switch (kind_of(dt)) {
    case BOOL: s.u = v != 0; break;
    case SIGNED: s.i = saturate_i(v, tn__dtype_bits(dt)); break;
    case UNSIGNED: s.u = saturate_u(v, tn__dtype_bits(dt)); break;
    case FLOAT: s.f = round_float(dt, v); break;
    case NONE: break;
    }
    return s;
}

static tn__scalar float_from_u64(tn_dtype dt, uint64_t m, bool negative)
{
    double v = dt == TN_F64 ? (double)m : odd_u64(m);
    return (tn__scalar){.f = round_float(dt, negative ? -v : v)};
}

tn__scalar tn__scalar_from_int(tn_dtype dt, int64_t v)
{
    if (kind_of(dt) != FLOAT) return wrap(dt, (uint64_t)v);
    return float_from_u64(dt, v < 0 ? 0 - (uint64_t)v : (uint64_t)v, v < 0);
}

double tn__scalar_to_double(tn_dtype dt, tn__scalar s)
{
    if (kind_of(dt) == FLOAT) return s.f;
    return kind_of(dt) == SIGNED ? (double)s.i : (double)s.u;
}

int64_t tn__scalar_to_int(tn_dtype dt, tn__scalar s)
{
    if (kind_of(dt) == FLOAT) return saturate_i(s.f, 64);
    return kind_of(dt) == SIGNED ? s.i : (int64_t)s.u;
}

tn__scalar tn__scalar_cast(tn_dtype from, tn_dtype to, tn__scalar s)
{
    if (kind_of(from) == FLOAT) return tn__scalar_from_double(to, s.f);
    if (kind_of(from) == SIGNED) return tn__scalar_from_int(to, s.i);
    return kind_of(to) == FLOAT ? float_from_u64(to, s.u, false) : wrap(to, s.u);
}

uint64_t tn__scalar_bits(tn_dtype dt, tn__scalar s)
{
    uint64_t u = 0;
    switch (dt) {
    case TN_F16: return tn__f32_to_f16(to_odd(s.f));
    case TN_BF16: return tn__f32_to_bf16(to_odd(s.f));
    case TN_F32: return bits_of((float)s.f);
    case TN_F64: memcpy(&u, &s.f, sizeof u); return u;
    case TN_BOOL: return s.u != 0;
    default: break;
    }
    u = kind_of(dt) == SIGNED ? (uint64_t)s.i : s.u;
    int bits = tn__dtype_bits(dt);
    return bits == 0 ? 0 : u & UINT64_MAX >> (64 - bits);
}

tn__scalar tn__scalar_from_bits(tn_dtype dt, uint64_t bits)
{
    tn__scalar s = {.u = 0};
    switch (dt) {
    case TN_F16: s.f = (double)tn__f16_to_f32((uint16_t)bits); return s;
    case TN_BF16: s.f = (double)tn__bf16_to_f32((uint16_t)bits); return s;
    case TN_F32: s.f = (double)float_of((uint32_t)bits); return s;
    case TN_F64: memcpy(&s.f, &bits, sizeof s.f); return s;
    case TN_BOOL: s.u = (bits & 0xff) != 0; return s;
    default: return wrap(dt, bits);
    }
}

double tn__log2e_multiple(tn_dtype dt, double k)
{
    int n;
    const double s = k / round_float(dt, 1.4426950408889634);
    return fabs(frexp(s, &n)) == 0.5 ? s : 0;
}
