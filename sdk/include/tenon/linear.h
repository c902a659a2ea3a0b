/* SPDX-License-Identifier: MIT */
/*
 * Linear code: one kernel as a flat list of rows, the form in which a plugin with a renderer of its own
 * (or an interpreter) receives it.
 *
 * A blob is tnl_head, then head.nargs tnl_buf (kernel arguments), head.nscratch tnl_buf (private
 * arrays), head.nops names of 16 bytes, then head.nrows tnl_row.  A row names its op by an index into the
 * blob's own names, so that a new op renumbers nothing.  All integers are little-endian and aligned.
 *
 * Rows are in emit order: a source is always an earlier row.  Sources are row numbers, -1 for none.
 * `lanes` is 1 for scalars; a vector op works lane by lane.  Booleans are 0 or 1 in memory (one byte).
 *
 * Control
 *   const  imm: bits of the value in the low bytes (floats by their own bits; bool 0/1); all lanes equal
 *   gid    imm: axis 0..2; the work-group's index, 0 <= gid < grid
 *   param  imm: number of the immediate; its low bytes are the value of the row's dtype
 *   loop   src0: trip count; the row's value counts 0, 1, ..; ends at the matching `end`
 *   end    src0: the loop row
 *   if     src0: bool scalar.   endif src0: the if row
 *   var    src0: initial value; a variable: as a source it means its value at that time
 *   set    src0: a var row, src1: its new value
 * Memory (imm: buffer number, arguments first, then scratch; index counts elements of the buffer's dtype)
 *   load   src0: index, src1: gate or -1 (bool scalar; false: the value is 0 and memory is not touched).
 *          lanes > 1: consecutive elements
 *   store  src0: index, src1: value, src2: gate or -1.  lanes > 1: consecutive elements
 * Vectors
 *   splat src0; insert src0 (vector), src1 (scalar), imm lane; extract src0, imm lane
 * Values
 *   add sub mul neg and or xor not shl shr     wrap around for integers; shifts: 0 <= count < bits
 *   div      floats.   idiv imod: integers, truncating, the divisor is never 0 nor the quotient too large
 *   fma      src0 * src1 + src2, one rounding
 *   lt eq ne  result bool (IEEE: NaN is unequal, never less)
 *   where    src0 bool ? src1 : src2
 *   sqrt trunc floor exp2 log2 sin            floats
 *   cast     C's conversion; a float out of an integer's range never reaches it (lowered before)
 *   bitcast  same size
 */
#ifndef TENON_LINEAR_H
#define TENON_LINEAR_H
#include <stddef.h>
#include <stdint.h>

#define TNL_MAGIC 0x304c4e54u /* "TNL0" */
#define TNL_NAME  16

/* Ops that every taker of linear code knows. */
/* clang-format off */
#define TNL_BASE_OPS(X)                                                                         \
    X(const) X(gid) X(param) X(loop) X(end) X(if) X(endif) X(var) X(set) X(load) X(store)       \
    X(splat) X(insert) X(extract) X(add) X(sub) X(mul) X(neg) X(and) X(or) X(xor) X(not)        \
    X(shl) X(shr) X(div) X(idiv) X(imod) X(lt) X(eq) X(ne) X(where) X(sqrt) X(trunc) X(floor)   \
    X(exp2) X(log2) X(sin) X(cast) X(bitcast) X(fma)
/* clang-format on */

typedef struct tnl_head {
    uint32_t magic, bytes; /* of the whole blob */
    uint32_t nargs, nscratch, nimms, nops, nrows;
    uint32_t grid[3];  /* work-groups of a launch */
    uint32_t local[3]; /* 1 where a work-group is one thread */
    uint32_t reserved;
    uint64_t
        scratch_bytes; /* of all scratch buffers of one work-group, laid out in order, 64-byte aligned */
    char name[64]; /* of the kernel, NUL-terminated */
} tnl_head;

typedef struct tnl_buf {
    uint64_t count; /* elements */
    uint8_t dtype, access, reserved[6];
    uint64_t offset; /* scratch: byte offset */
} tnl_buf;

typedef struct tnl_row {
    uint16_t op; /* index into the blob's names */
    uint8_t dtype, lanes;
    int32_t src[3];
    int64_t imm;
} tnl_row;

typedef struct tnl_view {
    const tnl_head *head;
    const tnl_buf *bufs;         /* nargs + nscratch */
    const char (*ops)[TNL_NAME]; /* nops */
    const tnl_row *rows;
} tnl_view;

/* Checks the sizes and points into the blob.  0 when it is well-formed, else -1. */
static inline int tnl_open(const void *blob, size_t n, tnl_view *v)
{
    const char *p = (const char *)blob;
    const tnl_head *h = (const tnl_head *)blob;
    if (n < sizeof *h || h->magic != TNL_MAGIC || h->bytes > n) return -1;
    uint64_t nb = (uint64_t)h->nargs + h->nscratch;
    uint64_t want = sizeof *h + nb * sizeof(tnl_buf) + (uint64_t)h->nops * TNL_NAME +
                    (uint64_t)h->nrows * sizeof(tnl_row);
    if (want != h->bytes) return -1;
    v->head = h;
    v->bufs = (const tnl_buf *)(p + sizeof *h);
    v->ops = (const char(*)[TNL_NAME])(p + sizeof *h + nb * sizeof(tnl_buf));
    v->rows = (const tnl_row *)(p + sizeof *h + nb * sizeof(tnl_buf) + (size_t)h->nops * TNL_NAME);
    return 0;
}
#endif
