/* SPDX-License-Identifier: MIT */
/* Helpers of the nn suites; golden values are those of nn_golden.inc. */
#include "nn_rig.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    const char *name;
    int n;
    const double *v;
} table[] = {
#include "nn_golden.inc"
};

static uint64_t handles;
static uint64_t live(void)
{
    tn_counters c = {.size = sizeof c};
    tn_counters_get(&c);
    return c.handles;
}

void nn_begin(void)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(!e, "an error before the test: %s", e ? e->msg : "");
    handles = live();
}

void nn_end(void)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(!e, "left an error: %s", e ? e->msg : "");
    ck_assert_msg(live() == handles, "left %lld handles", (long long)(live() - handles));
}

const double *golden(const char *name, int *n)
{
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (strcmp(table[i].name, name)) continue;
        *n = table[i].n;
        return table[i].v;
    }
    ck_abort_msg("no golden values '%s'", name);
    return NULL;
}

tn_tensor *golden_tensor(const char *name, const tn_shape *shape, tn_dtype dt)
{
    int n;
    const double *v = golden(name, &n);
    int64_t all = 1;
    for (size_t i = 0; i < shape->n; i++) all *= shape->d[i];
    ck_assert_msg(all == n, "%s has %d values, not %d", name, n, (int)all);
    return tn_cast(tn_from_data(v, shape, .dtype = TN_F64), dt);
}

void golden_set(tn_tensor *t, const char *name)
{
    int64_t dims[TN_MAX_RANK];
    int rank = tn_shape_of(t, dims);
    tn_assign(t, golden_tensor(name, &(const tn_shape){(size_t)rank, dims}, tn_dtype_of(t)));
}

void golden_check(const char *name, tn_tensor *t, double tol)
{
    int n;
    const double *want = golden(name, &n);
    ck_assert_msg(tn_numel(t) == n, "%s: %lld elements, not %d: %s", name, (long long)tn_numel(t),
                  n, tn_last_error() ? tn_last_error()->msg : "");
    double *got = calloc((size_t)n, sizeof *got);
    tn_tensor *wide = tn_cast(t, TN_F64);
    ck_assert_msg(tn_data(wide, got, (size_t)n * sizeof *got), "%s: %s", name,
                  tn_last_error() ? tn_last_error()->msg : "");
    for (int i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= tol * (1 + fabs(want[i]))))
            ck_abort_msg("%s: element %d is %.9g, not %.9g", name, i, got[i], want[i]);
    free(got);
}

bool same_bits(tn_tensor *a, tn_tensor *b)
{
    int64_t da[TN_MAX_RANK], db[TN_MAX_RANK];
    int ra = tn_shape_of(a, da), rb = tn_shape_of(b, db);
    if (ra < 0 || ra != rb || memcmp(da, db, (size_t)ra * sizeof *da) ||
        tn_dtype_of(a) != tn_dtype_of(b))
        return false;
    size_t n = (size_t)tn_nbytes(a);
    char *p = malloc(n + 1), *q = malloc(n + 1);
    bool same = tn_data(a, p, n) && tn_data(b, q, n) && !memcmp(p, q, n);
    free(p);
    free(q);
    return same;
}
