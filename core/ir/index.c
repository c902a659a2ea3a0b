/* SPDX-License-Identifier: MIT */
/*
 * Index algebra by smart constructors.  See index.h for the normal form.
 *
 * Rules, all applied at construction:
 *  1. equal atoms merge; zero coefficients vanish
 *  2. k*c*(x div c) + k*(x mod c) = k*x;  k*(x mod c) + k*c*((x div c) mod b) = k*(x mod b*c)
 *  3. (c*q + r) div c = q + r div c, (c*q + r) mod c = r mod c, for every term
 *  4. 0 <= r < c: r div c = 0, r mod c = r
 *  5. common factors of r and c cancel
 *  6. (x div a) div b = x div a*b;  (x mod a*b) mod b = x mod b
 */
#include "ir/index.h"
#include <string.h>

#define FAR (INT64_C(1) << 60)

static int64_t clamp(int64_t v) { return v > FAR ? FAR : v < -FAR ? -FAR : v; }

static int64_t sat_mul(int64_t a, int64_t b)
{
    int64_t r;
    if (__builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? FAR : -FAR;
    return clamp(r);
}

static int64_t floor_div(int64_t a, int64_t c) { return a / c - (a % c < 0); }
static int64_t floor_mod(int64_t a, int64_t c) { return a % c + (a % c < 0 ? c : 0); }

static int64_t gcd(int64_t a, int64_t b)
{
    if (a < 0) a = -a;
    while (b) {
        int64_t t = a % b;
        a = b;
        b = t < 0 ? -t : t;
    }
    return a;
}

/* ---- sums under construction ---- */

enum { MAX_TERMS = 160 };
typedef struct {
    int64_t c;
    int n;
    tn__uop *atom[MAX_TERMS];
    int64_t coef[MAX_TERMS];
} sum;

static void sum_term(tn__space *s, sum *t, tn__uop *atom, int64_t coef)
{
    int i = 0;
    if (!coef) return;
    while (i < t->n && t->atom[i]->id < atom->id) i++;
    if (i < t->n && t->atom[i] == atom) {
        t->coef[i] += coef;
        if (t->coef[i]) return;
        t->n--;
        memmove(t->atom + i, t->atom + i + 1, (size_t)(t->n - i) * sizeof *t->atom);
        memmove(t->coef + i, t->coef + i + 1, (size_t)(t->n - i) * sizeof *t->coef);
        return;
    }
    if (t->n == MAX_TERMS) {
        tn__fail(TN_EINTERNAL, "index: more than %d terms in one expression", MAX_TERMS);
        s->failed = true;
        return;
    }
    memmove(t->atom + i + 1, t->atom + i, (size_t)(t->n - i) * sizeof *t->atom);
    memmove(t->coef + i + 1, t->coef + i, (size_t)(t->n - i) * sizeof *t->coef);
    t->atom[i] = atom;
    t->coef[i] = coef;
    t->n++;
}

static void sum_add(tn__space *s, sum *t, const tn__uop *a, int64_t k)
{
    t->c += k * a->arg[0];
    for (int i = 0; i < a->nsrc; i++) sum_term(s, t, a->src[i], k * a->arg[1 + i]);
}

static tn__uop *sum_node(tn__space *s, const sum *t)
{
    int64_t arg[MAX_TERMS + 1], lo = t->c, hi = t->c;
    arg[0] = t->c;
    for (int i = 0; i < t->n; i++) {
        const int64_t k = t->coef[i], a = sat_mul(k, t->atom[i]->lo),
                      b = sat_mul(k, t->atom[i]->hi);
        arg[1 + i] = k;
        lo = clamp(lo + (a < b ? a : b));
        hi = clamp(hi + (a < b ? b : a));
    }
    tn__uop *u = tn__uop_get(s, &(tn__uop_desc){.op = TN_OP_AFFINE,
                                                .dt = TN_I64,
                                                .narg = t->n + 1,
                                                .arg = arg,
                                                .nsrc = t->n,
                                                .src = t->atom});
    return tn__uop_bound(u, lo, hi);
}

/* The expression under `u` when u is 1 * (op by constant), else NULL. */
static tn__uop *sole_atom(const tn__uop *u, tn__op op)
{
    return u->nsrc == 1 && u->arg[0] == 0 && u->arg[1] == 1 && u->src[0]->op == op ? u->src[0]
                                                                                   : NULL;
}

static bool is_divmod(const tn__uop *a, tn__op op)
{
    return a->op == op && a->narg == 1 && a->nsrc == 1 && a->src[0]->op == TN_OP_AFFINE;
}

/* Rule 2 for the pair (mod atom i, other atom j): the merged expression, or NULL. */
static tn__uop *merge_pair(tn__space *s, const sum *t, int i, int j)
{
    const tn__uop *m = t->atom[i], *d = t->atom[j];
    const int64_t c = m->arg[0];
    if (t->coef[j] != t->coef[i] * c) return NULL;
    if (is_divmod(d, TN_OP_IDIV) && d->src[0] == m->src[0] && d->arg[0] == c) return m->src[0];
    if (!is_divmod(d, TN_OP_IMOD)) return NULL;
    const tn__uop *q = sole_atom(d->src[0], TN_OP_IDIV);
    if (!q || !is_divmod(q, TN_OP_IDIV) || q->src[0] != m->src[0] || q->arg[0] != c) return NULL;
    return tn__ix_modc(s, m->src[0], c * d->arg[0]);
}

static bool merge_once(tn__space *s, sum *t)
{
    for (int i = 0; i < t->n; i++) {
        if (!is_divmod(t->atom[i], TN_OP_IMOD)) continue;
        for (int j = 0; j < t->n; j++) {
            tn__uop *x = j == i ? NULL : merge_pair(s, t, i, j);
            if (!x) continue;
            const int64_t k = t->coef[i], kj = t->coef[j];
            tn__uop *a = t->atom[i], *b = t->atom[j];
            sum_term(s, t, a, -k);
            sum_term(s, t, b, -kj);
            sum_add(s, t, x, k);
            return true;
        }
    }
    return false;
}

static tn__uop *finish(tn__space *s, sum *t)
{
    while (!s->failed && merge_once(s, t)) {
    }
    return s->failed ? &tn__uop_bad : sum_node(s, t);
}

tn__uop *tn__ix_const(tn__space *s, int64_t v) { return sum_node(s, &(sum){.c = v}); }

tn__uop *tn__ix_atom(tn__space *s, tn__uop *atom)
{
    sum t = {0};
    sum_term(s, &t, atom, 1);
    return sum_node(s, &t);
}

tn__uop *tn__ix_add(tn__space *s, tn__uop *a, tn__uop *b)
{
    sum t = {0};
    sum_add(s, &t, a, 1);
    sum_add(s, &t, b, 1);
    return finish(s, &t);
}

tn__uop *tn__ix_addc(tn__space *s, tn__uop *a, int64_t c)
{
    sum t = {.c = c};
    sum_add(s, &t, a, 1);
    return sum_node(s, &t);
}

tn__uop *tn__ix_mulc(tn__space *s, tn__uop *a, int64_t c)
{
    sum t = {0};
    sum_add(s, &t, a, c);
    return sum_node(s, &t);
}

static tn__uop *divmod_atom(tn__space *s, tn__op op, tn__uop *x, int64_t c)
{
    tn__uop *u = tn__uop_get(
        s, &(tn__uop_desc){.op = op, .dt = TN_I64, .narg = 1, .arg = &c, .nsrc = 1, .src = &x});
    if (op == TN_OP_IDIV)
        tn__uop_bound(u, floor_div(x->lo, c), floor_div(x->hi, c));
    else
        tn__uop_bound(u, 0, x->hi < c - 1 ? x->hi : c - 1);
    return tn__ix_atom(s, u);
}

/* a = c*q + r with every coefficient and the constant of r in [0, c). */
static void split_by(tn__space *s, const tn__uop *a, int64_t c, sum *q, sum *r)
{
    q->c = floor_div(a->arg[0], c);
    r->c = floor_mod(a->arg[0], c);
    for (int i = 0; i < a->nsrc; i++) {
        const int64_t k = a->arg[1 + i];
        /* a small negative coefficient stays as it is: rounding it up would widen the bounds */
        const int64_t kq = k < 0 && k > -c ? 0 : k / c;
        sum_term(s, q, a->src[i], kq);
        sum_term(s, r, a->src[i], k - kq * c);
    }
}

static int64_t common(const tn__uop *r, int64_t c)
{
    int64_t g = c;
    for (int i = 0; i < r->nsrc; i++) g = gcd(r->arg[1 + i], g);
    return g;
}

/* r with coefficients divided by g and the constant divided rounding down. */
static tn__uop *scaled_down(tn__space *s, const tn__uop *r, int64_t g)
{
    sum t = {.c = floor_div(r->arg[0], g)};
    for (int i = 0; i < r->nsrc; i++) sum_term(s, &t, r->src[i], r->arg[1 + i] / g);
    return finish(s, &t);
}

/* r + c*m >= 0 for the smallest m >= 0. */
static int64_t lift(const tn__uop *r, int64_t c) { return r->lo < 0 ? -floor_div(r->lo, c) : 0; }

tn__uop *tn__ix_divc(tn__space *s, tn__uop *a, int64_t c)
{
    sum q = {0}, rs = {0};
    if (c == 1) return a;
    split_by(s, a, c, &q, &rs);
    tn__uop *r = finish(s, &rs);
    if (r->lo <= -FAR / 2) return divmod_atom(s, TN_OP_IDIV, a, c);
    const int64_t m = lift(r, c);
    if (m) r = tn__ix_addc(s, r, m * c);
    tn__uop *whole = tn__ix_addc(s, finish(s, &q), -m);
    if (r->hi < c) return whole;
    const int64_t g = common(r, c);
    tn__uop *x = g > 1 ? scaled_down(s, r, g) : r;
    const int64_t d = c / g;
    if (d == 1) return tn__ix_add(s, whole, x);
    tn__uop *inner = sole_atom(x, TN_OP_IDIV);
    tn__uop *part = inner && is_divmod(inner, TN_OP_IDIV)
                        ? tn__ix_divc(s, inner->src[0], inner->arg[0] * d)
                        : divmod_atom(s, TN_OP_IDIV, x, d);
    return tn__ix_add(s, whole, part);
}

tn__uop *tn__ix_modc(tn__space *s, tn__uop *a, int64_t c)
{
    sum q = {0}, rs = {0};
    if (c == 1) return tn__ix_const(s, 0);
    split_by(s, a, c, &q, &rs);
    tn__uop *r = finish(s, &rs);
    const int64_t m = r->lo <= -FAR / 2 ? 0 : lift(r, c);
    if (m) r = tn__ix_addc(s, r, m * c);
    if (r->lo >= 0 && r->hi < c) return r;
    const int64_t g = common(r, c), e = floor_mod(r->arg[0], g);
    tn__uop *x = g > 1 ? scaled_down(s, r, g) : r;
    const int64_t d = c / g;
    if (d == 1) return tn__ix_const(s, e);
    tn__uop *inner = sole_atom(x, TN_OP_IMOD), *y;
    if (inner && is_divmod(inner, TN_OP_IMOD) && inner->arg[0] % d == 0)
        y = tn__ix_modc(s, inner->src[0], d);
    else if (x->lo >= 0 && x->hi < d)
        y = x;
    else
        y = divmod_atom(s, TN_OP_IMOD, x, d);
    return tn__ix_addc(s, tn__ix_mulc(s, y, g), e);
}

tn__uop *tn__ix_minc(tn__space *s, tn__uop *a, int64_t c)
{
    if (a->hi <= c) return a;
    if (a->lo >= c) return tn__ix_const(s, c);
    tn__uop *u = tn__uop_get(
        s,
        &(tn__uop_desc){.op = TN_OP_MIN, .dt = TN_I64, .narg = 1, .arg = &c, .nsrc = 1, .src = &a});
    return tn__ix_atom(s, tn__uop_bound(u, a->lo, c));
}

/* ---- conditions ---- */

static tn__uop *compare(tn__space *s, tn__op op, tn__uop *a, int64_t c)
{
    return tn__uop_get(
        s, &(tn__uop_desc){.op = op, .dt = TN_BOOL, .narg = 1, .arg = &c, .nsrc = 1, .src = &a});
}

tn__uop *tn__ix_lt(tn__space *s, tn__uop *a, int64_t c)
{
    if (a->hi < c) return NULL;
    if (a->lo >= c) return tn__kconst(s, TN_BOOL, 0);
    /* common factor: g*x + k < c  <=>  x < ceil((c - k) / g) */
    int64_t g = 0;
    for (int i = 0; i < a->nsrc; i++) g = gcd(a->arg[1 + i], g);
    if (g > 1) {
        const int64_t k = a->arg[0];
        tn__uop *x = scaled_down(s, tn__ix_addc(s, a, -k), g);
        return compare(s, TN_OP_LT, x, -floor_div(-(c - k), g));
    }
    if (a->arg[0]) {
        const int64_t k = a->arg[0];
        return compare(s, TN_OP_LT, tn__ix_addc(s, a, -k), c - k);
    }
    return compare(s, TN_OP_LT, a, c);
}

tn__uop *tn__ix_ge(tn__space *s, tn__uop *a, int64_t c)
{
    return tn__ix_lt(s, tn__ix_mulc(s, a, -1), 1 - c); /* a >= c  <=>  -a < 1 - c */
}

tn__uop *tn__ix_eq(tn__space *s, tn__uop *a, int64_t c)
{
    if (a->lo == c && a->hi == c) return NULL;
    if (a->lo > c || a->hi < c) return tn__kconst(s, TN_BOOL, 0);
    return compare(s, TN_OP_EQ, a, c);
}

bool tn__cond_false(const tn__uop *c) { return c && c->op == TN_OP_CONST && !c->bits; }

static bool cond_has(const tn__uop *c, const tn__uop *part)
{
    while (c->op == TN_OP_AND) {
        if (c->src[1] == part) return true;
        c = c->src[0];
    }
    return c == part;
}

tn__uop *tn__cond_and(tn__space *s, tn__uop *a, tn__uop *b)
{
    if (a && a->op == TN_OP_CONST && a->bits) a = NULL;
    if (b && b->op == TN_OP_CONST && b->bits) b = NULL;
    if (!a || a == b) return b;
    if (!b || tn__cond_false(a)) return a;
    if (tn__cond_false(b)) return b;
    if (b->op == TN_OP_AND) return tn__cond_and(s, tn__cond_and(s, a, b->src[0]), b->src[1]);
    if (cond_has(a, b)) return a;
    return tn__k2(s, TN_OP_AND, TN_BOOL, a, b);
}

int64_t tn__ix_coef(const tn__uop *a, int64_t n, bool *other)
{
    int64_t k = 0;
    *other = false;
    for (int i = 0; i < a->nsrc; i++) {
        if (!(a->src[i]->deps >> n & 1)) continue;
        if (a->src[i]->op == TN_OP_RANGE)
            k = a->arg[1 + i];
        else
            *other = true;
    }
    return k;
}

/* ---- shapes ---- */

void tn__ix_split(tn__space *s, tn__uop *pos, const int64_t *dims, int rank, tn__uop **out)
{
    for (int i = rank - 1; i >= 0; i--) {
        if (i == 0)
            out[i] = pos;
        else {
            out[i] = dims[i] > 0 ? tn__ix_modc(s, pos, dims[i]) : tn__ix_const(s, 0);
            pos = dims[i] > 0 ? tn__ix_divc(s, pos, dims[i]) : pos;
        }
    }
}

tn__uop *tn__ix_join(tn__space *s, tn__uop *const *idx, const int64_t *dims, int rank)
{
    tn__uop *pos = tn__ix_const(s, 0);
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        pos = tn__ix_add(s, pos, tn__ix_mulc(s, idx[i], stride));
        stride *= dims[i];
    }
    return pos;
}

/* Walks both shapes from the right and translates the smallest groups of axes with equal products, so that
 * axes that a reshape leaves alone stay free of div and mod. */
void tn__ix_reshape(tn__space *s, tn__uop *const *idx, const int64_t *to, int nto,
                    const int64_t *from, int nfrom, tn__uop **out)
{
    int i = nto, j = nfrom;
    while (i > 0 || j > 0) {
        const int iend = i, jend = j;
        int64_t a = 1, b = 1;
        if (i > 0) a = to[--i];
        if (j > 0) b = from[--j];
        while (a != b) {
            if ((a < b && i > 0) || j == 0) {
                if (i == 0) break;
                a *= to[--i];
            } else {
                b *= from[--j];
            }
        }
        if (iend - i == 1 && jend - j == 1) {
            out[j] = idx[i];
        } else if (jend > j) {
            tn__uop *pos = tn__ix_join(s, idx + i, to + i, iend - i);
            tn__ix_split(s, pos, from + j, jend - j, out + j);
        }
    }
}
