/* SPDX-License-Identifier: MIT */
/* Looking inside: names of kernels, the lines of DEBUG, CHECK_NAN, VIZ, POISON. */
#define _GNU_SOURCE
#include "../test.h"
#include "codegen/rows.h"
#include "device/device.h"
#include "engine/engine.h"
#include "engine/inspect.h"
#include <dirent.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

static char lines[1 << 18];
static size_t used;

static void catch_line(void *user, tn_log_level level, const char *msg)
{
    (void)user, (void)level;
    used += (size_t)snprintf(lines + used, sizeof lines - used, "%s\n", msg);
    if (used >= sizeof lines) used = sizeof lines - 1;
}

static void setup(void)
{
    tn_clear_error();
    used = 0;
    lines[0] = 0;
    tn_set_log(catch_line, NULL);
}

static void teardown(void)
{
    tn_set_log(NULL, NULL);
    test_clean_end();
}

static void said(const char *text)
{
    ck_assert_msg(strstr(lines, text) != NULL, "%s is not in:\n%s", text, lines);
}
static void not_said(const char *text)
{
    ck_assert_msg(!strstr(lines, text), "%s is in:\n%s", text, lines);
}

/* a + b of three elements, then the sum of a row each. */
static void work(float extra)
{
    TN_SCOPE;
    tn_tensor *a = tn_from_data((float[]){1, 2, 3}, SHAPE(3)),
              *b = tn_from_data((float[]){4, 5, extra}, SHAPE(3));
    float out[3];
    ck_assert(tn_data(tn_add(a, b), out, sizeof out));
    ck_assert(out[2] == 3 + extra);
    tn_tensor *x = tn_from_data((float[]){1, 2, 3, 4, 5, 6}, SHAPE(2, 3));
    ck_assert(tn_data(tn_sum(x, AX(1)), out, 2 * sizeof *out));
    ck_assert(out[0] == 6 && out[1] == 15);
}

START_TEST(kernels_are_named_by_kind_and_sizes)
{
    TN_WITH(TN_NOOPT, 1);
    TN_WITH(TN_DEBUG, 2);
    work(6);
    said(" E_3 ");
    said(" r_2_3 ");
    not_said("\033[");
}
END_TEST

START_TEST(a_label_has_loops_first_and_colours_by_kind)
{
    char text[256];
    const tn__label l = {.reduce = true,
                         .n = 3,
                         .kind = {TN__AXIS_LOOP, TN__AXIS_REDUCE, TN__AXIS_UPCAST},
                         .size = {64, 11, 4}};
    ck_assert_int_eq(tn__label_text(&l, false, text, sizeof text), (int)strlen("r_64_11_4"));
    ck_assert_str_eq(text, "r_64_11_4");
    ck_assert_int_eq(tn__label_text(&l, true, text, sizeof text), (int)strlen("r_64_11_4"));
    ck_assert_str_eq(text, "r_\033[37m64\033[0m_\033[31m11\033[0m_\033[33m4\033[0m");
    const tn__label one = {.more = 5};
    tn__label_text(&one, false, text, sizeof text);
    ck_assert_str_eq(text, "E_1+5");
}
END_TEST

START_TEST(debug_1_says_schedules_and_whether_they_were_cached)
{
    TN_WITH(TN_DEBUG, 1);
    work(7);
    said("CACHE MISS");
    said("kernels in");
    said("test_inspect.c:");
    not_said("***");
    used = 0;
    work(8);
    said("CACHE HIT");
    not_said("CACHE MISS");
}
END_TEST

START_TEST(debug_2_has_a_line_a_kernel_with_its_rates)
{
    TN_WITH(TN_DEBUG, 2);
    work(9);
    said("*** ");
    said(" arg  3 mem ");
    said("GFLOPS");
    said("GB/s)");
    not_said("opts:");
}
END_TEST

static tn_tensor *twice(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_mul(in->t[0], 2);
}

static void three_calls(void)
{
    tn_jit *j = tn_jit_new(twice, NULL);
    for (int i = 0; i < 3; i++) {
        TN_SCOPE;
        tn_tensor *x = tn_from_data((float[]){1, 2, (float)i}, SHAPE(3));
        float out[3];
        used = 0;
        lines[0] = 0;
        ck_assert(tn_realize(x) && tn_data(tn_jit_call(j, IN(x)), out, sizeof out));
        ck_assert(out[2] == (float)(2 * i));
    }
    tn_jit_free(j);
}

START_TEST(debug_1_says_captures_and_replays)
{
    TN_WITH(TN_DEBUG, 1);
    three_calls(); /* lines of the last one */
    said("jit replays      1 kernels, 0 once | 1 inputs, 1 leaves");
    not_said("captures");
    not_said("***");
}
END_TEST

/* On a terminal the head of a line is green at a kernel's first run and magenta in a replay. */
START_TEST(a_replayed_kernel_is_magenta_on_a_terminal)
{
    const int terminal = posix_openpt(O_RDWR | O_NOCTTY);
    if (terminal < 0 || grantpt(terminal) || unlockpt(terminal))
        test_skip("no pseudo-terminal can be had here");
    const int side = open(ptsname(terminal), O_RDWR | O_NOCTTY), old = dup(2);
    if (side < 0) test_skip("no pseudo-terminal can be opened here");
    TN_WITH(TN_DEBUG, 2);
    tn_context_set(TN_NO_COLOR, 0);
    dup2(side, 2);
    three_calls();
    const bool magenta = strstr(lines, "\033[35m*** ") != NULL;
    work(10);
    const bool green = strstr(lines, "\033[32m*** ") != NULL;
    dup2(old, 2);
    close(side);
    close(old);
    close(terminal);
    ck_assert_msg(magenta && green, "%s", lines);
}
END_TEST

static tn_counters counters(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return c;
}

START_TEST(counters_tell_bytes_moved_and_held)
{
    enum { N = 1000, BYTES = N * 4 };
    static float v[N];
    TN_SCOPE;
    const uint64_t held = counters().device_bytes;
    tn_tensor *x = tn_from_data(v, SHAPE(N));
    ck_assert(tn_realize(x));
    ck_assert_uint_eq(counters().device_bytes, held + BYTES);
    for (int how = 0; how < 3; how++) { /* as it is, by the device's graph, kernel by kernel */
        TN_WITH(TN_JIT, how);
        tn_jit *j = tn_jit_new(twice, NULL);
        for (int i = 0; i < 4; i++) {
            TN_SCOPE;
            const tn_counters before = counters();
            ck_assert(tn_realize(tn_jit_call(j, IN(x))));
            const tn_counters after = counters();
            ck_assert_uint_eq(after.kernels - before.kernels, 1);
            ck_assert_uint_eq(after.bytes - before.bytes, 2 * BYTES); /* read and written */
        }
        tn_jit_free(j);
    }
    ck_assert_uint_eq(counters().device_bytes, held + BYTES);
    tn_trim();
    ck_assert_uint_eq(counters().device_cached, 0);
}
END_TEST

/* Ten times, on each of `grid` work-groups: four floats are loaded and one is stored. */
static void ten_loads(tn__buf *out, uint32_t grid)
{
    tn__arena a = {0};
    tn__rows r;
    const tnl_buf bufs[1] = {{.count = 64, .dtype = TN_F32}};
    const tnl_head head = {.nargs = 1, .grid = {grid, 1, 1}, .local = {1, 1, 1}};
    ck_assert(tn__rows_init(&r, &a));
    const int ten = tn__row_pure(&r, TN__L_const, TN_I64, 1, -1, -1, -1, 10);
    const int at = tn__row_pure(&r, TN__L_const, TN_I64, 1, -1, -1, -1, 0);
    const int loop = tn__block_open(&r, 0, ten);
    const int v = tn__row_at(&r, loop, TN__L_load, TN_F32, 4, at, -1, -1, 0);
    const int x = tn__row_at(&r, loop, TN__L_extract, TN_F32, 1, v, -1, -1, 0);
    tn__row_at(&r, loop, TN__L_store, TN_F32, 1, at, x, -1, 0);
    tn__block_close(&r, loop);
    ck_assert(tn__rows_blob(&r, &head, bufs, out));
    tn__arena_free(&a);
}

START_TEST(traffic_counts_every_load_and_store)
{
    tn__buf one = {0}, other = {0}, both = {0};
    const tn__buf *list[] = {&one, &other};
    char name[48];
    ten_loads(&one, 3);
    ten_loads(&other, 2);
    ck_assert(tn__inspect_traffic(&one) == 3 * 10 * (16 + 4));
    ck_assert(tn__group_blob(list, 2, name, sizeof name, &both));
    ck_assert_msg(fabs(tn__inspect_traffic(&both) - 5 * 10 * (16 + 4)) < 1e-6, "%g",
                  tn__inspect_traffic(&both));
    tn__buf_free(&one);
    tn__buf_free(&other);
    tn__buf_free(&both);
}
END_TEST

START_TEST(higher_levels_show_opts_source_expression_and_linear_code)
{
    static const char *const what[] = {
        NULL, NULL, NULL, "opts:", "source:", "expression:", "linear code:"};
    for (int level = 3; level <= 6; level++) {
        TN_SCOPE;
        TN_WITH(TN_DEBUG, level);
        used = 0;
        lines[0] = 0;
        tn_tensor *x = tn_from_data((float[64]){1},
                                    SHAPE(level + 40)); /* a size a level: a plan that is new */
        ck_assert(tn_realize(tn_mul(x, x)));
        const bool text = tn__device_dialect(tn__device_default()) != NULL;
        for (int k = 3; k <= 6; k++) {
            if (k == 4 && !text) continue;
            if (k <= level)
                said(what[k]);
            else
                not_said(what[k]);
        }
    }
}
END_TEST

START_TEST(debug_7_shows_machine_code_or_says_why_not)
{
    TN_SCOPE;
    TN_WITH(TN_DEBUG, 7);
    tn_tensor *x = tn_from_data((float[99]){1}, SHAPE(99));
    ck_assert(tn_realize(tn_mul(x, x)));
    said("machine code");
    if (!strstr(lines, "not shown") && !strstr(lines, "objdump is not there")) said("ret");
}
END_TEST

/* ---- CHECK_NAN ---- */

static void fails_with(const char *const *text)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "no error");
    ck_assert_int_eq(e->code, TN_EVALUE);
    for (; *text; text++) ck_assert_msg(strstr(e->msg, *text), "%s is not in: %s", *text, e->msg);
    tn_clear_error();
}

START_TEST(check_nan_names_the_op_the_line_and_the_element)
{
    TN_SCOPE;
    char line[4096];
    tn_tensor *x = tn_from_data((float[]){1, 0, 2, 3}, SHAPE(4));
    tn_tensor *y = tn_mul(x, 2);
    snprintf(line, sizeof line, "tn_log at %s:%d", __FILE__, __LINE__ + 1);
    tn_tensor *z = tn_log(y);
    tn_tensor *s = tn_sum(tn_add(z, 1));
    {
        TN_WITH(TN_CHECK_NAN, 1);
        ck_assert(isnan(tn_item(s)));
        fails_with(
            (const char *[]){"check_nan", line, "-infinity", "log2 of 0", "[1]", "kernel ", NULL});
    }
    ck_assert(tn_item(s) == (double)-INFINITY); /* the failed run has changed nothing */
}
END_TEST

START_TEST(check_nan_finds_a_nan_between_finite_operands)
{
    TN_SCOPE;
    TN_WITH(TN_CHECK_NAN, 1);
    float out[4];
    tn_tensor *x = tn_from_data((float[]){1, 0, 2, 3}, SHAPE(2, 2));
    ck_assert(!tn_data(tn_softmax(tn_sqrt(tn_sub(x, 1))), out, sizeof out));
    fails_with((const char *[]){"tn_sqrt", "NaN", "sqrt of -1", "[0, 1]", NULL});
    ck_assert(!tn_data(tn_mul(tn_full_like(x, 3e38), tn_add(x, 10)), out, sizeof out));
    fails_with((const char *[]){"tn_mul", "infinity", NULL});
}
END_TEST

START_TEST(check_nan_is_quiet_where_inputs_or_constants_are_not_finite)
{
    TN_SCOPE;
    TN_WITH(TN_CHECK_NAN, 1);
    float out[4];
    tn_tensor *x = tn_from_data(((float[]){1, INFINITY, NAN, 3}), SHAPE(2, 2));
    ck_assert_msg(tn_data(tn_add(x, 1), out, sizeof out), "%s",
                  tn_ok() ? "" : tn_last_error()->msg);
    ck_assert(isnan(out[2]) && isinf(out[1]));
    tn_tensor *y = tn_from_data((float[]){1, 2, 3, 4}, SHAPE(2, 2));
    ck_assert(tn_data(tn_where(tn_gt(y, 2), y, (double)-INFINITY), out, sizeof out));
    ck_assert(isinf(out[0]) && out[3] == 4);
    ck_assert(tn_data(tn_softmax(y), out, sizeof out));
}
END_TEST

static tn_tensor *log_of_double(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_log(tn_mul(in->t[0], 2));
}

START_TEST(check_nan_in_a_replay_names_the_lines_of_its_kernel)
{
    TN_WITH(TN_CHECK_NAN, 1);
    tn_jit *j = tn_jit_new(log_of_double, NULL);
    for (int i = 0; i < 4; i++) {
        TN_SCOPE;
        float out[2];
        tn_tensor *x = tn_from_data((float[]){1, (float)(3 - i)}, SHAPE(2));
        ck_assert(tn_realize(x));
        tn_tensor *y = tn_jit_call(j, IN(x));
        ck_assert_int_eq(tn_data(y, out, sizeof out), i < 3);
    }
    fails_with((const char *[]){"check_nan", "tn_log at ", "test_inspect.c", "-infinity",
                                "element 1", NULL});
    tn_jit_free(j);
}
END_TEST

/* ---- VIZ, POISON ---- */

static int files_of(const char *dir, const char *end)
{
    DIR *d = opendir(dir);
    int n = 0;
    ck_assert_msg(d != NULL, "%s is not there", dir);
    for (struct dirent *e; (e = readdir(d));) {
        const size_t len = strlen(e->d_name);
        n += len > strlen(end) && !strcmp(e->d_name + len - strlen(end), end);
    }
    closedir(d);
    return n;
}

START_TEST(viz_writes_each_stage_and_says_the_folder_once)
{
    char base[] = "/tmp/tenon-viz-XXXXXX", dir[128], command[160];
    ck_assert(mkdtemp(base) != NULL);
    tn_context_set_text(TN_CACHE, base);
    {
        TN_SCOPE;
        TN_WITH(TN_VIZ, 1);
        tn_tensor *x = tn_from_data((float[]){1, 2, 3, 4, 5}, SHAPE(5));
        ck_assert(tn_realize(tn_exp(x)));
        ck_assert(tn_realize(tn_mul(tn_exp(x), x)));
    }
    snprintf(dir, sizeof dir, "%s/viz-%ld", base, (long)getpid());
    said(dir);
    char *first = strstr(lines, dir);
    ck_assert(first && !strstr(first + 1, dir));
    static const char *const ends[] = {"-graph.json", "-graph.dot",   "-fused.json",
                                       "-opts.dot",   "-linear.json", "-linear.dot"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        ck_assert_msg(files_of(dir, ends[i]) >= 2, "%s", ends[i]);
    tn_context_set_text(TN_CACHE, NULL);
    snprintf(command, sizeof command, "rm -r '%s'", base);
    ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(results_are_the_same_with_poisoned_temporaries)
{
    enum { N = 12 };
    float want[N], got[N];
    tn_manual_seed(5);
    tn_tensor *x = tn_keep(tn_rand(SHAPE(4, 1, 12, 12))), *w = tn_keep(tn_rand(SHAPE(8, 1, 3, 3)));
    tn_tensor *v = tn_keep(tn_rand(SHAPE(200, 3)));
    ck_assert(tn_realize_all(IN(x, w, v)));
    for (int poisoned = 0; poisoned < 2; poisoned++) {
        TN_SCOPE;
        TN_WITH(TN_POISON, poisoned);
        tn_tensor *h = tn_reshape(tn_max_pool2d(tn_relu(tn_conv2d(x, w))), SHAPE(4, 200));
        tn_tensor *y = tn_softmax(tn_matmul(h, v)), *g;
        ck_assert(tn_data(y, poisoned ? got : want, sizeof want));
        ck_assert(tn_gradient(tn_sum(tn_mul(y, y)), IN(w), &g));
        ck_assert(tn_item(tn_sum(tn_mul(g, g))) >= 0);
    }
    ck_assert_int_eq(memcmp(want, got, sizeof want), 0);
    tn_free(x);
    tn_free(w);
    tn_free(v);
}
END_TEST

Suite *suite_inspect(void);
Suite *suite_inspect(void)
{
    Suite *s = suite_create("inspect");
    TCase *c = tcase_create("inspect");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, kernels_are_named_by_kind_and_sizes);
    tcase_add_test(c, a_label_has_loops_first_and_colours_by_kind);
    tcase_add_test(c, debug_1_says_schedules_and_whether_they_were_cached);
    tcase_add_test(c, debug_2_has_a_line_a_kernel_with_its_rates);
    tcase_add_test(c, debug_1_says_captures_and_replays);
    tcase_add_test(c, a_replayed_kernel_is_magenta_on_a_terminal);
    tcase_add_test(c, counters_tell_bytes_moved_and_held);
    tcase_add_test(c, traffic_counts_every_load_and_store);
    tcase_add_test(c, higher_levels_show_opts_source_expression_and_linear_code);
    tcase_add_test(c, debug_7_shows_machine_code_or_says_why_not);
    tcase_add_test(c, check_nan_names_the_op_the_line_and_the_element);
    tcase_add_test(c, check_nan_finds_a_nan_between_finite_operands);
    tcase_add_test(c, check_nan_is_quiet_where_inputs_or_constants_are_not_finite);
    tcase_add_test(c, check_nan_in_a_replay_names_the_lines_of_its_kernel);
    tcase_add_test(c, viz_writes_each_stage_and_says_the_folder_once);
    tcase_add_test(c, results_are_the_same_with_poisoned_temporaries);
    suite_add_tcase(s, c);
    return s;
}
