/* SPDX-License-Identifier: MIT */
/*
 * Captured functions: replays against eager steps, what may be an input, closures, memory, errors by their
 * texts.  All of it runs on the device that DEV names and, where a test says so, on both CPU and INTERP.
 */
#include "../test.h"
#include "base/base.h"
#include "device/device.h"
#include "tensor/handle.h"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#define N 6

static void clean(void)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(!e, "an error is pending: %s", e ? e->msg : "");
}

/* The pending error has this code and its text contains `part`; clears it. */
static void fails(tn_code code, const char *part)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "no error, not '%s'", part);
    ck_assert_msg(e->code == code, "%s, not %s: %s", tn_code_name(e->code), tn_code_name(code), e->msg);
    ck_assert_msg(strstr(e->msg, part) != NULL, "'%s' does not say '%s'", e->msg, part);
    tn_clear_error();
}

static tn_tensor *vec(const float *v, int64_t n) { return tn_from_data(v, SHAPE(n), .dtype = TN_F32); }

static tn_tensor *ramp(float first, float step)
{
    float v[N];
    for (int i = 0; i < N; i++) v[i] = first + step * (float)i;
    return vec(v, N);
}

static void read_n(tn_tensor *t, float *out, size_t n)
{
    ck_assert_msg(tn_data(t, out, n * sizeof *out), "%s", tn_last_error() ? tn_last_error()->msg : "");
}

static void same(tn_tensor *t, const float *want)
{
    float got[N];
    read_n(t, got, N);
    for (int i = 0; i < N; i++) ck_assert_msg(got[i] == want[i], "element %d: %g, not %g", i, (double)got[i], (double)want[i]);
}

static int ran; /* calls of the functions below */

static tn_tensor *twice_plus(void *user, const tn_inputs *in)
{
    (void)user;
    ran++;
    return tn_add(tn_mul(in->t[0], 2), in->t[1]);
}

START_TEST(the_function_runs_twice_and_is_replayed_then)
{
    tn_jit *j = tn_jit_new(twice_plus, NULL);
    ran = 0;
    for (int i = 0; i < 5; i++) {
        TN_SCOPE;
        tn_tensor *y = tn_jit_call(j, IN(ramp((float)i, 1), ramp(10, (float)i)));
        float want[N];
        for (int k = 0; k < N; k++) want[k] = 2 * ((float)i + (float)k) + 10 + (float)(i * k);
        same(y, want);
    }
    ck_assert_int_eq(ran, 2);
    tn_jit_reset(j);
    {
        TN_SCOPE;
        tn_jit_call(j, IN(ramp(0, 1), ramp(1, 1)));
    }
    ck_assert_int_eq(ran, 3);
    tn_jit_free(j);
    clean();
}
END_TEST

/* ---- a network of one layer, trained by hand ---- */

typedef struct {
    tn_tensor *w, *b, *lr;
    bool noise;
} net;

static void net_make(net *n)
{
    TN_SCOPE;
    float w[N], b = 0.25f, lr = 0.05f;
    for (int i = 0; i < N; i++) w[i] = 0.1f * (float)(i + 1);
    n->w = tn_keep(tn_param(vec(w, N)));
    n->b = tn_keep(tn_param(vec(&b, 1)));
    n->lr = tn_keep(vec(&lr, 1));
}

static void net_free(net *n)
{
    tn_free(n->w);
    tn_free(n->b);
    tn_free(n->lr);
}

/* The loss of a step that moves the parameters against their gradients. */
static tn_tensor *train(void *user, const tn_inputs *in)
{
    net *n = user;
    ran++;
    tn_tensor *x = in->t[0], *y = in->t[1];
    if (n->noise) x = tn_add(x, tn_rand(SHAPE(N)));
    tn_tensor *d = tn_sub(tn_add(tn_mul(x, n->w), n->b), y);
    tn_zero_grad(IN(n->w, n->b));
    tn_tensor *loss = tn_backward(tn_mean(tn_mul(d, d)));
    tn_assign(n->w, tn_sub(tn_detach(n->w), tn_mul(n->lr, tn_grad(n->w))));
    tn_assign(n->b, tn_sub(tn_detach(n->b), tn_mul(n->lr, tn_grad(n->b))));
    return loss;
}

typedef struct {
    float loss[64], w[N], b, grad[N];
    uint64_t counter;
} history;

static void run_training(history *h, int steps, int jit, bool noise)
{
    TN_SCOPE;
    TN_WITH(TN_JIT, jit);
    net n = {.noise = noise};
    uint64_t key;
    net_make(&n);
    tn_manual_seed(7);
    tn_jit *j = tn_jit_new(train, &n);
    for (int i = 0; i < steps; i++) {
        TN_SCOPE;
        h->loss[i] = (float)tn_item(tn_jit_call(j, IN(ramp(0.5f * (float)(i % 3), 0.3f), ramp(1, 0.1f * (float)(i % 4)))));
    }
    read_n(n.w, h->w, N);
    read_n(n.b, &h->b, 1);
    read_n(tn_grad(n.w), h->grad, N);
    tn_random_state(&key, &h->counter);
    tn_jit_free(j);
    net_free(&n);
    clean();
}

START_TEST(fifty_replays_equal_fifty_eager_steps_bit_for_bit)
{
    for (int noise = 0; noise < 2; noise++) {
        static history eager, replayed, single;
        run_training(&eager, 50, 0, noise);
        run_training(&replayed, 50, 1, noise);
        run_training(&single, 50, 2, noise);
        ck_assert_mem_eq(&eager, &replayed, sizeof eager);
        ck_assert_mem_eq(&eager, &single, sizeof eager);
        ck_assert(eager.loss[49] < eager.loss[0]);
        ck_assert_uint_eq(eager.counter, noise ? 50 * N : 0);
    }
}
END_TEST

Suite *suite_jit(void)
{
    Suite *s = suite_create("jit");
    TCase *t = tcase_create("jit");
    tcase_add_test(t, the_function_runs_twice_and_is_replayed_then);
    tcase_add_test(t, fifty_replays_equal_fifty_eager_steps_bit_for_bit);
    suite_add_tcase(s, t);
    return s;
}
