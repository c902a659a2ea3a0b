/* SPDX-License-Identifier: MIT */
/*
 * Gradient rules of the ops that combine or move elements by value: reductions, scans, gather,
 * scatter, writes through windows.  Exact where factors are zero and where an index comes twice.
 */
#include "tensor/gradient.h"

/* ---- pieces ---- */

/* iota along the axis of a tensor of y's shape, in an integer dtype that holds its size. */
static tn__node *positions(const tn__node *like, int axis)
{
    return tn__iota(like->dims[axis] > INT32_MAX ? TN_I64 : TN_I32, axis, like->dims, like->rank);
}

/* x one place up the axis, the first place filled with `fill`. */
static tn__node *shifted(tn__node *x, int axis, double fill)
{
    if (!x) return NULL;
    int64_t before[TN_MAX_RANK] = {0}, none[TN_MAX_RANK] = {0}, size[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) size[i] = x->dims[i];
    size[axis]--;
    before[axis] = 1;
    tn__node *up = tn__pad(tn__shrink(x, none, size), before, none);
    tn__node *at = positions(x, axis);
    return tn__where(at ? gr_eq(at, tn__const_like(at, 0)) : NULL, tn__const_like(x, fill), up);
}

/* Axis moved to the end; `back` undoes it. */
static tn__node *axis_last(tn__node *x, int axis, int *back)
{
    if (!x) return NULL;
    int order[TN_MAX_RANK], n = 0;
    for (int i = 0; i < x->rank; i++)
        if (i != axis) order[n++] = i;
    order[n] = axis;
    for (int i = 0; i < x->rank; i++) back[order[i]] = i;
    return tn__permute(x, order);
}

/* ---- reductions ---- */

/* Axes of the mask moved to the end and made one: (rest, n). */
typedef struct {
    int order[TN_MAX_RANK], back[TN_MAX_RANK];
    int64_t moved[TN_MAX_RANK], flat[2];
    int rank;
} rows;

static rows rows_of(const tn__node *x, unsigned axes)
{
    rows r = {.rank = x->rank, .flat = {1, 1}};
    int n = 0;
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < x->rank; i++)
            if ((axes >> i & 1) == (unsigned)pass) {
                r.order[n++] = i;
                r.flat[pass] *= x->dims[i];
            }
    for (int i = 0; i < x->rank; i++) {
        r.back[r.order[i]] = i;
        r.moved[i] = x->dims[r.order[i]];
    }
    return r;
}

static tn__node *to_rows(const rows *r, tn__node *x)
{
    return tn__reshape(tn__permute(x, r->order), r->flat, 2);
}

static tn__node *from_rows(const rows *r, tn__node *x)
{
    x = tn__reshape(x, r->moved, r->rank);
    return x ? tn__permute(x, r->back) : NULL;
}

/* For each element the product of the others: products of what stands before times of what stands
 * after. */
static tn__node *product_of_others(tn__node *x, unsigned axes)
{
    rows r = rows_of(x, axes);
    tn__node *v = to_rows(&r, x);
    if (!v) return NULL;
    if (r.flat[1] < 2) return tn__const_like(x, 1);
    tn__node *before = shifted(tn__scan(TN_OP_MUL, v, 1), 1, 1);
    tn__node *after = tn__flip(v, 2);
    after = tn__flip(shifted(tn__scan(TN_OP_MUL, after, 1), 1, 1), 2);
    return from_rows(&r, gr_mul(before, after));
}

void tn__vjp_reduce(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    tn__node *x = y->src[0];
    unsigned axes = (unsigned)y->argv[1];
    if (y->argv[0] == TN_OP_ADD) {
        out[0] = tn__gr_expand_as(g, x);
    } else if (y->argv[0] == TN_OP_MUL) {
        out[0] = gr_mul(tn__gr_expand_as(g, x), product_of_others(x, axes));
    } else {
        tn_dtype dt = tn__dtype_sum((tn_dtype)x->dt);
        tn__node *hit = gr_eq(x, tn__gr_expand_as(y, x));
        tn__node *count = tn__cast(tn__reduce(TN_OP_ADD, tn__cast(hit, dt), axes), (tn_dtype)x->dt);
        out[0] = gr_only(hit, tn__gr_expand_as(gr_div(g, count), x));
    }
}

/* ---- scans ---- */

static tn__node *scan_add_back(tn__node *g, int axis)
{
    if (!g) return NULL;
    tn_dtype dt = (tn_dtype)g->dt;
    tn__node *s = tn__flip(tn__cast(g, tn__dtype_sum(dt)), 1u << axis);
    return tn__cast(tn__flip(tn__scan(TN_OP_ADD, s, axis), 1u << axis), dt);
}

/* (rows, k, i): the product of x_0 to x_i without x_k, where i >= k; times g_i, summed over i. */
static tn__node *scan_mul_back(tn__node *x, tn__node *g)
{
    const int64_t n = x->dims[1], col[] = {x->dims[0], 1, n}, all[] = {x->dims[0], n, n};
    tn_dtype it = n > INT32_MAX ? TN_I64 : TN_I32;
    tn__node *k = tn__iota(it, 1, all, 3), *i = tn__iota(it, 2, all, 3);
    tn__node *wide = tn__expand(tn__reshape(x, col, 3), all, 3);
    if (!wide) return NULL;
    tn__node *without = tn__where(gr_eq(k, i), tn__const_like(wide, 1), wide);
    tn__node *p = tn__scan(TN_OP_MUL, without, 2);
    tn__node *gi = tn__expand(tn__reshape(g, col, 3), all, 3);
    tn__node *later = tn__unary(TN_OP_NOT, tn__binary(TN_OP_LT, i, k));
    return tn__reshape(tn__gr_sum(gr_only(later, gr_mul(gi, p)), 4), x->dims, 2);
}

/* Each g_i goes to the latest element that reached the running extreme. */
static tn__node *scan_extreme_back(tn__node *x, tn__node *y, tn__node *g)
{
    tn__node *at = positions(x, 1);
    if (!at) return NULL;
    tn__node *top = tn__where(gr_eq(x, y), at, tn__const_like(at, 0));
    tn__node *from = tn__scan(TN_OP_MAX, top, 1);
    const int64_t b[] = {x->dims[0], x->dims[1], 1};
    tn__node *base = tn__const_f((tn_dtype)g->dt, 0, b, 3);
    return tn__reshape(tn__scatter(TN_OP_ADD, base, from, tn__reshape(g, b, 3)), x->dims, 2);
}

void tn__vjp_scan(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    int axis = (int)y->argv[1], back[TN_MAX_RANK];
    if (y->argv[0] == TN_OP_ADD) {
        out[0] = scan_add_back(g, axis);
        return;
    }
    tn__node *x = axis_last(y->src[0], axis, back);
    if (!x || !g) return;
    int64_t moved[TN_MAX_RANK], flat[2] = {1, x->dims[x->rank - 1]};
    for (int i = 0; i < x->rank; i++) {
        moved[i] = x->dims[i];
        if (i + 1 < x->rank) flat[0] *= x->dims[i];
    }
    int rank = x->rank;
    x = tn__reshape(x, flat, 2);
    g = tn__reshape(axis_last(g, axis, back), flat, 2);
    if (!x || !g) return;
    tn__node *d;
    if (y->argv[0] == TN_OP_MUL)
        d = scan_mul_back(x, g);
    else
        d = scan_extreme_back(x, tn__reshape(axis_last(y, axis, back), flat, 2), g);
    d = tn__reshape(d, moved, rank);
    out[0] = d ? tn__permute(d, back) : NULL;
}

/* ---- by index ---- */

/* Where each row receives one index a compare with iota is enough; else the rows are added up. */
void tn__vjp_gather(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    (void)want;
    tn__node *x = y->src[0], *idx = y->src[1];
    if (idx->dims[1] != 1) {
        out[0] = tn__scatter(TN_OP_ADD, tn__const_like(x, 0), idx, g);
        return;
    }
    tn_dtype it = (tn_dtype)idx->dt;
    uint64_t rows_n = (uint64_t)x->dims[1];
    if (rows_n && rows_n - 1 > tn__dtype_int_max(it)) it = rows_n > INT32_MAX ? TN_I64 : TN_I32;
    const int64_t one[] = {x->dims[0], 1, 1};
    tn__node *at = tn__gr_expand_as(tn__reshape(tn__cast(idx, it), one, 3), x);
    out[0] = gr_only(gr_eq(tn__iota(it, 1, x->dims, 3), at), tn__gr_expand_as(g, x));
}

/* (B, N, P) bool: index n is the last one of its row that writes there. */
static tn__node *last_writer(tn__node *base, tn__node *idx, tn__node *src)
{
    tn_dtype it = src->dims[1] > INT32_MAX ? TN_I64 : TN_I32;
    const int64_t b[] = {base->dims[0], base->dims[1], 1}, s[] = {src->dims[0], src->dims[1], 1};
    tn__node *n = tn__iota(it, 1, s, 3);
    tn__node *who = tn__scatter(TN_OP_CONST, tn__const_i(it, 0, b, 3), idx, n);
    return tn__gr_expand_as(gr_eq(tn__gather(who, idx), n), src);
}

/* Products at an index, zeros apart: y = p z, with p the product of what is not 0 and z that of the zeros, 1
 * where there are none.  Without one factor f that is (p / f) z for f != 0, and p where f is the only
 * zero.  z is kept as a function of the zeros, so that second derivatives see it. */
static void scatter_mul_back(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *base = y->src[0], *idx = y->src[1], *src = y->src[2];
    tn__node *b1 = tn__const_like(base, 1), *s1 = tn__const_like(src, 1);
    if (want & 1) out[0] = gr_mul(g, tn__scatter(TN_OP_MUL, b1, idx, src));
    if (!(want & 4) || !b1 || !s1) return;
    tn_dtype dt = tn__dtype_sum((tn_dtype)src->dt);
    tn__node *b0 = gr_eq(base, tn__const_like(base, 0)), *s0 = gr_eq(src, tn__const_like(src, 0));
    tn__node *p = tn__scatter(TN_OP_MUL, tn__where(b0, b1, base), idx, tn__where(s0, s1, src));
    tn__node *z = tn__scatter(TN_OP_MUL, tn__where(b0, base, b1), idx, tn__where(s0, src, s1));
    tn__node *zeros = tn__scatter(TN_OP_ADD, tn__cast(b0, dt), idx, tn__cast(s0, dt));
    p = tn__gather(gr_mul(g, p), idx);
    zeros = tn__gather(zeros, idx);
    tn__node *only = zeros ? gr_eq(zeros, tn__const_like(zeros, 1)) : NULL;
    tn__node *rest = gr_mul(gr_div(p, tn__where(s0, s1, src)), tn__gather(z, idx));
    out[2] = tn__where(s0, gr_only(only, p), rest);
}

/* What equals the extreme shares its gradient. */
static void scatter_extreme_back(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *base = y->src[0], *idx = y->src[1], *src = y->src[2];
    tn_dtype dt = tn__dtype_sum((tn_dtype)src->dt);
    tn__node *b = gr_eq(base, y), *s = gr_eq(src, tn__gather(y, idx));
    tn__node *n = tn__scatter(TN_OP_ADD, tn__cast(b, dt), idx, tn__cast(s, dt));
    tn__node *share = gr_div(g, tn__cast(n, (tn_dtype)y->dt));
    if (want & 1) out[0] = gr_only(b, share);
    if (want & 4) out[2] = gr_only(s, tn__gather(share, idx));
}

void tn__vjp_scatter(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *base = y->src[0], *idx = y->src[1], *src = y->src[2];
    if (y->argv[0] == TN_OP_MUL) {
        scatter_mul_back(y, g, want, out);
        return;
    }
    if (y->argv[0] == TN_OP_MAX || y->argv[0] == TN_OP_MIN) {
        scatter_extreme_back(y, g, want, out);
        return;
    }
    bool set = y->argv[0] == TN_OP_CONST;
    if (want & 1) out[0] = set ? tn__scatter(TN_OP_CONST, g, idx, tn__const_like(src, 0)) : g;
    if (!(want & 4)) return;
    tn__node *from = tn__gather(g, idx);
    out[2] = set ? gr_only(last_writer(base, idx, src), from) : from;
}

/* The old value is seen where the view is not, the new one where it is. */
void tn__vjp_update(tn__node *y, tn__node *g, unsigned want, tn__node **out)
{
    tn__node *old = y->src[0], *value = y->src[1], *view = y->src[2];
    tn__node *over = tn__chain_over(view, old, g);
    if (want & 1) out[0] = over ? tn__update(g, tn__const_like(value, 0), over) : NULL;
    if (want & 2) out[1] = over;
}
