/* SPDX-License-Identifier: MIT */
/*
 * Rows of tests/golden/methods.bin: a method, its parameters, its operands and the results that PyTorch or
 * numpy give.  golden.py describes the bytes.  The file is loaded once a test; not for several threads.
 */
#ifndef TENON_TEST_GOLDEN_ROWS_H
#define TENON_TEST_GOLDEN_ROWS_H
#include "methods.h"
#include "tensor/handle.h"

typedef struct {
    tn_dtype dt;
    int rank;
    int64_t dims[TN_MAX_RANK], n;
    const unsigned char *data;
} golden;

typedef struct {
    char name[64], text[128];
    double p[64];
    golden in[16], out[16];
    float tol; /* a factor of the dtype's tolerance */
    method_row r;
    tn_tensor *got[16];
} row;

extern const unsigned char *golden_file, *golden_end; /* between load and unload */
void golden_load(void);
void golden_unload(void);
/* Reads the row at p; the position behind it. */
const unsigned char *golden_row_at(const unsigned char *p, row *w);
/* Element i of data that is laid out as g. */
tn__scalar golden_element(const golden *g, const unsigned char *data, int64_t i);
/* Makes the row's operands. */
void golden_inputs(row *w);
#endif
