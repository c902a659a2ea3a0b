/* SPDX-License-Identifier: MIT */
/* Tensors from downloads and IDX files: the bytes are copied to the device, the host's copy is dropped. */
#include "io/files.h"
#include "io/idx.h"
#include "tensor/handle.h"
#include <tenon/io.h>

/* The result of a public call: a copy of the elements, or poison with the pending error when p is NULL. */
static tn_tensor *copied(const char *name, const void *p, const int64_t *dims, int rank,
                         tn_dtype dt, const char *device)
{
    tn__call c;
    const tn_data_opts o = {.size = sizeof o, .dtype = dt, .device = device};
    if (p) return (tn_from_data)(p, &(const tn_shape){(size_t)rank, dims}, &o);
    tn__call_begin(&c, name);
    return tn__call_end(&c, NULL);
}

tn_tensor *(tn_from_url)(const char *url, const tn_from_url_opts *o)
{
    static const tn_from_url_opts none = {.size = sizeof none};
    if (!o) o = &none;
    const tn_fetch_opts f = {
        .size = sizeof f, .sha256 = o->sha256, .mirrors = o->mirrors, .gunzip = o->gunzip};
    tn__map m = {0};
    tn__enter("tn_from_url");
    char *path = (tn_fetch)(url, &f);
    const bool ok = path && tn__map_open(path, &m);
    const int64_t n = (int64_t)m.n;
    tn_tensor *t = copied("tn_from_url", !ok ? NULL : n ? m.data : "", &n, 1, TN_U8, o->device);
    tn__map_close(&m);
    tn__free(path);
    tn__leave();
    return t;
}

tn_tensor *(tn_idx_load)(const char *path, const char *device)
{
    tn__idx x = {0};
    tn__enter("tn_idx_load");
    if (!path)
        tn__fail(TN_ENULL, "tn_idx_load: path is NULL");
    else
        tn__idx_load(path, &x);
    tn_tensor *t = copied("tn_idx_load", x.data, x.dims, x.rank, x.dtype, device);
    tn__idx_free(&x);
    tn__leave();
    return t;
}
