/* SPDX-License-Identifier: MIT */
/*
 * The heuristic: which opts a kernel gets, from its shape and the target's lanes, registers and caches.
 *
 * Three kinds of kernel:
 *  - a contraction (a sum of products whose factors are reused): contract.c
 *  - a reduction without reuse: lanes along the reduced axis if that is contiguous, else along the outputs
 *  - the rest: lanes along the contiguous output axis
 * Nothing here depends on the number of threads: bits must not.
 */
#include "codegen/emit.h"
#include "codegen/heur.h"
#include <math.h>
#include <string.h>

/* ---- facts ---- */

bool tn__h_in_order(const tn__kernel *k) /* writes what it reads, or runs in order: no shifting */
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

int64_t tn__h_load_stride(const tn__kernel *k, const tn__uop *load, const tn__uop *r)
{
    return stride_of(k, &k->buf[load->arg[0]], load->src, r);
}

int64_t tn__h_store_stride(const tn__kernel *k, const tn__uop *r)
{
    return stride_of(k, &k->buf[k->store[0].buf], k->store[0].idx, r);
}

/* The one load under u, NULL if there are more or none. */
tn__uop *tn__h_sole_load(tn__kernel *k, tn__uop *u)
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
            k->ops += tn__nest_size(&k->sp, u->src[0]->deps | u->deps);
        else if (c == TN_CLASS_UNARY || c == TN_CLASS_BINARY || c == TN_CLASS_COMPARE ||
                 c == TN_CLASS_TERNARY)
            k->ops += tn__nest_size(&k->sp, u->deps);
        else if (u->op == TN_OP_LOAD)
            k->ops += 0.25 * tn__nest_size(&k->sp, u->deps);
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

/* Divides the outermost output loop into `most` parts at the most; `first`: the one to take, or NULL. */
bool tn__h_grid(heur *h, tn__uop *first, double most)
{
    tn__kernel *k = h->k;
    tn__uop *r = first;
    for (int i = 0; i < k->nout; i++)
        if (tn__range_kind(k->out[i]) == TN__AXIS_GRID) return true; /* it is divided */
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
            score += tn__h_load_stride(h->k, u, r) == 1 ? 1 : -1.5;
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
    const bool shift = !tn__h_in_order(k);
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
    if ((!tn__h_in_order(h->k) && !split_divided(h)) || !lanes_out(h, 0)) return false;
    tn__uop *first = NULL;
    for (int i = 0; i < h->k->nout; i++)
        if (tn__range_kind(h->k->out[i]) == TN__AXIS_ORDER) return true;
    return tn__h_grid(h, first, MAX_GROUPS);
}

/* A reduction's own range along which its loads are contiguous, or NULL. */
tn__uop *tn__h_contiguous(heur *h, tn__uop *red)
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
            if (tn__h_load_stride(h->k, order[j], r) == 1)
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
    if (!unroll_small(h) || (!tn__h_in_order(k) && !split_divided(h))) return false;
    for (bool again = true; again && room(k);) {
        tn__uop **order;
        size_t n;
        again = false;
        if (!tn__kernel_topo(k, &order, &n)) return false;
        for (size_t i = 0; i < n && !again; i++) {
            tn__uop *red = order[i];
            if (red->op != TN_OP_REDUCE) continue;
            tn__uop *r = has_lanes(red) ? NULL : tn__h_contiguous(h, red), *tile;
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
    return tn__h_grid(h, NULL, MAX_GROUPS);
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
        if (!tn__h_partial(&h)) return false;
        estimate(k);
        if (!tn__h_contraction(&h, &done)) return false;
        if (done) return tn__opt_flatten(k);
    }
    if (!tn__opt_flatten(k) || !tn__opt_merge(k)) return false;
    if (h.lanes < 4 || !t->simd_bytes) return tn__h_grid(&h, NULL, MAX_GROUPS);
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
