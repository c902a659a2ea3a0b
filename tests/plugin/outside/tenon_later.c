/* SPDX-License-Identifier: MIT */
/*
 * An asynchronous device for the tests of the SDK: each queue is a thread that works off a list, sleeping now and
 * then, so that whoever forgets to wait is seen.  Timelines are those of tenon/timeline.h over events of the
 * lists.  It takes linear code of the ops gid, param, const, load, add, store for i32 and f32.
 *
 * Nothing survives a fork: every call in a child answers FORKED.
 */
#define _GNU_SOURCE
#define TNK_NAME "LATER"
#define TNK_OWN_QUEUES
#include <stdlib.h>
#include <tenon/hostdev.h>
#include <tenon/linear.h>

enum { MAX_ROWS = 64, MAX_ARGS = 16 };

typedef struct {
    int passed, refs; /* under `lock` */
} event;

typedef enum { COPY, FILL, KERNEL, WAIT, MARK } work_kind;

typedef struct work {
    struct work *next;
    work_kind kind;
    char *dst;
    const char *src;
    char *staged; /* the list's own copy of a source, or NULL */
    size_t n;
    uint64_t pattern;
    uint32_t width;
    event *ev;
    tnp_prog *prog;
    char *bufs[MAX_ARGS];
    uint64_t imms[MAX_ARGS];
    uint32_t grid[3];
} work;

struct tnp_dev {
    uint32_t index;
};
struct tnp_prog {
    uint32_t nargs, nimms;
    tnl_view v; /* into the blob that follows */
};
struct tnp_queue {
    pthread_t thread;
    work *first, *last;
    int ending, busy;
    unsigned seed;
};
struct tnp_sem {
    tnk_timeline line; /* first: hostdev's and our sems begin alike */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* lists and events */
static pthread_cond_t change = PTHREAD_COND_INITIALIZER;
static int in_child;

static tnp_rc orphan(tnp_err *e)
{
    return in_child ? tnk_fail(e, TNP_E_FORKED, 0, "LATER: opened before a fork") : TNP_OK;
}

/* ---- events ---- */

static void put_event(event *ev) /* locked */
{
    if (--ev->refs == 0) free(ev);
}

static int ev_done(void *p, tnp_err *e)
{
    (void)e;
    pthread_mutex_lock(&lock);
    const int passed = ((event *)p)->passed;
    pthread_mutex_unlock(&lock);
    return passed;
}

static tnp_rc ev_wait(void *p, uint64_t ns, tnp_err *e)
{
    event *ev = p;
    struct timespec end;
    int rc = 0;
    if (ns > UINT64_C(3600000000000)) ns = UINT64_C(3600000000000);
    clock_gettime(CLOCK_REALTIME, &end);
    end.tv_sec += (time_t)(ns / 1000000000u);
    end.tv_nsec += (long)(ns % 1000000000u);
    if (end.tv_nsec >= 1000000000) end.tv_sec++, end.tv_nsec -= 1000000000;
    pthread_mutex_lock(&lock);
    while (!ev->passed && !rc) rc = pthread_cond_timedwait(&change, &lock, &end);
    const int passed = ev->passed;
    pthread_mutex_unlock(&lock);
    return passed ? TNP_OK : tnk_fail(e, TNP_E_TIMEOUT, 0, "LATER: the work is not done in time");
}

static void ev_drop(void *p)
{
    pthread_mutex_lock(&lock);
    put_event(p);
    pthread_mutex_unlock(&lock);
}

/* ---- lists ---- */

static tnp_rc push(tnp_queue *q, const work *w, tnp_err *e)
{
    work *x = malloc(sizeof *x);
    if (!x) return tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory for a piece of work");
    *x = *w;
    x->next = NULL;
    pthread_mutex_lock(&lock);
    if (q->last)
        q->last->next = x;
    else
        q->first = x;
    q->last = x;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    return TNP_OK;
}

static void *ev_record(void *queue, tnp_err *e)
{
    event *ev = calloc(1, sizeof *ev);
    if (!ev) {
        tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory for an event");
        return NULL;
    }
    ev->refs = 2; /* the timeline's and the list's */
    const work w = {.kind = MARK, .ev = ev};
    if (push(queue, &w, e) == TNP_OK) return ev;
    free(ev);
    return NULL;
}

static const tnk_event_ops events = {ev_record, ev_done, ev_wait, ev_drop};

static void kernel(const work *w)
{
    int64_t i[MAX_ROWS];
    float f[MAX_ROWS];
    const tnl_view *v = &w->prog->v;
    for (uint32_t g = 0; g < w->grid[0]; g++)
        for (uint32_t k = 0; k < v->head->nrows; k++) {
            const tnl_row *r = &v->rows[k];
            const int fl = r->dtype == TNP_F32;
            const char *op = v->ops[r->op];
            const size_t at = r->src[0] >= 0 ? (size_t)i[r->src[0]] : 0;
            if (!strcmp(op, "gid")) i[k] = g;
            if (!strcmp(op, "param") || !strcmp(op, "const")) {
                const uint64_t bits = *op == 'p' ? w->imms[r->imm] : (uint64_t)r->imm;
                i[k] = r->dtype == TNP_I32 ? (int32_t)bits : (int64_t)bits;
                memcpy(&f[k], &bits, 4);
            }
            if (!strcmp(op, "load") && fl) f[k] = ((float *)(void *)w->bufs[r->imm])[at];
            if (!strcmp(op, "load") && !fl) i[k] = ((int32_t *)(void *)w->bufs[r->imm])[at];
            if (!strcmp(op, "add")) {
                f[k] = fl ? f[r->src[0]] + f[r->src[1]] : 0;
                i[k] = fl ? 0 : (int32_t)(uint32_t)(i[r->src[0]] + i[r->src[1]]);
            }
            if (!strcmp(op, "store") && fl) ((float *)(void *)w->bufs[r->imm])[at] = f[r->src[1]];
            if (!strcmp(op, "store") && !fl)
                ((int32_t *)(void *)w->bufs[r->imm])[at] = (int32_t)i[r->src[1]];
        }
}

static void perform(tnp_queue *q, work *w)
{
    const struct timespec nap = {0, 300000};
    q->seed = q->seed * 1103515245u + 12345u;
    if (w->kind != MARK && w->kind != WAIT && (q->seed >> 16) % 16 == 0) nanosleep(&nap, NULL);
    if (w->kind == COPY && w->n) memmove(w->dst, w->staged ? w->staged : w->src, w->n);
    if (w->kind == FILL) tnk_fill_bytes(w->dst, w->n, w->pattern, w->width);
    if (w->kind == KERNEL) kernel(w);
    free(w->staged);
}

static void *serve(void *arg)
{
    tnp_queue *q = arg;
    pthread_mutex_lock(&lock);
    for (;;) {
        work *w = q->first;
        if (!w && q->ending) break;
        if (!w || (w->kind == WAIT && !w->ev->passed)) {
            pthread_cond_wait(&change, &lock);
            continue;
        }
        q->first = w->next;
        if (!q->first) q->last = NULL;
        if (w->kind == MARK) w->ev->passed = 1;
        if (w->ev) put_event(w->ev);
        pthread_mutex_unlock(&lock);
        perform(q, w);
        const int mark = w->kind == MARK;
        free(w);
        pthread_mutex_lock(&lock);
        if (mark) pthread_cond_broadcast(&change);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

static tnp_rc queue_new(tnp_dev *d, uint32_t flags, tnp_queue **out, tnp_err *e)
{
    (void)d;
    tnp_rc rc = orphan(e);
    if (rc) return rc;
    if (flags) return tnk_fail(e, TNP_E_UNSUPPORTED, 0, "LATER: queue flags %#x", flags);
    tnp_queue *q = tnk_take(tnk_host, sizeof *q);
    if (!q) return tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory for a queue");
    q->seed = (unsigned)(uintptr_t)q;
    if (pthread_create(&q->thread, NULL, serve, q)) {
        tnk_give(tnk_host, q);
        return tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no thread for a queue");
    }
    *out = q;
    return TNP_OK;
}

static void queue_free(tnp_dev *d, tnp_queue *q)
{
    (void)d;
    if (!q || in_child) return;
    pthread_mutex_lock(&lock);
    q->ending = 1;
    pthread_cond_broadcast(&change);
    pthread_mutex_unlock(&lock);
    pthread_join(q->thread, NULL);
    tnk_give(tnk_host, q);
}

/* ---- timelines ---- */

static tnp_rc sem_new(tnp_dev *d, uint64_t initial, tnp_sem **out, tnp_err *e)
{
    (void)d;
    tnp_rc rc = orphan(e);
    if (rc) return rc;
    tnp_sem *s = tnk_take(tnk_host, sizeof *s);
    if (!s) return tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory for a timeline");
    tnk_timeline_init(&s->line, TNK_NAME, tnk_host, &events, initial);
    *out = s;
    return TNP_OK;
}

static void sem_free(tnp_dev *d, tnp_sem *s)
{
    (void)d;
    if (!s || in_child) return;
    tnk_timeline_fini(&s->line);
    tnk_give(tnk_host, s);
}

static tnp_rc sem_signal(tnp_dev *d, tnp_sem *s, uint64_t value, tnp_err *e)
{
    (void)d;
    return tnk_timeline_raise(&s->line, value, e);
}

static tnp_rc sem_wait_(tnp_dev *d, tnp_sem *s, uint64_t value, uint64_t timeout_ns, tnp_err *e)
{
    (void)d;
    tnp_rc rc = orphan(e);
    return rc ? rc : tnk_timeline_wait(&s->line, value, timeout_ns, e);
}

static tnp_rc push_wait(void *queue, void *ev, tnp_err *e)
{
    const work w = {.kind = WAIT, .ev = ev};
    pthread_mutex_lock(&lock);
    ((event *)ev)->refs++;
    pthread_mutex_unlock(&lock);
    return push(queue, &w, e);
}

static tnp_rc submit(tnp_queue *q, const work *w, const tnp_sync *s, tnp_err *e)
{
    tnp_rc rc = TNP_OK;
    for (uint32_t i = 0; s && i < s->nwait && !rc; i++)
        rc = tnk_timeline_before(&s->wait[i].sem->line, s->wait[i].value, push_wait, q, e);
    if (!rc) rc = push(q, w, e);
    if (rc) free(w->staged);
    if (!rc && s && s->nsignal)
        rc = tnk_timeline_signal(&s->signal->sem->line, q, s->signal->value, e);
    return rc;
}

/* ---- work ---- */

static tnp_rc copy_in(tnp_dev *d, tnp_queue *q, tnp_ref dst, const void *src, const tnp_sync *s,
                      tnp_err *e)
{
    tnp_rc rc = orphan(e);
    (void)d;
    if (!rc) rc = tnk_ref_check(&dst, "copy in", e);
    if (rc) return rc;
    work w = {.kind = COPY, .dst = dst.buf->p + dst.off, .src = src, .n = (size_t)dst.len};
    w.staged = malloc(w.n + 1);
    if (!w.staged)
        return tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory to stage %zu bytes", w.n);
    memcpy(w.staged, src, w.n);
    return submit(q, &w, s, e);
}

static tnp_rc copy_out(tnp_dev *d, tnp_queue *q, void *dst, tnp_ref src, const tnp_sync *s,
                       tnp_err *e)
{
    tnp_rc rc = orphan(e);
    (void)d;
    if (!rc) rc = tnk_ref_check(&src, "copy out", e);
    if (rc) return rc;
    const work w = {.kind = COPY, .dst = dst, .src = src.buf->p + src.off, .n = (size_t)src.len};
    return submit(q, &w, s, e);
}

static tnp_rc copy(tnp_dev *d, tnp_queue *q, tnp_ref dst, tnp_ref src, const tnp_sync *s,
                   tnp_err *e)
{
    tnp_rc rc = tnk_ref_check(&src, "copy", e);
    if (!rc) rc = tnk_ref_check(&dst, "copy", e);
    if (!rc && dst.len != src.len) rc = tnk_fail(e, TNP_E_ARG, 0, "LATER: a copy of two lengths");
    return rc ? rc : copy_out(d, q, dst.buf->p + dst.off, src, s, e);
}

static tnp_rc fill(tnp_dev *d, tnp_queue *q, tnp_ref dst, uint64_t pattern, uint32_t width,
                   const tnp_sync *s, tnp_err *e)
{
    tnp_rc rc = tnk_ref_check(&dst, "fill", e);
    (void)d;
    if (!rc) rc = tnk_fill_check(dst.len, width, e);
    if (rc) return rc;
    const work w = {.kind = FILL,
                    .dst = dst.buf->p + dst.off,
                    .n = (size_t)dst.len,
                    .pattern = pattern,
                    .width = width};
    return submit(q, &w, s, e);
}

static tnp_rc flush(tnp_dev *d, tnp_queue *q, tnp_err *e)
{
    (void)d, (void)q;
    return orphan(e);
}

static tnp_rc buf_alloc(tnp_dev *d, const tnp_alloc *a, tnp_buf **out, tnp_err *e)
{
    tnp_rc rc = orphan(e);
    return rc ? rc : tnk_buf_alloc(d, a, out, e);
}

static tnp_rc load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    tnl_view v;
    (void)d;
    if (!l->format || strcmp(l->format, "linear") != 0 || tnl_open(l->bin, l->len, &v))
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, "LATER: format %s: linear only",
                        l->format ? l->format : "");
    if (v.head->nrows > MAX_ROWS || v.head->nargs > MAX_ARGS || v.head->nimms > MAX_ARGS)
        return tnk_fail(e, TNP_E_ARG, 0, "LATER: a kernel of %u rows", v.head->nrows);
    for (uint32_t i = 0; i < v.head->nrows; i++) {
        const char *op = v.rows[i].op < v.head->nops ? v.ops[v.rows[i].op] : "?";
        if (!strstr("gid param const load add store", op))
            return tnk_fail(e, TNP_E_UNSUPPORTED, 0, "LATER: row %u: %s", i, op);
    }
    tnp_prog *p = tnk_take(tnk_host, sizeof *p + l->len);
    if (!p) return tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory for a program");
    tnl_open(memcpy(p + 1, l->bin, l->len), l->len, &p->v);
    p->nargs = p->v.head->nargs;
    p->nimms = p->v.head->nimms;
    *out = p;
    return TNP_OK;
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    if (!in_child) tnk_give(tnk_host, p);
}

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    tnp_rc rc = orphan(e);
    (void)d;
    if (!rc && l->flags)
        rc = tnk_fail(e, TNP_E_UNSUPPORTED, 0, "LATER: launch flags %#x", l->flags);
    if (!rc && (l->nbufs != p->nargs || l->nimms != p->nimms || l->local[0] > 1))
        rc = tnk_fail(e, TNP_E_ARG, 0, "LATER: a launch that does not fit its kernel");
    for (uint32_t i = 0; !rc && i < l->nbufs; i++) rc = tnk_ref_check(&l->bufs[i], "launch", e);
    if (rc) return rc;
    work w = {.kind = KERNEL, .prog = p, .grid = {l->grid[0], l->grid[1], l->grid[2]}};
    for (uint32_t i = 0; i < l->nbufs; i++) w.bufs[i] = l->bufs[i].buf->p + l->bufs[i].off;
    for (uint32_t i = 0; i < l->nimms; i++) w.imms[i] = l->imms[i];
    return submit(q, &w, s, e);
}

/* ---- device and root ---- */

static const char *const linear[] = {"linear", NULL};

static tnp_rc fill_caps(tnp_caps *out)
{
    tnp_caps c = {.size = sizeof c,
                  .kind = TNP_KIND_SOFT,
                  .flags = TNP_F_UNIFIED | TNP_F_ASYNC | TNP_F_SEM_DEVICE | TNP_F_HOSTPTR |
                           TNP_F_VADDR | TNP_F_THREADS,
                  .name = "a thread a queue",
                  .arch = "linear",
                  .driver = "0.1",
                  .uid = "later:0",
                  .mem_total = TNK_MAX_BYTES,
                  .mem_free = TNK_MAX_BYTES,
                  .max_buffer = TNK_MAX_BYTES,
                  .buf_align = 16,
                  .max_args = MAX_ARGS,
                  .cores = 1,
                  .subgroup = 1,
                  .max_local = {1, 1, 1},
                  .max_local_total = 1,
                  .max_grid = {UINT32_MAX, 1, 1},
                  .dtypes_mem = 1u << TNP_I32 | 1u << TNP_F32,
                  .dtypes_alu = 1u << TNP_I32 | 1u << TNP_F32,
                  .dialects = linear,
                  .formats = linear};
    return tnk_caps_out(out, &c);
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)d, (void)e;
    return fill_caps(out);
}

static void dev_close(tnp_dev *d)
{
    if (!in_child) tnk_give(tnk_host, d);
}

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return tnk_ext(id);
}

static const tnp_dev_ops dev_ops = {.size = sizeof dev_ops,
                                    .minor = TNP_MINOR,
                                    .close = dev_close,
                                    .caps = dev_caps,
                                    .buf_alloc = buf_alloc,
                                    .buf_free = tnk_buf_free,
                                    .buf_addr = tnk_buf_addr,
                                    .prog_load = load,
                                    .prog_free = prog_free,
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
                                    .ext = ext};

static void forked(void) { in_child = 1; }

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    static int watched;
    (void)e;
    tnk_host = h;
    if (!watched) pthread_atfork(NULL, NULL, forked);
    watched = 1;
    return TNP_OK;
}

static void fini(void) {}

static tnp_rc count(uint32_t *n, tnp_err *e)
{
    *n = 1;
    return orphan(e);
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *e)
{
    tnp_rc rc = orphan(e);
    if (!rc && i) rc = tnk_fail(e, TNP_E_NODEV, 0, "LATER:%u: there is one device", i);
    return rc ? rc : fill_caps(out);
}

static tnp_rc open_dev(uint32_t i, tnp_dev **out, const tnp_dev_ops **o, tnp_err *e)
{
    tnp_rc rc = orphan(e);
    if (!rc && i) rc = tnk_fail(e, TNP_E_NODEV, 0, "LATER:%u: there is one device", i);
    if (rc) return rc;
    *out = tnk_take(tnk_host, sizeof **out);
    *o = &dev_ops;
    return *out ? TNP_OK : tnk_fail(e, TNP_E_NOMEM, 0, "LATER: no host memory");
}

static const tnp_plugin root = {.magic = TNP_MAGIC,
                                .size = sizeof root,
                                .minor = TNP_MINOR,
                                .name = "LATER",
                                .version = "0.1",
                                .vendor = "tests of tenon",
                                .build = "C11",
                                .init = init,
                                .fini = fini,
                                .count = count,
                                .probe = probe,
                                .open = open_dev,
                                .forked = forked};

TNP_EXPORT const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    (void)host_minor;
    return &root;
}
