/* SPDX-License-Identifier: MIT */
/*
 * Placements of results: which devices a node's value lives on and along which axis it is split.
 *
 * A node without a placement (constants, random words) adapts to its partners.  A movement carries
 * the shard axis along where each device can do it alone; where it cannot, every device has the whole
 * result.
 */
#include "tensor/make.h"
#include "device/device.h"

static bool same_devices(const tn__placement *a, const tn__placement *b)
{
    if (a->n != b->n) return false;
    for (int i = 0; i < a->n; i++)
        if (a->dev[i] != b->dev[i]) return false;
    return true;
}

bool tn__place_join(const char *subject, const tn__placement *const *src, int n,
                    const tn__placement **out)
{
    const tn__placement *p = NULL;
    for (int i = 0; i < n; i++) {
        const tn__placement *q = src[i];
        if (!q || q == p) continue;
        if (!p) {
            p = q;
            continue;
        }
        if (!same_devices(p, q))
            return tn__fail(
                TN_EDEVICE,
                "%s: the operands are on %s%s and %s%s: bring them to one place with tn_to",
                subject, tn__device_name(p->dev[0]), p->n > 1 ? " and others" : "",
                tn__device_name(q->dev[0]), q->n > 1 ? " and others" : "");
        if (p->axis < 0)
            p = q; /* split otherwise: as the first one, the other's parts are collected */
    }
    *out = p;
    return true;
}

bool tn__place_axis(const tn__placement *p, int axis, const tn__placement **out)
{
    *out = !p || p->axis == axis ? p : tn__placement_get(p->dev, p->n, axis);
    return *out || !p;
}

/* The axis of `to` that starts where `axis` of `from` starts and can be split as often; -1: none.
 */
static int reshaped_axis(const tn__spec *s, int axis, int n)
{
    const tn__node *x = s->src[0];
    int64_t before = 1, seen = 1;
    for (int i = 0; i < axis; i++) before *= x->dims[i];
    for (int i = 0; i < s->rank; i++) {
        if (seen == before && s->dims[i] > 1 && s->dims[i] % n == 0) return i;
        seen *= s->dims[i];
        if (seen > before) break;
    }
    return -1;
}

bool tn__place_move(const tn__spec *s, const tn__placement **out)
{
    const tn__node *x = s->src[0];
    const tn__placement *p = x->place;
    *out = p;
    if (!p || p->axis < 0) return true;
    int axis = p->axis, to = axis;
    if (s->op == TN_OP_RESHAPE) {
        to = reshaped_axis(s, axis, p->n);
    } else if (s->op == TN_OP_PERMUTE) {
        for (int i = 0; i < s->rank; i++)
            if (s->argv[i] == axis) to = i;
    } else if (s->op == TN_OP_SHRINK || s->op == TN_OP_PAD) {
        if (s->dims[axis] != x->dims[axis]) to = -1;
    } else if (s->op == TN_OP_FLIP) {
        if (s->argv[0] >> axis & 1) to = -1;
    } else if (s->op == TN_OP_WINDOW) {
        to = axis == s->argv[0] ? -1 : axis > s->argv[0] ? axis + 1 : axis;
    } else if (s->op == TN_OP_FOLD) {
        to = axis == s->argv[0] || axis == s->argv[0] + 1 ? -1
             : axis > s->argv[0]                          ? axis - 1
                                                          : axis;
    }
    return tn__place_axis(
        p, to, out); /* -1: no part can be made from a part alone, each device makes all of it */
}
