/* SPDX-License-Identifier: MIT */
/*
 * The kernel of SORT: positions along the last axis in stable order, by bottom-up merge sort.
 *
 * Buffer 0 is the operand, buffer 1 the positions (rows of n, contiguous).  A work-group sorts some rows:
 *  1. fill: every element becomes a signed 64-bit key whose order is the wanted one; NaN is the greatest,
 *     -0 equals 0, and descending is the complement
 *  2. passes: runs of w = 1, 2, 4, .. merge in pairs, to and fro between the halves of an array of 2 n; the
 *     right run gives only what is less, so equal keys stay in order
 *  3. drain: the positions of the half last written
 * Keys of at most 32 bits share a word with their position and never tie; wider ones have positions beside
 * them.  The bits are a function of the operand alone: rows are whole.
 */
#include "codegen/emit.h"
#include "codegen/lower.h"
#include <string.h>

enum { GROUP_OPS = 60000, MAX_GROUPS = 64 };

typedef struct {
    tn__kernel *k;
    tn__rows r;
    int at; /* innermost open block */
    int64_t n, rows, per; /* per: rows of a work-group */
    bool packed;
    int words, places; /* scratch buffers: keys (with positions), positions of wide keys */
    int passes;
} st;

/* ---- integers of 64 bits ---- */

static int k64(st *e, int64_t v) { return tn__lower_const(&e->r, TN_I64, 1, (uint64_t)v); }
static int op64(st *e, tn__lop op, int a, int b) { return tn__row_pure(&e->r, op, TN_I64, 1, a, b, -1, 0); }
static int add(st *e, int a, int b) { return op64(e, TN__L_add, a, b); }
static int mulc(st *e, int a, int64_t c) { return c == 1 ? a : op64(e, TN__L_mul, a, k64(e, c)); }
static int less(st *e, int a, int b) { return tn__row_pure(&e->r, TN__L_lt, TN_BOOL, 1, a, b, -1, 0); }
static int both(st *e, tn__lop op, int a, int b) { return tn__row_pure(&e->r, op, TN_BOOL, 1, a, b, -1, 0); }
static int pick(st *e, tn_dtype dt, int c, int a, int b)
{
    return tn__row_pure(&e->r, TN__L_where, dt, 1, c, a, b, 0);
}
static int least(st *e, int a, int b) { return pick(e, TN_I64, less(e, a, b), a, b); }
static int cast(st *e, tn_dtype to, tn_dtype from, int a) { return tn__lower_op(&e->r, TN_OP_CAST, to, from, 1, &a); }

/* ---- memory and variables: rows that stay where they are ---- */

static int load(st *e, int buf, tn_dtype dt, int index, int gate)
{
    return tn__row_at(&e->r, e->at, TN__L_load, dt, 1, index, gate, -1, buf);
}
static void store(st *e, int buf, tn_dtype dt, int index, int v)
{
    tn__row_at(&e->r, e->at, TN__L_store, dt, 1, index, v, -1, buf);
}
static int variable(st *e, int init) { return tn__row_at(&e->r, e->at, TN__L_var, TN_I64, 1, init, -1, -1, 0); }
static void set(st *e, int var, int v) { tn__row_at(&e->r, e->at, TN__L_set, TN_I64, 1, var, v, -1, 0); }

static int open_loop(st *e, int count)
{
    e->at = tn__block_open(&e->r, e->at, count);
    return e->r.block[e->at].loop;
}

static void close_loop(st *e)
{
    const int block = e->at;
    e->at = e->r.block[block].parent;
    tn__block_close(&e->r, block);
}

/* ---- keys ---- */

/* Bits of a float in the order of their values: negatives have their lower bits complemented. */
static int float_key(st *e, tn_dtype dt, int x)
{
    const tn_dtype it = dt == TN_F64 ? TN_I64 : TN_I32;
    const int64_t most = dt == TN_F64 ? INT64_MAX : INT32_MAX;
    const int top = tn__lower_const(&e->r, it, 1, (uint64_t)most);
    const int bits = tn__row_pure(&e->r, TN__L_bitcast, it, 1, x, -1, -1, 0);
    const int shift = tn__lower_const(&e->r, it, 1, dt == TN_F64 ? 63 : 31);
    const int sign = tn__row_pure(&e->r, TN__L_shr, it, 1, bits, shift, -1, 0);
    const int flip = tn__row_pure(&e->r, TN__L_and, it, 1, sign, top, -1, 0);
    int v = tn__row_pure(&e->r, TN__L_xor, it, 1, bits, flip, -1, 0);
    const int zero = both(e, TN__L_eq, x, tn__lower_const_f(&e->r, dt, 1, 0));
    v = pick(e, it, zero, tn__lower_const(&e->r, it, 1, 0), v);
    v = pick(e, it, both(e, TN__L_ne, x, x), top, v);
    return it == TN_I64 ? v : cast(e, TN_I64, it, v);
}

static int key_of(st *e, tn_dtype dt, int x)
{
    int v;
    if (dt == TN_F16 || dt == TN_BF16) v = float_key(e, TN_F32, cast(e, TN_F32, dt, x));
    else if (tn__dtype_is_float(dt)) v = float_key(e, dt, x);
    else v = dt == TN_I64 ? x : cast(e, TN_I64, dt, x);
    if (dt == TN_U32) v = add(e, v, k64(e, INT32_MIN));
    if (dt == TN_U64) v = op64(e, TN__L_xor, v, k64(e, INT64_MIN));
    if (e->k->root->arg[0]) v = tn__row_pure(&e->r, TN__L_not, TN_I64, 1, v, -1, -1, 0);
    return v;
}

/* ---- the operand ---- */

/* Flat index of the first element of row number q. */
static int row_start(st *e, int q)
{
    const tn__kbuf *b = &e->k->buf[0];
    int sum = -1;
    for (int i = b->rank - 2; i >= 0;) {
        int64_t size = b->dims[i];
        const int64_t stride = b->strides[i];
        for (i--; i >= 0 && (b->dims[i] == 1 || b->strides[i] == stride * size); i--) size *= b->dims[i];
        if (size == 1) continue;
        const int one = i < 0 ? q : op64(e, TN__L_imod, q, k64(e, size));
        const int part = mulc(e, one, stride);
        sum = sum < 0 ? part : add(e, sum, part);
        if (i >= 0) q = op64(e, TN__L_idiv, q, k64(e, size));
    }
    if (sum < 0) sum = k64(e, 0);
    const tn__uop *o = b->offset; /* a constant and scalars of the run */
    if (!o) return sum;
    for (int i = 0; i < o->nsrc; i++) {
        const int s = tn__row_pure(&e->r, TN__L_param, TN_I64, 1, -1, -1, -1, o->src[i]->arg[0]);
        sum = add(e, sum, mulc(e, s, o->arg[1 + i]));
    }
    return o->arg[0] ? add(e, sum, k64(e, o->arg[0])) : sum;
}

/* ---- the steps ---- */

static void fill(st *e, int from)
{
    const tn__kbuf *b = &e->k->buf[0];
    const int i = open_loop(e, k64(e, e->n));
    const int x = load(e, 0, b->dt, add(e, from, mulc(e, i, b->strides[b->rank - 1])), -1);
    int key = key_of(e, b->dt, x);
    if (e->packed) key = op64(e, TN__L_or, op64(e, TN__L_shl, key, k64(e, 32)), i);
    else store(e, e->places, TN_I32, i, cast(e, TN_I32, TN_I64, i));
    store(e, e->words, TN_I64, i, key);
    close_loop(e);
}

/* Merges the run at `lo` of width w with the one behind it. */
static void merge(st *e, int lo, int width, int from, int to)
{
    const int n = k64(e, e->n);
    const int mid = least(e, add(e, lo, width), n), end = least(e, add(e, mid, width), n);
    const int left = variable(e, add(e, lo, from)), right = variable(e, add(e, mid, from));
    const int left_end = add(e, mid, from), right_end = add(e, end, from);
    const int target = add(e, lo, to);
    const int o = open_loop(e, op64(e, TN__L_sub, end, lo));
    const int i = variable(e, left), j = variable(e, right); /* their values now */
    const int has_left = less(e, i, left_end), has_right = less(e, j, right_end);
    const int a = load(e, e->words, TN_I64, i, has_left), b = load(e, e->words, TN_I64, j, has_right);
    const int none = tn__row_pure(&e->r, TN__L_not, TN_BOOL, 1, has_left, -1, -1, 0);
    const int take = both(e, TN__L_and, has_right, both(e, TN__L_or, none, less(e, b, a)));
    const int at = add(e, target, o);
    store(e, e->words, TN_I64, at, pick(e, TN_I64, take, b, a));
    if (!e->packed) store(e, e->places, TN_I32, at, load(e, e->places, TN_I32, pick(e, TN_I64, take, j, i), -1));
    const int step = cast(e, TN_I64, TN_BOOL, take);
    set(e, right, add(e, j, step));
    set(e, left, op64(e, TN__L_sub, add(e, i, k64(e, 1)), step));
    close_loop(e);
}

static void passes(st *e)
{
    const int p = open_loop(e, k64(e, e->passes)), one = k64(e, 1);
    const int width = op64(e, TN__L_shl, one, p);
    const int from = mulc(e, op64(e, TN__L_and, p, one), e->n), to = op64(e, TN__L_sub, k64(e, e->n), from);
    const int pair = add(e, p, one); /* runs of a pair hold 1 << pair elements */
    const int last = op64(e, TN__L_sub, op64(e, TN__L_shl, one, pair), one);
    const int t = open_loop(e, op64(e, TN__L_shr, add(e, k64(e, e->n), last), pair));
    merge(e, op64(e, TN__L_shl, t, pair), width, from, to);
    close_loop(e);
    close_loop(e);
}

static void drain(st *e, int to)
{
    const int i = open_loop(e, k64(e, e->n));
    const int at = add(e, i, k64(e, e->passes & 1 ? e->n : 0));
    int v = load(e, e->packed ? e->words : e->places, e->packed ? TN_I64 : TN_I32, at, -1);
    if (e->packed) v = cast(e, TN_I32, TN_I64, v); /* the low half */
    store(e, 1, TN_I32, add(e, to, i), v);
    close_loop(e);
}

/* ---- the kernel ---- */

static void groups(st *e)
{
    tn__kernel *k = e->k;
    int64_t parts = (int64_t)(k->ops / GROUP_OPS);
    if (parts > MAX_GROUPS) parts = MAX_GROUPS;
    if (parts > e->rows) parts = e->rows;
    if (parts < 1) parts = 1;
    e->per = (e->rows + parts - 1) / parts;
    k->grid = (e->rows + e->per - 1) / e->per; /* none is empty */
}

static void kernel(st *e)
{
    int first = k64(e, 0), count = k64(e, e->rows);
    if (e->k->grid > 1) {
        first = mulc(e, tn__row_pure(&e->r, TN__L_gid, TN_I64, 1, -1, -1, -1, 0), e->per);
        count = least(e, op64(e, TN__L_sub, count, first), k64(e, e->per));
    }
    const int q = add(e, first, open_loop(e, count));
    fill(e, row_start(e, q));
    passes(e);
    drain(e, mulc(e, q, e->n));
    close_loop(e);
}

static uint64_t scratch(st *e, tnl_buf *b)
{
    const uint64_t n = 2 * (uint64_t)e->n, words = (n * 8 + 63) / 64 * 64;
    b[0] = (tnl_buf){.count = n, .dtype = TN_I64, .access = TNP_ACCESS_READ | TNP_ACCESS_WRITE};
    if (e->packed) return words;
    b[1] = (tnl_buf){.count = n, .dtype = TN_I32, .access = TNP_ACCESS_READ | TNP_ACCESS_WRITE, .offset = words};
    return words + (n * 4 + 63) / 64 * 64;
}

static int passes_of(int64_t n)
{
    int p = 0;
    while (INT64_C(1) << p < n) p++;
    return p;
}

static int64_t rows_of(const tn__uop *u)
{
    int64_t rows = 1;
    for (int i = 0; i + 1 < u->rank; i++) rows *= u->dims[i];
    return rows;
}

double tn__sort_ops(const tn__kernel *k)
{
    const int64_t n = k->root->dims[k->root->rank - 1];
    return (double)rows_of(k->root) * (double)n * (4 + 8 * passes_of(n));
}

bool tn__emit_sort(tn__kernel *k, tn__buf *blob)
{
    tn__arena a = {0};
    tnl_buf bufs[2];
    const int64_t n = k->root->dims[k->root->rank - 1];
    st e = {.k = k, .n = n, .rows = rows_of(k->root), .passes = passes_of(n), .words = k->nbuf, .places = k->nbuf + 1};
    e.packed = tn__dtype_size(k->buf[0].dt) <= 4;
    groups(&e);
    bool ok = tn__rows_init(&e.r, &a);
    if (ok) {
        kernel(&e);
        const uint64_t bytes = scratch(&e, bufs);
        ok = !e.r.failed && tn__emit_blob(k, &e.r, bufs, e.packed ? 1 : 2, bytes, blob);
    }
    tn__arena_free(&a);
    if (!ok && tn_ok()) tn__fail_nomem();
    return ok;
}
