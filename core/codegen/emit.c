/* SPDX-License-Identifier: MIT */
/*
 * Kernels to linear code.
 *
 * Loops are opened in the order of k->out; a reduction opens its own loops in the block of the deepest output
 * loop that it depends on, once, with an accumulator for every register copy.  Register axes have no
 * loops: their copies are emitted one by one under an environment `env` (range number -> copy), and a
 * VECTOR axis is either lanes (env LANES) or one lane at a time.  Pure rows find their own block
 * (rows.h), so loop-invariant values stand outside without further ado.
 */
#include "codegen/emit.h"
#include "codegen/emit_state.h"
#include "codegen/lower.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- copies of register axes ---- */

typedef struct {
    int n, axis[MAX_REGS];
} axes;

static axes axes_of(const em *e, uint64_t mask, tn__axis_kind kind)
{
    axes x = {0};
    for (int n = 0; n < TN__MAX_RANGES && mask >> n; n++)
        if ((mask >> n & 1) && (e->regs >> n & 1) && tn__range_kind(e->k->sp.range[n]) == kind &&
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

int tn__e_open_loop(em *e, int n, int parent)
{
    const tn__uop *b = e->k->bound[n];
    int count = tn__e_konst(e, size_of(e, n));
    if (b) {
        const int most = tn__e_index_row(e, b);
        const int less = tn__row_pure(&e->r, TN__L_lt, TN_BOOL, 1, most, count, -1, 0);
        count = tn__row_pure(&e->r, TN__L_where, TN_I64, 1, less, most, count, 0);
    }
    const int block = tn__block_open(&e->r, parent, count);
    e->block[n] = block;
    e->loop_row[n] = e->r.block[block].loop;
    return block;
}

int tn__e_block_of(const em *e, uint64_t deps)
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
        const int a = tn__e_val_lanes(e, v->src[0], lanes),
                  b = tn__e_val_lanes(e, v->src[1], lanes);
        return tn__row_at(&e->r, e->at, TN__L_fma, dt, lanes, a, b, acc, 0);
    }
    /* read the variable here and now: a pure row on it could leave the loop */
    const int now = tn__row_at(&e->r, e->at, TN__L_var, dt, lanes, acc, -1, -1, 0);
    const int src[2] = {now, tn__e_val_lanes(e, v, lanes)};
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

/* Copies that the factor with lanes depends on vary fastest: its vectors stay in registers, and a value of the other
 * factor is read, spread over the lanes and used up before the next one. */
static void order_copies(const em *e, const tn__uop *value, axes *x)
{
    axes fast = {0};
    int n = 0;
    if (value->op != TN_OP_MUL || !(value->deps & e->vecs)) return;
    const tn__uop *lanes = value->src[0]->deps & e->vecs ? value->src[0] : value->src[1];
    for (int i = 0; i < x->n; i++)
        if (lanes->deps >> x->axis[i] & 1)
            fast.axis[fast.n++] = x->axis[i];
        else
            x->axis[n++] = x->axis[i];
    memcpy(x->axis + n, fast.axis, (size_t)fast.n * sizeof *fast.axis);
}

/* All copies at once: accumulators in the block of the outer loops, one nest, results remembered. */
static void reduce(em *e, tn__uop *red)
{
    uint64_t own;
    mask_ranges(red, &own);
    axes outer = axes_of(e, red->deps, TN__AXIS_UPCAST);
    const axes parts = axes_of(e, own, TN__AXIS_UPCAST), unroll = axes_of(e, own, TN__AXIS_UNROLL);
    const axes vec = axes_of(e, own, TN__AXIS_VECTOR);
    const int64_t np = copies(e, &parts), n = copies(e, &outer) * np;
    int64_t saved[TN__MAX_RANGES];
    memcpy(saved, e->env, sizeof saved);
    order_copies(e, red->src[0], &outer);
    const int home = tn__e_block_of(e, red->deps), at = e->at;
    const int out_lanes = tn__e_lanes_of(e, red);
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
        inner = tn__e_open_loop(e, num, inner);
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
        if (vec.n) v = tn__e_splat(e, across(e, red, v, lanes), out_lanes);
        tn__e_remember(e, red, v);
    } while (next_copy(e, &outer));
    memcpy(e->env, saved, sizeof saved);
}

int tn__e_reduce_value(em *e, tn__uop *u)
{
    /* one lane of a reduction that is a vector: take it out */
    uint64_t m = u->deps & e->vecs;
    for (int n = 0; n < TN__MAX_RANGES && m >> n; n++) {
        if (!(m >> n & 1) || e->env[n] == LANES) continue;
        const int64_t lane = e->env[n];
        e->env[n] = LANES;
        const int v = tn__e_val(e, u);
        e->env[n] = lane;
        return tn__row_pure(&e->r, TN__L_extract, (tn_dtype)u->dt, 1, v, -1, -1, lane);
    }
    reduce(e, u);
    memo_entry *k = tn__e_memo_at(e, u->id, tn__e_env_key(e, u->deps));
    return k && k->id ? k->row : 0;
}

/* A running reduction: the variable lives outside the ordered loop, which is the innermost one. */
int tn__e_scan_value(em *e, tn__uop *u)
{
    const int n = (int)tn__range_num(u->src[1]);
    const tn_dtype dt = (tn_dtype)u->dt;
    const tn__op op = (tn__op)u->arg[0];
    const int home = e->r.block[e->block[n]].parent;
    const int init = tn__lower_const(&e->r, dt, 1, tn__reduce_identity(op, dt));
    const int acc = tn__row_at(&e->r, home, TN__L_var, dt, 1, init, -1, -1, 0);
    const int now = tn__row_at(&e->r, e->at, TN__L_var, dt, 1, acc, -1, -1, 0);
    const int src[2] = {now, tn__e_val(e, u->src[0])};
    const int v = tn__lower_op(&e->r, op, dt, dt, 1, src);
    tn__row_at(&e->r, e->at, TN__L_set, dt, 1, acc, v, -1, 0);
    return v;
}

/* ---- stores ---- */

static void store_one(em *e, const tn__kstore *st, tn__uop *x, int value, int gate, int lanes)
{
    const tn_dtype dt = e->k->buf[st->buf].dt;
    tn__row_at(&e->r, e->at, TN__L_store, dt, lanes, tn__e_index_row(e, x), value, gate, st->buf);
}

static void store(em *e, const tn__kstore *st)
{
    const tn__uop at = {.src = st->idx};
    tn__uop *x = tn__e_flat_index(e, &at, st->buf, 0);
    int axis = tn__e_lane_axis(e, x);
    if (axis < 0) axis = tn__e_lane_axis(e, st->value);
    if (axis < 0) {
        const int v = tn__e_val(e, st->value);
        store_one(e, st, x, v, st->gate ? tn__e_val(e, st->gate) : -1, 1);
        return;
    }
    bool other;
    const int64_t step = tn__ix_coef(x, axis, &other);
    const int lanes = (int)size_of(e, axis), v = tn__e_val_lanes(e, st->value, lanes);
    if (step == 1 && !other && !(st->gate && (st->gate->deps >> axis & 1))) {
        const int g = st->gate ? tn__e_val(e, st->gate) : -1;
        e->env[axis] = 0;
        store_one(e, st, x, v, g, lanes);
        e->env[axis] = LANES;
        return;
    }
    for (int i = 0; i < lanes; i++) {
        const int s = tn__row_pure(&e->r, TN__L_extract, e->k->buf[st->buf].dt, 1, v, -1, -1, i);
        e->env[axis] = i;
        store_one(e, st, x, s, st->gate ? tn__e_val(e, st->gate) : -1, 1);
    }
    e->env[axis] = LANES;
}

static void start_ranges(em *e)
{
    for (int i = 0; i < TN__KSTAGES; i++) e->staged[i] = -1;
    for (uint32_t n = 0; n < e->k->sp.nranges; n++) {
        const tn__uop *u = e->k->sp.range[n];
        const tn__axis_kind kind = tn__range_kind(u);
        e->block[n] = CLOSED;
        e->loop_row[n] = -1;
        if (kind == TN__AXIS_UPCAST || kind == TN__AXIS_UNROLL || kind == TN__AXIS_VECTOR) {
            e->regs |= u->deps;
            if (kind == TN__AXIS_VECTOR) e->vecs |= u->deps;
            e->env[n] = kind == TN__AXIS_VECTOR ? LANES : 0;
        }
    }
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
        e->at = tn__e_open_loop(e, num, e->at);
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
        if (tn__rows_init(&e->r, &a)) {
            start_ranges(e);
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
