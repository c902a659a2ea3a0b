/* SPDX-License-Identifier: MIT */
/*
 * Device memory: counted buffers over a cache of freed blocks.
 *
 * Sizes are rounded up to one of 16 steps a power of two (at most 1/16 is wasted, 64 bytes the least); a
 * freed block waits in the list of its size and is taken from there without a call of the plugin.  What a
 * device holds, live and cached, stays near the most that was live: a new size first gives other cached
 * blocks back.  Out of memory: everything cached goes back, then one more try.
 *
 * Asynchronous devices: a block remembers the queue of the thread that freed it; another thread waits for
 * that queue before it uses the block.
 */
#include "device/module.h"
#include <string.h>

enum { SLACK = 32 << 20, MIN_BLOCK = 64 };

struct tn__buffer {
    atomic_uint refs;
    bool borrowed;
    tn__device *dev;
    tnp_buf *h;
    size_t bytes, cap; /* asked for; of the block, 0 when borrowed */
    void *map;         /* host address, or NULL */
    void (*release)(void *);
    void *user;
    tn__buffer *next; /* in the free list */
    tn__queue *last;  /* of the thread that freed it */
};

/* ---- size classes ---- */

static int log2_floor(size_t n)
{
    int e = 0;
    while (n >>= 1) e++;
    return e;
}

/* Rounds n up to its class and gives the class; -1 when it is beyond any memory. */
static int size_class(size_t n, size_t *cap)
{
    if (n <= MIN_BLOCK) {
        *cap = MIN_BLOCK;
        return 0;
    }
    int e = log2_floor(n - 1);
    if (e >= 6 + TN_SIZE_CLASSES / 16 - 1) return -1;
    size_t unit = (size_t)1 << (e > 4 ? e - 4 : 0), step = unit > MIN_BLOCK ? unit : MIN_BLOCK;
    *cap = (n + step - 1) / step * step;
    return (e - 6) * 16 + (int)((*cap - 1 - ((size_t)1 << e)) / unit) + 1;
}

/* ---- the cache ---- */

static tn__buffer *pop(tn__device *d, int class, size_t bytes)
{
    pthread_mutex_lock(&d->memory);
    tn__buffer *b = d->free[class];
    if (b) {
        d->free[class] = b->next;
        d->cached -= b->cap;
        d->in_use += b->cap;
        d->live += bytes;
    }
    pthread_mutex_unlock(&d->memory);
    return b;
}

static void destroy(tn__buffer *b)
{
    tn__dev_lock(b->dev);
    b->dev->ops->buf_free(b->dev->h, b->h);
    tn__dev_unlock(b->dev);
    tn__free(b);
}

/* Takes blocks out, the largest first, until `n` bytes more fit into `limit`. */
static void shrink(tn__device *d, size_t n, size_t limit)
{
    tn__buffer *out = NULL;
    pthread_mutex_lock(&d->memory);
    for (int c = TN_SIZE_CLASSES; c-- > 0 && d->cached;)
        while (d->free[c] && d->in_use + d->cached + n > limit) {
            tn__buffer *b = d->free[c];
            d->free[c] = b->next;
            d->cached -= b->cap;
            b->next = out;
            out = b;
        }
    pthread_mutex_unlock(&d->memory);
    if (out && d->async) tn__device_sync(d);
    while (out) {
        tn__buffer *b = out;
        out = b->next;
        destroy(b);
    }
}

void tn__device_trim(tn__device *d) { shrink(d, 1, 0); }

/* One of the device's counters, read under its lock. */
static size_t counter(const tn__device *d, const size_t *n)
{
    tn__device *m = (tn__device *)(uintptr_t)d;
    pthread_mutex_lock(&m->memory);
    size_t now = *n;
    pthread_mutex_unlock(&m->memory);
    return now;
}

size_t tn__device_bytes(const tn__device *d) { return counter(d, &d->live); }
size_t tn__device_cached(const tn__device *d) { return counter(d, &d->cached); }

void tn__devices_bytes(size_t *live, size_t *cached)
{
    tn__device *d[TN_MAX_DEVICES];
    const int n = tn__devices_open(d, TN_MAX_DEVICES);
    *live = *cached = 0;
    for (int i = 0; i < n; i++) {
        *live += tn__device_bytes(d[i]);
        *cached += tn__device_cached(d[i]);
    }
}

/* ---- allocation ---- */

static tnp_rc ask(tn__device *d, const tnp_alloc *a, tn__buffer *b, tn__plug_err *e)
{
    tn__dev_lock(d);
    tnp_rc rc = d->ops->buf_alloc(d->h, a, &b->h, tn__plug_err_init(e));
    if (rc >= 0 && d->mapped) {
        rc = d->ops->buf_map(d->h, b->h, &b->map, tn__plug_err_init(e));
        if (rc < 0) d->ops->buf_free(d->h, b->h);
    }
    tn__dev_unlock(d);
    return rc;
}

static tn__buffer *fresh(tn__device *d, size_t bytes, size_t cap)
{
    tn__plug_err e;
    tn__buffer *b = tn__calloc(1, sizeof *b);
    if (!b) return NULL;
    pthread_mutex_lock(&d->memory);
    size_t limit = (d->peak > d->in_use + cap ? d->peak : d->in_use + cap) + SLACK;
    pthread_mutex_unlock(&d->memory);
    shrink(d, cap, limit);
    tnp_alloc a = {.size = sizeof a, .bytes = cap, .align = MIN_BLOCK};
    tnp_rc rc = ask(d, &a, b, &e);
    if (rc == TNP_E_OOM || rc == TNP_E_NOMEM) {
        tn__device_trim(d);
        rc = ask(d, &a, b, &e);
    }
    if (rc < 0) {
        tn__free(b);
        tn__fail(rc == TNP_E_NOMEM ? TN_EOOM : tn__plug_code(rc),
                 "%s: a buffer of %zu bytes cannot be had (%zu are in use): %s: free tensors, or "
                 "compute in smaller parts",
                 d->name, bytes, tn__device_bytes(d), tn__plug_text(&e, rc));
        return NULL;
    }
    b->dev = d;
    b->cap = cap;
    pthread_mutex_lock(&d->memory);
    d->in_use += cap;
    d->live += bytes;
    if (d->in_use > d->peak) d->peak = d->in_use;
    pthread_mutex_unlock(&d->memory);
    return b;
}

static bool still_there(tn__device *d, const tn__queue *q)
{
    pthread_mutex_lock(&d->queue_lock);
    const tn__queue *i = d->queues;
    while (i && i != q) i = i->next;
    pthread_mutex_unlock(&d->queue_lock);
    return i != NULL;
}

tn__buffer *tn__buffer_new(tn__device *d, size_t bytes)
{
    size_t cap;
    int class = size_class(bytes, &cap);
    if (class < 0) {
        tn__fail(TN_EOOM, "%s: a buffer of %zu bytes cannot be had: no device has so much", d->name,
                 bytes);
        return NULL;
    }
    tn__buffer *b = pop(d, class, bytes);
    if (b && d->async && b->last != tn__queue_mine(d) && still_there(d, b->last))
        tn__queue_wait(b->last);
    if (!b) b = fresh(d, bytes, cap);
    if (!b) return NULL;
    atomic_store(&b->refs, 1);
    b->bytes = bytes;
    b->next = NULL;
    return b;
}

/* Wraps where the device takes host memory; NULL without an error where it does not. */
static tn__buffer *borrow(tn__device *d, void *p, size_t bytes, bool *nomem)
{
    *nomem = false;
    tn__plug_err e;
    if (!(d->caps.flags & TNP_F_HOSTPTR) || !bytes) return NULL;
    if (d->caps.buf_align > 1 && (uintptr_t)p % d->caps.buf_align) return NULL;
    tn__buffer *b = tn__calloc(1, sizeof *b);
    *nomem = !b;
    if (!b) return NULL;
    tnp_alloc a = {.size = sizeof a, .bytes = bytes, .host_ptr = p};
    if (ask(d, &a, b, &e) < 0) {
        tn__free(b);
        return NULL;
    }
    b->dev = d;
    b->borrowed = true;
    b->bytes = bytes;
    atomic_store(&b->refs, 1);
    return b;
}

tn__buffer *tn__buffer_wrap(tn__device *d, void *p, size_t bytes, void (*release)(void *),
                            void *user)
{
    bool nomem;
    tn__buffer *b = borrow(d, p, bytes, &nomem);
    if (b) {
        b->release = release;
        b->user = user;
        return b;
    }
    if (nomem) return NULL;
    b = tn__buffer_new(d, bytes);
    if (b && !tn__buffer_write(b, 0, p, bytes)) {
        tn__buffer_unref(b);
        b = NULL;
    }
    if (b && release) release(user);
    return b;
}

void tn__buffer_ref(tn__buffer *b) { atomic_fetch_add_explicit(&b->refs, 1, memory_order_relaxed); }

void tn__buffer_unref(tn__buffer *b)
{
    if (!b || atomic_fetch_sub_explicit(&b->refs, 1, memory_order_acq_rel) != 1) return;
    tn__device *d = b->dev;
    if (b->borrowed) {
        if (d->async) tn__device_sync(d);
        void (*release)(void *) = b->release;
        void *user = b->user;
        destroy(b);
        if (release) release(user);
        return;
    }
    size_t cap;
    int class = size_class(b->cap, &cap);
    if (d->async) b->last = tn__queue_mine(d);
    pthread_mutex_lock(&d->memory);
    d->in_use -= b->cap;
    d->live -= b->bytes;
    d->cached += b->cap;
    b->next = d->free[class];
    d->free[class] = b;
    pthread_mutex_unlock(&d->memory);
}

/* ---- looking at it ---- */

tn__device *tn__buffer_device(const tn__buffer *b) { return b->dev; }
size_t tn__buffer_bytes(const tn__buffer *b) { return b->bytes; }
bool tn__buffer_borrowed(const tn__buffer *b) { return b->borrowed; }
void *tn__buffer_map(tn__buffer *b) { return b->map; }

tnp_ref tn__buffer_ref_of(const tn__buffer *b, size_t off, size_t len)
{
    return (tnp_ref){b->h, off, len};
}

/* ---- copies ---- */

static bool in_range(const tn__buffer *b, size_t off, size_t n, const char *what)
{
    if (off <= b->bytes && n <= b->bytes - off) return true;
    return tn__fail(TN_EINTERNAL, "%s: %s: bytes %zu to %zu of a buffer of %zu", b->dev->name, what,
                    off, off + n, b->bytes);
}

/* A synchronous device with host addresses needs no call of the plugin. */
static bool direct(const tn__buffer *b) { return b->map && !b->dev->async; }

bool tn__buffer_write(tn__buffer *dst, size_t off, const void *src, size_t n)
{
    if (!in_range(dst, off, n, "write")) return false;
    if (!n) return true;
    if (direct(dst)) {
        memcpy((char *)dst->map + off, src, n);
        return true;
    }
    tn__device *d = dst->dev;
    tn__submission s;
    if (!tn__submit_begin(&s, d)) return false;
    tnp_rc rc = d->ops->copy_in(d->h, s.q->q, (tnp_ref){dst->h, off, n}, src, s.sync, s.err);
    return tn__submit_end(&s, "copy to the device", rc);
}

bool tn__buffer_read(void *dst, tn__buffer *src, size_t off, size_t n)
{
    if (!in_range(src, off, n, "read")) return false;
    if (!n) return true;
    if (direct(src)) {
        memcpy(dst, (const char *)src->map + off, n);
        return true;
    }
    return tn__ref_read(src->dev, dst, &(tnp_ref){src->h, off, n});
}

bool tn__ref_read(tn__device *d, void *dst, const tnp_ref *src)
{
    tn__submission s;
    if (!tn__submit_begin(&s, d)) return false;
    tnp_rc rc = d->ops->copy_out(d->h, s.q->q, dst, *src, s.sync, s.err);
    return tn__submit_end(&s, "copy from the device", rc) && tn__queue_wait(s.q);
}

static bool copy_inside(tn__buffer *dst, size_t doff, tn__buffer *src, size_t soff, size_t n)
{
    tn__device *d = dst->dev;
    tn__submission s;
    if (!tn__submit_begin(&s, d)) return false;
    tnp_rc rc = d->ops->copy(d->h, s.q->q, (tnp_ref){dst->h, doff, n}, (tnp_ref){src->h, soff, n},
                             s.sync, s.err);
    return tn__submit_end(&s, "copy", rc);
}

/* Through host memory, in parts. */
static bool copy_across(tn__buffer *dst, size_t doff, tn__buffer *src, size_t soff, size_t n)
{
    size_t part = n < (4u << 20) ? n : 4u << 20;
    char *tmp = tn__alloc(part);
    bool ok = tmp != NULL;
    for (size_t at = 0; ok && at < n; at += part) {
        size_t k = n - at < part ? n - at : part;
        ok = tn__buffer_read(tmp, src, soff + at, k) && tn__buffer_write(dst, doff + at, tmp, k);
    }
    tn__free(tmp);
    return ok;
}

bool tn__buffer_copy(tn__buffer *dst, size_t doff, tn__buffer *src, size_t soff, size_t n)
{
    if (!in_range(dst, doff, n, "copy") || !in_range(src, soff, n, "copy")) return false;
    if (!n) return true;
    if (dst->dev == src->dev) return copy_inside(dst, doff, src, soff, n);
    if (direct(src)) return tn__buffer_write(dst, doff, (const char *)src->map + soff, n);
    if (direct(dst)) return tn__buffer_read((char *)dst->map + doff, src, soff, n);
    return copy_across(dst, doff, src, soff, n);
}
