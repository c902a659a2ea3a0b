/* SPDX-License-Identifier: MIT */
/*
 * Arenas (chunks that double in size, freed whole) and the growing byte buffer.
 *
 * Invariants: pieces are 16-byte aligned; a mark names a chunk that is still in the list; a failed arena
 * answers NULL until it is emptied or freed, so that a long builder asks once at its end.
 * Emptying an arena keeps its largest chunk: a scratch arena that is reset in a loop stops allocating.
 */
#include "base/base.h"
#include <stdio.h>
#include <string.h>

enum { ALIGN = 16, FIRST = 4096, BIGGEST = 1 << 20 };

struct tn__chunk {
    tn__chunk *prev;
    size_t cap;
};
#define HEAD ((sizeof(tn__chunk) + ALIGN - 1) / ALIGN * ALIGN)

static char *bytes_of(tn__chunk *c) { return (char *)c + HEAD; }

static bool grow(tn__arena *a, size_t n)
{
    size_t cap = a->top ? a->cap * 2 : FIRST - HEAD;
    if (cap > BIGGEST) cap = BIGGEST;
    if (cap < n) cap = n;
    tn__chunk *c = cap > SIZE_MAX / 2 ? NULL : tn__alloc(HEAD + cap);
    if (!c) {
        if (cap > SIZE_MAX / 2) tn__fail_nomem();
        return false;
    }
    c->prev = a->top;
    c->cap = cap;
    a->top = c;
    a->cap = cap;
    a->used = 0;
    return true;
}

void *tn__arena_alloc(tn__arena *a, size_t n)
{
    if (a->failed) return NULL;
    if (n > SIZE_MAX / 2) {
        a->failed = true;
        tn__fail_nomem();
        return NULL;
    }
    n = n ? (n + ALIGN - 1) / ALIGN * ALIGN : ALIGN;
    if ((!a->top || a->cap - a->used < n) && !grow(a, n)) {
        a->failed = true;
        return NULL;
    }
    void *p = bytes_of(a->top) + a->used;
    a->used += n;
    return p;
}

void *tn__arena_zero(tn__arena *a, size_t n)
{
    void *p = tn__arena_alloc(a, n);
    if (p) memset(p, 0, n);
    return p;
}

char *tn__arena_format(tn__arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    char *p = n < 0 ? NULL : tn__arena_alloc(a, (size_t)n + 1);
    if (p) vsnprintf(p, (size_t)n + 1, fmt, again);
    if (n < 0)
        tn__fail(TN_EINTERNAL, "arena format: '%s' is not a format that the C library can print",
                 fmt);
    va_end(again);
    va_end(ap);
    return p;
}

tn__mark tn__arena_mark(const tn__arena *a) { return (tn__mark){a->top, a->used}; }

static void poison(tn__arena *a, size_t from)
{
#ifdef NDEBUG
    (void)a;
    (void)from;
#else
    if (a->top && a->used > from) memset(bytes_of(a->top) + from, 0xa5, a->used - from);
#endif
}

void tn__arena_reset(tn__arena *a, tn__mark m)
{
    tn__chunk *stop = m.chunk;
    if (!stop && a->top) { /* everything: keep the newest chunk, which is the largest */
        tn__chunk *c = a->top->prev;
        a->top->prev = NULL;
        while (c) {
            tn__chunk *prev = c->prev;
            tn__free(c);
            c = prev;
        }
    }
    while (stop && a->top != stop) {
        tn__chunk *prev = a->top->prev;
        TN_CHECK(prev);
        tn__free(a->top);
        a->top = prev;
        a->used = a->cap = prev->cap;
    }
    if (!stop) a->failed = false;
    poison(a, m.used);
    a->used = m.used;
}

void tn__arena_free(tn__arena *a)
{
    while (a->top) {
        tn__chunk *prev = a->top->prev;
        tn__free(a->top);
        a->top = prev;
    }
    *a = (tn__arena){0};
}

/* ---- growing byte buffer ---- */

static bool reserve(tn__buf *b, size_t n)
{
    if (b->failed) return false;
    if (n < SIZE_MAX / 4 && b->len + n + 1 <= b->cap) return true;
    size_t cap = b->cap ? b->cap : 64;
    while (n < SIZE_MAX / 4 && cap < b->len + n + 1) cap *= 2;
    char *p = n < SIZE_MAX / 4 ? tn__realloc(b->data, cap) : NULL;
    if (!p) {
        b->failed = true;
        return tn__fail_nomem();
    }
    b->data = p;
    b->cap = cap;
    return true;
}

void *tn__buf_grow(tn__buf *b, size_t n)
{
    if (!reserve(b, n)) return NULL;
    char *p = b->data + b->len;
    memset(p, 0, n + 1);
    b->len += n;
    return p;
}

bool tn__buf_put(tn__buf *b, const void *p, size_t n)
{
    if (!reserve(b, n)) return false;
    if (n) memcpy(b->data + b->len, p, n);
    b->len += n;
    b->data[b->len] = '\0';
    return true;
}

bool tn__buf_vprintf(tn__buf *b, const char *fmt, va_list ap)
{
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    bool ok = n < 0 ? tn__fail(TN_EINTERNAL,
                               "buffer format: '%s' is not a format that the C library can print",
                               fmt)
                    : reserve(b, (size_t)n);
    if (ok) {
        vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
        b->len += (size_t)n;
    }
    va_end(again);
    return ok;
}

bool tn__buf_printf(tn__buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    bool ok = tn__buf_vprintf(b, fmt, ap);
    va_end(ap);
    return ok;
}

void tn__buf_free(tn__buf *b)
{
    tn__free(b->data);
    *b = (tn__buf){0};
}
