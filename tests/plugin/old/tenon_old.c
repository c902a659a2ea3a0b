/* SPDX-License-Identifier: MIT */
/*
 * A plugin as it was written against minor 0 of the ABI, with the header of that day (plugin_minor0.h), kept as
 * source: it must build, pass the checks of its day and be loaded by every later host of major 0.  It accepts
 * everything and runs nothing.  Not to be brought up to date.
 */
#define _GNU_SOURCE
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include "plugin_minor0.h"
#include <time.h>

enum { DEVICES = 16, PAGED = 1 << 16, ALIGN = 64 };

struct tnp_dev {
    uint32_t index;
};
struct tnp_buf {
    char *p;
    size_t bytes; /* of the allocation; 0: wrapped host memory */
    void *block;  /* what to free; NULL: pages */
};
struct tnp_prog {
    uint32_t nargs;
};
struct tnp_queue {
    tnp_dev *dev;
};
struct tnp_sem {
    _Atomic uint64_t value;
};
struct tnp_graph {
    uint32_t nslots, nscalars;
};

static const tnp_host *host;

static tnp_rc fail(tnp_err *e, tnp_rc rc, const char *fmt, ...)
{
    if (!e) return rc;
    e->rc = rc;
    e->native = 0;
    e->len = 0;
    if (!e->msg || !e->cap) return rc;
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(e->msg, e->cap, fmt, ap);
    va_end(ap);
    if (n < 0) n = 0;
    e->len = (uint32_t)n < e->cap ? (uint32_t)n : e->cap - 1;
    return rc;
}

static void *take(size_t n)
{
    void *p = host->realloc(host->ctx, NULL, n);
    if (p) memset(p, 0, n);
    return p;
}

static void give(void *p)
{
    if (p) host->realloc(host->ctx, p, 0);
}

/* ---- capabilities ---- */

static const char *const dialects[] = {"linear", NULL};
static const char *const formats[] = {"linear", NULL};
static const char *const ops[] = {"fma", NULL};

static void fill_caps(uint32_t i, tnp_caps *out)
{
    tnp_caps c = {.size = sizeof c,
                  .kind = TNP_KIND_SOFT,
                  .flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_VADDR |
                           TNP_F_TIMESTAMP | TNP_F_THREADS | TNP_F_NOEXEC,
                  .name = "runs nothing",
                  .arch = "null",
                  .driver = "0.1.0",
                  .mem_total = 1ull << 40,
                  .mem_free = 1ull << 40,
                  .max_buffer = 1ull << 38,
                  .buf_align = 1,
                  .max_args = 1024,
                  .simd_bytes = 32,
                  .simd_regs = 16,
                  .cores = 8,
                  .subgroup = 1,
                  .max_local = {1, 1, 1},
                  .max_local_total = 1,
                  .max_grid = {0xffffffffu, 0xffffffffu, 0xffffffffu},
                  .cache_bytes = {32 << 10, 1 << 20, 16 << 20},
                  .dtypes_mem = (1u << TNP_DTYPE_COUNT) - 2,
                  .dtypes_alu = (1u << TNP_DTYPE_COUNT) - 2,
                  .ops = ops,
                  .dialects = dialects,
                  .formats = formats};
    snprintf(c.uid, sizeof c.uid, "old:%u", i);
    uint32_t n = out->size < sizeof c ? out->size : (uint32_t)sizeof c;
    c.size = n;
    memcpy(out, &c, n);
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)e;
    fill_caps(d->index, out);
    return TNP_OK;
}

/* ---- memory ---- */

static tnp_rc buf_alloc(tnp_dev *d, const tnp_alloc *a, tnp_buf **out, tnp_err *e)
{
    (void)d;
    if (a->bytes > 1ull << 38)
        return fail(e, TNP_E_OOM, "OLD: %llu bytes: more than a buffer can have (256 GiB)",
                    (unsigned long long)a->bytes);
    if (a->align > 4096)
        return fail(e, TNP_E_ARG, "OLD: alignment %llu: at most 4096",
                    (unsigned long long)a->align);
    tnp_buf *b = take(sizeof *b);
    if (!b) return fail(e, TNP_E_NOMEM, "OLD: no host memory for a buffer's record");
    size_t n = (size_t)a->bytes, align = a->align > ALIGN ? (size_t)a->align : ALIGN;
    if (a->host_ptr) {
        b->p = a->host_ptr;
    } else if (n >= PAGED || align > ALIGN) {
        b->bytes = n ? n : 1;
        b->p = mmap(NULL, b->bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (b->p == MAP_FAILED) {
            give(b);
            return fail(e, TNP_E_OOM, "OLD: %zu bytes: no address space", n);
        }
    } else {
        b->bytes = n + ALIGN;
        b->block = take(b->bytes);
        if (!b->block) {
            give(b);
            return fail(e, TNP_E_OOM, "OLD: %zu bytes: no memory", n);
        }
        b->p = (char *)b->block + (ALIGN - (uintptr_t)b->block % ALIGN) % ALIGN;
    }
    *out = b;
    return TNP_OK;
}

static void buf_free(tnp_dev *d, tnp_buf *b)
{
    (void)d;
    if (!b) return;
    if (b->block)
        give(b->block);
    else if (b->bytes)
        munmap(b->p, b->bytes);
    give(b);
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

/* ---- programs, queues, timelines ---- */

static tnp_rc prog_load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    (void)d;
    tnp_prog *p = take(sizeof *p);
    if (!p) return fail(e, TNP_E_NOMEM, "OLD: no host memory for a program's record");
    p->nargs = l->entry ? l->entry->nargs : 0;
    *out = p;
    return TNP_OK;
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    give(p);
}

static tnp_rc queue_new(tnp_dev *d, uint32_t flags, tnp_queue **out, tnp_err *e)
{
    if (flags) return fail(e, TNP_E_UNSUPPORTED, "OLD: queue flags %#x: none is known", flags);
    tnp_queue *q = take(sizeof *q);
    if (!q) return fail(e, TNP_E_NOMEM, "OLD: no host memory for a queue's record");
    q->dev = d;
    *out = q;
    return TNP_OK;
}

static void queue_free(tnp_dev *d, tnp_queue *q)
{
    (void)d;
    give(q);
}

static tnp_rc sem_new(tnp_dev *d, uint64_t initial, tnp_sem **out, tnp_err *e)
{
    (void)d;
    tnp_sem *s = take(sizeof *s);
    if (!s) return fail(e, TNP_E_NOMEM, "OLD: no host memory for a timeline's record");
    atomic_store(&s->value, initial);
    *out = s;
    return TNP_OK;
}

static void sem_free(tnp_dev *d, tnp_sem *s)
{
    (void)d;
    give(s);
}

static tnp_rc sem_signal(tnp_dev *d, tnp_sem *s, uint64_t value, tnp_err *e)
{
    (void)d;
    uint64_t old = atomic_load(&s->value);
    do {
        if (value <= old)
            return fail(e, TNP_E_ARG,
                        "OLD: signal %llu: the timeline is at %llu already and only rises",
                        (unsigned long long)value, (unsigned long long)old);
    } while (!atomic_compare_exchange_weak(&s->value, &old, value));
    return TNP_OK;
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static tnp_rc sem_wait(tnp_dev *d, tnp_sem *s, uint64_t value, uint64_t timeout_ns, tnp_err *e)
{
    (void)d;
    uint64_t start = now_ns();
    while (atomic_load(&s->value) < value) {
        if (now_ns() - start >= timeout_ns)
            return fail(e, TNP_E_TIMEOUT, "OLD: value %llu was not reached in time",
                        (unsigned long long)value);
        nanosleep(&(struct timespec){.tv_nsec = 50000}, NULL);
    }
    return TNP_OK;
}

/* Everything runs at once, so a wait must have passed already. */
static tnp_rc settle(tnp_dev *d, const tnp_sync *s, tnp_err *e)
{
    if (!s) return TNP_OK;
    for (uint32_t i = 0; i < s->nwait; i++)
        if (atomic_load(&s->wait[i].sem->value) < s->wait[i].value)
            return fail(e, TNP_E_ARG, "OLD: waits for a value that nobody has signalled");
    return s->nsignal ? sem_signal(d, s->signal->sem, s->signal->value, e) : TNP_OK;
}

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    (void)q;
    if (l->nbufs != p->nargs)
        return fail(e, TNP_E_ARG, "OLD: launch with %u buffers: the kernel has %u", l->nbufs,
                    p->nargs);
    if (l->out_ns) *l->out_ns = 1;
    return settle(d, s, e);
}

static tnp_rc copy_in(tnp_dev *d, tnp_queue *q, tnp_ref dst, const void *src, const tnp_sync *s,
                      tnp_err *e)
{
    (void)q;
    if (dst.len) memcpy(dst.buf->p + dst.off, src, (size_t)dst.len);
    return settle(d, s, e);
}

static tnp_rc copy_out(tnp_dev *d, tnp_queue *q, void *dst, tnp_ref src, const tnp_sync *s,
                       tnp_err *e)
{
    (void)q;
    if (src.len) memcpy(dst, src.buf->p + src.off, (size_t)src.len);
    return settle(d, s, e);
}

static tnp_rc copy(tnp_dev *d, tnp_queue *q, tnp_ref dst, tnp_ref src, const tnp_sync *s,
                   tnp_err *e)
{
    (void)q;
    if (dst.len != src.len) return fail(e, TNP_E_ARG, "OLD: copy: the two sides differ in length");
    if (dst.len) memmove(dst.buf->p + dst.off, src.buf->p + src.off, (size_t)src.len);
    return settle(d, s, e);
}

static tnp_rc fill(tnp_dev *d, tnp_queue *q, tnp_ref dst, uint64_t pattern, uint32_t width,
                   const tnp_sync *s, tnp_err *e)
{
    (void)q, (void)dst, (void)pattern;
    if (width != 1 && width != 2 && width != 4 && width != 8)
        return fail(e, TNP_E_ARG, "OLD: fill width %u: 1, 2, 4 or 8 bytes", width);
    return settle(d, s, e);
}

static tnp_rc flush(tnp_dev *d, tnp_queue *q, tnp_err *e)
{
    (void)d, (void)q, (void)e;
    return TNP_OK;
}

/* ---- graphs ---- */

static tnp_rc graph_build(tnp_dev *d, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                          uint32_t nscalars, tnp_graph **out, tnp_err *e)
{
    (void)d;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < nodes[i]->nrefs; k++)
            if (nodes[i]->refs[k].slot >= (int32_t)nslots)
                return fail(e, TNP_E_ARG, "OLD: graph node %u: slot %d of %u", i,
                            nodes[i]->refs[k].slot, nslots);
    tnp_graph *g = take(sizeof *g);
    if (!g) return fail(e, TNP_E_NOMEM, "OLD: no host memory for a graph's record");
    g->nslots = nslots;
    g->nscalars = nscalars;
    *out = g;
    return TNP_OK;
}

static tnp_rc graph_run(tnp_dev *d, tnp_queue *q, tnp_graph *g, const tnp_ref *slots,
                        const uint64_t *scalars, const tnp_sync *s, tnp_err *e)
{
    (void)q;
    if ((g->nslots && !slots) || (g->nscalars && !scalars))
        return fail(e, TNP_E_ARG, "OLD: graph: %u slots and %u scalars must be given", g->nslots,
                    g->nscalars);
    return settle(d, s, e);
}

static void graph_free(tnp_dev *d, tnp_graph *g)
{
    (void)d;
    give(g);
}

static const tnp_graph_ops graph_ops = {sizeof graph_ops, 0, graph_build, graph_run, graph_free};

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return strcmp(id, "tenon.graph/1") ? NULL : &graph_ops;
}

/* ---- root ---- */

static void dev_close(tnp_dev *d) { give(d); }

static const tnp_dev_ops dev_ops = {.size = sizeof dev_ops,
                                    .minor = TNP_MINOR,
                                    .close = dev_close,
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

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    (void)e;
    host = h;
    return TNP_OK;
}

static void fini(void) { host = NULL; }
static void forked(void) {}

static tnp_rc count(uint32_t *n, tnp_err *e)
{
    (void)e;
    *n = DEVICES;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *e)
{
    if (i >= DEVICES) return fail(e, TNP_E_NODEV, "OLD:%u: there are %d devices", i, DEVICES);
    fill_caps(i, out);
    return TNP_OK;
}

static tnp_rc open_dev(uint32_t i, tnp_dev **out, const tnp_dev_ops **o, tnp_err *e)
{
    if (i >= DEVICES) return fail(e, TNP_E_NODEV, "OLD:%u: there are %d devices", i, DEVICES);
    tnp_dev *d = take(sizeof *d);
    if (!d) return fail(e, TNP_E_NOMEM, "OLD:%u: no host memory", i);
    d->index = i;
    *out = d;
    *o = &dev_ops;
    return TNP_OK;
}

static const tnp_plugin root = {.magic = TNP_MAGIC,
                                .size = sizeof root,
                                .minor = TNP_MINOR,
                                .min_host_minor = 0,
                                .flags = TNP_ROOT_SURVIVES_FORK,
                                .name = "OLD",
                                .version = "0.1.0",
                                .vendor = "tenon",
                                .build = "C11",
                                .init = init,
                                .fini = fini,
                                .count = count,
                                .probe = probe,
                                .open = open_dev,
                                .forked = forked};

const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    (void)host_minor;
    return &root;
}
