/* SPDX-License-Identifier: MIT */
/*
 * Matrix products: both operands stretched to (.., M, K, N), multiplied, summed over K; and what is built
 * on them.  Products accumulate in at least float32 or int32; the result has the promoted dtype.
 */
#include "tensor/ops.h"
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

/* Sizes of the batch axes of both, broadcast, into dims; the number of them or -1. */
static int batch_of(const tn__node *a, const tn__node *b, int64_t *dims)
{
    int na = a->rank - 2, nb = b->rank - 2, n = na > nb ? na : nb;
    for (int i = 0; i < n; i++) {
        int64_t da = i < n - na ? 1 : a->dims[i - (n - na)],
                db = i < n - nb ? 1 : b->dims[i - (n - nb)];
        if (da != db && da != 1 && db != 1) {
            tn__fail(TN_ESHAPE,
                     "matmul: batch axes differ: %s @ %s: from the right, sizes must be equal or 1",
                     text(a), text(b));
            return -1;
        }
        dims[i] = da == 1 ? db : da;
    }
    return n;
}

/* (.., M, K) and (.., K, N), at least two axes each. */
static tn__node *product(tn__node *a, tn__node *b)
{
    int64_t full[TN_MAX_RANK + 1], part[TN_MAX_RANK + 1];
    int n = batch_of(a, b, full);
    if (n < 0) return NULL;
    if (n + 3 > TN_MAX_RANK) {
        tn__fail(TN_ESHAPE, "matmul: %s @ %s: at most %d axes", text(a), text(b), TN_MAX_RANK - 1);
        return NULL;
    }
    int64_t m = a->dims[a->rank - 2], k = a->dims[a->rank - 1], cols = b->dims[b->rank - 1];
    full[n] = m, full[n + 1] = k, full[n + 2] = cols;
    memcpy(part, a->dims, (size_t)a->rank * sizeof *part);
    part[a->rank] = 1;
    a = tn__expand(tn__reshape(a, part, a->rank + 1), full, n + 3);
    memcpy(part, b->dims, (size_t)(b->rank - 2) * sizeof *part);
    part[b->rank - 2] = 1, part[b->rank - 1] = k, part[b->rank] = cols;
    b = tn__expand(tn__reshape(b, part, b->rank + 1), full, n + 3);
    tn__node *y = tn__reduce(TN_OP_ADD, tn__binary(TN_OP_MUL, a, b), 1u << (n + 1));
    return tn__drop_axes(y, 1u << (n + 1), false);
}

tn__node *tn__matmul(tn__node *a, tn__node *b, tn_dtype dt)
{
    tn__node *xs[2] = {tn__strong(a), tn__strong(b)};
    a = xs[0], b = xs[1];
    if (!a || !b) return NULL;
    if (!a->rank || !b->rank) {
        tn__fail(TN_ESHAPE,
                 "matmul: %s @ %s: both need at least one axis: multiply by numbers with mul",
                 text(a), text(b));
        return NULL;
    }
    int64_t ka = a->dims[a->rank - 1], kb = b->dims[b->rank > 1 ? b->rank - 2 : 0];
    if (ka != kb) {
        tn__fail(TN_ESHAPE, "matmul: inner dims %lld and %lld differ: %s @ %s", (long long)ka,
                 (long long)kb, text(a), text(b));
        return NULL;
    }
    if (!tn__promote("matmul", xs, 2)) return NULL;
    tn_dtype in = (tn_dtype)xs[0]->dt, acc = dt != TN_DTYPE_DEFAULT ? dt : tn__dtype_sum(in);
    bool row = a->rank == 1, col = b->rank == 1;
    a = tn__cast(xs[0], acc);
    b = tn__cast(xs[1], acc);
    if (row) a = tn__reshape(a, (int64_t[]){1, ka}, 2);
    if (col) b = tn__reshape(b, (int64_t[]){kb, 1}, 2);
    tn__node *y = a && b ? product(a, b) : NULL;
    if (!y) return NULL;
    unsigned drop = (row ? 1u << (y->rank - 2) : 0u) | (col ? 1u << (y->rank - 1) : 0u);
    return tn__cast(tn__drop_axes(y, drop, false), dt != TN_DTYPE_DEFAULT ? dt : in);
}

tn__node *tn__linear(tn__node *x, tn__node *w, tn__node *bias)
{
    if (!x || !w) return NULL;
    tn__node *y = w->rank == 1 ? tn__mul(x, w) : tn__matmul(x, w, TN_DTYPE_DEFAULT);
    return y && bias ? tn__add(y, bias) : y;
}
