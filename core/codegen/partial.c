/* SPDX-License-Identifier: MIT */
/*
 * Partial sums: a long reduction with few results becomes two kernels.  The first sums block after block of one
 * reduced axis into a buffer, so that what is read again for every result stays in the cache; the second adds the
 * blocks up.  Blocks depend on shapes alone: bits do not change with the number of threads.
 */
#include "codegen/opts.h"
#include <inttypes.h>
#include <string.h>

static bool only_loads(tn__space *s, tn__uop *value)
{
    tn__uop **order;
    size_t n;
    if (!tn__uop_topo(s, &value, 1, &order, &n)) return false;
    for (size_t i = 0; i < n; i++)
        if (order[i]->op == TN_OP_REDUCE || order[i]->op == TN_OP_SCAN ||
            order[i]->op == TN_OP_STAGE)
            return false;
    return true;
}

static tn__uop *reduce(tn__space *s, const tn__uop *like, tn__uop *const *src, int nsrc)
{
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_REDUCE,
                                          .dt = (tn_dtype)like->dt,
                                          .narg = like->narg,
                                          .arg = like->arg,
                                          .nsrc = nsrc,
                                          .src = src});
}

/* The result of each block: the blocks, then the output loops that `red` depends on. */
static bool block_buffer(tn__schedule *s, const tn__kernel *k, const tn__uop *red, int64_t blocks,
                         tn__kbuf *b)
{
    int64_t *d = tn__arena_alloc(s->arena, 2 * ((size_t)k->nout + 1) * sizeof *d);
    if (!d) return false;
    *b = (tn__kbuf){.dt = (tn_dtype)red->dt, .dims = d, .strides = d + k->nout + 1, .numel = 1};
    d[b->rank++] = blocks;
    for (int i = 0; i < k->nout; i++)
        if (red->deps & k->out[i]->deps) d[b->rank++] = tn__range_size(k->out[i]);
    for (int i = b->rank - 1; i >= 0; i--) {
        d[k->nout + 1 + i] = b->numel;
        b->numel *= d[i];
    }
    b->plan = tn__schedule_temp(s, b->dt, b->numel);
    return b->plan >= 0;
}

/* The first kernel: k's ranges that `red` depends on and r's blocks. */
static bool sum_blocks(tn__schedule *s, tn__kernel *k, const tn__uop *red, const tn__uop *r,
                       const tn__kbuf *sums)
{
    tn__kernel *c = tn__schedule_insert(s, k);
    tn__uop *to[TN__MAX_RANGES] = {0}, *src[TN__MAX_RANGES + 1], *none[TN__MAX_RANGES] = {0};
    tn__uop **idx = tn__arena_alloc(s->arena, (size_t)sums->rank * sizeof *idx);
    if (!c || !idx) return false;
    memcpy(c->buf, k->buf, sizeof c->buf);
    memcpy(c->scalar, k->scalar, sizeof c->scalar);
    memcpy(c->scalar_dt, k->scalar_dt, sizeof c->scalar_dt);
    c->nbuf = k->nbuf;
    c->nscalar = k->nscalar;
    for (int i = 0; i < c->nbuf; i++) {
        c->buf[i].access = TNP_ACCESS_READ; /* k writes others of them, which are dropped */
        if (c->buf[i].offset)
            c->buf[i].offset = tn__uop_import(&c->sp, &k->sp, c->buf[i].offset, none);
    }
    c->buf[c->nbuf] = *sums;
    c->buf[c->nbuf].access = TNP_ACCESS_WRITE;
    tn__uop *block = tn__range(&c->sp, sums->dims[0], TN__AXIS_LOOP);
    c->out[c->nout++] = block;
    for (int i = 0; i < k->nout; i++) {
        if (!(red->deps & k->out[i]->deps)) continue;
        c->out[c->nout] = tn__range(&c->sp, tn__range_size(k->out[i]), TN__AXIS_LOOP);
        to[tn__range_num(k->out[i])] = tn__ix_atom(&c->sp, c->out[c->nout++]);
    }
    for (int i = 1; i < red->nsrc; i++) {
        const tn__uop *x = red->src[i];
        const int64_t n = tn__range_size(x) / (x == r ? sums->dims[0] : 1);
        src[i] = tn__range(&c->sp, n, TN__AXIS_REDUCE);
        tn__uop *at = tn__ix_atom(&c->sp, src[i]);
        if (x == r) at = tn__ix_add(&c->sp, tn__ix_mulc(&c->sp, tn__ix_atom(&c->sp, block), n), at);
        to[tn__range_num(x)] = at;
    }
    if (c->sp.failed) return false;
    src[0] = tn__uop_import(&c->sp, &k->sp, red->src[0], to);
    for (int i = 0; i < c->nout; i++) idx[i] = tn__ix_atom(&c->sp, c->out[i]);
    c->store[c->nstore++] = (tn__kstore){
        .buf = c->nbuf++, .value = reduce(&c->sp, red, src, red->nsrc), .idx = idx};
    return !c->sp.failed && tn__kernel_drop_buffers(c);
}

bool tn__opt_partial(tn__schedule *s, tn__kernel *k, tn__uop *red, const tn__uop *r, int64_t blocks)
{
    tn__uop *src[2], *idx[TN__MAX_RANGES + 1];
    tn__kbuf sums;
    int n = 0;
    if (k->nbuf == TN__KBUFS || !only_loads(&k->sp, red->src[0])) return true;
    if (!block_buffer(s, k, red, blocks, &sums) || !sum_blocks(s, k, red, r, &sums)) return false;
    tn__buf_printf(&k->opts, "%sPARTIAL r%d %" PRId64, k->opts.len ? "; " : "",
                   (int)tn__range_num(r), blocks);
    src[1] = tn__range(&k->sp, blocks, TN__AXIS_REDUCE);
    if (k->sp.failed) return false;
    idx[n++] = tn__ix_atom(&k->sp, src[1]);
    for (int i = 0; i < k->nout; i++)
        if (red->deps & k->out[i]->deps) idx[n++] = tn__ix_atom(&k->sp, k->out[i]);
    sums.access = TNP_ACCESS_READ;
    k->buf[k->nbuf] = sums;
    src[0] = tn__load_node(&k->sp, sums.dt, k->nbuf++, idx, n, NULL);
    return tn__kernel_replace(k, red, reduce(&k->sp, red, src, 2)) && tn__kernel_drop_buffers(k);
}
