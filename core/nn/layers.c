/* SPDX-License-Identifier: MIT */
/*
 * Linear layers and convolutions.  Weights and biases are drawn uniformly in +-1/sqrt(fan_in) (PyTorch's
 * default), lazily: they are computed with the first result that needs them.
 */
#include "nn/nn.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

static bool dtype_fits(const char *what, tn_dtype dt)
{
    if (dt == TN_DTYPE_DEFAULT || tn__dtype_is_float(dt)) return true;
    return tn__fail(TN_EDTYPE, "%s: %s: weights are floats", what, tn__dtype_name(dt));
}

/* Uniform in +-bound. */
static tn_tensor *drawn(const char *name, const int64_t *dims, int rank, double bound, tn_dtype dt)
{
    tn__call c;
    tn__call_begin(&c, name);
    return tn__state_end(&c, tn__uniform(dims, rank, -bound, bound, dt), true);
}

/* weight and, unless told otherwise, a bias of `out` numbers; nothing is left behind on failure. */
static bool draw(const char *name, tn_tensor **weight, tn_tensor **bias, const int64_t *dims,
                 int rank, int out, const tn_nn_opts *o)
{
    int64_t all = 1, n = out;
    if (!tn__dims_check(name + strlen("tn_nn_"), dims, rank)) return false;
    for (int i = 0; i < rank; i++) all *= dims[i];
    double bound = 1 / sqrt((double)all / (double)dims[0]);
    *weight = drawn(name, dims, rank, bound, o->dtype);
    if (!*weight) return false;
    if (o->no_bias) return true;
    *bias = drawn(name, &n, 1, bound, o->dtype);
    if (*bias) return true;
    tn_free(*weight);
    *weight = NULL;
    return false;
}

bool(tn_nn_linear_init)(tn_nn_linear *l, int in, int out, const tn_nn_opts *opts)
{
    tn_nn_opts o;
    tn__options(&o, opts, sizeof o);
    if (!l) return tn__fail(TN_ENULL, "linear: the layer is NULL");
    *l = (tn_nn_linear){0};
    if (in < 1 || out < 1)
        return tn__fail(TN_EVALUE, "linear: %d in, %d out: both must be at least 1", in, out);
    if (!dtype_fits("linear", o.dtype)) return false;
    return draw("tn_nn_linear_init", &l->weight, &l->bias, (const int64_t[]){out, in}, 2, out, &o);
}

tn_tensor *tn_nn_linear_call(const tn_nn_linear *l, tn_tensor *x)
{
    tn__call c;
    tn__call_begin(&c, "tn_nn_linear_call");
    tn__node *in = tn__in(x), *w = tn__in(l->weight), *b = tn__in_opt(l->bias);
    bool ok = in && w && (!l->bias || b);
    if (ok && (!in->rank || in->dims[in->rank - 1] != w->dims[1])) {
        tn__fail(TN_ESHAPE, "linear: input %s for weight %s: the last axis must be %lld",
                 tn__shape_text(in->dims, in->rank), tn__shape_text(w->dims, w->rank),
                 (long long)w->dims[1]);
        ok = false;
    }
    return tn__call_end(&c, ok ? tn__linear(in, tn__transpose(w, 0, 1), b) : NULL);
}

void tn_nn_linear_visit(tn_visitor *v, void *obj)
{
    tn_nn_linear *l = obj;
    tn_visit_tensor(v, "weight", &l->weight);
    tn_visit_tensor(v, "bias", &l->bias);
}

/* ---- convolutions ---- */

static void pair(int out[2], int both, const int each[2], int otherwise)
{
    bool given = each[0] || each[1];
    for (int i = 0; i < 2; i++) out[i] = given ? each[i] : both ? both : otherwise;
}

static bool geometry(const char *what, tn_nn_conv *l, int kernel, const tn_nn_opts *o)
{
    int padding[2];
    pair(l->kernel, kernel, o->kernel_hw, 0);
    pair(l->stride, o->stride, o->stride_hw, 1);
    pair(l->dilation, o->dilation, o->dilation_hw, 1);
    pair(l->output_padding, o->output_padding, o->output_padding_hw, 0);
    pair(padding, o->padding, o->padding_hw, 0);
    for (int i = 0; i < l->rank; i++) {
        int k = l->kernel[i], s = l->stride[i], d = l->dilation[i], p = padding[i];
        if (k < 1 || s < 1 || d < 1 || p < 0 || l->output_padding[i] < 0)
            return tn__fail(
                TN_EVALUE,
                "%s: kernel %d, stride %d, dilation %d, padding %d: the first three must be at "
                "least 1, the padding at least 0",
                what, k, s, d, p);
        l->before[i] = l->after[i] = p;
        if (!o->same) continue;
        if (s != 1)
            return tn__fail(
                TN_EVALUE,
                "%s: same padding with stride %d: it keeps the size only with stride 1: give "
                ".padding a number",
                what, s);
        const int64_t all = tn__span(k, d) - 1;
        if (all > INT32_MAX)
            return tn__fail(TN_EVALUE,
                            "%s: same padding for kernel %d with dilation %d: more than 2147483647",
                            what, k, d);
        l->before[i] = (int)(all / 2);
        l->after[i] = (int)all - l->before[i];
    }
    return true;
}

static bool conv_init(const char *name, tn_nn_conv *l, int rank, bool transposed, int in, int out,
                      int kernel, const tn_nn_opts *opts)
{
    tn_nn_opts o;
    char what[24]; /* "conv2d" */
    snprintf(what, sizeof what, "%.*s", (int)(strlen(name) - strlen("tn_nn__init")),
             name + strlen("tn_nn_"));
    tn__options(&o, opts, sizeof o);
    if (!l) return tn__fail(TN_ENULL, "%s: the layer is NULL", name);
    *l = (tn_nn_conv){.rank = rank, .transposed = transposed, .groups = o.groups ? o.groups : 1};
    if (in < 1 || out < 1 || l->groups < 1 || in % l->groups || out % l->groups)
        return tn__fail(
            TN_EVALUE,
            "%s: %d channels in, %d out, %d groups: channels must be multiples of groups, all "
            "at least 1",
            what, in, out, l->groups);
    if (!geometry(what, l, kernel, &o) || !dtype_fits(what, o.dtype)) return false;
    int64_t dims[4] = {transposed ? in : out, (transposed ? out : in) / l->groups, l->kernel[0],
                       l->kernel[1]};
    return draw(name, &l->weight, &l->bias, dims, 2 + rank, out, &o);
}

bool(tn_nn_conv1d_init)(tn_nn_conv1d *l, int in, int out, int kernel, const tn_nn_opts *o)
{
    return conv_init("tn_nn_conv1d_init", l, 1, false, in, out, kernel, o);
}

bool(tn_nn_conv2d_init)(tn_nn_conv2d *l, int in, int out, int kernel, const tn_nn_opts *o)
{
    return conv_init("tn_nn_conv2d_init", l, 2, false, in, out, kernel, o);
}

bool(tn_nn_conv_transpose1d_init)(tn_nn_conv_transpose1d *l, int in, int out, int kernel,
                                  const tn_nn_opts *o)
{
    return conv_init("tn_nn_conv_transpose1d_init", l, 1, true, in, out, kernel, o);
}

bool(tn_nn_conv_transpose2d_init)(tn_nn_conv_transpose2d *l, int in, int out, int kernel,
                                  const tn_nn_opts *o)
{
    return conv_init("tn_nn_conv_transpose2d_init", l, 2, true, in, out, kernel, o);
}

tn_tensor *tn_nn_conv_call(const tn_nn_conv *l, tn_tensor *x)
{
    tn__call c;
    tn__call_begin(&c, "tn_nn_conv_call");
    tn__node *in = tn__in(x), *w = tn__in(l->weight), *b = tn__in_opt(l->bias), *y = NULL;
    tn__window_args a = {.n = l->rank};
    int64_t more[TN__MAX_SPATIAL] = {0};
    for (int i = 0; i < l->rank; i++) {
        a.kernel[i] = l->kernel[i];
        a.stride[i] = l->stride[i];
        a.dilation[i] = l->dilation[i];
        a.before[i] = l->before[i];
        a.after[i] = l->after[i];
        more[i] = l->output_padding[i];
    }
    if (in && w && (!l->bias || b))
        y = l->transposed ? tn__conv_transpose(in, w, b, l->groups, &a, more)
                          : tn__conv(in, w, b, l->groups, &a, TN_DTYPE_DEFAULT);
    return tn__call_end(&c, y);
}

void tn_nn_conv_visit(tn_visitor *v, void *obj)
{
    tn_nn_conv *l = obj;
    tn_visit_tensor(v, "weight", &l->weight);
    tn_visit_tensor(v, "bias", &l->bias);
}
