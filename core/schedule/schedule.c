/* SPDX-License-Identifier: MIT */
/*
 * The schedule of one graph: parse, lower placements, rewrite, fuse, order, place temporaries.  The list of passes is
 * tn__schedule_make.
 *
 * Kernels run in the order of s->kernel, which respects every read and write; a temporary's bytes are
 * reused only after the last kernel that touches it.
 */
#include "schedule/fuse.h"
#include "schedule/normal.h"
#include <string.h>
#include <tenon/plugin.h>

/* ---- pass: long reductions to few outputs in two steps, so that they run in parallel ---- */

enum { SPLIT_PARTS = 64, SPLIT_OUTPUTS = 16, SPLIT_SIZE = 65536 };

static tn__uop *node(tn__space *s, tn__op op, const tn__uop *like, tn__uop **src, int nsrc,
                     const int64_t *dims, int rank, const int64_t *arg, int narg)
{
    return tn__uop_get(s, &(tn__uop_desc){.op = op,
                                          .dt = (tn_dtype)like->dt,
                                          .dev = like->dev,
                                          .nsrc = nsrc,
                                          .src = src,
                                          .dims = dims,
                                          .rank = rank,
                                          .arg = arg,
                                          .narg = narg});
}

static tn__uop *shrink_axis(tn__space *s, tn__uop *x, int ax, int64_t first, int64_t size)
{
    int64_t dims[TN_MAX_RANK], arg[TN_MAX_RANK] = {0};
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[ax] = size;
    arg[ax] = first;
    return node(s, TN_OP_SHRINK, x, &x, 1, dims, x->rank, arg, x->rank);
}

static tn__uop *reduce_axes(tn__space *s, tn__uop *x, int64_t op, int64_t mask)
{
    int64_t dims[TN_MAX_RANK + 1], arg[2] = {op, mask};
    for (int i = 0; i < x->rank; i++) dims[i] = mask >> i & 1 ? 1 : x->dims[i];
    return node(s, TN_OP_REDUCE, x, &x, 1, dims, x->rank, arg, 2);
}

static tn__uop *split_reduce(tn__space *s, tn__uop *u)
{
    tn__uop *x = u->src[0];
    int64_t dims[TN_MAX_RANK + 1];
    int ax = -1;
    if (x->rank >= TN_MAX_RANK || tn__uop_numel(u) >= SPLIT_OUTPUTS ||
        tn__uop_numel(x) / (tn__uop_numel(u) ? tn__uop_numel(u) : 1) <= SPLIT_SIZE)
        return u;
    for (int i = 0; i < x->rank; i++)
        if ((u->arg[1] >> i & 1) && (ax < 0 || x->dims[i] > x->dims[ax])) ax = i;
    if (ax < 0 || x->dims[ax] < 2 * SPLIT_PARTS) return u;
    const int64_t rest = x->dims[ax] % SPLIT_PARTS, whole = x->dims[ax] - rest;
    tn__uop *main = rest ? shrink_axis(s, x, ax, 0, whole) : x;
    for (int i = 0; i <= x->rank; i++)
        dims[i] = i < ax        ? x->dims[i]
                  : i == ax     ? SPLIT_PARTS
                  : i == ax + 1 ? whole / SPLIT_PARTS
                                : x->dims[i - 1];
    main = node(s, TN_OP_RESHAPE, main, &main, 1, dims, x->rank + 1, NULL, 0);
    const int64_t low = (INT64_C(1) << ax) - 1, m = u->arg[1];
    const int64_t inner = (m & low) | (m & ~low) << 1; /* without the parts, which stand at ax */
    main = reduce_axes(s, main, u->arg[0], inner & ~(INT64_C(1) << ax));
    main = reduce_axes(s, main, u->arg[0], INT64_C(1) << ax);
    main = node(s, TN_OP_RESHAPE, main, &main, 1, u->dims, u->rank, NULL, 0);
    if (!rest) return main;
    tn__uop *pair[2] = {main, reduce_axes(s, shrink_axis(s, x, ax, whole, rest), u->arg[0], m)};
    return node(s, (tn__op)u->arg[0], u, pair, 2, u->dims, u->rank, NULL, 0);
}

/* *after: by id, what became of a node. */
static bool pass_split(tn__space *s, tn__uop **roots, size_t n, bool multi, tn__uop ***after)
{
    tn__uop **order, *src[8];
    size_t count;
    if (!tn__uop_topo(s, roots, n, &order, &count)) return false;
    tn__uop **map = tn__arena_zero(s->arena, ((size_t)s->next_id + 1) * sizeof *map);
    if (!map) return false;
    for (size_t i = 0; i < count; i++) {
        tn__uop *u = order[i];
        for (int j = 0; j < u->nsrc; j++) src[j] = map[u->src[j]->id];
        tn__uop *v = tn__uop_with(s, u, src);
        map[u->id] = v->op == TN_OP_REDUCE ? split_reduce(s, v) : v;
    }
    *after = map;
    for (size_t i = 0; i < n; i++) {
        tn__uop *r = map[roots[i]->id], *x = r;
        while (x->op == TN_OP_RESHAPE) x = x->src[0];
        /* the same memory: a reshape of a result is no copy; over several devices its split axis may differ */
        if (x->op != TN_OP_BUFFER && !multi) r = x;
        const bool slice = r->op == TN_OP_BUFFER && r->arg[1] >= 0; /* as a result it is a copy */
        roots[i] = slice ? node(s, TN_OP_CONTIGUOUS, r, &r, 1, r->dims, r->rank, NULL, 0) : r;
    }
    return !s->failed;
}

/* ---- set-up ---- */

/* The last ncheck roots are checks. */
static bool start(tn__fuser *f, tn__uop **roots, size_t nroot, size_t nleaf)
{
    tn__schedule *s = f->s;
    const size_t nuser = nroot - (size_t)s->ncheck;
    if (!tn__uop_topo(f->sp, roots, nroot, &f->order, &f->n)) return false;
    f->info = tn__arena_zero(f->a, ((size_t)f->sp->next_id + 1) * sizeof *f->info);
    s->root_buf = tn__arena_zero(f->a, (nroot + 1) * sizeof *s->root_buf);
    const size_t nslot = nleaf * (size_t)s->ndev;
    int *slot = tn__arena_alloc(f->a, (nslot + 1) * sizeof *slot);
    if (!f->info || !s->root_buf || !slot) return false;
    for (size_t i = 0; i <= f->sp->next_id; i++) f->info[i].pbuf = -1;
    for (size_t i = 0; i < nslot; i++) slot[i] = -1;
    for (size_t i = 0; i < f->n; i++) {
        const tn__uop *u = f->order[i];
        if (u->op != TN_OP_BUFFER) continue;
        int *at = &slot[u->arg[0] * s->ndev + u->dev];
        if (*at < 0) {
            *at = tn__fuser_pbuf(f, u);
            if (f->sp->failed) return false;
            s->buf[*at].kind = TN__PBUF_INPUT;
            s->buf[*at].slot = (int)u->arg[0];
        }
        f->info[u->id].pbuf = *at;
    }
    for (size_t i = 0; i < nroot; i++) {
        tn__info *info = &f->info[roots[i]->id];
        if (roots[i]->op != TN_OP_BUFFER && info->pbuf < 0) {
            info->store = true;
            info->pbuf = tn__fuser_pbuf(f, roots[i]);
            if (f->sp->failed) return false;
            s->buf[info->pbuf].kind = i < nuser ? TN__PBUF_OUTPUT : TN__PBUF_STATUS;
            s->buf[info->pbuf].slot = (int)(i < nuser ? i : i - nuser);
        }
        s->root_buf[i] = info->pbuf;
        if (i >= nuser) s->check[i - nuser].buf = info->pbuf;
    }
    s->nroot = (int)nuser;
    s->nleaf = (int)nleaf;
    return true;
}

/* Kernels by the place of their root in the topological order, then as made. */
static bool order_kernels(tn__fuser *f)
{
    tn__schedule *s = f->s;
    const size_t n = (size_t)s->nkernel;
    size_t *place = tn__arena_zero(f->a, ((size_t)f->sp->next_id + 1) * sizeof *place);
    size_t *first = tn__arena_zero(f->a,
                                   (f->n + 2) * sizeof *first); /* of the kernels at a place */
    tn__kernel **sorted = tn__arena_alloc(s->arena, (n + 1) * sizeof *sorted);
    if (!place || !first || !sorted) return false;
    for (size_t i = 0; i < f->n; i++) place[f->order[i]->id] = i;
    for (size_t i = 0; i < n; i++) first[place[s->kernel[i]->root->id] + 1]++;
    for (size_t i = 0; i < f->n; i++) first[i + 1] += first[i];
    for (size_t i = 0; i < n; i++) sorted[first[place[s->kernel[i]->root->id]]++] = s->kernel[i];
    s->kernel = sorted;
    s->cap_kernel = s->nkernel;
    return true;
}

static void lifetimes(tn__schedule *s)
{
    tn__kernel **k = s->kernel;
    for (int i = 0; i < s->nbuf; i++) s->buf[i].first = s->buf[i].last = -1;
    for (int i = 0; i < s->nkernel; i++) {
        for (int j = 0; j < k[i]->nbuf; j++) {
            tn__pbuf *b = &s->buf[k[i]->buf[j].plan];
            if (!k[i]->copy || j) b->dev = k[i]->dev; /* those that codegen made know none yet */
            if (b->first < 0) b->first = k[i]->launch;
            b->last = k[i]->launch;
        }
    }
}

tn__kernel *tn__schedule_insert(tn__schedule *s, const tn__kernel *k)
{
    tn__kernel *c = tn__arena_zero(s->arena, sizeof *c);
    tn__kernel **list = tn__arena_alloc(s->arena, ((size_t)s->nkernel + 1) * sizeof *list);
    int n = 0;
    if (!c || !list) return NULL;
    tn__space_init(&c->sp, s->arena);
    c->root = k->root;
    c->number = s->nkernel;
    c->dev = k->dev;
    for (int i = 0; i < s->nkernel; i++) {
        if (s->kernel[i] == k) list[n++] = c;
        list[n++] = s->kernel[i];
    }
    s->kernel = list;
    s->nkernel = s->cap_kernel = n;
    return c;
}

int tn__schedule_temp(tn__schedule *s, tn_dtype dt, int64_t numel)
{
    if (s->nbuf == s->cap_buf) {
        const int cap = s->cap_buf * 2 + 32;
        tn__pbuf *b = tn__arena_alloc(s->arena, (size_t)cap * sizeof *b);
        if (!b) return -1;
        if (s->nbuf) memcpy(b, s->buf, (size_t)s->nbuf * sizeof *b);
        s->buf = b;
        s->cap_buf = cap;
    }
    s->buf[s->nbuf] = (tn__pbuf){.kind = TN__PBUF_TEMP, .dt = dt, .numel = numel};
    return s->nbuf++;
}

static size_t bytes_of(const tn__pbuf *b) { return (size_t)b->numel * tn__dtype_size(b->dt); }

static bool is_temp(const tn__pbuf *b) { return b->kind == TN__PBUF_TEMP && b->first >= 0; }

/* Most bytes of temps that are alive in one launch. */
static size_t live_peak(const tn__schedule *s)
{
    size_t most = 0;
    for (int i = 0; i < s->nlaunch; i++) {
        size_t now = 0;
        for (int b = 0; b < s->nbuf; b++)
            if (is_temp(&s->buf[b]) && s->buf[b].first <= i && i <= s->buf[b].last)
                now += bytes_of(&s->buf[b]);
        if (now > most) most = now;
    }
    return most;
}

/* The lowest place for p among the placed that it meets in time: placed[] is sorted by offset. */
static size_t place_for(const tn__schedule *s, const tn__pbuf *p, const int *placed, int n,
                        size_t align)
{
    size_t at = 0;
    for (int j = 0; j < n; j++) {
        const tn__pbuf *q = &s->buf[placed[j]];
        if (q->dev != p->dev || q->last < p->first || p->last < q->first) continue;
        if (at + bytes_of(p) <= q->offset) break;
        const size_t end = (q->offset + bytes_of(q) + align - 1) / align * align;
        if (end > at) at = end;
    }
    return at;
}

static bool larger(const tn__pbuf *a, const tn__pbuf *b)
{
    const size_t x = bytes_of(a), y = bytes_of(b);
    return x != y ? x > y : a->first < b->first;
}

/* Places the temps in this order, each at the lowest offset that is free while it lives; *top: place in the order
 * of the one that ends highest. */
static size_t place_all(tn__schedule *s, const int *order, int n, int *placed, size_t align,
                        int *top)
{
    size_t total = 0;
    *top = 0;
    for (int i = 0; i < n; i++) {
        tn__pbuf *p = &s->buf[order[i]];
        p->offset = place_for(s, p, placed, i, align);
        int j = i;
        for (; j > 0 && s->buf[placed[j - 1]].offset > p->offset; j--) placed[j] = placed[j - 1];
        placed[j] = order[i];
        if (p->offset + bytes_of(p) <= total) continue;
        total = p->offset + bytes_of(p);
        *top = i;
    }
    return total;
}

static void move_to_front(int *order, int i)
{
    const int x = order[i];
    memmove(order + 1, order, (size_t)i * sizeof *order);
    order[0] = x;
}

/* The largest first; then, a number of times, what ended on top goes first.  The best of these stays. */
bool tn__schedule_memory(tn__schedule *s, size_t align)
{
    enum { TRIES = 64, WORK = 1 << 18 };
    const size_t cap = (size_t)s->nbuf + 1;
    int *order = tn__arena_alloc(s->arena, 3 * cap * sizeof *order);
    int n = 0, *placed = order + cap, *best = placed + cap, top;
    size_t least = SIZE_MAX;
    if (!order) return false;
    lifetimes(s);
    memset(s->temp_bytes, 0, sizeof s->temp_bytes);
    s->live_peak = live_peak(s);
    for (int b = 0; b < s->nbuf; b++) {
        if (!is_temp(&s->buf[b])) continue;
        int j = n++;
        for (; j > 0 && larger(&s->buf[b], &s->buf[order[j - 1]]); j--) order[j] = order[j - 1];
        order[j] = b;
    }
    for (int t = 0;
         t < TRIES && (!t || (size_t)n * (size_t)n * (size_t)t < WORK) && least > s->live_peak;
         t++) {
        const size_t total = place_all(s, order, n, placed, align, &top);
        if (total < least) {
            least = total;
            memcpy(best, order, (size_t)n * sizeof *best);
        }
        if (n) move_to_front(order, top);
    }
    place_all(s, best, n, placed, align, &top);
    for (int i = 0; i < n; i++) {
        const tn__pbuf *p = &s->buf[order[i]];
        const size_t end = p->offset + bytes_of(p);
        if (end > s->temp_bytes[p->dev]) s->temp_bytes[p->dev] = end;
    }
    return true;
}

/* ---- what each kernel computes, for messages ---- */

typedef struct {
    int **list; /* by kernel number */
    int *len, *last;
    int kernels;
} records;

static void note(records *r, const tn__kernel *k, int rec)
{
    const int i = k->number;
    if (i < 0 || i >= r->kernels || r->last[i] == rec) return;
    r->last[i] = rec;
    if (r->list[i]) r->list[i][r->len[i]] = rec;
    r->len[i]++;
}

/* Every kernel that computes an element of a record's node, instead of loading it.  Equal constants are one node,
 * which the first of them stands for. */
static void note_all(tn__fuser *f, records *r, tn__uop *const *made, size_t n,
                     tn__uop *const *after)
{
    for (int i = 0; i < r->kernels; i++) {
        r->len[i] = 0;
        r->last[i] = -1;
    }
    for (size_t i = 0; i < n; i++) {
        const tn__uop *u = made[i]->op == TN_OP_BUFFER ? NULL : after[made[i]->id];
        if (!u || u->op == TN_OP_BUFFER) continue;
        tn__info *info = &f->info[u->id];
        if (u->op == TN_OP_CONST && info->record && info->record != i + 1) continue;
        info->record = i + 1;
        if (info->root) note(r, info->root->k, (int)i);
        for (const tn__inst *x = info->insts; x; x = x->next)
            if (!info->store || info->attached) note(r, x->k, (int)i);
    }
}

static bool note_records(tn__fuser *f, const char *bytes, size_t len, tn__uop *const *after)
{
    tn__schedule *s = f->s;
    tn__uop **made;
    size_t n;
    records r = {.kernels = 0};
    for (int i = 0; i < s->nkernel; i++)
        if (s->kernel[i]->number >= r.kernels) r.kernels = s->kernel[i]->number + 1;
    const size_t size = ((size_t)r.kernels + 1) * sizeof(int);
    r.len = tn__arena_zero(f->a, size);
    r.last = tn__arena_zero(f->a, size);
    r.list = tn__arena_zero(f->a, ((size_t)r.kernels + 1) * sizeof *r.list);
    s->record = tn__arena_zero(f->a, ((size_t)s->nbuf + 1) * sizeof *s->record);
    if (!r.len || !r.last || !r.list || !s->record ||
        !tn__normal_records(f->sp, bytes, len, &made, &n))
        return false;
    for (size_t i = 0; i < n; i++)
        for (int j = 0; j < s->ncheck; j++)
            if (made[i] == s->check[j].of) s->check[j].record = (int)i;
    note_all(f, &r, made, n, after);
    for (int i = 0; i < r.kernels; i++)
        if (!(r.list[i] = tn__arena_alloc(f->a, ((size_t)r.len[i] + 1) * sizeof(int))))
            return false;
    note_all(f, &r, made, n, after);
    for (int i = 0; i < r.kernels; i++) r.list[i][r.len[i]] = -1;
    s->nrecord = s->nbuf;
    for (int i = 0; i < s->nkernel; i++) {
        const tn__kernel *k = s->kernel[i];
        for (int j = 0; j < k->nbuf; j++)
            if (k->buf[j].access & TNP_ACCESS_WRITE) s->record[k->buf[j].plan] = r.list[k->number];
    }
    return true;
}

bool tn__schedule_make(tn__arena *a, const char *bytes, size_t len, const tn__target *t,
                       tn__schedule *out)
{
    tn__space sp;
    tn__uop **roots, **after, **lowered = NULL;
    size_t nroot, nleaf, nscalar, nlowered = 0;
    int nplace;
    *out = (tn__schedule){.arena = a, .ndev = 1};
    const tn__layout *place = tn__normal_layouts(a, bytes, len, &nplace);
    tn__space_init(&sp, a);
    tn__fuser f = {.s = out, .a = a, .sp = &sp, .target = t};
    bool ok = place && tn__normal_parse(&sp, bytes, len, &roots, &nroot, &nleaf, &nscalar) &&
              tn__checks_add(out, &sp, &roots, &nroot) &&
              (!nplace || tn__place_lower(&sp, place, nplace, &roots, &nroot, &out->ndev, &lowered,
                                          &nlowered)) &&
              pass_split(&sp, roots, nroot, nplace != 0, &after) &&
              start(&f, roots, nroot, nleaf) && tn__demand_all(&f) && tn__value_all(&f) &&
              order_kernels(&f);
    for (size_t i = 0; ok && i < nlowered; i++)
        lowered[i] = lowered[i] ? after[lowered[i]->id] : NULL;
    if (ok) tn__checks_gate(out);
    ok = ok && note_records(&f, bytes, len, nplace ? lowered : after);
    out->nscalar = (int)nscalar;
    for (int i = 0; ok && i < out->nkernel; i++) ok = !out->kernel[i]->sp.failed;
    if (!ok) {
        if (tn_ok()) tn__fail_nomem();
        tn__schedule_free(out);
    }
    tn__space_free(&sp);
    return ok;
}

void tn__schedule_free(tn__schedule *s)
{
    for (int i = 0; i < s->nkernel; i++) {
        tn__space_free(&s->kernel[i]->sp);
        tn__buf_free(&s->kernel[i]->opts);
    }
    s->nkernel = 0;
}
