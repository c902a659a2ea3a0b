/* SPDX-License-Identifier: MIT */
/*
 * Values: conversions between bits and numbers, and one lane of every value op.
 *
 * Integers are computed in 64 bits and cut to their width, which is what wrapping means.  Floats are
 * computed in double and rounded once to their type, to nearest even.  That equals one rounding of the
 * exact result: double carries more than twice the digits plus two of float, float16 and bfloat16, and
 * then the second rounding of + - * / sqrt changes nothing (S. A. Figueroa, When is double rounding
 * innocuous?, 1995).  fma has no such guarantee and goes through round-to-odd (fma_small).
 */
#include "interp.h"
#include <math.h>
#include <string.h>

static const struct {
    const char *name;
    uint8_t size, kind; /* kind: 'b' bool, 'i' signed, 'u' unsigned, 'f' float */
} types[TNP_DTYPE_COUNT] = {
    [TNP_BOOL] = {"bool", 1, 'b'},     [TNP_I8] = {"int8", 1, 'i'},
    [TNP_U8] = {"uint8", 1, 'u'},      [TNP_I16] = {"int16", 2, 'i'},
    [TNP_U16] = {"uint16", 2, 'u'},    [TNP_I32] = {"int32", 4, 'i'},
    [TNP_U32] = {"uint32", 4, 'u'},    [TNP_I64] = {"int64", 8, 'i'},
    [TNP_U64] = {"uint64", 8, 'u'},    [TNP_F16] = {"float16", 2, 'f'},
    [TNP_BF16] = {"bfloat16", 2, 'f'}, [TNP_F32] = {"float32", 4, 'f'},
    [TNP_F64] = {"float64", 8, 'f'},
};

uint32_t interp__size(uint32_t dt) { return dt < TNP_DTYPE_COUNT ? types[dt].size : 0; }
const char *interp__dtype(uint32_t dt) { return interp__size(dt) ? types[dt].name : "?"; }
bool interp__is_float(uint32_t dt) { return dt < TNP_DTYPE_COUNT && types[dt].kind == 'f'; }
bool interp__is_int(uint32_t dt)
{
    return dt < TNP_DTYPE_COUNT && (types[dt].kind == 'i' || types[dt].kind == 'u');
}

static uint64_t cut(uint32_t dt, uint64_t bits)
{
    const uint32_t n = 8 * interp__size(dt);
    return n == 64 ? bits : bits & ((UINT64_C(1) << n) - 1);
}

int64_t interp__to_int(uint32_t dt, uint64_t bits)
{
    switch (dt) {
    case TNP_I8: return (int8_t)(uint8_t)bits;
    case TNP_I16: return (int16_t)(uint16_t)bits;
    case TNP_I32: return (int32_t)(uint32_t)bits;
    default: return (int64_t)cut(dt, bits);
    }
}

uint64_t interp__get(const unsigned char *p, uint32_t size)
{
    uint64_t v = 0;
    for (uint32_t i = 0; i < size; i++) v |= (uint64_t)p[i] << (8 * i);
    return v;
}

void interp__put(unsigned char *p, uint32_t size, uint64_t bits)
{
    for (uint32_t i = 0; i < size; i++) p[i] = (unsigned char)(bits >> (8 * i));
}

/* ---- floats ---- */

/* A float of `m` stored mantissa bits and exponent bias `bias`, sign in bit 15. */
static double small_to_double(uint32_t h, int m, int bias)
{
    const int emax = 2 * bias + 1;
    const int e = (int)(h & 0x7fff) >> m;
    const int f = (int)h & ((1 << m) - 1);
    double v;
    if (e == emax)
        v = f ? (double)NAN : (double)INFINITY;
    else if (e == 0)
        v = ldexp(f, 1 - bias - m);
    else
        v = ldexp(f + (1 << m), e - bias - m);
    return h & 0x8000 ? -v : v;
}

/* Round to nearest even: v is scaled until one unit is the last place of the result; nearbyint rounds. */
static uint32_t small_from_double(double v, int m, int bias)
{
    const uint32_t sign = signbit(v) ? 0x8000u : 0;
    const uint32_t inf = (uint32_t)(2 * bias + 1) << m;
    if (isnan(v)) return sign | inf | 1u << (m - 1);
    if (isinf(v)) return sign | inf;
    if (v == 0) return sign;
    v = fabs(v);
    int e;
    frexp(v, &e);                            /* v = f * 2^e, 0.5 <= f < 1 */
    e = e - 1 < 1 - bias ? 1 - bias : e - 1; /* subnormals share the lowest exponent */
    const double units = ldexp(v, m - e);    /* exact */
    double whole = floor(units);
    const double rest = units - whole;
    if (rest > 0.5 || (rest == 0.5 && fmod(whole, 2) != 0)) whole += 1;
    /* the carry of a full mantissa flows into the exponent, as the encoding has it */
    const double bits = whole + ldexp(e - 1 + bias, m);
    return sign | (bits >= inf ? inf : (uint32_t)bits);
}

double interp__to_double(uint32_t dt, uint64_t bits)
{
    switch (dt) {
    case TNP_F16: return small_to_double((uint32_t)bits & 0xffff, 10, 15);
    case TNP_BF16: return small_to_double((uint32_t)bits & 0xffff, 7, 127);
    case TNP_F32: {
        const uint32_t u = (uint32_t)bits;
        float f;
        memcpy(&f, &u, 4);
        return (double)f;
    }
    case TNP_F64: {
        double d;
        memcpy(&d, &bits, 8);
        return d;
    }
    case TNP_U64: return (double)bits;
    default: return (double)interp__to_int(dt, bits);
    }
}

uint64_t interp__from_double(uint32_t dt, double v)
{
    uint64_t bits = 0;
    switch (dt) {
    case TNP_F16: return small_from_double(v, 10, 15);
    case TNP_BF16: return small_from_double(v, 7, 127);
    case TNP_F32: {
        const float f = (float)v;
        uint32_t u;
        memcpy(&u, &f, 4);
        return u;
    }
    default: memcpy(&bits, &v, 8); return bits;
    }
}

/* a*b + c for float16 and bfloat16: the product is exact in double; the sum is rounded to odd (an
 * inexact one gets an odd last bit), so that the rounding to the small type is the only one. */
static double fma_small(double a, double b, double c)
{
    const double p = a * b;
    const double s = p + c;
    if (!isfinite(s)) return s;
    const double pp = s - c, cc = s - pp;
    const double err = (p - pp) + (c - cc);
    if (err == 0) return s;
    uint64_t u;
    memcpy(&u, &s, 8);
    if (u & 1) return s;
    return nextafter(s, err > 0 ? (double)INFINITY : -(double)INFINITY);
}

static uint64_t float_fma(uint32_t dt, uint64_t a, uint64_t b, uint64_t c)
{
    const double x = interp__to_double(dt, a), y = interp__to_double(dt, b),
                 z = interp__to_double(dt, c);
    if (dt == TNP_F64) return interp__from_double(dt, fma(x, y, z));
    if (dt == TNP_F32) return interp__from_double(dt, (double)fmaf((float)x, (float)y, (float)z));
    return interp__from_double(dt, fma_small(x, y, z));
}

static const char *float_op(const interp_row *r, uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    const uint32_t dt = r->dtype;
    const double x = interp__to_double(dt, a), y = interp__to_double(dt, b);
    double v;
    switch (r->op) {
    case OP_add: v = x + y; break;
    case OP_sub: v = x - y; break;
    case OP_mul: v = x * y; break;
    case OP_div: v = x / y; break;
    case OP_sqrt: v = sqrt(x); break;
    case OP_trunc: v = trunc(x); break;
    case OP_floor: v = floor(x); break;
    case OP_exp2: v = exp2(x); break;
    case OP_log2: v = log2(x); break;
    case OP_sin: v = sin(x); break;
    case OP_neg: *out = a ^ UINT64_C(1) << (8 * interp__size(dt) - 1); return NULL;
    case OP_fma: *out = float_fma(dt, a, b, c); return NULL;
    default: return "this op takes no floats";
    }
    *out = interp__from_double(dt, v);
    return NULL;
}

/* ---- integers and bool ---- */

static const char *divide(const interp_row *r, uint64_t a, uint64_t b, uint64_t *out)
{
    const bool rem = r->op == OP_imod;
    if (b == 0) return "the divisor is 0";
    if (types[r->dtype].kind == 'u') {
        *out = rem ? a % b : a / b;
        return NULL;
    }
    const int64_t x = interp__to_int(r->dtype, a), y = interp__to_int(r->dtype, b);
    const int64_t min = -(INT64_C(1) << (8 * interp__size(r->dtype) - 2)) * 2;
    if (x == min && y == -1) return "the quotient is too large for the type";
    *out = cut(r->dtype, (uint64_t)(rem ? x % y : x / y));
    return NULL;
}

static const char *shift(const interp_row *r, uint64_t a, uint64_t b, uint64_t *out)
{
    const uint32_t dt = r->dtype;
    const int64_t n = interp__to_int(dt, b);
    if (n < 0 || n >= (int64_t)(8 * interp__size(dt)))
        return "the shift count is not in 0 .. bits - 1";
    if (r->op == OP_shl)
        *out = cut(dt, a << n);
    else if (types[dt].kind == 'u')
        *out = a >> n;
    else { /* arithmetic, without relying on what >> does to negative numbers */
        const int64_t x = interp__to_int(dt, a);
        *out = cut(dt, x < 0 ? ~(~(uint64_t)x >> n) : (uint64_t)x >> n);
    }
    return NULL;
}

static const char *int_op(const interp_row *r, uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    uint64_t v;
    const bool boolean = r->dtype == TNP_BOOL;
    switch (r->op) {
    case OP_add: v = boolean ? a | b : a + b; break;
    case OP_sub: v = a - b; break;
    case OP_mul: v = a * b; break;
    case OP_neg: v = 0 - a; break;
    case OP_fma: v = a * b + c; break;
    case OP_and: v = a & b; break;
    case OP_or: v = a | b; break;
    case OP_xor: v = a ^ b; break;
    case OP_not: v = boolean ? a ^ 1 : ~a; break;
    case OP_shl:
    case OP_shr: return shift(r, a, b, out);
    case OP_idiv:
    case OP_imod: return divide(r, a, b, out);
    default: return "this op takes floats only";
    }
    *out = cut(r->dtype, v);
    return NULL;
}

/* ---- conversions and comparisons ---- */

/* An integer as a double with the same rounding to any float type of at most 51 digits: what does not
 * fit exactly gets an odd last bit. */
static double odd_double(uint32_t from, uint64_t bits)
{
    const bool neg = types[from].kind == 'i' && interp__to_int(from, bits) < 0;
    uint64_t u = neg ? 0 - (uint64_t)interp__to_int(from, bits) : cut(from, bits);
    if (u >> 53) u = (u & ~UINT64_C(0xfff)) | ((u & 0xfff) ? UINT64_C(0x800) : 0);
    return neg ? -(double)u : (double)u;
}

static const char *float_to_int(uint32_t to, double v, uint64_t *out)
{
    const int bits = 8 * (int)interp__size(to);
    const bool is_signed = types[to].kind == 'i';
    const double t = trunc(v); /* NaN stays NaN and fails both tests */
    const double lo = is_signed ? -ldexp(1, bits - 1) : 0;
    const double hi = ldexp(1, is_signed ? bits - 1 : bits);
    if (!(t >= lo && t < hi)) return "the value is outside the integer's range";
    *out = is_signed ? cut(to, (uint64_t)(int64_t)t) : (uint64_t)t;
    return NULL;
}

static const char *cast(const interp_row *r, uint64_t a, uint64_t *out)
{
    const uint32_t to = r->dtype, from = r->from;
    if (to == from)
        *out = a;
    else if (to == TNP_BOOL)
        *out = interp__is_float(from) ? interp__to_double(from, a) != 0 : a != 0;
    else if (interp__is_float(from) && interp__is_float(to))
        *out = interp__from_double(to, interp__to_double(from, a));
    else if (interp__is_float(from))
        return float_to_int(to, interp__to_double(from, a), out);
    else if (to == TNP_F64)
        *out = interp__from_double(to, interp__to_double(from, a));
    else if (interp__is_float(to))
        *out = interp__from_double(to, odd_double(from, a));
    else
        *out = cut(to, (uint64_t)interp__to_int(from, a));
    return NULL;
}

static uint64_t compare(const interp_row *r, uint64_t a, uint64_t b)
{
    const uint32_t dt = r->from;
    if (interp__is_float(dt)) {
        const double x = interp__to_double(dt, a), y = interp__to_double(dt, b);
        return r->op == OP_lt ? x < y : r->op == OP_eq ? x == y : x != y;
    }
    if (r->op == OP_eq) return a == b;
    if (r->op == OP_ne) return a != b;
    return dt < TNP_DTYPE_COUNT && types[dt].kind == 'i'
               ? interp__to_int(dt, a) < interp__to_int(dt, b)
               : a < b;
}

const char *interp__eval(const interp_row *r, uint64_t a, uint64_t b, uint64_t c, uint64_t *out)
{
    switch (r->op) {
    case OP_cast: return cast(r, a, out);
    case OP_bitcast: *out = a; return NULL;
    case OP_lt:
    case OP_eq:
    case OP_ne: *out = compare(r, a, b); return NULL;
    case OP_where: *out = a ? b : c; return NULL;
    default: break;
    }
    if (interp__is_float(r->dtype)) return float_op(r, a, b, c, out);
    return int_op(r, a, b, c, out);
}
