/* SPDX-License-Identifier: MIT */
/*
 * Shared by the files of the scheduler proper: instances.
 *
 * An instance is one use of a node inside one kernel: the indices at which that kernel wants the node's
 * elements.  Nodes are visited from outputs to inputs; when a node's turn comes all its instances are
 * known, so that storing it or computing it in place is decided with exact counts (demand.c).  Values are
 * then built from inputs to outputs (value.c).
 */
#ifndef TN_SCHEDULE_FUSE_H
#define TN_SCHEDULE_FUSE_H
#include "schedule/normal.h"
#include "schedule/schedule.h"

typedef struct tn__inst tn__inst;
struct tn__inst {
    tn__inst *next;
    tn__kernel *k;
    tn__uop *node;
    tn__uop **idx; /* rank of the node */
    tn__uop *gate; /* the value matters only where this holds; NULL: everywhere */
    tn__inst *in;  /* the innermost enclosing reduction, or NULL */
    tn__inst *src[3];
    tn__uop *cond;               /* PAD, FOLD, GATHER: where the source has a value */
    tn__uop *range[TN_MAX_RANK]; /* REDUCE, FOLD: own ranges */
    int nrange;
    bool direct; /* only movement between this and `in` */
    bool merged; /* a reduction that became part of `in` */
    tn__uop *value;
    tn__inst *host;              /* where merged: the reduction that took it in */
    tn__uop *taken[TN_MAX_RANK]; /* ranges of reductions merged into this one */
    int ntaken;
};

typedef struct {
    tn__inst *insts; /* its uses */
    tn__inst *root;  /* the instance that its own kernel computes and stores, or NULL */
    int pbuf;        /* -1: not stored */
    bool store;
    bool attached; /* stored by the kernel that uses it */
    bool read_now; /* loaded by tn__value_now, outside of its uses */
    int uses;      /* nodes that name it as a source, with repetitions */
    double ops;    /* to compute one element in place, from stored operands */
    bool heavy;    /* a contraction: its operands are reused */
    size_t record; /* CONST: the first record that it is, from 1 */
} tn__info;

typedef struct {
    tn__schedule *s;
    tn__arena *a;
    tn__space *sp; /* tensor form */
    tn__uop **order;
    size_t n;
    tn__info *info; /* by id */
    const tn__target *target;
    struct tn__kfacts *facts; /* by kernel number */
    tn__inst **inst;          /* all instances that were demanded, hashed */
    size_t ninst, cap_inst;
} tn__fuser;

/* What is known of a kernel while fusing. */
typedef struct tn__kfacts {
    int loads, open; /* buffers read; instances whose turn has not come */
    int insts;       /* all instances */
    int reduces;
    int scalars; /* run-time scalars that its instances ask for, at most */
    bool heavy;
    tn__inst *store[TN__KSTORES]; /* values of its stores */
} tn__kfacts;

tn__inst *tn__demand(tn__fuser *f, tn__kernel *k, tn__uop *node, tn__uop *const *idx, tn__uop *gate,
                     tn__inst *in, bool direct);
bool tn__demand_all(tn__fuser *f);
bool tn__value_all(tn__fuser *f);
/* Value of `node` at idx now, without instances: gather indices. */
tn__uop *tn__value_now(tn__fuser *f, tn__kernel *k, tn__uop *node, tn__uop *const *idx,
                       tn__uop *gate, int depth);
tn__uop *tn__load_of(tn__fuser *f, tn__kernel *k, tn__uop *node, tn__uop *const *idx,
                     tn__uop *gate);
/* Indices of the source of a movement node for element idx of it; *cond: where it has one (PAD). */
bool tn__move_index(tn__space *s, const tn__uop *node, tn__uop *const *idx, tn__uop **out,
                    tn__uop **cond);
int tn__fuser_pbuf(tn__fuser *f, const tn__uop *u); /* a new temporary of the plan */
int tn__kernel_scalar(tn__kernel *k, int plan_scalar, tn_dtype dt);
int tn__kernel_buffer(tn__fuser *f, tn__kernel *k, int plan, tn_dtype dt, uint8_t access,
                      const tn__uop *shape);
tn__kernel *tn__kernel_new(tn__fuser *f, const tn__uop *root);
int64_t tn__uop_numel(const tn__uop *u);

/* The rules (storing.c). */
void tn__costs(tn__fuser *f); /* fills ops and heavy of every node */
bool tn__wants_store(tn__fuser *f, const tn__uop *u);
bool tn__attachable(const tn__uop *u, const tn__info *info); /* rule 2 */
bool tn__fold_moves(const tn__uop *u); /* a FOLD whose windows do not overlap: pure movement */

/* Range checks (checks.c): roots for indices that may be out of range, appended; once kernels have values, their
 * stores' gates. */
bool tn__checks_add(tn__schedule *s, tn__space *sp, tn__uop ***roots, size_t *n);
void tn__checks_gate(tn__schedule *s);

/* Placement lowering (placement_pass.c): a graph over several devices becomes one node a device.  roots: replaced by
 * those of every device of the first root, then of the next.  ndev: devices.  made, nmade: by the id of a node of
 * the graph, what it became on one of its devices, or NULL. */
bool tn__place_lower(tn__space *s, const tn__layout *table, int n, tn__uop ***roots, size_t *nroot,
                     int *ndev, tn__uop ***made, size_t *nmade);
#endif
