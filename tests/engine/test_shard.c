/* SPDX-License-Identifier: MIT */
/*
 * Tensors on several devices: what two devices compute together is what one computes alone.  The oracle is the
 * same expression on one device, which other suites compare with golden values.
 */
#include "../test.h"
#include "base/base.h"
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define PAIR DEVICES("CPU:0", "CPU:1")

static float *read_all(tn_tensor *t)
{
    const size_t n = (size_t)tn_numel(t);
    float *v = malloc((n + 1) * sizeof *v);
    ck_assert_msg(tn_data(t, v, n * sizeof *v), "%s", tn_last_error() ? tn_last_error()->msg : "");
    return v;
}

/* Equal within eps of the larger magnitude; eps 0: bit for bit. */
static void close_to(const char *what, tn_tensor *got, tn_tensor *want, double eps)
{
    ck_assert_msg(!tn_bad(got) && tn_numel(got) == tn_numel(want), "%s: %s", what,
                  tn_last_error() ? tn_last_error()->msg : "another size");
    const int64_t n = tn_numel(want);
    float *a = read_all(got), *b = read_all(want);
    for (int64_t i = 0; i < n; i++) {
        const double d = fabs((double)a[i] - (double)b[i]), size = fmax(1, fabs((double)b[i]));
        const bool ok = eps > 0 ? d <= eps * size || (isnan(a[i]) && isnan(b[i]))
                                : !memcmp(&a[i], &b[i], sizeof *a);
        ck_assert_msg(ok, "%s: element %lld is %.9g, and %.9g on one device", what, (long long)i,
                      (double)a[i], (double)b[i]);
    }
    free(a);
    free(b);
}

static tn_tensor *numbers(const tn_shape *shape, uint64_t seed)
{
    tn_manual_seed(seed);
    tn_tensor *t = tn_sub((tn_rand)(shape, NULL), 0.5);
    tn_realize(t);
    return t;
}

START_TEST(values_come_back_as_they_were)
{
    TN_SCOPE;
    tn_tensor *x = numbers(SHAPE(4, 6, 2), 1);
    for (int axis = -1; axis < 3; axis++) {
        tn_tensor *s = tn_shard(x, PAIR, axis);
        close_to("shard", s, x, 0);
        close_to("to CPU:0", tn_to(s, "CPU:0"), x, 0);
        close_to("to CPU:1", tn_to(s, "CPU:1"), x, 0);
        close_to("again", tn_shard(tn_shard(x, PAIR, axis), PAIR, axis < 1 ? 1 : -1), x, 0);
        char *a = tn_repr(s), *b = tn_repr(x);
        ck_assert_str_eq(a, b);
        tn_text_free(a);
        tn_text_free(b);
        ck_assert(tn_item(tn_sum(tn_mul(tn_shard(tn_full(SHAPE(2, 2, 2), 1), PAIR, axis), 3))) ==
                  24);
    }
    ck_assert_str_eq(tn_device(tn_to(tn_shard(x, PAIR, 0), "CPU:1")), "CPU:1");
    test_clean_end();
}
END_TEST

/* ---- expressions of x (8, 6) and w (6, 8), w a copy on each device ---- */

typedef tn_tensor *expression(tn_tensor *x, tn_tensor *w);
#define EXPR(name, e)                                  \
    static tn_tensor *name(tn_tensor *x, tn_tensor *w) \
    {                                                  \
        (void)w;                                       \
        return e;                                      \
    }
EXPR(elementwise, tn_add(tn_mul(tn_relu(x), 3), tn_exp(x)))
EXPR(with_copy, tn_mul(x, tn_transpose(w)))
EXPR(with_range, tn_mul(x, tn_arange(6)))
EXPR(with_column, tn_add(x, tn_reshape(tn_arange(8), SHAPE(8, 1))))
EXPR(sum_all, tn_sum(x))
EXPR(sum_rows, tn_sum(x, AX(0)))
EXPR(sum_columns, tn_sum(x, AX(1)))
EXPR(mean_all, tn_mean(tn_mul(x, x)))
EXPR(max_all, tn_max(x))
EXPR(max_rows, tn_max(x, AX(0)))
EXPR(soft, tn_softmax(x))
EXPR(centred, tn_sub(x, tn_mean(x)))
EXPR(product, tn_matmul(x, w))
EXPR(other_product, tn_matmul(w, x))
EXPR(gram, tn_matmul(tn_transpose(x), x))
EXPR(turned, tn_add(tn_transpose(x), w))
EXPR(reshaped, tn_mul(tn_reshape(x, SHAPE(2, 4, 6)), 2))
EXPR(flattened, tn_mul(tn_reshape(x, SHAPE(48)), 2))
EXPR(flipped, tn_mul(tn_flip(x, AX(0, 1)), 2))
EXPR(middle, tn_mul(tn_index(x, TN_SLICE(1, 7), TN_SLICE(2, 6)), 2))
EXPR(running, tn_cumsum(x, 0))
EXPR(running_columns, tn_cumsum(x, 1))
EXPR(joined, tn_cat(IN(x, tn_transpose(w), x), 0))
EXPR(stored, tn_sum(tn_mul(tn_contiguous(tn_mul(x, 2)), x)))

START_TEST(expressions_give_what_one_device_gives)
{
    static const struct {
        const char *name;
        expression *f;
    } row[] = {{"elementwise", elementwise},
               {"with a copy", with_copy},
               {"with a range", with_range},
               {"with a column", with_column},
               {"sum", sum_all},
               {"sum of rows", sum_rows},
               {"sum of columns", sum_columns},
               {"mean", mean_all},
               {"max", max_all},
               {"max of rows", max_rows},
               {"softmax", soft},
               {"centred", centred},
               {"matmul", product},
               {"matmul on the right", other_product},
               {"gram", gram},
               {"transpose", turned},
               {"reshape", reshaped},
               {"flatten", flattened},
               {"flip", flipped},
               {"shrink", middle},
               {"cumsum", running},
               {"cumsum of columns", running_columns},
               {"cat", joined},
               {"contiguous", stored}};
    TN_SCOPE;
    tn_tensor *x = numbers(SHAPE(8, 6), 2), *w = numbers(SHAPE(6, 8), 3),
              *both = tn_shard(w, PAIR, -1);
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tn_tensor *want = row[i].f(x, w);
        for (int axis = -1; axis < 2; axis++) {
            tn_tensor *got = row[i].f(tn_shard(x, PAIR, axis), both);
            close_to(row[i].name, got, want, 1e-5);
        }
    }
    test_clean_end();
}
END_TEST

START_TEST(a_result_and_its_reshape_are_both_right)
{
    TN_SCOPE;
    tn_tensor *x = numbers(SHAPE(8, 6), 2);
    for (int axis = -1; axis < 2; axis++) {
        tn_tensor *y = tn_mul(tn_shard(x, PAIR, axis), 2), *r = tn_reshape(y, SHAPE(1, 8, 6, 1)),
                  *twin = tn_to(y, "CPU:0");
        tn_keep(y);
        ck_assert(tn_realize_all(IN(y, r, twin)));
        close_to("reshape", tn_mul(r, 1), tn_mul(x, 2), 0);
        close_to("itself", tn_mul(y, 1), tn_mul(x, 2), 0);
        close_to("twin", tn_mul(twin, 1), tn_mul(x, 2), 0);
        tn_free(y);
    }
    test_clean_end();
}
END_TEST

START_TEST(random_numbers_do_not_depend_on_devices)
{
    TN_SCOPE;
    tn_tensor *x = numbers(SHAPE(8, 6), 4);
    for (int axis = -1; axis < 2; axis++) {
        tn_manual_seed(7);
        tn_tensor *want = tn_add(x, tn_randn(SHAPE(8, 6)));
        tn_realize(want);
        tn_manual_seed(7);
        close_to("randn", tn_add(tn_shard(x, PAIR, axis), tn_randn(SHAPE(8, 6))), want, 0);
    }
    test_clean_end();
}
END_TEST

START_TEST(rows_of_a_split_table_are_looked_up_exactly)
{
    TN_SCOPE;
    const int32_t pick[] = {7, 0, 4, 3, 3, -1, 5, 2};
    float v[48];
    for (int i = 0; i < 48; i++) v[i] = i % 5 == 0 ? -0.0f : i % 7 == 0 ? NAN : (float)i;
    tn_tensor *x = tn_from_data(v, SHAPE(8, 6)),
              *at = tn_from_data(pick, SHAPE(8), .dtype = TN_I32);
    tn_tensor *want = tn_index(x, at), *s = tn_shard(x, PAIR, 0);
    for (int axis = -1; axis < 1; axis++)
        close_to("rows", tn_index(s, tn_shard(at, PAIR, axis)), want, 0);
    tn_tensor *some = tn_index(at, TN_SLICE(0, 7)); /* does not split: all on each device */
    close_to("seven rows", tn_index(s, tn_shard(some, PAIR, -1)), tn_index(x, some), 0);
    tn_manual_seed(5);
    tn_tensor *drawn = tn_index(x, tn_randint(SHAPE(4), .high = 8));
    tn_realize(drawn);
    tn_manual_seed(5);
    close_to("drawn rows", tn_index(s, tn_randint(SHAPE(4), .high = 8)), drawn, 0);
    test_clean_end();
}
END_TEST

START_TEST(writes_reach_all_parts)
{
    TN_SCOPE;
    tn_tensor *v = numbers(SHAPE(4, 3), 6);
    for (int axis = -1; axis < 2; axis++) {
        tn_tensor *x = tn_contiguous(tn_mul(numbers(SHAPE(8, 6), 2), 1)),
                  *s = tn_shard(x, PAIR, axis);
        tn_tensor *value = tn_shard(v, PAIR, -1);
        tn_assign(tn_index(x, TN_SLICE(2, 6), TN_SLICE(0, 3)), v);
        tn_assign(tn_index(s, TN_SLICE(2, 6), TN_SLICE(0, 3)), value);
        close_to("a window", s, x, 0);
        tn_assign(x, tn_add(x, 1));
        tn_assign(s, tn_add(s, 1));
        close_to("the whole", s, x, 0);
    }
    test_clean_end();
}
END_TEST

/* ---- a small network ---- */

typedef struct {
    tn_nn_conv2d conv;
    tn_nn_linear out;
} net;

static void net_visit(tn_visitor *v, void *obj)
{
    net *m = obj;
    tn_field(v, m, conv);
    tn_field(v, m, out);
}

typedef struct {
    net m;
    tn_optim *opt;
    tn_tensor *x, *y;
} app;

static tn_tensor *forward(net *m, tn_tensor *x)
{
    x = tn_max_pool2d(tn_relu(tn_call(&m->conv, x)), .kernel = {2, 2});
    return tn_call(&m->out, tn_dropout(tn_flatten(x, .start = 1), 0.25));
}

static void app_make(app *a, const tn_devices *devices)
{
    tn_manual_seed(11);
    tn_nn_conv2d_init(&a->m.conv, 1, 4, 3);
    tn_nn_linear_init(&a->m.out, 4 * 5 * 5, 10);
    a->x = tn_keep(tn_contiguous(tn_rand(SHAPE(64, 1, 12, 12))));
    a->y = tn_keep(tn_contiguous(tn_randint(SHAPE(64), .high = 10)));
    tn_realize_all(
        IN(a->x, a->y, a->m.conv.weight, a->m.conv.bias, a->m.out.weight, a->m.out.bias));
    if (devices) {
        tn_tensor *x = tn_keep(tn_shard(a->x, devices, 0)),
                  *y = tn_keep(tn_shard(a->y, devices, 0));
        tn_free(a->x);
        tn_free(a->y);
        a->x = x;
        a->y = y;
        tn_realize_all(IN(x, y));
        tn_state_replicate(&a->m, net_visit, devices);
    }
    a->opt = tn_adam_new(&a->m, net_visit, .lr = 1e-2);
    test_clean_end();
}

static void app_end(app *a)
{
    tn_optim_free(a->opt);
    tn_state_free(&a->m, net_visit);
    tn_free(a->x);
    tn_free(a->y);
}

static tn_tensor *loss_of(app *a, tn_tensor *x, tn_tensor *y)
{
    tn_tensor *pick = tn_randint(SHAPE(16), .high = tn_dim(x, 0));
    return tn_sparse_categorical_crossentropy(forward(&a->m, tn_index(x, pick)), tn_index(y, pick));
}

static tn_tensor *step(void *user, const tn_inputs *in)
{
    app *a = user;
    TN_WITH(TN_TRAINING, 1);
    tn_optim_zero_grad(a->opt);
    tn_tensor *loss = tn_backward(loss_of(a, in->t[0], in->t[1]));
    tn_optim_step(a->opt);
    return loss;
}

START_TEST(gradients_of_copies_are_those_of_one_device_and_equal_bit_for_bit)
{
    TN_SCOPE;
    app one = {0}, two = {0};
    app_make(&one, NULL);
    app_make(&two, PAIR);
    TN_WITH(TN_TRAINING, 1);
    tn_manual_seed(21);
    tn_backward(loss_of(&one, one.x, one.y));
    tn_manual_seed(21);
    tn_backward(loss_of(&two, two.x, two.y));
    tn_tensor *a[] = {one.m.conv.weight, one.m.conv.bias, one.m.out.weight, one.m.out.bias};
    tn_tensor *b[] = {two.m.conv.weight, two.m.conv.bias, two.m.out.weight, two.m.out.bias};
    for (int i = 0; i < 4; i++) {
        tn_tensor *g = tn_grad(b[i]);
        close_to("gradient", g, tn_grad(a[i]), 1e-5);
        close_to("copies", tn_to(g, "CPU:1"), tn_to(g, "CPU:0"), 0);
    }
    app_end(&one);
    app_end(&two);
    test_clean_end();
}
END_TEST

enum { STEPS = 20 };

/* Losses of some steps; replays, where asked for. */
static void train(const tn_devices *devices, bool jit, float *loss)
{
    app a = {0};
    TN_SCOPE;
    app_make(&a, devices);
    tn_jit *j = jit ? tn_jit_new(step, &a) : NULL;
    tn_manual_seed(31);
    for (int i = 0; i < STEPS; i++) {
        TN_SCOPE;
        loss[i] = (float)tn_item(jit ? tn_jit_call(j, IN(a.x, a.y)) : step(&a, IN(a.x, a.y)));
        test_clean_end();
    }
    if (devices)
        close_to("copies of a weight", tn_to(a.m.out.weight, "CPU:1"),
                 tn_to(a.m.out.weight, "CPU:0"), 0);
    tn_jit_free(j);
    app_end(&a);
}

START_TEST(training_on_two_devices_follows_training_on_one)
{
    float one[STEPS], two[STEPS], replayed[STEPS];
    train(NULL, false, one);
    train(PAIR, false, two);
    train(PAIR, true, replayed);
    for (int i = 0; i < STEPS; i++) {
        ck_assert_msg(fabsf(two[i] - one[i]) <= 1e-4f * one[i], "step %d: %.7g, not %.7g", i,
                      (double)two[i], (double)one[i]);
        ck_assert_msg(replayed[i] == two[i], "step %d: %.9g by the jit, not %.9g", i,
                      (double)replayed[i], (double)two[i]);
    }
    ck_assert_msg(one[STEPS - 1] < one[0], "it does not learn: %g then %g", (double)one[0],
                  (double)one[STEPS - 1]);
}
END_TEST

START_TEST(replays_on_two_devices_do_not_grow)
{
    app a = {0};
    TN_SCOPE;
    app_make(&a, PAIR);
    tn_jit *j = tn_jit_new(step, &a);
    tn_counters c[2] = {{.size = sizeof *c}, {.size = sizeof *c}};
    for (int i = 0; i < 40; i++) {
        TN_SCOPE;
        tn_realize(tn_jit_call(j, IN(a.x, a.y)));
        if (i == 5) tn_counters_get(&c[0]);
    }
    tn_counters_get(&c[1]);
    ck_assert_uint_eq(c[1].host_bytes, c[0].host_bytes);
    ck_assert_uint_eq(c[1].nodes, c[0].nodes);
    ck_assert_uint_eq(c[1].schedules, c[0].schedules);
    tn_jit_free(j);
    app_end(&a);
    test_clean_end();
}
END_TEST

START_TEST(every_allocation_may_fail)
{
    float v[48];
    for (int i = 0; i < 48; i++) v[i] = (float)i;
    for (uint64_t n = 1;; n++) {
        TN_SCOPE;
        tn_tensor *x = tn_from_data(v, SHAPE(8, 6)), *s = tn_shard(x, PAIR, 0);
        tn_tensor *y = tn_sum(tn_mul(tn_matmul(tn_transpose(s), s),
                                     (double)n)); /* another constant: another plan, twice */
        test_clean_end();
        const uint64_t start = tn__alloc_count();
        tn__alloc_fail_at(n);
        const bool ok = tn_realize(y);
        tn__alloc_fail_at(0);
        const uint64_t count = tn__alloc_count() - start;
        ck_assert_int_eq(ok, tn_ok());
        if (!ok) ck_assert_int_eq(tn_last_error()->code, TN_ENOMEM);
        tn_clear_error();
        ck_assert_msg(tn_item(y) == 213480.0 * (double)n, "%g", tn_item(y));
        test_clean_end();
        if (ok && count < n) return;
    }
}
END_TEST

START_TEST(what_cannot_be_split_is_an_error_with_text)
{
    TN_SCOPE;
    tn_tensor *x = numbers(SHAPE(5, 6), 1);
    ck_assert(tn_bad(tn_shard(x, PAIR, 0)));
    test_fails(
        TN_ESHAPE,
        "shard: axis 0 of (5, 6) over 2 devices: 5 does not divide evenly: pad or cut it first");
    ck_assert(tn_bad(tn_shard(x, PAIR, 2)));
    test_fails(TN_EAXIS,
               "shard: axis 2 of (5, 6): axes are 0 to 1, or -1 for a copy on each device");
    ck_assert(tn_bad(tn_shard(x, PAIR, -2)));
    test_fails(TN_EAXIS, "axis -2: -1 puts a copy on each device");
    ck_assert(tn_bad(tn_shard(x, DEVICES("CPU:0", "CPU:0"), -1)));
    test_fails(TN_EVALUE, "CPU:0 is named twice: name each device once");
    ck_assert(tn_bad(tn_shard(x, DEVICES("CPU:0", "NOSUCH"), -1)));
    test_fails(TN_EDEVICE, "NOSUCH");
    ck_assert(tn_bad(tn_shard(x, NULL, -1)));
    test_fails(TN_EVALUE, "shard: 0 devices: takes 1 to 16");
    ck_assert(tn_bad(tn_add(tn_shard(x, PAIR, 1), tn_to(x, "CPU:1"))));
    test_fails(TN_EDEVICE, "add: the operands are on");
    close_to("one device", tn_shard(x, DEVICES("CPU:1"), 1), x, 0);
    test_clean_end();
}
END_TEST

Suite *suite_shard(void)
{
    Suite *s = suite_create("shard");
    TCase *t = tcase_create("shard");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, values_come_back_as_they_were);
    tcase_add_test(t, expressions_give_what_one_device_gives);
    tcase_add_test(t, a_result_and_its_reshape_are_both_right);
    tcase_add_test(t, random_numbers_do_not_depend_on_devices);
    tcase_add_test(t, rows_of_a_split_table_are_looked_up_exactly);
    tcase_add_test(t, writes_reach_all_parts);
    tcase_add_test(t, gradients_of_copies_are_those_of_one_device_and_equal_bit_for_bit);
    tcase_add_test(t, training_on_two_devices_follows_training_on_one);
    tcase_add_test(t, replays_on_two_devices_do_not_grow);
    tcase_add_test(t, every_allocation_may_fail);
    tcase_add_test(t, what_cannot_be_split_is_an_error_with_text);
    suite_add_tcase(s, t);
    return s;
}
