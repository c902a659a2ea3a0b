/* SPDX-License-Identifier: MIT */
/* What the suites of the jit share: small vectors and their comparison. */
#ifndef TENON_TESTS_JIT_RIG_H
#define TENON_TESTS_JIT_RIG_H
#include "../test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define LEN 6

static inline tn_tensor *vec(const float *v, int64_t n)
{
    return tn_from_data(v, SHAPE(n), .dtype = TN_F32);
}

static inline tn_tensor *ramp(float first, float step)
{
    float v[LEN];
    for (int i = 0; i < LEN; i++) v[i] = first + step * (float)i;
    return vec(v, LEN);
}

static inline void read_n(tn_tensor *t, float *out, size_t n)
{
    ck_assert_msg(tn_data(t, out, n * sizeof *out), "%s",
                  tn_last_error() ? tn_last_error()->msg : "");
}

static inline void same(tn_tensor *t, const float *want)
{
    float got[LEN];
    read_n(t, got, LEN);
    for (int i = 0; i < LEN; i++)
        ck_assert_msg(got[i] == want[i], "element %d: %g, not %g", i, (double)got[i],
                      (double)want[i]);
}
#endif
