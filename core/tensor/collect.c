/* SPDX-License-Identifier: MIT */
/*
 * Constructors of reductions and of the ops that move data by value: gather, scatter, scan, sort,
 * random words, updates.  They check; what they mean is in ops.def.
 */
#include "tensor/make.h"
#include "device/device.h"
#include <inttypes.h>
#include <math.h>

static bool combines(const char *subject, tn__op op, tn_dtype dt)
{
    if (op != TN_OP_ADD && op != TN_OP_MUL && op != TN_OP_MAX && op != TN_OP_MIN)
        return tn__fail(TN_EVALUE, "%s: %s: combines by add, mul, max or min", subject,
                        op < TN_OP_COUNT ? tn__ops[op].text : "?");
    (void)dt;
    return true;
}

/* The reduction of n equal constants where every order of it is exact. */
static bool reduced_const(tn__op op, tn_dtype dt, tn__scalar s, int64_t n, tn__scalar *out)
{
    *out = s;
    if (n == 0) return false;
    if (op == TN_OP_MAX || op == TN_OP_MIN) return true;
    if (op == TN_OP_MUL) return tn__dtype_is_float(dt) ? s.f == 1 : s.u <= 1;
    if (dt == TN_BOOL) return true;
    if (!tn__dtype_is_float(dt)) {
        *out = tn__scalar_from_int(dt, (int64_t)((uint64_t)s.i * (uint64_t)n));
        return true;
    }
    int mantissa = dt == TN_F64 ? 53 : dt == TN_F32 ? 24 : dt == TN_F16 ? 11 : 8;
    double all = s.f * (double)n;
    *out = tn__scalar_from_double(dt, all + 0.0);
    return s.f == trunc(s.f) && fabs(all) <= ldexp(1, mantissa);
}

tn__node *tn__reduce(tn__op op, tn__node *x, unsigned axes)
{
    if (!x || !combines("reduce", op, (tn_dtype)x->dt)) return NULL;
    if (axes >> x->rank) {
        tn__fail(TN_EAXIS, "reduce: axis mask 0x%x of %s: axes are 0 to %d", axes, tn__dims_of(x),
                 x->rank - 1);
        return NULL;
    }
    int64_t dims[TN_MAX_RANK], n = 1;
    for (int i = 0; i < x->rank; i++) {
        dims[i] = x->dims[i];
        if (!(axes >> i & 1)) continue;
        if (dims[i] == 1) axes &= ~(1u << i);
        n *= dims[i];
        dims[i] = 1;
    }
    if (!axes) return x;
    tn__spec s = {.op = TN_OP_REDUCE,
                  .dt = (tn_dtype)x->dt,
                  .rank = x->rank,
                  .dims = dims,
                  .nsrc = 1,
                  .src = {x},
                  .narg = 2,
                  .argv = (const int64_t[]){op, axes}};
    bool split = x->place && x->place->axis >= 0 && axes >> x->place->axis & 1;
    if (!tn__place_axis(x->place, split ? -1 : x->place ? x->place->axis : -1, &s.place))
        return NULL;
    if (tn__movable_const(x) && reduced_const(op, s.dt, x->scalar, n, &s.scalar)) {
        s.op = TN_OP_CONST;
        s.nsrc = s.narg = 0;
    }
    return tn__make(&s);
}

/* ---- by index ---- */

static bool index_fits(const char *subject, const tn__node *x, const tn__node *idx)
{
    if (!tn__dtype_is_int((tn_dtype)idx->dt))
        return tn__fail(TN_EDTYPE, "%s: the indices are %s: they must be integers", subject,
                        tn__dtype_name((tn_dtype)idx->dt));
    if (x->rank != 3 || idx->rank != 2 || x->dims[0] != idx->dims[0])
        return tn__fail(TN_ESHAPE, "%s: %s by indices %s: takes (B, V, P) and (B, N)", subject,
                        tn__dims_of(x), tn__dims_of(idx));
    return true;
}

/* Placement of (B, N, P): split along B with both, along N with the indices, along P with x; of rows
 * that are split over devices (V) each device collects its part of N, or all where N does not split. */
static bool gather_place(const tn__node *x, const tn__node *idx, const tn__placement **out)
{
    const tn__placement *p = x->place, *q = idx->place;
    int axis = p ? p->axis : -1, by = q ? q->axis : -1;
    const tn__placement *whole[2];
    if (!tn__place_axis(p, -1, &whole[0]) || !tn__place_axis(q, -1, &whole[1])) return false;
    if (!tn__place_join("gather", whole, 2, out)) return false;
    bool rows = axis == 1 && idx->dims[1] % p->n == 0;
    int split = axis == 0 || by == 0 ? 0 : by == 1 || rows ? 1 : axis == 2 ? 2 : -1;
    return tn__place_axis(*out, split, out);
}

tn__node *tn__gather(tn__node *x, tn__node *idx)
{
    if (!x || !idx || !index_fits("gather", x, idx)) return NULL;
    const int64_t dims[] = {x->dims[0], idx->dims[1], x->dims[2]};
    tn__spec s = {.op = TN_OP_GATHER,
                  .dt = (tn_dtype)x->dt,
                  .rank = 3,
                  .dims = dims,
                  .nsrc = 2,
                  .src = {x, idx}};
    if (!tn__dims_check("gather", dims, 3) || !gather_place(x, idx, &s.place)) return NULL;
    return tn__make(&s);
}

/* The base's own; a base without one takes the devices of what is written, whole but for a common
 * B. */
static bool scatter_place(const tn__node *base, const tn__node *from, const tn__placement **out)
{
    *out = base->place;
    if (base->place || !from->place) return true;
    return tn__place_axis(from->place, from->place->axis == 0 ? 0 : -1, out);
}

tn__node *tn__scatter(tn__op op, tn__node *base, tn__node *idx, tn__node *src)
{
    if (!base || !idx || !src || !index_fits("scatter", base, idx)) return NULL;
    if (op != TN_OP_CONST && !combines("scatter", op, (tn_dtype)base->dt)) return NULL;
    if (base->dt != src->dt) {
        tn__fail(TN_EDTYPE, "scatter: dtypes %s and %s differ: cast one of them",
                 tn__dtype_name((tn_dtype)base->dt), tn__dtype_name((tn_dtype)src->dt));
        return NULL;
    }
    if (src->rank != 3 || src->dims[0] != idx->dims[0] || src->dims[1] != idx->dims[1] ||
        src->dims[2] != base->dims[2]) {
        tn__fail(TN_ESHAPE,
                 "scatter: %s by indices %s into %s: takes (B, N, P), (B, N) and (B, V, P)",
                 tn__dims_of(src), tn__dims_of(idx), tn__dims_of(base));
        return NULL;
    }
    tn__spec s = {.op = TN_OP_SCATTER,
                  .dt = (tn_dtype)base->dt,
                  .rank = 3,
                  .dims = base->dims,
                  .nsrc = 3,
                  .src = {base, idx, src},
                  .narg = 1,
                  .argv = (const int64_t[]){op}};
    if (!scatter_place(base, src->place ? src : idx, &s.place)) return NULL;
    return tn__make(&s);
}

tn__node *tn__scan(tn__op op, tn__node *x, int axis)
{
    if (!x || !combines("scan", op, (tn_dtype)x->dt)) return NULL;
    if (axis < 0 || axis >= x->rank) {
        tn__fail(TN_EAXIS, "scan: axis %d of %s: axes are 0 to %d", axis, tn__dims_of(x),
                 x->rank - 1);
        return NULL;
    }
    if (x->dims[axis] <= 1) return x;
    return tn__make(&(tn__spec){.op = TN_OP_SCAN,
                                .dt = (tn_dtype)x->dt,
                                .rank = x->rank,
                                .dims = x->dims,
                                .nsrc = 1,
                                .src = {x},
                                .narg = 2,
                                .argv = (const int64_t[]){op, axis},
                                .place = x->place});
}

tn__node *tn__argsort(tn__node *x, bool descending)
{
    if (!x) return NULL;
    if (!x->rank || x->dims[x->rank - 1] > INT32_MAX) {
        tn__fail(TN_ESHAPE, "sort: %s: sorts along the last axis, of at most 2147483647 elements",
                 tn__dims_of(x));
        return NULL;
    }
    if (x->dims[x->rank - 1] <= 1) return tn__const_i(TN_I32, 0, x->dims, x->rank);
    return tn__make(&(tn__spec){.op = TN_OP_SORT,
                                .dt = TN_I32,
                                .rank = x->rank,
                                .dims = x->dims,
                                .nsrc = 1,
                                .src = {x},
                                .narg = 1,
                                .argv = (const int64_t[]){descending},
                                .place = x->place});
}

/* ---- updates ---- */

/* True where view shows each element of old at most once, through movement only. */
static bool shows(const tn__node *view, const tn__node *old)
{
    for (; view != old; view = view->src[0]) {
        switch ((int)view->op) {
        case TN_OP_RESHAPE:
        case TN_OP_PERMUTE:
        case TN_OP_SHRINK:
        case TN_OP_FLIP: continue;
        case TN_OP_WINDOW: /* every stride-th one, and windows side by side */
            if (view->argv[2] > (view->argv[1] - 1) * view->argv[3]) continue;
            break;
        default: break;
        }
        if (view->op == TN_OP_EXPAND || view->op == TN_OP_WINDOW)
            return tn__fail(TN_EVALUE,
                            "update: %s: the view %s shows one element several times: write to the "
                            "tensor that it was made from",
                            tn__ops[view->op].text, tn__dims_of(view));
        return tn__fail(TN_EVALUE,
                        "update: %s: it stands between the view and the tensor: only reshape, "
                        "permute, shrink, flip and strides can be written through",
                        tn__ops[view->op].text);
    }
    return true;
}

static tn__node *written(tn__node *old, tn__node *value, tn__node *view)
{
    return tn__make(&(tn__spec){.op = TN_OP_UPDATE,
                                .dt = (tn_dtype)old->dt,
                                .rank = old->rank,
                                .dims = old->dims,
                                .nsrc = 3,
                                .src = {old, value, view},
                                .place = old->place});
}

tn__node *tn__update(tn__node *old, tn__node *value, tn__node *view)
{
    if (!old || !value || !view || !shows(view, old)) return NULL;
    if (value->dt != old->dt) {
        tn__fail(TN_EDTYPE, "update: %s into %s: cast the value first",
                 tn__dtype_name((tn_dtype)value->dt), tn__dtype_name((tn_dtype)old->dt));
        return NULL;
    }
    if (!tn__same_dims(value, view)) {
        tn__fail(TN_ESHAPE, "update: %s into a view %s: expand the value first", tn__dims_of(value),
                 tn__dims_of(view));
        return NULL;
    }
    if (view == old) return value;
    if (!tn__node_numel(view)) return old;
    return written(old, value, view);
}

tn__node *tn__overwrite(tn__node *old, tn__node *value)
{
    if (!old || !value) return NULL;
    TN_CHECK(old->dt == value->dt && tn__same_dims(old, value));
    if (value->op == TN_OP_UPDATE && value->src[0] == old) return value;
    return written(old, value, old);
}
