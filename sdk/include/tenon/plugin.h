/* SPDX-License-Identifier: MIT */
/*
 * The device plugin ABI of Tenon.  This header stands alone: C99 or C++11, two standard headers,
 * nothing to link against.
 *
 * Growth.  A struct with a leading `size` grows at its end and travels by pointer only: its writer
 * puts sizeof there, its reader looks at no byte beyond min(writer's, own).  A struct without `size`
 * is frozen for ever.  Enums travel as integers.  Unknown flag bits are TNP_E_UNSUPPORTED.
 *
 * Threads.  [any] may run at the same time on one object; [queue] the host serialises per queue;
 * [owner] no other call on the object is in flight.
 *
 * Errors.  rc < 0 always comes with a message in the caller's tnp_err ("what, which object, native
 * code").  Nothing aborts, exits, prints, raises a signal handler or unwinds across this border.
 */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

#ifdef _WIN32
#define TNP_EXPORT __declspec(dllexport)
#else
#define TNP_EXPORT __attribute__((visibility("default")))
#endif

/* 0 until the first release: symbol, magic and major change together, so that no development
 * plugin ever meets a released host. */
#define TNP_MAJOR 0u
#define TNP_MINOR 1u          /* sdk/CHANGELOG.md says what came with which */
#define TNP_MAGIC 0x30504e54u /* "TNP0" */
#define TNP_ENTRY "tenon_plugin_v0"

#define TNP_END(T, f)    (offsetof(T, f) + sizeof(((T *)0)->f))
#define TNP_HAS(p, T, f) ((p)->size >= TNP_END(T, f)) /* the peer knows field f */
#define TNP_FN(p, T, f)  ((p) && TNP_HAS(p, T, f) && (p)->f)

typedef struct tnp_dev tnp_dev;
typedef struct tnp_buf tnp_buf;
typedef struct tnp_prog tnp_prog;
typedef struct tnp_queue tnp_queue;
typedef struct tnp_sem tnp_sem;
typedef struct tnp_graph tnp_graph;

typedef int32_t tnp_rc;
enum {
    TNP_OK = 0,
    TNP_E_ARG = -1,
    TNP_E_NOMEM = -2, /* host memory */
    TNP_E_OOM = -3,   /* device memory: the host frees its caches and tries once more */
    TNP_E_UNSUPPORTED = -4,
    TNP_E_COMPILE = -5, /* the source is at fault: the log says where */
    TNP_E_TIMEOUT = -6,
    TNP_E_LAUNCH = -7, /* the device is still fine */
    TNP_E_LOST = -8,   /* sticky: only *_free and close are legal afterwards */
    TNP_E_NODEV = -9,
    TNP_E_DRIVER = -10, /* vendor library missing or too old */
    TNP_E_INTERNAL = -11,
    TNP_E_FORKED = -12
};

/* Element types; the ids are part of the ABI. */
enum {
    TNP_BOOL = 1,
    TNP_I8 = 2,
    TNP_U8 = 3,
    TNP_I16 = 4,
    TNP_U16 = 5,
    TNP_I32 = 6,
    TNP_U32 = 7,
    TNP_I64 = 8,
    TNP_U64 = 9,
    TNP_F16 = 10,
    TNP_BF16 = 11,
    TNP_F32 = 12,
    TNP_F64 = 13,
    TNP_DTYPE_COUNT = 14
};

/* Error storage of the caller: the callee fills, truncates, terminates; nobody frees. */
typedef struct tnp_err {
    uint32_t size;
    tnp_rc rc;
    int64_t native; /* the driver's own code */
    uint32_t cap, len;
    char *msg;
} tnp_err;

/* Bytes in memory from host->realloc; the receiver frees them with it. */
typedef struct tnp_blob {
    void *data;
    size_t len;
} tnp_blob;

/* ---- host services: valid until fini returns, all [any] ------------------------------------ */

/* body(arg, i) for every i in [0, n), in any order, on any threads; returns when all are done. */
typedef void tnp_parallel_body(void *arg, uint32_t i);

/* A stretch of work for the host's profile: nanoseconds of the monotonic clock; track: a lane of its
 * picture, any number that the plugin likes (a queue, a thread). */
typedef struct tnp_span {
    uint32_t size, track;
    const char *name; /* read during the call only */
    uint64_t begin_ns, end_ns;
} tnp_span;

typedef struct tnp_host {
    uint32_t size, minor;
    const char *version;
    void *ctx;
    void *(*realloc)(void *ctx, void *p, size_t n);         /* n == 0 frees */
    void (*log)(void *ctx, int32_t level, const char *msg); /* 0 error .. 4 trace */
    const char *(*option)(void *ctx,
                          const char *key); /* of DEV=: "arch", "renderer"; "cc"; NULL: unset */
    void *(*lib_open)(void *ctx, const char *const *names,
                      tnp_err *err); /* names NULL-ended; never closed */
    void *(*lib_sym)(void *ctx, void *lib, const char *sym, tnp_err *err);
    /* Disk cache, namespaced by plugin, driver and arch.  get: TNP_OK with *out, or TNP_E_NODEV on a
     * miss (no message then). */
    tnp_rc (*cache_get)(void *ctx, const void *key, size_t n, tnp_blob *out);
    tnp_rc (*cache_put)(void *ctx, const void *key, size_t n, const void *v, size_t nv);
    /* optional from here */
    void (*parallel_for)(void *ctx, uint32_t n, tnp_parallel_body *body, void *arg);
    uint32_t threads; /* the host's wish for a CPU-like device; 0: as many as the process may use */
    uint32_t reserved;
    void (*span)(void *ctx, const tnp_span *); /* since minor 1; NULL: nobody profiles */
} tnp_host;

/* ---- capabilities -------------------------------------------------------------------------- */

enum {
    TNP_KIND_CPU,
    TNP_KIND_GPU,
    TNP_KIND_IGPU,
    TNP_KIND_ACCEL,
    TNP_KIND_SOFT /* never picked unasked */
};
enum {
    TNP_F_UNIFIED = 1u << 0,    /* device memory is host memory */
    TNP_F_ASYNC = 1u << 1,      /* launch returns before the work is done */
    TNP_F_SEM_DEVICE = 1u << 2, /* waits happen on the device */
    TNP_F_HOSTPTR = 1u << 3,    /* tnp_alloc.host_ptr is honoured */
    TNP_F_MAP = 1u << 4,        /* buf_map works */
    TNP_F_VADDR = 1u << 5,      /* buf_addr works */
    TNP_F_TIMESTAMP = 1u << 6,
    TNP_F_THREADS = 1u << 7, /* one device may be used by many threads */
    TNP_F_NOEXEC = 1u << 8,  /* accepts everything, runs nothing */
    TNP_F_CONTAINS_FAULTS = 1u << 9,
    TNP_F_WAIT_BEFORE_SIGNAL = 1u << 10
};

typedef struct tnp_caps {
    uint32_t size, kind;
    uint64_t flags;
    char name[96], arch[64], driver[64],
        uid[64];                              /* uid: "pci:0000:c1:00.0"; equal across plugins */
    uint64_t mem_total, mem_free, max_buffer; /* bytes */
    uint32_t buf_align, max_args;
    uint32_t simd_bytes;   /* width of one vector register; 0: no vectors */
    uint32_t simd_regs;    /* number of vector registers */
    uint32_t cores;        /* compute units, or threads that run at once */
    uint32_t shared_bytes; /* local memory of a work-group */
    uint32_t subgroup;
    uint32_t max_local[3], max_local_total, max_grid[3];
    int32_t rank;                    /* among devices of one kind; higher is better */
    uint64_t cache_bytes[3];         /* L1 data, L2 (both a core), L3; 0: unknown */
    uint64_t dtypes_mem, dtypes_alu; /* bit i: dtype id i may be stored / computed with */
    const char *const *ops;          /* names of linear ops taken beyond TNL_BASE_OPS; NULL-ended */
    const char *const *dialects; /* source languages, best first, NULL-ended: "gnu-c", "linear" */
    const char *const *formats;  /* accepted by prog_load, NULL-ended */
} tnp_caps;

/* ---- memory, programs, queues -------------------------------------------------------------- */

enum {
    TNP_MEM_HOSTVIS = 1u,
    TNP_MEM_HOST = 2u /* pinned */,
    TNP_MEM_UNCACHED = 4u,
    TNP_MEM_ZERO = 8u
};

typedef struct tnp_alloc {
    uint32_t size, flags;
    uint64_t bytes, align;
    void *host_ptr; /* wrap this memory (TNP_F_HOSTPTR), or NULL */
} tnp_alloc;

typedef struct tnp_ref {
    tnp_buf *buf;
    uint64_t off, len; /* bytes; off is a multiple of caps.buf_align for kernel arguments */
} tnp_ref;

enum { TNP_ACCESS_READ = 1, TNP_ACCESS_WRITE = 2 };
typedef struct tnp_arg {
    uint8_t dtype, access, reserved[2];
} tnp_arg;

typedef struct tnp_entry {
    const char *name;
    const tnp_arg *args; /* buffers; immediates follow them, 64 bits each */
    uint32_t nargs, nimms;
    uint32_t local[3];
    uint32_t reserved;
} tnp_entry;

typedef struct tnp_compile {
    uint32_t size, flags;
    const char *arch, *dialect;
    const void *src;
    size_t len;
    const tnp_entry *entries;
    uint32_t nentries;
    uint32_t reserved;
} tnp_compile;

typedef struct tnp_load {
    uint32_t size, flags;
    const char *format;
    const tnp_entry *entry;
    const void *bin;
    size_t len;
    uint64_t scratch_bytes; /* private memory of one work-group, from the kernel's linear code */
} tnp_load;

typedef struct tnp_launch {
    uint32_t size, flags;
    uint32_t grid[3], local[3]; /* grid counts work-groups */
    const tnp_ref *bufs;
    const uint64_t *imms;
    uint32_t nbufs, nimms;
    uint64_t work;    /* estimated operations of the whole launch: a hint for splitting */
    uint64_t *out_ns; /* or NULL; the caller's until its point has passed */
} tnp_launch;

/* Timelines: 64-bit values that only rise.  A wait names a value already enqueued, of the same
 * plugin, unless TNP_F_WAIT_BEFORE_SIGNAL. */
typedef struct tnp_point {
    tnp_sem *sem;
    uint64_t value;
} tnp_point;
typedef struct tnp_sync {
    uint32_t nwait, nsignal; /* nsignal: 0 or 1 */
    const tnp_point *wait, *signal;
} tnp_sync; /* NULL: queue order only */

typedef struct tnp_dev_ops {
    uint32_t size, minor;
    void (*close)(tnp_dev *);                                                 /* [owner] drains */
    tnp_rc (*caps)(tnp_dev *, tnp_caps *, tnp_err *);                         /* [any] */
    tnp_rc (*buf_alloc)(tnp_dev *, const tnp_alloc *, tnp_buf **, tnp_err *); /* [any] */
    void (*buf_free)(tnp_dev *, tnp_buf *); /* [any] users have signalled */
    tnp_rc (*prog_load)(tnp_dev *, const tnp_load *, tnp_prog **, tnp_err *); /* [any] */
    void (*prog_free)(tnp_dev *, tnp_prog *);                                 /* [any] */
    tnp_rc (*queue_new)(tnp_dev *, uint32_t flags, tnp_queue **, tnp_err *);  /* [any] flags 0 */
    void (*queue_free)(tnp_dev *, tnp_queue *);                               /* [owner] */
    tnp_rc (*sem_new)(tnp_dev *, uint64_t initial, tnp_sem **, tnp_err *);    /* [any] */
    void (*sem_free)(tnp_dev *, tnp_sem *);                                   /* [owner] */
    tnp_rc (*sem_signal)(tnp_dev *, tnp_sem *, uint64_t value, tnp_err *); /* [any] from the host */
    tnp_rc (*sem_wait)(tnp_dev *, tnp_sem *, uint64_t value, uint64_t timeout_ns,
                       tnp_err *); /* [any] */
    tnp_rc (*launch)(tnp_dev *, tnp_queue *, tnp_prog *, const tnp_launch *, const tnp_sync *,
                     tnp_err *);
    /* src may be reused on return */
    tnp_rc (*copy_in)(tnp_dev *, tnp_queue *, tnp_ref dst, const void *src, const tnp_sync *,
                      tnp_err *);
    /* dst is valid once signalled */
    tnp_rc (*copy_out)(tnp_dev *, tnp_queue *, void *dst, tnp_ref src, const tnp_sync *, tnp_err *);
    tnp_rc (*copy)(tnp_dev *, tnp_queue *, tnp_ref dst, tnp_ref src, const tnp_sync *, tnp_err *);
    /* repeats a pattern of 1, 2, 4 or 8 bytes over dst */
    tnp_rc (*fill)(tnp_dev *, tnp_queue *, tnp_ref dst, uint64_t pattern, uint32_t width,
                   const tnp_sync *, tnp_err *);
    tnp_rc (*flush)(tnp_dev *, tnp_queue *, tnp_err *);
    /* optional from here */
    tnp_rc (*buf_map)(tnp_dev *, tnp_buf *, void **p, tnp_err *);
    tnp_rc (*buf_addr)(tnp_dev *, tnp_buf *, uint64_t *va, tnp_err *);
    /* an extension's table, alive as long as the device; NULL: not there.  The table's first word is its
     * size.  Ids: "tenon.graph/1", "tenon.peer/1", "tenon.import/1", "tenon.tc/1". */
    const void *(*ext)(tnp_dev *, const char *id);
    /* a number by name, for what has no field yet; TNP_E_UNSUPPORTED: no such key */
    tnp_rc (*query)(tnp_dev *, const char *key, uint64_t *value);
} tnp_dev_ops;

/* ---- extension "tenon.graph/1": a list of calls replayed by one call ------------------------ */

/* A fixed reference, or slot >= 0: slots[slot] with off added. */
typedef struct tnp_gref {
    tnp_ref ref;
    int32_t slot;
    uint32_t reserved;
} tnp_gref;

enum { TNP_NODE_LAUNCH, TNP_NODE_COPY, TNP_NODE_FILL };
typedef struct tnp_node {
    uint32_t size, kind;
    const uint32_t *deps; /* earlier nodes that must be done */
    uint32_t ndeps;
    uint32_t nrefs;
    const tnp_gref *refs; /* launch: the buffers; copy: dst, src; fill: dst */
    tnp_prog *prog;
    uint32_t grid[3], local[3];
    const int32_t
        *imm_slots; /* an immediate: scalars[imm_slots[i]], or imms[i] where that is < 0 */
    const uint64_t *imms;
    uint32_t nimms, width; /* width: of the fill pattern, which is imms[0] */
    uint64_t work;
} tnp_node;

typedef struct tnp_graph_ops {
    uint32_t size, minor;
    tnp_rc (*build)(tnp_dev *, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                    uint32_t nscalars, tnp_graph **, tnp_err *);
    tnp_rc (*run)(tnp_dev *, tnp_queue *, tnp_graph *, const tnp_ref *slots,
                  const uint64_t *scalars, const tnp_sync *, tnp_err *);
    void (*free)(tnp_dev *, tnp_graph *);
} tnp_graph_ops;

/* ---- extension "tenon.peer/1" (minor 1): devices of one plugin that reach each other's memory ---- */

enum {
    TNP_PEER_NONE = 0,   /* only through the host */
    TNP_PEER_COPY = 1,   /* copy works */
    TNP_PEER_ACCESS = 2, /* map works: kernels of dst read and write the memory of src */
    TNP_PEER_ATOMICS = 4
};

typedef struct tnp_peer_ops {
    uint32_t size, minor;
    /* [any] *how: bits of what dst can do with the memory of src */
    tnp_rc (*can)(tnp_dev *dst, tnp_dev *src, uint32_t *how, tnp_err *);
    /* [any] a buffer of dst that names memory of src: freed by buf_free of dst, before the original */
    tnp_rc (*map)(tnp_dev *dst, tnp_dev *src, tnp_buf *, tnp_buf **out, tnp_err *);
    /* [queue] on a queue of dst */
    tnp_rc (*copy)(tnp_dev *dst, tnp_queue *, tnp_ref to, tnp_dev *src, tnp_ref from,
                   const tnp_sync *, tnp_err *);
} tnp_peer_ops;

/* ---- extension "tenon.import/1" (minor 1): memory of somebody else as a buffer ---------------- */

enum {
    TNP_IMPORT_HOST = 0,       /* handle: a host address */
    TNP_IMPORT_DEVICE_PTR = 1, /* handle: an address of this device (CUdeviceptr) */
    TNP_IMPORT_CL_MEM = 2,     /* handle: a cl_mem of the plugin's context; it is retained */
    TNP_IMPORT_MTL_BUFFER = 3, /* handle: an id<MTLBuffer>; it is retained */
    TNP_IMPORT_FD = 4          /* handle: a file descriptor (dma-buf, opaque); it is duplicated */
};
enum {
    TNP_FENCE_NONE = 0,
    TNP_FENCE_STREAM = 1, /* a CUstream or cl_command_queue: all that is in it now */
    TNP_FENCE_EVENT = 2,  /* a CUevent, cl_event or id<MTLEvent> */
    TNP_FENCE_FD = 3      /* a sync file; it is duplicated */
};

typedef struct tnp_import {
    uint32_t size, kind;
    uint64_t handle; /* a pointer as (uintptr_t), or a descriptor */
    uint64_t offset, bytes;
    uint32_t access;             /* TNP_ACCESS_ bits of what kernels do with it */
    uint32_t fence_kind;         /* work of the owner that the first use waits for */
    uint64_t fence;              /* its handle; borrowed for the call */
    uint64_t fence_value;        /* of an event that has values, else 0 */
    void (*release)(void *user); /* once, from any thread, when the buffer is freed; or NULL */
    void *user;
} tnp_import;

typedef struct tnp_import_ops {
    uint32_t size, minor;
    uint64_t kinds; /* bit i: TNP_IMPORT_ kind i is taken */
    /* [any] the buffer is used and freed like any other; release is not called when this fails */
    tnp_rc (*import)(tnp_dev *, const tnp_import *, tnp_buf **out, tnp_err *);
} tnp_import_ops;

/* ---- extension "tenon.tc/1" (minor 1): matrix units ------------------------------------------- */

enum {
    TNP_TC_TF32 = 1u << 0 /* rounds float32 to 10 bits: only where the user allows that */
};

/* One instruction, D = A B + C, done together by `threads` work-items of a work-group.  Work-item t holds
 * a_elems elements of A (m x k), b_elems of B (k x n) and c_elems of C and D (m x n).  a_map[t * a_elems +
 * i] is row * columns + column of its i-th element, the other maps likewise.  Grows at its end. */
typedef struct tnp_tc {
    uint32_t size, flags;
    const char *name; /* "mma.m16n8k16" */
    uint32_t m, n, k, threads;
    uint32_t a_elems, b_elems, c_elems;
    uint32_t a_dtype, b_dtype, c_dtype; /* dtype ids */
    const uint16_t *a_map, *b_map, *c_map;
    const char *prelude; /* declares what text uses, in the dialect; or NULL */
    const char *text;    /* a statement; $a $b $c $d: arrays of the fragments' elements */
} tnp_tc;

typedef struct tnp_tc_ops {
    uint32_t size, minor;
    const char *dialect;       /* in which prelude and text are written */
    const tnp_tc *const *list; /* NULL-ended, fastest first */
} tnp_tc_ops;

/* ---- dialects: what the host's C-style renderer needs to know -------------------------------- */

/* Text of one op.  $1 $2 $3: sources; $t: the result's type, $s: its scalar type, $n: lanes.
 * dtypes: bit i: applies to dtype id i; lanes: 1 scalar only, 2 vector only, 3 both. */
typedef struct tnp_template {
    const char *op;
    uint32_t dtypes, lanes;
    const char *text;
} tnp_template;

enum {
    TNP_DIALECT_VECTOR_EXT =
        1u << 0 /* GNU vector types: operators work on vectors, masks are integers */
};

typedef struct tnp_dialect {
    uint32_t size, flags;
    const char *name;         /* "gnu-c" */
    const char *prelude;      /* stands before the first kernel */
    const char *const *types; /* scalar type by dtype id; NULL: none */
    const char *const
        *vec_prelude; /* by dtype id: text that declares the vector type, with $n, or NULL */
    const char *const *vec_types; /* by dtype id: name of the vector type, with $n, or NULL */
    const char *kernel;           /* opens a kernel: $k its name, $l the local size product */
    const char *buffer;          /* declares argument $i of type $s as $v; $q: "const" or nothing */
    const char *imm[2];          /* reads immediate $i: as integer, as float of the dtype's bits */
    const char *gid[3], *lid[3]; /* group and local ids */
    const char *scratch;         /* declares scratch buffer $v of type $s at byte $o; NULL: none */
    const char *local, *barrier; /* work-group memory; NULL: none */
    const tnp_template *ops;
    uint32_t nops;
    const char *renderer; /* what the RENDERER part of DEV calls it: "CC"; NULL: its name */
} tnp_dialect;

typedef struct tnp_render_ops {
    uint32_t size, minor;
    /* source from linear code (tenon/linear.h); the dialect it makes is `dialect` */
    const char *dialect;
    tnp_rc (*render)(const void *linear, size_t n, tnp_blob *src, tnp_blob *log, tnp_err *);
    const char
        *renderer; /* what the RENDERER part of DEV calls it: "LLVM"; NULL: the dialect's name */
} tnp_render_ops;

/* ---- the plugin's root ----------------------------------------------------------------------- */

enum { TNP_ROOT_SURVIVES_FORK = 1u << 0 };

typedef struct tnp_plugin {
    uint32_t magic, size, minor, min_host_minor;
    uint32_t flags, reserved;
    const char *name;           /* "CUDA": upper case, what DEV= says */
    const char *const *aliases; /* NULL-ended, or NULL */
    const char *version, *vendor, *build;
    tnp_rc (*init)(const tnp_host *,
                   tnp_err *); /* once a process image; cheap; no threads, no contexts */
    void (*fini)(void);        /* only at orderly shutdown */
    tnp_rc (*count)(uint32_t *n, tnp_err *); /* 0 is not an error; TNP_E_DRIVER says why */
    tnp_rc (*probe)(uint32_t i, tnp_caps *, tnp_err *); /* no context is created */
    tnp_rc (*open)(uint32_t i, tnp_dev **, const tnp_dev_ops **, tnp_err *);
    void (*forked)(void); /* child side of fork */
    /* optional from here.  compile needs no device, is pure and [any]; NULL: prog_load takes source */
    tnp_rc (*compile)(const tnp_compile *, tnp_blob *bin, tnp_blob *log, tnp_err *);
    const tnp_dialect *const *dialects; /* NULL-ended, or NULL */
    const tnp_render_ops *render;       /* own renderer, or NULL */
} tnp_plugin;

/* Pure: no allocation, no input or output, never NULL. */
TNP_EXPORT const tnp_plugin *tenon_plugin_v0(uint32_t host_minor);
typedef const tnp_plugin *tnp_entry_fn(uint32_t host_minor);

#ifdef __cplusplus
}
#endif
#endif
