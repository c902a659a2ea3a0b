/* SPDX-License-Identifier: MIT */
/*
 * Private part of io: IDX files (the format of MNIST) and folders of data sets, as bytes without tensors.
 */
#ifndef TN_IO_IDX_H
#define TN_IO_IDX_H
#include "base/base.h"
#include <tenon/types.h>

typedef struct {
    tn_dtype dtype; /* U8 I8 I16 I32 F32 F64 */
    int rank;
    int64_t dims[TN_MAX_RANK];
    void *data; /* own, in this machine's byte order; aligned */
    size_t bytes;
} tn__idx;

/* From memory (copies) or from a file, which may be gz; `name` is for messages. */
bool tn__idx_parse(const void *p, size_t n, const char *name, tn__idx *out);
bool tn__idx_load(const char *path, tn__idx *out);
void tn__idx_free(tn__idx *x);

/* The four files of a set in MNIST's shape: images uint8 (n, h, w), labels uint8 (n). */
typedef struct {
    tn__idx train_images, train_labels, test_images, test_labels;
} tn__mnist_raw;
typedef enum { TN__MNIST, TN__FASHION } tn__mnist_kind;
/* Looks in `folder` if given, and nowhere else; else in TENON_DATASETS, the user's cache, for Fashion-MNIST in
 * Debian's folder; else downloads into the cache.  Each folder itself or its mnist/ (fashion-mnist/), files
 * plain or .gz.  The error lists where it looked. */
bool tn__mnist_files(tn__mnist_kind kind, const char *folder, tn__mnist_raw *out);
void tn__mnist_free(tn__mnist_raw *m);

/* CIFAR-10's binary version: images uint8 (n, 3, 32, 32), labels uint8 (n); the places are those of MNIST: the
 * folder itself or its cifar-10-batches-bin/, holding the six .bin files or cifar-10-binary.tar.gz.  Freed
 * by tn__mnist_free. */
bool tn__cifar_files(const char *folder, tn__mnist_raw *out);
#endif
