/* SPDX-License-Identifier: MIT */
/* Any bytes as a gz file, unpacked to at most 1 MiB: an error, or a result. */
#include "base/base.h"
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    const tn_gunzip_opts o = {.size = sizeof o, .max_bytes = 1 << 20};
    void *out;
    size_t out_n;
    if (!copy) return 0;
    if (n) memcpy(copy, p, n);
    const bool ok = (tn_gunzip)(copy, n, &out, &out_n, &o);
    if (ok != tn_ok() || ok != (out != NULL) || out_n > o.max_bytes) abort();
    tn_bytes_free(out);
    tn_clear_error();
    free(copy);
    return 0;
}
