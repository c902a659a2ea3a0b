/* SPDX-License-Identifier: MIT */
/*
 * One run of a jit's function under observation: what it read, wrote, realised, drew and returned.
 *
 * A capturing trace computes nothing, but for tensors older than itself that have no value; a plain one lets
 * everything through and only remembers how to undo; a free one (JIT=0) does not even listen.
 */
#ifndef TN_JIT_TRACE_H
#define TN_JIT_TRACE_H
#include "base/base.h"
#include "tensor/handle.h"
#include <tenon/jit.h>

typedef struct {
    tn__cell *cell;  /* own */
    tn__node *entry; /* own: its version when the run began; NULL: it was made inside */
    tn__node *end;   /* own: its version at the end, where written */
    bool read, written;
} tn__trace_cell;

/* What the capture takes for granted about a parameter's gradient at entry. */
enum { TN__GRAD_ANY, TN__GRAD_NONE, TN__GRAD_SAME };
typedef struct {
    tn__cell *param, *entry, *after; /* own; entry, after: its gradient, may be NULL */
    int need;
} tn__trace_grad;

typedef struct {
    char *name;     /* own */
    tn__node *node; /* own */
} tn__trace_out;

typedef enum { TN__TRACE_FREE, TN__TRACE_PLAIN, TN__TRACE_CAPTURE } tn__trace_mode;

typedef struct tn__trace {
    tn__capture_hook hook;
    tn__context_watch watch;
    bool capture;
    uint64_t since;       /* serials of nodes that are made inside begin here */
    tn__rng rng;          /* at the start */
    uint64_t sets, drawn; /* seedings before; words drawn */
    tn__trace_cell *cell;
    size_t ncell, cap_cell;
    size_t *wrote; /* cells in the order of their first writes */
    size_t nwrote, cap_wrote;
    tn__trace_grad *grad;
    size_t ngrad, cap_grad;
    tn__node **realized; /* own: roots that the function realised */
    size_t nrealized, cap_realized;
    tn__trace_out *out;
    size_t nout, cap_out;
    tn__node *result;     /* own, or NULL */
    tn__node **leaf;      /* own: what the function saw as its inputs; capture only */
    tn__cell **leaf_cell; /* own: cells that the function's handles of them got, or NULL */
    size_t nleaf;
} tn__trace;

/* Runs fn.  in: the caller's tensors, node[i] their nodes.  False: an error is pending and all is undone. */
bool tn__trace_run(tn__trace *t, tn_jit_fn *fn, void *user, const tn_inputs *in,
                   tn__node *const *node, tn__trace_mode mode);
/* After a run that was no capture: computes what is left.  False: an error is pending and all is undone. */
bool tn__trace_finish(tn__trace *t, tn__trace_mode mode);
/* Cells, gradients and the random generator as they were at the start. */
void tn__trace_undo(tn__trace *t);
bool tn__trace_undone(tn__trace *t,
                      tn__trace_mode mode); /* the same after a run that failed; false */
void tn__trace_free(tn__trace *t);
/* The trace that runs on this thread, for tn_jit_output; NULL outside. */
extern _Thread_local tn__trace *tn__tracing;

/* What holds the value of a node: identities have no memory of their own. */
tn__node *tn__stored(tn__node *n);
tn__value *tn__stored_value(tn__node *n); /* NULL: none yet */
void tn__grad_set(tn__cell *param, tn__cell *grad);
/* Grows an array to n + 1 items; false without memory. */
bool tn__grow(void *array, size_t n, size_t *cap, size_t size);
#endif
