/* SPDX-License-Identifier: MIT */
/*
 * Finding and opening libLLVM.  cpu__llvm_path looks for the file only (a process that needs no compiler must
 * not map 120 MB of one); cpu__llvm_open takes what is there and resolves every name of the table before the
 * first is called, so that a library too old is an error and no crash.
 */
#define _GNU_SOURCE
#include "llvm_api.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifdef CPU_HAVE_LLVM
#include <dlfcn.h>
#include <llvm/Config/llvm-config.h>
#include <pthread.h>
#include <stdlib.h>

enum { OLDEST = 15, NEWEST = 22 };

cpu__llvm_table cpu__llvm;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *lib;
static char why[400];

/* ---- where it is ---- */

static bool in_folder(const char *dir, size_t n, int version, char *out, size_t cap)
{
    int w = snprintf(out, cap, "%.*s/libLLVM-%d.so.1", (int)n, dir, version);
    if (w > 0 && (size_t)w < cap && !access(out, R_OK)) return true;
    w = snprintf(out, cap, "%.*s/libLLVM.so.%d.1", (int)n, dir, version); /* since 18 */
    return w > 0 && (size_t)w < cap && !access(out, R_OK);
}

static bool of_version(int version, char *out, size_t cap)
{
    static const char *const dirs[] = {
#ifdef CPU_LLVM_LIBDIR
        CPU_LLVM_LIBDIR,
#endif
#if defined(__x86_64__)
        "/usr/lib/x86_64-linux-gnu",
#elif defined(__aarch64__)
        "/usr/lib/aarch64-linux-gnu",
#endif
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib"
    };
    const char *path = getenv("LD_LIBRARY_PATH");
    while (path && *path) {
        size_t n = strcspn(path, ":");
        if (n && in_folder(path, n, version, out, cap)) return true;
        path += n + (path[n] == ':');
    }
    for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++)
        if (in_folder(dirs[i], strlen(dirs[i]), version, out, cap)) return true;
    char dir[64];
    snprintf(dir, sizeof dir, "/usr/lib/llvm-%d/lib", version);
    return in_folder(dir, strlen(dir), version, out, cap);
}

/* The version that this was built with first, then the others, oldest first. */
bool cpu__llvm_path(char *out, size_t cap)
{
    if (of_version(LLVM_VERSION_MAJOR, out, cap)) return true;
    for (int v = OLDEST; v <= NEWEST; v++)
        if (of_version(v, out, cap)) return true;
    out[0] = 0;
    return false;
}

/* ---- opening ---- */

static bool resolve(void)
{
    static const struct {
        const char *name;
        size_t at;
    } names[] = {
#define X(f) {"LLVM" #f, offsetof(cpu__llvm_table, f)},
        CPU_LLVM_FUNCTIONS(X)
#undef X
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *p = dlsym(lib, names[i].name);
        if (!p) {
            snprintf(why, sizeof why, "it has no %s", names[i].name);
            return false;
        }
        memcpy((char *)&cpu__llvm + names[i].at, &p, sizeof p);
    }
    void (*version)(unsigned *, unsigned *, unsigned *);
    void *p = dlsym(lib, "LLVMGetVersion"); /* since 16 */
    unsigned major = OLDEST, minor, patch;
    memcpy(&version, &p, sizeof p);
    if (p) version(&major, &minor, &patch);
    cpu__llvm.version = (int)major;
    return true;
}

static void open_once(void)
{
    char path[512];
    if (!cpu__llvm_path(path, sizeof path)) {
        snprintf(why, sizeof why, "there is none (versions %d to %d)", OLDEST, NEWEST);
        return;
    }
    lib = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!lib) {
        const char *err = dlerror();
        snprintf(why, sizeof why, "%.380s", err ? err : path);
    } else if (!resolve()) {
        dlclose(lib);
        lib = NULL;
    }
}

tnp_rc cpu__llvm_open(tnp_err *e)
{
    pthread_once(&once, open_once);
    if (lib) return TNP_OK;
    return cpu__fail(e, TNP_E_DRIVER, 0,
                     "CPU: libLLVM: %s: install it (Debian: apt-get install libllvm15), or run "
                     "with DEV=CPU:CC",
                     why);
}

tnp_rc cpu__llvm_target(const char *name, tnp_err *e)
{
    static const char *const parts[] = {"TargetInfo", "Target", "TargetMC", "AsmPrinter"};
    static bool ready[2];
    bool *done = &ready[name[0] == 'A'];
    tnp_rc rc = TNP_OK;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < sizeof parts / sizeof *parts && !rc && !*done; i++) {
        char sym[80];
        void (*fn)(void);
        snprintf(sym, sizeof sym, "LLVMInitialize%s%s", name, parts[i]);
        void *p = dlsym(lib, sym);
        if (!p) rc = cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: libLLVM makes no code for %s", name);
        memcpy(&fn, &p, sizeof p);
        if (!rc) fn();
    }
    *done |= !rc;
    pthread_mutex_unlock(&lock);
    return rc;
}

#else

bool cpu__llvm_path(char *out, size_t cap)
{
    if (cap) out[0] = 0;
    return false;
}

#endif
