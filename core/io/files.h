/* SPDX-License-Identifier: MIT */
/*
 * Private part of io: whole files, mapped files, files that appear complete or not at all, folders,
 * SHA-256.  Errors name the path, the call and the system's text.  No state; any thread.
 */
#ifndef TN_IO_FILES_H
#define TN_IO_FILES_H
#include "base/base.h"

/* The whole file; own (tn__free), one more byte behind it is zero. */
void *tn__file_read(const char *path, size_t *n);
bool tn__file_exists(const char *path); /* a regular file; records nothing */

/* A private copy-on-write view: writing to it changes no file.  {NULL, 0} for an empty file. */
typedef struct {
    void *data;
    size_t n;
} tn__map;
bool tn__map_open(const char *path, tn__map *m);
void tn__map_close(tn__map *m);

/* Writing: a temporary file beside the target, which takes its place at the commit, on disk before the
 * call returns.  After open either commit or drop must be called; commit drops by itself when it fails. */
typedef struct {
    int fd;
    char *path, *tmp; /* own */
} tn__out;
bool tn__out_open(tn__out *o, const char *path);
bool tn__out_put(tn__out *o, const void *p, size_t n);
bool tn__out_commit(tn__out *o);
void tn__out_drop(tn__out *o);

bool tn__folder_make(const char *path); /* with its parents; fine if it is there */
/* A path in the user's cache: TN_CACHE, else XDG_CACHE_HOME/tenon, else HOME/.cache/tenon; own. */
char *tn__cache_path(const char *fmt, ...) TN_PRINTF(1, 2);

/* 64 hexadecimal digits of SHA-256 (FIPS 180-4) and a NUL. */
typedef struct {
    uint32_t h[8];
    uint64_t total;
    unsigned char block[64];
} tn__sha256;
void tn__sha256_begin(tn__sha256 *s);
void tn__sha256_put(tn__sha256 *s, const void *p, size_t n);
void tn__sha256_end(tn__sha256 *s, char hex[65]);
#endif
