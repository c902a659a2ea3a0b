/* SPDX-License-Identifier: MIT */
/*
 * State dicts: names and tensors, from an object, from a file, or put in one by one; and loading them.
 *
 * An entry holds a kept tensor, or a record of an open file that is read when it is asked for.  Loading checks
 * everything first, then gives every cell a new version: all or none.
 */
#include "nn/dict.h"
#include "device/device.h"
#include <stdio.h>
#include <string.h>

/* ---- the list ---- */

tn_state_dict *tn_state_dict_new(void) { return tn__calloc(1, sizeof(tn_state_dict)); }

void tn_state_dict_free(tn_state_dict *sd)
{
    if (!sd) return;
    for (size_t i = 0; i < sd->n; i++) {
        tn_free(sd->at[i].t);
        tn__free(sd->at[i].name);
    }
    tn__safe_unref(sd->file);
    tn__free(sd->at);
    tn__free(sd);
}

tn__entry *tn__dict_find(const tn_state_dict *sd, const char *name)
{
    for (size_t i = 0; i < sd->n; i++)
        if (!strcmp(sd->at[i].name, name)) return &sd->at[i];
    return NULL;
}

/* A new entry with nothing in it; NULL with an error, also for a name that is there. */
tn__entry *tn__dict_add(tn_state_dict *sd, const char *name)
{
    if (tn__dict_find(sd, name)) {
        tn__fail(TN_EVALUE,
                 "state: '%s' is named twice: every piece of state needs a name of its own", name);
        return NULL;
    }
    if (sd->n == sd->cap) {
        size_t cap = sd->cap ? sd->cap * 2 : 16;
        tn__entry *at = tn__realloc(sd->at, cap * sizeof *at);
        if (!at) return NULL;
        sd->at = at;
        sd->cap = cap;
    }
    tn__entry *e = &sd->at[sd->n];
    *e = (tn__entry){.name = tn__strdup(name)};
    if (!e->name) return NULL;
    sd->n++;
    return e;
}

bool tn_state_dict_put(tn_state_dict *sd, const char *name, tn_tensor *t)
{
    if (!sd || !name)
        return tn__fail(TN_ENULL, "state_dict_put: the %s is NULL", sd ? "name" : "dict");
    if (tn_ndim(t) < 0) return false;
    tn__entry *e = tn__dict_add(sd, name);
    if (!e) return false;
    tn_tensor *kept = tn_keep(t);
    if (!tn_bad(kept)) e->t = kept;
    return e->t != NULL;
}

size_t tn_state_dict_count(const tn_state_dict *sd) { return sd ? sd->n : 0; }

const char *tn_state_dict_name(const tn_state_dict *sd, size_t i)
{
    return sd && i < sd->n ? sd->at[i].name : NULL;
}

const char *tn_state_dict_metadata(const tn_state_dict *sd, const char *key)
{
    for (size_t i = 0; sd && sd->file && i < tn__safe_meta_count(sd->file); i++) {
        const char *k, *v;
        tn__safe_meta_at(sd->file, i, &k, &v);
        if (!strcmp(k, key)) return v;
    }
    return NULL;
}

/* Text about the nearest name, or "". */
static const char *hint(const tn_state_dict *sd, const char *name, char *out, size_t n)
{
    const char **names = tn__calloc(sd->n ? sd->n : 1, sizeof(const char *));
    out[0] = 0;
    for (size_t i = 0; names && i < sd->n; i++) names[i] = sd->at[i].name;
    const char *near = names ? tn__nearest(name, names, sd->n) : NULL;
    if (near) snprintf(out, n, ": did you mean '%s'?", near);
    tn__free(names);
    return out;
}

/* The value of an entry as a leaf on `place`. */
tn__node *tn__dict_leaf(const tn_state_dict *sd, const tn__entry *e, const tn__placement *place)
{
    if (!e->rec) return tn__state_in(e->t);
    if (!tn__safe_usable(sd->file, e->rec)) return NULL;
    return tn__leaf_of(e->rec->data, e->rec->dtype, e->rec->dims, e->rec->rank, place);
}

tn_tensor *tn_state_dict_get(const tn_state_dict *sd, const char *name)
{
    tn__call c;
    char near[160];
    tn__node *n = NULL;
    tn__call_begin(&c, "tn_state_dict_get");
    tn__entry *e = sd && name ? tn__dict_find(sd, name) : NULL;
    if (!sd || !name)
        tn__fail(TN_ENULL, "state_dict_get: the %s is NULL", sd ? "name" : "dict");
    else if (!e)
        tn__fail(TN_EVALUE, "state_dict_get: no '%s' among %zu tensors%s", name, sd->n,
                 hint(sd, name, near, sizeof near));
    else if (!e->rec) {
        tn__call_done(&c);
        return e->t;
    } else
        n = tn__dict_leaf(sd, e, NULL);
    return tn__call_end(&c, n);
}

/* ---- from an object ---- */

typedef struct {
    tn_state_dict *sd;
    bool ok;
} collect;

static void take_tensor(void *user, const char *name, tn_tensor **field, bool trained)
{
    collect *c = user;
    (void)trained;
    c->ok = c->ok && tn_state_dict_put(c->sd, name, *field);
}

static void take_number(void *user, const char *name, uint64_t *number)
{
    collect *c = user;
    if (!c->ok) return;
    tn_tensor *t = (tn_from_data)(number, &(const tn_shape){1, (const int64_t[]){1}},
                                  &(const tn_data_opts){.size = sizeof(tn_data_opts),
                                                        .dtype = TN_U64});
    c->ok = !tn_bad(t) && tn_state_dict_put(c->sd, name, t);
}

tn_state_dict *tn_get_state_dict(void *obj, tn_visit_fn *fn)
{
    tn_scope s = tn_scope_begin();
    collect c = {tn_state_dict_new(), true};
    bool ok = c.sd &&
              tn__visit(obj, fn,
                        &(const tn__visit_ops){.tensor = take_tensor, .number = take_number}, &c) &&
              c.ok;
    if (!ok) {
        tn_state_dict_free(c.sd);
        c.sd = NULL;
    }
    tn_scope_end(&s);
    return c.sd;
}

/* ---- loading ---- */

typedef struct {
    const tn_state_dict *sd;
    tn_load_opts o;
    char *used; /* by entry */
    tn__write *w;
    size_t n, cap;
    uint64_t *value; /* numbers, in the order of the walk */
    size_t nvalue, value_cap;
    bool ok;
} load;

static const tn__entry *entry(load *l, const char *name)
{
    const tn__entry *e = tn__dict_find(l->sd, name);
    if (e)
        l->used[e - l->sd->at] = 1;
    else if (l->o.lax && l->o.verbose)
        tn__log(TN_LOG_WARN, "load_state_dict: '%s' is not in the dict: kept as it is", name);
    else if (!l->o.lax) {
        char near[160];
        l->ok = tn__fail(TN_EVALUE,
                         "load_state_dict: no '%s' among %zu tensors%s: give .lax = true to keep "
                         "what is missing",
                         name, l->sd->n, hint(l->sd, name, near, sizeof near));
    }
    return e;
}

static bool room(void **p, size_t n, size_t *cap, size_t size)
{
    if (n < *cap) return true;
    size_t more = *cap ? *cap * 2 : 32;
    void *q = tn__realloc(*p, more * size);
    if (!q) return false;
    *p = q;
    *cap = more;
    return true;
}

/* x in the shape of `to`: equal, or one element as () and (1,). */
static tn__node *shaped(const char *name, tn__node *x, const tn__node *to)
{
    bool same = x->rank == to->rank,
         one = tn__node_numel(x) == 1 && tn__node_numel(to) == 1 && x->rank + to->rank == 1;
    for (int i = 0; same && i < x->rank; i++) same = x->dims[i] == to->dims[i];
    if (same) return x;
    if (one) return tn__reshape(x, to->dims, to->rank);
    tn__fail(TN_ESHAPE, "load_state_dict: '%s' is %s in the dict and %s here: shapes must be equal",
             name, tn__shape_text(x->dims, x->rank), tn__shape_text(to->dims, to->rank));
    return NULL;
}

static void load_tensor(void *user, const char *name, tn_tensor **field, bool trained)
{
    load *l = user;
    (void)trained;
    const tn__entry *e = l->ok ? entry(l, name) : NULL;
    if (!e) return;
    tn__node *to = tn__state_in(*field), *x = to ? tn__dict_leaf(l->sd, e, to->place) : NULL;
    if (x && x != to) {
        x = shaped(name, x, to);
        if (x) x = tn__cast(x, (tn_dtype)to->dt);
        if (x && !e->rec) x = tn__contiguous_copy(x);
    }
    l->ok = x && room((void **)&l->w, l->n, &l->cap, sizeof *l->w);
    if (l->ok && x != to) l->w[l->n++] = (tn__write){tn__cell_of(*field), x};
}

static void load_number(void *user, const char *name, uint64_t *number)
{
    load *l = user;
    const tn__entry *e = l->ok ? entry(l, name) : NULL;
    (void)number;
    if (!e) return;
    uint64_t v = 0;
    tn__node *x = tn__dict_leaf(l->sd, e, NULL);
    if (x && (x->dt != TN_U64 || tn__node_numel(x) != 1)) {
        tn__fail(TN_EDTYPE, "load_state_dict: '%s' is %s %s in the dict: a number is one uint64",
                 name, tn__dtype_name((tn_dtype)x->dt), tn__shape_text(x->dims, x->rank));
        x = NULL;
    }
    if (x && e->rec)
        memcpy(&v, e->rec->data, sizeof v);
    else if (x && !(tn_data)(e->t, &v, sizeof v))
        x = NULL;
    l->ok = x && room((void **)&l->value, l->nvalue, &l->value_cap, sizeof *l->value);
    if (l->ok) l->value[l->nvalue++] = v;
}

/* A further name of a tensor that was met: files of other libraries may have both. */
static void load_tied(void *user, const char *name, tn_tensor **field)
{
    load *l = user;
    (void)field;
    const tn__entry *e = tn__dict_find(l->sd, name);
    if (e) l->used[e - l->sd->at] = 1;
}

static bool nothing_left(const load *l)
{
    for (size_t i = 0; i < l->sd->n; i++) {
        if (l->used[i]) continue;
        if (!l->o.lax)
            return tn__fail(TN_EVALUE,
                            "load_state_dict: '%s' is in the dict and not in the object: give .lax "
                            "= true to skip it",
                            l->sd->at[i].name);
        if (l->o.verbose)
            tn__log(TN_LOG_WARN, "load_state_dict: '%s' is not in the object: skipped",
                    l->sd->at[i].name);
    }
    return true;
}

/* Numbers are written where the walker keeps them, so they are given to it in a second walk. */
typedef struct {
    const load *l;
    size_t i;
} give;

static void skip_tensor(void *user, const char *name, tn_tensor **field, bool trained)
{
    (void)user, (void)name, (void)field, (void)trained;
}

static void give_number(void *user, const char *name, uint64_t *number)
{
    give *g = user;
    const tn__entry *e = tn__dict_find(g->l->sd, name);
    if (e && g->i < g->l->nvalue) *number = g->l->value[g->i++];
}

bool(tn_load_state_dict)(void *obj, tn_visit_fn *fn, const tn_state_dict *sd,
                         const tn_load_opts *opts)
{
    tn__call c;
    load l = {.sd = sd, .ok = true};
    tn__options(&l.o, opts, sizeof l.o);
    if (!sd) return tn__fail(TN_ENULL, "load_state_dict: the dict is NULL");
    tn_scope s = tn_scope_begin();
    tn__call_begin(&c, "tn_load_state_dict");
    l.used = tn__calloc(sd->n + 1, 1);
    const tn__visit_ops ops = {.tensor = load_tensor, .number = load_number, .tied = load_tied};
    bool ok = l.used && tn__visit(obj, fn, &ops, &l) && l.ok && nothing_left(&l) &&
              tn__write_all(l.w, l.n);
    if (ok && l.nvalue) {
        give g = {&l, 0};
        ok = tn__visit(obj, fn,
                       &(const tn__visit_ops){.tensor = skip_tensor, .number = give_number}, &g);
    }
    tn__free(l.used);
    tn__free(l.w);
    tn__free(l.value);
    tn__call_done(&c);
    tn_scope_end(&s);
    return ok;
}
