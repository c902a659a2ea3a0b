/* SPDX-License-Identifier: MIT */
/*
 * The compile-time space: hash-consing, ranges, substitution, topological order, dump.
 *
 * Invariant: two live nodes of a space with equal {op, dt, dev, bits, dims, arg, src} are one pointer; a
 * source's id is smaller than its user's.  One thread a space.
 */
#include "ir/uop.h"
#include "ir/index.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

static tn__uop *bad_src[1];
static int64_t bad_arg[4];
tn__uop tn__uop_bad = {.op = TN_OP_AFFINE, .dt = TN_I64, .arg = bad_arg, .narg = 1, .src = bad_src};

void tn__space_init(tn__space *s, tn__arena *a)
{
    memset(s, 0, sizeof *s);
    s->arena = a;
}

void tn__space_free(tn__space *s)
{
    tn__free(s->table);
    s->table = NULL;
}

static uint64_t desc_hash(const tn__uop_desc *d)
{
    uint64_t h = tn__mix((uint64_t)d->dev << 32 | ((uint64_t)d->op * 64u + (uint64_t)d->dt),
                         d->bits);
    h = tn__mix(h, (uint64_t)d->rank << 40 | (uint64_t)d->narg << 20 | (uint64_t)d->nsrc);
    for (int i = 0; i < d->rank; i++) h = tn__mix(h, (uint64_t)d->dims[i]);
    for (int i = 0; i < d->narg; i++) h = tn__mix(h, (uint64_t)d->arg[i]);
    for (int i = 0; i < d->nsrc; i++) h = tn__mix(h, d->src[i]->id);
    return h;
}

static bool same(const tn__uop *u, const tn__uop_desc *d)
{
    if (u->op != d->op || u->dt != d->dt || u->dev != d->dev || u->bits != d->bits ||
        u->rank != d->rank || u->narg != d->narg || u->nsrc != d->nsrc)
        return false;
    for (int i = 0; i < d->rank; i++)
        if (u->dims[i] != d->dims[i]) return false;
    for (int i = 0; i < d->narg; i++)
        if (u->arg[i] != d->arg[i]) return false;
    for (int i = 0; i < d->nsrc; i++)
        if (u->src[i] != d->src[i]) return false;
    return true;
}

static bool grow(tn__space *s)
{
    size_t cap = s->cap ? s->cap * 2 : 1024;
    tn__uop **t = tn__calloc(cap, sizeof *t);
    if (!t) return false;
    for (size_t i = 0; i < s->cap; i++) {
        if (!s->table[i]) continue;
        size_t k = (size_t)s->table[i]->hash & (cap - 1);
        while (t[k]) k = (k + 1) & (cap - 1);
        t[k] = s->table[i];
    }
    tn__free(s->table);
    s->table = t;
    s->cap = cap;
    return true;
}

/* Open ranges of a node: those of its sources, less the ones it closes. */
static void set_deps(tn__uop *u)
{
    uint64_t deps = 0;
    for (int i = 0; i < u->nsrc; i++) deps |= u->src[i]->deps;
    if (u->op == TN_OP_RANGE) deps |= UINT64_C(1) << u->arg[0];
    if (u->op == TN_OP_REDUCE)
        for (int i = 1; i < u->nsrc; i++)
            if (u->src[i]->op == TN_OP_RANGE) deps &= ~(UINT64_C(1) << u->src[i]->arg[0]);
    u->deps = deps;
}

static tn__uop *fail_space(tn__space *s)
{
    s->failed = true;
    return &tn__uop_bad;
}

tn__uop *tn__uop_get(tn__space *s, const tn__uop_desc *d)
{
    if (s->failed || (s->count * 2 >= s->cap && !grow(s))) return fail_space(s);
    const uint64_t h = desc_hash(d);
    size_t k = (size_t)h & (s->cap - 1);
    for (; s->table[k]; k = (k + 1) & (s->cap - 1))
        if (s->table[k]->hash == h && same(s->table[k], d)) return s->table[k];
    const size_t ns = (size_t)d->nsrc * sizeof(tn__uop *), nd = (size_t)d->rank * sizeof(int64_t);
    const size_t na = (size_t)d->narg * sizeof(int64_t);
    tn__uop *u = tn__arena_zero(s->arena, sizeof *u + nd + na + ns);
    if (!u) return fail_space(s);
    u->id = ++s->next_id;
    u->op = (uint16_t)d->op;
    u->dt = (uint8_t)d->dt;
    u->bits = d->bits;
    u->rank = (uint8_t)d->rank;
    u->dev = d->dev;
    u->narg = (uint16_t)d->narg;
    u->nsrc = (uint16_t)d->nsrc;
    u->hash = h;
    u->dims = (int64_t *)(u + 1);
    u->arg = u->dims + d->rank;
    u->src = (tn__uop **)(u->arg + d->narg);
    if (nd) memcpy(u->dims, d->dims, nd);
    if (na) memcpy(u->arg, d->arg, na);
    if (ns) memcpy(u->src, d->src, ns);
    set_deps(u);
    s->table[k] = u;
    s->count++;
    return u;
}

tn__uop *tn__uop_bound(tn__uop *u, int64_t lo, int64_t hi)
{
    if (u == &tn__uop_bad) return u;
    u->lo = lo;
    u->hi = hi;
    return u;
}

tn__uop *tn__uop_with(tn__space *s, const tn__uop *u, tn__uop *const *src)
{
    tn__uop *v = tn__uop_get(s, &(tn__uop_desc){.op = (tn__op)u->op,
                                                .dt = (tn_dtype)u->dt,
                                                .bits = u->bits,
                                                .rank = u->rank,
                                                .dims = u->dims,
                                                .narg = u->narg,
                                                .arg = u->arg,
                                                .nsrc = u->nsrc,
                                                .src = src,
                                                .dev = u->dev});
    return u->lo || u->hi ? tn__uop_bound(v, u->lo, u->hi) : v;
}

tn__uop *tn__k1(tn__space *s, tn__op op, tn_dtype dt, tn__uop *a)
{
    return tn__uop_get(s, &(tn__uop_desc){.op = op, .dt = dt, .nsrc = 1, .src = &a});
}

tn__uop *tn__k2(tn__space *s, tn__op op, tn_dtype dt, tn__uop *a, tn__uop *b)
{
    tn__uop *src[2] = {a, b};
    return tn__uop_get(s, &(tn__uop_desc){.op = op, .dt = dt, .nsrc = 2, .src = src});
}

tn__uop *tn__k3(tn__space *s, tn__op op, tn_dtype dt, tn__uop *a, tn__uop *b, tn__uop *c)
{
    tn__uop *src[3] = {a, b, c};
    return tn__uop_get(s, &(tn__uop_desc){.op = op, .dt = dt, .nsrc = 3, .src = src});
}

tn__uop *tn__kconst(tn__space *s, tn_dtype dt, uint64_t bits)
{
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_CONST, .dt = dt, .bits = bits});
}

tn__uop *tn__range(tn__space *s, int64_t size, tn__axis_kind kind)
{
    if (s->nranges >= TN__MAX_RANGES) {
        tn__fail(TN_EINTERNAL, "kernel: more than %d loops in one kernel", TN__MAX_RANGES);
        return fail_space(s);
    }
    int64_t arg[3] = {s->nranges, size, kind};
    tn__uop *r = tn__uop_get(
        s, &(tn__uop_desc){.op = TN_OP_RANGE, .dt = TN_I64, .narg = 3, .arg = arg});
    s->range[s->nranges++] = tn__uop_bound(r, 0, size - 1);
    return r;
}

double tn__nest_size(const tn__space *s, uint64_t mask)
{
    double c = 1;
    for (uint32_t i = 0; i < s->nranges; i++)
        if (mask >> i & 1) c *= (double)tn__range_size(s->range[i]);
    return c;
}

uint64_t tn__reduce_identity(tn__op op, tn_dtype dt)
{
    const bool fl = tn__dtype_is_float(dt);
    tn__scalar v = {0};
    switch (op) {
    case TN_OP_MUL: return tn__scalar_bits(dt, tn__scalar_from_double(dt, 1));
    case TN_OP_MAX:
        if (fl) return tn__scalar_bits(dt, tn__scalar_from_double(dt, -(double)INFINITY));
        v.i = tn__dtype_int_min(dt);
        return tn__scalar_bits(dt, v);
    case TN_OP_MIN:
        if (fl) return tn__scalar_bits(dt, tn__scalar_from_double(dt, (double)INFINITY));
        v.u = tn__dtype_int_max(dt);
        return tn__scalar_bits(dt, v);
    default: return 0;
    }
}

/* ---- walks ---- */

typedef struct {
    tn__uop *u;
    uint32_t next;
} frame;

bool tn__uop_topo(tn__space *s, tn__uop *const *roots, size_t n, tn__uop ***out, size_t *count)
{
    const size_t max = (size_t)s->next_id + 1;
    uint8_t *seen = tn__arena_zero(s->arena, max);
    tn__uop **list = tn__arena_alloc(s->arena, max * sizeof *list);
    frame *stack = tn__arena_alloc(s->arena, max * sizeof *stack);
    size_t len = 0, sp = 0;
    if (!seen || !list || !stack) {
        s->failed = true;
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (seen[roots[i]->id]) continue;
        seen[roots[i]->id] = 1;
        stack[sp++] = (frame){roots[i], 0};
        while (sp) {
            frame *f = &stack[sp - 1];
            if (f->next == f->u->nsrc) {
                list[len++] = f->u;
                sp--;
                continue;
            }
            tn__uop *c = f->u->src[f->next++];
            if (seen[c->id]) continue;
            seen[c->id] = 1;
            stack[sp++] = (frame){c, 0};
        }
    }
    *out = list;
    *count = len;
    return true;
}

static tn__uop *rebuild_index(tn__space *s, const tn__uop *u, tn__uop *const *map)
{
    tn__uop *sum = tn__ix_const(s, u->arg[0]);
    for (int i = 0; i < u->nsrc; i++) {
        tn__uop *a = map[u->src[i]->id];
        if (a->op != TN_OP_AFFINE) a = tn__ix_atom(s, a);
        sum = tn__ix_add(s, sum, tn__ix_mulc(s, a, u->arg[1 + i]));
    }
    return sum;
}

/* The ranges of an index expression, also inside its atoms. */
static int ranges_in(const tn__uop *x, tn__uop **out, int n, int max)
{
    for (int i = 0; i < x->nsrc; i++) {
        tn__uop *a = x->src[i];
        if (a->op == TN_OP_RANGE && n < max)
            out[n++] = a;
        else if (a->nsrc == 1 && a->src[0]->op == TN_OP_AFFINE)
            n = ranges_in(a->src[0], out, n, max);
    }
    return n;
}

/* A reduction over ranges that were replaced runs over the ranges of their replacements. */
static tn__uop *rebuild_reduce(tn__space *s, tn__uop *u, tn__uop *const *map)
{
    tn__uop *src[TN__MAX_RANGES + 1];
    int n = 1;
    src[0] = map[u->src[0]->id];
    for (int i = 1; i < u->nsrc && n < TN__MAX_RANGES; i++) {
        tn__uop *r = map[u->src[i]->id];
        if (r->op == TN_OP_AFFINE) {
            const int end = ranges_in(r, src, n, TN__MAX_RANGES), first = n;
            for (int j = first; j < end; j++) { /* one range may stand for two */
                int k = 1;
                while (k < n && src[k] != src[j]) k++;
                if (k == n) src[n++] = src[j];
            }
        } else {
            src[n++] = r;
        }
    }
    if (n == 1) return src[0];
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_REDUCE,
                                          .dt = (tn_dtype)u->dt,
                                          .narg = u->narg,
                                          .arg = u->arg,
                                          .nsrc = n,
                                          .src = src});
}

static tn__uop *rebuild(tn__space *s, tn__uop *u, tn__uop *const *map, bool import)
{
    if (u->op == TN_OP_REDUCE && u->nsrc > 1) return rebuild_reduce(s, u, map);
    if (u->op == TN_OP_AFFINE) return rebuild_index(s, u, map);
    if (u->dt == TN_I64 && u->narg == 1 && u->nsrc == 1 && u->src[0]->op == TN_OP_AFFINE) {
        if (u->op == TN_OP_IDIV) return tn__ix_divc(s, map[u->src[0]->id], u->arg[0]);
        if (u->op == TN_OP_IMOD) return tn__ix_modc(s, map[u->src[0]->id], u->arg[0]);
        if (u->op == TN_OP_MIN) return tn__ix_minc(s, map[u->src[0]->id], u->arg[0]);
    }
    if (u->op == TN_OP_LT && u->narg == 1) {
        tn__uop *c = tn__ix_lt(s, map[u->src[0]->id], u->arg[0]);
        return c ? c : tn__kconst(s, TN_BOOL, 1);
    }
    if (u->op == TN_OP_EQ && u->narg == 1) {
        tn__uop *c = tn__ix_eq(s, map[u->src[0]->id], u->arg[0]);
        return c ? c : tn__kconst(s, TN_BOOL, 1);
    }
    tn__uop **src = tn__arena_alloc(s->arena, ((size_t)u->nsrc + 1) * sizeof *src);
    if (!src) return fail_space(s);
    bool changed = false;
    for (int i = 0; i < u->nsrc; i++) {
        src[i] = map[u->src[i]->id];
        changed |= src[i] != u->src[i];
    }
    if (!changed && !import) return u;
    return tn__uop_with(s, u, src);
}

/* u of space `from` with replacements, in `s`; where the spaces differ every range is replaced. */
static tn__uop *translate(tn__space *s, tn__space *from, tn__uop *u, tn__uop *const *to)
{
    tn__uop **order;
    size_t n;
    if (!tn__uop_topo(from, &u, 1, &order, &n)) return fail_space(s);
    tn__uop **map = tn__arena_zero(s->arena, ((size_t)from->next_id + 1) * sizeof *map);
    if (!map) return fail_space(s);
    for (size_t i = 0; i < n; i++) {
        tn__uop *x = order[i];
        if (x->op == TN_OP_RANGE)
            map[x->id] = to[x->arg[0]] ? to[x->arg[0]] : x;
        else
            map[x->id] = rebuild(s, x, map, s != from);
        if (s->failed) return &tn__uop_bad;
    }
    return map[u->id];
}

tn__uop *tn__uop_subst(tn__space *s, tn__uop *u, tn__uop *const *to)
{
    return translate(s, s, u, to);
}

tn__uop *tn__uop_import(tn__space *s, tn__space *from, tn__uop *u, tn__uop *const *to)
{
    return translate(s, from, u, to);
}

/* ---- dump ---- */

static bool dump_args(tn__buf *out, const tn__uop *u)
{
    bool ok = !u->dev || tn__buf_printf(out, " @%d", u->dev);
    if (u->op == TN_OP_CONST) {
        tn__scalar v = tn__scalar_from_bits((tn_dtype)u->dt, u->bits);
        ok &= tn__buf_printf(out, " %.9g", tn__scalar_to_double((tn_dtype)u->dt, v));
    }
    for (int i = 0; i < u->rank; i++)
        ok &= tn__buf_printf(out, "%s%" PRId64, i ? "," : " (", u->dims[i]);
    if (u->rank) ok &= tn__buf_printf(out, ")");
    for (int i = 0; i < u->narg; i++)
        ok &= tn__buf_printf(out, "%s%" PRId64, i ? "," : " [", u->arg[i]);
    if (u->narg) ok &= tn__buf_printf(out, "]");
    for (int i = 0; i < u->nsrc; i++) ok &= tn__buf_printf(out, " %%%u", (unsigned)u->src[i]->id);
    return ok;
}

bool tn__uop_dump(tn__buf *out, tn__uop *const *roots, size_t n)
{
    tn__arena a = {0};
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++)
        if (roots[i]->id > max) max = roots[i]->id;
    tn__space s = {.arena = &a, .next_id = max};
    tn__uop **order;
    size_t count;
    bool ok = tn__uop_topo(&s, roots, n, &order, &count);
    for (size_t i = 0; ok && i < count; i++) {
        const tn__uop *u = order[i];
        ok = tn__buf_printf(out, "%%%u = %s %s", (unsigned)u->id, tn__ops[u->op].text,
                            tn__dtype_name((tn_dtype)u->dt)) &&
             dump_args(out, u) && tn__buf_printf(out, "\n");
    }
    tn__arena_free(&a);
    return ok;
}
