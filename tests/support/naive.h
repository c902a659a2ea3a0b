/* SPDX-License-Identifier: MIT */
/*
 * The naive evaluator: every op of the tensor graph element by element, by the words of ops.def; no
 * schedule, no kernels.  The oracle of gradient tests and of random graphs.
 *
 * Elementwise results are rounded to their dtype; sums and products are accumulated in double and
 * rounded once.  Several devices are seen as one.
 */
#ifndef TENON_TEST_NAIVE_H
#define TENON_TEST_NAIVE_H
#include "tensor/node.h"

/* Elements for PARAM nodes of an id, in place of the source's. */
typedef struct {
    uint64_t id;
    const double *data;
} naive_input;

/* numel(root) elements as doubles (exact scalars: naive_eval_scalars).  False with an error
 * pending. */
bool naive_eval(tn__node *root, double *out);
bool naive_eval_with(tn__node *root, const naive_input *in, size_t n, double *out);
bool naive_eval_scalars(tn__node *root, const naive_input *in, size_t n, tn__scalar *out);
#endif
