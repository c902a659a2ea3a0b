/* SPDX-License-Identifier: MIT */
/*
 * Where data sets are looked for, without a network (a proxy that nobody serves stands in its way), and
 * CIFAR-10 from a tar of two records a file (cifar.tgz, made by make_archives.py).
 */
#include "base/base.h"
#include "io/files.h"
#include "io/idx.h"
#include "io_rig.h"
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <unistd.h>

/* Each test is a process of its own that reads the variables for the first time. */
static void setup(void)
{
    io_setup();
    setenv("TENON_CACHE", io_path("cache"), 1);
    setenv("TENON_DATASETS", io_path("sets"), 1);
    setenv("http_proxy", "http://127.0.0.1:1", 1);
    setenv("https_proxy", "http://127.0.0.1:1", 1);
    mkdir(io_path("sets"), 0777);
}

static void make_set(const char *folder, char mark)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char images[] = "\0\0\10\3\0\0\0\1\0\0\0\1\0\0\0\1?";
    images[16] = mark;
    mkdir(folder, 0777);
    for (int i = 0; i < 4; i++) {
        char *path = tn__format("%s/%s", folder, names[i]);
        if (i % 2 == 0)
            io_write(path, images, 17);
        else
            io_write(path, "\0\0\10\1\0\0\0\1\5", 9);
        tn__free(path);
    }
}

static char mark_of(tn__mnist_kind kind)
{
    tn__mnist_raw m;
    WORKS(tn__mnist_files(kind, NULL, &m));
    const char mark = *(char *)m.train_images.data;
    tn__mnist_free(&m);
    return mark;
}

START_TEST(tenon_datasets_comes_before_the_cache_and_mnist_is_not_fashion)
{
    mkdir(io_path("cache"), 0777);
    mkdir(io_path("cache/datasets"), 0777);
    make_set(io_path("cache/datasets/mnist"), 'c');
    make_set(io_path("cache/datasets/fashion-mnist"), 'f');
    ck_assert_int_eq(mark_of(TN__MNIST), 'c');
    make_set(io_path("sets/mnist"), 'm');
    ck_assert_int_eq(mark_of(TN__MNIST), 'm');
    make_set(io_path("sets"), 's'); /* itself: MNIST's only */
    ck_assert_int_eq(mark_of(TN__MNIST), 's');
    ck_assert_int_eq(mark_of(TN__FASHION), 'f');
    make_set(io_path("sets/fashion-mnist"), 'g');
    ck_assert_int_eq(mark_of(TN__FASHION), 'g');
}
END_TEST

START_TEST(a_folder_called_fashion_holds_fashion_mnist_itself)
{
    setenv("TENON_DATASETS", io_path("fashion-mnist"), 1);
    make_set(io_path("fashion-mnist"), 'x');
    ck_assert_int_eq(mark_of(TN__FASHION), 'x');
}
END_TEST

START_TEST(without_files_and_network_the_text_says_where_it_looked_and_what_to_do)
{
    tn__mnist_raw m;
    ck_assert(!tn__mnist_files(TN__MNIST, NULL, &m));
    const char *text = tn_last_error()->msg;
    ck_assert_ptr_nonnull(strstr(text, "/sets/mnist, "));
    ck_assert_ptr_nonnull(strstr(text, "/cache/datasets/mnist"));
#ifdef TN_HAVE_CURL
    ck_assert_ptr_nonnull(strstr(text, "tn_fetch: no download; http"));
#endif
    EXPECT(TN_EIO, "and set TENON_DATASETS to it");
}
END_TEST

#ifdef TN_HAVE_ARCHIVE
static void check_cifar(const char *folder)
{
    tn__mnist_raw m;
    WORKS(tn__cifar_files(folder, &m));
    ck_assert(m.train_images.rank == 4 && m.train_images.dims[0] == 10 &&
              m.train_images.dims[1] == 3);
    ck_assert(m.test_images.dims[0] == 2 && m.test_images.dims[3] == 32 &&
              m.train_labels.rank == 1);
    for (int i = 0; i < 10; i++) { /* records 2k and 2k + 1 are in file k, 1 to 5 */
        ck_assert_int_eq(((unsigned char *)m.train_labels.data)[i], i + 2);
        for (int k = 0; k < 3072; k++)
            ck_assert_int_eq(((unsigned char *)m.train_images.data)[i * 3072 + k], i + 2);
    }
    ck_assert_mem_eq(m.test_labels.data, "\0\1", 2);
    tn__mnist_free(&m);
}

START_TEST(cifar_is_read_from_its_tar_and_from_its_files)
{
    tn__mnist_raw m;
    void *p;
    size_t n;
    WORKS(tn_read_file(TEST_SOURCE_DIR "/tests/io/cifar.tgz", &p, &n));
    mkdir(io_path("sets/cifar"), 0777);
    io_write(io_path("sets/cifar/cifar-10-binary.tar.gz"), p, n);
    tn_bytes_free(p);
    check_cifar(NULL);
    check_cifar(io_path("sets"));
    WORKS(tn_tar_extract(TEST_SOURCE_DIR "/tests/io/cifar.tgz", io_path("bin")));
    check_cifar(io_path("bin"));
    io_write(io_path("bin/cifar-10-batches-bin/data_batch_4.bin"), "123", 3);
    FAILS(tn__cifar_files(io_path("bin"), &m), TN_EFORMAT,
          "data_batch_4.bin has 3 bytes: no multiple of 3073");
    static const char one[3073];
    io_write(io_path("bin/cifar-10-batches-bin/data_batch_4.bin"), one, sizeof one);
    FAILS(tn__cifar_files(io_path("bin"), &m), TN_EFORMAT,
          "data_batch_4.bin has 1 records, another one has 2");
    unlink(io_path("bin/cifar-10-batches-bin/data_batch_4.bin"));
    FAILS(tn__cifar_files(io_path("bin"), &m), TN_EIO, "data_batch_4.bin is missing");
    FAILS(tn__cifar_files(io_path("none"), &m), TN_EIO,
          "no cifar-10-binary.tar.gz and no data_batch_1.bin in ");
}
END_TEST
#endif

#ifdef TN_HAVE_CURL
START_TEST(cifar_without_files_and_network_names_its_address)
{
    tn__mnist_raw m;
    FAILS(tn__cifar_files(NULL, &m), TN_EIO, "cifar-10-binary.tar.gz: ");
}
END_TEST
#endif

Suite *suite_datasets(void)
{
    Suite *s = suite_create("datasets");
    TCase *t = tcase_create("datasets");
    tcase_add_checked_fixture(t, setup, io_teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, tenon_datasets_comes_before_the_cache_and_mnist_is_not_fashion);
    tcase_add_test(t, a_folder_called_fashion_holds_fashion_mnist_itself);
    tcase_add_test(t, without_files_and_network_the_text_says_where_it_looked_and_what_to_do);
#ifdef TN_HAVE_ARCHIVE
    tcase_add_test(t, cifar_is_read_from_its_tar_and_from_its_files);
#endif
#ifdef TN_HAVE_CURL
    tcase_add_test(t, cifar_without_files_and_network_names_its_address);
#endif
    suite_add_tcase(s, t);
    return s;
}
