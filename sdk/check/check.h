/* SPDX-License-Identifier: MIT */
/*
 * tenon-plugin-check: what its files share.  Each check is a function that runs in a child process of its
 * own; it returns when all is well, and ends the child with fail() or skip() otherwise.  So a check never
 * cleans up after a failure, and one that crashes or hangs takes no other down.
 *
 * The program stands on the SDK's headers and the C library alone.
 */
#ifndef TENON_CHECK_H
#define TENON_CHECK_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <tenon/linear.h>
#include <tenon/plugin.h>

#define LEN(a)       (sizeof(a) / sizeof *(a))
#define PRINTF(f, a) __attribute__((format(printf, f, a)))

/* ---- the table ---- */
typedef struct {
    int number; /* 1 to 40; 0 for those of an extension */
    const char *group, *name;
    void (*run)(void);
    int seconds;
} check_row;
extern const check_row load_checks[], enum_checks[], memory_checks[], program_checks[],
    launch_checks[], sync_checks[], process_checks[], graph_checks[], other_checks[];

/* ---- check_main.c: the end of a check ---- */
void fail(const char *fmt, ...) PRINTF(1, 2) __attribute__((noreturn));
void skip(const char *fmt, ...) PRINTF(1, 2) __attribute__((noreturn));
void note(const char *fmt, ...) PRINTF(1, 2); /* printed beside the verdict */
/* A limit of time: fails with --strict-time, is a note else. */
void late(const char *what, uint64_t ns, uint64_t limit_ns);
#define NEED(c, ...)                 \
    do {                             \
        if (!(c)) fail(__VA_ARGS__); \
    } while (0)
extern const char *plugin_path;
extern bool long_run;

/* ---- check_host.c: a host that counts ---- */
extern tnp_host host;
extern tnp_err err; /* storage for all calls */
extern char err_text[600];
extern int64_t host_live;    /* blocks that were given out and not back */
extern int64_t host_fail_at; /* the n-th allocation from now fails; 0: none */
extern int64_t host_count;   /* allocations so far */
extern int host_logs;
extern bool host_bare;       /* optional services are NULL */
extern bool host_closed;     /* fini was called: no service may be */
extern bool host_no_drivers; /* lib_open finds nothing */
void host_init(void);
tnp_err *fresh(void); /* err, emptied */
uint64_t now_ns(void);
void nap_ms(int ms);
int threads_now(void); /* of this process; -1: unknown */
/* The last call answered `want` with a text. */
void refused(tnp_rc rc, tnp_rc want, const char *what);
void worked(tnp_rc rc, const char *what);

/* ---- check_plugin.c: loading, opening, running ---- */
extern void *so;
extern const tnp_plugin *root;
extern tnp_dev *dev;
extern const tnp_dev_ops *ops;
extern tnp_caps caps;
extern tnp_queue *queue;
extern tnp_sem *sem;
extern uint64_t sem_value;
tnp_entry_fn *need_entry(void); /* loads the file */
void need_root(void);           /* and asks the entry */
void need_init(void);           /* and calls init and count; skips where there is no device */
void need_dev(void);            /* and opens device 0 with a queue and a timeline */
void need_exec(void);           /* skips where nothing runs */
void close_dev(void);
extern uint32_t dev_count;
tnp_caps caps_of(uint32_t i);

tnp_buf *buf_new(size_t bytes, uint32_t flags);
void put(tnp_buf *b, size_t off, const void *p, size_t n); /* waits */
void get(tnp_buf *b, size_t off, void *p, size_t n);       /* waits */
const tnp_sync *signal_next(void); /* signals the timeline's next value; for one submission */
void settle(void);                 /* waits for it */

/* ---- check_kernel.c: kernels in every dialect ---- */
enum { K_MAX_ROWS = 512, K_MAX_BUFS = 300, K_MAX_IMMS = 16 };
typedef struct {
    char name[64];
    tnl_row rows[K_MAX_ROWS];
    int nrows;
    tnl_buf bufs[K_MAX_BUFS];
    tnp_arg args[K_MAX_BUFS];
    uint32_t nbufs, nimms;
    uint32_t local[3];
    const char *body; /* source text instead of rows (dialects with a table only) */
} kern;
void k_begin(kern *k, const char *name);
int k_buf(kern *k, int dtype, int access);
int k_row(kern *k, const char *op, int dtype, int a, int b, int c, int64_t imm);
int k_const(kern *k, int dtype, int64_t bits);
/* NULL, or why this kernel cannot be written in that dialect. */
const char *k_cannot(const kern *k, const char *dialect);

typedef struct {
    void *data;
    size_t len;
} bytes;
bytes k_source(const kern *k, const char *dialect);
const tnp_dialect *dialect_table(const char *name); /* of the root; NULL */
const char *const *dialects(void);                  /* declared ones, NULL-ended */
const char *usable_dialect(const kern *k);          /* first that can have it; NULL */

/* compile (where the plugin has it): the rc; *bin is what prog_load takes, in *format */
tnp_rc k_compile(const kern *k, const char *dialect, bytes src, bytes *bin, bytes *log);
const char *k_format(const char *dialect);
tnp_prog *k_load(const kern *k); /* from the first usable dialect; skips where there is none */
tnp_rc k_load_bin(const kern *k, const char *format, bytes bin, const char *entry, tnp_prog **out);
tnp_rc k_launch(tnp_queue *q, tnp_prog *p, const kern *k, tnp_buf *const *bufs, const size_t *lens,
                const uint64_t *imms, const uint32_t grid[3], const tnp_sync *s, uint64_t *ns);
/* Launches on the queue and waits. */
void k_run(tnp_prog *p, const kern *k, tnp_buf *const *bufs, const size_t *lens,
           const uint64_t *imms, uint32_t gx, uint32_t gy, uint32_t gz);

/* out[g] = a[g] + b[g]; out[g] = a[g] + imm 0 (i32); one element a work-group */
void kern_add(kern *k, int dtype);
void kern_plus(kern *k);

/* ---- check_elf.c ---- */
typedef struct {
    char **exported, **undefined, **needed; /* NULL-ended */
} elf_names;
bool elf_read(const char *path, elf_names *out); /* false: no ELF */

size_t dtype_size(int dtype);
const char *dtype_text(int dtype);
#endif
