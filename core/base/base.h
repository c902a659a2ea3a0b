/* SPDX-License-Identifier: MIT */
/*
 * Private part of base: what the rest of the library builds on.  Includes no other folder.
 *
 * Law: a function that fails has recorded an error; one that succeeds has left the record as it was.
 */
#ifndef TN_BASE_BASE_H
#define TN_BASE_BASE_H
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/base.h>

#define TN_LEN(a) (sizeof(a) / sizeof *(a))
#ifdef NDEBUG
#define TN_CHECK(c) ((void)0)
#else
#define TN_CHECK(c) ((c) ? (void)0 : tn__check_failed(#c, __FILE__, __LINE__))
#endif
void tn__check_failed(const char *what, const char *file,
                      int line); /* debug builds: prints, aborts */

/* ---- errors ---- */
/* Records the thread's first error and returns false; later ones are dropped.  The one breakpoint. */
#define tn__fail(...) tn__fail_from(__FILE__, __LINE__, __VA_ARGS__)
bool tn__fail_from(const char *place, int line, tn_code code, const char *fmt, ...) TN_PRINTF(4, 5);
/* Told of each place that records an error, whether or not one is pending; NULL but in tests. */
extern void (*tn__fail_seen)(const char *place, int line);
bool tn__vfail(tn_code code, const char *fmt, va_list ap) TN_PRINTF(2, 0);
bool tn__fail_nomem(void); /* TN_ENOMEM, allocates nothing */
/* Names the public function that runs now, for the record; nested calls keep the outermost. */
void tn__enter(const char *op);
void tn__leave(void);
void tn__here(const char **file, int *line); /* of the latest tn_at */
/* Moves an error between threads: tn__error_take copies the record out and clears it. */
typedef struct {
    tn_code code;
    char op[48];
    char msg[1024];
    const char *file;
    int line;
} tn__error;
void tn__error_take(tn__error *out);
void tn__error_put(const tn__error *e);

/* ---- log ---- */
void tn__log(tn_log_level level, const char *fmt, ...) TN_PRINTF(2, 3);
/* Once a process for each distinct `key` (compared by address). */
void tn__log_once(const void *key, tn_log_level level, const char *fmt, ...) TN_PRINTF(3, 4);

/* ---- host memory: all of the library's; NULL (and TN_ENOMEM recorded) when there is none ---- */
void *tn__alloc(size_t n);               /* n == 0 gives a unique pointer */
void *tn__calloc(size_t n, size_t size); /* zeroed; the product is checked */
void *tn__realloc(void *p, size_t n);    /* on failure p stays */
void tn__free(void *p);                  /* NULL is fine */
char *tn__strdup(const char *s);
char *tn__strndup(const char *s, size_t n);
char *tn__format(const char *fmt, ...) TN_PRINTF(1, 2); /* own */
size_t tn__live_bytes(void);                            /* allocated and not freed, process-wide */
size_t tn__live_blocks(void);
/* Tests: the n-th allocation from now on this thread fails (1: the next); 0 switches it off. */
void tn__alloc_fail_at(uint64_t n);
uint64_t tn__alloc_count(void); /* allocations of this thread so far */

/* ---- arenas: one a lifetime; a failed arena stays failed and is asked once ---- */
typedef struct tn__chunk tn__chunk;
typedef struct {
    tn__chunk *top;
    size_t used, cap;
    bool failed;
} tn__arena; /* {0} is an empty one */
typedef struct {
    tn__chunk *chunk;
    size_t used;
} tn__mark;
void *tn__arena_alloc(tn__arena *a, size_t n); /* 16-byte aligned, not zeroed; NULL when failed */
void *tn__arena_zero(tn__arena *a, size_t n);
char *tn__arena_format(tn__arena *a, const char *fmt, ...) TN_PRINTF(2, 3);
tn__mark tn__arena_mark(const tn__arena *a);
void tn__arena_reset(tn__arena *a, tn__mark m); /* {0}: everything; debug builds poison */
void tn__arena_free(tn__arena *a);

/* ---- growing byte buffer ---- */
typedef struct {
    char *data;
    size_t len, cap;
    bool failed;
} tn__buf; /* {0} is an empty one; data is NUL-terminated whenever it is not NULL */
bool tn__buf_put(tn__buf *b, const void *p, size_t n);
bool tn__buf_printf(tn__buf *b, const char *fmt, ...) TN_PRINTF(2, 3);
bool tn__buf_vprintf(tn__buf *b, const char *fmt, va_list ap) TN_PRINTF(2, 0);
void *tn__buf_grow(tn__buf *b, size_t n); /* n more bytes, zeroed; NULL when failed */
void tn__buf_free(tn__buf *b);

/* ---- hashing: xxHash's XXH3 128 where it was built in, else an own 128-bit hash ---- */
typedef struct {
    uint64_t lo, hi;
} tn__hash;
tn__hash tn__hash_bytes(const void *p, size_t n);
tn__hash tn__hash_own(const void *p, size_t n); /* the own one, in every build */
/* One more number in a 64-bit hash, for tables that live in one process. */
static inline uint64_t tn__mix(uint64_t h, uint64_t v)
{
    h ^= v + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    return h ^ (h >> 33);
}
static inline bool tn__hash_eq(tn__hash a, tn__hash b) { return a.lo == b.lo && a.hi == b.hi; }

/* ---- bounded map from 128-bit keys to pointers, least recently used first out; not locked ---- */
typedef struct tn__lru tn__lru;
tn__lru *tn__lru_new(size_t cap, void (*drop)(void *value)); /* own */
void *tn__lru_get(tn__lru *l, tn__hash key);                 /* NULL: absent */
bool tn__lru_put(tn__lru *l, tn__hash key,
                 void *value); /* takes value, also when it fails (drops it) */
size_t tn__lru_count(const tn__lru *l);
void tn__lru_free(tn__lru *l);

/* ---- context variables: the rows of context.def ---- */
typedef struct {
    const char *name;
    bool text; /* a text variable; else an integer */
    int64_t def;
    const char *when, *doc;
} tn__var_info;
const tn__var_info *tn__var_info_of(tn_context_var v); /* NULL: no such variable */
/* Watches a block: bits of the variables that were read from outside of it (not those it set itself). */
typedef struct {
    uint64_t read;
    int own[TN_VARS];
} tn__context_watch;
extern _Thread_local tn__context_watch *tn__context_watching; /* NULL: nobody watches */
void tn__context_reload(void); /* tests: forgets what the host set, reads the environment again */

uint64_t tn__now_ns(void); /* monotonic */
/* Nearest of `n` names to `word` by edit distance, NULL if none is near: for "did you mean". */
const char *tn__nearest(const char *word, const char *const *names, size_t n);
#endif
