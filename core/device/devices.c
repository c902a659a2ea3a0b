/* SPDX-License-Identifier: MIT */
/*
 * The registry of open devices: by name, the default, their capabilities and keys.
 *
 * A device is its plugin, ordinal, renderer and arch; it is opened at first use and lives until tn_shutdown.
 * One lock over the registry; an open device is read without it.
 */
#define _GNU_SOURCE
#include "device/module.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

tn__counters tn__count;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tn__device *devices[TN_MAX_DEVICES];
static int ndevices;
static tn__device *chosen;    /* the default, for the text below */
static char chosen_for[1200]; /* DEV when it was made */
static _Thread_local tn__device *scoped;

void tn__registry_lock(void) { pthread_mutex_lock(&lock); }
void tn__registry_unlock(void) { pthread_mutex_unlock(&lock); }

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < ndevices; i++) {
        pthread_mutex_lock(&devices[i]->call);
        pthread_mutex_lock(&devices[i]->memory);
        pthread_mutex_lock(&devices[i]->queue_lock);
    }
    tn__diskcache_before_fork();
}

static void unlock_all(void)
{
    for (int i = ndevices; i-- > 0;) {
        pthread_mutex_unlock(&devices[i]->queue_lock);
        pthread_mutex_unlock(&devices[i]->memory);
        pthread_mutex_unlock(&devices[i]->call);
    }
    pthread_mutex_unlock(&lock);
}

static void after_fork_parent(void)
{
    tn__diskcache_after_fork();
    unlock_all();
}

static void after_fork_child(void)
{
    tn__diskcache_after_fork();
    for (tn__plugin *p = tn__plugin_first(); p; p = p->next) p->root->forked();
    unlock_all();
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork_parent, after_fork_child); }

/* ---- opening ---- */

static bool check_ops(const tnp_dev_ops *o, tn__why *why)
{
    if (!o || o->size < TNP_END(tnp_dev_ops, flush))
        return tn__why_set(why,
                           "its table of device functions has %u bytes: at least %zu are mandatory",
                           o ? o->size : 0, TNP_END(tnp_dev_ops, flush));
    if (!o->close || !o->caps || !o->buf_alloc || !o->buf_free || !o->prog_load || !o->prog_free ||
        !o->queue_new || !o->queue_free || !o->sem_new || !o->sem_free || !o->sem_signal ||
        !o->sem_wait || !o->launch || !o->copy_in || !o->copy_out || !o->copy || !o->fill ||
        !o->flush)
        return tn__why_set(why, "its table of device functions has an empty mandatory entry");
    return true;
}

/* By what DEV calls it, or its dialect's name. */
static bool is_called(const char *want, const char *renderer, const char *dialect)
{
    return !strcasecmp(want, renderer ? renderer : dialect) || !strcasecmp(want, dialect);
}

static const char *table_name(const tnp_dialect *t)
{
    const char *name = TNP_HAS(t, tnp_dialect, renderer) ? t->renderer : NULL;
    return name ? name : t->name;
}

static const char *own_name(const tnp_render_ops *o)
{
    const char *name = TNP_HAS(o, tnp_render_ops, renderer) ? o->renderer : NULL;
    return name ? name : o->dialect;
}

/* What DEV calls the device's renderer. */
static const char *renderer_name(const tn__device *d)
{
    return d->dialect ? table_name(d->dialect) : d->render ? own_name(d->render) : d->source;
}

/* Dialect table or own renderer called `want`, or the first of any name for ""; false: none. */
static bool choose(tn__device *d, const char *want)
{
    const tnp_plugin *r = d->plugin->root;
    const tnp_dialect *const *list = TNP_FN(r, tnp_plugin, dialects) ? r->dialects : NULL;
    const tnp_render_ops *own = TNP_FN(r, tnp_plugin, render) ? r->render : NULL;
    d->dialect = NULL;
    d->render = NULL;
    for (; list && *list && !d->dialect; list++)
        if (!want[0] || is_called(want, table_name(*list), (*list)->name)) d->dialect = *list;
    if (own && !d->dialect && (!want[0] || is_called(want, own_name(own), own->dialect)))
        d->render = own;
    return d->dialect || d->render;
}

/* For "": that of the source which the device names first, else the plugin's first, a table before a renderer. */
static bool pick_renderer(tn__device *d, const char *want, tn__why *why)
{
    const tnp_plugin *r = d->plugin->root;
    const tnp_dialect *const *list = TNP_FN(r, tnp_plugin, dialects) ? r->dialects : NULL;
    const tnp_render_ops *own = TNP_FN(r, tnp_plugin, render) ? r->render : NULL;
    const char *best = d->caps.dialects && d->caps.dialects[0] ? d->caps.dialects[0] : "";
    const char *names[17];
    size_t n = 0;
    const bool any = choose(d, best) || choose(d, "");
    const tnp_dialect *table = d->dialect; /* the default */
    if (!any && !want[0]) d->source = best[0] ? best : "linear";
    if (any && (!want[0] || choose(d, want))) {
        d->source = d->dialect ? d->dialect->name : d->render->dialect;
        if (d->dialect != table) snprintf(d->renderer, sizeof d->renderer, "%s", want);
    }
    if (d->source) return true;
    for (; list && *list && n < 15; list++) names[n++] = table_name(*list);
    if (own) names[n++] = own_name(own);
    const char *near = tn__nearest(want, names, n);
    tn__why_set(why, "%s has no renderer %s:", r->name, want);
    for (size_t i = 0; i < n; i++) tn__why_add(why, "%s %s", i ? "," : " it has", names[i]);
    if (!n) tn__why_add(why, " it has none to choose");
    if (near) tn__why_add(why, ". Did you mean %s?", near);
    return false;
}

/* What compiled code and plans may depend on; not which of equal devices it is, nor how full it is. */
static void make_key(tn__device *d)
{
    const tnp_caps *c = &d->caps;
    char buf[1024];
    int n = snprintf(
        buf, sizeof buf,
        "%s %s %u %llx %s %s %s %s %u %u %u %u %u %u %u %llx %llx %llu %llu %llu %llu:",
        d->plugin->root->name, d->plugin->root->version, c->kind, (unsigned long long)c->flags,
        c->arch, c->driver, d->source, d->arch, c->buf_align, c->max_args, c->simd_bytes,
        c->simd_regs, c->cores, c->shared_bytes, c->subgroup, (unsigned long long)c->dtypes_mem,
        (unsigned long long)c->dtypes_alu, (unsigned long long)c->max_local_total,
        (unsigned long long)c->cache_bytes[0], (unsigned long long)c->cache_bytes[1],
        (unsigned long long)c->cache_bytes[2]);
    size_t len = n < 0 ? 0 : (size_t)n < sizeof buf ? (size_t)n : sizeof buf - 1;
    for (const char *const *o = c->ops; o && *o; o++) {
        n = snprintf(buf + len, sizeof buf - len, " %s", *o);
        if (n > 0 && len + (size_t)n < sizeof buf) len += (size_t)n;
    }
    d->key = tn__hash_bytes(buf, len);
}

/* "CPU:0", and what differs from the plugin's defaults. */
static void name_device(tn__device *d)
{
    const char *r = d->renderer;
    if (d->arch[0] && !r[0]) r = renderer_name(d);
    snprintf(d->name, sizeof d->name, "%s:%u%s%s%s%s", d->plugin->root->name, d->ordinal,
             r[0] ? ":" : "", r, d->arch[0] ? ":" : "", d->arch);
}

static bool is_open(const tn__plugin *p)
{
    for (int i = 0; i < ndevices; i++)
        if (devices[i]->plugin == p) return true;
    return false;
}

/* Opens through the plugin and fills in what it tells of itself. */
static bool fill_device(tn__device *d, const tn__spec *s, tn__why *why)
{
    tn__plug_err e;
    tn__plugin *p = d->plugin;
    if (!is_open(p)) tn__plug_host_threads(p); /* its threads may read it from then on */
    snprintf(p->renderer, sizeof p->renderer, "%s", s->renderer);
    snprintf(p->arch, sizeof p->arch, "%s", s->arch);
    tn__watch w;
    tn__watch_start(&w, p->path, "open");
    tnp_rc rc = p->root->open(d->ordinal, &d->h, &d->ops, tn__plug_err_init(&e));
    tn__watch_stop(&w);
    if (rc < 0)
        return tn__why_set(why, "%s (%s): %s", p->path, p->root->version, tn__plug_text(&e, rc));
    if (!check_ops(d->ops, why)) return false;
    d->caps.size = sizeof d->caps;
    rc = d->ops->caps(d->h, &d->caps, tn__plug_err_init(&e));
    if (rc < 0)
        return tn__why_set(why, "%s (%s): its capabilities: %s", p->path, p->root->version,
                           tn__plug_text(&e, rc));
    snprintf(d->arch, sizeof d->arch, "%s", s->arch);
    if (!pick_renderer(d, s->renderer, why)) return false;
    if (TNP_FN(d->ops, tnp_dev_ops, ext)) d->graph = d->ops->ext(d->h, "tenon.graph/1");
    if (!TNP_FN(d->graph, tnp_graph_ops, free)) d->graph = NULL;
    d->async = (d->caps.flags & TNP_F_ASYNC) != 0;
    d->one_thread = !(d->caps.flags & TNP_F_THREADS);
    d->mapped = (d->caps.flags & TNP_F_UNIFIED) && (d->caps.flags & TNP_F_MAP) &&
                TNP_FN(d->ops, tnp_dev_ops, buf_map);
    make_key(d);
    name_device(d);
    return true;
}

static tn__device *open_device(tn__plugin *p, const tn__spec *s, tn__why *why)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (ndevices == TN_MAX_DEVICES) {
        tn__why_set(why, "%d devices are open already: no more can be", TN_MAX_DEVICES);
        return NULL;
    }
    tn__device *d = tn__calloc(1, sizeof *d);
    if (!d) {
        tn__why_set(why, "no host memory");
        return NULL;
    }
    d->plugin = p;
    d->ordinal = s->ordinal;
    if (!fill_device(d, s, why)) {
        if (d->h && d->ops && TNP_FN(d->ops, tnp_dev_ops, close)) d->ops->close(d->h);
        tn__free(d);
        return NULL;
    }
    pthread_mutex_init(&d->call, NULL);
    pthread_mutex_init(&d->memory, NULL);
    pthread_mutex_init(&d->queue_lock, NULL);
    pthread_once(&once, watch_forks);
    d->id = ndevices;
    devices[ndevices++] = d;
    if (tn_context_get(TN_DEBUG) >= 1)
        tn__log(TN_LOG_INFO, "%s \"%s\" %s is open (%s %s)", d->name, d->caps.name, d->caps.arch,
                p->path, p->root->version);
    return d;
}

/* An open one, else opens it. */
static tn__device *get_device(tn__plugin *p, const tn__spec *s, tn__why *why)
{
    if (s->ordinal >= p->count) {
        tn__why_set(why, "%s has %u device%s: ordinals 0 to %u", p->root->name, p->count,
                    p->count == 1 ? "" : "s", p->count - 1);
        return NULL;
    }
    for (int i = 0; i < ndevices; i++) {
        tn__device *d = devices[i];
        if (d->plugin != p || d->ordinal != s->ordinal || strcmp(d->arch, s->arch)) continue;
        if (!strcasecmp(d->renderer, s->renderer)) return d;
        if (!d->renderer[0] && d->source && s->renderer[0] &&
            is_called(s->renderer, renderer_name(d), d->source))
            return d;
    }
    return open_device(p, s, why);
}

static tn__device *get_item(const char *text, size_t n, tn__why *why)
{
    tn__spec s;
    if (!tn__spec_parse(text, n, &s, why)) return NULL;
    tn__plugin *p = s.path[0] ? tn__plugin_open_file(s.path, why) : tn__plugin_find(s.name, why);
    return p ? get_device(p, &s, why) : NULL;
}

/* ---- the default ---- */

typedef struct {
    tn__plugin *p;
    uint32_t ordinal;
    int class;
    int32_t rank;
} candidate;

static int device_class(uint32_t kind)
{
    switch (kind) {
    case TNP_KIND_GPU:
    case TNP_KIND_ACCEL: return 0;
    case TNP_KIND_IGPU: return 1;
    case TNP_KIND_CPU: return 2;
    default: return -1;
    }
}

/* Plugins come in order of name, so a later one must be strictly better. */
static bool better(const candidate *a, const candidate *b)
{
    if (a->class != b->class) return a->class < b->class;
    return a->rank > b->rank;
}

/* The best that is strictly worse than `after` (NULL: of all); false when there is none. */
static bool best_plugin_device(candidate *best, const bool *tried)
{
    bool found = false;
    int k = 0;
    for (tn__plugin *p = tn__plugin_first(); p; p = p->next) {
        for (uint32_t i = 0; p->usable && i < p->count && i < 16; i++, k++) {
            tn__plug_err e;
            tnp_caps c = {.size = sizeof c};
            if (k >= 1024 || tried[k] || p->root->probe(i, &c, tn__plug_err_init(&e)) < 0) continue;
            candidate x = {p, i, device_class(c.kind), c.rank};
            if (x.class < 0 || (found && !better(&x, best))) continue;
            *best = x;
            found = true;
        }
    }
    return found;
}

static void note_refusal(void *arg, const char *file, const char *reason)
{
    tn__why *all = arg;
    (void)file;
    if (tn_context_get(TN_DEBUG) >= 1) tn__log(TN_LOG_INFO, "skipped: %s", reason);
    tn__why_add(all, "%s%s", all->text[0] ? "; " : "", reason);
}

static int index_of(const candidate *c)
{
    int k = 0;
    for (tn__plugin *p = tn__plugin_first(); p; p = p->next)
        for (uint32_t i = 0; p->usable && i < p->count && i < 16; i++, k++)
            if (p == c->p && i == c->ordinal) return k;
    return 0;
}

static tn__device *choose_best(tn__why *why)
{
    bool tried[1024] = {false};
    tn__why refused = {{0}};
    candidate c = {0};
    tn__plugin_load_all(note_refusal, &refused);
    while (best_plugin_device(&c, tried)) {
        tn__spec s = {.ordinal = c.ordinal};
        tn__device *d = get_device(c.p, &s, why);
        if (d) {
            if (tn_context_get(TN_DEBUG) >= 1)
                tn__log(TN_LOG_INFO, "using %s \"%s\"", d->name, d->caps.name);
            return d;
        }
        note_refusal(&refused, c.p->path, why->text);
        tried[index_of(&c)] = true;
    }
    if (refused.text[0])
        tn__why_set(why, "no device can be used: %.1500s", refused.text);
    else {
        tn__why looked = {{0}};
        char none[8];
        tn__search_file("*", none, sizeof none, &looked);
        tn__why_set(why, "no device was found: looked for tenon_*.so in %.1400s", looked.text);
    }
    return NULL;
}

/* DEV's items in order; a single one never falls back. */
static tn__device *choose_listed(const char *dev, tn__why *why)
{
    tn__why all = {{0}};
    for (const char *p = dev;;) {
        size_t n = strcspn(p, ";");
        tn__device *d = get_item(p, n, why);
        if (d) return d;
        if (tn_context_get(TN_DEBUG) >= 1)
            tn__log(TN_LOG_INFO, "DEV=%.*s: %s", (int)n, p, why->text);
        tn__why_add(&all, "%sDEV=%.*s: %s", all.text[0] ? "; " : "", (int)n, p, why->text);
        p += n;
        if (!*p++) break;
    }
    *why = all;
    return NULL;
}

static tn__device *default_locked(void)
{
    const char *dev = tn_context_text(TN_DEV);
    tn__why why;
    if (chosen && !strcmp(dev, chosen_for)) return chosen;
    tn__device *d = dev[0] ? choose_listed(dev, &why) : choose_best(&why);
    if (!d) {
        tn__fail(TN_EDEVICE, "%s", why.text);
        return NULL;
    }
    chosen = d;
    snprintf(chosen_for, sizeof chosen_for, "%s", dev);
    return d;
}

/* ---- what the rest of the library calls ---- */

tn__device *tn__device_default(void)
{
    if (scoped) return scoped;
    tn__registry_lock();
    tn__device *d = default_locked();
    tn__registry_unlock();
    return d;
}

tn__device *tn__device_get(const char *spec)
{
    if (!spec || !spec[0]) return tn__device_default();
    tn__why why;
    tn__registry_lock();
    tn__device *d = get_item(spec, strlen(spec), &why);
    tn__registry_unlock();
    if (!d) tn__fail(TN_EDEVICE, "DEV=%s: %s", spec, why.text);
    return d;
}

const char *tn__device_name(const tn__device *d) { return d->name; }
const char *tn__device_backend(const tn__device *d) { return d->plugin->root->name; }
const tnp_caps *tn__device_caps(const tn__device *d) { return &d->caps; }
const tnp_plugin *tn__device_plugin(const tn__device *d) { return d->plugin->root; }
const tnp_dialect *tn__device_dialect(const tn__device *d) { return d->dialect; }
bool tn__device_compiles(const tn__device *d) { return d->dialect || d->render; }
tn__hash tn__device_key(const tn__device *d) { return d->key; }
int tn__device_id(const tn__device *d) { return d->id; }

bool tn__dev_fail(const tn__device *d, const char *what, tnp_rc rc, const tn__plug_err *e)
{
    return tn__fail(tn__plug_code(rc), "%s: %s: %s", d->name, what, tn__plug_text(e, rc));
}

/* ---- scopes ---- */

void tn_with_device_open(tn_with_device *w, const char *device)
{
    *w = (tn_with_device){0};
    tn__enter("tn_with_device");
    tn__device *d = tn__device_get(device);
    tn__leave();
    if (!d) return;
    w->old = scoped;
    w->live = true;
    scoped = d;
}

void tn_with_device_end(tn_with_device *w)
{
    if (!w->live) return;
    scoped = w->old;
    w->live = false;
}

/* ---- the end ---- */

enum { SHUTDOWN_HOOKS = 8 };
static void (*shutdown_hook[SHUTDOWN_HOOKS])(void);

void tn__on_shutdown(void (*fn)(void))
{
    tn__registry_lock();
    int i = 0;
    while (i + 1 < SHUTDOWN_HOOKS && shutdown_hook[i] && shutdown_hook[i] != fn) i++;
    shutdown_hook[i] = fn;
    tn__registry_unlock();
}

void tn_shutdown(void)
{
    for (int i = 0; i < SHUTDOWN_HOOKS && shutdown_hook[i]; i++) shutdown_hook[i]();
    for (int i = 0; i < ndevices; i++) {
        tn__device_sync(devices[i]);
        tn__device_trim(devices[i]);
    }
    tn__registry_lock();
    for (int i = 0; i < ndevices; i++) {
        tn__device *d = devices[i];
        tn__queues_close(d);
        d->ops->close(d->h);
        pthread_mutex_destroy(&d->call);
        pthread_mutex_destroy(&d->memory);
        pthread_mutex_destroy(&d->queue_lock);
        tn__free(d);
    }
    ndevices = 0;
    chosen = scoped = NULL;
    tn__queues_forget();
    tn__placements_forget();
    tn__plugin_fini_all();
    tn__registry_unlock();
    tn__diskcache_close();
}

int tn__devices_open(tn__device **out, int cap)
{
    tn__registry_lock();
    int n = ndevices < cap ? ndevices : cap;
    for (int i = 0; i < n; i++) out[i] = devices[i];
    tn__registry_unlock();
    return n;
}
