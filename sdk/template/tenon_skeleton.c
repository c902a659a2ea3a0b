/* SPDX-License-Identifier: MIT */
/*
 * A plugin of one file to start from.  `make rename NAME=mine` gives it your name, `make check` asks it
 * whether it keeps the rules.
 *
 * As it stands it is one device whose memory is the host's: buffers, copies, queues and timelines work, by
 * tenon/hostdev.h.  It runs no kernels: `load` and `launch` answer UNSUPPORTED.  Fill in, in this order:
 *   1 caps    what the device is and takes: its dialects and formats
 *   2 load    a kernel's code becomes a tnp_prog
 *   3 launch  runs it over a grid of work-groups
 *   4 memory  functions of your own in place of TNK_HOSTDEV_OPS, where memory is not the host's
 */
#define TNK_NAME "SKELETON"
#include <tenon/hostdev.h>
#include <tenon/linear.h>

enum { DEVICES = 1 };

struct tnp_dev {
    uint32_t index;
};
struct tnp_prog {
    uint32_t nargs, nimms;
};

/* ---- 1: capabilities; the same for `probe`, which must be cheap, and for an open device ---- */

static const char *const dialects[] = {NULL}; /* "linear", or a source language with a table */
static const char *const formats[] = {NULL};  /* what `load` takes */

static tnp_rc fill_caps(uint32_t i, tnp_caps *out)
{
    const uint64_t all = (UINT64_C(1) << TNP_DTYPE_COUNT) - 2;
    tnp_caps c;
    memset(&c, 0, sizeof c);
    c.size = sizeof c;
    c.kind = TNP_KIND_SOFT; /* never picked unasked */
    c.flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_VADDR | TNP_F_THREADS;
    snprintf(c.name, sizeof c.name, "a device to be");
    snprintf(c.arch, sizeof c.arch, "none");
    snprintf(c.driver, sizeof c.driver, "0.1");
    snprintf(c.uid, sizeof c.uid, "skeleton:%u", i); /* of the chip, where it has one: "pci:..." */
    c.mem_total = c.mem_free = c.max_buffer = TNK_MAX_BYTES;
    c.buf_align = 16;
    c.max_args = 64;
    c.cores = c.subgroup = 1;
    c.max_local[0] = c.max_local[1] = c.max_local[2] = c.max_local_total = 1;
    c.max_grid[0] = c.max_grid[1] = c.max_grid[2] = UINT32_MAX;
    c.dtypes_mem = c.dtypes_alu = all;
    c.dialects = dialects;
    c.formats = formats;
    return tnk_caps_out(out, &c);
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)e;
    return fill_caps(d->index, out);
}

/* ---- 2: programs ---- */

static tnp_rc load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    (void)d, (void)out;
    return tnk_fail(e, TNP_E_UNSUPPORTED, 0, TNK_NAME ": format \"%s\": no kernel is taken",
                    l->format ? l->format : "");
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    tnk_give(tnk_host, p);
}

/* ---- 3: launches ---- */

static tnp_rc run(const tnp_prog *p, const tnp_launch *l, tnp_err *e)
{
    (void)p, (void)l;
    return tnk_fail(e, TNP_E_UNSUPPORTED, 0, TNK_NAME ": runs no kernels");
}

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    const uint64_t start = tnk_now_ns();
    tnp_rc rc;
    uint32_t i;
    (void)d, (void)q;
    if (l->flags)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, TNK_NAME ": launch flags %#x: none is known",
                        l->flags);
    if (l->nbufs != p->nargs || l->nimms != p->nimms)
        return tnk_fail(e, TNP_E_ARG, 0,
                        TNK_NAME ": %u buffers and %u immediates: the kernel takes %u and %u",
                        l->nbufs, l->nimms, p->nargs, p->nimms);
    if (l->local[0] > 1 || l->local[1] > 1 || l->local[2] > 1)
        return tnk_fail(e, TNP_E_ARG, 0,
                        TNK_NAME ": local size %u x %u x %u: a work-group is one thread",
                        l->local[0], l->local[1], l->local[2]);
    rc = tnk_begin(s, e);
    for (i = 0; i < l->nbufs && !rc; i++) rc = tnk_ref_check(&l->bufs[i], "launch", e);
    if (!rc) rc = run(p, l, e);
    if (rc) return rc;
    if (l->out_ns) *l->out_ns = tnk_now_ns() - start + 1;
    return tnk_end(s, e);
}

/* ---- 4: the device ---- */

static void dev_close(tnp_dev *d) { tnk_give(tnk_host, d); }

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return tnk_ext(id); /* peer and import; "tenon.graph/1" and others when you have them */
}

static const tnp_dev_ops dev_ops = {.size = sizeof dev_ops,
                                    .minor = TNP_MINOR,
                                    .close = dev_close,
                                    .caps = dev_caps,
                                    .prog_load = load,
                                    .prog_free = prog_free,
                                    .launch = launch,
                                    .ext = ext,
                                    TNK_HOSTDEV_OPS};

/* ---- the root ---- */

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    (void)e;
    tnk_host = h;
    return TNP_OK; /* driver libraries: h->lib_open; where there is none, `count` says TNP_E_DRIVER */
}

static void fini(void) { tnk_host = NULL; }
static void forked(void) {} /* a driver's objects die in a child: remember it, answer FORKED */

static tnp_rc count(uint32_t *n, tnp_err *e)
{
    (void)e;
    *n = DEVICES;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *e)
{
    if (i >= DEVICES)
        return tnk_fail(e, TNP_E_NODEV, 0, TNK_NAME ":%u: there is %d device", i, DEVICES);
    return fill_caps(i, out);
}

static tnp_rc open_dev(uint32_t i, tnp_dev **out, const tnp_dev_ops **ops, tnp_err *e)
{
    tnp_dev *d;
    if (i >= DEVICES)
        return tnk_fail(e, TNP_E_NODEV, 0, TNK_NAME ":%u: there is %d device", i, DEVICES);
    d = (tnp_dev *)tnk_take(tnk_host, sizeof *d);
    if (!d) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ":%u: no host memory", i);
    d->index = i;
    *out = d;
    *ops = &dev_ops;
    return TNP_OK;
}

static const tnp_plugin root = {.magic = TNP_MAGIC,
                                .size = sizeof root,
                                .minor = TNP_MINOR,
                                .min_host_minor = 0,
                                .flags = TNP_ROOT_SURVIVES_FORK,
                                .name = TNK_NAME,
                                .version = "0.1",
                                .vendor = "you",
                                .build = "C99",
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
