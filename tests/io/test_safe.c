/* SPDX-License-Identifier: MIT */
/* safetensors, IDX files and downloads as tensors: saved, loaded over the file's memory, refused. */
#include "io/safe.h"
#include "io/files.h"
#include "io_rig.h"
#include "httpd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <tenon/io.h>

#ifdef TN_HAVE_JANSSON
static tn_tensor *vec(const float *v, int64_t n)
{
    return tn_from_data(v, SHAPE(n), .dtype = TN_F32);
}

START_TEST(tensors_are_saved_and_loaded_bit_by_bit)
{
    TN_SCOPE;
    static const float w[6] = {1, -0.0f, 3.5f, 1e-40f, 5, 6};
    static const int64_t big[1] = {INT64_MIN};
    float out[6];
    int64_t i = 0;
    const char *path = io_path("m.safetensors");
    tn_tensor *a = tn_from_data(w, SHAPE(2, 3), .dtype = TN_F32);
    const tn__named ts[] = {{"l1.weight", a},
                            {"n", tn_from_data(big, SHAPE0, .dtype = TN_I64)},
                            {"lazy", tn_mul(a, 2)},
                            {"none", tn_from_data(NULL, SHAPE(0, 3), .dtype = TN_F16)}};
    static const char *const meta[] = {"step", "3", NULL};
    WORKS(tn__safe_save(path, ts, 4, meta));
    tn__safe *s = tn__safe_open(path);
    WORKS(s);
    tn_tensor *b = tn__safe_tensor(s, "l1.weight", NULL), *n = tn__safe_tensor(s, "n", NULL);
    tn_tensor *l = tn__safe_tensor(s, "lazy", NULL), *e = tn__safe_tensor(s, "none", NULL);
    const char *key, *value;
    tn__safe_meta_at(s, 0, &key, &value);
    ck_assert_str_eq(value, "3");
    tn__safe_unref(s); /* tensors hold the file */
    remove(path);
    WORKS(tn_data(b, out, sizeof out));
    ck_assert_mem_eq(out, w, sizeof out);
    ck_assert(tn_ndim(b) == 2 && tn_dim(b, 1) == 3);
    WORKS(tn_data(n, &i, sizeof i));
    ck_assert(i == INT64_MIN && tn_ndim(n) == 0);
    WORKS(tn_data(l, out, sizeof out));
    ck_assert(out[2] == 7 && out[5] == 12);
    ck_assert(tn_dtype_of(e) == TN_F16 && tn_numel(e) == 0);
}
END_TEST

START_TEST(writes_to_a_loaded_tensor_do_not_reach_the_file)
{
    TN_SCOPE;
    static const float w[4] = {1, 2, 3, 4}, x[4] = {9, 9, 9, 9};
    float out[4];
    const char *path = io_path("w.safetensors");
    WORKS(tn__safe_save(path, (tn__named[]){{"a", vec(w, 4)}}, 1, NULL));
    for (int round = 0; round < 2; round++) {
        tn__safe *s = tn__safe_open(path);
        WORKS(s);
        tn_tensor *a = tn__safe_tensor(s, "a", NULL);
        tn__safe_unref(s);
        WORKS(tn_data(a, out, sizeof out));
        ck_assert_mem_eq(out, w, sizeof w);
        tn_assign(a, vec(x, 4));
        WORKS(tn_data(a, out, sizeof out));
        ck_assert_mem_eq(out, x, sizeof x);
    }
}
END_TEST

START_TEST(the_reference_file_becomes_tensors_and_its_f8_is_refused_on_use)
{
    TN_SCOPE;
    float f[3];
    tn__safe *s = tn__safe_open(TEST_SOURCE_DIR "/tests/io/other.bin");
    WORKS(s);
    WORKS(tn_data(tn__safe_tensor(s, "f32", NULL), f, sizeof f));
    ck_assert(f[0] == 0.1f && f[2] == 3e38f);
    ck_assert(tn_dtype_of(tn__safe_tensor(s, "bf16", NULL)) == TN_BF16);
    ck_assert(tn_bad(tn__safe_tensor(s, "f8", NULL)));
    EXPECT(TN_EUNSUPPORTED, "tensor \"f8\" is F8_E4M3");
    ck_assert(tn_bad(tn__safe_tensor(s, "nope", NULL)));
    EXPECT(TN_EVALUE, "no tensor \"nope\"");
    tn__safe_unref(s);
    FAILS(tn__safe_save(io_path("x"), (tn__named[]){{"a", NULL}}, 1, NULL), TN_ENULL, "");
    ck_assert_uint_eq(io_files(), 0);
}
END_TEST

START_TEST(each_failing_allocation_of_saving_and_loading_tensors_is_a_clean_error)
{
    static const float w[4] = {1, 2, 3, 4};
    float out[4];
    {
        TN_SCOPE; /* once without failures: caches and devices are there */
        WORKS(tn__safe_save(io_path("s"), (tn__named[]){{"a", vec(w, 4)}}, 1, NULL));
    }
    int failures = 0;
    for (uint64_t n = 1;; n++) {
        ck_assert_uint_lt(n, 500);
        TN_SCOPE;
        tn_tensor *a = vec(w, 4);
        tn__alloc_fail_at(n);
        bool ok = tn__safe_save(io_path("s"), (tn__named[]){{"a", a}}, 1, NULL);
        tn__safe *s = ok ? tn__safe_open(io_path("s")) : NULL;
        ok = s && tn_data(tn__safe_tensor(s, "a", NULL), out, sizeof out);
        tn__safe_unref(s);
        tn__alloc_fail_at(0);
        if (ok) break;
        failures++;
        EXPECT(TN_ENOMEM, "");
    }
    ck_assert_int_gt(failures, 10);
}
END_TEST
#endif

START_TEST(idx_files_become_tensors)
{
    TN_SCOPE;
    static const unsigned char file[] = {0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 2, 1, 2, 3, 250};
    unsigned char out[4];
    io_write(io_path("x"), file, sizeof file);
    tn_tensor *t = tn_idx_load(io_path("x"), NULL);
    WORKS(tn_data(t, out, 4));
    ck_assert_mem_eq(out, "\1\2\3\372", 4);
    ck_assert(tn_ndim(t) == 2 && tn_dtype_of(t) == TN_U8);
    ck_assert(tn_bad(tn_idx_load(io_path("absent"), NULL)));
    EXPECT(TN_EIO, "absent: open");
    ck_assert(tn_bad(tn_idx_load(NULL, NULL)));
    EXPECT(TN_ENULL, "path is NULL");
}
END_TEST

#ifdef TN_HAVE_CURL
START_TEST(a_download_becomes_a_tensor)
{
    TN_SCOPE;
    httpd_page pages[] = {{.path = "/abc", .body = "abc", .n = 3}, {0}};
    char url[64], out[3];
    setenv("TENON_CACHE", io_folder(), 1);
    const int port = httpd_start(pages);
    snprintf(url, sizeof url, "http://127.0.0.1:%d/abc", port);
    tn_tensor *t = tn_from_url(url);
    WORKS(tn_data(t, out, 3));
    ck_assert_mem_eq(out, "abc", 3);
    ck_assert(tn_dtype_of(t) == TN_U8 && tn_dim(t, 0) == 3);
    strcat(url, "d");
    ck_assert(tn_bad(tn_from_url(url)));
    EXPECT(TN_EIO, "abcd: The requested URL returned error: 404");
    httpd_stop();
}
END_TEST
#endif

Suite *suite_safe(void)
{
    Suite *s = suite_create("safe");
    TCase *t = tcase_create("safe");
    tcase_add_checked_fixture(t, io_setup, io_teardown_loose);
    tcase_set_timeout(t, 120);
#ifdef TN_HAVE_JANSSON
    tcase_add_test(t, tensors_are_saved_and_loaded_bit_by_bit);
    tcase_add_test(t, writes_to_a_loaded_tensor_do_not_reach_the_file);
    tcase_add_test(t, the_reference_file_becomes_tensors_and_its_f8_is_refused_on_use);
    tcase_add_test(t, each_failing_allocation_of_saving_and_loading_tensors_is_a_clean_error);
#endif
    tcase_add_test(t, idx_files_become_tensors);
#ifdef TN_HAVE_CURL
    tcase_add_test(t, a_download_becomes_a_tensor);
#endif
    suite_add_tcase(s, t);
    return s;
}
