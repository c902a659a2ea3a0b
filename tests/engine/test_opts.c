/* SPDX-License-Identifier: MIT */
/*
 * Which opts kernels get, read from the log, and that they change no value: each result is compared with that of
 * plain loops.
 */
#include "../test.h"
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

static char lines[1 << 16];
static size_t used;

static void catch_opts(void *user, tn_log_level level, const char *msg)
{
    (void)user, (void)level;
    if (!strstr(msg, ": opts: ")) return;
    used += (size_t)snprintf(lines + used, sizeof lines - used, "%s\n", msg);
    if (used >= sizeof lines) used = sizeof lines - 1;
}

/* The lists of y's kernels; the same graph must not have run before. */
static const char *opts_of(tn_tensor *y)
{
    used = 0;
    lines[0] = 0;
    tn_set_log(catch_opts, NULL);
    {
        TN_WITH(TN_DEBUG, 3);
        ck_assert_msg(tn_realize(y), "%s", tn_last_error()->msg);
    }
    tn_set_log(NULL, NULL);
    return lines;
}

static tn_tensor *random_of(const tn_shape *s)
{
    tn_tensor *t = tn_keep(tn_rand(s));
    ck_assert(tn_realize(t));
    return t;
}

static void release(tn_tensor **in, int n)
{
    for (int i = 0; i < n; i++) tn_free(in[i]);
}

static tn_tensor *conv(tn_tensor **in) { return tn_relu(tn_conv2d(in[0], in[1], .bias = in[2])); }
static tn_tensor *conv_padded(tn_tensor **in)
{
    return tn_relu(tn_conv2d(in[0], in[1], .bias = in[2], .padding = {1, 1}));
}
static tn_tensor *conv_pool(tn_tensor **in) { return tn_max_pool2d(conv(in)); }
static tn_tensor *matmul_bias(tn_tensor **in)
{
    return tn_relu(tn_add(tn_matmul(in[0], in[1]), in[2]));
}

/* Largest difference of y from the same of float64 by plain loops, relative to the largest element. */
static double apart(tn_tensor *(*build)(tn_tensor **in), tn_tensor **in)
{
    TN_SCOPE;
    tn_tensor *y = tn_contiguous(build(in)), *wide[3], *d;
    ck_assert(tn_realize(y));
    for (int i = 0; i < 3; i++) wide[i] = tn_cast(in[i], TN_F64);
    {
        TN_WITH(TN_NOOPT, 1);
        d = tn_contiguous(build(wide));
        ck_assert(tn_realize(d));
    }
    return tn_item(tn_max(tn_abs(tn_sub(y, d)))) / tn_item(tn_max(tn_abs(d)));
}

/* What rounding may do to a sum of so many products in float32, one after the other: a random walk. */
static double rounding(int64_t terms) { return 2 * sqrt((double)terms) * 0x1p-24; }

static tn_tensor *gradient_of(tn_tensor *y, tn_tensor *x)
{
    tn_tensor *g;
    ck_assert(tn_gradient(tn_sum(tn_mul(y, y)), IN(x), &g));
    return g;
}
static tn_tensor *conv_padded_pool(tn_tensor **in) { return tn_max_pool2d(conv_padded(in)); }
static tn_tensor *conv_input_gradient(tn_tensor **in) { return gradient_of(conv(in), in[0]); }
static tn_tensor *conv_weight_gradient(tn_tensor **in)
{
    return gradient_of(conv_padded(in), in[1]);
}

/* Sizes at which operands are staged privately, with a border, in memory and in panels; odd ones among them. */
START_TEST(staged_operands_give_what_plain_loops_give)
{
    TN_SCOPE;
    static const struct {
        const char *what;
        tn_tensor *(*build)(tn_tensor **in);
    } row[] = {{"conv", conv},
               {"padded", conv_padded},
               {"pooled", conv_pool},
               {"input gradient", conv_input_gradient},
               {"weight gradient", conv_weight_gradient}};
    tn_tensor *even[] = {random_of(SHAPE(16, 32, 12, 12)), random_of(SHAPE(64, 32, 3, 3)),
                         random_of(SHAPE(64))};
    tn_tensor *odd[] = {random_of(SHAPE(17, 13, 11, 13)), random_of(SHAPE(37, 13, 3, 5)),
                        random_of(SHAPE(37))};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        const double a = apart(row[i].build, even), b = apart(row[i].build, odd);
        ck_assert_msg(a < rounding(17 * 12 * 12) && b < rounding(17 * 12 * 12), "%s: %g, %g",
                      row[i].what, a, b);
    }
    release(even, 3);
    release(odd, 3);
    for (int side = 1; side <= 5; side++) { /* so small that register copies reach for the batch */
        tn_tensor *in[] = {random_of(SHAPE(32, 64, side, side)), random_of(SHAPE(64, 64, 3, 3)),
                           random_of(SHAPE(64))};
        ck_assert_double_lt(apart(conv_padded, in), 2e-6);
        if (side > 1) ck_assert_double_lt(apart(conv_padded_pool, in), 2e-6);
        release(in, 3);
    }
    for (int i = 0; i < 3; i++) {
        tn_tensor *in[] = {random_of(SHAPE(i == 1 ? 131 : 300, 517)),
                           random_of(SHAPE(517, i == 2 ? 256 : 259)),
                           random_of(SHAPE(i == 2 ? 256 : 259))};
        ck_assert_double_lt(apart(matmul_bias, in), 2e-6);
        release(in, 3);
    }
}
END_TEST

START_TEST(a_long_sum_with_few_results_is_made_in_blocks)
{
    TN_SCOPE;
    static const struct {
        int64_t batch, in, out, side;
        bool blocks;
    } row[] = {{63, 16, 33, 20, true},  /* 2.7 MB read for each of 144 filter elements */
               {64, 16, 32, 19, true},  /* the same with sizes that divide */
               {61, 16, 33, 20, false}, /* a batch that has no equal blocks */
               {64, 1, 32, 20, false},  /* read nine times only */
               {8, 16, 32, 20, false}}; /* it has room */
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        tn_tensor *in[] = {random_of(SHAPE(row[i].batch, row[i].in, row[i].side, row[i].side)),
                           random_of(SHAPE(row[i].out, row[i].in, 3, 3)),
                           random_of(SHAPE(row[i].out))};
        const char *list = opts_of(tn_contiguous(conv_weight_gradient(in)));
        ck_assert_msg((strstr(list, "PARTIAL") != NULL) == row[i].blocks, "%zu: %s", i, list);
        const int64_t terms = row[i].batch * row[i].side * row[i].side;
        ck_assert_double_lt(apart(conv_weight_gradient, in), rounding(terms));
        release(in, 3);
    }
}
END_TEST

static tn_tensor *tall(tn_tensor **in)
{
    return tn_mul(tn_matmul(tn_transpose(in[0], 0, 1), tn_relu(in[1])), in[2]);
}

/* The second operand is computed as it is read; the first sum has another epilogue than the whole. */
START_TEST(blocks_of_a_tall_product_leave_its_epilogue_to_the_second_sum)
{
    TN_SCOPE;
    tn_tensor *in[] = {random_of(SHAPE(30000, 112)), random_of(SHAPE(30000, 128)),
                       random_of(SHAPE(112, 128))};
    const char *list = opts_of(tall(in));
    ck_assert_msg(strstr(list, "PARTIAL") != NULL, "%s", list);
    ck_assert_double_lt(apart(tall, in), rounding(30000));
    release(in, 3);
}
END_TEST

Suite *suite_opts(void);
Suite *suite_opts(void)
{
    Suite *s = suite_create("opts");
    TCase *t = tcase_create("opts");
    tcase_add_checked_fixture(t, NULL, test_clean_end);
    tcase_set_timeout(t, 120);
    tcase_add_test(t, staged_operands_give_what_plain_loops_give);
    tcase_add_test(t, a_long_sum_with_few_results_is_made_in_blocks);
    tcase_add_test(t, blocks_of_a_tall_product_leave_its_epilogue_to_the_second_sum);
    suite_add_tcase(s, t);
    return s;
}
