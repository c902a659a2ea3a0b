/* SPDX-License-Identifier: MIT */
/* The vocabulary of ops.def as enum and table. */
#ifndef TN_IR_OP_H
#define TN_IR_OP_H
#include <stdint.h>

typedef enum {
#define TN_OP_ROW(name, text, nsrc, where, cls, doc) TN_OP_##name,
#include "ir/ops.def"
#undef TN_OP_ROW
    TN_OP_COUNT
} tn__op;

typedef enum {
    TN_CLASS_LEAF,
    TN_CLASS_IDENTITY,
    TN_CLASS_UNARY,
    TN_CLASS_BINARY,
    TN_CLASS_COMPARE,
    TN_CLASS_TERNARY,
    TN_CLASS_MOVE,
    TN_CLASS_REDUCE,
    TN_CLASS_DATA,
    TN_CLASS_INDEX,
    TN_CLASS_MEM,
    TN_CLASS_CONTROL
} tn__class;

typedef struct {
    const char *name;  /* "ADD" */
    const char *text;  /* "add" */
    int nsrc;          /* -1: any */
    const char *where; /* letters g, k, l */
    tn__class cls;
    const char *doc;
} tn__op_info;

extern const tn__op_info tn__ops[TN_OP_COUNT];
#endif
