/* SPDX-License-Identifier: MIT */
/* One row of golden values, and the table that calls each method through the public API. */
#ifndef TENON_TEST_METHODS_H
#define TENON_TEST_METHODS_H
#define TN_NO_MACROS
#include <tenon/tenon.h>

typedef struct {
    const char *text;
    const double *p; /* parameters, see golden_*.py */
    int np, nin, nout;
    tn_tensor *in[16];
} method_row;

/* Fills out (room for 16) and returns how many results there are, 0 for an unknown method. */
int method_call(const char *name, const method_row *r, tn_tensor **out);
#endif
