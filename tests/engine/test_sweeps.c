/* SPDX-License-Identifier: MIT */
/*
 * Every allocation failing in turn, with nothing cached: each round has shapes of its own, so that the schedule, the
 * kernels and the plan are made anew.  On INTERP, whose kernels need no compiler.  Each round ends well or with
 * TN_ENOMEM and leaves no node behind; the same work then succeeds.  SWEEP=1 prints how many allocations each
 * work makes.
 */
#include "base/base.h"
#include "tensor/handle.h"
#include "test.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

enum { MOST = 30000 };

static int64_t rounds;

static tn_tensor *filled(int64_t n, int64_t m)
{
    return tn_add(tn_reshape(tn_arange((double)(n * m)), SHAPE(n, m)), 1);
}

static bool create_and_print(int64_t n)
{
    TN_SCOPE;
    char *text = tn_repr(tn_add(tn_ones(SHAPE(2, n)), tn_from_data(((float[]){1}), SHAPE(1))));
    const bool ok = text && !strncmp(text, "[[2. 2.", 7);
    tn_text_free(text);
    return ok;
}

static bool matmul(int64_t n)
{
    TN_SCOPE;
    tn_tensor *y = tn_matmul(tn_ones(SHAPE(3, n)), filled(n, 2));
    return tn_item(tn_index(tn_contiguous(y), 2, 1)) == (double)(n * (n + 1));
}

static bool backward(int64_t n)
{
    TN_SCOPE;
    tn_tensor *w = tn_keep(tn_param(tn_contiguous(filled(n, 3))));
    tn_backward(tn_sum(tn_mul(w, w)));
    tn_tensor *g = tn_grad(w);
    const bool ok = !tn_bad(g) && tn_item(tn_index(g, 0, 1)) == 4;
    if (!tn_bad(w)) tn_free(w);
    return ok;
}

static tn_tensor *layer(void *user, const tn_inputs *in)
{
    return tn_relu(tn_add(tn_mul(in->t[0], user), 1));
}

/* Two calls: the second one captures; then a replay. */
static bool capture(int64_t n)
{
    TN_SCOPE;
    bool ok = true;
    tn_tensor *w = tn_keep(tn_contiguous(filled(n, 1)));
    ok = tn_realize(w);
    tn_jit *j = ok ? tn_jit_new(layer, w) : NULL;
    for (int i = 0; j && ok && i < 3; i++) {
        tn_tensor *x = tn_contiguous(filled(n, 1));
        ok = tn_realize(x) &&
             tn_item(tn_sum(tn_jit_call(j, IN(x)))) == (double)(n * (n + 1) * (2 * n + 1) / 6 + n);
    }
    tn_jit_free(j);
    if (!tn_bad(w)) tn_free(w);
    return ok && j;
}

static tn_jit *ready;
static tn_tensor *weight, *input;

static bool replay(int64_t n)
{
    TN_SCOPE;
    (void)n;
    return tn_item(tn_jit_call(ready, IN(input))) == 7;
}

static void sweep(const char *what, bool (*work)(int64_t n), bool fresh)
{
    uint64_t n = 1;
    tn__cell **cells;
    ck_assert_msg(work(++rounds), "%s: %s", what, tn_ok() ? "wrong" : tn_last_error()->msg);
    const size_t nodes = tn__node_live();
    for (bool ok = false; !ok; n++) {
        const int64_t size = fresh ? ++rounds : rounds;
        tn__alloc_fail_at(n);
        ok = work(size);
        tn__alloc_fail_at(0);
        ck_assert_msg(ok == tn_ok(), "%s, allocation %d: %s", what, (int)n,
                      ok ? "an error without effect" : "wrong without an error");
        if (!ok) {
            const tn_error *e = tn_last_error();
            ck_assert_msg(e->code == TN_ENOMEM || e->code == TN_EOOM, "%s, allocation %d: %s: %s",
                          what, (int)n, tn_code_name(e->code), e->msg);
            tn_clear_error();
        }
        ck_assert_uint_eq(tn__effects(&cells), 0); /* drops writes to what is gone */
        ck_assert_msg(tn__node_live() == nodes, "%s, allocation %d: %d nodes more", what, (int)n,
                      (int)(tn__node_live() - nodes));
        ck_assert_uint_lt(n, MOST);
        if (!ok && n % 16 == 1) ck_assert_msg(work(size), "%s after allocation %d", what, (int)n);
    }
    if (getenv("SWEEP")) fprintf(stderr, "%s: %d allocations\n", what, (int)n - 1);
}

static tn_with_device on;
static void start(void)
{
    tn_clear_error();
    tn_with_device_open(&on, "INTERP");
    rounds = 3;
}
static void end(void)
{
    tn_with_device_end(&on);
    test_clean_end();
}

START_TEST(creating_and_printing) { sweep("create and print", create_and_print, true); }
END_TEST
START_TEST(a_product) { sweep("matmul", matmul, true); }
END_TEST
START_TEST(a_backward_pass) { sweep("backward", backward, true); }
END_TEST
START_TEST(capturing) { sweep("capture", capture, true); }
END_TEST
START_TEST(replaying)
{
    TN_SCOPE;
    weight = tn_keep(tn_from_data(((float[]){3}), SHAPE(1)));
    input = tn_keep(tn_from_data(((float[]){2}), SHAPE(1)));
    ready = tn_jit_new(layer, weight);
    for (int i = 0; i < 3; i++) ck_assert(replay(0));
    sweep("replay", replay, false);
    tn_jit_free(ready);
    tn_free(weight);
    tn_free(input);
}
END_TEST

Suite *suite_sweeps(void);
Suite *suite_sweeps(void)
{
    Suite *s = suite_create("sweeps");
    TCase *t = tcase_create("sweeps");
    tcase_add_checked_fixture(t, start, end);
    tcase_set_timeout(t, 240);
    tcase_add_test(t, creating_and_printing);
    tcase_add_test(t, a_product);
    tcase_add_test(t, a_backward_pass);
    tcase_add_test(t, capturing);
    tcase_add_test(t, replaying);
    suite_add_tcase(s, t);
    return s;
}
