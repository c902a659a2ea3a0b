# SPDX-License-Identifier: MIT
"""Golden rows that complete the kinds of each method: every legal dtype, zeros, NaN, infinities, limits.

Imported after the other parts: where they have a dtype already nothing is added.
"""
import math
from fractions import Fraction
import numpy as np
import torch
import torch.nn.functional as F
from golden import *
from golden_elementwise import both, cast, edge, npdiv, nppow, shift
from golden_math import pool
from golden_shapes import items, sorted_pair, wide_prod, wide_sum

NUM = FLOATS + INTS


def halved(x, dt):
    """Rounded once to float16 or bfloat16, to nearest even, in exact arithmetic."""
    bits, least, top = (11, -14, 65504) if dt == torch.float16 else (8, -126, 0)
    out = []
    for v in x.tolist():
        if not isinstance(v, int) and (v != v or abs(v) == INF):
            out.append(v)
            continue
        q = Fraction(v)
        e = max(q and math.frexp(float(abs(q)))[1] - 1, least)
        if q and abs(q) >= Fraction(2) ** (e + 1):
            e += 1
        unit = Fraction(2) ** (e - bits + 1)
        r = round(q / unit) * unit
        out.append(math.copysign(float(r), v) if not top or abs(r) <= top else math.copysign(INF, r))
    return T(out, F64).to(dt)


def flt(y, dt):
    """What a float function gives for operands of the dtype."""
    return y.to(dt if dt in FLOATS else F32)


def wide(x):
    return x.double() if x.dtype != torch.uint64 else T(x.numpy().astype(np.float64), F64)


def narrow(y, dt):
    """Whole numbers of float64 to the dtype."""
    return T(y.numpy().astype(np_of(dt)), dt) if dt in INTS else y.to(dt)


# ---- elements that only move ----


def moved(f, x):
    """f on the bits of x, whose pads are zeros."""
    return [y.contiguous().view(x.dtype) for y in f(signed(x))]


def moving(name, shape, f, p, ins=lambda x: [x]):
    """Every dtype without a row, zeros, NaN, infinities and limits through one movement."""
    n = int(np.prod(shape))
    one = lambda x: f(x) if isinstance(f(x), (list, tuple)) else [f(x)]  # noqa: E731
    for d in missing(name, ALL):
        x = rand(*shape, dt=d)
        row(name, "dtypes", ins(x), moved(one, x), p, tol=0)
    for d in (F32, torch.int8):
        x = special(n, d).reshape(shape)
        row(name, "edges", ins(x), moved(one, x), p, tol=0)


S35 = (3, 5)
for n in ("tn_reshape", "tn_view"):
    moving(n, S35, lambda x: x.reshape(5, 3), [5, 3])
moving("tn_expand", (1, 7), lambda x: x.expand(3, 7), [3, 7])
moving("tn_permute", S35, lambda x: x.permute(1, 0), [1, 0])
moving("tn_transpose", S35, lambda x: x.T, [1, 0])
moving("tn_T", S35, lambda x: x.T, [])
moving("tn_shrink", S35, lambda x: x[1:3, 0:4], [1, 3, 0, 4])
moving("tn_shrink_to", S35, lambda x: x[:2, :4], [2, 4])
moving("tn_flip", S35, lambda x: x.flip(0, 1), [0, 1])
moving("tn_squeeze", (1, 7), lambda x: x[0], [0])
moving("tn_unsqueeze", (7,), lambda x: x[None], [0])
moving("tn_flatten", S35, lambda x: x.flatten(), [0, -1])
moving("tn_unflatten", (15,), lambda x: x.reshape(3, 5), [0, 3, 5])
moving("tn_diagonal", S35, lambda x: x.diagonal(1), [1, 0, 1])
moving("tn_unfold", (7,), lambda x: x.unfold(0, 3, 2), [0, 3, 2])
moving("tn_split", (7,), lambda x: x.split(3), [0, 3])
moving("tn_chunk", (7,), lambda x: x.chunk(3), [0, 3])
moving("tn_meshgrid", (7,), lambda x: torch.meshgrid(x, x, indexing="ij"), [0], lambda x: [x, x])
moving("tn_cat", (7,), lambda x: torch.cat([x, x]), [0], lambda x: [x, x])
moving("tn_stack", (7,), lambda x: torch.stack([x, x]), [0], lambda x: [x, x])
moving("tn_pad", (7,), lambda x: F.pad(x, [1, 2]), [0, 0, 1, 2])
moving("tn_pad_to", (7,), lambda x: F.pad(x, [0, 2]), [0, 9])
moving("tn_repeat", (7,), lambda x: x.repeat(2), [2])
moving("tn_repeat_interleave", (7,), lambda x: x.repeat_interleave(2), [2, 0])
moving("tn_roll", (7,), lambda x: x.roll(3, 0), [0, 3, 0])
moving("tn_diag", (7,), torch.diag, [])
moving("tn_tril", S35, torch.tril, [0])
moving("tn_triu", S35, torch.triu, [0])
p, ts = items(slice(None), T([2, 0, -1], I32))
moving("tn_index", S35, lambda x: x[:, [2, 0, -1]], p, lambda x: [x] + ts)
p1, ts1 = items(T([2, 0], I32))
moving("tn_setitem", (7,), lambda x: torch.cat([x[1:2], x[1:2], x[1:2], x[3:]]), p1, lambda x: [x] + ts1 + [x[1:2]])
at = T([6, 0, 3, 1, 2], I64)
moving("tn_gather", (7,), lambda x: x[at], [0], lambda x: [x, at.int()])
moving("tn_scatter", (7,), lambda x: x.scatter(0, at, x[:5]), [0, 0], lambda x: [x, at.int(), x[:5]])
mask = T([1, 0, 1, 1, 1, 1, 0], BOOL)
moving("tn_masked_select", (7,), lambda x: torch.cat([x[mask], x[:0], x.new_zeros(2)]), [7, 0], lambda x: [x, mask])
moving("tn_interpolate", (1, 1, 7), lambda x: x.repeat_interleave(3, -1), [1, 0, 21])
for n in ("tn_full_like", "tn_const_like"):
    row(n, "dtypes", [T([1, 0, 1], BOOL), T(1, BOOL)], T([1, 1, 1], BOOL))
    for d in (F32, torch.int8):
        row(n, "edges", [special(7, d), T(2, d)], torch.full((7,), 2, dtype=d))
for n, v in (("tn_zeros_like", 0), ("tn_ones_like", 1), ("tn_empty_like", 0)):
    for d in (F32, torch.int8):
        row(n, "edges", [special(7, d)], torch.full((7,), v, dtype=d))
for v in (T(0.0), T(-0.0), T(NAN), T(INF), T(-INF), T(np.int8(-128), torch.int8), T(np.int8(127), torch.int8), T(0, torch.uint8), T(255, torch.uint8)):
    row("tn_full", "edges", [v], v.expand(3), [0, 3])
for d in missing("tn_one_hot", INTS):
    x = T(np.array([2, 0, 3]), d)
    row("tn_one_hot", "dtypes", [x], (x.long()[:, None] == torch.arange(3)).int(), [3])
row("tn_one_hot", "edges", [edge(torch.int8)], torch.stack([(wide(edge(torch.int8)) == v).int() for v in range(3)], 1), [3])
x = special(7)
row("tn_shrink_to", "size0", [rand(0, 3)], torch.zeros(0, 2), [-1, 2])
row("tn_masked_select", "edges", [x, T(1, BOOL).expand(7)], x, [7, 0.0])

# ---- creation ----
for d in ALL:
    if d != BOOL:
        row("tn_arange", "dtypes", [], narrow(torch.arange(5, dtype=F64), d), [IDS[d], 0, 5, 1])
    row("tn_eye", "dtypes", [], torch.eye(3, 5).to(d), [IDS[d], 3, 5])
    if d in NUM:
        row("tn_linspace", "dtypes", [], narrow(torch.linspace(0, 8, 5, dtype=F64), d), [IDS[d], 0, 8, 5])

# ---- two operands ----
for d in missing("tn_pow", [BOOL]):
    a, b = T([0, 0, 1, 1, 1], d), T([0, 1, 0, 1, 1], d)
    row("tn_pow", "dtypes", [a, b], a | ~b)
    for mode in (0, 1, 2):
        y = a.float() / b.float()
        row("tn_div", "dtypes", [a, b], [y, torch.trunc(y), torch.floor(y)][mode], [mode])
Z = T([0.0, -0.0, 0.0, INF, -INF, INF, 1.0, -1.0, NAN]), T([1.0, 1.0, -1.0, 1.0, 2.0, INF, INF, INF, 1.0])
for n, f in (("tn_mod", torch.remainder), ("tn_fmod", torch.fmod)):
    row(n, "edges", list(Z), f(*Z))
for n in ("tn_isclose", "tn_allclose"):
    for d in missing(n, NUM + [BOOL]) + [torch.int8, torch.uint8]:
        a = edge(d) if d in (torch.int8, torch.uint8) else rand(5, dt=d)
        b = a.clone()
        if n == "tn_isclose":
            b[1] = b[0]
        y = torch.isclose(wide(a), wide(b))
        row(n, "dtypes", [a, b], y if n == "tn_isclose" else y.all(), [1e-5, 1e-8, 0])
for d in (torch.int8, torch.uint8, F32):
    a, c = special(7, d), T([1, 0, 1, 0, 1, 0, 1], BOOL)
    b = a.flip(0)
    row("tn_where", "edges", [c, a, b], torch.where(c, a, b))
    row("tn_masked_fill", "edges", [a, c, b], torch.where(c, b, a))
for n in ("tn_clamp", "tn_clip"):
    x, lo, hi = T([0, 1, 1, 0], BOOL), T([0, 0, 1, 1], BOOL), T([1, 0, 1, 1], BOOL)
    row(n, "dtypes", [x, lo, hi], (x | lo) & hi, [1, 1])
    for d in (torch.int8, torch.uint8):
        row(n, "edges", [edge(d), T(np.int64(3), d), T(np.int64(100), d)], torch.clamp(edge(d), 3, 100), [1, 1])
row("tn_lerp", "edges", [T([0.0, -0.0, INF, -INF, 1.0]), T([1.0, -0.0, INF, 1.0, -INF]), T([0.5, 0.5, 0.5, 0.5, 0.25])],
    T([0.5, -0.0, NAN, NAN, -INF]))

# ---- in place: the result has the dtype of the operand that is written ----
IN_PLACE = {"iadd": (torch.add, np.add), "isub": (torch.sub, np.subtract), "imul": (torch.mul, np.multiply), "idiv": (torch.div, None),
            "ifloordiv": (lambda a, b: torch.floor(a / b), npdiv), "imod": (torch.remainder, None), "ipow": (torch.pow, nppow)}
for n, (tf, nf) in IN_PLACE.items():
    name = "tn_" + n
    for d in missing(name, NUM):
        a, b = rand(5, dt=d, lo=0.5, hi=3), rand(5, dt=d, lo=0.5, hi=3)
        if d in INTS:
            a, b = narrow(wide(a).abs(), d), narrow(wide(b).abs() + 1, d)
        if n == "idiv" and d in INTS:
            y = cast(wide(a) / wide(b), d)
        elif n == "imod" and d in INTS:
            y = narrow(torch.remainder(wide(a), wide(b)), d)
        else:
            y = both(tf, nf)(a, b)
        row(name, "dtypes", [a, b], y, tol=4)
    row(name, "edges", [T([0.0, -0.0, INF, -INF, NAN, 1.0, 2.0]), T([1.0, 2.0, 2.0, 1.0, 1.0, INF, NAN])],
        tf(T([0.0, -0.0, INF, -INF, NAN, 1.0, 2.0]), T([1.0, 2.0, 2.0, 1.0, 1.0, INF, NAN])))
    e, one = edge(torch.int8), T(np.full(6, 1), torch.int8)
    row(name, "edges", [e, one], {"iadd": T(np.add(e.numpy(), one.numpy())), "isub": T(np.subtract(e.numpy(), one.numpy())), "imod": one * 0}.get(n, e).to(torch.int8))
T01, T10 = T([0, 0, 1, 1, 1], BOOL), T([0, 1, 0, 1, 1], BOOL)
for n, y in (("iadd", T01 | T10), ("imul", T01 & T10), ("ipow", T01 | ~T10)):
    row("tn_" + n, "dtypes", [T01, T10], y)
row("tn_idiv", "dtypes", [T01, T([1, 1, 1, 1, 1], BOOL)], T01)
row("tn_ifloordiv", "dtypes", [T01, T([1, 1, 1, 1, 1], BOOL)], T01)
for n, nf in (("iand", np.bitwise_and), ("ior", np.bitwise_or), ("ixor", np.bitwise_xor), ("ilshift", shift(True)), ("irshift", shift(False))):
    for d in missing("tn_" + n, INTS + ([BOOL] if "shift" not in n else [])):
        a, b = rand(5, dt=d), rand(5, dt=d)
        row("tn_" + n, "dtypes", [a, b], torch.from_numpy(np.asarray(nf(a.numpy(), b.numpy()))))

# ---- the sign of a zero ----
Z = T([0.0, -0.0])
for n in "sin tan asin atan sinh tanh asinh atanh erf trunc floor ceil round sqrt softsign silu swish square abs neg".split():
    row("tn_" + n, "edges", [Z], T([0.0, 0.0]) if n in ("square", "abs") else -Z if n == "neg" else Z, tol=0)
row("tn_round", "edges", [T([-0.5, 0.5, -0.25, -1.5, 1.0])], T([-0.0, 0.0, -0.0, -2.0, 1.0]), tol=0)
a, b = T([0.0, -0.0, 0.0, -0.0]), T([0.0, 0.0, -0.0, -0.0])
row("tn_add", "edges", [a, b], a + b, tol=0)
row("tn_sub", "edges", [a, b], a - b, tol=0)
row("tn_mul", "edges", [a, b + T([1.0, 1.0, -1.0, -1.0])], a * (b + T([1.0, 1.0, -1.0, -1.0])), tol=0)
row("tn_copysign", "edges", [a, b], torch.copysign(a, b), tol=0)
row("tn_where", "edges", [T([1, 0, 1, 0], BOOL), a, b], torch.where(T([1, 0, 1, 0], BOOL), a, b), tol=0)

# ---- reductions over axis 1 of (3, 5): keepdim, dtype, biased, correction, number of axes, axes ----


def reducing(name, f, dts, p, tol=4.0, shape=(3, 5), limits=True):
    for d in missing(name, dts):
        row(name, "dtypes", [rand(*shape, dt=d)], f(rand_last()), p, tol=tol)
    x = T([[0.0, -0.0, INF], [-INF, NAN, 1.0], [-0.0, -0.0, 0.0], [-INF, -INF, 2.0], [INF, INF, 1.0]])
    row(name, "edges", [x], f(x), p, tol=tol)
    for d in (torch.int8, torch.uint8) if limits else ():
        x = edge(d).reshape(2, 3)
        row(name, "edges", [x], f(x), p, tol=tol)


last = []


def rand_last():
    return last[-1]


_rand = rand


def rand(*shape, **o):  # noqa: F811: remembers what it made
    last.append(_rand(*shape, **o))
    return last[-1]


P = [0, 0, 0, 0, 1, 1]
reducing("tn_sum", lambda x: wide_sum(x, (1,), False), ALL, P)
reducing("tn_prod", lambda x: wide_prod(x, (1,), False) if x.dtype != BOOL else x.all(1), ALL, P)
for n, f, g in (("tn_max", torch.amax, np.max), ("tn_min", torch.amin, np.min)):
    reducing(n, lambda x, f=f, g=g: f(x, 1) if x.dtype in FLOATS else torch.from_numpy(g(x.numpy(), 1)), ALL, P)
reducing("tn_any", lambda x: (wide(x) != 0).any(1), ALL, P)
reducing("tn_all", lambda x: (wide(x) != 0).all(1), ALL, P)
reducing("tn_mean", lambda x: flt(wide(x).mean(1), x.dtype), ALL, P)
reducing("tn_var", lambda x: flt(wide(x).var(1), x.dtype), ALL, P, tol=8)
reducing("tn_std", lambda x: flt(wide(x).std(1), x.dtype), ALL, P, tol=8)
reducing("tn_var_mean", lambda x: [flt(wide(x).var(1), x.dtype), flt(wide(x).mean(1), x.dtype)], ALL, P, tol=8)
reducing("tn_std_mean", lambda x: [flt(wide(x).std(1), x.dtype), flt(wide(x).mean(1), x.dtype)], ALL, P, tol=8)
reducing("tn_logsumexp", lambda x: flt(torch.logsumexp(wide(x), 1), x.dtype), ALL, P, tol=8)
for n, f in (("tn_argmax", torch.argmax), ("tn_argmin", torch.argmin)):
    reducing(n, lambda x, f=f: f(wide(x), 1).int(), ALL, P)
for n, f in (("tn_softmax", torch.softmax), ("tn_log_softmax", torch.log_softmax), ("tn_softmin", lambda x, a: torch.softmax(-x, a))):
    reducing(n, lambda x, f=f: flt(f(wide(x), 1), x.dtype), ALL, P, tol=8)
reducing("tn_normalize", lambda x: flt(F.normalize(wide(x), dim=1), x.dtype), ALL, [1, 2, 1e-12], tol=8)
reducing("tn_layernorm", lambda x: flt(F.layer_norm(wide(x), x.shape[1:]), x.dtype), ALL, [1e-5, 1], tol=32)
c = T([1.5, -0.5, 2.0])
for d in missing("tn_batchnorm", ALL):
    x = rand(2, 3, dt=d)
    w, b, m, s = (rand(3, dt=d) if d != BOOL and d not in UNSIGNED else T([1, 0, 1], d) for _ in range(4))
    if d in FLOATS:
        y = ((wide(x) - wide(m)) * wide(w) * wide(s) + wide(b)).to(d)
        row("tn_batchnorm", "dtypes", [x, w, b, m, s], y, [1], tol=16)
x = T([[0.0, -0.0, INF], [-INF, NAN, 1.0]])
row("tn_batchnorm", "edges", [x, c, c, c, c], (x - c) * c * c + c, [1], tol=16)

# ---- running reductions and sorting ----
SUMS = {BOOL: np.int32, torch.int8: np.int32, torch.int16: np.int32, torch.uint8: np.uint32, torch.uint16: np.uint32}
for d in [BOOL, torch.int8, torch.uint8]:
    x = edge(d) if d != BOOL else rand(7, dt=d)
    row("tn_cumsum", "edges", [x], torch.from_numpy(np.cumsum(x.numpy(), dtype=SUMS.get(d))), [0])
    row("tn_cumprod", "edges", [x], torch.from_numpy(np.cumprod(x.numpy(), dtype=np_of(d))), [0])
for n, f in (("tn_cummax", torch.cummax), ("tn_cummin", torch.cummin)):
    for d in missing(n, ALL) + [torch.int8, torch.uint8]:
        x = edge(d) if d in (torch.int8, torch.uint8) else rand(7, dt=d)
        v, i = f(wide(x) if d != torch.int64 else x, 0)
        row(n, "dtypes", [x], [v.to(d), i.int()], [0])
x = T([0.0, -0.0, INF, 1.0, -INF, NAN, 2.0])
for n, f in (("tn_cumsum", torch.cumsum), ("tn_cumprod", torch.cumprod), ("tn_logcumsumexp", torch.logcumsumexp)):
    row(n, "edges", [x], f(x, 0), [0], tol=4)
row("tn_cummax", "edges", [x], [T([0.0, 0.0, INF, INF, INF, NAN, NAN]), torch.cummax(x, 0)[1].int()], [0])
row("tn_cummin", "edges", [x], [torch.cummin(x, 0)[0], torch.cummin(x, 0)[1].int()], [0])
for d in missing("tn_logcumsumexp", ALL):
    x = rand(7, dt=d)
    row("tn_logcumsumexp", "dtypes", [x], torch.logcumsumexp(wide(x), 0).float(), [0], tol=8)
for d in [BOOL, torch.int8, torch.uint8, F32]:
    x = {BOOL: _rand(7, dt=BOOL), F32: T([0.0, NAN, -0.0, INF, -INF, 1.0])}.get(d, edge(d) if d in INTS else None)
    v, i = sorted_pair(x.to(torch.uint8) if d == BOOL else x, 0, True)
    row("tn_topk", "edges", [x], [v[:3].to(d), i[:3]], [3, 0, 0])
    for desc in (0, 1):
        v, i = sorted_pair(x.to(torch.uint8) if d == BOOL else x, 0, bool(desc))
        row("tn_sort", "dtypes", [x], [v.to(d), i], [0, desc])
        row("tn_argsort", "dtypes", [x], i, [0, desc])
row("tn_topk", "size0", [_rand(0, 5)], [torch.zeros(0, 2), torch.zeros(0, 2, dtype=I32)], [2, 1, 0])

# ---- scatter_reduce, nonzero ----
for d in missing("tn_scatter_reduce", INTS + FLOATS + [BOOL]) + [torch.int8, torch.uint8]:
    x, s, i = _rand(5, dt=d), _rand(3, dt=d), T([1, 2, 2], I64)
    if d in (torch.int8, torch.uint8) and d in have["tn_scatter_reduce"]:
        x, s = edge(d)[:5], edge(d)[:3]
    if d == BOOL:
        y = x.clone()
        for k, v in zip(i.tolist(), s.tolist()):
            y[k] |= v
        row("tn_scatter_reduce", "dtypes", [x, i.int(), s], y, [0, 0, 0])
        continue
    for by, f in ((0, np.add), (3, np.maximum), (4, np.minimum)):
        y = wide(x).numpy().copy() if d in FLOATS else x.numpy().copy()
        f.at(y, i.numpy(), wide(s).numpy() if d in FLOATS else s.numpy())
        row("tn_scatter_reduce", "dtypes", [x, i.int(), s], T(y).to(d) if d in FLOATS else T(y, d), [0, by, 0], tol=4)
x, s, i = T([0.0, -0.0, INF, -INF, NAN, 1.0]), T([1.0, -0.0, 1.0, INF, 1.0]), T([0, 1, 2, 3, 4], I64)
for by, name in enumerate(("sum", "prod", "mean", "amax", "amin")):
    row("tn_scatter_reduce", "edges", [x, i.int(), s], x.scatter_reduce(0, i, s, reduce=name), [0, by, 0], tol=4)
for x in [_rand(7, dt=d) for d in missing("tn_nonzero", ALL)] + [special(7), edge(torch.int8), edge(torch.uint8)]:
    w = torch.nonzero(wide(x)).int()[:3]
    z = torch.full((3, 1), 9, dtype=I32)
    z[:len(w)] = w
    row("tn_nonzero", "dtypes", [x], z, [3, 9])

# ---- products, convolution, pooling ----


SUM_OF = {BOOL: I32, torch.int8: I32, torch.int16: I32, torch.uint8: torch.uint32, torch.uint16: torch.uint32}


def product(f, sums, *xs):
    """f in float64 or on whole numbers, in the operands' dtype or in that of their sums."""
    d = xs[0].dtype
    if sums and d in SUM_OF:
        return narrow(f(*[x.double() for x in xs]), SUM_OF[d])
    if d in FLOATS:
        return f(*[x.double() for x in xs]).to(d)
    return narrow(f(*[x.double() for x in xs]), d) if d in INTS else f(*[x.double() for x in xs]) != 0


def producing(name, f, ins, params, text="", tol=16.0, dts=ALL, sums=False):
    for d in missing(name, dts):
        xs = [_rand(*s, dt=d) if d not in SIGNED + UNSIGNED else narrow(wide(_rand(*s, dt=d)).abs() % 3, d) for s in ins]
        row(name, "dtypes", xs, product(f, sums, *xs), params, text, tol)
    xs = [special(int(np.prod(s))).reshape(s) for s in ins]
    if sums:  # convolutions pad with zeros, and an infinite weight times such a zero is NaN
        xs[1] = _rand(*ins[1])
    row(name, "edges", xs, product(f, sums, *xs), params, text, tol)
    xs = [T(np.resize(np.array([-128, 127, 0, 1], np.int8), s), torch.int8) for s in ins]
    row(name, "edges", xs, narrow_wrap(f(*[x.double() for x in xs]), I32 if sums else torch.int8), params, text, tol)


def narrow_wrap(y, d):
    return T(y.numpy().astype(np.int64).astype(np_of(d)), d)


for n in ("tn_matmul", "tn_dot"):
    producing(n, torch.matmul, [(3, 5), (5, 3)], [0])
producing("tn_imatmul", torch.matmul, [(3, 3), (3, 3)], [])
producing("tn_linear", lambda x, w, b: x @ w + b, [(3, 5), (5, 3), (3,)], [])
producing("tn_einsum", lambda a, b: a @ b, [(3, 5), (5, 3)], [0], text="ij,jk->ik")
C2 = [2, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0]
producing("tn_conv2d", F.conv2d, [(1, 3, 5, 5), (3, 3, 3, 3)], C2, sums=True)
producing("tn_conv_transpose2d", F.conv_transpose2d, [(1, 3, 3, 5), (3, 3, 3, 3)], C2, sums=True)
row("tn_conv_transpose2d", "size0", [_rand(0, 3, 3, 3), _rand(3, 2, 2, 2)], torch.zeros(0, 2, 4, 4), C2)
row("tn_conv_transpose2d", "prime", [(x := _rand(3, 3, 5, 3)), (w := _rand(3, 5, 3, 3))], F.conv_transpose2d(x.double(), w.double()).float(), C2, tol=16)
M = pool(2, (3, 3), s=(2, 2))
for d in missing("tn_max_pool2d", ALL) + [torch.int8, torch.uint8, F32]:
    fresh = d not in have["tn_max_pool2d"]
    x = _rand(1, 1, 5, 7, dt=d) if fresh else special(35, d).reshape(1, 1, 5, 7)
    x = x if d != F32 else torch.where(torch.isnan(x) & (torch.arange(5)[:, None] % 3 > 0), T(1.0), x)  # a NaN a window
    v, i = F.max_pool2d(wide(x), (3, 3), (2, 2), return_indices=True)
    row("tn_max_pool2d", "dtypes", [x], [narrow(v, d), i.int()], M)
for d in missing("tn_avg_pool2d", ALL) + [torch.int8, torch.uint8, F32]:
    fresh = d not in have["tn_avg_pool2d"]
    x = _rand(1, 1, 5, 7, dt=d) if fresh else special(35, d).reshape(1, 1, 5, 7)
    row("tn_avg_pool2d", "dtypes", [x], flt(F.avg_pool2d(wide(x), (3, 3), (2, 2)), d), M, tol=4)
U = pool(2, (2, 2), out=(5, 7))
v, i = F.max_pool2d(_rand(1, 3, 5, 7), 2, return_indices=True)
for d in missing("tn_max_unpool2d", ALL) + [F32]:
    x = special(18, d).reshape(1, 3, 2, 3) if d == F32 else _rand(*v.shape, dt=d)
    y = F.max_unpool2d(wide(x), i, 2, output_size=(5, 7))
    row("tn_max_unpool2d", "dtypes", [x, i.int()], narrow(y, d), U)
i = T([[[0, 2, 4]]], I64)
x = _rand(1, 1, 3)
row("tn_max_unpool2d", "prime", [x, i.int()], F.max_unpool1d(x, i, 2, output_size=(7,)), pool(1, (2,), out=(7,)))
row("tn_max_unpool2d", "edges", [edge(torch.int8)[:3].reshape(1, 1, 3), i.int()], narrow(F.max_unpool1d(wide(edge(torch.int8)[:3].reshape(1, 1, 3)), i, 2, output_size=(7,)), torch.int8), pool(1, (2,), out=(7,)))
row("tn_max_unpool2d", "size0", [_rand(0, 3, 2, 2), torch.zeros(0, 3, 2, 2, dtype=I32)], torch.zeros(0, 3, 4, 4), pool(2, (2, 2)))
for d in missing("tn_scaled_dot_product_attention", FLOATS):
    q = _rand(2, 5, 4, dt=d)
    row("tn_scaled_dot_product_attention", "dtypes", [q, q, q], F.scaled_dot_product_attention(q.double(), q.double(), q.double()).to(d), [0, 0], tol=32)
q = _rand(3, 5, 7)
row("tn_scaled_dot_product_attention", "prime", [q, q, q], F.scaled_dot_product_attention(q.double(), q.double(), q.double()).float(), [0, 0], tol=32)
row("tn_scaled_dot_product_attention", "size0", [_rand(0, 5, 4)] * 3, torch.zeros(0, 5, 4), [0, 0])
q, k = T([[0.0, -0.0, 1.0], [INF, -INF, NAN], [1.0, 1.0, 1.0]]), _rand(5, 3)
row("tn_scaled_dot_product_attention", "edges", [q, k, k], F.scaled_dot_product_attention(q.double(), k.double(), k.double()).float(), [0, 0], tol=32)

# ---- losses ----
for d in missing("tn_cross_entropy", FLOATS):
    x, t = _rand(7, 5, dt=d), T(rng.integers(0, 5, 7), I64)
    for n in ("tn_cross_entropy", "tn_sparse_categorical_crossentropy"):
        row(n, "dtypes", [x, t.int()], F.cross_entropy(x.double(), t).to(d), [0, 0, 0, 0], tol=16)
    row("tn_nll_loss", "dtypes", [x, t.int()], F.nll_loss(x.double(), t).to(d), [0, 0, 0, 0], tol=16)
    p, y = _rand(5, dt=d, lo=0.1, hi=0.9), _rand(5, dt=BOOL).to(d)
    row("tn_binary_crossentropy", "dtypes", [p, y], F.binary_cross_entropy(p.double(), y.double()).to(d), [0, 0, 0, 0], tol=64)
    row("tn_binary_crossentropy_logits", "dtypes", [p, y], F.binary_cross_entropy_with_logits(p.double(), y.double()).to(d), [0, 0, 0, 0], tol=16)
x, t = T([[0.0, -0.0, 1.0], [INF, 0.0, 1.0], [-INF, 0.0, 1.0], [-0.0, NAN, 0.0]]), T([1, 1, 1, 0], I64)
for n in ("tn_cross_entropy", "tn_sparse_categorical_crossentropy"):
    row(n, "edges", [x, t.int()], F.cross_entropy(x, t, reduction="none"), [2, 0, 0, 0], tol=4)
row("tn_nll_loss", "edges", [x, t.int()], F.nll_loss(x, t, reduction="none"), [2, 0, 0, 0])
x, y = T([0.0, -0.0, INF, -INF, NAN]), T([1.0, 0.0, 0.5, 0.5, 1.0])
row("tn_binary_crossentropy_logits", "edges", [x, y], T([np.log(2), np.log(2), INF, INF, NAN]), [2, 0, 0, 0], tol=4)
p, y = T([0.0, -0.0, 1.0, 0.25, NAN]), T([0.0, 0.0, 1.0, 1.0, 1.0])
row("tn_binary_crossentropy", "edges", [p, y], torch.cat([F.binary_cross_entropy(p[:4], y[:4], reduction="none"), T([NAN])]), [2, 0, 0, 0], tol=4)
for d in missing("tn_cross_entropy", INTS + [BOOL]):
    x, t = _rand(7, 5, dt=d), T(rng.integers(0, 5, 7), I64)
    for n in ("tn_cross_entropy", "tn_sparse_categorical_crossentropy"):
        row(n, "dtypes", [x, t.int()], F.cross_entropy(wide(x), t).float(), [0, 0, 0, 0], tol=16)
    row("tn_nll_loss", "dtypes", [x, t.int()], F.nll_loss(wide(x), t).float(), [0, 0, 0, 0], tol=16)
    p, y = T([0, 1, 1], d), T([0, 1, 1], d)
    row("tn_binary_crossentropy", "dtypes", [p, y], T(0.0), [0, 0, 0, 0])
    x, y = _rand(5, dt=d), T([0, 1, 1, 0, 1], d)
    row("tn_binary_crossentropy_logits", "dtypes", [x, y], F.binary_cross_entropy_with_logits(wide(x), wide(y)).float(), [0, 0, 0, 0], tol=16)
for d in (torch.int8, torch.uint8):
    x, t = edge(d).reshape(2, 3), T([1, 0], I64)
    for n in ("tn_cross_entropy", "tn_sparse_categorical_crossentropy"):
        row(n, "edges", [x, t.int()], F.cross_entropy(wide(x), t, reduction="none").float(), [2, 0, 0, 0], tol=16)
    row("tn_nll_loss", "edges", [x, t.int()], F.nll_loss(wide(x), t, reduction="none").float(), [2, 0, 0, 0], tol=16)
    row("tn_binary_crossentropy_logits", "edges", [edge(d), T([0, 1, 1, 0, 1, 0], d)], F.binary_cross_entropy_with_logits(wide(edge(d)), wide(T([0, 1, 1, 0, 1, 0], d)), reduction="none").float(), [2, 0, 0, 0], tol=16)

# ---- what takes integers as numbers ----
for d in missing("tn_logaddexp", INTS + [BOOL]) + [torch.int8]:
    a, b = (edge(d), edge(d)) if d in have["tn_logaddexp"] else (_rand(5, dt=d), _rand(5, dt=d))
    row("tn_logaddexp", "dtypes", [a, b], torch.logaddexp(wide(a), wide(b)).float(), tol=2)
for d in missing("tn_lerp", INTS) + [torch.int8]:
    a, b, w = (edge(d),) * 3 if d in have["tn_lerp"] else (_rand(5, dt=d), _rand(5, dt=d), T(np.array([0, 1, 1, 0, 1]), d))
    row("tn_lerp", "dtypes", [a, b, w], a if d in have["tn_lerp"] else torch.where(wide(w) != 0, signed(b), signed(a)).view(d))
for d in missing("tn_hardtanh", INTS) + [torch.int8]:
    x = edge(d) if d in have["tn_hardtanh"] else _rand(5, dt=d)
    row("tn_hardtanh", "dtypes", [x], narrow(torch.clamp(wide(x), -1, 1), d), [-1, 1])
row("tn_hardtanh", "dtypes", [T([0, 1, 1], BOOL)], T([0, 1, 1], BOOL), [-1, 1])
row("tn_linspace", "dtypes", [], T([0, 1, 1], BOOL), [IDS[BOOL], 0, 2, 3])
for d in missing("tn_logcumsumexp", INTS) + [torch.int8, torch.uint8]:
    row("tn_logcumsumexp", "edges", [edge(d)], torch.logcumsumexp(wide(edge(d)), 0).float(), [0], tol=8)
for d in missing("tn_batchnorm", INTS + [BOOL]) + [torch.int8]:
    x = edge(d).reshape(2, 3) if d in have["tn_batchnorm"] else _rand(2, 3, dt=d)
    c = T([1, 0, 1], d)
    row("tn_batchnorm", "dtypes", [x, c, c, c, c], ((wide(x) - wide(c)) * wide(c) * wide(c) + wide(c)).float(), [1], tol=16)
for d in missing("tn_scaled_dot_product_attention", INTS + [BOOL]) + [torch.int8]:
    q = edge(d).reshape(3, 2) if d in have["tn_scaled_dot_product_attention"] else _rand(5, 3, dt=d)
    row("tn_scaled_dot_product_attention", "dtypes", [q, q, q], F.scaled_dot_product_attention(wide(q)[None], wide(q)[None], wide(q)[None])[0].float(), [0, 0], tol=32)
for n, dt, p in [("cast", d, [IDS[d]]) for d in (torch.uint8, F64)] + [("float", F32, []), ("double", F64, []), ("half", torch.float16, []), ("bfloat16", torch.bfloat16, []), ("short", torch.int16, []), ("int", I32, []), ("long", I64, []), ("bool", BOOL, [])]:
    x = T([0.0, -0.0, NAN, INF, -INF])
    row("tn_" + n, "edges", [x], cast(x, dt), p, tol=0)
for d, to in ((torch.int8, torch.uint8), (torch.int16, torch.float16), (torch.uint16, torch.bfloat16), (torch.uint32, F32), (torch.uint64, F64)):
    x = edge(d) if to not in FLOATS else _rand(5, dt=d)
    row("tn_bitcast", "dtypes", [x], x.view(to), [IDS[to]])
# once, not by float32 first: halves of a unit of the last place of float16 and bfloat16, and a little more or less
for dt, bits in ((torch.float16, 11), (torch.bfloat16, 8)):
    u = 2.0 ** -bits
    tie = [1 + u, 1 + 3 * u, -1 - u, -1 - 3 * u, 2.0 ** -14 * (1 + u), 1 + u * (1 + 2.0 ** -30), 1 + u * (1 - 2.0 ** -30), -1 - u * (1 + 2.0 ** -30),
           -1 - 3 * u * (1 - 2.0 ** -40), 2.0 ** -20 * (1 + 2.0 ** -40), 65520 * (1 - 2.0 ** -45), 65520.0, -1e300, 1e-300, 5.0 * 2.0 ** -25 * (1 + 2.0 ** -45), NAN, INF]
    x = T(tie, F64)
    row("tn_cast", "edges", [x], halved(x, dt), [IDS[dt]], tol=0)
    x = T(rng.uniform(-1, 1, 31) * 2.0 ** rng.integers(-27, 16, 31), F64)
    row("tn_cast", "edges", [x], halved(x, dt), [IDS[dt]], tol=0)
for d in (I32, I64, torch.uint32, torch.uint64):
    top = 2 ** (np.iinfo(np_of(d)).bits - 2)
    x = T(np.array([top + top // 256, top + top // 256 + 1, top + top // 256 - 1, top + 3 * (top // 256) - 1, np.iinfo(np_of(d)).max], np_of(d)), d)
    row("tn_cast", "edges", [x], halved(x, torch.bfloat16), [IDS[torch.bfloat16]], tol=0)
row("tn_unflatten", "prime", [(x := _rand(3, 5))], x[:, None], [0, 3, 1])

# ---- answers ----
for name, f in (("tn_nbytes", lambda x: T(np.int64(x.numel() * x.element_size()), I64)), ("tn_element_size", lambda x: T(np.int64(x.element_size()), I64)), ("tn_is_floating_point", lambda x: T(x.dtype in FLOATS, BOOL))):
    for kind, x in [("rank0", _rand()), ("size0", _rand(0, 3)), ("prime", _rand(3, 7))] + [("dtypes", _rand(5, dt=d)) for d in ALL] + [("edges", special(7)), ("edges", edge(torch.int8))]:
        row(name, kind, [x], f(x))

# ---- sides that are broadcast ----
a, b = _rand(3, 5), _rand(2, 5, 3)
for n in ("tn_matmul", "tn_dot"):
    row(n, "left", [a, b], (a.double() @ b.double()).float(), [0], tol=16)
    row(n, "right", [b, a], (b.double() @ a.double()).float(), [0], tol=16)
q, k = _rand(1, 5, 4), _rand(3, 7, 4)
for x, y in ((q, k), (k, q)):
    row("tn_scaled_dot_product_attention", "left", [x, y, y], F.scaled_dot_product_attention(x.double().expand(3, -1, -1), y.double().expand(3, -1, -1), y.double().expand(3, -1, -1)).float(), [0, 0], tol=32)
x, y = _rand(5, 1), _rand(3, dt=BOOL).float()
for k, a, b in (("left", x, y), ("right", y, x.sigmoid())):
    e = F.binary_cross_entropy_with_logits(*[v.contiguous() for v in torch.broadcast_tensors(a.double(), b.double())], reduction="none")
    row("tn_binary_crossentropy_logits", k, [a, b], e.float(), [2, 0, 0, 0], tol=16)
    p = torch.cat([a.sigmoid()]).float()
    row("tn_binary_crossentropy", k, [p, b], F.binary_cross_entropy(*[v.contiguous() for v in torch.broadcast_tensors(p.double(), b.double())], reduction="none").float(), [2, 0, 0, 0], tol=16)

# ---- exponentials far out: a rounded product with log2(e) would be 60 units of the last place off ----
x = T(np.concatenate([np.linspace(-87.0, -60.0, 37), np.linspace(-4.5, 4.5, 19), np.linspace(60.0, 88.0, 31)]))
row("tn_exp", "edges", [x], torch.exp(x.double()).float(), tol=0.15)
row("tn_sigmoid", "edges", [x], torch.sigmoid(x.double()).float(), tol=0.3)
x2 = torch.cat([T([0.0]), x[:37]]).reshape(1, 38)
row("tn_softmax", "edges", [x2], torch.softmax(x2.double(), 1).float(), [0, 0, 0, 0, 1, 1], tol=0.4)
x = T(np.linspace(-700.0, 700.0, 61), F64)
row("tn_exp", "edges", [x], torch.from_numpy(np.exp(x.numpy().astype(np.longdouble)).astype(np.float64)), tol=0.15)
