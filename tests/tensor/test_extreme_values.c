/* SPDX-License-Identifier: MIT */
/* Extreme numbers where they are legal: the values are those of a plain loop; and what refused ones are told. */
#include "extremes.h"
#include "test.h"
#include <stdlib.h>

/* ---- legal ones: the values ---- */

/* t has n elements, those of `want`. */
static void expect(int line, tn_tensor *t, const double *want, int64_t n)
{
    double got[64];
    ck_assert_msg(tn_ok(), "line %d: %s", line, tn_ok() ? "" : tn_last_error()->msg);
    ck_assert_msg(tn_numel(t) == n, "line %d: %lld elements", line, (long long)tn_numel(t));
    if (!n) return;
    ck_assert(tn_data(tn_double(t), got, (size_t)n * sizeof *got));
    for (int64_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i], "line %d: element %lld: %g, not %g", line, (long long)i,
                      got[i], want[i]);
}
#define EXPECT(t, ...)                                 \
    expect(__LINE__, t, (const double[]){__VA_ARGS__}, \
           sizeof((double[]){__VA_ARGS__}) / sizeof(double))

START_TEST(triangles_keep_all_or_nothing_beyond_the_matrix)
{
    TN_SCOPE;
    const int64_t k = far[_i];
    double lower[6], upper[6];
    for (int i = 0; i < 6; i++) { /* column - row <= k and >= k */
        lower[i] = i % 3 - i / 3 <= k ? i + 1 : 0;
        upper[i] = i % 3 - i / 3 >= k ? i + 1 : 0;
    }
    tn_tensor *x = tn_add(six(), 1);
    expect(__LINE__, tn_tril(x, k), lower, 6);
    expect(__LINE__, tn_triu(x, k), upper, 6);
}
END_TEST

START_TEST(rolls_go_round_by_the_remainder)
{
    TN_SCOPE;
    double want[6];
    for (int i = 0; i < 6; i++) want[(((far[_i] + (far[_i] < 0 ? 6 : 0)) % 6 + i) % 6 + 6) % 6] = i;
    tn_tensor *x = six();
    expect(__LINE__, tn_roll(x, SHAPE(far[_i]), ALL), want, 6);
}
END_TEST

START_TEST(diagonals_outside_of_the_matrix_are_empty)
{
    TN_SCOPE;
    double want[3];
    int n = 0;
    for (int i = 0; i < 6; i++)
        if (i % 3 - i / 3 == far[_i]) want[n++] = i;
    expect(__LINE__, tn_diagonal(six(), far[_i], 0, 1), want, n);
}
END_TEST

/* Python's: an end counts from the back when it is negative and is then cut to the axis. */
static int64_t end_of(int64_t v, int64_t n, int64_t lo, int64_t hi)
{
    if (v < 0) v = v < -n ? -1 : v + n;
    return v < lo ? lo : v > hi ? hi : v;
}

START_TEST(slices_cut_their_ends_and_steps_to_the_axis)
{
    TN_SCOPE;
    tn_tensor *x = tn_arange(5.0);
    const int64_t step = far[_i], n = 5;
    if (!step) return; /* stands for 1 */
    for (int i = 0; i < FAR; i++)
        for (int k = 0; k < FAR; k++) {
            const bool up = step > 0;
            const int64_t lo = up ? 0 : -1, hi = up ? n : n - 1;
            int64_t at = far[i] == TN_OPEN ? up ? 0 : n - 1 : end_of(far[i], n, lo, hi);
            const int64_t stop = far[k] == TN_OPEN ? up ? n : -1 : end_of(far[k], n, lo, hi);
            double want[5];
            int m = 0;
            while (up ? at < stop : at > stop) {
                want[m++] = (double)at;
                if (step > n || step < -n) break;
                at += step;
            }
            expect(__LINE__, tn_index(x, TN_SLICE(far[i], far[k], step)), want, m);
        }
}
END_TEST

START_TEST(a_slice_with_an_extreme_step_is_written_where_it_points)
{
    TN_SCOPE;
    tn_tensor *x = tn_contiguous(tn_arange(5.0));
    tn_setitem(x, TN_INDEX(TN_SLICE(1, TN_OPEN, INT64_MAX)), 8);
    tn_setitem(x, TN_INDEX(TN_SLICE(TN_OPEN, TN_OPEN, INT64_MIN)), 9);
    EXPECT(x, 0, 8, 2, 3, 9);
}
END_TEST

START_TEST(ranges_of_integers_are_exact_to_their_ends)
{
    TN_SCOPE;
    const struct {
        int64_t start, stop, step, want[3];
        int n;
        tn_dtype dt;
    } r[] = {
        {INT64_MAX - 3, INT64_MAX, 1, {INT64_MAX - 3, INT64_MAX - 2, INT64_MAX - 1}, 3, TN_I64},
        {INT64_MIN + 2, INT64_MIN, -1, {INT64_MIN + 2, INT64_MIN + 1}, 2, TN_I64},
        {INT64_MIN, INT64_MAX, INT64_MAX, {INT64_MIN, -1, INT64_MAX - 1}, 3, TN_I64},
        {INT64_MAX, INT64_MIN, INT64_MIN, {INT64_MAX, -1}, 2, TN_I64},
        {INT_MAX - 1, INT64_C(1) << 31, 1, {INT_MAX - 1, INT_MAX}, 2, TN_I32},
        {INT_MAX, INT64_C(1) + INT_MAX + 1, 1, {INT_MAX, INT64_C(1) + INT_MAX}, 2, TN_I64},
        {INT64_MAX, INT64_MIN, 1, {0}, 0, TN_I32},
    };
    for (size_t i = 0; i < sizeof r / sizeof *r; i++) {
        int64_t got[3];
        tn_tensor *t = tn_arange(r[i].start, r[i].stop, r[i].step);
        ck_assert_msg(tn_numel(t) == r[i].n, "row %zu: %lld", i, (long long)tn_numel(t));
        ck_assert_int_eq(tn_dtype_of(t), r[i].dt);
        ck_assert(!r[i].n || tn_data(tn_long(t), got, (size_t)r[i].n * sizeof *got));
        for (int k = 0; k < r[i].n; k++)
            ck_assert_msg(got[k] == r[i].want[k], "row %zu: %lld", i, (long long)got[k]);
    }
    tn_arange(INT64_MIN, INT64_MAX);
    test_fails(TN_EVALUE, "arange: from -9223372036854775808 to 9223372036854775807 by 1: the step "
                          "must not be 0 and the count must fit 60 bits");
    tn_arange(0, UINT64_MAX);
    test_fails(TN_EVALUE, "arange: 18446744073709551615: integers must fit int64");
    tn_arange(1e300, 1e300 + 1e290, 1e290, .dtype = TN_I64);
    test_fails(TN_EVALUE, "as int64: the numbers must fit int64");
}
END_TEST

START_TEST(positions_beyond_32_bits_are_not_those_before_them)
{
    TN_SCOPE;
    const int64_t far_row = INT64_C(1) << 32;
    ck_assert(tn_item(tn_index(tn_eye(far_row + 2, 2), far_row, 0)) == 0);
    ck_assert(tn_item(tn_index(tn_eye(far_row + 2, 2), 1, 1)) == 1);
    tn_tensor *one = tn_from_data(((int32_t[]){1}), SHAPE(1), .dtype = TN_I32);
    ck_assert(tn_item(tn_index(tn_one_hot(one, far_row + 2), 0, far_row + 1)) == 0);
    ck_assert(tn_item(tn_index(tn_one_hot(one, far_row + 2), 0, 1)) == 1);
}
END_TEST

START_TEST(a_stride_beyond_the_input_leaves_the_first_window)
{
    TN_SCOPE;
    tn_tensor *x = tn_param(tn_keep(tn_contiguous(plane())));
    EXPECT(tn_unfold(tn_arange(6.0), 0, 2, INT64_MAX), 0, 1);
    EXPECT(tn_unfold(tn_arange(6.0), 0, 1, INT64_MAX), 0);
    EXPECT(tn_max_pool2d(x, .stride = {INT_MAX}), 6);
    EXPECT(tn_avg_pool2d(x, .stride = {INT_MAX, 3}), 3, 6);
    EXPECT(tn_conv_transpose2d(tn_ones(SHAPE(1, 1, 1, 1)), kernel(), .stride = {INT_MAX}), 1, 1, 1,
           1);
    EXPECT(tn_conv2d(x, tn_ones(SHAPE(1, 1, 1, 1)), .dilation = {INT_MAX}, .stride = {2, 4}), 0, 4,
           10, 14, 20, 24);
    tn_tensor *y = tn_conv2d(x, kernel(), .stride = {INT_MAX, INT_MAX});
    EXPECT(y, 12);
    tn_backward(tn_sum(tn_mul(y, y)));
    double want[25] = {[0] = 24, [1] = 24, [5] = 24, [6] = 24};
    expect(__LINE__, tn_grad(x), want, 25);
    tn_free(x);
}
END_TEST

START_TEST(random_integers_cover_all_that_they_may_be)
{
    TN_SCOPE;
    int64_t v[64];
    uint64_t any = 0, all = UINT64_MAX;
    tn_tensor *t = tn_randint(SHAPE(64), .low = INT64_MIN, .high = INT64_MAX, .dtype = TN_I64);
    ck_assert(tn_data(t, v, sizeof v));
    for (int i = 0; i < 64; i++) any |= (uint64_t)v[i], all &= (uint64_t)v[i];
    ck_assert(any == UINT64_MAX && all == 0); /* every bit is there and is not: 2^-57 against */
    t = tn_randint(SHAPE(3), .low = INT64_MAX - 1, .high = INT64_MAX, .dtype = TN_I64);
    ck_assert(tn_item_i(tn_index(t, 2)) == INT64_MAX - 1);
}
END_TEST

START_TEST(a_class_that_the_targets_cannot_hold_ignores_none)
{
    TN_SCOPE;
    tn_tensor *y = tn_from_data(((uint8_t[]){0, 1}), SHAPE(2), .dtype = TN_U8),
              *x = tn_zeros(SHAPE(2, 2));
    const int64_t none = 256, least = INT64_MIN, one = 1;
    const double all = tn_item(
        tn_sparse_categorical_crossentropy(x, y, .reduction = TN_REDUCTION_SUM));
    ck_assert(all > 1);
    ck_assert(tn_item(tn_sparse_categorical_crossentropy(x, y, .reduction = TN_REDUCTION_SUM,
                                                         .ignore_index = &none)) == all);
    ck_assert(tn_item(tn_nll_loss(tn_log_softmax(x), y, .reduction = TN_REDUCTION_SUM,
                                  .ignore_index = &least)) == all);
    ck_assert(tn_item(tn_sparse_categorical_crossentropy(x, y, .reduction = TN_REDUCTION_SUM,
                                                         .ignore_index = &one)) == all / 2);
}
END_TEST

/* ---- refusals that the table does not come by, and their texts ---- */

START_TEST(refusals_say_what_was_given)
{
    TN_SCOPE;
    const int64_t most = INT64_MAX, big = INT64_C(1) << 33, wide = INT64_C(1) << 40;
    tn_unflatten(tn_const(1), 0, SHAPE(wide, wide, 4));
    test_fails(TN_ESHAPE, "unflatten: axis 0 of () into (1099511627776, 1099511627776, 4): the "
                          "product must be 1, one -1 is inferred");
    tn_repeat(six(), SHAPE(1, most));
    test_fails(TN_EVALUE, "repeat: (2, 3) by (1, 9223372036854775807): the number of elements does "
                          "not fit 60 bits");
    tn_repeat_interleave(six(), most, 1);
    test_fails(TN_EVALUE,
               "repeat_interleave: axis 1 of (2, 3) by 9223372036854775807: the number of "
               "elements does not fit 60 bits");
    tn_pad(six(), SHAPE(most, most));
    test_fails(TN_EVALUE,
               "pad: 9223372036854775807 and 9223372036854775807 beside axis 1 of (2, 3): "
               "too many elements");
    tn_pad(six(), SHAPE(INT64_MIN, 0));
    test_fails(TN_EVALUE, "pad: -9223372036854775808 and 0 cut more than axis 1 of (2, 3) has");
    tn_tensor *half = tn_expand(tn_ones(SHAPE(1)), SHAPE(INT64_C(1) << 59));
    tn_cat(IN(half, half));
    test_fails(TN_ESHAPE, "cat: 2 tensors from (576460752303423488) on along axis 0: the number of "
                          "elements does not fit 60 bits");
    tn_tensor *out[3];
    tn_split(six(), SHAPE(most, most, 5), 1, out, 3);
    test_fails(TN_EVALUE, "split: an axis of 3 into 3 sizes (9223372036854775807, "
                          "9223372036854775807, 5) and room for 3 results");
    tn_masked_select(six(), tn_gt(six(), 2), most);
    test_fails(TN_EVALUE,
               "masked_select: size 9223372036854775807: the number of elements does not "
               "fit 60 bits");
    tn_nonzero(tn_expand(tn_ones(SHAPE(1)), SHAPE(big)), 2);
    test_fails(TN_ESHAPE, "nonzero: axis 0 of (8589934592): positions are int32");
    tn_max_pool2d(tn_expand(tn_ones(SHAPE(1, 1)), SHAPE(big, 2)), .indices = out);
    test_fails(TN_ESHAPE, "max_pool2d: planes of 17179869184 elements: positions are int32");
    tn_randperm(big);
    test_fails(TN_EVALUE, "randperm: 8589934592: must be at most 2147483647");
    tn_conv_transpose2d(plane(), kernel(), .output_padding = {-1});
    test_fails(TN_EVALUE,
               "conv_transpose2d: output padding -1 of spatial axis 0: must not be negative");
    tn_conv_transpose2d(tn_ones(SHAPE(1, 1, wide, 1)), tn_ones(SHAPE(1, 1, 1, 1)),
                        .stride = {INT_MAX});
    test_fails(TN_ESHAPE,
               "conv_transpose2d: 1099511627776 elements with stride 2147483647, kernel 1 "
               "and dilation 1 on spatial axis 0: the result has too many");
    tn_max_unpool2d(plane(), tn_cast(tn_zeros_like(plane()), TN_I32), .output_size = {-1, 1});
    test_fails(TN_ESHAPE, "max_unpool2d: the planes of (1, 1, 5, 5) become negative or too large");
}
END_TEST

START_TEST(layers_refuse_sizes_that_no_tensor_has)
{
    TN_SCOPE;
    tn_nn_linear l;
    tn_nn_conv2d c;
    tn_nn_embedding e;
    tn_nn_lstm_cell m;
    tn_optim *o;
    ck_assert(!tn_nn_linear_init(&l, INT_MAX, INT_MAX));
    test_fails(TN_ESHAPE, "linear_init: shape (2147483647, 2147483647): the number of elements");
    ck_assert(!tn_nn_conv2d_init(&c, INT_MAX, INT_MAX, INT_MAX));
    test_fails(TN_ESHAPE, "conv2d_init: shape (2147483647, 2147483647, 2147483647, 2147483647)");
    ck_assert(!tn_nn_conv2d_init(&c, 1, 1, INT_MAX, .dilation = INT_MAX, .same = true));
    test_fails(TN_EVALUE, "conv2d: same padding for kernel 2147483647 with dilation 2147483647");
    ck_assert(!tn_nn_embedding_init(&e, INT_MAX, INT_MAX));
    test_fails(TN_ESHAPE, "embedding: shape (2147483647, 2147483647)");
    ck_assert(!tn_nn_lstm_cell_init(&m, INT_MAX, INT_MAX));
    test_fails(TN_ESHAPE, "lstm_cell: shape (8589934588, 2147483647)");
    tn_tensor *w = tn_param(tn_keep(tn_contiguous(six())));
    o = tn_muon_list(IN(w), .ns_steps = INT_MAX);
    ck_assert_ptr_null(o);
    test_fails(TN_EVALUE, "ns_steps 2147483647: must be in 1..100");
    tn_free(w);
}
END_TEST

Suite *suite_extreme_values(void);
Suite *suite_extreme_values(void)
{
    Suite *s = suite_create("extreme_values");
    TCase *t = tcase_create("extreme_values");
    tcase_add_checked_fixture(t, test_clean_start, test_clean_end);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, triangles_keep_all_or_nothing_beyond_the_matrix, 0, FAR);
    tcase_add_loop_test(t, rolls_go_round_by_the_remainder, 0, FAR);
    tcase_add_loop_test(t, diagonals_outside_of_the_matrix_are_empty, 0, FAR);
    tcase_add_loop_test(t, slices_cut_their_ends_and_steps_to_the_axis, 0, FAR);
    tcase_add_test(t, a_slice_with_an_extreme_step_is_written_where_it_points);
    tcase_add_test(t, ranges_of_integers_are_exact_to_their_ends);
    tcase_add_test(t, positions_beyond_32_bits_are_not_those_before_them);
    tcase_add_test(t, a_stride_beyond_the_input_leaves_the_first_window);
    tcase_add_test(t, random_integers_cover_all_that_they_may_be);
    tcase_add_test(t, a_class_that_the_targets_cannot_hold_ignores_none);
    tcase_add_test(t, refusals_say_what_was_given);
    tcase_add_test(t, layers_refuse_sizes_that_no_tensor_has);
    suite_add_tcase(s, t);
    return s;
}
