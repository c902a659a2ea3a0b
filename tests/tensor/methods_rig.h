/* SPDX-License-Identifier: MIT */
/* Shared by the adapters of methods: parameters of a row, and the adapters that have a file of their own. */
#ifndef TENON_TEST_METHODS_RIG_H
#define TENON_TEST_METHODS_RIG_H
#include "methods.h"

typedef int adapter(const method_row *r, tn_tensor **out);

static inline tn_dtype dtype_of(double p) { return (tn_dtype)(int)p; }

/* Parameters from `at` on; buf is the caller's. */
static inline tn_shape shape_of(const method_row *r, int at, int64_t *buf)
{
    for (int i = at; i < r->np; i++) buf[i - at] = (int64_t)r->p[i];
    return (tn_shape){(size_t)(r->np - at), buf};
}

static inline int one(tn_tensor **out, tn_tensor *t)
{
    out[0] = t;
    return 1;
}

/* dtype, seed */
static inline tn_create_opts seeded(const method_row *r)
{
    tn_manual_seed((uint64_t)r->p[1]);
    return (tn_create_opts){.size = sizeof(tn_create_opts), .dtype = dtype_of(r->p[0])};
}

/* methods_random.c */
adapter method_nbytes, method_element_size, method_is_floating_point, method_random_bits,
    method_randint, method_uniform, method_normal, method_kaiming_uniform, method_kaiming_normal,
    method_randperm, method_rand_like, method_randn_like, method_multinomial, method_dropout;
#endif
