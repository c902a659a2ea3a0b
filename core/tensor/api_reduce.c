/* SPDX-License-Identifier: MIT */
/* Public wrappers: moments, norms, running reductions, sorting. */
#include "tensor/api.h"

typedef tn__node *spread(tn__node *x, unsigned axes, bool keepdim, double correction);

static tn_tensor *moment(const char *name, spread *fn, tn_tensor *t, const tn_axes *ax,
                         const tn_reduce_opts *opts, bool both)
{
    tn__call c;
    unsigned axes;
    TN__OPTS(tn_reduce_opts, o, opts);
    tn__call_begin(&c, name);
    tn__node *x = tn__in(t), *y = NULL, *m = NULL;
    double correction = o.biased ? 0 : o.correction == 0 ? 1 : o.correction;
    bool ok = tn__axes_read(name + 3, x, ax, &axes);
    if (ok && both && !o.mean)
        ok = tn__fail(TN_ENULL, "%s: .mean is NULL: give the address of a tensor", name + 3);
    if (ok) {
        y = fn(x, axes, o.keepdim, correction);
        m = both ? tn__mean(x, axes, o.keepdim) : NULL;
    }
    return tn__call_end_two(&c, name, y, m, both ? o.mean : NULL);
}

tn_tensor *(tn_var)(tn_tensor *t, const tn_axes *ax, const tn_reduce_opts *o)
{
    return moment("tn_var", tn__var, t, ax, o, false);
}

tn_tensor *(tn_std)(tn_tensor *t, const tn_axes *ax, const tn_reduce_opts *o)
{
    return moment("tn_std", tn__std, t, ax, o, false);
}

tn_tensor *(tn_var_mean)(tn_tensor *t, const tn_axes *ax, const tn_reduce_opts *o)
{
    return moment("tn_var_mean", tn__var, t, ax, o, true);
}

tn_tensor *(tn_std_mean)(tn_tensor *t, const tn_axes *ax, const tn_reduce_opts *o)
{
    return moment("tn_std_mean", tn__std, t, ax, o, true);
}

tn_tensor *(tn_normalize)(tn_tensor *t, int axis, const tn_norm_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_norm_opts, o, opts);
    tn__call_begin(&c, "tn_normalize");
    double p = o.p == 0 ? 2 : o.p < 0 ? 0 : o.p;
    return tn__call_end(&c, tn__normalize(tn__in(t), p, axis, o.eps == 0 ? 1e-12 : o.eps));
}

tn_tensor *(tn_layernorm)(tn_tensor *t, const tn_axes *ax, const tn_eps_opts *opts)
{
    tn__call c;
    unsigned axes;
    TN__OPTS(tn_eps_opts, o, opts);
    tn__call_begin(&c, "tn_layernorm");
    tn__node *x = tn__in(t);
    bool ok = tn__axes_read("layernorm", x, ax, &axes);
    return tn__call_end(&c, ok ? tn__layernorm(x, axes, o.eps == 0 ? 1e-5 : o.eps) : NULL);
}

tn_tensor *(tn_batchnorm)(tn_tensor *t, tn_tensor *weight, tn_tensor *bias, tn_tensor *mean,
                          tn_tensor *invstd, const tn_axes *ax)
{
    tn__call c;
    unsigned axes;
    tn__call_begin(&c, "tn_batchnorm");
    tn__node *x = tn__in(t), *w = tn__in_opt(weight), *b = tn__in_opt(bias), *m = tn__in(mean),
             *s = tn__in(invstd);
    bool ok = tn__axes_read("batchnorm", x, ax, &axes) && m && s && (w || !weight) && (b || !bias);
    if (ok && axes == TN__ALL_AXES) axes = tn__mask_all(x);
    return tn__call_end(&c, ok ? tn__batchnorm(x, w, b, m, s, axes) : NULL);
}

/* ---- along an axis ---- */

tn_tensor *(tn_cumsum)(tn_tensor *t, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_cumsum");
    return tn__call_end(&c, tn__cumsum(tn__in(t), axis));
}

tn_tensor *(tn_cumprod)(tn_tensor *t, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_cumprod");
    return tn__call_end(&c, tn__cumprod(tn__in(t), axis));
}

tn_tensor *(tn_logcumsumexp)(tn_tensor *t, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_logcumsumexp");
    return tn__call_end(&c, tn__logcumsumexp(tn__in(t), axis));
}

typedef tn__node *along(tn__node *x, int axis, tn__node **indices);

static tn_tensor *running(const char *name, along *fn, tn_tensor *t, int axis,
                          const tn_sort_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_sort_opts, o, opts);
    tn__call_begin(&c, name);
    tn__node *at = NULL, *y = fn(tn__in(t), axis, o.indices ? &at : NULL);
    return tn__call_end_two(&c, name, y, at, o.indices);
}

tn_tensor *(tn_cummax)(tn_tensor *t, int axis, const tn_sort_opts *o)
{
    return running("tn_cummax", tn__cummax, t, axis, o);
}

tn_tensor *(tn_cummin)(tn_tensor *t, int axis, const tn_sort_opts *o)
{
    return running("tn_cummin", tn__cummin, t, axis, o);
}

tn_tensor *(tn_sort)(tn_tensor *t, int axis, const tn_sort_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_sort_opts, o, opts);
    tn__call_begin(&c, "tn_sort");
    tn__node *at = NULL, *y = tn__sort(tn__in(t), axis, o.descending, o.indices ? &at : NULL);
    return tn__call_end_two(&c, "tn_sort", y, at, o.indices);
}

tn_tensor *(tn_argsort)(tn_tensor *t, int axis, const tn_sort_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_sort_opts, o, opts);
    tn__call_begin(&c, "tn_argsort");
    return tn__call_end(&c, tn__argsort_dim(tn__in(t), axis, o.descending));
}

tn_tensor *(tn_topk)(tn_tensor *t, int64_t k, int axis, const tn_sort_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_sort_opts, o, opts);
    tn__call_begin(&c, "tn_topk");
    tn__node *at = NULL, *y = tn__topk(tn__in(t), k, axis, !o.smallest, o.indices ? &at : NULL);
    return tn__call_end_two(&c, "tn_topk", y, at, o.indices);
}
