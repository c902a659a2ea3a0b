/* SPDX-License-Identifier: MIT */
/*
 * Plans: what a graph's key leads to.  A plan is flat, holds no pointer into a compilation, and serves
 * tn__realize and the JIT alike: bind slots to memory, submit the calls.
 */
#ifndef TN_ENGINE_PLAN_H
#define TN_ENGINE_PLAN_H
#include "base/base.h"
#include "device/device.h"
#include "schedule/normal.h"
#include "schedule/schedule.h"

typedef struct {
    tn__program *prog; /* own */
    int nbuf, nscalar;
    int *buf;    /* plan buffers, in the order of the kernel's arguments */
    int *scalar; /* plan scalars */
    uint32_t grid;
    double ops, bytes;
    char name[48];
} tn__plan_call;

typedef struct tn__plan {
    atomic_uint refs;
    tn__hash key;
    tn__device *dev;
    tn__pbuf *buf;
    int nbuf;
    tn__plan_call *call;
    int ncall;
    int *root_buf;
    int nroot, nleaf, nscalar;
    size_t temp_bytes, live_peak;
    tn__arena arena; /* of the lists */
} tn__plan;

/* The plan of a normal form on a device, from the cache or made now; one reference for the caller. */
tn__plan *tn__plan_get(const tn__normal *n, tn__device *dev);
void tn__plan_unref(tn__plan *p);

/* Memory of one run. */
typedef struct {
    tnp_ref *ref;       /* by plan buffer */
    uint64_t *scalar;   /* by plan scalar */
} tn__binding;
bool tn__plan_run(tn__plan *p, const tn__binding *b);
#endif
