/* SPDX-License-Identifier: MIT */
/* Public wrappers: views (they end with tn__call_view), joins, padding, repeating. */
#include "tensor/api.h"
#include <string.h>

typedef tn__node *by_shape(tn__node *x, const int64_t *dims, size_t n);

static tn_tensor *view_shape(const char *name, by_shape *fn, tn_tensor *t, const tn_shape *s)
{
    tn__call c;
    tn__call_begin(&c, name);
    tn__node *x = tn__in_view(t);
    bool ok = x && (s || tn__fail(TN_ENULL, "%s: the shape is NULL: give SHAPE(..)", name + 3));
    return tn__call_view(&c, t, ok ? fn(x, s->d, s->n) : NULL);
}

tn_tensor *(tn_reshape)(tn_tensor *t, const tn_shape *s)
{
    return view_shape("tn_reshape", tn__view, t, s);
}

tn_tensor *(tn_view)(tn_tensor *t, const tn_shape *s)
{
    return view_shape("tn_view", tn__view, t, s);
}

tn_tensor *(tn_expand)(tn_tensor *t, const tn_shape *s)
{
    return view_shape("tn_expand", tn__expand_to, t, s);
}

tn_tensor *(tn_shrink)(tn_tensor *t, const tn_shape *pairs)
{
    return view_shape("tn_shrink", tn__shrink_pairs, t, pairs);
}

tn_tensor *(tn_shrink_to)(tn_tensor *t, const tn_shape *s)
{
    return view_shape("tn_shrink_to", tn__shrink_to, t, s);
}

tn_tensor *(tn_permute)(tn_tensor *t, const tn_axes *ax)
{
    tn__call c;
    tn__call_begin(&c, "tn_permute");
    tn__node *x = tn__in_view(t);
    bool ok = x && ((ax && ax != tn_axes_all()) ||
                    tn__fail(TN_ENULL, "permute: no order: give AX(..) with every axis"));
    return tn__call_view(&c, t, ok ? tn__permute_to(x, ax->v, ax->n) : NULL);
}

tn_tensor *(tn_transpose)(tn_tensor *t, int a, int b)
{
    tn__call c;
    tn__call_begin(&c, "tn_transpose");
    return tn__call_view(&c, t, tn__transpose(tn__in_view(t), a, b));
}

typedef tn__node *by_mask(tn__node *x, unsigned mask);

static tn_tensor *view_axes(const char *name, by_mask *fn, tn_tensor *t, const tn_axes *ax)
{
    tn__call c;
    unsigned axes;
    tn__call_begin(&c, name);
    tn__node *x = tn__in_view(t);
    return tn__call_view(&c, t, tn__axes_read(name + 3, x, ax, &axes) ? fn(x, axes) : NULL);
}

tn_tensor *(tn_flip)(tn_tensor *t, const tn_axes *ax)
{
    return view_axes("tn_flip", tn__flip_axes, t, ax);
}

tn_tensor *(tn_squeeze)(tn_tensor *t, const tn_axes *ax)
{
    return view_axes("tn_squeeze", tn__squeeze, t, ax);
}

tn_tensor *(tn_unsqueeze)(tn_tensor *t, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_unsqueeze");
    return tn__call_view(&c, t, tn__unsqueeze(tn__in_view(t), axis));
}

tn_tensor *(tn_flatten)(tn_tensor *t, const tn_flatten_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_flatten_opts, o, opts);
    tn__call_begin(&c, "tn_flatten");
    return tn__call_view(&c, t, tn__flatten(tn__in_view(t), o.start, o.end == 0 ? -1 : o.end));
}

tn_tensor *(tn_unflatten)(tn_tensor *t, int axis, const tn_shape *s)
{
    tn__call c;
    tn__call_begin(&c, "tn_unflatten");
    tn__node *x = tn__in_view(t);
    return tn__call_view(
        &c, t, x && tn__shape_read("unflatten", s) ? tn__unflatten(x, axis, s->d, s->n) : NULL);
}

tn_tensor *(tn_diagonal)(tn_tensor *t, int64_t offset, int a, int b)
{
    tn__call c;
    tn__call_begin(&c, "tn_diagonal");
    return tn__call_view(&c, t, tn__diagonal(tn__in_view(t), offset, a, b));
}

tn_tensor *(tn_unfold)(tn_tensor *t, int axis, int64_t size, int64_t step)
{
    tn__call c;
    tn__call_begin(&c, "tn_unfold");
    return tn__call_view(&c, t, tn__unfold(tn__in_view(t), axis, size, step));
}

/* ---- parts ---- */

static int64_t poisoned(const char *name, tn_tensor **out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tn__call c;
        tn__call_begin(&c, name);
        out[i] = tn__call_end(&c, NULL);
    }
    return 0;
}

/* One view of `size` elements from start on. */
static tn_tensor *part(const char *name, tn_tensor *t, int axis, int64_t start, int64_t size)
{
    tn__call c;
    tn__call_begin(&c, name);
    return tn__call_view(&c, t, tn__slice(tn__in_view(t), axis, start, size));
}

/* Size of the axis, normalised; -1 with an error pending. */
static int64_t axis_size(const char *name, tn_tensor *t, int *axis)
{
    tn__call c;
    int64_t n = -1;
    tn__call_begin(&c, name);
    tn__node *x = tn__in(t);
    if (x && !x->rank)
        tn__fail(TN_EAXIS, "%s: a tensor of rank 0 has no axis to part", name + 3);
    else if (x && tn__axis_of(name + 3, x, *axis, axis))
        n = x->dims[*axis];
    tn__call_done(&c);
    return n;
}

static int64_t parts(const char *name, tn_tensor *t, const int64_t *sizes, size_t n, int axis,
                     tn_tensor **out, size_t room)
{
    int64_t have = axis_size(name, t, &axis), at = 0, all = 0;
    if (have < 0) return poisoned(name, out, room);
    bool even = n == 1, bad = n < 1;
    for (size_t i = 0; i < n; i++) {
        bad = bad || sizes[i] < (even ? 1 : 0);
        all = tn__plus(all, sizes[i]);
    }
    int64_t count = bad ? 0 : even ? (have ? (have - 1) / sizes[0] + 1 : 1) : (int64_t)n;
    if (bad || (!even && all != have) || (size_t)count > room) {
        tn__enter(name);
        tn__fail(TN_EVALUE,
                 "%s: an axis of %lld into %zu sizes %s and room for %zu results: the sum must be "
                 "the axis, none negative, a single size at least 1, and the room enough",
                 name + 3, (long long)have, n,
                 tn__shape_text(sizes, n < TN_MAX_RANK ? (int)n : TN_MAX_RANK), room);
        tn__leave();
        return poisoned(name, out, room);
    }
    for (int64_t i = 0; i < count; i++) {
        int64_t size = even ? (have - at < sizes[0] ? have - at : sizes[0]) : sizes[i];
        out[i] = part(name, t, axis, at, size);
        at += size;
    }
    return count;
}

int64_t(tn_split)(tn_tensor *t, const tn_shape *sizes, int axis, tn_tensor **out, size_t room)
{
    if (sizes) return parts("tn_split", t, sizes->d, sizes->n, axis, out, room);
    tn__enter("tn_split");
    tn__fail(TN_ENULL, "split: the sizes are NULL: give SHAPE(..)");
    tn__leave();
    return poisoned("tn_split", out, room);
}

int64_t(tn_chunk)(tn_tensor *t, int64_t chunks, int axis, tn_tensor **out, size_t room)
{
    int a = axis;
    int64_t n = axis_size("tn_chunk", t, &a);
    if (n < 0) return poisoned("tn_chunk", out, room);
    if (chunks < 1) {
        tn__enter("tn_chunk");
        tn__fail(TN_EVALUE, "chunk: %lld parts: must be at least 1", (long long)chunks);
        tn__leave();
        return poisoned("tn_chunk", out, room);
    }
    int64_t size = n ? (n - 1) / chunks + 1 : 1;
    return parts("tn_chunk", t, &size, 1, axis, out, room);
}

bool(tn_meshgrid)(const tn_inputs *xs, tn_tensor **out, const tn_grid_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_grid_opts, o, opts);
    tn__call_begin(&c, "tn_meshgrid");
    size_t n = xs ? xs->n : 0;
    tn__node *made[TN_MAX_RANK] = {0}, **nodes = tn__in_all("meshgrid", xs);
    bool ok = nodes && tn__meshgrid(nodes, n, o.xy, made);
    tn__free(nodes);
    if (n > TN_MAX_RANK) {
        tn__call_done(&c);
        poisoned("tn_meshgrid", out, n);
        return false;
    }
    if (!ok) memset(made, 0, sizeof made);
    return tn__call_end_all(&c, "tn_meshgrid", made, n, out) && ok;
}

/* ---- joining, padding, repeating ---- */

tn_tensor *(tn_cat)(const tn_inputs *xs, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_cat");
    tn__node **nodes = tn__in_all("cat", xs), *y = nodes ? tn__cat(nodes, xs->n, axis) : NULL;
    tn__free(nodes);
    return tn__call_end(&c, y);
}

tn_tensor *(tn_stack)(const tn_inputs *xs, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_stack");
    tn__node **nodes = tn__in_all("stack", xs), *y = nodes ? tn__stack(nodes, xs->n, axis) : NULL;
    tn__free(nodes);
    return tn__call_end(&c, y);
}

tn_tensor *(tn_pad)(tn_tensor *t, const tn_shape *pairs, const tn_pad_opts *opts)
{
    tn__call c;
    TN__OPTS(tn_pad_opts, o, opts);
    tn__call_begin(&c, "tn_pad");
    tn__node *x = tn__in(t);
    tn__pad_mode m = o.mode == TN_PAD_REFLECT     ? TN__PAD_REFLECT
                     : o.mode == TN_PAD_REPLICATE ? TN__PAD_REPLICATE
                     : o.mode == TN_PAD_CIRCULAR  ? TN__PAD_CIRCULAR
                                                  : TN__PAD_CONSTANT;
    bool ok = x && (pairs || tn__fail(TN_ENULL, "pad: the pairs are NULL: give SHAPE(..)"));
    return tn__call_end(&c, ok ? tn__pad_pairs(x, pairs->d, pairs->n, m, o.value) : NULL);
}

tn_tensor *(tn_pad_to)(tn_tensor *t, const tn_shape *s, double value)
{
    tn__call c;
    tn__call_begin(&c, "tn_pad_to");
    tn__node *x = tn__in(t);
    return tn__call_end(&c,
                        x && tn__shape_read("pad_to", s) ? tn__pad_to(x, s->d, s->n, value) : NULL);
}

tn_tensor *(tn_repeat)(tn_tensor *t, const tn_shape *reps)
{
    tn__call c;
    tn__call_begin(&c, "tn_repeat");
    tn__node *x = tn__in(t);
    return tn__call_end(&c, x && tn__shape_read("repeat", reps) ? tn__repeat(x, reps->d, reps->n)
                                                                : NULL);
}

tn_tensor *(tn_repeat_interleave)(tn_tensor *t, int64_t reps, int axis)
{
    tn__call c;
    tn__call_begin(&c, "tn_repeat_interleave");
    return tn__call_end(&c, tn__repeat_interleave(tn__in(t), reps, axis));
}

tn_tensor *(tn_roll)(tn_tensor *t, const tn_shape *shifts, const tn_axes *ax)
{
    tn__call c;
    tn__call_begin(&c, "tn_roll");
    tn__node *x = tn__in(t), *y = NULL;
    bool ok = x && ((shifts && ax) ||
                    tn__fail(TN_ENULL, "roll: shifts or axes are NULL: give SHAPE(..) and AX(..)"));
    if (ok && ax == tn_axes_all() && shifts->n == 1) { /* as one flat axis */
        int64_t n = tn__node_numel(x);
        tn__node *flat = tn__reshape(tn__strong(x), &n, 1);
        y = tn__reshape_like(tn__roll(flat, shifts->d, (const int[]){0}, 1), x);
    } else if (ok && ax != tn_axes_all() && ax->n == shifts->n) {
        y = tn__roll(x, shifts->d, ax->v, ax->n);
    } else if (ok) {
        tn__fail(TN_EVALUE, "roll: %zu shifts and %zu axes: as many of each, or one shift and ALL",
                 shifts->n, ax->n);
    }
    return tn__call_end(&c, y);
}
