/* SPDX-License-Identifier: MIT */
/* State dicts as safetensors files.  Saving computes everything at once and reads one tensor at a time. */
#include "nn/dict.h"
#include <string.h>

typedef struct {
    const tn_state_dict *sd;
    void *bytes; /* own: of the tensor last read */
    size_t cap;
} reader;

static const void *read_one(void *user, size_t i)
{
    reader *r = user;
    const tn__entry *e = &r->sd->at[i];
    size_t n = (size_t)tn_numel(e->t) * tn__dtype_size(tn_dtype_of(e->t));
    if (n > r->cap) {
        void *p = tn__realloc(r->bytes, n);
        if (!p) return NULL;
        r->bytes = p;
        r->cap = n;
    }
    return (tn_data)(e->t, r->bytes, n) ? r->bytes : NULL;
}

static bool records(const tn_state_dict *sd, tn__safe_rec *rec)
{
    for (size_t i = 0; i < sd->n; i++) {
        const tn__entry *e = &sd->at[i];
        if (e->rec) {
            rec[i] = *e->rec;
            continue;
        }
        rec[i] = (tn__safe_rec){.name = e->name, .dtype = tn_dtype_of(e->t)};
        rec[i].rank = tn_shape_of(e->t, rec[i].dims);
        if (rec[i].rank < 0) return false;
        rec[i].bytes = (size_t)tn_numel(e->t) * tn__dtype_size(rec[i].dtype);
    }
    return true;
}

/* Computes all tensors together. */
static bool compute(const tn_state_dict *sd)
{
    size_t n = 0;
    tn_tensor **t = tn__calloc(sd->n ? sd->n : 1, sizeof(tn_tensor *));
    for (size_t i = 0; t && i < sd->n; i++)
        if (sd->at[i].t) t[n++] = sd->at[i].t;
    bool ok = t && (tn_realize_all)(&(const tn_inputs){n, t});
    tn__free(t);
    return ok;
}

bool(tn_safe_save_dict)(const char *path, const tn_state_dict *sd, const tn_save_opts *opts)
{
    tn_save_opts o;
    size_t nmeta = 0;
    tn__options(&o, opts, sizeof o);
    if (!path || !sd)
        return tn__fail(TN_ENULL, "safe_save: the %s is NULL", path ? "dict" : "path");
    while (o.metadata && o.metadata[nmeta * 2]) {
        if (!o.metadata[nmeta * 2 + 1])
            return tn__fail(TN_EVALUE,
                            "safe_save: metadata '%s' has no value: write key, value, .., NULL",
                            o.metadata[nmeta * 2]);
        nmeta++;
    }
    reader r = {.sd = sd};
    tn__safe_rec *rec = tn__calloc(sd->n ? sd->n : 1, sizeof *rec);
    bool ok = rec && compute(sd) && records(sd, rec) &&
              tn__safe_write(path, rec, sd->n, o.metadata, nmeta, read_one, &r);
    tn__free(r.bytes);
    tn__free(rec);
    return ok;
}

tn_state_dict *tn_safe_load_dict(const char *path)
{
    if (!path) {
        tn__fail(TN_ENULL, "safe_load: the path is NULL");
        return NULL;
    }
    tn__safe *f = tn__safe_open(path);
    tn_state_dict *sd = f ? tn_state_dict_new() : NULL;
    if (!sd) {
        tn__safe_unref(f);
        return NULL;
    }
    sd->file = f;
    for (size_t i = 0; i < tn__safe_count(f); i++) {
        const tn__safe_rec *rec = tn__safe_at(f, i);
        tn__entry *e = tn__dict_add(sd, rec->name);
        if (!e) {
            tn_state_dict_free(sd);
            return NULL;
        }
        e->rec = rec;
    }
    return sd;
}

bool(tn_safe_save)(const char *path, void *obj, tn_visit_fn *fn, const tn_save_opts *o)
{
    tn_state_dict *sd = tn_get_state_dict(obj, fn);
    bool ok = sd && (tn_safe_save_dict)(path, sd, o);
    tn_state_dict_free(sd);
    return ok;
}

bool(tn_safe_load)(const char *path, void *obj, tn_visit_fn *fn, const tn_load_opts *o)
{
    tn_state_dict *sd = tn_safe_load_dict(path);
    bool ok = sd && (tn_load_state_dict)(obj, fn, sd, o);
    tn_state_dict_free(sd);
    return ok;
}
