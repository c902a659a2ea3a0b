/* SPDX-License-Identifier: MIT */
/* The public functions that compute and read: realise, item, data, repr; what becomes of kept tensors. */
#include "device/device.h"
#include "support/handle_rig.h"
#include "test.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tensor.h>
#include "print_golden.inc"

enum { GOLDEN = sizeof golden / sizeof *golden };

static void expect_at(int line, tn_tensor *t, const float *want, size_t n)
{
    float got[64];
    ck_assert_msg(tn_data(t, got, n * sizeof *got), "line %d: %s", line, tn_last_error()->msg);
    for (size_t i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i], "line %d: [%zu] is %g, not %g", line, i, (double)got[i],
                      (double)want[i]);
}
#define expect(t, ...)                                   \
    expect_at(__LINE__, t, (const float[]){__VA_ARGS__}, \
              sizeof((float[]){__VA_ARGS__}) / sizeof(float))

static uint64_t device_runs(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return c.kernels;
}

static const float six[] = {1, 2, 3, 4, 5, 6};

START_TEST(lists_may_have_a_length_known_at_run_time_only)
{
    TN_SCOPE;
    const int64_t dims[] = {2, 3};
    tn_tensor *t[2];
    for (size_t i = 0; i < 2; i++)
        t[i] = tn_add(tn_reshape(tn_from_data(six, SHAPE(6)), SHAPE_N(2, dims)), (int)i);
    const uint64_t before = device_runs();
    ck_assert(tn_realize_all(IN_N(2, t)));
    ck_assert_uint_gt(device_runs(), before);
    ck_assert_int_eq(tn_ndim(t[0]), 2);
    expect(t[0], 1, 2, 3, 4, 5, 6);
    expect(t[1], 2, 3, 4, 5, 6, 7);
}
END_TEST

START_TEST(half_of_the_random_state_may_be_asked_for)
{
    uint64_t key = 0, counter = 7;
    tn_manual_seed(11);
    tn_random_state(&key, NULL);
    tn_random_state(NULL, &counter);
    ck_assert_uint_eq(key, 11);
    ck_assert_uint_eq(counter, 0);
}
END_TEST

START_TEST(text_is_that_of_numpy)
{
    TN_SCOPE;
    const tn_shape shape = {(size_t)golden[_i].rank, golden[_i].dims};
    tn_tensor *t = tn_from_data(golden_data + golden[_i].at, &shape, .dtype = golden[_i].dt);
    char *text = tn_repr(t);
    ck_assert_msg(text != NULL, "%s", tn_ok() ? "" : tn_last_error()->msg);
    ck_assert_msg(!strcmp(text, golden[_i].text), "case %d:\n%s\nis not\n%s", _i, text,
                  golden[_i].text);
    tn_text_free(text);
}
END_TEST

START_TEST(data_goes_in_and_out)
{
    TN_SCOPE;
    tn_tensor *t = tn_from_data(six, SHAPE(2, 3));
    expect(t, 1, 2, 3, 4, 5, 6);
    ck_assert_int_eq(tn_dtype_of(t), TN_F32);
    ck_assert_double_eq(tn_item(tn_from_data(six + 3, SHAPE0)), 4);
    const int64_t big = INT64_MAX - 1;
    ck_assert_int_eq(tn_item_i(tn_from_data(&big, SHAPE(1), .dtype = TN_I64)), big);
    tn_tensor *none = tn_from_data(NULL, SHAPE(0, 3));
    ck_assert(tn_data(none, NULL, 0));
    ck_assert_int_eq(tn_numel(none), 0);
    ck_assert_double_eq(tn_item(tn_const(2.5)), 2.5);
    ck_assert_int_eq(tn_item_i(tn_const_i(-3)), -3);
    float buf[6];
    ck_assert(!tn_data(t, buf, 20));
    test_fails(TN_EVALUE, "data: 20 bytes for (2, 3) of float32: it has 24");
    ck_assert(!tn_data(t, NULL, 24));
    test_fails(TN_ENULL, "data: the place to copy to is NULL");
    ck_assert(isnan(tn_item(t)));
    test_fails(TN_ESHAPE, "item: (2, 3) has 6 elements: it must have one");
    ck_assert(tn_bad(tn_from_data(NULL, SHAPE(2))));
    test_fails(TN_ENULL, "from_data: the data is NULL");
    tn_from_data(six, NULL);
    test_fails(TN_ENULL, "from_data: the shape is NULL");
    tn_from_data(six, SHAPE(2, -1));
    test_fails(TN_ESHAPE, "from_data: size -1 of axis 1 in (2, -1): sizes are not negative");
    tn_from_data(six, SHAPE(INT64_MAX / 2), .dtype = TN_F64);
    test_fails(TN_ESHAPE, "the number of elements does not fit 60 bits");
    tn_from_data(six, SHAPE(2), .dtype = (tn_dtype)77);
    test_fails(TN_EDTYPE, "from_data: 77 is no dtype");
    ck_assert(isnan(tn_item(tn_from_data(six, SHAPE(1), .device = "NOSUCH"))));
    test_fails(TN_EDEVICE, "NOSUCH");
}
END_TEST

START_TEST(building_runs_nothing)
{
    TN_SCOPE;
    tn_counters before = {.size = sizeof before}, after = {.size = sizeof after};
    tn_tensor *w = tn_param(tn_from_data(six, SHAPE(6)));
    tn_counters_get(&before);
    tn_tensor *loss = tn_backward(handle_sum(handle_binary(TN_OP_MUL, w, w)));
    tn_counters_get(&after);
    ck_assert_uint_eq(before.kernels, after.kernels);
    ck_assert_double_eq(tn_item(loss), 91);
    tn_counters_get(&after);
    ck_assert_uint_gt(after.kernels, before.kernels);
    expect(tn_grad(w), 2, 4, 6, 8, 10, 12);
}
END_TEST

START_TEST(a_small_net_of_writes_learns)
{
    tn_tensor *w = tn_keep(tn_param(tn_from_data((float[]){0, 0, 0}, SHAPE(3))));
    tn_tensor *goal = tn_keep(tn_from_data(six, SHAPE(3)));
    double loss = 0;
    size_t nodes = 0, bytes = 0;
    for (int i = 0; i < 60; i++) {
        TN_SCOPE;
        tn_tensor *d = handle_binary(TN_OP_SUB, w, goal),
                  *l = handle_sum(handle_binary(TN_OP_MUL, d, d));
        tn_zero_grad(IN(w));
        tn_backward(l);
        tn_tensor *rate = tn_from_data((float[]){0.25f, 0.25f, 0.25f}, SHAPE(3));
        tn_assign(w, handle_binary(TN_OP_SUB, w, handle_binary(TN_OP_MUL, rate, tn_grad(w))));
        ck_assert(tn_realize(w));
        loss = tn_item(l);
        if (i == 20) nodes = tn__node_live();
        if (i == 20) bytes = tn__live_bytes();
        if (i > 20) ck_assert_uint_eq(tn__node_live(), nodes);
        if (i > 20) ck_assert_uint_le(tn__live_bytes(), bytes + 256);
    }
    ck_assert_double_eq_tol(loss, 0, 1e-9);
    expect(w, 1, 2, 3);
    tn_free(w);
    tn_free(goal);
}
END_TEST

START_TEST(windows_of_realised_tensors_write_through)
{
    TN_SCOPE;
    tn_tensor *x = tn_keep(tn_from_data(six, SHAPE(3, 2))), *v = handle_rows(x, 1, 1);
    ck_assert(tn_realize(x));
    tn_assign(v, 9);
    expect(x, 1, 2, 9, 9, 5, 6);
    expect(v, 9, 9);
    tn_assign(x, handle_binary(TN_OP_ADD, x, x));
    ck_assert(tn_realize(x));
    expect(v, 18, 18);
    tn_free(x);
}
END_TEST

START_TEST(strided_views_are_written_through)
{
    TN_SCOPE;
    tn__call c;
    tn_tensor *x = tn_keep(tn_from_data(six, SHAPE(6)));
    tn__call_begin(&c, "every_other");
    tn__node *n = tn__window(tn__in_view(x), 0, 1, 2, 1);
    tn_tensor *v = tn__call_view(&c, x, tn__reshape(n, (int64_t[]){3}, 1));
    expect(v, 1, 3, 5);
    tn_assign(v, 0);
    expect(x, 0, 2, 0, 4, 0, 6);
    ck_assert(tn_realize(x));
    tn_assign(x, 8);
    expect(v, 8, 8, 8);
    tn_free(x);
}
END_TEST

START_TEST(pending_writes_run_with_whatever_is_read_first)
{
    TN_SCOPE;
    tn_tensor *a = tn_keep(tn_from_data(six, SHAPE(2))), *b = tn_keep(tn_from_data(six, SHAPE(2)));
    tn_assign(a, handle_binary(TN_OP_ADD, a, b));
    ck_assert_double_eq(tn_item(tn_const(1)), 1);
    tn__cell **cells;
    ck_assert_uint_eq(tn__effects(&cells), 0);
    ck_assert(tn__node_is(tn__cell_of(a)->cur, TN_OP_BUFFER));
    expect(a, 2, 4);
    tn_free(a);
    tn_free(b);
}
END_TEST

START_TEST(a_copy_shares_no_memory_with_what_it_was_made_from)
{
    TN_SCOPE;
    tn_tensor *a = tn_keep(tn_from_data(six, SHAPE(2))),
              *b = tn_keep(tn_from_data(six + 2, SHAPE(2)));
    tn_assign(a, b);
    ck_assert(tn_realize(a));
    tn_assign(handle_rows(a, 0, 1), 7);
    ck_assert(tn_realize(a));
    expect(a, 7, 4);
    expect(b, 3, 4);
    tn_free(a);
    tn_free(b);
}
END_TEST

START_TEST(backward_from_a_realised_kept_result_says_why_not)
{
    TN_SCOPE;
    tn_tensor *w = tn_param(tn_from_data(six, SHAPE(2))), *temp = handle_sum(w),
              *kept = tn_keep(handle_sum(w));
    ck_assert(tn_realize_all(IN(temp, kept)));
    tn_backward(temp); /* a temporary keeps its history */
    expect(tn_grad(w), 1, 1);
    ck_assert(tn_bad(tn_backward(kept)));
    test_fails(TN_EGRAD, "backward: the result was kept and realised, so that its history is gone");
    tn_free(kept);
}
END_TEST

static bool story(void)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(tn_from_data(six, SHAPE(2, 3)))),
              *l = handle_sum(handle_binary(TN_OP_MUL, w, w));
    tn_backward(l);
    tn_assign(w, handle_binary(TN_OP_SUB, w, tn_grad(w)));
    char *text = tn_repr(w);
    bool ok = text && tn_item(l) == 91 && !strcmp(text, "[[-1. -2. -3.]\n [-4. -5. -6.]]");
    tn_text_free(text);
    if (!tn_bad(w)) tn_free(w);
    return ok;
}

START_TEST(every_failing_allocation_of_a_step_is_a_clean_error)
{
    ck_assert(story()); /* devices, kernels and caches are there from now on */
    const size_t nodes = tn__node_live();
    for (uint64_t n = 1;; n++) {
        tn__alloc_fail_at(n);
        bool ok = story();
        tn__alloc_fail_at(0);
        ck_assert_msg(ok == tn_ok(), "allocation %d: %s", (int)n,
                      ok ? "an error without effect" : "no error");
        if (!ok) {
            const tn_code code = tn_last_error()->code;
            ck_assert_msg(code == TN_ENOMEM || code == TN_EOOM, "allocation %d: %s: %s", (int)n,
                          tn_code_name(code), tn_last_error()->msg);
        }
        tn_clear_error();
        tn__cell **cells;
        ck_assert_uint_eq(tn__effects(&cells), 0);
        ck_assert_uint_eq(tn__node_live(), nodes);
        if (ok) break;
        ck_assert_uint_lt(n, 5000);
    }
    ck_assert(story());
}
END_TEST

static int released;
static void on_release(void *p) { released += p == six; }

START_TEST(borrowed_memory_is_written_in_place_and_released)
{
    static float mine[2];
    memcpy(mine, six, sizeof mine);
    released = 0;
    {
        TN_SCOPE;
        tn_tensor *t = tn_from_ptr(mine, SHAPE(2), .release = on_release,
                                   .user = (void *)(uintptr_t)six);
        expect(t, 1, 2);
        if (!tn__cell_of(t)->pinned)
            test_skip("the device %s cannot read host memory", tn_device(t));
        mine[1] = 5;
        expect(t, 1, 5);
        tn_assign(t, handle_binary(TN_OP_ADD, t, t));
        ck_assert(tn_realize(t));
        expect(t, 2, 10);
        ck_assert_float_eq(mine[0], 2);
        ck_assert_float_eq(mine[1], 10);
        tn_assign(handle_rows(t, 0, 1), 7);
        ck_assert(tn_realize(t));
        expect(t, 7, 10);
        ck_assert_float_eq(mine[0], 7);
        ck_assert_int_eq(released, 0);
    }
    ck_assert_int_eq(released, 1);
}
END_TEST

Suite *suite_api(void)
{
    Suite *s = suite_create("api");
    TCase *t = tcase_create("api");
    tcase_add_checked_fixture(t, test_clean_start, test_clean_end);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, lists_may_have_a_length_known_at_run_time_only);
    tcase_add_test(t, half_of_the_random_state_may_be_asked_for);
    tcase_add_loop_test(t, text_is_that_of_numpy, 0, GOLDEN);
    tcase_add_test(t, data_goes_in_and_out);
    tcase_add_test(t, building_runs_nothing);
    tcase_add_test(t, a_small_net_of_writes_learns);
    tcase_add_test(t, windows_of_realised_tensors_write_through);
    tcase_add_test(t, strided_views_are_written_through);
    tcase_add_test(t, pending_writes_run_with_whatever_is_read_first);
    tcase_add_test(t, a_copy_shares_no_memory_with_what_it_was_made_from);
    tcase_add_test(t, backward_from_a_realised_kept_result_says_why_not);
    tcase_add_test(t, every_failing_allocation_of_a_step_is_a_clean_error);
    tcase_add_test(t, borrowed_memory_is_written_in_place_and_released);
    suite_add_tcase(s, t);
    return s;
}
