/* SPDX-License-Identifier: MIT */
/*
 * Realising: from graph nodes to values.  Holds the plan look-up, the caches and the one executor; takes
 * the snapshot of options that everything below reads.
 */
#ifndef TN_ENGINE_ENGINE_H
#define TN_ENGINE_ENGINE_H
#include "tensor/node.h"

/* Gives every root a value (and every kept node on the way).  All or nothing: plans, compiles, reserves,
 * then submits.  Roots that have a value are skipped.  Does not wait for the device. */
bool tn__realize(tn__node *const *roots, size_t n);
/* The root and nothing beside it, outside of captures: for looking inside. */
bool tn__realize_alone(tn__node *root);
/* tn__realize of the roots, this thread's pending writes and, where there are any, the losses they belong to
 * (api.c).  Everything public that computes goes through it. */
bool tn__run(tn__node *const *roots, size_t n);
/* Copies a node's elements to the host (realises it first); bytes must be numel * size. */
bool tn__node_read(tn__node *x, void *dst, size_t bytes);
/* After a wait: an error where a kernel that this thread has run met an index out of range. */
bool tn__status_report(void);
#endif
