/* SPDX-License-Identifier: MIT */
/* The other extensions, peer, import and tc, and what the root says of dialects and renderers. */
#define _GNU_SOURCE
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const void *need_ext(const char *id)
{
    need_dev();
    const void *t = TNP_FN(ops, tnp_dev_ops, ext) ? ops->ext(dev, id) : NULL;
    if (!t) skip("no extension %s", id);
    return t;
}

static void peers(void)
{
    const tnp_peer_ops *p = need_ext("tenon.peer/1");
    tnp_dev *other;
    const tnp_dev_ops *oo;
    uint32_t how = 0;
    NEED(p->size >= TNP_END(tnp_peer_ops, copy) && p->can && p->map && p->copy,
         "the table of tenon.peer/1 is not filled in");
    if (dev_count < 2) skip("one device");
    worked(root->open(1, &other, &oo, fresh()), "open of device 1");
    worked(p->can(dev, other, &how, fresh()), "can");
    tnp_buf *theirs = NULL, *mine = buf_new(64, TNP_MEM_ZERO);
    const tnp_alloc a = {.size = sizeof a, .bytes = 64, .flags = TNP_MEM_ZERO};
    worked(oo->buf_alloc(other, &a, &theirs, fresh()), "buf_alloc on device 1");
    tnp_queue *q;
    if (how & TNP_PEER_COPY) {
        worked(oo->queue_new(other, 0, &q, fresh()), "queue_new on device 1");
        worked(oo->copy_in(other, q, (tnp_ref){theirs, 0, 8}, "neighbor", NULL, fresh()),
               "copy_in on device 1");
        worked(oo->flush(other, q, fresh()), "flush on device 1");
        oo->queue_free(other, q); /* drains */
        worked(p->copy(dev, queue, (tnp_ref){mine, 0, 8}, other, (tnp_ref){theirs, 0, 8},
                       signal_next(), fresh()),
               "peer copy");
        settle();
        char out[8];
        get(mine, 0, out, 8);
        NEED(!memcmp(out, "neighbor", 8), "a peer copy brings other bytes");
    } else
        refused(p->copy(dev, queue, (tnp_ref){mine, 0, 8}, other, (tnp_ref){theirs, 0, 8}, NULL,
                        fresh()),
                TNP_E_UNSUPPORTED, "a peer copy that can() denies");
    if (how & TNP_PEER_ACCESS) {
        tnp_buf *m = NULL;
        worked(p->map(dev, other, theirs, &m, fresh()), "peer map");
        put(m, 0, "mapped..", 8);
        char out[8] = "";
        worked(oo->queue_new(other, 0, &q, fresh()), "queue_new on device 1");
        worked(oo->copy_out(other, q, out, (tnp_ref){theirs, 0, 8}, NULL, fresh()),
               "copy_out on device 1");
        worked(oo->flush(other, q, fresh()), "flush on device 1");
        oo->queue_free(other, q); /* drains */
        NEED(!memcmp(out, "mapped..", 8), "a write through a peer's map does not arrive");
        ops->buf_free(dev, m);
    }
    oo->buf_free(other, theirs);
    oo->close(other);
}

static int released;
static void on_release(void *user) { released += user == (void *)&released; }

static void imports(void)
{
    const tnp_import_ops *p = need_ext("tenon.import/1");
    static _Alignas(4096) char mine[4096];
    tnp_buf *b = NULL;
    NEED(p->size >= TNP_END(tnp_import_ops, import) && p->import,
         "the table of tenon.import/1 is not filled in");
    tnp_import i = {.size = sizeof i, .kind = 63, .bytes = 64};
    refused(p->import(dev, &i, &b, fresh()), TNP_E_UNSUPPORTED, "an unknown kind of import");
    if (!(p->kinds >> TNP_IMPORT_HOST & 1)) {
        note("host memory is not imported");
        return;
    }
    i = (tnp_import){.size = sizeof i,
                     .kind = TNP_IMPORT_HOST,
                     .handle = (uint64_t)(uintptr_t)mine,
                     .offset = 64,
                     .bytes = 1024,
                     .access = TNP_ACCESS_READ | TNP_ACCESS_WRITE,
                     .release = on_release,
                     .user = &released};
    worked(p->import(dev, &i, &b, fresh()), "import of host memory");
    put(b, 0, "imported", 8);
    char out[8];
    get(b, 0, out, 8);
    NEED(!memcmp(out, "imported", 8), "imported memory loses bytes");
    if (caps.flags & TNP_F_UNIFIED)
        NEED(!memcmp(mine + 64, "imported", 8), "a write to imported memory does not arrive");
    NEED(!released, "release is called while the buffer lives");
    ops->buf_free(dev, b);
    NEED(released == 1, "release is called %d times, with the right user", released);
}

/* Every element of a rows x columns tile belongs to exactly one place, or to equally many. */
static void whole_tile(const char *name, const uint16_t *map, uint32_t places, uint32_t elements)
{
    static uint8_t seen[65536];
    NEED(map && elements && elements <= sizeof seen, "%s: a map is missing", name);
    memset(seen, 0, sizeof seen);
    for (uint32_t i = 0; i < places; i++) {
        NEED(map[i] < elements, "%s: a map names element %u of %u", name, map[i], elements);
        seen[map[i]]++;
    }
    for (uint32_t i = 0; i < elements; i++)
        NEED(seen[i] && seen[i] == seen[0], "%s: element %u is held %d times, element 0 %d times",
             name, i, seen[i], seen[0]);
}

static void matrix_units(void)
{
    const tnp_tc_ops *p = need_ext("tenon.tc/1");
    NEED(p->size >= TNP_END(tnp_tc_ops, list) && p->dialect && p->list,
         "the table of tenon.tc/1 is not filled in");
    int n = 0;
    for (const tnp_tc *const *l = p->list; *l; l++, n++) {
        const tnp_tc *t = *l;
        NEED(t->size >= TNP_END(tnp_tc, text) && t->name && t->text,
             "a row of the matrix units is not filled in");
        NEED(t->m && t->n && t->k && t->threads, "%s: a size is 0", t->name);
        NEED(dtype_size((int)t->a_dtype) && dtype_size((int)t->b_dtype) &&
                 dtype_size((int)t->c_dtype),
             "%s: an unknown dtype", t->name);
        whole_tile(t->name, t->a_map, t->threads * t->a_elems, t->m * t->k);
        whole_tile(t->name, t->b_map, t->threads * t->b_elems, t->k * t->n);
        whole_tile(t->name, t->c_map, t->threads * t->c_elems, t->m * t->n);
        NEED(strstr(t->text, "$a") && strstr(t->text, "$b") && strstr(t->text, "$d"),
             "%s: its text uses no $a, $b and $d", t->name);
    }
    note("%d shapes", n);
}

/* Ops and dtypes that the host may write for a device that computes with them. */
static const struct {
    const char *op;
    int kinds; /* 1 floats, 2 integers, 4 bool */
} wants[] = {{"add", 3},  {"sub", 3},   {"mul", 3},  {"neg", 3},   {"and", 6},
             {"or", 6},   {"xor", 6},   {"not", 6},  {"shl", 2},   {"shr", 2},
             {"div", 1},  {"idiv", 2},  {"imod", 2}, {"lt", 4},    {"eq", 4},
             {"ne", 4},   {"where", 7}, {"sqrt", 1}, {"trunc", 1}, {"floor", 1},
             {"exp2", 1}, {"log2", 1},  {"sin", 1},  {"cast", 7},  {"bitcast", 3}};

static bool has_template(const tnp_dialect *d, const char *op, int dt)
{
    for (uint32_t i = 0; i < d->nops; i++)
        if (!strcmp(d->ops[i].op, op) && (d->ops[i].dtypes >> dt & 1) && (d->ops[i].lanes & 1))
            return true;
    return false;
}

static void dialect_tables(void)
{
    need_init();
    const tnp_dialect *const *list = TNP_FN(root, tnp_plugin, dialects) ? root->dialects : NULL;
    const tnp_caps c = caps_of(0);
    if (!list || !*list) skip("no dialect table");
    for (; *list; list++) {
        const tnp_dialect *d = *list;
        NEED(d->size >= TNP_END(tnp_dialect, nops), "a dialect of %u bytes", d->size);
        NEED(d->name && d->types && d->kernel && d->buffer && d->ops, "dialect %s is not filled in",
             d->name ? d->name : "?");
        NEED(strstr(d->kernel, "$k") && strstr(d->buffer, "$v") && strstr(d->buffer, "$i"),
             "dialect %s: kernel needs $k, buffer $v and $i", d->name);
        NEED(d->imm[0] && d->imm[1] && d->gid[0] && d->gid[1] && d->gid[2],
             "dialect %s: immediates or ids are missing", d->name);
        bool listed = false;
        for (const char *const *n = c.dialects; n && *n; n++)
            listed = listed || !strcmp(*n, d->name);
        NEED(listed, "dialect %s has a table, and the capabilities do not name it", d->name);
        for (int dt = TNP_BOOL; dt < TNP_DTYPE_COUNT; dt++) {
            const int kind = dt == TNP_BOOL ? 4 : dt >= TNP_F32 ? 1 : dt >= TNP_F16 ? 0 : 2;
            if (!(c.dtypes_alu >> dt & 1) || !kind) continue;
            NEED(d->types[dt], "dialect %s has no type for %s", d->name, dtype_text(dt));
            for (size_t i = 0; i < LEN(wants); i++)
                NEED(!(wants[i].kinds & kind) || has_template(d, wants[i].op, dt),
                     "dialect %s has no template %s of %s", d->name, wants[i].op, dtype_text(dt));
        }
        for (uint32_t i = 0; i < d->nops; i++) {
            NEED(d->ops[i].op && d->ops[i].text && d->ops[i].lanes >= 1 && d->ops[i].lanes <= 3,
                 "dialect %s: template %u is not filled in", d->name, i);
            NEED(!strcmp(d->ops[i].op, "barrier") || strchr(d->ops[i].text, '$'),
                 "dialect %s: template %s names no source", d->name, d->ops[i].op);
        }
    }
}

static void renderers(void)
{
    static kern k;
    need_init();
    const tnp_render_ops *r = TNP_FN(root, tnp_plugin, render) ? root->render : NULL;
    if (!r) skip("no renderer of its own");
    NEED(r->size >= TNP_END(tnp_render_ops, render) && r->dialect && r->render,
         "the renderer's table is not filled in");
    kern_add(&k, TNP_F32);
    const bytes a = k_source(&k, r->dialect), b = k_source(&k, r->dialect);
    NEED(a.len == b.len && !memcmp(a.data, b.data, a.len), "two renderings of one kernel differ");
    tnp_blob src = {0}, log = {0};
    static const char junk[200] = "no linear code";
    const tnp_rc rc = r->render(junk, sizeof junk, &src, &log, fresh());
    NEED(rc < 0 && err_text[0], "what is no linear code is rendered: rc %d", rc);
}

const check_row other_checks[] = {
    {0, "peer", "copies and maps as can() says", peers, 0},
    {0, "import", "foreign memory is used, and released once", imports, 0},
    {0, "tc", "the maps of matrix units cover their tiles", matrix_units, 0},
    {0, "dialect", "tables have what the host may write", dialect_tables, 0},
    {0, "render", "its own renderer is pure and refuses what is no linear code", renderers, 60},
    {0}};
