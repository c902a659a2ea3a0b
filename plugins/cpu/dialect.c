/* SPDX-License-Identifier: MIT */
/*
 * The dialect "gnu-c" as a table for the host's C-style renderer: C with GNU extensions, one function a
 * kernel, called as
 *     void NAME(void *const *bufs, const uint64_t *imms, const uint32_t *gid, void *scratch)
 * once a work-group.  It is compiled with -fwrapv (integers wrap) and -fno-strict-aliasing.
 *
 * Every value is expected in a variable of its own type, so that narrow integers wrap at the assignment.
 * Half floats are stored as 16-bit integers; "cast" to them rounds to nearest even, and "cast_f16" and
 * "cast_bf16" read them (f16 and bf16 exactly to float).  Comparisons give 0 or 1; as vectors they would
 * give masks of 0 or -1, so the vector rows are those where the operator means the same lane by lane.
 */
#include "cpu.h"

#define D(id)    (1u << TNP_##id)
#define SIGNED   (D(I8) | D(I16) | D(I32) | D(I64))
#define UNSIGNED (D(U8) | D(U16) | D(U32) | D(U64))
#define INTS     (SIGNED | UNSIGNED)
#define FLOATS   (D(F32) | D(F64))
#define HALVES   (D(F16) | D(BF16))
#define ALL      (D(BOOL) | INTS | FLOATS | HALVES)
enum { SCALAR = 1, VECTOR = 2, BOTH = 3 };

static const char prelude[] =
    "typedef unsigned char tn_bool;\n"
    "typedef __INT8_TYPE__ tn_i8; typedef __UINT8_TYPE__ tn_u8;\n"
    "typedef __INT16_TYPE__ tn_i16; typedef __UINT16_TYPE__ tn_u16;\n"
    "typedef __INT32_TYPE__ tn_i32; typedef __UINT32_TYPE__ tn_u32;\n"
    "typedef __INT64_TYPE__ tn_i64; typedef __UINT64_TYPE__ tn_u64;\n"
    "typedef tn_u16 tn_f16; typedef tn_u16 tn_bf16;\n"
    "static inline float tn_bits2f(tn_u32 u) { float f; __builtin_memcpy(&f, &u, 4); return f; }\n"
    "static inline tn_u32 tn_f2bits(float f) { tn_u32 u; __builtin_memcpy(&u, &f, 4); return u; }\n"
    "static inline float tn_bf2f(tn_u16 h) { return tn_bits2f((tn_u32)h << 16); }\n"
    "static inline tn_u16 tn_f2bf(float f)\n"
    "{\n"
    "    tn_u32 u = tn_f2bits(f);\n"
    "    if (f != f) return (tn_u16)(u >> 16 | 64);\n"
    "    return (tn_u16)((u + 0x7fff + (u >> 16 & 1)) >> 16);\n"
    "}\n"
    "static inline float tn_h2f(tn_u16 h)\n"
    "{\n"
    "    tn_u32 s = (tn_u32)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;\n"
    "    if (!e) { float f = (float)m * 0x1p-24f; return s ? -f : f; }\n"
    "    return tn_bits2f(s | (e == 31 ? 0x7f800000 : (e + 112) << 23) | m << 13);\n"
    "}\n"
    "static inline tn_u16 tn_f2h(float f)\n"
    "{\n"
    "    tn_u32 u = tn_f2bits(f), s = u >> 16 & 0x8000, a = u & 0x7fffffff;\n"
    "    if (a > 0x7f800000) return (tn_u16)(s | 0x7e00 | (a >> 13 & 1023));\n"
    "    if (a >= 0x477ff000) return (tn_u16)(s | 0x7c00);\n"
    "    if (a < 0x38800000) return (tn_u16)(s | (tn_f2bits(tn_bits2f(a) + 0.5f) - 0x3f000000));\n"
    "    return (tn_u16)(s | ((a - 0x38000000 + 0xfff + (a >> 13 & 1)) >> 13));\n"
    "}\n";

static const char *const types[TNP_DTYPE_COUNT] = {
    [TNP_BOOL] = "tn_bool", [TNP_I8] = "tn_i8",   [TNP_U8] = "tn_u8",     [TNP_I16] = "tn_i16",
    [TNP_U16] = "tn_u16",   [TNP_I32] = "tn_i32", [TNP_U32] = "tn_u32",   [TNP_I64] = "tn_i64",
    [TNP_U64] = "tn_u64",   [TNP_F16] = "tn_f16", [TNP_BF16] = "tn_bf16", [TNP_F32] = "float",
    [TNP_F64] = "double"};

static const char *const vec_types[TNP_DTYPE_COUNT] = {
    [TNP_BOOL] = "tn_boolx$n", [TNP_I8] = "tn_i8x$n",     [TNP_U8] = "tn_u8x$n",
    [TNP_I16] = "tn_i16x$n",   [TNP_U16] = "tn_u16x$n",   [TNP_I32] = "tn_i32x$n",
    [TNP_U32] = "tn_u32x$n",   [TNP_I64] = "tn_i64x$n",   [TNP_U64] = "tn_u64x$n",
    [TNP_F16] = "tn_f16x$n",   [TNP_BF16] = "tn_bf16x$n", [TNP_F32] = "tn_f32x$n",
    [TNP_F64] = "tn_f64x$n"};

/* The type of a value, and one named with a final u for memory at any element's address. */
#define VEC(t, name, bytes)                                                                   \
    "typedef " t " " name "x$n __attribute__((vector_size(" #bytes " * $n)));\n"              \
    "typedef " t " " name "x$nu __attribute__((vector_size(" #bytes " * $n), aligned(" #bytes \
    "), may_alias));\n"

/* One fused multiply-add a lane: the compiler's own vector form where it has one for the width. */
#define FMA(t, scalar, one, bytes, wide, narrow)                                   \
    "static inline " t "x$n tn_fma_" t "x$n(" t "x$n a, " t "x$n b, " t "x$n c)\n" \
    "{\n"                                                                          \
    "#if defined(__clang__) && defined(__FMA__)\n"                                 \
    "_Pragma(\"clang fp contract(fast)\")\n"                                       \
    "    return a * b + c;\n"                                                      \
    "#elif defined(__AVX512F__) && $n * " #bytes " == 64\n"                        \
    "    return (" t "x$n)" wide "(a, b, c, -1, 4);\n"                             \
    "#elif defined(__FMA__) && $n * " #bytes " == 32\n"                            \
    "    return (" t "x$n)" narrow "256(a, b, c);\n"                               \
    "#elif defined(__FMA__) && $n * " #bytes " == 16\n"                            \
    "    return (" t "x$n)" narrow "(a, b, c);\n"                                  \
    "#else\n"                                                                      \
    "    " t "x$n r = c;\n"                                                        \
    "    for (int i = 0; i < $n; i++) r[i] = " one "(a[i], b[i], c[i]);\n"         \
    "    return r;\n"                                                              \
    "#endif\n"                                                                     \
    "}\n"

static const char *const vec_prelude[TNP_DTYPE_COUNT] = {
    [TNP_BOOL] = VEC("tn_bool", "tn_bool", 1),
    [TNP_I8] = VEC("tn_i8", "tn_i8", 1),
    [TNP_U8] = VEC("tn_u8", "tn_u8", 1),
    [TNP_I16] = VEC("tn_i16", "tn_i16", 2),
    [TNP_U16] = VEC("tn_u16", "tn_u16", 2),
    [TNP_I32] = VEC("tn_i32", "tn_i32", 4),
    [TNP_U32] = VEC("tn_u32", "tn_u32", 4),
    [TNP_I64] = VEC("tn_i64", "tn_i64", 8),
    [TNP_U64] = VEC("tn_u64", "tn_u64", 8),
    [TNP_F16] = VEC("tn_f16", "tn_f16", 2),
    [TNP_BF16] = VEC("tn_bf16", "tn_bf16", 2),
    [TNP_F32] = VEC("float", "tn_f32", 4)
        FMA("tn_f32", "float", "__builtin_fmaf", 4, "__builtin_ia32_vfmaddps512_mask",
            "__builtin_ia32_vfmaddps"),
    [TNP_F64] = VEC("double", "tn_f64", 8)
        FMA("tn_f64", "double", "__builtin_fma", 8, "__builtin_ia32_vfmaddpd512_mask",
            "__builtin_ia32_vfmaddpd")};

static const tnp_template ops[] = {
    {"add", D(BOOL), BOTH, "($1 | $2)"},
    {"add", INTS | FLOATS, BOTH, "($1 + $2)"},
    {"sub", INTS | FLOATS, BOTH, "($1 - $2)"},
    {"mul", D(BOOL), BOTH, "($1 & $2)"},
    {"mul", INTS | FLOATS, BOTH, "($1 * $2)"},
    {"div", FLOATS, BOTH, "($1 / $2)"},
    {"idiv", INTS, BOTH, "($1 / $2)"},
    {"imod", INTS, BOTH, "($1 % $2)"},
    {"neg", INTS | FLOATS, BOTH, "(-$1)"},
    {"not", D(BOOL), SCALAR, "(!$1)"},
    {"not", INTS, BOTH, "(~$1)"},
    {"and", D(BOOL) | INTS, BOTH, "($1 & $2)"},
    {"or", D(BOOL) | INTS, BOTH, "($1 | $2)"},
    {"xor", D(BOOL) | INTS, BOTH, "($1 ^ $2)"},
    {"shl", INTS, BOTH, "($1 << $2)"},
    {"shr", INTS, BOTH, "($1 >> $2)"},
    {"lt", ALL, SCALAR, "($1 < $2)"},
    {"eq", ALL, SCALAR, "($1 == $2)"},
    {"ne", ALL, SCALAR, "($1 != $2)"},
    {"where", ALL, SCALAR, "($1 ? $2 : $3)"},
    {"fma", D(F32), VECTOR, "tn_fma_tn_f32x$n($1, $2, $3)"},
    {"fma", D(F64), VECTOR, "tn_fma_tn_f64x$n($1, $2, $3)"},
    {"fma", D(F32), SCALAR, "__builtin_fmaf($1, $2, $3)"},
    {"fma", D(F64), SCALAR, "__builtin_fma($1, $2, $3)"},
    {"sqrt", D(F32), SCALAR, "__builtin_sqrtf($1)"},
    {"sqrt", D(F64), SCALAR, "__builtin_sqrt($1)"},
    {"trunc", D(F32), SCALAR, "__builtin_truncf($1)"},
    {"trunc", D(F64), SCALAR, "__builtin_trunc($1)"},
    {"floor", D(F32), SCALAR, "__builtin_floorf($1)"},
    {"floor", D(F64), SCALAR, "__builtin_floor($1)"},
    {"exp2", D(F32), SCALAR, "__builtin_exp2f($1)"},
    {"exp2", D(F64), SCALAR, "__builtin_exp2($1)"},
    {"log2", D(F32), SCALAR, "__builtin_log2f($1)"},
    {"log2", D(F64), SCALAR, "__builtin_log2($1)"},
    {"sin", D(F32), SCALAR, "__builtin_sinf($1)"},
    {"sin", D(F64), SCALAR, "__builtin_sin($1)"},
    {"cast", D(BOOL), SCALAR, "($1 != 0)"},
    {"cast", D(F16), SCALAR, "tn_f2h((float)$1)"},
    {"cast", D(BF16), SCALAR, "tn_f2bf((float)$1)"},
    {"cast", INTS | FLOATS, SCALAR, "(($t)$1)"},
    {"cast", INTS | FLOATS, VECTOR, "__builtin_convertvector($1, $t)"},
    {"cast_f16", FLOATS, SCALAR, "(($t)tn_h2f($1))"},
    {"cast_bf16", FLOATS, SCALAR, "(($t)tn_bf2f($1))"},
    {"bitcast", ALL, BOTH,
     "({ __typeof__($1) tn_from = $1; $t tn_to; __builtin_memcpy(&tn_to, &tn_from, sizeof tn_to); "
     "tn_to; })"},
    {"splat", ALL, VECTOR, "(($s)$1 - ($t){0})"},
    {"extract", ALL, SCALAR, "$1[$2]"},
};

const tnp_dialect cpu__gnu_c = {
    .size = sizeof cpu__gnu_c,
    .flags = TNP_DIALECT_VECTOR_EXT,
    .name = "gnu-c",
    .prelude = prelude,
    .types = types,
    .vec_prelude = vec_prelude,
    .vec_types = vec_types,
    .kernel = "void $k(void *const *bufs, const tn_u64 *imms, const tn_u32 *gid, void *scratch)\n"
              "{\n"
              "    (void)bufs, (void)imms, (void)gid, (void)scratch;\n",
    .buffer = "$q $s *restrict const $v = ($q $s *)bufs[$i];",
    .imm = {"(($s)imms[$i])",
            "({ $s tn_imm; __builtin_memcpy(&tn_imm, &imms[$i], sizeof tn_imm); tn_imm; })"},
    .gid = {"gid[0]", "gid[1]", "gid[2]"},
    .lid = {"0", "0", "0"},
    .scratch = "$s *restrict const $v = ($s *)((char *)scratch + $o);",
    .ops = ops,
    .nops = sizeof ops / sizeof *ops,
    .renderer = "CC"};
