/* SPDX-License-Identifier: MIT */
/*
 * Gradient rules against central differences of the naive evaluator, in float64, first and second
 * order: each row of the table is one function of x and w, both (2, 3, 4), seen through a fixed
 * random weighting.
 */
#include "support/naive.h"
#include "test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 24, X = 1, W = 2, C = 3, D = 4, MAXOUT = 256 };
static const int64_t shape[] = {2, 3, 4};

typedef tn__node *fn(tn__node *x, tn__node *w);
typedef enum { POSITIVE, SIGNED, ZEROS } values; /* of x and w; ZEROS: signed, some are 0 */

#define BIN(op) tn__binary(TN_OP_##op, x, w)
#define UN(op)  tn__unary(TN_OP_##op, x)
#define ONE(name, expr)                             \
    static tn__node *name(tn__node *x, tn__node *w) \
    {                                               \
        (void)x, (void)w;                           \
        return expr;                                \
    }

static tn__node *mul(tn__node *a, tn__node *b) { return tn__binary(TN_OP_MUL, a, b); }
static tn__node *add(tn__node *a, tn__node *b) { return tn__binary(TN_OP_ADD, a, b); }

ONE(f_neg, UN(NEG))
ONE(f_recip, UN(RECIP))
ONE(f_sqrt, UN(SQRT))
ONE(f_exp2, UN(EXP2))
ONE(f_log2, UN(LOG2))
ONE(f_sin, UN(SIN))
ONE(f_sin_large, tn__unary(TN_OP_SIN, add(x, tn__const_like(x, 1e6))))
ONE(f_trunc, mul(UN(TRUNC), x))
ONE(f_floor, mul(UN(FLOOR), x))
ONE(f_add, BIN(ADD))
ONE(f_sub, BIN(SUB))
ONE(f_mul, BIN(MUL))
ONE(f_square, mul(x, x))
ONE(f_div, BIN(DIV))
ONE(f_pow, BIN(POW))
ONE(f_pow3, tn__binary(TN_OP_POW, x, tn__const_like(x, 3)))
ONE(f_pow_base, tn__binary(TN_OP_POW, tn__const_like(x, 2.5), w))
ONE(f_max, BIN(MAX))
ONE(f_min, BIN(MIN))
ONE(f_where, tn__where(tn__binary(TN_OP_LT, x, w), mul(x, x), mul(w, x)))
ONE(f_sum, mul(tn__expand(tn__reduce(TN_OP_ADD, mul(x, w), 3), shape, 3), x))
ONE(f_sum_all, tn__reduce(TN_OP_ADD, mul(x, mul(x, w)), 7))
ONE(f_prod, tn__reduce(TN_OP_MUL, add(x, w), 2))
ONE(f_prod_two, tn__reduce(TN_OP_MUL, x, 5))
ONE(f_prod_x, tn__reduce(TN_OP_MUL, x, 4))
ONE(f_amax, mul(tn__expand(tn__reduce(TN_OP_MAX, x, 4), shape, 3), w))
ONE(f_amin, mul(tn__expand(tn__reduce(TN_OP_MIN, x, 1), shape, 3), x))
ONE(f_softmax_like,
    tn__binary(TN_OP_DIV, UN(EXP2), tn__expand(tn__reduce(TN_OP_ADD, UN(EXP2), 4), shape, 3)))
ONE(f_detach, mul(tn__detach(x), x))
ONE(f_contiguous, tn__contiguous(mul(x, w)))

static tn__node *sq(tn__node *x) { return mul(x, x); }
ONE(f_reshape, mul(tn__reshape(sq(x), (int64_t[]){6, 4}, 2), tn__reshape(w, (int64_t[]){6, 4}, 2)))
ONE(f_expand,
    sq(tn__expand(tn__reshape(x, (int64_t[]){2, 1, 3, 4}, 4), (int64_t[]){2, 3, 3, 4}, 4)))
ONE(f_permute, mul(tn__permute(sq(x), (int[]){2, 0, 1}), tn__permute(w, (int[]){2, 0, 1})))
ONE(f_shrink, sq(tn__shrink(x, (int64_t[]){0, 1, 1}, (int64_t[]){2, 2, 2})))
ONE(f_pad, sq(tn__pad(x, (int64_t[]){1, 0, 2}, (int64_t[]){0, 1, 0})))
ONE(f_flip, mul(tn__flip(sq(x), 5), w))
ONE(f_window, sq(tn__window(x, 2, 2, 1, 1)))
ONE(f_window_strided, sq(tn__window(tn__reshape(x, (int64_t[]){1, 24}, 2), 1, 3, 4, 2)))
ONE(f_fold, sq(tn__fold(tn__window(mul(x, w), 2, 3, 1, 1), 2, 4, 3, 1, 1)))
ONE(f_fold_loose, sq(tn__fold(x, 1, 12, 4, 2, 1)))
ONE(f_scan_add, sq(tn__scan(TN_OP_ADD, mul(x, w), 1)))
ONE(f_scan_mul, tn__scan(TN_OP_MUL, mul(x, w), 2))
ONE(f_scan_mul_x, tn__scan(TN_OP_MUL, x, 1))
ONE(f_scan_max, mul(tn__scan(TN_OP_MAX, x, 2), x))
ONE(f_scan_min, mul(tn__scan(TN_OP_MIN, x, 1), w))

/* idx (2, n) of the rows 2, 0, 2, ... with one out of range */
static tn__node *idx(int64_t n, bool outside)
{
    const int64_t d[] = {2, n};
    tn__node *i = tn__iota(TN_I32, 1, d, 2), *b = tn__iota(TN_I32, 0, d, 2);
    if (n == 1) i = tn__const_i(TN_I32, outside ? 3 : 2, d, 2);
    i = add(mul(i, tn__const_i(TN_I32, 2, d, 2)), b);
    return outside ? i : tn__binary(TN_OP_IMOD, i, tn__const_i(TN_I32, 3, d, 2));
}
static tn__node *part(tn__node *w)
{
    return tn__shrink(w, (int64_t[]){0, 0, 0}, (int64_t[]){2, 2, 4});
}
static tn__node *twice(tn__node *w)
{
    return tn__reshape(
        tn__expand(tn__reshape(w, (int64_t[]){2, 1, 3, 4}, 4), (int64_t[]){2, 2, 3, 4}, 4),
        (int64_t[]){2, 6, 4}, 3);
}
ONE(f_gather, sq(tn__gather(x, idx(5, false))))
ONE(f_gather_one, sq(tn__gather(x, idx(1, false))))
ONE(f_gather_outside, sq(tn__gather(mul(x, w), idx(4, true))))
ONE(f_scatter_add, sq(tn__scatter(TN_OP_ADD, x, idx(2, false), part(w))))
ONE(f_scatter_add_twice, sq(tn__scatter(TN_OP_ADD, x, idx(6, false), twice(w))))
ONE(f_scatter_set, mul(tn__scatter(TN_OP_CONST, x, idx(2, false), part(w)), x))
ONE(f_scatter_set_twice, sq(tn__scatter(TN_OP_CONST, x, idx(6, false), sq(twice(w)))))
ONE(f_scatter_mul, tn__scatter(TN_OP_MUL, x, idx(6, false), twice(w)))
ONE(f_scatter_mul_square, sq(tn__scatter(TN_OP_MUL, x, idx(2, false), part(w))))
ONE(f_scatter_mul_x, tn__scatter(TN_OP_MUL, w, idx(3, false), x))
ONE(f_scatter_max, sq(tn__scatter(TN_OP_MAX, x, idx(6, false), mul(twice(w), twice(w)))))
ONE(f_scatter_min, mul(x, tn__scatter(TN_OP_MIN, x, idx(3, false), w)))
ONE(f_update, sq(tn__update(x, part(w), tn__shrink(x, (int64_t[]){0, 1, 0}, (int64_t[]){2, 2, 4}))))
ONE(f_update_flip, mul(w, tn__update(x, tn__flip(tn__permute(w, (int[]){2, 1, 0}), 1),
                                     tn__flip(tn__permute(x, (int[]){2, 1, 0}), 2))))
ONE(f_shared, mul(add(x, mul(x, w)), add(x, mul(x, w))))

static const struct {
    const char *name;
    fn *f;
    values v;
    double tol;
} rows[] = {
    {"neg", f_neg, SIGNED, 1e-7},
    {"recip", f_recip, POSITIVE, 1e-6},
    {"sqrt", f_sqrt, POSITIVE, 1e-6},
    {"exp2", f_exp2, SIGNED, 1e-6},
    {"log2", f_log2, POSITIVE, 1e-6},
    {"sin", f_sin, SIGNED, 1e-6},
    {"sin of large arguments", f_sin_large, SIGNED, 1e-4},
    {"trunc", f_trunc, SIGNED, 1e-6},
    {"floor", f_floor, SIGNED, 1e-6},
    {"add", f_add, SIGNED, 1e-7},
    {"sub", f_sub, SIGNED, 1e-7},
    {"mul", f_mul, SIGNED, 1e-6},
    {"square", f_square, SIGNED, 1e-6},
    {"div", f_div, POSITIVE, 1e-6},
    {"pow", f_pow, POSITIVE, 1e-6},
    {"pow with a constant exponent", f_pow3, SIGNED, 1e-6},
    {"pow with a constant base", f_pow_base, SIGNED, 1e-6},
    {"max", f_max, SIGNED, 1e-6},
    {"min", f_min, SIGNED, 1e-6},
    {"where", f_where, SIGNED, 1e-6},
    {"sum", f_sum, SIGNED, 1e-6},
    {"sum of all", f_sum_all, SIGNED, 1e-6},
    {"product", f_prod, SIGNED, 1e-6},
    {"product over two axes", f_prod_two, SIGNED, 1e-6},
    {"product with zeros", f_prod_x, ZEROS, 1e-6},
    {"amax", f_amax, SIGNED, 1e-6},
    {"amin", f_amin, SIGNED, 1e-6},
    {"a softmax of powers of two", f_softmax_like, SIGNED, 1e-6},
    {"contiguous", f_contiguous, SIGNED, 1e-6},
    {"reshape", f_reshape, SIGNED, 1e-6},
    {"expand", f_expand, SIGNED, 1e-6},
    {"permute", f_permute, SIGNED, 1e-6},
    {"shrink", f_shrink, SIGNED, 1e-6},
    {"pad", f_pad, SIGNED, 1e-6},
    {"flip", f_flip, SIGNED, 1e-6},
    {"window", f_window, SIGNED, 1e-6},
    {"window with stride and dilation", f_window_strided, SIGNED, 1e-6},
    {"fold", f_fold, SIGNED, 1e-6},
    {"fold onto a longer axis", f_fold_loose, SIGNED, 1e-6},
    {"running sum", f_scan_add, SIGNED, 1e-6},
    {"running product", f_scan_mul, SIGNED, 1e-6},
    {"running product with zeros", f_scan_mul_x, ZEROS, 1e-6},
    {"running max", f_scan_max, SIGNED, 1e-6},
    {"running min", f_scan_min, SIGNED, 1e-6},
    {"gather", f_gather, SIGNED, 1e-6},
    {"gather of one", f_gather_one, SIGNED, 1e-6},
    {"gather out of range", f_gather_outside, SIGNED, 1e-6},
    {"scatter add", f_scatter_add, SIGNED, 1e-6},
    {"scatter add, equal indices", f_scatter_add_twice, SIGNED, 1e-6},
    {"scatter", f_scatter_set, SIGNED, 1e-6},
    {"scatter, equal indices", f_scatter_set_twice, SIGNED, 1e-6},
    {"scatter mul, equal indices", f_scatter_mul, SIGNED, 1e-6},
    {"scatter mul", f_scatter_mul_square, SIGNED, 1e-6},
    {"scatter mul with zeros", f_scatter_mul_x, ZEROS, 1e-6},
    {"scatter max, equal indices", f_scatter_max, SIGNED, 1e-6},
    {"scatter min", f_scatter_min, SIGNED, 1e-6},
    {"update", f_update, SIGNED, 1e-6},
    {"update through a flipped window", f_update_flip, SIGNED, 1e-6},
    {"a shared subexpression", f_shared, SIGNED, 1e-6},
};

static double data_x[N], data_w[N], data_c[MAXOUT], data_d[MAXOUT];
static const naive_input bound[] = {{X, data_x}, {W, data_w}, {C, data_c}, {D, data_d}};

static double uniform(double lo, double hi) { return lo + (hi - lo) * (double)rand() / RAND_MAX; }

static void fill(values v)
{
    srand(7);
    for (int i = 0; i < N; i++) {
        double s = v == POSITIVE ? 1 : i * 7 % 5 < 2 ? -1 : 1;
        data_x[i] = s * uniform(0.6, 2.2);
        data_w[i] = (i % 3 ? s : -s) * uniform(0.6, 1.9);
        if (v == POSITIVE) data_w[i] = fabs(data_w[i]);
        if (v == ZEROS && (i % 4 == 1 || i % 8 == 2)) data_x[i] = 0;
    }
    for (int i = 0; i < MAXOUT; i++) {
        data_c[i] = uniform(-1, 1);
        data_d[i] = uniform(-1, 1);
    }
}

static tn__node *input(uint64_t id, const int64_t *dims, int rank)
{
    return tn__param_node(tn__const_f(TN_F64, 0, dims, rank), id);
}

/* sum(y * weights) */
static tn__node *weighted(tn__node *y, uint64_t id)
{
    ck_assert_ptr_nonnull(y);
    ck_assert_int_le(tn__node_numel(y), MAXOUT);
    tn__node *s = tn__reduce(TN_OP_ADD, mul(y, input(id, y->dims, y->rank)), (1u << y->rank) - 1);
    return tn__reshape(s, NULL, 0);
}

static double value(tn__node *scalar)
{
    double v = NAN;
    ck_assert(naive_eval_with(scalar, bound, 4, &v));
    return v;
}

/* Both gradients of the scalar against differences. */
static void compare(const char *name, tn__node *loss, tn__node *const *in, double tol)
{
    tn__node *g[2];
    double *data[] = {data_x, data_w}, got[N];
    ck_assert_msg(tn__gradient(loss, NULL, in, 2, g), "%s: %s", name, tn_last_error()->msg);
    for (int k = 0; k < 2; k++) {
        memset(got, 0, sizeof got);
        if (g[k]) ck_assert(naive_eval_with(g[k], bound, 4, got));
        for (int i = 0; i < N; i++) {
            double old = data[k][i], h = 1e-5;
            data[k][i] = old + h;
            double up = value(loss);
            data[k][i] = old - h;
            double down = value(loss);
            data[k][i] = old;
            double want = (up - down) / (2 * h), err = fabs(got[i] - want);
            ck_assert_msg(err <= tol * (1 + fabs(want)),
                          "%s: d/d%c[%d] is %.10g, differences say %.10g", name, k ? 'w' : 'x', i,
                          got[i], want);
        }
    }
}

START_TEST(first_derivatives_agree_with_differences)
{
    tn__build b;
    tn__build_begin(&b);
    fill(rows[_i].v);
    tn__node *in[] = {input(X, shape, 3), input(W, shape, 3)};
    compare(rows[_i].name, weighted(rows[_i].f(in[0], in[1]), C), in, rows[_i].tol);
    tn__build_end(&b, NULL);
    ck_assert_uint_eq(tn__node_live(), 0);
}
END_TEST

START_TEST(second_derivatives_agree_with_differences)
{
    tn__build b;
    tn__build_begin(&b);
    fill(rows[_i].v);
    tn__node *in[] = {input(X, shape, 3), input(W, shape, 3)}, *g[2];
    ck_assert(tn__gradient(weighted(rows[_i].f(in[0], in[1]), C), NULL, in, 2, g));
    for (int k = 0; k < 2; k++)
        if (g[k]) compare(rows[_i].name, weighted(g[k], D), in, rows[_i].tol);
    tn__build_end(&b, NULL);
    ck_assert_uint_eq(tn__node_live(), 0);
}
END_TEST

/* ---- what differences cannot show ---- */

typedef struct {
    tn__build b;
    tn__node *x, *w;
} small;

static void begin(small *s, tn_dtype dt, int64_t n)
{
    tn__build_begin(&s->b);
    s->x = tn__param_node(tn__const_f(dt, 0, &n, 1), X);
    s->w = tn__param_node(tn__const_f(dt, 0, &n, 1), W);
}

static void expect(tn__node *g, const double *want, int n)
{
    double got[N];
    ck_assert_ptr_nonnull(g);
    ck_assert(naive_eval_with(g, bound, 4, got));
    for (int i = 0; i < n; i++)
        ck_assert_msg(got[i] == want[i] || (isnan(got[i]) && isnan(want[i])), "[%d] %g, not %g", i,
                      got[i], want[i]);
}

static tn__node *total(tn__node *y)
{
    return tn__reshape(tn__reduce(TN_OP_ADD, y, (1u << y->rank) - 1), NULL, 0);
}

START_TEST(equals_share_the_gradient_of_max_and_amax)
{
    small s;
    tn__node *g[2];
    begin(&s, TN_F64, 4);
    memcpy(data_x, (double[]){1, 2, 5, 5}, 4 * sizeof *data_x);
    memcpy(data_w, (double[]){1, 3, 4, 5}, 4 * sizeof *data_w);
    ck_assert(
        tn__gradient(total(tn__binary(TN_OP_MAX, s.x, s.w)), NULL, (tn__node *[]){s.x, s.w}, 2, g));
    expect(g[0], (double[]){0.5, 0, 1, 0.5}, 4);
    expect(g[1], (double[]){0.5, 1, 0, 0.5}, 4);
    ck_assert(tn__gradient(total(tn__reduce(TN_OP_MAX, s.x, 1)), NULL, &s.x, 1, g));
    expect(g[0], (double[]){0, 0, 0.5, 0.5}, 4);
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(a_cast_carries_the_gradient_in_the_primals_dtype)
{
    small s;
    tn__node *g;
    begin(&s, TN_F16, 3);
    memcpy(data_x, (double[]){1, 2, 3}, 3 * sizeof *data_x);
    tn__node *y = tn__cast(s.x, TN_F32);
    ck_assert(tn__gradient(total(mul(y, y)), NULL, &s.x, 1, &g));
    ck_assert_int_eq(g->dt, TN_F16);
    expect(g, (double[]){2, 4, 6}, 3);
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(detach_stops_the_gradient)
{
    small s;
    tn__node *g;
    begin(&s, TN_F64, 3);
    memcpy(data_x, (double[]){1, 2, 3}, 3 * sizeof *data_x);
    ck_assert(tn__gradient(total(f_detach(s.x, s.w)), NULL, &s.x, 1, &g));
    expect(g, (double[]){1, 2, 3}, 3);
    ck_assert(tn__gradient(total(tn__detach(s.x)), NULL, &s.x, 1, &g));
    ck_assert_ptr_null(g);
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(pow_is_flat_where_pytorch_says_so)
{
    small s;
    tn__node *g[2];
    begin(&s, TN_F64, 4);
    memcpy(data_x, (double[]){0, 0, 2, -1}, 4 * sizeof *data_x);
    memcpy(data_w, (double[]){0, 2, 0, 2}, 4 * sizeof *data_w);
    ck_assert(
        tn__gradient(total(tn__binary(TN_OP_POW, s.x, s.w)), NULL, (tn__node *[]){s.x, s.w}, 2, g));
    expect(g[0], (double[]){0, 0, 0, -2}, 4);
    double got[4];
    ck_assert(naive_eval_with(g[1], bound, 4, got));
    ck_assert(got[0] == 0 && got[1] == 0 && fabs(got[2] - log(2)) < 1e-15 && isnan(got[3]));
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(a_parameter_is_found_by_its_id_in_every_place)
{
    small s;
    int64_t n = 2;
    begin(&s, TN_F64, n);
    memcpy(data_x, (double[]){3, 4}, 2 * sizeof *data_x);
    tn__node *again = tn__param_node(tn__const_f(TN_F64, 0, &n, 1), X), *g;
    ck_assert(tn__gradient(total(mul(s.x, again)), NULL, &s.x, 1, &g));
    expect(g, (double[]){6, 8}, 2);
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(a_node_in_the_middle_can_be_the_target)
{
    small s;
    tn__node *g[3];
    begin(&s, TN_F64, 3);
    memcpy(data_x, (double[]){1, 2, 3}, 3 * sizeof *data_x);
    tn__node *mid = mul(s.x, s.x);
    tn__node *t[] = {mid, s.x, mid};
    ck_assert(tn__gradient(total(mul(mid, mid)), NULL, t, 3, g));
    expect(g[0], (double[]){2, 8, 18}, 3);
    expect(g[1], (double[]){4, 32, 108}, 3);
    ck_assert_ptr_eq(g[0], g[2]);
    tn__build_end(&s.b, NULL);
}
END_TEST

static void fails(bool ok, const char *text)
{
    ck_assert(!ok);
    ck_assert_ptr_nonnull(tn_last_error());
    ck_assert_int_eq(tn_last_error()->code, TN_EGRAD);
    ck_assert_msg(strstr(tn_last_error()->msg, text), "%s", tn_last_error()->msg);
    tn_clear_error();
}

START_TEST(what_has_no_gradient_says_so)
{
    small s;
    tn__node *g;
    begin(&s, TN_F64, 3);
    fails(tn__gradient(s.x, NULL, &s.x, 1, &g), "the result has shape (3): it must be a scalar");
    fails(tn__gradient(total(s.x), s.w, &s.x, 1, &g), "the seed (3) has not the result's shape ()");
    tn__node *i = total(tn__cast(s.x, TN_I32));
    fails(tn__gradient(i, NULL, &s.x, 1, &g), "the result is int32: only floats have gradients");
    tn__node *k = tn__iota(TN_I32, 0, &s.x->dims[0], 1);
    fails(tn__gradient(total(s.x), NULL, &k, 1, &g), "int32 (3) is no float");
    tn_at("user.c", 42);
    tn__node *bits = tn__bitcast(tn__cast(s.x, TN_F16), TN_BF16);
    fails(tn__gradient(total(tn__cast(bits, TN_F64)), NULL, &s.x, 1, &g),
          "bitcast has no gradient (made by the library, user.c:42)");
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(a_result_that_does_not_depend_on_the_target_gives_null)
{
    small s;
    tn__node *g;
    begin(&s, TN_F64, 3);
    ck_assert(tn__gradient(total(s.w), NULL, &s.x, 1, &g));
    ck_assert_ptr_null(g);
    ck_assert(tn__gradient(total(tn__cast(tn__cast(s.x, TN_I32), TN_F64)), NULL, &s.x, 1, &g));
    ck_assert_ptr_null(g);
    tn__build_end(&s.b, NULL);
}
END_TEST

START_TEST(a_long_chain_is_differentiated_without_recursion)
{
    small s;
    tn__node *g;
    double got;
    begin(&s, TN_F64, 1);
    data_x[0] = 1;
    tn__node *y = s.x;
    for (int i = 0; i < 100000; i++) y = add(y, s.x);
    ck_assert(tn__gradient(total(y), NULL, &s.x, 1, &g));
    ck_assert(naive_eval_with(g, bound, 4, &got));
    ck_assert_double_eq(got, 100001);
    tn__build_end(&s.b, NULL);
    ck_assert_uint_eq(tn__node_live(), 0);
}
END_TEST

START_TEST(every_failing_allocation_is_a_clean_error)
{
    for (uint64_t n = 1;; n++) {
        small s;
        tn__node *g[2] = {NULL, NULL};
        begin(&s, TN_F64, 3);
        tn__node *y = total(tn__scan(TN_OP_MUL, mul(s.x, s.w), 0));
        tn__alloc_fail_at(n);
        bool ok = tn__gradient(y, NULL, (tn__node *[]){s.x, s.w}, 2, g);
        tn__alloc_fail_at(0);
        if (!ok) ck_assert_int_eq(tn_last_error()->code, TN_ENOMEM);
        tn_clear_error();
        tn__build_end(&s.b, NULL);
        ck_assert_uint_eq(tn__node_live(), 0);
        if (ok) break;
        ck_assert_uint_lt(n, 1000);
    }
}
END_TEST

Suite *suite_gradient(void)
{
    Suite *s = suite_create("gradient");
    TCase *t = tcase_create("rules");
    const int n = (int)(sizeof rows / sizeof *rows);
    tcase_set_timeout(t, 60);
    tcase_add_loop_test(t, first_derivatives_agree_with_differences, 0, n);
    tcase_add_loop_test(t, second_derivatives_agree_with_differences, 0, n);
    tcase_add_test(t, equals_share_the_gradient_of_max_and_amax);
    tcase_add_test(t, a_cast_carries_the_gradient_in_the_primals_dtype);
    tcase_add_test(t, detach_stops_the_gradient);
    tcase_add_test(t, pow_is_flat_where_pytorch_says_so);
    tcase_add_test(t, a_parameter_is_found_by_its_id_in_every_place);
    tcase_add_test(t, a_node_in_the_middle_can_be_the_target);
    tcase_add_test(t, what_has_no_gradient_says_so);
    tcase_add_test(t, a_result_that_does_not_depend_on_the_target_gives_null);
    tcase_add_test(t, a_long_chain_is_differentiated_without_recursion);
    tcase_add_test(t, every_failing_allocation_is_a_clean_error);
    suite_add_tcase(s, t);
    return s;
}
