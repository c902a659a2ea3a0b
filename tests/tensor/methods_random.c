/* SPDX-License-Identifier: MIT */
/* Adapters of the random methods (dtype, seed, their own parameters, shape) and of answers that are no tensors. */
#include "methods_rig.h"

static int64_t dims_buf[40];
static tn_shape shape_from(const method_row *r, int at) { return shape_of(r, at, dims_buf); }

int method_random_bits(const method_row *r, tn_tensor **out)
{
    tn_manual_seed((uint64_t)r->p[1]);
    tn_shape s = shape_from(r, 2);
    return one(out, tn_random_bits(&s));
}

int method_randint(const method_row *r, tn_tensor **out)
{
    tn_create_opts c = seeded(r);
    tn_randint_opts o = {.size = sizeof o, .dtype = c.dtype};
    o.low = (int64_t)r->p[2];
    o.high = (int64_t)r->p[3];
    tn_shape s = shape_from(r, 4);
    return one(out, tn_randint(&s, &o));
}

int method_uniform(const method_row *r, tn_tensor **out)
{
    tn_create_opts c = seeded(r);
    tn_uniform_opts o = {.size = sizeof o, .dtype = c.dtype, .low = r->p[2], .high = r->p[3]};
    tn_shape s = shape_from(r, 4);
    return one(out, tn_uniform(&s, &o));
}

int method_normal(const method_row *r, tn_tensor **out)
{
    tn_create_opts c = seeded(r);
    tn_normal_opts o = {.size = sizeof o, .dtype = c.dtype, .mean = r->p[2], .std = r->p[3]};
    tn_shape s = shape_from(r, 4);
    return one(out, tn_normal(&s, &o));
}

typedef tn_tensor *init_fn(const tn_shape *, const tn_init_opts *);

static int kaiming(init_fn *f, const method_row *r, tn_tensor **out)
{
    tn_create_opts c = seeded(r);
    tn_init_opts o = {.size = sizeof o, .dtype = c.dtype, .a = r->p[2]};
    tn_shape s = shape_from(r, 3);
    return one(out, f(&s, &o));
}

int method_kaiming_uniform(const method_row *r, tn_tensor **out)
{
    return kaiming(tn_kaiming_uniform, r, out);
}

int method_kaiming_normal(const method_row *r, tn_tensor **out)
{
    return kaiming(tn_kaiming_normal, r, out);
}

int method_randperm(const method_row *r, tn_tensor **out)
{
    tn_create_opts o = seeded(r);
    return one(out, tn_randperm((int64_t)r->p[2], &o));
}

int method_rand_like(const method_row *r, tn_tensor **out)
{
    tn_manual_seed((uint64_t)r->p[0]);
    return one(out, tn_rand_like(r->in[0]));
}

int method_randn_like(const method_row *r, tn_tensor **out)
{
    tn_manual_seed((uint64_t)r->p[0]);
    return one(out, tn_randn_like(r->in[0]));
}

int method_multinomial(const method_row *r, tn_tensor **out)
{
    tn_multinomial_opts o = {.size = sizeof o, .replacement = r->p[2] != 0};
    tn_manual_seed((uint64_t)r->p[0]);
    return one(out, tn_multinomial(r->in[0], (int64_t)r->p[1], &o));
}

int method_dropout(const method_row *r, tn_tensor **out)
{
    tn_manual_seed((uint64_t)r->p[0]);
    tn_context_set(TN_TRAINING, 1);
    one(out, tn_dropout(r->in[0], r->p[1]));
    tn_context_set(TN_TRAINING, 0);
    return 1;
}

/* ---- answers that are no tensors ---- */

int method_nbytes(const method_row *r, tn_tensor **out)
{
    return one(out, tn_long(tn_const_i(tn_nbytes(r->in[0]))));
}

int method_element_size(const method_row *r, tn_tensor **out)
{
    return one(out, tn_long(tn_const_i(tn_element_size(r->in[0]))));
}

int method_is_floating_point(const method_row *r, tn_tensor **out)
{
    return one(out, tn_bool(tn_const_i(tn_is_floating_point(r->in[0]))));
}
