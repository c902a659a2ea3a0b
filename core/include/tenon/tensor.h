/* SPDX-License-Identifier: MIT */
/*
 * Tensor methods.  Each builds a part of a graph and computes nothing; core.h realises.
 *
 * Rules that hold for every function here:
 * - The result belongs to the innermost scope.  It is never NULL: where an argument does not fit, it is
 *   poison and tn_last_error says why (ESHAPE, EDTYPE, EAXIS, EINDEX, EVALUE, ENULL, ESTALE, ENOMEM).
 * - Axes may be negative: -1 is the last.  Operands of different shapes broadcast: from the right, sizes
 *   must be equal or 1.  Operands of different dtypes promote: bool < integers < floats, the wider wins,
 *   int8 with uint8 gives int16, uint64 with a signed integer the default float, float16 with bfloat16
 *   float32.  A C number may stand for a tensor where the macros lift it; it takes the dtype of the other
 *   operand, except that 0.5 beside integers makes the default float (TN_DEFAULT_FLOAT) and 2 beside bool int32.
 * - "float" functions turn integers and bool into the default float; float16 and bfloat16 are computed in
 *   float32 and rounded once.  Sums accumulate in at least float32, int32 or uint32.
 * - Options are designated initialisers after the other arguments; 0 stands for the default.
 * - NaN goes through everything but comparisons.  Integer division and remainder are floor and give 0 for
 *   a zero divisor.
 * Names and defaults are tinygrad's, values PyTorch's, unless a line says otherwise.
 */
#ifndef TENON_TENSOR_H
#define TENON_TENSOR_H
#include <tenon/core.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- options ---- */
#define TN_OPTS_HEAD \
    tn_named named;  \
    size_t size /* rejects positional use; sizeof of the caller's struct */

typedef struct {
    TN_OPTS_HEAD;
    bool keepdim;      /* reduced axes stay, with size 1 */
    tn_dtype dtype;    /* sum, prod: accumulator and result; softmax..: of the result */
    bool biased;       /* var, std: divide by n */
    double correction; /* var, std: divide by n - correction; 0 means 1 */
    tn_tensor **mean;  /* var_mean, std_mean: takes the mean */
} tn_reduce_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_dtype dtype;
    const char *device; /* "CPU:1"; default: the default device */
} tn_create_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_dtype dtype; /* default int32 */
    const char *device;
    int64_t low, high; /* both 0: 0 and 10 */
} tn_randint_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_dtype dtype;
    const char *device;
    double low, high; /* both 0: 0 and 1 */
} tn_uniform_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_dtype dtype;
    const char *device;
    double mean, std; /* std 0: 1 */
} tn_normal_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_dtype dtype;
    const char *device;
    double a; /* slope of the leaky ReLU behind the layer; 0: 0.01 */
} tn_init_opts;

typedef enum { TN_DIV_TRUE, TN_DIV_TRUNC, TN_DIV_FLOOR } tn_div_mode;
typedef struct {
    TN_OPTS_HEAD;
    tn_div_mode rounding;
} tn_div_opts;

typedef struct {
    TN_OPTS_HEAD;
    double rtol, atol; /* 0: 1e-5 and 1e-8; negative: 0 */
    bool equal_nan;
} tn_close_opts;

typedef struct {
    TN_OPTS_HEAD;
    bool no_positive, no_negative;
} tn_isinf_opts;

typedef struct {
    TN_OPTS_HEAD;
    double alpha,
        beta; /* hardsigmoid: 0: 1/6 and 1/2; selu: alpha and gamma, 0: 1.67326.. and 1.0507.. */
    double min, max; /* hardtanh: both 0: -1 and 1 */
    bool exact;      /* gelu: by erf, not by the tanh approximation */
} tn_act_opts;

typedef struct {
    TN_OPTS_HEAD;
    double p;   /* 0: 2; INFINITY: greatest; -1: counts non-zeros */
    double eps; /* 0: 1e-12 */
} tn_norm_opts;

typedef struct {
    TN_OPTS_HEAD;
    double eps; /* 0: 1e-5 */
} tn_eps_opts;

typedef struct {
    TN_OPTS_HEAD;
    bool descending;     /* sort, argsort */
    bool smallest;       /* topk */
    tn_tensor **indices; /* NULL, or takes int32 positions */
} tn_sort_opts;

typedef enum { TN_PAD_CONSTANT, TN_PAD_REFLECT, TN_PAD_REPLICATE, TN_PAD_CIRCULAR } tn_pad_mode;
typedef struct {
    TN_OPTS_HEAD;
    tn_pad_mode mode;
    double value; /* constant mode */
} tn_pad_opts;

typedef struct {
    TN_OPTS_HEAD;
    int start, end; /* 0 and 0: all axes; end 0: the last */
} tn_flatten_opts;

typedef struct {
    TN_OPTS_HEAD;
    bool xy; /* the first two axes swapped, as numpy */
} tn_grid_opts;

/* Spatial axes: entries of stride and dilation that are 0 take the one before them, else 1. */
typedef struct {
    TN_OPTS_HEAD;
    tn_tensor *bias; /* (channels out,) or NULL */
    int stride[3], padding[3], dilation[3];
    int pads
        [6]; /* in place of padding where any is not 0: before, after, the last spatial axis first */
    int groups;            /* 0: 1 */
    int output_padding[3]; /* conv_transpose2d */
    tn_dtype dtype;        /* conv2d: accumulator and result */
} tn_conv2d_opts;

typedef struct {
    TN_OPTS_HEAD;
    int kernel[3]; /* as many spatial axes as entries that are not 0; none: {2, 2} */
    int stride[3]; /* all 0: the kernel */
    int padding[3], dilation[3], pads[6];
    bool ceil_mode;
    bool exclude_pad;    /* avg_pool2d: padding does not count (count_include_pad = False) */
    tn_tensor **indices; /* max_pool2d: NULL, or takes int32 positions in the plane */
    int output_size[3];  /* max_unpool2d; all 0: the least that fits */
} tn_pool2d_opts;

typedef enum { TN_RESIZE_LINEAR, TN_RESIZE_NEAREST, TN_RESIZE_NEAREST_EXACT } tn_resize_mode;
typedef struct {
    TN_OPTS_HEAD;
    tn_resize_mode mode;
    bool align_corners;
} tn_resize_opts;

typedef enum { TN_SCATTER_SET, TN_SCATTER_ADD, TN_SCATTER_MULTIPLY } tn_scatter_op;
typedef enum { TN_BY_SUM, TN_BY_PROD, TN_BY_MEAN, TN_BY_AMAX, TN_BY_AMIN } tn_scatter_reduction;
typedef struct {
    TN_OPTS_HEAD;
    tn_scatter_op reduce;    /* scatter */
    tn_scatter_reduction by; /* scatter_reduce */
    bool exclude_self;       /* scatter_reduce: include_self = False */
} tn_scatter_opts;

typedef struct {
    TN_OPTS_HEAD;
    double fill; /* of what is beyond the last result */
} tn_fill_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_tensor *attn_mask; /* bool (true: may see) or float (added), broadcast to (.., L, S) */
    double dropout_p;
    bool is_causal, enable_gqa;
} tn_attention_opts;

typedef struct {
    TN_OPTS_HEAD;
    tn_dtype
        dtype; /* accumulator and result; default: the promoted dtype, accumulated as sums are */
} tn_dtype_opts;

typedef enum { TN_REDUCTION_MEAN, TN_REDUCTION_SUM, TN_REDUCTION_NONE } tn_reduction;
typedef struct {
    TN_OPTS_HEAD;
    tn_reduction reduction;
    double label_smoothing; /* cross_entropy, sparse_categorical_crossentropy */
    const int64_t
        *ignore_index; /* sparse_categorical_crossentropy, nll_loss; NULL: no class is ignored */
    tn_tensor *weight; /* nll_loss: (classes,) */
    tn_tensor *pos_weight; /* binary_crossentropy_logits */
} tn_loss_opts;

typedef struct {
    TN_OPTS_HEAD;
    bool replacement;
} tn_multinomial_opts;

/* ---- creation: dtype default float where it is not given ---- */
/* dtype of the value */
TN_API tn_tensor *tn_full(const tn_shape *s, tn_tensor *value, const tn_create_opts *o);
TN_API tn_tensor *tn_zeros(const tn_shape *s, const tn_create_opts *o); /* 0, or false for bool */
TN_API tn_tensor *tn_ones(const tn_shape *s, const tn_create_opts *o);  /* 1, or true for bool */
TN_API tn_tensor *tn_empty(const tn_shape *s, const tn_create_opts *o); /* any values: zeros here */
TN_API tn_tensor *tn_full_like(tn_tensor *x, tn_tensor *value);         /* x's shape and dtype */
TN_API tn_tensor *tn_const_like(tn_tensor *x, tn_tensor *value);        /* the same */
TN_API tn_tensor *tn_zeros_like(tn_tensor *x); /* x's shape, dtype and device */
TN_API tn_tensor *tn_ones_like(tn_tensor *x);  /* the same */
TN_API tn_tensor *tn_empty_like(tn_tensor *x); /* the same; any values: zeros here */
/* start, start + step, .. below stop (above, for a negative step); int32 for integers (int64 where one of
 * them needs it), else the default float.  Macro: tn_arange(stop), (start, stop) or (start, stop, step, options); numbers only. */
TN_API tn_tensor *tn_arange(tn_tensor *start, tn_tensor *stop, tn_tensor *step,
                            const tn_create_opts *o);
/* both ends */
TN_API tn_tensor *tn_linspace(double start, double stop, int64_t steps, const tn_create_opts *o);
/* (n, m), ones where row = column */
TN_API tn_tensor *tn_eye(int64_t n, int64_t m, const tn_create_opts *o);
/* zeros above the diagonal of the last two axes: columns beyond row + diagonal, which may be any number */
TN_API tn_tensor *tn_tril(tn_tensor *x, int64_t diagonal);
TN_API tn_tensor *tn_triu(tn_tensor *x, int64_t diagonal); /* zeros below it */
/* (..) integers to (.., classes) int32 */
TN_API tn_tensor *tn_one_hot(tn_tensor *x, int64_t classes);

/* ---- random: the thread's threefry generator, advanced by each call (tn_manual_seed, core.h) ---- */
TN_API tn_tensor *tn_random_bits(const tn_shape *s);                   /* uint32 words */
TN_API tn_tensor *tn_rand(const tn_shape *s, const tn_create_opts *o); /* uniform in [0, 1) */
TN_API tn_tensor *tn_rand_like(tn_tensor *x); /* uniform in [0, 1), x's shape and dtype */
/* mean 0, deviation 1 (Box-Muller) */
TN_API tn_tensor *tn_randn(const tn_shape *s, const tn_create_opts *o);
TN_API tn_tensor *tn_randn_like(tn_tensor *x); /* normal, x's shape and dtype */
TN_API tn_tensor *tn_randint(const tn_shape *s, const tn_randint_opts *o); /* low <= value < high */
/* uniform in [low, high) */
TN_API tn_tensor *tn_uniform(const tn_shape *s, const tn_uniform_opts *o);
/* mean and deviation of the options */
TN_API tn_tensor *tn_normal(const tn_shape *s, const tn_normal_opts *o);
/* +-1 / sqrt(numel) */
TN_API tn_tensor *tn_scaled_uniform(const tn_shape *s, const tn_create_opts *o);
/* Glorot and Bengio 2010 */
TN_API tn_tensor *tn_glorot_uniform(const tn_shape *s, const tn_create_opts *o);
/* He et al. 2015; fan-in */
TN_API tn_tensor *tn_kaiming_uniform(const tn_shape *s, const tn_init_opts *o);
/* the same, normal */
TN_API tn_tensor *tn_kaiming_normal(const tn_shape *s, const tn_init_opts *o);
/* 0..n-1 in random order; int32 */
TN_API tn_tensor *tn_randperm(int64_t n, const tn_create_opts *o);
/* Positions drawn by weight from (n,) or (batch, n) to (samples,) or (batch, samples), int32. */
TN_API tn_tensor *tn_multinomial(tn_tensor *weights, int64_t samples, const tn_multinomial_opts *o);
/* Zeros with probability p, the rest times 1 / (1 - p), under TN_TRAINING; else x.  Macro: p = 0.5. */
TN_API tn_tensor *tn_dropout(tn_tensor *x, double p);

/* ---- dtype and storage ---- */
/* To another dtype: floats saturate into integers, NaN gives 0; integers wrap; to bool: != 0. */
TN_API tn_tensor *tn_cast(tn_tensor *x, tn_dtype dt);
/* same bits; another element size rescales the last axis */
TN_API tn_tensor *tn_bitcast(tn_tensor *x, tn_dtype dt);
TN_API tn_tensor *tn_float(tn_tensor *x);      /* cast to float32 */
TN_API tn_tensor *tn_double(tn_tensor *x);     /* float64 */
TN_API tn_tensor *tn_half(tn_tensor *x);       /* float16 */
TN_API tn_tensor *tn_bfloat16(tn_tensor *x);   /* bfloat16 */
TN_API tn_tensor *tn_short(tn_tensor *x);      /* int16 */
TN_API tn_tensor *tn_int(tn_tensor *x);        /* int32 */
TN_API tn_tensor *tn_long(tn_tensor *x);       /* int64 */
TN_API tn_tensor *tn_bool(tn_tensor *x);       /* bool: x != 0 */
TN_API tn_tensor *tn_contiguous(tn_tensor *x); /* the same value, stored in row-major order */
/* the same value; storing its gradient is the planner's choice */
TN_API tn_tensor *tn_contiguous_backward(tn_tensor *x);
/* an own tensor with the same value; writes to x do not show */
TN_API tn_tensor *tn_clone(tn_tensor *x);
TN_API int64_t tn_nbytes(const tn_tensor *x);         /* numel * element size; -1 on error */
TN_API int64_t tn_element_size(const tn_tensor *x);   /* bytes; -1 on error */
TN_API bool tn_is_floating_point(const tn_tensor *x); /* false on error too */

/* ---- elementwise, two operands: (any, any), broadcast and promoted ---- */
TN_API tn_tensor *tn_add(tn_tensor *a, tn_tensor *b); /* or for bool */
TN_API tn_tensor *tn_sub(tn_tensor *a, tn_tensor *b); /* no bool */
TN_API tn_tensor *tn_mul(tn_tensor *a, tn_tensor *b); /* and for bool */
/* a / b: integers give the default float; .rounding = TN_DIV_FLOOR or TN_DIV_TRUNC keeps integers. */
TN_API tn_tensor *tn_div(tn_tensor *a, tn_tensor *b, const tn_div_opts *o);
TN_API tn_tensor *tn_mod(tn_tensor *a, tn_tensor *b);         /* remainder with b's sign */
TN_API tn_tensor *tn_fmod(tn_tensor *a, tn_tensor *b);        /* remainder with a's sign */
TN_API tn_tensor *tn_pow(tn_tensor *a, tn_tensor *b);         /* integers: exact, exponents >= 0 */
TN_API tn_tensor *tn_maximum(tn_tensor *a, tn_tensor *b);     /* NaN where either is */
TN_API tn_tensor *tn_minimum(tn_tensor *a, tn_tensor *b);     /* NaN where either is */
TN_API tn_tensor *tn_bitwise_and(tn_tensor *a, tn_tensor *b); /* integers, bool */
TN_API tn_tensor *tn_bitwise_or(tn_tensor *a, tn_tensor *b);  /* integers, bool */
TN_API tn_tensor *tn_bitwise_xor(tn_tensor *a, tn_tensor *b); /* integers, bool */
/* integers; a count outside 0..bits-1 gives 0 */
TN_API tn_tensor *tn_lshift(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_rshift(tn_tensor *a, tn_tensor *b); /* arithmetic for signed */
TN_API tn_tensor *tn_eq(tn_tensor *a, tn_tensor *b);     /* comparisons give bool */
TN_API tn_tensor *tn_ne(tn_tensor *a, tn_tensor *b); /* true where unequal; NaN is unequal to all */
TN_API tn_tensor *tn_lt(tn_tensor *a, tn_tensor *b); /* a < b */
TN_API tn_tensor *tn_le(tn_tensor *a, tn_tensor *b); /* a <= b */
TN_API tn_tensor *tn_gt(tn_tensor *a, tn_tensor *b); /* a > b */
TN_API tn_tensor *tn_ge(tn_tensor *a, tn_tensor *b); /* a >= b */
TN_API tn_tensor *tn_copysign(tn_tensor *a, tn_tensor *b);  /* float: |a| with b's sign bit */
TN_API tn_tensor *tn_logaddexp(tn_tensor *a, tn_tensor *b); /* float: log(exp a + exp b) */
/* uint64: threefry2x32 of each */
TN_API tn_tensor *tn_threefry(tn_tensor *counter, tn_tensor *key);
/* |a - b| <= atol + rtol |b| */
TN_API tn_tensor *tn_isclose(tn_tensor *a, tn_tensor *b, const tn_close_opts *o);
/* realises; false on error */
TN_API bool tn_allclose(tn_tensor *a, tn_tensor *b, const tn_close_opts *o);

/* ---- in place: a becomes a op b, in a's dtype; returns a (tn_assign's rules) ---- */
TN_API tn_tensor *tn_iadd(tn_tensor *a, tn_tensor *b); /* a + b */
TN_API tn_tensor *tn_isub(tn_tensor *a, tn_tensor *b); /* a - b */
TN_API tn_tensor *tn_imul(tn_tensor *a, tn_tensor *b); /* a b */
TN_API tn_tensor *tn_idiv(tn_tensor *a, tn_tensor *b); /* a / b, rounded towards 0 for integers */
TN_API tn_tensor *tn_ifloordiv(tn_tensor *a, tn_tensor *b); /* floor(a / b) */
TN_API tn_tensor *tn_imod(tn_tensor *a, tn_tensor *b);      /* as tn_mod */
TN_API tn_tensor *tn_ipow(tn_tensor *a, tn_tensor *b);      /* as tn_pow */
TN_API tn_tensor *tn_iand(tn_tensor *a, tn_tensor *b);      /* as tn_bitwise_and */
TN_API tn_tensor *tn_ior(tn_tensor *a, tn_tensor *b);       /* as tn_bitwise_or */
TN_API tn_tensor *tn_ixor(tn_tensor *a, tn_tensor *b);      /* as tn_bitwise_xor */
TN_API tn_tensor *tn_ilshift(tn_tensor *a, tn_tensor *b);   /* as tn_lshift */
TN_API tn_tensor *tn_irshift(tn_tensor *a, tn_tensor *b);   /* as tn_rshift */
TN_API tn_tensor *tn_imatmul(tn_tensor *a, tn_tensor *b);   /* a @ b, of a's shape */

/* ---- elementwise, choices ---- */
/* a where c is not 0, else b */
TN_API tn_tensor *tn_where(tn_tensor *c, tn_tensor *a, tn_tensor *b);
/* value where mask is not 0, else x; dtypes promote */
TN_API tn_tensor *tn_masked_fill(tn_tensor *x, tn_tensor *mask, tn_tensor *value);
TN_API tn_tensor *tn_clamp(tn_tensor *x, tn_tensor *min, tn_tensor *max); /* either may be NULL */
TN_API tn_tensor *tn_clip(tn_tensor *x, tn_tensor *min, tn_tensor *max);  /* as tn_clamp */
TN_API tn_tensor *tn_lerp(tn_tensor *a, tn_tensor *b, tn_tensor *weight); /* a + (b - a) weight */

/* ---- elementwise, one operand: dtype stays unless said ---- */
TN_API tn_tensor *tn_neg(tn_tensor *x);         /* not for bool */
TN_API tn_tensor *tn_abs(tn_tensor *x);         /* |x|; the least integer stays itself */
TN_API tn_tensor *tn_sign(tn_tensor *x);        /* -1, 0, 1; 0 for NaN */
TN_API tn_tensor *tn_square(tn_tensor *x);      /* x x */
TN_API tn_tensor *tn_logical_not(tn_tensor *x); /* bool */
TN_API tn_tensor *tn_bitwise_not(tn_tensor *x); /* integers, bool */
TN_API tn_tensor *tn_trunc(tn_tensor *x);       /* towards 0 */
TN_API tn_tensor *tn_floor(tn_tensor *x);       /* towards -infinity */
TN_API tn_tensor *tn_ceil(tn_tensor *x);        /* towards +infinity */
TN_API tn_tensor *tn_round(tn_tensor *x);       /* half to even */
TN_API tn_tensor *tn_isnan(tn_tensor *x);       /* bool */
/* bool; one sign by the options */
TN_API tn_tensor *tn_isinf(tn_tensor *x, const tn_isinf_opts *o);
TN_API tn_tensor *tn_isfinite(tn_tensor *x);   /* bool: neither NaN nor infinite */
TN_API tn_tensor *tn_reciprocal(tn_tensor *x); /* float, as all that follow */
TN_API tn_tensor *tn_sqrt(tn_tensor *x);       /* NaN below 0 */
TN_API tn_tensor *tn_rsqrt(tn_tensor *x);      /* 1 / sqrt(x) */
TN_API tn_tensor *tn_exp(tn_tensor *x);        /* e^x */
TN_API tn_tensor *tn_exp2(tn_tensor *x);       /* 2^x */
TN_API tn_tensor *tn_log(tn_tensor *x);        /* natural; NaN below 0 */
TN_API tn_tensor *tn_log2(tn_tensor *x);       /* base 2 */
TN_API tn_tensor *tn_log10(tn_tensor *x);      /* base 10 */
TN_API tn_tensor *tn_sin(tn_tensor *x);        /* radians, right for large arguments */
TN_API tn_tensor *tn_cos(tn_tensor *x);        /* radians, as all trigonometry */
TN_API tn_tensor *tn_tan(tn_tensor *x);        /* sin x / cos x */
TN_API tn_tensor *tn_asin(tn_tensor *x);       /* radians; NaN outside -1..1 */
TN_API tn_tensor *tn_acos(tn_tensor *x);       /* radians; NaN outside -1..1 */
TN_API tn_tensor *tn_atan(tn_tensor *x);       /* radians */
TN_API tn_tensor *tn_sinh(tn_tensor *x);       /* (e^x - e^-x) / 2 */
TN_API tn_tensor *tn_cosh(tn_tensor *x);       /* (e^x + e^-x) / 2 */
TN_API tn_tensor *tn_tanh(tn_tensor *x);       /* sinh x / cosh x */
TN_API tn_tensor *tn_asinh(tn_tensor *x);      /* inverse of sinh */
TN_API tn_tensor *tn_acosh(tn_tensor *x);      /* inverse of cosh; NaN below 1 */
TN_API tn_tensor *tn_atanh(tn_tensor *x);      /* inverse of tanh; NaN outside -1..1 */
TN_API tn_tensor *tn_erf(tn_tensor *x); /* 2/sqrt(pi) times the integral of e^(-t^2) from 0 to x */

/* ---- activations: float, but relu, relu6 and hardtanh keep integers ---- */
TN_API tn_tensor *tn_relu(tn_tensor *x);      /* max(x, 0) */
TN_API tn_tensor *tn_relu6(tn_tensor *x);     /* min(max(x, 0), 6) */
TN_API tn_tensor *tn_sigmoid(tn_tensor *x);   /* 1 / (1 + e^-x) */
TN_API tn_tensor *tn_hardswish(tn_tensor *x); /* x relu6(x + 3) / 6 */
/* clamp(alpha x + beta, 0, 1) */
TN_API tn_tensor *tn_hardsigmoid(tn_tensor *x, const tn_act_opts *o);
TN_API tn_tensor *tn_hardtanh(tn_tensor *x, const tn_act_opts *o); /* clamp(x, min, max) */
/* x, below 0: slope x; macro: slope 0.01 */
TN_API tn_tensor *tn_leaky_relu(tn_tensor *x, double slope);
TN_API tn_tensor *tn_quick_gelu(tn_tensor *x); /* x sigmoid(1.702 x) */
/* tanh approximation unless .exact */
TN_API tn_tensor *tn_gelu(tn_tensor *x, const tn_act_opts *o);
TN_API tn_tensor *tn_swish(tn_tensor *x); /* x sigmoid(x) */
TN_API tn_tensor *tn_silu(tn_tensor *x);  /* as tn_swish */
/* x, below 0: alpha (e^x - 1); macro: alpha 1 */
TN_API tn_tensor *tn_elu(tn_tensor *x, double alpha);
/* x, below 0: alpha (e^(x / alpha) - 1); macro: alpha 1 */
TN_API tn_tensor *tn_celu(tn_tensor *x, double alpha);
/* gamma (x, below 0: alpha (e^x - 1)); Klambauer et al. 2017 */
TN_API tn_tensor *tn_selu(tn_tensor *x, const tn_act_opts *o);
/* log(1 + e^(beta x)) / beta; macro: beta 1 */
TN_API tn_tensor *tn_softplus(tn_tensor *x, double beta);
TN_API tn_tensor *tn_mish(tn_tensor *x);       /* x tanh(softplus(x)) */
TN_API tn_tensor *tn_logsigmoid(tn_tensor *x); /* log(sigmoid(x)) */
TN_API tn_tensor *tn_softsign(tn_tensor *x);   /* x / (1 + |x|) */

/* ---- reductions over axes, or ALL; macro: all where none are given ---- */
/* small integers give int32 or uint32 */
TN_API tn_tensor *tn_sum(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* dtype stays */
TN_API tn_tensor *tn_prod(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* at least one element */
TN_API tn_tensor *tn_max(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* at least one element */
TN_API tn_tensor *tn_min(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
TN_API tn_tensor *tn_any(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);  /* bool */
TN_API tn_tensor *tn_all(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);  /* bool */
TN_API tn_tensor *tn_mean(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o); /* float */
/* float; by n - 1 */
TN_API tn_tensor *tn_var(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* square root of tn_var */
TN_API tn_tensor *tn_std(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* the mean to *o->mean */
TN_API tn_tensor *tn_var_mean(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* as tn_var_mean */
TN_API tn_tensor *tn_std_mean(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* float */
TN_API tn_tensor *tn_logsumexp(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* int32; first of equals; one axis or ALL */
TN_API tn_tensor *tn_argmax(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* as tn_argmax, of the least */
TN_API tn_tensor *tn_argmin(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* Macro: the last axis where none is given; several axes are taken together. */
TN_API tn_tensor *tn_softmax(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* log(softmax(x)), as tn_softmax */
TN_API tn_tensor *tn_log_softmax(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* softmax(-x), as tn_softmax */
TN_API tn_tensor *tn_softmin(tn_tensor *x, const tn_axes *ax, const tn_reduce_opts *o);
/* x / max(norm, eps) */
TN_API tn_tensor *tn_normalize(tn_tensor *x, int axis, const tn_norm_opts *o);
/* macro: last axis */
TN_API tn_tensor *tn_layernorm(tn_tensor *x, const tn_axes *ax, const tn_eps_opts *o);
/* ((x - mean) weight invstd + bias) with one element a channel each; weight and bias may be NULL. */
TN_API tn_tensor *tn_batchnorm(tn_tensor *x, tn_tensor *weight, tn_tensor *bias, tn_tensor *mean,
                               tn_tensor *invstd, const tn_axes *ax);

/* ---- running reductions and sorting along an axis ---- */
TN_API tn_tensor *tn_cumsum(tn_tensor *x, int axis);  /* dtype as sum */
TN_API tn_tensor *tn_cumprod(tn_tensor *x, int axis); /* dtype stays */
/* .indices: latest position of the extreme */
TN_API tn_tensor *tn_cummax(tn_tensor *x, int axis, const tn_sort_opts *o);
TN_API tn_tensor *tn_cummin(tn_tensor *x, int axis, const tn_sort_opts *o); /* as tn_cummax */
TN_API tn_tensor *tn_logcumsumexp(tn_tensor *x, int axis);                  /* float */
/* stable; NaN is the greatest */
TN_API tn_tensor *tn_sort(tn_tensor *x, int axis, const tn_sort_opts *o);
TN_API tn_tensor *tn_argsort(tn_tensor *x, int axis, const tn_sort_opts *o);         /* int32 */
TN_API tn_tensor *tn_topk(tn_tensor *x, int64_t k, int axis, const tn_sort_opts *o); /* sorted */

/* ---- views: no data moves; writes to x show, and tn_assign writes through ---- */
/* same number of elements; one -1 is inferred */
TN_API tn_tensor *tn_reshape(tn_tensor *x, const tn_shape *s);
TN_API tn_tensor *tn_view(tn_tensor *x, const tn_shape *s); /* as tn_reshape */
/* axes of size 1 repeated; -1 keeps; axes may be added in front */
TN_API tn_tensor *tn_expand(tn_tensor *x, const tn_shape *s);
/* axis i of the result is axis ax[i] of x */
TN_API tn_tensor *tn_permute(tn_tensor *x, const tn_axes *ax);
/* macro: axes 1 and 0 where none are given */
TN_API tn_tensor *tn_transpose(tn_tensor *x, int a, int b);
TN_API tn_tensor *tn_T(tn_tensor *x);                             /* all axes reversed */
TN_API tn_tensor *tn_shrink(tn_tensor *x, const tn_shape *pairs); /* start, end of every axis */
TN_API tn_tensor *tn_shrink_to(tn_tensor *x, const tn_shape *s);  /* the first elements; -1 keeps */
TN_API tn_tensor *tn_flip(tn_tensor *x, const tn_axes *ax); /* order reversed along the axes */
/* drops axes of size 1, those of ALL or of ax */
TN_API tn_tensor *tn_squeeze(tn_tensor *x, const tn_axes *ax);
TN_API tn_tensor *tn_unsqueeze(tn_tensor *x, int axis); /* a new axis of size 1 there; -1: last */
/* axes .start to .end become one */
TN_API tn_tensor *tn_flatten(tn_tensor *x, const tn_flatten_opts *o);
/* axis becomes s->n axes; one -1 is inferred */
TN_API tn_tensor *tn_unflatten(tn_tensor *x, int axis, const tn_shape *s);
/* the diagonal is the last axis; macro: 0, 0, 1 */
TN_API tn_tensor *tn_diagonal(tn_tensor *x, int64_t offset, int a, int b);
/* windows; their elements are the last axis */
TN_API tn_tensor *tn_unfold(tn_tensor *x, int axis, int64_t size, int64_t step);
/* Parts along an axis: each of size sizes[0] (the last may be smaller) where one is given, else of the sizes
 * given.  Fills out and returns how many; 0 on error; `room`: how many out holds. */
TN_API int64_t tn_split(tn_tensor *x, const tn_shape *sizes, int axis, tn_tensor **out,
                        size_t room);
/* at most `chunks` equal parts */
TN_API int64_t tn_chunk(tn_tensor *x, int64_t chunks, int axis, tn_tensor **out, size_t room);
/* vectors; xs->n results */
TN_API bool tn_meshgrid(const tn_inputs *xs, tn_tensor **out, const tn_grid_opts *o);

/* ---- joining, padding, repeating ---- */
TN_API tn_tensor *tn_cat(const tn_inputs *xs, int axis);   /* equal sizes but along axis */
TN_API tn_tensor *tn_stack(const tn_inputs *xs, int axis); /* equal shapes; a new axis */
/* before, after of the last axis, then of the one before it..; negative numbers cut (constant mode). */
TN_API tn_tensor *tn_pad(tn_tensor *x, const tn_shape *pairs, const tn_pad_opts *o);
/* behind; -1 keeps; macro: value 0 */
TN_API tn_tensor *tn_pad_to(tn_tensor *x, const tn_shape *s, double value);
/* reps[i] copies along axis i; more reps: axes in front */
TN_API tn_tensor *tn_repeat(tn_tensor *x, const tn_shape *reps);
/* each element reps times in a row */
TN_API tn_tensor *tn_repeat_interleave(tn_tensor *x, int64_t reps, int axis);
/* shifted by shifts[i] along ax[i], around the end */
TN_API tn_tensor *tn_roll(tn_tensor *x, const tn_shape *shifts, const tn_axes *ax);
TN_API tn_tensor *tn_diag(tn_tensor *x); /* (n,) to (n, n); (n, m) to its diagonal */

/* ---- indexing ---- */
typedef enum { TN_IDX_AT, TN_IDX_SLICE, TN_IDX_NEW, TN_IDX_DOTS, TN_IDX_TENSOR } tn_idx_kind;
#define TN_OPEN INT64_MIN /* an end of a slice that is not given */
typedef struct {
    tn_idx_kind kind;
    int64_t start, stop, step; /* AT: start; SLICE: TN_OPEN where not given, step 0: 1; else any */
    tn_tensor *t;
} tn_idx;
typedef struct {
    size_t n;
    const tn_idx *at;
} tn_indices;
static inline tn_idx tn_idx_at(int64_t i)
{
    tn_idx r = {TN_IDX_AT, i, 0, 0, NULL};
    return r;
}
static inline tn_idx tn_idx_tensor(tn_tensor *t)
{
    tn_idx r = {TN_IDX_TENSOR, 0, 0, 0, t};
    return r;
}
static inline tn_idx tn_idx_item(tn_idx i) { return i; }
static inline tn_idx tn_idx_slice(int64_t start, int64_t stop, int64_t step)
{
    tn_idx r = {TN_IDX_SLICE, start, stop, step, NULL};
    return r;
}
static inline tn_idx tn_idx_new(void)
{
    tn_idx r = {TN_IDX_NEW, 0, 0, 0, NULL};
    return r;
}
static inline tn_idx tn_idx_dots(void)
{
    tn_idx r = {TN_IDX_DOTS, 0, 0, 0, NULL};
    return r;
}
/* Macro: tn_index(x, i, TN_SLICE(a, b), t, ..): integers, slices of any step, TN_NEWAXIS, TN_DOTS, integer tensors
 * (negative ones count from the end; out of range reads 0 and the next sync reports it).  Without tensors
 * the result is a view.  Tensors broadcast together and replace their axes, in front where those are apart. */
TN_API tn_tensor *tn_index(tn_tensor *x, const tn_indices *at);
/* x[at] becomes value, broadcast and cast; of repeated positions the last one wins; a single bool tensor is a
 * mask.  Returns x. */
TN_API tn_tensor *tn_setitem(tn_tensor *x, const tn_indices *at, tn_tensor *value);
/* x at idx along axis, in idx's shape */
TN_API tn_tensor *tn_gather(tn_tensor *x, int axis, tn_tensor *idx);
/* x with src at idx along axis; src has at least idx's sizes; of repeated places the last one
 * wins */
TN_API tn_tensor *tn_scatter(tn_tensor *x, int axis, tn_tensor *idx, tn_tensor *src,
                             const tn_scatter_opts *o);
/* x with src combined by .by at idx along axis */
TN_API tn_tensor *tn_scatter_reduce(tn_tensor *x, int axis, tn_tensor *idx, tn_tensor *src,
                                    const tn_scatter_opts *o);
/* The elements where mask is true, in order, as (size,); .fill behind the last. */
TN_API tn_tensor *tn_masked_select(tn_tensor *x, tn_tensor *mask, int64_t size,
                                   const tn_fill_opts *o);
/* positions, (size, ndim) int32 */
TN_API tn_tensor *tn_nonzero(tn_tensor *x, int64_t size, const tn_fill_opts *o);

/* ---- products, convolution, pooling ---- */
/* (.., M, K) @ (.., K, N); vectors lose their axis; batch axes broadcast. */
TN_API tn_tensor *tn_matmul(tn_tensor *a, tn_tensor *b, const tn_dtype_opts *o);
TN_API tn_tensor *tn_dot(tn_tensor *a, tn_tensor *b, const tn_dtype_opts *o); /* the same */
/* x @ w (in, out) + bias; bias may be NULL */
TN_API tn_tensor *tn_linear(tn_tensor *x, tn_tensor *w, tn_tensor *bias);
/* "ij,jk->ik", "...ij->...ji" */
TN_API tn_tensor *tn_einsum(const char *formula, const tn_inputs *xs, const tn_dtype_opts *o);
/* x (N, C, spatial..), w (O, C / groups, kernel..), one to three spatial axes -> (N, O, spatial..). */
TN_API tn_tensor *tn_conv2d(tn_tensor *x, tn_tensor *w, const tn_conv2d_opts *o);
/* Adjoint of conv2d: w (C, O / groups, kernel..). */
TN_API tn_tensor *tn_conv_transpose2d(tn_tensor *x, tn_tensor *w, const tn_conv2d_opts *o);
TN_API tn_tensor *tn_max_pool2d(tn_tensor *x, const tn_pool2d_opts *o); /* over the last axes */
TN_API tn_tensor *tn_avg_pool2d(tn_tensor *x, const tn_pool2d_opts *o); /* float */
/* inverse of max_pool2d with .indices; zeros elsewhere */
TN_API tn_tensor *tn_max_unpool2d(tn_tensor *x, tn_tensor *indices, const tn_pool2d_opts *o);
/* the last size->n axes */
TN_API tn_tensor *tn_interpolate(tn_tensor *x, const tn_shape *size, const tn_resize_opts *o);
/* softmax(q k^T / sqrt(E) + mask) v for (.., L, E), (.., S, E), (.., S, V). */
TN_API tn_tensor *tn_scaled_dot_product_attention(tn_tensor *q, tn_tensor *k, tn_tensor *v,
                                                  const tn_attention_opts *o);

/* ---- losses: a scalar, or one a row with .reduction = TN_REDUCTION_NONE ---- */
/* x: probabilities; log >= -100 */
TN_API tn_tensor *tn_binary_crossentropy(tn_tensor *x, tn_tensor *y, const tn_loss_opts *o);
/* x: scores; as of sigmoid(x), stable */
TN_API tn_tensor *tn_binary_crossentropy_logits(tn_tensor *x, tn_tensor *y, const tn_loss_opts *o);
/* x (.., classes) scores, y (..) integers; the mean is over what is not ignored. */
TN_API tn_tensor *tn_sparse_categorical_crossentropy(tn_tensor *x, tn_tensor *y,
                                                     const tn_loss_opts *o);
/* x (N, classes, ..) scores; y classes (N, ..), or probabilities of x's shape. */
TN_API tn_tensor *tn_cross_entropy(tn_tensor *x, tn_tensor *y, const tn_loss_opts *o);
/* x: log-probabilities (N, classes, ..) */
TN_API tn_tensor *tn_nll_loss(tn_tensor *x, tn_tensor *y, const tn_loss_opts *o);

#ifdef __cplusplus
}
#else
#ifndef TN_NO_MACROS
#include <tenon/tensor_macros.h>
#endif
#endif
#endif
