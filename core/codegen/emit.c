/* SPDX-License-Identifier: MIT */
/*
 * Kernels to linear code.
 *
 * Loops are opened in the order of k->out; a reduction opens its own loops in the block of the deepest output
 * loop that it depends on, once, with an accumulator for every register copy.  Register axes have no
 * loops: their copies are emitted one by one under an environment `env` (range number -> copy), and a
 * VECTOR axis is either lanes (env LANES) or one lane at a time.  Pure rows find their own block
 * (rows.h), so loop-invariant values stand outside without further ado.
 *
 * Recursion follows one kernel's expression, whose size the scheduler bounds.
 */
#include "codegen/emit.h"
#include "codegen/lower.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { LANES = -1, CLOSED = -2, MAX_REGS = 16 };

typedef struct {
    uint32_t id;
    uint64_t env;
    int row;
} memo_entry;

typedef struct {
    tn__kernel *k;
    const tn__codegen_target *t;
    tn__arena *a;
    tn__rows r;
    tn__uop *range[TN__MAX_RANGES]; /* by number */
    uint64_t regs;                  /* ranges without a loop */
    uint64_t vecs;                  /* VECTOR ranges among them */
    int64_t env[TN__MAX_RANGES];    /* copy of a register axis, LANES */
    int block[TN__MAX_RANGES];      /* block of a loop, CLOSED */
    int loop_row[TN__MAX_RANGES];
    int at;                  /* innermost open block */
    int staged[TN__KSTAGES]; /* block in which the private array was filled, -1: not yet */
    memo_entry *memo;
    size_t cap_memo, nmemo;
} em;

static int val(em *e, tn__uop *u);

static int64_t size_of(const em *e, int n) { return tn__range_size(e->range[n]); }

/* ---- memo ---- */

static uint64_t env_key(const em *e, uint64_t deps)
{
    uint64_t key = 0;
    for (int n = 0; n < TN__MAX_RANGES && deps >> n; n++)
        if ((deps & e->regs) >> n & 1)
            key = key * (uint64_t)(size_of(e, n) + 2) + (uint64_t)(e->env[n] + 2);
    return key;
}

static memo_entry *memo_at(em *e, uint32_t id, uint64_t key)
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

static int remember(em *e, const tn__uop *u, int row)
{
    memo_entry *m = memo_at(e, u->id, env_key(e, u->deps));
    if (!m) return row;
    e->nmemo += !m->id;
    *m = (memo_entry){u->id, env_key(e, u->deps), row};
    return row;
}

/* ---- lanes ---- */

/* Number of the VECTOR range that makes u a vector now, or -1. */
static int lane_axis(const em *e, const tn__uop *u)
{
    const uint64_t m = u->deps & e->vecs;
    for (int n = 0; n < TN__MAX_RANGES && m >> n; n++)
        if ((m >> n & 1) && e->env[n] == LANES) return n;
    return -1;
}

static int lanes_of(const em *e, const tn__uop *u)
{
    const int v = lane_axis(e, u);
    return v < 0 ? 1 : (int)size_of(e, v);
}

static int splat(em *e, int row, int lanes)
{
    if (e->r.failed) return 0;
    const tn__row w = e->r.row[row];
    if (w.lanes == lanes) return row;
    if (w.op == TN__L_const) return tn__lower_const(&e->r, (tn_dtype)w.dt, lanes, (uint64_t)w.imm);
    return tn__row_pure(&e->r, TN__L_splat, (tn_dtype)w.dt, lanes, row, -1, -1, 0);
}

/* u's value as `lanes` lanes. */
static int val_lanes(em *e, tn__uop *u, int lanes) { return splat(e, val(e, u), lanes); }

/* Lane by lane, then put together. */
static int by_lane(em *e, tn__uop *u, int axis)
{
    const int lanes = (int)size_of(e, axis);
    int v = -1;
    for (int i = 0; i < lanes; i++) {
        e->env[axis] = i;
        const int s = val(e, u);
        if (v < 0)
            v = splat(e, s, lanes);
        else
            v = tn__row_pure(&e->r, TN__L_insert, (tn_dtype)u->dt, lanes, v, s, -1, i);
    }
    e->env[axis] = LANES;
    return v;
}

/* ---- indices ---- */

static int konst(em *e, int64_t v) { return tn__lower_const(&e->r, TN_I64, 1, (uint64_t)v); }
static int iadd(em *e, int a, int b)
{
    return tn__row_pure(&e->r, TN__L_add, TN_I64, 1, a, b, -1, 0);
}
static int imul(em *e, int a, int64_t c)
{
    return c == 1 ? a : tn__row_pure(&e->r, TN__L_mul, TN_I64, 1, a, konst(e, c), -1, 0);
}

static int atom_row(em *e, tn__uop *u)
{
    if (u->op == TN_OP_RANGE) return e->loop_row[u->arg[0]];
    return val(e, u);
}

/* A scalar index.  Copies of register axes join the constant, so that copies share the rest; terms are
 * added from the outermost loop inwards. */
static int index_row(em *e, const tn__uop *x)
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
    if (!n) return konst(e, c);
    int sum = row[0];
    for (int i = 1; i < n; i++) sum = iadd(e, sum, row[i]);
    return c ? iadd(e, sum, konst(e, c)) : sum;
}

/* Index of lanes as numbers of dtype dt: base + step * {0, 1, ..}, or lane by lane. */
static int index_lanes(em *e, tn__uop *x, int axis, tn_dtype dt)
{
    bool other;
    const int64_t step = tn__ix_coef(x, axis, &other);
    const int lanes = (int)size_of(e, axis);
    if (other) return -1;
    e->env[axis] = 0;
    int base = index_row(e, x);
    e->env[axis] = LANES;
    if (dt != TN_I64) base = tn__row_pure(&e->r, TN__L_cast, dt, 1, base, -1, -1, 0);
    int iota = tn__lower_const(&e->r, dt, lanes, 0);
    for (int i = 1; i < lanes; i++) {
        const int k = tn__lower_const(&e->r, dt, 1,
                                      tn__scalar_bits(dt, tn__scalar_from_int(dt, step * i)));
        iota = tn__row_pure(&e->r, TN__L_insert, dt, lanes, iota, k, -1, i);
    }
    return tn__row_pure(&e->r, TN__L_add, dt, lanes, splat(e, base, lanes), iota, -1, 0);
}

static tn__uop *flat_index(em *e, const tn__uop *u, int buf, int first)
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
    const int buf = (int)u->arg[0], axis = lane_axis(e, u);
    tn__uop *gate = u->arg[1] ? u->src[u->nsrc - 1] : NULL;
    tn__uop *x = flat_index(e, u, buf, 0);
    const tn_dtype dt = (tn_dtype)u->dt;
    if (axis < 0) return load_row(e, buf, dt, 1, index_row(e, x), gate ? val(e, gate) : -1);
    bool other;
    const int64_t step = tn__ix_coef(x, axis, &other);
    if (other || step != 1 || (gate && (gate->deps >> axis & 1))) return by_lane(e, u, axis);
    e->env[axis] = 0;
    const int index = index_row(e, x), g = gate ? val(e, gate) : -1;
    e->env[axis] = LANES;
    return load_row(e, buf, dt, (int)size_of(e, axis), index, g);
}

static int open_loop(em *e, int n, int parent);
static int block_of(const em *e, uint64_t deps);

/* Fills a private array in the block of the outer loops that its value depends on, once for each time that
 * block runs. */
static void fill_stage(em *e, int no)
{
    const tn__kstage *st = &e->k->stage[no];
    const int nbuf = e->k->nbuf, at = e->at;
    int open[TN__MAX_RANGES];
    uint64_t own = 0;
    for (int i = 0; i < st->n; i++) own |= st->range[i]->deps;
    const int home = block_of(e, st->value->deps & ~own);
    if (e->staged[no] == home && !e->r.block[home].closed) return;
    e->staged[no] = home;
    e->at = home;
    int index = -1;
    int64_t stride = 1;
    for (int i = 0; i < st->n; i++)
        e->at = open[i] = open_loop(e, (int)tn__range_num(st->range[i]), e->at);
    const int v = val(e, st->value);
    for (int i = st->n - 1; i >= 0; stride *= tn__range_size(st->range[i--])) {
        const int w = imul(e, e->loop_row[tn__range_num(st->range[i])], stride);
        index = index < 0 ? w : iadd(e, w, index);
    }
    if (index < 0) index = konst(e, 0);
    tn__row_at(&e->r, e->at, TN__L_store, (tn_dtype)st->value->dt, 1, index, v, -1, nbuf + no);
    for (int i = st->n - 1; i >= 0; i--) tn__block_close(&e->r, open[i]);
    e->at = at;
}

static int read_stage(em *e, tn__uop *u)
{
    const int no = (int)u->arg[0], axis = lane_axis(e, u), buf = e->k->nbuf + no;
    const tn_dtype dt = (tn_dtype)u->dt;
    fill_stage(e, no);
    if (axis < 0)
        return tn__row_at(&e->r, e->at, TN__L_load, dt, 1, index_row(e, u->src[0]), -1, -1, buf);
    bool other;
    if (tn__ix_coef(u->src[0], axis, &other) != 1 || other) return by_lane(e, u, axis);
    e->env[axis] = 0;
    const int index = index_row(e, u->src[0]);
    e->env[axis] = LANES;
    return tn__row_at(&e->r, e->at, TN__L_load, dt, (int)size_of(e, axis), index, -1, -1, buf);
}

/* ---- copies of register axes ---- */

typedef struct {
    int n, axis[MAX_REGS];
} axes;

static axes axes_of(const em *e, uint64_t mask, tn__axis_kind kind)
{
    axes x = {0};
    for (int n = 0; n < TN__MAX_RANGES && mask >> n; n++)
        if ((mask >> n & 1) && (e->regs >> n & 1) && tn__range_kind(e->range[n]) == kind &&
            x.n < MAX_REGS)
            x.axis[x.n++] = n;
    return x;
}

static void first_copy(em *e, const axes *x)
{
    for (int i = 0; i < x->n; i++) e->env[x->axis[i]] = 0;
}

static bool next_copy(em *e, const axes *x)
{
    for (int i = x->n - 1; i >= 0; i--) {
        if (++e->env[x->axis[i]] < size_of(e, x->axis[i])) return true;
        e->env[x->axis[i]] = 0;
    }
    return false;
}

static int64_t copies(const em *e, const axes *x)
{
    int64_t c = 1;
    for (int i = 0; i < x->n; i++) c *= size_of(e, x->axis[i]);
    return c;
}

/* ---- loops ---- */

static int open_loop(em *e, int n, int parent)
{
    const tn__uop *b = e->k->bound[n];
    int count = konst(e, size_of(e, n));
    if (b) {
        const int most = index_row(e, b);
        const int less = tn__row_pure(&e->r, TN__L_lt, TN_BOOL, 1, most, count, -1, 0);
        count = tn__row_pure(&e->r, TN__L_where, TN_I64, 1, less, most, count, 0);
    }
    const int block = tn__block_open(&e->r, parent, count);
    e->block[n] = block;
    e->loop_row[n] = e->r.block[block].loop;
    return block;
}

static int block_of(const em *e, uint64_t deps)
{
    int b = 0;
    for (int n = 0; n < TN__MAX_RANGES && deps >> n; n++)
        if ((deps >> n & 1) && !(e->regs >> n & 1) && e->block[n] >= 0)
            b = tn__block_deeper(&e->r, b, e->block[n]);
    return b;
}

/* ---- reductions ---- */

static int accumulate(em *e, tn__uop *red, tn__uop *v, int acc, int lanes)
{
    const tn__op op = (tn__op)red->arg[0];
    const tn_dtype dt = (tn_dtype)red->dt;
    if (op == TN_OP_ADD && v->op == TN_OP_MUL && e->k->fma && (dt == TN_F32 || dt == TN_F64)) {
        const int a = val_lanes(e, v->src[0], lanes), b = val_lanes(e, v->src[1], lanes);
        return tn__row_at(&e->r, e->at, TN__L_fma, dt, lanes, a, b, acc, 0);
    }
    /* read the variable here and now: a pure row on it could leave the loop */
    const int now = tn__row_at(&e->r, e->at, TN__L_var, dt, lanes, acc, -1, -1, 0);
    const int src[2] = {now, val_lanes(e, v, lanes)};
    return tn__lower_op(&e->r, op, dt, dt, lanes, src);
}

/* Lanes of a partial result by halves of a fixed tree. */
static int across(em *e, const tn__uop *red, int row, int lanes)
{
    int part[64];
    const tn_dtype dt = (tn_dtype)red->dt;
    for (int i = 0; i < lanes; i++)
        part[i] = tn__row_pure(&e->r, TN__L_extract, dt, 1, row, -1, -1, i);
    for (int n = lanes; n > 1; n = (n + 1) / 2)
        for (int i = 0; i + (n + 1) / 2 < n; i++) {
            const int src[2] = {part[i], part[i + (n + 1) / 2]};
            part[i] = tn__lower_op(&e->r, (tn__op)red->arg[0], dt, dt, 1, src);
        }
    return part[0];
}

static void mask_ranges(const tn__uop *red, uint64_t *own)
{
    *own = 0;
    for (int i = 1; i < red->nsrc; i++) *own |= red->src[i]->deps;
}

/* All copies at once: accumulators in the block of the outer loops, one nest, results remembered. */
static void reduce(em *e, tn__uop *red)
{
    uint64_t own;
    mask_ranges(red, &own);
    const axes outer = axes_of(e, red->deps, TN__AXIS_UPCAST);
    const axes parts = axes_of(e, own, TN__AXIS_UPCAST), unroll = axes_of(e, own, TN__AXIS_UNROLL);
    const axes vec = axes_of(e, own, TN__AXIS_VECTOR);
    const int64_t np = copies(e, &parts), n = copies(e, &outer) * np;
    int64_t saved[TN__MAX_RANGES];
    memcpy(saved, e->env, sizeof saved);
    const int home = block_of(e, red->deps), at = e->at;
    const int out_lanes = lanes_of(e, red);
    const int lanes = vec.n ? (int)size_of(e, vec.axis[0]) : out_lanes;
    int *acc = tn__arena_alloc(e->a, (size_t)n * sizeof *acc), opened[TN__MAX_RANGES], nopen = 0;
    if (!acc) {
        e->r.failed = true;
        return;
    }
    const int zero = tn__lower_const(&e->r, (tn_dtype)red->dt, lanes,
                                     tn__reduce_identity((tn__op)red->arg[0], (tn_dtype)red->dt));
    for (int64_t i = 0; i < n; i++)
        acc[i] = tn__row_at(&e->r, home, TN__L_var, (tn_dtype)red->dt, lanes, zero, -1, -1, 0);
    int inner = home;
    for (int i = 1; i < red->nsrc; i++) {
        const int num = (int)tn__range_num(red->src[i]);
        if (e->regs >> num & 1) continue;
        inner = open_loop(e, num, inner);
        opened[nopen++] = inner;
    }
    e->at = inner;
    first_copy(e, &unroll);
    do {
        int64_t i = 0;
        first_copy(e, &outer);
        do {
            first_copy(e, &parts);
            do {
                const int v = accumulate(e, red, red->src[0], acc[i], lanes);
                tn__row_at(&e->r, inner, TN__L_set, (tn_dtype)red->dt, lanes, acc[i], v, -1, 0);
                i++;
            } while (next_copy(e, &parts));
        } while (next_copy(e, &outer));
    } while (next_copy(e, &unroll));
    while (nopen) tn__block_close(&e->r, opened[--nopen]);
    e->at = at;
    first_copy(e, &outer);
    int64_t i = 0;
    do {
        int v = acc[i++];
        for (int64_t p = 1; p < np; p++) {
            const int src[2] = {v, acc[i++]};
            v = tn__lower_op(&e->r, (tn__op)red->arg[0], (tn_dtype)red->dt, (tn_dtype)red->dt,
                             lanes, src);
        }
        if (vec.n) v = splat(e, across(e, red, v, lanes), out_lanes);
        remember(e, red, v);
    } while (next_copy(e, &outer));
    memcpy(e->env, saved, sizeof saved);
}

static int reduce_value(em *e, tn__uop *u)
{
    /* one lane of a reduction that is a vector: take it out */
    uint64_t m = u->deps & e->vecs;
    for (int n = 0; n < TN__MAX_RANGES && m >> n; n++) {
        if (!(m >> n & 1) || e->env[n] == LANES) continue;
        const int64_t lane = e->env[n];
        e->env[n] = LANES;
        const int v = val(e, u);
        e->env[n] = lane;
        return tn__row_pure(&e->r, TN__L_extract, (tn_dtype)u->dt, 1, v, -1, -1, lane);
    }
    reduce(e, u);
    memo_entry *k = memo_at(e, u->id, env_key(e, u->deps));
    return k && k->id ? k->row : 0;
}

/* A running reduction: the variable lives outside the ordered loop, which is the innermost one. */
static int scan_value(em *e, tn__uop *u)
{
    const int n = (int)tn__range_num(u->src[1]);
    const tn_dtype dt = (tn_dtype)u->dt;
    const tn__op op = (tn__op)u->arg[0];
    const int home = e->r.block[e->block[n]].parent;
    const int init = tn__lower_const(&e->r, dt, 1, tn__reduce_identity(op, dt));
    const int acc = tn__row_at(&e->r, home, TN__L_var, dt, 1, init, -1, -1, 0);
    const int now = tn__row_at(&e->r, e->at, TN__L_var, dt, 1, acc, -1, -1, 0);
    const int src[2] = {now, val(e, u->src[0])};
    const int v = tn__lower_op(&e->r, op, dt, dt, 1, src);
    tn__row_at(&e->r, e->at, TN__L_set, dt, 1, acc, v, -1, 0);
    return v;
}

/* ---- values ---- */

static int cast_index(em *e, tn__uop *u)
{
    tn__uop *x = u->src[0];
    const tn_dtype dt = (tn_dtype)u->dt;
    const int axis = lane_axis(e, x);
    const bool small = x->lo >= INT32_MIN && x->hi <= INT32_MAX;
    int row = -1;
    if (axis >= 0) {
        const tn_dtype mid = small ? TN_I32 : TN_I64;
        row = index_lanes(e, x, axis, mid);
        if (row < 0) return by_lane(e, u, axis);
        return tn__lower_op(&e->r, TN_OP_CAST, dt, mid, (int)size_of(e, axis), &row);
    }
    row = index_row(e, x);
    return tn__lower_op(&e->r, TN_OP_CAST, dt, TN_I64, 1, &row);
}

static int compare_index(em *e, tn__uop *u)
{
    tn__uop *x = u->src[0];
    const int axis = lane_axis(e, x);
    const tn__lop op = u->op == TN_OP_LT ? TN__L_lt : TN__L_eq;
    if (axis < 0)
        return tn__row_pure(&e->r, op, TN_BOOL, 1, index_row(e, x), konst(e, u->arg[0]), -1, 0);
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
    const int a = index_row(e, u->src[0]), c = konst(e, u->arg[0]);
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
    case TN_OP_AFFINE: return index_row(e, u);
    case TN_OP_LOAD: return load(e, u);
    case TN_OP_REDUCE: return reduce_value(e, u);
    case TN_OP_SCAN: return scan_value(e, u);
    case TN_OP_STAGE: return read_stage(e, u);
    default: break;
    }
    if (is_index_atom(u)) return index_atom(e, u);
    if (u->op == TN_OP_CAST && u->src[0]->op == TN_OP_AFFINE) return cast_index(e, u);
    if ((u->op == TN_OP_LT || u->op == TN_OP_EQ) && u->narg == 1) return compare_index(e, u);
    const int lanes = lanes_of(e, u);
    for (int i = 0; i < u->nsrc; i++) src[i] = val_lanes(e, u->src[i], lanes);
    const tn_dtype from = (tn_dtype)u->src[u->op == TN_OP_WHERE ? 1 : 0]->dt;
    return tn__lower_op(&e->r, (tn__op)u->op, dt, from, lanes, src);
}

static int val(em *e, tn__uop *u)
{
    if (e->r.failed || e->k->sp.failed) return 0;
    memo_entry *m = memo_at(e, u->id, env_key(e, u->deps));
    if (!m) return 0;
    /* a row in a loop that has ended is gone: another copy of a reduction runs its loops anew */
    if (m->id && !e->r.block[e->r.row[m->row].block].closed) return m->row;
    const int row = fresh(e, u);
    if (u->op == TN_OP_LOAD && written(e, (int)u->arg[0])) return row;
    return remember(e, u, row);
}

/* ---- stores ---- */

static void store_one(em *e, const tn__kstore *st, tn__uop *x, int value, int gate, int lanes)
{
    const tn_dtype dt = e->k->buf[st->buf].dt;
    tn__row_at(&e->r, e->at, TN__L_store, dt, lanes, index_row(e, x), value, gate, st->buf);
}

static void store(em *e, const tn__kstore *st)
{
    const tn__uop at = {.src = st->idx};
    tn__uop *x = flat_index(e, &at, st->buf, 0);
    int axis = lane_axis(e, x);
    if (axis < 0) axis = lane_axis(e, st->value);
    if (axis < 0) {
        const int v = val(e, st->value);
        store_one(e, st, x, v, st->gate ? val(e, st->gate) : -1, 1);
        return;
    }
    bool other;
    const int64_t step = tn__ix_coef(x, axis, &other);
    const int lanes = (int)size_of(e, axis), v = val_lanes(e, st->value, lanes);
    if (step == 1 && !other && !(st->gate && (st->gate->deps >> axis & 1))) {
        const int g = st->gate ? val(e, st->gate) : -1;
        e->env[axis] = 0;
        store_one(e, st, x, v, g, lanes);
        e->env[axis] = LANES;
        return;
    }
    for (int i = 0; i < lanes; i++) {
        const int s = tn__row_pure(&e->r, TN__L_extract, e->k->buf[st->buf].dt, 1, v, -1, -1, i);
        e->env[axis] = i;
        store_one(e, st, x, s, st->gate ? val(e, st->gate) : -1, 1);
    }
    e->env[axis] = LANES;
}

static bool find_ranges(em *e)
{
    for (int i = 0; i < TN__KSTAGES; i++) e->staged[i] = -1;
    for (size_t i = 0; i < e->k->sp.cap; i++) {
        tn__uop *u = e->k->sp.table[i];
        if (!u || u->op != TN_OP_RANGE) continue;
        const int n = (int)tn__range_num(u);
        const tn__axis_kind kind = tn__range_kind(u);
        e->range[n] = u;
        e->block[n] = CLOSED;
        e->loop_row[n] = -1;
        if (kind == TN__AXIS_UPCAST || kind == TN__AXIS_UNROLL || kind == TN__AXIS_VECTOR) {
            e->regs |= u->deps;
            if (kind == TN__AXIS_VECTOR) e->vecs |= u->deps;
            e->env[n] = kind == TN__AXIS_VECTOR ? LANES : 0;
        }
    }
    return true;
}

static void nest(em *e)
{
    tn__kernel *k = e->k;
    int open[TN__MAX_RANGES], n = 0;
    uint64_t out = 0;
    e->at = 0;
    k->grid = 1;
    for (int i = 0; i < k->nout; i++) {
        const int num = (int)tn__range_num(k->out[i]);
        out |= k->out[i]->deps;
        if (e->regs >> num & 1) continue;
        if (tn__range_kind(k->out[i]) == TN__AXIS_GRID) {
            e->loop_row[num] = tn__row_pure(&e->r, TN__L_gid, TN_I64, 1, -1, -1, -1, 0);
            e->block[num] = 0;
            k->grid = size_of(e, num);
            continue;
        }
        e->at = open_loop(e, num, e->at);
        open[n++] = e->at;
    }
    const axes up = axes_of(e, out, TN__AXIS_UPCAST);
    first_copy(e, &up);
    do {
        for (int i = 0; i < k->nstore; i++) store(e, &k->store[i]);
    } while (next_copy(e, &up));
    while (n) tn__block_close(&e->r, open[--n]);
}

bool tn__emit_blob(tn__kernel *k, tn__rows *r, const tnl_buf *scratch, uint32_t nscratch,
                   uint64_t bytes, tn__buf *blob)
{
    tnl_head h = {.nargs = (uint32_t)k->nbuf,
                  .nscratch = nscratch,
                  .nimms = (uint32_t)k->nscalar,
                  .grid = {(uint32_t)k->grid, 1, 1},
                  .local = {1, 1, 1},
                  .scratch_bytes = bytes};
    tnl_buf bufs[TN__KBUFS + 4];
    memset(bufs, 0, sizeof bufs);
    for (int i = 0; i < k->nbuf; i++) {
        bufs[i].count = (uint64_t)k->buf[i].numel;
        bufs[i].dtype = (uint8_t)k->buf[i].dt;
        bufs[i].access = k->buf[i].access;
    }
    for (uint32_t i = 0; i < nscratch; i++) bufs[(uint32_t)k->nbuf + i] = scratch[i];
    if (!tn__rows_blob(r, &h, bufs, blob)) return false;
    const tn__hash hash = tn__hash_bytes(blob->data, blob->len);
    snprintf(k->name, sizeof k->name, "k_%016" PRIx64, hash.lo);
    memcpy(blob->data + offsetof(tnl_head, name), k->name, strlen(k->name) + 1);
    return true;
}

/* Private arrays, 64-byte aligned one after the other; all of their bytes. */
static uint64_t stages(const tn__kernel *k, tnl_buf *out)
{
    uint64_t at = 0;
    for (int i = 0; i < k->nstage; i++) {
        const tn__kstage *st = &k->stage[i];
        out[i] = (tnl_buf){.count = (uint64_t)st->numel,
                           .dtype = st->value->dt,
                           .access = TNP_ACCESS_READ | TNP_ACCESS_WRITE,
                           .offset = at};
        at += ((uint64_t)st->numel * tn__dtype_size((tn_dtype)st->value->dt) + 63) & ~UINT64_C(63);
    }
    return at;
}

bool tn__emit(tn__kernel *k, const tn__codegen_target *t, tn__buf *blob)
{
    if (k->root->op == TN_OP_SORT) return tn__emit_sort(k, blob);
    tn__arena a = {0};
    em *e = tn__arena_zero(&a, sizeof *e);
    bool ok = false;
    if (e) {
        e->k = k;
        e->t = t;
        e->a = &a;
        k->fma = t->fma;
        if (tn__rows_init(&e->r, &a) && find_ranges(e)) {
            e->r.fma = t->fma;
            tnl_buf scratch[TN__KSTAGES];
            const uint64_t bytes = stages(k, scratch);
            nest(e);
            ok = !e->r.failed && !k->sp.failed &&
                 tn__emit_blob(k, &e->r, scratch, (uint32_t)k->nstage, bytes, blob);
        }
    }
    tn__arena_free(&a);
    if (!ok && tn_ok()) tn__fail_nomem();
    return ok;
}
