/* SPDX-License-Identifier: MIT */
/*
 * Captured functions: the first call runs a function, the second captures what it computes, later calls
 * replay that without running the function.
 *
 * Data enters through IN(...) (NULL where there is none), matched by shape, dtype and device, and through tensors that the function
 * reads otherwise (closures: model, optimizer), whose value of the time of the call is used.  C numbers and
 * branches are those of the capture.  Assignments, gradients and random numbers work as if the function ran.
 * Variable JIT: 0 runs functions as they are, 2 replays kernel by kernel; JIT_CHECK=n runs the function again
 * at every n-th replay and compares.
 */
#ifndef TENON_JIT_H
#define TENON_JIT_H
#include <tenon/macros.h>
#include <tenon/types.h>
#ifdef __cplusplus
extern "C" {
#endif

/* Computes a tensor from `in`; may return NULL when all it does is write. */
typedef tn_tensor *tn_jit_fn(void *user, const tn_inputs *in);

typedef struct {
    tn_named named;
    size_t size;
    bool
        prune; /* what depends on no input, random number or written tensor is computed once, not at each call */
} tn_jit_opts;

/* A jit over fn, for tn_jit_free; runs nothing.  NULL on error. */
TN_API tn_jit *tn_jit_new(tn_jit_fn *fn, void *user, const tn_jit_opts *o);
TN_API void tn_jit_free(tn_jit *jit); /* NULL is fine */
/* Runs, captures or replays.  The result belongs to the jit until its next call, unless it is kept; it has no
 * history for tn_backward.  NULL where fn returns NULL.  A call that fails changes nothing. */
TN_API tn_tensor *tn_jit_call(tn_jit *jit, const tn_inputs *in);
/* Forgets the capture: the next call is a first one. */
TN_API void tn_jit_reset(tn_jit *jit);
/* Gives memory of the replay back; the next call takes it again. */
TN_API void tn_jit_free_intermediates(tn_jit *jit);

/* Inside a jit's function: a further result, by name.  Returns t. */
TN_API tn_tensor *tn_jit_output(const char *name, tn_tensor *t);
/* That result of the latest call; it belongs to the jit until its next call. */
TN_API tn_tensor *tn_jit_get(tn_jit *jit, const char *name);

/* Runs fn in a scope of its own and hands its result out; with DEBUG=2 a line says its name and the time that
 * building took. */
TN_API tn_tensor *tn_function(const char *name, tn_jit_fn *fn, void *user, const tn_inputs *in);

#ifdef __cplusplus
}
#endif

#if !defined(__cplusplus) && !defined(TN_NO_MACROS)
/* tn_jit_new(fn, user), tn_jit_new(fn, user, .prune = true) */
#define tn_jit_new(...)          TN_OPT2(tn_jit_new, tn_jit_opts, __VA_ARGS__)
#define tn_jit_call(j, in)       TN_CALL2(tn_jit_call, j, in)
#define tn_jit_output(n, t)      TN_CALL2(tn_jit_output, n, t)
#define tn_jit_get(j, n)         TN_CALL2(tn_jit_get, j, n)
#define tn_function(n, f, u, in) (TN_HERE, (tn_function)((n), (f), (u), (in)))
#endif
#endif
