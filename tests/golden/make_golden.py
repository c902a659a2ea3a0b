#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes tests/golden/methods.bin and tests/ops.txt with PyTorch and numpy.  usage: make_golden.py [ROOT]

The rows are in golden_*.py beside it.  A method of tensor.h without a row is listed with 0.
"""
import os
import re
import sys
from golden import rows, write

here = os.path.dirname(os.path.abspath(__file__))
root = sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "..", "..")
import golden_elementwise, golden_shapes, golden_math, golden_kinds, golden_random  # noqa: E402, F401: their rows
from golden_reasons import CODES  # noqa: E402

header = open(os.path.join(root, "core/include/tenon/tensor.h")).read()
methods = re.findall(r"^TN_API [a-z_0-9]+\s+\*?\s*(tn_\w+)\(", header, re.M)
unknown = {r[0] for r in rows} - set(methods)
assert not unknown, unknown
write(os.path.join(root, "tests/golden/methods.bin"), os.path.join(root, "tests/ops.txt"), methods, CODES)
print(len(methods), "methods,", len(rows), "rows,", sum(len(r[2]) for r in rows), "bytes")
print("fewer than 6:", [m for m in methods if sum(r[0] == m for r in rows) < 6])
