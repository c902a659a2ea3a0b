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

static tn__value *value_of(tn__node *n)
{
    return atomic_load_explicit(&n->val, memory_order_acquire);
}

tn__device *tn__plan_device(const tn__normal *f)
{
    return f->ndev ? f->dev[0] : tn__device_default();
}

int tn__root_parts(const tn__normal *f, const tn__node *root)
{
    return f->multi && root->place ? root->place->n : 1;
}

void tn__bind_input(const tn__plan *p, int b, const tn__value *v, const tn__binding *to)
{
    int k = 0;
    while (k + 1 < v->place->n && v->place->dev[k] != p->devs[p->buf[b].dev]) k++;
    to->ref[b] = tn__buffer_ref_of(v->buf[k], v->offset, tn__buffer_bytes(v->buf[k]) - v->offset);
    if (to->mem) to->mem[b] = v->buf[k];
}

void tn__bind_root(const tn__plan *p, int at, const tn__value *v, const tn__binding *to)
{
    for (int k = 0; k < v->place->n; k++) {
        const int b = p->root_buf[at + k];
        to->ref[b] = tn__buffer_ref_of(v->buf[k], 0,
                                       (size_t)p->buf[b].numel * tn__dtype_size(p->buf[b].dt));
        if (to->mem) to->mem[b] = v->buf[k];
    }
}

/* Shares or takes the memory of every root; values[] own. */
static bool bind_roots(const tn__plan *p, const tn__normal *f, tn__node **roots, size_t n,
                       tn__value **values, const tn__binding *to)
{
    int at = 0;
    tn__value **made = tn__arena_zero(
        f->arena, ((size_t)p->nroot + 1) * sizeof *made); /* by the first of a root's list */
    if (!made) return false;
    for (size_t i = 0; i < n; i++) {
        const tn__pbuf *pb = &p->buf[p->root_buf[at]];
        if (pb->kind == TN__PBUF_INPUT || pb->slot != at) {
            values[i] = pb->kind == TN__PBUF_INPUT ? value_of(f->leaf[pb->slot]) : made[pb->slot];
            tn__value_ref(values[i]);
        } else {
            const tn__placement *place = f->multi && roots[i]->place ? roots[i]->place
                                                                     : tn__placement_one(p->dev);
            values[i] = tn__value_new(place, (size_t)pb->numel * tn__dtype_size(pb->dt));
            if (!values[i]) return false;
            tn__bind_root(p, at, values[i], to);
        }
        made[at] = values[i];
        at += tn__root_parts(f, roots[i]);
    }
    return true;
}

static void bind_inputs(const tn__plan *p, const tn__normal *f, const tn__binding *to)
{
    for (int i = 0; i < p->nbuf; i++)
        if (p->buf[i].kind == TN__PBUF_INPUT)
            tn__bind_input(p, i, value_of(f->leaf[p->buf[i].slot]), to);
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

bool tn__bind_temps(const tn__plan *p, tn__buffer **temp, const tn__binding *to)
{
    bool any = false;
    for (int d = 0; d < p->ndev; d++) {
        if (!p->temp_bytes[d]) continue;
        any = true;
        if (!temp[d]) temp[d] = tn__buffer_new(p->devs[d], p->temp_bytes[d]);
        if (!temp[d] || (tn_context_get(TN_POISON) && !poison(temp[d]))) return false;
    }
    for (int i = 0; any && i < p->nbuf; i++) {
        const tn__pbuf *pb = &p->buf[i];
        if (pb->kind != TN__PBUF_TEMP || !temp[pb->dev]) continue;
        to->ref[i] = tn__buffer_ref_of(temp[pb->dev], pb->offset,
                                       (size_t)pb->numel * tn__dtype_size(pb->dt));
        if (to->mem) to->mem[i] = temp[pb->dev];
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
    tn__device *dev = tn__plan_device(f);
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
    tn__buffer *temp[TN__SCHEDULE_DEVICES] = {NULL};
    tn__plan *p = values ? plan_of(a, roots, n, &f) : NULL;
    tnp_ref *ref = p ? tn__arena_zero(a, ((size_t)p->nbuf + 1) * sizeof *ref) : NULL;
    const size_t nmem = ref && f.multi ? (size_t)p->nbuf + 1 : 0;
    const tn__binding b = {.ref = ref,
                           .scalar = f.scalar,
                           .mem = nmem ? tn__arena_zero(a, nmem * sizeof(tn__buffer *)) : NULL};
    bool ok = ref && (!nmem || b.mem);
    if (ok) {
        bind_inputs(p, &f, &b);
        tn__status_bind(p, &b);
        ok = bind_roots(p, &f, roots, n, values, &b) && tn__bind_temps(p, temp, &b);
    }
    if (ok) {
        tn__inspect_graph(&f);
        ok = tn__plan_run(p, &b);
        tn__inspect_graph(NULL);
    }
    for (size_t i = 0; i < n; i++) {
        if (ok)
            publish(roots[i], values[i]);
        else
            tn__value_unref(values[i]);
    }
    for (size_t d = 0; d < TN_LEN(temp); d++) tn__buffer_unref(temp[d]);
    tn__plan_unref(p);
    tn__normal_free(&f);
    return ok;
}

bool tn__realize(tn__node *const *roots, size_t n)
{
    tn__arena a = {0};
    tn__node **todo;
    size_t count;
    if (tn__capture && tn__capture->realize)
        return tn__capture->realize(tn__capture->user, roots, n);
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

/* The parts of a split value in the order of the whole: a run of each out of each row. */
static bool read_parts(const tn__node *x, const tn__value *v, char *dst, size_t bytes)
{
    size_t rows = 1;
    for (int i = 0; i < v->place->axis; i++) rows *= (size_t)x->dims[i];
    const size_t n = (size_t)v->place->n, run = bytes / rows / n;
    char *part = tn__alloc(rows * run);
    bool ok = part != NULL;
    for (size_t k = 0; ok && k < n; k++) {
        ok = tn__buffer_read(part, v->buf[k], v->offset, rows * run);
        for (size_t r = 0; ok && r < rows; r++)
            memcpy(dst + (r * n + k) * run, part + r * run, run);
    }
    tn__free(part);
    return ok;
}

bool tn__node_read(tn__node *x, void *dst, size_t bytes)
{
    if (tn__capture && !tn__capture->data(tn__capture->user)) return false;
    if (!x || !tn__realize(&x, 1)) return false;
    const tn__value *v = value_of(x);
    const bool parts = bytes && v->place->n > 1 && v->place->axis >= 0;
    return (parts ? read_parts(x, v, dst, bytes)
                  : !bytes || tn__buffer_read(dst, v->buf[0], v->offset, bytes)) &&
           tn__status_report();
}
