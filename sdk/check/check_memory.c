/* SPDX-License-Identifier: MIT */
/* Checks 16 to 23: buffers and copies. */
#define _GNU_SOURCE
#include "check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void sizes(void)
{
    static const size_t n[] = {1, 2, 3, 63, 64, 65, 4095, 4096, 4097, 65536, 1 << 20, 64 << 20};
    need_dev();
    for (size_t i = 0; i < LEN(n); i++)
        for (uint64_t align = 1; align <= 256; align *= 16) {
            tnp_buf *b = NULL;
            const tnp_alloc a = {.size = sizeof a, .bytes = n[i], .align = align};
            worked(ops->buf_alloc(dev, &a, &b, fresh()), "buf_alloc");
            NEED(b, "no buffer of %zu bytes", n[i]);
            uint64_t va = 0;
            if (caps.flags & TNP_F_VADDR) {
                worked(ops->buf_addr(dev, b, &va, fresh()), "buf_addr");
                NEED(va && va % align == 0 && va % caps.buf_align == 0,
                     "%zu bytes aligned to %llu lie at %#llx", n[i], (unsigned long long)align,
                     (unsigned long long)va);
            }
            put(b, 0, "x", 1);
            put(b, n[i] - 1, "y", 1);
            char c[2] = "";
            get(b, n[i] - 1, c, 1);
            NEED(c[0] == 'y', "the last of %zu bytes is lost", n[i]);
            ops->buf_free(dev, b);
        }
    tnp_buf *b = NULL;
    const tnp_alloc odd = {.size = sizeof odd, .bytes = 64, .flags = 1u << 30};
    refused(ops->buf_alloc(dev, &odd, &b, fresh()), TNP_E_UNSUPPORTED, "unknown memory flags");
    ops->buf_free(dev, NULL);
}

static void absurd(void)
{
    need_dev();
    static const uint64_t n[] = {UINT64_C(1) << 62, UINT64_MAX, UINT64_MAX - 63, UINT64_C(1) << 52};
    for (size_t i = 0; i < LEN(n); i++) {
        tnp_buf *b = NULL;
        const tnp_alloc a = {.size = sizeof a, .bytes = n[i]};
        refused(ops->buf_alloc(dev, &a, &b, fresh()), TNP_E_OOM, "a buffer of an absurd size");
        ops->buf_free(dev, buf_new(4096, 0));
    }
}

static void offsets(void)
{
    need_dev();
    enum { N = 512 };
    unsigned char in[N], out[N], pad[N], want[N];
    tnp_buf *b = buf_new(N, 0);
    for (int i = 0; i < N; i++) in[i] = (unsigned char)(i * 7 + 1);
    memset(pad, 0xee, N);
    for (size_t off = 0; off < 64; off++)
        for (size_t n = 1; n <= 128; n = n * 2 + 1) {
            put(b, 0, pad, N);
            put(b, off, in, n);
            memset(out, 0, N);
            get(b, 0, out, N);
            memcpy(want, pad, N);
            memcpy(want + off, in, n);
            NEED(!memcmp(out, want, N), "%zu bytes at offset %zu do not come back, or touch others",
                 n, off);
            memset(out, 0x33, N);
            get(b, off, out + 1, n);
            NEED(!memcmp(out + 1, in, n) && out[0] == 0x33 && out[n + 1] == 0x33,
                 "a copy out of %zu bytes at offset %zu is wrong", n, off);
        }
    worked(ops->copy_in(dev, queue, (tnp_ref){b, 0, 0}, in, signal_next(), fresh()),
           "a copy of no byte");
    settle();
    NEED(ops->copy_in(dev, queue, (tnp_ref){b, N - 4, 8}, in, NULL, fresh()) == TNP_E_ARG,
         "a copy over the end of a buffer is not refused with ARG");
}

static void zeroed(void)
{
    need_dev();
    static const size_t sizes_of[] = {100, 4096, 1 << 20};
    for (size_t k = 0; k < LEN(sizes_of); k++) {
        const size_t n = sizes_of[k];
        char *junk = malloc(n), *out = malloc(n);
        NEED(junk && out, "no memory");
        memset(junk, 0x5a, n);
        for (int i = 0; i < 8; i++) {
            tnp_buf *b = buf_new(n, 0);
            put(b, 0, junk, n);
            ops->buf_free(dev, b);
            b = buf_new(n, TNP_MEM_ZERO);
            get(b, 0, out, n);
            for (size_t j = 0; j < n; j++)
                NEED(!out[j], "byte %zu of zeroed memory is %d", j, out[j]);
            ops->buf_free(dev, b);
        }
        free(junk), free(out);
    }
}

static void source_is_free(void)
{
    need_dev();
    enum {
        BIG = 4 << 20,
        SMALL = 4 << 10
    }; /* a small one is overwritten before a thread has woken */
    char *src = malloc(BIG), *out = malloc(BIG);
    NEED(src && out, "no memory");
    tnp_buf *b = buf_new(BIG, 0);
    for (int round = 0; round < 44; round++) {
        const size_t n = round < 4 ? BIG : SMALL;
        memset(src, 'A' + round, n);
        worked(ops->copy_in(dev, queue, (tnp_ref){b, 0, n}, src, signal_next(), fresh()),
               "copy_in");
        memset(src, '!', n); /* at once */
        settle();
        get(b, 0, out, n);
        for (size_t i = 0; i < n; i++)
            NEED(out[i] == 'A' + round, "byte %zu was read after copy_in had returned", i);
    }
}

static void device_copies(void)
{
    need_dev();
    enum { N = 1000 };
    unsigned char in[N], out[N], want[N];
    for (int i = 0; i < N; i++) in[i] = (unsigned char)(i % 251);
    tnp_buf *a = buf_new(N, 0), *b = buf_new(N, 0);
    put(a, 0, in, N);
    worked(ops->copy(dev, queue, (tnp_ref){b, 0, N}, (tnp_ref){a, 0, N}, signal_next(), fresh()),
           "copy");
    settle();
    get(b, 0, out, N);
    NEED(!memcmp(in, out, N), "a copy on the device loses bytes");
    worked(
        ops->copy(dev, queue, (tnp_ref){b, 17, 100}, (tnp_ref){a, 5, 100}, signal_next(), fresh()),
        "copy");
    settle();
    get(b, 0, out, N);
    memcpy(want, in, N);
    memcpy(want + 17, in + 5, 100);
    NEED(!memcmp(want, out, N), "a copy at odd offsets is wrong");
    NEED(ops->copy(dev, queue, (tnp_ref){b, 0, 10}, (tnp_ref){a, 0, 11}, NULL, fresh()) ==
             TNP_E_ARG,
         "a copy of 11 bytes to 10 is not refused with ARG");
    for (int up = 0; up < 2; up++) { /* overlapping: right, or refused */
        put(a, 0, in, N);
        const tnp_rc rc = ops->copy(dev, queue, (tnp_ref){a, up ? 50 : 0, 500},
                                    (tnp_ref){a, up ? 0 : 50, 500}, signal_next(), fresh());
        if (rc < 0) {
            refused(rc, TNP_E_ARG, "an overlapping copy");
            sem_value--;
            continue;
        }
        settle();
        get(a, 0, out, N);
        memcpy(want, in, N);
        memmove(want + (up ? 50 : 0), in + (up ? 0 : 50), 500);
        NEED(!memcmp(want, out, N), "an overlapping copy is wrong: do it right or refuse it");
    }
    for (uint32_t w = 1; w <= 8 && !(caps.flags & TNP_F_NOEXEC); w *= 2) { /* fills */
        const uint64_t pattern = UINT64_C(0x8877665544332211);
        put(b, 0, in, N);
        worked(ops->fill(dev, queue, (tnp_ref){b, 8, 160}, pattern, w, signal_next(), fresh()),
               "fill");
        settle();
        get(b, 0, out, N);
        for (size_t i = 0; i < 160; i++)
            NEED(out[8 + i] == (unsigned char)(pattern >> 8 * (i % w)),
                 "byte %zu of a fill of width %u", i, w);
        NEED(out[7] == in[7] && out[168] == in[168], "a fill touches its neighbours");
    }
    NEED(ops->fill(dev, queue, (tnp_ref){b, 0, 12}, 0, 3, NULL, fresh()) == TNP_E_ARG,
         "a fill of width 3 is not refused with ARG");
}

static void map_and_wrap(void)
{
    need_dev();
    bool any = false;
    if (caps.flags & TNP_F_MAP) {
        tnp_buf *b = buf_new(256, 0);
        void *p = NULL;
        put(b, 0, "through the map", 16);
        worked(ops->buf_map(dev, b, &p, fresh()), "buf_map");
        NEED(p && !memcmp(p, "through the map", 16), "mapped memory has other contents");
        memcpy(p, "and back", 9);
        char out[9];
        get(b, 0, out, 9);
        NEED(!memcmp(out, "and back", 9), "a write through the map is lost");
        ops->buf_free(dev, b);
        any = true;
    }
    static _Alignas(4096) char mine[8192];
    tnp_buf *b = NULL;
    const tnp_alloc a = {.size = sizeof a, .bytes = sizeof mine, .host_ptr = mine};
    memset(mine, 'm', sizeof mine);
    if (caps.flags & TNP_F_HOSTPTR) {
        char out[8];
        worked(ops->buf_alloc(dev, &a, &b, fresh()), "wrapping host memory");
        get(b, 100, out, 8);
        NEED(!memcmp(out, "mmmmmmmm", 8), "wrapped memory has other contents");
        put(b, 100, "written", 8);
        if (caps.flags & TNP_F_UNIFIED)
            NEED(!memcmp(mine + 100, "written", 8), "a write to wrapped memory does not arrive");
        ops->buf_free(dev, b);
        NEED(mine[0] == 'm', "freeing the wrapper damages the memory");
        any = true;
    } else
        refused(ops->buf_alloc(dev, &a, &b, fresh()), TNP_E_UNSUPPORTED,
                "host_ptr without TNP_F_HOSTPTR");
    if (!any) note("neither TNP_F_MAP nor TNP_F_HOSTPTR");
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (f && fscanf(f, "%*d %ld", &pages) != 1) pages = 0;
    if (f) fclose(f);
    return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

static void churn(void)
{
    need_dev();
    tnp_buf *b[16] = {NULL};
    const int n = 100000;
    int64_t live = 0;
    long before = 0;
    for (int i = 0; i < n; i++) {
        const int k = i % 16;
        if (i == n / 10) before = resident_kib();
        if (b[k]) ops->buf_free(dev, b[k]);
        b[k] = buf_new((size_t)(i * 37 % 5000 + 1), 0);
        if (i == 16) live = host_live;
    }
    NEED(host_live <= live + 16, "%lld blocks of the host after %d buffers, %lld after 16",
         (long long)host_live, n, (long long)live);
    for (int k = 0; k < 16; k++) ops->buf_free(dev, b[k]);
    const long grown = resident_kib() - before;
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
    NEED(grown < 8192, "%d buffers made and freed leave %ld KiB", n, grown);
#endif
    note("%ld KiB more after %d buffers", grown, n);
    close_dev();
    root->fini();
    host_closed = true;
    NEED(host_live == 0, "%lld blocks of the host's allocator are left at the end",
         (long long)host_live);
}

const check_row memory_checks[] = {
    {16, "memory", "buffers of 1 byte to 64 MiB, aligned as asked", sizes, 0},
    {17, "memory", "an absurd size is OOM, and a small one works afterwards", absurd, 0},
    {18, "memory", "bytes at every offset come back, their neighbours untouched", offsets, 40},
    {19, "memory", "TNP_MEM_ZERO is zero, after reuse too", zeroed, 0},
    {20, "memory", "the source of copy_in may be overwritten at once", source_is_free, 0},
    {21, "memory", "copies and fills on the device; overlaps are right or refused", device_copies,
     0},
    {22, "memory", "mapping and wrapping as declared", map_and_wrap, 0},
    {23, "memory", "100,000 buffers leave nothing", churn, 60},
    {0}};
