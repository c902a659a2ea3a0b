/* SPDX-License-Identifier: MIT */
/*
 * The CPU plugin's root: its name, its entry, what runs once a process.  Opening a device costs nothing:
 * threads start at the first job that is worth it, the compiler at the first kernel that no cache has.
 *
 * Objects survive a fork: only the forking thread exists in the child, so the pool forgets its threads
 * and starts new ones at need.
 */
#define _GNU_SOURCE
#include "llvm_api.h"
#include <pthread.h>
#include <stdio.h>
#include <string.h>

const tnp_host *cpu__host;
static atomic_uint open_devices;

static void in_child(void)
{
    cpu__pool_forked();
    cpu__lib_forked();
}

static void watch_forks(void) { (void)pthread_atfork(NULL, NULL, in_child); }

static tnp_rc init(const tnp_host *h, tnp_err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    cpu__host = h;
    pthread_once(&once, watch_forks);
    return cpu__pool_init(e);
}

static void fini(void)
{
    cpu__pool_stop();
    cpu__pool_fini();
    cpu__host = NULL;
}

static tnp_rc count(uint32_t *n, tnp_err *e)
{
    (void)e;
    *n = CPU_DEVICES;
    return TNP_OK;
}

static tnp_rc probe(uint32_t i, tnp_caps *out, tnp_err *e)
{
    if (i >= CPU_DEVICES)
        return cpu__fail(e, TNP_E_NODEV, 0, "CPU:%u: devices 0 to %d share the cores", i,
                         CPU_DEVICES - 1);
    cpu__caps(i, out);
    return TNP_OK;
}

static tnp_rc open_dev(uint32_t i, tnp_dev **out, const tnp_dev_ops **ops, tnp_err *e)
{
    if (i >= CPU_DEVICES)
        return cpu__fail(e, TNP_E_NODEV, 0, "CPU:%u: devices 0 to %d share the cores", i,
                         CPU_DEVICES - 1);
    tnp_dev *d = cpu__take(sizeof *d);
    if (!d) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU:%u: no host memory to open it", i);
    d->index = i;
    atomic_fetch_add(&open_devices, 1);
    *out = d;
    *ops = &cpu__dev_ops;
    return TNP_OK;
}

void cpu__dev_close(tnp_dev *d)
{
    if (!d) return;
    cpu__give(d);
    if (atomic_fetch_sub(&open_devices, 1) == 1) cpu__pool_stop();
}

static const char *const no_aliases[] = {NULL};
static const tnp_dialect *const dialects[] = {&cpu__gnu_c, NULL};

#ifdef __VERSION__
#define BUILD __VERSION__
#else
#define BUILD "unknown compiler"
#endif

static const tnp_plugin root = {.magic = TNP_MAGIC,
                                .size = sizeof root,
                                .minor = TNP_MINOR,
                                .min_host_minor = 0,
                                .flags = TNP_ROOT_SURVIVES_FORK,
                                .name = "CPU",
                                .aliases = no_aliases,
                                .version = "0.1.0",
                                .vendor = "tenon",
                                .build = BUILD,
                                .init = init,
                                .fini = fini,
                                .count = count,
                                .probe = probe,
                                .open = open_dev,
                                .forked = in_child,
                                .compile = cpu__compile,
#ifdef CPU_HAVE_LLVM
                                .render = &cpu__llvm_render,
#endif
                                .dialects = dialects};

const tnp_plugin *tenon_plugin_v0(uint32_t host_minor)
{
    (void)host_minor;
    return &root;
}
