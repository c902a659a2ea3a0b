/* SPDX-License-Identifier: MIT */
/*
 * Submitting work.  A thread has one queue a device, made at its first call there and closed when the thread
 * ends.  On an asynchronous device every submission signals the queue's own timeline, whose last value is
 * what waiting means; a synchronous one is done when the call returns.
 */
#include "device/module.h"
#include <string.h>

static const uint64_t patience_ns =
    60000000000u; /* of one wait; then it is asked again, with a line in the log */

static _Thread_local tn__queue *mine[TN_MAX_DEVICES];
static _Thread_local unsigned my_epoch;
static atomic_uint epoch = 1; /* raised by tn_shutdown */
static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- queues ---- */

static void close_queue(tn__queue *q)
{
    tn__device *d = q->dev;
    tn__plug_err e;
    if (q->sem && q->value)
        d->ops->sem_wait(d->h, q->sem, q->value, patience_ns, tn__plug_err_init(&e));
    tn__dev_lock(d);
    d->ops->queue_free(d->h, q->q);
    if (q->sem) d->ops->sem_free(d->h, q->sem);
    tn__dev_unlock(d);
    tn__free(q);
}

static void thread_ends(void *arg)
{
    (void)arg;
    if (my_epoch != atomic_load(&epoch)) return;
    for (int i = 0; i < TN_MAX_DEVICES; i++) {
        tn__queue *q = mine[i];
        if (!q) continue;
        mine[i] = NULL;
        pthread_mutex_lock(&q->dev->queue_lock);
        tn__queue **at = &q->dev->queues;
        while (*at && *at != q) at = &(*at)->next;
        if (*at) *at = q->next;
        pthread_mutex_unlock(&q->dev->queue_lock);
        close_queue(q);
    }
}

static void make_key(void) { pthread_key_create(&key, thread_ends); }

void tn__queues_close(tn__device *d)
{
    while (d->queues) {
        tn__queue *q = d->queues;
        d->queues = q->next;
        close_queue(q);
    }
}

void tn__queues_forget(void) { atomic_fetch_add(&epoch, 1); }

static tn__queue *new_queue(tn__device *d)
{
    tn__plug_err e;
    tn__queue *q = tn__calloc(1, sizeof *q);
    if (!q) return NULL;
    q->dev = d;
    tn__dev_lock(d);
    tnp_rc rc = d->ops->queue_new(d->h, 0, &q->q, tn__plug_err_init(&e));
    if (rc >= 0 && d->async) {
        rc = d->ops->sem_new(d->h, 0, &q->sem, tn__plug_err_init(&e));
        if (rc < 0) d->ops->queue_free(d->h, q->q);
    }
    tn__dev_unlock(d);
    if (rc < 0) {
        tn__free(q);
        tn__dev_fail(d, "a queue", rc, &e);
        return NULL;
    }
    pthread_mutex_lock(&d->queue_lock);
    q->next = d->queues;
    d->queues = q;
    pthread_mutex_unlock(&d->queue_lock);
    return q;
}

tn__queue *tn__queue_mine(tn__device *d)
{
    unsigned now = atomic_load_explicit(&epoch, memory_order_relaxed);
    if (my_epoch != now) {
        pthread_once(&once, make_key);
        memset(mine, 0, sizeof mine);
        my_epoch = now;
        pthread_setspecific(key, mine);
    }
    if (!mine[d->id]) mine[d->id] = new_queue(d);
    return mine[d->id];
}

bool tn__submit_begin(tn__submission *s, tn__device *d)
{
    tn__queue *q = s->q = tn__queue_mine(d);
    if (!q) return false;
    s->err = tn__plug_err_init(&s->text);
    s->sync = NULL;
    tn__dev_lock(d);
    if (!q->sem) return true;
    s->point = (tnp_point){q->sem, ++q->value};
    s->signal = (tnp_sync){.nsignal = 1, .signal = &s->point};
    s->sync = &s->signal;
    return true;
}

bool tn__submit_end(tn__submission *s, const char *what, tnp_rc rc)
{
    tn__device *d = s->q->dev;
    tn__dev_unlock(d);
    return rc < 0 ? tn__dev_fail(d, what, rc, &s->text) : true;
}

bool tn__queue_wait(tn__queue *q)
{
    if (!q->sem || !q->value) return true;
    tn__device *d = q->dev;
    tn__plug_err e;
    tnp_rc rc = d->ops->flush(d->h, q->q, tn__plug_err_init(&e));
    if (rc < 0) return tn__dev_fail(d, "flush", rc, &e);
    while ((rc = d->ops->sem_wait(d->h, q->sem, q->value, patience_ns, tn__plug_err_init(&e))) ==
           TNP_E_TIMEOUT)
        tn__log(TN_LOG_WARN, "%s: has been busy for a minute", d->name);
    return rc < 0 ? tn__dev_fail(d, "work submitted before", rc, &e) : true;
}

/* All threads' queues; those that end meanwhile wait for themselves. */
bool tn__device_sync(tn__device *d)
{
    if (!d->async) return true;
    bool ok = true;
    pthread_mutex_lock(&d->queue_lock);
    for (tn__queue *q = d->queues; q; q = q->next) ok = tn__queue_wait(q) && ok;
    pthread_mutex_unlock(&d->queue_lock);
    return ok;
}

/* ---- launches ---- */

bool tn__launch_run(tn__device *d, tn__program *p, const tn__launch *l)
{
    tn__submission s;
    const tnp_launch x = {.size = sizeof x,
                          .grid = {l->grid[0], l->grid[1], l->grid[2]},
                          .local = {l->local[0], l->local[1], l->local[2]},
                          .bufs = l->bufs,
                          .imms = l->imms,
                          .nbufs = l->nbufs,
                          .nimms = l->nimms,
                          .work = l->work,
                          .out_ns = l->out_ns};
    if (!tn__submit_begin(&s, d)) return false;
    tnp_rc rc = d->ops->launch(d->h, s.q->q, tn__program_handle(p), &x, s.sync, s.err);
    if (!tn__submit_end(&s, "launch", rc)) return false;
    if (l->out_ns && !tn__queue_wait(s.q)) return false;
    atomic_fetch_add_explicit(&tn__count.kernels, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&tn__count.ops, l->work, memory_order_relaxed);
    atomic_fetch_add_explicit(&tn__count.bytes, l->bytes, memory_order_relaxed);
    if (l->out_ns) atomic_fetch_add_explicit(&tn__count.ns, *l->out_ns, memory_order_relaxed);
    return true;
}

/* ---- replays ---- */

struct tn__replay {
    tn__device *dev;
    tnp_graph *h;
    uint64_t kernels, work, bytes;
};

tn__replay *tn__replay_new(tn__device *d, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                           uint32_t nscalars)
{
    if (!d->graph) return NULL;
    tn__plug_err e;
    tn__replay *r = tn__calloc(1, sizeof *r);
    if (!r) return NULL;
    r->dev = d;
    for (uint32_t i = 0; i < n; i++) {
        r->kernels += nodes[i]->kind == TNP_NODE_LAUNCH;
        r->work += nodes[i]->work;
    }
    tn__dev_lock(d);
    tnp_rc rc = d->graph->build(d->h, nodes, n, nslots, nscalars, &r->h, tn__plug_err_init(&e));
    tn__dev_unlock(d);
    if (rc >= 0) return r;
    tn__free(r);
    tn__dev_fail(d, "building a replay", rc, &e);
    return NULL;
}

void tn__replay_moves(tn__replay *r, uint64_t bytes) { r->bytes = bytes; }

bool tn__replay_run(tn__replay *r, const tnp_ref *slots, const uint64_t *scalars)
{
    tn__device *d = r->dev;
    tn__submission s;
    if (!tn__submit_begin(&s, d)) return false;
    tnp_rc rc = d->graph->run(d->h, s.q->q, r->h, slots, scalars, s.sync, s.err);
    if (!tn__submit_end(&s, "replay", rc)) return false;
    atomic_fetch_add_explicit(&tn__count.kernels, r->kernels, memory_order_relaxed);
    atomic_fetch_add_explicit(&tn__count.ops, r->work, memory_order_relaxed);
    atomic_fetch_add_explicit(&tn__count.bytes, r->bytes, memory_order_relaxed);
    atomic_fetch_add_explicit(&tn__count.replays, 1, memory_order_relaxed);
    return true;
}

void tn__replay_free(tn__replay *r)
{
    if (!r) return;
    if (r->dev->async) tn__device_sync(r->dev);
    tn__dev_lock(r->dev);
    r->dev->graph->free(r->dev->h, r->h);
    tn__dev_unlock(r->dev);
    tn__free(r);
}
