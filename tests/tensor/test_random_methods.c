/* SPDX-License-Identifier: MIT */
/* Methods without golden values: random tensors by their ranges, moments and seeds; sizes; scalars; errors' texts. */
#include "../test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { N = 20000 };
static double got[N];

/* Elements as doubles. */
static void read(tn_tensor *t, double *out, int n)
{
    TN_SCOPE;
    ck_assert_msg(tn_data(tn_double(t), out, (size_t)n * sizeof *out), "%s",
                  tn_last_error() ? tn_last_error()->msg : "?");
}

/* Mean and deviation within five standard errors, and the range. */
static void moments(tn_tensor *t, double lo, double hi, double mean, double std)
{
    double s = 0, q = 0;
    ck_assert_int_eq(tn_numel(t), N);
    read(t, got, N);
    for (int i = 0; i < N; i++) {
        test_that(got[i] >= lo && got[i] <= hi);
        s += got[i];
        q += got[i] * got[i];
    }
    s /= N;
    q = sqrt(q / N - s * s);
    ck_assert_msg(fabs(s - mean) < 5 * std / sqrt((double)N), "mean %g, not %g", s, mean);
    ck_assert_msg(fabs(q - std) < 0.05 * std, "deviation %g, not %g", q, std);
}

static void fails(tn_tensor *t, tn_code code, const char *text)
{
    ck_assert_msg(tn_bad(t), "no error where one must say \"%s\"", text);
    const tn_error *e = tn_last_error();
    ck_assert_ptr_nonnull(e);
    ck_assert_msg(e->code == code && strstr(e->msg, text), "%s: \"%s\", not \"%s\"",
                  tn_code_name(e->code), e->msg, text);
    ck_assert_msg(strstr(e->file, "test_random_methods.c") != NULL, "no place: \"%s\"", e->file);
    tn_clear_error();
}

START_TEST(random_tensors_have_the_moments_of_their_distribution)
{
    TN_SCOPE;
    tn_manual_seed(5);
    moments(tn_rand(SHAPE(N)), 0, 1 - 1e-9, 0.5, 1 / sqrt(12));
    moments(tn_rand(SHAPE(N), .dtype = TN_F64), 0, 1 - 1e-12, 0.5, 1 / sqrt(12));
    moments(tn_rand(SHAPE(N / 2, 2), .dtype = TN_F16), 0, 1 - 1e-4, 0.5, 1 / sqrt(12));
    moments(tn_randn(SHAPE(N)), -7, 7, 0, 1);
    moments(tn_normal(SHAPE(N), .mean = 3, .std = 2), -11, 17, 3, 2);
    moments(tn_uniform(SHAPE(N), .low = -2, .high = 4), -2, 4, 1, 6 / sqrt(12));
    moments(tn_randint(SHAPE(N)), 0, 9, 4.5, sqrt(99 / 12.0));
    moments(tn_randint(SHAPE(N), .low = -3, .high = 4, .dtype = TN_I8), -3, 3, 0, 2);
    moments(tn_rand_like(tn_zeros(SHAPE(N))), 0, 1, 0.5, 1 / sqrt(12));
    moments(tn_randn_like(tn_zeros(SHAPE(N))), -7, 7, 0, 1);
    moments(tn_cast(tn_random_bits(SHAPE(N)), TN_F64), 0, 4294967295.0, 2147483647.5,
            4294967296.0 / sqrt(12));
}
END_TEST

START_TEST(initial_weights_lie_within_the_bounds_of_their_papers)
{
    TN_SCOPE;
    double b = sqrt(3) * sqrt(2 / (1 + 1e-4)) / sqrt(200.0);
    moments(tn_kaiming_uniform(SHAPE(100, 200)), -b, b, 0, b / sqrt(3));
    moments(tn_kaiming_normal(SHAPE(100, 20, 10)), -1, 1, 0, b / sqrt(3));
    b = sqrt(6.0 / 300);
    moments(tn_glorot_uniform(SHAPE(100, 200)), -b, b, 0, b / sqrt(3));
    b = 1 / sqrt((double)N);
    moments(tn_scaled_uniform(SHAPE(100, 200)), -b, b, 0, b / sqrt(3));
}
END_TEST

START_TEST(one_seed_gives_one_sequence_and_two_calls_differ)
{
    TN_SCOPE;
    double a[64], b[64], c[64];
    tn_manual_seed(9);
    tn_tensor *x = tn_rand(SHAPE(64)), *y = tn_rand(SHAPE(64));
    read(y, b, 64); /* out of order: the numbers belong to the call */
    read(x, a, 64);
    ck_assert(memcmp(a, b, sizeof a) != 0);
    tn_manual_seed(9);
    read(tn_rand(SHAPE(64)), c, 64);
    ck_assert(memcmp(a, c, sizeof a) == 0);
    tn_manual_seed(10);
    read(tn_rand(SHAPE(64)), c, 64);
    ck_assert(memcmp(a, c, sizeof a) != 0);
}
END_TEST

START_TEST(dropout_keeps_and_scales_under_training_only)
{
    TN_SCOPE;
    tn_tensor *x = tn_ones(SHAPE(N));
    moments(tn_add(tn_dropout(x), tn_mul(tn_sub(tn_rand(SHAPE(N)), 0.5), 1e-3)), 0.9, 1.1, 1,
            1e-3 / sqrt(12));
    TN_WITH(TN_TRAINING, 1);
    moments(tn_dropout(x, 0.25), 0, 4 / 3.0 + 1e-6, 1, sqrt(1 / 3.0));
    read(tn_dropout(x, 1.0), got, N);
    for (int i = 0; i < N; i++) test_that(got[i] == 0);
    fails(tn_dropout(x, 1.5), TN_EVALUE, "dropout: probability 1.5: must be in 0..1");
}
END_TEST

START_TEST(multinomial_draws_by_weight)
{
    TN_SCOPE;
    float w[4] = {1, 0, 2, 1};
    tn_tensor *x = tn_from_data(w, SHAPE(4), .dtype = TN_F32);
    int n[4] = {0};
    read(tn_multinomial(x, N, .replacement = true), got, N);
    for (int i = 0; i < N; i++) n[(int)got[i]]++;
    ck_assert_int_eq(n[1], 0);
    ck_assert(abs(n[2] - N / 2) < 500 && abs(n[0] - N / 4) < 500);
    fails(tn_multinomial(x, 5), TN_EVALUE, "multinomial: 5 samples of weights (4)");
}
END_TEST

START_TEST(scalars_take_the_dtype_of_the_tensor)
{
    TN_SCOPE;
    tn_tensor *i8 = tn_zeros(SHAPE(3), .dtype = TN_I8), *f16 = tn_zeros(SHAPE(3), .dtype = TN_F16),
              *b = tn_zeros(SHAPE(3), .dtype = TN_BOOL);
    ck_assert_int_eq(tn_dtype_of(tn_add(i8, 1)), TN_I8);
    ck_assert_int_eq(tn_dtype_of(tn_add(1, i8)), TN_I8);
    ck_assert_int_eq(tn_dtype_of(tn_add(i8, 1.5)), TN_F32);
    ck_assert_int_eq(tn_dtype_of(tn_mul(i8, true)), TN_I8);
    ck_assert_int_eq(tn_dtype_of(tn_mul(f16, 2.5)), TN_F16);
    ck_assert_int_eq(tn_dtype_of(tn_add(b, 1)), TN_I32);
    ck_assert_int_eq(tn_dtype_of(tn_div(i8, 2)), TN_F32);
    ck_assert_int_eq(tn_dtype_of(tn_div(i8, 2, .rounding = TN_DIV_FLOOR)), TN_I8);
    ck_assert_int_eq(tn_dtype_of(tn_where(b, 1, 0)), TN_I32);
    ck_assert_int_eq(tn_dtype_of(tn_full(SHAPE(2), 3)), TN_I32);
    ck_assert_int_eq(tn_dtype_of(tn_arange(3)), TN_I32);
    ck_assert_int_eq(tn_dtype_of(tn_arange(0, 3, 0.5)), TN_F32);
    double v[3];
    read(tn_sub(1, tn_index(tn_arange(5), TN_SLICE(1, 4))), v, 3);
    ck_assert(v[0] == 0 && v[1] == -1 && v[2] == -2);
}
END_TEST

START_TEST(sizes_are_answered)
{
    TN_SCOPE;
    tn_tensor *x = tn_zeros(SHAPE(3, 5), .dtype = TN_F64);
    ck_assert_int_eq(tn_nbytes(x), 120);
    ck_assert_int_eq(tn_element_size(x), 8);
    ck_assert(tn_is_floating_point(x));
    ck_assert(!tn_is_floating_point(tn_arange(3)));
    ck_assert_int_eq(tn_nbytes(tn_zeros(SHAPE(0), .dtype = TN_I16)), 0);
}
END_TEST

START_TEST(wrong_shapes_say_what_is_wrong)
{
    TN_SCOPE;
    tn_tensor *a = tn_zeros(SHAPE(8, 64)), *b = tn_zeros(SHAPE(32, 8)), *i = tn_arange(3),
              *s = tn_zeros(SHAPE0);
    fails(tn_matmul(a, b), TN_ESHAPE, "matmul: inner dims 64 and 32 differ: (8, 64) @ (32, 8)");
    fails(tn_matmul(a, s), TN_ESHAPE, "matmul: (8, 64) @ (): both need at least one axis");
    fails(tn_matmul(tn_zeros(SHAPE(2, 3, 4)), tn_zeros(SHAPE(5, 4, 3))), TN_ESHAPE,
          "batch axes differ");
    fails(tn_add(a, b), TN_ESHAPE,
          "add: shapes (8, 64) and (32, 8) do not broadcast: axis -2 has sizes 8 and 32");
    fails(tn_sum(a, AX(2)), TN_EAXIS, "sum: axis 2 of (8, 64): must be in -2..1");
    fails(tn_sum(a, AX(0, -2)), TN_EAXIS, "sum: axis -2 of (8, 64) is named twice");
    fails(tn_sum(a, NULL), TN_ENULL, "sum: the axes are NULL");
    fails(tn_argmax(a, AX(0, 1)), TN_EAXIS, "argmax: several axes of (8, 64)");
    fails(tn_max(tn_zeros(SHAPE(0, 3)), AX(0)), TN_ESHAPE, "max: (0, 3) has no elements");
    fails(tn_softmax(a, AX(1), .dtype = TN_I32), TN_EDTYPE, "softmax: dtype int32");
    fails(tn_reshape(a, SHAPE(3, -1)), TN_ESHAPE,
          "reshape: (8, 64) has 512 elements, which do not fit (3, -1)");
    fails(tn_expand(a, SHAPE(8, 63)), TN_ESHAPE, "expand: (8, 64) does not broadcast to (8, 63)");
    fails(tn_permute(a, AX(0)), TN_EAXIS, "permute: 1 axes for (8, 64)");
    fails(tn_permute(a, ALL), TN_ENULL, "permute: no order");
    fails(tn_shrink(a, SHAPE(0, 9, 0, 1)), TN_EINDEX, "shrink: 0 to 9 of axis 0 of (8, 64)");
    fails(tn_shrink(a, SHAPE(0, 9)), TN_ESHAPE, "shrink: 2 numbers for (8, 64)");
    fails(tn_shrink_to(a, SHAPE(9, 9)), TN_ESHAPE, "shrink_to: (8, 64) to (9, 9)");
    fails(tn_pad_to(a, SHAPE(7, 64)), TN_ESHAPE, "pad_to: (8, 64) to (7, 64)");
    fails(tn_pad(a, SHAPE(1)), TN_ESHAPE, "pad: 1 numbers for (8, 64)");
    fails(tn_pad(a, SHAPE(-65, 0)), TN_EVALUE, "cut more than axis 1");
    fails(tn_pad(i, SHAPE(3, 0), .mode = TN_PAD_REFLECT), TN_EVALUE,
          "pad: 3 before and 0 after axis 0 of (3)");
    fails(tn_unsqueeze(a, 4), TN_EAXIS, "unsqueeze: axis 4 of (8, 64)");
    fails(tn_flatten(a, .start = 1, .end = -2), TN_EAXIS, "flatten: from axis 1 to 0");
    fails(tn_unflatten(a, 0, SHAPE(3, 3)), TN_ESHAPE, "unflatten: axis 0 of (8, 64) into (3, 3)");
    fails(tn_diagonal(i), TN_EAXIS, "diagonal: axis 1 of (3)");
    fails(tn_diagonal(a, 0, 1, 1), TN_EAXIS, "diagonal: axes 1 and 1");
    fails(tn_unfold(i, 0, 4, 1), TN_EVALUE, "unfold: size 4 and step 1 along axis 0 of (3)");
    fails(tn_cat(IN(a, b)), TN_ESHAPE, "cat: (8, 64) and (32, 8) along axis 0");
    fails(tn_cat(IN(s, s)), TN_ESHAPE, "cat: rank 0");
    fails(tn_repeat(a, SHAPE(2)), TN_ESHAPE, "repeat: 1 numbers for (8, 64)");
    fails(tn_repeat(a, SHAPE(2, -1)), TN_EVALUE, "repeat: -1 times");
    fails(tn_repeat_interleave(a, -1, 0), TN_EVALUE, "repeat_interleave: -1 times");
    fails(tn_roll(a, SHAPE(1, 2), AX(0)), TN_EVALUE, "roll: 2 shifts and 1 axes");
    fails(tn_tril(i), TN_ESHAPE, "tril: (3): takes at least two axes");
    fails(tn_diag(tn_zeros(SHAPE(2, 2, 2))), TN_ESHAPE, "diag: (2, 2, 2)");
    fails(tn_topk(i, 4, 0), TN_EVALUE, "topk: 4 of axis 0 of (3)");
    fails(tn_clamp(a, NULL, NULL), TN_EVALUE, "clamp: neither min nor max is given");
    fails(tn_zeros(SHAPE(2, -1)), TN_ESHAPE,
          "zeros: size -1 of axis 1 in (2, -1): sizes are not negative");
    fails(tn_arange(0, 1, 0), TN_EVALUE, "arange: from 0 to 1 by 0");
    fails(tn_arange(0.0, 1.5, 0.0), TN_EVALUE,
          "arange: from 0 to 1.5 by 0: the step must not be 0");
    fails(tn_arange(0.0, 1e30), TN_EVALUE, "arange: from 0 to 1e+30 by 1: the step must not be 0");
    fails(tn_linspace(0, 1, -1), TN_EVALUE, "linspace: -1 steps");
    fails(tn_randint(SHAPE(2), .low = 5, .high = 5), TN_EVALUE,
          "randint: from 5 to below 5 as int32");
    fails(tn_randperm(-1), TN_EVALUE, "randperm: -1");
    fails(tn_where(NULL, 1, 2), TN_ENULL, "NULL where one is needed");
}
END_TEST

START_TEST(wrong_dtypes_say_what_is_wrong)
{
    TN_SCOPE;
    tn_tensor *f = tn_zeros(SHAPE(3)), *i = tn_arange(3), *b = tn_eq(i, 1);
    fails(tn_bitwise_and(f, i), TN_EDTYPE, "bitwise_and: float32: works on bits");
    fails(tn_bitwise_not(f), TN_EDTYPE, "bitwise_not: float32");
    fails(tn_lshift(f, 1), TN_EDTYPE, "lshift: float32");
    fails(tn_one_hot(f, 3), TN_EDTYPE, "one_hot: float32");
    fails(tn_one_hot(i, -1), TN_EVALUE, "one_hot: -1 classes");
    fails(tn_pow(i, -2), TN_EVALUE, "pow: int32 to the power -2");
    fails(tn_rand(SHAPE(2), .dtype = TN_I32), TN_EDTYPE, "rand: int32: takes float dtypes");
    fails(tn_randint(SHAPE(2), .high = 3, .dtype = TN_F32), TN_EDTYPE, "randint: float32");
    fails(tn_index(i, b), TN_EDTYPE, "index: a tensor of bool");
    fails(tn_index(i, f), TN_EDTYPE, "index: a tensor of float32");
    fails(tn_threefry(i, i), TN_EDTYPE, "threefry: int32");
    fails(tn_arange(0, 3, 1, .dtype = TN_BOOL), TN_EDTYPE, "arange: bool");
    fails(tn_bitcast(tn_zeros(SHAPE0), TN_F64), TN_ESHAPE, "bitcast: float32 to float64: rank 0");
    fails(tn_bitcast(f, TN_F64), TN_ESHAPE,
          "bitcast: (3) of float32 to float64: the last axis must be a multiple of 2");
    fails(tn_arange(f), TN_EVALUE, "arange: a tensor");
}
END_TEST

START_TEST(wrong_indices_and_windows_say_what_is_wrong)
{
    TN_SCOPE;
    tn_tensor *a = tn_zeros(SHAPE(2, 3)), *x = tn_zeros(SHAPE(1, 3, 5, 5)),
              *w = tn_zeros(SHAPE(4, 3, 3, 3)), *i = tn_arange(2);
    tn_tensor *out[2];
    fails(tn_index(a, 2), TN_EINDEX, "index: 2 along axis 0 of (2, 3): must be in -2..1");
    fails(tn_index(a, 0, 0, 0), TN_EINDEX, "index: 3 indices for (2, 3)");
    fails(tn_index(a, TN_DOTS, TN_DOTS), TN_EINDEX, "index: 2 ellipses");
    fails(tn_gather(a, 0, i), TN_ESHAPE, "gather: indices (2) for (2, 3) along axis 0");
    fails(tn_scatter(a, 0, tn_zeros_like(tn_int(a)), i), TN_ESHAPE,
          "scatter: (2) for indices (2, 3)");
    fails(tn_masked_select(a, tn_eq(a, 0), -1), TN_EVALUE, "masked_select: size -1");
    fails(tn_nonzero(a, -1), TN_EVALUE, "nonzero: size -1");
    fails(tn_conv2d(x, tn_zeros(SHAPE(4, 2, 3, 3))), TN_ESHAPE,
          "conv2d: 3 channels, weight (4, 2, 3, 3) and 1 groups do not fit");
    fails(tn_conv2d(a, w), TN_ESHAPE, "conv2d: input (2, 3) and weight (4, 3, 3, 3)");
    fails(tn_conv2d(x, tn_zeros(SHAPE(4, 3))), TN_ESHAPE,
          "conv2d: input (1, 3, 5, 5) and weight (4, 3)");
    fails(tn_conv2d(x, w, .bias = i), TN_ESHAPE, "conv2d: bias (2) for 4 output channels");
    fails(tn_conv2d(x, w, .dilation = {3}), TN_ESHAPE,
          "conv2d: kernel 3 with dilation 3 spans more than the padded size 5");
    fails(tn_conv2d(x, w, .stride = {-1}), TN_EVALUE,
          "conv2d: spatial axis 0: kernel 3, stride -1");
    fails(tn_conv_transpose2d(x, tn_zeros(SHAPE(3, 2, 1, 1)), .padding = {3, 3}), TN_ESHAPE,
          "conv_transpose2d: padding 3 and 3");
    fails(tn_max_pool2d(i), TN_ESHAPE, "max_pool2d: (2) with 2 spatial axes");
    fails(tn_max_unpool2d(x, i), TN_ESHAPE, "max_unpool2d: (1, 3, 5, 5) by indices (2)");
    fails(tn_interpolate(a, SHAPE(0)), TN_ESHAPE, "interpolate: (2, 3) to (0)");
    fails(tn_einsum("ij,jk->ik", IN(a)), TN_EVALUE, "not as many terms as tensors");
    fails(tn_einsum("ij->ik", IN(a)), TN_EVALUE, "a label of the output is in no input");
    fails(tn_einsum("i->i", IN(a)), TN_ESHAPE, "1 labels for (2, 3)");
    fails(tn_einsum("i1->i", IN(a)), TN_EVALUE, "letters and \"...\" only");
    fails(tn_einsum("ii->i", IN(a)), TN_ESHAPE, "one label has sizes 2 and 3");
    fails(tn_einsum("ij->ii", IN(a)), TN_EVALUE, "a label is twice in the output");
    fails(tn_einsum(NULL, IN(a)), TN_ENULL, "einsum: the formula is NULL");
    fails(tn_sparse_categorical_crossentropy(a, tn_arange(3)), TN_ESHAPE,
          "sparse_categorical_crossentropy: (2, 3) with targets (3)");
    fails(tn_sparse_categorical_crossentropy(a, tn_zeros(SHAPE(2))), TN_EDTYPE,
          "targets (2) of float32");
    fails(tn_cross_entropy(a, tn_zeros(SHAPE(3))), TN_ESHAPE,
          "cross_entropy: (2, 3) with targets (3)");
    fails(tn_cross_entropy(a, i, .label_smoothing = 2), TN_EVALUE,
          "cross_entropy: label_smoothing 2");
    fails(tn_nll_loss(a, i, .weight = i), TN_ESHAPE, "nll_loss: weight (2) for 3 classes");
    fails(tn_scaled_dot_product_attention(a, w, a), TN_ESHAPE,
          "scaled_dot_product_attention: query (2, 3), key (4, 3, 3, 3)");
    fails(tn_scaled_dot_product_attention(a, a, a, .attn_mask = a, .is_causal = true), TN_EVALUE,
          "give one of them");
    fails(tn_batchnorm(x, NULL, NULL, i, i, AX(1)), TN_ESHAPE,
          "batchnorm: mean (2) for (1, 3, 5, 5)");
    fails(tn_var_mean(a), TN_ENULL, "var_mean: .mean is NULL");
    ck_assert_int_eq(tn_split(a, SHAPE(1, 1), 1, out, 2), 0);
    fails(out[0], TN_EVALUE, "split: an axis of 3 into 2 sizes (1, 1) and room for 2");
    ck_assert_int_eq(tn_chunk(a, 0, 1, out, 2), 0);
    fails(out[0], TN_EVALUE, "chunk: 0 parts");
    ck_assert_int_eq(tn_split(tn_zeros(SHAPE0), SHAPE(1), 0, out, 2), 0);
    fails(out[0], TN_EAXIS, "split: a tensor of rank 0");
    ck_assert(!tn_meshgrid(IN(a, a), out));
    fails(out[0], TN_ESHAPE, "meshgrid: (2, 3): takes vectors");
}
END_TEST

Suite *suite_random_methods(void)
{
    Suite *s = suite_create("random_methods");
    TCase *t = tcase_create("random");
    tcase_add_test(t, random_tensors_have_the_moments_of_their_distribution);
    tcase_add_test(t, initial_weights_lie_within_the_bounds_of_their_papers);
    tcase_add_test(t, one_seed_gives_one_sequence_and_two_calls_differ);
    tcase_add_test(t, dropout_keeps_and_scales_under_training_only);
    tcase_add_test(t, multinomial_draws_by_weight);
    tcase_add_test(t, scalars_take_the_dtype_of_the_tensor);
    tcase_add_test(t, sizes_are_answered);
    suite_add_tcase(s, t);
    t = tcase_create("errors");
    tcase_add_test(t, wrong_shapes_say_what_is_wrong);
    tcase_add_test(t, wrong_dtypes_say_what_is_wrong);
    tcase_add_test(t, wrong_indices_and_windows_say_what_is_wrong);
    suite_add_tcase(s, t);
    return s;
}
