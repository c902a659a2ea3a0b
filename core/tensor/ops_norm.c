/* SPDX-License-Identifier: MIT */
/* Normalisation and attention, and the orthogonalising iteration of the Muon optimizer. */
#include "tensor/ops.h"
#include <math.h>

static tn__node *mul(tn__node *a, tn__node *b) { return tn__binary(TN_OP_MUL, a, b); }

static tn__node *stretch(tn__node *x, const tn__node *like)
{
    return x && like ? tn__broadcast_to("layernorm", x, like->dims, like->rank) : NULL;
}

tn__node *tn__layernorm(tn__node *x, unsigned axes, double eps)
{
    x = tn__to_float(x);
    if (!x) return NULL;
    tn__node *w = tn__to_wide(x);
    tn__node *d = tn__binary(TN_OP_SUB, w, stretch(tn__mean(w, axes, true), w));
    tn__node *v = tn__mean(mul(d, d), axes, true);
    tn__node *r = tn__rsqrt(tn__add_s(v, eps));
    return tn__cast(mul(d, stretch(r, w)), (tn_dtype)x->dt);
}

/* A vector over the axes of the mask, in order, as a shape that broadcasts to x. */
static tn__node *over(const char *what, tn__node *v, const tn__node *x, unsigned axes)
{
    int64_t dims[TN_MAX_RANK], n = 1;
    for (int i = 0; i < x->rank; i++) {
        dims[i] = axes >> i & 1 ? x->dims[i] : 1;
        n *= dims[i];
    }
    if (tn__node_numel(v) == n) return tn__reshape(v, dims, x->rank);
    tn__fail(TN_ESHAPE, "batchnorm: %s %s for %s: must have %lld elements, one a channel", what,
             tn__shape_text(v->dims, v->rank), tn__shape_text(x->dims, x->rank), (long long)n);
    return NULL;
}

tn__node *tn__batchnorm(tn__node *x, tn__node *weight, tn__node *bias, tn__node *mean,
                        tn__node *invstd, unsigned axes)
{
    x = tn__to_float(x);
    if (!x || !mean || !invstd) return NULL;
    tn__node *each[4] = {mean, invstd, weight, bias};
    static const char *const what[4] = {"mean", "invstd", "weight", "bias"};
    tn_dtype out = (tn_dtype)x->dt;
    for (int i = 0; i < 4; i++) {
        if (!each[i]) continue;
        out = tn__dtype_promote(out, (tn_dtype)each[i]->dt);
        bool placed = i == 1 && each[i]->rank == x->rank; /* one a position, already in its shape */
        if (!placed) each[i] = over(what[i], each[i], x, axes);
        if (!each[i]) return NULL;
        each[i] = tn__to_wide(each[i]);
    }
    tn__node *y = tn__sub(tn__to_wide(x), each[0]);
    if (each[2]) y = tn__mul(y, each[2]);
    y = tn__mul(y, each[1]);
    if (each[3]) y = tn__add(y, each[3]);
    return tn__cast(y, out);
}

/* Iterates X <- a X + (b A + c A A) X with A = X X^T, towards the nearest orthogonal matrix (Jordan et al.,
 * Muon). */
tn__node *tn__newton_schulz(tn__node *g, int steps, const double c[3], double eps)
{
    tn__node *in = tn__to_float(g), *x = tn__to_wide(in);
    if (!x) return NULL;
    if (x->rank < 2) {
        tn__fail(TN_ESHAPE, "newton_schulz: %s: takes at least two axes",
                 tn__shape_text(x->dims, x->rank));
        return NULL;
    }
    bool tall = x->dims[x->rank - 2] > x->dims[x->rank - 1];
    if (tall) x = tn__transpose(x, -2, -1);
    unsigned last = x ? 3u << (x->rank - 2) : 0;
    tn__node *n = tn__sqrt(tn__sum(tn__square(x), last, true, TN_DTYPE_DEFAULT));
    x = tn__div(x, tn__add_s(n, eps), TN__DIV_TRUE);
    for (int i = 0; i < steps && x; i++) {
        tn__node *a = tn__matmul(x, tn__transpose(x, -2, -1), TN_DTYPE_DEFAULT);
        tn__node *b = tn__add(tn__mul_s(a, c[1]),
                              tn__mul_s(tn__matmul(a, a, TN_DTYPE_DEFAULT), c[2]));
        x = tn__add(tn__mul_s(x, c[0]), tn__matmul(b, x, TN_DTYPE_DEFAULT));
    }
    if (tall) x = tn__transpose(x, -2, -1);
    return x ? tn__cast(x, (tn_dtype)in->dt) : NULL;
}

static bool attention_fits(const tn__node *q, const tn__node *k, const tn__node *v)
{
    if (q->rank >= 2 && k->rank == q->rank && v->rank == q->rank &&
        q->dims[q->rank - 1] == k->dims[k->rank - 1] &&
        k->dims[k->rank - 2] == v->dims[v->rank - 2])
        return true;
    return tn__fail(TN_ESHAPE,
                    "scaled_dot_product_attention: query %s, key %s, value %s: takes (.., L, E), "
                    "(.., S, E), (.., S, V)",
                    tn__shape_text(q->dims, q->rank), tn__shape_text(k->dims, k->rank),
                    tn__shape_text(v->dims, v->rank));
}

/* Key or value repeated to the query's number of heads (axis -3). */
static tn__node *to_heads(tn__node *x, const tn__node *q)
{
    int64_t have = x->rank < 3 ? 1 : x->dims[x->rank - 3],
            want = q->rank < 3 ? 1 : q->dims[q->rank - 3];
    if (have == want) return x;
    if (!have || want % have) {
        tn__fail(
            TN_ESHAPE,
            "scaled_dot_product_attention: %lld query heads and %lld key heads: must be a multiple",
            (long long)want, (long long)have);
        return NULL;
    }
    return tn__repeat_interleave(x, want / have, -3);
}

tn__node *tn__attention(tn__node *q, tn__node *k, tn__node *v, tn__node *mask, double dropout,
                        bool causal, bool gqa)
{
    q = tn__to_float(q);
    if (!q || !k || !v || !attention_fits(q, k, v)) return NULL;
    if (mask && causal) {
        tn__fail(TN_EVALUE,
                 "scaled_dot_product_attention: attn_mask and is_causal: give one of them");
        return NULL;
    }
    if (gqa) k = to_heads(k, q), v = to_heads(v, q);
    if (!k || !v) return NULL;
    tn_dtype out = (tn_dtype)q->dt;
    tn__node *s = tn__matmul(tn__to_wide(q), tn__transpose(tn__to_wide(k), -2, -1),
                             TN_DTYPE_DEFAULT);
    int64_t e = q->dims[q->rank - 1];
    s = tn__mul_s(s, 1 / sqrt((double)(e ? e : 1)));
    if (!s) return NULL;
    if (causal) mask = tn__tri(tn__const_i(TN_BOOL, 1, s->dims + s->rank - 2, 2), 0, false);
    if (mask && mask->dt == TN_BOOL) {
        tn__node *no = tn__const_f((tn_dtype)s->dt, -(double)INFINITY, NULL, 0);
        s = tn__select(mask, s, no);
    } else if (mask) {
        s = tn__add(s, mask);
    }
    if (!s) return NULL;
    s = tn__softmax(s, 1u << (s->rank - 1), TN_DTYPE_DEFAULT);
    return tn__cast(tn__matmul(tn__dropout(tn__cast(s, out), dropout), v, TN_DTYPE_DEFAULT), out);
}
