/* SPDX-License-Identifier: MIT */
/*
 * CHECK_NAN: finds the kernel, the op and the line that first made a NaN or an infinity.
 *
 *   1. Every plan keeps, for each buffer, which records of the normal form the kernel that makes it computes,
 *      and for each record the public function and the user's line.
 *   2. After each kernel its float outputs are read; where one is not finite, so are its inputs.  A kernel
 *      with an infinity among its constants (a mask, the border of a max pool) answers for NaN only.
 *   3. The ops of the kernel that is found are then computed one by one, sources first: the first that is not
 *      finite is named.  A replay has no graph any more: it names the lines that its kernel stands for.
 *
 * Costs nothing unless CHECK_NAN is set; step 3 runs other plans, on the same thread, with it switched off.
 */
#include "engine/engine.h"
#include "engine/inspect.h"
#include "engine/plan.h"
#include "tensor/handle.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

static _Thread_local const tn__normal *graph;

void tn__inspect_graph(const tn__normal *n) { graph = n; }

/* ---- step 1 ---- */

enum { FILES = 8 };

typedef struct {
    const char *from[FILES], *copy[FILES];
    int next;
} files;

static const char *file_copy(tn__arena *a, files *f, const char *name)
{
    for (int i = 0; i < FILES; i++)
        if (f->from[i] == name) return f->copy[i];
    char *s = tn__arena_format(a, "%s", name);
    f->from[f->next] = name;
    f->copy[f->next] = s ? s : "";
    f->next = (f->next + 1) % FILES;
    return s ? s : "";
}

static bool not_finite(tn_dtype dt, tn__scalar s)
{
    return tn__dtype_is_float(dt) && !isfinite(tn__scalar_to_double(dt, s));
}

static bool copy_records(tn__plan *p, const tn__schedule *s)
{
    tn__arena *a = &p->arena;
    p->record = tn__arena_zero(a, ((size_t)p->nbuf + 1) * sizeof *p->record);
    if (!p->record) return false;
    for (int i = 0; i < s->nrecord; i++) {
        const int *from = s->record[i];
        size_t n = 0;
        if (!from) continue;
        while (from[n++] >= 0) {
        }
        int *to = tn__arena_alloc(a, n * sizeof *to);
        if (!to) return false;
        memcpy(to, from, n * sizeof *to);
        p->record[i] = to;
    }
    return true;
}

bool tn__inspect_origins(tn__plan *p, const tn__normal *n, const tn__schedule *s)
{
    tn__arena a = {0};
    tn__node **node;
    files f = {.next = 0};
    p->origin = tn__arena_zero(&p->arena, (n->nrec + 1) * sizeof *p->origin);
    bool ok = p->origin && copy_records(p, s) && tn__normal_nodes(n, &a, &node);
    for (size_t i = 0; ok && i < n->nrec; i++) {
        tn__origin *o = &p->origin[i];
        const tn__node *x = node[i];
        *o = (tn__origin){.op = "", .file = "", .kind = TN_OP_COUNT};
        if (!x) continue;
        o->op = x->loc.op ? x->loc.op : "";
        o->file = x->loc.file && *x->loc.file ? file_copy(&p->arena, &f, x->loc.file) : "";
        o->line = x->loc.line;
        o->kind = x->op;
        o->odd = x->op == TN_OP_CONST && not_finite((tn_dtype)x->dt, x->scalar);
    }
    tn__arena_free(&a);
    return ok && !p->arena.failed;
}

/* ---- step 2 ---- */

typedef struct {
    int64_t first; /* element that is not finite, -1: none */
    double value;
} found;

/* The first NaN, else the first infinity where `infinite`. */
static found look(tn_dtype dt, const char *data, int64_t n, bool infinite)
{
    const size_t size = tn__dtype_size(dt);
    found f = {-1, 0};
    for (int64_t i = 0; i < n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, data + (size_t)i * size, size);
        const double v = tn__scalar_to_double(dt, tn__scalar_from_bits(dt, bits));
        if (isfinite(v) || (!isnan(v) && (!infinite || f.first >= 0))) continue;
        f = (found){i, v};
        if (isnan(v)) break;
    }
    return f;
}

static bool look_at(const tn__plan *p, int buf, const tnp_ref *ref, bool infinite, found *out)
{
    const tn__pbuf *b = &p->buf[buf];
    const uint64_t bytes = (uint64_t)b->numel * tn__dtype_size(b->dt);
    const tnp_ref part = {ref->buf, ref->off, bytes < ref->len ? bytes : ref->len};
    *out = (found){-1, 0};
    if (!tn__dtype_is_float(b->dt) || !part.len) return true;
    char *data = tn__alloc((size_t)part.len);
    const bool ok = data && tn__ref_read(p->devs[b->dev], data, &part);
    if (ok) *out = look(b->dt, data, (int64_t)(part.len / tn__dtype_size(b->dt)), infinite);
    tn__free(data);
    return ok;
}

static bool has_odd_constant(const tn__plan *p, int buf)
{
    for (const int *r = p->record ? p->record[buf] : NULL; r && *r >= 0; r++)
        if (p->origin[*r].odd) return true;
    return false;
}

static bool inputs_finite(const tn__plan *p, const tn__plan_call *c, const tnp_ref *refs,
                          bool *finite)
{
    *finite = true;
    for (int j = 0; j < c->nbuf && *finite; j++) {
        found f;
        if (c->access[j] & TNP_ACCESS_WRITE) continue;
        if (!look_at(p, c->buf[j], &refs[j], true, &f)) return false;
        *finite = f.first < 0;
    }
    return true;
}

/* ---- step 3 ---- */

/* All elements of a node as they are in memory, own; NULL where it cannot be computed. */
static char *compute(tn__node *x)
{
    tn__build b;
    const size_t bytes = (size_t)tn__node_numel(x) * tn__dtype_size((tn_dtype)x->dt);
    tn__build_begin(&b);
    tn__node *c = tn__build_end(&b, tn__contiguous_copy(x));
    char *data = c && tn__realize_alone(c) ? tn__alloc(bytes + 1) : NULL;
    if (data && bytes) {
        const tn__value *v = atomic_load_explicit(&c->val, memory_order_acquire);
        if (!tn__buffer_read(data, v->buf[0], v->offset, bytes)) {
            tn__free(data);
            data = NULL;
        }
    }
    tn__node_unref(c);
    return data;
}

static bool computes(const tn__node *x)
{
    const tn__class c = tn__ops[x->op].cls;
    return tn__dtype_is_float((tn_dtype)x->dt) &&
           (c == TN_CLASS_UNARY || c == TN_CLASS_BINARY || c == TN_CLASS_REDUCE ||
            c == TN_CLASS_DATA || x->op == TN_OP_FOLD);
}

static void put_index(tn__buf *t, const tn__node *x, int64_t at)
{
    int64_t idx[TN_MAX_RANK];
    for (int i = x->rank - 1; i >= 0; i--) {
        idx[i] = x->dims[i] ? at % x->dims[i] : 0;
        at = x->dims[i] ? at / x->dims[i] : 0;
    }
    tn__buf_printf(t, "[");
    for (int i = 0; i < x->rank; i++) tn__buf_printf(t, "%s%" PRId64, i ? ", " : "", idx[i]);
    tn__buf_printf(t, "]");
}

/* The operands of an elementwise op at the element. */
static void put_operands(tn__buf *t, const tn__node *x, int64_t at)
{
    for (int i = 0; i < x->nsrc; i++) {
        tn__node *s = x->src[i];
        const size_t size = tn__dtype_size((tn_dtype)s->dt);
        uint64_t bits = 0;
        if (tn__node_numel(s) != tn__node_numel(x) || tn__ops[x->op].cls == TN_CLASS_DATA) return;
        char *data = compute(s);
        if (!data) return;
        memcpy(&bits, data + (size_t)at * size, size);
        tn__free(data);
        const double v = tn__scalar_to_double((tn_dtype)s->dt,
                                              tn__scalar_from_bits((tn_dtype)s->dt, bits));
        tn__buf_printf(t, "%s%.9g", i ? ", " : " of ", v);
    }
}

static const char *value_text(double v)
{
    return isnan(v) ? "NaN" : v < 0 ? "-infinity" : "infinity";
}

static void put_place(tn__buf *t, const char *op, const char *file, int line)
{
    tn__buf_printf(t, "%s", op && *op ? op : "an op of the library");
    if (file && *file) tn__buf_printf(t, " at %s:%d", file, line);
}

/* Names the first op of the kernel that is not finite; false: none was found. */
static bool name_op(const tn__plan *p, int buf, bool infinite, tn__buf *t)
{
    tn__arena a = {0};
    tn__node **node;
    bool done = false;
    TN_WITH(TN_CHECK_NAN, 0);
    if (!tn__normal_nodes(graph, &a, &node)) return false;
    for (const int *r = p->record[buf]; r && *r >= 0 && !done && tn_ok(); r++) {
        tn__node *x = node[*r];
        if (!x || !computes(x)) continue;
        char *data = compute(x);
        const found f = data ? look((tn_dtype)x->dt, data, tn__node_numel(x), infinite)
                             : (found){-1, 0};
        tn__free(data);
        if (f.first < 0) continue;
        put_place(t, x->loc.op, x->loc.file, x->loc.line);
        tn__buf_printf(t, " gives %s: %s", value_text(f.value), tn__ops[x->op].text);
        put_operands(t, x, f.first);
        tn__buf_printf(t, ", element ");
        put_index(t, x, f.first);
        tn__buf_printf(t, " of shape %s, %s", tn__shape_text(x->dims, x->rank),
                       tn__dtype_name((tn_dtype)x->dt));
        done = true;
    }
    tn__arena_free(&a);
    return done;
}

/* The distinct lines that the kernel stands for, latest first. */
static void name_lines(const tn__plan *p, int buf, const found *f, tn__buf *t)
{
    enum { MOST = 4 };
    const tn__origin *said[MOST];
    int n = 0, len = 0;
    const int *r = p->record ? p->record[buf] : NULL;
    while (r && r[len] >= 0) len++;
    for (int i = len - 1; i >= 0 && n < MOST; i--) {
        const tn__origin *o = &p->origin[r[i]];
        bool seen = !*o->op;
        for (int j = 0; j < n; j++) seen |= said[j]->line == o->line && !strcmp(said[j]->op, o->op);
        if (seen) continue;
        tn__buf_printf(t, "%s", n ? ", or " : "");
        put_place(t, o->op, o->file, o->line);
        said[n++] = o;
    }
    if (!n) tn__buf_printf(t, "an op of the library");
    tn__buf_printf(t, " gives %s, element %" PRId64, value_text(f->value), f->first);
}

static bool report(const tn__plan *p, const tn__plan_call *c, int buf, const found *f,
                   bool infinite)
{
    char name[TN__LABEL_SIZES * 24 + 16];
    tn__buf t = {0};
    tn__error e;
    const tn__capture_hook *capture = tn__capture;
    tn__label_text(&c->label, false, name, sizeof name);
    tn__capture = NULL;
    bool named = graph && p->record && p->record[buf] && name_op(p, buf, infinite, &t);
    tn__capture = capture;
    if (!tn_ok()) tn__error_take(&e); /* of the search: the finding is what matters */
    if (!named) {
        t.len = 0;
        name_lines(p, buf, f, &t);
    }
    tn__fail(TN_EVALUE,
             "check_nan: %s, in kernel %s (%s) on %s: its inputs are finite: look at them there, "
             "or unset CHECK_NAN",
             t.data ? t.data : "an op", name, c->name, tn__device_name(p->devs[c->dev]));
    tn__buf_free(&t);
    return false;
}

bool tn__inspect_values(const tn__plan *p, int i, const tnp_ref *refs)
{
    const tn__plan_call *c = &p->call[i];
    for (int j = 0; j < c->nbuf; j++) {
        found f;
        bool finite;
        if (!(c->access[j] & TNP_ACCESS_WRITE)) continue;
        const bool infinite = !has_odd_constant(p, c->buf[j]);
        if (!look_at(p, c->buf[j], &refs[j], infinite, &f)) return false;
        if (f.first < 0) continue;
        if (!inputs_finite(p, c, refs, &finite)) return false;
        if (finite) return report(p, c, c->buf[j], &f, infinite);
    }
    return true;
}
