/* SPDX-License-Identifier: MIT */
/*
 * Rows of the table: cases with their goals, figures, medians, the text and the JSON file, and an earlier JSON
 * file to compare with (--against reads only files that were written here).
 */
#ifndef BENCH_REPORT_H
#define BENCH_REPORT_H
#include <stdbool.h>
#include <stdio.h>

enum { ROUNDS_MOST = 99 };
typedef enum {
    GOAL_NONE,
    GOAL_VALUE,
    GOAL_RATIO,
    GOAL_OVER
} goal_kind; /* OVER: Tenon's figure less the peer's */
typedef enum {
    HOW_LOOP,  /* both sides stay alive and are asked in turn */
    HOW_FRESH, /* a new process for each figure, which it answers */
    HOW_START  /* a new process for each figure: the time until it is ready */
} bench_how;

typedef struct {
    const char *name, *unit;
    const char *tenon;  /* case of bench_cases */
    const char *peer;   /* "torch:CASE", "openblas:CASE", "tenon:CASE"; NULL: none */
    double flop, bytes; /* of an iteration; 0: not asked */
    goal_kind goal;
    double limit;
    bench_how how;
    bool null_device; /* runs on the device that computes nothing: once, with one thread */
    int cache;        /* 0: the benchmarks' own; 1: a new folder each time; 2: that folder again */
} bench_case;

typedef struct {
    const bench_case *c;
    int threads, n; /* n: rounds with a figure of Tenon's */
    double tenon[ROUNDS_MOST], peer[ROUNDS_MOST], copy[ROUNDS_MOST]; /* negative: none */
    double tenon_best, peer_best; /* the least of any iteration; negative: none */
    double
        others; /* share of the processors that other processes took meanwhile; negative: not known */
    char tenon_name[256], peer_name[256], trouble[512];
} bench_row;

typedef struct {
    char cpu[128], system[128], load[64], when[32];
    const char *commit, *data;
    int cores, rounds;
} bench_machine;

extern const bench_case bench_cases[];
extern const int bench_case_count;

/* True when `only` is the case's name or its beginning up to a `_`. */
bool bench_wanted(const bench_case *c, const char *only);
void bench_machine_get(bench_machine *m);
/* Median over the rounds where f has a figure; negative when there is none. */
double bench_median(const bench_row *r, double (*f)(const bench_row *r, int i));
void bench_print_head(bool against);
void bench_print_row(const bench_row *r, const char *against);
void bench_print_machine(const bench_machine *m);
/* All rows at once; false when the file cannot be written. */
bool bench_write_json(const char *path, const bench_machine *m, const bench_row *rows, int n);
#endif
