/* SPDX-License-Identifier: MIT */
/* Creation: constants, ranges, identity matrices, one-hot rows.  All from CONST and IOTA; nothing is stored. */
#include "tensor/ops.h"
#include <math.h>

tn__node *tn__full(const int64_t *dims, int rank, tn_dtype dt, tn__node *value)
{
    if (!value || !tn__dims_check("full", dims, rank)) return NULL;
    if (dt == TN_DTYPE_DEFAULT)
        value = tn__strong(value);
    else if (tn__is_weak(value))
        value = tn__const(dt, tn__scalar_cast((tn_dtype)value->dt, dt, value->scalar), NULL, 0);
    else
        value = tn__cast(value, dt);
    return tn__broadcast_to("full", value, dims, rank);
}

static bool steps(double start, double stop, double step, int64_t *n)
{
    double k = ceil((stop - start) / step);
    if (step == 0 || !isfinite(k) || k > 9e15)
        return tn__fail(TN_EVALUE,
                        "arange: from %g to %g by %g: the step must not be 0 and the count at most "
                        "9e15",
                        start, stop, step);
    *n = k > 0 ? (int64_t)k : 0;
    return true;
}

/* How many of start, start + step, .. stand before stop; exact, where doubles are not. */
static bool steps_int(int64_t start, int64_t stop, int64_t step, int64_t *n)
{
    const uint64_t a = (uint64_t)start, b = (uint64_t)stop, by = (uint64_t)step;
    uint64_t k = 0;
    if (step > 0 && stop > start) k = (b - a - 1) / by + 1;
    if (step < 0 && stop < start) k = (a - b - 1) / (0 - by) + 1;
    *n = (int64_t)k;
    return (step && k <= TN__MAX_NUMEL) ||
           tn__fail(TN_EVALUE,
                    "arange: from %lld to %lld by %lld: the step must not be 0 and the count must "
                    "fit 60 bits",
                    (long long)start, (long long)stop, (long long)step);
}

static bool fits_int32(int64_t v) { return v >= INT32_MIN && v <= INT32_MAX; }

tn__node *tn__arange_int(int64_t start, int64_t stop, int64_t step, tn_dtype dt)
{
    int64_t n;
    if (!steps_int(start, stop, step, &n)) return NULL;
    if (dt == TN_DTYPE_DEFAULT) {
        const int64_t last = n ? start + (n - 1) * step : 0;
        dt = !n || (fits_int32(start) && fits_int32(last)) ? TN_I32 : TN_I64;
    }
    if (dt == TN_BOOL) {
        tn__fail(TN_EDTYPE, "arange: bool: takes integers and floats");
        return NULL;
    }
    bool narrow = dt == TN_F16 || dt == TN_BF16;
    tn_dtype in = narrow ? TN_F32 : dt;
    tn__node *i = tn__iota(in, 0, &n, 1);
    i = tn__binary(TN_OP_MUL, i, tn__const_i(in, step, &n, 1));
    return tn__cast(tn__binary(TN_OP_ADD, i, tn__const_i(in, start, &n, 1)), dt);
}

tn__node *tn__arange(double start, double stop, double step, tn_dtype dt)
{
    int64_t n;
    if (!steps(start, stop, step, &n)) return NULL;
    if (dt == TN_DTYPE_DEFAULT) dt = tn__dtype_default_float();
    const bool whole = tn__dtype_is_int(dt) && start == floor(start) && step == floor(step);
    if (whole && (fabs(start) >= 0x1p63 || fabs(stop) >= 0x1p63 || fabs(step) >= 0x1p63)) {
        tn__fail(TN_EVALUE, "arange: from %g to %g by %g as %s: the numbers must fit int64", start,
                 stop, step, tn__dtype_name(dt));
        return NULL;
    }
    if (whole) return tn__arange_int((int64_t)start, (int64_t)ceil(stop), (int64_t)step, dt);
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
    if (!tn__dims_check("linspace", &n, 1)) return NULL;
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
    if (!tn__dims_check("eye", dims, 2)) return NULL;
    if (dt == TN_DTYPE_DEFAULT) dt = tn__dtype_default_float();
    const tn_dtype it = n > INT32_MAX || m > INT32_MAX ? TN_I64 : TN_I32;
    tn__node *at = tn__iota(it, 0, dims, 2);
    return tn__cast(tn__binary(TN_OP_EQ, at, tn__iota(it, 1, dims, 2)), dt);
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
    if (!tn__dims_check("one_hot", dims, x->rank)) return NULL;
    bool wide = tn__dtype_size((tn_dtype)x->dt) > 4 || x->dt == TN_U32 || classes > INT32_MAX;
    tn_dtype dt = wide ? TN_I64 : TN_I32;
    tn__node *y = tn__expand(tn__cast(x, dt), dims, x->rank);
    return tn__cast(tn__binary(TN_OP_EQ, y, tn__index_along(y, x->rank - 1, dt)), TN_I32);
}
