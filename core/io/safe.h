/* SPDX-License-Identifier: MIT */
/* Private part of io: safetensors files with tensors, on a list of names and handles. */
#ifndef TN_IO_SAFE_H
#define TN_IO_SAFE_H
#include "io/safetensors.h"
#include <tenon/core.h>

typedef struct {
    const char *name;
    tn_tensor *t;
} tn__named;

/* Realises all tensors at once, then writes them in the given order; one of them at a time is copied to the
 * host.  meta: key, value, key, value, .., NULL; or NULL. */
bool tn__safe_save(const char *path, const tn__named *ts, size_t n, const char *const *meta);
/* A tensor of the innermost scope over the file's memory, which is read when it is used, where the device
 * takes host memory of its alignment; else a copy.  The file may be closed meanwhile; writes to the tensor
 * do not reach it.  Poison: no such name, or no dtype that tensors can have. */
tn_tensor *tn__safe_tensor(tn__safe *s, const char *name, const char *device);
#endif
