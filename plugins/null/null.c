/* SPDX-License-Identifier: MIT */
/*
 * The device that accepts everything and runs nothing: schedules are tested and timed on it.  Memory is
 * real (host pages, touched only by copies), so a copy in and out round-trips; launches and replays
 * return at once.  Any source, any entry, any size.  Takes linear code without looking at it.
 *
 * Memory, copies and timelines are those of the SDK's hostdev.h; no locks; nothing survives in statics but
 * the host pointer, so a fork changes nothing.
 */
#define _GNU_SOURCE
#define TNK_NAME      "NULL"
#define TNK_MAX_BYTES (1ull << 38)
#define TNK_PAGED     ((size_t)1 << 16)
#define TNK_HUGE      SIZE_MAX
#define TNK_MAP_FLAGS MAP_NORESERVE
#include <tenon/hostdev.h>

enum { DEVICES = 16 };

struct tnp_dev {
    uint32_t index;
};
struct tnp_prog {
    uint32_t nargs;
};
struct tnp_graph {
    uint32_t nslots, nscalars;
};

/* ---- capabilities ---- */

static const char *const dialects[] = {"linear", NULL};
static const char *const formats[] = {"linear", NULL};
static const char *const ops[] = {"fma", NULL};

static void fill_caps(uint32_t i, tnp_caps *out)
{
    tnp_caps c = {.size = sizeof c,
                  .kind = TNP_KIND_SOFT,
                  .flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_VADDR |
                           TNP_F_TIMESTAMP | TNP_F_THREADS | TNP_F_NOEXEC,
                  .name = "runs nothing",
                  .arch = "null",
                  .driver = "0.1.0",
                  .mem_total = 1ull << 40,
                  .mem_free = 1ull << 40,
                  .max_buffer = 1ull << 38,
                  .buf_align = 1,
                  .max_args = 1024,
                  .simd_bytes = 32,
                  .simd_regs = 16,
                  .cores = 8,
                  .subgroup = 1,
                  .max_local = {1, 1, 1},
                  .max_local_total = 1,
                  .max_grid = {0xffffffffu, 0xffffffffu, 0xffffffffu},
                  .cache_bytes = {32 << 10, 1 << 20, 16 << 20},
                  .dtypes_mem = (1u << TNP_DTYPE_COUNT) - 2,
                  .dtypes_alu = (1u << TNP_DTYPE_COUNT) - 2,
                  .ops = ops,
                  .dialects = dialects,
                  .formats = formats};
    snprintf(c.uid, sizeof c.uid, "null:%u", i);
    tnk_caps_out(out, &c);
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)e;
    fill_caps(d->index, out);
    return TNP_OK;
}

/* ---- programs ---- */

static tnp_rc prog_load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    (void)d;
    tnp_prog *p = tnk_take(tnk_host, sizeof *p);
    if (!p) return tnk_fail(e, TNP_E_NOMEM, 0, "NULL: no host memory for a program's record");
    p->nargs = l->entry ? l->entry->nargs : 0;
    *out = p;
    return TNP_OK;
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    tnk_give(tnk_host, p);
}

static tnp_rc settle(const tnp_sync *s, tnp_err *e)
{
    tnp_rc rc = tnk_begin(s, e);
    return rc ? rc : tnk_end(s, e);
}

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    (void)d, (void)q;
    if (l->nbufs != p->nargs)
        return tnk_fail(e, TNP_E_ARG, 0, "NULL: launch with %u buffers: the kernel has %u",
                        l->nbufs, p->nargs);
    if (l->out_ns) *l->out_ns = 1;
    return settle(s, e);
}

static tnp_rc fill(tnp_dev *d, tnp_queue *q, tnp_ref dst, uint64_t pattern, uint32_t width,
                   const tnp_sync *s, tnp_err *e)
{
    (void)d, (void)q, (void)pattern;
    tnp_rc rc = tnk_fill_check(dst.len, width, e);
    return rc ? rc : settle(s, e);
}

/* ---- graphs ---- */

static tnp_rc graph_build(tnp_dev *d, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                          uint32_t nscalars, tnp_graph **out, tnp_err *e)
{
    (void)d;
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < nodes[i]->nrefs; k++)
            if (nodes[i]->refs[k].slot >= (int32_t)nslots)
                return tnk_fail(e, TNP_E_ARG, 0, "NULL: graph node %u: slot %d of %u", i,
                                nodes[i]->refs[k].slot, nslots);
    tnp_graph *g = tnk_take(tnk_host, sizeof *g);
    if (!g) return tnk_fail(e, TNP_E_NOMEM, 0, "NULL: no host memory for a graph's record");
    g->nslots = nslots;
    g->nscalars = nscalars;
    *out = g;
    return TNP_OK;
}

static tnp_rc graph_run(tnp_dev *d, tnp_queue *q, tnp_graph *g, const tnp_ref *slots,
                        const uint64_t *scalars, const tnp_sync *s, tnp_err *e)
{
    (void)d, (void)q;
    if ((g->nslots && !slots) || (g->nscalars && !scalars))
        return tnk_fail(e, TNP_E_ARG, 0, "NULL: graph: %u slots and %u scalars must be given",
                        g->nslots, g->nscalars);
    return settle(s, e);
}

static void graph_free(tnp_dev *d, tnp_graph *g)
{
    (void)d;
    tnk_give(tnk_host, g);
}

static const tnp_graph_ops graph_ops = {sizeof graph_ops, 0, graph_build, graph_run, graph_free};

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return strcmp(id, "tenon.graph/1") ? tnk_ext(id) : &graph_ops;
}

/* ---- root ---- */

static void dev_close(tnp_dev *d) { tnk_give(tnk_host, d); }

static const tnp_dev_ops dev_ops = {.size = sizeof dev_ops,
                                    .minor = TNP_MINOR,
                                    .close = dev_close,
                                    .caps = dev_caps,
                                    TNK_MEMORY_OPS,
                                    TNK_SYNC_OPS,
                                    TNK_COPY_OPS,
                                    .prog_load = prog_load,
                                    .prog_free = prog_free,
                                    .launch = launch,
                                    .fill = fill,
                                    .ext = ext};

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    (void)e;
    tnk_host = h;
    return TNP_OK;
}

static void fini(void) { tnk_host = NULL; }
static void forked(void) {}

static tnp_rc count(uint32_t *n, tnp_err *e)
{
    (void)e;
    *n = DEVICES;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *e)
{
    if (i >= DEVICES)
        return tnk_fail(e, TNP_E_NODEV, 0, "NULL:%u: there are %d devices", i, DEVICES);
    fill_caps(i, out);
    return TNP_OK;
}

static tnp_rc open_dev(uint32_t i, tnp_dev **out, const tnp_dev_ops **o, tnp_err *e)
{
    if (i >= DEVICES)
        return tnk_fail(e, TNP_E_NODEV, 0, "NULL:%u: there are %d devices", i, DEVICES);
    tnp_dev *d = tnk_take(tnk_host, sizeof *d);
    if (!d) return tnk_fail(e, TNP_E_NOMEM, 0, "NULL:%u: no host memory", i);
    d->index = i;
    *out = d;
    *o = &dev_ops;
    return TNP_OK;
}

static const tnp_plugin root = {.magic = TNP_MAGIC,
                                .size = sizeof root,
                                .minor = TNP_MINOR,
                                .min_host_minor = 0,
                                .flags = TNP_ROOT_SURVIVES_FORK,
                                .name = "NULL",
                                .version = "0.1.0",
                                .vendor = "tenon",
                                .build = "C11",
                                .init = init,
                                .fini = fini,
                                .count = count,
                                .probe = probe,
                                .open = open_dev,
                                .forked = forked};

const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    (void)host_minor;
    return &root;
}
