/* SPDX-License-Identifier: MIT */
/* Optimizers and schedulers against PyTorch's (and the papers') values; what they refuse; what they own. */
#include "nn_rig.h"
#include <math.h>
#include <stdio.h>

typedef struct {
    tn_tensor *w, *b;
} net;

static void net_visit(tn_visitor *v, void *obj)
{
    net *n = obj;
    tn_field(v, n, w);
    tn_field(v, n, b);
}

static void net_init(net *n, tn_dtype dt)
{
    n->w = tn_keep(tn_param(golden_tensor("optim.w", SHAPE(4, 3), dt)));
    n->b = tn_keep(tn_param(golden_tensor("optim.b", SHAPE(3), dt)));
}

static tn_tensor *loss_of(const net *n)
{
    const tn_dtype dt = tn_dtype_of(n->w);
    tn_tensor *x = golden_tensor("optim.x", SHAPE(8, 4), dt),
              *y = golden_tensor("optim.y", SHAPE(8, 3), dt);
    tn_tensor *d = tn_sub(tn_add(tn_matmul(x, n->w), n->b), y);
    return tn_mean(tn_mul(d, d));
}

static void step(tn_optim *o, const net *n)
{
    TN_SCOPE;
    TN_WITH(TN_TRAINING, 1);
    tn_optim_zero_grad(o);
    tn_backward(loss_of(n));
    ck_assert_msg(tn_optim_step(o), "%s", tn_last_error() ? tn_last_error()->msg : "");
}

typedef tn_optim *make_fn(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
static const struct {
    const char *name;
    make_fn *make;
    tn_optim_opts o;
} rows[] = {
    {"sgd", tn_sgd_new, {.lr = 0.05}},
    {"sgd_decay", tn_sgd_new, {.lr = 0.05, .weight_decay = 0.1}},
    {"sgd_momentum", tn_sgd_new, {.lr = 0.05, .momentum = 0.9}},
    {"sgd_nesterov",
     tn_sgd_new,
     {.lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.1}},
    {"sgd_classic", tn_sgd_new, {.lr = 0.05, .momentum = 0.9, .classic = true}},
    {"adam", tn_adam_new, {.lr = 0.01}},
    {"adam_decay",
     tn_adam_new,
     {.lr = 0.02, .b1 = 0.8, .b2 = 0.95, .eps = 1e-5, .weight_decay = 0.1}},
    {"adam_plain", tn_adam_new, {.lr = 0.02, .b1 = TN_ZERO, .b2 = 0.95}},
    {"adamw", tn_adamw_new, {.lr = 0.01}},
    {"lars", tn_lars_new, {.lr = 2}},
    {"lamb", tn_lamb_new, {.lr = 0.02, .weight_decay = 0.1}},
    {"muon", tn_muon_new, {.lr = 0.02}},
};
enum { ROWS = sizeof rows / sizeof *rows };

static void run(int row, tn_dtype dt, double tol)
{
    TN_SCOPE;
    net n;
    char name[40];
    tn_optim_opts opts = rows[row].o;
    opts.size = sizeof opts;
    net_init(&n, dt);
    tn_optim *o = rows[row].make(&n, net_visit, &opts);
    ck_assert(o != NULL);
    for (int i = 0; i < 6; i++) step(o, &n);
    snprintf(name, sizeof name, "%s.w", rows[row].name);
    golden_check(name, n.w, tol);
    snprintf(name, sizeof name, "%s.b", rows[row].name);
    golden_check(name, n.b, tol);
    ck_assert_int_eq(tn_dtype_of(n.w), dt);
    tn_optim_free(o);
    tn_state_free(&n, net_visit);
}

START_TEST(every_optimizer_equals_its_reference_in_float32) { run(_i, TN_F32, 1e-5); }
END_TEST
START_TEST(every_optimizer_equals_its_reference_in_float64) { run(_i, TN_F64, 1e-10); }
END_TEST
START_TEST(half_parameters_keep_their_dtype) { run(_i, TN_F16, 3e-2); }
END_TEST

static void count_wide(void *user, const char *name, tn_tensor **field, bool trained)
{
    (void)name;
    ck_assert(!trained);
    ck_assert_int_eq(tn_dtype_of(*field), TN_F32);
    ++*(int *)user;
}

START_TEST(state_of_half_parameters_is_float32)
{
    TN_SCOPE;
    net n;
    int count = 0;
    net_init(&n, TN_F16);
    tn_optim *o = tn_adam_new(&n, net_visit);
    ck_assert(tn_state_each(o, tn_optim_visit, count_wide, &count));
    ck_assert_int_eq(count, 7); /* lr, c1, c2, m.0, m.1, v.0, v.1 */
    tn_optim_free(o);
    tn_state_free(&n, net_visit);
}
END_TEST

START_TEST(a_list_and_a_walker_make_the_same_optimizer)
{
    TN_SCOPE;
    net a, b;
    net_init(&a, TN_F32);
    net_init(&b, TN_F32);
    tn_optim *p = tn_adam_new(&a, net_visit), *q = tn_adam_list(IN(b.w, b.b));
    for (int i = 0; i < 3; i++) step(p, &a), step(q, &b);
    ck_assert(same_bits(a.w, b.w) && same_bits(a.b, b.b));
    tn_optim_free(p);
    tn_optim_free(q);
    tn_state_free(&a, net_visit);
    tn_state_free(&b, net_visit);
}
END_TEST

START_TEST(a_group_steps_all_its_optimizers)
{
    TN_SCOPE;
    net a, b;
    net_init(&a, TN_F32);
    net_init(&b, TN_F32);
    tn_optim *g = tn_optim_group(
        (tn_optim *[]){tn_sgd_list(IN(a.w), .lr = 0.05), tn_adam_list(IN(a.b), .lr = 0.01)}, 2);
    tn_optim *p = tn_sgd_list(IN(b.w), .lr = 0.05), *q = tn_adam_list(IN(b.b), .lr = 0.01);
    ck_assert(g && p && q);
    step(g, &a);
    {
        TN_SCOPE;
        TN_WITH(TN_TRAINING, 1);
        tn_backward(loss_of(&b));
        ck_assert(tn_optim_step(p) && tn_optim_step(q));
    }
    ck_assert(same_bits(a.w, b.w) && same_bits(a.b, b.b));
    ck_assert(tn_optim_set_lr(g, 0.5) && tn_optim_lr(g) == 0.5);
    tn_optim_free(g);
    tn_optim_free(p);
    tn_optim_free(q);
    tn_state_free(&a, net_visit);
    tn_state_free(&b, net_visit);
    ck_assert_ptr_null(tn_optim_group(NULL, 0));
    test_fails(TN_EVALUE, "optim_group: no optimizers: give at least one");
    ck_assert_ptr_null(tn_optim_group((tn_optim *[]){NULL}, 1));
    test_fails(TN_ENULL, "optim_group: optimizer 0 is NULL");
}
END_TEST

START_TEST(a_scheduled_step_runs_with_the_next_item)
{
    TN_SCOPE;
    net a, b;
    net_init(&a, TN_F32);
    net_init(&b, TN_F32);
    tn_optim *p = tn_sgd_new(&a, net_visit, .lr = 0.05), *q = tn_sgd_new(&b, net_visit, .lr = 0.05);
    TN_WITH(TN_TRAINING, 1);
    tn_tensor *loss = tn_backward(loss_of(&a));
    tn_counters c = {.size = sizeof c}, d = {.size = sizeof d};
    tn_counters_get(&c);
    ck_assert(tn_optim_schedule_step(p));
    tn_counters_get(&d);
    ck_assert_uint_eq(c.kernels, d.kernels);
    ck_assert(!isnan(tn_item(loss)));
    step(q, &b);
    ck_assert(same_bits(a.w, b.w));
    tn_optim_free(p);
    tn_optim_free(q);
    tn_state_free(&a, net_visit);
    tn_state_free(&b, net_visit);
}
END_TEST

START_TEST(parameters_without_a_gradient_are_left_alone)
{
    TN_SCOPE;
    net n;
    net_init(&n, TN_F32);
    tn_optim *o = tn_adamw_new(&n, net_visit);
    tn_tensor *before = tn_clone(n.b);
    ck_assert(tn_realize(before));
    TN_WITH(TN_TRAINING, 1);
    tn_backward(tn_sum(tn_mul(n.w, n.w)));
    ck_assert(tn_optim_step(o));
    ck_assert(same_bits(before, n.b));
    tn_optim_free(o);
    tn_state_free(&n, net_visit);
}
END_TEST

START_TEST(optimizers_refuse_what_does_not_fit)
{
    TN_SCOPE;
    net n, none = {0};
    net_init(&n, TN_F32);
    ck_assert_ptr_null(tn_adam_new(&none, net_visit));
    test_fails(TN_EVALUE,
               "adam: no parameters: the list is empty, or the walker names no trained tensor");
    ck_assert_ptr_null(tn_adam_new(NULL, net_visit));
    test_fails(TN_ENULL, "state: the object is NULL");
    ck_assert_ptr_null(tn_adam_new(&n, net_visit, .lr = -1));
    test_fails(TN_EVALUE, "adam: lr -1, weight_decay 0, eps 1e-08: must not be negative");
    ck_assert_ptr_null(tn_adam_new(&n, net_visit, .b1 = 1));
    test_fails(TN_EVALUE, "adam: momentum 0, b1 1, b2 0.999: must be in 0..1, less than 1");
    ck_assert_ptr_null(tn_sgd_new(&n, net_visit, .nesterov = true));
    test_fails(TN_EVALUE, "sgd: nesterov without momentum: give .momentum too");
    ck_assert_ptr_null(tn_muon_new(&n, net_visit, .ns_steps = -1));
    test_fails(TN_EVALUE, "muon: ns_steps -1: must be in 1..100");
    ck_assert_ptr_null(
        tn_sgd_list(IN(tn_from_data((const int32_t[]){1}, SHAPE(1), .dtype = TN_I32))));
    test_fails(TN_EDTYPE, "param: int32: only floats have gradients");
    tn_optim *o = tn_sgd_new(&n, net_visit);
    ck_assert(!tn_optim_step(o));
    test_fails(
        TN_ESTATE,
        "optim_step: TRAINING is 0: steps belong to training mode: put TN_WITH(TN_TRAINING, 1);");
    TN_WITH(TN_TRAINING, 1);
    ck_assert(!tn_optim_step(o));
    test_fails(TN_ESTATE, "optim_step: none of 2 parameters has a gradient: call tn_backward");
    ck_assert(!tn_optim_step(NULL));
    test_fails(TN_ENULL, "optim_step: the optimizer is NULL");
    ck_assert(!tn_optim_set_lr(o, (double)NAN));
    test_fails(TN_EVALUE, "optim_set_lr: nan: must not be negative");
    ck_assert(!tn_optim_set_lr(NULL, 1));
    test_fails(TN_ENULL, "optim_set_lr: the optimizer is NULL");
    tn_optim_free(o);
    tn_optim_free(NULL);
    tn_state_free(&n, net_visit);
}
END_TEST

/* ---- schedulers ---- */

static void follow(const char *name, tn_optim *o, tn_sched *s, bool metric)
{
    int n, m;
    const double *want = golden(name, &n), *given = golden("plateau.metric", &m);
    ck_assert(s != NULL);
    for (int i = 0; i < n; i++) {
        ck_assert_msg(fabs(tn_optim_lr(o) - want[i]) <= 1e-12, "%s: step %d: %.12g, not %.12g",
                      name, i, tn_optim_lr(o), want[i]);
        if (i + 1 < n) ck_assert(metric ? tn_sched_step_metric(s, given[i]) : tn_sched_step(s));
    }
    tn_sched_free(s);
}

START_TEST(schedulers_equal_pytorch)
{
    TN_SCOPE;
    net n;
    net_init(&n, TN_F32);
#define FRESH (tn_optim_set_lr(o, 0.4), o)
    tn_optim *o = tn_sgd_new(&n, net_visit, .lr = 0.4);
    const int64_t at[] = {2, 5, 5, 7};
    follow("multistep", o, tn_sched_multistep(FRESH, at, 4, .gamma = 0.5), false);
    follow("cosine", o, tn_sched_cosine(FRESH, 10, .min_lr = 0.01), false);
    follow("onecycle", o, tn_sched_onecycle(FRESH, 0.8, 12), false);
    follow("onecycle_linear", o,
           tn_sched_onecycle(FRESH, 0.8, 12, .pct_start = 0.4, .div_factor = 10,
                             .final_div_factor = 100, .linear = true),
           false);
    follow("plateau", o, tn_sched_plateau(FRESH, .factor = 0.5, .patience = 2, .min_lr = 0.06),
           true);
    follow("plateau_max", o,
           tn_sched_plateau(FRESH, .maximize = true, .patience = 1, .threshold = 0.05,
                            .absolute = true),
           true);
    tn_optim_free(o);
    tn_state_free(&n, net_visit);
}
END_TEST

START_TEST(a_new_learning_rate_acts_on_the_next_step)
{
    TN_SCOPE;
    net a, b;
    net_init(&a, TN_F32);
    net_init(&b, TN_F32);
    tn_optim *p = tn_sgd_new(&a, net_visit, .lr = 0.4), *q = tn_sgd_new(&b, net_visit, .lr = 0.05);
    ck_assert(tn_optim_set_lr(p, 0.05));
    step(p, &a);
    step(q, &b);
    ck_assert(same_bits(a.w, b.w));
    tn_optim_free(p);
    tn_optim_free(q);
    tn_state_free(&a, net_visit);
    tn_state_free(&b, net_visit);
}
END_TEST

START_TEST(schedulers_refuse_what_does_not_fit)
{
    TN_SCOPE;
    net n;
    net_init(&n, TN_F32);
    tn_optim *o = tn_sgd_new(&n, net_visit);
    ck_assert_ptr_null(tn_sched_cosine(NULL, 10));
    test_fails(TN_ENULL, "sched_cosine: the optimizer is NULL");
    ck_assert_ptr_null(tn_sched_cosine(o, 0));
    test_fails(TN_EVALUE, "sched_cosine: 0 steps: must be at least 1");
    ck_assert_ptr_null(tn_sched_multistep(o, NULL, 2));
    test_fails(TN_ENULL, "sched_multistep: the milestones are NULL");
    ck_assert_ptr_null(tn_sched_plateau(o, .factor = 2));
    test_fails(TN_EVALUE, "sched_plateau: factor 2: must be in 0..1");
    ck_assert_ptr_null(tn_sched_onecycle(o, -1, 5));
    test_fails(TN_EVALUE, "sched_onecycle: max_lr -1");
    tn_sched *p = tn_sched_plateau(o), *c = tn_sched_onecycle(o, 1, 2);
    ck_assert(!tn_sched_step(p));
    test_fails(TN_EVALUE,
               "sched_step: a plateau scheduler needs the metric: call tn_sched_step_metric");
    ck_assert(tn_sched_step(c) && !tn_sched_step(c));
    test_fails(TN_EVALUE, "sched_step: step 2 of a cycle of 2: the cycle is over");
    ck_assert(!tn_sched_step(NULL));
    test_fails(TN_ENULL, "sched_step: the scheduler is NULL");
    tn_sched_free(p);
    tn_sched_free(c);
    tn_optim_free(o);
    tn_state_free(&n, net_visit);
}
END_TEST

Suite *suite_nn_optim(void)
{
    Suite *s = suite_create("nn_optim");
    TCase *t = tcase_create("optim");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, nn_begin, nn_end);
    tcase_add_loop_test(t, every_optimizer_equals_its_reference_in_float32, 0, ROWS);
    tcase_add_loop_test(t, every_optimizer_equals_its_reference_in_float64, 0, ROWS);
    tcase_add_loop_test(t, half_parameters_keep_their_dtype, 0, 9); /* not those of norms */
    tcase_add_test(t, state_of_half_parameters_is_float32);
    tcase_add_test(t, a_list_and_a_walker_make_the_same_optimizer);
    tcase_add_test(t, a_group_steps_all_its_optimizers);
    tcase_add_test(t, a_scheduled_step_runs_with_the_next_item);
    tcase_add_test(t, parameters_without_a_gradient_are_left_alone);
    tcase_add_test(t, optimizers_refuse_what_does_not_fit);
    tcase_add_test(t, schedulers_equal_pytorch);
    tcase_add_test(t, a_new_learning_rate_acts_on_the_next_step);
    tcase_add_test(t, schedulers_refuse_what_does_not_fit);
    suite_add_tcase(s, t);
    return s;
}
