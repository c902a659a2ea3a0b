#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes print_golden.inc: arrays and the text that numpy's str() gives for them."""
import numpy as np

NAMES = {"float64": "TN_F64", "float32": "TN_F32", "float16": "TN_F16", "int32": "TN_I32",
         "int64": "TN_I64", "uint8": "TN_U8", "bool": "TN_BOOL", "int8": "TN_I8", "uint64": "TN_U64"}
rng = np.random.default_rng(3)
inf, nan = np.inf, np.nan
cases = [
    np.array([1.0, 2.0, 3.0], np.float32),
    np.array([1.0, 2.5, -3.25], np.float32),
    np.array([[0.1, 0.2], [10.5, -0.3]], np.float32),
    np.array([0.1, 1 / 3, np.pi], np.float64),
    np.array([1 / 3, 2 / 3], np.float16),
    np.array([1e10, 1.5], np.float64),
    np.array([1e-5, 1.0], np.float32),
    np.array([1e8], np.float32), np.array([999999.0, 1e4], np.float32), np.array([1e6, 1e4], np.float32),
    np.array(1e6, np.float32), np.array(999999.0, np.float32), np.array(0.0001, np.float32),
    np.array([999.0, 10.0], np.float16), np.array(2048.0, np.float16),
    np.array([99999999.0]),
    np.array([1000.5, 1.0]),
    np.array([1001.5, 1.0]),
    np.array([0.0, -0.0, 1.0], np.float32),
    np.array([0.0]),
    np.array([nan, 1.5, inf]),
    np.array([-inf, 1.0, nan], np.float32),
    np.array([nan, nan]),
    np.array([-inf, 1e20, nan]),
    np.array([1e100, 1.0]),
    np.array([1e-300, -2.5e10]),
    np.array([123456.789, 0.5]),
    np.array([0.12345678901, 5.0]),
    np.array([1, -20, 300], np.int32),
    np.array([[1, 2], [30, 4]], np.int64),
    np.array([0, 255], np.uint8),
    np.array([2**64 - 1, 0], np.uint64),
    np.array([-128, 5], np.int8),
    np.array([True, False]),
    np.array([[True, True], [True, True]]),
    np.array(1.5), np.array(1.0, np.float32), np.array(np.pi), np.array(0.1, np.float32),
    np.array(1e16), np.array(1e15), np.array(1e-5), np.array(0.0001), np.array(-7, np.int32),
    np.array(True), np.array(nan), np.array(-inf), np.array(123456789.0, np.float32), np.array(1e100),
    np.zeros((0,), np.float32), np.zeros((2, 0), np.int32), np.zeros((0, 3)),
    np.arange(30, dtype=np.int32),
    np.arange(60, dtype=np.int32).reshape(2, 30),
    np.arange(24, dtype=np.float32).reshape(2, 3, 4),
    np.arange(16, dtype=np.int32).reshape(2, 2, 2, 2),
    rng.standard_normal((3, 11)),
    rng.standard_normal((2, 2, 9)).astype(np.float32),
    rng.standard_normal((5, 4)).astype(np.float32) * 1e5,
    np.arange(1001, dtype=np.int32),
    np.arange(200, dtype=np.int32) % 10,
    np.arange(1200, dtype=np.float32).reshape(30, 40),
    np.arange(1400, dtype=np.int32).reshape(7, 10, 20),
    np.arange(1200, dtype=np.int32).reshape(2, 600),
    np.arange(1200, dtype=np.int32).reshape(600, 2),
    np.arange(2048, dtype=np.int32).reshape(8, 4, 8, 8),
    np.full((3,), 65504, np.float16),
    np.array([[1.0]], np.float32),
    np.array([[[5]]], np.int32),
    np.array([1e-45, 1e-44], np.float32),
    np.array([3.4028235e38], np.float32),
]


def quote(s):
    return '"' + s.replace("\n", '\\n"\n     "') + '"'


data, rows = bytearray(), []
for a in cases:
    raw = a.tobytes()
    rows.append((NAMES[str(a.dtype)], a.shape, len(data), len(raw), str(a)))
    data += raw
with open("print_golden.inc", "w") as f:
    f.write(f"/* Made by make_print_golden.py with numpy: elements, and the text of str(). */\n")
    f.write("static const unsigned char golden_data[] = {\n")
    for i in range(0, len(data), 24):
        f.write("    " + ",".join(str(b) for b in data[i:i + 24]) + ",\n")
    f.write("};\nstatic const struct {\n    tn_dtype dt;\n    int rank;\n    int64_t dims[4];\n"
            "    size_t at, bytes;\n    const char *text;\n} golden[] = {\n")
    for dt, shape, at, n, text in rows:
        dims = ", ".join(map(str, shape)) or "0"
        f.write(f"    {{{dt}, {len(shape)}, {{{dims}}}, {at}, {n},\n     {quote(text)}}},\n")
    f.write("};\n")
