/* SPDX-License-Identifier: MIT */
/* Hand-written kernels of the dialect gnu-c, and what the suites of devices share. */
#ifndef TEST_KERNELS_H
#define TEST_KERNELS_H
#include "device/device.h"
#include "test.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/device.h>

#define HEAD      "#include <stdint.h>\n"
#define SIGNATURE "(void *const *bufs, const uint64_t *imms, const uint32_t *gid, void *scratch)"
enum { GROUP = 1000 }; /* elements of a work-group */

/* out[i] = a[i] + b[i] over a group's elements */
static const char add_source[] = HEAD
    "void add" SIGNATURE
    "{ float *o = bufs[0]; const float *a = bufs[1], *b = bufs[2]; (void)imms; (void)scratch;\n"
    "  for (uint32_t i = gid[0] * 1000; i < gid[0] * 1000 + 1000; i++) o[i] = a[i] + b[i]; }\n"
    /* out[i] = a[i] * (float)imms[0] */
    "void scale" SIGNATURE "{ float *o = bufs[0]; const float *a = bufs[1]; (void)scratch;\n"
    "  for (uint32_t i = gid[0] * 1000; i < gid[0] * 1000 + 1000; i++) o[i] = a[i] * "
    "(float)imms[0]; }\n"
    /* writes a group's number through scratch memory, and its address's remainder */
    "void through" SIGNATURE "{ int *o = bufs[0], *s = scratch; (void)imms;\n"
    "  uint32_t at = gid[0] + 7 * (gid[1] + 5 * gid[2]);\n"
    "  for (int i = 0; i < 4096; i++) s[i] = (int)at + i;\n"
    "  o[at] = s[4095] - 4095 + (int)((uintptr_t)scratch % 64); }\n";

static const tnp_arg f32_args[3] = {{.dtype = TNP_F32, .access = TNP_ACCESS_WRITE},
                                    {.dtype = TNP_F32, .access = TNP_ACCESS_READ},
                                    {.dtype = TNP_F32, .access = TNP_ACCESS_READ}};
static const tn__kernel_sig add_sigs[3] = {
    {.name = "add", .args = f32_args, .nargs = 3, .local = {1, 1, 1}},
    {.name = "scale", .args = f32_args, .nargs = 2, .nimms = 1, .local = {1, 1, 1}},
    {.name = "through", .args = f32_args, .nargs = 1, .local = {1, 1, 1}, .scratch_bytes = 16384}};

static inline const char *error_text(void)
{
    return tn_last_error() ? tn_last_error()->msg : "(no error)";
}
#define OK(x) ck_assert_msg((x), "%s", error_text())

/* The pending error is this one and says this; clears it. */
#define SAYS(c, part)                                                                              \
    do {                                                                                           \
        ck_assert_msg(!tn_ok(), "no error is pending");                                            \
        ck_assert_msg(tn_last_error()->code == (c), "%s: %s", tn_code_name(tn_last_error()->code), \
                      error_text());                                                               \
        ck_assert_msg(strstr(error_text(), part) != NULL, "\"%s\" is not in: %s", part,            \
                      error_text());                                                               \
        tn_clear_error();                                                                          \
    } while (0)

/* Three buffers of n floats: 0, i and 2 i + 1. */
static inline void three_buffers(tn__device *d, size_t n, tn__buffer **b, tnp_ref *r)
{
    float *v = malloc(n * sizeof *v);
    for (int k = 0; k < 3; k++) {
        for (size_t i = 0; i < n; i++)
            v[i] = k == 0 ? 0.0f : k == 1 ? (float)i : (float)(2 * i + 1);
        OK(b[k] = tn__buffer_new(d, n * sizeof *v));
        OK(tn__buffer_write(b[k], 0, v, n * sizeof *v));
        r[k] = tn__buffer_ref_of(b[k], 0, n * sizeof *v);
    }
    free(v);
}

static inline void drop_three(tn__buffer **b)
{
    for (int k = 0; k < 3; k++) tn__buffer_unref(b[k]);
}
#endif
