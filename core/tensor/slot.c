/* SPDX-License-Identifier: MIT */
/*
 * The slot table and the scopes of each thread.
 *
 * A handle is index + 1 and a generation in the bits of a pointer; looking one up takes no lock,
 * since chunks of slots never move and go at tn_shutdown only.  A slot's generation grows when it
 * is freed, so that old handles miss.  Free slots are a stack without a lock: its head carries a
 * count of pops, so that a head that was popped and pushed meanwhile differs.  Temporaries hang in
 * a list of the scope that owns them; only their own thread touches that list.
 */
#include "tensor/slot.h"
#include "device/device.h"
#include <tenon/core.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 1024, CHUNKS = 16384, ROOT_LIMIT = 10000, INLINE_DEPTH = 64 };
#if UINTPTR_MAX > 0xffffffffu
enum { INDEX_BITS = 32 };
#define GEN_MASK 0xffffffffu
#else
enum { INDEX_BITS = 20 };
#define GEN_MASK 0xfffu
#endif

static tn__slot first[CHUNK];
static _Atomic(tn__slot *) chunks[CHUNKS] = {first};
static pthread_mutex_t table = PTHREAD_MUTEX_INITIALIZER; /* of the table's growth */
static uint32_t used;                                     /* slots ever handed out */
static unsigned first_gen = 1;                            /* of new slots: above any that is gone */
static _Atomic uint64_t free_list; /* count of pops << 32 | index + 1 of the newest */
static atomic_size_t live;

struct tn__scopes {
    int depth;                          /* 0: the root scope */
    int cap;                            /* of deep */
    uint32_t head[INLINE_DEPTH], *deep; /* lists by depth, index + 1 of the newest */
    uint32_t root;                      /* temporaries in the root scope */
    bool warned, watched;
};
static _Thread_local tn__scopes mine;

/* ---- table ---- */

static tn__slot *at(uint32_t link)
{
    uint32_t i = link - 1;
    tn__slot *c = atomic_load_explicit(&chunks[i / CHUNK], memory_order_acquire);
    return c ? &c[i % CHUNK] : NULL;
}

static uint32_t link_of(const tn__slot *s) { return s->index + 1; }

static tn__slot *pop(void)
{
    uint64_t h = atomic_load_explicit(&free_list, memory_order_acquire);
    while ((uint32_t)h) {
        tn__slot *s = at((uint32_t)h);
        const uint64_t next = ((h >> 32) + 1) << 32 | atomic_load(&s->free);
        if (atomic_compare_exchange_weak(&free_list, &h, next)) return s;
    }
    return NULL;
}

static void push(tn__slot *s)
{
    uint64_t h = atomic_load(&free_list);
    do atomic_store(&s->free, (uint32_t)h);
    while (!atomic_compare_exchange_weak(&free_list, &h, (h >> 32) << 32 | link_of(s)));
}

/* At tn_shutdown, when no handle is left and no other thread is here: all chunks but the first. */
static void give_back(void)
{
    if (atomic_load(&live)) return;
    pthread_mutex_lock(&table);
    for (uint32_t i = 1; i <= used; i++) {
        const unsigned g = atomic_load(&at(i)->gen);
        if (g > first_gen) first_gen = g;
    }
    for (uint32_t c = 1; c < CHUNKS && chunks[c]; c++) {
        tn__free(chunks[c]);
        atomic_store(&chunks[c], NULL);
    }
    memset(first, 0, sizeof first);
    atomic_store(&free_list, atomic_load(&free_list) >> 32 << 32);
    used = 0;
    pthread_mutex_unlock(&table);
}

/* A slot that was never used. */
static tn__slot *grow(void)
{
    tn__slot *s = NULL;
    bool fresh = false;
    pthread_mutex_lock(&table);
    if (used < (uint32_t)CHUNK * CHUNKS) {
        const uint32_t c = used / CHUNK;
        if (!chunks[c]) {
            atomic_store(&chunks[c], tn__calloc(CHUNK, sizeof *s));
            fresh = chunks[c] != NULL;
        }
        if (chunks[c]) {
            s = at(++used);
            s->index = used - 1;
            atomic_init(&s->gen, first_gen);
        }
    } else {
        tn__fail_nomem();
    }
    pthread_mutex_unlock(&table);
    if (fresh) tn__on_shutdown(give_back);
    return s;
}

static tn__slot *take(void)
{
    tn__slot *s = pop();
    return s ? s : grow();
}

tn_tensor *tn__slot_handle(const tn__slot *s)
{
    uintptr_t g = atomic_load_explicit(&s->gen, memory_order_relaxed);
    return (tn_tensor *)(g << INDEX_BITS | link_of(s));
}

tn__slot *tn__slot_find(const tn_tensor *t)
{
    uintptr_t v = (uintptr_t)t, i = v & (((uintptr_t)1 << INDEX_BITS) - 1);
    if (!i || i > (uintptr_t)CHUNK * CHUNKS) return NULL;
    tn__slot *s = at((uint32_t)i);
    if (!s || atomic_load_explicit(&s->gen, memory_order_acquire) != (unsigned)(v >> INDEX_BITS))
        return NULL;
    return s;
}

size_t tn__slot_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }

/* ---- lists of scopes ---- */

static uint32_t *head(tn__scopes *sc, int depth)
{
    return depth < INLINE_DEPTH ? &sc->head[depth] : &sc->deep[depth - INLINE_DEPTH];
}

static void link_in(tn__slot *s, int depth)
{
    uint32_t *h = head(&mine, depth);
    s->owner = &mine;
    s->depth = depth;
    s->prev = 0;
    s->next = *h;
    if (*h) at(*h)->prev = link_of(s);
    *h = link_of(s);
    if (depth) return;
    if (++mine.root > ROOT_LIMIT && !mine.warned) {
        mine.warned = true;
        tn__log(TN_LOG_WARN,
                "scope: %d temporaries outside of any scope: put TN_SCOPE; at the start of the "
                "loop's block, so that they are released",
                ROOT_LIMIT);
    }
}

static void link_out(tn__slot *s)
{
    if (s->prev)
        at(s->prev)->next = s->next;
    else
        *head(&mine, s->depth) = s->next;
    if (s->next) at(s->next)->prev = s->prev;
    if (!s->depth) mine.root--;
    s->owner = NULL;
}

tn__slot *tn__slot_new(void)
{
    tn__slot *s = take();
    if (!s) return NULL;
    if (!mine.watched) {
        mine.watched = true;
        tn__thread_watch();
    }
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    link_in(s, mine.depth);
    return s;
}

void tn__slot_kill(tn__slot *s)
{
    unsigned g = (atomic_load_explicit(&s->gen, memory_order_relaxed) + 1) & GEN_MASK;
    atomic_store_explicit(&s->gen, g ? g : 1, memory_order_release);
    if (s->owner) link_out(s);
    tn__cell *c = atomic_exchange(&s->cell, NULL);
    if (c && atomic_load(&s->kept)) tn__cell_keep(c, -1);
    atomic_store(&s->kept, 0);
    tn__node_unref(s->node);
    tn__node_unref(s->base);
    tn__cell_unref(c);
    tn__free(s->err);
    s->node = s->base = NULL;
    s->err = NULL;
    s->window = false;
    atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
    push(s);
}

void tn__handle_retire(tn_tensor *t)
{
    tn__slot *s = tn__slot_find(t);
    if (s && s->owner == &mine) tn__slot_kill(s);
}

static void close_scope(void)
{
    uint32_t *h = head(&mine, mine.depth);
    while (*h) tn__slot_kill(at(*h));
}

/* ---- threads ---- */

static pthread_key_t key;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void thread_ends(void *p)
{
    (void)p;
    for (; mine.depth >= 0; mine.depth--) close_scope();
    mine.depth = 0;
    mine.watched = false;
    tn__free(mine.deep);
    mine.deep = NULL;
    mine.cap = 0;
    tn__effects_drop();
}

static void make_key(void) { pthread_key_create(&key, thread_ends); }

void tn__thread_watch(void)
{
    pthread_once(&once, make_key);
    pthread_setspecific(key, &mine);
}

/* ---- public: scopes and ownership ---- */

void tn_scope_open(tn_scope *s)
{
    s->live = false;
    s->depth = mine.depth + 1;
    int deep = s->depth - INLINE_DEPTH;
    if (deep >= mine.cap) {
        int cap = mine.cap ? mine.cap * 2 : INLINE_DEPTH;
        uint32_t *d = tn__realloc(mine.deep, (size_t)cap * sizeof *d);
        if (!d) return; /* its temporaries then belong to the scope around it */
        mine.deep = d;
        mine.cap = cap;
    }
    s->live = true;
    mine.depth = s->depth;
    *head(&mine, mine.depth) = 0;
}

void tn_scope_end(tn_scope *s)
{
    if (!s->live) return;
    s->live = false;
    for (; mine.depth >= s->depth; mine.depth--) close_scope();
    if (mine.depth >= INLINE_DEPTH || !mine.deep) return;
    tn__free(mine.deep);
    mine.deep = NULL;
    mine.cap = 0;
}

tn_tensor *tn_return(tn_tensor *t)
{
    tn__slot *s = tn__slot_find(t);
    if (s && s->owner == &mine && s->depth == mine.depth && s->depth > 0) {
        link_out(s);
        link_in(s, mine.depth - 1);
    }
    return t;
}

static tn_tensor *keep(tn_tensor *t)
{
    tn__slot *s = tn__slot_find(t);
    if (!s) return tn__slot_get(t), tn__handle_new(NULL);
    if (!s->owner) {
        atomic_fetch_add_explicit(&s->kept, 1, memory_order_relaxed);
        return t;
    }
    if (s->owner != &mine) {
        tn__fail(TN_ESTATE,
                 "keep: the tensor is a temporary of another thread's scope: keep it there");
        return tn__handle_new(NULL);
    }
    tn__cell *c = s->err ? NULL : tn__slot_cell(s, true);
    if (!s->err && !c) return tn__handle_new(NULL);
    if (c) tn__cell_keep(c, 1);
    link_out(s);
    atomic_store_explicit(&s->kept, 1, memory_order_relaxed);
    return t;
}

tn_tensor *tn_keep(tn_tensor *t)
{
    tn__enter("tn_keep");
    t = keep(t);
    tn__leave();
    return t;
}

void tn_free(tn_tensor *t)
{
    if (!t || tn__is_nowhere(t)) return;
    tn__enter("tn_free");
    tn__slot *s = tn__slot_find(t);
    if (!s)
        tn__fail(TN_ESTALE,
                 "free: the tensor is gone already: it was freed twice, or its scope has ended");
    else if (!s->owner && atomic_load_explicit(&s->kept, memory_order_relaxed) &&
             atomic_fetch_sub_explicit(&s->kept, 1, memory_order_acq_rel) == 1) {
        atomic_store_explicit(&s->kept, 1, memory_order_relaxed); /* tn__slot_kill looks at it */
        tn__slot_kill(s);
    }
    tn__leave();
}

bool tn_bad(const tn_tensor *t)
{
    tn__slot *s = tn__slot_find(t);
    return !s || s->err;
}
