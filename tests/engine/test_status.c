/* SPDX-License-Identifier: MIT */
/*
 * Indices out of range: what they read is 0, what they write is dropped, and the next wait of the thread reports
 * the op, the place, the row and the number of rows, once.
 */
#include "device/device.h"
#include "test.h"
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

static tn_tensor *ints(const int32_t *v, int64_t n)
{
    return tn_from_data(v, SHAPE(n), .dtype = TN_I32);
}

static tn_tensor *table(void) { return tn_add(tn_reshape(tn_arange(12.0), SHAPE(6, 2)), 1); }

static void reported(const char *text)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "no error where one tells of '%s'", text);
    ck_assert_int_eq(e->code, TN_EINDEX);
    ck_assert_msg(strstr(e->msg, text) != NULL, "'%s' is not in '%s'", text, e->msg);
    tn_clear_error();
}

START_TEST(a_row_beyond_the_end_reads_zero_and_is_reported_once)
{
    TN_SCOPE;
    tn_tensor *y = tn_index(table(), ints((int32_t[]){1, 6, 2}, 3));
    float out[6];
    ck_assert(!tn_data(y, out, sizeof out));
    ck_assert(strstr(tn_last_error()->msg, "test_status.c:") != NULL);
    reported("row 6 of 6: an element of the index tensor is out of range");
    const float want[6] = {3, 4, 0, 0, 5, 6};
    ck_assert_mem_eq(out, want, sizeof want);
    ck_assert(tn_data(y, out, sizeof out)); /* once */
    ck_assert_mem_eq(out, want, sizeof want);
}
END_TEST

START_TEST(a_row_before_the_first_is_told_by_its_number)
{
    TN_SCOPE;
    tn_tensor *y = tn_index(table(), ints((int32_t[]){-6, -9}, 2));
    ck_assert(isnan(tn_item(tn_sum(y))));
    reported("row -3 of 6");
}
END_TEST

START_TEST(waiting_for_the_device_reports_it_too)
{
    TN_SCOPE;
    tn_tensor *y = tn_index(table(), ints((int32_t[]){99}, 1));
    ck_assert(tn_realize(y));
    ck_assert(!tn_sync(NULL));
    reported("row 99 of 6");
    ck_assert(tn_sync(NULL));
}
END_TEST

START_TEST(a_write_out_of_range_is_dropped_and_reported)
{
    TN_SCOPE;
    tn_tensor *i = tn_reshape(ints((int32_t[]){0, 7, 2}, 3), SHAPE(3, 1));
    tn_tensor *y = tn_scatter(tn_zeros(SHAPE(4, 1)), 0, i, tn_ones(SHAPE(3, 1)));
    float out[4];
    ck_assert(!tn_data(y, out, sizeof out));
    reported("row 7 of 4");
    const float want[4] = {1, 0, 1, 0};
    ck_assert_mem_eq(out, want, sizeof want);
}
END_TEST

START_TEST(a_label_beyond_the_classes_is_reported_by_the_loss)
{
    TN_SCOPE;
    tn_tensor *x = tn_reshape(tn_arange(12.0), SHAPE(3, 4));
    tn_item(tn_sparse_categorical_crossentropy(x, ints((int32_t[]){0, 3, 4}, 3)));
    reported("sparse_categorical_crossentropy at ");
    ck_assert_double_gt(
        tn_item(tn_sparse_categorical_crossentropy(x, ints((int32_t[]){0, 3, 1}, 3))), 0);
    ck_assert_double_gt(tn_item(tn_sparse_categorical_crossentropy(
                            x, ints((int32_t[]){0, 3, -1}, 3), .ignore_index = (int64_t[]){-1})),
                        0);
}
END_TEST

/* What cannot be out of range costs no kernel. */
START_TEST(indices_that_are_known_to_be_in_range_are_not_checked)
{
    TN_SCOPE;
    tn_tensor *x = tn_keep(tn_contiguous(table()));
    tn_tensor *i = tn_randint(SHAPE(8), .low = 0, .high = 6);
    ck_assert(tn_realize(x));
    uint64_t before = atomic_load(&tn__count.kernels);
    ck_assert(tn_realize(tn_index(x, i))); /* the random rows, then the look-up */
    ck_assert_uint_eq(atomic_load(&tn__count.kernels) - before, 2);
    before = atomic_load(&tn__count.kernels);
    tn_tensor *back = tn_flip(tn_cast(tn_arange(6), TN_I32), TN_AX(0));
    ck_assert(tn_realize(tn_index(x, back)));
    ck_assert_uint_eq(atomic_load(&tn__count.kernels) - before, 1);
    tn_free(x);
}
END_TEST

static tn_tensor *look_up(void *user, const tn_inputs *in)
{
    return tn_sum(tn_index(user, in->t[0]));
}

START_TEST(a_replay_reports_at_the_next_read)
{
    TN_SCOPE;
    tn_tensor *x = tn_keep(tn_contiguous(table()));
    tn_jit *j = tn_jit_new(look_up, x);
    for (int32_t i = 0; i < 8; i++) {
        TN_SCOPE;
        tn_tensor *at = ints((int32_t[]){i == 5 ? 60 : i % 6}, 1);
        ck_assert(tn_realize(at));
        tn_tensor *y = tn_jit_call(j, TN_IN(at));
        const double v = tn_item(y), row = i % 6;
        if (i == 5) {
            ck_assert(isnan(v));
            reported("row 60 of 6");
            ck_assert_double_eq(tn_item(y), 0);
        } else {
            ck_assert_double_eq(v, 4 * row + 3);
        }
        ck_assert(tn_ok());
    }
    tn_jit_free(j);
    tn_free(x);
}
END_TEST

static tn_tensor *both(int32_t a, int32_t b)
{
    return tn_shard(ints((int32_t[]){a, b}, 2), TN_DEVICES("CPU:0", "CPU:1"), -1);
}

START_TEST(a_table_split_by_rows_is_checked_as_a_whole)
{
    TN_SCOPE;
    tn_tensor *x = tn_shard(table(), TN_DEVICES("CPU:0", "CPU:1"), 0);
    ck_assert_double_eq(tn_item(tn_sum(tn_index(x, both(0, 5)))), 3 + 23);
    ck_assert(tn_ok());
    ck_assert(isnan(tn_item(tn_sum(tn_index(x, both(0, 6))))));
    reported("row 6 of 6");
}
END_TEST

static void *other_thread(void *arg)
{
    TN_SCOPE;
    tn_tensor *y = tn_index(table(), ints((int32_t[]){6}, 1));
    if (!tn_realize(y)) return NULL; /* never waits: its list goes with the thread */
    return arg;
}

START_TEST(a_thread_that_never_waits_leaves_nothing_behind)
{
    pthread_t t;
    int x;
    void *out = NULL;
    ck_assert(!pthread_create(&t, NULL, other_thread, &x));
    ck_assert(!pthread_join(t, &out));
    ck_assert_ptr_eq(out, &x);
}
END_TEST

Suite *suite_status(void);
Suite *suite_status(void)
{
    Suite *s = suite_create("status");
    TCase *t = tcase_create("status");
    tcase_add_checked_fixture(t, test_clean_start, test_clean_end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, a_row_beyond_the_end_reads_zero_and_is_reported_once);
    tcase_add_test(t, a_row_before_the_first_is_told_by_its_number);
    tcase_add_test(t, waiting_for_the_device_reports_it_too);
    tcase_add_test(t, a_write_out_of_range_is_dropped_and_reported);
    tcase_add_test(t, a_label_beyond_the_classes_is_reported_by_the_loss);
    tcase_add_test(t, indices_that_are_known_to_be_in_range_are_not_checked);
    tcase_add_test(t, a_replay_reports_at_the_next_read);
    tcase_add_test(t, a_table_split_by_rows_is_checked_as_a_whole);
    tcase_add_test(t, a_thread_that_never_waits_leaves_nothing_behind);
    suite_add_tcase(s, t);
    return s;
}
