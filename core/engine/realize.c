/* SPDX-License-Identifier: MIT */
/*
 * Realising: normal form, plan look-up, memory, submission, publication.
 *
 * All or nothing: the plan is made and all memory is reserved before the first kernel is submitted.  The only
 * place that publishes values on nodes.
 */
#include "engine/engine.h"
#include "engine/plan.h"
#include "device/device.h"
#include "tensor/handle.h"
#include <string.h>

static tn__value *value_of(tn__node *n) { return atomic_load_explicit(&n->val, memory_order_acquire); }

tn__device *tn__plan_device(const tn__normal *f, tn__node *root)
{
    for (size_t i = 0; i < f->nleaf; i++)
        if (value_of(f->leaf[i])) return value_of(f->leaf[i])->place->dev[0];
    if (root->place) return root->place->dev[0];
    return tn__device_default();
}

/* Shares or takes the memory of every root; values[] own. */
static bool bind_roots(const tn__plan *p, const tn__normal *f, tn__value **values, tnp_ref *ref)
{
    for (int i = 0; i < p->nroot; i++) {
        const int b = p->root_buf[i];
        const tn__pbuf *pb = &p->buf[b];
        if (pb->kind == TN__PBUF_INPUT) {
            values[i] = value_of(f->leaf[pb->slot]);
            tn__value_ref(values[i]);
        } else if (pb->slot != i) {
            values[i] = values[pb->slot];
            tn__value_ref(values[i]);
        } else {
            const size_t bytes = (size_t)pb->numel * tn__dtype_size(pb->dt);
            values[i] = tn__value_new(tn__placement_one(p->dev), bytes);
            if (!values[i]) return false;
            ref[b] = tn__buffer_ref_of(values[i]->buf[0], 0, bytes);
        }
    }
    return true;
}

static void bind_inputs(const tn__plan *p, const tn__normal *f, tnp_ref *ref)
{
    for (int i = 0; i < p->nbuf; i++) {
        const tn__pbuf *pb = &p->buf[i];
        if (pb->kind != TN__PBUF_INPUT) continue;
        ref[i] = tn__bind_value(value_of(f->leaf[pb->slot]));
    }
}

tnp_ref tn__bind_value(const tn__value *v)
{
    return tn__buffer_ref_of(v->buf[0], v->offset, tn__buffer_bytes(v->buf[0]) - v->offset);
}

/* NaN in every float: shows reads of what nobody wrote. */
static bool poison(tn__buffer *b)
{
    char block[4096];
    memset(block, 0xff, sizeof block);
    const size_t n = tn__buffer_bytes(b);
    bool ok = true;
    for (size_t at = 0; ok && at < n; at += sizeof block)
        ok = tn__buffer_write(b, at, block, n - at < sizeof block ? n - at : sizeof block);
    return ok;
}

bool tn__bind_temps(const tn__plan *p, tn__buffer **temp, tnp_ref *ref)
{
    if (!p->temp_bytes) return true;
    if (!*temp) *temp = tn__buffer_new(p->dev, p->temp_bytes);
    if (!*temp || (tn_context_get(TN_POISON) && !poison(*temp))) return false;
    for (int i = 0; i < p->nbuf; i++) {
        const tn__pbuf *pb = &p->buf[i];
        if (pb->kind == TN__PBUF_TEMP)
            ref[i] = tn__buffer_ref_of(*temp, pb->offset, (size_t)pb->numel * tn__dtype_size(pb->dt));
    }
    return true;
}

static void publish(tn__node *n, tn__value *v)
{
    tn__value *none = NULL;
    if (!atomic_compare_exchange_strong(&n->val, &none, v)) tn__value_unref(v);
}

/* The plan of the roots and the form that it is bound with.  A form that has no plan yet is looked at for
 * numbers that have changed since its like was seen. */
static tn__plan *plan_of(tn__arena *a, tn__node **roots, size_t n, tn__normal *f)
{
    uint8_t *mask;
    if (!tn__normalise(a, roots, n, f)) {
        tn__fail_nomem();
        return NULL;
    }
    tn__device *dev = tn__plan_device(f, roots[0]);
    tn__plan *p = dev ? tn__plan_find(f, dev) : NULL;
    if (p || !dev) return p;
    if (!tn__skeleton_mask(f, &mask)) {
        if (tn_ok()) tn__fail_nomem();
        return NULL;
    }
    if (mask) {
        const size_t nmask = f->nkonst;
        tn__normal_free(f);
        if (!tn__normalise_with(a, roots, n, mask, nmask, f)) {
            tn__fail_nomem();
            return NULL;
        }
    }
    return tn__plan_get(f, dev);
}

static bool run(tn__arena *a, tn__node **roots, size_t n)
{
    tn__normal f = {0};
    tn__value **values = tn__arena_zero(a, (n + 1) * sizeof *values);
    tn__buffer *temp = NULL;
    tn__plan *p = values ? plan_of(a, roots, n, &f) : NULL;
    tnp_ref *ref = p ? tn__arena_zero(a, ((size_t)p->nbuf + 1) * sizeof *ref) : NULL;
    bool ok = ref != NULL;
    if (ok) {
        bind_inputs(p, &f, ref);
        ok = bind_roots(p, &f, values, ref) && tn__bind_temps(p, &temp, ref);
    }
    if (ok) {
        const tn__binding b = {ref, f.scalar};
        tn__inspect_graph(&f);
        ok = tn__plan_run(p, &b);
        tn__inspect_graph(NULL);
    }
    for (size_t i = 0; i < n; i++) {
        if (ok) publish(roots[i], values[i]);
        else tn__value_unref(values[i]);
    }
    tn__buffer_unref(temp);
    tn__plan_unref(p);
    tn__normal_free(&f);
    return ok;
}

bool tn__realize(tn__node *const *roots, size_t n)
{
    tn__arena a = {0};
    tn__node **todo;
    size_t count;
    if (tn__capture && tn__capture->realize) return tn__capture->realize(tn__capture->user, roots, n);
    bool ok = tn__normal_kept(&a, roots, n, &todo, &count);
    if (ok && count) ok = run(&a, todo, count);
    tn__arena_free(&a);
    return ok;
}

bool tn__realize_alone(tn__node *root)
{
    tn__arena a = {0};
    const bool ok = run(&a, &root, 1);
    tn__arena_free(&a);
    return ok;
}

bool tn__node_read(tn__node *x, void *dst, size_t bytes)
{
    if (tn__capture && !tn__capture->data(tn__capture->user)) return false;
    if (!x || !tn__realize(&x, 1)) return false;
    const tn__value *v = value_of(x);
    return !bytes || tn__buffer_read(dst, v->buf[0], v->offset, bytes);
}
