/* SPDX-License-Identifier: MIT */
/*
 * The CPU device: memory, programs, queues, timelines and launches.  Synchronous: a call is done when it
 * returns, so a queue is a name and a timeline a number.
 *
 * Buffers are 64-byte aligned.  Large ones are pages of their own that go back to the system when freed.
 */
#define _GNU_SOURCE
#include "cpu.h"
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { PAGED = 256 << 10, PAGE = 4096, HUGE = 4 << 20 };

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)e;
    cpu__caps(d->index, out);
    return TNP_OK;
}

/* ---- memory ---- */

static tnp_rc oom(const tnp_dev *d, uint64_t bytes, tnp_err *e)
{
    return cpu__fail(e, TNP_E_OOM, ENOMEM, "CPU:%u: %llu bytes: more than there is (%llu in all)",
                     d->index, (unsigned long long)bytes, (unsigned long long)cpu__mem_total());
}

static bool take_pages(tnp_buf *b, size_t n)
{
    if (!n) n = 1;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
#ifdef MADV_HUGEPAGE
    if (n >= HUGE)
        madvise(p, n, MADV_HUGEPAGE); /* less than half the time for the first touch; a wish only */
#endif
    b->p = p;
    b->mapped = n;
    return true;
}

static bool take_block(tnp_buf *b, size_t n, bool zero)
{
    size_t room = n + CPU_ALIGN;
    b->block = cpu__host->realloc(cpu__host->ctx, NULL, room);
    if (!b->block) return false;
    b->p = (char *)b->block + (CPU_ALIGN - (uintptr_t)b->block % CPU_ALIGN) % CPU_ALIGN;
    if (zero) memset(b->p, 0, n);
    return true;
}

static tnp_rc buf_alloc(tnp_dev *d, const tnp_alloc *a, tnp_buf **out, tnp_err *e)
{
    const uint32_t known = TNP_MEM_HOSTVIS | TNP_MEM_HOST | TNP_MEM_UNCACHED | TNP_MEM_ZERO;
    if (a->flags & ~known)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: memory flags %#x: unknown",
                         a->flags & ~known);
    if (a->align > PAGE || (a->align & (a->align - 1)))
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: alignment %llu: a power of two of at most %d",
                         (unsigned long long)a->align, PAGE);
    if (!a->host_ptr && a->bytes > cpu__mem_total()) return oom(d, a->bytes, e);
    tnp_buf *b = cpu__take(sizeof *b);
    if (!b) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for a buffer's record");
    b->bytes = (size_t)a->bytes;
    bool ok = true;
    if (a->host_ptr)
        b->p = a->host_ptr;
    else if (b->bytes >= PAGED || a->align > CPU_ALIGN)
        ok = take_pages(b, b->bytes);
    else
        ok = take_block(b, b->bytes, (a->flags & TNP_MEM_ZERO) != 0);
    if (!ok) {
        cpu__give(b);
        return oom(d, a->bytes, e);
    }
    *out = b;
    return TNP_OK;
}

static void buf_free(tnp_dev *d, tnp_buf *b)
{
    (void)d;
    if (!b) return;
    if (b->mapped) munmap(b->p, b->mapped);
    cpu__give(b->block);
    cpu__give(b);
}

static tnp_rc buf_map(tnp_dev *d, tnp_buf *b, void **p, tnp_err *e)
{
    (void)d, (void)e;
    *p = b->p;
    return TNP_OK;
}

static tnp_rc buf_addr(tnp_dev *d, tnp_buf *b, uint64_t *va, tnp_err *e)
{
    (void)d, (void)e;
    *va = (uint64_t)(uintptr_t)b->p;
    return TNP_OK;
}

tnp_rc cpu__check_ref(const tnp_ref *r, const char *what, tnp_err *e)
{
    if (!r->buf) return cpu__fail(e, TNP_E_ARG, 0, "CPU: %s: no buffer", what);
    if (r->off > r->buf->bytes || r->len > r->buf->bytes - r->off)
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: %s: bytes %llu to %llu of a buffer of %zu", what,
                         (unsigned long long)r->off, (unsigned long long)(r->off + r->len),
                         r->buf->bytes);
    return TNP_OK;
}

/* ---- programs ---- */

static tnp_rc prog_load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    (void)d;
    if (l->flags)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: load flags %#x: none is known", l->flags);
    if (!l->format || strcmp(l->format, "so"))
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: format \"%s\": only so is loaded here",
                         l->format ? l->format : "");
    if (!l->entry || !l->entry->name)
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: load: no entry is named");
    const tnp_entry *en = l->entry;
    if (en->nargs > CPU_MAX_ARGS || en->nimms > CPU_MAX_IMMS)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: kernel %s: %u buffers and %u immediates: at most %d and %d",
                         en->name, en->nargs, en->nimms, CPU_MAX_ARGS, CPU_MAX_IMMS);
    tnp_prog *p = cpu__take(sizeof *p);
    if (!p) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for a program's record");
    tnp_rc rc = cpu__lib_get(l->bin, l->len, &p->lib, e);
    if (!rc) {
        p->fn = cpu__lib_find(p->lib, en->name);
        p->scratch_bytes = TNP_HAS(l, tnp_load, scratch_bytes) ? l->scratch_bytes : 0;
        p->nargs = en->nargs;
        p->nimms = en->nimms;
        if (!p->fn) rc = cpu__fail(e, TNP_E_ARG, 0, "CPU: the binary has no entry %s", en->name);
    }
    if (rc) {
        cpu__lib_put(p->lib);
        cpu__give(p);
        return rc;
    }
    *out = p;
    return TNP_OK;
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    if (!p) return;
    cpu__lib_put(p->lib);
    cpu__give(p);
}

/* ---- queues and timelines ---- */

static tnp_rc queue_new(tnp_dev *d, uint32_t flags, tnp_queue **out, tnp_err *e)
{
    if (flags)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: queue flags %#x: none is known", flags);
    tnp_queue *q = cpu__take(sizeof *q);
    if (!q) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for a queue's record");
    q->dev = d;
    *out = q;
    return TNP_OK;
}

static void queue_free(tnp_dev *d, tnp_queue *q)
{
    (void)d;
    cpu__give(q);
}

static tnp_rc sem_new(tnp_dev *d, uint64_t initial, tnp_sem **out, tnp_err *e)
{
    (void)d;
    tnp_sem *s = cpu__take(sizeof *s);
    if (!s) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for a timeline's record");
    atomic_store(&s->value, initial);
    *out = s;
    return TNP_OK;
}

static void sem_free(tnp_dev *d, tnp_sem *s)
{
    (void)d;
    cpu__give(s);
}

static tnp_rc sem_signal(tnp_dev *d, tnp_sem *s, uint64_t value, tnp_err *e)
{
    (void)d;
    uint64_t old = atomic_load(&s->value);
    do {
        if (value <= old)
            return cpu__fail(e, TNP_E_ARG, 0,
                             "CPU: signal %llu: the timeline is at %llu already and only rises",
                             (unsigned long long)value, (unsigned long long)old);
    } while (!atomic_compare_exchange_weak(&s->value, &old, value));
    return TNP_OK;
}

/* Rare: only a value that another thread is about to signal is not there yet. */
static tnp_rc sem_wait(tnp_dev *d, tnp_sem *s, uint64_t value, uint64_t timeout_ns, tnp_err *e)
{
    (void)d;
    uint64_t start = cpu__now_ns();
    long pause = 1000;
    while (atomic_load(&s->value) < value) {
        uint64_t gone = cpu__now_ns() - start;
        if (gone >= timeout_ns)
            return cpu__fail(e, TNP_E_TIMEOUT, 0,
                             "CPU: timeline at %llu: %llu was not reached in %llu ms",
                             (unsigned long long)atomic_load(&s->value), (unsigned long long)value,
                             (unsigned long long)(timeout_ns / 1000000u));
        nanosleep(&(struct timespec){.tv_nsec = pause}, NULL);
        if (pause < 500000) pause *= 2;
    }
    return TNP_OK;
}

tnp_rc cpu__settle(const tnp_sync *s, tnp_err *e)
{
    if (!s) return TNP_OK;
    return s->nsignal ? sem_signal(NULL, s->signal->sem, s->signal->value, e) : TNP_OK;
}

static tnp_rc waited(const tnp_sync *s, tnp_err *e)
{
    for (uint32_t i = 0; s && i < s->nwait; i++)
        if (atomic_load(&s->wait[i].sem->value) < s->wait[i].value)
            return cpu__fail(
                e, TNP_E_ARG, 0,
                "CPU: wait for %llu: nobody has signalled it yet, and this device does "
                "not wait",
                (unsigned long long)s->wait[i].value);
    return TNP_OK;
}

/* ---- work ---- */

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    (void)d, (void)q;
    void *bufs[CPU_MAX_ARGS];
    if (l->flags)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: launch flags %#x: none is known", l->flags);
    if (l->nbufs != p->nargs || l->nimms != p->nimms)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: launch with %u buffers and %u immediates: the kernel has %u and %u",
                         l->nbufs, l->nimms, p->nargs, p->nimms);
    if ((uint64_t)l->local[0] * l->local[1] * l->local[2] > 1)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: local size %u x %u x %u: a work-group is one thread", l->local[0],
                         l->local[1], l->local[2]);
    tnp_rc rc = waited(s, e);
    for (uint32_t i = 0; i < l->nbufs && !rc; i++) {
        rc = cpu__check_ref(&l->bufs[i], "launch", e);
        if (!rc) bufs[i] = l->bufs[i].buf->p + l->bufs[i].off;
    }
    if (rc) return rc;
    const cpu__job j = {.fn = p->fn,
                        .bufs = bufs,
                        .imms = l->imms,
                        .grid = {l->grid[0], l->grid[1], l->grid[2]},
                        .scratch_bytes = p->scratch_bytes,
                        .work = l->work};
    uint64_t t0 = l->out_ns ? cpu__now_ns() : 0;
    if (!cpu__pool_run(&j))
        return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no memory for %llu bytes of scratch",
                         (unsigned long long)p->scratch_bytes);
    if (l->out_ns) *l->out_ns = cpu__now_ns() - t0 + 1;
    return cpu__settle(s, e);
}

static tnp_rc copy_in(tnp_dev *d, tnp_queue *q, tnp_ref dst, const void *src, const tnp_sync *s,
                      tnp_err *e)
{
    (void)d, (void)q;
    tnp_rc rc = waited(s, e);
    if (!rc) rc = cpu__check_ref(&dst, "copy in", e);
    if (rc) return rc;
    if (dst.len) memcpy(dst.buf->p + dst.off, src, (size_t)dst.len);
    return cpu__settle(s, e);
}

static tnp_rc copy_out(tnp_dev *d, tnp_queue *q, void *dst, tnp_ref src, const tnp_sync *s,
                       tnp_err *e)
{
    (void)d, (void)q;
    tnp_rc rc = waited(s, e);
    if (!rc) rc = cpu__check_ref(&src, "copy out", e);
    if (rc) return rc;
    if (src.len) memcpy(dst, src.buf->p + src.off, (size_t)src.len);
    return cpu__settle(s, e);
}

static tnp_rc copy(tnp_dev *d, tnp_queue *q, tnp_ref dst, tnp_ref src, const tnp_sync *s,
                   tnp_err *e)
{
    (void)d, (void)q;
    tnp_rc rc = waited(s, e);
    if (!rc) rc = cpu__check_ref(&src, "copy", e);
    if (!rc) rc = cpu__check_ref(&dst, "copy", e);
    if (!rc && dst.len != src.len)
        rc = cpu__fail(e, TNP_E_ARG, 0, "CPU: copy of %llu bytes to %llu: the two must be equal",
                       (unsigned long long)src.len, (unsigned long long)dst.len);
    if (rc) return rc;
    if (src.len) memmove(dst.buf->p + dst.off, src.buf->p + src.off, (size_t)src.len);
    return cpu__settle(s, e);
}

/* Doubles what is filled already, from one pattern on.  (Large moves are not split over the threads: one
 * thread with the C library's streaming stores was faster than two without.) */
void cpu__fill(char *p, size_t n, uint64_t pattern, uint32_t width)
{
    if (!n) return;
    size_t done = width < n ? width : n;
    memcpy(p, &pattern, done);
    if (!pattern) {
        memset(p, 0, n);
        return;
    }
    while (done < n) {
        size_t k = done < n - done ? done : n - done;
        if (k > 4096) k = 4096 - 4096 % width;
        memcpy(p + done, p, k);
        done += k;
    }
}

static tnp_rc fill(tnp_dev *d, tnp_queue *q, tnp_ref dst, uint64_t pattern, uint32_t width,
                   const tnp_sync *s, tnp_err *e)
{
    (void)d, (void)q;
    tnp_rc rc = waited(s, e);
    if (!rc) rc = cpu__check_ref(&dst, "fill", e);
    if (!rc && (!width || width > 8 || (width & (width - 1)) || dst.len % width))
        rc = cpu__fail(e, TNP_E_ARG, 0,
                       "CPU: fill of %llu bytes with a pattern of %u: 1, 2, 4 or 8 that divide it",
                       (unsigned long long)dst.len, width);
    if (rc) return rc;
    cpu__fill(dst.buf->p + dst.off, (size_t)dst.len, pattern, width);
    return cpu__settle(s, e);
}

static tnp_rc flush(tnp_dev *d, tnp_queue *q, tnp_err *e)
{
    (void)d, (void)q, (void)e;
    return TNP_OK;
}

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return strcmp(id, "tenon.graph/1") ? NULL : &cpu__graph_ops;
}

const tnp_dev_ops cpu__dev_ops = {.size = sizeof cpu__dev_ops,
                                  .minor = TNP_MINOR,
                                  .close = cpu__dev_close,
                                  .caps = dev_caps,
                                  .buf_alloc = buf_alloc,
                                  .buf_free = buf_free,
                                  .prog_load = prog_load,
                                  .prog_free = prog_free,
                                  .queue_new = queue_new,
                                  .queue_free = queue_free,
                                  .sem_new = sem_new,
                                  .sem_free = sem_free,
                                  .sem_signal = sem_signal,
                                  .sem_wait = sem_wait,
                                  .launch = launch,
                                  .copy_in = copy_in,
                                  .copy_out = copy_out,
                                  .copy = copy,
                                  .fill = fill,
                                  .flush = flush,
                                  .buf_map = buf_map,
                                  .buf_addr = buf_addr,
                                  .ext = ext};
