/* SPDX-License-Identifier: MIT */
/*
 * exp2, log2 and sin of float32 and the conversions of half floats, as instructions for any number of lanes.
 *
 * exp2: x = n + r with |r| <= 1/2 by adding 1.5 * 2^23 (the sum's low bits are n); 2^r by a polynomial;
 *       2^n in two factors, so that results below the normal range are rounded once.
 * log2: x = 2^e (1 + f) with sqrt(1/2) <= 1 + f < sqrt(2) from the bits of x; f^2 P(f) in float32, the sum
 *       e + f log2(e) + f^2 P(f) in float64, which leaves one rounding to the result.
 * sin:  in float64: x = n pi/2 + r with pi/2 in two parts (W. J. Cody and W. Waite, Software manual for the
 *       elementary functions, 1980), exact enough to |x| = 2^20; beyond, a function out of line takes the 96 bits of
 *       2/pi that matter (Payne and Hanek 1983).  Polynomials for sin r and cos r; n's low bits choose and negate.
 *
 * All are within one unit in the last place of the float64 result rounded: a test walks all 2^32 inputs.
 * Coefficients: tests/golden/make_llvm_poly.py.
 */
#include "llvm_api.h"
#include <math.h>
#include <string.h>

#ifdef CPU_HAVE_LLVM
#include "llvm_poly.h"

#define LEN(a) (sizeof(a) / sizeof *(a))

/* What an expansion works with: types of its lanes. */
typedef struct {
    cpu__unit *u;
    LLVMBuilderRef b;
    unsigned n;
    LLVMTypeRef f32, f64, i32, i64;
} mx;

static mx begin(cpu__unit *u, unsigned lanes)
{
    return (mx){.u = u,
                .b = u->b,
                .n = lanes,
                .f32 = cpu__llvm_type(u, TNP_F32, lanes),
                .f64 = cpu__llvm_type(u, TNP_F64, lanes),
                .i32 = cpu__llvm_type(u, TNP_I32, lanes),
                .i64 = cpu__llvm_type(u, TNP_I64, lanes)};
}

static LLVMValueRef bits_k(const mx *m, unsigned bits, uint64_t v, LLVMTypeRef t)
{
    LLVMTypeRef it = L(IntTypeInContext)(m->u->c, bits);
    LLVMValueRef k = L(ConstInt)(it, v, 0), all[64];
    if (t != m->i32 && t != m->i64)
        k = L(BuildBitCast)(
            m->b, k, bits == 32 ? L(FloatTypeInContext)(m->u->c) : L(DoubleTypeInContext)(m->u->c),
            "");
    if (m->n == 1) return k;
    for (unsigned i = 0; i < m->n; i++) all[i] = k;
    return L(ConstVector)(all, m->n);
}

static LLVMValueRef ki(const mx *m, uint32_t v) { return bits_k(m, 32, v, m->i32); }
static LLVMValueRef kl(const mx *m, uint64_t v) { return bits_k(m, 64, v, m->i64); }

static LLVMValueRef kf(const mx *m, double v)
{
    const float f = (float)v;
    uint32_t bits;
    memcpy(&bits, &f, 4);
    return bits_k(m, 32, bits, m->f32);
}

static LLVMValueRef kd(const mx *m, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, 8);
    return bits_k(m, 64, bits, m->f64);
}

static LLVMValueRef add(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildFAdd)(m->b, a, b, "");
}
static LLVMValueRef sub(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildFSub)(m->b, a, b, "");
}
static LLVMValueRef mul(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildFMul)(m->b, a, b, "");
}
/* a b + c, in one instruction where there is one: either form is exact enough. */
static LLVMValueRef mad(const mx *m, LLVMValueRef a, LLVMValueRef b, LLVMValueRef c)
{
    LLVMValueRef v[3] = {a, b, c};
    return m->u->fma ? cpu__llvm_call(m->u, "llvm.fma", v, 3) : add(m, mul(m, a, b), c);
}
static LLVMValueRef cast(const mx *m, LLVMValueRef v, LLVMTypeRef t)
{
    return L(BuildBitCast)(m->b, v, t, "");
}
static LLVMValueRef pick(const mx *m, LLVMValueRef c, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildSelect)(m->b, c, a, b, "");
}
static LLVMValueRef less(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildFCmp)(m->b, LLVMRealOLT, a, b, "");
}
static LLVMValueRef iadd(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildAdd)(m->b, a, b, "");
}
static LLVMValueRef isub(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildSub)(m->b, a, b, "");
}
static LLVMValueRef iand(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildAnd)(m->b, a, b, "");
}
static LLVMValueRef ior(const mx *m, LLVMValueRef a, LLVMValueRef b)
{
    return L(BuildOr)(m->b, a, b, "");
}
static LLVMValueRef shl(const mx *m, LLVMValueRef a, uint32_t k)
{
    return L(BuildShl)(m->b, a, ki(m, k), "");
}
static LLVMValueRef shr(const mx *m, LLVMValueRef a, uint32_t k)
{
    return L(BuildLShr)(m->b, a, ki(m, k), "");
}
static LLVMValueRef sar(const mx *m, LLVMValueRef a, uint32_t k)
{
    return L(BuildAShr)(m->b, a, ki(m, k), "");
}
static LLVMValueRef is_zero(const mx *m, LLVMValueRef a)
{
    return L(BuildICmp)(m->b, LLVMIntEQ, a, L(ConstNull)(L(TypeOf)(a)), "");
}

/* By Horner's rule; coefficients of type f32 or f64 as x is. */
static LLVMValueRef poly(const mx *m, const double *c, size_t n, LLVMValueRef x)
{
    const bool wide = L(TypeOf)(x) == m->f64;
    LLVMValueRef p = wide ? kd(m, c[n - 1]) : kf(m, c[n - 1]);
    for (size_t i = n - 1; i-- > 0;) p = mad(m, p, x, wide ? kd(m, c[i]) : kf(m, c[i]));
    return p;
}

/* 2^k for -126 <= k <= 127 */
static LLVMValueRef power_of_two(const mx *m, LLVMValueRef k)
{
    return cast(m, shl(m, iadd(m, k, ki(m, 127)), 23), m->f32);
}

LLVMValueRef cpu__llvm_exp2(cpu__unit *u, LLVMValueRef x, unsigned lanes)
{
    const mx m = begin(u, lanes);
    const double magic = 12582912; /* 1.5 * 2^23, bits 0x4b400000 */
    LLVMValueRef low = kf(&m, -160), high = kf(&m, 129);
    LLVMValueRef t = pick(&m, less(&m, x, low), low, x);
    t = pick(&m, less(&m, high, t), high, t); /* NaN stays */
    LLVMValueRef sum = add(&m, t, kf(&m, magic));
    LLVMValueRef r = sub(&m, t, sub(&m, sum, kf(&m, magic)));
    LLVMValueRef n = isub(&m, cast(&m, sum, m.i32), ki(&m, 0x4b400000));
    LLVMValueRef p = mad(&m, poly(&m, exp2_p, LEN(exp2_p), r), r, kf(&m, 1));
    LLVMValueRef half = sar(&m, n, 1);
    p = mul(&m, p, power_of_two(&m, half));
    return mul(&m, p, power_of_two(&m, isub(&m, n, half)));
}

LLVMValueRef cpu__llvm_log2(cpu__unit *u, LLVMValueRef x, unsigned lanes)
{
    const mx m = begin(u, lanes);
    LLVMValueRef zero = kf(&m, 0), inf = kf(&m, (double)INFINITY);
    LLVMValueRef tiny = less(&m, x, kf(&m, 0x1p-126));
    LLVMValueRef ix = cast(&m, pick(&m, tiny, mul(&m, x, kf(&m, 0x1p23)), x), m.i32);
    LLVMValueRef e = sar(&m, isub(&m, ix, ki(&m, 0x3f3504f3)), 23); /* bits of sqrt(1/2) */
    LLVMValueRef f = sub(&m, cast(&m, isub(&m, ix, shl(&m, e, 23)), m.f32), kf(&m, 1));
    e = pick(&m, tiny, isub(&m, e, ki(&m, 23)), e);
    LLVMValueRef t = mul(&m, mul(&m, f, f), poly(&m, log2_p, LEN(log2_p), f));
    LLVMValueRef wide = L(BuildFPExt)(m.b, f, m.f64, "");
    wide = mad(&m, wide, kd(&m, log2_e), L(BuildFPExt)(m.b, t, m.f64, ""));
    wide = add(&m, wide, L(BuildSIToFP)(m.b, e, m.f64, ""));
    LLVMValueRef y = L(BuildFPTrunc)(m.b, wide, m.f32, "");
    LLVMValueRef finite = less(&m, x, inf); /* false for NaN */
    y = pick(&m, finite, y, x);
    y = pick(&m, less(&m, x, zero), kf(&m, (double)NAN), y);
    LLVMValueRef none = L(BuildFCmp)(m.b, LLVMRealOEQ, x, zero, "");
    return pick(&m, none, kf(&m, -(double)INFINITY), y);
}

/* ---- sin ---- */

/* sin(n pi/2 + r), n by its low bits, rounded to float32. */
static LLVMValueRef quadrant(const mx *m, LLVMValueRef n, LLVMValueRef r)
{
    LLVMValueRef z = mul(m, r, r);
    LLVMValueRef s = mad(m, mul(m, r, z), poly(m, sin_p, LEN(sin_p), z), r);
    LLVMValueRef c = mad(m, z, poly(m, cos_p, LEN(cos_p), z), kd(m, 1));
    LLVMValueRef y = pick(m, is_zero(m, iand(m, n, kl(m, 1))), s, c);
    LLVMValueRef neg = L(BuildFNeg)(m->b, y, "");
    return L(BuildFPTrunc)(m->b, pick(m, is_zero(m, iand(m, n, kl(m, 2))), y, neg), m->f32, "");
}

/* 32 bits of 2/pi from bit j of the table on, as 64-bit numbers; k = j / 32 words in, s = j % 32. */
static LLVMValueRef window(const mx *m, LLVMValueRef table, LLVMValueRef k, LLVMValueRef s,
                           uint64_t word)
{
    LLVMValueRef v[2];
    for (unsigned i = 0; i < 2; i++) {
        LLVMValueRef at = iadd(m, k, kl(m, word + i));
        LLVMValueRef p = L(BuildGEP2)(m->b, m->i32, table, &at, 1, "");
        v[i] = L(BuildZExt)(m->b, L(BuildLoad2)(m->b, m->i32, p, ""), m->i64, "");
    }
    LLVMValueRef both = ior(m, L(BuildShl)(m->b, v[0], kl(m, 32), ""), v[1]);
    both = L(BuildShl)(m->b, both, s, "");
    return L(BuildLShr)(m->b, both, kl(m, 32), "");
}

static LLVMValueRef bits_of_pi(const mx *m)
{
    LLVMValueRef w[LEN(two_over_pi)];
    for (size_t i = 0; i < LEN(two_over_pi); i++) w[i] = ki(m, two_over_pi[i]);
    LLVMValueRef all = L(ConstArray)(m->i32, w, (unsigned)LEN(two_over_pi));
    LLVMValueRef g = L(AddGlobal)(m->u->m, L(TypeOf)(all), "tn.two_over_pi");
    L(SetInitializer)(g, all);
    L(SetGlobalConstant)(g, 1);
    L(SetLinkage)(g, LLVMPrivateLinkage);
    return g;
}

/* Body of `float tn.sin.large(float)`:  |x| = a 2^q with a whole; a times the bits of 2/pi from weight
 * 2 / 2^q on, modulo 4, is the quadrant and the rest as a 64-bit fraction of four quadrants. */
static LLVMValueRef large_body(const mx *m, LLVMValueRef x)
{
    LLVMValueRef ix = cast(m, x, m->i32);
    LLVMValueRef q = isub(m, iand(m, shr(m, ix, 23), ki(m, 255)), ki(m, 150));
    LLVMValueRef low = L(BuildICmp)(m->b, LLVMIntSLT, q, ki(m, (uint32_t)-30), "");
    q = pick(m, low, ki(m, (uint32_t)-30), q);
    LLVMValueRef a = ior(m, iand(m, ix, ki(m, 0x7fffff)), ki(m, 0x800000));
    LLVMValueRef j = L(BuildZExt)(m->b, iadd(m, q, ki(m, 30)), m->i64, "");
    a = L(BuildZExt)(m->b, a, m->i64, "");
    LLVMValueRef k = L(BuildLShr)(m->b, j, kl(m, 5), ""), s = iand(m, j, kl(m, 31));
    LLVMValueRef table = bits_of_pi(m), p[3];
    for (unsigned i = 0; i < 3; i++) p[i] = L(BuildMul)(m->b, a, window(m, table, k, s, i), "");
    LLVMValueRef mid = iadd(m, p[1], L(BuildLShr)(m->b, p[2], kl(m, 32), ""));
    LLVMValueRef turn = iadd(m, L(BuildShl)(m->b, p[0], kl(m, 32), ""), mid);
    LLVMValueRef n = iadd(m, turn, kl(m, UINT64_C(1) << 61));
    n = L(BuildLShr)(m->b, n, kl(m, 62), "");
    LLVMValueRef rest = isub(m, turn, L(BuildShl)(m->b, n, kl(m, 62), ""));
    LLVMValueRef r = L(BuildSIToFP)(m->b, rest, m->f64, "");
    LLVMValueRef y = quadrant(m, n, mul(m, r, kd(m, half_pi_d * 0x1p-62)));
    LLVMValueRef minus = L(BuildICmp)(m->b, LLVMIntSLT, ix, ki(m, 0), "");
    return pick(m, minus, L(BuildFNeg)(m->b, y, ""), y);
}

static LLVMValueRef helper(cpu__unit *u, const char *name, LLVMTypeRef ft)
{
    LLVMValueRef f = L(AddFunction)(u->m, name, ft);
    static const char *const kinds[] = {"noinline", "nounwind"};
    L(SetLinkage)(f, LLVMInternalLinkage);
    for (size_t i = 0; i < LEN(kinds); i++) {
        const unsigned id = L(GetEnumAttributeKindForName)(kinds[i], strlen(kinds[i]));
        L(AddAttributeAtIndex)(f, CPU_LLVM_FN, L(CreateEnumAttribute)(u->c, id, 0));
    }
    L(PositionBuilderAtEnd)(u->b, L(AppendBasicBlockInContext)(u->c, f, ""));
    return f;
}

static LLVMTypeRef large_type(cpu__unit *u)
{
    LLVMTypeRef f = L(FloatTypeInContext)(u->c);
    return L(FunctionType)(f, &f, 1, 0);
}

static LLVMValueRef large(cpu__unit *u)
{
    static const char name[] = "tn.sin.large";
    LLVMValueRef f = L(GetNamedFunction)(u->m, name);
    if (f) return f;
    LLVMBasicBlockRef back = L(GetInsertBlock)(u->b);
    f = helper(u, name, large_type(u));
    const mx m = begin(u, 1);
    L(BuildRet)(u->b, large_body(&m, L(GetParam)(f, 0)));
    L(PositionBuilderAtEnd)(u->b, back);
    return f;
}

/* y with the lanes replaced in which `far` holds. */
static LLVMValueRef repair(const mx *m, LLVMValueRef x, LLVMValueRef y, LLVMValueRef far)
{
    LLVMValueRef f = large(m->u);
    LLVMTypeRef ft = large_type(m->u), i32 = L(IntTypeInContext)(m->u->c, 32);
    if (m->n == 1) return L(BuildCall2)(m->b, ft, f, &x, 1, "");
    LLVMValueRef out = y;
    for (unsigned i = 0; i < m->n; i++) {
        LLVMValueRef no = L(ConstInt)(i32, i, 0);
        LLVMValueRef one = L(BuildExtractElement)(m->b, x, no, "");
        one = L(BuildCall2)(m->b, ft, f, &one, 1, "");
        out = L(BuildInsertElement)(m->b, out, one, no, "");
    }
    return pick(m, far, out, y);
}

LLVMValueRef cpu__llvm_sin(cpu__unit *u, LLVMValueRef x, unsigned lanes)
{
    const mx m = begin(u, lanes);
    const double magic = 6755399441055744; /* 1.5 * 2^52 */
    LLVMValueRef w = L(BuildFPExt)(m.b, x, m.f64, "");
    LLVMValueRef sum = mad(&m, w, kd(&m, two_over_pi_d), kd(&m, magic));
    LLVMValueRef n = sub(&m, sum, kd(&m, magic));
    LLVMValueRef r = mad(&m, n, kd(&m, -half_pi_hi), w);
    r = mad(&m, n, kd(&m, -half_pi_lo), r);
    LLVMValueRef y = quadrant(&m, cast(&m, sum, m.i64), r);
    /* -0, and what is too small for the sum of squares, stay as they are by r + r^3 P: -0 + 0 is 0 */
    LLVMValueRef ax = cast(&m, iand(&m, cast(&m, x, m.i32), ki(&m, 0x7fffffff)), m.f32);
    y = pick(&m, less(&m, ax, kf(&m, 0x1p-13)), x, y);
    LLVMValueRef far = L(BuildFCmp)(m.b, LLVMRealOGT, ax, kf(&m, 0x1p20), "");
    far = iand(&m, far, less(&m, ax, kf(&m, (double)INFINITY)));
    LLVMValueRef any = lanes == 1 ? far : cpu__llvm_call(u, "llvm.vector.reduce.or", &far, 1);
    LLVMBasicBlockRef from[2] = {L(GetInsertBlock)(m.b), NULL};
    LLVMValueRef fn = L(GetBasicBlockParent)(from[0]);
    LLVMBasicBlockRef slow = L(AppendBasicBlockInContext)(u->c, fn, "");
    LLVMBasicBlockRef after = L(AppendBasicBlockInContext)(u->c, fn, "");
    L(BuildCondBr)(m.b, any, slow, after);
    L(PositionBuilderAtEnd)(m.b, slow);
    LLVMValueRef v[2] = {y, repair(&m, x, y, far)};
    from[1] = L(GetInsertBlock)(m.b);
    L(BuildBr)(m.b, after);
    L(PositionBuilderAtEnd)(m.b, after);
    LLVMValueRef phi = L(BuildPhi)(m.b, m.f32, "");
    L(AddIncoming)(phi, v, from, 2);
    return phi;
}

/* ---- half floats ---- */

LLVMValueRef cpu__llvm_from_half(cpu__unit *u, unsigned dt, LLVMValueRef x, unsigned lanes)
{
    const mx m = begin(u, lanes);
    if (dt == TNP_F16 && u->f16c) {
        LLVMTypeRef h = L(HalfTypeInContext)(u->c);
        if (lanes > 1) h = L(VectorType)(h, lanes);
        return L(BuildFPExt)(m.b, cast(&m, x, h), m.f32, "");
    }
    LLVMValueRef w = L(BuildZExt)(m.b, x, m.i32, "");
    if (dt == TNP_BF16) return cast(&m, shl(&m, w, 16), m.f32);
    LLVMValueRef sign = shl(&m, iand(&m, w, ki(&m, 0x8000)), 16);
    LLVMValueRef ex = iand(&m, shr(&m, w, 10), ki(&m, 31)), man = iand(&m, w, ki(&m, 1023));
    LLVMValueRef small = mul(&m, L(BuildSIToFP)(m.b, man, m.f32, ""), kf(&m, 0x1p-24));
    LLVMValueRef top = L(BuildICmp)(m.b, LLVMIntEQ, ex, ki(&m, 31), "");
    LLVMValueRef big = pick(&m, top, ki(&m, 0x7f800000), shl(&m, iadd(&m, ex, ki(&m, 112)), 23));
    big = ior(&m, big, shl(&m, man, 13));
    return cast(&m, ior(&m, sign, pick(&m, is_zero(&m, ex), cast(&m, small, m.i32), big)), m.f32);
}

/* To nearest even, as the prelude of gnu-c has it. */
LLVMValueRef cpu__llvm_to_half(cpu__unit *u, unsigned dt, LLVMValueRef x, unsigned lanes)
{
    const mx m = begin(u, lanes);
    LLVMTypeRef i16 = cpu__llvm_type(u, TNP_U16, lanes);
    if (dt == TNP_F16 && u->f16c) {
        LLVMTypeRef h = L(HalfTypeInContext)(u->c);
        if (lanes > 1) h = L(VectorType)(h, lanes);
        return cast(&m, L(BuildFPTrunc)(m.b, x, h, ""), i16);
    }
    LLVMValueRef w = cast(&m, x, m.i32), high = shr(&m, w, 16);
    LLVMValueRef nan = L(BuildFCmp)(m.b, LLVMRealUNO, x, x, "");
    if (dt == TNP_BF16) {
        LLVMValueRef up = iadd(&m, iadd(&m, w, ki(&m, 0x7fff)), iand(&m, high, ki(&m, 1)));
        up = pick(&m, nan, ior(&m, high, ki(&m, 64)), shr(&m, up, 16));
        return L(BuildTrunc)(m.b, up, i16, "");
    }
    LLVMValueRef a = iand(&m, w, ki(&m, 0x7fffffff)), sign = iand(&m, high, ki(&m, 0x8000));
    LLVMValueRef tail = shr(&m, a, 13);
    LLVMValueRef none = ior(&m, ki(&m, 0x7e00), iand(&m, tail, ki(&m, 1023)));
    LLVMValueRef sub_n = add(&m, cast(&m, a, m.f32), kf(&m, 0.5));
    sub_n = isub(&m, cast(&m, sub_n, m.i32), ki(&m, 0x3f000000));
    LLVMValueRef nor = iadd(&m, isub(&m, a, ki(&m, 0x38000000)), ki(&m, 0xfff));
    nor = shr(&m, iadd(&m, nor, iand(&m, tail, ki(&m, 1))), 13);
    LLVMValueRef tiny = L(BuildICmp)(m.b, LLVMIntULT, a, ki(&m, 0x38800000), "");
    LLVMValueRef over = L(BuildICmp)(m.b, LLVMIntUGE, a, ki(&m, 0x477ff000), "");
    LLVMValueRef v = pick(&m, tiny, sub_n, nor);
    v = pick(&m, nan, none, pick(&m, over, ki(&m, 0x7c00), v));
    return L(BuildTrunc)(m.b, ior(&m, sign, v), i16, "");
}
#else
typedef int cpu__no_llvm_math;
#endif
