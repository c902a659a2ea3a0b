/* SPDX-License-Identifier: MIT */
/*
 * Making plans: look up, schedule, optimise, emit, render, compile.  The list of stages is make().
 *
 * Kernels that are equal after renumbering share a program.  The cache is bounded, locked, and keyed by the
 * normal form, the device's capabilities and the options that change code.
 */
#include "engine/plan.h"
#include "codegen/codegen.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { CACHE_PLANS = 1024, PART_KERNELS = 8 };

static pthread_mutex_t cache_lock = PTHREAD_MUTEX_INITIALIZER;
static tn__lru *cache;

void tn__plan_unref(tn__plan *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    for (int i = 0; i < p->ncall; i++) tn__program_unref(p->call[i].prog);
    tn__status_unref(p->status);
    tn__arena_free(&p->arena);
    tn__free(p);
}

static void drop(void *p) { tn__plan_unref(p); }

/* Programs and status words go with their devices. */
static void forget(void)
{
    pthread_mutex_lock(&cache_lock);
    tn__lru *old = cache;
    cache = NULL;
    pthread_mutex_unlock(&cache_lock);
    tn__lru_free(old);
    tn__skeleton_forget();
    tn__status_forget();
}

static tn__codegen_target target_of(const tn__device *d)
{
    const tnp_caps *c = tn__device_caps(d);
    tn__codegen_target t = {.simd_bytes = c->simd_bytes,
                            .simd_regs = c->simd_regs,
                            .cores = c->cores,
                            .cache = {c->cache_bytes[0], c->cache_bytes[1], c->cache_bytes[2]},
                            .noopt = tn_context_get(TN_NOOPT) != 0};
    for (const char *const *o = c->ops; o && *o; o++) t.fma |= !strcmp(*o, "fma");
    if (!tn__device_compiles(d)) t.simd_bytes = 0;
    return t;
}

/* Programs are loaded on a device, so the key says which one of equal devices it is. */
static tn__hash plan_key(const tn__normal *n, const tn__device *d)
{
    struct {
        tn__hash form, dev[TN__FORM_DEVICES];
        int64_t opt[2], id[TN__FORM_DEVICES];
    } k = {.form = n->key, .opt = {tn_context_get(TN_NOOPT), tn_context_get(TN_BEAM)}};
    for (int i = 0; i < n->ndev || !i; i++) {
        const tn__device *x = i ? n->dev[i] : d;
        k.dev[i] = tn__device_key(x);
        k.id[i] = tn__device_id(x) + 1;
    }
    return tn__hash_bytes(&k, sizeof k);
}

/* ---- compiling ---- */

/* One launch: a kernel, or several small ones side by side. */
typedef struct {
    tn__kernel *const *k;
    bool copy; /* no code */
    int dev;   /* slot */
    int nk, nbuf, nscalar;
    tn__buf blob, source;
    tn__program *prog;
    int same; /* earlier launch with the same code, or -1 */
    tnp_arg args[TN__KBUFS];
    int buf[TN__KBUFS], scalar[TN__KSCALARS]; /* of the plan */
    uint32_t grid;
    double ops, bytes;
    char name[48];
    tn__kernel_sig sig;
} unit;

static bool emit_unit(unit *u, const tn__codegen_target *t)
{
    if (u->nk == 1) {
        if (!tn__emit(u->k[0], t, &u->blob)) return false;
        memcpy(u->name, u->k[0]->name, sizeof u->name);
        return true;
    }
    tn__buf *part = tn__calloc((size_t)u->nk, sizeof *part);
    const tn__buf **list = tn__calloc((size_t)u->nk, sizeof *list);
    bool ok = part && list;
    for (int i = 0; ok && i < u->nk; i++) {
        list[i] = &part[i];
        ok = tn__emit(u->k[i], t, &part[i]);
    }
    ok = ok && tn__group_blob(list, u->nk, u->name, sizeof u->name, &u->blob);
    for (int i = 0; part && i < u->nk; i++) tn__buf_free(&part[i]);
    tn__free(part);
    tn__free(list);
    return ok;
}

static bool make_unit(unit *u, const tn__codegen_target *t, const tnp_dialect *d)
{
    if (u->copy)
        snprintf(u->name, sizeof u->name, "copy");
    else if (!emit_unit(u, t))
        return false;
    if (!u->copy && d && !tn__render_c(u->blob.data, u->blob.len, d, u->name, &u->source))
        return false;
    for (int i = 0; i < u->nk; i++) {
        const tn__kernel *k = u->k[i];
        for (int j = 0; j < k->nbuf; j++) {
            u->args[u->nbuf] = (tnp_arg){.dtype = (uint8_t)k->buf[j].dt,
                                         .access = k->buf[j].access};
            u->buf[u->nbuf++] = k->buf[j].plan;
        }
        for (int j = 0; j < k->nscalar; j++) u->scalar[u->nscalar++] = k->scalar[j];
        u->grid += (uint32_t)k->grid;
        u->ops += k->ops;
        u->bytes += k->bytes;
    }
    u->sig = (tn__kernel_sig){.name = u->name,
                              .args = u->args,
                              .nargs = (uint32_t)u->nbuf,
                              .nimms = (uint32_t)u->nscalar,
                              .local = {1, 1, 1}};
    tnl_view v;
    if (!u->copy && !tnl_open(u->blob.data, u->blob.len, &v))
        u->sig.scratch_bytes = v.head->scratch_bytes;
    return true;
}

typedef struct {
    tn__device *dev;
    unit *u;
    int slot, first, step, n;
    bool ok;
    tn__error error;
} part;

/* Compiles every step-th distinct kernel, some at a time. */
static void *compile_part(void *arg)
{
    part *p = arg;
    const tnp_dialect *d = tn__device_dialect(p->dev);
    tn__kernel_sig sig[PART_KERNELS];
    tn__program *prog[PART_KERNELS];
    int who[PART_KERNELS], n = 0;
    tn__buf src = {0};
    p->ok = true;
    for (int i = p->first; p->ok && i < p->n; i += p->step) {
        unit *u = &p->u[i];
        if (u->same < 0 && !u->copy && u->dev == p->slot) {
            if (d && !src.len) p->ok = tn__render_c_unit(d, &src);
            p->ok = p->ok && tn__buf_put(&src, d ? u->source.data : u->blob.data,
                                         d ? u->source.len : u->blob.len);
            sig[n] = u->sig;
            who[n++] = i;
        }
        if (!n || (n < PART_KERNELS && d && i + p->step < p->n)) continue;
        p->ok = p->ok && tn__program_build(p->dev, src.data, src.len, sig, (size_t)n, prog);
        for (int j = 0; p->ok && j < n; j++) p->u[who[j]].prog = prog[j];
        tn__buf_free(&src);
        n = 0;
    }
    tn__buf_free(&src);
    if (!p->ok) tn__error_take(&p->error);
    return NULL;
}

/* On two threads when there is enough to do: a compiler takes a core of its own. */
static bool compile(tn__device *dev, int slot, unit *u, int n)
{
    part p[2] = {{.dev = dev, .u = u, .slot = slot, .first = 0, .step = 2, .n = n},
                 {.dev = dev, .u = u, .slot = slot, .first = 1, .step = 2, .n = n}};
    pthread_t thread;
    /* kernels of one source share a file: two parts even for few */
    const bool two = n > 2 && tn__device_caps(dev)->cores > 1 && tn__device_compiles(dev) &&
                     !pthread_create(&thread, NULL, compile_part, &p[1]);
    if (!two) {
        p[0].step = 1;
        p[1].ok = true;
    }
    compile_part(&p[0]);
    if (two) pthread_join(thread, NULL);
    for (int i = 0; i < 2; i++)
        if (!p[i].ok) tn__error_put(&p[i].error);
    return p[0].ok && p[1].ok;
}

static bool fill_plan(tn__plan *p, const tn__schedule *s, const unit *u)
{
    tn__arena *a = &p->arena;
    p->nbuf = s->nbuf;
    p->nroot = s->nroot;
    p->nleaf = s->nleaf;
    p->nscalar = s->nscalar;
    memcpy(p->temp_bytes, s->temp_bytes, sizeof p->temp_bytes);
    p->live_peak = s->live_peak;
    p->buf = tn__arena_alloc(a, ((size_t)s->nbuf + 1) * sizeof *p->buf);
    p->root_buf = tn__arena_alloc(a, ((size_t)s->nroot + 1) * sizeof *p->root_buf);
    p->call = tn__arena_zero(a, ((size_t)s->nlaunch + 1) * sizeof *p->call);
    if (!p->buf || !p->root_buf || !p->call) return false;
    if (s->nbuf) memcpy(p->buf, s->buf, (size_t)s->nbuf * sizeof *p->buf);
    memcpy(p->root_buf, s->root_buf, (size_t)s->nroot * sizeof *p->root_buf);
    for (int i = 0; i < s->nlaunch; i++, u++) {
        tn__plan_call *c = &p->call[i];
        c->buf = tn__arena_alloc(a, ((size_t)u->nbuf + 1) * sizeof *c->buf);
        c->scalar = tn__arena_alloc(a, ((size_t)u->nscalar + 1) * sizeof *c->scalar);
        c->access = tn__arena_alloc(a, (size_t)u->nbuf + 1);
        if (!c->buf || !c->scalar || !c->access) return false;
        for (int j = 0; j < u->nbuf; j++) c->access[j] = u->args[j].access;
        memcpy(c->buf, u->buf, (size_t)u->nbuf * sizeof *c->buf);
        memcpy(c->scalar, u->scalar, (size_t)u->nscalar * sizeof *c->scalar);
        c->nbuf = u->nbuf;
        c->nscalar = u->nscalar;
        c->grid = u->grid;
        c->ops = u->ops;
        c->bytes = u->bytes;
        c->loads = u->copy ? u->bytes : tn__inspect_traffic(&u->blob);
        memcpy(c->name, u->name, sizeof c->name);
        tn__label_make(&c->label, u->k, u->nk);
        c->prog = u->same < 0 ? u->prog : (u - i)[u->same].prog;
        c->dev = u->dev;
        if (c->prog) tn__program_ref(c->prog);
        p->ncall = i + 1;
    }
    return true;
}

static bool build(tn__plan *p, tn__schedule *s, unit *u, const tn__codegen_target *t, tn__viz *viz)
{
    const int64_t debug = tn_context_get(TN_DEBUG);
    for (int i = 0; i < s->nkernel; i++) {
        unit *x = &u[s->kernel[i]->launch];
        if (!x->nk++) x->k = &s->kernel[i];
        x->dev = s->kernel[i]->dev;
        x->copy = s->kernel[i]->copy;
    }
    for (int i = 0; i < s->nlaunch; i++) {
        u[i].same = -1;
        if (!make_unit(&u[i], &t[u[i].dev], tn__device_dialect(p->devs[u[i].dev]))) return false;
        if (u[i].copy) continue;
        for (int j = 0; j < i && u[i].same < 0; j++)
            if (u[j].same < 0 && u[j].dev == u[i].dev && u[j].blob.len == u[i].blob.len &&
                !memcmp(u[j].blob.data, u[i].blob.data, u[i].blob.len))
                u[i].same = j;
        if (viz) tn__viz_linear(viz, u[i].k, u[i].nk, u[i].name, i, &u[i].blob, &u[i].source);
        if (debug >= 3)
            tn__inspect_unit(u[i].k, u[i].nk, u[i].name, &u[i].blob, &u[i].source, debug);
    }
    bool ok = true;
    for (int i = 0; ok && i < p->ndev; i++) ok = compile(p->devs[i], i, u, s->nlaunch);
    return ok && fill_plan(p, s, u);
}

static tn__plan *make(const tn__normal *n, tn__device *dev, tn__hash key)
{
    tn__arena a = {0};
    tn__schedule s = {0};
    tn__codegen_target target[TN__FORM_DEVICES];
    tn__target t = {.max_bufs = 30};
    tn__plan *p = tn__calloc(1, sizeof *p);
    if (!p) return NULL;
    atomic_init(&p->refs, 1);
    p->key = key;
    p->dev = dev;
    p->ndev = n->ndev ? n->ndev : 1;
    for (int i = 0; i < p->ndev; i++) {
        p->devs[i] = i ? n->dev[i] : dev;
        target[i] = target_of(p->devs[i]);
        const uint32_t args = tn__device_caps(p->devs[i])->max_args;
        if (args && args < (uint32_t)t.max_bufs) t.max_bufs = (int)args;
    }
    tn__viz *viz = tn__viz_open();
    bool ok = tn__schedule_make(&a, n->bytes.data, n->bytes.len, &t, &s);
    if (ok && viz) tn__viz_schedule(viz, n, &s);
    ok = ok && tn__optimise(&s, target) && tn__group_kernels(&s);
    if (ok && viz) tn__viz_kernels(viz, &s, "opts");
    if (ok) {
        unit *u = tn__calloc((size_t)s.nkernel + 1, sizeof *u);
        ok = u && tn__schedule_memory(&s, 64) && build(p, &s, u, target, viz) &&
             tn__inspect_origins(p, n, &s) && tn__status_make(p, &s);
        for (int i = 0; u && i < s.nlaunch; i++) {
            tn__program_unref(u[i].prog);
            tn__buf_free(&u[i].blob);
            tn__buf_free(&u[i].source);
        }
        tn__free(u);
        atomic_fetch_add(&tn__count.schedules, 1);
    }
    tn__viz_close(viz);
    tn__schedule_free(&s);
    tn__arena_free(&a);
    if (ok) return p;
    tn__plan_unref(p);
    return NULL;
}

static tn__plan *look_up(tn__hash key)
{
    const bool say = tn_context_get(TN_DEBUG) >= 1;
    const uint64_t start = say ? tn__now_ns() : 0;
    pthread_mutex_lock(&cache_lock);
    tn__plan *p = cache ? tn__lru_get(cache, key) : NULL;
    if (p) atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
    const size_t count = cache ? tn__lru_count(cache) : 0;
    pthread_mutex_unlock(&cache_lock);
    if (p && say) tn__inspect_plan(p, true, tn__now_ns() - start, count);
    return p;
}

tn__plan *tn__plan_find(const tn__normal *n, tn__device *dev) { return look_up(plan_key(n, dev)); }

tn__plan *tn__plan_get(const tn__normal *n, tn__device *dev)
{
    const tn__hash key = plan_key(n, dev);
    const bool say = tn_context_get(TN_DEBUG) >= 1;
    const uint64_t start = say ? tn__now_ns() : 0;
    bool first = false;
    tn__plan *p = look_up(key);
    if (p || !(p = make(n, dev, key))) return p;
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed); /* the cache's */
    pthread_mutex_lock(&cache_lock);
    if (!cache && (cache = tn__lru_new(CACHE_PLANS, drop))) first = true;
    const bool ok = cache && tn__lru_put(cache, key, p);
    const size_t count = cache ? tn__lru_count(cache) : 0;
    if (!cache) tn__plan_unref(p);
    pthread_mutex_unlock(&cache_lock);
    if (first) tn__on_shutdown(forget);
    if (ok && say) tn__inspect_plan(p, false, tn__now_ns() - start, count);
    if (ok) return p;
    tn__plan_unref(p);
    return NULL;
}

/* ---- running ---- */

/* Between devices; waits for the source where its device needs that. */
bool tn__plan_copy(const tn__plan *p, const tn__plan_call *c, const tn__binding *b)
{
    const int from = c->buf[0], to = c->buf[1];
    const size_t bytes = (size_t)p->buf[to].numel * tn__dtype_size(p->buf[to].dt);
    return tn__buffer_copy(b->mem[to], b->ref[to].off, b->mem[from], b->ref[from].off, bytes);
}

bool tn__plan_run(tn__plan *p, const tn__binding *b)
{
    tnp_ref refs[TN__KBUFS];
    uint64_t imms[TN__KSCALARS], ns = 0;
    const bool timed = tn_context_get(TN_DEBUG) >= 2, check = tn_context_get(TN_CHECK_NAN) != 0;
    if (!tn__status_ran(p)) return false;
    for (int i = 0; i < p->ncall; i++) {
        tn__plan_call *c = &p->call[i];
        if (!c->prog) {
            const uint64_t start = timed ? tn__now_ns() : 0;
            if (!tn__plan_copy(p, c, b)) return false;
            if (timed) tn__inspect_call(p, c, tn__now_ns() - start, b->replay);
            continue;
        }
        for (int j = 0; j < c->nbuf; j++) refs[j] = b->ref[c->buf[j]];
        for (int j = 0; j < c->nscalar; j++) imms[j] = b->scalar[c->scalar[j]];
        const tn__launch l = {.grid = {c->grid, 1, 1},
                              .local = {1, 1, 1},
                              .bufs = refs,
                              .imms = imms,
                              .nbufs = (uint32_t)c->nbuf,
                              .nimms = (uint32_t)c->nscalar,
                              .work = (uint64_t)c->ops,
                              .bytes = (uint64_t)c->bytes,
                              .out_ns = timed ? &ns : NULL};
        if (!tn__launch_run(p->devs[c->dev], c->prog, &l)) return false;
        if (timed) tn__inspect_call(p, c, ns, b->replay);
        if (check && !tn__inspect_values(p, i, refs)) return false;
    }
    return true;
}
