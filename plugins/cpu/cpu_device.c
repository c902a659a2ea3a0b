/* SPDX-License-Identifier: MIT */
/*
 * The CPU device: programs and launches.  Synchronous; memory, queues, timelines and copies are those of the
 * SDK's hostdev.h.
 */
#define _GNU_SOURCE
#include "cpu.h"
#include <string.h>

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)e;
    cpu__caps(d->index, out);
    return TNP_OK;
}

/* ---- programs ---- */

static tnp_rc prog_load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    (void)d;
    if (l->flags)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: load flags %#x: none is known", l->flags);
    if (!l->format || strcmp(l->format, "so"))
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: format \"%s\": only so is loaded here",
                         l->format ? l->format : "");
    if (!l->entry || !l->entry->name)
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: load: no entry is named");
    const tnp_entry *en = l->entry;
    if (en->nargs > CPU_MAX_ARGS || en->nimms > CPU_MAX_IMMS)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: kernel %s: %u buffers and %u immediates: at most %d and %d",
                         en->name, en->nargs, en->nimms, CPU_MAX_ARGS, CPU_MAX_IMMS);
    tnp_prog *p = cpu__take(sizeof *p);
    if (!p) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for a program's record");
    tnp_rc rc = cpu__lib_get(l->bin, l->len, &p->lib, e);
    if (!rc) {
        p->fn = cpu__lib_find(p->lib, en->name);
        p->scratch_bytes = TNP_HAS(l, tnp_load, scratch_bytes) ? l->scratch_bytes : 0;
        p->nargs = en->nargs;
        p->nimms = en->nimms;
        if (!p->fn) rc = cpu__fail(e, TNP_E_ARG, 0, "CPU: the binary has no entry %s", en->name);
    }
    if (rc) {
        cpu__lib_put(p->lib);
        cpu__give(p);
        return rc;
    }
    *out = p;
    return TNP_OK;
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    if (!p) return;
    cpu__lib_put(p->lib);
    cpu__give(p);
}

/* ---- work ---- */

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    (void)d, (void)q;
    void *bufs[CPU_MAX_ARGS];
    if (l->flags)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: launch flags %#x: none is known", l->flags);
    if (l->nbufs != p->nargs || l->nimms != p->nimms)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: launch with %u buffers and %u immediates: the kernel has %u and %u",
                         l->nbufs, l->nimms, p->nargs, p->nimms);
    if ((uint64_t)l->local[0] * l->local[1] * l->local[2] > 1)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: local size %u x %u x %u: a work-group is one thread", l->local[0],
                         l->local[1], l->local[2]);
    tnp_rc rc = tnk_begin(s, e);
    for (uint32_t i = 0; i < l->nbufs && !rc; i++) {
        rc = tnk_ref_check(&l->bufs[i], "launch", e);
        if (!rc) bufs[i] = l->bufs[i].buf->p + l->bufs[i].off;
    }
    if (rc) return rc;
    const cpu__job j = {.fn = p->fn,
                        .bufs = bufs,
                        .imms = l->imms,
                        .grid = {l->grid[0], l->grid[1], l->grid[2]},
                        .scratch_bytes = p->scratch_bytes,
                        .work = l->work};
    uint64_t t0 = l->out_ns ? cpu__now_ns() : 0;
    if (!cpu__pool_run(&j))
        return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no memory for %llu bytes of scratch",
                         (unsigned long long)p->scratch_bytes);
    if (l->out_ns) *l->out_ns = cpu__now_ns() - t0 + 1;
    return tnk_end(s, e);
}

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return strcmp(id, "tenon.graph/1") ? tnk_ext(id) : &cpu__graph_ops;
}

const tnp_dev_ops cpu__dev_ops = {.size = sizeof cpu__dev_ops,
                                  .minor = TNP_MINOR,
                                  .close = cpu__dev_close,
                                  .caps = dev_caps,
                                  TNK_HOSTDEV_OPS,
                                  .prog_load = prog_load,
                                  .prog_free = prog_free,
                                  .launch = launch,
                                  .ext = ext};
