/* SPDX-License-Identifier: MIT */
/*
 * Binaries loaded into the process.  A binary is an ELF file and a cpu__trailer; the hash is checked before
 * the dynamic linker sees a byte, so that a truncated or damaged cache entry is an error and not a crash.
 * Shared objects go to the dynamic linker, relocatable ones to cpu_elf.c.  One load a distinct binary: entries of one binary share it and are counted.
 *
 * Thread rule: one lock over the list.  A fork while another thread holds it leaves the list whole (nodes
 * are published by one store), so the child only makes the lock anew.
 */
#define _GNU_SOURCE
#include "cpu.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct cpu__lib {
    struct cpu__lib *next;
    uint64_t hash[2], len;
    void *handle;      /* of a shared object */
    cpu__image *image; /* or an object's memory */
    uint32_t refs;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static cpu__lib *libs;
static atomic_uint loads;

static uint64_t mix(uint64_t h, uint64_t v)
{
    h = (h ^ v) * 0x9e3779b97f4a7c15ull;
    return h ^ h >> 32;
}

void cpu__hash(const void *p, size_t n, uint64_t out[2])
{
    const unsigned char *s = p;
    uint64_t a = 0x243f6a8885a308d3ull ^ n, b = 0x13198a2e03707344ull + n, w;
    for (; n >= 8; n -= 8, s += 8) {
        memcpy(&w, s, 8);
        a = mix(a, w);
        b = mix(b, w ^ a);
    }
    w = 0;
    memcpy(&w, s, n);
    out[0] = mix(mix(a, w), 1);
    out[1] = mix(mix(b, w ^ a), 2);
}

/* The linker takes a name that it has seen for the same file, and descriptors are used again, so each
 * load spells the path in its own way: the bits of a counter as "./" and ".//". */
static void unique_path(int fd, char *out)
{
    char *w = out + sprintf(out, "/proc/self/fd/");
    for (unsigned k = atomic_fetch_add(&loads, 1) + 1; k; k >>= 1)
        w += sprintf(w, k & 1 ? ".//" : "./");
    sprintf(w, "%d", fd);
}

static bool write_file(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return false;
        p += w;
        n -= (size_t)w;
    }
    return true;
}

static void *load_memory(const void *p, size_t n)
{
    char path[160];
    int fd = memfd_create("tenon-kernel", MFD_CLOEXEC);
    if (fd < 0) return NULL;
    void *h = NULL;
    if (write_file(fd, p, n)) {
        unique_path(fd, path);
        h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    close(fd);
    return h;
}

/* Where there are no memory files, or /proc is absent: a file of mode 0600 that is gone at once. */
static void *load_file(const void *p, size_t n)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm"};
    void *h = NULL;
    for (size_t i = 0; i < sizeof places / sizeof *places && !h; i++) {
        char path[512];
        if (!places[i] || !places[i][0]) continue;
        int len = snprintf(path, sizeof path, "%s/tenon-XXXXXX", places[i]);
        if (len < 0 || (size_t)len >= sizeof path) continue;
        int fd = mkostemp(path, O_CLOEXEC);
        if (fd < 0) continue;
        if (write_file(fd, p, n)) h = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        unlink(path);
        close(fd);
    }
    return h;
}

static tnp_rc check(const void *bin, size_t len, cpu__trailer *t, tnp_err *e)
{
    uint64_t h[2];
    if (len <= sizeof *t)
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: binary of %zu bytes: too short to be one", len);
    memcpy(t, (const char *)bin + len - sizeof *t, sizeof *t);
    if (t->magic != CPU_TRAILER_MAGIC || t->len != len - sizeof *t)
        return cpu__fail(e, TNP_E_ARG, 0,
                         "CPU: binary of %zu bytes: not made by this plugin, or truncated", len);
    cpu__hash(bin, (size_t)t->len, h);
    if (h[0] != t->hash[0] || h[1] != t->hash[1])
        return cpu__fail(e, TNP_E_ARG, 0, "CPU: binary of %zu bytes: its contents are damaged",
                         len);
    return TNP_OK;
}

static cpu__lib *find(const cpu__trailer *t)
{
    for (cpu__lib *l = libs; l; l = l->next)
        if (l->len == t->len && l->hash[0] == t->hash[0] && l->hash[1] == t->hash[1]) return l;
    return NULL;
}

static tnp_rc load(cpu__lib *l, const void *bin, size_t len, tnp_err *e)
{
    if (cpu__is_object(bin, len)) return cpu__image_load(bin, len, &l->image, e);
    l->handle = load_memory(bin, len);
    if (!l->handle) l->handle = load_file(bin, len);
    if (l->handle) return TNP_OK;
    const char *why = dlerror();
    return cpu__fail(e, TNP_E_INTERNAL, 0, "CPU: binary cannot be loaded: %s",
                     why ? why : "no reason given");
}

tnp_rc cpu__lib_get(const void *bin, size_t len, cpu__lib **out, tnp_err *e)
{
    cpu__trailer t;
    *out = NULL;
    tnp_rc rc = check(bin, len, &t, e);
    if (rc) return rc;
    cpu__lib *fresh = cpu__take(sizeof *fresh);
    if (!fresh) return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory to load a binary");
    pthread_mutex_lock(&lock);
    cpu__lib *l = find(&t);
    if (!l) {
        rc = load(fresh, bin, (size_t)t.len, e);
        if (!rc) {
            memcpy(fresh->hash, t.hash, sizeof fresh->hash);
            fresh->len = t.len;
            fresh->next = libs;
            libs = l = fresh;
            fresh = NULL;
        }
    }
    if (l) l->refs++;
    pthread_mutex_unlock(&lock);
    cpu__give(fresh);
    *out = l;
    return rc;
}

/* Only what the binary itself defines: dlsym also looks into its dependencies. */
cpu__kernel *cpu__lib_find(cpu__lib *l, const char *name)
{
    Dl_info sym;
    struct link_map *map;
    if (l->image) return cpu__image_find(l->image, name);
    void *p = dlsym(l->handle, name);
    if (!p || !dladdr(p, &sym) || dlinfo(l->handle, RTLD_DI_LINKMAP, &map)) return NULL;
    if ((uintptr_t)sym.dli_fbase != (uintptr_t)map->l_addr) return NULL;
    cpu__kernel *fn;
    memcpy(&fn, &p, sizeof fn);
    return fn;
}

void cpu__lib_put(cpu__lib *l)
{
    if (!l) return;
    pthread_mutex_lock(&lock);
    bool last = !--l->refs;
    if (last) {
        cpu__lib **at = &libs;
        while (*at != l) at = &(*at)->next;
        *at = l->next;
    }
    pthread_mutex_unlock(&lock);
    if (!last) return;
    if (l->handle) dlclose(l->handle);
    cpu__image_free(l->image);
    cpu__give(l);
}

void cpu__lib_forked(void) { pthread_mutex_init(&lock, NULL); }
