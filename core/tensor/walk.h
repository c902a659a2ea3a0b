/* SPDX-License-Identifier: MIT */
/* A map from pointers to small numbers in an arena: how walks mark nodes without writing to them.
 */
#ifndef TN_TENSOR_WALK_H
#define TN_TENSOR_WALK_H
#include "base/base.h"

typedef struct {
    const void *key;
    size_t val;
} tn__pair;
typedef struct {
    tn__arena *a;
    tn__pair *slot; /* cap of them, a power of two; key NULL: free */
    size_t cap, n;
} tn__map; /* {.a = arena} is an empty one */

/* The value's place for key, made with `otherwise` where it is new; NULL when the arena failed. */
size_t *tn__map_put(tn__map *m, const void *key, size_t otherwise, bool *isnew);
/* NULL where key is absent. */
size_t *tn__map_get(const tn__map *m, const void *key);
#endif
