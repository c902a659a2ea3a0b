/* SPDX-License-Identifier: MIT */
/*
 * From kernels to source: opts.c splits ranges by the heuristic, emit.c makes linear code, render_c.c makes
 * C-like text with a plugin's dialect table.  Reads no context variable.
 */
#ifndef TN_CODEGEN_CODEGEN_H
#define TN_CODEGEN_CODEGEN_H
#include "schedule/schedule.h"
#include <tenon/linear.h>
#include <tenon/plugin.h>

typedef struct {
    uint32_t simd_bytes, simd_regs, cores;
    uint64_t cache[3];
    bool fma, noopt;
} tn__codegen_target;

/* t: of each device, by slot.  Chooses and applies opts to every kernel and records their text in k->opts; may add kernels that stage operands. */
bool tn__optimise(tn__schedule *s, const tn__codegen_target *t);

/* Orders kernels by launches: small independent ones share one. */
bool tn__group_kernels(tn__schedule *s);
/* Linear code of a launch from its members' (n > 1); the launch's name is written to name. */
bool tn__group_blob(const tn__buf *const *blobs, int n, char *name, size_t cap, tn__buf *out);

/* A kernel's linear code as a blob (own; tn__buf_free); k->name is set from its hash. */
bool tn__emit(tn__kernel *k, const tn__codegen_target *t, tn__buf *blob);

/* Appends the kernel's source text in the dialect; vector types used are declared by the unit. */
bool tn__render_c(const void *blob, size_t len, const tnp_dialect *d, const char *name,
                  tn__buf *out);
/* Opens a unit: prelude and every vector type that a kernel of it may use. */
bool tn__render_c_unit(const tnp_dialect *d, tn__buf *out);

/* Text of linear code, for DEBUG=6. */
bool tn__linear_dump(const void *blob, size_t len, tn__buf *out);
#endif
