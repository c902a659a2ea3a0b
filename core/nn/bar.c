/* SPDX-License-Identifier: MIT */
/*
 * The progress bar, timing of blocks, and devices named by the environment.
 *
 * The bar writes with write(2) to standard error, at most ten times a second on a terminal and every ten
 * seconds elsewhere; lines above it go to standard output.  Each bar belongs to one thread.
 */
#include "nn/nn.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define MS UINT64_C(1000000)

static void put(int fd, const char *s, size_t n)
{
    while (n) {
        ssize_t w = write(fd, s, n);
        if (w <= 0) return;
        s += w;
        n -= (size_t)w;
    }
}

static int columns(void)
{
    struct winsize w;
    return !ioctl(STDERR_FILENO, TIOCGWINSZ, &w) && w.ws_col > 20 ? w.ws_col : 80;
}

/* "1:02:03" or "02:03" */
static void clock_text(char *out, size_t n, double seconds)
{
    long s = seconds > 0 && seconds < 1e7 ? (long)seconds : 0;
    if (s >= 3600)
        snprintf(out, n, "%ld:%02ld:%02ld", s / 3600, s / 60 % 60, s % 60);
    else
        snprintf(out, n, "%02ld:%02ld", s / 60, s % 60);
}

static void numbers(const tn_bar *b, char *out, size_t n)
{
    char spent[24], left[24];
    const double s = (double)(tn__now_ns() - b->start) * 1e-9, rate = s > 0 ? (double)b->i / s : 0;
    clock_text(spent, sizeof spent, s);
    clock_text(left, sizeof left, rate > 0 ? ((double)b->n - (double)b->i) / rate : 0);
    snprintf(out, n, "%lld/%lld [%s<%s, %.2f/s]", (long long)b->i, (long long)b->n, spent, left,
             rate);
}

static void draw(tn_bar *b)
{
    char tail[96], line[512];
    numbers(b, tail, sizeof tail);
    const int percent = b->n > 0 ? (int)((double)b->i * 100 / (double)b->n) : 100;
    int len;
    if (b->tty) {
        const int room = columns() - 9 - (int)strlen(tail) - (int)strlen(b->text) - 2;
        const int width = room < 4 ? 4 : room > 40 ? 40 : room, done = width * percent / 100;
        len = snprintf(line, sizeof line, "\r\033[K%3d%% %s%.*s%s%*s %s %s", percent,
                       b->color ? "\033[32m" : "", done, "########################################",
                       b->color ? "\033[0m" : "", width - done, "", tail, b->text);
    } else {
        len = snprintf(line, sizeof line, "%3d%% %s %s\n", percent, tail, b->text);
    }
    if (len > 0) put(STDERR_FILENO, line, len < (int)sizeof line ? (size_t)len : sizeof line - 1);
    b->shown = tn__now_ns();
    b->marked = b->i;
}

void tn_bar_open(tn_bar *b, int64_t n)
{
    *b = (tn_bar){.i = -1, .n = n < 0 ? 0 : n, .live = true};
    b->start = b->shown = tn__now_ns();
    b->tty = isatty(STDERR_FILENO) == 1;
    b->color = b->tty && !(getenv("NO_COLOR") && *getenv("NO_COLOR")) &&
               !tn_context_get(TN_NO_COLOR);
}

bool tn_bar_next(tn_bar *b)
{
    b->i++;
    if (b->i < b->n && tn_ok()) {
        if (tn__now_ns() - b->shown >= (b->tty ? 100 : 10000) * MS) draw(b);
        return true;
    }
    tn_bar_end(b);
    return false;
}

void tn_bar_end(tn_bar *b)
{
    if (!b->live) return;
    b->live = false;
    if (b->i < 0) b->i = 0;
    if (!b->tty && b->marked == b->i) return;
    draw(b);
    if (b->tty) put(STDERR_FILENO, "\n", 1);
}

void tn_bar_text(tn_bar *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(b->text, sizeof b->text, fmt, ap);
    va_end(ap);
}

void tn_bar_print(tn_bar *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (b->tty) put(STDERR_FILENO, "\r\033[K", 4);
    vfprintf(stdout, fmt, ap);
    fputc('\n', stdout);
    fflush(stdout);
    va_end(ap);
    if (b->tty) draw(b);
}

/* ---- timing ---- */

void tn_timing_open(tn_timing *t, const char *label)
{
    *t = (tn_timing){label ? label : "", tn__now_ns()};
}

void tn_timing_end(tn_timing *t)
{
    char line[160];
    if (!t->label) return;
    int n = snprintf(line, sizeof line, "%s: %.2f ms\n", t->label,
                     (double)(tn__now_ns() - t->start) * 1e-6);
    if (n > 0) put(STDERR_FILENO, line, n < (int)sizeof line ? (size_t)n : sizeof line - 1);
    t->label = NULL;
}

/* ---- devices of the environment ---- */

const tn_devices *tn_getenv_devices(const char *name)
{
    static _Thread_local char text[512];
    static _Thread_local const char *names[16];
    static _Thread_local tn_devices list;
    const char *value = name ? getenv(name) : NULL;
    if (!value || !*value) return NULL;
    if (strlen(value) >= sizeof text) {
        tn__fail(TN_EVALUE, "%s: %zu characters: takes up to 16 devices, separated by commas", name,
                 strlen(value));
        return NULL;
    }
    memcpy(text, value, strlen(value) + 1);
    list = (tn_devices){0, names};
    for (char *p = text; *p;) {
        char *end = p + strcspn(p, ",");
        const bool last = !*end;
        *end = 0;
        if (*p && list.n == 16) {
            tn__fail(TN_EVALUE, "%s: '%s': takes up to 16 devices, separated by commas", name,
                     value);
            return NULL;
        }
        if (*p) names[list.n++] = p;
        p = last ? end : end + 1;
    }
    return list.n ? &list : NULL;
}
