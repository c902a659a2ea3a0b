/* SPDX-License-Identifier: MIT */
/*
 * The interpreter's control flow and values, by hand-written linear code.
 *
 * Float results are compared with float_rows.h (made by numpy and torch); the rest is small enough to be
 * worked out by hand.
 */
#include "rig.h"

Suite *suite_interp(void);

typedef struct {
    uint32_t dtype;
    const char *op;
    uint64_t a, b, c;
    uint32_t out;
    uint64_t want;
} float_row;
#include "float_rows.h"

/* ---- control ---- */

START_TEST(groups_add_two_arrays)
{
    float a[5] = {1, 2, 3, 4, 5}, b[5] = {10, 20, 30, 40, 50}, c[5] = {0};
    code k;
    begin(&k, 5);
    for (int i = 0; i < 3; i++) arg(&k, TNP_F32, 5);
    const int32_t g = row(&k, "gid", TNP_I32, 0, -1, -1, -1);
    const int32_t x = load(&k, TNP_F32, 0, g), y = load(&k, TNP_F32, 1, g);
    store(&k, 2, g, row(&k, "add", TNP_F32, 0, x, y, -1));
    const mem m[] = {MEM(a), MEM(b), MEM(c)};
    RUNS(&k, m);
    for (int i = 0; i < 5; i++) ck_assert_float_eq(c[i], 11.0f * (float)(i + 1));
}
END_TEST

START_TEST(nested_loops_and_a_variable_make_a_matrix_product)
{
    float a[6] = {1, 2, 3, 4, 5, 6}, b[6] = {7, 8, 9, 10, 11, 12}, c[4] = {0};
    const float want[4] = {58, 64, 139, 154}; /* (2, 3) @ (3, 2) */
    code k;
    begin(&k, 2);
    for (int i = 0; i < 3; i++) arg(&k, TNP_F32, 6);
    const int32_t i = row(&k, "gid", TNP_I32, 0, -1, -1, -1);
    const int32_t two = konst(&k, TNP_I32, 2), three = konst(&k, TNP_I32, 3),
                  zero = konst(&k, TNP_F32, 0);
    const int32_t j = row(&k, "loop", TNP_I32, 0, two, -1, -1);
    const int32_t acc = row(&k, "var", TNP_F32, 0, zero, -1, -1);
    const int32_t l = row(&k, "loop", TNP_I32, 0, three, -1, -1);
    const int32_t ia = row(&k, "add", TNP_I32, 0, row(&k, "mul", TNP_I32, 0, i, three, -1), l, -1);
    const int32_t ib = row(&k, "add", TNP_I32, 0, row(&k, "mul", TNP_I32, 0, l, two, -1), j, -1);
    const int32_t x = load(&k, TNP_F32, 0, ia), y = load(&k, TNP_F32, 1, ib);
    row(&k, "set", 0, 0, acc, row(&k, "fma", TNP_F32, 0, x, y, acc), -1);
    row(&k, "end", 0, 0, l, -1, -1);
    store(&k, 2, row(&k, "add", TNP_I32, 0, row(&k, "mul", TNP_I32, 0, i, two, -1), j, -1), acc);
    row(&k, "end", 0, 0, j, -1, -1);
    const mem m[] = {MEM(a), MEM(b), MEM(c)};
    RUNS(&k, m);
    for (int n = 0; n < 4; n++) ck_assert_float_eq(c[n], want[n]);
}
END_TEST

START_TEST(loops_with_no_trips_and_negative_trip_counts_do_not_run)
{
    int64_t out[1] = {5};
    for (int64_t trips = -1; trips <= 0; trips++) {
        code k;
        begin(&k, 1);
        arg(&k, TNP_I64, 1);
        const int32_t n = konst(&k, TNP_I32, trips), one = konst(&k, TNP_I64, 1),
                      zero = konst(&k, TNP_I32, 0);
        const int32_t l = row(&k, "loop", TNP_I32, 0, n, -1, -1);
        store(&k, 0, zero, one);
        row(&k, "end", 0, 0, l, -1, -1);
        const mem m[] = {MEM(out)};
        RUNS(&k, m);
        ck_assert_int_eq(out[0], 5);
    }
}
END_TEST

START_TEST(an_if_runs_its_body_only_when_it_holds)
{
    int32_t out[4] = {0};
    code k;
    begin(&k, 4);
    arg(&k, TNP_I32, 4);
    const int32_t g = row(&k, "gid", TNP_I32, 0, -1, -1, -1), two = konst(&k, TNP_I32, 2);
    const int32_t c = row(&k, "lt", TNP_BOOL, 0, g, two, -1);
    const int32_t f = row(&k, "if", 0, 0, c, -1, -1);
    store(&k, 0, g, two);
    row(&k, "endif", 0, 0, f, -1, -1);
    const mem m[] = {MEM(out)};
    RUNS(&k, m);
    ck_assert(out[0] == 2 && out[1] == 2 && out[2] == 0 && out[3] == 0);
}
END_TEST

START_TEST(a_false_gate_loads_zero_and_stores_nothing_out_of_bounds)
{
    float a[2] = {3, 4}, out[2] = {9, 9};
    code k;
    begin(&k, 1);
    arg(&k, TNP_F32, 2);
    arg(&k, TNP_F32, 2);
    const int32_t far = konst(&k, TNP_I64, 1000000), no = konst(&k, TNP_BOOL, 0),
                  yes = konst(&k, TNP_BOOL, 1);
    const int32_t zero = konst(&k, TNP_I32, 0), one = konst(&k, TNP_I32, 1);
    const int32_t x = row(&k, "load", TNP_F32, 0, far, no, -1),
                  y = row(&k, "load", TNP_F32, 0, one, yes, -1);
    row(&k, "store", 0, 1, zero, x, yes);
    row(&k, "store", 0, 1, one, y, yes);
    row(&k, "store", 0, 1, far, y, no);
    const mem m[] = {MEM(a), MEM(out)};
    RUNS(&k, m);
    ck_assert(out[0] == 0 && out[1] == 4);
}
END_TEST

START_TEST(scratch_belongs_to_a_group_and_starts_as_nan)
{
    float out[2] = {0, 0};
    code k;
    begin(&k, 2);
    arg(&k, TNP_F32, 2);
    scratch(&k, TNP_I8, 3, 0, 3);
    scratch(&k, TNP_F32, 4, 64, 80);
    const int32_t g = row(&k, "gid", TNP_I32, 0, -1, -1, -1), zero = konst(&k, TNP_I32, 0);
    const int32_t one = konst(&k, TNP_I32, 1), c = konst(&k, TNP_F32, 0x40000000); /* 2.0f */
    const int32_t first = row(&k, "eq", TNP_BOOL, 0, g, zero, -1);
    row(&k, "store", 0, 2, one, c, first); /* only group 0 writes */
    store(&k, 0, g, load(&k, TNP_F32, 2, one));
    const mem m[] = {MEM(out)};
    RUNS(&k, m);
    ck_assert_float_eq(out[0], 2);
    ck_assert_float_nan(out[1]);
}
END_TEST

START_TEST(params_take_the_low_bytes_of_an_immediate)
{
    int16_t out[2] = {0};
    const uint64_t imms[] = {7, UINT64_C(0xffff00000000fffe)};
    code k;
    begin(&k, 1);
    k.head.nimms = 2;
    arg(&k, TNP_I16, 2);
    store(&k, 0, konst(&k, TNP_I32, 0), row(&k, "param", TNP_I16, 1, -1, -1, -1));
    store(&k, 0, konst(&k, TNP_U8, 1), row(&k, "param", TNP_I16, 0, -1, -1, -1));
    const mem m[] = {MEM(out)};
    ck_assert_int_eq(run_imms(&k, m, imms), TNP_OK);
    ck_assert_int_eq(out[0], -2);
    ck_assert_int_eq(out[1], 7);
}
END_TEST

START_TEST(vectors_load_splat_insert_extract_and_work_by_lanes)
{
    float a[4] = {1, 2, 3, 4}, out[6] = {0};
    code k;
    begin(&k, 1);
    arg(&k, TNP_F32, 4);
    arg(&k, TNP_F32, 6);
    const int32_t zero = konst(&k, TNP_I32, 0), four = konst(&k, TNP_I32, 4),
                  five = konst(&k, TNP_I32, 5);
    const int32_t v = vrow(&k, "load", TNP_F32, 4, 0, zero, -1, -1);
    const int32_t s = vrow(&k, "splat", TNP_F32, 4, 0, konst(&k, TNP_F32, 0x41200000), -1,
                           -1); /* 10 */
    const int32_t p = vrow(&k, "mul", TNP_F32, 4, 0, v, s, -1);
    const int32_t q = vrow(&k, "insert", TNP_F32, 4, 2, p, konst(&k, TNP_F32, 0x40e00000),
                           -1); /* 7 */
    vrow(&k, "store", TNP_F32, 4, 1, zero, q, -1);
    store(&k, 1, four, row(&k, "extract", TNP_F32, 3, q, -1, -1));
    const int32_t c = vrow(&k, "lt", TNP_BOOL, 4, 0, q, s, -1);
    const int32_t w = vrow(&k, "where", TNP_F32, 4, 0, c, v, s);
    store(&k, 1, five, row(&k, "extract", TNP_F32, 2, w, -1, -1));
    const mem m[] = {MEM(a), MEM(out)};
    RUNS(&k, m);
    const float want[6] = {10, 20, 7, 40, 40, 3};
    for (int i = 0; i < 6; i++) ck_assert_float_eq(out[i], want[i]);
}
END_TEST

/* ---- values ---- */

START_TEST(float_results_equal_those_of_numpy_and_torch)
{
    const float_row *r = &float_rows[_i];
    const int n = strcmp(r->op, "fma") == 0                              ? 3
                  : strchr("amd", r->op[0]) || strcmp(r->op, "sub") == 0 ? 2
                                                                         : 1;
    uint64_t out;
    ck_assert_msg(op3(r->op, r->dtype, r->out, r->a, r->b, r->c, n, &out) == TNP_OK, "%s", text);
    ck_assert_msg(out == r->want, "dtype %u %s %llx %llx %llx: %llx, want %llx", r->dtype, r->op,
                  (unsigned long long)r->a, (unsigned long long)r->b, (unsigned long long)r->c,
                  (unsigned long long)out, (unsigned long long)r->want);
}
END_TEST

typedef struct {
    const char *op;
    uint32_t dt, out;
    uint64_t a, b, want;
} int_row;
#define FF    UINT64_C(0xffffffffffffffff)
#define MIN64 UINT64_C(0x8000000000000000)
static const int_row int_rows[] = {
    {"add", TNP_I8, TNP_I8, 0x7f, 1, 0x80},
    {"add", TNP_U8, TNP_U8, 0xff, 2, 1},
    {"sub", TNP_U16, TNP_U16, 0, 1, 0xffff},
    {"mul", TNP_I32, TNP_I32, 0x10001, 0x10001, 0x20001},
    {"mul", TNP_I64, TNP_I64, MIN64, 3, MIN64},
    {"neg", TNP_I16, TNP_I16, 0x8000, 0, 0x8000},
    {"neg", TNP_U32, TNP_U32, 1, 0, 0xffffffff},
    {"and", TNP_I32, TNP_I32, 0xf0f0, 0xff00, 0xf000},
    {"or", TNP_U64, TNP_U64, MIN64, 1, MIN64 | 1},
    {"xor", TNP_I8, TNP_I8, 0xff, 0x0f, 0xf0},
    {"not", TNP_U8, TNP_U8, 0x0f, 0, 0xf0},
    {"not", TNP_BOOL, TNP_BOOL, 1, 0, 0},
    {"add", TNP_BOOL, TNP_BOOL, 1, 1, 1},
    {"mul", TNP_BOOL, TNP_BOOL, 1, 0, 0},
    {"shl", TNP_I8, TNP_I8, 0x41, 1, 0x82},
    {"shl", TNP_U64, TNP_U64, 3, 63, MIN64},
    {"shr", TNP_I8, TNP_I8, 0x80, 7, 0xff},
    {"shr", TNP_U8, TNP_U8, 0x80, 7, 1},
    {"shr", TNP_I64, TNP_I64, MIN64, 63, FF},
    {"idiv", TNP_I32, TNP_I32, 0xfffffff9, 2, 0xfffffffd}, /* -7 / 2 = -3 */
    {"imod", TNP_I32, TNP_I32, 0xfffffff9, 2, 0xffffffff}, /* -7 % 2 = -1 */
    {"idiv", TNP_U64, TNP_U64, FF, 2, FF >> 1},
    {"imod", TNP_I8, TNP_I8, 7, 0xfe, 1},
    {"lt", TNP_I8, TNP_BOOL, 0xff, 1, 1},
    {"lt", TNP_U8, TNP_BOOL, 0xff, 1, 0},
    {"eq", TNP_I64, TNP_BOOL, FF, FF, 1},
    {"ne", TNP_U16, TNP_BOOL, 1, 2, 1},
    {"lt", TNP_F32, TNP_BOOL, 0x7fc00000, 0, 0}, /* NaN */
    {"eq", TNP_F32, TNP_BOOL, 0x7fc00000, 0x7fc00000, 0},
    {"ne", TNP_F16, TNP_BOOL, 0x7e00, 0x7e00, 1},
    {"eq", TNP_F64, TNP_BOOL, MIN64, 0, 1}, /* -0 == 0 */
    {"cast", TNP_I8, TNP_I32, 0x80, 0, 0xffffff80},
    {"cast", TNP_U8, TNP_I32, 0x80, 0, 0x80},
    {"cast", TNP_I64, TNP_U8, 0x1ff, 0, 0xff},
    {"cast", TNP_F32, TNP_I32, 0xc0700000, 0, 0xfffffffd}, /* -3.75 -> -3 */
    {"cast", TNP_F64, TNP_U64, UINT64_C(0x43efffffffffffff), 0, UINT64_C(0xfffffffffffff800)},
    {"cast", TNP_F32, TNP_BOOL, 0x7fc00000, 0, 1},
    {"cast", TNP_F16, TNP_BOOL, 0x8000, 0, 0},
    {"cast", TNP_BOOL, TNP_F32, 1, 0, 0x3f800000},
    {"cast", TNP_I32, TNP_F32, 16777217, 0, 0x4b800000}, /* ties to even */
    {"cast", TNP_U64, TNP_F64, FF, 0, UINT64_C(0x43f0000000000000)},
    {"cast", TNP_I64, TNP_BF16, UINT64_C(0x4040000000000001), 0, 0x5e81}, /* just above halfway */
    {"cast", TNP_I64, TNP_BF16, UINT64_C(0x4040000000000000), 0, 0x5e80},
    {"cast", TNP_I32, TNP_F16, 65520, 0, 0x7c00},
    {"cast", TNP_I32, TNP_F16, 65519, 0, 0x7bff},
    {"bitcast", TNP_F32, TNP_I32, 0xff812345, 0, 0xff812345},
    {"bitcast", TNP_BF16, TNP_F16, 0x1234, 0, 0x1234},
    {"exp2", TNP_F32, TNP_F32, 0x40400000, 0, 0x41000000}, /* 2^3 */
    {"log2", TNP_F64, TNP_F64, UINT64_C(0x4020000000000000), 0, UINT64_C(0x4008000000000000)},
    {"log2", TNP_F32, TNP_F32, 0, 0, 0xff800000},
    {"sin", TNP_F64, TNP_F64, 0, 0, 0},
    {"sin", TNP_F32, TNP_F32, 0x4b189680, 0, 0x3ed7520a}, /* sin(1e7), numpy */
    {"exp2", TNP_F16, TNP_F16, 0x4c00, 0, 0x7c00},        /* 2^16 is too large */
};

START_TEST(integer_ops_comparisons_and_casts_follow_the_contract)
{
    const int_row *r = &int_rows[_i];
    static const char *const unary[] = {"neg", "not", "cast", "bitcast", "exp2", "log2", "sin"};
    int n = 2;
    uint64_t out;
    for (size_t i = 0; i < LEN(unary); i++)
        if (strcmp(r->op, unary[i]) == 0) n = 1;
    ck_assert_msg(op3(r->op, r->dt, r->out, r->a, r->b, 0, n, &out) == TNP_OK, "%s", text);
    ck_assert_msg(out == r->want, "%s of dtype %u: %llx, want %llx", r->op, r->dt,
                  (unsigned long long)out, (unsigned long long)r->want);
}
END_TEST

START_TEST(every_half_survives_the_way_through_float)
{
    for (uint32_t dt = TNP_F16; dt <= TNP_BF16; dt++) {
        static uint16_t in[65536], out[65536];
        for (uint32_t i = 0; i < 65536; i++) in[i] = (uint16_t)i;
        code k;
        begin(&k, 65536);
        arg(&k, dt, 65536);
        arg(&k, dt, 65536);
        const int32_t g = row(&k, "gid", TNP_I32, 0, -1, -1, -1);
        const int32_t f = row(&k, "cast", TNP_F32, 0, load(&k, dt, 0, g), -1, -1);
        store(&k, 1, g, row(&k, "cast", dt, 0, f, -1, -1));
        const mem m[] = {MEM(in), MEM(out)};
        RUNS(&k, m);
        const uint32_t inf = dt == TNP_F16 ? 0x7c00 : 0x7f80;
        for (uint32_t i = 0; i < 65536; i++)
            if ((i & 0x7fff) <= inf)
                ck_assert_uint_eq(out[i], i);
            else
                ck_assert_uint_gt(out[i] & 0x7fff, inf);
    }
}
END_TEST

Suite *suite_interp(void)
{
    Suite *s = suite_create("interp");
    TCase *t = tcase_create("interp");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, groups_add_two_arrays);
    tcase_add_test(t, nested_loops_and_a_variable_make_a_matrix_product);
    tcase_add_test(t, loops_with_no_trips_and_negative_trip_counts_do_not_run);
    tcase_add_test(t, an_if_runs_its_body_only_when_it_holds);
    tcase_add_test(t, a_false_gate_loads_zero_and_stores_nothing_out_of_bounds);
    tcase_add_test(t, scratch_belongs_to_a_group_and_starts_as_nan);
    tcase_add_test(t, params_take_the_low_bytes_of_an_immediate);
    tcase_add_test(t, vectors_load_splat_insert_extract_and_work_by_lanes);
    tcase_add_loop_test(t, float_results_equal_those_of_numpy_and_torch, 0, (int)LEN(float_rows));
    tcase_add_loop_test(t, integer_ops_comparisons_and_casts_follow_the_contract, 0,
                        (int)LEN(int_rows));
    tcase_add_test(t, every_half_survives_the_way_through_float);
    suite_add_tcase(s, t);
    return s;
}
