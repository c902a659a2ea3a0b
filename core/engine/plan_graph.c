/* SPDX-License-Identifier: MIT */
/*
 * A plan as graphs of its device: every kernel argument names a slot, which is the plan's buffer; every
 * immediate a scalar of the plan.  A run is one call of the plugin (a few on an asynchronous device, so that
 * it starts early), and allocates nothing.
 *
 * Kernels are chained in the plan's order, which respects every read and write.  Over several devices each run of
 * kernels of one device is a graph, and copies stand between them.
 */
#include "engine/plan.h"
#include <string.h>

enum { MOST = 16 }; /* graphs that one device's run of kernels is cut into */

typedef struct {
    tn__replay *replay; /* own; NULL: the copy that is call `from` */
    int from;
} part;

struct tn__plan_graph {
    const tn__plan *plan; /* outlives it */
    int n;
    part part[];
};

/* Node of call i, all of its lists in the arena. */
static tnp_node *node_of(tn__arena *a, const tn__plan *p, int i, bool first, const size_t *bytes)
{
    const tn__plan_call *c = &p->call[i];
    tnp_node *n = tn__arena_zero(a, sizeof *n);
    tnp_gref *ref = tn__arena_zero(a, ((size_t)c->nbuf + 1) * sizeof *ref);
    int32_t *slot = tn__arena_zero(a, ((size_t)c->nscalar + 1) * sizeof *slot);
    uint64_t *imm = tn__arena_zero(a, ((size_t)c->nscalar + 1) * sizeof *imm);
    uint32_t *dep = tn__arena_zero(a, sizeof *dep);
    if (!n || !ref || !slot || !imm || !dep) return NULL;
    for (int j = 0; j < c->nbuf; j++) {
        ref[j].slot = c->buf[j];
        ref[j].ref.len = bytes[c->buf[j]];
    }
    for (int j = 0; j < c->nscalar; j++) slot[j] = c->scalar[j];
    *n = (tnp_node){.size = sizeof *n,
                    .kind = TNP_NODE_LAUNCH,
                    .deps = dep,
                    .ndeps = first ? 0 : 1,
                    .nrefs = (uint32_t)c->nbuf,
                    .refs = ref,
                    .prog = tn__program_handle(c->prog),
                    .grid = {c->grid, 1, 1},
                    .local = {1, 1, 1},
                    .imm_slots = slot,
                    .imms = imm,
                    .nimms = (uint32_t)c->nscalar,
                    .work = (uint64_t)c->ops};
    return n;
}

/* Calls [from, to) as one graph. */
static tn__replay *part_of(tn__arena *a, const tn__plan *p, int from, int to, const size_t *bytes)
{
    const tnp_node **list = tn__arena_zero(a, ((size_t)(to - from) + 1) * sizeof(tnp_node *));
    uint64_t moved = 0;
    if (!list) return NULL;
    for (int i = from; i < to; i++) {
        moved += (uint64_t)p->call[i].bytes;
        tnp_node *n = node_of(a, p, i, i == from, bytes);
        if (!n) return NULL;
        if (i > from) *(uint32_t *)(uintptr_t)n->deps = (uint32_t)(i - from - 1);
        list[i - from] = n;
    }
    tn__replay *r = tn__replay_new(p->devs[p->call[from].dev], list, (uint32_t)(to - from),
                                   (uint32_t)p->nbuf, (uint32_t)p->nscalar);
    if (r) tn__replay_moves(r, moved);
    return r;
}

/* Behind the kernels of one device that begin at a call, or behind the one copy. */
static int run_end(const tn__plan *p, int at)
{
    int to = at + 1;
    while (p->call[at].prog && to < p->ncall && p->call[to].prog &&
           p->call[to].dev == p->call[at].dev)
        to++;
    return to;
}

static bool add_run(tn__arena *a, tn__plan_graph *g, int at, int end, const size_t *bytes,
                    size_t batch)
{
    const tn__plan *p = g->plan;
    const bool async = tn__device_caps(p->devs[p->call[at].dev])->flags & TNP_F_ASYNC;
    size_t len = async && batch ? batch : (size_t)(end - at);
    for (int n = 1; at < end; n++, len *= 2) {
        const bool last = n == MOST || len >= (size_t)(end - at);
        const int to = last ? end : at + (int)len;
        part *x = &g->part[g->n];
        *x = (part){part_of(a, p, at, to, bytes), at};
        if (!x->replay) return false;
        g->n++;
        at = to;
    }
    return true;
}

tn__plan_graph *tn__plan_graph_new(const tn__plan *p, const size_t *bytes, size_t batch)
{
    tn__arena a = {0};
    tn__plan_graph *g = tn__calloc(1, sizeof *g + ((size_t)p->ncall + 1) * sizeof *g->part);
    bool ok = g != NULL;
    if (ok) g->plan = p;
    for (int at = 0, to; ok && at < p->ncall; at = to) {
        to = run_end(p, at);
        if (p->call[at].prog)
            ok = add_run(&a, g, at, to, bytes, batch);
        else
            g->part[g->n++].from = at;
    }
    tn__arena_free(&a);
    if (ok) return g;
    tn__plan_graph_free(g);
    return NULL;
}

bool tn__plan_graph_run(tn__plan_graph *g, const tn__binding *b)
{
    if (!tn__status_ran(g->plan)) return false;
    for (int i = 0; i < g->n; i++) {
        const part *x = &g->part[i];
        const bool ok = x->replay ? tn__replay_run(x->replay, b->ref, b->scalar)
                                  : tn__plan_copy(g->plan, &g->plan->call[x->from], b);
        if (!ok) return false;
    }
    return true;
}

void tn__plan_graph_free(tn__plan_graph *g)
{
    if (!g) return;
    for (int i = 0; i < g->n; i++) tn__replay_free(g->part[i].replay);
    tn__free(g);
}

tn__plan *tn__plan_part(const tn__plan *p, const bool *flag, bool which)
{
    tn__plan *q = tn__calloc(1, sizeof *q);
    if (!q) return NULL;
    *q = *p;
    q->arena = (tn__arena){0};
    q->ncall = 0;
    q->origin = NULL; /* of p's arena */
    q->record = NULL;
    tn__status_ref(q->status);
    atomic_init(&q->refs, 1);
    tn__arena *a = &q->arena;
    q->buf = tn__arena_alloc(a, ((size_t)p->nbuf + 1) * sizeof *q->buf);
    q->root_buf = tn__arena_alloc(a, ((size_t)p->nroot + 1) * sizeof *q->root_buf);
    q->call = tn__arena_zero(a, ((size_t)p->ncall + 1) * sizeof *q->call);
    bool ok = q->buf && q->root_buf && q->call;
    if (ok && p->nbuf) memcpy(q->buf, p->buf, (size_t)p->nbuf * sizeof *q->buf);
    if (ok && p->nroot) memcpy(q->root_buf, p->root_buf, (size_t)p->nroot * sizeof *q->root_buf);
    for (int i = 0; ok && i < p->ncall; i++) {
        if (flag[i] != which) continue;
        tn__plan_call *c = &q->call[q->ncall];
        *c = p->call[i];
        c->buf = tn__arena_alloc(a, ((size_t)c->nbuf + 1) * sizeof *c->buf);
        c->access = tn__arena_alloc(a, (size_t)c->nbuf + 1);
        c->scalar = tn__arena_alloc(a, ((size_t)c->nscalar + 1) * sizeof *c->scalar);
        ok = c->buf && c->access && c->scalar;
        if (!ok) break;
        memcpy(c->buf, p->call[i].buf, (size_t)c->nbuf * sizeof *c->buf);
        memcpy(c->access, p->call[i].access, (size_t)c->nbuf);
        memcpy(c->scalar, p->call[i].scalar, (size_t)c->nscalar * sizeof *c->scalar);
        if (c->prog) tn__program_ref(c->prog);
        q->ncall++;
    }
    if (ok) return q;
    tn__plan_unref(q);
    return NULL;
}
