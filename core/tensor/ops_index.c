/* SPDX-License-Identifier: MIT */
/*
 * Indexing: integers and slices as movement, integer tensors as GATHER, writing as SCATTER.
 *
 * Negative indices count from the end; the wrap is a WHERE.  A tensor index out of range reads 0 and the
 * next sync reports it.  GATHER and SCATTER see (B, V, P) and (B, N); no one-hot sum is ever built.
 */
#include "tensor/ops.h"
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

/* ---- integers, slices, new axes ---- */

typedef struct {
    int64_t first[TN_MAX_RANK], span[TN_MAX_RANK]; /* what SHRINK keeps */
    int64_t step[TN_MAX_RANK], count[TN_MAX_RANK];
    bool gone[TN_MAX_RANK]; /* an integer: the axis goes */
} cut;

static bool cut_at(const tn__node *x, int axis, int64_t at, cut *c)
{
    int64_t n = x->dims[axis], i = at < 0 ? at + n : at;
    if (i < 0 || i >= n)
        return tn__fail(TN_EINDEX, "index: %lld along axis %d of %s: must be in %lld..%lld",
                        (long long)at, axis, text(x), (long long)-n, (long long)n - 1);
    c->first[axis] = i;
    c->span[axis] = c->count[axis] = c->step[axis] = 1;
    c->gone[axis] = true;
    return true;
}

/* Python's rules: ends are clipped, negative ones count from the end; a step beyond the axis is one beyond it. */
static void cut_slice(const tn__node *x, int axis, const tn__index_item *it, cut *c)
{
    int64_t n = x->dims[axis], lo = it->start, hi = it->stop, count;
    const int64_t step = it->step ? tn__clip(it->step, -n - 1, n + 1) : 1;
    if (it->has_start && lo < 0) lo += n;
    if (it->has_stop && hi < 0) hi += n;
    if (step > 0) {
        lo = it->has_start ? tn__clip(lo, 0, n) : 0;
        hi = it->has_stop ? tn__clip(hi, 0, n) : n;
        count = hi > lo ? (hi - lo - 1) / step + 1 : 0;
        c->first[axis] = lo;
    } else {
        lo = it->has_start ? tn__clip(lo, -1, n - 1) : n - 1;
        hi = it->has_stop ? tn__clip(hi, -1, n - 1) : -1;
        count = lo > hi ? (lo - hi - 1) / -step + 1 : 0;
        c->first[axis] = count ? lo + (count - 1) * step : 0;
    }
    int64_t gap = step < 0 ? -step : step;
    c->step[axis] = count > 1 ? step : 1;
    c->count[axis] = count;
    c->span[axis] = count ? (count - 1) * gap + 1 : 0;
}

/* Every |step|-th element of an axis: a window of one. */
static tn__node *every(tn__node *x, int axis, int64_t step, int64_t count)
{
    if (!x || step == 1) return x;
    int64_t dims[TN_MAX_RANK], split[3] = {1, 1, 1};
    int rank = x->rank;
    memcpy(dims, x->dims, (size_t)rank * sizeof *dims);
    for (int i = 0; i < rank; i++) split[i < axis ? 0 : i == axis ? 1 : 2] *= dims[i];
    dims[axis] = count;
    if (rank == TN_MAX_RANK) {
        x = tn__window(tn__reshape(x, split, 3), 1, 1, step, 1);
        return tn__reshape(x, dims, rank);
    }
    return tn__reshape(tn__window(x, axis, 1, step, 1), dims, rank);
}

static tn__node *apply_cut(tn__node *x, const cut *c)
{
    unsigned back = 0;
    int rank = x->rank;
    for (int i = 0; i < rank; i++)
        if (c->step[i] < 0) back |= 1u << i;
    x = tn__flip(tn__shrink(x, c->first, c->span), back);
    for (int i = 0; i < rank; i++)
        x = every(x, i, c->step[i] < 0 ? -c->step[i] : c->step[i], c->count[i]);
    return x;
}

/* Axes that the items use up, or -1 with an error. */
static int axes_used(const tn__node *x, const tn__index_item *items, size_t n)
{
    int used = 0, dots = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].kind == TN__ELLIPSIS)
            dots++;
        else if (items[i].kind != TN__NONE)
            used++;
    }
    if (dots > 1) return tn__fail(TN_EINDEX, "index: %d ellipses: at most one", dots), -1;
    if (used > x->rank)
        return tn__fail(TN_EINDEX, "index: %d indices for %s: at most one an axis", used, text(x)),
               -1;
    return used;
}

/* ---- tensors as indices ---- */

tn__node *tn__index_wrap(tn__node *idx, int64_t size)
{
    if (!idx) return NULL;
    tn_dtype from = (tn_dtype)idx->dt;
    if (!tn__dtype_is_int(from)) {
        tn__fail(TN_EDTYPE, "index: a tensor of %s: takes integers%s", tn__dtype_name(from),
                 from == TN_BOOL ? ": use masked_select, which takes the number of results"
                                 : ": cast first");
        return NULL;
    }
    bool wide = tn__dtype_size(from) > 4 || from == TN_U32 || size > INT32_MAX;
    idx = tn__cast(idx, wide ? TN_I64 : TN_I32);
    if (!tn__dtype_is_signed(from) || !idx) return idx;
    tn_dtype dt = (tn_dtype)idx->dt;
    tn__node *neg = tn__binary(TN_OP_LT, idx, tn__const_i(dt, 0, idx->dims, idx->rank));
    tn__node *sum = tn__binary(TN_OP_ADD, idx, tn__const_i(dt, size, idx->dims, idx->rank));
    return tn__where(neg, sum, idx);
}

/* One index into the flattened axes, -1 where any part is out of range. */
static tn__node *linear_index(tn__node **idx, const int64_t *sizes, int n)
{
    tn__node *lin = NULL, *ok = NULL;
    int64_t all = 1;
    for (int i = 0; i < n; i++) all *= sizes[i] > 0 ? sizes[i] : 1;
    bool wide = all > INT32_MAX;
    for (int i = 0; i < n; i++) {
        if (!(idx[i] = tn__index_wrap(idx[i], sizes[i]))) return NULL;
        wide = wide || idx[i]->dt == TN_I64;
    }
    if (!tn__broadcast("index", idx, n)) return NULL;
    if (n == 1) return idx[0];
    tn_dtype dt = wide ? TN_I64 : TN_I32;
    for (int i = 0; i < n; i++) {
        tn__node *x = tn__cast(idx[i], dt);
        if (!x) return NULL;
        tn__node *in = tn__binary(
            TN_OP_AND, tn__binary(TN_OP_LT, tn__const_i(dt, -1, x->dims, x->rank), x),
            tn__binary(TN_OP_LT, x, tn__const_i(dt, sizes[i], x->dims, x->rank)));
        ok = ok ? tn__binary(TN_OP_AND, ok, in) : in;
        tn__node *row = tn__const_i(dt, sizes[i], x->dims, x->rank);
        lin = lin ? tn__binary(TN_OP_ADD, tn__binary(TN_OP_MUL, lin, row), x) : x;
    }
    return tn__where(ok, lin, lin ? tn__const_i(dt, -1, lin->dims, lin->rank) : NULL);
}

/* The axes `at` (ascending, n of them) of x replaced by the common shape of idx: in their place where they
 * are neighbours, else in front. */
static tn__node *take_many(tn__node *x, tn__node **idx, const int *at, int n)
{
    int order[TN_MAX_RANK], k = 0, lead = at[n - 1] - at[0] == n - 1 ? at[0] : 0;
    int64_t sizes[TN_MAX_RANK], rest[TN_MAX_RANK], dims[2 * TN_MAX_RANK], v = 1, p = 1;
    unsigned taken = 0;
    for (int i = 0; i < n; i++) {
        order[k++] = at[i];
        sizes[i] = x->dims[at[i]];
        v *= sizes[i];
        taken |= 1u << at[i];
    }
    int nrest = 0;
    for (int i = 0; i < x->rank; i++) {
        if (taken >> i & 1) continue;
        order[k++] = i;
        rest[nrest++] = x->dims[i];
        p *= x->dims[i];
    }
    tn__node *lin = linear_index(idx, sizes, n);
    if (!lin) return NULL;
    int ni = lin->rank, rank = ni + nrest;
    if (rank > TN_MAX_RANK) {
        tn__fail(TN_ESHAPE, "index: %s by %s: more than %d axes", text(x), text(lin), TN_MAX_RANK);
        return NULL;
    }
    memcpy(dims, lin->dims, (size_t)ni * sizeof *dims);
    memcpy(dims + ni, rest, (size_t)nrest * sizeof *dims);
    x = tn__reshape(tn__permute(x, order), (int64_t[]){1, v, p}, 3);
    x = tn__gather(x, tn__reshape(lin, (int64_t[]){1, tn__node_numel(lin)}, 2));
    x = tn__reshape(x, dims, rank);
    if (!lead || !x) return x;
    for (int i = 0; i < rank; i++) order[i] = i < lead ? ni + i : i < lead + ni ? i - lead : i;
    return tn__permute(x, order);
}

tn__node *tn__take(tn__node *x, int axis, tn__node *idx)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("index", x, axis, &axis)) return NULL;
    return take_many(x, &idx, &axis, 1);
}

tn__node *tn__index(tn__node *x, const tn__index_item *items, size_t n, bool *view)
{
    x = tn__strong(x);
    int used = x ? axes_used(x, items, n) : -1;
    if (used < 0) return NULL;
    cut c = {0};
    tn__node *idx[TN_MAX_RANK];
    int at[TN_MAX_RANK], nt = 0, axis = 0, rank = 0, skip = x->rank - used;
    int64_t dims[2 * TN_MAX_RANK];
    bool dots = false;
    const tn__index_item all = {.kind = TN__SLICE};
    for (size_t i = 0; i <= n; i++) { /* the end stands for an ellipsis where there is none */
        const tn__index_item *it = i < n ? &items[i] : NULL;
        bool fill = it ? it->kind == TN__ELLIPSIS : !dots;
        dots = dots || fill;
        if (rank + (fill ? skip : 1) > TN_MAX_RANK + (it ? 0 : 1)) {
            tn__fail(TN_ESHAPE, "index: more than %d axes in the result of %s", TN_MAX_RANK,
                     text(x));
            return NULL;
        }
        for (int k = fill ? skip : 0; k > 0; k--, axis++) {
            cut_slice(x, axis, &all, &c);
            dims[rank++] = c.count[axis];
        }
        if (!it || fill) continue;
        if (it->kind == TN__NONE) {
            dims[rank++] = 1;
            continue;
        }
        if (it->kind == TN__AT) {
            if (!cut_at(x, axis++, it->start, &c)) return NULL;
            continue;
        }
        if (it->kind == TN__TENSOR) {
            if (!it->t) return NULL;
            at[nt] = rank;
            idx[nt++] = it->t;
        }
        cut_slice(x, axis, it->kind == TN__TENSOR ? &all : it, &c);
        dims[rank++] = c.count[axis++];
    }
    if (view) *view = nt == 0;
    x = tn__reshape(apply_cut(x, &c), dims, rank);
    return nt && x ? take_many(x, idx, at, nt) : x;
}

/* ---- writing by index ---- */

tn__node *tn__index_put(tn__node *x, const tn__index_item *items, size_t n, tn__node *value)
{
    x = tn__strong(x);
    if (!x || !value) return NULL;
    tn_dtype dt = (tn_dtype)x->dt;
    value = tn__cast(value, dt);
    if (n == 1 && items[0].kind == TN__TENSOR && items[0].t && items[0].t->dt == TN_BOOL) {
        tn__node *mask = tn__broadcast_to("setitem", items[0].t, x->dims, x->rank);
        return tn__where(mask, tn__broadcast_to("setitem", value, x->dims, x->rank), x);
    }
    int64_t all = tn__node_numel(x);
    tn__node *pos = tn__reshape_like(tn__iota(all > INT32_MAX ? TN_I64 : TN_I32, 0, &all, 1), x);
    tn__node *to = tn__index(pos, items, n, NULL);
    value = to ? tn__broadcast_to("setitem", value, to->dims, to->rank) : NULL;
    if (!value) return NULL;
    int64_t count = tn__node_numel(to);
    if (!count) return x;
    value = tn__scatter(TN_OP_CONST, tn__reshape(x, (int64_t[]){1, all, 1}, 3),
                        tn__reshape(to, (int64_t[]){1, count}, 2),
                        tn__reshape(value, (int64_t[]){1, count, 1}, 3));
    return tn__reshape_like(value, x);
}
