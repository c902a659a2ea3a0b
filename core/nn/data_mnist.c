/* SPDX-License-Identifier: MIT */
/* MNIST and Fashion-MNIST as tensors in memory; io finds, fetches and checks the files. */
#include "nn/nn.h"
#include "device/device.h"
#include "io/idx.h"

static tn_tensor *tensor(const tn__idx *x, const char *device)
{
    tn__call c;
    tn__call_begin(&c, "tn_mnist_load");
    tn__device *d = device ? tn__device_get(device) : tn__device_default();
    int64_t dims[4] = {x->dims[0], 1, x->rank > 1 ? x->dims[1] : 0, x->rank > 2 ? x->dims[2] : 0};
    tn__node *n = d ? tn__leaf_of(x->data, TN_U8, dims, x->rank == 1 ? 1 : 4, tn__placement_one(d))
                    : NULL;
    return tn__state_end(&c, n, false);
}

bool(tn_mnist_load)(tn_mnist *d, const char *dir, const tn_mnist_opts *opts)
{
    tn_mnist_opts o;
    tn__mnist_raw raw;
    tn__options(&o, opts, sizeof o);
    if (!d) return tn__fail(TN_ENULL, "mnist_load: the place for the data is NULL");
    *d = (tn_mnist){0};
    if (!tn__mnist_files(o.fashion ? TN__FASHION : TN__MNIST, dir, &raw)) return false;
    tn_scope s = tn_scope_begin();
    bool ok = (d->x_train = tensor(&raw.train_images, o.device)) &&
              (d->y_train = tensor(&raw.train_labels, o.device)) &&
              (d->x_test = tensor(&raw.test_images, o.device)) &&
              (d->y_test = tensor(&raw.test_labels, o.device));
    tn__mnist_free(&raw);
    if (!ok) tn_state_free(d, tn_mnist_visit);
    tn_scope_end(&s);
    return ok;
}

void tn_mnist_visit(tn_visitor *v, void *obj)
{
    tn_mnist *d = obj;
    tn_visit_buffer(v, "x_train", &d->x_train);
    tn_visit_buffer(v, "y_train", &d->y_train);
    tn_visit_buffer(v, "x_test", &d->x_test);
    tn_visit_buffer(v, "y_test", &d->y_test);
}
