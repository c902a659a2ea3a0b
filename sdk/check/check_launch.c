/* SPDX-License-Identifier: MIT */
/* Checks 30 to 34: what kernels compute, their arguments, their limits. */
#define _GNU_SOURCE
#include "check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N = 64 };

static bool is_float(int dt) { return dt == TNP_F32 || dt == TNP_F64; }

/* Element i of the inputs: small whole numbers, exact in every dtype; signed where the dtype is. */
static double sample(int dt, int which, int i)
{
    const bool neg = dt == TNP_I8 || dt == TNP_I16 || dt == TNP_I32 || dt == TNP_I64 ||
                     is_float(dt);
    const double v = which ? i % 11 : i % 9;
    return neg && v > 0 && (i + which) % 3 == 0 ? -v : v;
}

static void store_as(int dt, void *p, int i, double v)
{
    switch (dt) {
    case TNP_BOOL: ((uint8_t *)p)[i] = v != 0; break;
    case TNP_I8: ((int8_t *)p)[i] = (int8_t)v; break;
    case TNP_U8: ((uint8_t *)p)[i] = (uint8_t)v; break;
    case TNP_I16: ((int16_t *)p)[i] = (int16_t)v; break;
    case TNP_U16: ((uint16_t *)p)[i] = (uint16_t)v; break;
    case TNP_I32: ((int32_t *)p)[i] = (int32_t)v; break;
    case TNP_U32: ((uint32_t *)p)[i] = (uint32_t)v; break;
    case TNP_I64: ((int64_t *)p)[i] = (int64_t)v; break;
    case TNP_U64: ((uint64_t *)p)[i] = (uint64_t)v; break;
    case TNP_F32: ((float *)p)[i] = (float)v; break;
    default: ((double *)p)[i] = v; break;
    }
}

/* One kernel of dtype dt: op "add", "mul", "lt", or "cast" from i32; against the host. */
static const char *one_op(const char *op, int dt)
{
    static kern k;
    const bool lt = !strcmp(op, "lt"), cast = !strcmp(op, "cast");
    const int od = lt ? TNP_BOOL : dt, id = cast ? TNP_I32 : dt;
    _Alignas(16) char a[N * 8], b[N * 8], out[N * 8], want[N * 8];
    char name[40];
    snprintf(name, sizeof name, "check_%s_%s", op, dtype_text(dt));
    k_begin(&k, name);
    k_buf(&k, od, TNP_ACCESS_WRITE);
    k_buf(&k, id, TNP_ACCESS_READ);
    k_buf(&k, id, TNP_ACCESS_READ);
    const int g = k_row(&k, "gid", TNP_I64, -1, -1, -1, 0);
    const int x = k_row(&k, "load", id, g, -1, -1, 1), y = k_row(&k, "load", id, g, -1, -1, 2);
    const int v = k_row(&k, op, od, x, cast ? -1 : y, -1, 0);
    k_row(&k, "store", od, g, v, -1, 0);
    if (!usable_dialect(&k)) return k_cannot(&k, dialects()[0] ? dialects()[0] : "");
    for (int i = 0; i < N; i++) {
        const double p = sample(id, 0, i), q = sample(id, 1, i);
        const bool no_sign = dt == TNP_U8 || dt == TNP_U16 || dt == TNP_U32 || dt == TNP_U64;
        const double pos = cast && no_sign ? fabs(p) : p;
        store_as(id, a, i, pos);
        store_as(id, b, i, q);
        store_as(od, want, i, lt ? p < q : cast ? pos : !strcmp(op, "add") ? p + q : p * q);
    }
    tnp_prog *p = k_load(&k);
    const size_t ni = N * dtype_size(id), no = N * dtype_size(od), len[3] = {no, ni, ni};
    tnp_buf *buf[3] = {buf_new(no, 0), buf_new(ni, 0), buf_new(ni, 0)};
    put(buf[1], 0, a, ni);
    put(buf[2], 0, b, ni);
    k_run(p, &k, buf, len, NULL, N, 1, 1);
    get(buf[0], 0, out, no);
    for (int i = 0; i < N; i++)
        NEED(!memcmp(out + (size_t)i * dtype_size(od), want + (size_t)i * dtype_size(od),
                     dtype_size(od)),
             "%s of %s: element %d is wrong", op, dtype_text(dt), i);
    for (int i = 0; i < 3; i++) ops->buf_free(dev, buf[i]);
    ops->prog_free(dev, p);
    return NULL;
}

static void arithmetic(void)
{
    static const char *const op[] = {"add", "mul", "lt", "cast"};
    int n = 0;
    need_exec();
    if (!dialects()[0]) skip("the device declares no dialect");
    for (int dt = TNP_I8; dt < TNP_DTYPE_COUNT; dt++) {
        if (dt == TNP_F16 || dt == TNP_BF16)
            continue; /* computed as f32: the cast is the op tests' matter */
        if (!(caps.dtypes_alu >> dt & 1)) {
            note("no %s", dtype_text(dt));
            continue;
        }
        for (size_t i = 0; i < LEN(op); i++) {
            const char *why = one_op(op[i], dt);
            if (why) note("%s of %s: %s", op[i], dtype_text(dt), why);
            n += !why;
        }
    }
    NEED(n >= 8, "only %d of the ops could be tried", n);
}

/* out[g] = sum of the first elements of all inputs */
static void sums(uint32_t n)
{
    static kern k;
    tnp_buf *b[K_MAX_BUFS];
    size_t len[K_MAX_BUFS];
    k_begin(&k, "check_many");
    k_buf(&k, TNP_I32, TNP_ACCESS_WRITE);
    const int g = k_row(&k, "gid", TNP_I64, -1, -1, -1, 0);
    int sum = k_const(&k, TNP_I32, 0), want = 0;
    for (uint32_t i = 1; i < n; i++) {
        const int in = k_buf(&k, TNP_I32, TNP_ACCESS_READ);
        const int v = k_row(&k, "load", TNP_I32, g, -1, -1, in);
        sum = k_row(&k, "add", TNP_I32, sum, v, -1, 0);
    }
    k_row(&k, "store", TNP_I32, g, sum, -1, 0);
    for (uint32_t i = 0; i < n; i++) {
        const int v = (int)(i * i + 1);
        len[i] = 4;
        b[i] = buf_new(4, 0);
        put(b[i], 0, &v, 4);
        if (i) want += v;
    }
    tnp_prog *p = k_load(&k);
    k_run(p, &k, b, len, NULL, 1, 1, 1);
    int got = 0;
    get(b[0], 0, &got, 4);
    NEED(got == want, "a kernel of %u buffers: %d, not %d", n, got, want);
    for (uint32_t i = 0; i < n; i++) ops->buf_free(dev, b[i]);
    ops->prog_free(dev, p);
}

static void arguments(void)
{
    static const struct {
        int dt;
        uint64_t bits;
    } imm[] = {{TNP_U8, 0xffffff00000000c3},
               {TNP_I8, 0xfe},
               {TNP_U16, 0xbeef},
               {TNP_I16, 0x8001},
               {TNP_U32, 0xdeadbeef},
               {TNP_I32, 0x80000001},
               {TNP_U64, 0x0123456789abcdef},
               {TNP_F32, 0x40490fdb},
               {TNP_F64, 0x400921fb54442d18}};
    need_exec();
    if (!dialects()[0]) skip("the device declares no dialect");
    for (size_t i = 0; i < LEN(imm); i++) {
        static kern k;
        const int dt = imm[i].dt;
        if (!(caps.dtypes_alu >> dt & 1)) continue;
        char name[40];
        snprintf(name, sizeof name, "check_imm_%s", dtype_text(dt));
        k_begin(&k, name);
        k.nimms = 2;
        k_buf(&k, dt, TNP_ACCESS_WRITE);
        const int g = k_row(&k, "gid", TNP_I64, -1, -1, -1, 0);
        k_row(&k, "store", dt, g, k_row(&k, "param", dt, -1, -1, -1, 1), -1, 0);
        const size_t n = dtype_size(dt), len[1] = {8};
        const uint64_t imms[2] = {0x1111111111111111, imm[i].bits};
        tnp_buf *b[1] = {buf_new(8, TNP_MEM_ZERO)};
        tnp_prog *p = k_load(&k);
        k_run(p, &k, b, len, imms, 1, 1, 1);
        uint64_t got = 0, low = 0;
        get(b[0], 0, &got, n);
        memcpy(&low, &imm[i].bits, n); /* little-endian, like every machine of this ABI */
        NEED(got == low, "an immediate of %s is %#llx, not %#llx", dtype_text(dt),
             (unsigned long long)got, (unsigned long long)low);
        ops->buf_free(dev, b[0]);
        ops->prog_free(dev, p);
    }
    const uint32_t most = caps.max_args < 64 ? caps.max_args : 64;
    sums(2);
    sums(9);
    sums(most);
    note("up to %u buffers", most);
}

/* out[x + 7 (y + 5 z)] = that number */
static void three_axes(void)
{
    static kern k;
    int got[105];
    const size_t len[1] = {sizeof got};
    k_begin(&k, "check_axes");
    k_buf(&k, TNP_I32, TNP_ACCESS_WRITE);
    const int x = k_row(&k, "gid", TNP_I64, -1, -1, -1, 0),
              y = k_row(&k, "gid", TNP_I64, -1, -1, -1, 1),
              z = k_row(&k, "gid", TNP_I64, -1, -1, -1, 2);
    const int five = k_const(&k, TNP_I64, 5), seven = k_const(&k, TNP_I64, 7);
    const int a = k_row(&k, "mul", TNP_I64, z, five, -1, 0),
              b = k_row(&k, "add", TNP_I64, y, a, -1, 0),
              c = k_row(&k, "mul", TNP_I64, b, seven, -1, 0),
              at = k_row(&k, "add", TNP_I64, x, c, -1, 0);
    k_row(&k, "store", TNP_I32, at, k_row(&k, "cast", TNP_I32, at, -1, -1, 0), -1, 0);
    tnp_buf *buf[1] = {buf_new(sizeof got, TNP_MEM_ZERO)};
    k_run(k_load(&k), &k, buf, len, NULL, 7, 5, 3);
    get(buf[0], 0, got, sizeof got);
    for (int i = 0; i < 105; i++)
        NEED(got[i] == i, "work-group %d of 7 x 5 x 3 writes %d", i, got[i]);
}

/* A work-group of n threads turns its n elements round through local memory. */
static void local_memory(void)
{
    static kern k;
    static char body[3000];
    const tnp_dialect *d = NULL;
    for (const char *const *n = dialects(); *n && !d; n++)
        if (dialect_table(*n) && dialect_table(*n)->local && dialect_table(*n)->barrier)
            d = dialect_table(*n);
    const uint32_t n = caps.max_local[0] < 64 ? caps.max_local[0] : 64;
    if (!d || n < 2 || caps.max_local_total < n) {
        note("no work-groups of several threads");
        return;
    }
    k_begin(&k, "check_local");
    k_buf(&k, TNP_I32, TNP_ACCESS_WRITE);
    k_buf(&k, TNP_I32, TNP_ACCESS_READ);
    k.local[0] = n;
    snprintf(body, sizeof body,
             "    %s %s t[%u];\n    t[%s] = b1[%s * %u + %s];\n    %s;\n    b0[%s * %u + %s] = "
             "t[%u - %s];\n",
             d->local, d->types[TNP_I32], n, d->lid[0], d->gid[0], n, d->lid[0], d->barrier,
             d->gid[0], n, d->lid[0], n - 1, d->lid[0]);
    k.body = body;
    int in[64 * 16], out[64 * 16];
    for (uint32_t i = 0; i < n * 16; i++) in[i] = (int)i;
    const size_t bytes_of = n * 16 * sizeof *in, len[2] = {bytes_of, bytes_of};
    tnp_buf *b[2] = {buf_new(bytes_of, 0), buf_new(bytes_of, 0)};
    put(b[1], 0, in, bytes_of);
    k_run(k_load(&k), &k, b, len, NULL, 16, 1, 1);
    get(b[0], 0, out, bytes_of);
    for (uint32_t i = 0; i < n * 16; i++)
        NEED(out[i] == (int)(i / n * n + (n - 1 - i % n)),
             "local memory and barrier: element %u is %d", i, out[i]);
}

static void grids(void)
{
    static kern k;
    enum { BIG = 70000 };
    need_exec();
    if (!dialects()[0]) skip("the device declares no dialect");
    three_axes();
    kern_plus(&k);
    int *v = malloc(BIG * sizeof *v);
    NEED(v, "no memory");
    const size_t len[2] = {BIG * sizeof *v, BIG * sizeof *v};
    tnp_buf *b[2] = {buf_new(len[0], 0), buf_new(len[0], 0)};
    for (int i = 0; i < BIG; i++) v[i] = i;
    put(b[1], 0, v, len[0]);
    const uint32_t n = caps.max_grid[0] < BIG ? caps.max_grid[0] : BIG;
    k_run(k_load(&k), &k, b, len, (uint64_t[]){5}, n, 1, 1);
    get(b[0], 0, v, len[0]);
    for (uint32_t i = 0; i < n; i++)
        NEED(v[i] == (int)i + 5, "work-group %u of %u writes %d", i, n, v[i]);
    local_memory();
}

/* out[0] = sum of i * imm over imm rounds */
static void kern_work(kern *k)
{
    k_begin(k, "check_work");
    k->nimms = 1;
    k_buf(k, TNP_I32, TNP_ACCESS_WRITE);
    const int g = k_row(k, "gid", TNP_I64, -1, -1, -1, 0),
              n = k_row(k, "param", TNP_I64, -1, -1, -1, 0);
    const int sum = k_row(k, "var", TNP_I32, k_const(k, TNP_I32, 1), -1, -1, 0);
    const int three = k_const(k, TNP_I32, 3);
    const int loop = k_row(k, "loop", TNP_I64, n, -1, -1, 0);
    const int i = k_row(k, "cast", TNP_I32, loop, -1, -1, 0);
    const int a = k_row(k, "mul", TNP_I32, sum, three, -1, 0),
              b = k_row(k, "xor", TNP_I32, a, i, -1, 0);
    k_row(k, "set", TNP_I32, sum, b, -1, 0);
    k_row(k, "end", TNP_I64, loop, -1, -1, 0);
    k_row(k, "store", TNP_I32, g, sum, -1, 0);
}

static void times(void)
{
    static kern k;
    need_exec();
    if (!(caps.flags & TNP_F_TIMESTAMP)) skip("no timestamps (TNP_F_TIMESTAMP)");
    if (!dialects()[0]) skip("the device declares no dialect");
    kern_work(&k);
    tnp_buf *b[1] = {buf_new(4, 0)};
    const size_t len[1] = {4};
    const uint32_t grid[3] = {1, 1, 1};
    tnp_prog *p = k_load(&k);
    uint64_t ns[2] = {0, 0};
    for (int i = 0; i < 2; i++) {
        const uint64_t rounds = i ? 300000 : 100;
        uint64_t best = UINT64_MAX, t;
        for (int j = 0; j < 4; j++) {
            t = 0;
            worked(k_launch(queue, p, &k, b, len, &rounds, grid, signal_next(), &t), "launch");
            settle();
            NEED(t > 0, "out_ns is 0");
            if (t < best) best = t;
        }
        ns[i] = best;
    }
    NEED(ns[1] > 3 * ns[0], "3,000 times the work takes %llu ns after %llu",
         (unsigned long long)ns[1], (unsigned long long)ns[0]);
    NEED(ns[1] < 20000000000ull, "out_ns is %llu: nanoseconds?", (unsigned long long)ns[1]);
}

static void too_large(void)
{
    static kern k, big;
    need_exec();
    if (!dialects()[0]) skip("the device declares no dialect");
    kern_plus(&k);
    tnp_prog *p = k_load(&k);
    tnp_buf *b[2] = {buf_new(64, TNP_MEM_ZERO), buf_new(64, TNP_MEM_ZERO)};
    const size_t len[2] = {64, 64};
    const uint32_t grid[3] = {1, 1, 1};
    big = k;
    big.local[0] = caps.max_local[0] + 1;
    refused(k_launch(queue, p, &big, b, len, (uint64_t[]){1}, grid, NULL, NULL), TNP_E_ARG,
            "a local size beyond the limit");
    const tnp_ref out_of_range[2] = {{b[0], 0, 64}, {b[1], 60, 64}};
    tnp_launch l = {.size = sizeof l,
                    .grid = {1, 1, 1},
                    .local = {1, 1, 1},
                    .bufs = out_of_range,
                    .imms = (uint64_t[]){1},
                    .nbufs = 2,
                    .nimms = 1};
    refused(ops->launch(dev, queue, p, &l, NULL, fresh()), TNP_E_ARG,
            "a reference over its buffer's end");
    l.flags = 1u << 31;
    refused(ops->launch(dev, queue, p, &l, NULL, fresh()), TNP_E_UNSUPPORTED,
            "unknown launch flags");
    k_run(p, &k, b, len, (uint64_t[]){9}, 4, 1, 1); /* not lost */
    int v[4];
    get(b[0], 0, v, sizeof v);
    NEED(v[0] == 9 && v[3] == 9, "after a refused launch the next one is wrong");
}

const check_row launch_checks[] = {
    {30, "launch", "add, mul, lt and cast of every dtype equal the host's", arithmetic, 120},
    {31, "launch", "immediates of every width, one to many buffers", arguments, 60},
    {32, "launch", "grids of three axes, large grids, local memory and barriers", grids, 60},
    {33, "launch", "out_ns rises with the work", times, 60},
    {34, "launch", "what is beyond the limits is ARG, and the device lives", too_large, 60},
    {0}};
