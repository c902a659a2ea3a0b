/* SPDX-License-Identifier: MIT */
/*
 * The SDK's timelines over a driver's events (tenon/timeline.h), with a driver that is a worker thread: it
 * passes the events of a queue one after the other, some time after they were recorded, and can fail.
 */
#define _GNU_SOURCE
#include "../test.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <tenon/timeline.h>

/* ---- the driver ---- */

typedef struct event {
    struct event *next;
    int state; /* 0, 1 passed, -7 failed */
    int refs;  /* the timeline's and the driver's */
} event;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static event *first, *last;
static int live, ending;
static atomic_int passed, fail_at; /* fail_at: the n-th event from now */
static atomic_long delay_us;
static pthread_t worker;

static void put_event(event *e) /* locked */
{
    if (--e->refs) return;
    live--;
    free(e);
}

static void *drive(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    while (!ending || first) {
        if (!first) {
            pthread_cond_wait(&change, &lock);
            continue;
        }
        event *e = first;
        pthread_mutex_unlock(&lock);
        nanosleep(&(struct timespec){.tv_nsec = delay_us * 1000}, NULL);
        pthread_mutex_lock(&lock);
        first = e->next;
        if (!first) last = NULL;
        passed++;
        e->state = fail_at && --fail_at == 0 ? TNP_E_LAUNCH : 1;
        put_event(e);
        pthread_cond_broadcast(&change);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static void *record(void *queue, tnp_err *e)
{
    (void)queue, (void)e;
    event *v = calloc(1, sizeof *v);
    v->refs = 2;
    pthread_mutex_lock(&lock);
    live++;
    if (last)
        last->next = v;
    else
        first = v;
    last = v;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    return v;
}

static int done(void *event_, tnp_err *e)
{
    pthread_mutex_lock(&lock);
    const int s = ((event *)event_)->state;
    pthread_mutex_unlock(&lock);
    if (s < 0) tnk_fail(e, s, 0, "kernel 12 trapped");
    return s;
}

static tnp_rc wait_event(void *event_, uint64_t ns, tnp_err *e)
{
    event *v = event_;
    struct timespec end;
    int rc = 0;
    clock_gettime(CLOCK_REALTIME, &end);
    if (ns > 10000000000u) ns = 10000000000u;
    end.tv_sec += (time_t)(ns / 1000000000u);
    end.tv_nsec += (long)(ns % 1000000000u);
    if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
    pthread_mutex_lock(&lock);
    while (!v->state && !rc) rc = pthread_cond_timedwait(&change, &lock, &end);
    const int s = v->state;
    pthread_mutex_unlock(&lock);
    if (!s) return tnk_fail(e, TNP_E_TIMEOUT, 0, "driver: not passed in time");
    return s < 0 ? tnk_fail(e, s, 0, "kernel 12 trapped") : TNP_OK;
}

static void drop(void *event_)
{
    pthread_mutex_lock(&lock);
    put_event(event_);
    pthread_mutex_unlock(&lock);
}

static const tnk_event_ops driver = {record, done, wait_event, drop};

/* ---- the host ---- */

static void *host_realloc(void *ctx, void *p, size_t n)
{
    (void)ctx;
    if (n) return realloc(p, n);
    free(p);
    return NULL;
}
static const tnp_host host = {.size = sizeof host, .realloc = host_realloc};
static char text[300];
static tnp_err err;
static tnk_timeline line;

static void start(void)
{
    err = (tnp_err){.size = sizeof err, .cap = sizeof text, .msg = text};
    first = last = NULL;
    live = ending = 0;
    passed = fail_at = 0;
    delay_us = 200;
    tnk_timeline_init(&line, "FAKE", &host, &driver, 0);
    ck_assert_int_eq(pthread_create(&worker, NULL, drive, NULL), 0);
}

static void stop(void)
{
    pthread_mutex_lock(&lock);
    ending = 1;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    pthread_join(worker, NULL);
    tnk_timeline_fini(&line);
    ck_assert_int_eq(live, 0); /* every event went back */
}

static void refuses(tnp_rc rc, tnp_rc want, const char *says)
{
    ck_assert_msg(rc == want && strstr(text, says), "%d, not %d: %s", rc, want, text);
}

START_TEST(a_wait_ends_when_the_work_before_its_value_has)
{
    for (uint64_t v = 1; v <= 100; v++)
        ck_assert_int_eq(tnk_timeline_signal(&line, NULL, v, &err), TNP_OK);
    ck_assert_int_eq(tnk_timeline_wait(&line, 60, UINT64_MAX, &err), TNP_OK);
    ck_assert_int_ge(passed, 60);
    ck_assert_uint_ge(tnk_line_value(&line.line), 60);
    ck_assert_int_eq(tnk_timeline_wait(&line, 100, UINT64_MAX, &err), TNP_OK);
    ck_assert_int_eq(passed, 100);
    ck_assert_int_eq(tnk_timeline_wait(&line, 7, 0, &err), TNP_OK);
}
END_TEST

START_TEST(values_only_rise_and_the_host_does_not_overtake)
{
    delay_us = 50000;
    ck_assert_int_eq(tnk_timeline_signal(&line, NULL, 5, &err), TNP_OK);
    refuses(tnk_timeline_signal(&line, NULL, 5, &err), TNP_E_ARG, "5 was asked for already");
    refuses(tnk_timeline_raise(&line, 9, &err), TNP_E_ARG, "5 is still on its way");
    ck_assert_int_eq(tnk_timeline_wait(&line, 5, UINT64_MAX, &err), TNP_OK);
    refuses(tnk_timeline_raise(&line, 5, &err), TNP_E_ARG, "only rises");
    ck_assert_int_eq(tnk_timeline_raise(&line, 9, &err), TNP_OK);
    ck_assert_int_eq(tnk_timeline_wait(&line, 9, 0, &err), TNP_OK);
}
END_TEST

START_TEST(a_limit_of_time_is_kept)
{
    delay_us = 300000;
    refuses(tnk_timeline_wait(&line, 1, 1000000, &err), TNP_E_TIMEOUT, "wait for 1");
    ck_assert_int_eq(tnk_timeline_signal(&line, NULL, 1, &err), TNP_OK);
    ck_assert_int_eq(tnk_timeline_wait(&line, 1, 5000000, &err), TNP_E_TIMEOUT);
    ck_assert_int_eq(tnk_timeline_wait(&line, 1, UINT64_MAX, &err),
                     TNP_OK); /* a timeout is no fault */
}
END_TEST

START_TEST(failed_work_fails_every_later_wait_and_signal)
{
    fail_at = 3;
    for (uint64_t v = 1; v <= 3; v++)
        ck_assert_int_eq(tnk_timeline_signal(&line, NULL, v, &err), TNP_OK);
    refuses(tnk_timeline_wait(&line, 3, UINT64_MAX, &err), TNP_E_LAUNCH, "kernel 12 trapped");
    ck_assert_int_eq(tnk_timeline_signal(&line, NULL, 4, &err), TNP_E_LAUNCH);
    for (int i = 0; i < 3; i++) {
        text[0] = 0;
        refuses(tnk_timeline_wait(&line, 3, 0, &err), TNP_E_LAUNCH, "kernel 12 trapped");
    }
}
END_TEST

static int waits;
static tnp_rc count_wait(void *arg, void *event_, tnp_err *e)
{
    (void)arg, (void)e;
    waits += event_ != NULL;
    return TNP_OK;
}

START_TEST(a_wait_on_the_device_gets_the_event_that_gates_it)
{
    delay_us = 30000;
    for (uint64_t v = 10; v <= 30; v += 10)
        ck_assert_int_eq(tnk_timeline_signal(&line, NULL, v, &err), TNP_OK);
    ck_assert_int_eq(tnk_timeline_before(&line, 15, count_wait, NULL, &err), TNP_OK);
    ck_assert_int_eq(waits, 1);
    refuses(tnk_timeline_before(&line, 31, count_wait, NULL, &err), TNP_E_ARG,
            "nothing that is enqueued");
    ck_assert_int_eq(tnk_timeline_wait(&line, 30, UINT64_MAX, &err), TNP_OK);
    ck_assert_int_eq(tnk_timeline_before(&line, 30, count_wait, NULL, &err), TNP_OK);
    ck_assert_int_eq(waits, 1);
}
END_TEST

static void *wait_for(void *arg)
{
    char own[200];
    tnp_err e = {.size = sizeof e, .cap = sizeof own, .msg = own};
    return (void *)(intptr_t)tnk_timeline_wait(&line, (uint64_t)(uintptr_t)arg, UINT64_MAX, &e);
}

START_TEST(many_threads_wait_for_values_that_are_still_to_be_asked_for)
{
    pthread_t t[8];
    delay_us = 20;
    for (uintptr_t i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, wait_for, (void *)(i * 50 + 1)), 0);
    for (uint64_t v = 1; v <= 400; v++)
        ck_assert_int_eq(tnk_timeline_signal(&line, NULL, v, &err), TNP_OK);
    for (int i = 0; i < 8; i++) {
        void *rc;
        pthread_join(t[i], &rc);
        ck_assert_ptr_null(rc);
    }
    ck_assert_int_eq(tnk_timeline_wait(&line, 400, UINT64_MAX, &err), TNP_OK);
}
END_TEST

Suite *suite_timeline(void)
{
    Suite *s = suite_create("timeline");
    TCase *t = tcase_create("timeline");
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, a_wait_ends_when_the_work_before_its_value_has);
    tcase_add_test(t, values_only_rise_and_the_host_does_not_overtake);
    tcase_add_test(t, a_limit_of_time_is_kept);
    tcase_add_test(t, failed_work_fails_every_later_wait_and_signal);
    tcase_add_test(t, a_wait_on_the_device_gets_the_event_that_gates_it);
    tcase_add_test(t, many_threads_wait_for_values_that_are_still_to_be_asked_for);
    suite_add_tcase(s, t);
    return s;
}
