/* SPDX-License-Identifier: MIT */
/*
 * Sums over sizes and indices that a caller gave, where any int64_t may come in, and the limits of a shape.
 *
 * A sum is exact where it fits an int64_t and else the nearest one.  No tensor has 2^60 elements or more, so that a
 * comparison with a size comes out as for the exact sum.  Texts of errors show what was given, never such a sum.
 */
#ifndef TN_TENSOR_SUMS_H
#define TN_TENSOR_SUMS_H
#include <stdbool.h>
#include <stdint.h>

static inline int64_t tn__plus(int64_t a, int64_t b)
{
    int64_t r;
    return !__builtin_add_overflow(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t tn__minus(int64_t a, int64_t b)
{
    int64_t r;
    return !__builtin_sub_overflow(a, b, &r) ? r : a < 0 ? INT64_MIN : INT64_MAX;
}

static inline int64_t tn__times(int64_t a, int64_t b)
{
    int64_t r;
    return !__builtin_mul_overflow(a, b, &r) ? r : (a < 0) != (b < 0) ? INT64_MIN : INT64_MAX;
}

static inline int64_t tn__clip(int64_t v, int64_t lo, int64_t hi)
{
    return v < lo ? lo : v > hi ? hi : v;
}

/* Elements from the first to the last of k >= 1 that are `apart` >= 1 each. */
static inline int64_t tn__span(int64_t k, int64_t apart)
{
    return tn__plus(tn__times(k - 1, apart), 1);
}

/* So that the bytes of any shape, at most 8 an element, fit an int64_t. */
#define TN__MAX_NUMEL (INT64_MAX / 8)

/* No size is negative, and the product of those that are not 0 is at most TN__MAX_NUMEL. */
bool tn__dims_fit(const int64_t *dims, int rank);
/* The same and the rank, with an error: `subject` begins its text. */
bool tn__dims_check(const char *subject, const int64_t *dims, int rank);
#endif
