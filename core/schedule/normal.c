/* SPDX-License-Identifier: MIT */
/*
 * Writes and reads the normal form.
 *
 * A record is head, sources (u32 record numbers), padding to 8, dims, args, and for CONST the bits.  PARAM
 * and DETACH leave no record.  A realised node is a BUFFER record with a slot; a SHRINK of one is a BUFFER
 * with its strides and a run-time offset, so that a slice that slides keeps its key.  Behind the records stand
 * the roots, the placements where there are several devices, and the counts.  Only reads nodes.
 */
#include "schedule/normal.h"
#include <string.h>

typedef struct {
    uint16_t op;
    uint8_t dt, rank, nsrc, narg;
    uint16_t has_bits;
} rec_head;

typedef struct {
    const tn__node **key;
    uint32_t *val;
    size_t cap, count;
    tn__arena *a;
} ptr_map;

static bool map_grow(ptr_map *m)
{
    const size_t cap = m->cap ? m->cap * 2 : 256;
    const tn__node **key = tn__arena_zero(m->a, cap * sizeof *key);
    uint32_t *val = tn__arena_zero(m->a, cap * sizeof *val);
    if (!key || !val) return false;
    for (size_t i = 0; i < m->cap; i++) {
        if (!m->key[i]) continue;
        size_t k = (m->key[i]->serial * 0x9e3779b97f4a7c15u) >> 20 & (cap - 1);
        while (key[k]) k = (k + 1) & (cap - 1);
        key[k] = m->key[i];
        val[k] = m->val[i];
    }
    m->key = key;
    m->val = val;
    m->cap = cap;
    return true;
}

/* Place of the node's number: 0 when new.  NULL without memory. */
static uint32_t *map_at(ptr_map *m, const tn__node *n)
{
    if (m->count * 2 >= m->cap && !map_grow(m)) return NULL;
    size_t k = (n->serial * 0x9e3779b97f4a7c15u) >> 20 & (m->cap - 1);
    while (m->key[k] && m->key[k] != n) k = (k + 1) & (m->cap - 1);
    if (!m->key[k]) {
        m->key[k] = n;
        m->count++;
    }
    return &m->val[k];
}

static tn__value *value_of(const tn__node *n)
{
    return atomic_load_explicit(&((tn__node *)(uintptr_t)n)->val, memory_order_acquire);
}

static bool add_leaf(tn__normal *o, tn__node *n, int64_t *slot)
{
    for (size_t i = 0; i < o->nleaf; i++)
        if (o->leaf[i] == n || value_of(o->leaf[i]) == value_of(n)) {
            *slot = (int64_t)i;
            return true;
        }
    if (o->nleaf == o->cap_leaf) {
        const size_t cap = o->cap_leaf ? o->cap_leaf * 2 : 32;
        tn__node **l = tn__arena_alloc(o->arena, cap * sizeof *l);
        if (!l) return false;
        if (o->nleaf) memcpy(l, o->leaf, o->nleaf * sizeof *l);
        o->leaf = l;
        o->cap_leaf = cap;
    }
    *slot = (int64_t)o->nleaf;
    o->leaf[o->nleaf++] = n;
    return true;
}

static bool add_scalar(tn__normal *o, uint64_t bits, uint8_t kind, int64_t *slot)
{
    if (o->nscalar == o->cap_scalar) {
        const size_t cap = o->cap_scalar ? o->cap_scalar * 2 : 16;
        uint64_t *l = tn__arena_alloc(o->arena, cap * sizeof *l);
        uint8_t *k = tn__arena_alloc(o->arena, cap * sizeof *k);
        if (!l || !k) return false;
        if (o->nscalar) memcpy(l, o->scalar, o->nscalar * sizeof *l);
        if (o->nscalar) memcpy(k, o->scalar_kind, o->nscalar * sizeof *k);
        o->scalar = l;
        o->scalar_kind = k;
        o->cap_scalar = cap;
    }
    *slot = (int64_t)o->nscalar;
    o->scalar_kind[o->nscalar] = kind;
    o->scalar[o->nscalar++] = bits;
    return true;
}

/* Remembers where the bits of the latest constant stand; 0: in a slot. */
static bool add_konst(tn__normal *o, uint32_t at)
{
    if (o->nkonst == o->cap_konst) {
        const size_t cap = o->cap_konst ? o->cap_konst * 2 : 32;
        uint32_t *l = tn__arena_alloc(o->arena, cap * sizeof *l);
        if (!l) return false;
        if (o->nkonst) memcpy(l, o->konst, o->nkonst * sizeof *l);
        o->konst = l;
        o->cap_konst = cap;
    }
    o->konst[o->nkonst++] = at;
    return true;
}

/* ---- placements ---- */

static bool add_device(tn__normal *o, tn__device *d)
{
    for (int i = 0; i < o->ndev; i++)
        if (o->dev[i] == d) return true;
    if (o->ndev == TN__FORM_DEVICES)
        return tn__fail(TN_EDEVICE,
                        "realize: more than %d devices in one graph: realize parts of it first",
                        TN__FORM_DEVICES);
    o->dev[o->ndev++] = d;
    return true;
}

enum { MAX_PLACES = 200 };

/* Notes the placement of the next record. */
static bool put_place(tn__normal *o, const tn__placement *p)
{
    uint8_t number = 0;
    for (size_t i = o->nplace; p && !number && i-- > 0;)
        if (o->place[i] == p) number = (uint8_t)(i + 1);
    if (p && !number) {
        if (o->nplace == MAX_PLACES)
            return tn__fail(
                TN_EDEVICE,
                "realize: more than %d placements in one graph: realize parts of it first",
                MAX_PLACES);
        if (!o->place) o->place = tn__arena_alloc(o->arena, MAX_PLACES * sizeof *o->place);
        if (!o->place) return false;
        o->place[o->nplace++] = p;
        number = (uint8_t)o->nplace;
        for (int i = 0; i < p->n; i++)
            if (!add_device(o, p->dev[i])) return false;
        o->multi = o->ndev > 1;
    }
    return tn__buf_put(&o->where, &number, 1);
}

static const tn__placement *place_of(const tn__node *n)
{
    const tn__value *v = value_of(n);
    return v ? v->place : n->place;
}

/* Sizes of a leaf on each of its devices. */
static void local_dims(const tn__node *leaf, int64_t *dims)
{
    const tn__placement *p = place_of(leaf);
    memcpy(dims, leaf->dims, (size_t)leaf->rank * sizeof *dims);
    if (p && p->n > 1 && p->axis >= 0) dims[p->axis] /= p->n;
}

static bool put_places(tn__normal *o)
{
    const char zero[8] = {0};
    bool ok = tn__buf_put(&o->bytes, o->where.data, o->where.len) &&
              tn__buf_put(&o->bytes, zero, (8 - o->where.len % 8) % 8);
    for (size_t i = 0; ok && i < o->nplace; i++) {
        const tn__placement *p = o->place[i];
        tn__layout l = {(int8_t)p->n, (int8_t)p->axis, {0}};
        for (int k = 0; k < p->n; k++)
            while (o->dev[l.dev[k]] != p->dev[k]) l.dev[k]++;
        ok = tn__buf_put(&o->bytes, &l, sizeof l);
    }
    return ok;
}

static bool put_record(tn__normal *o, tn__op op, const tn__node *n, const uint32_t *src, int nsrc,
                       const int64_t *arg, int narg, const tn__placement *place)
{
    rec_head h = {(uint16_t)op, n->dt, n->rank, (uint8_t)nsrc, (uint8_t)narg, op == TN_OP_CONST};
    const uint32_t zero = 0;
    bool ok = tn__buf_put(&o->bytes, &h, sizeof h) &&
              tn__buf_put(&o->bytes, src, (size_t)nsrc * sizeof *src) &&
              (nsrc % 2 == 0 || tn__buf_put(&o->bytes, &zero, sizeof zero)) &&
              tn__buf_put(&o->bytes, n->dims, (size_t)n->rank * sizeof *n->dims) &&
              tn__buf_put(&o->bytes, arg, (size_t)narg * sizeof *arg);
    if (ok && h.has_bits) {
        const uint64_t bits = tn__scalar_bits((tn_dtype)n->dt, n->scalar);
        ok = add_konst(o, (uint32_t)o->bytes.len) && tn__buf_put(&o->bytes, &bits, sizeof bits);
    }
    o->nrec++;
    return ok && put_place(o, place);
}

static void strides_of(const int64_t *dims, int rank, int64_t *strides)
{
    int64_t s = 1;
    for (int i = rank - 1; i >= 0; i--) {
        strides[i] = s;
        s *= dims[i];
    }
}

static bool put_buffer(tn__normal *o, const tn__node *shape, tn__node *leaf, int64_t offset,
                       bool sliced)
{
    int64_t arg[2 + TN_MAX_RANK];
    arg[1] = -1;
    if (!add_leaf(o, leaf, &arg[0])) return false;
    if (sliced && !add_scalar(o, (uint64_t)offset, TN__SCALAR_OFFSET, &arg[1])) return false;
    int64_t dims[TN_MAX_RANK];
    local_dims(leaf, dims);
    strides_of(dims, leaf->rank, arg + 2);
    return put_record(o, TN_OP_BUFFER, shape, NULL, 0, arg, 2 + leaf->rank, place_of(leaf));
}

/* Through identities without a record. */
static tn__node *skip(tn__node *n)
{
    while (!value_of(n) && (n->op == TN_OP_PARAM || n->op == TN_OP_DETACH)) n = n->src[0];
    return n;
}

/* The leaf that n is a slice of, or NULL; a slice across the parts of a split value is none. */
static tn__node *sliced_leaf(const tn__node *n)
{
    tn__node *leaf = n->op == TN_OP_SHRINK ? skip(n->src[0]) : NULL;
    if (!leaf || !value_of(leaf)) return NULL;
    const tn__placement *p = place_of(leaf);
    return p && p->n > 1 && p->axis >= 0 && n->dims[p->axis] != leaf->dims[p->axis] ? NULL : leaf;
}

/* Sources that are values: an UPDATE's view is none. */
static int record_sources(const tn__node *n) { return n->op == TN_OP_UPDATE ? 2 : n->nsrc; }

/* The movement chain of an UPDATE from its old value upwards, as records of their own: a view of a realised
 * value must not become a slice here.  *top: record of the view. */
static bool put_view(tn__normal *o, tn__node *view, const tn__node *old, uint32_t old_rec,
                     uint32_t *top)
{
    size_t n = 0;
    for (const tn__node *v = view; v != old && v->nsrc; v = skip(v->src[0])) n++;
    tn__node **chain = tn__arena_alloc(o->arena, (n + 1) * sizeof *chain);
    if (!chain) return false;
    for (size_t i = n; i-- > 0; view = skip(view->src[0])) chain[i] = view;
    *top = old_rec;
    for (size_t i = 0; i < n; i++) {
        const uint32_t src = *top;
        *top = (uint32_t)o->nrec;
        if (!put_record(o, (tn__op)chain[i]->op, chain[i], &src, 1, chain[i]->argv, chain[i]->narg,
                        chain[i]->place))
            return false;
    }
    return true;
}

/* A constant in a slot: a user's number that has been seen to change. */
static bool put_slot(tn__normal *o, const tn__node *n)
{
    int64_t slot;
    return add_konst(o, 0) &&
           add_scalar(o, tn__scalar_bits((tn_dtype)n->dt, n->scalar), TN__SCALAR_USER, &slot) &&
           put_record(o, TN_OP_SCALAR, n, NULL, 0, &slot, 1, n->place);
}

static bool put_node(tn__normal *o, ptr_map *m, tn__node *n)
{
    uint32_t src[8];
    int64_t arg[2];
    if (n->op == TN_OP_CONST && o->nkonst < o->nmask && o->mask[o->nkonst]) return put_slot(o, n);
    if (value_of(n)) return put_buffer(o, n, n, 0, false);
    tn__node *leaf = sliced_leaf(n);
    if (leaf) {
        int64_t dims[TN_MAX_RANK], strides[TN_MAX_RANK], off = 0;
        local_dims(leaf, dims);
        strides_of(dims, leaf->rank, strides);
        for (int i = 0; i < n->rank; i++) off += n->argv[i] * strides[i];
        return put_buffer(o, n, leaf, off, true);
    }
    for (int i = 0; i < record_sources(n); i++) {
        uint32_t *at = map_at(m, skip(n->src[i]));
        if (!at) return false;
        src[i] = *at - 1;
    }
    if (n->op == TN_OP_UPDATE && !put_view(o, skip(n->src[2]), skip(n->src[0]), src[0], &src[2]))
        return false;
    if (n->op == TN_OP_RNG) {
        if (!add_scalar(o, (uint64_t)n->argv[0], TN__SCALAR_KEY, &arg[0]) ||
            !add_scalar(o, (uint64_t)n->argv[1], TN__SCALAR_BASE, &arg[1]))
            return false;
        return put_record(o, TN_OP_RNG, n, NULL, 0, arg, 2, n->place);
    }
    return put_record(o, (tn__op)n->op, n, src, n->nsrc, n->argv, n->narg, n->place);
}

typedef struct {
    tn__node *n;
    int next;
} frame;

typedef struct {
    frame *f;
    size_t len, cap;
    tn__arena *a;
} frames;

static bool push(frames *s, tn__node *n)
{
    if (s->len == s->cap) {
        const size_t cap = s->cap ? s->cap * 2 : 256;
        frame *f = tn__arena_alloc(s->a, cap * sizeof *f);
        if (!f) return false;
        if (s->len) memcpy(f, s->f, s->len * sizeof *f);
        s->f = f;
        s->cap = cap;
    }
    s->f[s->len++] = (frame){n, 0};
    return true;
}

static bool leafy(const tn__node *n) { return value_of(n) || sliced_leaf(n); }

static bool visit(tn__normal *o, ptr_map *m, frames *st, tn__node *root)
{
    if (!push(st, root)) return false;
    while (st->len) {
        frame *f = &st->f[st->len - 1];
        tn__node *n = f->n;
        uint32_t *at = map_at(m, n);
        if (!at) return false;
        if (*at) {
            st->len--;
            continue;
        }
        if (!leafy(n) && f->next < record_sources(n)) {
            if (!push(st, skip(n->src[f->next++]))) return false;
            continue;
        }
        if (!put_node(o, m, n)) return false;
        at = map_at(m, n);
        if (!at) return false;
        *at = (uint32_t)o->nrec;
        if (o->node && o->nrec <= o->nnode) o->node[o->nrec - 1] = n;
        st->len--;
    }
    return true;
}

bool tn__normalise(tn__arena *a, tn__node *const *roots, size_t n, tn__normal *o)
{
    return tn__normalise_with(a, roots, n, NULL, 0, o);
}

bool tn__normal_skeleton(const tn__normal *o, tn__hash *key, uint64_t **bits)
{
    char *copy = tn__arena_alloc(o->arena, o->bytes.len + 1);
    *bits = tn__arena_zero(o->arena, (o->nkonst + 1) * sizeof **bits);
    if (!copy || !*bits) return false;
    memcpy(copy, o->bytes.data, o->bytes.len);
    for (size_t i = 0; i < o->nkonst; i++) {
        if (!o->konst[i]) continue;
        memcpy(*bits + i, copy + o->konst[i], sizeof **bits);
        memset(copy + o->konst[i], 0, sizeof **bits);
    }
    *key = tn__hash_bytes(copy, o->bytes.len);
    return true;
}

bool tn__normalise_with(tn__arena *a, tn__node *const *roots, size_t n, const uint8_t *mask,
                        size_t nmask, tn__normal *o)
{
    *o = (tn__normal){.arena = a, .from = roots, .mask = mask, .nmask = nmask};
    ptr_map m = {.a = a};
    frames st = {.a = a};
    o->root = tn__arena_alloc(a, (n + 1) * sizeof *o->root);
    if (!o->root) return false;
    o->nroot = n;
    for (size_t i = 0; i < n; i++) {
        tn__node *r = skip(roots[i]);
        if (!visit(o, &m, &st, r)) return false;
        uint32_t *at = map_at(&m, r);
        if (!at) return false;
        o->root[i] = *at - 1;
    }
    const uint32_t tail[5] = {o->multi ? (uint32_t)o->nplace : 0, (uint32_t)o->nrec, (uint32_t)n,
                              (uint32_t)o->nleaf, (uint32_t)o->nscalar};
    if (!tn__buf_put(&o->bytes, o->root, n * sizeof *o->root) || (o->multi && !put_places(o)) ||
        !tn__buf_put(&o->bytes, tail, sizeof tail))
        return false;
    o->key = tn__hash_bytes(o->bytes.data, o->bytes.len);
    return true;
}

void tn__normal_free(tn__normal *o)
{
    tn__buf_free(&o->bytes);
    tn__buf_free(&o->where);
}

bool tn__normal_nodes(const tn__normal *n, tn__arena *a, tn__node ***out)
{
    tn__normal o = {.arena = a,
                    .mask = n->mask,
                    .nmask = n->nmask,
                    .node = tn__arena_zero(a, (n->nrec + 1) * sizeof(tn__node *)),
                    .nnode = n->nrec};
    ptr_map m = {.a = a};
    frames st = {.a = a};
    bool ok = o.node != NULL;
    for (size_t i = 0; ok && i < n->nroot; i++) ok = visit(&o, &m, &st, skip(n->from[i]));
    tn__normal_free(&o);
    *out = o.node;
    return ok;
}

bool tn__normal_kept(tn__arena *a, tn__node *const *roots, size_t n, tn__node ***out, size_t *count)
{
    tn__node **order, **list;
    size_t len, k = 0;
    if (!tn__walk(a, roots, n, false, &order, &len)) return false;
    list = tn__arena_alloc(a, (len + n + 1) * sizeof *list);
    if (!list) return false;
    for (size_t i = 0; i < n; i++)
        if (!value_of(roots[i])) list[k++] = roots[i];
    for (size_t i = 0; i < len; i++) {
        bool root = false;
        if (value_of(order[i]) || !atomic_load_explicit(&order[i]->kept, memory_order_relaxed))
            continue;
        for (size_t j = 0; j < n; j++) root |= roots[j] == order[i];
        if (!root) list[k++] = order[i];
    }
    *out = list;
    *count = k;
    return true;
}

/* ---- reading ---- */

static tn__uop *parse_one(tn__space *s, const char **p, tn__uop *const *made, uint8_t place)
{
    rec_head h;
    tn__uop *src[8];
    uint64_t bits = 0;
    memcpy(&h, *p, sizeof h);
    const char *q = *p + sizeof h;
    for (int i = 0; i < h.nsrc; i++) {
        uint32_t k;
        memcpy(&k, q + 4 * (size_t)i, sizeof k);
        src[i] = made[k];
    }
    q += 4 * (size_t)(h.nsrc + h.nsrc % 2);
    int64_t num[3 * TN_MAX_RANK + 4];
    const size_t n = (size_t)h.rank + h.narg;
    memcpy(num, q, n * sizeof *num);
    q += n * sizeof *num;
    if (h.has_bits) {
        memcpy(&bits, q, sizeof bits);
        q += sizeof bits;
    }
    *p = q;
    return tn__uop_get(s, &(tn__uop_desc){.op = (tn__op)h.op,
                                          .dt = (tn_dtype)h.dt,
                                          .bits = bits,
                                          .rank = h.rank,
                                          .dims = num,
                                          .narg = h.narg,
                                          .arg = num + h.rank,
                                          .nsrc = h.nsrc,
                                          .src = src,
                                          .dev = place});
}

static const char *table_of(const char *bytes, size_t len, int *n)
{
    uint32_t tail[5];
    memcpy(tail, bytes + len - sizeof tail, sizeof tail);
    *n = (int)tail[0];
    return bytes + len - sizeof tail - tail[0] * sizeof(tn__layout);
}

const tn__layout *tn__normal_layouts(tn__arena *a, const char *bytes, size_t len, int *n)
{
    const char *t = table_of(bytes, len, n);
    tn__layout *l = tn__arena_alloc(a, ((size_t)*n + 1) * sizeof *l);
    if (l && *n) memcpy(l, t, (size_t)*n * sizeof *l);
    return l;
}

/* Bytes of the record at p. */
static size_t record_size(const char *p)
{
    rec_head h;
    memcpy(&h, p, sizeof h);
    return sizeof h + 4 * (size_t)(h.nsrc + h.nsrc % 2) + 8 * ((size_t)h.rank + h.narg) +
           (h.has_bits ? 8 : 0);
}

void tn__normal_differ(const tn__buf *a, const tn__buf *b, size_t *record, tn__op *in_a,
                       tn__op *in_b)
{
    const tn__buf *form[2] = {a, b};
    uint32_t count[2], tail[4];
    tn__op op[2] = {TN_OP_COUNT, TN_OP_COUNT};
    for (int i = 0; i < 2; i++) {
        memcpy(tail, form[i]->data + form[i]->len - sizeof tail, sizeof tail);
        count[i] = tail[0];
    }
    const char *p = a->data, *q = b->data;
    size_t i = 0;
    for (; i < count[0] && i < count[1]; i++) {
        const size_t n = record_size(p), m = record_size(q);
        if (n != m || memcmp(p, q, n)) break;
        p += n;
        q += m;
    }
    rec_head h;
    if (i < count[0]) {
        memcpy(&h, p, sizeof h);
        op[0] = (tn__op)h.op;
    }
    if (i < count[1]) {
        memcpy(&h, q, sizeof h);
        op[1] = (tn__op)h.op;
    }
    *record = i;
    *in_a = op[0];
    *in_b = op[1];
}

/* *end: behind the records. */
static bool parse_all(tn__space *s, const char *bytes, size_t len, tn__uop ***out, size_t *n,
                      const char **end)
{
    uint32_t tail[4];
    int nplace;
    memcpy(tail, bytes + len - sizeof tail, sizeof tail);
    const char *table = table_of(bytes, len, &nplace),
               *where = nplace ? table - ((size_t)tail[0] + 7) / 8 * 8 : NULL;
    tn__uop **made = tn__arena_alloc(s->arena, ((size_t)tail[0] + 1) * sizeof *made);
    if (!made) return false;
    *end = bytes;
    for (uint32_t i = 0; i < tail[0]; i++)
        made[i] = parse_one(s, end, made, where ? (uint8_t)where[i] : 0);
    *out = made;
    *n = tail[0];
    return !s->failed;
}

bool tn__normal_records(tn__space *s, const char *bytes, size_t len, tn__uop ***out, size_t *n)
{
    const char *end;
    return parse_all(s, bytes, len, out, n, &end);
}

bool tn__normal_parse(tn__space *s, const char *bytes, size_t len, tn__uop ***roots, size_t *nroot,
                      size_t *nleaf, size_t *nscalar)
{
    uint32_t tail[4];
    memcpy(tail, bytes + len - sizeof tail, sizeof tail);
    tn__uop **made, **r = tn__arena_alloc(s->arena, ((size_t)tail[1] + 1) * sizeof *r);
    const char *p;
    size_t count;
    if (!r || !parse_all(s, bytes, len, &made, &count, &p)) return false;
    for (uint32_t i = 0; i < tail[1]; i++) {
        uint32_t k;
        memcpy(&k, p + 4 * (size_t)i, sizeof k);
        r[i] = made[k];
    }
    *roots = r;
    *nroot = tail[1];
    *nleaf = tail[2];
    *nscalar = tail[3];
    return !s->failed;
}
