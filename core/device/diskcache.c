/* SPDX-License-Identifier: MIT */
/* The disk cache, in a build without SQLite: nothing is kept. */
#include "device/module.h"

bool tn__cache_get(const char *table, tn__hash key, void **data, size_t *len)
{
    (void)table, (void)key;
    *data = NULL;
    *len = 0;
    return false;
}

void tn__cache_put(const char *table, tn__hash key, const void *data, size_t len)
{
    (void)table, (void)key, (void)data, (void)len;
}

void tn__diskcache_close(void) {}
void tn__diskcache_forked(bool child) { (void)child; }
