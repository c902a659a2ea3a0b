/* SPDX-License-Identifier: MIT */
/*
 * Small kernels that do not depend on each other share a launch: their bodies stand behind conditions on
 * the work-group's index.  A step of an optimizer over many parameters, or the packing of all weights, is one
 * launch then.
 *
 *  1. tn__group_kernels moves each small kernel up to the first launch that it may join and numbers launches
 *  2. tn__group_blob joins the linear code of a launch's members
 */
#include "codegen/codegen.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { SMALL_OPS = 400000, MAX_MEMBERS = 16, MAX_ARGS = 60, MAX_IMMS = 28 };

static bool small(const tn__kernel *k)
{
    return !k->copy && k->ops < SMALL_OPS && k->root->op != TN_OP_SORT && !k->nstage;
}

typedef struct {
    int count, bufs, imms, dev;
    bool open; /* its members are small */
} launch;

typedef struct {
    launch *l;
    int n;
    int *reads, *writes; /* by plan buffer: the last launch that does, or -1 */
} grouping;

/* The last launch that touches what k touches, where one of the two writes, or -1. */
static int last_conflict(const grouping *gr, const tn__kernel *k)
{
    int last = -1;
    for (int i = 0; i < k->nbuf; i++) {
        const int b = k->buf[i].plan;
        if (gr->writes[b] > last) last = gr->writes[b];
        if ((k->buf[i].access & TNP_ACCESS_WRITE) && gr->reads[b] > last) last = gr->reads[b];
    }
    return last;
}

/* The earliest launch that k may join, or a new one: nothing from there on may touch its buffers. */
static int launch_of(const grouping *gr, const tn__kernel *k)
{
    if (!small(k)) return gr->n;
    for (int g = last_conflict(gr, k) + 1; g < gr->n; g++) {
        const launch *l = &gr->l[g];
        if (l->open && l->dev == k->dev && l->count < MAX_MEMBERS &&
            l->bufs + k->nbuf <= MAX_ARGS && l->imms + k->nscalar <= MAX_IMMS)
            return g;
    }
    return gr->n;
}

static void join(grouping *gr, tn__kernel *k)
{
    const int g = launch_of(gr, k);
    launch *l = &gr->l[g];
    if (g == gr->n) {
        gr->n++;
        *l = (launch){.dev = k->dev, .open = small(k)};
    }
    k->launch = g;
    l->count++;
    l->bufs += k->nbuf;
    l->imms += k->nscalar;
    for (int i = 0; i < k->nbuf; i++) {
        int *at = &(k->buf[i].access & TNP_ACCESS_WRITE ? gr->writes : gr->reads)[k->buf[i].plan];
        if (g > *at) *at = g;
    }
}

bool tn__group_kernels(tn__schedule *s)
{
    const size_t n = (size_t)s->nkernel, nbuf = (size_t)s->nbuf;
    grouping gr = {.l = tn__arena_zero(s->arena, (n + 1) * sizeof *gr.l),
                   .reads = tn__arena_alloc(s->arena, (2 * nbuf + 1) * sizeof *gr.reads)};
    tn__kernel **order = tn__arena_alloc(s->arena, (n + 1) * sizeof *order);
    int *place = tn__arena_zero(s->arena, (n + 2) * sizeof *place); /* of a launch's next member */
    if (!gr.l || !gr.reads || !order || !place) return false;
    gr.writes = gr.reads + nbuf;
    memset(gr.reads, -1, 2 * nbuf * sizeof *gr.reads);
    for (size_t i = 0; i < n; i++) join(&gr, s->kernel[i]);
    for (int g = 0; g < gr.n; g++) place[g + 1] = place[g] + gr.l[g].count;
    for (size_t i = 0; i < n; i++) order[place[s->kernel[i]->launch]++] = s->kernel[i];
    s->kernel = order;
    s->cap_kernel = s->nkernel;
    s->nlaunch = gr.n;
    return true;
}

/* ---- joining ---- */

typedef struct {
    tnl_row *row;
    uint32_t n;
    const char (*ops)[TNL_NAME];
    uint32_t nops;
} joined;

static int op_no(const joined *j, const char *name)
{
    for (uint32_t i = 0; i < j->nops; i++)
        if (!strcmp(j->ops[i], name)) return (int)i;
    return -1;
}

static int put(joined *j, const char *op, int dt, int a, int b, int64_t imm)
{
    j->row[j->n] = (tnl_row){.op = (uint16_t)op_no(j, op),
                             .dtype = (uint8_t)dt,
                             .lanes = 1,
                             .src = {a, b, -1},
                             .imm = imm};
    return (int)j->n++;
}

/* The rows of one member behind "base <= gid < base + grid", its own gid counted from base. */
static void put_member(joined *j, const tnl_view *v, int gid, uint32_t base, uint32_t buf,
                       uint32_t imm)
{
    const int lo = put(j, "const", TN_I64, -1, -1, base),
              hi = put(j, "const", TN_I64, -1, -1, (int64_t)base + v->head->grid[0]);
    const int under = put(j, "lt", TN_BOOL, gid, hi, 0), below = put(j, "lt", TN_BOOL, gid, lo, 0);
    const int from = put(j, "not", TN_BOOL, below, -1, 0),
              in = put(j, "and", TN_BOOL, from, under, 0);
    const int own = put(j, "sub", TN_I64, gid, lo, 0), cond = put(j, "if", 0, in, -1, 0);
    int32_t *map = (int32_t *)(void *)(j->row + j->n +
                                       v->head->nrows); /* behind the rows to come */
    for (uint32_t i = 0; i < v->head->nrows; i++) {
        tnl_row w = v->rows[i];
        const char *op = v->ops[w.op];
        if (!strcmp(op, "gid")) {
            map[i] = own;
            continue;
        }
        for (int s = 0; s < 3; s++)
            if (w.src[s] >= 0) w.src[s] = map[w.src[s]];
        if (!strcmp(op, "load") || !strcmp(op, "store")) w.imm += buf;
        if (!strcmp(op, "param")) w.imm += imm;
        map[i] = (int32_t)j->n;
        j->row[j->n++] = w;
    }
    put(j, "endif", 0, cond, -1, 0);
}

bool tn__group_blob(const tn__buf *const *blobs, int n, char *name, size_t cap, tn__buf *out)
{
    tnl_view v[MAX_MEMBERS];
    uint32_t rows = 8, base = 0, buf = 0, imm = 0, most = 0;
    if (n > MAX_MEMBERS) return tn__fail(TN_EINTERNAL, "codegen: %d kernels in one launch", n);
    for (int i = 0; i < n; i++) {
        if (tnl_open(blobs[i]->data, blobs[i]->len, &v[i]) || v[i].head->nscratch)
            return tn__fail(TN_EINTERNAL, "codegen: bad linear code");
        rows += v[i].head->nrows + 12;
        if (v[i].head->nrows > most) most = v[i].head->nrows;
    }
    joined j = {.ops = v[0].ops, .nops = v[0].head->nops};
    j.row = tn__calloc((size_t)rows + most + 16, sizeof *j.row);
    tnl_head h = *v[0].head;
    tn__buf bufs = {0};
    if (!j.row) return false;
    const int gid = put(&j, "gid", TN_I64, -1, -1, 0);
    bool ok = true;
    for (int i = 0; i < n; i++) {
        put_member(&j, &v[i], gid, base, buf, imm);
        ok = ok && tn__buf_put(&bufs, v[i].bufs, v[i].head->nargs * sizeof *v[i].bufs);
        base += v[i].head->grid[0];
        buf += v[i].head->nargs;
        imm += v[i].head->nimms;
    }
    h.nargs = buf;
    h.nimms = imm;
    h.nrows = j.n;
    h.grid[0] = base;
    h.bytes = (uint32_t)(sizeof h + bufs.len + h.nops * TNL_NAME + j.n * sizeof *j.row);
    memset(h.name, 0, sizeof h.name);
    ok = ok && tn__buf_put(out, &h, sizeof h) && tn__buf_put(out, bufs.data, bufs.len) &&
         tn__buf_put(out, v[0].ops, h.nops * TNL_NAME) &&
         tn__buf_put(out, j.row, j.n * sizeof *j.row);
    if (ok) {
        snprintf(name, cap, "k_%016" PRIx64, tn__hash_bytes(out->data, out->len).lo);
        memcpy(out->data + offsetof(tnl_head, name), name, strlen(name) + 1);
    }
    tn__buf_free(&bufs);
    tn__free(j.row);
    return ok;
}
