/* SPDX-License-Identifier: MIT */
/* The network of examples/mnist.c with its Adam on random images, for suites that run its step many times. */
#ifndef TEST_TUTORIAL_NET_H
#define TEST_TUTORIAL_NET_H
#include <tenon/tenon.h>

typedef struct {
    tn_nn_conv2d l1, l2;
    tn_nn_linear l3;
    tn_optim *opt;
    tn_tensor *x, *y; /* (images, 1, 28, 28) and (images,) uint8 */
    int batch;
} tutorial_net;

/* Data and parameters come from the seed; devices: NULL, or the net on each and the data split. */
void tutorial_make(tutorial_net *t, int images, int batch, const tn_devices *devices);
void tutorial_end(tutorial_net *t);
void tutorial_visit(tn_visitor *v, void *obj); /* the parameters */
/* A step for tn_jit_new: user is the net, the inputs are x and y; gives the loss. */
tn_tensor *tutorial_step(void *user, const tn_inputs *in);
#endif
