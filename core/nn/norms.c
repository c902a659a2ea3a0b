/* SPDX-License-Identifier: MIT */
/*
 * Layers that normalise.  Statistics are computed in at least float32; scale and shift come after, one a channel
 * (axis 1), or over the trailing axes for layer and RMS norm.
 */
#include "nn/nn.h"
#include <stdio.h>
#include <string.h>

static tn_dtype stats_dtype(tn_dtype dt) { return tn__dtype_promote(dt, TN_F32); }

/* A constant piece of state with memory of its own. */
static tn_tensor *filled(const char *name, const int64_t *dims, int rank, tn_dtype dt, double v,
                         bool trained)
{
    tn__call c;
    tn__call_begin(&c, name);
    const tn__node *like = tn__const_f(dt, 0, dims, rank);
    return tn__state_end(&c, like ? tn__filled(like, NULL, dt, v) : NULL, trained);
}

static bool float_dtype(const char *what, tn_dtype *dt)
{
    if (*dt == TN_DTYPE_DEFAULT) *dt = tn__dtype_default_float();
    if (tn__dtype_is_float(*dt)) return true;
    return tn__fail(TN_EDTYPE, "%s: %s: weights are floats", what, tn__dtype_name(*dt));
}

/* weight of ones and bias of zeros, unless told otherwise. */
static bool affine(const char *name, tn_tensor **weight, tn_tensor **bias, const int64_t *dims,
                   int rank, const tn_nn_norm_opts *o)
{
    if (o->no_affine) return true;
    *weight = filled(name, dims, rank, o->dtype, 1, true);
    if (!*weight || o->no_bias) return *weight != NULL;
    *bias = filled(name, dims, rank, o->dtype, 0, true);
    if (*bias) return true;
    tn_free(*weight);
    *weight = NULL;
    return false;
}

static bool options(const char *what, tn_nn_norm_opts *o, const tn_nn_norm_opts *given, double eps)
{
    tn__options(o, given, sizeof *o);
    if (o->eps == 0) o->eps = eps;
    if (!(o->eps > 0)) return tn__fail(TN_EVALUE, "%s: eps %g: must be above 0", what, o->eps);
    return float_dtype(what, &o->dtype);
}

/* y * weight + bias with one element a channel each. */
static tn__node *per_channel(tn__node *y, tn__node *w, tn__node *b)
{
    if (!y || (!w && !b)) return y;
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < y->rank; i++) dims[i] = i == 1 ? y->dims[1] : 1;
    tn_dtype dt = (tn_dtype)y->dt;
    if (w) y = tn__mul(y, tn__reshape(w, dims, y->rank));
    if (b) y = tn__add(y, tn__reshape(b, dims, (int)y->rank));
    return y ? tn__cast(y, tn__dtype_promote(dt, (tn_dtype)(w ? w : b)->dt)) : NULL;
}

static bool channels_fit(const char *what, const tn__node *x, int channels)
{
    if (x->rank >= 2 && x->dims[1] == channels) return true;
    return tn__fail(TN_ESHAPE, "%s: input %s: must be (batch, %d, ..)", what,
                    tn__shape_text(x->dims, x->rank), channels);
}

/* ---- batch norm ---- */

bool(tn_nn_batchnorm_init)(tn_nn_batchnorm *l, int channels, const tn_nn_norm_opts *given)
{
    static const char name[] = "tn_nn_batchnorm_init";
    tn_nn_norm_opts o;
    if (!l) return tn__fail(TN_ENULL, "batchnorm: the layer is NULL");
    *l = (tn_nn_batchnorm){.channels = channels};
    if (channels < 1)
        return tn__fail(TN_EVALUE, "batchnorm: %d channels: must be at least 1", channels);
    if (!options("batchnorm", &o, given, 1e-5)) return false;
    l->eps = o.eps;
    l->momentum = o.momentum == 0 ? 0.1 : o.momentum;
    const int64_t n = channels;
    const tn_dtype dt = stats_dtype(o.dtype);
    bool ok = affine(name, &l->weight, &l->bias, &n, 1, &o);
    if (ok && !o.no_stats)
        ok = (l->running_mean = filled(name, &n, 1, dt, 0, false)) &&
             (l->running_var = filled(name, &n, 1, dt, 1, false)) &&
             (l->num_batches_tracked = filled(name, NULL, 0, TN_I64, 0, false));
    if (!ok) tn_state_free(l, tn_nn_batchnorm_visit);
    return ok;
}

/* old <- (1 - momentum) old + momentum now, for all elements at once. */
static tn__node *moved(tn__node *old, tn__node *now, double momentum)
{
    if (!old || !now) return NULL;
    now = tn__cast(tn__reshape(tn__detach(now), old->dims, old->rank), (tn_dtype)old->dt);
    return tn__add(tn__mul_s(old, 1 - momentum), tn__mul_s(now, momentum));
}

static bool track(const tn_nn_batchnorm *l, const tn__node *x, tn__node *mean, tn__node *var)
{
    tn__write w[3];
    const double n = (double)tn__node_numel(x) / (double)x->dims[1];
    tn__node *batches = tn__state_in(l->num_batches_tracked);
    w[0].node = moved(tn__state_in(l->running_mean), mean, l->momentum);
    w[1].node = moved(tn__state_in(l->running_var),
                      var ? tn__mul_s(var, n > 1 ? n / (n - 1) : 1) : NULL, l->momentum);
    w[2].node = batches ? tn__add_s(batches, 1) : NULL;
    w[0].cell = tn__cell_of(l->running_mean);
    w[1].cell = tn__cell_of(l->running_var);
    w[2].cell = tn__cell_of(l->num_batches_tracked);
    return tn__write_all(w, 3);
}

static tn__node *batchnorm(const tn_nn_batchnorm *l, tn__node *x)
{
    const bool training = tn_context_get(TN_TRAINING), tracking = l->running_mean != NULL;
    tn__node *w = tn__in_opt(l->weight), *b = tn__in_opt(l->bias);
    if (!x || (l->weight && !w) || (l->bias && !b) || !channels_fit("batchnorm", x, l->channels))
        return NULL;
    x = tn__to_float(x);
    tn__node *wide = tn__to_wide(x), *mean, *var, *d;
    if (!wide) return NULL;
    const unsigned others = tn__mask_all(x) & ~2u;
    const bool batch = training || !tracking;
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = i == 1 ? x->dims[1] : 1;
    if (batch) {
        mean = tn__mean(wide, others, true);
        d = tn__sub(wide, mean);
        var = d ? tn__mean(tn__mul(d, d), others, true) : NULL;
    } else {
        mean = tn__in(l->running_mean);
        var = tn__in(l->running_var);
        if (mean && var)
            mean = tn__reshape(mean, dims, x->rank), var = tn__reshape(var, dims, x->rank);
        d = mean ? tn__sub(wide, mean) : NULL;
    }
    if (!d || !var) return NULL;
    if (training && tracking && !track(l, x, mean, var)) return NULL;
    tn__node *y = tn__mul(d, tn__rsqrt(tn__add_s(var, l->eps)));
    if (w) y = tn__mul(y, tn__reshape(w, dims, x->rank));
    if (b) y = tn__add(y, tn__reshape(b, dims, x->rank));
    return y ? tn__cast(y, (tn_dtype)x->dt) : NULL;
}

tn_tensor *tn_nn_batchnorm_call(const tn_nn_batchnorm *l, tn_tensor *x)
{
    tn__call c;
    tn__call_begin(&c, "tn_nn_batchnorm_call");
    return tn__call_end(&c, batchnorm(l, tn__in(x)));
}

void tn_nn_batchnorm_visit(tn_visitor *v, void *obj)
{
    tn_nn_batchnorm *l = obj;
    tn_visit_tensor(v, "weight", &l->weight);
    tn_visit_tensor(v, "bias", &l->bias);
    tn_visit_buffer(v, "num_batches_tracked", &l->num_batches_tracked);
    tn_visit_buffer(v, "running_mean", &l->running_mean);
    tn_visit_buffer(v, "running_var", &l->running_var);
}

/* ---- layer norm: over the trailing axes; 2d: over the channels ---- */

static bool layer_init(const char *name, tn_nn_layernorm *l, const tn_shape *shape,
                       const tn_nn_norm_opts *given, double eps)
{
    tn_nn_norm_opts o;
    char what[24];
    snprintf(what, sizeof what, "%.*s", (int)(strlen(name) - strlen("tn_nn__init")),
             name + strlen("tn_nn_"));
    if (!l || !shape) return tn__fail(TN_ENULL, "%s: the %s is NULL", what, l ? "shape" : "layer");
    *l = (tn_nn_layernorm){.rank = (int)shape->n};
    for (size_t i = 0; i < shape->n && i < TN_MAX_RANK; i++)
        if (shape->d[i] < 1) l->rank = 0;
    if (l->rank < 1 || l->rank > TN_MAX_RANK)
        return tn__fail(TN_ESHAPE,
                        "%s: %zu axes: takes the sizes of 1 to %d trailing axes, each at least 1",
                        what, shape->n, TN_MAX_RANK);
    if (!options(what, &o, given, eps)) return false;
    l->eps = o.eps;
    memcpy(l->dims, shape->d, shape->n * sizeof *l->dims);
    return affine(name, &l->weight, &l->bias, shape->d, l->rank, &o);
}

bool(tn_nn_layernorm_init)(tn_nn_layernorm *l, const tn_shape *shape, const tn_nn_norm_opts *o)
{
    return layer_init("tn_nn_layernorm_init", l, shape, o, 1e-5);
}

bool(tn_nn_layernorm2d_init)(tn_nn_layernorm2d *l, int channels, const tn_nn_norm_opts *o)
{
    if (!layer_init("tn_nn_layernorm2d_init", l, &(const tn_shape){1, (const int64_t[]){channels}},
                    o, 1e-5))
        return false;
    l->channels_first = true;
    return true;
}

bool(tn_nn_rmsnorm_init)(tn_nn_rmsnorm *l, int n, const tn_nn_norm_opts *o)
{
    tn_nn_norm_opts no;
    tn__options(&no, o, sizeof no);
    no.size = sizeof no;
    no.no_bias = true;
    if (!layer_init("tn_nn_rmsnorm_init", l, &(const tn_shape){1, (const int64_t[]){n}}, &no, 1e-6))
        return false;
    l->rms = true;
    return true;
}

static tn__node *normed(const tn_nn_layernorm *l, tn__node *x)
{
    const unsigned axes = ((1u << l->rank) - 1u) << (x->rank - l->rank);
    if (!l->rms) return tn__layernorm(x, axes, l->eps);
    x = tn__to_float(x);
    tn__node *w = tn__to_wide(x);
    if (!w) return NULL;
    tn__node *y = tn__mul(w, tn__rsqrt(tn__add_s(tn__mean(tn__mul(w, w), axes, true), l->eps)));
    return y ? tn__cast(y, (tn_dtype)x->dt) : NULL;
}

static tn__node *layernorm(const tn_nn_layernorm *l, tn__node *x)
{
    tn__node *w = tn__in_opt(l->weight), *b = tn__in_opt(l->bias);
    if (!x || (l->weight && !w) || (l->bias && !b)) return NULL;
    if (l->channels_first && x->rank >= 2) x = tn__move_axis(x, 1, x->rank - 1);
    if (!x) return NULL;
    bool fits = x->rank >= l->rank;
    for (int i = 0; fits && i < l->rank; i++) fits = x->dims[x->rank - l->rank + i] == l->dims[i];
    if (!fits) {
        tn__fail(TN_ESHAPE, "%s: input %s: its %s must be %s", l->rms ? "rmsnorm" : "layernorm",
                 tn__shape_text(x->dims, x->rank), l->channels_first ? "channels" : "last axes",
                 tn__shape_text(l->dims, l->rank));
        return NULL;
    }
    tn__node *y = normed(l, x);
    if (w) y = tn__mul(y, w);
    if (b) y = tn__add(y, b);
    return l->channels_first && y ? tn__move_axis(y, y->rank - 1, 1) : y;
}

tn_tensor *tn_nn_layernorm_call(const tn_nn_layernorm *l, tn_tensor *x)
{
    tn__call c;
    tn__call_begin(&c, "tn_nn_layernorm_call");
    return tn__call_end(&c, layernorm(l, tn__in(x)));
}

void tn_nn_layernorm_visit(tn_visitor *v, void *obj)
{
    tn_nn_layernorm *l = obj;
    tn_visit_tensor(v, "weight", &l->weight);
    tn_visit_tensor(v, "bias", &l->bias);
}

/* ---- group norm; instance norm has a group a channel ---- */

bool(tn_nn_groupnorm_init)(tn_nn_groupnorm *l, int groups, int channels,
                           const tn_nn_norm_opts *given)
{
    tn_nn_norm_opts o;
    if (!l) return tn__fail(TN_ENULL, "groupnorm: the layer is NULL");
    *l = (tn_nn_groupnorm){.groups = groups, .channels = channels};
    if (groups < 1 || channels < 1 || channels % groups)
        return tn__fail(
            TN_EVALUE,
            "groupnorm: %d groups of %d channels: channels must be a multiple of groups, both at "
            "least 1",
            groups, channels);
    if (!options("groupnorm", &o, given, 1e-5)) return false;
    l->eps = o.eps;
    return affine("tn_nn_groupnorm_init", &l->weight, &l->bias, (const int64_t[]){channels}, 1, &o);
}

bool(tn_nn_instancenorm_init)(tn_nn_instancenorm *l, int channels, const tn_nn_norm_opts *o)
{
    return (tn_nn_groupnorm_init)(l, channels, channels, o);
}

tn_tensor *tn_nn_groupnorm_call(const tn_nn_groupnorm *l, tn_tensor *x)
{
    tn__call c;
    tn__call_begin(&c, "tn_nn_groupnorm_call");
    tn__node *in = tn__in(x), *w = tn__in_opt(l->weight), *b = tn__in_opt(l->bias), *y = NULL;
    if (in && (!l->weight || w) && (!l->bias || b) && channels_fit("groupnorm", in, l->channels)) {
        int64_t dims[3] = {in->dims[0], l->groups, l->channels / l->groups};
        for (int i = 2; i < in->rank; i++) dims[2] *= in->dims[i];
        y = tn__layernorm(tn__reshape(in, dims, 3), 4, l->eps);
        y = y ? per_channel(tn__reshape(y, in->dims, in->rank), w, b) : NULL;
    }
    return tn__call_end(&c, y);
}

void tn_nn_groupnorm_visit(tn_visitor *v, void *obj)
{
    tn_nn_groupnorm *l = obj;
    tn_visit_tensor(v, "weight", &l->weight);
    tn_visit_tensor(v, "bias", &l->bias);
}
