/* SPDX-License-Identifier: MIT */
/* The extension tenon.graph/1: replays with slots and scalars, wrong nodes, several threads. */
#define _GNU_SOURCE
#include "check.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const tnp_graph_ops *graphs;
static kern plus;
static tnp_prog *prog;

static void need_graphs(void)
{
    need_dev();
    graphs = TNP_FN(ops, tnp_dev_ops, ext) ? ops->ext(dev, "tenon.graph/1") : NULL;
    if (!graphs) skip("no extension tenon.graph/1");
    NEED(graphs->size >= TNP_END(tnp_graph_ops, free) && graphs->build && graphs->run &&
             graphs->free,
         "the table of tenon.graph/1 is not filled in");
}

static void need_kernel(void)
{
    need_graphs();
    if (caps.flags & TNP_F_NOEXEC) skip("runs nothing (TNP_F_NOEXEC)");
    kern_plus(&plus);
    prog = k_load(&plus);
}

static tnp_gref fixed(tnp_buf *b, uint64_t off, uint64_t len)
{
    return (tnp_gref){{b, off, len}, -1, 0};
}
static tnp_gref slot(int32_t s, uint64_t off, uint64_t len)
{
    return (tnp_gref){{NULL, off, len}, s, 0};
}

/* t, or without one a part of slot 1: fill t with 100; out(slot 0) = t + scalar 0; copy slot 0 to slot 1, 16 bytes further */
static tnp_graph *three_nodes(tnp_buf *t)
{
    static tnp_gref r0[1], r1[2], r2[2];
    static const int32_t scalar[1] = {0};
    static const uint64_t hundred[1] = {100};
    static const uint32_t after0[1] = {0}, after1[1] = {1};
    r0[0] = r1[1] = t ? fixed(t, 0, 16) : slot(1, 32, 16);
    r1[0] = slot(0, 0, 16);
    r2[0] = slot(1, 16, 16), r2[1] = slot(0, 0, 16);
    const tnp_node n[3] = {{.size = sizeof *n,
                            .kind = TNP_NODE_FILL,
                            .nrefs = 1,
                            .refs = r0,
                            .imms = hundred,
                            .nimms = 1,
                            .width = 4},
                           {.size = sizeof *n,
                            .kind = TNP_NODE_LAUNCH,
                            .deps = after0,
                            .ndeps = 1,
                            .nrefs = 2,
                            .refs = r1,
                            .prog = prog,
                            .grid = {4, 1, 1},
                            .local = {1, 1, 1},
                            .imm_slots = scalar,
                            .nimms = 1,
                            .work = 4},
                           {.size = sizeof *n,
                            .kind = TNP_NODE_COPY,
                            .deps = after1,
                            .ndeps = 1,
                            .nrefs = 2,
                            .refs = r2}};
    const tnp_node *const list[3] = {&n[0], &n[1], &n[2]};
    tnp_graph *g = NULL;
    worked(graphs->build(dev, list, 3, 2, 1, &g, fresh()), "build");
    NEED(g, "build answers OK and gives no graph");
    return g;
}

static void replays(void)
{
    need_kernel();
    tnp_buf *t = buf_new(16, TNP_MEM_ZERO), *a[2] = {buf_new(64, 0), buf_new(64, 0)},
            *b = buf_new(64, 0);
    tnp_graph *g = three_nodes(t);
    for (int i = 0; i < 50; i++) {
        const uint64_t off = (uint64_t)(i % 2) * caps.buf_align % 32, scalar = (uint64_t)i * 3;
        const tnp_ref slots[2] = {{a[i % 2], off, 32}, {b, 0, 64}};
        worked(graphs->run(dev, queue, g, slots, &scalar, signal_next(), fresh()), "run");
        settle();
        int v[4];
        get(a[i % 2], off, v, 16);
        NEED(v[0] == 100 + 3 * i && v[3] == v[0], "replay %d computes %d, not %d", i, v[0],
             100 + 3 * i);
        get(b, 16, v, 16);
        NEED(v[0] == 100 + 3 * i, "replay %d copies %d, not %d", i, v[0], 100 + 3 * i);
    }
    graphs->free(dev, g);
    graphs->free(dev, NULL);
}

static void wrong_nodes(void)
{
    need_graphs();
    kern_plus(&plus);
    prog = usable_dialect(&plus) ? k_load(&plus) : NULL;
    tnp_buf *b = buf_new(64, 0);
    const tnp_gref ok[2] = {fixed(b, 0, 16), fixed(b, 16, 16)};
    const tnp_gref far[2] = {slot(3, 0, 16), fixed(b, 0, 16)};
    const int32_t no_scalar[1] = {5};
    const uint64_t zero[1] = {0};
    const struct {
        const char *what;
        tnp_node n;
        bool always; /* a plugin that runs nothing must see it too */
    } bad[] = {
        {"a slot that there is not",
         {.size = sizeof(tnp_node), .kind = TNP_NODE_COPY, .nrefs = 2, .refs = far},
         true},
        {"an unknown kind", {.size = sizeof(tnp_node), .kind = 77, .nrefs = 2, .refs = ok}, false},
        {"a launch without a program",
         {.size = sizeof(tnp_node),
          .kind = TNP_NODE_LAUNCH,
          .nrefs = 2,
          .refs = ok,
          .imms = zero,
          .nimms = 1},
         false},
        {"a copy of one reference",
         {.size = sizeof(tnp_node), .kind = TNP_NODE_COPY, .nrefs = 1, .refs = ok},
         false},
        {"a scalar that there is not",
         {.size = sizeof(tnp_node),
          .kind = TNP_NODE_LAUNCH,
          .nrefs = 2,
          .refs = ok,
          .prog = prog,
          .grid = {1, 1, 1},
          .imm_slots = no_scalar,
          .imms = zero,
          .nimms = 1},
         false},
        {"a node that waits for itself",
         {.size = sizeof(tnp_node),
          .kind = TNP_NODE_COPY,
          .nrefs = 2,
          .refs = ok,
          .deps = (const uint32_t[]){0},
          .ndeps = 1},
         false},
    };
    for (size_t i = 0; i < LEN(bad); i++) {
        if (!bad[i].always && (caps.flags & TNP_F_NOEXEC)) continue;
        if (bad[i].n.kind == TNP_NODE_LAUNCH && bad[i].n.imm_slots && !prog) continue;
        const tnp_node *const list[1] = {&bad[i].n};
        tnp_graph *g = NULL;
        const tnp_rc rc = graphs->build(dev, list, 1, 1, 1, &g, fresh());
        NEED(rc == TNP_E_ARG || rc == TNP_E_UNSUPPORTED, "%s: rc %d, not ARG", bad[i].what, rc);
        NEED(err_text[0], "%s: rc %d without a message", bad[i].what, rc);
    }
}

static tnp_graph *shared;

static void *replay_often(void *arg)
{
    char text[300] = "";
    tnp_err e = {.size = sizeof e, .cap = sizeof text, .msg = text};
    tnp_buf *a, *b;
    tnp_queue *q;
    tnp_sem *s;
    const tnp_alloc al = {.size = sizeof al, .bytes = 64, .flags = TNP_MEM_ZERO};
    if (ops->buf_alloc(dev, &al, &a, &e) || ops->buf_alloc(dev, &al, &b, &e) ||
        ops->queue_new(dev, 0, &q, &e) || ops->sem_new(dev, 0, &s, &e))
        fail("a thread's objects: %s", text);
    for (uint64_t i = 1; i <= 300; i++) {
        const tnp_ref slots[2] = {{a, 0, 32}, {b, 0, 64}};
        const tnp_point p = {s, i};
        const tnp_sync sync = {.nsignal = 1, .signal = &p};
        const uint64_t scalar = i;
        if (graphs->run(dev, q, shared, slots, &scalar, &sync, &e) || ops->flush(dev, q, &e) ||
            ops->sem_wait(dev, s, i, UINT64_C(10000000000), &e))
            fail("a replay by several threads: %s", text);
    }
    (void)arg;
    return NULL;
}

static void by_threads(void)
{
    pthread_t t[4];
    need_kernel();
    if (!(caps.flags & TNP_F_THREADS)) skip("one thread at a time (no TNP_F_THREADS)");
    shared = three_nodes(NULL); /* no memory but the slots: each thread brings its own */
    for (size_t i = 0; i < LEN(t); i++)
        NEED(!pthread_create(&t[i], NULL, replay_often, NULL), "no thread");
    for (size_t i = 0; i < LEN(t); i++) pthread_join(t[i], NULL);
}

const check_row graph_checks[] = {
    {0, "graph", "fill, launch and copy are replayed with slots and scalars", replays, 60},
    {0, "graph", "a graph with a wrong node is not built", wrong_nodes, 60},
    {0, "graph", "one graph is replayed by four threads", by_threads, 60},
    {0}};
