/* SPDX-License-Identifier: MIT */
/* Any bytes as a safetensors file: refused with an error, or every byte of every record can be read. */
#include "io/safetensors.h"
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1); /* its own block: a sanitizer sees reads beyond */
    unsigned sum = 0;
    if (!copy) return 0;
    if (n) memcpy(copy, p, n);
    tn__safe *s = tn__safe_parse(copy, n, "fuzz");
    if (!s == tn_ok()) abort(); /* an error is pending exactly when it failed */
    for (size_t i = 0; s && i < tn__safe_count(s); i++) {
        const tn__safe_rec *r = tn__safe_at(s, i);
        for (size_t k = 0; k < r->bytes; k++) sum += ((const unsigned char *)r->data)[k];
        sum += (unsigned)strlen(r->name);
        if (!tn__safe_usable(s, r)) tn_clear_error();
    }
    for (size_t i = 0; s && i < tn__safe_meta_count(s); i++) {
        const char *key, *value;
        tn__safe_meta_at(s, i, &key, &value);
        sum += (unsigned)(strlen(key) + strlen(value));
    }
    tn__safe_unref(s);
    tn_clear_error();
    free(copy);
    return sum == 0xffffffffu ? -1 : 0;
}
