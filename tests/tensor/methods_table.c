/* SPDX-License-Identifier: MIT */
/*
 * From a row's parameters to a call of the public API: methods of one signature by a table of functions, the
 * others by an adapter each.
 */
#include "methods_rig.h"
#include <string.h>

typedef void fn(void);
typedef enum { UNARY, SCALED, BINARY, REDUCE, AXIS, SORT, SHAPE, AXES, CREATE, SEEDED, OWN } form;

/* ---- parameters ---- */

static int64_t dims_buf[40];
static int axes_buf[20];

static tn_shape shape_from(const method_row *r, int at) { return shape_of(r, at, dims_buf); }

static tn_axes axes_from(const method_row *r, int at)
{
    for (int i = at; i < r->np; i++) axes_buf[i - at] = (int)r->p[i];
    return (tn_axes){(size_t)(r->np - at), axes_buf};
}

/* ---- adapters: parameters as golden_*.py writes them ---- */

static int isinf_(const method_row *r, tn_tensor **out)
{
    tn_isinf_opts o = {.size = sizeof o};
    if (r->np) o.no_positive = r->p[0] != 0, o.no_negative = r->p[1] != 0;
    return one(out, tn_isinf(r->in[0], r->np ? &o : NULL));
}

static int hardsigmoid(const method_row *r, tn_tensor **out)
{
    tn_act_opts o = {.size = sizeof o, .alpha = r->p[0], .beta = r->p[1]};
    return one(out, tn_hardsigmoid(r->in[0], &o));
}

static int hardtanh(const method_row *r, tn_tensor **out)
{
    tn_act_opts o = {.size = sizeof o, .min = r->p[0], .max = r->p[1]};
    return one(out, tn_hardtanh(r->in[0], &o));
}

static int gelu(const method_row *r, tn_tensor **out)
{
    tn_act_opts o = {.size = sizeof o, .exact = r->p[0] != 0};
    return one(out, tn_gelu(r->in[0], &o));
}

static int selu(const method_row *r, tn_tensor **out) { return one(out, tn_selu(r->in[0], NULL)); }

static int div_(const method_row *r, tn_tensor **out)
{
    tn_div_opts o = {.size = sizeof o, .rounding = (tn_div_mode)(int)r->p[0]};
    return one(out, tn_div(r->in[0], r->in[1], &o));
}

static int where(const method_row *r, tn_tensor **out)
{
    return one(out, tn_where(r->in[0], r->in[1], r->in[2]));
}

static int masked_fill(const method_row *r, tn_tensor **out)
{
    return one(out, tn_masked_fill(r->in[0], r->in[1], r->in[2]));
}

static int clamp(const method_row *r, tn_tensor **out)
{
    return one(out, tn_clamp(r->in[0], r->p[0] ? r->in[1] : NULL,
                             r->p[1] ? r->in[r->p[0] ? 2 : 1] : NULL));
}

static int clip(const method_row *r, tn_tensor **out)
{
    return one(
        out, tn_clip(r->in[0], r->p[0] ? r->in[1] : NULL, r->p[1] ? r->in[r->p[0] ? 2 : 1] : NULL));
}

static int lerp(const method_row *r, tn_tensor **out)
{
    return one(out, tn_lerp(r->in[0], r->in[1], r->in[2]));
}

static tn_close_opts close_opts(const method_row *r)
{
    return (tn_close_opts){
        .size = sizeof(tn_close_opts), .rtol = r->p[0], .atol = r->p[1], .equal_nan = r->p[2] != 0};
}

static int isclose(const method_row *r, tn_tensor **out)
{
    tn_close_opts o = close_opts(r);
    return one(out, tn_isclose(r->in[0], r->in[1], &o));
}

static int allclose(const method_row *r, tn_tensor **out)
{
    tn_close_opts o = close_opts(r);
    return one(out, tn_bool(tn_const_i(tn_allclose(r->in[0], r->in[1], &o))));
}

static int cast(const method_row *r, tn_tensor **out)
{
    return one(out, tn_cast(r->in[0], dtype_of(r->p[0])));
}

static int bitcast(const method_row *r, tn_tensor **out)
{
    return one(out, tn_bitcast(r->in[0], dtype_of(r->p[0])));
}

static int full(const method_row *r, tn_tensor **out)
{
    tn_create_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    tn_shape s = shape_from(r, 1);
    return one(out, tn_full(&s, r->in[0], &o));
}

static tn_tensor *number(double v)
{
    return v == (double)(int64_t)v ? tn_lift_int((int64_t)v) : tn_lift_float(v);
}

static int arange(const method_row *r, tn_tensor **out)
{
    tn_create_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    return one(out, tn_arange(number(r->p[1]), number(r->p[2]), number(r->p[3]), &o));
}

static int linspace(const method_row *r, tn_tensor **out)
{
    tn_create_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    return one(out, tn_linspace(r->p[1], r->p[2], (int64_t)r->p[3], &o));
}

static int eye(const method_row *r, tn_tensor **out)
{
    tn_create_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    return one(out, tn_eye((int64_t)r->p[1], (int64_t)r->p[2], &o));
}

static int tril(const method_row *r, tn_tensor **out)
{
    return one(out, tn_tril(r->in[0], (int64_t)r->p[0]));
}

static int triu(const method_row *r, tn_tensor **out)
{
    return one(out, tn_triu(r->in[0], (int64_t)r->p[0]));
}

static int one_hot(const method_row *r, tn_tensor **out)
{
    return one(out, tn_one_hot(r->in[0], (int64_t)r->p[0]));
}

static int normalize(const method_row *r, tn_tensor **out)
{
    tn_norm_opts o = {.size = sizeof o, .p = r->p[1], .eps = r->p[2]};
    return one(out, tn_normalize(r->in[0], (int)r->p[0], &o));
}

static int layernorm(const method_row *r, tn_tensor **out)
{
    tn_eps_opts o = {.size = sizeof o, .eps = r->p[0]};
    tn_axes ax = axes_from(r, 1);
    return one(out, tn_layernorm(r->in[0], &ax, &o));
}

static int batchnorm(const method_row *r, tn_tensor **out)
{
    bool affine = r->nin == 5;
    tn_axes ax = axes_from(r, 0);
    return one(out, tn_batchnorm(r->in[0], affine ? r->in[1] : NULL, affine ? r->in[2] : NULL,
                                 r->in[r->nin - 2], r->in[r->nin - 1], &ax));
}

static int topk(const method_row *r, tn_tensor **out)
{
    tn_sort_opts o = {.size = sizeof o, .smallest = r->p[2] != 0, .indices = &out[1]};
    out[0] = tn_topk(r->in[0], (int64_t)r->p[0], (int)r->p[1], &o);
    return 2;
}

static int argsort(const method_row *r, tn_tensor **out)
{
    tn_sort_opts o = {.size = sizeof o, .descending = r->p[1] != 0};
    return one(out, tn_argsort(r->in[0], (int)r->p[0], &o));
}

static int transpose(const method_row *r, tn_tensor **out)
{
    return one(out, tn_transpose(r->in[0], (int)r->p[0], (int)r->p[1]));
}

static int squeeze(const method_row *r, tn_tensor **out)
{
    tn_axes ax = axes_from(r, 0);
    return one(out, tn_squeeze(r->in[0], r->np ? &ax : tn_axes_all()));
}

static int unsqueeze(const method_row *r, tn_tensor **out)
{
    return one(out, tn_unsqueeze(r->in[0], (int)r->p[0]));
}

static int flatten(const method_row *r, tn_tensor **out)
{
    tn_flatten_opts o = {.size = sizeof o, .start = (int)r->p[0], .end = (int)r->p[1]};
    return one(out, tn_flatten(r->in[0], &o));
}

static int unflatten(const method_row *r, tn_tensor **out)
{
    tn_shape s = shape_from(r, 1);
    return one(out, tn_unflatten(r->in[0], (int)r->p[0], &s));
}

static int diagonal(const method_row *r, tn_tensor **out)
{
    return one(out, tn_diagonal(r->in[0], (int64_t)r->p[0], (int)r->p[1], (int)r->p[2]));
}

static int unfold(const method_row *r, tn_tensor **out)
{
    return one(out, tn_unfold(r->in[0], (int)r->p[0], (int64_t)r->p[1], (int64_t)r->p[2]));
}

static int split(const method_row *r, tn_tensor **out)
{
    tn_shape s = shape_from(r, 1);
    return (int)tn_split(r->in[0], &s, (int)r->p[0], out, 16);
}

static int chunk(const method_row *r, tn_tensor **out)
{
    return (int)tn_chunk(r->in[0], (int64_t)r->p[1], (int)r->p[0], out, 16);
}

static int meshgrid(const method_row *r, tn_tensor **out)
{
    tn_grid_opts o = {.size = sizeof o, .xy = r->p[0] != 0};
    tn_inputs in = {(size_t)r->nin, r->in};
    tn_meshgrid(&in, out, &o);
    return r->nin;
}

static int cat(const method_row *r, tn_tensor **out)
{
    tn_inputs in = {(size_t)r->nin, r->in};
    return one(out, tn_cat(&in, (int)r->p[0]));
}

static int stack(const method_row *r, tn_tensor **out)
{
    tn_inputs in = {(size_t)r->nin, r->in};
    return one(out, tn_stack(&in, (int)r->p[0]));
}

static int pad(const method_row *r, tn_tensor **out)
{
    tn_pad_opts o = {.size = sizeof o, .mode = (tn_pad_mode)(int)r->p[0], .value = r->p[1]};
    tn_shape s = shape_from(r, 2);
    return one(out, tn_pad(r->in[0], &s, &o));
}

static int pad_to(const method_row *r, tn_tensor **out)
{
    tn_shape s = shape_from(r, 1);
    return one(out, tn_pad_to(r->in[0], &s, r->p[0]));
}

static int repeat_interleave(const method_row *r, tn_tensor **out)
{
    return one(out, tn_repeat_interleave(r->in[0], (int64_t)r->p[0], (int)r->p[1]));
}

static int roll(const method_row *r, tn_tensor **out)
{
    int n = r->p[0] != 0 ? 1 : (r->np - 1) / 2;
    tn_shape s = shape_from(r, 1);
    tn_axes ax = axes_from(r, 1 + n);
    s.n = (size_t)n;
    return one(out, tn_roll(r->in[0], &s, r->p[0] != 0 ? tn_axes_all() : &ax));
}

static tn_indices indices(const method_row *r, tn_idx *at)
{
    static const tn_idx_kind kinds[] = {TN_IDX_AT, TN_IDX_SLICE, TN_IDX_NEW, TN_IDX_DOTS,
                                        TN_IDX_TENSOR};
    int n = r->np / 4, t = 1;
    for (int i = 0; i < n; i++) {
        const double *p = r->p + 4 * i;
        at[i] = (tn_idx){kinds[(int)p[0]], (int64_t)p[1], (int64_t)p[2], (int64_t)p[3], NULL};
        if (at[i].kind == TN_IDX_TENSOR) at[i].t = r->in[t++];
    }
    return (tn_indices){(size_t)n, at};
}

static int index_(const method_row *r, tn_tensor **out)
{
    tn_idx at[16];
    tn_indices i = indices(r, at);
    return one(out, tn_index(r->in[0], &i));
}

static int setitem(const method_row *r, tn_tensor **out)
{
    tn_idx at[16];
    tn_indices i = indices(r, at);
    return one(out, tn_setitem(r->in[0], &i, r->in[r->nin - 1]));
}

static int gather(const method_row *r, tn_tensor **out)
{
    return one(out, tn_gather(r->in[0], (int)r->p[0], r->in[1]));
}

static int scatter(const method_row *r, tn_tensor **out)
{
    tn_scatter_opts o = {.size = sizeof o, .reduce = (tn_scatter_op)(int)r->p[1]};
    return one(out, tn_scatter(r->in[0], (int)r->p[0], r->in[1], r->in[2], &o));
}

static int scatter_reduce(const method_row *r, tn_tensor **out)
{
    tn_scatter_opts o = {
        .size = sizeof o, .by = (tn_scatter_reduction)(int)r->p[1], .exclude_self = r->p[2] != 0};
    return one(out, tn_scatter_reduce(r->in[0], (int)r->p[0], r->in[1], r->in[2], &o));
}

static int masked_select(const method_row *r, tn_tensor **out)
{
    tn_fill_opts o = {.size = sizeof o, .fill = r->p[1]};
    return one(out, tn_masked_select(r->in[0], r->in[1], (int64_t)r->p[0], &o));
}

static int nonzero(const method_row *r, tn_tensor **out)
{
    tn_fill_opts o = {.size = sizeof o, .fill = r->p[1]};
    return one(out, tn_nonzero(r->in[0], (int64_t)r->p[0], &o));
}

static int matmul(const method_row *r, tn_tensor **out)
{
    tn_dtype_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    return one(out, tn_matmul(r->in[0], r->in[1], &o));
}

static int dot(const method_row *r, tn_tensor **out)
{
    tn_dtype_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    return one(out, tn_dot(r->in[0], r->in[1], &o));
}

static int linear(const method_row *r, tn_tensor **out)
{
    return one(out, tn_linear(r->in[0], r->in[1], r->nin > 2 ? r->in[2] : NULL));
}

static int einsum(const method_row *r, tn_tensor **out)
{
    tn_dtype_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
    tn_inputs in = {(size_t)r->nin, r->in};
    return one(out, tn_einsum(r->text, &in, &o));
}

static tn_conv2d_opts conv_opts(const method_row *r)
{
    tn_conv2d_opts o = {.size = sizeof o, .bias = r->nin > 2 ? r->in[2] : NULL};
    int n = (int)r->p[0];
    const double *p = r->p + 1;
    for (int i = 0; i < n; i++) {
        o.stride[i] = (int)p[i];
        o.padding[i] = (int)p[n + i];
        o.dilation[i] = (int)p[2 * n + i];
        o.output_padding[i] = (int)p[3 * n + 1 + i];
    }
    o.groups = (int)p[3 * n];
    for (int i = 0; i < 2 * n && p[4 * n + 1] != 0; i++) o.pads[i] = (int)p[4 * n + 2 + i];
    return o;
}

static int conv2d(const method_row *r, tn_tensor **out)
{
    tn_conv2d_opts o = conv_opts(r);
    return one(out, tn_conv2d(r->in[0], r->in[1], &o));
}

static int conv_transpose2d(const method_row *r, tn_tensor **out)
{
    tn_conv2d_opts o = conv_opts(r);
    return one(out, tn_conv_transpose2d(r->in[0], r->in[1], &o));
}

static tn_pool2d_opts pool_opts(const method_row *r)
{
    tn_pool2d_opts o = {.size = sizeof o};
    int n = (int)r->p[0];
    const double *p = r->p + 1;
    for (int i = 0; i < n; i++) {
        o.kernel[i] = (int)p[i];
        o.stride[i] = (int)p[n + i];
        o.padding[i] = (int)p[2 * n + i];
        o.dilation[i] = (int)p[3 * n + i];
        o.output_size[i] = (int)p[4 * n + 2 + i];
    }
    o.ceil_mode = p[4 * n] != 0;
    o.exclude_pad = p[4 * n + 1] != 0;
    return o;
}

static int max_pool2d(const method_row *r, tn_tensor **out)
{
    tn_pool2d_opts o = pool_opts(r);
    o.indices = &out[1];
    out[0] = tn_max_pool2d(r->in[0], &o);
    return 2;
}

static int avg_pool2d(const method_row *r, tn_tensor **out)
{
    tn_pool2d_opts o = pool_opts(r);
    return one(out, tn_avg_pool2d(r->in[0], &o));
}

static int max_unpool2d(const method_row *r, tn_tensor **out)
{
    tn_pool2d_opts o = pool_opts(r);
    return one(out, tn_max_unpool2d(r->in[0], r->in[1], &o));
}

static int interpolate(const method_row *r, tn_tensor **out)
{
    tn_resize_opts o = {
        .size = sizeof o, .mode = (tn_resize_mode)(int)r->p[0], .align_corners = r->p[1] != 0};
    tn_shape s = shape_from(r, 2);
    return one(out, tn_interpolate(r->in[0], &s, &o));
}

static int attention(const method_row *r, tn_tensor **out)
{
    tn_attention_opts o = {.size = sizeof o,
                           .is_causal = r->p[0] != 0,
                           .enable_gqa = r->p[1] != 0,
                           .attn_mask = r->nin > 3 ? r->in[3] : NULL};
    return one(out, tn_scaled_dot_product_attention(r->in[0], r->in[1], r->in[2], &o));
}

static int64_t ignore_buf;

static tn_loss_opts loss_opts(const method_row *r)
{
    ignore_buf = (int64_t)r->p[3];
    tn_tensor *third = r->nin > 2 ? r->in[2] : NULL;
    return (tn_loss_opts){.size = sizeof(tn_loss_opts),
                          .reduction = (tn_reduction)(int)r->p[0],
                          .label_smoothing = r->p[1],
                          .ignore_index = r->p[2] != 0 ? &ignore_buf : NULL,
                          .weight = third,
                          .pos_weight = third};
}

typedef tn_tensor *loss_fn(tn_tensor *x, tn_tensor *y, const tn_loss_opts *o);

static int loss(loss_fn *f, const method_row *r, tn_tensor **out)
{
    tn_loss_opts o = loss_opts(r);
    return one(out, f(r->in[0], r->in[1], &o));
}

static int bce(const method_row *r, tn_tensor **out)
{
    return loss(tn_binary_crossentropy, r, out);
}
static int bce_logits(const method_row *r, tn_tensor **out)
{
    return loss(tn_binary_crossentropy_logits, r, out);
}
static int sparse_ce(const method_row *r, tn_tensor **out)
{
    return loss(tn_sparse_categorical_crossentropy, r, out);
}
static int ce(const method_row *r, tn_tensor **out) { return loss(tn_cross_entropy, r, out); }
static int nll(const method_row *r, tn_tensor **out) { return loss(tn_nll_loss, r, out); }

/* ---- the table ---- */

typedef struct {
    const char *name;
    form form;
    fn *f;
} entry;

#define E(form, name)           \
    {                           \
#name, form, (fn *)name \
    }
#define O(name, adapter)          \
    {                             \
#name, OWN, (fn *)adapter \
    }

static const entry table[] = {
    E(UNARY, tn_neg),
    E(UNARY, tn_abs),
    E(UNARY, tn_sign),
    E(UNARY, tn_square),
    E(UNARY, tn_reciprocal),
    E(UNARY, tn_sqrt),
    E(UNARY, tn_rsqrt),
    E(UNARY, tn_trunc),
    E(UNARY, tn_floor),
    E(UNARY, tn_ceil),
    E(UNARY, tn_round),
    E(UNARY, tn_logical_not),
    E(UNARY, tn_bitwise_not),
    E(UNARY, tn_isnan),
    E(UNARY, tn_isfinite),
    E(UNARY, tn_exp),
    E(UNARY, tn_exp2),
    E(UNARY, tn_log),
    E(UNARY, tn_log2),
    E(UNARY, tn_log10),
    E(UNARY, tn_sin),
    E(UNARY, tn_cos),
    E(UNARY, tn_tan),
    E(UNARY, tn_asin),
    E(UNARY, tn_acos),
    E(UNARY, tn_atan),
    E(UNARY, tn_sinh),
    E(UNARY, tn_cosh),
    E(UNARY, tn_tanh),
    E(UNARY, tn_asinh),
    E(UNARY, tn_acosh),
    E(UNARY, tn_atanh),
    E(UNARY, tn_erf),
    E(UNARY, tn_relu),
    E(UNARY, tn_sigmoid),
    E(UNARY, tn_relu6),
    E(UNARY, tn_hardswish),
    E(UNARY, tn_quick_gelu),
    E(UNARY, tn_swish),
    E(UNARY, tn_silu),
    E(UNARY, tn_mish),
    E(UNARY, tn_logsigmoid),
    E(UNARY, tn_softsign),
    E(UNARY, tn_contiguous),
    E(UNARY, tn_contiguous_backward),
    E(UNARY, tn_clone),
    E(UNARY, tn_zeros_like),
    E(UNARY, tn_ones_like),
    E(UNARY, tn_empty_like),
    E(UNARY, tn_diag),
    E(UNARY, tn_float),
    E(UNARY, tn_double),
    E(UNARY, tn_half),
    E(UNARY, tn_bfloat16),
    E(UNARY, tn_short),
    E(UNARY, tn_int),
    E(UNARY, tn_long),
    E(UNARY, tn_bool),
    E(UNARY, tn_T),
    E(SCALED, tn_leaky_relu),
    E(SCALED, tn_elu),
    E(SCALED, tn_celu),
    E(SCALED, tn_softplus),
    E(BINARY, tn_add),
    E(BINARY, tn_sub),
    E(BINARY, tn_mul),
    E(BINARY, tn_mod),
    E(BINARY, tn_fmod),
    E(BINARY, tn_pow),
    E(BINARY, tn_maximum),
    E(BINARY, tn_minimum),
    E(BINARY, tn_bitwise_and),
    E(BINARY, tn_bitwise_or),
    E(BINARY, tn_bitwise_xor),
    E(BINARY, tn_lshift),
    E(BINARY, tn_rshift),
    E(BINARY, tn_eq),
    E(BINARY, tn_ne),
    E(BINARY, tn_lt),
    E(BINARY, tn_le),
    E(BINARY, tn_gt),
    E(BINARY, tn_ge),
    E(BINARY, tn_copysign),
    E(BINARY, tn_logaddexp),
    E(BINARY, tn_threefry),
    E(BINARY, tn_iadd),
    E(BINARY, tn_isub),
    E(BINARY, tn_imul),
    E(BINARY, tn_idiv),
    E(BINARY, tn_ifloordiv),
    E(BINARY, tn_imod),
    E(BINARY, tn_ipow),
    E(BINARY, tn_iand),
    E(BINARY, tn_ior),
    E(BINARY, tn_ixor),
    E(BINARY, tn_ilshift),
    E(BINARY, tn_irshift),
    E(BINARY, tn_imatmul),
    E(BINARY, tn_full_like),
    E(BINARY, tn_const_like),
    E(REDUCE, tn_sum),
    E(REDUCE, tn_prod),
    E(REDUCE, tn_max),
    E(REDUCE, tn_min),
    E(REDUCE, tn_any),
    E(REDUCE, tn_all),
    E(REDUCE, tn_mean),
    E(REDUCE, tn_var),
    E(REDUCE, tn_std),
    E(REDUCE, tn_var_mean),
    E(REDUCE, tn_std_mean),
    E(REDUCE, tn_logsumexp),
    E(REDUCE, tn_argmax),
    E(REDUCE, tn_argmin),
    E(REDUCE, tn_softmax),
    E(REDUCE, tn_log_softmax),
    E(REDUCE, tn_softmin),
    E(AXIS, tn_cumsum),
    E(AXIS, tn_cumprod),
    E(AXIS, tn_logcumsumexp),
    E(SORT, tn_cummax),
    E(SORT, tn_cummin),
    E(SORT, tn_sort),
    E(SHAPE, tn_reshape),
    E(SHAPE, tn_view),
    E(SHAPE, tn_expand),
    E(SHAPE, tn_shrink),
    E(SHAPE, tn_shrink_to),
    E(SHAPE, tn_repeat),
    E(AXES, tn_permute),
    E(AXES, tn_flip),
    E(CREATE, tn_zeros),
    E(CREATE, tn_ones),
    E(CREATE, tn_empty),
    E(SEEDED, tn_rand),
    E(SEEDED, tn_randn),
    E(SEEDED, tn_scaled_uniform),
    E(SEEDED, tn_glorot_uniform),
    O(tn_random_bits, method_random_bits),
    O(tn_randint, method_randint),
    O(tn_uniform, method_uniform),
    O(tn_normal, method_normal),
    O(tn_kaiming_uniform, method_kaiming_uniform),
    O(tn_kaiming_normal, method_kaiming_normal),
    O(tn_randperm, method_randperm),
    O(tn_rand_like, method_rand_like),
    O(tn_randn_like, method_randn_like),
    O(tn_multinomial, method_multinomial),
    O(tn_dropout, method_dropout),
    O(tn_nbytes, method_nbytes),
    O(tn_element_size, method_element_size),
    O(tn_is_floating_point, method_is_floating_point),
    O(tn_isinf, isinf_),
    O(tn_hardsigmoid, hardsigmoid),
    O(tn_hardtanh, hardtanh),
    O(tn_gelu, gelu),
    O(tn_selu, selu),
    O(tn_div, div_),
    O(tn_where, where),
    O(tn_masked_fill, masked_fill),
    O(tn_clamp, clamp),
    O(tn_clip, clip),
    O(tn_lerp, lerp),
    O(tn_isclose, isclose),
    O(tn_allclose, allclose),
    O(tn_cast, cast),
    O(tn_bitcast, bitcast),
    O(tn_full, full),
    O(tn_arange, arange),
    O(tn_linspace, linspace),
    O(tn_eye, eye),
    O(tn_tril, tril),
    O(tn_triu, triu),
    O(tn_one_hot, one_hot),
    O(tn_normalize, normalize),
    O(tn_layernorm, layernorm),
    O(tn_batchnorm, batchnorm),
    O(tn_topk, topk),
    O(tn_argsort, argsort),
    O(tn_transpose, transpose),
    O(tn_squeeze, squeeze),
    O(tn_unsqueeze, unsqueeze),
    O(tn_flatten, flatten),
    O(tn_unflatten, unflatten),
    O(tn_diagonal, diagonal),
    O(tn_unfold, unfold),
    O(tn_split, split),
    O(tn_chunk, chunk),
    O(tn_meshgrid, meshgrid),
    O(tn_cat, cat),
    O(tn_stack, stack),
    O(tn_pad, pad),
    O(tn_pad_to, pad_to),
    O(tn_repeat_interleave, repeat_interleave),
    O(tn_roll, roll),
    O(tn_index, index_),
    O(tn_setitem, setitem),
    O(tn_gather, gather),
    O(tn_scatter, scatter),
    O(tn_scatter_reduce, scatter_reduce),
    O(tn_masked_select, masked_select),
    O(tn_nonzero, nonzero),
    O(tn_matmul, matmul),
    O(tn_dot, dot),
    O(tn_linear, linear),
    O(tn_einsum, einsum),
    O(tn_conv2d, conv2d),
    O(tn_conv_transpose2d, conv_transpose2d),
    O(tn_max_pool2d, max_pool2d),
    O(tn_avg_pool2d, avg_pool2d),
    O(tn_max_unpool2d, max_unpool2d),
    O(tn_interpolate, interpolate),
    O(tn_scaled_dot_product_attention, attention),
    O(tn_binary_crossentropy, bce),
    O(tn_binary_crossentropy_logits, bce_logits),
    O(tn_sparse_categorical_crossentropy, sparse_ce),
    O(tn_cross_entropy, ce),
    O(tn_nll_loss, nll),
};

typedef tn_tensor *unary_fn(tn_tensor *), *scaled_fn(tn_tensor *, double),
    *binary_fn(tn_tensor *, tn_tensor *);
typedef tn_tensor *reduce_fn(tn_tensor *, const tn_axes *, const tn_reduce_opts *),
    *axis_fn(tn_tensor *, int);
typedef tn_tensor *sort_fn(tn_tensor *, int, const tn_sort_opts *),
    *shape_fn(tn_tensor *, const tn_shape *);
typedef tn_tensor *axes_fn(tn_tensor *, const tn_axes *),
    *create_fn(const tn_shape *, const tn_create_opts *);

static int reduce(const entry *e, const method_row *r, tn_tensor **out)
{
    bool two = r->nout == 2;
    tn_reduce_opts o = {.size = sizeof o,
                        .keepdim = r->p[0] != 0,
                        .dtype = dtype_of(r->p[1]),
                        .biased = r->p[2] != 0,
                        .correction = r->p[3],
                        .mean = two ? &out[1] : NULL};
    tn_axes ax = axes_from(r, 5);
    out[0] = ((reduce_fn *)e->f)(r->in[0], r->p[4] < 0 ? tn_axes_all() : &ax, &o);
    return two ? 2 : 1;
}

static int call(const entry *e, const method_row *r, tn_tensor **out)
{
    tn_shape s;
    tn_axes ax;
    switch (e->form) {
    case UNARY: return one(out, ((unary_fn *)e->f)(r->in[0]));
    case SCALED: return one(out, ((scaled_fn *)e->f)(r->in[0], r->p[0]));
    case BINARY: return one(out, ((binary_fn *)e->f)(r->in[0], r->in[1]));
    case REDUCE: return reduce(e, r, out);
    case AXIS: return one(out, ((axis_fn *)e->f)(r->in[0], (int)r->p[0]));
    case SORT: {
        tn_sort_opts o = {
            .size = sizeof o, .descending = r->np > 1 && r->p[1] != 0, .indices = &out[1]};
        out[0] = ((sort_fn *)e->f)(r->in[0], (int)r->p[0], &o);
        return 2;
    }
    case SHAPE: s = shape_from(r, 0); return one(out, ((shape_fn *)e->f)(r->in[0], &s));
    case AXES: ax = axes_from(r, 0); return one(out, ((axes_fn *)e->f)(r->in[0], &ax));
    case CREATE: {
        tn_create_opts o = {.size = sizeof o, .dtype = dtype_of(r->p[0])};
        s = shape_from(r, 1);
        return one(out, ((create_fn *)e->f)(&s, &o));
    }
    case SEEDED: {
        tn_create_opts o = seeded(r);
        s = shape_from(r, 2);
        return one(out, ((create_fn *)e->f)(&s, &o));
    }
    case OWN: return ((adapter *)e->f)(r, out);
    }
    return 0;
}

int method_call(const char *name, const method_row *r, tn_tensor **out)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (!strcmp(table[i].name, name)) return call(&table[i], r, out);
    return 0;
}
