/* SPDX-License-Identifier: MIT */
/*
 * Extreme numbers to every method that takes sizes, indices, axes or counts: the least and the greatest of int64_t
 * and of int, and what lies beside them.  Each call gives a tensor that can be computed, or one error that names the
 * method and the numbers.  Under UBSan (./dev ubsan) a sum that overflows ends the test.  Values: extreme_values.
 */
#include "extremes.h"
#include "test.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- the calls ---- */

static tn_tensor *zeros(int64_t a, int64_t b) { return tn_zeros(SHAPE(a, b)); }
static tn_tensor *full(int64_t a, int64_t b)
{
    return tn_full(SHAPE(3), a, .dtype = b < 0 ? TN_I8 : TN_U64);
}
static tn_tensor *arange(int64_t a, int64_t b) { return tn_arange(a, b, b); }
static tn_tensor *arange_one(int64_t a, int64_t b) { return tn_arange(a, b, 1); }
static tn_tensor *arange_float(int64_t a, int64_t b)
{
    return tn_arange((double)a, (double)b, 1e18, .dtype = TN_I64);
}
static tn_tensor *linspace(int64_t a, int64_t b) { return tn_linspace((double)b, 1, a); }
static tn_tensor *eye(int64_t a, int64_t b) { return tn_eye(a, b); }
static tn_tensor *tril(int64_t a, int64_t b)
{
    return tn_add(tn_tril(six(), a), tn_tril(six(), b));
}
static tn_tensor *triu(int64_t a, int64_t b)
{
    return tn_add(tn_triu(six(), a), tn_triu(six(), b));
}
static tn_tensor *one_hot(int64_t a, int64_t b) { return tn_one_hot(tn_const_i(b), a); }
static tn_tensor *random_bits(int64_t a, int64_t b) { return tn_random_bits(SHAPE(a, b)); }
static tn_tensor *rand_(int64_t a, int64_t b) { return tn_rand(SHAPE(a, b)); }
static tn_tensor *randn(int64_t a, int64_t b) { return tn_randn(SHAPE(a, b)); }
static tn_tensor *randint(int64_t a, int64_t b)
{
    return tn_randint(SHAPE(3), .low = a, .high = b, .dtype = TN_I64);
}
static tn_tensor *randint_u(int64_t a, int64_t b)
{
    return tn_randint(SHAPE(3), .low = a, .high = b, .dtype = TN_U64);
}
static tn_tensor *kaiming(int64_t a, int64_t b) { return tn_kaiming_uniform(SHAPE(a, b)); }
static tn_tensor *randperm(int64_t a, int64_t b) { return (void)b, tn_randperm(a); }
static tn_tensor *multinomial(int64_t a, int64_t b)
{
    return tn_multinomial(six(), a, .replacement = b > 0);
}
static tn_tensor *reshape(int64_t a, int64_t b) { return tn_reshape(six(), SHAPE(a, b)); }
static tn_tensor *reshape_zero(int64_t a, int64_t b) { return tn_reshape(six(), SHAPE(a, 0, b)); }
static tn_tensor *expand(int64_t a, int64_t b) { return tn_expand(tn_const(1), SHAPE(a, b)); }
static tn_tensor *expand_leaf(int64_t a, int64_t b)
{
    return tn_expand(tn_reshape(six(), SHAPE(1, 6)), SHAPE(a, b));
}
static tn_tensor *shrink(int64_t a, int64_t b) { return tn_shrink(six(), SHAPE(0, 2, a, b)); }
static tn_tensor *shrink_to(int64_t a, int64_t b) { return tn_shrink_to(six(), SHAPE(a, b)); }
static tn_tensor *pad(int64_t a, int64_t b) { return tn_pad(six(), SHAPE(a, b)); }
static tn_tensor *pad_rows(int64_t a, int64_t b) { return tn_pad(six(), SHAPE(a, 0, b, 0)); }
static tn_tensor *pad_value(int64_t a, int64_t b) { return tn_pad(six(), SHAPE(b, a), .value = 7); }
static tn_tensor *pad_reflect(int64_t a, int64_t b)
{
    return tn_pad(six(), SHAPE(a, b), .mode = TN_PAD_REFLECT);
}
static tn_tensor *pad_replicate(int64_t a, int64_t b)
{
    return tn_pad(six(), SHAPE(a, b), .mode = TN_PAD_REPLICATE);
}
static tn_tensor *pad_circular(int64_t a, int64_t b)
{
    return tn_pad(six(), SHAPE(a, b), .mode = TN_PAD_CIRCULAR);
}
static tn_tensor *pad_to(int64_t a, int64_t b) { return tn_pad_to(six(), SHAPE(a, b)); }
static tn_tensor *unflatten(int64_t a, int64_t b) { return tn_unflatten(six(), 1, SHAPE(a, b)); }
static tn_tensor *unflatten_scalar(int64_t a, int64_t b)
{
    return tn_unflatten(tn_const(1), 0, SHAPE(a, b));
}
static tn_tensor *diagonal(int64_t a, int64_t b)
{
    return tn_diagonal(six(), a, b < 0 ? 1 : 0, b < 0 ? 0 : 1);
}
static tn_tensor *unfold(int64_t a, int64_t b) { return tn_unfold(six(), 1, a, b); }
static tn_tensor *unfold_two(int64_t a, int64_t b) { return (void)b, tn_unfold(six(), 1, 2, a); }
static tn_tensor *split(int64_t a, int64_t b)
{
    tn_tensor *out[3];
    tn_split(six(), SHAPE(a, b), 1, out, 3);
    return out[0];
}
static tn_tensor *split_many(int64_t a, int64_t b)
{
    tn_tensor *out[3];
    tn_split(six(), SHAPE(a, a, b), 1, out, 3);
    return out[0];
}
static tn_tensor *chunk(int64_t a, int64_t b)
{
    tn_tensor *out[3];
    tn_chunk(six(), a, narrow(b), out, 3);
    return out[0];
}
static tn_tensor *repeat(int64_t a, int64_t b) { return tn_repeat(six(), SHAPE(a, b)); }
static tn_tensor *repeat_more(int64_t a, int64_t b) { return tn_repeat(six(), SHAPE(a, 1, b)); }
static tn_tensor *repeat_interleave(int64_t a, int64_t b)
{
    return tn_repeat_interleave(six(), a, narrow(b));
}
static tn_tensor *roll(int64_t a, int64_t b) { return tn_roll(six(), SHAPE(a, b), AX(0, 1)); }
static tn_tensor *index_two(int64_t a, int64_t b) { return tn_index(six(), a, b); }
static tn_tensor *index_slice(int64_t a, int64_t b)
{
    return tn_index(six(), TN_SLICE(a, b), TN_SLICE(b, a));
}
static tn_tensor *index_step(int64_t a, int64_t b)
{
    return tn_index(six(), TN_SLICE(TN_OPEN, TN_OPEN, a), TN_SLICE(a, TN_OPEN, b));
}
static tn_tensor *setitem(int64_t a, int64_t b)
{
    return tn_setitem(tn_contiguous(six()), TN_INDEX(0, TN_SLICE(a, TN_OPEN, b)), 9);
}
static tn_tensor *masked_select(int64_t a, int64_t b)
{
    return tn_masked_select(six(), tn_gt(six(), 2), a, .fill = (double)b);
}
static tn_tensor *nonzero(int64_t a, int64_t b) { return tn_nonzero(six(), a, .fill = (double)b); }
static tn_tensor *nonzero_scalar(int64_t a, int64_t b)
{
    return tn_nonzero(tn_const(1), a, .fill = (double)b * 1e300);
}
static tn_tensor *topk(int64_t a, int64_t b) { return tn_topk(six(), a, narrow(b)); }
static tn_tensor *interpolate(int64_t a, int64_t b) { return tn_interpolate(six(), SHAPE(a, b)); }
static tn_tensor *nearest(int64_t a, int64_t b)
{
    return tn_interpolate(six(), SHAPE(a, b), .mode = TN_RESIZE_NEAREST);
}
static tn_tensor *join(int64_t a, int64_t b)
{
    const int64_t n = a > 0 && a <= INT64_C(1) << 59 ? a : INT64_C(1) << 59;
    tn_tensor *x = tn_expand(tn_ones(SHAPE(1)), SHAPE(n));
    return tn_cat(IN(x, x, x, x), narrow(b));
}
static tn_tensor *stack(int64_t a, int64_t b)
{
    return tn_stack(IN(six(), six()), narrow(a + 0 * b));
}

/* Axes. */
static tn_tensor *sum(int64_t a, int64_t b) { return tn_sum(six(), AX(narrow(a), narrow(b))); }
static tn_tensor *argmax(int64_t a, int64_t b) { return (void)b, tn_argmax(six(), AX(narrow(a))); }
static tn_tensor *flip(int64_t a, int64_t b) { return tn_flip(six(), AX(narrow(a), narrow(b))); }
static tn_tensor *squeeze(int64_t a, int64_t b)
{
    return tn_squeeze(six(), AX(narrow(a), narrow(b)));
}
static tn_tensor *unsqueeze(int64_t a, int64_t b)
{
    return (void)b, tn_unsqueeze(six(), narrow(a));
}
static tn_tensor *transpose(int64_t a, int64_t b)
{
    return tn_transpose(six(), narrow(a), narrow(b));
}
static tn_tensor *permute(int64_t a, int64_t b)
{
    return tn_permute(six(), AX(narrow(a), narrow(b)));
}
static tn_tensor *flatten(int64_t a, int64_t b)
{
    return tn_flatten(six(), .start = narrow(a), .end = narrow(b));
}
static tn_tensor *softmax(int64_t a, int64_t b)
{
    return tn_softmax(six(), AX(narrow(a), narrow(b)));
}
static tn_tensor *cumsum(int64_t a, int64_t b) { return (void)b, tn_cumsum(six(), narrow(a)); }
static tn_tensor *sort(int64_t a, int64_t b) { return (void)b, tn_sort(six(), narrow(a)); }
static tn_tensor *normalize(int64_t a, int64_t b)
{
    return (void)b, tn_normalize(six(), narrow(a));
}
static tn_tensor *gather(int64_t a, int64_t b)
{
    return (void)b, tn_gather(six(), narrow(a), tn_cast(tn_zeros(SHAPE(2, 3)), TN_I32));
}
static tn_tensor *scatter(int64_t a, int64_t b)
{
    return (void)b, tn_scatter(six(), narrow(a), tn_cast(tn_zeros(SHAPE(2, 3)), TN_I32), six());
}

/* Windows. */
static tn_tensor *conv_stride(int64_t a, int64_t b)
{
    return tn_conv2d(plane(), kernel(), .stride = {narrow(a), narrow(b)});
}
static tn_tensor *conv_padding(int64_t a, int64_t b)
{
    return tn_conv2d(plane(), kernel(), .padding = {narrow(a), narrow(b)});
}
static tn_tensor *conv_pads(int64_t a, int64_t b)
{
    return tn_conv2d(plane(), kernel(), .pads = {narrow(a), narrow(b), narrow(b), narrow(a)});
}
static tn_tensor *conv_dilation(int64_t a, int64_t b)
{
    return tn_conv2d(plane(), kernel(), .dilation = {narrow(a), narrow(b)});
}
static tn_tensor *conv_groups(int64_t a, int64_t b)
{
    const int64_t in = b > 0 && b < INT64_C(1) << 50 ? b : 1;
    return tn_conv2d(tn_ones(SHAPE(1, 4, 2, 2)), tn_ones(SHAPE(1, in, 1, 1)), .groups = narrow(a));
}
static tn_tensor *conv_wide(int64_t a, int64_t b)
{
    const int64_t k = b > 0 && b < INT64_C(1) << 50 ? b : 1;
    return tn_conv2d(plane(), tn_ones(SHAPE(1, 1, k, 1)), .dilation = {narrow(a)});
}
static tn_tensor *transposed_stride(int64_t a, int64_t b)
{
    return tn_conv_transpose2d(plane(), kernel(), .stride = {narrow(a), narrow(b)});
}
static tn_tensor *transposed_dilation(int64_t a, int64_t b)
{
    return tn_conv_transpose2d(plane(), kernel(), .dilation = {narrow(a), narrow(b)});
}
static tn_tensor *transposed_padding(int64_t a, int64_t b)
{
    return tn_conv_transpose2d(plane(), kernel(), .padding = {narrow(a), narrow(b)},
                               .output_padding = {narrow(b), narrow(a)});
}
static tn_tensor *transposed_wide(int64_t a, int64_t b)
{
    const int64_t n = b > 0 && b < INT64_C(1) << 58 ? b : 1;
    return tn_conv_transpose2d(tn_ones(SHAPE(1, 1, n, 1)), tn_ones(SHAPE(1, 1, 1, 1)),
                               .stride = {narrow(a)});
}
static tn_tensor *transposed_groups(int64_t a, int64_t b)
{
    const int64_t out = b > 0 && b < INT64_C(1) << 58 ? b : 1;
    return tn_conv_transpose2d(tn_ones(SHAPE(1, 0, 2, 2)), tn_ones(SHAPE(0, out, 1, 1)),
                               .groups = narrow(a));
}
static tn_tensor *max_pool(int64_t a, int64_t b)
{
    return tn_max_pool2d(plane(), .stride = {narrow(a), narrow(b)});
}
static tn_tensor *max_pool_kernel(int64_t a, int64_t b)
{
    return tn_max_pool2d(plane(), .kernel = {narrow(a), 2}, .dilation = {narrow(b)},
                         .ceil_mode = true);
}
static tn_tensor *avg_pool(int64_t a, int64_t b)
{
    return tn_avg_pool2d(plane(), .padding = {narrow(a)}, .stride = {narrow(b)}, .ceil_mode = true);
}
static tn_tensor *max_pool_padding(int64_t a, int64_t b)
{
    return tn_max_pool2d(plane(), .padding = {narrow(a), narrow(b)});
}
static tn_tensor *avg_pool_pads(int64_t a, int64_t b)
{
    return tn_avg_pool2d(plane(), .pads = {narrow(a), narrow(b)}, .exclude_pad = true);
}
static tn_tensor *unpool(int64_t a, int64_t b)
{
    return tn_max_unpool2d(plane(), tn_cast(tn_zeros_like(plane()), TN_I32), .kernel = {1, 1, 1},
                           .output_size = {narrow(a), narrow(b), narrow(a)});
}
static tn_tensor *unpool_stride(int64_t a, int64_t b)
{
    const int64_t n = b > 0 && b < INT64_C(1) << 59 ? b : b < 0 ? 0 : 1;
    tn_tensor *x = tn_zeros(SHAPE(1, 1, n, 1));
    return tn_max_unpool2d(x, tn_cast(x, TN_I32), .stride = {narrow(a)}, .padding = {1});
}
static tn_tensor *shard(int64_t a, int64_t b)
{
    return (void)b, tn_shard(six(), DEVICES("INTERP"), narrow(a));
}

static const struct {
    const char *op; /* what the error must name */
    tn_tensor *(*call)(int64_t a, int64_t b);
} rows[] = {
    {"tn_zeros", zeros},
    {"tn_full", full},
    {"tn_arange", arange},
    {"tn_arange", arange_one},
    {"tn_arange", arange_float},
    {"tn_linspace", linspace},
    {"tn_eye", eye},
    {"tn_tril", tril},
    {"tn_triu", triu},
    {"tn_one_hot", one_hot},
    {"tn_random_bits", random_bits},
    {"tn_rand", rand_},
    {"tn_randn", randn},
    {"tn_randint", randint},
    {"tn_randint", randint_u},
    {"tn_kaiming_uniform", kaiming},
    {"tn_randperm", randperm},
    {"tn_multinomial", multinomial},
    {"tn_reshape", reshape},
    {"tn_reshape", reshape_zero},
    {"tn_expand", expand},
    {"tn_expand", expand_leaf},
    {"tn_shrink", shrink},
    {"tn_shrink_to", shrink_to},
    {"tn_pad", pad},
    {"tn_pad", pad_rows},
    {"tn_pad", pad_value},
    {"tn_pad", pad_reflect},
    {"tn_pad", pad_replicate},
    {"tn_pad", pad_circular},
    {"tn_pad_to", pad_to},
    {"tn_unflatten", unflatten},
    {"tn_unflatten", unflatten_scalar},
    {"tn_diagonal", diagonal},
    {"tn_unfold", unfold},
    {"tn_unfold", unfold_two},
    {"tn_split", split},
    {"tn_split", split_many},
    {"tn_chunk", chunk},
    {"tn_repeat", repeat},
    {"tn_repeat", repeat_more},
    {"tn_repeat_interleave", repeat_interleave},
    {"tn_roll", roll},
    {"tn_index", index_two},
    {"tn_index", index_slice},
    {"tn_index", index_step},
    {"tn_setitem", setitem},
    {"tn_masked_select", masked_select},
    {"tn_nonzero", nonzero},
    {"tn_nonzero", nonzero_scalar},
    {"tn_topk", topk},
    {"tn_interpolate", interpolate},
    {"tn_interpolate", nearest},
    {"tn_cat", join},
    {"tn_stack", stack},
    {"tn_sum", sum},
    {"tn_argmax", argmax},
    {"tn_flip", flip},
    {"tn_squeeze", squeeze},
    {"tn_unsqueeze", unsqueeze},
    {"tn_transpose", transpose},
    {"tn_permute", permute},
    {"tn_flatten", flatten},
    {"tn_softmax", softmax},
    {"tn_cumsum", cumsum},
    {"tn_sort", sort},
    {"tn_normalize", normalize},
    {"tn_gather", gather},
    {"tn_scatter", scatter},
    {"tn_conv2d", conv_stride},
    {"tn_conv2d", conv_padding},
    {"tn_conv2d", conv_pads},
    {"tn_conv2d", conv_dilation},
    {"tn_conv2d", conv_groups},
    {"tn_conv2d", conv_wide},
    {"tn_conv_transpose2d", transposed_stride},
    {"tn_conv_transpose2d", transposed_dilation},
    {"tn_conv_transpose2d", transposed_padding},
    {"tn_conv_transpose2d", transposed_wide},
    {"tn_conv_transpose2d", transposed_groups},
    {"tn_max_pool2d", max_pool},
    {"tn_max_pool2d", max_pool_kernel},
    {"tn_max_pool2d", max_pool_padding},
    {"tn_avg_pool2d", avg_pool},
    {"tn_avg_pool2d", avg_pool_pads},
    {"tn_max_unpool2d", unpool},
    {"tn_max_unpool2d", unpool_stride},
    {"tn_shard", shard},
};

/* Numbers of ten digits and more in a text are those given, or those next to them, or a limit: no wrapped sums. */
static bool says_only(const char *text, int64_t a, int64_t b)
{
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9') continue;
        char *end;
        const bool minus = p > text && p[-1] == '-';
        const uint64_t u = strtoull(p, &end, 10);
        const uint64_t near = UINT64_C(1) << 34, v = minus ? 0 - u : u;
        const int64_t from[] = {a, b, narrow(a), narrow(b)};
        bool given = false;
        for (int i = 0; i < 4; i++) given = given || v - (uint64_t)from[i] + near <= 2 * near;
        if (end - p >= 10 && *end != '.' && *end != 'e' && !given && u - INT_MAX > 1 &&
            u >> 59 != 1)
            return false;
        if (end - p >= 20) return false;
        p = end - 1;
    }
    return true;
}

/* The small results of one row together. */
static void compute(const char *op, tn_tensor **made, size_t n)
{
    const tn_inputs all = {n, made};
    ck_assert_msg(tn_realize_all(&all), "%s: %s", op, tn_ok() ? "?" : tn_last_error()->msg);
}

START_TEST(an_extreme_number_gives_a_result_or_an_error_that_names_it)
{
    TN_SCOPE;
    tn_tensor *made[FAR * FAR];
    size_t n = 0;
    for (int i = 0; i < FAR * FAR; i++) {
        const int64_t a = far[i / FAR], b = far[i % FAR];
        tn_tensor *y = rows[_i].call(a, b);
        const tn_error *e = tn_last_error();
        ck_assert_msg(tn_bad(y) == (e != NULL), "%s(%" PRId64 ", %" PRId64 ")", rows[_i].op, a, b);
        if (e) {
            ck_assert_msg(!strcmp(e->op, rows[_i].op), "%s: op '%s': %s", rows[_i].op, e->op,
                          e->msg);
            ck_assert_msg(!strncmp(e->msg, rows[_i].op + 3, strlen(rows[_i].op + 3)) &&
                              e->msg[strlen(rows[_i].op + 3)] == ':',
                          "%s: %s", rows[_i].op, e->msg);
            ck_assert_msg(e->code >= TN_ESHAPE && e->code <= TN_EVALUE && says_only(e->msg, a, b),
                          "%s(%" PRId64 ", %" PRId64 "): %s", rows[_i].op, a, b, e->msg);
            tn_clear_error();
        } else if (tn_numel(y) <= 1000) {
            made[n++] = y;
        }
    }
    compute(rows[_i].op, made, n);
}
END_TEST

Suite *suite_extremes(void);
Suite *suite_extremes(void)
{
    Suite *s = suite_create("extremes");
    TCase *t = tcase_create("extremes");
    tcase_add_checked_fixture(t, test_clean_start, test_clean_end);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, an_extreme_number_gives_a_result_or_an_error_that_names_it, 0,
                        (int)(sizeof rows / sizeof *rows));
    suite_add_tcase(s, t);
    return s;
}
