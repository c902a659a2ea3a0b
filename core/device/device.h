/* SPDX-License-Identifier: MIT */
/*
 * Devices: plugins loaded and checked, devices opened by name, buffers from a cache of freed blocks,
 * programs compiled and cached, counters.  The only folder that calls a plugin's functions; it knows no
 * plugin by name.  Everything here is [any thread] unless said otherwise.  Reads no context variable but
 * DEV, PLUGIN_PATH, CACHE, CC and NUM_CPU_THREADS (at the first use of a device) and DEBUG (log lines).
 */
#ifndef TN_DEVICE_DEVICE_H
#define TN_DEVICE_DEVICE_H
#include "base/base.h"
#include "ir/dtype.h"
#include <stdatomic.h>
#include <tenon/plugin.h>

/* ---- devices ---- */
typedef struct tn__device tn__device; /* immortal until tn_shutdown */
/* By DEV's grammar ("CPU", "CUDA:1", "/path/x.so"), one item; NULL: the default.  Opens it at first use.
 * NULL with TN_EDEVICE and a text that says what was looked for where, and the nearest name. */
tn__device *tn__device_get(const char *spec);
/* The innermost TN_WITH_DEVICE of this thread, else DEV, else the best device there is. */
tn__device *tn__device_default(void);
const char *tn__device_name(const tn__device *d);    /* canonical: "CPU:0" */
const char *tn__device_backend(const tn__device *d); /* "CPU" */
const tnp_caps *tn__device_caps(const tn__device *d);
const tnp_plugin *tn__device_plugin(const tn__device *d);
/* Dialect table and renderer to use (by the RENDERER part of DEV, else the plugin's first). */
const tnp_dialect *
tn__device_dialect(const tn__device *d); /* NULL: none, takes linear code or own renderer */
/* Whether a renderer is at work, the host's or its own, and so vectors and a compiler. */
bool tn__device_compiles(const tn__device *d);
tn__hash tn__device_key(
    const tn__device *d); /* of capabilities, plugin version, arch: part of every cache key */
int tn__device_id(const tn__device *d); /* small, stable in the process */
bool tn__device_sync(tn__device *d);    /* waits for all work; reports its asynchronous errors */

/* fn runs at the start of tn_shutdown, while devices still work: for caches that hold their memory. */
void tn__on_shutdown(void (*fn)(void));

/* ---- buffers: counted device memory ---- */
typedef struct tn__buffer tn__buffer;
tn__buffer *tn__buffer_new(tn__device *d,
                           size_t bytes); /* own; contents undefined; bytes == 0 is fine; TN_EOOM */
/* Borrows host memory where the device can, else copies; release(user) runs when it is no longer used. */
tn__buffer *tn__buffer_wrap(tn__device *d, void *p, size_t bytes, void (*release)(void *),
                            void *user);
void tn__buffer_ref(tn__buffer *b);
void tn__buffer_unref(tn__buffer *b); /* NULL is fine; the block goes to the device's cache */
tn__device *tn__buffer_device(const tn__buffer *b);
size_t tn__buffer_bytes(const tn__buffer *b);
bool tn__buffer_borrowed(const tn__buffer *b); /* made by tn__buffer_wrap without a copy */
tnp_ref tn__buffer_ref_of(const tn__buffer *b, size_t off, size_t len); /* for launches */
/* Host copies: ordered after work submitted by this thread; return when done. */
bool tn__buffer_write(tn__buffer *dst, size_t off, const void *src, size_t n);
bool tn__buffer_read(void *dst, tn__buffer *src, size_t off, size_t n);
bool tn__ref_read(tn__device *d, void *dst, const tnp_ref *src); /* all of it; for looking inside */
void *tn__buffer_map(
    tn__buffer
        *b); /* host address where memory is unified, else NULL without an error; sync first */
bool tn__buffer_copy(tn__buffer *dst, size_t doff, tn__buffer *src, size_t soff,
                     size_t n);                       /* any two devices */
size_t tn__device_bytes(const tn__device *d);         /* in live buffers */
size_t tn__device_cached(const tn__device *d);        /* in freed blocks kept for reuse */
void tn__device_trim(tn__device *d);                  /* gives the freed blocks back */
void tn__devices_bytes(size_t *live, size_t *cached); /* the two of all open devices */

/* ---- programs ---- */
typedef struct tn__program tn__program; /* loaded kernel, counted */
typedef struct {
    const char *name; /* entry */
    const tnp_arg *args;
    uint32_t nargs, nimms, local[3];
    uint64_t scratch_bytes;
} tn__kernel_sig;
/* Compiles `n` kernels from one source text (or blob) and loads them; binaries come from the disk cache
 * where they are.  out[i]: own.  TN_ECOMPILE with the compiler's log. */
bool tn__program_build(tn__device *d, const void *src, size_t len, const tn__kernel_sig *sigs,
                       size_t n, tn__program **out);
void tn__program_ref(tn__program *p);
void tn__program_unref(tn__program *p);
tnp_prog *tn__program_handle(const tn__program *p);

/* ---- work: a thread owns its queue on a device ---- */
typedef struct {
    uint32_t grid[3], local[3];
    const tnp_ref *bufs;
    const uint64_t *imms;
    uint32_t nbufs, nimms;
    uint64_t work, bytes; /* scalar operations; bytes read and written, for the counters */
    uint64_t *out_ns;     /* NULL, or filled before return (the call then waits) */
} tn__launch;
bool tn__launch_run(tn__device *d, tn__program *p, const tn__launch *l);
/* Graph extension, or NULL where the device has none.  nodes' refs may name slots. */
typedef struct tn__replay tn__replay;
tn__replay *tn__replay_new(tn__device *d, const tnp_node *const *nodes, uint32_t n, uint32_t nslots,
                           uint32_t nscalars);
void tn__replay_moves(tn__replay *r, uint64_t bytes); /* a run does, for the counters */
bool tn__replay_run(tn__replay *r, const tnp_ref *slots, const uint64_t *scalars);
void tn__replay_free(tn__replay *r);

/* ---- placements: interned, immortal ---- */
typedef struct tn__placement {
    int n;    /* devices, >= 1 */
    int axis; /* sharded axis, -1: every device has all of it */
    tn__device *dev[16];
} tn__placement;
const tn__placement *tn__placement_get(tn__device *const *dev, int n,
                                       int axis); /* NULL on no memory */
const tn__placement *tn__placement_one(tn__device *d);

/* ---- values: one buffer a device of a placement ---- */
typedef struct tn__value {
    atomic_uint refs;
    const tn__placement *place;
    size_t offset;     /* bytes into each buffer */
    tn__buffer *buf[]; /* place->n, own */
} tn__value;
tn__value *tn__value_new(const tn__placement *p, size_t bytes); /* bytes a device; own */
tn__value *tn__value_of(tn__buffer *b);                         /* takes b, one device */
void tn__value_ref(tn__value *v);
void tn__value_unref(tn__value *v);

/* ---- disk cache (SQLite where built in); both are no-ops without it and never fail the caller ---- */
bool tn__cache_get(const char *table, tn__hash key, void **data,
                   size_t *len); /* own, by tn__free */
void tn__cache_put(const char *table, tn__hash key, const void *data, size_t len);

/* ---- counters: process-wide ---- */
typedef struct {
    atomic_uint_least64_t kernels, compiles, schedules, ops, bytes, ns, replays;
} tn__counters;
extern tn__counters tn__count;
#endif
