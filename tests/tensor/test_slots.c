/* SPDX-License-Identifier: MIT */
/* The table of handles: threads that take and give slots at once; what tn_shutdown gives back. */
#include "../test.h"
#include "base/base.h"
#include "tensor/slot.h"
#include <pthread.h>
#include <string.h>
#include <tenon/tenon.h>

enum { MANY = 5000, THREADS = 4, ROUNDS = 200, EACH = 40 };

static uint64_t handles(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return c.handles;
}

START_TEST(memory_of_many_handles_goes_back_at_shutdown)
{
    static tn_tensor *old[MANY];
    for (int pass = 0; pass < 2; pass++) {
        for (int i = 0; i < MANY; i++) {
            TN_SCOPE;
            tn_tensor *t = tn_keep(tn_const_i(i));
            for (int k = 0; pass && k < MANY; k += 499) test_that(t != old[k]);
            if (pass) test_that(tn_bad(old[i])); /* of the first pass: it stays dead */
            old[i] = t;
        }
        test_that(tn_ok());
        ck_assert_uint_ge(tn__live_bytes(), MANY * sizeof(tn__slot) - 1024 * sizeof(tn__slot));
        for (int i = 0; i < MANY; i++) tn_free(old[i]);
        ck_assert_uint_eq(handles(), 0);
        tn_shutdown();
        ck_assert_uint_eq(tn__live_bytes(), 0);
    }
    ck_assert(tn_ok());
}
END_TEST

START_TEST(shutdown_leaves_handles_alone_that_are_still_there)
{
    static tn_tensor *t[MANY];
    for (int i = 0; i < MANY; i++) {
        TN_SCOPE;
        t[i] = tn_keep(tn_const_i(i));
    }
    for (int i = 0; i < MANY - 1; i++) tn_free(t[i]);
    tn_shutdown();
    ck_assert(!tn_bad(t[MANY - 1]) && tn_bad(t[0]));
    ck_assert_int_eq(tn_ndim(t[MANY - 1]), 0);
    tn_free(t[MANY - 1]);
    tn_shutdown();
    ck_assert_uint_eq(tn__live_bytes(), 0);
    ck_assert(tn_ok());
}
END_TEST

/* Every handle shows this thread's number as long as it lives and is dead afterwards. */
static void *take_and_give(void *arg)
{
    const int64_t mine = (int64_t)(intptr_t)arg;
    tn_tensor *kept[EACH];
    intptr_t wrong = 0;
    for (int r = 0; r < ROUNDS; r++) {
        TN_SCOPE;
        for (int i = 0; i < EACH; i++) {
            TN_SCOPE;
            kept[i] = tn_keep(tn_zeros(SHAPE(mine, i + 1)));
        }
        for (int i = 0; i < EACH; i++)
            wrong += tn_dim(kept[i], 0) != mine || tn_dim(kept[i], 1) != i + 1;
        for (int i = 0; i < EACH; i++) tn_free(kept[i]);
        for (int i = 0; i < EACH; i++) wrong += !tn_bad(kept[i]);
    }
    return (void *)(wrong + !tn_ok());
}

START_TEST(threads_take_and_give_handles_at_once)
{
    pthread_t id[THREADS];
    for (int i = 0; i < THREADS; i++)
        ck_assert_int_eq(pthread_create(&id[i], NULL, take_and_give, (void *)(intptr_t)(i + 2)), 0);
    for (int i = 0; i < THREADS; i++) {
        void *wrong;
        pthread_join(id[i], &wrong);
        ck_assert_ptr_null(wrong);
    }
    ck_assert_uint_eq(handles(), 0);
}
END_TEST

Suite *suite_slots(void);
Suite *suite_slots(void)
{
    Suite *s = suite_create("slots");
    TCase *t = tcase_create("slots");
    tcase_add_test(t, memory_of_many_handles_goes_back_at_shutdown);
    tcase_add_test(t, shutdown_leaves_handles_alone_that_are_still_there);
    tcase_add_test(t, threads_take_and_give_handles_at_once);
    suite_add_tcase(s, t);
    return s;
}
