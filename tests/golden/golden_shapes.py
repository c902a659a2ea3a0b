# SPDX-License-Identifier: MIT
"""Golden rows of creation, reductions, running reductions, sorting, movement, indexing."""
import itertools
import numpy as np
import torch
from golden import *

# ---- creation: parameters dtype, then the arguments ----


def create(name, cases):
    for kind, p, y in cases:
        row(name, kind, [], y, p)


SHAPES = [("rank0", ()), ("size0", (0, 3)), ("prime", (3, 7)), ("prime", (2, 3, 5))]
for n, f in (("tn_zeros", torch.zeros), ("tn_ones", torch.ones), ("tn_empty", torch.zeros)):
    create(n, [(k, [0, *s], f(s)) for k, s in SHAPES] + [("dtypes", [IDS[d], 5], f(5, dtype=d)) for d in INTS + FLOATS + [BOOL]])
for k, s in SHAPES:
    row("tn_full", k, [T(1.5)], torch.full(s, 1.5), [0, *s])
    row("tn_full", k, [T(3, I32)], torch.full(s, 3.0), [IDS[F32], *s])
for d in INTS + FLOATS + [BOOL]:
    row("tn_full", "dtypes", [T(1, d)], torch.full((5,), 1, dtype=I64).to(d), [0, 5])
for n, v in (("tn_zeros_like", 0), ("tn_ones_like", 1), ("tn_empty_like", 0)):
    for k, x in [("rank0", rand()), ("size0", rand(0, 3)), ("prime", rand(3, 7))] + [("dtypes", rand(5, dt=d)) for d in INTS + FLOATS + [BOOL]]:
        row(n, k, [x], torch.full(x.shape, v, dtype=I64).to(x.dtype))
for n in ("tn_full_like", "tn_const_like"):
    for k, x in [("rank0", rand()), ("size0", rand(0, 3)), ("prime", rand(3, 7))] + [("dtypes", rand(5, dt=d)) for d in INTS + FLOATS]:
        row(n, k, [x, T(2.0)], torch.full(x.shape, 2, dtype=I64).to(x.dtype))
create("tn_arange", [("prime", [0, 0, 7, 1], torch.arange(7, dtype=I32)), ("edges", [0, 5, 5, 1], torch.arange(0, dtype=I32)), ("edges", [0, 5, 2, 1], torch.arange(0, dtype=I32)),
                     ("prime", [0, 3, 20, 4], torch.arange(3, 20, 4, dtype=I32)), ("prime", [0, 7, -4, -3], torch.arange(7, -4, -3, dtype=I32)),
                     ("dtypes", [0, 0.5, 3, 0.5], torch.arange(0.5, 3, 0.5)), ("dtypes", [IDS[F64], 0, 1, 0.125], torch.arange(0, 1, 0.125, dtype=F64)),
                     ("dtypes", [IDS[I64], 0, 5, 1], torch.arange(5)), ("dtypes", [IDS[torch.float16], 0, 5, 1], torch.arange(5).half()), ("dtypes", [IDS[torch.uint8], 2, 9, 2], torch.arange(2, 9, 2, dtype=torch.uint8))])
create("tn_linspace", [("prime", [0, 0, 1, 7], torch.linspace(0, 1, 7)), ("prime", [0, -3, 2.5, 11], torch.linspace(-3, 2.5, 11)), ("edges", [0, 2, 3, 1], torch.linspace(2, 3, 1)), ("edges", [0, 2, 3, 0], torch.zeros(0)),
                       ("dtypes", [IDS[F64], 0, 1, 5], torch.linspace(0, 1, 5, dtype=F64)), ("dtypes", [IDS[torch.float16], 0, 2, 5], torch.linspace(0, 2, 5).half()), ("prime", [0, 5, -5, 3], torch.linspace(5, -5, 3))])
create("tn_eye", [("prime", [0, 3, 3], torch.eye(3)), ("prime", [0, 2, 5], torch.eye(2, 5)), ("prime", [0, 5, 2], torch.eye(5, 2)), ("edges", [0, 0, 3], torch.eye(0, 3)), ("dtypes", [IDS[I32], 3, 4], torch.eye(3, 4, dtype=I32)), ("dtypes", [IDS[BOOL], 3, 3], torch.eye(3, dtype=BOOL))])
for n, f in (("tn_tril", torch.tril), ("tn_triu", torch.triu)):
    for k, x, d in [("size0", rand(0, 3), 0), ("prime", rand(5, 7), 0), ("prime", rand(5, 3), 1), ("prime", rand(3, 5), -1), ("prime", rand(2, 3, 3), -9), ("prime", rand(2, 3, 3), 9), ("edges", edge(F32).reshape(2, 3), 0), ("edges", edge(F32).reshape(3, 2), -1)] + \
            [("dtypes", rand(3, 3, dt=t), 0) for t in (F64, torch.float16, I32, torch.int8, BOOL)]:
        row(n, k, [x], f(x, d), [d])
for k, x, c in [("rank0", T(2, I32), 4), ("size0", torch.zeros(0, dtype=I32), 3), ("prime", T([0, 2, 1, 4, 3], I32), 5), ("prime", T([[0, 2], [1, 1]], I64), 3), ("edges", T([-1, 5, 0], I32), 3), ("dtypes", T([0, 2], torch.uint8), 3), ("dtypes", T([0, 2], torch.int8), 3)]:
    row("tn_one_hot", k, [x], (x.long().unsqueeze(-1) == torch.arange(c)).int(), [c])

# ---- reductions: keepdim, dtype, biased, correction, number of axes (-1: ALL), axes ----


def red(x, f, axes, keep):
    if axes is None:
        axes = tuple(range(x.dim()))
    return f(x, axes, keep)


def reduce(name, f, dts, special, empty=True, tol=4.0, one=False, extra=(0, 0, 0)):
    def add(kind, x, axes, keep=0):
        p = [keep, *extra, -1 if axes is None else len(axes), *(axes or ())]
        y = f(x, tuple(range(x.dim())) if axes is None else tuple(a % max(x.dim(), 1) for a in axes), bool(keep))
        row(name, kind, [x], y, p, tol=tol)
    add("rank0", rand(), None)
    add("prime", rand(3, 7), None)
    add("prime", rand(3, 7), (0,))
    add("prime", rand(3, 7), (-1,), 1)
    add("prime", rand(2, 3, 5), (1,))
    if not one:
        add("prime", rand(2, 3, 5), (0, 2))
        add("prime", rand(2, 3, 5), (2, 1), 1)
    add("prime", rand(2, 3, 5), None, 1)
    if empty:
        add("size0", rand(0, 3), None)
        add("size0", rand(0, 3), (0,))
    add("size0", rand(3, 0), (0,))
    for d in dts:
        add("dtypes", rand(3, 5, dt=d), (1,))
    for x in special:
        add("edges", x, (1,))


def nred(x, axes, keep, f):
    return torch.from_numpy(np.asarray(f(x.numpy(), axis=axes, keepdims=keep))).reshape(np.asarray(f(x.numpy(), axis=axes, keepdims=keep)).shape)


def wide_sum(x, axes, keep):
    if x.dtype in FLOATS:
        return (x.double().sum(axes, keepdim=keep) if axes else x.double()).to(x.dtype)
    acc = {BOOL: np.int32, torch.int8: np.int32, torch.int16: np.int32, torch.int32: np.int32, torch.int64: np.int64, torch.uint8: np.uint32, torch.uint16: np.uint32, torch.uint32: np.uint32, torch.uint64: np.uint64}[x.dtype]
    return nred(x, axes, keep, lambda v, **k: np.sum(v, dtype=acc, **k))


def wide_prod(x, axes, keep):
    if x.dtype in FLOATS:
        y = x.double()
        for a in sorted(axes, reverse=True):
            y = y.prod(a, keepdim=keep)
        return y.to(x.dtype)
    return nred(x, axes, keep, lambda v, **k: np.prod(v, dtype=v.dtype, **k))


NANS = [T([[1.0, NAN, 2.0], [3.0, 2.0, 1.0]]), T([[INF, -INF, 2.0], [-INF, -INF, -INF]]), T([[-0.0, 0.0], [0.0, -0.0]])]
NUM = FLOATS + INTS
reduce("tn_sum", wide_sum, NUM + [BOOL], NANS + [T([[127, 127, 127]], torch.int8), T([[2**31 - 1, 1]], I32)])
for x, d in [(rand(3, 5, dt=torch.int8), I64), (rand(3, 5), F64), (rand(3, 5, dt=torch.float16), F32)]:
    row("tn_sum", "dtypes", [x], x.to(d).sum(1), [0, IDS[d], 0, 0, 1, 1], tol=4)
reduce("tn_prod", wide_prod, NUM, NANS + [T([[127, 2, 1]], torch.int8)])


def numpy_or_torch(tf, nf):
    def f(x, axes, keep):
        if x.dtype in FLOATS:
            return tf(x, axes, keepdim=keep) if axes else x
        return nred(x, axes, keep, nf)
    return f


reduce("tn_max", numpy_or_torch(torch.amax, np.max), NUM + [BOOL], NANS, empty=False)
reduce("tn_min", numpy_or_torch(torch.amin, np.min), NUM + [BOOL], NANS, empty=False)
reduce("tn_any", lambda x, a, k: nred(x.float() != 0, a, k, np.any), FLOATS + [I32, torch.uint8, BOOL], NANS)
reduce("tn_all", lambda x, a, k: nred(x.float() != 0, a, k, np.all), FLOATS + [I32, torch.uint8, BOOL], NANS)


def flt(f):
    """In float64, back to the float dtype; integers give float32."""
    def g(x, axes, keep):
        y = f(x.double(), axes, keep)
        return y.to(x.dtype if x.dtype in FLOATS else F32)
    return g


mean = flt(lambda x, a, k: x.mean(a, keepdim=k) if a else x)
reduce("tn_mean", mean, NUM + [BOOL], NANS)
for b, c in ((0, 1), (1, 0), (0, 2)):
    for n, f in (("tn_var", torch.var), ("tn_std", torch.std)):
        g = flt(lambda x, a, k, f=f, c=c: f(x, a, correction=c, keepdim=k) if a else x * NAN if c else x * 0)
        reduce(n, g, FLOATS + [I32, torch.uint8], NANS, extra=(0, b, 0 if c == 1 else c), tol=8)
        two = lambda x, a, k, g=g: [g(x, a, k), mean(x, a, k)]  # noqa: E731
        reduce(n + "_mean", two, FLOATS + [I32], NANS, extra=(0, b, 0 if c == 1 else c), tol=8)
reduce("tn_logsumexp", flt(lambda x, a, k: torch.logsumexp(x, a, keepdim=k) if a else x), FLOATS + [I32], NANS, tol=8)


def arg(tf):
    def f(x, axes, keep):
        if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
            x = x.long()
        if len(axes) == x.dim() and x.dim() != 1:
            y = tf(x.reshape(-1), dim=0)
            return y.int().reshape((1,) * x.dim() if keep else ())
        return (tf(x, dim=axes[0], keepdim=keep) if axes else torch.zeros(())).int()
    return f


for n, tf in (("tn_argmax", torch.argmax), ("tn_argmin", torch.argmin)):
    reduce(n, arg(tf), NUM, NANS + [T([[1, 3, 3, 2, 3]], I32)], empty=False, one=True)


def soft(f):
    def g(x, axes, keep):
        d = x.dtype if x.dtype in FLOATS else F32
        x = x.double()
        if not axes:
            return f(x.reshape(1), 0).reshape(()).to(d)
        if len(axes) == 1:
            return f(x, axes[0]).to(d)
        rest = [i for i in range(x.dim()) if i not in axes]
        order = rest + list(axes)
        y = x.permute(order)
        s = y.shape
        y = f(y.reshape(*s[:len(rest)], int(np.prod(s[len(rest):]))), -1).reshape(s)
        return y.permute([order.index(i) for i in range(x.dim())]).to(d)
    return g


BIGS = [T([[1.0, NAN, 2.0]]), T([[-INF, 0.0, 1.0]]), T([[1000.0, 999.0, -1000.0]]), T([[0.0, -80.0, -100.0]])]
reduce("tn_softmax", soft(torch.softmax), FLOATS + [I32], BIGS, empty=False, tol=8)
reduce("tn_log_softmax", soft(torch.log_softmax), FLOATS + [I32], BIGS, empty=False, tol=8)
reduce("tn_softmin", soft(lambda x, a: torch.softmax(-x, a)), FLOATS + [I32], BIGS[:1] + BIGS[2:], empty=False, tol=8)
for x, a, p, e in [(rand(3, 5), 1, 2, 1e-12), (rand(3, 5), 0, 1, 1e-12), (rand(2, 3, 4), -1, 3, 1e-12), (rand(2, 3), 1, INF, 1e-12), (torch.zeros(2, 3), 1, 2, 1e-12), (rand(0, 3), 1, 2, 1e-12), (rand(3, 5, dt=F64), 1, 2, 1e-3),
                   (rand(3, 5, dt=torch.float16), 1, 2, 1e-12), (T([[3.0, 0.0, -4.0]]), 1, 0, 1e-12)]:
    y = torch.nn.functional.normalize(x.double(), p=p, dim=a, eps=e).to(x.dtype)
    row("tn_normalize", "size0" if 0 in x.shape else "prime" if x.dtype == F32 else "dtypes", [x], y, [a, p if p else -1, e], tol=8)
row("tn_normalize", "edges", [T([[NAN, 1.0], [3.0, 4.0]])], T([[NAN, NAN], [0.6, 0.8]]), [1, 2, 1e-12], tol=4)
row("tn_normalize", "rank0", [T(-3.0)], T(-1.0), [0, 2, 1e-12])

# ---- running reductions: axis; sorting: axis, descending ----
for n, tf, nf, dts in (("tn_cumsum", torch.cumsum, np.cumsum, NUM), ("tn_cumprod", torch.cumprod, np.cumprod, FLOATS + INTS), ("tn_cummax", torch.cummax, None, FLOATS + [I32, torch.int8, I64]),
                       ("tn_cummin", torch.cummin, None, FLOATS + [I32, torch.int8, I64]), ("tn_logcumsumexp", torch.logcumsumexp, None, FLOATS)):
    def run(x, a):
        if x.dtype in FLOATS or nf is None:
            y = tf(x.double() if x.dtype in FLOATS else x, a)
            if isinstance(y, torch.Tensor):
                return y.to(x.dtype)
            return [y[0].to(x.dtype), y[1].int()]
        d = np_of(x.dtype)
        if n == "tn_cumsum":
            d = {torch.int8: np.int32, torch.int16: np.int32, torch.uint8: np.uint32, torch.uint16: np.uint32}.get(x.dtype, d)
        return torch.from_numpy(nf(x.numpy(), axis=a, dtype=d))
    for k, x, a in [("rank0", rand(), 0), ("size0", rand(0, 3), 0), ("size0", rand(3, 0), 0), ("prime", rand(7), 0), ("prime", rand(3, 7), 1), ("prime", rand(2, 5, 3), 1), ("prime", rand(5, 3), -2),
                    ("edges", T([1.0, NAN, 3.0, -1.0]), 0), ("edges", T([3.0, -INF, INF, INF, 1.0]), 0)] + [("dtypes", rand(5, dt=d), 0) for d in dts]:
        row(n, k, [x], run(x, a), [a], tol=8)
row("tn_logcumsumexp", "edges", [T([-200.0, 0.0, 90.0, -INF])], torch.logcumsumexp(T([-200.0, 0.0, 90.0, -INF], F64), 0).float(), [0], tol=4)


def sorted_pair(x, a, desc):
    """Stable; NaN is the greatest."""
    if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
        v, i = torch.sort(x.long(), dim=a, descending=desc, stable=True)
        return v.to(x.dtype), i.int()
    v, i = torch.sort(x, dim=a, descending=desc, stable=True)
    return v, i.int()


SORTS = [("rank0", rand(), 0), ("size0", rand(0, 3), 0), ("size0", rand(3, 0), 1), ("prime", rand(7), 0), ("prime", rand(3, 7), 1), ("prime", rand(5, 3), 0), ("prime", rand(2, 3, 5), 1), ("edges", T([2.0, NAN, -INF, INF, 2.0, NAN, -0.0, 0.0]), 0), ("edges", T([3, 1, 3, 1, 3, 2], I32), 0), ("edges", edge(torch.int8), 0)] + \
    [("dtypes", rand(7, dt=d), 0) for d in FLOATS + INTS]
for k, x, a in SORTS:
    for desc in (0, 1):
        v, i = sorted_pair(x, a, bool(desc))
        row("tn_sort", k, [x], [v, i], [a, desc])
        row("tn_argsort", k, [x], i, [a, desc])
for k, x, n, a, small in [("rank0", rand(), 1, 0, 0), ("size0", rand(3, 5), 0, 1, 0), ("prime", rand(7), 3, 0, 0), ("prime", rand(3, 7), 2, 1, 1), ("prime", rand(5, 3), 5, 0, 0), ("prime", rand(2, 5, 3), 2, 1, 0), ("edges", T([2.0, NAN, -INF, INF]), 2, 0, 0), ("edges", T([2.0, NAN, -INF, INF]), 2, 0, 1)] + \
        [("dtypes", rand(7, dt=d), 3, 0, 0) for d in FLOATS + INTS]:
    v, i = sorted_pair(x, a, not small)
    if x.dim():
        v, i = v.narrow(a, 0, n) if v.dtype not in (torch.uint16, torch.uint32, torch.uint64) else v.long().narrow(a, 0, n).to(v.dtype), i.narrow(a, 0, n)
    row("tn_topk", k, [x], [v, i], [n, a, small])

# ---- movement ----


def move(name, cases):
    """cases: kind, x, parameters, f"""
    for k, x, p, f in cases:
        row(name, k, [x], f(x), p)


def kinds(x):
    return "rank0" if x.dim() == 0 else "size0" if x.numel() == 0 else "prime" if x.dtype == F32 else "dtypes"


def moves(name, f, cases):
    """cases: x, parameters; f(x, parameters)"""
    move(name, [(kinds(x), x, p, lambda x, p=p: f(x, p)) for x, p in cases])


D = [rand(6, dt=torch.int8), rand(6, dt=F64), rand(6, dt=BOOL)]
for n in ("tn_reshape", "tn_view"):
    moves(n, lambda x, p: x.reshape(p), [(rand(), [1, 1]), (rand(1), []), (rand(0, 3), [3, 0]), (rand(3, 7), [7, 3]), (rand(3, 7), [-1]), (rand(2, 3, 5), [5, -1, 2]), (rand(2, 3, 5), [30])] + [(x, [2, 3]) for x in D])
moves("tn_expand", lambda x, p: x.expand([a if a != -1 else b for a, b in zip(p, (1,) * (len(p) - x.dim()) + tuple(x.shape))]), [(rand(), [3]), (rand(1, 3), [5, 3]), (rand(3), [2, 3]), (rand(2, 1), [-1, 3]), (rand(0, 1), [0, 3]), (rand(1, 3, 1), [2, 3, 5])] + [(x, [2, 6]) for x in D])
moves("tn_permute", lambda x, p: x.permute([int(a) for a in p]), [(rand(), []), (rand(3, 7), [1, 0]), (rand(2, 3, 5), [2, 0, 1]), (rand(2, 3, 5), [-1, 1, 0]), (rand(0, 3), [1, 0]), (rand(2, 3, 2, 2), [3, 1, 0, 2]), (rand(2, 3, dt=I32), [1, 0])])
moves("tn_transpose", lambda x, p: x.transpose(*p), [(rand(), [0, 0]), (rand(3, 7), [1, 0]), (rand(3, 7), [-1, -2]), (rand(2, 3, 5), [0, 2]), (rand(2, 3, 5), [1, 1]), (rand(0, 3), [0, 1]), (rand(2, 3, dt=I32), [1, 0])])
moves("tn_T", lambda x, p: x.permute(list(range(x.dim()))[::-1]), [(rand(), []), (rand(3), []), (rand(3, 7), []), (rand(2, 3, 5), []), (rand(0, 3), []), (rand(2, 3, dt=I32), [])])
moves("tn_shrink", lambda x, p: x[tuple(slice(a, b) for a, b in zip(p[::2], p[1::2]))] if p else x, [(rand(), []), (rand(7), [2, 5]), (rand(3, 7), [1, 3, 0, 7]), (rand(3, 7), [0, 3, 3, 3]), (rand(0, 3), [0, 0, 1, 2]), (rand(2, 3, 5), [1, 2, 0, 2, 4, 5])] + [(x, [1, 4]) for x in D])
moves("tn_shrink_to", lambda x, p: x[tuple(slice(0, a if a >= 0 else None) for a in p)] if p else x, [(rand(), []), (rand(7), [5]), (rand(3, 7), [2, -1]), (rand(3, 7), [0, 3]), (rand(2, 3, 5), [1, 2, 4])] + [(x, [4]) for x in D])
moves("tn_flip", lambda x, p: x.flip([int(a) for a in p]), [(rand(7), [0]), (rand(3, 7), [0, 1]), (rand(3, 7), [-1]), (rand(2, 3, 5), [1]), (rand(0, 3), [0]), (rand(), [])] + [(x, [0]) for x in D])
move("tn_squeeze", [(kinds(x), x, p, lambda x, p=p: x.squeeze() if not p else x.squeeze(tuple(int(a) for a in p))) for x, p in [(rand(), []), (rand(1, 3, 1), []), (rand(1, 3, 1), [0]), (rand(1, 3, 1), [1]), (rand(1, 3, 1), [-1, 0]), (rand(0, 1), []), (rand(1, 3, dt=I32), [0])]])
moves("tn_unsqueeze", lambda x, p: x.unsqueeze(p[0]), [(rand(), [0]), (rand(3), [0]), (rand(3), [-1]), (rand(3, 7), [1]), (rand(3, 7), [-3]), (rand(0, 3), [1]), (rand(3, dt=I32), [0])])
moves("tn_flatten", lambda x, p: x.flatten(*p), [(rand(), [0, -1]), (rand(3, 7), [0, -1]), (rand(2, 3, 5), [1, -1]), (rand(2, 3, 5), [0, 1]), (rand(2, 3, 2, 2), [1, 2]), (rand(0, 3), [0, -1]), (rand(2, 3, dt=I32), [0, -1])])
moves("tn_unflatten", lambda x, p: x.unflatten(p[0], p[1:]), [(rand(6), [0, 2, 3]), (rand(6), [0, -1, 2]), (rand(3, 10), [1, 5, 2]), (rand(10, 3), [0, 5, 2]), (rand(0, 3), [0, 2, 0]), (rand(6, dt=I32), [0, 3, 2])])
moves("tn_diagonal", lambda x, p: x.diagonal(*p), [(rand(3, 3), [0, 0, 1]), (rand(3, 7), [2, 0, 1]), (rand(7, 3), [-1, 0, 1]), (rand(5, 3), [4, 0, 1]), (rand(2, 3, 5), [1, 1, 2]), (rand(2, 3, 5), [0, 2, 0]), (rand(0, 3), [0, 0, 1]), (rand(3, 3, dt=I32), [0, 1, 0]), (rand(3, 3), [3, 0, 1])])
moves("tn_unfold", lambda x, p: x.unfold(*p), [(rand(7), [0, 3, 2]), (rand(7), [0, 7, 1]), (rand(3, 7), [1, 2, 3]), (rand(7, 3), [0, 2, 1]), (rand(2, 5, 3), [1, 3, 1]), (rand(7, dt=I32), [0, 2, 2]), (rand(7, 0), [0, 2, 2])])
for n, f in (("tn_split", lambda x, p: x.split([int(a) for a in p[1:]] if len(p) > 2 else int(p[1]), dim=int(p[0]))), ("tn_chunk", lambda x, p: x.chunk(int(p[1]), dim=int(p[0])))):
    cases = [(rand(7), [0, 3]), (rand(3, 7), [1, 2]), (rand(7, 3), [0, 7]), (rand(2, 5, 3), [-2, 2]), (rand(7, dt=I32), [0, 3]), (rand(3, 0), [0, 2])] + ([(rand(7), [0, 2, 4, 1]), (rand(3, 5), [1, 0, 5])] if n == "tn_split" else [])
    for x, p in cases:
        row(n, kinds(x), [x], list(f(x, p)), p)
for xs, xy in [([rand(3), rand(7)], 0), ([rand(3), rand(7)], 1), ([rand(2), rand(3), rand(5)], 0), ([rand(2), rand(3), rand(5)], 1), ([rand(0), rand(3)], 0), ([rand(3, dt=I32), rand(2, dt=I32)], 0), ([rand(3)], 0)]:
    row("tn_meshgrid", kinds(xs[0]), xs, list(torch.meshgrid(*xs, indexing="xy" if xy else "ij")), [xy])
row("tn_meshgrid", "rank0", [T(2.0), T([1.0, 2.0])], [T([[2.0, 2.0]]), T([[1.0, 2.0]])], [0])
for xs, a in [([rand(3), rand(4)], 0), ([rand(2, 3), rand(2, 1), rand(2, 5)], 1), ([rand(1, 3), rand(4, 3)], -2), ([rand(0, 3), rand(2, 3)], 0), ([rand(3, dt=d) for d in (I32, F32)], 0), ([rand(2, 3)], 0), ([T([NAN, -0.0]), T([INF])], 0), ([rand(2) for _ in range(7)], 0)]:
    row("tn_cat", "edges" if xs[0].numel() == 2 and xs[0].dim() == 1 and len(xs) == 2 else kinds(xs[0]), xs, torch.cat([x.to(xs[-1].dtype) for x in xs], a), [a])
for xs, a in [([rand(3), rand(3)], 0), ([rand(2, 3)] * 3, 1), ([rand(2, 3), rand(2, 3)], -1), ([rand(0, 3), rand(0, 3)], 0), ([rand(), rand(), rand()], 0), ([rand(3, dt=I32), rand(3, dt=I32)], 1), ([T([NAN, -0.0]), T([INF, 1.0])], 0)]:
    row("tn_stack", kinds(xs[0]), xs, torch.stack(xs, a), [a])


def pad(x, p):
    mode, value, pairs = int(p[0]), p[1], [int(a) for a in p[2:]]
    if mode == 0:
        return torch.nn.functional.pad(x.double() if x.dtype == BOOL else x, pairs, value=value).to(x.dtype)
    a = [(0, 0)] * x.dim()
    for i in range(len(pairs) // 2):
        a[x.dim() - 1 - i] = (pairs[2 * i], pairs[2 * i + 1])
    return torch.from_numpy(np.pad(x.numpy(), a, mode={1: "reflect", 2: "edge", 3: "wrap"}[mode]))


moves("tn_pad", pad, [(rand(), [0, 0.0]), (rand(7), [0, 0.0, 1, 2]), (rand(3, 5), [0, 1.5, 1, 0, 2, 1]), (rand(3, 5), [0, -INF, 1, 1]), (rand(3, 5), [0, 0.0, -1, 2, 1, -1]), (rand(0, 3), [0, 1.0, 0, 0, 1, 1]), (rand(3, 5), [1, 0, 2, 1, 1, 2]),
                      (rand(3, 5), [2, 0, 2, 1, 1, 2]), (rand(3, 5), [3, 0, 2, 5, 1, 2]), (rand(3, dt=I32), [0, 7.0, 1, 1]), (rand(3, dt=BOOL), [0, 1.0, 1, 1]), (rand(3, dt=torch.float16), [0, 0.5, 1, 1])])
moves("tn_pad_to", lambda x, p: torch.nn.functional.pad(x, [v for i in reversed(range(x.dim())) for v in (0, int(p[1 + i]) - x.shape[i] if p[1 + i] >= 0 else 0)], value=p[0]), [(rand(), [0.0]), (rand(5), [0.0, 7]), (rand(3, 5), [1.5, 4, -1]), (rand(2, 3, 5), [0, 2, 5, 7]), (rand(0, 3), [2.0, 2, 3]), (rand(3, dt=I32), [7.0, 5])])
moves("tn_repeat", lambda x, p: x.repeat([int(a) for a in p]), [(rand(), [3]), (rand(3), [2]), (rand(3, 5), [2, 3]), (rand(3, 5), [2, 1, 3]), (rand(1, 5), [3, 0]), (rand(0, 3), [2, 2]), (rand(3, dt=I32), [2, 2])])
moves("tn_repeat_interleave", lambda x, p: x.repeat_interleave(p[0], dim=p[1]), [(rand(3), [2, 0]), (rand(3, 5), [2, 1]), (rand(3, 5), [3, 0]), (rand(2, 3, 5), [2, -2]), (rand(0, 3), [2, 0]), (rand(3, dt=I32), [2, 0]), (rand(3), [0, 0])])
moves("tn_roll", lambda x, p: torch.roll(x, [int(a) for a in p[1:1 + (len(p) - 1) // 2]], [int(a) for a in p[1 + (len(p) - 1) // 2:]]) if p[0] == 0 else torch.roll(x, int(p[1])), [(rand(7), [0, 2, 0]), (rand(3, 5), [0, -1, 1]), (rand(3, 5), [0, 1, 12, 0, 1]), (rand(3, 5), [1, 4]), (rand(0, 3), [0, 1, 0]), (rand(3, dt=I32), [0, 1, 0]), (rand(), [1, 3])])
moves("tn_diag", lambda x, p: torch.diag(x), [(rand(3), []), (rand(7), []), (rand(3, 5), []), (rand(5, 3), []), (rand(0), []), (rand(3, dt=I32), []), (T([NAN, -0.0, INF]), [])])

# ---- indexing: items as kind, start, stop, step; kinds: 0 int, 1 slice, 2 new axis, 3 dots, 4 tensor ----
OPEN = -2.0 ** 63


def items(*at):
    """Parameters and tensors of a python index."""
    p, ts = [], []
    for i in at:
        if isinstance(i, slice):
            p += [1, OPEN if i.start is None else i.start, OPEN if i.stop is None else i.stop, i.step or 0]
        elif i is None:
            p += [2, 0, 0, 0]
        elif i is Ellipsis:
            p += [3, 0, 0, 0]
        elif isinstance(i, torch.Tensor):
            p += [4, 0, 0, 0]
            ts.append(i)
        else:
            p += [0, i, 0, 0]
    return p, ts


def npi(at):
    return tuple(i.numpy() if isinstance(i, torch.Tensor) else i for i in at)


x3 = rand(4, 5, 7)
S, E = slice, Ellipsis
i1, i2, ib = T([0, 2, -1], I32), T([[1], [3]], I32), T([3, 0, 1], torch.uint8)
CASES = [(x3, (0,)), (x3, (-1, 2)), (x3, (1, 2, 3)), (x3, (S(1, 3),)), (x3, (S(None, None, 2), S(None, None, -1))), (x3, (E, S(6, 0, -2))), (x3, (None, 0, E, None)), (x3, (S(-3, None), None, S(None, -1))), (x3, (S(3, 1),)), (x3, (S(-100, 100), S(None, None, 3))),
         (x3, (i1,)), (x3, (S(None), i1)), (x3, (E, i1)), (x3, (i1, ib)), (x3, (i2, i1)), (x3, (i1, S(None), i1)), (x3, (0, i1)), (x3, (i2, S(None, None, 2), 0)), (x3, (T(2, I64), S(1, 3))), (x3, (S(None), i1, i2, None)), (x3, (T(np.zeros(0), I32),)),
         (rand(), (None,)), (rand(), (E,)), (rand(0, 3), (S(None), 1)), (rand(7), (S(None, None, -3),)), (rand(7), (S(5, None, -2),)), (edge(F32), (T([2, 0, 1], I32),)), (rand(5, dt=torch.int8), (i1,)), (rand(5, dt=F64), (S(1, 4),)), (rand(5, dt=BOOL), (i1,))]
for x, at in CASES:
    p, ts = items(*at)
    y = torch.from_numpy(np.ascontiguousarray(x.numpy()[npi(at)])).reshape(x.numpy()[npi(at)].shape)
    row("tn_index", kinds(x), [x] + ts, y, p)
for x, at, v in [(x3, (0,), rand(5, 7)), (x3, (S(1, 3), 2), rand(7)), (x3, (S(None, None, 2), S(None, None, -1)), rand()), (x3, (E, S(6, 0, -2)), rand(3)), (x3, (i1,), rand(5, 7)), (x3, (i1, ib), rand(3, 1)), (x3, (S(None), i1), rand()), (rand(7), (T([1, 1, 3], I32),), T([1.0, 2.0, 3.0])),
                 (rand(), (E,), T(3.0)), (rand(0, 3), (S(None), 1), T(1.0)), (rand(5, dt=I32), (i1,), T(2.75)), (rand(3, 5), (T([[1, 0, 1, 0, 1]] * 3, BOOL),), T(9.0)), (rand(3), (S(None),), T([NAN, INF, -0.0]))]:
    p, ts = items(*at)
    y = x.numpy().copy()
    y[npi(at)] = v.numpy()
    row("tn_setitem", "edges" if v.dim() and torch.isnan(v).any() else kinds(x), [x] + ts + [v], torch.from_numpy(y).reshape(x.shape), p)
for x, a, i in [(rand(5), 0, T([0, 4, 2, 2], I64)), (rand(3, 7), 1, T([[0, 6], [1, 1], [5, 2]], I64)), (rand(3, 7), 0, T([[0, 2, 1]], I64)), (rand(2, 3, 5), 1, T(rng.integers(0, 3, (2, 4, 5)), I64)), (rand(2, 3, 5), -1, T(rng.integers(0, 5, (1, 2, 3)), I64)), (rand(5, dt=I32), 0, T([1, 2], I64)), (rand(), 0, T(0, I64)),
                (rand(3, 0), 1, T(np.zeros((3, 0)), I64)), (edge(F32), 0, T([2, 1, 3], I64)), (rand(5, dt=torch.float16), 0, T([1, 2], I64))]:
    row("tn_gather", kinds(x), [x, i.int()], torch.gather(x, a, i), [a])
row("tn_gather", "edges", [T([1.0, 2.0, 3.0]), T([-1, -3], I32)], T([3.0, 1.0]), [0])
for x, a, i, s in [(rand(5), 0, T([0, 4, 2], I64), rand(3)), (rand(3, 7), 1, T([[0, 6], [1, 3], [5, 2]], I64), rand(3, 2)), (rand(3, 7), 0, T([[0, 2, 1]], I64), rand(2, 5)), (rand(2, 3, 5), 1, T(rng.permuted(np.tile(np.arange(3), (2, 5, 1)), axis=2).transpose(0, 2, 1), I64), rand(2, 3, 5)),
                   (rand(5, dt=I32), 0, T([1, 2], I64), rand(2, dt=I32)), (rand(), 0, T(0, I64), rand()), (rand(3, 0), 1, T(np.zeros((3, 0)), I64), rand(3, 0)), (rand(5, dt=F64), 0, T([1, 2], I64), rand(2, dt=F64)), (T([1.0, NAN, 3.0]), 0, T([0, 1], I64), T([NAN, -0.0]))]:
    row("tn_scatter", kinds(x), [x, i.int(), s], x.scatter(a, i, s), [a, 0])
for x, a, i, s in [(rand(5), 0, T([0, 4, 2, 4], I64), rand(4)), (rand(3, 7), 1, T([[0, 6, 6], [1, 3, 1], [5, 2, 5]], I64), rand(3, 3)), (rand(5, dt=I32), 0, T([1, 2, 1], I64), rand(3, dt=I32)), (rand(5, dt=F64), 0, T([1, 2, 2], I64), rand(3, dt=F64)), (rand(2, 3, 5), 1, T(rng.integers(0, 3, (2, 4, 5)), I64), rand(2, 4, 5)), (T([1.0, NAN, 3.0]), 0, T([0, 1, 0], I64), T([NAN, 1.0, 2.0]))]:
    row("tn_scatter", kinds(x), [x, i.int(), s], x.scatter(a, i, s, reduce="add"), [a, 1], tol=4)
    row("tn_scatter", kinds(x), [x, i.int(), s], x.scatter(a, i, s, reduce="multiply"), [a, 2], tol=4)
    for by, name in enumerate(("sum", "prod", "mean", "amax", "amin")):
        for ex in (0, 1):
            if name == "mean" and x.dtype == I32:
                continue
            row("tn_scatter_reduce", "edges" if torch.isnan(x).any() else kinds(x), [x, i.int(), s], x.scatter_reduce(a, i, s, reduce=name, include_self=not ex), [a, by, ex], tol=4)
row("tn_scatter_reduce", "size0", [rand(3, 0), T(np.zeros((3, 0)), I32), rand(3, 0)], torch.zeros(3, 0), [1, 0, 0])
row("tn_scatter_reduce", "rank0", [T(2.0), T(0, I32), T(3.0)], T(5.0), [0, 0, 0])
row("tn_scatter", "edges", [T([1.0, 2.0, 3.0]), T([1, 1], I32), T([5.0, 7.0])], T([1.0, 7.0, 3.0]), [0, 0])
for x, m, n, f in [(rand(7), rand(7, dt=BOOL), 7, 0.0), (rand(3, 5), rand(3, 5, dt=BOOL), 4, 9.0), (rand(3, 5), rand(5, dt=BOOL), 15, 0.0), (rand(5), rand(3, 1, dt=BOOL), 15, 1.5), (rand(), T(1, BOOL), 2, 0.0), (rand(0), rand(0, dt=BOOL), 2, 3.0), (rand(7, dt=I32), rand(7, dt=BOOL), 5, 7.0), (edge(F32), T([1, 1, 1, 0, 1, 1], BOOL), 6, 0.0), (rand(5), rand(5, dt=BOOL), 0, 0.0)]:
    v = torch.masked_select(x, m)[:n]
    y = torch.full((n,), f).to(x.dtype)
    y[:len(v)] = v
    row("tn_masked_select", "broadcast" if x.shape != m.shape else kinds(x), [x, m], y, [n, f])
    if x.dim():
        w = torch.nonzero(x)[:n].int()
        z = torch.full((n, x.dim()), int(f), dtype=I32)
        z[:len(w)] = w
        row("tn_nonzero", kinds(x), [x], z, [n, int(f)])
row("tn_nonzero", "edges", [T([0.0, -0.0, NAN, 1.0])], T([[2], [3], [0]], I32), [3, 0])
