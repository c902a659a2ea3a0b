/* SPDX-License-Identifier: MIT */
/*
 * Memory over many steps of the tutorial network: replays and eager steps leave live bytes, nodes, handles and
 * the resident set where they were after the first ones.  In the long run 100,000 replays and 10,000 eager steps,
 * compared with those after 1,000; in the suite fewer of both.
 */
#include "jit_rig.h"
#include "../support/tutorial_net.h"
#include "device/device.h"
#include <unistd.h>

enum { IMAGES = 256, BATCH = 8 };

typedef struct {
    tn_counters c;
    double rss_kb;
} usage;

static double rss_kb(void)
{
    long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f) return 0;
    if (fscanf(f, "%ld %ld", &all, &resident) != 2) resident = 0;
    fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1024;
}

static usage now(void)
{
    usage u = {.c.size = sizeof u.c};
    tn_counters_get(&u.c);
    u.rss_kb = rss_kb();
    return u;
}

static void run(const char *what, bool jit, int mark, int steps)
{
    TN_SCOPE;
    tutorial_net net;
    usage early = {0}, end = {0};
    tutorial_make(&net, IMAGES, BATCH, NULL);
    tn_jit *j = jit ? tn_jit_new(tutorial_step, &net) : NULL;
    test_clean_end();
    for (int i = 1; i <= steps; i++) {
        TN_SCOPE;
        tn_tensor *loss = jit ? tn_jit_call(j, IN(net.x, net.y))
                              : tutorial_step(&net, IN(net.x, net.y));
        if (i % 50 == 0)
            test_that(tn_item(loss) > 0);
        else
            tn_realize(loss);
        test_that(tn_ok());
        if (i == mark) early = now();
        if (i == steps) end = now();
    }
    printf("%d %s after %d: %llu bytes on the host (%+lld), %llu on the device (%+lld), %llu nodes "
           "(%+lld), resident %.0f KB (%+.2f %%)\n",
           steps, what, mark, (unsigned long long)end.c.host_bytes,
           (long long)(end.c.host_bytes - early.c.host_bytes),
           (unsigned long long)end.c.device_bytes,
           (long long)(end.c.device_bytes - early.c.device_bytes), (unsigned long long)end.c.nodes,
           (long long)(end.c.nodes - early.c.nodes), end.rss_kb,
           100 * (end.rss_kb / early.rss_kb - 1));
    fflush(stdout);
    ck_assert_uint_eq(end.c.host_bytes, early.c.host_bytes);
    ck_assert_uint_eq(end.c.host_blocks, early.c.host_blocks);
    ck_assert_uint_eq(end.c.nodes, early.c.nodes);
    ck_assert_uint_eq(end.c.handles, early.c.handles);
    ck_assert_uint_eq(end.c.device_bytes, early.c.device_bytes);
    ck_assert_uint_eq(end.c.schedules, early.c.schedules);
    ck_assert_uint_gt(end.c.bytes, early.c.bytes);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    ck_assert_msg(end.rss_kb <= 1.02 * early.rss_kb, "resident: %.0f KB, then %.0f KB",
                  early.rss_kb, end.rss_kb);
#endif
    tn_jit_free(j);
    tutorial_end(&net);
    test_clean_end();
}

static bool slow(void) { return !strcmp(tn__device_backend(tn__device_default()), "INTERP"); }

START_TEST(replays_of_the_tutorial_leave_memory_where_it_was)
{
    if (slow()) test_skip("a step takes a second on the interpreter");
    if (test_long())
        run("replays", true, 1000, 100000);
    else
        run("replays", true, 200, 1000);
}
END_TEST

START_TEST(eager_steps_of_the_tutorial_leave_memory_where_it_was)
{
    if (slow()) test_skip("a step takes a second on the interpreter");
    if (test_long())
        run("eager steps", false, 1000, 10000);
    else
        run("eager steps", false, 100, 400);
}
END_TEST

Suite *suite_jit_long(void);
Suite *suite_jit_long(void)
{
    Suite *s = suite_create("jit_long");
    TCase *t = tcase_create("jit_long");
    tcase_set_timeout(t, test_long() ? 7200 : 240);
    tcase_add_test(t, replays_of_the_tutorial_leave_memory_where_it_was);
    tcase_add_test(t, eager_steps_of_the_tutorial_leave_memory_where_it_was);
    suite_add_tcase(s, t);
    return s;
}
