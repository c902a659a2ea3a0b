/* SPDX-License-Identifier: MIT */
/*
 * Bounded map from 128-bit keys to owned pointers, least recently used first out.
 *
 * Invariant: every entry is in one chain of the table and in the ring of ages, whose head stands between
 * the newest (next) and the oldest (prev).  Not locked: the owner locks.  Dropping calls no lru function.
 */
#include "base/base.h"

typedef struct entry {
    struct entry *next, *prev; /* ring of ages */
    struct entry *chain;
    tn__hash key;
    void *value;
} entry;

struct tn__lru {
    entry head;
    entry **table;
    size_t mask, count, cap;
    void (*drop)(void *value);
};

tn__lru *tn__lru_new(size_t cap, void (*drop)(void *value))
{
    size_t slots = 16;
    while (slots < cap && slots < ((size_t)1 << 24)) slots *= 2;
    tn__lru *l = tn__calloc(1, sizeof *l);
    entry **table = l ? tn__calloc(slots, sizeof(entry *)) : NULL;
    if (!table) {
        tn__free(l);
        return NULL;
    }
    l->head.next = l->head.prev = &l->head;
    l->table = table;
    l->mask = slots - 1;
    l->cap = cap;
    l->drop = drop;
    return l;
}

static entry **find(tn__lru *l, tn__hash key)
{
    entry **p = &l->table[key.lo & l->mask];
    while (*p && !tn__hash_eq((*p)->key, key)) p = &(*p)->chain;
    return p;
}

static void out_of_ring(entry *e)
{
    e->prev->next = e->next;
    e->next->prev = e->prev;
}

static void make_newest(tn__lru *l, entry *e)
{
    e->next = l->head.next;
    e->prev = &l->head;
    e->next->prev = e;
    l->head.next = e;
}

static void drop_value(const tn__lru *l, void *value)
{
    if (l->drop && value) l->drop(value);
}

static void evict_oldest(tn__lru *l)
{
    entry *e = l->head.prev;
    *find(l, e->key) = e->chain;
    out_of_ring(e);
    l->count--;
    drop_value(l, e->value);
    tn__free(e);
}

void *tn__lru_get(tn__lru *l, tn__hash key)
{
    entry *e = *find(l, key);
    if (!e) return NULL;
    out_of_ring(e);
    make_newest(l, e);
    return e->value;
}

bool tn__lru_put(tn__lru *l, tn__hash key, void *value)
{
    if (l->cap == 0) {
        drop_value(l, value);
        return true;
    }
    entry *e = *find(l, key);
    if (e) {
        void *old = e->value;
        e->value = value;
        out_of_ring(e);
        make_newest(l, e);
        if (old != value) drop_value(l, old);
        return true;
    }
    e = tn__calloc(1, sizeof *e);
    if (!e) {
        drop_value(l, value);
        return false;
    }
    e->key = key;
    e->value = value;
    *find(l, key) = e;
    make_newest(l, e);
    l->count++;
    if (l->count > l->cap) evict_oldest(l);
    return true;
}

size_t tn__lru_count(const tn__lru *l) { return l->count; }

void tn__lru_free(tn__lru *l)
{
    if (!l) return;
    while (l->count) evict_oldest(l);
    tn__free(l->table);
    tn__free(l);
}
