/* SPDX-License-Identifier: MIT */
/* Scratch folders, leak checks and error texts for io's suites. */
#define _GNU_SOURCE
#include "io_rig.h"
#include "base/base.h"
#include <dirent.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char folder[64];
static size_t blocks;
static int fds;

static int count_entries(const char *path)
{
    DIR *d = opendir(path);
    int n = 0;
    while (d && readdir(d)) n++;
    if (d) closedir(d);
    return n;
}

void io_setup(void)
{
    tn_clear_error();
    tn__alloc_fail_at(0);
    strcpy(folder, "/tmp/tenon-io-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    blocks = tn__live_blocks();
    fds = count_entries("/proc/self/fd");
}

static int drop(const char *path, const struct stat *st, int kind, struct FTW *f)
{
    (void)st, (void)kind, (void)f;
    return remove(path);
}

void io_teardown_loose(void)
{
    tn__alloc_fail_at(0);
    nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
    ck_assert_msg(tn_ok(), "an error is pending: %s", tn_ok() ? "" : tn_last_error()->msg);
}

void io_teardown(void)
{
    tn__alloc_fail_at(0);
    nftw(folder, drop, 16, FTW_DEPTH | FTW_PHYS);
    ck_assert_msg(tn_ok(), "an error is pending: %s", tn_ok() ? "" : tn_last_error()->msg);
    ck_assert_uint_eq(tn__live_blocks(), blocks);
    ck_assert_int_eq(count_entries("/proc/self/fd"), fds);
}

const char *io_folder(void) { return folder; }

const char *io_path(const char *name)
{
    static char paths[8][512];
    static unsigned next;
    char *p = paths[next++ % 8];
    snprintf(p, 512, "%s/%s", folder, name);
    return p;
}

void io_write(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_uint_eq(fwrite(p, 1, n, f), n);
    fclose(f);
}

size_t io_files(void) { return (size_t)count_entries(folder) - 2; }

void io_expect(const char *file, int line, tn_code code, const char *part)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "%s:%d: no error is pending", file, line);
    ck_assert_msg(e->code == code && strstr(e->msg, part), "%s:%d: %s: \"%s\", want %s: \"%s\"",
                  file, line, tn_code_name(e->code), e->msg, tn_code_name(code), part);
    tn_clear_error();
}

uint32_t io_random(uint32_t *seed)
{
    *seed = *seed * 1664525u + 1013904223u;
    return *seed >> 8;
}
