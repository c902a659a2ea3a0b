/* SPDX-License-Identifier: MIT */
/*
 * Reading safetensors.
 *
 * Steps: 1 the length and the size of the file; 2 the header as JSON; 3 each entry by itself: dtype,
 * shape, offsets, that shape and offsets agree; 4 all entries together, sorted by offset: no overlap, no
 * hole, nothing left at the end.  Every refusal says which tensor and which numbers.  Records and texts
 * live in one arena.
 */
#include "io/safetensors.h"
#include "io/files.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#ifdef TN_HAVE_JANSSON
#include <jansson.h>
#endif

struct tn__safe {
    atomic_uint refs;
    tn__arena arena;
    char *name;
    tn__map map;         /* empty for bytes of the caller */
    unsigned char *data; /* behind the header */
    size_t bytes;
    tn__safe_rec *recs;
    size_t n;
    const char **meta; /* pairs */
    size_t nmeta;
};

void tn__safe_ref(tn__safe *s) { atomic_fetch_add(&s->refs, 1); }

void tn__safe_unref(tn__safe *s)
{
    if (!s || atomic_fetch_sub(&s->refs, 1) != 1) return;
    tn__map_close(&s->map);
    tn__arena_free(&s->arena);
    tn__free(s->name);
    tn__free(s);
}

size_t tn__safe_count(const tn__safe *s) { return s->n; }
const tn__safe_rec *tn__safe_at(const tn__safe *s, size_t i)
{
    return i < s->n ? &s->recs[i] : NULL;
}
size_t tn__safe_meta_count(const tn__safe *s) { return s->nmeta; }
void tn__safe_meta_at(const tn__safe *s, size_t i, const char **key, const char **value)
{
    *key = s->meta[2 * i];
    *value = s->meta[2 * i + 1];
}

const tn__safe_rec *tn__safe_find(const tn__safe *s, const char *name)
{
    const char **names;
    for (size_t i = 0; i < s->n; i++)
        if (strcmp(s->recs[i].name, name) == 0) return &s->recs[i];
    const char *near = NULL;
    if (s->n && s->n < 100000 && (names = tn__alloc(s->n * sizeof *names))) {
        for (size_t i = 0; i < s->n; i++) names[i] = s->recs[i].name;
        near = tn__nearest(name, names, s->n);
        tn__free(names);
    }
    tn__fail(TN_EVALUE, "safetensors: %s: no tensor \"%.200s\" among its %zu%s%.200s%s", s->name,
             name, s->n, near ? ": did you mean \"" : "", near ? near : "", near ? "\"?" : "");
    return NULL;
}

bool tn__safe_usable(const tn__safe *s, const tn__safe_rec *r)
{
    if (r->dtype != TN_DTYPE_DEFAULT) return true;
    return tn__fail(TN_EUNSUPPORTED,
                    "safetensors: %s: tensor \"%.200s\" is %s: no tensor can have this dtype yet: "
                    "convert the file to F16 or F32",
                    s->name, r->name, r->dtype_name);
}

#ifndef TN_HAVE_JANSSON
tn__safe *tn__safe_parse(void *data, size_t n, const char *name)
{
    (void)data;
    (void)n;
    tn__fail(TN_EUNSUPPORTED, "safetensors: %s: this build has no JSON: build with libjansson-dev",
             name);
    return NULL;
}

tn__safe *tn__safe_open(const char *path) { return tn__safe_parse(NULL, 0, path); }
#else

#define HEADER_MAX 100000000u

static const struct {
    char name[12];
    tn_dtype dtype;
    int bits;
} dtypes[] = {
    {"BOOL", TN_BOOL, 8},
    {"I8", TN_I8, 8},
    {"U8", TN_U8, 8},
    {"I16", TN_I16, 16},
    {"U16", TN_U16, 16},
    {"I32", TN_I32, 32},
    {"U32", TN_U32, 32},
    {"I64", TN_I64, 64},
    {"U64", TN_U64, 64},
    {"F16", TN_F16, 16},
    {"BF16", TN_BF16, 16},
    {"F32", TN_F32, 32},
    {"F64", TN_F64, 64},
    /* known, and listed, but not a dtype of tensors */
    {"F8_E4M3", 0, 8},
    {"F8_E5M2", 0, 8},
    {"F8_E8M0", 0, 8},
    {"F8_E4M3FNUZ", 0, 8},
    {"F8_E5M2FNUZ", 0, 8},
    {"F4", 0, 4},
    {"F6_E2M3", 0, 6},
    {"F6_E3M2", 0, 6},
    {"C64", 0, 64},
};

/* ---- step 3: one entry ---- */

static bool read_dtype(tn__safe *s, tn__safe_rec *r, const json_t *v, int *bits)
{
    const char *text = json_string_value(v);
    if (!text)
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: tensor \"%.200s\": dtype is missing or no text", s->name,
                        r->name);
    for (size_t i = 0; i < TN_LEN(dtypes); i++) {
        if (strncmp(dtypes[i].name, text, sizeof dtypes[i].name) != 0) continue;
        r->dtype = dtypes[i].dtype;
        r->dtype_name = dtypes[i].name;
        *bits = dtypes[i].bits;
        return true;
    }
    return tn__fail(TN_EFORMAT, "safetensors: %s: tensor \"%.200s\": unknown dtype \"%.40s\"",
                    s->name, r->name, text);
}

/* Dims and the number of elements. */
static bool read_shape(tn__safe *s, tn__safe_rec *r, const json_t *v, uint64_t *count)
{
    if (!json_is_array(v))
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: tensor \"%.200s\": shape is missing or no list", s->name,
                        r->name);
    const size_t rank = json_array_size(v);
    if (rank > TN_MAX_RANK)
        return tn__fail(TN_EUNSUPPORTED, "safetensors: %s: tensor \"%.200s\": rank %zu: at most %d",
                        s->name, r->name, rank, TN_MAX_RANK);
    r->rank = (int)rank;
    *count = 1;
    bool empty = false, over = false;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(v, i);
        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return tn__fail(
                TN_EFORMAT,
                "safetensors: %s: tensor \"%.200s\": dim %zu of its shape is no whole number >= 0",
                s->name, r->name, i);
        r->dims[i] = json_integer_value(d);
        if (r->dims[i] == 0)
            empty = true;
        else if (*count > UINT64_MAX / 64 / (uint64_t)r->dims[i])
            over = true;
        else
            *count *= (uint64_t)r->dims[i];
    }
    if (empty) *count = 0;
    if (!empty && over)
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: tensor \"%.200s\": the size of its shape overflows",
                        s->name, r->name);
    return true;
}

static bool read_offsets(tn__safe *s, tn__safe_rec *r, const json_t *v)
{
    const json_t *a = json_array_get(v, 0), *b = json_array_get(v, 1);
    if (!json_is_array(v) || json_array_size(v) != 2 || !json_is_integer(a) || !json_is_integer(b))
        return tn__fail(
            TN_EFORMAT,
            "safetensors: %s: tensor \"%.200s\": data_offsets is no pair of whole numbers", s->name,
            r->name);
    const json_int_t from = json_integer_value(a), to = json_integer_value(b);
    if (from < 0 || to < 0)
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: tensor \"%.200s\": negative data_offsets [%lld, %lld]",
                        s->name, r->name, (long long)from, (long long)to);
    if (from > to)
        return tn__fail(
            TN_EFORMAT,
            "safetensors: %s: tensor \"%.200s\": data_offsets [%lld, %lld] run backwards", s->name,
            r->name, (long long)from, (long long)to);
    if ((uint64_t)to > s->bytes)
        return tn__fail(
            TN_EFORMAT,
            "safetensors: %s: tensor \"%.200s\": data_offsets [%lld, %lld] leave the %zu bytes of "
            "data: the file is truncated or wrong",
            s->name, r->name, (long long)from, (long long)to, s->bytes);
    r->data = s->data + from;
    r->bytes = (size_t)(to - from);
    return true;
}

static bool read_entry(tn__safe *s, tn__safe_rec *r, const char *key, const json_t *v)
{
    int bits = 8;
    uint64_t count = 0;
    *r = (tn__safe_rec){.name = tn__arena_format(&s->arena, "%s", key)};
    if (!r->name) return false;
    if (!json_is_object(v))
        return tn__fail(TN_EFORMAT, "safetensors: %s: tensor \"%.200s\": its entry is no object",
                        s->name, key);
    if (!read_dtype(s, r, json_object_get(v, "dtype"), &bits) ||
        !read_shape(s, r, json_object_get(v, "shape"), &count) ||
        !read_offsets(s, r, json_object_get(v, "data_offsets")))
        return false;
    const uint64_t all = count * (uint64_t)bits; /* read_shape left room for 64 bits each */
    if (all % 8 || all / 8 != r->bytes)
        return tn__fail(
            TN_EFORMAT,
            "safetensors: %s: tensor \"%.200s\": %llu elements of %s are %llu bytes, its "
            "data_offsets span %zu",
            s->name, key, (unsigned long long)count, r->dtype_name, (unsigned long long)(all / 8),
            r->bytes);
    return true;
}

static bool read_meta(tn__safe *s, json_t *v)
{
    const char *key;
    json_t *text;
    if (!json_is_object(v))
        return tn__fail(TN_EFORMAT, "safetensors: %s: __metadata__ is no object", s->name);
    s->meta = tn__arena_alloc(&s->arena, (2 * json_object_size(v) + 1) * sizeof *s->meta);
    if (!s->meta) return false;
    json_object_foreach(v, key, text)
    {
        if (!json_is_string(text))
            return tn__fail(TN_EFORMAT,
                            "safetensors: %s: __metadata__: the value of \"%.200s\" is no text",
                            s->name, key);
        s->meta[2 * s->nmeta] = tn__arena_format(&s->arena, "%s", key);
        s->meta[2 * s->nmeta + 1] = tn__arena_format(&s->arena, "%s", json_string_value(text));
        if (s->arena.failed) return false;
        s->nmeta++;
    }
    return true;
}

/* ---- step 4: all entries ---- */

static int by_offset(const void *pa, const void *pb)
{
    const tn__safe_rec *a = *(const tn__safe_rec *const *)pa, *b = *(const tn__safe_rec *const *)pb;
    const uintptr_t x = (uintptr_t)a->data, y = (uintptr_t)b->data;
    if (x != y) return x < y ? -1 : 1;
    return (a->bytes > b->bytes) - (a->bytes < b->bytes);
}

static bool check_cover(tn__safe *s)
{
    const tn__safe_rec **order = tn__alloc((s->n + 1) * sizeof *order);
    size_t at = 0;
    bool ok = order != NULL;
    for (size_t i = 0; ok && i < s->n; i++) order[i] = &s->recs[i];
    if (ok) qsort(order, s->n, sizeof *order, by_offset);
    for (size_t i = 0; ok && i < s->n; i++) {
        const tn__safe_rec *r = order[i];
        const size_t from = (size_t)((const unsigned char *)r->data - s->data);
        if (from < at)
            ok = tn__fail(TN_EFORMAT,
                          "safetensors: %s: tensors \"%.200s\" and \"%.200s\" overlap at byte %zu "
                          "of the data",
                          s->name, order[i - 1]->name, r->name, from);
        else if (from > at)
            ok = tn__fail(TN_EFORMAT,
                          "safetensors: %s: bytes %zu to %zu of the data, before tensor "
                          "\"%.200s\", belong to "
                          "no tensor",
                          s->name, at, from, r->name);
        at = from + r->bytes;
    }
    if (ok && at != s->bytes)
        ok = tn__fail(
            TN_EFORMAT,
            "safetensors: %s: bytes %zu to %zu at the end of the data belong to no tensor", s->name,
            at, s->bytes);
    tn__free(order);
    return ok;
}

static bool read_entries(tn__safe *s, json_t *root)
{
    const char *key;
    json_t *v;
    s->recs = tn__arena_alloc(&s->arena, (json_object_size(root) + 1) * sizeof *s->recs);
    if (!s->recs) return false;
    json_object_foreach(root, key, v)
    {
        if (strcmp(key, "__metadata__") == 0) {
            if (!read_meta(s, v)) return false;
        } else if (read_entry(s, &s->recs[s->n], key, v)) {
            s->n++;
        } else {
            return false;
        }
    }
    return check_cover(s);
}

/* ---- steps 1 and 2 ---- */

static json_t *read_header(const tn__safe *s, const char *text, size_t n)
{
    json_error_t e;
    if (n == 0 || text[0] != '{') {
        tn__fail(TN_EFORMAT, "safetensors: %s: the header does not start with '{'", s->name);
        return NULL;
    }
    json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &e);
    if (root) return root;
    if (json_error_code(&e) == json_error_out_of_memory)
        tn__fail_nomem();
    else if (json_error_code(&e) == json_error_duplicate_key)
        tn__fail(TN_EFORMAT, "safetensors: %s: the header has a key twice: %s", s->name, e.text);
    else
        tn__fail(TN_EFORMAT, "safetensors: %s: the header is no JSON: byte %d: %s", s->name,
                 e.position, e.text);
    return NULL;
}

static bool read_all(tn__safe *s, unsigned char *p, size_t n)
{
    uint64_t len = 0;
    if (n < 8)
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: truncated: %zu bytes, the header's length alone is 8",
                        s->name, n);
    for (int i = 7; i >= 0; i--) len = len << 8 | p[i];
    if (len > HEADER_MAX)
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: a header of %llu bytes: more than %u are not allowed",
                        s->name, (unsigned long long)len, HEADER_MAX);
    if (len > n - 8)
        return tn__fail(TN_EFORMAT,
                        "safetensors: %s: truncated: a header of %llu bytes in a file of %zu",
                        s->name, (unsigned long long)len, n);
    s->data = p + 8 + len;
    s->bytes = n - 8 - (size_t)len;
    json_t *root = read_header(s, (const char *)p + 8, (size_t)len);
    if (!root) return false;
    const bool ok = read_entries(s, root);
    json_decref(root);
    return ok;
}

static tn__safe *new_safe(const char *name)
{
    tn__safe *s = tn__calloc(1, sizeof *s);
    if (!s) return NULL;
    atomic_init(&s->refs, 1);
    s->name = tn__strdup(name);
    if (s->name) return s;
    tn__free(s);
    return NULL;
}

tn__safe *tn__safe_parse(void *data, size_t n, const char *name)
{
    tn__safe *s = new_safe(name);
    if (s && read_all(s, data, n)) return s;
    tn__safe_unref(s);
    return NULL;
}

tn__safe *tn__safe_open(const char *path)
{
    tn__safe *s = new_safe(path);
    if (s && tn__map_open(path, &s->map) && read_all(s, s->map.data, s->map.n)) return s;
    tn__safe_unref(s);
    return NULL;
}
#endif
