/* SPDX-License-Identifier: MIT */
/*
 * tar and zip through libarchive.
 *
 * Only folders and regular files with relative paths without `..` are taken.  Extraction goes over the
 * archive twice: first all entries are checked, so that a refused archive has written nothing; then
 * files are written, never through a symbolic link of the target folder.  What an entry says about its
 * size is not believed: bytes are counted as they come.
 */
#include "io/archive.h"
#include "io/files.h"
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <unistd.h>
#ifdef TN_HAVE_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

#define DEFAULT_BYTES   (UINT64_C(16) << 30)
#define DEFAULT_ENTRIES 1000000u

#ifndef TN_HAVE_ARCHIVE
static bool missing(const char *name)
{
    return tn__fail(
        TN_EUNSUPPORTED,
        "archive: %s: this build has no libarchive: build with libarchive-dev, or unpack "
        "the file first",
        name ? name : "(null)");
}
bool tn__archive_each(const char *path, tn__archive_kind kind, uint64_t max, tn__archive_fn *fn,
                      void *user)
{
    (void)kind, (void)max, (void)fn, (void)user;
    return missing(path);
}
bool tn__archive_each_in(const void *p, size_t n, const char *name, tn__archive_kind kind,
                         uint64_t max, tn__archive_fn *fn, void *user)
{
    (void)p, (void)n, (void)kind, (void)max, (void)fn, (void)user;
    return missing(name);
}
bool(tn_tar_extract)(const char *archive, const char *folder, const tn_extract_opts *o)
{
    (void)folder, (void)o;
    return missing(archive);
}
bool(tn_zip_extract)(const char *archive, const char *folder, const tn_extract_opts *o)
{
    (void)folder, (void)o;
    return missing(archive);
}
#else

typedef struct {
    const char *name; /* for messages */
    const void *mem;  /* NULL: `name` is a path */
    size_t n;
    tn__archive_kind kind;
    uint64_t max_bytes, max_entries;
} source;

/* What to do with an entry that is fine; `a` is positioned at its data. */
typedef struct walk walk;
struct walk {
    const source *s;
    bool (*entry)(walk *w, struct archive *a, const char *name, bool folder);
    void *user;
    tn__archive_fn *fn;
    const char *folder;
    uint64_t bytes; /* so far, of all files */
};

static bool fail_archive(const source *s, struct archive *a)
{
    const char *text = archive_error_string(a);
    if (archive_errno(a) == ENOMEM) return tn__fail_nomem();
    return tn__fail(archive_errno(a) == ENOENT || archive_errno(a) == EACCES ? TN_EIO : TN_EFORMAT,
                    "%s: %s: %s", s->kind == TN__TAR ? "tar" : "zip", s->name,
                    text ? text : "broken archive");
}

static bool safe_name(const char *name)
{
    if (!name || !*name || *name == '/' || strchr(name, '\\')) return false;
    for (const char *p = name; *p;) {
        const size_t n = strcspn(p, "/");
        if (n == 2 && p[0] == '.' && p[1] == '.') return false;
        p += n;
        while (*p == '/') p++;
    }
    return true;
}

/* NULL and an error for what is refused. */
static const char *check_entry(const source *s, struct archive_entry *e)
{
    const char *what = s->kind == TN__TAR ? "tar" : "zip", *name = archive_entry_pathname(e);
    const unsigned type = (unsigned)archive_entry_filetype(e);
    if (!safe_name(name))
        tn__fail(TN_EFORMAT,
                 "%s: %s: entry \"%.200s\": absolute, with '..' or '\\', or empty: refused", what,
                 s->name, name ? name : "");
    else if (archive_entry_symlink(e) || archive_entry_hardlink(e) ||
             (type != AE_IFREG && type != AE_IFDIR))
        tn__fail(TN_EFORMAT, "%s: %s: entry \"%.200s\": a link or a special file: refused", what,
                 s->name, name);
    else
        return name;
    return NULL;
}

static struct archive *open_archive(const source *s)
{
    struct archive *a = archive_read_new();
    if (!a) {
        tn__fail_nomem();
        return NULL;
    }
    int rc;
    if (s->kind == TN__TAR) {
        rc = archive_read_support_format_tar(a);
        archive_read_support_filter_gzip(a);
        archive_read_support_filter_bzip2(a);
        archive_read_support_filter_xz(a);
    } else {
        rc = archive_read_support_format_zip_seekable(a);
    }
    if (rc == ARCHIVE_OK)
        rc = s->mem ? archive_read_open_memory(a, s->mem, s->n)
                    : archive_read_open_filename(a, s->name, 1 << 16);
    if (rc == ARCHIVE_OK) return a;
    fail_archive(s, a);
    archive_read_free(a);
    return NULL;
}

static bool walk_all(walk *w)
{
    const source *s = w->s;
    struct archive_entry *e;
    struct archive *a = open_archive(s);
    bool ok = a != NULL;
    uint64_t entries = 0;
    w->bytes = 0;
    while (ok) {
        const int rc = archive_read_next_header(a, &e);
        if (rc == ARCHIVE_EOF) break;
        if (rc != ARCHIVE_OK && rc != ARCHIVE_WARN) {
            ok = fail_archive(s, a);
        } else if (++entries > s->max_entries) {
            ok = tn__fail(TN_EFORMAT, "archive: %s: more than %llu entries", s->name,
                          (unsigned long long)s->max_entries);
        } else {
            const char *name = check_entry(s, e);
            ok = name && w->entry(w, a, name, archive_entry_filetype(e) == AE_IFDIR);
        }
    }
    if (ok && entries == 0 && s->kind == TN__TAR && archive_format(a) == 0)
        ok = tn__fail(TN_EFORMAT, "tar: %s: no archive", s->name);
    if (a) archive_read_free(a);
    return ok;
}

/* The next bytes of an entry: 1 some, 0 the end, -1 an error is pending. */
static int next_bytes(walk *w, struct archive *a, void *p, size_t room, size_t *n)
{
    const la_ssize_t k = archive_read_data(a, p, room);
    if (k < 0) {
        fail_archive(w->s, a);
        return -1;
    }
    *n = (size_t)k;
    w->bytes += *n;
    if (w->bytes > w->s->max_bytes) {
        tn__fail(TN_EFORMAT, "archive: %s: unpacked files have more than the limit of %llu bytes",
                 w->s->name, (unsigned long long)w->s->max_bytes);
        return -1;
    }
    return k > 0;
}

static bool entry_to_memory(walk *w, struct archive *a, const char *name, bool folder)
{
    char block[16384];
    size_t n;
    int more;
    tn__buf b = {0};
    if (folder) return true;
    while ((more = next_bytes(w, a, block, sizeof block, &n)) > 0)
        if (!tn__buf_put(&b, block, n)) break;
    const bool ok = more == 0 && w->fn(w->user, name, b.data ? b.data : "", b.len);
    tn__buf_free(&b);
    return ok;
}

static bool entry_checked(walk *w, struct archive *a, const char *name, bool folder)
{
    char block[16384];
    size_t n;
    int more = 0;
    (void)name;
    while (!folder && (more = next_bytes(w, a, block, sizeof block, &n)) > 0) {
    }
    return more == 0;
}

/* Makes the folders of name below w->folder; links on the way are refused.  Gives the full path, own. */
static char *place(walk *w, const char *name, bool folder)
{
    char *path = tn__format("%s/%s", w->folder, name);
    struct stat st;
    if (!path) return NULL;
    for (char *p = path + strlen(w->folder) + 1;; p++) {
        if (*p != '/' && !(*p == '\0' && folder)) {
            if (*p) continue;
            return path;
        }
        const char end = *p;
        *p = '\0';
        if (mkdir(path, 0777) != 0 &&
            (errno != EEXIST || lstat(path, &st) != 0 || !S_ISDIR(st.st_mode))) {
            tn__fail(TN_EIO, "%s: cannot make this folder: %s", path,
                     errno == EEXIST ? "something else has its name" : strerror(errno));
            break;
        }
        *p = end;
        if (!end) return path;
    }
    tn__free(path);
    return NULL;
}

static bool entry_to_file(walk *w, struct archive *a, const char *name, bool folder)
{
    char block[16384];
    size_t n = 0;
    int more = 0;
    char *path = place(w, name, folder);
    if (!path || folder) {
        tn__free(path);
        return path != NULL;
    }
    tn__out o = {.fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0666),
                 .path = path};
    bool ok = o.fd >= 0 || tn__fail(TN_EIO, "%s: open: %s", path, strerror(errno));
    while (ok && (more = next_bytes(w, a, block, sizeof block, &n)) > 0)
        ok = tn__out_put(&o, block, n);
    ok = ok && more == 0;
    if (o.fd >= 0 && close(o.fd) != 0 && ok)
        ok = tn__fail(TN_EIO, "%s: close: %s", path, strerror(errno));
    tn__free(path);
    return ok;
}

static bool each(const source *s, tn__archive_fn *fn, void *user)
{
    walk w = {.s = s, .entry = entry_to_memory, .user = user, .fn = fn};
    return walk_all(&w);
}

bool tn__archive_each(const char *path, tn__archive_kind kind, uint64_t max_bytes,
                      tn__archive_fn *fn, void *user)
{
    const source s = {
        .name = path, .kind = kind, .max_bytes = max_bytes, .max_entries = DEFAULT_ENTRIES};
    return each(&s, fn, user);
}

bool tn__archive_each_in(const void *p, size_t n, const char *name, tn__archive_kind kind,
                         uint64_t max_bytes, tn__archive_fn *fn, void *user)
{
    const source s = {.name = name,
                      .mem = p,
                      .n = n,
                      .kind = kind,
                      .max_bytes = max_bytes,
                      .max_entries = DEFAULT_ENTRIES};
    return each(&s, fn, user);
}

static bool extract(const char *op, const char *archive, tn__archive_kind kind, const char *folder,
                    const tn_extract_opts *o)
{
    tn__enter(op);
    bool ok = archive && folder
                  ? true
                  : tn__fail(TN_ENULL, "%s: %s is NULL", op, archive ? "folder" : "archive");
    const source s = {.name = archive,
                      .kind = kind,
                      .max_bytes = o && o->max_bytes ? o->max_bytes : DEFAULT_BYTES,
                      .max_entries = o && o->max_entries ? o->max_entries : DEFAULT_ENTRIES};
    walk w = {.s = &s, .entry = entry_checked, .folder = folder};
    ok = ok && walk_all(&w) && tn__folder_make(folder);
    w.entry = entry_to_file;
    ok = ok && walk_all(&w);
    tn__leave();
    return ok;
}

bool(tn_tar_extract)(const char *archive, const char *folder, const tn_extract_opts *o)
{
    return extract("tn_tar_extract", archive, TN__TAR, folder, o);
}

bool(tn_zip_extract)(const char *archive, const char *folder, const tn_extract_opts *o)
{
    return extract("tn_zip_extract", archive, TN__ZIP, folder, o);
}
#endif
