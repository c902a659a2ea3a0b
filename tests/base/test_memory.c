/* SPDX-License-Identifier: MIT */
/* Allocation with its counters, hooks and failures; arenas, buffers, hashes, the bounded map. */
#include "base/base.h"
#include "test.h"
#include <stdlib.h>
#include <string.h>

static size_t blocks0, bytes0;

static void start(void)
{
    tn_clear_error();
    blocks0 = tn__live_blocks();
    bytes0 = tn__live_bytes();
}

static void end(void)
{
    tn__alloc_fail_at(0);
    ck_assert(tn_ok());
    ck_assert_uint_eq(tn__live_blocks(), blocks0);
    ck_assert_uint_eq(tn__live_bytes(), bytes0);
}

static void assert_nomem(void)
{
    ck_assert_ptr_nonnull(tn_last_error());
    ck_assert_int_eq(tn_last_error()->code, TN_ENOMEM);
    tn_clear_error();
}

START_TEST(live_bytes_are_exact)
{
    char *p = tn__alloc(100), *q = tn__calloc(10, 7), *z = tn__alloc(0), *z2 = tn__alloc(0);
    ck_assert(z && z2 && z != z2);
    ck_assert_uint_eq((uintptr_t)p % 16, 0);
    for (int i = 0; i < 70; i++) ck_assert_int_eq(q[i], 0);
    ck_assert_uint_eq(tn__live_bytes() - bytes0, 170);
    ck_assert_uint_eq(tn__live_blocks() - blocks0, 4);
    memset(p, 7, 100);
    p = tn__realloc(p, 5000);
    ck_assert_int_eq(p[99], 7);
    ck_assert_uint_eq(tn__live_bytes() - bytes0, 5070);
    p = tn__realloc(p, 10);
    ck_assert_uint_eq(tn__live_bytes() - bytes0, 80);
    char *s = tn__strdup("tenon"), *t = tn__strndup("tenon", 3), *f = tn__format("%d-%s", 12, "ab");
    ck_assert_str_eq(s, "tenon");
    ck_assert_str_eq(t, "ten");
    ck_assert_str_eq(f, "12-ab");
    void *all[] = {p, q, z, z2, s, t, f, NULL};
    for (size_t i = 0; i < TN_LEN(all); i++) tn__free(all[i]);
}
END_TEST

START_TEST(the_asked_allocation_fails_and_no_other)
{
    uint64_t before = tn__alloc_count();
    tn__alloc_fail_at(3);
    void *a = tn__alloc(8), *b = tn__alloc(8);
    ck_assert(a && b && tn_ok());
    ck_assert_ptr_null(tn__alloc(8));
    assert_nomem();
    void *d = tn__alloc(8);
    ck_assert_ptr_nonnull(d);
    ck_assert_uint_eq(tn__alloc_count() - before, 4);
    tn__alloc_fail_at(1);
    ck_assert_ptr_null(tn__realloc(d, 64));
    assert_nomem();
    memset(d, 1, 8); /* d stays */
    tn__free(a);
    tn__free(b);
    tn__free(d);
}
END_TEST

START_TEST(sizes_that_overflow_are_refused)
{
    ck_assert_ptr_null(tn__alloc(SIZE_MAX));
    assert_nomem();
    ck_assert_ptr_null(tn__calloc(SIZE_MAX / 2, 3));
    assert_nomem();
    tn__arena a = {0};
    ck_assert_ptr_null(tn__arena_alloc(&a, SIZE_MAX - 3));
    assert_nomem();
    tn__arena_free(&a);
    tn__buf b = {0};
    ck_assert_ptr_null(tn__buf_grow(&b, SIZE_MAX - 3));
    assert_nomem();
    ck_assert(!tn__buf_put(&b, "x", 1)); /* stays failed, says it once */
    ck_assert(tn_ok());
    tn__buf_free(&b);
}
END_TEST

static int hook_calls;
static void *hook_alloc(void *user, size_t n)
{
    hook_calls++;
    *(size_t *)user += n;
    return malloc(n);
}
static void *hook_resize(void *user, void *p, size_t n)
{
    (void)user;
    hook_calls++;
    return realloc(p, n);
}
static void hook_release(void *user, void *p)
{
    (void)user;
    hook_calls++;
    free(p);
}

START_TEST(the_hosts_allocator_is_used)
{
    size_t asked = 0;
    tn_allocator mine = {hook_alloc, hook_resize, hook_release, &asked};
    tn_set_allocator(&mine);
    void *p = tn__alloc(40);
    p = tn__realloc(p, 80);
    tn__free(p);
    ck_assert_int_eq(hook_calls, 3);
    ck_assert_uint_ge(asked, 40);
    mine.resize = NULL;
    tn_set_allocator(&mine);
    ck_assert_int_eq(tn_last_error()->code, TN_ENULL);
    tn_clear_error();
    tn_set_allocator(NULL);
    p = tn__alloc(4);
    ck_assert_int_eq(hook_calls, 3);
    tn__free(p);
}
END_TEST

START_TEST(arena_pieces_are_aligned_and_disjoint)
{
    tn__arena a = {0};
    unsigned char *piece[600];
    size_t size[600];
    for (size_t i = 0; i < 600; i++) {
        size[i] = i * 37 % 1999;
        piece[i] = tn__arena_alloc(&a, size[i]);
        test_eq((uintptr_t)piece[i] % 16, 0);
        memset(piece[i], (int)(i & 255), size[i]);
    }
    for (size_t i = 0; i < 600; i++)
        for (size_t k = 0; k < size[i]; k++) test_eq(piece[i][k], i & 255);
    char *z = tn__arena_zero(&a, 3000000);
    for (size_t k = 0; k < 3000000; k++) test_that(z[k] == 0);
    ck_assert_str_eq(tn__arena_format(&a, "%s %d", "n", 5), "n 5");
    tn__arena_free(&a);
    ck_assert_ptr_null(a.top);
}
END_TEST

START_TEST(a_mark_gives_back_what_came_after_it)
{
    tn__arena a = {0};
    char *keep = tn__arena_alloc(&a, 100);
    memset(keep, 1, 100);
    tn__mark m = tn__arena_mark(&a);
    size_t live = tn__live_bytes();
    char *first = tn__arena_alloc(&a, 48);
    for (int i = 0; i < 100; i++) test_that(tn__arena_alloc(&a, 5000));
    tn__arena_reset(&a, m);
    test_eq(tn__live_bytes(), live);
    test_eq(tn__arena_alloc(&a, 48), first);
    for (int i = 0; i < 100; i++) test_eq(keep[i], 1);
    tn__arena_free(&a);
}
END_TEST

START_TEST(an_arena_reset_in_a_loop_stops_allocating)
{
    tn__arena a = {0};
    uint64_t after_two = 0;
    for (int round = 0; round < 50; round++) {
        for (int i = 0; i < 100; i++) test_that(tn__arena_alloc(&a, 777));
        tn__arena_reset(&a, (tn__mark){0});
        if (round == 5) after_two = tn__alloc_count();
    }
    test_eq(tn__alloc_count(), after_two);
    tn__arena_free(&a);
}
END_TEST

/* What every user of arenas and buffers does; true when nothing was refused. */
static bool build_something(void)
{
    tn__arena a = {0};
    tn__buf b = {0};
    tn__lru *l = tn__lru_new(4, NULL);
    for (uint64_t i = 0; i < 40 && l; i++) {
        char *s = tn__arena_format(&a, "entry %d", (int)i);
        tn__arena_zero(&a, 900);
        tn__buf_printf(&b, "%s;", s ? s : "?");
        tn__buf_grow(&b, 200);
        if (!tn__lru_put(l, (tn__hash){i, i}, &a)) break;
    }
    bool ok = l && !a.failed && !b.failed && tn_ok();
    if (a.failed) ck_assert_ptr_null(tn__arena_alloc(&a, 1));
    tn__arena_free(&a);
    tn__buf_free(&b);
    tn__lru_free(l);
    return ok;
}

START_TEST(every_refused_allocation_is_reported_and_leaks_nothing)
{
    uint64_t before = tn__alloc_count();
    test_that(build_something());
    uint64_t n = tn__alloc_count() - before;
    ck_assert_uint_ge(n, 40);
    for (uint64_t i = 1; i <= n; i++) {
        tn__alloc_fail_at(i);
        ck_assert_msg(!build_something(), "refusing allocation %d went unnoticed", (int)i);
        assert_nomem();
        test_eq(tn__live_blocks(), blocks0);
    }
    tn__alloc_fail_at(n + 1);
    test_that(build_something());
}
END_TEST

START_TEST(a_buffer_grows_and_ends_with_nul)
{
    tn__buf b = {0};
    for (int i = 0; i < 1000; i++) ck_assert(tn__buf_printf(&b, "%03d,", i));
    ck_assert_uint_eq(b.len, 4000);
    ck_assert_uint_eq(strlen(b.data), 4000);
    ck_assert_int_eq(memcmp(b.data + 4 * 999, "999,", 5), 0);
    ck_assert(tn__buf_put(&b, "\0x", 2));
    ck_assert_int_eq(b.data[4001], 'x');
    char *g = tn__buf_grow(&b, 300);
    for (int i = 0; i <= 300; i++) ck_assert_int_eq(g[i], 0);
    ck_assert(tn__buf_put(&b, NULL, 0));
    tn__buf_free(&b);
    ck_assert_ptr_null(b.data);
}
END_TEST

typedef tn__hash hash_fn(const void *, size_t);

static int ones(uint64_t x)
{
    int n = 0;
    for (; x; x &= x - 1) n++;
    return n;
}

/* Flipping one bit of the input flips about half of the 128. */
static void check_avalanche(hash_fn *f)
{
    unsigned char in[64];
    for (size_t n = 1; n <= 64; n += 7) {
        for (size_t i = 0; i < n; i++) in[i] = (unsigned char)(i * 31 + n);
        tn__hash h = f(in, n);
        ck_assert(tn__hash_eq(h, f(in, n)));
        for (size_t bit = 0; bit < n * 8; bit++) {
            in[bit / 8] ^= (unsigned char)(1u << bit % 8);
            tn__hash g = f(in, n);
            in[bit / 8] ^= (unsigned char)(1u << bit % 8);
            int d = ones(h.lo ^ g.lo) + ones(h.hi ^ g.hi);
            ck_assert_msg(d > 30 && d < 98, "bit %d of %d bytes changes %d bits", (int)bit, (int)n,
                          d);
        }
    }
}

static int by_lo(const void *a, const void *b)
{
    uint64_t x = ((const tn__hash *)a)->lo, y = ((const tn__hash *)b)->lo;
    return x < y ? -1 : x > y;
}

/* Neither half of it collides over counters, zeros of every length and low-entropy words. */
static void check_collisions(hash_fn *f)
{
    enum { N = 60000 };
    static tn__hash h[N];
    static unsigned char zeros[N / 3];
    for (uint64_t i = 0; i < N; i++) {
        uint64_t w[2] = {i % 3 == 1 ? i : 0, i % 3 == 1 ? 0 : i << 40};
        h[i] = i % 3 == 0 ? f(zeros, i / 3) : f(w, sizeof w);
    }
    for (int half = 0; half < 2; half++) {
        qsort(h, N, sizeof *h, by_lo);
        for (size_t i = 1; i < N; i++) test_that(h[i].lo != h[i - 1].lo);
        for (size_t i = 0; i < N; i++) h[i].lo = h[i].hi;
    }
}

START_TEST(hashes_spread)
{
    hash_fn *const fs[] = {tn__hash_bytes, tn__hash_own};
    check_avalanche(fs[_i]);
    check_collisions(fs[_i]);
}
END_TEST

START_TEST(the_own_hash_stays_what_it_is) /* keys on disk depend on it */
{
    tn__hash b = tn__hash_own("tenon", 5);
    ck_assert_uint_eq(b.lo, 0x8bed1f332da8bb02u);
    ck_assert_uint_eq(b.hi, 0xed60cd182ae6161eu);
    ck_assert(!tn__hash_eq(tn__hash_own("", 0), b));
    ck_assert(!tn__hash_eq(tn__hash_own("tenon\0", 6), b));
}
END_TEST

static int dropped[64], ndropped;
static void note_drop(void *v) { dropped[ndropped++] = *(int *)v; }
static tn__hash key(int i)
{
    return (tn__hash){(uint64_t)i % 2, (uint64_t)i}; /* chains on purpose */
}

START_TEST(the_least_recently_used_goes_first)
{
    static int v[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};
    ndropped = 0;
    tn__lru *l = tn__lru_new(3, note_drop);
    for (int i = 0; i < 3; i++) ck_assert(tn__lru_put(l, key(i), &v[i]));
    ck_assert_ptr_eq(tn__lru_get(l, key(0)), &v[0]); /* order now 0 2 1 */
    ck_assert_ptr_null(tn__lru_get(l, key(7)));
    ck_assert(tn__lru_put(l, key(3), &v[3]));
    ck_assert_int_eq(ndropped, 1);
    ck_assert_int_eq(dropped[0], 1);
    ck_assert(tn__lru_put(l, key(2), &v[9])); /* replaced */
    ck_assert_int_eq(dropped[1], 2);
    ck_assert(tn__lru_put(l, key(2), &v[9])); /* the same: not dropped */
    ck_assert_int_eq(ndropped, 2);
    ck_assert_uint_eq(tn__lru_count(l), 3);
    tn__alloc_fail_at(1);
    ck_assert(!tn__lru_put(l, key(5), &v[5])); /* taken also when it fails */
    assert_nomem();
    ck_assert_int_eq(dropped[2], 5);
    tn__lru_free(l);
    ck_assert_int_eq(ndropped, 6);
}
END_TEST

START_TEST(a_map_of_no_room_keeps_nothing)
{
    static int v = 4;
    ndropped = 0;
    tn__lru *l = tn__lru_new(0, note_drop);
    ck_assert(tn__lru_put(l, key(1), &v));
    ck_assert_int_eq(ndropped, 1);
    ck_assert_ptr_null(tn__lru_get(l, key(1)));
    tn__lru_free(l);
}
END_TEST

Suite *suite_memory(void)
{
    Suite *s = suite_create("memory");
    TCase *t = tcase_create("memory");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, start, end);
    tcase_add_test(t, live_bytes_are_exact);
    tcase_add_test(t, the_asked_allocation_fails_and_no_other);
    tcase_add_test(t, sizes_that_overflow_are_refused);
    tcase_add_test(t, the_hosts_allocator_is_used);
    tcase_add_test(t, arena_pieces_are_aligned_and_disjoint);
    tcase_add_test(t, a_mark_gives_back_what_came_after_it);
    tcase_add_test(t, an_arena_reset_in_a_loop_stops_allocating);
    tcase_add_test(t, every_refused_allocation_is_reported_and_leaks_nothing);
    tcase_add_test(t, a_buffer_grows_and_ends_with_nul);
    tcase_add_loop_test(t, hashes_spread, 0, 2);
    tcase_add_test(t, the_own_hash_stays_what_it_is);
    tcase_add_test(t, the_least_recently_used_goes_first);
    tcase_add_test(t, a_map_of_no_room_keeps_nothing);
    suite_add_tcase(s, t);
    return s;
}
