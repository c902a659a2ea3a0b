/* SPDX-License-Identifier: MIT */
/* Sides as child processes with two pipes, see the header.  Only processes started here are ever signalled. */
#define _GNU_SOURCE
#include "bench_side.h"
#include "bench_serve.h"
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;
enum { WAIT_MS = 600000, ENV_MOST = 1024 };

static void fail(side *s, const char *text)
{
    s->state = SIDE_FAILED;
    snprintf(s->text, sizeof s->text, "%s", text);
}

/* A line without its end; byte by byte, since nothing here is timed to less than a line. */
static bool read_line(side *s, char *line, size_t cap)
{
    size_t n = 0;
    for (;;) {
        struct pollfd p = {.fd = s->from, .events = POLLIN};
        char c;
        if (poll(&p, 1, WAIT_MS) <= 0) {
            fail(s, "no answer in ten minutes");
            return false;
        }
        if (read(s->from, &c, 1) != 1) {
            fail(s, "the process ended before it answered");
            return false;
        }
        if (c == '\n') break;
        if (n + 1 < cap) line[n++] = c;
    }
    line[n] = 0;
    return true;
}

static bool same_name(const char *a, const char *b)
{
    const size_t n = strcspn(a, "=");
    return n == strcspn(b, "=") && !strncmp(a, b, n);
}

/* The driver's environment less what env names, then env. */
static void make_env(char **out, const char *const *env)
{
    size_t n = 0;
    for (char **e = environ; *e && n < ENV_MOST; e++) {
        bool drop = false;
        for (size_t i = 0; env[i]; i++) drop = drop || same_name(*e, env[i]);
        if (!drop) out[n++] = *e;
    }
    for (size_t i = 0; env[i] && n < ENV_MOST; i++)
        if (strchr(env[i], '=')) out[n++] = (char *)(uintptr_t)env[i];
    out[n] = NULL;
}

static bool start(side *s, const char *const *argv, const char *const *env)
{
    static char *all[ENV_MOST + 1];
    int in[2], out[2];
    posix_spawn_file_actions_t fa;
    make_env(all, env);
    if (pipe2(in, O_CLOEXEC)) return false;
    if (pipe2(out, O_CLOEXEC)) {
        close(in[0]), close(in[1]);
        return false;
    }
    posix_spawn_file_actions_init(&fa);
    posix_spawn_file_actions_adddup2(&fa, in[0], 0);
    posix_spawn_file_actions_adddup2(&fa, out[1], 1);
    int rc = posix_spawnp(&s->pid, argv[0], &fa, NULL, (char *const *)(uintptr_t)argv, all);
    posix_spawn_file_actions_destroy(&fa);
    close(in[0]), close(out[1]);
    s->to = in[1];
    s->from = out[0];
    if (rc) s->pid = 0;
    return rc == 0;
}

void side_open(side *s, const char *const *argv, const char *const *env)
{
    char line[256];
    double begin = serve_now_ms();
    *s = (side){.to = -1, .from = -1};
    signal(SIGPIPE, SIG_IGN);
    if (!start(s, argv, env)) {
        s->state = SIDE_NONE;
        snprintf(s->text, sizeof s->text, "%.200s does not start", argv[0]);
        return;
    }
    if (!read_line(s, line, sizeof line)) return;
    s->start_ms = serve_now_ms() - begin;
    const char *text = strchr(line, ' ');
    text = text ? text + 1 : "";
    if (!strncmp(line, "ready ", 6))
        s->state = SIDE_READY;
    else
        s->state = !strncmp(line, "none ", 5) ? SIDE_NONE : SIDE_FAILED;
    snprintf(s->text, sizeof s->text, "%s",
             s->state == SIDE_FAILED && strncmp(line, "error ", 6) != 0 ? line : text);
}

bool side_ask(side *s, int n, double *median, double *least)
{
    char line[256];
    int len = snprintf(line, sizeof line, "%d\n", n);
    if (s->state != SIDE_READY) return false;
    if (write(s->to, line, (size_t)len) != len) {
        fail(s, "the process is gone");
        return false;
    }
    if (!read_line(s, line, sizeof line)) return false;
    if (sscanf(line, "%lf %lf", median, least) == 2) return true;
    fail(s, strncmp(line, "error ", 6) ? line : line + 6);
    return false;
}

/* A second to end by itself, then it is killed. */
void side_close(side *s)
{
    if (s->to >= 0) close(s->to);
    if (s->pid > 0) {
        int status = 0, waited = 0;
        while (waitpid(s->pid, &status, WNOHANG) == 0) {
            if (waited++ == (s->state == SIDE_FAILED ? 100 : 1000)) kill(s->pid, SIGKILL);
            usleep(10000);
        }
        if (s->state == SIDE_FAILED && WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL)
            snprintf(s->text, sizeof s->text, "ended by signal %d", WTERMSIG(status));
    }
    if (s->from >= 0) close(s->from);
    s->to = s->from = -1;
    s->pid = 0;
    if (s->state == SIDE_READY) s->state = SIDE_CLOSED;
}
