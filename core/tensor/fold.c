/* SPDX-License-Identifier: MIT */
/*
 * Elementwise ops on constants, by the rules of ops.def and the numeric rules of ARCHITECTURE.md.
 *
 * Floats narrower than float64 are computed in double and rounded once, which is exact for the four
 * operations and the square root; integers are computed in 64 bits and wrapped.
 */
#include "tensor/make.h"
#include <math.h>

static tn__scalar boolean(bool b) { return (tn__scalar){.u = b}; }

static bool fold_float(tn__op op, tn_dtype dt, const tn__scalar *s, tn__scalar *out)
{
    double a = s[0].f, b = tn__ops[op].nsrc > 1 ? s[1].f : 0, r;
    switch ((int)op) {
    case TN_OP_NEG: r = -a; break;
    case TN_OP_RECIP: r = 1 / a; break;
    case TN_OP_SQRT: r = sqrt(a); break;
    case TN_OP_EXP2: r = exp2(a); break;
    case TN_OP_LOG2: r = log2(a); break;
    case TN_OP_SIN: r = sin(a); break;
    case TN_OP_TRUNC: r = trunc(a); break;
    case TN_OP_FLOOR: r = floor(a); break;
    case TN_OP_ADD: r = a + b; break;
    case TN_OP_SUB: r = a - b; break;
    case TN_OP_MUL: r = a * b; break;
    case TN_OP_DIV: r = a / b; break;
    case TN_OP_POW: r = pow(a, b); break;
    case TN_OP_MAX: r = isnan(a) || isnan(b) ? NAN : a > b ? a : b; break;
    case TN_OP_MIN: r = isnan(a) || isnan(b) ? NAN : a < b ? a : b; break;
    case TN_OP_LT: *out = boolean(a < b); return true;
    case TN_OP_EQ: *out = boolean(a == b); return true;
    case TN_OP_NE: *out = boolean(a != b); return true;
    default: return false;
    }
    *out = tn__scalar_from_double(dt, r);
    return true;
}

static int64_t floor_div(int64_t a, int64_t b)
{
    if (!b) return 0;
    if (b == -1) return (int64_t)(0 - (uint64_t)a);
    return a / b - (a % b && (a < 0) != (b < 0));
}

static int64_t floor_mod(int64_t a, int64_t b)
{
    if (!b || b == -1) return 0;
    int64_t r = a % b;
    return r && (r < 0) != (b < 0) ? r + b : r;
}

static uint64_t shifted(tn__op op, tn_dtype dt, tn__scalar a, tn__scalar b)
{
    bool sign = tn__dtype_is_signed(dt);
    uint64_t bits = (uint64_t)tn__dtype_bits(dt);
    bool in = b.u < bits; /* a negative count is a huge one */
    if (op == TN_OP_SHL) return in ? a.u << b.u : 0;
    if (!sign) return in ? a.u >> b.u : 0;
    uint64_t count = in ? b.u : 63;
    return a.i < 0 ? ~(~a.u >> count) : a.u >> count;
}

/* Integers and bool; the 64-bit pattern is wrapped to the dtype by the caller. */
static bool fold_bits(tn__op op, tn_dtype dt, const tn__scalar *s, uint64_t *out)
{
    bool sign = tn__dtype_is_signed(dt);
    tn__scalar a = s[0], b = tn__ops[op].nsrc > 1 ? s[1] : (tn__scalar){0};
    bool less = sign ? a.i < b.i : a.u < b.u;
    switch ((int)op) {
    case TN_OP_NEG: *out = 0 - a.u; return true;
    case TN_OP_NOT: *out = dt == TN_BOOL ? !a.u : ~a.u; return true;
    case TN_OP_ADD: *out = dt == TN_BOOL ? a.u | b.u : a.u + b.u; return true;
    case TN_OP_SUB: *out = a.u - b.u; return true;
    case TN_OP_MUL: *out = a.u * b.u; return true;
    case TN_OP_IDIV: *out = sign ? (uint64_t)floor_div(a.i, b.i) : b.u ? a.u / b.u : 0; return true;
    case TN_OP_IMOD: *out = sign ? (uint64_t)floor_mod(a.i, b.i) : b.u ? a.u % b.u : 0; return true;
    case TN_OP_MAX: *out = less ? b.u : a.u; return true;
    case TN_OP_MIN: *out = less ? a.u : b.u; return true;
    case TN_OP_AND: *out = a.u & b.u; return true;
    case TN_OP_OR: *out = a.u | b.u; return true;
    case TN_OP_XOR: *out = a.u ^ b.u; return true;
    case TN_OP_SHL:
    case TN_OP_SHR: *out = shifted(op, dt, a, b); return true;
    case TN_OP_LT: *out = less; return true;
    case TN_OP_EQ: *out = a.u == b.u; return true;
    case TN_OP_NE: *out = a.u != b.u; return true;
    default: return false;
    }
}

bool tn__evaluate(tn__op op, tn_dtype dt, const tn__scalar *s, tn__scalar *out)
{
    if (op == TN_OP_WHERE) {
        *out = s[0].u ? s[1] : s[2];
        return true;
    }
    if (tn__dtype_is_float(dt)) return fold_float(op, dt, s, out);
    uint64_t r;
    if (!fold_bits(op, dt, s, &r)) return false;
    bool compare = tn__ops[op].cls == TN_CLASS_COMPARE;
    if (compare || dt == TN_BOOL)
        *out = boolean(r & 1);
    else
        *out = tn__scalar_from_int(dt, (int64_t)r);
    return true;
}
