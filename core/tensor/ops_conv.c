/* SPDX-License-Identifier: MIT */
/*
 * Convolutions on WINDOW, transposed ones on FOLD.
 *
 * conv: pad, one WINDOW a spatial axis, multiply by the weight, one REDUCE over (channel, kernel axes).
 * Any number of spatial axes up to three.  Products accumulate as sums do.
 */
#include "tensor/ops.h"
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

/* (.., s0, s1, ..) from axis `first` on becomes (.., o0, k0, o1, k1, ..). */
tn__node *tn__windows(const char *op, tn__node *x, int first, const tn__window_args *a)
{
    for (int i = 0; i < a->n && x; i++) {
        int axis = first + 2 * i;
        if (tn__span(a->kernel[i], a->dilation[i]) > x->dims[axis]) {
            tn__fail(TN_ESHAPE,
                     "%s: kernel %lld with dilation %lld spans more than the padded size %lld of "
                     "spatial axis %d: pad more",
                     op, (long long)a->kernel[i], (long long)a->dilation[i],
                     (long long)x->dims[axis], i);
            return NULL;
        }
        x = tn__window(x, axis, a->kernel[i], a->stride[i], a->dilation[i]);
    }
    return x;
}

bool tn__windows_fit(const char *op, const tn__node *x, int first, const tn__window_args *a)
{
    int64_t dims[TN_MAX_RANK];
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    for (int i = 0; i < a->n; i++) dims[first + i] += a->before[i] + a->after[i];
    return tn__dims_check(op, dims, x->rank);
}

static bool conv_fits(const char *op, const tn__node *x, const tn__node *w, int64_t groups,
                      bool transposed)
{
    int n = w->rank - 2;
    if (n < 1 || n > TN__MAX_SPATIAL || x->rank != w->rank)
        return tn__fail(
            TN_ESHAPE,
            "%s: input %s and weight %s: take (batch, channels, spatial..) and (out, in / groups, "
            "kernel..) with 1 to %d spatial axes",
            op, text(x), text(w), TN__MAX_SPATIAL);
    if (groups < 1 || tn__times(groups, w->dims[1]) > TN__MAX_NUMEL ||
        (transposed ? x->dims[1] != w->dims[0] || w->dims[0] % groups
                    : x->dims[1] != tn__times(groups, w->dims[1]) || w->dims[0] % groups))
        return tn__fail(TN_ESHAPE, "%s: %lld channels, weight %s and %lld groups do not fit: %s",
                        op, (long long)x->dims[1], text(w), (long long)groups,
                        transposed ? "channels must be the weight's axis 0, a multiple of groups"
                                   : "channels must be groups times the weight's axis 1, and its "
                                     "axis 0 a multiple of groups");
    return true;
}

static tn__node *with_bias(const char *op, tn__node *y, tn__node *bias)
{
    if (!y || !bias) return y;
    if (bias->rank != 1 || bias->dims[0] != y->dims[1]) {
        tn__fail(TN_ESHAPE, "%s: bias %s for %lld output channels: must be (%lld,)", op, text(bias),
                 (long long)y->dims[1], (long long)y->dims[1]);
        return NULL;
    }
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < y->rank; i++) dims[i] = i == 1 ? y->dims[1] : 1;
    return tn__add(y, tn__reshape(bias, dims, y->rank));
}

/* Both to one dtype and from there to the accumulator; *out is the result's dtype. */
static bool operands(const char *op, tn__node *xs[2], tn_dtype dt, tn_dtype *out)
{
    xs[0] = tn__strong(xs[0]);
    xs[1] = tn__strong(xs[1]);
    if (!tn__promote(op, xs, 2)) return false;
    tn_dtype in = (tn_dtype)xs[0]->dt, acc = dt != TN_DTYPE_DEFAULT ? dt : tn__dtype_sum(in);
    *out = dt != TN_DTYPE_DEFAULT ? dt : tn__dtype_is_float(in) ? in : acc;
    xs[0] = tn__cast(xs[0], acc);
    xs[1] = tn__cast(xs[1], acc);
    return xs[0] && xs[1];
}

tn__node *tn__conv(tn__node *x, tn__node *w, tn__node *bias, int64_t groups,
                   const tn__window_args *a, tn_dtype dt)
{
    tn__node *xs[2] = {x, w};
    tn_dtype out;
    if (!x || !w || !conv_fits("conv2d", x, w, groups, false) || !operands("conv2d", xs, dt, &out))
        return NULL;
    x = xs[0], w = xs[1];
    int n = a->n;
    if (!tn__windows_fit("conv2d", x, 2, a)) return NULL;
    int64_t before[TN_MAX_RANK] = {0}, after[TN_MAX_RANK] = {0};
    memcpy(before + 2, a->before, (size_t)n * sizeof *before);
    memcpy(after + 2, a->after, (size_t)n * sizeof *after);
    x = tn__windows("conv2d", tn__pad(x, before, after), 2, a);
    if (!x) return NULL;
    int64_t cin = w->dims[1], cout = w->dims[0] / groups, full[4 + 2 * TN__MAX_SPATIAL],
            split[TN_MAX_RANK];
    /* (N, g, c, o0, k0, ..) -> (N, g, 1, o.., c, k..) */
    split[0] = x->dims[0], split[1] = groups, split[2] = cin;
    memcpy(split + 3, x->dims + 2, (size_t)(2 * n) * sizeof *split);
    x = tn__reshape(x, split, 3 + 2 * n);
    int order[TN_MAX_RANK] = {0, 1}, rank = 4 + 2 * n;
    full[0] = split[0], full[1] = groups, full[2] = 1, full[3 + n] = cin;
    for (int i = 0; i < n; i++) {
        order[2 + i] = 3 + 2 * i;
        order[3 + n + i] = 4 + 2 * i;
        full[3 + i] = split[3 + 2 * i];
        full[4 + n + i] = a->kernel[i];
    }
    order[2 + n] = 2;
    x = tn__reshape(tn__permute(x, order), full, rank);
    int64_t wide[4 + 2 * TN__MAX_SPATIAL], flat[2 + TN__MAX_SPATIAL];
    for (int i = 0; i < rank; i++) wide[i] = i == 1 || i > 2 + n ? full[i] : 1;
    wide[2] = full[2] = cout;
    w = tn__expand(tn__reshape(w, wide, rank), full, rank);
    unsigned sum = ((1u << (n + 1)) - 1u) << (3 + n);
    tn__node *y = tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, tn__expand(x, full, rank), w), sum);
    flat[0] = full[0], flat[1] = groups * cout;
    memcpy(flat + 2, full + 3, (size_t)n * sizeof *flat);
    return with_bias("conv2d", tn__cast(tn__reshape(y, flat, 2 + n), out), tn__strong(bias));
}

/* Cuts the padding off and appends the output padding. */
static tn__node *trim(tn__node *y, const tn__window_args *a, const int64_t *more)
{
    if (!y) return NULL;
    int64_t none[TN_MAX_RANK] = {0}, after[TN_MAX_RANK] = {0}, first[TN_MAX_RANK] = {0},
            size[TN_MAX_RANK];
    for (int i = 0; i < y->rank; i++) size[i] = y->dims[i];
    for (int i = 0; i < a->n; i++) {
        if (more[i] < 0) {
            tn__fail(TN_EVALUE,
                     "conv_transpose2d: output padding %lld of spatial axis %d: must not be "
                     "negative",
                     (long long)more[i], i);
            return NULL;
        }
        int64_t extra = more[i] - a->after[i];
        after[2 + i] = extra > 0 ? extra : 0;
        first[2 + i] = a->before[i];
        size[2 + i] = y->dims[2 + i] + extra - a->before[i];
        if (size[2 + i] >= 0) continue;
        tn__fail(TN_ESHAPE,
                 "conv_transpose2d: padding %lld and %lld of spatial axis %d leave nothing of "
                 "%lld: pad less",
                 (long long)a->before[i], (long long)a->after[i], i, (long long)y->dims[2 + i]);
        return NULL;
    }
    return tn__shrink(tn__pad(y, none, after), first, size);
}

tn__node *tn__conv_transpose(tn__node *x, tn__node *w, tn__node *bias, int64_t groups,
                             const tn__window_args *a, const int64_t *output_padding)
{
    tn__node *xs[2] = {x, w};
    tn_dtype out;
    if (!x || !w || !conv_fits("conv_transpose2d", x, w, groups, true)) return NULL;
    if (!operands("conv_transpose2d", xs, TN_DTYPE_DEFAULT, &out)) return NULL;
    x = xs[0], w = xs[1];
    int n = a->n, rank = 4 + 2 * n, order[TN_MAX_RANK];
    int64_t cin = w->dims[0] / groups, cout = w->dims[1], xd[TN_MAX_RANK], wd[TN_MAX_RANK],
            full[TN_MAX_RANK];
    /* (N, g, cin, cout, i.., k..) */
    for (int i = 0; i < rank; i++) xd[i] = wd[i] = 1;
    xd[0] = x->dims[0], xd[1] = wd[1] = groups, xd[2] = wd[2] = cin, wd[3] = cout;
    for (int i = 0; i < n; i++) xd[4 + i] = x->dims[2 + i], wd[4 + n + i] = a->kernel[i];
    for (int i = 0; i < rank; i++) full[i] = xd[i] > wd[i] || !xd[i] ? xd[i] : wd[i];
    tn__node *y = tn__binary(TN_OP_MUL, tn__expand(tn__reshape(x, xd, rank), full, rank),
                             tn__expand(tn__reshape(w, wd, rank), full, rank));
    y = tn__reduce(TN_OP_ADD, y, 1u << 2);
    int64_t flat[TN_MAX_RANK] = {full[0], groups * cout};
    memcpy(flat + 2, full + 4, (size_t)(2 * n) * sizeof *flat);
    y = tn__reshape(y, flat, 2 + 2 * n);
    order[0] = 0, order[1] = 1;
    for (int i = 0; i < n; i++) order[2 + 2 * i] = 2 + i, order[3 + 2 * i] = 2 + n + i;
    y = tn__permute(y, order);
    for (int i = 0; i < n && y; i++) {
        const int64_t in = y->dims[2 + i],
                      size = in ? tn__plus(tn__times(in - 1, a->stride[i]),
                                           tn__span(a->kernel[i], a->dilation[i]))
                                : 0;
        flat[2 + i] = size;
        if (!tn__dims_fit(flat, 3 + i)) {
            tn__fail(TN_ESHAPE,
                     "conv_transpose2d: %lld elements with stride %lld, kernel %lld and dilation "
                     "%lld on spatial axis %d: the result has too many",
                     (long long)in, (long long)a->stride[i], (long long)a->kernel[i],
                     (long long)a->dilation[i], i);
            return NULL;
        }
        y = tn__fold(y, 2 + i, size, a->kernel[i], a->stride[i], a->dilation[i]);
    }
    return with_bias("conv_transpose2d", tn__cast(trim(y, a, output_padding), out),
                     tn__strong(bias));
}
