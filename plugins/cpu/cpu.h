/* SPDX-License-Identifier: MIT */
/*
 * Private part of the CPU plugin.  Kernels are functions of shared objects that the system's C compiler makes
 * from text (CPU:CC), or of objects that libLLVM makes from linear code in this process (CPU:LLVM);
 * their calling convention ("gnu-c") is cpu__kernel in either case.
 *
 * All devices of the plugin share one thread pool and one table of loaded binaries.
 */
#ifndef CPU_H
#define CPU_H
#include <stdatomic.h>
#include <stdbool.h>
#include <tenon/plugin.h>

extern const tnp_host *cpu__host;
uint64_t cpu__mem_total(void);
#define TNK_NAME      "CPU"
#define TNK_HOST      cpu__host
#define TNK_MAX_BYTES cpu__mem_total()
#include <tenon/hostdev.h>

enum {
    CPU_DEVICES = 16,
    CPU_MAX_ARGS = 256,
    CPU_MAX_IMMS = 256,
    CPU_MAX_THREADS = 256,
    CPU_SMALL_WORK = 50000 /* operations below which a launch stays on the calling thread */
};

/* bufs: one address a buffer argument; imms: 64 bits each; gid: the work-group's index; scratch: private
 * memory of one work-group, 64-byte aligned, contents undefined. */
typedef void cpu__kernel(void *const *bufs, const uint64_t *imms, const uint32_t *gid,
                         void *scratch);

/* ---- cpu.c ---- */
#define cpu__fail(...) tnk_fail(__VA_ARGS__)
#define cpu__take(n)   tnk_take(cpu__host, n)
#define cpu__give(p)   tnk_give(cpu__host, p)
#define cpu__now_ns()  tnk_now_ns()
void cpu__dev_close(tnp_dev *d); /* the last one stops the threads */

/* ---- caps.c ---- */
void cpu__caps(uint32_t index, tnp_caps *out); /* fills the prefix that out->size names */
uint32_t cpu__cores(void);                     /* that this process may use */
const char *cpu__arch(void);

/* ---- compile.c: source to a binary of format "so", see cpu__trailer ---- */
tnp_rc cpu__compile(const tnp_compile *c, tnp_blob *bin, tnp_blob *log, tnp_err *e);
/* Path of the compiler that would be used, "" if there is none. */
void cpu__compiler_path(char *out, size_t cap);

/* ---- elf.c: relocatable objects loaded by hand ---- */
typedef struct cpu__image cpu__image;
bool cpu__is_object(const void *bin, size_t n);
tnp_rc cpu__image_load(const void *bin, size_t n, cpu__image **out, tnp_err *e);
cpu__kernel *cpu__image_find(const cpu__image *m, const char *name);
void cpu__image_free(cpu__image *m);

/* ---- library.c: binaries loaded into the process, counted ---- */
typedef struct cpu__lib cpu__lib;
/* Last bytes of a binary: what damaged files are told by before the dynamic linker sees them. */
typedef struct {
    uint64_t magic, len, hash[2]; /* of the ELF file before it */
} cpu__trailer;
#define CPU_TRAILER_MAGIC 0x316f732d6e6f6e74ull
void cpu__hash(const void *p, size_t n, uint64_t out[2]);
tnp_rc cpu__lib_get(const void *bin, size_t len, cpu__lib **out, tnp_err *e);
cpu__kernel *cpu__lib_find(cpu__lib *l, const char *name);
void cpu__lib_put(cpu__lib *l);
void cpu__lib_forked(void);

/* ---- pool.c ---- */
typedef struct {
    cpu__kernel *fn;
    void *const *bufs;
    const uint64_t *imms;
    uint32_t grid[3];
    uint64_t scratch_bytes, work;
} cpu__job;
/* Runs all work-groups; false when there is no memory for scratch.  [any] */
bool cpu__pool_run(const cpu__job *j);
tnp_rc cpu__pool_init(tnp_err *e);
void cpu__pool_stop(void); /* joins the threads; the next job starts them again */
void cpu__pool_fini(void);
void cpu__pool_forked(void);

/* ---- objects ---- */
struct tnp_dev {
    uint32_t index;
};
struct tnp_prog {
    cpu__lib *lib;
    cpu__kernel *fn;
    uint64_t scratch_bytes;
    uint32_t nargs, nimms;
};
/* ---- device.c ---- */
extern const tnp_dev_ops cpu__dev_ops;

/* ---- graph.c ---- */
extern const tnp_graph_ops cpu__graph_ops;

/* ---- dialect.c ---- */
extern const tnp_dialect cpu__gnu_c;
#endif
