/* SPDX-License-Identifier: MIT */
/* Public wrappers: elementwise functions with options, choices, casts. */
#include "tensor/api.h"
#include <string.h>

/* ---- elementwise ---- */

tn_tensor *(tn_div)(tn_tensor *a, tn_tensor *b, const tn_div_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_div_opts, o, opts);
    tn__call_begin(&c, "tn_div");
    tn__node *x = tn__in(a), *y = tn__in(b);
    tn__rounding m = o.rounding == TN_DIV_FLOOR   ? TN__DIV_FLOOR
                     : o.rounding == TN_DIV_TRUNC ? TN__DIV_TRUNC
                                                  : TN__DIV_TRUE;
    return tn__call_end(&c, x && y ? tn__div(x, y, m) : NULL);
}

static tn__node *close_to(tn_tensor *a, tn_tensor *b, const tn_close_opts *opts)
{
    TN__OPTS(tn_close_opts, o, opts);
    tn__node *x = tn__in(a), *y = tn__in(b);
    if (!x || !y) return NULL;
    double rtol = o.rtol == 0  ? 1e-5
                  : o.rtol < 0 ? 0
                               : o.rtol,
           atol = o.atol == 0  ? 1e-8
                  : o.atol < 0 ? 0
                               : o.atol;
    return tn__isclose(x, y, rtol, atol, o.equal_nan);
}

tn_tensor *(tn_isclose)(tn_tensor *a, tn_tensor *b, const tn_close_opts *opts)
{
    tn__call c;
    tn__call_begin(&c, "tn_isclose");
    return tn__call_end(&c, close_to(a, b, opts));
}

bool(tn_allclose)(tn_tensor *a, tn_tensor *b, const tn_close_opts *opts)
{
    tn__call c;
    tn_scope s;
    tn_scope_open(&s);
    tn__call_begin(&c, "tn_allclose");
    tn_tensor *all = tn__call_end(&c, tn__all(close_to(a, b, opts), TN__ALL_AXES, false));
    bool yes = (tn_item)(all) == 1;
    tn_scope_end(&s);
    return yes;
}

tn_tensor *(tn_where)(tn_tensor *cond, tn_tensor *a, tn_tensor *b)
{
    tn__call c;
    tn__call_begin(&c, "tn_where");
    tn__node *m = tn__in(cond), *x = tn__in(a), *y = tn__in(b);
    return tn__call_end(&c, m && x && y ? tn__select(m, x, y) : NULL);
}

tn_tensor *(tn_masked_fill)(tn_tensor *t, tn_tensor *mask, tn_tensor *value)
{
    tn__call c;
    tn__call_begin(&c, "tn_masked_fill");
    tn__node *x = tn__in(t), *m = tn__in(mask), *v = tn__in(value);
    return tn__call_end(&c, x && m && v ? tn__masked_fill(x, m, v) : NULL);
}

static tn_tensor *clamp(const char *name, tn_tensor *t, tn_tensor *min, tn_tensor *max)
{
    tn__call c;
    tn__call_begin(&c, name);
    tn__node *x = tn__in(t), *lo = tn__in_opt(min), *hi = tn__in_opt(max);
    bool ok = x && (lo || !min) && (hi || !max);
    if (ok && !lo && !hi)
        ok = tn__fail(TN_EVALUE, "clamp: neither min nor max is given: give at least one");
    return tn__call_end(&c, ok ? tn__clamp(x, lo, hi) : NULL);
}

tn_tensor *(tn_clamp)(tn_tensor *t, tn_tensor *min, tn_tensor *max)
{
    return clamp("tn_clamp", t, min, max);
}

tn_tensor *(tn_clip)(tn_tensor *t, tn_tensor *min, tn_tensor *max)
{
    return clamp("tn_clip", t, min, max);
}

tn_tensor *(tn_lerp)(tn_tensor *a, tn_tensor *b, tn_tensor *weight)
{
    tn__call c;
    tn__call_begin(&c, "tn_lerp");
    tn__node *x = tn__in(a), *y = tn__in(b), *w = tn__in(weight);
    return tn__call_end(&c, x && y && w ? tn__lerp(x, y, w) : NULL);
}

tn_tensor *(tn_isinf)(tn_tensor *t, const tn_isinf_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_isinf_opts, o, opts);
    tn__call_begin(&c, "tn_isinf");
    return tn__call_end(&c, tn__isinf(tn__in(t), !o.no_positive, !o.no_negative));
}

tn_tensor *(tn_cast)(tn_tensor *t, tn_dtype dt)
{
    tn__call c;
    tn__call_begin(&c, "tn_cast");
    return tn__call_end(&c, tn__cast(tn__strong(tn__in(t)), dt));
}

tn_tensor *(tn_bitcast)(tn_tensor *t, tn_dtype dt)
{
    tn__call c;
    tn__call_begin(&c, "tn_bitcast");
    return tn__call_end(&c, tn__bitcast_any(tn__in(t), dt));
}

tn_tensor *(tn_hardsigmoid)(tn_tensor *t, const tn_act_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_act_opts, o, opts);
    bool def = o.alpha == 0 && o.beta == 0;
    tn__call_begin(&c, "tn_hardsigmoid");
    return tn__call_end(&c,
                        tn__hardsigmoid(tn__in(t), def ? 1.0 / 6 : o.alpha, def ? 0.5 : o.beta));
}

tn_tensor *(tn_hardtanh)(tn_tensor *t, const tn_act_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_act_opts, o, opts);
    bool def = o.min == 0 && o.max == 0;
    tn__call_begin(&c, "tn_hardtanh");
    return tn__call_end(&c, tn__hardtanh(tn__in(t), def ? -1 : o.min, def ? 1 : o.max));
}

tn_tensor *(tn_gelu)(tn_tensor *t, const tn_act_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_act_opts, o, opts);
    tn__call_begin(&c, "tn_gelu");
    return tn__call_end(&c, tn__gelu(tn__in(t), !o.exact));
}

tn_tensor *(tn_selu)(tn_tensor *t, const tn_act_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_act_opts, o, opts);
    double alpha = o.alpha == 0 ? 1.6732632423543772 : o.alpha,
           gamma = o.beta == 0 ? 1.0507009873554805 : o.beta;
    tn__call_begin(&c, "tn_selu");
    return tn__call_end(&c, tn__selu(tn__in(t), alpha, gamma));
}

/* ---- questions ---- */

int64_t tn_element_size(const tn_tensor *x)
{
    tn_dtype dt = tn_dtype_of(x);
    return dt == TN_DTYPE_DEFAULT ? -1 : (int64_t)tn__dtype_size(dt);
}

int64_t tn_nbytes(const tn_tensor *x)
{
    int64_t n = tn_numel(x), size = n < 0 ? -1 : tn_element_size(x);
    return size < 0 ? -1 : n * size;
}

bool tn_is_floating_point(const tn_tensor *x) { return tn__dtype_is_float(tn_dtype_of(x)); }
