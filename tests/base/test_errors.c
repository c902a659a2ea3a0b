/* SPDX-License-Identifier: MIT */
/* The error record, the log, the context variables and the "did you mean" of base. */
#include "base/base.h"
#include "ir/dtype.h"
#include "test.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int nlogged;
static char logged[512];

static void keep_log(void *user, tn_log_level level, const char *msg)
{
    (void)user;
    ck_assert_int_eq(level, TN_LOG_WARN);
    nlogged++;
    strncpy(logged, msg, sizeof logged - 1);
}

static void start(void)
{
    tn_clear_error();
    nlogged = 0;
    logged[0] = '\0';
    tn_set_log(keep_log, NULL);
}

static void end(void)
{
    ck_assert(tn_ok());
    tn_set_log(NULL, NULL);
}

START_TEST(the_first_error_wins)
{
    ck_assert(tn_ok() && !tn_last_error());
    tn_at("file.c", 12);
    tn__enter("tn_matmul");
    tn__enter("tn_inner");
    ck_assert(!tn__fail(TN_ESHAPE, "matmul: inner dims %d and %d differ", 64, 32));
    ck_assert(!tn__fail(TN_EVALUE, "second"));
    tn__leave();
    tn__leave();
    const tn_error *e = tn_last_error();
    ck_assert_ptr_nonnull(e);
    ck_assert_int_eq(e->code, TN_ESHAPE);
    ck_assert_str_eq(e->msg, "matmul: inner dims 64 and 32 differ");
    ck_assert_str_eq(e->op, "tn_matmul");
    ck_assert_str_eq(e->file, "file.c");
    ck_assert_int_eq(e->line, 12);
    ck_assert_str_eq(tn_code_name(e->code), "TN_ESHAPE");
    tn_clear_error();
    ck_assert(tn_ok() && !tn_last_error());
    tn__fail(TN_EIO, "third");
    ck_assert_str_eq(tn_last_error()->op, "");
    tn_clear_error();
}
END_TEST

static void *other_thread(void *taken)
{
    ck_assert(tn_ok());
    tn__fail(TN_EIO, "disk: full");
    tn__error_take(taken);
    ck_assert(tn_ok());
    return NULL;
}

START_TEST(errors_are_per_thread_and_can_be_carried_over)
{
    static tn__error e;
    pthread_t t;
    tn__fail(TN_ESHAPE, "mine");
    pthread_create(&t, NULL, other_thread, &e);
    pthread_join(t, NULL);
    ck_assert_str_eq(tn_last_error()->msg, "mine");
    tn__error_put(&e);
    ck_assert_str_eq(tn_last_error()->msg, "mine");
    tn_clear_error();
    tn__error_put(&e);
    ck_assert_int_eq(tn_last_error()->code, TN_EIO);
    ck_assert_str_eq(tn_last_error()->msg, "disk: full");
    tn_clear_error();
    tn__error_take(&e);
    tn__error_put(&e);
    ck_assert(tn_ok());
}
END_TEST

START_TEST(every_code_has_its_name)
{
    for (int c = TN_OK; c <= TN_EINTERNAL; c++)
        ck_assert_int_eq(strncmp(tn_code_name((tn_code)c), "TN_", 3), 0);
    ck_assert_str_eq(tn_code_name(TN_EINTERNAL), "TN_EINTERNAL");
    ck_assert_str_eq(tn_code_name((tn_code)99), "?");
}
END_TEST

START_TEST(a_long_message_is_cut)
{
    char big[3000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    tn__fail(TN_EVALUE, "%s", big);
    ck_assert_uint_eq(strlen(tn_last_error()->msg), 1023);
    tn_clear_error();
}
END_TEST

START_TEST(log_once_says_it_once_for_a_key)
{
    static const char a, b;
    for (int i = 0; i < 3; i++) tn__log_once(&a, TN_LOG_WARN, "a %d", i);
    ck_assert_int_eq(nlogged, 1);
    ck_assert_str_eq(logged, "a 0");
    tn__log_once(&b, TN_LOG_WARN, "b");
    ck_assert_int_eq(nlogged, 2);
}
END_TEST

START_TEST(version_is_that_of_the_header) { ck_assert_str_eq(tn_version(), "0.1.0"); }
END_TEST

/* ---- context variables ---- */

static void clean_environment(void)
{
    for (int v = 0; v < TN_VARS; v++) {
        char name[64] = "TENON_";
        strcat(name, tn__var_info_of((tn_context_var)v)->name);
        unsetenv(name);
        unsetenv(name + 6);
    }
    tn__context_reload();
}

START_TEST(a_variable_is_taken_from_the_nearest_layer)
{
    clean_environment();
    ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 32);
    setenv("JIT_BATCH_SIZE", "7", 1);
    ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 32); /* read once */
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 7);
    setenv("TENON_JIT_BATCH_SIZE", "9", 1);
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 9);
    tn_context_set(TN_JIT_BATCH_SIZE, 11);
    ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 11);
    {
        TN_WITH(TN_JIT_BATCH_SIZE, 13);
        ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 13);
        {
            TN_WITH(TN_JIT_BATCH_SIZE, 0);
            ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 0);
        }
        ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 13);
    }
    ck_assert_int_eq(tn_context_get(TN_JIT_BATCH_SIZE), 11);
}
END_TEST

START_TEST(with_is_undone_by_break_continue_and_return)
{
    for (int i = 0; i < 4; i++) {
        TN_WITH(TN_TRAINING, 1);
        if (i < 2) continue;
        break;
    }
    ck_assert_int_eq(tn_context_get(TN_TRAINING), 0);
}
END_TEST

START_TEST(junk_in_the_environment_is_one_warning_that_names_it)
{
    clean_environment();
    setenv("TENON_BEAM", "4x", 1);
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_BEAM), 0);
    ck_assert_int_eq(tn_context_get(TN_BEAM), 0);
    ck_assert_int_eq(nlogged, 1);
    ck_assert_str_eq(logged, "TENON_BEAM: '4x' is not an integer: the default 0 is used");
    setenv("TENON_BEAM", "99999999999999999999", 1);
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_BEAM), 0);
    ck_assert_int_eq(nlogged, 2);
    ck_assert_str_eq(
        logged, "TENON_BEAM: 99999999999999999999 is not in 0 to 10000: the default 0 is used");
    setenv("NO_COLOR", "yes", 1);
    unsetenv("TENON_BEAM");
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_NO_COLOR), 1);
    ck_assert_int_eq(nlogged, 2);
    setenv("HOUSE_TEST_NUMBER", "12 apples", 1);
    for (int i = 0; i < 3; i++) ck_assert_int_eq(tn_getenv_int("HOUSE_TEST_NUMBER", 5), 5);
    ck_assert_int_eq(nlogged, 3);
    ck_assert_str_eq(logged,
                     "HOUSE_TEST_NUMBER: '12 apples' is not an integer: the default 5 is used");
    setenv("HOUSE_TEST_HUGE", "-99999999999999999999", 1);
    ck_assert_int_eq(tn_getenv_int("HOUSE_TEST_HUGE", 5), 5);
    ck_assert_str_eq(logged, "HOUSE_TEST_HUGE: '-99999999999999999999' is not an integer of 64 "
                             "bits: the default 5 is used");
    setenv("HOUSE_TEST_NUMBER", "12", 1);
    ck_assert_int_eq(tn_getenv_int("HOUSE_TEST_NUMBER", 5), 12);
    ck_assert_int_eq(tn_getenv_int("HOUSE_TEST_UNSET", 5), 5);
}
END_TEST

/* What each integer variable may be; SEED and NO_COLOR are any integer. */
static const struct {
    tn_context_var v;
    const char *name;
    int64_t min, max;
} ranges[] = {
    {TN_DEBUG, "DEBUG", 0, 7},
    {TN_TRAINING, "TRAINING", 0, 1},
    {TN_JIT, "JIT", 0, 2},
    {TN_JIT_BATCH_SIZE, "JIT_BATCH_SIZE", 0, INT32_MAX},
    {TN_JIT_CHECK, "JIT_CHECK", 0, INT32_MAX},
    {TN_BEAM, "BEAM", 0, 10000},
    {TN_NOOPT, "NOOPT", 0, 1},
    {TN_NUM_CPU_THREADS, "NUM_CPU_THREADS", 0, 4095},
    {TN_VIZ, "VIZ", 0, 1},
    {TN_CHECK_NAN, "CHECK_NAN", 0, 1},
    {TN_CACHELEVEL, "CACHELEVEL", 0, 2},
    {TN_DEFAULT_FLOAT, "DEFAULT_FLOAT", TN_F16, TN_F64},
    {TN_POISON, "POISON", 0, 1},
};

static void value_of_the_environment(size_t i, int64_t value, bool fine)
{
    char text[32], want[256];
    const int64_t def = tn__var_info_of(ranges[i].v)->def;
    snprintf(text, sizeof text, "%lld", (long long)value);
    setenv(ranges[i].name, text, 1);
    tn__context_reload();
    nlogged = 0;
    for (int k = 0; k < 3; k++) ck_assert_int_eq(tn_context_get(ranges[i].v), fine ? value : def);
    ck_assert_int_eq(nlogged, fine ? 0 : 1);
    if (fine) return;
    snprintf(want, sizeof want, "%s: %lld is not in %lld to %lld: the default %lld is used",
             ranges[i].name, (long long)value, (long long)ranges[i].min, (long long)ranges[i].max,
             (long long)def);
    ck_assert_str_eq(logged, want);
}

START_TEST(a_value_outside_of_its_range_is_one_warning_or_an_error)
{
    int integers = 0;
    for (int v = 0; v < TN_VARS; v++) integers += !tn__var_info_of((tn_context_var)v)->text;
    ck_assert_uint_eq(TN_LEN(ranges) + 2, integers);
    for (size_t i = 0; i < TN_LEN(ranges); i++) {
        clean_environment();
        value_of_the_environment(i, ranges[i].min - 1, false);
        value_of_the_environment(i, ranges[i].max + 1, false);
        value_of_the_environment(i, 999999999999, false);
        value_of_the_environment(i, ranges[i].min, true);
        value_of_the_environment(i, ranges[i].max, true);
        tn_context_set(ranges[i].v, ranges[i].max + 1);
        test_fails(TN_EVALUE, "the value stays");
        ck_assert_int_eq(tn_context_get(ranges[i].v), ranges[i].max);
        tn_context_set(ranges[i].v, ranges[i].min);
        ck_assert_int_eq(tn_context_get(ranges[i].v), ranges[i].min);
    }
    clean_environment();
    tn_context_set(TN_NUM_CPU_THREADS, -5);
    test_fails(TN_EVALUE,
               "tn_context_set: NUM_CPU_THREADS: -5 is not in 0 to 4095: the value stays 0");
    nlogged = 0;
    setenv("SEED", "-9223372036854775808", 1);
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_SEED), INT64_MIN);
    ck_assert_int_eq(nlogged, 0);
}
END_TEST

static void log_that_asks(void *user, tn_log_level level, const char *msg)
{
    *(int64_t *)user = tn_context_get(TN_JIT);
    keep_log(NULL, level, msg);
}

START_TEST(the_log_may_ask_for_variables_while_it_is_warned)
{
    clean_environment();
    int64_t jit = -1;
    tn_set_log(log_that_asks, &jit);
    setenv("JIT", "2", 1);
    setenv("DEBUG", "12", 1);
    tn__context_reload();
    ck_assert_int_eq(tn_context_get(TN_DEBUG), 0);
    ck_assert_int_eq(jit, 2);
    ck_assert_str_eq(logged, "DEBUG: 12 is not in 0 to 7: the default 0 is used");
}
END_TEST

START_TEST(a_text_that_is_too_long_is_left_out_with_a_warning_or_an_error)
{
    clean_environment();
    char big[5000];
    memset(big, 'x', sizeof big - 1);
    big[sizeof big - 1] = '\0';
    setenv("DATASETS", big, 1);
    tn__context_reload();
    ck_assert_str_eq(tn_context_text(TN_DATASETS), "");
    ck_assert_int_eq(nlogged, 1);
    ck_assert_str_eq(logged,
                     "DATASETS: the value has 4999 bytes and the limit is 4095: it is ignored");
    tn_context_set_text(TN_DATASETS, big);
    test_fails(TN_EVALUE,
               "tn_context_set_text: DATASETS: the value has 4999 bytes: the limit is 4095");
}
END_TEST

START_TEST(texts_come_from_environment_or_host)
{
    clean_environment();
    ck_assert_str_eq(tn_context_text(TN_DEV), "");
    setenv("DEV", "CPU", 1);
    tn__context_reload();
    ck_assert_str_eq(tn_context_text(TN_DEV), "CPU");
    setenv("TENON_DEV", "INTERP", 1);
    tn__context_reload();
    ck_assert_str_eq(tn_context_text(TN_DEV), "INTERP");
    tn_context_set_text(TN_DEV, "NULL");
    ck_assert_str_eq(tn_context_text(TN_DEV), "NULL");
    tn_context_set_text(TN_DEV, NULL);
    ck_assert_str_eq(tn_context_text(TN_DEV), "INTERP");
    tn_context_use_environment(false);
    ck_assert_str_eq(tn_context_text(TN_DEV), "");
    setenv("TENON_DEBUG", "3", 1);
    ck_assert_int_eq(tn_context_get(TN_DEBUG), 0);
}
END_TEST

START_TEST(the_wrong_kind_of_variable_is_an_error)
{
    tn_context_get(TN_DEV);
    ck_assert_int_eq(tn_last_error()->code, TN_EVALUE);
    ck_assert_str_eq(
        tn_last_error()->msg,
        "tn_context_get: DEV is a text variable: use tn_context_text and tn_context_set_text");
    tn_clear_error();
    ck_assert_str_eq(tn_context_text(TN_BEAM), "");
    ck_assert_int_eq(tn_last_error()->code, TN_EVALUE);
    tn_clear_error();
    tn_context_get(TN_VARS);
    ck_assert_int_eq(tn_last_error()->code, TN_EVALUE);
    tn_clear_error();
    {
        TN_WITH(TN_DEV, 1);
        ck_assert(!tn_ok());
    }
    tn_clear_error();
}
END_TEST

static void *sees_the_default(void *p)
{
    *(int64_t *)p = tn_context_get(TN_TRAINING);
    return NULL;
}

START_TEST(with_is_seen_by_its_own_thread_only)
{
    TN_WITH(TN_TRAINING, 1);
    int64_t seen = 5;
    pthread_t t;
    pthread_create(&t, NULL, sees_the_default, &seen);
    pthread_join(t, NULL);
    ck_assert_int_eq(seen, 0);
}
END_TEST

START_TEST(nearest_names_what_was_meant)
{
    static const char *const names[] = {"CPU", "CUDA", "OPENCL", "INTERP", NULL, "tn_kernel_size"};
    static const struct {
        const char *word, *want;
    } rows[] = {
        {"cpu", "CPU"},       {"CPPU", "CPU"},      {"CUAD", "CUDA"},
        {"OPENLC", "OPENCL"}, {"INTREP", "INTERP"}, {"tn_kernal_size", "tn_kernel_size"},
        {"XYZ", NULL},        {"", NULL},           {"METAL", NULL},
    };
    for (size_t i = 0; i < TN_LEN(rows); i++) {
        const char *got = tn__nearest(rows[i].word, names, TN_LEN(names));
        if (rows[i].want)
            ck_assert_pstr_eq(got, rows[i].want);
        else
            ck_assert_pstr_eq(got, NULL);
    }
}
END_TEST

Suite *suite_errors(void)
{
    Suite *s = suite_create("errors");
    TCase *t = tcase_create("errors");
    tcase_add_checked_fixture(t, start, end);
    tcase_add_test(t, the_first_error_wins);
    tcase_add_test(t, errors_are_per_thread_and_can_be_carried_over);
    tcase_add_test(t, every_code_has_its_name);
    tcase_add_test(t, a_long_message_is_cut);
    tcase_add_test(t, log_once_says_it_once_for_a_key);
    tcase_add_test(t, version_is_that_of_the_header);
    tcase_add_test(t, a_variable_is_taken_from_the_nearest_layer);
    tcase_add_test(t, with_is_undone_by_break_continue_and_return);
    tcase_add_test(t, junk_in_the_environment_is_one_warning_that_names_it);
    tcase_add_test(t, a_value_outside_of_its_range_is_one_warning_or_an_error);
    tcase_add_test(t, the_log_may_ask_for_variables_while_it_is_warned);
    tcase_add_test(t, a_text_that_is_too_long_is_left_out_with_a_warning_or_an_error);
    tcase_add_test(t, texts_come_from_environment_or_host);
    tcase_add_test(t, the_wrong_kind_of_variable_is_an_error);
    tcase_add_test(t, with_is_seen_by_its_own_thread_only);
    tcase_add_test(t, nearest_names_what_was_meant);
    suite_add_tcase(s, t);
    return s;
}
