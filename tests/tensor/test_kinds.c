/* SPDX-License-Identifier: MIT */
/*
 * tests/ops.txt against the rows of golden values: every method of tensor.h is listed and has at least six
 * rows, and each kind of row is there or ops.txt says why it cannot be.  What kind a row is follows from
 * its operands alone: their shapes, dtypes and elements.  That a dtype without a row is no legal one
 * is asked of the library: the call must fail.
 */
#include "golden_rows.h"
#include "../test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANK0, SIZE0, LEFT, RIGHT, PRIME, DTYPES, ZEROS, NANS, INFS, LIMITS, KINDS };
static const char *const kinds[KINDS] = {"rank0",  "size0", "left", "right", "prime",
                                         "dtypes", "zeros", "nan",  "inf",   "limits"};

typedef struct {
    char name[64];
    int rows, count[KINDS], of_dtype[TN_DTYPES];
    bool low[TN_DTYPES], high[TN_DTYPES]; /* the dtype's limits came up */
    bool plus_zero, minus_zero, plus_inf, minus_inf, takes_float, takes_int;
    const unsigned char *sample; /* a row whose operands other dtypes are tried on */
} method;

/* ---- what a row shows ---- */

/* The operand that gives a method its dtype and the first of the pair that broadcasts. */
static int data_operand(const char *name) { return !strcmp(name, "tn_where"); }

/* Trailing axes that do not broadcast. */
static int core_axes(const char *name)
{
    static const char *const products[] = {"tn_matmul", "tn_dot", "tn_imatmul",
                                           "tn_scaled_dot_product_attention"};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++)
        if (!strcmp(name, products[i])) return 2;
    return 0;
}

static bool expands(const golden *x, const golden *y, int core)
{
    for (int i = core; i < y->rank; i++) {
        int64_t n = i < x->rank ? x->dims[x->rank - 1 - i] : 1;
        if (n == 1 && y->dims[y->rank - 1 - i] > 1) return true;
    }
    return false;
}

static bool odd_prime(int64_t n)
{
    for (int64_t i = 2; i * i <= n; i++)
        if (n % i == 0) return false;
    return n > 2;
}

/* At least one axis, and every one longer than 1 is an odd prime. */
static bool all_prime(const golden *g)
{
    bool any = false;
    for (int i = 0; i < g->rank; i++) {
        if (g->dims[i] != 1 && !odd_prime(g->dims[i])) return false;
        any |= g->dims[i] != 1;
    }
    return any;
}

static bool negative_zero(const golden *g, int64_t i)
{
    double v = golden_element(g, g->data, i).f;
    return v == 0 && signbit(v);
}

static void see_floats(method *m, const golden *g)
{
    for (int64_t i = 0; i < g->n; i++) {
        double v = golden_element(g, g->data, i).f;
        m->plus_zero |= v == 0 && !negative_zero(g, i);
        m->minus_zero |= negative_zero(g, i);
        m->count[NANS] += isnan(v);
        m->plus_inf |= isinf(v) && v > 0;
        m->minus_inf |= isinf(v) && v < 0;
    }
}

static void see_integers(method *m, const golden *g)
{
    for (int64_t i = 0; i < g->n; i++) {
        tn__scalar v = golden_element(g, g->data, i);
        bool is_unsigned = tn__dtype_is_unsigned(g->dt);
        m->low[g->dt] |= is_unsigned ? v.u == 0 : v.i == tn__dtype_int_min(g->dt);
        m->high[g->dt] |= v.u == tn__dtype_int_max(g->dt);
    }
}

static void see(method *m, const row *w, const unsigned char *at)
{
    bool made = !w->r.nin; /* no operands: the result's shape and the dtype asked for count */
    int d = made ? 0 : data_operand(w->name);
    const golden *x = made ? &w->out[0] : &w->in[d];
    bool fills = !strcmp(w->name, "tn_full");
    const golden *shape = fills ? &w->out[0] : x;
    m->rows++;
    m->count[RANK0] += shape->rank == 0;
    m->count[PRIME] += all_prime(shape);
    m->of_dtype[x->dt]++;
    m->takes_float |= tn__dtype_is_float(x->dt) && !made;
    m->takes_int |= tn__dtype_is_int(x->dt) && !made;
    bool empty = shape->n == 0;
    for (int i = 0; i < w->r.nin; i++) {
        empty |= w->in[i].n == 0;
        if (w->in[i].dt == x->dt && tn__dtype_is_float(x->dt)) see_floats(m, &w->in[i]);
        if (w->in[i].dt == x->dt && tn__dtype_is_int(x->dt)) see_integers(m, &w->in[i]);
    }
    m->count[SIZE0] += empty;
    if (w->r.nin > d + 1) {
        m->count[LEFT] += expands(x, &w->in[d + 1], core_axes(w->name));
        m->count[RIGHT] += expands(&w->in[d + 1], x, core_axes(w->name));
    }
    if (!m->sample || (x->n && all_prime(shape))) m->sample = at;
}

static void collect(method *m)
{
    row w;
    for (const unsigned char *p = golden_file, *at = p; p < golden_end; at = p) {
        p = golden_row_at(p, &w);
        if (!strcmp(w.name, m->name)) see(m, &w, at);
    }
    for (int d = 0; d < TN_DTYPES; d++) m->count[LIMITS] += m->low[d] && m->high[d];
    m->count[ZEROS] = m->plus_zero && m->minus_zero;
    m->count[INFS] = m->plus_inf && m->minus_inf;
}

/* ---- dtypes ---- */

/* Whether the method refuses operands of the dtype by TN_EDTYPE. */
static bool refuses(const method *m, tn_dtype dt)
{
    row w;
    tn_scope s;
    golden_row_at(m->sample, &w);
    tn_clear_error();
    tn_scope_open(&s);
    golden_inputs(&w);
    tn_dtype had = w.r.nin ? w.in[data_operand(w.name)].dt : TN_DTYPE_DEFAULT;
    for (int i = 0; i < w.r.nin; i++)
        if (w.in[i].dt == had) w.r.in[i] = tn_cast(w.r.in[i], dt);
    if (!w.r.nin) w.p[0] = dt;
    int n = method_call(w.name, &w.r, w.got);
    bool refused = n && tn_bad(w.got[0]) && tn_last_error()->code == TN_EDTYPE;
    tn_scope_end(&s);
    tn_clear_error();
    return refused;
}

/* ---- reasons ---- */

static bool codes_known(const char *table, const char *reasons, char *unknown)
{
    char code[40], head[48];
    for (const char *at = reasons; (at = strchr(at, ':')); at++) {
        if (sscanf(at + 1, " %39[a-z-]", code) != 1) return false;
        snprintf(head, sizeof head, "\n#   %s: ", code);
        strcpy(unknown, code);
        if (!strstr(table, head)) return false;
    }
    return true;
}

static bool has_reason(const char *reasons, const char *kind)
{
    char key[16];
    snprintf(key, sizeof key, "%s:", kind);
    const char *at = strstr(reasons, key);
    return at && (at == reasons || at[-1] == ' ');
}

/* Special numbers are asked of methods that take numbers of their class, or none. */
static bool applies(const method *m, int kind)
{
    bool made = !m->takes_float && !m->takes_int;
    if (kind == LIMITS) return m->takes_int || made;
    return kind < ZEROS || m->takes_float || made;
}

/* Appends what is wrong with one method to the text. */
static void judge(const method *m, const char *reasons, char *to, size_t room)
{
    size_t n = strlen(to);
    char missing[200] = "";
    for (int k = 0; k < KINDS; k++) {
        if (k == DTYPES || !applies(m, k)) continue;
        bool reason = has_reason(reasons, kinds[k]), there = m->count[k] > 0;
        bool sides = k == LEFT || k == RIGHT; /* shapes may look so by chance */
        if (there == reason && !(sides && reason))
            n += (size_t)snprintf(to + n, room - n, "%s: %s: %s\n", m->name, kinds[k],
                                  there ? "a reason though there are rows" : "no row, no reason");
        if (room - n < 300) return;
    }
    for (int d = TN_BOOL; d < TN_DTYPES && m->sample && !has_reason(reasons, "dtypes"); d++)
        if (!m->of_dtype[d] && !refuses(m, (tn_dtype)d)) {
            strcat(missing, " ");
            strcat(missing, tn_dtype_name((tn_dtype)d));
        }
    if (*missing) n += (size_t)snprintf(to + n, room - n, "%s: dtypes:%s\n", m->name, missing);
    if (m->rows < 6) snprintf(to + n, room - n, "%s: %d rows, not 6\n", m->name, m->rows);
}

static char *whole_file(const char *path)
{
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    char *text = calloc(1, 1 << 18);
    text[0] = '\n';
    ck_assert_uint_gt(fread(text + 1, 1, (1 << 18) - 2, f), 0);
    fclose(f);
    return text;
}

START_TEST(every_method_has_six_rows_and_every_kind_or_a_reason)
{
    static char bad[1 << 17];
    char *text = whole_file(TEST_SOURCE_DIR "/tests/ops.txt"), *line = text + 1, code[40] = "";
    int methods = 0, rows = 0;
    golden_load();
    bad[0] = 0;
    for (char *end; (end = strchr(line, '\n')); line = end + 1) {
        method m = {.rows = 0};
        char reasons[500] = "";
        if (*line == '#') continue;
        int said;
        ck_assert(sscanf(line, "%63s %d", m.name, &said) == 2);
        const char *tab = strchr(strchr(line, '\t') + 1, '\t');
        ck_assert(tab && tab < end && end - tab < (long)sizeof reasons);
        memcpy(reasons, tab + 1, (size_t)(end - tab - 1));
        ck_assert_msg(codes_known(text, reasons, code), "%s: reason \"%s\" is not in the table",
                      m.name, code);
        collect(&m);
        ck_assert_msg(m.rows == said, "%s: ops.txt says %d rows, the file has %d", m.name, said,
                      m.rows);
        if (sizeof bad - strlen(bad) > 1000) judge(&m, reasons, bad, sizeof bad);
        methods++;
        rows += m.rows;
    }
    golden_unload();
    printf("ops.txt: %d methods, %d rows\n", methods, rows);
    if (getenv("TENON_TEST_ALL")) fputs(bad, stderr);
    ck_assert_msg(!*bad, "%.2000s", bad);
    ck_assert_int_gt(methods, 200);
    free(text);
}
END_TEST

START_TEST(every_method_of_the_header_is_listed)
{
    char name[64], item[70];
    char *list = whole_file(TEST_SOURCE_DIR "/tests/ops.txt");
    char *header = whole_file(TEST_SOURCE_DIR "/core/include/tenon/tensor.h");
    for (const char *at = header; (at = strstr(at, "\nTN_API")); at++) {
        const char *fn = strstr(at, "tn_");
        if (!strncmp(fn, "tn_tensor *", 11)) fn = strstr(fn + 3, "tn_");
        if (sscanf(fn, "%63[a-zA-Z0-9_]", name) != 1) continue;
        snprintf(item, sizeof item, "\n%s\t", name);
        ck_assert_msg(strstr(list, item) != NULL, "%s is not in tests/ops.txt", name);
    }
    free(header);
    free(list);
}
END_TEST

Suite *suite_kinds(void)
{
    Suite *s = suite_create("kinds");
    TCase *t = tcase_create("ops.txt");
    tcase_set_timeout(t, 120);
    tcase_add_test(t, every_method_has_six_rows_and_every_kind_or_a_reason);
    tcase_add_test(t, every_method_of_the_header_is_listed);
    suite_add_tcase(s, t);
    return s;
}
