/* SPDX-License-Identifier: MIT */
/*
 * A plugin that does not come back cannot be stopped in this process, but it can be named: while a call that
 * may hang is under way, a thread sleeps beside it and logs one line when it wakes before the call is done.
 *
 * Such calls come once a plugin or device, so a thread each is cheap.  The thread touches the watch only.
 */
#define _GNU_SOURCE
#include "device/module.h"
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <time.h>

unsigned tn__watch_ms = 5000;

static void *watch(void *arg)
{
    tn__watch *w = arg;
    struct timespec end;
    int rc = 0;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += w->ms / 1000;
    end.tv_nsec += w->ms % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000L) end.tv_sec++, end.tv_nsec -= 1000000000L;
    pthread_mutex_lock(&w->lock);
    while (!w->done && rc != ETIMEDOUT) rc = pthread_cond_timedwait(&w->wake, &w->lock, &end);
    if (!w->done)
        tn__log(TN_LOG_WARN, "%s: %s has not come back for %.1f s; DEV=NAME leaves it alone",
                w->who, w->call, w->ms * 1e-3);
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

void tn__watch_start(tn__watch *w, const char *who, const char *call)
{
    pthread_condattr_t a;
    sigset_t all, old;
    *w = (tn__watch){.who = who, .call = call, .ms = tn__watch_ms};
    pthread_condattr_init(&a);
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->wake, &a);
    pthread_condattr_destroy(&a);
    sigfillset(&all); /* the program's signals are not for this thread */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    w->running = pthread_create(&w->thread, NULL, watch, w) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

void tn__watch_stop(tn__watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    if (w->running) pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
}
