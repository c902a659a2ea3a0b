/* SPDX-License-Identifier: MIT */
/* tn_replace: a handle stands for another tensor; nothing is written. */
#include "../test.h"
#include "base/base.h"
#include <string.h>
#include <tenon/tenon.h>

static void expect(tn_tensor *t, int n, const double *want)
{
    double got[16];
    ck_assert_msg(tn_data(tn_double(t), got, (size_t)n * sizeof *got), "%s",
                  tn_last_error() ? tn_last_error()->msg : "?");
    for (int i = 0; i < n; i++) ck_assert_double_eq(got[i], want[i]);
}
#define EXPECT(t, ...) \
    expect(t, (int)(sizeof(double[]){__VA_ARGS__} / sizeof(double)), (double[]){__VA_ARGS__})

static void fails(tn_tensor *t, tn_code code, const char *text)
{
    ck_assert(tn_bad(t));
    ck_assert_msg(tn_last_error()->code == code && strstr(tn_last_error()->msg, text), "%s: %s",
                  tn_code_name(tn_last_error()->code), tn_last_error()->msg);
    tn_clear_error();
}

START_TEST(the_handle_stands_for_the_other_value_dtype_included)
{
    TN_SCOPE;
    tn_tensor *t = tn_full(SHAPE(3), 1.5), *x = tn_arange(3);
    ck_assert_ptr_eq(tn_replace(t, x), t);
    ck_assert_int_eq(tn_dtype_of(t), TN_I32);
    EXPECT(t, 0, 1, 2);
    EXPECT(tn_add(t, 1), 1, 2, 3);
}
END_TEST

START_TEST(views_and_expressions_keep_what_they_were_built_on)
{
    TN_SCOPE;
    tn_tensor *t = tn_keep(tn_add(tn_arange(3), 1)), *view = tn_flip(t, AX(0)), *y = tn_mul(t, 10);
    tn_replace(t, tn_full(SHAPE(3), 7));
    EXPECT(view, 3, 2, 1);
    EXPECT(y, 10, 20, 30);
    tn_assign(view, 0);
    EXPECT(t, 7, 7, 7);
    tn_replace(view, t); /* a view becomes a tensor of its own */
    tn_assign(view, 4);
    EXPECT(t, 7, 7, 7);
    EXPECT(view, 4, 4, 4);
    tn_free(t);
}
END_TEST

START_TEST(a_kept_tensor_stays_kept_and_later_writes_are_its_own)
{
    tn_tensor *t, *x = tn_keep(tn_full(SHAPE(2), 3.0));
    {
        TN_SCOPE;
        t = tn_keep(tn_zeros(SHAPE(2)));
        tn_replace(t, x);
        tn_replace(t, tn_add(t, 1)); /* from its own value */
    }
    {
        TN_SCOPE;
        EXPECT(t, 4, 4);
        tn_replace(t, x);
        tn_assign(t, 9);
        EXPECT(x, 3, 3);
        tn_replace(t, t);
        EXPECT(t, 9, 9);
    }
    tn_free(t);
    tn_free(x);
}
END_TEST

START_TEST(a_parameter_stays_one_with_gradients_of_its_new_value)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(tn_full(SHAPE(2), 2.0)));
    tn_backward(tn_sum(tn_mul(w, w)));
    tn_replace(w, tn_full(SHAPE(2), 5.0));
    ck_assert(tn_is_param(w) && !tn_has_grad(w));
    tn_backward(tn_sum(tn_mul(w, w)));
    EXPECT(tn_grad(w), 10, 10);
    tn_free(w);
}
END_TEST

START_TEST(a_replaced_tensor_feels_gradients_through_what_it_stands_for)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(tn_full(SHAPE(2), 3.0))), *t = tn_zeros(SHAPE(2));
    tn_replace(t, tn_mul(w, w));
    tn_backward(tn_sum(t));
    EXPECT(tn_grad(w), 6, 6);
    tn_free(w);
}
END_TEST

START_TEST(what_does_not_fit_changes_nothing)
{
    TN_SCOPE;
    tn_tensor *t = tn_full(SHAPE(2), 3.0);
    fails(tn_replace(t, tn_zeros(SHAPE(1))), TN_ESHAPE,
          "replace: (2) by (1): the shapes must be equal");
    fails(tn_replace(t, NULL), TN_ENULL, "tensor: NULL where one is needed");
    EXPECT(t, 3, 3);
}
END_TEST

static tn_tensor *swap(void *user, const tn_inputs *in)
{
    return tn_replace(user, tn_add(in->t[0], 1));
}

START_TEST(a_jits_function_must_assign_instead)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_zeros(SHAPE(2)));
    tn_jit *j = tn_jit_new(swap, w);
    fails(tn_jit_call(j, IN(tn_from_data((float[]){1, 2}, SHAPE(2), .dtype = TN_F32))), TN_ESTATE,
          "replace: inside a capture");
    EXPECT(w, 0, 0);
    tn_jit_free(j);
    tn_free(w);
}
END_TEST

START_TEST(a_tensor_moves_to_other_devices_in_place)
{
    TN_SCOPE;
    tn_tensor *t = tn_keep(tn_add(tn_arange(4), 1)), *y = tn_mul(t, 10);
    tn_devices both = {2, (const char *const[]){"CPU:0", "CPU:1"}};
    ck_assert_ptr_eq(tn_to_(t, "CPU:1"), t);
    ck_assert_str_eq(tn_device(t), "CPU:1");
    EXPECT(t, 1, 2, 3, 4);
    ck_assert_ptr_eq(tn_shard_(t, &both, 0), t);
    EXPECT(tn_to(tn_add(t, 1), "CPU:0"), 2, 3, 4, 5);
    tn_tensor *z = tn_shard_like(tn_from_data((float[]){1, 2, 3, 4}, SHAPE(4), .dtype = TN_F32), t);
    EXPECT(tn_to(tn_add(z, t), "CPU:0"), 2, 4, 6, 8);
    EXPECT(y, 10, 20, 30, 40);
    fails(tn_shard_like(tn_zeros(SHAPE(3)), t), TN_ESHAPE, "3 does not divide evenly");
    fails(tn_to_(t, "NOWHERE"), TN_EDEVICE, "NOWHERE");
    fails(tn_shard_(t, &both, 5), TN_EAXIS, "shard: axis 5 of (4)");
    EXPECT(tn_to(t, "CPU:0"), 1, 2, 3, 4);
    tn_free(t);
}
END_TEST

START_TEST(every_failing_allocation_is_a_clean_error)
{
    for (uint64_t n = 1;; n++) {
        tn__alloc_fail_at(n);
        {
            TN_SCOPE;
            tn_tensor *w = tn_keep(tn_param(tn_zeros(SHAPE(2))));
            tn_replace(w, tn_add(tn_flip(w, AX(0)), 1));
            tn_free(tn_bad(w) ? NULL : w);
        }
        tn__alloc_fail_at(0);
        bool ok = tn_ok();
        if (!ok) ck_assert_int_eq(tn_last_error()->code, TN_ENOMEM);
        tn_clear_error();
        if (ok) break;
        ck_assert_uint_lt(n, 500);
    }
}
END_TEST

Suite *suite_replace(void)
{
    Suite *s = suite_create("replace");
    TCase *t = tcase_create("replace");
    tcase_add_test(t, the_handle_stands_for_the_other_value_dtype_included);
    tcase_add_test(t, views_and_expressions_keep_what_they_were_built_on);
    tcase_add_test(t, a_kept_tensor_stays_kept_and_later_writes_are_its_own);
    tcase_add_test(t, a_parameter_stays_one_with_gradients_of_its_new_value);
    tcase_add_test(t, a_replaced_tensor_feels_gradients_through_what_it_stands_for);
    tcase_add_test(t, what_does_not_fit_changes_nothing);
    tcase_add_test(t, a_jits_function_must_assign_instead);
    tcase_add_test(t, a_tensor_moves_to_other_devices_in_place);
    tcase_add_test(t, every_failing_allocation_is_a_clean_error);
    suite_add_tcase(s, t);
    return s;
}
