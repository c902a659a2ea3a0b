/* SPDX-License-Identifier: MIT */
/*
 * The state of one emission and what its two files give each other: emit.c opens loops and writes reductions and
 * stores, emit_value.c finds or makes the row of an expression under the copies of register axes that are set in
 * `env`.
 */
#ifndef TN_CODEGEN_EMIT_STATE_H
#define TN_CODEGEN_EMIT_STATE_H
#include "codegen/codegen.h"
#include "codegen/rows.h"

enum { LANES = -1, CLOSED = -2, MAX_REGS = 16 };

typedef struct {
    uint32_t id;
    uint64_t env;
    int row;
} memo_entry;

typedef struct {
    tn__kernel *k;
    const tn__codegen_target *t;
    tn__arena *a;
    tn__rows r;
    uint64_t regs;               /* ranges without a loop */
    uint64_t vecs;               /* VECTOR ranges among them */
    int64_t env[TN__MAX_RANGES]; /* copy of a register axis, LANES */
    int block[TN__MAX_RANGES];   /* block of a loop, CLOSED */
    int loop_row[TN__MAX_RANGES];
    int at;                  /* innermost open block */
    int staged[TN__KSTAGES]; /* block in which the private array was filled, -1: not yet */
    memo_entry *memo;
    size_t cap_memo, nmemo;
} em;

static inline int64_t size_of(const em *e, int n) { return tn__range_size(e->k->sp.range[n]); }

/* ---- emit_value.c ---- */
int tn__e_val(em *e, tn__uop *u);                  /* the row of u here and now */
int tn__e_val_lanes(em *e, tn__uop *u, int lanes); /* as so many lanes */
int tn__e_splat(em *e, int row, int lanes);
int tn__e_lane_axis(const em *e,
                    const tn__uop *u); /* VECTOR range that makes u a vector now, or -1 */
int tn__e_lanes_of(const em *e, const tn__uop *u);
int tn__e_konst(em *e, int64_t v);
int tn__e_index_row(em *e, const tn__uop *x); /* a scalar index */
tn__uop *tn__e_flat_index(em *e, const tn__uop *u, int buf, int first);
uint64_t tn__e_env_key(const em *e, uint64_t deps);
memo_entry *tn__e_memo_at(em *e, uint32_t id, uint64_t key);
int tn__e_remember(em *e, const tn__uop *u, int row);

/* ---- emit.c ---- */
int tn__e_open_loop(em *e, int n, int parent);  /* range n inside a block */
int tn__e_block_of(const em *e, uint64_t deps); /* the deepest open one of these ranges */
int tn__e_reduce_value(em *e, tn__uop *u);
int tn__e_scan_value(em *e, tn__uop *u);
#endif
