/* SPDX-License-Identifier: MIT */
/*
 * The 128-bit hash of cache keys: XXH3 where it was built in, else an own one.
 *
 * The own hash takes 8 bytes a step.  Each step maps the state of two 64-bit lanes one to one for a given
 * word, and two different words never give the same state, so that no input can wipe out what came
 * before.  The length goes in at the end, with the tail padded by zeros.  Bytes are read little-endian.
 */
#include "base/base.h"
#include <string.h>
#ifdef TN_HAVE_XXHASH
#include <xxhash.h>
#endif

static uint64_t rotl(uint64_t x, int k) { return x << k | x >> (64 - k); }

static uint64_t word_at(const unsigned char *p, size_t n)
{
    uint64_t w = 0;
    for (size_t i = 0; i < n; i++) w |= (uint64_t)p[i] << (8 * i);
    return w;
}

static tn__hash step(tn__hash h, uint64_t w)
{
    h.lo = (h.lo ^ w) * 0xd6e8feb86659fd93u;
    h.lo ^= h.lo >> 32;
    h.hi = rotl(h.hi + h.lo, 29) * 0xa0761d6478bd642fu;
    h.hi ^= h.hi >> 31;
    h.lo += rotl(h.hi, 17);
    return h;
}

tn__hash tn__hash_own(const void *p, size_t n)
{
    const unsigned char *s = p;
    tn__hash h = {0x6a09e667f3bcc908u, 0xbb67ae8584caa73bu};
    size_t i = 0;
    for (; n - i >= 8; i += 8) h = step(h, word_at(s + i, 8));
    if (i < n) h = step(h, word_at(s + i, n - i));
    h = step(h, (uint64_t)n);
    for (int k = 0; k < 4; k++) h = step(h, 0x3c6ef372fe94f82bu);
    return h;
}

tn__hash tn__hash_bytes(const void *p, size_t n)
{
#ifdef TN_HAVE_XXHASH
    XXH128_hash_t x = XXH3_128bits(p, n);
    return (tn__hash){x.low64, x.high64};
#else
    return tn__hash_own(p, n);
#endif
}
