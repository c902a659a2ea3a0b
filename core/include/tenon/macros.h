/* SPDX-License-Identifier: MIT */
/*
 * The macros behind the API's literals, options and scalars.  C11 only: other languages bind to the
 * plain functions.  Each literal is one parenthesised expression, because an argument that expanded
 * to "ptr, n" would be split again by the next macro.  TN_NO_MACROS leaves them all out,
 * TN_NO_SHORT the names without TN_.
 */
#ifndef TENON_MACROS_H
#define TENON_MACROS_H
#include <tenon/types.h>
#if !defined(__cplusplus) && !defined(TN_NO_MACROS)

/* ---- literals ---- */
#define TN_SHAPE(...)                                                            \
    (&(const tn_shape){sizeof((const int64_t[]){__VA_ARGS__}) / sizeof(int64_t), \
                       (const int64_t[]){__VA_ARGS__}})
#define TN_SHAPE0 (&(const tn_shape){0, NULL}) /* rank 0 */
#define TN_AX(...) \
    (&(const tn_axes){sizeof((const int[]){__VA_ARGS__}) / sizeof(int), (const int[]){__VA_ARGS__}})
#define TN_ALL (tn_axes_all())
#define TN_IN(...)                                                                  \
    (&(const tn_inputs){sizeof((tn_tensor *[]){__VA_ARGS__}) / sizeof(tn_tensor *), \
                        (tn_tensor *[]){__VA_ARGS__}})
#define TN_DEVICES(...)                                                          \
    (&(const tn_devices){sizeof((const char *[]){__VA_ARGS__}) / sizeof(char *), \
                         (const char *const[]){__VA_ARGS__}})
/* TN_AX, TN_IN and TN_DEVICES take one or more; where none is meant, pass NULL.  Lists whose length is known at
 * run time, borrowed for the call: */
#define TN_SHAPE_N(n, dims) (&(const tn_shape){(n), (dims)})
#define TN_IN_N(n, tensors) (&(const tn_inputs){(n), (tensors)})
#ifndef TN_NO_SHORT
#define SHAPE_N(n, dims) TN_SHAPE_N(n, dims)
#define IN_N(n, tensors) TN_IN_N(n, tensors)
#define SHAPE(...)       TN_SHAPE(__VA_ARGS__)
#define SHAPE0           TN_SHAPE0
#define AX(...)          TN_AX(__VA_ARGS__)
#define ALL              TN_ALL
#define IN(...)          TN_IN(__VA_ARGS__)
#define DEVICES(...)     TN_DEVICES(__VA_ARGS__)
#endif

/* ---- scalars: a number where a tensor is wanted; weak, it takes the other operand's dtype ---- */
#define TN_LIFT(x) \
    _Generic((x),                                                                                  \
        tn_tensor *: tn_lift_tensor,                                                               \
        void *: tn_lift_null,                                                                      \
        bool: tn_lift_bool,                                                                        \
        char: tn_lift_int,                                                                         \
        signed char: tn_lift_int,                                                                  \
        unsigned char: tn_lift_int,                                                                \
        short: tn_lift_int,                                                                        \
        unsigned short: tn_lift_int,                                                               \
        int: tn_lift_int,                                                                          \
        unsigned: tn_lift_int,                                                                     \
        long: tn_lift_int,                                                                         \
        long long: tn_lift_int,                                                                    \
        unsigned long: tn_lift_uint,                                                               \
        unsigned long long: tn_lift_uint,                                                          \
        float: tn_lift_float,                                                                      \
        double: tn_lift_float,                                                                     \
        long double: tn_lift_long)(x)

/* ---- calls: remember the place, lift scalars, build the options ---- */
/* TN_HERE stands before each call: (TN_HERE, (tn_relu)(x)). */
#define TN_HERE              tn_at(__FILE__, __LINE__)
#define TN_CALL1(f, a)       (TN_HERE, (f)(a))
#define TN_CALL2(f, a, b)    (TN_HERE, (f)((a), (b)))
#define TN_CALL3(f, a, b, c) (TN_HERE, (f)((a), (b), (c)))
#define TN_LIFT2(f, a, b)    (TN_HERE, (f)((a), TN_LIFT(b)))
#define TN_LIFT3(f, a, b, c) (TN_HERE, (f)((a), TN_LIFT(b), TN_LIFT(c)))

/* Options: TN_OPTn(function, type, n fixed arguments, designated initialisers...).  The trailing .size
 * keeps the variadic part non-empty. */
#define TN_O(T, ...)                    (&(T){__VA_ARGS__})
#define TN_OPT0(f, T, ...)              (TN_HERE, (f)(TN_O(T, __VA_ARGS__)))
#define TN_OPT1(f, T, ...)              TN_OPT1_(f, T, __VA_ARGS__, .size = sizeof(T))
#define TN_OPT2(f, T, ...)              TN_OPT2_(f, T, __VA_ARGS__, .size = sizeof(T))
#define TN_OPT3(f, T, ...)              TN_OPT3_(f, T, __VA_ARGS__, .size = sizeof(T))
#define TN_OPT4(f, T, ...)              TN_OPT4_(f, T, __VA_ARGS__, .size = sizeof(T))
#define TN_OPT1_(f, T, a, ...)          (TN_HERE, (f)((a), TN_O(T, __VA_ARGS__)))
#define TN_OPT2_(f, T, a, b, ...)       (TN_HERE, (f)((a), (b), TN_O(T, __VA_ARGS__)))
#define TN_OPT3_(f, T, a, b, c, ...)    (TN_HERE, (f)((a), (b), (c), TN_O(T, __VA_ARGS__)))
#define TN_OPT4_(f, T, a, b, c, d, ...) (TN_HERE, (f)((a), (b), (c), (d), TN_O(T, __VA_ARGS__)))

/* Reductions: (x), (x, axes) or (x, axes, options...); ALL axes where none are given. */
#define TN_REDUCE(f, T, ...) \
    TN_CAT(TN_REDUCE_, TN_ONE(__VA_ARGS__))(f, T, __VA_ARGS__, .size = sizeof(T))
#define TN_REDUCE_1(f, T, x, ...)     (TN_HERE, (f)((x), TN_ALL, TN_O(T, __VA_ARGS__)))
#define TN_REDUCE_N(f, T, x, ax, ...) (TN_HERE, (f)((x), (ax), TN_O(T, __VA_ARGS__)))
/* 1 for one argument, N for 2 to 24 (commas inside braces count). */
#define TN_NTH_(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p, q, r, s, t, u, v, w, x, y, ...) y
#define TN_ONE(...) \
    TN_NTH_(__VA_ARGS__, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, N, 1, 0)

/* A declaration at the start of a block: temporaries made in the block die when it is left. */
#define TN_SCOPE tn_scope TN_CAT(tn_scope_, __LINE__) TN_CLEANUP(tn_scope_end) = tn_scope_begin()

#endif
#endif
