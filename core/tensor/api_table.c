/* SPDX-License-Identifier: MIT */
/* Public wrappers of one shape each, from the rows of methods.def. */
#include "tensor/api.h"

static tn__node *as(tn__node *x, tn_dtype dt) { return tn__cast(tn__strong(x), dt); }

static tn__node *fill_like(tn__node *x, double v)
{
    x = tn__strong(x);
    return x ? tn__like(x, v) : NULL;
}

#define UNARY(name, expr)              \
    tn_tensor *(name)(tn_tensor * t)   \
    {                                  \
        tn__call c;                    \
        tn__call_begin(&c, #name);     \
        tn__node *x = tn__in(t);       \
        return tn__call_end(&c, expr); \
    }
#define SCALED(name, expr)                     \
    tn_tensor *(name)(tn_tensor * t, double s) \
    {                                          \
        tn__call c;                            \
        tn__call_begin(&c, #name);             \
        tn__node *x = tn__in(t);               \
        return tn__call_end(&c, expr);         \
    }
#define BINARY(name, expr)                               \
    tn_tensor *(name)(tn_tensor * ta, tn_tensor * tb)    \
    {                                                    \
        tn__call c;                                      \
        tn__call_begin(&c, #name);                       \
        tn__node *a = tn__in(ta), *b = tn__in(tb);       \
        return tn__call_end(&c, a && b ? (expr) : NULL); \
    }
#define VIEW(name, expr)                   \
    tn_tensor *(name)(tn_tensor * t)       \
    {                                      \
        tn__call c;                        \
        tn__call_begin(&c, #name);         \
        tn__node *x = tn__in_view(t);      \
        return tn__call_view(&c, t, expr); \
    }
#define REDUCE(name, expr)                                                               \
    tn_tensor *(name)(tn_tensor * t, const tn_axes *ax, const tn_reduce_opts *opts)      \
    {                                                                                    \
        tn__call c;                                                                      \
        unsigned axes = 0;                                                               \
        TN__OPTS(tn_reduce_opts, o, opts);                                               \
        (void)o;                                                                         \
        tn__call_begin(&c, #name);                                                       \
        tn__node *x = tn__in(t);                                                         \
        return tn__call_end(&c, tn__axes_read(&#name[3], x, ax, &axes) ? (expr) : NULL); \
    }
#define INPLACE(name, method) \
    tn_tensor *(name)(tn_tensor * a, tn_tensor * b) { return (tn_assign)(a, (method)(a, b)); }
#include "tensor/methods.def"

tn_tensor *(tn_idiv)(tn_tensor *a, tn_tensor *b) { return (tn_assign)(a, (tn_div)(a, b, NULL)); }

tn_tensor *(tn_ifloordiv)(tn_tensor *a, tn_tensor *b)
{
    tn_div_opts o = {.size = sizeof o, .rounding = TN_DIV_FLOOR};
    return (tn_assign)(a, (tn_div)(a, b, &o));
}

tn_tensor *(tn_imatmul)(tn_tensor *a, tn_tensor *b)
{
    return (tn_assign)(a, (tn_matmul)(a, b, NULL));
}
