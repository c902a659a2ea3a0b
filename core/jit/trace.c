/* SPDX-License-Identifier: MIT */
/*
 * Running a function under observation, through the hooks of tensor/handle.h.
 *
 * Every cell the function touches is noted with its version of the beginning, so that a failed run leaves
 * nothing behind and a capture can be rolled back before it is replayed.
 */
#include "jit/trace.h"
#include "device/device.h"
#include "engine/engine.h"
#include "tensor/slot.h"
#include <string.h>
#include <tenon/core.h>

_Thread_local tn__trace *tn__tracing;

tn__node *tn__stored(tn__node *n)
{
    while (!atomic_load_explicit(&n->val, memory_order_acquire) &&
           (n->op == TN_OP_PARAM || n->op == TN_OP_DETACH))
        n = n->src[0];
    return n;
}

tn__value *tn__stored_value(tn__node *n)
{
    return atomic_load_explicit(&tn__stored(n)->val, memory_order_acquire);
}

bool tn__grow(void *array, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return true;
    void *old;
    memcpy(&old, array, sizeof old);
    const size_t want = *cap ? *cap * 2 : 16;
    void *p = tn__realloc(old, want * size);
    if (!p) return false;
    memcpy(array, &p, sizeof p);
    *cap = want;
    return true;
}

void tn__grad_set(tn__cell *param, tn__cell *grad)
{
    tn__cell *old = param->grad;
    if (old == grad) return;
    if (grad) {
        tn__cell_ref(grad);
        tn__cell_keep(grad, 1);
    }
    param->grad = grad;
    if (!old) return;
    tn__cell_keep(old, -1);
    tn__cell_unref(old);
}

/* ---- hooks ---- */

static tn__trace_cell *find(tn__trace *t, const tn__cell *c)
{
    for (size_t i = 0; i < t->ncell; i++)
        if (t->cell[i].cell == c) return &t->cell[i];
    return NULL;
}

static tn__trace_cell *note(tn__trace *t, tn__cell *c, tn__node *entry)
{
    if (!tn__grow(&t->cell, t->ncell, &t->cap_cell, sizeof *t->cell)) return NULL;
    tn__cell_ref(c);
    tn__node_ref(entry);
    t->cell[t->ncell] = (tn__trace_cell){.cell = c, .entry = entry};
    return &t->cell[t->ncell++];
}

/* Computes what is older than the capture, outside of it. */
static bool settle(tn__trace *t, tn__node *n)
{
    tn__capture = NULL;
    tn__node *root = tn__stored(n);
    bool ok = tn__realize(&root, 1);
    tn__capture = &t->hook;
    return ok;
}

static bool on_read(void *user, tn__cell *c)
{
    tn__trace *t = user;
    if (!t->capture) return true;
    tn__trace_cell *e = find(t, c);
    if (e) return e->read = true;
    if (!tn__stored_value(c->cur)) {
        if (c->cur->serial >= t->since) return true; /* made inside */
        if (!settle(t, c->cur)) return false;
    }
    if (!tn__cell_in(c)) return false; /* becomes a leaf */
    e = note(t, c, c->cur);
    return e && (e->read = true);
}

static bool wrote(tn__trace *t, tn__trace_cell *e)
{
    if (!e) return false;
    if (e->written) return true;
    if (!tn__grow(&t->wrote, t->nwrote, &t->cap_wrote, sizeof *t->wrote)) return false;
    t->wrote[t->nwrote++] = (size_t)(e - t->cell);
    return e->written = true;
}

static bool on_write(void *user, tn__cell *c)
{
    tn__trace *t = user;
    tn__trace_cell *e = find(t, c);
    const bool inside = !tn__stored_value(c->cur) && c->cur->serial >= t->since;
    return wrote(t, e ? e : note(t, c, inside ? NULL : c->cur));
}

static bool on_made(void *user, tn__cell *c)
{
    tn__trace *t = user;
    return wrote(t, note(t, c, NULL));
}

static bool on_data(void *user)
{
    (void)user;
    return tn__fail(
        TN_ESTATE,
        "jit: data is read inside a captured function: the number would stay that of the capture: "
        "return the tensor, or name it with tn_jit_output, and read it after the call");
}

static bool on_realize(void *user, tn__node *const *roots, size_t n)
{
    tn__trace *t = user;
    for (size_t i = 0; i < n; i++) {
        if (tn__stored_value(roots[i])) continue;
        if (!tn__grow(&t->realized, t->nrealized, &t->cap_realized, sizeof *t->realized))
            return false;
        tn__node_ref(roots[i]);
        t->realized[t->nrealized++] = roots[i];
    }
    return true;
}

static void on_grad(void *user, tn__cell *param, bool forgotten)
{
    tn__trace *t = user;
    for (size_t i = 0; i < t->ngrad; i++)
        if (t->grad[i].param == param) return;
    if (!tn__grow(&t->grad, t->ngrad, &t->cap_grad, sizeof *t->grad))
        return; /* the pending error ends the run */
    tn__cell_ref(param);
    tn__cell_ref(param->grad);
    const int need = forgotten ? TN__GRAD_ANY : param->grad ? TN__GRAD_SAME : TN__GRAD_NONE;
    t->grad[t->ngrad++] = (tn__trace_grad){.param = param, .entry = param->grad, .need = need};
}

/* ---- the run ---- */

/* Inputs of a capture: leaves of their own over the same values, so that another way to them shows. */
static bool make_leaves(tn__trace *t, tn__node *const *node, size_t n)
{
    tn__build b;
    t->leaf = tn__calloc(n + 1, sizeof(tn__node *));
    t->leaf_cell = tn__calloc(n + 1, sizeof(tn__cell *));
    if (!t->leaf_cell) return false;
    for (size_t i = 0; t->leaf && i < n; i++) {
        tn__node *x = tn__stored(node[i]);
        tn__value *v = tn__stored_value(x);
        tn__build_begin(&b);
        tn__value_ref(v);
        t->leaf[i] = tn__build_end(&b, tn__leaf(v, (tn_dtype)x->dt, x->dims, x->rank, v->place));
        if (!t->leaf[i]) return false;
        t->leaf[i]->loc = x->loc;
        t->nleaf = i + 1;
    }
    return t->leaf != NULL;
}

/* The result's node; fn may have returned any handle. */
static bool take_result(tn__trace *t, tn_tensor *r)
{
    if (!r) return tn_ok();
    tn__call c;
    tn__call_begin(&c, "tn_jit_call");
    t->result = tn__in(r);
    tn__node_ref(t->result);
    tn__call_done(&c);
    return t->result && tn_ok();
}

static bool body(tn__trace *t, tn_jit_fn *fn, void *user, const tn_inputs *in, bool listen)
{
    tn_tensor **list = t->capture ? tn__alloc((in->n + 1) * sizeof(tn_tensor *)) : NULL;
    if (t->capture && !list) return false;
    for (size_t i = 0; t->capture && i < in->n; i++) {
        tn__node_ref(t->leaf[i]);
        list[i] = tn__handle_new(t->leaf[i]);
    }
    const tn_inputs mine = {in->n, list};
    tn__trace *caller = tn__tracing;
    tn__tracing = t;
    if (listen) tn__capture = &t->hook;
    tn__context_watch *outer = tn__context_watching;
    if (listen) tn__context_watching = &t->watch;
    const char *file;
    int line;
    tn__here(&file, &line);
    tn__leave(); /* errors in there name the functions that are called in there */
    tn_tensor *r = tn_ok() ? fn(user, t->capture ? &mine : in) : NULL;
    tn__enter("tn_jit_call");
    tn_at(file, line);
    tn__context_watching = outer;
    const bool ok = take_result(t, r);
    for (size_t i = 0; t->capture && i < in->n; i++) {
        tn__slot *s = tn__slot_find(list[i]);
        t->leaf_cell[i] = s ? atomic_load(&s->cell) : NULL;
        tn__cell_ref(t->leaf_cell[i]);
    }
    if (listen) tn__capture = NULL;
    tn__tracing = caller;
    tn__free(list);
    return ok;
}

/* Versions at the end. */
static void look_back(tn__trace *t)
{
    for (size_t i = 0; i < t->ngrad; i++) {
        t->grad[i].after = t->grad[i].param->grad;
        tn__cell_ref(t->grad[i].after);
    }
    for (size_t i = 0; i < t->ncell; i++) {
        tn__trace_cell *e = &t->cell[i];
        if (!e->written) continue;
        e->end = e->cell->cur;
        tn__node_ref(e->end);
    }
}

/* Computes what a plain run left to compute: the same roots that a capture has. */
static bool finish(tn__trace *t)
{
    tn__node **root = tn__alloc((t->nout + 2) * sizeof(tn__node *));
    size_t n = 0;
    if (!root) return false;
    if (t->result) root[n++] = t->result;
    for (size_t i = 0; i < t->nout; i++) root[n++] = t->out[i].node;
    bool ok = tn__run(root, n);
    tn__free(root);
    return ok;
}

bool tn__trace_undone(tn__trace *t, tn__trace_mode mode)
{
    tn__trace_undo(t);
    if (mode == TN__TRACE_PLAIN) tn__effects_drop();
    return false;
}

bool tn__trace_run(tn__trace *t, tn_jit_fn *fn, void *user, const tn_inputs *in,
                   tn__node *const *node, tn__trace_mode mode)
{
    const bool capture = mode == TN__TRACE_CAPTURE;
    *t = (tn__trace){.capture = capture};
    t->hook = (tn__capture_hook){.user = t,
                                 .read = on_read,
                                 .write = on_write,
                                 .made = on_made,
                                 .data = on_data,
                                 .grad = on_grad};
    t->rng = tn__rng_get();
    t->sets = tn__rng_sets();
    t->since = tn__node_next();
    if (capture) {
        t->hook.realize = on_realize;
        t->hook.since = t->since;
    }
    bool ok = !capture || make_leaves(t, node, in->n);
    tn_scope scope;
    tn_scope_open(&scope);
    ok = ok && body(t, fn, user, in, mode != TN__TRACE_FREE);
    tn_scope_end(&scope);
    if (ok && capture) look_back(t);
    if (capture) tn__effects_drop();
    t->drawn = tn__rng_get().counter - t->rng.counter;
    if (ok && capture && tn__rng_sets() != t->sets)
        ok = tn__fail(TN_EJIT, "jit: the random generator was seeded inside the captured function: "
                               "every call would draw "
                               "the same numbers: seed before the call");
    return ok || tn__trace_undone(t, mode);
}

bool tn__trace_finish(tn__trace *t, tn__trace_mode mode)
{
    return finish(t) || tn__trace_undone(t, mode);
}

void tn__trace_undo(tn__trace *t)
{
    for (size_t i = 0; i < t->ncell; i++)
        if (t->cell[i].written && t->cell[i].entry) tn__cell_set(t->cell[i].cell, t->cell[i].entry);
    for (size_t i = 0; i < t->ngrad; i++) tn__grad_set(t->grad[i].param, t->grad[i].entry);
    tn__rng_set(t->rng);
}

void tn__trace_free(tn__trace *t)
{
    for (size_t i = 0; i < t->ncell; i++) {
        tn__cell_unref(t->cell[i].cell);
        tn__node_unref(t->cell[i].entry);
        tn__node_unref(t->cell[i].end);
    }
    for (size_t i = 0; i < t->ngrad; i++) {
        tn__cell_unref(t->grad[i].entry);
        tn__cell_unref(t->grad[i].after);
        tn__cell_unref(t->grad[i].param);
    }
    for (size_t i = 0; i < t->nrealized; i++) tn__node_unref(t->realized[i]);
    for (size_t i = 0; i < t->nout; i++) {
        tn__free(t->out[i].name);
        tn__node_unref(t->out[i].node);
    }
    for (size_t i = 0; i < t->nleaf; i++) {
        tn__node_unref(t->leaf[i]);
        tn__cell_unref(t->leaf_cell[i]);
    }
    tn__node_unref(t->result);
    tn__free(t->cell);
    tn__free(t->wrote);
    tn__free(t->grad);
    tn__free(t->realized);
    tn__free(t->out);
    tn__free(t->leaf);
    tn__free(t->leaf_cell);
    *t = (tn__trace){0};
}
