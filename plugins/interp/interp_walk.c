/* SPDX-License-Identifier: MIT */
/*
 * The walk: every work-group in order, every row in order.
 *
 * A loop row keeps its counter in its slot and its trip count in the next one; `end` counts up and jumps
 * back behind the loop row.  A loop or if that is not entered jumps behind its end.  Scratch is filled
 * with 0xff bytes (NaN, -1) before each work-group, so that a kernel that reads what it never wrote is
 * seen.  The loaded program is trusted (interp_load.c); bounds, gates and operands are checked here.
 */
#include "interp.h"
#include <string.h>

typedef struct {
    const tnp_prog *p;
    unsigned char *const *bufs; /* arguments */
    const uint64_t *lens;       /* bytes */
    unsigned char *scratch;
    const uint64_t *imms;
    uint64_t *vals;
    uint32_t gid[3];
    tnp_err *err;
} walk;

static tnp_rc fault(const walk *w, const interp_row *r, const char *text)
{
    return interp__fail(
        w->err, TNP_E_LAUNCH, "INTERP: kernel %s: group %u, %u, %u: row %u (%s %s): %s",
        w->p->v.head->name, w->gid[0], w->gid[1], w->gid[2], (uint32_t)(r - w->p->rows),
        interp__op_names[r->op], interp__dtype(r->dtype), text);
}

static tnp_rc out_of_bounds(const walk *w, const interp_row *r, int64_t index, uint64_t count)
{
    return interp__fail(
        w->err, TNP_E_LAUNCH,
        "INTERP: kernel %s: group %u, %u, %u: row %u (%s): buffer %d: index %lld, %u elements, "
        "is outside its length of %llu elements",
        w->p->v.head->name, w->gid[0], w->gid[1], w->gid[2], (uint32_t)(r - w->p->rows),
        interp__op_names[r->op], (int)r->imm, (long long)index, r->lanes,
        (unsigned long long)count);
}

static tnp_rc memory(walk *w, const interp_row *r)
{
    const tnl_head *h = w->p->v.head;
    const tnl_buf *b = &w->p->v.bufs[r->imm];
    const uint32_t size = interp__size(b->dtype);
    const bool store = r->op == OP_store, arg = (uint64_t)r->imm < h->nargs;
    uint64_t *v = &w->vals[store ? r->src[1] : r->slot];
    if (r->gated && !w->vals[r->src[store ? 2 : 1]]) {
        if (!store) memset(v, 0, r->lanes * sizeof *v);
        return TNP_OK;
    }
    const uint64_t count = arg ? w->lens[r->imm] / size : b->count;
    const uint8_t index_type = w->p->rows[r->row[0]].dtype;
    const int64_t i = interp__to_int(index_type,
                                     w->vals[r->src[0]]); /* a huge uint64 turns negative */
    if (i < 0 || (uint64_t)i > count || count - (uint64_t)i < r->lanes)
        return out_of_bounds(w, r, i, count);
    unsigned char *p = (arg ? w->bufs[r->imm] : w->scratch + b->offset) + (uint64_t)i * size;
    for (uint32_t k = 0; k < r->lanes; k++, p += size) {
        if (store)
            interp__put(p, size, v[k]);
        else
            v[k] = r->dtype == TNP_BOOL ? *p != 0 : interp__get(p, size);
    }
    return TNP_OK;
}

static tnp_rc lanes(walk *w, const interp_row *r)
{
    for (uint32_t k = 0; k < r->lanes; k++) {
        const uint64_t *v = w->vals + k;
        const char *text = interp__eval(r, v[r->src[0]], r->row[1] == UINT32_MAX ? 0 : v[r->src[1]],
                                        r->row[2] == UINT32_MAX ? 0 : v[r->src[2]],
                                        &w->vals[r->slot + k]);
        if (text) return fault(w, r, text);
    }
    return TNP_OK;
}

/* Bits of an immediate or a constant as the row's dtype has them. */
static uint64_t literal(const interp_row *r, uint64_t bits)
{
    const uint32_t size = interp__size(r->dtype);
    if (r->dtype == TNP_BOOL) return (bits & 0xff) != 0;
    return size == 8 ? bits : bits & ((UINT64_C(1) << 8 * size) - 1);
}

/* The row at index i; gives the index of the next one. */
static tnp_rc step(walk *w, uint32_t *i)
{
    const interp_row *r = &w->p->rows[*i];
    uint64_t *v = w->vals, *own = &v[r->slot];
    *i += 1;
    switch (r->op) {
    case OP_const:
        for (uint32_t k = 0; k < r->lanes; k++) own[k] = literal(r, (uint64_t)r->imm);
        return TNP_OK;
    case OP_gid: *own = literal(r, w->gid[r->imm]); return TNP_OK;
    case OP_param: *own = literal(r, w->imms[r->imm]); return TNP_OK;
    case OP_loop:
        own[0] = 0;
        own[1] = (uint64_t)interp__to_int(r->from, v[r->src[0]]);
        if ((int64_t)own[1] <= 0) *i = r->jump;
        return TNP_OK;
    case OP_end: {
        const interp_row *loop = &w->p->rows[r->jump];
        uint64_t *count = &v[loop->slot];
        const uint64_t next = (uint64_t)interp__to_int(loop->dtype, count[0]) + 1;
        if (next < count[1]) {
            count[0] = literal(loop, next);
            *i = r->jump + 1;
        }
        return TNP_OK;
    }
    case OP_if:
        if (!v[r->src[0]]) *i = r->jump;
        return TNP_OK;
    case OP_endif: return TNP_OK;
    case OP_var: memmove(own, &v[r->src[0]], r->lanes * sizeof *v); return TNP_OK;
    case OP_set: {
        const interp_row *var = &w->p->rows[r->row[0]];
        memmove(&v[var->slot], &v[r->src[1]], var->lanes * sizeof *v);
        return TNP_OK;
    }
    case OP_load:
    case OP_store: return memory(w, r);
    case OP_splat:
        for (uint32_t k = 0; k < r->lanes; k++) own[k] = v[r->src[0]];
        return TNP_OK;
    case OP_insert:
        memmove(own, &v[r->src[0]], r->lanes * sizeof *v);
        own[r->imm] = v[r->src[1]];
        return TNP_OK;
    case OP_extract: *own = v[r->src[0] + (uint32_t)r->imm]; return TNP_OK;
    default: return lanes(w, r);
    }
}

static tnp_rc group(walk *w)
{
    const tnl_head *h = w->p->v.head;
    tnp_rc rc = TNP_OK;
    if (h->scratch_bytes) memset(w->scratch, 0xff, (size_t)h->scratch_bytes);
    for (uint32_t i = 0; i < h->nrows && rc == TNP_OK;) rc = step(w, &i);
    return rc;
}

tnp_rc interp__walk(const tnp_prog *p, unsigned char *const *bufs, const uint64_t *lens,
                    const uint64_t *imms, const uint32_t grid[3], tnp_err *err)
{
    tnp_rc rc = TNP_OK;
    walk w = {.p = p, .bufs = bufs, .lens = lens, .imms = imms, .err = err};
    w.vals = interp__alloc(((size_t)p->nslots + 1) * sizeof *w.vals);
    w.scratch = interp__alloc((size_t)p->v.head->scratch_bytes + 1);
    if (!w.vals || !w.scratch)
        rc = interp__fail(err, TNP_E_NOMEM, "INTERP: kernel %s: no host memory for its values",
                          p->v.head->name);
    for (uint32_t z = 0; z < grid[2] && rc == TNP_OK; z++)
        for (uint32_t y = 0; y < grid[1] && rc == TNP_OK; y++)
            for (uint32_t x = 0; x < grid[0] && rc == TNP_OK; x++) {
                w.gid[0] = x, w.gid[1] = y, w.gid[2] = z;
                rc = group(&w);
            }
    interp__free(w.vals);
    interp__free(w.scratch);
    return rc;
}

tnp_rc interp__launch(const tnp_prog *p, const tnp_launch *l, tnp_err *err)
{
    enum { MAX = 64 };
    const tnl_head *h = p->v.head;
    unsigned char *bufs[MAX];
    uint64_t lens[MAX];
    tnp_rc rc;
    if (l->flags)
        return interp__fail(err, TNP_E_UNSUPPORTED, "INTERP: launch: unknown flags 0x%x", l->flags);
    if (l->nbufs != h->nargs || l->nimms != h->nimms || l->nbufs > MAX)
        return interp__fail(err, TNP_E_ARG,
                            "INTERP: kernel %s: launched with %u buffers and %u immediates, it "
                            "takes %u and %u (and at "
                            "most %d buffers)",
                            h->name, l->nbufs, l->nimms, h->nargs, h->nimms, MAX);
    if (l->local[0] > 1 || l->local[1] > 1 || l->local[2] > 1)
        return interp__fail(err, TNP_E_ARG,
                            "INTERP: kernel %s: local size %u x %u x %u: only 1 x 1 x 1 is walked",
                            h->name, l->local[0], l->local[1], l->local[2]);
    for (uint32_t i = 0; i < l->nbufs; i++) {
        if ((rc = interp__ref(&l->bufs[i], h->name, &bufs[i], err)) != TNP_OK) return rc;
        lens[i] = l->bufs[i].len;
    }
    const uint64_t t0 = interp__now_ns();
    rc = interp__walk(p, bufs, lens, l->imms, l->grid, err);
    if (l->out_ns) {
        const uint64_t ns = interp__now_ns() - t0;
        *l->out_ns = ns ? ns : 1;
    }
    return rc;
}
