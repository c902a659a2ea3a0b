/* SPDX-License-Identifier: MIT */
/*
 * The kernel of SORT: positions along the last axis in stable order.
 *
 * Buffer 0 is the operand, buffer 1 the positions (rows of n, contiguous).  A work-group sorts some
 * rows:
 *  1. fill: every element becomes a signed key of as many bits as its dtype, whose order is the
 *     wanted one: NaN is the greatest, -0 equals 0, descending is the complement
 *  2. passes, to and fro between the halves of an array of 2 n.  Short rows: runs of 1, 2, 4, .. merge
 *     in pairs; the right run gives only what is less, so equal keys stay in order.  Long rows: stable
 *     distribution by one digit of 8 bits a pass, the least first (Knuth, vol. 3, 5.2.5)
 *  3. drain: the positions of the half last written
 * Keys of at most 32 bits share a word with their position and never tie; wider ones have positions
 * beside them.  A row is sorted by one work-group: the result does not depend on their number.
 */
#include "codegen/emit.h"
#include "codegen/lower.h"
#include <string.h>

enum { GROUP_OPS = 60000, MAX_GROUPS = 64, DIGIT = 8, DIGITS = 1 << DIGIT };

typedef struct {
    const tn__kernel *k;
    tn__rows r;
    int at;               /* innermost open block */
    int64_t n, rows, per; /* per: rows of a work-group */
    int bits;             /* of a key */
    bool packed;          /* key << 32 | position */
    bool digits;          /* by distribution */
    int passes;
    int words, places,
        counts; /* scratch buffers: keys (with positions), positions of wide keys, of digits */
} st;

/* ---- integers of 64 bits ---- */

static int k64(st *e, int64_t v) { return tn__lower_const(&e->r, TN_I64, 1, (uint64_t)v); }
static int op64(st *e, tn__lop op, int a, int b)
{
    return tn__row_pure(&e->r, op, TN_I64, 1, a, b, -1, 0);
}
static int add(st *e, int a, int b) { return op64(e, TN__L_add, a, b); }
static int mulc(st *e, int a, int64_t c) { return c == 1 ? a : op64(e, TN__L_mul, a, k64(e, c)); }
static int less(st *e, int a, int b)
{
    return tn__row_pure(&e->r, TN__L_lt, TN_BOOL, 1, a, b, -1, 0);
}
static int both(st *e, tn__lop op, int a, int b)
{
    return tn__row_pure(&e->r, op, TN_BOOL, 1, a, b, -1, 0);
}
static int pick(st *e, tn_dtype dt, int c, int a, int b)
{
    return tn__row_pure(&e->r, TN__L_where, dt, 1, c, a, b, 0);
}
/* a where the mask is -1, b where it is 0: by bits, since a branch would be mispredicted half of the
 * time. */
static int either(st *e, int mask, int a, int b)
{
    return op64(e, TN__L_xor, b, op64(e, TN__L_and, op64(e, TN__L_xor, a, b), mask));
}
static int least(st *e, int a, int b) { return pick(e, TN_I64, less(e, a, b), a, b); }
static int cast(st *e, tn_dtype to, tn_dtype from, int a)
{
    return tn__lower_op(&e->r, TN_OP_CAST, to, from, 1, &a);
}

/* ---- memory and variables: rows that stay where they are ---- */

static int load(st *e, int buf, tn_dtype dt, int index, int gate)
{
    return tn__row_at(&e->r, e->at, TN__L_load, dt, 1, index, gate, -1, buf);
}
static void store(st *e, int buf, tn_dtype dt, int index, int v)
{
    tn__row_at(&e->r, e->at, TN__L_store, dt, 1, index, v, -1, buf);
}
static int variable(st *e, int init)
{
    return tn__row_at(&e->r, e->at, TN__L_var, TN_I64, 1, init, -1, -1, 0);
}
static void set(st *e, int var, int v)
{
    tn__row_at(&e->r, e->at, TN__L_set, TN_I64, 1, var, v, -1, 0);
}

static int open_loop(st *e, int count)
{
    e->at = tn__block_open(&e->r, e->at, count);
    return e->r.block[e->at].loop;
}

static void close_loop(st *e)
{
    const int block = e->at;
    if (e->r.failed) return;
    e->at = e->r.block[block].parent;
    tn__block_close(&e->r, block);
}

/* ---- keys ---- */

/* Bits of a float in the order of their values: negatives have their lower bits complemented. */
static int float_key(st *e, tn_dtype dt, int x)
{
    const tn_dtype it = e->bits == 64 ? TN_I64 : e->bits == 32 ? TN_I32 : TN_I16;
    const int top = tn__lower_const(&e->r, it, 1, (UINT64_C(1) << (e->bits - 1)) - 1);
    const int bits = tn__row_pure(&e->r, TN__L_bitcast, it, 1, x, -1, -1, 0);
    const int shift = tn__lower_const(&e->r, it, 1, (uint64_t)e->bits - 1);
    const int sign = tn__row_pure(&e->r, TN__L_shr, it, 1, bits, shift, -1, 0);
    const int flip = tn__row_pure(&e->r, TN__L_and, it, 1, sign, top, -1, 0);
    int v = tn__row_pure(&e->r, TN__L_xor, it, 1, bits, flip, -1, 0);
    const int zero[2] = {x, tn__lower_const(&e->r, dt, 1, 0)}, nan[2] = {x, x};
    v = pick(e, it, tn__lower_op(&e->r, TN_OP_EQ, TN_BOOL, dt, 1, zero),
             tn__lower_const(&e->r, it, 1, 0), v);
    v = pick(e, it, tn__lower_op(&e->r, TN_OP_NE, TN_BOOL, dt, 1, nan), top, v);
    return cast(e, TN_I64, it, v);
}

static int key_of(st *e, tn_dtype dt, int x)
{
    const int64_t half = (int64_t)(UINT64_C(1) << (e->bits - 1));
    int v = tn__dtype_is_float(dt) ? float_key(e, dt, x) : cast(e, TN_I64, dt, x);
    if (tn__dtype_is_unsigned(dt)) v = op64(e, TN__L_sub, v, k64(e, half));
    if (e->k->root->arg[0]) v = tn__row_pure(&e->r, TN__L_not, TN_I64, 1, v, -1, -1, 0);
    return e->digits ? add(e, v, k64(e, half)) : v; /* digits have no sign */
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
        for (i--; i >= 0 && (b->dims[i] == 1 || b->strides[i] == stride * size); i--)
            size *= b->dims[i];
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
    if (e->packed)
        key = op64(e, TN__L_or, op64(e, TN__L_shl, key, k64(e, 32)), i);
    else
        store(e, e->places, TN_I32, i, cast(e, TN_I32, TN_I64, i));
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
    const int a = load(e, e->words, TN_I64, i, has_left),
              b = load(e, e->words, TN_I64, j, has_right);
    const int none = tn__row_pure(&e->r, TN__L_not, TN_BOOL, 1, has_left, -1, -1, 0);
    const int take = both(e, TN__L_and, has_right, both(e, TN__L_or, none, less(e, b, a)));
    const int at = add(e, target, o);
    const int step = cast(e, TN_I64, TN_BOOL, take);
    const int mask = tn__row_pure(&e->r, TN__L_neg, TN_I64, 1, step, -1, -1, 0);
    store(e, e->words, TN_I64, at, either(e, mask, b, a));
    if (!e->packed)
        store(e, e->places, TN_I32, at, load(e, e->places, TN_I32, either(e, mask, j, i), -1));
    set(e, right, add(e, j, step));
    set(e, left, op64(e, TN__L_sub, add(e, i, k64(e, 1)), step));
    close_loop(e);
}

static void merges(st *e, int p, int from, int to)
{
    const int one = k64(e, 1), width = op64(e, TN__L_shl, one, p);
    const int pair = add(e, p, one); /* runs of a pair hold 1 << pair elements */
    const int last = op64(e, TN__L_sub, op64(e, TN__L_shl, one, pair), one);
    const int t = open_loop(e, op64(e, TN__L_shr, add(e, k64(e, e->n), last), pair));
    merge(e, op64(e, TN__L_shl, t, pair), width, from, to);
    close_loop(e);
}

static int digit(st *e, int word, int shift)
{
    return op64(e, TN__L_and, op64(e, TN__L_shr, word, shift), k64(e, DIGITS - 1));
}

/* Counts digits, turns counts into places, moves. */
static void distribute(st *e, int p, int from, int to)
{
    const int shift = add(e, mulc(e, p, DIGIT), k64(e, e->packed ? 32 : 0)), one = k64(e, 1);
    int d = open_loop(e, k64(e, DIGITS));
    store(e, e->counts, TN_I64, d, k64(e, 0));
    close_loop(e);
    int i = open_loop(e, k64(e, e->n));
    d = digit(e, load(e, e->words, TN_I64, add(e, from, i), -1), shift);
    store(e, e->counts, TN_I64, d, add(e, load(e, e->counts, TN_I64, d, -1), one));
    close_loop(e);
    const int sum = variable(e, to);
    d = open_loop(e, k64(e, DIGITS));
    const int now = variable(e, sum), count = load(e, e->counts, TN_I64, d, -1);
    store(e, e->counts, TN_I64, d, now);
    set(e, sum, add(e, now, count));
    close_loop(e);
    i = open_loop(e, k64(e, e->n));
    const int w = load(e, e->words, TN_I64, add(e, from, i), -1);
    d = digit(e, w, shift);
    const int at = load(e, e->counts, TN_I64, d, -1);
    store(e, e->counts, TN_I64, d, add(e, at, one));
    store(e, e->words, TN_I64, at, w);
    if (!e->packed)
        store(e, e->places, TN_I32, at, load(e, e->places, TN_I32, add(e, from, i), -1));
    close_loop(e);
}

static void passes(st *e)
{
    const int p = open_loop(e, k64(e, e->passes));
    const int from = mulc(e, op64(e, TN__L_and, p, k64(e, 1)), e->n),
              to = op64(e, TN__L_sub, k64(e, e->n), from);
    if (e->digits)
        distribute(e, p, from, to);
    else
        merges(e, p, from, to);
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

static void groups(st *e, tn__kernel *k)
{
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

static uint64_t scratch(const st *e, tnl_buf *b, uint32_t *count)
{
    const uint64_t n = 2 * (uint64_t)e->n;
    const struct {
        uint64_t n;
        tn_dtype dt;
    } all[3] = {{n, TN_I64}, {e->packed ? 0 : n, TN_I32}, {e->digits ? DIGITS : 0, TN_I64}};
    uint64_t bytes = 0;
    *count = 0;
    for (int i = 0; i < 3; i++) {
        if (!all[i].n) continue;
        b[(*count)++] = (tnl_buf){.count = all[i].n,
                                  .dtype = (uint8_t)all[i].dt,
                                  .access = TNP_ACCESS_READ | TNP_ACCESS_WRITE,
                                  .offset = bytes};
        bytes += (all[i].n * tn__dtype_size(all[i].dt) + 63) / 64 * 64;
    }
    return bytes;
}

/* Which way, and how often; the count of digits is paid by rows that are long enough. */
static st start(const tn__kernel *k)
{
    const tn__uop *u = k->root;
    const int64_t n = u->dims[u->rank - 1], bytes = (int64_t)tn__dtype_size(k->buf[0].dt);
    st e = {.k = k,
            .n = n,
            .rows = 1,
            .bits = (int)(8 * bytes),
            .packed = bytes <= 4,
            .digits = n >= 64 * bytes};
    for (int i = 0; i + 1 < u->rank; i++) e.rows *= u->dims[i];
    if (e.digits)
        e.passes = e.bits / DIGIT;
    else
        while (INT64_C(1) << e.passes < n) e.passes++;
    e.words = k->nbuf;
    e.places = k->nbuf + 1;
    e.counts = k->nbuf + (e.packed ? 1 : 2);
    return e;
}

double tn__sort_ops(const tn__kernel *k)
{
    const st e = start(k);
    return (double)e.rows * (double)e.n * (4 + 8 * e.passes);
}

bool tn__emit_sort(tn__kernel *k, tn__buf *blob)
{
    tn__arena a = {0};
    tnl_buf bufs[3];
    st e = start(k);
    groups(&e, k);
    bool ok = tn__rows_init(&e.r, &a);
    if (ok) {
        uint32_t n;
        kernel(&e);
        const uint64_t bytes = scratch(&e, bufs, &n);
        ok = !e.r.failed && tn__emit_blob(k, &e.r, bufs, n, bytes, blob);
    }
    tn__arena_free(&a);
    if (!ok && tn_ok()) tn__fail_nomem();
    return ok;
}
