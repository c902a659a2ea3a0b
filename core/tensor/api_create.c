/* SPDX-License-Identifier: MIT */
/* Public wrappers: creation and random tensors. */
#include "tensor/api.h"

static bool sizes_read(const char *op, const tn_shape *s)
{
    return tn__shape_read(op, s) && tn__dims_check(op, s->d, (int)s->n);
}

/* ---- constants and ranges ---- */

static tn__node *fill(const char *op, const tn_shape *s, tn__node *value, tn_dtype dt,
                      const char *device)
{
    if (!sizes_read(op, s)) return NULL;
    return tn__on_device(tn__full(s->d, (int)s->n, dt, value), device);
}

tn_tensor *(tn_full)(const tn_shape *s, tn_tensor *value, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_full");
    return tn__call_end(&c, fill("full", s, tn__in(value), o.dtype, o.device));
}

static tn_tensor *filled(const char *name, const tn_shape *s, double v, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, name);
    tn_dtype dt = o.dtype == TN_DTYPE_DEFAULT ? tn__dtype_default_float() : o.dtype;
    return tn__call_end(&c, fill(name + 3, s, tn__const_f(dt, v, NULL, 0), dt, o.device));
}

tn_tensor *(tn_zeros)(const tn_shape *s, const tn_create_opts *o)
{
    return filled("tn_zeros", s, 0, o);
}

tn_tensor *(tn_ones)(const tn_shape *s, const tn_create_opts *o)
{
    return filled("tn_ones", s, 1, o);
}

tn_tensor *(tn_empty)(const tn_shape *s, const tn_create_opts *o)
{
    return filled("tn_empty", s, 0, o);
}

static tn_tensor *full_like(const char *name, tn_tensor *t, tn_tensor *value)
{
    tn__call c;
    tn__call_begin(&c, name);
    tn__node *x = tn__strong(tn__in(t)), *v = tn__in(value);
    return tn__call_end(&c, x && v ? tn__full(x->dims, x->rank, (tn_dtype)x->dt, v) : NULL);
}

tn_tensor *(tn_full_like)(tn_tensor *t, tn_tensor *value)
{
    return full_like("tn_full_like", t, value);
}

tn_tensor *(tn_const_like)(tn_tensor *t, tn_tensor *value)
{
    return full_like("tn_const_like", t, value);
}

/* A number as a double; *whole: an integer, in *i. */
static bool number(tn_tensor *t, double *v, int64_t *i, bool *whole)
{
    tn__node *n = tn__in(t);
    if (!n) return false;
    if (n->op != TN_OP_CONST || n->rank)
        return tn__fail(TN_EVALUE, "arange: a tensor: takes numbers, which the shape depends on");
    tn_dtype dt = (tn_dtype)n->dt;
    if (dt == TN_U64 && n->scalar.u > INT64_MAX)
        return tn__fail(TN_EVALUE, "arange: %llu: integers must fit int64",
                        (unsigned long long)n->scalar.u);
    *v = tn__scalar_to_double(dt, n->scalar);
    *i = tn__scalar_to_int(dt, n->scalar);
    *whole = *whole && !tn__dtype_is_float(dt);
    return true;
}

static tn__node *range(tn_tensor *const *t, const tn_create_opts *o)
{
    double v[3];
    int64_t i[3];
    bool whole = true;
    for (int k = 0; k < 3; k++)
        if (!number(t[k], &v[k], &i[k], &whole)) return NULL;
    tn__node *y = whole ? tn__arange_int(i[0], i[1], i[2], o->dtype)
                        : tn__arange(v[0], v[1], v[2], o->dtype);
    return tn__on_device(y, o->device);
}

tn_tensor *(tn_arange)(tn_tensor *start, tn_tensor *stop, tn_tensor *step,
                       const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_arange");
    return tn__call_end(&c, range((tn_tensor *[]){start, stop, step}, &o));
}

tn_tensor *(tn_linspace)(double start, double stop, int64_t steps, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_linspace");
    return tn__call_end(&c, tn__on_device(tn__linspace(start, stop, steps, o.dtype), o.device));
}

tn_tensor *(tn_eye)(int64_t n, int64_t m, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_eye");
    return tn__call_end(&c, tn__on_device(tn__eye(n, m, o.dtype), o.device));
}

tn_tensor *(tn_tril)(tn_tensor *t, int64_t diagonal)
{
    tn__call c;
    tn__call_begin(&c, "tn_tril");
    return tn__call_end(&c, tn__tri(tn__in(t), diagonal, false));
}

tn_tensor *(tn_triu)(tn_tensor *t, int64_t diagonal)
{
    tn__call c;
    tn__call_begin(&c, "tn_triu");
    return tn__call_end(&c, tn__tri(tn__in(t), diagonal, true));
}

tn_tensor *(tn_one_hot)(tn_tensor *t, int64_t classes)
{
    tn__call c;
    tn__call_begin(&c, "tn_one_hot");
    return tn__call_end(&c, tn__one_hot(tn__in(t), classes));
}

/* ---- random ---- */

tn_tensor *(tn_random_bits)(const tn_shape *s)
{
    tn__call c;
    tn__call_begin(&c, "tn_random_bits");
    return tn__call_end(&c, sizes_read("random_bits", s) ? tn__random_bits(s->d, (int)s->n) : NULL);
}

tn_tensor *(tn_rand)(const tn_shape *s, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_rand");
    tn__node *y = sizes_read("rand", s) ? tn__rand(s->d, (int)s->n, o.dtype) : NULL;
    return tn__call_end(&c, tn__on_device(y, o.device));
}

tn_tensor *(tn_randn)(const tn_shape *s, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_randn");
    tn__node *y = sizes_read("randn", s) ? tn__randn(s->d, (int)s->n, o.dtype) : NULL;
    return tn__call_end(&c, tn__on_device(y, o.device));
}

/* On x's own devices, split as it is. */
static tn__node *beside(tn__node *y, const tn__node *x)
{
    return y && x->place ? tn__copy_to(y, x->place) : y;
}

tn_tensor *(tn_rand_like)(tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_rand_like");
    tn__node *x = tn__strong(tn__in(t));
    return tn__call_end(&c, x ? beside(tn__rand(x->dims, x->rank, (tn_dtype)x->dt), x) : NULL);
}

tn_tensor *(tn_randn_like)(tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_randn_like");
    tn__node *x = tn__strong(tn__in(t));
    return tn__call_end(&c, x ? beside(tn__randn(x->dims, x->rank, (tn_dtype)x->dt), x) : NULL);
}

tn_tensor *(tn_randint)(const tn_shape *s, const tn_randint_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_randint_opts, o, opts);
    tn__call_begin(&c, "tn_randint");
    if (!o.low && !o.high) o.high = 10;
    tn__node *y = sizes_read("randint", s) ? tn__randint(s->d, (int)s->n, o.low, o.high, o.dtype)
                                           : NULL;
    return tn__call_end(&c, tn__on_device(y, o.device));
}

tn_tensor *(tn_uniform)(const tn_shape *s, const tn_uniform_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_uniform_opts, o, opts);
    tn__call_begin(&c, "tn_uniform");
    if (o.low == 0 && o.high == 0) o.high = 1;
    tn__node *y = sizes_read("uniform", s) ? tn__uniform(s->d, (int)s->n, o.low, o.high, o.dtype)
                                           : NULL;
    return tn__call_end(&c, tn__on_device(y, o.device));
}

tn_tensor *(tn_normal)(const tn_shape *s, const tn_normal_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_normal_opts, o, opts);
    tn__call_begin(&c, "tn_normal");
    if (o.std == 0) o.std = 1;
    tn__node *y = sizes_read("normal", s) ? tn__normal(s->d, (int)s->n, o.mean, o.std, o.dtype)
                                          : NULL;
    return tn__call_end(&c, tn__on_device(y, o.device));
}

static tn_tensor *initial(const char *name, tn__init kind, const tn_shape *s, double a, tn_dtype dt,
                          const char *device)
{
    tn__call c;
    tn__call_begin(&c, name);
    tn__node *y = sizes_read(name + 3, s) ? tn__initial(kind, s->d, (int)s->n, a, dt) : NULL;
    return tn__call_end(&c, tn__on_device(y, device));
}

tn_tensor *(tn_scaled_uniform)(const tn_shape *s, const tn_create_opts *opts)
{
    TN__OPTS(tn_create_opts, o, opts);
    return initial("tn_scaled_uniform", TN__SCALED, s, 0, o.dtype, o.device);
}

tn_tensor *(tn_glorot_uniform)(const tn_shape *s, const tn_create_opts *opts)
{
    TN__OPTS(tn_create_opts, o, opts);
    return initial("tn_glorot_uniform", TN__GLOROT, s, 0, o.dtype, o.device);
}

tn_tensor *(tn_kaiming_uniform)(const tn_shape *s, const tn_init_opts *opts)
{
    TN__OPTS(tn_init_opts, o, opts);
    return initial("tn_kaiming_uniform", TN__KAIMING_UNIFORM, s, o.a == 0 ? 0.01 : o.a, o.dtype,
                   o.device);
}

tn_tensor *(tn_kaiming_normal)(const tn_shape *s, const tn_init_opts *opts)
{
    TN__OPTS(tn_init_opts, o, opts);
    return initial("tn_kaiming_normal", TN__KAIMING_NORMAL, s, o.a == 0 ? 0.01 : o.a, o.dtype,
                   o.device);
}

tn_tensor *(tn_randperm)(int64_t n, const tn_create_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_create_opts, o, opts);
    tn__call_begin(&c, "tn_randperm");
    return tn__call_end(&c, tn__on_device(tn__randperm(n, o.dtype), o.device));
}

tn_tensor *(tn_multinomial)(tn_tensor *weights, int64_t samples, const tn_multinomial_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_multinomial_opts, o, opts);
    tn__call_begin(&c, "tn_multinomial");
    return tn__call_end(&c, tn__multinomial(tn__in(weights), samples, o.replacement));
}
