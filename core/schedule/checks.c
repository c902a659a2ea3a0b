/* SPDX-License-Identifier: MIT */
/*
 * Range checks: GATHER gives 0 and SCATTER writes nothing where an index lies outside of its rows.  For every
 * pair (indices, rows) that cannot be shown to be in range, a root is added: one int64 that is 0 when all is
 * well, else tells an index that is not.  Its kernel writes only then, into the plan's status words, which the
 * next sync reads (engine/status.c).
 *
 * The bounds of integer expressions come from interval arithmetic in double: exact up to 2^53, and wider
 * bounds are never taken for a proof.
 */
#include "schedule/fuse.h"
#include <math.h>
#include <string.h>

typedef struct {
    double lo, hi;
} bounds;

enum { DEPTH = 10 }; /* a random index has 7 */

static bounds of_dtype(tn_dtype dt)
{
    if (!tn__dtype_is_int(dt) && dt != TN_BOOL) return (bounds){-INFINITY, INFINITY};
    return (bounds){dt == TN_BOOL ? 0 : (double)tn__dtype_int_min(dt),
                    dt == TN_BOOL ? 1 : (double)tn__dtype_int_max(dt)};
}

static bounds hull(bounds a, bounds b) { return (bounds){fmin(a.lo, b.lo), fmax(a.hi, b.hi)}; }

static bounds product(bounds a, bounds b)
{
    const double p[4] = {a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi};
    bounds r = {p[0], p[0]};
    for (int i = 1; i < 4; i++) r = hull(r, (bounds){p[i], p[i]});
    return r;
}

/* No further than its dtype reaches: what wraps may be anything of it. */
static bounds fit(bounds r, tn_dtype dt)
{
    const bounds all = of_dtype(dt);
    return r.lo >= all.lo && r.hi <= all.hi ? r : all; /* NaN: all */
}

static bounds bounds_of(const tn__uop *u, int depth);

static bounds two(const tn__uop *u, int depth)
{
    const tn_dtype dt = (tn_dtype)u->dt;
    const bounds a = bounds_of(u->src[0], depth), b = bounds_of(u->src[1], depth);
    const bool one = b.lo == b.hi && b.lo >= 0;
    switch (u->op) {
    case TN_OP_ADD: return fit((bounds){a.lo + b.lo, a.hi + b.hi}, dt);
    case TN_OP_SUB: return fit((bounds){a.lo - b.hi, a.hi - b.lo}, dt);
    case TN_OP_MUL: return fit(product(a, b), dt);
    case TN_OP_MAX: return (bounds){fmax(a.lo, b.lo), fmax(a.hi, b.hi)};
    case TN_OP_MIN: return (bounds){fmin(a.lo, b.lo), fmin(a.hi, b.hi)};
    case TN_OP_IMOD: return one && b.lo != 0 ? (bounds){0, b.lo - 1} : of_dtype(dt);
    case TN_OP_IDIV:
        return one && b.lo != 0 ? (bounds){floor(a.lo / b.lo), floor(a.hi / b.lo)} : of_dtype(dt);
    case TN_OP_SHR:
        return one && b.lo < 64
                   ? (bounds){floor(ldexp(a.lo, -(int)b.lo)), floor(ldexp(a.hi, -(int)b.lo))}
                   : of_dtype(dt);
    case TN_OP_AND: return one && a.lo >= 0 ? (bounds){0, b.lo} : of_dtype(dt);
    default: return of_dtype(dt);
    }
}

/* WHERE(x < 0, x + n, x), how negative indices count from the end. */
static bool wraps(const tn__uop *u, bounds x, double *n)
{
    const tn__uop *c = u->src[0], *a = u->src[1], *b = u->src[2];
    if (c->op != TN_OP_LT || c->src[0] != b || a->op != TN_OP_ADD) return false;
    const tn__uop *k = a->src[0] == b ? a->src[1] : a->src[1] == b ? a->src[0] : NULL;
    const bounds zero = bounds_of(c->src[1], 0), by = k ? bounds_of(k, 0) : x;
    *n = by.lo;
    return k && by.lo == by.hi && zero.lo == 0 && zero.hi == 0;
}

/* The same elements, or some of them. */
static bool shows(const tn__uop *u)
{
    const tn__class c = tn__ops[u->op].cls;
    return c == TN_CLASS_IDENTITY ||
           (c == TN_CLASS_MOVE && u->op != TN_OP_PAD && u->op != TN_OP_FOLD);
}

static bounds bounds_of(const tn__uop *u, int depth)
{
    while (shows(u)) u = u->src[0];
    const tn_dtype dt = (tn_dtype)u->dt;
    double n;
    if (u->op == TN_OP_CONST) {
        const double v = tn__scalar_to_double(dt, tn__scalar_from_bits(dt, u->bits));
        return isnan(v) ? of_dtype(dt) : (bounds){v, v};
    }
    if (u->op == TN_OP_IOTA) return (bounds){0, (double)u->dims[u->arg[0]] - 1};
    if (u->op == TN_OP_SORT) return (bounds){0, (double)u->dims[u->rank - 1] - 1};
    if (depth <= 0) return of_dtype(dt);
    if (u->op == TN_OP_PAD) return hull(bounds_of(u->src[0], depth - 1), (bounds){0, 0});
    if (u->op == TN_OP_CAST && tn__dtype_is_int((tn_dtype)u->src[0]->dt))
        return fit(bounds_of(u->src[0], depth - 1), dt);
    if (u->op == TN_OP_WHERE) {
        const bounds x = bounds_of(u->src[2], depth - 1);
        if (!wraps(u, x, &n)) return hull(bounds_of(u->src[1], depth - 1), x);
        if (x.lo >= 0) return x;
        return (bounds){x.lo + n < 0 ? x.lo + n : 0, fmax(x.hi, n - 1)};
    }
    if (u->op == TN_OP_REDUCE && (u->arg[0] == TN_OP_MAX || u->arg[0] == TN_OP_MIN) &&
        tn__uop_numel(u->src[0]))
        return bounds_of(u->src[0], depth - 1);
    return u->nsrc == 2 ? two(u, depth - 1) : of_dtype(dt);
}

/* ---- the checks ---- */

static tn__uop *make(tn__space *s, tn__op op, tn_dtype dt, const tn__uop *like, tn__uop *a,
                     tn__uop *b, tn__uop *c)
{
    tn__uop *src[3] = {a, b, c};
    return tn__uop_get(s, &(tn__uop_desc){.op = op,
                                          .dt = dt,
                                          .dev = like->dev,
                                          .nsrc = c   ? 3
                                                  : b ? 2
                                                      : 1,
                                          .src = src,
                                          .dims = like->dims,
                                          .rank = like->rank});
}

static tn__uop *whole(tn__space *s, const tn__uop *like, int64_t v)
{
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_CONST,
                                          .dt = TN_I64,
                                          .dev = like->dev,
                                          .bits = (uint64_t)v,
                                          .dims = like->dims,
                                          .rank = like->rank});
}

/* 0, or of an index that is out of range: 2i + 2 from the rows' end on, -2i - 1 before 0. */
static tn__uop *check_of(tn__space *s, tn__uop *idx, int64_t rows)
{
    tn__uop *x = idx->dt == TN_I64 ? idx : make(s, TN_OP_CAST, TN_I64, idx, idx, NULL, NULL);
    const int64_t far = INT64_C(1) << 61, all = (INT64_C(1) << idx->rank) - 1;
    x = make(s, TN_OP_MIN, TN_I64, idx, x, whole(s, idx, far), NULL);
    x = make(s, TN_OP_MAX, TN_I64, idx, x, whole(s, idx, -far), NULL);
    tn__uop *neg = make(s, TN_OP_LT, TN_BOOL, idx, x, whole(s, idx, 0), NULL);
    tn__uop *in = make(s, TN_OP_LT, TN_BOOL, idx, x, whole(s, idx, rows), NULL);
    tn__uop *up = make(s, TN_OP_MUL, TN_I64, idx, x, whole(s, idx, 2), NULL);
    up = make(s, TN_OP_ADD, TN_I64, idx, up, whole(s, idx, 2), NULL);
    tn__uop *down = make(s, TN_OP_MUL, TN_I64, idx, x, whole(s, idx, -2), NULL);
    down = make(s, TN_OP_ADD, TN_I64, idx, down, whole(s, idx, -1), NULL);
    x = make(s, TN_OP_WHERE, TN_I64, idx, in, whole(s, idx, 0), up);
    x = make(s, TN_OP_WHERE, TN_I64, idx, neg, down, x);
    const int64_t arg[2] = {TN_OP_MAX, all};
    int64_t dims[TN_MAX_RANK + 1];
    for (int i = 0; i < idx->rank; i++) dims[i] = 1;
    /* device 0: on the first device, wherever the indices are */
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_REDUCE,
                                          .dt = TN_I64,
                                          .dims = dims,
                                          .rank = idx->rank,
                                          .narg = 2,
                                          .arg = arg,
                                          .nsrc = 1,
                                          .src = &x});
}

static int64_t rows_of(const tn__uop *u)
{
    return u->src[0]->dims[1];
} /* what is read, or written */

static bool needs_check(const tn__uop *u)
{
    const tn__uop *idx = u->src[1];
    const int64_t rows = rows_of(u);
    const bounds b = bounds_of(idx, DEPTH);
    return tn__uop_numel(idx) && !(b.lo >= 0 && b.hi < (double)rows);
}

bool tn__checks_add(tn__schedule *s, tn__space *sp, tn__uop ***roots, size_t *n)
{
    tn__uop **order;
    size_t count, total = *n, most = 0;
    if (!tn__uop_topo(sp, *roots, *n, &order, &count)) return false;
    for (size_t i = 0; i < count; i++)
        most += order[i]->op == TN_OP_GATHER || order[i]->op == TN_OP_SCATTER;
    if (!most) return true;
    tn__uop **all = tn__arena_alloc(sp->arena, (*n + most + 1) * sizeof *all);
    s->check = tn__arena_zero(s->arena, most * sizeof *s->check);
    if (!all || !s->check) return false;
    if (*n) memcpy(all, *roots, *n * sizeof *all);
    for (size_t i = 0; i < count; i++) {
        const tn__uop *u = order[i];
        if ((u->op != TN_OP_GATHER && u->op != TN_OP_SCATTER) || !needs_check(u)) continue;
        tn__uop *c = check_of(sp, u->src[1], rows_of(u));
        size_t j = *n;
        while (j < total && all[j] != c) j++;
        if (j < total) continue;
        all[total++] = c;
        s->check[s->ncheck++] = (tn__scheck){.of = u, .rows = rows_of(u), .record = -1};
    }
    *roots = all;
    *n = total;
    return !sp->failed;
}

void tn__checks_gate(tn__schedule *s)
{
    for (int i = 0; i < s->nkernel; i++) {
        tn__kernel *k = s->kernel[i];
        for (int j = 0; j < k->nstore; j++) {
            tn__kstore *st = &k->store[j];
            if (s->buf[k->buf[st->buf].plan].kind == TN__PBUF_STATUS)
                st->gate = tn__k2(&k->sp, TN_OP_NE, TN_BOOL, st->value,
                                  tn__kconst(&k->sp, TN_I64, 0));
        }
    }
}
