/* SPDX-License-Identifier: MIT */
/*
 * The generic C-style renderer: linear code to text with a plugin's dialect table.
 *
 * One variable a row, constants as literals.  Where the dialect has GNU vectors (TNP_DIALECT_VECTOR_EXT)
 * a vector of booleans is a mask: an integer vector of 0 and -1 whose element width follows the compared
 * values; widths are converted where a use needs another one.  An op whose template is for scalars only is
 * written lane by lane.
 */
#include "codegen/codegen.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct {
    tnl_view v;
    const tnp_dialect *d;
    tn__buf *out;
    uint8_t *width; /* bytes of a mask's element, by row */
    int depth;
    const char *name;
} rend;

static const char *opname(const rend *r, int row) { return r->v.ops[r->v.rows[row].op]; }
static bool is_op(const rend *r, int row, const char *op) { return !strcmp(opname(r, row), op); }

static const char *scalar_type(const rend *r, int dt) { return r->d->types[dt]; }

/* Name of a vector type: the dialect's, with $n. */
static void put_expand(tn__buf *out, const char *text, int lanes)
{
    for (const char *p = text; *p; p++) {
        if (p[0] == '$' && p[1] == 'n') {
            tn__buf_printf(out, "%d", lanes);
            p++;
        } else {
            tn__buf_put(out, p, 1);
        }
    }
}

static int mask_dtype(int width)
{
    return width == 1 ? TNP_I8 : width == 2 ? TNP_I16 : width == 4 ? TNP_I32 : TNP_I64;
}

static void put_type(rend *r, int dt, int lanes)
{
    if (lanes == 1)
        tn__buf_printf(r->out, "%s", scalar_type(r, dt));
    else
        put_expand(r->out, r->d->vec_types[dt], lanes);
}

static void put_row_type(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const bool mask = w->dtype == TNP_BOOL && w->lanes > 1;
    put_type(r, mask ? mask_dtype(r->width[row]) : w->dtype, w->lanes);
}

/* ---- literals ---- */

static void put_float(rend *r, int dt, uint64_t bits)
{
    const double v = tn__scalar_to_double((tn_dtype)dt, tn__scalar_from_bits((tn_dtype)dt, bits));
    if (isnan(v))
        tn__buf_printf(r->out, dt == TNP_F64 ? "__builtin_nan(\"\")" : "__builtin_nanf(\"\")");
    else if (isinf(v))
        tn__buf_printf(r->out, dt == TNP_F64 ? "(%s__builtin_inf())" : "(%s__builtin_inff())",
                       v < 0 ? "-" : "");
    else
        tn__buf_printf(r->out, dt == TNP_F64 ? "(%a)" : "(%af)", v);
}

static void put_scalar_const(rend *r, int dt, uint64_t bits)
{
    if (dt == TNP_F32 || dt == TNP_F64) {
        put_float(r, dt, bits);
        return;
    }
    if (dt == TNP_U64)
        tn__buf_printf(r->out, "((%s)%" PRIu64 "u)", scalar_type(r, dt), bits);
    else if (dt == TNP_I64 && bits == UINT64_C(1) << 63)
        tn__buf_printf(r->out, "(-9223372036854775807 - 1)");
    else if (dt == TNP_I64)
        tn__buf_printf(r->out, "((%s)%" PRId64 ")", scalar_type(r, dt), (int64_t)bits);
    else if (dt == TNP_F16 || dt == TNP_BF16)
        tn__buf_printf(r->out, "((%s)%u)", scalar_type(r, dt), (unsigned)bits);
    else {
        const tn__scalar s = tn__scalar_from_bits((tn_dtype)dt, bits);
        tn__buf_printf(r->out, "((%s)%" PRId64 ")", scalar_type(r, dt),
                       tn__scalar_to_int((tn_dtype)dt, s));
    }
}

static void put_const(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    if (w->lanes == 1) {
        put_scalar_const(r, w->dtype, (uint64_t)w->imm);
        return;
    }
    const bool mask = w->dtype == TNP_BOOL;
    tn__buf_printf(r->out, "((");
    put_row_type(r, row);
    tn__buf_printf(r->out, "){");
    for (int i = 0; i < w->lanes && (i == 0 || w->imm); i++) {
        if (i) tn__buf_printf(r->out, ",");
        if (mask)
            tn__buf_printf(r->out, w->imm ? "-1" : "0");
        else
            put_scalar_const(r, w->dtype, (uint64_t)w->imm);
    }
    tn__buf_printf(r->out, "})");
}

static void put_ref(rend *r, int row)
{
    if (is_op(r, row, "const"))
        put_const(r, row);
    else
        tn__buf_printf(r->out, "v%d", row);
}

/* A mask with elements of `width` bytes. */
static void put_mask(rend *r, int row, int width)
{
    if (r->width[row] == width) {
        put_ref(r, row);
        return;
    }
    tn__buf_printf(r->out, "__builtin_convertvector(");
    put_ref(r, row);
    tn__buf_printf(r->out, ", ");
    put_type(r, mask_dtype(width), r->v.rows[row].lanes);
    tn__buf_printf(r->out, ")");
}

static void indent(rend *r) { tn__buf_printf(r->out, "%*s", 4 * r->depth, ""); }

static void open_decl(rend *r, int row)
{
    indent(r);
    put_row_type(r, row);
    tn__buf_printf(r->out, " v%d = ", row);
}

/* ---- templates ---- */

static const tnp_template *find(const rend *r, const char *op, int dt, bool vector)
{
    for (uint32_t i = 0; i < r->d->nops; i++) {
        const tnp_template *t = &r->d->ops[i];
        if (!strcmp(t->op, op) && (t->dtypes >> dt & 1) && (t->lanes & (vector ? 2u : 1u)))
            return t;
    }
    return NULL;
}

/* $1..$3: sources (lane `lane` of each if >= 0), $t $s $n. */
static void put_template(rend *r, const tnp_template *t, int row, int lane)
{
    const tnl_row *w = &r->v.rows[row];
    for (const char *p = t->text; *p; p++) {
        if (*p != '$') {
            tn__buf_put(r->out, p, 1);
            continue;
        }
        p++;
        if (*p >= '1' && *p <= '3') {
            const int s = w->src[*p - '1'];
            put_ref(r, s);
            if (lane >= 0 && r->v.rows[s].lanes > 1) tn__buf_printf(r->out, "[%d]", lane);
        } else if (*p == 't')
            put_type(r, w->dtype, lane >= 0 ? 1 : w->lanes);
        else if (*p == 's')
            tn__buf_printf(r->out, "%s", scalar_type(r, w->dtype));
        else if (*p == 'n')
            tn__buf_printf(r->out, "%d", w->lanes);
    }
}

static bool missing(rend *r, int row)
{
    return tn__fail(TN_EUNSUPPORTED, "kernel: dialect %s has no %s for %s", r->d->name,
                    opname(r, row), tn__dtype_name((tn_dtype)r->v.rows[row].dtype));
}

static bool put_alu(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const char *op = opname(r, row);
    const int from = w->src[0] >= 0 ? r->v.rows[w->src[0]].dtype : w->dtype;
    if (!strcmp(op, "cast") && (from == TNP_F16 || from == TNP_BF16))
        op = from == TNP_F16 ? "cast_f16" : "cast_bf16";
    const tnp_template *t = find(r, op, w->dtype, w->lanes > 1);
    if (t) {
        open_decl(r, row);
        put_template(r, t, row, -1);
        tn__buf_printf(r->out, ";\n");
        return true;
    }
    t = find(r, op, w->dtype, false);
    if (!t) return missing(r, row);
    open_decl(r, row);
    tn__buf_printf(r->out, "{");
    for (int i = 0; i < w->lanes; i++) {
        tn__buf_printf(r->out, i ? ", " : "");
        put_template(r, t, row, i);
    }
    tn__buf_printf(r->out, "};\n");
    return true;
}

/* ---- vectors with masks ---- */

static void put_compare(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const char *op = is_op(r, row, "lt") ? "<" : is_op(r, row, "eq") ? "==" : "!=";
    open_decl(r, row);
    tn__buf_printf(r->out, "(");
    put_row_type(r, row);
    tn__buf_printf(r->out, ")(");
    const bool masks = r->v.rows[w->src[0]].dtype == TNP_BOOL;
    for (int i = 0; i < 2; i++) {
        if (i) tn__buf_printf(r->out, " %s ", op);
        if (masks) {
            tn__buf_printf(r->out, "-"); /* 0 and -1 compare the other way round */
            put_mask(r, w->src[i], r->width[row]);
        } else
            put_ref(r, w->src[i]);
    }
    tn__buf_printf(r->out, ");\n");
}

static void put_select(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const bool mask = w->dtype == TNP_BOOL;
    const int width = mask ? r->width[row] : (int)tn__dtype_size((tn_dtype)w->dtype);
    const int it = mask_dtype(width);
    open_decl(r, row);
    for (int i = 1; i <= 2; i++) {
        tn__buf_printf(r->out, i == 1 ? "(" : " | (");
        if (i == 1) {
            put_row_type(r, row);
            tn__buf_printf(r->out, ")((");
        }
        tn__buf_printf(r->out, i == 1 ? "" : "~");
        put_mask(r, w->src[0], width);
        tn__buf_printf(r->out, " & (");
        put_type(r, it, w->lanes);
        tn__buf_printf(r->out, ")");
        if (mask)
            put_mask(r, w->src[i], width);
        else
            put_ref(r, w->src[i]);
        tn__buf_printf(r->out, ")");
    }
    tn__buf_printf(r->out, ");\n");
}

static void put_mask_logic(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    open_decl(r, row);
    if (is_op(r, row, "not")) {
        tn__buf_printf(r->out, "~");
        put_mask(r, w->src[0], r->width[row]);
    } else {
        put_mask(r, w->src[0], r->width[row]);
        tn__buf_printf(r->out, is_op(r, row, "and") ? " & " : is_op(r, row, "or") ? " | " : " ^ ");
        put_mask(r, w->src[1], r->width[row]);
    }
    tn__buf_printf(r->out, ";\n");
}

/* ---- rows ---- */

static void put_address(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    if (w->lanes > 1) {
        const int dt = r->v.bufs[w->imm].dtype;
        tn__buf_printf(r->out, "*(");
        if (is_op(r, row, "load")) tn__buf_printf(r->out, "const ");
        put_type(r, dt, w->lanes);
        tn__buf_printf(r->out, "u *)(b%d + ", (int)w->imm);
    } else {
        tn__buf_printf(r->out, "b%d[", (int)w->imm);
    }
    put_ref(r, w->src[0]);
    tn__buf_printf(r->out, w->lanes > 1 ? ")" : "]");
}

static void put_load(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const bool mask = w->dtype == TNP_BOOL && w->lanes > 1;
    indent(r);
    put_row_type(r, row);
    if (w->src[1] < 0 && !mask) {
        tn__buf_printf(r->out, " v%d = ", row);
    } else {
        tn__buf_printf(r->out, w->lanes > 1 ? " v%d = {0}; " : " v%d = 0; ", row);
        if (w->src[1] >= 0) {
            tn__buf_printf(r->out, "if (");
            put_ref(r, w->src[1]);
            tn__buf_printf(r->out, ") ");
        }
        tn__buf_printf(r->out, "v%d = ", row);
    }
    if (mask) {
        tn__buf_printf(r->out, "(");
        put_row_type(r, row);
        tn__buf_printf(r->out, ")(");
    }
    put_address(r, row);
    tn__buf_printf(r->out, mask ? " != 0);\n" : ";\n");
}

static void put_store(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const bool mask = w->dtype == TNP_BOOL && w->lanes > 1;
    indent(r);
    if (w->src[2] >= 0) {
        tn__buf_printf(r->out, "if (");
        put_ref(r, w->src[2]);
        tn__buf_printf(r->out, ") ");
    }
    put_address(r, row);
    tn__buf_printf(r->out, " = ");
    if (mask) {
        tn__buf_printf(r->out, "(");
        put_type(r, TNP_BOOL, w->lanes);
        tn__buf_printf(r->out, ")(");
        put_mask(r, w->src[1], 1);
        tn__buf_printf(r->out, " & 1)");
    } else
        put_ref(r, w->src[1]);
    tn__buf_printf(r->out, ";\n");
}

static void put_insert(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const bool mask = w->dtype == TNP_BOOL;
    open_decl(r, row);
    if (mask)
        put_mask(r, w->src[0], r->width[row]);
    else
        put_ref(r, w->src[0]);
    tn__buf_printf(r->out, "; v%d[%d] = %s", row, (int)w->imm, mask ? "-" : "");
    put_ref(r, w->src[1]);
    tn__buf_printf(r->out, ";\n");
}

static void put_extract(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    open_decl(r, row);
    put_ref(r, w->src[0]);
    tn__buf_printf(r->out, "[%d]%s;\n", (int)w->imm, w->dtype == TNP_BOOL ? " & 1" : "");
}

static void put_splat(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const tnp_template *t = w->dtype == TNP_BOOL ? NULL : find(r, "splat", w->dtype, true);
    open_decl(r, row);
    if (t) {
        put_template(r, t, row, -1);
        tn__buf_printf(r->out, ";\n");
        return;
    }
    tn__buf_printf(r->out, "(");
    put_row_type(r, row);
    tn__buf_printf(r->out, "){");
    for (int i = 0; i < w->lanes; i++) {
        tn__buf_printf(r->out, "%s%s", i ? ", " : "", w->dtype == TNP_BOOL ? "-" : "");
        put_ref(r, w->src[0]);
    }
    tn__buf_printf(r->out, "};\n");
}

static void put_mask_cast(rend *r, int row) /* bool lanes to numbers */
{
    const tnl_row *w = &r->v.rows[row];
    open_decl(r, row);
    tn__buf_printf(r->out, "__builtin_convertvector(");
    put_ref(r, w->src[0]);
    tn__buf_printf(r->out, " & 1, ");
    put_type(r, w->dtype, w->lanes);
    tn__buf_printf(r->out, ");\n");
}

static int mask_width(const rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    if (is_op(r, row, "lt") || is_op(r, row, "eq") || is_op(r, row, "ne")) {
        const int s = w->src[0];
        return r->v.rows[s].dtype == TNP_BOOL ? r->width[s]
                                              : (int)tn__dtype_size((tn_dtype)r->v.rows[s].dtype);
    }
    const int first = is_op(r, row, "where") ? w->src[1] : w->src[0];
    if (is_op(r, row, "load") || is_op(r, row, "splat") || is_op(r, row, "const") || first < 0)
        return 1;
    return r->width[first] ? r->width[first] : 1;
}

static bool put_control(rend *r, int row, bool *done)
{
    const tnl_row *w = &r->v.rows[row];
    *done = true;
    if (is_op(r, row, "const")) return true;
    if (is_op(r, row, "loop")) {
        indent(r);
        tn__buf_printf(r->out, "for (%s v%d = 0; v%d < ", scalar_type(r, TNP_I64), row, row);
        put_ref(r, w->src[0]);
        tn__buf_printf(r->out, "; v%d++) {\n", row);
        r->depth++;
    } else if (is_op(r, row, "end") || is_op(r, row, "endif")) {
        r->depth--;
        indent(r);
        tn__buf_printf(r->out, "}\n");
    } else if (is_op(r, row, "if")) {
        indent(r);
        tn__buf_printf(r->out, "if (");
        put_ref(r, w->src[0]);
        tn__buf_printf(r->out, ") {\n");
        r->depth++;
    } else if (is_op(r, row, "gid")) {
        open_decl(r, row);
        tn__buf_printf(r->out, "(%s)%s;\n", scalar_type(r, w->dtype), r->d->gid[w->imm]);
    } else if (is_op(r, row, "param")) {
        const bool fl = tn__dtype_is_float((tn_dtype)w->dtype);
        open_decl(r, row);
        for (const char *p = r->d->imm[fl ? 1 : 0]; *p; p++) {
            if (p[0] == '$' && p[1] == 'i')
                tn__buf_printf(r->out, "%d", (int)w->imm), p++;
            else if (p[0] == '$' && p[1] == 's')
                tn__buf_printf(r->out, "%s", scalar_type(r, w->dtype)), p++;
            else
                tn__buf_put(r->out, p, 1);
        }
        tn__buf_printf(r->out, ";\n");
    } else if (is_op(r, row, "set")) {
        indent(r);
        tn__buf_printf(r->out, "v%d = ", w->src[0]);
        if (w->dtype == TNP_BOOL && w->lanes > 1)
            put_mask(r, w->src[1], r->width[w->src[0]]);
        else
            put_ref(r, w->src[1]);
        tn__buf_printf(r->out, ";\n");
    } else {
        *done = false;
    }
    return true;
}

static bool put_row(rend *r, int row)
{
    const tnl_row *w = &r->v.rows[row];
    const bool vec = w->lanes > 1, mask = vec && w->dtype == TNP_BOOL;
    const int from = w->src[0] >= 0 ? r->v.rows[w->src[0]].dtype : 0;
    bool done;
    if (mask) r->width[row] = (uint8_t)mask_width(r, row);
    if (!put_control(r, row, &done) || done) return true;
    if (is_op(r, row, "load"))
        put_load(r, row);
    else if (is_op(r, row, "store"))
        put_store(r, row);
    else if (is_op(r, row, "insert"))
        put_insert(r, row);
    else if (is_op(r, row, "extract"))
        put_extract(r, row);
    else if (is_op(r, row, "splat"))
        put_splat(r, row);
    else if (is_op(r, row, "var")) {
        open_decl(r, row);
        put_ref(r, w->src[0]);
        tn__buf_printf(r->out, ";\n");
    } else if (mask && (is_op(r, row, "lt") || is_op(r, row, "eq") || is_op(r, row, "ne")))
        put_compare(r, row);
    else if (vec && is_op(r, row, "where"))
        put_select(r, row);
    else if (mask)
        put_mask_logic(r, row);
    else if (vec && is_op(r, row, "cast") && from == TNP_BOOL)
        put_mask_cast(r, row);
    else
        return put_alu(r, row);
    return true;
}

static void put_head(rend *r)
{
    for (const char *p = r->d->kernel; *p; p++) {
        if (p[0] == '$' && p[1] == 'k')
            tn__buf_printf(r->out, "%s", r->name), p++;
        else if (p[0] == '$' && p[1] == 'l')
            tn__buf_printf(r->out, "1"), p++;
        else
            tn__buf_put(r->out, p, 1);
    }
    for (uint32_t i = 0; i < r->v.head->nargs + r->v.head->nscratch; i++) {
        const tnl_buf *b = &r->v.bufs[i];
        const bool scratch = i >= r->v.head->nargs;
        indent(r);
        for (const char *p = scratch ? r->d->scratch : r->d->buffer; *p; p++) {
            if (*p != '$') {
                tn__buf_put(r->out, p, 1);
                continue;
            }
            p++;
            if (*p == 'q')
                tn__buf_printf(r->out, b->access & TNP_ACCESS_WRITE ? "" : "const");
            else if (*p == 's')
                tn__buf_printf(r->out, "%s", scalar_type(r, b->dtype));
            else if (*p == 'v')
                tn__buf_printf(r->out, "b%u", (unsigned)i);
            else if (*p == 'i')
                tn__buf_printf(r->out, "%u", (unsigned)i);
            else if (*p == 'o')
                tn__buf_printf(r->out, "%" PRIu64, b->offset);
        }
        tn__buf_printf(r->out, "\n");
    }
}

bool tn__render_c(const void *blob, size_t len, const tnp_dialect *d, const char *name,
                  tn__buf *out)
{
    rend r = {.d = d, .out = out, .depth = 1, .name = name};
    if (tnl_open(blob, len, &r.v)) return tn__fail(TN_EINTERNAL, "codegen: bad linear code");
    r.width = tn__calloc(r.v.head->nrows + 1, 1);
    if (!r.width) return false;
    put_head(&r);
    bool ok = true;
    for (uint32_t i = 0; ok && i < r.v.head->nrows; i++) ok = put_row(&r, (int)i);
    tn__buf_printf(out, "}\n");
    tn__free(r.width);
    return ok && !out->failed;
}

bool tn__render_c_unit(const tnp_dialect *d, tn__buf *out)
{
    tn__buf_printf(out, "%s", d->prelude);
    if (d->vec_prelude)
        for (int lanes = 4; lanes <= 16; lanes *= 2)
            for (int dt = 1; dt < TNP_DTYPE_COUNT; dt++)
                if (d->vec_prelude[dt]) put_expand(out, d->vec_prelude[dt], lanes);
    return !out->failed;
}

bool tn__linear_dump(const void *blob, size_t len, tn__buf *out)
{
    tnl_view v;
    if (tnl_open(blob, len, &v)) return tn__fail(TN_EINTERNAL, "codegen: bad linear code");
    for (uint32_t i = 0; i < v.head->nrows; i++) {
        const tnl_row *w = &v.rows[i];
        tn__buf_printf(out, "%4u %-8s %-8s x%-2u", (unsigned)i, v.ops[w->op],
                       w->dtype ? tn__dtype_name((tn_dtype)w->dtype) : "", (unsigned)w->lanes);
        for (int j = 0; j < 3; j++)
            if (w->src[j] >= 0) tn__buf_printf(out, " %%%d", w->src[j]);
        tn__buf_printf(out, " #%" PRId64 "\n", w->imm);
    }
    return !out->failed;
}
