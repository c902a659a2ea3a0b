/* SPDX-License-Identifier: MIT */
/*
 * The tutorial's two lines for several devices: losses on CPU:0 and CPU:1 follow those of one device, with the
 * JIT and without.  float32 over 20 steps; float64 over 200 steps in the long run, 10 in the suite.
 */
#include "../test.h"
#include "../support/tutorial_net.h"
#include "device/device.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST = 200 };

static void train(const tn_devices *devices, bool jit, int batch, int steps, double *loss)
{
    TN_SCOPE;
    tutorial_net net;
    tutorial_make(&net, 2 * batch, batch, devices);
    tn_jit *j = jit ? tn_jit_new(tutorial_step, &net) : NULL;
    tn_manual_seed(31);
    test_clean_end();
    ck_assert_int_eq(tn_dtype_of(net.l1.weight), (tn_dtype)tn_context_get(TN_DEFAULT_FLOAT));
    for (int i = 0; i < steps; i++) {
        TN_SCOPE;
        loss[i] = tn_item(jit ? tn_jit_call(j, IN(net.x, net.y))
                              : tutorial_step(&net, IN(net.x, net.y)));
        test_clean_end();
    }
    tn_jit_free(j);
    tutorial_end(&net);
}

/* Losses of all four ways; the largest relative difference is printed. */
static void follow(tn_dtype dt, int batch, int steps)
{
    static double one[MOST], other[MOST];
    TN_WITH(TN_DEFAULT_FLOAT, (int64_t)dt);
    double worst = 0;
    train(NULL, false, batch, steps, one);
    for (int way = 1; way < 4; way++) { /* bit 0: two devices, bit 1: jit */
        train(way & 1 ? DEVICES("CPU:0", "CPU:1") : NULL, way & 2, batch, steps, other);
        for (int i = 0; i < steps; i++) {
            const double d = fabs(other[i] - one[i]) / fabs(one[i]);
            if (!(d <= worst)) worst = d;
            ck_assert_msg(d <= 1e-4, "step %d: %.12g, not %.12g, on %s%s", i, other[i], one[i],
                          way & 1 ? "two devices" : "one device", way & 2 ? " by the jit" : "");
        }
    }
    ck_assert_msg(one[steps - 1] < 0.9 * one[0], "it does not learn: %g, then %g", one[0],
                  one[steps - 1]);
    printf("%s, %d steps of batch %d on two devices: within %.2g of one device\n",
           dt == TN_F64 ? "float64" : "float32", steps, batch, worst);
    fflush(stdout);
}

static bool slow(void) { return strcmp(tn__device_backend(tn__device_default()), "CPU") != 0; }

START_TEST(twenty_steps_in_float32_follow_those_of_one_device)
{
    if (slow()) test_skip("it trains on CPU:0 and CPU:1");
    follow(TN_F32, test_long() ? 128 : 32, 20);
}
END_TEST

START_TEST(steps_in_float64_follow_those_of_one_device)
{
    if (slow()) test_skip("it trains on CPU:0 and CPU:1");
    if (test_long())
        follow(TN_F64, 128, 200);
    else
        follow(TN_F64, 32, 10);
}
END_TEST

Suite *suite_shard_tutorial(void);
Suite *suite_shard_tutorial(void)
{
    Suite *s = suite_create("shard_tutorial");
    TCase *t = tcase_create("shard_tutorial");
    tcase_set_timeout(t, test_long() ? 3600 : 240);
    tcase_add_test(t, twenty_steps_in_float32_follow_those_of_one_device);
    tcase_add_test(t, steps_in_float64_follow_those_of_one_device);
    suite_add_tcase(s, t);
    return s;
}
