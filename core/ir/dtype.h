/* SPDX-License-Identifier: MIT */
/* Element types: sizes, classes, the promotion lattice, scalars and their conversions. */
#ifndef TN_IR_DTYPE_H
#define TN_IR_DTYPE_H
#include "base/base.h"
#include <tenon/types.h>

typedef union {
    int64_t i;
    uint64_t u;
    double f;
} tn__scalar; /* which member: by class of the dtype; bool is u 0/1 */

size_t tn__dtype_size(tn_dtype dt);      /* bytes */
const char *tn__dtype_name(tn_dtype dt); /* "float32" */
bool tn__dtype_is_float(tn_dtype dt);
bool tn__dtype_is_int(tn_dtype dt);    /* signed or unsigned, not bool */
bool tn__dtype_is_signed(tn_dtype dt); /* signed integers */
bool tn__dtype_is_unsigned(tn_dtype dt);
int tn__dtype_bits(tn_dtype dt);
/* Least upper bound in the lattice bool -> i8,u8 -> .. -> f64 (no weak types: scalars are handled by the
 * caller); uint64 with any signed integer, and any integer with a float, give a float. */
tn_dtype tn__dtype_promote(tn_dtype a, tn_dtype b);
tn_dtype tn__dtype_default_float(void);   /* TN_DEFAULT_FLOAT */
tn_dtype tn__dtype_to_float(tn_dtype dt); /* itself if a float, else the default float */
tn_dtype tn__dtype_sum(tn_dtype dt);      /* accumulator of a sum: >= i32, u32, f32 */
int64_t tn__dtype_int_min(tn_dtype dt);   /* integers and bool */
uint64_t tn__dtype_int_max(tn_dtype dt);

/* Rounds or wraps a value to what dt can hold: floats saturate into integers, NaN gives 0. */
tn__scalar tn__scalar_from_double(tn_dtype dt, double v);
tn__scalar tn__scalar_from_int(tn_dtype dt, int64_t v);
double tn__scalar_to_double(tn_dtype dt, tn__scalar s);
int64_t tn__scalar_to_int(tn_dtype dt, tn__scalar s);
tn__scalar tn__scalar_cast(tn_dtype from, tn_dtype to, tn__scalar s);
uint64_t tn__scalar_bits(tn_dtype dt, tn__scalar s); /* as stored, in the low bytes */
tn__scalar tn__scalar_from_bits(tn_dtype dt, uint64_t bits);
uint16_t tn__f32_to_f16(float f); /* round to nearest even */
float tn__f16_to_f32(uint16_t h);
uint16_t tn__f32_to_bf16(float f);
float tn__bf16_to_f32(uint16_t h);
/* k = +-2^n log2(e), rounded to the float dtype: +-2^n, else 0.  EXP2 of x k is e^(x 2^n), rounded once. */
double tn__log2e_multiple(tn_dtype dt, double k);
#endif
