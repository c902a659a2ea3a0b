/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files that make linear code of kernels: emit.c (loops over expressions) and sort.c, which
 * has a kernel of its own form.
 */
#ifndef TN_CODEGEN_EMIT_H
#define TN_CODEGEN_EMIT_H
#include "codegen/codegen.h"
#include "codegen/rows.h"

/* The finished rows as a blob, with `nscratch` private buffers of `bytes` together; sets k->name. */
bool tn__emit_blob(tn__kernel *k, tn__rows *r, const tnl_buf *scratch, uint32_t nscratch,
                   uint64_t bytes, tn__buf *blob);
/* The kernel of a SORT: buffer 0 is the operand, buffer 1 the positions. */
bool tn__emit_sort(tn__kernel *k, tn__buf *blob);
double tn__sort_ops(const tn__kernel *k);
#endif
