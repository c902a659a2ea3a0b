/* SPDX-License-Identifier: MIT */
/*
 * Files as io needs them.  A file that is written appears whole or not at all: a temporary name in the
 * same folder, fsync, rename, fsync of the folder; the steps are in that order so that after a crash the
 * old file or the new one is there.
 */
#include "io/files.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static bool fail_sys(const char *path, const char *call)
{
    const int e = errno;
    if (e == ENOMEM) return tn__fail_nomem();
    return tn__fail(TN_EIO, "%s: %s: %s", path, call, strerror(e));
}

static int open_regular(const char *path, struct stat *st)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) {
        fail_sys(path, "open");
        return -1;
    }
    if (fstat(fd, st) != 0) {
        fail_sys(path, "fstat");
    } else if (!S_ISREG(st->st_mode)) {
        tn__fail(TN_EIO, "%s: not a regular file", path);
    } else {
        return fd;
    }
    close(fd);
    return -1;
}

void *tn__file_read(const char *path, size_t *n)
{
    struct stat st;
    char *p = NULL;
    const int fd = open_regular(path, &st);
    if (fd < 0) return NULL;
    const size_t size = (size_t)st.st_size;
    size_t got = 0;
    p = tn__alloc(size + 1);
    while (p && got < size) {
        const ssize_t k = read(fd, p + got, size - got);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) {
            if (k < 0)
                fail_sys(path, "read");
            else
                tn__fail(TN_EIO, "%s: read: it became shorter: %zu of %zu bytes", path, got, size);
            tn__free(p);
            p = NULL;
            break;
        }
        got += (size_t)k;
    }
    if (p) p[size] = '\0';
    *n = size;
    close(fd);
    return p;
}

bool tn__file_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISREG(st.st_mode);
}

bool tn__map_open(const char *path, tn__map *m)
{
    struct stat st;
    *m = (tn__map){0};
    const int fd = open_regular(path, &st);
    if (fd < 0) return false;
    bool ok = true;
    if (st.st_size > 0) {
        void *p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        if (p == MAP_FAILED)
            ok = fail_sys(path, "mmap");
        else
            *m = (tn__map){p, (size_t)st.st_size};
    }
    close(fd);
    return ok;
}

void tn__map_close(tn__map *m)
{
    if (m->data) munmap(m->data, m->n);
    *m = (tn__map){0};
}

/* ---- writing ---- */

bool tn__out_open(tn__out *o, const char *path)
{
    static atomic_uint serial;
    struct stat st;
    *o = (tn__out){.fd = -1};
    o->path = tn__strdup(path);
    if (!o->path) return false;
    for (int attempt = 0; attempt < 100 && o->fd < 0; attempt++) {
        tn__free(o->tmp);
        o->tmp = tn__format("%s.%ld-%u.tmp", path, (long)getpid(), atomic_fetch_add(&serial, 1));
        if (!o->tmp) break;
        o->fd = open(o->tmp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (o->fd < 0 && errno != EEXIST) break;
    }
    if (o->fd < 0) {
        if (o->tmp) fail_sys(path, "cannot create a file in its folder");
        tn__free(o->tmp);
        tn__free(o->path);
        *o = (tn__out){.fd = -1};
        return false;
    }
    if (stat(path, &st) == 0 && S_ISREG(st.st_mode)) (void)!fchmod(o->fd, st.st_mode & 0777);
    return true;
}

bool tn__out_put(tn__out *o, const void *p, size_t n)
{
    const char *c = p;
    while (n > 0) {
        const ssize_t k = write(o->fd, c, n < (1u << 30) ? n : 1u << 30);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) return fail_sys(o->path, "write");
        c += k;
        n -= (size_t)k;
    }
    return true;
}

/* `path` is cut to its folder.  Some file systems refuse fsync on folders: the rename has happened. */
static void sync_folder(char *path)
{
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = '\0';
    const int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    (void)!fsync(fd);
    close(fd);
}

static void out_free(tn__out *o)
{
    tn__free(o->tmp);
    tn__free(o->path);
    *o = (tn__out){.fd = -1};
}

bool tn__out_commit(tn__out *o)
{
    bool ok = fsync(o->fd) == 0 || fail_sys(o->path, "fsync");
    if (close(o->fd) != 0 && ok) ok = fail_sys(o->path, "close");
    o->fd = -1;
    if (ok && rename(o->tmp, o->path) != 0) ok = fail_sys(o->path, "rename");
    if (!ok) {
        tn__out_drop(o);
        return false;
    }
    sync_folder(o->tmp);
    out_free(o);
    return true;
}

void tn__out_drop(tn__out *o)
{
    if (o->fd >= 0) close(o->fd);
    if (o->tmp) unlink(o->tmp);
    out_free(o);
}

/* ---- folders ---- */

bool tn__folder_make(const char *path)
{
    struct stat st;
    char *p = tn__strdup(path);
    bool ok = p != NULL;
    for (size_t i = 1; ok && i <= strlen(path); i++) {
        if (path[i] != '/' && path[i] != '\0') continue;
        p[i] = '\0';
        if (mkdir(p, 0777) != 0 && errno != EEXIST && stat(p, &st) != 0) ok = fail_sys(p, "mkdir");
        p[i] = path[i];
    }
    if (ok && (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)))
        ok = tn__fail(TN_EIO, "%s: not a folder", path);
    tn__free(p);
    return ok;
}

char *tn__cache_path(const char *fmt, ...)
{
    tn__buf b = {0};
    const char *own = tn_context_text(TN_CACHE), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    if (own && *own)
        tn__buf_printf(&b, "%s/", own);
    else if (xdg && xdg[0] == '/')
        tn__buf_printf(&b, "%s/tenon/", xdg);
    else if (home && *home)
        tn__buf_printf(&b, "%s/.cache/tenon/", home);
    else {
        tn__fail(TN_EIO,
                 "cache: neither HOME nor XDG_CACHE_HOME is set: set TENON_CACHE to a folder");
        return NULL;
    }
    va_list ap;
    va_start(ap, fmt);
    tn__buf_vprintf(&b, fmt, ap);
    va_end(ap);
    if (!b.failed) return b.data;
    tn__buf_free(&b);
    return NULL;
}
