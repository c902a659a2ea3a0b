/* SPDX-License-Identifier: MIT */
/*
 * Memory, queues and timelines of a synchronous device whose memory is the host's: a call is done when it
 * returns, so a queue is a name and a timeline a number.  A helper of the SDK, compiled into the plugin; no
 * part of the ABI.  A backend of another kind replaces these functions one by one.
 *
 * Define before the include what is to differ:
 *   TNK_NAME         "MINE": how messages begin
 *   TNK_HOST         expression: the tnp_host that init got; otherwise init sets tnk_host, one a file
 *   TNK_MAX_BYTES    expression: most bytes of one buffer (2^40)
 *   TNK_PAGED        buffers of this many bytes are pages of their own (256 KiB)
 *   TNK_HUGE         from here on huge pages are wished for (4 MiB)
 *   TNK_MAP_FLAGS    further flags of mmap
 *   TNK_OWN_QUEUES   leaves out queues, timelines and copies: for a device of host memory that is
 *                    asynchronous, which has tnp_queue and tnp_sem of its own
 *
 * Buffers are aligned to 64 bytes, or as asked.  No lock, no state but the objects: every function is [any]
 * and a fork changes nothing.
 */
#ifndef TENON_HOSTDEV_H
#define TENON_HOSTDEV_H
#include <tenon/timeline.h>
#include <errno.h>
#include <sys/mman.h>

#ifndef TNK_NAME
#define TNK_NAME "plugin"
#endif
#ifndef TNK_HOST
static const tnp_host *tnk_host;
#define TNK_HOST tnk_host
#endif
#ifndef TNK_MAX_BYTES
#define TNK_MAX_BYTES (UINT64_C(1) << 40)
#endif
#ifndef TNK_PAGED
#define TNK_PAGED ((size_t)256 << 10)
#endif
#ifndef TNK_HUGE
#define TNK_HUGE ((size_t)4 << 20)
#endif
#ifndef TNK_MAP_FLAGS
#define TNK_MAP_FLAGS 0
#endif
enum { TNK_ALIGN = 64, TNK_PAGE = 4096 };

struct tnp_buf {
    char *p;
    size_t bytes;                /* usable */
    size_t mapped;               /* of pages to unmap; 0: none */
    void *block;                 /* to give back; NULL: none */
    void (*release)(void *user); /* of imported memory, or NULL */
    void *user;
};
#ifndef TNK_OWN_QUEUES
struct tnp_queue {
    tnp_dev *dev;
};
struct tnp_sem {
    tnk_line line;
};
#endif

/* ---- memory ---- */

static inline int tnk_take_pages(tnp_buf *b, size_t n)
{
    void *p;
    if (!n) n = 1;
    p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | TNK_MAP_FLAGS, -1, 0);
    if (p == MAP_FAILED) return 0;
#ifdef MADV_HUGEPAGE
    if (n >= TNK_HUGE)
        madvise(p, n, MADV_HUGEPAGE); /* less than half the time for the first touch; a wish only */
#endif
    b->p = (char *)p;
    b->mapped = n;
    return 1;
}

static inline int tnk_take_block(tnp_buf *b, size_t n, int zero)
{
    b->block = TNK_HOST->realloc(TNK_HOST->ctx, NULL, n + TNK_ALIGN);
    if (!b->block) return 0;
    b->p = (char *)b->block + (TNK_ALIGN - (uintptr_t)b->block % TNK_ALIGN) % TNK_ALIGN;
    if (zero) memset(b->p, 0, n);
    return 1;
}

static inline tnp_rc tnk_buf_alloc(tnp_dev *d, const tnp_alloc *a, tnp_buf **out, tnp_err *e)
{
    const uint32_t known = TNP_MEM_HOSTVIS | TNP_MEM_HOST | TNP_MEM_UNCACHED | TNP_MEM_ZERO;
    tnp_buf *b;
    int ok = 1;
    (void)d;
    if (a->flags & ~known)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, TNK_NAME ": memory flags %#x: unknown",
                        a->flags & ~known);
    if (a->align > TNK_PAGE || (a->align & (a->align - 1)))
        return tnk_fail(e, TNP_E_ARG, 0, TNK_NAME ": alignment %llu: a power of two of at most %d",
                        (unsigned long long)a->align, (int)TNK_PAGE);
    if (!a->host_ptr && a->bytes > TNK_MAX_BYTES)
        return tnk_fail(e, TNP_E_OOM, ENOMEM,
                        TNK_NAME ": %llu bytes: more than there is (%llu in all)",
                        (unsigned long long)a->bytes, (unsigned long long)(TNK_MAX_BYTES));
    b = (tnp_buf *)tnk_take(TNK_HOST, sizeof *b);
    if (!b) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ": no host memory for a buffer's record");
    b->bytes = (size_t)a->bytes;
    if (a->host_ptr)
        b->p = (char *)a->host_ptr;
    else if (b->bytes >= TNK_PAGED || a->align > TNK_ALIGN)
        ok = tnk_take_pages(b, b->bytes);
    else
        ok = tnk_take_block(b, b->bytes, (a->flags & TNP_MEM_ZERO) != 0);
    if (!ok) {
        tnk_give(TNK_HOST, b);
        return tnk_fail(e, TNP_E_OOM, errno, TNK_NAME ": %llu bytes: no memory",
                        (unsigned long long)a->bytes);
    }
    *out = b;
    return TNP_OK;
}

static inline void tnk_buf_free(tnp_dev *d, tnp_buf *b)
{
    (void)d;
    if (!b) return;
    if (b->mapped) munmap(b->p, b->mapped);
    if (b->release) b->release(b->user);
    tnk_give(TNK_HOST, b->block);
    tnk_give(TNK_HOST, b);
}

static inline tnp_rc tnk_buf_map(tnp_dev *d, tnp_buf *b, void **p, tnp_err *e)
{
    (void)d, (void)e;
    *p = b->p;
    return TNP_OK;
}

static inline tnp_rc tnk_buf_addr(tnp_dev *d, tnp_buf *b, uint64_t *va, tnp_err *e)
{
    (void)d, (void)e;
    *va = (uint64_t)(uintptr_t)b->p;
    return TNP_OK;
}

/* Is the reference inside its buffer? */
static inline tnp_rc tnk_ref_check(const tnp_ref *r, const char *what, tnp_err *e)
{
    if (!r->buf) return tnk_fail(e, TNP_E_ARG, 0, TNK_NAME ": %s: no buffer", what);
    if (r->off > r->buf->bytes || r->len > r->buf->bytes - r->off)
        return tnk_fail(e, TNP_E_ARG, 0, TNK_NAME ": %s: bytes %llu to %llu of a buffer of %zu",
                        what, (unsigned long long)r->off, (unsigned long long)(r->off + r->len),
                        r->buf->bytes);
    return TNP_OK;
}

/* ---- fills ---- */

/* Repeats the low `width` bytes of a pattern.  Doubles what is filled already, a page at most at a time. */
static inline void tnk_fill_bytes(char *p, size_t n, uint64_t pattern, uint32_t width)
{
    size_t done = width < n ? width : n;
    if (!n) return;
    memcpy(p, &pattern, done);
    if (!pattern) {
        memset(p, 0, n);
        return;
    }
    while (done < n) {
        size_t k = done < n - done ? done : n - done;
        if (k > TNK_PAGE) k = TNK_PAGE - TNK_PAGE % width;
        memcpy(p + done, p, k);
        done += k;
    }
}

static inline tnp_rc tnk_fill_check(uint64_t bytes, uint32_t width, tnp_err *e)
{
    if (width && width <= 8 && !(width & (width - 1)) && bytes % width == 0) return TNP_OK;
    return tnk_fail(e, TNP_E_ARG, 0,
                    TNK_NAME ": fill of %llu bytes with a pattern of %u: 1, 2, 4 or 8 bytes that "
                             "divide it",
                    (unsigned long long)bytes, width);
}

#ifndef TNK_OWN_QUEUES
/* ---- queues and timelines ---- */

static inline tnp_rc tnk_queue_new(tnp_dev *d, uint32_t flags, tnp_queue **out, tnp_err *e)
{
    tnp_queue *q;
    if (flags)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, TNK_NAME ": queue flags %#x: none is known",
                        flags);
    q = (tnp_queue *)tnk_take(TNK_HOST, sizeof *q);
    if (!q) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ": no host memory for a queue's record");
    q->dev = d;
    *out = q;
    return TNP_OK;
}

static inline void tnk_queue_free(tnp_dev *d, tnp_queue *q)
{
    (void)d;
    tnk_give(TNK_HOST, q);
}

static inline tnp_rc tnk_sem_new(tnp_dev *d, uint64_t initial, tnp_sem **out, tnp_err *e)
{
    tnp_sem *s = (tnp_sem *)tnk_take(TNK_HOST, sizeof *s);
    (void)d;
    if (!s) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ": no host memory for a timeline's record");
    tnk_line_init(&s->line, initial);
    *out = s;
    return TNP_OK;
}

static inline void tnk_sem_free(tnp_dev *d, tnp_sem *s)
{
    (void)d;
    tnk_give(TNK_HOST, s);
}

static inline tnp_rc tnk_sem_signal(tnp_dev *d, tnp_sem *s, uint64_t value, tnp_err *e)
{
    (void)d;
    return tnk_line_raise(&s->line, value, TNK_NAME, e);
}

static inline tnp_rc tnk_sem_wait(tnp_dev *d, tnp_sem *s, uint64_t value, uint64_t timeout_ns,
                                  tnp_err *e)
{
    (void)d;
    return tnk_line_wait(&s->line, value, timeout_ns, TNK_NAME, e);
}

/* Before a call's work: everything runs at once, so its waits must have passed already. */
static inline tnp_rc tnk_begin(const tnp_sync *s, tnp_err *e)
{
    uint32_t i;
    for (i = 0; s && i < s->nwait; i++) {
        const uint64_t now = tnk_line_value(&s->wait[i].sem->line);
        if (now < s->wait[i].value)
            return tnk_fail(e, TNP_E_ARG, 0,
                            TNK_NAME ": wait for %llu: the timeline is at %llu, nobody has "
                                     "signalled it yet, and this device does not wait",
                            (unsigned long long)s->wait[i].value, (unsigned long long)now);
    }
    return TNP_OK;
}

/* After it. */
static inline tnp_rc tnk_end(const tnp_sync *s, tnp_err *e)
{
    return s && s->nsignal ? tnk_line_raise(&s->signal->sem->line, s->signal->value, TNK_NAME, e)
                           : TNP_OK;
}

/* ---- moving bytes ---- */

static inline tnp_rc tnk_copy_in(tnp_dev *d, tnp_queue *q, tnp_ref dst, const void *src,
                                 const tnp_sync *s, tnp_err *e)
{
    tnp_rc rc = tnk_begin(s, e);
    (void)d, (void)q;
    if (!rc) rc = tnk_ref_check(&dst, "copy in", e);
    if (rc) return rc;
    if (dst.len) memcpy(dst.buf->p + dst.off, src, (size_t)dst.len);
    return tnk_end(s, e);
}

static inline tnp_rc tnk_copy_out(tnp_dev *d, tnp_queue *q, void *dst, tnp_ref src,
                                  const tnp_sync *s, tnp_err *e)
{
    tnp_rc rc = tnk_begin(s, e);
    (void)d, (void)q;
    if (!rc) rc = tnk_ref_check(&src, "copy out", e);
    if (rc) return rc;
    if (src.len) memcpy(dst, src.buf->p + src.off, (size_t)src.len);
    return tnk_end(s, e);
}

static inline tnp_rc tnk_copy(tnp_dev *d, tnp_queue *q, tnp_ref dst, tnp_ref src, const tnp_sync *s,
                              tnp_err *e)
{
    tnp_rc rc = tnk_begin(s, e);
    (void)d, (void)q;
    if (!rc) rc = tnk_ref_check(&src, "copy", e);
    if (!rc) rc = tnk_ref_check(&dst, "copy", e);
    if (!rc && dst.len != src.len)
        rc = tnk_fail(e, TNP_E_ARG, 0,
                      TNK_NAME ": copy of %llu bytes to %llu: the two must be equal",
                      (unsigned long long)src.len, (unsigned long long)dst.len);
    if (rc) return rc;
    if (src.len) memmove(dst.buf->p + dst.off, src.buf->p + src.off, (size_t)src.len);
    return tnk_end(s, e);
}

static inline tnp_rc tnk_fill(tnp_dev *d, tnp_queue *q, tnp_ref dst, uint64_t pattern,
                              uint32_t width, const tnp_sync *s, tnp_err *e)
{
    tnp_rc rc = tnk_begin(s, e);
    (void)d, (void)q;
    if (!rc) rc = tnk_ref_check(&dst, "fill", e);
    if (!rc) rc = tnk_fill_check(dst.len, width, e);
    if (rc) return rc;
    tnk_fill_bytes(dst.buf->p + dst.off, (size_t)dst.len, pattern, width);
    return tnk_end(s, e);
}

static inline tnp_rc tnk_flush(tnp_dev *d, tnp_queue *q, tnp_err *e)
{
    (void)d, (void)q, (void)e;
    return TNP_OK;
}

/* ---- extensions: all host memory is one, so devices reach each other and host memory is imported ---- */

static inline tnp_rc tnk_peer_can(tnp_dev *dst, tnp_dev *src, uint32_t *how, tnp_err *e)
{
    (void)dst, (void)src, (void)e;
    *how = TNP_PEER_COPY | TNP_PEER_ACCESS | TNP_PEER_ATOMICS;
    return TNP_OK;
}

static inline tnp_rc tnk_peer_map(tnp_dev *dst, tnp_dev *src, tnp_buf *b, tnp_buf **out, tnp_err *e)
{
    tnp_buf *m = (tnp_buf *)tnk_take(TNK_HOST, sizeof *m);
    (void)dst, (void)src;
    if (!m) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ": no host memory for a buffer's record");
    m->p = b->p;
    m->bytes = b->bytes;
    *out = m;
    return TNP_OK;
}

static inline tnp_rc tnk_peer_copy(tnp_dev *dst, tnp_queue *q, tnp_ref to, tnp_dev *src,
                                   tnp_ref from, const tnp_sync *s, tnp_err *e)
{
    (void)src;
    return tnk_copy(dst, q, to, from, s, e);
}

#endif /* TNK_OWN_QUEUES */

static inline tnp_rc tnk_import(tnp_dev *d, const tnp_import *i, tnp_buf **out, tnp_err *e)
{
    tnp_buf *b;
    (void)d;
    if (i->kind != TNP_IMPORT_HOST || i->fence_kind != TNP_FENCE_NONE)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0,
                        TNK_NAME ": import of kind %u with a fence of kind %u: host memory without "
                                 "a fence only",
                        i->kind, i->fence_kind);
    if (!i->handle) return tnk_fail(e, TNP_E_ARG, 0, TNK_NAME ": import: the address is 0");
    b = (tnp_buf *)tnk_take(TNK_HOST, sizeof *b);
    if (!b) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ": no host memory for a buffer's record");
    b->p = (char *)(uintptr_t)i->handle + i->offset;
    b->bytes = (size_t)i->bytes;
    b->release = i->release;
    b->user = i->user;
    *out = b;
    return TNP_OK;
}

#ifndef TNK_OWN_QUEUES
static const tnp_peer_ops tnk_peer_ops = {sizeof(tnp_peer_ops), 1, tnk_peer_can, tnk_peer_map,
                                          tnk_peer_copy};
#endif
static const tnp_import_ops tnk_import_ops = {sizeof(tnp_import_ops), 1,
                                              UINT64_C(1) << TNP_IMPORT_HOST, tnk_import};

/* The table of an extension that this header has; NULL: another one. */
static inline const void *tnk_ext(const char *id)
{
#ifndef TNK_OWN_QUEUES
    if (!strcmp(id, "tenon.peer/1")) return &tnk_peer_ops;
#endif
    return !strcmp(id, "tenon.import/1") ? &tnk_import_ops : NULL;
}

/* Initialisers of a tnp_dev_ops (C): what remains is close, caps, prog_load, prog_free, launch and ext. */
#define TNK_MEMORY_OPS                                                            \
    .buf_alloc = tnk_buf_alloc, .buf_free = tnk_buf_free, .buf_map = tnk_buf_map, \
    .buf_addr = tnk_buf_addr
#define TNK_SYNC_OPS                                                                  \
    .queue_new = tnk_queue_new, .queue_free = tnk_queue_free, .sem_new = tnk_sem_new, \
    .sem_free = tnk_sem_free, .sem_signal = tnk_sem_signal, .sem_wait = tnk_sem_wait, \
    .flush = tnk_flush
#define TNK_COPY_OPS    .copy_in = tnk_copy_in, .copy_out = tnk_copy_out, .copy = tnk_copy
#define TNK_HOSTDEV_OPS TNK_MEMORY_OPS, TNK_SYNC_OPS, TNK_COPY_OPS, .fill = tnk_fill
#endif
