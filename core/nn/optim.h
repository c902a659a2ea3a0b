/* SPDX-License-Identifier: MIT */
/*
 * Private to optimizers: the object, and the table of rules.  A rule is graph building for one parameter; the
 * frame in optim.c reads and writes the cells.
 */
#ifndef TN_NN_OPTIM_H
#define TN_NN_OPTIM_H
#include "nn/nn.h"

enum { TN__OPTIM_SLOTS = 2 };

typedef struct {
    const tn_optim_opts *o;
    tn_dtype dt;                     /* in which to compute: at least float32 */
    tn__node *param, *grad;          /* in dt */
    tn__node *lr, *bias[2];          /* (1,) in dt; bias[i] = 1 - b_i^step, of this step */
    tn__node *slot[TN__OPTIM_SLOTS]; /* moments before; the rule puts the new ones here */
} tn__optim_in;

typedef struct {
    const char *name;
    tn_optim_opts def;                   /* defaults */
    const char *slot[TN__OPTIM_SLOTS];   /* names of moments, NULL: none */
    bool biased;                         /* keeps the two bias corrections */
    bool nesterov;                       /* unless told otherwise */
    bool momentum_only;                  /* slot 0 exists only with momentum */
    tn__node *(*rule)(tn__optim_in *in); /* the new parameter, in dt */
} tn__optim_kind;
extern const tn__optim_kind tn__optim_sgd, tn__optim_adam, tn__optim_adamw, tn__optim_lars,
    tn__optim_lamb, tn__optim_muon;

struct tn_optim {
    const tn__optim_kind *kind;
    tn_optim_opts o;
    size_t n;
    int nslot;
    tn_tensor **param; /* own: kept */
    tn_tensor **slot;  /* own: n of slot 0, then n of slot 1 */
    tn_tensor *lr, *bias[2];
    double lr_now;
    tn_optim **part; /* own: a group's optimizers; kind is then NULL and the rest empty */
    size_t nparts;
};
/* A double in a state dict: its bits. */
void tn__visit_double(tn_visitor *v, const char *name, double *d);
tn_optim *tn__optim_make(const tn__optim_kind *k, const tn_inputs *params,
                         const tn_optim_opts *opts);
tn_optim *tn__optim_walk(const tn__optim_kind *k, void *obj, tn_visit_fn *fn,
                         const tn_optim_opts *opts);
#endif
