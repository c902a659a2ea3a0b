/* SPDX-License-Identifier: MIT */
/*
 * The heuristic for contractions: lanes along the output axis that costs least, a register tile over axes that the
 * lane operand does not depend on, short reduce axes unrolled, operands staged where they would be read with
 * strides or masks.  Nothing here depends on the number of threads: bits must not.
 */
#include "codegen/heur.h"
#include <math.h>
#include <string.h>

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

/* Time of one output in vector operations if the lanes lie along r: multiply-adds, the copy where the operand is
 * staged, the store. */
static double lane_cost(heur *h, const product *p, const tn__uop *r)
{
    const double L = h->lanes, R = reduce_size(p->red) * (double)h->window, n = (double)size(r);
    if (n < L / 2) return 1e30;
    const double lanes = n < L ? n : L; /* a half vector where the axis is short */
    double width = L;
    while (width > lanes) width /= 2;
    const double useful = n / (ceil(n / width) * width);
    const bool contiguous = tn__h_store_stride(h->k, r) == 1;
    double staged = 0; /* copied elements an output vector, two operations each */
    tn__uop *operand = depends(p->a, r) ? p->a : p->b, *load = tn__h_sole_load(h->k, operand);
    if (load && tn__h_load_stride(h->k, load, r) != 1) {
        double outs = 1;
        for (int i = 0; i < h->k->nout; i++) outs *= (double)size(h->k->out[i]);
        staged = 2 * tn__nest_size(&h->k->sp, load->deps) * width / outs;
    }
    return (R + staged + (contiguous ? 1 : 2 * width)) / (width * useful);
}

enum { PRIVATE_BYTES = 256 << 10, PRIVATE_SHARE = 12, PRIVATE_GROUPS = 16 };

/* No load stands in its indices, and it has no gate. */
static bool plain_index(heur *h, const tn__uop *load)
{
    tn__uop **order;
    size_t n;
    if (load->arg[1] || !tn__uop_topo(&h->k->sp, load->src, load->nsrc, &order, &n)) return false;
    for (size_t i = 0; i < n; i++)
        if (order[i]->op == TN_OP_LOAD) return false;
    return true;
}

/* The operand's border of zeros: copied by each work-group for each iteration of the outermost loop, where that is
 * a small part of the work and the operand need not be contiguous along the lanes; else once. */
static bool pad_operand(heur *h, tn__uop *operand, bool lanes)
{
    tn__kernel *k = h->k;
    tn__uop *load = tn__h_sole_load(k, operand), *outer = k->nout ? k->out[0] : NULL;
    if (!load || !load->arg[1]) return true;
    if (!lanes && outer && size(outer) >= PRIVATE_GROUPS && depends(load, outer)) {
        const double numel = (double)tn__opt_box_size(k, load, outer);
        if (numel > 0 && numel * (double)tn__dtype_size((tn_dtype)load->dt) <= PRIVATE_BYTES &&
            k->ops / h->lanes / (double)size(outer) >= PRIVATE_SHARE * numel)
            return tn__opt_private_box(k, load, outer);
    }
    return tn__opt_pad(h->s, k, load);
}

/* Loops of outputs, then the reduction's, then register copies, lanes last: the order in which a staged load is
 * read.  All ranges that it depends on but work-groups; returns how many. */
static int layout(heur *h, tn__uop *load, tn__uop **ranges)
{
    static const tn__axis_kind order[] = {TN__AXIS_LOOP, TN__AXIS_REDUCE, TN__AXIS_UNROLL,
                                          TN__AXIS_UPCAST, TN__AXIS_VECTOR};
    tn__kernel *k = h->k;
    tn__uop **all, *of[TN__MAX_RANGES];
    size_t count;
    int n = 0, m = 0;
    if (!tn__kernel_topo(k, &all, &count)) return 0;
    for (int i = 0; i < k->nout; i++)
        if (depends(load, k->out[i])) of[m++] = k->out[i];
    for (size_t i = 0; i < count; i++) /* this reduction, and a window around it */
        for (int j = 1; all[i]->op == TN_OP_REDUCE && j < all[i]->nsrc; j++)
            if (depends(load, all[i]->src[j])) of[m++] = all[i]->src[j];
    for (size_t o = 0; o < TN_LEN(order); o++)
        for (int i = 0; i < m; i++)
            if (tn__range_kind(of[i]) == order[o]) ranges[n++] = of[i];
    return n;
}

/* The lane operand in the order in which it is read, unless it is contiguous along the lanes already. */
static bool stage_lanes(heur *h, tn__uop *operand, tn__uop *lane)
{
    tn__kernel *k = h->k;
    tn__uop *load = tn__h_sole_load(k, operand), *ranges[TN__MAX_RANGES];
    int n = 0;
    if (!load || tn__h_load_stride(k, load, lane) == 1) return true;
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
    const double numel = tn__nest_size(&h->k->sp, load->deps);
    bool divides = false;
    for (int i = 0; i < k->nout; i++) divides |= !depends(load, k->out[i]) && size(k->out[i]) >= 2;
    double wanted = k->ops / GROUP_OPS;
    if (wanted > PRIVATE_GROUPS) wanted = PRIVATE_GROUPS;
    if (tn__h_load_stride(k, load, lane) == 1 || !divides || !plain_index(h, load) ||
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
    if (!find_product(h, &p)) return true;
    tn__uop *load = tn__h_sole_load(k, a_lane ? p.a : p.b);
    if (!load) return true;
    for (int i = 0; i < k->nout; i++)
        if (tn__range_kind(k->out[i]) == TN__AXIS_LOOP && !depends(load, k->out[i]) &&
            (!first || size(k->out[i]) > size(first)) && (!first || size(first) < 8))
            first = k->out[i];
    if (first && !tn__h_grid(h, first, k->ops / h->lanes / (PRIVATE_SHARE * (double)numel)))
        return false;
    if (!find_product(h, &p) || !(load = tn__h_sole_load(k, a_lane ? p.a : p.b))) return true;
    return tn__opt_private(k, load, ranges, layout(h, load, ranges));
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
        if (n < 2 || copies * n > 40) return true;
        copies *= n;
        if (!tn__opt_split(h->k, last, n, TN__AXIS_UNROLL, NULL)) return false;
    }
    return true;
}

/* Loops that what a private array holds depends on: one array cannot serve several register copies of them. */
static uint64_t held(const tn__kernel *k)
{
    uint64_t m = 0;
    for (int i = 0; i < k->nstage; i++) {
        uint64_t own = 0;
        for (int j = 0; j < k->stage[i].n; j++) own |= k->stage[i].range[j]->deps;
        m |= k->stage[i].value->deps & ~own;
    }
    return m;
}

/* Register axes: outputs the lane operand does not depend on, those innermost in the other operand first. */
static bool register_tile(heur *h, uint64_t lane_deps, int64_t budget, int64_t *copies)
{
    tn__kernel *k = h->k;
    const uint64_t not = lane_deps | held(k);
    for (int i = k->nout - 1; i >= 0 && budget > 1 && room(k); i--) {
        tn__uop *r = k->out[i];
        if (tn__range_kind(r) != TN__AXIS_LOOP || (not &r->deps)) continue;
        const int64_t n = tile_of(size(r), budget);
        if (n < 2) continue;
        if (!tn__opt_split(k, r, n, TN__AXIS_UPCAST, NULL)) return false;
        budget /= n;
        *copies *= n;
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

/* A small window of reductions around the product, such as a pool, becomes register copies.  False in *fits: there
 * is another reduction that does not. */
static bool open_window(heur *h, product *p, bool *fits)
{
    int others;
    tn__uop *w = other_reduction(h, p->red, &others);
    *fits = others <= 1 && (!w || reduce_size(w) <= 16);
    if (!*fits) return true;
    h->window = w ? (int64_t)reduce_size(w) : 1;
    for (int i = 1; w && i < w->nsrc; i++) {
        if (tn__range_kind(w->src[i]) != TN__AXIS_REDUCE) continue;
        if (!tn__opt_split(h->k, w->src[i], size(w->src[i]), TN__AXIS_UPCAST, NULL) ||
            !find_product(h, p))
            return false;
        w = other_reduction(h, p->red, &others);
        i = 0;
    }
    return true;
}

static tn__uop *best_lane(heur *h, const product *p, double *cost)
{
    tn__uop *lane = NULL;
    *cost = 1e29;
    for (int i = 0; i < h->k->nout; i++) {
        tn__uop *r = h->k->out[i];
        if (depends(p->a, r) == depends(p->b, r)) continue;
        const double c = lane_cost(h, p, r);
        if (c >= *cost) continue;
        *cost = c;
        lane = r;
    }
    return lane;
}

/* Splits the lane axis; *v: vectors side by side; *tile: the loop that is left, or NULL. */
static bool split_lane(heur *h, tn__uop *lane, int64_t *v, tn__uop **tile)
{
    int64_t n = h->lanes;
    while (n > size(lane)) n /= 2;
    *v = 1;
    if (size(lane) < 2 * n || (size(lane) < 8 * n && (size(lane) + n - 1) / n % 2))
        return tn__opt_split(h->k, lane, n, TN__AXIS_VECTOR, tile);
    *v = 2; /* both at once, so that the last tile is shifted once */
    return tn__opt_split(h->k, lane, 2 * n, TN__AXIS_UPCAST, tile) &&
           tn__opt_split(h->k, h->k->out[h->k->nout - 1], n, TN__AXIS_VECTOR, NULL);
}

enum { PANEL_BYTES = 128 << 10, PANEL_ROWS = 96 };

/* A large lane operand that many rows of outputs read is copied in panels, one a tile of lanes, so that the inner loop
 * reads it in order; the loop over panels goes outermost and each stays in the cache. */
static bool panels(heur *h, bool a_lane, tn__uop *tile)
{
    tn__kernel *k = h->k;
    product p;
    tn__uop *ranges[TN__MAX_RANGES], *rows = NULL;
    if (!tile || !find_product(h, &p)) return true;
    tn__uop *load = tn__h_sole_load(k, a_lane ? p.a : p.b);
    if (!load || !plain_index(h, load) ||
        tn__nest_size(&k->sp, load->deps) * (double)tn__dtype_size((tn_dtype)load->dt) <
            PANEL_BYTES)
        return true;
    double outs = 1;
    for (int i = 0; i < k->nout; i++) {
        if (depends(load, k->out[i])) continue;
        outs *= (double)size(k->out[i]);
        if (tn__range_kind(k->out[i]) == TN__AXIS_LOOP && (!rows || size(k->out[i]) > size(rows)))
            rows = k->out[i];
    }
    if (outs < PANEL_ROWS || !rows) return true;
    const int n = layout(h, load, ranges);
    if (n > TN_MAX_RANK) return true;
    tn__opt_order(k, tile, 0);
    return tn__h_grid(h, rows, outs / PANEL_ROWS) && tn__opt_stage(h->s, k, load, ranges, n);
}

enum { BLOCK_BYTES = 256 << 10 };

/* Blocks of r, equal ones, so that `bytes` divided by them stay in the cache; 0: there are none. */
static int64_t blocks_of(const tn__uop *r, double bytes)
{
    const int64_t n = size(r);
    for (int64_t b = (int64_t)ceil(bytes / BLOCK_BYTES); b <= n / 2; b++)
        if (n % b == 0) return b;
    return 0;
}

bool tn__h_partial(heur *h)
{
    tn__kernel *k = h->k;
    product p;
    double cost, outs = 1, rows = 1;
    int others;
    if (tn__h_in_order(k) || !find_product(h, &p)) return true;
    tn__uop *lane = best_lane(h, &p, &cost), *operand = lane && depends(p.a, lane) ? p.a : p.b;
    const double numel = tn__nest_size(&k->sp, operand->deps);
    const double bytes = numel * (double)tn__dtype_size((tn_dtype)operand->dt);
    if (!lane || other_reduction(h, p.red, &others) || bytes < 4 * BLOCK_BYTES) return true;
    for (int i = 0; i < k->nout; i++) {
        if (depends(p.red, k->out[i])) outs *= (double)size(k->out[i]);
        if (!depends(operand, k->out[i])) rows *= (double)size(k->out[i]);
    }
    for (int i = 1; i < p.red->nsrc && rows >= PANEL_ROWS; i++) {
        const tn__uop *r = p.red->src[i];
        const int64_t blocks = depends(p.a, r) && depends(p.b, r) ? blocks_of(r, bytes) : 0;
        if (blocks && outs * (double)blocks <= numel / 2)
            return tn__opt_partial(h->s, k, p.red, r, blocks);
    }
    return true;
}

/* Lanes along `lane`, registers over the rest. */
static bool tile_lanes(heur *h, product p, tn__uop *lane)
{
    tn__kernel *k = h->k;
    const bool a_lane = depends(p.a, lane);
    tn__uop *whole = tn__h_sole_load(k, a_lane ? p.a : p.b), *tile;
    const int64_t own = whole ? private_size(h, whole, lane) : 0;
    const bool in_order = whole && tn__h_load_stride(k, whole, lane) == 1;
    int64_t v;
    if (!own && !stage_lanes(h, a_lane ? p.a : p.b, lane)) return false;
    if (!split_lane(h, lane, &v, &tile) || !find_product(h, &p)) return false;
    int64_t copies = v * h->window;
    const uint64_t lane_deps = (a_lane ? p.a : p.b)->deps;
    const int64_t budget = (h->regs - v - 2) / (v * h->window);
    if (!register_tile(h, lane_deps, budget, &copies)) return false;
    if (in_order && !panels(h, a_lane, tile)) return false;
    if (!unroll(h, copies)) return false;
    return own ? private_lanes(h, a_lane, own) : tn__h_grid(h, NULL, MAX_GROUPS);
}

bool tn__h_contraction(heur *h, bool *done)
{
    tn__kernel *k = h->k;
    product p;
    double cost;
    bool fits;
    *done = false;
    if (tn__h_in_order(k) || !find_product(h, &p) || k->ops < 4096) return true;
    if (!open_window(h, &p, &fits)) return false;
    if (!fits) return true;
    tn__uop *lane = best_lane(h, &p, &cost);
    for (int i = 0; i < 2; i++) {
        tn__uop *operand = i ? p.b : p.a;
        if (!pad_operand(h, operand, !lane || depends(operand, lane))) return false;
        if (!find_product(h, &p)) return true;
    }
    tn__uop *along = tn__h_contiguous(h, p.red);
    if (along && along_cost(h, &p, along) < cost) {
        int64_t n = 1;
        *done = true;
        return tn__opt_split(k, along, h->lanes, TN__AXIS_VECTOR, NULL) &&
               register_tile(h, 0, 8, &n) && tn__h_grid(h, NULL, MAX_GROUPS);
    }
    *done = lane != NULL;
    return !lane || tile_lanes(h, p, lane);
}
