/* SPDX-License-Identifier: MIT */
/*
 * The thread's random generator: a key and a counter of words.  A random node takes its share of
 * the counter when it is built; what it draws then depends on key, base and element index alone, so
 * that the order of execution does not matter.
 */
#include "tensor/make.h"

static _Thread_local tn__rng state;
static _Thread_local bool seeded;
static _Thread_local uint64_t sets;

void tn__rng_seed(uint64_t seed) { tn__rng_set((tn__rng){.key = seed}); }

void tn__rng_set(tn__rng s)
{
    state = s;
    seeded = true;
    sets++;
}

uint64_t tn__rng_sets(void) { return sets; }

tn__rng tn__rng_get(void)
{
    if (!seeded) tn__rng_seed((uint64_t)tn_context_get(TN_SEED));
    return state;
}

tn__node *tn__random_bits(const int64_t *dims, int rank)
{
    if (!tn__dims_check("random", dims, rank)) return NULL;
    tn__rng s = tn__rng_get();
    tn__node *n = tn__make(
        &(tn__spec){.op = TN_OP_RNG,
                    .dt = TN_U32,
                    .rank = rank,
                    .dims = dims,
                    .narg = 2,
                    .argv = (const int64_t[]){(int64_t)s.key, (int64_t)s.counter}});
    if (n) state.counter += (uint64_t)tn__node_numel(n);
    return n;
}
