/* SPDX-License-Identifier: MIT */
/*
 * INTERP's root: host services, one device, memory, timelines, copies.
 *
 * All is synchronous: a call has done its work when it returns, so queues are empty objects and a wait
 * that has not been reached yet is an error of the caller.  Device memory is host memory.  Timelines are
 * atomic numbers; the host's wait polls, so no lock exists that a fork could leave taken.  The device has
 * no state but its existence: any number of threads may use it.
 */
#define _POSIX_C_SOURCE 200809L
#include "interp.h"
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

const tnp_host *interp__host;

struct tnp_dev {
    uint32_t index;
};
struct tnp_queue {
    uint32_t unused;
};
struct tnp_sem {
    _Atomic uint64_t value;
};

/* ---- services ---- */

void *interp__alloc(size_t n) { return interp__host->realloc(interp__host->ctx, NULL, n ? n : 1); }
void interp__free(void *p)
{
    if (p) interp__host->realloc(interp__host->ctx, p, 0);
}

tnp_rc interp__fail(tnp_err *err, tnp_rc rc, const char *fmt, ...)
{
    if (!err) return rc;
    err->rc = rc;
    err->native = 0;
    err->len = 0;
    if (!err->msg || !err->cap) return rc;
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(err->msg, err->cap, fmt, ap);
    va_end(ap);
    if (n > 0) err->len = (uint32_t)n < err->cap ? (uint32_t)n : err->cap - 1;
    return rc;
}

uint64_t interp__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

tnp_rc interp__ref(const tnp_ref *r, const char *what, unsigned char **p, tnp_err *err)
{
    if (!r->buf)
        return interp__fail(err, TNP_E_ARG, "INTERP: %s: a reference without a buffer", what);
    if (r->off > r->buf->bytes || r->len > r->buf->bytes - r->off)
        return interp__fail(err, TNP_E_ARG, "INTERP: %s: bytes %llu to %llu of a buffer of %llu",
                            what, (unsigned long long)r->off, (unsigned long long)(r->off + r->len),
                            (unsigned long long)r->buf->bytes);
    *p = r->buf->p + r->off;
    return TNP_OK;
}

tnp_rc interp__fill(unsigned char *p, uint64_t len, uint64_t pattern, uint32_t width, tnp_err *err)
{
    if (width != 1 && width != 2 && width != 4 && width != 8)
        return interp__fail(err, TNP_E_ARG, "INTERP: fill: a pattern of %u bytes: 1, 2, 4 or 8",
                            width);
    if (len % width)
        return interp__fail(err, TNP_E_ARG,
                            "INTERP: fill: %llu bytes are no multiple of the pattern's %u",
                            (unsigned long long)len, width);
    for (uint64_t i = 0; i < len; i += width) interp__put(p + i, width, pattern);
    return TNP_OK;
}

/* ---- capabilities ---- */

static const char *const linear[] = {"linear", NULL};
static const char *const ops[] = {"fma", NULL};

static tnp_rc caps(tnp_caps *out, tnp_err *err)
{
    const uint64_t all = ((UINT64_C(1) << TNP_DTYPE_COUNT) - 1) & ~UINT64_C(1);
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE),
               avail = sysconf(_SC_AVPHYS_PAGES);
    const uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page
                                                 : UINT64_C(1) << 32;
    tnp_caps c = {
        .kind = TNP_KIND_SOFT,
        .flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_THREADS | TNP_F_TIMESTAMP |
                 TNP_F_CONTAINS_FAULTS,
        .name = "linear code interpreter",
        .arch = "linear",
        .driver = "none",
        .uid = "interp:0",
        .mem_total = bytes,
        .mem_free = avail > 0 && page > 0 ? (uint64_t)avail * (uint64_t)page : bytes,
        .max_buffer = bytes,
        .buf_align = 1,
        .max_args = 64,
        .cores = 1,
        .subgroup = 1,
        .max_local = {1, 1, 1},
        .max_local_total = 1,
        .max_grid = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
        .dtypes_mem = all,
        .dtypes_alu = all,
        .ops = ops,
        .dialects = linear,
        .formats = linear,
    };
    if (out->size < TNP_END(tnp_caps, flags))
        return interp__fail(err, TNP_E_ARG, "INTERP: caps: a struct of %u bytes", out->size);
    c.size = out->size < sizeof c ? out->size : (uint32_t)sizeof c;
    memcpy(out, &c, c.size);
    return TNP_OK;
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *err)
{
    (void)d;
    return caps(out, err);
}

static uint64_t max_buffer(void)
{
    tnp_caps c = {.size = sizeof c};
    return caps(&c, NULL) == TNP_OK ? c.max_buffer : 0;
}

/* ---- memory ---- */

static tnp_rc buf_alloc(tnp_dev *d, const tnp_alloc *a, tnp_buf **out, tnp_err *err)
{
    const uint32_t known = TNP_MEM_HOSTVIS | TNP_MEM_HOST | TNP_MEM_UNCACHED | TNP_MEM_ZERO;
    const uint64_t align = a->align > INTERP_ALIGN ? a->align : INTERP_ALIGN;
    (void)d;
    if (a->flags & ~known)
        return interp__fail(err, TNP_E_UNSUPPORTED, "INTERP: buf_alloc: unknown flags 0x%x",
                            a->flags & ~known);
    if (align & (align - 1))
        return interp__fail(err, TNP_E_ARG,
                            "INTERP: buf_alloc: an alignment of %llu: no power of two",
                            (unsigned long long)align);
    if (a->bytes > max_buffer() || align > UINT64_C(1) << 30)
        return interp__fail(err, TNP_E_OOM,
                            "INTERP: buf_alloc: %llu bytes: more than this machine has",
                            (unsigned long long)a->bytes);
    tnp_buf *b = interp__alloc(sizeof *b);
    if (!b) return interp__fail(err, TNP_E_NOMEM, "INTERP: buf_alloc: no host memory");
    *b = (tnp_buf){.p = a->host_ptr, .bytes = a->bytes};
    if (!a->host_ptr) {
        b->base = interp__alloc((size_t)(a->bytes + align));
        if (!b->base) {
            interp__free(b);
            return interp__fail(err, TNP_E_OOM, "INTERP: buf_alloc: %llu bytes: no memory",
                                (unsigned long long)a->bytes);
        }
        b->p = (unsigned char *)b->base + (align - (uintptr_t)b->base % align) % align;
        if (a->flags & TNP_MEM_ZERO) memset(b->p, 0, (size_t)a->bytes);
    }
    *out = b;
    return TNP_OK;
}

static void buf_free(tnp_dev *d, tnp_buf *b)
{
    (void)d;
    if (!b) return;
    interp__free(b->base);
    interp__free(b);
}

static tnp_rc buf_map(tnp_dev *d, tnp_buf *b, void **p, tnp_err *err)
{
    (void)d;
    (void)err;
    *p = b->p;
    return TNP_OK;
}

/* ---- queues and timelines ---- */

static tnp_rc queue_new(tnp_dev *d, uint32_t flags, tnp_queue **out, tnp_err *err)
{
    (void)d;
    if (flags)
        return interp__fail(err, TNP_E_UNSUPPORTED, "INTERP: queue_new: unknown flags 0x%x", flags);
    tnp_queue *q = interp__alloc(sizeof *q);
    if (!q) return interp__fail(err, TNP_E_NOMEM, "INTERP: queue_new: no host memory");
    q->unused = 0;
    *out = q;
    return TNP_OK;
}

static void queue_free(tnp_dev *d, tnp_queue *q)
{
    (void)d;
    interp__free(q);
}

static tnp_rc sem_new(tnp_dev *d, uint64_t initial, tnp_sem **out, tnp_err *err)
{
    (void)d;
    tnp_sem *s = interp__alloc(sizeof *s);
    if (!s) return interp__fail(err, TNP_E_NOMEM, "INTERP: sem_new: no host memory");
    atomic_init(&s->value, initial);
    *out = s;
    return TNP_OK;
}

static void sem_free(tnp_dev *d, tnp_sem *s)
{
    (void)d;
    interp__free(s);
}

static tnp_rc raise_to(tnp_sem *s, uint64_t value, tnp_err *err)
{
    uint64_t old = atomic_load(&s->value);
    do {
        if (value <= old)
            return interp__fail(
                err, TNP_E_ARG,
                "INTERP: signal of %llu: the timeline is at %llu already and only rises",
                (unsigned long long)value, (unsigned long long)old);
    } while (!atomic_compare_exchange_weak(&s->value, &old, value));
    return TNP_OK;
}

static tnp_rc sem_signal(tnp_dev *d, tnp_sem *s, uint64_t value, tnp_err *err)
{
    (void)d;
    return raise_to(s, value, err);
}

static tnp_rc sem_wait_(tnp_dev *d, tnp_sem *s, uint64_t value, uint64_t timeout_ns, tnp_err *err)
{
    const uint64_t t0 = interp__now_ns();
    const struct timespec nap = {.tv_nsec = 100000};
    (void)d;
    while (atomic_load(&s->value) < value) {
        if (interp__now_ns() - t0 >= timeout_ns)
            return interp__fail(
                err, TNP_E_TIMEOUT, "INTERP: wait for %llu: the timeline is at %llu",
                (unsigned long long)value, (unsigned long long)atomic_load(&s->value));
        nanosleep(&nap, NULL);
    }
    return TNP_OK;
}

tnp_rc interp__sync_begin(const tnp_sync *s, tnp_err *err)
{
    for (uint32_t i = 0; s && i < s->nwait; i++) {
        const uint64_t now = atomic_load(&s->wait[i].sem->value);
        if (now < s->wait[i].value)
            return interp__fail(
                err, TNP_E_ARG,
                "INTERP: wait for %llu: the timeline is at %llu: nothing enqueued reaches it",
                (unsigned long long)s->wait[i].value, (unsigned long long)now);
    }
    return TNP_OK;
}

tnp_rc interp__sync_end(const tnp_sync *s, tnp_err *err)
{
    return s && s->nsignal ? raise_to(s->signal[0].sem, s->signal[0].value, err) : TNP_OK;
}

/* ---- work ---- */

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *err)
{
    (void)d;
    (void)q;
    tnp_rc rc = interp__sync_begin(s, err);
    if (rc == TNP_OK) rc = interp__launch(p, l, err);
    return rc == TNP_OK ? interp__sync_end(s, err) : rc;
}

static tnp_rc copy_in(tnp_dev *d, tnp_queue *q, tnp_ref dst, const void *src, const tnp_sync *s,
                      tnp_err *err)
{
    unsigned char *p;
    (void)d;
    (void)q;
    tnp_rc rc = interp__sync_begin(s, err);
    if (rc == TNP_OK) rc = interp__ref(&dst, "copy_in", &p, err);
    if (rc != TNP_OK) return rc;
    if (dst.len) memcpy(p, src, (size_t)dst.len);
    return interp__sync_end(s, err);
}

static tnp_rc copy_out(tnp_dev *d, tnp_queue *q, void *dst, tnp_ref src, const tnp_sync *s,
                       tnp_err *err)
{
    unsigned char *p;
    (void)d;
    (void)q;
    tnp_rc rc = interp__sync_begin(s, err);
    if (rc == TNP_OK) rc = interp__ref(&src, "copy_out", &p, err);
    if (rc != TNP_OK) return rc;
    if (src.len) memcpy(dst, p, (size_t)src.len);
    return interp__sync_end(s, err);
}

static tnp_rc copy(tnp_dev *d, tnp_queue *q, tnp_ref dst, tnp_ref src, const tnp_sync *s,
                   tnp_err *err)
{
    unsigned char *to, *from;
    (void)d;
    (void)q;
    tnp_rc rc = interp__sync_begin(s, err);
    if (rc == TNP_OK) rc = interp__ref(&dst, "copy", &to, err);
    if (rc == TNP_OK) rc = interp__ref(&src, "copy", &from, err);
    if (rc != TNP_OK) return rc;
    if (dst.len != src.len)
        return interp__fail(err, TNP_E_ARG, "INTERP: copy: %llu bytes to %llu",
                            (unsigned long long)src.len, (unsigned long long)dst.len);
    if (dst.len) memmove(to, from, (size_t)dst.len);
    return interp__sync_end(s, err);
}

static tnp_rc fill(tnp_dev *d, tnp_queue *q, tnp_ref dst, uint64_t pattern, uint32_t width,
                   const tnp_sync *s, tnp_err *err)
{
    unsigned char *p;
    (void)d;
    (void)q;
    tnp_rc rc = interp__sync_begin(s, err);
    if (rc == TNP_OK) rc = interp__ref(&dst, "fill", &p, err);
    if (rc == TNP_OK) rc = interp__fill(p, dst.len, pattern, width, err);
    return rc == TNP_OK ? interp__sync_end(s, err) : rc;
}

static tnp_rc flush(tnp_dev *d, tnp_queue *q, tnp_err *err)
{
    (void)d;
    (void)q;
    (void)err;
    return TNP_OK;
}

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return strcmp(id, "tenon.graph/1") == 0 ? &interp__graph_ops : NULL;
}

/* ---- root ---- */

static void dev_close(tnp_dev *d) { interp__free(d); }

static const tnp_dev_ops dev_ops = {
    .size = sizeof dev_ops,
    .minor = TNP_MINOR,
    .close = dev_close,
    .caps = dev_caps,
    .buf_alloc = buf_alloc,
    .buf_free = buf_free,
    .prog_load = interp__load,
    .prog_free = interp__unload,
    .queue_new = queue_new,
    .queue_free = queue_free,
    .sem_new = sem_new,
    .sem_free = sem_free,
    .sem_signal = sem_signal,
    .sem_wait = sem_wait_,
    .launch = launch,
    .copy_in = copy_in,
    .copy_out = copy_out,
    .copy = copy,
    .fill = fill,
    .flush = flush,
    .buf_map = buf_map,
    .ext = ext,
};

static tnp_rc init(const tnp_host *host, tnp_err *err)
{
    (void)err;
    interp__host = host;
    return TNP_OK;
}

static void fini(void) { interp__host = NULL; }

static tnp_rc count(uint32_t *n, tnp_err *err)
{
    (void)err;
    *n = 1;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *err)
{
    if (i != 0)
        return interp__fail(err, TNP_E_NODEV, "INTERP: device %u: there is only device 0", i);
    return caps(out, err);
}

static tnp_rc dev_open(uint32_t i, tnp_dev **out, const tnp_dev_ops **o, tnp_err *err)
{
    if (i != 0)
        return interp__fail(err, TNP_E_NODEV, "INTERP: device %u: there is only device 0", i);
    tnp_dev *d = interp__alloc(sizeof *d);
    if (!d) return interp__fail(err, TNP_E_NOMEM, "INTERP: open: no host memory");
    d->index = i;
    *out = d;
    *o = &dev_ops;
    return TNP_OK;
}

static void forked(void) {}

const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    static const tnp_plugin plugin = {
        .magic = TNP_MAGIC,
        .size = sizeof plugin,
        .minor = TNP_MINOR,
        .flags = TNP_ROOT_SURVIVES_FORK,
        .name = "INTERP",
        .version = "0.1.0",
        .vendor = "Tenon",
        .build = "C11",
        .init = init,
        .fini = fini,
        .count = count,
        .probe = probe,
        .open = dev_open,
        .forked = forked,
    };
    (void)host_minor;
    return &plugin;
}
