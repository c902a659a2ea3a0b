/* SPDX-License-Identifier: MIT */
/*
 * Every allocation failing in turn: making a model and its optimizer, a step, saving, loading.  Each ends either
 * well or with TN_ENOMEM; the state is then as before; nothing leaks.
 */
#include "nn_rig.h"
#include "base/base.h"
#include "tensor/handle.h"
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    tn_nn_linear l;
    tn_nn_batchnorm b;
    tn_optim *o;
} run;

static void net_visit(tn_visitor *v, void *obj)
{
    run *r = obj;
    tn_field(v, r, l);
    tn_field(v, r, b);
}

static void run_visit(tn_visitor *v, void *obj)
{
    run *r = obj;
    net_visit(v, obj);
    tn_visit_sub(v, "optim", r->o, tn_optim_visit);
}

static bool make(run *r)
{
    TN_SCOPE; /* of what a failure leaves */
    *r = (run){0};
    return tn_nn_linear_init(&r->l, 3, 4) && tn_nn_batchnorm_init(&r->b, 4) &&
           (r->o = tn_adam_new(r, net_visit)) && tn_state_realize(r, run_visit);
}

static void drop(run *r)
{
    tn_optim_free(r->o);
    tn_state_free(r, net_visit);
}

static bool step(run *r)
{
    TN_SCOPE;
    TN_WITH(TN_TRAINING, 1);
    tn_optim_zero_grad(r->o);
    tn_tensor *y = tn_call(&r->b, tn_call(&r->l, tn_ones(SHAPE(2, 3))));
    tn_backward(tn_sum(tn_mul(y, y)));
    return tn_optim_step(r->o) && tn_ok();
}

/* What a failed call must leave: the error's code, no pending write of a kept tensor. */
static void failed_well(uint64_t n, bool ok)
{
    ck_assert_msg(ok == tn_ok(), "allocation %d: %s", (int)n,
                  ok ? "an error without effect" : "no error");
    if (ok) return;
    const tn_error *e = tn_last_error();
    ck_assert_msg(e->code == TN_ENOMEM || e->code == TN_EOOM, "allocation %d: %s: %s", (int)n,
                  tn_code_name(e->code), e->msg);
    tn_clear_error();
}

START_TEST(making_a_model_and_its_optimizer)
{
    run r;
    bool ok = make(&r);
    ck_assert(ok);
    drop(&r);
    const size_t nodes = tn__node_live();
    ok = false;
    for (uint64_t n = 1; !ok; n++) {
        tn__alloc_fail_at(n);
        ok = make(&r);
        tn__alloc_fail_at(0);
        failed_well(n, ok);
        drop(&r);
        ck_assert_uint_eq(tn__node_live(), nodes);
        ck_assert_uint_lt(n, 20000);
    }
}
END_TEST

START_TEST(a_step_of_adam)
{
    run r;
    ck_assert(make(&r) && step(&r) && step(&r));
    bool ok = false;
    for (uint64_t n = 1; !ok; n++) {
        TN_SCOPE;
        tn__alloc_fail_at(n);
        ok = step(&r);
        tn__alloc_fail_at(0);
        failed_well(n, ok);
        ck_assert_uint_lt(n, 20000);
        if (!ok) ck_assert(tn_realize_all(NULL)); /* what was written before the failure is whole */
    }
    ck_assert(step(&r));
    drop(&r);
}
END_TEST

START_TEST(saving_and_loading)
{
    if (!HAVE_JSON) test_skip("safetensors need jansson, which this build does not have");
    run r, s;
    char path[300];
    snprintf(path, sizeof path, "%s/nomem-%ld.safetensors", TEST_BUILD_DIR, (long)getpid());
    ck_assert(make(&r) && make(&s) && step(&r));
    ck_assert(tn_safe_save(path, &r, run_visit));
    bool ok = false;
    for (uint64_t n = 1; !ok; n++) {
        tn__alloc_fail_at(n);
        ok = tn_safe_save(path, &r, run_visit);
        tn__alloc_fail_at(0);
        failed_well(n, ok);
        ck_assert_uint_lt(n, 20000);
    }
    ok = false;
    for (uint64_t n = 1; !ok; n++) {
        TN_SCOPE;
        tn__alloc_fail_at(n);
        ok = tn_safe_load(path, &s, run_visit);
        tn__alloc_fail_at(0);
        failed_well(n, ok);
        ck_assert_uint_lt(n, 20000);
        ck_assert(same_bits(r.l.weight, s.l.weight) == ok);
    }
    ck_assert(same_bits(r.b.running_var, s.b.running_var));
    remove(path);
    drop(&r);
    drop(&s);
}
END_TEST

Suite *suite_nn_nomem(void)
{
    Suite *s = suite_create("nn_nomem");
    TCase *t = tcase_create("nomem");
    tcase_set_timeout(t, 240);
    tcase_add_checked_fixture(t, nn_begin, nn_end);
    tcase_add_test(t, making_a_model_and_its_optimizer);
    tcase_add_test(t, a_step_of_adam);
    tcase_add_test(t, saving_and_loading);
    suite_add_tcase(s, t);
    return s;
}
