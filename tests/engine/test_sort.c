/* SPDX-License-Identifier: MIT */
/*
 * Sorting against the C library's qsort, made stable by the position: every dtype, both orders, sizes
 * around powers of two, several rows; values, top k and gradients at the sorted positions.
 */
#include "../test.h"
#include "codegen/emit.h"
#include "ir/dtype.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { KINDS = 5 }; /* rows of a case: see fill() */

static uint64_t rng_state;
static uint64_t rnd(void)
{
    uint64_t z = rng_state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

static void setup(void)
{
    tn_clear_error();
    rng_state = 7;
}
/* ---- the oracle ---- */

static tn_dtype cmp_dt;
static bool cmp_down;
static const char *cmp_row;

/* -1, 0, 1 in ascending order with NaN as the greatest. */
static int order_double(double a, double b)
{
    if (isnan(a) || isnan(b)) return isnan(a) - isnan(b);
    return (a > b) - (a < b);
}

static int order_at(tn_dtype dt, const char *pa, const char *pb)
{
#define INT(T)                    \
    {                             \
        T a, b;                   \
        memcpy(&a, pa, sizeof a); \
        memcpy(&b, pb, sizeof b); \
        return (a > b) - (a < b); \
    }
    uint16_t ha, hb;
    float fa, fb;
    double da, db;
    switch (dt) {
    case TN_BOOL:
    case TN_U8: INT(uint8_t)
    case TN_I8: INT(int8_t)
    case TN_I16: INT(int16_t)
    case TN_U16: INT(uint16_t)
    case TN_I32: INT(int32_t)
    case TN_U32: INT(uint32_t)
    case TN_I64: INT(int64_t)
    case TN_U64: INT(uint64_t)
    case TN_F32:
        memcpy(&fa, pa, sizeof fa);
        memcpy(&fb, pb, sizeof fb);
        return order_double((double)fa, (double)fb);
    case TN_F64:
        memcpy(&da, pa, sizeof da);
        memcpy(&db, pb, sizeof db);
        return order_double(da, db);
    default:
        memcpy(&ha, pa, sizeof ha);
        memcpy(&hb, pb, sizeof hb);
        if (dt == TN_F16)
            return order_double((double)tn__f16_to_f32(ha), (double)tn__f16_to_f32(hb));
        return order_double((double)tn__bf16_to_f32(ha), (double)tn__bf16_to_f32(hb));
    }
#undef INT
}

static int by_value_then_position(const void *a, const void *b)
{
    const int32_t i = *(const int32_t *)a, j = *(const int32_t *)b;
    const size_t size = tn__dtype_size(cmp_dt);
    int c = order_at(cmp_dt, cmp_row + (size_t)i * size, cmp_row + (size_t)j * size);
    if (cmp_down) c = -c;
    return c ? c : (i > j) - (i < j);
}

static void oracle(tn_dtype dt, const void *data, int64_t rows, int64_t n, bool down, int32_t *out)
{
    cmp_dt = dt;
    cmp_down = down;
    for (int64_t r = 0; r < rows; r++) {
        cmp_row = (const char *)data + (size_t)(r * n) * tn__dtype_size(dt);
        for (int64_t i = 0; i < n; i++) out[r * n + i] = (int32_t)i;
        if (n) qsort(out + r * n, (size_t)n, sizeof *out, by_value_then_position);
    }
}

/* ---- data ---- */

static uint64_t special(tn_dtype dt)
{
    static const double values[] = {0,     -0.0,   1,    -1,    0.5, -0.5,
                                    3e-40, -3e-40, 6e-8, -6e-8, 127, -128};
    const uint64_t which = rnd() % 18;
    if (!tn__dtype_is_float(dt)) {
        if (which < 2) return tn__dtype_int_max(dt) - which;
        if (which < 4) return (uint64_t)tn__dtype_int_min(dt) + which - 2;
        return which - 10;
    }
    const double v = which < 12    ? values[which]
                     : which == 12 ? (double)INFINITY
                     : which == 13 ? -(double)INFINITY
                     : which == 14 ? (double)-NAN
                     : which == 15 ? 1e30
                                   : (double)NAN;
    return tn__scalar_bits(dt, tn__scalar_from_double(dt, v));
}

/* Rows: few values, any bits, special values, ascending, descending. */
static void *fill(tn_dtype dt, int64_t rows, int64_t n)
{
    const size_t size = tn__dtype_size(dt);
    char *data = malloc((size_t)(rows * n) * size + 1);
    for (int64_t i = 0; i < rows * n; i++) {
        const int64_t kind = i / n % KINDS, at = i % n;
        uint64_t bits = rnd();
        if (kind == 0) bits = tn__scalar_bits(dt, tn__scalar_from_int(dt, (int64_t)(bits % 5)));
        if (kind == 2) bits = special(dt);
        if (kind == 3) bits = tn__scalar_bits(dt, tn__scalar_from_int(dt, at / 3));
        if (kind == 4) bits = tn__scalar_bits(dt, tn__scalar_from_int(dt, (n - at) / 3));
        if (dt == TN_BOOL) bits &= 1;
        memcpy(data + (size_t)i * size, &bits, size);
    }
    return data;
}

static tn_tensor *tensor(const void *data, tn_dtype dt, const int64_t *dims, size_t rank)
{
    return tn_from_data(data, &(tn_shape){rank, dims}, .dtype = dt);
}
#define DIMS(...) (const int64_t[]){__VA_ARGS__}, sizeof((int64_t[]){__VA_ARGS__}) / sizeof(int64_t)

static void same_positions(int line, tn_tensor *t, const int32_t *want, int64_t n)
{
    int32_t *got = malloc((size_t)n * sizeof *got + 1);
    ck_assert_msg(tn_dtype_of(t) == TN_I32 && tn_numel(t) == n, "line %d: not %lld int32", line,
                  (long long)n);
    ck_assert_msg(tn_data(t, got, (size_t)n * sizeof *got), "line %d: %s", line,
                  tn_last_error() ? tn_last_error()->msg : "");
    for (int64_t i = 0; i < n; i++)
        if (got[i] != want[i])
            ck_abort_msg("line %d: position %lld of %lld is %d, not %d", line, (long long)i,
                         (long long)n, got[i], want[i]);
    free(got);
}

static void same_floats(int line, tn_tensor *t, const float *want, int64_t n)
{
    float *got = malloc((size_t)n * sizeof *got + 1);
    ck_assert_msg(tn_data(t, got, (size_t)n * sizeof *got), "line %d: %s", line,
                  tn_last_error() ? tn_last_error()->msg : "");
    for (int64_t i = 0; i < n; i++) {
        const bool nan = isnan(got[i]) && isnan(want[i]);
        if (!nan && memcmp(&got[i], &want[i], sizeof *got))
            ck_abort_msg("line %d: element %lld is %g, not %g", line, (long long)i, (double)got[i],
                         (double)want[i]);
    }
    free(got);
}

static bool interpreted(void)
{
    TN_SCOPE;
    return !strncmp(tn_device(tn_zeros(SHAPE(1))), "INTERP", 6);
}

/* ---- tests ---- */

static const int64_t sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 100, 127, 257, 1000, 1009};
enum { SIZES = sizeof sizes / sizeof *sizes };

START_TEST(positions_are_those_of_a_stable_sort)
{
    TN_SCOPE;
    const tn_dtype dt = (tn_dtype)_i;
    void *data[SIZES];
    tn_tensor *at[2 * SIZES];
    for (int i = 0; i < SIZES; i++) {
        data[i] = fill(dt, KINDS, sizes[i]);
        tn_tensor *x = tensor(data[i], dt, DIMS(KINDS, sizes[i]));
        at[2 * i] = tn_argsort(x);
        at[2 * i + 1] = tn_argsort(x, -1, .descending = true);
    }
    const tn_inputs all = {2 * SIZES, at};
    ck_assert_msg(tn_realize_all(&all), "%s", tn_last_error() ? tn_last_error()->msg : "");
    for (int i = 0; i < 2 * SIZES; i++) {
        const int64_t n = sizes[i / 2];
        int32_t *want = malloc((size_t)(KINDS * n) * sizeof *want + 1);
        oracle(dt, data[i / 2], KINDS, n, i & 1, want);
        same_positions(__LINE__, at[i], want, KINDS * n);
        free(want);
    }
    for (int i = 0; i < SIZES; i++) free(data[i]);
}
END_TEST

START_TEST(nan_and_zeros_have_their_places)
{
    TN_SCOPE;
    const float x[] = {NAN, 0, -INFINITY, -0.0f, INFINITY, NAN, 0, -1};
    tn_tensor *t = tensor(x, TN_F32, DIMS(8));
    same_positions(__LINE__, tn_argsort(t), (const int32_t[]){2, 7, 1, 3, 6, 4, 0, 5}, 8);
    same_positions(__LINE__, tn_argsort(t, 0, .descending = true),
                   (const int32_t[]){0, 5, 4, 1, 3, 6, 7, 2}, 8);
    tn_tensor *at = NULL, *y = tn_sort(t, 0, .indices = &at);
    same_floats(__LINE__, y, (const float[]){-INFINITY, -1, 0, -0.0f, 0, INFINITY, NAN, NAN}, 8);
    same_positions(__LINE__, at, (const int32_t[]){2, 7, 1, 3, 6, 4, 0, 5}, 8);
}
END_TEST

START_TEST(any_axis_is_sorted)
{
    TN_SCOPE;
    enum { A = 5, B = 33, C = 4 };
    float *x = fill(TN_F32, KINDS, A * B * C / KINDS);
    tn_tensor *t = tensor(x, TN_F32, DIMS(A, B, C));
    static const int len[3] = {A, B, C}, step[3] = {B * C, C, 1};
    float *want = malloc(A * B * C * sizeof *want), line[B];
    int32_t *at = malloc(A * B * C * sizeof *at), pos[B];
    for (int axis = 0; axis < 3; axis++) {
        const int n = len[axis], s = step[axis];
        for (int i = 0; i < A * B * C; i++) {
            if (i / s % n) continue;
            for (int j = 0; j < n; j++) line[j] = x[i + j * s];
            oracle(TN_F32, line, 1, n, axis == 1, pos);
            for (int j = 0; j < n; j++) {
                want[i + j * s] = line[pos[j]];
                at[i + j * s] = pos[j];
            }
        }
        tn_tensor *ti = NULL, *y = tn_sort(t, axis - 3, .descending = axis == 1, .indices = &ti);
        same_floats(__LINE__, y, want, A * B * C);
        same_positions(__LINE__, ti, at, A * B * C);
        same_positions(__LINE__, tn_argsort(t, axis, .descending = axis == 1), at, A * B * C);
    }
    free(x);
    free(want);
    free(at);
}
END_TEST

START_TEST(views_and_expressions_are_sorted)
{
    TN_SCOPE;
    enum { R = 6, N = 21 };
    int32_t *x = fill(TN_I32, R, N), y[R * N], want[R * N];
    for (int i = 0; i < R * N; i++) x[i] %= 1000;
    tn_tensor *t = tensor(x, TN_I32, DIMS(R, N));
    ck_assert(tn_realize(t));
    oracle(TN_I32, x + 2 * N, 3, N, false, want); /* rows in the middle */
    same_positions(__LINE__, tn_argsort(tn_shrink(t, SHAPE(2, 5, 0, N))), want, 3 * N);
    for (int r = 0; r < R; r++) /* columns in the middle */
        for (int i = 0; i < 11; i++) y[r * 11 + i] = x[r * N + 4 + i];
    oracle(TN_I32, y, R, 11, true, want);
    tn_tensor *part = tn_shrink(t, SHAPE(0, R, 4, 15));
    same_positions(__LINE__, tn_argsort(part, 1, .descending = true), want, R * 11);
    same_positions(__LINE__,
                   tn_argsort(tn_reshape(part, SHAPE(R / 2, 2, 11)), -1, .descending = true), want,
                   R * 11);
    oracle(TN_I32, x, R / 2, 2 * N, false, want); /* reshaped */
    same_positions(__LINE__, tn_argsort(tn_reshape(t, SHAPE(R / 2, 2 * N))), want, R * N);
    for (int i = 0; i < R * N; i++) y[i] = x[i] * -3; /* computed, and read beside */
    oracle(TN_I32, y, R, N, false, want);
    tn_tensor *m = tn_mul(t, -3), *at = tn_argsort(m);
    tn_tensor *both[] = {m, at};
    const tn_inputs pair = {2, both};
    ck_assert(tn_realize_all(&pair));
    same_positions(__LINE__, at, want, R * N);
    same_positions(__LINE__, m, y, R * N);
    for (int i = 0; i < R * N; i++) want[i] = i % N; /* all equal */
    same_positions(__LINE__, tn_argsort(tn_zeros(SHAPE(R, N)), -1, .descending = true), want,
                   R * N);
    for (int i = 0; i < R * N; i++) want[i] = N - 1 - i % N;
    same_positions(__LINE__,
                   tn_argsort(tn_expand(tn_arange(N), SHAPE(R, N)), -1, .descending = true), want,
                   R * N);
    free(x);
}
END_TEST

START_TEST(the_order_of_an_order_is_the_rank)
{
    TN_SCOPE;
    enum { N = 300 };
    double *x = fill(TN_F64, 3, N);
    int32_t at[3 * N], want[3 * N];
    oracle(TN_F64, x, 3, N, false, at);
    for (int i = 0; i < 3 * N; i++) want[i / N * N + at[i]] = i % N;
    same_positions(__LINE__, tn_argsort(tn_argsort(tensor(x, TN_F64, DIMS(3, N)))), want, 3 * N);
    free(x);
}
END_TEST

START_TEST(top_k_is_the_head_of_the_order)
{
    TN_SCOPE;
    enum { R = 4, N = 50, K = 7 };
    float *x = fill(TN_F32, R, N), want[R * K];
    int32_t at[R * N], top[R * K];
    tn_tensor *t = tensor(x, TN_F32, DIMS(R, N)), *ti = NULL;
    for (int small = 0; small < 2; small++) {
        oracle(TN_F32, x, R, N, !small, at);
        for (int i = 0; i < R * K; i++) {
            top[i] = at[i / K * N + i % K];
            want[i] = x[i / K * N + top[i]];
        }
        tn_tensor *y = tn_topk(t, K, 1, .smallest = small, .indices = &ti);
        ck_assert_int_eq(tn_dim(y, 1), K);
        same_floats(__LINE__, y, want, R * K);
        same_positions(__LINE__, ti, top, R * K);
    }
    ck_assert_int_eq(tn_numel(tn_topk(t, 0, -1)), 0);
    ck_assert(tn_bad(tn_topk(t, N + 1, 1)));
    ck_assert_int_eq(tn_last_error()->code, TN_EVALUE);
    tn_clear_error();
    free(x);
}
END_TEST

START_TEST(gradients_go_back_to_where_values_came_from)
{
    TN_SCOPE;
    enum { R = 3, N = 17, K = 4 };
    float x[R * N], w[R * N], want[R * N] = {0};
    int32_t at[R * N];
    for (int i = 0; i < R * N; i++) {
        x[i] = (float)(rnd() % 9);
        w[i] = (float)(i + 1);
    }
    oracle(TN_F32, x, R, N, false, at);
    for (int i = 0; i < R * N; i++) want[i / N * N + at[i]] = w[i];
    tn_tensor *p = tn_param(tensor(x, TN_F32, DIMS(R, N)));
    tn_backward(tn_sum(tn_mul(tn_sort(p), tensor(w, TN_F32, DIMS(R, N)))));
    same_floats(__LINE__, tn_grad(p), want, R * N);
    oracle(TN_F32, x, R, N, true, at);
    memset(want, 0, sizeof want);
    for (int i = 0; i < R * K; i++) want[i / K * N + at[i / K * N + i % K]] = w[i];
    tn_tensor *q = tn_param(tensor(x, TN_F32, DIMS(R, N)));
    tn_backward(tn_sum(tn_mul(tn_topk(q, K, -1), tensor(w, TN_F32, DIMS(R, K)))));
    same_floats(__LINE__, tn_grad(q), want, R * N);
}
END_TEST

START_TEST(a_million_elements_are_sorted)
{
    TN_SCOPE;
    const int64_t n = interpreted() ? 10007 : 1000003;
    float *x = malloc((size_t)n * sizeof *x);
    int32_t *want = malloc((size_t)n * sizeof *want);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(rnd() >> 40) - 8e6f;
    oracle(TN_F32, x, 1, n, false, want);
    same_positions(__LINE__, tn_argsort(tensor(x, TN_F32, DIMS(n))), want, n);
    free(x);
    free(want);
}
END_TEST

START_TEST(many_rows_are_shared_among_work_groups)
{
    TN_SCOPE;
    const int64_t rows = interpreted() ? 67 : 6007, n = 65,
                  m = 131; /* no number of groups divides the rows */
    uint16_t *x = fill(TN_BF16, rows, m);
    int64_t *y = fill(TN_I64, rows, n);
    int32_t *want = malloc((size_t)(rows * m) * sizeof *want);
    oracle(TN_BF16, x, rows, m, true, want);
    same_positions(__LINE__, tn_argsort(tensor(x, TN_BF16, DIMS(rows, m)), 1, .descending = true),
                   want, rows * m);
    oracle(TN_I64, y, rows, n, false, want);
    same_positions(__LINE__, tn_argsort(tensor(y, TN_I64, DIMS(rows, n))), want, rows * n);
    free(x);
    free(y);
    free(want);
}
END_TEST

START_TEST(every_failing_allocation_of_the_kernel_is_a_clean_error)
{
    static const tn_dtype dts[] = {TN_F32, TN_F64};
    int64_t dims[2] = {3, _i & 2 ? 2000 : 20}, strides[2] = {dims[1], 1}, down = 1;
    const tn__uop root = {
        .op = TN_OP_SORT, .dt = TN_I32, .rank = 2, .dims = dims, .arg = &down, .narg = 1};
    tn__kernel *k = calloc(1, sizeof *k);
    k->root = &root;
    k->nbuf = 2;
    for (int i = 0; i < 2; i++)
        k->buf[i] = (tn__kbuf){
            .dt = i ? TN_I32 : dts[_i & 1], .rank = 2, .dims = dims, .strides = strides};
    for (uint64_t n = 1;; n++) {
        tn__buf blob = {0};
        tnl_view v;
        tn__alloc_fail_at(n);
        const bool ok = tn__emit_sort(k, &blob);
        tn__alloc_fail_at(0);
        ck_assert_msg(ok == tn_ok(), "allocation %d", (int)n);
        if (ok)
            ck_assert(!tnl_open(blob.data, blob.len, &v));
        else
            ck_assert_int_eq(tn_last_error()->code, TN_ENOMEM);
        if (ok) ck_assert_uint_eq(v.head->scratch_bytes % 64, 0);
        tn_clear_error();
        tn__buf_free(&blob);
        if (ok) {
            ck_assert_uint_gt(n, 5);
            break;
        }
        ck_assert_uint_lt(n, 1000);
    }
    free(k);
}
END_TEST

Suite *suite_sort(void);
Suite *suite_sort(void)
{
    Suite *s = suite_create("sort");
    TCase *c = tcase_create("sort");
    tcase_add_checked_fixture(c, setup, test_clean_end);
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, positions_are_those_of_a_stable_sort, TN_BOOL, TN_DTYPES);
    tcase_add_test(c, nan_and_zeros_have_their_places);
    tcase_add_test(c, any_axis_is_sorted);
    tcase_add_test(c, views_and_expressions_are_sorted);
    tcase_add_test(c, the_order_of_an_order_is_the_rank);
    tcase_add_test(c, top_k_is_the_head_of_the_order);
    tcase_add_test(c, gradients_go_back_to_where_values_came_from);
    tcase_add_test(c, a_million_elements_are_sorted);
    tcase_add_test(c, many_rows_are_shared_among_work_groups);
    tcase_add_loop_test(c, every_failing_allocation_of_the_kernel_is_a_clean_error, 0, 4);
    suite_add_tcase(s, c);
    return s;
}
