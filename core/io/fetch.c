/* SPDX-License-Identifier: MIT */
/*
 * Downloads into the user's cache through libcurl.
 *
 * The file grows as NAME.part and takes its name when it is complete and its checksum is right, so a
 * file that has its name is whole.  A part is resumed by a range request with If-Range and the ETag or
 * date that the server gave for it (NAME.part.tag); a server that answers with the whole file
 * starts it again.  One process at a time works on a name (a lock on NAME.lock).  URLs are tried in order.
 */
#include "io/files.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <tenon/io.h>
#include <unistd.h>
#ifdef TN_HAVE_CURL
#include <curl/curl.h>
#endif

static bool alright(const char *c)
{
    return isalnum((unsigned char)*c) || *c == '.' || *c == '-' || *c == '_';
}

/* downloads/NAME in the cache; without a name: a hash of the URL and its last part. */
static char *target(const char *url, const char *name)
{
    char safe[64];
    if (name) return tn__cache_path("downloads/%s", name);
    const size_t len = strcspn(url, "?#");
    const char *last = url + len;
    while (last > url && last[-1] != '/') last--;
    size_t n = 0;
    for (; last < url + len && n < sizeof safe - 1; last++) safe[n++] = alright(last) ? *last : '_';
    safe[n] = '\0';
    tn__sha256 s;
    char hex[65];
    tn__sha256_begin(&s);
    tn__sha256_put(&s, url, strlen(url));
    tn__sha256_end(&s, hex);
    return tn__cache_path("downloads/%.16s-%s", hex, safe);
}

static bool name_fits(const char *name)
{
    const char *p = name;
    while (p && *p && alright(p)) p++;
    if (!name || (*name && !*p && *name != '.' && p - name < 200)) return true;
    return tn__fail(TN_EVALUE,
                    "tn_fetch: name \"%.80s\": only letters, digits and - _ . are allowed, not at "
                    "its start '.'",
                    name);
}

#ifndef TN_HAVE_CURL
char *(tn_fetch)(const char *url, const tn_fetch_opts *o)
{
    const char *name = o ? o->name : NULL;
    if (!url || !name_fits(name)) {
        if (!url) tn__fail(TN_ENULL, "tn_fetch: url is NULL");
        return NULL;
    }
    char *path = target(url, name);
    if (path && tn__file_exists(path)) return path;
    if (path)
        tn__fail(
            TN_EUNSUPPORTED,
            "tn_fetch: %s: this build has no libcurl: build with libcurl4-openssl-dev, or put the "
            "file at %s",
            url, path);
    tn__free(path);
    return NULL;
}
#else

typedef struct {
    CURL *curl;
    const char *url;
    char *path, *part, *tag_path; /* own */
    char tag[256];                /* validator of the part: ETag or Last-Modified */
    char new_tag[256];            /* of this answer */
    bool strong;                  /* new_tag is an ETag */
    int fd;                       /* of the part */
    uint64_t have;                /* bytes in the part when the request began */
    bool begun;                   /* the first byte of a body has come */
    int write_errno;
    char reason[CURL_ERROR_SIZE + 64];
} job;

static void init_curl(void) { curl_global_init(CURL_GLOBAL_DEFAULT); }

/* "Etag: x" -> x when the header's name is `name`. */
static bool header_is(const char *line, size_t n, const char *name, char *out, size_t room)
{
    const size_t k = strlen(name);
    if (n <= k || strncasecmp(line, name, k) != 0 || line[k] != ':') return false;
    size_t from = k + 1;
    while (from < n && isspace((unsigned char)line[from])) from++;
    while (n > from && isspace((unsigned char)line[n - 1])) n--;
    if (n - from >= room) return false;
    memcpy(out, line + from, n - from);
    out[n - from] = '\0';
    return true;
}

static size_t on_header(char *line, size_t size, size_t n, void *user)
{
    job *j = user;
    n *= size;
    if (n > 5 && strncasecmp(line, "HTTP/", 5) == 0) { /* a redirect's headers are not the file's */
        j->new_tag[0] = '\0';
        j->strong = false;
    }
    if (header_is(line, n, "etag", j->new_tag, sizeof j->new_tag)) {
        j->strong = strncmp(j->new_tag, "W/", 2) != 0;
        if (!j->strong) j->new_tag[0] = '\0';
    } else if (!j->strong) {
        header_is(line, n, "last-modified", j->new_tag, sizeof j->new_tag);
    }
    return n;
}

/* At the first byte: a whole answer starts the part again; its validator is kept beside it. */
static bool begin_body(job *j)
{
    long status = 0;
    j->begun = true;
    curl_easy_getinfo(j->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status == 206 && j->have) return lseek(j->fd, 0, SEEK_END) >= 0;
    j->have = 0;
    if (ftruncate(j->fd, 0) != 0 || lseek(j->fd, 0, SEEK_SET) < 0) return false;
    unlink(j->tag_path);
    if (!j->new_tag[0]) return true;
    const int fd = open(j->tag_path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    const size_t n = strlen(j->new_tag);
    if (fd >= 0 && write(fd, j->new_tag, n) != (ssize_t)n) unlink(j->tag_path);
    if (fd >= 0) close(fd);
    return true;
}

static size_t on_body(char *p, size_t size, size_t n, void *user)
{
    job *j = user;
    size_t done = 0;
    n *= size;
    errno = 0;
    if (!j->begun && !begin_body(j)) {
        j->write_errno = errno;
        return 0;
    }
    while (done < n) {
        const ssize_t k = write(j->fd, p + done, n - done);
        if (k < 0 && errno == EINTR) continue;
        if (k < 0) {
            j->write_errno = errno;
            return 0;
        }
        done += (size_t)k;
    }
    return n;
}

/* What is there of an earlier try, if the server's validator for it is known. */
static void look_at_part(job *j)
{
    struct stat st;
    j->tag[0] = '\0';
    j->have = 0;
    const int fd = open(j->tag_path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    const ssize_t n = read(fd, j->tag, sizeof j->tag - 1);
    close(fd);
    j->tag[n > 0 ? n : 0] = '\0';
    if (j->tag[0] && fstat(j->fd, &st) == 0) j->have = (uint64_t)st.st_size;
}

static struct curl_slist *set_range(job *j)
{
    char text[300];
    curl_easy_setopt(j->curl, CURLOPT_RANGE, NULL);
    if (!j->have) return NULL;
    snprintf(text, sizeof text, "%llu-", (unsigned long long)j->have);
    curl_easy_setopt(j->curl, CURLOPT_RANGE, text);
    snprintf(text, sizeof text, "If-Range: %s", j->tag);
    return curl_slist_append(NULL, text);
}

static void set_options(job *j, const tn_fetch_opts *o)
{
    CURL *c = j->curl;
#if LIBCURL_VERSION_NUM >= 0x075500
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS_STR, "http,https");
#else
    curl_easy_setopt(c, CURLOPT_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
    curl_easy_setopt(c, CURLOPT_REDIR_PROTOCOLS, (long)(CURLPROTO_HTTP | CURLPROTO_HTTPS));
#endif
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_FOLLOWLOCATION, 1L);
    curl_easy_setopt(c, CURLOPT_MAXREDIRS, 10L);
    curl_easy_setopt(c, CURLOPT_FAILONERROR, 1L);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "tenon");
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT,
                     o && o->connect_seconds > 0 ? (long)o->connect_seconds : 10L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 100L);
    curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, 30L);
    curl_easy_setopt(c, CURLOPT_ERRORBUFFER, j->reason);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, j);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, j);
}

/* One request.  True: the part is complete. */
static bool request(job *j, const char *url)
{
    long status = 0;
    look_at_part(j);
    j->begun = false;
    j->reason[0] = '\0';
    j->write_errno = 0;
    struct curl_slist *headers = set_range(j);
    curl_easy_setopt(j->curl, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(j->curl, CURLOPT_URL, url);
    const CURLcode rc = curl_easy_perform(j->curl);
    curl_slist_free_all(headers);
    curl_easy_setopt(j->curl, CURLOPT_HTTPHEADER, NULL);
    curl_easy_getinfo(j->curl, CURLINFO_RESPONSE_CODE, &status);
    if (rc == CURLE_OK) {
        if (!j->begun) return begin_body(j); /* an empty file */
        return true;
    }
    if (status == 416) { /* the part is complete or wrong: begin again next time */
        unlink(j->tag_path);
        snprintf(j->reason, sizeof j->reason, "HTTP 416: the part does not fit");
    } else if (j->write_errno) {
        snprintf(j->reason, sizeof j->reason, "write: %s", strerror(j->write_errno));
    } else if (!j->reason[0]) {
        snprintf(j->reason, sizeof j->reason, "%s", curl_easy_strerror(rc));
    }
    return false;
}

/* Unpacks the part in place where asked, compares its checksum, gives it its name. */
static bool finish(job *j, const tn_fetch_opts *o)
{
    size_t n = 0, raw_n = 0;
    void *raw = NULL;
    char hex[65];
    tn__sha256 s;
    tn__out out;
    bool ok = true;
    void *p = NULL;
    if (o && (o->gunzip || o->sha256) && !(p = tn__file_read(j->part, &n))) return false;
    if (o && o->gunzip) ok = (tn_gunzip)(p, n, &raw, &raw_n, NULL);
    if (ok && o && o->sha256) {
        tn__sha256_begin(&s);
        tn__sha256_put(&s, raw ? raw : p, raw ? raw_n : n);
        tn__sha256_end(&s, hex);
        if (strcasecmp(hex, o->sha256) != 0)
            ok = tn__fail(TN_EFORMAT,
                          "checksum: the SHA-256 is %s, not %s: another file or a broken one", hex,
                          o->sha256);
    }
    if (!ok) {
        unlink(j->part);
    } else if (raw) {
        ok = tn__out_open(&out, j->path);
        if (ok && !(ok = tn__out_put(&out, raw, raw_n)))
            tn__out_drop(&out);
        else if (ok)
            ok = tn__out_commit(&out);
        if (ok) unlink(j->part);
    } else if (rename(j->part, j->path) != 0) {
        ok = tn__fail(TN_EIO, "%s: rename: %s", j->path, strerror(errno));
    }
    if (ok || !tn__file_exists(j->part)) unlink(j->tag_path);
    tn__free(raw);
    tn__free(p);
    return ok;
}

/* One URL, several tries; its last reason is added to `reasons`.  A wrong checksum is one like others. */
static bool try_url(job *j, const char *url, const tn_fetch_opts *o, tn__buf *reasons)
{
    const int tries = o && o->tries > 0 ? o->tries : 2;
    bool complete = false;
    j->url = url;
    for (int i = 0; i < tries && !complete; i++) {
        j->fd = open(j->part, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (j->fd < 0) {
            snprintf(j->reason, sizeof j->reason, "cannot write the part: %s", strerror(errno));
            break;
        }
        complete = request(j, url);
        close(j->fd);
    }
    if (complete) {
        if (finish(j, o)) return true;
        tn__error e; /* the reason of one URL, not that of the call */
        tn__error_take(&e);
        snprintf(j->reason, sizeof j->reason, "%.*s", (int)sizeof j->reason - 1, e.msg);
    }
    tn__buf_printf(reasons, "; %s: %s", url, j->reason);
    return false;
}

static bool try_all(job *j, const tn_fetch_opts *o)
{
    tn__buf reasons = {0};
    bool ok = try_url(j, j->url, o, &reasons);
    for (size_t i = 0; !ok && o && o->mirrors && o->mirrors[i]; i++)
        ok = try_url(j, o->mirrors[i], o, &reasons);
    if (!ok) {
        if (reasons.failed || !reasons.data)
            tn__fail_nomem();
        else
            tn__fail(TN_EIO, "tn_fetch: no download%s", reasons.data);
    }
    tn__buf_free(&reasons);
    return ok;
}

/* Makes the folder, takes the lock, looks whether somebody else was faster. */
static bool locked(job *j, const tn_fetch_opts *o)
{
    bool ok = false;
    char *lock = tn__format("%s.lock", j->path);
    char *dir = tn__strndup(j->path, (size_t)(strrchr(j->path, '/') - j->path));
    int fd = -1;
    if (lock && dir && tn__folder_make(dir)) {
        fd = open(lock, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (fd < 0)
            tn__fail(TN_EIO, "%s: open: %s", lock, strerror(errno));
        else if (flock(fd, LOCK_EX) != 0)
            tn__fail(TN_EIO, "%s: flock: %s", lock, strerror(errno));
        else
            ok = tn__file_exists(j->path) || try_all(j, o);
    }
    if (fd >= 0) close(fd); /* the lock file stays: removing it would let two work on one name */
    tn__free(dir);
    tn__free(lock);
    return ok;
}

static char *fetch_now(const char *url, const tn_fetch_opts *o)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    if (!url || !*url) {
        tn__fail(TN_ENULL, "tn_fetch: url is %s", url ? "empty" : "NULL");
        return NULL;
    }
    if (!name_fits(o ? o->name : NULL)) return NULL;
    job j = {.url = url, .fd = -1};
    j.path = target(url, o ? o->name : NULL);
    if (!j.path || tn__file_exists(j.path)) return j.path;
    pthread_once(&once, init_curl);
    bool ok = false;
    j.part = tn__format("%s.part", j.path);
    j.tag_path = tn__format("%s.part.tag", j.path);
    j.curl = curl_easy_init();
    if (!j.curl) tn__fail_nomem();
    if (j.part && j.tag_path && j.curl) {
        set_options(&j, o);
        ok = locked(&j, o);
    }
    if (j.curl) curl_easy_cleanup(j.curl);
    tn__free(j.part);
    tn__free(j.tag_path);
    if (ok) return j.path;
    tn__free(j.path);
    return NULL;
}

char *(tn_fetch)(const char *url, const tn_fetch_opts *o)
{
    /* reasons of single URLs are read from the error record: an earlier error waits meanwhile */
    const bool pending = !tn_ok();
    tn__error old, own;
    if (pending) tn__error_take(&old);
    tn__enter("tn_fetch");
    char *path = fetch_now(url, o);
    tn__leave();
    if (pending) {
        if (!tn_ok()) tn__error_take(&own);
        tn__error_put(&old);
    }
    return path;
}
#endif
