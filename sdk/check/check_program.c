/* SPDX-License-Identifier: MIT */
/* Checks 24 to 29: compiling and loading. */
#define _GNU_SOURCE
#include "check.h"
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void sum_of(tnp_prog *p, const kern *k)
{
    enum { N = 100 };
    float a[N], b[N], out[N];
    for (int i = 0; i < N; i++) a[i] = (float)i, b[i] = (float)(3 * i + 1) / 8;
    tnp_buf *buf[3] = {buf_new(sizeof a, 0), buf_new(sizeof a, 0), buf_new(sizeof a, 0)};
    const size_t len[3] = {sizeof a, sizeof a, sizeof a};
    put(buf[1], 0, a, sizeof a);
    put(buf[2], 0, b, sizeof b);
    k_run(p, k, buf, len, NULL, N, 1, 1);
    get(buf[0], 0, out, sizeof out);
    for (int i = 0; i < N; i++)
        NEED(out[i] == a[i] + b[i], "add: element %d is %g, not %g", i, (double)out[i],
             (double)(a[i] + b[i]));
    for (int i = 0; i < 3; i++) ops->buf_free(dev, buf[i]);
}

static void adds_in_every_dialect(void)
{
    static kern k;
    need_dev();
    kern_add(&k, TNP_F32);
    int n = 0;
    for (const char *const *d = dialects(); *d; d++) {
        const char *why = k_cannot(&k, *d);
        if (why) {
            note("%s: %s", *d, why);
            continue;
        }
        bytes bin = {0}, log = {0};
        tnp_prog *p = NULL;
        fresh();
        worked(k_compile(&k, *d, k_source(&k, *d), &bin, &log), *d);
        NEED(bin.len, "%s: an empty binary", *d);
        worked(k_load_bin(&k, k_format(*d), bin, NULL, &p), *d);
        if (!(caps.flags & TNP_F_NOEXEC)) sum_of(p, &k);
        ops->prog_free(dev, p);
        n++;
    }
    NEED(n || !dialects()[0], "the add kernel cannot be written in any declared dialect");
    if (!n) skip("the device declares no dialect");
    ops->prog_free(dev, NULL);
}

static bool has_number(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (isdigit((unsigned char)s[i])) return true;
    return false;
}

static void syntax_error(void)
{
    static kern k;
    need_exec();
    kern_add(&k, TNP_F32);
    const char *d = usable_dialect(&k);
    if (!d) skip("no dialect that the checks can write");
    bytes src = k_source(&k, d), bin = {0}, log = {0};
    const bool rows = !strcmp(d, "linear");
    tnp_prog *p = NULL;
    if (rows) { /* the last row's source becomes a later row */
        tnl_row r;
        char *last = (char *)src.data + src.len - sizeof r;
        memcpy(&r, last, sizeof r);
        r.src[1] = 99;
        memcpy(last, &r, sizeof r);
    } else {
        char *brace = memrchr(src.data, '}', src.len);
        NEED(brace, "the source has no end");
        memcpy(brace, ")", 1);
    }
    tnp_rc rc = k_compile(&k, d, src, &bin, &log);
    if (rc == TNP_OK && !TNP_FN(root, tnp_plugin, compile))
        rc = k_load_bin(&k, k_format(d), src, NULL, &p);
    NEED(rc == TNP_E_COMPILE || (rows && rc == TNP_E_ARG),
         "a syntax error: rc %d (%s), not COMPILE", rc, err_text);
    NEED(err_text[0], "a syntax error comes without a message");
    NEED(has_number(err_text, strlen(err_text)) || has_number(log.data, log.len),
         "neither the message nor the log names a %s: %s", rows ? "row" : "line", err_text);
    p = k_load(&k); /* the device is still fine */
    sum_of(p, &k);
}

static bytes shared_source;
static const char *shared_dialect;
static kern shared;
static bytes results[8];

static void *compile_one(void *arg)
{
    bytes *out = arg;
    const tnp_rc rc = k_compile(&shared, shared_dialect, shared_source, out, NULL);
    if (rc < 0) fail("compile by several threads: rc %d: %s", rc, err_text);
    return NULL;
}

static void same_bytes(void)
{
    pthread_t t[8];
    need_init();
    if (!TNP_FN(root, tnp_plugin, compile)) skip("no compile: prog_load takes source");
    kern_add(&shared, TNP_F32);
    shared_dialect = usable_dialect(&shared);
    if (!shared_dialect) skip("no dialect that the checks can write");
    shared_source = k_source(&shared, shared_dialect);
    caps_of(0);
    k_format(shared_dialect);
    compile_one(&results[0]); /* fills what is filled once */
    for (size_t i = 0; i < LEN(t); i++)
        NEED(!pthread_create(&t[i], NULL, compile_one, &results[i]), "no thread");
    for (size_t i = 0; i < LEN(t); i++) pthread_join(t[i], NULL);
    for (size_t i = 1; i < LEN(t); i++)
        NEED(results[i].len == results[0].len &&
                 !memcmp(results[i].data, results[0].data, results[0].len),
             "two compilations of one source differ: %zu and %zu bytes", results[0].len,
             results[i].len);
}

/* A binary with a defect: an error with a text; never a crash, which the parent would see. */
static void must_not_load(const kern *k, const char *format, bytes b, const char *what)
{
    tnp_prog *p = NULL;
    char *copy = malloc(b.len + 1); /* so that a sanitizer sees reads behind the end */
    NEED(copy, "no memory");
    memcpy(copy, b.data, b.len);
    const tnp_rc rc = k_load_bin(k, format, (bytes){copy, b.len}, NULL, &p);
    NEED(rc < 0, "%s is loaded", what);
    NEED(err_text[0], "%s: rc %d without a message", what, rc);
    NEED(rc != TNP_E_LOST, "%s loses the device", what);
    free(copy);
}

static void damaged(void)
{
    static kern k;
    char what[80];
    need_exec();
    kern_add(&k, TNP_F32);
    const char *d = usable_dialect(&k);
    if (!d) skip("no dialect that the checks can write");
    bytes bin = {0};
    fresh();
    worked(k_compile(&k, d, k_source(&k, d), &bin, NULL), "compile");
    const char *format = k_format(d);
    const bool text = !TNP_FN(root, tnp_plugin, compile) && strcmp(d, "linear") != 0;
    for (size_t n = 0; n < bin.len; n += n < 64 ? 7 : bin.len / 23 + 1) {
        snprintf(what, sizeof what, "a binary cut to %zu of %zu bytes", n, bin.len);
        must_not_load(&k, format, (bytes){bin.data, n}, what);
    }
    uint64_t seed = 12345;
    for (int i = 0; i < 50; i++) {
        char junk[2000];
        for (size_t j = 0; j < sizeof junk; j++) {
            seed = seed * 6364136223846793005u + 1442695040888963407u;
            junk[j] = (char)(seed >> 56);
        }
        must_not_load(&k, format, (bytes){junk, (size_t)(i * 40 + 1)}, "a binary of random bytes");
    }
    for (int i = 0; i < 60 && !text;
         i++) { /* a flipped bit: refused, or loaded when it hit nothing */
        char *copy = malloc(bin.len);
        tnp_prog *p = NULL;
        NEED(copy, "no memory");
        memcpy(copy, bin.data, bin.len);
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        copy[(seed >> 33) % bin.len] ^= (char)(1 << (seed >> 30 & 7));
        const tnp_rc rc = k_load_bin(&k, format, (bytes){copy, bin.len}, NULL, &p);
        if (rc == TNP_OK) ops->prog_free(dev, p);
        NEED(rc == TNP_OK || err_text[0], "a flipped bit: rc %d without a message", rc);
        free(copy);
    }
    sum_of(k_load(&k), &k);
}

static void wrong_entry(void)
{
    static kern k, many;
    need_exec();
    kern_add(&k, TNP_F32);
    const char *d = usable_dialect(&k);
    if (!d) skip("no dialect that the checks can write");
    bytes bin = {0};
    tnp_prog *p = NULL;
    fresh();
    worked(k_compile(&k, d, k_source(&k, d), &bin, NULL), "compile");
    tnp_rc rc = k_load_bin(&k, k_format(d), bin, "no_such_kernel", &p);
    NEED(rc < 0 && err_text[0], "an entry that the binary has not: rc %d, %s", rc, err_text);
    NEED(k_load_bin(&k, "no such format", bin, NULL, &p) == TNP_E_UNSUPPORTED,
         "an unknown format is not UNSUPPORTED");
    if (caps.max_args < K_MAX_BUFS - 1) {
        many = k;
        many.nbufs = caps.max_args + 1;
        rc = k_load_bin(&many, k_format(d), bin, NULL, &p);
        NEED(rc < 0 && err_text[0], "%u buffers, one more than max_args: rc %d", many.nbufs, rc);
    }
    p = k_load(&k);
    tnp_buf *b[3] = {buf_new(64, 0), buf_new(64, 0), buf_new(64, 0)};
    const size_t len[3] = {64, 64, 64};
    const uint32_t grid[3] = {1, 1, 1};
    many = k;
    many.nbufs = 2;
    rc = k_launch(queue, p, &many, b, len, NULL, grid, NULL, NULL);
    refused(rc, TNP_E_ARG, "a launch with a buffer less");
    sum_of(p, &k);
}

static void travels(void)
{
    static kern k;
    int fd[2];
    need_root();
    if (!TNP_FN(root, tnp_plugin, compile)) skip("no compile: prog_load takes source");
    NEED(!pipe(fd), "no pipe");
    kern_add(&k, TNP_F32);
    const pid_t pid = fork();
    NEED(pid >= 0, "no process");
    if (!pid) { /* process A */
        bytes bin = {0};
        need_init();
        const char *d = usable_dialect(&k);
        fresh();
        if (!d || k_compile(&k, d, k_source(&k, d), &bin, NULL) < 0) _exit(1);
        if (write(fd[1], &bin.len, sizeof bin.len) < 0) _exit(1);
        for (size_t at = 0; at < bin.len;) {
            const ssize_t n = write(fd[1], (char *)bin.data + at, bin.len - at);
            if (n <= 0) _exit(1);
            at += (size_t)n;
        }
        _exit(0);
    }
    close(fd[1]);
    bytes bin = {0};
    NEED(read(fd[0], &bin.len, sizeof bin.len) == (ssize_t)sizeof bin.len,
         "the other process compiles nothing");
    bin.data = malloc(bin.len);
    for (size_t at = 0; at < bin.len;) {
        const ssize_t n = read(fd[0], (char *)bin.data + at, bin.len - at);
        NEED(n > 0, "the other process ends early");
        at += (size_t)n;
    }
    waitpid(pid, NULL, 0);
    need_exec();
    tnp_prog *p = NULL;
    worked(k_load_bin(&k, k_format(usable_dialect(&k)), bin, NULL, &p),
           "loading another process's binary");
    sum_of(p, &k);
}

const check_row program_checks[] = {
    {24, "program", "the add kernel compiles and runs in every declared dialect",
     adds_in_every_dialect, 60},
    {25, "program", "a syntax error is COMPILE with a line or row number", syntax_error, 60},
    {26, "program", "equal sources give equal binaries, by 8 threads, without a device", same_bytes,
     60},
    {27, "program", "truncated and random binaries are errors, never crashes", damaged, 60},
    {28, "program", "a wrong entry, format or number of arguments is an error", wrong_entry, 60},
    {29, "program", "a binary made in one process loads in another", travels, 60},
    {0}};
