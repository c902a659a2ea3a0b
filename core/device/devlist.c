/* SPDX-License-Identifier: MIT */
/*
 * What there is: the listing functions behind `tenon devices`.  Everything is told through a callback,
 * outside the registry's lock, so that it may call the library; texts are borrowed for the call.
 */
#include "device/module.h"
#include <stdio.h>
#include <string.h>

typedef struct {
    tn_device_fn *fn;
    void *user;
} listener;

#define KIND(k) [k] = &#k[sizeof "TNP_KIND_" - 1]

static const char *kind_name(uint32_t kind)
{
    static const char *const names[] = {KIND(TNP_KIND_CPU), KIND(TNP_KIND_GPU), KIND(TNP_KIND_IGPU),
                                        KIND(TNP_KIND_ACCEL), KIND(TNP_KIND_SOFT)};
    return kind < TN_LEN(names) ? names[kind] : "?";
}

static void tell_refusal(void *arg, const char *file, const char *reason)
{
    const listener *l = arg;
    const char *base = strrchr(file, '/');
    const tn_device_info info = {.size = sizeof info,
                                 .name = "",
                                 .backend = base ? base + 1 : file,
                                 .chip = "",
                                 .arch = "",
                                 .driver = "",
                                 .kind = "",
                                 .path = file,
                                 .version = "",
                                 .reason = reason};
    l->fn(l->user, &info);
}

static void tell_device(const listener *l, tn__plugin *p, uint32_t i, const tn__device *def)
{
    tn__plug_err e;
    char name[64];
    tnp_caps c = {.size = sizeof c};
    tnp_rc rc = p->root->probe(i, &c, tn__plug_err_init(&e));
    c.name[sizeof c.name - 1] = c.arch[sizeof c.arch - 1] = c.driver[sizeof c.driver - 1] = 0;
    snprintf(name, sizeof name, "%s:%u", p->root->name, i);
    const tn_device_info info = {.size = sizeof info,
                                 .name = rc < 0 ? "" : name,
                                 .backend = p->root->name,
                                 .chip = c.name,
                                 .arch = c.arch,
                                 .driver = c.driver,
                                 .kind = rc < 0 ? "" : kind_name(c.kind),
                                 .path = p->path,
                                 .version = p->root->version,
                                 .reason = rc < 0 ? tn__plug_text(&e, rc) : "",
                                 .memory = c.mem_total,
                                 .memory_free = c.mem_free,
                                 .cores = c.cores,
                                 .simd_bytes = c.simd_bytes,
                                 .is_default = def && def->plugin == p && def->ordinal == i};
    l->fn(l->user, &info);
}

/* Refusals are kept until the lock is off. */
typedef struct {
    tn__buf text; /* file\0reason\0 ... */
} refusals;

static void keep_refusal(void *arg, const char *file, const char *reason)
{
    refusals *r = arg;
    tn__buf_put(&r->text, file, strlen(file) + 1);
    tn__buf_put(&r->text, reason, strlen(reason) + 1);
}

static void tell_refusals(listener *l, refusals *r)
{
    for (size_t at = 0; at < r->text.len;) {
        const char *file = r->text.data + at, *reason = file + strlen(file) + 1;
        tell_refusal(l, file, reason);
        at += strlen(file) + strlen(reason) + 2;
    }
    tn__buf_free(&r->text);
}

void tn_devices_each(tn_device_fn *fn, void *user)
{
    listener l = {fn, user};
    refusals r = {{0}};
    tn__error old;
    tn__error_take(&old); /* looking is no failure of the caller */
    const tn__device *def = tn__device_default();
    tn_clear_error();
    if (old.code) tn__error_put(&old);
    tn__registry_lock();
    tn__plugin_load_all(keep_refusal, &r);
    tn__plugin *first = tn__plugin_first();
    tn__registry_unlock();
    for (tn__plugin *p = first; p; p = p->next)
        for (uint32_t i = 0; p->usable && i < p->count; i++) tell_device(&l, p, i, def);
    tell_refusals(&l, &r);
}

bool tn_devices_probe(const char *plugin, tn_device_fn *fn, void *user)
{
    listener l = {fn, user};
    tn__why why;
    tn__spec s;
    if (!plugin)
        return tn__fail(TN_ENULL, "tn_devices_probe: plugin is NULL: give a name or a path");
    tn__plugin *p = NULL;
    tn__registry_lock();
    if (tn__spec_parse(plugin, strlen(plugin), &s, &why))
        p = s.path[0] ? tn__plugin_open_file(s.path, &why) : tn__plugin_find(s.name, &why);
    tn__registry_unlock();
    if (!p) return tn__fail(TN_EDEVICE, "DEV=%s: %s", plugin, why.text);
    for (uint32_t i = 0; i < p->count; i++) tell_device(&l, p, i, NULL);
    return true;
}

static void tell_file(void *arg, const char *name, const char *path)
{
    const listener *l = arg;
    const tn_device_info info = {.size = sizeof info,
                                 .name = "",
                                 .backend = name,
                                 .chip = "",
                                 .arch = "",
                                 .driver = "",
                                 .kind = "",
                                 .path = path ? path : "built in",
                                 .version = "",
                                 .reason = ""};
    l->fn(l->user, &info);
}

void tn_plugins_each(tn_device_fn *fn, void *user)
{
    listener l = {fn, user};
    tn__plugin_files(tell_file, &l);
}

const char *tn_device_current(void)
{
    tn__enter("tn_device_current");
    tn__device *d = tn__device_default();
    tn__leave();
    return d ? d->name : NULL;
}

void tn_trim(void)
{
    tn__device *open[TN_MAX_DEVICES];
    int n = tn__devices_open(open, TN_MAX_DEVICES);
    for (int i = 0; i < n; i++) tn__device_trim(open[i]);
}
