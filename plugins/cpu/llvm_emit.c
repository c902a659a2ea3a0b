/* SPDX-License-Identifier: MIT */
/*
 * Checked linear code to a function of an LLVM module; the semantics are those of the dialect gnu-c.
 *
 * A row is a value; bool is i1 in values and one byte in memory; half floats are 16-bit integers.
 * Variables are allocas of the entry block, which sroa turns into values.  Loops are written in their rotated
 * form: a test before the first turn, the other at the end.  A gated load or store is a branch.
 * Buffers do not overlap (restrict in C): each has an alias scope of its own.  Arithmetic carries no flags:
 * integers wrap, floats keep their order, and only `fma` contracts.
 */
#include "llvm_api.h"
#include <stdio.h>
#include <string.h>

#ifdef CPU_HAVE_LLVM

typedef struct {
    LLVMBasicBlockRef body, after;
    LLVMValueRef phi, count; /* loops */
} block;

typedef struct {
    cpu__unit *u;
    const cpu__linear *l;
    LLVMValueRef fn, *val, *buf, *scope, *noalias, arg[4];
    LLVMValueRef entry_end; /* the entry block's branch: allocas stand before it */
    block *open;
    uint32_t depth, i;
    unsigned md_scope, md_noalias;
} em;

LLVMTypeRef cpu__llvm_type(const cpu__unit *u, unsigned dt, unsigned lanes)
{
    LLVMTypeRef t;
    if (dt == TNP_F32)
        t = L(FloatTypeInContext)(u->c);
    else if (dt == TNP_F64)
        t = L(DoubleTypeInContext)(u->c);
    else
        t = L(IntTypeInContext)(u->c, dt == TNP_BOOL ? 1 : 8 * cpu__dtype_size(dt));
    return lanes > 1 ? L(VectorType)(t, lanes) : t;
}

LLVMValueRef cpu__llvm_call(cpu__unit *u, const char *name, LLVMValueRef *args, unsigned n)
{
    LLVMTypeRef t = L(TypeOf)(args[0]);
    const unsigned id = L(LookupIntrinsicID)(name, strlen(name));
    LLVMValueRef f = L(GetIntrinsicDeclaration)(u->m, id, &t, 1);
    return L(BuildCall2)(u->b, L(IntrinsicGetType)(u->c, id, &t, 1), f, args, n, "");
}

static LLVMTypeRef memory_type(const em *e, unsigned dt, unsigned lanes)
{
    return cpu__llvm_type(e->u, dt == TNP_BOOL ? TNP_U8 : dt, lanes);
}

static const tnl_row *row(const em *e, int32_t i) { return &e->l->v.rows[i]; }

static LLVMTypeRef row_type(const em *e, int32_t i)
{
    return cpu__llvm_type(e->u, row(e, i)->dtype, row(e, i)->lanes);
}

/* A row's value here and now: a variable is read. */
static LLVMValueRef get(em *e, int32_t i)
{
    if (e->l->op[i] != LOP_var) return e->val[i];
    return L(BuildLoad2)(e->u->b, row_type(e, i), e->val[i], "");
}

static LLVMBasicBlockRef new_block(em *e)
{
    return L(AppendBasicBlockInContext)(e->u->c, e->fn, "");
}

static LLVMValueRef i64(const em *e, uint64_t v)
{
    return L(ConstInt)(L(IntTypeInContext)(e->u->c, 64), v, 0);
}

static LLVMValueRef splat(em *e, LLVMValueRef x, unsigned lanes)
{
    LLVMTypeRef i32 = L(IntTypeInContext)(e->u->c, 32);
    LLVMValueRef none = L(ConstNull)(L(VectorType)(L(TypeOf)(x), lanes));
    LLVMValueRef one = L(BuildInsertElement)(e->u->b, none, x, L(ConstInt)(i32, 0, 0), "");
    return L(BuildShuffleVector)(e->u->b, one, none, L(ConstNull)(L(VectorType)(i32, lanes)), "");
}

/* ---- constants and arguments ---- */

static LLVMValueRef konst(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    const unsigned dt = r->dtype;
    uint64_t bits = dt == TNP_BOOL ? (r->imm & 0xff) != 0 : (uint64_t)r->imm;
    LLVMTypeRef t = cpu__llvm_type(e->u, dt, 1);
    LLVMTypeRef it = dt == TNP_BOOL ? t : L(IntTypeInContext)(e->u->c, 8 * cpu__dtype_size(dt));
    if (cpu__dtype_size(dt) < 8) bits &= (UINT64_C(1) << 8 * cpu__dtype_size(dt)) - 1;
    LLVMValueRef v = L(ConstInt)(it, bits, 0), all[64];
    if (it != t) v = L(BuildBitCast)(e->u->b, v, t, ""); /* folds */
    if (r->lanes == 1) return v;
    for (unsigned k = 0; k < r->lanes; k++) all[k] = v;
    return L(ConstVector)(all, r->lanes);
}

static LLVMValueRef at(em *e, LLVMTypeRef t, LLVMValueRef p, LLVMValueRef index)
{
    return L(BuildGEP2)(e->u->b, t, p, &index, 1, "");
}

static LLVMValueRef gid(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    LLVMTypeRef i32 = L(IntTypeInContext)(e->u->c, 32);
    LLVMValueRef p = at(e, i32, e->arg[2], i64(e, (uint64_t)r->imm));
    LLVMValueRef v = L(BuildLoad2)(e->u->b, i32, p, "");
    LLVMTypeRef t = row_type(e, (int32_t)e->i);
    const unsigned size = cpu__dtype_size(r->dtype);
    if (size == 4) return v;
    return size > 4 ? L(BuildZExt)(e->u->b, v, t, "") : L(BuildTrunc)(e->u->b, v, t, "");
}

static LLVMValueRef param(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    LLVMTypeRef t = memory_type(e, r->dtype, 1);
    LLVMValueRef p = at(e, L(IntTypeInContext)(e->u->c, 64), e->arg[1], i64(e, (uint64_t)r->imm));
    LLVMValueRef v = L(BuildLoad2)(e->u->b, t, p, "");
    return r->dtype == TNP_BOOL ? L(BuildICmp)(e->u->b, LLVMIntNE, v, L(ConstNull)(t), "") : v;
}

/* ---- memory ---- */

static LLVMValueRef index_of(em *e, int32_t i)
{
    LLVMValueRef v = get(e, i);
    const unsigned dt = row(e, i)->dtype;
    LLVMTypeRef t = L(IntTypeInContext)(e->u->c, 64);
    if (cpu__dtype_size(dt) == 8) return v;
    return cpu__is_signed(dt) ? L(BuildSExt)(e->u->b, v, t, "") : L(BuildZExt)(e->u->b, v, t, "");
}

static void mark(em *e, LLVMValueRef access, int64_t buf)
{
    L(SetAlignment)(access, cpu__dtype_size(e->l->v.bufs[buf].dtype));
    L(SetMetadata)(access, e->md_scope, e->scope[buf]);
    if (e->noalias[buf]) L(SetMetadata)(access, e->md_noalias, e->noalias[buf]);
}

static LLVMValueRef load_now(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    LLVMValueRef p = at(e, memory_type(e, r->dtype, 1), e->buf[r->imm], index_of(e, r->src[0]));
    LLVMTypeRef t = memory_type(e, r->dtype, r->lanes);
    LLVMValueRef v = L(BuildLoad2)(e->u->b, t, p, "");
    mark(e, v, r->imm);
    return r->dtype == TNP_BOOL ? L(BuildICmp)(e->u->b, LLVMIntNE, v, L(ConstNull)(t), "") : v;
}

static void store_now(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    const tnl_row *s = row(e, r->src[1]);
    LLVMValueRef p = at(e, memory_type(e, s->dtype, 1), e->buf[r->imm], index_of(e, r->src[0]));
    LLVMValueRef v = get(e, r->src[1]);
    if (s->dtype == TNP_BOOL) v = L(BuildZExt)(e->u->b, v, memory_type(e, s->dtype, s->lanes), "");
    mark(e, L(BuildStore)(e->u->b, v, p), r->imm);
}

/* A block that runs where the gate holds; the builder stands in it. */
static LLVMBasicBlockRef enter(em *e, int32_t gate)
{
    LLVMBasicBlockRef then = new_block(e), after = new_block(e);
    L(BuildCondBr)(e->u->b, get(e, gate), then, after);
    L(PositionBuilderAtEnd)(e->u->b, then);
    return after;
}

static void leave(em *e, LLVMBasicBlockRef after)
{
    L(BuildBr)(e->u->b, after);
    L(PositionBuilderAtEnd)(e->u->b, after);
}

static LLVMValueRef load(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    if (r->src[1] < 0) return load_now(e);
    LLVMBasicBlockRef from[2] = {L(GetInsertBlock)(e->u->b), NULL};
    LLVMBasicBlockRef after = enter(e, r->src[1]);
    LLVMTypeRef t = row_type(e, (int32_t)e->i);
    LLVMValueRef v[2] = {L(ConstNull)(t), load_now(e)};
    from[1] = L(GetInsertBlock)(e->u->b);
    leave(e, after);
    LLVMValueRef phi = L(BuildPhi)(e->u->b, t, "");
    L(AddIncoming)(phi, v, from, 2);
    return phi;
}

static void store(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    if (r->src[2] < 0) {
        store_now(e);
        return;
    }
    LLVMBasicBlockRef after = enter(e, r->src[2]);
    store_now(e);
    leave(e, after);
}

/* ---- control ---- */

static LLVMValueRef int_to(em *e, LLVMValueRef v, unsigned from, unsigned to, unsigned lanes)
{
    LLVMTypeRef t = cpu__llvm_type(e->u, to, lanes);
    const unsigned a = cpu__dtype_size(from), b = cpu__dtype_size(to);
    if (a == b) return v;
    if (a > b) return L(BuildTrunc)(e->u->b, v, t, "");
    return cpu__is_signed(from) ? L(BuildSExt)(e->u->b, v, t, "") : L(BuildZExt)(e->u->b, v, t, "");
}

static LLVMValueRef open_loop(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    LLVMTypeRef t = row_type(e, (int32_t)e->i);
    LLVMValueRef n = int_to(e, get(e, r->src[0]), row(e, r->src[0])->dtype, r->dtype, 1);
    LLVMValueRef zero = L(ConstNull)(t);
    LLVMBasicBlockRef before = L(GetInsertBlock)(e->u->b);
    block *o = &e->open[e->depth++];
    *o = (block){.body = new_block(e), .after = new_block(e), .count = n};
    L(BuildCondBr)(e->u->b, L(BuildICmp)(e->u->b, LLVMIntSGT, n, zero, ""), o->body, o->after);
    L(PositionBuilderAtEnd)(e->u->b, o->body);
    o->phi = L(BuildPhi)(e->u->b, t, "");
    L(AddIncoming)(o->phi, &zero, &before, 1);
    return o->phi;
}

static void close_loop(em *e)
{
    block *o = &e->open[--e->depth];
    LLVMBasicBlockRef here = L(GetInsertBlock)(e->u->b);
    LLVMValueRef one = L(ConstInt)(L(TypeOf)(o->phi), 1, 0);
    LLVMValueRef next = L(BuildAdd)(e->u->b, o->phi, one, "");
    L(AddIncoming)(o->phi, &next, &here, 1);
    L(BuildCondBr)
    (e->u->b, L(BuildICmp)(e->u->b, LLVMIntSLT, next, o->count, ""), o->body, o->after);
    L(PositionBuilderAtEnd)(e->u->b, o->after);
}

static LLVMValueRef new_var(em *e)
{
    LLVMValueRef init = get(e, row(e, (int32_t)e->i)->src[0]);
    LLVMBasicBlockRef here = L(GetInsertBlock)(e->u->b);
    L(PositionBuilderBefore)(e->u->b, e->entry_end);
    LLVMValueRef p = L(BuildAlloca)(e->u->b, L(TypeOf)(init), "");
    L(PositionBuilderAtEnd)(e->u->b, here);
    L(BuildStore)(e->u->b, init, p);
    return p;
}

/* ---- values ---- */

static bool half(unsigned dt) { return dt == TNP_F16 || dt == TNP_BF16; }

static LLVMValueRef to_float(em *e, LLVMValueRef v, unsigned dt, unsigned lanes)
{
    return half(dt) ? cpu__llvm_from_half(e->u, dt, v, lanes) : v;
}

static LLVMValueRef cast(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i), *s = row(e, r->src[0]);
    LLVMBuilderRef b = e->u->b;
    LLVMValueRef v = get(e, r->src[0]);
    unsigned from = s->dtype, to = r->dtype;
    LLVMTypeRef t = row_type(e, (int32_t)e->i);
    if (from == to) return v;
    if (half(from)) {
        v = cpu__llvm_from_half(e->u, from, v, r->lanes);
        from = TNP_F32;
        if (to == TNP_F32) return v;
    }
    if (to == TNP_BOOL) {
        LLVMValueRef zero = L(ConstNull)(L(TypeOf)(v));
        return cpu__is_float(from) ? L(BuildFCmp)(b, LLVMRealUNE, v, zero, "")
                                   : L(BuildICmp)(b, LLVMIntNE, v, zero, "");
    }
    if (half(to)) { /* through float32 */
        LLVMTypeRef f = cpu__llvm_type(e->u, TNP_F32, r->lanes);
        if (from == TNP_F64)
            v = L(BuildFPTrunc)(b, v, f, "");
        else if (from != TNP_F32)
            v = cpu__is_signed(from) ? L(BuildSIToFP)(b, v, f, "") : L(BuildUIToFP)(b, v, f, "");
        return cpu__llvm_to_half(e->u, to, v, r->lanes);
    }
    if (cpu__is_float(from) && cpu__is_float(to))
        return to == TNP_F64 ? L(BuildFPExt)(b, v, t, "") : L(BuildFPTrunc)(b, v, t, "");
    if (cpu__is_float(from))
        return cpu__is_signed(to) ? L(BuildFPToSI)(b, v, t, "") : L(BuildFPToUI)(b, v, t, "");
    if (cpu__is_float(to))
        return cpu__is_signed(from) ? L(BuildSIToFP)(b, v, t, "") : L(BuildUIToFP)(b, v, t, "");
    return from == TNP_BOOL ? L(BuildZExt)(b, v, t, "") : int_to(e, v, from, to, r->lanes);
}

static LLVMValueRef bitcast(em *e)
{
    const tnl_row *r = row(e, (int32_t)e->i), *s = row(e, r->src[0]);
    LLVMValueRef v = get(e, r->src[0]);
    if (r->dtype == s->dtype) return v;
    if (s->dtype == TNP_BOOL) return L(BuildZExt)(e->u->b, v, row_type(e, (int32_t)e->i), "");
    if (r->dtype == TNP_BOOL)
        return L(BuildICmp)(e->u->b, LLVMIntNE, v, L(ConstNull)(L(TypeOf)(v)), "");
    return L(BuildBitCast)(e->u->b, v, row_type(e, (int32_t)e->i), "");
}

static LLVMValueRef compare(em *e, unsigned op)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    const unsigned dt = row(e, r->src[0])->dtype;
    LLVMValueRef a = to_float(e, get(e, r->src[0]), dt, r->lanes);
    LLVMValueRef b = to_float(e, get(e, r->src[1]), dt, r->lanes);
    if (cpu__is_float(dt))
        return L(BuildFCmp)(e->u->b,
                            op == LOP_lt   ? LLVMRealOLT
                            : op == LOP_eq ? LLVMRealOEQ
                                           : LLVMRealUNE,
                            a, b, "");
    const LLVMIntPredicate less = cpu__is_signed(dt) ? LLVMIntSLT : LLVMIntULT;
    return L(BuildICmp)(e->u->b,
                        op == LOP_lt   ? less
                        : op == LOP_eq ? LLVMIntEQ
                                       : LLVMIntNE,
                        a, b, "");
}

/* float64's exp2, log2 and sin are those of the C library, lane by lane. */
static LLVMValueRef library(em *e, unsigned op, LLVMValueRef x, unsigned lanes)
{
    const char *name = op == LOP_exp2 ? "exp2" : op == LOP_log2 ? "log2" : "sin";
    LLVMTypeRef d = L(DoubleTypeInContext)(e->u->c), ft = L(FunctionType)(d, &d, 1, 0);
    LLVMTypeRef i32 = L(IntTypeInContext)(e->u->c, 32);
    LLVMValueRef f = L(GetNamedFunction)(e->u->m, name);
    if (!f) f = L(AddFunction)(e->u->m, name, ft);
    if (lanes == 1) return L(BuildCall2)(e->u->b, ft, f, &x, 1, "");
    LLVMValueRef out = x;
    for (unsigned k = 0; k < lanes; k++) {
        LLVMValueRef no = L(ConstInt)(i32, k, 0);
        LLVMValueRef one = L(BuildExtractElement)(e->u->b, x, no, "");
        one = L(BuildCall2)(e->u->b, ft, f, &one, 1, "");
        out = L(BuildInsertElement)(e->u->b, out, one, no, "");
    }
    return out;
}

static LLVMValueRef float_op(em *e, unsigned op, unsigned dt, LLVMValueRef *v, unsigned lanes)
{
    LLVMBuilderRef b = e->u->b;
    switch (op) {
    case LOP_add: return L(BuildFAdd)(b, v[0], v[1], "");
    case LOP_sub: return L(BuildFSub)(b, v[0], v[1], "");
    case LOP_mul: return L(BuildFMul)(b, v[0], v[1], "");
    case LOP_div: return L(BuildFDiv)(b, v[0], v[1], "");
    case LOP_neg: return L(BuildFNeg)(b, v[0], "");
    case LOP_fma: return cpu__llvm_call(e->u, "llvm.fma", v, 3);
    case LOP_sqrt: return cpu__llvm_call(e->u, "llvm.sqrt", v, 1);
    case LOP_trunc: return cpu__llvm_call(e->u, "llvm.trunc", v, 1);
    case LOP_floor: return cpu__llvm_call(e->u, "llvm.floor", v, 1);
    default: break;
    }
    if (dt == TNP_F64) return library(e, op, v[0], lanes);
    if (op == LOP_exp2) return cpu__llvm_exp2(e->u, v[0], lanes);
    return op == LOP_log2 ? cpu__llvm_log2(e->u, v[0], lanes) : cpu__llvm_sin(e->u, v[0], lanes);
}

static LLVMValueRef int_op(em *e, unsigned op, unsigned dt, LLVMValueRef *v)
{
    LLVMBuilderRef b = e->u->b;
    const bool is_bool = dt == TNP_BOOL, sig = cpu__is_signed(dt);
    switch (op) {
    case LOP_add: return is_bool ? L(BuildOr)(b, v[0], v[1], "") : L(BuildAdd)(b, v[0], v[1], "");
    case LOP_mul: return is_bool ? L(BuildAnd)(b, v[0], v[1], "") : L(BuildMul)(b, v[0], v[1], "");
    case LOP_sub: return L(BuildSub)(b, v[0], v[1], "");
    case LOP_neg: return L(BuildSub)(b, L(ConstNull)(L(TypeOf)(v[0])), v[0], "");
    case LOP_and: return L(BuildAnd)(b, v[0], v[1], "");
    case LOP_or: return L(BuildOr)(b, v[0], v[1], "");
    case LOP_xor: return L(BuildXor)(b, v[0], v[1], "");
    case LOP_not: return L(BuildNot)(b, v[0], "");
    case LOP_shl: return L(BuildShl)(b, v[0], v[1], "");
    case LOP_shr: return sig ? L(BuildAShr)(b, v[0], v[1], "") : L(BuildLShr)(b, v[0], v[1], "");
    case LOP_idiv: return sig ? L(BuildSDiv)(b, v[0], v[1], "") : L(BuildUDiv)(b, v[0], v[1], "");
    case LOP_imod: return sig ? L(BuildSRem)(b, v[0], v[1], "") : L(BuildURem)(b, v[0], v[1], "");
    default: return L(BuildAdd)(b, L(BuildMul)(b, v[0], v[1], ""), v[2], ""); /* fma */
    }
}

static LLVMValueRef value_op(em *e, unsigned op)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    LLVMValueRef v[3] = {0};
    for (int k = 0; k < 3 && r->src[k] >= 0; k++) v[k] = get(e, r->src[k]);
    if (op == LOP_where) return L(BuildSelect)(e->u->b, v[0], v[1], v[2], "");
    if (!cpu__is_float(r->dtype)) return int_op(e, op, r->dtype, v);
    if (!half(r->dtype)) return float_op(e, op, r->dtype, v, r->lanes);
    for (int k = 0; k < 3 && v[k]; k++) v[k] = to_float(e, v[k], r->dtype, r->lanes);
    return cpu__llvm_to_half(e->u, r->dtype, float_op(e, op, TNP_F32, v, r->lanes), r->lanes);
}

static LLVMValueRef lane(em *e, unsigned op)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    LLVMValueRef no = L(ConstInt)(L(IntTypeInContext)(e->u->c, 32), (uint64_t)r->imm, 0);
    LLVMValueRef a = get(e, r->src[0]);
    if (op == LOP_extract)
        return row(e, r->src[0])->lanes == 1 ? a : L(BuildExtractElement)(e->u->b, a, no, "");
    LLVMValueRef one = get(e, r->src[1]);
    return r->lanes == 1 ? one : L(BuildInsertElement)(e->u->b, a, one, no, "");
}

/* ---- rows ---- */

static void control(em *e, unsigned op)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    if (op == LOP_end)
        close_loop(e);
    else if (op == LOP_if)
        e->open[e->depth++].after = enter(e, r->src[0]);
    else if (op == LOP_endif)
        leave(e, e->open[--e->depth].after);
    else if (op == LOP_set)
        L(BuildStore)(e->u->b, get(e, r->src[1]), e->val[r->src[0]]);
    else
        store(e);
}

static LLVMValueRef value(em *e, unsigned op)
{
    const tnl_row *r = row(e, (int32_t)e->i);
    switch (op) {
    case LOP_const: return konst(e);
    case LOP_gid: return gid(e);
    case LOP_param: return param(e);
    case LOP_loop: return open_loop(e);
    case LOP_var: return new_var(e);
    case LOP_load: return load(e);
    case LOP_splat:
        return r->lanes == 1 ? get(e, r->src[0]) : splat(e, get(e, r->src[0]), r->lanes);
    case LOP_insert:
    case LOP_extract: return lane(e, op);
    case LOP_cast: return cast(e);
    case LOP_bitcast: return bitcast(e);
    case LOP_lt:
    case LOP_eq:
    case LOP_ne: return compare(e, op);
    default: return value_op(e, op);
    }
}

/* ---- the function ---- */

static void attribute(em *e, const char *key, const char *text)
{
    LLVMAttributeRef a = L(CreateStringAttribute)(e->u->c, key, (unsigned)strlen(key), text,
                                                  (unsigned)strlen(text));
    L(AddAttributeAtIndex)(e->fn, CPU_LLVM_FN, a);
}

static void declare(em *e)
{
    LLVMContextRef c = e->u->c;
    LLVMTypeRef p = L(PointerTypeInContext)(c, 0), args[4] = {p, p, p, p};
    LLVMTypeRef ft = L(FunctionType)(L(VoidTypeInContext)(c), args, 4, 0);
    e->fn = L(AddFunction)(e->u->m, e->l->v.head->name, ft);
    const unsigned nounwind = L(GetEnumAttributeKindForName)("nounwind", 8);
    L(AddAttributeAtIndex)(e->fn, CPU_LLVM_FN, L(CreateEnumAttribute)(c, nounwind, 0));
    attribute(e, "prefer-vector-width", "512");
    attribute(e, "min-legal-vector-width", "512");
    attribute(e, "no-builtins", "");
    for (unsigned k = 0; k < 4; k++) e->arg[k] = L(GetParam)(e->fn, k);
    L(PositionBuilderAtEnd)(e->u->b, new_block(e));
}

/* Addresses of all buffers, in the entry block. */
static void addresses(em *e)
{
    const tnl_head *h = e->l->v.head;
    LLVMTypeRef p = L(PointerTypeInContext)(e->u->c, 0), i8 = L(IntTypeInContext)(e->u->c, 8);
    for (uint32_t i = 0; i < h->nargs + h->nscratch; i++) {
        if (i < h->nargs) {
            LLVMValueRef slot = at(e, p, e->arg[0], i64(e, i));
            e->buf[i] = L(BuildLoad2)(e->u->b, p, slot, "");
        } else {
            e->buf[i] = at(e, i8, e->arg[3], i64(e, e->l->v.bufs[i].offset));
        }
    }
}

/* One alias scope a buffer; what it cannot overlap are those of all others. */
static void scopes(em *e, LLVMMetadataRef *one, LLVMMetadataRef *others)
{
    LLVMContextRef c = e->u->c;
    const uint32_t n = e->l->v.head->nargs + e->l->v.head->nscratch;
    char name[16];
    e->md_scope = L(GetMDKindIDInContext)(c, "alias.scope", 11);
    e->md_noalias = L(GetMDKindIDInContext)(c, "noalias", 7);
    LLVMMetadataRef text = L(MDStringInContext2)(c, "buffers", 7);
    LLVMMetadataRef domain = L(MDNodeInContext2)(c, &text, 1);
    for (uint32_t i = 0; i < n; i++) {
        const int len = snprintf(name, sizeof name, "b%u", (unsigned)i);
        LLVMMetadataRef pair[2] = {L(MDStringInContext2)(c, name, (size_t)len), domain};
        one[i] = L(MDNodeInContext2)(c, pair, 2);
        e->scope[i] = L(MetadataAsValue)(c, L(MDNodeInContext2)(c, &one[i], 1));
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = 0;
        for (uint32_t j = 0; j < n; j++)
            if (j != i) others[k++] = one[j];
        e->noalias[i] = k ? L(MetadataAsValue)(c, L(MDNodeInContext2)(c, others, k)) : NULL;
    }
}

static void body(em *e)
{
    const uint32_t n = e->l->v.head->nrows;
    addresses(e);
    LLVMBasicBlockRef first = new_block(e);
    e->entry_end = L(BuildBr)(e->u->b, first);
    L(PositionBuilderAtEnd)(e->u->b, first);
    for (e->i = 0; e->i < n; e->i++) {
        const unsigned op = e->l->op[e->i];
        if (op == LOP_end || op == LOP_if || op == LOP_endif || op == LOP_set || op == LOP_store)
            control(e, op);
        else
            e->val[e->i] = value(e, op);
    }
    L(BuildRetVoid)(e->u->b);
}

tnp_rc cpu__llvm_emit(cpu__unit *u, const cpu__linear *l, tnp_err *err)
{
    const size_t nb = (size_t)l->v.head->nargs + l->v.head->nscratch + 1;
    const size_t nr = (size_t)l->v.head->nrows + 1;
    em e = {.u = u, .l = l};
    e.val = cpu__take(nr * sizeof *e.val);
    e.open = cpu__take(nr * sizeof *e.open);
    e.buf = cpu__take(nb * sizeof *e.buf);
    e.scope = cpu__take(nb * sizeof *e.scope);
    e.noalias = cpu__take(nb * sizeof *e.noalias);
    LLVMMetadataRef *md = cpu__take(2 * nb * sizeof *md);
    const bool ok = e.val && e.open && e.buf && e.scope && e.noalias && md;
    if (ok) {
        declare(&e);
        scopes(&e, md, md + nb);
        body(&e);
    }
    cpu__give(e.val);
    cpu__give(e.open);
    cpu__give(e.buf);
    cpu__give(e.scope);
    cpu__give(e.noalias);
    cpu__give(md);
    if (ok) return TNP_OK;
    return cpu__fail(err, TNP_E_NOMEM, 0, "CPU: no host memory for a kernel of %zu rows", nr);
}
#else
typedef int cpu__no_llvm_emit;
#endif
