/* SPDX-License-Identifier: MIT */
/* The error record as suites ask for it: nothing is pending, or what is pending is what the test wants. */
#include "test.h"
#include <string.h>

void test_clean_start(void) { tn_clear_error(); }

void test_clean_end(void)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(!e, "left an error: %s", e ? e->msg : "");
}

void test_fails_at(int line, tn_code code, const char *text)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "line %d: no error", line);
    ck_assert_msg(e->code == code, "line %d: %s: %s", line, tn_code_name(e->code), e->msg);
    ck_assert_msg(strstr(e->msg, text), "line %d: '%s' is not in '%s'", line, text, e->msg);
    tn_clear_error();
}
