/* SPDX-License-Identifier: MIT */
/* What the public wrappers (api_*.c) share: options, axes, devices, several results. */
#ifndef TN_TENSOR_API_H
#define TN_TENSOR_API_H
#define TN_NO_MACROS
#include "tensor/handle.h"
#include "tensor/ops.h"
#include <tenon/tensor.h>

/* The caller's options, of whatever size its struct had, over zeros; NULL: zeros. */
void tn__opts_read(void *dst, size_t full, const void *src);
#define TN__OPTS(T, name, from) \
    T name;                     \
    tn__opts_read(&(name), sizeof(name), (from))

/* Axes as a mask; ALL gives TN__ALL_AXES.  False with an error pending. */
bool tn__axes_read(const char *op, const tn__node *x, const tn_axes *ax, unsigned *mask);
bool tn__shape_read(const char *op, const tn_shape *s);   /* not NULL, at most TN_MAX_RANK */
tn__node *tn__on_device(tn__node *x, const char *device); /* NULL: stays */
/* Ends a call with n results; all are poison where one is NULL. */
bool tn__call_end_all(tn__call *c, const char *name, tn__node *const *nodes, size_t n,
                      tn_tensor **out);
/* Ends a call with a result and, where `extra` is given, a second one. */
tn_tensor *tn__call_end_two(tn__call *c, const char *name, tn__node *result, tn__node *second,
                            tn_tensor **extra);
/* Handles as nodes, on the heap (tn__free); NULL with an error pending. */
tn__node **tn__in_all(const char *op, const tn_inputs *xs);
tn__node *tn__reverse_axes(tn__node *x);
#endif
