/* SPDX-License-Identifier: MIT */
/*
 * IDX: two zero bytes, a type code, the rank, then one big-endian 32-bit size a dim, then the elements,
 * big-endian, row-major.  The size of the file must be exactly what the dims say.
 */
#include "io/idx.h"
#include "io/files.h"
#include <string.h>
#include <tenon/io.h>

static const struct {
    unsigned char code;
    tn_dtype dtype;
    size_t size;
} types[] = {{0x08, TN_U8, 1},  {0x09, TN_I8, 1},  {0x0b, TN_I16, 2},
             {0x0c, TN_I32, 4}, {0x0d, TN_F32, 4}, {0x0e, TN_F64, 8}};

/* Elements in the file's order of bytes, most significant first, to the machine's. */
static void swap_copy(unsigned char *to, const unsigned char *from, size_t bytes, size_t size)
{
    const union {
        uint16_t u;
        unsigned char c[2];
    } probe = {.u = 1};
    if (size == 1 || !probe.c[0]) {
        if (bytes) memcpy(to, from, bytes);
        return;
    }
    for (size_t i = 0; i < bytes; i += size)
        for (size_t k = 0; k < size; k++) to[i + k] = from[i + size - 1 - k];
}

bool tn__idx_parse(const void *data, size_t n, const char *name, tn__idx *out)
{
    const unsigned char *p = data;
    size_t type = 0, count = 1;
    *out = (tn__idx){0};
    if (n < 4)
        return tn__fail(TN_EFORMAT, "idx: %s: truncated: %zu bytes, the magic alone is 4", name, n);
    while (type < TN_LEN(types) && types[type].code != p[2]) type++;
    if (p[0] || p[1] || type == TN_LEN(types))
        return tn__fail(TN_EFORMAT,
                        "idx: %s: magic %02x %02x %02x %02x: an IDX file begins with 00 00, a type "
                        "(08 09 0b 0c "
                        "0d 0e) and the rank",
                        name, p[0], p[1], p[2], p[3]);
    out->dtype = types[type].dtype;
    out->rank = p[3];
    if (out->rank < 1 || out->rank > TN_MAX_RANK)
        return tn__fail(TN_EFORMAT, "idx: %s: rank %d: 1 to %d are allowed", name, out->rank,
                        TN_MAX_RANK);
    const size_t head = 4 + 4 * (size_t)out->rank;
    if (n < head)
        return tn__fail(TN_EFORMAT, "idx: %s: truncated: %zu bytes, the header alone is %zu", name,
                        n, head);
    bool over = false;
    for (int i = 0; i < out->rank; i++) {
        const unsigned char *d = p + 4 + 4 * i;
        out->dims[i] = (int64_t)d[0] << 24 | d[1] << 16 | d[2] << 8 | d[3];
        if (out->dims[i] && count > SIZE_MAX / 16 / (size_t)out->dims[i])
            over = true;
        else
            count *= (size_t)out->dims[i];
    }
    out->bytes = count * types[type].size;
    if (over || out->bytes != n - head)
        return tn__fail(TN_EFORMAT, "idx: %s: %s: its dims need %zu%s bytes of data, it has %zu",
                        name, over || out->bytes > n - head ? "truncated" : "too long",
                        over ? SIZE_MAX / 16 : out->bytes, over ? " or more" : "", n - head);
    out->data = tn__alloc(out->bytes);
    if (!out->data) return false;
    swap_copy(out->data, p + head, out->bytes, types[type].size);
    return true;
}

bool tn__idx_load(const char *path, tn__idx *out)
{
    size_t n = 0, raw_n = 0;
    void *raw = NULL;
    bool ok = false;
    *out = (tn__idx){0};
    unsigned char *p = tn__file_read(path, &n);
    if (!p) return false;
    if (n >= 2 && p[0] == 0x1f && p[1] == 0x8b) {
        if ((tn_gunzip)(p, n, &raw, &raw_n, NULL)) ok = tn__idx_parse(raw, raw_n, path, out);
    } else {
        ok = tn__idx_parse(p, n, path, out);
    }
    tn__free(raw);
    tn__free(p);
    return ok;
}

void tn__idx_free(tn__idx *x)
{
    tn__free(x->data);
    *x = (tn__idx){0};
}
