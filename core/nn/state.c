/* SPDX-License-Identifier: MIT */
/*
 * State: how it is made, read and written, and the walks that need no files.
 *
 * A piece of state is a kept tensor; its value moves on by new versions of its cell, never in place from
 * here, so that expressions keep what they saw and captured steps see the new version.
 */
#include "nn/nn.h"
#include "device/device.h"
#include <string.h>

/* ---- making and reading ---- */

tn_tensor *tn__state_end(tn__call *c, tn__node *n, bool trained)
{
    tn_tensor *t = tn__call_end(c, n);
    if (!n || tn_bad(t)) return NULL;
    if (trained && tn_bad((tn_param)(t))) return NULL;
    t = tn_keep(t);
    return tn_bad(t) ? NULL : t;
}

tn__node *tn__state_in(tn_tensor *t)
{
    tn__node *n = tn__in(t);
    return n && n->op == TN_OP_PARAM ? n->src[0] : n;
}

static const tn__placement *place_or_default(const tn__placement *p)
{
    if (p) return p;
    tn__device *d = tn__device_default();
    return d ? tn__placement_one(d) : NULL;
}

tn__node *tn__filled(const tn__node *like, const tn__placement *place, tn_dtype dt, double v)
{
    const int64_t one = 1;
    const int rank = like ? like->rank : 1;
    const int64_t *dims = like ? like->dims : &one;
    size_t n = like ? (size_t)tn__node_numel(like) : 1, size = tn__dtype_size(dt);
    place = place_or_default(place);
    if (!place) return NULL;
    if (place->axis >= 0) n /= (size_t)place->n;
    uint64_t bits = tn__scalar_bits(dt, tn__scalar_from_double(dt, v));
    tn__value *val = tn__value_new(place, n * size);
    char *host = val ? tn__calloc(n ? n : 1, size) : NULL;
    bool ok = host != NULL;
    for (size_t i = 0; ok && bits && i < n; i++) memcpy(host + i * size, &bits, size);
    for (int i = 0; ok && n && i < place->n; i++)
        ok = tn__buffer_write(val->buf[i], val->offset, host, n * size);
    tn__free(host);
    if (ok) return tn__leaf(val, dt, dims, rank, place);
    tn__value_unref(val);
    return NULL;
}

/* Elements of device i of a split placement: a run of `inner` bytes out of each `outer` one. */
static bool write_part(tn__value *v, int i, const char *data, size_t outer, size_t inner,
                       size_t rows)
{
    char *part = tn__alloc(inner * rows);
    if (!part) return false;
    for (size_t r = 0; r < rows; r++)
        memcpy(part + r * inner, data + r * outer + (size_t)i * inner, inner);
    bool ok = tn__buffer_write(v->buf[i], v->offset, part, inner * rows);
    tn__free(part);
    return ok;
}

tn__node *tn__leaf_of(const void *data, tn_dtype dt, const int64_t *dims, int rank,
                      const tn__placement *place)
{
    size_t bytes = tn__dtype_size(dt), rows = 1;
    place = place_or_default(place);
    if (!place) return NULL;
    for (int i = 0; i < rank; i++) bytes *= (size_t)dims[i];
    for (int i = 0; i < place->axis; i++) rows *= (size_t)dims[i];
    size_t part = place->axis >= 0 ? bytes / (size_t)place->n : bytes;
    tn__value *v = tn__value_new(place, part);
    bool ok = v != NULL;
    for (int i = 0; ok && bytes && i < place->n; i++)
        ok = place->axis >= 0 ? write_part(v, i, data, bytes / rows, part / rows, rows)
                              : tn__buffer_write(v->buf[i], v->offset, data, bytes);
    if (ok) return tn__leaf(v, dt, dims, rank, place);
    tn__value_unref(v);
    return NULL;
}

void tn__options(void *out, const void *in, size_t size)
{
    size_t given = 0;
    memset(out, 0, size);
    if (!in) return;
    memcpy(&given, (const char *)in + offsetof(tn_nn_opts, size), sizeof given);
    memcpy(out, in, given < size ? given : size);
}

/* ---- writing ---- */

bool tn__write_all(tn__write *w, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!w[i].cell || !w[i].node) return false;
    size_t done = 0;
    tn__node **old = tn__calloc(n ? n : 1, sizeof(tn__node *));
    for (size_t i = 0; old && i < n; i++) {
        old[i] = w[i].cell->cur;
        tn__node_ref(old[i]);
    }
    while (old && done < n && tn__cell_write(w[done].cell, w[done].node)) done++;
    bool ok = old && done == n;
    while (old && !ok && done > 0) {
        done--;
        (void)tn__cell_write(w[done].cell, old[done]);
    }
    for (size_t i = 0; old && i < n; i++) tn__node_unref(old[i]);
    tn__free(old);
    return ok;
}

bool tn__run_step(void) { return (tn_realize_all)(NULL); }

/* ---- walks ---- */

typedef struct {
    tn_each_fn *each;
    void *user;
} each_user;

static void each_tensor(void *user, const char *name, tn_tensor **field, bool trained)
{
    each_user *e = user;
    e->each(e->user, name, field, trained);
}

bool tn_state_each(void *obj, tn_visit_fn *fn, tn_each_fn *each, void *user)
{
    each_user e = {each, user};
    return tn__visit(obj, fn, &(const tn__visit_ops){.tensor = each_tensor}, &e);
}

static void add_count(void *user, const char *name, tn_tensor **field, bool trained)
{
    int64_t *sum = user, n = trained ? tn_numel(*field) : 0;
    (void)name;
    *sum = n < 0 || *sum < 0 ? -1 : *sum + n;
}

int64_t tn_state_count(void *obj, tn_visit_fn *fn)
{
    int64_t sum = 0;
    return tn_state_each(obj, fn, add_count, &sum) ? sum : -1;
}

typedef struct {
    tn_tensor **t;
    size_t n, cap;
    bool trained_only;
} list;

static void add_to_list(void *user, const char *name, tn_tensor **field, bool trained)
{
    list *l = user;
    (void)name;
    if (!trained && l->trained_only) return;
    if (l->n < l->cap) l->t[l->n] = *field;
    l->n++;
}

size_t tn_state_parameters(void *obj, tn_visit_fn *fn, tn_tensor **out, size_t cap)
{
    list l = {.t = out, .cap = out ? cap : 0, .trained_only = true};
    return tn_state_each(obj, fn, add_to_list, &l) ? l.n : 0;
}

static void free_one(void *user, const char *name, tn_tensor **field, bool trained)
{
    (void)user, (void)name, (void)trained;
    tn_free(*field);
    *field = NULL;
}

static void forget_tied(void *user, const char *name, tn_tensor **field)
{
    (void)user, (void)name;
    *field = NULL;
}

void tn_state_free(void *obj, tn_visit_fn *fn)
{
    if (obj && fn)
        tn__visit(obj, fn, &(const tn__visit_ops){.tensor = free_one, .tied = forget_tied}, NULL);
}

/* All tensors of obj; own (tn__free), NULL with an error. */
static tn_tensor **all_of(void *obj, tn_visit_fn *fn, size_t *n)
{
    list l = {0};
    if (!tn_state_each(obj, fn, add_to_list, &l)) return NULL;
    l.cap = l.n;
    l.t = tn__calloc(l.n ? l.n : 1, sizeof(tn_tensor *));
    l.n = 0;
    if (l.t && !tn_state_each(obj, fn, add_to_list, &l)) {
        tn__free(l.t);
        l.t = NULL;
    }
    *n = l.n;
    return l.t;
}

bool tn_state_realize(void *obj, tn_visit_fn *fn)
{
    size_t n = 0;
    tn_tensor **t = all_of(obj, fn, &n);
    bool ok = t && (tn_realize_all)(&(const tn_inputs){n, t});
    tn__free(t);
    return ok;
}

/* ---- walks that give every tensor a new version ---- */

typedef struct {
    tn_dtype dt;
    const tn_devices *devices;
    int axis;
} change;
typedef tn__node *change_fn(const change *c, tn__node *x);

static bool change_all(const char *name, void *obj, tn_visit_fn *fn, change_fn *f,
                       const change *how)
{
    tn__call c;
    size_t n = 0;
    tn__call_begin(&c, name);
    tn_tensor **t = all_of(obj, fn, &n);
    tn__write *w = t ? tn__calloc(n ? n : 1, sizeof *w) : NULL;
    bool ok = w != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        tn__node *x = tn__state_in(t[i]);
        w[i].cell = x ? tn__cell_of(t[i]) : NULL;
        w[i].node = w[i].cell ? f(how, x) : NULL;
        ok = w[i].node != NULL;
    }
    ok = ok && tn__write_all(w, n);
    tn__free(w);
    tn__free(t);
    tn__call_done(&c);
    return ok;
}

static tn__node *cast_one(const change *c, tn__node *x)
{
    return tn__dtype_is_float((tn_dtype)x->dt) ? tn__cast(x, c->dt) : x;
}

bool tn_state_cast(void *obj, tn_visit_fn *fn, tn_dtype dt)
{
    if (!tn__dtype_is_float(dt))
        return tn__fail(TN_EDTYPE, "state_cast: %s: takes a floating-point dtype",
                        tn__dtype_name(dt));
    return change_all("tn_state_cast", obj, fn, cast_one, &(const change){.dt = dt});
}

static tn__node *place_one(const change *c, tn__node *x)
{
    tn__device *dev[16];
    const size_t n = c->devices->n;
    int axis = c->axis;
    for (size_t i = 0; i < n; i++)
        if (!(dev[i] = tn__device_get(c->devices->name[i]))) return NULL;
    if (axis >= 0 && (axis >= x->rank || x->dims[axis] % (int64_t)n)) {
        tn__fail(TN_ESHAPE,
                 "state_shard: %s along axis %d over %zu devices: the axis must be there and "
                 "divide evenly",
                 tn__shape_text(x->dims, x->rank), axis, n);
        return NULL;
    }
    const tn__placement *p = tn__placement_get(dev, (int)n, axis);
    return p ? tn__copy_to(x, p) : NULL;
}

static bool place_all(const char *name, void *obj, tn_visit_fn *fn, const tn_devices *devices,
                      int axis)
{
    if (!devices || !devices->n || devices->n > 16)
        return tn__fail(TN_EVALUE,
                        "%s: %zu devices: takes 1 to 16: write DEVICES(\"...\", \"...\")", name + 3,
                        devices ? devices->n : 0);
    return change_all(name, obj, fn, place_one, &(const change){.devices = devices, .axis = axis});
}

bool tn_state_replicate(void *obj, tn_visit_fn *fn, const tn_devices *devices)
{
    return place_all("tn_state_replicate", obj, fn, devices, -1);
}

bool tn_state_shard(void *obj, tn_visit_fn *fn, const tn_devices *devices, int axis)
{
    if (axis < 0) return tn__fail(TN_EAXIS, "state_shard: axis %d: must not be negative", axis);
    return place_all("tn_state_shard", obj, fn, devices, axis);
}
