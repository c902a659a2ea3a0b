/* SPDX-License-Identifier: MIT */
/* What io's suites share: a scratch folder a test, a clean state before and after, checks of error texts. */
#ifndef TENON_TESTS_IO_RIG_H
#define TENON_TESTS_IO_RIG_H
#include "test.h"
#include <stddef.h>
#include <tenon/base.h>

void io_setup(void); /* clean error state, an empty folder */
void io_teardown(
    void); /* no error pending, no block leaked, no file left open; removes the folder */
void io_teardown_loose(
    void); /* the same for tests with devices, which stay open with what they cache */
const char *io_folder(void);
/* A path in the folder, valid for the next 7 calls. */
const char *io_path(const char *name);
void io_write(const char *path, const void *p, size_t n);
size_t io_files(void); /* entries of the folder */
/* Asserts that an error with this code and a text with `part` is pending, and clears it. */
void io_expect(const char *file, int line, tn_code code, const char *part);
#define EXPECT(code, part) io_expect(__FILE__, __LINE__, code, part)
#define FAILS(call, code, part)                         \
    do {                                                \
        ck_assert_msg(!(call), "succeeded: %s", #call); \
        EXPECT(code, part);                             \
    } while (0)
#define WORKS(call) \
    ck_assert_msg((call), "%s: %s", #call, tn_ok() ? "no text" : tn_last_error()->msg)
uint32_t io_random(uint32_t *seed);
#endif
