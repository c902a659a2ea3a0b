/* SPDX-License-Identifier: MIT */
/* Blocks of rows, value numbering, and the final blob.  See rows.h. */
#include "codegen/rows.h"
#include <string.h>

static void *grow(tn__rows *r, void *old, int n, int *cap, size_t size)
{
    const int c = *cap ? *cap * 2 : 64;
    void *p = tn__arena_alloc(r->a, (size_t)c * size);
    if (!p) {
        r->failed = true;
        return NULL;
    }
    if (n) memcpy(p, old, (size_t)n * size);
    *cap = c;
    return p;
}

static int new_block(tn__rows *r, int parent, int loop)
{
    if (r->nblock == r->cap_block) {
        tn__block *p = grow(r, r->block, r->nblock, &r->cap_block, sizeof *p);
        if (!p) return 0;
        r->block = p;
    }
    r->block[r->nblock] = (tn__block){
        .parent = parent, .depth = parent < 0 ? 0 : r->block[parent].depth + 1, .loop = loop};
    return r->nblock++;
}

bool tn__rows_init(tn__rows *r, tn__arena *a)
{
    memset(r, 0, sizeof *r);
    r->a = a;
    r->cap_table = 1024;
    r->table = tn__arena_zero(a, (size_t)r->cap_table * sizeof *r->table);
    if (!r->table)
        r->failed = true;
    else
        new_block(r, -1, -1);
    return !r->failed;
}

static void append(tn__rows *r, int block, int item)
{
    tn__block *b = &r->block[block];
    if (b->n == b->cap) {
        int *p = grow(r, b->item, b->n, &b->cap, sizeof *p);
        if (!p) return;
        b->item = p;
    }
    b->item[b->n++] = item;
}

int tn__block_deeper(const tn__rows *r, int a, int b)
{
    return r->block[a].depth >= r->block[b].depth ? a : b;
}

int tn__row_at(tn__rows *r, int block, tn__lop op, tn_dtype dt, int lanes, int a, int b, int c,
               int64_t imm)
{
    if (r->failed) return 0;
    if (r->nrow == r->cap_row) {
        tn__row *p = grow(r, r->row, r->nrow, &r->cap_row, sizeof *p);
        if (!p) return 0;
        r->row = p;
    }
    r->row[r->nrow] = (tn__row){(uint16_t)op, (uint8_t)dt, (uint8_t)lanes, {a, b, c}, imm, block};
    append(r, block, r->nrow);
    return r->nrow++;
}

static uint64_t row_hash(tn__lop op, tn_dtype dt, int lanes, const int *s, int64_t imm)
{
    uint64_t h = (uint64_t)op << 32 | (uint64_t)dt << 8 | (uint64_t)lanes;
    for (int i = 0; i < 3; i++) h = (h ^ (uint64_t)(uint32_t)s[i]) * 0x9e3779b97f4a7c15u;
    h = (h ^ (uint64_t)imm) * 0xff51afd7ed558ccdu;
    return h ^ h >> 29;
}

static bool grow_table(tn__rows *r)
{
    const int cap = r->cap_table * 2;
    int *t = tn__arena_zero(r->a, (size_t)cap * sizeof *t);
    if (!t) {
        r->failed = true;
        return false;
    }
    for (int i = 0; i < r->cap_table; i++) {
        if (!r->table[i]) continue;
        const tn__row *w = &r->row[r->table[i] - 1];
        uint64_t k = row_hash((tn__lop)w->op, (tn_dtype)w->dt, w->lanes, w->src, w->imm);
        while (t[k & (uint64_t)(cap - 1)]) k++;
        t[k & (uint64_t)(cap - 1)] = r->table[i];
    }
    r->table = t;
    r->cap_table = cap;
    return true;
}

int tn__row_pure(tn__rows *r, tn__lop op, tn_dtype dt, int lanes, int a, int b, int c, int64_t imm)
{
    const int s[3] = {a, b, c};
    int block = 0;
    if (r->failed || (r->ntable * 2 >= r->cap_table && !grow_table(r))) return 0;
    uint64_t k = row_hash(op, dt, lanes, s, imm);
    for (; r->table[k & (uint64_t)(r->cap_table - 1)]; k++) {
        const tn__row *w = &r->row[r->table[k & (uint64_t)(r->cap_table - 1)] - 1];
        if (w->op == op && w->dt == dt && w->lanes == lanes && w->imm == imm && w->src[0] == a &&
            w->src[1] == b && w->src[2] == c)
            return (int)(w - r->row);
    }
    for (int i = 0; i < 3; i++)
        if (s[i] >= 0) block = tn__block_deeper(r, block, r->row[s[i]].block);
    const int n = tn__row_at(r, block, op, dt, lanes, a, b, c, imm);
    r->table[k & (uint64_t)(r->cap_table - 1)] = n + 1;
    r->ntable++;
    return n;
}

int tn__block_open(tn__rows *r, int parent, int count_row)
{
    const int b = new_block(r, parent, -1);
    if (r->failed) return 0;
    /* the loop row is the block's first item and belongs to it */
    r->block[b].loop = tn__row_at(r, b, TN__L_loop, TN_I64, 1, count_row, -1, -1, 0);
    return b;
}

void tn__block_close(tn__rows *r, int block)
{
    if (r->failed) return;
    tn__row_at(r, block, TN__L_end, TN_I64, 1, r->block[block].loop, -1, -1, 0);
    append(r, r->block[block].parent, ~block);
    r->block[block].closed = true;
}

/* ---- the blob ---- */

static const char *const op_names[TN__L_COUNT] = {
#define X(name) #name,
    TNL_BASE_OPS(X)
#undef X
};

typedef struct {
    int block, at;
} place;

static bool flatten(const tn__rows *r, int *final, tnl_row *out, uint32_t *count)
{
    place *st = tn__arena_alloc(r->a, ((size_t)r->nblock + 1) * sizeof *st);
    int sp = 0;
    uint32_t n = 0;
    if (!st) return false;
    st[sp++] = (place){0, 0};
    while (sp) {
        place *p = &st[sp - 1];
        const tn__block *b = &r->block[p->block];
        if (p->at == b->n) {
            sp--;
            continue;
        }
        const int item = b->item[p->at++];
        if (item < 0) {
            st[sp++] = (place){~item, 0};
            continue;
        }
        const tn__row *w = &r->row[item];
        out[n] = (tnl_row){.op = w->op, .dtype = w->dt, .lanes = w->lanes, .imm = w->imm};
        for (int i = 0; i < 3; i++) out[n].src[i] = w->src[i] < 0 ? -1 : final[w->src[i]];
        final[item] = (int)n++;
    }
    *count = n;
    return true;
}

bool tn__rows_blob(tn__rows *r, const tnl_head *head, const tnl_buf *bufs, tn__buf *out)
{
    if (r->failed) return false;
    tnl_head h = *head;
    tnl_row *rows = tn__arena_zero(r->a, ((size_t)r->nrow + 1) * sizeof *rows);
    int *final = tn__arena_alloc(r->a, ((size_t)r->nrow + 1) * sizeof *final);
    char names[TN__L_COUNT][TNL_NAME] = {{0}};
    if (!rows || !final || !flatten(r, final, rows, &h.nrows)) return false;
    for (int i = 0; i < TN__L_COUNT; i++) memcpy(names[i], op_names[i], strlen(op_names[i]));
    h.magic = TNL_MAGIC;
    h.nops = TN__L_COUNT;
    const size_t nb = (size_t)h.nargs + h.nscratch;
    h.bytes = (uint32_t)(sizeof h + nb * sizeof *bufs + sizeof names + h.nrows * sizeof *rows);
    return tn__buf_put(out, &h, sizeof h) && tn__buf_put(out, bufs, nb * sizeof *bufs) &&
           tn__buf_put(out, names, sizeof names) && tn__buf_put(out, rows, h.nrows * sizeof *rows);
}
