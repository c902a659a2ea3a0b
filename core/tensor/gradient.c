/* SPDX-License-Identifier: MIT */
/*
 * Gradients by a reverse walk: one table of vector-Jacobian rules, graph to graph, so that
 * gradients of gradients are the same walk again.
 *
 *   1. Order the graph, also below nodes that have a value: a realised temporary keeps its history.
 *   2. Mark the float nodes that depend on a target; only along them anything flows.
 *   3. From the root down, apply each node's rule and add up what reaches a source, in its dtype.
 *
 * Where a function has a kink the rules follow PyTorch: maximum of equals gives half to each, amax
 * shares equally, floor and trunc give zeros.
 */
#include "tensor/gradient.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

#define LN2 0.69314718055994530942

tn__node *tn__gr_expand_as(tn__node *x, const tn__node *like)
{
    return x ? tn__expand(x, like->dims, like->rank) : NULL;
}

tn__node *tn__gr_sum(tn__node *x, unsigned axes)
{
    if (!x) return NULL;
    tn_dtype dt = (tn_dtype)x->dt;
    return tn__cast(tn__reduce(TN_OP_ADD, tn__cast(x, tn__dtype_sum(dt)), axes), dt);
}

/* ---- elementwise ---- */

static void d_cast(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = tn__cast(g, (tn_dtype)y->src[0]->dt);
}

static void d_neg(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)y, (void)want;
    out[0] = gr_neg(g);
}

static void d_recip(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = gr_neg(gr_mul(g, gr_mul(y, y)));
}

static void d_sqrt(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = gr_div(g, gr_scale(y, 2));
}

static void d_exp2(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = gr_mul(g, gr_scale(y, LN2));
}

static void d_log2(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = gr_div(g, gr_scale(y->src[0], LN2));
}

/* cos x = 1 - 2 sin(x/2)^2: x + pi/2 would round away for large x, x/2 is exact. */
static void d_sin(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    tn__node *s = tn__unary(TN_OP_SIN, gr_scale(y->src[0], 0.5));
    out[0] = gr_mul(g, gr_add(tn__const_like(y, 1), gr_scale(gr_mul(s, s), -2)));
}

static void d_zero(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)g, (void)want;
    out[0] = tn__const_like(y, 0);
}

static void d_add(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)y, (void)want;
    out[0] = out[1] = g;
}

static void d_sub(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)y;
    out[0] = g;
    if (want & 2) out[1] = gr_neg(g);
}

static void d_mul(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    if (want & 1) out[0] = gr_mul(g, y->src[1]);
    if (want & 2) out[1] = gr_mul(g, y->src[0]);
}

static void d_div(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *q = gr_div(g, y->src[1]);
    out[0] = q;
    if (want & 2) out[1] = gr_neg(gr_mul(q, y));
}

/* b a^(b-1), 0 where b is 0; a^b ln a, 0 where a is 0 and b is not negative. */
static void d_pow(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *a = y->src[0], *b = y->src[1], *zero = tn__const_like(y, 0);
    if (want & 1) {
        tn__node *less = tn__binary(TN_OP_SUB, b, tn__const_like(b, 1));
        tn__node *d = gr_mul(g, gr_mul(b, tn__binary(TN_OP_POW, a, less)));
        out[0] = tn__where(gr_eq(b, zero), zero, d);
    }
    if (want & 2) {
        tn__node *flat = tn__binary(TN_OP_AND, gr_eq(a, zero),
                                    tn__unary(TN_OP_NOT, tn__binary(TN_OP_LT, b, zero)));
        tn__node *safe = tn__where(flat, tn__const_like(a, 1), a);
        tn__node *ln = gr_scale(tn__unary(TN_OP_LOG2, safe), LN2);
        out[1] = tn__where(flat, zero, gr_mul(g, gr_mul(y, ln)));
    }
}

/* The whole of g to the larger (smaller) one, half to each of two equals. */
static void d_extreme(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *a = y->src[0], *b = y->src[1];
    tn__node *share = tn__where(gr_eq(a, b), gr_scale(g, 0.5), g);
    tn__node *zero = tn__const_like(y, 0);
    bool max = y->op == TN_OP_MAX;
    tn__node *ab = tn__binary(TN_OP_LT, a, b), *ba = tn__binary(TN_OP_LT, b, a);
    if (want & 1) out[0] = tn__where(max ? ab : ba, zero, share);
    if (want & 2) out[1] = tn__where(max ? ba : ab, zero, share);
}

static void d_where(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *zero = tn__const_like(y, 0);
    if (want & 2) out[1] = tn__where(y->src[0], g, zero);
    if (want & 4) out[2] = tn__where(y->src[0], zero, g);
}

/* ---- identities and movement ---- */

static void d_same(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)y, (void)want;
    out[0] = g;
}

static void d_copy(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = y->src[0]->place ? tn__copy_to(g, y->src[0]->place) : g;
}

static void d_reshape(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = tn__reshape(g, y->src[0]->dims, y->src[0]->rank);
}

static void d_expand(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    unsigned axes = 0;
    for (int i = 0; i < y->rank; i++)
        if (y->src[0]->dims[i] != y->dims[i]) axes |= 1u << i;
    out[0] = tn__gr_sum(g, axes);
}

static void d_permute(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    int back[TN_MAX_RANK];
    for (int i = 0; i < y->rank; i++) back[y->argv[i]] = i;
    out[0] = tn__permute(g, back);
}

static void d_shrink(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    int64_t after[TN_MAX_RANK];
    for (int i = 0; i < y->rank; i++) after[i] = y->src[0]->dims[i] - y->argv[i] - y->dims[i];
    out[0] = tn__pad(g, y->argv, after);
}

static void d_pad(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    int64_t first[TN_MAX_RANK];
    for (int i = 0; i < y->rank; i++) first[i] = y->argv[2 * i];
    out[0] = tn__shrink(g, first, y->src[0]->dims);
}

static void d_flip(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    out[0] = tn__flip(g, (unsigned)y->argv[0]);
}

static void d_window(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    if (!g) return;
    tn_dtype dt = (tn_dtype)g->dt;
    int axis = (int)y->argv[0];
    g = tn__cast(g, tn__dtype_sum(dt));
    out[0] = tn__cast(tn__fold(g, axis, y->src[0]->dims[axis], y->argv[1], y->argv[2], y->argv[3]),
                      dt);
}

static void d_fold(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    const tn__node *x = y->src[0];
    int64_t first[TN_MAX_RANK] = {0};
    if (!tn__node_numel(x)) {
        out[0] = tn__const_like(y->src[0], 0);
        return;
    }
    tn__node *w = tn__window(g, (int)y->argv[0], y->argv[1], y->argv[2], y->argv[3]);
    out[0] = w ? tn__shrink(w, first, x->dims) : NULL; /* windows that fit but were not there */
}

tn__vjp *const tn__vjps[TN_OP_COUNT] = {
    [TN_OP_PARAM] = d_same,
    [TN_OP_CONTIGUOUS] = d_same,
    [TN_OP_COPY] = d_copy,
    [TN_OP_CAST] = d_cast,
    [TN_OP_NEG] = d_neg,
    [TN_OP_RECIP] = d_recip,
    [TN_OP_SQRT] = d_sqrt,
    [TN_OP_EXP2] = d_exp2,
    [TN_OP_LOG2] = d_log2,
    [TN_OP_SIN] = d_sin,
    [TN_OP_TRUNC] = d_zero,
    [TN_OP_FLOOR] = d_zero,
    [TN_OP_ADD] = d_add,
    [TN_OP_SUB] = d_sub,
    [TN_OP_MUL] = d_mul,
    [TN_OP_DIV] = d_div,
    [TN_OP_POW] = d_pow,
    [TN_OP_MAX] = d_extreme,
    [TN_OP_MIN] = d_extreme,
    [TN_OP_WHERE] = d_where,
    [TN_OP_RESHAPE] = d_reshape,
    [TN_OP_EXPAND] = d_expand,
    [TN_OP_PERMUTE] = d_permute,
    [TN_OP_SHRINK] = d_shrink,
    [TN_OP_PAD] = d_pad,
    [TN_OP_FLIP] = d_flip,
    [TN_OP_WINDOW] = d_window,
    [TN_OP_FOLD] = d_fold,
    [TN_OP_REDUCE] = tn__vjp_reduce,
    [TN_OP_GATHER] = tn__vjp_gather,
    [TN_OP_SCATTER] = tn__vjp_scatter,
    [TN_OP_SCAN] = tn__vjp_scan,
    [TN_OP_UPDATE] = tn__vjp_update,
};

/* ---- the walk ---- */

typedef struct {
    tn__arena a;
    tn__node **order;
    size_t count;
    tn__map at;      /* node -> position in order */
    tn__map targets; /* node or parameter id -> index of the target */
    bool *needs;     /* depends on a target, by position */
    tn__node **acc;  /* gradient so far, by position */
} reverse;

/* Parameter ids and node addresses share a map: an odd key is an id. */
static const void *key_of(const tn__node *n)
{
    return n->op == TN_OP_PARAM ? (const void *)(uintptr_t)(n->scalar.u * 2 + 1) : (const void *)n;
}

static bool prepare(reverse *r, tn__node *root, tn__node *const *targets, size_t n)
{
    bool isnew;
    r->at.a = r->targets.a = &r->a;
    if (!tn__walk(&r->a, &root, 1, true, &r->order, &r->count)) return false;
    r->needs = tn__arena_zero(&r->a, r->count * sizeof *r->needs);
    r->acc = tn__arena_zero(&r->a, r->count * sizeof(tn__node *));
    if (!r->needs || !r->acc) return false;
    for (size_t i = 0; i < n; i++) {
        if (!tn__dtype_is_float((tn_dtype)targets[i]->dt))
            return tn__fail(TN_EGRAD, "gradient: %s %s is no float: only floats have gradients",
                            tn__dtype_name((tn_dtype)targets[i]->dt), tn__dims_of(targets[i]));
        if (!tn__map_put(&r->targets, key_of(targets[i]), i, &isnew)) return false;
    }
    for (size_t i = 0; i < r->count; i++) {
        tn__node *y = r->order[i];
        if (!tn__map_put(&r->at, y, i, &isnew)) return false;
        if (!tn__dtype_is_float((tn_dtype)y->dt)) continue;
        r->needs[i] = tn__map_get(&r->targets, key_of(y)) != NULL;
        for (unsigned s = 0; s < y->nsrc && !r->needs[i] && y->op != TN_OP_DETACH; s++)
            r->needs[i] = r->needs[*tn__map_get(&r->at, y->src[s])];
    }
    return true;
}

static bool no_rule(const tn__node *y)
{
    return tn__fail(TN_EGRAD,
                    "gradient: %s has no gradient (made by %s, %s:%d): detach what it reads",
                    tn__ops[y->op].text, *y->loc.op ? y->loc.op : "the library",
                    *y->loc.file ? y->loc.file : "?", y->loc.line);
}

/* a + b.  Rows that b scatters over zeros are added to a itself: no pass over all of its rows. */
static tn__node *accumulate(tn__node *a, tn__node *b)
{
    if (!a || !b) return a ? a : b;
    const tn__node *rows = b;
    while (rows->op == TN_OP_RESHAPE) rows = rows->src[0];
    const bool over_zeros = rows->op == TN_OP_SCATTER && rows->argv[0] == TN_OP_ADD &&
                            rows->src[0]->op == TN_OP_CONST && rows->src[0]->scalar.f == 0;
    if (!over_zeros) return gr_add(a, b);
    tn__node *base = tn__reshape(a, rows->dims, rows->rank);
    return tn__reshape(tn__scatter(TN_OP_ADD, base, rows->src[1], rows->src[2]), b->dims, b->rank);
}

/* Step 3 for one node: what its rule gives, added to its sources. */
static bool spread(reverse *r, tn__node *y, tn__node *g)
{
    tn__node *out[3] = {NULL, NULL, NULL};
    unsigned want = 0;
    for (unsigned s = 0; s < y->nsrc; s++)
        if (r->needs[*tn__map_get(&r->at, y->src[s])]) want |= 1u << s;
    if (y->op == TN_OP_UPDATE) want &= 3u; /* the view is only where, not what */
    if (!want) return true;
    if (!tn__vjps[y->op]) return no_rule(y);
    const char *name = tn__call_name;
    tn__call_name = y->loc.op; /* what is built belongs to the place that made y */
    tn__vjps[y->op](y, g, want, out);
    tn__call_name = name;
    for (unsigned s = 0; s < y->nsrc; s++) {
        if (!(want >> s & 1)) continue;
        tn__node **acc = &r->acc[*tn__map_get(&r->at, y->src[s])];
        if (!out[s]) return false;
        *acc = accumulate(*acc, out[s]);
        if (!*acc) return false;
    }
    return true;
}

static bool seeded(tn__node *root, tn__node **seed)
{
    if (!tn__dtype_is_float((tn_dtype)root->dt))
        return tn__fail(TN_EGRAD,
                        "gradient: the result is %s: only floats have gradients: cast it first",
                        tn__dtype_name((tn_dtype)root->dt));
    if (!*seed && tn__node_numel(root) != 1)
        return tn__fail(TN_EGRAD,
                        "gradient: the result has shape %s: it must be a scalar: take its sum "
                        "or mean, or give a seed of its shape",
                        tn__dims_of(root));
    if (!*seed) *seed = tn__const_like(root, 1);
    if (!*seed) return false;
    if (!tn__same_dims(root, *seed))
        return tn__fail(TN_EGRAD, "gradient: the seed %s has not the result's shape %s",
                        tn__dims_of(*seed), tn__dims_of(root));
    *seed = tn__cast(*seed, (tn_dtype)root->dt);
    return *seed != NULL;
}

bool tn__gradient(tn__node *root, tn__node *seed, tn__node *const *targets, size_t n,
                  tn__node **out)
{
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    reverse r = {0};
    bool ok = root && seeded(root, &seed) && prepare(&r, root, targets, n);
    if (ok) r.acc[r.count - 1] = seed;
    tn__merge outer = tn__merging;
    tn__merging = (tn__merge){.since = tn__node_next()};
    for (size_t i = r.count; ok && i--;) {
        tn__node *y = r.order[i], *g = r.acc[i];
        if (!r.needs[i] || !g) continue;
        size_t *t = tn__map_get(&r.targets, key_of(y));
        if (t) out[*t] = accumulate(out[*t], g);
        if (t && !out[*t]) ok = false;
        if (!t || y->op != TN_OP_PARAM) ok = ok && spread(&r, y, g);
    }
    tn__merging = outer;
    /* the same target named twice */
    for (size_t i = 0; ok && i < n; i++) out[i] = out[*tn__map_get(&r.targets, key_of(targets[i]))];
    tn__arena_free(&r.a);
    return ok;
}
