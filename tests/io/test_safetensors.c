/* SPDX-License-Identifier: MIT */
/*
 * safetensors as raw records: files of the reference writer (other.bin, made by make_other.py), own files
 * read back, every malformed header by its text, every failing allocation.
 */
#include "io/safetensors.h"
#include "io_rig.h"
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#ifndef TN_HAVE_JANSSON
START_TEST(without_json_each_call_says_so)
{
    const tn__safe_rec r = {.name = "a", .dtype = TN_U8, .rank = 0, .data = "x", .bytes = 1};
    FAILS(tn__safe_open("x"), TN_EUNSUPPORTED, "this build has no JSON");
    FAILS(tn__safe_write("x", &r, 1, NULL, 0, NULL, NULL), TN_EUNSUPPORTED,
          "this build has no JSON");
}
END_TEST
#else

static const tn__safe_rec *rec(const tn__safe *s, const char *name)
{
    const tn__safe_rec *r = tn__safe_find(s, name);
    ck_assert_msg(r != NULL, "%s", name);
    return r;
}

START_TEST(a_file_of_the_reference_writer_is_read)
{
    tn__safe *s = tn__safe_open(TEST_SOURCE_DIR "/tests/io/other.bin");
    WORKS(s);
    ck_assert_uint_eq(tn__safe_count(s), 12);
    ck_assert_str_eq(tn__safe_at(s, 0)->name, "i64"); /* the header's order */
    ck_assert_str_eq(tn__safe_at(s, 11)->name, "bool");
    ck_assert_ptr_null(tn__safe_at(s, 12));
    const tn__safe_rec *r = rec(s, "f32");
    ck_assert(r->dtype == TN_F32 && r->rank == 2 && r->dims[0] == 1 && r->dims[1] == 3 &&
              r->bytes == 12);
    float f[3];
    memcpy(f, r->data, 12);
    ck_assert(f[0] == 0.1f && f[1] == 0 && f[2] == 3e38f);
    double d;
    r = rec(s, "f64");
    memcpy(&d, r->data, 8);
    ck_assert(r->rank == 0 && d == 0.1);
    ck_assert(rec(s, "empty")->bytes == 0 && rec(s, "empty")->dims[0] == 0);
    ck_assert_mem_eq(rec(s, "bf16")->data, "\xc0\x3f\x40\x40", 4);
    ck_assert_mem_eq(rec(s, "f16")->data, "\x00\x3e\x00\xc0", 4);
    ck_assert_mem_eq(rec(s, "i8")->data, "\x80\x7f", 2);
    ck_assert(rec(s, "u8")->dtype == TN_U8 && rec(s, "i16")->dtype == TN_I16 &&
              rec(s, "i32")->dtype == TN_I32);
    ck_assert(rec(s, "i64")->dtype == TN_I64 && rec(s, "bool")->dtype == TN_BOOL);
    ck_assert_mem_eq(rec(s, "i64")->data, "\0\0\0\0\0\0\0\x80", 8);
    const char *key, *value;
    ck_assert_uint_eq(tn__safe_meta_count(s), 2);
    tn__safe_meta_at(s, 1, &key, &value);
    ck_assert_str_eq(key, "note");
    ck_assert_str_eq(value, "a \"b\" \\ \n \xc3\xa9");
    WORKS(tn__safe_usable(s, rec(s, "f32")));
    ck_assert_str_eq(rec(s, "f8")->dtype_name, "F8_E4M3");
    FAILS(tn__safe_usable(s, rec(s, "f8")), TN_EUNSUPPORTED,
          "tensor \"f8\" is F8_E4M3: no tensor can have this dtype");
    FAILS(tn__safe_find(s, "f23"), TN_EVALUE, "no tensor \"f23\" among its 12: did you mean \"");
    tn__safe_unref(s);
}
END_TEST

static const void *fetch(void *user, size_t i)
{
    ck_assert_uint_eq(i, 4);
    return user;
}

START_TEST(what_is_written_is_read_back_aligned_and_in_order)
{
    static const uint8_t u8[3] = {1, 2, 3};
    static const int16_t i16[2] = {-1, 7};
    static const double f64[1] = {2.5};
    static const float f32[2] = {1, 2}, late[1] = {9};
    const tn__safe_rec recs[] = {
        {.name = "z.u8", .dtype = TN_U8, .rank = 1, .dims = {3}, .data = u8, .bytes = 3},
        {.name = "a \"q\" \\ \t \xc3\xa9",
         .dtype = TN_I16,
         .rank = 2,
         .dims = {2, 1},
         .data = i16,
         .bytes = 4},
        {.name = "", .dtype = TN_F64, .rank = 0, .data = f64, .bytes = 8},
        {.name = "f32", .dtype = TN_F32, .rank = 1, .dims = {2}, .data = f32, .bytes = 8},
        {.name = "late", .dtype = TN_F32, .rank = 1, .dims = {1}, .data = NULL, .bytes = 4},
        {.name = "none", .dtype = TN_BF16, .rank = 2, .dims = {0, 5}, .data = NULL, .bytes = 0},
    };
    static const char *const meta[] = {"step", "12", "note", "x\ny"};
    const char *path = io_path("a.safetensors");
    WORKS(tn__safe_write(path, recs, 6, meta, 2, fetch, (void *)(uintptr_t)late));
    ck_assert_uint_eq(io_files(), 1);
    tn__safe *s = tn__safe_open(path);
    WORKS(s);
    ck_assert_uint_eq(tn__safe_count(s), 6);
    for (size_t i = 0; i < 6; i++) {
        const tn__safe_rec *r = tn__safe_at(s, i);
        ck_assert_str_eq(r->name, recs[i].name);
        ck_assert(r->dtype == recs[i].dtype && r->rank == recs[i].rank &&
                  r->bytes == recs[i].bytes);
        ck_assert_mem_eq(r->dims, recs[i].dims, sizeof r->dims);
        ck_assert_mem_eq(r->bytes ? r->data : "",
                         i == 4     ? late
                         : r->bytes ? recs[i].data
                                    : "",
                         r->bytes);
        ck_assert_uint_eq((uintptr_t)r->data % tn_dtype_size(r->dtype), 0);
    }
    const char *key, *value;
    ck_assert_uint_eq(tn__safe_meta_count(s), 2);
    tn__safe_meta_at(s, 0, &key, &value);
    ck_assert_str_eq(key, "step");
    tn__safe_meta_at(s, 1, &key, &value);
    ck_assert_str_eq(value, "x\ny");
    tn__safe_unref(s);
}
END_TEST

START_TEST(writing_without_tensors_and_over_an_old_file_works)
{
    const char *path = io_path("e.safetensors");
    struct stat st;
    io_write(path, "old", 3);
    chmod(path, 0640);
    WORKS(tn__safe_write(path, NULL, 0, NULL, 0, NULL, NULL));
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, 16);
    ck_assert_int_eq(st.st_mode & 0777, 0640);
    tn__safe *s = tn__safe_open(path);
    WORKS(s);
    ck_assert_uint_eq(tn__safe_count(s), 0);
    tn__safe_unref(s);
}
END_TEST

static const void *fetch_nothing(void *user, size_t i)
{
    (void)i;
    tn__fail(TN_EDEVICE, "%s", (const char *)user);
    return NULL;
}

START_TEST(refused_and_broken_off_writes_leave_the_old_file)
{
    static const char x[8] = "abcdefg";
    const tn__safe_rec ok = {
        .name = "a", .dtype = TN_U8, .rank = 1, .dims = {8}, .data = x, .bytes = 8};
    const char *path = io_path("w.safetensors");
    static const char *const twice[] = {"k", "1", "k", "2"}, *const bad_text[] = {"k", "\xff"};
    static const char *const null_text[] = {"k", NULL};
    tn__safe_rec two[2] = {ok, ok}, r = ok;
    io_write(path, "old", 3);
    FAILS(tn__safe_write(path, two, 2, NULL, 0, NULL, NULL), TN_EVALUE,
          "tensor \"a\" is given twice");
    r.name = "__metadata__";
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_EVALUE,
          "cannot be the name of a tensor");
    r.name = "\xc3(";
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_EVALUE, "no UTF-8");
    r.name = NULL;
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_ENULL, "tensor 0 has no name");
    r = ok, r.bytes = 7;
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_EVALUE,
          "has 7 bytes, its shape and dtype need 8");
    r = ok, r.dims[0] = -8;
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_EVALUE, "dim 0 is -8");
    r = ok, r.dtype = TN_DTYPES;
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_EVALUE, "dtype 14");
    r = ok, r.data = NULL;
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, NULL, NULL), TN_ENULL, "has no data");
    FAILS(tn__safe_write(path, &r, 1, NULL, 0, fetch_nothing, (void *)(uintptr_t) "device lost"),
          TN_EDEVICE, "device lost");
    FAILS(tn__safe_write(path, &ok, 1, twice, 2, NULL, NULL), TN_EVALUE,
          "metadata key \"k\" is given twice");
    FAILS(tn__safe_write(path, &ok, 1, bad_text, 1, NULL, NULL), TN_EVALUE, "no UTF-8");
    FAILS(tn__safe_write(path, &ok, 1, null_text, 1, NULL, NULL), TN_ENULL, "metadata pair 0");
    FAILS(tn__safe_write(io_path("no/such/folder"), &ok, 1, NULL, 0, NULL, NULL), TN_EIO,
          "No such file or directory");
    ck_assert_uint_eq(io_files(), 1);
    FAILS(tn__safe_open(path), TN_EFORMAT, "truncated: 3 bytes");
}
END_TEST

START_TEST(a_full_disk_is_an_error_and_leaves_no_file)
{
    static char big[1 << 16];
    const tn__safe_rec r = {
        .name = "a", .dtype = TN_U8, .rank = 1, .dims = {1 << 16}, .data = big, .bytes = 1 << 16};
    const struct rlimit small = {4096, RLIM_INFINITY};
    struct rlimit old;
    getrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, SIG_IGN);
    setrlimit(RLIMIT_FSIZE, &small);
    const bool ok = tn__safe_write(io_path("f.safetensors"), &r, 1, NULL, 0, NULL, NULL);
    setrlimit(RLIMIT_FSIZE, &old);
    FAILS(ok, TN_EIO, "f.safetensors: write: File too large");
    ck_assert_uint_eq(io_files(), 0);
}
END_TEST

/* ---- malformed files ---- */

static tn__safe *parse(const char *header, size_t data, int64_t length)
{
    static unsigned char file[4096];
    const size_t n = strlen(header);
    const uint64_t len = length < 0 ? n : (uint64_t)length;
    memset(file, 0, sizeof file);
    for (int i = 0; i < 8; i++) file[i] = (unsigned char)(len >> (8 * i));
    memcpy(file + 8, header, n);
    /* exactly as long as it claims, so that a sanitizer sees every byte read beyond */
    unsigned char *copy = malloc(8 + n + data);
    memcpy(copy, file, 8 + n + data);
    tn__safe *s = tn__safe_parse(copy, 8 + n + data, "x.st");
    if (s) ck_assert_uint_eq(tn__safe_count(s), 1);
    tn__safe_unref(s);
    free(copy);
    return s;
}

#define E(dtype, shape, offsets) \
    "{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}"
static const struct {
    const char *header;
    size_t data;
    int64_t length;   /* -1: as it is */
    const char *want; /* NULL: is fine */
} files[] = {
    {"{\"a\":" E("\"U8\"", "[4]", "[0,4]") "}", 4, -1, NULL},
    {"{\"a\":" E("\"U8\"", "[4]", "[0,4]") "}    ", 4, -1, NULL},
    {"{\"a\":{\"extra\":1,\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[0,1]}}", 1, -1, NULL},
    {"{\"a\":" E("\"F32\"", "[0,9223372036854775807,3]", "[0,0]") "}", 0, -1, NULL},
    {"{}", 0, 100000001, "a header of 100000001 bytes: more than 100000000 are not allowed"},
    {"{}", 0, INT64_MAX, "a header of 9223372036854775807 bytes"},
    {"{}", 0, 3, "truncated: a header of 3 bytes in a file of 10"},
    {"", 0, -1, "does not start with '{'"},
    {"[1]", 0, -1, "does not start with '{'"},
    {" {}", 0, -1, "does not start with '{'"},
    {"{\"a\":", 0, -1, "the header is no JSON: byte"},
    {"{\"a\xff\":1}", 0, -1, "the header is no JSON: byte"},
    {"{} x", 0, -1, "the header is no JSON: byte"},
    {"{}", 1, -1, "bytes 0 to 1 at the end of the data belong to no tensor"},
    {"{\"a\":1}", 0, -1, "tensor \"a\": its entry is no object"},
    {"{\"a\":{}}", 0, -1, "tensor \"a\": dtype is missing or no text"},
    {"{\"a\":" E("\"F31\"", "[1]", "[0,4]") "}", 4, -1, "tensor \"a\": unknown dtype \"F31\""},
    {"{\"a\":" E("7", "[1]", "[0,4]") "}", 4, -1, "dtype is missing or no text"},
    {"{\"a\":" E("\"F32\"", "4", "[0,4]") "}", 4, -1, "shape is missing or no list"},
    {"{\"a\":" E("\"F32\"", "[-1]", "[0,4]") "}", 4, -1,
     "dim 0 of its shape is no whole number >= 0"},
    {"{\"a\":" E("\"F32\"", "[1,1.0]", "[0,4]") "}", 4, -1, "dim 1 of its shape"},
    {"{\"a\":" E("\"F32\"", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]", "[0,4]") "}", 4, -1,
     "rank 17: at most 16"},
    {"{\"a\":" E("\"U8\"", "[4294967296,4294967296]", "[0,0]") "}", 0, -1,
     "the size of its shape overflows"},
    {"{\"a\":" E("\"F32\"", "[9223372036854775807]", "[0,0]") "}", 0, -1,
     "the size of its shape overflows"},
    {"{\"a\":" E("\"F32\"", "[1]", "[0]") "}", 4, -1, "data_offsets is no pair of whole numbers"},
    {"{\"a\":" E("\"F32\"", "[1]", "[0,4,8]") "}", 4, -1, "data_offsets is no pair"},
    {"{\"a\":" E("\"F32\"", "[1]", "[0,\"4\"]") "}", 4, -1, "data_offsets is no pair"},
    {"{\"a\":" E("\"F32\"", "[1]", "[-4,0]") "}", 4, -1, "negative data_offsets [-4, 0]"},
    {"{\"a\":" E("\"F32\"", "[1]", "[4,0]") "}", 4, -1, "data_offsets [4, 0] run backwards"},
    {"{\"a\":" E("\"F32\"", "[2]", "[0,8]") "}", 4, -1,
     "data_offsets [0, 8] leave the 4 bytes of data"},
    {"{\"a\":" E("\"F32\"", "[1]", "[0,9223372036854775807]") "}", 4, -1, "leave the 4 bytes"},
    {"{\"a\":" E("\"F32\"", "[1]", "[0,99999999999999999999]") "}", 4, -1, "the header is no JSON"},
    {"{\"a\":" E("\"F32\"", "[2]", "[0,4]") "}", 4, -1,
     "2 elements of F32 are 8 bytes, its data_offsets span 4"},
    {"{\"a\":" E("\"F4\"", "[3]", "[0,1]") "}", 1, -1, "3 elements of F4"},
    {"{\"a\":" E("\"U8\"", "[4]", "[0,4]") ",\"b\":" E("\"U8\"", "[4]", "[2,6]") "}", 6, -1,
     "tensors \"a\" and \"b\" overlap at byte 2 of the data"},
    {"{\"a\":" E("\"U8\"", "[4]", "[0,4]") ",\"b\":" E("\"U8\"", "[4]", "[0,4]") "}", 4, -1,
     "overlap at byte 0"},
    {"{\"a\":" E("\"U8\"", "[2]", "[0,2]") ",\"b\":" E("\"U8\"", "[2]", "[4,6]") "}", 6, -1,
     "bytes 2 to 4 of the data, before tensor \"b\", belong to no tensor"},
    {"{\"a\":" E("\"U8\"", "[2]", "[2,4]") "}", 4, -1,
     "bytes 0 to 2 of the data, before tensor \"a\""},
    {"{\"a\":" E("\"U8\"", "[2]", "[0,2]") "}", 4, -1, "bytes 2 to 4 at the end of the data"},
    {"{\"a\":" E("\"U8\"", "[2]", "[0,2]") ",\"a\":" E("\"U8\"", "[2]", "[2,4]") "}", 4, -1,
     "has a key twice: "},
    {"{\"__metadata__\":3}", 0, -1, "__metadata__ is no object"},
    {"{\"__metadata__\":{\"k\":3}}", 0, -1, "__metadata__: the value of \"k\" is no text"},
    {"{\"__metadata__\":{},\"__metadata__\":{}}", 0, -1, "has a key twice"},
};

START_TEST(malformed_files_are_refused_by_their_own_message)
{
    tn__safe *s = parse(files[_i].header, files[_i].data, files[_i].length);
    if (files[_i].want)
        FAILS(s, strstr(files[_i].want, "rank 17") ? TN_EUNSUPPORTED : TN_EFORMAT, files[_i].want);
    else
        WORKS(s);
}
END_TEST

START_TEST(files_that_are_no_files_are_refused)
{
    FAILS(tn__safe_open(io_path("absent")), TN_EIO, "absent: open: No such file or directory");
    FAILS(tn__safe_open(io_folder()), TN_EIO, "not a regular file");
    io_write(io_path("zero"), "", 0);
    FAILS(tn__safe_open(io_path("zero")), TN_EFORMAT,
          "truncated: 0 bytes, the header's length alone is 8");
    unsigned char file[2048];
    FILE *f = fopen(TEST_SOURCE_DIR "/tests/io/other.bin", "rb");
    const size_t n = fread(file, 1, sizeof file, f);
    fclose(f);
    for (size_t cut = 0; cut < n; cut++) {
        unsigned char *copy = malloc(cut + 1);
        memcpy(copy, file, cut);
        ck_assert_ptr_null(tn__safe_parse(copy, cut, "cut"));
        EXPECT(TN_EFORMAT, cut < 760 ? "truncated" : "leave the");
        free(copy);
    }
}
END_TEST

/* ---- failing allocations ---- */

START_TEST(each_failing_allocation_of_a_save_is_a_clean_error)
{
    static const float f[2] = {1, 2};
    const tn__safe_rec recs[] = {
        {.name = "a", .dtype = TN_F32, .rank = 1, .dims = {2}, .data = f, .bytes = 8},
        {.name = "b", .dtype = TN_F32, .rank = 1, .dims = {2}, .data = f, .bytes = 8}};
    static const char *const meta[] = {"k", "v"};
    const size_t live = tn__live_blocks();
    for (uint64_t n = 1;; n++) {
        ck_assert_uint_lt(n, 200);
        tn__alloc_fail_at(n);
        const bool ok = tn__safe_write(io_path("s"), recs, 2, meta, 1, NULL, NULL);
        tn__alloc_fail_at(0);
        ck_assert_uint_eq(tn__live_blocks(), live);
        if (ok) {
            ck_assert_uint_gt(n, 5);
            ck_assert_uint_eq(io_files(), 1);
            return;
        }
        ck_assert_uint_eq(io_files(), 0);
        EXPECT(TN_ENOMEM, "");
    }
}
END_TEST

START_TEST(each_failing_allocation_of_a_load_is_a_clean_error)
{
    const size_t live = tn__live_blocks();
    for (uint64_t n = 1;; n++) {
        ck_assert_uint_lt(n, 200);
        tn__alloc_fail_at(n);
        tn__safe *s = tn__safe_open(TEST_SOURCE_DIR "/tests/io/other.bin");
        tn__alloc_fail_at(0);
        if (s) {
            ck_assert_uint_gt(n, 3);
            tn__safe_unref(s);
            ck_assert_uint_eq(tn__live_blocks(), live);
            return;
        }
        ck_assert_uint_eq(tn__live_blocks(), live);
        EXPECT(TN_ENOMEM, "");
    }
}
END_TEST
#endif

Suite *suite_safetensors(void)
{
    Suite *s = suite_create("safetensors");
    TCase *t = tcase_create("safetensors");
    tcase_add_checked_fixture(t, io_setup, io_teardown);
    tcase_set_timeout(t, 60);
#ifndef TN_HAVE_JANSSON
    tcase_add_test(t, without_json_each_call_says_so);
#else
    tcase_add_test(t, a_file_of_the_reference_writer_is_read);
    tcase_add_test(t, what_is_written_is_read_back_aligned_and_in_order);
    tcase_add_test(t, writing_without_tensors_and_over_an_old_file_works);
    tcase_add_test(t, refused_and_broken_off_writes_leave_the_old_file);
    tcase_add_test(t, a_full_disk_is_an_error_and_leaves_no_file);
    tcase_add_loop_test(t, malformed_files_are_refused_by_their_own_message, 0,
                        (int)(sizeof files / sizeof *files));
    tcase_add_test(t, files_that_are_no_files_are_refused);
    tcase_add_test(t, each_failing_allocation_of_a_save_is_a_clean_error);
    tcase_add_test(t, each_failing_allocation_of_a_load_is_a_clean_error);
#endif
    suite_add_tcase(s, t);
    return s;
}
