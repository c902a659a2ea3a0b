/* SPDX-License-Identifier: MIT */
/*
 * The opts that rewrite ranges.  See opts.h.  All of them go through substitution, which rebuilds every
 * expression with the index algebra's simplifications.
 */
#include "codegen/opts.h"
#include <inttypes.h>
#include <string.h>

/* ---- whole-kernel rewrites ---- */

bool tn__kernel_topo(tn__kernel *k, tn__uop ***order, size_t *n)
{
    tn__uop *roots[TN__KSTORES * (TN_MAX_RANK + 3) + TN__KSTAGES];
    size_t count = 0;
    for (int i = 0; i < k->nstage; i++) roots[count++] = k->stage[i].value;
    for (int i = 0; i < k->nstore; i++) {
        const tn__kstore *st = &k->store[i];
        roots[count++] = st->value;
        if (st->gate) roots[count++] = st->gate;
        for (int j = 0; j < k->buf[st->buf].rank; j++) roots[count++] = st->idx[j];
    }
    return tn__uop_topo(&k->sp, roots, count, order, n);
}

static tn__uop *gate_of(tn__uop *g) { return g && g->op == TN_OP_CONST && g->bits ? NULL : g; }

bool tn__kernel_subst(tn__kernel *k, tn__uop *const *to)
{
    tn__space *s = &k->sp;
    for (int i = 0; i < k->nstage; i++) k->stage[i].value = tn__uop_subst(s, k->stage[i].value, to);
    for (int i = 0; i < k->nstore; i++) {
        tn__kstore *st = &k->store[i];
        st->value = tn__uop_subst(s, st->value, to);
        if (st->gate) st->gate = gate_of(tn__uop_subst(s, st->gate, to));
        for (int j = 0; j < k->buf[st->buf].rank; j++)
            st->idx[j] = tn__uop_subst(s, st->idx[j], to);
    }
    for (int i = 0; i < TN__MAX_RANGES; i++)
        if (k->bound[i]) k->bound[i] = tn__uop_subst(s, k->bound[i], to);
    return !s->failed;
}

static tn__uop *replace_in(tn__space *s, tn__uop *root, const tn__uop *old, tn__uop *by)
{
    tn__uop **order, **map;
    size_t n;
    if (!tn__uop_topo(s, &root, 1, &order, &n)) return root;
    map = tn__arena_zero(s->arena, ((size_t)s->next_id + 1) * sizeof *map);
    if (!map) {
        s->failed = true;
        return root;
    }
    for (size_t i = 0; i < n; i++) {
        tn__uop *u = order[i];
        bool changed = false;
        for (int j = 0; j < u->nsrc; j++) changed |= map[u->src[j]->id] != u->src[j];
        map[u->id] = u == old ? by : u;
        if (u == old || !changed) continue;
        tn__uop **src = tn__arena_alloc(s->arena, (size_t)u->nsrc * sizeof *src);
        if (!src) {
            s->failed = true;
            return root;
        }
        for (int j = 0; j < u->nsrc; j++) src[j] = map[u->src[j]->id];
        map[u->id] = tn__uop_with(s, u, src);
    }
    return map[root->id];
}

bool tn__kernel_replace(tn__kernel *k, const tn__uop *old, tn__uop *by)
{
    for (int i = 0; i < k->nstage; i++)
        k->stage[i].value = replace_in(&k->sp, k->stage[i].value, old, by);
    for (int i = 0; i < k->nstore; i++) {
        tn__kstore *st = &k->store[i];
        st->value = replace_in(&k->sp, st->value, old, by);
        if (st->gate) st->gate = replace_in(&k->sp, st->gate, old, by);
        for (int j = 0; j < k->buf[st->buf].rank; j++)
            st->idx[j] = replace_in(&k->sp, st->idx[j], old, by);
    }
    return !k->sp.failed;
}

tn__uop *tn__load_node(tn__space *s, tn_dtype dt, int buf, tn__uop *const *idx, int rank,
                       tn__uop *gate)
{
    tn__uop *src[TN__MAX_RANGES + 2];
    memcpy(src, idx, (size_t)rank * sizeof *src);
    src[rank] = gate;
    const int64_t arg[2] = {buf, gate != NULL};
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_LOAD,
                                          .dt = dt,
                                          .narg = 2,
                                          .arg = arg,
                                          .nsrc = rank + (gate != NULL),
                                          .src = src});
}

/* Loads of buffer `from`, one at a time since one may stand in another's index, become loads of `to`, which none
 * reads yet. */
static bool renumber(tn__kernel *k, int from, int to)
{
    for (;;) {
        tn__uop **order, *load = NULL;
        size_t n;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        for (size_t i = 0; i < n && !load; i++)
            if (order[i]->op == TN_OP_LOAD && order[i]->arg[0] == from) load = order[i];
        if (!load) break;
        const int64_t arg[3] = {to, load->arg[1], load->narg > 2 ? load->arg[2] : 0};
        tn__uop *v = tn__uop_get(&k->sp, &(tn__uop_desc){.op = TN_OP_LOAD,
                                                         .dt = (tn_dtype)load->dt,
                                                         .narg = load->narg,
                                                         .arg = arg,
                                                         .nsrc = load->nsrc,
                                                         .src = load->src});
        if (!tn__kernel_replace(k, load, v)) return false;
    }
    for (int i = 0; i < k->nstore; i++)
        if (k->store[i].buf == from) k->store[i].buf = to;
    return true;
}

bool tn__kernel_drop_buffers(tn__kernel *k)
{
    tn__uop **order;
    size_t n;
    bool used[TN__KBUFS] = {false};
    int next = 0;
    if (!tn__kernel_topo(k, &order, &n)) return false;
    for (size_t i = 0; i < n; i++)
        if (order[i]->op == TN_OP_LOAD) used[order[i]->arg[0]] = true;
    for (int i = 0; i < k->nstore; i++) used[k->store[i].buf] = true;
    for (int i = 0; i < k->nbuf; i++) {
        if (!used[i]) continue;
        if (i != next && !renumber(k, i, next)) return false;
        k->buf[next++] = k->buf[i];
    }
    k->nbuf = next;
    return true;
}

/* ---- flatten ---- */

static tn__uop *flat(tn__kernel *k, const tn__kbuf *b, tn__uop *const *idx)
{
    tn__uop *x = tn__ix_const(&k->sp, 0);
    for (int i = 0; i < b->rank; i++)
        x = tn__ix_add(&k->sp, x, tn__ix_mulc(&k->sp, idx[i], b->strides[i]));
    return b->offset ? tn__ix_add(&k->sp, x, b->offset) : x;
}

bool tn__opt_flatten(tn__kernel *k)
{
    static const int64_t one = 1;
    tn__space *s = &k->sp;
    for (;;) { /* a load may stand in another's index: innermost first, one at a time */
        tn__uop **order, *load = NULL;
        size_t n;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        for (size_t i = 0; i < n && !load; i++)
            if (order[i]->op == TN_OP_LOAD && order[i]->narg == 2) load = order[i];
        if (!load) break;
        const tn__kbuf *b = &k->buf[load->arg[0]];
        tn__uop *src[2] = {flat(k, b, load->src), load->arg[1] ? load->src[load->nsrc - 1] : NULL};
        const int64_t arg[3] = {load->arg[0], load->arg[1], 1};
        tn__uop *v = tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_LOAD,
                                                    .dt = (tn_dtype)load->dt,
                                                    .narg = 3,
                                                    .arg = arg,
                                                    .nsrc = src[1] ? 2 : 1,
                                                    .src = src});
        if (s->failed || !tn__kernel_replace(k, load, v)) return false;
    }
    for (int i = 0; i < k->nstore; i++) {
        tn__kstore *st = &k->store[i];
        const tn__kbuf *b = &k->buf[st->buf];
        tn__uop *x = flat(k, b, st->idx);
        if (!b->rank) {
            st->idx = tn__arena_alloc(s->arena, sizeof *st->idx);
            if (!st->idx) return false;
        }
        st->idx[0] = x;
    }
    for (int i = 0; i < k->nbuf; i++) {
        k->buf[i].rank = 1;
        k->buf[i].strides = &one;
        k->buf[i].offset = NULL;
    }
    return !s->failed;
}

/* ---- merge ---- */

static bool joined_in(const tn__uop *x, const tn__uop *a, const tn__uop *b)
{
    int64_t ka = 0, kb = 0;
    for (int i = 0; i < x->nsrc; i++) {
        if (x->src[i] == a) ka = x->arg[1 + i];
        if (x->src[i] == b) kb = x->arg[1 + i];
    }
    return ka == kb * tn__range_size(b);
}

static bool used_as_one(tn__uop **order, size_t n, const tn__uop *a, const tn__uop *b,
                        uint64_t *reds)
{
    for (size_t i = 0; i < n; i++) {
        const tn__uop *u = order[i];
        bool has_a = false, has_b = false;
        if (!(u->deps & (a->deps | b->deps)) && u->op != TN_OP_REDUCE) continue;
        if (u->op == TN_OP_AFFINE) {
            if (!joined_in(u, a, b)) return false;
            continue;
        }
        for (int j = 0; j < u->nsrc; j++) {
            has_a |= u->src[j] == a;
            has_b |= u->src[j] == b;
        }
        if (u->op == TN_OP_SCAN && (has_a || has_b)) return false;
        if (has_a != has_b) return false;
        *reds += has_a;
    }
    return true;
}

static bool merge_pair(tn__kernel *k, tn__uop *a, tn__uop *b, tn__uop **joined)
{
    tn__space *s = &k->sp;
    tn__uop *to[TN__MAX_RANGES] = {0};
    tn__uop *c = tn__range(s, tn__range_size(a) * tn__range_size(b), tn__range_kind(a));
    if (s->failed) return false;
    tn__uop *x = tn__ix_atom(s, c);
    to[tn__range_num(a)] = tn__ix_divc(s, x, tn__range_size(b));
    to[tn__range_num(b)] = tn__ix_modc(s, x, tn__range_size(b));
    *joined = c;
    return tn__kernel_subst(k, to);
}

static bool merge_outputs(tn__kernel *k)
{
    for (int i = 0; i + 1 < k->nout;) {
        tn__uop **order, *a = k->out[i], *b = k->out[i + 1], *c;
        size_t n;
        uint64_t reds = 0;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        if (k->sp.nranges + 8 > TN__MAX_RANGES || tn__range_kind(a) != TN__AXIS_LOOP ||
            tn__range_kind(b) != TN__AXIS_LOOP || !used_as_one(order, n, a, b, &reds) || reds) {
            i++;
            continue;
        }
        if (!merge_pair(k, a, b, &c)) return false;
        k->out[i] = c;
        memmove(k->out + i + 1, k->out + i + 2, (size_t)(k->nout - i - 2) * sizeof *k->out);
        k->nout--;
        if (i) i--;
    }
    return true;
}

static bool merge_reduces(tn__kernel *k, bool *again)
{
    tn__uop **order;
    size_t n;
    *again = false;
    if (!tn__kernel_topo(k, &order, &n)) return false;
    for (size_t i = 0; i < n && k->sp.nranges + 8 <= TN__MAX_RANGES; i++) {
        const tn__uop *r = order[i];
        if (r->op != TN_OP_REDUCE) continue;
        for (int j = 1; j + 1 < r->nsrc; j++) {
            uint64_t reds = 0;
            tn__uop *c;
            if (!used_as_one(order, n, r->src[j], r->src[j + 1], &reds) || reds != 1) continue;
            *again = true;
            return merge_pair(k, r->src[j], r->src[j + 1], &c);
        }
    }
    return true;
}

bool tn__opt_merge(tn__kernel *k)
{
    bool again = true;
    if (!merge_outputs(k)) return false;
    while (again)
        if (!merge_reduces(k, &again)) return false;
    return true;
}

/* ---- split ---- */

static int out_place(const tn__kernel *k, const tn__uop *r)
{
    for (int i = 0; i < k->nout; i++)
        if (k->out[i] == r) return i;
    return -1;
}

void tn__opt_order(tn__kernel *k, const tn__uop *r, int at)
{
    int i = out_place(k, r);
    if (i < 0) return;
    tn__uop *x = k->out[i];
    for (; i > at; i--) k->out[i] = k->out[i - 1];
    for (; i < at; i++) k->out[i] = k->out[i + 1];
    k->out[at] = x;
}

/* Masks what a shifted tile of a reduction sees twice: ADD: both factors of a product (or the value) to 0.
 * MAX and MIN may see an element twice. */
static bool mask_overlap(tn__kernel *k, const tn__uop *r, tn__uop *fresh)
{
    tn__uop **order;
    size_t n;
    tn__space *s = &k->sp;
    if (!fresh) return true;
    if (!tn__kernel_topo(k, &order, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        tn__uop *u = order[i];
        bool own = false;
        for (int j = 1; j < u->nsrc; j++) own |= u->op == TN_OP_REDUCE && u->src[j] == r;
        if (!own || u->arg[0] == TN_OP_MAX || u->arg[0] == TN_OP_MIN) continue;
        tn__uop *v = u->src[0],
                *zero = tn__kconst(s, (tn_dtype)v->dt,
                                   tn__reduce_identity((tn__op)u->arg[0], (tn_dtype)v->dt));
        if (u->arg[0] == TN_OP_ADD && v->op == TN_OP_MUL) {
            tn__uop *a = tn__k3(s, TN_OP_WHERE, (tn_dtype)v->dt, fresh, v->src[0], zero);
            tn__uop *b = tn__k3(s, TN_OP_WHERE, (tn_dtype)v->dt, fresh, v->src[1], zero);
            v = tn__k2(s, TN_OP_MUL, (tn_dtype)v->dt, a, b);
        } else {
            v = tn__k3(s, TN_OP_WHERE, (tn_dtype)v->dt, fresh, v, zero);
        }
        tn__uop *src[TN__MAX_RANGES];
        memcpy(src, u->src, (size_t)u->nsrc * sizeof *src);
        src[0] = v;
        tn__uop *w = tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_REDUCE,
                                                    .dt = (tn_dtype)u->dt,
                                                    .narg = u->narg,
                                                    .arg = u->arg,
                                                    .nsrc = u->nsrc,
                                                    .src = src});
        return tn__kernel_replace(k, u, w);
    }
    return true;
}

bool tn__opt_split(tn__kernel *k, tn__uop *r, int64_t n, tn__axis_kind kind, tn__uop **tile)
{
    tn__space *s = &k->sp;
    tn__uop *to[TN__MAX_RANGES] = {0};
    const int64_t size = tn__range_size(r), tiles = (size + n - 1) / n;
    const int at = out_place(k, r);
    tn__uop *u = tn__range(s, n, kind),
            *t = tiles > 1 ? tn__range(s, tiles, tn__range_kind(r)) : NULL;
    if (s->failed) return false;
    tn__uop *x = tn__ix_atom(s, u);
    if (t) {
        tn__uop *base = tn__ix_mulc(s, tn__ix_atom(s, t), n);
        tn__uop *first = size % n ? tn__ix_minc(s, base, size - n) : base;
        /* new elements of the tile: u >= base - first */
        if (at < 0 && size % n) {
            tn__uop *d = tn__ix_add(s, base, tn__ix_mulc(s, first, -1));
            d = tn__ix_add(s, d, tn__ix_mulc(s, x, -1));
            d->lo = -n;
            d->hi = n;
            if (!mask_overlap(k, r, tn__ix_lt(s, d, 1))) return false;
        }
        x = tn__ix_add(s, first, x);
    }
    to[tn__range_num(r)] = x;
    if (!tn__kernel_subst(k, to)) return false;
    if (at >= 0) {
        if (t) {
            k->out[at] = t;
            k->out[k->nout++] = u;
        } else {
            memmove(k->out + at, k->out + at + 1, (size_t)(k->nout - at - 1) * sizeof *k->out);
            k->out[k->nout - 1] = u;
        }
    }
    static const char *const names[] = {"LOOP",   "GRID",   "REDUCE", "ORDER",
                                        "UPCAST", "UNROLL", "VECTOR"};
    tn__buf_printf(&k->opts, "%s%s r%d %" PRId64 "%s", k->opts.len ? "; " : "", names[kind],
                   (int)tn__range_num(r), n, size % n ? " SHIFT" : "");
    if (tile) *tile = t;
    return !s->failed;
}

bool tn__opt_grid(tn__kernel *k, tn__uop *r, int64_t parts)
{
    tn__space *s = &k->sp;
    tn__uop *to[TN__MAX_RANGES] = {0};
    const int64_t size = tn__range_size(r), chunk = (size + parts - 1) / parts;
    const int at = out_place(k, r);
    if (at < 0) return true;
    parts = (size + chunk - 1) / chunk;
    tn__uop *g = tn__range(s, parts, TN__AXIS_GRID);
    tn__uop *i = chunk > 1 ? tn__range(s, chunk, tn__range_kind(r)) : NULL;
    if (s->failed) return false;
    tn__uop *x = tn__ix_mulc(s, tn__ix_atom(s, g), chunk);
    if (i) {
        if (size % chunk)
            k->bound[tn__range_num(i)] = tn__ix_addc(s, tn__ix_mulc(s, x, -1),
                                                     size); /* size - g * chunk */
        x = tn__ix_add(s, x, tn__ix_atom(s, i));
    }
    to[tn__range_num(r)] = x;
    if (!tn__kernel_subst(k, to)) return false;
    memmove(k->out + 1, k->out, (size_t)k->nout * sizeof *k->out);
    k->nout++;
    k->out[0] = g;
    if (i)
        k->out[at + 1] = i;
    else {
        memmove(k->out + at + 1, k->out + at + 2, (size_t)(k->nout - at - 2) * sizeof *k->out);
        k->nout--;
    }
    tn__buf_printf(&k->opts, "%sGRID r%d %" PRId64, k->opts.len ? "; " : "", (int)tn__range_num(r),
                   parts);
    return true;
}
