/* SPDX-License-Identifier: MIT */
/*
 * Movement constructors: no arithmetic, only other indices for the same elements.
 *
 * Each returns x itself when nothing changes, a CONST for a CONST, and one node where two of a kind
 * meet. Merging stops at nodes somebody holds (tn__mergeable): windows and gradients are looked up
 * by them.
 */
#include "tensor/make.h"
#include "device/device.h"
#include <inttypes.h>
#include <string.h>

/* Last step of every movement: CONST of the new shape, or the node. */
static tn__node *moved(tn__spec *s)
{
    const tn__node *x = s->src[0];
    s->dt = (tn_dtype)x->dt;
    s->nsrc = 1;
    if (!tn__place_move(s, &s->place)) return NULL;
    if (tn__movable_const(x) && s->op != TN_OP_PAD && s->op != TN_OP_FOLD) {
        s->op = TN_OP_CONST;
        s->scalar = x->scalar;
        s->nsrc = s->narg = 0;
    }
    return tn__make(s);
}

static bool same_shape(const tn__node *x, const int64_t *dims, int rank)
{
    return x->rank == rank && !memcmp(x->dims, dims, (size_t)rank * sizeof *dims);
}

tn__node *tn__reshape(tn__node *x, const int64_t *dims, int rank)
{
    if (!x || !tn__dims_check("reshape", dims, rank)) return NULL;
    if (same_shape(x, dims, rank)) return x;
    int64_t have = tn__node_numel(x), want = 1;
    for (int i = 0; i < rank; i++) want *= dims[i];
    if (have != want) {
        tn__fail(TN_ESHAPE, "reshape: %s has %" PRId64 " elements and %s has %" PRId64,
                 tn__dims_of(x), have, tn__shape_text(dims, rank), want);
        return NULL;
    }
    while (tn__mergeable(x, TN_OP_RESHAPE)) {
        x = x->src[0];
        if (same_shape(x, dims, rank)) return x;
    }
    return moved(&(tn__spec){.op = TN_OP_RESHAPE, .rank = rank, .dims = dims, .src = {x}});
}

tn__node *tn__expand(tn__node *x, const int64_t *dims, int rank)
{
    if (!x || !tn__dims_check("expand", dims, rank)) return NULL;
    if (same_shape(x, dims, rank)) return x;
    int extra = rank - x->rank;
    bool fits = extra >= 0;
    for (int i = 0; fits && i < x->rank; i++)
        fits = x->dims[i] == 1 || x->dims[i] == dims[i + extra];
    if (!fits) {
        tn__fail(TN_ESHAPE, "expand: %s to %s: only axes of size 1 can grow", tn__dims_of(x),
                 tn__shape_text(dims, rank));
        return NULL;
    }
    if (extra > 0) {
        int64_t wide[TN_MAX_RANK];
        for (int i = 0; i < rank; i++) wide[i] = i < extra ? 1 : x->dims[i - extra];
        x = tn__reshape(x, wide, rank);
        if (!x || same_shape(x, dims, rank)) return x;
    }
    if (tn__mergeable(x, TN_OP_EXPAND)) x = x->src[0];
    return moved(&(tn__spec){.op = TN_OP_EXPAND, .rank = rank, .dims = dims, .src = {x}});
}

tn__node *tn__permute(tn__node *x, const int *axes)
{
    if (!x) return NULL;
    int64_t order[TN_MAX_RANK], dims[TN_MAX_RANK];
    unsigned seen = 0;
    int rank = x->rank;
    for (int i = 0; i < rank; i++) {
        bool in = axes[i] >= 0 && axes[i] < rank;
        if (!in || seen >> axes[i] & 1) {
            tn__fail(TN_EAXIS, "permute: axis %d of %s %s", axes[i], tn__dims_of(x),
                     in ? "is named twice" : "is out of range");
            return NULL;
        }
        seen |= 1u << axes[i];
        order[i] = axes[i];
    }
    while (tn__mergeable(x, TN_OP_PERMUTE)) {
        for (int i = 0; i < rank; i++) order[i] = x->argv[order[i]];
        x = x->src[0];
    }
    bool same = true;
    for (int i = 0; i < rank; i++) {
        dims[i] = x->dims[order[i]];
        same = same && order[i] == i;
    }
    if (same) return x;
    return moved(&(tn__spec){
        .op = TN_OP_PERMUTE, .rank = rank, .dims = dims, .src = {x}, .narg = rank, .argv = order});
}

tn__node *tn__shrink(tn__node *x, const int64_t *first, const int64_t *size)
{
    if (!x) return NULL;
    int64_t at[TN_MAX_RANK];
    int rank = x->rank;
    for (int i = 0; i < rank; i++) {
        at[i] = first[i];
        if (first[i] >= 0 && size[i] >= 0 && first[i] <= x->dims[i] &&
            size[i] <= x->dims[i] - first[i])
            continue;
        tn__fail(TN_EINDEX,
                 "shrink: %" PRId64 " from index %" PRId64 " does not lie in axis %d of %s",
                 size[i], first[i], i, tn__dims_of(x));
        return NULL;
    }
    if (same_shape(x, size, rank)) return x;
    while (tn__mergeable(x, TN_OP_SHRINK)) {
        for (int i = 0; i < rank; i++) at[i] += x->argv[i];
        x = x->src[0];
    }
    return moved(&(tn__spec){
        .op = TN_OP_SHRINK, .rank = rank, .dims = size, .src = {x}, .narg = rank, .argv = at});
}

tn__node *tn__pad(tn__node *x, const int64_t *before, const int64_t *after)
{
    if (!x) return NULL;
    int64_t dims[TN_MAX_RANK], argv[2 * TN_MAX_RANK];
    bool same = true;
    for (int i = 0; i < x->rank; i++) {
        argv[2 * i] = before[i];
        argv[2 * i + 1] = after[i];
        same = same && !before[i] && !after[i];
        dims[i] = tn__plus(tn__plus(x->dims[i], before[i]), after[i]);
        if (before[i] < 0 || after[i] < 0 || dims[i] > TN__MAX_NUMEL) {
            tn__fail(TN_EVALUE,
                     "pad: %" PRId64 " before and %" PRId64
                     " after axis %d of %s: neither may be negative or too large",
                     before[i], after[i], i, tn__dims_of(x));
            return NULL;
        }
    }
    if (same) return x;
    if (!tn__dims_check("pad", dims, x->rank)) return NULL;
    if (tn__movable_const(x) && !tn__scalar_bits((tn_dtype)x->dt, x->scalar))
        return tn__const((tn_dtype)x->dt, x->scalar, dims, x->rank);
    while (tn__mergeable(x, TN_OP_PAD)) {
        for (int i = 0; i < 2 * x->rank; i++) argv[i] += x->argv[i];
        x = x->src[0];
    }
    return moved(&(tn__spec){.op = TN_OP_PAD,
                             .rank = x->rank,
                             .dims = dims,
                             .src = {x},
                             .narg = 2 * x->rank,
                             .argv = argv});
}

tn__node *tn__flip(tn__node *x, unsigned mask)
{
    if (!x) return NULL;
    if (mask >> x->rank) {
        tn__fail(TN_EAXIS, "flip: axis mask 0x%x of %s: axes are 0 to %d", mask, tn__dims_of(x),
                 x->rank - 1);
        return NULL;
    }
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] == 1) mask &= ~(1u << i);
    if (!mask) return x;
    while (tn__mergeable(x, TN_OP_FLIP)) {
        mask ^= (unsigned)x->argv[0];
        x = x->src[0];
        if (!mask) return x;
    }
    return moved(&(tn__spec){.op = TN_OP_FLIP,
                             .rank = x->rank,
                             .dims = x->dims,
                             .src = {x},
                             .narg = 1,
                             .argv = (const int64_t[]){mask}});
}

/* Elements of the axis that one window spans, or 0 with an error. */
static int64_t span(const char *subject, const tn__node *x, int axis, int64_t k, int64_t stride,
                    int64_t dilation)
{
    if (axis < 0 || axis >= x->rank) {
        tn__fail(TN_EAXIS, "%s: axis %d of %s: axes are 0 to %d", subject, axis, tn__dims_of(x),
                 x->rank - 1);
        return 0;
    }
    if (k < 1 || stride < 1 || dilation < 1) {
        tn__fail(TN_EVALUE,
                 "%s: size %" PRId64 ", stride %" PRId64 ", dilation %" PRId64
                 ": all must be at least 1",
                 subject, k, stride, dilation);
        return 0;
    }
    return tn__span(k, dilation);
}

/* What a window's node holds: a stride or dilation that nothing depends on is no larger than the axis of `size`, so
 * that sums with them stay small. */
static void settle(int64_t size, int64_t k, int64_t *stride, int64_t *dilation)
{
    if (*stride > size) *stride = size ? size : 1;
    if (k == 1) *dilation = 1;
}

tn__node *tn__window(tn__node *x, int axis, int64_t k, int64_t stride, int64_t dilation)
{
    if (!x) return NULL;
    const int64_t wide = span("window", x, axis, k, stride, dilation);
    int64_t dims[TN_MAX_RANK + 1];
    if (!wide) return NULL;
    if (x->dims[axis] < wide) {
        tn__fail(TN_ESHAPE,
                 "window: %" PRId64 " elements with dilation %" PRId64
                 " span more than axis %d of %s",
                 k, dilation, axis, tn__dims_of(x));
        return NULL;
    }
    settle(x->dims[axis], k, &stride, &dilation);
    int rank = x->rank + 1;
    for (int i = 0; i < x->rank; i++) dims[i < axis ? i : i + 1] = x->dims[i];
    dims[axis] = (x->dims[axis] - wide) / stride + 1;
    dims[axis + 1] = k;
    if (!tn__dims_check("window", dims, rank)) return NULL;
    if (k == 1 && stride == 1) return tn__reshape(x, dims, rank);
    return moved(&(tn__spec){.op = TN_OP_WINDOW,
                             .rank = rank,
                             .dims = dims,
                             .src = {x},
                             .narg = 4,
                             .argv = (const int64_t[]){axis, k, stride, dilation}});
}

tn__node *tn__fold(tn__node *x, int axis, int64_t size, int64_t k, int64_t stride, int64_t dilation)
{
    if (!x) return NULL;
    const int64_t wide = span("fold", x, axis, k, stride, dilation);
    int64_t dims[TN_MAX_RANK];
    if (!wide) return NULL;
    if (x->dt == TN_BOOL) {
        tn__fail(TN_EDTYPE, "fold: bool: overlaps are summed: cast to a number first");
        return NULL;
    }
    if (axis + 1 >= x->rank || x->dims[axis + 1] != k) {
        tn__fail(TN_ESHAPE, "fold: axis %d of %s: it must be followed by one of size %" PRId64,
                 axis, tn__dims_of(x), k);
        return NULL;
    }
    const int64_t o = x->dims[axis];
    if (size < 0 || (o && tn__times(o - 1, stride) > size - wide)) {
        tn__fail(TN_ESHAPE,
                 "fold: %" PRId64 " windows of %" PRId64 " elements, dilation %" PRId64
                 " and stride %" PRId64 " do not fit an axis of %" PRId64,
                 o, k, dilation, stride, size);
        return NULL;
    }
    settle(size, k, &stride, &dilation);
    int rank = x->rank - 1;
    for (int i = 0; i < rank; i++) dims[i] = x->dims[i <= axis ? i : i + 1];
    dims[axis] = size;
    if (!tn__dims_check("fold", dims, rank)) return NULL;
    if (k == 1 && stride == 1 && size == o) return tn__reshape(x, dims, rank);
    return moved(&(tn__spec){.op = TN_OP_FOLD,
                             .rank = rank,
                             .dims = dims,
                             .src = {x},
                             .narg = 4,
                             .argv = (const int64_t[]){axis, k, stride, dilation}});
}
