/* SPDX-License-Identifier: MIT */
/*
 * Tenon's side of the benchmarks, through the public API alone: bench_cases CASE, then the protocol of
 * parts/bench_serve.h.  What a case computes is checked here where a few elements can be, since a fast wrong
 * kernel is worth nothing.
 *
 * Environment: BENCH_THREADS, BENCH_DATA (unset: random data of MNIST's shape); the driver sets DEV, CACHE and
 * NUM_CPU_THREADS.
 */
#include "parts/bench_serve.h"
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { BATCH = 128, CHAIN = 256 };

static char complaint[512]; /* what a check found */

static bool complain(const char *text, double got, double want)
{
    snprintf(complaint, sizeof complaint, "%s: %.9g, should be %.9g", text, got, want);
    return false;
}

static const char *why(void)
{
    const tn_error *e = tn_last_error();
    return complaint[0] ? complaint : e ? e->msg : NULL;
}

static const char *version(void)
{
    static char text[160];
    snprintf(text, sizeof text, "Tenon %s", tn_version());
    return text;
}

/* ---- a function of tensors, called in a loop ------------------------------------------------------ */
static struct {
    tn_jit_fn *fn;
    void *user;
    tn_tensor *in[4];
    size_t n;
    tn_jit *jit; /* NULL: run as it is */
} loop;

static bool loop_start(bool jit, tn_jit_fn *fn, void *user)
{
    loop.fn = fn;
    loop.user = user;
    if (jit && !(loop.jit = tn_jit_new(fn, user))) return false;
    return tn_ok();
}

static tn_tensor *loop_call(void)
{
    const tn_inputs in = {loop.n, loop.in};
    return loop.jit ? tn_jit_call(loop.jit, &in) : loop.fn(loop.user, &in);
}

/* One call, waited for; all of the result to out where that is given. */
static bool loop_run(float *out, size_t n)
{
    TN_SCOPE;
    tn_tensor *y = loop_call();
    if (out) return tn_data(y, out, n * sizeof *out);
    return tn_realize(y) && tn_sync(NULL) && tn_ok();
}

/* What every set-up ends with: the first run, the capture, a replay. */
static bool loop_warm(void) { return loop_run(NULL, 0) && loop_run(NULL, 0) && loop_run(NULL, 0); }

static bool once_plain(double *value)
{
    (void)value;
    return loop_run(NULL, 0);
}

static bool input(tn_tensor *t)
{
    loop.in[loop.n] = tn_keep(t);
    return tn_realize(loop.in[loop.n++]);
}

static float *host(size_t i, size_t n)
{
    float *p = malloc(n * sizeof *p);
    if (p && !tn_data(loop.in[i], p, n * sizeof *p)) {
        free(p);
        return NULL;
    }
    return p;
}

static bool close_to(const char *what, double got, double want)
{
    return fabs(got - want) <= 1e-4 * fabs(want) + 1e-5 ? true : complain(what, got, want);
}

/* ---- the tutorial: examples/mnist.c ------------------------------------------------------------------ */
static struct {
    tn_nn_conv2d l1, l2;
    tn_nn_linear l3;
    tn_optim *opt;
    tn_mnist data;
    double loaded_kb;
} net;

static void net_visit(tn_visitor *v, void *obj)
{
    (void)obj;
    tn_field(v, &net, l1);
    tn_field(v, &net, l2);
    tn_field(v, &net, l3);
}

static tn_tensor *forward(tn_tensor *x)
{
    x = tn_max_pool2d(tn_relu(tn_call(&net.l1, x)), .kernel = {2, 2});
    x = tn_max_pool2d(tn_relu(tn_call(&net.l2, x)), .kernel = {2, 2});
    x = tn_dropout(tn_flatten(x, .start = 1), 0.5);
    return tn_call(&net.l3, x);
}

static tn_tensor *train_step(void *user, const tn_inputs *in)
{
    TN_WITH(TN_TRAINING, 1);
    (void)user;
    tn_tensor *pick = tn_randint(SHAPE(BATCH), .high = tn_dim(in->t[0], 0));
    tn_tensor *x = tn_index(in->t[0], pick), *y = tn_index(in->t[1], pick);
    tn_optim_zero_grad(net.opt);
    tn_tensor *loss = tn_backward(tn_sparse_categorical_crossentropy(forward(x), y));
    tn_optim_step(net.opt);
    return loss;
}

static tn_tensor *accuracy(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_mean(tn_eq(tn_argmax(forward(in->t[0]), AX(1)), in->t[1]));
}

static tn_tensor *random_bytes(const tn_shape *shape, int64_t high)
{
    tn_tensor *t = tn_keep(tn_cast(tn_randint(shape, .high = high), TN_U8));
    tn_realize(t);
    return t;
}

/* Data and network; `training`: with its optimizer. */
static bool net_start(bool training)
{
    const char *folder = getenv("BENCH_DATA");
    if (folder && *folder) {
        if (!tn_mnist_load(&net.data, folder)) return false;
    } else {
        TN_SCOPE;
        net.data.x_train = random_bytes(SHAPE(60000, 1, 28, 28), 256);
        net.data.y_train = random_bytes(SHAPE(60000), 10);
        net.data.x_test = random_bytes(SHAPE(10000, 1, 28, 28), 256);
        net.data.y_test = random_bytes(SHAPE(10000), 10);
    }
    tn_sync(NULL);
    serve_forget_peak();
    net.loaded_kb = serve_status_kb("VmRSS");
    tn_nn_conv2d_init(&net.l1, 1, 32, 3);
    tn_nn_conv2d_init(&net.l2, 32, 64, 3);
    tn_nn_linear_init(&net.l3, 1600, 10);
    if (training) net.opt = tn_adam_new(&net, net_visit, .lr = 1e-3);
    loop.n = 2;
    loop.in[0] = training ? net.data.x_train : net.data.x_test;
    loop.in[1] = training ? net.data.y_train : net.data.y_test;
    return tn_ok();
}

/* One step or evaluation with its figure read, as a program reads it. */
static bool once_item(double *value)
{
    TN_SCOPE;
    (void)value;
    double y = tn_item(loop_call());
    return tn_ok() && (isfinite(y) ? true : complain("loss or accuracy", y, 0));
}

static bool three_items(void)
{
    double unused = 0;
    return once_item(&unused) && once_item(&unused) && once_item(&unused);
}

static bool setup_step(const char *name)
{
    bool jit = strcmp(name, "mnist_eager") != 0;
    return net_start(true) && loop_start(jit, train_step, NULL) && three_items();
}

/* Ready when the first step is done: what the driver times is the way up to it. */
static bool setup_first(const char *name)
{
    double unused = 0;
    (void)name;
    return net_start(true) && loop_start(true, train_step, NULL) && once_item(&unused);
}

static bool setup_eval(const char *name)
{
    (void)name;
    return net_start(false) && loop_start(true, accuracy, NULL) && three_items();
}

static bool setup_peak(const char *name)
{
    (void)name;
    return net_start(true) && loop_start(true, train_step, NULL);
}

static bool once_peak(double *kb)
{
    if (!once_item(kb)) return false;
    *kb = serve_status_kb("VmHWM") - net.loaded_kb;
    return true;
}

/* ---- what a replayed kernel costs the host ------------------------------------------------------------ */
static double kernels_a_call;
static int chain_length = CHAIN;

static double kernels_now(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return (double)c.kernels;
}

/* The step without a jit on a device that runs nothing: graph, plan look-up and submission. */
static bool setup_plan(const char *name)
{
    (void)name;
    if (!net_start(true) || !loop_start(false, train_step, NULL) || !loop_warm()) return false;
    double before = kernels_now();
    if (!loop_run(NULL, 0)) return false;
    double kernels = kernels_now() - before;
    return kernels >= 6 ? true : complain("kernels of a step", kernels, 30);
}

static tn_tensor *chain(void *user, const tn_inputs *in)
{
    tn_tensor *x = in->t[0];
    (void)user;
    for (int i = 0; i < chain_length; i++) x = tn_contiguous(tn_add(x, 1));
    return x;
}

/* replay_null: a long chain, the figure is that of a kernel; replay_call: one kernel, that of a call. */
static bool setup_replay(const char *name)
{
    if (!strcmp(name, "replay_call")) chain_length = 1;
    TN_SCOPE;
    if (!input(tn_zeros(SHAPE(8))) || !loop_start(true, chain, NULL) || !loop_warm()) return false;
    double before = kernels_now();
    if (!loop_run(NULL, 0)) return false;
    kernels_a_call = kernels_now() - before;
    if (kernels_a_call > chain_length / 2) return true;
    return complain("kernels of the chain", kernels_a_call, chain_length);
}

static bool once_replay(double *us)
{
    double start = serve_now_ms();
    if (!loop_run(NULL, 0)) return false;
    *us = (serve_now_ms() - start) * 1e3 / kernels_a_call;
    return true;
}

/* ---- single operations -------------------------------------------------------------------------------- */
static tn_tensor *product(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_matmul(in->t[0], in->t[1]);
}

static bool setup_matmul(const char *name)
{
    const int n = atoi(name + strlen("matmul_"));
    const size_t nn = (size_t)n * (size_t)n;
    TN_SCOPE;
    if (!input(tn_rand(SHAPE(n, n))) || !input(tn_rand(SHAPE(n, n)))) return false;
    if (!loop_start(true, product, NULL) || !loop_warm()) return false;
    float *a = host(0, nn), *b = host(1, nn), *c = malloc(nn * sizeof *c);
    bool ok = a && b && c && loop_run(c, nn);
    for (int t = 0; ok && t < 50; t++) {
        const int i = t * 7919 % n, j = n - 1 - t * 104729 % n;
        double want = 0;
        for (int k = 0; k < n; k++) want += (double)a[i * n + k] * b[k * n + j];
        ok = close_to("element of the product", c[i * n + j], want);
    }
    free(a), free(b), free(c);
    return ok;
}

static tn_tensor *convolution(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_conv2d(in->t[0], in->t[1], .bias = in->t[2]);
}

/* The tutorial's second convolution, 94 % of its work. */
static bool setup_conv2d(const char *name)
{
    enum { N = 128, CI = 32, CO = 64, H = 13, O = 11 };
    TN_SCOPE;
    (void)name;
    if (!input(tn_rand(SHAPE(N, CI, H, H))) || !input(tn_rand(SHAPE(CO, CI, 3, 3))) ||
        !input(tn_rand(SHAPE(CO))))
        return false;
    if (!loop_start(true, convolution, NULL) || !loop_warm()) return false;
    float *x = host(0, N * CI * H * H), *w = host(1, CO * CI * 9), *b = host(2, CO);
    float *y = malloc(sizeof(float) * N * CO * O * O);
    bool ok = x && w && b && y && loop_run(y, N * CO * O * O);
    for (int t = 0; ok && t < 50; t++) {
        const int n = t * 31 % N, o = t * 37 % CO, r = t * 5 % O, s = t * 7 % O;
        double want = b[o];
        for (int c = 0; c < CI; c++)
            for (int k = 0; k < 9; k++)
                want += (double)x[((n * CI + c) * H + r + k / 3) * H + s + k % 3] *
                        w[(o * CI + c) * 9 + k];
        ok = close_to("element of the convolution", y[((n * CO + o) * O + r) * O + s], want);
    }
    free(x), free(w), free(b), free(y);
    return ok;
}

static tn_tensor *mixed(void *user, const tn_inputs *in)
{
    tn_tensor *a = in->t[0], *b = in->t[1];
    (void)user;
    return tn_add(tn_div(tn_relu(tn_add(tn_mul(a, b), a)), 2), b);
}

static bool setup_elementwise(const char *name)
{
    const size_t n = (size_t)1 << 24;
    TN_SCOPE;
    (void)name;
    if (!input(tn_rand(SHAPE((int64_t)n))) || !input(tn_rand(SHAPE((int64_t)n)))) return false;
    if (!loop_start(true, mixed, NULL) || !loop_warm()) return false;
    float *a = host(0, n), *b = host(1, n), *y = malloc(n * sizeof *y);
    bool ok = a && b && y && loop_run(y, n);
    for (size_t i = 0; ok && i < n; i += 99991)
        ok = close_to("element", y[i], ((double)a[i] * b[i] + a[i]) / 2 + b[i]);
    free(a), free(b), free(y);
    return ok;
}

static tn_tensor *row_softmax(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_softmax(in->t[0]);
}

static bool setup_softmax(const char *name)
{
    const size_t rows = 4096, n = 1024;
    TN_SCOPE;
    (void)name;
    if (!input(tn_rand(SHAPE((int64_t)rows, (int64_t)n))) || !loop_start(true, row_softmax, NULL) ||
        !loop_warm())
        return false;
    float *x = host(0, rows * n), *y = malloc(rows * n * sizeof *y);
    bool ok = x && y && loop_run(y, rows * n);
    for (size_t r = 0; ok && r < rows; r += 501) {
        double sum = 0;
        for (size_t i = 0; i < n; i++) sum += exp((double)x[r * n + i]);
        ok = close_to("element of a row", y[r * n + r % n], exp((double)x[r * n + r % n]) / sum);
    }
    free(x), free(y);
    return ok;
}

/* ---- memory: a kernel that reads and writes 256 MB each, and what the machine itself does ---------------- */
enum { COPY_FLOATS = 64000000 };

static tn_tensor *negate(void *user, const tn_inputs *in)
{
    (void)user;
    return tn_neg(in->t[0]);
}

static bool setup_copy(const char *name)
{
    TN_SCOPE;
    (void)name;
    return input(tn_rand(SHAPE(COPY_FLOATS))) && loop_start(true, negate, NULL) && loop_warm();
}

static struct {
    char *to, *from;
} mem;

static bool setup_memcpy(const char *name)
{
    const size_t n = (size_t)COPY_FLOATS * sizeof(float);
    (void)name;
    if (!(mem.to = malloc(n)) || !(mem.from = malloc(n)))
        return complain("memory for a copy", 0, (double)n);
    memset(mem.to, 1, n);
    memset(mem.from, 2, n);
    return true;
}

static void *copy_part(void *arg)
{
    const size_t i = (size_t)(uintptr_t)arg,
                 part = (size_t)COPY_FLOATS * sizeof(float) / (size_t)serve_threads();
    memcpy(mem.to + i * part, mem.from + i * part, part);
    return NULL;
}

static bool once_memcpy(double *value)
{
    pthread_t other[64];
    int n = serve_threads() > 64 ? 64 : serve_threads(), started = 0;
    (void)value;
    for (int i = 1; i < n; i++)
        if (!pthread_create(&other[started], NULL, copy_part, (void *)(uintptr_t)i)) started++;
    copy_part(NULL);
    for (int i = 0; i < started; i++) pthread_join(other[i], NULL);
    return started == n - 1 ? true : complain("threads of a copy", started + 1, n);
}

static const char *memcpy_name(void) { return "memcpy"; }

/* ---- the list ------------------------------------------------------------------------------------------- */
static const serve_case cases[] = {
    {"mnist_step", setup_step, once_item},
    {"mnist_eager", setup_step, once_item},
    {"mnist_first", setup_first, once_item},
    {"mnist_eval", setup_eval, once_item},
    {"step_peak", setup_peak, once_peak},
    {"plan_lookup", setup_plan, once_plain},
    {"replay_null", setup_replay, once_replay},
    {"replay_call", setup_replay, once_replay},
    {"matmul_1000", setup_matmul, once_plain},
    {"matmul_1024", setup_matmul, once_plain},
    {"matmul_1537", setup_matmul, once_plain},
    {"conv2d", setup_conv2d, once_plain},
    {"elementwise", setup_elementwise, once_plain},
    {"softmax", setup_softmax, once_plain},
    {"copy", setup_copy, once_plain},
    {"memcpy", setup_memcpy, once_memcpy},
};

int main(int argc, char **argv)
{
    for (size_t i = 0; argc == 2 && i < sizeof cases / sizeof *cases; i++) {
        if (strcmp(cases[i].name, argv[1]) != 0) continue;
        return serve(&cases[i], cases[i].once == once_memcpy ? memcpy_name : version, why);
    }
    fprintf(stderr, "usage: bench_cases CASE\n");
    return 2;
}
