/* SPDX-License-Identifier: MIT */
/*
 * Kernels of the checks: built once as rows of linear code, then given to the plugin in each dialect it
 * declares: as a blob ("linear"), through its own renderer, or as text made from its dialect's table.
 *
 * The text maker is small on purpose, scalars only: it shows what the table alone says.
 */
#define _GNU_SOURCE
#include "check.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const op_names[] = {
#define X(name) #name,
    TNL_BASE_OPS(X)
#undef X
};

static int op_id(const char *op)
{
    for (size_t i = 0; i < LEN(op_names); i++)
        if (!strcmp(op_names[i], op)) return (int)i;
    fail("the check uses an op %s that there is not", op);
}

/* ---- building ---- */

void k_begin(kern *k, const char *name)
{
    memset(k, 0, sizeof *k);
    snprintf(k->name, sizeof k->name, "%s", name);
    for (int i = 0; i < 3; i++) k->local[i] = 1;
}

int k_buf(kern *k, int dtype, int access)
{
    if (k->nbufs == K_MAX_BUFS) fail("the check has too many buffers");
    k->bufs[k->nbufs] = (tnl_buf){
        .count = 1 << 20, .dtype = (uint8_t)dtype, .access = (uint8_t)access};
    k->args[k->nbufs] = (tnp_arg){.dtype = (uint8_t)dtype, .access = (uint8_t)access};
    return (int)k->nbufs++;
}

int k_row(kern *k, const char *op, int dtype, int a, int b, int c, int64_t imm)
{
    if (k->nrows == K_MAX_ROWS) fail("the check has too many rows");
    k->rows[k->nrows] = (tnl_row){.op = (uint16_t)op_id(op),
                                  .dtype = (uint8_t)dtype,
                                  .lanes = 1,
                                  .src = {a, b, c},
                                  .imm = imm};
    return k->nrows++;
}

int k_const(kern *k, int dtype, int64_t bits) { return k_row(k, "const", dtype, -1, -1, -1, bits); }

void kern_add(kern *k, int dtype)
{
    k_begin(k, "check_add");
    const int out = k_buf(k, dtype, TNP_ACCESS_WRITE), x = k_buf(k, dtype, TNP_ACCESS_READ),
              y = k_buf(k, dtype, TNP_ACCESS_READ);
    const int g = k_row(k, "gid", TNP_I64, -1, -1, -1, 0);
    const int a = k_row(k, "load", dtype, g, -1, -1, x), b = k_row(k, "load", dtype, g, -1, -1, y);
    const int s = k_row(k, "add", dtype, a, b, -1, 0);
    k_row(k, "store", dtype, g, s, -1, out);
}

void kern_plus(kern *k)
{
    k_begin(k, "check_plus");
    k->nimms = 1;
    const int out = k_buf(k, TNP_I32, TNP_ACCESS_WRITE), x = k_buf(k, TNP_I32, TNP_ACCESS_READ);
    const int g = k_row(k, "gid", TNP_I64, -1, -1, -1, 0);
    const int a = k_row(k, "load", TNP_I32, g, -1, -1, x);
    const int p = k_row(k, "param", TNP_I32, -1, -1, -1, 0);
    const int s = k_row(k, "add", TNP_I32, a, p, -1, 0);
    k_row(k, "store", TNP_I32, g, s, -1, out);
}

/* ---- dialects ---- */

const tnp_dialect *dialect_table(const char *name)
{
    const tnp_dialect *const *list = TNP_FN(root, tnp_plugin, dialects) ? root->dialects : NULL;
    for (; list && *list; list++)
        if (!strcmp((*list)->name, name)) return *list;
    return NULL;
}

static const tnp_render_ops *own_renderer(const char *name)
{
    const tnp_render_ops *r = TNP_FN(root, tnp_plugin, render) ? root->render : NULL;
    return r && !strcmp(r->dialect, name) ? r : NULL;
}

const char *const *dialects(void)
{
    static const char *const none[] = {NULL};
    const char *const *d = dev ? caps.dialects : caps_of(0).dialects;
    return d ? d : none;
}

static const tnp_template *find(const tnp_dialect *d, const char *op, int dtype)
{
    for (uint32_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].op, op) && (d->ops[i].dtypes >> dtype & 1) && (d->ops[i].lanes & 1))
            return &d->ops[i];
    return NULL;
}

static const char *row_op(const kern *k, int i) { return op_names[k->rows[i].op]; }

/* The template's name: casts from halves have their own. */
static const char *template_op(const kern *k, int i)
{
    const tnl_row *r = &k->rows[i];
    const char *op = row_op(k, i);
    if (strcmp(op, "cast") != 0) return op;
    const int from = k->rows[r->src[0]].dtype;
    return from == TNP_F16 ? "cast_f16" : from == TNP_BF16 ? "cast_bf16" : op;
}

static bool is_control(const char *op)
{
    static const char *const c[] = {"const", "gid", "param", "loop", "end",  "if",
                                    "endif", "var", "set",   "load", "store"};
    for (size_t i = 0; i < LEN(c); i++)
        if (!strcmp(c[i], op)) return true;
    return false;
}

const char *k_cannot(const kern *k, const char *dialect)
{
    static char why[160];
    const tnp_dialect *d = dialect_table(dialect);
    if (k->body) return d ? NULL : "it needs a dialect with a table";
    if (!strcmp(dialect, "linear") || own_renderer(dialect)) return NULL;
    if (!d) return "the root has no table of this dialect, and its name is not known here";
    for (uint32_t i = 0; i < k->nbufs; i++)
        if (!d->types[k->bufs[i].dtype]) return "the dialect has no type for one of its buffers";
    for (int i = 0; i < k->nrows; i++) {
        if (is_control(row_op(k, i)) || find(d, template_op(k, i), k->rows[i].dtype)) continue;
        snprintf(why, sizeof why, "the dialect has no %s for %s", template_op(k, i),
                 dtype_text(k->rows[i].dtype));
        return why;
    }
    return NULL;
}

const char *usable_dialect(const kern *k)
{
    for (const char *const *d = dialects(); *d; d++)
        if (!k_cannot(k, *d)) return *d;
    return NULL;
}

/* ---- text ---- */

typedef struct {
    char *p;
    size_t n, cap;
} text;

static void put_n(text *t, const char *s, size_t n)
{
    if (t->n + n + 1 > t->cap) {
        t->cap = (t->n + n + 1) * 2;
        t->p = realloc(t->p, t->cap);
        if (!t->p) fail("no memory");
    }
    memcpy(t->p + t->n, s, n);
    t->n += n;
    t->p[t->n] = 0;
}

static void add(text *t, const char *fmt, ...) PRINTF(2, 3);
static void add(text *t, const char *fmt, ...)
{
    char line[4000];
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof line) fail("a line of source is too long");
    put_n(t, line, (size_t)n);
}

/* Replaces $x by the string that stands for x in `keys`: "x" value pairs, NULL-ended. */
static void expand(text *t, const char *form, const char *const *pairs)
{
    for (const char *p = form; *p; p++) {
        const char *const *q = pairs;
        if (*p == '$')
            while (*q && (*q)[0] != p[1]) q += 2;
        if (*p == '$' && *q) {
            put_n(t, q[1], strlen(q[1]));
            p++;
        } else
            put_n(t, p, 1);
    }
}

static void put_const(text *t, const tnp_dialect *d, const tnl_row *r)
{
    const uint64_t bits = (uint64_t)r->imm;
    if (r->dtype == TNP_F32) {
        float f;
        const uint32_t low = (uint32_t)bits;
        memcpy(&f, &low, 4);
        add(t, "(%.9ef)", (double)f);
    } else if (r->dtype == TNP_F64) {
        double f;
        memcpy(&f, &bits, 8);
        add(t, "(%.17e)", f);
    } else
        add(t, "((%s)%lld)", d->types[r->dtype], (long long)r->imm);
}

static void ref(text *t, const tnp_dialect *d, const kern *k, int row)
{
    if (!strcmp(row_op(k, row), "const"))
        put_const(t, d, &k->rows[row]);
    else
        add(t, "v%d", row);
}

static char *ref_text(const tnp_dialect *d, const kern *k, int row)
{
    text t = {0};
    if (row >= 0)
        ref(&t, d, k, row);
    else
        put_n(&t, "", 0);
    return t.p;
}

static void put_value(text *t, const tnp_dialect *d, const kern *k, int i)
{
    const tnl_row *r = &k->rows[i];
    const char *type = d->types[r->dtype];
    char *a = ref_text(d, k, r->src[0]), *b = ref_text(d, k, r->src[1]),
         *c = ref_text(d, k, r->src[2]);
    const char *const pairs[] = {"1", a, "2", b, "3", c, "t", type, "s", type, "n", "1", NULL};
    add(t, "    %s v%d = ", type, i);
    expand(t, find(d, template_op(k, i), r->dtype)->text, pairs);
    add(t, ";\n");
    free(a), free(b), free(c);
}

static void put_row(text *t, const tnp_dialect *d, const kern *k, int i)
{
    const tnl_row *r = &k->rows[i];
    const char *op = row_op(k, i), *type = d->types[r->dtype];
    char *a = ref_text(d, k, r->src[0]), *b = ref_text(d, k, r->src[1]);
    char num[24];
    snprintf(num, sizeof num, "%lld", (long long)r->imm);
    const char *const pairs[] = {"i", num, "s", type, NULL};
    if (!strcmp(op, "const")) {
    } else if (!strcmp(op, "gid"))
        add(t, "    %s v%d = (%s)%s;\n", type, i, type, d->gid[r->imm]);
    else if (!strcmp(op, "param")) {
        add(t, "    %s v%d = ", type, i);
        expand(t, d->imm[r->dtype >= TNP_F16], pairs);
        add(t, ";\n");
    } else if (!strcmp(op, "loop"))
        add(t, "    for (%s v%d = 0; v%d < %s; v%d++) {\n", type, i, i, a, i);
    else if (!strcmp(op, "if"))
        add(t, "    if (%s) {\n", a);
    else if (!strcmp(op, "end") || !strcmp(op, "endif"))
        add(t, "    }\n");
    else if (!strcmp(op, "var"))
        add(t, "    %s v%d = %s;\n", type, i, a);
    else if (!strcmp(op, "set"))
        add(t, "    v%d = %s;\n", r->src[0], b);
    else if (!strcmp(op, "load"))
        add(t, "    %s v%d = b%d[%s];\n", type, i, (int)r->imm, a);
    else if (!strcmp(op, "store"))
        add(t, "    b%d[%s] = %s;\n", (int)r->imm, a, b);
    else
        put_value(t, d, k, i);
    free(a), free(b);
}

static bytes render(const kern *k, const tnp_dialect *d)
{
    text t = {0};
    char local[24];
    snprintf(local, sizeof local, "%u", (unsigned)(k->local[0] * k->local[1] * k->local[2]));
    const char *const head[] = {"k", k->name, "l", local, NULL};
    if (d->prelude) put_n(&t, d->prelude, strlen(d->prelude));
    expand(&t, d->kernel, head);
    for (uint32_t i = 0; i < k->nbufs; i++) {
        char n[12], v[12];
        snprintf(n, sizeof n, "%u", i);
        snprintf(v, sizeof v, "b%u", i);
        const char *const pairs[] = {"q", k->bufs[i].access & TNP_ACCESS_WRITE ? "" : "const",
                                     "s", d->types[k->bufs[i].dtype],
                                     "v", v,
                                     "i", n,
                                     NULL};
        add(&t, "    ");
        expand(&t, d->buffer, pairs);
        add(&t, "\n");
    }
    if (k->body) put_n(&t, k->body, strlen(k->body));
    for (int i = 0; i < k->nrows; i++) put_row(&t, d, k, i);
    add(&t, "}\n");
    return (bytes){t.p, t.n};
}

/* ---- linear code ---- */

static bytes linear(const kern *k)
{
    const size_t n = sizeof(tnl_head) + k->nbufs * sizeof(tnl_buf) + LEN(op_names) * TNL_NAME +
                     (size_t)k->nrows * sizeof(tnl_row);
    char *p = calloc(1, n);
    if (!p) fail("no memory");
    tnl_head h = {.magic = TNL_MAGIC,
                  .bytes = (uint32_t)n,
                  .nargs = k->nbufs,
                  .nimms = k->nimms,
                  .nops = (uint32_t)LEN(op_names),
                  .nrows = (uint32_t)k->nrows,
                  .grid = {1, 1, 1},
                  .local = {k->local[0], k->local[1], k->local[2]}};
    memcpy(h.name, k->name, sizeof h.name);
    char *at = p;
    memcpy(at, &h, sizeof h);
    at += sizeof h;
    memcpy(at, k->bufs, k->nbufs * sizeof(tnl_buf));
    at += k->nbufs * sizeof(tnl_buf);
    for (size_t i = 0; i < LEN(op_names); i++, at += TNL_NAME)
        strncpy(at, op_names[i], TNL_NAME - 1);
    memcpy(at, k->rows, (size_t)k->nrows * sizeof(tnl_row));
    return (bytes){p, n};
}

bytes k_source(const kern *k, const char *dialect)
{
    const tnp_render_ops *own = own_renderer(dialect);
    const bytes lin = k->body ? (bytes){0} : linear(k);
    if (!strcmp(dialect, "linear")) return lin;
    if (!own || k->body) return render(k, dialect_table(dialect));
    tnp_blob src = {0}, log = {0};
    worked(own->render(lin.data, lin.len, &src, &log, fresh()), "render");
    NEED(src.data && src.len, "render answers OK and gives no source");
    return (bytes){src.data, src.len};
}

/* ---- compiling, loading, launching ---- */

static tnp_entry entry_of(const kern *k)
{
    return (tnp_entry){.name = k->name,
                       .args = k->args,
                       .nargs = k->nbufs,
                       .nimms = k->nimms,
                       .local = {k->local[0], k->local[1], k->local[2]}};
}

tnp_rc k_compile(const kern *k, const char *dialect, bytes src, bytes *bin, bytes *log)
{
    if (!TNP_FN(root, tnp_plugin, compile)) {
        *bin = src;
        if (log) *log = (bytes){0};
        return TNP_OK;
    }
    static char arch[sizeof caps.arch];
    if (!arch[0]) snprintf(arch, sizeof arch, "%s", caps_of(0).arch);
    const tnp_entry e = entry_of(k);
    const tnp_compile c = {.size = sizeof c,
                           .arch = arch,
                           .dialect = dialect,
                           .src = src.data,
                           .len = src.len,
                           .entries = &e,
                           .nentries = 1};
    char own_text[sizeof err_text] = ""; /* [any]: several threads compile */
    tnp_err own = {.size = sizeof own, .cap = sizeof own_text, .msg = own_text};
    tnp_blob b = {0}, l = {0};
    const tnp_rc rc = root->compile(&c, &b, &l, &own);
    *bin = (bytes){b.data, b.len};
    if (log) *log = (bytes){l.data, l.len};
    if (rc < 0) memcpy(err_text, own_text, sizeof err_text);
    return rc;
}

const char *k_format(const char *dialect)
{
    const char *const *f = dev ? caps.formats : caps_of(0).formats;
    return TNP_FN(root, tnp_plugin, compile) && f && f[0] ? f[0] : dialect;
}

tnp_rc k_load_bin(const kern *k, const char *format, bytes bin, const char *name, tnp_prog **out)
{
    tnp_entry e = entry_of(k);
    if (name) e.name = name;
    const tnp_load l = {
        .size = sizeof l, .format = format, .entry = &e, .bin = bin.data, .len = bin.len};
    return ops->prog_load(dev, &l, out, fresh());
}

tnp_prog *k_load(const kern *k)
{
    const char *d = usable_dialect(k);
    tnp_prog *p = NULL;
    bytes bin = {0};
    if (!d)
        skip("%s: %s", k->name,
             dialects()[0] ? k_cannot(k, dialects()[0]) : "the device declares no dialect");
    fresh();
    worked(k_compile(k, d, k_source(k, d), &bin, NULL), "compile");
    worked(k_load_bin(k, k_format(d), bin, NULL, &p), "prog_load");
    NEED(p, "prog_load answers OK and gives no program");
    return p;
}

tnp_rc k_launch(tnp_queue *q, tnp_prog *p, const kern *k, tnp_buf *const *bufs, const size_t *lens,
                const uint64_t *imms, const uint32_t grid[3], const tnp_sync *s, uint64_t *ns)
{
    tnp_ref refs[K_MAX_BUFS];
    for (uint32_t i = 0; i < k->nbufs; i++) refs[i] = (tnp_ref){bufs[i], 0, lens[i]};
    const tnp_launch l = {.size = sizeof l,
                          .grid = {grid[0], grid[1], grid[2]},
                          .local = {k->local[0], k->local[1], k->local[2]},
                          .bufs = refs,
                          .imms = imms,
                          .nbufs = k->nbufs,
                          .nimms = k->nimms,
                          .work = (uint64_t)grid[0] * grid[1] * grid[2] * 4,
                          .out_ns = ns};
    return ops->launch(dev, q, p, &l, s, fresh());
}

void k_run(tnp_prog *p, const kern *k, tnp_buf *const *bufs, const size_t *lens,
           const uint64_t *imms, uint32_t gx, uint32_t gy, uint32_t gz)
{
    const uint32_t grid[3] = {gx, gy, gz};
    worked(k_launch(queue, p, k, bufs, lens, imms, grid, signal_next(), NULL), "launch");
    settle();
}
