/* SPDX-License-Identifier: MIT */
/*
 * INTERP's root: host services, one device, memory, timelines, copies.
 *
 * All is synchronous: a call has done its work when it returns, so queues are empty objects and a wait
 * that has not been reached yet is an error of the caller.  Device memory is host memory.  Timelines are
 * atomic numbers; the host's wait polls, so no lock exists that a fork could leave taken.  The device has
 * no state but its existence: any number of threads may use it.
 */
#include "interp.h"
#include <string.h>
#include <unistd.h>

const tnp_host *interp__host;

struct tnp_dev {
    uint32_t index;
};
/* ---- services ---- */

tnp_rc interp__ref(const tnp_ref *r, const char *what, unsigned char **p, tnp_err *err)
{
    tnp_rc rc = tnk_ref_check(r, what, err);
    if (rc != TNP_OK) return rc;
    *p = (unsigned char *)r->buf->p + r->off;
    return TNP_OK;
}

/* ---- capabilities ---- */

static const char *const linear[] = {"linear", NULL};
static const char *const ops[] = {"fma", NULL};

static tnp_rc caps(tnp_caps *out, tnp_err *err)
{
    const uint64_t all = ((UINT64_C(1) << TNP_DTYPE_COUNT) - 1) & ~UINT64_C(1);
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE),
               avail = sysconf(_SC_AVPHYS_PAGES);
    const uint64_t bytes = pages > 0 && page > 0 ? (uint64_t)pages * (uint64_t)page
                                                 : UINT64_C(1) << 32;
    tnp_caps c = {
        .kind = TNP_KIND_SOFT,
        .flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_THREADS | TNP_F_TIMESTAMP |
                 TNP_F_CONTAINS_FAULTS,
        .name = "linear code interpreter",
        .arch = "linear",
        .driver = "none",
        .uid = "interp:0",
        .mem_total = bytes,
        .mem_free = avail > 0 && page > 0 ? (uint64_t)avail * (uint64_t)page : bytes,
        .max_buffer = bytes,
        .buf_align = 1,
        .max_args = 64,
        .cores = 1,
        .subgroup = 1,
        .max_local = {1, 1, 1},
        .max_local_total = 1,
        .max_grid = {UINT32_MAX, UINT32_MAX, UINT32_MAX},
        .dtypes_mem = all,
        .dtypes_alu = all,
        .ops = ops,
        .dialects = linear,
        .formats = linear,
    };
    if (out->size < TNP_END(tnp_caps, flags))
        return interp__fail(err, TNP_E_ARG, "INTERP: caps: a struct of %u bytes", out->size);
    return tnk_caps_out(out, &c);
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *err)
{
    (void)d;
    return caps(out, err);
}

uint64_t interp__max_buffer(void)
{
    tnp_caps c = {.size = sizeof c};
    return caps(&c, NULL) == TNP_OK ? c.max_buffer : 0;
}

/* ---- work ---- */

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *err)
{
    (void)d;
    (void)q;
    tnp_rc rc = tnk_begin(s, err);
    if (rc == TNP_OK) rc = interp__launch(p, l, err);
    return rc == TNP_OK ? tnk_end(s, err) : rc;
}

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return strcmp(id, "tenon.graph/1") == 0 ? &interp__graph_ops : tnk_ext(id);
}

/* ---- root ---- */

static void dev_close(tnp_dev *d) { interp__free(d); }

static const tnp_dev_ops dev_ops = {
    .size = sizeof dev_ops,
    .minor = TNP_MINOR,
    .close = dev_close,
    .caps = dev_caps,
    TNK_HOSTDEV_OPS,
    .prog_load = interp__load,
    .prog_free = interp__unload,
    .launch = launch,
    .ext = ext,
};

static tnp_rc init(const tnp_host *host, tnp_err *err)
{
    (void)err;
    interp__host = host;
    return TNP_OK;
}

static void fini(void) { interp__host = NULL; }

static tnp_rc count(uint32_t *n, tnp_err *err)
{
    (void)err;
    *n = 1;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *err)
{
    if (i != 0)
        return interp__fail(err, TNP_E_NODEV, "INTERP: device %u: there is only device 0", i);
    return caps(out, err);
}

static tnp_rc dev_open(uint32_t i, tnp_dev **out, const tnp_dev_ops **o, tnp_err *err)
{
    if (i != 0)
        return interp__fail(err, TNP_E_NODEV, "INTERP: device %u: there is only device 0", i);
    tnp_dev *d = interp__alloc(sizeof *d);
    if (!d) return interp__fail(err, TNP_E_NOMEM, "INTERP: open: no host memory");
    d->index = i;
    *out = d;
    *o = &dev_ops;
    return TNP_OK;
}

static void forked(void) {}

const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    static const tnp_plugin plugin = {
        .magic = TNP_MAGIC,
        .size = sizeof plugin,
        .minor = TNP_MINOR,
        .flags = TNP_ROOT_SURVIVES_FORK,
        .name = "INTERP",
        .version = "0.1.0",
        .vendor = "Tenon",
        .build = "C11",
        .init = init,
        .fini = fini,
        .count = count,
        .probe = probe,
        .open = dev_open,
        .forked = forked,
    };
    (void)host_minor;
    return &plugin;
}
