/* SPDX-License-Identifier: MIT */
/* Made by tests/golden/make_llvm_poly.py: coefficients, lowest power first, and the bits of 2 / pi. */
#ifndef CPU_LLVM_POLY_H
#define CPU_LLVM_POLY_H
#include <stdint.h>

/* 2^r = 1 + r P(r), |r| <= 1/2 */
static const double exp2_p[6] = {
    0.69314718803071341,   0.24022650760606957,   0.0555035709268903,
    0.0096180825386369608, 0.0013390874847810528, 0.00015453172887040159,
};
/* log2(1 + f) = f log2(e) + f^2 P(f), sqrt(1/2) <= 1 + f <= sqrt(2) */
static const double log2_p[10] = {
    -0.72134751962930833, 0.48089819490270618,  -0.36067391804719121, 0.28855988040577585,
    -0.24046172740635509, 0.20532893308357449,  -0.17919444538813485, 0.1704131686587164,
    -0.16673665769886618, 0.097656516351948571,
};
/* sin r = r + r^3 P(r^2), |r| <= pi / 4 */
static const double sin_p[4] = {
    -0.16666666663853044,
    0.008333331873837088,
    -0.00019840086263755442,
    2.7249864655139584e-6,
};
/* cos r = 1 + r^2 P(r^2), |r| <= pi / 4 */
static const double cos_p[5] = {
    -0.49999999999963855, 0.041666666637372697,   -0.0013888885089126252,
    2.479986150250612e-5, -2.7237076731325095e-7,
};
/* pi / 2 = the first 33 bits + the rest */
static const double half_pi_hi = 1.5707963267341256142, half_pi_lo = 6.0771005065061926e-11;
static const double two_over_pi_d = 0.63661977236758134, half_pi_d = 1.5707963267948966,
                    log2_e = 1.4426950408889634;
static const uint32_t two_over_pi[9] = {
    0x00000000u, 0xa2f9836eu, 0x4e441529u, 0xfc2757d1u, 0xf534ddc0u,
    0xdb629599u, 0x3c439041u, 0xfe5163abu, 0xdebbc561u,
};
#endif
