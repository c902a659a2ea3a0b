# SPDX-License-Identifier: MIT
"""Rows of golden values: the file format, random inputs, what all of make_golden.py's parts share.

A row: u8 length and name, u8 length and text, u16 n and n float64 parameters, u8 n and n input tensors, u8
n and n output tensors, float32 tolerance factor (of the dtype's tolerance in the driver; 0: the same bits).  A tensor: u8 dtype, u8
rank, int32 sizes, elements in row-major order.  All little-endian.
"""
import struct
import warnings
import numpy as np
import torch

warnings.simplefilter("ignore")
torch.manual_seed(1)
rng = np.random.default_rng(7)
NAN, INF = float("nan"), float("inf")
IDS = {torch.bool: 1, torch.int8: 2, torch.uint8: 3, torch.int16: 4, torch.uint16: 5, torch.int32: 6,
       torch.uint32: 7, torch.int64: 8, torch.uint64: 9, torch.float16: 10, torch.bfloat16: 11,
       torch.float32: 12, torch.float64: 13}
SIGNED = [torch.int8, torch.int16, torch.int32, torch.int64]
UNSIGNED = [torch.uint8, torch.uint16, torch.uint32, torch.uint64]
INTS = SIGNED + UNSIGNED
FLOATS = [torch.float16, torch.bfloat16, torch.float32, torch.float64]
ALL = [torch.bool] + INTS + FLOATS
F32, F64, I32, I64, BOOL = torch.float32, torch.float64, torch.int32, torch.int64, torch.bool

rows = []      # (name, kind, bytes)
have = {}      # name -> dtypes of the operand that decides
reasons = {}   # name -> {kind: code}


def T(x, dt=F32):
    """A tensor of the dtype from numbers, numpy arrays or tensors."""
    if isinstance(x, torch.Tensor):
        return x.to(dt)
    x = np.asarray(x)
    if dt in (torch.uint16, torch.uint32, torch.uint64) and x.dtype.kind in "iu":
        return torch.from_numpy(x.astype({torch.uint16: np.uint16, torch.uint32: np.uint32, torch.uint64: np.uint64}[dt]))
    return torch.from_numpy(np.ascontiguousarray(x)).reshape(x.shape).to(dt)


def pack(t):
    t = t.detach().contiguous()
    out = struct.pack("<BB", IDS[t.dtype], t.dim()) + struct.pack("<%di" % t.dim(), *t.shape)
    if t.dtype == torch.bfloat16:
        t = t.view(torch.int16)
    return out + t.numpy().tobytes()


def row(name, kind, ins, outs, params=(), text="", tol=1.0):
    if isinstance(outs, torch.Tensor):
        outs = [outs]
    b = bytes([len(name)]) + name.encode() + bytes([len(text)]) + text.encode()
    b += struct.pack("<H", len(params)) + struct.pack("<%dd" % len(params), *[float(p) for p in params])
    b += bytes([len(ins)]) + b"".join(pack(t) for t in ins)
    b += bytes([len(outs)]) + b"".join(pack(t) for t in outs)
    if ins:
        have.setdefault(name, set()).add(ins[name == "tn_where"].dtype)
    rows.append((name, kind, b + struct.pack("<f", tol)))


def rand(*shape, dt=F32, lo=-2.0, hi=2.0):
    """Numbers that the dtype holds exactly."""
    if dt == BOOL:
        return torch.from_numpy(rng.integers(0, 2, shape).astype(bool)).reshape(shape)
    if dt in INTS:
        a = rng.integers(0 if dt in UNSIGNED else -7, 8, shape)
        return T(np.asarray(a), dt)
    return torch.from_numpy(np.asarray(rng.uniform(lo, hi, shape))).to(dt)


def np_of(dt):
    return {torch.int8: np.int8, torch.int16: np.int16, torch.int32: np.int32, torch.int64: np.int64, torch.uint8: np.uint8,
            torch.uint16: np.uint16, torch.uint32: np.uint32, torch.uint64: np.uint64, BOOL: np.bool_}[dt]


def missing(name, dts):
    """Those of the dtypes that no row of the method has yet."""
    return [d for d in dts if d not in have.get(name, ())]


def signed(x):
    """The bits of x in a dtype that every function of PyTorch that moves elements takes."""
    return x.view({1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[x.element_size()])


def special(n, dt=None):
    """n elements of a dtype with zeros, NaN and infinities, or limits, among them."""
    if dt in INTS:
        return T(np.resize(edge(dt).numpy(), n), dt)
    return T(np.resize([NAN, -0.0, INF, 0.0, -INF, 1.5, -2.0], n), dt or F32)


def edge(dt):
    """The limits of a dtype."""
    if dt in INTS:
        i = np.iinfo(np_of(dt))
        return T(np.array([i.min, i.max, 0, 1, i.max - 1, i.min + 1], np_of(dt)), dt)
    return T([0.0, -0.0, NAN, INF, -INF, 1.0], dt)


SPECIAL = [0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, 1e-30, -1e-30, 1e30]


def write(path, list_path, methods, codes):
    """The golden file and the list of methods with their rows and reasons.  codes: code -> (text, {kind: names})."""
    for code, (_, where) in codes.items():
        for kinds, names in where.items():
            for n in names.split():
                assert n in methods, n
                for k in kinds.split():
                    assert reasons.setdefault(n, {}).setdefault(k, code) == code, (n, k)
    order = {m: i for i, m in enumerate(methods)}
    with open(path, "wb") as f:
        rows.sort(key=lambda r: order[r[0]])  # a method's rows are neighbours: the driver runs them in one plan
        for _, _, b in rows:
            f.write(b)
    with open(list_path, "w") as f:
        f.write("# Methods of tensor.h: name, rows of golden values in tests/golden, and why a kind of row is not among them.\n"
                "# Kinds: rank0, size0, left and right (the operand that is broadcast), prime (odd prime sizes), dtypes (all legal\n"
                "# ones), zeros (+0 and -0), nan, inf (both), limits (the least and the greatest integer).  Made by\n"
                "# tests/golden/make_golden.py; tests/tensor/test_kinds.c counts the kinds in the rows themselves.\n#\n# Reasons:\n")
        for code, (text, _) in codes.items():
            f.write("#   %s: %s\n" % (code, text))
        for m in methods:
            why = "; ".join("%s: %s" % kc for kc in reasons.get(m, {}).items())
            f.write("%s\t%d\t%s\n" % (m, sum(n == m for n, _ in map(lambda r: r[:2], rows)), why))
