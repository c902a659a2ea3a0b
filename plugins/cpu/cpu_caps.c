/* SPDX-License-Identifier: MIT */
/*
 * What this processor can do, from cpuid, sysfs, cgroups and sysconf.  Read once a process (a probe must
 * stay cheap) but for free memory.  The `driver` text names the compilers and holds a hash of their files, of
 * this plugin's sources and of the processor's features, because binaries are cached under it: kernels
 * compiled for another machine must not be found here.
 */
#define _GNU_SOURCE
#include "llvm_api.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#define X86 1
#endif

static tnp_caps fixed;
static uint32_t usable;
static uint64_t memory;
static uint64_t features[4];
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* First line of a small file; false if there is none. */
static bool read_line(const char *path, char *out, size_t cap)
{
    FILE *f = fopen(path, "re");
    if (!f) return false;
    bool ok = fgets(out, (int)cap, f) != NULL;
    fclose(f);
    if (ok) out[strcspn(out, "\n")] = 0;
    return ok;
}

/* Own cgroup (version 2) below /sys/fs/cgroup, "" for the root. */
static void own_cgroup(char *out, size_t cap)
{
    char line[512];
    out[0] = 0;
    FILE *f = fopen("/proc/self/cgroup", "re");
    if (!f) return;
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, "0::", 3)) {
            line[strcspn(line, "\n")] = 0;
            snprintf(out, cap, "%s", strcmp(line + 3, "/") ? line + 3 : "");
        }
    fclose(f);
}

/* Calls `see` with the first line of /sys/fs/cgroup/<group and each of its parents>/<file>. */
static void each_cgroup(const char *file, void (*see)(const char *line))
{
    char group[512], path[640], line[128];
    own_cgroup(group, sizeof group);
    for (;;) {
        snprintf(path, sizeof path, "/sys/fs/cgroup%s/%s", group, file);
        if (read_line(path, line, sizeof line)) see(line);
        char *slash = strrchr(group, '/');
        if (!slash) return;
        *slash = 0;
    }
}

static void see_cpu_max(const char *line)
{
    long long quota, period;
    if (sscanf(line, "%lld %lld", &quota, &period) != 2 || quota <= 0 || period <= 0) return;
    long long n = (quota + period - 1) / period;
    if (n < (long long)usable) usable = (uint32_t)(n < 1 ? 1 : n);
}

static void see_memory_max(const char *line)
{
    unsigned long long n;
    if (sscanf(line, "%llu", &n) == 1 && n && n < memory) memory = n;
}

static void count_cores(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    long online = sysconf(_SC_NPROCESSORS_ONLN);
    usable = online > 0 ? (uint32_t)online : 1;
    if (!sched_getaffinity(0, sizeof set, &set)) usable = (uint32_t)CPU_COUNT(&set);
    if (!usable) usable = 1;
    each_cgroup("cpu.max", see_cpu_max);
    char q[64], p[64], both[160];
    if (read_line("/sys/fs/cgroup/cpu/cpu.cfs_quota_us", q, sizeof q) &&
        read_line("/sys/fs/cgroup/cpu/cpu.cfs_period_us", p, sizeof p)) {
        snprintf(both, sizeof both, "%s %s", q, p);
        see_cpu_max(both);
    }
    if (usable > CPU_MAX_THREADS) usable = CPU_MAX_THREADS;
}

static void measure_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    memory = pages > 0 && size > 0 ? (uint64_t)pages * (uint64_t)size : 1ull << 32;
    each_cgroup("memory.max", see_memory_max);
}

static uint64_t available_memory(void)
{
    unsigned long long kib = 0;
    char line[128];
    FILE *f = fopen("/proc/meminfo", "re");
    if (f) {
        while (fgets(line, sizeof line, f))
            if (sscanf(line, "MemAvailable: %llu", &kib) == 1) break;
        fclose(f);
    }
    uint64_t n = (uint64_t)kib << 10;
    return n && n < memory ? n : memory;
}

static void measure_caches(void)
{
    char path[96], level[16], type[32], size[32];
    for (int i = 0; i < 8; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/level", i);
        if (!read_line(path, level, sizeof level)) break;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/type", i);
        if (!read_line(path, type, sizeof type)) break;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu0/cache/index%d/size", i);
        if (!read_line(path, size, sizeof size)) break;
        unsigned long long n = strtoull(size, NULL, 10);
        int l = atoi(level);
        if (strchr(size, 'K')) n <<= 10;
        if (strchr(size, 'M')) n <<= 20;
        if (l >= 1 && l <= 3 && strcmp(type, "Instruction")) fixed.cache_bytes[l - 1] = n;
    }
#ifdef _SC_LEVEL1_DCACHE_SIZE
    static const int names[3] = {_SC_LEVEL1_DCACHE_SIZE, _SC_LEVEL2_CACHE_SIZE,
                                 _SC_LEVEL3_CACHE_SIZE};
    for (int i = 0; i < 3; i++) {
        long n = fixed.cache_bytes[i] ? 0 : sysconf(names[i]);
        if (n > 0) fixed.cache_bytes[i] = (uint64_t)n;
    }
#endif
}

static const char *const no_ops[] = {NULL};
static const char *const fma_ops[] = {"fma", NULL};

#ifdef X86
static void identify(void)
{
    unsigned r[12] = {0};
    unsigned a, b, c, d;
    if (__get_cpuid(0x80000000u, &a, &b, &c, &d) && a >= 0x80000004u)
        for (unsigned i = 0; i < 3; i++)
            __get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]);
    snprintf(fixed.name, sizeof fixed.name, "%.48s", r[0] ? (const char *)r : "x86-64");
    if (__get_cpuid(1, &a, &b, &c, &d)) {
        features[0] = (uint64_t)c << 32 | d;
        features[1] = a;
    }
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) {
        features[2] = (uint64_t)b << 32 | c;
        features[3] = d;
    }
    __builtin_cpu_init();
    const char *level = "x86-64";
    fixed.simd_bytes = 16;
    fixed.simd_regs = 16;
    fixed.ops = no_ops;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        level = "x86-64-avx2";
        fixed.simd_bytes = 32;
        fixed.ops = fma_ops;
        if (__builtin_cpu_supports("avx512f")) {
            level = "x86-64-avx512";
            fixed.simd_bytes = 64;
            fixed.simd_regs = 32;
        }
    }
    snprintf(fixed.arch, sizeof fixed.arch, "%s", level);
}
#else
static void identify(void)
{
#ifdef __aarch64__
    snprintf(fixed.name, sizeof fixed.name, "aarch64");
    snprintf(fixed.arch, sizeof fixed.arch, "aarch64");
    fixed.simd_bytes = 16;
    fixed.simd_regs = 32;
    fixed.ops = fma_ops;
#else
    snprintf(fixed.name, sizeof fixed.name, "processor");
    snprintf(fixed.arch, sizeof fixed.arch, "native");
    fixed.ops = no_ops;
#endif
}
#endif

/* Real base name of a compiler's file and, in `h`, a hash of what decides a binary's bytes; "" without one. */
static const char *compiler_file(const char *path, char *real, uint64_t *h)
{
    struct {
        uint64_t cpu[4], size, mtime, build;
    } key = {.cpu = {features[0], features[1], features[2], features[3]}, .build = CPU_BUILD_HASH};
    struct stat st;
    uint64_t both[2];
    if (!path[0] || !realpath(path, real) || stat(real, &st)) return "";
    key.size = (uint64_t)st.st_size;
    key.mtime = (uint64_t)st.st_mtime;
    cpu__hash(&key, sizeof key, both);
    *h ^= both[0];
    const char *base = strrchr(real, '/');
    return base ? base + 1 : real;
}

static const char *const both[] = {"linear", "gnu-c", NULL};
static const char *const text[] = {"gnu-c", NULL};
static const char *const formats[] = {"so", NULL};

/* Binaries of both compilers are cached under this text.  libLLVM is looked for, not opened. */
static void name_driver(void)
{
    char path[1024], cc_file[4096], llvm_file[4096];
    uint64_t h = 0;
    cpu__compiler_path(path, sizeof path);
    const char *cc = compiler_file(path, cc_file, &h);
    const bool there = cpu__llvm_path(path, sizeof path);
    const char *llvm = there ? compiler_file(path, llvm_file, &h) : "";
    fixed.dialects = there ? both : text;
    if (!cc[0] && !there)
        snprintf(fixed.driver, sizeof fixed.driver, "no C compiler");
    else
        snprintf(fixed.driver, sizeof fixed.driver, "%.20s%s%.28s #%08x", llvm,
                 cc[0] && there ? " " : "", cc, (unsigned)h);
}

static void measure(void)
{
    count_cores();
    measure_memory();
    fixed = (tnp_caps){.kind = TNP_KIND_CPU,
                       .flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_VADDR |
                                TNP_F_TIMESTAMP | TNP_F_THREADS,
                       .mem_total = memory,
                       .max_buffer = memory,
                       .buf_align = 1,
                       .max_args = CPU_MAX_ARGS,
                       .subgroup = 1,
                       .max_local = {1, 1, 1},
                       .max_local_total = 1,
                       .max_grid = {0xffffffffu, 0xffffffffu, 0xffffffffu},
                       .dtypes_mem = (1u << TNP_DTYPE_COUNT) - 2,
                       .formats = formats};
    fixed.dtypes_alu = fixed.dtypes_mem & ~(1ull << TNP_F16 | 1ull << TNP_BF16);
    fixed.cores = usable;
    identify();
    measure_caches();
    name_driver();
}

void cpu__caps(uint32_t index, tnp_caps *out)
{
    pthread_once(&once, measure);
    tnp_caps c = fixed;
    snprintf(c.uid, sizeof c.uid, "cpu:%u", index);
    c.mem_free = available_memory();
    c.size = out->size < sizeof c ? out->size : (uint32_t)sizeof c;
    if (TNP_HAS(cpu__host, tnp_host, threads) && cpu__host->threads) c.cores = cpu__host->threads;
    memcpy(out, &c, c.size);
}

uint32_t cpu__cores(void)
{
    pthread_once(&once, measure);
    return usable;
}

uint64_t cpu__mem_total(void)
{
    pthread_once(&once, measure);
    return memory;
}

const char *cpu__arch(void)
{
    pthread_once(&once, measure);
    return fixed.arch;
}
