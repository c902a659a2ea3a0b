/* SPDX-License-Identifier: MIT */
/*
 * A backend written from the SDK's template: kernels as plain C, compiled by the system's compiler, run by one
 * thread.  The host writes the C from the table `plain_c`; `compile` makes a shared object of it; a launch is
 * a loop over work-groups.
 *
 * A binary is 8 bytes of hash and a shared object; the hash is checked before the dynamic linker sees it.
 */
#define _GNU_SOURCE
#define TNK_NAME "PLAIN"
#include <dlfcn.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tenon/hostdev.h>
#include <unistd.h>

extern char **environ;

enum { DEVICES = 1, MAX_ARGS = 128 };

struct tnp_dev {
    uint32_t index;
};
typedef void kernel(char *const *bufs, const uint64_t *imms, const uint32_t *gid, char *scratch);
struct tnp_prog {
    uint32_t nargs, nimms;
    void *so;
    kernel *fn;
    size_t scratch_bytes;
};

/* ---- the language: what the host needs to write a kernel in it ---- */

#define D(id)  (1u << TNP_##id)
#define INTS   (D(I8) | D(U8) | D(I16) | D(U16) | D(I32) | D(U32) | D(I64) | D(U64))
#define FLOATS (D(F32) | D(F64))
#define ALL    (D(BOOL) | INTS | FLOATS | D(F16) | D(BF16))
enum { SCALAR = 1 };

/* Half floats are their bits in memory; casts convert.  Rounding is to nearest even. */
static const char prelude[] =
    "#include <math.h>\n#include <stdint.h>\n#include <string.h>\n"
    "static inline float of_bits(uint32_t u) { float f; memcpy(&f, &u, 4); return f; }\n"
    "static inline uint32_t bits_of(float f) { uint32_t u; memcpy(&u, &f, 4); return u; }\n"
    "static inline float bf_to_f(uint16_t h) { return of_bits((uint32_t)h << 16); }\n"
    "static inline uint16_t f_to_bf(float f)\n"
    "{ uint32_t u = bits_of(f); return f != f ? 0x7fc0 : (u + 0x7fff + (u >> 16 & 1)) >> 16; }\n"
    "static inline float h_to_f(uint16_t h)\n"
    "{ int e = h >> 10 & 31, m = h & 1023;\n"
    "  float f = e == 31 ? (m ? NAN : INFINITY) : ldexpf(e ? m + 1024 : m, (e ? e : 1) - 25);\n"
    "  return h & 0x8000 ? -f : f; }\n"
    "static inline uint16_t f_to_h(float f)\n"
    "{ uint16_t s = signbit(f) ? 0x8000 : 0; int e; float a = fabsf(f);\n"
    "  if (f != f) return 0x7e00;\n"
    "  if (a >= 65520.0f) return s | 0x7c00;\n"
    "  frexpf(a, &e); if (e < -13) e = -13;\n"
    "  uint16_t m = (uint16_t)rintf(ldexpf(a, 11 - e));\n" /* 11 bits; a carry moves the exponent */
    "  return s | (m < 1024 ? m : (uint16_t)(((e + 13) << 10) + m)); }\n";

static const char *const types[TNP_DTYPE_COUNT] = {
    [TNP_BOOL] = "uint8_t", [TNP_I8] = "int8_t",    [TNP_U8] = "uint8_t",    [TNP_I16] = "int16_t",
    [TNP_U16] = "uint16_t", [TNP_I32] = "int32_t",  [TNP_U32] = "uint32_t",  [TNP_I64] = "int64_t",
    [TNP_U64] = "uint64_t", [TNP_F16] = "uint16_t", [TNP_BF16] = "uint16_t", [TNP_F32] = "float",
    [TNP_F64] = "double"};

static const tnp_template templates[] = {
    {"add", D(BOOL), SCALAR, "($1 | $2)"},
    {"add", INTS | FLOATS, SCALAR, "($1 + $2)"},
    {"sub", INTS | FLOATS, SCALAR, "($1 - $2)"},
    {"mul", D(BOOL), SCALAR, "($1 & $2)"},
    {"mul", INTS | FLOATS, SCALAR, "($1 * $2)"},
    {"neg", INTS | FLOATS, SCALAR, "(-$1)"},
    {"div", FLOATS, SCALAR, "($1 / $2)"},
    {"idiv", INTS, SCALAR, "($1 / $2)"},
    {"imod", INTS, SCALAR, "($1 % $2)"},
    {"and", D(BOOL) | INTS, SCALAR, "($1 & $2)"},
    {"or", D(BOOL) | INTS, SCALAR, "($1 | $2)"},
    {"xor", D(BOOL) | INTS, SCALAR, "($1 ^ $2)"},
    {"not", D(BOOL), SCALAR, "(!$1)"},
    {"not", INTS, SCALAR, "(~$1)"},
    {"shl", INTS, SCALAR, "($1 << $2)"},
    {"shr", INTS, SCALAR, "($1 >> $2)"},
    {"lt", ALL, SCALAR, "($1 < $2)"},
    {"eq", ALL, SCALAR, "($1 == $2)"},
    {"ne", ALL, SCALAR, "($1 != $2)"},
    {"where", ALL, SCALAR, "($1 ? $2 : $3)"},
    {"fma", D(F32), SCALAR, "fmaf($1, $2, $3)"},
    {"fma", D(F64), SCALAR, "fma($1, $2, $3)"},
    {"sqrt", D(F32), SCALAR, "sqrtf($1)"},
    {"sqrt", D(F64), SCALAR, "sqrt($1)"},
    {"trunc", D(F32), SCALAR, "truncf($1)"},
    {"trunc", D(F64), SCALAR, "trunc($1)"},
    {"floor", D(F32), SCALAR, "floorf($1)"},
    {"floor", D(F64), SCALAR, "floor($1)"},
    {"exp2", D(F32), SCALAR, "exp2f($1)"},
    {"exp2", D(F64), SCALAR, "exp2($1)"},
    {"log2", D(F32), SCALAR, "log2f($1)"},
    {"log2", D(F64), SCALAR, "log2($1)"},
    {"sin", D(F32), SCALAR, "sinf($1)"},
    {"sin", D(F64), SCALAR, "sin($1)"},
    {"cast", D(BOOL), SCALAR, "($1 != 0)"},
    {"cast", D(F16), SCALAR, "f_to_h((float)$1)"},
    {"cast", D(BF16), SCALAR, "f_to_bf((float)$1)"},
    {"cast", INTS | FLOATS, SCALAR, "(($t)$1)"},
    {"cast_f16", FLOATS, SCALAR, "(($t)h_to_f($1))"},
    {"cast_bf16", FLOATS, SCALAR, "(($t)bf_to_f($1))"},
    {"bitcast", ALL, SCALAR,
     "({ __typeof__($1) from = $1; $t to; memcpy(&to, &from, sizeof to); to; })"}};

static const tnp_dialect plain_c = {
    .size = sizeof plain_c,
    .name = "plain-c",
    .prelude = prelude,
    .types = types,
    .kernel =
        "void $k(char *const *bufs, const uint64_t *imms, const uint32_t *gid, char *scratch)\n{\n",
    .buffer = "$q $s *$v = ($q $s *)bufs[$i];",
    .imm = {"(($s)imms[$i])", "({ $s x; memcpy(&x, &imms[$i], sizeof x); x; })"},
    .gid = {"gid[0]", "gid[1]", "gid[2]"},
    .lid = {"0", "0", "0"},
    .scratch = "$s *$v = ($s *)(scratch + $o);",
    .ops = templates,
    .nops = sizeof templates / sizeof *templates,
    .renderer = "CC"};

/* ---- 1: capabilities; the same for `probe`, which must be cheap, and for an open device ---- */

static const char *const dialects[] = {"plain-c", NULL};
static const char *const formats[] = {"plain-so", NULL};

static tnp_rc fill_caps(uint32_t i, tnp_caps *out)
{
    const uint64_t all = (UINT64_C(1) << TNP_DTYPE_COUNT) - 2;
    tnp_caps c;
    memset(&c, 0, sizeof c);
    c.size = sizeof c;
    c.kind = TNP_KIND_SOFT; /* never picked unasked */
    c.flags = TNP_F_UNIFIED | TNP_F_HOSTPTR | TNP_F_MAP | TNP_F_VADDR | TNP_F_THREADS |
              TNP_F_TIMESTAMP;
    snprintf(c.name, sizeof c.name, "plain C, one thread");
    snprintf(c.arch, sizeof c.arch, "host");
    snprintf(c.driver, sizeof c.driver, "0.1");
    snprintf(c.uid, sizeof c.uid, "plain:%u", i); /* of the chip, where it has one: "pci:..." */
    c.mem_total = c.mem_free = c.max_buffer = TNK_MAX_BYTES;
    c.buf_align = 16;
    c.max_args = MAX_ARGS;
    c.cores = c.subgroup = 1;
    c.max_local[0] = c.max_local[1] = c.max_local[2] = c.max_local_total = 1;
    c.max_grid[0] = c.max_grid[1] = c.max_grid[2] = UINT32_MAX;
    c.dtypes_mem = c.dtypes_alu = all;
    c.dialects = dialects;
    c.formats = formats;
    return tnk_caps_out(out, &c);
}

static tnp_rc dev_caps(tnp_dev *d, tnp_caps *out, tnp_err *e)
{
    (void)e;
    return fill_caps(d->index, out);
}

/* ---- 2: from source to a binary: `compile` needs no device and is pure ---- */

static uint64_t hash_of(const char *p, size_t n)
{
    uint64_t h = 14695981039346656037u;
    while (n--) h = (h ^ (unsigned char)*p++) * 1099511628211u;
    return h;
}

/* The whole of a file, with 8 bytes of room before it, in memory of the host. */
static tnp_rc read_file(const char *path, tnp_blob *out)
{
    struct stat st;
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    *out = (tnp_blob){NULL, 0};
    if (fd < 0) return TNP_E_INTERNAL;
    if (!fstat(fd, &st)) out->data = tnk_take(tnk_host, (size_t)st.st_size + 9);
    if (out->data) {
        const ssize_t n = pread(fd, (char *)out->data + 8, (size_t)st.st_size, 0);
        out->len = n > 0 ? (size_t)n : 0;
    }
    close(fd);
    return out->data ? TNP_OK : TNP_E_NOMEM;
}

static tnp_rc write_file(const char *path, const void *p, size_t n)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    const ssize_t w = fd < 0 ? -1 : write(fd, p, n);
    if (fd >= 0) close(fd);
    return w == (ssize_t)n ? TNP_OK : TNP_E_INTERNAL;
}

/* The compiler reads its standard input and complains into a file; its exit status, or -1. */
static int run_cc(const char *dir, const char *out)
{
    const char *cc = tnk_host->option(tnk_host->ctx, "cc");
    char in[80], log[80];
    posix_spawn_file_actions_t a;
    pid_t pid;
    int status = -1;
    char *const argv[] = {(char *)(cc ? cc : "cc"),
                          "-x",
                          "c",
                          "-std=gnu11",
                          "-O2",
                          "-w",
                          "-fPIC",
                          "-fwrapv",
                          "-ffp-contract=off",
                          "-fno-strict-aliasing",
                          "-shared",
                          "-Wl,--build-id=none,-s",
                          "-o",
                          (char *)out,
                          "-",
                          "-lm",
                          NULL};
    snprintf(in, sizeof in, "%s/in.c", dir);
    snprintf(log, sizeof log, "%s/log", dir);
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_addopen(&a, 0, in, O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&a, 1, "/dev/null", O_WRONLY, 0);
    posix_spawn_file_actions_addopen(&a, 2, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (!posix_spawnp(&pid, argv[0], &a, NULL, argv, environ)) waitpid(pid, &status, 0);
    posix_spawn_file_actions_destroy(&a);
    return status;
}

static tnp_rc compile(const tnp_compile *c, tnp_blob *bin, tnp_blob *log, tnp_err *e)
{
    char dir[] = "/tmp/tenon-plain-XXXXXX", in[80], out[80], text[80];
    tnp_rc rc;
    if (c->flags || strcmp(c->dialect, plain_c.name) != 0)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, "PLAIN: dialect %s: plain-c only", c->dialect);
    if (!mkdtemp(dir)) return tnk_fail(e, TNP_E_INTERNAL, errno, "PLAIN: no folder in /tmp");
    snprintf(in, sizeof in, "%s/in.c", dir);
    snprintf(out, sizeof out, "%s/out.so", dir);
    snprintf(text, sizeof text, "%s/log", dir);
    rc = write_file(in, c->src, c->len);
    if (rc) tnk_fail(e, rc, errno, "PLAIN: %s cannot be written", in);
    if (!rc) {
        const int status = run_cc(dir, out);
        if (read_file(text, log) == TNP_OK) memmove(log->data, (char *)log->data + 8, log->len + 1);
        if (status)
            rc = tnk_fail(e, TNP_E_COMPILE, status, "PLAIN: the C compiler says: %.300s",
                          log->len ? (char *)log->data : "nothing: is there one?");
        else if ((rc = read_file(out, bin)) != TNP_OK)
            tnk_fail(e, rc, errno, "PLAIN: the compiler's output cannot be read");
    }
    if (!rc) {
        const uint64_t h = hash_of((char *)bin->data + 8, bin->len);
        memcpy(bin->data, &h, 8);
        bin->len += 8;
    }
    unlink(in), unlink(out), unlink(text), rmdir(dir);
    return rc;
}

/* ---- and from a binary to a program ---- */

static tnp_rc load_so(const char *p, size_t n, void **so, tnp_err *e)
{
    char path[] = "/tmp/tenon-plain-XXXXXX"; /* a name of its own: the linker knows files by name */
    const int fd = mkstemp(path);
    const ssize_t w = fd < 0 ? -1 : write(fd, p, n);
    *so = w == (ssize_t)n ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
    if (fd >= 0) close(fd), unlink(path);
    if (*so) return TNP_OK;
    return tnk_fail(e, TNP_E_INTERNAL, errno, "PLAIN: the binary does not load: %s",
                    w < 0 ? path : dlerror());
}

static void prog_free(tnp_dev *d, tnp_prog *p)
{
    (void)d;
    if (p && p->so) dlclose(p->so);
    tnk_give(tnk_host, p);
}

static tnp_rc load(tnp_dev *d, const tnp_load *l, tnp_prog **out, tnp_err *e)
{
    const char *name = l->entry && l->entry->name ? l->entry->name : "";
    uint64_t h = 0;
    void *sym = NULL;
    tnp_prog *p;
    tnp_rc rc;
    (void)d;
    if (l->flags || !l->format || strcmp(l->format, formats[0]) != 0)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, "PLAIN: format \"%s\": plain-so only",
                        l->format ? l->format : "");
    if (l->len > 8) memcpy(&h, l->bin, 8);
    if (l->len <= 8 || h != hash_of((const char *)l->bin + 8, l->len - 8))
        return tnk_fail(e, TNP_E_ARG, 0,
                        "PLAIN: a binary of %zu bytes: damaged, or made by somebody else", l->len);
    if (!l->entry || l->entry->nargs > MAX_ARGS)
        return tnk_fail(e, TNP_E_ARG, 0, "PLAIN: kernel %s: at most %d buffers", name, MAX_ARGS);
    p = tnk_take(tnk_host, sizeof *p);
    if (!p) return tnk_fail(e, TNP_E_NOMEM, 0, "PLAIN: no host memory for a program");
    p->nargs = l->entry->nargs;
    p->nimms = l->entry->nimms;
    p->scratch_bytes = (size_t)l->scratch_bytes;
    rc = load_so((const char *)l->bin + 8, l->len - 8, &p->so, e);
    if (!rc && !(sym = dlsym(p->so, name)))
        rc = tnk_fail(e, TNP_E_ARG, 0, "PLAIN: the binary has no kernel %s", name);
    if (rc) {
        prog_free(d, p);
        return rc;
    }
    memcpy(&p->fn, &sym, sizeof sym);
    *out = p;
    return TNP_OK;
}

/* ---- 3: launches ---- */

static tnp_rc run(const tnp_prog *p, const tnp_launch *l, tnp_err *e)
{
    char *bufs[MAX_ARGS], *scratch = NULL;
    uint32_t g[3], i;
    for (i = 0; i < l->nbufs; i++) bufs[i] = l->bufs[i].buf->p + l->bufs[i].off;
    if (p->scratch_bytes && posix_memalign((void **)&scratch, 64, p->scratch_bytes))
        return tnk_fail(e, TNP_E_NOMEM, 0, "PLAIN: no memory for %zu bytes of scratch",
                        p->scratch_bytes);
    for (g[2] = 0; g[2] < l->grid[2]; g[2]++)
        for (g[1] = 0; g[1] < l->grid[1]; g[1]++)
            for (g[0] = 0; g[0] < l->grid[0]; g[0]++) p->fn(bufs, l->imms, g, scratch);
    free(scratch);
    return TNP_OK;
}

static tnp_rc launch(tnp_dev *d, tnp_queue *q, tnp_prog *p, const tnp_launch *l, const tnp_sync *s,
                     tnp_err *e)
{
    const uint64_t start = tnk_now_ns();
    tnp_rc rc;
    uint32_t i;
    (void)d, (void)q;
    if (l->flags)
        return tnk_fail(e, TNP_E_UNSUPPORTED, 0, TNK_NAME ": launch flags %#x: none is known",
                        l->flags);
    if (l->nbufs != p->nargs || l->nimms != p->nimms)
        return tnk_fail(e, TNP_E_ARG, 0,
                        TNK_NAME ": %u buffers and %u immediates: the kernel takes %u and %u",
                        l->nbufs, l->nimms, p->nargs, p->nimms);
    if (l->local[0] > 1 || l->local[1] > 1 || l->local[2] > 1)
        return tnk_fail(e, TNP_E_ARG, 0,
                        TNK_NAME ": local size %u x %u x %u: a work-group is one thread",
                        l->local[0], l->local[1], l->local[2]);
    rc = tnk_begin(s, e);
    for (i = 0; i < l->nbufs && !rc; i++) rc = tnk_ref_check(&l->bufs[i], "launch", e);
    if (!rc) rc = run(p, l, e);
    if (rc) return rc;
    if (l->out_ns) *l->out_ns = tnk_now_ns() - start + 1;
    return tnk_end(s, e);
}

/* ---- 4: the device ---- */

static void dev_close(tnp_dev *d) { tnk_give(tnk_host, d); }

static const void *ext(tnp_dev *d, const char *id)
{
    (void)d;
    return tnk_ext(id);
}

static const tnp_dev_ops dev_ops = {.size = sizeof dev_ops,
                                    .minor = TNP_MINOR,
                                    .close = dev_close,
                                    .caps = dev_caps,
                                    .prog_load = load,
                                    .prog_free = prog_free,
                                    .launch = launch,
                                    .ext = ext,
                                    TNK_HOSTDEV_OPS};

/* ---- the root ---- */

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    (void)e;
    tnk_host = h;
    return TNP_OK;
}

static void fini(void) { tnk_host = NULL; }
static void forked(void) {}

static tnp_rc count(uint32_t *n, tnp_err *e)
{
    (void)e;
    *n = DEVICES;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *e)
{
    if (i >= DEVICES)
        return tnk_fail(e, TNP_E_NODEV, 0, TNK_NAME ":%u: there is %d device", i, DEVICES);
    return fill_caps(i, out);
}

static tnp_rc open_dev(uint32_t i, tnp_dev **out, const tnp_dev_ops **ops, tnp_err *e)
{
    tnp_dev *d;
    if (i >= DEVICES)
        return tnk_fail(e, TNP_E_NODEV, 0, TNK_NAME ":%u: there is %d device", i, DEVICES);
    d = (tnp_dev *)tnk_take(tnk_host, sizeof *d);
    if (!d) return tnk_fail(e, TNP_E_NOMEM, 0, TNK_NAME ":%u: no host memory", i);
    d->index = i;
    *out = d;
    *ops = &dev_ops;
    return TNP_OK;
}

static const tnp_dialect *const tables[] = {&plain_c, NULL};
static const tnp_plugin root = {.magic = TNP_MAGIC,
                                .size = sizeof root,
                                .minor = TNP_MINOR,
                                .min_host_minor = 0,
                                .flags = TNP_ROOT_SURVIVES_FORK,
                                .name = TNK_NAME,
                                .version = "0.1",
                                .vendor = "an example of tenon",
                                .build = "C99",
                                .init = init,
                                .fini = fini,
                                .count = count,
                                .probe = probe,
                                .open = open_dev,
                                .forked = forked,
                                .compile = compile,
                                .dialects = tables};

const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    (void)host_minor;
    return &root;
}
