/* SPDX-License-Identifier: MIT */
/*
 * What a side of a benchmark does: set up, say so, and time batches when asked.  The protocol, one line each:
 *
 *     side:   ready TEXT | none REASON      after the set-up; `none`: this side cannot run here
 *     driver: N                             run N iterations
 *     side:   MEDIAN LEAST | error TEXT     of the N, in the case's unit
 *
 * Each batch starts with iterations that do not count, one at least and 20 ms, so that threads are awake and
 * caches hold what they hold in a loop.  The side ends with its input.
 */
#ifndef BENCH_SERVE_H
#define BENCH_SERVE_H
#include <stdbool.h>

typedef struct {
    const char *name;
    bool (*setup)(const char *name);
    /* One iteration, to its end.  *value: left as it is, the time counts; else the figure of this iteration. */
    bool (*once)(double *value);
} serve_case;

double serve_now_ms(void);
/* Runs the protocol on standard input and output; `text` and `why` are asked after the set-up (why after a failure
 * too; "" or NULL: no more is known).  The exit status. */
int serve(const serve_case *c, const char *(*text)(void), const char *(*why)(void));
/* The line `none REASON`; the exit status. */
int serve_none(const char *reason);
/* VmRSS or VmHWM of this process in KB; 0 where it is not known. */
double serve_status_kb(const char *key);
/* Makes VmHWM start again from VmRSS. */
void serve_forget_peak(void);
/* Threads that the driver asked for. */
int serve_threads(void);
#endif
