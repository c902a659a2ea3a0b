/* SPDX-License-Identifier: MIT */
/*
 * Fusion's rules: what computing a node costs, how often its uses evaluate it, and whether it is stored.  The list
 * of rules stands in demand.c, which walks the graph.
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

void tn__costs(tn__fuser *f)
{
    for (size_t i = 0; i < f->n; i++) {
        tn__info *info = &f->info[f->order[i]->id];
        info->heavy = is_heavy(f->order[i]);
        info->ops = inline_cost(f, f->order[i]);
        for (int j = 0; j < f->order[i]->nsrc; j++) f->info[f->order[i]->src[j]->id].uses++;
    }
}

/* ---- evaluations ---- */

static tn__kfacts *facts(const tn__fuser *f, const tn__kernel *k) { return &f->facts[k->number]; }

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

/* Evaluations of an instance, hoisted out of loops it does not depend on. */
static double inst_count(const tn__inst *x)
{
    const uint64_t mask = inst_deps(x);
    for (const tn__inst *r = x->in; r; r = r->in) {
        const uint64_t own = own_ranges(r);
        if (mask & own) return tn__nest_size(&x->k->sp, inst_deps(r) | own);
    }
    if (x->node->op == TN_OP_REDUCE || x->node->op == TN_OP_FOLD)
        return tn__nest_size(&x->k->sp, mask);
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
    case TN_OP_UPDATE: return true;
    default: return false;
    }
}

bool tn__fold_moves(const tn__uop *u) /* windows do not overlap: pure movement */
{
    return u->op == TN_OP_FOLD && (u->arg[1] == 1 || (u->arg[1] <= u->arg[2] && u->arg[3] == 1));
}

static bool is_reduction(const tn__uop *u)
{
    return u->op == TN_OP_REDUCE || (u->op == TN_OP_FOLD && !tn__fold_moves(u));
}

static bool crowded(const tn__fuser *f, const tn__kernel *k)
{
    const tn__kfacts *c = facts(f, k);
    return c->loads + c->open > f->target->max_bufs || c->reduces > MAX_LIGHT ||
           c->insts > MAX_INSTS || c->scalars > TN__KSCALARS - 8;
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

static double count_all(const tn__info *info, int *ninst)
{
    double total = 0;
    *ninst = 0;
    for (const tn__inst *x = info->insts; x; x = x->next) {
        total += inst_count(x);
        ++*ninst;
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

bool tn__wants_store(tn__fuser *f, const tn__uop *u)
{
    tn__info *info = &f->info[u->id];
    const tn__class cls = tn__ops[u->op].cls;
    int ninst;
    if (info->store || forced(u)) return true;
    if (u->op == TN_OP_CONST || u->op == TN_OP_IOTA || u->op == TN_OP_SCALAR) return false;
    const double total = count_all(info, &ninst), numel = (double)tn__uop_numel(u);
    if (is_reduction(u)) return !reduce_in_place(f, u, total);
    if (cls == TN_CLASS_MOVE || is_factor_product(info, u)) return false;
    for (const tn__inst *x = info->insts; x; x = x->next)
        if (crowded(f, x->k)) return true;
    const double extra = total - numel;
    return extra > 0.5 * numel && extra * info->ops > numel * (8 + 2 * ninst);
}

/* Rule 2: every use is in one kernel at that kernel's own output indices. */
bool tn__attachable(const tn__uop *u, const tn__info *info)
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
