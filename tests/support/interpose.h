/* SPDX-License-Identifier: MIT */
/*
 * Counts what the process asks of the C library: memory, and locks that could be waited for.  The test program
 * defines malloc and its kin, pthread_mutex_lock and its kin itself and hands every call on; the library and its
 * plugins, which are loaded into this process, end up here too.
 *
 * Only with glibc and without a sanitizer, which has its own: elsewhere interpose_on says why not.
 */
#ifndef TEST_INTERPOSE_H
#define TEST_INTERPOSE_H
#include <stdint.h>

typedef struct {
    uint64_t
        allocations; /* malloc, calloc, realloc, aligned_alloc, posix_memalign, memalign, mmap */
    uint64_t locks;  /* of mutexes, reader-writer and spin locks, by the calls that wait */
} interpose_counts;

/* NULL, and every thread's calls count from here on; or the reason why they cannot be counted. */
const char *interpose_on(void);
interpose_counts interpose_off(void);
#endif
