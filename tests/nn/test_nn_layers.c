/* SPDX-License-Identifier: MIT */
/* Layers against PyTorch's values, their gradients too; what they refuse. */
#include "nn_rig.h"
#include <math.h>
#include <stdio.h>

#define TOL 2e-5

typedef tn_tensor *apply_fn(const void *layer, tn_tensor *x);

/* Puts the golden parameters in, compares the output and the gradients of sum(y^2). */
typedef struct {
    const char *layer;
    bool grads;
} walk;

static void set_one(void *user, const char *name, tn_tensor **field, bool trained)
{
    char full[64];
    snprintf(full, sizeof full, "%s.%s", ((walk *)user)->layer, name);
    if (!trained) return;
    if (((walk *)user)->grads) {
        snprintf(full, sizeof full, "%s.%s.grad", ((walk *)user)->layer, name);
        golden_check(full, tn_grad(*field), 5e-5);
    } else {
        golden_set(*field, full);
    }
}

static void check_layer(const char *name, void *layer, tn_visit_fn *visit, apply_fn *apply,
                        tn_tensor *x)
{
    TN_SCOPE;
    char full[64];
    walk w = {name, false};
    ck_assert(tn_state_each(layer, visit, set_one, &w));
    TN_WITH(TN_TRAINING, 1);
    tn_tensor *y = apply(layer, x);
    tn_tensor *loss = tn_backward(tn_sum(tn_mul(y, y)));
    snprintf(full, sizeof full, "%s.y", name);
    golden_check(full, y, TOL);
    ck_assert(tn_realize(loss));
    w.grads = true;
    ck_assert(tn_state_each(layer, visit, set_one, &w));
}

#define APPLY(kind)                                             \
    static tn_tensor *apply_##kind(const void *l, tn_tensor *x) \
    {                                                           \
        return tn_nn_##kind##_call(l, x);                       \
    }
APPLY(linear)
APPLY(conv)
APPLY(batchnorm)
APPLY(layernorm)
APPLY(groupnorm)
APPLY(embedding)

START_TEST(linear_equals_pytorch)
{
    TN_SCOPE;
    tn_nn_linear l;
    ck_assert(tn_nn_linear_init(&l, 5, 3));
    check_layer("linear", &l, tn_nn_linear_visit, apply_linear,
                golden_tensor("linear.x", SHAPE(2, 4, 5), TN_F32));
    tn_state_free(&l, tn_nn_linear_visit);
    ck_assert_ptr_null(l.weight);
}
END_TEST

START_TEST(convolutions_equal_pytorch)
{
    TN_SCOPE;
    tn_nn_conv l;
    ck_assert(
        tn_nn_conv1d_init(&l, 4, 6, 3, .stride = 2, .padding = 1, .dilation = 2, .groups = 2));
    check_layer("conv1d", &l, tn_nn_conv_visit, apply_conv,
                golden_tensor("conv1d.x", SHAPE(2, 4, 11), TN_F32));
    tn_state_free(&l, tn_nn_conv_visit);
    ck_assert(tn_nn_conv2d_init(&l, 2, 3, 0, .kernel_hw = {3, 2}, .stride_hw = {2, 1},
                                .padding_hw = {1, 0}));
    check_layer("conv2d", &l, tn_nn_conv_visit, apply_conv,
                golden_tensor("conv2d.x", SHAPE(2, 2, 7, 5), TN_F32));
    tn_state_free(&l, tn_nn_conv_visit);
    ck_assert(tn_nn_conv2d_init(&l, 2, 3, 4, .same = true, .dilation_hw = {1, 2}));
    check_layer("same", &l, tn_nn_conv_visit, apply_conv,
                golden_tensor("same.x", SHAPE(1, 2, 6, 7), TN_F32));
    tn_state_free(&l, tn_nn_conv_visit);
}
END_TEST

START_TEST(transposed_convolutions_equal_pytorch)
{
    TN_SCOPE;
    tn_nn_conv l;
    ck_assert(tn_nn_conv_transpose1d_init(&l, 4, 6, 3, .stride = 2, .padding = 1,
                                          .output_padding = 1, .groups = 2));
    check_layer("convt1d", &l, tn_nn_conv_visit, apply_conv,
                golden_tensor("convt1d.x", SHAPE(2, 4, 5), TN_F32));
    tn_state_free(&l, tn_nn_conv_visit);
    ck_assert(tn_nn_conv_transpose2d_init(&l, 2, 3, 3, .stride = 2, .padding = 1,
                                          .output_padding = 1, .dilation = 2));
    check_layer("convt2d", &l, tn_nn_conv_visit, apply_conv,
                golden_tensor("convt2d.x", SHAPE(1, 2, 4, 3), TN_F32));
    tn_state_free(&l, tn_nn_conv_visit);
}
END_TEST

START_TEST(batchnorm_trains_and_evaluates_as_pytorch)
{
    TN_SCOPE;
    tn_nn_batchnorm2d l;
    ck_assert(tn_nn_batchnorm_init(&l, 3));
    tn_tensor *x = golden_tensor("batchnorm.x", SHAPE(4, 3, 2, 3), TN_F32);
    check_layer("batchnorm", &l, tn_nn_batchnorm_visit, apply_batchnorm, x);
    golden_check("batchnorm.running_mean", l.running_mean, TOL);
    golden_check("batchnorm.running_var", l.running_var, TOL);
    ck_assert_int_eq(tn_item_i(l.num_batches_tracked), 1);
    golden_check("batchnorm.eval", tn_call(&l, x), TOL);
    ck_assert_int_eq(tn_item_i(l.num_batches_tracked), 1);
    tn_state_free(&l, tn_nn_batchnorm_visit);
}
END_TEST

START_TEST(other_norms_equal_pytorch)
{
    TN_SCOPE;
    tn_nn_layernorm l;
    tn_nn_groupnorm g;
    ck_assert(tn_nn_layernorm_init(&l, SHAPE(3, 4)));
    check_layer("layernorm", &l, tn_nn_layernorm_visit, apply_layernorm,
                golden_tensor("layernorm.x", SHAPE(2, 3, 4), TN_F32));
    tn_state_free(&l, tn_nn_layernorm_visit);
    ck_assert(tn_nn_rmsnorm_init(&l, 6));
    ck_assert_ptr_null(l.bias);
    check_layer("rmsnorm", &l, tn_nn_layernorm_visit, apply_layernorm,
                golden_tensor("rmsnorm.x", SHAPE(4, 6), TN_F32));
    tn_state_free(&l, tn_nn_layernorm_visit);
    ck_assert(tn_nn_layernorm2d_init(&l, 3));
    golden_set(l.weight, "layernorm2d.weight");
    golden_set(l.bias, "layernorm2d.bias");
    golden_check("layernorm2d.y",
                 tn_call(&l, golden_tensor("layernorm2d.x", SHAPE(2, 3, 4, 5), TN_F32)), TOL);
    tn_state_free(&l, tn_nn_layernorm_visit);
    ck_assert(tn_nn_groupnorm_init(&g, 2, 4));
    check_layer("groupnorm", &g, tn_nn_groupnorm_visit, apply_groupnorm,
                golden_tensor("groupnorm.x", SHAPE(3, 4, 5), TN_F32));
    tn_state_free(&g, tn_nn_groupnorm_visit);
    ck_assert(tn_nn_instancenorm_init(&g, 3));
    check_layer("instancenorm", &g, tn_nn_groupnorm_visit, apply_groupnorm,
                golden_tensor("instancenorm.x", SHAPE(2, 3, 4, 3), TN_F32));
    tn_state_free(&g, tn_nn_groupnorm_visit);
}
END_TEST

START_TEST(embedding_equals_pytorch)
{
    TN_SCOPE;
    tn_nn_embedding l;
    ck_assert(tn_nn_embedding_init(&l, 7, 3));
    tn_tensor *idx = tn_from_data((const int32_t[]){1, 6, 0, 1, 3, 1}, SHAPE(2, 3),
                                  .dtype = TN_I32);
    check_layer("embedding", &l, tn_nn_embedding_visit, apply_embedding, idx);
    tn_state_free(&l, tn_nn_embedding_visit);
}
END_TEST

START_TEST(lstm_cell_equals_pytorch)
{
    TN_SCOPE;
    tn_nn_lstm_cell l;
    tn_tensor *h, *c;
    ck_assert(tn_nn_lstm_cell_init(&l, 3, 4));
    walk w = {"lstm", false};
    ck_assert(tn_state_each(&l, tn_nn_lstm_cell_visit, set_one, &w));
    tn_tensor *x = golden_tensor("lstm.x", SHAPE(2, 3), TN_F32);
    ck_assert(tn_nn_lstm_cell_call(&l, x, NULL, NULL, &h, &c));
    golden_check("lstm.h1", h, TOL);
    golden_check("lstm.c1", c, TOL);
    ck_assert(tn_nn_lstm_cell_call(&l, tn_mul(x, 0.5), h, c, &h, &c));
    golden_check("lstm.h2", h, TOL);
    golden_check("lstm.c2", c, TOL);
    tn_state_free(&l, tn_nn_lstm_cell_visit);
}
END_TEST

/* Greatest |w| and the mean of w, for the bounds of the initialisers. */
static void spread(tn_tensor *w, double bound)
{
    const double top = tn_item(tn_max(tn_abs(w))), mean = tn_item(tn_mean(w)),
                 var = tn_item(tn_var(w));
    ck_assert_msg(top <= bound * (1 + 1e-6) && top > 0.9 * bound, "greatest %g for a bound of %g",
                  top, bound);
    ck_assert_msg(fabs(mean) < 0.1 * bound, "mean %g", mean);
    ck_assert_msg(fabs(var / (bound * bound / 3) - 1) < 0.1, "variance %g", var);
}

START_TEST(weights_are_uniform_in_one_over_root_of_fan_in)
{
    TN_SCOPE;
    tn_nn_linear l;
    tn_nn_conv c;
    tn_manual_seed(5);
    ck_assert(tn_nn_linear_init(&l, 64, 50));
    spread(l.weight, 1.0 / 8);
    ck_assert(tn_nn_conv2d_init(&c, 8, 32, 3, .groups = 2));
    ck_assert_int_eq(tn_dim(c.weight, 1), 4);
    spread(c.weight, 1.0 / 6);
    ck_assert_int_eq(tn_numel(c.bias), 32);
    tn_state_free(&l, tn_nn_linear_visit);
    tn_state_free(&c, tn_nn_conv_visit);
    ck_assert(tn_nn_linear_init(&l, 4, 4, .no_bias = true, .dtype = TN_BF16));
    ck_assert_ptr_null(l.bias);
    ck_assert_int_eq(tn_dtype_of(l.weight), TN_BF16);
    tn_state_free(&l, tn_nn_linear_visit);
}
END_TEST

static tn_tensor *doubled(const void *factor, tn_tensor *x)
{
    return tn_mul(x, *(const double *)factor);
}

START_TEST(sequences_apply_each_in_turn)
{
    TN_SCOPE;
    tn_nn_linear l;
    const double two = 2;
    ck_assert(tn_nn_linear_init(&l, 5, 3));
    tn_tensor *x = golden_tensor("linear.x", SHAPE(2, 4, 5), TN_F32);
    tn_tensor *a = tn_sequential(x, TN_L(&l), TN_F(tn_relu), TN_U(doubled, &two));
    ck_assert(same_bits(a, tn_mul(tn_relu(tn_call(&l, x)), 2.0)));
    tn_state_free(&l, tn_nn_linear_visit);
}
END_TEST

START_TEST(initialisers_refuse_what_does_not_fit)
{
    tn_nn_linear l;
    tn_nn_conv c;
    tn_nn_batchnorm b;
    tn_nn_groupnorm g;
    tn_nn_layernorm n;
    tn_nn_embedding e;
    tn_nn_lstm_cell r;
    ck_assert(!tn_nn_linear_init(&l, 0, 3));
    test_fails(TN_EVALUE, "linear: 0 in, 3 out: both must be at least 1");
    ck_assert(!tn_nn_linear_init(&l, 2, 3, .dtype = TN_I32));
    test_fails(TN_EDTYPE, "linear: int32: weights are floats");
    ck_assert(!(tn_nn_linear_init)(NULL, 2, 3, NULL));
    test_fails(TN_ENULL, "linear: the layer is NULL");
    ck_assert(!tn_nn_conv2d_init(&c, 3, 4, 3, .groups = 2));
    test_fails(TN_EVALUE,
               "conv2d: 3 channels in, 4 out, 2 groups: channels must be multiples of groups");
    ck_assert(!tn_nn_conv2d_init(&c, 2, 4, 3, .same = true, .stride = 2));
    test_fails(TN_EVALUE,
               "conv2d: same padding with stride 2: it keeps the size only with stride 1");
    ck_assert(!tn_nn_conv1d_init(&c, 2, 4, 0));
    test_fails(TN_EVALUE, "conv1d: kernel 0, stride 1, dilation 1, padding 0");
    ck_assert(!(tn_nn_conv2d_init)(NULL, 2, 3, 3, NULL));
    test_fails(TN_ENULL, "the layer is NULL");
    ck_assert(!tn_nn_batchnorm_init(&b, 0));
    test_fails(TN_EVALUE, "batchnorm: 0 channels: must be at least 1");
    ck_assert(!tn_nn_batchnorm_init(&b, 3, .eps = -1));
    test_fails(TN_EVALUE, "batchnorm: eps -1: must be above 0");
    ck_assert(!tn_nn_batchnorm_init(&b, 3, .dtype = TN_U8));
    test_fails(TN_EDTYPE, "batchnorm: uint8: weights are floats");
    ck_assert(!(tn_nn_batchnorm_init)(NULL, 3, NULL));
    test_fails(TN_ENULL, "batchnorm: the layer is NULL");
    ck_assert(!tn_nn_groupnorm_init(&g, 2, 3));
    test_fails(TN_EVALUE,
               "groupnorm: 2 groups of 3 channels: channels must be a multiple of groups");
    ck_assert(!(tn_nn_groupnorm_init)(NULL, 2, 4, NULL));
    test_fails(TN_ENULL, "groupnorm: the layer is NULL");
    ck_assert(!tn_nn_layernorm_init(&n, SHAPE0));
    test_fails(TN_ESHAPE, "layernorm: 0 axes: takes the sizes of 1 to 16 trailing axes");
    ck_assert(!tn_nn_layernorm_init(&n, NULL));
    test_fails(TN_ENULL, "layernorm: the shape is NULL");
    ck_assert(!tn_nn_embedding_init(&e, 3, 0));
    test_fails(TN_EVALUE, "embedding: 3 rows of 0 numbers: both must be at least 1");
    ck_assert(!tn_nn_embedding_init(&e, 3, 2, .dtype = TN_I8));
    test_fails(TN_EDTYPE, "embedding: int8: weights are floats");
    ck_assert(!(tn_nn_embedding_init)(NULL, 3, 2, NULL));
    test_fails(TN_ENULL, "embedding: the layer is NULL");
    ck_assert(!tn_nn_lstm_cell_init(&r, 0, 2));
    test_fails(TN_EVALUE, "lstm_cell: 0 in, 2 hidden: both must be at least 1");
    ck_assert(!(tn_nn_lstm_cell_init)(NULL, 1, 2, NULL));
    test_fails(TN_ENULL, "lstm_cell: the layer is NULL");
}
END_TEST

START_TEST(layers_refuse_inputs_that_do_not_fit)
{
    TN_SCOPE;
    tn_nn_linear l;
    tn_nn_conv c;
    tn_nn_batchnorm b;
    tn_nn_groupnorm g;
    tn_nn_layernorm n;
    tn_nn_embedding e;
    tn_nn_lstm_cell r;
    tn_tensor *h, *x = tn_zeros(SHAPE(2, 4));
    ck_assert(tn_nn_linear_init(&l, 5, 3));
    ck_assert(tn_bad(tn_call(&l, x)));
    test_fails(TN_ESHAPE, "linear: input (2, 4) for weight (3, 5): the last axis must be 5");
    ck_assert(tn_nn_conv2d_init(&c, 2, 4, 3));
    ck_assert(tn_bad(tn_call(&c, x)));
    test_fails(TN_ESHAPE, "conv2d: input (2, 4) and weight (4, 2, 3, 3)");
    ck_assert(tn_nn_batchnorm_init(&b, 3));
    ck_assert(tn_bad(tn_call(&b, x)));
    test_fails(TN_ESHAPE, "batchnorm: input (2, 4): must be (batch, 3, ..)");
    ck_assert(tn_nn_groupnorm_init(&g, 1, 3));
    ck_assert(tn_bad(tn_call(&g, x)));
    test_fails(TN_ESHAPE, "groupnorm: input (2, 4): must be (batch, 3, ..)");
    ck_assert(tn_nn_layernorm_init(&n, SHAPE(3)));
    ck_assert(tn_bad(tn_call(&n, x)));
    test_fails(TN_ESHAPE, "layernorm: input (2, 4): its last axes must be (3)");
    ck_assert(tn_nn_embedding_init(&e, 3, 2));
    ck_assert(tn_bad(tn_call(&e, x)));
    test_fails(TN_EDTYPE, "embedding: indices of float32: must be integers");
    ck_assert(tn_nn_lstm_cell_init(&r, 3, 2));
    ck_assert(!tn_nn_lstm_cell_call(&r, x, NULL, NULL, &h, &h));
    test_fails(
        TN_ESHAPE,
        "lstm_cell: input (2, 4), h none, c none: must be (batch, 3), (batch, 2) and (batch, 2)");
    ck_assert(!tn_nn_lstm_cell_call(&r, x, NULL, NULL, NULL, &h));
    test_fails(TN_ENULL, "lstm_cell: a place for the results is NULL");
    tn_state_free(&l, tn_nn_linear_visit);
    tn_state_free(&c, tn_nn_conv_visit);
    tn_state_free(&b, tn_nn_batchnorm_visit);
    tn_state_free(&g, tn_nn_groupnorm_visit);
    tn_state_free(&n, tn_nn_layernorm_visit);
    tn_state_free(&e, tn_nn_embedding_visit);
    tn_state_free(&r, tn_nn_lstm_cell_visit);
}
END_TEST

Suite *suite_nn_layers(void)
{
    Suite *s = suite_create("nn_layers");
    TCase *t = tcase_create("layers");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, nn_begin, nn_end);
    tcase_add_test(t, linear_equals_pytorch);
    tcase_add_test(t, convolutions_equal_pytorch);
    tcase_add_test(t, transposed_convolutions_equal_pytorch);
    tcase_add_test(t, batchnorm_trains_and_evaluates_as_pytorch);
    tcase_add_test(t, other_norms_equal_pytorch);
    tcase_add_test(t, embedding_equals_pytorch);
    tcase_add_test(t, lstm_cell_equals_pytorch);
    tcase_add_test(t, weights_are_uniform_in_one_over_root_of_fan_in);
    tcase_add_test(t, sequences_apply_each_in_turn);
    tcase_add_test(t, initialisers_refuse_what_does_not_fit);
    tcase_add_test(t, layers_refuse_inputs_that_do_not_fit);
    suite_add_tcase(s, t);
    return s;
}
