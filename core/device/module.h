/* SPDX-License-Identifier: MIT */
/*
 * What the files of device/ share.  Order of locks: registry, then a device's call lock, then its memory
 * lock; the host callbacks that plugins call take none of them.
 */
#ifndef TN_DEVICE_MODULE_H
#define TN_DEVICE_MODULE_H
#include "device/device.h"
#include <pthread.h>
#include <sys/types.h>
#include <tenon/device.h>

/* ---- text of a refusal, collected before anyone knows whether it is an error ---- */
typedef struct {
    char text[1600];
} tn__why;
bool tn__why_set(tn__why *w, const char *fmt, ...) TN_PRINTF(2, 3); /* false, for `return` */
void tn__why_add(tn__why *w, const char *fmt, ...) TN_PRINTF(2, 3);

/* ---- storage for a plugin's error text ---- */
typedef struct {
    tnp_err e;
    char text[768];
} tn__plug_err;
static inline tnp_err *tn__plug_err_init(tn__plug_err *p)
{
    p->text[0] = 0;
    p->e = (tnp_err){.size = sizeof p->e, .cap = sizeof p->text, .msg = p->text};
    return &p->e;
}
tn_code tn__plug_code(tnp_rc rc);
const char *tn__plug_text(const tn__plug_err *p, tnp_rc rc); /* never empty */

/* ---- calls that may hang: named in the log after a while (watch.c) ---- */
typedef struct {
    const char *who, *call;
    unsigned ms;
    bool done, running;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
} tn__watch;
extern unsigned tn__watch_ms; /* patience; 5 s */
void tn__watch_start(tn__watch *w, const char *who, const char *call);
void tn__watch_stop(tn__watch *w);

/* ---- plugins ---- */
typedef struct tn__plugin {
    struct tn__plugin *next;
    const tnp_plugin *root;
    tnp_host host;
    char *path; /* "built in" for static ones */
    dev_t dev;
    ino_t ino;
    uint32_t count;
    bool usable;       /* init and count are fine */
    char renderer[32]; /* of the DEV item being opened */
    char arch[160];
} tn__plugin;

/* By upper-case name; loads it at first use.  All loader functions are called with the registry locked. */
tn__plugin *tn__plugin_find(const char *name, tn__why *why);
tn__plugin *tn__plugin_open_file(const char *path, tn__why *why);
/* Loads everything there is; refusals go to `refused` (arg, file, reason). */
typedef void tn__refused_fn(void *arg, const char *file, const char *reason);
void tn__plugin_load_all(tn__refused_fn *refused, void *arg);
tn__plugin *tn__plugin_first(void); /* loaded ones, in order of name */
void tn__plugin_names(tn__buf *out, char sep);
/* ---- where they are ---- */
typedef void tn__found_fn(void *arg, const char *name, const char *path);
bool tn__search_raised(void); /* rights above the user's: his folders do not count */
bool tn__search_name(const char *file, char *out, size_t cap); /* NAME of .../tenon_<name>.so */
/* First file of that name; `looked`: the folders, with how many plugins each has. */
bool tn__search_file(const char *name, char *hit, size_t cap, tn__why *looked);
/* Every file whose name is not in `seen` ("\nNAME\n..."), first hit by name; names are added. */
void tn__search_all(tn__buf *seen, tn__found_fn *fn, void *arg);
bool tn__search_seen(const tn__buf *seen, const char *name);
/* Every plugin there is, first hit by name; path is NULL for those linked in.  Loads none. */
void tn__plugin_files(tn__found_fn *fn, void *arg);
void tn__plugin_fini_all(void);

void tn__plug_host_init(tn__plugin *p);
void tn__plug_host_threads(tn__plugin *p); /* takes over NUM_CPU_THREADS */
/* ELF file for this process?  `needed`: DT_NEEDED names, separated by newlines. */
bool tn__elf_check(int fd, tn__buf *needed, tn__why *why);

/* ---- DEV's grammar ---- */
typedef struct {
    char name[32]; /* upper case; "" when path is set */
    char path[1024];
    char renderer[32], arch[160]; /* "": not given */
    uint32_t ordinal;
    bool has_ordinal;
} tn__spec;
bool tn__spec_parse(const char *text, size_t n, tn__spec *out, tn__why *why);

/* ---- devices ---- */
enum { TN_MAX_DEVICES = 128, TN_SIZE_CLASSES = 16 * 44 };

typedef struct tn__queue {
    tnp_queue *q;
    tnp_sem *sem;   /* asynchronous devices only */
    uint64_t value; /* last one asked for */
    tn__device *dev;
    struct tn__queue *next; /* of the device */
} tn__queue;

struct tn__device {
    int id;
    tn__plugin *plugin;
    uint32_t ordinal;
    char name[256], renderer[32], arch[160];
    tnp_dev *h;
    const tnp_dev_ops *ops;
    const tnp_graph_ops *graph;
    tnp_caps caps;
    const tnp_dialect *dialect;
    const tnp_render_ops *render;
    const char *source; /* dialect name that `compile` or `prog_load` takes */
    tn__hash key;
    bool async, one_thread, mapped;
    pthread_mutex_t call;   /* where the plugin takes one thread at a time */
    pthread_mutex_t memory; /* what follows */
    tn__buffer *free[TN_SIZE_CLASSES];
    size_t live, in_use, cached,
        peak; /* bytes asked for; held by live buffers; in freed blocks; most held */
    pthread_mutex_t queue_lock;
    tn__queue *queues;
};

static inline void tn__dev_lock(tn__device *d)
{
    if (d->one_thread) pthread_mutex_lock(&d->call);
}
static inline void tn__dev_unlock(tn__device *d)
{
    if (d->one_thread) pthread_mutex_unlock(&d->call);
}
/* Records a plugin's error about `what` on a device; false. */
bool tn__dev_fail(const tn__device *d, const char *what, tnp_rc rc, const tn__plug_err *e);

int tn__devices_open(tn__device **out, int cap); /* those that are open */
void tn__registry_lock(void);
void tn__registry_unlock(void);
void tn__queues_close(tn__device *d);     /* all of a device */
void tn__queues_forget(void);             /* after tn_shutdown: threads' tables are void */
tn__queue *tn__queue_mine(tn__device *d); /* NULL: an error is recorded */
void tn__placements_forget(void);
void tn__diskcache_close(void);
void tn__diskcache_before_fork(void); /* leaves it locked */
void tn__diskcache_after_fork(void);
/* One submission to this thread's queue, between begin and end: sync and err go to the plugin's call.  No
 * begin that failed is ended; end records the plugin's error about `what`.  Between them the device is locked
 * where its calls must not overlap. */
typedef struct {
    tn__queue *q;
    const tnp_sync *sync; /* NULL where the queue is synchronous: nothing to signal */
    tnp_err *err;
    tn__plug_err text;
    tnp_sync signal;
    tnp_point point;
} tn__submission;
bool tn__submit_begin(tn__submission *s, tn__device *d); /* false: an error is recorded */
bool tn__submit_end(tn__submission *s, const char *what, tnp_rc rc);
bool tn__queue_wait(tn__queue *q); /* for all that was submitted */
/* disasm.c: machine code of a binary, to the log; never fails. */
void tn__disassemble(const tn__device *d, const char *name, const void *bin, size_t len);
#endif
