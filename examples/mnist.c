/* SPDX-License-Identifier: MIT */
/*
 * mnist.c -- trains a small convolutional network on handwritten digits, saves it, and checks in a second
 * process that the file gives the same network.
 *
 *     cc mnist.c $(pkg-config --cflags --libs tenon) -o mnist
 *     ./mnist [FILE]               trains, writes FILE (mnist.safetensors), then runs the check
 *     ./mnist check FILE SUM       loads FILE; its outputs must have the checksum SUM
 *
 * Environment: STEPS (7000), BS (128), SEED, FASHION=1, GPUS=CPU:0,CPU:1 (several devices), JIT=0 (every step
 * is built anew), TENON_DATASETS (folder of the data), STATE=file (where a run leaves what it needs to go on),
 * RESUME=file (a state to go on from).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/tenon.h>
#include <unistd.h>

/* A model is a plain struct; only what has state is a field. */
typedef struct {
    tn_nn_conv2d l1, l2;
    tn_nn_linear l3;
} model;

static void model_init(model *m)
{
    tn_nn_conv2d_init(&m->l1, 1, 32, 3);
    tn_nn_conv2d_init(&m->l2, 32, 64, 3);
    tn_nn_linear_init(&m->l3, 1600, 10);
}

/* C has no reflection: one walker gives parameters, save, load, shard, cast, count and free. */
static void model_visit(tn_visitor *v, void *obj)
{
    model *m = obj;
    tn_field(v, m, l1);
    tn_field(v, m, l2);
    tn_field(v, m, l3);
}

/* Every value made here belongs to the caller's scope; reassigning x leaks nothing. */
static tn_tensor *forward(const model *m, tn_tensor *x)
{
    x = tn_max_pool2d(tn_relu(tn_call(&m->l1, x)), .kernel = {2, 2});
    x = tn_max_pool2d(tn_relu(tn_call(&m->l2, x)), .kernel = {2, 2});
    x = tn_dropout(tn_flatten(x, .start = 1), 0.5);
    return tn_call(&m->l3, x);
}

typedef struct {
    model net;
    tn_optim *opt;
    uint64_t step;
    int batch;
} app;

/* All that a run needs to go on where it stopped. */
static void app_visit(tn_visitor *v, void *obj)
{
    app *a = obj;
    tn_visit_sub(v, "net", &a->net, model_visit);
    tn_visit_sub(v, "optim", a->opt, tn_optim_visit);
    tn_visit_sub(v, "random", a, tn_random_visit);
    tn_visit_number(v, "step", &a->step);
}

/* Captured whole, optimizer included.  Data enters only through in[]; C numbers freeze at capture. */
static tn_tensor *train_step(void *user, const tn_inputs *in)
{
    app *a = user;
    TN_WITH(TN_TRAINING, 1);
    tn_tensor *pick = tn_randint(SHAPE(a->batch), .high = tn_dim(in->t[0], 0));
    tn_tensor *x = tn_index(in->t[0], pick), *y = tn_index(in->t[1], pick);
    tn_optim_zero_grad(a->opt);
    tn_tensor *loss = tn_backward(tn_sparse_categorical_crossentropy(forward(&a->net, x), y));
    tn_optim_step(a->opt);
    return loss;
}

static tn_tensor *accuracy(void *user, const tn_inputs *in)
{
    app *a = user;
    tn_tensor *guess = tn_argmax(forward(&a->net, in->t[0]), AX(1));
    return tn_mul(tn_mean(tn_eq(guess, in->t[1])), 100);
}

static bool train(app *a, const tn_mnist *d)
{
    const int64_t steps = tn_getenv_int("STEPS", 7000), first = (int64_t)a->step;
    tn_jit *step = tn_jit_new(train_step, a);
    tn_jit *test = tn_jit_new(accuracy, a);
    TN_BAR(bar, steps - first)
    {             /* stops on error */
        TN_SCOPE; /* temporaries of one step die here */
        tn_tensor *loss = tn_jit_call(step, IN(d->x_train, d->y_train));
        if (a->step % 100 == 0) { /* tn_item waits for the device, so not every step */
            tn_tensor *acc = tn_jit_call(test, IN(d->x_test, d->y_test));
            tn_bar_print(&bar, "step %4d, loss %.2f, acc %.2f%%", (int)a->step, tn_item(loss),
                         tn_item(acc));
        }
        a->step++;
    }
    tn_jit_free(test);
    tn_jit_free(step);
    return tn_ok();
}

/* The bits of the outputs for the first 1000 test images in one number (FNV-1a). */
static uint64_t checksum(app *a, const tn_mnist *d)
{
    static float out[1000][10];
    uint64_t h = 14695981039346656037u;
    TN_SCOPE;
    tn_data(forward(&a->net, tn_index(d->x_test, TN_SLICE(0, 1000))), out, sizeof out);
    for (size_t i = 0; i < sizeof out; i++) h = (h ^ ((unsigned char *)out)[i]) * 1099511628211u;
    return h;
}

/* A second process: an untrained network that takes everything from the file. */
static bool check(app *a, const tn_mnist *d, const char *file, const char *sum)
{
    TN_SCOPE;
    if (!tn_safe_load(file, &a->net, model_visit)) return false;
    double acc = tn_item(accuracy(a, IN(d->x_test, d->y_test)));
    bool same = checksum(a, d) == strtoull(sum, NULL, 16);
    printf("%s: reloaded, acc %.2f%%, outputs %s\n", file, acc,
           same ? "equal bit for bit" : "DIFFER");
    return same && tn_ok();
}

static bool check_in_new_process(const char *program, const char *file, uint64_t sum)
{
    char hex[24];
    int status = 1;
    snprintf(hex, sizeof hex, "%016llx", (unsigned long long)sum);
    pid_t pid = fork();
    if (pid == 0) {
        execl(program, program, "check", file, hex, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int main(int argc, char **argv)
{
    const bool checking = argc == 4 && !strcmp(argv[1], "check");
    const char *out = argc > 1 ? argv[1] : "mnist.safetensors";
    const char *resume = getenv("RESUME"), *state = getenv("STATE");
    const tn_devices *gpus = tn_getenv_devices("GPUS"); /* GPUS=CUDA:0,CUDA:1 */
    app a = {.batch = (int)tn_getenv_int("BS", 128)};
    tn_mnist d = {0};
    bool ok = false;

    if (!tn_mnist_load(&d, NULL, .fashion = tn_getenv_int("FASHION", 0) != 0)) goto done;
    model_init(&a.net);
    if (checking) {
        ok = check(&a, &d, argv[2], argv[3]);
        goto done;
    }
    if (gpus) {                                        /* several devices in two lines */
        tn_state_replicate(&a.net, model_visit, gpus); /* a copy of the net on each */
        tn_state_shard(&d, tn_mnist_visit, gpus, 0);   /* the data split by row */
    }
    a.opt = tn_adam_new(&a.net, model_visit,
                        .lr = 1e-3); /* after placement: its state follows the parameters */
    printf("%lld parameters\n", (long long)tn_state_count(&a.net, model_visit));

    if (resume && !tn_safe_load(resume, &a, app_visit)) goto done;
    if (!train(&a, &d)) goto done;
    if (state && !tn_safe_save(state, &a, app_visit)) goto done;
    if (!tn_safe_save(out, &a.net, model_visit)) goto done;
    ok = check_in_new_process(argv[0], out, checksum(&a, &d));

done:;
    const tn_error *e =
        tn_last_error(); /* the first error of this thread, with the op and shapes */
    if (e) fprintf(stderr, "mnist: %s\n", e->msg);
    tn_optim_free(a.opt);
    tn_state_free(&a.net, model_visit);
    tn_state_free(&d, tn_mnist_visit);
    return ok && !e ? EXIT_SUCCESS : EXIT_FAILURE;
}
