/* SPDX-License-Identifier: MIT */
/*
 * Writing safetensors: the header is made in memory, then header and data stream into a file that takes
 * the target's place only when all of it is on disk (files.c).
 *
 * Keys stand in the caller's order; data are laid out by falling element size (8, 4, 2, 1 bytes), stable
 * within one size, and the header is padded with spaces to a multiple of 8, so that every tensor is
 * aligned to its element without gaps, which the format forbids.
 */
#include "io/safetensors.h"
#include "io/files.h"
#include <stdlib.h>
#include <string.h>

#ifndef TN_HAVE_JANSSON
bool tn__safe_write(const char *path, const tn__safe_rec *recs, size_t n, const char *const *meta,
                    size_t nmeta, tn__safe_get *get, void *user)
{
    (void)recs, (void)n, (void)meta, (void)nmeta, (void)get, (void)user;
    return tn__fail(TN_EUNSUPPORTED,
                    "safetensors: %s: this build has no JSON: build with libjansson-dev", path);
}
#else

static const char *const names[TN_DTYPES] = {
    [TN_BOOL] = "BOOL", [TN_I8] = "I8",   [TN_U8] = "U8",   [TN_I16] = "I16", [TN_U16] = "U16",
    [TN_I32] = "I32",   [TN_U32] = "U32", [TN_I64] = "I64", [TN_U64] = "U64", [TN_F16] = "F16",
    [TN_BF16] = "BF16", [TN_F32] = "F32", [TN_F64] = "F64",
};

/* Bytes of the UTF-8 sequence at p (RFC 3629), 0 if it is none. */
static int utf8(const unsigned char *p)
{
    const int n = p[0] < 0x80                   ? 1
                  : p[0] >= 0xc2 && p[0] < 0xe0 ? 2
                  : p[0] >= 0xe0 && p[0] < 0xf0 ? 3
                  : p[0] >= 0xf0 && p[0] < 0xf5 ? 4
                                                : 0;
    for (int i = 1; i < n; i++)
        if ((p[i] & 0xc0) != 0x80) return 0;
    if ((p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xed && p[1] > 0x9f)) return 0;
    if ((p[0] == 0xf0 && p[1] < 0x90) || (p[0] == 0xf4 && p[1] > 0x8f)) return 0;
    return n;
}

static bool put_text(tn__buf *b, const char *text, const char *path)
{
    bool ok = tn__buf_put(b, "\"", 1);
    for (const unsigned char *p = (const unsigned char *)text; ok && *p;) {
        const int n = utf8(p);
        if (!n)
            return tn__fail(TN_EVALUE, "safetensors: %s: a key or a metadata text is no UTF-8",
                            path);
        if (*p == '"' || *p == '\\')
            ok = tn__buf_printf(b, "\\%c", *p);
        else if (*p < 0x20)
            ok = tn__buf_printf(b, "\\u%04x", *p);
        else
            ok = tn__buf_put(b, p, (size_t)n);
        p += n;
    }
    return ok && tn__buf_put(b, "\"", 1);
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* No text twice among n, `stride` apart. */
static bool distinct(const char *path, const char *what, const char *const *texts, size_t n)
{
    const char **sorted = tn__alloc((n + 1) * sizeof *sorted);
    bool ok = sorted != NULL;
    for (size_t i = 0; ok && i < n; i++) sorted[i] = texts[i];
    if (ok) qsort(sorted, n, sizeof *sorted, by_text);
    for (size_t i = 1; ok && i < n; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            ok = tn__fail(TN_EVALUE, "safetensors: %s: %s \"%.200s\" is given twice", path, what,
                          sorted[i]);
    tn__free(sorted);
    return ok;
}

static bool check_rec(const char *path, const tn__safe_rec *r, size_t i, bool get)
{
    if (!r->name) return tn__fail(TN_ENULL, "safetensors: %s: tensor %zu has no name", path, i);
    if (strcmp(r->name, "__metadata__") == 0)
        return tn__fail(TN_EVALUE,
                        "safetensors: %s: \"__metadata__\" cannot be the name of a tensor", path);
    if ((int)r->dtype <= 0 || r->dtype >= TN_DTYPES || r->rank < 0 || r->rank > TN_MAX_RANK)
        return tn__fail(TN_EVALUE,
                        "safetensors: %s: tensor \"%.200s\": dtype %d or rank %d is not possible",
                        path, r->name, (int)r->dtype, r->rank);
    size_t bytes = tn_dtype_size(r->dtype);
    for (int k = 0; k < r->rank; k++) {
        if (r->dims[k] < 0 || (r->dims[k] > 0 && bytes > SIZE_MAX / 2 / (size_t)r->dims[k]))
            return tn__fail(TN_EVALUE, "safetensors: %s: tensor \"%.200s\": dim %d is %lld", path,
                            r->name, k, (long long)r->dims[k]);
        bytes *= (size_t)r->dims[k];
    }
    if (bytes != r->bytes)
        return tn__fail(
            TN_EVALUE,
            "safetensors: %s: tensor \"%.200s\" has %zu bytes, its shape and dtype need %zu", path,
            r->name, r->bytes, bytes);
    if (!r->data && r->bytes && !get)
        return tn__fail(TN_ENULL, "safetensors: %s: tensor \"%.200s\" has no data", path, r->name);
    return true;
}

static bool check_all(const char *path, const tn__safe_rec *recs, size_t n, const char *const *meta,
                      size_t nmeta, bool get)
{
    const char **keys = tn__alloc((n + nmeta + 1) * sizeof *keys);
    bool ok = keys != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        ok = check_rec(path, &recs[i], i, get);
        keys[i] = recs[i].name;
    }
    ok = ok && distinct(path, "tensor", keys, n);
    for (size_t i = 0; ok && i < nmeta; i++) {
        keys[i] = meta[2 * i];
        if (!meta[2 * i] || !meta[2 * i + 1])
            ok = tn__fail(TN_ENULL, "safetensors: %s: metadata pair %zu has a NULL text", path, i);
    }
    ok = ok && distinct(path, "metadata key", keys, nmeta);
    tn__free(keys);
    return ok;
}

/* Byte offsets of all records, by falling element size. */
static void lay_out(const tn__safe_rec *recs, size_t n, uint64_t *offset)
{
    uint64_t at = 0;
    for (size_t size = 8; size >= 1; size /= 2)
        for (size_t i = 0; i < n; i++) {
            if (tn_dtype_size(recs[i].dtype) != size) continue;
            offset[i] = at;
            at += recs[i].bytes;
        }
}

static bool put_header(tn__buf *b, const char *path, const tn__safe_rec *recs, size_t n,
                       const char *const *meta, size_t nmeta, const uint64_t *offset)
{
    bool ok = tn__buf_put(b, "\0\0\0\0\0\0\0\0{", 9);
    for (size_t i = 0; ok && i < nmeta; i++)
        ok = (i ? tn__buf_put(b, ",", 1) : tn__buf_printf(b, "\"__metadata__\":{")) &&
             put_text(b, meta[2 * i], path) && tn__buf_put(b, ":", 1) &&
             put_text(b, meta[2 * i + 1], path);
    if (ok && nmeta) ok = tn__buf_put(b, "}", 1);
    for (size_t i = 0; ok && i < n; i++) {
        const tn__safe_rec *r = &recs[i];
        ok = (!i && !nmeta) || tn__buf_put(b, ",", 1);
        ok = ok && put_text(b, r->name, path) &&
             tn__buf_printf(b, ":{\"dtype\":\"%s\",\"shape\":[", names[r->dtype]);
        for (int k = 0; ok && k < r->rank; k++)
            ok = tn__buf_printf(b, k ? ",%lld" : "%lld", (long long)r->dims[k]);
        ok = ok &&
             tn__buf_printf(b, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)offset[i],
                            (unsigned long long)(offset[i] + r->bytes));
    }
    ok = ok && tn__buf_put(b, "}", 1);
    while (ok && b->len % 8) ok = tn__buf_put(b, " ", 1);
    if (ok)
        for (int i = 0; i < 8; i++) b->data[i] = (char)((uint64_t)(b->len - 8) >> (8 * i));
    return ok;
}

static bool put_data(tn__out *o, const tn__safe_rec *recs, size_t n, tn__safe_get *get, void *user)
{
    for (size_t size = 8; size >= 1; size /= 2)
        for (size_t i = 0; i < n; i++) {
            if (tn_dtype_size(recs[i].dtype) != size || !recs[i].bytes) continue;
            const void *p = recs[i].data ? recs[i].data : get(user, i);
            if (!p || !tn__out_put(o, p, recs[i].bytes)) return false;
        }
    return true;
}

bool tn__safe_write(const char *path, const tn__safe_rec *recs, size_t n, const char *const *meta,
                    size_t nmeta, tn__safe_get *get, void *user)
{
    tn__buf head = {0};
    tn__out o;
    if (!check_all(path, recs, n, meta, nmeta, get != NULL)) return false;
    uint64_t *offset = tn__alloc((n + 1) * sizeof *offset);
    if (!offset) return false;
    lay_out(recs, n, offset);
    bool ok = put_header(&head, path, recs, n, meta, nmeta, offset);
    if (ok && head.len - 8 > 100000000u)
        ok = tn__fail(TN_EVALUE,
                      "safetensors: %s: a header of %zu bytes: more than 100000000 are not allowed",
                      path, head.len - 8);
    if (ok && (ok = tn__out_open(&o, path))) {
        ok = tn__out_put(&o, head.data, head.len) && put_data(&o, recs, n, get, user);
        if (ok)
            ok = tn__out_commit(&o);
        else
            tn__out_drop(&o);
    }
    tn__buf_free(&head);
    tn__free(offset);
    return ok;
}
#endif
