/* SPDX-License-Identifier: MIT */
/* What the suites of nn share: golden values by name, comparing, errors by text, the clean-state fixture. */
#ifndef TEST_NN_RIG_H
#define TEST_NN_RIG_H
#include "../test.h"
#include <tenon/tenon.h>

const double *golden(const char *name, int *n); /* fails the test where there is none */
/* A tensor of golden values. */
tn_tensor *golden_tensor(const char *name, const tn_shape *shape, tn_dtype dt);
/* Writes golden values into a tensor. */
void golden_set(tn_tensor *t, const char *name);
/* Every element within tol * (1 + |want|). */
void golden_check(const char *name, tn_tensor *t, double tol);
/* Two tensors have the same shape, dtype and bits. */
bool same_bits(tn_tensor *a, tn_tensor *b);
void nn_begin(void); /* checked fixture: no error, and no handle more than before */
void nn_end(void);
/* Files need it; the minimal build is without. */
#ifdef TN_HAVE_JANSSON
enum { HAVE_JSON = 1 };
#else
enum { HAVE_JSON = 0 };
#endif

#endif
