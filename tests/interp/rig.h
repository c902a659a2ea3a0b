/* SPDX-License-Identifier: MIT */
/*
 * What the interpreter's tests share: a host with a counting, failing allocator, the plugin opened as a
 * device, and a builder that appends rows of linear code to a blob.  Each test file has its own copy.
 */
#ifndef TENON_TESTS_INTERP_RIG_H
#define TENON_TESTS_INTERP_RIG_H
#include <check.h>
#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/linear.h>
#include <tenon/plugin.h>

#define LEN(a) (sizeof(a) / sizeof *(a))

/* ---- the host's side ---- */

static const tnp_plugin *plugin;
static const tnp_dev_ops *ops;
static tnp_dev *dev;
static tnp_queue *queue;
static char text[512];
static tnp_err err;
static size_t live;
static int64_t fail_at; /* the n-th allocation from now fails; 0: none */

static inline void *host_realloc(void *ctx, void *p, size_t n)
{
    (void)ctx;
    if (n == 0) {
        live -= p != NULL;
        free(p);
        return NULL;
    }
    if (fail_at && --fail_at == 0) return NULL;
    void *q = realloc(p, n);
    live += q && !p;
    return q;
}
static inline void host_log(void *ctx, int32_t level, const char *msg)
{
    (void)ctx;
    (void)level;
    (void)msg;
}

/* The file in TENON_PLUGIN_PATH (the runner sets it), or the plugin that is linked in. */
extern tnp_entry_fn *const tn__static_plugins[];
static inline tnp_entry_fn *entry(void)
{
    char path[4096];
    const char *dir = getenv("TENON_PLUGIN_PATH");
    void *so = NULL, *sym;
    tnp_entry_fn *fn = NULL;
    for (size_t i = 0; tn__static_plugins[i]; i++)
        if (strcmp(tn__static_plugins[i](TNP_MINOR)->name, "INTERP") == 0)
            return tn__static_plugins[i];
    if (dir && *dir) {
        snprintf(path, sizeof path, "%.*s/tenon_interp.so", (int)strcspn(dir, ":"), dir);
        so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!so || !(sym = dlsym(so, TNP_ENTRY))) return NULL;
    memcpy(&fn, &sym, sizeof fn);
    return fn;
}

static inline void setup(void)
{
    static const tnp_host host = {
        .size = sizeof host, .version = "test", .realloc = host_realloc, .log = host_log};
    tnp_entry_fn *fn = entry();
    ck_assert_msg(fn != NULL, "tenon_interp.so is not in TENON_PLUGIN_PATH");
    plugin = fn(TNP_MINOR);
    err = (tnp_err){.size = sizeof err, .cap = sizeof text, .msg = text};
    text[0] = 0;
    fail_at = 0;
    live = 0;
    ck_assert_int_eq(plugin->init(&host, &err), TNP_OK);
    ck_assert_int_eq(plugin->open(0, &dev, &ops, &err), TNP_OK);
    ck_assert_int_eq(ops->queue_new(dev, 0, &queue, &err), TNP_OK);
}

static inline void teardown(void)
{
    fail_at = 0;
    ops->queue_free(dev, queue);
    ops->close(dev);
    ck_assert_uint_eq(live, 0);
}

/* ---- the builder ---- */

typedef struct {
    tnl_head head;
    tnl_buf bufs[8];
    tnl_row rows[64];
    char names[64][TNL_NAME];
} code;

static inline void begin(code *k, uint32_t grid)
{
    memset(k, 0, sizeof *k);
    k->head = (tnl_head){
        .magic = TNL_MAGIC, .grid = {grid, 1, 1}, .local = {1, 1, 1}, .name = "kernel"};
}

static inline void arg(code *k, uint32_t dt, uint64_t count)
{
    k->bufs[k->head.nargs++] = (tnl_buf){.count = count, .dtype = (uint8_t)dt, .access = 3};
}

static inline void scratch(code *k, uint32_t dt, uint64_t count, uint64_t offset, uint64_t end)
{
    k->bufs[k->head.nargs + k->head.nscratch++] = (tnl_buf){
        .count = count, .dtype = (uint8_t)dt, .offset = offset};
    k->head.scratch_bytes = end;
}

/* Appends a row and gives its number. */
static inline int32_t vrow(code *k, const char *op, uint32_t dt, uint32_t lanes, int64_t imm,
                           int32_t a, int32_t b, int32_t c)
{
    uint32_t n = 0;
    while (n < k->head.nops && strncmp(k->names[n], op, TNL_NAME) != 0) n++;
    if (n == k->head.nops) strncpy(k->names[k->head.nops++], op, TNL_NAME - 1);
    const uint32_t i = k->head.nrows++;
    k->rows[i] = (tnl_row){.op = (uint16_t)n,
                           .dtype = (uint8_t)dt,
                           .lanes = (uint8_t)lanes,
                           .src = {a, b, c},
                           .imm = imm};
    return (int32_t)i;
}
static inline int32_t row(code *k, const char *op, uint32_t dt, int64_t imm, int32_t a, int32_t b,
                          int32_t c)
{
    return vrow(k, op, dt, 1, imm, a, b, c);
}
static inline int32_t konst(code *k, uint32_t dt, int64_t v)
{
    return row(k, "const", dt, v, -1, -1, -1);
}
static inline int32_t load(code *k, uint32_t dt, int64_t buf, int32_t index)
{
    return row(k, "load", dt, buf, index, -1, -1);
}
static inline int32_t store(code *k, int64_t buf, int32_t index, int32_t value)
{
    return row(k, "store", 0, buf, index, value, -1);
}

static inline size_t blob(const code *k, unsigned char *out)
{
    tnl_head h = k->head;
    unsigned char *p = out + sizeof h;
    const size_t nb = (h.nargs + h.nscratch) * sizeof(tnl_buf), no = h.nops * TNL_NAME,
                 nr = h.nrows * sizeof(tnl_row);
    memcpy(p, k->bufs, nb);
    memcpy(p + nb, k->names, no);
    memcpy(p + nb + no, k->rows, nr);
    h.bytes = (uint32_t)(sizeof h + nb + no + nr);
    memcpy(out, &h, sizeof h);
    return h.bytes;
}

static inline tnp_rc load_code(const code *k, tnp_prog **p)
{
    static unsigned char bytes[sizeof(code)];
    const tnp_load l = {.size = sizeof l, .format = "linear", .bin = bytes, .len = blob(k, bytes)};
    text[0] = 0;
    *p = NULL;
    return ops->prog_load(dev, &l, p, &err);
}

typedef struct {
    void *p;
    size_t bytes;
} mem;

/* Loads, launches on the caller's memory, frees. */
static inline tnp_rc run_imms(const code *k, const mem *m, const uint64_t *imms)
{
    tnp_prog *p;
    tnp_ref refs[8];
    tnp_rc rc = load_code(k, &p);
    if (rc != TNP_OK) return rc;
    for (uint32_t i = 0; i < k->head.nargs; i++) {
        const tnp_alloc a = {.size = sizeof a, .bytes = m[i].bytes, .host_ptr = m[i].p};
        ck_assert_int_eq(ops->buf_alloc(dev, &a, &refs[i].buf, &err), TNP_OK);
        refs[i].off = 0;
        refs[i].len = m[i].bytes;
    }
    const tnp_launch l = {.size = sizeof l,
                          .grid = {k->head.grid[0], k->head.grid[1], k->head.grid[2]},
                          .local = {1, 1, 1},
                          .bufs = refs,
                          .imms = imms,
                          .nbufs = k->head.nargs,
                          .nimms = k->head.nimms};
    rc = ops->launch(dev, queue, p, &l, NULL, &err);
    for (uint32_t i = 0; i < k->head.nargs; i++) ops->buf_free(dev, refs[i].buf);
    ops->prog_free(dev, p);
    return rc;
}
static inline tnp_rc run(const code *k, const mem *m) { return run_imms(k, m, NULL); }
#define MEM(a)         \
    {                  \
        (a), sizeof(a) \
    }
#define RUNS(k, m) ck_assert_msg(run(k, m) == TNP_OK, "%s", text)
#define FAILS(call, code_, part)                                                       \
    do {                                                                               \
        ck_assert_int_eq((call), code_);                                               \
        ck_assert_int_eq(err.rc, code_);                                               \
        ck_assert_msg(strstr(text, part) != NULL, "\"%s\" has no \"%s\"", text, part); \
    } while (0)

/* out[0] = op(a, b, c) for bits of one dtype. */
static inline tnp_rc op3(const char *op, uint32_t dt, uint32_t out_dt, uint64_t a, uint64_t b,
                         uint64_t c, int n, uint64_t *out)
{
    code k;
    begin(&k, 1);
    arg(&k, out_dt, 1);
    const int32_t x = konst(&k, dt, (int64_t)a), y = konst(&k, dt, (int64_t)b),
                  z = konst(&k, dt, (int64_t)c);
    const int32_t r = row(&k, op, out_dt, 0, x, n > 1 ? y : -1, n > 2 ? z : -1);
    store(&k, 0, konst(&k, TNP_I32, 0), r);
    const mem m[] = {{out, 8}};
    *out = 0;
    return run(&k, m);
}
#endif
