/* SPDX-License-Identifier: MIT */
/*
 * Private part of io: safetensors files as raw records, without tensors.
 *
 * A file is an 8-byte little-endian length, a JSON header of that length, then the data.  What a reader
 * accepts has passed every check: entries are inside the data, sizes fit shapes, the data are covered
 * once and without holes.  Pointers of records point into the mapped file and live until tn__safe_unref;
 * they are as aligned as the file has them, which may be to 1.  An open file is read only: any thread.
 */
#ifndef TN_IO_SAFETENSORS_H
#define TN_IO_SAFETENSORS_H
#include "base/base.h"
#include <tenon/types.h>

typedef struct {
    const char *name;
    const char
        *dtype_name; /* as in the file: "F32"; NULL where a record is to be written: from dtype */
    tn_dtype dtype;  /* TN_DTYPE_DEFAULT: one that tensors cannot have (F8_E4M3): listed only */
    int rank;
    int64_t dims[TN_MAX_RANK];
    const void *data;
    size_t bytes;
} tn__safe_rec;

typedef struct tn__safe tn__safe;
tn__safe *tn__safe_open(const char *path); /* own */
/* The same over `n` bytes of the caller, which live longer; `name` is for messages. */
tn__safe *tn__safe_parse(void *data, size_t n, const char *name);
void tn__safe_ref(tn__safe *s);
void tn__safe_unref(tn__safe *s); /* NULL is fine */
size_t tn__safe_count(const tn__safe *s);
const tn__safe_rec *tn__safe_at(const tn__safe *s, size_t i); /* in the header's order */
/* By name; NULL and TN_EVALUE with the nearest name. */
const tn__safe_rec *tn__safe_find(const tn__safe *s, const char *name);
/* False with TN_EUNSUPPORTED when tensors cannot have the record's dtype. */
bool tn__safe_usable(const tn__safe *s, const tn__safe_rec *r);
size_t tn__safe_meta_count(const tn__safe *s);
void tn__safe_meta_at(const tn__safe *s, size_t i, const char **key, const char **value);

/* Writes records, keys in the given order, data by falling element size, so that all are aligned.  meta:
 * nmeta pairs of key and value.  get: gives the data of record i where its pointer is NULL and its size
 * is not 0 (NULL: an error is pending); valid until the next call. */
typedef const void *tn__safe_get(void *user, size_t i);
bool tn__safe_write(const char *path, const tn__safe_rec *recs, size_t n, const char *const *meta,
                    size_t nmeta, tn__safe_get *get, void *user);
#endif
