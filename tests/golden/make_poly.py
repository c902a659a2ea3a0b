#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes core/tensor/ops_poly.h: polynomials for the functions that the primitives do not have.

Each is the Chebyshev interpolant of g on [lo, hi], turned into powers of the variable (of its centred
form where `centre` is set), of the lowest degree whose relative error is below the dtype's.
"""
import sys
import mpmath as mp

mp.mp.dps = 60


def odd(f):
    """f(sqrt(z)) / sqrt(z), continued to z = 0."""
    def g(z):
        z = mp.mpf(z)
        if z < mp.mpf(10) ** -40:
            z = mp.mpf(10) ** -40
        s = mp.sqrt(z)
        return f(s) / s
    return g


def powers(g, lo, hi, n, centre):
    m, h = (mp.mpf(lo) + hi) / 2, (mp.mpf(hi) - lo) / 2
    xs = [mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    ys = [g(m + h * x) for x in xs]
    if not centre:
        xs = [m + h * x for x in xs]
    a = mp.matrix(n, n)
    for i, x in enumerate(xs):
        for j in range(n):
            a[i, j] = x ** j
    return list(mp.lu_solve(a, mp.matrix(ys)))


def worst(g, lo, hi, c, centre):
    m, h, w = (mp.mpf(lo) + hi) / 2, (mp.mpf(hi) - lo) / 2, mp.mpf(0)
    for k in range(201):
        y = -1 + mp.mpf(k) / 100
        x = y if centre else m + h * y
        p = sum(cj * x ** j for j, cj in enumerate(c))
        t = g(m + h * y)
        w = max(w, abs(p / t - 1))
    return w


def erfcx(t):
    a = 2 / mp.mpf(t) - 2
    return mp.erfc(a) * mp.exp(a * a)


tables = [
    ("atan", odd(mp.atan), 0, mp.mpf("0.1716"), False),
    ("asin", odd(mp.asin), 0, mp.mpf("0.25"), False),
    ("sinh", odd(mp.sinh), 0, 1, False),
    ("tanh", odd(mp.tanh), 0, mp.mpf("0.36"), False),
    ("erf", odd(mp.erf), 0, 1, False),
    ("erfcx", erfcx, mp.mpf(2) / 8, mp.mpf(2) / 3, True),
]

out = ["/* SPDX-License-Identifier: MIT */",
       "/* Made by tests/golden/make_poly.py: polynomial coefficients, lowest power first, for float32 and float64. */",
       "#ifndef TN_TENSOR_OPS_POLY_H", "#define TN_TENSOR_OPS_POLY_H", ""]
for name, g, lo, hi, centre in tables:
    for bits, eps in ((32, mp.mpf("4e-9")), (64, mp.mpf("4e-18"))):
        n = 3
        while True:
            c = powers(g, lo, hi, n, centre)
            if worst(g, lo, hi, c, centre) < eps:
                break
            n += 1
        out.append("static const double %s%d[%d] = {" % (name, bits, n))
        for i in range(0, n, 4):
            out.append("    " + " ".join("%s," % mp.nstr(x, 17) for x in c[i:i + 4]))
        out.append("};")
out += ["#endif", ""]
open(sys.argv[1], "w").write("\n".join(out))
