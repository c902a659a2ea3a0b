/* SPDX-License-Identifier: MIT */
/* Any bytes as an IDX file: refused with an error, or the array has the size its dims say. */
#include "io/idx.h"
#include "ir/dtype.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    tn__idx x;
    if (!copy) return 0;
    if (n) memcpy(copy, p, n);
    const bool ok = tn__idx_parse(copy, n, "fuzz", &x);
    if (ok != tn_ok()) abort();
    if (ok) {
        size_t bytes = tn__dtype_size(x.dtype);
        for (int i = 0; i < x.rank; i++) bytes *= (size_t)x.dims[i];
        if (bytes != x.bytes) abort();
        tn__idx_free(&x);
    }
    tn_clear_error();
    free(copy);
    return 0;
}
