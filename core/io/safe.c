/* SPDX-License-Identifier: MIT */
/*
 * safetensors and tensors: records are filled from handles and handles made over records.
 *
 * A tensor made here holds one reference to the open file, given back by its memory's release function.
 */
#include "io/safe.h"
#include "tensor/handle.h"
#include "ir/dtype.h"
#include <string.h>

/* ---- saving ---- */

typedef struct {
    const tn__named *ts;
    const tn__safe_rec *recs;
    void *block; /* own: elements of one tensor */
    size_t cap;
} source;

static const void *fetch(void *user, size_t i)
{
    source *s = user;
    const size_t n = s->recs[i].bytes;
    if (n > s->cap) {
        void *p = tn__realloc(s->block, n);
        if (!p) return NULL;
        s->block = p;
        s->cap = n;
    }
    return (tn_data)(s->ts[i].t, s->block, n) ? s->block : NULL;
}

static bool describe(const tn__named *t, tn__safe_rec *r)
{
    *r = (tn__safe_rec){.name = t->name};
    r->rank = tn_shape_of(t->t, r->dims);
    if (r->rank < 0) return false;
    r->dtype = tn_dtype_of(t->t);
    r->bytes = tn__dtype_size(r->dtype);
    for (int k = 0; k < r->rank; k++) r->bytes *= (size_t)r->dims[k];
    return true;
}

static bool realize(const tn__named *ts, size_t n)
{
    tn_tensor **all = tn__alloc((n + 1) * sizeof *all);
    if (!all) return false;
    for (size_t i = 0; i < n; i++) all[i] = ts[i].t;
    const bool ok = (tn_realize_all)(&(const tn_inputs){n, all});
    tn__free(all);
    return ok;
}

bool tn__safe_save(const char *path, const tn__named *ts, size_t n, const char *const *meta)
{
    size_t nmeta = 0;
    tn__safe_rec *recs = tn__alloc((n + 1) * sizeof *recs);
    source s = {.ts = ts, .recs = recs};
    bool ok = recs != NULL;
    while (meta && meta[2 * nmeta]) nmeta++;
    for (size_t i = 0; ok && i < n; i++) ok = describe(&ts[i], &recs[i]);
    ok = ok && realize(ts, n) && tn__safe_write(path, recs, n, meta, nmeta, fetch, &s);
    tn__free(s.block);
    tn__free(recs);
    return ok;
}

/* ---- loading ---- */

static _Thread_local bool released; /* by the call that runs now */

static void release(void *user)
{
    released = true;
    tn__safe_unref(user);
}

static tn_tensor *poison(void)
{
    tn__call c;
    tn__call_begin(&c, "tn_safe_load");
    return tn__call_end(&c, NULL);
}

tn_tensor *tn__safe_tensor(tn__safe *s, const char *name, const char *device)
{
    const tn__safe_rec *r = tn__safe_find(s, name);
    if (!r || !tn__safe_usable(s, r)) return poison();
    const tn_shape shape = {(size_t)r->rank, r->dims};
    tn_data_opts o = {.size = sizeof o, .dtype = r->dtype, .device = device};
    if (r->bytes == 0 || (uintptr_t)r->data % tn__dtype_size(r->dtype))
        return (tn_from_data)(r->data, &shape, &o);
    o.release = release;
    o.user = s;
    released = false;
    tn__safe_ref(s);
    tn_tensor *t = (tn_from_ptr)((void *)(uintptr_t)r->data, &shape, &o);
    if (tn_bad(t) && !released) tn__safe_unref(s);
    return t;
}
