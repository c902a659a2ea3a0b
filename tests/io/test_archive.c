/* SPDX-License-Identifier: MIT */
/*
 * tar and zip: archives made by Python (make_archives.py) are unpacked; tar headers written here byte by
 * byte have every name and kind of entry that must be refused.
 */
#include "io/archive.h"
#include "io_rig.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <unistd.h>

#define SAMPLE(name) TEST_SOURCE_DIR "/tests/io/" name

#ifndef TN_HAVE_ARCHIVE
START_TEST(without_libarchive_each_call_says_so)
{
    FAILS(tn_tar_extract(SAMPLE("good.tgz"), io_path("x")), TN_EUNSUPPORTED,
          "this build has no libarchive");
    FAILS(tn_zip_extract(SAMPLE("good.zip"), io_path("x")), TN_EUNSUPPORTED,
          "this build has no libarchive");
}
END_TEST
#else

static void check_b(const char *path)
{
    void *p;
    size_t n;
    WORKS(tn_read_file(path, &p, &n));
    ck_assert_uint_eq(n, 76800);
    for (size_t i = 0; i < n; i++) ck_assert_uint_eq(((unsigned char *)p)[i], i % 256);
    tn_bytes_free(p);
}

START_TEST(good_archives_are_unpacked)
{
    struct stat st;
    void *p;
    size_t n;
    WORKS(tn_tar_extract(SAMPLE("good.tgz"), io_path("t/u")));
    check_b(io_path("t/u/d/e/b.bin"));
    ck_assert(stat(io_path("t/u/folder"), &st) == 0 && S_ISDIR(st.st_mode));
    ck_assert(stat(io_path("t/u/d/empty"), &st) == 0 && st.st_size == 0);
    WORKS(tn_read_file(io_path("t/u/a.txt"), &p, &n));
    ck_assert_str_eq(p, "hello\n");
    tn_bytes_free(p);
    WORKS(tn_zip_extract(SAMPLE("good.zip"), io_path("z")));
    check_b(io_path("z/d/e/b.bin"));
    WORKS(tn_zip_extract(SAMPLE("good.zip"), io_path("z"))); /* again, over what is there */
}
END_TEST

static bool count(void *user, const char *name, const void *data, size_t n)
{
    size_t *sum = user;
    *sum += n;
    if (strcmp(name, "a.txt") == 0) ck_assert_mem_eq(data, "hello\n", 6);
    return true;
}

START_TEST(entries_are_read_without_files)
{
    size_t sum = 0;
    WORKS(tn__archive_each(SAMPLE("good.tgz"), TN__TAR, 1 << 20, count, &sum));
    ck_assert_uint_eq(sum, 76806);
    FAILS(tn__archive_each(SAMPLE("good.tgz"), TN__TAR, 70000, count, &sum), TN_EFORMAT,
          "more than the limit of 70000 bytes");
}
END_TEST

START_TEST(limits_hold_before_anything_is_written)
{
    FAILS(tn_tar_extract(SAMPLE("good.tgz"), io_path("x"), .max_bytes = 76805), TN_EFORMAT,
          "more than the limit of 76805 bytes");
    FAILS(tn_zip_extract(SAMPLE("good.zip"), io_path("x"), .max_entries = 1), TN_EFORMAT,
          "more than 1 entries");
    FAILS(tn_zip_extract(SAMPLE("evil.zip"), io_path("x")), TN_EFORMAT,
          "entry \"d/../../evil.txt\": absolute, with '..'");
    ck_assert_uint_eq(io_files(), 0);
    FAILS(tn_tar_extract(NULL, "x"), TN_ENULL, "archive is NULL");
    FAILS(tn_tar_extract(io_path("absent"), io_path("x")), TN_EIO, "absent");
    io_write(io_path("text"), "this is no archive, this is no archive", 38);
    FAILS(tn_tar_extract(io_path("text"), io_path("x")), TN_EFORMAT, "text: ");
    FAILS(tn_zip_extract(SAMPLE("good.tgz"), io_path("x")), TN_EFORMAT, "good.tgz: ");
    FAILS(tn_tar_extract(SAMPLE("good.zip"), io_path("x")), TN_EFORMAT, "good.zip: ");
}
END_TEST

/* A ustar header (POSIX 1003.1) for an empty file, a link, a device. */
static void header(char *h, const char *name, char type, const char *link)
{
    unsigned sum = 0;
    memset(h, 0, 512);
    strcpy(h, name);
    strcpy(h + 100, "0000644");
    strcpy(h + 108, "0000000");
    strcpy(h + 116, "0000000");
    strcpy(h + 124, "00000000000");
    strcpy(h + 136, "00000000000");
    memset(h + 148, ' ', 8);
    h[156] = type;
    strcpy(h + 157, link);
    memcpy(h + 257, "ustar\00000", 8);
    for (int i = 0; i < 512; i++) sum += (unsigned char)h[i];
    snprintf(h + 148, 8, "%06o", sum);
}

static const struct {
    const char *name;
    char type;
    const char *link, *want; /* want NULL: is fine */
} entries[] = {
    {"a/b", '0', "", NULL},
    {"./a", '0', "", NULL},
    {"a/..b/c..", '0', "", NULL},
    {"../a", '0', "", "entry \"../a\": absolute, with '..'"},
    {"a/../b", '0', "", "with '..'"},
    {"a/..", '5', "", "with '..'"},
    {"/etc/x", '0', "", "absolute"},
    {"a\\..\\b", '0', "", "'\\'"},
    {"l", '2', "/etc/passwd", "a link or a special file"},
    {"l", '1', "first", "a link or a special file"},
    {"dev", '3', "", "a link or a special file"},
    {"fifo", '6', "", "a link or a special file"},
};

START_TEST(paths_and_kinds_that_could_do_harm_are_refused_as_a_whole)
{
    static char tar[512 * 4];
    struct stat st;
    memset(tar, 0, sizeof tar);
    header(tar, "first", '0', "");
    header(tar + 512, entries[_i].name, entries[_i].type, entries[_i].link);
    io_write(io_path("x.tar"), tar, sizeof tar);
    if (!entries[_i].want) {
        WORKS(tn_tar_extract(io_path("x.tar"), io_path("out")));
        ck_assert_int_eq(stat(io_path("out/first"), &st), 0);
        return;
    }
    FAILS(tn_tar_extract(io_path("x.tar"), io_path("out")), TN_EFORMAT, entries[_i].want);
    ck_assert_int_ne(stat(io_path("out"), &st), 0);
}
END_TEST

START_TEST(links_of_the_target_folder_are_not_followed)
{
    static char tar[512 * 3];
    struct stat st;
    memset(tar, 0, sizeof tar);
    header(tar, "sub/file", '0', "");
    io_write(io_path("x.tar"), tar, sizeof tar);
    mkdir(io_path("out"), 0777);
    mkdir(io_path("elsewhere"), 0777);
    ck_assert_int_eq(symlink("../elsewhere", io_path("out/sub")), 0);
    FAILS(tn_tar_extract(io_path("x.tar"), io_path("out")), TN_EIO,
          "cannot make this folder: something else has its name");
    ck_assert_int_ne(stat(io_path("elsewhere/file"), &st), 0);
    unlink(io_path("out/sub"));
    mkdir(io_path("out/sub"), 0777);
    ck_assert_int_eq(symlink("../../elsewhere/file", io_path("out/sub/file")), 0);
    FAILS(tn_tar_extract(io_path("x.tar"), io_path("out")), TN_EIO, "out/sub/file: open: ");
    ck_assert_int_ne(stat(io_path("elsewhere/file"), &st), 0);
}
END_TEST
#endif

Suite *suite_archive(void)
{
    Suite *s = suite_create("archive");
    TCase *t = tcase_create("archive");
    tcase_add_checked_fixture(t, io_setup, io_teardown);
    tcase_set_timeout(t, 60);
#ifndef TN_HAVE_ARCHIVE
    tcase_add_test(t, without_libarchive_each_call_says_so);
#else
    tcase_add_test(t, good_archives_are_unpacked);
    tcase_add_test(t, entries_are_read_without_files);
    tcase_add_test(t, limits_hold_before_anything_is_written);
    tcase_add_loop_test(t, paths_and_kinds_that_could_do_harm_are_refused_as_a_whole, 0,
                        (int)(sizeof entries / sizeof *entries));
    tcase_add_test(t, links_of_the_target_folder_are_not_followed);
#endif
    suite_add_tcase(s, t);
    return s;
}
