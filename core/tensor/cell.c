/* SPDX-License-Identifier: MIT */
/*
 * Cells: mutable boxes with a current node; the list of each thread's pending writes; the registry
 * that finds a parameter's cell by its id.
 *
 * Reading a kept cell may replace its current node by a leaf (it was realised: its history goes)
 * and may wrap it as a parameter; both happen under a lock, because many threads may read.  A write
 * needs exclusive use.
 */
#include "tensor/make.h"
#include "tensor/slot.h"
#include "device/device.h"
#include <string.h>

_Thread_local const tn__capture_hook *tn__capture;

enum { LOCKS = 16 };
static pthread_mutex_t locks[LOCKS] = {
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER, PTHREAD_MUTEX_INITIALIZER,
    PTHREAD_MUTEX_INITIALIZER,
};

pthread_mutex_t *tn__lock_of(const void *p) { return &locks[(uintptr_t)p / 64 % LOCKS]; }

/* ---- registry: (id, cell) by growing id ---- */
typedef struct {
    uint64_t id;
    tn__cell *cell; /* borrowed: the cell takes itself out */
} entry;
static entry *params;
static size_t nparams, params_cap;
static uint64_t last_id;
static pthread_mutex_t registry = PTHREAD_MUTEX_INITIALIZER;

static size_t find_id(uint64_t id)
{
    size_t lo = 0, hi = nparams;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (params[mid].id < id)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

bool tn__cell_mark(tn__cell *c)
{
    if (c->param) return true;
    pthread_mutex_lock(&registry);
    bool ok = true;
    if (nparams == params_cap) {
        size_t cap = params_cap ? params_cap * 2 : 16;
        entry *p = tn__realloc(params, cap * sizeof *p);
        ok = p != NULL;
        if (p) params = p;
        if (p) params_cap = cap;
    }
    if (ok) {
        c->param = ++last_id;
        params[nparams++] = (entry){c->param, c};
    }
    pthread_mutex_unlock(&registry);
    return ok;
}

static void unmark(tn__cell *c)
{
    pthread_mutex_lock(&registry);
    size_t i = find_id(c->param);
    memmove(params + i, params + i + 1, (--nparams - i) * sizeof *params);
    if (!nparams) {
        tn__free(params);
        params = NULL;
        params_cap = 0;
    }
    pthread_mutex_unlock(&registry);
}

tn__cell *tn__cell_by_id(uint64_t id)
{
    tn__cell *c = NULL;
    pthread_mutex_lock(&registry);
    size_t i = find_id(id);
    if (i < nparams && params[i].id == id) {
        unsigned n = atomic_load(&params[i].cell->refs);
        while (n && !atomic_compare_exchange_weak(&params[i].cell->refs, &n, n + 1)) {
        }
        if (n) c = params[i].cell;
    }
    pthread_mutex_unlock(&registry);
    return c;
}

/* ---- life ---- */

tn__cell *tn__cell_new(tn__node *cur)
{
    tn__cell *c = tn__calloc(1, sizeof *c);
    if (!c) return NULL;
    atomic_init(&c->refs, 1);
    tn__node_ref(cur);
    c->cur = cur;
    return c;
}

void tn__cell_ref(tn__cell *c)
{
    if (c) atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
}

/* A gradient's cell has no gradient of its own that outlives it: the loop ends after two rounds. */
void tn__cell_unref(tn__cell *c)
{
    while (c && atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) == 1) {
        if (c->param) unmark(c);
        if (atomic_load(&c->kept)) atomic_fetch_sub(&c->cur->kept, 1);
        tn__node_unref(c->cur);
        tn__node_unref(c->wrap);
        tn__cell *grad = c->grad;
        tn__free(c);
        c = grad;
    }
}

void tn__cell_keep(tn__cell *c, int by)
{
    unsigned old = by > 0 ? atomic_fetch_add(&c->kept, 1) : atomic_fetch_sub(&c->kept, 1);
    if (by > 0 && old == 0) atomic_fetch_add(&c->cur->kept, 1);
    if (by < 0 && old == 1) atomic_fetch_sub(&c->cur->kept, 1);
}

/* ---- versions ---- */

static void move_to(tn__cell *c, tn__node *n)
{
    bool kept = atomic_load(&c->kept) != 0;
    tn__node *old = c->cur, *wrap = c->wrap;
    tn__node_ref(n);
    if (kept) {
        atomic_fetch_add(&n->kept, 1);
        atomic_fetch_sub(&old->kept, 1);
    }
    c->cur = n;
    c->wrap = NULL;
    tn__node_unref(old);
    tn__node_unref(wrap);
}

void tn__cell_set(tn__cell *c, tn__node *n)
{
    if (c->cur != n) move_to(c, n);
}

/* A realised kept tensor is a leaf: the same value without what it was computed from. */
static bool leaf(tn__cell *c)
{
    tn__node *n = c->cur;
    tn__value *v = atomic_load_explicit(&n->val, memory_order_acquire);
    if (!v || n->op == TN_OP_BUFFER || !atomic_load(&c->kept)) return true;
    tn__build b;
    tn__build_begin(&b);
    tn__value_ref(v);
    tn__node *l = tn__leaf(v, (tn_dtype)n->dt, n->dims, n->rank, v->place);
    if (l) {
        l->flags = TN__NODE_LEAFED;
        l->loc = n->loc;
        move_to(c, l);
    }
    tn__build_end(&b, NULL);
    return l != NULL;
}

static bool wrapped(tn__cell *c)
{
    if (!c->param || c->wrap) return true;
    tn__build b;
    tn__build_begin(&b);
    c->wrap = tn__build_end(&b, tn__param_node(c->cur, c->param));
    return c->wrap != NULL;
}

bool tn__cell_write_back(tn__cell *c)
{
    tn__node *root = c->cur;
    tn__value *now = atomic_load_explicit(&root->val, memory_order_acquire);
    if (!c->pinned || !now || root->op != TN_OP_UPDATE) return true;
    while (root->op == TN_OP_UPDATE) root = root->src[0];
    tn__value *mem = atomic_load_explicit(&root->val, memory_order_acquire);
    if (!mem || !tn__buffer_borrowed(mem->buf[0])) return true;
    const size_t bytes = (size_t)tn__node_numel(root) * tn__dtype_size((tn_dtype)root->dt);
    if (now->buf[0] != mem->buf[0] &&
        !tn__buffer_copy(mem->buf[0], mem->offset, now->buf[0], now->offset, bytes))
        return false;
    move_to(c, root);
    return true;
}

tn__node *tn__cell_in(tn__cell *c)
{
    if (!atomic_load(&c->kept) && !c->param) return c->cur;
    pthread_mutex_t *m = tn__lock_of(c);
    pthread_mutex_lock(m);
    tn__node *n = leaf(c) && wrapped(c) ? (c->param ? c->wrap : c->cur) : NULL;
    pthread_mutex_unlock(m);
    return n;
}

bool tn__cell_write(tn__cell *c, tn__node *value)
{
    if (!value) return false;
    if (value == c->cur) return true;
    if (tn__capture && !tn__capture->write(tn__capture->user, c)) return false;
    tn__build b;
    tn__build_begin(&b);
    if (c->pinned) value = tn__overwrite(c->cur, value);
    bool ok = value && tn__effect_add(c);
    if (ok) move_to(c, value);
    tn__build_end(&b, NULL);
    return ok;
}

/* ---- pending writes of this thread ---- */
static _Thread_local tn__cell **effects; /* own */
static _Thread_local size_t neffects, effects_cap;

bool tn__effect_add(tn__cell *c)
{
    tn__cell **alive;
    if (c->pending) return true;
    if (neffects == effects_cap && tn__effects(&alive) * 2 >= effects_cap) {
        size_t cap = effects_cap ? effects_cap * 2 : 16;
        tn__cell **e = tn__realloc(effects, cap * sizeof(tn__cell *));
        if (!e) return false;
        if (!effects) tn__thread_watch();
        effects = e;
        effects_cap = cap;
    }
    c->pending = true;
    tn__cell_ref(c);
    effects[neffects++] = c;
    return true;
}

static void settle(tn__cell *c)
{
    c->pending = false;
    tn__cell_unref(c);
}

/* Done, or nobody can see it any more. */
static bool idle(const tn__cell *c)
{
    return atomic_load(&c->cur->val) || (atomic_load(&c->refs) == 1 && !c->pinned);
}

size_t tn__effects(tn__cell ***cells)
{
    for (size_t before = SIZE_MAX; neffects < before;) { /* a parameter's end frees its gradient */
        size_t n = 0;
        before = neffects;
        for (size_t i = 0; i < before; i++) {
            if (idle(effects[i]))
                settle(effects[i]);
            else
                effects[n++] = effects[i];
        }
        neffects = n;
    }
    *cells = effects;
    return neffects;
}

void tn__effects_clear(void)
{
    bool ok = tn_ok();
    for (size_t i = 0; i < neffects; i++) {
        leaf(effects[i]);
        settle(effects[i]);
    }
    neffects = 0;
    tn__free(effects);
    effects = NULL;
    effects_cap = 0;
    if (ok) tn_clear_error(); /* a leaf that found no memory is made at the next use */
}

void tn__effects_drop(void)
{
    for (size_t i = 0; i < neffects; i++) settle(effects[i]);
    neffects = 0;
    tn__free(effects);
    effects = NULL;
    effects_cap = 0;
}
