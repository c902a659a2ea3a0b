/* SPDX-License-Identifier: MIT */
/*
 * CPU:LLVM: every op beside the interpreter, functions beside the C library in float64, what the checker and
 * the loader refuse, and that a process which finds its binaries maps no compiler.
 */
#include "device/module.h"
#include "linear_code.h"
#include <elf.h>
#include <math.h>
#include <sys/wait.h>
#include <unistd.h>

static bool built(void)
{
    const tn__device *d = tn__device_get("CPU");
    OK(d);
    return TNP_FN(d->plugin->root, tnp_plugin, render) && d->caps.dialects[0][0] == 'l';
}
#define NEEDS_LLVM()                                                                    \
    do {                                                                                \
        if (!built()) test_skip("CPU:LLVM was not built, or there is no libLLVM here"); \
    } while (0)

static tn__device *device(const char *name)
{
    tn__device *d = tn__device_get(name);
    OK(d);
    return d;
}

static uint64_t random_bits(void)
{
    static uint64_t s = 88172645463325252ull;
    s ^= s << 13;
    s ^= s >> 7;
    return s ^= s << 17;
}

static bool is_float(uint32_t dt) { return dt >= TNP_F16 && dt <= TNP_F64; }

/* ---- ops beside the interpreter ---- */

enum { ELEMS = 64 };

static void put(void *p, uint32_t dt, int i, uint64_t v)
{
    memcpy((char *)p + (size_t)i * code_size(dt), &v, code_size(dt));
}

static uint64_t get(const void *p, uint32_t dt, int i)
{
    uint64_t v = 0;
    memcpy(&v, (const char *)p + (size_t)i * code_size(dt), code_size(dt));
    return v;
}

static bool is_nan(uint32_t dt, uint64_t v)
{
    switch (dt) {
    case TNP_F16: return (v & 0x7fff) > 0x7c00;
    case TNP_BF16: return (v & 0x7fff) > 0x7f80;
    case TNP_F32: return (v & 0x7fffffff) > 0x7f800000;
    case TNP_F64: return (v & 0x7fffffffffffffff) > 0x7ff0000000000000;
    default: return false;
    }
}

/* Anything at all, often small, sometimes special. */
static void fill(void *p, uint32_t dt, int n)
{
    static const uint64_t special[] = {0,
                                       1,
                                       0x7f,
                                       0x80,
                                       0xff,
                                       0x7fff,
                                       0x8000,
                                       0x7c00,
                                       0xfc00,
                                       0x7e00,
                                       0x7f80,
                                       0x80000000,
                                       0x7f800000,
                                       0x7fc00000,
                                       0x7ff0000000000000,
                                       0x8000000000000000,
                                       0x7ff8000000000000};
    for (int i = 0; i < n; i++) {
        uint64_t v = random_bits() >> (random_bits() % 64);
        if (i % 5 == 0) v = special[random_bits() % TN_LEN(special)];
        if (i % 7 == 0) v = ~(random_bits() % 5);
        put(p, dt, i, dt == TNP_BOOL ? v & 1 : v);
    }
}

/* An op that both sources may have; the second is made fit for it (a shift's count, a divisor). */
static const struct {
    const char *op;
    int n;
    char kind; /* a all, i integers, f floats, n numbers, b bool and integers, h not half floats */
} ops[] = {{"add", 2, 'a'},  {"sub", 2, 'n'},  {"mul", 2, 'a'},   {"neg", 1, 'n'},
           {"and", 2, 'b'},  {"or", 2, 'b'},   {"xor", 2, 'b'},   {"not", 1, 'b'},
           {"shl", 2, 'i'},  {"shr", 2, 'i'},  {"idiv", 2, 'i'},  {"imod", 2, 'i'},
           {"div", 2, 'f'},  {"sqrt", 1, 'f'}, {"trunc", 1, 'f'}, {"floor", 1, 'f'},
           {"fma", 3, 'h'},  {"lt", 2, 'c'},   {"eq", 2, 'c'},    {"ne", 2, 'c'},
           {"where", 3, 'w'}};

static bool takes(char kind, uint32_t dt)
{
    const bool b = dt == TNP_BOOL, f = is_float(dt);
    switch (kind) {
    case 'i': return !b && !f;
    case 'f': return f;
    case 'n': return !b;
    case 'b': return !f;
    case 'h': return !b && dt != TNP_F16 && dt != TNP_BF16;
    default: return true;
    }
}

static int32_t splat(code *k, uint32_t dt, uint32_t lanes, int64_t v)
{
    return code_row(k, "const", dt, lanes, v, -1, -1, -1);
}

/* Divisors: never 0 nor -1; shifts: below the number of bits. */
static int32_t fit(code *k, const char *op, uint32_t dt, uint32_t n, int32_t b)
{
    const int64_t bits = 8 * (int64_t)code_size(dt);
    if (op[0] == 's' && op[1] == 'h')
        return code_row(k, "and", dt, n, 0, b, splat(k, dt, n, bits - 1), -1);
    if (strcmp(op, "idiv") && strcmp(op, "imod")) return b;
    const int32_t two = splat(k, dt, n, 2);
    const int32_t zero = code_row(k, "eq", TNP_BOOL, n, 0, b, splat(k, dt, n, 0), -1);
    const int32_t minus = code_row(k, "eq", TNP_BOOL, n, 0, b, splat(k, dt, n, -1), -1);
    const int32_t bad = code_row(k, "or", TNP_BOOL, n, 0, zero, minus, -1);
    return code_row(k, "where", dt, n, 0, bad, two, b);
}

static void compare(const char *what, uint32_t dt, uint32_t lanes, const void *a, const void *b,
                    int n)
{
    for (int i = 0; i < n; i++) {
        const uint64_t x = get(a, dt, i), y = get(b, dt, i);
        ck_assert_msg(x == y || (is_nan(dt, x) && is_nan(dt, y)),
                      "%s, dtype %u, %u lanes, element %d: %#llx, the interpreter has %#llx", what,
                      dt, lanes, i, (unsigned long long)x, (unsigned long long)y);
    }
}

/* Runs k on both devices; arguments from `out` on are results. */
static void beside_interp(const char *what, tn__device *d, code *k, void **mem, uint32_t out,
                          uint32_t lanes)
{
    void *two[2][CODE_BUFS];
    for (int w = 0; w < 2; w++) {
        for (uint32_t i = 0; i < k->head.nargs; i++) {
            const size_t n = (size_t)k->bufs[i].count * code_size(k->bufs[i].dtype);
            two[w][i] = malloc(n);
            memcpy(two[w][i], mem[i], n);
        }
        code_run(w ? device("INTERP") : d, k, two[w], NULL);
    }
    for (uint32_t i = 0; i < k->head.nargs; i++) {
        if (i >= out)
            compare(what, k->bufs[i].dtype, lanes, two[0][i], two[1][i], (int)k->bufs[i].count);
        free(two[0][i]);
        free(two[1][i]);
    }
}

static const uint32_t lane_counts[] = {1, 4, 16};
static const char *const targets[] = {"CPU:LLVM", "CPU:LLVM:x86-64"};

/* All ops of one dtype and number of lanes in one kernel. */
static void all_ops(tn__device *d, uint32_t dt, uint32_t lanes)
{
    code *k = malloc(sizeof *k);
    void *mem[5];
    code_begin(k, ELEMS / lanes);
    int nv = 0, nb = 0;
    for (size_t i = 0; i < TN_LEN(ops); i++)
        if (takes(ops[i].kind, dt)) ops[i].kind == 'c' ? nb++ : nv++;
    for (int i = 0; i < 3; i++) code_arg(k, dt, ELEMS);
    code_arg(k, dt, (uint64_t)(nv * ELEMS));
    code_arg(k, TNP_BOOL, (uint64_t)((nb + 1) * ELEMS));
    for (int i = 0; i < 5; i++) {
        mem[i] = calloc((size_t)k->bufs[i].count, 8);
        if (i < 3) fill(mem[i], dt, ELEMS);
    }
    const int32_t g = code_row(k, "gid", TNP_I64, 1, 0, -1, -1, -1);
    const int32_t at = code_row(k, "mul", TNP_I64, 1, 0, g, code_const(k, TNP_I64, lanes), -1);
    int32_t v[3];
    for (int i = 0; i < 3; i++) v[i] = code_row(k, "load", dt, lanes, i, at, -1, -1);
    nv = nb = 0;
    for (size_t i = 0; i < TN_LEN(ops); i++) {
        if (!takes(ops[i].kind, dt)) continue;
        const bool cmp = ops[i].kind == 'c';
        int32_t s[3] = {v[0], ops[i].n > 1 ? fit(k, ops[i].op, dt, lanes, v[1]) : -1,
                        ops[i].n > 2 ? v[2] : -1};
        if (ops[i].kind == 'w') s[0] = code_row(k, "lt", TNP_BOOL, lanes, 0, v[2], v[1], -1);
        const int32_t r = code_row(k, ops[i].op, cmp ? TNP_BOOL : dt, lanes, 0, s[0], s[1], s[2]);
        const int32_t off = code_const(k, TNP_I64, ELEMS * (cmp ? nb++ : nv++));
        code_row(k, "store", 0, lanes, cmp ? 4 : 3, code_row(k, "add", TNP_I64, 1, 0, at, off, -1),
                 r, -1);
    }
    beside_interp("ops", d, k, mem, 3, lanes);
    for (int i = 0; i < 5; i++) free(mem[i]);
    free(k);
}

START_TEST(every_op_of_every_dtype_equals_the_interpreters)
{
    NEEDS_LLVM();
    tn__device *d = device(targets[_i]);
    for (uint32_t dt = TNP_BOOL; dt < TNP_DTYPE_COUNT; dt++)
        for (size_t l = 0; l < TN_LEN(lane_counts); l++) all_ops(d, dt, lane_counts[l]);
}
END_TEST

/* From one dtype to all others.  Floats out of the integer's range never reach a cast. */
static void all_casts(tn__device *d, uint32_t from, uint32_t lanes)
{
    code *k = malloc(sizeof *k);
    void *mem[CODE_BUFS];
    code_begin(k, ELEMS / lanes);
    code_arg(k, from, ELEMS);
    code_arg(k, TNP_F32, ELEMS);
    for (uint32_t dt = TNP_BOOL; dt < TNP_DTYPE_COUNT; dt++) code_arg(k, dt, ELEMS);
    for (uint32_t i = 0; i < k->head.nargs; i++) mem[i] = calloc(ELEMS, 8);
    fill(mem[0], from, ELEMS);
    for (int i = 0; i < ELEMS; i++) {
        const float f = (float)((double)(random_bits() % 1000) / 8);
        uint32_t bits;
        memcpy(&bits, &f, 4);
        put(mem[1], TNP_F32, i, bits);
    }
    const int32_t g = code_row(k, "gid", TNP_I64, 1, 0, -1, -1, -1);
    const int32_t at = code_row(k, "mul", TNP_I64, 1, 0, g, code_const(k, TNP_I64, lanes), -1);
    const int32_t any = code_row(k, "load", from, lanes, 0, at, -1, -1);
    int32_t small = code_row(k, "load", TNP_F32, lanes, 1, at, -1, -1);
    if (from != TNP_F32) small = code_row(k, "cast", from, lanes, 0, small, -1, -1);
    for (uint32_t to = TNP_BOOL; to < TNP_DTYPE_COUNT; to++) {
        const bool in_range = is_float(from) && !is_float(to) && to != TNP_BOOL;
        const int32_t r = code_row(k, "cast", to, lanes, 0, in_range ? small : any, -1, -1);
        code_row(k, "store", 0, lanes, 1 + to, at, r, -1);
    }
    beside_interp("casts", d, k, mem, 2, lanes);
    for (uint32_t i = 0; i < k->head.nargs; i++) free(mem[i]);
    free(k);
}

START_TEST(every_cast_equals_the_interpreters)
{
    NEEDS_LLVM();
    tn__device *d = device(targets[_i]);
    for (uint32_t dt = TNP_BOOL; dt < TNP_DTYPE_COUNT; dt++)
        for (size_t l = 0; l < TN_LEN(lane_counts); l++) all_casts(d, dt, lane_counts[l]);
}
END_TEST

/* Loops in loops with a variable, a condition, gates, lanes put in and taken out, and private memory. */
START_TEST(control_flow_gates_and_private_memory_equal_the_interpreters)
{
    NEEDS_LLVM();
    code *k = malloc(sizeof *k);
    int32_t in[64];
    float out[80] = {0};
    uint8_t flags[16] = {0};
    for (int i = 0; i < 64; i++) in[i] = (int)(random_bits() % 200) - 100;
    code_begin(k, 4);
    code_arg(k, TNP_I32, 64);
    code_arg(k, TNP_F32, 80);
    code_arg(k, TNP_BOOL, 16);
    k->bufs[3] = (tnl_buf){.count = 16, .dtype = TNP_I32};
    k->head.nscratch = 1;
    k->head.scratch_bytes = 64;
    const int32_t g = code_row(k, "gid", TNP_I32, 1, 0, -1, -1, -1);
    const int32_t n16 = code_const(k, TNP_I32, 16), zero = code_const(k, TNP_I32, 0);
    const int32_t base = code_row(k, "mul", TNP_I32, 1, 0, g, n16, -1);
    const int32_t acc = code_row(k, "var", TNP_I32, 1, 0, zero, -1, -1);
    const int32_t vec = code_row(k, "var", TNP_F32, 4, 0, splat(k, TNP_F32, 4, 0), -1, -1);
    const int32_t seen = code_row(k, "var", TNP_BOOL, 1, 0, code_const(k, TNP_BOOL, 0), -1, -1);
    const int32_t i = code_row(k, "loop", TNP_I32, 1, 0, n16, -1, -1);
    const int32_t x = code_row(k, "load", TNP_I32, 1, 0,
                               code_row(k, "add", TNP_I32, 1, 0, base, i, -1), -1, -1);
    code_row(k, "store", 0, 1, 3, i, x, -1);
    const int32_t neg = code_row(k, "lt", TNP_BOOL, 1, 0, x, zero, -1);
    code_row(k, "if", 0, 1, 0, neg, -1, -1);
    /* a trip count of 0 .. 3, none for most */
    const int32_t turns = code_row(k, "and", TNP_I32, 1, 0, x, code_const(k, TNP_I32, 3), -1);
    const int32_t j = code_row(k, "loop", TNP_I64, 1, 0, turns, -1, -1);
    const int32_t jj = code_row(k, "cast", TNP_I32, 1, 0, j, -1, -1);
    code_row(k, "set", 0, 1, 0, acc, code_row(k, "add", TNP_I32, 1, 0, acc, jj, -1), -1);
    code_row(k, "end", 0, 1, 0, j, -1, -1);
    code_row(k, "set", 0, 1, 0, seen, neg, -1);
    code_row(k, "endif", 0, 1, 0, neg + 1, -1, -1);
    const int32_t f = code_row(k, "cast", TNP_F32, 1, 0, x, -1, -1);
    int32_t four = code_row(k, "splat", TNP_F32, 4, 0, f, -1, -1);
    four = code_row(k, "insert", TNP_F32, 4, 2, four, code_const(k, TNP_F32, 0x3f800000), -1);
    code_row(k, "set", 0, 1, 0, vec, code_row(k, "add", TNP_F32, 4, 0, vec, four, -1), -1);
    code_row(k, "end", 0, 1, 0, i, -1, -1);
    /* out of bounds but for the gate: reads 0, stores nothing */
    const int32_t far = code_const(k, TNP_I32, 1 << 28), no = code_const(k, TNP_BOOL, 0);
    const int32_t hole = code_row(k, "load", TNP_I32, 1, 0, far, no, -1);
    code_row(k, "store", 0, 1, 1, far, code_const(k, TNP_F32, 0), no);
    const int32_t last = code_row(k, "load", TNP_I32, 1, 3, code_const(k, TNP_I32, 15), -1, -1);
    int32_t sum = code_row(k, "add", TNP_I32, 1, 0,
                           code_row(k, "add", TNP_I32, 1, 0, acc, last, -1), hole, -1);
    sum = code_row(k, "cast", TNP_F32, 1, 0, sum, -1, -1);
    const int32_t at = code_row(k, "mul", TNP_I32, 1, 0, g, code_const(k, TNP_I32, 5), -1);
    code_row(k, "store", 0, 4, 1, at, vec, seen);
    code_row(k, "store", 0, 1, 1,
             code_row(k, "add", TNP_I32, 1, 0, at, code_const(k, TNP_I32, 4), -1), sum, -1);
    code_row(k, "store", 0, 1, 2, g, seen, -1);
    void *mem[] = {in, out, flags};
    beside_interp("control", device("CPU:LLVM"), k, mem, 1, 1);
    free(k);
}
END_TEST

START_TEST(immediates_reach_the_kernel_in_every_dtype)
{
    NEEDS_LLVM();
    code *k = malloc(sizeof *k);
    void *mem[CODE_BUFS];
    uint64_t imms[TNP_DTYPE_COUNT];
    code_begin(k, 1);
    k->head.nimms = TNP_DTYPE_COUNT;
    for (uint32_t dt = 1; dt < TNP_DTYPE_COUNT; dt++) {
        code_arg(k, dt, 1);
        mem[dt - 1] = calloc(1, 8);
        imms[dt] = dt == TNP_BOOL ? 1 : UINT64_C(0x8123456789abcd40) + dt;
    }
    const int32_t zero = code_const(k, TNP_I32, 0);
    for (uint32_t dt = 1; dt < TNP_DTYPE_COUNT; dt++)
        code_row(k, "store", 0, 1, dt - 1, zero, code_row(k, "param", dt, 1, dt, -1, -1, -1), -1);
    code_run(device("CPU:LLVM"), k, mem, imms);
    for (uint32_t dt = 1; dt < TNP_DTYPE_COUNT; dt++) {
        const uint64_t mask = code_size(dt) == 8 ? ~UINT64_C(0)
                                                 : (UINT64_C(1) << 8 * code_size(dt)) - 1;
        ck_assert_uint_eq(get(mem[dt - 1], dt, 0), imms[dt] & mask);
        free(mem[dt - 1]);
    }
    free(k);
}
END_TEST

/* ---- functions: within one unit in the last place of the float64 result rounded ---- */

static int64_t steps_apart(float a, float b)
{
    int32_t x, y;
    memcpy(&x, &a, 4);
    memcpy(&y, &b, 4);
    const int64_t p = x < 0 ? INT64_C(-2147483648) - x : x,
                  q = y < 0 ? INT64_C(-2147483648) - y : y;
    return p < q ? q - p : p - q;
}

static const struct {
    const char *name;
    double (*fn)(double);
} functions[] = {{"exp2", exp2}, {"log2", log2}, {"sin", sin}};

enum { CHUNK = 1 << 20 };

static void make_function(code *k, const char *name, uint32_t lanes)
{
    code_begin(k, CHUNK / 1024);
    code_arg(k, TNP_F32, CHUNK);
    code_arg(k, TNP_F32, CHUNK);
    const int32_t g = code_row(k, "gid", TNP_I64, 1, 0, -1, -1, -1);
    const int32_t n = code_const(k, TNP_I64, 1024 / lanes), step = code_const(k, TNP_I64, lanes);
    const int32_t base = code_row(k, "mul", TNP_I64, 1, 0, g, code_const(k, TNP_I64, 1024), -1);
    const int32_t i = code_row(k, "loop", TNP_I64, 1, 0, n, -1, -1);
    const int32_t at = code_row(k, "add", TNP_I64, 1, 0, base,
                                code_row(k, "mul", TNP_I64, 1, 0, i, step, -1), -1);
    const int32_t x = code_row(k, "load", TNP_F32, lanes, 0, at, -1, -1);
    code_row(k, "store", 0, lanes, 1, at, code_row(k, name, TNP_F32, lanes, 0, x, -1, -1), -1);
    code_row(k, "end", 0, 1, 0, i, -1, -1);
}

/* Inputs first + k * step for k < CHUNK, as bits. */
static void walk(tn__device *d, tn__program *p, tn__buffer **b, const char *name,
                 double (*fn)(double), uint32_t first, uint32_t step)
{
    tnp_ref r[2] = {tn__buffer_ref_of(b[0], 0, CHUNK * 4), tn__buffer_ref_of(b[1], 0, CHUNK * 4)};
    uint32_t *in = tn__buffer_map(b[0]);
    for (uint32_t i = 0; i < CHUNK; i++) in[i] = first + i * step;
    OK(tn__launch_run(d, p,
                      &(tn__launch){.grid = {CHUNK / 1024, 1, 1},
                                    .local = {1, 1, 1},
                                    .bufs = r,
                                    .nbufs = 2,
                                    .work = 100000000}));
    const float *x = tn__buffer_map(b[0]), *y = tn__buffer_map(b[1]);
    for (uint32_t i = 0; i < CHUNK; i++) {
        const float want = (float)fn((double)x[i]);
        if (want != want && y[i] != y[i]) continue;
        ck_assert_msg(steps_apart(want, y[i]) <= 1 &&
                          (want != 0 || y[i] != 0 || !signbit(want) == !signbit(y[i])),
                      "%s(%a): %a, not %a", name, (double)x[i], (double)y[i], (double)want);
    }
}

static void whole_function(tn__device *d, const char *name, double (*fn)(double), uint32_t lanes,
                           uint32_t chunks, uint32_t step)
{
    code *k = malloc(sizeof *k);
    tn__program *p;
    tn__buffer *b[2];
    make_function(k, name, lanes);
    OK(code_build(d, k, &p));
    for (int i = 0; i < 2; i++) OK(b[i] = tn__buffer_new(d, CHUNK * 4));
    for (uint32_t c = 0; c < chunks; c++) walk(d, p, b, name, fn, c * CHUNK * step + c, step);
    for (int i = 0; i < 2; i++) tn__buffer_unref(b[i]);
    tn__program_unref(p);
    free(k);
}

START_TEST(functions_are_within_one_unit_of_the_float64_result)
{
    NEEDS_LLVM();
    tn__device *d = device(targets[_i / 3]);
    const uint32_t lanes = _i / 3 ? 4 : 16;
    const int f = _i % 3;
    if (getenv("TENON_TEST_LONG") && !(_i / 3))
        whole_function(d, functions[f].name, functions[f].fn, lanes, 4096, 1); /* all of them */
    else
        whole_function(d, functions[f].name, functions[f].fn, lanes, 1, 4099);
    whole_function(d, functions[f].name, functions[f].fn, 1, 1, 4093);
}
END_TEST

/* ---- what is refused ---- */

typedef struct {
    const char *op;
    uint32_t dt, lanes;
    int64_t imm;
    int32_t src[3];
    const char *says;
} bad_row;

/* As row 7 after: 0 i32, 1 f32, 2 bool, 3 f32 x 4, 4 loop, 5 f32 in the loop, 6 end */
static const bad_row bad_rows[] = {
    {"frobnicate", TNP_F32, 1, 0, {0, -1, -1}, "row 7: unknown op \"frobnicate\""},
    {"add", TNP_F32, 1, 0, {1, 8, -1}, "row 7 (add): a source is not an earlier row"},
    {"add", TNP_F32, 1, 0, {-2, 1, -1}, "a source is not an earlier row"},
    {"add", TNP_F32, 1, 0, {1, -1, -1}, "a source is missing"},
    {"add", TNP_F32, 1, 0, {1, 1, 1}, "too many sources"},
    {"add", TNP_F32, 1, 0, {1, 5, -1}, "a source stands in a block that has ended"},
    {"add", TNP_F32, 1, 0, {1, 6, -1}, "a source has no value"},
    {"add", TNP_F32, 1, 0, {1, 0, -1}, "a source is not of the row's dtype"},
    {"add", TNP_F32, 4, 0, {3, 1, -1}, "another number of lanes"},
    {"add", TNP_F32, 0, 0, {1, 1, -1}, "0 lanes"},
    {"add", TNP_F32, 65, 0, {1, 1, -1}, "more than 64"},
    {"add", 99, 1, 0, {1, 1, -1}, "unknown dtype"},
    {"and", TNP_F32, 1, 0, {1, 1, -1}, "no result of this dtype"},
    {"sqrt", TNP_I32, 1, 0, {0, -1, -1}, "no result of this dtype"},
    {"lt", TNP_BOOL, 1, 0, {1, 0, -1}, "the sources are of two dtypes"},
    {"where", TNP_F32, 1, 0, {0, 1, 1}, "the condition is not bool"},
    {"bitcast", TNP_I64, 1, 0, {1, -1, -1}, "the source has another size"},
    {"gid", TNP_I32, 1, 3, {-1, -1, -1}, "the axis is not 0, 1 or 2"},
    {"param", TNP_I32, 1, 0, {-1, -1, -1}, "there is no immediate of this number"},
    {"load", TNP_F32, 1, 3, {0, -1, -1}, "there is no buffer of this number"},
    {"load", TNP_I32, 1, 0, {0, -1, -1}, "not of the buffer's dtype"},
    {"load", TNP_F32, 1, 0, {1, -1, -1}, "the index is not an integer scalar"},
    {"store", 0, 1, 0, {0, 1, 1}, "the gate is not a bool scalar"},
    {"store", 0, 4, 0, {0, 1, -1}, "another number of lanes"},
    {"splat", TNP_F32, 4, 0, {3, -1, -1}, "the source is not a scalar"},
    {"extract", TNP_F32, 1, 4, {3, -1, -1}, "the lane is out of range"},
    {"insert", TNP_F32, 4, 0, {3, 0, -1}, "not a scalar of the row's dtype"},
    {"set", 0, 1, 0, {1, 1, -1}, "source 0 is not a var row"},
    {"end", 0, 1, 0, {4, -1, -1}, "a source stands in a block that has ended"},
    {"endif", 0, 1, 0, {1, -1, -1}, "it does not close the innermost open block"},
    {"loop", TNP_I32, 1, 0, {0, -1, -1}, "the block is never closed"},
    {"if", 0, 1, 0, {0, -1, -1}, "the condition is not a bool scalar"},
};

static void seven_rows(code *k)
{
    code_begin(k, 1);
    code_arg(k, TNP_F32, 4);
    const int32_t n = code_const(k, TNP_I32, 1);
    code_const(k, TNP_F32, 0);
    code_const(k, TNP_BOOL, 1);
    splat(k, TNP_F32, 4, 0);
    const int32_t l = code_row(k, "loop", TNP_I32, 1, 0, n, -1, -1);
    code_row(k, "load", TNP_F32, 1, 0, l, -1, -1);
    code_row(k, "end", 0, 1, 0, l, -1, -1);
}

START_TEST(malformed_linear_code_is_an_error_that_names_the_row)
{
    NEEDS_LLVM();
    tn__device *d = device("CPU:LLVM");
    code *k = malloc(sizeof *k);
    for (size_t i = 0; i < TN_LEN(bad_rows); i++) {
        const bad_row *r = &bad_rows[i];
        tn__program *p = NULL;
        seven_rows(k);
        code_row(k, r->op, r->dt, r->lanes, r->imm, r->src[0], r->src[1], r->src[2]);
        ck_assert_msg(!code_build(d, k, &p), "%s is taken: %s", r->op, r->says);
        SAYS(TN_ECOMPILE, r->says);
    }
    free(k);
}
END_TEST

START_TEST(bytes_that_are_no_linear_code_never_reach_llvm)
{
    NEEDS_LLVM();
    tn__device *d = device("CPU:LLVM");
    code *k = malloc(sizeof *k);
    tnp_blob bin, log;
    tn__plug_err e;
    seven_rows(k);
    const size_t len = code_blob(k);
    for (size_t i = 0; i < 4 * len; i++) { /* bytes here and there; cut short */
        unsigned char was = k->bytes[i % len];
        k->bytes[i % len] = (unsigned char)random_bits();
        const tnp_compile c = {.size = sizeof c,
                               .arch = d->caps.arch,
                               .dialect = "linear",
                               .src = k->bytes,
                               .len = i % 3 ? len : i % len};
        const tnp_rc rc = d->plugin->root->compile(&c, &bin, &log, tn__plug_err_init(&e));
        ck_assert_msg(rc == TNP_OK || e.text[0], "byte %zu: an error without a text", i);
        if (rc == TNP_OK) tn__free(bin.data);
        tn__free(log.data);
        k->bytes[i % len] = was;
    }
    free(k);
}
END_TEST

/* ---- objects ---- */

/* The trailer that the plugin puts behind its binaries, so that the loader sees what is damaged on purpose. */
static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 32;
}
static void seal(unsigned char *p, size_t n)
{
    uint64_t a = 0x243f6a8885a308d3ull ^ n, b = 0x13198a2e03707344ull + n, w;
    const unsigned char *s = p;
    size_t left = n;
    for (; left >= 8; left -= 8, s += 8) {
        memcpy(&w, s, 8);
        a = mix(a, w);
        b = mix(b, w ^ a);
    }
    w = 0;
    memcpy(&w, s, left);
    const uint64_t t[4] = {0x316f732d6e6f6e74ull, n, mix(mix(a, w), 1), mix(mix(b, w ^ a), 2)};
    memcpy(p + n, t, sizeof t);
}

/* An object with constants, a table and a call of the C library. */
static tnp_blob an_object(tn__device *d, const char *arch)
{
    code *k = malloc(sizeof *k);
    tnp_blob bin = {0}, log = {0};
    tn__plug_err e;
    code_begin(k, 1);
    code_arg(k, TNP_F32, 16);
    code_arg(k, TNP_F64, 16);
    const int32_t zero = code_const(k, TNP_I32, 0);
    const int32_t x = code_row(k, "load", TNP_F32, 16, 0, zero, -1, -1);
    code_row(k, "store", 0, 16, 0, zero, code_row(k, "sin", TNP_F32, 16, 0, x, -1, -1), -1);
    const int32_t y = code_row(k, "load", TNP_F64, 1, 1, zero, -1, -1);
    code_row(k, "store", 0, 1, 1, zero, code_row(k, "exp2", TNP_F64, 1, 0, y, -1, -1), -1);
    const tnp_compile c = {
        .size = sizeof c, .arch = arch, .dialect = "linear", .src = k->bytes, .len = code_blob(k)};
    const tnp_rc rc = d->plugin->root->compile(&c, &bin, &log, tn__plug_err_init(&e));
    ck_assert_msg(rc == TNP_OK, "%s", e.text);
    free(k);
    return bin;
}

static tnp_rc load_object(tn__device *d, const void *bin, size_t len, tn__plug_err *e)
{
    static const tnp_arg args[2] = {{.dtype = TNP_F32, .access = 3},
                                    {.dtype = TNP_F64, .access = 3}};
    const tnp_entry en = {.name = "kernel", .args = args, .nargs = 2, .local = {1, 1, 1}};
    const tnp_load l = {.size = sizeof l, .format = "so", .entry = &en, .bin = bin, .len = len};
    tnp_prog *p = NULL;
    const tnp_rc rc = d->ops->prog_load(d->h, &l, &p, tn__plug_err_init(e));
    if (rc == TNP_OK) d->ops->prog_free(d->h, p);
    return rc;
}

START_TEST(damaged_objects_are_errors_whatever_byte_is_wrong)
{
    NEEDS_LLVM();
    tn__device *d = device("CPU:LLVM");
    tnp_blob bin = an_object(d, d->caps.arch);
    tn__plug_err e;
    const size_t n = bin.len - 32;
    unsigned char *good = bin.data, *p = malloc(bin.len);
    memcpy(p, good, bin.len);
    seal(p, n);
    ck_assert_int_eq(memcmp(p, good, bin.len), 0); /* the trailer is the plugin's own */
    ck_assert_msg(load_object(d, p, bin.len, &e) == TNP_OK, "%s", e.text);
    static const unsigned char values[] = {0xff, 0x00, 0x80, 0x01};
    int refused = 0;
    for (size_t i = 0; i < n; i++)
        for (size_t v = 0; v < TN_LEN(values); v++) {
            memcpy(p, good, n);
            if (p[i] == values[v]) continue;
            p[i] = values[v];
            seal(p, n);
            const tnp_rc rc = load_object(d, p, bin.len, &e);
            ck_assert_msg(rc == TNP_OK || e.text[0], "byte %zu: an error without a text", i);
            refused += rc != TNP_OK;
        }
    ck_assert_int_gt(refused, 100);
    for (size_t cut = 1; cut < n; cut += 7) { /* cut short */
        memcpy(p, good, n);
        seal(p, n - cut);
        ck_assert(load_object(d, p, n - cut + 32, &e) != TNP_OK);
        ck_assert(e.text[0]);
    }
    free(p);
    tn__free(bin.data);
}
END_TEST

START_TEST(objects_of_another_processor_and_wants_of_unknown_functions_are_refused)
{
    NEEDS_LLVM();
    tn__device *d = device("CPU:LLVM");
    tn__plug_err e;
    tnp_blob arm = an_object(d, "aarch64");
    const Elf64_Ehdr *h = arm.data;
    ck_assert_uint_eq(h->e_machine, EM_AARCH64);
    ck_assert_uint_eq(h->e_type, ET_REL);
#ifndef __aarch64__
    ck_assert(load_object(d, arm.data, arm.len, &e) != TNP_OK);
    ck_assert_ptr_nonnull(strstr(e.text, "made for another kind of processor"));
#endif
    tn__free(arm.data);
    tnp_blob bin = an_object(d, d->caps.arch);
    char *p = bin.data;
    for (size_t i = 0; i + 6 < bin.len - 32; i++)
        if (!memcmp(p + i, "\0exp2", 6)) p[i + 1] = 'X';
    seal(bin.data, bin.len - 32);
    ck_assert(load_object(d, bin.data, bin.len, &e) != TNP_OK);
    ck_assert_ptr_nonnull(strstr(e.text, "it wants Xxp2, which is not there"));
    tn__free(bin.data);
}
END_TEST

START_TEST(an_arch_that_is_none_is_an_error)
{
    NEEDS_LLVM();
    tn__device *d = device("CPU:LLVM");
    code *k = malloc(sizeof *k);
    tnp_blob bin, log;
    tn__plug_err e;
    seven_rows(k);
    const tnp_compile c = {.size = sizeof c,
                           .arch = "x86-64;rm",
                           .dialect = "linear",
                           .src = k->bytes,
                           .len = code_blob(k)};
    ck_assert_int_eq(d->plugin->root->compile(&c, &bin, &log, tn__plug_err_init(&e)), TNP_E_ARG);
    ck_assert_ptr_nonnull(strstr(e.text, "letters, digits and - _ . + only"));
    free(k);
}
END_TEST

START_TEST(equal_code_gives_equal_bytes)
{
    NEEDS_LLVM();
    tn__device *d = device("CPU:LLVM");
    tnp_blob a = an_object(d, d->caps.arch), b = an_object(d, d->caps.arch);
    ck_assert_uint_eq(a.len, b.len);
    ck_assert_int_eq(memcmp(a.data, b.data, a.len), 0);
    tn__free(a.data);
    tn__free(b.data);
}
END_TEST

/* ---- a warm process ---- */

static bool mapped(void)
{
    char line[600];
    bool found = false;
    FILE *f = fopen("/proc/self/maps", "r");
    while (f && fgets(line, sizeof line, f)) found |= strstr(line, "libLLVM") != NULL;
    if (f) fclose(f);
    return found;
}

/* In a child: builds the kernel; exit status 1: it did not compile, +2: libLLVM is mapped. */
static int child(void)
{
    const pid_t pid = fork();
    if (!pid) {
        code *k = malloc(sizeof *k);
        tn__program *p;
        seven_rows(k);
        tn__device *d = tn__device_get("CPU:LLVM");
        if (!d || !code_build(d, k, &p)) _exit(100);
        _exit((tn__count.compiles ? 0 : 1) + (mapped() ? 2 : 0));
    }
    int status = -1;
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert(WIFEXITED(status));
    return WEXITSTATUS(status);
}

START_TEST(a_process_that_finds_its_binaries_maps_no_compiler)
{
#ifndef TN_HAVE_SQLITE
    test_skip("this build has no disk cache");
#endif
    NEEDS_LLVM();
    char dir[] = "/tmp/tenon-test-XXXXXX", cmd[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("TENON_CACHE", dir, 1);
    setenv("CACHELEVEL", "2", 1);
    tn__context_reload();
    tn_shutdown();
    ck_assert(!mapped());
    ck_assert_int_eq(child(), 2); /* compiles, and so maps it */
    ck_assert_int_eq(child(), 1); /* neither */
    snprintf(cmd, sizeof cmd, "rm -r %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}
END_TEST

Suite *suite_cpu_llvm(void)
{
    Suite *s = suite_create("cpu_llvm");
    TCase *t = tcase_create("cpu_llvm");
    tcase_set_timeout(t, getenv("TENON_TEST_LONG") ? 3600 : 120);
    tcase_add_loop_test(t, every_op_of_every_dtype_equals_the_interpreters, 0, 2);
    tcase_add_loop_test(t, every_cast_equals_the_interpreters, 0, 2);
    tcase_add_test(t, control_flow_gates_and_private_memory_equal_the_interpreters);
    tcase_add_test(t, immediates_reach_the_kernel_in_every_dtype);
    tcase_add_loop_test(t, functions_are_within_one_unit_of_the_float64_result, 0, 6);
    tcase_add_test(t, malformed_linear_code_is_an_error_that_names_the_row);
    tcase_add_test(t, bytes_that_are_no_linear_code_never_reach_llvm);
    tcase_add_test(t, damaged_objects_are_errors_whatever_byte_is_wrong);
    tcase_add_test(t, objects_of_another_processor_and_wants_of_unknown_functions_are_refused);
    tcase_add_test(t, an_arch_that_is_none_is_an_error);
    tcase_add_test(t, equal_code_gives_equal_bytes);
    tcase_add_test(t, a_process_that_finds_its_binaries_maps_no_compiler);
    suite_add_tcase(s, t);
    return s;
}
