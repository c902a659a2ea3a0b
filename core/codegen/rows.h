/* SPDX-License-Identifier: MIT */
/*
 * Rows under construction: linear code as a tree of blocks (loops).  A pure row goes into the deepest block
 * of its sources, so that whatever does not depend on a loop stands outside it, and equal rows of a block
 * are one.
 */
#ifndef TN_CODEGEN_ROWS_H
#define TN_CODEGEN_ROWS_H
#include "base/base.h"
#include "ir/dtype.h"
#include <tenon/linear.h>

typedef enum {
#define X(name) TN__L_##name,
    TNL_BASE_OPS(X)
#undef X
        TN__L_COUNT
} tn__lop;

typedef struct {
    uint16_t op;
    uint8_t dt, lanes;
    int src[3];
    int64_t imm;
    int block;
} tn__row;

typedef struct {
    int parent, depth;
    int *item; /* row, or ~block */
    int n, cap;
    int loop; /* row of the loop, -1: the root */
    bool closed;
} tn__block;

typedef struct {
    tn__arena *a;
    tn__row *row;
    int nrow, cap_row;
    tn__block *block;
    int nblock, cap_block;
    int *table; /* value numbers: row + 1 by hash */
    int cap_table, ntable;
    bool failed;
    bool fma; /* the target has one that is quick */
} tn__rows;

bool tn__rows_init(tn__rows *r, tn__arena *a); /* with the root block 0 */
/* A pure row, shared with an equal one. */
int tn__row_pure(tn__rows *r, tn__lop op, tn_dtype dt, int lanes, int a, int b, int c, int64_t imm);
/* A row at the end of a block. */
int tn__row_at(tn__rows *r, int block, tn__lop op, tn_dtype dt, int lanes, int a, int b, int c,
               int64_t imm);
int tn__block_deeper(const tn__rows *r, int a, int b);
/* Opens a loop inside `parent`; its row counts 0 .. count-1.  Closing appends it to the parent. */
int tn__block_open(tn__rows *r, int parent, int count_row);
void tn__block_close(tn__rows *r, int block);
/* The finished list, as a blob. */
bool tn__rows_blob(tn__rows *r, const tnl_head *head, const tnl_buf *bufs, tn__buf *out);
#endif
