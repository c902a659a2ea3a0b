/* SPDX-License-Identifier: MIT */
/*
 * Memory of the jit: steady loops do not grow and do not allocate, a capture does not hold the memory of its
 * call, allocations that fail leave a clean error and no leak.
 */
#include "base/base.h"
#include "device/device.h"
#include "jit_rig.h"
#include "tensor/handle.h"

typedef struct {
    tn_tensor *w, *m;
} state;

static tn_tensor *step(void *user, const tn_inputs *in)
{
    state *s = user;
    tn_tensor *d = tn_sub(tn_mul(in->t[0], s->w), tn_rand(SHAPE(LEN)));
    tn_zero_grad(IN(s->w));
    tn_tensor *loss = tn_backward(tn_mean(tn_mul(d, d)));
    tn_assign(s->m, tn_add(tn_mul(s->m, 0.9), tn_grad(s->w)));
    tn_assign(s->w, tn_sub(tn_detach(s->w), tn_mul(s->m, 0.01)));
    return loss;
}

static void make(state *s)
{
    TN_SCOPE;
    s->w = tn_keep(tn_param(ramp(0.5f, 0.1f)));
    s->m = tn_keep(tn_zeros(SHAPE(LEN)));
}

static void drop(state *s)
{
    tn_free(s->w);
    tn_free(s->m);
}

typedef struct {
    size_t host, nodes, device, handles;
} usage;

static usage now(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    tn__device *d = tn__device_default();
    return (usage){tn__live_bytes(), tn__node_live(), tn__device_bytes(d), (size_t)c.handles};
}

START_TEST(a_thousand_replays_leave_memory_where_it_was_after_ten)
{
    for (int how = 1; how <= 2; how++) {
        TN_WITH(TN_JIT, how);
        TN_SCOPE;
        state s;
        make(&s);
        tn_jit *j = tn_jit_new(step, &s);
        tn_tensor *x = ramp(1, 0.5f);
        usage ten = {0}, end;
        uint64_t allocations = 0;
        for (int i = 0; i < 1010; i++) {
            TN_SCOPE;
            tn_jit_call(j, IN(x));
            if (i != 9) continue;
            ten = now();
            allocations = tn__alloc_count();
        }
        test_eq(tn__alloc_count(), allocations);
        end = now();
        ck_assert_uint_eq(end.host, ten.host);
        ck_assert_uint_eq(end.nodes, ten.nodes);
        ck_assert_uint_eq(end.device, ten.device);
        tn_jit_free(j);
        drop(&s);
        test_clean_end();
    }
}
END_TEST

START_TEST(results_that_are_read_kept_and_fed_back_do_not_grow_either)
{
    TN_SCOPE;
    state s;
    make(&s);
    tn_jit *j = tn_jit_new(step, &s);
    tn_tensor *x = ramp(1, 0.5f), *kept = NULL;
    usage early = {0}, end;
    for (int i = 0; i < 300; i++) {
        TN_SCOPE;
        tn_tensor *loss = tn_jit_call(j, IN(x));
        if (i % 3 == 0) {
            tn_free(kept);
            kept = tn_keep(loss);
        }
        if (i % 5 == 0) ck_assert(tn_item(loss) == tn_item(loss));
        if (i == 30) early = now();
        if (i == 285) end = now(); /* at the same place of both periods */
    }
    ck_assert_uint_eq(end.host, early.host);
    ck_assert_uint_eq(end.nodes, early.nodes);
    ck_assert_uint_eq(end.device, early.device);
    ck_assert_uint_eq(end.handles, early.handles);
    tn_free(kept);
    tn_jit_free(j);
    drop(&s);
    test_clean_end();
}
END_TEST

static tn_tensor *square(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_sum(tn_mul(in->t[0], in->t[0]));
}

START_TEST(a_capture_does_not_hold_the_inputs_of_its_call)
{
    enum { BIG = 100000 };
    static float v[BIG];
    TN_SCOPE;
    tn_jit *j = tn_jit_new(square, NULL);
    usage before = now();
    for (int i = 0; i < 4; i++) {
        TN_SCOPE;
        tn_jit_call(j, IN(vec(v, BIG)));
    }
    ck_assert_uint_lt(now().device - before.device, BIG * sizeof *v / 2);
    tn_jit_free(j);
    test_clean_end();
}
END_TEST

START_TEST(nothing_is_left_when_a_jit_is_freed)
{
    state s;
    for (int pass = 0; pass < 3; pass++) { /* the first fills caches */
        usage before = now();
        TN_SCOPE;
        make(&s);
        tn_jit *j = tn_jit_new(step, &s);
        for (int i = 0; i < 5; i++) {
            TN_SCOPE;
            tn_jit_call(j, IN(ramp(1, 0.5f)));
        }
        tn_jit_free(j);
        drop(&s);
        if (!pass) continue;
        usage after = now();
        ck_assert_uint_eq(after.nodes, before.nodes);
        ck_assert_uint_eq(after.device, before.device);
    }
    test_clean_end();
}
END_TEST

START_TEST(replays_are_right_with_poisoned_temporaries)
{
    double loss[2][6];
    for (int pass = 0; pass < 2; pass++) {
        TN_WITH(TN_POISON, pass);
        TN_SCOPE;
        state s;
        make(&s);
        tn_manual_seed(5);
        tn_jit *j = tn_jit_new(step, &s);
        for (int i = 0; i < 6; i++) {
            TN_SCOPE;
            loss[pass][i] = tn_item(tn_jit_call(j, IN(ramp(1, 0.5f))));
        }
        tn_jit_free(j);
        drop(&s);
    }
    ck_assert_mem_eq(loss[0], loss[1], sizeof loss[0]);
    test_clean_end();
}
END_TEST

/* Every allocation of the call number `at` fails in turn; the state stays or moves by one whole step. */
static void sweep(int at)
{
    for (uint64_t n = 1;; n++) {
        TN_SCOPE;
        state s;
        float before[LEN], after[LEN];
        make(&s);
        tn_manual_seed(1);
        tn_jit *j = tn_jit_new(step, &s);
        tn_tensor *x = ramp(1, 0.5f);
        for (int i = 0; i < at; i++) tn_jit_call(j, IN(x));
        read_n(s.w, before, LEN);
        test_clean_end();
        const uint64_t start = tn__alloc_count();
        tn__alloc_fail_at(n);
        tn_tensor *y = tn_jit_call(j, IN(x));
        const bool bad = tn_bad(y);
        tn__alloc_fail_at(0);
        const uint64_t count = tn__alloc_count() - start;
        const bool failed = !tn_ok();
        test_that(bad == failed);
        if (failed) test_eq(tn_last_error()->code, TN_ENOMEM);
        tn_clear_error();
        read_n(s.w, after, LEN);
        test_that(!memcmp(before, after, sizeof after) == failed);
        tn_jit_call(j, IN(x));
        test_clean_end();
        tn_jit_free(j);
        drop(&s);
        if (!failed && count < n) return;
    }
}

START_TEST(every_allocation_of_a_first_call_may_fail) { sweep(0); }
END_TEST
START_TEST(every_allocation_of_a_capture_may_fail) { sweep(1); }
END_TEST
START_TEST(every_allocation_of_a_first_replay_may_fail) { sweep(2); }
END_TEST

Suite *suite_jit_memory(void)
{
    Suite *s = suite_create("jit_memory");
    TCase *t = tcase_create("jit_memory");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_thousand_replays_leave_memory_where_it_was_after_ten);
    tcase_add_test(t, results_that_are_read_kept_and_fed_back_do_not_grow_either);
    tcase_add_test(t, a_capture_does_not_hold_the_inputs_of_its_call);
    tcase_add_test(t, nothing_is_left_when_a_jit_is_freed);
    tcase_add_test(t, replays_are_right_with_poisoned_temporaries);
    tcase_add_test(t, every_allocation_of_a_first_call_may_fail);
    tcase_add_test(t, every_allocation_of_a_capture_may_fail);
    tcase_add_test(t, every_allocation_of_a_first_replay_may_fail);
    suite_add_tcase(s, t);
    return s;
}
