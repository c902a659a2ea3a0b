/* SPDX-License-Identifier: MIT */
/* Any bytes as a tar and as a zip file, at most 1 MiB unpacked: no entry with a harmful name comes through. */
#include "io/archive.h"
#include <stdlib.h>
#include <string.h>

static bool archive_entry_seen(void *user, const char *name, const void *data, size_t n)
{
    unsigned *sum = user;
    for (size_t i = 0; i < n; i++) *sum += ((const unsigned char *)data)[i];
    if (name[0] == '/' || strncmp(name, "../", 3) == 0 || strstr(name, "/../")) abort();
    return true;
}

int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *p, size_t n)
{
    unsigned char *copy = malloc(n ? n : 1);
    unsigned sum = 0;
    if (!copy) return 0;
    if (n) memcpy(copy, p, n);
    for (int kind = TN__TAR; kind <= TN__ZIP; kind++) {
        const bool ok = tn__archive_each_in(copy, n, "fuzz", (tn__archive_kind)kind, 1 << 20,
                                            archive_entry_seen, &sum);
        if (ok != tn_ok()) abort();
        tn_clear_error();
    }
    free(copy);
    return sum == 0xffffffffu ? -1 : 0;
}
