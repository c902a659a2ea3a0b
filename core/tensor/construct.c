/* SPDX-License-Identifier: MIT */
/*
 * Constructors of leaves, identities and elementwise ops: they check dtypes, shapes and placements,
 * and keep the graph small where that is exact for every value, NaN and -0.0 included.
 */
#include "tensor/make.h"
#include "device/device.h"
#include <math.h>
#include <string.h>

enum { F = 1, I = 2, B = 4 }; /* classes of dtypes */

static int class_of(tn_dtype dt) { return tn__dtype_is_float(dt) ? F : dt == TN_BOOL ? B : I; }

/* Dtypes that an op's value sources may have. */
static const uint8_t takes[TN_OP_COUNT] = {
    [TN_OP_NEG] = F | I,     [TN_OP_NOT] = I | B,     [TN_OP_RECIP] = F,   [TN_OP_SQRT] = F,
    [TN_OP_EXP2] = F,        [TN_OP_LOG2] = F,        [TN_OP_SIN] = F,     [TN_OP_TRUNC] = F,
    [TN_OP_FLOOR] = F,       [TN_OP_ADD] = F | I | B, [TN_OP_SUB] = F | I, [TN_OP_MUL] = F | I | B,
    [TN_OP_DIV] = F,         [TN_OP_IDIV] = I,        [TN_OP_IMOD] = I,    [TN_OP_POW] = F,
    [TN_OP_MAX] = F | I | B, [TN_OP_MIN] = F | I | B, [TN_OP_AND] = I | B, [TN_OP_OR] = I | B,
    [TN_OP_XOR] = I | B,     [TN_OP_SHL] = I,         [TN_OP_SHR] = I,     [TN_OP_LT] = F | I | B,
    [TN_OP_EQ] = F | I | B,  [TN_OP_NE] = F | I | B,
};

static bool dtype_fits(tn__op op, tn_dtype dt)
{
    if (takes[op] & class_of(dt)) return true;
    const char *wants = takes[op] == F         ? "floats only: cast first"
                        : takes[op] == I       ? "integers only: cast first"
                        : takes[op] == (I | B) ? "integers and bool only: cast first"
                                               : "numbers only: cast first";
    return tn__fail(TN_EDTYPE, "%s: %s: takes %s", tn__ops[op].text, tn__dtype_name(dt), wants);
}

/* ---- leaves ---- */

static bool known(const char *subject, tn_dtype dt)
{
    if (dt > TN_DTYPE_DEFAULT && dt < TN_DTYPES) return true;
    return tn__fail(TN_EDTYPE, "%s: %d is no dtype", subject, (int)dt);
}

static tn__node *constant(tn_dtype dt, tn__scalar s, const int64_t *dims, int rank,
                          const tn__placement *p)
{
    return tn__make(&(tn__spec){
        .op = TN_OP_CONST, .dt = dt, .rank = rank, .dims = dims, .scalar = s, .place = p});
}

tn__node *tn__const(tn_dtype dt, tn__scalar s, const int64_t *dims, int rank)
{
    if (!known("const", dt) || !tn__dims_check("const", dims, rank)) return NULL;
    return constant(dt, s, dims, rank, NULL);
}

tn__node *tn__const_f(tn_dtype dt, double v, const int64_t *dims, int rank)
{
    if (!known("const", dt)) return NULL;
    return tn__const(dt, tn__scalar_from_double(dt, v), dims, rank);
}

tn__node *tn__const_i(tn_dtype dt, int64_t v, const int64_t *dims, int rank)
{
    if (!known("const", dt)) return NULL;
    return tn__const(dt, tn__scalar_from_int(dt, v), dims, rank);
}

tn__node *tn__weak(tn_dtype dt, tn__scalar s)
{
    tn__node *n = constant(dt, s, NULL, 0, NULL);
    if (n) n->flags = TN__NODE_WEAK;
    return n;
}

tn__node *tn__const_like(tn__node *x, double v)
{
    if (!x) return NULL;
    return constant((tn_dtype)x->dt, tn__scalar_from_double((tn_dtype)x->dt, v), x->dims, x->rank,
                    NULL);
}

tn__node *tn__iota(tn_dtype dt, int axis, const int64_t *dims, int rank)
{
    if (!known("iota", dt) || !tn__dims_check("iota", dims, rank)) return NULL;
    if (axis < 0 || axis >= rank) {
        tn__fail(TN_EAXIS, "iota: axis %d of %s: axes are 0 to %d", axis,
                 tn__shape_text(dims, rank), rank - 1);
        return NULL;
    }
    if (dims[axis] == 1) return tn__const_i(dt, 0, dims, rank);
    return tn__make(&(tn__spec){.op = TN_OP_IOTA,
                                .dt = dt,
                                .rank = rank,
                                .dims = dims,
                                .narg = 1,
                                .argv = (const int64_t[]){axis}});
}

tn__node *tn__leaf(tn__value *v, tn_dtype dt, const int64_t *dims, int rank, const tn__placement *p)
{
    if (!v) return NULL;
    tn__node *n = NULL;
    if (known("leaf", dt) && tn__dims_check("leaf", dims, rank))
        n = tn__make(
            &(tn__spec){.op = TN_OP_BUFFER, .dt = dt, .rank = rank, .dims = dims, .place = p});
    if (n)
        atomic_store_explicit(&n->val, v, memory_order_release);
    else
        tn__value_unref(v);
    return n;
}

/* ---- identities ---- */

static tn__node *identity(tn__op op, tn__node *x, uint64_t id, const tn__placement *p)
{
    return tn__make(&(tn__spec){.op = op,
                                .dt = (tn_dtype)x->dt,
                                .rank = x->rank,
                                .dims = x->dims,
                                .nsrc = 1,
                                .src = {x},
                                .scalar = {.u = id},
                                .place = p});
}

tn__node *tn__param_node(tn__node *x, uint64_t id)
{
    return x ? identity(TN_OP_PARAM, x, id, x->place) : NULL;
}

tn__node *tn__detach(tn__node *x)
{
    if (!x || x->op == TN_OP_DETACH || tn__movable_const(x)) return x;
    return identity(TN_OP_DETACH, x, 0, x->place);
}

tn__node *tn__contiguous(tn__node *x)
{
    if (!x || x->op == TN_OP_CONTIGUOUS || x->op == TN_OP_BUFFER) return x;
    return identity(TN_OP_CONTIGUOUS, x, 0, x->place);
}

tn__node *tn__contiguous_copy(tn__node *x)
{
    return x ? identity(TN_OP_CONTIGUOUS, x, 0, x->place) : NULL;
}

tn__node *tn__copy_to(tn__node *x, const tn__placement *p)
{
    if (!x || x->place == p) return x;
    if (p->axis >= x->rank) {
        tn__fail(TN_EAXIS, "copy: %s cannot be split along axis %d", tn__dims_of(x), p->axis);
        return NULL;
    }
    if (p->axis >= 0 && x->dims[p->axis] % p->n) {
        tn__fail(TN_ESHAPE, "copy: axis %d of %s does not split evenly over %d devices", p->axis,
                 tn__dims_of(x), p->n);
        return NULL;
    }
    if (tn__movable_const(x)) return constant((tn_dtype)x->dt, x->scalar, x->dims, x->rank, p);
    return identity(TN_OP_COPY, x, 0, p);
}

/* ---- elementwise ---- */

/* Result of op over sources of one shape: a CONST when all of them are, else a new node. */
static tn__node *elementwise(tn__op op, tn_dtype dt, tn__node *const *src, int n)
{
    tn__spec s = {.op = op, .dt = dt, .rank = src[0]->rank, .dims = src[0]->dims, .nsrc = n};
    const tn__placement *at[3] = {NULL};
    tn__scalar v[3], r;
    bool all = true;
    for (int i = 0; i < n; i++) {
        s.src[i] = src[i];
        at[i] = src[i]->place;
        v[i] = src[i]->scalar;
        all = all && tn__movable_const(src[i]);
    }
    if (!tn__place_join(tn__ops[op].text, at, n, &s.place)) return NULL;
    if (all && tn__evaluate(op, (tn_dtype)src[n - 1]->dt, v, &r))
        return constant(dt, r, s.dims, s.rank, s.place);
    return tn__make(&s);
}

tn__node *tn__unary(tn__op op, tn__node *x)
{
    if (!x) return NULL;
    TN_CHECK(tn__ops[op].cls == TN_CLASS_UNARY && op != TN_OP_CAST && op != TN_OP_BITCAST);
    if (!dtype_fits(op, (tn_dtype)x->dt)) return NULL;
    if ((op == TN_OP_NEG || op == TN_OP_NOT) && tn__mergeable(x, op)) return x->src[0];
    if ((op == TN_OP_TRUNC || op == TN_OP_FLOOR) && (x->op == TN_OP_TRUNC || x->op == TN_OP_FLOOR))
        return x;
    return elementwise(op, (tn_dtype)x->dt, &x, 1);
}

/* The constant b as an operand that leaves the other one as it is, for every value of it. */
static bool neutral(tn__op op, tn_dtype dt, tn__scalar b)
{
    if (tn__dtype_is_float(dt)) {
        bool zero = b.f == 0, minus = signbit(b.f) != 0;
        return (op == TN_OP_ADD && zero && minus) || (op == TN_OP_SUB && zero && !minus) ||
               ((op == TN_OP_MUL || op == TN_OP_DIV || op == TN_OP_POW) && b.f == 1) ||
               (op == TN_OP_MAX && isinf(b.f) && minus) ||
               (op == TN_OP_MIN && isinf(b.f) && !minus);
    }
    bool ones = tn__scalar_bits(dt, b) ==
                tn__scalar_bits(dt, tn__scalar_from_int(dt, dt == TN_BOOL ? 1 : -1));
    switch ((int)op) {
    case TN_OP_ADD:
    case TN_OP_SUB:
    case TN_OP_OR:
    case TN_OP_XOR:
    case TN_OP_SHL:
    case TN_OP_SHR: return b.u == 0;
    case TN_OP_MUL:
    case TN_OP_IDIV: return b.u == 1;
    case TN_OP_AND: return ones;
    default: return false;
    }
}

static bool commutes(tn__op op)
{
    return op == TN_OP_ADD || op == TN_OP_MUL || op == TN_OP_MAX || op == TN_OP_MIN ||
           op == TN_OP_AND || op == TN_OP_OR || op == TN_OP_XOR;
}

/* Shorter forms of a `op` the constant b; *out NULL with true: an error is pending. */
static bool shorter(tn__op op, tn__node *a, tn__scalar b, tn__node **out)
{
    tn_dtype dt = (tn_dtype)a->dt;
    if (neutral(op, dt, b)) {
        *out = a;
        return true;
    }
    bool flt = tn__dtype_is_float(dt);
    if (!flt && (op == TN_OP_MUL || op == TN_OP_AND) && !b.u) {
        *out = constant(dt, (tn__scalar){0}, a->dims, a->rank, a->place);
        return true;
    }
    if (op == TN_OP_POW && (b.f == 0 || b.f == 2 || b.f == -1)) {
        *out = b.f == 0   ? constant(dt, (tn__scalar){.f = 1}, a->dims, a->rank, a->place)
               : b.f == 2 ? tn__binary(TN_OP_MUL, a, a)
                          : tn__unary(TN_OP_RECIP, a);
        return true;
    }
    return false;
}

tn__node *tn__binary(tn__op op, tn__node *a, tn__node *b)
{
    if (!a || !b) return NULL;
    const char *text = tn__ops[op].text;
    bool compare = tn__ops[op].cls == TN_CLASS_COMPARE;
    TN_CHECK(compare || tn__ops[op].cls == TN_CLASS_BINARY);
    if (a->dt != b->dt) {
        tn__fail(TN_EDTYPE, "%s: dtypes %s and %s differ: cast one of them", text,
                 tn__dtype_name((tn_dtype)a->dt), tn__dtype_name((tn_dtype)b->dt));
        return NULL;
    }
    if (!tn__same_dims(a, b)) {
        tn__fail(TN_ESHAPE, "%s: shapes %s and %s differ: expand first", text, tn__dims_of(a),
                 tn__dims_of(b));
        return NULL;
    }
    if (!dtype_fits(op, (tn_dtype)a->dt)) return NULL;
    tn__node *r, *both[] = {a, b};
    bool ca = tn__movable_const(a), cb = tn__movable_const(b);
    if (ca != cb && (!a->place || !b->place || a->place == b->place)) {
        if (cb && shorter(op, a, b->scalar, &r)) return r;
        if (ca && commutes(op) && shorter(op, b, a->scalar, &r)) return r;
    }
    return elementwise(op, compare ? TN_BOOL : (tn_dtype)a->dt, both, 2);
}

tn__node *tn__where(tn__node *c, tn__node *a, tn__node *b)
{
    if (!c || !a || !b) return NULL;
    if (c->dt != TN_BOOL) {
        tn__fail(TN_EDTYPE, "where: the condition is %s: it must be bool: compare first",
                 tn__dtype_name((tn_dtype)c->dt));
        return NULL;
    }
    if (a->dt != b->dt) {
        tn__fail(TN_EDTYPE, "where: dtypes %s and %s differ: cast one of them",
                 tn__dtype_name((tn_dtype)a->dt), tn__dtype_name((tn_dtype)b->dt));
        return NULL;
    }
    if (!tn__same_dims(a, b) || !tn__same_dims(a, c)) {
        tn__fail(TN_ESHAPE, "where: shapes %s, %s and %s differ: expand first", tn__dims_of(c),
                 tn__dims_of(a), tn__dims_of(b));
        return NULL;
    }
    tn__node *all[] = {c, a, b};
    if (tn__movable_const(c)) return c->scalar.u ? a : b;
    if (a == b) return a;
    return elementwise(TN_OP_WHERE, (tn_dtype)a->dt, all, 3);
}

/* Every value of a has an image of its own in b and comes back from it. */
static bool lossless(tn_dtype a, tn_dtype b)
{
    if (a == b || a == TN_BOOL) return true;
    if (tn__dtype_is_float(a))
        return tn__dtype_is_float(b) && tn__dtype_bits(b) > tn__dtype_bits(a);
    if (!tn__dtype_is_int(b)) return false;
    if (tn__dtype_is_signed(a) == tn__dtype_is_signed(b))
        return tn__dtype_bits(b) >= tn__dtype_bits(a);
    return tn__dtype_is_signed(b) && tn__dtype_bits(b) > tn__dtype_bits(a);
}

tn__node *tn__cast(tn__node *x, tn_dtype dt)
{
    if (!x || !known("cast", dt)) return NULL;
    if (x->dt == dt) return x;
    if (tn__movable_const(x))
        return constant(dt, tn__scalar_cast((tn_dtype)x->dt, dt, x->scalar), x->dims, x->rank,
                        x->place);
    if (tn__mergeable(x, TN_OP_CAST) && lossless((tn_dtype)x->src[0]->dt, (tn_dtype)x->dt))
        return tn__cast(x->src[0], dt);
    return elementwise(TN_OP_CAST, dt, &x, 1);
}

tn__node *tn__bitcast(tn__node *x, tn_dtype dt)
{
    if (!x || !known("bitcast", dt)) return NULL;
    if (x->dt == dt) return x;
    tn_dtype from = (tn_dtype)x->dt;
    if (tn__dtype_size(from) != tn__dtype_size(dt) || from == TN_BOOL || dt == TN_BOOL) {
        tn__fail(TN_EDTYPE,
                 "bitcast: %s to %s: the element sizes must be equal, and bool has no bits",
                 tn__dtype_name(from), tn__dtype_name(dt));
        return NULL;
    }
    if (tn__movable_const(x) && !tn__dtype_is_float(dt)) /* a NaN's payload would not survive */
        return constant(dt, tn__scalar_from_bits(dt, tn__scalar_bits(from, x->scalar)), x->dims,
                        x->rank, x->place);
    if (tn__mergeable(x, TN_OP_BITCAST)) return tn__bitcast(x->src[0], dt);
    return elementwise(TN_OP_BITCAST, dt, &x, 1);
}
