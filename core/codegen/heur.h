/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the heuristic: what is being optimised, facts about its loads and ranges, the division
 * among work-groups (heuristic.c), and kernels whose operands are reused (contract.c).
 */
#ifndef TN_CODEGEN_HEUR_H
#define TN_CODEGEN_HEUR_H
#include "codegen/opts.h"

enum { GROUP_OPS = 60000, MAX_GROUPS = 64 }; /* least work of a group; most groups */

typedef struct {
    tn__schedule *s;
    tn__kernel *k;
    const tn__codegen_target *t;
    int lanes, regs;
    int64_t window; /* register copies of a small reduction around the contraction */
} heur;

static inline int64_t size(const tn__uop *r) { return tn__range_size(r); }
static inline bool room(const tn__kernel *k) { return k->sp.nranges + 12 <= TN__MAX_RANGES; }

/* Writes what it reads, or runs in order: no shifting. */
bool tn__h_in_order(const tn__kernel *k);
/* Distance in elements between neighbours along r in a load's buffer, or the first store's; -1: not a fixed one. */
int64_t tn__h_load_stride(const tn__kernel *k, const tn__uop *load, const tn__uop *r);
int64_t tn__h_store_stride(const tn__kernel *k, const tn__uop *r);
/* The one load under u, NULL if there are more or none. */
tn__uop *tn__h_sole_load(tn__kernel *k, tn__uop *u);
/* A reduction's own range along which its loads are contiguous, or NULL. */
tn__uop *tn__h_contiguous(heur *h, tn__uop *red);
/* Divides the outermost output loop into `most` parts at the most; `first`: the one to take, or NULL. */
bool tn__h_grid(heur *h, tn__uop *first, double most);
/* A long sum of products with few results, whose operand with lanes has no room in the cache, is made in blocks. */
bool tn__h_partial(heur *h);
/* A sum of products whose factors are reused; *done: it was one and has its opts. */
bool tn__h_contraction(heur *h, bool *done);
#endif
