/* SPDX-License-Identifier: MIT */
/*
 * The gradient of every method on a device, in float64, against central differences.
 *
 * The points are the operands of the rows of golden values, so that all forms of a method are among them.  At
 * each one the sum of its results with fixed weights, plus a quadratic term, is differentiated along fixed
 * directions.  A second derivative is the same once more, of a gradient along a direction.  What a method
 * has to do with gradients follows from its rows; gradients that are something else are in `special`.
 */
#include "golden_rows.h"
#include "../test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>

enum { ROWS = 5, DIRECTIONS = 2, MAX_IN = 16, PER_ROW = 3 * DIRECTIONS + 3 };

/* Steps and tolerances of methods that round, or are steep; where the step is 0 there is no gradient, which
 * test_gradient.c shows. */
static const struct {
    const char *name;
    double step, tol;
} special[] = {
    {"tn_bitcast", 0, 0},    {"tn_cast", 0.25, 0.1},     {"tn_float", 0.25, 1e-5},
    {"tn_half", 0.25, 2e-2}, {"tn_bfloat16", 0.25, 0.1}, {"tn_acos", 1e-6, 1e-5},
    {"tn_asin", 1e-6, 1e-5},
};

typedef struct {
    char text[120];
    double step, tol;
    tn_tensor *at[3]; /* the derivative, the value a step on, a step back */
} check;

typedef struct {
    int rows; /* at most, of a method */
    int methods, first, second, flat, made, wrong;
    char text[600];
} tally;

/* ---- points ---- */

/* Numbers of -1 to 1, none near 0, the same in each run. */
static double noise(unsigned seed, int64_t i)
{
    uint32_t v = (uint32_t)i * 2654435761u + seed * 40503u + 12345u;
    v ^= v >> 15;
    v *= 2246822519u;
    v ^= v >> 13;
    const double u = (double)(v >> 8) / (1 << 24);
    return v & 1 ? 0.25 + 0.75 * u : -0.25 - 0.75 * u;
}

static tn_tensor *from(const double *v, const golden *g)
{
    tn_data_opts o = {.size = sizeof o, .dtype = TN_F64};
    return tn_from_data(v, &(tn_shape){(size_t)g->rank, g->dims}, &o);
}

/* noise + add * element, as a tensor of g's shape. */
static tn_tensor *noisy(const golden *g, unsigned seed, double step, bool add)
{
    double *v = calloc((size_t)g->n + 1, sizeof *v);
    for (int64_t i = 0; i < g->n; i++)
        v[i] = step * noise(seed, i) + (add ? golden_element(g, g->data, i).f : 0);
    tn_tensor *t = from(v, g);
    free(v);
    return t;
}

static bool is_float(const golden *g) { return tn__dtype_is_float(g->dt); }

/* The row's operands in float64, a step along direction d from where they are. */
static void point(const row *w, double step, unsigned d, tn_tensor **x)
{
    for (int i = 0; i < w->r.nin; i++) {
        const golden *g = &w->in[i];
        tn_data_opts o = {.size = sizeof o, .dtype = g->dt};
        x[i] = is_float(g) ? noisy(g, 10 * d + (unsigned)i, step, true)
                           : tn_from_data(g->data, &(tn_shape){(size_t)g->rank, g->dims}, &o);
    }
}

/* Finite operands and results, the first operand without zeros, where there may be kinks. */
static bool usable(const row *w)
{
    bool any = false, result = false;
    for (int i = 0; i < w->r.nin; i++) {
        const golden *g = &w->in[i];
        if (!is_float(g)) continue;
        if (g->dt == TN_F16 || g->dt == TN_BF16 || !g->n) return false;
        any = true;
        for (int64_t k = 0; k < g->n; k++) {
            const double v = golden_element(g, g->data, k).f;
            if (!isfinite(v) || fabs(v) > 1e3 || (v == 0 && i == 0)) return false;
        }
    }
    for (int i = 0; i < w->r.nout; i++) {
        const golden *g = &w->out[i];
        if (!is_float(g)) continue;
        result = result || g->n;
        for (int64_t k = 0; k < g->n; k++)
            if (!isfinite(golden_element(g, g->data, k).f)) return false;
    }
    return any && result;
}

/* ---- values and derivatives ---- */

static tn_tensor *weighted(tn_tensor *y, tn_tensor *weights)
{
    return tn_sum(tn_mul(tn_double(y), weights), tn_axes_all(), NULL);
}

static tn_tensor *value(row *w, tn_tensor *const *x)
{
    tn_tensor *s = tn_const(0);
    for (int i = 0; i < w->r.nin; i++) {
        w->r.in[i] = is_float(&w->in[i]) ? tn_clone(x[i]) : x[i]; /* some methods write to it */
        if (!is_float(&w->in[i])) continue;
        s = tn_add(s, weighted(tn_mul(x[i], x[i]), noisy(&w->in[i], 77, 1, false)));
    }
    const int n = method_call(w->name, &w->r, w->got);
    for (int i = 0; i < n; i++)
        if (is_float(&w->out[i]))
            s = tn_add(s, weighted(w->got[i], noisy(&w->out[i], 55 + (unsigned)i, 1, false)));
    return s;
}

/* The derivative of y along direction d; NULL where there is none, with an error. */
static tn_tensor *along(const row *w, tn_tensor *y, tn_tensor *const *x, unsigned d)
{
    tn_tensor *in[MAX_IN], *g[MAX_IN], *s = tn_const(0);
    size_t n = 0;
    for (int i = 0; i < w->r.nin; i++)
        if (is_float(&w->in[i])) in[n++] = x[i];
    if (!tn_gradient(y, &(tn_inputs){n, in}, NULL, g)) return NULL;
    n = 0;
    for (int i = 0; i < w->r.nin; i++)
        if (is_float(&w->in[i]))
            s = tn_add(s, weighted(g[n++], noisy(&w->in[i], 10 * d + (unsigned)i, 1, false)));
    return s;
}

static tn_tensor *slope(row *w, double step, unsigned d)
{
    tn_tensor *x[MAX_IN];
    point(w, step, d, x);
    return along(w, value(w, x), x, 9);
}

/* ---- one method ---- */

static void settings(const char *name, double *step, double *tol)
{
    *step = 1e-5;
    *tol = 1e-6;
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (!strcmp(special[i].name, name)) *step = special[i].step, *tol = special[i].tol;
}

static void wrong(tally *t, const char *text)
{
    if (!t->wrong++) snprintf(t->text, sizeof t->text, "%s", text);
    if (getenv("TENON_TEST_ALL")) fprintf(stderr, "%s\n", text);
}

/* Adds the row's checks; false, with an error, where the gradient has no rule. */
static bool add_checks(row *w, int nth, bool twice, check *c, int *n)
{
    double step, tol;
    settings(w->name, &step, &tol);
    for (unsigned d = 0; d < DIRECTIONS + (twice ? 1u : 0u); d++) {
        check k = {.step = step, .tol = tol};
        const bool second = d == DIRECTIONS;
        tn_tensor *x[MAX_IN];
        snprintf(k.text, sizeof k.text, "%.60s row %d%s", w->name, nth,
                 second ? ", second order" : "");
        point(w, 0, 0, x);
        tn_tensor *y = value(w, x);
        if (second) y = along(w, y, x, 9);
        k.at[0] = y ? along(w, y, x, d) : NULL;
        if (!k.at[0]) return false;
        for (int side = 1; side < 3; side++) {
            const double s = side == 1 ? step : -step;
            point(w, s, d, x);
            k.at[side] = second ? slope(w, s, d) : value(w, x);
        }
        c[(*n)++] = k;
    }
    return true;
}

static void compare(check *c, tally *t)
{
    char text[300];
    double v[3];
    for (int i = 0; i < 3; i++) v[i] = tn_item(c->at[i]);
    const double want = (v[1] - v[2]) / (2 * c->step);
    const double noise_of = 1e-15 * (fabs(v[1]) + fabs(v[2])) / c->step;
    if (fabs(v[0] - want) <= c->tol * (1 + fabs(want)) + noise_of) return;
    snprintf(text, sizeof text, "%.119s: the derivative is %.10g, differences say %.10g", c->text,
             v[0], want);
    wrong(t, text);
}

static void run(row *rows, int n, tally *t)
{
    static check c[ROWS * PER_ROW];
    tn_tensor *all[3 * ROWS * PER_ROW];
    int checks = 0, before = t->wrong;
    tn_scope s;
    tn_scope_open(&s);
    for (int i = 0; i < n && t->wrong == before; i++) {
        if (add_checks(&rows[i], i + 1, i == 0, c, &checks)) continue;
        wrong(t, tn_last_error()->msg);
        tn_clear_error();
    }
    for (int i = 0; i < checks; i++)
        for (int k = 0; k < 3; k++) all[3 * i + k] = c[i].at[k];
    if (checks) tn_realize_all(&(tn_inputs){(size_t)checks * 3, all});
    for (int i = 0; i < checks; i++) compare(&c[i], t);
    if (!tn_ok()) wrong(t, tn_last_error()->msg);
    tn_clear_error();
    tn_scope_end(&s);
    t->methods++;
    t->second++;
    t->first += checks - 1;
}

/* ---- tests ---- */

typedef bool chosen(const char *name);

static void each_method(chosen *f, tally *t)
{
    static row rows[ROWS];
    const char *only = getenv("TENON_TEST_METHOD");
    char name[64] = "";
    golden_load();
    for (const unsigned char *p = golden_file; p < golden_end;) {
        int n = 0;
        bool operands = false, floats = false;
        row w;
        for (const unsigned char *at = p; at < golden_end; p = at) {
            at = golden_row_at(at, &w);
            if (*name && strcmp(w.name, name)) break;
            strcpy(name, w.name);
            operands = operands || w.r.nin;
            for (int i = 0; i < w.r.nout; i++) floats = floats || is_float(&w.out[i]);
            if (n == t->rows || !usable(&w)) continue;
            rows[n] = w;
            rows[n].r.text = rows[n].text;
            rows[n].r.p = rows[n].p;
            n++;
        }
        if ((!only || !strcmp(only, name)) && f(name)) {
            t->made += !operands;
            t->flat += operands && !floats;
            double step, tol;
            settings(name, &step, &tol);
            t->flat += step == 0;
            if (operands && floats && step > 0 && !n) wrong(t, name);
            if (n && step > 0) run(rows, n, t);
        }
        *name = 0;
    }
    golden_unload();
    ck_assert_msg(!t->wrong, "%d are wrong, first %s", t->wrong, t->text);
}

static bool all_of_them(const char *name) { return name != NULL; }

START_TEST(the_gradient_of_every_method_agrees_with_differences)
{
    tally t = {.rows = ROWS};
    tn_with_device d = tn_with_device_begin("INTERP");
    each_method(all_of_them, &t);
    tn_with_device_end(&d);
    printf(
        "gradients: %d methods, %d derivatives, %d second ones; %d methods have no float result or "
        "are about bits, %d have no operands\n",
        t.methods, t.first, t.second, t.flat, t.made);
    if (getenv("TENON_TEST_METHOD")) return;
    ck_assert_int_gt(t.second, 100);
}
END_TEST

static bool sample(const char *name)
{
    static const char *const names[] = {
        "tn_matmul", "tn_softmax", "tn_conv2d", "tn_max_pool2d", "tn_cross_entropy",
        "tn_gather", "tn_prod",    "tn_cumsum", "tn_scatter",    "tn_layernorm"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], name)) return true;
    return false;
}

START_TEST(a_sample_agrees_on_the_default_device)
{
    tally t = {.rows = 1};
    each_method(sample, &t);
    printf("gradients: %d methods on the default device\n", t.methods);
}
END_TEST

Suite *suite_gradient_methods(void)
{
    Suite *s = suite_create("gradient_methods");
    TCase *t = tcase_create("methods");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, the_gradient_of_every_method_agrees_with_differences);
    tcase_add_test(t, a_sample_agrees_on_the_default_device);
    suite_add_tcase(s, t);
    return s;
}
