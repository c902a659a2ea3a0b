/* SPDX-License-Identifier: MIT */
/* Embedding, the LSTM cell, and sequences of layers. */
#include "nn/nn.h"
#include <math.h>

static tn_tensor *made(const char *name, tn__node *(*make)(const int64_t *, double, tn_dtype),
                       const int64_t *dims, double a, tn_dtype dt)
{
    tn__call c;
    tn__call_begin(&c, name);
    return tn__state_end(&c, make(dims, a, dt), true);
}

static bool dtype_fits(const char *what, tn_dtype dt)
{
    if (dt == TN_DTYPE_DEFAULT || tn__dtype_is_float(dt)) return true;
    return tn__fail(TN_EDTYPE, "%s: %s: weights are floats", what, tn__dtype_name(dt));
}

/* ---- embedding ---- */

static tn__node *glorot(const int64_t *dims, double a, tn_dtype dt)
{
    return tn__initial(TN__GLOROT, dims, 2, a, dt);
}

bool(tn_nn_embedding_init)(tn_nn_embedding *l, int vocabulary, int size, const tn_nn_opts *opts)
{
    tn_nn_opts o;
    tn__options(&o, opts, sizeof o);
    if (!l) return tn__fail(TN_ENULL, "embedding: the layer is NULL");
    *l = (tn_nn_embedding){0};
    if (vocabulary < 1 || size < 1)
        return tn__fail(TN_EVALUE, "embedding: %d rows of %d numbers: both must be at least 1",
                        vocabulary, size);
    const int64_t dims[] = {vocabulary, size};
    if (!dtype_fits("embedding", o.dtype) || !tn__dims_check("embedding", dims, 2)) return false;
    l->weight = made("tn_nn_embedding_init", glorot, dims, 0, o.dtype);
    return l->weight != NULL;
}

tn_tensor *tn_nn_embedding_call(const tn_nn_embedding *l, tn_tensor *idx)
{
    tn__call c;
    tn__call_begin(&c, "tn_nn_embedding_call");
    tn__node *i = tn__strong(tn__in(idx)), *w = tn__in(l->weight);
    if (i && w && !tn__dtype_is_int((tn_dtype)i->dt)) {
        tn__fail(TN_EDTYPE, "embedding: indices of %s: must be integers: convert them with tn_int",
                 tn__dtype_name((tn_dtype)i->dt));
        i = NULL;
    }
    return tn__call_end(&c, i && w ? tn__take(w, 0, i) : NULL);
}

void tn_nn_embedding_visit(tn_visitor *v, void *obj)
{
    tn_nn_embedding *l = obj;
    tn_visit_tensor(v, "weight", &l->weight);
}

/* ---- LSTM cell ---- */

static tn__node *matrix(const int64_t *dims, double a, tn_dtype dt)
{
    return tn__uniform(dims, 2, -a, a, dt);
}
static tn__node *vector(const int64_t *dims, double a, tn_dtype dt)
{
    return tn__uniform(dims, 1, -a, a, dt);
}

bool(tn_nn_lstm_cell_init)(tn_nn_lstm_cell *l, int in, int hidden, const tn_nn_opts *opts)
{
    static const char name[] = "tn_nn_lstm_cell_init";
    tn_nn_opts o;
    tn__options(&o, opts, sizeof o);
    if (!l) return tn__fail(TN_ENULL, "lstm_cell: the layer is NULL");
    *l = (tn_nn_lstm_cell){0};
    if (in < 1 || hidden < 1)
        return tn__fail(TN_EVALUE, "lstm_cell: %d in, %d hidden: both must be at least 1", in,
                        hidden);
    if (!dtype_fits("lstm_cell", o.dtype)) return false;
    const double a = 1 / sqrt((double)hidden);
    const int64_t gates = 4 * (int64_t)hidden;
    if (!tn__dims_check("lstm_cell", (const int64_t[]){gates, in}, 2) ||
        !tn__dims_check("lstm_cell", (const int64_t[]){gates, hidden}, 2))
        return false;
    bool ok = (l->weight_ih = made(name, matrix, (const int64_t[]){gates, in}, a, o.dtype)) &&
              (l->weight_hh = made(name, matrix, (const int64_t[]){gates, hidden}, a, o.dtype)) &&
              (o.no_bias || ((l->bias_ih = made(name, vector, &gates, a, o.dtype)) &&
                             (l->bias_hh = made(name, vector, &gates, a, o.dtype))));
    if (!ok) tn_state_free(l, tn_nn_lstm_cell_visit);
    return ok;
}

static bool cell_fits(const tn__node *x, const tn__node *w, const tn__node *h, const tn__node *c,
                      int64_t hidden)
{
    if (x->rank == 2 && x->dims[1] == w->dims[1] &&
        (!h || (h->rank == 2 && h->dims[0] == x->dims[0] && h->dims[1] == hidden)) &&
        (!c || (c->rank == 2 && c->dims[0] == x->dims[0] && c->dims[1] == hidden)))
        return true;
    return tn__fail(
        TN_ESHAPE,
        "lstm_cell: input %s, h %s, c %s: must be (batch, %lld), (batch, %lld) and (batch, %lld)",
        tn__shape_text(x->dims, x->rank), h ? tn__shape_text(h->dims, h->rank) : "none",
        c ? tn__shape_text(c->dims, c->rank) : "none", (long long)w->dims[1], (long long)hidden,
        (long long)hidden);
}

static bool lstm(const tn_nn_lstm_cell *l, tn_tensor *xt, tn_tensor *ht, tn_tensor *ct,
                 tn__node **h_out, tn__node **c_out)
{
    tn__node *x = tn__in(xt), *h = tn__in_opt(ht), *c = tn__in_opt(ct);
    tn__node *wi = tn__in(l->weight_ih), *wh = tn__in(l->weight_hh), *bi = tn__in_opt(l->bias_ih),
             *bh = tn__in_opt(l->bias_hh);
    if (!x || !wi || !wh || (ht && !h) || (ct && !c) || (l->bias_ih && !bi) || (l->bias_hh && !bh))
        return false;
    const int64_t n = wh->dims[1];
    if (!cell_fits(x, wi, h, c, n)) return false;
    tn__node *g = tn__linear(x, tn__transpose(wi, 0, 1), bi);
    if (h)
        g = tn__add(g, tn__linear(h, tn__transpose(wh, 0, 1), bh));
    else if (bh)
        g = tn__add(g, bh);
    if (!g) return false;
    tn__node *i = tn__sigmoid(tn__slice(g, 1, 0, n)), *f = tn__sigmoid(tn__slice(g, 1, n, n));
    tn__node *u = tn__tanh(tn__slice(g, 1, 2 * n, n)), *o = tn__sigmoid(tn__slice(g, 1, 3 * n, n));
    *c_out = tn__mul(i, u);
    if (c) *c_out = tn__add(tn__mul(f, c), *c_out);
    *h_out = tn__mul(o, tn__tanh(*c_out));
    return *c_out && *h_out;
}

bool tn_nn_lstm_cell_call(const tn_nn_lstm_cell *l, tn_tensor *x, tn_tensor *h, tn_tensor *c,
                          tn_tensor **h_out, tn_tensor **c_out)
{
    tn__call call;
    tn__node *hn = NULL, *cn = NULL;
    if (!h_out || !c_out) return tn__fail(TN_ENULL, "lstm_cell: a place for the results is NULL");
    tn__call_begin(&call, "tn_nn_lstm_cell_call");
    bool ok = lstm(l, x, h, c, &hn, &cn);
    tn__node_ref(ok ? hn : NULL);
    tn__node_ref(ok ? cn : NULL);
    *h_out = tn__handle_new(ok ? hn : NULL);
    *c_out = tn__handle_new(ok ? cn : NULL);
    tn__call_done(&call);
    return ok;
}

void tn_nn_lstm_cell_visit(tn_visitor *v, void *obj)
{
    tn_nn_lstm_cell *l = obj;
    tn_visit_tensor(v, "weight_ih", &l->weight_ih);
    tn_visit_tensor(v, "weight_hh", &l->weight_hh);
    tn_visit_tensor(v, "bias_ih", &l->bias_ih);
    tn_visit_tensor(v, "bias_hh", &l->bias_hh);
}

/* ---- sequences ---- */

tn_tensor *(tn_sequential)(tn_tensor *x, const tn_layer *layers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const tn_layer *l = &layers[i];
        switch (l->kind) {
        case TN_LAYER_FN: x = l->of.fn(x); break;
        case TN_LAYER_USER: x = l->of.user(l->layer, x); break;
        case TN_LAYER_LINEAR: x = tn_nn_linear_call(l->layer, x); break;
        case TN_LAYER_CONV: x = tn_nn_conv_call(l->layer, x); break;
        case TN_LAYER_BATCHNORM: x = tn_nn_batchnorm_call(l->layer, x); break;
        case TN_LAYER_LAYERNORM: x = tn_nn_layernorm_call(l->layer, x); break;
        case TN_LAYER_GROUPNORM: x = tn_nn_groupnorm_call(l->layer, x); break;
        case TN_LAYER_EMBEDDING: x = tn_nn_embedding_call(l->layer, x); break;
        }
    }
    return x;
}
