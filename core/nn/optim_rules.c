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

const tn__optim_kind tn__optim_sgd = {
    .name = "sgd", .def = {.lr = 1e-3}, .slot = {"b"}, .momentum_only = true, .rule = sgd};
const tn__optim_kind tn__optim_adam = {
    .name = "adam", .def = {.lr = 1e-3, .b1 = 0.9, .b2 = 0.999, .eps = 1e-8}, .slot = {"m", "v"}, .biased = true, .rule = adam};
const tn__optim_kind tn__optim_adamw = {
    .name = "adamw", .def = {.lr = 1e-3, .b1 = 0.9, .b2 = 0.999, .eps = 1e-8, .weight_decay = 0.01}, .slot = {"m", "v"},
    .biased = true, .rule = adamw};

/* ---- the public makers ---- */

tn_optim *(tn_sgd_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o) { return tn__optim_walk(&tn__optim_sgd, obj, fn, o); }
tn_optim *(tn_sgd_list)(const tn_inputs *params, const tn_optim_opts *o) { return tn__optim_make(&tn__optim_sgd, params, o); }
tn_optim *(tn_adam_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o) { return tn__optim_walk(&tn__optim_adam, obj, fn, o); }
tn_optim *(tn_adam_list)(const tn_inputs *params, const tn_optim_opts *o) { return tn__optim_make(&tn__optim_adam, params, o); }
tn_optim *(tn_adamw_new)(void *obj, tn_visit_fn *fn, const tn_optim_opts *o) { return tn__optim_walk(&tn__optim_adamw, obj, fn, o); }
tn_optim *(tn_adamw_list)(const tn_inputs *params, const tn_optim_opts *o) { return tn__optim_make(&tn__optim_adamw, params, o); }
