/* SPDX-License-Identifier: MIT */
/*
 * Host memory: every byte that the library allocates passes here.
 *
 * Each block has a header of 16 bytes with its size, so that live bytes and blocks are exact with any
 * allocator of the host.  Counters are process-wide atomics; the failing allocator of the tests and the
 * count that drives it are per thread.  The hooks are set before the first other call, so are not locked.
 */
#include "base/base.h"
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef union {
    size_t size;
    max_align_t align;
    char room[16];
} head;

static void *std_alloc(void *user, size_t n)
{
    (void)user;
    return malloc(n);
}

static void *std_resize(void *user, void *p, size_t n)
{
    (void)user;
    return realloc(p, n);
}

static void std_release(void *user, void *p)
{
    (void)user;
    free(p);
}

static const tn_allocator standard = {std_alloc, std_resize, std_release, NULL};
static tn_allocator hooks = {std_alloc, std_resize, std_release, NULL};
static atomic_size_t live_bytes, live_blocks;
static _Thread_local uint64_t calls, fail_at;

void tn_set_allocator(const tn_allocator *a)
{
    if (a && (!a->alloc || !a->resize || !a->release)) {
        tn__fail(TN_ENULL, "tn_set_allocator: alloc, resize and release must all be given, or pass "
                           "NULL for malloc");
        return;
    }
    hooks = a ? *a : standard;
}

/* Counts an allocation; true when the test asked for this one to fail. */
static bool refused(void)
{
    calls++;
    return fail_at != 0 && --fail_at == 0;
}

void *tn__alloc(size_t n)
{
    head *h = NULL;
    if (!refused() && n <= SIZE_MAX / 2) h = hooks.alloc(hooks.user, n + sizeof *h);
    if (!h) {
        tn__fail_nomem();
        return NULL;
    }
    h->size = n;
    atomic_fetch_add_explicit(&live_bytes, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&live_blocks, 1, memory_order_relaxed);
    return h + 1;
}

void *tn__calloc(size_t n, size_t size)
{
    if (size && n > SIZE_MAX / 2 / size) {
        tn__fail_nomem();
        return NULL;
    }
    void *p = tn__alloc(n * size);
    if (p) memset(p, 0, n * size);
    return p;
}

void *tn__realloc(void *p, size_t n)
{
    if (!p) return tn__alloc(n);
    head *h = (head *)p - 1, *q = NULL;
    size_t old = h->size;
    if (!refused() && n <= SIZE_MAX / 2) q = hooks.resize(hooks.user, h, n + sizeof *h);
    if (!q) {
        tn__fail_nomem();
        return NULL;
    }
    q->size = n;
    atomic_fetch_add_explicit(&live_bytes, n - old,
                              memory_order_relaxed); /* wraps when it shrinks */
    return q + 1;
}

void tn__free(void *p)
{
    if (!p) return;
    head *h = (head *)p - 1;
    atomic_fetch_sub_explicit(&live_bytes, h->size, memory_order_relaxed);
    atomic_fetch_sub_explicit(&live_blocks, 1, memory_order_relaxed);
    hooks.release(hooks.user, h);
}

char *tn__strndup(const char *s, size_t n)
{
    size_t len = 0;
    while (len < n && s[len]) len++;
    char *p = tn__alloc(len + 1);
    if (!p) return NULL;
    memcpy(p, s, len);
    p[len] = '\0';
    return p;
}

char *tn__strdup(const char *s) { return tn__strndup(s, strlen(s)); }

char *tn__format(const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : tn__alloc((size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    if (n < 0)
        tn__fail(TN_EINTERNAL, "format: '%s' is not a format that the C library can print", fmt);
    va_end(again);
    va_end(ap);
    return p;
}

size_t tn__live_bytes(void) { return atomic_load_explicit(&live_bytes, memory_order_relaxed); }
size_t tn__live_blocks(void) { return atomic_load_explicit(&live_blocks, memory_order_relaxed); }
void tn__alloc_fail_at(uint64_t n) { fail_at = n; }
uint64_t tn__alloc_count(void) { return calls; }

uint64_t tn__now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}
