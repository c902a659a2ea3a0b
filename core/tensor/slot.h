/* SPDX-License-Identifier: MIT */
/* Private to handles: the slot table, the scopes of a thread, and what cells share with them. */
#ifndef TN_TENSOR_SLOT_H
#define TN_TENSOR_SLOT_H
#include "tensor/handle.h"
#include <pthread.h>

typedef struct tn__scopes tn__scopes;

/* What a handle stands for.  One of:
 *   a temporary      node, and a cell with the same node once it was viewed
 *   a box            cell (kept, assigned, parameters, gradients)
 *   a window         cell, node: the top of a chain of movements over base, a version of the cell
 *   poison           err
 */
typedef struct {
    atomic_uint gen;            /* of the handle that is valid now, or will be next */
    atomic_uint kept;           /* references by tn_keep */
    uint32_t index;             /* own place in the table */
    uint32_t prev, next;        /* neighbours in the scope's list; 0: none, else index + 1 */
    atomic_uint_least32_t free; /* the next one of the free list, in the same way */
    int depth;                  /* of its scope */
    bool window;
    tn__scopes *owner;        /* thread whose scope it belongs to; NULL: kept */
    tn__node *node;           /* own */
    tn__node *base;           /* own; windows only */
    _Atomic(tn__cell *) cell; /* own */
    tn__error *err;           /* own */
} tn__slot;

/* A new slot in the innermost scope; NULL when there is no memory. */
tn__slot *tn__slot_new(void);
tn_tensor *tn__slot_handle(const tn__slot *s);
/* NULL for a NULL or dead handle; records nothing. */
tn__slot *tn__slot_find(const tn_tensor *t);
void tn__slot_kill(tn__slot *s); /* gives its references back and the slot to the table */
size_t tn__slot_live(void);
/* The same with TN_ENULL, TN_ESTALE or the poison's error. */
tn__slot *tn__slot_get(const tn_tensor *t);
/* The one handle without a slot: poison where there was no memory for any. */
bool tn__is_nowhere(const tn_tensor *t);

/* Current node of a slot that is no poison; hook: tell a capture.  NULL with an error. */
tn__node *tn__slot_in(tn__slot *s, bool hook);
/* The slot's cell, made if it has none; own_it: the slot then holds no version of its own. */
tn__cell *tn__slot_cell(tn__slot *s, bool own_it);

/* ---- cells ---- */
bool tn__cell_mark(tn__cell *c);       /* makes it a parameter */
tn__cell *tn__cell_by_id(uint64_t id); /* own; NULL: dead */
bool tn__effect_add(tn__cell *c);
pthread_mutex_t *tn__lock_of(const void *p); /* one of a few, by address */
/* Arranges that the thread's temporaries and effects are released when it ends. */
void tn__thread_watch(void);
void tn__effects_drop(void);
#endif
