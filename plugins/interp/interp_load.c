/* SPDX-License-Identifier: MIT */
/*
 * Loading: a blob of linear code is copied, checked row by row and decoded.
 *
 * Steps: 1 sizes and names of the blob; 2 buffers; 3 for each row: its op is known, its sources are
 * earlier rows that have a value and whose block is still open, dtypes and lanes fit the op; blocks
 * nest.  Every error names the row and its op.  What passes here cannot make the walk touch memory
 * that it does not own, whatever the numbers in the buffers are (the walk checks those).
 */
#include "interp.h"
#include <stdio.h>
#include <string.h>

#define NONE UINT32_MAX

const char *const interp__op_names[OP_COUNT] = {
#define X(name) [OP_##name] = #name,
    TNL_BASE_OPS(X)
#undef X
};

enum {
    CLOSED = 1, /* the row's block has ended: its value is out of reach */
    VALUE = 2   /* the row has a value */
};

typedef struct {
    tnp_prog *p;
    const tnp_load *load;
    tnp_err *err;
    uint8_t *state;  /* a row: CLOSED | VALUE */
    uint8_t *ops;    /* a name of the blob: its op_id, OP_COUNT: unknown */
    uint32_t *stack; /* rows of open loops and ifs */
    uint32_t depth;
    uint32_t i; /* the row at hand */
} ctx;

static tnp_rc bad(const ctx *c, const char *text)
{
    const char *kernel = c->p->v.head->name;
    return interp__fail(c->err, TNP_E_ARG, "INTERP: kernel %.63s: row %u (%s): %s", kernel, c->i,
                        interp__op_names[c->p->rows[c->i].op], text);
}

static const interp_row *source(const ctx *c, uint32_t k)
{
    return &c->p->rows[c->p->rows[c->i].row[k]];
}

/* ---- step 3: what each op asks of its row ---- */

enum { F = 1, I = 2, B = 4 }; /* classes of dtypes */
typedef struct {
    uint8_t nsrc, opt; /* sources, and further ones that may be -1 */
    uint8_t classes;   /* of the result; 0: not checked here */
    char
        kind; /* 'a' sources like the result; 'c' compare; 'w' where; 'x' conversion; 0: own check; 'n' no value */
} op_rule;

static const op_rule rules[OP_COUNT] = {
    [OP_const] = {0, 0, F | I | B, 0},
    [OP_gid] = {0, 0, I, 0},
    [OP_param] = {0, 0, F | I | B, 0},
    [OP_loop] = {1, 0, I, 0},
    [OP_end] = {1, 0, 0, 'n'},
    [OP_if] = {1, 0, 0, 'n'},
    [OP_endif] = {1, 0, 0, 'n'},
    [OP_var] = {1, 0, F | I | B, 'a'},
    [OP_set] = {2, 0, 0, 'n'},
    [OP_load] = {1, 1, F | I | B, 0},
    [OP_store] = {2, 1, 0, 'n'},
    [OP_splat] = {1, 0, F | I | B, 0},
    [OP_insert] = {2, 0, F | I | B, 0},
    [OP_extract] = {1, 0, F | I | B, 0},
    [OP_add] = {2, 0, F | I | B, 'a'},
    [OP_sub] = {2, 0, F | I, 'a'},
    [OP_mul] = {2, 0, F | I | B, 'a'},
    [OP_neg] = {1, 0, F | I, 'a'},
    [OP_and] = {2, 0, I | B, 'a'},
    [OP_or] = {2, 0, I | B, 'a'},
    [OP_xor] = {2, 0, I | B, 'a'},
    [OP_not] = {1, 0, I | B, 'a'},
    [OP_shl] = {2, 0, I, 'a'},
    [OP_shr] = {2, 0, I, 'a'},
    [OP_div] = {2, 0, F, 'a'},
    [OP_idiv] = {2, 0, I, 'a'},
    [OP_imod] = {2, 0, I, 'a'},
    [OP_lt] = {2, 0, B, 'c'},
    [OP_eq] = {2, 0, B, 'c'},
    [OP_ne] = {2, 0, B, 'c'},
    [OP_where] = {3, 0, F | I | B, 'w'},
    [OP_sqrt] = {1, 0, F, 'a'},
    [OP_trunc] = {1, 0, F, 'a'},
    [OP_floor] = {1, 0, F, 'a'},
    [OP_exp2] = {1, 0, F, 'a'},
    [OP_log2] = {1, 0, F, 'a'},
    [OP_sin] = {1, 0, F, 'a'},
    [OP_cast] = {1, 0, F | I | B, 'x'},
    [OP_bitcast] = {1, 0, F | I | B, 'x'},
    [OP_fma] = {3, 0, F | I, 'a'},
};

static uint8_t class_of(uint32_t dt)
{
    return interp__is_float(dt) ? F : interp__is_int(dt) ? I : dt == TNP_BOOL ? B : 0;
}

static bool scalar(const interp_row *r, uint8_t classes)
{
    return r->lanes == 1 && (class_of(r->dtype) & classes);
}

static tnp_rc check_value_op(const ctx *c, const interp_row *r, char kind)
{
    const interp_row *a = source(c, 0);
    const uint32_t n = rules[r->op].nsrc;
    for (uint32_t k = 0; k < n; k++)
        if (source(c, k)->lanes != r->lanes) return bad(c, "a source has another number of lanes");
    switch (kind) {
    case 'a':
        for (uint32_t k = 0; k < n; k++)
            if (source(c, k)->dtype != r->dtype)
                return bad(c, "a source is not of the row's dtype");
        return TNP_OK;
    case 'c':
        return a->dtype == source(c, 1)->dtype ? TNP_OK : bad(c, "the sources are of two dtypes");
    case 'w':
        if (a->dtype != TNP_BOOL) return bad(c, "the condition is not bool");
        if (source(c, 1)->dtype != r->dtype || source(c, 2)->dtype != r->dtype)
            return bad(c, "a source is not of the row's dtype");
        return TNP_OK;
    default:
        if (r->op == OP_bitcast && interp__size(a->dtype) != interp__size(r->dtype))
            return bad(c, "the source has another size");
        return TNP_OK;
    }
}

static tnp_rc check_memory(const ctx *c, interp_row *r)
{
    const tnl_head *h = c->p->v.head;
    const bool store = r->op == OP_store;
    if (r->imm < 0 || r->imm >= (int64_t)h->nargs + (int64_t)h->nscratch)
        return bad(c, "there is no buffer of this number");
    const tnl_buf *b = &c->p->v.bufs[r->imm];
    if (!scalar(source(c, 0), I)) return bad(c, "the index is not an integer scalar");
    const uint32_t g = store ? 2 : 1;
    r->gated = r->row[g] != NONE;
    if (r->gated && !scalar(source(c, g), B)) return bad(c, "the gate is not a bool scalar");
    const interp_row *v = store ? source(c, 1) : r;
    if (v->dtype != b->dtype)
        return bad(c, store ? "the value is not of the buffer's dtype"
                            : "the row is not of the buffer's dtype");
    if (store && r->lanes != v->lanes) return bad(c, "the value has another number of lanes");
    if ((uint64_t)r->imm < h->nargs && !(b->access & (store ? TNP_ACCESS_WRITE : TNP_ACCESS_READ)))
        return bad(c, store ? "the buffer is not declared writable"
                            : "the buffer is not declared readable");
    r->dtype = b->dtype;
    return TNP_OK;
}

static tnp_rc check_vector(const ctx *c, const interp_row *r)
{
    const interp_row *a = source(c, 0);
    if (a->dtype != r->dtype) return bad(c, "a source is not of the row's dtype");
    if (r->op == OP_splat) return a->lanes == 1 ? TNP_OK : bad(c, "the source is not a scalar");
    const uint32_t lanes = a->lanes; /* of the vector */
    if (r->imm < 0 || r->imm >= (int64_t)lanes) return bad(c, "the lane is out of range");
    if (r->op == OP_extract) return r->lanes == 1 ? TNP_OK : bad(c, "the result is not a scalar");
    if (r->lanes != lanes) return bad(c, "a source has another number of lanes");
    const interp_row *s = source(c, 1);
    if (s->lanes != 1 || s->dtype != r->dtype)
        return bad(c, "the element is not a scalar of the row's dtype");
    return TNP_OK;
}

static tnp_rc open_block(ctx *c)
{
    const interp_row *r = &c->p->rows[c->i];
    if (r->op == OP_loop && (r->lanes != 1 || !scalar(source(c, 0), I)))
        return bad(c, "the counter and the trip count must be integer scalars");
    if (r->op == OP_if && !scalar(source(c, 0), B))
        return bad(c, "the condition is not a bool scalar");
    c->stack[c->depth++] = c->i;
    return TNP_OK;
}

static tnp_rc close_block(ctx *c)
{
    interp_row *r = &c->p->rows[c->i];
    const uint32_t opener = r->row[0];
    if (c->depth == 0) return bad(c, "no block is open");
    if (c->stack[c->depth - 1] != opener)
        return bad(c, "it does not close the innermost open block");
    if (c->p->rows[opener].op != (r->op == OP_end ? OP_loop : OP_if))
        return bad(c, "it closes a block of the other kind");
    c->depth--;
    for (uint32_t k = opener; k < c->i; k++) c->state[k] |= CLOSED;
    c->p->rows[opener].jump = c->i + 1;
    r->jump = opener;
    return TNP_OK;
}

static tnp_rc check_set(const ctx *c)
{
    const interp_row *var = source(c, 0), *v = source(c, 1);
    if (var->op != OP_var) return bad(c, "source 0 is not a var row");
    if (var->dtype != v->dtype || var->lanes != v->lanes)
        return bad(c, "the value is not of the variable's dtype and lanes");
    return TNP_OK;
}

static tnp_rc check_row(ctx *c)
{
    interp_row *r = &c->p->rows[c->i];
    const op_rule *rule = &rules[r->op];
    if (rule->kind != 'n' && !(class_of(r->dtype) & rule->classes))
        return bad(c,
                   interp__size(r->dtype) ? "the op has no result of this dtype" : "unknown dtype");
    switch (r->op) {
    case OP_const: return TNP_OK;
    case OP_gid:
        if (r->lanes != 1) return bad(c, "the result is not a scalar");
        return r->imm >= 0 && r->imm < 3 ? TNP_OK : bad(c, "the axis is not 0, 1 or 2");
    case OP_param:
        if (r->lanes != 1) return bad(c, "the result is not a scalar");
        if (r->imm < 0 || r->imm >= (int64_t)c->p->v.head->nimms)
            return bad(c, "there is no immediate of this number");
        return TNP_OK;
    case OP_loop:
    case OP_if: return open_block(c);
    case OP_end:
    case OP_endif: return close_block(c);
    case OP_set: return check_set(c);
    case OP_load:
    case OP_store: return check_memory(c, r);
    case OP_splat:
    case OP_insert:
    case OP_extract: return check_vector(c, r);
    default: return check_value_op(c, r, rule->kind);
    }
}

/* The sources' numbers; fills row[] and src[]. */
static tnp_rc check_sources(const ctx *c, const tnl_row *in)
{
    interp_row *r = &c->p->rows[c->i];
    const op_rule *rule = &rules[r->op];
    for (uint32_t k = 0; k < 3; k++) {
        const int32_t s = in->src[k];
        r->row[k] = NONE;
        r->src[k] = 0;
        if (s == -1 && k >= rule->nsrc) continue;
        if (s == -1) return bad(c, "a source is missing");
        if (k >= (uint32_t)rule->nsrc + rule->opt) return bad(c, "it has too many sources");
        if (s < 0 || (uint32_t)s >= c->i) return bad(c, "a source is not an earlier row");
        const bool closes = r->op == OP_end || r->op == OP_endif;
        if (!closes && !(c->state[s] & VALUE)) return bad(c, "a source has no value");
        if (c->state[s] & CLOSED) return bad(c, "a source stands in a block that has ended");
        r->row[k] = (uint32_t)s;
        r->src[k] = c->p->rows[s].slot;
    }
    return TNP_OK;
}

static tnp_rc decode_row(ctx *c, uint64_t *slots)
{
    const tnl_row *in = &c->p->v.rows[c->i];
    interp_row *r = &c->p->rows[c->i];
    memset(r, 0, sizeof *r);
    if (in->op >= c->p->v.head->nops)
        return interp__fail(c->err, TNP_E_ARG, "INTERP: kernel %.63s: row %u: op %u of %u names",
                            c->p->v.head->name, c->i, in->op, c->p->v.head->nops);
    if (c->ops[in->op] == OP_COUNT)
        return interp__fail(c->err, TNP_E_UNSUPPORTED,
                            "INTERP: kernel %.63s: row %u: unknown op \"%.16s\"",
                            c->p->v.head->name, c->i, c->p->v.ops[in->op]);
    r->op = c->ops[in->op];
    r->dtype = in->dtype;
    r->lanes = in->lanes;
    r->imm = in->imm;
    const bool value = rules[r->op].kind != 'n';
    if ((value || r->op == OP_store) && r->lanes == 0) return bad(c, "it has 0 lanes");
    tnp_rc rc = check_sources(c, in);
    if (rc == TNP_OK) rc = check_row(c);
    if (rc != TNP_OK) return rc;
    r->slot = (uint32_t)*slots;
    if (r->row[0] != NONE) r->from = source(c, 0)->dtype;
    /* a loop keeps its trip count in a second slot */
    if (value) *slots += r->op == OP_loop ? 2u : r->lanes;
    if (*slots > UINT32_MAX) return bad(c, "the kernel has too many values");
    c->state[c->i] = value ? VALUE : 0;
    return TNP_OK;
}

/* ---- steps 1 and 2 ---- */

static tnp_rc check_buffers(const ctx *c)
{
    const tnl_head *h = c->p->v.head;
    uint64_t end = 0;
    if (h->scratch_bytes > UINT64_C(1) << 40)
        return interp__fail(c->err, TNP_E_ARG,
                            "INTERP: kernel %.63s: %llu bytes of scratch: too many", h->name,
                            (unsigned long long)h->scratch_bytes);
    for (uint32_t i = 0; i < h->nargs + h->nscratch; i++) {
        const tnl_buf *b = &c->p->v.bufs[i];
        const uint32_t size = interp__size(b->dtype);
        if (!size)
            return interp__fail(c->err, TNP_E_ARG,
                                "INTERP: kernel %.63s: buffer %u: unknown dtype %u", h->name, i,
                                b->dtype);
        if (i < h->nargs) continue;
        if (b->offset % TNK_ALIGN || b->offset < end || b->offset > h->scratch_bytes ||
            b->count > (h->scratch_bytes - b->offset) / size)
            return interp__fail(
                c->err, TNP_E_ARG,
                "INTERP: kernel %.63s: scratch buffer %u: %llu x %s at byte %llu: overlaps, is not "
                "aligned or leaves the %llu bytes of scratch",
                h->name, i, (unsigned long long)b->count, interp__dtype(b->dtype),
                (unsigned long long)b->offset, (unsigned long long)h->scratch_bytes);
        end = b->offset + b->count * size;
    }
    return TNP_OK;
}

static tnp_rc check_entry(const ctx *c)
{
    const tnl_head *h = c->p->v.head;
    const tnp_entry *e = c->load->entry;
    if (!memchr(h->name, 0, sizeof h->name))
        return interp__fail(c->err, TNP_E_ARG, "INTERP: the kernel's name is not terminated");
    if (h->local[0] != 1 || h->local[1] != 1 || h->local[2] != 1)
        return interp__fail(
            c->err, TNP_E_UNSUPPORTED,
            "INTERP: kernel %s: work-groups of %u x %u x %u threads: only 1 x 1 x 1 is walked",
            h->name, h->local[0], h->local[1], h->local[2]);
    if (!e) return TNP_OK;
    if (e->name && strcmp(e->name, h->name) != 0)
        return interp__fail(c->err, TNP_E_ARG,
                            "INTERP: entry \"%.63s\": the blob holds kernel \"%s\"", e->name,
                            h->name);
    if (e->nargs != h->nargs || e->nimms != h->nimms)
        return interp__fail(
            c->err, TNP_E_ARG,
            "INTERP: kernel %s: the entry has %u buffers and %u immediates, the blob %u and %u",
            h->name, e->nargs, e->nimms, h->nargs, h->nimms);
    return TNP_OK;
}

static void name_ops(const ctx *c)
{
    for (uint32_t k = 0; k < c->p->v.head->nops; k++) {
        uint8_t op = 0;
        while (op < OP_COUNT && strncmp(interp__op_names[op], c->p->v.ops[k], TNL_NAME) != 0) op++;
        c->ops[k] = op;
    }
}

static tnp_rc decode(ctx *c)
{
    const uint32_t n = c->p->v.head->nrows;
    uint64_t slots = 0;
    tnp_rc rc = check_entry(c);
    if (rc == TNP_OK) rc = check_buffers(c);
    if (rc != TNP_OK) return rc;
    name_ops(c);
    for (c->i = 0; c->i < n; c->i++)
        if ((rc = decode_row(c, &slots)) != TNP_OK) return rc;
    if (c->depth) {
        c->i = c->stack[c->depth - 1];
        return bad(c, "the block is never closed");
    }
    c->p->nslots = (uint32_t)slots;
    return TNP_OK;
}

tnp_rc interp__load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *err)
{
    tnp_rc rc = TNP_E_NOMEM;
    ctx c = {.load = l, .err = err};
    if (!l->format || strcmp(l->format, "linear") != 0)
        return interp__fail(err, TNP_E_UNSUPPORTED,
                            "INTERP: format \"%.40s\": only \"linear\" is taken",
                            l->format ? l->format : "");
    if (l->flags)
        return interp__fail(err, TNP_E_UNSUPPORTED, "INTERP: prog_load: unknown flags 0x%x",
                            l->flags);
    c.p = interp__alloc(sizeof *c.p);
    if (c.p) memset(c.p, 0, sizeof *c.p);
    if (c.p) c.p->blob = interp__alloc(l->len ? l->len : 1);
    if (!c.p || !c.p->blob) goto nomem;
    if (l->len) memcpy(c.p->blob, l->bin, l->len);
    if (tnl_open(c.p->blob, l->len, &c.p->v) != 0) {
        rc = interp__fail(err, TNP_E_ARG, "INTERP: %llu bytes are no linear code",
                          (unsigned long long)l->len);
        goto out;
    }
    const tnl_head *h = c.p->v.head;
    c.p->rows = interp__alloc(((size_t)h->nrows + 1) * sizeof *c.p->rows);
    c.state = interp__alloc((size_t)h->nrows + 1);
    c.stack = interp__alloc(((size_t)h->nrows + 1) * sizeof *c.stack);
    c.ops = interp__alloc((size_t)h->nops + 1);
    if (!c.p->rows || !c.state || !c.stack || !c.ops) goto nomem;
    rc = decode(&c);
    goto out;
nomem:
    rc = interp__fail(err, TNP_E_NOMEM, "INTERP: no host memory for a kernel of %llu bytes",
                      (unsigned long long)l->len);
out:
    interp__free(c.state);
    interp__free(c.stack);
    interp__free(c.ops);
    if (rc == TNP_OK)
        *out = c.p;
    else
        interp__unload(d, c.p);
    return rc;
}

void interp__unload(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    if (!p) return;
    interp__free(p->rows);
    interp__free(p->blob);
    interp__free(p);
}
