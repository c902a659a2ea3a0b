/* SPDX-License-Identifier: MIT */
/*
 * The jit object, shared by the files of this folder: state in jit.c, checks of inputs in jit_inputs.c, from a
 * trace to a plan in jit_capture.c, the steady path in jit_replay.c, JIT_CHECK in jit_check.c.
 *
 * Memory of outputs: each has two generations of a value with a leaf node for every result that shows it.  A
 * generation is free when the jit alone holds its nodes and its value; a replay writes into a free one, or
 * makes a new one where somebody kept the old ones.
 */
#ifndef TN_JIT_JIT_H
#define TN_JIT_JIT_H
#include "device/device.h"
#include "engine/plan.h"
#include "jit/trace.h"

/* What a value looks like.  A capture holds no node of its trace, since that would hold the memory of the
 * inputs of that call. */
typedef struct {
    tn_dtype dt;
    int rank;
    int64_t dims[TN_MAX_RANK];
    const tn__placement *place;
    tn__loc loc;
} tn__jit_sig;

/* Where a value comes from at a call. */
typedef enum { TN__FROM_INPUT, TN__FROM_CELL, TN__FROM_CONST } tn__jit_from;
typedef struct {
    tn__jit_from from;
    int input;
    tn__cell *cell; /* own */
    tn__node *node; /* own: constants */
    tn__jit_sig sig;
    tn__node *once; /* own: node whose value the pruned calls have used, or NULL */
    bool pruned;    /* pruned calls read it */
} tn__jit_slot;

/* Two closures that had one value, and so one slot, at the capture. */
typedef struct {
    int slot;
    tn__cell *cell; /* own */
} tn__jit_peer;

typedef struct {
    tn__value *v;    /* own */
    tn__node **node; /* own, one a view */
} tn__jit_gen;

typedef struct {
    int buf;           /* of the plan, on the first device */
    size_t bytes;      /* a device */
    tn__jit_sig *like; /* roots in this buffer */
    int nlike;
    tn__jit_gen gen[2];
    int now; /* generation of this call */
} tn__jit_buf;

/* A result, an output or a written tensor: leaf `like` of output `out`, or (out < 0) the value of a slot. */
typedef struct {
    int out, like;
    tn__jit_slot slot;
    tn__cell *cell; /* own: where it is written to */
    int input;      /* or the input that is written to; -1 */
    tn__node *node; /* of this call, while it is published */
} tn__jit_item;

typedef struct {
    char *name;     /* own */
    int item;       /* when captured */
    tn__node *node; /* own: of the latest call */
} tn__jit_name;

typedef struct {
    tn__cell *param, *before, *after; /* own; after: NULL forgets */
    int need;
} tn__jit_link;

struct tn_jit {
    atomic_flag busy;
    tn_jit_fn *fn;
    void *user;
    bool prune;
    int calls;     /* that were run as they are: 0 or 1 */
    tn__node **in; /* nodes of the inputs of this call, own while it runs */
    size_t nin, cap_in;
    tn_tensor **issued; /* handles given out since the latest call */
    size_t nissued, cap_issued;
    tn__jit_name *name;
    size_t nname, cap_name;
    /* the capture */
    bool captured;
    tn__plan *plan, *once; /* what runs each time; what prune runs once, or NULL */
    bool once_done;
    tn__plan_graph *graph;
    bool graph_tried;
    tn__buf form; /* records, for JIT_CHECK */
    tn__hash key;
    uint64_t replays;
    tn__jit_sig *sig;
    size_t nsig;
    tn__jit_slot *slot;
    size_t nslot;
    tn__jit_peer *peer;
    size_t npeer, cap_peer;
    uint64_t *scalar, *relative; /* bits; of random bases relative to the counter, of keys unused */
    uint8_t *scalar_kind;        /* TN__SCALAR_*; OFFSET for all that is fixed */
    size_t nscalar;
    uint64_t drawn;
    tn__jit_buf *buf;
    size_t nbuf;
    tn__jit_item *item; /* [0] the result when has_result, then the outputs, then cells */
    size_t nitem, cap_item;
    bool has_result;
    tn__jit_link *link;
    size_t nlink;
    uint64_t context_read;
    int64_t context[TN_VARS];
    tnp_ref *ref;     /* by plan buffer */
    tn__buffer **mem; /* by plan buffer, borrowed; NULL where one device does it all */
    tn__buffer *temp[TN__SCHEDULE_DEVICES]; /* own */
    tn__buffer **held;  /* own: by plan buffer, what pruned calls have computed */
    size_t *slot_bytes; /* by plan buffer */
};

/* Resolves and checks the inputs of a call into j->in, with references; names the input in its errors. */
bool tn__jit_inputs(tn_jit *j, const tn_inputs *in);
void tn__jit_inputs_done(tn_jit *j);
/* Against the capture. */
bool tn__jit_match(tn_jit *j);

/* From a trace, rolled back here, to a capture. */
bool tn__jit_capture(tn_jit *j, tn__trace *t);
void tn__jit_drop(tn_jit *j); /* the capture, not the outputs handed out */
/* Normal form of what a trace wants computed; roots from the arena. */
bool tn__jit_form(tn__arena *a, tn__trace *t, tn__node ***roots, size_t *n, tn__normal *form);
/* Where a value comes from by the trace; owns what it names. */
tn__jit_slot tn__jit_origin(const tn__trace *t, tn__node *n);
tn__jit_sig tn__jit_sig_of(const tn__node *n);

typedef enum {
    TN__JIT_OK,
    TN__JIT_FAILED,
    TN__JIT_STALE
} tn__jit_rc; /* STALE: capture again, nothing was done */
tn__jit_rc tn__jit_replay(tn_jit *j, const tn_inputs *in);
void tn__jit_intermediates(tn_jit *j); /* frees them */
void tn__jit_gen_drop(tn__jit_buf *b, tn__jit_gen *g);
void tn__jit_slot_drop(tn__jit_slot *s);

/* Compares a new trace with the capture: TN_EJIT when they differ. */
bool tn__jit_same(tn_jit *j, tn__trace *t);

/* Moves to a plan without the calls that depend on nothing that changes. */
bool tn__jit_prune(tn_jit *j, const bool *written_slot);
#endif
