/* SPDX-License-Identifier: MIT */
/* See the header.  The caller has a scope open and looks at tn_last_error afterwards. */
#include "tutorial_net.h"

void tutorial_visit(tn_visitor *v, void *obj)
{
    tutorial_net *t = obj;
    tn_field(v, t, l1);
    tn_field(v, t, l2);
    tn_field(v, t, l3);
}

static void data_visit(tn_visitor *v, void *obj)
{
    tutorial_net *t = obj;
    tn_visit_buffer(v, "x", &t->x);
    tn_visit_buffer(v, "y", &t->y);
}

void tutorial_make(tutorial_net *t, int images, int batch, const tn_devices *devices)
{
    *t = (tutorial_net){.batch = batch};
    tn_manual_seed(17);
    t->x = tn_keep(tn_cast(tn_randint(SHAPE(images, 1, 28, 28), .high = 256), TN_U8));
    t->y = tn_keep(tn_cast(tn_randint(SHAPE(images), .high = 10), TN_U8));
    tn_realize_all(IN(t->x, t->y));
    tn_nn_conv2d_init(&t->l1, 1, 32, 3);
    tn_nn_conv2d_init(&t->l2, 32, 64, 3);
    tn_nn_linear_init(&t->l3, 1600, 10);
    if (devices) {
        tn_state_replicate(t, tutorial_visit, devices);
        tn_state_shard(t, data_visit, devices, 0);
    }
    t->opt = tn_adam_new(t, tutorial_visit, .lr = 1e-3);
}

void tutorial_end(tutorial_net *t)
{
    tn_optim_free(t->opt);
    tn_state_free(t, tutorial_visit);
    tn_state_free(t, data_visit);
}

static tn_tensor *forward(tutorial_net *t, tn_tensor *x)
{
    x = tn_max_pool2d(tn_relu(tn_call(&t->l1, x)), .kernel = {2, 2});
    x = tn_max_pool2d(tn_relu(tn_call(&t->l2, x)), .kernel = {2, 2});
    x = tn_dropout(tn_flatten(x, .start = 1), 0.5);
    return tn_call(&t->l3, x);
}

tn_tensor *tutorial_step(void *user, const tn_inputs *in)
{
    tutorial_net *t = user;
    TN_WITH(TN_TRAINING, 1);
    tn_tensor *pick = tn_randint(SHAPE(t->batch), .high = tn_dim(in->t[0], 0));
    tn_tensor *x = tn_index(in->t[0], pick), *y = tn_index(in->t[1], pick);
    tn_optim_zero_grad(t->opt);
    tn_tensor *loss = tn_backward(tn_sparse_categorical_crossentropy(forward(t, x), y));
    tn_optim_step(t->opt);
    return loss;
}
