/* SPDX-License-Identifier: MIT */
/*
 * Names of kernels for people and the lines of DEBUG.
 *
 * A name is "E" (elementwise) or "r" (it reduces) and the sizes of the kernel's ranges as its opts left them:
 * work-groups and loops, loops of reductions, then what was unrolled into registers and lanes.  The entry
 * symbol stays the hash of the code.  Everything is logged as TN_LOG_INFO.
 */
#include "engine/inspect.h"
#include "codegen/opts.h"
#include "engine/plan.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- names ---- */

enum { PART_MAX = 3600 }; /* of a text in one message */

/* Loops, then loops of reductions, then what stands in registers. */
static int rank_of(tn__axis_kind k)
{
    switch (k) {
    case TN__AXIS_GRID: return 0;
    case TN__AXIS_LOOP:
    case TN__AXIS_ORDER: return 1;
    case TN__AXIS_REDUCE: return 2;
    case TN__AXIS_UPCAST: return 3;
    case TN__AXIS_UNROLL: return 4;
    case TN__AXIS_VECTOR: return 5;
    }
    return 6;
}

static void add_range(tn__label *l, const tn__uop *r, uint64_t *seen)
{
    const uint64_t bit = UINT64_C(1) << (tn__range_num(r) & 63);
    if (r->op != TN_OP_RANGE || (*seen & bit) || l->n == TN__LABEL_SIZES) return;
    *seen |= bit;
    int at = l->n++;
    const int rank = rank_of(tn__range_kind(r));
    for (; at > 0 && rank_of((tn__axis_kind)l->kind[at - 1]) > rank; at--) {
        l->kind[at] = l->kind[at - 1];
        l->size[at] = l->size[at - 1];
    }
    l->kind[at] = (uint8_t)tn__range_kind(r);
    const int64_t size = tn__range_size(r);
    l->size[at] = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
}

void tn__label_make(tn__label *l, tn__kernel *const *list, int count)
{
    tn__kernel *k = list[0];
    for (int i = 1; i < count; i++)
        if (list[i]->ops + list[i]->bytes > k->ops + k->bytes) k = list[i];
    tn__uop **order;
    size_t n;
    uint64_t seen = 0;
    if (k->copy) {
        *l = (tn__label){.copy = true};
        return;
    }
    *l = (tn__label){.more = (uint8_t)(count - 1 < 255 ? count - 1 : 255)};
    for (int i = 0; i < k->nout; i++) add_range(l, k->out[i], &seen);
    if (!tn__kernel_topo(k, &order, &n)) return;
    for (size_t i = 0; i < n; i++) {
        const tn__uop *u = order[i];
        if (u->op != TN_OP_REDUCE && u->op != TN_OP_SCAN) continue;
        l->reduce = true;
        for (int j = 1; j < u->nsrc; j++) add_range(l, u->src[j], &seen);
    }
}

bool tn__inspect_colour(void) { return !tn_context_get(TN_NO_COLOR) && isatty(STDERR_FILENO); }

int tn__label_text(const tn__label *l, bool colour, char *out, size_t cap)
{
    static const char *const by_kind[] = {
        [TN__AXIS_LOOP] = "37",  [TN__AXIS_GRID] = "34",   [TN__AXIS_REDUCE] = "31",
        [TN__AXIS_ORDER] = "37", [TN__AXIS_UPCAST] = "33", [TN__AXIS_UNROLL] = "35",
        [TN__AXIS_VECTOR] = "93"};
    int seen = 1;
    if (l->copy) return snprintf(out, cap, "copy");
    size_t at = (size_t)snprintf(out, cap, "%s", l->reduce ? "r" : "E");
    if (!l->n) {
        at += (size_t)snprintf(out + at, cap - at, "_1");
        seen += 2;
    }
    for (int i = 0; i < l->n && at + 32 < cap; i++) {
        char size[16];
        seen += 1 + snprintf(size, sizeof size, "%u", (unsigned)l->size[i]);
        at += (size_t)(colour ? snprintf(out + at, cap - at, "_\033[%sm%s\033[0m",
                                         by_kind[l->kind[i]], size)
                              : snprintf(out + at, cap - at, "_%s", size));
    }
    if (l->more) seen += snprintf(out + at, cap - at, "+%d", l->more);
    return seen;
}

/* ---- lines ---- */

void tn__inspect_plan(const tn__plan *p, bool hit, uint64_t ns, size_t cached)
{
    const char *file;
    int line;
    tn__here(&file, &line);
    const char *base = strrchr(file, '/');
    tn__log(TN_LOG_INFO,
            "scheduled %5d kernels in %8.2f ms | CACHE %s %08x | %6zu plans in cache%s%s%s%.0d",
            p->ncall, (double)ns * 1e-6, hit ? "HIT " : "MISS", (unsigned)(p->key.lo >> 32), cached,
            line ? " | " : "", line ? (base ? base + 1 : file) : "", line ? ":" : "", line);
}

static const char *amount(double v, const char *unit, char *out, size_t cap)
{
    static const char *const prefix[] = {"", "K", "M", "G", "T", "P"};
    size_t i = 0;
    while (v >= 1000 && i + 1 < TN_LEN(prefix)) {
        v /= 1000;
        i++;
    }
    snprintf(out, cap, i ? "%.2f %s%s" : "%.0f %s%s", v, prefix[i], unit);
    return out;
}

/* The share of the work-groups that run what stands behind `if` row r: kernels that share a launch stand each
 * behind lo <= gid < hi (codegen/group.c). */
static double share(const tnl_view *v, const tnl_row *r)
{
    const tnl_row *row = v->rows, *both = &row[r->src[0]];
    if (strcmp(v->ops[both->op], "and") || both->src[0] < 0 || both->src[1] < 0) return 1;
    const tnl_row *from = &row[both->src[0]], *under = &row[both->src[1]];
    if (strcmp(v->ops[from->op], "not") || strcmp(v->ops[under->op], "lt")) return 1;
    const tnl_row *below = &row[from->src[0]];
    if (strcmp(v->ops[below->op], "lt")) return 1;
    const tnl_row *lo = &row[below->src[1]], *hi = &row[under->src[1]];
    if (strcmp(v->ops[row[below->src[0]].op], "gid") || below->src[0] != under->src[0] ||
        strcmp(v->ops[lo->op], "const") || strcmp(v->ops[hi->op], "const"))
        return 1;
    return (double)(hi->imm - lo->imm) / (double)v->head->grid[0];
}

double tn__inspect_traffic(const tn__buf *blob)
{
    enum { DEEP = 64 };
    tnl_view v;
    double sum = 0, times[DEEP];
    int depth = 0;
    if (!blob->len || tnl_open(blob->data, blob->len, &v)) return 0;
    times[0] = (double)v.head->grid[0];
    for (uint32_t i = 0; i < v.head->nrows; i++) {
        const tnl_row *r = &v.rows[i];
        const char *op = v.ops[r->op];
        const bool loop = !strcmp(op, "loop");
        if (loop || !strcmp(op, "if")) {
            if (++depth == DEEP) return sum;
            const tnl_row *n = &v.rows[r->src[0]]; /* a count of the run time counts once */
            const double by = !loop                           ? share(&v, r)
                              : strcmp(v.ops[n->op], "const") ? 1
                                                              : (double)n->imm;
            times[depth] = times[depth - 1] * by;
        } else if (!strcmp(op, "end") || !strcmp(op, "endif")) {
            depth--;
        } else if (!strcmp(op, "load") || !strcmp(op, "store")) {
            const tn_dtype dt = (tn_dtype)v.bufs[r->imm].dtype;
            sum += times[depth] * r->lanes * (double)tn__dtype_size(dt);
        }
    }
    return sum;
}

void tn__inspect_call(const tn__plan *p, tn__plan_call *c, uint64_t ns, bool replay)
{
    const double s = (double)(ns ? ns : 1) * 1e-9;
    const bool colour = tn__inspect_colour(),
               first = !atomic_fetch_add_explicit(&c->seen, 1, memory_order_relaxed);
    char name[TN__LABEL_SIZES * 24 + 16], time[48];
    const char *head = !colour ? "" : replay ? "\033[35m" : first ? "\033[32m" : "";
    const int pad = 46 - tn__label_text(&c->label, colour, name, sizeof name);
    snprintf(time, sizeof time, colour && s > 0.01 ? "\033[33m%9.2fus\033[0m" : "%9.2fus", s * 1e6);
    tn__log(TN_LOG_INFO,
            "%s*** %-7s %4" PRIu64
            "%s %s%*s arg %2d mem %6.2f GB tm %s/%9.2fms (%7.0f GFLOPS %4.0f|%-6.0f GB/s)",
            head, tn__device_name(p->devs[c->dev]), (uint64_t)atomic_load(&tn__count.kernels),
            *head ? "\033[0m" : "", name, pad > 0 ? pad : 0, "", c->nbuf,
            (double)tn__device_bytes(p->devs[c->dev]) * 1e-9, time,
            (double)atomic_load(&tn__count.ns) * 1e-6, c->ops / s * 1e-9, c->bytes / s * 1e-9,
            c->loads / s * 1e-9);
}

/* A long text in messages that the log does not cut, each with a heading. */
static void show_text(const char *name, const char *what, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = len - at < PART_MAX ? len - at : PART_MAX;
        const char *rest = text + at;
        while (at + n < len && n > 1 && rest[n - 1] != '\n') n--;
        if (n == 1 && len - at > PART_MAX) n = PART_MAX;
        const size_t shown = n && rest[n - 1] == '\n' ? n - 1 : n;
        tn__log(TN_LOG_INFO, "%s: %s%s:\n%.*s", name, what, at ? ", continued" : "", (int)shown,
                rest);
        at += n;
    }
}

static void show_kernel(const tn__kernel *k, const char *name, int64_t debug, tn__buf *text)
{
    char ops[32], bytes[32];
    tn__uop *roots[TN__KSTORES];
    tn__log(TN_LOG_INFO, "%s: opts: %s; %s, %s", name, k->opts.len ? k->opts.data : "none",
            amount(k->ops, "ops", ops, sizeof ops), amount(k->bytes, "B", bytes, sizeof bytes));
    if (debug < 5) return;
    for (int i = 0; i < k->nstore; i++) roots[i] = k->store[i].value;
    text->len = 0;
    if (tn__uop_dump(text, roots, (size_t)k->nstore))
        show_text(name, "expression", text->data, text->len);
}

void tn__inspect_unit(tn__kernel *const *k, int n, const char *entry, const tn__buf *blob,
                      const tn__buf *source, int64_t debug)
{
    char name[TN__LABEL_SIZES * 24 + 16], both[sizeof name + 64];
    tn__label l;
    tn__buf text = {0};
    tn__error none;
    const bool clean = tn_ok();
    tn__label_make(&l, k, n);
    tn__label_text(&l, tn__inspect_colour(), name, sizeof name);
    snprintf(both, sizeof both, "%s (%s)", name, entry);
    for (int i = 0; i < n; i++) show_kernel(k[i], both, debug, &text);
    if (debug >= 4 && source->len) show_text(both, "source", source->data, source->len);
    text.len = 0;
    if (debug >= 6 && tn__linear_dump(blob->data, blob->len, &text))
        show_text(both, "linear code", text.data, text.len);
    tn__buf_free(&text);
    if (clean && !tn_ok()) tn__error_take(&none); /* what could not be shown is no error */
}
