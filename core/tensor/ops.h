/* SPDX-License-Identifier: MIT */
/*
 * Tensor methods at node level: graph building only, from the primitives of node.h.
 *
 * Every function takes and gives borrowed nodes of the running build.  A NULL source gives NULL and
 * records nothing; a wrong argument is an error with text, found here, at the call, before anything is
 * built.  Binary ones promote dtypes and broadcast shapes (from the right, sizes 1 stretch).  `axis` may
 * be negative; a mask of axes has bit i for axis i.  Sources of the semantics: PyTorch's, and tinygrad's
 * names and defaults.
 */
#ifndef TN_TENSOR_OPS_H
#define TN_TENSOR_OPS_H
#include "tensor/node.h"
#include "tensor/sums.h"

#define TN__ALL_AXES (~0u)

/* ---- helpers (ops_common.c) ---- */
bool tn__axis_of(const char *op, const tn__node *x, int axis, int *out); /* rank 0 takes -1 and 0 */
bool tn__axes_mask(const char *op, const tn__node *x, const int *axes, size_t n, unsigned *mask);
unsigned tn__mask_all(const tn__node *x);
tn__node *tn__strong(tn__node *x); /* a lifted scalar becomes int32 or the default float */
tn__node *tn__weak_as(tn__node *x,
                      tn_dtype other); /* a lifted scalar in the dtype it takes beside `other` */
tn__node *tn__to_float(tn__node *x);   /* integers and bool become the default float */
tn__node *
tn__to_wide(tn__node *x); /* float16 and bfloat16 become float32, integers the default float */
tn__node *tn__to_acc(tn__node *x); /* to the accumulator of a sum */
tn__node *tn__broadcast_to(const char *op, tn__node *x, const int64_t *dims, int rank);
bool tn__broadcast(const char *op, tn__node **xs, int n);      /* shapes only */
bool tn__promote(const char *op, tn__node **xs, int n);        /* dtypes only */
bool tn__unify(const char *op, tn__node **xs, int n);          /* both */
tn__node *tn__like(tn__node *x, double v);                     /* constant of x's dtype and shape */
tn__node *tn__index_along(tn__node *x, int axis, tn_dtype dt); /* iota of x's shape */
tn__node *tn__reshape_like(tn__node *x, const tn__node *like);
tn__node *tn__mul_s(tn__node *x, double v); /* float x */
tn__node *tn__add_s(tn__node *x, double v);
tn__node *tn__move_axis(tn__node *x, int from, int to);
tn__node *tn__poly(tn__node *x, const double *c, int n); /* c[0] + c[1] x + .. */

/* ---- elementwise: arithmetic (ops_elementwise.c) ---- */
tn__node *tn__add(tn__node *a, tn__node *b);
tn__node *tn__sub(tn__node *a, tn__node *b);
tn__node *tn__mul(tn__node *a, tn__node *b);
typedef enum { TN__DIV_TRUE, TN__DIV_TRUNC, TN__DIV_FLOOR } tn__rounding;
tn__node *tn__div(tn__node *a, tn__node *b, tn__rounding mode);
tn__node *tn__mod(tn__node *a, tn__node *b);  /* sign of b */
tn__node *tn__fmod(tn__node *a, tn__node *b); /* sign of a */
tn__node *tn__pow(tn__node *a, tn__node *b);
tn__node *tn__maximum(tn__node *a, tn__node *b);
tn__node *tn__minimum(tn__node *a, tn__node *b);
tn__node *tn__bitwise(tn__op op, tn__node *a, tn__node *b); /* AND OR XOR SHL SHR */
tn__node *tn__bitwise_not(tn__node *x);
tn__node *tn__logical_not(tn__node *x);
tn__node *tn__eq(tn__node *a, tn__node *b);
tn__node *tn__ne(tn__node *a, tn__node *b);
tn__node *tn__lt(tn__node *a, tn__node *b);
tn__node *tn__le(tn__node *a, tn__node *b);
tn__node *tn__gt(tn__node *a, tn__node *b);
tn__node *tn__ge(tn__node *a, tn__node *b);
tn__node *tn__select(tn__node *c, tn__node *a,
                     tn__node *b); /* where with promotion and broadcasting */
tn__node *tn__masked_fill(tn__node *x, tn__node *mask, tn__node *value);
tn__node *tn__neg(tn__node *x);
tn__node *tn__reciprocal(tn__node *x);
tn__node *tn__abs(tn__node *x);
tn__node *tn__sign(tn__node *x);
tn__node *tn__square(tn__node *x);
tn__node *tn__sqrt(tn__node *x);
tn__node *tn__rsqrt(tn__node *x);
tn__node *tn__trunc(tn__node *x);
tn__node *tn__floor(tn__node *x);
tn__node *tn__ceil(tn__node *x);
tn__node *tn__round(tn__node *x);                             /* half to even */
tn__node *tn__clamp(tn__node *x, tn__node *lo, tn__node *hi); /* either may be NULL */
tn__node *tn__isnan(tn__node *x);
tn__node *tn__isinf(tn__node *x, bool positive, bool negative);
tn__node *tn__isfinite(tn__node *x);
tn__node *tn__isclose(tn__node *a, tn__node *b, double rtol, double atol, bool equal_nan);
tn__node *tn__lerp(tn__node *a, tn__node *b, tn__node *weight);
tn__node *tn__copysign(tn__node *a, tn__node *b);
tn__node *tn__logaddexp(tn__node *a, tn__node *b);
tn__node *tn__bool(tn__node *x);                          /* != 0 */
tn__node *tn__bitcast_any(tn__node *x, tn_dtype dt);      /* another size rescales the last axis */
tn__node *tn__threefry(tn__node *counter, tn__node *key); /* uint64 */

/* ---- elementwise: functions (ops_math.c) ---- */
tn__node *tn__exp(tn__node *x);
tn__node *tn__exp2(tn__node *x);
tn__node *tn__ln(tn__node *x);
tn__node *tn__log2(tn__node *x);
tn__node *tn__log10(tn__node *x);
tn__node *tn__log1p(tn__node *x);
tn__node *tn__sin(tn__node *x);
tn__node *tn__cos(tn__node *x);
tn__node *tn__tan(tn__node *x);
tn__node *tn__asin(tn__node *x);
tn__node *tn__acos(tn__node *x);
tn__node *tn__atan(tn__node *x);
tn__node *tn__sinh(tn__node *x);
tn__node *tn__cosh(tn__node *x);
tn__node *tn__tanh(tn__node *x);
tn__node *tn__asinh(tn__node *x);
tn__node *tn__acosh(tn__node *x);
tn__node *tn__atanh(tn__node *x);
tn__node *tn__erf(tn__node *x);

/* ---- activations (ops_activation.c) ---- */
tn__node *tn__relu(tn__node *x);
tn__node *tn__sigmoid(tn__node *x);
tn__node *tn__relu6(tn__node *x);
tn__node *tn__hardswish(tn__node *x);
tn__node *tn__hardsigmoid(tn__node *x, double alpha, double beta);
tn__node *tn__hardtanh(tn__node *x, double lo, double hi);
tn__node *tn__leaky_relu(tn__node *x, double slope);
tn__node *tn__quick_gelu(tn__node *x);
tn__node *tn__gelu(tn__node *x, bool tanh);
tn__node *tn__silu(tn__node *x);
tn__node *tn__elu(tn__node *x, double alpha);
tn__node *tn__celu(tn__node *x, double alpha);
tn__node *tn__selu(tn__node *x, double alpha, double gamma);
tn__node *tn__softplus(tn__node *x, double beta);
tn__node *tn__mish(tn__node *x);
tn__node *tn__logsigmoid(tn__node *x);
tn__node *tn__softsign(tn__node *x);

/* ---- reductions (ops_reduce.c); dt TN_DTYPE_DEFAULT: as the page of the method says ---- */
tn__node *tn__drop_axes(tn__node *x, unsigned mask,
                        bool keepdim); /* removes the size-1 axes of mask */
tn__node *tn__sum(tn__node *x, unsigned axes, bool keepdim, tn_dtype dt);
tn__node *tn__prod(tn__node *x, unsigned axes, bool keepdim, tn_dtype dt);
tn__node *tn__max(tn__node *x, unsigned axes, bool keepdim);
tn__node *tn__min(tn__node *x, unsigned axes, bool keepdim);
tn__node *tn__any(tn__node *x, unsigned axes, bool keepdim);
tn__node *tn__all(tn__node *x, unsigned axes, bool keepdim);
tn__node *tn__mean(tn__node *x, unsigned axes, bool keepdim);
tn__node *tn__var(tn__node *x, unsigned axes, bool keepdim, double correction);
tn__node *tn__std(tn__node *x, unsigned axes, bool keepdim, double correction);
tn__node *tn__normalize(tn__node *x, double p, int axis, double eps);
tn__node *tn__logsumexp(tn__node *x, unsigned axes, bool keepdim);
tn__node *tn__softmax(tn__node *x, unsigned axes, tn_dtype dt);
tn__node *tn__softmin(tn__node *x, unsigned axes, tn_dtype dt);
tn__node *tn__log_softmax(tn__node *x, unsigned axes, tn_dtype dt);
tn__node *tn__argmax(tn__node *x, unsigned axes, bool keepdim); /* one axis, or all: flattened */
tn__node *tn__argmin(tn__node *x, unsigned axes, bool keepdim);

/* ---- movement (ops_movement.c, ops_join.c) ---- */
tn__node *tn__view(tn__node *x, const int64_t *dims, size_t n);      /* one -1 is inferred */
tn__node *tn__expand_to(tn__node *x, const int64_t *dims, size_t n); /* -1 keeps */
tn__node *tn__permute_to(tn__node *x, const int *axes, size_t n);
tn__node *tn__transpose(tn__node *x, int a, int b);
tn__node *tn__flip_axes(tn__node *x, unsigned mask);
tn__node *tn__shrink_pairs(tn__node *x, const int64_t *pairs, size_t n); /* start, end an axis */
tn__node *tn__slice(tn__node *x, int axis, int64_t start, int64_t size); /* checked elsewhere */
typedef enum {
    TN__PAD_CONSTANT,
    TN__PAD_REFLECT,
    TN__PAD_REPLICATE,
    TN__PAD_CIRCULAR
} tn__pad_mode;
/* pairs from the last axis on: before, after; negative ones cut (constant mode). */
tn__node *tn__pad_pairs(tn__node *x, const int64_t *pairs, size_t n, tn__pad_mode mode,
                        double value);
tn__node *tn__pad_with(tn__node *x, const int64_t *before, const int64_t *after, tn__scalar value);
tn__node *tn__pad_mask(tn__node *x, const int64_t *before,
                       const int64_t *after); /* bool: where x is; NULL-free */
tn__node *tn__shrink_to(tn__node *x, const int64_t *dims, size_t n); /* -1 keeps */
tn__node *tn__pad_to(tn__node *x, const int64_t *dims, size_t n, double value);
tn__node *tn__squeeze(tn__node *x, unsigned mask);
tn__node *tn__unsqueeze(tn__node *x, int axis);
tn__node *tn__flatten(tn__node *x, int start, int end);
tn__node *tn__unflatten(tn__node *x, int axis, const int64_t *dims, size_t n);
tn__node *tn__diagonal(tn__node *x, int64_t offset, int a, int b);
tn__node *tn__diag(tn__node *x);
tn__node *tn__unfold(tn__node *x, int axis, int64_t size, int64_t step);
tn__node *tn__repeat(tn__node *x, const int64_t *reps, size_t n);
tn__node *tn__repeat_interleave(tn__node *x, int64_t reps, int axis);
tn__node *tn__roll(tn__node *x, const int64_t *shifts, const int *axes, size_t n);
tn__node *tn__cat(tn__node *const *xs, size_t n, int axis);
tn__node *tn__stack(tn__node *const *xs, size_t n, int axis);
tn__node *tn__tri(tn__node *x, int64_t diagonal, bool upper);
bool tn__meshgrid(tn__node *const *xs, size_t n, bool xy, tn__node **out);

/* ---- creation (ops_create.c) ---- */
tn__node *tn__full(const int64_t *dims, int rank, tn_dtype dt, tn__node *value);
tn__node *tn__arange(double start, double stop, double step, tn_dtype dt);
tn__node *tn__arange_int(int64_t start, int64_t stop, int64_t step, tn_dtype dt);
tn__node *tn__linspace(double start, double stop, int64_t steps, tn_dtype dt);
tn__node *tn__eye(int64_t n, int64_t m, tn_dtype dt);
tn__node *tn__one_hot(tn__node *x, int64_t classes);

/* ---- indexing (ops_index.c) ---- */
typedef enum { TN__AT, TN__SLICE, TN__NONE, TN__ELLIPSIS, TN__TENSOR } tn__index_kind;
typedef struct {
    tn__index_kind kind;
    bool has_start, has_stop;
    int64_t start, stop, step; /* AT: start */
    tn__node *t;
} tn__index_item;
tn__node *tn__index(tn__node *x, const tn__index_item *items, size_t n, bool *view);
tn__node *tn__index_wrap(tn__node *idx, int64_t size);    /* negative ones count from the end */
tn__node *tn__take(tn__node *x, int axis, tn__node *idx); /* idx of any rank replaces the axis */
tn__node *tn__gather_dim(tn__node *x, int axis, tn__node *idx);
typedef enum { TN__SET, TN__R_SUM, TN__R_PROD, TN__R_MEAN, TN__R_MAX, TN__R_MIN } tn__scatter_mode;
tn__node *tn__scatter_dim(tn__node *x, int axis, tn__node *idx, tn__node *src,
                          tn__scatter_mode mode, bool include_self);
tn__node *tn__masked_select(tn__node *x, tn__node *mask, int64_t size, tn__node *fill);
tn__node *tn__nonzero(tn__node *x, int64_t size, double fill);
/* x with the elements that the items name replaced by value: for tensor indices (views are written in place). */
tn__node *tn__index_put(tn__node *x, const tn__index_item *items, size_t n, tn__node *value);

/* ---- scans and sorting (ops_scan.c) ---- */
tn__node *tn__cumsum(tn__node *x, int axis);
tn__node *tn__cumprod(tn__node *x, int axis);
tn__node *tn__cummax(tn__node *x, int axis, tn__node **indices); /* indices may be NULL */
tn__node *tn__cummin(tn__node *x, int axis, tn__node **indices);
tn__node *tn__logcumsumexp(tn__node *x, int axis);
tn__node *tn__argsort_dim(tn__node *x, int axis, bool descending);
tn__node *tn__sort(tn__node *x, int axis, bool descending, tn__node **indices);
tn__node *tn__topk(tn__node *x, int64_t k, int axis, bool largest, tn__node **indices);

/* ---- windows (ops_conv.c, ops_pool.c) ---- */
#define TN__MAX_SPATIAL 3
typedef struct {
    int64_t kernel[TN__MAX_SPATIAL], stride[TN__MAX_SPATIAL], dilation[TN__MAX_SPATIAL];
    int64_t before[TN__MAX_SPATIAL], after[TN__MAX_SPATIAL];
    int n;
} tn__window_args;
tn__node *tn__conv(tn__node *x, tn__node *w, tn__node *bias, int64_t groups,
                   const tn__window_args *a, tn_dtype dt);
tn__node *tn__conv_transpose(tn__node *x, tn__node *w, tn__node *bias, int64_t groups,
                             const tn__window_args *a, const int64_t *output_padding);
/* x, padded for windows over its axes from `first` on, has a shape that can be; else an error */
bool tn__windows_fit(const char *op, const tn__node *x, int first, const tn__window_args *a);
tn__node *tn__windows(const char *op, tn__node *x, int first,
                      const tn__window_args *a); /* axes (o, k) pairs */
tn__node *tn__avg_pool(tn__node *x, const tn__window_args *a, bool ceil_mode, bool count_pad);
tn__node *tn__max_pool(tn__node *x, const tn__window_args *a, bool ceil_mode, tn__node **indices);
tn__node *tn__max_unpool(tn__node *x, tn__node *idx, const tn__window_args *a, const int64_t *size);
typedef enum { TN__LINEAR, TN__NEAREST, TN__NEAREST_EXACT } tn__resize_mode;
tn__node *tn__interpolate(tn__node *x, const int64_t *size, size_t n, tn__resize_mode mode,
                          bool align_corners);

/* ---- linear algebra (ops_linalg.c, ops_einsum.c, ops_norm.c) ---- */
tn__node *tn__matmul(tn__node *a, tn__node *b, tn_dtype dt);
tn__node *tn__linear(tn__node *x, tn__node *w,
                     tn__node *bias); /* w (in, out), or (in) elementwise; bias may be NULL */
tn__node *tn__einsum(const char *formula, tn__node *const *xs, size_t n, tn_dtype dt);
tn__node *tn__newton_schulz(tn__node *g, int steps, const double c[3],
                            double eps); /* orthogonalises the last two axes */
tn__node *tn__layernorm(tn__node *x, unsigned axes, double eps);
tn__node *tn__batchnorm(tn__node *x, tn__node *weight, tn__node *bias, tn__node *mean,
                        tn__node *invstd, unsigned axes);
tn__node *tn__attention(tn__node *q, tn__node *k, tn__node *v, tn__node *mask, double dropout,
                        bool causal, bool gqa);

/* ---- losses (ops_loss.c) ---- */
typedef enum { TN__MEAN, TN__SUM, TN__KEEP } tn__reduction;
tn__node *tn__binary_crossentropy(tn__node *x, tn__node *y, tn__reduction r);
tn__node *tn__binary_crossentropy_logits(tn__node *x, tn__node *y, tn__node *pos_weight,
                                         tn__reduction r);
tn__node *tn__sparse_crossentropy(tn__node *x, tn__node *y, const int64_t *ignore, double smoothing,
                                  tn__reduction r);
tn__node *tn__cross_entropy(tn__node *x, tn__node *y, double smoothing, tn__reduction r);
tn__node *tn__nll_loss(tn__node *x, tn__node *y, tn__node *weight, const int64_t *ignore,
                       tn__reduction r);

/* ---- random (ops_random.c) ---- */
tn__node *tn__rand(const int64_t *dims, int rank, tn_dtype dt);
tn__node *tn__randn(const int64_t *dims, int rank, tn_dtype dt);
tn__node *tn__randint(const int64_t *dims, int rank, int64_t low, int64_t high, tn_dtype dt);
tn__node *tn__uniform(const int64_t *dims, int rank, double low, double high, tn_dtype dt);
tn__node *tn__normal(const int64_t *dims, int rank, double mean, double std, tn_dtype dt);
typedef enum { TN__SCALED, TN__GLOROT, TN__KAIMING_UNIFORM, TN__KAIMING_NORMAL } tn__init;
tn__node *tn__initial(tn__init kind, const int64_t *dims, int rank, double a, tn_dtype dt);
tn__node *tn__randperm(int64_t n, tn_dtype dt);
tn__node *tn__multinomial(tn__node *weights, int64_t samples, bool replacement);
tn__node *tn__dropout(tn__node *x, double p); /* x itself outside TN_TRAINING */
#endif
