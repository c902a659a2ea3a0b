/* SPDX-License-Identifier: MIT */
/*
 * The peer of the matrix products: OpenBLAS, opened at run time where it is installed (libopenblas0).
 * usage: bench_openblas matmul_N, then the protocol of parts/bench_serve.h.  Threads: OPENBLAS_NUM_THREADS.
 */
#include "parts/bench_serve.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void sgemm_fn(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a,
                      int lda, const float *b, int ldb, float beta, float *c, int ldc);
enum { ROW_MAJOR = 101, NO_TRANS = 111 };

static struct {
    sgemm_fn *sgemm;
    char *(*config)(void);
    int n;
    float *a, *b, *c;
} s;

static const char *name(void)
{
    static char text[128];
    const char *config = s.config ? s.config() : "OpenBLAS";
    int words = 0;
    size_t i = 0;
    for (; config[i] && i + 1 < sizeof text;
         i++) { /* "OpenBLAS 0.3.21 NO_LAPACKE ..": two words of it */
        if (config[i] == ' ' && ++words == 2) break;
        text[i] = config[i];
    }
    text[i] = 0;
    return text;
}

static const char *why(void) { return "no memory"; }

static bool setup(const char *which)
{
    const size_t n = (size_t)(s.n = atoi(which + strlen("matmul_")));
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

int main(int argc, char **argv)
{
    if (argc != 2 || strncmp(argv[1], "matmul_", 7) != 0 || atoi(argv[1] + 7) < 1) {
        fprintf(stderr, "usage: bench_openblas matmul_N\n");
        return 2;
    }
    void *lib = dlopen("libopenblas.so.0", RTLD_NOW);
    if (!lib) return serve_none("OpenBLAS is not installed: apt-get install libopenblas0");
    *(void **)&s.sgemm = dlsym(lib, "cblas_sgemm");
    *(void **)&s.config = dlsym(lib, "openblas_get_config");
    if (!s.sgemm) return serve_none("libopenblas.so.0 has no cblas_sgemm");
    return serve(&(serve_case){argv[1], setup, once}, name, why);
}
