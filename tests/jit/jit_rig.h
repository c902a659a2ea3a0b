/* SPDX-License-Identifier: MIT */
/* What the suites of the jit share: small vectors, comparison, errors by their texts. */
#ifndef TENON_TESTS_JIT_RIG_H
#define TENON_TESTS_JIT_RIG_H
#include "../test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define LEN 6

static inline void clean(void)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(!e, "an error is pending: %s", e ? e->msg : "");
}

/* The pending error has this code and its text contains `part`; clears it. */
static inline void fails(tn_code code, const char *part)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "no error, not '%s'", part);
    ck_assert_msg(e->code == code, "%s, not %s: %s", tn_code_name(e->code), tn_code_name(code),
                  e->msg);
    ck_assert_msg(strstr(e->msg, part) != NULL, "'%s' does not say '%s'", e->msg, part);
    tn_clear_error();
}

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
