/* SPDX-License-Identifier: MIT */
/*
 * The public functions that compute: realise, item, data.
 *
 * Each of them runs the thread's pending writes in the same plan, together with the losses of
 * tn_backward whose step is due; the cells of the writes become leaves afterwards.
 */
#include "engine/engine.h"
#include "device/device.h"
#include "tensor/slot.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/core.h>
#include <tenon/device.h>

enum { MAX_JOINED = 8 };

static bool has_value(const tn__node *n)
{
    return atomic_load_explicit(&n->val, memory_order_acquire);
}

/* What is stored for a node: identities have no memory of their own. */
static tn__node *stored(tn__node *n)
{
    while ((n->op == TN_OP_PARAM || n->op == TN_OP_DETACH) && !has_value(n)) n = n->src[0];
    return n;
}

bool tn__run(tn__node *const *roots, size_t n)
{
    tn__cell **cells;
    tn__node *joined[MAX_JOINED];
    size_t writes = tn__effects(&cells), losses = writes ? tn__joined(joined) : 0, all = 0;
    tn__node **root = tn__alloc((n + writes + losses + 1) * sizeof(tn__node *));
    if (!root) return false;
    for (size_t i = 0; i < writes; i++) root[all++] = stored(cells[i]->cur);
    for (size_t i = 0; i < losses; i++) root[all++] = stored(joined[i]);
    for (size_t i = 0; i < n; i++) root[all++] = stored(roots[i]);
    size_t todo = 0;
    for (size_t i = 0; i < all; i++) {
        bool seen = has_value(root[i]);
        for (size_t k = 0; k < todo && !seen; k++) seen = root[k] == root[i];
        if (!seen) root[todo++] = root[i];
    }
    bool ok = !todo || tn__realize(root, todo);
    tn__free(root);
    for (size_t i = 0; ok && i < writes; i++) ok = tn__cell_write_back(cells[i]);
    if (ok) tn__effects_clear();
    return ok;
}

/* The node of a handle to compute: for a box its cell's own, so that the cell becomes a leaf. */
static tn__node *target(tn_tensor *t)
{
    tn__slot *s = tn__slot_get(t);
    tn__node *n = s ? tn__slot_in(s, true) : NULL;
    return n ? stored(n) : NULL;
}

bool(tn_realize)(tn_tensor *t)
{
    tn__call c;
    tn__call_begin(&c, "tn_realize");
    tn__node *n = target(t);
    bool ok = n && tn__run(&n, 1);
    tn__call_done(&c);
    return ok;
}

bool(tn_realize_all)(const tn_inputs *ts)
{
    tn__call c;
    tn__call_begin(&c, "tn_realize_all");
    const size_t n = ts ? ts->n : 0;
    tn__node **roots = tn__alloc((n + 1) * sizeof(tn__node *));
    bool ok = roots != NULL;
    for (size_t i = 0; ok && i < n; i++) ok = (roots[i] = target(ts->t[i])) != NULL;
    ok = ok && tn__run(roots, n);
    tn__free(roots);
    tn__call_done(&c);
    return ok;
}

bool tn_sync(const char *device)
{
    tn__enter("tn_sync");
    tn__device *d = tn__device_get(device);
    const bool ok = d && tn__device_sync(d) && tn__status_report();
    tn__leave();
    return ok;
}

/* ---- reading ---- */

/* Runs what is pending, then copies the elements of n out; a constant needs no device. */
static bool read_out(tn__node *n, void *out, size_t bytes)
{
    if (tn__capture && !tn__capture->data(tn__capture->user)) return false;
    const bool constant = n->op == TN_OP_CONST && !has_value(n);
    const uint64_t bits = constant ? tn__scalar_bits((tn_dtype)n->dt, n->scalar) : 0;
    const size_t size = tn__dtype_size((tn_dtype)n->dt);
    tn__node_ref(n); /* a cell that becomes a leaf lets it go */
    bool ok = tn__run(&n, !constant) && (constant || tn__node_read(n, out, bytes));
    tn__node_unref(n);
    for (size_t i = 0; ok && constant && i < bytes; i += size) memcpy((char *)out + i, &bits, size);
    return ok;
}

static bool data(tn_tensor *t, void *out, size_t bytes)
{
    tn__node *n = target(t);
    if (!n) return false;
    const size_t want = (size_t)tn__node_numel(n) * tn__dtype_size((tn_dtype)n->dt);
    if (bytes != want)
        return tn__fail(TN_EVALUE, "data: %zu bytes for %s of %s: it has %zu", bytes,
                        tn__shape_text(n->dims, n->rank), tn__dtype_name((tn_dtype)n->dt), want);
    if (!out && want) return tn__fail(TN_ENULL, "data: the place to copy to is NULL");
    return read_out(n, out, bytes);
}

bool(tn_data)(tn_tensor *t, void *out, size_t bytes)
{
    tn__call c;
    tn__call_begin(&c, "tn_data");
    bool ok = data(t, out, bytes);
    tn__call_done(&c);
    return ok;
}

static bool item(tn_tensor *t, tn_dtype *dt, tn__scalar *s)
{
    tn__node *n = target(t);
    uint64_t bits = 0;
    if (!n) return false;
    if (tn__node_numel(n) != 1)
        return tn__fail(TN_ESHAPE,
                        "item: %s has %" PRId64 " elements: it must have one: reduce it, or "
                        "use tn_data",
                        tn__shape_text(n->dims, n->rank), tn__node_numel(n));
    *dt = (tn_dtype)n->dt;
    if (!read_out(n, &bits, tn__dtype_size(*dt))) return false;
    *s = tn__scalar_from_bits(*dt, bits);
    return true;
}

double(tn_item)(tn_tensor *t)
{
    tn__call c;
    tn_dtype dt;
    tn__scalar s;
    tn__call_begin(&c, "tn_item");
    double v = item(t, &dt, &s) ? tn__scalar_to_double(dt, s) : NAN;
    tn__call_done(&c);
    return v;
}

int64_t(tn_item_i)(tn_tensor *t)
{
    tn__call c;
    tn_dtype dt;
    tn__scalar s;
    tn__call_begin(&c, "tn_item_i");
    int64_t v = item(t, &dt, &s) ? tn__scalar_to_int(dt, s) : 0;
    tn__call_done(&c);
    return v;
}
