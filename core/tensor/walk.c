/* SPDX-License-Identifier: MIT */
/*
 * Walks over the tensor graph: iterative, in post-order, sources first.
 *
 * Several threads may walk graphs that share nodes, so nothing is written to a node: what has been
 * seen stands in a private table.  The order depends on the graph's shape alone, never on
 * addresses.
 */
#include "tensor/walk.h"
#include "tensor/node.h"
#include <string.h>

static size_t slot_of(const tn__pair *slot, size_t cap, const void *key)
{
    uint64_t h = (uint64_t)(uintptr_t)key >> 4;
    h *= UINT64_C(0x9e3779b97f4a7c15);
    size_t i = (size_t)(h >> 32) & (cap - 1);
    while (slot[i].key && slot[i].key != key) i = (i + 1) & (cap - 1);
    return i;
}

static bool grow(tn__map *m)
{
    size_t cap = m->cap ? m->cap * 2 : 64;
    tn__pair *slot = tn__arena_zero(m->a, cap * sizeof *slot);
    if (!slot) return false;
    for (size_t i = 0; i < m->cap; i++)
        if (m->slot[i].key) slot[slot_of(slot, cap, m->slot[i].key)] = m->slot[i];
    m->slot = slot;
    m->cap = cap;
    return true;
}

size_t *tn__map_put(tn__map *m, const void *key, size_t otherwise, bool *isnew)
{
    if (m->n * 2 >= m->cap && !grow(m)) return NULL;
    tn__pair *p = &m->slot[slot_of(m->slot, m->cap, key)];
    *isnew = !p->key;
    if (*isnew) {
        p->key = key;
        p->val = otherwise;
        m->n++;
    }
    return &p->val;
}

size_t *tn__map_get(const tn__map *m, const void *key)
{
    if (!m->cap) return NULL;
    tn__pair *p = &m->slot[slot_of(m->slot, m->cap, key)];
    return p->key ? &p->val : NULL;
}

typedef struct {
    tn__node *n;
    unsigned next; /* source to visit next */
} frame;
typedef struct {
    tn__arena *a;
    tn__map seen;
    frame *stack;
    size_t depth, stack_cap;
    tn__node **out;
    size_t count, out_cap;
    bool through;
} walk;

/* Doubles an array in the arena; what it leaves behind is freed with the arena. */
static void *wider(tn__arena *a, const void *old, size_t *cap, size_t size)
{
    size_t want = *cap ? *cap * 2 : 64;
    void *p = tn__arena_alloc(a, want * size);
    if (!p) return NULL;
    if (*cap) memcpy(p, old, *cap * size);
    *cap = want;
    return p;
}

static bool push(walk *w, tn__node *n)
{
    bool isnew;
    if (!tn__map_put(&w->seen, n, 0, &isnew)) return false;
    if (!isnew) return true;
    if (w->depth == w->stack_cap) {
        frame *s = wider(w->a, w->stack, &w->stack_cap, sizeof *s);
        if (!s) return false;
        w->stack = s;
    }
    bool stop = !w->through && atomic_load_explicit(&n->val, memory_order_acquire);
    w->stack[w->depth++] = (frame){n, stop ? n->nsrc : 0};
    return true;
}

static bool emit(walk *w, tn__node *n)
{
    if (w->count == w->out_cap) {
        tn__node **o = wider(w->a, w->out, &w->out_cap, sizeof *o);
        if (!o) return false;
        w->out = o;
    }
    w->out[w->count++] = n;
    return true;
}

bool tn__walk(tn__arena *a, tn__node *const *roots, size_t n, bool through, tn__node ***out,
              size_t *count)
{
    walk w = {.a = a, .seen = {.a = a}, .through = through};
    for (size_t i = 0; i < n; i++) {
        if (!push(&w, roots[i])) return false;
        while (w.depth) {
            frame *f = &w.stack[w.depth - 1];
            if (f->next < f->n->nsrc) {
                if (!push(&w, f->n->src[f->next++])) return false;
            } else {
                w.depth--;
                if (!emit(&w, f->n)) return false;
            }
        }
    }
    *out = w.out;
    *count = w.count;
    return true;
}
