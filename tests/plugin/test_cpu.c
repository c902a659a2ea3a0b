/* SPDX-License-Identifier: MIT */
/* The CPU plugin through the device layer, with kernels written in C: compile, load, launch, threads, replay,
 * scratch, fork. */
#include "kernels.h"
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

static tn__device *cpu(void)
{
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    return d;
}

START_TEST(two_arrays_are_added_by_all_threads)
{
    enum { N = 400 * GROUP };
    tn__device *d = cpu();
    tn__program *p[3];
    tn__buffer *b[3];
    tnp_ref r[3];
    uint64_t ns = 0;
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 3, p));
    three_buffers(d, N, b, r);
    uint64_t kernels = tn__count.kernels;
    for (int k = 0; k < 50; k++) {
        const tn__launch l = {.grid = {N / GROUP, 1, 1},
                              .local = {1, 1, 1},
                              .bufs = r,
                              .nbufs = 3,
                              .work = N,
                              .out_ns = &ns};
        float zero[2] = {0, 0}, got[2];
        OK(tn__buffer_write(b[0], 0, zero, 4));
        OK(tn__buffer_write(b[0], (N - 1) * 4, zero, 4));
        OK(tn__launch_run(d, p[0], &l));
        ck_assert_uint_gt(ns, 0);
        OK(tn__buffer_read(got, b[0], 0, 4));
        OK(tn__buffer_read(got + 1, b[0], (N - 1) * 4, 4));
        ck_assert(got[0] == 1.0f && got[1] == 3.0f * (N - 1) + 1);
    }
    ck_assert_uint_eq(tn__count.kernels - kernels, 50);
    const float *o = tn__buffer_map(b[0]);
    ck_assert_ptr_nonnull(o);
    for (size_t i = 0; i < N; i++) ck_assert(o[i] == (float)(3 * i + 1));
    drop_three(b);
    for (int k = 0; k < 3; k++) tn__program_unref(p[k]);
}
END_TEST

START_TEST(every_group_of_three_axes_runs_once_with_its_own_scratch)
{
    tn__device *d = cpu();
    tn__program *p[3];
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 3, p));
    tn__buffer *b = tn__buffer_new(d, 7 * 5 * 300 * sizeof(int));
    OK(b);
    tnp_ref r = tn__buffer_ref_of(b, 0, 7 * 5 * 300 * sizeof(int));
    int *o = tn__buffer_map(b);
    for (int k = 0; k < 20; k++) {
        memset(o, 0xff, 7 * 5 * 300 * sizeof(int));
        OK(tn__launch_run(d, p[2],
                          &(tn__launch){.grid = {7, 5, 300},
                                        .local = {1, 1, 1},
                                        .bufs = &r,
                                        .nbufs = 1,
                                        .work = 10000000}));
        for (int i = 0; i < 7 * 5 * 300; i++) ck_assert_int_eq(o[i], i);
    }
    OK(tn__launch_run(
        d, p[2], &(tn__launch){.grid = {7, 0, 300}, .local = {1, 1, 1}, .bufs = &r, .nbufs = 1}));
    tn__buffer_unref(b);
    for (int k = 0; k < 3; k++) tn__program_unref(p[k]);
}
END_TEST

START_TEST(a_wrong_source_is_an_error_with_the_compilers_text_and_line)
{
    static const char src[] = "\n\nvoid add(void) { not_a_thing = 3; }\n";
    tn__program *p = NULL;
    ck_assert(!tn__program_build(cpu(), src, strlen(src), add_sigs, 1, &p));
    ck_assert_ptr_null(p);
    ck_assert_ptr_nonnull(strstr(error_text(), "<stdin>:3:"));
    ck_assert_ptr_nonnull(strstr(error_text(), "not_a_thing"));
    SAYS(TN_ECOMPILE, "kernel add does not compile");
    OK(tn__program_build(cpu(), add_source, strlen(add_source), add_sigs, 1, &p));
    tn__program_unref(p);
}
END_TEST

START_TEST(an_entry_that_the_source_has_not_is_an_error)
{
    tn__kernel_sig sig = add_sigs[0];
    tn__program *p = NULL;
    sig.name = "sin"; /* found by a plain dlsym, in libm */
    ck_assert(!tn__program_build(cpu(), add_source, strlen(add_source), &sig, 1, &p));
    SAYS(TN_EINTERNAL, "the binary has no entry sin");
}
END_TEST

START_TEST(without_a_compiler_the_error_names_the_interpreter)
{
    tn__program *p = NULL;
    setenv("PATH", "/nonexistent", 1);
    setenv("CACHELEVEL", "0", 1);
    tn__context_reload();
    ck_assert(!tn__program_build(cpu(), add_source, strlen(add_source), add_sigs, 1, &p));
    SAYS(TN_ECOMPILE, "no C compiler (tried cc, gcc, clang)");
    setenv("CC", "no-such-compiler -O3", 1);
    tn__context_reload();
    ck_assert(!tn__program_build(cpu(), add_source, strlen(add_source), add_sigs, 1, &p));
    ck_assert_ptr_nonnull(strstr(error_text(), "DEV=INTERP"));
    SAYS(TN_ECOMPILE, "\"no-such-compiler -O3\" (CC) cannot be started");
}
END_TEST

START_TEST(a_compiler_that_makes_nothing_is_named_with_the_ways_out)
{
    static const struct {
        const char *cc, *text;
    } rows[] = {
        {"/bin/false",
         "C compiler \"/bin/false\" (CC) refuses the kernel's source (status 1): set CC to "
         "gcc or clang (Debian: apt-get install gcc), or run with DEV=INTERP"},
        {"/bin/true", "C compiler \"/bin/true\" (CC) left no output: set CC to gcc or clang"},
    };
    tn__program *p = NULL;
    setenv("CACHELEVEL", "0", 1);
    for (size_t i = 0; i < TN_LEN(rows); i++) {
        setenv("CC", rows[i].cc, 1);
        tn__context_reload();
        ck_assert(!tn__program_build(cpu(), add_source, strlen(add_source), add_sigs, 1, &p));
        SAYS(TN_ECOMPILE, rows[i].text);
    }
    unsetenv("CC");
    tn__context_reload();
    ck_assert(!tn__program_build(cpu(), "nonsense", 8, add_sigs, 1, &p));
    SAYS(TN_ECOMPILE, "C compiler of the system refuses the kernel's source (status 1): set CC to "
                      "another gcc or clang");
}
END_TEST

START_TEST(cc_with_arguments_is_split_at_spaces)
{
    static const char src[] = HEAD
        "void add" SIGNATURE "{ (void)imms; (void)gid; (void)scratch; *(int *)bufs[0] = ANSWER; }";
    tn__program *p = NULL;
    setenv("CC", "gcc  -DANSWER=42", 1);
    tn__context_reload();
    tn__device *d = cpu();
    tn__kernel_sig sig = add_sigs[0];
    sig.nargs = 1;
    OK(tn__program_build(d, src, strlen(src), &sig, 1, &p));
    tn__buffer *b = tn__buffer_new(d, 4);
    tnp_ref r = tn__buffer_ref_of(b, 0, 4);
    int got = 0;
    OK(tn__launch_run(
        d, p, &(tn__launch){.grid = {1, 1, 1}, .local = {1, 1, 1}, .bufs = &r, .nbufs = 1}));
    OK(tn__buffer_read(&got, b, 0, 4));
    ck_assert_int_eq(got, 42);
    tn__buffer_unref(b);
    tn__program_unref(p);
}
END_TEST

START_TEST(launches_that_do_not_fit_the_kernel_are_errors)
{
    tn__device *d = cpu();
    tn__program *p;
    tn__buffer *b[3];
    tnp_ref r[3];
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 1, &p));
    three_buffers(d, GROUP, b, r);
    ck_assert(!tn__launch_run(
        d, p, &(tn__launch){.grid = {1, 1, 1}, .local = {1, 1, 1}, .bufs = r, .nbufs = 2}));
    SAYS(TN_EINTERNAL, "2 buffers and 0 immediates: the kernel has 3 and 0");
    ck_assert(!tn__launch_run(
        d, p, &(tn__launch){.grid = {1, 1, 1}, .local = {8, 1, 1}, .bufs = r, .nbufs = 3}));
    SAYS(TN_EINTERNAL, "a work-group is one thread");
    r[2].off = 1u << 20;
    ck_assert(!tn__launch_run(
        d, p, &(tn__launch){.grid = {1, 1, 1}, .local = {1, 1, 1}, .bufs = r, .nbufs = 3}));
    SAYS(TN_EINTERNAL, "of a buffer of");
    drop_three(b);
    tn__program_unref(p);
}
END_TEST

/* a replay: scale slot 0 into slot 1 by scalar 0, copy slot 1 to slot 2, fill the head of slot 1 */
static tn__replay *three_nodes(tn__device *d, tn__program *scale, size_t n)
{
    static const uint32_t first[] = {0}, second[] = {1};
    static const int32_t from_scalar[] = {0};
    static const uint64_t pattern[] = {0x3f800000u};
    const uint64_t bytes = n * 4;
    const tnp_gref launch_refs[] = {{.ref = {.len = bytes}, .slot = 1},
                                    {.ref = {.len = bytes}, .slot = 0}};
    const tnp_gref copy_refs[] = {{.ref = {.len = bytes}, .slot = 2},
                                  {.ref = {.len = bytes}, .slot = 1}};
    const tnp_gref fill_refs[] = {{.ref = {.off = 4, .len = 12}, .slot = 1}};
    const tnp_node nodes[] = {{.size = sizeof nodes[0],
                               .kind = TNP_NODE_LAUNCH,
                               .nrefs = 2,
                               .refs = launch_refs,
                               .prog = tn__program_handle(scale),
                               .grid = {(uint32_t)(n / GROUP), 1, 1},
                               .local = {1, 1, 1},
                               .imm_slots = from_scalar,
                               .nimms = 1,
                               .work = n},
                              {.size = sizeof nodes[0],
                               .kind = TNP_NODE_COPY,
                               .deps = first,
                               .ndeps = 1,
                               .nrefs = 2,
                               .refs = copy_refs},
                              {.size = sizeof nodes[0],
                               .kind = TNP_NODE_FILL,
                               .deps = second,
                               .ndeps = 1,
                               .nrefs = 1,
                               .refs = fill_refs,
                               .imms = pattern,
                               .nimms = 1,
                               .width = 4}};
    const tnp_node *list[] = {&nodes[0], &nodes[1], &nodes[2]};
    tn__replay *r = tn__replay_new(d, list, 3, 3, 1);
    OK(r);
    return r;
}

START_TEST(a_replay_patches_slots_and_scalars_and_allocates_nothing)
{
    enum { N = 100 * GROUP };
    tn__device *d = cpu();
    tn__program *p;
    tn__buffer *b[3];
    tnp_ref r[3];
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs + 1, 1, &p));
    three_buffers(d, N, b, r);
    tn__replay *g = three_nodes(d, p, N);
    const tnp_ref slots[2][3] = {{r[1], r[0], r[2]}, {r[1], r[2], r[0]}};
    for (uint64_t k = 1; k < 20; k++) {
        uint64_t before = tn__alloc_count();
        OK(tn__replay_run(g, slots[k & 1], &k));
        if (k > 1) ck_assert_uint_eq(tn__alloc_count(), before);
        const float *scaled = tn__buffer_map(b[k & 1 ? 2 : 0]),
                    *copied = tn__buffer_map(b[k & 1 ? 0 : 2]);
        for (size_t i = 0; i < N; i++) {
            ck_assert(copied[i] == (float)i * (float)k);
            ck_assert(scaled[i] == (i >= 1 && i <= 3 ? 1.0f : copied[i]));
        }
    }
    ck_assert_uint_eq(tn__count.replays, 19);
    tn__replay_free(g);
    drop_three(b);
    tn__program_unref(p);
}
END_TEST

START_TEST(a_replay_with_too_short_a_slot_is_an_error)
{
    tn__device *d = cpu();
    tn__program *p;
    tn__buffer *b[3];
    tnp_ref r[3];
    uint64_t k = 2;
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs + 1, 1, &p));
    three_buffers(d, GROUP, b, r);
    tn__replay *g = three_nodes(d, p, 2 * GROUP);
    ck_assert(!tn__replay_run(g, (tnp_ref[]){r[1], r[0], r[2]}, &k));
    SAYS(TN_EINTERNAL, "graph slot: bytes 0 to 8000");
    tn__replay_free(g);
    drop_three(b);
    tn__program_unref(p);
}
END_TEST

typedef struct {
    tn__device *d;
    int seed;
    bool ok;
    char why[256];
} job;

/* Its own buffers, its own compilation of the same source, many launches. */
static void *work(void *arg)
{
    enum { N = 64 * GROUP };
    job *j = arg;
    tn__program *p[3] = {0};
    tn__buffer *b[3];
    tnp_ref r[3];
    j->ok = tn__program_build(j->d, add_source, strlen(add_source), add_sigs, 3, p);
    for (int k = 0; k < 3 && j->ok; k++) {
        j->ok = (b[k] = tn__buffer_new(j->d, N * 4)) != NULL;
        r[k] = tn__buffer_ref_of(b[k], 0, N * 4);
        float *v = tn__buffer_map(b[k]);
        for (size_t i = 0; i < N; i++) v[i] = (float)(k * j->seed) + (float)i;
    }
    for (int k = 0; k < 100 && j->ok; k++) {
        memset(tn__buffer_map(b[0]), 0, N * 4);
        j->ok = tn__launch_run(
            j->d, p[0],
            &(tn__launch){
                .grid = {N / GROUP, 1, 1}, .local = {1, 1, 1}, .bufs = r, .nbufs = 3, .work = N});
        const float *o = tn__buffer_map(b[0]);
        for (size_t i = 0; i < N && j->ok; i++)
            j->ok = o[i] == (float)(3 * j->seed) + 2.0f * (float)i;
        if (k % 10 == 9) { /* blocks go round between the threads */
            tn__buffer *other = tn__buffer_new(j->d, N * 4);
            j->ok = j->ok && tn__buffer_copy(other, 0, b[0], 0, N * 4);
            tn__buffer_unref(b[0]);
            b[0] = other;
            r[0] = tn__buffer_ref_of(other, 0, N * 4);
        }
    }
    snprintf(j->why, sizeof j->why, "%s", error_text());
    for (int k = 0; k < 3; k++) {
        tn__buffer_unref(b[k]);
        tn__program_unref(p[k]);
    }
    return NULL;
}

START_TEST(eight_threads_compile_and_launch_at_once)
{
    pthread_t t[8];
    job j[8];
    for (int i = 0; i < 8; i++) {
        char name[16];
        snprintf(name, sizeof name, "CPU:%d:CC", i % 3);
        j[i] = (job){.d = tn__device_get(name), .seed = i + 1};
        OK(j[i].d);
        ck_assert_int_eq(pthread_create(&t[i], NULL, work, &j[i]), 0);
    }
    for (int i = 0; i < 8; i++) pthread_join(t[i], NULL);
    for (int i = 0; i < 8; i++) ck_assert_msg(j[i].ok, "thread %d: %s", i, j[i].why);
}
END_TEST

START_TEST(a_forked_child_goes_on_with_threads_of_its_own)
{
#ifdef __SANITIZE_THREAD__
    test_skip("ThreadSanitizer lets no threads start in a child of a program with threads");
#endif
    job j = {.d = cpu(), .seed = 3};
    work(&j);
    ck_assert_msg(j.ok, "%s", j.why);
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (!pid) {
        work(&j);
        _exit(j.ok ? 0 : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    work(&j);
    ck_assert_msg(j.ok, "%s", j.why);
}
END_TEST

START_TEST(everything_is_given_back_at_shutdown_and_can_start_again)
{
    for (int k = 0; k < 3; k++) {
        job j = {.d = cpu(), .seed = 5};
        work(&j);
        ck_assert_msg(j.ok, "%s", j.why);
        ck_assert_uint_eq(tn__device_bytes(j.d), 0);
        tn_shutdown();
        ck_assert_uint_eq(tn__live_bytes(), 0);
    }
}
END_TEST

START_TEST(one_thread_is_enough)
{
    setenv("NUM_CPU_THREADS", "1", 1);
    tn__context_reload();
    job j = {.d = cpu(), .seed = 2};
    ck_assert_uint_eq(tn__device_caps(j.d)->cores, 1);
    work(&j);
    ck_assert_msg(j.ok, "%s", j.why);
}
END_TEST

START_TEST(half_floats_of_the_prelude_convert_as_the_library_does)
{
    static const char tail[] =
        "void conv(void *const *bufs, const tn_u64 *imms, const tn_u32 *gid, void *scratch)\n"
        "{ (void)imms; (void)gid; (void)scratch; float *f = bufs[0]; tn_u16 *h = bufs[1], *b = "
        "bufs[2]; const tn_u32 *bits = bufs[3];\n"
        "  for (int i = 0; i < 65536; i++) {\n"
        "    float x; __builtin_memcpy(&x, &bits[i], 4);\n"
        "    f[i] = tn_h2f((tn_u16)i); f[65536 + i] = tn_bf2f((tn_u16)i); h[i] = tn_f2h(x); b[i] = "
        "tn_f2bf(x); } }\n";
    tn__device *d = cpu();
    char *src = tn__format("%s%s", tn__device_dialect(d)->prelude, tail);
    const tnp_arg args[4] = {
        {.dtype = TNP_F32}, {.dtype = TNP_U16}, {.dtype = TNP_U16}, {.dtype = TNP_U32}};
    const tn__kernel_sig sig = {.name = "conv", .args = args, .nargs = 4, .local = {1, 1, 1}};
    tn__program *p;
    OK(tn__program_build(d, src, strlen(src), &sig, 1, &p));
    const size_t bytes[4] = {8 * 65536, 2 * 65536, 2 * 65536, 4 * 65536};
    tn__buffer *b[4];
    tnp_ref r[4];
    for (int k = 0; k < 4; k++) {
        OK(b[k] = tn__buffer_new(d, bytes[k]));
        r[k] = tn__buffer_ref_of(b[k], 0, bytes[k]);
    }
    uint32_t *bits = tn__buffer_map(b[3]), x = 12345;
    for (int i = 0; i < 65536; i++) bits[i] = x = x * 1664525u + 1013904223u;
    for (uint32_t i = 0; i < 40000; i++)
        bits[i] = 0x33000000u + i * 10000u; /* where halves round */
    OK(tn__launch_run(d, p,
                      &(tn__launch){.grid = {1, 1, 1}, .local = {1, 1, 1}, .bufs = r, .nbufs = 4}));
    const float *f = tn__buffer_map(b[0]);
    const uint16_t *h = tn__buffer_map(b[1]), *bf = tn__buffer_map(b[2]);
    for (int i = 0; i < 65536; i++) {
        float want = tn__f16_to_f32((uint16_t)i), wantb = tn__bf16_to_f32((uint16_t)i), v;
        ck_assert(f[i] == want || (f[i] != f[i] && want != want));
        ck_assert(f[65536 + i] == wantb || (f[65536 + i] != f[65536 + i] && wantb != wantb));
        memcpy(&v, &bits[i], 4);
        if (v != v) continue;
        ck_assert_msg(h[i] == tn__f32_to_f16(v), "%a: %#x, not %#x", (double)v, h[i],
                      tn__f32_to_f16(v));
        ck_assert_msg(bf[i] == tn__f32_to_bf16(v), "%a: %#x, not %#x", (double)v, bf[i],
                      tn__f32_to_bf16(v));
    }
    for (int k = 0; k < 4; k++) tn__buffer_unref(b[k]);
    tn__program_unref(p);
    tn__free(src);
}
END_TEST

Suite *suite_cpu(void)
{
    Suite *s = suite_create("cpu");
    TCase *t = tcase_create("cpu");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, two_arrays_are_added_by_all_threads);
    tcase_add_test(t, every_group_of_three_axes_runs_once_with_its_own_scratch);
    tcase_add_test(t, a_wrong_source_is_an_error_with_the_compilers_text_and_line);
    tcase_add_test(t, an_entry_that_the_source_has_not_is_an_error);
    tcase_add_test(t, without_a_compiler_the_error_names_the_interpreter);
    tcase_add_test(t, a_compiler_that_makes_nothing_is_named_with_the_ways_out);
    tcase_add_test(t, cc_with_arguments_is_split_at_spaces);
    tcase_add_test(t, launches_that_do_not_fit_the_kernel_are_errors);
    tcase_add_test(t, a_replay_patches_slots_and_scalars_and_allocates_nothing);
    tcase_add_test(t, a_replay_with_too_short_a_slot_is_an_error);
    tcase_add_test(t, eight_threads_compile_and_launch_at_once);
    tcase_add_test(t, a_forked_child_goes_on_with_threads_of_its_own);
    tcase_add_test(t, everything_is_given_back_at_shutdown_and_can_start_again);
    tcase_add_test(t, one_thread_is_enough);
    tcase_add_test(t, half_floats_of_the_prelude_convert_as_the_library_does);
    suite_add_tcase(s, t);
    return s;
}
