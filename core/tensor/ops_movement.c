/* SPDX-License-Identifier: MIT */
/*
 * Views: the same elements under other indices, from the movement primitives only, so that a view of a
 * tensor can be written through.
 */
#include "tensor/ops.h"
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

static bool rank_fits(const char *op, size_t n)
{
    return n <= TN_MAX_RANK || tn__fail(TN_ESHAPE, "%s: %zu axes: at most %d", op, n, TN_MAX_RANK);
}

tn__node *tn__view(tn__node *x, const int64_t *dims, size_t n)
{
    x = tn__strong(x);
    if (!x || !rank_fits("reshape", n)) return NULL;
    int64_t d[TN_MAX_RANK], known = 1, have = tn__node_numel(x);
    int open = -1;
    bool zero = false, bad = false;
    for (size_t i = 0; i < n; i++) {
        d[i] = dims[i];
        if (d[i] == -1 && open < 0) {
            open = (int)i;
            continue;
        }
        bad = bad || d[i] < 0;
        zero = zero || d[i] == 0;
        if (d[i]) known = tn__times(known, d[i]);
    }
    if (zero) known = 0;
    if (open >= 0 && !bad && known && have % known == 0)
        d[open] = have / known;
    else if (open >= 0)
        bad = true;
    if (bad || (open < 0 && known != have)) {
        tn__fail(TN_ESHAPE,
                 "reshape: %s has %lld elements, which do not fit %s: the products must be equal, "
                 "one -1 is inferred",
                 text(x), (long long)have, tn__shape_text(dims, (int)n));
        return NULL;
    }
    return tn__reshape(x, d, (int)n);
}

tn__node *tn__expand_to(tn__node *x, const int64_t *dims, size_t n)
{
    x = tn__strong(x);
    if (!x || !rank_fits("expand", n)) return NULL;
    int64_t d[TN_MAX_RANK];
    for (size_t i = 0; i < n; i++) {
        int at = (int)i - ((int)n - x->rank);
        d[i] = dims[i] == -1 && at >= 0 ? x->dims[at] : dims[i];
    }
    return tn__broadcast_to("expand", x, d, (int)n);
}

tn__node *tn__permute_to(tn__node *x, const int *axes, size_t n)
{
    unsigned mask;
    int order[TN_MAX_RANK];
    x = tn__strong(x);
    if (!x) return NULL;
    if (n != x->rank) {
        tn__fail(TN_EAXIS, "permute: %zu axes for %s: every axis must be named once", n, text(x));
        return NULL;
    }
    if (!tn__axes_mask("permute", x, axes, n, &mask)) return NULL;
    for (size_t i = 0; i < n; i++) order[i] = axes[i] < 0 ? axes[i] + x->rank : axes[i];
    return tn__permute(x, order);
}

tn__node *tn__transpose(tn__node *x, int a, int b)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("transpose", x, a, &a) || !tn__axis_of("transpose", x, b, &b))
        return NULL;
    int order[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) order[i] = i;
    if (!x->rank) return x;
    order[a] = b;
    order[b] = a;
    return tn__permute(x, order);
}

tn__node *tn__flip_axes(tn__node *x, unsigned mask)
{
    x = tn__strong(x);
    return x ? tn__flip(x, mask == TN__ALL_AXES ? tn__mask_all(x) : mask) : NULL;
}

tn__node *tn__slice(tn__node *x, int axis, int64_t start, int64_t size)
{
    if (!x) return NULL;
    int64_t first[TN_MAX_RANK] = {0}, dims[TN_MAX_RANK];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    first[axis] = start;
    dims[axis] = size;
    return tn__shrink(x, first, dims);
}

tn__node *tn__shrink_pairs(tn__node *x, const int64_t *pairs, size_t n)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (n != 2 * (size_t)x->rank) {
        tn__fail(TN_ESHAPE, "shrink: %zu numbers for %s: a start and an end for every axis", n,
                 text(x));
        return NULL;
    }
    int64_t first[TN_MAX_RANK], size[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        first[i] = pairs[2 * i];
        size[i] = tn__minus(pairs[2 * i + 1], first[i]);
        if (first[i] >= 0 && size[i] >= 0 && pairs[2 * i + 1] <= x->dims[i]) continue;
        tn__fail(
            TN_EINDEX, "shrink: %lld to %lld of axis %d of %s: must be 0 <= start <= end <= %lld",
            (long long)first[i], (long long)pairs[2 * i + 1], i, text(x), (long long)x->dims[i]);
        return NULL;
    }
    return tn__shrink(x, first, size);
}

tn__node *tn__shrink_to(tn__node *x, const int64_t *dims, size_t n)
{
    x = tn__strong(x);
    if (!x) return NULL;
    int64_t first[TN_MAX_RANK] = {0}, size[TN_MAX_RANK];
    bool fits = n == x->rank;
    for (int i = 0; fits && i < x->rank; i++) {
        size[i] = dims[i] == -1 ? x->dims[i] : dims[i];
        fits = size[i] >= 0 && size[i] <= x->dims[i];
    }
    if (!fits) {
        tn__fail(TN_ESHAPE, "shrink_to: %s to %s: as many axes, none larger; -1 keeps one", text(x),
                 tn__shape_text(dims, n > TN_MAX_RANK ? TN_MAX_RANK : (int)n));
        return NULL;
    }
    return tn__shrink(x, first, size);
}

tn__node *tn__squeeze(tn__node *x, unsigned mask)
{
    x = tn__strong(x);
    if (!x) return NULL;
    unsigned ones = 0;
    for (int i = 0; i < x->rank; i++)
        if (x->dims[i] == 1) ones |= 1u << i;
    return tn__drop_axes(x, mask & ones, false);
}

tn__node *tn__unsqueeze(tn__node *x, int axis)
{
    x = tn__strong(x);
    if (!x) return NULL;
    int rank = x->rank + 1;
    if (axis < -rank || axis >= rank || rank > TN_MAX_RANK) {
        tn__fail(TN_EAXIS, "unsqueeze: axis %d of %s: must be in %d..%d, and at most %d axes", axis,
                 text(x), -rank, rank - 1, TN_MAX_RANK);
        return NULL;
    }
    if (axis < 0) axis += rank;
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < rank; i++) dims[i] = i == axis ? 1 : x->dims[i < axis ? i : i - 1];
    return tn__reshape(x, dims, rank);
}

tn__node *tn__flatten(tn__node *x, int start, int end)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("flatten", x, start, &start) || !tn__axis_of("flatten", x, end, &end))
        return NULL;
    if (end < start) {
        tn__fail(TN_EAXIS,
                 "flatten: from axis %d to %d of %s: the first must not be behind the last", start,
                 end, text(x));
        return NULL;
    }
    int64_t dims[TN_MAX_RANK] = {1};
    int rank = 0;
    for (int i = 0; i < x->rank; i++) {
        if (i > start && i <= end)
            dims[rank - 1] *= x->dims[i];
        else
            dims[rank++] = x->dims[i];
    }
    return tn__reshape(x, dims, rank ? rank : 1);
}

tn__node *tn__unflatten(tn__node *x, int axis, const int64_t *sizes, size_t n)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("unflatten", x, axis, &axis) ||
        !rank_fits("unflatten", n + (x->rank ? x->rank - 1u : 0u)))
        return NULL;
    int64_t dims[TN_MAX_RANK], known = 1;
    int rank = 0, open = -1;
    bool bad = false;
    for (int i = 0; i < axis; i++) dims[rank++] = x->dims[i];
    for (size_t i = 0; i < n; i++) {
        if (sizes[i] == -1 && open < 0)
            open = rank;
        else
            known = tn__times(known, sizes[i]), bad = bad || sizes[i] < 0;
        dims[rank++] = sizes[i];
    }
    int64_t have = x->rank ? x->dims[axis] : 1;
    if (open >= 0 && !bad && known > 0 && have % known == 0)
        dims[open] = have / known;
    else if (open >= 0 || bad || known != have) {
        tn__fail(TN_ESHAPE,
                 "unflatten: axis %d of %s into %s: the product must be %lld, one -1 is inferred",
                 axis, text(x), tn__shape_text(sizes, (int)n), (long long)have);
        return NULL;
    }
    for (int i = axis + 1; i < x->rank; i++) dims[rank++] = x->dims[i];
    return tn__reshape(x, dims, rank);
}

/* Flattened, the diagonal is every (columns + 1)-th element: a window of one. */
tn__node *tn__diagonal(tn__node *x, int64_t offset, int a, int b)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("diagonal", x, a, &a) || !tn__axis_of("diagonal", x, b, &b)) return NULL;
    if (x->rank < 2 || a == b) {
        tn__fail(TN_EAXIS, "diagonal: axes %d and %d of %s: takes two different axes", a, b,
                 text(x));
        return NULL;
    }
    int order[TN_MAX_RANK], n = 0, rank = x->rank;
    for (int i = 0; i < rank; i++)
        if (i != a && i != b) order[n++] = i;
    order[n] = a;
    order[n + 1] = b;
    x = tn__permute(x, order);
    if (!x) return NULL;
    int64_t rows = x->dims[n], cols = x->dims[n + 1], dims[TN_MAX_RANK];
    offset = tn__clip(offset, -rows, cols); /* beyond both it has no elements */
    int64_t first = offset >= 0 ? offset : -offset * cols;
    int64_t len = offset >= 0 ? cols - offset : rows + offset;
    if (len > (offset >= 0 ? rows : cols)) len = offset >= 0 ? rows : cols;
    if (len < 0 || rows == 0 || cols == 0) len = 0;
    memcpy(dims, x->dims, (size_t)n * sizeof *dims);
    dims[n] = rows * cols;
    x = tn__reshape(x, dims, n + 1);
    if (!len) return tn__slice(x, n, 0, 0);
    x = tn__slice(x, n, first, (len - 1) * (cols + 1) + 1);
    x = tn__window(x, n, 1, cols + 1, 1);
    dims[n] = len;
    return tn__reshape(x, dims, n + 1);
}

tn__node *tn__unfold(tn__node *x, int axis, int64_t size, int64_t step)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("unfold", x, axis, &axis)) return NULL;
    int64_t have = x->rank ? x->dims[axis] : 0;
    if (size < 1 || step < 1 || size > have || x->rank == TN_MAX_RANK) {
        tn__fail(
            TN_EVALUE,
            "unfold: size %lld and step %lld along axis %d of %s: 1 <= size <= %lld and step >= 1",
            (long long)size, (long long)step, axis, text(x), (long long)have);
        return NULL;
    }
    return tn__move_axis(tn__window(x, axis, size, step, 1), axis + 1, x->rank);
}
