/* SPDX-License-Identifier: MIT */
/*
 * Every method of tensor.h against golden values of PyTorch and numpy (tests/golden/methods.bin, made by
 * make_golden.py): each row through the public API, then by the naive evaluator and by the compiler.
 *
 * TENON_TEST_METHOD=tn_name runs one method and prints its rows that differ; TENON_TEST_EVAL=naive or
 * device leaves the other evaluator out.
 */
#include "golden_rows.h"
#include "../support/naive.h"
#include "../test.h"
#include "tensor/handle.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- comparing ---- */

/* Relative error of the dtype and the absolute one below which nothing counts, times the row's factor.
 * With the factor 0 also the sign of a zero counts. */
static void tolerance(tn_dtype dt, double *rel, double *abs)
{
    static const double table[TN_DTYPES][2] = {[TN_F16] = {1e-3, 1e-6},
                                               [TN_BF16] = {8e-3, 1e-6},
                                               [TN_F32] = {1e-6, 1e-7},
                                               [TN_F64] = {4e-15, 4e-16}};
    *rel = table[dt][0];
    *abs = table[dt][1];
}

static bool same(const golden *g, tn__scalar a, tn__scalar b, double factor)
{
    double rel, abs, x, y;
    if (!tn__dtype_is_float(g->dt)) return a.u == b.u;
    x = a.f, y = b.f;
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (x == y) return x != 0 || factor > 0 || !signbit(x) == !signbit(y);
    tolerance(g->dt, &rel, &abs);
    return fabs(x - y) <= factor * (rel * fabs(x) + abs);
}

/* NULL, or what differs. */
static const char *differs(const golden *want, const tn__scalar *got, double factor)
{
    static char text[200];
    for (int64_t i = 0; i < want->n; i++) {
        tn__scalar e = golden_element(want, want->data, i);
        if (same(want, e, got[i], factor)) continue;
        snprintf(text, sizeof text, "element %lld is %.17g, not %.17g", (long long)i,
                 tn__scalar_to_double(want->dt, got[i]), tn__scalar_to_double(want->dt, e));
        return text;
    }
    return NULL;
}

static const char *check_shape(const golden *want, tn_tensor *t)
{
    static char text[200];
    int64_t dims[TN_MAX_RANK];
    if (tn_bad(t)) return tn_last_error() ? tn_last_error()->msg : "poison without an error";
    int rank = tn_shape_of(t, dims);
    bool fits = rank == want->rank && tn_dtype_of(t) == want->dt;
    for (int i = 0; fits && i < rank; i++) fits = dims[i] == want->dims[i];
    if (fits) return NULL;
    snprintf(text, sizeof text, "%s of %s, not %s of %s", tn__shape_text(dims, rank),
             tn_dtype_name(tn_dtype_of(t)), tn__shape_text(want->dims, want->rank),
             tn_dtype_name(want->dt));
    return text;
}

/* By the naive evaluator. */
static const char *check_naive(const golden *want, tn_tensor *t, double factor)
{
    tn__scalar *got = calloc((size_t)want->n + 1, sizeof *got);
    tn__call c;
    tn__call_begin(&c, "test");
    tn__node *n = tn__in(t);
    bool ok = n && naive_eval_scalars(n, NULL, 0, got);
    tn__call_done(&c);
    const char *bad = ok                ? differs(want, got, factor)
                      : tn_last_error() ? tn_last_error()->msg
                                        : "not evaluated";
    free(got);
    return bad;
}

static const char *check_device(const golden *want, tn_tensor *t, double factor)
{
    size_t size = tn_dtype_size(want->dt), bytes = (size_t)want->n * size;
    unsigned char *data = malloc(bytes + 1);
    tn__scalar *got = calloc((size_t)want->n + 1, sizeof *got);
    bool ok = (tn_data)(t, data, bytes);
    for (int64_t i = 0; ok && i < want->n; i++) got[i] = golden_element(want, data, i);
    const char *bad = ok                ? differs(want, got, factor)
                      : tn_last_error() ? tn_last_error()->msg
                                        : "not computed";
    free(got);
    free(data);
    return bad;
}

static bool evaluator(const char *name)
{
    const char *only = getenv("TENON_TEST_EVAL");
    return !only || !strcmp(only, name);
}

/* Makes a row's tensors and calls its method; NULL, or what is wrong. */
static const char *build(row *w)
{
    const char *bad = NULL;
    tn_clear_error();
    golden_inputs(w);
    int n = method_call(w->name, &w->r, w->got);
    if (n != w->r.nout)
        return n                 ? "another number of results"
               : tn_last_error() ? tn_last_error()->msg
                                 : "not in the table";
    for (int i = 0; i < n && !bad; i++) bad = check_shape(&w->out[i], w->got[i]);
    for (int i = 0; i < n && !bad && evaluator("naive"); i++)
        bad = check_naive(&w->out[i], w->got[i], w->tol);
    return bad || tn_ok() ? bad : tn_last_error()->msg;
}

static const char *compute(row *w)
{
    const char *bad = NULL;
    tn_clear_error();
    for (int i = 0; i < w->r.nout && !bad; i++) bad = check_device(&w->out[i], w->got[i], w->tol);
    return bad;
}

typedef struct {
    int ran, wrong,
        left; /* left: the compiler cannot do it yet; the naive evaluator has checked it */
    char first[400];
} verdict;

static void count(verdict *v, const row *w, int nth, const char *bad)
{
    v->ran++;
    if (!bad) return;
    if (!v->wrong++) snprintf(v->first, sizeof v->first, "%s row %d: %.300s", w->name, nth, bad);
    if (!getenv("TENON_TEST_ALL") && !getenv("TENON_TEST_METHOD")) return;
    fprintf(stderr, "%s row %d %s%s: %s\n", w->name, nth, tn_dtype_name(w->r.nin ? w->in[0].dt : 0),
            tn__shape_text(w->in[0].dims, w->r.nin ? w->in[0].rank : 0), bad);
}

/* The rows of one method: all are built, realised in one plan (one compilation), then read. */
static void run_method(row *rows, int n, verdict *v)
{
    tn_scope s;
    tn_scope_open(&s);
    tn_tensor **all = calloc((size_t)n * 16, sizeof *all);
    bool *built = calloc((size_t)n, sizeof *built);
    size_t k = 0;
    for (int i = 0; i < n; i++) {
        const char *bad = build(&rows[i]);
        built[i] = !bad;
        if (bad || !evaluator("device")) count(v, &rows[i], i + 1, bad);
        for (int o = 0; o < rows[i].r.nout && built[i]; o++) all[k++] = rows[i].got[o];
    }
    tn_clear_error();
    if (evaluator("device") && k) {
        (tn_realize_all)(&(tn_inputs){k, all}); /* what fails fails again below, one by one */
        for (int i = 0; i < n; i++)
            if (built[i]) {
                const char *bad = compute(&rows[i]);
                const tn_error *e = tn_last_error();
                if (bad && e && e->code == TN_EUNSUPPORTED)
                    v->left++;
                else
                    count(v, &rows[i], i + 1, bad);
            }
    }
    free(built);
    free(all);
    tn_scope_end(&s);
    tn_clear_error();
}

/* ---- tests ---- */

enum { MAX_ROWS = 128 };

START_TEST(methods_give_golden_values)
{
    const char *only = getenv("TENON_TEST_METHOD");
    static row rows[MAX_ROWS + 1];
    verdict v = {0};
    int n = 0;
    golden_load();
    for (const unsigned char *p = golden_file; p < golden_end;) {
        p = golden_row_at(p, &rows[n]);
        if (n && (n == MAX_ROWS || strcmp(rows[n].name, rows[0].name))) {
            run_method(rows, n, &v);
            rows[0] = rows[n];
            rows[0].r.text = rows[0].text;
            rows[0].r.p = rows[0].p;
            n = 0;
        }
        if (!only || !strcmp(only, rows[n].name)) n++;
    }
    if (n) run_method(rows, n, &v);
    golden_unload();
    printf("methods: %d rows, %d more not computed by this device yet\n", v.ran, v.left);
    ck_assert_msg(!v.wrong, "%d of %d rows differ, first %s", v.wrong, v.ran, v.first);
}
END_TEST

Suite *suite_methods(void)
{
    Suite *s = suite_create("methods");
    TCase *t = tcase_create("golden");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, methods_give_golden_values);
    suite_add_tcase(s, t);
    return s;
}
