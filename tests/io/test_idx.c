/* SPDX-License-Identifier: MIT */
/*
 * gz and IDX in memory and as files, and the folders in which MNIST is looked for.  two.gz is made by
 * Python (make_archives.py); the real data sets are read where they are installed.
 */
#include "io/idx.h"
#include "io/files.h"
#include "io_rig.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>

#define GZ TEST_SOURCE_DIR "/tests/io/two.gz"

START_TEST(sha256_agrees_with_the_standard)
{
    /* FIPS 180-4 examples, and a million a */
    static const struct {
        const char *text;
        size_t times;
        const char *hex;
    } rows[] = {{"", 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"},
                {"abc", 1, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"},
                {"abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", 1,
                 "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1"},
                {"a", 1000000, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0"}};
    for (size_t i = 0; i < 4; i++) {
        tn__sha256 s;
        char hex[65];
        tn__sha256_begin(&s);
        for (size_t k = 0; k < rows[i].times; k++)
            tn__sha256_put(&s, rows[i].text, strlen(rows[i].text));
        tn__sha256_end(&s, hex);
        ck_assert_str_eq(hex, rows[i].hex);
    }
}
END_TEST

#ifndef TN_HAVE_ZLIB
START_TEST(without_zlib_gunzip_says_so)
{
    void *out;
    size_t n;
    FAILS(tn_gunzip("x", 1, &out, &n), TN_EUNSUPPORTED, "this build has no zlib");
}
END_TEST
#else
START_TEST(gunzip_unpacks_all_members)
{
    void *gz, *out;
    size_t n, out_n;
    WORKS(tn_read_file(GZ, &gz, &n));
    WORKS(tn_gunzip(gz, n, &out, &out_n));
    ck_assert_uint_eq(out_n, 6006);
    ck_assert_mem_eq((char *)out + 5994, "first second", 12);
    tn_bytes_free(out);
    char *padded = calloc(1, n + 100);
    memcpy(padded, gz, n);
    WORKS(tn_gunzip(padded, n + 100, &out, &out_n));
    ck_assert_uint_eq(out_n, 6006);
    tn_bytes_free(out);
    padded[n + 50] = 'x';
    FAILS(tn_gunzip(padded, n + 100, &out, &out_n), TN_EFORMAT,
          "100 bytes after the end that are no gz data");
    free(padded);
    WORKS(tn_gunzip(gz, n, &out, &out_n, .max_bytes = 6006));
    tn_bytes_free(out);
    FAILS(tn_gunzip(gz, n, &out, &out_n, .max_bytes = 6005), TN_EFORMAT,
          "more than the limit of 6005 bytes");
    ck_assert(out == NULL && out_n == 0);
    tn_bytes_free(gz);
}
END_TEST

START_TEST(broken_gz_data_are_refused)
{
    void *gz, *out;
    size_t n, out_n;
    WORKS(tn_read_file(GZ, &gz, &n));
    unsigned char *p = gz;
    FAILS(tn_gunzip("PK\3\4", 4, &out, &out_n), TN_EFORMAT,
          "4 bytes that do not begin with the gz magic 1f 8b");
    FAILS(tn_gunzip("", 0, &out, &out_n), TN_EFORMAT, "0 bytes that do not begin");
    int truncated = 0, whole = 0;
    for (size_t cut = 2; cut < n; cut++) {
        if (tn_gunzip(p, cut, &out, &out_n)) {
            whole++; /* the first member alone */
            tn_bytes_free(out);
            continue;
        }
        truncated += strstr(tn_last_error()->msg, "truncated: the data end in the middle") != NULL;
        EXPECT(TN_EFORMAT, "gunzip: ");
    }
    ck_assert_int_eq(whole, 1);
    ck_assert_int_eq(truncated, (int)n - 3);
    p[n - 5] ^= 1; /* the checksum of the second member */
    FAILS(tn_gunzip(p, n, &out, &out_n), TN_EFORMAT,
          "broken data after 6006 unpacked bytes: incorrect data check");
    FAILS(tn_read_file(io_path("absent"), &out, &out_n), TN_EIO, "absent: open: No such file");
    FAILS(tn_read_file(NULL, &out, &out_n), TN_ENULL, "path is NULL");
    tn_bytes_free(gz);
}
END_TEST

START_TEST(each_failing_allocation_of_gunzip_is_a_clean_error)
{
    void *gz, *out;
    size_t n, out_n;
    WORKS(tn_read_file(GZ, &gz, &n));
    for (uint64_t k = 1;; k++) {
        ck_assert_uint_lt(k, 50);
        tn__alloc_fail_at(k);
        const bool ok = tn_gunzip(gz, n, &out, &out_n);
        tn__alloc_fail_at(0);
        if (ok) {
            ck_assert_uint_gt(k, 2);
            break;
        }
        EXPECT(TN_ENOMEM, "");
    }
    tn_bytes_free(out);
    tn_bytes_free(gz);
}
END_TEST
#endif

START_TEST(idx_files_of_every_type_are_read)
{
    static const unsigned char i16[] = {0, 0, 0x0b, 2, 0, 0, 0, 2, 0, 0, 0, 1, 0x80, 0, 0, 7};
    static const unsigned char f32[] = {0, 0, 0x0d, 1, 0, 0, 0, 1, 0x3f, 0xc0, 0, 0};
    static const unsigned char f64[] = {0, 0, 0x0e, 1, 0, 0, 0, 1, 0xc0, 4, 0, 0, 0, 0, 0, 0};
    static const unsigned char i32[] = {0, 0, 0x0c, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xfe};
    static const unsigned char i8[] = {0, 0, 9, 1, 0, 0, 0, 2, 0xff, 1},
                               none[] = {0, 0, 8, 2, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff};
    tn__idx x;
    WORKS(tn__idx_parse(i16, sizeof i16, "x", &x));
    ck_assert(x.dtype == TN_I16 && x.rank == 2 && x.dims[0] == 2 && x.dims[1] == 1 && x.bytes == 4);
    ck_assert(((int16_t *)x.data)[0] == -32768 && ((int16_t *)x.data)[1] == 7);
    tn__idx_free(&x);
    WORKS(tn__idx_parse(f32, sizeof f32, "x", &x));
    ck_assert(x.dtype == TN_F32 && ((float *)x.data)[0] == 1.5f);
    tn__idx_free(&x);
    WORKS(tn__idx_parse(f64, sizeof f64, "x", &x));
    ck_assert(x.dtype == TN_F64 && ((double *)x.data)[0] == -2.5);
    tn__idx_free(&x);
    WORKS(tn__idx_parse(i32, sizeof i32, "x", &x));
    ck_assert(x.dtype == TN_I32 && ((int32_t *)x.data)[0] == -2);
    tn__idx_free(&x);
    WORKS(tn__idx_parse(i8, sizeof i8, "x", &x));
    ck_assert(x.dtype == TN_I8 && ((signed char *)x.data)[0] == -1);
    tn__idx_free(&x);
    WORKS(tn__idx_parse(none, sizeof none, "x", &x));
    ck_assert(x.dtype == TN_U8 && x.bytes == 0 && x.dims[1] == 4294967295);
    tn__idx_free(&x);
}
END_TEST

static const struct {
    size_t n;
    const char *bytes, *want;
} bad_idx[] = {
    {3, "\0\0\10", "idx: f: truncated: 3 bytes, the magic alone is 4"},
    {4, "\0\1\10\1", "magic 00 01 08 01: an IDX file begins with 00 00, a type"},
    {4, "\0\0\12\1", "magic 00 00 0a 01"},
    {4, "\0\0\10\0", "rank 0: 1 to 16 are allowed"},
    {4, "\0\0\10\21", "rank 17: 1 to 16 are allowed"},
    {11, "\0\0\10\2\0\0\0\1\0\0\0", "truncated: 11 bytes, the header alone is 12"},
    {9, "\0\0\10\1\0\0\0\2x", "truncated: its dims need 2 bytes of data, it has 1"},
    {11, "\0\0\10\1\0\0\0\2xyz", "too long: its dims need 2 bytes of data, it has 3"},
    {16, "\0\0\16\3\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "truncated: its dims need"},
};

START_TEST(malformed_idx_data_are_refused)
{
    tn__idx x;
    FAILS(tn__idx_parse(bad_idx[_i].bytes, bad_idx[_i].n, "f", &x), TN_EFORMAT, bad_idx[_i].want);
}
END_TEST

/* ---- folders of data sets ---- */

/* Two images of 1 x 2 and two labels, both for training and test. */
static void make_set(const char *folder, int skip)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char path[600];
    mkdir(folder, 0777);
    for (int i = 0; i < 4; i++) {
        if (i == skip) continue;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        if (i % 2 == 0)
            io_write(path, "\0\0\10\3\0\0\0\2\0\0\0\1\0\0\0\2abcd", 20);
        else
            io_write(path, "\0\0\10\1\0\0\0\2\5\6", 10);
    }
}

START_TEST(the_four_files_are_found_in_the_folder_or_in_mnist)
{
    tn__mnist_raw m;
    make_set(io_path("plain"), -1);
    mkdir(io_path("nest"), 0777);
    make_set(io_path("nest/mnist"), -1);
    make_set(io_path("nest/fashion-mnist"), -1);
    WORKS(tn__mnist_files(TN__MNIST, io_path("plain"), &m));
    ck_assert(m.train_images.rank == 3 && m.train_images.dims[2] == 2 &&
              m.test_labels.dims[0] == 2);
    ck_assert_mem_eq(m.test_images.data, "abcd", 4);
    tn__mnist_free(&m);
    WORKS(tn__mnist_files(TN__MNIST, io_path("nest"), &m));
    tn__mnist_free(&m);
    WORKS(tn__mnist_files(TN__FASHION, io_path("nest"), &m));
    tn__mnist_free(&m);
}
END_TEST

START_TEST(incomplete_and_inconsistent_folders_are_refused)
{
    tn__mnist_raw m;
    make_set(io_path("a"), 3);
    FAILS(tn__mnist_files(TN__MNIST, io_path("a"), &m), TN_EIO,
          "train-images-idx3-ubyte is there, t10k-labels-idx1-ubyte (or .gz) is not");
    io_write(io_path("a/t10k-labels-idx1-ubyte"), "\0\0\10\1\0\0\0\3\5\6\7", 11);
    FAILS(tn__mnist_files(TN__MNIST, io_path("a"), &m), TN_EFORMAT, "3 labels for 2 images");
    io_write(io_path("a/t10k-labels-idx1-ubyte"), "\0\0\11\1\0\0\0\2\5\6", 10);
    FAILS(tn__mnist_files(TN__MNIST, io_path("a"), &m), TN_EFORMAT,
          "int8 of rank 1: not uint8 labels of rank 1");
    io_write(io_path("a/train-images-idx3-ubyte"), "\0\0\10\1\0\0\0\2\5\6", 10);
    FAILS(tn__mnist_files(TN__MNIST, io_path("a"), &m), TN_EFORMAT,
          "uint8 of rank 1: not uint8 images of rank 3");
    FAILS(tn__mnist_files(TN__MNIST, io_path("none"), &m), TN_EIO,
          "put train-images-idx3-ubyte.gz and its three siblings");
}
END_TEST

#ifdef TN_HAVE_ZLIB
START_TEST(the_installed_fashion_mnist_is_read)
{
    tn__mnist_raw m;
    if (!tn__file_exists("/usr/share/datasets/fashion-mnist/train-images-idx3-ubyte.gz"))
        test_skip("the package dataset-fashion-mnist is not installed");
    WORKS(tn__mnist_files(TN__FASHION, "/usr/share/datasets/fashion-mnist", &m));
    ck_assert(m.train_images.dims[0] == 60000 && m.train_images.dims[1] == 28 &&
              m.train_images.dims[2] == 28);
    ck_assert(m.test_labels.dims[0] == 10000 && m.test_images.bytes == 7840000);
    int count[10] = {0};
    for (int i = 0; i < 60000; i++) count[((unsigned char *)m.train_labels.data)[i]]++;
    for (int i = 0; i < 10; i++)
        ck_assert_int_eq(count[i], 6000); /* balanced, as its authors say */
    tn__mnist_free(&m);
}
END_TEST

START_TEST(the_real_mnist_is_read)
{
    tn__mnist_raw m;
    const char *folder = getenv("TENON_DATASETS");
    if (!folder) test_skip("TENON_DATASETS does not name a folder with MNIST");
    WORKS(tn__mnist_files(TN__MNIST, folder, &m));
    ck_assert(m.train_images.dims[0] == 60000 && m.test_images.dims[0] == 10000);
    static const unsigned char first[] = {5, 0, 4, 1, 9, 2, 1, 3, 1, 4};
    ck_assert_mem_eq(m.train_labels.data, first, 10);
    tn__mnist_free(&m);
}
END_TEST
#endif

Suite *suite_idx(void)
{
    Suite *s = suite_create("idx");
    TCase *t = tcase_create("idx");
    tcase_add_checked_fixture(t, io_setup, io_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, sha256_agrees_with_the_standard);
#ifndef TN_HAVE_ZLIB
    tcase_add_test(t, without_zlib_gunzip_says_so);
#else
    tcase_add_test(t, gunzip_unpacks_all_members);
    tcase_add_test(t, broken_gz_data_are_refused);
    tcase_add_test(t, each_failing_allocation_of_gunzip_is_a_clean_error);
    tcase_add_test(t, the_installed_fashion_mnist_is_read);
    tcase_add_test(t, the_real_mnist_is_read);
#endif
    tcase_add_test(t, idx_files_of_every_type_are_read);
    tcase_add_loop_test(t, malformed_idx_data_are_refused, 0,
                        (int)(sizeof bad_idx / sizeof *bad_idx));
    tcase_add_test(t, the_four_files_are_found_in_the_folder_or_in_mnist);
    tcase_add_test(t, incomplete_and_inconsistent_folders_are_refused);
    suite_add_tcase(s, t);
    return s;
}
