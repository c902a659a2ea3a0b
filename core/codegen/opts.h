/* SPDX-License-Identifier: MIT */
/*
 * Opts: rewrites of a kernel's ranges.  Each keeps the kernel's meaning; what changes is the order of
 * evaluation.  A range is named by its node; after an opt the old node is gone from the kernel.
 */
#ifndef TN_CODEGEN_OPTS_H
#define TN_CODEGEN_OPTS_H
#include "codegen/codegen.h"
#include "schedule/schedule.h"

/* Every node of the kernel, sources first. */
bool tn__kernel_topo(tn__kernel *k, tn__uop ***order, size_t *n);
/* Replaces ranges by index expressions in all of the kernel. */
bool tn__kernel_subst(tn__kernel *k, tn__uop *const *to);
/* Replaces one node by another (same dtype) everywhere in the kernel. */
bool tn__kernel_replace(tn__kernel *k, const tn__uop *old, tn__uop *by);

/* Buffers that are neither read nor written any more are taken out of the kernel's list. */
bool tn__kernel_drop_buffers(tn__kernel *k);
/* A load of buffer `buf` at idx where gate (NULL: always) is true. */
tn__uop *tn__load_node(tn__space *s, tn_dtype dt, int buf, tn__uop *const *idx, int rank,
                       tn__uop *gate);

/* Loads and stores get one flat index each. */
bool tn__opt_flatten(tn__kernel *k);
/* Joins neighbouring ranges (outputs; ranges of one reduction) that are only ever used as one. */
bool tn__opt_merge(tn__kernel *k);
/* r becomes t * n + u, u of a register kind.  Where n does not divide the size: an output range is shifted
 * (the last tile overlaps the one before), a reduction's is shifted with the overlap masked.  *tile: what
 * is left as a loop, NULL when that has one iteration. */
bool tn__opt_split(tn__kernel *k, tn__uop *r, int64_t n, tn__axis_kind kind, tn__uop **tile);
/* r is divided among work-groups, `parts` of them. */
bool tn__opt_grid(tn__kernel *k, tn__uop *r, int64_t parts);
/* r moves to place `at` of the output order. */
void tn__opt_order(tn__kernel *k, const tn__uop *r, int at);
/* A load of the kernel is copied to a buffer of its own by a kernel before this one, laid out by `ranges`, outermost
 * first; the kernel reads that. */
bool tn__opt_stage(tn__schedule *s, tn__kernel *k, tn__uop *load, tn__uop *const *ranges, int n);
/* The load is copied to a private array of each work-group, laid out by `ranges`, outermost first; the kernel reads
 * that.  Nothing is done where the kernel has no room for it. */
bool tn__opt_private(tn__kernel *k, tn__uop *load, tn__uop *const *ranges, int n);
/* The same for a load with a gate that says "inside the buffer": copied with its border of zeros, by each work-group
 * in each iteration of `outer` (private_box; box_size: elements of that, 0 where there is no such box) or once. */
bool tn__opt_private_box(tn__kernel *k, tn__uop *load, tn__uop *outer);
int64_t tn__opt_box_size(tn__kernel *k, const tn__uop *load, const tn__uop *outer);
bool tn__opt_pad(tn__schedule *s, tn__kernel *k, tn__uop *load);
/* `red`, the sum over r and other ranges, adds up what a kernel before this one sums for each of `blocks` equal parts
 * of r.  Nothing is done where the summed value holds a reduction. */
bool tn__opt_partial(tn__schedule *s, tn__kernel *k, tn__uop *red, const tn__uop *r,
                     int64_t blocks);
#endif
