/* SPDX-License-Identifier: MIT */
/*
 * Pruning: calls whose operands are closures that the function does not write, constants and what such calls
 * made, run once; what they made stays in buffers of its own.
 *
 * A call stays when it touches anything that changes, draws a random number or writes an output; a buffer that
 * such a call writes changes.  Repeated until nothing moves.
 */
#include "jit/jit.h"

/* One pass; true when a call was found to stay. */
static bool pass(const tn_jit *j, bool *stays, bool *changes)
{
    const tn__plan *p = j->plan;
    bool moved = false;
    for (int i = 0; i < p->ncall; i++) {
        const tn__plan_call *c = &p->call[i];
        bool stay = stays[i];
        for (int k = 0; k < c->nbuf; k++) stay |= changes[c->buf[k]];
        for (int k = 0; k < c->nscalar; k++)
            stay |= j->scalar_kind[c->scalar[k]] != TN__SCALAR_OFFSET;
        if (stay && !stays[i]) moved = stays[i] = true;
        for (int k = 0; stay && k < c->nbuf; k++)
            if (c->access[k] & TNP_ACCESS_WRITE && !changes[c->buf[k]])
                moved = changes[c->buf[k]] = true;
    }
    return moved;
}

/* Slots and temporaries of the calls that run once. */
static void note_operands(tn_jit *j, const bool *stays)
{
    for (int i = 0; i < j->plan->ncall; i++) {
        const tn__plan_call *c = &j->plan->call[i];
        for (int k = 0; !stays[i] && k < c->nbuf; k++) {
            const tn__pbuf *b = &j->plan->buf[c->buf[k]];
            if (b->kind == TN__PBUF_INPUT) j->slot[b->slot].pruned = true;
        }
    }
}

static bool split(tn_jit *j, const bool *stays)
{
    j->once = tn__plan_part(j->plan, stays, false);
    tn__plan *rest = j->once ? tn__plan_part(j->plan, stays, true) : NULL;
    if (!rest) return false;
    note_operands(j, stays);
    tn__plan_unref(j->plan);
    j->plan = rest;
    return true;
}

bool tn__jit_prune(tn_jit *j, const bool *written_slot)
{
    const tn__plan *p = j->plan;
    bool *stays = tn__calloc((size_t)p->ncall + 1, sizeof *stays), any = false;
    bool *changes = tn__calloc((size_t)p->nbuf + 1, sizeof *changes);
    bool ok = stays && changes;
    for (int b = 0; ok && b < p->nbuf; b++)
        changes[b] = p->buf[b].kind == TN__PBUF_OUTPUT ||
                     (p->buf[b].kind == TN__PBUF_INPUT && written_slot[p->buf[b].slot]);
    while (ok && pass(j, stays, changes)) {
    }
    for (int i = 0; ok && i < p->ncall; i++) any |= !stays[i];
    if (ok && any) ok = split(j, stays);
    tn__free(stays);
    tn__free(changes);
    return ok;
}
