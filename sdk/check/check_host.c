/* SPDX-License-Identifier: MIT */
/*
 * A host that counts: its allocator has a canary at both ends of every block and fails on demand, its log
 * keeps the lines, its cache is a list in memory.  All callbacks are [any].
 */
#define _GNU_SOURCE
#include "check.h"
#include <dirent.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

tnp_host host;
tnp_err err;
char err_text[600];
int64_t host_live, host_fail_at, host_count;
int host_logs;
bool host_no_drivers, host_bare, host_closed;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
enum { CANARY = 32 };
static const unsigned char mark = 0xc7;

enum { TEXT_CAP = sizeof err_text - 64 }; /* and a canary behind it */

tnp_err *fresh(void)
{
    memset(err_text, 0, TEXT_CAP);
    memset(err_text + TEXT_CAP, 0x5b, sizeof err_text - TEXT_CAP);
    err = (tnp_err){.size = sizeof err, .cap = TEXT_CAP, .msg = err_text};
    return &err;
}

static void check_text(const char *what)
{
    NEED(err.size == sizeof err && err.cap == TEXT_CAP && err.msg == err_text,
         "%s: the plugin changes size, cap or msg of the error record", what);
    NEED(memchr(err_text, 0, TEXT_CAP), "%s: the message has no end", what);
    for (size_t i = TEXT_CAP; i < sizeof err_text; i++)
        NEED(err_text[i] == 0x5b, "%s: the message is written behind its %d bytes", what, TEXT_CAP);
}

uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

void nap_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

int threads_now(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    if (!d) return -1;
    for (struct dirent *e; (e = readdir(d));) n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

void worked(tnp_rc rc, const char *what)
{
    check_text(what);
    if (rc < 0)
        fail("%s: rc %d: %s", what, rc, err_text[0] ? err_text : "and no message, which is a rule");
}

void refused(tnp_rc rc, tnp_rc want, const char *what)
{
    check_text(what);
    NEED(rc == want, "%s: rc %d, not %d%s%s", what, rc, want, err_text[0] ? ": " : "", err_text);
    NEED(strlen(err_text) >= 4, "%s: rc %d comes without a message", what, rc);
}

/* ---- the allocator ---- */

static void check_canary(const unsigned char *block)
{
    size_t n;
    memcpy(&n, block, sizeof n);
    for (int i = (int)sizeof n; i < CANARY; i++)
        if (block[i] != mark) fail("the plugin wrote before a block of the host's allocator");
    for (int i = 0; i < CANARY; i++)
        if (block[CANARY + n + (size_t)i] != mark)
            fail("the plugin wrote behind a block of %zu bytes of the host's allocator", n);
}

static void *host_realloc(void *ctx, void *p, size_t n)
{
    unsigned char *old = p ? (unsigned char *)p - CANARY : NULL;
    if (ctx != &host) fail("a host service is called with another ctx than the host's");
    if (host_closed) fail("a host service is called after fini");
    if (old) check_canary(old);
    if (!n) {
        pthread_mutex_lock(&lock);
        host_live -= p != NULL;
        pthread_mutex_unlock(&lock);
        free(old);
        return NULL;
    }
    pthread_mutex_lock(&lock);
    host_count++;
    const bool no = host_fail_at > 0 && --host_fail_at == 0;
    pthread_mutex_unlock(&lock);
    unsigned char *b = no ? NULL : realloc(old, n + 2 * CANARY);
    if (!b) return NULL;
    memset(b, mark, CANARY);
    memcpy(b, &n, sizeof n);
    memset(b + CANARY + n, mark, CANARY);
    pthread_mutex_lock(&lock);
    host_live += p == NULL;
    pthread_mutex_unlock(&lock);
    return b + CANARY;
}

/* ---- the other services ---- */

static void host_log(void *ctx, int32_t level, const char *msg)
{
    if (ctx != &host || host_closed) fail("log is called with another ctx, or after fini");
    if (level < 0 || level > 4) fail("log level %d: 0 to 4", level);
    if (!msg) fail("a log line is NULL");
    pthread_mutex_lock(&lock);
    host_logs++;
    pthread_mutex_unlock(&lock);
}

static const char *host_option(void *ctx, const char *key)
{
    (void)ctx;
    if (!key) fail("an option's key is NULL");
    return NULL;
}

static void say(tnp_err *e, const char *text)
{
    if (!e) return;
    e->rc = TNP_E_DRIVER;
    if (!e->msg || !e->cap) return;
    snprintf(e->msg, e->cap, "%s", text);
    e->len = (uint32_t)strlen(e->msg);
}

static void *host_lib_open(void *ctx, const char *const *names, tnp_err *e)
{
    char text[400] = "tried";
    (void)ctx;
    for (; *names; names++) {
        void *h = host_no_drivers ? NULL : dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (h) return h;
        const size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, " %s", *names);
    }
    say(e, text);
    return NULL;
}

static void *host_lib_sym(void *ctx, void *lib, const char *sym, tnp_err *e)
{
    (void)ctx;
    void *p = dlsym(lib, sym);
    if (!p) say(e, sym);
    return p;
}

typedef struct entry {
    struct entry *next;
    size_t nk, nv;
    char data[];
} entry;
static entry *cache;

static tnp_rc host_cache_get(void *ctx, const void *key, size_t n, tnp_blob *out)
{
    tnp_rc rc = TNP_E_NODEV;
    *out = (tnp_blob){0};
    pthread_mutex_lock(&lock);
    entry *e = cache;
    while (e && (e->nk != n || memcmp(e->data, key, n) != 0)) e = e->next;
    pthread_mutex_unlock(&lock); /* entries stay for ever */
    if (e && (out->data = host_realloc(ctx, NULL, e->nv + !e->nv))) {
        memcpy(out->data, e->data + e->nk, e->nv);
        out->len = e->nv;
        rc = TNP_OK;
    }
    return rc;
}

static tnp_rc host_cache_put(void *ctx, const void *key, size_t n, const void *v, size_t nv)
{
    (void)ctx;
    entry *e = malloc(sizeof *e + n + nv);
    if (!e) return TNP_E_NOMEM;
    e->nk = n;
    e->nv = nv;
    memcpy(e->data, key, n);
    memcpy(e->data + n, v, nv);
    pthread_mutex_lock(&lock);
    e->next = cache;
    cache = e;
    pthread_mutex_unlock(&lock);
    return TNP_OK;
}

static void host_span(void *ctx, const tnp_span *s)
{
    (void)ctx;
    if (s->size < sizeof *s || !s->name) fail("a span has size %u, or no name", s->size);
    if (s->end_ns < s->begin_ns) fail("a span ends before it begins");
}

void host_init(void)
{
    host_closed = false;
    host = (tnp_host){.size = sizeof host,
                      .minor = TNP_MINOR,
                      .version = "check",
                      .ctx = &host,
                      .realloc = host_realloc,
                      .log = host_log,
                      .option = host_option,
                      .lib_open = host_lib_open,
                      .lib_sym = host_lib_sym,
                      .cache_get = host_cache_get,
                      .cache_put = host_cache_put,
                      .span = host_bare ? NULL : host_span};
}
