/* SPDX-License-Identifier: MIT */
/*
 * From a trace to a capture.
 *
 *   1. Roots: what the function realised, the cells it wrote that somebody can still see, losses, the result,
 *      the outputs; in the order in which tn__run would take them, so that an eager step has the same plan.
 *   2. Roll the trace back; everything from here on fails without a trace of itself.
 *   3. Normal form; where each leaf and scalar comes from; the plan.
 *   4. Outputs and items: what is published at the end of a call.
 */
#include "jit/jit.h"
#include "tensor/make.h"
#include <string.h>

/* ---- step 1 ---- */

/* Number of the input whose own cell this is, or -1. */
static int input_of(const tn__trace *t, const tn__cell *c)
{
    for (size_t i = 0; i < t->nleaf; i++)
        if (t->leaf_cell[i] == c) return (int)i;
    return -1;
}

static bool visible(const tn__trace *t, const tn__trace_cell *e)
{
    if (input_of(t, e->cell) >= 0) return true;
    unsigned mine = 1; /* and the links of gradients */
    for (size_t i = 0; i < t->ngrad; i++)
        mine += (unsigned)(t->grad[i].entry == e->cell) + (unsigned)(t->grad[i].after == e->cell) +
                (unsigned)(t->grad[i].param == e->cell);
    return atomic_load(&e->cell->refs) > mine;
}

static void add_root(tn__node **root, size_t *n, tn__node *x)
{
    x = tn__stored(x);
    if (tn__stored_value(x)) return;
    for (size_t i = 0; i < *n; i++)
        if (root[i] == x) return;
    root[(*n)++] = x;
}

bool tn__jit_form(tn__arena *a, tn__trace *t, tn__node ***roots, size_t *n, tn__normal *form)
{
    size_t k = 0;
    tn__node **root = tn__arena_alloc(a, (t->nrealized + t->nwrote + t->nout + 2) * sizeof *root);
    *form = (tn__normal){0};
    if (!root) {
        tn__trace_undo(t);
        return false;
    }
    for (size_t i = 0; i < t->nrealized; i++) add_root(root, &k, t->realized[i]);
    for (size_t i = 0; i < t->nwrote; i++) {
        tn__trace_cell *e = &t->cell[t->wrote[i]];
        if (visible(t, e))
            add_root(root, &k, e->end);
        else
            e->written = false;
    }
    if (t->result) add_root(root, &k, t->result);
    for (size_t i = 0; i < t->nout; i++) add_root(root, &k, t->out[i].node);
    bool ok = tn__normal_kept(a, root, k, roots, n);
    tn__trace_undo(t); /* step 2 */
    if (!ok) return false;
    if (!*n)
        return tn__fail(
            TN_EJIT,
            "jit: the function computes nothing from its inputs: there is nothing to capture: "
            "return a tensor that it computes, or write one");
    return tn__normalise(a, *roots, *n, form);
}

/* ---- step 3 ---- */

tn__jit_slot tn__jit_origin(const tn__trace *t, tn__node *n)
{
    const tn__value *v = tn__stored_value(n);
    tn__jit_slot s = {.from = TN__FROM_CONST, .sig = tn__jit_sig_of(tn__stored(n))};
    for (size_t i = 0; i < t->nleaf; i++) {
        if (tn__stored_value(t->leaf[i]) != v) continue;
        s.from = TN__FROM_INPUT;
        s.input = (int)i;
    }
    for (size_t i = 0; s.from == TN__FROM_CONST && i < t->ncell; i++) {
        const tn__trace_cell *e = &t->cell[i];
        if (!e->entry || tn__stored_value(e->entry) != v) continue;
        s.from = TN__FROM_CELL;
        s.cell = e->cell;
    }
    if (s.from == TN__FROM_CONST) s.node = tn__stored(n);
    tn__cell_ref(s.cell);
    tn__node_ref(s.node);
    return s;
}

tn__jit_sig tn__jit_sig_of(const tn__node *n)
{
    const tn__value *v = atomic_load(&((tn__node *)(uintptr_t)n)->val);
    tn__jit_sig s = {
        .dt = (tn_dtype)n->dt, .rank = n->rank, .place = v ? v->place : n->place, .loc = n->loc};
    if (n->rank) memcpy(s.dims, n->dims, n->rank * sizeof *n->dims);
    return s;
}

static bool is_leaf(const tn__trace *t, const tn__node *n)
{
    for (size_t i = 0; i < t->nleaf; i++)
        if (t->leaf[i] == n) return true;
    return false;
}

/* An input that the function also reaches without IN. */
static bool apart(tn__arena *a, const tn__trace *t, tn__node **root, size_t n)
{
    tn__node **order;
    size_t count;
    if (!tn__walk(a, root, n, false, &order, &count)) return false;
    for (size_t i = 0; i < t->nleaf; i++) {
        const tn__value *v = tn__stored_value(t->leaf[i]);
        bool twice = false;
        for (size_t k = 0; k < count; k++)
            twice |= atomic_load(&order[k]->val) == v && !is_leaf(t, order[k]);
        for (size_t k = 0; k < t->ncell; k++) {
            tn__node *e = t->cell[k].entry;
            twice |= e && tn__stored_value(e) == v && !is_leaf(t, tn__stored(e));
        }
        if (twice)
            return tn__fail(
                TN_EJIT,
                "jit: input %zu is also a closure: the function reads that tensor without IN: use "
                "the one of its inputs, or leave it out",
                i);
    }
    return true;
}

static bool take_slots(tn_jit *j, const tn__trace *t, const tn__normal *f)
{
    j->slot = tn__calloc(f->nleaf + 1, sizeof *j->slot);
    if (!j->slot) return false;
    for (size_t i = 0; i < f->nleaf; i++) {
        j->slot[i] = tn__jit_origin(t, f->leaf[i]);
        j->nslot = i + 1;
        const tn__value *v = tn__stored_value(f->leaf[i]);
        for (size_t k = 0; j->slot[i].from == TN__FROM_CELL && k < t->ncell; k++) {
            const tn__trace_cell *e = &t->cell[k];
            if (e->cell == j->slot[i].cell || !e->entry || tn__stored_value(e->entry) != v)
                continue;
            if (!tn__grow(&j->peer, j->npeer, &j->cap_peer, sizeof *j->peer)) return false;
            tn__cell_ref(e->cell);
            j->peer[j->npeer++] = (tn__jit_peer){(int)i, e->cell};
        }
    }
    return true;
}

/* Random numbers drawn since the start follow the thread's generator; everything else is fixed. */
static bool take_scalars(tn_jit *j, const tn__trace *t, const tn__normal *f)
{
    const size_t n = f->nscalar;
    j->scalar = tn__calloc(n + 1, sizeof *j->scalar);
    j->relative = tn__calloc(n + 1, sizeof *j->relative);
    j->scalar_kind = tn__calloc(n + 1, 1);
    if (!j->scalar || !j->relative || !j->scalar_kind) return false;
    j->nscalar = n;
    j->drawn = t->drawn;
    for (size_t i = 0; i < n; i++) j->scalar[i] = f->scalar[i];
    for (size_t i = 0; i + 1 < n; i++) {
        if (f->scalar_kind[i] != TN__SCALAR_KEY || f->scalar[i] != t->rng.key ||
            f->scalar[i + 1] < t->rng.counter)
            continue;
        j->scalar_kind[i] = TN__SCALAR_KEY;
        j->scalar_kind[i + 1] = TN__SCALAR_BASE;
        j->relative[i + 1] = f->scalar[i + 1] - t->rng.counter;
    }
    return true;
}

static bool take_signature(tn_jit *j, const tn__trace *t)
{
    j->sig = tn__calloc(t->nleaf + 1, sizeof *j->sig);
    if (!j->sig) return false;
    j->nsig = t->nleaf;
    for (size_t i = 0; i < t->nleaf; i++) j->sig[i] = tn__jit_sig_of(t->leaf[i]);
    for (int v = 0; v < TN_VARS; v++) {
        const tn__var_info *info = tn__var_info_of((tn_context_var)v);
        if (!(t->watch.read >> v & 1) || info->text || strcmp(info->when, "at the call")) continue;
        if (v == TN_JIT || v == TN_JIT_CHECK) continue;
        j->context_read |= UINT64_C(1) << v;
        j->context[v] = tn_context_get((tn_context_var)v);
    }
    return true;
}

/* ---- step 4 ---- */

/* The roots, and of each the plan's buffer on its first device. */
typedef struct {
    tn__node **node;
    size_t n;
    int *first;
} roots;

static bool find_first(const tn_jit *j, const tn__normal *f, roots *r)
{
    int at = 0;
    r->first = tn__arena_alloc(f->arena, (r->n + 1) * sizeof *r->first);
    for (size_t i = 0; r->first && i < r->n; i++) {
        r->first[i] = j->plan->root_buf[at];
        at += tn__root_parts(f, r->node[i]);
    }
    return r->first != NULL;
}

static bool take_buffers(tn_jit *j, const roots *root)
{
    const tn__plan *p = j->plan;
    j->buf = tn__calloc((size_t)p->nbuf + 1, sizeof *j->buf);
    if (!j->buf) return false;
    for (int b = 0; b < p->nbuf; b++) {
        if (p->buf[b].kind != TN__PBUF_OUTPUT) continue;
        tn__jit_buf *o = &j->buf[j->nbuf++];
        *o = (tn__jit_buf){.buf = b,
                           .bytes = (size_t)p->buf[b].numel * tn__dtype_size(p->buf[b].dt)};
        o->like = tn__calloc(root->n + 1, sizeof *o->like);
        if (!o->like) return false;
        for (size_t r = 0; r < root->n; r++)
            if (root->first[r] == b) o->like[o->nlike++] = tn__jit_sig_of(root->node[r]);
        if (o->nlike) continue;
        tn__free(o->like); /* on one of the other devices of an output */
        *o = (tn__jit_buf){0};
        j->nbuf--;
    }
    return true;
}

/* Where a final node's value is found; false without memory. */
static bool add_item(tn_jit *j, const tn__trace *t, const roots *root, const tn__normal *f,
                     tn__node *n, tn__cell *cell, int input)
{
    if (!tn__grow(&j->item, j->nitem, &j->cap_item, sizeof *j->item)) return false;
    tn__jit_item it = {.out = -1, .cell = cell, .input = input};
    n = tn__stored(n);
    if (tn__stored_value(n)) it.slot = tn__jit_origin(t, n);
    for (size_t r = 0; !tn__stored_value(n) && r < root->n; r++) {
        if (root->node[r] != n) continue;
        const tn__pbuf *b = &j->plan->buf[root->first[r]];
        if (b->kind == TN__PBUF_INPUT) it.slot = tn__jit_origin(t, f->leaf[b->slot]);
        for (size_t o = 0; b->kind == TN__PBUF_OUTPUT && o < j->nbuf; o++)
            if (j->buf[o].buf == root->first[r]) it.out = (int)o;
        for (size_t k = 0; k < r; k++) it.like += root->first[k] == root->first[r];
    }
    tn__cell_ref(cell);
    j->item[j->nitem++] = it;
    return true;
}

static bool take_items(tn_jit *j, const tn__trace *t, const roots *root, const tn__normal *f)
{
    j->has_result = t->result != NULL;
    if (t->result && !add_item(j, t, root, f, t->result, NULL, -1)) return false;
    for (size_t i = 0; i < t->nout; i++) {
        if (!tn__grow(&j->name, j->nname, &j->cap_name, sizeof *j->name)) return false;
        char *name = tn__strdup(t->out[i].name);
        if (!name) return false;
        j->name[j->nname++] = (tn__jit_name){.name = name, .item = (int)j->nitem};
        if (!add_item(j, t, root, f, t->out[i].node, NULL, -1)) return false;
    }
    for (size_t i = 0; i < t->nwrote; i++) {
        const tn__trace_cell *e = &t->cell[t->wrote[i]];
        const int input = input_of(t, e->cell);
        if (e->written && !add_item(j, t, root, f, e->end, input < 0 ? e->cell : NULL, input))
            return false;
    }
    return true;
}

static bool take_links(tn_jit *j, const tn__trace *t)
{
    j->link = tn__calloc(t->ngrad + 1, sizeof *j->link);
    if (!j->link) return false;
    for (size_t i = 0; i < t->ngrad; i++) {
        const tn__trace_grad *g = &t->grad[i];
        tn__cell_ref(g->param);
        tn__cell_ref(g->entry);
        tn__cell_ref(g->after);
        j->link[j->nlink++] = (tn__jit_link){g->param, g->entry, g->after, g->need};
    }
    return true;
}

static bool take_tables(tn_jit *j, bool multi)
{
    const size_t n = (size_t)j->plan->nbuf + 1;
    j->ref = tn__calloc(n, sizeof *j->ref);
    j->held = tn__calloc(n, sizeof(tn__buffer *));
    j->slot_bytes = tn__calloc(n, sizeof *j->slot_bytes);
    if (multi && !(j->mem = tn__calloc(n, sizeof(tn__buffer *)))) return false;
    if (!j->ref || !j->held || !j->slot_bytes) return false;
    for (int b = 0; b < j->plan->nbuf; b++) {
        const tn__pbuf *p = &j->plan->buf[b];
        const tn__jit_sig *s = p->kind == TN__PBUF_INPUT ? &j->slot[p->slot].sig : NULL;
        int64_t count = s ? 1 : p->numel;
        for (int i = 0; s && i < s->rank; i++) count *= s->dims[i];
        if (s && s->place && s->place->axis >= 0) count /= s->place->n; /* bytes a device */
        j->slot_bytes[b] = (size_t)count * tn__dtype_size(s ? s->dt : p->dt);
    }
    return true;
}

static bool prune(tn_jit *j)
{
    if (!j->prune) return true;
    bool *changes = tn__calloc(j->nslot + 1, sizeof *changes);
    if (!changes) return false;
    for (size_t s = 0; s < j->nslot; s++) {
        changes[s] = j->slot[s].from == TN__FROM_INPUT;
        for (size_t i = 0; j->slot[s].from == TN__FROM_CELL && i < j->nitem; i++)
            changes[s] |= j->item[i].cell == j->slot[s].cell;
    }
    bool ok = tn__jit_prune(j, changes);
    tn__free(changes);
    return ok;
}

bool tn__jit_capture(tn_jit *j, tn__trace *t)
{
    tn__arena a = {0};
    tn__node **root;
    size_t n;
    tn__normal f;
    tn__jit_drop(j);
    bool ok = tn__jit_form(&a, t, &root, &n, &f) && apart(&a, t, root, n) && take_slots(j, t, &f) &&
              take_scalars(j, t, &f) && take_signature(j, t);
    tn__device *dev = ok ? tn__plan_device(&f) : NULL;
    j->plan = dev ? tn__plan_get(&f, dev) : NULL;
    roots r = {root, n, NULL};
    ok = j->plan && find_first(j, &f, &r) && take_buffers(j, &r) && take_items(j, t, &r, &f) &&
         take_links(j, t) && take_tables(j, f.multi) && prune(j) &&
         tn__buf_put(&j->form, f.bytes.data, f.bytes.len);
    j->key = f.key;
    if (!ok && tn_ok()) tn__fail_nomem();
    tn__normal_free(&f);
    tn__arena_free(&a);
    j->captured = ok;
    if (!ok) tn__jit_drop(j);
    return ok;
}

/* ---- the end of a capture ---- */

void tn__jit_slot_drop(tn__jit_slot *s)
{
    tn__cell_unref(s->cell);
    tn__node_unref(s->node);
    tn__node_unref(s->once);
    *s = (tn__jit_slot){0};
}

static void drop_lists(tn_jit *j)
{
    for (size_t i = 0; i < j->nslot; i++) tn__jit_slot_drop(&j->slot[i]);
    for (size_t i = 0; i < j->npeer; i++) tn__cell_unref(j->peer[i].cell);
    for (size_t i = 0; i < j->nitem; i++) {
        tn__jit_slot_drop(&j->item[i].slot);
        tn__cell_unref(j->item[i].cell);
    }
    for (size_t i = 0; i < j->nlink; i++) {
        tn__cell_unref(j->link[i].before);
        tn__cell_unref(j->link[i].after);
        tn__cell_unref(j->link[i].param);
    }
    for (size_t i = 0; i < j->nname; i++) {
        tn__free(j->name[i].name);
        tn__node_unref(j->name[i].node);
    }
    for (size_t i = 0; i < j->nbuf; i++) {
        tn__jit_buf *b = &j->buf[i];
        for (int k = 0; k < 2; k++) tn__jit_gen_drop(b, &b->gen[k]);
        tn__free(b->like);
    }
}

void tn__jit_drop(tn_jit *j)
{
    if (j->plan) tn__jit_intermediates(j);
    drop_lists(j);
    tn__plan_unref(j->plan);
    tn__plan_unref(j->once);
    tn__buf_free(&j->form);
    void *own[] = {j->sig,         j->slot, j->peer, j->scalar,    j->relative,
                   j->scalar_kind, j->buf,  j->item, j->name,      j->link,
                   j->ref,         j->mem,  j->held, j->slot_bytes};
    for (size_t i = 0; i < TN_LEN(own); i++) tn__free(own[i]);
    const size_t at = offsetof(struct tn_jit, name);
    memset((char *)j + at, 0, sizeof *j - at);
}
