/* SPDX-License-Identifier: MIT */
/*
 * Index algebra.  An index expression is always one AFFINE node: a constant plus coefficients times atoms,
 * sorted by id.  Atoms are RANGE, IDIV and IMOD of an index expression by a positive constant, MIN, and
 * anything else that is an integer known at run time only (a loaded index, a scalar).  Everything is
 * simplified as it is made; nothing is rewritten later.  Bounds are exact for affine sums of independent
 * atoms and safe otherwise; arithmetic saturates.
 */
#ifndef TN_IR_INDEX_H
#define TN_IR_INDEX_H
#include "ir/uop.h"

tn__uop *tn__ix_const(tn__space *s, int64_t v);
tn__uop *tn__ix_atom(tn__space *s, tn__uop *atom); /* 1 * atom */
tn__uop *tn__ix_add(tn__space *s, tn__uop *a, tn__uop *b);
tn__uop *tn__ix_addc(tn__space *s, tn__uop *a, int64_t c);
tn__uop *tn__ix_mulc(tn__space *s, tn__uop *a, int64_t c);
tn__uop *tn__ix_divc(tn__space *s, tn__uop *a, int64_t c); /* floor, c > 0 */
tn__uop *tn__ix_modc(tn__space *s, tn__uop *a, int64_t c); /* 0 <= result < c */
tn__uop *tn__ix_minc(tn__space *s, tn__uop *a, int64_t c);

/* Conditions: bool nodes; NULL means true. */
tn__uop *tn__ix_lt(tn__space *s, tn__uop *a, int64_t c); /* a < c */
tn__uop *tn__ix_ge(tn__space *s, tn__uop *a, int64_t c); /* a >= c */
tn__uop *tn__ix_eq(tn__space *s, tn__uop *a, int64_t c);
tn__uop *tn__cond_and(tn__space *s, tn__uop *a, tn__uop *b);
bool tn__cond_false(const tn__uop *c); /* provably */

/* Coefficient of range number n in a, 0 if none; *other: n also occurs inside another atom. */
int64_t tn__ix_coef(const tn__uop *a, int64_t n, bool *other);
/* Splits a row-major position into indices of `dims`, or joins indices to a position. */
void tn__ix_split(tn__space *s, tn__uop *pos, const int64_t *dims, int rank, tn__uop **out);
tn__uop *tn__ix_join(tn__space *s, tn__uop *const *idx, const int64_t *dims, int rank);
/* Indices of shape `from` for the element at indices `idx` of shape `to` (a reshape from -> to). */
void tn__ix_reshape(tn__space *s, tn__uop *const *idx, const int64_t *to, int nto,
                    const int64_t *from, int nfrom, tn__uop **out);
#endif
