/* SPDX-License-Identifier: MIT */
/*
 * Handles: from what the user holds to nodes and back; poison; windows.
 *
 * A window is a chain of movement nodes over a version of its cell.  When the cell has moved on,
 * the chain is built again over the new version at the next use, so that the window sees later
 * writes.
 */
#include "tensor/make.h"
#include "tensor/slot.h"
#include <string.h>

/* What a call returns when there is no memory even for its error: an index that no slot has. */
static tn_tensor *nowhere(void) { return (tn_tensor *)UINTPTR_MAX; }

bool tn__is_nowhere(const tn_tensor *t) { return t == nowhere(); }

tn__slot *tn__slot_get(const tn_tensor *t)
{
    if (!t) {
        tn__fail(TN_ENULL, "tensor: NULL where one is needed: only what a function calls optional "
                           "may be left out");
        return NULL;
    }
    if (tn__is_nowhere(t)) {
        tn__fail_nomem();
        return NULL;
    }
    tn__slot *s = tn__slot_find(t);
    if (!s) {
        tn__fail(TN_ESTALE,
                 "tensor: it is gone: its scope has ended or it was freed: tn_keep it, or hand it "
                 "out with tn_return");
        return NULL;
    }
    if (!s->err) return s;
    tn__error_put(s->err);
    return NULL;
}

/* ---- making handles ---- */

static tn_tensor *poison(void)
{
    tn__error e;
    if (tn_ok())
        tn__fail(TN_EINTERNAL,
                 "call: it failed and did not say why: this is a defect of the library");
    if (tn_last_error()->code != TN_ENOMEM) {
        tn__error_take(&e);
        tn__error_put(&e);
        tn__slot *s = tn__slot_new();
        tn__error *own = s ? tn__alloc(sizeof *own) : NULL;
        if (own) {
            *own = e;
            s->err = own;
            return tn__slot_handle(s);
        }
        if (s) tn__slot_kill(s);
    }
    return nowhere();
}

tn_tensor *tn__handle_new(tn__node *node)
{
    if (!node) return poison();
    tn__slot *s = tn__slot_new();
    if (!s) {
        tn__node_unref(node);
        return poison();
    }
    s->node = node;
    return tn__slot_handle(s);
}

tn_tensor *tn__handle_box(tn__cell *c)
{
    tn__slot *s = tn__slot_new();
    if (!s) return poison();
    tn__cell_ref(c);
    s->cell = c;
    return tn__slot_handle(s);
}

/* ---- reading handles ---- */

/* The chain of a window over cur, the cell's version of now. */
static tn__node *window_in(tn__slot *s, tn__cell *c, tn__node *cur)
{
    pthread_mutex_t *m = tn__lock_of(c);
    pthread_mutex_lock(m);
    if (s->base != cur) {
        tn__build b;
        tn__merge outer = tn__merging;
        tn__build_begin(&b);
        tn__merging = (tn__merge){.since = tn__node_next(), .held = cur};
        tn__node *top = tn__build_end(&b, tn__chain_over(s->node, s->base, cur));
        tn__merging = outer;
        if (top) {
            tn__node_unref(s->node);
            tn__node_unref(s->base);
            tn__node_ref(cur);
            s->node = top;
            s->base = cur;
        }
        pthread_mutex_unlock(m);
        return top;
    }
    tn__node *n = s->node;
    pthread_mutex_unlock(m);
    return n;
}

tn__node *tn__slot_in(tn__slot *s, bool hook)
{
    tn__cell *c = atomic_load_explicit(&s->cell, memory_order_acquire);
    const bool old = !c && hook && tn__capture && s->node->serial < tn__capture->since;
    if (old && !(c = tn__slot_cell(s, false))) return NULL;
    if (!c) return s->node;
    if (hook && tn__capture && !tn__capture->read(tn__capture->user, c)) return NULL;
    tn__node *cur = tn__cell_in(c);
    return cur && s->window ? window_in(s, c, cur) : cur;
}

/* Node of the cell that a movement of s's current node stands on. */
static tn__node *root_of(tn__slot *s)
{
    tn__cell *c = atomic_load_explicit(&s->cell, memory_order_acquire);
    return c ? tn__cell_in(c) : s->node;
}

static tn__node *in(tn_tensor *t, bool view)
{
    tn__slot *s = tn__slot_get(t);
    tn__node *n = s ? tn__slot_in(s, true) : NULL;
    tn__merging.since = tn__node_next();
    if (n && view) tn__merging.held = root_of(s);
    return n;
}

tn__node *tn__in(tn_tensor *t) { return in(t, false); }
tn__node *tn__in_view(tn_tensor *t) { return in(t, true); }
tn__node *tn__in_opt(tn_tensor *t) { return t ? in(t, false) : NULL; }

tn__cell *tn__slot_cell(tn__slot *s, bool own_it)
{
    tn__cell *c = atomic_load_explicit(&s->cell, memory_order_acquire);
    if (!c) {
        pthread_mutex_t *m = tn__lock_of(s);
        pthread_mutex_lock(m);
        c = atomic_load_explicit(&s->cell, memory_order_acquire);
        if (!c) c = tn__cell_new(s->node);
        atomic_store_explicit(&s->cell, c, memory_order_release);
        pthread_mutex_unlock(m);
    }
    if (c && own_it && !s->window) {
        tn__node_unref(s->node);
        s->node = NULL;
    }
    return c;
}

tn__cell *tn__cell_of(tn_tensor *t)
{
    tn__slot *s = tn__slot_get(t);
    if (!s) return NULL;
    if (!s->window) return tn__slot_cell(s, true);
    tn__fail(TN_EVALUE, "tensor: it is a view of another one: use that one");
    return NULL;
}

/* ---- calls ---- */

void tn__call_begin(tn__call *c, const char *name)
{
    tn__enter(name);
    c->name = tn__call_name;
    c->outer = tn__merging;
    if (!tn__call_name) tn__call_name = name;
    tn__merging = (tn__merge){.since = tn__node_next()};
    tn__build_begin(&c->build);
}

static void leave(tn__call *c)
{
    tn__call_name = c->name;
    tn__merging = c->outer;
    tn__leave();
}

tn_tensor *tn__call_end(tn__call *c, tn__node *result)
{
    tn_tensor *t = tn__handle_new(tn__build_end(&c->build, result));
    leave(c);
    return t;
}

void tn__call_done(tn__call *c)
{
    tn__build_end(&c->build, NULL);
    leave(c);
}

tn_tensor *tn__call_view(tn__call *c, tn_tensor *base, tn__node *result)
{
    tn__slot *b = result ? tn__slot_get(base) : NULL;
    tn__node *root = b ? root_of(b) : NULL;
    if (!root || !tn__chain_reaches(result, root)) return tn__call_end(c, result);
    tn__cell *cell = tn__slot_cell(b, false);
    tn_tensor *t = cell ? tn__handle_box(cell) : poison();
    tn__slot *s = tn__slot_find(t);
    if (s && !s->err && result != root) {
        tn__node_ref(result);
        tn__node_ref(root);
        s->node = result;
        s->base = root;
        s->window = true;
    }
    tn__call_done(c);
    return t;
}
