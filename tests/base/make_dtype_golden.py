#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes dtype_golden.inc: float64 and int64 values with their float32, float16 (numpy) and bfloat16 (torch) bits.

numpy rounds float64 to float16 once; for bfloat16 the values are float32 numbers, so that torch rounds once.
"""
import numpy as np
import torch

rng = np.random.default_rng(20)
out = []


def bits32(v):
    return int(np.float32(v).view(np.uint32))


def row_f(v):
    with np.errstate(over="ignore"):
        f32, f16 = np.float32(v), np.float64(v).astype(np.float16)
    out.append("    {0x%016xu, 0x%08xu, 0x%04xu}," % (
        int(np.float64(v).view(np.uint64)), int(f32.view(np.uint32)), int(f16.view(np.uint16))))


special = [0.0, -0.0, 1.0, -1.0, 65504.0, 65519.999, 65520.0, 65536.0, 1e300, -1e300, np.inf, -np.inf,
           2.0**-14, 2.0**-14 * (1 - 2.0**-12), 2.0**-24, 2.0**-25, 2.0**-25 * (1 + 2.0**-40), 2.0**-26, 5e-324,
           1 + 2.0**-11, 1 + 2.0**-11 + 2.0**-40, 1 + 3 * 2.0**-11, 1 + 3 * 2.0**-11 - 2.0**-40, 2049.0, 2051.0,
           1 + 2.0**-24, 1 + 2.0**-24 + 2.0**-50, 3.4028235677973366e38, 3.5e38, 1e-45, 0.5e-45, 0.1, 1 / 3]
out.append("/* Made by make_dtype_golden.py: bits of a float64, of it as float32 and as float16 (numpy). */")
out.append("static const struct {\n    uint64_t f64;\n    uint32_t f32;\n    uint16_t f16;\n} golden_f[] = {")
for v in special:
    row_f(v)
for _ in range(60):
    row_f(rng.standard_normal() * 2.0 ** int(rng.integers(-26, 17)))
out.append("};\n\n/* float32 bits and bfloat16 bits (torch). */")
out.append("static const struct {\n    uint32_t f32;\n    uint16_t bf16;\n} golden_b[] = {")
xs = [0x3f808000, 0x3f818000, 0x3f808001, 0x3f807fff, 0x7f7fffff, 0x7f7f8000, 0x7f7f7fff, 0x00000001, 0x00008000,
      0x00008001, 0x00018000, 0x007fffff, 0x80000000, 0x7f800000, 0xff800000, 0xff7fffff]
xs += [int(x) for x in rng.integers(0, 2**32, 60) if (int(x) & 0x7f800000) != 0x7f800000]
for x in xs:
    t = torch.tensor(np.uint32(x).view(np.float32)).to(torch.bfloat16).view(torch.int16).item() & 0xffff
    out.append("    {0x%08xu, 0x%04xu}," % (x, t))
out.append("};\n\n/* An int64, and its float32 and float64 bits (numpy). */")
out.append("static const struct {\n    int64_t i;\n    uint32_t f32;\n    uint64_t f64;\n} golden_i[] = {")
ints = [0, 1, -1, 2**24 + 1, 2**24 + 3, -(2**24 + 1), 2**53 + 1, 2**53 + 3, 2**62 + 2**38 + 1, 2**62 + 2**38,
        2**62 + 3 * 2**38, 2**63 - 1, -(2**63) + 1, 9007199791611905]
ints += [int(x) for x in rng.integers(-2**63, 2**63 - 1, 40)]
for i in ints:
    a = np.array([i], dtype=np.int64)
    out.append("    {INT64_C(%d), 0x%08xu, 0x%016xu}," % (
        i, int(a.astype(np.float32).view(np.uint32)[0]), int(a.astype(np.float64).view(np.uint64)[0])))
out.append("};")
open(__file__.replace("make_dtype_golden.py", "dtype_golden.inc"), "w").write("\n".join(out) + "\n")
