/* SPDX-License-Identifier: MIT */
/*
 * JIT_CHECK: the function is traced again, computing nothing, and what it would compute is compared with the
 * capture: records, where leaves come from, the contents of constants, offsets and random numbers.
 */
#include "jit/jit.h"
#include <string.h>

static const char advice[] =
    "the function depends on more than its inputs and tensors, such as a C number that "
    "changes: pass it in IN, assign it to a tensor, or call tn_jit_reset";

static bool differ(tn_jit *j, const tn__normal *f)
{
    size_t record;
    tn__op old, now;
    tn__normal_differ(&j->form, &f->bytes, &record, &old, &now);
    if (old == now)
        return tn__fail(
            TN_EJIT,
            "jit: check: record %zu, %s, has other numbers or operands than in the capture: %s",
            record, now < TN_OP_COUNT ? tn__ops[now].text : "the roots", advice);
    return tn__fail(TN_EJIT, "jit: check: record %zu is %s, and the capture has %s there: %s",
                    record, now < TN_OP_COUNT ? tn__ops[now].text : "missing",
                    old < TN_OP_COUNT ? tn__ops[old].text : "nothing", advice);
}

/* Two constants with equal bytes; *ok false: an error is pending. */
static bool same_bytes(tn__node *a, tn__node *b, bool *ok)
{
    if (a == b || tn__stored_value(a) == tn__stored_value(b)) return true;
    const size_t n = (size_t)tn__node_numel(a) * tn__dtype_size((tn_dtype)a->dt);
    const tn__value *v = tn__stored_value(a), *w = tn__stored_value(b);
    char *p = tn__alloc(2 * n + 1);
    *ok = p && tn__buffer_read(p, v->buf[0], v->offset, n) &&
          tn__buffer_read(p + n, w->buf[0], w->offset, n);
    const bool same = *ok && !memcmp(p, p + n, n);
    tn__free(p);
    return same;
}

static bool same_slot(const tn_jit *j, const tn__trace *t, size_t i, tn__node *leaf)
{
    const tn__jit_slot *old = &j->slot[i];
    tn__jit_slot now = tn__jit_origin(t, leaf);
    bool ok = true, same = now.from == old->from;
    if (same && now.from == TN__FROM_INPUT) same = now.input == old->input;
    if (same && now.from == TN__FROM_CELL) {
        same = now.cell == old->cell;
        for (size_t k = 0; k < j->npeer && !same; k++)
            same = j->peer[k].slot == (int)i && j->peer[k].cell == now.cell;
    }
    if (same && now.from == TN__FROM_CONST) same = same_bytes(old->node, now.node, &ok);
    tn__jit_slot_drop(&now);
    if (same || !ok) return same;
    return tn__fail(
        TN_EJIT,
        "jit: check: operand %zu, %s of %s, is another tensor or has other contents than in the "
        "capture: %s",
        i, tn__dtype_name(old->sig.dt), tn__shape_text(old->sig.dims, old->sig.rank), advice);
}

static bool same_scalars(const tn_jit *j, const tn__trace *t, const tn__normal *f)
{
    for (size_t i = 0; i < j->nscalar; i++) {
        const bool base = j->scalar_kind[i] == TN__SCALAR_BASE,
                   key = j->scalar_kind[i] == TN__SCALAR_KEY;
        const uint64_t now = base ? f->scalar[i] - t->rng.counter : f->scalar[i];
        const uint64_t old = key ? t->rng.key : base ? j->relative[i] : j->scalar[i];
        if (now != old)
            return tn__fail(TN_EJIT, "jit: check: number %zu, %s, is not that of the capture: %s",
                            i,
                            f->scalar_kind[i] == TN__SCALAR_OFFSET ? "the start of a slice"
                                                                   : "of a random function",
                            advice);
    }
    if (t->drawn == j->drawn) return true;
    return tn__fail(TN_EJIT,
                    "jit: check: %llu random words are drawn, and the capture draws %llu: %s",
                    (unsigned long long)t->drawn, (unsigned long long)j->drawn, advice);
}

bool tn__jit_same(tn_jit *j, tn__trace *t)
{
    tn__arena a = {0};
    tn__node **root;
    size_t n;
    tn__normal f;
    bool ok = tn__jit_form(&a, t, &root, &n, &f);
    if (ok && !tn__hash_eq(f.key, j->key)) ok = differ(j, &f);
    for (size_t i = 0; ok && i < f.nleaf; i++) ok = same_slot(j, t, i, f.leaf[i]);
    ok = ok && same_scalars(j, t, &f);
    if (!ok && tn_ok()) tn__fail_nomem();
    tn__normal_free(&f);
    tn__arena_free(&a);
    return ok;
}
