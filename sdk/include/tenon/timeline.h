/* SPDX-License-Identifier: MIT */
/*
 * Timelines.  A helper of the SDK, compiled into the plugin; no part of the ABI.
 *
 * tnk_line is enough for a synchronous device: a number that only rises, and a wait that polls.  It takes no
 * lock, so nothing is left taken by a fork.
 *
 * tnk_timeline is for drivers that have events and no timelines (CUDA, OpenCL): each value that work will
 * reach is an event, and the author writes four functions about events (tnk_event_ops).  One lock a timeline;
 * it is never held while a driver waits.
 */
#ifndef TENON_TIMELINE_H
#define TENON_TIMELINE_H
#include <tenon/kit.h>
#include <pthread.h>

/* ---- a number that only rises ---- */

typedef struct tnk_line {
    uint64_t value;
} tnk_line;

static inline uint64_t tnk_line_value(const tnk_line *l)
{
    return __atomic_load_n(&l->value, __ATOMIC_ACQUIRE);
}

static inline void tnk_line_init(tnk_line *l, uint64_t initial)
{
    __atomic_store_n(&l->value, initial, __ATOMIC_RELEASE);
}

static inline tnp_rc tnk_line_raise(tnk_line *l, uint64_t value, const char *who, tnp_err *e)
{
    uint64_t old = tnk_line_value(l);
    do {
        if (value <= old)
            return tnk_fail(e, TNP_E_ARG, 0,
                            "%s: signal %llu: the timeline is at %llu already and only rises", who,
                            (unsigned long long)value, (unsigned long long)old);
    } while (!__atomic_compare_exchange_n(&l->value, &old, value, 1, __ATOMIC_ACQ_REL,
                                          __ATOMIC_ACQUIRE));
    return TNP_OK;
}

/* Rare on a synchronous device: only a value that another thread is about to signal is not there yet. */
static inline tnp_rc tnk_line_wait(const tnk_line *l, uint64_t value, uint64_t timeout_ns,
                                   const char *who, tnp_err *e)
{
    const uint64_t start = tnk_now_ns();
    struct timespec pause = {0, 1000};
    while (tnk_line_value(l) < value) {
        const uint64_t gone = tnk_now_ns() - start;
        if (gone >= timeout_ns)
            return tnk_fail(e, TNP_E_TIMEOUT, 0,
                            "%s: wait for %llu: the timeline is at %llu after %llu ms", who,
                            (unsigned long long)value, (unsigned long long)tnk_line_value(l),
                            (unsigned long long)(timeout_ns / 1000000u));
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < 500000) pause.tv_nsec *= 2;
    }
    return TNP_OK;
}

/* ---- timelines over a driver's events ---- */

typedef struct tnk_event_ops {
    /* an event that passes after everything that is in the queue now; NULL: an error is filled */
    void *(*record)(void *queue, tnp_err *e);
    /* 1 passed, 0 not yet, < 0: its work failed, the rc; never blocks */
    int (*done)(void *event, tnp_err *e);
    /* blocks until it has passed; TNP_E_TIMEOUT, or the rc of the work that failed */
    tnp_rc (*wait)(void *event, uint64_t timeout_ns, tnp_err *e);
    void (*drop)(void *event);
} tnk_event_ops;

typedef struct tnk_pending {
    struct tnk_pending *next;
    uint64_t value;
    void *event;
    uint32_t refs; /* the list's and those of waiters */
} tnk_pending;

typedef struct tnk_timeline {
    tnk_line line;
    const tnk_event_ops *ops;
    const tnp_host *host;
    const char *who;
    pthread_mutex_t lock;
    tnk_pending *first, *last; /* values rise along the list */
    uint64_t highest;          /* last value that was asked for */
    tnp_rc failed;             /* sticky */
    char why[200];
} tnk_timeline;

static inline void tnk_timeline_init(tnk_timeline *t, const char *who, const tnp_host *h,
                                     const tnk_event_ops *ops, uint64_t initial)
{
    memset(t, 0, sizeof *t);
    t->who = who;
    t->host = h;
    t->ops = ops;
    t->highest = initial;
    tnk_line_init(&t->line, initial);
    pthread_mutex_init(&t->lock, NULL);
}

static inline void tnk_pending_put(tnk_timeline *t, tnk_pending *p) /* locked */
{
    if (--p->refs) return;
    t->ops->drop(p->event);
    tnk_give(t->host, p);
}

/* Nobody waits any more. */
static inline void tnk_timeline_fini(tnk_timeline *t)
{
    while (t->first) {
        tnk_pending *p = t->first;
        t->first = p->next;
        tnk_pending_put(t, p);
    }
    pthread_mutex_destroy(&t->lock);
}

/* From now on every wait and signal answers this. */
static inline void tnk_timeline_fail(tnk_timeline *t, tnp_rc rc, const char *why)
{
    pthread_mutex_lock(&t->lock);
    if (!t->failed) {
        t->failed = rc;
        snprintf(t->why, sizeof t->why, "%s", why);
    }
    pthread_mutex_unlock(&t->lock);
}

static inline tnp_rc tnk_timeline_failure(tnk_timeline *t, tnp_err *e) /* locked */
{
    return t->failed ? tnk_fail(e, t->failed, 0, "%s", t->why) : TNP_OK;
}

/* Takes events off the list up to the last that has passed, and raises the number. */
static inline void tnk_timeline_reap(tnk_timeline *t) /* locked */
{
    char text[sizeof t->why];
    while (t->first && !t->failed) {
        tnk_pending *p = t->first;
        tnp_err e = {sizeof e, TNP_OK, 0, sizeof text, 0, text};
        int rc;
        text[0] = 0;
        rc = t->ops->done(p->event, &e);
        if (!rc) return;
        if (rc < 0) {
            t->failed = (tnp_rc)rc;
            snprintf(t->why, sizeof t->why, "%s", text[0] ? text : "work on the device failed");
            return;
        }
        if (p->value > tnk_line_value(&t->line)) tnk_line_init(&t->line, p->value);
        t->first = p->next;
        if (!t->first) t->last = NULL;
        tnk_pending_put(t, p);
    }
}

/* The value is reached when everything that is in the queue now is done.  [queue] */
static inline tnp_rc tnk_timeline_signal(tnk_timeline *t, void *queue, uint64_t value, tnp_err *e)
{
    tnp_rc rc;
    tnk_pending *p = (tnk_pending *)tnk_take(t->host, sizeof *p);
    if (!p) return tnk_fail(e, TNP_E_NOMEM, 0, "%s: no host memory for a signal", t->who);
    pthread_mutex_lock(&t->lock);
    rc = tnk_timeline_failure(t, e);
    if (!rc && value <= t->highest)
        rc = tnk_fail(e, TNP_E_ARG, 0,
                      "%s: signal %llu: %llu was asked for already and a timeline only rises",
                      t->who, (unsigned long long)value, (unsigned long long)t->highest);
    if (!rc && !(p->event = t->ops->record(queue, e))) rc = e && e->rc < 0 ? e->rc : TNP_E_DRIVER;
    if (!rc) {
        p->value = t->highest = value;
        p->refs = 1;
        if (t->last)
            t->last->next = p;
        else
            t->first = p;
        t->last = p;
    }
    tnk_timeline_reap(t);
    pthread_mutex_unlock(&t->lock);
    if (rc) tnk_give(t->host, p);
    return rc;
}

/* From the host: everything asked for earlier must have passed, else the number would fall back. */
static inline tnp_rc tnk_timeline_raise(tnk_timeline *t, uint64_t value, tnp_err *e)
{
    tnp_rc rc;
    pthread_mutex_lock(&t->lock);
    tnk_timeline_reap(t);
    rc = tnk_timeline_failure(t, e);
    if (!rc && t->first)
        rc = tnk_fail(e, TNP_E_ARG, 0, "%s: signal %llu from the host: %llu is still on its way",
                      t->who, (unsigned long long)value, (unsigned long long)t->last->value);
    if (!rc) rc = tnk_line_raise(&t->line, value, t->who, e);
    if (!rc) t->highest = value;
    pthread_mutex_unlock(&t->lock);
    return rc;
}

/* The event that passes with `value`, kept for the caller; NULL: passed already, or nobody asked for it. */
static inline tnk_pending *tnk_timeline_get(tnk_timeline *t, uint64_t value) /* locked */
{
    tnk_pending *p;
    tnk_timeline_reap(t);
    if (tnk_line_value(&t->line) >= value) return NULL;
    for (p = t->first; p && p->value < value; p = p->next) {
    }
    if (p) p->refs++;
    return p;
}

/* For a wait on the device: fn(arg, event) puts the driver's wait for the event into a queue.  It is not
 * called where the value has passed. */
static inline tnp_rc tnk_timeline_before(tnk_timeline *t, uint64_t value,
                                         tnp_rc (*fn)(void *arg, void *event, tnp_err *e),
                                         void *arg, tnp_err *e)
{
    tnp_rc rc;
    tnk_pending *p;
    pthread_mutex_lock(&t->lock);
    p = tnk_timeline_get(t, value);
    rc = tnk_timeline_failure(t, e);
    if (!rc && p)
        rc = fn(arg, p->event, e);
    else if (!rc && tnk_line_value(&t->line) < value)
        rc = tnk_fail(e, TNP_E_ARG, 0, "%s: wait for %llu: nothing that is enqueued reaches it",
                      t->who, (unsigned long long)value);
    if (p) tnk_pending_put(t, p);
    pthread_mutex_unlock(&t->lock);
    return rc;
}

static inline tnp_rc tnk_timeline_wait(tnk_timeline *t, uint64_t value, uint64_t timeout_ns,
                                       tnp_err *e)
{
    const uint64_t start = tnk_now_ns();
    for (;;) {
        const struct timespec pause = {0, 50000};
        tnk_pending *p;
        tnp_rc rc;
        uint64_t gone;
        pthread_mutex_lock(&t->lock);
        p = tnk_timeline_get(t, value);
        rc = tnk_timeline_failure(t, e);
        pthread_mutex_unlock(&t->lock);
        gone = tnk_now_ns() - start;
        if (!rc && !p && tnk_line_value(&t->line) >= value) return TNP_OK;
        if (!rc && gone >= timeout_ns)
            rc = tnk_fail(e, TNP_E_TIMEOUT, 0,
                          "%s: wait for %llu: the timeline is at %llu after %llu ms", t->who,
                          (unsigned long long)value, (unsigned long long)tnk_line_value(&t->line),
                          (unsigned long long)(timeout_ns / 1000000u));
        if (!rc && p)
            rc = t->ops->wait(p->event, timeout_ns - gone, e);
        else if (!rc)
            nanosleep(&pause, NULL); /* the signal itself is still to come */
        if (rc < 0 && rc != TNP_E_TIMEOUT && p)
            tnk_timeline_fail(t, rc, e && e->msg ? e->msg : "work on the device failed");
        if (p) {
            pthread_mutex_lock(&t->lock);
            tnk_pending_put(t, p);
            pthread_mutex_unlock(&t->lock);
        }
        if (rc < 0) return rc;
    }
}
#endif
