/* SPDX-License-Identifier: MIT */
/*
 * Placement lowering, the first pass of a schedule over several devices: every node of the graph becomes one
 * node a device, with the sizes of that device's part.
 *
 *  1. demand, outputs to inputs: at which layouts (devices and split axis) each node is wanted.  A node that has
 *     a placement is made there; one without, and slices of what every device could compute for itself, are
 *     made as their users want them
 *  2. build, inputs to outputs: the op on each device's operands.  An op that cannot be done on parts alone is
 *     done whole, and cut
 *  3. operands that are elsewhere, or cut otherwise, come by COPY; the only ops that cross devices
 *
 * Sums over the split axis are added in device order on every device, so that all have the same bits.  A
 * node's `dev` is its placement's number before this pass and its device after it.  No recursion.
 */
#include "schedule/fuse.h"
#include <string.h>

typedef struct built {
    struct built *next;
    int lay;
    tn__uop **part; /* by device of the layout */
} built;

typedef struct {
    tn__space *s;
    tn__layout *lay; /* number 0 is none */
    int n, cap;
    built **of; /* by id: layouts of a node */
} lower;

enum { FAR = INT8_MAX }; /* no axis */

/* ---- layouts ---- */

static bool same_devices(const tn__layout *a, const tn__layout *b)
{
    return a->n == b->n && !memcmp(a->dev, b->dev, (size_t)a->n);
}

static int layout(lower *p, const tn__layout *l)
{
    for (int i = 1; i < p->n; i++)
        if (p->lay[i].axis == l->axis && same_devices(&p->lay[i], l)) return i;
    if (p->n == p->cap) {
        const int cap = p->cap * 2 + 16;
        tn__layout *t = tn__arena_alloc(p->s->arena, (size_t)cap * sizeof *t);
        if (!t) {
            p->s->failed = true;
            return 0;
        }
        if (p->n) memcpy(t, p->lay, (size_t)p->n * sizeof *t);
        p->lay = t;
        p->cap = cap;
    }
    p->lay[p->n] = *l;
    return p->n++;
}

/* The devices of layout l with another split axis; -1: whole. */
static int with_axis(lower *p, int l, int axis)
{
    tn__layout x = p->lay[l];
    x.axis = (int8_t)(x.n == 1 ? -1 : axis);
    return layout(p, &x);
}

/* ---- which axis of a source a part of the result needs ---- */

/* FAR: none, the op must be done whole. */
static int moved_axis(const tn__uop *u, int axis, int n)
{
    const tn__uop *x = u->src[0];
    int64_t before = 1, seen = 1;
    switch (u->op) {
    case TN_OP_RESHAPE:
        for (int i = 0; i < axis; i++) before *= u->dims[i];
        for (int i = 0; i < x->rank && seen <= before; seen *= x->dims[i++])
            if (seen == before && x->dims[i] > 1 && x->dims[i] % n == 0) return i;
        return FAR;
    case TN_OP_EXPAND: return x->dims[axis] == u->dims[axis] ? axis : -1;
    case TN_OP_PERMUTE: return (int)u->arg[axis];
    case TN_OP_SHRINK:
    case TN_OP_PAD: return x->dims[axis] == u->dims[axis] ? axis : FAR;
    case TN_OP_FLIP: return u->arg[0] >> axis & 1 ? FAR : axis;
    case TN_OP_WINDOW: return axis < u->arg[0] ? axis : axis > u->arg[0] + 1 ? axis - 1 : FAR;
    case TN_OP_FOLD: return axis < u->arg[0] ? axis : axis > u->arg[0] ? axis + 1 : FAR;
    default: return FAR;
    }
}

/* The split axis that source i must have where the result is split along `axis`. */
static int source_axis(const tn__uop *u, int i, int axis, int n)
{
    const tn__class cls = tn__ops[u->op].cls;
    if (axis < 0) return -1;
    if (cls == TN_CLASS_MOVE) return moved_axis(u, axis, n);
    switch (u->op) {
    case TN_OP_REDUCE: return u->arg[1] >> axis & 1 ? FAR : axis;
    case TN_OP_GATHER: return axis == (i ? 2 : 1) ? -1 : axis;
    case TN_OP_SCATTER: return axis == 1 ? (i ? -1 : 1) : axis == 2 && i == 1 ? -1 : axis;
    case TN_OP_SCAN: return axis == u->arg[1] ? FAR : axis;
    case TN_OP_SORT: return axis == u->rank - 1 ? FAR : axis;
    default: return axis;
    }
}

static bool leaf_value(const tn__uop *u)
{
    return u->op == TN_OP_CONST || u->op == TN_OP_IOTA || u->op == TN_OP_RNG ||
           u->op == TN_OP_SCALAR;
}

/* A part of it costs a part of the whole. */
static bool soft(const tn__uop *u)
{
    const tn__class c = tn__ops[u->op].cls;
    return leaf_value(u) || c == TN_CLASS_UNARY || c == TN_CLASS_BINARY || c == TN_CLASS_COMPARE ||
           c == TN_CLASS_TERNARY || (c == TN_CLASS_MOVE && u->op != TN_OP_FOLD);
}

/* A reduction of what is split along a reduced axis: each device reduces its part, then all parts are joined.
 * The same for rows that are looked up in a table split by rows. */
static bool joined(const lower *p, const tn__uop *u, int l)
{
    const tn__layout *to = &p->lay[l], *from = &p->lay[u->nsrc ? u->src[0]->dev : 0];
    if (!u->nsrc || !u->src[0]->dev || from->n == 1 || from->axis < 0 || !same_devices(from, to))
        return false;
    if (u->op == TN_OP_REDUCE) return to->axis < 0 && (u->arg[1] >> from->axis & 1);
    return u->op == TN_OP_GATHER && from->axis == 1 && (to->axis < 0 || to->axis == 1);
}

/* The layout at which source i of u is wanted where u is made at l.  *whole: the op must be done whole. */
static int source_layout(lower *p, const tn__uop *u, int i, int l, bool *whole)
{
    const int axis = p->lay[l].axis, n = p->lay[l].n;
    *whole = false;
    if (u->op == TN_OP_COPY) return l;
    if (joined(p, u, l)) return i ? with_axis(p, l, -1) : u->src[0]->dev;
    if (u->op == TN_OP_UPDATE && axis >= 0) {
        const int seen = u->dev ? p->lay[u->src[2]->dev].axis
                                : -1; /* of the view; -1: it crosses parts */
        *whole = seen < 0;
        return with_axis(p, l, *whole ? -1 : i ? seen : axis);
    }
    for (int j = 0; j < u->nsrc; j++) *whole |= source_axis(u, j, axis, n) == FAR;
    return with_axis(p, l, *whole ? -1 : source_axis(u, i, axis, n));
}

/* ---- step 1 ---- */

static built *find(const lower *p, const tn__uop *u, int l)
{
    built *b = p->of[u->id];
    while (b && b->lay != l) b = b->next;
    return b;
}

static bool add(lower *p, const tn__uop *u, int l)
{
    if (find(p, u, l)) return true;
    built *b = tn__arena_zero(p->s->arena, sizeof *b);
    if (!b) return false;
    *b = (built){.next = p->of[u->id], .lay = l};
    p->of[u->id] = b;
    return true;
}

/* The layout that u is made at to serve layout l. */
static int serving(lower *p, const tn__uop *u, int l)
{
    const int own = u->dev;
    if (own == l || leaf_value(u)) return l;
    if (!own)
        return soft(u) || u->op == TN_OP_CONTIGUOUS || p->lay[l].axis < 0 ? l : with_axis(p, l, -1);
    return p->lay[own].axis < 0 && soft(u) && same_devices(&p->lay[own], &p->lay[l]) ? l : own;
}

static bool demand(lower *p, tn__uop **order, size_t n)
{
    for (size_t i = n; i-- > 0;) {
        const tn__uop *u = order[i];
        for (const built *b = p->of[u->id]; b; b = b->next)
            for (int j = 0; j < u->nsrc; j++) {
                bool whole;
                const int l = source_layout(p, u, j, b->lay, &whole);
                if (p->s->failed || !add(p, u->src[j], serving(p, u->src[j], l))) return false;
            }
    }
    return !p->s->failed;
}

/* ---- nodes ---- */

static tn__uop *make(lower *p, tn__op op, tn_dtype dt, int dev, const int64_t *dims, int rank,
                     tn__uop **src, int nsrc, const int64_t *arg, int narg)
{
    return tn__uop_get(p->s, &(tn__uop_desc){.op = op,
                                             .dt = dt,
                                             .dev = (uint8_t)dev,
                                             .dims = dims,
                                             .rank = rank,
                                             .src = src,
                                             .nsrc = nsrc,
                                             .arg = arg,
                                             .narg = narg});
}

static tn__uop *like(lower *p, tn__op op, tn__uop *a, tn__uop *b)
{
    tn__uop *src[2] = {a, b};
    return make(p, op, (tn_dtype)a->dt, a->dev, a->dims, a->rank, src, b ? 2 : 1, NULL, 0);
}

static tn__uop *slice(lower *p, tn__uop *x, int axis, int64_t first, int64_t size)
{
    int64_t dims[TN_MAX_RANK], arg[TN_MAX_RANK] = {0};
    if (x->dims[axis] == size) return x;
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[axis] = size;
    arg[axis] = first;
    return make(p, TN_OP_SHRINK, (tn_dtype)x->dt, x->dev, dims, x->rank, &x, 1, arg, x->rank);
}

/* Part k of n along the axis. */
static tn__uop *cut(lower *p, tn__uop *x, int axis, int k, int n)
{
    return axis < 0 || n == 1 ? x : slice(p, x, axis, k * (x->dims[axis] / n), x->dims[axis] / n);
}

static tn__uop *carry(lower *p, tn__uop *x, int dev)
{
    if (x->dev == dev) return x;
    return make(p, TN_OP_COPY, (tn_dtype)x->dt, dev, x->dims, x->rank, &x, 1, NULL, 0);
}

static tn__uop *constant(lower *p, tn_dtype dt, int64_t v, const tn__uop *shape)
{
    return tn__uop_get(p->s,
                       &(tn__uop_desc){.op = TN_OP_CONST,
                                       .dt = dt,
                                       .dev = shape->dev,
                                       .rank = shape->rank,
                                       .bits = tn__scalar_bits(dt, tn__scalar_from_int(dt, v)),
                                       .dims = shape->dims});
}

/* c < limit ? a : b, c of a's shape */
static tn__uop *choose(lower *p, tn__uop *c, int64_t limit, tn__uop *a, tn__uop *b)
{
    tn__uop *pair[2] = {c, constant(p, TN_I64, limit, c)};
    tn__uop *src[3] = {make(p, TN_OP_LT, TN_BOOL, c->dev, c->dims, c->rank, pair, 2, NULL, 0), a,
                       b};
    return make(p, TN_OP_WHERE, (tn_dtype)a->dt, a->dev, a->dims, a->rank, src, 3, NULL, 0);
}

/* ---- step 3 ---- */

/* All parts of x one after another on a device; each cut first to part k of n along `by`. */
static tn__uop *whole_on(lower *p, const built *x, int dev, int by, int k, int n)
{
    const tn__layout l = p->lay[x->lay];
    tn__uop *all = NULL;
    const int64_t size = x->part[0]->dims[l.axis];
    for (int j = l.n - 1; j >= 0; j--) {
        tn__uop *c = carry(p, cut(p, x->part[j], by, k, n), dev);
        int64_t dims[TN_MAX_RANK], arg[2 * TN_MAX_RANK] = {0}, axis = l.axis;
        memcpy(dims, c->dims, (size_t)c->rank * sizeof *dims);
        dims[l.axis] = l.n * size;
        arg[2 * l.axis] = j * size;
        arg[2 * l.axis + 1] = (l.n - 1 - j) * size;
        c = make(p, TN_OP_PAD, (tn_dtype)c->dt, dev, dims, c->rank, &c, 1, arg, 2 * c->rank);
        tn__uop *at = make(p, TN_OP_IOTA, TN_I64, dev, dims, c->rank, NULL, 0, &axis, 1);
        all = all ? choose(p, at, (j + 1) * size, c, all) : c;
    }
    return all;
}

/* Part k of a node under layout l. */
static tn__uop *fetch(lower *p, const tn__uop *u, int l, int k)
{
    const built *b = find(p, u, l);
    if (b) return b->part[k];
    b = find(p, u, serving(p, u, l));
    if (!b) {
        tn__fail(TN_EINTERNAL, "placement: %s is not where it was wanted", tn__ops[u->op].text);
        p->s->failed = true;
        return &tn__uop_bad;
    }
    const tn__layout from = p->lay[b->lay], to = p->lay[l];
    int here = 0;
    while (here < from.n && from.dev[here] != to.dev[k]) here++;
    if (from.axis < 0)
        return carry(p, cut(p, b->part[here < from.n ? here : k % from.n], to.axis, k, to.n),
                     to.dev[k]);
    if (from.axis == to.axis && from.n == to.n) return carry(p, b->part[k], to.dev[k]);
    if (from.axis == to.axis) return cut(p, whole_on(p, b, to.dev[k], -1, 0, 1), to.axis, k, to.n);
    return whole_on(p, b, to.dev[k], to.axis, k, to.n);
}

/* ---- step 2 ---- */

/* The parts combined on every device, in device order. */
static bool all_reduce(lower *p, tn__op op, const tn__layout *l, tn__uop *const *part,
                       tn__uop **out)
{
    for (int k = 0; k < l->n; k++) {
        out[k] = carry(p, part[0], l->dev[k]);
        for (int j = 1; j < l->n; j++) out[k] = like(p, op, out[k], carry(p, part[j], l->dev[k]));
    }
    return !p->s->failed;
}

/* The op itself on one device; dims: of the result there. */
static tn__uop *local(lower *p, const tn__uop *u, int dev, const int64_t *dims, tn__uop **src)
{
    return tn__uop_get(p->s, &(tn__uop_desc){.op = (tn__op)u->op,
                                             .dt = (tn_dtype)u->dt,
                                             .bits = u->bits,
                                             .rank = u->rank,
                                             .dims = dims,
                                             .narg = u->narg,
                                             .arg = u->arg,
                                             .nsrc = u->nsrc,
                                             .src = src,
                                             .dev = (uint8_t)dev});
}

static void local_dims(const tn__uop *u, const tn__layout *l, int64_t *dims)
{
    memcpy(dims, u->dims, (size_t)u->rank * sizeof *dims);
    if (l->axis >= 0) dims[l->axis] /= l->n;
}

/* Sums of the parts, then of all devices. */
static bool build_reduce(lower *p, const tn__uop *u, const tn__layout *l, tn__uop **out)
{
    tn__uop *part[TN__FORM_DEVICES];
    for (int k = 0; k < l->n; k++) {
        tn__uop *x = fetch(p, u->src[0], u->src[0]->dev, k);
        part[k] = local(p, u, l->dev[k], u->dims, &x);
    }
    return all_reduce(p, (tn__op)u->arg[0], l, part, out);
}

/* Row numbers counted from `first`: those of other parts are outside. */
static tn__uop *rows_from(lower *p, tn__uop *idx, int64_t first)
{
    if (idx->dt != TN_I64)
        idx = make(p, TN_OP_CAST, TN_I64, idx->dev, idx->dims, idx->rank, &idx, 1, NULL, 0);
    return first ? like(p, TN_OP_SUB, idx, constant(p, TN_I64, first, idx)) : idx;
}

/* Row numbers (B, N) as wide as rows of P. */
static tn__uop *widened(lower *p, tn__uop *idx, int64_t size)
{
    const int64_t one[3] = {idx->dims[0], idx->dims[1], 1}, all[3] = {one[0], one[1], size};
    idx = make(p, TN_OP_RESHAPE, TN_I64, idx->dev, one, 3, &idx, 1, NULL, 0);
    return size == 1 ? idx : make(p, TN_OP_EXPAND, TN_I64, idx->dev, all, 3, &idx, 1, NULL, 0);
}

/* Each device looks up the rows it has (others are outside of its table: 0); then each takes, of the rows it is
 * to have, every one from the device that has it. */
static bool build_rows(lower *p, const tn__uop *u, int lay, tn__uop **out)
{
    const tn__layout l = p->lay[lay];
    const int whole = with_axis(p, lay, -1);
    const int64_t rows = u->src[0]->dims[1] / l.n, size = u->dims[2];
    tn__uop *at[TN__FORM_DEVICES];
    for (int k = 0; k < l.n; k++) at[k] = rows_from(p, fetch(p, u->src[1], whole, k), 0);
    for (int k = 0; k < l.n; k++) {
        tn__uop *mine = cut(p, at[k], l.axis, k, l.n), *wide = widened(p, mine, size);
        for (int j = l.n - 1; j >= 0; j--) {
            tn__uop *idx = rows_from(p, cut(p, at[j], l.axis, k, l.n), j * rows);
            tn__uop *src[2] = {fetch(p, u->src[0], u->src[0]->dev, j), idx};
            const int64_t dims[3] = {idx->dims[0], idx->dims[1], size};
            tn__uop *part = carry(
                p, make(p, TN_OP_GATHER, (tn_dtype)u->dt, l.dev[j], dims, 3, src, 2, NULL, 0),
                l.dev[k]);
            out[k] = j == l.n - 1 ? part : choose(p, wide, (j + 1) * rows, part, out[k]);
        }
    }
    return !p->s->failed;
}

/* Random words and positions of a part: by the index in the whole. */
static tn__uop *build_leaf(lower *p, const tn__uop *u, const tn__layout *l, int k)
{
    int64_t dims[TN_MAX_RANK], arg[2 + 2 * TN_MAX_RANK] = {0};
    local_dims(u, l, dims);
    if (l->axis < 0 || u->op == TN_OP_CONST || u->op == TN_OP_SCALAR)
        return local(p, u, l->dev[k], dims, NULL);
    if (u->op == TN_OP_IOTA) {
        if (u->arg[0] != l->axis) return local(p, u, l->dev[k], dims, NULL);
        return cut(p, local(p, u, l->dev[k], u->dims, NULL), l->axis, k, l->n);
    }
    memcpy(arg, u->arg, 2 * sizeof *arg);
    memcpy(arg + 2, u->dims, (size_t)u->rank * sizeof *arg);
    arg[2 + u->rank + l->axis] = k * dims[l->axis];
    return make(p, TN_OP_RNG, (tn_dtype)u->dt, l->dev[k], dims, u->rank, NULL, 0, arg,
                2 + 2 * u->rank);
}

/* The chain of movements that an UPDATE writes through, again over all of the old value. */
static tn__uop *view_over(lower *p, const tn__uop *u, tn__uop *old)
{
    size_t n = 0;
    for (const tn__uop *v = u->src[2]; v != u->src[0]; v = v->src[0]) n++;
    const tn__uop **chain = tn__arena_alloc(p->s->arena, (n + 1) * sizeof *chain);
    if (!chain) {
        p->s->failed = true;
        return old;
    }
    const tn__uop *v = u->src[2];
    for (size_t i = n; i-- > 0; v = v->src[0]) chain[i] = v;
    for (size_t i = 0; i < n; i++) old = local(p, chain[i], old->dev, chain[i]->dims, &old);
    return old;
}

static bool build(lower *p, const tn__uop *u, built *b)
{
    tn__uop *src[3];
    int64_t dims[TN_MAX_RANK];
    bool whole = false;
    int want[3] = {0};
    if (joined(p, u, b->lay)) {
        const tn__layout l = p->lay[b->lay];
        return u->op == TN_OP_REDUCE ? build_reduce(p, u, &l, b->part)
                                     : build_rows(p, u, b->lay, b->part);
    }
    for (int i = 0; i < u->nsrc; i++) want[i] = source_layout(p, u, i, b->lay, &whole);
    const tn__layout l = p->lay[b->lay]; /* the table may have moved */
    for (int k = 0; k < l.n; k++) {
        if (leaf_value(u)) {
            b->part[k] = build_leaf(p, u, &l, k);
            continue;
        }
        if (u->op == TN_OP_COPY) {
            tn__uop *x = fetch(p, u->src[0], b->lay, k);
            b->part[k] = x->op == TN_OP_COPY ? x : like(p, TN_OP_CONTIGUOUS, x, NULL);
            continue;
        }
        local_dims(u, &l, dims);
        for (int i = 0; i < u->nsrc; i++) src[i] = fetch(p, u->src[i], want[i], k);
        if (u->op == TN_OP_UPDATE && whole) src[2] = view_over(p, u, src[0]);
        if (u->op == TN_OP_SCATTER && l.axis == 1) src[1] = rows_from(p, src[1], k * dims[1]);
        tn__uop *y = local(p, u, l.dev[k], whole ? u->dims : dims, src);
        b->part[k] = whole ? cut(p, y, l.axis, k, l.n) : y;
    }
    return !p->s->failed;
}

static bool build_all(lower *p, tn__uop **order, size_t n)
{
    for (size_t i = 0; i < n; i++)
        for (built *b = p->of[order[i]->id]; b; b = b->next) {
            b->part = tn__arena_zero(p->s->arena, (size_t)p->lay[b->lay].n * sizeof(tn__uop *));
            if (!b->part || !build(p, order[i], b) || p->s->failed) return false;
        }
    return true;
}

/* ---- roots ---- */

static bool start(lower *p, const tn__layout *table, int n)
{
    const tn__layout none = {0}, one = {.n = 1, .axis = -1};
    p->of = tn__arena_zero(p->s->arena, ((size_t)p->s->next_id + 1) * sizeof(built *));
    p->cap = 2 * n + 16;
    p->lay = tn__arena_alloc(p->s->arena, (size_t)p->cap * sizeof *p->lay);
    if (!p->of || !p->lay) return false;
    p->lay[p->n++] = none;
    for (int i = 0; i < n; i++) p->lay[p->n++] = table[i];
    layout(p, &one);
    return true;
}

/* Where a root is made: on the first device if it has no placement. */
static int home(lower *p, const tn__uop *r)
{
    const tn__layout one = {.n = 1, .axis = -1};
    return r->dev ? r->dev : layout(p, &one);
}

/* Memory is shared by whole roots alone: parts that only some roots' devices have in common are copied. */
static void part_ways(lower *p, tn__uop **all, size_t at, int n, const int *lay,
                      const size_t *first, size_t root)
{
    for (size_t r = 0; r < root; r++) {
        const bool same = lay[r] == lay[root] &&
                          !memcmp(all + first[r], all + at, (size_t)n * sizeof *all);
        if (same) return;
    }
    for (size_t r = 0; r < at; r++)
        for (int k = 0; k < n; k++)
            if (all[r] == all[at + (size_t)k]) {
                all[at + (size_t)k] = like(p, TN_OP_CONTIGUOUS, all[r], NULL);
                r = (size_t)-1; /* again from the first */
                break;
            }
}

bool tn__place_lower(tn__space *s, const tn__layout *table, int n, tn__uop ***roots, size_t *nroot,
                     int *ndev, tn__uop ***made, size_t *nmade)
{
    lower p = {.s = s};
    tn__uop **order, **all;
    size_t count, total = 0, *first = tn__arena_alloc(s->arena, (*nroot + 1) * sizeof *first);
    int *lay = tn__arena_alloc(s->arena, (*nroot + 1) * sizeof *lay);
    if (!first || !lay) return false;
    *nmade = (size_t)s->next_id + 1;
    *made = tn__arena_zero(s->arena, *nmade * sizeof(tn__uop *));
    if (!*made || !tn__uop_topo(s, *roots, *nroot, &order, &count) || !start(&p, table, n))
        return false;
    for (size_t i = 0; i < *nroot; i++) {
        if (!add(&p, (*roots)[i], home(&p, (*roots)[i]))) return false;
        total += (size_t)p.lay[home(&p, (*roots)[i])].n;
    }
    if (!demand(&p, order, count) || !build_all(&p, order, count)) return false;
    all = tn__arena_alloc(s->arena, (total + 1) * sizeof(tn__uop *));
    total = 0;
    for (size_t i = 0; all && i < *nroot; i++) {
        const int l = lay[i] = home(&p, (*roots)[i]), parts = p.lay[l].n;
        first[i] = total;
        for (int k = 0; k < parts; k++) {
            tn__uop *x = fetch(&p, (*roots)[i], l, k);
            const bool shared = x->op == TN_OP_BUFFER && (*roots)[i]->op != TN_OP_BUFFER;
            all[total + (size_t)k] = shared ? like(&p, TN_OP_CONTIGUOUS, x, NULL) : x;
        }
        if ((*roots)[i]->op != TN_OP_BUFFER) part_ways(&p, all, total, parts, lay, first, i);
        total += (size_t)parts;
    }
    for (size_t i = 0; i < *nmade; i++)
        if (p.of[i]) (*made)[i] = p.of[i]->part[0];
    *roots = all;
    *nroot = total;
    *ndev = 1;
    for (int i = 1; i < p.n; i++)
        for (int k = 0; k < p.lay[i].n; k++)
            if (p.lay[i].dev[k] >= *ndev) *ndev = p.lay[i].dev[k] + 1;
    return all && !s->failed;
}
