/* SPDX-License-Identifier: MIT */
/*
 * A kernel: stores over shared output ranges, whose values are expressions over ranges, loads, nested
 * reductions and stages.  The schedule makes it, codegen/opts.c splits its ranges, codegen/emit.c turns it
 * into linear code.
 *
 * Form of expressions: LOAD {arg: buffer; src: one index expression a dimension, then an optional bool
 * gate (arg[1] says so)}; REDUCE {arg: op; src: value, then its ranges}; index expressions are ir/index.h's;
 * CAST of an AFFINE node turns an index into a value; SCALAR {arg: number of the kernel's immediate}.
 */
#ifndef TN_IR_KERNEL_H
#define TN_IR_KERNEL_H
#include "ir/index.h"

typedef struct {
    int plan; /* buffer of the plan */
    tn_dtype dt;
    uint8_t access;                /* TNP_ACCESS_* */
    int rank;                      /* of the index lists of its loads and stores */
    const int64_t *dims, *strides; /* elements */
    tn__uop *offset;               /* added to the flat index, or NULL */
    int64_t numel;                 /* of the whole buffer, 0: not known */
} tn__kbuf;

typedef struct {
    int buf;
    tn__uop *value;
    tn__uop *gate; /* NULL: always */
    tn__uop **idx; /* rank of the buffer */
} tn__kstore;

enum { TN__KBUFS = 64, TN__KSCALARS = 32, TN__KSTORES = 16, TN__KSTAGES = 4 };

/* A private array of each work-group: `value` for every index of `range`, outermost first, filled in the block of
 * the loops that the value depends on beside those.  Read by STAGE {arg: number; src: one flat index}. */
typedef struct {
    tn__uop *value;
    tn__uop *range[TN__MAX_RANGES];
    int n;
    int64_t numel;
} tn__kstage;

typedef struct tn__kernel {
    tn__space sp;
    int number; /* in order of making */
    int launch; /* kernels of one launch run side by side */
    int dev;    /* device of the schedule */
    bool copy;  /* no kernel: bytes of buffer 0, on another device, to buffer 1 */
    int nbuf, nscalar, nstore, nout;
    tn__kbuf buf[TN__KBUFS];
    int scalar[TN__KSCALARS]; /* run-time scalars of the plan */
    tn_dtype scalar_dt[TN__KSCALARS];
    tn__kstore store[TN__KSTORES];
    tn__kstage stage[TN__KSTAGES];
    int nstage;
    tn__uop *out[TN__MAX_RANGES]; /* output ranges, outermost first */
    const tn__uop *root;          /* tensor form, for messages */
    tn__uop *bound
        [TN__MAX_RANGES]; /* by range number: trip count at run time (at most its size), or NULL */
    char name[48];
    tn__buf opts; /* text of the opts applied */
    int64_t grid; /* work-groups */
    bool optimised;
    bool fma;          /* the target multiplies and adds in one rounding */
    double ops, bytes; /* estimates of one launch */
} tn__kernel;
#endif
