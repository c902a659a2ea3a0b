# SPDX-License-Identifier: MIT
"""Golden rows of elementwise methods, in-place ones, choices and casts."""
import numpy as np
import torch
import torch.nn.functional as F
from golden import *

np.seterr(all="ignore")

# ---- one operand ----


def unary(name, f, lo=-3.0, hi=3.0, ints=True, special=SPECIAL, keep=False, tol=1.0):
    """f maps float64 to float64; integers become float32 unless keep."""
    def exp(x):
        if x.dtype in FLOATS:
            return f(x.double()).to(x.dtype)
        if keep:
            return f(x)
        return f(x.double()).float()
    def add(kind, x, t=tol):
        row(name, kind, [x], exp(x), tol=t)
    add("rank0", rand(lo=lo, hi=hi))
    add("size0", rand(0, 3))
    add("prime", rand(3, 7, lo=lo, hi=hi))
    add("prime", rand(5, lo=lo, hi=hi))
    for dt in FLOATS:
        add("dtypes", rand(2, 3, dt=dt, lo=lo, hi=hi))
    if ints:
        for dt in (SIGNED + UNSIGNED + [BOOL]) if not keep else keep:
            x = rand(5, dt=dt)
            add("dtypes", x)
    if keep:
        x = rand(5, dt=BOOL)
        row(name, "dtypes", [x], ~x if name == "tn_neg" else x)
    add("edges", T(special))
    add("edges", T([0.0, -0.0, INF, -INF, NAN]))
    if ints:
        add("edges", edge(torch.int8))
        if not keep or torch.uint8 in keep:
            add("edges", edge(torch.uint8))


def npmap(f):
    return lambda x: torch.from_numpy(np.asarray(f(x.numpy()))).reshape(x.shape)


unary("tn_exp", torch.exp, -80, 80)
unary("tn_exp2", torch.exp2, -20, 20)
unary("tn_log", torch.log, 1e-3, 90)
unary("tn_log2", torch.log2, 1e-3, 90)
unary("tn_log10", torch.log10, 1e-3, 90)
unary("tn_sqrt", torch.sqrt, 0, 90)
unary("tn_rsqrt", torch.rsqrt, 1e-2, 90)
unary("tn_reciprocal", torch.reciprocal)
BIG = [0.0, -0.0, NAN, INF, 1e6, 1.5707964, 3.1415927, -12345.67, 100.25]
unary("tn_sin", torch.sin, -9, 9, special=BIG)
unary("tn_cos", torch.cos, -9, 9, special=BIG)
unary("tn_tan", torch.tan, -1.4, 1.4, special=[0.0, -0.0, NAN, INF, 100.25], tol=4)
ONE = [0.0, -0.0, NAN, INF, 1.0, -1.0, 0.5, -0.5, 1e-20, 2.0]
unary("tn_asin", torch.asin, -1, 1, special=ONE)
unary("tn_acos", torch.acos, -1, 1, special=ONE)
unary("tn_atan", torch.atan, -6, 6)
unary("tn_sinh", torch.sinh, -9, 9, special=[0.0, -0.0, NAN, INF, -INF, 1e-20, 1.0, -1.0, 88.9, 0.5])
unary("tn_cosh", torch.cosh, -9, 9, special=[0.0, -0.0, NAN, INF, -INF, 1e-20, 1.0, -1.0, 88.9, 0.5])
unary("tn_tanh", torch.tanh)
unary("tn_asinh", torch.asinh, -9, 9)
unary("tn_acosh", torch.acosh, 1, 9)
unary("tn_atanh", torch.atanh, -1, 1, special=ONE)
unary("tn_erf", torch.erf)
unary("tn_sigmoid", torch.sigmoid, -9, 9)
unary("tn_hardswish", F.hardswish, -5, 5, special=[0.0, -0.0, NAN, INF, 3.0, -3.0])
unary("tn_quick_gelu", lambda x: x * torch.sigmoid(1.702 * x), special=[0.0, -0.0, NAN, INF, 1.0, -1.0])
for n in ("tn_swish", "tn_silu"):
    unary(n, F.silu, special=[0.0, -0.0, NAN, INF, 1.0, -1.0, -80.0])
unary("tn_mish", F.mish, special=[0.0, -0.0, NAN, INF, 1.0, -1.0])
unary("tn_logsigmoid", F.logsigmoid, -9, 9, special=[0.0, -0.0, NAN, INF, -80.0, 1.0])
unary("tn_softsign", F.softsign, special=[0.0, -0.0, NAN, 1e30, -1e30])
ALL_INTS = SIGNED + UNSIGNED
unary("tn_square", lambda x: x * x if x.dtype in FLOATS + SIGNED + [torch.uint8] else npmap(np.square)(x), keep=ALL_INTS)
unary("tn_abs", lambda x: x.abs() if x.dtype in FLOATS + SIGNED else x, keep=ALL_INTS)
unary("tn_sign", lambda x: torch.sign(x) if x.dtype in FLOATS + SIGNED + [BOOL] else npmap(np.sign)(x), keep=ALL_INTS)
unary("tn_neg", lambda x: -x if x.dtype in FLOATS + SIGNED else npmap(np.negative)(x), keep=ALL_INTS)
HALVES = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 0.0, -0.0, NAN, INF, -INF, 0.49999997, 8388609.0, 1e30]
for n, f in (("tn_trunc", torch.trunc), ("tn_floor", torch.floor), ("tn_ceil", torch.ceil), ("tn_round", torch.round)):
    unary(n, lambda x, f=f: f(x) if x.dtype in FLOATS else x, keep=ALL_INTS, special=HALVES)
unary("tn_relu6", lambda x: torch.clamp(x, 0, 6) if x.dtype in FLOATS + SIGNED else npmap(lambda v: np.clip(v, 0, 6))(x), -9, 9, keep=SIGNED + UNSIGNED)
unary("tn_relu", lambda x: torch.relu(x) if x.dtype in FLOATS + SIGNED else x, keep=ALL_INTS)
for n, dt in (("tn_neg", torch.int8), ("tn_abs", torch.int32), ("tn_square", torch.int64)):
    x = edge(dt).numpy()
    row(n, "edges", [edge(dt)], torch.from_numpy({"tn_neg": np.negative, "tn_abs": np.abs, "tn_square": np.square}[n](x)))


def mapped(name, f, xs):
    for kind, x in xs:
        row(name, kind, [x], f(x))


def shapes(dts=ALL, edges=(F32, torch.int8)):
    out = [("rank0", rand()), ("size0", rand(0, 3)), ("prime", rand(3, 7))]
    return out + [("dtypes", rand(5, dt=d)) for d in dts] + [("edges", edge(d)) for d in edges]


mapped("tn_isnan", lambda x: torch.isnan(x.double()), shapes())
mapped("tn_isfinite", lambda x: torch.isfinite(x.double()), shapes())
mapped("tn_logical_not", lambda x: ~(x.double() != 0), shapes())
mapped("tn_bitwise_not", lambda x: npmap(np.invert)(x), [("rank0", rand(dt=I32)), ("size0", rand(0, 3, dt=I32)), ("prime", rand(3, 7, dt=I32))]
       + [("dtypes", rand(5, dt=d)) for d in INTS + [BOOL]] + [("edges", edge(torch.int8)), ("edges", edge(I64))])
for kind, x in shapes():
    row("tn_isinf", kind, [x], torch.isinf(x.double()))
row("tn_isinf", "edges", [edge(F32)], edge(F32) == INF, [0, 1])
row("tn_isinf", "edges", [edge(F32)], edge(F32) == -INF, [1, 0])


def scaled(name, f, args, call=lambda a: [a], special=SPECIAL, tol=1.0, lo=-3, hi=3, ints=True):
    def add(kind, x, a):
        y = f(x.double(), a)
        row(name, kind, [x], y.to(x.dtype) if x.dtype in FLOATS else y.float(), call(a), tol=tol)
    add("rank0", rand(), args[0])
    add("size0", rand(0, 3), args[0])
    for a in args:
        add("prime", rand(3, 5, lo=lo, hi=hi), a)
    for dt in FLOATS + (INTS + [BOOL] if ints else []):
        add("dtypes", rand(5, dt=dt), args[0])
    add("edges", T(special), args[0])
    add("edges", T([0.0, -0.0, INF, -INF, NAN]), args[0])
    if ints:
        add("edges", edge(torch.int8), args[0])


scaled("tn_leaky_relu", F.leaky_relu, [0.01, 0.25])
scaled("tn_elu", F.elu, [1.0, 0.5], special=[0.0, -0.0, NAN, INF, -INF, 1e-6, -1e-6])
scaled("tn_celu", F.celu, [1.0, 0.5], special=[0.0, -0.0, NAN, INF, -INF, 1e-6, -1e-6])
scaled("tn_softplus", lambda x, b: torch.logaddexp(x * b, torch.zeros_like(x)) / b, [1.0, 2.0], special=[0.0, -0.0, NAN, INF, -INF, -20.0, 60.0])
scaled("tn_hardsigmoid", lambda x, a: torch.clamp(x * a[0] + a[1], 0, 1), [(1 / 6, 0.5), (0.25, 0.3)], call=lambda a: list(a))
scaled("tn_hardtanh", lambda x, a: torch.clamp(x, *a), [(-1.0, 1.0), (-2.0, 0.5)], call=lambda a: list(a), ints=False)
scaled("tn_gelu", lambda x, a: F.gelu(x, approximate="none" if a else "tanh"), [0, 1], special=[0.0, -0.0, NAN, INF, 1.0, -1.0])
scaled("tn_selu", lambda x, a: F.selu(x), [0], special=[0.0, -0.0, NAN, INF, -INF, 1e-6, -1e-6])

# ---- two operands ----


def pairs(dts, edges, whole=False, positive=False):
    def r(*s, dt=F32):
        x = rand(*s, dt=dt)
        return x.abs() if positive and dt in FLOATS + SIGNED else x
    base = I32 if whole else F32
    out = [("rank0", r(dt=base), r(dt=base)), ("size0", r(0, 3, dt=base), r(1, 3, dt=base)), ("broadcast", r(3, dt=base), r(2, 3, dt=base)),
           ("broadcast", r(2, 3, dt=base), r(2, 1, dt=base)), ("broadcast", r(2, 1, 3, dt=base), r(5, 1, dt=base)),
           ("prime", r(5, 7, dt=base), r(5, 7, dt=base))]
    out += [("dtypes", r(7, dt=d), r(7, dt=d)) for d in dts]
    for d in edges:
        e = edge(d)
        a, b = np.meshgrid(e.numpy(), e.numpy())
        out.append(("edges", T(a.ravel(), d), T(b.ravel(), d)))
    return out


def binary(name, f, cases, tol=1.0):
    for kind, a, b in cases:
        row(name, kind, [a, b], f(a, b), tol=tol)


def both(tf, nf):
    """Floats by torch in float64, rounded; integers by numpy."""
    def f(a, b):
        if a.dtype in FLOATS:
            y = tf(a.double(), b.double())
            return y.to(a.dtype) if y.dtype in FLOATS else y
        y = nf(a.numpy(), b.numpy())
        return torch.from_numpy(np.asarray(y)).reshape(torch.broadcast_shapes(a.shape, b.shape))
    return f


def npdiv(a, b):
    return np.where(b == 0, 0, np.floor_divide(a, np.where(b == 0, 1, b))).astype(a.dtype)


def npmod(a, b):
    return np.where(b == 0, 0, np.remainder(a, np.where(b == 0, 1, b))).astype(a.dtype)


def npfmod(a, b):
    return np.where(b == 0, 0, np.fmod(a, np.where(b == 0, 1, b))).astype(a.dtype)


def nptrunc(a, b):
    wide = [(0 if y == 0 else int(abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)) for x, y in zip(map(int, np.broadcast_to(a, np.broadcast_shapes(a.shape, b.shape)).ravel()), map(int, np.broadcast_to(b, np.broadcast_shapes(a.shape, b.shape)).ravel()))]
    bits = a.dtype.itemsize * 8
    wide = [((w + (1 << bits - 1)) % (1 << bits)) - (1 << bits - 1) if a.dtype.kind == "i" else w % (1 << bits) for w in wide]
    return np.array(wide, a.dtype).reshape(np.broadcast_shapes(a.shape, b.shape))


EDGES = [F32, torch.int8, I64, torch.uint8]
NUM = FLOATS + INTS
binary("tn_add", both(torch.add, np.add), pairs(NUM + [BOOL], EDGES))
binary("tn_sub", both(torch.sub, np.subtract), pairs(NUM, EDGES))
binary("tn_mul", both(torch.mul, np.multiply), pairs(NUM + [BOOL], EDGES))
binary("tn_maximum", both(torch.maximum, np.maximum), pairs(NUM + [BOOL], EDGES))
binary("tn_minimum", both(torch.minimum, np.minimum), pairs(NUM + [BOOL], EDGES))
for n, tf, nf in (("eq", torch.eq, np.equal), ("ne", torch.ne, np.not_equal), ("lt", torch.lt, np.less), ("le", torch.le, np.less_equal),
                  ("gt", torch.gt, np.greater), ("ge", torch.ge, np.greater_equal)):
    binary("tn_" + n, both(tf, nf), pairs(NUM + [BOOL], EDGES))
for n, nf in (("and", np.bitwise_and), ("or", np.bitwise_or), ("xor", np.bitwise_xor)):
    binary("tn_bitwise_" + n, both(None, nf), pairs(INTS + [BOOL], EDGES[1:], whole=True))


def shift(left):
    def f(a, b):
        bits = a.dtype.itemsize * 8
        A, B = np.broadcast_arrays(a, b)
        out = []
        for x, y in zip(map(int, A.ravel()), map(int, B.ravel())):
            ok = 0 <= y < bits
            v = (x << y if ok else 0) if left else (x >> y if ok else (-1 if x < 0 else 0))
            v &= (1 << bits) - 1
            out.append(v - (1 << bits) if a.dtype.kind == "i" and v >> (bits - 1) else v)
        return np.array(out, a.dtype).reshape(A.shape)
    return f


binary("tn_lshift", both(None, shift(True)), pairs(INTS, EDGES[1:], whole=True))
binary("tn_rshift", both(None, shift(False)), pairs(INTS, EDGES[1:], whole=True))
MOD_EDGE = [T([5.0, -5.0, 5.0, 7.5, NAN, 0.0, 3.0, INF]), T([INF, 3.0, -3.0, 2.0, 1.0, 5.0, 0.0, 2.0])]
for n, tf, nf in (("tn_mod", torch.remainder, npmod), ("tn_fmod", torch.fmod, npfmod)):
    binary(n, both(tf, nf), pairs(NUM, EDGES[1:]), tol=8)
    row(n, "edges", MOD_EDGE, both(tf, nf)(*MOD_EDGE))
binary("tn_copysign", lambda a, b: torch.copysign(a, b) if a.dtype in FLOATS else torch.copysign(a.double(), b.double()).float(),
       pairs(ALL, [F32, torch.int8]))
binary("tn_logaddexp", both(torch.logaddexp, None), pairs(FLOATS, [F32]), tol=2)

for mode in (0, 1, 2):
    for kind, a, b in pairs(NUM, EDGES[1:]):
        if mode == 0:
            y = both(torch.div, lambda x, z: np.divide(x.astype(np.float64), z.astype(np.float64)).astype(np.float32))(a, b)
        else:
            g = {1: (lambda x, z: torch.trunc(x / z), nptrunc), 2: (lambda x, z: torch.floor(x / z), npdiv)}[mode]
            y = both(*g)(a, b)
        row("tn_div", kind, [a, b], y, [mode])
a, b = pairs([], [F32])[-1][1:]
row("tn_div", "edges", [a, b], a / b, [0])


def nppow(a, b):
    A, B = np.broadcast_arrays(a, b)
    bits, out = a.dtype.itemsize * 8, []
    for x, y in zip(map(int, A.ravel()), map(int, B.ravel())):
        v = pow(x, y, 1 << bits) if y >= 0 else (1 if x == 1 else ((1 if y % 2 == 0 else -1) if x == -1 else 0)) % (1 << bits)
        out.append(v - (1 << bits) if a.dtype.kind == "i" and v >> (bits - 1) else v)
    return np.array(out, a.dtype).reshape(A.shape)


binary("tn_pow", both(torch.pow, nppow), pairs(NUM, [F32, torch.int8, torch.uint8], positive=True), tol=4)
for n, (a, b) in enumerate([(torch.int8, torch.uint8), (I32, F32), (torch.uint32, I32), (torch.float16, torch.bfloat16), (I64, torch.float16), (BOOL, I32)]):
    x, y = rand(5, dt=a), rand(5, dt=b)
    want = {0: torch.int16, 1: F32, 2: I64, 3: F32, 4: torch.float16, 5: I32}[n]
    row("tn_add", "promotion", [x, y], (x.double() + y.double()).to(want))
    row("tn_mul", "promotion", [x, y], (x.double() * y.double()).to(want))
x, y = T(np.array([1, 2], np.uint64), torch.uint64), T([3, -4], I32)
row("tn_add", "promotion", [x, y], T([4.0, -2.0]))


def threefry(c, k):
    """Threefry-2x32-20 of one 64-bit counter and key (Salmon et al. 2011)."""
    M, rot = 0xffffffff, [13, 15, 26, 6, 17, 29, 16, 24]
    x0, x1, ks = c & M, c >> 32, [k & M, k >> 32, 0x1BD11BDA ^ (k & M) ^ (k >> 32)]
    x0, x1 = (x0 + ks[0]) & M, (x1 + ks[1]) & M
    for i in range(20):
        x0 = (x0 + x1) & M
        r = rot[i % 8]
        x1 = ((x1 << r | x1 >> (32 - r)) & M) ^ x0
        if i % 4 == 3:
            s = i // 4 + 1
            x0, x1 = (x0 + ks[s % 3]) & M, (x1 + ks[(s + 1) % 3] + s) & M
    return x1 << 32 | x0


assert threefry(0, 0) == 0x99ba4efe << 32 | 0x6b200159  # the authors' known answer
for kind, a, b in [("rank0", np.uint64(5), np.uint64(9)), ("size0", np.zeros((0,), np.uint64), np.zeros((0,), np.uint64)),
                   ("broadcast", np.arange(3, dtype=np.uint64), np.array([[1], [1 << 40]], np.uint64)), ("prime", np.arange(7, dtype=np.uint64) << np.uint64(31), np.uint64(12345)),
                   ("broadcast", np.uint64(1), np.arange(3, dtype=np.uint64)), ("edges", np.array([0, 2**64 - 1], np.uint64), np.array([0, 2**64 - 1], np.uint64))]:
    A, B = np.broadcast_arrays(a, b)
    y = np.array([threefry(int(p), int(q)) for p, q in zip(A.ravel(), B.ravel())], np.uint64).reshape(A.shape)
    row("tn_threefry", kind, [T(a, torch.uint64), T(b, torch.uint64)], T(y, torch.uint64))

# ---- in place: the first operand's dtype and shape stay ----
for n, f in (("iadd", torch.add), ("isub", torch.sub), ("imul", torch.mul), ("idiv", torch.div), ("ifloordiv", lambda a, b: torch.floor(a / b)),
             ("imod", torch.remainder), ("ipow", lambda a, b: torch.pow(a.abs(), b))):
    for kind, s, s2, dt in [("rank0", (), (), F32), ("size0", (0, 3), (1, 3), F32), ("broadcast", (2, 3), (3,), F32), ("broadcast", (2, 3), (2, 1), F32),
                            ("prime", (5, 7), (5, 7), F32), ("dtypes", (5,), (5,), F64)]:
        a, b = rand(*s, dt=dt), rand(*s2, dt=dt, lo=0.5, hi=3)
        if n == "ipow":
            a = a.abs()
        row("tn_" + n, kind, [a, b], f(a.double(), b.double()).to(dt), tol=4)
    row("tn_" + n, "edges", [T([NAN, 1.0]), T([1.0, NAN])], f(T([NAN, 1.0]), T([1.0, NAN]))) if n != "ipow" else None
for n, nf in (("iand", np.bitwise_and), ("ior", np.bitwise_or), ("ixor", np.bitwise_xor), ("ilshift", shift(True)), ("irshift", shift(False))):
    for kind, s, s2, dt in [("rank0", (), (), I32), ("size0", (0, 3), (1, 3), I32), ("broadcast", (2, 3), (3,), I32), ("broadcast", (2, 3), (2, 1), I32),
                            ("prime", (5, 7), (5, 7), I32), ("dtypes", (5,), (5,), torch.uint8)]:
        a, b = rand(*s, dt=dt), rand(*s2, dt=dt)
        row("tn_" + n, kind, [a, b], torch.from_numpy(np.asarray(nf(a.numpy(), b.numpy()))).reshape(a.shape))
    row("tn_" + n, "edges", [edge(torch.int8), edge(torch.int8)], torch.from_numpy(nf(edge(torch.int8).numpy(), edge(torch.int8).numpy())))
for kind, s, s2, dt in [("prime", (3, 5), (5, 5), F32), ("broadcast", (2, 3, 3), (3, 3), F32), ("size0", (0, 3), (3, 3), F32), ("dtypes", (2, 2), (2, 2), F64),
                        ("dtypes", (2, 2), (2, 2), torch.float16), ("prime", (7,), (7, 7), F32)]:
    a, b = rand(*s, dt=dt), rand(*s2, dt=dt)
    row("tn_imatmul", kind, [a, b], (a.double() @ b.double()).to(dt), tol=8)

# ---- choices ----
for kind, c, a, b in [("rank0", rand(dt=BOOL), rand(), rand()), ("size0", rand(0, 3, dt=BOOL), rand(1, 3), rand(0, 1)), ("broadcast", rand(3, dt=BOOL), rand(2, 3), rand(2, 1)),
                      ("broadcast", rand(2, 3, dt=BOOL), rand(), rand(3)), ("prime", rand(5, 7, dt=BOOL), rand(5, 7), rand(5, 7)),
                      ("edges", T([1, 0, 1, 0], BOOL), T([NAN, NAN, INF, 1.0]), T([1.0, -INF, NAN, -0.0]))] + \
        [("dtypes", rand(5, dt=BOOL), rand(5, dt=d), rand(5, dt=d)) for d in NUM + [BOOL]]:
    if a.dtype in (torch.uint16, torch.uint32, torch.uint64):
        y = torch.from_numpy(np.where(c.numpy(), a.numpy(), b.numpy()))
    else:
        y = torch.where(c, a, b)
    row("tn_where", kind, [c, a, b], y)
    y2 = y if a.dim() == y.dim() and a.shape == y.shape else None
    row("tn_masked_fill", kind, [b, c, a], y)
row("tn_where", "promotion", [T([2, 0], I32), T([1, 2], I32), T([0.5, 1.5])], T([1.0, 1.5]))
for n in ("tn_clamp", "tn_clip"):
    for kind, x, lo, hi in [("rank0", rand(), T(-0.5), T(0.5)), ("size0", rand(0, 3), T(-0.5), T(0.5)), ("broadcast", rand(3), rand(2, 1), T(2.5)),
                            ("broadcast", rand(2, 3), T(-0.5), T([0.0, 0.5, 1.0])), ("prime", rand(5, 7), T(-1.0), T(1.0)), ("edges", T(SPECIAL), T(-1.0), T(1.0))] + \
            [("dtypes", rand(7, dt=d), T(np.int64(1) if d in INTS else 0.25, d), T(np.int64(3) if d in INTS else 0.75, d)) for d in FLOATS + INTS]:
        if x.dtype in (torch.uint16, torch.uint32, torch.uint64):
            y = torch.from_numpy(np.clip(x.numpy(), lo.numpy(), hi.numpy()))
        else:
            y = torch.clamp(x, lo, hi)
        row(n, kind, [x, lo, hi], y, [1, 1])
    x = rand(5)
    row(n, "prime", [x, T(0.0)], torch.clamp(x, min=0.0), [1, 0])
    row(n, "prime", [x, T(0.0)], torch.clamp(x, max=0.0), [0, 1])
for kind, a, b, w in [("rank0", rand(), rand(), rand()), ("size0", rand(0, 3), rand(1, 3), rand()), ("broadcast", rand(2, 3), rand(3), rand(2, 1)), ("broadcast", rand(3), rand(2, 3), rand()),
                      ("prime", rand(5, 7), rand(5, 7), T(0.3)), ("edges", T([NAN, 1.0, 1.0]), T([1.0, INF, 2.0]), T([0.5, 0.5, NAN]))] + [("dtypes", rand(5, dt=d), rand(5, dt=d), rand(5, dt=d)) for d in FLOATS]:
    d = a.dtype
    y = a.double() + (b.double() - a.double()) * w.double()
    row("tn_lerp", kind, [a, b, w], y.to(d), tol=8)
for kind, a, b, eq in [("rank0", rand(), rand(), 0), ("size0", rand(0, 3), rand(1, 3), 0), ("broadcast", T([1.0, 2.0]), T([[1.0 + 1e-7], [2.1]]), 0), ("broadcast", T([[1.0], [2.0]]), T([1.0, 2.0]), 0),
                       ("prime", T([1.0, 2.0, 3.0, 4.0, 5.0]), T([1.00001, 2.1, 3.0, 4.00003, 5.0]), 0), ("edges", edge(F32), edge(F32), 0), ("edges", edge(F32), edge(F32), 1),
                       ("dtypes", rand(5, dt=I32), rand(5, dt=I32), 0), ("dtypes", rand(5, dt=F64), rand(5, dt=F64), 0)]:
    A, B = torch.broadcast_tensors(a, b)
    row("tn_isclose", kind, [a, b], torch.isclose(A, B, equal_nan=bool(eq)), [1e-5, 1e-8, eq])
    row("tn_allclose", kind, [a, b], torch.tensor(bool(torch.isclose(A, B, equal_nan=bool(eq)).all())), [1e-5, 1e-8, eq])

# ---- dtypes ----


def cast(x, dt):
    if x.dtype in FLOATS and dt in INTS:
        i = np.iinfo(np_of(dt))
        out = [0 if v != v else int(min(max(v, i.min), i.max)) if abs(v) != INF else (i.max if v > 0 else i.min) for v in x.double().ravel().tolist()]
        return T(np.array(out, np_of(dt)).reshape(x.shape), dt)
    if x.dtype in INTS + [BOOL] and dt in INTS:
        return torch.from_numpy(np.asarray(x.numpy().astype(np_of(dt)))).reshape(x.shape)
    if x.dtype in INTS and dt == BOOL:
        return torch.from_numpy(np.asarray(x.numpy() != 0)).reshape(x.shape)
    if x.dtype == torch.uint64:
        return torch.from_numpy(np.asarray(x.numpy().astype(np.float64))).to(dt).reshape(x.shape)
    return x.to(dt)


def casts(name, dt, p):
    for kind, x in [("rank0", rand()), ("size0", rand(0, 3)), ("prime", rand(3, 7, lo=-300, hi=300)), ("edges", T([NAN, INF, -INF, 1e30, -0.0, 3e9, 0.75, -0.75])), ("edges", edge(I32)), ("edges", edge(torch.int8))]:
        row(name, kind, [x], cast(x, dt), p, tol=0)
    for d in NUM + [BOOL]:
        x = rand(5, dt=d)
        row(name, "dtypes", [x], cast(x, dt), p, tol=0)


for n, dt in (("float", F32), ("double", F64), ("half", torch.float16), ("bfloat16", torch.bfloat16), ("short", torch.int16), ("int", I32), ("long", I64), ("bool", BOOL)):
    casts("tn_" + n, dt, [])
for dt in (torch.uint8, torch.int8, torch.uint16, torch.uint32, torch.uint64, torch.float16, F64):
    casts("tn_cast", dt, [IDS[dt]])
for kind, x, dt in [("rank0", T(1.5), I32), ("size0", rand(0, 4), I32), ("prime", rand(3, 7), torch.uint32), ("edges", edge(F32), I32), ("edges", edge(I32), F32), ("dtypes", rand(5, dt=torch.float16), torch.int16),
                    ("dtypes", rand(5, dt=F64), I64), ("dtypes", rand(3, 4, dt=torch.uint8), I32), ("dtypes", rand(2, 3, dt=F32), torch.uint8), ("dtypes", rand(2, 4, dt=I64), torch.int16), ("dtypes", rand(4, dt=torch.bfloat16), F64)]:
    row("tn_bitcast", kind, [x], x.view(dt), [IDS[dt]])
for n in ("tn_contiguous", "tn_contiguous_backward", "tn_clone"):
    for kind, x in shapes():
        row(n, kind, [x], x)
