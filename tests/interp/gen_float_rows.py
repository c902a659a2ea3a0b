#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Writes float_rows.h: golden results of float ops and conversions, made with numpy and torch (bfloat16)
# and, for fma, with exact fractions.  Run by hand: ./gen_float_rows.py > float_rows.h
import random
from fractions import Fraction

import numpy as np
import torch

random.seed(7)
np.seterr(all="ignore")
NAMES = {"f16": ("TNP_F16", 2), "bf16": ("TNP_BF16", 2), "f32": ("TNP_F32", 4), "f64": ("TNP_F64", 8)}
TORCH = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
INT = {2: np.int16, 4: np.int32, 8: np.int64}


def tensor(dt, bits):
    size = NAMES[dt][1]
    v = np.array([bits], dtype=np.uint64).astype({2: np.uint16, 4: np.uint32, 8: np.uint64}[size])
    return torch.from_numpy(v.view(INT[size]).copy()).view(TORCH[dt])


def bits(t):
    size = t.element_size()
    v = t.view({2: torch.int16, 4: torch.int32, 8: torch.int64}[size]).item()
    return v & ((1 << (8 * size)) - 1)


def fma(dt, a, b, c):
    x, y, z = (Fraction(tensor(dt, v).double().item()) for v in (a, b, c))
    exact = x * y + z
    near = bits(torch.tensor([float(exact)], dtype=torch.float64).to(TORCH[dt]))
    best = None
    for cand in (near - 1, near, near + 1):
        t = tensor(dt, cand).double().item()
        if t != t or t in (float("inf"), float("-inf")):
            continue
        d = (abs(Fraction(t) - exact), cand & 1)
        if best is None or d < best[0]:
            best = (d, cand)
    return best[1]


def row(dt, op, a, b, c, want, out=None):
    print(f'    {{{NAMES[dt][0]}, "{op}", 0x{a:x}, 0x{b:x}, 0x{c:x}, {NAMES[out or dt][0]}, 0x{want:x}}},')


def pick(dt):
    size = NAMES[dt][1]
    while True:
        v = random.getrandbits(8 * size)
        if random.random() < 0.5:  # of moderate size, so that sums meet
            v = bits(torch.tensor([random.uniform(-8, 8)], dtype=torch.float64).to(TORCH[dt]))
        t = tensor(dt, v).double().item()
        if t == t and abs(t) != float("inf"):
            return v


print("/* SPDX-License-Identifier: MIT */")
print("/* Made by gen_float_rows.py with numpy and torch: {dtype, op, a, b, c, dtype of the result, bits}. */")
print("static const float_row float_rows[] = {")
for dt in NAMES:
    for op, f in (("add", torch.add), ("sub", torch.sub), ("mul", torch.mul), ("div", torch.div)):
        for _ in range(12):
            a, b = pick(dt), pick(dt)
            r = f(tensor(dt, a), tensor(dt, b))
            if not torch.isnan(r).item():
                row(dt, op, a, b, 0, bits(r))
    for _ in range(10):
        a = pick(dt)
        sign = 1 << (8 * NAMES[dt][1] - 1)
        row(dt, "sqrt", a & ~sign, 0, 0, bits(torch.sqrt(tensor(dt, a & ~sign))))
        row(dt, "floor", a, 0, 0, bits(torch.floor(tensor(dt, a))))
        row(dt, "trunc", a, 0, 0, bits(torch.trunc(tensor(dt, a))))
        row(dt, "neg", a, 0, 0, a ^ sign)
    for _ in range(20):
        a, b = pick(dt), pick(dt)
        p = tensor(dt, a).double() * tensor(dt, b).double()
        if abs(p.item()) > 1e4 or abs(p.item()) < 1e-3:
            continue
        c = bits((-p * random.choice([1, 1, 1.001, 0.5, 1e-3, 3])).to(TORCH[dt]))
        row(dt, "fma", a, b, c, fma(dt, a, b, c))
    for to in NAMES:
        for _ in range(12):
            a = pick(dt)
            if dt in ("f32", "f64") and random.random() < 0.6:
                # halfway points of the small types and values just beside them
                v = random.choice([1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 65519.99, 65520.0,
                                   2**-25, 2**-25 * 1.0001, 3 * 2**-25, 2**-14 - 2**-25, 1e-40, 3.3e38])
                if dt == "f64":
                    v *= random.choice([1, 1 + 2**-40, 1 - 2**-40])
                a = bits(torch.tensor([v], dtype=torch.float64).to(TORCH[dt]))
            t = tensor(dt, a)
            if dt == "f64" and to == "f16":
                want = int(np.frombuffer(np.float64(t.item()).astype(np.float16).tobytes(), np.uint16)[0])
            elif dt == "f64" and to == "bf16":
                continue  # torch rounds twice here
            else:
                want = bits(t.to(TORCH[to]))
            row(dt, "cast", a, 0, 0, want, to)
print("};")
