/* SPDX-License-Identifier: MIT */
/* What every suite may use: skips with a reason, the long run, the clean-state fixture. */
#ifndef TENON_TEST_H
#define TENON_TEST_H
#include <check.h>
#include <stdbool.h>
#include <tenon/base.h>

/* Ends a test that cannot run here: test_skip("no %s on this machine", what);  in the test's own function. */
void test_skip_at(const char *file, int line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
#define test_skip(...)                                 \
    do {                                               \
        test_skip_at(__FILE__, __LINE__, __VA_ARGS__); \
        return;                                        \
    } while (0)

/* For hot loops: ck_assert writes to a file each time, also when it holds. */
#define test_that(c)                                    \
    do {                                                \
        if (!(c)) ck_abort_msg("%s does not hold", #c); \
    } while (0)
#define test_eq(a, b) test_that((a) == (b))

/* The clean-state fixture: no error is pending before a test and none after it. */
void test_clean_start(void);
void test_clean_end(void);
/* This error is pending, and its text has these words; it is cleared. */
void test_fails_at(int line, tn_code code, const char *text);
#define test_fails(code, text) test_fails_at(__LINE__, code, text)

bool test_long(void); /* ./dev test --long */

#endif
