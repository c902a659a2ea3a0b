/* SPDX-License-Identifier: MIT */
/* Public wrappers: products, convolution, pooling, resizing, attention, losses. */
#include "tensor/api.h"

/* ---- products ---- */

static tn_tensor *matmul(const char *name, tn_tensor *a, tn_tensor *b, const tn_dtype_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_dtype_opts, o, opts);
    tn__call_begin(&c, name);
    tn__node *x = tn__in(a), *y = tn__in(b);
    return tn__call_end(&c, x && y ? tn__matmul(x, y, o.dtype) : NULL);
}

tn_tensor *(tn_matmul)(tn_tensor *a, tn_tensor *b, const tn_dtype_opts *o)
{
    return matmul("tn_matmul", a, b, o);
}

tn_tensor *(tn_dot)(tn_tensor *a, tn_tensor *b, const tn_dtype_opts *o)
{
    return matmul("tn_dot", a, b, o);
}

tn_tensor *(tn_linear)(tn_tensor *t, tn_tensor *w, tn_tensor *bias)
{
    tn__call c;
    tn__call_begin(&c, "tn_linear");
    tn__node *x = tn__in(t), *wn = tn__in(w), *b = tn__in_opt(bias);
    return tn__call_end(&c, x && wn && (b || !bias) ? tn__linear(x, wn, b) : NULL);
}

tn_tensor *(tn_einsum)(const char *formula, const tn_inputs *xs, const tn_dtype_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_dtype_opts, o, opts);
    tn__call_begin(&c, "tn_einsum");
    tn__node **nodes = tn__in_all("einsum", xs),
             *y = nodes ? tn__einsum(formula, nodes, xs->n, o.dtype) : NULL;
    tn__free(nodes);
    return tn__call_end(&c, y);
}

/* ---- windows ---- */

/* Missing strides and dilations are those before them, or `first`. */
static bool window_args(const char *op, const int *stride, const int *padding, const int *dilation,
                        const int *pads, const int64_t *first, tn__window_args *a)
{
    bool flat = false;
    for (int i = 0; i < 2 * a->n; i++) flat = flat || pads[i];
    for (int i = 0; i < a->n; i++) {
        bool own = !stride[0];
        a->stride[i] = stride[i] ? stride[i] : own ? first[i] : a->stride[i - 1];
        a->dilation[i] = dilation[i] ? dilation[i] : i ? a->dilation[i - 1] : 1;
        a->before[i] = flat ? pads[2 * (a->n - 1 - i)] : padding[i];
        a->after[i] = flat ? pads[2 * (a->n - 1 - i) + 1] : padding[i];
        if (a->stride[i] >= 1 && a->dilation[i] >= 1 && a->kernel[i] >= 1 && a->before[i] >= 0 &&
            a->after[i] >= 0)
            continue;
        return tn__fail(TN_EVALUE,
                        "%s: spatial axis %d: kernel %lld, stride %lld, dilation %lld, padding "
                        "%lld and %lld: the "
                        "first three must be at least 1, the paddings not negative",
                        op, i, (long long)a->kernel[i], (long long)a->stride[i],
                        (long long)a->dilation[i], (long long)a->before[i], (long long)a->after[i]);
    }
    return true;
}

static bool conv_args(const char *op, const tn__node *x, const tn__node *w, const tn_conv2d_opts *o,
                      tn__window_args *a)
{
    static const int64_t ones[TN__MAX_SPATIAL] = {1, 1, 1};
    a->n = w->rank - 2;
    if (a->n < 1 || a->n > TN__MAX_SPATIAL)
        return tn__fail(TN_ESHAPE,
                        "%s: input %s and weight %s: the weight has (out, in / groups, kernel..) "
                        "with 1 to %d spatial "
                        "axes",
                        op, tn__shape_text(x->dims, x->rank), tn__shape_text(w->dims, w->rank),
                        TN__MAX_SPATIAL);
    for (int i = 0; i < a->n; i++) a->kernel[i] = w->dims[2 + i];
    return window_args(op, o->stride, o->padding, o->dilation, o->pads, ones, a);
}

tn_tensor *(tn_conv2d)(tn_tensor *t, tn_tensor *w, const tn_conv2d_opts *opts)
{
    tn__call c;
    tn__window_args a;
    TN__OPTS(tn_conv2d_opts, o, opts);
    tn__call_begin(&c, "tn_conv2d");
    tn__node *x = tn__in(t), *wn = tn__in(w), *b = tn__in_opt(o.bias);
    bool ok = x && wn && (b || !o.bias) && conv_args("conv2d", x, wn, &o, &a);
    return tn__call_end(&c, ok ? tn__conv(x, wn, b, o.groups ? o.groups : 1, &a, o.dtype) : NULL);
}

tn_tensor *(tn_conv_transpose2d)(tn_tensor *t, tn_tensor *w, const tn_conv2d_opts *opts)
{
    tn__call c;
    tn__window_args a;
    TN__OPTS(tn_conv2d_opts, o, opts);
    tn__call_begin(&c, "tn_conv_transpose2d");
    tn__node *x = tn__in(t), *wn = tn__in(w), *b = tn__in_opt(o.bias);
    bool ok = x && wn && (b || !o.bias) && conv_args("conv_transpose2d", x, wn, &o, &a);
    int64_t more[TN__MAX_SPATIAL];
    for (int i = 0; i < TN__MAX_SPATIAL; i++) more[i] = o.output_padding[i];
    return tn__call_end(&c, ok ? tn__conv_transpose(x, wn, b, o.groups ? o.groups : 1, &a, more)
                               : NULL);
}

static bool pool_args(const char *op, const tn_pool2d_opts *o, tn__window_args *a)
{
    a->n = 0;
    while (a->n < TN__MAX_SPATIAL && o->kernel[a->n]) a->n++;
    for (int i = 0; i < a->n; i++) a->kernel[i] = o->kernel[i];
    if (!a->n) a->n = 2, a->kernel[0] = a->kernel[1] = 2;
    return window_args(op, o->stride, o->padding, o->dilation, o->pads, a->kernel, a);
}

tn_tensor *(tn_max_pool2d)(tn_tensor *t, const tn_pool2d_opts *opts)
{
    tn__call c;
    tn__window_args a;
    TN__OPTS(tn_pool2d_opts, o, opts);
    tn__call_begin(&c, "tn_max_pool2d");
    tn__node *x = tn__in(t), *at = NULL, *y = NULL;
    if (x && pool_args("max_pool2d", &o, &a))
        y = tn__max_pool(x, &a, o.ceil_mode, o.indices ? &at : NULL);
    return tn__call_end_two(&c, "tn_max_pool2d", y, at, o.indices);
}

tn_tensor *(tn_avg_pool2d)(tn_tensor *t, const tn_pool2d_opts *opts)
{
    tn__call c;
    tn__window_args a;
    TN__OPTS(tn_pool2d_opts, o, opts);
    tn__call_begin(&c, "tn_avg_pool2d");
    tn__node *x = tn__in(t);
    return tn__call_end(&c, x && pool_args("avg_pool2d", &o, &a)
                                ? tn__avg_pool(x, &a, o.ceil_mode, !o.exclude_pad)
                                : NULL);
}

tn_tensor *(tn_max_unpool2d)(tn_tensor *t, tn_tensor *indices, const tn_pool2d_opts *opts)
{
    tn__call c;
    tn__window_args a;
    TN__OPTS(tn_pool2d_opts, o, opts);
    tn__call_begin(&c, "tn_max_unpool2d");
    tn__node *x = tn__in(t), *at = tn__in(indices);
    int64_t size[TN__MAX_SPATIAL];
    bool given = false;
    for (int i = 0; i < TN__MAX_SPATIAL; i++) {
        size[i] = o.output_size[i];
        given = given || size[i];
    }
    bool ok = x && at && pool_args("max_unpool2d", &o, &a);
    return tn__call_end(&c, ok ? tn__max_unpool(x, at, &a, given ? size : NULL) : NULL);
}

tn_tensor *(tn_interpolate)(tn_tensor *t, const tn_shape *size, const tn_resize_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_resize_opts, o, opts);
    tn__call_begin(&c, "tn_interpolate");
    tn__node *x = tn__in(t);
    tn__resize_mode m = o.mode == TN_RESIZE_NEAREST         ? TN__NEAREST
                        : o.mode == TN_RESIZE_NEAREST_EXACT ? TN__NEAREST_EXACT
                                                            : TN__LINEAR;
    bool ok = x && tn__shape_read("interpolate", size);
    return tn__call_end(&c, ok ? tn__interpolate(x, size->d, size->n, m, o.align_corners) : NULL);
}

tn_tensor *(tn_scaled_dot_product_attention)(tn_tensor *q, tn_tensor *k, tn_tensor *v,
                                             const tn_attention_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_attention_opts, o, opts);
    tn__call_begin(&c, "tn_scaled_dot_product_attention");
    tn__node *qn = tn__in(q), *kn = tn__in(k), *vn = tn__in(v), *m = tn__in_opt(o.attn_mask);
    bool ok = qn && kn && vn && (m || !o.attn_mask);
    return tn__call_end(
        &c, ok ? tn__attention(qn, kn, vn, m, o.dropout_p, o.is_causal, o.enable_gqa) : NULL);
}

/* ---- losses ---- */

static tn__reduction reduction(const tn_loss_opts *o)
{
    return o->reduction == TN_REDUCTION_SUM    ? TN__SUM
           : o->reduction == TN_REDUCTION_NONE ? TN__KEEP
                                               : TN__MEAN;
}

tn_tensor *(tn_binary_crossentropy)(tn_tensor *t, tn_tensor *y, const tn_loss_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_loss_opts, o, opts);
    tn__call_begin(&c, "tn_binary_crossentropy");
    tn__node *x = tn__in(t), *yn = tn__in(y);
    return tn__call_end(&c, x && yn ? tn__binary_crossentropy(x, yn, reduction(&o)) : NULL);
}

tn_tensor *(tn_binary_crossentropy_logits)(tn_tensor *t, tn_tensor *y, const tn_loss_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_loss_opts, o, opts);
    tn__call_begin(&c, "tn_binary_crossentropy_logits");
    tn__node *x = tn__in(t), *yn = tn__in(y), *w = tn__in_opt(o.pos_weight);
    bool ok = x && yn && (w || !o.pos_weight);
    return tn__call_end(&c, ok ? tn__binary_crossentropy_logits(x, yn, w, reduction(&o)) : NULL);
}

tn_tensor *(tn_sparse_categorical_crossentropy)(tn_tensor *t, tn_tensor *y,
                                                const tn_loss_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_loss_opts, o, opts);
    tn__call_begin(&c, "tn_sparse_categorical_crossentropy");
    tn__node *x = tn__in(t), *yn = tn__in(y);
    bool ok = x && yn;
    return tn__call_end(
        &c, ok ? tn__sparse_crossentropy(x, yn, o.ignore_index, o.label_smoothing, reduction(&o))
               : NULL);
}

tn_tensor *(tn_cross_entropy)(tn_tensor *t, tn_tensor *y, const tn_loss_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_loss_opts, o, opts);
    tn__call_begin(&c, "tn_cross_entropy");
    tn__node *x = tn__in(t), *yn = tn__in(y);
    return tn__call_end(&c, x && yn ? tn__cross_entropy(x, yn, o.label_smoothing, reduction(&o))
                                    : NULL);
}

tn_tensor *(tn_nll_loss)(tn_tensor *t, tn_tensor *y, const tn_loss_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_loss_opts, o, opts);
    tn__call_begin(&c, "tn_nll_loss");
    tn__node *x = tn__in(t), *yn = tn__in(y), *w = tn__in_opt(o.weight);
    bool ok = x && yn && (w || !o.weight);
    return tn__call_end(&c, ok ? tn__nll_loss(x, yn, w, o.ignore_index, reduction(&o)) : NULL);
}
