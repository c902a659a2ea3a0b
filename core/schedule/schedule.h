/* SPDX-License-Identifier: MIT */
/*
 * From a graph in tensor form to kernels and plan buffers.  Reads no context variable: options and target
 * come as plain values.
 */
#ifndef TN_SCHEDULE_SCHEDULE_H
#define TN_SCHEDULE_SCHEDULE_H
#include "ir/kernel.h"

enum { TN__SCHEDULE_DEVICES = 16 };
typedef enum { TN__PBUF_INPUT, TN__PBUF_OUTPUT, TN__PBUF_TEMP, TN__PBUF_STATUS } tn__pbuf_kind;
typedef struct {
    tn__pbuf_kind kind;
    tn_dtype dt;
    int64_t numel;
    int slot;        /* input: leaf slot; output: number of the root; status: number of the check */
    int first, last; /* temp: launches that write it first and use it last */
    size_t offset;   /* temp: bytes in its device's arena */
    int dev;         /* slot of the device */
} tn__pbuf;

/* A range check of indices (checks.c). */
typedef struct {
    const tn__uop *of; /* the GATHER or SCATTER */
    int64_t rows;
    int record; /* of the normal form that it is, -1: not known */
    int buf;    /* of the plan: its status word */
} tn__scheck;

typedef struct {
    tn__arena *arena;
    tn__pbuf *buf;
    int nbuf, cap_buf;
    tn__kernel **kernel;
    int nkernel, cap_kernel;
    int nlaunch; /* kernels are in order of launch */
    int *
        root_buf; /* plan buffer of each root on each of its devices: an input where the root is one */
    int nroot, nleaf, nscalar;
    int ndev;                                /* devices, by slot */
    size_t temp_bytes[TN__SCHEDULE_DEVICES]; /* a device's arena for its temps */
    size_t live_peak;                        /* most bytes of temps alive at one time */
    const int **
        record; /* by buffer, the first nrecord: records of the normal form that the kernel which makes
                         * it computes, in order, then -1; NULL: none */
    int nrecord;
    tn__scheck *check;
    int ncheck;
} tn__schedule;

typedef struct {
    int max_bufs; /* of one kernel */
} tn__target;

/* Everything in the arena; kernels' spaces are freed by tn__schedule_free. */
bool tn__schedule_make(tn__arena *a, const char *bytes, size_t len, const tn__target *t,
                       tn__schedule *out);
void tn__schedule_free(tn__schedule *s);
/* For codegen: a kernel of its own before `k`, a new temporary of `numel` elements (its plan buffer, -1 on no
 * memory). */
tn__kernel *tn__schedule_insert(tn__schedule *s, const tn__kernel *k);
int tn__schedule_temp(tn__schedule *s, tn_dtype dt, int64_t numel);
/* Places temps in one arena: bytes are reused only between buffers whose uses are ordered. */
bool tn__schedule_memory(tn__schedule *s, size_t align);
#endif
