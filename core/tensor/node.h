/* SPDX-License-Identifier: MIT */
/*
 * Graph nodes: operations of the tensor graph.  Counted, immutable once made, never interned, no lock.
 *
 * Arrows go one way: handle -> cell -> node -> value; a node points at neither cells nor handles.  The
 * constructors below check their arguments (a wrong one is an error with text, NULL), take and give
 * *borrowed* nodes: each new node belongs to the thread's innermost build, which tn__build_end closes:
 *
 *     tn__build b; tn__build_begin(&b);
 *     tn__node *y = tn__add(tn__mul(x, w), c);
 *     y = tn__build_end(&b, y);              -- own: one reference, everything else made inside is dropped
 *
 * A NULL source gives NULL and records nothing (its error is pending already): errors flow through.
 * All walks are iterative; freeing never allocates.
 */
#ifndef TN_TENSOR_NODE_H
#define TN_TENSOR_NODE_H
#include "base/base.h"
#include "ir/dtype.h"
#include "ir/op.h"
#include <stdatomic.h>
#include <stdbool.h>

typedef struct tn__node tn__node;
typedef struct tn__value tn__value;         /* device memory: device/value.h */
typedef struct tn__placement tn__placement; /* devices and shard axis; NULL: the default device */

typedef struct {
    const char *file;
    const char *op; /* the public function that made it */
    int line;
} tn__loc;

struct tn__node {
    atomic_uint refs;
    atomic_uint
        kept; /* kept handles' cells whose current node this is: it is materialised when its graph runs */
    uint16_t op; /* tn__op */
    uint8_t dt, rank, nsrc;
    uint8_t narg;               /* numbers in argv */
    uint8_t flags;              /* TN__NODE_* */
    uint64_t serial;            /* creation order, process-wide */
    uint64_t mark;              /* scratch of graph walks, see tn__walk */
    const tn__placement *place; /* borrowed: placements are immortal and interned */
    _Atomic(tn__value *) val;   /* own; published once, when realised */
    tn__loc loc;
    tn__scalar scalar; /* CONST, PARAM's id in .u */
    int64_t *dims;     /* rank sizes */
    int64_t *argv;     /* narg numbers, see ops.def */
    tn__node *next;    /* list of the build; link while dying */
    tn__node *src[];
};
enum {
    TN__NODE_LEAFED = 1, /* was realised as a kept tensor: its history is gone */
    TN__NODE_WEAK =
        2 /* CONST of rank 0, F64, I64, U64 or BOOL: a C number that takes the dtype of what it meets */
};

/* ---- builds ---- */
typedef struct {
    tn__node *outer;
} tn__build;
void tn__build_begin(tn__build *b);
tn__node *tn__build_end(tn__build *b, tn__node *result); /* own, or NULL */
void tn__node_ref(tn__node *n);                          /* NULL is fine */
void tn__node_unref(tn__node *n);                        /* NULL is fine */
size_t tn__node_live(void);                              /* process-wide count */

/* Name of the public function that runs, for the location of new nodes; NULL outside of one. */
extern _Thread_local const char *tn__call_name;
/* Constructors merge away only nodes made since the running call began, since windows and gradients look for
 * older ones by address; unkept CONSTs are always merged but for `held`. */
typedef struct {
    uint64_t since;       /* serial; 0 outside of calls */
    const tn__node *held; /* the root of the window that is being made, or NULL */
} tn__merge;
extern _Thread_local tn__merge tn__merging;
uint64_t tn__node_next(void); /* serial that the next node will have, at least */

int64_t tn__node_numel(const tn__node *n);
bool tn__node_is(const tn__node *n, tn__op op);
/* Text of a shape "(8, 64)", valid until the thread's fifth next call. */
const char *tn__shape_text(const int64_t *dims, int rank);

/* Topological order of the graph under roots, sources first; *out from `a`.  Stops at nodes with a value
 * unless `through`. */
bool tn__walk(tn__arena *a, tn__node *const *roots, size_t n, bool through, tn__node ***out,
              size_t *count);

/* ---- constructors: borrowed result, or NULL with an error pending ---- */
tn__node *tn__const(tn_dtype dt, tn__scalar s, const int64_t *dims, int rank);
tn__node *tn__const_f(tn_dtype dt, double v, const int64_t *dims, int rank);
tn__node *tn__const_i(tn_dtype dt, int64_t v, const int64_t *dims, int rank);
tn__node *tn__weak(tn_dtype dt, tn__scalar s); /* see TN__NODE_WEAK */
static inline bool tn__is_weak(const tn__node *n) { return n->flags & TN__NODE_WEAK; }
tn__node *tn__const_like(tn__node *x, double v); /* x's dtype and shape */
tn__node *tn__iota(tn_dtype dt, int axis, const int64_t *dims, int rank);
tn__node *tn__leaf(tn__value *v, tn_dtype dt, const int64_t *dims, int rank,
                   const tn__placement *p); /* takes v */
tn__node *tn__param_node(tn__node *x, uint64_t id);
tn__node *tn__detach(tn__node *x);
tn__node *tn__contiguous(tn__node *x);
tn__node *
tn__contiguous_copy(tn__node *x); /* a CONTIGUOUS also over what is stored: memory of its own */
tn__node *tn__copy_to(tn__node *x, const tn__placement *p);

/* Elementwise primitives.  The sources must have equal shapes (and dtypes where ops.def says so). */
tn__node *tn__unary(tn__op op, tn__node *x);
tn__node *tn__binary(tn__op op, tn__node *a, tn__node *b);
tn__node *tn__where(tn__node *c, tn__node *a, tn__node *b);
tn__node *tn__cast(tn__node *x, tn_dtype dt); /* x itself when it has dt */
tn__node *tn__bitcast(tn__node *x, tn_dtype dt);

/* Movement; each returns x itself when nothing changes. */
tn__node *tn__reshape(tn__node *x, const int64_t *dims, int rank);
tn__node *tn__expand(tn__node *x, const int64_t *dims, int rank); /* may add leading axes */
tn__node *tn__permute(tn__node *x, const int *axes);              /* rank of x axes */
tn__node *tn__shrink(tn__node *x, const int64_t *first, const int64_t *size);
tn__node *tn__pad(tn__node *x, const int64_t *before,
                  const int64_t *after); /* zeros; not negative */
tn__node *tn__flip(tn__node *x, unsigned mask);
tn__node *tn__window(tn__node *x, int axis, int64_t k, int64_t stride,
                     int64_t dilation); /* o as large as fits */
tn__node *tn__fold(tn__node *x, int axis, int64_t size, int64_t k, int64_t stride,
                   int64_t dilation);

/* op: TN_OP_ADD MUL MAX MIN.  Axes in the mask keep size 1.  Accumulates and results in x's dtype: cast first. */
tn__node *tn__reduce(tn__op op, tn__node *x, unsigned axes);
tn__node *tn__gather(tn__node *x, tn__node *idx); /* see ops.def */
tn__node *tn__scatter(tn__op op, tn__node *base, tn__node *idx, tn__node *src);
tn__node *tn__scan(tn__op op, tn__node *x, int axis);
tn__node *tn__argsort(tn__node *x, bool descending); /* last axis */
/* The next `dims` random uint32 words of the thread's generator (advances its counter by their number). */
tn__node *tn__random_bits(const int64_t *dims, int rank);
/* The thread's generator: key from SEED at the first use, counter of words drawn so far. */
typedef struct {
    uint64_t key, counter;
} tn__rng;
void tn__rng_seed(uint64_t seed); /* restarts the counter */
tn__rng tn__rng_get(void);
void tn__rng_set(tn__rng state);
uint64_t tn__rng_sets(void); /* how often this thread's state was set or seeded */
/* view is a chain of movement nodes over old (or old itself: the result is then value). */
tn__node *tn__update(tn__node *old, tn__node *value, tn__node *view);
/* An UPDATE of all of old, for memory that is written in place: src = {old, value, old}. */
tn__node *tn__overwrite(tn__node *old, tn__node *value);

/* ---- gradients (gradient.c) ---- */
/* d(root)/d(target[i]) seeded with `seed` (NULL: ones; root is then a scalar).  Targets are nodes, or all
 * PARAM nodes of an id.  out[i] is NULL where root does not depend on it; false with an error otherwise. */
bool tn__gradient(tn__node *root, tn__node *seed, tn__node *const *targets, size_t n,
                  tn__node **out);
#endif
