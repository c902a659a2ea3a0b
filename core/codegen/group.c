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

static bool conflict(const tn__kernel *a, const tn__kernel *b)
{
    for (int i = 0; i < a->nbuf; i++)
        for (int j = 0; j < b->nbuf; j++)
            if (a->buf[i].plan == b->buf[j].plan &&
                ((a->buf[i].access | b->buf[j].access) & TNP_ACCESS_WRITE))
                return true;
    return false;
}

static bool small(const tn__kernel *k)
{
    return !k->copy && k->ops < SMALL_OPS && k->root->op != TN_OP_SORT && !k->nstage;
}

typedef struct {
    int first, count, bufs, imms;
} launch; /* first: place of its first member in the old order */

/* The earliest launch that kernel i may join, or -1: nothing between the two may touch its buffers. */
static int joinable(const tn__schedule *s, const launch *l, int nl, int i)
{
    const tn__kernel *k = s->kernel[i];
    int best = -1;
    for (int g = nl - 1; g >= 0; g--) {
        bool clash = false, fits = true;
        for (int j = 0; j < i && !clash; j++)
            clash = s->kernel[j]->launch == g && conflict(s->kernel[j], k);
        if (clash) break;
        for (int j = 0; j < i; j++)
            fits &= s->kernel[j]->launch != g ||
                    (small(s->kernel[j]) && s->kernel[j]->dev == k->dev);
        if (fits && l[g].count < MAX_MEMBERS && l[g].bufs + k->nbuf <= MAX_ARGS &&
            l[g].imms + k->nscalar <= MAX_IMMS)
            best = g;
    }
    return best;
}

bool tn__group_kernels(tn__schedule *s)
{
    launch *l = tn__arena_zero(s->arena, ((size_t)s->nkernel + 1) * sizeof *l);
    tn__kernel **order = tn__arena_alloc(s->arena, ((size_t)s->nkernel + 1) * sizeof *order);
    int n = 0, at = 0;
    if (!l || !order) return false;
    for (int i = 0; i < s->nkernel; i++) {
        tn__kernel *k = s->kernel[i];
        int g = small(k) ? joinable(s, l, n, i) : -1;
        if (g < 0) g = n++;
        k->launch = g;
        l[g].count++;
        l[g].bufs += k->nbuf;
        l[g].imms += k->nscalar;
    }
    for (int g = 0; g < n; g++)
        for (int i = 0; i < s->nkernel; i++)
            if (s->kernel[i]->launch == g) order[at++] = s->kernel[i];
    s->kernel = order;
    s->cap_kernel = s->nkernel;
    s->nlaunch = n;
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
