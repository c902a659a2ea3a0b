/* SPDX-License-Identifier: MIT */
/*
 * Models: walkers over their state, layers, optimizers and schedulers, state dicts and their files, data
 * sets, the progress bar.
 *
 * A model is a plain struct whose fields are tensors and layers.  One walker function names the fields and
 * serves parameters, counting, saving, loading, casting, placing and freeing:
 *
 *     typedef struct { tn_nn_conv2d l1; tn_nn_linear l2; } model;
 *     static void model_visit(tn_visitor *v, void *obj)
 *     {
 *         model *m = obj;
 *         tn_field(v, m, l1);
 *         tn_field(v, m, l2);
 *     }
 *
 * Names in files are the fields' names joined by dots ("l1.weight").  Functions named *_init and *_new give
 * state that the caller frees: layers through their walker (tn_state_free), optimizers by tn_optim_free.
 * In option structs 0 means the default; where a true zero is wanted and differs, write TN_ZERO.
 */
#ifndef TENON_NN_H
#define TENON_NN_H
#include <tenon/core.h>
#ifdef __cplusplus
extern "C" {
#endif

#define TN_ZERO (-0.0)

/* ---- walkers ------------------------------------------------------------------------------------- */
/* Names every piece of state of obj, in a fixed order. */
typedef void tn_visit_fn(tn_visitor *v, void *obj);
/* What a walker calls.  NULL fields are skipped; a tensor that two fields hold is met once. */
TN_API void tn_visit_tensor(tn_visitor *v, const char *name, tn_tensor **field); /* trained */
/* state that is not trained */
TN_API void tn_visit_buffer(tn_visitor *v, const char *name, tn_tensor **field);
/* in files: uint64 (1,) */
TN_API void tn_visit_number(tn_visitor *v, const char *name, uint64_t *number);
/* obj NULL: skipped */
TN_API void tn_visit_sub(tn_visitor *v, const char *name, void *obj, tn_visit_fn *fn);
/* n objects, `stride` bytes apart: name.0, name.1, .. */
TN_API void tn_visit_array(tn_visitor *v, const char *name, void *first, size_t n, size_t stride,
                           tn_visit_fn *fn);
/* A walker over one tensor: obj is a tn_tensor **, for tn_visit_array. */
TN_API void tn_tensor_visit(tn_visitor *v, void *obj);
/* The thread's random generator ("key", "counter"); obj is not used, but must not be NULL. */
TN_API void tn_random_visit(tn_visitor *v, void *obj);

/* Calls `each` for every tensor; name is borrowed for the call, *field may be changed. */
typedef void tn_each_fn(void *user, const char *name, tn_tensor **field, bool trained);
/* Calls `each` for every tensor of obj in the walker's order. False with an error.  fails NULL
 * NOMEM */
TN_API bool tn_state_each(void *obj, tn_visit_fn *fn, tn_each_fn *each, void *user);
/* Elements of all trained tensors; -1 on error. */
TN_API int64_t tn_state_count(void *obj, tn_visit_fn *fn);
/* The trained tensors, borrowed, up to cap of them into out; how many there are. */
TN_API size_t tn_state_parameters(void *obj, tn_visit_fn *fn, tn_tensor **out, size_t cap);
/* Frees every tensor and sets its field to NULL. */
TN_API void tn_state_free(void *obj, tn_visit_fn *fn);
/* Computes what is still lazy, all at once. */
TN_API bool tn_state_realize(void *obj, tn_visit_fn *fn);
/* Floating-point tensors become dt, in place. */
TN_API bool tn_state_cast(void *obj, tn_visit_fn *fn, tn_dtype dt);
/* Every tensor moves to all devices: a copy on each, or split along an axis (sizes must divide evenly). */
TN_API bool tn_state_replicate(void *obj, tn_visit_fn *fn, const tn_devices *devices);
/* The same, each tensor cut along an axis, whose size the number of devices must divide.  fails
 * AXIS SHAPE */
TN_API bool tn_state_shard(void *obj, tn_visit_fn *fn, const tn_devices *devices, int axis);

/* ---- state dicts and safetensors ------------------------------------------------------------------ */
typedef struct tn_state_dict tn_state_dict;
typedef struct {
    tn_named named;
    size_t size;
    bool lax;     /* names that only one side has are skipped; default: an error */
    bool verbose; /* says on the log which are skipped */
} tn_load_opts;
typedef struct {
    tn_named named;
    size_t size;
    const char *const *metadata; /* key, value, key, value, .., NULL */
} tn_save_opts;
TN_API tn_state_dict *tn_state_dict_new(void); /* empty; own, by tn_state_dict_free */
/* Frees the dict and what it keeps; NULL is fine. */
TN_API void tn_state_dict_free(tn_state_dict *sd);
/* The state of obj by name; holds the tensors themselves, no copies.  Own; NULL on error. */
TN_API tn_state_dict *tn_get_state_dict(void *obj, tn_visit_fn *fn);
/* Writes the tensors of sd into those of obj.  Shapes must be equal, dtypes are converted; nothing changes
 * unless everything fits. */
TN_API bool tn_load_state_dict(void *obj, tn_visit_fn *fn, const tn_state_dict *sd,
                               const tn_load_opts *o);
TN_API size_t tn_state_dict_count(const tn_state_dict *sd); /* How many tensors; 0 for NULL. */
TN_API const char *tn_state_dict_name(const tn_state_dict *sd, size_t i); /* NULL past the end */
TN_API bool tn_state_dict_put(tn_state_dict *sd, const char *name, tn_tensor *t); /* keeps t */
/* A tensor of the innermost scope; from a file it is read now.  Poison when the name is not there. */
TN_API tn_tensor *tn_state_dict_get(const tn_state_dict *sd, const char *name);
/* NULL: none */
TN_API const char *tn_state_dict_metadata(const tn_state_dict *sd, const char *key);
/* safetensors files: written as a whole or not at all; read lazily. */
TN_API bool tn_safe_save_dict(const char *path, const tn_state_dict *sd, const tn_save_opts *o);
TN_API tn_state_dict *tn_safe_load_dict(const char *path); /* own; NULL on error */
/* The usual pair: the state of an object to a file and back. */
TN_API bool tn_safe_save(const char *path, void *obj, tn_visit_fn *fn, const tn_save_opts *o);
/* Reads what tn_safe_save wrote into the tensors of obj; rules of tn_load_state_dict.  fails IO
 * FORMAT and its errors */
TN_API bool tn_safe_load(const char *path, void *obj, tn_visit_fn *fn, const tn_load_opts *o);

/* ---- layers ---------------------------------------------------------------------------------------- */
typedef struct {
    tn_named named;
    size_t size;
    bool no_bias;
    tn_dtype dtype;                        /* default: the default float */
    int stride, padding, dilation, groups; /* defaults 1, 0, 1, 1 */
    bool same;                             /* padding that keeps the size; needs stride 1 */
    int output_padding;                    /* transposed only */
    /* Where height and width differ; both 0: the numbers above (and kernel). */
    int kernel_hw[2], stride_hw[2], padding_hw[2], dilation_hw[2], output_padding_hw[2];
} tn_nn_opts;

/* y = x @ weight^T + bias; weight (out, in), bias (out) or NULL; both uniform in +-1/sqrt(in). */
typedef struct {
    tn_tensor *weight, *bias;
} tn_nn_linear;
/* Own, by tn_nn_linear_visit.  fails NULL VALUE (sizes below 1) DTYPE (not floats) NOMEM */
TN_API bool tn_nn_linear_init(tn_nn_linear *l, int in, int out, const tn_nn_opts *o);
/* (.., in) to (.., out).  fails SHAPE */
TN_API tn_tensor *tn_nn_linear_call(const tn_nn_linear *l, tn_tensor *x);
TN_API void tn_nn_linear_visit(tn_visitor *v, void *obj); /* walker: weight, bias */

/* Convolutions of one or two spatial axes; weight (out, in / groups, k..), transposed (in, out / groups, k..);
 * uniform in +-1/sqrt(fan_in), fan_in = elements of the weight / its first size. */
typedef struct {
    tn_tensor *weight, *bias;
    int rank; /* spatial axes */
    bool transposed;
    int kernel[2], stride[2], before[2], after[2], dilation[2], output_padding[2], groups;
} tn_nn_conv;
typedef tn_nn_conv tn_nn_conv1d, tn_nn_conv2d, tn_nn_conv_transpose1d, tn_nn_conv_transpose2d;
/* kernel: its size on every axis, unless .kernel_hw.  fails NULL VALUE DTYPE NOMEM */
TN_API bool tn_nn_conv1d_init(tn_nn_conv1d *l, int in, int out, int kernel, const tn_nn_opts *o);
/* the same over two axes */
TN_API bool tn_nn_conv2d_init(tn_nn_conv2d *l, int in, int out, int kernel, const tn_nn_opts *o);
/* transposed, as PyTorch's ConvTranspose1d */
TN_API bool tn_nn_conv_transpose1d_init(tn_nn_conv_transpose1d *l, int in, int out, int kernel,
                                        const tn_nn_opts *o);
/* the same over two axes */
TN_API bool tn_nn_conv_transpose2d_init(tn_nn_conv_transpose2d *l, int in, int out, int kernel,
                                        const tn_nn_opts *o);
/* x (batch, in, spatial..) to (batch, out, spatial..); float.  fails SHAPE */
TN_API tn_tensor *tn_nn_conv_call(const tn_nn_conv *l, tn_tensor *x);
TN_API void tn_nn_conv_visit(tn_visitor *v, void *obj); /* walker: weight, bias */

typedef struct {
    tn_named named;
    size_t size;
    double eps;      /* default 1e-5, RMS norm 1e-6 */
    double momentum; /* batch norm: weight of the newest statistics; default 0.1 */
    bool no_affine;  /* neither weight nor bias */
    bool no_bias;
    bool no_stats;  /* batch norm: no running statistics, always those of the batch */
    tn_dtype dtype; /* default: the default float */
} tn_nn_norm_opts;

/* (x - mean) / sqrt(var + eps) * weight + bias, a channel (axis 1) each.  Under TN_TRAINING with the batch's
 * statistics, which move the running ones; else with the running ones.  Ioffe and Szegedy 2015. */
typedef struct {
    tn_tensor *weight, *bias, *running_mean, *running_var, *num_batches_tracked;
    int channels;
    double eps, momentum;
} tn_nn_batchnorm;
typedef tn_nn_batchnorm tn_nn_batchnorm2d, tn_nn_batchnorm3d;
/* weight ones, bias zeros, running mean 0 and variance 1. fails NULL VALUE DTYPE NOMEM */
TN_API bool tn_nn_batchnorm_init(tn_nn_batchnorm *l, int channels, const tn_nn_norm_opts *o);
/* x (batch, channels, ..) to the same shape, float.  fails SHAPE */
TN_API tn_tensor *tn_nn_batchnorm_call(const tn_nn_batchnorm *l, tn_tensor *x);
/* walker: weight, bias; not trained: running_mean, running_var, num_batches_tracked */
TN_API void tn_nn_batchnorm_visit(tn_visitor *v, void *obj);

/* Over the trailing axes of the given shape (Ba et al. 2016); 2d: over the channels of (batch, channels, ..); RMS:
 * x / sqrt(mean(x^2) + eps) * weight over the last axis. */
typedef struct {
    tn_tensor *weight, *bias;
    int rank;
    bool channels_first, rms;
    int64_t dims[TN_MAX_RANK];
    double eps;
} tn_nn_layernorm;
typedef tn_nn_layernorm tn_nn_layernorm2d, tn_nn_rmsnorm;
/* over the last shape->n axes, which have these sizes.  fails NULL SHAPE VALUE DTYPE NOMEM */
TN_API bool tn_nn_layernorm_init(tn_nn_layernorm *l, const tn_shape *shape,
                                 const tn_nn_norm_opts *o);
/* over the channels at each position */
TN_API bool tn_nn_layernorm2d_init(tn_nn_layernorm2d *l, int channels, const tn_nn_norm_opts *o);
/* over the last axis, of n elements (Zhang and Sennrich 2019) */
TN_API bool tn_nn_rmsnorm_init(tn_nn_rmsnorm *l, int n, const tn_nn_norm_opts *o);
/* serves all three; the shape stays, float.  fails SHAPE */
TN_API tn_tensor *tn_nn_layernorm_call(const tn_nn_layernorm *l, tn_tensor *x);
TN_API void tn_nn_layernorm_visit(tn_visitor *v, void *obj); /* walker: weight, bias */

/* Over groups of channels and all positions (Wu and He 2018); instance norm: a group a channel. */
typedef struct {
    tn_tensor *weight, *bias;
    int groups, channels;
    double eps;
} tn_nn_groupnorm;
typedef tn_nn_groupnorm tn_nn_instancenorm;
/* groups must divide channels.  fails NULL VALUE DTYPE NOMEM */
TN_API bool tn_nn_groupnorm_init(tn_nn_groupnorm *l, int groups, int channels,
                                 const tn_nn_norm_opts *o);
/* one group a channel */
TN_API bool tn_nn_instancenorm_init(tn_nn_instancenorm *l, int channels, const tn_nn_norm_opts *o);
/* x (batch, channels, ..) to the same shape, float.  fails SHAPE */
TN_API tn_tensor *tn_nn_groupnorm_call(const tn_nn_groupnorm *l, tn_tensor *x);
TN_API void tn_nn_groupnorm_visit(tn_visitor *v, void *obj); /* walker: weight, bias */

/* Rows of weight (vocabulary, size) by integer index: (..) to (.., size).  Glorot uniform. */
typedef struct {
    tn_tensor *weight;
} tn_nn_embedding;
/* fails NULL VALUE (sizes below 1) DTYPE NOMEM */
TN_API bool tn_nn_embedding_init(tn_nn_embedding *l, int vocabulary, int size, const tn_nn_opts *o);
/* idx (..) integers to (.., size).  fails DTYPE; INDEX at the next sync */
TN_API tn_tensor *tn_nn_embedding_call(const tn_nn_embedding *l, tn_tensor *idx);
TN_API void tn_nn_embedding_visit(tn_visitor *v, void *obj); /* walker: weight */

/* One step of an LSTM (Hochreiter and Schmidhuber 1997), gates in the order input, forget, cell, output; x
 * (batch, in), h and c (batch, hidden) or NULL for zeros.  All uniform in +-1/sqrt(hidden). */
typedef struct {
    tn_tensor *weight_ih, *weight_hh, *bias_ih, *bias_hh;
} tn_nn_lstm_cell;
/* fails NULL VALUE (sizes below 1) DTYPE NOMEM */
TN_API bool tn_nn_lstm_cell_init(tn_nn_lstm_cell *l, int in, int hidden, const tn_nn_opts *o);
/* The new state to *h_out and *c_out, (batch, hidden), of the innermost scope. False with an
 * error.  fails NULL SHAPE */
TN_API bool tn_nn_lstm_cell_call(const tn_nn_lstm_cell *l, tn_tensor *x, tn_tensor *h, tn_tensor *c,
                                 tn_tensor **h_out, tn_tensor **c_out);
/* walker: weight_ih, weight_hh, bias_ih, bias_hh */
TN_API void tn_nn_lstm_cell_visit(tn_visitor *v, void *obj);

/* A step of tn_sequential: TN_L(&m->l1) a layer, TN_F(tn_relu) a function, TN_U(fn, state) the caller's own. */
typedef tn_tensor *tn_layer_fn(tn_tensor *x);
typedef tn_tensor *tn_layer_user(const void *layer, tn_tensor *x);
typedef enum {
    TN_LAYER_FN,
    TN_LAYER_USER,
    TN_LAYER_LINEAR,
    TN_LAYER_CONV,
    TN_LAYER_BATCHNORM,
    TN_LAYER_LAYERNORM,
    TN_LAYER_GROUPNORM,
    TN_LAYER_EMBEDDING
} tn_layer_kind;
typedef struct {
    tn_layer_kind kind;
    const void *layer;
    union {
        tn_layer_fn *fn;
        tn_layer_user *user;
    } of;
} tn_layer;
/* Each in turn: tn_sequential(x, TN_L(&m->l1), TN_F(tn_relu), TN_L(&m->l2)) */
TN_API tn_tensor *tn_sequential(tn_tensor *x, const tn_layer *layers, size_t n);

/* ---- optimizers -------------------------------------------------------------------------------------- */
/* State (moments, step counters, learning rate) is float32, float64 beside a float64 parameter; parameters keep
 * their dtype.  Parameters without a gradient are left alone.  Each *_new takes what a walker finds trained,
 * each *_list what is listed. */
typedef struct {
    tn_named named;
    size_t size;
    double lr;           /* default 0.001 */
    double weight_decay; /* of the default of each */
    double momentum;     /* SGD, LARS, Muon */
    bool nesterov;
    bool classic;       /* SGD, LARS: the momentum holds the gradient times the learning rate */
    double b1, b2, eps; /* Adam, AdamW, LAMB: 0.9, 0.999, 1e-8 (LAMB 1e-6) */
    double tcoef;       /* LARS: 0.001 */
    int ns_steps;       /* Muon: 5 (at most 100) steps towards the orthogonal matrix */
    bool no_nesterov;   /* Muon: plain momentum */
} tn_optim_opts;
/* Stochastic gradient descent: momentum 0, weight_decay 0 (added to the gradient). */
TN_API tn_optim *tn_sgd_new(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
/* the same for listed parameters */
TN_API tn_optim *tn_sgd_list(const tn_inputs *params, const tn_optim_opts *o);
/* Kingma and Ba 2014; weight_decay (default 0) is added to the gradient, as in PyTorch. */
TN_API tn_optim *tn_adam_new(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
/* the same for listed parameters */
TN_API tn_optim *tn_adam_list(const tn_inputs *params, const tn_optim_opts *o);
/* Loshchilov and Hutter 2017: weight_decay (default 0.01) beside the gradient. */
TN_API tn_optim *tn_adamw_new(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
/* the same for listed parameters */
TN_API tn_optim *tn_adamw_list(const tn_inputs *params, const tn_optim_opts *o);
/* You et al. 2017: SGD with momentum 0.9 and weight_decay 1e-4, each tensor's step scaled by tcoef |w| / (|g| +
 * weight_decay |w|). */
TN_API tn_optim *tn_lars_new(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
/* the same for listed parameters */
TN_API tn_optim *tn_lars_list(const tn_inputs *params, const tn_optim_opts *o);
/* You et al. 2019: AdamW (weight_decay 0), each tensor's step scaled by |w| / |step|. */
TN_API tn_optim *tn_lamb_new(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
/* the same for listed parameters */
TN_API tn_optim *tn_lamb_list(const tn_inputs *params, const tn_optim_opts *o);
/* Jordan et al. 2024: momentum 0.95 (Nesterov) made orthogonal, weight_decay 0.1 beside it; for matrices and
 * convolution weights. */
TN_API tn_optim *tn_muon_new(void *obj, tn_visit_fn *fn, const tn_optim_opts *o);
/* the same for listed parameters */
TN_API tn_optim *tn_muon_list(const tn_inputs *params, const tn_optim_opts *o);
/* Several as one, which owns them: steps, forgets and sets the learning rate of all.  The caller keeps them on
 * failure (NULL). */
TN_API tn_optim *tn_optim_group(tn_optim *const *list, size_t n);
/* Forgets the gradients of its parameters. */
TN_API void tn_optim_zero_grad(tn_optim *o);
/* Builds the updates and computes them, with the results of tn_backward that wait for it.
 * fails STATE (TN_TRAINING is 0, or no parameter has a gradient) */
TN_API bool tn_optim_step(tn_optim *o);
/* The same without computing: the next tn_realize, tn_item or step does. */
TN_API bool tn_optim_schedule_step(tn_optim *o);
/* The learning rate of now (a group's: its first one's); NaN on error. */
TN_API double tn_optim_lr(const tn_optim *o);
/* Seen by captured steps at their next call.  fails STATE inside a capture */
TN_API bool tn_optim_set_lr(tn_optim *o, double lr);
/* Its state: "lr", moments ("m.0", "v.0", ..), counters; obj is the tn_optim *. */
TN_API void tn_optim_visit(tn_visitor *v, void *obj);
TN_API void tn_optim_free(tn_optim *o); /* NULL is fine */

/* ---- schedulers: learning rates by step ---------------------------------------------------------------- */
/* tn_sched_step after each step (or epoch) sets the next learning rate.  The optimizer must outlive the
 * scheduler.  Values are PyTorch's. */
typedef struct tn_sched tn_sched;
typedef struct {
    tn_named named;
    size_t size;
    double gamma;                        /* multi-step: 0.1 */
    double min_lr;                       /* plateau and cosine: 0 */
    double factor;                       /* plateau: 0.1 */
    int patience;                        /* plateau: 10; negative: 0 */
    double threshold;                    /* plateau: 1e-4 */
    bool maximize;                       /* plateau: greater is better */
    bool absolute;                       /* plateau: the threshold is a difference, not a ratio */
    double div_factor, final_div_factor; /* one-cycle: 25 and 1e4 */
    double pct_start;                    /* one-cycle: 0.3 of the steps go up */
    bool linear; /* one-cycle: straight lines, not half waves of the cosine */
} tn_sched_opts;
/* Times gamma at each of n milestones. */
TN_API tn_sched *tn_sched_multistep(tn_optim *o, const int64_t *milestones, size_t n,
                                    const tn_sched_opts *opts);
/* Times factor when the metric has not improved for more than `patience` calls of tn_sched_step_metric. */
TN_API tn_sched *tn_sched_plateau(tn_optim *o, const tn_sched_opts *opts);
/* From the learning rate of now to min_lr in `steps`, by half a cosine. */
TN_API tn_sched *tn_sched_cosine(tn_optim *o, int64_t steps, const tn_sched_opts *opts);
/* From max_lr / div_factor up to max_lr and down to that / final_div_factor in `steps`; sets the first at once. */
TN_API tn_sched *tn_sched_onecycle(tn_optim *o, double max_lr, int64_t steps,
                                   const tn_sched_opts *opts);
/* One step further: sets the next learning rate.  fails NULL VALUE (plateau) STATE (inside a
 * capture) */
TN_API bool tn_sched_step(tn_sched *s);
/* The same for plateau, by the metric of the epoch.  fails as tn_sched_step */
TN_API bool tn_sched_step_metric(tn_sched *s, double metric);
TN_API double tn_sched_lr(const tn_sched *s);         /* The learning rate that was set last. */
TN_API void tn_sched_visit(tn_visitor *v, void *obj); /* obj is the tn_sched * */
TN_API void tn_sched_free(tn_sched *s);               /* NULL is fine; not the optimizer */

/* ---- data sets --------------------------------------------------------------------------------------- */
typedef struct {
    tn_tensor *x_train, *y_train, *x_test, *y_test;
} tn_mnist;
typedef struct {
    tn_named named;
    size_t size;
    bool fashion;       /* Fashion-MNIST */
    const char *device; /* default: as new tensors */
} tn_mnist_opts;
/* Images uint8 (60000, 1, 28, 28) and (10000, 1, 28, 28), labels uint8 (60000,) and (10000,), in memory.  dir
 * NULL: looked for in TENON_DATASETS, the user's cache, then downloaded. */
TN_API bool tn_mnist_load(tn_mnist *d, const char *dir, const tn_mnist_opts *o);
TN_API void tn_mnist_visit(tn_visitor *v, void *obj); /* walker: the four tensors, none trained */

/* CIFAR-10: images uint8 (50000, 3, 32, 32) and (10000, 3, 32, 32), labels uint8, from cifar-10-binary.tar.gz in
 * dir; NULL: in TENON_DATASETS, itself or cifar/, else downloaded. */
typedef struct {
    tn_tensor *x_train, *y_train, *x_test, *y_test;
} tn_cifar;
typedef struct {
    tn_named named;
    size_t size;
    const char *device; /* default: as new tensors */
} tn_cifar_opts;
/* fails NULL IO FORMAT NOMEM UNSUPPORTED (no libarchive, no libcurl) */
TN_API bool tn_cifar_load(tn_cifar *d, const char *dir, const tn_cifar_opts *o);
TN_API void tn_cifar_visit(tn_visitor *v, void *obj); /* walker: the four tensors, none trained */

/* ---- progress and time --------------------------------------------------------------------------------- */
/* TN_BAR(b, n) { .. } runs its block n times, b.i from 0, and shows how far it is on standard error: one
 * line on a terminal, a line now and then elsewhere.  It stops early when an error is pending. */
typedef struct {
    int64_t i, n;
    uint64_t start, shown; /* ns */
    int64_t marked;        /* i when last shown */
    bool live, tty, color;
    char text[128];
} tn_bar;
TN_API void tn_bar_open(tn_bar *b, int64_t n); /* Starts a bar of n steps; TN_BAR calls it. */
/* True while there is a step left and no error is pending; b->i is its number. TN_BAR calls it. */
TN_API bool tn_bar_next(tn_bar *b);
TN_API void tn_bar_end(tn_bar *b); /* Ends the line; also after a break. TN_BAR calls it. */
static inline tn_bar tn_bar_begin(int64_t n)
{
    tn_bar b;
    tn_bar_open(&b, n);
    return b;
}
/* Text beside the bar. */
TN_API void tn_bar_text(tn_bar *b, const char *fmt, ...) TN_PRINTF(2, 3);
/* A line on standard output, above the bar. */
TN_API void tn_bar_print(tn_bar *b, const char *fmt, ...) TN_PRINTF(2, 3);

typedef struct {
    const char *label;
    uint64_t start;
} tn_timing;
/* Starts a time; label is borrowed until tn_timing_end. TN_TIMING calls it. */
TN_API void tn_timing_open(tn_timing *t, const char *label);
TN_API void tn_timing_end(tn_timing *t); /* "label: 12.34 ms" on standard error */
static inline tn_timing tn_timing_begin(const char *label)
{
    tn_timing t;
    tn_timing_open(&t, label);
    return t;
}
/* Devices named by an environment variable, separated by commas; NULL where it is unset or empty.
 * Borrowed until the thread's next call of it. */
TN_API const tn_devices *tn_getenv_devices(const char *name);

#ifdef __cplusplus
}
#endif

#if !defined(__cplusplus) && !defined(TN_NO_MACROS)
#include <tenon/nn_macros.h>
#endif
#endif
