/* SPDX-License-Identifier: MIT */
/*
 * The table of ops: one row of ops.def each, indexed by tn__op.  Constant; any thread.
 */
#include "ir/op.h"

const tn__op_info tn__ops[TN_OP_COUNT] = {
#define TN_OP_ROW(name, text, nsrc, where, cls, doc) \
    [TN_OP_##name] = {#name, text, nsrc, where, TN_CLASS_##cls, doc},
#include "ir/ops.def"
#undef TN_OP_ROW
};
