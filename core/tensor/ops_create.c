/* SPDX-License-Identifier: MIT */
/* Creation: constants, ranges, identity matrices, one-hot rows.  All from CONST and IOTA; nothing is stored. */
#include "tensor/ops.h"
#include <math.h>

static bool creatable(const char *op, const int64_t *dims, int rank)
{
    for (int i = 0; i < rank; i++)
        if (dims[i] < 0)
            return tn__fail(TN_ESHAPE, "%s: %s: sizes must not be negative", op,
                            tn__shape_text(dims, rank));
    return true;
}

tn__node *tn__full(const int64_t *dims, int rank, tn_dtype dt, tn__node *value)
{
    if (!value || !creatable("full", dims, rank)) return NULL;
    if (dt == TN_DTYPE_DEFAULT)
        value = tn__strong(value);
    else if (tn__is_weak(value))
        value = tn__const(dt, tn__scalar_cast((tn_dtype)value->dt, dt, value->scalar), NULL, 0);
    else
        value = tn__cast(value, dt);
    return tn__broadcast_to("full", value, dims, rank);
}

static bool steps(const char *op, double start, double stop, double step, int64_t *n)
{
    double k = ceil((stop - start) / step);
    if (step == 0 || !isfinite(k) || k > 9e15)
        return tn__fail(
            TN_EVALUE,
            "%s: from %g to %g by %g: the step must not be 0 and the count must be finite", op,
            start, stop, step);
    *n = k > 0 ? (int64_t)k : 0;
    return true;
}

tn__node *tn__arange_int(int64_t start, int64_t stop, int64_t step, tn_dtype dt)
{
    int64_t n;
    if (!steps("arange", (double)start, (double)stop, (double)step, &n)) return NULL;
    if (dt == TN_DTYPE_DEFAULT) dt = TN_I32;
    if (dt == TN_BOOL) {
        tn__fail(TN_EDTYPE, "arange: bool: takes integers and floats");
        return NULL;
    }
    if (n && (step > 0) == (stop > start) && stop != start) /* exact, where doubles are not */
        n = (int64_t)(step > 0 ? ((uint64_t)stop - (uint64_t)start - 1) / (uint64_t)step
                               : ((uint64_t)start - (uint64_t)stop - 1) / (0 - (uint64_t)step)) +
            1;
    bool narrow = dt == TN_F16 || dt == TN_BF16;
    tn_dtype in = narrow ? TN_F32 : dt;
    tn__node *i = tn__iota(in, 0, &n, 1);
    i = tn__binary(TN_OP_MUL, i, tn__const_i(in, step, &n, 1));
    return tn__cast(tn__binary(TN_OP_ADD, i, tn__const_i(in, start, &n, 1)), dt);
}

tn__node *tn__arange(double start, double stop, double step, tn_dtype dt)
{
    int64_t n;
    if (!steps("arange", start, stop, step, &n)) return NULL;
    if (dt == TN_DTYPE_DEFAULT) dt = tn__dtype_default_float();
    if (tn__dtype_is_int(dt) && start == floor(start) && step == floor(step))
        return tn__arange_int((int64_t)start, (int64_t)ceil(stop), (int64_t)step, dt);
    tn_dtype in = tn__dtype_is_float(dt) ? tn__dtype_promote(dt, TN_F32) : TN_F32;
    tn__node *i = tn__iota(in, 0, &n, 1);
    return tn__cast(tn__add_s(tn__mul_s(i, step), start), dt);
}

tn__node *tn__linspace(double start, double stop, int64_t n, tn_dtype dt)
{
    if (n < 0) {
        tn__fail(TN_EVALUE, "linspace: %lld steps: must not be negative", (long long)n);
        return NULL;
    }
    if (dt == TN_DTYPE_DEFAULT) dt = tn__dtype_default_float();
    tn_dtype in = tn__dtype_is_float(dt) ? tn__dtype_promote(dt, TN_F32) : TN_F32;
    if (n == 1) return tn__const_f(dt, start, &n, 1);
    tn__node *i = tn__iota(in, 0, &n, 1);
    tn__node *y = tn__mul_s(i, (stop - start) / (double)(n > 1 ? n - 1 : 1));
    return tn__cast(tn__add_s(y, start), dt);
}

tn__node *tn__eye(int64_t n, int64_t m, tn_dtype dt)
{
    int64_t dims[2] = {n, m};
    if (!creatable("eye", dims, 2)) return NULL;
    if (dt == TN_DTYPE_DEFAULT) dt = tn__dtype_default_float();
    tn__node *at = tn__iota(TN_I32, 0, dims, 2);
    return tn__cast(tn__binary(TN_OP_EQ, at, tn__iota(TN_I32, 1, dims, 2)), dt);
}

tn__node *tn__one_hot(tn__node *x, int64_t classes)
{
    x = tn__strong(x);
    if (!x) return NULL;
    if (!tn__dtype_is_int((tn_dtype)x->dt)) {
        tn__fail(TN_EDTYPE, "one_hot: %s: takes integers: cast first",
                 tn__dtype_name((tn_dtype)x->dt));
        return NULL;
    }
    if (classes < 0) {
        tn__fail(TN_EVALUE, "one_hot: %lld classes: give the number of classes, at least 0",
                 (long long)classes);
        return NULL;
    }
    x = tn__unsqueeze(x, -1);
    if (!x) return NULL;
    int64_t dims[TN_MAX_RANK];
    for (int i = 0; i < x->rank; i++) dims[i] = x->dims[i];
    dims[x->rank - 1] = classes;
    bool wide = tn__dtype_size((tn_dtype)x->dt) > 4 || x->dt == TN_U32;
    tn_dtype dt = wide ? TN_I64 : TN_I32;
    tn__node *y = tn__expand(tn__cast(x, dt), dims, x->rank);
    return tn__cast(tn__binary(TN_OP_EQ, y, tn__index_along(y, x->rank - 1, dt)), TN_I32);
}
