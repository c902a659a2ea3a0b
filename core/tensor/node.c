/* SPDX-License-Identifier: MIT */
/*
 * Graph nodes: one allocation each (header, sources, sizes, numbers), counted, freed without
 * recursion and without allocating.
 *
 * Every node is born into the thread's innermost build, which holds one reference to it until
 * tn__build_end; until then nobody else can see it, so the list through `next` needs no lock.  The
 * same field links nodes that are dying.
 */
#include "tensor/make.h"
#include "device/device.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Thread_local const char *tn__call_name;
_Thread_local tn__merge tn__merging;
static _Thread_local tn__node *made;  /* of the innermost build */
static _Thread_local unsigned builds; /* open ones */
static atomic_size_t live;
static atomic_uint_least64_t serials;

/* ---- builds ---- */

void tn__build_begin(tn__build *b)
{
    b->outer = made;
    made = NULL;
    builds++;
}

tn__node *tn__build_end(tn__build *b, tn__node *result)
{
    tn__node_ref(result);
    while (made) {
        tn__node *n = made;
        made = n->next;
        n->next = NULL;
        tn__node_unref(n);
    }
    made = b->outer;
    builds--;
    return result;
}

void tn__node_ref(tn__node *n)
{
    if (n) atomic_fetch_add_explicit(&n->refs, 1, memory_order_relaxed);
}

static bool drop(tn__node *n)
{
    return atomic_fetch_sub_explicit(&n->refs, 1, memory_order_acq_rel) == 1;
}

void tn__node_unref(tn__node *n)
{
    if (!n || !drop(n)) return;
    n->next = NULL;
    for (tn__node *dying = n; dying;) {
        n = dying;
        dying = n->next;
        for (unsigned i = 0; i < n->nsrc; i++) {
            tn__node *s = n->src[i];
            if (!drop(s)) continue;
            s->next = dying;
            dying = s;
        }
        tn__value *v = atomic_load_explicit(&n->val, memory_order_relaxed);
        if (v) tn__value_unref(v);
        atomic_fetch_sub_explicit(&live, 1, memory_order_relaxed);
        tn__free(n);
    }
}

uint64_t tn__node_next(void) { return atomic_load_explicit(&serials, memory_order_relaxed) + 1; }

size_t tn__node_live(void) { return atomic_load_explicit(&live, memory_order_relaxed); }

tn__node *tn__make(const tn__spec *s)
{
    TN_CHECK(builds > 0);
    const size_t nsrc = (size_t)s->nsrc, rank = (size_t)s->rank, narg = (size_t)s->narg;
    tn__node *n = tn__alloc(sizeof *n + nsrc * sizeof *n->src + (rank + narg) * sizeof(int64_t));
    if (!n) return NULL;
    memset(n, 0, sizeof *n);
    atomic_init(&n->refs, 1);
    n->op = (uint16_t)s->op;
    n->dt = (uint8_t)s->dt;
    n->rank = (uint8_t)rank;
    n->nsrc = (uint8_t)nsrc;
    n->narg = (uint8_t)narg;
    n->serial = atomic_fetch_add_explicit(&serials, 1, memory_order_relaxed) + 1;
    n->place = s->place;
    n->scalar = s->scalar;
    tn__here(&n->loc.file, &n->loc.line);
    n->loc.op = tn__call_name ? tn__call_name : "";
    n->dims = (int64_t *)(void *)(n->src + nsrc);
    n->argv = n->dims + rank;
    if (rank) memcpy(n->dims, s->dims, rank * sizeof *n->dims);
    if (narg) memcpy(n->argv, s->argv, narg * sizeof *n->argv);
    for (size_t i = 0; i < nsrc; i++) {
        n->src[i] = s->src[i];
        tn__node_ref(s->src[i]);
    }
    n->next = made;
    made = n;
    atomic_fetch_add_explicit(&live, 1, memory_order_relaxed);
    return n;
}

/* ---- questions ---- */

int64_t tn__node_numel(const tn__node *n)
{
    int64_t k = 1;
    for (int i = 0; i < n->rank; i++) k *= n->dims[i];
    return k;
}

bool tn__node_is(const tn__node *n, tn__op op) { return n && n->op == (uint16_t)op; }

const char *tn__shape_text(const int64_t *dims, int rank)
{
    static _Thread_local char ring[5][TN_MAX_RANK * 22 + 4];
    static _Thread_local unsigned at;
    char *text = ring[at++ % TN_LEN(ring)];
    size_t len = 0;
    text[len++] = '(';
    for (int i = 0; i < rank && i < TN_MAX_RANK; i++)
        len += (size_t)snprintf(text + len, sizeof ring[0] - len, i ? ", %" PRId64 : "%" PRId64,
                                dims[i]);
    text[len++] = ')';
    text[len] = 0;
    return text;
}

const char *tn__dims_of(const tn__node *n) { return tn__shape_text(n->dims, n->rank); }

bool tn__same_dims(const tn__node *a, const tn__node *b)
{
    return a->rank == b->rank && !memcmp(a->dims, b->dims, a->rank * sizeof *a->dims);
}

bool tn__dims_fit(const int64_t *dims, int rank)
{
    int64_t all = 1;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return false;
        if (dims[i]) all = tn__times(all, dims[i]);
    }
    return all <= TN__MAX_NUMEL;
}

bool tn__dims_check(const char *subject, const int64_t *dims, int rank)
{
    if (rank < 0 || rank > TN_MAX_RANK)
        return tn__fail(TN_ESHAPE, "%s: rank %d: a tensor has 0 to %d axes", subject, rank,
                        TN_MAX_RANK);
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            return tn__fail(TN_ESHAPE,
                            "%s: size %" PRId64 " of axis %d in %s: sizes are not negative",
                            subject, dims[i], i, tn__shape_text(dims, rank));
    return tn__dims_fit(dims, rank) ||
           tn__fail(TN_ESHAPE, "%s: shape %s: the number of elements does not fit 60 bits", subject,
                    tn__shape_text(dims, rank));
}

bool tn__mergeable(const tn__node *x, tn__op op)
{
    if (x->op != (uint16_t)op || atomic_load_explicit(&x->val, memory_order_acquire) ||
        atomic_load_explicit(&x->kept, memory_order_relaxed))
        return false;
    return op == TN_OP_CONST ? x != tn__merging.held : x->serial >= tn__merging.since;
}

bool tn__movable_const(const tn__node *x) { return tn__mergeable(x, TN_OP_CONST); }
