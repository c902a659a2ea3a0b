/* SPDX-License-Identifier: MIT */
/*
 * Handles, scopes, cells, windows, writes and gradients as the user sees them.  No device: values
 * are those of the naive evaluator.
 */
#include "support/handle_rig.h"
#include "support/naive.h"
#include "test.h"
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/core.h>

/* ---- a few functions of the usual form ---- */

static tn_tensor *full(double v, const int64_t *dims, int rank)
{
    tn__call c;
    tn__call_begin(&c, "full");
    return tn__call_end(&c, tn__const_f(TN_F64, v, dims, rank));
}

/* 0 1 2 ... in the shape */
static tn_tensor *count(const int64_t *dims, int rank)
{
    tn__call c;
    tn__call_begin(&c, "count");
    int64_t n = 1;
    for (int i = 0; i < rank; i++) n *= dims[i];
    return tn__call_end(&c, tn__reshape(tn__iota(TN_F64, 0, &n, 1), dims, rank));
}

static tn_tensor *turn(tn_tensor *a)
{
    tn__call c;
    tn__call_begin(&c, "turn");
    tn__node *x = tn__in_view(a);
    return tn__call_view(&c, a, x ? tn__permute(x, (int[]){1, 0}) : NULL);
}

static tn_tensor *shaped(tn_tensor *a, const int64_t *dims, int rank)
{
    tn__call c;
    tn__call_begin(&c, "shaped");
    tn__node *x = tn__in_view(a);
    return tn__call_view(&c, a, tn__reshape(x, dims, rank));
}

static void expect_at(int line, tn_tensor *t, const double *want, int n)
{
    double got[64];
    tn__call c;
    tn__call_begin(&c, "expect");
    tn__node *x = tn__in(t);
    ck_assert_msg(x != NULL, "line %d: %s", line, x ? "" : tn_last_error()->msg);
    ck_assert_int_eq(tn__node_numel(x), n);
    ck_assert(naive_eval(x, got));
    for (int i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i], "line %d: [%d] is %g, not %g", line, i, got[i], want[i]);
    tn__call_done(&c);
}
#define expect(t, ...)                                    \
    expect_at(__LINE__, t, (const double[]){__VA_ARGS__}, \
              (int)(sizeof((double[]){__VA_ARGS__}) / sizeof(double)))

static const int64_t d3[] = {3}, d23[] = {2, 3}, d32[] = {3, 2}, d6[] = {6};

static size_t nodes_before, handles_before;
static size_t handles(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return (size_t)c.handles;
}

static void setup(void)
{
    tn_clear_error();
    nodes_before = tn__node_live();
    handles_before = handles();
}

static void teardown(void)
{
    tn__cell **cells;
    ck_assert(tn_ok());
    ck_assert_uint_eq(tn__effects(&cells), 0);
    tn__effects_clear();
    ck_assert_uint_eq(tn__node_live(), nodes_before);
    ck_assert_uint_eq(handles(), handles_before);
    ck_assert_uint_eq(tn__live_bytes(), 0);
}

/* ---- scopes ---- */

START_TEST(temporaries_die_with_their_scope)
{
    tn_tensor *t;
    {
        TN_SCOPE;
        t = full(1, d3, 1);
        ck_assert_int_eq(tn_dim(t, 0), 3);
    }
    ck_assert(tn_bad(t));
    ck_assert_int_eq(tn_ndim(t), -1);
    test_fails(TN_ESTALE, "tensor: it is gone: its scope has ended or it was freed");
    TN_SCOPE;
    ck_assert(tn_bad(handle_binary(TN_OP_ADD, t, t)));
    test_fails(TN_ESTALE, "tensor: it is gone");
    tn_tensor *again = full(2, d3, 1); /* takes the same slot */
    ck_assert_ptr_ne(again, t);
    ck_assert(tn_bad(t));
}
END_TEST

static tn_tensor *makes(int way)
{
    for (int i = 0; i < 3; i++) {
        TN_SCOPE;
        tn_tensor *t = full(i, d3, 1);
        if (way == 0 && i == 1) return tn_return(handle_binary(TN_OP_ADD, t, t));
        if (way == 1) break;
        if (way == 2) continue;
    }
    return full(7, d3, 1);
}

START_TEST(scopes_end_on_every_way_out_of_their_block)
{
    TN_SCOPE;
    size_t n = handles();
    expect(makes(0), 2, 2, 2);
    makes(1);
    makes(2);
    ck_assert_uint_eq(handles(), n + 3);
}
END_TEST

START_TEST(scopes_nest_three_hundred_deep)
{
    enum { DEEP = 300 };
    static tn_scope s[DEEP];
    static tn_tensor *t[DEEP];
    for (int i = 0; i < DEEP; i++) {
        tn_scope_open(&s[i]);
        t[i] = full(i, d3, 1);
    }
    expect(t[0], 0, 0, 0);
    ck_assert_ptr_eq(tn_return(t[DEEP - 1]), t[DEEP - 1]);
    tn_scope_end(&s[DEEP - 1]);
    ck_assert(!tn_bad(t[DEEP - 1]));
    tn_scope_end(&s[100]); /* ends those inside as well */
    for (int i = 0; i < DEEP; i++) ck_assert_int_eq(tn_bad(t[i]), i >= 100);
    tn_scope_end(&s[200]);
    for (int i = 99; i >= 0; i--) tn_scope_end(&s[i]);
    for (int i = 0; i < DEEP; i++) ck_assert(tn_bad(t[i]));
}
END_TEST

START_TEST(a_kept_tensor_lives_until_it_was_freed_as_often)
{
    tn_tensor *t;
    {
        TN_SCOPE;
        t = tn_keep(full(3, d3, 1));
    }
    ck_assert_ptr_eq(tn_keep(t), t);
    tn_free(t);
    expect(t, 3, 3, 3);
    tn_free(t);
    ck_assert(tn_bad(t) && tn_ok());
    tn_free(NULL);
    ck_assert(tn_ok());
    tn_free(t);
    test_fails(TN_ESTALE, "free: the tensor is gone already: it was freed twice");
    TN_SCOPE;
    t = full(1, d3, 1);
    tn_free(t); /* a temporary: the scope's business */
    ck_assert(!tn_bad(t) && tn_ok());
}
END_TEST

static int warnings;
static void on_log(void *user, tn_log_level level, const char *msg)
{
    (void)user;
    warnings += level == TN_LOG_WARN &&
                strstr(msg, "temporaries outside of any scope: put TN_SCOPE;");
}

START_TEST(the_root_scope_warns_once_after_ten_thousand_temporaries)
{
    tn_set_log(on_log, NULL);
    for (int i = 0; i < 10000; i++) full(1, d3, 1);
    ck_assert_int_eq(warnings, 0);
    for (int i = 0; i < 10000; i++) full(1, d3, 1);
    ck_assert_int_eq(warnings, 1);
    tn_set_log(NULL, NULL);
}
END_TEST

/* ---- errors ---- */

START_TEST(poison_owns_its_error_and_flows)
{
    TN_SCOPE;
    tn_tensor *bad = handle_binary(TN_OP_ADD, full(1, d3, 1), full(1, d6, 1));
    ck_assert_ptr_nonnull(bad);
    ck_assert(tn_bad(bad));
    test_fails(TN_ESHAPE, "add: shapes (3) and (6) differ: expand first");
    ck_assert(tn_bad(handle_sum(bad))); /* the record was cleared: the poison tells it again */
    test_fails(TN_ESHAPE, "add: shapes (3) and (6) differ");
    ck_assert(tn_bad(handle_rows(bad, 0, 1)));
    test_fails(TN_ESHAPE, "add: shapes (3) and (6) differ");
    tn_tensor *kept = tn_keep(bad);
    ck_assert(tn_bad(kept));
    tn_free(kept);
    ck_assert(tn_bad(handle_binary(TN_OP_ADD, NULL, full(1, d3, 1))));
    test_fails(TN_ENULL, "tensor: NULL where one is needed");
    ck_assert_int_eq(tn_dim(full(1, d23, 2), 2), -1);
    test_fails(TN_EAXIS, "dim: axis 2 of (2, 3): axes are -2 to 1");
    ck_assert_int_eq(tn_dim(full(1, d23, 2), -1), 3);
}
END_TEST

START_TEST(an_error_names_the_outermost_call_and_its_place)
{
    TN_SCOPE;
    tn_at("user.c", 77);
    handle_binary(TN_OP_ADD, full(1, d3, 1), full(1, d6, 1));
    const tn_error *e = tn_last_error();
    ck_assert_str_eq(e->op, "bin");
    ck_assert_str_eq(e->file, "user.c");
    ck_assert_int_eq(e->line, 77);
    tn_clear_error();
}
END_TEST

/* ---- windows and writes ---- */

START_TEST(windows_see_later_writes_and_write_through)
{
    TN_SCOPE;
    tn_tensor *x = count(d23, 2), *v = handle_rows(x, 1, 1), *t = turn(x),
              *tv = handle_rows(t, 0, 1);
    expect(v, 3, 4, 5);
    expect(tv, 0, 3);
    tn_assign(x, full(9, d23, 2));
    expect(v, 9, 9, 9);
    expect(tv, 9, 9);
    tn_assign(v, count(d3, 1));
    expect(x, 9, 9, 9, 0, 1, 2);
    tn_assign(tv, 5);
    expect(x, 5, 9, 9, 5, 1, 2);
    expect(v, 5, 1, 2);
    expect(t, 5, 5, 9, 1, 9, 2);
    tn_assign(shaped(x, d6, 1), count(d6, 1));
    expect(v, 3, 4, 5);
}
END_TEST

START_TEST(a_window_on_a_constant_writes_through)
{
    TN_SCOPE;
    tn_tensor *x = full(0, d23, 2), *k = tn_keep(full(0, d23, 2));
    tn_assign(handle_rows(x, 1, 1), 1);
    tn_assign(handle_rows(k, 0, 1), 2);
    expect(x, 0, 0, 0, 1, 1, 1);
    expect(k, 2, 2, 2, 0, 0, 0);
    tn_free(k);
}
END_TEST

START_TEST(a_movement_that_changes_nothing_is_the_same_tensor)
{
    TN_SCOPE;
    tn_tensor *x = count(d3, 1), *y = shaped(x, d3, 1);
    tn_assign(y, 4);
    expect(x, 4, 4, 4);
}
END_TEST

START_TEST(a_window_outlives_the_tensor_it_shows)
{
    TN_SCOPE;
    tn_tensor *v;
    {
        TN_SCOPE;
        tn_tensor *x = count(d23, 2);
        v = tn_return(handle_rows(x, 1, 1));
        tn_assign(x, 2);
    }
    expect(v, 2, 2, 2);
    tn_assign(v, 3);
    expect(v, 3, 3, 3);
}
END_TEST

START_TEST(expressions_keep_the_version_they_were_built_on)
{
    TN_SCOPE;
    tn_tensor *x = tn_keep(count(d3, 1)), *y = handle_binary(TN_OP_ADD, x, x);
    tn_assign(x, y);
    tn_assign(x, handle_binary(TN_OP_ADD, x, x));
    expect(y, 0, 2, 4);
    expect(x, 0, 4, 8);
    tn_free(x);
}
END_TEST

START_TEST(assign_broadcasts_and_casts)
{
    TN_SCOPE;
    tn_tensor *x = count(d23, 2);
    tn_assign(x, count(d3, 1));
    expect(x, 0, 1, 2, 0, 1, 2);
    tn_assign(x, 2.5);
    ck_assert_int_eq(tn_dtype_of(x), TN_F64);
    tn_assign(x, tn_const_i(-3));
    expect(x, -3, -3, -3, -3, -3, -3);
    ck_assert(tn_bad(tn_assign(x, count(d32, 2))));
    test_fails(TN_ESHAPE,
               "assign: (3, 2) into (2, 3): the value must broadcast to the target's shape");
    tn_assign(x, handle_binary(TN_OP_ADD, count(d3, 1), count(d6, 1)));
    test_fails(TN_ESHAPE, "add: shapes (3) and (6) differ");
    expect(x, -3, -3, -3, -3, -3, -3);
    tn_assign(NULL, 1);
    test_fails(TN_ENULL, "tensor: NULL");
}
END_TEST

START_TEST(writes_that_cannot_be_seen_through_are_refused)
{
    TN_SCOPE;
    tn__call c;
    tn_tensor *x = count(d3, 1);
    tn__call_begin(&c, "wide");
    tn_tensor *wide = tn__call_view(&c, x, tn__expand(tn__in_view(x), d23, 2));
    expect(wide, 0, 1, 2, 0, 1, 2);
    tn_assign(wide, 1);
    test_fails(TN_EVALUE, "update: expand: the view (2, 3) shows one element several times");
    tn__call_begin(&c, "padded");
    tn_tensor *padded = tn__call_view(&c, x,
                                      tn__pad(tn__in_view(x), (int64_t[]){1}, (int64_t[]){0}));
    tn_assign(padded, 1);
    test_fails(TN_EVALUE, "update: pad: it stands between the view and the tensor");
    expect(x, 0, 1, 2);
}
END_TEST

START_TEST(pending_writes_stand_in_program_order_until_nobody_sees_them)
{
    tn__cell **cells;
    tn_tensor *a = tn_keep(full(0, d3, 1)), *b = tn_keep(full(0, d3, 1));
    {
        TN_SCOPE;
        tn_tensor *t = full(0, d3, 1);
        tn_assign(b, 1);
        tn_assign(t, 1);
        tn_assign(a, handle_binary(TN_OP_ADD, b, t));
        tn_assign(b, 2);
        ck_assert_uint_eq(tn__effects(&cells), 3);
        ck_assert_ptr_eq(cells[0], tn__cell_of(b));
        ck_assert_ptr_eq(cells[2], tn__cell_of(a));
    }
    ck_assert_uint_eq(tn__effects(&cells), 2); /* t is gone */
    ck_assert_uint_eq(tn__cell_of(a)->cur->kept, 1);
    tn_free(b);
    ck_assert_uint_eq(tn__effects(&cells), 1);
    tn_free(a);
}
END_TEST

/* ---- gradients ---- */

START_TEST(backward_adds_to_the_gradients_of_parameters)
{
    tn_tensor *w = tn_keep(tn_param(count(d3, 1))), *u = tn_keep(tn_param(full(2, d3, 1)));
    TN_SCOPE;
    ck_assert(tn_is_param(w) && !tn_has_grad(w));
    tn_tensor *loss = handle_sum(handle_binary(TN_OP_MUL, handle_binary(TN_OP_MUL, w, w), u));
    ck_assert_ptr_eq(tn_backward(loss), loss);
    expect(tn_grad(w), 0, 4, 8);
    expect(tn_grad(u), 0, 1, 4);
    tn_backward(handle_sum(w));
    expect(tn_grad(w), 1, 5, 9);
    expect(tn_grad(u), 0, 1, 4);
    tn__node *root[8];
    ck_assert_uint_eq(tn__joined(root), 2);
    tn_zero_grad(IN(w, NULL, u));
    ck_assert(!tn_has_grad(w));
    ck_assert(tn_bad(tn_grad(w)));
    test_fails(TN_EGRAD, "grad: the parameter has no gradient yet");
    tn_free(w);
    tn_free(u);
}
END_TEST

START_TEST(a_parameter_stays_one_when_it_is_written)
{
    tn_tensor *w = tn_keep(tn_param(full(3, d3, 1)));
    TN_SCOPE;
    tn_assign(w, count(d3, 1));
    tn_backward(handle_sum(handle_binary(TN_OP_MUL, w, w)));
    expect(tn_grad(w), 0, 2, 4);
    tn_assign(handle_rows(w, 0, 1), 7);
    expect(w, 7, 1, 2);
    ck_assert(tn_is_param(w));
    tn_backward(handle_sum(handle_binary(TN_OP_MUL, handle_rows(w, 0, 1), handle_rows(w, 0, 1))));
    expect(tn_grad(w), 14, 2, 4);
    tn_free(w);
}
END_TEST

START_TEST(two_parameters_with_equal_values_stay_two)
{
    TN_SCOPE;
    tn_tensor *a = tn_param(full(1, d3, 1)), *b = tn_param(full(1, d3, 1));
    tn_backward(handle_sum(handle_binary(TN_OP_SUB, a, b)));
    expect(tn_grad(a), 1, 1, 1);
    expect(tn_grad(b), -1, -1, -1);
}
END_TEST

START_TEST(backward_says_what_is_wrong)
{
    TN_SCOPE;
    tn_tensor *w = tn_param(count(d3, 1)), *x = count(d3, 1);
    ck_assert(tn_bad(tn_backward(handle_binary(TN_OP_MUL, w, w))));
    test_fails(
        TN_EGRAD,
        "backward: the result has shape (3): it must be a scalar: take its sum or mean first");
    tn_backward(handle_sum(x));
    test_fails(
        TN_EGRAD,
        "backward: the result depends on no parameter: mark the tensors to train with tn_param");
    ck_assert(!tn_has_grad(w));
    ck_assert(tn_bad(tn_grad(x)));
    test_fails(TN_EGRAD, "grad: the tensor is no parameter");
    tn_param(tn_const_i(3));
    test_fails(TN_EDTYPE, "param: int32: only floats have gradients");
    tn_param(handle_rows(x, 0, 1));
    test_fails(TN_EVALUE, "param: the tensor is a view");
}
END_TEST

START_TEST(gradient_is_asked_for_any_tensor)
{
    TN_SCOPE;
    tn_tensor *x = count(d3, 1), *mid = handle_binary(TN_OP_MUL, x, x), *v = handle_rows(mid, 1, 2),
              *out[3];
    tn_tensor *loss = handle_sum(handle_binary(TN_OP_MUL, v, v));
    ck_assert(tn_gradient(loss, IN(x, mid, v), out));
    expect(out[0], 0, 4, 32);
    expect(out[1], 0, 2, 8);
    expect(out[2], 2, 8);
    ck_assert(tn_gradient(mid, IN(x), full(2, d3, 1), out));
    expect(out[0], 0, 4, 8);
    tn_tensor *second[1];
    ck_assert(tn_gradient(handle_sum(out[0]), IN(x), second));
    expect(second[0], 4, 4, 4);
    ck_assert(!tn_gradient(loss, IN(x, count(d3, 1)), out));
    ck_assert(tn_bad(out[0]) && tn_bad(out[1]));
    test_fails(TN_EGRAD, "gradient: the result does not depend on input 1, float64 (3)");
    ck_assert(!tn_gradient(mid, IN(x), out));
    test_fails(TN_EGRAD, "gradient: the result has shape (3): it must be a scalar");
    ck_assert(!tn_gradient(tn_detach(loss), IN(x), out));
    test_fails(TN_EGRAD, "does not depend on input 0");
}
END_TEST

START_TEST(random_state_can_be_taken_and_restored)
{
    uint64_t key, counter;
    tn__build b;
    tn_manual_seed(5);
    tn__build_begin(&b);
    double one[6], two[6], three[6];
    ck_assert(naive_eval(tn__random_bits(d6, 1), one));
    tn_random_state(&key, &counter);
    ck_assert_uint_eq(key, 5);
    ck_assert_uint_eq(counter, 6);
    ck_assert(naive_eval(tn__random_bits(d6, 1), two));
    tn_random_restore(key, counter);
    ck_assert(naive_eval(tn__random_bits(d6, 1), three));
    ck_assert_mem_eq(two, three, sizeof two);
    ck_assert_mem_ne(one, two, sizeof two);
    tn__build_end(&b, NULL);
}
END_TEST

START_TEST(lifted_numbers_are_weak_constants)
{
    TN_SCOPE;
    tn__call c;
    tn__call_begin(&c, "weak");
    unsigned char small = 200;
    tn__node *n = tn__in(TN_LIFT(small));
    ck_assert(tn__is_weak(n) && n->dt == TN_I64 && n->scalar.i == 200);
    n = tn__in(TN_LIFT(UINT64_MAX));
    ck_assert(tn__is_weak(n) && n->dt == TN_U64 && n->scalar.u == UINT64_MAX);
    n = tn__in(TN_LIFT(0.1));
    ck_assert(tn__is_weak(n) && n->dt == TN_F64 && n->scalar.f == 0.1);
    ck_assert(!tn__is_weak(tn__in(tn_const(1))));
    tn__call_done(&c);
    ck_assert_ptr_null(TN_LIFT(NULL));
    ck_assert_int_eq(tn_dtype_of(tn_const(1)), TN_F32);
    ck_assert_int_eq(tn_dtype_of(tn_const_i(INT64_C(1) << 40)), TN_I64);
}
END_TEST

/* ---- threads, memory ---- */

static tn_tensor *shared_view;
static void *reader(void *p)
{
    for (int i = 0; i < 200; i++) {
        TN_SCOPE;
        double got[3];
        tn__call c;
        tn__call_begin(&c, "reader");
        if (!naive_eval(tn__in(shared_view), got) || got[2] != 4) *(int *)p = 1;
        tn__call_done(&c);
        if (tn_bad(handle_binary(TN_OP_ADD, shared_view, shared_view)) ||
            tn_dim(handle_rows(shared_view, 0, 1), 0) != 1)
            *(int *)p = 2;
    }
    full(1, d3, 1); /* in the root scope: released when the thread ends */
    return NULL;
}

START_TEST(many_threads_read_one_window)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(count(d23, 2)));
    shared_view = tn_keep(handle_rows(w, 1, 1));
    for (int round = 0; round < 10; round++) {
        pthread_t t[4];
        int bad[4] = {0};
        tn_assign(w, 4);
        for (int i = 0; i < 4; i++)
            ck_assert_int_eq(pthread_create(&t[i], NULL, reader, &bad[i]), 0);
        for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
        for (int i = 0; i < 4; i++) ck_assert_int_eq(bad[i], 0);
    }
    tn_free(shared_view);
    tn_free(w);
}
END_TEST

static void *keeper(void *t)
{
    tn_keep(t);
    int bad = tn_last_error() && tn_last_error()->code == TN_ESTATE;
    tn_clear_error();
    return bad ? t : NULL;
}

START_TEST(a_temporary_is_kept_by_its_own_thread_only)
{
    TN_SCOPE;
    pthread_t p;
    void *got;
    tn_tensor *t = full(1, d3, 1);
    pthread_create(&p, NULL, keeper, t);
    pthread_join(p, &got);
    ck_assert_ptr_eq(got, t);
}
END_TEST

static void story(void)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(count(d23, 2)));
    tn_tensor *loss = handle_sum(handle_binary(TN_OP_MUL, w, w));
    tn_backward(loss);
    tn_backward(loss);
    tn_assign(w, handle_binary(TN_OP_SUB, w, tn_grad(w)));
    tn_assign(handle_rows(w, 0, 1), 1);
    tn__alloc_fail_at(0);
    if (tn_ok()) expect(w, 1, 1, 1, -9, -12, -15);
    tn_free(tn_bad(w) ? NULL : w);
}

START_TEST(every_failing_allocation_is_a_clean_error)
{
    for (uint64_t n = 1;; n++) {
        tn__alloc_fail_at(n);
        story();
        tn__alloc_fail_at(0);
        bool ok = tn_ok();
        if (!ok) ck_assert_int_eq(tn_last_error()->code, TN_ENOMEM);
        tn_clear_error();
        tn__cell **cells;
        ck_assert_uint_eq(tn__effects(&cells), 0);
        tn__effects_clear();
        ck_assert_uint_eq(tn__node_live(), nodes_before);
        ck_assert_uint_eq(tn__live_bytes(), 0);
        if (ok) break;
        ck_assert_uint_lt(n, 2000);
    }
}
END_TEST

START_TEST(writes_that_nobody_sees_do_not_pile_up)
{
    tn_tensor *w = tn_keep(tn_param(count(d3, 1)));
    size_t most = 0;
    for (int i = 0; i < 2000; i++) {
        TN_SCOPE;
        tn_backward(handle_sum(handle_binary(TN_OP_MUL, w, w)));
        tn_zero_grad(IN(w));
        if (i == 200) most = tn__node_live() + 400;
        if (i > 200) ck_assert_uint_le(tn__node_live(), most);
    }
    tn_free(w);
}
END_TEST

START_TEST(a_loop_of_writes_leaves_nothing_behind)
{
    for (int i = 0; i < 1000; i++) {
        story();
        tn__cell **cells;
        ck_assert_uint_eq(tn__effects(&cells), 0);
        ck_assert_uint_eq(tn__node_live(), nodes_before);
    }
}
END_TEST

Suite *suite_handle(void)
{
    Suite *s = suite_create("handle");
    TCase *t = tcase_create("handles");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, temporaries_die_with_their_scope);
    tcase_add_test(t, scopes_end_on_every_way_out_of_their_block);
    tcase_add_test(t, scopes_nest_three_hundred_deep);
    tcase_add_test(t, a_kept_tensor_lives_until_it_was_freed_as_often);
    tcase_add_test(t, poison_owns_its_error_and_flows);
    tcase_add_test(t, an_error_names_the_outermost_call_and_its_place);
    tcase_add_test(t, windows_see_later_writes_and_write_through);
    tcase_add_test(t, a_window_on_a_constant_writes_through);
    tcase_add_test(t, a_movement_that_changes_nothing_is_the_same_tensor);
    tcase_add_test(t, a_window_outlives_the_tensor_it_shows);
    tcase_add_test(t, expressions_keep_the_version_they_were_built_on);
    tcase_add_test(t, assign_broadcasts_and_casts);
    tcase_add_test(t, writes_that_cannot_be_seen_through_are_refused);
    tcase_add_test(t, pending_writes_stand_in_program_order_until_nobody_sees_them);
    tcase_add_test(t, backward_adds_to_the_gradients_of_parameters);
    tcase_add_test(t, a_parameter_stays_one_when_it_is_written);
    tcase_add_test(t, two_parameters_with_equal_values_stay_two);
    tcase_add_test(t, backward_says_what_is_wrong);
    tcase_add_test(t, gradient_is_asked_for_any_tensor);
    tcase_add_test(t, random_state_can_be_taken_and_restored);
    tcase_add_test(t, lifted_numbers_are_weak_constants);
    tcase_add_test(t, many_threads_read_one_window);
    tcase_add_test(t, a_temporary_is_kept_by_its_own_thread_only);
    tcase_add_test(t, every_failing_allocation_is_a_clean_error);
    tcase_add_test(t, writes_that_nobody_sees_do_not_pile_up);
    tcase_add_test(t, a_loop_of_writes_leaves_nothing_behind);
    TCase *r = tcase_create("root scope"); /* its temporaries stay until the process ends */
    tcase_add_test(r, the_root_scope_warns_once_after_ten_thousand_temporaries);
    suite_add_tcase(s, t);
    suite_add_tcase(s, r);
    return s;
}
