/* SPDX-License-Identifier: MIT */
/* Private to the gradient: the table of rules and the small graph pieces they are written with. */
#ifndef TN_TENSOR_GRADIENT_H
#define TN_TENSOR_GRADIENT_H
#include "tensor/make.h"

/* Vector-Jacobian product: y = op(y->src...), g = d(root)/d(y).  Puts d(root)/d(src[i]) into
 * out[i], NULL where nothing flows; `want` has bit i set where out[i] is used.  Errors flow through
 * as NULL and are seen as pending by the caller. */
typedef void tn__vjp(tn__node *y, tn__node *g, unsigned want, tn__node **out);
extern tn__vjp *const tn__vjps[TN_OP_COUNT];
/* Rules of gather, scatter, scan and update (gradient_data.c). */
tn__vjp tn__vjp_gather, tn__vjp_scatter, tn__vjp_scan, tn__vjp_update, tn__vjp_reduce;

static inline tn__node *gr_mul(tn__node *a, tn__node *b) { return tn__binary(TN_OP_MUL, a, b); }
static inline tn__node *gr_add(tn__node *a, tn__node *b) { return tn__binary(TN_OP_ADD, a, b); }
static inline tn__node *gr_div(tn__node *a, tn__node *b) { return tn__binary(TN_OP_DIV, a, b); }
static inline tn__node *gr_eq(tn__node *a, tn__node *b) { return tn__binary(TN_OP_EQ, a, b); }
static inline tn__node *gr_neg(tn__node *a) { return tn__unary(TN_OP_NEG, a); }
/* a times the number k */
static inline tn__node *gr_scale(tn__node *a, double k)
{
    return a ? gr_mul(a, tn__const_like(a, k)) : NULL;
}
/* c ? a : 0 */
static inline tn__node *gr_only(tn__node *c, tn__node *a)
{
    return a ? tn__where(c, a, tn__const_like(a, 0)) : NULL;
}
/* Sums along the axes, kept at size 1, in at least float32; the result has x's dtype. */
tn__node *tn__gr_sum(tn__node *x, unsigned axes);
tn__node *tn__gr_expand_as(tn__node *x, const tn__node *like);
#endif
