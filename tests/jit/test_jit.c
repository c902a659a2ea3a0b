/* SPDX-License-Identifier: MIT */
/*
 * Captured functions: replays against eager steps, closures, written tensors, gradients, results that are kept
 * or fed back, several results, threads.  Bits are compared, not nearness.
 */
#include "jit_rig.h"
#include <pthread.h>

static int ran; /* calls of the functions below */

static tn_tensor *twice_plus(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    return tn_add(tn_mul(in->t[0], 2), in->t[1]);
}

START_TEST(the_function_runs_twice_and_is_replayed_then)
{
    tn_jit *j = tn_jit_new(twice_plus, NULL);
    ran = 0;
    for (int i = 0; i < 5; i++) {
        TN_SCOPE;
        tn_tensor *y = tn_jit_call(j, IN(ramp((float)i, 1), ramp(10, (float)i)));
        float want[LEN];
        for (int k = 0; k < LEN; k++) want[k] = 2 * ((float)i + (float)k) + 10 + (float)(i * k);
        same(y, want);
    }
    ck_assert_int_eq(ran, 2);
    tn_jit_reset(j);
    {
        TN_SCOPE;
        tn_jit_call(j, IN(ramp(0, 1), ramp(1, 1)));
    }
    ck_assert_int_eq(ran, 3);
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

/* ---- a network of one layer, trained by hand ---- */

typedef struct {
    tn_tensor *w, *b, *lr;
    bool noise;
} net;

static void net_make(net *n)
{
    TN_SCOPE;
    float w[LEN], b = 0.25f, lr = 0.05f;
    for (int i = 0; i < LEN; i++) w[i] = 0.1f * (float)(i + 1);
    n->w = tn_keep(tn_param(vec(w, LEN)));
    n->b = tn_keep(tn_param(vec(&b, 1)));
    n->lr = tn_keep(vec(&lr, 1));
}

static void net_free(net *n)
{
    tn_free(n->w);
    tn_free(n->b);
    tn_free(n->lr);
}

/* The loss of a step that moves the parameters against their gradients. */
static tn_tensor *train(void *user, const tn_inputs *in)
{
    net *n = user;
    ran++;
    tn_tensor *x = in->t[0], *y = in->t[1];
    if (n->noise) x = tn_add(x, tn_rand(SHAPE(LEN)));
    tn_tensor *d = tn_sub(tn_add(tn_mul(x, n->w), n->b), y);
    tn_zero_grad(IN(n->w, n->b));
    tn_tensor *loss = tn_backward(tn_mean(tn_mul(d, d)));
    tn_assign(n->w, tn_sub(tn_detach(n->w), tn_mul(n->lr, tn_grad(n->w))));
    tn_assign(n->b, tn_sub(tn_detach(n->b), tn_mul(n->lr, tn_grad(n->b))));
    return loss;
}

typedef struct {
    float loss[64], w[LEN], b, grad[LEN];
    uint64_t counter;
} history;

static void run_training(const char *device, history *h, int steps, int jit, bool noise)
{
    TN_WITH_DEVICE(device);
    TN_SCOPE;
    TN_WITH(TN_JIT, jit);
    net n = {.noise = noise};
    uint64_t key;
    net_make(&n);
    tn_manual_seed(7);
    tn_jit *j = tn_jit_new(train, &n);
    for (int i = 0; i < steps; i++) {
        TN_SCOPE;
        h->loss[i] = (float)tn_item(
            tn_jit_call(j, IN(ramp(0.5f * (float)(i % 3), 0.3f), ramp(1, 0.1f * (float)(i % 4)))));
    }
    read_n(n.w, h->w, LEN);
    read_n(n.b, &h->b, 1);
    read_n(tn_grad(n.w), h->grad, LEN);
    tn_random_state(&key, &h->counter);
    tn_jit_free(j);
    net_free(&n);
    test_clean_end();
}

START_TEST(fifty_replays_equal_fifty_eager_steps_bit_for_bit)
{
    static const char *const device[] = {"CPU", "INTERP"};
    for (int i = 0; i < 4; i++) {
        static history eager, replayed, single;
        const bool noise = i & 1;
        run_training(device[i / 2], &eager, 50, 0, noise);
        run_training(device[i / 2], &replayed, 50, 1, noise);
        run_training(device[i / 2], &single, 50, 2, noise);
        ck_assert_mem_eq(&eager, &replayed, sizeof eager);
        ck_assert_mem_eq(&eager, &single, sizeof eager);
        ck_assert(eager.loss[49] < eager.loss[0]);
        ck_assert_uint_eq(eager.counter, noise ? 50 * LEN : 0);
    }
}
END_TEST

START_TEST(random_numbers_of_replays_are_those_of_eager_calls_after_a_new_seed_too)
{
    float eager[6], replayed[6];
    for (int pass = 0; pass < 2; pass++) {
        TN_WITH(TN_JIT, pass);
        net n = {.noise = true};
        TN_SCOPE;
        net_make(&n);
        tn_jit *j = tn_jit_new(train, &n);
        tn_manual_seed(1);
        for (int i = 0; i < 6; i++) {
            TN_SCOPE;
            if (i == 4) tn_manual_seed(99);
            tn_rand(SHAPE(3)); /* somebody else draws too */
            (pass ? replayed
                  : eager)[i] = (float)tn_item(tn_jit_call(j, IN(ramp(0, 1), ramp(1, 1))));
        }
        tn_jit_free(j);
        net_free(&n);
    }
    ck_assert_mem_eq(eager, replayed, sizeof eager);
    test_clean_end();
}
END_TEST

/* ---- closures and written tensors ---- */

typedef struct {
    tn_tensor *a, *b, *sum;
} box;

static tn_tensor *scaled(void *user, const tn_inputs *in)
{
    box *x = user;
    ran++;
    tn_tensor *y = tn_add(tn_mul(in->t[0], x->a), x->b);
    if (x->sum) tn_assign(x->sum, tn_add(x->sum, y));
    return y;
}

START_TEST(closures_that_are_assigned_between_calls_are_seen)
{
    TN_SCOPE;
    box x = {.a = tn_keep(ramp(1, 0)),
             .b = tn_keep(tn_mul(ramp(1, 0), 3)),
             .sum = tn_keep(tn_zeros(SHAPE(LEN)))};
    tn_jit *j = tn_jit_new(scaled, &x);
    float total = 0;
    ran = 0;
    for (int i = 0; i < 8; i++) {
        TN_SCOPE;
        if (i >= 3) tn_assign(x.a, ramp((float)i, 0));
        if (i == 6) tn_realize(x.a);
        const float a = i < 3 ? 1 : (float)i;
        if (i == 5) tn_assign(x.sum, tn_zeros(SHAPE(LEN)));
        if (i == 5) total = 0;
        tn_tensor *y = tn_jit_call(j, IN(ramp(2, 0)));
        total += 2 * a + 3;
        same(y, (float[LEN]){2 * a + 3, 2 * a + 3, 2 * a + 3, 2 * a + 3, 2 * a + 3, 2 * a + 3});
        same(x.sum, (float[LEN]){total, total, total, total, total, total});
    }
    ck_assert_int_eq(ran, 2);
    tn_jit_free(j);
    tn_free(x.a);
    tn_free(x.b);
    tn_free(x.sum);
    test_clean_end();
}
END_TEST

static tn_tensor *first_half(void *user, const tn_inputs *in)
{
    box *x = user;
    ran++;
    tn_tensor *half = tn_shrink(x->sum, SHAPE(0, LEN / 2));
    tn_assign(half, tn_shrink(in->t[0], SHAPE(LEN / 2, LEN)));
    return tn_add(x->sum, 1);
}

START_TEST(a_part_of_a_tensor_is_written_by_replays)
{
    TN_SCOPE;
    box x = {.sum = tn_keep(ramp(0, 1))};
    tn_jit *j = tn_jit_new(first_half, &x);
    for (int i = 0; i < 5; i++) {
        TN_SCOPE;
        const float v = 10 * (float)i;
        tn_tensor *y = tn_jit_call(j, IN(ramp(v, 1)));
        same(y, (float[LEN]){v + 4, v + 5, v + 6, 4, 5, 6});
        same(x.sum, (float[LEN]){v + 3, v + 4, v + 5, 3, 4, 5});
    }
    tn_jit_free(j);
    tn_free(x.sum);
    test_clean_end();
}
END_TEST

START_TEST(closures_that_shared_memory_at_the_capture_may_part_later)
{
    TN_SCOPE;
    box x = {.a = tn_keep(ramp(1, 0))};
    x.b = tn_keep(tn_cast(x.a, TN_F32)); /* the same node */
    tn_jit *j = tn_jit_new(scaled, &x);
    for (int i = 0; i < 6; i++) {
        TN_SCOPE;
        if (i >= 3) tn_assign(x.b, ramp((float)i, 0));
        const float want = 2 + (i >= 3 ? (float)i : 1);
        same(tn_jit_call(j, IN(ramp(2, 0))), (float[LEN]){want, want, want, want, want, want});
    }
    tn_jit_free(j);
    tn_free(x.a);
    tn_free(x.b);
    test_clean_end();
}
END_TEST

START_TEST(a_temporary_that_is_read_as_a_closure_may_be_assigned_later)
{
    TN_SCOPE;
    box x = {.a = tn_mul(ramp(1, 0), 1), .b = ramp(0, 1)};
    tn_jit *j = tn_jit_new(scaled, &x);
    for (int i = 0; i < 5; i++) {
        if (i == 4) tn_assign(x.b, ramp(100, 0));
        float want[LEN];
        for (int k = 0; k < LEN; k++) want[k] = 2 + (i == 4 ? 100 : (float)k);
        same(tn_jit_call(j, IN(ramp(2, 0))), want);
    }
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

static tn_tensor *bump_input(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    tn_assign(in->t[0], tn_add(in->t[0], 1));
    return NULL;
}

START_TEST(an_input_that_is_written_changes_for_the_caller)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(bump_input, NULL);
    tn_tensor *kept = tn_keep(ramp(0, 0));
    for (int i = 0; i < 4; i++) {
        ck_assert_ptr_null(tn_jit_call(j, IN(kept)));
        const float v = (float)(i + 1);
        same(kept, (float[LEN]){v, v, v, v, v, v});
    }
    tn_tensor *other = ramp(5, 0);
    tn_jit_call(j, IN(other));
    same(other, (float[LEN]){6, 6, 6, 6, 6, 6});
    same(kept, (float[LEN]){4, 4, 4, 4, 4, 4});
    tn_free(kept);
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

/* ---- gradients outside of zero_grad ---- */

static tn_tensor *accumulate(void *user, const tn_inputs *in)
{
    net *n = user;
    ran++;
    return tn_backward(tn_sum(tn_mul(in->t[0], n->w)));
}

START_TEST(gradients_that_accumulate_or_are_forgotten_outside_are_those_of_eager_calls)
{
    for (int zero = 0; zero < 2; zero++) {
        TN_SCOPE;
        net n = {0};
        net_make(&n);
        tn_jit *j = tn_jit_new(accumulate, &n);
        float want = 0;
        for (int i = 0; i < 7; i++) {
            TN_SCOPE;
            if (zero) tn_zero_grad(IN(n.w));
            if (zero) want = 0;
            want += (float)i;
            tn_jit_call(j, IN(ramp((float)i, 0)));
            same(tn_grad(n.w), (float[LEN]){want, want, want, want, want, want});
        }
        tn_jit_free(j);
        net_free(&n);
    }
    test_clean_end();
}
END_TEST

/* ---- results ---- */

START_TEST(a_kept_result_lives_on_and_any_other_is_stale_after_the_next_call)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(twice_plus, NULL);
    tn_tensor *kept[5], *last = NULL;
    for (int i = 0; i < 5; i++) {
        tn_tensor *y = tn_jit_call(j, IN(ramp((float)i, 0), ramp(1, 0)));
        kept[i] = i % 2 ? tn_keep(y) : NULL;
        if (last) {
            ck_assert(tn_bad(last));
            ck_assert(tn_item(last) != tn_item(last));
            test_fails(TN_ESTALE, "it is gone");
        }
        last = kept[i] ? NULL : y;
    }
    for (int i = 1; i < 5; i += 2) {
        const float v = 2 * (float)i + 1;
        same(kept[i], (float[LEN]){v, v, v, v, v, v});
        tn_free(kept[i]);
    }
    tn_jit_free(j);
    ck_assert(tn_bad(last));
    test_clean_end();
}
END_TEST

START_TEST(what_was_built_from_a_result_keeps_its_value)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(twice_plus, NULL);
    tn_tensor *lazy[4];
    for (int i = 0; i < 4; i++)
        lazy[i] = tn_add(tn_jit_call(j, IN(ramp((float)i, 0), ramp(1, 0))), 100);
    for (int i = 0; i < 4; i++) {
        const float v = 2 * (float)i + 101;
        same(lazy[i], (float[LEN]){v, v, v, v, v, v});
    }
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

START_TEST(a_result_may_be_fed_back_as_an_input)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(twice_plus, NULL);
    tn_tensor *y = ramp(1, 0);
    float want = 1;
    for (int i = 0; i < 12; i++) {
        y = tn_jit_call(j, IN(y, ramp(1, 0)));
        want = 2 * want + 1;
        same(y, (float[LEN]){want, want, want, want, want, want});
    }
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

static tn_tensor *three(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    tn_jit_output("double", tn_mul(in->t[0], 2));
    tn_jit_output("input", in->t[0]);
    return tn_add(in->t[0], 1);
}

START_TEST(further_results_are_got_by_name)
{
    for (int jit = 0; jit < 3; jit++) {
        TN_WITH(TN_JIT, jit);
        TN_SCOPE;
        tn_jit *j = tn_jit_new(three, NULL);
        tn_tensor *old = NULL;
        for (int i = 0; i < 4; i++) {
            const float v = (float)i;
            tn_tensor *y = tn_jit_call(j, IN(ramp(v, 0)));
            if (old && jit) ck_assert(tn_bad(old));
            old = tn_jit_get(j, "double");
            same(y, (float[LEN]){v + 1, v + 1, v + 1, v + 1, v + 1, v + 1});
            same(old, (float[LEN]){2 * v, 2 * v, 2 * v, 2 * v, 2 * v, 2 * v});
            same(tn_jit_get(j, "input"), (float[LEN]){v, v, v, v, v, v});
        }
        ck_assert(tn_bad(tn_jit_get(j, "doubl")));
        test_fails(TN_EVALUE, "did you mean 'double'");
        tn_jit_free(j);
    }
    test_clean_end();
}
END_TEST

static tn_tensor *inner(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_mul(in->t[0], tn_add(in->t[0], 1));
}

static tn_tensor *by_function(void *user, const tn_inputs *in)
{
    ran++;
    return tn_add(tn_function("inner", inner, user, IN(in->t[0])), 1);
}

START_TEST(a_named_function_gives_its_result_to_the_caller)
{
    TN_SCOPE;
    tn_jit *j = tn_jit_new(by_function, NULL);
    for (int i = 0; i < 4; i++)
        same(tn_jit_call(j, IN(ramp(0, 1))), (float[LEN]){1, 3, 7, 13, 21, 31});
    tn_jit_free(j);
    ck_assert(tn_bad(tn_function("none", NULL, NULL, NULL)));
    test_fails(TN_ENULL, "function: the function of 'none' is NULL");
}
END_TEST

START_TEST(pruned_calls_run_once_and_again_when_a_closure_changes)
{
    TN_SCOPE;
    TN_WITH(TN_JIT, 1);
    box x = {.a = tn_keep(ramp(1, 1)), .b = tn_keep(ramp(1, 0))};
    tn_jit *j = tn_jit_new(scaled, &x, .prune = true);
    for (int i = 0; i < 6; i++) {
        TN_SCOPE;
        if (i == 4) tn_assign(x.a, ramp(2, 0));
        float want[LEN];
        for (int k = 0; k < LEN; k++) want[k] = 2 * (i < 4 ? 1 + (float)k : 2) + 1;
        same(tn_jit_call(j, IN(ramp(2, 0))), want);
    }
    tn_jit_free(j);
    tn_free(x.a);
    tn_free(x.b);
    test_clean_end();
}
END_TEST

/* Sorted rows are stored, so that there is a kernel without an input. */
static tn_tensor *with_table(void *user, const tn_inputs *in)
{
    box *x = user;
    ran++;
    tn_tensor *table = tn_contiguous(tn_cumsum(tn_mul(x->a, x->a), 0));
    return tn_add(in->t[0], tn_cumsum(table, 0));
}

START_TEST(pruning_takes_kernels_out_of_the_replay)
{
    uint64_t kernels[2];
    for (int prune = 0; prune < 2; prune++) {
        TN_SCOPE;
        box x = {.a = tn_keep(ramp(1, 0))};
        tn_jit *j = tn_jit_new(with_table, &x, .prune = prune);
        for (int i = 0; i < 6; i++) {
            TN_SCOPE;
            tn_counters before = {.size = sizeof before}, after = {.size = sizeof after};
            if (i == 5) tn_assign(x.a, ramp(2, 0));
            if (i == 5) tn_realize(x.a);
            tn_tensor *in = ramp((float)i, 0);
            tn_counters_get(&before);
            tn_tensor *y = tn_jit_call(j, IN(in));
            tn_counters_get(&after);
            if (i == 4) kernels[prune] = after.kernels - before.kernels;
            const float a = i == 5 ? 4 : 1, v = (float)i;
            same(y, (float[LEN]){v + a, v + 3 * a, v + 6 * a, v + 10 * a, v + 15 * a, v + 21 * a});
        }
        tn_jit_free(j);
        tn_free(x.a);
    }
    ck_assert_uint_gt(kernels[0], kernels[1]);
    test_clean_end();
}
END_TEST

START_TEST(memory_given_back_is_taken_again)
{
    double loss[2][8];
    for (int pass = 0; pass < 2; pass++) {
        TN_SCOPE;
        net n = {0};
        net_make(&n);
        tn_jit *j = tn_jit_new(train, &n);
        for (int i = 0; i < 8; i++) {
            TN_SCOPE;
            if (pass && i % 2) tn_jit_free_intermediates(j);
            loss[pass][i] = tn_item(tn_jit_call(j, IN(ramp(0, 1), ramp(1, 1))));
        }
        tn_jit_free(j);
        net_free(&n);
    }
    ck_assert_mem_eq(loss[0], loss[1], sizeof loss[0]);
    test_clean_end();
}
END_TEST

/* ---- threads ---- */

static void *train_alone(void *arg)
{
    run_training("CPU", arg, 30, 1, true);
    return NULL;
}

START_TEST(two_jits_in_two_threads_do_not_disturb_each_other)
{
    static history alone, both[2];
    pthread_t t[2];
    run_training("CPU", &alone, 30, 0, true);
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, train_alone, &both[i]), 0);
    for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 2; i++) ck_assert_mem_eq(&both[i], &alone, sizeof alone);
}
END_TEST

Suite *suite_jit(void)
{
    Suite *s = suite_create("jit");
    TCase *t = tcase_create("jit");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, the_function_runs_twice_and_is_replayed_then);
    tcase_add_test(t, fifty_replays_equal_fifty_eager_steps_bit_for_bit);
    tcase_add_test(t, random_numbers_of_replays_are_those_of_eager_calls_after_a_new_seed_too);
    tcase_add_test(t, closures_that_are_assigned_between_calls_are_seen);
    tcase_add_test(t, a_part_of_a_tensor_is_written_by_replays);
    tcase_add_test(t, closures_that_shared_memory_at_the_capture_may_part_later);
    tcase_add_test(t, a_temporary_that_is_read_as_a_closure_may_be_assigned_later);
    tcase_add_test(t, an_input_that_is_written_changes_for_the_caller);
    tcase_add_test(t, gradients_that_accumulate_or_are_forgotten_outside_are_those_of_eager_calls);
    tcase_add_test(t, a_kept_result_lives_on_and_any_other_is_stale_after_the_next_call);
    tcase_add_test(t, what_was_built_from_a_result_keeps_its_value);
    tcase_add_test(t, a_result_may_be_fed_back_as_an_input);
    tcase_add_test(t, further_results_are_got_by_name);
    tcase_add_test(t, a_named_function_gives_its_result_to_the_caller);
    tcase_add_test(t, pruned_calls_run_once_and_again_when_a_closure_changes);
    tcase_add_test(t, pruning_takes_kernels_out_of_the_replay);
    tcase_add_test(t, memory_given_back_is_taken_again);
    tcase_add_test(t, two_jits_in_two_threads_do_not_disturb_each_other);
    suite_add_tcase(s, t);
    return s;
}
