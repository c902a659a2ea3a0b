/* SPDX-License-Identifier: MIT */
/* Element types, opaque objects and the small parenthesised literals of the API. */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H
#include <tenon/base.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Numbers are those of the plugin ABI. */
typedef enum {
    TN_DTYPE_DEFAULT = 0,
    TN_BOOL = 1,
    TN_I8 = 2,
    TN_U8 = 3,
    TN_I16 = 4,
    TN_U16 = 5,
    TN_I32 = 6,
    TN_U32 = 7,
    TN_I64 = 8,
    TN_U64 = 9,
    TN_F16 = 10,
    TN_BF16 = 11,
    TN_F32 = 12,
    TN_F64 = 13,
    TN_DTYPES = 14
} tn_dtype;

#define TN_MAX_RANK 16

typedef struct tn_tensor tn_tensor; /* a handle: never dereferenced, may be stale */
typedef struct tn_jit tn_jit;
typedef struct tn_optim tn_optim;
typedef struct tn_visitor tn_visitor;
typedef struct tn_named_only *tn_named; /* never defined: positional integers do not convert */

typedef struct {
    size_t n;
    const int *v;
} tn_axes;
typedef struct {
    size_t n;
    const int64_t *d;
} tn_shape;
typedef struct {
    size_t n;
    tn_tensor *const *t;
} tn_inputs;
typedef struct {
    size_t n;
    const char *const *name;
} tn_devices;

TN_API size_t tn_dtype_size(tn_dtype dt);      /* bytes of one element, 0 for an unknown one */
TN_API const char *tn_dtype_name(tn_dtype dt); /* "float32"; "?" for an unknown one */

#ifdef __cplusplus
}
#endif
#endif
