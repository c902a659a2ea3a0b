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

enum { MAX_INSTS = 400, MAX_ROW = 65536, MAX_LIGHT = 10 };

int64_t tn__uop_numel(const tn__uop *u)
{
    int64_t n = 1;
    for (int i = 0; i < u->rank; i++) n *= u->dims[i];
    return n;
}

/* ---- costs in tensor form ---- */

static double op_cost(const tn__uop *u)
{
    switch (u->op) {
    case TN_OP_EXP2:
    case TN_OP_LOG2: return 10;
    case TN_OP_SIN: return 20;
    case TN_OP_POW: return 40;
    case TN_OP_RNG: return 90;
    case TN_OP_DIV:
    case TN_OP_RECIP:
    case TN_OP_SQRT: return 4;
    case TN_OP_IDIV:
    case TN_OP_IMOD: return 10;
    case TN_OP_GATHER: return 3;
    default: return 1;
    }
}

static bool ends_cost(const tn__uop *u)
{
    const tn__class c = tn__ops[u->op].cls;
    return c == TN_CLASS_LEAF || c == TN_CLASS_REDUCE ||
           (c == TN_CLASS_DATA && u->op != TN_OP_GATHER && u->op != TN_OP_RNG) ||
           u->op == TN_OP_FOLD;
}

static double inline_cost(const tn__fuser *f, const tn__uop *u)
{
    if (ends_cost(u)) return 0;
    /* what is repeated that often will be stored below */
    if ((u->op == TN_OP_EXPAND || u->op == TN_OP_WINDOW) &&
        tn__uop_numel(u) >= 8 * tn__uop_numel(u->src[0]))
        return 0;
    double c = tn__ops[u->op].cls == TN_CLASS_MOVE ? 0 : op_cost(u);
    for (int i = 0; i < u->nsrc; i++) c += f->info[u->src[i]->id].ops;
    return c < 1e9 ? c : 1e9;
}

/* Reached through casts and movement alone: is there a repetition? */
static bool repeats(const tn__uop *u)
{
    for (;;) {
        if (u->op == TN_OP_EXPAND || u->op == TN_OP_WINDOW) return true;
        if (u->op != TN_OP_CAST && tn__ops[u->op].cls != TN_CLASS_MOVE) return false;
        u = u->src[0];
    }
}

/* A contraction, or windows of one folded together: one nest of loops in the end. */
static bool is_heavy(const tn__uop *u)
{
    if (u->op == TN_OP_FOLD)
        while (u->op == TN_OP_FOLD || u->op == TN_OP_RESHAPE || u->op == TN_OP_PERMUTE ||
               u->op == TN_OP_CAST)
            u = u->src[0];
    if (u->op != TN_OP_REDUCE) return false;
    const tn__uop *x = u->src[0];
    while (x->op == TN_OP_CAST || x->op == TN_OP_RESHAPE || x->op == TN_OP_PERMUTE) x = x->src[0];
    return x->op == TN_OP_MUL && repeats(x->src[0]) && repeats(x->src[1]);
}

/* ---- instances ---- */

static tn__kfacts *facts(const tn__fuser *f, const tn__kernel *k) { return &f->facts[k->number]; }

static tn__inst *find_inst(const tn__info *in, const tn__kernel *k, tn__uop *const *idx,
                           const tn__uop *gate, int rank)
{
    for (tn__inst *x = in->insts; x; x = x->next) {
        if (x->k != k || x->gate != gate) continue;
        int i = 0;
        while (i < rank && x->idx[i] == idx[i]) i++;
        if (i == rank) return x;
    }
    return NULL;
}

tn__inst *tn__demand(tn__fuser *f, tn__kernel *k, tn__uop *node, tn__uop *const *idx, tn__uop *gate,
                     tn__inst *in, bool direct)
{
    tn__info *info = &f->info[node->id];
    tn__inst *x = find_inst(info, k, idx, gate, node->rank);
    if (x) {
        if (x->in != in) x->in = NULL;
        x->direct = false;
        return x;
    }
    x = tn__arena_zero(f->a, sizeof *x);
    tn__uop **copy = tn__arena_alloc(f->a, (size_t)(node->rank + 1) * sizeof *copy);
    if (!x || !copy) {
        f->sp->failed = true;
        return NULL;
    }
    memcpy(copy, idx, (size_t)node->rank * sizeof *copy);
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
    return x;
}

static uint64_t inst_deps(const tn__inst *x)
{
    uint64_t m = x->gate ? x->gate->deps : 0;
    for (int i = 0; i < x->node->rank; i++) m |= x->idx[i]->deps;
    return m;
}

static uint64_t own_ranges(const tn__inst *r)
{
    uint64_t m = 0;
    for (int i = 0; i < r->nrange; i++) m |= r->range[i]->deps;
    return m;
}

/* Sizes by range number. */
static double mask_count(const tn__kernel *k, uint64_t mask)
{
    double c = 1;
    for (size_t i = 0; i < k->sp.cap && mask; i++) {
        const tn__uop *r = k->sp.table[i];
        if (r && r->op == TN_OP_RANGE && (mask & r->deps)) {
            c *= (double)tn__range_size(r);
            mask &= ~r->deps;
        }
    }
    return c;
}

/* Evaluations of an instance, hoisted out of loops it does not depend on. */
static double inst_count(const tn__inst *x)
{
    const uint64_t mask = inst_deps(x);
    for (const tn__inst *r = x->in; r; r = r->in) {
        const uint64_t own = own_ranges(r);
        if (mask & own) return mask_count(x->k, inst_deps(r) | own);
    }
    if (x->node->op == TN_OP_REDUCE || x->node->op == TN_OP_FOLD) return mask_count(x->k, mask);
    double c = 1, upto = 1;
    for (int i = 0; i < x->k->nout; i++) {
        c *= (double)tn__range_size(x->k->out[i]);
        if (mask & x->k->out[i]->deps) upto = c;
    }
    return upto;
}

/* ---- storing ---- */

static bool forced(const tn__uop *u)
{
    switch (u->op) {
    case TN_OP_CONTIGUOUS:
    case TN_OP_COPY:
    case TN_OP_SCATTER:
    case TN_OP_SCAN:
    case TN_OP_SORT:
    case TN_OP_UPDATE:
    case TN_OP_ALLREDUCE: return true;
    default: return false;
    }
}

static bool fold_moves(const tn__uop *u) /* windows do not overlap: pure movement */
{
    return u->op == TN_OP_FOLD && (u->arg[1] == 1 || (u->arg[1] <= u->arg[2] && u->arg[3] == 1));
}

static bool is_reduction(const tn__uop *u)
{
    return u->op == TN_OP_REDUCE || (u->op == TN_OP_FOLD && !fold_moves(u));
}

static bool crowded(const tn__fuser *f, const tn__kernel *k)
{
    const tn__kfacts *c = facts(f, k);
    return c->loads + c->open > f->target->max_bufs || c->reduces > MAX_LIGHT ||
           c->insts > MAX_INSTS;
}

static int reduce_size(const tn__uop *u, double *size)
{
    int n = 0;
    *size = 1;
    if (u->op == TN_OP_FOLD) {
        *size = (double)u->arg[1];
        return 1;
    }
    for (int i = 0; i < u->rank; i++)
        if ((u->arg[1] >> i & 1) && u->src[0]->dims[i] > 1) {
            *size *= (double)u->src[0]->dims[i];
            n++;
        }
    return n;
}

/* Rule 3 for the instances of a reduction. */
static bool reduce_in_place(tn__fuser *f, const tn__uop *u, double total)
{
    tn__inst *x = f->info[u->id].insts;
    const bool heavy = f->info[u->id].heavy;
    double size;
    const int n = reduce_size(u, &size);
    tn__kernel *k = x->k;
    tn__kfacts *c = facts(f, k);
    for (const tn__inst *y = x->next; y; y = y->next)
        if (y->k != k) return false;
    /* inside a fold what lies beyond the windows' edges is counted but masked */
    const double slack = x->in && x->in->node->op == TN_OP_FOLD ? 2.5 : 1.001;
    if (total > (double)tn__uop_numel(u) * slack ||
        k->sp.nranges + (unsigned)n > TN__MAX_RANGES / 3)
        return false;
    if (x->next) return !heavy && !c->heavy && size <= 64;
    if (x->in && x->direct && x->in->node->op != TN_OP_SCAN) {
        const tn__uop *o = x->in->node;
        const bool outer_add = o->op == TN_OP_FOLD || o->arg[0] == TN_OP_ADD;
        /* a long sum to few outputs was split on purpose */
        const bool split = o->op == TN_OP_REDUCE && tn__uop_numel(o) < 16 && size >= 1024;
        if (outer_add && !split && (u->op == TN_OP_FOLD || u->arg[0] == TN_OP_ADD) &&
            o->dt == u->dt && !x->merged) {
            if (heavy && c->reduces > 1 && !c->heavy) return false;
            x->merged = true;
            x->host = x->in->merged ? x->in->host : x->in;
            c->heavy |= heavy;
            return true;
        }
    }
    uint64_t out = 0;
    for (int i = 0; i < k->nout; i++) out |= k->out[i]->deps;
    const uint64_t deps = inst_deps(x);
    if (x->in) {
        if (heavy) { /* a contraction under a small window, such as a pool: the window becomes registers */
            const tn__uop *o = x->in->node;
            double window;
            reduce_size(o, &window);
            if (o->op != TN_OP_REDUCE || x->in->in || window > 16 || c->reduces != 1 || c->heavy ||
                (deps & (out | own_ranges(x->in))) != (out | own_ranges(x->in)))
                return false;
            c->heavy = true;
            return true;
        }
        if (c->heavy) return false;
        const bool row = !(deps & own_ranges(x->in));
        return row ? size <= MAX_ROW && deps : size <= 64;
    }
    if ((deps & out) == out && !(deps & ~out)) {
        if (c->heavy || (heavy && c->reduces)) return false;
        c->heavy |= heavy;
        return true;
    }
    return !heavy && !c->heavy && size <= MAX_ROW;
}

static double count_all(const tn__info *info, int *ninst, int *kernels)
{
    double total = 0;
    *ninst = *kernels = 0;
    for (const tn__inst *x = info->insts; x; x = x->next) {
        total += inst_count(x);
        ++*ninst;
        bool seen = false;
        for (const tn__inst *y = info->insts; y != x; y = y->next) seen |= y->k == x->k;
        *kernels += !seen;
    }
    return total;
}

/* The product inside a contraction: never a value of its own. */
static bool is_factor_product(const tn__info *info, const tn__uop *u)
{
    const tn__inst *x = info->insts;
    return u->op == TN_OP_MUL && x && !x->next && x->in && x->direct && repeats(u->src[0]) &&
           repeats(u->src[1]);
}

static bool wants_store(tn__fuser *f, const tn__uop *u)
{
    tn__info *info = &f->info[u->id];
    const tn__class cls = tn__ops[u->op].cls;
    int ninst, kernels;
    if (info->store || forced(u)) return true;
    if (u->op == TN_OP_CONST || u->op == TN_OP_IOTA || u->op == TN_OP_SCALAR) return false;
    const double total = count_all(info, &ninst, &kernels), numel = (double)tn__uop_numel(u);
    if (is_reduction(u)) return !reduce_in_place(f, u, total);
    if (cls == TN_CLASS_MOVE || is_factor_product(info, u)) return false;
    for (const tn__inst *x = info->insts; x; x = x->next)
        if (crowded(f, x->k)) return true;
    const double extra = total - numel;
    return extra > 0.5 * numel && extra * info->ops > numel * (8 + 2 * ninst);
}

/* Rule 2: every use is in one kernel at that kernel's own output indices. */
static bool attachable(const tn__uop *u, const tn__info *info)
{
    const tn__class cls = tn__ops[u->op].cls;
    const tn__inst *x = info->insts;
    if (!x || x->next || x->gate || x->in || info->read_now) return false;
    if (cls != TN_CLASS_UNARY && cls != TN_CLASS_BINARY && cls != TN_CLASS_TERNARY &&
        cls != TN_CLASS_COMPARE)
        return false;
    const tn__kernel *k = x->k;
    int r = 0;
    if (k->nstore + 1 >= TN__KSTORES || k->root->op == TN_OP_SCATTER ||
        k->root->op == TN_OP_UPDATE || k->root->op == TN_OP_SCAN || k->root->op == TN_OP_SORT)
        return false;
    for (int i = 0; i < u->rank; i++) {
        if (u->dims[i] == 1) continue;
        if (r >= k->nout || x->idx[i]->nsrc != 1 || x->idx[i]->src[0] != k->out[r] ||
            x->idx[i]->arg[0] || x->idx[i]->arg[1] != 1 || tn__range_size(k->out[r]) != u->dims[i])
            return false;
        r++;
    }
    return r == k->nout;
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
    if (fold_moves(u)) {
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
    const bool moves = fold_moves(u);
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
    if (s->failed) return false;
    safe->lo = 0;
    safe->hi = rows - 1;
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

static bool kernel_update(tn__fuser *f, tn__uop *u)
{
    tn__uop *old = u->src[0], *value = u->src[1], *view = u->src[2];
    tn__uop *vidx[TN_MAX_RANK + 1], *idx[TN_MAX_RANK + 1], *next[TN_MAX_RANK + 1], *cond;
    if (!kernel_whole(f, u, old, -1)) return false;
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
    if (!kernel_whole(f, u, u->src[0], -1)) return false;
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
    if (s->failed) return false;
    safe->lo = 0;
    safe->hi = rows - 1;
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
    case TN_OP_ALLREDUCE:
        return tn__fail(TN_EINTERNAL, "schedule: %s has no kernel", tn__ops[u->op].text);
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
    if (info->store && tn__uop_numel(u) && attachable(u, info)) return attach(f, u);
    if (wants_store(f, u)) {
        info->store = true;
        return make_kernels(f, u);
    }
    for (tn__inst *x = info->insts; x; x = x->next)
        if (!demand_sources(f, x)) return false;
    return true;
}

bool tn__demand_all(tn__fuser *f)
{
    for (size_t i = 0; i < f->n; i++) {
        tn__info *info = &f->info[f->order[i]->id];
        info->heavy = is_heavy(f->order[i]);
        info->ops = inline_cost(f, f->order[i]);
    }
    for (size_t i = f->n; i-- > 0;)
        if (!visit(f, f->order[i]) || f->sp->failed) return false;
    return true;
}
