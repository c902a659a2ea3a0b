/* SPDX-License-Identifier: MIT */
/*
 * The log: one process-wide callback; by default warnings and errors go to stderr.
 *
 * The pair (function, user) changes under a lock and is copied out before the call, so that a callback
 * may log or set another callback.  Messages longer than the buffer are cut.
 */
#include "base/base.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { MSG_MAX = 4096, KEYS_MAX = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tn_log_fn *log_fn;
static void *log_user;
static const void *seen[KEYS_MAX]; /* open addressing; NULL: free */
static size_t nseen;

void tn_set_log(tn_log_fn *fn, void *user)
{
    pthread_mutex_lock(&lock);
    log_fn = fn;
    log_user = user;
    pthread_mutex_unlock(&lock);
}

static void to_stderr(tn_log_level level, const char *msg)
{
    if (level > TN_LOG_INFO) return;
    fprintf(stderr, "tenon: %s%s\n",
            level == TN_LOG_ERROR  ? "error: "
            : level == TN_LOG_WARN ? "warning: "
                                   : "",
            msg);
}

static void vlog(tn_log_level level, const char *fmt, va_list ap)
{
    pthread_mutex_lock(&lock);
    tn_log_fn *fn = log_fn;
    void *user = log_user;
    pthread_mutex_unlock(&lock);
    if (!fn && level > TN_LOG_INFO) return;
    char msg[MSG_MAX];
    vsnprintf(msg, sizeof msg, fmt, ap);
    if (fn)
        fn(user, level, msg);
    else
        to_stderr(level, msg);
}

void tn__log(tn_log_level level, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vlog(level, fmt, ap);
    va_end(ap);
}

/* True for the first call with this key.  A full table answers false: better silent than a flood. */
static bool first_time(const void *key)
{
    bool fresh = false;
    pthread_mutex_lock(&lock);
    size_t i = ((uintptr_t)key * (uintptr_t)0x9e3779b97f4a7c15u >> 8) % KEYS_MAX;
    while (seen[i] && seen[i] != key) i = (i + 1) % KEYS_MAX;
    if (!seen[i] && nseen < KEYS_MAX - 1) {
        seen[i] = key;
        nseen++;
        fresh = true;
    }
    pthread_mutex_unlock(&lock);
    return fresh;
}

void tn__log_once(const void *key, tn_log_level level, const char *fmt, ...)
{
    if (!first_time(key)) return;
    va_list ap;
    va_start(ap, fmt);
    vlog(level, fmt, ap);
    va_end(ap);
}
