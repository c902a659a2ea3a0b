/* SPDX-License-Identifier: MIT */
/* Checks 39 and 40: fork, and the end of a process with work under way. */
#define _GNU_SOURCE
#include "check.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void add_once(tnp_prog *p, const kern *k)
{
    int v[4] = {1, 2, 3, 4};
    tnp_buf *b[2] = {buf_new(16, TNP_MEM_ZERO), buf_new(16, 0)};
    const size_t len[2] = {16, 16};
    put(b[1], 0, v, sizeof v);
    if (p) k_run(p, k, b, len, (uint64_t[]){10}, 4, 1, 1);
    get(p ? b[0] : b[1], 0, v, sizeof v);
    NEED(v[3] == (p ? 14 : 4), "the result is %d", v[3]);
    ops->buf_free(dev, b[0]);
    ops->buf_free(dev, b[1]);
}

/* In the child of a fork: right results, or FORKED everywhere. */
static void in_child(tnp_prog *p, const kern *k)
{
    uint32_t n = 0;
    tnp_rc rc = root->count(&n, fresh());
    if (root->flags & TNP_ROOT_SURVIVES_FORK) {
        worked(rc, "count in the child of a fork");
        add_once(p, k);
        return;
    }
    refused(rc, TNP_E_FORKED, "count in the child of a fork");
    tnp_caps c = {.size = sizeof c};
    refused(root->probe(0, &c, fresh()), TNP_E_FORKED, "probe in the child of a fork");
    tnp_buf *b;
    const tnp_alloc a = {.size = sizeof a, .bytes = 64};
    refused(ops->buf_alloc(dev, &a, &b, fresh()), TNP_E_FORKED, "buf_alloc in the child of a fork");
}

static int ended(pid_t pid)
{
    int status = 0;
    NEED(pid >= 0, "no process");
    waitpid(pid, &status, 0);
    return status;
}

static void forks(void)
{
    static kern k;
    need_dev();
    kern_plus(&k);
    tnp_prog *p = !(caps.flags & TNP_F_NOEXEC) && usable_dialect(&k) ? k_load(&k) : NULL;
    add_once(p, &k);
    fflush(stdout);
    pid_t pid = fork();
    if (!pid) {
        root->forked(); /* the host's child hook; a second call must not harm */
        in_child(p, &k);
        _exit(0);
    }
    int status = ended(pid);
    NEED(!WIFSIGNALED(status), "the child of a fork crashes: %s", strsignal(WTERMSIG(status)));
    NEED(!WEXITSTATUS(status), "the child of a fork ends with status %d", WEXITSTATUS(status));
    add_once(p, &k); /* the parent goes on */
    pid = fork();
    if (!pid) { /* fork and exec */
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, 1);
        execl("/proc/self/exe", "tenon-plugin-check", "--only", "^9 ", plugin_path, (char *)NULL);
        _exit(null < 0 ? 3 : 2);
    }
    status = ended(pid);
    NEED(WIFEXITED(status) && WEXITSTATUS(status) == 0,
         "a new program after a fork cannot use the plugin");
    ops->prog_free(dev, p);
    close_dev();
}

/* ---- 40 ---- */

static kern plus;
static tnp_prog *plus_prog;
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static bool locked;
static uint64_t until;

static void take(void)
{
    if (locked) pthread_mutex_lock(&one);
}
static void give(void)
{
    if (locked) pthread_mutex_unlock(&one);
}

static void must(tnp_rc rc, const char *what, const char *text)
{
    if (rc < 0) fail("8 threads: %s: rc %d: %s", what, rc, text);
}

/* Four queues of its own, each adding to a number of its own. */
static void *busy(void *arg)
{
    char text[300] = "";
    tnp_err e = {.size = sizeof e, .cap = sizeof text, .msg = text};
    tnp_queue *q[4];
    tnp_sem *s[4];
    tnp_buf *b[4];
    uint64_t v[8] = {0}; /* 64 bytes, as the buffers */
    const tnp_alloc a = {.size = sizeof a, .bytes = 64, .flags = TNP_MEM_ZERO};
    take();
    for (int i = 0; i < 4; i++) {
        must(ops->queue_new(dev, 0, &q[i], &e), "queue_new", text);
        must(ops->sem_new(dev, 0, &s[i], &e), "sem_new", text);
        must(ops->buf_alloc(dev, &a, &b[i], &e), "buf_alloc", text);
    }
    give();
    while (now_ns() < until)
        for (int i = 0; i < 4; i++) {
            const tnp_ref refs[2] = {{b[i], 0, 64}, {b[i], 0, 64}};
            const tnp_point pt = {s[i], ++v[i]};
            const tnp_sync sync = {.nsignal = 1, .signal = &pt};
            const uint64_t imm = 1;
            const tnp_launch l = {.size = sizeof l,
                                  .grid = {1, 1, 1},
                                  .local = {1, 1, 1},
                                  .bufs = refs,
                                  .imms = &imm,
                                  .nbufs = 2,
                                  .nimms = 1};
            take();
            if (plus_prog)
                must(ops->launch(dev, q[i], plus_prog, &l, &sync, &e), "launch", text);
            else
                must(ops->copy_in(dev, q[i], refs[0], v, &sync, &e), "copy_in", text);
            give();
            if (v[i] % 64 == 0) {
                take();
                must(ops->sem_wait(dev, s[i], v[i], UINT64_C(10000000000), &e), "sem_wait", text);
                give();
            }
        }
    for (int i = 0; i < 4; i++) {
        int got = -1;
        const tnp_point pt = {s[i], v[i] + 1};
        const tnp_sync sync = {.nsignal = 1, .signal = &pt};
        take();
        must(ops->copy_out(dev, q[i], &got, (tnp_ref){b[i], 0, 4}, &sync, &e), "copy_out", text);
        must(ops->flush(dev, q[i], &e), "flush", text);
        must(ops->sem_wait(dev, s[i], v[i] + 1, UINT64_C(10000000000), &e), "sem_wait", text);
        ops->queue_free(dev, q[i]);
        ops->sem_free(dev, s[i]);
        ops->buf_free(dev, b[i]);
        give();
        if (plus_prog && got != (int)v[i])
            fail("8 threads: %llu launches of + 1 in a queue give %d", (unsigned long long)v[i],
                 got);
    }
    (void)arg;
    return NULL;
}

/* Ends with work pending; how: 0 by close, 1 by exit with an open device. */
static void end_with_work(int how)
{
    fflush(stdout);
    const pid_t pid = fork();
    if (!pid) {
        need_dev();
        kern_plus(&plus);
        tnp_buf *b = buf_new(1 << 20, TNP_MEM_ZERO);
        static char junk[1 << 20];
        for (int i = 0; i < 20; i++)
            worked(ops->copy_in(dev, queue, (tnp_ref){b, 0, sizeof junk}, junk, signal_next(),
                                fresh()),
                   "copy_in");
        if (how == 0) {
            ops->queue_free(dev, queue);
            ops->sem_free(dev, sem);
            ops->buf_free(dev, b);
            ops->close(dev);
            root->fini();
        }
        exit(0); /* with destructors and atexit */
    }
    const int status = ended(pid);
    NEED(!WIFSIGNALED(status), "%s with work pending crashes: %s", how ? "exit" : "close",
         strsignal(WTERMSIG(status)));
}

static void storm(void)
{
    pthread_t t[8];
    for (int how = 0; how < 2; how++) end_with_work(how); /* before this process loads the plugin */
    need_dev();
    kern_plus(&plus);
    plus_prog = !(caps.flags & TNP_F_NOEXEC) && usable_dialect(&plus) ? k_load(&plus) : NULL;
    locked = !(caps.flags & TNP_F_THREADS);
    until = now_ns() + (long_run ? UINT64_C(10000000000) : UINT64_C(1000000000));
    for (size_t i = 0; i < LEN(t); i++) NEED(!pthread_create(&t[i], NULL, busy, NULL), "no thread");
    for (size_t i = 0; i < LEN(t); i++) pthread_join(t[i], NULL);
    if (locked) note("one thread at a time (no TNP_F_THREADS)");
}

const check_row process_checks[] = {
    {39, "process", "fork: the parent goes on, the child works or is told FORKED", forks, 60},
    {40, "process", "8 threads with 4 queues each; close and exit with work pending", storm, 60},
    {0}};
