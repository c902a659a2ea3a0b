/* SPDX-License-Identifier: MIT */
/*
 * Losses.  The term of the target's class is read by GATHER, one a row, never by a sum over classes.
 * Everything is computed in at least float32 and the result has the input's float dtype.
 */
#include "tensor/ops.h"
#include <math.h>
#include <string.h>

static tn__node *mul(tn__node *a, tn__node *b) { return tn__binary(TN_OP_MUL, a, b); }

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

static tn__node *reduced(tn__node *x, tn__reduction r)
{
    if (r == TN__MEAN) return tn__mean(x, TN__ALL_AXES, false);
    if (r == TN__SUM) return tn__sum(x, TN__ALL_AXES, false, TN_DTYPE_DEFAULT);
    return x;
}

/* log p, at least -100: a certain wrong answer has a finite loss, and one with weight 0 none. */
static tn__node *log_bounded(tn__node *p)
{
    if (!p) return NULL;
    tn__node *none = tn__binary(TN_OP_EQ, p, tn__like(p, 0));
    tn__node *l = tn__ln(tn__where(none, tn__like(p, 1), p)), *low = tn__like(p, -100);
    tn__node *less = tn__binary(TN_OP_OR, none, tn__binary(TN_OP_LT, l, low));
    return tn__where(less, low, l);
}

tn__node *tn__binary_crossentropy(tn__node *x, tn__node *y, tn__reduction r)
{
    tn__node *xs[2] = {tn__to_float(x), tn__to_float(y)};
    if (!tn__unify("binary_crossentropy", xs, 2)) return NULL;
    tn__node *p = xs[0], *t = xs[1], *one = tn__like(p, 1);
    tn__node *a = mul(t, log_bounded(p));
    tn__node *b = mul(tn__binary(TN_OP_SUB, one, t), log_bounded(tn__binary(TN_OP_SUB, one, p)));
    return reduced(tn__unary(TN_OP_NEG, tn__binary(TN_OP_ADD, a, b)), r);
}

/* -(w y log s(x) + (1 - y) log s(-x)) with s the sigmoid; w weighs the positive class. */
tn__node *tn__binary_crossentropy_logits(tn__node *x, tn__node *y, tn__node *pos_weight,
                                         tn__reduction r)
{
    tn__node *xs[3] = {tn__to_float(x), tn__to_float(y), pos_weight};
    if (!tn__unify("binary_crossentropy_logits", xs, pos_weight ? 3 : 2)) return NULL;
    tn__node *t = xs[1], *one = tn__like(t, 1);
    tn__node *up = mul(t, tn__logsigmoid(xs[0])),
             *down = tn__logsigmoid(tn__unary(TN_OP_NEG, xs[0]));
    if (pos_weight) up = mul(up, xs[2]);
    tn__node *s = tn__binary(TN_OP_ADD, up, mul(tn__binary(TN_OP_SUB, one, t), down));
    return reduced(tn__unary(TN_OP_NEG, s), r);
}

/* x with the classes last, (rows, classes); NULL with an error where y is not one index a row. */
static tn__node *class_rows(const char *op, tn__node *x, const tn__node *y, int axis)
{
    bool fits = x->rank >= 1 && y->rank == x->rank - 1 && tn__dtype_is_int((tn_dtype)y->dt);
    for (int i = 0, k = 0; fits && i < x->rank; i++)
        if (i != axis) fits = x->dims[i] == y->dims[k++];
    if (!fits) {
        tn__fail(tn__dtype_is_int((tn_dtype)y->dt) ? TN_ESHAPE : TN_EDTYPE,
                 "%s: %s with targets %s of %s: takes one integer class for each row of scores", op,
                 text(x), text(y), tn__dtype_name((tn_dtype)y->dt));
        return NULL;
    }
    x = tn__move_axis(x, axis, x->rank - 1);
    if (!x) return NULL;
    int64_t c = x->dims[x->rank - 1], n = tn__node_numel(y);
    return tn__reshape(x, (int64_t[]){n, c}, 2);
}

/* rows[i, at[i]]; at has numel = rows. */
static tn__node *pick(tn__node *rows, tn__node *at)
{
    if (!rows || !at) return NULL;
    int64_t n = rows->dims[0], c = rows->dims[1];
    tn__node *y = tn__gather(tn__reshape(rows, (int64_t[]){n, c, 1}, 3),
                             tn__reshape(at, (int64_t[]){n, 1}, 2));
    return tn__reshape(y, &n, 1);
}

static bool holds(tn_dtype dt, int64_t v)
{
    return v >= tn__dtype_int_min(dt) && (v < 0 || (uint64_t)v <= tn__dtype_int_max(dt));
}

/* y as int rows, 0 where ignored; *kept: bool, or NULL where nothing is ignored. */
static tn__node *targets(tn__node *y, const int64_t *ignore, int64_t classes, tn__node **kept)
{
    int64_t n = tn__node_numel(y);
    y = tn__reshape(y, &n, 1);
    *kept = NULL;
    if (ignore && y && holds((tn_dtype)y->dt, *ignore)) {
        *kept = tn__binary(TN_OP_NE, y, tn__const_i((tn_dtype)y->dt, *ignore, y->dims, 1));
        y = tn__where(*kept, y, tn__like(y, 0));
    }
    return tn__index_wrap(y, classes);
}

/* Sum or mean of the terms over what is kept (weights, or ones), or the terms in y's shape. */
static tn__node *finish(tn__node *terms, tn__node *weights, const tn__node *y, tn__reduction r,
                        tn_dtype out)
{
    if (!terms) return NULL;
    if (weights) weights = tn__cast(weights, (tn_dtype)terms->dt);
    tn__node *s = terms;
    if (r == TN__KEEP) return tn__cast(tn__reshape_like(terms, y), out);
    s = tn__sum(s, TN__ALL_AXES, false, TN_DTYPE_DEFAULT);
    if (r == TN__MEAN) {
        tn__node *n = weights ? tn__sum(weights, TN__ALL_AXES, false, TN_DTYPE_DEFAULT)
                              : tn__const_f((tn_dtype)terms->dt, (double)tn__node_numel(terms),
                                            NULL, 0);
        s = tn__binary(TN_OP_DIV, s, n);
    }
    return tn__cast(s, out);
}

static bool smoothing_fits(const char *op, double v)
{
    return (v >= 0 && v <= 1) ||
           tn__fail(TN_EVALUE, "%s: label_smoothing %g: must be in 0..1", op, v);
}

/* Classes on `axis`. */
static tn__node *sparse(const char *op, tn__node *x, tn__node *y, int axis, const int64_t *ignore,
                        double smoothing, tn__reduction r)
{
    x = tn__to_float(x);
    y = tn__strong(y);
    if (!x || !y || !smoothing_fits(op, smoothing)) return NULL;
    tn__node *rows = class_rows(op, x, y, axis), *kept;
    rows = tn__log_softmax(tn__to_wide(rows), 2, TN_DTYPE_DEFAULT);
    if (!rows) return NULL;
    tn__node *terms = pick(rows, targets(y, ignore, rows->dims[1], &kept));
    if (smoothing > 0) {
        tn__node *even = tn__mul_s(tn__mean(rows, 2, false), smoothing);
        terms = tn__binary(TN_OP_ADD, tn__mul_s(terms, 1 - smoothing), even);
    }
    if (kept && terms) terms = tn__where(kept, terms, tn__like(terms, 0));
    return finish(tn__unary(TN_OP_NEG, terms), kept, y, r, (tn_dtype)x->dt);
}

tn__node *tn__sparse_crossentropy(tn__node *x, tn__node *y, const int64_t *ignore, double smoothing,
                                  tn__reduction r)
{
    return x ? sparse("sparse_categorical_crossentropy", x, y, x->rank - 1, ignore, smoothing, r)
             : NULL;
}

/* Targets are classes (integers; classes on axis 1, or 0 of a vector) or probabilities of x's shape. */
tn__node *tn__cross_entropy(tn__node *x, tn__node *y, double smoothing, tn__reduction r)
{
    x = tn__to_float(x);
    y = tn__strong(y);
    if (!x || !y || !smoothing_fits("cross_entropy", smoothing)) return NULL;
    int axis = x->rank > 1 ? 1 : 0;
    if (tn__dtype_is_int((tn_dtype)y->dt) && y->rank == x->rank - 1)
        return sparse("cross_entropy", x, y, axis, NULL, smoothing, r);
    bool fits = x->rank >= 1 && y->rank == x->rank &&
                !memcmp(x->dims, y->dims, (size_t)x->rank * sizeof *x->dims);
    if (!fits) {
        tn__fail(TN_ESHAPE,
                 "cross_entropy: %s with targets %s: takes probabilities of the same shape, or "
                 "integer classes "
                 "without axis %d",
                 text(x), text(y), axis);
        return NULL;
    }
    int64_t c = x->dims[axis];
    tn__node *l = tn__log_softmax(tn__to_wide(x), 1u << axis, TN_DTYPE_DEFAULT);
    tn__node *t = l ? tn__cast(y, (tn_dtype)l->dt) : NULL;
    if (smoothing > 0) t = tn__add_s(tn__mul_s(t, 1 - smoothing), smoothing / (double)(c ? c : 1));
    tn__node *s = tn__unary(TN_OP_NEG, tn__sum(mul(l, t), 1u << axis, false, TN_DTYPE_DEFAULT));
    return tn__cast(reduced(s, r), (tn_dtype)x->dt);
}

/* x: log-probabilities with the classes on axis 1 (0 of a vector). */
tn__node *tn__nll_loss(tn__node *x, tn__node *y, tn__node *weight, const int64_t *ignore,
                       tn__reduction r)
{
    x = tn__to_float(x);
    y = tn__strong(y);
    if (!x || !y) return NULL;
    tn__node *rows = class_rows("nll_loss", x, y, x->rank > 1 ? 1 : 0), *kept;
    rows = tn__to_wide(rows);
    if (!rows) return NULL;
    int64_t c = rows->dims[1], n = rows->dims[0];
    tn__node *at = targets(y, ignore, c, &kept), *terms = pick(rows, at), *w = kept;
    if (weight) {
        if (weight->rank != 1 || weight->dims[0] != c) {
            tn__fail(TN_ESHAPE, "nll_loss: weight %s for %lld classes: must be (%lld,)",
                     text(weight), (long long)c, (long long)c);
            return NULL;
        }
        tn__node *table = tn__reshape(tn__cast(weight, (tn_dtype)rows->dt), (int64_t[]){1, c, 1},
                                      3);
        w = tn__reshape(tn__gather(table, tn__reshape(at, (int64_t[]){1, n}, 2)), &n, 1);
        terms = mul(terms, w);
        if (kept && w) w = tn__where(kept, w, tn__like(w, 0));
    }
    if (kept && terms) terms = tn__where(kept, terms, tn__like(terms, 0));
    return finish(tn__unary(TN_OP_NEG, terms), w, y, r, (tn_dtype)x->dt);
}
