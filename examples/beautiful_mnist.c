/* SPDX-License-Identifier: MIT */
/*
 * beautiful_mnist.c -- a bigger network with batch norms on MNIST: 97 % after 100 steps.
 *
 *     cc beautiful_mnist.c $(pkg-config --cflags --libs tenon) -o beautiful_mnist
 *
 * Environment: BS (512), STEPS (70), FASHION=1, MUON=1 or SGD=1 in place of Adam, SEED, TARGET_EVAL_ACC_PCT: the
 * exit status is 1 when the last test accuracy is below it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

typedef struct {
    tn_nn_conv2d c1, c2, c3, c4;
    tn_nn_batchnorm2d b1, b2;
    tn_nn_linear out;
} model;

static void model_init(model *m)
{
    tn_nn_conv2d_init(&m->c1, 1, 32, 5);
    tn_nn_conv2d_init(&m->c2, 32, 32, 5);
    tn_nn_batchnorm_init(&m->b1, 32);
    tn_nn_conv2d_init(&m->c3, 32, 64, 3);
    tn_nn_conv2d_init(&m->c4, 64, 64, 3);
    tn_nn_batchnorm_init(&m->b2, 64);
    tn_nn_linear_init(&m->out, 576, 10);
}

static void model_visit(tn_visitor *v, void *obj)
{
    model *m = obj;
    tn_field(v, m, c1);
    tn_field(v, m, c2);
    tn_field(v, m, b1);
    tn_field(v, m, c3);
    tn_field(v, m, c4);
    tn_field(v, m, b2);
    tn_field(v, m, out);
}

static tn_tensor *pool(tn_tensor *x) { return tn_max_pool2d(x); }
static tn_tensor *flat(tn_tensor *x) { return tn_flatten(x, .start = 1); }

/* Layers and functions, one after the other. */
static tn_tensor *forward(const model *m, tn_tensor *x)
{
    return tn_sequential(x, TN_L(&m->c1), TN_F(tn_relu), TN_L(&m->c2), TN_F(tn_relu), TN_L(&m->b1),
                         TN_F(pool), TN_L(&m->c3), TN_F(tn_relu), TN_L(&m->c4), TN_F(tn_relu),
                         TN_L(&m->b2), TN_F(pool), TN_F(flat), TN_L(&m->out));
}

typedef struct {
    model net;
    tn_optim *opt;
    int batch;
} app;

static tn_tensor *train_step(void *user, const tn_inputs *in)
{
    app *a = user;
    TN_WITH(TN_TRAINING, 1);
    tn_optim_zero_grad(a->opt);
    tn_tensor *pick = tn_randint(SHAPE(a->batch), .high = tn_dim(in->t[0], 0));
    tn_tensor *x = tn_index(in->t[0], pick), *y = tn_index(in->t[1], pick);
    tn_tensor *loss = tn_backward(tn_sparse_categorical_crossentropy(forward(&a->net, x), y));
    tn_optim_step(a->opt);
    return loss;
}

static tn_tensor *test_accuracy(void *user, const tn_inputs *in)
{
    app *a = user;
    return tn_mul(tn_mean(tn_eq(tn_argmax(forward(&a->net, in->t[0]), AX(1)), in->t[1])), 100);
}

int main(void)
{
    app a = {.batch = (int)tn_getenv_int("BS", 512)};
    tn_mnist d = {0};
    tn_jit *step = NULL, *test = NULL;
    double acc = 0;

    if (!tn_mnist_load(&d, NULL, .fashion = tn_getenv_int("FASHION", 0) != 0)) goto done;
    model_init(&a.net);
    a.opt = tn_getenv_int("MUON", 0)  ? tn_muon_new(&a.net, model_visit)
            : tn_getenv_int("SGD", 0) ? tn_sgd_new(&a.net, model_visit)
                                      : tn_adam_new(&a.net, model_visit);
    step = tn_jit_new(train_step, &a);
    test = tn_jit_new(test_accuracy, &a);
    const int64_t steps = tn_getenv_int("STEPS", 70);
    TN_BAR(bar, steps)
    {
        TN_SCOPE;
        tn_tensor *loss = tn_jit_call(step, IN(d.x_train, d.y_train));
        if (bar.i % 10 == 9 || bar.i + 1 == steps) {
            acc = tn_item(tn_jit_call(test, IN(d.x_test, d.y_test)));
            tn_bar_print(&bar, "step %4d, loss %6.2f, acc %5.2f%%", (int)bar.i, tn_item(loss), acc);
        }
    }

done:;
    const tn_error *e = tn_last_error();
    if (e) fprintf(stderr, "beautiful_mnist: %s\n", e->msg);
    const double target = (double)tn_getenv_int("TARGET_EVAL_ACC_PCT", 0);
    if (!e && target > 0)
        printf("test accuracy %.2f%%: %s the target %.0f%%\n", acc,
               acc >= target ? "reaches" : "is below", target);
    tn_jit_free(step);
    tn_jit_free(test);
    tn_optim_free(a.opt);
    tn_state_free(&a.net, model_visit);
    tn_state_free(&d, tn_mnist_visit);
    return e || acc < target ? EXIT_FAILURE : EXIT_SUCCESS;
}
