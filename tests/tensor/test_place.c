/* SPDX-License-Identifier: MIT */
/* Placements of results: what is carried along, what is refused, moves between two devices. */
#include "device/device.h"
#include "tensor/make.h"
#include "test.h"
#include <string.h>
#include <tenon/core.h>

static tn__build build;
static const tn__placement *one, *other, *whole, *rows, *columns;

static void setup(void)
{
    tn_clear_error();
    tn__build_begin(&build);
    tn__device *dev[2] = {tn__device_get("CPU:0"), tn__device_get("CPU:1")};
    ck_assert_msg(dev[0] && dev[1], "%s", tn_ok() ? "" : tn_last_error()->msg);
    one = tn__placement_one(dev[0]);
    other = tn__placement_one(dev[1]);
    whole = tn__placement_get(dev, 2, -1);
    rows = tn__placement_get(dev, 2, 0);
    columns = tn__placement_get(dev, 2, 1);
}

static void teardown(void)
{
    test_clean_end();
    tn__build_end(&build, NULL);
    ck_assert_uint_eq(tn__node_live(), 0);
}

#define D(...) ((const int64_t[]){__VA_ARGS__})

/* (4, 6) on a placement */
static tn__node *on(const tn__placement *p)
{
    return tn__copy_to(tn__param_node(tn__const_f(TN_F32, 0, D(4, 6), 2), 1), p);
}

static int axis_of(const tn__node *n)
{
    ck_assert_msg(n != NULL, "%s", tn_ok() ? "" : tn_last_error()->msg);
    ck_assert_ptr_nonnull(n->place);
    ck_assert_int_eq(n->place->n, 2);
    return n->place->axis;
}

static void refused_at(int line, const tn__node *n, tn_code code, const char *text)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(!n && e, "line %d: not refused", line);
    ck_assert_msg(e->code == code && strstr(e->msg, text), "line %d: %s", line, e->msg);
    tn_clear_error();
}
#define refused(n, code, text) refused_at(__LINE__, n, code, text)

START_TEST(elementwise_results_live_where_their_operands_do)
{
    tn__node *c = tn__const_f(TN_F32, 2, D(4, 6), 2);
    ck_assert_ptr_eq(tn__binary(TN_OP_ADD, on(one), c)->place, one);
    ck_assert_ptr_eq(tn__binary(TN_OP_ADD, c, on(other))->place, other);
    ck_assert_int_eq(axis_of(tn__binary(TN_OP_ADD, on(whole), on(rows))), 0);
    ck_assert_int_eq(axis_of(tn__binary(TN_OP_ADD, on(columns), on(whole))), 1);
    ck_assert_int_eq(axis_of(tn__unary(TN_OP_SIN, on(rows))), 0);
    refused(tn__binary(TN_OP_ADD, on(one), on(other)), TN_EDEVICE,
            "add: the operands are on CPU:0 and CPU:1: bring them to one place with tn_to");
    ck_assert_int_eq(axis_of(tn__binary(TN_OP_MUL, on(rows), on(columns))), 0);
    ck_assert_int_eq(axis_of(tn__binary(TN_OP_MUL, on(columns), on(rows))), 1);
    refused(tn__binary(TN_OP_MUL, on(one), on(rows)), TN_EDEVICE, "CPU:0 and CPU:0 and others");
}
END_TEST

START_TEST(movement_carries_the_split_axis_along)
{
    ck_assert_int_eq(axis_of(tn__permute(on(rows), (int[]){1, 0})), 1);
    ck_assert_int_eq(axis_of(tn__reshape(on(rows), D(2, 2, 6), 3)), 0);
    ck_assert_int_eq(axis_of(tn__reshape(on(rows), D(24), 1)), 0);
    ck_assert_int_eq(axis_of(tn__reshape(on(rows), D(1, 4, 6), 3)), 1);
    ck_assert_int_eq(axis_of(tn__reshape(on(columns), D(4, 2, 3), 3)), 1);
    ck_assert_int_eq(axis_of(tn__shrink(on(rows), D(0, 1), D(4, 2))), 0);
    ck_assert_int_eq(axis_of(tn__pad(on(rows), D(0, 1), D(0, 0))), 0);
    ck_assert_int_eq(axis_of(tn__flip(on(rows), 2)), 0);
    ck_assert_int_eq(axis_of(tn__window(on(columns), 0, 2, 1, 1)), 2);
    ck_assert_int_eq(axis_of(tn__window(on(rows), 1, 2, 1, 1)), 0);
    ck_assert_int_eq(axis_of(tn__expand(on(rows), D(3, 4, 6), 3)), 1);
    ck_assert_int_eq(axis_of(tn__reshape(on(columns), D(24), 1)), -1); /* whole on each device */
    ck_assert_int_eq(axis_of(tn__shrink(on(rows), D(1, 0), D(2, 6))), -1);
    ck_assert_int_eq(axis_of(tn__flip(on(rows), 1)), -1);
    ck_assert_int_eq(axis_of(tn__window(on(rows), 0, 2, 1, 1)), -1);
}
END_TEST

START_TEST(a_reduction_over_the_split_axis_is_whole_everywhere)
{
    ck_assert_int_eq(axis_of(tn__reduce(TN_OP_ADD, on(rows), 1)), -1);
    ck_assert_int_eq(axis_of(tn__reduce(TN_OP_ADD, on(rows), 3)), -1);
    ck_assert_int_eq(axis_of(tn__reduce(TN_OP_ADD, on(rows), 2)), 0);
}
END_TEST

START_TEST(copies_split_evenly_or_not_at_all)
{
    tn__node *x = tn__const_f(TN_F32, 1, D(3, 6), 2);
    refused(tn__copy_to(x, rows), TN_ESHAPE,
            "copy: axis 0 of (3, 6) does not split evenly over 2 devices");
    refused(tn__copy_to(tn__const_f(TN_F32, 1, D(4), 1), columns), TN_EAXIS,
            "copy: (4) cannot be split along axis 1");
    ck_assert(tn__node_is(tn__copy_to(x, columns), TN_OP_CONST));
    ck_assert_int_eq(axis_of(tn__copy_to(x, columns)), 1);
}
END_TEST

START_TEST(gathered_rows_follow_the_indices_and_the_batch)
{
    tn__node *table = tn__reshape(on(rows), D(1, 4, 6), 3); /* split along V */
    tn__node *idx = tn__const_i(TN_I32, 0, D(1, 8), 2);
    ck_assert_int_eq(axis_of(table), 1);
    ck_assert_int_eq(axis_of(tn__gather(table, idx)), 1);
    ck_assert_int_eq(axis_of(tn__gather(table, tn__const_i(TN_I32, 0, D(1, 7), 2))), -1);
    ck_assert_int_eq(
        axis_of(tn__gather(tn__reshape(on(whole), D(1, 4, 6), 3), tn__copy_to(idx, columns))), 1);
    ck_assert_int_eq(axis_of(tn__gather(tn__reshape(on(rows), D(4, 1, 6), 3),
                                        tn__const_i(TN_I32, 0, D(4, 2), 2))),
                     0);
}
END_TEST

START_TEST(gradients_go_back_to_where_the_operand_was)
{
    tn__node *x = on(one), *y = tn__copy_to(tn__binary(TN_OP_MUL, x, x), other), *g;
    ck_assert(tn__gradient(tn__reshape(tn__reduce(TN_OP_ADD, y, 3), NULL, 0), NULL, &x, 1, &g));
    ck_assert_ptr_eq(g->place, one);
}
END_TEST

START_TEST(a_tensor_is_copied_to_another_device)
{
    TN_SCOPE;
    const float v[] = {1, 2, 3};
    float got[3];
    tn_tensor *a = tn_from_data(v, SHAPE(3), .device = "CPU:0"), *b = tn_to(a, "CPU:1");
    ck_assert_str_eq(tn_device(a), "CPU:0");
    ck_assert_str_eq(tn_device(b), "CPU:1");
    ck_assert(tn_bad(tn_to(a, "NOSUCH")));
    ck_assert_int_eq(tn_last_error()->code, TN_EDEVICE);
    tn_clear_error();
    ck_assert(tn_data(b, got, sizeof got));
    ck_assert_mem_eq(got, v, sizeof v);
}
END_TEST

Suite *suite_place(void)
{
    Suite *s = suite_create("place");
    TCase *t = tcase_create("place");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, elementwise_results_live_where_their_operands_do);
    tcase_add_test(t, movement_carries_the_split_axis_along);
    tcase_add_test(t, a_reduction_over_the_split_axis_is_whole_everywhere);
    tcase_add_test(t, copies_split_evenly_or_not_at_all);
    tcase_add_test(t, gathered_rows_follow_the_indices_and_the_batch);
    tcase_add_test(t, gradients_go_back_to_where_the_operand_was);
    TCase *m = tcase_create("moves");
    tcase_add_test(m, a_tensor_is_copied_to_another_device);
    suite_add_tcase(s, t);
    suite_add_tcase(s, m);
    return s;
}
