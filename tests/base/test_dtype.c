/* SPDX-License-Identifier: MIT */
/*
 * Element types.  The lattice is compared with a table written down from its definition (the join of the
 * parent lists bool -> i8 u8 -> ... -> float64); conversions with numpy and torch (dtype_golden.inc) and,
 * for float16, with every one of its values and the middle between neighbours.
 */
#include "ir/dtype.h"
#include "ir/op.h"
#include "test.h"
#include <math.h>
#include <string.h>

#include "dtype_golden.inc"

static double f64_of(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static float f32_of(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint64_t bits(tn_dtype dt, double v)
{
    return tn__scalar_bits(dt, tn__scalar_from_double(dt, v));
}

START_TEST(the_table_of_types_is_that_of_the_abi)
{
    static const struct {
        tn_dtype dt;
        const char *name;
        size_t size;
        bool f, i, s, u;
    } rows[] = {
        {TN_BOOL, "bool", 1, 0, 0, 0, 0},     {TN_I8, "int8", 1, 0, 1, 1, 0},
        {TN_U8, "uint8", 1, 0, 1, 0, 1},      {TN_I16, "int16", 2, 0, 1, 1, 0},
        {TN_U16, "uint16", 2, 0, 1, 0, 1},    {TN_I32, "int32", 4, 0, 1, 1, 0},
        {TN_U32, "uint32", 4, 0, 1, 0, 1},    {TN_I64, "int64", 8, 0, 1, 1, 0},
        {TN_U64, "uint64", 8, 0, 1, 0, 1},    {TN_F16, "float16", 2, 1, 0, 0, 0},
        {TN_BF16, "bfloat16", 2, 1, 0, 0, 0}, {TN_F32, "float32", 4, 1, 0, 0, 0},
        {TN_F64, "float64", 8, 1, 0, 0, 0},
    };
    for (size_t k = 0; k < TN_LEN(rows); k++) {
        tn_dtype dt = rows[k].dt;
        ck_assert_uint_eq(dt, k + 1);
        ck_assert_str_eq(tn_dtype_name(dt), rows[k].name);
        ck_assert_uint_eq(tn_dtype_size(dt), rows[k].size);
        ck_assert_int_eq(tn__dtype_bits(dt), (int)rows[k].size * 8);
        ck_assert(tn__dtype_is_float(dt) == rows[k].f && tn__dtype_is_int(dt) == rows[k].i);
        ck_assert(tn__dtype_is_signed(dt) == rows[k].s && tn__dtype_is_unsigned(dt) == rows[k].u);
    }
    ck_assert_str_eq(tn_dtype_name((tn_dtype)77), "?");
    ck_assert_uint_eq(tn_dtype_size(TN_DTYPE_DEFAULT), 0);
    ck_assert_uint_eq(tn_dtype_size((tn_dtype)-3), 0);
}
END_TEST

/* Row and column: bool i8 u8 i16 u16 i32 u32 i64 u64 f16 bf16 f32 f64. */
static const char lattice[13][13][5] = {
    {"b", "i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf", "f32", "f64"},
    {"i8", "i8", "i16", "i16", "i32", "i32", "i64", "i64", "f32", "f16", "bf", "f32", "f64"},
    {"u8", "i16", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "f16", "bf", "f32", "f64"},
    {"i16", "i16", "i16", "i16", "i32", "i32", "i64", "i64", "f32", "f16", "bf", "f32", "f64"},
    {"u16", "i32", "u16", "i32", "u16", "i32", "u32", "i64", "u64", "f16", "bf", "f32", "f64"},
    {"i32", "i32", "i32", "i32", "i32", "i32", "i64", "i64", "f32", "f16", "bf", "f32", "f64"},
    {"u32", "i64", "u32", "i64", "u32", "i64", "u32", "i64", "u64", "f16", "bf", "f32", "f64"},
    {"i64", "i64", "i64", "i64", "i64", "i64", "i64", "i64", "f32", "f16", "bf", "f32", "f64"},
    {"u64", "f32", "u64", "f32", "u64", "f32", "u64", "f32", "u64", "f16", "bf", "f32", "f64"},
    {"f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f16", "f32", "f32", "f64"},
    {"bf", "bf", "bf", "bf", "bf", "bf", "bf", "bf", "bf", "f32", "bf", "f32", "f64"},
    {"f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f32", "f64"},
    {"f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64", "f64"},
};
static const char shorts[13][5] = {"b",   "i8",  "u8",  "i16", "u16", "i32", "u32",
                                   "i64", "u64", "f16", "bf",  "f32", "f64"};

START_TEST(promotion_is_the_join_of_the_lattice)
{
    for (int a = 0; a < 13; a++)
        for (int b = 0; b < 13; b++) {
            tn_dtype got = tn__dtype_promote((tn_dtype)(a + 1), (tn_dtype)(b + 1));
            ck_assert_msg(!strcmp(shorts[got - 1], lattice[a][b]), "%s with %s gives %s, not %s",
                          shorts[a], shorts[b], shorts[got - 1], lattice[a][b]);
        }
}
END_TEST

START_TEST(default_float_follows_its_variable)
{
    ck_assert_int_eq(tn__dtype_to_float(TN_I32), TN_F32);
    ck_assert_int_eq(tn__dtype_to_float(TN_F16), TN_F16);
    TN_WITH(TN_DEFAULT_FLOAT, TN_F64);
    ck_assert_int_eq(tn__dtype_to_float(TN_BOOL), TN_F64);
    ck_assert_int_eq(tn__dtype_promote(TN_U64, TN_I8), TN_F64);
    TN_WITH(TN_DEFAULT_FLOAT, 99); /* refused */
    test_fails(TN_EVALUE, "TN_WITH: DEFAULT_FLOAT: 99 is not in 10 to 13: the value stays 13");
    ck_assert_int_eq(tn__dtype_default_float(), TN_F64);
}
END_TEST

START_TEST(sums_accumulate_in_at_least_32_bits)
{
    static const tn_dtype want[TN_DTYPES] = {
        [TN_BOOL] = TN_I32, [TN_I8] = TN_I32,  [TN_U8] = TN_U32,   [TN_I16] = TN_I32,
        [TN_U16] = TN_U32,  [TN_I32] = TN_I32, [TN_U32] = TN_U32,  [TN_I64] = TN_I64,
        [TN_U64] = TN_U64,  [TN_F16] = TN_F32, [TN_BF16] = TN_F32, [TN_F32] = TN_F32,
        [TN_F64] = TN_F64,
    };
    for (int dt = TN_BOOL; dt < TN_DTYPES; dt++)
        ck_assert_int_eq(tn__dtype_sum((tn_dtype)dt), want[dt]);
}
END_TEST

static double f16_by_definition(unsigned h)
{
    int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
    double v = e == 0 ? ldexp(m, -24) : ldexp(1024 + m, e - 25);
    return h & 0x8000 ? -v : v;
}

START_TEST(every_float16_comes_back)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = tn__f16_to_f32((uint16_t)h);
        if ((h & 0x7c00) != 0x7c00) {
            test_that(f == f16_by_definition(h) && !signbit(f) == !(h & 0x8000));
            test_eq(tn__f32_to_f16(f), h);
        } else if (h & 0x3ff) {
            test_that(isnan(f));
            test_eq(tn__f32_to_f16(f), h | 0x200); /* quiet */
        } else {
            test_that(isinf(f));
            test_eq(tn__f32_to_f16(f), h);
        }
        test_eq(tn__scalar_bits(TN_F16, tn__scalar_from_bits(TN_F16, h)) | 0x200, h | 0x200);
    }
}
END_TEST

START_TEST(between_two_float16_the_nearer_or_the_even_is_taken)
{
    for (unsigned h = 0; h < 0x7bff; h++) {
        double lo = f16_by_definition(h), hi = f16_by_definition(h + 1), mid = (lo + hi) / 2;
        test_eq(tn__f32_to_f16((float)mid), h & 1 ? h + 1 : h);
        test_eq(bits(TN_F16, mid), h & 1 ? h + 1 : h);
        /* a hair beside the middle: float32 cannot hold it, so that rounding twice would go wrong */
        test_eq(bits(TN_F16, nextafter(mid, 0)), h);
        test_eq(bits(TN_F16, nextafter(mid, 1e9)), h + 1);
        test_eq(bits(TN_F16, -nextafter(mid, 1e9)), 0x8000 | (h + 1));
        test_eq(tn__f32_to_f16(nextafterf((float)mid, 0)), h);
        test_eq(tn__f32_to_f16(nextafterf((float)mid, 1e9f)), h + 1);
    }
}
END_TEST

START_TEST(every_bfloat16_comes_back)
{
    for (unsigned h = 0; h < 0x10000; h++) {
        float f = tn__bf16_to_f32((uint16_t)h);
        bool nan = (h & 0x7f80) == 0x7f80 && (h & 0x7f);
        test_eq(tn__f32_to_bf16(f), nan ? h | 0x40 : h);
        if (nan || (h & 0x7fff) >= 0x7f7f) continue;
        double hi = (double)tn__bf16_to_f32((uint16_t)(h + 1)), mid = ((double)f + hi) / 2;
        test_eq(bits(TN_BF16, mid), h & 1 ? h + 1 : h);
        test_eq(bits(TN_BF16, nextafter(mid, (double)f)), h);
        test_eq(bits(TN_BF16, nextafter(mid, hi)), h + 1);
    }
    test_eq(tn__f32_to_bf16(f32_of(0x7f800001u)), 0x7fc0);
}
END_TEST

START_TEST(floats_round_as_numpy_and_torch_do)
{
    for (size_t i = 0; i < TN_LEN(golden_f); i++) {
        double v = f64_of(golden_f[i].f64);
        ck_assert_uint_eq(bits(TN_F32, v), golden_f[i].f32);
        ck_assert_uint_eq(bits(TN_F16, v), golden_f[i].f16);
        ck_assert_uint_eq(bits(TN_F64, v), golden_f[i].f64);
    }
    for (size_t i = 0; i < TN_LEN(golden_b); i++) {
        ck_assert_uint_eq(tn__f32_to_bf16(f32_of(golden_b[i].f32)), golden_b[i].bf16);
        ck_assert_uint_eq(bits(TN_BF16, (double)f32_of(golden_b[i].f32)), golden_b[i].bf16);
    }
    for (size_t i = 0; i < TN_LEN(golden_i); i++) {
        int64_t v = golden_i[i].i;
        ck_assert_uint_eq(tn__scalar_bits(TN_F32, tn__scalar_from_int(TN_F32, v)), golden_i[i].f32);
        ck_assert_uint_eq(tn__scalar_bits(TN_F64, tn__scalar_from_int(TN_F64, v)), golden_i[i].f64);
    }
}
END_TEST

START_TEST(nan_stays_nan_in_every_float)
{
    for (int dt = TN_F16; dt <= TN_F64; dt++)
        ck_assert(isnan(tn__scalar_from_bits((tn_dtype)dt, bits((tn_dtype)dt, (double)NAN)).f));
}
END_TEST

START_TEST(floats_saturate_into_integers_and_nan_is_zero)
{
    static const struct {
        tn_dtype dt;
        int64_t min;
        uint64_t max;
    } rows[] = {
        {TN_I8, INT8_MIN, INT8_MAX},    {TN_U8, 0, UINT8_MAX},
        {TN_I16, INT16_MIN, INT16_MAX}, {TN_U16, 0, UINT16_MAX},
        {TN_I32, INT32_MIN, INT32_MAX}, {TN_U32, 0, UINT32_MAX},
        {TN_I64, INT64_MIN, INT64_MAX}, {TN_U64, 0, UINT64_MAX},
    };
    for (size_t k = 0; k < TN_LEN(rows); k++) {
        tn_dtype dt = rows[k].dt;
        bool s = tn__dtype_is_signed(dt);
        ck_assert_int_eq(tn__dtype_int_min(dt), rows[k].min);
        ck_assert_uint_eq(tn__dtype_int_max(dt), rows[k].max);
        ck_assert_uint_eq(tn__scalar_from_double(dt, 1e30).u, rows[k].max);
        ck_assert_uint_eq(tn__scalar_from_double(dt, (double)INFINITY).u, rows[k].max);
        ck_assert_int_eq(tn__scalar_from_double(dt, -1e30).i, rows[k].min);
        ck_assert_int_eq(tn__scalar_from_double(dt, (double)-INFINITY).i, rows[k].min);
        ck_assert_uint_eq(tn__scalar_from_double(dt, (double)NAN).u, 0);
        ck_assert_int_eq(tn__scalar_from_double(dt, -0.99).i, 0);
        ck_assert_int_eq(tn__scalar_from_double(dt, 100.99).i, 100);
        ck_assert_int_eq(tn__scalar_from_double(dt, -100.99).i, s ? -100 : 0);
        ck_assert_uint_eq(tn__scalar_from_double(dt, ldexp(1, tn__dtype_bits(dt) - s)).u,
                          rows[k].max);
    }
    ck_assert_int_eq(tn__scalar_from_double(TN_I8, 126.5).i, 126);
    ck_assert_int_eq(tn__scalar_from_double(TN_I8, -128.5).i, -128);
    ck_assert_uint_eq(tn__scalar_from_double(TN_BOOL, (double)NAN).u, 1); /* NaN != 0 */
    ck_assert_uint_eq(tn__scalar_from_double(TN_BOOL, -0.0).u, 0);
    ck_assert_uint_eq(tn__scalar_from_double(TN_BOOL, 0.25).u, 1);
    ck_assert_int_eq(tn__scalar_to_int(TN_F64, (tn__scalar){.f = 1e300}), INT64_MAX);
}
END_TEST

START_TEST(integers_wrap_into_integers)
{
    static const struct {
        tn_dtype from, to;
        int64_t v, want;
    } rows[] = {
        {TN_I32, TN_I8, 200, -56},
        {TN_I32, TN_U8, -1, 255},
        {TN_I64, TN_I32, INT64_C(1) << 32, 0},
        {TN_I8, TN_U32, -1, 4294967295},
        {TN_I8, TN_U64, -1, -1},
        {TN_U64, TN_I64, -1, -1},
        {TN_U8, TN_I8, 255, -1},
        {TN_BOOL, TN_I64, 1, 1},
        {TN_I64, TN_BOOL, INT64_C(1) << 40, 1},
        {TN_U32, TN_BOOL, 0, 0},
        {TN_I64, TN_U16, 65536 + 5, 5},
        {TN_I16, TN_I64, -32768, -32768},
    };
    for (size_t k = 0; k < TN_LEN(rows); k++) {
        tn__scalar s = tn__scalar_cast(rows[k].from, rows[k].to, (tn__scalar){.i = rows[k].v});
        ck_assert_int_eq(s.i, rows[k].want);
    }
    tn__scalar big = {.u = UINT64_MAX};
    ck_assert(tn__scalar_cast(TN_U64, TN_F64, big).f == 0x1p64);
    ck_assert(tn__scalar_cast(TN_U64, TN_F32, big).f == 0x1p64);
    ck_assert(isinf(tn__scalar_cast(TN_U64, TN_F16, big).f));
    ck_assert(tn__scalar_to_double(TN_U64, big) == 0x1p64);
    ck_assert(tn__scalar_to_double(TN_I8, (tn__scalar){.i = -3}) == -3.0);
    /* 2^40 + 2^32 is the middle of two bfloat16; one more must go up */
    ck_assert(tn__scalar_from_int(TN_BF16, (INT64_C(1) << 60) + (INT64_C(1) << 52) + 1).f ==
              0x1.02p60);
    ck_assert(tn__scalar_from_int(TN_BF16, (INT64_C(1) << 60) + (INT64_C(1) << 52)).f == 0x1p60);
}
END_TEST

START_TEST(stored_bits_come_back_for_every_type)
{
    static const uint64_t patterns[] = {0,
                                        1,
                                        0x7f,
                                        0x80,
                                        0xff,
                                        0x7fff,
                                        0x8001,
                                        0x3c00,
                                        0x80000000u,
                                        0x3ff0000000000000u,
                                        UINT64_MAX >> 1};
    for (int dt = TN_BOOL; dt < TN_DTYPES; dt++)
        for (size_t k = 0; k < TN_LEN(patterns); k++) {
            uint64_t mask = UINT64_MAX >> (64 - tn__dtype_bits((tn_dtype)dt)),
                     p = patterns[k] & mask;
            tn__scalar s = tn__scalar_from_bits((tn_dtype)dt, patterns[k]);
            if (dt == TN_BOOL) p = p != 0;
            if (tn__dtype_is_float((tn_dtype)dt) && isnan(s.f)) continue;
            test_eq(tn__scalar_bits((tn_dtype)dt, s), p);
        }
}
END_TEST

START_TEST(the_op_table_holds_its_rows)
{
    for (int op = 0; op < TN_OP_COUNT; op++) {
        const tn__op_info *i = &tn__ops[op];
        ck_assert(i->name && i->text && i->doc && *i->doc && i->nsrc >= -1 && i->nsrc <= 3);
        ck_assert_uint_eq(strspn(i->where, "gkl"), strlen(i->where));
        ck_assert(*i->where);
        if (i->cls == TN_CLASS_BINARY || i->cls == TN_CLASS_COMPARE) ck_assert_int_eq(i->nsrc, 2);
        for (int other = 0; other < op; other++) ck_assert_str_ne(i->text, tn__ops[other].text);
    }
    ck_assert_str_eq(tn__ops[TN_OP_ADD].name, "ADD");
    ck_assert_str_eq(tn__ops[TN_OP_SEQ].text, "seq");
}
END_TEST

Suite *suite_dtype(void)
{
    Suite *s = suite_create("dtype");
    TCase *t = tcase_create("dtype");
    tcase_set_timeout(t, 60);
    tcase_add_test(t, the_table_of_types_is_that_of_the_abi);
    tcase_add_test(t, promotion_is_the_join_of_the_lattice);
    tcase_add_test(t, default_float_follows_its_variable);
    tcase_add_test(t, sums_accumulate_in_at_least_32_bits);
    tcase_add_test(t, every_float16_comes_back);
    tcase_add_test(t, between_two_float16_the_nearer_or_the_even_is_taken);
    tcase_add_test(t, every_bfloat16_comes_back);
    tcase_add_test(t, floats_round_as_numpy_and_torch_do);
    tcase_add_test(t, nan_stays_nan_in_every_float);
    tcase_add_test(t, floats_saturate_into_integers_and_nan_is_zero);
    tcase_add_test(t, integers_wrap_into_integers);
    tcase_add_test(t, stored_bits_come_back_for_every_type);
    tcase_add_test(t, the_op_table_holds_its_rows);
    suite_add_tcase(s, t);
    return s;
}
