/* SPDX-License-Identifier: MIT */
/*
 * Persistent threads that run one job at a time with the thread that brings it.
 *
 * 1. `gate` is the whole protocol: generation, an OPEN bit, a count of helpers inside.  The caller writes
 *    the job while the gate is shut, opens it with a new generation, works, shuts it and waits for those
 *    that are inside.  A helper that comes late finds it shut and never delays anybody.
 * 2. Work-groups are dealt by an atomic counter, a few at a time.
 * 3. Whoever finds the pool busy, or has little to do, runs all groups alone.
 * 4. Helpers spin for some microseconds, then sleep on the generation word.
 *
 * Results do not depend on who runs which group.  No lock is ever waited for by a caller.
 */
#define _GNU_SOURCE
#include "cpu.h"
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#else
#include <time.h>
#endif

#define OPEN          (1ull << 31)
#define INSIDE(g)     ((uint32_t)(g)&0x7fffffffu)
#define GENERATION(g) ((uint32_t)((g) >> 32))
enum { SPIN_NS = 20000 };

typedef struct {
    void *p;
    size_t n;
} scratch;

static struct {
    _Alignas(64) _Atomic uint64_t gate;
    _Alignas(64) _Atomic uint64_t next; /* first group nobody has taken */
    _Alignas(64) cpu__job job;
    uint64_t total, chunk;
    atomic_bool busy;
    _Atomic uint32_t generation; /* helpers sleep on it */
    _Atomic uint32_t done;       /* the caller sleeps on it */
    atomic_bool caller_sleeps, stop;
    atomic_uint sleepers;
    uint32_t wanted; /* threads with the caller; 0: not started */
    uint32_t running;
    pthread_t thread[CPU_MAX_THREADS];
} pool;

static pthread_key_t key;
static bool have_key;
static _Thread_local scratch mine; /* of a calling thread; `key` frees it */

/* ---- sleeping ---- */

static void park(_Atomic uint32_t *word, uint32_t value)
{
#ifdef __linux__
    syscall(SYS_futex, (uint32_t *)(void *)word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
#else
    if (atomic_load(word) == value) nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
#endif
}

static void unpark(_Atomic uint32_t *word)
{
#ifdef __linux__
    syscall(SYS_futex, (uint32_t *)(void *)word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
#else
    (void)word;
#endif
}

static void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- scratch memory: pages, so that untouched parts cost nothing ---- */

static void scratch_free(void *arg)
{
    scratch *s = arg;
    if (s->p) munmap(s->p, s->n);
    *s = (scratch){0};
}

static bool scratch_fit(scratch *s, uint64_t need)
{
    if (need <= s->n) return true;
    size_t n = ((size_t)need + 0xffff) & ~(size_t)0xffff;
    if (n < need) return false;
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return false;
    scratch_free(s);
    *s = (scratch){p, n};
    return true;
}

/* ---- running groups ---- */

/* Groups [i, end) in order, x fastest. */
static void run_groups(const cpu__job *j, uint64_t i, uint64_t end, void *tmp)
{
    const uint32_t gx = j->grid[0], gy = j->grid[1];
    uint32_t gid[3] = {(uint32_t)(i % gx), (uint32_t)(i / gx % gy), (uint32_t)(i / gx / gy)};
    for (; i < end; i++) {
        j->fn(j->bufs, j->imms, gid, tmp);
        if (++gid[0] < gx) continue;
        gid[0] = 0;
        if (++gid[1] < gy) continue;
        gid[1] = 0;
        gid[2]++;
    }
}

static void share(void *tmp)
{
    for (;;) {
        uint64_t i = atomic_fetch_add(&pool.next, pool.chunk);
        if (i >= pool.total) return;
        uint64_t end = i + pool.chunk;
        run_groups(&pool.job, i, end < pool.total ? end : pool.total, tmp);
    }
}

/* ---- helpers ---- */

static bool fresh(uint64_t g, uint32_t seen) { return (g & OPEN) && GENERATION(g) != seen; }

/* The gate, open with a generation that this helper has not seen; 0 when it is to end. */
static uint64_t await(uint32_t seen)
{
    uint64_t start = cpu__now_ns();
    do {
        for (int i = 0; i < 32; i++) {
            uint64_t g = atomic_load_explicit(&pool.gate, memory_order_acquire);
            if (fresh(g, seen)) return g;
            relax();
        }
        if (atomic_load(&pool.stop)) return 0;
    } while (cpu__now_ns() - start < SPIN_NS);
    for (;;) {
        atomic_fetch_add(&pool.sleepers, 1);
        uint32_t v = atomic_load(&pool.generation);
        uint64_t g = atomic_load(&pool.gate);
        bool stop = atomic_load(&pool.stop);
        if (!stop && !fresh(g, seen)) park(&pool.generation, v);
        atomic_fetch_sub(&pool.sleepers, 1);
        if (stop) return 0;
        if (fresh(g, seen)) return g;
    }
}

static void *helper(void *arg)
{
    scratch s = {0};
    uint32_t seen = (uint32_t)(uintptr_t)arg;
    for (;;) {
        uint64_t g = await(seen);
        if (!g) break;
        seen = GENERATION(g);
        bool in = false;
        while ((g & OPEN) && GENERATION(g) == seen && !in)
            in = atomic_compare_exchange_weak(&pool.gate, &g, g + 1);
        if (!in) continue;
        if (scratch_fit(&s, pool.job.scratch_bytes)) share(s.p);
        uint64_t left = atomic_fetch_sub(&pool.gate, 1) - 1;
        if (!(left & OPEN) && !INSIDE(left) && atomic_load(&pool.caller_sleeps)) {
            atomic_fetch_add(&pool.done, 1);
            unpark(&pool.done);
        }
    }
    scratch_free(&s);
    return NULL;
}

/* Called by the one that holds `busy`.  Threads that cannot be had are done without. */
static void start_threads(void)
{
    uint32_t want = TNP_HAS(cpu__host, tnp_host, threads) ? cpu__host->threads : 0;
    if (!want) want = cpu__cores();
    if (want > CPU_MAX_THREADS) want = CPU_MAX_THREADS;
    pool.wanted = want;
    pool.running = 0;
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    uintptr_t seen = GENERATION(atomic_load(&pool.gate));
    while (pool.running + 1 < want) {
        if (pthread_create(&pool.thread[pool.running], NULL, helper, (void *)seen)) break;
        pool.running++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* ---- callers ---- */

static void *own_scratch(uint64_t need)
{
    bool first = !mine.p;
    if (!scratch_fit(&mine, need)) return NULL;
    if (first && mine.p && have_key) pthread_setspecific(key, &mine);
    return mine.p;
}

static void wait_inside(void)
{
    uint64_t start = cpu__now_ns();
    do {
        for (int i = 0; i < 64; i++) {
            if (!INSIDE(atomic_load_explicit(&pool.gate, memory_order_acquire))) return;
            relax();
        }
    } while (cpu__now_ns() - start < 2 * SPIN_NS);
    atomic_store(&pool.caller_sleeps, true);
    for (;;) {
        uint32_t v = atomic_load(&pool.done);
        if (!INSIDE(atomic_load(&pool.gate))) break;
        park(&pool.done, v);
    }
    atomic_store(&pool.caller_sleeps, false);
}

static void run_shared(const cpu__job *j, uint64_t total, void *tmp)
{
    if (!pool.wanted) start_threads();
    if (!pool.running) {
        run_groups(j, 0, total, tmp);
        return;
    }
    pool.job = *j;
    pool.total = total;
    pool.chunk = total / (8 * (uint64_t)(pool.running + 1));
    if (!pool.chunk) pool.chunk = 1;
    atomic_store(&pool.next, 0);
    uint32_t gen = GENERATION(atomic_load(&pool.gate)) + 1;
    atomic_store(&pool.gate, (uint64_t)gen << 32 | OPEN);
    atomic_store(&pool.generation, gen);
    if (atomic_load(&pool.sleepers)) unpark(&pool.generation);
    share(tmp);
    if (INSIDE(atomic_fetch_and(&pool.gate, ~OPEN))) wait_inside();
}

/* The host's own threads: each body deals itself groups until there are none. */
typedef struct {
    const cpu__job *j;
    uint64_t total, chunk;
    _Atomic uint64_t next;
} foreign;

static void foreign_body(void *arg, uint32_t i)
{
    (void)i;
    foreign *f = arg;
    void *tmp = own_scratch(f->j->scratch_bytes);
    if (!tmp && f->j->scratch_bytes) return;
    for (;;) {
        uint64_t k = atomic_fetch_add(&f->next, f->chunk);
        if (k >= f->total) return;
        run_groups(f->j, k, k + f->chunk < f->total ? k + f->chunk : f->total, tmp);
    }
}

static void run_foreign(const cpu__job *j, uint64_t total, void *tmp)
{
    uint32_t n = cpu__host->threads ? cpu__host->threads : cpu__cores();
    foreign f = {.j = j, .total = total, .chunk = total / (8 * (uint64_t)n)};
    if (!f.chunk) f.chunk = 1;
    atomic_init(&f.next, 0);
    cpu__host->parallel_for(cpu__host->ctx, n, foreign_body, &f);
    uint64_t k = atomic_load(&f.next); /* where no thread of the host had scratch */
    if (k < total) run_groups(j, k, total, tmp);
}

bool cpu__pool_run(const cpu__job *j)
{
    uint64_t total = (uint64_t)j->grid[0] * j->grid[1] * j->grid[2];
    if (!total) return true;
    void *tmp = NULL;
    if (j->scratch_bytes && !(tmp = own_scratch(j->scratch_bytes))) return false;
    if (total == 1 || (j->work && j->work < CPU_SMALL_WORK)) {
        run_groups(j, 0, total, tmp);
    } else if (TNP_FN(cpu__host, tnp_host, parallel_for) && TNP_HAS(cpu__host, tnp_host, threads)) {
        run_foreign(j, total, tmp);
    } else if (atomic_exchange(&pool.busy, true)) {
        run_groups(j, 0, total, tmp);
    } else {
        run_shared(j, total, tmp);
        atomic_store(&pool.busy, false);
    }
    return true;
}

/* ---- life ---- */

tnp_rc cpu__pool_init(tnp_err *e)
{
    int err = have_key ? 0 : pthread_key_create(&key, scratch_free);
    if (err)
        return cpu__fail(e, TNP_E_NOMEM, err, "CPU: no thread-specific slot is left: %s",
                         strerror(err));
    have_key = true;
    return TNP_OK;
}

void cpu__pool_stop(void)
{
    while (atomic_exchange(&pool.busy, true)) relax();
    if (pool.running) {
        atomic_store(&pool.stop, true);
        atomic_fetch_add(&pool.generation, 1);
        unpark(&pool.generation);
        for (uint32_t i = 0; i < pool.running; i++) pthread_join(pool.thread[i], NULL);
        atomic_store(&pool.stop, false);
    }
    pool.running = pool.wanted = 0;
    atomic_store(&pool.busy, false);
}

void cpu__pool_fini(void)
{
    scratch_free(&mine);
    if (have_key) pthread_key_delete(key);
    have_key = false;
}

/* In the child only the forking thread is left; a job of another thread is gone with it. */
void cpu__pool_forked(void)
{
    pool.running = pool.wanted = 0;
    atomic_store(&pool.gate, 0);
    atomic_store(&pool.sleepers, 0);
    atomic_store(&pool.caller_sleeps, false);
    atomic_store(&pool.stop, false);
    atomic_store(&pool.busy, false);
}
