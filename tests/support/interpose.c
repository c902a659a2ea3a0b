/* SPDX-License-Identifier: MIT */
/* See the header.  Nothing here allocates; the functions of the C library are looked up before main. */
#define _GNU_SOURCE
#include "interpose.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define OWN_ALLOCATOR 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || \
    __has_feature(memory_sanitizer)
#define OWN_ALLOCATOR 1
#endif
#endif

#if defined(__GLIBC__) && !defined(OWN_ALLOCATOR)
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

static atomic_bool on;
static atomic_uint_least64_t allocations, locks;

static void count(atomic_uint_least64_t *n)
{
    if (atomic_load_explicit(&on, memory_order_relaxed)) atomic_fetch_add(n, 1);
}

/* ---- memory ---- */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void *__libc_memalign(size_t align, size_t n);

void *malloc(size_t n)
{
    count(&allocations);
    return __libc_malloc(n);
}

void *calloc(size_t n, size_t size)
{
    count(&allocations);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t n)
{
    count(&allocations);
    return __libc_realloc(p, n);
}

void *memalign(size_t align, size_t n);
void *memalign(size_t align, size_t n)
{
    count(&allocations);
    return __libc_memalign(align, n);
}

void *aligned_alloc(size_t align, size_t n)
{
    count(&allocations);
    return __libc_memalign(align, n);
}

int posix_memalign(void **out, size_t align, size_t n)
{
    count(&allocations);
    void *p = __libc_memalign(align, n);
    if (p) *out = p;
    return p ? 0 : ENOMEM;
}

/* ---- what has no second name in the C library ---- */
#define NEXT_FUNCTIONS(X)                                                                      \
    X(locks, int, pthread_mutex_lock, (pthread_mutex_t * m), (m))                              \
    X(locks, int, pthread_mutex_timedlock, (pthread_mutex_t * m, const struct timespec *t),    \
      (m, t))                                                                                  \
    X(locks, int, pthread_rwlock_rdlock, (pthread_rwlock_t * l), (l))                          \
    X(locks, int, pthread_rwlock_wrlock, (pthread_rwlock_t * l), (l))                          \
    X(locks, int, pthread_spin_lock, (pthread_spinlock_t * l), (l))                            \
    X(allocations, void *, mmap, (void *at, size_t n, int prot, int flags, int fd, off_t off), \
      (at, n, prot, flags, fd, off))

#define NEXT_POINTER(counter, type, name, args, values) static type(*next_##name) args;
NEXT_FUNCTIONS(NEXT_POINTER)

static void look_up(void)
{
    void *p;
#define NEXT_LOOK_UP(counter, type, name, args, values) \
    p = dlsym(RTLD_NEXT, #name);                        \
    memcpy(&next_##name, &p, sizeof p);
    NEXT_FUNCTIONS(NEXT_LOOK_UP)
}

__attribute__((constructor)) static void before_main(void) { look_up(); }

/* Other constructors may come first. */
#define NEXT_DEFINE(counter, type, name, args, values) \
    type name args                                     \
    {                                                  \
        if (!next_##name) look_up();                   \
        count(&counter);                               \
        return next_##name values;                     \
    }
NEXT_FUNCTIONS(NEXT_DEFINE)

const char *interpose_on(void)
{
    atomic_store(&allocations, 0);
    atomic_store(&locks, 0);
    atomic_store(&on, true);
    return NULL;
}

interpose_counts interpose_off(void)
{
    atomic_store(&on, false);
    return (interpose_counts){atomic_load(&allocations), atomic_load(&locks)};
}

#else

const char *interpose_on(void)
{
    return "calls of the C library are counted with glibc and without a sanitizer only";
}

interpose_counts interpose_off(void) { return (interpose_counts){0, 0}; }
#endif
