/* SPDX-License-Identifier: MIT */
/*
 * Tensors as objects: ownership and scopes, data in and out, realising, writing, gradients, random
 * state.  What computes stands in tensor.h.
 *
 * Every function that returns a tensor returns one that the innermost open scope owns, and never
 * NULL: a failed call gives a *poison* tensor, which flows through other calls; tn_last_error says
 * what was wrong.  Handles are names, not addresses: a dead one answers TN_ESTALE.
 */
#ifndef TENON_CORE_H
#define TENON_CORE_H
#include <tenon/types.h>
#include <tenon/macros.h>
#ifdef __cplusplus
extern "C" {
#endif

/* ---- scopes and ownership ---- */
typedef struct {
    int depth;
    bool live;
} tn_scope;
/* TN_SCOPE; at the start of a block does both.  Ending a scope ends those opened inside it. */
TN_API void tn_scope_open(tn_scope *s);
/* Ends a scope and those opened inside it: their tensors are freed. A second call does nothing. */
TN_API void tn_scope_end(tn_scope *s);
static inline tn_scope tn_scope_begin(void)
{
    tn_scope s;
    tn_scope_open(&s);
    return s;
}
/* Hands a tensor of this scope to the parent scope; returns it. */
TN_API tn_tensor *tn_return(tn_tensor *t);
/* One more kept reference: the tensor outlives every scope until tn_free.  Returns it. */
TN_API tn_tensor *tn_keep(tn_tensor *t);
/* Drops a kept reference; NULL and temporaries are fine. */
TN_API void tn_free(tn_tensor *t);
/* True for NULL, poison and dead tensors; records nothing. */
TN_API bool tn_bad(const tn_tensor *t);

/* ---- questions ---- */
TN_API int tn_ndim(const tn_tensor *t);                    /* -1 on error */
TN_API int64_t tn_dim(const tn_tensor *t, int axis);       /* axis -1 is the last; -1 on error */
TN_API int64_t tn_numel(const tn_tensor *t);               /* -1 on error */
TN_API int tn_shape_of(const tn_tensor *t, int64_t *dims); /* at most 16; the rank, or -1 */
TN_API tn_dtype tn_dtype_of(const tn_tensor *t);           /* TN_DTYPE_DEFAULT on error */
TN_API const char *tn_device(const tn_tensor *t);          /* "CPU:0"; "" on error */
TN_API const tn_axes *tn_axes_all(void);                   /* what ALL means */

/* ---- scalars ---- */
TN_API tn_tensor *tn_const(double v);       /* rank 0, default float */
TN_API tn_tensor *tn_const_i(int64_t v);    /* rank 0, int32 where it fits, else int64 */
TN_API tn_tensor *tn_lift_float(double v);  /* weak: takes the dtype of what it meets */
TN_API tn_tensor *tn_lift_int(int64_t v);   /* weak int: takes the dtype of what it meets */
TN_API tn_tensor *tn_lift_uint(uint64_t v); /* the same; numbers above INT64_MAX stay uint64 */
TN_API tn_tensor *tn_lift_bool(bool v);     /* bool */
static inline tn_tensor *tn_lift_tensor(tn_tensor *t) { return t; }
static inline tn_tensor *tn_lift_null(void *p) { return (tn_tensor *)p; }
static inline tn_tensor *tn_lift_long(long double v) { return tn_lift_float((double)v); }

/* ---- data in and out ---- */
typedef struct {
    tn_named named;
    size_t size;
    tn_dtype dtype;     /* of the elements at ptr; default: the default float */
    const char *device; /* "CPU:1"; default: that of TN_WITH_DEVICE, DEV, or the best there is */
    void (*release)(void *user); /* tn_from_ptr: called when the memory is no longer used */
    void *user;
} tn_data_opts;
/* A tensor with a copy of numel elements in row-major order.  What ptr points to is not seen: ints need
 * .dtype = TN_I32, doubles .dtype = TN_F64.  fails NULL SHAPE DTYPE DEVICE NOMEM OOM */
TN_API tn_tensor *tn_from_data(const void *ptr, const tn_shape *shape, const tn_data_opts *o);
/* The same without a copy where the device can read host memory; ptr must live until release is
 * called.  Writes to the tensor go to ptr. */
TN_API tn_tensor *tn_from_ptr(void *ptr, const tn_shape *shape, const tn_data_opts *o);
/* Copies all elements out in row-major order; bytes must be numel * element size.  Realises and
 * waits.  False with an error.  fails NULL VALUE (bytes), and as tn_realize */
TN_API bool tn_data(tn_tensor *t, void *out, size_t bytes);
/* The value of a tensor with one element; NaN on error.  Realises and waits.
 * fails SHAPE, and as tn_realize */
TN_API double tn_item(tn_tensor *t);
TN_API int64_t tn_item_i(tn_tensor *t); /* the same for integers, exact; 0 on error */
/* Computes a tensor and this thread's pending writes.  Does not wait for the device.
 * fails DEVICE COMPILE OOM NOMEM */
TN_API bool tn_realize(tn_tensor *t);
/* The same for several at once, so that they share kernels. */
TN_API bool tn_realize_all(const tn_inputs *ts);
/* Text as numpy prints it; owned by the caller, for tn_text_free.  NULL on error. */
TN_API char *tn_repr(tn_tensor *t);
TN_API void tn_text_free(char *text); /* Frees what tn_repr gave; NULL is fine. */
/* Prints it and a newline to standard output. */
TN_API bool tn_print(tn_tensor *t);
/* The same values on another device, "CPU:1".  fails DEVICE */
TN_API tn_tensor *tn_to(tn_tensor *t, const char *device);
/* The same values on several devices: split evenly along an axis, or (axis -1) a copy on each.  What is
 * computed from it lives there too; tn_to brings it back to one device. */
TN_API tn_tensor *tn_shard(tn_tensor *t, const tn_devices *devices, int axis);
TN_API tn_tensor *tn_shard_like(tn_tensor *t, const tn_tensor *y); /* as y is placed */
/* tn_to and tn_shard in place: the handle stands for the moved tensor (tn_replace).  Return t. */
TN_API tn_tensor *tn_to_(tn_tensor *t, const char *device);
/* The same with tn_shard; returns t. */
TN_API tn_tensor *tn_shard_(tn_tensor *t, const tn_devices *devices, int axis);

/* ---- writing ---- */
/* dst becomes src, broadcast to dst's shape and cast to its dtype.  dst may be a view: the tensor it
 * shows changes.  Expressions built before keep the old value.  A bad operand changes nothing.
 * Returns dst. */
TN_API tn_tensor *tn_assign(tn_tensor *dst, tn_tensor *src);
/* t becomes another tensor: from now on the handle stands for x's value, in x's dtype and on its device;
 * shapes must be equal.  Nothing is written: views of what t was, and expressions built with it, keep
 * that.  A parameter stays one, without a gradient.  Not inside a JIT's function.  Returns t. */
TN_API tn_tensor *tn_replace(tn_tensor *t, tn_tensor *x);

/* ---- gradients ---- */
/* Marks a tensor as a parameter: tn_backward gives it a gradient.  Returns it.  fails DTYPE (no float) */
TN_API tn_tensor *tn_param(tn_tensor *t);
TN_API bool tn_is_param(const tn_tensor *t); /* False on error too. */
/* Builds the gradients of a scalar and adds them to those of all parameters it depends on; computes
 * nothing yet.  Returns loss. */
TN_API tn_tensor *tn_backward(tn_tensor *loss);
/* The gradient of a parameter; poison with TN_EGRAD when it has none (see tn_has_grad). */
TN_API tn_tensor *tn_grad(tn_tensor *t);
/* True where tn_grad would give a gradient; false on error, and none is recorded. */
TN_API bool tn_has_grad(const tn_tensor *t);
TN_API void tn_zero_grad(const tn_inputs *ts); /* forgets gradients; NULL entries are skipped */
/* d(loss)/d(xs[i]) into out[i] (xs->n of them), for any tensors that loss depends on; seed: NULL, or a tensor
 * of loss's shape, needed where loss is no scalar.  On failure all of out is poison. */
TN_API bool tn_gradient(tn_tensor *loss, const tn_inputs *xs, tn_tensor *seed, tn_tensor **out);
/* The same value, through which no gradient flows. */
TN_API tn_tensor *tn_detach(tn_tensor *t);

/* ---- random state of this thread ---- */
/* Starts this thread's generator at a seed: key = seed, counter 0 (before: the variable SEED). */
TN_API void tn_manual_seed(uint64_t seed);
/* The state, to be put back by tn_random_restore; NULL places are skipped. */
TN_API void tn_random_state(uint64_t *key, uint64_t *counter);
/* What is drawn from here on is what was drawn after that tn_random_state. */
TN_API void tn_random_restore(uint64_t key, uint64_t counter);

/* ---- counters, process-wide ---- */
typedef struct {
    size_t size;                                    /* set to sizeof(tn_counters) before the call */
    uint64_t host_bytes, host_blocks;               /* allocated now */
    uint64_t nodes, handles;                        /* alive now */
    uint64_t kernels, compiles, schedules, replays; /* so far */
    uint64_t ops, bytes, ns; /* of all kernels: done, moved; ns only with DEBUG=2 */
    uint64_t device_bytes,
        device_cached; /* of open devices: in live buffers; in freed blocks kept for reuse */
} tn_counters;
TN_API void tn_counters_get(tn_counters *out); /* Fills the struct, as much as its size has. */

#ifdef __cplusplus
}
#endif

#if !defined(__cplusplus) && !defined(TN_NO_MACROS)
/* All arguments as one initialiser, so that (float[]){1, 2, 3} needs no parentheses around it. */
typedef struct {
    const void *ptr;
    const tn_shape *shape;
    tn_named named;
    size_t size;
    tn_dtype dtype;
    const char *device;
    void (*release)(void *user);
    void *user;
} tn_data_args;
static inline tn_data_opts tn_data_args_opts(const tn_data_args *a)
{
    tn_data_opts o = {.size = sizeof o, .dtype = a->dtype, .device = a->device};
    o.release = a->release;
    o.user = a->user;
    return o;
}
static inline tn_tensor *tn_from_data_args(const tn_data_args *a)
{
    tn_data_opts o = tn_data_args_opts(a);
    return (tn_from_data)(a->ptr, a->shape, &o);
}
static inline tn_tensor *tn_from_ptr_args(const tn_data_args *a)
{
    tn_data_opts o = tn_data_args_opts(a);
    return (tn_from_ptr)((void *)(uintptr_t)a->ptr, a->shape, &o);
}
#define tn_from_data(...) \
    (TN_HERE, tn_from_data_args(&(tn_data_args){__VA_ARGS__, .size = sizeof(tn_data_args)}))
#define tn_from_ptr(...) \
    (TN_HERE, tn_from_ptr_args(&(tn_data_args){__VA_ARGS__, .size = sizeof(tn_data_args)}))
#define tn_data(t, p, n)    TN_CALL3(tn_data, t, p, n)
#define tn_item(t)          TN_CALL1(tn_item, t)
#define tn_item_i(t)        TN_CALL1(tn_item_i, t)
#define tn_realize(t)       TN_CALL1(tn_realize, t)
#define tn_realize_all(ts)  TN_CALL1(tn_realize_all, ts)
#define tn_print(t)         TN_CALL1(tn_print, t)
#define tn_to(t, d)         TN_CALL2(tn_to, t, d)
#define tn_shard(t, d, a)   TN_CALL3(tn_shard, t, d, a)
#define tn_shard_like(t, y) TN_CALL2(tn_shard_like, t, y)
#define tn_to_(t, d)        TN_CALL2(tn_to_, t, d)
#define tn_shard_(t, d, a)  TN_CALL3(tn_shard_, t, d, a)
#define tn_assign(d, s)     TN_LIFT2(tn_assign, d, s)
#define tn_replace(t, x)    TN_CALL2(tn_replace, t, x)
#define tn_param(t)         TN_CALL1(tn_param, t)
#define tn_backward(t)      TN_CALL1(tn_backward, t)
#define tn_grad(t)          TN_CALL1(tn_grad, t)
#define tn_detach(t)        TN_CALL1(tn_detach, t)
/* tn_gradient(loss, xs, out) or (loss, xs, seed, out) */
#define tn_gradient(...)                   TN_CAT(TN_GRAD_, TN_GRAD_ARITY_(__VA_ARGS__, 4, 3, 2, 1, 0))(__VA_ARGS__)
#define TN_GRAD_ARITY_(a, b, c, d, n, ...) n
#define TN_GRAD_3(l, xs, o)                (TN_HERE, (tn_gradient)((l), (xs), NULL, (o)))
#define TN_GRAD_4(l, xs, s, o)             (TN_HERE, (tn_gradient)((l), (xs), (s), (o)))
#endif
#endif
