/* SPDX-License-Identifier: MIT */
/* Loading the plugin, opening a device, moving bytes: what the checks begin with. */
#define _GNU_SOURCE
#include "check.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *so;
const tnp_plugin *root;
tnp_dev *dev;
const tnp_dev_ops *ops;
tnp_caps caps;
tnp_queue *queue;
tnp_sem *sem;
uint64_t sem_value;
uint32_t dev_count;

tnp_entry_fn *need_entry(void)
{
    tnp_entry_fn *fn;
    so = dlopen(plugin_path, RTLD_NOW | RTLD_LOCAL);
    NEED(so, "cannot be loaded: %s", dlerror());
    void *p = dlsym(so, TNP_ENTRY);
    NEED(p, "has no " TNP_ENTRY);
    memcpy(&fn, &p, sizeof fn);
    return fn;
}

void need_root(void)
{
    if (root) return;
    root = need_entry()(TNP_MINOR);
    NEED(root, TNP_ENTRY " answers NULL");
    NEED(root->magic == TNP_MAGIC, "the root's magic is %#x, not %#x", root->magic, TNP_MAGIC);
    NEED(root->size >= TNP_END(tnp_plugin, forked), "the root has %u bytes: %zu are mandatory",
         root->size, TNP_END(tnp_plugin, forked));
    NEED(root->init && root->fini && root->count && root->probe && root->open && root->forked,
         "a mandatory function of the root is NULL");
}

void need_init(void)
{
    need_root();
    host_init();
    worked(root->init(&host, fresh()), "init");
    const tnp_rc rc = root->count(&dev_count, fresh());
    if (rc == TNP_E_DRIVER) skip("no driver here: %s", err_text);
    worked(rc, "count");
    if (!dev_count) skip("no device here%s%s", err_text[0] ? ": " : "", err_text);
}

tnp_caps caps_of(uint32_t i)
{
    tnp_caps c;
    memset(&c, 0, sizeof c);
    c.size = sizeof c;
    worked(root->probe(i, &c, fresh()), "probe");
    return c;
}

void need_dev(void)
{
    if (dev) return;
    need_init();
    worked(root->open(0, &dev, &ops, fresh()), "open");
    NEED(dev && ops, "open answers OK and leaves its results NULL");
    NEED(ops->size >= TNP_END(tnp_dev_ops, flush),
         "the device's table has %u bytes: %zu are needed", ops->size, TNP_END(tnp_dev_ops, flush));
    void *const *slot = (void *const *)(const void *)((const char *)ops + 8);
    for (size_t i = 0; i < (TNP_END(tnp_dev_ops, flush) - 8) / sizeof *slot; i++)
        NEED(slot[i], "function %zu of the device's table is NULL: it is mandatory", i);
    memset(&caps, 0, sizeof caps);
    caps.size = sizeof caps;
    worked(ops->caps(dev, &caps, fresh()), "caps");
    worked(ops->queue_new(dev, 0, &queue, fresh()), "queue_new");
    sem_value = 0;
    worked(ops->sem_new(dev, 0, &sem, fresh()), "sem_new");
}

void need_exec(void)
{
    need_dev();
    if (caps.flags & TNP_F_NOEXEC) skip("runs nothing (TNP_F_NOEXEC)");
}

void close_dev(void)
{
    ops->sem_free(dev, sem);
    ops->queue_free(dev, queue);
    ops->close(dev);
    dev = NULL;
}

/* ---- submissions ---- */

const tnp_sync *signal_next(void)
{
    static tnp_point p;
    static tnp_sync s;
    p = (tnp_point){sem, ++sem_value};
    s = (tnp_sync){.nsignal = 1, .signal = &p};
    return &s;
}

void settle(void)
{
    worked(ops->flush(dev, queue, fresh()), "flush");
    worked(ops->sem_wait(dev, sem, sem_value, UINT64_C(20000000000), fresh()), "sem_wait");
}

tnp_buf *buf_new(size_t n, uint32_t flags)
{
    tnp_buf *b = NULL;
    const tnp_alloc a = {.size = sizeof a, .flags = flags, .bytes = n};
    worked(ops->buf_alloc(dev, &a, &b, fresh()), "buf_alloc");
    NEED(b, "buf_alloc answers OK and gives no buffer");
    return b;
}

void put(tnp_buf *b, size_t off, const void *p, size_t n)
{
    worked(ops->copy_in(dev, queue, (tnp_ref){b, off, n}, p, signal_next(), fresh()), "copy_in");
    settle();
}

void get(tnp_buf *b, size_t off, void *p, size_t n)
{
    worked(ops->copy_out(dev, queue, p, (tnp_ref){b, off, n}, signal_next(), fresh()), "copy_out");
    settle();
}

/* ---- dtypes ---- */

size_t dtype_size(int dtype)
{
    static const unsigned char n[TNP_DTYPE_COUNT] = {0, 1, 1, 1, 2, 2, 4, 4, 8, 8, 2, 2, 4, 8};
    return dtype > 0 && dtype < TNP_DTYPE_COUNT ? n[dtype] : 0;
}

const char *dtype_text(int dtype)
{
    static const char *const t[TNP_DTYPE_COUNT] = {"?",   "bool", "i8",  "u8",  "i16",
                                                   "u16", "i32",  "u32", "i64", "u64",
                                                   "f16", "bf16", "f32", "f64"};
    return dtype > 0 && dtype < TNP_DTYPE_COUNT ? t[dtype] : "?";
}
