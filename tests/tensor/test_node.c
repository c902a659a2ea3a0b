/* SPDX-License-Identifier: MIT */
/* Graph nodes: what the constructors refuse, what they simplify, how long chains are walked and freed. */
#include "support/naive.h"
#include "tensor/make.h"
#include "test.h"
#include <inttypes.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static tn__build build;
static void setup(void)
{
    tn_clear_error();
    tn__build_begin(&build);
}
static void teardown(void)
{
    test_clean_end();
    tn__build_end(&build, NULL);
    ck_assert_uint_eq(tn__node_live(), 0);
    ck_assert_uint_eq(tn__live_bytes(), 0);
}

#define D(...) ((const int64_t[]){__VA_ARGS__})
#define A(...) ((const int[]){__VA_ARGS__})

static tn__node *any(tn_dtype dt, const int64_t *dims, int rank)
{
    return tn__param_node(tn__const_f(dt, 0, dims, rank), 1);
}
static tn__node *f23(void) { return any(TN_F32, D(2, 3), 2); }
static tn__node *i23(void) { return any(TN_I32, D(2, 3), 2); }
static tn__node *b23(void) { return any(TN_BOOL, D(2, 3), 2); }

static void refused_at(int line, tn__node *n, tn_code code, const char *text)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(n == NULL && e != NULL, "line %d: not refused", line);
    ck_assert_msg(e->code == code, "line %d: %s: %s", line, tn_code_name(e->code), e->msg);
    ck_assert_msg(!strcmp(e->msg, text), "line %d: %s", line, e->msg);
    tn_clear_error();
}
#define refused(expr, code, text) refused_at(__LINE__, expr, code, text)

START_TEST(elementwise_ops_refuse_what_does_not_fit)
{
    tn__node *f = f23(), *i = i23(), *b = b23(), *g = any(TN_F32, D(3, 2), 2);
    refused(tn__binary(TN_OP_ADD, f, g), TN_ESHAPE,
            "add: shapes (2, 3) and (3, 2) differ: expand first");
    refused(tn__binary(TN_OP_MUL, f, i), TN_EDTYPE,
            "mul: dtypes float32 and int32 differ: cast one of them");
    refused(tn__binary(TN_OP_DIV, i, i), TN_EDTYPE, "div: int32: takes floats only: cast first");
    refused(tn__binary(TN_OP_IDIV, f, f), TN_EDTYPE,
            "idiv: float32: takes integers only: cast first");
    refused(tn__binary(TN_OP_XOR, f, f), TN_EDTYPE,
            "xor: float32: takes integers and bool only: cast first");
    refused(tn__binary(TN_OP_SUB, b, b), TN_EDTYPE, "sub: bool: takes numbers only: cast first");
    refused(tn__unary(TN_OP_SQRT, i), TN_EDTYPE, "sqrt: int32: takes floats only: cast first");
    refused(tn__unary(TN_OP_NEG, b), TN_EDTYPE, "neg: bool: takes numbers only: cast first");
    refused(tn__unary(TN_OP_NOT, f), TN_EDTYPE,
            "not: float32: takes integers and bool only: cast first");
    refused(tn__where(f, f, f), TN_EDTYPE,
            "where: the condition is float32: it must be bool: compare first");
    refused(tn__where(b, f, i), TN_EDTYPE,
            "where: dtypes float32 and int32 differ: cast one of them");
    refused(tn__where(b, g, g), TN_ESHAPE,
            "where: shapes (2, 3), (3, 2) and (3, 2) differ: expand first");
    refused(tn__cast(f, TN_DTYPES), TN_EDTYPE, "cast: 14 is no dtype");
    refused(tn__bitcast(f, TN_F64), TN_EDTYPE,
            "bitcast: float32 to float64: the element sizes must be equal, and bool has no bits");
    refused(tn__bitcast(b, TN_U8), TN_EDTYPE,
            "bitcast: bool to uint8: the element sizes must be equal, and bool has no bits");
}
END_TEST

START_TEST(leaves_refuse_bad_shapes)
{
    int64_t ones[17];
    for (int i = 0; i < 17; i++) ones[i] = 1;
    refused(tn__const_f(TN_F32, 0, D(2, -3), 2), TN_ESHAPE,
            "const: size -3 of axis 1 in (2, -3): sizes are not negative");
    refused(tn__const_f(TN_F32, 0, D(INT64_C(1) << 32, INT64_C(1) << 31), 2), TN_ESHAPE,
            "const: shape (4294967296, 2147483648): the number of elements does not fit 60 bits");
    refused(
        tn__const_f(TN_F32, 0, D(INT64_C(1) << 32, 0, INT64_C(1) << 31), 3), TN_ESHAPE,
        "const: shape (4294967296, 0, 2147483648): the number of elements does not fit 60 bits");
    refused(tn__const_f(TN_F64, 0, D(INT64_C(1) << 60), 1), TN_ESHAPE,
            "const: shape (1152921504606846976): the number of elements does not fit 60 bits");
    ck_assert_ptr_nonnull(tn__const_f(TN_F64, 0, D((INT64_C(1) << 60) - 1), 1));
    refused(tn__const_f(TN_F32, 0, ones, 17), TN_ESHAPE,
            "const: rank 17: a tensor has 0 to 16 axes");
    refused(tn__const_f(TN_DTYPE_DEFAULT, 0, ones, 1), TN_EDTYPE, "const: 0 is no dtype");
    refused(tn__iota(TN_I32, 1, D(4), 1), TN_EAXIS, "iota: axis 1 of (4): axes are 0 to 0");
    refused(tn__random_bits(D(-1), 1), TN_ESHAPE,
            "random: size -1 of axis 0 in (-1): sizes are not negative");
    ck_assert_int_eq(tn__const_f(TN_F32, 0, ones, 16)->rank, 16);
    ck_assert_int_eq(tn__node_numel(tn__const_f(TN_F32, 0, D(0, 5), 2)), 0);
    ck_assert_int_eq(tn__node_numel(tn__const_f(TN_F32, 0, NULL, 0)), 1);
}
END_TEST

START_TEST(movement_refuses_what_does_not_fit)
{
    tn__node *f = f23();
    refused(tn__reshape(f, D(4), 1), TN_ESHAPE, "reshape: (2, 3) has 6 elements and (4) has 4");
    refused(tn__expand(f, D(4, 3), 2), TN_ESHAPE,
            "expand: (2, 3) to (4, 3): only axes of size 1 can grow");
    refused(tn__expand(f, D(3), 1), TN_ESHAPE,
            "expand: (2, 3) to (3): only axes of size 1 can grow");
    refused(tn__permute(f, A(0, 0)), TN_EAXIS, "permute: axis 0 of (2, 3) is named twice");
    refused(tn__permute(f, A(0, 2)), TN_EAXIS, "permute: axis 2 of (2, 3) is out of range");
    refused(tn__permute(f, A(-1, 0)), TN_EAXIS, "permute: axis -1 of (2, 3) is out of range");
    refused(tn__shrink(f, D(1, 1), D(1, 3)), TN_EINDEX,
            "shrink: 3 from index 1 does not lie in axis 1 of (2, 3)");
    refused(tn__shrink(f, D(-1, 0), D(1, 3)), TN_EINDEX,
            "shrink: 1 from index -1 does not lie in axis 0 of (2, 3)");
    refused(tn__shrink(f, D(1, 0), D(INT64_MAX, 3)), TN_EINDEX,
            "shrink: 9223372036854775807 from index 1 does not lie in axis 0 of (2, 3)");
    refused(tn__pad(f, D(0, -1), D(0, 0)), TN_EVALUE,
            "pad: -1 before and 0 after axis 1 of (2, 3): neither may be negative or too large");
    refused(tn__pad(f, D(INT64_MAX, 0), D(0, 0)), TN_EVALUE,
            "pad: 9223372036854775807 before and 0 after axis 0 of (2, 3): neither may be negative "
            "or too large");
    refused(tn__flip(f, 4), TN_EAXIS, "flip: axis mask 0x4 of (2, 3): axes are 0 to 1");
    refused(tn__window(f, 2, 1, 1, 1), TN_EAXIS, "window: axis 2 of (2, 3): axes are 0 to 1");
    refused(tn__window(f, 1, 0, 1, 1), TN_EVALUE,
            "window: size 0, stride 1, dilation 1: all must be at least 1");
    refused(tn__window(f, 1, 2, 1, 3), TN_ESHAPE,
            "window: 2 elements with dilation 3 span more than axis 1 of (2, 3)");
    refused(tn__fold(f, 1, 4, 3, 1, 1), TN_ESHAPE,
            "fold: axis 1 of (2, 3): it must be followed by one of size 3");
    refused(tn__fold(f, 0, 3, 3, 1, 1), TN_ESHAPE,
            "fold: 2 windows of 3 elements, dilation 1 and stride 1 do not fit an axis of 3");
    refused(tn__fold(b23(), 0, 4, 3, 1, 1), TN_EDTYPE,
            "fold: bool: overlaps are summed: cast to a number first");
}
END_TEST

START_TEST(reductions_and_index_ops_refuse_what_does_not_fit)
{
    tn__node *f = f23(), *i = i23(), *x = any(TN_F32, D(2, 5, 4), 3),
             *s = any(TN_F32, D(2, 3, 4), 3);
    refused(tn__reduce(TN_OP_SUB, f, 1), TN_EVALUE,
            "reduce: sub: combines by add, mul, max or min");
    refused(tn__reduce(TN_OP_ADD, f, 4), TN_EAXIS,
            "reduce: axis mask 0x4 of (2, 3): axes are 0 to 1");
    refused(tn__scan(TN_OP_ADD, f, 2), TN_EAXIS, "scan: axis 2 of (2, 3): axes are 0 to 1");
    refused(tn__scan(TN_OP_DIV, f, 0), TN_EVALUE, "scan: div: combines by add, mul, max or min");
    refused(tn__gather(x, f), TN_EDTYPE, "gather: the indices are float32: they must be integers");
    refused(tn__gather(f, i), TN_ESHAPE,
            "gather: (2, 3) by indices (2, 3): takes (B, V, P) and (B, N)");
    refused(tn__scatter(TN_OP_ADD, x, i, x), TN_ESHAPE,
            "scatter: (2, 5, 4) by indices (2, 3) into (2, 5, 4): takes (B, N, P), (B, N) and (B, "
            "V, P)");
    refused(tn__scatter(TN_OP_SUB, x, i, s), TN_EVALUE,
            "scatter: sub: combines by add, mul, max or min");
    refused(tn__scatter(TN_OP_ADD, x, i, tn__cast(s, TN_F64)), TN_EDTYPE,
            "scatter: dtypes float32 and float64 differ: cast one of them");
    refused(tn__argsort(any(TN_F32, NULL, 0), false), TN_ESHAPE,
            "sort: (): sorts along the last axis, of at most 2147483647 elements");
    refused(tn__update(f, i, f), TN_EDTYPE, "update: int32 into float32: cast the value first");
    refused(tn__update(f, x, f), TN_ESHAPE,
            "update: (2, 5, 4) into a view (2, 3): expand the value first");
    refused(tn__update(f, f, f23()), TN_EVALUE,
            "update: param: it stands between the view and the tensor: only reshape, permute, "
            "shrink, flip and "
            "strides can be written through");
}
END_TEST

START_TEST(null_sources_flow_through_without_an_error)
{
    tn__node *f = f23();
    ck_assert_ptr_null(tn__binary(TN_OP_ADD, NULL, f));
    ck_assert_ptr_null(tn__binary(TN_OP_ADD, f, NULL));
    ck_assert_ptr_null(tn__unary(TN_OP_NEG, NULL));
    ck_assert_ptr_null(tn__where(NULL, f, f));
    ck_assert_ptr_null(tn__cast(NULL, TN_F32));
    ck_assert_ptr_null(tn__reshape(NULL, D(1), 1));
    ck_assert_ptr_null(tn__permute(NULL, A(0)));
    ck_assert_ptr_null(tn__reduce(TN_OP_ADD, NULL, 1));
    ck_assert_ptr_null(tn__gather(NULL, f));
    ck_assert_ptr_null(tn__const_like(NULL, 1));
    ck_assert_ptr_null(tn__update(NULL, f, f));
    ck_assert(tn_ok());
}
END_TEST

START_TEST(movement_that_changes_nothing_gives_its_source)
{
    tn__node *f = f23();
    ck_assert_ptr_eq(tn__reshape(f, D(2, 3), 2), f);
    ck_assert_ptr_eq(tn__expand(f, D(2, 3), 2), f);
    ck_assert_ptr_eq(tn__permute(f, A(0, 1)), f);
    ck_assert_ptr_eq(tn__shrink(f, D(0, 0), D(2, 3)), f);
    ck_assert_ptr_eq(tn__pad(f, D(0, 0), D(0, 0)), f);
    ck_assert_ptr_eq(tn__flip(f, 0), f);
    ck_assert_ptr_eq(tn__cast(f, TN_F32), f);
    ck_assert_ptr_eq(tn__reduce(TN_OP_ADD, f, 0), f);
    tn__node *one = any(TN_F32, D(1, 1), 2);
    ck_assert_ptr_eq(tn__reduce(TN_OP_ADD, one, 3), one);
}
END_TEST

START_TEST(movements_of_one_kind_merge)
{
    tn__node *f = any(TN_F32, D(2, 3, 4), 3), *m;
    m = tn__reshape(tn__reshape(f, D(24), 1), D(4, 6), 2);
    ck_assert(tn__node_is(m, TN_OP_RESHAPE) && m->src[0] == f);
    ck_assert_ptr_eq(tn__reshape(m, D(2, 3, 4), 3), f);
    m = tn__permute(tn__permute(f, A(2, 0, 1)), A(1, 0, 2));
    ck_assert(m->src[0] == f && m->argv[0] == 0 && m->argv[1] == 2 && m->argv[2] == 1);
    ck_assert_ptr_eq(tn__permute(tn__permute(f, A(2, 0, 1)), A(1, 2, 0)), f);
    m = tn__shrink(tn__shrink(f, D(0, 1, 1), D(2, 2, 3)), D(1, 0, 1), D(1, 2, 1));
    ck_assert(m->src[0] == f && m->argv[0] == 1 && m->argv[1] == 1 && m->argv[2] == 2);
    m = tn__pad(tn__pad(f, D(1, 0, 0), D(0, 0, 0)), D(2, 0, 0), D(0, 3, 0));
    ck_assert(m->src[0] == f && m->argv[0] == 3 && m->argv[3] == 3 && m->dims[0] == 5);
    ck_assert_ptr_eq(tn__flip(tn__flip(f, 5), 5), f);
    m = tn__flip(tn__flip(f, 5), 3);
    ck_assert(m->src[0] == f && m->argv[0] == 6);
    tn__node *one = any(TN_F32, D(1, 3), 2);
    m = tn__expand(tn__expand(tn__reshape(one, D(1, 1, 3), 3), D(4, 1, 3), 3), D(4, 5, 3), 3);
    ck_assert(tn__node_is(m, TN_OP_EXPAND) && tn__node_is(m->src[0], TN_OP_RESHAPE));
    m = tn__window(f, 1, 1, 1, 1);
    ck_assert(tn__node_is(m, TN_OP_RESHAPE) && m->dims[1] == 3 && m->dims[2] == 1);
}
END_TEST

START_TEST(what_somebody_holds_is_not_merged_away)
{
    tn__node *f = f23(), *mid = tn__reshape(f, D(6), 1), *c = tn__const_f(TN_F32, 1, D(6), 1), *m;
    atomic_fetch_add(&mid->kept, 1);
    m = tn__reshape(mid, D(3, 2), 2);
    ck_assert_ptr_eq(m->src[0], mid);
    atomic_fetch_sub(&mid->kept, 1);
    tn__merging.since = tn__node_next();
    m = tn__reshape(mid, D(3, 2), 2);
    ck_assert_ptr_eq(m->src[0], mid);
    m = tn__reshape(m, D(1, 6), 2); /* made in this call */
    ck_assert_ptr_eq(m->src[0], mid);
    ck_assert(tn__node_is(tn__reshape(c, D(3, 2), 2), TN_OP_CONST));
    tn__merging.held = c;
    ck_assert(tn__node_is(tn__reshape(c, D(3, 2), 2), TN_OP_RESHAPE));
    tn__merging = (tn__merge){0};
    atomic_fetch_add(&c->kept, 1);
    ck_assert(tn__node_is(tn__reshape(c, D(3, 2), 2), TN_OP_RESHAPE));
    ck_assert(tn__node_is(tn__unary(TN_OP_NEG, c), TN_OP_NEG));
}
END_TEST

START_TEST(constants_stay_constants_under_movement)
{
    tn__node *c = tn__const_f(TN_F32, 2.5, D(1, 3), 2);
    tn__node *all[] = {tn__reshape(c, D(3), 1),
                       tn__expand(c, D(4, 2, 3), 3),
                       tn__permute(c, A(1, 0)),
                       tn__shrink(c, D(0, 1), D(1, 2)),
                       tn__flip(c, 2),
                       tn__window(c, 1, 2, 1, 1),
                       tn__reduce(TN_OP_MAX, c, 2)};
    for (size_t i = 0; i < TN_LEN(all); i++)
        ck_assert(tn__node_is(all[i], TN_OP_CONST) && all[i]->scalar.f == 2.5);
    ck_assert_int_eq(tn__node_numel(all[1]), 24);
    ck_assert(tn__node_is(tn__pad(c, D(0, 1), D(0, 0)), TN_OP_PAD));
    ck_assert(tn__node_is(tn__pad(tn__const_like(c, 0), D(0, 1), D(0, 0)), TN_OP_CONST));
    ck_assert(tn__node_is(tn__pad(tn__const_like(c, -0.0), D(0, 1), D(0, 0)), TN_OP_PAD));
}
END_TEST

START_TEST(neutral_constants_vanish_only_where_that_is_exact)
{
    static const struct {
        tn__op op;
        tn_dtype dt;
        double c;
        bool right, left; /* x op c is x, c op x is x */
    } row[] = {
        {TN_OP_ADD, TN_F32, 0.0, false, false}, /* -0.0 + 0.0 is 0.0 */
        {TN_OP_ADD, TN_F32, -0.0, true, true},     {TN_OP_SUB, TN_F32, 0.0, true, false},
        {TN_OP_SUB, TN_F32, -0.0, false, false},   {TN_OP_MUL, TN_F32, 1, true, true},
        {TN_OP_MUL, TN_F32, 0, false, false},      {TN_OP_DIV, TN_F32, 1, true, false},
        {TN_OP_POW, TN_F32, 1, true, false},       {TN_OP_MAX, TN_F32, -INFINITY, true, true},
        {TN_OP_MIN, TN_F32, INFINITY, true, true}, {TN_OP_MAX, TN_F32, INFINITY, false, false},
        {TN_OP_ADD, TN_I32, 0, true, true},        {TN_OP_SUB, TN_I32, 0, true, false},
        {TN_OP_MUL, TN_I32, 1, true, true},        {TN_OP_IDIV, TN_I32, 1, true, false},
        {TN_OP_IMOD, TN_I32, 1, false, false},     {TN_OP_AND, TN_I32, -1, true, true},
        {TN_OP_AND, TN_I32, 1, false, false},      {TN_OP_OR, TN_I32, 0, true, true},
        {TN_OP_XOR, TN_I32, 0, true, true},        {TN_OP_SHL, TN_I32, 0, true, false},
        {TN_OP_SHR, TN_I32, 0, true, false},       {TN_OP_AND, TN_BOOL, 1, true, true},
        {TN_OP_OR, TN_BOOL, 0, true, true},        {TN_OP_ADD, TN_BOOL, 0, true, true},
        {TN_OP_MUL, TN_BOOL, 1, true, true},       {TN_OP_AND, TN_U8, 255, true, true},
    };
    for (size_t i = 0; i < TN_LEN(row); i++) {
        tn__node *x = any(row[i].dt, D(2, 3), 2), *c = tn__const_like(x, row[i].c);
        tn__node *r = tn__binary(row[i].op, x, c), *l = tn__binary(row[i].op, c, x);
        ck_assert_msg((r == x) == row[i].right && (l == x) == row[i].left, "row %zu: %s %g", i,
                      tn__ops[row[i].op].text, row[i].c);
    }
    tn__node *x = i23(), *f = f23();
    tn__node *zero = tn__binary(TN_OP_MUL, x, tn__const_like(x, 0));
    ck_assert(tn__node_is(zero, TN_OP_CONST) && zero->scalar.i == 0);
    ck_assert(tn__node_is(tn__binary(TN_OP_POW, f, tn__const_like(f, 0)), TN_OP_CONST));
    ck_assert(tn__node_is(tn__binary(TN_OP_POW, f, tn__const_like(f, 2)), TN_OP_MUL));
    ck_assert_ptr_eq(tn__unary(TN_OP_NEG, tn__unary(TN_OP_NEG, f)), f);
    ck_assert_ptr_eq(tn__where(tn__const_like(b23(), 1), f, zero ? f23() : f), f);
    ck_assert_ptr_eq(tn__cast(tn__cast(f, TN_F64), TN_F32), f);
    ck_assert(tn__cast(tn__cast(f, TN_F16), TN_F32) != f);
    ck_assert(tn__cast(tn__cast(x, TN_F32), TN_I32) != x);
    ck_assert_ptr_eq(tn__cast(tn__cast(x, TN_I64), TN_I32), x);
}
END_TEST

/* ---- constants, by hand from IEEE 754, C and numpy ---- */
static const struct {
    tn__op op;
    tn_dtype dt;
    int64_t a, b, want;
} ints[] = {
    {TN_OP_ADD, TN_I32, INT32_MAX, 1, INT32_MIN},
    {TN_OP_ADD, TN_U8, 200, 100, 44},
    {TN_OP_SUB, TN_U32, 0, 1, UINT32_MAX},
    {TN_OP_MUL, TN_I8, 100, 3, 44},
    {TN_OP_MUL, TN_I64, INT64_MAX, 2, -2},
    {TN_OP_IDIV, TN_I32, 7, -2, -4},
    {TN_OP_IDIV, TN_I32, -7, -2, 3},
    {TN_OP_IDIV, TN_I32, 7, 0, 0},
    {TN_OP_IDIV, TN_I32, INT32_MIN, -1, INT32_MIN},
    {TN_OP_IDIV, TN_I64, INT64_MIN, -1, INT64_MIN},
    {TN_OP_IDIV, TN_U8, 200, 7, 28},
    {TN_OP_IMOD, TN_I32, 7, -2, -1},
    {TN_OP_IMOD, TN_I32, -7, 2, 1},
    {TN_OP_IMOD, TN_I32, -7, 0, 0},
    {TN_OP_IMOD, TN_I64, INT64_MIN, -1, 0},
    {TN_OP_IMOD, TN_U32, 7, 4, 3},
    {TN_OP_MAX, TN_I8, -3, 2, 2},
    {TN_OP_MIN, TN_U8, 200, 3, 3},
    {TN_OP_AND, TN_I32, 12, 10, 8},
    {TN_OP_XOR, TN_U16, 12, 10, 6},
    {TN_OP_SHL, TN_I32, 1, 31, INT32_MIN},
    {TN_OP_SHL, TN_I32, 1, 32, 0},
    {TN_OP_SHL, TN_I32, 1, -1, 0},
    {TN_OP_SHL, TN_U8, 255, 4, 240},
    {TN_OP_SHR, TN_I32, -8, 1, -4},
    {TN_OP_SHR, TN_I32, -8, 40, -1},
    {TN_OP_SHR, TN_I32, 8, 40, 0},
    {TN_OP_SHR, TN_U32, UINT32_MAX, 4, UINT32_MAX >> 4},
    {TN_OP_ADD, TN_BOOL, 1, 1, 1},
    {TN_OP_MUL, TN_BOOL, 1, 0, 0},
    {TN_OP_LT, TN_I32, -1, 0, 1},
    {TN_OP_LT, TN_U8, 255, 0, 0},
    {TN_OP_NE, TN_I64, 1, 2, 1},
};

START_TEST(integer_constants_fold_by_the_rules)
{
    tn__node *a = tn__const_i(ints[_i].dt, ints[_i].a, NULL, 0),
             *b = tn__const_i(ints[_i].dt, ints[_i].b, NULL, 0);
    tn__node *r = tn__binary(ints[_i].op, a, b);
    ck_assert(tn__node_is(r, TN_OP_CONST));
    ck_assert_int_eq(tn__scalar_to_int((tn_dtype)r->dt, r->scalar), ints[_i].want);
}
END_TEST

static const struct {
    tn__op op;
    tn_dtype dt;
    double a, b, want;
} floats[] = {
    {TN_OP_ADD, TN_F32, 16777216, 1, 16777216},
    {TN_OP_ADD, TN_F16, 2048, 1, 2048},
    {TN_OP_ADD, TN_F64, 16777216, 1, 16777217},
    {TN_OP_MUL, TN_F16, 300, 300, INFINITY},
    {TN_OP_DIV, TN_F32, 1, 3, 0x1.555556p-2},
    {TN_OP_DIV, TN_F32, 1, 0, INFINITY},
    {TN_OP_DIV, TN_F32, 0, 0, NAN},
    {TN_OP_SUB, TN_F32, INFINITY, INFINITY, NAN},
    {TN_OP_MAX, TN_F32, NAN, 1, NAN},
    {TN_OP_MAX, TN_F32, 1, NAN, NAN},
    {TN_OP_MIN, TN_F32, NAN, 1, NAN},
    {TN_OP_MIN, TN_F32, 2, 1, 1},
    {TN_OP_POW, TN_F64, -8, 3, -512},
    {TN_OP_POW, TN_F64, -8, 0.5, NAN},
    {TN_OP_POW, TN_F64, NAN, 0, 1},
    {TN_OP_LT, TN_F32, NAN, 1, 0},
    {TN_OP_EQ, TN_F32, NAN, NAN, 0},
    {TN_OP_NE, TN_F32, NAN, NAN, 1},
    {TN_OP_EQ, TN_F32, 0.0, -0.0, 1},
};

START_TEST(float_constants_fold_by_the_rules)
{
    tn__node *a = tn__const_f(floats[_i].dt, floats[_i].a, NULL, 0),
             *b = tn__const_f(floats[_i].dt, floats[_i].b, NULL, 0);
    tn__node *r = tn__binary(floats[_i].op, a, b);
    ck_assert(tn__node_is(r, TN_OP_CONST));
    double got = tn__scalar_to_double((tn_dtype)r->dt, r->scalar), want = floats[_i].want;
    ck_assert_msg(got == want || (isnan(got) && isnan(want)), "%a, not %a", got, want);
}
END_TEST

START_TEST(sums_of_constants_fold_where_every_order_is_exact)
{
    tn__node *ones = tn__const_f(TN_F32, 1, D(1000, 1000), 2), *r = tn__reduce(TN_OP_ADD, ones, 3);
    ck_assert(tn__node_is(r, TN_OP_CONST) && r->scalar.f == 1e6);
    ck_assert(
        tn__node_is(tn__reduce(TN_OP_ADD, tn__const_f(TN_F32, 0.1, D(10), 1), 1), TN_OP_REDUCE));
    ck_assert(
        tn__node_is(tn__reduce(TN_OP_ADD, tn__const_f(TN_F32, 1, D(1 << 25), 1), 1), TN_OP_REDUCE));
    r = tn__reduce(TN_OP_ADD, tn__const_i(TN_I32, 3, D(1 << 30), 1), 1);
    ck_assert(tn__node_is(r, TN_OP_CONST) && r->scalar.i == -1073741824);
    ck_assert(tn__node_is(tn__reduce(TN_OP_ADD, tn__const_f(TN_F32, 1, D(0), 1), 1), TN_OP_REDUCE));
    ck_assert(tn__node_is(tn__reduce(TN_OP_MUL, tn__const_f(TN_F32, 2, D(3), 1), 1), TN_OP_REDUCE));
}
END_TEST

/* ---- life ---- */

START_TEST(a_chain_of_a_million_nodes_is_walked_and_freed_without_recursion)
{
    enum { LONG = 1000000 };
    tn__build b;
    tn__build_begin(&b);
    tn__node *x = f23();
    for (int i = 0; i < LONG; i++) x = tn__unary(TN_OP_SIN, x);
    x = tn__build_end(&b, x);
    ck_assert_uint_eq(tn__node_live(), LONG + 2);
    tn__arena a = {0};
    tn__node **order;
    size_t n;
    ck_assert(tn__walk(&a, &x, 1, false, &order, &n));
    ck_assert_uint_eq(n, LONG + 2);
    ck_assert(tn__node_is(order[0], TN_OP_CONST) && order[n - 1] == x);
    tn__arena_free(&a);
    uint64_t before = tn__alloc_count();
    tn__node_unref(x);
    ck_assert_uint_eq(tn__alloc_count(), before);
    ck_assert_uint_eq(tn__node_live(), 0);
}
END_TEST

START_TEST(a_walk_gives_sources_first_and_each_node_once)
{
    tn__node *a = f23(), *b = f23(), *s = tn__binary(TN_OP_ADD, a, b),
             *p = tn__binary(TN_OP_MUL, s, s);
    tn__node *roots[] = {s, tn__binary(TN_OP_SUB, p, a), s}, **order;
    tn__arena ar = {0};
    size_t n;
    ck_assert(tn__walk(&ar, roots, 3, false, &order, &n));
    tn__node *want[] = {a->src[0], a, b->src[0], b, s, p, roots[1]};
    ck_assert_uint_eq(n, TN_LEN(want));
    for (size_t i = 0; i < n; i++) ck_assert_ptr_eq(order[i], want[i]);
    tn__arena_free(&ar);
}
END_TEST

static void *walker(void *root)
{
    tn__node *r = root, **order;
    size_t n = 0;
    for (int i = 0; i < 200; i++) {
        tn__arena a = {0};
        if (!tn__walk(&a, &r, 1, false, &order, &n) || n != 1002) return NULL;
        tn__arena_free(&a);
    }
    return root;
}

START_TEST(threads_walk_shared_nodes_at_the_same_time)
{
    tn__node *x = f23();
    for (int i = 0; i < 1000; i++) x = tn__unary(TN_OP_EXP2, x);
    pthread_t t[4];
    void *ok;
    for (int i = 0; i < 4; i++) ck_assert_int_eq(pthread_create(&t[i], NULL, walker, x), 0);
    for (int i = 0; i < 4; i++) {
        pthread_join(t[i], &ok);
        ck_assert_ptr_nonnull(ok);
    }
}
END_TEST

START_TEST(builds_nest_and_give_their_results_out)
{
    tn__build outer, inner;
    tn__build_begin(&outer);
    tn__node *x = f23();
    tn__build_begin(&inner);
    tn__unary(TN_OP_SQRT, x);
    tn__node *y = tn__build_end(&inner, tn__unary(TN_OP_SIN, x));
    ck_assert_uint_eq(tn__node_live(), 3);
    ck_assert_ptr_null(tn__build_end(&outer, NULL));
    ck_assert_uint_eq(tn__node_live(), 3); /* y keeps its sources */
    ck_assert_uint_eq(y->refs, 1);
    tn__node_unref(y);
    ck_assert_uint_eq(tn__node_live(), 0);
}
END_TEST

START_TEST(a_node_remembers_the_call_that_made_it)
{
    tn_at("here.c", 9);
    tn__node *x = f23();
    ck_assert_str_eq(x->loc.file, "here.c");
    ck_assert_int_eq(x->loc.line, 9);
}
END_TEST

/* ---- the naive evaluator, by numbers from numpy and from the Random123 distribution ---- */

static void expect(tn__node *n, const double *want, size_t count)
{
    double got[64];
    ck_assert_ptr_nonnull(n);
    ck_assert_uint_eq((size_t)tn__node_numel(n), count);
    ck_assert(naive_eval(n, got));
    for (size_t i = 0; i < count; i++)
        ck_assert_msg(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "[%zu] %g, not %g", i,
                      got[i], want[i]);
}
#define is(n, ...) \
    expect(n, (const double[]){__VA_ARGS__}, sizeof((double[]){__VA_ARGS__}) / sizeof(double))

START_TEST(random_words_are_threefry)
{
    /* threefry2x32 of 20 rounds with key 0 and counter 0: 6b200159 99ba4efe (kat_vectors) */
    tn__rng_set((tn__rng){0, 0});
    is(tn__random_bits(D(1), 1), 0x6b200159);
    tn__rng_set(
        (tn__rng){UINT64_MAX, UINT64_MAX}); /* key and counter all ones: 1cb996fc bb002be7 */
    is(tn__random_bits(D(1), 1), 0x1cb996fc);
    tn__rng_set((tn__rng){UINT64_C(0x03707344) << 32 | 0x13198a2e,
                          UINT64_C(0x85a308d3) << 32 | 0x243f6a88});
    is(tn__random_bits(D(1), 1), 0xc4923a9c); /* c4923a9c 483df7a0 */
    tn__rng_seed(1);
    tn__random_bits(D(5, 2), 2);
    ck_assert_uint_eq(tn__rng_get().counter, 10);
}
END_TEST

START_TEST(the_evaluator_moves_elements_as_numpy_does)
{
    tn__node *x = tn__reshape(tn__iota(TN_I32, 0, D(6), 1), D(2, 3), 2);
    is(tn__permute(x, A(1, 0)), 0, 3, 1, 4, 2, 5);
    is(tn__flip(x, 2), 2, 1, 0, 5, 4, 3);
    is(tn__pad(x, D(0, 1), D(1, 0)), 0, 0, 1, 2, 0, 3, 4, 5, 0, 0, 0, 0);
    is(tn__shrink(x, D(1, 1), D(1, 2)), 4, 5);
    is(tn__expand(tn__shrink(x, D(0, 0), D(1, 3)), D(2, 3), 2), 0, 1, 2, 0, 1, 2);
    is(tn__window(tn__iota(TN_I32, 0, D(6), 1), 0, 2, 2, 1), 0, 1, 2, 3, 4, 5);
    is(tn__window(tn__iota(TN_I32, 0, D(6), 1), 0, 3, 1, 2), 0, 2, 4, 1, 3, 5);
    is(tn__fold(tn__window(tn__iota(TN_I32, 0, D(4), 1), 0, 3, 1, 1), 0, 4, 3, 1, 1), 0, 2, 4, 3);
    is(tn__reduce(TN_OP_ADD, x, 1), 3, 5, 7);
    is(tn__reduce(TN_OP_MUL, x, 2), 0, 60);
    is(tn__reduce(TN_OP_MAX, any(TN_I8, D(0), 1), 1), -128);
    is(tn__reduce(TN_OP_ADD, any(TN_F32, D(2, 0), 2), 2), 0, 0);
    is(tn__scan(TN_OP_ADD, x, 1), 0, 1, 3, 3, 7, 12);
    is(tn__scan(TN_OP_MAX, tn__flip(x, 3), 0), 5, 4, 3, 5, 4, 3);
}
END_TEST

START_TEST(the_evaluator_indexes_and_sorts_as_numpy_does)
{
    tn__node *x = tn__reshape(tn__iota(TN_F64, 0, D(6), 1), D(1, 3, 2), 3);
    tn__node *idx = tn__binary(TN_OP_SUB, tn__const_i(TN_I32, 3, D(1, 4), 2),
                               tn__iota(TN_I32, 1, D(1, 4), 2));
    is(tn__gather(x, idx), 0, 0, 4, 5, 2, 3, 0, 1); /* 3 is out of range */
    tn__node *src = tn__const_f(TN_F64, 10, D(1, 4, 2), 3);
    is(tn__scatter(TN_OP_ADD, x, idx, src), 10, 11, 12, 13, 14, 15);
    is(tn__scatter(TN_OP_CONST, x, tn__const_i(TN_I32, -1, D(1, 4), 2), src), 0, 1, 2, 3, 4, 5);
    is(tn__scatter(TN_OP_CONST, x, tn__const_i(TN_I32, 1, D(1, 2), 2),
                   tn__reshape(tn__iota(TN_F64, 0, D(4), 1), D(1, 2, 2), 3)),
       0, 1, 2, 3, 4, 5);
    tn__node *v = tn__binary(TN_OP_IMOD, tn__iota(TN_I32, 0, D(6), 1),
                             tn__const_i(TN_I32, 3, D(6), 1));
    is(tn__argsort(v, false), 0, 3, 1, 4, 2, 5);
    is(tn__argsort(v, true), 2, 5, 1, 4, 0, 3);
    tn__node *f = tn__cast(tn__iota(TN_I32, 0, D(3), 1), TN_F32); /* 0/0, 1/1, 2/4 */
    tn__node *q = tn__binary(TN_OP_DIV, f, tn__binary(TN_OP_MUL, f, f));
    is(tn__argsort(q, false), 2, 1, 0);
    is(tn__argsort(q, true), 0, 1, 2);
    is(tn__update(x, tn__const_f(TN_F64, 9, D(2, 1), 2),
                  tn__reshape(tn__shrink(x, D(0, 1, 1), D(1, 2, 1)), D(2, 1), 2)),
       0, 1, 2, 9, 4, 9);
}
END_TEST

Suite *suite_node(void)
{
    Suite *s = suite_create("node");
    TCase *t = tcase_create("nodes");
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 60);
    tcase_add_test(t, elementwise_ops_refuse_what_does_not_fit);
    tcase_add_test(t, leaves_refuse_bad_shapes);
    tcase_add_test(t, movement_refuses_what_does_not_fit);
    tcase_add_test(t, reductions_and_index_ops_refuse_what_does_not_fit);
    tcase_add_test(t, null_sources_flow_through_without_an_error);
    tcase_add_test(t, movement_that_changes_nothing_gives_its_source);
    tcase_add_test(t, movements_of_one_kind_merge);
    tcase_add_test(t, what_somebody_holds_is_not_merged_away);
    tcase_add_test(t, constants_stay_constants_under_movement);
    tcase_add_test(t, neutral_constants_vanish_only_where_that_is_exact);
    tcase_add_loop_test(t, integer_constants_fold_by_the_rules, 0, TN_LEN(ints));
    tcase_add_loop_test(t, float_constants_fold_by_the_rules, 0, TN_LEN(floats));
    tcase_add_test(t, sums_of_constants_fold_where_every_order_is_exact);
    tcase_add_test(t, a_walk_gives_sources_first_and_each_node_once);
    tcase_add_test(t, threads_walk_shared_nodes_at_the_same_time);
    tcase_add_test(t, a_node_remembers_the_call_that_made_it);
    tcase_add_test(t, random_words_are_threefry);
    tcase_add_test(t, the_evaluator_moves_elements_as_numpy_does);
    tcase_add_test(t, the_evaluator_indexes_and_sorts_as_numpy_does);
    TCase *l = tcase_create("life");
    tcase_set_timeout(l, 60);
    tcase_add_test(l, a_chain_of_a_million_nodes_is_walked_and_freed_without_recursion);
    tcase_add_test(l, builds_nest_and_give_their_results_out);
    suite_add_tcase(s, t);
    suite_add_tcase(s, l);
    return s;
}
