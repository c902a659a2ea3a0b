/* SPDX-License-Identifier: MIT */
/*
 * How many kernels common computations take, and what loops leave behind: counted, since a fusion that is lost
 * changes no result. MEASURE=1 prints every count.
 */
#include "../test.h"
#include "device/device.h"
#include "engine/plan.h"
#include "tensor/handle.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static tn_counters counters(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return c;
}

static void measured(const char *what, uint64_t n)
{
    if (getenv("MEASURE")) fprintf(stderr, "%s: %llu\n", what, (unsigned long long)n);
}

/* Kernels of the second run, when plans and constants are there. */
static uint64_t kernels_of(const char *what, tn_tensor *(*build)(tn_tensor **in), tn_tensor **in)
{
    uint64_t n = 0;
    for (int i = 0; i < 2; i++) {
        TN_SCOPE;
        tn_tensor *y = build(in);
        const uint64_t before = counters().kernels;
        ck_assert_msg(tn_realize(y), "%s: %s", what, tn_last_error()->msg);
        n = counters().kernels - before;
    }
    measured(what, n);
    return n;
}

static tn_tensor *random_of(const tn_shape *s)
{
    tn_tensor *t = tn_keep(tn_rand(s));
    ck_assert(tn_realize(t));
    return t;
}

static tn_tensor *conv(tn_tensor **in) { return tn_relu(tn_conv2d(in[0], in[1], .bias = in[2])); }
static tn_tensor *conv_padded(tn_tensor **in)
{
    return tn_relu(tn_conv2d(in[0], in[1], .bias = in[2], .padding = {1, 1}));
}
static tn_tensor *conv_pool(tn_tensor **in) { return tn_max_pool2d(conv(in)); }
static tn_tensor *softmax(tn_tensor **in) { return tn_softmax(in[0]); }
static tn_tensor *layernorm(tn_tensor **in) { return tn_layernorm(in[0]); }
static tn_tensor *cross_entropy(tn_tensor **in)
{
    return tn_sparse_categorical_crossentropy(in[0], in[1]);
}
static tn_tensor *matmul_bias(tn_tensor **in)
{
    return tn_relu(tn_add(tn_matmul(in[0], in[1]), in[2]));
}

static void release(tn_tensor **in, int n)
{
    for (int i = 0; i < n; i++) tn_free(in[i]);
}

START_TEST(convolution_bias_and_relu_are_one_kernel)
{
    TN_SCOPE;
    tn_tensor *in[] = {random_of(SHAPE(32, 1, 28, 28)), random_of(SHAPE(32, 1, 5, 5)),
                       random_of(SHAPE(32))};
    ck_assert_uint_le(kernels_of("conv 1x28x28 5x5 32", conv, in), 1);
    release(in, 3);
    tn_tensor *deep[] = {random_of(SHAPE(16, 32, 12, 12)), random_of(SHAPE(64, 32, 3, 3)),
                         random_of(SHAPE(64))};
    ck_assert_uint_le(kernels_of("conv 32x12x12 3x3 64", conv, deep), 1);
    ck_assert_uint_le(kernels_of("conv 32x12x12 3x3 64 padded", conv_padded, deep), 1);
    release(deep, 3);
}
END_TEST

START_TEST(convolution_bias_relu_and_max_pool_are_at_most_two_kernels)
{
    TN_SCOPE;
    tn_tensor *in[] = {random_of(SHAPE(32, 1, 28, 28)), random_of(SHAPE(32, 1, 5, 5)),
                       random_of(SHAPE(32))};
    ck_assert_uint_le(kernels_of("conv pool 1x28x28", conv_pool, in), 2);
    release(in, 3);
    tn_tensor *deep[] = {random_of(SHAPE(16, 32, 12, 12)), random_of(SHAPE(64, 32, 3, 3)),
                         random_of(SHAPE(64))};
    ck_assert_uint_le(kernels_of("conv pool 32x12x12", conv_pool, deep), 2);
    release(deep, 3);
}
END_TEST

/* Writes to parts of what is made here go into its memory, without a copy of the whole. */
START_TEST(writes_to_parts_of_a_new_tensor_are_in_place)
{
    TN_SCOPE;
    tn_tensor *a = random_of(SHAPE(200, 300)), *b = random_of(SHAPE(50, 300));
    const uint64_t before = counters().kernels;
    tn_tensor *y = tn_keep(tn_mul(a, 2));
    tn_assign(tn_index(y, TN_SLICE(0, 50)), b);
    tn_assign(tn_index(y, TN_SLICE(20, 70)), tn_add(b, 1));
    ck_assert(tn_realize(y));
    ck_assert_uint_le(counters().kernels - before, 3);
    const double want = 2 * tn_item(tn_sum(tn_index(a, TN_SLICE(70, 200)))) +
                        tn_item(tn_sum(tn_index(b, TN_SLICE(0, 20)))) +
                        tn_item(tn_sum(tn_add(b, 1)));
    ck_assert_double_eq_tol(tn_item(tn_sum(y)), want, 1e-6 * want);
    tn_free(y);
    release((tn_tensor *[]){a, b}, 2);
}
END_TEST

START_TEST(product_bias_and_relu_are_one_kernel)
{
    TN_SCOPE;
    tn_tensor *in[] = {random_of(SHAPE(64, 128)), random_of(SHAPE(128, 256)),
                       random_of(SHAPE(256))};
    ck_assert_uint_le(kernels_of("matmul bias relu", matmul_bias, in), 1);
    release(in, 3);
}
END_TEST

START_TEST(rows_of_softmax_and_layer_norm_are_one_kernel)
{
    static const int64_t sizes[] = {10, 1000, 8192, 65536};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        TN_SCOPE;
        char what[64];
        tn_tensor *x = random_of(SHAPE(4, sizes[i]));
        snprintf(what, sizeof what, "softmax 4x%lld", (long long)sizes[i]);
        ck_assert_uint_eq(kernels_of(what, softmax, &x), 1);
        snprintf(what, sizeof what, "layernorm 4x%lld", (long long)sizes[i]);
        ck_assert_uint_eq(kernels_of(what, layernorm, &x), 1);
        tn_free(x);
    }
}
END_TEST

START_TEST(a_single_long_row_of_softmax_is_one_kernel)
{
    TN_SCOPE;
    tn_tensor *one = random_of(SHAPE(1, 65536));
    ck_assert_uint_eq(kernels_of("softmax 1x65536", softmax, &one), 1);
    ck_assert_uint_eq(kernels_of("layernorm 1x65536", layernorm, &one), 1);
    tn_free(one);
}
END_TEST

START_TEST(cross_entropy_of_scores_is_one_kernel)
{
    TN_SCOPE;
    int32_t label[64];
    for (int i = 0; i < 64; i++) label[i] = i % 10;
    tn_tensor *in[] = {random_of(SHAPE(64, 10)),
                       tn_keep(tn_from_data(label, SHAPE(64), .dtype = TN_I32))};
    ck_assert_uint_le(kernels_of("cross entropy 64x10", cross_entropy, in), 1);
    release(in, 2);
}
END_TEST

/* ---- steps ---- */

enum { PARAMS = 6 };

START_TEST(adam_over_six_parameters_is_at_most_two_kernels)
{
    TN_WITH(TN_TRAINING, 1);
    tn_tensor *p[PARAMS];
    static const int64_t n[PARAMS] = {512, 16, 4096, 64, 640, 10};
    for (int i = 0; i < PARAMS; i++) p[i] = tn_param(random_of(SHAPE(n[i])));
    tn_optim *o = tn_adam_list(IN(p[0], p[1], p[2], p[3], p[4], p[5]));
    uint64_t used = 0;
    for (int step = 0; step < 3; step++) {
        TN_SCOPE;
        tn_tensor *loss = NULL;
        for (int i = 0; i < PARAMS; i++) {
            tn_tensor *s = tn_sum(tn_mul(p[i], p[i]));
            loss = loss ? tn_add(loss, s) : s;
        }
        tn_optim_zero_grad(o);
        tn_backward(loss);
        tn_tensor *g[PARAMS];
        for (int i = 0; i < PARAMS; i++) g[i] = tn_grad(p[i]);
        const tn_inputs grads = {PARAMS, g};
        ck_assert(tn_realize_all(&grads));
        ck_assert(tn_realize(loss));
        const uint64_t before = counters().kernels;
        ck_assert_msg(tn_optim_step(o), "%s", tn_last_error()->msg);
        used = counters().kernels - before;
    }
    measured("Adam over 6 parameters", used);
    ck_assert_uint_le(used, 2);
    tn_optim_free(o);
    release(p, PARAMS);
}
END_TEST

typedef struct {
    tn_nn_linear l1, l2;
} net;

static void net_visit(tn_visitor *v, void *obj)
{
    net *m = obj;
    tn_field(v, m, l1);
    tn_field(v, m, l2);
}

static tn_tensor *net_loss(net *m, tn_tensor *x, tn_tensor *y)
{
    return tn_sparse_categorical_crossentropy(
        tn_nn_linear_call(&m->l2, tn_relu(tn_nn_linear_call(&m->l1, x))), y);
}

/* Each needs a kernel; sixteen of them are a launch. */
START_TEST(a_thousand_small_results_share_launches)
{
    enum { N = 1000 };
    TN_SCOPE;
    static tn_tensor *x[N], *y[N];
    for (int i = 0; i < N; i++) {
        const float row[3] = {(float)i, 1, 0.5F};
        x[i] = tn_from_data(row, SHAPE(3));
        y[i] = tn_sum(x[i]);
    }
    const uint64_t before = counters().kernels;
    ck_assert_msg(tn_realize_all(IN_N(N, y)), "%s", tn_last_error()->msg);
    ck_assert_uint_eq(counters().kernels - before, (N + 15) / 16);
    for (int i = 0; i < N; i++) ck_assert_double_eq(tn_item(y[i]), i + 1.5);
}
END_TEST

START_TEST(building_a_pass_over_ten_thousand_images_runs_nothing)
{
    TN_SCOPE;
    TN_WITH(TN_TRAINING, 1);
    enum { N = 10000 };
    net m = {0};
    ck_assert(tn_nn_linear_init(&m.l1, 784, 64) && tn_nn_linear_init(&m.l2, 64, 10));
    uint8_t *image = calloc(N, 784);
    int32_t *label = calloc(N, sizeof *label);
    for (size_t i = 0; i < (size_t)N * 784; i++) image[i] = (uint8_t)(i * 7 + i / 784);
    for (int i = 0; i < N; i++) label[i] = i % 10;
    tn_tensor *x = tn_from_data(image, SHAPE(N, 784), .dtype = TN_U8);
    tn_tensor *y = tn_from_data(label, SHAPE(N), .dtype = TN_I32);
    tn_optim *o = tn_sgd_new(&m, net_visit);
    tn__device *d = tn__device_get(tn_device(x));
    const tn_counters before = counters();
    const size_t bytes = tn__device_bytes(d);
    tn_tensor *loss = net_loss(&m, tn_div(tn_cast(x, TN_F32), 255), y);
    tn_backward(loss);
    ck_assert(tn_optim_schedule_step(o));
    ck_assert_uint_eq(counters().kernels, before.kernels);
    ck_assert_uint_eq(counters().schedules, before.schedules);
    ck_assert_uint_eq(tn__device_bytes(d), bytes);
    const double value = tn_item(loss);
    ck_assert_msg(value > 1 && value < 10, "loss %g", value);
    ck_assert_uint_gt(counters().kernels, before.kernels);
    measured("two-layer step over 10,000 images", counters().kernels - before.kernels);
    tn_optim_free(o);
    tn_state_free(&m, net_visit);
    free(image);
    free(label);
}
END_TEST

START_TEST(steps_in_a_loop_leave_nothing_behind)
{
    TN_WITH(TN_TRAINING, 1);
    net m = {0};
    float image[8 * 20];
    int32_t label[8];
    for (int i = 0; i < 160; i++) image[i] = (float)(i % 13) / 13;
    for (int i = 0; i < 8; i++) label[i] = i % 5;
    ck_assert(tn_nn_linear_init(&m.l1, 20, 16) && tn_nn_linear_init(&m.l2, 16, 5));
    tn_optim *o = tn_adam_new(&m, net_visit);
    tn_counters at50 = {0};
    for (int step = 0; step < 300; step++) {
        {
            TN_SCOPE;
            tn_tensor *x = tn_from_data(image, SHAPE(8, 20)),
                      *y = tn_from_data(label, SHAPE(8), .dtype = TN_I32);
            tn_optim_zero_grad(o);
            tn_tensor *loss = net_loss(&m, x, y);
            tn_backward(loss);
            ck_assert(tn_optim_step(o));
            tn_item(loss);
            ck_assert_msg(tn_ok(), "step %d: %s", step, tn_last_error()->msg);
        }
        if (step == 49) at50 = counters();
    }
    const tn_counters end = counters();
    measured("host bytes after 50 steps", at50.host_bytes);
    measured("host bytes after 300 steps", end.host_bytes);
    measured("kernels a step", (end.kernels - at50.kernels) / 250);
    ck_assert_uint_eq(end.nodes, at50.nodes);
    ck_assert_uint_eq(end.handles, at50.handles);
    ck_assert_uint_eq(end.schedules, at50.schedules);
    ck_assert_uint_eq(end.host_blocks, at50.host_blocks);
    ck_assert_uint_eq(end.host_bytes, at50.host_bytes);
    tn_optim_free(o);
    tn_state_free(&m, net_visit);
}
END_TEST

START_TEST(a_hundred_learning_rates_cause_at_most_two_compilations)
{
    TN_SCOPE;
    tn_tensor *w = random_of(SHAPE(100)), *g = random_of(SHAPE(100));
    const tn_counters before = counters();
    for (int i = 0; i < 100; i++) {
        TN_SCOPE;
        tn_assign(w, tn_sub(w, tn_mul(g, 0.001 * (i + 1))));
        ck_assert(tn_realize(w));
    }
    const tn_counters end = counters();
    measured("plans for 100 learning rates", end.schedules - before.schedules);
    measured("compilations for 100 learning rates", end.compiles - before.compiles);
    ck_assert_uint_le(end.schedules - before.schedules, 2);
    release((tn_tensor *[]){w, g}, 2);
}
END_TEST

/* ---- plans ---- */

static tn__plan *plan_of(tn_tensor *t)
{
    tn__arena a = {0};
    tn__normal f;
    tn__call c;
    tn__call_begin(&c, "plan_of");
    tn__node *n = tn__in(t);
    ck_assert(n && tn__normalise(&a, &n, 1, &f));
    tn__plan *p = tn__plan_get(&f, tn__device_default());
    tn__normal_free(&f);
    tn__arena_free(&a);
    tn__call_done(&c);
    ck_assert_msg(p != NULL, "%s", tn_ok() ? "" : tn_last_error()->msg);
    return p;
}

START_TEST(planned_bytes_stay_near_the_peak_of_live_bytes)
{
    TN_SCOPE;
    tn_tensor *x = random_of(SHAPE(16, 1, 28, 28)), *w1 = random_of(SHAPE(32, 1, 5, 5)),
              *w2 = random_of(SHAPE(32, 32, 5, 5));
    tn_tensor *w3 = random_of(SHAPE(64, 32, 3, 3)), *w4 = random_of(SHAPE(1024, 10));
    tn_tensor *h = tn_max_pool2d(tn_relu(tn_conv2d(tn_relu(tn_conv2d(x, w1)), w2)));
    h = tn_max_pool2d(tn_relu(tn_conv2d(h, w3)));
    tn_tensor *g[4];
    tn_tensor *loss = tn_sum(tn_softmax(tn_matmul(tn_reshape(h, SHAPE(16, 1024)), w4)));
    ck_assert(tn_gradient(loss, IN(w1, w2, w3, w4), g));
    tn__plan *p = plan_of(g[0]);
    measured("planned bytes", p->temp_bytes[0]);
    measured("peak of live bytes", p->live_peak);
    ck_assert_msg((double)p->temp_bytes[0] <= 1.15 * (double)p->live_peak, "%zu planned, %zu alive",
                  p->temp_bytes[0], p->live_peak);
    tn__plan_unref(p);
    release((tn_tensor *[]){x, w1, w2, w3, w4}, 5);
}
END_TEST

/* No more than `most` calls of the plan write to something of `numel` elements or more. */
static void check_writes(tn__plan *p, int64_t numel, int most)
{
    int touching = 0;
    double ops = 0;
    for (int i = 0; i < p->ncall; i++) {
        bool big = false;
        for (int j = 0; j < p->call[i].nbuf; j++)
            big |= p->buf[p->call[i].buf[j]].numel >= numel &&
                   (p->call[i].access[j] & TNP_ACCESS_WRITE);
        touching += big;
        ops += p->call[i].ops;
        if (getenv("MEASURE")) {
            char name[256];
            tn__label_text(&p->call[i].label, false, name, sizeof name);
            fprintf(stderr, "embedding gradient: %s %s, %.0f ops, %.0f bytes\n", name,
                    big ? "writes the table's gradient" : "", p->call[i].ops, p->call[i].bytes);
        }
    }
    ck_assert_int_le(touching, most);
    ck_assert_msg(ops < 4.0 * (double)numel, "%.0f operations", ops);
    tn__plan_unref(p);
}

/* The only thing of the table's size that a gradient touches is what it makes; the forward reads rows alone. */
START_TEST(gradient_of_an_embedding_touches_the_table_only_to_fill_it)
{
    enum { VOCABULARY = 5000, SIZE = 16 };
    static float w[VOCABULARY * SIZE], g_of[VOCABULARY * SIZE], want[VOCABULARY * SIZE];
    static const int32_t row[2][8] = {{3, 1, 4, 1, 5, 9, 2, 4999}, {0, 3, 3, 7, 4998, 1, 1, 8}};
    tn_tensor *table = tn_param(random_of(SHAPE(VOCABULARY, SIZE)));
    tn_nn_embedding e = {table};
    ck_assert(tn_data(table, w, sizeof w));
    memset(want, 0, sizeof want);
    for (int lookups = 1; lookups <= 2; lookups++) {
        TN_SCOPE;
        tn_tensor *loss = NULL, *g;
        for (int i = 0; i < lookups; i++) {
            tn_tensor *idx = tn_from_data(row[i], SHAPE(8), .dtype = TN_I32);
            tn_tensor *out = tn_nn_embedding_call(&e, idx), *sum = tn_sum(tn_mul(out, out));
            loss = loss ? tn_add(loss, sum) : sum;
        }
        for (int i = 0; i < 8 * SIZE; i++) {
            const int at = row[lookups - 1][i / SIZE] * SIZE + i % SIZE;
            want[at] += 2 * w[at];
        }
        ck_assert(tn_gradient(loss, IN(table), &g));
        /* the fill, and for each look-up the rows that are added */
        check_writes(plan_of(g), VOCABULARY * SIZE, 1 + lookups);
        ck_assert(tn_data(g, g_of, sizeof g_of));
        for (int i = 0; i < VOCABULARY * SIZE; i++)
            ck_assert_float_eq_tol(g_of[i], want[i], 1e-6F * (float)lookups);
    }
    tn_free(table);
}
END_TEST

Suite *suite_kernels(void);
Suite *suite_kernels(void)
{
    Suite *s = suite_create("kernels");
    TCase *c = tcase_create("kernels");
    tcase_add_checked_fixture(c, test_clean_start, test_clean_end);
    tcase_add_test(c, convolution_bias_and_relu_are_one_kernel);
    tcase_add_test(c, convolution_bias_relu_and_max_pool_are_at_most_two_kernels);
    tcase_add_test(c, writes_to_parts_of_a_new_tensor_are_in_place);
    tcase_add_test(c, product_bias_and_relu_are_one_kernel);
    tcase_add_test(c, rows_of_softmax_and_layer_norm_are_one_kernel);
    tcase_add_test(c, cross_entropy_of_scores_is_one_kernel);
    tcase_add_test(c, a_thousand_small_results_share_launches);
    tcase_add_test(c, building_a_pass_over_ten_thousand_images_runs_nothing);
    tcase_add_test(c, steps_in_a_loop_leave_nothing_behind);
    tcase_add_test(c, a_hundred_learning_rates_cause_at_most_two_compilations);
    tcase_add_test(c, planned_bytes_stay_near_the_peak_of_live_bytes);
    tcase_add_test(c, a_single_long_row_of_softmax_is_one_kernel);
    tcase_add_test(c, adam_over_six_parameters_is_at_most_two_kernels);
    tcase_add_test(c, gradient_of_an_embedding_touches_the_table_only_to_fill_it);
    suite_add_tcase(s, c);
    return s;
}
