/* SPDX-License-Identifier: MIT */
/*
 * Normal form: a graph as flat records with slots in place of what may change from step to step
 * (buffers, random counters, offsets of slices).  Normalise is serialise: one walk writes the records, and
 * their hash is the key of every cache.  Equal computations give equal bytes in any process.
 */
#ifndef TN_SCHEDULE_NORMAL_H
#define TN_SCHEDULE_NORMAL_H
#include "device/device.h"
#include "ir/uop.h"
#include "tensor/node.h"

/* What a scalar is. */
enum { TN__SCALAR_OFFSET, TN__SCALAR_KEY, TN__SCALAR_BASE, TN__SCALAR_USER };

/* A placement as the form holds it: devices by slot, in the order in which the graph names them. */
enum { TN__FORM_DEVICES = 16 };
typedef struct {
    int8_t n, axis;
    uint8_t dev[TN__FORM_DEVICES];
} tn__layout;

typedef struct {
    tn__arena *arena;
    tn__buf bytes;
    tn__hash key;
    size_t nrec;
    tn__node **leaf; /* slot -> node that has the value; borrowed */
    size_t nleaf, cap_leaf;
    uint64_t *scalar;     /* slot -> bits */
    uint8_t *scalar_kind; /* slot -> TN__SCALAR_*; a random node's base follows its key */
    size_t nscalar, cap_scalar;
    uint32_t *
        konst; /* constants in order of their records: place of the bits in bytes, 0 for one in a slot */
    size_t nkonst, cap_konst;
    const uint8_t *mask; /* see tn__normalise_with */
    size_t nmask;
    uint32_t *root; /* record of each root */
    size_t nroot;
    tn__node *const *from; /* the roots; borrowed */
    tn__node **node;       /* tn__normal_nodes: nnode places */
    size_t nnode;
    const tn__placement **place; /* distinct ones of the records; number 0 is none */
    size_t nplace;
    tn__device *dev[TN__FORM_DEVICES]; /* by slot */
    int ndev;
    bool multi; /* more than one device: the form ends in the records' placements and their table */
    tn__buf where; /* placement number of each record */
} tn__normal;

/* Memory of the lists from `a`; bytes by tn__normal_free. */
bool tn__normalise(tn__arena *a, tn__node *const *roots, size_t n, tn__normal *out);
/* The same with the i-th constant in a slot where mask[i]; constants beyond n stay. */
bool tn__normalise_with(tn__arena *a, tn__node *const *roots, size_t n, const uint8_t *mask,
                        size_t nmask, tn__normal *out);
/* Hash of the form with all constants blanked, and the constants' bits (nkonst of them, from the form's arena). */
bool tn__normal_skeleton(const tn__normal *n, tn__hash *key, uint64_t **bits);
void tn__normal_free(tn__normal *n);
/* Nodes under the roots that kept handles show and that have no value: roots too. */
bool tn__normal_kept(tn__arena *a, tn__node *const *roots, size_t n, tn__node ***out,
                     size_t *count);

/* The first record in which two forms differ, and its op in either (TN_OP_COUNT: it has none there). */
void tn__normal_differ(const tn__buf *a, const tn__buf *b, size_t *record, tn__op *in_a,
                       tn__op *in_b);

/* Parses records into the space: one node a record, roots[i] for each root; a node's `dev` is the number of its
 * placement. */
bool tn__normal_parse(tn__space *s, const char *bytes, size_t len, tn__uop ***roots, size_t *nroot,
                      size_t *nleaf, size_t *nscalar);

/* The node of each record, of a space that has parsed them. */
bool tn__normal_records(tn__space *s, const char *bytes, size_t len, tn__uop ***made, size_t *n);
/* The graph's node of each record (NULL: none of its own); of a form that was just made, unchanged since. */
bool tn__normal_nodes(const tn__normal *n, tn__arena *a, tn__node ***out);
/* The table of placements, item i for number i + 1; none where one device does it all. */
const tn__layout *tn__normal_layouts(tn__arena *a, const char *bytes, size_t len, int *n);

/* arg of a BUFFER node in tensor form: {slot, scalar slot of the offset or -1, strides..} */
#endif
