/* SPDX-License-Identifier: MIT */
/*
 * Files and downloads: bytes in and out, gz, tar and zip, IDX, a download with cache, checksum and mirrors.
 *
 * Each of these needs a library that a build may lack (zlib, libarchive, libcurl); the error says which,
 * TN_EUNSUPPORTED.  Memory that a function here hands out is given back with tn_bytes_free.
 */
#ifndef TENON_IO_H
#define TENON_IO_H
#include <tenon/core.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Frees what tn_read_file, tn_gunzip and tn_fetch gave; NULL is fine. */
TN_API void tn_bytes_free(void *p);
/* A whole file into *data (own) with its length; one zero byte stands behind it.  fails IO NOMEM */
TN_API bool tn_read_file(const char *path, void **data, size_t *n);

typedef struct {
    tn_named named;
    size_t size;
    uint64_t max_bytes; /* of the result; default 16 GiB */
} tn_gunzip_opts;
/* Unpacks a gz file in memory (RFC 1952, any number of members) into *out (own).
 * fails FORMAT (not gz, truncated, wrong checksum, too large) NOMEM UNSUPPORTED */
TN_API bool tn_gunzip(const void *gz, size_t n, void **out, size_t *out_n, const tn_gunzip_opts *o);

typedef struct {
    tn_named named;
    size_t size;
    uint64_t max_bytes;   /* of all files together; default 16 GiB */
    uint64_t max_entries; /* default 1,000,000 */
} tn_extract_opts;
/* Unpacks a tar (plain, gz, bzip2, xz) or zip file into a folder, which is made where it is missing.
 * Only folders and regular files are taken; an archive with an absolute path, a `..`, a link or a device
 * is refused as a whole before anything is written.  fails FORMAT IO NOMEM UNSUPPORTED */
TN_API bool tn_tar_extract(const char *archive, const char *folder, const tn_extract_opts *o);
/* The same for zip. */
TN_API bool tn_zip_extract(const char *archive, const char *folder, const tn_extract_opts *o);

typedef struct {
    tn_named named;
    size_t size;
    const char *sha256; /* 64 hexadecimal digits that the result must have; NULL: not checked */
    const char *const *mirrors; /* further URLs of the same file, NULL-ended; tried in order */
    const char *name;           /* in the cache; default: made from the URL */
    bool gunzip;                /* keep the unpacked file; sha256 is that of the unpacked one */
    int tries;                  /* a URL; default 2 */
    int connect_seconds;        /* default 10 */
} tn_fetch_opts;
/* Downloads a file (http, https) into the user's cache and gives its path (own, tn_bytes_free).  A file
 * that is there is not loaded again; a download that broke off goes on where it stopped.  NULL on
 * failure: fails IO (the text has each URL's reason) FORMAT (checksum) NOMEM UNSUPPORTED */
TN_API char *tn_fetch(const char *url, const tn_fetch_opts *o);

typedef struct {
    tn_named named;
    size_t size;
    bool gunzip;                /* the unpacked bytes */
    const char *sha256;         /* as in tn_fetch_opts */
    const char *const *mirrors; /* as in tn_fetch_opts */
    const char *device;         /* default: that of TN_WITH_DEVICE, DEV, or the best there is */
} tn_from_url_opts;
/* The bytes of a download (tn_fetch) as uint8 (n).  A tensor of the innermost scope; poison on failure. */
TN_API tn_tensor *tn_from_url(const char *url, const tn_from_url_opts *o);
/* An IDX file, plain or gz: its dims, and uint8, int8, int16, int32, float32 or float64.  A tensor of
 * the innermost scope; poison on failure.  fails IO FORMAT NOMEM */
TN_API tn_tensor *tn_idx_load(const char *path, const char *device);

#ifdef __cplusplus
}
#endif

#if !defined(__cplusplus) && !defined(TN_NO_MACROS)
#define tn_gunzip(...)      TN_OPT4(tn_gunzip, tn_gunzip_opts, __VA_ARGS__)
#define tn_tar_extract(...) TN_OPT2(tn_tar_extract, tn_extract_opts, __VA_ARGS__)
#define tn_zip_extract(...) TN_OPT2(tn_zip_extract, tn_extract_opts, __VA_ARGS__)
#define tn_fetch(...)       TN_OPT1(tn_fetch, tn_fetch_opts, __VA_ARGS__)
#define tn_from_url(...)    TN_OPT1(tn_from_url, tn_from_url_opts, __VA_ARGS__)
#define tn_idx_load(p, d)   TN_CALL2(tn_idx_load, p, d)
#endif
#endif
