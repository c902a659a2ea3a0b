/* SPDX-License-Identifier: MIT */
/*
 * Numbers that change from step to step, such as a learning rate given as a C number, would make a new plan
 * each time.  A graph's skeleton is its normal form with all constants blanked; when a known skeleton comes
 * with other constants, those that differ become run-time scalars from then on: one more plan, and no
 * further one.  The table is bounded and locked.
 */
#include "engine/plan.h"
#include <pthread.h>
#include <string.h>

typedef struct {
    size_t n;
    uint64_t *bits; /* as first seen */
    uint8_t *mask;  /* 1: has changed */
} entry;

enum { SKELETONS = 1024 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tn__lru *table;

static void drop(void *p) { tn__free(p); }

void tn__skeleton_forget(void)
{
    pthread_mutex_lock(&lock);
    tn__lru *old = table;
    table = NULL;
    pthread_mutex_unlock(&lock);
    tn__lru_free(old);
}

static entry *new_entry(const uint64_t *bits, size_t n)
{
    entry *e = tn__calloc(1, sizeof *e + n * (sizeof *bits + 1));
    if (!e) return NULL;
    e->n = n;
    e->bits = (uint64_t *)(void *)(e + 1);
    e->mask = (uint8_t *)(e->bits + n);
    if (n) memcpy(e->bits, bits, n * sizeof *bits);
    return e;
}

/* Marks what differs; a copy of the marks into *mask if there are any. */
static bool learn(entry *e, const uint64_t *bits, tn__arena *a, uint8_t **mask)
{
    bool any = false;
    for (size_t i = 0; i < e->n; i++) {
        if (bits[i] != e->bits[i]) e->mask[i] = 1;
        any |= e->mask[i];
    }
    if (!any) return true;
    *mask = tn__arena_alloc(a, e->n);
    if (!*mask) return false;
    memcpy(*mask, e->mask, e->n);
    return true;
}

bool tn__skeleton_mask(const tn__normal *f, uint8_t **mask)
{
    tn__hash key;
    uint64_t *bits;
    bool ok = true;
    *mask = NULL;
    if (!f->nkonst) return true;
    if (!tn__normal_skeleton(f, &key, &bits)) return false;
    pthread_mutex_lock(&lock);
    if (!table) table = tn__lru_new(SKELETONS, drop);
    entry *e = table ? tn__lru_get(table, key) : NULL;
    if (e && e->n == f->nkonst) {
        ok = learn(e, bits, f->arena, mask);
    } else if (table && !e) {
        e = new_entry(bits, f->nkonst);
        ok = e && tn__lru_put(table, key, e);
    }
    pthread_mutex_unlock(&lock);
    return ok && table;
}
