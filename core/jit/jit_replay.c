/* SPDX-License-Identifier: MIT */
/*
 * One call of a captured function without running it.
 *
 *   1. Pending writes of the thread come first; then each slot is bound to the value of now.
 *   2. Outputs get memory that nobody else holds, temporaries the jit's own.
 *   3. Run: the device's graph, or kernel by kernel (JIT=2, DEBUG >= 2, CHECK_NAN).
 *   4. Publish: cells move to their new leaves, gradients are attached, the generator moves on.
 *
 * In a steady loop nothing here allocates, waits or logs.  What fails before 4 has changed nothing.
 */
#include "jit/jit.h"
#include "engine/engine.h"
#include <tenon/core.h>
#include <string.h>

/* ---- step 1 ---- */

static bool looks(const tn__jit_sig *s, const tn__node *n, const tn__value *v)
{
    return (tn_dtype)n->dt == s->dt && n->rank == s->rank && v->place == s->place &&
           (!s->rank || !memcmp(n->dims, s->dims, (size_t)s->rank * sizeof *s->dims));
}

/* The node that a slot stands for now; NULL: an error is pending. */
static tn__node *node_of(const tn_jit *j, const tn__jit_slot *s)
{
    if (s->from == TN__FROM_INPUT) return j->in[s->input];
    if (s->from == TN__FROM_CONST) return s->node;
    tn__node *n = tn__stored(s->cell->cur);
    if (!tn__stored_value(n) && !tn__realize(&n, 1)) return NULL;
    return n;
}

static tn__binding binding_of(const tn_jit *j)
{
    return (tn__binding){j->ref, j->scalar, j->mem, true};
}

static tn__jit_rc bind_slots(tn_jit *j)
{
    const tn__binding to = binding_of(j);
    for (size_t i = 0; i < j->nslot; i++) {
        tn__node *n = node_of(j, &j->slot[i]);
        if (!n) return TN__JIT_FAILED;
        if (!looks(&j->slot[i].sig, n, tn__stored_value(n))) return TN__JIT_STALE;
        if (j->slot[i].pruned && j->slot[i].once != n) j->once_done = false;
    }
    for (size_t i = 0; i < j->npeer; i++)
        if (tn__stored_value(j->peer[i].cell->cur) !=
            tn__stored_value(j->slot[j->peer[i].slot].cell->cur))
            return TN__JIT_STALE;
    for (size_t i = 0; i < j->nlink; i++) {
        const tn__jit_link *l = &j->link[i];
        if (l->need == TN__GRAD_NONE && l->param->grad) return TN__JIT_STALE;
        if (l->need == TN__GRAD_SAME && l->param->grad != l->before) return TN__JIT_STALE;
    }
    for (int b = 0; b < j->plan->nbuf; b++)
        if (j->plan->buf[b].kind == TN__PBUF_INPUT)
            tn__bind_input(j->plan, b, tn__stored_value(node_of(j, &j->slot[j->plan->buf[b].slot])),
                           &to);
    return TN__JIT_OK;
}

static void bind_scalars(tn_jit *j, const tn__rng *r)
{
    for (size_t i = 0; i < j->nscalar; i++) {
        if (j->scalar_kind[i] == TN__SCALAR_KEY) j->scalar[i] = r->key;
        if (j->scalar_kind[i] == TN__SCALAR_BASE) j->scalar[i] = r->counter + j->relative[i];
    }
}

/* ---- step 2 ---- */

void tn__jit_gen_drop(tn__jit_buf *b, tn__jit_gen *g)
{
    for (int i = 0; g->node && i < b->nlike; i++) tn__node_unref(g->node[i]);
    tn__free(g->node);
    if (g->v) tn__value_unref(g->v);
    *g = (tn__jit_gen){0};
}

static bool is_free(const tn__jit_buf *b, const tn__jit_gen *g)
{
    if (!g->v || atomic_load(&g->v->refs) != 1 + (unsigned)b->nlike) return false;
    for (int i = 0; i < b->nlike; i++)
        if (atomic_load(&g->node[i]->refs) != 1) return false;
    return true;
}

static bool gen_make(const tn_jit *j, tn__jit_buf *b, tn__jit_gen *g)
{
    const tn__placement *p = j->mem && b->like->place ? b->like->place
                                                      : tn__placement_one(j->plan->dev);
    tn__build build;
    bool ok = true;
    g->v = p ? tn__value_new(p, b->bytes) : NULL;
    g->node = g->v ? tn__calloc((size_t)b->nlike + 1, sizeof(tn__node *)) : NULL;
    for (int i = 0; g->node && ok && i < b->nlike; i++) {
        const tn__jit_sig *s = &b->like[i];
        tn__build_begin(&build);
        tn__value_ref(g->v);
        tn__node *n = tn__leaf(g->v, s->dt, s->dims, s->rank, p);
        if (n) {
            n->flags = TN__NODE_LEAFED;
            n->loc = s->loc;
        }
        g->node[i] = tn__build_end(&build, n);
        ok = n != NULL;
    }
    if (g->node && ok) return true;
    tn__jit_gen_drop(b, g);
    return false;
}

static bool bind_outputs(tn_jit *j)
{
    const tn__binding to = binding_of(j);
    for (size_t i = 0; i < j->nbuf; i++) {
        tn__jit_buf *b = &j->buf[i];
        int use = is_free(b, &b->gen[b->now])    ? b->now
                  : is_free(b, &b->gen[!b->now]) ? !b->now
                                                 : -1;
        if (use < 0) {
            use = b->gen[b->now].v ? !b->now : b->now;
            tn__jit_gen_drop(b, &b->gen[use]);
            if (!gen_make(j, b, &b->gen[use])) return false;
        }
        b->now = use;
        tn__bind_root(j->plan, j->plan->buf[b->buf].slot, b->gen[use].v, &to);
    }
    return true;
}

static bool bind_temps(tn_jit *j)
{
    const tn__binding to = binding_of(j);
    tn__status_bind(j->plan, &to);
    if (!tn__bind_temps(j->plan, j->temp, &to)) return false;
    for (int i = 0; j->once && i < j->once->ncall;
         i++) { /* what pruned calls make has memory of its own */
        const tn__plan_call *c = &j->once->call[i];
        for (int k = 0; k < c->nbuf; k++) {
            const int b = c->buf[k];
            if (j->plan->buf[b].kind != TN__PBUF_TEMP) continue;
            tn__device *d = j->plan->devs[j->plan->buf[b].dev];
            if (!j->held[b] && !(j->held[b] = tn__buffer_new(d, j->slot_bytes[b]))) return false;
            j->ref[b] = tn__buffer_ref_of(j->held[b], 0, j->slot_bytes[b]);
            if (j->mem) j->mem[b] = j->held[b];
        }
    }
    return true;
}

/* ---- step 3 ---- */

static bool run_once(tn_jit *j, const tn__binding *b)
{
    if (!j->once || j->once_done) return true;
    if (!tn__plan_run(j->once, b)) return false;
    for (size_t i = 0; i < j->nslot; i++) {
        tn__jit_slot *s = &j->slot[i];
        if (!s->pruned) continue;
        tn__node *n = node_of(j, s);
        tn__node_ref(n);
        tn__node_unref(s->once);
        s->once = n;
    }
    return j->once_done = true;
}

/* The device's graph of the plan, made at the first need; a device may have none, or none for this plan. */
static bool make_graph(tn_jit *j)
{
    if (j->graph || j->graph_tried) return true;
    const int64_t batch = tn_context_get(TN_JIT_BATCH_SIZE);
    tn__error e;
    j->graph_tried = true;
    j->graph = tn__plan_graph_new(j->plan, j->slot_bytes, batch > 0 ? (size_t)batch : 0);
    if (j->graph || tn_ok()) return true;
    if (tn_last_error()->code != TN_EUNSUPPORTED) return false;
    tn__error_take(&e);
    return true;
}

static bool run(tn_jit *j)
{
    const tn__binding b = binding_of(j);
    if (!run_once(j, &b)) return false;
    const bool looking = tn_context_get(TN_DEBUG) >= 2 || tn_context_get(TN_CHECK_NAN);
    if (tn_context_get(TN_JIT) == 2 || looking) return tn__plan_run(j->plan, &b);
    if (!make_graph(j)) return false;
    return j->graph ? tn__plan_graph_run(j->graph, &b) : tn__plan_run(j->plan, &b);
}

/* ---- step 4 ---- */

/* The item's node of this call, with a reference. */
static bool take(tn_jit *j, tn__jit_item *it)
{
    it->node = it->out >= 0 ? j->buf[it->out].gen[j->buf[it->out].now].node[it->like]
                            : node_of(j, &it->slot);
    tn__node_ref(it->node);
    return it->node != NULL;
}

/* Cells that inputs are written through; before anything runs, since it may allocate. */
static bool target_cells(tn_jit *j, const tn_inputs *in)
{
    for (size_t i = 0; i < j->nitem; i++) {
        tn__jit_item *it = &j->item[i];
        if (it->input < 0 || tn_bad(in->t[it->input])) continue; /* gone: nobody would see it */
        tn__cell *c = tn__cell_of(in->t[it->input]);
        if (!c) return false;
        tn__cell_ref(c);
        tn__cell_unref(it->cell);
        it->cell = c;
    }
    return true;
}

static void publish(tn_jit *j, tn__rng r)
{
    for (size_t i = 0; i < j->nitem; i++)
        if (j->item[i].cell) tn__cell_set(j->item[i].cell, j->item[i].node);
    for (size_t i = 0; i < j->nlink; i++) tn__grad_set(j->link[i].param, j->link[i].after);
    for (size_t i = 0; i < j->nname; i++) {
        j->name[i].node = j->item[j->name[i].item].node;
        tn__node_ref(j->name[i].node);
    }
    r.counter += j->drawn;
    if (j->drawn) tn__rng_set(r);
}

/* Gives the references of take back; inputs' cells are the caller's. */
static void let_go(tn_jit *j)
{
    for (size_t i = 0; i < j->nitem; i++) {
        tn__jit_item *it = &j->item[i];
        if (i || !j->has_result) { /* the result's goes to its handle */
            tn__node_unref(it->node);
            it->node = NULL;
        }
        if (it->input >= 0) {
            tn__cell_unref(it->cell);
            it->cell = NULL;
        }
    }
}

tn__jit_rc tn__jit_replay(tn_jit *j, const tn_inputs *in)
{
    const tn__rng r = tn__rng_get();
    tn__jit_rc rc = bind_slots(j);
    if (rc) return rc;
    bool ok = target_cells(j, in) && bind_outputs(j) && bind_temps(j);
    bind_scalars(j, &r);
    ok = ok && run(j);
    for (size_t i = 0; ok && i < j->nitem; i++) ok = take(j, &j->item[i]);
    if (ok) publish(j, r);
    let_go(j);
    return ok ? TN__JIT_OK : TN__JIT_FAILED;
}

void tn__jit_intermediates(tn_jit *j)
{
    tn__plan_graph_free(j->graph);
    j->graph = NULL;
    j->graph_tried = false;
    for (int d = 0; d < TN__SCHEDULE_DEVICES; d++) {
        tn__buffer_unref(j->temp[d]);
        j->temp[d] = NULL;
    }
    for (int b = 0; j->plan && j->held && b < j->plan->nbuf; b++) {
        tn__buffer_unref(j->held[b]);
        j->held[b] = NULL;
    }
    j->once_done = false;
    for (size_t i = 0; i < j->nslot; i++) {
        tn__node_unref(j->slot[i].once);
        j->slot[i].once = NULL;
    }
    for (size_t i = 0; i < j->nbuf; i++)
        for (int k = 0; k < 2; k++)
            if (is_free(&j->buf[i], &j->buf[i].gen[k]))
                tn__jit_gen_drop(&j->buf[i], &j->buf[i].gen[k]);
}
