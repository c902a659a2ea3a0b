/* SPDX-License-Identifier: MIT */
/*
 * Inputs of a call: what may be one, and whether it is what the capture had.  Allocates only where an input
 * has no value yet.
 */
#include "jit/jit.h"
#include "engine/engine.h"
#include "tensor/make.h"
#include "tensor/slot.h"
#include <string.h>

/* The node behind an input; NULL with an error that names it. */
static tn__node *node_of(size_t i, const tn_tensor *t)
{
    if (!t) {
        tn__fail(TN_ENULL, "jit: input %zu is NULL: every input is a tensor", i);
        return NULL;
    }
    tn__slot *s = tn__slot_find(t);
    if (!s) {
        tn__fail(TN_ESTALE,
                 "jit: input %zu: the tensor is gone: its scope has ended, it was freed, or the "
                 "jit it came "
                 "from was called again: tn_keep it",
                 i);
        return NULL;
    }
    if (s->err) {
        tn__error_put(s->err);
        return NULL;
    }
    if (s->window) {
        tn__fail(TN_EJIT,
                 "jit: input %zu is a view of another tensor: pass that one and take the view "
                 "inside, or pass "
                 "a copy by tn_contiguous",
                 i);
        return NULL;
    }
    tn__cell *c = atomic_load(&s->cell);
    if (c && c->param) {
        tn__fail(TN_EJIT,
                 "jit: input %zu is a parameter: the function reaches it through its user pointer; "
                 "leave it "
                 "out of IN",
                 i);
        return NULL;
    }
    tn__node *n = tn__stored(c ? c->cur : s->node);
    if (n->op == TN_OP_CONST && !tn__stored_value(n)) {
        tn__fail(TN_EJIT,
                 "jit: input %zu is a constant without memory, %s: call tn_realize on it first, or "
                 "make it by "
                 "tn_from_data",
                 i, tn__dims_of(n));
        return NULL;
    }
    return n;
}

bool tn__jit_inputs(tn_jit *j, const tn_inputs *in)
{
    j->nin = 0;
    for (size_t i = 0; i < in->n; i++) {
        tn__node *n = node_of(i, in->t[i]);
        if (!n || !tn__grow(&j->in, i, &j->cap_in, sizeof *j->in)) return false;
        tn__node_ref(n);
        j->in[j->nin++] = n;
        if (!tn__stored_value(n) && !tn__run(&n, 1)) return false;
        for (size_t k = 0; k < i; k++)
            if (tn__stored_value(j->in[k]) == tn__stored_value(n))
                return tn__fail(
                    TN_EJIT, "jit: input %zu is the same tensor as input %zu: pass it once", i, k);
    }
    return true;
}

void tn__jit_inputs_done(tn_jit *j)
{
    while (j->nin) tn__node_unref(j->in[--j->nin]);
}

static bool match(size_t i, const tn__jit_sig *s, tn__node *n)
{
    const tn__placement *p = tn__stored_value(n)->place;
    if ((tn_dtype)n->dt != s->dt)
        return tn__fail(
            TN_EJIT,
            "jit: input %zu: dtype %s, and the capture has %s: cast it, or use another jit", i,
            tn__dtype_name((tn_dtype)n->dt), tn__dtype_name(s->dt));
    if (n->rank != s->rank ||
        (s->rank && memcmp(n->dims, s->dims, (size_t)s->rank * sizeof *s->dims)))
        return tn__fail(
            TN_EJIT,
            "jit: input %zu: shape %s, and the capture has %s: use another jit, or tn_jit_reset", i,
            tn__dims_of(n), tn__shape_text(s->dims, s->rank));
    if (p == s->place) return true;
    if (p->n == s->place->n && !memcmp(p->dev, s->place->dev, (size_t)p->n * sizeof *p->dev))
        return tn__fail(
            TN_EJIT,
            "jit: input %zu: layout: split along axis %d, and the capture along %d: shard it alike",
            i, p->axis, s->place->axis);
    return tn__fail(TN_EJIT, "jit: input %zu: device %s, and the capture has %s: move it by tn_to",
                    i, tn__device_name(p->dev[0]), tn__device_name(s->place->dev[0]));
}

static bool match_context(const tn_jit *j)
{
    for (int v = 0; v < TN_VARS; v++) {
        if (!(j->context_read >> v & 1)) continue;
        const int64_t now = tn_context_get((tn_context_var)v);
        if (now != j->context[v])
            return tn__fail(TN_EJIT,
                            "jit: %s is %lld, and it was %lld when the function was captured: use "
                            "a jit for each "
                            "value, or TN_WITH inside the function",
                            tn__var_info_of((tn_context_var)v)->name, (long long)now,
                            (long long)j->context[v]);
    }
    return true;
}

bool tn__jit_match(tn_jit *j)
{
    if (j->nin != j->nsig)
        return tn__fail(TN_EJIT,
                        "jit: %zu input%s, and the capture has %zu: pass the same ones each time",
                        j->nin, j->nin == 1 ? "" : "s", j->nsig);
    for (size_t i = 0; i < j->nin; i++)
        if (!match(i, &j->sig[i], j->in[i])) return false;
    for (size_t i = 0; i < j->nin; i++)
        for (size_t s = 0; s < j->nslot; s++)
            if (j->slot[s].from == TN__FROM_CELL &&
                tn__stored_value(j->slot[s].cell->cur) == tn__stored_value(j->in[i]))
                return tn__fail(
                    TN_EJIT,
                    "jit: input %zu is also a closure: the function reads that tensor without IN: "
                    "pass a copy, or leave it out",
                    i);
    return match_context(j);
}
