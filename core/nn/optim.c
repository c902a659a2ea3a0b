/* SPDX-License-Identifier: MIT */
/*
 * The frame of optimizers: what they own, and a step.
 *
 * A step reads every cell, builds all new versions, then writes them: all or none.  Learning rate, bias
 * corrections and moments are cells on the devices of the parameters, so that a captured step carries them.
 * The corrections 1 - b^t are kept as such (c <- b c + (1 - b)), which stays exact for b near 1.
 */
#include "nn/optim.h"
#include "device/device.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- making ---- */

static void set_double(double *to, double def)
{
    if (*to == 0) *to = signbit(*to) ? 0 : def;
}

static bool options(tn_optim_opts *out, const tn_optim_opts *given, const tn__optim_kind *k)
{
    tn__options(out, given, sizeof *out);
    set_double(&out->lr, k->def.lr);
    set_double(&out->weight_decay, k->def.weight_decay);
    set_double(&out->momentum, k->def.momentum);
    set_double(&out->b1, k->def.b1);
    set_double(&out->b2, k->def.b2);
    set_double(&out->eps, k->def.eps);
    set_double(&out->tcoef, k->def.tcoef);
    if (!out->ns_steps) out->ns_steps = k->def.ns_steps;
    if (k->nesterov && out->momentum != 0) out->nesterov = !out->no_nesterov;
    if (out->ns_steps < 0 || out->ns_steps > 100)
        return tn__fail(TN_EVALUE, "%s: ns_steps %d: must be in 1..100", k->name, out->ns_steps);
    if (!(out->lr >= 0) || !(out->weight_decay >= 0) || !(out->eps >= 0))
        return tn__fail(TN_EVALUE, "%s: lr %g, weight_decay %g, eps %g: must not be negative",
                        k->name, out->lr, out->weight_decay, out->eps);
    if (!(out->momentum >= 0 && out->momentum < 1) || !(out->b1 >= 0 && out->b1 < 1) ||
        !(out->b2 >= 0 && out->b2 < 1))
        return tn__fail(TN_EVALUE, "%s: momentum %g, b1 %g, b2 %g: must be in 0..1, less than 1",
                        k->name, out->momentum, out->b1, out->b2);
    if (out->nesterov && out->momentum == 0)
        return tn__fail(TN_EVALUE, "%s: nesterov without momentum: give .momentum too", k->name);
    return true;
}

static tn_dtype wide(tn_dtype dt) { return tn__dtype_promote(dt, TN_F32); }

/* A parameter, kept; false with an error when it cannot be one. */
static bool take_param(tn_optim *o, tn_tensor *t)
{
    for (size_t i = 0; i < o->n; i++)
        if (o->param[i] == t) return true;
    if (!tn_is_param(t) && tn_bad((tn_param)(t))) return false;
    t = tn_keep(t);
    if (tn_bad(t)) return false;
    o->param[o->n++] = t;
    return true;
}

static bool make_slots(tn_optim *o, size_t i)
{
    tn__node *x = tn__state_in(o->param[i]);
    for (int s = 0; s < o->nslot; s++) {
        tn__call c;
        tn__call_begin(&c, o->kind->name);
        tn__node *z = x ? tn__filled(x, x->place, wide((tn_dtype)x->dt), 0) : NULL;
        if (!(o->slot[(size_t)s * o->n + i] = tn__state_end(&c, z, false))) return false;
    }
    return true;
}

static tn_tensor *make_scalar(const tn_optim *o, double v)
{
    tn__call c;
    const tn__placement *place = NULL;
    tn_dtype dt = TN_F32;
    tn__call_begin(&c, o->kind->name);
    for (size_t i = 0; i < o->n; i++) {
        const tn__node *x = tn__state_in(o->param[i]);
        if (!x) return tn__state_end(&c, NULL, false);
        if (!place) place = x->place;
        dt = tn__dtype_promote(dt, (tn_dtype)x->dt);
    }
    if (place && place->axis >= 0 && !(place = tn__placement_get(place->dev, place->n, -1)))
        return tn__state_end(&c, NULL, false);
    return tn__state_end(&c, tn__filled(NULL, place, dt, v), false);
}

static bool fill(tn_optim *o, const tn_inputs *params)
{
    o->param = tn__calloc(params->n, sizeof(tn_tensor *));
    if (!o->param) return false;
    for (size_t i = 0; i < params->n; i++)
        if (!take_param(o, params->t[i])) return false;
    o->nslot = 0;
    while (o->nslot < TN__OPTIM_SLOTS && o->kind->slot[o->nslot]) o->nslot++;
    if (o->kind->momentum_only && o->o.momentum == 0) o->nslot = 0;
    o->slot = tn__calloc(o->n * (size_t)o->nslot + 1, sizeof(tn_tensor *));
    for (size_t i = 0; i < o->n; i++)
        if (!o->slot || !make_slots(o, i)) return false;
    if (!o->slot || !(o->lr = make_scalar(o, o->o.lr))) return false;
    for (int i = 0; i < 2 && o->kind->biased; i++)
        if (!(o->bias[i] = make_scalar(o, 0))) return false;
    o->lr_now = o->o.lr;
    return true;
}

tn_optim *tn__optim_make(const tn__optim_kind *k, const tn_inputs *params,
                         const tn_optim_opts *opts)
{
    tn_scope s = tn_scope_begin();
    tn_optim *o = tn__calloc(1, sizeof *o);
    bool ok = o != NULL;
    if (ok) o->kind = k;
    if (ok && (!params || !params->n))
        ok = tn__fail(TN_EVALUE,
                      "%s: no parameters: the list is empty, or the walker names no trained tensor",
                      k->name);
    ok = ok && options(&o->o, opts, k) && fill(o, params);
    if (!ok) {
        tn_optim_free(o);
        o = NULL;
    }
    tn_scope_end(&s);
    return o;
}

tn_optim *tn__optim_walk(const tn__optim_kind *k, void *obj, tn_visit_fn *fn,
                         const tn_optim_opts *opts)
{
    size_t n = tn_state_parameters(obj, fn, NULL, 0);
    if (!tn_ok() && (!obj || !fn)) return NULL;
    tn_tensor **t = tn__calloc(n ? n : 1, sizeof(tn_tensor *));
    if (!t) return NULL;
    tn_state_parameters(obj, fn, t, n);
    tn_optim *o = tn__optim_make(k, &(const tn_inputs){n, t}, opts);
    tn__free(t);
    return o;
}

void tn_optim_free(tn_optim *o)
{
    if (!o) return;
    for (size_t i = 0; i < o->nparts; i++) tn_optim_free(o->part[i]); /* parts are no groups */
    tn__free(o->part);
    for (size_t i = 0; i < o->n; i++) tn_free(o->param[i]);
    for (size_t i = 0; o->slot && i < o->n * (size_t)o->nslot; i++) tn_free(o->slot[i]);
    tn_free(o->lr);
    tn_free(o->bias[0]);
    tn_free(o->bias[1]);
    tn__free(o->param);
    tn__free(o->slot);
    tn__free(o);
}

/* The parts of groups in the list are taken out of them. */
tn_optim *tn_optim_group(tn_optim *const *list, size_t n)
{
    size_t all = 0, done = 0;
    for (size_t i = 0; list && i < n; i++) {
        if (!list[i]) {
            tn__fail(TN_ENULL, "optim_group: optimizer %zu is NULL", i);
            return NULL;
        }
        all += list[i]->kind ? 1 : list[i]->nparts;
    }
    if (!all) {
        tn__fail(TN_EVALUE, "optim_group: no optimizers: give at least one");
        return NULL;
    }
    tn_optim *o = tn__calloc(1, sizeof *o);
    tn_optim **part = o ? tn__calloc(all, sizeof(tn_optim *)) : NULL;
    if (!part) {
        tn__free(o);
        return NULL;
    }
    for (size_t i = 0; i < n; i++) {
        if (list[i]->kind) {
            part[done++] = list[i];
            continue;
        }
        for (size_t k = 0; k < list[i]->nparts; k++) part[done++] = list[i]->part[k];
        tn__free(list[i]->part);
        tn__free(list[i]);
    }
    o->part = part;
    o->nparts = all;
    return o;
}

/* The optimizers that do the work: a group's parts, or itself. */
static tn_optim *const *parts(tn_optim *const *o, size_t *n)
{
    *n = (*o)->kind ? 1 : (*o)->nparts;
    return (*o)->kind ? o : (*o)->part;
}

/* ---- a step ---- */

typedef struct {
    tn__write *w;
    size_t n;
    bool ok;
} writes;

static void put(writes *ws, tn_tensor *t, tn__node *value)
{
    tn__cell *c = value ? tn__cell_of(t) : NULL;
    if (!c)
        ws->ok = false;
    else
        ws->w[ws->n++] = (tn__write){c, value};
}

/* c <- b c + (1 - b) */
static tn__node *next_bias(writes *ws, tn_tensor *t, double b)
{
    tn__node *c = tn__state_in(t);
    c = tn__add_s(tn__mul_s(c, b), 1 - b);
    put(ws, t, c);
    return c;
}

static void update(tn_optim *o, size_t i, const tn__optim_in *shared, writes *ws)
{
    tn__optim_in in = *shared;
    tn__node *p = tn__state_in(o->param[i]), *g = p ? tn__in((tn_grad)(o->param[i])) : NULL;
    if (!g) {
        ws->ok = false;
        return;
    }
    in.dt = wide((tn_dtype)p->dt);
    in.param = tn__cast(p, in.dt);
    in.grad = tn__cast(g, in.dt);
    in.lr = tn__cast(shared->lr, in.dt);
    for (int s = 0; s < 2; s++)
        in.bias[s] = shared->bias[s] ? tn__cast(shared->bias[s], in.dt) : NULL;
    for (int s = 0; s < o->nslot; s++) in.slot[s] = tn__state_in(o->slot[(size_t)s * o->n + i]);
    tn__node *next = o->kind->rule(&in);
    for (int s = 0; s < o->nslot; s++) put(ws, o->slot[(size_t)s * o->n + i], in.slot[s]);
    put(ws, o->param[i], next ? tn__cast(next, (tn_dtype)p->dt) : NULL);
}

static size_t with_grad(const tn_optim *o)
{
    size_t n = 0;
    for (size_t i = 0; i < o->n; i++) n += tn_has_grad(o->param[i]);
    return n;
}

static void build_one(tn_optim *o, writes *ws)
{
    tn__optim_in shared = {.o = &o->o, .lr = tn__state_in(o->lr)};
    if (!with_grad(o)) return;
    if (o->kind->biased) {
        shared.bias[0] = next_bias(ws, o->bias[0], o->o.b1);
        shared.bias[1] = next_bias(ws, o->bias[1], o->o.b2);
    }
    ws->ok = ws->ok && shared.lr;
    for (size_t i = 0; ws->ok && i < o->n; i++)
        if (tn_has_grad(o->param[i])) update(o, i, &shared, ws);
}

static bool build(tn_optim *o)
{
    size_t n, with = 0, all = 0, room = 0;
    tn_optim *const *part = parts(&o, &n);
    for (size_t i = 0; i < n; i++) {
        with += with_grad(part[i]);
        all += part[i]->n;
        room += part[i]->n * (1 + (size_t)part[i]->nslot) + 2;
    }
    if (!with)
        return tn__fail(
            TN_ESTATE,
            "optim_step: none of %zu parameters has a gradient: call tn_backward on a loss that "
            "depends on them before the step",
            all);
    writes ws = {.w = tn__calloc(room, sizeof *ws.w), .ok = true};
    for (size_t i = 0; ws.w && ws.ok && i < n; i++) build_one(part[i], &ws);
    bool ok = ws.w && ws.ok && tn__write_all(ws.w, ws.n);
    tn__free(ws.w);
    return ok;
}

bool(tn_optim_schedule_step)(tn_optim *o)
{
    tn__call c;
    bool ok = false;
    tn_scope s = tn_scope_begin();
    tn__call_begin(&c, "tn_optim_step");
    if (!o)
        tn__fail(TN_ENULL, "optim_step: the optimizer is NULL");
    else if (!tn_context_get(TN_TRAINING))
        tn__fail(TN_ESTATE, "optim_step: TRAINING is 0: steps belong to training mode: put "
                            "TN_WITH(TN_TRAINING, 1); at "
                            "the start of the block, or set TRAINING=1");
    else
        ok = build(o);
    tn__call_done(&c);
    tn_scope_end(&s);
    return ok;
}

bool(tn_optim_step)(tn_optim *o) { return (tn_optim_schedule_step)(o) && tn__run_step(); }

void tn_optim_zero_grad(tn_optim *o)
{
    size_t n = 0;
    tn_optim *const *part = o ? parts(&o, &n) : NULL;
    for (size_t i = 0; i < n; i++) tn_zero_grad(&(const tn_inputs){part[i]->n, part[i]->param});
}

/* ---- learning rate and state ---- */

double tn_optim_lr(const tn_optim *o)
{
    return o ? (o->kind ? o : o->part[0])->lr_now : (double)NAN;
}

static bool set_lr(tn_optim *o, double lr)
{
    tn__node *old = tn__state_in(o->lr);
    tn__write w = {.node = old ? tn__filled(NULL, old->place, (tn_dtype)old->dt, lr) : NULL};
    w.cell = w.node ? tn__cell_of(o->lr) : NULL;
    bool ok = tn__write_all(&w, 1);
    if (ok) o->lr_now = lr;
    return ok;
}

bool tn_optim_set_lr(tn_optim *o, double lr)
{
    tn__call c;
    size_t n;
    if (!o) return tn__fail(TN_ENULL, "optim_set_lr: the optimizer is NULL");
    if (tn__capture)
        return tn__fail(
            TN_ESTATE,
            "optim_set_lr: inside a captured function: replays would not see it: call it after "
            "the captured function");
    if (!(lr >= 0)) return tn__fail(TN_EVALUE, "optim_set_lr: %g: must not be negative", lr);
    tn__call_begin(&c, "tn_optim_set_lr");
    tn_optim *const *part = parts(&o, &n);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++) ok = set_lr(part[i], lr);
    tn__call_done(&c);
    return ok;
}

void tn__visit_double(tn_visitor *v, const char *name, double *d)
{
    uint64_t bits;
    memcpy(&bits, d, sizeof bits);
    tn_visit_number(v, name, &bits);
    memcpy(d, &bits, sizeof bits);
}

void tn_optim_visit(tn_visitor *v, void *obj)
{
    tn_optim *o = obj;
    char name[32];
    for (size_t i = 0; i < o->nparts; i++) {
        snprintf(name, sizeof name, "%zu", i);
        tn_visit_sub(v, name, o->part[i], tn_optim_visit);
    }
    if (!o->kind) return;
    tn_visit_buffer(v, "lr", &o->lr);
    tn_visit_buffer(v, "c1", &o->bias[0]);
    tn_visit_buffer(v, "c2", &o->bias[1]);
    tn__visit_double(v, "lr_bits", &o->lr_now);
    for (int s = 0; s < o->nslot; s++)
        for (size_t i = 0; i < o->n; i++) {
            snprintf(name, sizeof name, "%s.%zu", o->kind->slot[s], i);
            tn_visit_buffer(v, name, &o->slot[(size_t)s * o->n + i]);
        }
}
