/* SPDX-License-Identifier: MIT */
/*
 * The peer of the matrix products: OpenBLAS, opened at run time where it is installed (libopenblas0).
 * usage: bench_openblas matmul_N | matmul_tuned_N, then the protocol of parts/bench_serve.h.
 *
 * An OpenBLAS older than the processor may not know it and takes its oldest kernels, named Prescott, of a fifth of
 * the speed.  matmul_N leaves it at that, as a program that links it gets it; matmul_tuned_N then starts itself
 * again with the kernels that fit the vectors of this processor.  Threads: OPENBLAS_NUM_THREADS.
 */
#include "parts/bench_serve.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111 };

static struct {
    sgemm_fn *sgemm;
    char *(*config)(void), *(*core)(void);
    int n;
    float *a, *b, *c;
} s;

static const char *name(void)
{
    static char text[128];
    const char *config = s.config ? s.config() : "OpenBLAS";
    int words = 0;
    size_t i = 0;
    /* "OpenBLAS 0.3.21 NO_LAPACKE ..": two words of it */
    for (; config[i] && i + 32 < sizeof text; i++) {
        if (config[i] == ' ' && ++words == 2) break;
        text[i] = config[i];
    }
    snprintf(text + i, sizeof text - i, " %s", s.core ? s.core() : "");
    return text;
}

static const char *why(void) { return "no memory"; }

static bool setup(const char *which)
{
    const size_t n = (size_t)(s.n = atoi(strrchr(which, '_') + 1));
    float **all[] = {&s.a, &s.b, &s.c};
    for (size_t k = 0; k < 3; k++) {
        *all[k] = aligned_alloc(64, (n * n * sizeof(float) + 63) / 64 * 64);
        if (!*all[k]) return false;
        for (size_t i = 0; i < n * n; i++) (*all[k])[i] = (float)rand() / (float)RAND_MAX;
    }
    return true;
}

static bool once(double *value)
{
    const int n = s.n;
    (void)value;
    s.sgemm(ROW_MAJOR, NO_TRANS, NO_TRANS, n, n, n, 1, s.a, n, s.b, n, 0, s.c, n);
    return true;
}

/* Comes back where the choice was right, or nothing better is known. */
static void start_tuned(char **argv)
{
    const char *better = NULL;
#if defined(__x86_64__) && defined(__GNUC__)
    if (__builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw")) /* as Skylake-X has */
        better = "SKYLAKEX";
    else if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        better = "HASWELL";
#endif
    if (!better || !s.core || strcmp(s.core(), "Prescott") != 0 || getenv("OPENBLAS_CORETYPE"))
        return;
    setenv("OPENBLAS_CORETYPE", better, 1);
    execv("/proc/self/exe", argv);
}

int main(int argc, char **argv)
{
    if (argc != 2 || strncmp(argv[1], "matmul_", 7) != 0 || atoi(strrchr(argv[1], '_') + 1) < 1) {
        fprintf(stderr, "usage: bench_openblas matmul_N | matmul_tuned_N\n");
        return 2;
    }
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!lib) return serve_none("OpenBLAS is not installed: apt-get install libopenblas0");
    *(void **)&s.sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)&s.config = dlsym(lib, "openblas_get_config");
    *(void **)&s.core = dlsym(lib, "openblas_get_corename");
    if (!strncmp(argv[1], "matmul_tuned_", 13)) start_tuned(argv);
    if (!s.sgemm) return serve_none("libopenblas.so.0 has no cblas_sgemm");
    return serve(&(serve_case){argv[1], setup, once}, name, why);
}
