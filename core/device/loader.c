/* SPDX-License-Identifier: MIT */
/*
 * Finds, checks and loads plugins.
 *
 * Order: a path; those linked in; the folders of search.c.  First hit by name wins, the others are told of
 * in the log.  Every check has its own sentence, because the user sees nothing else of a refused plugin.
 *
 * Nothing that was loaded is unloaded: a driver's threads would lose their code.  Called with the registry
 * locked; the list of loaded plugins is in order of name.
 */
#define _GNU_SOURCE
#include "device/module.h"
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#endif

extern tnp_entry_fn *const tn__static_plugins[]; /* NULL-ended; made by the build */

static tn__plugin *loaded;

/* ---- checks ---- */

static bool answers_to(const tnp_plugin *root, const char *name)
{
    if (!strcmp(root->name, name)) return true;
    for (const char *const *a = root->aliases; a && *a; a++)
        if (!strcmp(*a, name)) return true;
    return false;
}

static bool check_root(const tnp_plugin *r, const char *path, tn__why *why)
{
    char name[64];
    if (!r) return tn__why_set(why, TNP_ENTRY " answers NULL");
    if (r->magic != TNP_MAGIC)
        return tn__why_set(
            why,
            "has magic %#x where %#x is expected: not made for this ABI, or another byte order",
            r->magic, TNP_MAGIC);
    if (r->size < TNP_END(tnp_plugin, forked))
        return tn__why_set(why, "has a root of %u bytes: at least %zu are mandatory", r->size,
                           TNP_END(tnp_plugin, forked));
    if (r->min_host_minor > TNP_MINOR)
        return tn__why_set(why, "needs plugin ABI %u.%u, this program has %u.%u: update tenon",
                           TNP_MAJOR, r->min_host_minor, TNP_MAJOR, TNP_MINOR);
    const struct {
        bool there;
        const char *what;
    } must[] = {{r->name != NULL, "name"},   {r->version != NULL, "version"},
                {r->init != NULL, "init"},   {r->fini != NULL, "fini"},
                {r->count != NULL, "count"}, {r->probe != NULL, "probe"},
                {r->open != NULL, "open"},   {r->forked != NULL, "forked"}};
    for (size_t i = 0; i < TN_LEN(must); i++)
        if (!must[i].there)
            return tn__why_set(why, "leaves the mandatory field %s empty", must[i].what);
    if (path && tn__search_name(path, name, sizeof name) && !answers_to(r, name))
        return tn__why_set(why, "says that it is %s: the file's name must be that or an alias",
                           r->name);
    return true;
}

/* What a failed dlopen was about: glibc names the library but not which are there. */
static void explain_needed(const tn__buf *needed, tn__why *why)
{
    bool missing = false;
    char line[1024] = "";
    for (const char *p = needed->data; p && *p;) {
        size_t n = strcspn(p, "\n"), have = strlen(line);
        char lib[128];
        snprintf(lib, sizeof lib, "%.*s", (int)n, p);
        bool ok = dlopen(lib, RTLD_LAZY | RTLD_LOCAL) != NULL;
        if (!ok) missing = true;
        snprintf(line + have, sizeof line - have, "%s%s (%s)", have ? ", " : "", lib,
                 ok ? "ok" : "missing");
        p += n + (p[n] == '\n');
    }
    if (missing) tn__why_set(why, "needs %s: install what is missing", line);
}

static bool other_abi(void *h, tn__why *why)
{
    for (unsigned v = 0; v < 10; v++) {
        char sym[32];
        snprintf(sym, sizeof sym, "tenon_plugin_v%u", v);
        if (v != TNP_MAJOR && dlsym(h, sym))
            return tn__why_set(
                why, "is for plugin ABI %u (exports %s), this program has ABI %u: %s", v, sym,
                TNP_MAJOR,
                v > TNP_MAJOR ? "update tenon or take an older plugin" : "take a newer plugin");
    }
    return tn__why_set(why, "has no " TNP_ENTRY ": it is no plugin of tenon");
}

/* The entry, defined in this very file and not in a library that it depends on. */
static tnp_entry_fn *find_entry(void *h, tn__why *why)
{
    void *p = dlsym(h, TNP_ENTRY);
    if (!p) {
        other_abi(h, why);
        return NULL;
    }
#ifdef __linux__
    Dl_info info;
    struct link_map *map;
    if (dladdr(p, &info) && !dlinfo(h, RTLD_DI_LINKMAP, &map) &&
        (uintptr_t)info.dli_fbase != (uintptr_t)map->l_addr) {
        tn__why_set(why, "has no " TNP_ENTRY " of its own: the one found lies in %s",
                    info.dli_fname);
        return NULL;
    }
#endif
    tnp_entry_fn *fn;
    memcpy(&fn, &p, sizeof fn);
    return fn;
}

/* ---- taking one in ---- */

static void insert(tn__plugin *p)
{
    tn__plugin **at = &loaded;
    while (*at && strcmp((*at)->root->name, p->root->name) < 0) at = &(*at)->next;
    p->next = *at;
    *at = p;
}

/* init and count.  A plugin whose init refuses stays unlisted, so that a later try starts over. */
static tn__plugin *start(const tnp_plugin *root, const char *path, const struct stat *st,
                         tn__why *why)
{
    tn__plug_err e;
    tn__plugin *p = tn__calloc(1, sizeof *p);
    if (!p || !(p->path = tn__strdup(path))) {
        tn__free(p);
        tn__why_set(why, "no host memory");
        return NULL;
    }
    p->root = root;
    if (st) p->dev = st->st_dev, p->ino = st->st_ino;
    tn__plug_host_init(p);
    tn__watch w;
    tn__watch_start(&w, path, "init");
    tnp_rc rc = root->init(&p->host, tn__plug_err_init(&e));
    tn__watch_stop(&w);
    if (rc < 0) {
        tn__why_set(why, "(%s, ABI %u.%u) cannot start: %s", root->version, TNP_MAJOR, root->minor,
                    tn__plug_text(&e, rc));
        tn__free(p->path);
        tn__free(p);
        return NULL;
    }
    insert(p);
    return p;
}

static bool count(tn__plugin *p, tn__why *why)
{
    tn__plug_err e;
    tn__watch w;
    if (p->usable) return true;
    tn__watch_start(&w, p->path, "count");
    tnp_rc rc = p->root->count(&p->count, tn__plug_err_init(&e));
    tn__watch_stop(&w);
    if (rc < 0)
        return tn__why_set(why, "%s (%s, ABI %u.%u) cannot be used: %s", p->path, p->root->version,
                           TNP_MAJOR, p->root->minor, tn__plug_text(&e, rc));
    if (!p->count)
        return tn__why_set(why, "%s: count() says 0 devices%s%s (native %lld)", p->path,
                           e.text[0] ? ": " : "", e.text, (long long)e.e.native);
    return p->usable = true;
}

static bool check_file(int fd, const char *path, struct stat *st, tn__why *why)
{
    (void)path;
    if (fstat(fd, st)) return tn__why_set(why, "cannot be examined: %s", strerror(errno));
    if (!S_ISREG(st->st_mode)) return tn__why_set(why, "is not a regular file");
    if (st->st_mode & S_IWOTH)
        return tn__why_set(why, "can be written by everybody (mode %04o): chmod o-w it",
                           (unsigned)(st->st_mode & 07777));
    return true;
}

static tn__plugin *by_inode(const struct stat *st, const char *path)
{
    tn__plugin *p = loaded;
    while (p && !(p->ino && p->ino == st->st_ino && p->dev == st->st_dev)) p = p->next;
    if (p && strcmp(p->path, path) != 0 && tn_context_get(TN_DEBUG) >= 1)
        tn__log(TN_LOG_INFO, "%s is the same file as %s, which is loaded already", path, p->path);
    return p;
}

static tn__plugin *load(const char *path, const struct stat *st, tn__buf *needed, tn__why *why)
{
    tn__watch w;
    tn__watch_start(&w, path, "loading");
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const char *err = h ? NULL : dlerror();
    tn__watch_stop(&w);
    if (!h) {
        tn__why_set(why, "cannot be loaded: %s", err ? err : "no reason given");
        explain_needed(needed, why);
        return NULL;
    }
    tnp_entry_fn *entry = find_entry(h, why);
    if (!entry) return NULL;
    const tnp_plugin *root = entry(TNP_MINOR);
    if (!check_root(root, path, why)) return NULL;
    for (tn__plugin *p = loaded; p; p = p->next)
        if (answers_to(p->root, root->name)) {
            tn__why_set(why, "is %s again, which was loaded from %s", root->name, p->path);
            return NULL;
        }
    return start(root, path, st, why);
}

tn__plugin *tn__plugin_open_file(const char *path, tn__why *why)
{
    tn__why own = {{0}};
    struct stat st;
    tn__buf needed = {0};
    tn__plugin *p = NULL;
    int fd = tn__search_raised() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (tn__search_raised())
        tn__why_set(&own, "is not loaded by a program with raised rights");
    else if (fd < 0)
        tn__why_set(&own, "cannot be opened: %s", strerror(errno));
    else if (check_file(fd, path, &st, &own) && !(p = by_inode(&st, path)) &&
             tn__elf_check(fd, &needed, &own))
        p = load(path, &st, &needed, &own);
    if (fd >= 0) close(fd);
    tn__buf_free(&needed);
    if (!p) {
        tn__why_set(why, "%s %s", path, own.text);
        return NULL;
    }
    return count(p, why) ? p : NULL;
}

/* ---- by name ---- */

static tn__plugin *linked_in(const char *name, tn__why *why)
{
    for (size_t i = 0; tn__static_plugins[i]; i++) {
        const tnp_plugin *root = tn__static_plugins[i](TNP_MINOR);
        tn__why own;
        if (!check_root(root, NULL, &own) || !answers_to(root, name)) continue;
        tn__plugin *p = start(root, "built in", NULL, &own);
        if (!p) {
            tn__why_set(why, "%s, built in, %s", name, own.text);
            return NULL;
        }
        return count(p, why) ? p : NULL;
    }
    return NULL;
}

/* "no such backend ..." with what there is, what may have been meant and where it was looked for. */
static void explain_absent(const char *name, const tn__why *looked, tn__why *why)
{
    tn__buf names = {0};
    const char *each[64];
    size_t n = 0;
    tn__plugin_names(&names, '\n');
    for (char *p = names.data; p && *p && n < TN_LEN(each);) {
        each[n++] = p;
        p += strcspn(p, "\n");
        if (*p) *p++ = 0;
    }
    tn__why_set(why, "no such backend.");
    for (size_t i = 0; i < n; i++) tn__why_add(why, "%s%s", i ? ", " : " Available: ", each[i]);
    if (n) tn__why_add(why, ".");
    const char *near = tn__nearest(name, each, n);
    if (near) tn__why_add(why, " Did you mean %s?", near);
    char lower[64];
    for (size_t i = 0; i <= strlen(name); i++) lower[i] = (char)tolower((unsigned char)name[i]);
    tn__why_add(why, " Looked for tenon_%s.so in %s; TENON_PLUGIN_PATH is %s", lower, looked->text,
                tn_context_text(TN_PLUGIN_PATH)[0] ? "set" : "not set");
    tn__buf_free(&names);
}

tn__plugin *tn__plugin_find(const char *name, tn__why *why)
{
    for (tn__plugin *p = loaded; p; p = p->next)
        if (answers_to(p->root, name)) return count(p, why) ? p : NULL;
    why->text[0] = 0;
    tn__plugin *p = linked_in(name, why);
    if (p || why->text[0]) return p;
    char hit[PATH_MAX + 64];
    tn__why looked;
    if (tn__search_file(name, hit, sizeof hit, &looked)) return tn__plugin_open_file(hit, why);
    explain_absent(name, &looked, why);
    return NULL;
}

/* ---- all of them ---- */

void tn__plugin_files(tn__found_fn *fn, void *arg)
{
    tn__buf seen = {0};
    tn__buf_printf(&seen, "\n");
    for (size_t i = 0; tn__static_plugins[i]; i++) {
        const tnp_plugin *root = tn__static_plugins[i](TNP_MINOR);
        if (!root || tn__search_seen(&seen, root->name)) continue;
        tn__buf_printf(&seen, "%s\n", root->name);
        fn(arg, root->name, NULL);
    }
    tn__search_all(&seen, fn, arg);
    tn__buf_free(&seen);
}

typedef struct {
    tn__buf *out;
    char sep;
} names_arg;

static void add_name(void *arg, const char *name, const char *path)
{
    names_arg *a = arg;
    (void)path;
    tn__buf_printf(a->out, "%s%c", name, a->sep);
}

void tn__plugin_names(tn__buf *out, char sep)
{
    names_arg a = {out, sep};
    tn__plugin_files(add_name, &a);
}

typedef struct {
    tn__refused_fn *refused;
    void *arg;
} load_arg;

static void load_one(void *arg, const char *name, const char *path)
{
    load_arg *a = arg;
    tn__why why;
    if (!tn__plugin_find(name, &why) && a->refused)
        a->refused(a->arg, path ? path : name, why.text);
}

void tn__plugin_load_all(tn__refused_fn *refused, void *arg)
{
    load_arg a = {refused, arg};
    tn__plugin_files(load_one, &a);
}

tn__plugin *tn__plugin_first(void) { return loaded; }

void tn__plugin_fini_all(void)
{
    while (loaded) {
        tn__plugin *p = loaded;
        loaded = p->next;
        p->root->fini();
        tn__free(p->path);
        tn__free(p);
    }
}
