/* SPDX-License-Identifier: MIT */
/* See naive.h.  Each node's elements stand in an array of scalars; nodes are visited sources first.
 */
#include "support/naive.h"
#include "device/device.h"
#include "tensor/make.h"
#include "tensor/walk.h"
#include <math.h>
#include <string.h>

typedef struct {
    tn__node *y;
    int64_t n;              /* elements */
    tn__scalar *v;          /* result */
    const tn__scalar *s[3]; /* sources' elements */
    double natural; /* not 0: EXP2 of a product with that times log2(e), and s[0] the factor */
    const naive_input *in;
    size_t nin;
} job;

typedef int64_t coord[TN_MAX_RANK + 1];

static void coords(const tn__node *x, int64_t flat, int64_t *c)
{
    for (int i = x->rank; i--;) {
        c[i] = flat % x->dims[i];
        flat /= x->dims[i];
    }
}

static int64_t flat_of(const tn__node *x, const int64_t *c)
{
    int64_t f = 0;
    for (int i = 0; i < x->rank; i++) f = f * x->dims[i] + c[i];
    return f;
}

static tn_dtype dt_of(const tn__node *x) { return (tn_dtype)x->dt; }

/* ---- leaves and identities ---- */

static bool read_value(job *j, tn__value *v)
{
    size_t size = tn__dtype_size(dt_of(j->y)), bytes = size * (size_t)j->n;
    char *raw = tn__alloc(bytes);
    bool ok = raw && tn__buffer_read(raw, v->buf[0], v->offset, bytes);
    for (int64_t i = 0; ok && i < j->n; i++) {
        uint64_t bits = 0;
        memcpy(&bits, raw + (size_t)i * size, size);
        j->v[i] = tn__scalar_from_bits(dt_of(j->y), bits);
    }
    tn__free(raw);
    return ok;
}

static uint32_t rotl(uint32_t x, int r) { return x << r | x >> (32 - r); }

/* Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (2011): 20 rounds. */
static uint32_t threefry(uint64_t key, uint64_t ctr)
{
    static const int rot[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    uint32_t k[3] = {(uint32_t)key, (uint32_t)(key >> 32), 0};
    k[2] = 0x1BD11BDAu ^ k[0] ^ k[1];
    uint32_t a = (uint32_t)ctr + k[0], b = (uint32_t)(ctr >> 32) + k[1];
    for (uint32_t r = 0; r < 20; r++) {
        a += b;
        b = rotl(b, rot[r % 8]) ^ a;
        if (r % 4 == 3) {
            uint32_t s = r / 4 + 1;
            a += k[s % 3];
            b += k[(s + 1) % 3] + s;
        }
    }
    return a;
}

static bool leaf(job *j)
{
    const tn__node *y = j->y;
    coord c;
    for (int64_t i = 0; i < j->n; i++) {
        if (y->op == TN_OP_CONST) {
            j->v[i] = y->scalar;
        } else if (y->op == TN_OP_IOTA) {
            coords(y, i, c);
            j->v[i] = tn__scalar_from_int(dt_of(y), c[y->argv[0]]);
        } else {
            j->v[i].u = threefry((uint64_t)y->argv[0], (uint64_t)y->argv[1] + (uint64_t)i);
        }
    }
    return true;
}

static bool param(job *j)
{
    for (size_t k = 0; k < j->nin; k++) {
        if (j->in[k].id != j->y->scalar.u) continue;
        for (int64_t i = 0; i < j->n; i++)
            j->v[i] = tn__scalar_from_double(dt_of(j->y), j->in[k].data[i]);
        return true;
    }
    memcpy(j->v, j->s[0], (size_t)j->n * sizeof *j->v);
    return true;
}

static bool elementwise(job *j)
{
    const tn__node *y = j->y;
    tn_dtype from = dt_of(y->src[y->nsrc - 1]), dt = dt_of(y);
    for (int64_t i = 0; i < j->n; i++) {
        tn__scalar s[3];
        for (int k = 0; k < y->nsrc; k++) s[k] = j->s[k][i];
        if (j->natural != 0)
            j->v[i] = tn__scalar_from_double(dt, exp(s[0].f * j->natural));
        else if (y->op == TN_OP_CAST)
            j->v[i] = tn__scalar_cast(from, dt, s[0]);
        else if (y->op == TN_OP_BITCAST)
            j->v[i] = tn__scalar_from_bits(dt, tn__scalar_bits(from, s[0]));
        else if (!tn__evaluate((tn__op)y->op, from, s, &j->v[i]))
            return tn__fail(TN_EINTERNAL, "naive: %s", tn__ops[y->op].text);
    }
    return true;
}

/* ---- movement ---- */

/* Coordinates in the source of the element at c; false: a zero. */
static bool source_of(const tn__node *y, const int64_t *c, int64_t *s)
{
    const tn__node *x = y->src[0];
    int axis = y->op == TN_OP_WINDOW ? (int)y->argv[0] : 0;
    for (int i = 0; i < x->rank; i++) {
        switch ((int)y->op) {
        case TN_OP_EXPAND: s[i] = x->dims[i] == 1 ? 0 : c[i]; break;
        case TN_OP_SHRINK: s[i] = c[i] + y->argv[i]; break;
        case TN_OP_FLIP: s[i] = y->argv[0] >> i & 1 ? x->dims[i] - 1 - c[i] : c[i]; break;
        case TN_OP_PERMUTE: s[y->argv[i]] = c[i]; break;
        case TN_OP_PAD:
            s[i] = c[i] - y->argv[2 * i];
            if (s[i] < 0 || s[i] >= x->dims[i]) return false;
            break;
        default: /* WINDOW */
            s[i] = i < axis   ? c[i]
                   : i > axis ? c[i + 1]
                              : c[axis] * y->argv[2] + c[axis + 1] * y->argv[3];
        }
    }
    return true;
}

static bool movement(job *j)
{
    coord c, s;
    for (int64_t i = 0; i < j->n; i++) {
        coords(j->y, i, c);
        j->v[i] = source_of(j->y, c, s) ? j->s[0][flat_of(j->y->src[0], s)] : (tn__scalar){0};
    }
    return true;
}

/* ---- what combines: sums in double for floats, by tn__evaluate for the rest ---- */

static tn__scalar identity_of(tn__op op, tn_dtype dt)
{
    bool f = tn__dtype_is_float(dt);
    if (op == TN_OP_ADD) return (tn__scalar){0};
    if (op == TN_OP_MUL) return f ? (tn__scalar){.f = 1} : (tn__scalar){.u = 1};
    bool max = op == TN_OP_MAX;
    if (f) return (tn__scalar){.f = max ? -INFINITY : INFINITY};
    if (max) return (tn__scalar){.i = tn__dtype_int_min(dt)};
    return (tn__scalar){.u = tn__dtype_int_max(dt)};
}

static tn__scalar combine(tn__op op, tn_dtype dt, tn__scalar a, tn__scalar b)
{
    tn__scalar r = b, s[2] = {a, b};
    if (op == TN_OP_CONST) return b;
    tn__evaluate(op, tn__dtype_is_float(dt) ? TN_F64 : dt, s, &r);
    return r;
}

static void round_all(job *j)
{
    for (int64_t i = 0; i < j->n; i++)
        j->v[i] = tn__scalar_cast(tn__dtype_is_float(dt_of(j->y)) ? TN_F64 : dt_of(j->y),
                                  dt_of(j->y), j->v[i]);
}

static bool reduce(job *j)
{
    const tn__node *y = j->y, *x = y->src[0];
    coord c;
    tn__op op = (tn__op)y->argv[0];
    for (int64_t i = 0; i < j->n; i++) j->v[i] = identity_of(op, dt_of(y));
    for (int64_t i = 0; i < tn__node_numel(x); i++) {
        coords(x, i, c);
        for (int k = 0; k < x->rank; k++)
            if (y->argv[1] >> k & 1) c[k] = 0;
        tn__scalar *v = &j->v[flat_of(y, c)];
        *v = combine(op, dt_of(y), *v, j->s[0][i]);
    }
    round_all(j);
    return true;
}

static bool fold(job *j)
{
    const tn__node *y = j->y, *x = y->src[0];
    coord c, d;
    int axis = (int)y->argv[0];
    memset(j->v, 0, (size_t)j->n * sizeof *j->v);
    for (int64_t i = 0; i < tn__node_numel(x); i++) {
        coords(x, i, c);
        for (int k = 0; k < y->rank; k++) d[k] = c[k <= axis ? k : k + 1];
        d[axis] = c[axis] * y->argv[2] + c[axis + 1] * y->argv[3];
        tn__scalar *v = &j->v[flat_of(y, d)];
        *v = combine(TN_OP_ADD, dt_of(y), *v, j->s[0][i]);
    }
    round_all(j);
    return true;
}

static bool scan(job *j)
{
    const tn__node *y = j->y;
    coord c;
    int axis = (int)y->argv[1];
    for (int64_t i = 0; i < j->n; i++) {
        coords(y, i, c);
        j->v[i] = j->s[0][i];
        if (!c[axis]) continue;
        c[axis]--;
        j->v[i] = combine((tn__op)y->argv[0], dt_of(y), j->v[flat_of(y, c)], j->s[0][i]);
    }
    round_all(j);
    return true;
}

/* ---- by index ---- */

static int64_t row_at(const tn__node *x, const tn__node *idx, tn__scalar s)
{
    tn_dtype dt = dt_of(idx);
    bool neg = tn__dtype_is_signed(dt) && s.i < 0;
    return neg || s.u >= (uint64_t)x->dims[1] ? -1 : s.i;
}

static bool gather(job *j)
{
    const tn__node *y = j->y, *x = y->src[0];
    coord c;
    for (int64_t i = 0; i < j->n; i++) {
        coords(y, i, c);
        c[1] = row_at(x, y->src[1], j->s[1][c[0] * y->dims[1] + c[1]]);
        j->v[i] = c[1] < 0 ? (tn__scalar){0} : j->s[0][flat_of(x, c)];
    }
    return true;
}

static bool scatter(job *j)
{
    const tn__node *y = j->y, *src = y->src[2];
    coord c;
    memcpy(j->v, j->s[0], (size_t)j->n * sizeof *j->v);
    for (int64_t i = 0; i < tn__node_numel(src); i++) {
        coords(src, i, c);
        c[1] = row_at(y, y->src[1], j->s[1][c[0] * src->dims[1] + c[1]]);
        if (c[1] < 0) continue;
        tn__scalar *v = &j->v[flat_of(y, c)];
        *v = combine((tn__op)y->argv[0], dt_of(y), *v, j->s[2][i]);
    }
    round_all(j);
    return true;
}

/* a stands before b; NaN after all numbers, or before them in descending order. */
static bool before(tn_dtype dt, bool down, tn__scalar a, tn__scalar b)
{
    if (down) {
        tn__scalar t = a;
        a = b;
        b = t;
    }
    if (tn__dtype_is_float(dt)) return isnan(b.f) ? !isnan(a.f) : a.f < b.f;
    return tn__dtype_is_signed(dt) ? a.i < b.i : a.u < b.u;
}

static bool sort(job *j)
{
    const tn__node *y = j->y;
    int64_t n = y->dims[y->rank - 1];
    for (int64_t row = 0; n && row < j->n / n; row++) {
        tn__scalar *p = j->v + row * n;
        const tn__scalar *x = j->s[0] + row * n;
        for (int64_t i = 0; i < n; i++) {
            int64_t k = i;
            for (; k > 0 && before(dt_of(y->src[0]), y->argv[0] != 0, x[i], x[p[k - 1].i]); k--)
                p[k] = p[k - 1];
            p[k].i = i;
        }
    }
    return true;
}

/* The view's elements are found by sending positions through the same movements. */
static bool update(job *j)
{
    const tn__node *y = j->y;
    memcpy(j->v, j->s[0], (size_t)j->n * sizeof *j->v);
    for (int64_t i = 0; i < tn__node_numel(y->src[2]); i++) {
        const tn__node *m = y->src[2];
        int64_t at = i;
        coord c, s;
        for (; m != y->src[0]; m = m->src[0]) {
            if (m->op == TN_OP_RESHAPE) continue;
            coords(m, at, c);
            source_of(m, c, s);
            at = flat_of(m->src[0], s);
        }
        j->v[at] = j->s[1][i];
    }
    return true;
}

static bool same(job *j)
{
    memcpy(j->v, j->s[0], (size_t)j->n * sizeof *j->v);
    return true;
}

static bool eval(job *j)
{
    tn__value *val = atomic_load(&j->y->val);
    if (val) return read_value(j, val);
    switch ((int)j->y->op) {
    case TN_OP_CONST:
    case TN_OP_IOTA:
    case TN_OP_RNG: return leaf(j);
    case TN_OP_PARAM: return param(j);
    case TN_OP_DETACH:
    case TN_OP_CONTIGUOUS:
    case TN_OP_COPY:
    case TN_OP_RESHAPE: return same(j);
    case TN_OP_FOLD: return fold(j);
    case TN_OP_REDUCE: return reduce(j);
    case TN_OP_GATHER: return gather(j);
    case TN_OP_SCATTER: return scatter(j);
    case TN_OP_SCAN: return scan(j);
    case TN_OP_SORT: return sort(j);
    case TN_OP_UPDATE: return update(j);
    default: return tn__ops[j->y->op].cls == TN_CLASS_MOVE ? movement(j) : elementwise(j);
    }
}

/* The factor beside log2(e) in the product whose EXP2 y is; NULL for anything else. */
static tn__node *exponent(const tn__node *y, double *natural)
{
    const tn__node *t = y->op == TN_OP_EXP2 ? y->src[0] : NULL;
    if (!t || t->op != TN_OP_MUL || atomic_load(&t->val)) return NULL;
    for (int i = 0; i < 2; i++) {
        if (t->src[i]->op != TN_OP_CONST) continue;
        *natural = tn__log2e_multiple(dt_of(y), t->src[i]->scalar.f);
        return *natural != 0 ? t->src[1 - i] : NULL;
    }
    return NULL;
}

bool naive_eval_scalars(tn__node *root, const naive_input *in, size_t nin, tn__scalar *out)
{
    tn__arena a = {0};
    tn__node **order;
    size_t n;
    tn__map at = {.a = &a};
    bool ok = root && tn__walk(&a, &root, 1, false, &order, &n), isnew;
    tn__scalar **vals = ok ? tn__arena_zero(&a, n * sizeof *vals) : NULL;
    ok = vals != NULL;
    for (size_t i = 0; ok && i < n; i++) {
        job j = {.y = order[i], .n = tn__node_numel(order[i]), .in = in, .nin = nin};
        j.v = vals[i] = i + 1 == n ? out : tn__alloc((size_t)j.n * sizeof *out);
        bool valued = atomic_load(&j.y->val) != NULL;
        for (int k = 0; k < j.y->nsrc && !valued; k++)
            j.s[k] = vals[*tn__map_get(&at, j.y->src[k])];
        const tn__node *x = valued ? NULL : exponent(j.y, &j.natural);
        if (x) j.s[0] = vals[*tn__map_get(&at, x)];
        ok = j.v && tn__map_put(&at, order[i], i, &isnew) && eval(&j);
    }
    for (size_t i = 0; vals && i + 1 < n; i++) tn__free(vals[i]);
    tn__arena_free(&a);
    return ok;
}

bool naive_eval_with(tn__node *root, const naive_input *in, size_t nin, double *out)
{
    if (!root) return false;
    int64_t n = tn__node_numel(root);
    tn__scalar *v = tn__alloc((size_t)n * sizeof *v);
    bool ok = v && naive_eval_scalars(root, in, nin, v);
    for (int64_t i = 0; ok && i < n; i++) out[i] = tn__scalar_to_double(dt_of(root), v[i]);
    tn__free(v);
    return ok;
}

bool naive_eval(tn__node *root, double *out) { return naive_eval_with(root, NULL, 0, out); }
