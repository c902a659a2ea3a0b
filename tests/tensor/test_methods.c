/* SPDX-License-Identifier: MIT */
/*
 * Every method of tensor.h against golden values of PyTorch and numpy (tests/golden/methods.bin, made by
 * make_golden.py): each row through the public API, then by the naive evaluator and by the compiler.
 *
 * TENON_TEST_METHOD=tn_name runs one method and prints its rows that differ; TENON_TEST_EVAL=naive or
 * device leaves the other evaluator out.
 */
#include "methods.h"
#include "../support/naive.h"
#include "../test.h"
#include "tensor/handle.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- reading rows ---- */

typedef struct {
    tn_dtype dt;
    int rank;
    int64_t dims[TN_MAX_RANK], n;
    const unsigned char *data;
} golden;

typedef struct {
    char name[64], text[128];
    double p[64];
    golden in[16], out[16];
    float tol;
    method_row r;
    tn_tensor *got[16];
} row;

static unsigned char *file;
static size_t file_size;

static void load(void)
{
    FILE *f = fopen(TEST_SOURCE_DIR "/tests/golden/methods.bin", "rb");
    ck_assert(f != NULL);
    fseek(f, 0, SEEK_END);
    file_size = (size_t)ftell(f);
    rewind(f);
    file = malloc(file_size);
    ck_assert(fread(file, 1, file_size, f) == file_size);
    fclose(f);
}

static void unload(void)
{
    free(file);
    file = NULL;
}

static const unsigned char *tensor_at(const unsigned char *p, golden *g)
{
    g->dt = (tn_dtype)p[0];
    g->rank = p[1];
    g->n = 1;
    p += 2;
    for (int i = 0; i < g->rank; i++, p += 4) {
        int32_t d;
        memcpy(&d, p, 4);
        g->dims[i] = d;
        g->n *= d;
    }
    g->data = p;
    return p + (size_t)g->n * tn_dtype_size(g->dt);
}

static const unsigned char *text_at(const unsigned char *p, char *to)
{
    memcpy(to, p + 1, *p);
    to[*p] = 0;
    return p + 1 + *p;
}

/* Reads the row at p; the position behind it. */
static const unsigned char *row_at(const unsigned char *p, row *w)
{
    uint16_t np;
    p = text_at(text_at(p, w->name), w->text);
    memcpy(&np, p, 2);
    memcpy(w->p, p + 2, np * sizeof(double));
    p += 2 + np * sizeof(double);
    w->r = (method_row){.text = w->text, .p = w->p, .np = np, .nin = *p++};
    for (int i = 0; i < w->r.nin; i++) p = tensor_at(p, &w->in[i]);
    w->r.nout = *p++;
    for (int i = 0; i < w->r.nout; i++) p = tensor_at(p, &w->out[i]);
    memcpy(&w->tol, p, 4);
    return p + 4;
}

/* ---- comparing ---- */

/* Relative error of the dtype and the absolute one below which nothing counts, times the row's factor. */
static void tolerance(tn_dtype dt, double *rel, double *abs)
{
    static const double table[TN_DTYPES][2] = {[TN_F16] = {1e-3, 1e-6},
                                               [TN_BF16] = {8e-3, 1e-6},
                                               [TN_F32] = {1e-6, 1e-7},
                                               [TN_F64] = {4e-15, 4e-16}};
    *rel = table[dt][0];
    *abs = table[dt][1];
}

static tn__scalar element(const golden *g, const unsigned char *data, int64_t i)
{
    uint64_t bits = 0;
    size_t size = tn__dtype_size(g->dt);
    memcpy(&bits, data + (size_t)i * size, size);
    return tn__scalar_from_bits(g->dt, bits);
}

static bool same(const golden *g, tn__scalar a, tn__scalar b, double factor)
{
    double rel, abs, x, y;
    if (!tn__dtype_is_float(g->dt)) return a.u == b.u;
    x = a.f, y = b.f;
    if (isnan(x) || isnan(y)) return isnan(x) && isnan(y);
    if (x == y) return true;
    tolerance(g->dt, &rel, &abs);
    return fabs(x - y) <= factor * (rel * fabs(x) + abs);
}

/* NULL, or what differs. */
static const char *differs(const golden *want, const tn__scalar *got, double factor)
{
    static char text[200];
    for (int64_t i = 0; i < want->n; i++) {
        tn__scalar e = element(want, want->data, i);
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
    for (int64_t i = 0; ok && i < want->n; i++) got[i] = element(want, data, i);
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
    for (int i = 0; i < w->r.nin; i++) {
        const golden *g = &w->in[i];
        tn_data_opts o = {.size = sizeof o, .dtype = g->dt};
        w->r.in[i] = (tn_from_data)(g->data, &(tn_shape){(size_t)g->rank, g->dims}, &o);
    }
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
    load();
    for (const unsigned char *p = file; p < file + file_size;) {
        p = row_at(p, &rows[n]);
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
    unload();
    printf("methods: %d rows, %d more not computed by this device yet\n", v.ran, v.left);
    ck_assert_msg(!v.wrong, "%d of %d rows differ, first %s", v.wrong, v.ran, v.first);
}
END_TEST

/* Counts the rows of a name in the golden file. */
static int rows_of(const char *name)
{
    int n = 0;
    row w;
    for (const unsigned char *p = file; p < file + file_size;) {
        p = row_at(p, &w);
        n += !strcmp(w.name, name);
    }
    return n;
}

START_TEST(every_method_has_six_rows_or_a_test_of_its_own)
{
    char line[2000], name[64];
    int count, methods = 0, rows = 0;
    FILE *f = fopen(TEST_SOURCE_DIR "/tests/ops.txt", "r");
    ck_assert(f != NULL);
    load();
    while (fgets(line, sizeof line, f)) {
        if (line[0] == '#') continue;
        ck_assert_msg(sscanf(line, "%63s %d", name, &count) == 2, "%s", line);
        ck_assert_msg(rows_of(name) == count, "%s: ops.txt says %d rows, the file has %d", name,
                      count, rows_of(name));
        ck_assert_msg(count >= 6 || strstr(line, "by "), "%s has %d rows and no other test", name,
                      count);
        ck_assert_msg(!strstr(line, ": ?"), "%s: a kind of row is missing without a reason", name);
        methods++;
        rows += count;
    }
    fclose(f);
    unload();
    printf("ops.txt: %d methods, %d rows\n", methods, rows);
    ck_assert_int_gt(methods, 200);
}
END_TEST

START_TEST(every_method_of_the_header_is_listed)
{
    char line[400], name[64], item[70];
    char *list = calloc(1, 1 << 18);
    FILE *f = fopen(TEST_SOURCE_DIR "/tests/ops.txt", "r");
    ck_assert(f != NULL);
    size_t n = fread(list + 1, 1, (1 << 18) - 2, f);
    fclose(f);
    list[0] = '\n';
    ck_assert(n > 0);
    f = fopen(TEST_SOURCE_DIR "/core/include/tenon/tensor.h", "r");
    ck_assert(f != NULL);
    while (fgets(line, sizeof line, f)) {
        const char *at = strstr(line, "tn_");
        if (strncmp(line, "TN_API", 6)) continue;
        if (!strncmp(at, "tn_tensor *", 11)) at += 11;
        if (sscanf(at, "%63[a-zA-Z0-9_]", name) != 1) continue;
        snprintf(item, sizeof item, "\n%s\t", name);
        ck_assert_msg(strstr(list, item) != NULL, "%s is not in tests/ops.txt", name);
    }
    fclose(f);
    free(list);
}
END_TEST

Suite *suite_methods(void)
{
    Suite *s = suite_create("methods");
    TCase *t = tcase_create("golden");
    tcase_set_timeout(t, 600);
    tcase_add_test(t, methods_give_golden_values);
    tcase_add_test(t, every_method_has_six_rows_or_a_test_of_its_own);
    tcase_add_test(t, every_method_of_the_header_is_listed);
    suite_add_tcase(s, t);
    return s;
}
