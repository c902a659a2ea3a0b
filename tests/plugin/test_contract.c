/* SPDX-License-Identifier: MIT */
/*
 * What the plugin header promises, asked of every plugin that needs no hardware, through its own functions:
 * growth of structs, ordinals, timelines, extensions, flags that are not known, replays by several threads.
 */
#include "device/module.h"
#include "kernels.h"
#include <pthread.h>

static const char *const names[] = {"CPU", "NULL", "INTERP"};

static tn__device *device(int i)
{
    tn__device *d = tn__device_get(names[i]);
    OK(d);
    return d;
}

/* An error with a text of some length. */
static void refuses(tnp_rc rc, tnp_rc want, const tn__plug_err *e)
{
    ck_assert_msg(rc == want, "%d, not %d: %s", rc, want, e->text);
    ck_assert_uint_gt(strlen(e->text), 8);
}

START_TEST(capabilities_fill_only_what_the_host_has_room_for)
{
    tn__device *d = device(_i);
    tn__plug_err e;
    tnp_caps full = {.size = sizeof full};
    ck_assert_int_eq(d->ops->caps(d->h, &full, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_uint_eq(full.size, sizeof full);
    for (uint32_t n = TNP_END(tnp_caps, flags); n < sizeof full; n += 4) { /* no host knows less */
        union {
            tnp_caps c;
            unsigned char b[sizeof(tnp_caps)];
        } u;
        memset(&u, 0xa5, sizeof u);
        u.c.size = n;
        ck_assert_int_eq(d->plugin->root->probe(0, &u.c, tn__plug_err_init(&e)), TNP_OK);
        ck_assert_uint_eq(u.c.size, n);
        for (size_t i = n; i < sizeof u; i++) ck_assert_uint_eq(u.b[i], 0xa5);
    }
}
END_TEST

START_TEST(a_probe_tells_what_an_open_device_tells)
{
    tn__device *d = device(_i);
    tn__plug_err e;
    tnp_caps a = {.size = sizeof a}, b = {.size = sizeof b};
    ck_assert_int_eq(d->ops->caps(d->h, &a, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_int_eq(d->plugin->root->probe(0, &b, tn__plug_err_init(&e)), TNP_OK);
    a.mem_free = b.mem_free;
    ck_assert_int_eq(memcmp(&a, &b, sizeof a), 0);
    ck_assert(a.name[0] && a.arch[0] && a.uid[0] && a.cores);
}
END_TEST

START_TEST(each_ordinal_has_a_uid_and_the_next_one_is_no_device)
{
    tn__device *d = device(_i);
    const tnp_plugin *r = d->plugin->root;
    tn__plug_err e;
    tnp_dev *h;
    const tnp_dev_ops *ops;
    uint32_t n = 0;
    static tnp_caps c[64];
    ck_assert_int_eq(r->count(&n, tn__plug_err_init(&e)), TNP_OK);
    ck_assert(n >= 1 && n <= 64);
    for (uint32_t i = 0; i < n; i++) {
        c[i] = (tnp_caps){.size = sizeof c[i]};
        ck_assert_int_eq(r->probe(i, &c[i], tn__plug_err_init(&e)), TNP_OK);
        for (uint32_t k = 0; k < i; k++) ck_assert_str_ne(c[i].uid, c[k].uid);
    }
    refuses(r->probe(n, &c[0], tn__plug_err_init(&e)), TNP_E_NODEV, &e);
    refuses(r->open(n, &h, &ops, tn__plug_err_init(&e)), TNP_E_NODEV, &e);
}
END_TEST

START_TEST(a_timeline_only_rises_and_a_wait_ends_in_time)
{
    tn__device *d = device(_i);
    tn__plug_err e;
    tnp_sem *s = NULL;
    ck_assert_int_eq(d->ops->sem_new(d->h, 5, &s, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_int_eq(d->ops->sem_wait(d->h, s, 5, 0, tn__plug_err_init(&e)), TNP_OK);
    refuses(d->ops->sem_signal(d->h, s, 5, tn__plug_err_init(&e)), TNP_E_ARG, &e);
    uint64_t t0 = tn__now_ns();
    refuses(d->ops->sem_wait(d->h, s, 6, 20000000, tn__plug_err_init(&e)), TNP_E_TIMEOUT, &e);
    ck_assert_uint_ge(tn__now_ns() - t0, 15000000);
    ck_assert_int_eq(d->ops->sem_signal(d->h, s, 9, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_int_eq(d->ops->sem_wait(d->h, s, 6, 0, tn__plug_err_init(&e)), TNP_OK);
    d->ops->sem_free(d->h, s);
}
END_TEST

START_TEST(submissions_signal_and_a_wait_for_nothing_is_refused)
{
    tn__device *d = device(_i);
    tn__plug_err e;
    tnp_sem *s = NULL;
    tnp_queue *q = NULL;
    uint32_t v = 7, w = 0;
    tn__buffer *b = tn__buffer_new(d, 4);
    OK(b);
    ck_assert_int_eq(d->ops->queue_new(d->h, 0, &q, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_int_eq(d->ops->sem_new(d->h, 0, &s, tn__plug_err_init(&e)), TNP_OK);
    const tnp_point one = {s, 1}, two = {s, 2}, nine = {s, 9};
    const tnp_ref r = tn__buffer_ref_of(b, 0, 4);
    const tnp_sync first = {.nsignal = 1, .signal = &one};
    const tnp_sync second = {.nwait = 1, .wait = &one, .nsignal = 1, .signal = &two};
    const tnp_sync never = {.nwait = 1, .wait = &nine};
    ck_assert_int_eq(d->ops->copy_in(d->h, q, r, &v, &first, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_int_eq(d->ops->copy_out(d->h, q, &w, r, &second, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_int_eq(d->ops->sem_wait(d->h, s, 2, 1000000000, tn__plug_err_init(&e)), TNP_OK);
    ck_assert_uint_eq(w, 7);
    if (!(d->caps.flags & (TNP_F_ASYNC | TNP_F_WAIT_BEFORE_SIGNAL)))
        refuses(d->ops->copy_in(d->h, q, r, &v, &never, tn__plug_err_init(&e)), TNP_E_ARG, &e);
    d->ops->sem_free(d->h, s);
    d->ops->queue_free(d->h, q);
    tn__buffer_unref(b);
}
END_TEST

START_TEST(what_is_not_known_is_refused)
{
    tn__device *d = device(_i);
    tn__plug_err e;
    tnp_queue *q = NULL;
    tn__buffer *b = tn__buffer_new(d, 64);
    const tnp_ref r = tn__buffer_ref_of(b, 0, 64);
    ck_assert_ptr_null(d->ops->ext(d->h, "nobody.knows/1"));
    refuses(d->ops->queue_new(d->h, 1u << 30, &q, tn__plug_err_init(&e)), TNP_E_UNSUPPORTED, &e);
    ck_assert_int_eq(d->ops->queue_new(d->h, 0, &q, tn__plug_err_init(&e)), TNP_OK);
    refuses(d->ops->fill(d->h, q, r, 1, 3, NULL, tn__plug_err_init(&e)), TNP_E_ARG, &e);
    d->ops->queue_free(d->h, q);
    tn__buffer_unref(b);
}
END_TEST

START_TEST(fills_repeat_patterns_of_every_width)
{
    tn__device *d = device(_i);
    if (d->caps.flags & TNP_F_NOEXEC) test_skip("%s runs nothing", names[_i]);
    tn__plug_err e;
    tnp_queue *q = NULL;
    static unsigned char v[20016], want[20016];
    tn__buffer *b = tn__buffer_new(d, sizeof v);
    OK(b);
    ck_assert_int_eq(d->ops->queue_new(d->h, 0, &q, tn__plug_err_init(&e)), TNP_OK);
    for (uint32_t width = 1; width <= 8; width *= 2)
        for (size_t n = 8; n <= 20000; n = n * 5 / 8 * 8) {
            const uint64_t pattern = n & 16 ? 0 : 0x1122334455667788u;
            memset(v, 0xee, sizeof v);
            OK(tn__buffer_write(b, 0, v, sizeof v));
            memcpy(want, v, sizeof v);
            for (size_t i = 0; i < n; i++)
                want[8 + i] = (unsigned char)(pattern >> 8 * (i % width));
            ck_assert_int_eq(d->ops->fill(d->h, q, tn__buffer_ref_of(b, 8, n), pattern, width, NULL,
                                          tn__plug_err_init(&e)),
                             TNP_OK);
            OK(tn__buffer_read(v, b, 0, sizeof v));
            ck_assert_int_eq(memcmp(v, want, sizeof v), 0);
        }
    d->ops->queue_free(d->h, q);
    tn__buffer_unref(b);
}
END_TEST

START_TEST(zeroed_memory_is_zero_after_reuse)
{
    tn__device *d = device(_i);
    tn__plug_err e;
    static const uint64_t sizes[] = {1, 100, 5000, 70000, 300000};
    for (size_t i = 0; i < TN_LEN(sizes); i++)
        for (int k = 0; k < 4; k++) {
            const tnp_alloc a = {
                .size = sizeof a, .flags = TNP_MEM_ZERO, .bytes = sizes[i], .align = 64};
            tnp_buf *b = NULL;
            void *p = NULL;
            ck_assert_int_eq(d->ops->buf_alloc(d->h, &a, &b, tn__plug_err_init(&e)), TNP_OK);
            ck_assert_int_eq(d->ops->buf_map(d->h, b, &p, tn__plug_err_init(&e)), TNP_OK);
            for (uint64_t j = 0; j < sizes[i]; j++) ck_assert_uint_eq(((unsigned char *)p)[j], 0);
            memset(p, 0xff, sizes[i]);
            d->ops->buf_free(d->h, b);
        }
    const tnp_alloc huge = {.size = sizeof huge, .bytes = 1ull << 60};
    tnp_buf *b = NULL;
    refuses(d->ops->buf_alloc(d->h, &huge, &b, tn__plug_err_init(&e)), TNP_E_OOM, &e);
}
END_TEST

/* ---- one graph, several threads ---- */

typedef struct {
    tn__device *d;
    tn__replay *g;
    float scale;
    bool ok;
} job;

enum { N = 50 * GROUP };

static void *replay(void *arg)
{
    job *j = arg;
    tn__buffer *b[2] = {tn__buffer_new(j->d, N * 4), tn__buffer_new(j->d, N * 4)};
    const tnp_ref slots[2] = {tn__buffer_ref_of(b[0], 0, N * 4), tn__buffer_ref_of(b[1], 0, N * 4)};
    float *in = tn__buffer_map(b[0]), *out = tn__buffer_map(b[1]);
    for (int i = 0; i < N; i++) in[i] = (float)i;
    j->ok = true;
    for (int k = 0; k < 100 && j->ok; k++) {
        const uint64_t by = (uint64_t)j->scale + (uint64_t)k;
        j->ok = tn__replay_run(j->g, slots, &by);
        for (int i = 0; i < N && j->ok; i++) j->ok = out[i] == (float)i * (float)by;
    }
    tn__buffer_unref(b[0]);
    tn__buffer_unref(b[1]);
    return NULL;
}

START_TEST(one_graph_is_replayed_by_four_threads_at_once)
{
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    tn__program *p;
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs + 1, 1, &p));
    static const int32_t from_scalar[] = {0};
    const tnp_gref refs[] = {{.ref = {.len = N * 4}, .slot = 1},
                             {.ref = {.len = N * 4}, .slot = 0}};
    const tnp_node node = {.size = sizeof node,
                           .kind = TNP_NODE_LAUNCH,
                           .nrefs = 2,
                           .refs = refs,
                           .prog = tn__program_handle(p),
                           .grid = {N / GROUP, 1, 1},
                           .local = {1, 1, 1},
                           .imm_slots = from_scalar,
                           .nimms = 1,
                           .work = 1000000};
    const tnp_node *list[] = {&node};
    tn__replay *g = tn__replay_new(d, list, 1, 2, 1);
    OK(g);
    pthread_t t[4];
    job j[4];
    for (int i = 0; i < 4; i++) {
        j[i] = (job){.d = d, .g = g, .scale = (float)(i + 1)};
        ck_assert_int_eq(pthread_create(&t[i], NULL, replay, &j[i]), 0);
    }
    for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) ck_assert(j[i].ok);
    tn__replay_free(g);
    tn__program_unref(p);
}
END_TEST

static const struct {
    tnp_node change;
    uint32_t deps;
    const char *says;
} wrong_nodes[] = {
    {{.kind = 9, .nrefs = 2}, 0, "kind 9 is not known"},
    {{.kind = TNP_NODE_COPY, .nrefs = 1}, 0, "a copy has 2 references"},
    {{.kind = TNP_NODE_COPY, .nrefs = 2, .ndeps = 1}, 0, "depends on node 0: only on earlier ones"},
    {{.kind = TNP_NODE_FILL, .nrefs = 1, .nimms = 1, .width = 3}, 0, "a fill has 1 reference"},
    {{.kind = TNP_NODE_LAUNCH, .nrefs = 2}, 0, "do not fit its kernel"},
    {{.kind = TNP_NODE_COPY, .nrefs = 3}, 0, "a copy has 2 references"},
};

START_TEST(a_graph_with_a_wrong_node_is_not_built)
{
    tn__device *d = tn__device_get("CPU");
    OK(d);
    const tnp_gref refs[3] = {{.slot = 0}, {.slot = 1}, {.slot = 2}};
    tnp_node n = wrong_nodes[_i].change;
    n.size = sizeof n;
    n.refs = refs;
    n.deps = &wrong_nodes[_i].deps;
    const tnp_node *list[] = {&n};
    ck_assert_ptr_null(tn__replay_new(d, list, 1, 3, 0));
    ck_assert_ptr_nonnull(strstr(error_text(), "building a replay"));
    SAYS(_i ? TN_EINTERNAL : TN_EUNSUPPORTED, wrong_nodes[_i].says);
    n = (tnp_node){.size = sizeof n, .kind = TNP_NODE_COPY, .nrefs = 2, .refs = refs};
    ck_assert_ptr_null(tn__replay_new(d, list, 1, 1, 0));
    SAYS(TN_EINTERNAL, "slot 1 of 1");
}
END_TEST

Suite *suite_contract(void)
{
    Suite *s = suite_create("contract");
    TCase *t = tcase_create("contract");
    tcase_set_timeout(t, 120);
    const int n = (int)TN_LEN(names);
    tcase_add_loop_test(t, capabilities_fill_only_what_the_host_has_room_for, 0, n);
    tcase_add_loop_test(t, a_probe_tells_what_an_open_device_tells, 0, n);
    tcase_add_loop_test(t, each_ordinal_has_a_uid_and_the_next_one_is_no_device, 0, n);
    tcase_add_loop_test(t, a_timeline_only_rises_and_a_wait_ends_in_time, 0, n);
    tcase_add_loop_test(t, submissions_signal_and_a_wait_for_nothing_is_refused, 0, n);
    tcase_add_loop_test(t, what_is_not_known_is_refused, 0, n);
    tcase_add_loop_test(t, fills_repeat_patterns_of_every_width, 0, n);
    tcase_add_loop_test(t, zeroed_memory_is_zero_after_reuse, 0, n);
    tcase_add_test(t, one_graph_is_replayed_by_four_threads_at_once);
    tcase_add_loop_test(t, a_graph_with_a_wrong_node_is_not_built, 0, (int)TN_LEN(wrong_nodes));
    suite_add_tcase(s, t);
    return s;
}
