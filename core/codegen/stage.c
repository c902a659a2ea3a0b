/* SPDX-License-Identifier: MIT */
/*
 * Staging in memory: an operand that a kernel reads many times is first copied by a small kernel, in the
 * order in which it is read (AXES: one dimension a range) or with its border of zeros (BOX: one dimension
 * an index expression), so that the reading loops have neither strides nor masks.
 */
#include "codegen/opts.h"
#include <string.h>

static bool reads_memory(tn__space *s, tn__uop *u)
{
    tn__uop **order;
    size_t n;
    if (!tn__uop_topo(s, &u, 1, &order, &n)) return true;
    for (size_t i = 0; i < n; i++)
        if (order[i]->op == TN_OP_LOAD) return true;
    return false;
}

static bool plain_load(tn__kernel *k, const tn__uop *load)
{
    for (int i = 0; i < load->nsrc; i++)
        if (reads_memory(&k->sp, load->src[i])) return false;
    return true;
}

/* Copies k's facts about the loaded buffer to a new kernel; its buffer 0 is the source, 1 the copy. */
static tn__kernel *copy_kernel(tn__schedule *s, tn__kernel *k, const tn__uop *load,
                               const int64_t *dims, int rank)
{
    tn__kernel *c = tn__schedule_insert(s, k);
    int64_t *d = tn__arena_alloc(s->arena, 2 * ((size_t)rank + 1) * sizeof *d), *st = d + rank + 1;
    tn__uop **idx = tn__arena_alloc(s->arena, ((size_t)rank + 1) * sizeof *idx);
    int64_t numel = 1;
    if (!c || !d || !idx) return NULL;
    for (int i = rank - 1; i >= 0; i--) {
        d[i] = dims[i];
        st[i] = numel;
        numel *= dims[i];
    }
    const int temp = tn__schedule_temp(s, (tn_dtype)load->dt, numel);
    if (temp < 0) return NULL;
    memcpy(c->scalar, k->scalar, sizeof c->scalar);
    memcpy(c->scalar_dt, k->scalar_dt, sizeof c->scalar_dt);
    c->nscalar = k->nscalar;
    c->buf[0] = k->buf[load->arg[0]];
    c->buf[0].access = TNP_ACCESS_READ;
    if (c->buf[0].offset) {
        tn__uop *none[TN__MAX_RANGES] = {0};
        c->buf[0].offset = tn__uop_import(&c->sp, &k->sp, c->buf[0].offset, none);
    }
    c->buf[1] = (tn__kbuf){.plan = temp,
                           .dt = (tn_dtype)load->dt,
                           .access = TNP_ACCESS_WRITE,
                           .rank = rank,
                           .dims = d,
                           .strides = st,
                           .numel = numel};
    c->nbuf = 2;
    for (int i = 0; i < rank; i++) {
        tn__uop *r = tn__range(&c->sp, dims[i], TN__AXIS_LOOP);
        c->out[c->nout++] = r;
        idx[i] = tn__ix_atom(&c->sp, r);
    }
    c->store[0] = (tn__kstore){.buf = 1, .idx = idx};
    c->nstore = 1;
    return c->sp.failed ? NULL : c;
}

/* The kernel reads the copy at idx in place of the load. */
static bool read_copy(tn__kernel *k, const tn__uop *load, const tn__kernel *c, tn__uop *const *idx)
{
    if (k->nbuf == TN__KBUFS) return false;
    k->buf[k->nbuf] = c->buf[1];
    k->buf[k->nbuf].access = TNP_ACCESS_READ;
    tn__uop *v = tn__load_node(&k->sp, (tn_dtype)load->dt, k->nbuf++, idx, c->buf[1].rank, NULL);
    return tn__kernel_replace(k, load, v);
}

bool tn__opt_stage(tn__schedule *s, tn__kernel *k, tn__uop *load, tn__uop *const *ranges, int n)
{
    int64_t dims[TN__MAX_RANGES] = {0};
    tn__uop *idx[TN__MAX_RANGES], *to[TN__MAX_RANGES] = {0}, *at[TN_MAX_RANK + 1];
    const int rank = k->buf[load->arg[0]].rank;
    if (!plain_load(k, load) || n > TN_MAX_RANK) return true;
    for (int i = 0; i < n; i++) {
        dims[i] = tn__range_size(ranges[i]);
        idx[i] = tn__ix_atom(&k->sp, ranges[i]);
    }
    tn__kernel *c = copy_kernel(s, k, load, dims, n);
    if (!c) return false;
    for (int i = 0; i < n; i++) to[tn__range_num(ranges[i])] = tn__ix_atom(&c->sp, c->out[i]);
    for (int i = 0; i < rank; i++) at[i] = tn__uop_import(&c->sp, &k->sp, load->src[i], to);
    tn__uop *gate = load->arg[1] ? tn__uop_import(&c->sp, &k->sp, load->src[rank], to) : NULL;
    c->store[0].value = tn__load_node(&c->sp, (tn_dtype)load->dt, 0, at, rank, gate);
    tn__buf_printf(&k->opts, "%sSTAGE b%d AXES", k->opts.len ? "; " : "", (int)load->arg[0]);
    return read_copy(k, load, c, idx) && !c->sp.failed;
}

/* Reads private array `no` at the flat index of `at`; outer: a loop that its contents depend on, or NULL. */
static tn__uop *private_read(tn__kernel *k, tn_dtype dt, int64_t no, tn__uop *const *at,
                             const int64_t *dims, int n, tn__uop *outer)
{
    tn__uop *x = tn__ix_const(&k->sp, 0), *src[2];
    int64_t stride = 1;
    for (int i = n - 1; i >= 0; stride *= dims[i--])
        x = tn__ix_add(&k->sp, x, tn__ix_mulc(&k->sp, at[i], stride));
    src[0] = x;
    src[1] = outer ? tn__ix_atom(&k->sp, outer) : NULL;
    return tn__uop_get(
        &k->sp,
        &(tn__uop_desc){
            .op = TN_OP_STAGE, .dt = dt, .narg = 1, .arg = &no, .nsrc = outer ? 2 : 1, .src = src});
}

bool tn__opt_private(tn__kernel *k, tn__uop *load, tn__uop *const *ranges, int n)
{
    tn__uop *to[TN__MAX_RANGES] = {0}, *at[TN__MAX_RANGES];
    int64_t dims[TN__MAX_RANGES] = {0};
    if (k->nstage == TN__KSTAGES || k->sp.nranges + (unsigned)n > TN__MAX_RANGES) return true;
    tn__kstage *st = &k->stage[k->nstage];
    *st = (tn__kstage){.n = n, .numel = 1};
    for (int i = 0; i < n; i++) {
        dims[i] = tn__range_size(ranges[i]);
        st->numel *= dims[i];
        st->range[i] = tn__range(&k->sp, dims[i], TN__AXIS_REDUCE);
        if (k->sp.failed) return false;
        to[tn__range_num(ranges[i])] = tn__ix_atom(&k->sp, st->range[i]);
        at[i] = tn__ix_atom(&k->sp, ranges[i]);
    }
    tn__uop *value = tn__uop_subst(&k->sp, load, to);
    tn__uop *read = private_read(k, (tn_dtype)load->dt, k->nstage, at, dims, n, NULL);
    if (k->sp.failed || !tn__kernel_replace(k, load, read)) return false;
    st->value = value;
    k->nstage++;
    tn__buf_printf(&k->opts, "%sPRIVATE b%d %d", k->opts.len ? "; " : "", (int)load->arg[0],
                   (int)st->numel);
    return true;
}

static bool only_parts_of(const tn__uop *gate, const tn__uop *box)
{
    for (;;) {
        const tn__uop *part = gate->op == TN_OP_AND ? gate->src[1] : gate, *b = box;
        while (b->op == TN_OP_AND && b->src[1] != part) b = b->src[0];
        if (b != part && !(b->op == TN_OP_AND && b->src[1] == part)) return false;
        if (gate->op != TN_OP_AND) return true;
        gate = gate->src[0];
    }
}

/* What of the load's box a private copy holds: the dimensions that depend on more than `outer`. */
typedef struct {
    tn__uop *box; /* the gate of all of it; NULL: no box */
    bool own[TN_MAX_RANK + 1];
    int64_t numel;
} box_parts;

static box_parts parts_of(tn__kernel *k, const tn__uop *load, const tn__uop *outer)
{
    const tn__kbuf *b = &k->buf[load->arg[0]];
    box_parts p = {.numel = 1};
    for (int i = 0; i < b->rank; i++) {
        const tn__uop *e = load->src[i];
        p.own[i] = !outer || (e->deps & ~outer->deps);
        if (p.own[i]) p.numel *= e->hi - e->lo + 1;
        p.box = tn__cond_and(&k->sp, p.box, tn__ix_ge(&k->sp, load->src[i], 0));
        p.box = tn__cond_and(&k->sp, p.box, tn__ix_lt(&k->sp, load->src[i], b->dims[i]));
    }
    if (!load->arg[1] || !p.box || !plain_load(k, load) ||
        !only_parts_of(load->src[b->rank], p.box))
        p.box = NULL;
    return p;
}

int64_t tn__opt_box_size(tn__kernel *k, const tn__uop *load, const tn__uop *outer)
{
    const box_parts p = parts_of(k, load, outer);
    return p.box ? p.numel : 0;
}

bool tn__opt_private_box(tn__kernel *k, tn__uop *load, tn__uop *outer)
{
    tn__space *s = &k->sp;
    const tn__kbuf *b = &k->buf[load->arg[0]];
    const box_parts p = parts_of(k, load, outer);
    tn__uop *at[TN_MAX_RANK + 1], *idx[TN_MAX_RANK + 1], *gate = NULL;
    int64_t dims[TN_MAX_RANK + 1] = {0};
    int n = 0;
    if (!p.box || k->nstage == TN__KSTAGES || s->nranges + (unsigned)b->rank > TN__MAX_RANGES)
        return true;
    tn__kstage *st = &k->stage[k->nstage];
    *st = (tn__kstage){.numel = p.numel};
    for (int i = 0; i < b->rank; i++) {
        tn__uop *e = load->src[i];
        idx[i] = e;
        if (!p.own[i]) continue;
        dims[n] = e->hi - e->lo + 1;
        st->range[n] = tn__range(s, dims[n], TN__AXIS_REDUCE);
        if (s->failed) return false;
        at[n] = tn__ix_addc(s, e, -e->lo);
        idx[i] = tn__ix_addc(s, tn__ix_atom(s, st->range[n++]), e->lo);
        gate = tn__cond_and(s, gate, tn__ix_ge(s, idx[i], 0));
        gate = tn__cond_and(s, gate, tn__ix_lt(s, idx[i], b->dims[i]));
    }
    st->n = n;
    tn__uop *value = tn__load_node(s, (tn_dtype)load->dt, (int)load->arg[0], idx, b->rank, gate);
    tn__uop *read = private_read(k, (tn_dtype)load->dt, k->nstage, at, dims, n, outer);
    if (s->failed || !tn__kernel_replace(k, load, read)) return false;
    st->value = value;
    k->nstage++;
    tn__buf_printf(&k->opts, "%sPRIVATE b%d BOX %d", k->opts.len ? "; " : "", (int)load->arg[0],
                   (int)st->numel);
    return true;
}

bool tn__opt_pad(tn__schedule *s, tn__kernel *k, tn__uop *load)
{
    const tn__kbuf *b = &k->buf[load->arg[0]];
    tn__uop *box = NULL, *idx[TN_MAX_RANK + 1], *at[TN_MAX_RANK + 1], *gate = NULL;
    int64_t dims[TN_MAX_RANK + 1], numel = 1, old = 1;
    const int rank = b->rank;
    if (!load->arg[1] || !plain_load(k, load)) return true;
    for (int i = 0; i < rank; i++) {
        const tn__uop *e = load->src[i];
        box = tn__cond_and(&k->sp, box, tn__ix_ge(&k->sp, load->src[i], 0));
        box = tn__cond_and(&k->sp, box, tn__ix_lt(&k->sp, load->src[i], b->dims[i]));
        dims[i] = e->hi - e->lo + 1;
        numel *= dims[i];
        old *= b->dims[i];
        idx[i] = tn__ix_addc(&k->sp, load->src[i], -e->lo);
    }
    if (!box || !only_parts_of(load->src[rank], box) || numel > 4 * old + 4096)
        return !k->sp.failed;
    tn__kernel *c = copy_kernel(s, k, load, dims, rank);
    if (!c) return false;
    for (int i = 0; i < rank; i++) {
        at[i] = tn__ix_addc(&c->sp, tn__ix_atom(&c->sp, c->out[i]), load->src[i]->lo);
        gate = tn__cond_and(&c->sp, gate, tn__ix_ge(&c->sp, at[i], 0));
        gate = tn__cond_and(&c->sp, gate, tn__ix_lt(&c->sp, at[i], b->dims[i]));
    }
    c->store[0].value = tn__load_node(&c->sp, (tn_dtype)load->dt, 0, at, rank, gate);
    tn__buf_printf(&k->opts, "%sSTAGE b%d BOX", k->opts.len ? "; " : "", (int)load->arg[0]);
    return read_copy(k, load, c, idx) && !c->sp.failed;
}
