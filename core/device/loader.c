/* SPDX-License-Identifier: MIT */
/*
 * Finds, checks and loads plugins.
 *
 * Order: 1. a path; 2. those linked in; 3. PLUGIN_PATH; 4. beside the library; 5. the folder given at build
 * time; 6. the user's data folder.  Never the working folder or the linker's path; a program with raised
 * rights sees 2 and 5 only.  First hit by name wins, the others are told of in the log.
 *
 * Nothing that was loaded is unloaded: a driver's threads would lose their code.  Called with the registry
 * locked; the list of loaded plugins is in order of name.
 */
#define _GNU_SOURCE
#include "device/module.h"
#include <ctype.h>
#include <dirent.h>
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
#include <sys/auxv.h>
#endif

extern tnp_entry_fn *const tn__static_plugins[]; /* NULL-ended; made by the build */

static tn__plugin *loaded;

static bool raised(void)
{
#ifdef __linux__
    return getauxval(AT_SECURE) != 0;
#else
    return false;
#endif
}

/* ---- folders ---- */

typedef bool folder_fn(void *arg, const char *dir); /* true: enough */

/* Folder of the file that holds this code, links resolved. */
static bool own_folder(char *out)
{
    Dl_info info;
    char real[PATH_MAX];
    bool known = dladdr((const void *)(uintptr_t)tn_version, &info) && info.dli_fname && strchr(info.dli_fname, '/');
    if (!(known && realpath(info.dli_fname, real)) && !realpath("/proc/self/exe", real)) return false;
    char *slash = strrchr(real, '/');
    if (!slash) return false;
    *slash = 0;
    strcpy(out, real);
    return true;
}

/* Libraries keep plugins in tenon/plugins beside them; a program that holds the library itself stands in
 * bin/, its plugins in ../lib. */
static bool beside(folder_fn *fn, void *arg)
{
    static const char *const below[] = {"tenon/plugins", "../tenon/plugins", "../lib/tenon/plugins"};
    char dir[PATH_MAX], path[PATH_MAX + 32];
    if (!own_folder(dir)) return false;
    const char *base = strrchr(dir, '/');
    size_t n = base && !strcmp(base, "/bin") ? TN_LEN(below) : 1;
    for (size_t i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, below[i]);
        if (fn(arg, path)) return true;
    }
    return false;
}

static bool users_folder(folder_fn *fn, void *arg)
{
    char path[PATH_MAX];
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    if (data && data[0] == '/') snprintf(path, sizeof path, "%s/tenon/plugins", data);
    else if (home && home[0] == '/') snprintf(path, sizeof path, "%s/.local/share/tenon/plugins", home);
    else return false;
    return fn(arg, path);
}

static void each_folder(folder_fn *fn, void *arg)
{
    char dir[PATH_MAX];
    bool safe = !raised();
    for (const char *p = safe ? tn_context_text(TN_PLUGIN_PATH) : ""; *p;) {
        size_t n = strcspn(p, ":");
        if (n && n < sizeof dir) {
            memcpy(dir, p, n);
            dir[n] = 0;
            if (fn(arg, dir)) return;
        }
        p += n + (p[n] == ':');
    }
    if (safe && beside(fn, arg)) return;
#ifdef TN_PLUGINDIR
    if (fn(arg, TN_PLUGINDIR)) return;
#endif
    if (safe) users_folder(fn, arg);
}

/* NAME of a file tenon_<name>.so, in upper case. */
static bool name_of_file(const char *file, char *out, size_t cap)
{
    const char *base = strrchr(file, '/');
    base = base ? base + 1 : file;
    const char *dot = strrchr(base, '.');
    if (strncmp(base, "tenon_", 6) || !dot || dot == base + 6) return false;
    if (strcmp(dot, ".so") && strcmp(dot, ".dylib")) return false;
    size_t n = (size_t)(dot - base) - 6;
    if (n >= cap) return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)base[6 + i]) && base[6 + i] != '_') return false;
        out[i] = (char)toupper((unsigned char)base[6 + i]);
    }
    out[n] = 0;
    return true;
}

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
        return tn__why_set(why, "has magic %#x where %#x is expected: not made for this ABI, or another byte order",
                           r->magic, TNP_MAGIC);
    if (r->size < TNP_END(tnp_plugin, forked))
        return tn__why_set(why, "has a root of %u bytes: at least %zu are mandatory", r->size,
                           TNP_END(tnp_plugin, forked));
    if (r->min_host_minor > TNP_MINOR)
        return tn__why_set(why, "needs plugin ABI %u.%u, this program has %u.%u: update tenon", TNP_MAJOR,
                           r->min_host_minor, TNP_MAJOR, TNP_MINOR);
    const struct {
        bool there;
        const char *what;
    } must[] = {{r->name != NULL, "name"},   {r->version != NULL, "version"}, {r->init != NULL, "init"},
                {r->fini != NULL, "fini"},   {r->count != NULL, "count"},     {r->probe != NULL, "probe"},
                {r->open != NULL, "open"},   {r->forked != NULL, "forked"}};
    for (size_t i = 0; i < TN_LEN(must); i++)
        if (!must[i].there) return tn__why_set(why, "leaves the mandatory field %s empty", must[i].what);
    if (path && name_of_file(path, name, sizeof name) && !answers_to(r, name))
        return tn__why_set(why, "says that it is %s: the file's name must be that or an alias", r->name);
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
        snprintf(line + have, sizeof line - have, "%s%s (%s)", have ? ", " : "", lib, ok ? "ok" : "missing");
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
            return tn__why_set(why, "is for plugin ABI %u (exports %s), this program has ABI %u: %s", v, sym, TNP_MAJOR,
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
    if (dladdr(p, &info) && !dlinfo(h, RTLD_DI_LINKMAP, &map) && (uintptr_t)info.dli_fbase != (uintptr_t)map->l_addr) {
        tn__why_set(why, "has no " TNP_ENTRY " of its own: the one found lies in %s", info.dli_fname);
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
static tn__plugin *start(const tnp_plugin *root, const char *path, const struct stat *st, tn__why *why)
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
    tnp_rc rc = root->init(&p->host, tn__plug_err_init(&e));
    if (rc < 0) {
        tn__why_set(why, "(%s, ABI %u.%u) cannot start: %s", root->version, TNP_MAJOR, root->minor, tn__plug_text(&e, rc));
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
    if (p->usable) return true;
    tnp_rc rc = p->root->count(&p->count, tn__plug_err_init(&e));
    if (rc < 0)
        return tn__why_set(why, "%s (%s, ABI %u.%u) cannot be used: %s", p->path, p->root->version, TNP_MAJOR,
                           p->root->minor, tn__plug_text(&e, rc));
    if (!p->count)
        return tn__why_set(why, "%s: count() says 0 devices%s%s (native %lld)", p->path, e.text[0] ? ": " : "", e.text,
                           (long long)e.e.native);
    return p->usable = true;
}

static bool check_file(int fd, const char *path, struct stat *st, tn__why *why)
{
    (void)path;
    if (fstat(fd, st)) return tn__why_set(why, "cannot be examined: %s", strerror(errno));
    if (!S_ISREG(st->st_mode)) return tn__why_set(why, "is not a regular file");
    if (st->st_mode & S_IWOTH)
        return tn__why_set(why, "can be written by everybody (mode %04o): chmod o-w it", (unsigned)(st->st_mode & 07777));
    return true;
}

static tn__plugin *by_inode(const struct stat *st)
{
    for (tn__plugin *p = loaded; p; p = p->next)
        if (p->ino && p->ino == st->st_ino && p->dev == st->st_dev) return p;
    return NULL;
}

static tn__plugin *load(const char *path, const struct stat *st, tn__buf *needed, tn__why *why)
{
    void *h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!h) {
        const char *err = dlerror();
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
    int fd = raised() ? -1 : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (raised()) tn__why_set(&own, "is not loaded by a program with raised rights");
    else if (fd < 0) tn__why_set(&own, "cannot be opened: %s", strerror(errno));
    else if (check_file(fd, path, &st, &own) && !(p = by_inode(&st)) && tn__elf_check(fd, &needed, &own))
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

typedef struct {
    const char *name;
    char hit[PATH_MAX + 64];
    tn__why looked;
} search;

static int files_in(const char *dir)
{
    DIR *d = opendir(dir);
    if (!d) return -1;
    int n = 0;
    char name[64];
    for (struct dirent *e; (e = readdir(d));) n += name_of_file(e->d_name, name, sizeof name);
    closedir(d);
    return n;
}

static bool look_in(void *arg, const char *dir)
{
    search *s = arg;
    char path[PATH_MAX + 64], lower[64];
    size_t n = strlen(s->name);
    for (size_t i = 0; i <= n; i++) lower[i] = (char)tolower((unsigned char)s->name[i]);
    static const char *const suffix[] = {".so", ".dylib"};
    for (size_t i = 0; i < TN_LEN(suffix); i++) {
        snprintf(path, sizeof path, "%s/tenon_%s%s", dir, lower, suffix[i]);
        if (access(path, F_OK)) continue;
        if (!s->hit[0]) snprintf(s->hit, sizeof s->hit, "%s", path);
        else if (tn_context_get(TN_DEBUG) >= 1) tn__log(TN_LOG_INFO, "%s is not looked at: %s comes first", path, s->hit);
    }
    int have = files_in(dir);
    if (have < 0) tn__why_add(&s->looked, "%s%s (absent)", s->looked.text[0] ? ", " : "", dir);
    else tn__why_add(&s->looked, "%s%s (%d files)", s->looked.text[0] ? ", " : "", dir, have);
    return false;
}

/* "no such backend ..." with what there is, what may have been meant and where it was looked for. */
static void explain_absent(const char *name, const search *s, tn__why *why)
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
    tn__why_add(why, " Looked for tenon_%s.so in %s; TENON_PLUGIN_PATH is %s", lower,
                s->looked.text[0] ? s->looked.text : "no folder", tn_context_text(TN_PLUGIN_PATH)[0] ? "set" : "not set");
    tn__buf_free(&names);
}

tn__plugin *tn__plugin_find(const char *name, tn__why *why)
{
    for (tn__plugin *p = loaded; p; p = p->next)
        if (answers_to(p->root, name)) return count(p, why) ? p : NULL;
    why->text[0] = 0;
    tn__plugin *p = linked_in(name, why);
    if (p || why->text[0]) return p;
    search s = {.name = name};
    each_folder(look_in, &s);
    if (s.hit[0]) return tn__plugin_open_file(s.hit, why);
    explain_absent(name, &s, why);
    return NULL;
}

/* ---- all of them ---- */

typedef struct {
    tn__buf *seen; /* "\nNAME\n..." */
    void (*fn)(void *arg, const char *name, const char *path);
    void *arg;
} walk;

static bool was_seen(const tn__buf *seen, const char *name)
{
    char key[72];
    snprintf(key, sizeof key, "\n%s\n", name);
    return seen->data && strstr(seen->data, key);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static bool walk_folder(void *arg, const char *dir)
{
    walk *w = arg;
    struct dirent **list;
    int n = scandir(dir, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char name[64], path[PATH_MAX + 300];
        if (name_of_file(list[i]->d_name, name, sizeof name) && !was_seen(w->seen, name)) {
            tn__buf_printf(w->seen, "%s\n", name);
            snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
            w->fn(w->arg, name, path);
        }
        free(list[i]);
    }
    if (n >= 0) free(list);
    return false;
}

void tn__plugin_files(void (*fn)(void *arg, const char *name, const char *path), void *arg)
{
    tn__buf seen = {0};
    walk w = {&seen, fn, arg};
    tn__buf_printf(&seen, "\n");
    for (size_t i = 0; tn__static_plugins[i]; i++) {
        const tnp_plugin *root = tn__static_plugins[i](TNP_MINOR);
        if (!root || was_seen(&seen, root->name)) continue;
        tn__buf_printf(&seen, "%s\n", root->name);
        fn(arg, root->name, NULL);
    }
    each_folder(walk_folder, &w);
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
    if (!tn__plugin_find(name, &why) && a->refused) a->refused(a->arg, path ? path : name, why.text);
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
