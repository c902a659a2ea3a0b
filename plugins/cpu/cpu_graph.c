/* SPDX-License-Identifier: MIT */
/*
 * Extension tenon.graph/1: a list of calls replayed by one call.  `build` copies everything into one block;
 * `run` only reads it, so several queues may replay one graph at once, and allocates nothing.
 *
 * Nodes run in the order given, which satisfies every dependency; a node that is worth it is split over the
 * pool, whose threads stay awake from one node to the next, and a small one is a plain call.
 */
#include "cpu.h"
#include <string.h>

typedef struct {
    uint32_t kind, nrefs, nimms, width;
    tnp_prog *prog;
    const tnp_gref *refs;
    const int32_t *imm_slots; /* NULL: all fixed */
    const uint64_t *imms;
    uint32_t grid[3];
    uint64_t work;
} node;

struct tnp_graph {
    uint32_t n, nslots, nscalars;
    node nodes[];
};

/* ---- build ---- */

static tnp_rc check_refs(const tnp_node *x, uint32_t i, uint32_t nslots, tnp_err *e)
{
    for (uint32_t k = 0; k < x->nrefs; k++) {
        const tnp_gref *r = &x->refs[k];
        if (r->slot >= (int32_t)nslots)
            return cpu__fail(e, TNP_E_ARG, 0, "CPU: graph node %u: slot %d of %u", i, r->slot,
                             nslots);
        if (r->slot < 0) {
            tnp_rc rc = tnk_ref_check(&r->ref, "graph node", e);
            if (rc) return rc;
        }
    }
    return TNP_OK;
}

static tnp_rc check_node(const tnp_node *x, uint32_t i, uint32_t nslots, uint32_t nscalars,
                         tnp_err *e)
{
    for (uint32_t k = 0; k < x->ndeps; k++)
        if (x->deps[k] >= i)
            return cpu__fail(e, TNP_E_ARG, 0,
                             "CPU: graph node %u depends on node %u: only on earlier ones", i,
                             x->deps[k]);
    for (uint32_t k = 0; x->imm_slots && k < x->nimms; k++)
        if (x->imm_slots[k] >= (int32_t)nscalars)
            return cpu__fail(e, TNP_E_ARG, 0, "CPU: graph node %u: scalar %d of %u", i,
                             x->imm_slots[k], nscalars);
    switch (x->kind) {
    case TNP_NODE_LAUNCH:
        if (!x->prog || x->nrefs != x->prog->nargs || x->nimms != x->prog->nimms)
            return cpu__fail(
                e, TNP_E_ARG, 0,
                "CPU: graph node %u: %u buffers and %u immediates do not fit its kernel", i,
                x->nrefs, x->nimms);
        break;
    case TNP_NODE_COPY:
        if (x->nrefs != 2)
            return cpu__fail(e, TNP_E_ARG, 0, "CPU: graph node %u: a copy has 2 references", i);
        break;
    case TNP_NODE_FILL:
        if (x->nrefs != 1 || x->nimms != 1 || !x->width || x->width > 8 ||
            (x->width & (x->width - 1)))
            return cpu__fail(
                e, TNP_E_ARG, 0,
                "CPU: graph node %u: a fill has 1 reference and a pattern of 1, 2, 4 or 8 bytes",
                i);
        break;
    default:
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: graph node %u: kind %u is not known", i,
                         x->kind);
    }
    return check_refs(x, i, nslots, e);
}

/* Copies n bytes to *at and moves it on, 8-byte aligned. */
static void *keep(char **at, const void *p, size_t n)
{
    void *q = *at;
    if (n) memcpy(q, p, n);
    *at += (n + 7) & ~(size_t)7;
    return q;
}

static tnp_rc build(tnp_dev *d, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                    uint32_t nscalars, tnp_graph **out, tnp_err *e)
{
    (void)d;
    size_t bytes = sizeof(tnp_graph) + n * sizeof(node);
    for (uint32_t i = 0; i < n; i++) {
        const tnp_node *x = nodes[i];
        tnp_rc rc = check_node(x, i, nslots, nscalars, e);
        if (rc) return rc;
        bytes += x->nrefs * sizeof *x->refs + x->nimms * (sizeof *x->imms + 8) + 24;
    }
    tnp_graph *g = cpu__take(bytes);
    if (!g) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for a graph of %u nodes", n);
    *g = (tnp_graph){.n = n, .nslots = nslots, .nscalars = nscalars};
    char *at = (char *)&g->nodes[n];
    for (uint32_t i = 0; i < n; i++) {
        const tnp_node *x = nodes[i];
        node *y = &g->nodes[i];
        *y = (node){.kind = x->kind,
                    .nrefs = x->nrefs,
                    .nimms = x->nimms,
                    .width = x->width,
                    .prog = x->prog,
                    .work = x->work};
        memcpy(y->grid, x->grid, sizeof y->grid);
        y->refs = keep(&at, x->refs, x->nrefs * sizeof *x->refs);
        if (x->imms) y->imms = keep(&at, x->imms, x->nimms * sizeof *x->imms);
        if (x->imm_slots) y->imm_slots = keep(&at, x->imm_slots, x->nimms * sizeof *x->imm_slots);
    }
    *out = g;
    return TNP_OK;
}

static void graph_free(tnp_dev *d, tnp_graph *g)
{
    (void)d;
    cpu__give(g);
}

/* ---- run ---- */

/* A slot's bytes from `off` on; its length bounds what may follow. */
static tnp_rc resolve(const tnp_gref *r, const tnp_ref *slots, tnp_ref *out, tnp_err *e)
{
    if (r->slot < 0) {
        *out = r->ref;
        return TNP_OK;
    }
    const tnp_ref *s = &slots[r->slot];
    *out = (tnp_ref){s->buf, s->off + r->ref.off, r->ref.len};
    return tnk_ref_check(out, "graph slot", e);
}

static tnp_rc run_kernel(const node *x, const tnp_ref *slots, const uint64_t *scalars, tnp_err *e)
{
    void *bufs[CPU_MAX_ARGS];
    uint64_t imms[CPU_MAX_IMMS];
    tnp_ref r;
    for (uint32_t k = 0; k < x->nrefs; k++) {
        tnp_rc rc = resolve(&x->refs[k], slots, &r, e);
        if (rc) return rc;
        bufs[k] = r.buf->p + r.off;
    }
    for (uint32_t k = 0; k < x->nimms; k++) {
        int32_t s = x->imm_slots ? x->imm_slots[k] : -1;
        imms[k] = s >= 0 ? scalars[s] : x->imms ? x->imms[k] : 0;
    }
    const cpu__job j = {.fn = x->prog->fn,
                        .bufs = bufs,
                        .imms = imms,
                        .grid = {x->grid[0], x->grid[1], x->grid[2]},
                        .scratch_bytes = x->prog->scratch_bytes,
                        .work = x->work};
    if (cpu__pool_run(&j)) return TNP_OK;
    return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no memory for %llu bytes of scratch",
                     (unsigned long long)x->prog->scratch_bytes);
}

static tnp_rc run_copy(const node *x, const tnp_ref *slots, tnp_err *e)
{
    tnp_ref dst, src;
    tnp_rc rc = resolve(&x->refs[0], slots, &dst, e);
    if (!rc) rc = resolve(&x->refs[1], slots, &src, e);
    if (rc) return rc;
    if (dst.len != src.len)
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: graph copy: the two sides differ in length");
    if (src.len) memmove(dst.buf->p + dst.off, src.buf->p + src.off, (size_t)src.len);
    return TNP_OK;
}

static tnp_rc run_fill(const node *x, const tnp_ref *slots, const uint64_t *scalars, tnp_err *e)
{
    tnp_ref dst;
    tnp_rc rc = resolve(&x->refs[0], slots, &dst, e);
    if (rc) return rc;
    int32_t s = x->imm_slots ? x->imm_slots[0] : -1;
    uint64_t pattern = s >= 0 ? scalars[s] : x->imms ? x->imms[0] : 0;
    tnk_fill_bytes(dst.buf->p + dst.off, (size_t)dst.len, pattern, x->width);
    return TNP_OK;
}

static tnp_rc run(tnp_dev *d, tnp_queue *q, tnp_graph *g, const tnp_ref *slots,
                  const uint64_t *scalars, const tnp_sync *s, tnp_err *e)
{
    (void)d, (void)q;
    if ((g->nslots && !slots) || (g->nscalars && !scalars))
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: graph: %u slots and %u scalars must be given",
                         g->nslots, g->nscalars);
    for (uint32_t i = 0; i < g->n; i++) {
        const node *x = &g->nodes[i];
        tnp_rc rc = TNP_OK;
        if (x->kind == TNP_NODE_LAUNCH)
            rc = run_kernel(x, slots, scalars, e);
        else if (x->kind == TNP_NODE_COPY)
            rc = run_copy(x, slots, e);
        else
            rc = run_fill(x, slots, scalars, e);
        if (rc) return rc;
    }
    return tnk_end(s, e);
}

const tnp_graph_ops cpu__graph_ops = {sizeof cpu__graph_ops, TNP_MINOR, build, run, graph_free};
