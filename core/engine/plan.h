/* SPDX-License-Identifier: MIT */
/*
 * Plans: what a graph's key leads to.  A plan is flat, holds no pointer into a compilation, and serves
 * tn__realize and the JIT alike: bind slots to memory, submit the calls.
 */
#ifndef TN_ENGINE_PLAN_H
#define TN_ENGINE_PLAN_H
#include "base/base.h"
#include "device/device.h"
#include "engine/inspect.h"
#include "schedule/normal.h"
#include "schedule/schedule.h"

typedef struct tn__plan_call {
    tn__program *prog; /* own; NULL: a copy of buffer 0, on another device, to buffer 1 */
    int dev;           /* slot */
    int nbuf, nscalar;
    int *buf;        /* plan buffers, in the order of the kernel's arguments */
    uint8_t *access; /* of each: TNP_ACCESS_* */
    int *scalar;     /* plan scalars */
    uint32_t grid;
    double ops, bytes, loads; /* loads: bytes of all its loads and stores, caches or not */
    char name[48];
    tn__label label;
    atomic_uint seen; /* runs with DEBUG >= 2 */
} tn__plan_call;

typedef struct tn__plan {
    atomic_uint refs;
    tn__hash key;
    tn__device *dev; /* the first one */
    tn__device *devs[TN__SCHEDULE_DEVICES];
    int ndev;
    tn__pbuf *buf;
    int nbuf;
    tn__plan_call *call;
    int ncall;
    int *root_buf; /* of each root, device by device */
    int nroot, nleaf, nscalar;
    size_t temp_bytes[TN__SCHEDULE_DEVICES], live_peak;
    tn__origin *origin; /* by record of the normal form */
    const int **
        record; /* by buffer: what the kernel that makes it computes: records, then -1; NULL: unknown */
    struct tn__status *status; /* own; NULL: no range checks */
    tn__arena arena;           /* of the lists */
} tn__plan;

/* The plan of a normal form on its devices (dev: where it names none), from the cache or made now; one reference for the caller. */
tn__plan *tn__plan_get(const tn__normal *n, tn__device *dev);
/* Only from the cache: NULL without an error when it is not there. */
tn__plan *tn__plan_find(const tn__normal *n, tn__device *dev);
void tn__plan_unref(tn__plan *p);
/* Which constants of a form without a plan should be run-time scalars (skeleton.c); *mask NULL: none. */
bool tn__skeleton_mask(const tn__normal *n, uint8_t **mask);
void tn__skeleton_forget(void);

/* Memory of one run. */
typedef struct {
    tnp_ref *ref;     /* by plan buffer */
    uint64_t *scalar; /* by plan scalar */
    tn__buffer **mem; /* by plan buffer: what ref lies in; NULL where one device does it all */
    bool replay;      /* of a jit, for the lines of DEBUG */
} tn__binding;
bool tn__plan_run(tn__plan *p, const tn__binding *b);
bool tn__plan_copy(const tn__plan *p, const tn__plan_call *c,
                   const tn__binding *b); /* a call that is a copy */
/* Where a graph runs: on the first device that it names. */
tn__device *tn__plan_device(const tn__normal *n);
/* Devices of a root: its part of the plan's root_buf. */
int tn__root_parts(const tn__normal *n, const tn__node *root);
/* Binds input b of the plan; the outputs of the root whose list begins at `at`; the temporaries, to temp[], by
 * device, made where it is NULL. */
void tn__bind_input(const tn__plan *p, int b, const tn__value *v, const tn__binding *to);
void tn__bind_root(const tn__plan *p, int at, const tn__value *v, const tn__binding *to);
bool tn__bind_temps(const tn__plan *p, tn__buffer **temp, const tn__binding *to);

/* Range checks of indices (status.c).  make: the words of a plan; bind: their places; ran: before this thread's run is
 * submitted; forget: of this thread, without a look. */
typedef struct tn__status tn__status;
bool tn__status_make(tn__plan *p, const tn__schedule *s);
void tn__status_ref(tn__status *s);
void tn__status_unref(tn__status *s);
void tn__status_bind(const tn__plan *p, const tn__binding *to);
bool tn__status_ran(const tn__plan *p);
void tn__status_forget(void);

/* A plan as the device's own graph (plan_graph.c).  bytes: of each plan buffer; batch: kernels in the first of
 * several graphs on an asynchronous device, each next one twice as long.  p outlives it.  NULL without an error where the
 * device has none. */
typedef struct tn__plan_graph tn__plan_graph;
tn__plan_graph *tn__plan_graph_new(const tn__plan *p, const size_t *bytes, size_t batch);
bool tn__plan_graph_run(tn__plan_graph *g, const tn__binding *b); /* allocates nothing */
void tn__plan_graph_free(tn__plan_graph *g);

/* The calls of p whose flag is `which`, as a plan of its own; shares the programs. */
tn__plan *tn__plan_part(const tn__plan *p, const bool *flag, bool which);
#endif
