/* SPDX-License-Identifier: MIT */
/* What a jit refuses, by the text of each error, and that a refused call has changed nothing. */
#include "jit_rig.h"
#include <math.h>

static int ran;
static bool broken;

static tn_tensor *add_both(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    return in->n > 1 ? tn_add(in->t[0], in->t[1]) : tn_mul(in->t[0], 2);
}

/* A jit that has captured add_both over two vectors. */
static tn_jit *captured(void)
{
    tn_jit *j = tn_jit_new(add_both, NULL);
    for (int i = 0; i < 2; i++) {
        TN_SCOPE;
        tn_jit_call(j, IN(ramp(0, 1), ramp(1, 1)));
    }
    test_clean_end();
    return j;
}

/* The call gives poison and this error; the jit still replays. */
static void refused(tn_jit *j, tn_tensor *bad, tn_code code, const char *text)
{
    ck_assert(tn_bad(bad));
    test_fails(code, text);
    TN_SCOPE;
    same(tn_jit_call(j, IN(ramp(1, 0), ramp(2, 0))), (float[LEN]){3, 3, 3, 3, 3, 3});
    test_clean_end();
}

START_TEST(inputs_that_differ_from_the_capture_are_named)
{
    TN_SCOPE;
    tn_jit *j = captured();
    float v[4] = {0};
    int32_t w[LEN] = {0};
    refused(j, tn_jit_call(j, IN(ramp(0, 1), vec(v, 4))), TN_EJIT,
            "jit: input 1: shape (4), and the capture has (6)");
    refused(j, tn_jit_call(j, IN(tn_realize(ramp(0, 1)) ? vec(v, 1) : NULL, ramp(0, 1))), TN_EJIT,
            "jit: input 0: shape (1), and the capture has (6)");
    refused(j, tn_jit_call(j, IN(ramp(0, 1), tn_from_data(w, SHAPE(LEN), .dtype = TN_I32))),
            TN_EJIT, "jit: input 1: dtype int32, and the capture has float32");
    refused(j, tn_jit_call(j, IN(ramp(0, 1))), TN_EJIT, "jit: 1 input, and the capture has 2");
    refused(j, tn_jit_call(j, NULL), TN_EJIT, "jit: 0 inputs, and the capture has 2");
    tn_jit_free(j);
}
END_TEST

START_TEST(an_input_on_another_device_is_named)
{
    TN_SCOPE;
    tn_jit *j = captured();
    tn_tensor *far = tn_from_data((float[LEN]){0}, SHAPE(LEN), .dtype = TN_F32, .device = "INTERP");
    if (!strcmp(tn_device(far), tn_device(ramp(0, 1))))
        test_skip("INTERP is the device of all tensors here");
    char text[128];
    snprintf(text, sizeof text, "jit: input 0: device %s, and the capture has %s", tn_device(far),
             tn_device(ramp(0, 1)));
    refused(j, tn_jit_call(j, IN(far, ramp(0, 1))), TN_EJIT, text);
    tn_jit_free(j);
}
END_TEST

START_TEST(what_cannot_be_an_input_is_refused_on_any_call)
{
    for (int calls = 0; calls < 2; calls++) {
        TN_SCOPE;
        tn_jit *j = calls ? captured() : tn_jit_new(add_both, NULL);
        tn_tensor *x = ramp(0, 1), *stale;
        {
            TN_SCOPE;
            stale = ramp(0, 1);
        }
        ran = 0;
        struct {
            tn_tensor *t;
            tn_code code;
            const char *text;
        } row[] = {
            {tn_reshape(ramp(0, 1), SHAPE(LEN)), TN_EJIT, NULL}, /* nothing changes: no view */
            {tn_flip(ramp(0, 1), AX(0)), TN_EJIT, "jit: input 1 is a view of another tensor"},
            {tn_zeros(SHAPE(LEN)), TN_EJIT, "jit: input 1 is a constant without memory, (6)"},
            {tn_const(1), TN_EJIT, "jit: input 1 is a constant without memory, ()"},
            {x, TN_EJIT, "jit: input 1 is the same tensor as input 0: pass it once"},
            {NULL, TN_ENULL, "jit: input 1 is NULL"},
            {stale, TN_ESTALE, "jit: input 1: the tensor is gone"},
            {tn_param(ramp(3, 1)), TN_EJIT, "jit: input 1 is a parameter"},
        };
        for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
            if (!row[i].text) continue;
            ck_assert(tn_bad(tn_jit_call(j, IN(x, row[i].t))));
            test_fails(row[i].code, row[i].text);
        }
        ck_assert_int_eq(ran, 0);
        tn_tensor *poison = tn_add(ramp(0, 1), vec((float[5]){0}, 5));
        tn_clear_error();
        ck_assert(tn_bad(tn_jit_call(j, IN(x, poison))));
        ck_assert_int_eq(tn_last_error()->code, TN_ESHAPE);
        tn_clear_error();
        tn_jit_free(j);
    }
}
END_TEST

START_TEST(an_input_that_has_no_value_yet_is_computed_first)
{
    TN_SCOPE;
    tn_jit *j = captured();
    same(tn_jit_call(j, IN(tn_mul(ramp(1, 0), 5), ramp(2, 0))), (float[LEN]){7, 7, 7, 7, 7, 7});
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

static tn_tensor *with_closure(void *user, const tn_inputs *in)
{
    return tn_add(in->t[0], *(tn_tensor **)user);
}

START_TEST(an_input_that_is_also_a_closure_is_refused)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(ramp(0, 1)), *temporary = ramp(1, 1);
    tn_jit *j = tn_jit_new(with_closure, &w);
    tn_jit_call(j, IN(w));
    test_clean_end();
    ck_assert(tn_bad(tn_jit_call(j, IN(w))));
    test_fails(TN_EJIT, "jit: input 0 is also a closure");
    tn_jit_call(j, IN(ramp(0, 1))); /* the capture */
    test_clean_end();
    ck_assert(tn_bad(tn_jit_call(j, IN(w))));
    test_fails(TN_EJIT, "jit: input 0 is also a closure");
    tn_jit_free(j);
    j = tn_jit_new(with_closure, &temporary);
    tn_jit_call(j, IN(ramp(0, 1)));
    ck_assert(tn_bad(tn_jit_call(j, IN(temporary))));
    test_fails(TN_EJIT, "jit: input 0 is also a closure");
    tn_jit_free(j);
    tn_free(w);
    test_clean_end();
}
END_TEST

static tn_tensor *reads(void *user, const tn_inputs *in)
{
    float v[LEN];
    tn_tensor *y = tn_mul(in->t[0], 2);
    switch (*(int *)user) {
    case 0: return tn_item(tn_sum(y)) > 0 ? y : NULL;
    case 1: return tn_data(y, v, sizeof v) ? y : NULL;
    default: return tn_print(y) ? y : NULL;
    }
}

START_TEST(reading_data_inside_is_refused_on_the_first_call_and_in_the_capture)
{
    TN_SCOPE;
    for (int how = 0; how < 3; how++) {
        tn_jit *j = tn_jit_new(reads, &how);
        for (int i = 0; i < 3; i++) {
            ck_assert(tn_bad(tn_jit_call(j, IN(ramp(1, 1)))));
            test_fails(TN_ESTATE, "jit: data is read inside a captured function");
        }
        TN_WITH(TN_JIT, 0);
        if (how < 2) ck_assert(!tn_bad(tn_jit_call(j, IN(ramp(1, 1)))));
        tn_jit_free(j);
    }
    test_clean_end();
}
END_TEST

static tn_jit *other;
static tn_tensor *calls_a_jit(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_jit_call(other, IN(in->t[0]));
}

START_TEST(a_jit_inside_a_jit_is_refused_and_one_inside_itself_is_busy)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(calls_a_jit, NULL), *inside = tn_jit_new(add_both, NULL);
    other = inside;
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(0, 1)))));
    test_fails(TN_ESTATE, "jit: a jit is called inside another jit's function");
    other = j;
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(0, 1)))));
    test_fails(TN_EBUSY, "jit: this jit is running already");
    other = inside;
    TN_WITH(TN_JIT, 0);
    same(tn_jit_call(j, IN(ramp(0, 1))), (float[LEN]){0, 2, 4, 6, 8, 10});
    tn_jit_free(j);
    tn_jit_free(inside);
    test_clean_end();
}
END_TEST

static tn_tensor *nothing(void *user, const tn_inputs *in)
{
    (void)user;
    return in->n ? in->t[0] : NULL;
}

START_TEST(a_function_that_computes_nothing_is_not_captured)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(nothing, NULL);
    ck_assert_ptr_null(tn_jit_call(j, NULL));
    test_clean_end();
    ck_assert(tn_bad(tn_jit_call(j, NULL)));
    test_fails(TN_EJIT, "jit: the function computes nothing");
    tn_jit_reset(j);
    same(tn_jit_call(j, IN(ramp(0, 1))), (float[LEN]){0, 1, 2, 3, 4, 5});
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(0, 1)))));
    test_fails(TN_EJIT, "jit: the function computes nothing");
    tn_jit_free(j);
}
END_TEST

/* ---- a failed call changes nothing ---- */

static tn_tensor *fails_late(void *user, const tn_inputs *in)
{
    tn_tensor **t = user; /* w, state */
    ran++;
    tn_zero_grad(IN(t[0]));
    tn_tensor *loss = tn_backward(tn_sum(tn_mul(tn_mul(in->t[0], t[0]), tn_rand(SHAPE(LEN)))));
    tn_assign(t[0], tn_sub(tn_detach(t[0]), tn_grad(t[0])));
    tn_assign(t[1], tn_add(t[1], 1));
    if (broken) return tn_add(loss, tn_add(in->t[0], vec((float[5]){0}, 5)));
    return loss;
}

START_TEST(a_step_is_all_or_nothing)
{
    for (int at = 0; at < 3;
         at++) { /* the call that fails: first, capture, first capture after a reset */
        TN_SCOPE;
        tn_tensor *t[2] = {tn_keep(tn_param(ramp(1, 1))), tn_keep(tn_zeros(SHAPE(LEN)))};
        uint64_t key, before, after;
        float w[LEN];
        tn_jit *j = tn_jit_new(fails_late, t);
        for (int i = 0; i < at; i++) tn_jit_call(j, IN(ramp(1, 0)));
        if (at == 2) tn_jit_reset(j);
        test_clean_end();
        read_n(t[0], w, LEN);
        tn_random_state(&key, &before);
        broken = true;
        ck_assert(tn_bad(tn_jit_call(j, IN(ramp(1, 0)))));
        ck_assert_int_eq(tn_last_error()->code, TN_ESHAPE);
        tn_clear_error();
        broken = false;
        tn_random_state(&key, &after);
        ck_assert_uint_eq(before, after);
        ck_assert_int_eq(tn_has_grad(t[0]), at > 0);
        same(t[0], w);
        const float n = (float)at;
        same(t[1], (float[LEN]){n, n, n, n, n, n});
        for (int i = 0; i < 3; i++) tn_jit_call(j, IN(ramp(1, 0)));
        test_clean_end();
        same(t[1], (float[LEN]){n + 3, n + 3, n + 3, n + 3, n + 3, n + 3});
        tn_jit_free(j);
        tn_free(t[0]);
        tn_free(t[1]);
    }
    test_clean_end();
}
END_TEST

START_TEST(an_error_from_before_stays_and_does_not_stop_a_call)
{
    TN_SCOPE;
    tn_jit *j = captured();
    tn_add(ramp(0, 1), vec((float[5]){0}, 5));
    ck_assert(!tn_ok());
    tn_tensor *y = tn_jit_call(j, IN(ramp(1, 0), ramp(2, 0)));
    ck_assert(!tn_bad(y));
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(1, 0)))));
    ck_assert_int_eq(tn_last_error()->code, TN_ESHAPE);
    tn_clear_error();
    tn_jit_free(j);
}
END_TEST

/* ---- what a capture takes for granted ---- */

static tn_tensor *by_training(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    return tn_mul(in->t[0], tn_context_get(TN_TRAINING) ? 2 : 3);
}

static tn_tensor *sets_training(void *user, const tn_inputs *in)
{
    TN_WITH(TN_TRAINING, 1);
    return by_training(user, in);
}

START_TEST(context_variables_that_the_capture_read_are_part_of_the_signature)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(by_training, NULL), *k = tn_jit_new(sets_training, NULL);
    for (int i = 0; i < 3; i++) {
        TN_WITH(TN_TRAINING, 1);
        same(tn_jit_call(j, IN(ramp(1, 0))), (float[LEN]){2, 2, 2, 2, 2, 2});
    }
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(1, 0)))));
    test_fails(TN_EJIT, "jit: TRAINING is 0, and it was 1 when the function was captured");
    for (int i = 0; i < 6; i++) { /* its own setting counts, not the caller's */
        TN_WITH(TN_TRAINING, i & 1);
        same(tn_jit_call(k, IN(ramp(1, 0))), (float[LEN]){2, 2, 2, 2, 2, 2});
    }
    tn_jit_free(j);
    tn_jit_free(k);
    test_clean_end();
}
END_TEST

static double factor;
static int extra;
static tn_tensor *hidden(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    tn_tensor *y = tn_mul(in->t[0], factor);
    if (extra & 16) tn_rand(SHAPE(LEN));
    if (extra & 1) y = tn_exp(y);
    if (extra & 2) y = tn_add(y, vec((float[LEN]){1, 2, 3, 4, 5, (float)extra}, LEN));
    if (extra & 4) y = tn_add(y, tn_rand(SHAPE(LEN)));
    if (extra & 32) tn_rand(SHAPE(LEN));
    return y;
}

START_TEST(a_check_finds_what_the_capture_has_frozen)
{
    static const struct {
        double factor;
        int from, to;
        const char *text;
    } row[] = {
        {3, 0, 0, "jit: check: record 1, const, has other numbers or operands than in the capture"},
        {2, 0, 1, "jit: check: record "},
        {2, 2, 10,
         "jit: check: operand 1, float32 of (6), is another tensor or has other contents"},
        {2, 0, 4, "jit: check: record "},
        {2, 4, 20, "of a random function, is not that of the capture"},
        {2, 4, 36, "jit: check: 12 random words are drawn, and the capture draws 6"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        TN_SCOPE;
        TN_WITH(TN_JIT_CHECK, 3);
        uint64_t key, before, after;
        tn_jit *j = tn_jit_new(hidden, NULL);
        factor = 2;
        extra = row[i].from;
        ran = 0;
        for (int k = 0; k < 8; k++) tn_jit_call(j, IN(ramp(1, 0)));
        test_clean_end(); /* replays 3 and 6 were checked */
        ck_assert_int_eq(ran, 4);
        factor = row[i].factor;
        extra = row[i].to;
        for (int k = 0; k < 2; k++) tn_jit_call(j, IN(ramp(1, 0)));
        test_clean_end();
        tn_random_state(&key, &before);
        ck_assert(tn_bad(tn_jit_call(j, IN(ramp(1, 0)))));
        test_fails(TN_EJIT, row[i].text);
        tn_random_state(&key, &after);
        ck_assert_uint_eq(before, after);
        tn_jit_free(j);
    }
}
END_TEST

static tn_tensor *seeds(void *user, const tn_inputs *in)
{
    (void)user;
    tn_manual_seed(3);
    return tn_add(in->t[0], tn_rand(SHAPE(LEN)));
}

START_TEST(seeding_inside_a_capture_is_refused)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(seeds, NULL);
    tn_jit_call(j, IN(ramp(0, 1)));
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(0, 1)))));
    test_fails(TN_EJIT, "jit: the random generator was seeded inside the captured function");
    tn_jit_free(j);
}
END_TEST

static tn_optim *optim;
static tn_sched *sched;

static tn_tensor *sets_rate(void *user, const tn_inputs *in)
{
    (void)user;
    tn_optim_set_lr(optim, 0.1);
    return tn_add(in->t[0], 1);
}

static tn_tensor *steps_schedule(void *user, const tn_inputs *in)
{
    (void)user;
    tn_sched_step(sched);
    return tn_add(in->t[0], 1);
}

START_TEST(a_learning_rate_is_not_set_inside_a_capture)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(ramp(0, 1)));
    optim = tn_sgd_list(IN(w), .lr = 0.5);
    sched = tn_sched_multistep(optim, (int64_t[]){1}, 1);
    static tn_jit_fn *const fn[] = {sets_rate, steps_schedule};
    static const char *const text[] = {"optim_set_lr: inside a captured function",
                                       "sched_step: inside a captured function"};
    for (int i = 0; i < 2; i++) {
        tn_jit *j = tn_jit_new(fn[i], NULL);
        ck_assert(tn_bad(tn_jit_call(j, IN(ramp(0, 1)))));
        test_fails(TN_ESTATE, text[i]);
        tn_jit_free(j);
    }
    tn_sched_free(sched);
    tn_optim_free(optim);
    tn_free(w);
}
END_TEST

START_TEST(an_input_that_is_split_another_way_is_named)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(add_both, NULL);
    const tn_devices *two = TN_DEVICES("CPU:0", "CPU:1");
    const float v[24] = {0};
    tn_tensor *x = tn_from_data(v, SHAPE(4, 6));
    for (int i = 0; i < 2; i++) tn_jit_call(j, IN(tn_shard(x, two, 0)));
    test_clean_end();
    ck_assert(tn_bad(tn_jit_call(j, IN(tn_shard(x, two, 1)))));
    test_fails(TN_EJIT,
               "jit: input 0: layout: split along axis 1, and the capture along 0: shard it alike");
    tn_jit_free(j);
}
END_TEST

START_TEST(a_function_of_nothing_but_empty_tensors_replays)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(add_both, NULL);
    for (int i = 0; i < 4; i++) {
        tn_tensor *y = tn_jit_call(j, IN(tn_from_data(NULL, SHAPE(0, 3))));
        test_clean_end();
        ck_assert_int_eq(tn_numel(y), 0);
    }
    tn_jit_free(j);
}
END_TEST

static tn_tensor *names_twice(void *user, const tn_inputs *in)
{
    tn_jit_output(user, in->t[0]);
    return tn_jit_output(user, tn_add(in->t[0], 1));
}

START_TEST(names_of_outputs_are_checked)
{
    TN_SCOPE;
    ck_assert(tn_bad(tn_jit_output("x", ramp(0, 1))));
    test_fails(TN_ESTATE, "jit_output: there is no jit's function here");
    static char name[] = "x", empty[] = "";
    tn_jit *j = tn_jit_new(names_twice, name), *k = tn_jit_new(names_twice, empty);
    ck_assert(tn_bad(tn_jit_call(j, IN(ramp(0, 1)))));
    test_fails(TN_EVALUE, "jit_output: 'x' is there already");
    ck_assert(tn_bad(tn_jit_call(k, IN(ramp(0, 1)))));
    test_fails(TN_EVALUE, "jit_output: the name is empty");
    ck_assert(tn_bad(tn_jit_get(j, "x")));
    test_fails(TN_EVALUE, "jit_get: no output 'x' of the latest call");
    ck_assert(tn_bad(tn_jit_get(NULL, "x")));
    test_fails(TN_ENULL, "jit_get: the jit is NULL");
    ck_assert(tn_bad(tn_jit_call(NULL, NULL)));
    test_fails(TN_ENULL, "jit: the jit is NULL");
    ck_assert_ptr_null(tn_jit_new(NULL, NULL));
    test_fails(TN_ENULL, "jit: the function is NULL");
    tn_jit_free(j);
    tn_jit_free(k);
    tn_jit_free(NULL);
    test_clean_end();
}
END_TEST

Suite *suite_jit_errors(void)
{
    Suite *s = suite_create("jit_errors");
    TCase *t = tcase_create("jit_errors");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, inputs_that_differ_from_the_capture_are_named);
    tcase_add_test(t, an_input_on_another_device_is_named);
    tcase_add_test(t, what_cannot_be_an_input_is_refused_on_any_call);
    tcase_add_test(t, an_input_that_has_no_value_yet_is_computed_first);
    tcase_add_test(t, an_input_that_is_also_a_closure_is_refused);
    tcase_add_test(t, reading_data_inside_is_refused_on_the_first_call_and_in_the_capture);
    tcase_add_test(t, a_jit_inside_a_jit_is_refused_and_one_inside_itself_is_busy);
    tcase_add_test(t, a_function_that_computes_nothing_is_not_captured);
    tcase_add_test(t, a_step_is_all_or_nothing);
    tcase_add_test(t, an_error_from_before_stays_and_does_not_stop_a_call);
    tcase_add_test(t, context_variables_that_the_capture_read_are_part_of_the_signature);
    tcase_add_test(t, a_check_finds_what_the_capture_has_frozen);
    tcase_add_test(t, seeding_inside_a_capture_is_refused);
    tcase_add_test(t, names_of_outputs_are_checked);
    tcase_add_test(t, a_learning_rate_is_not_set_inside_a_capture);
    tcase_add_test(t, an_input_that_is_split_another_way_is_named);
    tcase_add_test(t, a_function_of_nothing_but_empty_tensors_replays);
    suite_add_tcase(s, t);
    return s;
}
