# SPDX-License-Identifier: MIT
"""Rows of golden values: the file format, random inputs, what all of make_golden.py's parts share.

A row: u8 length and name, u8 length and text, u16 n and n float64 parameters, u8 n and n input tensors, u8
n and n output tensors, float32 tolerance factor (of the dtype's tolerance in the driver).  A tensor: u8 dtype, u8
rank, int32 sizes, elements in row-major order.  All little-endian.
"""
import struct
import numpy as np
import torch

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
F32, F64, I32, I64, BOOL = torch.float32, torch.float64, torch.int32, torch.int64, torch.bool

rows = []      # (name, kind, bytes)
reasons = {}   # name -> {kind: why there is no such row}


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
    rows.append((name, kind, b + struct.pack("<f", tol)))


def why(names, **kinds):
    for n in names.split():
        reasons.setdefault(n, {}).update(kinds)


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


def edge(dt):
    """The limits of a dtype."""
    if dt in INTS:
        i = np.iinfo(np_of(dt))
        return T(np.array([i.min, i.max, 0, 1, i.max - 1, i.min + 1], np_of(dt)), dt)
    return T([0.0, -0.0, NAN, INF, -INF, 1.0], dt)


SPECIAL = [0.0, -0.0, NAN, INF, -INF, 1.0, -1.0, 1e-30, -1e-30, 1e30]


def write(path, list_path, methods):
    """The golden file and the list of methods with their rows."""
    with open(path, "wb") as f:
        rows.sort(key=lambda r: methods.index(r[0]))  # a method's rows are neighbours: the driver runs them in one plan
        for _, _, b in rows:
            f.write(b)
    kinds = ["rank0", "size0", "broadcast", "prime", "dtypes", "edges"]
    with open(list_path, "w") as f:
        f.write("# Methods of tensor.h: name, rows of golden values in tests/golden, how many of each kind, and why a kind\n"
                "# has none.  Made by tests/golden/make_golden.py; tests/tensor/test_methods.c checks it.\n")
        for m in methods:
            mine = [k for n, k, _ in rows if n == m]
            count = ["%s %d" % (k, mine.count(k)) for k in sorted(set(mine), key=lambda k: (k not in kinds, k))]
            gaps = ["%s: %s" % (k, reasons.get(m, {}).get(k, reasons.get(m, {}).get("all", "?"))) for k in kinds if k not in mine]
            f.write("%s\t%d\t%s\t%s\n" % (m, len(mine), ", ".join(count), "; ".join(gaps)))
