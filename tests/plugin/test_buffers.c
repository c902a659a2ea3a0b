/* SPDX-License-Identifier: MIT */
/* Buffers, their cache of freed blocks, copies between devices, borrowed memory, placements and values. */
#include "device/module.h"
#include "kernels.h"
#include <unistd.h>

static tn__device *cpu(void)
{
    tn__device *d = tn__device_get("CPU");
    OK(d);
    return d;
}

START_TEST(sizes_from_nothing_to_megabytes_round_trip_aligned)
{
    static const char *const specs[] = {"CPU", "NULL", "INTERP"};
    static const size_t sizes[] = {0,    1,    63,   64,    65,     127,    128,    129,
                                   1000, 4095, 4097, 65536, 262143, 262145, 9000001};
    for (size_t k = 0; k < TN_LEN(specs); k++) {
        tn__device *d = tn__device_get(specs[k]);
        OK(d);
        for (size_t i = 0; i < TN_LEN(sizes); i++) {
            size_t n = sizes[i];
            unsigned char *v = malloc(n + 1), *w = malloc(n + 1);
            for (size_t j = 0; j <= n; j++) v[j] = (unsigned char)(j * 31 + i), w[j] = 0xee;
            tn__buffer *b = tn__buffer_new(d, n);
            OK(b);
            ck_assert_uint_eq(tn__buffer_bytes(b), n);
            OK(tn__buffer_write(b, 0, v, n));
            OK(tn__buffer_read(w, b, 0, n));
            ck_assert_int_eq(memcmp(v, w, n), 0);
            ck_assert_uint_eq(w[n], 0xee);
            if (tn__buffer_map(b)) ck_assert_uint_eq((uintptr_t)tn__buffer_map(b) % 64, 0);
            tn__buffer_unref(b);
            free(v);
            free(w);
        }
    }
}
END_TEST

START_TEST(every_size_class_holds_what_it_is_asked_for_and_wastes_little)
{
    tn__device *d = cpu();
    for (size_t n = 1; n < 5000000; n += 1 + n / 7) {
        tn__buffer *b = tn__buffer_new(d, n);
        OK(b);
        ck_assert_uint_ge(d->in_use, n);
        ck_assert_uint_le(d->in_use, n + (n / 16 > 64 ? n / 16 : 64) + 64);
        memset(tn__buffer_map(b), 1, n);
        tn__buffer_unref(b);
        tn__device_trim(d);
        ck_assert_uint_eq(tn__device_cached(d), 0);
    }
}
END_TEST

START_TEST(a_freed_block_is_used_again_without_an_allocation)
{
    tn__device *d = cpu();
    tn__buffer *b = tn__buffer_new(d, 100000);
    void *p = tn__buffer_map(b);
    tn__buffer_unref(b);
    ck_assert_uint_ge(tn__device_cached(d), 100000);
    uint64_t before = tn__alloc_count();
    b = tn__buffer_new(d, 99999);
    ck_assert_uint_eq(tn__alloc_count(), before);
    ck_assert_ptr_eq(tn__buffer_map(b), p);
    ck_assert_uint_eq(tn__device_bytes(d), 99999);
    ck_assert_uint_eq(tn__device_cached(d), 0);
    tn__buffer_unref(b);
    tn__device_trim(d);
    ck_assert_uint_eq(tn__device_cached(d), 0);
    ck_assert_uint_eq(tn__device_bytes(d), 0);
}
END_TEST

START_TEST(the_cache_stays_near_the_most_that_was_live)
{
    tn__device *d = cpu();
    for (size_t n = 1 << 20; n < 80 << 20; n += 3 << 20) { /* every size another class */
        tn__buffer *b = tn__buffer_new(d, n);
        OK(b);
        tn__buffer_unref(b);
        ck_assert_uint_le(tn__device_cached(d), n + n / 16 + (33 << 20));
    }
}
END_TEST

START_TEST(out_of_memory_is_an_error_that_says_how_much_and_leaves_the_device_usable)
{
    tn__device *d = cpu();
    tn__buffer *b = tn__buffer_new(d, 1 << 20);
    tn__buffer_unref(b);
    ck_assert_ptr_null(tn__buffer_new(d, (size_t)1 << 45));
    ck_assert_uint_eq(tn__device_cached(d),
                      0); /* everything was given back before the second try */
    ck_assert_ptr_nonnull(strstr(error_text(), "free tensors, or compute in smaller parts"));
    SAYS(TN_EOOM, "CPU:0: a buffer of 35184372088832 bytes cannot be had (0 are in use)");
    ck_assert_ptr_null(tn__buffer_new(d, SIZE_MAX));
    SAYS(TN_EOOM, "cannot be had: no device has so much");
    OK(b = tn__buffer_new(d, 1 << 20));
    memset(tn__buffer_map(b), 1, 1 << 20);
    tn__buffer_unref(b);
}
END_TEST

START_TEST(every_failing_allocation_is_a_clean_error)
{
    tn__device *d = cpu();
    const tn__placement *place = tn__placement_one(d);
    OK(place);
    int failed = 0;
    for (uint64_t n = 1; n < 12; n++) {
        tn__device_trim(d);
        tn__alloc_fail_at(n);
        tn__value *v = tn__value_new(place, 5000);
        tn__alloc_fail_at(0);
        if (v) {
            ck_assert(tn_ok()); /* not reached, or the second try of the block */
            tn__value_unref(v);
            continue;
        }
        failed++;
        ck_assert_msg(tn_last_error()->code == TN_ENOMEM || tn_last_error()->code == TN_EOOM, "%s",
                      error_text());
        tn_clear_error();
        ck_assert_uint_eq(tn__device_bytes(d), 0);
    }
    ck_assert_int_ge(failed, 2);
}
END_TEST

START_TEST(a_build_survives_every_failing_allocation)
{
    setenv("CACHELEVEL", "0", 1);
    tn__context_reload();
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    tn__program *p[3];
    int failed = 0;
    for (uint64_t n = 1; n < 16; n++) {
        tn__alloc_fail_at(n);
        bool ok = tn__program_build(d, add_source, strlen(add_source), add_sigs, 3, p);
        tn__alloc_fail_at(0);
        if (ok) {
            ck_assert(tn_ok()); /* not reached, or done without */
            for (int k = 0; k < 3; k++) tn__program_unref(p[k]);
            continue;
        }
        failed++;
        ck_assert(!p[0] && !p[1] && !p[2]);
        ck_assert_msg(tn_last_error()->code == TN_ENOMEM, "%s", error_text());
        tn_clear_error();
    }
    ck_assert_int_ge(failed, 5);
    tn_shutdown();
    ck_assert_uint_eq(tn__live_bytes(), 0);
}
END_TEST

static int released;
static void release(void *user) { released += *(int *)user; }

START_TEST(borrowed_memory_is_used_in_place_and_released_once)
{
    static float v[64];
    int one = 1;
    tn__buffer *b = tn__buffer_wrap(cpu(), v, sizeof v, release, &one);
    OK(b);
    ck_assert(tn__buffer_borrowed(b));
    ck_assert_ptr_eq(tn__buffer_map(b), v);
    tn__buffer_ref(b);
    tn__buffer_unref(b);
    ck_assert_int_eq(released, 0);
    float x = 7;
    OK(tn__buffer_write(b, 12, &x, 4));
    ck_assert(v[3] == 7);
    tn__buffer_unref(b);
    ck_assert_int_eq(released, 1);
    ck_assert_uint_eq(tn__device_cached(cpu()), 0);
}
END_TEST

START_TEST(copies_go_between_any_two_devices)
{
    static const char *const specs[] = {"CPU", "CPU:1", "NULL", "INTERP"};
    enum { N = 9000007 };
    unsigned char *v = malloc(N), *w = malloc(N);
    for (size_t i = 0; i < N; i++) v[i] = (unsigned char)(i * 2654435761u >> 13);
    for (size_t a = 0; a < TN_LEN(specs); a++)
        for (size_t c = 0; c < TN_LEN(specs); c++) {
            tn__buffer *src = tn__buffer_new(tn__device_get(specs[a]), N),
                       *dst = tn__buffer_new(tn__device_get(specs[c]), N);
            OK(src && dst);
            memset(w, 0, N);
            OK(tn__buffer_write(src, 0, v, N));
            OK(tn__buffer_write(dst, 0, w, N));
            OK(tn__buffer_copy(dst, 5, src, 2, N - 11));
            OK(tn__buffer_read(w, dst, 0, N));
            ck_assert(!w[0] && !w[4] && !w[N - 1] && !w[N - 6]);
            ck_assert_int_eq(memcmp(w + 5, v + 2, N - 11), 0);
            tn__buffer_unref(src);
            tn__buffer_unref(dst);
        }
    free(v);
    free(w);
}
END_TEST

START_TEST(a_copy_out_of_range_is_an_error)
{
    char x[16] = {0};
    tn__buffer *b = tn__buffer_new(cpu(), 100);
    ck_assert(!tn__buffer_write(b, 90, x, 16));
    SAYS(TN_EINTERNAL, "write: bytes 90 to 106 of a buffer of 100");
    ck_assert(!tn__buffer_read(x, b, SIZE_MAX, 16));
    SAYS(TN_EINTERNAL, "read: bytes");
    ck_assert(!tn__buffer_copy(b, 0, b, 50, 51));
    SAYS(TN_EINTERNAL, "copy: bytes 50 to 101 of a buffer of 100");
    tn__buffer_unref(b);
}
END_TEST

START_TEST(placements_are_interned_and_values_hold_a_buffer_each)
{
    tn__device *d[2] = {tn__device_get("CPU:0"), tn__device_get("CPU:1")};
    OK(d[0] && d[1]);
    const tn__placement *p = tn__placement_get(d, 2, 0);
    ck_assert_ptr_eq(p, tn__placement_get(d, 2, 0));
    ck_assert_ptr_ne(p, tn__placement_get(d, 2, -1));
    ck_assert_ptr_ne(p, tn__placement_get((tn__device *[]){d[1], d[0]}, 2, 0));
    ck_assert_ptr_eq(tn__placement_one(d[1]), tn__placement_get(&d[1], 1, 3));
    ck_assert_ptr_null(tn__placement_get(d, 17, 0));
    SAYS(TN_EVALUE, "placement: 17 devices: 1 to 16 can be named");
    tn__value *v = tn__value_new(p, 4000);
    OK(v);
    ck_assert_ptr_eq(tn__buffer_device(v->buf[1]), d[1]);
    tn__value_ref(v);
    tn__value_unref(v);
    ck_assert_uint_eq(tn__device_bytes(d[1]), 4000);
    tn__value_unref(v);
    ck_assert_uint_eq(tn__device_bytes(d[1]), 0);
    v = tn__value_of(tn__buffer_new(d[0], 10));
    OK(v);
    ck_assert_ptr_eq(v->place, tn__placement_one(d[0]));
    tn__value_unref(v);
}
END_TEST

Suite *suite_buffers(void)
{
    Suite *s = suite_create("buffers");
    TCase *t = tcase_create("buffers");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, sizes_from_nothing_to_megabytes_round_trip_aligned);
    tcase_add_test(t, every_size_class_holds_what_it_is_asked_for_and_wastes_little);
    tcase_add_test(t, a_freed_block_is_used_again_without_an_allocation);
    tcase_add_test(t, the_cache_stays_near_the_most_that_was_live);
    tcase_add_test(t, out_of_memory_is_an_error_that_says_how_much_and_leaves_the_device_usable);
    tcase_add_test(t, every_failing_allocation_is_a_clean_error);
    tcase_add_test(t, a_build_survives_every_failing_allocation);
    tcase_add_test(t, borrowed_memory_is_used_in_place_and_released_once);
    tcase_add_test(t, copies_go_between_any_two_devices);
    tcase_add_test(t, a_copy_out_of_range_is_an_error);
    tcase_add_test(t, placements_are_interned_and_values_hold_a_buffer_each);
    suite_add_tcase(s, t);
    return s;
}
