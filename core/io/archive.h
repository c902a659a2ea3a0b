/* SPDX-License-Identifier: MIT */
/* Private part of io: archives entry by entry, without writing files. */
#ifndef TN_IO_ARCHIVE_H
#define TN_IO_ARCHIVE_H
#include "base/base.h"

typedef enum { TN__TAR, TN__ZIP } tn__archive_kind;
/* Calls fn for each regular file with its bytes (borrowed for the call); fn false: stop, an error is
 * pending.  Entries that extraction would refuse are refused here too.  max_bytes: of all files together. */
typedef bool tn__archive_fn(void *user, const char *name, const void *data, size_t n);
bool tn__archive_each(const char *path, tn__archive_kind kind, uint64_t max_bytes,
                      tn__archive_fn *fn, void *user);
/* The same over bytes in memory; `name` is for messages. */
bool tn__archive_each_in(const void *p, size_t n, const char *name, tn__archive_kind kind,
                         uint64_t max_bytes, tn__archive_fn *fn, void *user);
#endif
