/* SPDX-License-Identifier: MIT */
/*
 * Chains of movement nodes: the same movements over another node.  Windows are derived again this
 * way when the tensor they show has moved on, and so is the gradient of a write through a window.
 */
#include "tensor/make.h"

static tn__node *moved_as(const tn__node *m, tn__node *x)
{
    int axes[TN_MAX_RANK];
    int64_t before[TN_MAX_RANK], after[TN_MAX_RANK];
    switch ((int)m->op) {
    case TN_OP_RESHAPE: return tn__reshape(x, m->dims, m->rank);
    case TN_OP_EXPAND: return tn__expand(x, m->dims, m->rank);
    case TN_OP_PERMUTE:
        for (int i = 0; i < m->rank; i++) axes[i] = (int)m->argv[i];
        return tn__permute(x, axes);
    case TN_OP_SHRINK: return tn__shrink(x, m->argv, m->dims);
    case TN_OP_FLIP: return tn__flip(x, (unsigned)m->argv[0]);
    case TN_OP_PAD:
        for (int i = 0; i < m->rank; i++) {
            before[i] = m->argv[2 * i];
            after[i] = m->argv[2 * i + 1];
        }
        return tn__pad(x, before, after);
    case TN_OP_WINDOW: return tn__window(x, (int)m->argv[0], m->argv[1], m->argv[2], m->argv[3]);
    default: tn__fail(TN_EINTERNAL, "window: %s is no movement", tn__ops[m->op].text); return NULL;
    }
}

bool tn__chain_reaches(const tn__node *top, const tn__node *root)
{
    while (top != root) {
        if (tn__ops[top->op].cls != TN_CLASS_MOVE || top->op == TN_OP_FOLD) return false;
        top = top->src[0];
    }
    return true;
}

tn__node *tn__chain_over(tn__node *top, const tn__node *old, tn__node *root)
{
    if (!root) return NULL;
    size_t n = 0;
    for (const tn__node *m = top; m != old; m = m->src[0]) n++;
    if (!n) return root;
    const tn__node **chain = tn__alloc(n * sizeof *chain);
    if (!chain) return NULL;
    for (size_t i = n; i--; top = top->src[0]) chain[i] = top;
    for (size_t i = 0; root && i < n; i++) root = moved_as(chain[i], root);
    tn__free(chain);
    return root;
}
