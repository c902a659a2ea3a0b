/* SPDX-License-Identifier: MIT */
/*
 * The heuristic: which opts a kernel gets, from its shape and the target's lanes, registers and caches.
 *
 * Three kinds of kernel:
 *  - a contraction (a sum of products whose factors are reused): lanes along the output axis that costs
 *    least, a register tile over axes the lane operand does not depend on, short reduce axes unrolled,
 *    operands staged where they would be read with strides or masks
 *  - a reduction without reuse: lanes along the reduced axis if that is contiguous, else along the outputs
 *  - the rest: lanes along the contiguous output axis
 * Nothing here depends on the number of threads: bits must not.
 */
#include "codegen/emit.h"
#include "codegen/opts.h"
#include <math.h>
#include <string.h>

typedef struct {
    tn__schedule *s;
    tn__kernel *k;
    const tn__codegen_target *t;
    int lanes, regs;
    int64_t window; /* register copies of a small reduction around the contraction */
} heur;

static int64_t size(const tn__uop *r) { return tn__range_size(r); }
static bool room(const tn__kernel *k) { return k->sp.nranges + 12 <= TN__MAX_RANGES; }

/* ---- facts ---- */

static bool in_order(const tn__kernel *k) /* writes what it reads, or runs in order: no shifting */
{
    for (int i = 0; i < k->nbuf; i++)
        if ((k->buf[i].access & (TNP_ACCESS_READ | TNP_ACCESS_WRITE)) ==
            (TNP_ACCESS_READ | TNP_ACCESS_WRITE))
            return true;
    for (int i = 0; i < k->nout; i++)
        if (tn__range_kind(k->out[i]) == TN__AXIS_ORDER) return true;
    for (int i = 0; i < k->nbuf; i++)
        for (int j = 0; j < k->nbuf; j++)
            if (i != j && k->buf[i].plan == k->buf[j].plan && (k->buf[i].access & TNP_ACCESS_WRITE))
                return true;
    return false;
}

/* Distance in elements between neighbours along a range in a load's buffer; -1: not a fixed one. */
static int64_t stride_of(const tn__kernel *k, const tn__kbuf *b, tn__uop *const *idx,
                         const tn__uop *r)
{
    int64_t total = 0;
    (void)k;
    for (int i = 0; i < b->rank; i++) {
        bool other;
        total += b->strides[i] * tn__ix_coef(idx[i], tn__range_num(r), &other);
        if (other) return -1;
    }
    return total < 0 ? -1 : total;
}

static int64_t load_stride(const tn__kernel *k, const tn__uop *load, const tn__uop *r)
{
    return stride_of(k, &k->buf[load->arg[0]], load->src, r);
}

static int64_t store_stride(const tn__kernel *k, const tn__uop *r)
{
    return stride_of(k, &k->buf[k->store[0].buf], k->store[0].idx, r);
}

/* The one load under u, NULL if there are more or none. */
static tn__uop *sole_load(tn__kernel *k, tn__uop *u)
{
    tn__uop **order, *load = NULL;
    size_t n;
    if (!tn__uop_topo(&k->sp, &u, 1, &order, &n)) return NULL;
    for (size_t i = 0; i < n; i++) {
        if (order[i]->op == TN_OP_REDUCE) return NULL;
        if (order[i]->op != TN_OP_LOAD) continue;
        if (load) return NULL;
        load = order[i];
    }
    return load;
}

static double nest_size(tn__kernel *k, uint64_t mask)
{
    double c = 1;
    for (size_t i = 0; i < k->sp.cap && mask; i++) {
        const tn__uop *r = k->sp.table[i];
        if (!r || r->op != TN_OP_RANGE || !(mask & r->deps)) continue;
        c *= (double)size(r);
        mask &= ~r->deps;
    }
    return c;
}

static void estimate(tn__kernel *k)
{
    tn__uop **order;
    size_t n;
    k->ops = k->bytes = 0;
    if (!tn__kernel_topo(k, &order, &n)) return;
    for (size_t i = 0; i < n; i++) {
        const tn__uop *u = order[i];
        const tn__class c = tn__ops[u->op].cls;
        if (u->op == TN_OP_REDUCE)
            k->ops += nest_size(k, u->src[0]->deps | u->deps);
        else if (c == TN_CLASS_UNARY || c == TN_CLASS_BINARY || c == TN_CLASS_COMPARE ||
                 c == TN_CLASS_TERNARY)
            k->ops += nest_size(k, u->deps);
        else if (u->op == TN_OP_LOAD)
            k->ops += 0.25 * nest_size(k, u->deps);
    }
    for (int i = 0; i < k->nstore; i++) {
        double c = 1;
        for (int j = 0; j < k->nout; j++) c *= (double)size(k->out[j]);
        k->ops += c;
    }
    if (k->root->op == TN_OP_SORT) k->ops = tn__sort_ops(k);
    for (int i = 0; i < k->nbuf; i++) {
        double e = (double)(k->buf[i].numel ? k->buf[i].numel : 1);
        if (!k->buf[i].numel)
            for (int j = 0; j < k->buf[i].rank; j++) e *= (double)k->buf[i].dims[j];
        k->bytes += e * (double)tn__dtype_size(k->buf[i].dt);
    }
}

/* ---- work-groups ---- */

enum { GROUP_OPS = 60000, MAX_GROUPS = 64 };

/* Divides the outermost output loop into `most` parts at the most; `first`: the one to take, or NULL. */
static bool grid(heur *h, tn__uop *first, double most)
{
    tn__kernel *k = h->k;
    tn__uop *r = first;
    if (k->ops < 2 * GROUP_OPS || !room(k)) return true;
    for (int i = 0; i < k->nout && !r; i++)
        if (tn__range_kind(k->out[i]) == TN__AXIS_LOOP && size(k->out[i]) >= 8) r = k->out[i];
    for (int i = 0; i < k->nout && !r; i++)
        if (tn__range_kind(k->out[i]) == TN__AXIS_LOOP && size(k->out[i]) > 1) r = k->out[i];
    if (!r || tn__range_kind(r) != TN__AXIS_LOOP) return true;
    double parts = floor(k->ops / GROUP_OPS);
    if (parts > MAX_GROUPS) parts = MAX_GROUPS;
    if (parts > floor(most)) parts = floor(most);
    if (parts > (double)size(r)) parts = (double)size(r);
    return parts < 2 || tn__opt_grid(k, r, (int64_t)parts);
}

/* ---- kernels without reuse ---- */

static int widest(const tn__kernel *k)
{
    size_t w = 1;
    for (int i = 0; i < k->nbuf; i++)
        if (tn__dtype_size(k->buf[i].dt) > w) w = tn__dtype_size(k->buf[i].dt);
    return (int)(w < 4 ? 4 : w);
}

/* What lanes along r would gain: contiguous loads and stores, and arithmetic; what they would lose: an access
 * a lane, index arithmetic a lane. */
static double lane_gain(heur *h, const tn__uop *r)
{
    tn__uop **order;
    size_t n;
    double score = 0;
    if (!tn__kernel_topo(h->k, &order, &n)) return -1;
    for (size_t i = 0; i < n; i++) {
        const tn__uop *u = order[i];
        const tn__class c = tn__ops[u->op].cls;
        if (!(u->deps >> tn__range_num(r) & 1)) continue;
        if (u->op == TN_OP_LOAD)
            score += load_stride(h->k, u, r) == 1 ? 1 : -1.5;
        else if (u->narg == 1 && u->nsrc == 1 && u->src[0]->op == TN_OP_AFFINE)
            score -= 0.5; /* div, mod, compare */
        else if (c == TN_CLASS_UNARY || c == TN_CLASS_BINARY || c == TN_CLASS_COMPARE ||
                 c == TN_CLASS_TERNARY)
            score += 0.4;
    }
    for (int i = 0; i < h->k->nstore; i++) {
        const tn__kstore *st = &h->k->store[i];
        const int64_t x = stride_of(h->k, &h->k->buf[st->buf], st->idx, r);
        score += x == 1 ? 2 : -2;
    }
    return score;
}

/* Lanes for an axis: all, or fewer where it is short. */
static int64_t lanes_for(const heur *h, const tn__uop *r)
{
    int64_t n = h->lanes;
    while (n > 4 && size(r) < n) n /= 2;
    return n;
}

/* Lanes along the output axis that gains most, none of `taken`. */
static bool lanes_out(heur *h, uint64_t taken)
{
    tn__kernel *k = h->k;
    const bool shift = !in_order(k);
    tn__uop *best = NULL;
    double score = 0;
    for (int i = 0; i < k->nout; i++) {
        tn__uop *r = k->out[i];
        const int64_t n = lanes_for(h, r);
        if (tn__range_kind(r) != TN__AXIS_LOOP || size(r) < n || (taken & r->deps)) continue;
        if (!shift && size(r) % n) continue;
        const double useful = (double)size(r) / (ceil((double)size(r) / (double)n) * (double)n);
        const double c = lane_gain(h, r) * useful * (double)n;
        if (c > score) {
            score = c;
            best = r;
        }
    }
    return !best || !room(k) || tn__opt_split(k, best, lanes_for(h, best), TN__AXIS_VECTOR, NULL);
}

/* Index arithmetic by a constant goes away when the axis is split by it. */
static bool split_divided(heur *h)
{
    tn__kernel *k = h->k;
    for (int pass = 0; pass < 4 && room(k); pass++) {
        tn__uop **order, *r = NULL;
        size_t n;
        int64_t c = 0;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        for (size_t i = 0; i < n && !r; i++) {
            const tn__uop *u = order[i];
            if ((u->op != TN_OP_IDIV && u->op != TN_OP_IMOD) || u->narg != 1 ||
                u->src[0]->op != TN_OP_AFFINE)
                continue;
            c = u->arg[0];
            for (int j = 0; j < k->nout && !r; j++) {
                bool other;
                if (tn__range_kind(k->out[j]) == TN__AXIS_LOOP && c <= 4 &&
                    size(k->out[j]) % c == 0 &&
                    tn__ix_coef(u->src[0], tn__range_num(k->out[j]), &other) == 1 && !other)
                    r = k->out[j];
            }
        }
        if (!r) return true;
        if (!tn__opt_split(k, r, c, TN__AXIS_UPCAST, NULL)) return false;
    }
    return true;
}

static bool elementwise(heur *h)
{
    if ((!in_order(h->k) && !split_divided(h)) || !lanes_out(h, 0)) return false;
    tn__uop *first = NULL;
    for (int i = 0; i < h->k->nout; i++)
        if (tn__range_kind(h->k->out[i]) == TN__AXIS_ORDER) return true;
    return grid(h, first, MAX_GROUPS);
}

/* A reduction's own range along which its loads are contiguous, or NULL. */
static tn__uop *contiguous_range(heur *h, tn__uop *red)
{
    tn__uop **order;
    size_t n;
    if (!tn__uop_topo(&h->k->sp, &red->src[0], 1, &order, &n)) return NULL;
    for (int i = red->nsrc - 1; i >= 1; i--) {
        tn__uop *r = red->src[i];
        int good = 0, bad = 0;
        if (tn__range_kind(r) != TN__AXIS_REDUCE || size(r) < h->lanes) continue;
        for (size_t j = 0; j < n; j++) {
            if (order[j]->op != TN_OP_LOAD || !(order[j]->deps >> tn__range_num(r) & 1)) continue;
            if (load_stride(h->k, order[j], r) == 1)
                good++;
            else
                bad++;
        }
        if (good > bad) return r;
    }
    return NULL;
}

static bool has_lanes(const tn__uop *red)
{
    for (int j = 1; j < red->nsrc; j++)
        if (tn__range_kind(red->src[j]) == TN__AXIS_VECTOR) return true;
    return false;
}

/* A value has lanes along one axis at most: may `red` get them along r? */
static bool one_lane_axis(tn__uop **order, size_t n, const tn__uop *red, const tn__uop *r)
{
    for (size_t i = 0; i < n; i++) {
        const tn__uop *u = order[i];
        if (u->op == TN_OP_REDUCE && u != red && has_lanes(u) && (u->deps & r->deps)) return false;
        if (u->op == TN_OP_RANGE && tn__range_kind(u) == TN__AXIS_VECTOR && (red->deps & u->deps))
            return false;
    }
    return true;
}

/* Reductions of a few elements without loops. */
static bool unroll_small(heur *h)
{
    tn__kernel *k = h->k;
    for (bool again = true; again && room(k);) {
        tn__uop **order;
        size_t n;
        again = false;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        for (size_t i = 0; i < n && !again; i++) {
            tn__uop *red = order[i];
            double c = 1;
            if (red->op != TN_OP_REDUCE) continue;
            for (int j = 1; j < red->nsrc; j++) c *= (double)size(red->src[j]);
            for (int j = 1; c <= 16 && j < red->nsrc && !again; j++) {
                if (tn__range_kind(red->src[j]) != TN__AXIS_REDUCE) continue;
                if (!tn__opt_split(k, red->src[j], size(red->src[j]), TN__AXIS_UNROLL, NULL))
                    return false;
                again = true;
            }
        }
    }
    return true;
}

/* Lanes along reduced axes, each reduction for itself; then the outputs. */
static bool rows(heur *h)
{
    tn__kernel *k = h->k;
    bool any = false;
    if (!unroll_small(h) || (!in_order(k) && !split_divided(h))) return false;
    for (bool again = true; again && room(k);) {
        tn__uop **order;
        size_t n;
        again = false;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        for (size_t i = 0; i < n && !again; i++) {
            tn__uop *red = order[i];
            if (red->op != TN_OP_REDUCE) continue;
            tn__uop *r = has_lanes(red) ? NULL : contiguous_range(h, red), *tile;
            if (!r || !one_lane_axis(order, n, red, r)) continue;
            if (!tn__opt_split(k, r, h->lanes, TN__AXIS_VECTOR, &tile)) return false;
            if (tile && size(tile) % 4 == 0 && room(k) && size(tile) >= 8 &&
                !tn__opt_split(k, tile, 4, TN__AXIS_UPCAST, NULL))
                return false;
            any = again = true;
        }
    }
    /* outputs may have lanes where no vector reduction depends on that axis */
    uint64_t taken = 0;
    tn__uop **order;
    size_t n;
    if (!tn__kernel_topo(k, &order, &n)) return false;
    for (size_t i = 0; i < n; i++)
        if (order[i]->op == TN_OP_REDUCE && any) taken |= order[i]->deps;
    if (!lanes_out(h, taken)) return false;
    return grid(h, NULL, MAX_GROUPS);
}

/* ---- contractions ---- */

typedef struct {
    tn__uop *red, *a, *b; /* REDUCE(ADD, a * b) */
} product;

static bool find_product(heur *h, product *p)
{
    tn__uop **order;
    size_t n;
    p->red = NULL;
    if (!tn__kernel_topo(h->k, &order, &n)) return false;
    for (size_t i = 0; i < n; i++) {
        tn__uop *u = order[i];
        if (u->op != TN_OP_REDUCE || u->arg[0] != TN_OP_ADD || u->src[0]->op != TN_OP_MUL) continue;
        tn__uop *a = u->src[0]->src[0], *b = u->src[0]->src[1];
        uint64_t out = 0;
        for (int j = 0; j < h->k->nout; j++) out |= h->k->out[j]->deps;
        const uint64_t oa = a->deps & out, ob = b->deps & out;
        if (!(oa & ~ob) && !(ob & ~oa)) continue;
        *p = (product){u, a, b};
        return true;
    }
    return false;
}

/* The other reduction of the kernel; *n: how many there are. */
static tn__uop *other_reduction(heur *h, const tn__uop *red, int *n)
{
    tn__uop **order, *other = NULL;
    size_t count;
    *n = 0;
    if (!tn__kernel_topo(h->k, &order, &count)) return NULL;
    for (size_t i = 0; i < count; i++)
        if (order[i]->op == TN_OP_REDUCE && order[i] != red) {
            other = order[i];
            ++*n;
        }
    return other;
}

static double reduce_size(const tn__uop *red)
{
    double c = 1;
    for (int i = 1; i < red->nsrc; i++) c *= (double)size(red->src[i]);
    return c;
}

static bool depends(const tn__uop *u, const tn__uop *r) { return u->deps & r->deps; }

/* Time of one output in vector operations if the lanes lie along r (loops.md, 6.4, with the store's cost). */
static double lane_cost(heur *h, const product *p, const tn__uop *r)
{
    const double L = h->lanes, R = reduce_size(p->red) * (double)h->window, n = (double)size(r);
    if (n < L / 2) return 1e30;
    const double lanes = n < L ? n : L; /* a half vector where the axis is short */
    double width = L;
    while (width > lanes) width /= 2;
    const double useful = n / (ceil(n / width) * width);
    const bool contiguous = store_stride(h->k, r) == 1;
    double staged = 0; /* copied elements an output vector, two operations each */
    tn__uop *operand = depends(p->a, r) ? p->a : p->b, *load = sole_load(h->k, operand);
    if (load && load_stride(h->k, load, r) != 1) {
        double outs = 1;
        for (int i = 0; i < h->k->nout; i++) outs *= (double)size(h->k->out[i]);
        staged = 2 * nest_size(h->k, load->deps) * width / outs;
    }
    return (R + staged + (contiguous ? 1 : 2 * width)) / (width * useful);
}

enum { PRIVATE_BYTES = 256 << 10, PRIVATE_SHARE = 12, PRIVATE_GROUPS = 16 };

/* No load stands in its indices. */
static bool plain_index(const tn__uop *load)
{
    for (int i = 0; i < load->nsrc; i++)
        for (int j = 0; j < load->src[i]->nsrc; j++)
            if (load->src[i]->src[j]->op != TN_OP_RANGE) return false;
    return !load->arg[1];
}

/* The operand's border of zeros: copied by each work-group for each iteration of the outermost loop, where that is
 * a small part of the work and the operand need not be contiguous along the lanes; else once. */
static bool pad_operand(heur *h, tn__uop *operand, bool lanes)
{
    tn__kernel *k = h->k;
    tn__uop *load = sole_load(k, operand), *outer = k->nout ? k->out[0] : NULL;
    bool done;
    if (!load || !load->arg[1]) return true;
    if (!lanes && outer && size(outer) >= PRIVATE_GROUPS && depends(load, outer)) {
        const double numel = (double)tn__opt_box_size(k, load, outer);
        if (numel > 0 && numel * (double)tn__dtype_size((tn_dtype)load->dt) <= PRIVATE_BYTES &&
            k->ops / h->lanes / (double)size(outer) >= PRIVATE_SHARE * numel)
            return tn__opt_private_box(k, load, outer);
    }
    return tn__opt_pad(h->s, k, load, &done);
}

/* The lane operand in the order in which it is read, unless it is contiguous along the lanes already. */
static bool stage_lanes(heur *h, tn__uop *operand, tn__uop *lane)
{
    tn__kernel *k = h->k;
    tn__uop *load = sole_load(k, operand), *ranges[TN__MAX_RANGES];
    int n = 0;
    if (!load || load_stride(k, load, lane) == 1) return true;
    for (int i = 0; i < k->nout; i++)
        if (depends(load, k->out[i]) && k->out[i] != lane) ranges[n++] = k->out[i];
    product p;
    if (!find_product(h, &p)) return true;
    for (int i = 1; i < p.red->nsrc; i++)
        if (depends(load, p.red->src[i])) ranges[n++] = p.red->src[i];
    ranges[n++] = lane;
    return tn__opt_stage(h->s, k, load, ranges, n);
}

/* Elements of the lane operand if each work-group had better copy it for itself, else 0: it is small, some output
 * loop that it does not depend on divides the work, and copying is a small part of that. */
static int64_t private_size(heur *h, const tn__uop *load, const tn__uop *lane)
{
    const tn__kernel *k = h->k;
    const double numel = nest_size(h->k, load->deps);
    bool divides = false;
    for (int i = 0; i < k->nout; i++) divides |= !depends(load, k->out[i]) && size(k->out[i]) >= 2;
    double wanted = k->ops / GROUP_OPS;
    if (wanted > PRIVATE_GROUPS) wanted = PRIVATE_GROUPS;
    if (load_stride(k, load, lane) == 1 || !divides || !plain_index(load) ||
        numel * (double)tn__dtype_size((tn_dtype)load->dt) > PRIVATE_BYTES ||
        k->ops / h->lanes < PRIVATE_SHARE * numel * wanted)
        return 0;
    return (int64_t)numel;
}

/* Divides an output loop that the staged load does not depend on, then copies the load for each group. */
static bool private_lanes(heur *h, bool a_lane, int64_t numel)
{
    tn__kernel *k = h->k;
    tn__uop *ranges[TN__MAX_RANGES], *first = NULL;
    product p;
    int n = 0;
    if (!find_product(h, &p)) return true;
    tn__uop *load = sole_load(k, a_lane ? p.a : p.b);
    if (!load) return true;
    for (int i = 0; i < k->nout; i++)
        if (tn__range_kind(k->out[i]) == TN__AXIS_LOOP && !depends(load, k->out[i]) &&
            (!first || size(k->out[i]) > size(first)) && (!first || size(first) < 8))
            first = k->out[i];
    if (first && !grid(h, first, k->ops / h->lanes / (PRIVATE_SHARE * (double)numel))) return false;
    if (!find_product(h, &p) || !(load = sole_load(k, a_lane ? p.a : p.b))) return true;
    static const tn__axis_kind order[] = {TN__AXIS_LOOP, TN__AXIS_REDUCE, TN__AXIS_UNROLL,
                                          TN__AXIS_UPCAST, TN__AXIS_VECTOR};
    for (size_t o = 0; o < TN_LEN(order); o++) {
        for (int i = 0; i < k->nout; i++)
            if (depends(load, k->out[i]) && tn__range_kind(k->out[i]) == order[o])
                ranges[n++] = k->out[i];
        for (int i = 1; i < p.red->nsrc; i++)
            if (depends(load, p.red->src[i]) && tn__range_kind(p.red->src[i]) == order[o])
                ranges[n++] = p.red->src[i];
    }
    return tn__opt_private(k, load, ranges, n);
}

/* Largest tile of an axis of n within `most`: a divisor if a good one exists, else a shifted one. */
static int64_t tile_of(int64_t n, int64_t most)
{
    if (n <= most) return n;
    int64_t best = 1;
    double score = 0;
    for (int64_t u = 2; u <= most; u++) {
        const double useful = (double)n / (ceil((double)n / (double)u) * (double)u);
        const double s = useful * (double)u / ((double)u + 1.5);
        if (s > score) {
            score = s;
            best = u;
        }
    }
    return best;
}

static bool unroll(heur *h, int64_t copies)
{
    for (int step = 0; step < 2 && room(h->k); step++) {
        product p;
        if (!find_product(h, &p)) return true;
        tn__uop *last = p.red->src[p.red->nsrc - 1];
        for (int i = p.red->nsrc - 1; i >= 1; i--) {
            last = p.red->src[i];
            if (tn__range_kind(last) == TN__AXIS_REDUCE) break;
        }
        if (tn__range_kind(last) != TN__AXIS_REDUCE) return true;
        int64_t n = size(last) <= 4 ? size(last) : step == 0 && size(last) % 4 == 0 ? 4 : 1;
        if (n < 2 || copies * n > 200) return true;
        copies *= n;
        if (!tn__opt_split(h->k, last, n, TN__AXIS_UNROLL, NULL)) return false;
    }
    return true;
}

/* Register axes: outputs the lane operand does not depend on, those innermost in the other operand first. */
static bool register_tile(heur *h, uint64_t lane_deps, int64_t budget, int64_t *copies, bool shift)
{
    tn__kernel *k = h->k;
    for (int i = k->nout - 1; i >= 0 && budget > 1 && room(k); i--) {
        tn__uop *r = k->out[i];
        if (tn__range_kind(r) != TN__AXIS_LOOP || (lane_deps & r->deps)) continue;
        int64_t n = tile_of(size(r), budget);
        if (!shift)
            while (size(r) % n) n--;
        if (n < 2) continue;
        if (!tn__opt_split(k, r, n, TN__AXIS_UPCAST, NULL)) return false;
        budget /= n;
        *copies *= n;
        i = k->nout < i ? k->nout : i;
    }
    return true;
}

/* The same with lanes along a reduced axis: sums across lanes at the end, two loads a multiply-add. */
static double along_cost(heur *h, const product *p, const tn__uop *r)
{
    const double L = h->lanes, n = (double)size(r);
    const double useful = n / (ceil(n / L) * L);
    return reduce_size(p->red) / (L * useful) * 1.3 + L / 2;
}

static bool contraction(heur *h, bool *done)
{
    tn__kernel *k = h->k;
    product p;
    *done = false;
    int others;
    if (in_order(k) || !find_product(h, &p) || k->ops < 4096) return true;
    tn__uop *window = other_reduction(h, p.red, &others);
    if (others > 1 || (window && reduce_size(window) > 16)) return true;
    h->window = window ? (int64_t)reduce_size(window) : 1;
    for (int i = 1; window && i < window->nsrc; i++) {
        if (tn__range_kind(window->src[i]) != TN__AXIS_REDUCE) continue;
        if (!tn__opt_split(k, window->src[i], size(window->src[i]), TN__AXIS_UPCAST, NULL) ||
            !find_product(h, &p))
            return false;
        window = other_reduction(h, p.red, &others);
        i = 0;
    }
    tn__uop *lane = NULL;
    double best = 1e29;
    for (int i = 0; i < k->nout; i++) {
        tn__uop *r = k->out[i];
        if (depends(p.a, r) == depends(p.b, r)) continue;
        const double c = lane_cost(h, &p, r);
        if (c < best) {
            best = c;
            lane = r;
        }
    }
    for (int i = 0; i < 2; i++) {
        tn__uop *operand = i ? p.b : p.a;
        if (!pad_operand(h, operand, !lane || depends(operand, lane))) return false;
        if (!find_product(h, &p)) return true;
    }
    tn__uop *along = contiguous_range(h, p.red);
    if (along && along_cost(h, &p, along) < best) {
        int64_t n = 1;
        *done = true;
        return tn__opt_split(k, along, h->lanes, TN__AXIS_VECTOR, NULL) &&
               register_tile(h, 0, 8, &n, true) && grid(h, NULL, MAX_GROUPS);
    }
    if (!lane) return true;
    const bool a_lane = depends(p.a, lane);
    tn__uop *whole = sole_load(k, a_lane ? p.a : p.b);
    const int64_t own = whole ? private_size(h, whole, lane) : 0;
    if (!own && !stage_lanes(h, a_lane ? p.a : p.b, lane)) return false;
    if (!find_product(h, &p)) return false;
    uint64_t lane_deps = (a_lane ? p.a : p.b)->deps;
    int64_t L = h->lanes, v = 1, copies = 1;
    while (L > size(lane)) L /= 2;
    tn__uop *tile;
    if (!tn__opt_split(k, lane, L, TN__AXIS_VECTOR, &tile)) return false;
    if (tile && size(tile) % 2 == 0) {
        v = 2;
        if (!tn__opt_split(k, tile, 2, TN__AXIS_UPCAST, NULL)) return false;
    }
    copies = v * h->window;
    if (!find_product(h, &p)) return false;
    lane_deps = (a_lane ? p.a : p.b)->deps;
    const int64_t budget = (h->regs - v - 2) / (v * h->window);
    if (!register_tile(h, lane_deps, budget, &copies, true) || !unroll(h, copies)) return false;
    *done = true;
    return own ? private_lanes(h, a_lane, own) : grid(h, NULL, MAX_GROUPS);
}

/* ---- all ---- */

static bool has_reduce(tn__kernel *k)
{
    tn__uop **order;
    size_t n;
    if (!tn__kernel_topo(k, &order, &n)) return false;
    for (size_t i = 0; i < n; i++)
        if (order[i]->op == TN_OP_REDUCE) return true;
    return false;
}

/* A running reduction has one accumulator: its kernel stays as it is. */
static bool has_scan(tn__kernel *k)
{
    for (size_t i = 0; i < k->sp.cap; i++)
        if (k->sp.table[i] && k->sp.table[i]->op == TN_OP_SCAN) return true;
    return false;
}

static bool optimise_one(tn__schedule *s, tn__kernel *k, const tn__codegen_target *t)
{
    heur h = {.s = s,
              .k = k,
              .t = t,
              .lanes = (int)t->simd_bytes / widest(k),
              .regs = (int)t->simd_regs,
              .window = 1};
    bool done = false;
    if (k->copy) return true;
    estimate(k);
    if (t->noopt || has_scan(k) || k->root->op == TN_OP_SORT) return true;
    if (h.lanes > 16) h.lanes = 16;
    if (t->simd_bytes && h.lanes >= 4 && room(k)) {
        if (!contraction(&h, &done)) return false;
        if (done) return tn__opt_flatten(k);
    }
    if (!tn__opt_flatten(k) || !tn__opt_merge(k)) return false;
    if (h.lanes < 4 || !t->simd_bytes) return grid(&h, NULL, MAX_GROUPS);
    return has_reduce(k) ? rows(&h) : elementwise(&h);
}

bool tn__optimise(tn__schedule *s, const tn__codegen_target *t)
{
    for (int i = 0; i < s->nkernel; i++) {
        tn__kernel *k = s->kernel[i];
        const int before = s->nkernel;
        if (!optimise_one(s, k, &t[k->dev])) return false;
        if (s->nkernel > before)
            i = -1; /* new kernels stand before k: look for those not yet seen */
        k->optimised = true;
        while (i + 1 < s->nkernel && s->kernel[i + 1]->optimised) i++;
    }
    return true;
}
