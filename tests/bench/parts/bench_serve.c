/* SPDX-License-Identifier: MIT */
/* The protocol of a side, see the header.  Single-threaded; the answers are flushed line by line. */
#include "bench_serve.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { MOST = 20000 };

double serve_now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool iteration(const serve_case *c, double *value)
{
    double own = -1, start = serve_now_ms();
    if (!c->once(&own)) return false;
    *value = own >= 0 ? own : serve_now_ms() - start;
    return true;
}

static bool batch(const serve_case *c, int n, double *median, double *least)
{
    static double all[MOST];
    double start = serve_now_ms(), unused;
    do {
        if (!iteration(c, &unused)) return false;
    } while (serve_now_ms() - start < 20);
    for (int i = 0; i < n; i++)
        if (!iteration(c, &all[i])) return false;
    qsort(all, (size_t)n, sizeof *all, by_value);
    *least = all[0];
    *median = n % 2 ? all[n / 2] : (all[n / 2 - 1] + all[n / 2]) / 2;
    return true;
}

static int say(const char *word, const char *text)
{
    printf("%s %s\n", word, text && *text ? text : "for a reason that it does not tell");
    fflush(stdout);
    return EXIT_FAILURE;
}

int serve_none(const char *reason)
{
    say("none", reason);
    return EXIT_SUCCESS;
}

int serve(const serve_case *c, const char *(*text)(void), const char *(*why)(void))
{
    char line[64];
    if (!c->setup(c->name)) return say("error", why());
    say("ready", text());
    while (fgets(line, sizeof line, stdin)) {
        double median = 0, least = 0;
        int n = atoi(line);
        if (!batch(c, n < 1 ? 1 : n > MOST ? MOST : n, &median, &least)) return say("error", why());
        printf("%.9g %.9g\n", median, least);
        fflush(stdout);
    }
    return EXIT_SUCCESS;
}

double serve_status_kb(const char *key)
{
    char line[256];
    double kb = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key)) && line[strlen(key)] == ':')
            kb = atof(line + strlen(key) + 1);
    if (f) fclose(f);
    return kb;
}

void serve_forget_peak(void)
{
    FILE *f = fopen("/proc/self/clear_refs", "w");
    if (!f) return;
    fputs("5", f);
    fclose(f);
}

int serve_threads(void)
{
    const char *s = getenv("BENCH_THREADS");
    int n = s ? atoi(s) : 1;
    return n > 0 ? n : 1;
}
