/* SPDX-License-Identifier: MIT */
/* A few public functions of the usual form over any op, for suites that test handles and not methods. */
#ifndef TEST_HANDLE_RIG_H
#define TEST_HANDLE_RIG_H
#include "tensor/handle.h"

tn_tensor *handle_binary(tn__op op, tn_tensor *a, tn_tensor *b); /* equal shapes and dtypes */
tn_tensor *handle_sum(tn_tensor *a);                             /* of all elements, rank 0 */
/* Rows first to first + n - 1, a view. */
tn_tensor *handle_rows(tn_tensor *a, int64_t first, int64_t n);
#endif
