/* SPDX-License-Identifier: MIT */
/* The numbers that the suites of extremes give to each method, and small tensors to give them with. */
#ifndef TEST_EXTREMES_H
#define TEST_EXTREMES_H
#include <limits.h>
#include <stdint.h>
#include <tenon/tenon.h>

static const int64_t far[] = {
    INT64_MIN,
    INT64_MIN + 1,
    INT64_MIN / 2,
    -(INT64_C(1) << 32),
    INT_MIN,
    -1,
    0,
    1,
    INT_MAX,
    INT64_C(1) << 32,
    INT64_C(1) << 60,
    INT64_MAX / 2 + 1,
    INT64_MAX - 1,
    INT64_MAX,
};
enum { FAR = sizeof far / sizeof *far };

static inline int narrow(int64_t v)
{
    return v < INT_MIN ? INT_MIN : v > INT_MAX ? INT_MAX : (int)v;
}

static inline tn_tensor *six(void) { return tn_reshape(tn_arange(6.0), SHAPE(2, 3)); }
static inline tn_tensor *plane(void) { return tn_reshape(tn_arange(25.0), SHAPE(1, 1, 5, 5)); }
static inline tn_tensor *kernel(void) { return tn_ones(SHAPE(1, 1, 2, 2)); }
#endif
