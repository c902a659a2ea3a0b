/* SPDX-License-Identifier: MIT */
/* Linear code written by hand, and its run on a device: for suites that compare two devices. */
#ifndef TEST_LINEAR_CODE_H
#define TEST_LINEAR_CODE_H
#include "kernels.h"
#include <tenon/linear.h>

enum { CODE_BUFS = 20, CODE_ROWS = 512 };
typedef struct {
    tnl_head head;
    tnl_buf bufs[CODE_BUFS];
    tnl_row rows[CODE_ROWS];
    char names[64][TNL_NAME];
    unsigned char bytes[32768];
} code;

static inline void code_begin(code *k, uint32_t grid)
{
    memset(k, 0, sizeof *k);
    k->head = (tnl_head){
        .magic = TNL_MAGIC, .grid = {grid, 1, 1}, .local = {1, 1, 1}, .name = "kernel"};
}

static inline int64_t code_arg(code *k, uint32_t dt, uint64_t count)
{
    k->bufs[k->head.nargs] = (tnl_buf){.count = count, .dtype = (uint8_t)dt, .access = 3};
    return k->head.nargs++;
}

/* Appends a row and gives its number. */
static inline int32_t code_row(code *k, const char *op, uint32_t dt, uint32_t lanes, int64_t imm,
                               int32_t a, int32_t b, int32_t c)
{
    uint32_t n = 0;
    while (n < k->head.nops && strncmp(k->names[n], op, TNL_NAME) != 0) n++;
    if (n == k->head.nops) strncpy(k->names[k->head.nops++], op, TNL_NAME - 1);
    ck_assert_uint_lt(k->head.nrows, CODE_ROWS);
    const uint32_t i = k->head.nrows++;
    k->rows[i] = (tnl_row){.op = (uint16_t)n,
                           .dtype = (uint8_t)dt,
                           .lanes = (uint8_t)lanes,
                           .src = {a, b, c},
                           .imm = imm};
    return (int32_t)i;
}

static inline int32_t code_const(code *k, uint32_t dt, int64_t v)
{
    return code_row(k, "const", dt, 1, v, -1, -1, -1);
}

static inline size_t code_blob(code *k)
{
    tnl_head h = k->head;
    unsigned char *p = k->bytes + sizeof h;
    const size_t nb = (h.nargs + h.nscratch) * sizeof(tnl_buf), no = (size_t)h.nops * TNL_NAME,
                 nr = h.nrows * sizeof(tnl_row);
    ck_assert_uint_le(sizeof h + nb + no + nr, sizeof k->bytes);
    memcpy(p, k->bufs, nb);
    memcpy(p + nb, k->names, no);
    memcpy(p + nb + no, k->rows, nr);
    h.bytes = (uint32_t)(sizeof h + nb + no + nr);
    memcpy(k->bytes, &h, sizeof h);
    return h.bytes;
}

static inline bool code_build(tn__device *d, code *k, tn__program **p)
{
    static tnp_arg args[CODE_BUFS];
    for (uint32_t i = 0; i < k->head.nargs; i++)
        args[i] = (tnp_arg){.dtype = k->bufs[i].dtype, .access = k->bufs[i].access};
    const tn__kernel_sig sig = {.name = k->head.name,
                                .args = args,
                                .nargs = k->head.nargs,
                                .nimms = k->head.nimms,
                                .local = {1, 1, 1},
                                .scratch_bytes = k->head.scratch_bytes};
    return tn__program_build(d, k->bytes, code_blob(k), &sig, 1, p);
}

static inline size_t code_size(uint32_t dt)
{
    static const uint8_t size[TNP_DTYPE_COUNT] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return size[dt];
}

/* Builds, runs on copies of the callers' memory (bufs[i].count elements each), and gives it back. */
static inline void code_run(tn__device *d, code *k, void *const *mem, const uint64_t *imms)
{
    tn__program *p;
    tn__buffer *b[CODE_BUFS];
    tnp_ref r[CODE_BUFS];
    OK(code_build(d, k, &p));
    for (uint32_t i = 0; i < k->head.nargs; i++) {
        const size_t n = (size_t)k->bufs[i].count * code_size(k->bufs[i].dtype);
        OK(b[i] = tn__buffer_new(d, n));
        OK(tn__buffer_write(b[i], 0, mem[i], n));
        r[i] = tn__buffer_ref_of(b[i], 0, n);
    }
    OK(tn__launch_run(d, p,
                      &(tn__launch){.grid = {k->head.grid[0], 1, 1},
                                    .local = {1, 1, 1},
                                    .bufs = r,
                                    .nbufs = k->head.nargs,
                                    .imms = imms,
                                    .nimms = k->head.nimms,
                                    .work = 1000000}));
    for (uint32_t i = 0; i < k->head.nargs; i++) {
        OK(tn__buffer_read(mem[i], b[i], 0,
                           (size_t)k->bufs[i].count * code_size(k->bufs[i].dtype)));
        tn__buffer_unref(b[i]);
    }
    tn__program_unref(p);
}
#endif
