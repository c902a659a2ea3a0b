/* SPDX-License-Identifier: MIT */
/*
 * Ops of kernel expressions as rows of linear code.  The numeric rules stand here once, so that no backend
 * differs: NaN goes through max and min, integer division is floor and total, casts from floats saturate,
 * half floats are computed in float.
 */
#ifndef TN_CODEGEN_LOWER_H
#define TN_CODEGEN_LOWER_H
#include "codegen/rows.h"
#include "ir/op.h"

/* The result of an elementwise op on rows of dtype `from` (all sources; WHERE: of the values). */
int tn__lower_op(tn__rows *r, tn__op op, tn_dtype dt, tn_dtype from, int lanes, const int *src);
int tn__lower_const(tn__rows *r, tn_dtype dt, int lanes, uint64_t bits);
int tn__lower_const_f(tn__rows *r, tn_dtype dt, int lanes, double v);
#endif
