/* SPDX-License-Identifier: MIT */
/* Public wrappers: indexing, writing by index, gather, scatter, masks. */
#include "tensor/api.h"

/* The items as the node level reads them; false with an error pending.  *plain: no tensors, no steps, so
 * that the result can be written through. */
static bool items_read(const tn_indices *at, tn__index_item *items, bool *plain)
{
    *plain = true;
    if (!at) return tn__fail(TN_ENULL, "index: no indices: give at least one");
    if (at->n > 2 * TN_MAX_RANK)
        return tn__fail(TN_EINDEX, "index: %zu indices: at most %d", at->n, 2 * TN_MAX_RANK);
    for (size_t i = 0; i < at->n; i++) {
        const tn_idx *from = &at->at[i];
        tn__index_item *to = &items[i];
        *to = (tn__index_item){.start = from->start, .stop = from->stop, .step = from->step};
        switch (from->kind) {
        case TN_IDX_AT: to->kind = TN__AT; break;
        case TN_IDX_SLICE:
            to->kind = TN__SLICE;
            to->has_start = from->start != TN_OPEN;
            to->has_stop = from->stop != TN_OPEN;
            *plain = *plain && from->step >= -1 && from->step <= 1;
            break;
        case TN_IDX_NEW: to->kind = TN__NONE; break;
        case TN_IDX_DOTS: to->kind = TN__ELLIPSIS; break;
        case TN_IDX_TENSOR:
            to->kind = TN__TENSOR;
            to->t = tn__in(from->t);
            *plain = false;
            if (!to->t) return false;
            break;
        }
    }
    return true;
}

tn_tensor *(tn_index)(tn_tensor *t, const tn_indices *at)
{
    tn__call c;
    tn__index_item items[2 * TN_MAX_RANK];
    bool plain, view = false;
    tn__call_begin(&c, "tn_index");
    tn__node *x = tn__in_view(t);
    tn__node *y = x && items_read(at, items, &plain) ? tn__index(x, items, at->n, &view) : NULL;
    return y && view ? tn__call_view(&c, t, y) : tn__call_end(&c, y);
}

tn_tensor *(tn_setitem)(tn_tensor *t, const tn_indices *at, tn_tensor *value)
{
    tn__call c;
    tn__index_item items[2 * TN_MAX_RANK];
    bool plain;
    tn__call_begin(&c, "tn_setitem");
    tn__node *x = tn__in(t), *v = tn__in(value);
    bool ok = x && v && items_read(at, items, &plain);
    tn_tensor *all = tn__call_end(&c, ok && !plain ? tn__index_put(x, items, at->n, tn__strong(v))
                                      : ok         ? x
                                                   : NULL);
    if (!ok || !plain) return (tn_assign)(t, all);
    tn_tensor *part = (tn_assign)((tn_index)(t, at), value);
    return tn_bad(part) ? part : t;
}

tn_tensor *(tn_gather)(tn_tensor *t, int axis, tn_tensor *idx)
{
    tn__call c;
    tn__call_begin(&c, "tn_gather");
    tn__node *x = tn__in(t), *i = tn__in(idx);
    return tn__call_end(&c, x && i ? tn__gather_dim(x, axis, i) : NULL);
}

static tn_tensor *scatter(const char *name, tn_tensor *t, int axis, tn_tensor *idx, tn_tensor *src,
                          tn__scatter_mode m, bool self)
{
    tn__call c;
    tn__call_begin(&c, name);
    tn__node *x = tn__in(t), *i = tn__in(idx), *s = tn__in(src);
    return tn__call_end(&c, x && i && s ? tn__scatter_dim(x, axis, i, s, m, self) : NULL);
}

tn_tensor *(tn_scatter)(tn_tensor *t, int axis, tn_tensor *idx, tn_tensor *src,
                        const tn_scatter_opts *opts)
{
    TN__OPTS(tn_scatter_opts, o, opts);
    tn__scatter_mode m = o.reduce == TN_SCATTER_ADD        ? TN__R_SUM
                         : o.reduce == TN_SCATTER_MULTIPLY ? TN__R_PROD
                                                           : TN__SET;
    return scatter("tn_scatter", t, axis, idx, src, m, true);
}

tn_tensor *(tn_scatter_reduce)(tn_tensor *t, int axis, tn_tensor *idx, tn_tensor *src,
                               const tn_scatter_opts *opts)
{
    TN__OPTS(tn_scatter_opts, o, opts);
    tn__scatter_mode m = TN__R_SUM;
    switch (o.by) {
    case TN_BY_SUM: break;
    case TN_BY_PROD: m = TN__R_PROD; break;
    case TN_BY_MEAN: m = TN__R_MEAN; break;
    case TN_BY_AMAX: m = TN__R_MAX; break;
    case TN_BY_AMIN: m = TN__R_MIN; break;
    }
    return scatter("tn_scatter_reduce", t, axis, idx, src, m, !o.exclude_self);
}

tn_tensor *(tn_masked_select)(tn_tensor *t, tn_tensor *mask, int64_t size, const tn_fill_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_fill_opts, o, opts);
    tn__call_begin(&c, "tn_masked_select");
    tn__node *x = tn__strong(tn__in(t)), *m = tn__in(mask);
    tn__node *fill = x ? tn__const_f((tn_dtype)x->dt, o.fill, NULL, 0) : NULL;
    return tn__call_end(&c, x && m && fill ? tn__masked_select(x, m, size, fill) : NULL);
}

tn_tensor *(tn_nonzero)(tn_tensor *t, int64_t size, const tn_fill_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_fill_opts, o, opts);
    tn__call_begin(&c, "tn_nonzero");
    return tn__call_end(&c, tn__nonzero(tn__in(t), size, o.fill));
}
