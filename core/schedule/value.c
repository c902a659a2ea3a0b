/* SPDX-License-Identifier: MIT */
/*
 * From instances to kernel expressions, inputs first; movement as index arithmetic; loads.
 *
 * Invariant: a load's indices are inside its buffer wherever its gate holds; a load without a gate is
 * proved to be inside by the bounds of its index expressions.
 */
#include "schedule/fuse.h"
#include <string.h>
#include <tenon/plugin.h>

bool tn__move_index(tn__space *s, const tn__uop *u, tn__uop *const *idx, tn__uop **out,
                    tn__uop **cond)
{
    const tn__uop *x = u->src[0];
    *cond = NULL;
    switch (u->op) {
    case TN_OP_RESHAPE: tn__ix_reshape(s, idx, u->dims, u->rank, x->dims, x->rank, out); break;
    case TN_OP_EXPAND:
        for (int i = 0; i < x->rank; i++)
            out[i] = x->dims[i] == 1 && u->dims[i] != 1 ? tn__ix_const(s, 0) : idx[i];
        break;
    case TN_OP_PERMUTE:
        for (int i = 0; i < u->rank; i++) out[u->arg[i]] = idx[i];
        break;
    case TN_OP_SHRINK:
        for (int i = 0; i < u->rank; i++) out[i] = tn__ix_addc(s, idx[i], u->arg[i]);
        break;
    case TN_OP_PAD:
        for (int i = 0; i < u->rank; i++) {
            out[i] = tn__ix_addc(s, idx[i], -u->arg[2 * i]);
            *cond = tn__cond_and(s, *cond, tn__ix_ge(s, out[i], 0));
            *cond = tn__cond_and(s, *cond, tn__ix_lt(s, out[i], x->dims[i]));
        }
        break;
    case TN_OP_FLIP:
        for (int i = 0; i < u->rank; i++)
            out[i] = u->arg[0] >> i & 1 ? tn__ix_addc(s, tn__ix_mulc(s, idx[i], -1), u->dims[i] - 1)
                                        : idx[i];
        break;
    case TN_OP_WINDOW: {
        const int ax = (int)u->arg[0];
        for (int i = 0; i < ax; i++) out[i] = idx[i];
        out[ax] = tn__ix_add(s, tn__ix_mulc(s, idx[ax], u->arg[2]),
                             tn__ix_mulc(s, idx[ax + 1], u->arg[3]));
        for (int i = ax + 1; i < x->rank; i++) out[i] = idx[i + 1];
        break;
    }
    default: return tn__fail(TN_EINTERNAL, "schedule: %s is no movement", tn__ops[u->op].text);
    }
    return !s->failed;
}

/* ---- buffers and scalars of a kernel ---- */

int tn__kernel_scalar(tn__kernel *k, int plan_scalar, tn_dtype dt)
{
    for (int i = 0; i < k->nscalar; i++)
        if (k->scalar[i] == plan_scalar) return i;
    if (k->nscalar == TN__KSCALARS) {
        tn__fail(TN_EINTERNAL, "kernel: more than %d run-time scalars", TN__KSCALARS);
        k->sp.failed = true;
        return 0;
    }
    k->scalar[k->nscalar] = plan_scalar;
    k->scalar_dt[k->nscalar] = dt;
    return k->nscalar++;
}

static tn__uop *scalar_value(tn__kernel *k, int64_t plan_scalar, tn_dtype dt)
{
    const int64_t n = tn__kernel_scalar(k, (int)plan_scalar, dt);
    return tn__uop_get(&k->sp, &(tn__uop_desc){.op = TN_OP_SCALAR, .dt = dt, .narg = 1, .arg = &n});
}

int tn__kernel_buffer(tn__fuser *f, tn__kernel *k, int plan, tn_dtype dt, uint8_t access,
                      const tn__uop *shape)
{
    tn__uop *offset = NULL;
    const bool leaf = shape->op == TN_OP_BUFFER && !(access & TNP_ACCESS_WRITE);
    if (leaf && shape->arg[1] >= 0)
        offset = tn__ix_atom(&k->sp, scalar_value(k, shape->arg[1], TN_I64));
    for (int i = 0; i < k->nbuf; i++) {
        tn__kbuf *b = &k->buf[i];
        if (b->plan == plan && b->offset == offset && b->rank == shape->rank &&
            !memcmp(b->dims, shape->dims, (size_t)shape->rank * sizeof *b->dims)) {
            b->access |= access;
            return i;
        }
    }
    if (k->nbuf == TN__KBUFS) {
        tn__fail(TN_EINTERNAL, "kernel: more than %d buffers", TN__KBUFS);
        return -1;
    }
    int64_t *st = tn__arena_alloc(f->a, ((size_t)shape->rank + 1) * sizeof *st);
    if (!st) return -1;
    int64_t stride = 1;
    for (int i = shape->rank - 1; i >= 0; i--) {
        st[i] = leaf ? shape->arg[2 + i] : stride;
        stride *= shape->dims[i];
    }
    k->buf[k->nbuf] = (tn__kbuf){.plan = plan,
                                 .dt = dt,
                                 .access = access,
                                 .rank = shape->rank,
                                 .dims = shape->dims,
                                 .strides = st,
                                 .offset = offset,
                                 .numel = offset ? 0 : stride};
    return k->nbuf++;
}

tn__uop *tn__load_of(tn__fuser *f, tn__kernel *k, tn__uop *u, tn__uop *const *idx, tn__uop *gate)
{
    const int plan = f->info[u->id].pbuf;
    const int b = tn__kernel_buffer(f, k, plan, (tn_dtype)u->dt, TNP_ACCESS_READ, u);
    tn__uop *src[TN_MAX_RANK + 1];
    bool inside = true;
    if (b < 0) {
        k->sp.failed = true;
        return &tn__uop_bad;
    }
    for (int i = 0; i < u->rank; i++) {
        src[i] = idx[i];
        inside &= idx[i]->lo >= 0 && idx[i]->hi < u->dims[i];
    }
    if (inside) gate = NULL;
    src[u->rank] = gate;
    int64_t arg[2] = {b, gate != NULL};
    return tn__uop_get(&k->sp, &(tn__uop_desc){.op = TN_OP_LOAD,
                                               .dt = (tn_dtype)u->dt,
                                               .narg = 2,
                                               .arg = arg,
                                               .nsrc = u->rank + (gate != NULL),
                                               .src = src});
}

/* ---- values ---- */

static bool gate_covers(const tn__uop *gate, const tn__uop *cond)
{
    for (; cond->op == TN_OP_AND; cond = cond->src[0]) {
        const tn__uop *part = cond->src[1], *g = gate;
        while (g->op == TN_OP_AND && g->src[1] != part) g = g->src[0];
        if (g != part && !(g->op == TN_OP_AND && g->src[1] == part)) return false;
    }
    const tn__uop *g = gate;
    while (g->op == TN_OP_AND) {
        if (g->src[1] == cond) return true;
        g = g->src[0];
    }
    return g == cond;
}

/* Is the value 0 wherever cond fails?  A product counts as 0 when one factor is: what stands outside a
 * tensor's edge in a convolution is a product with a padded 0. */
static bool zero_outside(const tn__uop *v, const tn__uop *cond)
{
    for (int depth = 0; depth < 8; depth++) {
        if (v->op == TN_OP_LOAD) return v->arg[1] && gate_covers(v->src[v->nsrc - 1], cond);
        if (v->op == TN_OP_CAST && v->src[0]->op != TN_OP_AFFINE)
            v = v->src[0];
        else if (v->op == TN_OP_MUL) {
            if (zero_outside(v->src[1], cond)) return true;
            v = v->src[0];
        } else
            return false;
    }
    return false;
}

static tn__uop *masked(tn__space *s, tn__uop *cond, tn__uop *v, tn_dtype dt)
{
    if (!cond) return v;
    if (tn__cond_false(cond)) return tn__kconst(s, dt, 0);
    if (zero_outside(v, cond)) return v;
    return tn__k3(s, TN_OP_WHERE, dt, cond, v, tn__kconst(s, dt, 0));
}

/* Threefry-2x32, 20 rounds (Salmon et al., 2011): word 0 of the block of element `pos`. */
static tn__uop *random_word(tn__kernel *k, const tn__uop *u, tn__uop *pos)
{
    static const int rot[8] = {13, 15, 26, 6, 17, 29, 16, 24};
    tn__space *s = &k->sp;
    tn__uop *key = scalar_value(k, u->arg[0], TN_U64), *base = scalar_value(k, u->arg[1], TN_U64);
    tn__uop *c = tn__k2(s, TN_OP_ADD, TN_U64, base, tn__k1(s, TN_OP_CAST, TN_U64, pos));
    tn__uop *half = tn__kconst(s, TN_U64, 32);
    tn__uop *ks[3], *x[2];
    ks[0] = tn__k1(s, TN_OP_CAST, TN_U32, key);
    ks[1] = tn__k1(s, TN_OP_CAST, TN_U32, tn__k2(s, TN_OP_SHR, TN_U64, key, half));
    ks[2] = tn__k2(s, TN_OP_XOR, TN_U32, tn__k2(s, TN_OP_XOR, TN_U32, ks[0], ks[1]),
                   tn__kconst(s, TN_U32, 0x1bd11bda));
    x[0] = tn__k2(s, TN_OP_ADD, TN_U32, tn__k1(s, TN_OP_CAST, TN_U32, c), ks[0]);
    x[1] = tn__k2(s, TN_OP_ADD, TN_U32,
                  tn__k1(s, TN_OP_CAST, TN_U32, tn__k2(s, TN_OP_SHR, TN_U64, c, half)), ks[1]);
    for (int r = 0; r < 20; r++) {
        const uint64_t n = (uint64_t)rot[r % 8];
        x[0] = tn__k2(s, TN_OP_ADD, TN_U32, x[0], x[1]);
        x[1] = tn__k2(s, TN_OP_OR, TN_U32,
                      tn__k2(s, TN_OP_SHL, TN_U32, x[1], tn__kconst(s, TN_U32, n)),
                      tn__k2(s, TN_OP_SHR, TN_U32, x[1], tn__kconst(s, TN_U32, 32 - n)));
        x[1] = tn__k2(s, TN_OP_XOR, TN_U32, x[1], x[0]);
        if (r % 4 != 3) continue;
        const uint64_t j = (uint64_t)r / 4 + 1;
        x[0] = tn__k2(s, TN_OP_ADD, TN_U32, x[0], ks[j % 3]);
        x[1] = tn__k2(s, TN_OP_ADD, TN_U32, x[1],
                      tn__k2(s, TN_OP_ADD, TN_U32, ks[(j + 1) % 3], tn__kconst(s, TN_U32, j)));
    }
    return x[0];
}

static tn__uop *leaf_value(tn__kernel *k, const tn__uop *u, tn__uop *const *idx)
{
    switch (u->op) {
    case TN_OP_CONST: return tn__kconst(&k->sp, (tn_dtype)u->dt, u->bits);
    case TN_OP_IOTA: return tn__k1(&k->sp, TN_OP_CAST, (tn_dtype)u->dt, idx[u->arg[0]]);
    case TN_OP_SCALAR: return scalar_value(k, u->arg[0], (tn_dtype)u->dt);
    default: break;
    }
    if (u->narg == 2) return random_word(k, u, tn__ix_join(&k->sp, idx, u->dims, u->rank));
    /* a device's part: {.., sizes of the whole, first index of the part} */
    tn__uop *at[TN_MAX_RANK];
    for (int i = 0; i < u->rank; i++) at[i] = tn__ix_addc(&k->sp, idx[i], u->arg[2 + u->rank + i]);
    return random_word(k, u, tn__ix_join(&k->sp, at, u->arg + 2, u->rank));
}

static tn__uop *elementwise(tn__space *s, const tn__uop *u, tn__uop *const *src)
{
    return tn__uop_get(
        s,
        &(tn__uop_desc){.op = (tn__op)u->op, .dt = (tn_dtype)u->dt, .nsrc = u->nsrc, .src = src});
}

static tn__uop *reduce_value(tn__fuser *f, tn__inst *x)
{
    const tn__uop *u = x->node;
    tn__space *s = &x->k->sp;
    const tn__op op = u->op == TN_OP_FOLD ? TN_OP_ADD : (tn__op)u->arg[0];
    if (!x->src[0]) /* over nothing, or outside every window */
        return u->op == TN_OP_FOLD
                   ? tn__kconst(s, (tn_dtype)u->dt, 0)
                   : tn__kconst(s, (tn_dtype)u->dt, tn__reduce_identity(op, (tn_dtype)u->dt));
    tn__uop *v = masked(s, x->cond, x->src[0]->value, (tn_dtype)u->dt);
    if (x->merged) {
        tn__inst *h = x->host;
        for (int i = 0; i < x->nrange && h->ntaken < TN_MAX_RANK; i++)
            h->taken[h->ntaken++] = x->range[i];
        return v;
    }
    const int n = x->nrange + x->ntaken;
    if (!n) return v;
    tn__uop *src[2 * TN_MAX_RANK + 1];
    src[0] = v;
    for (int i = 0; i < x->nrange; i++) src[1 + i] = x->range[i];
    for (int i = 0; i < x->ntaken; i++) src[1 + x->nrange + i] = x->taken[i];
    const int64_t arg = op;
    (void)f;
    return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_REDUCE,
                                          .dt = (tn_dtype)u->dt,
                                          .narg = 1,
                                          .arg = &arg,
                                          .nsrc = n + 1,
                                          .src = src});
}

static tn__uop *inst_value(tn__fuser *f, tn__inst *x)
{
    tn__uop *u = x->node, *src[3];
    tn__space *s = &x->k->sp;
    const tn__class cls = tn__ops[u->op].cls;
    if (cls == TN_CLASS_LEAF || u->op == TN_OP_RNG) return leaf_value(x->k, u, x->idx);
    if (u->op == TN_OP_REDUCE) return reduce_value(f, x);
    if (u->op == TN_OP_FOLD) {
        if (x->nrange) return reduce_value(f, x);
        return x->src[0] ? masked(s, x->cond, x->src[0]->value, (tn_dtype)u->dt)
                         : tn__kconst(s, (tn_dtype)u->dt, 0);
    }
    if (u->op == TN_OP_SCAN) {
        const int64_t arg = u->arg[0];
        tn__uop *ss[2] = {x->src[0]->value,
                          x->idx[u->arg[1]]->nsrc ? x->idx[u->arg[1]]->src[0] : NULL};
        if (!ss[1]) return ss[0];
        return tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_SCAN,
                                              .dt = (tn_dtype)u->dt,
                                              .narg = 1,
                                              .arg = &arg,
                                              .nsrc = 2,
                                              .src = ss});
    }
    if (cls == TN_CLASS_MOVE || u->op == TN_OP_GATHER)
        return x->src[0] ? masked(s, x->cond, x->src[0]->value, (tn_dtype)u->dt)
                         : tn__kconst(s, (tn_dtype)u->dt, 0);
    for (int i = 0; i < u->nsrc; i++) src[i] = x->src[i]->value;
    if (cls == TN_CLASS_IDENTITY && u->op != TN_OP_CAST) return src[0];
    return elementwise(s, u, src);
}

bool tn__value_all(tn__fuser *f)
{
    for (size_t i = 0; i < f->n; i++) {
        tn__uop *u = f->order[i];
        tn__info *info = &f->info[u->id];
        const bool load = (info->store && !info->attached) || u->op == TN_OP_BUFFER;
        for (tn__inst *x = info->insts; x; x = x->next) {
            x->value = load ? tn__load_of(f, x->k, u, x->idx, x->gate) : inst_value(f, x);
            if (x->k->sp.failed) return false;
        }
        if (info->root) info->root->value = inst_value(f, info->root);
    }
    for (int i = 0; i < f->s->nkernel; i++) {
        tn__kernel *k = f->s->kernel[i];
        for (int j = 0; j < k->nstore; j++) k->store[j].value = f->facts[k->number].store[j]->value;
        if (k->root->op != TN_OP_SCATTER || !(k->buf[k->store[0].buf].access & TNP_ACCESS_READ))
            continue;
        /* read, combine, write */
        if (k->root->arg[0] == TN_OP_CONST) continue;
        tn__kstore *st = &k->store[0];
        int64_t arg[2] = {st->buf, 1};
        tn__uop *src[4] = {st->idx[0], st->idx[1], st->idx[2],
                           st->gate ? st->gate : tn__kconst(&k->sp, TN_BOOL, 1)};
        tn__uop *old = tn__uop_get(&k->sp, &(tn__uop_desc){.op = TN_OP_LOAD,
                                                           .dt = k->buf[st->buf].dt,
                                                           .narg = 2,
                                                           .arg = arg,
                                                           .nsrc = 4,
                                                           .src = src});
        st->value = tn__k2(&k->sp, (tn__op)k->root->arg[0], k->buf[st->buf].dt, old, st->value);
    }
    return true;
}

/* ---- values at once ---- */

enum { NOW_DEPTH = 48 };

tn__uop *tn__value_now(tn__fuser *f, tn__kernel *k, tn__uop *u, tn__uop *const *idx, tn__uop *gate,
                       int depth)
{
    tn__info *info = &f->info[u->id];
    tn__space *s = &k->sp;
    const tn__class cls = tn__ops[u->op].cls;
    if (cls == TN_CLASS_LEAF && u->op != TN_OP_BUFFER) return leaf_value(k, u, idx);
    const bool simple = cls == TN_CLASS_UNARY || cls == TN_CLASS_BINARY ||
                        cls == TN_CLASS_COMPARE || cls == TN_CLASS_TERNARY || cls == TN_CLASS_MOVE;
    if (u->op == TN_OP_BUFFER || info->store || !simple || u->op == TN_OP_FOLD ||
        depth > NOW_DEPTH || info->ops > 12) {
        if (u->op != TN_OP_BUFFER) info->store = info->read_now = true;
        if (info->pbuf < 0) info->pbuf = tn__fuser_pbuf(f, u);
        return tn__load_of(f, k, u, idx, gate);
    }
    tn__uop *src[3], *next[TN_MAX_RANK + 1], *cond;
    if (cls == TN_CLASS_MOVE) {
        if (!tn__move_index(s, u, idx, next, &cond)) return &tn__uop_bad;
        if (tn__cond_false(cond)) return tn__kconst(s, (tn_dtype)u->dt, 0);
        tn__uop *v = tn__value_now(f, k, u->src[0], next, tn__cond_and(s, gate, cond), depth + 1);
        return masked(s, cond, v, (tn_dtype)u->dt);
    }
    for (int i = 0; i < u->nsrc; i++) src[i] = tn__value_now(f, k, u->src[i], idx, gate, depth + 1);
    return elementwise(s, u, src);
}
