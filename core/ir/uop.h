/* SPDX-License-Identifier: MIT */
/*
 * Compile-time nodes: one compilation's private space.  Nodes live in an arena, are hash-consed (equal
 * nodes are one pointer), have ids in creation order and are freed whole.  Graph nodes never meet them:
 * the crossing is the flat record form of schedule/normal.h.
 *
 * Running out of memory marks the space as failed and yields tn__uop_bad, a harmless constant; passes run
 * on and their caller asks space->failed once at the end.
 */
#ifndef TN_IR_UOP_H
#define TN_IR_UOP_H
#include "base/base.h"
#include "ir/dtype.h"
#include "ir/op.h"

typedef struct tn__uop tn__uop;
struct tn__uop {
    uint32_t id;
    uint16_t op;  /* tn__op */
    uint8_t dt;   /* TN_I64 for index expressions */
    uint8_t rank; /* tensor form only */
    uint8_t
        dev; /* tensor form only: place as parsed; device after placement lowering; part of its identity */
    uint16_t nsrc, narg;
    uint64_t bits;  /* CONST: the value as stored */
    uint64_t deps;  /* kernel form: set of open ranges by number */
    int64_t lo, hi; /* index expressions: inclusive bounds */
    int64_t *dims, *arg;
    tn__uop **src;
    uint64_t hash;
};

#define TN__MAX_RANGES 64

typedef struct {
    tn__arena *arena;
    tn__uop **table;
    size_t cap, count; /* cap: a power of two */
    uint32_t next_id;
    uint32_t nranges; /* kernel form: ranges made so far */
    bool failed;
    tn__uop *range[TN__MAX_RANGES]; /* by number */
} tn__space;

#define TN__MAX_SRC 65535

extern tn__uop tn__uop_bad;

void tn__space_init(tn__space *s, tn__arena *a);
void tn__space_free(tn__space *s); /* the table; nodes go with the arena */

typedef struct {
    tn__op op;
    tn_dtype dt;
    uint64_t bits;
    int rank, narg, nsrc;
    const int64_t *dims, *arg;
    tn__uop *const *src;
    uint8_t dev;
} tn__uop_desc;
/* The node of this description, made if it is not there yet. */
tn__uop *tn__uop_get(tn__space *s, const tn__uop_desc *d);
/* u, which may be of another space, with these sources instead of its own; bounds stay. */
tn__uop *tn__uop_with(tn__space *s, const tn__uop *u, tn__uop *const *src);
/* Sets u's bounds and returns it. */
tn__uop *tn__uop_bound(tn__uop *u, int64_t lo, int64_t hi);

/* Kernel form. */
tn__uop *tn__k1(tn__space *s, tn__op op, tn_dtype dt, tn__uop *a);
tn__uop *tn__k2(tn__space *s, tn__op op, tn_dtype dt, tn__uop *a, tn__uop *b);
tn__uop *tn__k3(tn__space *s, tn__op op, tn_dtype dt, tn__uop *a, tn__uop *b, tn__uop *c);
tn__uop *tn__kconst(tn__space *s, tn_dtype dt, uint64_t bits);

/* Replaces ranges: to[n] (an index expression, or NULL: unchanged) for range number n; rebuilds what
 * depends on them through the smart constructors. */
tn__uop *tn__uop_subst(tn__space *s, tn__uop *u, tn__uop *const *to);

/* The same into another space (both of one arena's lifetime); `to` covers all of u's ranges. */
tn__uop *tn__uop_import(tn__space *s, tn__space *from, tn__uop *u, tn__uop *const *to);

/* Bits of the identity of a reduction (ADD MUL MAX MIN) in dt. */
uint64_t tn__reduce_identity(tn__op op, tn_dtype dt);

/* Text of the graph under the roots, a line a node in order of ids. */
bool tn__uop_dump(tn__buf *out, tn__uop *const *roots, size_t n);
/* Nodes under the roots, sources first; from the space's arena. */
bool tn__uop_topo(tn__space *s, tn__uop *const *roots, size_t n, tn__uop ***out, size_t *count);

/* ---- ranges ---- */
typedef enum {
    TN__AXIS_LOOP,   /* output loop */
    TN__AXIS_GRID,   /* work-group index */
    TN__AXIS_REDUCE, /* loop of a reduction */
    TN__AXIS_ORDER,  /* loop whose iterations stay in order */
    TN__AXIS_UPCAST, /* register copies, each its own value or accumulator */
    TN__AXIS_UNROLL, /* register copies of a reduction into one accumulator */
    TN__AXIS_VECTOR  /* lanes */
} tn__axis_kind;
/* A new range with the space's next number: its arg is {number, size, kind}. */
tn__uop *tn__range(tn__space *s, int64_t size, tn__axis_kind kind);
static inline int64_t tn__range_num(const tn__uop *r) { return r->arg[0]; }
static inline int64_t tn__range_size(const tn__uop *r) { return r->arg[1]; }
static inline tn__axis_kind tn__range_kind(const tn__uop *r) { return (tn__axis_kind)r->arg[2]; }
/* Iterations of a nest over the ranges in the mask. */
double tn__nest_size(const tn__space *s, uint64_t mask);
#endif
