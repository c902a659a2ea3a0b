/* SPDX-License-Identifier: MIT */
/*
 * A replay of the tutorial's step allocates nothing, takes no lock that could be waited for and logs nothing;
 * and it is right whatever its scratch memory holds.
 */
#include "jit_rig.h"
#include "../support/interpose.h"
#include "../support/tutorial_net.h"
#include "base/base.h"
#include "device/device.h"
#include <unistd.h>

enum { IMAGES = 64, BATCH = 8, WARM = 4, REPLAYS = 20 };

static int logged;

static void count_line(void *user, tn_log_level level, const char *msg)
{
    (void)user, (void)level, (void)msg;
    logged++;
}

/* Standard output and error go to a file until restore; it has that many bytes then. */
typedef struct {
    int file, out, err;
} redirected;

static redirected redirect(void)
{
    char name[] = "/tmp/tenon-quiet-XXXXXX";
    fflush(NULL);
    redirected r = {mkstemp(name), dup(1), dup(2)};
    unlink(name);
    ck_assert(r.file >= 0 && dup2(r.file, 1) == 1 && dup2(r.file, 2) == 2);
    return r;
}

static long restore(redirected r)
{
    fflush(NULL);
    const long size = (long)lseek(r.file, 0, SEEK_END);
    dup2(r.out, 1);
    dup2(r.err, 2);
    close(r.out);
    close(r.err);
    close(r.file);
    return size;
}

static void call(tn_jit *j, const tutorial_net *t)
{
    TN_SCOPE;
    test_that(!tn_bad(tn_jit_call(j, IN(t->x, t->y))));
}

/* Some replays; what they asked for. */
static interpose_counts replay(tn_jit *j, const tutorial_net *t, const char **why_not)
{
    const uint64_t before = tn__alloc_count();
    logged = 0;
    const redirected r = redirect();
    *why_not = interpose_on();
    for (int i = 0; i < REPLAYS; i++) call(j, t);
    const interpose_counts c = interpose_off();
    const long written = restore(r);
    ck_assert_uint_eq(tn__alloc_count(), before);
    ck_assert_int_eq(logged, 0);
    ck_assert_int_eq(written, 0);
    return c;
}

static bool slow(void) { return !strcmp(tn__device_backend(tn__device_default()), "INTERP"); }

START_TEST(a_replay_allocates_nothing_waits_for_no_lock_and_logs_nothing)
{
    const char *why_not = NULL;
    if (slow())
        test_skip("a step takes a second on the interpreter, which allocates its registers");
    tn_set_log(count_line, NULL);
    for (int way = 0; way < 3; way++) { /* a graph, kernel by kernel, graphs on two devices */
        TN_WITH(TN_JIT, way == 1 ? 2 : 1);
        TN_SCOPE;
        tutorial_net t;
        tutorial_make(&t, IMAGES, BATCH, way == 2 ? DEVICES("CPU:0", "CPU:1") : NULL);
        tn_jit *j = tn_jit_new(tutorial_step, &t);
        call(j, &t);
        why_not = interpose_on();
        call(j, &t); /* the capture: that the counters count */
        interpose_counts c = interpose_off();
        if (!why_not) ck_assert(c.allocations > 100 && c.locks > 0);
        for (int i = 0; i < WARM; i++) call(j, &t);
        c = replay(j, &t, &why_not);
        ck_assert_uint_eq(c.allocations, 0);
        ck_assert_uint_eq(c.locks, 0);
        tn_jit_free(j);
        tutorial_end(&t);
        test_clean_end();
    }
    tn_set_log(NULL, NULL);
    if (why_not) test_skip("%s", why_not);
}
END_TEST

START_TEST(a_replay_is_right_with_poisoned_scratch_memory)
{
    enum { STEPS = 6 };
    double loss[4][STEPS];
    static float weight[4][64 * 32 * 9];
    if (slow()) test_skip("a step takes a second on the interpreter");
    for (int pass = 0; pass < 4; pass++) {
        TN_WITH(TN_POISON, pass & 1);
        TN_WITH(TN_JIT, 1 + pass / 2);
        TN_SCOPE;
        tutorial_net t;
        tutorial_make(&t, IMAGES, BATCH, NULL);
        tn_manual_seed(5);
        tn_jit *j = tn_jit_new(tutorial_step, &t);
        for (int i = 0; i < STEPS; i++) {
            TN_SCOPE;
            loss[pass][i] = tn_item(tn_jit_call(j, IN(t.x, t.y)));
        }
        read_n(t.l2.weight, weight[pass], TN_LEN(weight[pass]));
        tn_jit_free(j);
        tutorial_end(&t);
        test_clean_end();
        ck_assert(loss[pass][0] > 0);
        ck_assert_mem_eq(loss[pass], loss[0], sizeof loss[0]);
        ck_assert_mem_eq(weight[pass], weight[0], sizeof weight[0]);
    }
}
END_TEST

Suite *suite_jit_quiet(void);
Suite *suite_jit_quiet(void)
{
    Suite *s = suite_create("jit_quiet");
    TCase *t = tcase_create("jit_quiet");
    tcase_set_timeout(t, 240);
    tcase_add_test(t, a_replay_allocates_nothing_waits_for_no_lock_and_logs_nothing);
    tcase_add_test(t, a_replay_is_right_with_poisoned_scratch_memory);
    suite_add_tcase(s, t);
    return s;
}
