/* SPDX-License-Identifier: MIT */
/*
 * Rows of expressions: memo by register copies, lanes, indices, loads, private arrays, elementwise values.  A value that
 * cannot be a vector is made lane by lane and put together.
 *
 * Recursion follows one kernel's expression, whose size the scheduler bounds.
 */
#include "codegen/emit_state.h"
#include "codegen/lower.h"
#include <inttypes.h>
#include <string.h>

/* ---- memo ---- */

uint64_t tn__e_env_key(const em *e, uint64_t deps)
{
    uint64_t key = 0;
    for (int n = 0; n < TN__MAX_RANGES && deps >> n; n++)
        if ((deps & e->regs) >> n & 1)
            key = key * (uint64_t)(size_of(e, n) + 2) + (uint64_t)(e->env[n] + 2);
    return key;
}

memo_entry *tn__e_memo_at(em *e, uint32_t id, uint64_t key)
{
    if (e->nmemo * 2 >= e->cap_memo) {
        const size_t cap = e->cap_memo ? e->cap_memo * 2 : 1024;
        memo_entry *m = tn__arena_zero(e->a, cap * sizeof *m);
        if (!m) {
            e->r.failed = true;
            return NULL;
        }
        for (size_t i = 0; i < e->cap_memo; i++) {
            if (!e->memo[i].id) continue;
            size_t k = (e->memo[i].id * 0x9e3779b1u ^ e->memo[i].env * 0x85ebca6bu) & (cap - 1);
            while (m[k].id) k = (k + 1) & (cap - 1);
            m[k] = e->memo[i];
        }
        e->memo = m;
        e->cap_memo = cap;
    }
    size_t k = (id * 0x9e3779b1u ^ key * 0x85ebca6bu) & (e->cap_memo - 1);
    while (e->memo[k].id && (e->memo[k].id != id || e->memo[k].env != key))
        k = (k + 1) & (e->cap_memo - 1);
    return &e->memo[k];
}

int tn__e_remember(em *e, const tn__uop *u, int row)
{
    memo_entry *m = tn__e_memo_at(e, u->id, tn__e_env_key(e, u->deps));
    if (!m) return row;
    e->nmemo += !m->id;
    *m = (memo_entry){u->id, tn__e_env_key(e, u->deps), row};
    return row;
}

/* ---- lanes ---- */

/* Number of the VECTOR range that makes u a vector now, or -1. */
int tn__e_lane_axis(const em *e, const tn__uop *u)
{
    const uint64_t m = u->deps & e->vecs;
    for (int n = 0; n < TN__MAX_RANGES && m >> n; n++)
        if ((m >> n & 1) && e->env[n] == LANES) return n;
    return -1;
}

int tn__e_lanes_of(const em *e, const tn__uop *u)
{
    const int v = tn__e_lane_axis(e, u);
    return v < 0 ? 1 : (int)size_of(e, v);
}

int tn__e_splat(em *e, int row, int lanes)
{
    if (e->r.failed) return 0;
    const tn__row w = e->r.row[row];
    if (w.lanes == lanes) return row;
    if (w.op == TN__L_const) return tn__lower_const(&e->r, (tn_dtype)w.dt, lanes, (uint64_t)w.imm);
    return tn__row_pure(&e->r, TN__L_splat, (tn_dtype)w.dt, lanes, row, -1, -1, 0);
}

/* u's value as `lanes` lanes. */
int tn__e_val_lanes(em *e, tn__uop *u, int lanes) { return tn__e_splat(e, tn__e_val(e, u), lanes); }

/* Lane by lane, then put together. */
static int by_lane(em *e, tn__uop *u, int axis)
{
    const int lanes = (int)size_of(e, axis);
    int v = -1;
    for (int i = 0; i < lanes; i++) {
        e->env[axis] = i;
        const int s = tn__e_val(e, u);
        if (v < 0)
            v = tn__e_splat(e, s, lanes);
        else
            v = tn__row_pure(&e->r, TN__L_insert, (tn_dtype)u->dt, lanes, v, s, -1, i);
    }
    e->env[axis] = LANES;
    return v;
}

/* ---- indices ---- */

int tn__e_konst(em *e, int64_t v) { return tn__lower_const(&e->r, TN_I64, 1, (uint64_t)v); }
static int iadd(em *e, int a, int b)
{
    return tn__row_pure(&e->r, TN__L_add, TN_I64, 1, a, b, -1, 0);
}
static int imul(em *e, int a, int64_t c)
{
    return c == 1 ? a : tn__row_pure(&e->r, TN__L_mul, TN_I64, 1, a, tn__e_konst(e, c), -1, 0);
}

static int atom_row(em *e, tn__uop *u)
{
    if (u->op == TN_OP_RANGE) return e->loop_row[u->arg[0]];
    return tn__e_val(e, u);
}

/* A scalar index.  Copies of register axes join the constant, so that copies share the rest; terms are
 * added from the outermost loop inwards. */
int tn__e_index_row(em *e, const tn__uop *x)
{
    int64_t c = x->arg[0];
    int row[192], n = 0;
    for (int i = 0; i < x->nsrc && n < 192; i++) {
        tn__uop *t = x->src[i];
        if (t->op == TN_OP_RANGE && (e->regs >> t->arg[0] & 1)) {
            c += x->arg[1 + i] * e->env[t->arg[0]];
            continue;
        }
        const int w = imul(e, atom_row(e, t), x->arg[1 + i]);
        if (e->r.failed) return 0; /* rows may be missing */
        int j = n++;
        while (j > 0 &&
               e->r.block[e->r.row[row[j - 1]].block].depth > e->r.block[e->r.row[w].block].depth) {
            row[j] = row[j - 1];
            j--;
        }
        row[j] = w;
    }
    if (!n) return tn__e_konst(e, c);
    int sum = row[0];
    for (int i = 1; i < n; i++) sum = iadd(e, sum, row[i]);
    return c ? iadd(e, sum, tn__e_konst(e, c)) : sum;
}

/* Index of lanes as numbers of dtype dt: base + step * {0, 1, ..}, or lane by lane. */
static int index_lanes(em *e, tn__uop *x, int axis, tn_dtype dt)
{
    bool other;
    const int64_t step = tn__ix_coef(x, axis, &other);
    const int lanes = (int)size_of(e, axis);
    if (other) return -1;
    e->env[axis] = 0;
    int base = tn__e_index_row(e, x);
    e->env[axis] = LANES;
    if (dt != TN_I64) base = tn__row_pure(&e->r, TN__L_cast, dt, 1, base, -1, -1, 0);
    int iota = tn__lower_const(&e->r, dt, lanes, 0);
    for (int i = 1; i < lanes; i++) {
        const int k = tn__lower_const(&e->r, dt, 1,
                                      tn__scalar_bits(dt, tn__scalar_from_int(dt, step * i)));
        iota = tn__row_pure(&e->r, TN__L_insert, dt, lanes, iota, k, -1, i);
    }
    return tn__row_pure(&e->r, TN__L_add, dt, lanes, tn__e_splat(e, base, lanes), iota, -1, 0);
}

tn__uop *tn__e_flat_index(em *e, const tn__uop *u, int buf, int first)
{
    tn__space *s = &e->k->sp;
    const tn__kbuf *b = &e->k->buf[buf];
    tn__uop *x = tn__ix_const(s, 0);
    for (int i = 0; i < b->rank; i++)
        x = tn__ix_add(s, x, tn__ix_mulc(s, u->src[first + i], b->strides[i]));
    return b->offset ? tn__ix_add(s, x, b->offset) : x;
}

/* ---- memory ---- */

static bool written(const em *e, int buf) { return e->k->buf[buf].access & TNP_ACCESS_WRITE; }

static int load_row(em *e, int buf, tn_dtype dt, int lanes, int index, int gate)
{
    if (written(e, buf))
        return tn__row_at(&e->r, e->at, TN__L_load, dt, lanes, index, gate, -1, buf);
    return tn__row_pure(&e->r, TN__L_load, dt, lanes, index, gate, -1, buf);
}

static int load(em *e, tn__uop *u)
{
    const int buf = (int)u->arg[0], axis = tn__e_lane_axis(e, u);
    tn__uop *gate = u->arg[1] ? u->src[u->nsrc - 1] : NULL;
    tn__uop *x = tn__e_flat_index(e, u, buf, 0);
    const tn_dtype dt = (tn_dtype)u->dt;
    if (axis < 0)
        return load_row(e, buf, dt, 1, tn__e_index_row(e, x), gate ? tn__e_val(e, gate) : -1);
    bool other;
    const int64_t step = tn__ix_coef(x, axis, &other);
    if (other || step != 1 || (gate && (gate->deps >> axis & 1))) return by_lane(e, u, axis);
    e->env[axis] = 0;
    const int index = tn__e_index_row(e, x), g = gate ? tn__e_val(e, gate) : -1;
    e->env[axis] = LANES;
    return load_row(e, buf, dt, (int)size_of(e, axis), index, g);
}

/* Fills a private array in the block of the outer loops that its value depends on, once for each time that
 * block runs. */
static void fill_stage(em *e, int no)
{
    const tn__kstage *st = &e->k->stage[no];
    const int nbuf = e->k->nbuf, at = e->at;
    int open[TN__MAX_RANGES];
    uint64_t own = 0;
    for (int i = 0; i < st->n; i++) own |= st->range[i]->deps;
    if (st->value->deps & ~own & e->regs) {
        tn__fail(TN_EINTERNAL, "codegen: private array %d differs between register copies", no);
        e->r.failed = true;
        return;
    }
    const int home = tn__e_block_of(e, st->value->deps & ~own);
    if (e->staged[no] == home && !e->r.block[home].closed) return;
    e->staged[no] = home;
    e->at = home;
    int index = -1;
    int64_t stride = 1;
    for (int i = 0; i < st->n; i++)
        e->at = open[i] = tn__e_open_loop(e, (int)tn__range_num(st->range[i]), e->at);
    const int v = tn__e_val(e, st->value);
    for (int i = st->n - 1; i >= 0; stride *= tn__range_size(st->range[i--])) {
        const int w = imul(e, e->loop_row[tn__range_num(st->range[i])], stride);
        index = index < 0 ? w : iadd(e, w, index);
    }
    if (index < 0) index = tn__e_konst(e, 0);
    tn__row_at(&e->r, e->at, TN__L_store, (tn_dtype)st->value->dt, 1, index, v, -1, nbuf + no);
    for (int i = st->n - 1; i >= 0; i--) tn__block_close(&e->r, open[i]);
    e->at = at;
}

static int read_stage(em *e, tn__uop *u)
{
    const int no = (int)u->arg[0], axis = tn__e_lane_axis(e, u), buf = e->k->nbuf + no;
    const tn_dtype dt = (tn_dtype)u->dt;
    fill_stage(e, no);
    if (axis < 0)
        return tn__row_at(&e->r, e->at, TN__L_load, dt, 1, tn__e_index_row(e, u->src[0]), -1, -1,
                          buf);
    bool other;
    if (tn__ix_coef(u->src[0], axis, &other) != 1 || other) return by_lane(e, u, axis);
    e->env[axis] = 0;
    const int index = tn__e_index_row(e, u->src[0]);
    e->env[axis] = LANES;
    return tn__row_at(&e->r, e->at, TN__L_load, dt, (int)size_of(e, axis), index, -1, -1, buf);
}

/* ---- values ---- */

static int cast_index(em *e, tn__uop *u)
{
    tn__uop *x = u->src[0];
    const tn_dtype dt = (tn_dtype)u->dt;
    const int axis = tn__e_lane_axis(e, x);
    const bool small = x->lo >= INT32_MIN && x->hi <= INT32_MAX;
    int row = -1;
    if (axis >= 0) {
        const tn_dtype mid = small ? TN_I32 : TN_I64;
        row = index_lanes(e, x, axis, mid);
        if (row < 0) return by_lane(e, u, axis);
        return tn__lower_op(&e->r, TN_OP_CAST, dt, mid, (int)size_of(e, axis), &row);
    }
    row = tn__e_index_row(e, x);
    return tn__lower_op(&e->r, TN_OP_CAST, dt, TN_I64, 1, &row);
}

static int compare_index(em *e, tn__uop *u)
{
    tn__uop *x = u->src[0];
    const int axis = tn__e_lane_axis(e, x);
    const tn__lop op = u->op == TN_OP_LT ? TN__L_lt : TN__L_eq;
    if (axis < 0)
        return tn__row_pure(&e->r, op, TN_BOOL, 1, tn__e_index_row(e, x), tn__e_konst(e, u->arg[0]),
                            -1, 0);
    const bool small = x->lo >= INT32_MIN && x->hi <= INT32_MAX && u->arg[0] >= INT32_MIN &&
                       u->arg[0] <= INT32_MAX;
    const tn_dtype dt = small ? TN_I32 : TN_I64;
    const int lanes = (int)size_of(e, axis), v = index_lanes(e, x, axis, dt);
    if (v < 0) return by_lane(e, u, axis);
    const int k = tn__lower_const(&e->r, dt, lanes,
                                  tn__scalar_bits(dt, tn__scalar_from_int(dt, u->arg[0])));
    return tn__row_pure(&e->r, op, TN_BOOL, lanes, v, k, -1, 0);
}

static int index_atom(em *e, tn__uop *u)
{
    const int a = tn__e_index_row(e, u->src[0]), c = tn__e_konst(e, u->arg[0]);
    if (u->op == TN_OP_MIN) {
        const int less = tn__row_pure(&e->r, TN__L_lt, TN_BOOL, 1, a, c, -1, 0);
        return tn__row_pure(&e->r, TN__L_where, TN_I64, 1, less, a, c, 0);
    }
    if (u->src[0]->lo < 0) { /* floor */
        const int src[2] = {a, c};
        return tn__lower_op(&e->r, (tn__op)u->op, TN_I64, TN_I64, 1, src);
    }
    return tn__row_pure(&e->r, u->op == TN_OP_IDIV ? TN__L_idiv : TN__L_imod, TN_I64, 1, a, c, -1,
                        0);
}

static bool is_index_atom(const tn__uop *u)
{
    return u->narg == 1 && u->nsrc == 1 && u->src[0]->op == TN_OP_AFFINE &&
           (u->op == TN_OP_IDIV || u->op == TN_OP_IMOD || u->op == TN_OP_MIN);
}

static int fresh(em *e, tn__uop *u)
{
    int src[3];
    const tn_dtype dt = (tn_dtype)u->dt;
    switch (u->op) {
    case TN_OP_CONST: return tn__lower_const(&e->r, dt, 1, u->bits);
    case TN_OP_SCALAR: return tn__row_pure(&e->r, TN__L_param, dt, 1, -1, -1, -1, u->arg[0]);
    case TN_OP_AFFINE: return tn__e_index_row(e, u);
    case TN_OP_LOAD: return load(e, u);
    case TN_OP_REDUCE: return tn__e_reduce_value(e, u);
    case TN_OP_SCAN: return tn__e_scan_value(e, u);
    case TN_OP_STAGE: return read_stage(e, u);
    default: break;
    }
    if (is_index_atom(u)) return index_atom(e, u);
    if (u->op == TN_OP_CAST && u->src[0]->op == TN_OP_AFFINE) return cast_index(e, u);
    if ((u->op == TN_OP_LT || u->op == TN_OP_EQ) && u->narg == 1) return compare_index(e, u);
    const int lanes = tn__e_lanes_of(e, u);
    for (int i = 0; i < u->nsrc; i++) src[i] = tn__e_val_lanes(e, u->src[i], lanes);
    const tn_dtype from = (tn_dtype)u->src[u->op == TN_OP_WHERE ? 1 : 0]->dt;
    return tn__lower_op(&e->r, (tn__op)u->op, dt, from, lanes, src);
}

int tn__e_val(em *e, tn__uop *u)
{
    if (e->r.failed || e->k->sp.failed) return 0;
    memo_entry *m = tn__e_memo_at(e, u->id, tn__e_env_key(e, u->deps));
    if (!m) return 0;
    /* a row in a loop that has ended is gone: another copy of a reduction runs its loops anew */
    if (m->id && !e->r.block[e->r.row[m->row].block].closed) return m->row;
    const int row = fresh(e, u);
    if (u->op == TN_OP_LOAD && written(e, (int)u->arg[0])) return row;
    return tn__e_remember(e, u, row);
}
