/* SPDX-License-Identifier: MIT */
/*
 * Graphs through the whole compiler against the naive evaluator: chosen ones first, then random ones.
 * TENON_TEST_GRAPHS=n sets the number of random graphs, TENON_TEST_SEED=n the first.
 */
#include "../support/naive.h"
#include "../test.h"
#include "device/device.h"
#include "engine/engine.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define D(...) ((const int64_t[]){__VA_ARGS__})

static uint64_t rng_state;
static uint32_t rnd(void)
{
    rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(rng_state >> 33);
}
static int upto(int n) { return (int)(rnd() % (uint32_t)n); }

/* A realised tensor of small numbers that are exact in every dtype. */
static tn__node *leaf(tn_dtype dt, const int64_t *dims, int rank)
{
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    const size_t size = tn__dtype_size(dt);
    char *data = malloc((size_t)n * size + 1);
    for (int64_t i = 0; i < n; i++) {
        const int v = upto(17) - (dt == TN_U8 || dt == TN_BOOL ? 0 : 8);
        const double x = tn__dtype_is_float(dt) ? v / 4.0 : dt == TN_BOOL ? v & 1 : v;
        const uint64_t bits = tn__scalar_bits(dt, tn__scalar_from_double(dt, x));
        memcpy(data + (size_t)i * size, &bits, size);
    }
    tn__device *d = tn__device_default();
    ck_assert_msg(d != NULL, "%s", tn_last_error() ? tn_last_error()->msg : "");
    tn__value *v = tn__value_new(tn__placement_one(d), (size_t)n * size);
    if (n) ck_assert(tn__buffer_write(v->buf[0], 0, data, (size_t)n * size));
    free(data);
    return tn__leaf(v, dt, dims, rank, tn__placement_one(d));
}

static double tolerance(tn_dtype dt)
{
    return dt == TN_F16    ? 4e-3
           : dt == TN_BF16 ? 3e-2
           : dt == TN_F64  ? 1e-9
           : dt == TN_F32  ? 2e-5
                           : 0;
}

/* NULL when every element agrees, else a text. */
static const char *compare(tn__node *x)
{
    static char text[256];
    const int64_t n = tn__node_numel(x);
    const tn_dtype dt = (tn_dtype)x->dt;
    const size_t size = tn__dtype_size(dt);
    double *want = malloc((size_t)(n + 1) * sizeof *want);
    char *got = malloc((size_t)n * size + 1);
    const char *bad = NULL;
    if (!naive_eval(x, want))
        bad = tn_last_error() ? tn_last_error()->msg : "naive failed";
    else if (!tn__node_read(x, got, (size_t)n * size))
        bad = tn_last_error() ? tn_last_error()->msg : "read failed";
    for (int64_t i = 0; i < n && !bad; i++) {
        uint64_t bits = 0;
        memcpy(&bits, got + (size_t)i * size, size);
        const double g = tn__scalar_to_double(dt, tn__scalar_from_bits(dt, bits)), w = want[i];
        const double tol = tolerance(dt) * (1 + fabs(w));
        if ((isnan(g) && isnan(w)) || g == w || fabs(g - w) <= tol) continue;
        snprintf(text, sizeof text, "element %lld of %s: %.9g, not %.9g", (long long)i,
                 tn__dtype_name(dt), g, w);
        bad = text;
    }
    free(want);
    free(got);
    return bad;
}

#define check_graph(x)                                 \
    do {                                               \
        const char *bad = compare(x);                  \
        ck_assert_msg(bad == NULL, "%s: %s", #x, bad); \
    } while (0)

static tn__build build;
static void start(void)
{
    rng_state = 42;
    tn__build_begin(&build);
}
static void end(void)
{
    tn__build_end(&build, NULL);
    test_clean_end();
}

START_TEST(elementwise_and_broadcast)
{
    tn__node *a = leaf(TN_F32, D(3, 5), 2), *b = leaf(TN_F32, D(1, 5), 2);
    check_graph(tn__binary(TN_OP_ADD, a, tn__expand(b, D(3, 5), 2)));
    check_graph(tn__unary(TN_OP_EXP2, tn__binary(TN_OP_MUL, a, tn__const_like(a, 0.5))));
    check_graph(tn__cast(tn__binary(TN_OP_LT, a, tn__expand(b, D(3, 5), 2)), TN_I32));
}
END_TEST

START_TEST(reductions)
{
    tn__node *a = leaf(TN_F32, D(4, 3, 7), 3);
    check_graph(tn__reduce(TN_OP_ADD, a, 7));
    check_graph(tn__reduce(TN_OP_MAX, a, 2));
    check_graph(tn__reduce(TN_OP_ADD, tn__permute(a, (int[]){2, 0, 1}), 1));
    check_graph(tn__reduce(TN_OP_MIN, leaf(TN_U8, D(9, 11), 2), 1));
    check_graph(tn__reduce(TN_OP_ADD, leaf(TN_F32, D(64 * 3000 + 17), 1), 1));
}
END_TEST

START_TEST(softmax_rows)
{
    tn__node *a = leaf(TN_F32, D(6, 33), 2);
    tn__node *m = tn__expand(tn__reduce(TN_OP_MAX, a, 2), D(6, 33), 2);
    tn__node *e = tn__unary(TN_OP_EXP2, tn__binary(TN_OP_SUB, a, m));
    tn__node *s = tn__expand(tn__reduce(TN_OP_ADD, e, 2), D(6, 33), 2);
    const uint64_t before = atomic_load(&tn__count.kernels);
    check_graph(tn__binary(TN_OP_DIV, e, s));
    ck_assert_uint_eq(atomic_load(&tn__count.kernels) - before, 1);
}
END_TEST

static tn__node *matmul(tn__node *a, tn__node *b, int64_t m, int64_t k, int64_t n)
{
    tn__node *x = tn__expand(tn__reshape(a, D(m, k, 1), 3), D(m, k, n), 3);
    tn__node *y = tn__expand(tn__reshape(b, D(1, k, n), 3), D(m, k, n), 3);
    return tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, x, y), 2);
}

START_TEST(products)
{
    check_graph(matmul(leaf(TN_F32, D(5, 7), 2), leaf(TN_F32, D(7, 3), 2), 5, 7, 3));
    check_graph(matmul(leaf(TN_F32, D(37, 64), 2), leaf(TN_F32, D(64, 50), 2), 37, 64, 50));
    check_graph(matmul(leaf(TN_F64, D(16, 16), 2), leaf(TN_F64, D(16, 48), 2), 16, 16, 48));
    check_graph(matmul(leaf(TN_I32, D(16, 16), 2), leaf(TN_I32, D(16, 48), 2), 16, 16, 48));
}
END_TEST

/* x (n, c, h, w) by w (o, c, k, k) */
static tn__node *conv(tn__node *x, tn__node *w, int64_t stride)
{
    const int64_t n = x->dims[0], c = x->dims[1], o = w->dims[0], k = w->dims[2];
    tn__node *p = tn__window(tn__window(x, 3, k, stride, 1), 2, k, stride, 1); /* n c oh kh ow kw */
    const int64_t oh = p->dims[2], ow = p->dims[4];
    tn__node *px = tn__expand(tn__reshape(p, D(n, 1, c, oh, k, ow, k), 7), D(n, o, c, oh, k, ow, k),
                              7);
    tn__node *pw = tn__expand(tn__reshape(w, D(1, o, c, 1, k, 1, k), 7), D(n, o, c, oh, k, ow, k),
                              7);
    tn__node *y = tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, px, pw), 1u << 2 | 1u << 4 | 1u << 6);
    return tn__reshape(y, D(n, o, oh, ow), 4);
}

START_TEST(convolution_and_its_gradients)
{
    tn__node *x = leaf(TN_F32, D(2, 3, 9, 10), 4), *w = leaf(TN_F32, D(5, 3, 3, 3), 4);
    for (int stride = 1; stride <= 2; stride++) {
        tn__node *px = tn__param_node(x, 1), *pw = tn__param_node(w, 2), *out[2];
        tn__node *y = conv(px, pw, stride);
        check_graph(y);
        tn__node *loss = tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, y, y), 15);
        loss = tn__reshape(loss, NULL, 0);
        tn__node *target[2] = {px, pw};
        ck_assert(tn__gradient(loss, NULL, target, 2, out));
        check_graph(out[0]);
        check_graph(out[1]);
    }
}
END_TEST

START_TEST(pooling_and_its_gradient)
{
    tn__node *x = leaf(TN_F32, D(2, 3, 9, 9), 4);
    for (int k = 2; k <= 3; k++) {
        tn__node *px = tn__param_node(x, 3), *out;
        tn__node *p = tn__window(tn__window(px, 3, k, 2, 1), 2, k, 2, 1);
        tn__node *y = tn__reduce(TN_OP_MAX, p, 1u << 3 | 1u << 5);
        check_graph(y);
        tn__node *loss = tn__reshape(tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, y, y), 63), NULL,
                                     0);
        ck_assert(tn__gradient(loss, NULL, &px, 1, &out));
        check_graph(out);
    }
}
END_TEST

START_TEST(gather_scatter_scan_update)
{
    tn__node *x = leaf(TN_F32, D(2, 6, 3), 3), *i = leaf(TN_I32, D(2, 4), 2);
    tn__node *at = tn__cast(tn__binary(TN_OP_IMOD, i, tn__const_like(i, 6)), TN_I32);
    check_graph(tn__gather(x, at));
    const char *outside = compare(tn__gather(x, i)); /* 0 there, and a report */
    ck_assert_msg(outside && strstr(outside, "row 7 of 6"), "%s", outside ? outside : "no report");
    tn_clear_error();
    tn__node *src = leaf(TN_F32, D(2, 4, 3), 3);
    check_graph(tn__scatter(TN_OP_ADD, x, at, src));
    check_graph(tn__scatter(TN_OP_CONST, x, at, src));
    check_graph(tn__scan(TN_OP_ADD, x, 1));
    check_graph(tn__scan(TN_OP_MAX, x, 0));
    check_graph(tn__scan(TN_OP_ADD, tn__const_f(TN_F32, 1, D(2, 9), 2), 1));
    tn__node *view = tn__shrink(x, D(0, 1, 0), D(2, 4, 3));
    check_graph(tn__update(x, src, view));
    check_graph(tn__pad(x, D(0, 2, 1), D(1, 0, 2)));
    check_graph(tn__flip(tn__pad(x, D(0, 2, 1), D(1, 0, 2)), 6));
}
END_TEST

START_TEST(random_bits_are_the_evaluators)
{
    check_graph(tn__random_bits(D(3, 37), 2));
    check_graph(tn__random_bits(D(1000), 1));
}
END_TEST

START_TEST(every_dtype_adds_multiplies_compares_and_casts)
{
    for (int dt = 1; dt < TN_DTYPES; dt++) {
        tn__node *a = leaf((tn_dtype)dt, D(7, 19), 2), *b = leaf((tn_dtype)dt, D(7, 19), 2);
        check_graph(tn__binary(TN_OP_ADD, a, b));
        check_graph(tn__binary(TN_OP_MUL, a, b));
        check_graph(tn__binary(TN_OP_MAX, a, b));
        check_graph(tn__binary(TN_OP_LT, a, b));
        check_graph(tn__where(tn__binary(TN_OP_EQ, a, b), a, b));
        if (dt != TN_BOOL) check_graph(tn__unary(TN_OP_NEG, a));
        if (tn__dtype_is_int((tn_dtype)dt)) {
            check_graph(tn__binary(TN_OP_IDIV, a, b));
            check_graph(tn__binary(TN_OP_IMOD, a, b));
            check_graph(tn__binary(TN_OP_SHL, a, b));
        }
        for (int to = 1; to < TN_DTYPES; to++) check_graph(tn__cast(a, (tn_dtype)to));
    }
}
END_TEST

/* A number that changes is a run-time scalar from the second time on. */
START_TEST(a_hundred_learning_rates_cost_two_compilations)
{
    tn__node *p = leaf(TN_F32, D(7, 5), 2), *g = leaf(TN_F32, D(7, 5), 2);
    const uint64_t before = atomic_load(&tn__count.schedules);
    for (int i = 1; i <= 100; i++) {
        tn__node *x = tn__binary(TN_OP_SUB, p,
                                 tn__binary(TN_OP_MUL, g, tn__const_like(g, i / 128.0)));
        check_graph(tn__unary(TN_OP_NEG, x));
    }
    ck_assert_uint_le(atomic_load(&tn__count.schedules) - before, 2);
}
END_TEST

/* More numbers that change than a kernel takes: it is cut. */
START_TEST(a_chain_of_a_hundred_changing_numbers_is_cut_into_kernels)
{
    tn__node *y = leaf(TN_F64, D(5, 3), 2);
    for (int step = 1; step <= 3; step++) {
        tn__node *x = y;
        for (int i = 0; i < 100; i++)
            x = tn__unary(TN_OP_SIN,
                          tn__binary(TN_OP_MUL, x, tn__const_like(x, 1 + step * i / 64.0)));
        check_graph(x);
    }
}
END_TEST

/* Kernels are bounded: what follows a long chain neither recurses nor compiles without end. */
START_TEST(a_chain_of_thousands_of_operations_is_cut_into_kernels)
{
    tn__node *x = leaf(TN_F32, D(3), 1), *one = tn__contiguous(tn__const_f(TN_F32, 1, D(3), 1));
    ck_assert(tn__realize(&one, 1));
    for (int i = 0; i < 5000; i++) x = tn__binary(TN_OP_ADD, x, one);
    check_graph(x);
}
END_TEST

/* ---- random graphs ---- */

enum { POOL = 12 };
static int64_t limit; /* of elements of what grows further */

static bool same_dims(const tn__node *a, const tn__node *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims);
}

static tn__node *move(tn__node *x)
{
    int64_t p[TN_MAX_RANK], q[TN_MAX_RANK], n = tn__node_numel(x);
    int ax[TN_MAX_RANK];
    switch (upto(8)) {
    case 0:
        for (int i = 0; i < x->rank; i++) ax[i] = i;
        for (int i = x->rank - 1; i > 0; i--) {
            const int j = upto(i + 1), t = ax[i];
            ax[i] = ax[j];
            ax[j] = t;
        }
        return tn__permute(x, ax);
    case 1: {
        const int64_t d[3] = {1, 2, 3};
        const int64_t f = d[upto(3)];
        if (n % f) return tn__reshape(x, D(n), 1);
        return tn__reshape(x, D(f, n / f), 2);
    }
    case 2: return tn__reshape(x, D(n, 1), 2);
    case 3:
        for (int i = 0; i < x->rank; i++) {
            p[i] = upto((int)x->dims[i]);
            q[i] = 1 + upto((int)(x->dims[i] - p[i]));
        }
        return tn__shrink(x, p, q);
    case 4:
        for (int i = 0; i < x->rank; i++) {
            p[i] = upto(3);
            q[i] = upto(3);
        }
        return n < limit ? tn__pad(x, p, q) : x;
    case 5: return tn__flip(x, rnd() & ((1u << x->rank) - 1));
    case 6:
        for (int i = 0; i < x->rank; i++) p[i] = x->dims[i] == 1 ? 1 + upto(4) : x->dims[i];
        return n < limit ? tn__expand(x, p, x->rank) : x;
    default: {
        const int a = upto(x->rank);
        const int64_t k = 1 + upto(3), s = 1 + upto(2);
        return x->dims[a] >= k && n < limit ? tn__window(x, a, k, s, 1) : x;
    }
    }
}

/* A product of two matrices made from x, when x has two axes: what the tiles are for. */
static tn__node *gram(tn__node *x)
{
    const int64_t m = x->dims[0], k = x->dims[1];
    if (m * m * k > 200000) return tn__unary(TN_OP_NEG, x);
    tn__node *a = tn__expand(tn__reshape(x, D(m, 1, k), 3), D(m, m, k), 3);
    tn__node *b = tn__expand(tn__reshape(x, D(1, m, k), 3), D(m, m, k), 3);
    return tn__reshape(tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, a, b), 4), D(m, m), 2);
}

static tn__node *step(tn__node **pool, int n)
{
    tn__node *x = pool[upto(n)], *y = pool[upto(n)];
    static const tn__op bin[] = {TN_OP_ADD, TN_OP_SUB, TN_OP_MUL, TN_OP_MAX, TN_OP_MIN};
    if (!x->rank) return tn__binary(TN_OP_ADD, x, x);
    if (x->rank == 2 && upto(6) == 0)
        return gram(tn__binary(TN_OP_MUL, x, tn__const_like(x, 0.25)));
    switch (upto(9)) {
    case 0:
    case 1:
    case 2: return move(x);
    case 3: return tn__reduce(upto(3) ? TN_OP_ADD : TN_OP_MAX, x, 1u << upto(x->rank));
    case 4: {
        tn__node *r = tn__reduce(upto(2) ? TN_OP_ADD : TN_OP_MAX, x, 1u << upto(x->rank));
        return tn__binary(TN_OP_SUB, x, tn__expand(r, x->dims, x->rank));
    }
    case 5:
        for (int i = 0; i < n; i++)
            if (pool[i] != x && same_dims(pool[i], x)) y = pool[i];
        if (!same_dims(x, y)) return tn__unary(TN_OP_NEG, x);
        return tn__binary(bin[upto(5)], x, y);
    case 6: {
        tn__node *c = tn__binary(TN_OP_LT, x, tn__const_like(x, 0));
        return tn__where(c, tn__binary(TN_OP_MUL, x, tn__const_like(x, 0.25)), x);
    }
    case 7:
        return tn__scan(TN_OP_ADD, tn__binary(TN_OP_MUL, x, tn__const_like(x, 0.125)),
                        upto(x->rank));
    default:
        return tn__binary(TN_OP_ADD, x,
                          tn__cast(tn__iota(TN_I32, upto(x->rank), x->dims, x->rank), TN_F32));
    }
}

START_TEST(random_graphs_equal_the_naive_evaluator)
{
    const char *n_env = getenv("TENON_TEST_GRAPHS"), *s_env = getenv("TENON_TEST_SEED");
    const int total = n_env ? atoi(n_env) : test_long() ? 10000 : 500;
    const int first = s_env ? atoi(s_env) : 0, parts = 10;
    for (int g = first + _i; g < first + total; g += parts) {
        rng_state = (uint64_t)g * 7919 + 1;
        tn__build b;
        tn__build_begin(&b);
        tn__node *pool[POOL];
        int n = 0;
        const bool wide = g % 4 == 3; /* long enough for lanes and tiles */
        limit = wide ? 6000 : 500;
        if (wide) {
            pool[n++] = leaf(TN_F32, D(1 + upto(24), 4 + upto(44)), 2);
            pool[n++] = leaf(TN_F32, D(1 + upto(4), 1 + upto(20), 1 + upto(20)), 3);
        } else {
            pool[n++] = leaf(TN_F32, D(1 + upto(5), 1 + upto(7)), 2);
            pool[n++] = leaf(TN_F32, D(1 + upto(3), 1 + upto(4), 1 + upto(5)), 3);
        }
        while (n < POOL) {
            tn__node *x = step(pool, n);
            if (!x || tn__node_numel(x) > 4 * limit) {
                tn_clear_error();
                x = leaf(TN_F32, D(2, 3), 2);
            }
            pool[n++] = x;
        }
        const char *bad = compare(pool[POOL - 1]);
        ck_assert_msg(!bad, "graph %d: %s", g, bad);
        tn__build_end(&b, NULL);
    }
}
END_TEST

Suite *suite_graphs(void)
{
    Suite *s = suite_create("graphs");
    TCase *t = tcase_create("graphs");
    tcase_set_timeout(t, test_long() ? 14400 : 600);
    tcase_add_checked_fixture(t, start, end);
    tcase_add_test(t, elementwise_and_broadcast);
    tcase_add_test(t, reductions);
    tcase_add_test(t, softmax_rows);
    tcase_add_test(t, products);
    tcase_add_test(t, convolution_and_its_gradients);
    tcase_add_test(t, pooling_and_its_gradient);
    tcase_add_test(t, gather_scatter_scan_update);
    tcase_add_test(t, random_bits_are_the_evaluators);
    tcase_add_test(t, a_chain_of_thousands_of_operations_is_cut_into_kernels);
    tcase_add_test(t, a_hundred_learning_rates_cost_two_compilations);
    tcase_add_test(t, a_chain_of_a_hundred_changing_numbers_is_cut_into_kernels);
    tcase_add_test(t, every_dtype_adds_multiplies_compares_and_casts);
    tcase_add_loop_test(t, random_graphs_equal_the_naive_evaluator, 0, 10);
    suite_add_tcase(s, t);
    return s;
}
