/* SPDX-License-Identifier: MIT */
/*
 * Linear code that LLVM may be built from: LLVM's own functions take wrong types for granted and end the
 * process, so every row is checked against linear.h first.  What passes here gives a module that verifies.
 *
 *  1. sizes, terminated name, buffers, work-group of one thread
 *  2. each row: a known op; sources are earlier rows with a value whose block is still open
 *  3. dtypes and lanes of sources and result by the op's rule
 */
#include "llvm_api.h"
#include <string.h>

#ifdef CPU_HAVE_LLVM

enum { F = 1, I = 2, B = 4, MAX_LANES = 64, MAX_ROWS = 1 << 22, MAX_OPS = 256 };
enum { VALUE = 1, CLOSED = 2 }; /* state of a row */

typedef struct {
    const cpu__linear *l;
    uint8_t *state;
    uint32_t *stack, depth, i;
    tnp_err *e;
} chk;

/* Sources, further ones that may be -1, classes of the result, and how the sources must look:
 * 'a' as the result; 'c' a comparison; 'w' a choice; 'x' a conversion; 'o' its own check; 'n' no value. */
typedef struct {
    uint8_t nsrc, opt, classes;
    char kind;
} rule;

static const rule rules[LOP_COUNT] = {
    [LOP_const] = {0, 0, F | I | B, 'o'},
    [LOP_gid] = {0, 0, I, 'o'},
    [LOP_param] = {0, 0, F | I | B, 'o'},
    [LOP_loop] = {1, 0, I, 'o'},
    [LOP_end] = {1, 0, 0, 'n'},
    [LOP_if] = {1, 0, 0, 'n'},
    [LOP_endif] = {1, 0, 0, 'n'},
    [LOP_var] = {1, 0, F | I | B, 'a'},
    [LOP_set] = {2, 0, 0, 'n'},
    [LOP_load] = {1, 1, F | I | B, 'o'},
    [LOP_store] = {2, 1, 0, 'n'},
    [LOP_splat] = {1, 0, F | I | B, 'o'},
    [LOP_insert] = {2, 0, F | I | B, 'o'},
    [LOP_extract] = {1, 0, F | I | B, 'o'},
    [LOP_add] = {2, 0, F | I | B, 'a'},
    [LOP_sub] = {2, 0, F | I, 'a'},
    [LOP_mul] = {2, 0, F | I | B, 'a'},
    [LOP_neg] = {1, 0, F | I, 'a'},
    [LOP_and] = {2, 0, I | B, 'a'},
    [LOP_or] = {2, 0, I | B, 'a'},
    [LOP_xor] = {2, 0, I | B, 'a'},
    [LOP_not] = {1, 0, I | B, 'a'},
    [LOP_shl] = {2, 0, I, 'a'},
    [LOP_shr] = {2, 0, I, 'a'},
    [LOP_div] = {2, 0, F, 'a'},
    [LOP_idiv] = {2, 0, I, 'a'},
    [LOP_imod] = {2, 0, I, 'a'},
    [LOP_lt] = {2, 0, B, 'c'},
    [LOP_eq] = {2, 0, B, 'c'},
    [LOP_ne] = {2, 0, B, 'c'},
    [LOP_where] = {3, 0, F | I | B, 'w'},
    [LOP_sqrt] = {1, 0, F, 'a'},
    [LOP_trunc] = {1, 0, F, 'a'},
    [LOP_floor] = {1, 0, F, 'a'},
    [LOP_exp2] = {1, 0, F, 'a'},
    [LOP_log2] = {1, 0, F, 'a'},
    [LOP_sin] = {1, 0, F, 'a'},
    [LOP_cast] = {1, 0, F | I | B, 'x'},
    [LOP_bitcast] = {1, 0, F | I | B, 'x'},
    [LOP_fma] = {3, 0, F | I, 'a'},
};

unsigned cpu__dtype_size(unsigned dt)
{
    static const uint8_t size[TNP_DTYPE_COUNT] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return dt < TNP_DTYPE_COUNT ? size[dt] : 0;
}

bool cpu__is_float(unsigned dt) { return dt >= TNP_F16 && dt <= TNP_F64; }
bool cpu__is_signed(unsigned dt) { return dt >= TNP_I8 && dt <= TNP_I64 && !(dt & 1); }

static uint8_t class_of(unsigned dt)
{
    return cpu__is_float(dt) ? F : dt == TNP_BOOL ? B : cpu__dtype_size(dt) ? I : 0;
}

static const tnl_row *row(const chk *c, int32_t i) { return &c->l->v.rows[i]; }
static const tnl_row *self(const chk *c) { return row(c, (int32_t)c->i); }
static const tnl_row *src(const chk *c, int k) { return row(c, self(c)->src[k]); }

static tnp_rc bad(const chk *c, const char *what)
{
    return cpu__fail(c->e, TNP_E_ARG, 0, "CPU: kernel %.63s: row %u (%.16s): %s",
                     c->l->v.head->name, c->i, c->l->v.ops[self(c)->op], what);
}

static bool scalar(const tnl_row *r, uint8_t classes)
{
    return r->lanes == 1 && (class_of(r->dtype) & classes);
}

static tnp_rc check_value(const chk *c, char kind)
{
    const tnl_row *r = self(c), *a = src(c, 0);
    const unsigned n = rules[c->l->op[c->i]].nsrc;
    for (int k = 0; k < (int)n; k++) {
        if (src(c, k)->lanes != r->lanes) return bad(c, "a source has another number of lanes");
        if (((kind == 'a') || (kind == 'w' && k)) && src(c, k)->dtype != r->dtype)
            return bad(c, "a source is not of the row's dtype");
    }
    if (kind == 'c' && a->dtype != src(c, 1)->dtype) return bad(c, "the sources are of two dtypes");
    if (kind == 'w' && a->dtype != TNP_BOOL) return bad(c, "the condition is not bool");
    if (c->l->op[c->i] == LOP_bitcast && cpu__dtype_size(a->dtype) != cpu__dtype_size(r->dtype))
        return bad(c, "the source has another size");
    return TNP_OK;
}

static tnp_rc check_memory(const chk *c, bool store)
{
    const tnl_row *r = self(c), *v = store ? src(c, 1) : r;
    const tnl_head *h = c->l->v.head;
    const int g = store ? 2 : 1;
    if (r->imm < 0 || r->imm >= (int64_t)h->nargs + (int64_t)h->nscratch)
        return bad(c, "there is no buffer of this number");
    if (!scalar(src(c, 0), I)) return bad(c, "the index is not an integer scalar");
    if (r->src[g] >= 0 && !scalar(src(c, g), B)) return bad(c, "the gate is not a bool scalar");
    if (v->dtype != c->l->v.bufs[r->imm].dtype)
        return bad(c, "the value is not of the buffer's dtype");
    return r->lanes == v->lanes ? TNP_OK : bad(c, "the value has another number of lanes");
}

static tnp_rc check_lanes(const chk *c, unsigned op)
{
    const tnl_row *r = self(c), *a = src(c, 0);
    if (a->dtype != r->dtype) return bad(c, "a source is not of the row's dtype");
    if (op == LOP_splat) return a->lanes == 1 ? TNP_OK : bad(c, "the source is not a scalar");
    if (r->imm < 0 || r->imm >= a->lanes) return bad(c, "the lane is out of range");
    if (op == LOP_extract) return r->lanes == 1 ? TNP_OK : bad(c, "the result is not a scalar");
    if (r->lanes != a->lanes) return bad(c, "a source has another number of lanes");
    if (src(c, 1)->lanes != 1 || src(c, 1)->dtype != r->dtype)
        return bad(c, "the element is not a scalar of the row's dtype");
    return TNP_OK;
}

static tnp_rc close_block(chk *c, unsigned op)
{
    const int32_t opener = self(c)->src[0];
    if (!c->depth || c->stack[c->depth - 1] != (uint32_t)opener)
        return bad(c, "it does not close the innermost open block");
    if (c->l->op[opener] != (op == LOP_end ? LOP_loop : LOP_if))
        return bad(c, "it closes a block of the other kind");
    c->depth--;
    for (uint32_t k = (uint32_t)opener; k < c->i; k++) c->state[k] |= CLOSED;
    return TNP_OK;
}

static tnp_rc check_own(chk *c, unsigned op)
{
    const tnl_row *r = self(c);
    switch (op) {
    case LOP_gid:
        if (r->lanes != 1) return bad(c, "the result is not a scalar");
        return r->imm >= 0 && r->imm < 3 ? TNP_OK : bad(c, "the axis is not 0, 1 or 2");
    case LOP_param:
        if (r->lanes != 1) return bad(c, "the result is not a scalar");
        return r->imm >= 0 && r->imm < (int64_t)c->l->v.head->nimms
                   ? TNP_OK
                   : bad(c, "there is no immediate of this number");
    case LOP_loop:
        if (r->lanes != 1 || !scalar(src(c, 0), I))
            return bad(c, "the counter and the trip count must be integer scalars");
        c->stack[c->depth++] = c->i;
        return TNP_OK;
    case LOP_if:
        if (!scalar(src(c, 0), B)) return bad(c, "the condition is not a bool scalar");
        c->stack[c->depth++] = c->i;
        return TNP_OK;
    case LOP_end:
    case LOP_endif: return close_block(c, op);
    case LOP_set:
        if (c->l->op[r->src[0]] != LOP_var) return bad(c, "source 0 is not a var row");
        return src(c, 0)->dtype == src(c, 1)->dtype && src(c, 0)->lanes == src(c, 1)->lanes
                   ? TNP_OK
                   : bad(c, "the value is not of the variable's dtype and lanes");
    case LOP_load:
    case LOP_store: return check_memory(c, op == LOP_store);
    case LOP_splat:
    case LOP_insert:
    case LOP_extract: return check_lanes(c, op);
    default: return TNP_OK;
    }
}

static tnp_rc check_row(chk *c)
{
    const tnl_row *r = self(c);
    if (r->op >= c->l->v.head->nops)
        return cpu__fail(c->e, TNP_E_ARG, 0, "CPU: kernel %.63s: row %u: op %u of %u names",
                         c->l->v.head->name, c->i, r->op, c->l->v.head->nops);
    const unsigned op = c->l->op[c->i];
    if (op == LOP_COUNT)
        return cpu__fail(c->e, TNP_E_UNSUPPORTED, 0,
                         "CPU: kernel %.63s: row %u: unknown op \"%.16s\"", c->l->v.head->name,
                         c->i, c->l->v.ops[r->op]);
    const rule *u = &rules[op];
    for (int k = 0; k < 3; k++) {
        const int32_t s = r->src[k];
        if (s == -1 && k >= u->nsrc) continue;
        if (s == -1) return bad(c, "a source is missing");
        if (k >= u->nsrc + u->opt) return bad(c, "it has too many sources");
        if (s < 0 || (uint32_t)s >= c->i) return bad(c, "a source is not an earlier row");
        if (!(c->state[s] & VALUE) && op != LOP_end && op != LOP_endif)
            return bad(c, "a source has no value");
        if (c->state[s] & CLOSED) return bad(c, "a source stands in a block that has ended");
    }
    if (u->kind != 'n' && !(class_of(r->dtype) & u->classes))
        return bad(c, class_of(r->dtype) ? "the op has no result of this dtype" : "unknown dtype");
    if ((u->kind != 'n' || op == LOP_store) && (!r->lanes || r->lanes > MAX_LANES))
        return bad(c, "it has 0 lanes, or more than 64");
    tnp_rc rc = u->kind == 'o' || u->kind == 'n' ? check_own(c, op) : check_value(c, u->kind);
    c->state[c->i] = u->kind == 'n' ? 0 : VALUE;
    return rc;
}

static tnp_rc check_head(const cpu__linear *l, tnp_err *e)
{
    const tnl_head *h = l->v.head;
    if (!memchr(h->name, 0, sizeof h->name) || !h->name[0])
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: linear code: the kernel's name is not terminated");
    if (h->local[0] != 1 || h->local[1] != 1 || h->local[2] != 1)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0,
                         "CPU: kernel %s: work-groups of %u x %u x %u threads: one is one here",
                         h->name, h->local[0], h->local[1], h->local[2]);
    if (h->nargs > CPU_MAX_ARGS || h->nimms > CPU_MAX_IMMS || h->nscratch > CPU_MAX_ARGS ||
        h->nrows > MAX_ROWS || h->nops > MAX_OPS)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: kernel %s: %u buffers, %u private, %u immediates, %u rows: too many",
                         h->name, h->nargs, h->nscratch, h->nimms, h->nrows);
    for (uint32_t i = 0; i < h->nargs + h->nscratch; i++)
        if (!cpu__dtype_size(l->v.bufs[i].dtype))
            return cpu__fail(e, TNP_E_ARG, 0, "CPU: kernel %s: buffer %u: unknown dtype %u",
                             h->name, i, l->v.bufs[i].dtype);
    return TNP_OK;
}

static void name_ops(cpu__linear *l)
{
    static const char names[LOP_COUNT][TNL_NAME] = {
#define X(name) #name,
        TNL_BASE_OPS(X)
#undef X
    };
    uint8_t of[MAX_OPS];
    for (uint32_t i = 0; i < l->v.head->nops; i++) {
        of[i] = 0;
        while (of[i] < LOP_COUNT && strncmp(names[of[i]], l->v.ops[i], TNL_NAME)) of[i]++;
    }
    for (uint32_t i = 0; i < l->v.head->nrows; i++) {
        const uint32_t no = l->v.rows[i].op;
        l->op[i] = no < l->v.head->nops ? of[no] : LOP_COUNT;
    }
}

tnp_rc cpu__linear_check(const void *blob, size_t n, cpu__linear *out, tnp_err *e)
{
    *out = (cpu__linear){0};
    if (!blob || (uintptr_t)blob % 8 || tnl_open(blob, n, &out->v))
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: %zu bytes are no linear code", n);
    tnp_rc rc = check_head(out, e);
    if (rc) return rc;
    const size_t rows = out->v.head->nrows;
    chk c = {.l = out, .e = e};
    out->op = cpu__take(rows + 1);
    c.state = cpu__take(rows + 1);
    c.stack = cpu__take((rows + 1) * sizeof *c.stack);
    if (!out->op || !c.state || !c.stack)
        rc = cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory to check a kernel of %zu rows",
                       rows);
    else
        name_ops(out);
    for (; !rc && c.i < rows; c.i++) rc = check_row(&c);
    if (!rc && c.depth) {
        c.i = c.stack[c.depth - 1];
        rc = bad(&c, "the block is never closed");
    }
    cpu__give(c.state);
    cpu__give(c.stack);
    if (rc) {
        cpu__give(out->op);
        out->op = NULL;
    }
    return rc;
}
#else
typedef int cpu__no_linear_check;
#endif
