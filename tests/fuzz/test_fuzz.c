/* SPDX-License-Identifier: MIT */
/*
 * The fuzz targets as plain tests: each over its corpus (tests/fuzz/fuzz_NAME/) and over mutations of it
 * from a fixed seed: 4,000 a target, 250,000 in the long run.  A failure is repeatable by its round.
 */
#include "base/base.h"
#include "test.h"
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef TN_HAVE_ZLIB
#include <zlib.h>
#endif

#define LLVMFuzzerTestOneInput fuzz_one_safetensors
#include "fuzz_safetensors.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_idx
#include "fuzz_idx.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_gz
#include "fuzz_gz.c"
#undef LLVMFuzzerTestOneInput
#define LLVMFuzzerTestOneInput fuzz_one_archive
#include "fuzz_archive.c"
#undef LLVMFuzzerTestOneInput

enum { ROOM = 1 << 16, MAX_SEEDS = 32 };
typedef int target(const uint8_t *p, size_t n);
typedef struct {
    unsigned char data[ROOM];
    size_t n;
} input;

static uint32_t state;
static uint32_t next(uint32_t below)
{
    state = state * 1664525u + 1013904223u;
    return below ? (state >> 8) % below : 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The files of the corpus in the order of their names. */
static int read_corpus(const char *name, input *seeds)
{
    char folder[512], path[1024], *names[MAX_SEEDS];
    int n = 0;
    struct dirent *e;
    snprintf(folder, sizeof folder, "%s/tests/fuzz/%s", TEST_SOURCE_DIR, name);
    DIR *d = opendir(folder);
    while (d && (e = readdir(d)) && n < MAX_SEEDS)
        if (e->d_name[0] != '.') names[n++] = strdup(e->d_name);
    if (d) closedir(d);
    qsort(names, (size_t)n, sizeof *names, by_name);
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        FILE *f = fopen(path, "rb");
        ck_assert_ptr_nonnull(f);
        seeds[i].n = fread(seeds[i].data, 1, ROOM / 2, f);
        fclose(f);
        free(names[i]);
    }
    return n;
}

/* One small change: a bit, a byte, a run removed or doubled, the end cut, a number made another. */
static void change(input *in)
{
    static const unsigned char odd[] = {0, 1, 0x7f, 0x80, 0xff, '"', '{', ']', '-', '9', '/', '.'};
    const size_t at = next((uint32_t)in->n), left = in->n - at;
    if (in->n == 0) return;
    switch (next(7)) {
    case 0: in->data[at] ^= (unsigned char)(1u << next(8)); break;
    case 1: in->data[at] = (unsigned char)next(256); break;
    case 2: in->data[at] = odd[next(sizeof odd)]; break;
    case 3: {
        const size_t k = 1 + next(left < 16 ? (uint32_t)left : 16u);
        const size_t cut = k > left ? left : k;
        memmove(in->data + at, in->data + at + cut, left - cut);
        in->n -= cut;
        break;
    }
    case 4: {
        const size_t k = 1 + next(16), more = k > left ? left : k;
        if (in->n + more > ROOM) break;
        memmove(in->data + at + more, in->data + at, left);
        in->n += more;
        break;
    }
    case 5:
        if (next(4) == 0) in->n = at;
        break;
    default: /* the next digit from here on */
        for (size_t i = at; i < in->n; i++)
            if (in->data[i] >= '0' && in->data[i] <= '9') {
                in->data[i] = (unsigned char)('0' + next(10));
                break;
            }
    }
}

/* Half of the time the length in front fits the changed header again, so that what follows is reached. */
static void mend_safetensors(input *in)
{
    if (in->n < 10 || next(2)) return;
    size_t end = in->n;
    while (end > 8 && in->data[end - 1] != '}') end--;
    const uint64_t len = end - 8;
    for (int i = 0; i < 8; i++) in->data[i] = (unsigned char)(len >> (8 * i));
}

/* The checksums of a tar's headers, as far as sizes lead from one to the next. */
static void mend_tar(input *in)
{
    for (size_t at = 0; at + 512 <= in->n && in->data[at];) {
        unsigned char *h = in->data + at;
        unsigned sum = 0;
        size_t size = 0;
        memset(h + 148, ' ', 8);
        for (int i = 0; i < 512; i++) sum += h[i];
        snprintf((char *)h + 148, 8, "%06o", sum);
        for (int i = 124; i < 135 && h[i] >= '0' && h[i] <= '7'; i++) size = size * 8 + h[i] - '0';
        at += 512 + (size < ROOM ? (size + 511) / 512 * 512 : 0);
    }
}

/* The checksum and length of a gz file's first member, where what is packed still unpacks. */
static void mend_gz(input *in)
{
#ifdef TN_HAVE_ZLIB
    static unsigned char out[1 << 20];
    size_t from = 10;
    if (in->n < 18 || in->data[0] != 0x1f || in->data[1] != 0x8b) return;
    if (in->data[3] & 8) /* a name */
        while (from < in->n && in->data[from++])
            ;
    z_stream z = {.next_in = in->data + from, .next_out = out, .avail_out = sizeof out};
    z.avail_in = (uInt)(in->n - from);
    if (inflateInit2(&z, -15) != Z_OK) return;
    if (inflate(&z, Z_FINISH) == Z_STREAM_END && z.avail_in >= 8) {
        const uint32_t crc = (uint32_t)crc32(0, out, (uInt)z.total_out),
                       len = (uint32_t)z.total_out;
        unsigned char *end = in->data + in->n - z.avail_in;
        for (int i = 0; i < 4; i++) {
            end[i] = (unsigned char)(crc >> (8 * i));
            end[4 + i] = (unsigned char)(len >> (8 * i));
        }
    }
    inflateEnd(&z);
#else
    (void)in;
#endif
}

/* Half of the time checksums fit again, so that what stands behind them is reached. */
static void mend_half_gz(input *in)
{
    if (next(2)) mend_gz(in);
}
static void mend_half_archive(input *in)
{
    if (next(2)) return;
    mend_gz(in);
    if (in->n > 512 && !memcmp(in->data + 257, "ustar", 5)) mend_tar(in);
}

static void run(const char *name, target *one, void (*mend)(input *))
{
    static input seeds[MAX_SEEDS], in;
    const int n = read_corpus(name, seeds);
    const size_t blocks = tn__live_blocks();
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < n; i++) ck_assert_int_eq(one(seeds[i].data, seeds[i].n), 0);
    state = 1;
    const int rounds = test_long() ? 250000 : 4000;
    for (int round = 0; round < rounds; round++) {
        in = seeds[next((uint32_t)n)];
        for (uint32_t k = 1 + next(4); k > 0; k--) change(&in);
        if (mend) mend(&in);
        one(in.data, in.n);
        ck_assert_msg(tn__live_blocks() == blocks, "round %d of %s leaks", round, name);
    }
    tn_clear_error();
}

START_TEST(changed_safetensors_files_do_no_harm)
{
    run("fuzz_safetensors", fuzz_one_safetensors, mend_safetensors);
}
END_TEST
START_TEST(changed_idx_files_do_no_harm) { run("fuzz_idx", fuzz_one_idx, NULL); }
END_TEST
START_TEST(changed_gz_files_do_no_harm) { run("fuzz_gz", fuzz_one_gz, mend_half_gz); }
END_TEST
START_TEST(changed_archives_do_no_harm)
{
    run("fuzz_archive", fuzz_one_archive, mend_half_archive);
}
END_TEST

Suite *suite_fuzz(void)
{
    Suite *s = suite_create("fuzz");
    TCase *t = tcase_create("fuzz");
    tcase_set_timeout(t, test_long() ? 1800 : 120);
    tcase_add_test(t, changed_safetensors_files_do_no_harm);
    tcase_add_test(t, changed_idx_files_do_no_harm);
    tcase_add_test(t, changed_gz_files_do_no_harm);
    tcase_add_test(t, changed_archives_do_no_harm);
    suite_add_tcase(s, t);
    return s;
}
