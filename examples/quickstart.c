/* SPDX-License-Identifier: MIT */
/*
 * quickstart.c -- everything for a neural network, written out: a layer of one's own, a loss of one's own, SGD over
 * a list of parameters, batches drawn by the program, with and without a JIT.  quickstart.md explains it.
 *
 *     cc quickstart.c $(pkg-config --cflags --libs tenon) -lm -o quickstart
 *
 * Environment: STEPS (1000), EVALS (1000), BS (64), SEED, FASHION=1.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <tenon/tenon.h>

/* ---- a layer: a struct, an initialiser, a walker, a call ---- */
typedef struct {
    tn_tensor *weight, *bias;
} linear;

static void linear_init(linear *l, int in, int out, bool bias)
{
    TN_SCOPE;
    const double a = 1 / sqrt(in);
    l->weight = tn_keep(tn_param(tn_uniform(SHAPE(out, in), .low = -a, .high = a)));
    l->bias = bias ? tn_keep(tn_param(tn_zeros(SHAPE(out)))) : NULL;
}

static void linear_visit(tn_visitor *v, void *obj)
{
    linear *l = obj;
    tn_field(v, l, weight);
    tn_field(v, l, bias); /* NULL is skipped */
}

static tn_tensor *linear_call(const linear *l, tn_tensor *x)
{
    x = tn_matmul(x, tn_transpose(l->weight, 0, 1));
    return l->bias ? tn_add(x, l->bias) : x;
}

/* ---- a network of two ---- */
typedef struct {
    linear l1, l2;
} net;

static void net_visit(tn_visitor *v, void *obj)
{
    net *n = obj;
    tn_visit_sub(v, "l1", &n->l1, linear_visit);
    tn_visit_sub(v, "l2", &n->l2, linear_visit);
}

static tn_tensor *forward(const net *n, tn_tensor *x)
{
    return linear_call(&n->l2, tn_leaky_relu(linear_call(&n->l1, x)));
}

/* The library's loss, and the same by hand: minus the mean of the right classes' log probabilities. */
static tn_tensor *built_in_loss(tn_tensor *out, tn_tensor *y)
{
    return tn_sparse_categorical_crossentropy(out, y);
}

static tn_tensor *own_loss(tn_tensor *out, tn_tensor *y)
{
    tn_tensor *mask = tn_eq(tn_unsqueeze(y, -1), tn_arange(tn_dim(out, 1)));
    tn_tensor *picked = tn_where(mask, tn_log_softmax(out), 0);
    return tn_neg(tn_div(tn_sum(picked), (double)tn_dim(out, 0)));
}

typedef struct {
    net n;
    tn_optim *opt;
    tn_tensor *(*loss)(tn_tensor *out, tn_tensor *y);
} app;

static tn_tensor *train_step(void *user, const tn_inputs *in)
{
    app *a = user;
    TN_WITH(TN_TRAINING, 1);
    tn_tensor *out = forward(&a->n, in->t[0]);
    tn_optim_zero_grad(a->opt);
    tn_tensor *loss = tn_backward(a->loss(out, in->t[1]));
    tn_jit_output("accuracy", tn_mean(tn_eq(tn_argmax(out, AX(1)), in->t[1])));
    tn_optim_step(a->opt);
    return loss;
}

static tn_tensor *accuracy(void *user, const tn_inputs *in)
{
    app *a = user;
    return tn_mean(tn_eq(tn_argmax(forward(&a->n, in->t[0]), AX(1)), in->t[1]));
}

/* ---- data: images as rows of bytes on the host, a batch drawn by the program ---- */
typedef struct {
    unsigned char *x, *y;
    int64_t n;
} images;

static bool images_from(images *to, tn_tensor *x, tn_tensor *y)
{
    to->n = tn_dim(y, 0);
    to->x = malloc((size_t)to->n * 784);
    to->y = malloc((size_t)to->n);
    return to->x && to->y && tn_data(x, to->x, (size_t)to->n * 784) &&
           tn_data(y, to->y, (size_t)to->n);
}

static uint64_t draw; /* a small generator of the program's own */
static int64_t below(int64_t n)
{
    draw = draw * 6364136223846793005u + 1442695040888963407u;
    return (int64_t)((draw >> 33) % (uint64_t)n);
}

static void batch(const images *from, int64_t size, tn_tensor **x, tn_tensor **y)
{
    static float bx[1024 * 784];
    static unsigned char by[1024];
    for (int64_t i = 0; i < size; i++) {
        const int64_t k = below(from->n);
        for (int p = 0; p < 784; p++) bx[i * 784 + p] = from->x[k * 784 + p];
        by[i] = from->y[k];
    }
    *x = tn_from_data(bx, SHAPE(size, 784));
    *y = tn_from_data(by, SHAPE(size), .dtype = TN_U8);
}

static void train(app *a, const images *d, int64_t size, bool jit)
{
    TN_WITH(TN_JIT, jit);
    tn_jit *step = tn_jit_new(train_step, a);
    const int64_t steps = tn_getenv_int("STEPS", 1000);
    TN_BAR(bar, steps)
    {
        TN_SCOPE;
        tn_tensor *x, *y;
        batch(d, size, &x, &y);
        tn_tensor *loss = tn_jit_call(step, IN(x, y));
        if (bar.i % 100 == 0)
            tn_bar_print(&bar, "step %4d, loss %.2f, acc %.2f", (int)bar.i, tn_item(loss),
                         tn_item(tn_jit_get(step, "accuracy")));
    }
    tn_jit_free(step);
}

static void evaluate(app *a, const images *d, int64_t size, bool jit)
{
    TN_WITH(TN_JIT, jit);
    TN_TIMING(jit ? "evaluation with the JIT" : "evaluation without it");
    tn_jit *test = tn_jit_new(accuracy, a);
    const int64_t evals = tn_getenv_int("EVALS", 1000);
    double sum = 0;
    for (int64_t i = 0; i < evals && tn_ok(); i++) {
        TN_SCOPE;
        tn_tensor *x, *y;
        batch(d, size, &x, &y);
        sum += tn_item(tn_jit_call(test, IN(x, y)));
    }
    printf("test accuracy %.4f over %lld batches\n", sum / (double)evals, (long long)evals);
    tn_jit_free(test);
}

int main(void)
{
    const int64_t bs = tn_getenv_int("BS", 64), size = bs < 1 ? 1 : bs > 1024 ? 1024 : bs;
    app a = {.loss = built_in_loss};
    images train_set = {0}, test_set = {0};
    tn_mnist d = {0};

    draw = (uint64_t)tn_getenv_int("SEED", 0) + 1;
    bool ok = tn_mnist_load(&d, NULL, .fashion = tn_getenv_int("FASHION", 0) != 0) &&
              images_from(&train_set, d.x_train, d.y_train) &&
              images_from(&test_set, d.x_test, d.y_test);
    if (ok) {
        linear_init(&a.n.l1, 784, 128, false);
        linear_init(&a.n.l2, 128, 10, false);
        a.opt = tn_sgd_list(IN(a.n.l1.weight, a.n.l2.weight), .lr = 3e-4);
        train(&a, &train_set, size, false);
        evaluate(&a, &test_set, size, false);
        a.loss = own_loss;
        train(&a, &train_set, size, true);
        evaluate(&a, &test_set, size, true);
    }
    const tn_error *e = tn_last_error();
    if (e) fprintf(stderr, "quickstart: %s\n", e->msg);
    tn_optim_free(a.opt);
    tn_state_free(&a.n, net_visit);
    tn_state_free(&d, tn_mnist_visit);
    free(train_set.x), free(train_set.y), free(test_set.x), free(test_set.y);
    return ok && !e ? EXIT_SUCCESS : EXIT_FAILURE;
}
