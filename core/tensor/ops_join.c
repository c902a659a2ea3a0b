/* SPDX-License-Identifier: MIT */
/*
 * Padding, joining and repeating: what makes larger tensors out of movement primitives and WHERE.
 *
 * A join pads its parts to the common size and picks by a mask over the axis, pairwise as a balanced
 * tree, so that the depth grows with the logarithm of the number of parts and -0 and NaN stay.
 */
#include "tensor/ops.h"
#include <math.h>
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

/* ---- padding ---- */

tn__node *tn__pad_mask(tn__node *x, const int64_t *before, const int64_t *after)
{
    if (!x) return NULL;
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i] + before[i] + after[i];
    tn__node *ok = NULL;
    for (int i = 0; i < x->rank; i++) {
        if (!before[i] && !after[i]) continue;
        tn_dtype dt = dims[i] > INT32_MAX ? TN_I64 : TN_I32;
        tn__node *at = tn__iota(dt, i, dims, x->rank);
        tn__node *end = tn__const_i(dt, before[i] + x->dims[i], dims, x->rank);
        tn__node *in = after[i] ? tn__binary(TN_OP_LT, at, end) : NULL;
        if (before[i]) {
            tn__node *from = tn__binary(TN_OP_LT, tn__const_i(dt, before[i] - 1, dims, x->rank),
                                        at);
            in = in ? tn__binary(TN_OP_AND, in, from) : from;
        }
        ok = ok ? tn__binary(TN_OP_AND, ok, in) : in;
    }
    return ok ? ok : tn__const_i(TN_BOOL, 1, dims, x->rank);
}

tn__node *tn__pad_with(tn__node *x, const int64_t *before, const int64_t *after, tn__scalar value)
{
    if (!x) return NULL;
    tn__node *y = tn__pad(x, before, after);
    if (!y || y == x || !tn__scalar_bits((tn_dtype)x->dt, value)) return y;
    return tn__where(tn__pad_mask(x, before, after), y,
                     tn__const((tn_dtype)x->dt, value, y->dims, y->rank));
}

/* x padded so has a shape that can be; negative numbers cut. */
static bool padded_fits(const char *op, const tn__node *x, const int64_t *before,
                        const int64_t *after)
{
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) {
        dims[i] = tn__plus(tn__plus(x->dims[i], before[i] < 0 ? before[i] : 0),
                           after[i] < 0 ? after[i] : 0);
        if (dims[i] < 0)
            return tn__fail(TN_EVALUE, "%s: %lld and %lld cut more than axis %d of %s has", op,
                            (long long)before[i], (long long)after[i], i, text(x));
        dims[i] = tn__plus(dims[i],
                           tn__plus(before[i] > 0 ? before[i] : 0, after[i] > 0 ? after[i] : 0));
        if (dims[i] > TN__MAX_NUMEL)
            return tn__fail(TN_EVALUE, "%s: %lld and %lld beside axis %d of %s: too many elements",
                            op, (long long)before[i], (long long)after[i], i, text(x));
    }
    return tn__dims_check(op, dims, x->rank);
}

/* One axis padded by its own elements. */
static tn__node *pad_axis(tn__node *x, int axis, int64_t before, int64_t after, tn__pad_mode mode)
{
    if (!x) return NULL;
    int64_t n = x->dims[axis], room = mode == TN__PAD_REFLECT    ? n - 1
                                      : mode == TN__PAD_CIRCULAR ? n
                                                                 : TN__MAX_NUMEL;
    if (before < 0 || after < 0 || before > room || after > room || n < 1) {
        tn__fail(TN_EVALUE,
                 "pad: %lld before and %lld after axis %d of %s: this mode takes 0 to %lld",
                 (long long)before, (long long)after, axis, text(x), (long long)(n < 1 ? 0 : room));
        return NULL;
    }
    tn__node *parts[3];
    size_t k = 0;
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int side = 0; side < 3; side++) {
        int64_t m = side == 0 ? before : after;
        tn__node *p = x;
        if (side != 1 && !m) continue;
        if (side != 1 && mode == TN__PAD_REFLECT)
            p = tn__flip(tn__slice(x, axis, side ? n - 1 - m : 1, m), 1u << axis);
        if (side != 1 && mode == TN__PAD_CIRCULAR) p = tn__slice(x, axis, side ? 0 : n - m, m);
        if (side != 1 && mode == TN__PAD_REPLICATE) {
            dims[axis] = m;
            p = tn__expand(tn__slice(x, axis, side ? n - 1 : 0, 1), dims, x->rank);
        }
        parts[k++] = p;
    }
    return tn__cat(parts, k, axis);
}

tn__node *tn__pad_pairs(tn__node *x, const int64_t *pairs, size_t n, tn__pad_mode mode,
                        double value)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (n % 2 || n > 2 * (size_t)x->rank) {
        tn__fail(TN_ESHAPE,
                 "pad: %zu numbers for %s: a pair for each padded axis, the last axis first", n,
                 text(x));
        return NULL;
    }
    int64_t before[TN_MAX_RANK] = {0}, after[TN_MAX_RANK] = {0}, first[TN_MAX_RANK],
            size[TN_MAX_RANK];
    for (size_t i = 0; i < n / 2; i++) {
        before[x->rank - 1 - (int)i] = pairs[2 * i];
        after[x->rank - 1 - (int)i] = pairs[2 * i + 1];
    }
    if (mode == TN__PAD_CONSTANT && !padded_fits("pad", x, before, after)) return NULL;
    if (mode != TN__PAD_CONSTANT) {
        for (int i = 0; x && i < x->rank; i++)
            if (before[i] || after[i]) x = pad_axis(x, i, before[i], after[i], mode);
        return x;
    }
    for (int i = 0; i < x->rank; i++) { /* negative: cut first */
        first[i] = before[i] < 0 ? -before[i] : 0;
        size[i] = x->dims[i] - first[i] + (after[i] < 0 ? after[i] : 0);
        before[i] = before[i] < 0 ? 0 : before[i];
        after[i] = after[i] < 0 ? 0 : after[i];
    }
    return tn__pad_with(tn__shrink(x, first, size), before, after,
                        tn__scalar_from_double((tn_dtype)x->dt, value));
}

tn__node *tn__pad_to(tn__node *x, const int64_t *dims, size_t n, double value)
{
    x = tn__strong(x);
    if (!x) return NULL;
    int64_t before[TN_MAX_RANK] = {0}, after[TN_MAX_RANK] = {0};
    bool fits = n == x->rank;
    for (int i = 0; fits && i < x->rank; i++) {
        after[i] = dims[i] == -1 ? 0 : tn__minus(dims[i], x->dims[i]);
        fits = after[i] >= 0;
    }
    if (!fits) {
        tn__fail(TN_ESHAPE, "pad_to: %s to %s: as many axes, none smaller; -1 keeps one", text(x),
                 tn__shape_text(dims, n > TN_MAX_RANK ? TN_MAX_RANK : (int)n));
        return NULL;
    }
    if (!padded_fits("pad_to", x, before, after)) return NULL;
    return tn__pad_with(x, before, after, tn__scalar_from_double((tn_dtype)x->dt, value));
}

/* ---- joining ---- */

static tn__node *join_two(tn__node *a, tn__node *b, int axis)
{
    if (!a || !b) return NULL;
    if (!a->dims[axis]) return b;
    if (!b->dims[axis]) return a;
    int64_t none[TN_MAX_RANK] = {0}, more[TN_MAX_RANK] = {0}, less[TN_MAX_RANK] = {0};
    more[axis] = b->dims[axis];
    less[axis] = a->dims[axis];
    return tn__where(tn__pad_mask(a, none, more), tn__pad(a, none, more), tn__pad(b, less, none));
}

static bool joinable(const char *op, tn__node *const *xs, size_t n, int axis)
{
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, xs[0]->dims, (size_t)xs[0]->rank * sizeof *dims);
    for (size_t i = 1; i < n; i++) {
        bool fits = xs[i]->rank == xs[0]->rank;
        for (int a = 0; fits && a < xs[0]->rank; a++)
            fits = a == axis || xs[i]->dims[a] == xs[0]->dims[a];
        if (!fits)
            return tn__fail(TN_ESHAPE, "%s: %s and %s along axis %d: all other axes must be equal",
                            op, text(xs[0]), text(xs[i]), axis);
        dims[axis] = tn__plus(dims[axis], xs[i]->dims[axis]);
    }
    return tn__dims_fit(dims, xs[0]->rank) ||
           tn__fail(TN_ESHAPE,
                    "%s: %zu tensors from %s on along axis %d: the number of elements does not fit "
                    "60 bits",
                    op, n, text(xs[0]), axis);
}

/* Joins level by level; work holds n nodes and is overwritten. */
static tn__node *join_all(tn__node **work, size_t n, int axis)
{
    while (n > 1) {
        size_t k = 0;
        for (size_t i = 0; i < n; i += 2)
            work[k++] = i + 1 < n ? join_two(work[i], work[i + 1], axis) : work[i];
        n = k;
    }
    return work[0];
}

static tn__node *join(const char *op, tn__node *const *xs, size_t n, int axis, bool fresh)
{
    tn__node **work = tn__alloc(n * sizeof *work), *r = NULL;
    if (!work) return NULL;
    memcpy(work, xs, n * sizeof *work);
    if (!tn__promote(op, work, (int)n)) goto out;
    if (fresh && (axis < -work[0]->rank - 1 || axis > work[0]->rank)) {
        tn__fail(TN_EAXIS, "%s: axis %d for tensors %s: must be in %d..%d", op, axis, text(work[0]),
                 -work[0]->rank - 1, work[0]->rank);
        goto out;
    }
    for (size_t i = 0; fresh && i < n; i++) work[i] = tn__unsqueeze(work[i], axis);
    for (size_t i = 0; i < n; i++)
        if (!work[i]) goto out;
    if (!work[0]->rank) {
        tn__fail(TN_ESHAPE, "%s: rank 0: nothing to join along: use stack", op);
        goto out;
    }
    if (tn__axis_of(op, work[0], axis, &axis) && joinable(op, work, n, axis))
        r = join_all(work, n, axis);
out:
    tn__free(work);
    return r;
}

tn__node *tn__cat(tn__node *const *xs, size_t n, int axis)
{
    return join("cat", xs, n, axis, false);
}

tn__node *tn__stack(tn__node *const *xs, size_t n, int axis)
{
    return join("stack", xs, n, axis, true);
}

/* ---- repeating ---- */

tn__node *tn__repeat(tn__node *x, const int64_t *reps, size_t n)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (n < x->rank || n > TN_MAX_RANK) {
        tn__fail(TN_ESHAPE, "repeat: %zu numbers for %s: at least one an axis, at most %d", n,
                 text(x), TN_MAX_RANK);
        return NULL;
    }
    int extra = (int)n - x->rank;
    int64_t dims[TN_MAX_RANK], all[TN_MAX_RANK];
    for (size_t i = 0; i < n; i++) {
        dims[i] = (int)i < extra ? 1 : x->dims[(int)i - extra];
        all[i] = tn__times(dims[i], reps[i]);
        if (reps[i] >= 0) continue;
        tn__fail(TN_EVALUE, "repeat: %lld times: must not be negative", (long long)reps[i]);
        return NULL;
    }
    if (!tn__dims_fit(all, (int)n)) {
        tn__fail(TN_EVALUE, "repeat: %s by %s: the number of elements does not fit 60 bits",
                 text(x), tn__shape_text(reps, (int)n));
        return NULL;
    }
    x = tn__reshape(x, dims, (int)n);
    for (int i = 0; i < (int)n && x;
         i++) { /* one axis at a time: (.., d, ..) -> (.., 1, d, ..) -> (.., r d, ..) */
        if (reps[i] == 1) continue;
        int64_t split[TN_MAX_RANK + 1] = {0};
        if (x->dims[i] == 1) {
            dims[i] = reps[i];
            x = tn__expand(x, dims, (int)n);
            continue;
        }
        int64_t d = x->dims[i], rest = 1, lead = 1;
        for (int a = 0; a < i; a++) lead *= x->dims[a];
        for (int a = i + 1; a < (int)n; a++) rest *= x->dims[a];
        split[0] = lead, split[1] = 1, split[2] = d, split[3] = rest;
        x = tn__reshape(x, split, 4);
        split[1] = reps[i];
        dims[i] = all[i];
        x = tn__reshape(tn__expand(x, split, 4), dims, (int)n);
    }
    return x;
}

tn__node *tn__repeat_interleave(tn__node *x, int64_t reps, int axis)
{
    x = tn__strong(x);
    if (!x || !tn__axis_of("repeat_interleave", x, axis, &axis)) return NULL;
    if (reps < 0) {
        tn__fail(TN_EVALUE, "repeat_interleave: %lld times: must not be negative", (long long)reps);
        return NULL;
    }
    int64_t dims[TN_MAX_RANK] = {1}, split[4] = {1, 1, 1, 1};
    int rank = x->rank ? x->rank : 1;
    const char *shape = text(x);
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int a = 0; a < rank; a++) split[a <= axis ? 0 : 2] *= dims[a];
    x = tn__reshape(x, split, 3);
    split[1] = reps;
    dims[axis] = tn__times(dims[axis], reps);
    if (!tn__dims_fit(dims, rank)) {
        tn__fail(TN_EVALUE,
                 "repeat_interleave: axis %d of %s by %lld: the number of elements does not fit 60 "
                 "bits",
                 axis, shape, (long long)reps);
        return NULL;
    }
    return tn__reshape(tn__expand(x, split, 3), dims, rank);
}

tn__node *tn__roll(tn__node *x, const int64_t *shifts, const int *axes, size_t n)
{
    x = tn__strong(x);
    for (size_t i = 0; i < n && x; i++) {
        int axis;
        if (!tn__axis_of("roll", x, axes[i], &axis)) return NULL;
        int64_t d = x->rank ? x->dims[axis] : 1;
        int64_t s = d ? (shifts[i] % d + d) % d : 0;
        if (!s) continue;
        tn__node *parts[2] = {tn__slice(x, axis, d - s, s), tn__slice(x, axis, 0, d - s)};
        x = tn__cat(parts, 2, axis);
    }
    return x;
}

/* ---- triangles and grids ---- */

/* True where column - row >= diagonal (upper), or <= (lower). */
static tn__node *triangle(const int64_t *dims, int rank, int64_t diagonal, bool upper)
{
    const int64_t far = INT64_C(1) << 29, rows = dims[rank - 2], cols = dims[rank - 1];
    diagonal = tn__clip(diagonal, -rows, cols); /* all or nothing from there on */
    bool small = cols < far && rows < far;
    tn_dtype dt = small ? TN_I32 : TN_I64;
    tn__node *row = tn__iota(dt, rank - 2, dims, rank), *col = tn__iota(dt, rank - 1, dims, rank);
    tn__node *d = tn__binary(TN_OP_SUB, col, row);
    if (upper) return tn__binary(TN_OP_LT, tn__const_i(dt, diagonal - 1, dims, rank), d);
    return tn__binary(TN_OP_LT, d, tn__const_i(dt, diagonal + 1, dims, rank));
}

tn__node *tn__tri(tn__node *x, int64_t diagonal, bool upper)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (x->rank < 2) {
        tn__fail(TN_ESHAPE, "%s: %s: takes at least two axes", upper ? "triu" : "tril", text(x));
        return NULL;
    }
    return tn__where(triangle(x->dims, x->rank, diagonal, upper), x, tn__like(x, 0));
}

tn__node *tn__diag(tn__node *x)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (x->rank == 2) return tn__diagonal(x, 0, 0, 1);
    if (x->rank != 1) {
        tn__fail(TN_ESHAPE, "diag: %s: takes a vector, or a matrix for its diagonal", text(x));
        return NULL;
    }
    int64_t dims[2] = {x->dims[0], x->dims[0]};
    tn__node *at = tn__iota(TN_I32, 0, dims, 2),
             *eye = tn__binary(TN_OP_EQ, at, tn__iota(TN_I32, 1, dims, 2));
    tn__node *y = tn__expand(x, dims, 2);
    return tn__where(eye, y, y ? tn__like(y, 0) : NULL);
}

bool tn__meshgrid(tn__node *const *xs, size_t n, bool xy, tn__node **out)
{
    int64_t dims[TN_MAX_RANK];
    if (!n || n > TN_MAX_RANK)
        return tn__fail(TN_EVALUE, "meshgrid: %zu tensors: takes 1 to %d", n, TN_MAX_RANK);
    for (size_t i = 0; i < n; i++) {
        if (!xs[i]) return false;
        if (xs[i]->rank > 1) return tn__fail(TN_ESHAPE, "meshgrid: %s: takes vectors", text(xs[i]));
        dims[i] = xs[i]->rank ? xs[i]->dims[0] : 1;
    }
    bool swap = xy && n > 1;
    int64_t shape[TN_MAX_RANK];
    memcpy(shape, dims, n * sizeof *dims);
    if (swap) shape[0] = dims[1], shape[1] = dims[0];
    for (size_t i = 0; i < n; i++) {
        int64_t one[TN_MAX_RANK];
        size_t at = swap && i < 2 ? 1 - i : i;
        for (size_t a = 0; a < n; a++) one[a] = a == at ? dims[i] : 1;
        out[i] = tn__expand(tn__reshape(tn__strong(xs[i]), one, (int)n), shape, (int)n);
        if (!out[i]) return false;
    }
    return true;
}
