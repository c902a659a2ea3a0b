/* SPDX-License-Identifier: MIT */
/*
 * The visitor: builds the dotted name, skips NULL fields, meets a tied tensor once (two fields that hold one
 * handle), and calls what the walk is for.  No state outside of the visitor.
 */
#include "nn/nn.h"
#include <stdio.h>

struct tn_visitor {
    const tn__visit_ops *ops;
    void *user;
    tn__buf path;
    tn_tensor **seen; /* own: handles met, open addressing */
    size_t nseen, cap;
    bool ok;
};

/* Appends ".name"; the length before, to cut back to. */
static size_t push(tn_visitor *v, const char *name)
{
    size_t before = v->path.len;
    if (name && *name) v->ok = tn__buf_printf(&v->path, before ? ".%s" : "%s", name) && v->ok;
    return before;
}

static void pop(tn_visitor *v, size_t before)
{
    v->path.len = before;
    if (v->path.data) v->path.data[before] = 0;
}

static size_t slot_of(tn_tensor *const *table, size_t cap, const tn_tensor *t)
{
    size_t i = ((uintptr_t)t * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (cap - 1);
    while (table[i] && table[i] != t) i = (i + 1) & (cap - 1);
    return i;
}

static bool grow(tn_visitor *v)
{
    if (v->nseen * 2 < v->cap) return true;
    size_t cap = v->cap ? v->cap * 2 : 64;
    tn_tensor **t = tn__calloc(cap, sizeof(tn_tensor *));
    if (!t) return false;
    for (size_t i = 0; i < v->cap; i++)
        if (v->seen[i]) t[slot_of(t, cap, v->seen[i])] = v->seen[i];
    tn__free(v->seen);
    v->seen = t;
    v->cap = cap;
    return true;
}

static void meet(tn_visitor *v, const char *name, tn_tensor **field, bool trained)
{
    if (!v->ok || !field || !*field) return;
    size_t before = push(v, name);
    v->ok = v->ok && grow(v);
    if (v->ok) {
        const char *path = v->path.data ? v->path.data : "";
        size_t i = slot_of(v->seen, v->cap, *field);
        if (v->seen[i]) {
            if (v->ops->tied) v->ops->tied(v->user, path, field);
        } else {
            v->seen[i] = *field;
            v->nseen++;
            v->ops->tensor(v->user, path, field, trained);
        }
    }
    pop(v, before);
}

void tn_visit_tensor(tn_visitor *v, const char *name, tn_tensor **field)
{
    meet(v, name, field, true);
}
void tn_visit_buffer(tn_visitor *v, const char *name, tn_tensor **field)
{
    meet(v, name, field, false);
}
void tn_tensor_visit(tn_visitor *v, void *obj) { meet(v, "", obj, true); }

void tn_visit_number(tn_visitor *v, const char *name, uint64_t *number)
{
    if (!v->ok || !number || !v->ops->number) return;
    size_t before = push(v, name);
    if (v->ok) v->ops->number(v->user, v->path.data ? v->path.data : "", number);
    pop(v, before);
}

void tn_visit_sub(tn_visitor *v, const char *name, void *obj, tn_visit_fn *fn)
{
    if (!v->ok || !obj || !fn) return;
    size_t before = push(v, name);
    if (v->ok) fn(v, obj);
    pop(v, before);
}

void tn_visit_array(tn_visitor *v, const char *name, void *first, size_t n, size_t stride,
                    tn_visit_fn *fn)
{
    if (!v->ok || !first || !fn) return;
    size_t before = push(v, name);
    for (size_t i = 0; i < n && v->ok; i++) {
        char index[24];
        snprintf(index, sizeof index, "%zu", i);
        tn_visit_sub(v, index, (char *)first + i * stride, fn);
    }
    pop(v, before);
}

void tn_random_visit(tn_visitor *v, void *obj)
{
    (void)obj;
    tn__rng old = tn__rng_get(), s = old;
    tn_visit_number(v, "key", &s.key);
    tn_visit_number(v, "counter", &s.counter);
    if (s.key != old.key || s.counter != old.counter) tn__rng_set(s);
}

bool tn__visit(void *obj, tn_visit_fn *fn, const tn__visit_ops *ops, void *user)
{
    if (!obj || !fn)
        return tn__fail(TN_ENULL, "state: the %s is NULL: give the object and its walker",
                        obj ? "walker" : "object");
    tn_visitor v = {.ops = ops, .user = user, .ok = true};
    bool clean = tn_ok();
    fn(&v, obj);
    tn__buf_free(&v.path);
    tn__free(v.seen);
    return v.ok && (!clean || tn_ok());
}
