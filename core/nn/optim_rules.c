/* SPDX-License-Identifier: MIT */
/*
 * The update rules, each for one parameter, and the optimizers that are made of them.  Everything is computed
 * in in->dt, which is float32 or float64.
 */
#include "nn/optim.h"

static tn__node *mul(tn__node *a, tn__node *b) { return tn__mul(a, b); }
static tn__node *add(tn__node *a, tn__node *b) { return tn__add(a, b); }
static tn__node *sub(tn__node *a, tn__node *b) { return tn__sub(a, b); }
static tn__node *quotient(tn__node *a, tn__node *b) { return tn__div(a, b, TN__DIV_TRUE); }
static tn__node *scale(tn__node *a, double k) { return a ? tn__mul_s(a, k) : NULL; }

/* A (1,) as a rank 0, which fits parameters of every rank. */
static tn__node *scalar_of(tn__node *x) { return x ? tn__reshape(x, NULL, 0) : NULL; }
static tn__node *rated(const tn__optim_in *in, tn__node *x) { return mul(x, scalar_of(in->lr)); }

/* b <- momentum b + g; what to go along. */
static tn__node *with_momentum(tn__optim_in *in, tn__node *g)
{
    if (in->o->momentum == 0) return g;
    tn__node *b = add(scale(in->slot[0], in->o->momentum), g);
    in->slot[0] = b;
    return in->o->nesterov ? add(g, scale(b, in->o->momentum)) : b;
}

static tn__node *sgd(tn__optim_in *in)
{
    tn__node *g = in->grad;
    if (in->o->weight_decay != 0) g = add(g, scale(in->param, in->o->weight_decay));
    if (in->o->classic) g = rated(in, g);
    g = with_momentum(in, g);
    if (!in->o->classic) g = rated(in, g);
    return sub(in->param, g);
}

/* The corrected ratio of the moments, which it moves on. */
static tn__node *adam_direction(tn__optim_in *in, tn__node *g)
{
    const tn_optim_opts *o = in->o;
    tn__node *m = add(scale(in->slot[0], o->b1), scale(g, 1 - o->b1));
    tn__node *v = add(scale(in->slot[1], o->b2), scale(mul(g, g), 1 - o->b2));
    in->slot[0] = m;
    in->slot[1] = v;
    tn__node *mh = quotient(m, scalar_of(in->bias[0])), *vh = quotient(v, scalar_of(in->bias[1]));
    tn__node *root = tn__sqrt(vh);
    return quotient(mh, root ? tn__add_s(root, o->eps) : NULL);
}

static tn__node *adam(tn__optim_in *in)
{
    tn__node *g = in->grad;
    if (in->o->weight_decay != 0) g = add(g, scale(in->param, in->o->weight_decay));
    return sub(in->param, rated(in, adam_direction(in, g)));
}

static tn__node *adamw(tn__optim_in *in)
{
    tn__node *up = adam_direction(in, in->grad);
    if (in->o->weight_decay != 0) up = add(up, scale(in->param, in->o->weight_decay));
    return sub(in->param, rated(in, up));
}

/* ---- rules that look at a parameter as a whole ---- */

static tn__node *norm(tn__node *x)
{
    return x ? tn__sqrt(tn__sum(mul(x, x), tn__mask_all(x), false, TN_DTYPE_DEFAULT)) : NULL;
}

/* k a / over where a and b are above 0, else 1; rank 0. */
static tn__node *trust(tn__node *a, tn__node *b, double k, tn__node *over)
{
    if (!a || !b || !over) return NULL;
    tn__node *one = tn__like(a, 1), *zero = tn__like(a, 0);
    return tn__select(tn__gt(a, zero),
                      tn__select(tn__gt(b, zero), quotient(scale(a, k), over), one), one);
}

/* You et al. 2017: the gradient scaled by the ratio of norms. */
static tn__node *lars(tn__optim_in *in)
{
    const tn_optim_opts *o = in->o;
    tn__node *g = in->grad, *w = norm(in->param), *n = norm(g);
    tn__node *r = o->tcoef != 0 ? trust(w, n, o->tcoef, add(n, scale(w, o->weight_decay)))
                  : w           ? tn__like(w, 1)
                                : NULL;
    if (o->weight_decay != 0) g = add(g, scale(in->param, o->weight_decay));
    if (o->classic) g = mul(rated(in, g), r);
    g = with_momentum(in, g);
    if (!o->classic) g = mul(rated(in, g), r);
    return sub(in->param, g);
}

/* You et al. 2019: Adam's direction scaled by the ratio of norms. */
static tn__node *lamb(tn__optim_in *in)
{
    tn__node *up = adam_direction(in, in->grad);
    if (in->o->weight_decay != 0) up = add(up, scale(in->param, in->o->weight_decay));
    tn__node *r1 = norm(in->param), *r2 = norm(up);
    return sub(in->param, mul(rated(in, up), trust(r1, r2, 1, r2)));
}

/* Jordan et al. 2024: the momentum as the nearest orthogonal matrix of (first axis, all others). */
static tn__node *muon(tn__optim_in *in)
{
    static const double c[3] = {3.4445, -4.775, 2.0315};
    const tn_optim_opts *o = in->o;
    tn__node *g = with_momentum(in, in->grad), *p = in->param;
    if (!g || !p) return NULL;
    const int64_t rows = p->rank ? p->dims[0] : 1, all = tn__node_numel(p);
    g = tn__newton_schulz(tn__reshape(g, (const int64_t[]){rows, rows ? all / rows : 0}, 2),
                          o->ns_steps, c, 1e-7);
    g = g ? tn__reshape(g, p->dims, p->rank) : NULL;
    if (o->weight_decay != 0) p = sub(p, rated(in, scale(p, o->weight_decay)));
    return sub(p, rated(in, g));
}

const tn__optim_kind tn__optim_sgd = {
    .name = "sgd", .def = {.lr = 1e-3}, .slot = {"b"}, .momentum_only = true, .rule = sgd};
const tn__optim_kind tn__optim_adam = {.name = "adam",
                                       .def = {.lr = 1e-3, .b1 = 0.9, .b2 = 0.999, .eps = 1e-8},
                                       .slot = {"m", "v"},
                                       .biased = true,
                                       .rule = adam};
const tn__optim_kind tn__optim_adamw = {
    .name = "adamw",
    .def = {.lr = 1e-3, .b1 = 0.9, .b2 = 0.999, .eps = 1e-8, .weight_decay = 0.01},
    .slot = {"m", "v"},
    .biased = true,
    .rule = adamw};

const tn__optim_kind tn__optim_lars = {
    .name = "lars",
    .def = {.lr = 1e-3, .momentum = 0.9, .weight_decay = 1e-4, .tcoef = 1e-3},
    .slot = {"b"},
    .momentum_only = true,
    .rule = lars};
const tn__optim_kind tn__optim_lamb = {.name = "lamb",
                                       .def = {.lr = 1e-3, .b1 = 0.9, .b2 = 0.999, .eps = 1e-6},
                                       .slot = {"m", "v"},
                                       .biased = true,
                                       .rule = lamb};
const tn__optim_kind tn__optim_muon = {
    .name = "muon",
    .def = {.lr = 1e-3, .momentum = 0.95, .weight_decay = 0.1, .ns_steps = 5},
    .slot = {"b"},
    .momentum_only = true,
    .nesterov = true,
    .rule = muon};

/* ---- the public makers ---- */

tn_optim *(tn_sgd_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o)
{
    return tn__optim_walk(&tn__optim_sgd, obj, fn, o);
}
tn_optim *(tn_sgd_list)(const tn_inputs *params, const tn_optim_opts *o)
{
    return tn__optim_make(&tn__optim_sgd, params, o);
}
tn_optim *(tn_adam_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o)
{
    return tn__optim_walk(&tn__optim_adam, obj, fn, o);
}
tn_optim *(tn_adam_list)(const tn_inputs *params, const tn_optim_opts *o)
{
    return tn__optim_make(&tn__optim_adam, params, o);
}
tn_optim *(tn_adamw_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o)
{
    return tn__optim_walk(&tn__optim_adamw, obj, fn, o);
}
tn_optim *(tn_adamw_list)(const tn_inputs *params, const tn_optim_opts *o)
{
    return tn__optim_make(&tn__optim_adamw, params, o);
}
tn_optim *(tn_lars_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o)
{
    return tn__optim_walk(&tn__optim_lars, obj, fn, o);
}
tn_optim *(tn_lars_list)(const tn_inputs *params, const tn_optim_opts *o)
{
    return tn__optim_make(&tn__optim_lars, params, o);
}
tn_optim *(tn_lamb_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o)
{
    return tn__optim_walk(&tn__optim_lamb, obj, fn, o);
}
tn_optim *(tn_lamb_list)(const tn_inputs *params, const tn_optim_opts *o)
{
    return tn__optim_make(&tn__optim_lamb, params, o);
}
tn_optim *(tn_muon_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o)
{
    return tn__optim_walk(&tn__optim_muon, obj, fn, o);
}
tn_optim *(tn_muon_list)(const tn_inputs *params, const tn_optim_opts *o)
{
    return tn__optim_make(&tn__optim_muon, params, o);
}
