#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes plugins/cpu/llvm_poly.h: what llvm_math.c computes exp2, log2 and sin with.

Each polynomial is the Chebyshev interpolant of g on [lo, hi] as powers of the variable, of the lowest
degree whose error, weighed with w (its share in the result), is below `eps`.  two_over_pi are the bits of
2 / pi after one word of zeros, for the reduction of large arguments (M. Payne and R. Hanek, Radian
reduction for trigonometric functions, 1983).
"""
import sys
import mpmath as mp

mp.mp.dps = 80
TINY = mp.mpf(10) ** -30


def away(x):
    return x if abs(x) > TINY else TINY


def interpolant(g, lo, hi, n):
    m, h = (lo + hi) / 2, (hi - lo) / 2
    xs = [m + h * mp.cos(mp.pi * (2 * k + 1) / (2 * n)) for k in range(n)]
    a = mp.matrix(n, n)
    for i, x in enumerate(xs):
        for j in range(n):
            a[i, j] = x ** j
    return list(mp.lu_solve(a, mp.matrix([g(away(x)) for x in xs])))


def worst(g, w, lo, hi, c):
    e = mp.mpf(0)
    for k in range(301):
        x = away(lo + (hi - lo) * k / 300)
        e = max(e, abs((sum(cj * x ** j for j, cj in enumerate(c)) - g(x)) * w(x)))
    return e


half, root = mp.mpf("0.5"), mp.sqrt(mp.mpf(2))
quarter = (mp.pi / 4 * mp.mpf("1.0001")) ** 2
log2e = 1 / mp.log(2)
tables = [
    ("exp2_p", "2^r = 1 + r P(r), |r| <= 1/2", lambda r: mp.expm1(r * mp.log(2)) / r, lambda r: r / 2 ** r,
     -half * mp.mpf("1.0001"), half * mp.mpf("1.0001"), mp.mpf(2) ** -27),
    ("log2_p", "log2(1 + f) = f log2(e) + f^2 P(f), sqrt(1/2) <= 1 + f <= sqrt(2)",
     lambda f: (mp.log1p(f) * log2e - f * log2e) / f ** 2, lambda f: f ** 2 / (mp.log1p(f) * log2e),
     1 / root - 1 - mp.mpf(10) ** -6, root - 1 + mp.mpf(10) ** -6, mp.mpf(2) ** -29),
    ("sin_p", "sin r = r + r^3 P(r^2), |r| <= pi / 4", lambda z: (mp.sin(mp.sqrt(z)) / mp.sqrt(z) - 1) / z,
     lambda z: z, mp.mpf(0), quarter, mp.mpf(2) ** -34),
    ("cos_p", "cos r = 1 + r^2 P(r^2), |r| <= pi / 4", lambda z: (mp.cos(mp.sqrt(z)) - 1) / z,
     lambda z: z, mp.mpf(0), quarter, mp.mpf(2) ** -34),
]
out = ["/* SPDX-License-Identifier: MIT */",
       "/* Made by tests/golden/make_llvm_poly.py: coefficients, lowest power first, and the bits of 2 / pi. */",
       "#ifndef CPU_LLVM_POLY_H", "#define CPU_LLVM_POLY_H", "#include <stdint.h>", ""]
for name, what, g, w, lo, hi, eps in tables:
    n = 2
    while True:
        c = interpolant(g, lo, hi, n)
        if worst(g, w, lo, hi, c) < eps:
            break
        n += 1
    out.append("/* %s */" % what)
    out.append("static const double %s[%d] = {" % (name, n))
    out += ["    %s," % mp.nstr(x, 17) for x in c]
    out.append("};")
hi = mp.floor(mp.pi / 2 * 2 ** 32) / mp.mpf(2) ** 32
out += ["/* pi / 2 = the first 33 bits + the rest */",
        "static const double half_pi_hi = %s, half_pi_lo = %s;" % (mp.nstr(hi, 20), mp.nstr(mp.pi / 2 - hi, 17)),
        "static const double two_over_pi_d = %s, half_pi_d = %s, log2_e = %s;" %
        (mp.nstr(2 / mp.pi, 17), mp.nstr(mp.pi / 2, 17), mp.nstr(log2e, 17))]
mp.mp.dps = 140
bits = int(mp.floor(2 / mp.pi * mp.mpf(2) ** (32 * 8)))
words = [0] + [(bits >> (32 * (7 - i))) & 0xffffffff for i in range(8)]
out.append("static const uint32_t two_over_pi[%d] = {" % len(words))
out += ["    " + " ".join("0x%08xu," % x for x in words[i:i + 5]) for i in range(0, len(words), 5)]
out += ["};", "#endif", ""]
open(sys.argv[1], "w").write("\n".join(out))
