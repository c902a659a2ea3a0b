/* SPDX-License-Identifier: MIT */
/*
 * VIZ=1: the state of a plan after each stage as JSON and DOT files.
 *
 * NNNN-graph is the normal form, NNNN-kK-fused and -opts are kernel K's expressions before and after its opts,
 * NNNN-lL-linear is launch L's linear code with NNNN-lL.src beside it; NNNN counts plans of the process.  The
 * folder is made in CACHE or TMPDIR at the first plan and said once.  What cannot be written is said once too
 * and fails nothing.
 */
#include "engine/inspect.h"
#include "schedule/normal.h"
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct tn__viz {
    char dir[512];
    unsigned plan;
    tn__buf json, dot;
};

static char folder_said, folder_failed; /* keys of lines that come once */

/* ---- files ---- */

tn__viz *tn__viz_open(void)
{
    static atomic_uint plans;
    if (!tn_context_get(TN_VIZ)) return NULL;
    tn__error none;
    const bool clean = tn_ok();
    const char *base = tn_context_text(TN_CACHE);
    if (!*base) base = getenv("TMPDIR");
    if (!base || !*base) base = "/tmp";
    tn__viz *v = tn__calloc(1, sizeof *v);
    if (!v) {
        if (clean) tn__error_take(&none);
        return NULL;
    }
    v->plan = atomic_fetch_add(&plans, 1);
    mkdir(base, 0700);
    snprintf(v->dir, sizeof v->dir, "%s/viz-%ld", base, (long)getpid());
    if (mkdir(v->dir, 0700) && errno != EEXIST) {
        tn__log_once(&folder_failed, TN_LOG_WARN,
                     "viz: %s: %s: nothing is written (CACHE names another folder)", v->dir,
                     strerror(errno));
        tn__free(v);
        return NULL;
    }
    tn__log_once(&folder_said, TN_LOG_WARN, "viz: graphs are written to %s", v->dir);
    return v;
}

void tn__viz_close(tn__viz *v)
{
    if (!v) return;
    tn__buf_free(&v->json);
    tn__buf_free(&v->dot);
    tn__free(v);
}

static void write_file(const tn__viz *v, const char *stage, const char *ext, const char *data,
                       size_t len)
{
    char path[700];
    snprintf(path, sizeof path, "%s/%04u-%s.%s", v->dir, v->plan, stage, ext);
    FILE *f = fopen(path, "wb");
    const bool ok = f && fwrite(data, 1, len, f) == len;
    if (!f || fclose(f) || !ok)
        tn__log_once(&folder_failed, TN_LOG_WARN, "viz: %s: %s: graphs are missing", path,
                     strerror(errno));
}

/* ---- one graph ---- */

static void begin(tn__viz *v, const char *name)
{
    v->json.len = v->dot.len = 0;
    tn__buf_printf(&v->json, "{\"stage\": \"%s\", \"nodes\": [", name);
    tn__buf_printf(&v->dot,
                   "digraph \"%s\" {\n  node [shape=box, style=filled, fontname=\"monospace\"];\n",
                   name);
}

static void end(tn__viz *v, const char *stage)
{
    tn__buf_printf(&v->json, "\n]}\n");
    tn__buf_printf(&v->dot, "}\n");
    if (!v->json.failed) write_file(v, stage, "json", v->json.data, v->json.len);
    if (!v->dot.failed) write_file(v, stage, "dot", v->dot.data, v->dot.len);
}

static const char *colour(tn__class c)
{
    switch (c) {
    case TN_CLASS_LEAF: return "#d8e8f8";
    case TN_CLASS_REDUCE: return "#f8d0d0";
    case TN_CLASS_MOVE: return "#e8e8e8";
    case TN_CLASS_DATA: return "#f8e8c8";
    case TN_CLASS_INDEX: return "#f0f0ff";
    case TN_CLASS_MEM: return "#d8f0d8";
    case TN_CLASS_IDENTITY:
    case TN_CLASS_UNARY:
    case TN_CLASS_BINARY:
    case TN_CLASS_COMPARE:
    case TN_CLASS_TERNARY:
    case TN_CLASS_CONTROL: break;
    }
    return "#ffffff";
}

static void put_numbers(tn__buf *b, const int64_t *v, int n)
{
    for (int i = 0; i < n; i++) tn__buf_printf(b, "%s%" PRId64, i ? ", " : "", v[i]);
}

static void put_node(tn__viz *v, const tn__uop *u, bool first)
{
    const tn__op_info *op = &tn__ops[u->op];
    const char *dt = tn__dtype_name((tn_dtype)u->dt);
    char value[48] = "";
    if (u->op == TN_OP_CONST)
        snprintf(
            value, sizeof value, "%.9g",
            tn__scalar_to_double((tn_dtype)u->dt, tn__scalar_from_bits((tn_dtype)u->dt, u->bits)));
    tn__buf_printf(&v->json, "%s\n{\"id\": %u, \"op\": \"%s\", \"dtype\": \"%s\", \"shape\": [",
                   first ? "" : ",", (unsigned)u->id, op->text, dt);
    put_numbers(&v->json, u->dims, u->rank);
    tn__buf_printf(&v->json, "], \"arg\": [");
    put_numbers(&v->json, u->arg, u->narg);
    tn__buf_printf(&v->json, "]");
    if (*value) tn__buf_printf(&v->json, ", \"value\": \"%s\"", value);
    tn__buf_printf(&v->json, ", \"src\": [");
    for (int i = 0; i < u->nsrc; i++)
        tn__buf_printf(&v->json, "%s%u", i ? ", " : "", (unsigned)u->src[i]->id);
    tn__buf_printf(&v->json, "]}");
    tn__buf_printf(&v->dot, "  n%u [label=\"%s %s%s%s", (unsigned)u->id, op->text, dt,
                   *value ? " " : "", value);
    if (u->rank) {
        tn__buf_printf(&v->dot, "\\n(");
        put_numbers(&v->dot, u->dims, u->rank);
        tn__buf_printf(&v->dot, ")");
    }
    if (u->narg) {
        tn__buf_printf(&v->dot, "\\n[");
        put_numbers(&v->dot, u->arg, u->narg);
        tn__buf_printf(&v->dot, "]");
    }
    tn__buf_printf(&v->dot, "\", fillcolor=\"%s\"];\n", colour(op->cls));
    for (int i = 0; i < u->nsrc; i++)
        tn__buf_printf(&v->dot, "  n%u -> n%u;\n", (unsigned)u->src[i]->id, (unsigned)u->id);
}

/* Nodes under the roots, without touching their space. */
static bool put_graph(tn__viz *v, tn__uop *const *roots, size_t n)
{
    tn__arena a = {0};
    tn__uop **order;
    size_t count;
    uint32_t max = 0;
    for (size_t i = 0; i < n; i++) max = roots[i]->id > max ? roots[i]->id : max;
    tn__space s = {.arena = &a, .next_id = max};
    const bool ok = tn__uop_topo(&s, roots, n, &order, &count);
    for (size_t i = 0; ok && i < count; i++) put_node(v, order[i], !i);
    tn__arena_free(&a);
    return ok;
}

/* ---- stages ---- */

static void viz_graph(tn__viz *v, const tn__normal *n)
{
    tn__arena a = {0};
    tn__space s;
    tn__uop **roots;
    size_t nroot, nleaf, nscalar;
    tn__space_init(&s, &a);
    begin(v, "graph");
    if (tn__normal_parse(&s, n->bytes.data, n->bytes.len, &roots, &nroot, &nleaf, &nscalar) &&
        put_graph(v, roots, nroot))
        end(v, "graph");
    tn__space_free(&s);
    tn__arena_free(&a);
}

void tn__viz_kernels(tn__viz *v, const tn__schedule *s, const char *stage)
{
    tn__error none;
    const bool clean = tn_ok();
    for (int i = 0; i < s->nkernel; i++) {
        const tn__kernel *k = s->kernel[i];
        tn__uop *roots[TN__KSTORES * (TN_MAX_RANK + 2)];
        size_t n = 0;
        char name[64];
        for (int j = 0; j < k->nstore; j++) {
            const tn__kstore *st = &k->store[j];
            roots[n++] = st->value;
            if (st->gate) roots[n++] = st->gate;
            for (int d = 0; d < k->buf[st->buf].rank; d++) roots[n++] = st->idx[d];
        }
        snprintf(name, sizeof name, "k%d-%s", i, stage);
        begin(v, name);
        if (put_graph(v, roots, n)) end(v, name);
    }
    if (clean && !tn_ok()) tn__error_take(&none);
}

void tn__viz_schedule(tn__viz *v, const tn__normal *n, const tn__schedule *s)
{
    tn__error none;
    const bool clean = tn_ok();
    viz_graph(v, n);
    tn__viz_kernels(v, s, "fused");
    if (clean && !tn_ok()) tn__error_take(&none);
}

static void put_row(tn__viz *v, const tnl_view *w, uint32_t i)
{
    const tnl_row *r = &w->rows[i];
    const char *dt = r->dtype ? tn__dtype_name((tn_dtype)r->dtype) : "";
    tn__buf_printf(
        &v->json,
        "%s\n{\"id\": %u, \"op\": \"%s\", \"dtype\": \"%s\", \"lanes\": %u, \"imm\": %" PRId64
        ", \"src\": [",
        i ? "," : "", (unsigned)i, w->ops[r->op], dt, (unsigned)r->lanes, r->imm);
    tn__buf_printf(&v->dot, "  n%u [label=\"%u %s %s x%u\\n%" PRId64 "\"];\n", (unsigned)i,
                   (unsigned)i, w->ops[r->op], dt, (unsigned)r->lanes, r->imm);
    bool first = true;
    for (int j = 0; j < 3; j++) {
        if (r->src[j] < 0) continue;
        tn__buf_printf(&v->json, "%s%d", first ? "" : ", ", r->src[j]);
        tn__buf_printf(&v->dot, "  n%d -> n%u;\n", r->src[j], (unsigned)i);
        first = false;
    }
    tn__buf_printf(&v->json, "]}");
}

void tn__viz_linear(tn__viz *v, tn__kernel *const *k, int n, const char *entry, int launch,
                    const tn__buf *blob, const tn__buf *source)
{
    char name[64], text[TN__LABEL_SIZES * 24 + 16];
    tnl_view w;
    tn__label l;
    tn__error none;
    const bool clean = tn_ok();
    tn__label_make(&l, k, n);
    tn__label_text(&l, false, text, sizeof text);
    if (tnl_open(blob->data, blob->len, &w)) return;
    snprintf(name, sizeof name, "l%d-linear", launch);
    begin(v, name);
    for (uint32_t i = 0; i < w.head->nrows; i++) put_row(v, &w, i);
    tn__buf_printf(&v->json, "\n], \"name\": \"%s\", \"entry\": \"%s\", \"more\": [", text, entry);
    end(v, name);
    snprintf(name, sizeof name, "l%d", launch);
    if (source->len) write_file(v, name, "src", source->data, source->len);
    if (clean && !tn_ok()) tn__error_take(&none);
}
