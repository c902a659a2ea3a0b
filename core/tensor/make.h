/* SPDX-License-Identifier: MIT */
/* What the constructors share: the one place that allocates a node, checks, placements, folding. */
#ifndef TN_TENSOR_MAKE_H
#define TN_TENSOR_MAKE_H
#include "tensor/node.h"
#include "tensor/sums.h"

typedef struct {
    tn__op op;
    tn_dtype dt;
    int rank;
    const int64_t *dims;
    int nsrc;
    tn__node *src[3];
    int narg;
    const int64_t *argv;
    tn__scalar scalar;
    const tn__placement *place;
} tn__spec;
/* Borrowed from the build; dims must have been checked.  NULL when there is no memory. */
tn__node *tn__make(const tn__spec *s);

bool tn__same_dims(const tn__node *a, const tn__node *b);
const char *tn__dims_of(const tn__node *n); /* tn__shape_text of its shape */

/* x is an unrealised, unkept `op` that may be merged away (tn__merge). */
bool tn__mergeable(const tn__node *x, tn__op op);
/* A CONST that nobody holds on to: movements and folding may replace it. */
bool tn__movable_const(const tn__node *x);

/* Placement of an elementwise result; false with TN_EDEVICE where the sources' devices differ. */
bool tn__place_join(const char *subject, const tn__placement *const *src, int n,
                    const tn__placement **out);
/* p with another shard axis (-1: whole on every device); NULL stays NULL. */
bool tn__place_axis(const tn__placement *p, int axis, const tn__placement **out);
/* Placement of the movement op of x to dims; argv as in ops.def. */
bool tn__place_move(const tn__spec *s, const tn__placement **out);

/* Folds an elementwise op over scalars by the rules of ops.def; dt is the sources' (last source's)
 * dtype. */
bool tn__evaluate(tn__op op, tn_dtype dt, const tn__scalar *s, tn__scalar *out);

/* top is movement nodes down to root (EXPAND, PAD and WINDOW included). */
bool tn__chain_reaches(const tn__node *top, const tn__node *root);
/* The movements between top and old, done over root; old must be reached. */
tn__node *tn__chain_over(tn__node *top, const tn__node *old, tn__node *root);
#endif
