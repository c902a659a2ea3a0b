# SPDX-License-Identifier: MIT
"""Golden rows of random methods: Threefry-2x32 in Python, the distributions from its words.

Element i of a call is word 0 of the block of counter base + i under the seed; each call that draws words moves
the base by as many.
"""
import math
import numpy as np
import torch
from golden import *
from golden_elementwise import threefry

SHAPES = [("rank0", ()), ("size0", (0, 3)), ("prime", (3, 7)), ("prime", (5,)), ("prime", (3, 5, 7))]


class Words:
    """The generator after a seed."""

    def __init__(self, seed):
        self.key, self.at = seed, 0

    def bits(self, s):
        n = math.prod(s)
        w = [threefry(self.at + i, self.key) & 0xffffffff for i in range(n)]
        self.at += n
        return np.array(w, np.uint64).reshape(s)

    def rand(self, s, dt):
        if dt == F64:
            high, low = self.bits(s) >> np.uint64(5), self.bits(s) >> np.uint64(6)
            return (high * 2.0 ** 26 + low) * 2.0 ** -53
        keep = {F32: 24, torch.float16: 11, torch.bfloat16: 8}[dt]
        return (self.bits(s) >> np.uint64(32 - keep)) * 2.0 ** -keep

    def randn(self, s, dt):
        u = F64 if dt == F64 else F32
        angle, r = self.rand(s, u), self.rand(s, u)
        return np.cos(2 * np.pi * angle) * np.sqrt(-2 * np.log(1 - r))


def draw(name, f, before=(), dts=FLOATS, tol=4.0):
    """f(words, shape, dtype) -> float64; parameters: dtype, seed, those of `before`, shape."""
    for k, s in SHAPES:
        row(name, k, [], T(f(Words(7), s, F32), F32), [0, 7, *before, *s], tol=tol)
    for d in dts:
        row(name, "dtypes", [], T(f(Words(11), (5,), d), d), [IDS[d], 11, *before, 5], tol=tol)


for k, s in SHAPES + [("prime", (11,))]:
    row("tn_random_bits", k, [], T(Words(7).bits(s).astype(np.uint32), torch.uint32), [0, 7, *s])
draw("tn_rand", lambda w, s, d: w.rand(s, d))
draw("tn_randn", lambda w, s, d: w.randn(s, d), tol=16)
draw("tn_normal", lambda w, s, d: w.randn(s, d) * 2 + 3, (3, 2), tol=16)
draw("tn_uniform", lambda w, s, d: w.rand(s, d) * 6 - 2, (-2, 4), tol=8)
row("tn_uniform", "dtypes", [], T(Words(3).rand((5,), F32) * 4 - 2 != 0, BOOL), [IDS[BOOL], 3, -2, 2, 5])
row("tn_randperm", "dtypes", [], T(np.argsort(Words(7).bits((5,)), kind="stable") != 0, BOOL), [IDS[BOOL], 7, 5])
for d in INTS:
    row("tn_uniform", "dtypes", [], T(np.floor(Words(3).rand((5,), F32) * 100).astype(np_of(d)), d), [IDS[d], 3, 0, 100, 5])


def fans(s):
    first = s[0] if s else 1
    return first, math.prod(s) / first if first else 0


def bounded(bound):
    def f(w, s, d):
        b = bound(s) if math.prod(s) else 0
        return w.rand(s, d) * 2 * b - b
    return f


GAIN = math.sqrt(2 / (1 + 0.01 ** 2))
draw("tn_scaled_uniform", bounded(lambda s: 1 / math.sqrt(math.prod(s))), tol=8)
draw("tn_glorot_uniform", bounded(lambda s: math.sqrt(6 / sum(fans(s)))), tol=8)
draw("tn_kaiming_uniform", bounded(lambda s: math.sqrt(3 / fans(s)[1]) * GAIN), (0,), tol=8)
draw("tn_kaiming_normal", lambda w, s, d: w.randn(s, d) * (GAIN / math.sqrt(fans(s)[1]) if math.prod(s) else 0), (0,), tol=16)


def randint(w, s, low, high, dt):
    return T((low + (w.bits(s) * np.uint64(high - low) >> np.uint64(32)).astype(np.int64)).astype(np_of(dt)), dt)


for k, s in SHAPES:
    row("tn_randint", k, [], randint(Words(7), s, -3, 40, I32), [0, 7, -3, 40, *s])
for d in INTS:
    row("tn_randint", "dtypes", [], randint(Words(7), (7,), 1, 90, d), [IDS[d], 7, 1, 90, 7])
i = np.iinfo(np.int32)
row("tn_randint", "limits", [], randint(Words(7), (7,), i.min, i.max, I32), [0, 7, i.min, i.max, 7])
for n in (0, 1, 3, 7, 11):
    row("tn_randperm", "prime", [], T(np.argsort(Words(7).bits((n,)), kind="stable").astype(np.int32), I32), [0, 7, n])
for d in INTS + FLOATS:
    row("tn_randperm", "dtypes", [], T(np.argsort(Words(7).bits((5,)), kind="stable").astype(np.float64), F64).to(d) if d in FLOATS else T(np.argsort(Words(7).bits((5,)), kind="stable").astype(np_of(d)), d), [IDS[d], 7, 5])
for n, f in (("tn_rand_like", Words.rand), ("tn_randn_like", Words.randn)):
    for k, s in SHAPES:
        row(n, k, [rand(*s)], T(f(Words(7), s, F32), F32), [7], tol=16)
    for d in FLOATS:
        row(n, "dtypes", [rand(5, dt=d)], T(f(Words(7), (5,), d), d), [7], tol=16)
    row(n, "edges", [T([NAN, INF, -INF, 0.0, -0.0])], T(f(Words(7), (5,), F32), F32), [7], tol=16)


def multinomial(x, samples, again):
    """Whole weights: the running sums are exact."""
    w = x.double().numpy()
    w2, out = w.reshape(-1, w.shape[-1]), []
    words, d = Words(7), F64 if x.dtype == F64 else F32
    u = words.rand((len(w2), samples) if again else w2.shape, d)
    for r, row_u in zip(w2, u):
        c = np.cumsum(r)
        out.append([int((np.round(v * c[-1], 12) >= c[:-1]).sum()) for v in row_u] if again else np.argsort(-np.log(1 - row_u) / r, kind="stable")[:samples].tolist())
    y = T(np.array(out, np.int32), I32)
    return y if w.ndim == 2 else y[0]


for k, x, n, again in [("prime", T([1.0, 0.0, 2.0]), 7, 1), ("prime", T([[1.0, 5.0, 2.0], [4.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), 5, 1), ("prime", T([1.0, 3.0, 2.0, 5.0, 1.0]), 3, 0), ("prime", T([[1.0, 5.0, 2.0]] * 3), 3, 0), ("size0", T(np.zeros((0, 3))), 2, 1)] + \
        [("dtypes", T(np.array([1, 3, 0, 2, 1]), d), 7, 1) for d in ALL]:
    y = multinomial(x, n, again) if x.numel() else torch.zeros(0, n, dtype=I32)
    row("tn_multinomial", k, [x], y, [7, n, again])
for k, x, p in [("rank0", rand(), 0.25), ("size0", rand(0, 3), 0.5), ("prime", rand(3, 7), 0.5), ("prime", rand(5), 0.0), ("prime", rand(3, 5), 1.0), ("edges", T([0.0, -0.0, INF, -INF, NAN, 1.0, 2.0]), 0.25)] + \
        [("dtypes", rand(5, dt=d), 0.5) for d in ALL] + [("edges", edge(torch.int8), 0.5), ("edges", edge(torch.uint8), 0.5)]:
    w = Words(7).bits(tuple(x.shape))
    y = x.double() if x.dtype != torch.uint64 else T(x.numpy().astype(np.float64), F64)
    if p == 1:
        y = y * 0
    elif p:
        y = torch.where(torch.from_numpy(np.asarray(w < np.uint64(p * 2 ** 32)).reshape(tuple(x.shape))), T(0.0, F64), y / (1 - p))
    row("tn_dropout", k, [x], y.to(x.dtype) if x.dtype in FLOATS else y.float(), [7, p], tol=2)
