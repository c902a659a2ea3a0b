/* SPDX-License-Identifier: MIT */
/* Elementwise ops to linear code.  See lower.h; semantics in ir/ops.def. */
#include "codegen/lower.h"
#include <math.h>

#define LN2       0.6931471805599453
#define LOG2E     1.4426950408889634
#define LOG2E_LOW 2.0355273740931033e-17 /* log2(e) - LOG2E */

typedef struct {
    tn__rows *r;
    tn_dtype dt; /* of the sources */
    int n;       /* lanes */
} ctx;

int tn__lower_const(tn__rows *r, tn_dtype dt, int lanes, uint64_t bits)
{
    return tn__row_pure(r, TN__L_const, dt, lanes, -1, -1, -1, (int64_t)bits);
}

int tn__lower_const_f(tn__rows *r, tn_dtype dt, int lanes, double v)
{
    return tn__lower_const(r, dt, lanes, tn__scalar_bits(dt, tn__scalar_from_double(dt, v)));
}

static int kf(const ctx *c, double v) { return tn__lower_const_f(c->r, c->dt, c->n, v); }
static int ki(const ctx *c, int64_t v)
{
    return tn__lower_const(c->r, c->dt, c->n,
                           tn__scalar_bits(c->dt, tn__scalar_from_int(c->dt, v)));
}
static int op1(const ctx *c, tn__lop op, int a)
{
    return tn__row_pure(c->r, op, c->dt, c->n, a, -1, -1, 0);
}
static int op2(const ctx *c, tn__lop op, int a, int b)
{
    return tn__row_pure(c->r, op, c->dt, c->n, a, b, -1, 0);
}
static int cmp(const ctx *c, tn__lop op, int a, int b)
{
    return tn__row_pure(c->r, op, TN_BOOL, c->n, a, b, -1, 0);
}
static int sel(const ctx *c, int cond, int a, int b)
{
    return tn__row_pure(c->r, TN__L_where, c->dt, c->n, cond, a, b, 0);
}
static int both(const ctx *c, tn__lop op, int a, int b)
{
    return tn__row_pure(c->r, op, TN_BOOL, c->n, a, b, -1, 0);
}
static int no(const ctx *c, int a)
{
    return tn__row_pure(c->r, TN__L_not, TN_BOOL, c->n, a, -1, -1, 0);
}

/* A constant that is no NaN. */
static bool number(const tn__rows *r, int row)
{
    if (r->failed) return false;
    const tn__row *w = &r->row[row];
    if (w->op != TN__L_const) return false;
    const tn_dtype dt = (tn_dtype)w->dt;
    return !isnan(tn__scalar_to_double(dt, tn__scalar_from_bits(dt, (uint64_t)w->imm)));
}

/* a if it wins or is NaN, else b if it is NaN or wins. */
static int extreme(const ctx *c, int a, int b, bool max)
{
    int take = max ? cmp(c, TN__L_lt, a, b) : cmp(c, TN__L_lt, b, a);
    if (tn__dtype_is_float(c->dt) && !number(c->r, b))
        take = both(c, TN__L_or, take, cmp(c, TN__L_ne, b, b));
    return sel(c, take, b, a);
}

/* Floor division and its remainder: by 0 both are 0, MIN / -1 is MIN with remainder 0. */
static int divide(const ctx *c, int a, int b, bool rem)
{
    const int zero = ki(c, 0), one = ki(c, 1);
    int bad = cmp(c, TN__L_eq, b, zero), minus = -1;
    if (tn__dtype_is_signed(c->dt)) {
        minus = cmp(c, TN__L_eq, b, ki(c, -1));
        bad = both(c, TN__L_or, bad, minus);
    }
    const int safe = sel(c, bad, one, b);
    const int q = op2(c, TN__L_idiv, a, safe), m = op2(c, TN__L_imod, a, safe);
    const int by_zero = cmp(c, TN__L_eq, b, zero);
    if (!tn__dtype_is_signed(c->dt)) return sel(c, by_zero, zero, rem ? m : q);
    const int neg = cmp(c, TN__L_lt, op2(c, TN__L_xor, a, safe), zero);
    const int fix = both(c, TN__L_and, neg, cmp(c, TN__L_ne, m, zero));
    int v = rem ? sel(c, fix, op2(c, TN__L_add, m, safe), m)
                : sel(c, fix, op2(c, TN__L_sub, q, one), q);
    if (rem)
        v = sel(c, minus, zero, v);
    else
        v = sel(c, minus, op1(c, TN__L_neg, a), v);
    return sel(c, by_zero, zero, v);
}

static int shift(const ctx *c, int a, int b, bool left)
{
    if (c->r->failed) return 0;
    const tn__row *k = &c->r->row[b];
    const int bits = tn__dtype_bits(c->dt);
    const tn__lop op = left ? TN__L_shl : TN__L_shr;
    if (k->op == TN__L_const && k->imm >= 0 && k->imm < bits) return op2(c, op, a, b);
    int ok = cmp(c, TN__L_lt, b, ki(c, bits));
    if (tn__dtype_is_signed(c->dt))
        ok = both(c, TN__L_and, ok, no(c, cmp(c, TN__L_lt, b, ki(c, 0))));
    const int v = op2(c, op, a, sel(c, ok, b, ki(c, 0)));
    int out = ki(c, 0);
    if (!left && tn__dtype_is_signed(c->dt)) out = op2(c, TN__L_shr, a, ki(c, bits - 1));
    return sel(c, ok, v, out);
}

static int cast_rows(tn__rows *r, tn_dtype to, int lanes, int a)
{
    return tn__row_pure(r, TN__L_cast, to, lanes, a, -1, -1, 0);
}

/* C's pow for floats through exp2(y * log2|x|), in double for float32. */
static int power(const ctx *c0, int x, int y)
{
    ctx c = *c0;
    c.dt = TN_F64;
    if (c0->dt != TN_F64) {
        x = cast_rows(c.r, TN_F64, c.n, x);
        y = cast_rows(c.r, TN_F64, c.n, y);
    }
    const int zero = kf(&c, 0), one = kf(&c, 1), half = kf(&c, 0.5), inf = kf(&c, INFINITY);
    const int neg = cmp(&c, TN__L_lt, x, zero), ax = sel(&c, neg, op1(&c, TN__L_neg, x), x);
    const int p = op1(&c, TN__L_exp2, op2(&c, TN__L_mul, y, op1(&c, TN__L_log2, ax)));
    const int whole = cmp(&c, TN__L_eq, op1(&c, TN__L_floor, y), y);
    const int yh = op2(&c, TN__L_mul, y, half);
    int odd = both(&c, TN__L_and, whole, cmp(&c, TN__L_ne, op1(&c, TN__L_floor, yh), yh));
    /* the sign bit of x, also for -0 */
    const int sign = cmp(&c, TN__L_lt, tn__row_pure(c.r, TN__L_bitcast, TN_I64, c.n, x, -1, -1, 0),
                         tn__lower_const(c.r, TN_I64, c.n, 0));
    odd = both(&c, TN__L_and, odd, sign);
    int v = sel(&c, odd, op1(&c, TN__L_neg, p), p);
    int bad = both(&c, TN__L_and, neg, no(&c, whole));
    bad = both(&c, TN__L_and, bad,
               cmp(&c, TN__L_lt, ax, inf)); /* also false for y infinite: whole */
    v = sel(&c, bad, kf(&c, NAN), v);
    const int y_inf = cmp(&c, TN__L_eq,
                          sel(&c, cmp(&c, TN__L_lt, y, zero), op1(&c, TN__L_neg, y), y), inf);
    int unit = cmp(&c, TN__L_eq, x, one);
    unit = both(&c, TN__L_or, unit, cmp(&c, TN__L_eq, y, zero));
    unit = both(&c, TN__L_or, unit, both(&c, TN__L_and, y_inf, cmp(&c, TN__L_eq, ax, one)));
    v = sel(&c, unit, one, v);
    return c0->dt == TN_F64 ? v : cast_rows(c.r, c0->dt, c.n, v);
}

/* The largest float of dtype `from` that is at most max of the integer type. */
static double top_of(tn_dtype from, tn_dtype to)
{
    const int digits = from == TN_F32 ? 24 : 53;
    const int bits = tn__dtype_bits(to) - (tn__dtype_is_signed(to) ? 1 : 0);
    if (bits <= digits) return ldexp(1, bits) - 1;
    return ldexp(1, bits) - ldexp(1, bits - digits);
}

static int float_to_int(const ctx *c, tn_dtype to, int x)
{
    const double top = top_of(c->dt, to), low = (double)tn__dtype_int_min(to);
    /* x >= low - 1 + tiny truncates to low: compare after truncation */
    const int t = op1(c, TN__L_trunc, x);
    const int high = cmp(c, TN__L_lt, kf(c, top), t), under = cmp(c, TN__L_lt, t, kf(c, low));
    const int nan = cmp(c, TN__L_ne, x, x);
    const int out = both(c, TN__L_or, both(c, TN__L_or, high, under), nan);
    const int v = cast_rows(c->r, to, c->n, sel(c, out, kf(c, 0), t));
    const ctx k = {c->r, to, c->n};
    tn__scalar max = {.u = tn__dtype_int_max(to)};
    const int hi = tn__lower_const(c->r, to, c->n, tn__scalar_bits(to, max));
    return sel(&k, high, hi, sel(&k, under, ki(&k, tn__dtype_int_min(to)), v));
}

static int cast(const ctx *c, tn_dtype to, int x)
{
    if (to == c->dt) return x;
    if (to == TN_BOOL) return cmp(c, TN__L_ne, x, tn__lower_const(c->r, c->dt, c->n, 0));
    if (tn__dtype_is_float(c->dt) && !tn__dtype_is_float(to)) return float_to_int(c, to, x);
    return cast_rows(c->r, to, c->n, x);
}

/* x as float32 rounded to odd: what float32 cannot hold leaves its mark in the last bit, so that rounding
 * again to a half float is as rounding once (Boldo and Melquiond 2005).  c->dt: float64 or an integer. */
static int odd_float(const ctx *c, int x)
{
    const ctx f = {c->r, TN_F32, c->n}, u = {c->r, TN_U32, c->n};
    const int near = cast(c, TN_F32, x), back = cast(&f, c->dt, near);
    const int neg = cmp(c, TN__L_lt, x, tn__lower_const(c->r, c->dt, c->n, 0));
    const ctx b = {c->r, TN_BOOL, c->n};
    const int away = sel(&b, neg, cmp(c, TN__L_lt, back, x), cmp(c, TN__L_lt, x, back));
    const int bits = tn__row_pure(c->r, TN__L_bitcast, TN_U32, c->n, near, -1, -1, 0);
    const int cut = sel(&u, away, op2(&u, TN__L_sub, bits, ki(&u, 1)), bits);
    const int odd = sel(&u, cmp(c, TN__L_ne, back, x), op2(&u, TN__L_or, cut, ki(&u, 1)), bits);
    return tn__row_pure(c->r, TN__L_bitcast, TN_F32, c->n, odd, -1, -1, 0);
}

/* Whether float32 on the way to dt would round first: what overflows float16 is infinite either way. */
static bool rounds_twice(tn_dtype from, tn_dtype dt)
{
    return from == TN_F64 || (dt == TN_BF16 && tn__dtype_is_int(from) && tn__dtype_bits(from) > 24);
}

/* t = x k with k = +-2^n log2(e): the row of x and 2^n, signed; false for any other row. */
static bool natural(const ctx *c, int t, int *x, double *scale)
{
    if (c->r->failed) return false;
    const tn__row *w = &c->r->row[t];
    if (w->op != TN__L_mul) return false;
    for (int i = 0; i < 2; i++) {
        const tn__row *k = &c->r->row[w->src[i]];
        if (k->op != TN__L_const) continue;
        *scale = tn__log2e_multiple(c->dt, tn__scalar_from_bits(c->dt, (uint64_t)k->imm).f);
        *x = w->src[1 - i];
        return *scale != 0;
    }
    return false;
}

/* What rounding took from t = x k, k = scale log2(e): exactly by fma, else by products of half-length
 * factors, which are exact. */
static int lost(const ctx *c, int x, int t, double scale)
{
    const bool f64 = c->dt == TN_F64;
    const tn_dtype it = f64 ? TN_I64 : TN_I32;
    if (c->r->fma) {
        const double near = f64 ? LOG2E : (double)(float)LOG2E;
        const double low = f64 ? LOG2E_LOW : LOG2E - near;
        const int e = tn__row_pure(c->r, TN__L_fma, c->dt, c->n, x, kf(c, near * scale),
                                   op1(c, TN__L_neg, t), 0);
        return tn__row_pure(c->r, TN__L_fma, c->dt, c->n, x, kf(c, low * scale), e, 0);
    }
    const double high = f64 ? 1.44269503653049468994140625 : 1.4423828125; /* 26 and 12 bits */
    const uint64_t mask = f64 ? ~((UINT64_C(1) << 27) - 1) : UINT64_C(0xfffff000);
    const ctx i = {c->r, it, c->n};
    const int bits = tn__row_pure(c->r, TN__L_bitcast, it, c->n, x, -1, -1, 0);
    const int cut = op2(&i, TN__L_and, bits, tn__lower_const(c->r, it, c->n, mask));
    const int xh = tn__row_pure(c->r, TN__L_bitcast, c->dt, c->n, cut, -1, -1, 0);
    const int xl = op2(c, TN__L_sub, x, xh), h = kf(c, high * scale);
    const int lead = op2(c, TN__L_sub, op2(c, TN__L_mul, xh, h), t);
    const int rest = op2(c, TN__L_add, op2(c, TN__L_mul, xl, h),
                         op2(c, TN__L_mul, x, kf(c, (LOG2E - high) * scale)));
    return op2(c, TN__L_add, lead, rest);
}

/* 2^t.  Of x log2(e) it is e^x, as if the product were not rounded: 2^t (1 + d ln 2) for what was lost. */
static int power_of_two(const ctx *c, int t)
{
    int x;
    double scale;
    const int y = op1(c, TN__L_exp2, t);
    if (!natural(c, t, &x, &scale)) return y;
    const int d = lost(c, x, t, scale);
    const int part = op2(c, TN__L_mul, d, kf(c, LN2));
    const int more = c->r->fma ? tn__row_pure(c->r, TN__L_fma, c->dt, c->n, y, part, y, 0)
                               : op2(c, TN__L_add, y, op2(c, TN__L_mul, y, part));
    /* not where the factors or the result are infinite */
    const int ok = both(c, TN__L_and, cmp(c, TN__L_lt, op2(c, TN__L_mul, d, d), kf(c, 1)),
                        cmp(c, TN__L_lt, y, kf(c, INFINITY)));
    return sel(c, ok, more, y);
}

static int plain(const ctx *c, tn__op op, const int *s)
{
    const bool is_bool = c->dt == TN_BOOL;
    switch (op) {
    case TN_OP_NEG: return op1(c, TN__L_neg, s[0]);
    case TN_OP_NOT: return op1(c, TN__L_not, s[0]);
    case TN_OP_RECIP: return op2(c, TN__L_div, kf(c, 1), s[0]);
    case TN_OP_SQRT: return op1(c, TN__L_sqrt, s[0]);
    case TN_OP_EXP2: return power_of_two(c, s[0]);
    case TN_OP_LOG2: return op1(c, TN__L_log2, s[0]);
    case TN_OP_SIN: return op1(c, TN__L_sin, s[0]);
    case TN_OP_TRUNC: return op1(c, TN__L_trunc, s[0]);
    case TN_OP_FLOOR: return op1(c, TN__L_floor, s[0]);
    case TN_OP_ADD: return op2(c, is_bool ? TN__L_or : TN__L_add, s[0], s[1]);
    case TN_OP_SUB: return op2(c, is_bool ? TN__L_xor : TN__L_sub, s[0], s[1]);
    case TN_OP_MUL: return op2(c, is_bool ? TN__L_and : TN__L_mul, s[0], s[1]);
    case TN_OP_DIV: return op2(c, TN__L_div, s[0], s[1]);
    case TN_OP_IDIV: return divide(c, s[0], s[1], false);
    case TN_OP_IMOD: return divide(c, s[0], s[1], true);
    case TN_OP_POW: return power(c, s[0], s[1]);
    case TN_OP_MAX: return is_bool ? op2(c, TN__L_or, s[0], s[1]) : extreme(c, s[0], s[1], true);
    case TN_OP_MIN: return is_bool ? op2(c, TN__L_and, s[0], s[1]) : extreme(c, s[0], s[1], false);
    case TN_OP_AND: return op2(c, TN__L_and, s[0], s[1]);
    case TN_OP_OR: return op2(c, TN__L_or, s[0], s[1]);
    case TN_OP_XOR: return op2(c, TN__L_xor, s[0], s[1]);
    case TN_OP_SHL: return shift(c, s[0], s[1], true);
    case TN_OP_SHR: return shift(c, s[0], s[1], false);
    case TN_OP_LT: return cmp(c, TN__L_lt, s[0], s[1]);
    case TN_OP_EQ: return cmp(c, TN__L_eq, s[0], s[1]);
    case TN_OP_NE: return cmp(c, TN__L_ne, s[0], s[1]);
    case TN_OP_FMA: return tn__row_pure(c->r, TN__L_fma, c->dt, c->n, s[0], s[1], s[2], 0);
    default:
        tn__fail(TN_EINTERNAL, "codegen: %s has no lowering", tn__ops[op].text);
        c->r->failed = true;
        return 0;
    }
}

int tn__lower_op(tn__rows *r, tn__op op, tn_dtype dt, tn_dtype from, int lanes, const int *src)
{
    const ctx c = {r, from, lanes};
    const bool half = from == TN_F16 || from == TN_BF16;
    if (op == TN_OP_BITCAST) return tn__row_pure(r, TN__L_bitcast, dt, lanes, src[0], -1, -1, 0);
    if (op == TN_OP_WHERE)
        return tn__row_pure(r, TN__L_where, dt, lanes, src[0], src[1], src[2], 0);
    if (op == TN_OP_CAST && (dt == TN_F16 || dt == TN_BF16) && from != dt) {
        const ctx w = {r, from, lanes};
        int x = src[0];
        if (rounds_twice(from, dt))
            x = odd_float(&w, x);
        else if (from != TN_F32)
            x = half ? cast_rows(r, TN_F32, lanes, x) : cast(&w, TN_F32, x);
        return cast_rows(r, dt, lanes, x);
    }
    if (!half) return op == TN_OP_CAST ? cast(&c, dt, src[0]) : plain(&c, op, src);
    /* half floats: in float, rounded after each op */
    const ctx w = {r, TN_F32, lanes};
    int s[3] = {-1, -1, -1};
    for (int i = 0; i < 3 && i < tn__ops[op].nsrc; i++) s[i] = cast_rows(r, TN_F32, lanes, src[i]);
    if (op == TN_OP_CAST) return dt == from ? src[0] : cast(&w, dt, s[0]);
    const int v = plain(&w, op, s);
    return tn__ops[op].cls == TN_CLASS_COMPARE ? v : cast_rows(r, dt, lanes, v);
}
