/* SPDX-License-Identifier: MIT */
/*
 * What every plugin writes on its first day: error texts, memory of the host, a clock, capabilities for an
 * older host.  A helper of the SDK, compiled into the plugin; no part of the ABI.  C99 or C++11, POSIX.
 *
 * Under a strict -std=c99 or c11, define _DEFAULT_SOURCE before the first include.  Everything is static:
 * nothing is exported and several files may include it.
 */
#ifndef TENON_KIT_H
#define TENON_KIT_H
#if !defined(_GNU_SOURCE) && !defined(_DEFAULT_SOURCE)
#define _DEFAULT_SOURCE 1
#endif
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <tenon/plugin.h>
#include <time.h>
#ifndef CLOCK_MONOTONIC
#error "tenon/kit.h: define _DEFAULT_SOURCE before the first include, or compile as -std=gnu11"
#endif

#if defined(__GNUC__) || defined(__clang__)
#define TNK_PRINTF(f, a) __attribute__((format(printf, f, a)))
#else
#define TNK_PRINTF(f, a)
#endif

/* Fills the caller's error record and gives rc back: `return tnk_fail(e, TNP_E_ARG, 0, "X: ...")`.  Say what,
 * which object and its values; native is the driver's own code. */
static inline tnp_rc tnk_fail(tnp_err *e, tnp_rc rc, int64_t native, const char *fmt, ...)
    TNK_PRINTF(4, 5);
static inline tnp_rc tnk_fail(tnp_err *e, tnp_rc rc, int64_t native, const char *fmt, ...)
{
    va_list ap;
    int n;
    if (!e) return rc;
    e->rc = rc;
    e->native = native;
    e->len = 0;
    if (!e->msg || !e->cap) return rc;
    va_start(ap, fmt);
    n = vsnprintf(e->msg, e->cap, fmt, ap);
    va_end(ap);
    if (n > 0) e->len = (uint32_t)n < e->cap ? (uint32_t)n : e->cap - 1;
    return rc;
}

/* Zeroed memory of the host; NULL when there is none. */
static inline void *tnk_take(const tnp_host *h, size_t n)
{
    void *p = h->realloc(h->ctx, NULL, n ? n : 1);
    if (p) memset(p, 0, n ? n : 1);
    return p;
}

static inline void tnk_give(const tnp_host *h, void *p)
{
    if (p) h->realloc(h->ctx, p, 0);
}

/* Monotonic time. */
static inline uint64_t tnk_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Gives a host of any minor as much of `full` as it has room for. */
static inline tnp_rc tnk_caps_out(tnp_caps *out, const tnp_caps *full)
{
    const uint32_t n = out->size < sizeof *full ? out->size : (uint32_t)sizeof *full;
    memcpy(out, full, n);
    if (n >= sizeof out->size) out->size = n;
    return TNP_OK;
}
#endif
