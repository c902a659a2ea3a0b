/* SPDX-License-Identifier: MIT */
/*
 * Fusion: from outputs to inputs, decides for every node whether it is stored or computed where it is used.
 *
 * When a node's turn comes, every use of it is known as an instance with index expressions, and the count of
 * its evaluations is exact for the loop nest that will run: the sizes of the ranges the indices depend on,
 * with hoisting.  The rules:
 *  1. outputs, CONTIGUOUS, COPY, SCATTER, SCAN, SORT and UPDATE are stored
 *  2. an output whose only uses are at a kernel's own output indices becomes a second store of that kernel
 *  3. a reduction is computed in place if every element of it is evaluated once: as a kernel's main
 *     reduction, as a row value (hoisted out of the loops it does not depend on), or merged into a
 *     reduction of the same op around it; a contraction shares its kernel with no other reduction
 *  4. anything else is stored if recomputing costs more than a store and the loads
 * Kernels are capped in instances and buffers.  Leaves: info[].store, kernels with root instances.
 */
#include "schedule/fuse.h"
#include <string.h>
#include <tenon/plugin.h>

static tn__kfacts *facts(const tn__fuser *f, const tn__kernel *k) { return &f->facts[k->number]; }

/* ---- instances ---- */

static uint64_t inst_hash(const tn__inst *x)
{
    uint64_t h = tn__mix(tn__mix(x->node->id, (uint64_t)x->k->number), x->gate ? x->gate->id : 0);
    for (int i = 0; i < x->node->rank; i++) h = tn__mix(h, x->idx[i]->id);
    return h;
}

static bool same_inst(const tn__inst *x, const tn__inst *y)
{
    if (x->node != y->node || x->k != y->k || x->gate != y->gate) return false;
    for (int i = 0; i < x->node->rank; i++)
        if (x->idx[i] != y->idx[i]) return false;
    return true;
}

/* The place of an instance like x, or the free one for it; NULL: no memory. */
static tn__inst **inst_place(tn__fuser *f, const tn__inst *x)
{
    if (f->ninst * 2 >= f->cap_inst) {
        const size_t cap = f->cap_inst ? 4 * f->cap_inst : 256;
        tn__inst **t = tn__arena_zero(f->a, cap * sizeof *t);
        if (!t) return NULL;
        for (size_t i = 0; i < f->cap_inst; i++) {
            if (!f->inst[i]) continue;
            size_t at = (size_t)inst_hash(f->inst[i]) & (cap - 1);
            while (t[at]) at = (at + 1) & (cap - 1);
            t[at] = f->inst[i];
        }
        f->inst = t;
        f->cap_inst = cap;
    }
    size_t at = (size_t)inst_hash(x) & (f->cap_inst - 1);
    while (f->inst[at] && !same_inst(f->inst[at], x)) at = (at + 1) & (f->cap_inst - 1);
    return &f->inst[at];
}

tn__inst *tn__demand(tn__fuser *f, tn__kernel *k, tn__uop *node, tn__uop *const *idx, tn__uop *gate,
                     tn__inst *in, bool direct)
{
    tn__info *info = &f->info[node->id];
    tn__uop *at_idx[TN_MAX_RANK + 1];
    memcpy(at_idx, idx, (size_t)node->rank * sizeof *at_idx);
    tn__inst **place = inst_place(f,
                                  &(tn__inst){.k = k, .node = node, .idx = at_idx, .gate = gate});
    tn__inst *x = place ? *place : NULL;
    if (x) {
        if (x->in != in) x->in = NULL;
        x->direct = false;
        return x;
    }
    x = tn__arena_zero(f->a, sizeof *x);
    tn__uop **copy = tn__arena_alloc(f->a, (size_t)(node->rank + 1) * sizeof *copy);
    if (!place || !x || !copy) {
        f->sp->failed = true;
        return NULL;
    }
    memcpy(copy, idx, (size_t)node->rank * sizeof *copy);
    *place = x;
    f->ninst++;
    *x = (tn__inst){.next = info->insts,
                    .k = k,
                    .node = node,
                    .idx = copy,
                    .gate = gate,
                    .in = in,
                    .direct = direct};
    info->insts = x;
    facts(f, k)->open++;
    facts(f, k)->insts++;
    facts(f, k)->scalars += node->op == TN_OP_SCALAR ? 1 : node->op == TN_OP_RNG ? 2 : 0;
    return x;
}

/* ---- demands of an instance computed in place ---- */

static bool demand_reduce(tn__fuser *f, tn__inst *x)
{
    const tn__uop *u = x->node;
    tn__uop *idx[TN_MAX_RANK];
    memcpy(idx, x->idx, (size_t)u->rank * sizeof *idx);
    for (int i = 0; i < u->rank; i++) {
        if (!(u->arg[1] >> i & 1) || u->src[0]->dims[i] == 1) continue;
        tn__uop *r = tn__range(&x->k->sp, u->src[0]->dims[i], TN__AXIS_REDUCE);
        x->range[x->nrange++] = r;
        idx[i] = tn__ix_atom(&x->k->sp, r);
    }
    facts(f, x->k)->reduces += !x->merged;
    x->src[0] = tn__demand(f, x->k, u->src[0], idx, x->gate, x, true);
    return x->src[0] != NULL;
}

/* in = (position - k*dilation) / stride where that is a whole number inside the windows. */
static bool demand_fold(tn__fuser *f, tn__inst *x)
{
    const tn__uop *u = x->node, *w = u->src[0];
    tn__space *s = &x->k->sp;
    const int ax = (int)u->arg[0];
    const int64_t k = u->arg[1], stride = u->arg[2], dil = u->arg[3], outs = w->dims[ax];
    tn__uop *idx[TN_MAX_RANK + 1], *h = x->idx[ax], *cond = NULL;
    for (int i = 0; i < ax; i++) idx[i] = x->idx[i];
    for (int i = ax + 1; i < u->rank; i++) idx[i + 1] = x->idx[i];
    if (tn__fold_moves(u)) {
        idx[ax] = tn__ix_divc(s, h, stride);
        idx[ax + 1] = k == 1 ? tn__ix_const(s, 0) : tn__ix_modc(s, h, stride);
        cond = tn__ix_lt(s, idx[ax], outs);
        if (k == 1)
            cond = tn__cond_and(s, cond, tn__ix_eq(s, tn__ix_modc(s, h, stride), 0));
        else
            cond = tn__cond_and(s, cond, tn__ix_lt(s, idx[ax + 1], k));
    } else {
        tn__uop *r = tn__range(s, k, TN__AXIS_REDUCE);
        tn__uop *kk = tn__ix_atom(s, r), *t = tn__ix_add(s, h, tn__ix_mulc(s, kk, -dil));
        x->range[x->nrange++] = r;
        facts(f, x->k)->reduces += !x->merged;
        cond = tn__ix_ge(s, t, 0);
        idx[ax] = tn__ix_divc(s, t, stride);
        idx[ax + 1] = kk;
        cond = tn__cond_and(s, cond, tn__ix_lt(s, idx[ax], outs));
        if (stride > 1) cond = tn__cond_and(s, cond, tn__ix_eq(s, tn__ix_modc(s, t, stride), 0));
    }
    x->cond = cond;
    if (tn__cond_false(cond)) return true;
    const bool moves = tn__fold_moves(u);
    x->src[0] = tn__demand(f, x->k, u->src[0], idx, tn__cond_and(s, x->gate, cond),
                           moves ? x->in : x, moves ? x->direct : true);
    return x->src[0] != NULL;
}

/* x (B, V, P), idx (B, N): the index is computed at once, its value clamped by the condition. */
static bool demand_gather(tn__fuser *f, tn__inst *x)
{
    const tn__uop *u = x->node;
    tn__space *s = &x->k->sp;
    const int64_t rows = u->src[0]->dims[1];
    tn__uop *iv = tn__value_now(f, x->k, u->src[1], x->idx, x->gate, 0);
    iv = iv->dt == TN_I64 ? iv : tn__k1(s, TN_OP_CAST, TN_I64, iv);
    const int64_t zero = 0;
    tn__uop *ge = tn__k2(s, TN_OP_LT, TN_BOOL, iv, tn__kconst(s, TN_I64, 0));
    ge = tn__k1(s, TN_OP_NOT, TN_BOOL, ge);
    tn__uop *lt = tn__k2(s, TN_OP_LT, TN_BOOL, iv, tn__kconst(s, TN_I64, (uint64_t)rows));
    x->cond = tn__cond_and(s, ge, lt);
    tn__uop *safe = tn__k3(s, TN_OP_WHERE, TN_I64, x->cond, iv,
                           tn__kconst(s, TN_I64, (uint64_t)zero));
    tn__uop_bound(safe, 0, rows - 1);
    tn__uop *idx[3] = {x->idx[0], tn__ix_atom(s, safe), x->idx[2]};
    x->src[0] = tn__demand(f, x->k, u->src[0], idx, x->gate, x->in, false);
    return x->src[0] != NULL;
}

static bool demand_sources(tn__fuser *f, tn__inst *x)
{
    const tn__uop *u = x->node;
    const tn__class cls = tn__ops[u->op].cls;
    facts(f, x->k)->open--;
    if (cls == TN_CLASS_LEAF || u->op == TN_OP_RNG) return true;
    if (u->op == TN_OP_REDUCE) return tn__uop_numel(u->src[0]) == 0 || demand_reduce(f, x);
    if (u->op == TN_OP_FOLD) return demand_fold(f, x);
    if (u->op == TN_OP_GATHER) return demand_gather(f, x);
    tn__uop *idx[TN_MAX_RANK + 1];
    if (cls == TN_CLASS_MOVE) {
        if (!tn__move_index(&x->k->sp, u, x->idx, idx, &x->cond)) return false;
        if (tn__cond_false(x->cond)) return true;
        tn__uop *gate = tn__cond_and(&x->k->sp, x->gate, x->cond);
        x->src[0] = tn__demand(f, x->k, u->src[0], idx, gate, x->in, x->direct);
        return x->src[0] != NULL;
    }
    for (int i = 0; i < u->nsrc; i++) {
        x->src[i] = tn__demand(f, x->k, u->src[i], x->idx, x->gate, x->in, false);
        if (!x->src[i]) return false;
    }
    return true;
}

/* ---- kernels ---- */

int tn__fuser_pbuf(tn__fuser *f, const tn__uop *u)
{
    const int b = tn__schedule_temp(f->s, (tn_dtype)u->dt, tn__uop_numel(u));
    if (b >= 0) {
        f->s->buf[b].dev = u->dev;
        return b;
    }
    f->sp->failed = true;
    return 0;
}

tn__kernel *tn__kernel_new(tn__fuser *f, const tn__uop *root)
{
    tn__schedule *s = f->s;
    tn__kernel *k = tn__arena_zero(s->arena, sizeof *k);
    if (s->nkernel == s->cap_kernel) {
        const int cap = s->cap_kernel * 2 + 32;
        tn__kernel **l = tn__arena_zero(s->arena, (size_t)cap * sizeof *l);
        tn__kfacts *c = tn__arena_zero(f->a, (size_t)cap * sizeof *c);
        if (!l || !c)
            k = NULL;
        else {
            if (s->nkernel) {
                memcpy(l, s->kernel, (size_t)s->nkernel * sizeof *l);
                memcpy(c, f->facts, (size_t)s->nkernel * sizeof *c);
            }
            s->kernel = l;
            f->facts = c;
            s->cap_kernel = cap;
        }
    }
    if (!k) {
        f->sp->failed = true;
        return NULL;
    }
    tn__space_init(&k->sp, s->arena);
    k->root = root;
    k->dev = root->dev;
    k->number = s->nkernel;
    s->kernel[s->nkernel++] = k;
    return k;
}

/* Ranges for the axes of u that have more than one element. */
static void out_ranges(tn__kernel *k, const tn__uop *u, int ordered, tn__uop **idx)
{
    for (int i = 0; i < u->rank; i++) {
        if (u->dims[i] == 1) {
            idx[i] = tn__ix_const(&k->sp, 0);
            continue;
        }
        tn__uop *r = tn__range(&k->sp, u->dims[i], i == ordered ? TN__AXIS_ORDER : TN__AXIS_LOOP);
        k->out[k->nout++] = r;
        idx[i] = tn__ix_atom(&k->sp, r);
    }
}

/* The ordered range becomes the innermost: a running reduction has one accumulator. */
static void ordered_last(tn__kernel *k)
{
    for (int i = 0; i + 1 < k->nout; i++) {
        if (tn__range_kind(k->out[i]) != TN__AXIS_ORDER) continue;
        tn__uop *r = k->out[i];
        k->out[i] = k->out[i + 1];
        k->out[i + 1] = r;
    }
}

static bool add_store(tn__fuser *f, tn__kernel *k, tn__uop *u, tn__inst *value, tn__uop *const *idx,
                      tn__uop *gate, uint8_t access)
{
    const int b = tn__kernel_buffer(f, k, f->info[u->id].pbuf, (tn_dtype)u->dt, access, u);
    tn__uop **copy = tn__arena_alloc(f->a, ((size_t)u->rank + 1) * sizeof *copy);
    if (b < 0 || !copy) return false;
    memcpy(copy, idx, (size_t)u->rank * sizeof *copy);
    facts(f, k)->store[k->nstore] = value;
    k->store[k->nstore++] = (tn__kstore){.buf = b, .gate = gate, .idx = copy};
    return true;
}

/* A kernel that writes all of u from `what` (same shape). */
static bool kernel_whole(tn__fuser *f, tn__uop *u, tn__uop *what, int ordered)
{
    tn__uop *idx[TN_MAX_RANK];
    tn__kernel *k = tn__kernel_new(f, u);
    if (!k) return false;
    out_ranges(k, u, ordered, idx);
    tn__inst *x = tn__demand(f, k, what, idx, NULL, NULL, false);
    return x && add_store(f, k, u, x, idx, NULL, TNP_ACCESS_WRITE);
}

/* In place: nobody but u reads the old value, which is made here, so its kernel writes into u's memory.  view: the
 * chain of movement from the old value, which is no reader; NULL: there is none. */
static bool takes_over(tn__fuser *f, const tn__uop *u, const tn__uop *view)
{
    tn__uop *old = u->src[0];
    tn__info *info = &f->info[old->id];
    for (const tn__uop *v = view; v && v != old; v = v->src[0])
        if (f->info[v->id].uses != 1) return false;
    if (old->op == TN_OP_BUFFER || old->op == TN_OP_CONST || info->pbuf >= 0 || info->insts ||
        info->uses != (view ? 2 : 1))
        return false;
    info->pbuf = f->info[u->id].pbuf;
    return info->store = info->read_now = true;
}

static bool kernel_update(tn__fuser *f, tn__uop *u)
{
    tn__uop *old = u->src[0], *value = u->src[1], *view = u->src[2];
    tn__uop *vidx[TN_MAX_RANK + 1], *idx[TN_MAX_RANK + 1], *next[TN_MAX_RANK + 1], *cond;
    if (!takes_over(f, u, view) && !kernel_whole(f, u, old, -1)) return false;
    tn__kernel *k = tn__kernel_new(f, u);
    if (!k) return false;
    out_ranges(k, value, -1, vidx);
    memcpy(idx, vidx, (size_t)value->rank * sizeof *idx);
    for (tn__uop *v = view; v != old; v = v->src[0]) {
        if (!tn__move_index(&k->sp, v, idx, next, &cond)) return false;
        memcpy(idx, next, (size_t)v->src[0]->rank * sizeof *idx);
    }
    tn__inst *x = tn__demand(f, k, value, vidx, NULL, NULL, false);
    return x && add_store(f, k, u, x, idx, NULL, TNP_ACCESS_WRITE);
}

/* out[b, idx[b,n], p] = out op src[b,n,p], n in order. */
static bool kernel_scatter(tn__fuser *f, tn__uop *u)
{
    tn__uop *idx[3], *src = u->src[2];
    const int64_t rows = u->dims[1];
    if (!takes_over(f, u, NULL) && !kernel_whole(f, u, u->src[0], -1)) return false;
    if (!tn__uop_numel(src)) return true;
    tn__kernel *k = tn__kernel_new(f, u);
    if (!k) return false;
    tn__space *s = &k->sp;
    out_ranges(k, src, 1, idx);
    tn__uop *iv = tn__value_now(f, k, u->src[1], idx, NULL, 0);
    iv = iv->dt == TN_I64 ? iv : tn__k1(s, TN_OP_CAST, TN_I64, iv);
    tn__uop *ge = tn__k1(s, TN_OP_NOT, TN_BOOL,
                         tn__k2(s, TN_OP_LT, TN_BOOL, iv, tn__kconst(s, TN_I64, 0)));
    tn__uop *gate = tn__cond_and(
        s, ge, tn__k2(s, TN_OP_LT, TN_BOOL, iv, tn__kconst(s, TN_I64, (uint64_t)rows)));
    tn__uop *safe = tn__k3(s, TN_OP_WHERE, TN_I64, gate, iv, tn__kconst(s, TN_I64, 0));
    tn__uop_bound(safe, 0, rows - 1);
    tn__uop *at[3] = {idx[0], tn__ix_atom(s, safe), idx[2]};
    tn__inst *x = tn__demand(f, k, src, idx, NULL, NULL, false);
    return x && add_store(f, k, u, x, at, gate, TNP_ACCESS_READ | TNP_ACCESS_WRITE);
}

/* Stored in row-major order from its first element on, or to be stored so. */
static bool row_major(const tn__uop *u)
{
    int64_t stride = 1;
    if (u->op != TN_OP_BUFFER) return true;
    for (int i = u->rank - 1; i >= 0; stride *= u->dims[i--])
        if (u->dims[i] != 1 && u->arg[2 + i] != stride) return false;
    return u->arg[1] < 0;
}

/* A kernel that reads all of its operand from memory, in row-major order: positions of a sort (codegen/sort.c has
 * the rest), and copies between devices, which are no kernels but stand among them. */
static bool kernel_stored(tn__fuser *f, tn__uop *u)
{
    tn__uop *x = u->src[0], *base = x;
    tn__kernel *k = tn__kernel_new(f, u);
    if (!k) return false;
    k->copy = u->op == TN_OP_COPY;
    while (base->op == TN_OP_RESHAPE) base = base->src[0];
    if (row_major(base)) x = base;
    tn__info *info = &f->info[x->id];
    if (x->op != TN_OP_BUFFER) info->store = info->read_now = true;
    if (info->pbuf < 0) info->pbuf = tn__fuser_pbuf(f, x);
    const tn__uop *shape = x == base && x != u->src[0] ? u->src[0] : x;
    return !f->sp->failed &&
           tn__kernel_buffer(f, k, info->pbuf, (tn_dtype)x->dt, TNP_ACCESS_READ, shape) == 0 &&
           tn__kernel_buffer(f, k, f->info[u->id].pbuf, (tn_dtype)u->dt, TNP_ACCESS_WRITE, u) == 1;
}

static bool make_kernels(tn__fuser *f, tn__uop *u)
{
    tn__info *info = &f->info[u->id];
    if (info->pbuf < 0) info->pbuf = tn__fuser_pbuf(f, u);
    for (tn__inst *x = info->insts; x; x = x->next) {
        facts(f, x->k)->open--;
        facts(f, x->k)->loads++;
    }
    if (f->sp->failed || !tn__uop_numel(u)) return !f->sp->failed;
    switch (u->op) {
    case TN_OP_UPDATE: return kernel_update(f, u);
    case TN_OP_SCATTER: return kernel_scatter(f, u);
    case TN_OP_SORT: return kernel_stored(f, u);
    case TN_OP_COPY:
        if (u->src[0]->dev != u->dev) return kernel_stored(f, u);
        return kernel_whole(f, u, u->src[0], -1);
    case TN_OP_CONTIGUOUS: return kernel_whole(f, u, u->src[0], -1);
    default: break;
    }
    /* the node itself, as an instance computed in place */
    tn__uop *idx[TN_MAX_RANK];
    tn__kernel *k = tn__kernel_new(f, u);
    if (!k) return false;
    out_ranges(k, u, u->op == TN_OP_SCAN ? (int)u->arg[1] : -1, idx);
    tn__inst *x = tn__arena_zero(f->a, sizeof *x);
    tn__uop **copy = tn__arena_alloc(f->a, ((size_t)u->rank + 1) * sizeof *copy);
    if (!x || !copy) return false;
    memcpy(copy, idx, (size_t)u->rank * sizeof *copy);
    *x = (tn__inst){.k = k, .node = u, .idx = copy};
    info->root = x;
    facts(f, k)->open = 1;
    facts(f, k)->heavy = info->heavy;
    if (!add_store(f, k, u, x, idx, NULL, TNP_ACCESS_WRITE)) return false;
    if (u->op != TN_OP_SCAN) return demand_sources(f, x);
    ordered_last(k);
    facts(f, k)->open--;
    x->src[0] = tn__demand(f, k, u->src[0], idx, NULL, NULL, false);
    return x->src[0] != NULL;
}

static bool attach(tn__fuser *f, tn__uop *u)
{
    tn__info *info = &f->info[u->id];
    tn__inst *x = info->insts;
    if (info->pbuf < 0) info->pbuf = tn__fuser_pbuf(f, u);
    info->attached = true;
    return !f->sp->failed && add_store(f, x->k, u, x, x->idx, NULL, TNP_ACCESS_WRITE) &&
           demand_sources(f, x);
}

static bool visit(tn__fuser *f, tn__uop *u)
{
    tn__info *info = &f->info[u->id];
    if (u->op == TN_OP_BUFFER) {
        for (tn__inst *x = info->insts; x; x = x->next) {
            facts(f, x->k)->open--;
            facts(f, x->k)->loads++;
        }
        return true;
    }
    if (!info->store && !info->insts) return true; /* only identities above it */
    if (info->store && tn__uop_numel(u) && tn__attachable(u, info)) return attach(f, u);
    if (tn__wants_store(f, u)) {
        info->store = true;
        return make_kernels(f, u);
    }
    for (tn__inst *x = info->insts; x; x = x->next)
        if (!demand_sources(f, x)) return false;
    return true;
}

bool tn__demand_all(tn__fuser *f)
{
    tn__costs(f);
    for (size_t i = f->n; i-- > 0;)
        if (!visit(f, f->order[i]) || f->sp->failed) return false;
    return true;
}
