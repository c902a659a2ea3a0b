/* SPDX-License-Identifier: MIT */
/*
 * Extension "tenon.graph/1": a list of launches, copies and fills, run in the order it was given (every
 * dependency names an earlier node, so that order is right).
 *
 * build copies all it needs; run fills in slots and scalars on the stack and allocates only what a walk
 * does.  A graph is immutable: many threads may run it.
 */
#include "interp.h"
#include <string.h>

enum { MAX_REFS = 64, MAX_IMMS = 64 };

typedef struct {
    uint32_t kind, nrefs, nimms, width;
    const tnp_prog *prog;
    uint32_t grid[3], local[3];
    tnp_gref *refs;     /* into the graph's memory */
    int32_t *imm_slots; /* likewise */
    uint64_t *imms;
} node;

struct tnp_graph {
    uint32_t n, nslots, nscalars;
    node *nodes;
    unsigned char *mem; /* all arrays of the nodes */
};

static tnp_rc check_node(const tnp_node *nd, uint32_t i, uint32_t nslots, uint32_t nscalars,
                         tnp_err *err)
{
    static const uint32_t want[] = {[TNP_NODE_COPY] = 2, [TNP_NODE_FILL] = 1};
    if (nd->size < TNP_END(tnp_node, nimms))
        return interp__fail(err, TNP_E_ARG, "INTERP: graph node %u: its struct has %u bytes only",
                            i, nd->size);
    if (nd->kind > TNP_NODE_FILL)
        return interp__fail(err, TNP_E_UNSUPPORTED, "INTERP: graph node %u: unknown kind %u", i,
                            nd->kind);
    if (nd->nrefs > MAX_REFS || nd->nimms > MAX_IMMS)
        return interp__fail(
            err, TNP_E_ARG,
            "INTERP: graph node %u: %u buffers and %u immediates: at most %d and %d", i, nd->nrefs,
            nd->nimms, MAX_REFS, MAX_IMMS);
    if (nd->kind == TNP_NODE_LAUNCH ? !nd->prog : nd->nrefs != want[nd->kind])
        return interp__fail(err, TNP_E_ARG,
                            "INTERP: graph node %u: wrong number of buffers, or no program", i);
    if (nd->kind == TNP_NODE_FILL && nd->nimms != 1)
        return interp__fail(err, TNP_E_ARG,
                            "INTERP: graph node %u: a fill has one immediate, not %u", i,
                            nd->nimms);
    for (uint32_t k = 0; k < nd->ndeps; k++)
        if (nd->deps[k] >= i)
            return interp__fail(err, TNP_E_ARG,
                                "INTERP: graph node %u: it waits for node %u, which is not earlier",
                                i, nd->deps[k]);
    for (uint32_t k = 0; k < nd->nrefs; k++)
        if (nd->refs[k].slot >= 0 && (uint32_t)nd->refs[k].slot >= nslots)
            return interp__fail(err, TNP_E_ARG, "INTERP: graph node %u: slot %d of %u", i,
                                nd->refs[k].slot, nslots);
    for (uint32_t k = 0; nd->imm_slots && k < nd->nimms; k++)
        if (nd->imm_slots[k] >= 0 && (uint32_t)nd->imm_slots[k] >= nscalars)
            return interp__fail(err, TNP_E_ARG, "INTERP: graph node %u: scalar %d of %u", i,
                                nd->imm_slots[k], nscalars);
    return TNP_OK;
}

static size_t node_bytes(const tnp_node *nd)
{
    const size_t slots = (nd->nimms * sizeof(int32_t) + 7) / 8 * 8;
    return nd->nrefs * sizeof(tnp_gref) + nd->nimms * sizeof(uint64_t) + slots;
}

/* Arrays of 8-byte aligned elements first, so that everything stays aligned. */
static unsigned char *copy_node(node *to, const tnp_node *nd, unsigned char *mem)
{
    memset(to, 0, sizeof *to);
    to->kind = nd->kind;
    to->nrefs = nd->nrefs;
    to->nimms = nd->nimms;
    to->width = nd->width;
    to->prog = nd->prog;
    memcpy(to->grid, nd->grid, sizeof to->grid);
    memcpy(to->local, nd->local, sizeof to->local);
    to->refs = (tnp_gref *)(void *)mem;
    if (nd->nrefs) memcpy(to->refs, nd->refs, nd->nrefs * sizeof *to->refs);
    mem += nd->nrefs * sizeof *to->refs;
    to->imms = (uint64_t *)(void *)mem;
    mem += nd->nimms * sizeof *to->imms;
    to->imm_slots = (int32_t *)(void *)mem;
    mem += (nd->nimms * sizeof(int32_t) + 7) / 8 * 8;
    for (uint32_t k = 0; k < nd->nimms; k++) {
        to->imm_slots[k] = nd->imm_slots ? nd->imm_slots[k] : -1;
        to->imms[k] = nd->imms ? nd->imms[k] : 0;
    }
    return mem;
}

static void graph_free(tnp_dev *d, tnp_graph *g)
{
    (void)d;
    if (!g) return;
    interp__free(g->nodes);
    interp__free(g->mem);
    interp__free(g);
}

static tnp_rc build(tnp_dev *d, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                    uint32_t nscalars, tnp_graph **out, tnp_err *err)
{
    size_t bytes = 8;
    for (uint32_t i = 0; i < n; i++) {
        const tnp_rc rc = check_node(nodes[i], i, nslots, nscalars, err);
        if (rc != TNP_OK) return rc;
        bytes += node_bytes(nodes[i]);
    }
    tnp_graph *g = interp__alloc(sizeof *g);
    if (g) {
        *g = (tnp_graph){.n = n, .nslots = nslots, .nscalars = nscalars};
        g->nodes = interp__alloc(((size_t)n + 1) * sizeof *g->nodes);
        g->mem = interp__alloc(bytes);
    }
    if (!g || !g->nodes || !g->mem) {
        graph_free(d, g);
        return interp__fail(err, TNP_E_NOMEM, "INTERP: no host memory for a graph of %u nodes", n);
    }
    unsigned char *mem = g->mem;
    for (uint32_t i = 0; i < n; i++) mem = copy_node(&g->nodes[i], nodes[i], mem);
    *out = g;
    return TNP_OK;
}

static tnp_rc run_node(const node *nd, const tnp_ref *refs, const uint64_t *imms, tnp_err *err)
{
    unsigned char *dst = NULL, *src = NULL;
    if (nd->kind == TNP_NODE_LAUNCH) {
        tnp_launch l = {
            .size = sizeof l, .bufs = refs, .imms = imms, .nbufs = nd->nrefs, .nimms = nd->nimms};
        memcpy(l.grid, nd->grid, sizeof l.grid);
        memcpy(l.local, nd->local, sizeof l.local);
        return interp__launch(nd->prog, &l, err);
    }
    tnp_rc rc = interp__ref(&refs[0], "graph", &dst, err);
    if (rc != TNP_OK) return rc;
    if (nd->kind == TNP_NODE_FILL) {
        rc = tnk_fill_check(refs[0].len, nd->width, err);
        if (rc == TNP_OK) tnk_fill_bytes((char *)dst, (size_t)refs[0].len, imms[0], nd->width);
        return rc;
    }
    if ((rc = interp__ref(&refs[1], "graph", &src, err)) != TNP_OK) return rc;
    if (refs[0].len != refs[1].len)
        return interp__fail(err, TNP_E_ARG, "INTERP: graph: a copy of %llu bytes to %llu",
                            (unsigned long long)refs[1].len, (unsigned long long)refs[0].len);
    if (refs[0].len) memmove(dst, src, (size_t)refs[0].len);
    return TNP_OK;
}

static tnp_rc run(tnp_dev *d, tnp_queue *q, tnp_graph *g, const tnp_ref *slots,
                  const uint64_t *scalars, const tnp_sync *sync, tnp_err *err)
{
    (void)d;
    (void)q;
    tnp_ref refs[MAX_REFS];
    uint64_t imms[MAX_IMMS];
    tnp_rc rc = tnk_begin(sync, err);
    for (uint32_t i = 0; i < g->n && rc == TNP_OK; i++) {
        const node *nd = &g->nodes[i];
        for (uint32_t k = 0; k < nd->nrefs; k++) {
            refs[k] = nd->refs[k].ref;
            if (nd->refs[k].slot < 0) continue;
            const tnp_ref *slot = &slots[nd->refs[k].slot];
            if (!refs[k].len && slot->len > refs[k].off)
                refs[k].len = slot->len - refs[k].off; /* the rest */
            refs[k].buf = slot->buf;
            refs[k].off += slot->off;
        }
        for (uint32_t k = 0; k < nd->nimms; k++)
            imms[k] = nd->imm_slots[k] < 0 ? nd->imms[k] : scalars[nd->imm_slots[k]];
        rc = run_node(nd, refs, imms, err);
    }
    return rc == TNP_OK ? tnk_end(sync, err) : rc;
}

const tnp_graph_ops interp__graph_ops = {.size = sizeof interp__graph_ops,
                                         .minor = TNP_MINOR,
                                         .build = build,
                                         .run = run,
                                         .free = graph_free};
