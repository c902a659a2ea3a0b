/* SPDX-License-Identifier: MIT */
/* Private part of nn: the visitor behind walkers, and how layers and optimizers make and read state. */
#ifndef TN_NN_NN_H
#define TN_NN_NN_H
#include "base/base.h"
#include "tensor/handle.h"
#include "tensor/ops.h"
#include <tenon/nn.h>

/* ---- visitors ---- */
typedef struct {
    void (*tensor)(void *user, const char *name, tn_tensor **field, bool trained);
    void (*number)(void *user, const char *name, uint64_t *number); /* may be NULL */
    void (*tied)(void *user, const char *name,
                 tn_tensor **field); /* a further name of a tensor; may be NULL */
} tn__visit_ops;
/* False when there is no memory or the walker left an error; the callbacks report theirs through `user`. */
bool tn__visit(void *obj, tn_visit_fn *fn, const tn__visit_ops *ops, void *user);

/* ---- state ---- */
/* Ends a call that made the first value of a piece of state: kept, marked where trained; NULL on error. */
tn_tensor *tn__state_end(tn__call *c, tn__node *n, bool trained);
/* The current node of a kept tensor without its parameter's wrap; NULL with an error. */
tn__node *tn__state_in(tn_tensor *t);
/* A leaf of v everywhere with the shape and placement of `like` (NULL: rank 1, one element), in dtype dt. */
tn__node *tn__filled(const tn__node *like, const tn__placement *place, tn_dtype dt, double v);
/* A leaf with these bytes in row-major order on the devices of `place` (NULL: default). */
tn__node *tn__leaf_of(const void *data, tn_dtype dt, const int64_t *dims, int rank,
                      const tn__placement *place);
/* Options of the caller into *out, whose size may differ from ours. */
void tn__options(void *out, const void *in, size_t size);

/* ---- writes of several cells: all or none ---- */
typedef struct {
    tn__cell *cell; /* borrowed */
    tn__node *node; /* of the running build */
} tn__write;
bool tn__write_all(tn__write *w, size_t n);
/* Computes this thread's pending writes and the results of tn_backward that wait for a step. */
bool tn__run_step(void);
#endif
