# SPDX-License-Identifier: MIT
"""Golden rows of products, convolutions, pooling, normalisation, attention and losses."""
import numpy as np
import torch
import torch.nn.functional as F
from golden import *

NUM = FLOATS + INTS
np_ints = INTS


def kind(*xs):
    return "size0" if any(0 in x.shape for x in xs) else "prime" if all(x.dtype == F32 for x in xs) else "dtypes"


def prod(a, b):
    if a.dtype in FLOATS:
        return (a.double() @ b.double()).to(a.dtype)
    return torch.from_numpy(np.asarray(a.numpy() @ b.numpy()))


for n in ("tn_matmul", "tn_dot"):
    for a, b in [((3,), (3,)), ((5, 3), (3,)), ((3,), (3, 7)), ((5, 3), (3, 7)), ((2, 5, 3), (3, 7)), ((5, 3), (2, 3, 7)), ((2, 1, 5, 3), (4, 3, 7)), ((0, 3), (3, 2)), ((2, 0), (0, 3)), ((1, 1), (1, 1)), ((8, 16), (16, 8))]:
        x, y = rand(*a), rand(*b)
        row(n, "broadcast" if len(a) != len(b) and len(a) > 1 < len(b) else kind(x, y), [x, y], prod(x, y), [0], tol=16)
    for d in NUM:
        x, y = rand(3, 5, dt=d), rand(5, 2, dt=d)
        row(n, "dtypes", [x, y], prod(x, y), [0], tol=16)
    row(n, "promotion", [rand(2, 3, dt=torch.float16), T([[1.0], [2.0], [3.0]])], (rows and torch.zeros(2, 1))) if False else None
    x, y = T([[NAN, 1.0], [INF, 0.0]]), T([[0.0], [1.0]])
    row(n, "edges", [x, y], x @ y, [0])
    x, y = rand(3, 5, dt=torch.int8), rand(5, 2, dt=torch.int8)
    row(n, "dtypes", [x, y], torch.from_numpy(x.numpy().astype(np.int32) @ y.numpy().astype(np.int32)), [IDS[I32]])
for x, w, b in [(rand(3, 5), rand(5, 7), rand(7)), (rand(5), rand(5, 2), rand(2)), (rand(2, 3, 5), rand(5, 2), None), (rand(3, 5), rand(5), rand(5)), (rand(0, 5), rand(5, 2), rand(2)), (rand(3, 5, dt=F64), rand(5, 2, dt=F64), rand(2, dt=F64)), (rand(3, 5), rand(5), None), (T([[NAN, 1.0]]), rand(2, 2), rand(2))]:
    y = (x * w if w.dim() == 1 else x @ w) + (b if b is not None else 0)
    row("tn_linear", "edges" if torch.isnan(x).any() else "broadcast" if w.dim() == 1 else kind(x, w), [x, w] + ([b] if b is not None else []), y, tol=16)
for f, xs in [("ij,jk->ik", [(3, 5), (5, 2)]), ("ij,jk", [(3, 5), (5, 2)]), ("ii", [(3, 3)]), ("ii->i", [(3, 3)]), ("ij->ji", [(3, 5)]), ("ij->", [(3, 5)]), ("bij,bjk->bik", [(2, 3, 5), (2, 5, 4)]), ("i,j->ij", [(3,), (5,)]), ("...ij->...ji", [(2, 3, 5)]), ("i...,i...->...", [(3, 2, 5), (3, 5)]),
              ("ij,jk,kl->il", [(2, 3), (3, 4), (4, 5)]), ("bhid,bhjd->bhij", [(2, 2, 3, 4), (2, 2, 5, 4)]), ("ij,jk->ik", [(0, 5), (5, 2)]), ("iji->j", [(3, 2, 3)]), (" i j , j -> i ", [(3, 5), (5,)]), ("Ba,a->B", [(3, 2), (2,)]), ("->", [()])]:
    ts = [rand(*s) for s in xs]
    row("tn_einsum", "rank0" if xs == [()] else kind(*ts), ts, torch.einsum(f.replace(" ", "") if f != "->" else "->", *[t.double() for t in ts]).float(), [0], text=f, tol=16)
for d in (torch.float16, F64, I32):
    ts = [rand(3, 5, dt=d), rand(5, 2, dt=d)]
    row("tn_einsum", "dtypes", ts, prod(*ts), [0], text="ij,jk->ik", tol=16)
row("tn_einsum", "edges", [T([NAN, 1.0]), T([0.0, INF])], T(NAN), [0], text="i,i->")

# ---- convolution: n, strides, paddings, dilations, groups, output paddings, has pads, 2 n pads ----


def conv(x, w, b, stride=1, padding=0, dilation=1, groups=1, pads=None, tol=16):
    n = w.dim() - 2
    one = lambda v: [v] * n if isinstance(v, int) else list(v)  # noqa: E731
    f = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}[n]
    y = f(F.pad(x.double(), pads) if pads else x.double(), w.double(), None if b is None else b.double(), one(stride), 0 if pads else one(padding), one(dilation), groups).to(x.dtype)
    row("tn_conv2d", kind(x, w), [x, w] + ([b] if b is not None else []), y, [n, *one(stride), *one(padding), *one(dilation), groups, *[0] * n, 1 if pads else 0, *(pads or [0] * 2 * n)], tol=tol)


conv(rand(2, 3, 7, 5), rand(4, 3, 3, 3), rand(4))
conv(rand(1, 1, 5, 5), rand(1, 1, 1, 1), None)
conv(rand(2, 3, 7, 9), rand(4, 3, 3, 2), rand(4), stride=(2, 3))
conv(rand(2, 3, 7, 7), rand(4, 3, 3, 3), None, padding=1)
conv(rand(2, 3, 7, 7), rand(4, 3, 3, 3), rand(4), padding=(1, 2), dilation=(2, 1))
conv(rand(2, 4, 7, 7), rand(6, 2, 3, 3), rand(6), groups=2)
conv(rand(2, 4, 5, 5), rand(4, 1, 3, 3), None, groups=4, padding=1, stride=2)
conv(rand(2, 3, 11), rand(5, 3, 4), rand(5), stride=2, padding=1)
conv(rand(1, 2, 5, 4, 5), rand(3, 2, 2, 2, 3), rand(3), padding=1)
conv(rand(2, 3, 6, 6), rand(4, 3, 3, 3), None, pads=[1, 2, 0, 1])
conv(rand(0, 3, 6, 6), rand(4, 3, 3, 3), rand(4))
for d in (torch.float16, torch.bfloat16, F64):
    conv(rand(1, 2, 5, 5, dt=d), rand(3, 2, 3, 3, dt=d), None)
x, w = rand(1, 2, 5, 5, dt=torch.int8), rand(3, 2, 3, 3, dt=torch.int8)
row("tn_conv2d", "dtypes", [x, w], F.conv2d(x.double(), w.double()).int(), [2, 1, 1, 0, 0, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0])
x = rand(1, 1, 4, 4)
x[0, 0, 0, 0] = NAN
conv(x, rand(1, 1, 2, 2), None)


def convt(x, w, b, stride=1, padding=0, dilation=1, groups=1, out=0):
    n = w.dim() - 2
    one = lambda v: [v] * n if isinstance(v, int) else list(v)  # noqa: E731
    f = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}[n]
    y = f(x.double(), w.double(), None if b is None else b.double(), one(stride), one(padding), one(out), groups, one(dilation)).to(x.dtype)
    row("tn_conv_transpose2d", kind(x, w), [x, w] + ([b] if b is not None else []), y, [n, *one(stride), *one(padding), *one(dilation), groups, *one(out), 0, *[0] * 2 * n], tol=16)


convt(rand(2, 3, 5, 4), rand(3, 4, 3, 3), rand(4))
convt(rand(2, 3, 5, 4), rand(3, 4, 3, 2), None, stride=2)
convt(rand(2, 3, 5, 4), rand(3, 4, 3, 3), rand(4), stride=(2, 3), padding=(1, 2), out=1)
convt(rand(2, 4, 3, 3), rand(4, 2, 3, 3), rand(4), groups=2, dilation=2)
convt(rand(2, 3, 7), rand(3, 2, 4), rand(2), stride=3, padding=1, out=2)
convt(rand(1, 2, 3, 2, 3), rand(2, 2, 2, 2, 2), None, stride=2)
for d in (torch.float16, F64):
    convt(rand(1, 2, 3, 3, dt=d), rand(2, 3, 2, 2, dt=d), None, stride=2)

# ---- pooling: n, kernel, stride (0: kernel), padding, dilation, ceil, exclude_pad, output_size ----


def pool(n, k, s=None, p=0, d=1, ceil=0, ex=0, out=()):
    one = lambda v: [v] * n if isinstance(v, int) else list(v)  # noqa: E731
    return [n, *one(k), *(one(s) if s else [0] * n), *one(p), *one(d), ceil, ex, *(out or [0] * n)]


def maxp(x, n, k, **o):
    f = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}[n]
    v, i = f(x.float() if x.dtype == torch.float16 else x, k, o.get("s"), o.get("p", 0), o.get("d", 1), bool(o.get("ceil", 0)), True)
    row("tn_max_pool2d", kind(x), [x], [v.to(x.dtype), i.int()], pool(n, k, **o))
    return v, i


maxp(rand(2, 3, 7, 5), 2, (2, 2))
maxp(rand(2, 3, 7, 7), 2, (3, 3), s=(2, 2))
maxp(rand(2, 3, 7, 7), 2, (3, 2), s=(1, 3), p=1)
maxp(rand(1, 2, 9, 9), 2, (2, 3), d=2)
maxp(rand(1, 2, 7, 7), 2, (3, 3), s=(2, 2), ceil=1)
maxp(rand(1, 2, 6, 7), 2, (3, 3), s=(3, 2), p=1, ceil=1)
maxp(rand(2, 3, 11), 1, (3,), s=(2,), p=1)
maxp(rand(1, 2, 4, 5, 4), 3, (2, 2, 2))
maxp(rand(3, 7, 7), 2, (2, 2))
for d in (torch.float16, F64):
    maxp(rand(1, 1, 6, 6, dt=d), 2, (2, 2))
x = rand(1, 1, 4, 4)
x[0, 0, 1, 2], x[0, 0, 3, 0] = NAN, -INF
maxp(x, 2, (2, 2))
maxp(torch.full((1, 1, 4, 4), -INF), 2, (2, 2), p=1)
x = rand(2, 3, 6, 6, dt=I32)
v, i = F.max_pool2d(x.double(), 2, 2, 1, 1, False, True)
row("tn_max_pool2d", "dtypes", [x], [v.int(), i.int()], pool(2, (2, 2), p=1))
row("tn_max_pool2d", "size0", [rand(0, 3, 4, 4)], [torch.zeros(0, 3, 2, 2), torch.zeros(0, 3, 2, 2, dtype=I32)], pool(2, (2, 2)))


def avgp(x, n, k, **o):
    f = {1: F.avg_pool1d, 2: F.avg_pool2d, 3: F.avg_pool3d}[n]
    y = f(x.double(), k, o.get("s"), o.get("p", 0), bool(o.get("ceil", 0)), not o.get("ex", 0))
    row("tn_avg_pool2d", kind(x), [x], y.to(x.dtype if x.dtype in FLOATS else F32), pool(n, k, **o), tol=4)


avgp(rand(2, 3, 7, 5), 2, (2, 2))
avgp(rand(2, 3, 7, 7), 2, (3, 3), s=(2, 2), p=1)
avgp(rand(2, 3, 7, 7), 2, (3, 3), s=(2, 2), p=1, ex=1)
avgp(rand(1, 2, 6, 7), 2, (3, 3), s=(2, 2), p=1, ceil=1)
avgp(rand(1, 2, 6, 7), 2, (3, 3), s=(2, 2), p=1, ceil=1, ex=1)
avgp(rand(2, 3, 11), 1, (3,), s=(2,))
avgp(rand(1, 2, 4, 5, 4), 3, (2, 2, 2))
for d in (torch.float16, F64, I32):
    avgp(rand(1, 1, 6, 6, dt=d), 2, (2, 2))
row("tn_avg_pool2d", "size0", [rand(0, 3, 4, 4)], torch.zeros(0, 3, 2, 2), pool(2, (2, 2)))
x = rand(1, 1, 4, 4)
x[0, 0, 1, 2] = NAN
avgp(x, 2, (2, 2))
for s, k, o, d in [((2, 3, 6, 6), (2, 2), None, F32), ((1, 2, 7, 7), (2, 2), (7, 7), F32), ((1, 2, 5, 6), (2, 3), (5, 6), F32), ((3, 4, 4), (2, 2), None, F32), ((1, 1, 4, 4), (2, 2), None, F64), ((2, 3, 8), (2,), None, F32)]:
    x, n = rand(*s, dt=d), len(k)
    v, i = {1: F.max_pool1d, 2: F.max_pool2d}[n](x, k, return_indices=True)
    y = {1: F.max_unpool1d, 2: F.max_unpool2d}[n](v, i, k, output_size=o)
    row("tn_max_unpool2d", kind(x), [v, i.int()], y, pool(n, k, out=o or ()))
for x, size, m, c in [(rand(1, 2, 5, 7), (3, 9), 0, 0), (rand(1, 2, 5, 7), (3, 9), 0, 1), (rand(1, 2, 5, 7), (10, 14), 1, 0), (rand(1, 2, 5, 7), (3, 4), 1, 0), (rand(1, 2, 5, 7), (3, 4), 2, 0), (rand(2, 2, 7), (5,), 0, 0), (rand(1, 1, 4, 4, dt=F64), (7, 7), 0, 0), (rand(1, 1, 3, 3), (1, 1), 0, 1), (rand(1, 1, 3, 3), (6, 6), 2, 0)]:
    mode = {0: "linear" if len(size) == 1 else "bilinear", 1: "nearest", 2: "nearest-exact"}[m]
    y = F.interpolate(x, size=size, mode=mode, align_corners=bool(c) if m == 0 else None)
    row("tn_interpolate", kind(x), [x], y, [m, c, *size], tol=16)
row("tn_interpolate", "edges", [T([[[NAN, 1.0, 2.0]]])], F.interpolate(T([[[NAN, 1.0, 2.0]]]), size=(6,), mode="nearest"), [1, 0, 6])
row("tn_interpolate", "dtypes", [T([[[5, 1, 2]]], I32)], T([[[5, 5, 1, 1, 2, 2]]], I32), [1, 0, 6])
row("tn_interpolate", "size0", [rand(0, 3)], torch.zeros(0, 6), [1, 0, 6])

# ---- normalisation: eps, axes; attention: is_causal, enable_gqa, mask ----
for x, ax, e in [(rand(3, 7), (-1,), 1e-5), (rand(2, 3, 5), (1, 2), 1e-5), (rand(2, 3, 5), (2,), 0.1), (rand(7), (0,), 1e-5), (rand(0, 3), (1,), 1e-5), (rand(3, 5, dt=F64), (1,), 1e-5), (rand(3, 5, dt=torch.float16), (1,), 1e-5), (T([[NAN, 1.0], [1.0, 1.0]]), (1,), 1e-5)]:
    y = F.layer_norm(x.double(), [x.shape[a] for a in ax], eps=e).to(x.dtype)
    row("tn_layernorm", "edges" if torch.isnan(x).any() else kind(x), [x], y, [e, *ax], tol=32)
row("tn_layernorm", "rank0", [T(3.0)], T(0.0), [1e-5])
for x, aff in [(rand(2, 3, 5, 5), 1), (rand(2, 3, 5, 5), 0), (rand(5, 3), 1), (rand(2, 3, 7), 1), (rand(0, 3), 1), (rand(2, 3, 4, dt=F64), 1), (rand(2, 3, 4, dt=torch.float16), 1)]:
    d = x.dtype
    w, b, m, s = rand(3, dt=d), rand(3, dt=d), rand(3, dt=d), rand(3, dt=d, lo=0.5)
    v = lambda t: t.double().reshape([1, 3] + [1] * (x.dim() - 2))  # noqa: E731
    y = (x.double() - v(m)) * (v(w) if aff else 1) * v(s) + (v(b) if aff else 0)
    row("tn_batchnorm", kind(x), [x] + ([w, b] if aff else []) + [m, s], y.to(d), [1], tol=16)
for q, k, v, mask, causal, gqa in [((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), None, 0, 0), ((3, 5, 4), (3, 5, 4), (3, 5, 4), None, 1, 0), ((5, 4), (7, 4), (7, 3), None, 0, 0), ((2, 4, 3, 4), (2, 2, 3, 4), (2, 2, 3, 4), None, 0, 1), ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), "bool", 0, 0),
                                   ((2, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 6), "float", 0, 0), ((1, 5, 4), (1, 5, 4), (1, 5, 4), None, 1, 0)]:
    q, k, v = rand(*q), rand(*k), rand(*v)
    m = None if mask is None else rand(q.shape[-2], k.shape[-2]) if mask == "float" else rand(q.shape[-2], k.shape[-2], dt=BOOL) | (torch.arange(k.shape[-2]) == 0)
    k2, v2 = (k.repeat_interleave(2, -3), v.repeat_interleave(2, -3)) if gqa else (k, v)
    y = F.scaled_dot_product_attention(q.double(), k2.double(), v2.double(), attn_mask=m.double() if mask == "float" else m, is_causal=bool(causal)).float()
    row("tn_scaled_dot_product_attention", "broadcast" if mask else kind(q), [q, k, v] + ([m] if mask else []), y, [causal, gqa], tol=32)
for d in (F64, torch.float16):
    q = rand(2, 5, 4, dt=d)
    row("tn_scaled_dot_product_attention", "dtypes", [q, q, q], F.scaled_dot_product_attention(q.double(), q.double(), q.double()).to(d), [0, 0], tol=32)

# ---- losses: reduction, smoothing, has ignore, ignore ----
RED = ["mean", "sum", "none"]
for r, red in enumerate(RED):
    p, y = rand(5, 3, lo=0.05, hi=0.95), rand(5, 3, dt=BOOL).float()
    row("tn_binary_crossentropy", "prime", [p, y], F.binary_cross_entropy(p.double(), y.double(), reduction=red).float(), [r, 0, 0, 0], tol=16)
    x = rand(5, 3, lo=-9, hi=9)
    row("tn_binary_crossentropy_logits", "prime", [x, y], F.binary_cross_entropy_with_logits(x.double(), y.double(), reduction=red).float(), [r, 0, 0, 0], tol=16)
    w = rand(3, lo=0.5)
    row("tn_binary_crossentropy_logits", "broadcast", [x, y, w], F.binary_cross_entropy_with_logits(x.double(), y.double(), reduction=red, pos_weight=w.double()).float(), [r, 0, 0, 0], tol=16)
    for s in (0, 0.1):
        for ig in (None, 2):
            x, t = rand(7, 5), T(rng.integers(0, 5, 7), I64)
            kw = dict(reduction=red, label_smoothing=s)
            if ig is None:
                e = F.cross_entropy(x.double(), t, **kw)
                row("tn_cross_entropy", "prime", [x, t.int()], e.float(), [r, s, 0, 0], tol=16)
                row("tn_sparse_categorical_crossentropy", "prime", [x, t.int()], e.float(), [r, s, 0, 0], tol=16)
            else:
                e = F.cross_entropy(x.double(), t, ignore_index=ig, **kw)
                row("tn_sparse_categorical_crossentropy", "prime", [x, t.int()], e.float(), [r, s, 1, ig], tol=16)
        x, t = rand(2, 5, 3), torch.softmax(rand(2, 5, 3), 1)
        row("tn_cross_entropy", "prime", [x, t], F.cross_entropy(x.double(), t.double(), reduction=red, label_smoothing=s).float(), [r, s, 0, 0], tol=16)
        x, t = rand(2, 5, 3), T(rng.integers(0, 5, (2, 3)), I64)
        row("tn_cross_entropy", "prime", [x, t.int()], F.cross_entropy(x.double(), t, reduction=red, label_smoothing=s).float(), [r, s, 0, 0], tol=16)
        row("tn_sparse_categorical_crossentropy", "prime", [x.transpose(1, 2), t.to(torch.uint8)], F.cross_entropy(x.double(), t, reduction=red, label_smoothing=s).float(), [r, s, 0, 0], tol=16)
    for ig in (None, 1):
        for wt in (0, 1):
            x, t, w = torch.log_softmax(rand(7, 5), 1), T(rng.integers(0, 5, 7), I64), rand(5, lo=0.5)
            e = F.nll_loss(x.double(), t, w.double() if wt else None, ignore_index=-100 if ig is None else ig, reduction=red)
            row("tn_nll_loss", "prime", [x, t.int()] + ([w] if wt else []), e.float(), [r, 0, 0 if ig is None else 1, ig or 0], tol=16)
    x, t = torch.log_softmax(rand(2, 5, 3), 1), T(rng.integers(0, 5, (2, 3)), I64)
    row("tn_nll_loss", "prime", [x, t.int()], F.nll_loss(x.double(), t, reduction=red).float(), [r, 0, 0, 0], tol=16)
for d in (F64, torch.float16):
    x, t = rand(7, 5, dt=d), T(rng.integers(0, 5, 7), I64)
    for n in ("tn_cross_entropy", "tn_sparse_categorical_crossentropy"):
        row(n, "dtypes", [x, t.int()], F.cross_entropy(x.double(), t).to(d), [0, 0, 0, 0], tol=16)
    row("tn_nll_loss", "dtypes", [x, t.int()], F.nll_loss(x.double(), t).to(d), [0, 0, 0, 0], tol=16)
    p, y = rand(5, dt=d, lo=0.1, hi=0.9), rand(5, dt=BOOL).to(d)
    row("tn_binary_crossentropy", "dtypes", [p, y], F.binary_cross_entropy(p.double(), y.double()).to(d), [0, 0, 0, 0], tol=64)
    row("tn_binary_crossentropy_logits", "dtypes", [p, y], F.binary_cross_entropy_with_logits(p.double(), y.double()).to(d), [0, 0, 0, 0], tol=16)
x = T([[1000.0, 0.0], [-1000.0, 0.0], [NAN, 1.0]])
for n in ("tn_cross_entropy", "tn_sparse_categorical_crossentropy"):
    row(n, "edges", [x, T([1, 0, 0], I32)], F.cross_entropy(x, T([1, 0, 0], I64), reduction="none"), [2, 0, 0, 0])
    row(n, "rank0", [T([1.0, 2.0, 0.5]), T(1, I32)], F.cross_entropy(T([1.0, 2.0, 0.5]), T(1, I64)), [0, 0, 0, 0], tol=4)
    row(n, "size0", [rand(0, 3), T(np.zeros(0), I32)], T(0.0), [1, 0, 0, 0])
row("tn_nll_loss", "rank0", [T([-1.0, -2.0]), T(1, I32)], T(2.0), [0, 0, 0, 0])
row("tn_nll_loss", "size0", [rand(0, 3), T(np.zeros(0), I32)], T(0.0), [1, 0, 0, 0])
row("tn_nll_loss", "edges", [T([[NAN, -1.0], [-INF, 0.0]]), T([1, 0], I32)], T([1.0, INF]), [2, 0, 0, 0])
for n in ("tn_binary_crossentropy", "tn_binary_crossentropy_logits"):
    row(n, "rank0", [T(0.5), T(1.0)], T(np.log(2.0) if n == "tn_binary_crossentropy" else np.log1p(np.exp(-0.5))), [0, 0, 0, 0], tol=4)
    row(n, "size0", [rand(0, 3), rand(0, 3)], T(0.0), [1, 0, 0, 0])
    row(n, "edges", [T([NAN, 0.5]), T([1.0, NAN])], T([NAN, NAN]), [2, 0, 0, 0])
row("tn_binary_crossentropy", "broadcast", [T([[0.25], [0.5]]), T([1.0, 0.0])], -torch.log(T([[0.25, 0.75], [0.5, 0.5]])), [2, 0, 0, 0], tol=4)
row("tn_binary_crossentropy_logits", "edges", [T([500.0, -500.0]), T([0.0, 1.0])], T([500.0, 500.0]), [2, 0, 0, 0])
