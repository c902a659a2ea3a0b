/* SPDX-License-Identifier: MIT */
/*
 * Public gradients: parameters, backward, gradient, grad.  Everything only builds.
 *
 * Gradients of parameters are cells of their own, kept, so that they are stored when a step runs;
 * they join the thread's pending writes, and the loss joins them (tn__joined).
 */
#include "tensor/make.h"
#include "tensor/slot.h"
#include "tensor/walk.h"
#include <tenon/core.h>

tn_tensor *(tn_detach)(tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_detach");
    return tn__call_end(&c, tn__detach(tn__in(t)));
}

/* ---- parameters ---- */

static bool mark(tn_tensor *t)
{
    tn__slot *s = tn__slot_get(t);
    if (!s) return false;
    if (s->window)
        return tn__fail(
            TN_EVALUE,
            "param: the tensor is a view: mark the tensor it shows, or a contiguous copy");
    tn__node *n = tn__slot_in(s, false);
    if (!n) return false;
    if (!tn__dtype_is_float((tn_dtype)n->dt))
        return tn__fail(TN_EDTYPE, "param: %s: only floats have gradients",
                        tn__dtype_name((tn_dtype)n->dt));
    tn__cell *c = tn__slot_cell(s, true);
    return c && tn__cell_mark(c);
}

tn_tensor *(tn_param)(tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_param");
    if (!mark(t)) return tn__call_end(&c, NULL);
    tn__call_done(&c);
    return t;
}

/* The cell of a live parameter or NULL; records nothing. */
static tn__cell *param_cell(const tn_tensor *t)
{
    tn__slot *s = tn__slot_find(t);
    tn__cell *c = s && !s->window ? atomic_load(&s->cell) : NULL;
    return c && c->param ? c : NULL;
}

bool tn_is_param(const tn_tensor *t) { return param_cell(t) != NULL; }

bool tn_has_grad(const tn_tensor *t)
{
    tn__cell *c = param_cell(t);
    return c && c->grad;
}

tn_tensor *(tn_grad)(tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_grad");
    tn__slot *s = tn__slot_get(t);
    tn__cell *p = s ? param_cell(t) : NULL;
    if (s && !p)
        tn__fail(TN_EGRAD,
                 "grad: the tensor is no parameter: mark it with tn_param before it is used, or "
                 "ask tn_gradient");
    else if (p && !p->grad)
        tn__fail(TN_EGRAD, "grad: the parameter has no gradient yet: no tn_backward since the last "
                           "tn_zero_grad reached it");
    if (!p || !p->grad) return tn__call_end(&c, NULL);
    tn_tensor *g = tn__handle_box(p->grad);
    tn__call_done(&c);
    return g;
}

void tn__cell_forget_grad(tn__cell *c)
{
    if (tn__capture && tn__capture->grad) tn__capture->grad(tn__capture->user, c, true);
    tn__cell *g = c->grad;
    c->grad = NULL;
    if (!g) return;
    tn__cell_keep(g, -1);
    tn__cell_unref(g);
}

void tn_zero_grad(const tn_inputs *ts)
{
    for (size_t i = 0; ts && i < ts->n; i++) {
        tn__cell *c = param_cell(ts->t[i]);
        if (c) tn__cell_forget_grad(c);
    }
}

/* ---- losses whose step is to come ---- */
enum { JOINED = 8 };
static _Thread_local tn_tensor *joined[JOINED];
static _Thread_local unsigned joins;

size_t tn__joined(tn__node **out)
{
    size_t n = 0;
    for (unsigned i = 0; i < JOINED; i++) {
        tn__slot *s = tn__slot_find(joined[i]);
        tn__node *x = s && !s->err ? tn__slot_in(s, false) : NULL;
        if (x && !atomic_load(&x->val))
            out[n++] = x;
        else
            joined[i] = NULL;
    }
    return n;
}

/* ---- backward ---- */

typedef struct {
    tn__arena a;
    tn__node **param, **g; /* one a parameter */
    tn__cell **cell;       /* own */
    tn__cell **fresh;      /* own: gradient cells made here, NULL where there was one */
    size_t n;
} reach;

/* The parameters that root depends on and whose cells are alive. */
static bool find_params(reach *r, tn__node *root)
{
    tn__node **order;
    size_t count;
    bool isnew;
    tn__map ids = {.a = &r->a};
    if (!tn__walk(&r->a, &root, 1, true, &order, &count)) return false;
    r->param = tn__arena_alloc(&r->a, count * sizeof *r->param);
    r->g = tn__arena_zero(&r->a, count * sizeof *r->g);
    r->cell = tn__arena_zero(&r->a, count * sizeof *r->cell);
    r->fresh = tn__arena_zero(&r->a, count * sizeof *r->fresh);
    if (!r->param || !r->g || !r->cell || !r->fresh) return false;
    for (size_t i = 0; i < count; i++) {
        if (order[i]->op != TN_OP_PARAM) continue;
        if (!tn__map_put(&ids, (const void *)(uintptr_t)(order[i]->scalar.u * 2 + 1), 0, &isnew))
            return false;
        tn__cell *c = isnew ? tn__cell_by_id(order[i]->scalar.u) : NULL;
        if (!c) continue;
        r->param[r->n] = order[i];
        r->cell[r->n++] = c;
    }
    if (r->n) return true;
    return tn__fail(TN_EGRAD,
                    "backward: the result depends on no parameter: mark the tensors to train with "
                    "tn_param before they are used");
}

static bool differentiable(const tn__node *root)
{
    if (root->flags & TN__NODE_LEAFED)
        return tn__fail(TN_EGRAD,
                        "backward: the result was kept and realised, so that its history is gone: "
                        "call tn_backward before tn_item or tn_realize, or do not keep it");
    if (tn__node_numel(root) != 1)
        return tn__fail(TN_EGRAD,
                        "backward: the result has shape %s: it must be a scalar: take its sum or "
                        "mean first",
                        tn__dims_of(root));
    return true;
}

/* New gradient of parameter i; nothing is changed yet. */
static bool build_sum(reach *r, size_t i)
{
    tn__cell *c = r->cell[i];
    if (!r->g[i]) return true;
    if (tn__capture && tn__capture->grad) tn__capture->grad(tn__capture->user, c, false);
    if (c->grad) {
        if (tn__capture && !tn__capture->read(tn__capture->user, c->grad)) return false;
        tn__node *old = tn__cell_in(c->grad);
        r->g[i] = tn__binary(TN_OP_ADD, old, r->g[i]);
        return r->g[i] != NULL;
    }
    r->fresh[i] = tn__cell_new(r->g[i]);
    return r->fresh[i] != NULL;
}

static bool commit(reach *r, size_t i)
{
    tn__cell *c = r->cell[i];
    if (!r->g[i]) return true;
    if (c->grad) return tn__cell_write(c->grad, r->g[i]);
    if (tn__capture && !tn__capture->made(tn__capture->user, r->fresh[i])) return false;
    if (!tn__effect_add(r->fresh[i])) return false;
    tn__cell_keep(r->fresh[i], 1);
    c->grad = r->fresh[i];
    r->fresh[i] = NULL;
    return true;
}

static bool backward(tn_tensor *loss)
{
    tn__node *root = tn__in(loss);
    reach r = {0};
    bool ok = root && differentiable(root) && find_params(&r, root) &&
              tn__gradient(root, NULL, r.param, r.n, r.g);
    for (size_t i = 0; ok && i < r.n; i++) ok = build_sum(&r, i);
    for (size_t i = 0; ok && i < r.n; i++) ok = commit(&r, i);
    for (size_t i = 0; i < r.n; i++) {
        tn__cell_unref(r.cell[i]);
        tn__cell_unref(r.fresh[i]);
    }
    tn__arena_free(&r.a);
    if (ok) joined[joins++ % JOINED] = loss;
    return ok;
}

tn_tensor *(tn_backward)(tn_tensor *loss)
{
    tn__call c;
    tn__call_begin(&c, "tn_backward");
    if (!backward(loss)) return tn__call_end(&c, NULL);
    tn__call_done(&c);
    return loss;
}

/* ---- gradient ---- */

static bool gradient(tn_tensor *loss, const tn_inputs *xs, tn_tensor *seed, tn__node **x,
                     tn__node **g)
{
    tn__node *root = tn__in(loss), *sd = tn__in_opt(seed);
    if (!root || (seed && !sd)) return false;
    for (size_t i = 0; i < xs->n; i++)
        if (!(x[i] = tn__in(xs->t[i]))) return false;
    if (root->flags & TN__NODE_LEAFED && !sd) {
        if (!differentiable(root)) return false;
    }
    if (sd && tn__is_weak(sd))
        sd = tn__expand(tn__cast(sd, (tn_dtype)root->dt), root->dims, root->rank);
    if ((seed && !sd) || !tn__gradient(root, sd, x, xs->n, g)) return false;
    for (size_t i = 0; i < xs->n; i++)
        if (!g[i])
            return tn__fail(
                TN_EGRAD,
                "gradient: the result does not depend on input %zu, %s %s (constants are "
                "folded: tn_param or tn_keep keeps one apart)",
                i, tn__dtype_name((tn_dtype)x[i]->dt), tn__dims_of(x[i]));
    return true;
}

bool(tn_gradient)(tn_tensor *loss, const tn_inputs *xs, tn_tensor *seed, tn_tensor **out)
{
    tn__call c;
    tn__arena a = {0};
    tn__call_begin(&c, "tn_gradient");
    if (!xs || !out) {
        tn__fail(TN_ENULL, "gradient: %s is NULL", xs ? "out" : "the list of inputs");
        tn__call_done(&c);
        return false;
    }
    tn__node **x = tn__arena_zero(&a, (2 * xs->n + 1) * sizeof *x), **g = x + xs->n;
    bool ok = x && gradient(loss, xs, seed, x, g);
    for (size_t i = 0; i < xs->n; i++) {
        if (ok) tn__node_ref(g[i]);
        out[i] = tn__handle_new(ok ? g[i] : NULL);
    }
    tn__arena_free(&a);
    tn__call_done(&c);
    return ok;
}
