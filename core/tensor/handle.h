/* SPDX-License-Identifier: MIT */
/*
 * The border between public handles and nodes.  Every public tensor function has this shape:
 *
 *     tn_tensor *(tn_relu)(tn_tensor *x)
 *     {
 *         tn__call c;
 *         tn__call_begin(&c, "tn_relu");
 *         return tn__call_end(&c, tn__relu(tn__in(x)));
 *     }
 *
 * tn__in gives the current node of a handle (borrowed until the call ends), or NULL with an error
 * pending; tn__call_end turns a node into a handle of the innermost scope, or NULL into a poison
 * handle that owns the error's text.  Movement functions end with tn__call_view instead, so that
 * the result is a window on x's cell: it sees later writes and writes through.
 *
 * A handle is a slot and a generation encoded in the pointer's value.  A slot holds a node, or a
 * cell, or a cell with a chain of movement nodes over it.
 */
#ifndef TN_TENSOR_HANDLE_H
#define TN_TENSOR_HANDLE_H
#include "tensor/node.h"
#include <tenon/types.h>

typedef struct {
    tn__build build;
    tn__merge outer;
    const char *name;
} tn__call;
void tn__call_begin(tn__call *c, const char *name);
/* tn__in_view is tn__in for functions that end with tn__call_view: it also keeps a temporary CONST from being
 * folded, so that the window's chain leads down to it. */
tn__node *
tn__in(tn_tensor *t); /* NULL handle: TN_ENULL; stale: TN_ESTALE; poison: its error again */
tn__node *tn__in_view(tn_tensor *t);
tn__node *tn__in_opt(tn_tensor *t); /* NULL handle: NULL without an error */
tn_tensor *tn__call_end(tn__call *c, tn__node *result);
tn_tensor *tn__call_view(tn__call *c, tn_tensor *base, tn__node *result);
void tn__call_done(tn__call *c); /* for functions without a tensor result */

/* A mutable box with a current node.  Counted. */
typedef struct tn__cell {
    atomic_uint refs;
    atomic_uint kept;      /* kept handles */
    tn__node *cur;         /* own */
    uint64_t param;        /* unique id, 0: no parameter */
    tn__node *wrap;        /* PARAM node over cur, own, made on demand */
    struct tn__cell *grad; /* own, NULL until the first backward */
    bool pinned;           /* borrowed memory: written in place */
    bool pending;          /* in a thread's effect list */
    bool buffer;           /* state that is not trained */
} tn__cell;
tn__cell *tn__cell_of(
    tn_tensor *t); /* borrowed; gives the handle a cell if it has none; NULL for views and errors */
void tn__cell_ref(tn__cell *c);
void tn__cell_unref(tn__cell *c);
/* New version of the cell's value: moves cur on, drops wrap, joins the thread's effect list. */
bool tn__cell_write(tn__cell *c, tn__node *value);
/* Pending writes of this thread in program order: cells whose current node has no value yet. */
size_t tn__effects(tn__cell ***cells); /* borrowed array */
void tn__effects_clear(void);          /* after they were realised */
/* Roots of tn_backward on this thread that are alive and have no value: they run with the next step.  At most 8. */
size_t tn__joined(tn__node **out);
void tn__cell_forget_grad(tn__cell *c);
tn__cell *tn__cell_new(tn__node *cur); /* own; keeps cur */
/* After a realise: a borrowed memory's new content goes where the user expects it. */
bool tn__cell_write_back(tn__cell *c);
tn__node *
tn__cell_in(tn__cell *c); /* its current node as an operand: a leaf once realised, PARAM over it */
void tn__cell_keep(tn__cell *c, int by); /* +1 or -1 kept handle */
tn_tensor *tn__handle_new(
    tn__node *node); /* of the innermost scope: takes node; NULL: poison of the pending error */
tn_tensor *tn__handle_box(tn__cell *c); /* keeps c */

/* Ends a temporary of this thread that nobody has kept; anything else is left as it is. */
void tn__handle_retire(tn_tensor *t);
/* The cell gets another version; no write: it joins no list. */
void tn__cell_set(tn__cell *c, tn__node *n);

/* Capture (jit/): called with every cell a handle reads and before every write, NULL when not capturing. */
typedef struct {
    void *user;
    bool (*read)(void *user,
                 tn__cell *c); /* may replace c->cur's role as a slot; false: error pending */
    bool (*write)(void *user, tn__cell *c);
    bool (*data)(void *user); /* data is read: an error inside a capture */
    /* NULL: as usual; else called instead of realising */
    bool (*realize)(void *user, tn__node *const *roots, size_t n);
    bool (*made)(
        void *user,
        tn__cell *c); /* a new cell with a new version, pending as if it had been written */
    /* before param's gradient is forgotten, made or added to */
    void (*grad)(void *user, tn__cell *param, bool forgotten);
    uint64_t since; /* temporaries that show older nodes get cells, so that `read` hears of them */
} tn__capture_hook;
extern _Thread_local const tn__capture_hook *tn__capture;
#endif
