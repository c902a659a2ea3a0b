/* SPDX-License-Identifier: MIT */
/*
 * The driver's end of the protocol (bench_serve.h): starting a side as a process, asking it, ending it.
 * A side that does not answer in ten minutes is killed and counts as failed.
 */
#ifndef BENCH_SIDE_H
#define BENCH_SIDE_H
#include <stdbool.h>
#include <sys/types.h>

typedef enum { SIDE_CLOSED, SIDE_READY, SIDE_NONE, SIDE_FAILED } side_state;
typedef struct {
    side_state state;
    pid_t pid;
    int to, from;
    double start_ms; /* from the start of the process to `ready` */
    char text[256];  /* behind ready, none or error */
} side;

/* env: further variables as NAME=value, NULL-ended; NAME alone takes one away.  Waits for `ready`. */
void side_open(side *s, const char *const *argv, const char *const *env);
/* The median and the least of n iterations; false: state is SIDE_FAILED and text says why. */
bool side_ask(side *s, int n, double *median, double *least);
void side_close(side *s);
#endif
