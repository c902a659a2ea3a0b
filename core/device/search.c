/* SPDX-License-Identifier: MIT */
/*
 * Where plugins are looked for, and under which file names.
 *
 * Folders in order: PLUGIN_PATH; beside the library; the one given at build time; the user's data folder.
 * Never the working folder or the linker's path; a program with raised rights sees only the third.
 */
#define _GNU_SOURCE
#include "device/module.h"
#include <ctype.h>
#include <dirent.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef __linux__
#include <sys/auxv.h>
#endif

bool tn__search_raised(void)
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
    bool known = dladdr((const void *)(uintptr_t)tn_version, &info) && info.dli_fname &&
                 strchr(info.dli_fname, '/');
    if (!(known && realpath(info.dli_fname, real)) && !realpath("/proc/self/exe", real))
        return false;
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
    static const char *const below[] = {"tenon/plugins", "../tenon/plugins",
                                        "../lib/tenon/plugins"};
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
    if (data && data[0] == '/')
        snprintf(path, sizeof path, "%s/tenon/plugins", data);
    else if (home && home[0] == '/')
        snprintf(path, sizeof path, "%s/.local/share/tenon/plugins", home);
    else
        return false;
    return fn(arg, path);
}

static void each_folder(folder_fn *fn, void *arg)
{
    char dir[PATH_MAX];
    bool safe = !tn__search_raised();
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
bool tn__search_name(const char *file, char *out, size_t cap)
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

/* ---- one name ---- */

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
    for (struct dirent *e; (e = readdir(d));) n += tn__search_name(e->d_name, name, sizeof name);
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
        if (!s->hit[0])
            snprintf(s->hit, sizeof s->hit, "%s", path);
        else if (tn_context_get(TN_DEBUG) >= 1)
            tn__log(TN_LOG_INFO, "%s is not looked at: %s comes first", path, s->hit);
    }
    int have = files_in(dir);
    if (have < 0)
        tn__why_add(&s->looked, "%s%s (absent)", s->looked.text[0] ? ", " : "", dir);
    else
        tn__why_add(&s->looked, "%s%s (%d files)", s->looked.text[0] ? ", " : "", dir, have);
    return false;
}

bool tn__search_file(const char *name, char *hit, size_t cap, tn__why *looked)
{
    search s = {.name = name};
    each_folder(look_in, &s);
    *looked = s.looked;
    if (!looked->text[0]) tn__why_set(looked, "no folder");
    snprintf(hit, cap, "%s", s.hit);
    return s.hit[0] != 0;
}

/* ---- all of them ---- */

typedef struct {
    tn__buf *seen; /* "\nNAME\n..." */
    tn__found_fn *fn;
    void *arg;
} walk;

bool tn__search_seen(const tn__buf *seen, const char *name)
{
    char key[72];
    snprintf(key, sizeof key, "\n%s\n", name);
    return seen->data && strstr(seen->data, key);
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
    return strcmp((*a)->d_name, (*b)->d_name);
}

static bool walk_folder(void *arg, const char *dir)
{
    walk *w = arg;
    struct dirent **list;
    int n = scandir(dir, &list, NULL, by_name);
    for (int i = 0; i < n; i++) {
        char name[64], path[PATH_MAX + 300];
        if (tn__search_name(list[i]->d_name, name, sizeof name) &&
            !tn__search_seen(w->seen, name)) {
            tn__buf_printf(w->seen, "%s\n", name);
            snprintf(path, sizeof path, "%s/%s", dir, list[i]->d_name);
            w->fn(w->arg, name, path);
        }
        free(list[i]);
    }
    if (n >= 0) free(list);
    return false;
}

void tn__search_all(tn__buf *seen, tn__found_fn *fn, void *arg)
{
    walk w = {seen, fn, arg};
    each_folder(walk_folder, &w);
}
