/* SPDX-License-Identifier: MIT */
/*
 * gz in memory.  Members follow each other; each begins with its magic, ends with the checksum that zlib
 * verifies.  Zero bytes after the last member are padding; anything else is an error.  zlib's own
 * memory comes from the library's allocator.
 */
#include "io/files.h"
#include <string.h>
#include <tenon/io.h>
#ifdef TN_HAVE_ZLIB
#include <zlib.h>
#endif

#define DEFAULT_MAX (UINT64_C(16) << 30)

void tn_bytes_free(void *p) { tn__free(p); }

bool tn_read_file(const char *path, void **data, size_t *n)
{
    tn__enter("tn_read_file");
    *data = NULL;
    *n = 0;
    if (!path)
        tn__fail(TN_ENULL, "tn_read_file: path is NULL");
    else
        *data = tn__file_read(path, n);
    tn__leave();
    return *data != NULL;
}

#ifndef TN_HAVE_ZLIB
bool(tn_gunzip)(const void *gz, size_t n, void **out, size_t *out_n, const tn_gunzip_opts *o)
{
    (void)gz, (void)n, (void)o;
    *out = NULL;
    *out_n = 0;
    return tn__fail(
        TN_EUNSUPPORTED,
        "gunzip: this build has no zlib: build with zlib1g-dev, or unpack the file first");
}
#else

static void *z_alloc(void *user, unsigned n, unsigned size)
{
    (void)user;
    return tn__calloc(n, size);
}

static void z_free(void *user, void *p)
{
    (void)user;
    tn__free(p);
}

typedef struct {
    z_stream z;
    const unsigned char *in;
    size_t left; /* not yet given to z */
    unsigned char *out;
    size_t len, cap;
    uint64_t max;
} job;

static bool more_room(job *j)
{
    const size_t cap = j->cap < 32768 ? 65536 : j->cap * 2;
    if (j->len < j->cap) return true;
    if (j->cap >= j->max)
        return tn__fail(TN_EFORMAT, "gunzip: more than the limit of %llu bytes",
                        (unsigned long long)j->max);
    const size_t want = cap > j->max ? (size_t)j->max : cap;
    unsigned char *p = tn__realloc(j->out, want + 1);
    if (!p) return false;
    j->out = p;
    j->cap = want;
    return true;
}

static bool inflate_failed(const job *j, int rc)
{
    if (rc == Z_MEM_ERROR) return tn__fail_nomem();
    if (rc == Z_BUF_ERROR)
        return tn__fail(TN_EFORMAT,
                        "gunzip: truncated: the data end in the middle, after %zu unpacked bytes",
                        j->len);
    return tn__fail(TN_EFORMAT, "gunzip: broken data after %zu unpacked bytes: %s", j->len,
                    j->z.msg ? j->z.msg : "zlib error");
}

/* One member; what follows it stays in z.next_in and left. */
static bool member(job *j)
{
    int rc = Z_OK;
    while (rc != Z_STREAM_END) {
        if (!more_room(j)) return false;
        if (j->z.avail_in == 0 && j->left) {
            j->z.next_in = (Bytef *)(uintptr_t)j->in;
            j->z.avail_in = (uInt)(j->left < (1u << 30) ? j->left : 1u << 30);
            j->in += j->z.avail_in;
            j->left -= j->z.avail_in;
        }
        const size_t room = j->cap - j->len;
        j->z.next_out = j->out + j->len;
        j->z.avail_out = (uInt)(room < (1u << 30) ? room : 1u << 30);
        const uInt before = j->z.avail_out;
        rc = inflate(&j->z, Z_NO_FLUSH);
        j->len += before - j->z.avail_out;
        if (rc == Z_BUF_ERROR && j->z.avail_out == 0) rc = Z_OK; /* it wants room */
        if (rc != Z_OK && rc != Z_STREAM_END) return inflate_failed(j, rc);
    }
    return true;
}

/* Bytes that are not unpacked yet. */
static size_t rest(const job *j) { return j->z.avail_in + j->left; }

static bool padding(const job *j)
{
    for (uInt i = 0; i < j->z.avail_in; i++)
        if (j->z.next_in[i]) return false;
    for (size_t i = 0; i < j->left; i++)
        if (j->in[i]) return false;
    return true;
}

static bool members(job *j, const unsigned char *gz, size_t n)
{
    if (n < 2 || gz[0] != 0x1f || gz[1] != 0x8b)
        return tn__fail(TN_EFORMAT, "gunzip: %zu bytes that do not begin with the gz magic 1f 8b",
                        n);
    for (;;) {
        if (!member(j)) return false;
        if (rest(j) == 0 || padding(j)) return true;
        const unsigned char *next = j->z.avail_in ? j->z.next_in : j->in;
        if (next[0] != 0x1f)
            return tn__fail(TN_EFORMAT, "gunzip: %zu bytes after the end that are no gz data",
                            rest(j));
        const int rc = inflateReset(&j->z);
        if (rc != Z_OK) return inflate_failed(j, rc);
    }
}

bool(tn_gunzip)(const void *gz, size_t n, void **out, size_t *out_n, const tn_gunzip_opts *o)
{
    job j = {.z = {.zalloc = z_alloc, .zfree = z_free}, .in = gz, .left = n, .max = DEFAULT_MAX};
    *out = NULL;
    *out_n = 0;
    tn__enter("tn_gunzip");
    if (o && o->max_bytes) j.max = o->max_bytes;
    if (j.max > SIZE_MAX / 4) j.max = SIZE_MAX / 4;
    const int rc = inflateInit2(&j.z, 16 + MAX_WBITS);
    bool ok = rc == Z_OK || inflate_failed(&j, rc);
    if (ok) {
        ok = members(&j, gz, n);
        inflateEnd(&j.z);
    }
    if (ok && !j.out) ok = more_room(&j);
    if (ok) {
        j.out[j.len] = 0;
        *out = j.out;
        *out_n = j.len;
    } else {
        tn__free(j.out);
    }
    tn__leave();
    return ok;
}
#endif
