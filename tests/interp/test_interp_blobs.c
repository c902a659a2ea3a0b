/* SPDX-License-Identifier: MIT */
/*
 * What the interpreter refuses, malformed blobs and faults at run time, each by its text; and the device
 * around it: capabilities, memory, timelines, graphs, failing allocations.
 */
#include "rig.h"

Suite *suite_interp_blobs(void);

/* ---- faults at run time ---- */

START_TEST(accesses_outside_a_buffer_name_row_buffer_index_and_length)
{
    float a[4] = {0};
    static const struct {
        int64_t index;
        uint32_t lanes;
        const char *want;
    } cases[] = {
        {4, 1, "row 1 (load): buffer 0: index 4, 1 elements, is outside its length of 4 elements"},
        {-1, 1, "index -1, 1 elements"},
        {1, 4, "index 1, 4 elements, is outside its length of 4 elements"},
        {INT64_MAX, 2, "index 9223372036854775807"},
    };
    for (size_t i = 0; i < LEN(cases); i++) {
        code k;
        begin(&k, 1);
        arg(&k, TNP_F32, 1000); /* what the launch brings counts */
        vrow(&k, "load", TNP_F32, cases[i].lanes, 0, konst(&k, TNP_I64, cases[i].index), -1, -1);
        const mem m[] = {MEM(a)};
        FAILS(run(&k, m), TNP_E_LAUNCH, cases[i].want);
    }
    code k;
    begin(&k, 1);
    arg(&k, TNP_F32, 4);
    scratch(&k, TNP_F32, 2, 0, 8);
    store(&k, 1, konst(&k, TNP_I32, 2), konst(&k, TNP_F32, 0));
    const mem m[] = {MEM(a)};
    FAILS(run(&k, m), TNP_E_LAUNCH,
          "row 2 (store): buffer 1: index 2, 1 elements, is outside its length of 2");
}
END_TEST

START_TEST(operands_that_lowering_must_exclude_are_faults)
{
    static const struct {
        const char *op;
        uint32_t dt, out;
        uint64_t a, b;
        const char *want;
    } cases[] = {
        {"idiv", TNP_I32, TNP_I32, 1, 0, "row 3 (idiv int32): the divisor is 0"},
        {"imod", TNP_U8, TNP_U8, 1, 0, "the divisor is 0"},
        {"idiv", TNP_I8, TNP_I8, 0x80, 0xff, "the quotient is too large"},
        {"imod", TNP_I64, TNP_I64, (UINT64_C(1) << 63), UINT64_MAX, "the quotient is too large"},
        {"shl", TNP_I32, TNP_I32, 1, 32, "the shift count is not in 0 .. bits - 1"},
        {"shr", TNP_I8, TNP_I8, 1, 0xff, "the shift count"},
        {"cast", TNP_F32, TNP_I32, 0x4f000000, 0,
         "row 3 (cast int32): the value is outside the integer's range"},
        {"cast", TNP_F32, TNP_U8, 0xbf800000, 0, "outside the integer's range"},
        {"cast", TNP_F64, TNP_I64, UINT64_C(0x7ff8000000000000), 0, "outside the integer's range"},
    };
    uint64_t out;
    for (size_t i = 0; i < LEN(cases); i++) {
        const int n = cases[i].op[0] == 'c' ? 1 : 2;
        FAILS(op3(cases[i].op, cases[i].dt, cases[i].out, cases[i].a, cases[i].b, 0, n, &out),
              TNP_E_LAUNCH, cases[i].want);
    }
}
END_TEST

/* ---- malformed blobs ---- */

typedef struct {
    const char *
        op; /* the row under test, after 0: i32 2, 1: f32 0, 2: bool 1, 3: f32 x 4, 4: loop, 5: f32 in it, 6: end */
    uint32_t dt, lanes;
    int64_t imm;
    int32_t src[3];
    const char *want;
} bad_row;
static const bad_row bad_rows[] = {
    {"frobnicate", TNP_F32, 1, 0, {0, -1, -1}, "row 7: unknown op \"frobnicate\""},
    {"add", TNP_F32, 1, 0, {1, 8, -1}, "row 7 (add): a source is not an earlier row"},
    {"add", TNP_F32, 1, 0, {1, 7, -1}, "a source is not an earlier row"},
    {"add", TNP_F32, 1, 0, {-2, 1, -1}, "a source is not an earlier row"},
    {"add", TNP_F32, 1, 0, {1, -1, -1}, "a source is missing"},
    {"add", TNP_F32, 1, 0, {1, 1, 1}, "too many sources"},
    {"add", TNP_F32, 1, 0, {1, 5, -1}, "a source stands in a block that has ended"},
    {"add", TNP_F32, 1, 0, {1, 6, -1}, "a source has no value"},
    {"add", TNP_F32, 1, 0, {1, 0, -1}, "a source is not of the row's dtype"},
    {"add", TNP_F32, 4, 0, {3, 1, -1}, "another number of lanes"},
    {"add", TNP_F32, 0, 0, {1, 1, -1}, "0 lanes"},
    {"add", 99, 1, 0, {1, 1, -1}, "unknown dtype"},
    {"and", TNP_F32, 1, 0, {1, 1, -1}, "no result of this dtype"},
    {"sqrt", TNP_I32, 1, 0, {0, -1, -1}, "no result of this dtype"},
    {"sub", TNP_BOOL, 1, 0, {2, 2, -1}, "no result of this dtype"},
    {"lt", TNP_F32, 1, 0, {1, 1, -1}, "no result of this dtype"},
    {"lt", TNP_BOOL, 1, 0, {1, 0, -1}, "the sources are of two dtypes"},
    {"where", TNP_F32, 1, 0, {0, 1, 1}, "the condition is not bool"},
    {"where", TNP_F32, 1, 0, {2, 1, 0}, "a source is not of the row's dtype"},
    {"bitcast", TNP_I64, 1, 0, {1, -1, -1}, "the source has another size"},
    {"gid", TNP_I32, 1, 3, {-1, -1, -1}, "the axis is not 0, 1 or 2"},
    {"gid", TNP_I32, 2, 0, {-1, -1, -1}, "the result is not a scalar"},
    {"param", TNP_I32, 1, 0, {-1, -1, -1}, "there is no immediate of this number"},
    {"load", TNP_F32, 1, 3, {0, -1, -1}, "there is no buffer of this number"},
    {"load", TNP_F32, 1, -1, {0, -1, -1}, "there is no buffer of this number"},
    {"load", TNP_F64, 1, 0, {0, -1, -1}, "the row is not of the buffer's dtype"},
    {"load", TNP_F32, 1, 0, {1, -1, -1}, "the index is not an integer scalar"},
    {"load", TNP_F32, 1, 0, {0, 1, -1}, "the gate is not a bool scalar"},
    {"load", TNP_F32, 1, 2, {0, -1, -1}, "not declared readable"},
    {"store", 0, 1, 1, {0, 1, -1}, "not declared writable"},
    {"store", 0, 1, 0, {0, 0, -1}, "the value is not of the buffer's dtype"},
    {"store", 0, 1, 0, {0, 3, -1}, "the value has another number of lanes"},
    {"set", 0, 1, 0, {1, 1, -1}, "source 0 is not a var row"},
    {"splat", TNP_F32, 4, 0, {3, -1, -1}, "the source is not a scalar"},
    {"extract", TNP_F32, 1, 4, {3, -1, -1}, "the lane is out of range"},
    {"insert", TNP_F32, 4, 0, {3, 0, -1}, "the element is not a scalar"},
    {"end", 0, 1, 0, {4, -1, -1}, "a source stands in a block that has ended"},
    {"endif", 0, 1, 0, {0, -1, -1}, "no block is open"},
    {"loop", TNP_I32, 1, 0, {0, -1, -1}, "the block is never closed"},
    {"loop", TNP_I32, 1, 0, {1, -1, -1}, "integer scalars"},
    {"if", 0, 1, 0, {0, -1, -1}, "the condition is not a bool scalar"},
};

START_TEST(malformed_rows_are_refused_with_their_number)
{
    const bad_row *b = &bad_rows[_i];
    tnp_prog *p;
    code k;
    begin(&k, 1);
    for (uint8_t i = 0; i < 3; i++) {
        arg(&k, TNP_F32, 4);
        k.bufs[i].access = i == 0 ? 3 : i; /* 0: both, 1: read, 2: write */
    }
    const int32_t two = konst(&k, TNP_I32, 2);
    const int32_t f = konst(&k, TNP_F32, 0);
    konst(&k, TNP_BOOL, 1);
    vrow(&k, "splat", TNP_F32, 4, 0, f, -1, -1);
    const int32_t l = row(&k, "loop", TNP_I32, 0, two, -1, -1);
    konst(&k, TNP_F32, 0);
    row(&k, "end", 0, 0, l, -1, -1);
    ck_assert_msg(load_code(&k, &p) == TNP_OK, "%s", text);
    ops->prog_free(dev, p);
    vrow(&k, b->op, b->dt, b->lanes, b->imm, b->src[0], b->src[1], b->src[2]);
    const tnp_rc rc = load_code(&k, &p);
    FAILS(rc, strcmp(b->op, "frobnicate") == 0 ? TNP_E_UNSUPPORTED : TNP_E_ARG, b->want);
}
END_TEST

START_TEST(blocks_that_cross_are_refused)
{
    code k;
    tnp_prog *p;
    begin(&k, 1);
    const int32_t two = konst(&k, TNP_I32, 2), yes = konst(&k, TNP_BOOL, 1);
    const int32_t l = row(&k, "loop", TNP_I32, 0, two, -1, -1);
    const int32_t f = row(&k, "if", 0, 0, yes, -1, -1);
    row(&k, "end", 0, 0, l, -1, -1);
    row(&k, "endif", 0, 0, f, -1, -1);
    FAILS(load_code(&k, &p), TNP_E_ARG, "row 4 (end): it does not close the innermost open block");
    begin(&k, 1);
    const int32_t y = konst(&k, TNP_BOOL, 1);
    row(&k, "end", 0, 0, row(&k, "if", 0, 0, y, -1, -1), -1, -1);
    FAILS(load_code(&k, &p), TNP_E_ARG, "it closes a block of the other kind");
}
END_TEST

START_TEST(malformed_heads_and_buffers_are_refused)
{
    tnp_prog *p;
    code k;
    static unsigned char bytes[sizeof(code)];
    begin(&k, 1);
    konst(&k, TNP_I32, 1);
    const size_t n = blob(&k, bytes);
    for (size_t cut = 0; cut < n; cut++) {
        const tnp_load l = {.size = sizeof l, .format = "linear", .bin = bytes, .len = cut};
        FAILS(ops->prog_load(dev, &l, &p, &err), TNP_E_ARG, "no linear code");
    }
    const tnp_load other = {.size = sizeof other, .format = "elf", .bin = bytes, .len = n};
    FAILS(ops->prog_load(dev, &other, &p, &err), TNP_E_UNSUPPORTED, "format \"elf\"");
    const tnp_entry e = {.name = "kernel", .nargs = 1, .local = {1, 1, 1}};
    const tnp_load misfit = {
        .size = sizeof misfit, .format = "linear", .entry = &e, .bin = bytes, .len = n};
    FAILS(ops->prog_load(dev, &misfit, &p, &err), TNP_E_ARG,
          "the entry has 1 buffers and 0 immediates, the blob 0 and 0");
    k.head.local[1] = 2;
    FAILS(load_code(&k, &p), TNP_E_UNSUPPORTED, "work-groups of 1 x 2 x 1");
    k.head.local[1] = 1;
    scratch(&k, TNP_F32, 4, 0, 15);
    FAILS(load_code(&k, &p), TNP_E_ARG, "scratch buffer 0: 4 x float32 at byte 0");
    k.head.scratch_bytes = 16;
    scratch(&k, TNP_F32, 1, 0, 16);
    FAILS(load_code(&k, &p), TNP_E_ARG, "scratch buffer 1");
    k.bufs[1].dtype = 77;
    FAILS(load_code(&k, &p), TNP_E_ARG, "buffer 1: unknown dtype 77");
    memset(k.head.name, 'x', sizeof k.head.name);
    FAILS(load_code(&k, &p), TNP_E_ARG, "name is not terminated");
}
END_TEST

START_TEST(mutated_blobs_are_refused_or_run_without_harm)
{
    uint32_t seed = 12345;
    float a[16] = {0};
    code k;
    begin(&k, 2);
    arg(&k, TNP_F32, 16);
    scratch(&k, TNP_F32, 4, 0, 16);
    const int32_t g = row(&k, "gid", TNP_I32, 0, -1, -1, -1), n = konst(&k, TNP_I32, 3);
    const int32_t acc = row(&k, "var", TNP_F32, 0, konst(&k, TNP_F32, 0), -1, -1);
    const int32_t l = row(&k, "loop", TNP_I32, 0, n, -1, -1);
    const int32_t v = vrow(&k, "load", TNP_F32, 4, 0, l, -1, -1);
    const int32_t x = row(&k, "extract", TNP_F32, 1, v, -1, -1);
    row(&k, "set", 0, 0, acc, row(&k, "add", TNP_F32, 0, x, acc, -1), -1);
    store(&k, 1, l, acc);
    row(&k, "end", 0, 0, l, -1, -1);
    store(&k, 0, g, acc);
    static unsigned char good[sizeof(code)], bad[sizeof(code)];
    const size_t bytes = blob(&k, good);
    int ran = 0;
    for (int round = 0; round < 20000; round++) {
        memcpy(bad, good, bytes);
        for (int m = 0; m < 1 + round % 3; m++) {
            seed = seed * 1664525u + 1013904223u;
            const size_t at = 128 + (seed >> 8) % (bytes - 128); /* past the head */
            bad[at] = (unsigned char)(seed % 7 ? bad[at] + (seed >> 4) % 5 - 2 : seed >> 16);
        }
        tnp_prog *p;
        const tnp_load ld = {.size = sizeof ld, .format = "linear", .bin = bad, .len = bytes};
        if (ops->prog_load(dev, &ld, &p, &err) != TNP_OK) continue;
        tnp_ref ref = {.len = sizeof a};
        const tnp_alloc al = {.size = sizeof al, .bytes = sizeof a, .host_ptr = a};
        ck_assert_int_eq(ops->buf_alloc(dev, &al, &ref.buf, &err), TNP_OK);
        const tnp_launch la = {
            .size = sizeof la, .grid = {1, 1, 1}, .local = {1, 1, 1}, .bufs = &ref, .nbufs = 1};
        if (((const tnl_row *)(const void *)(bad + bytes - 12 * sizeof(tnl_row)))[1].imm < 10000) {
            ops->launch(dev, queue, p, &la, NULL, &err);
            ran++;
        }
        ops->buf_free(dev, ref.buf);
        ops->prog_free(dev, p);
    }
    ck_assert_int_gt(ran, 100);
}
END_TEST

/* ---- the device ---- */

START_TEST(the_root_and_the_capabilities_are_as_declared)
{
    struct {
        tnp_caps c;
        unsigned char canary[16];
    } x;
    ck_assert_str_eq(plugin->name, "INTERP");
    ck_assert(plugin->magic == TNP_MAGIC && plugin->compile == NULL &&
              (plugin->flags & TNP_ROOT_SURVIVES_FORK));
    for (uint32_t size = TNP_END(tnp_caps, flags); size <= sizeof x.c + 8; size += 4) {
        memset(&x, 0xa5, sizeof x);
        x.c.size = size;
        ck_assert_int_eq(plugin->probe(0, &x.c, &err), TNP_OK);
        ck_assert_uint_le(x.c.size, sizeof x.c);
        for (size_t i = size; i < sizeof x; i++) ck_assert_uint_eq(((unsigned char *)&x)[i], 0xa5);
    }
    ck_assert_uint_eq(x.c.kind, TNP_KIND_SOFT);
    ck_assert_uint_eq(x.c.simd_bytes, 0);
    ck_assert_uint_eq(x.c.cores, 1);
    ck_assert_uint_eq(x.c.max_args, 64);
    ck_assert_str_eq(x.c.dialects[0], "linear");
    FAILS(plugin->probe(1, &x.c, &err), TNP_E_NODEV, "device 1");
    ck_assert_ptr_null(ops->ext(dev, "tenon.nonsense/1"));
}
END_TEST

START_TEST(memory_is_aligned_zeroed_mapped_copied_and_bounded)
{
    tnp_buf *b, *huge = NULL;
    void *p;
    tnp_alloc a = {.size = sizeof a, .flags = TNP_MEM_ZERO, .bytes = 100, .align = 4096};
    ck_assert_int_eq(ops->buf_alloc(dev, &a, &b, &err), TNP_OK);
    ck_assert_int_eq(ops->buf_map(dev, b, &p, &err), TNP_OK);
    ck_assert_uint_eq((uintptr_t)p % 4096, 0);
    for (int i = 0; i < 100; i++) ck_assert_int_eq(((char *)p)[i], 0);
    ck_assert_int_eq(ops->fill(dev, queue, (tnp_ref){b, 4, 8}, 0x0201, 2, NULL, &err), TNP_OK);
    char out[12];
    ck_assert_int_eq(ops->copy(dev, queue, (tnp_ref){b, 6, 8}, (tnp_ref){b, 4, 8}, NULL, &err),
                     TNP_OK);
    ck_assert_int_eq(ops->copy_out(dev, queue, out, (tnp_ref){b, 3, 12}, NULL, &err), TNP_OK);
    ck_assert_mem_eq(out, "\0\1\2\1\2\1\2\1\2\1\2\0", 12);
    FAILS(ops->fill(dev, queue, (tnp_ref){b, 0, 6}, 0, 4, NULL, &err), TNP_E_ARG, "that divide it");
    FAILS(ops->copy_in(dev, queue, (tnp_ref){b, 96, 5}, out, NULL, &err), TNP_E_ARG,
          "bytes 96 to 101 of a buffer of 100");
    a.bytes = UINT64_C(1) << 60;
    FAILS(ops->buf_alloc(dev, &a, &huge, &err), TNP_E_OOM, "more than there is");
    a.bytes = 1, a.flags = 1u << 30;
    FAILS(ops->buf_alloc(dev, &a, &huge, &err), TNP_E_UNSUPPORTED, "flags 0x40000000: unknown");
    ops->buf_free(dev, b);
}
END_TEST

START_TEST(timelines_rise_only_and_waits_time_out)
{
    tnp_sem *s;
    ck_assert_int_eq(ops->sem_new(dev, 3, &s, &err), TNP_OK);
    ck_assert_int_eq(ops->sem_wait(dev, s, 3, 0, &err), TNP_OK);
    FAILS(ops->sem_wait(dev, s, 4, 1000000, &err), TNP_E_TIMEOUT,
          "wait for 4: the timeline is at 3");
    FAILS(ops->sem_signal(dev, s, 3, &err), TNP_E_ARG, "only rises");
    ck_assert_int_eq(ops->sem_signal(dev, s, 7, &err), TNP_OK);
    tnp_buf *b;
    const tnp_alloc a = {.size = sizeof a, .bytes = 8};
    ck_assert_int_eq(ops->buf_alloc(dev, &a, &b, &err), TNP_OK);
    const tnp_point wait = {s, 7}, never = {s, 9}, signal = {s, 8};
    const tnp_sync sync = {.nwait = 1, .nsignal = 1, .wait = &wait, .signal = &signal};
    const tnp_sync hang = {.nwait = 1, .wait = &never};
    ck_assert_int_eq(ops->fill(dev, queue, (tnp_ref){b, 0, 8}, 0, 8, &sync, &err), TNP_OK);
    ck_assert_int_eq(ops->sem_wait(dev, s, 8, 0, &err), TNP_OK);
    FAILS(ops->fill(dev, queue, (tnp_ref){b, 0, 8}, 0, 8, &hang, &err), TNP_E_ARG,
          "nobody has signalled it yet");
    ops->buf_free(dev, b);
    ops->sem_free(dev, s);
}
END_TEST

START_TEST(a_graph_replays_fill_launch_and_copy_with_slots_and_scalars)
{
    const tnp_graph_ops *g = ops->ext(dev, "tenon.graph/1");
    tnp_graph *graph = NULL;
    tnp_prog *p;
    tnp_buf *b[2];
    int32_t *v[2];
    code k;
    begin(&k, 4); /* buffer[i] = buffer[i] + immediate */
    k.head.nimms = 1;
    arg(&k, TNP_I32, 4);
    const int32_t i = row(&k, "gid", TNP_I32, 0, -1, -1, -1), x = load(&k, TNP_I32, 0, i);
    store(&k, 0, i, row(&k, "add", TNP_I32, 0, x, row(&k, "param", TNP_I32, 0, -1, -1, -1), -1));
    ck_assert_int_eq(load_code(&k, &p), TNP_OK);
    for (int n = 0; n < 2; n++) {
        const tnp_alloc a = {.size = sizeof a, .bytes = 64, .flags = TNP_MEM_ZERO};
        void *q;
        ck_assert_int_eq(ops->buf_alloc(dev, &a, &b[n], &err), TNP_OK);
        ops->buf_map(dev, b[n], &q, &err);
        v[n] = q;
    }
    const tnp_gref fixed = {{b[0], 0, 16}, -1, 0}, slot = {{NULL, 16, 16}, 0, 0};
    const tnp_gref both[] = {slot, fixed};
    const uint64_t five[] = {5};
    const int32_t scalar[] = {0};
    const uint32_t dep0[] = {0}, dep1[] = {1};
    tnp_node fill = {.size = sizeof fill,
                     .kind = TNP_NODE_FILL,
                     .nrefs = 1,
                     .refs = &fixed,
                     .imms = five,
                     .nimms = 1,
                     .width = 4};
    tnp_node add = {.size = sizeof add,
                    .kind = TNP_NODE_LAUNCH,
                    .deps = dep0,
                    .ndeps = 1,
                    .nrefs = 1,
                    .refs = &fixed,
                    .prog = p,
                    .grid = {4, 1, 1},
                    .local = {1, 1, 1},
                    .imm_slots = scalar,
                    .imms = five,
                    .nimms = 1};
    tnp_node copy = {.size = sizeof copy,
                     .kind = TNP_NODE_COPY,
                     .deps = dep1,
                     .ndeps = 1,
                     .nrefs = 2,
                     .refs = both};
    const tnp_node *const nodes[] = {&fill, &add, &copy};
    ck_assert_msg(g->build(dev, nodes, 3, 1, 1, &graph, &err) == TNP_OK, "%s", text);
    const tnp_ref slots[] = {{b[1], 4, 60}};
    for (uint64_t n = 1; n <= 3; n++) {
        const uint64_t scalars[] = {n * 100};
        ck_assert_msg(g->run(dev, queue, graph, slots, scalars, NULL, &err) == TNP_OK, "%s", text);
        for (int e = 0; e < 4; e++) ck_assert_int_eq(v[1][5 + e], 5 + (int)n * 100);
        ck_assert_int_eq(v[1][4], 0);
        ck_assert_int_eq(v[1][9], 0);
    }
    g->free(dev, graph);
    for (int n = 0; n < 2; n++) ops->buf_free(dev, b[n]);
    ops->prog_free(dev, p);
}
END_TEST

START_TEST(graphs_that_name_what_is_not_there_are_refused)
{
    const tnp_graph_ops *g = ops->ext(dev, "tenon.graph/1");
    tnp_graph *graph = NULL;
    const tnp_gref slot = {{NULL, 0, 16}, 0, 0};
    const uint64_t five[] = {5};
    const int32_t scalar[] = {0};
    const uint32_t later[] = {1};
    tnp_node fill = {.size = sizeof fill,
                     .kind = TNP_NODE_FILL,
                     .nrefs = 1,
                     .refs = &slot,
                     .imm_slots = scalar,
                     .imms = five,
                     .nimms = 1,
                     .width = 4};
    const tnp_node *const nodes[] = {&fill};
    FAILS(g->build(dev, nodes, 1, 0, 1, &graph, &err), TNP_E_ARG, "graph node 0: slot 0 of 0");
    FAILS(g->build(dev, nodes, 1, 1, 0, &graph, &err), TNP_E_ARG, "graph node 0: scalar 0 of 0");
    fill.deps = later, fill.ndeps = 1;
    FAILS(g->build(dev, nodes, 1, 1, 1, &graph, &err), TNP_E_ARG,
          "waits for node 1, which is not earlier");
    fill.ndeps = 0, fill.nimms = 0;
    FAILS(g->build(dev, nodes, 1, 1, 1, &graph, &err), TNP_E_ARG,
          "a fill has one immediate, not 0");
    fill.kind = TNP_NODE_COPY;
    FAILS(g->build(dev, nodes, 1, 1, 1, &graph, &err), TNP_E_ARG, "wrong number of buffers");
    fill.kind = TNP_NODE_LAUNCH;
    FAILS(g->build(dev, nodes, 1, 1, 1, &graph, &err), TNP_E_ARG, "or no program");
    fill.kind = 77;
    FAILS(g->build(dev, nodes, 1, 1, 1, &graph, &err), TNP_E_UNSUPPORTED, "unknown kind 77");
    fill.kind = TNP_NODE_FILL, fill.nrefs = 65;
    FAILS(g->build(dev, nodes, 1, 1, 1, &graph, &err), TNP_E_ARG,
          "65 buffers and 0 immediates: at most 64");
}
END_TEST

START_TEST(each_failing_allocation_is_a_clean_error)
{
    float a[4] = {0};
    code k;
    begin(&k, 4);
    arg(&k, TNP_F32, 4);
    scratch(&k, TNP_F32, 4, 0, 16);
    const int32_t g = row(&k, "gid", TNP_I32, 0, -1, -1, -1);
    store(&k, 0, g, load(&k, TNP_F32, 0, g));
    const size_t before = live;
    for (int64_t n = 1;; n++) {
        tnp_prog *p;
        tnp_ref ref = {.len = sizeof a};
        const tnp_alloc al = {.size = sizeof al, .bytes = sizeof a, .host_ptr = a};
        ck_assert_int_eq(ops->buf_alloc(dev, &al, &ref.buf, &err), TNP_OK);
        fail_at = n;
        tnp_rc rc = load_code(&k, &p);
        if (rc == TNP_OK) {
            const tnp_launch la = {.size = sizeof la, .grid = {4, 1, 1}, .bufs = &ref, .nbufs = 1};
            rc = ops->launch(dev, queue, p, &la, NULL, &err);
            ops->prog_free(dev, p);
        }
        const bool done = fail_at > 0;
        fail_at = 0;
        ops->buf_free(dev, ref.buf);
        ck_assert_uint_eq(live, before);
        if (done) {
            ck_assert_int_eq(rc, TNP_OK);
            ck_assert_int_gt(n, 6);
            return;
        }
        ck_assert_int_eq(rc, TNP_E_NOMEM);
    }
}
END_TEST

Suite *suite_interp_blobs(void)
{
    Suite *s = suite_create("interp_blobs");
    TCase *t = tcase_create("interp_blobs");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, accesses_outside_a_buffer_name_row_buffer_index_and_length);
    tcase_add_test(t, operands_that_lowering_must_exclude_are_faults);
    tcase_add_loop_test(t, malformed_rows_are_refused_with_their_number, 0, (int)LEN(bad_rows));
    tcase_add_test(t, blocks_that_cross_are_refused);
    tcase_add_test(t, malformed_heads_and_buffers_are_refused);
    tcase_add_test(t, mutated_blobs_are_refused_or_run_without_harm);
    tcase_add_test(t, the_root_and_the_capabilities_are_as_declared);
    tcase_add_test(t, memory_is_aligned_zeroed_mapped_copied_and_bounded);
    tcase_add_test(t, timelines_rise_only_and_waits_time_out);
    tcase_add_test(t, a_graph_replays_fill_launch_and_copy_with_slots_and_scalars);
    tcase_add_test(t, graphs_that_name_what_is_not_there_are_refused);
    tcase_add_test(t, each_failing_allocation_is_a_clean_error);
    suite_add_tcase(s, t);
    return s;
}
