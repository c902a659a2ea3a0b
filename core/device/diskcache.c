/* SPDX-License-Identifier: MIT */
/*
 * The disk cache: one SQLite database (write-ahead log) in TENON_CACHE, $XDG_CACHE_HOME/tenon or
 * ~/.cache/tenon.  It holds compiled code, so its folder must be our own and closed to others.
 *
 * Nothing here fails the caller: without a usable folder, or when the disk is full, everything works and one
 * line in the log says so.  A database that turns out damaged is renamed aside with its -wal and -shm, under
 * a lock file, and made anew.  Its size is bounded: beyond the limit the entries used longest ago go.
 *
 * One connection a process, under a lock; it is closed before a fork.
 */
#define _GNU_SOURCE
#include "device/module.h"
#include <string.h>

#ifdef TN_HAVE_SQLITE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { SCHEMA = 1, BUSY_MS = 2000, MAX_ENTRY = 64 << 20, CHECK_EVERY = 64 };
static const int64_t limit_bytes = 512ll
                                   << 20; /* of all values; half of it stays after a clean-up */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static sqlite3 *db;
static sqlite3_stmt *get_stmt, *put_stmt, *use_stmt;
static bool gone; /* switched off until the process ends or the folder changes */
static int64_t puts_left;
static char opened_for[PATH_MAX]; /* folder */

/* ---- the folder ---- */

static bool folder(char *out, size_t cap)
{
    const char *own = tn_context_text(TN_CACHE), *xdg = getenv("XDG_CACHE_HOME"),
               *home = getenv("HOME");
    int n = -1;
    if (own[0])
        n = snprintf(out, cap, "%s", own);
    else if (xdg && xdg[0] == '/')
        n = snprintf(out, cap, "%s/tenon", xdg);
    else if (home && home[0] == '/')
        n = snprintf(out, cap, "%s/.cache/tenon", home);
    return n > 0 && (size_t)n < cap - 64;
}

/* mkdir -p; the last one with mode 0700. */
static bool make_folder(char *path)
{
    for (char *p = path + 1; *p; p++) {
        if (*p != '/') continue;
        *p = 0;
        int err = mkdir(path, 0777) && errno != EEXIST;
        *p = '/';
        if (err) return false;
    }
    return !mkdir(path, 0700) || errno == EEXIST;
}

/* One warning a process, and no cache from then on. */
static bool give_up(const char *dir, const char *why)
{
    static const char once;
    gone = true;
    tn__log_once(&once, TN_LOG_WARN,
                 "disk cache %s: %s: kernels are compiled again in every process (TENON_CACHE "
                 "names another folder, CACHELEVEL=0 switches it off)",
                 dir, why);
    return false;
}

static bool check_folder(char *dir)
{
    struct stat st;
    if (!make_folder(dir) || stat(dir, &st)) return give_up(dir, strerror(errno));
    if (!S_ISDIR(st.st_mode)) return give_up(dir, "is not a folder");
    if (st.st_uid != geteuid()) return give_up(dir, "belongs to another user");
    if (st.st_mode & (S_IWGRP | S_IWOTH))
        return give_up(dir, "can be written by others: chmod 700 it");
    if (access(dir, W_OK | X_OK)) return give_up(dir, "cannot be written");
    return true;
}

/* ---- opening ---- */

static void close_db(void)
{
    sqlite3_finalize(get_stmt);
    sqlite3_finalize(put_stmt);
    sqlite3_finalize(use_stmt);
    sqlite3_close(db);
    db = NULL;
    get_stmt = put_stmt = use_stmt = NULL;
}

static bool damaged(int rc)
{
    return (rc & 0xff) == SQLITE_CORRUPT || (rc & 0xff) == SQLITE_NOTADB;
}

static int prepare(const char *sql, sqlite3_stmt **out)
{
    return sqlite3_prepare_v3(db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL);
}

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS entry(tab TEXT NOT NULL, key BLOB NOT NULL, value BLOB NOT NULL,"
    " sum BLOB NOT NULL, used INTEGER NOT NULL, PRIMARY KEY(tab, key));"
    "CREATE INDEX IF NOT EXISTS by_use ON entry(used);";

static int set_up(const char *file)
{
    int version = -1;
    sqlite3_stmt *s = NULL;
    int rc = sqlite3_open_v2(
        file, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX, NULL);
    if (rc) return rc;
    sqlite3_busy_timeout(db, BUSY_MS);
    rc = sqlite3_exec(db, "PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;", NULL, NULL, NULL);
    if (!rc) rc = sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &s, NULL);
    if (!rc && sqlite3_step(s) == SQLITE_ROW) version = sqlite3_column_int(s, 0);
    int rf = sqlite3_finalize(s);
    if (!rc) rc = rf;
    if (!rc && version != SCHEMA) {
        if (version) rc = sqlite3_exec(db, "DROP TABLE IF EXISTS entry", NULL, NULL, NULL);
        char sql[64];
        snprintf(sql, sizeof sql, "PRAGMA user_version=%d", SCHEMA);
        if (!rc) rc = sqlite3_exec(db, sql, NULL, NULL, NULL);
    }
    if (!rc) rc = sqlite3_exec(db, schema, NULL, NULL, NULL);
    if (!rc) rc = prepare("SELECT value, sum, used FROM entry WHERE tab=?1 AND key=?2", &get_stmt);
    if (!rc)
        rc = prepare(
            "INSERT OR REPLACE INTO entry(tab, key, value, sum, used) VALUES(?1, ?2, ?3, ?4, ?5)",
            &put_stmt);
    if (!rc) rc = prepare("UPDATE entry SET used=?3 WHERE tab=?1 AND key=?2", &use_stmt);
    return rc;
}

/* Changing a new file to WAL does not wait for others that do the same: again until they are done. */
static int set_up_patiently(const char *file)
{
    enum { PAUSE_MS = 10 };
    int rc = set_up(file);
    for (int ms = 0; (rc & 0xff) == SQLITE_BUSY && ms < BUSY_MS; ms += PAUSE_MS) {
        close_db();
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
        rc = set_up(file);
    }
    return rc;
}

static void aside(const char *from, const char *suffix, const char *stamp)
{
    char a[PATH_MAX + 32], b[PATH_MAX + 64];
    snprintf(a, sizeof a, "%s%s", from, suffix);
    snprintf(b, sizeof b, "%s.damaged-%s%s", from, stamp, suffix);
    rename(a, b);
}

/* Under the lock file, and only if it is damaged still: another process may have done it already. */
static int rebuild(const char *dir, const char *file)
{
    char name[PATH_MAX + 32], stamp[32];
    snprintf(name, sizeof name, "%s/lock", dir);
    int fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd >= 0) flock(fd, LOCK_EX);
    close_db();
    int rc = set_up_patiently(file);
    if (damaged(rc)) {
        close_db();
        snprintf(stamp, sizeof stamp, "%lld-%ld", (long long)time(NULL), (long)getpid());
        /* the file itself last: from then on others make a new one with a log of its own */
        static const char *const suffix[] = {"-wal", "-shm", ""};
        for (size_t i = 0; i < TN_LEN(suffix); i++) aside(file, suffix[i], stamp);
        tn__log(TN_LOG_WARN, "disk cache %s was damaged: it is now %s.damaged-%s and starts empty",
                file, file, stamp);
        rc = set_up_patiently(file);
    }
    if (fd >= 0) close(fd);
    return rc;
}

/* With the lock held.  The connection, or false: there is no cache. */
static bool ready(void)
{
    char dir[PATH_MAX], file[PATH_MAX + 32];
    if (tn_context_get(TN_CACHELEVEL) <= 0 || !folder(dir, sizeof dir)) return false;
    bool same = !strcmp(dir, opened_for);
    if (same && (db || gone)) return db && !gone;
    close_db();
    gone = false;
    snprintf(opened_for, sizeof opened_for, "%s", dir);
    if (!check_folder(dir)) return false;
    snprintf(file, sizeof file, "%s/cache.db", dir);
    int rc = set_up_patiently(file);
    if (damaged(rc)) rc = rebuild(dir, file);
    if (!rc) {
        puts_left = CHECK_EVERY;
        return true;
    }
    const char *why = db ? sqlite3_errmsg(db) : sqlite3_errstr(rc);
    give_up(dir, why);
    close_db();
    return false;
}

/* After an error in the middle: a damaged database is made anew, a full disk ends the cache. */
static void trouble(int rc)
{
    char file[PATH_MAX + 32];
    if ((rc & 0xff) == SQLITE_BUSY || (rc & 0xff) == SQLITE_LOCKED) return;
    snprintf(file, sizeof file, "%s/cache.db", opened_for);
    if (damaged(rc)) {
        rc = rebuild(opened_for, file);
        if (!rc) return;
    }
    give_up(opened_for, sqlite3_errstr(rc));
    close_db();
}

/* ---- entries ---- */

static void bind(sqlite3_stmt *s, const char *table, const tn__hash *key)
{
    sqlite3_bind_text(s, 1, table, -1, SQLITE_STATIC);
    sqlite3_bind_blob(s, 2, key, sizeof *key, SQLITE_STATIC);
}

/* Least recently used ones out, when the values are too many. */
static void bound_size(void)
{
    sqlite3_stmt *s = NULL;
    int64_t bytes = 0;
    puts_left = CHECK_EVERY;
    if (!sqlite3_prepare_v2(db, "SELECT sum(length(value)) FROM entry", -1, &s, NULL) &&
        sqlite3_step(s) == SQLITE_ROW)
        bytes = sqlite3_column_int64(s, 0);
    sqlite3_finalize(s);
    if (bytes <= limit_bytes) return;
    char sql[300];
    snprintf(sql, sizeof sql,
             "DELETE FROM entry WHERE rowid IN (SELECT rowid FROM (SELECT rowid, "
             "sum(length(value)) OVER (ORDER BY used "
             "DESC, rowid) AS total FROM entry) WHERE total > %lld)",
             (long long)limit_bytes / 2);
    sqlite3_exec(db, sql, NULL, NULL, NULL);
    sqlite3_exec(db, "VACUUM; PRAGMA wal_checkpoint(TRUNCATE);", NULL, NULL, NULL);
}

bool tn__cache_get(const char *table, tn__hash key, void **data, size_t *len)
{
    *data = NULL;
    *len = 0;
    int64_t used = 0, now = (int64_t)time(NULL);
    pthread_mutex_lock(&lock);
    if (ready()) {
        bind(get_stmt, table, &key);
        int rc = sqlite3_step(get_stmt);
        if (rc == SQLITE_ROW) {
            const void *v = sqlite3_column_blob(get_stmt, 0);
            size_t n = (size_t)sqlite3_column_bytes(get_stmt, 0);
            tn__hash sum = tn__hash_bytes(v ? v : "", n);
            bool whole = sqlite3_column_bytes(get_stmt, 1) == sizeof sum &&
                         !memcmp(sqlite3_column_blob(get_stmt, 1), &sum, sizeof sum);
            bool clean = tn_ok();
            if (whole && (*data = tn__alloc(n ? n : 1))) {
                if (n) memcpy(*data, v, n);
                *len = n;
            }
            if (clean && !tn_ok()) tn_clear_error();
            used = sqlite3_column_int64(get_stmt, 2);
        }
        sqlite3_reset(get_stmt);
        if (rc != SQLITE_ROW && rc != SQLITE_DONE)
            trouble(rc);
        else if (*data &&
                 now - used > 86400) { /* a day is exact enough, and reading stays reading */
            bind(use_stmt, table, &key);
            sqlite3_bind_int64(use_stmt, 3, now);
            sqlite3_step(use_stmt);
            sqlite3_reset(use_stmt);
        }
    }
    pthread_mutex_unlock(&lock);
    return *data != NULL;
}

void tn__cache_put(const char *table, tn__hash key, const void *data, size_t len)
{
    if (len > MAX_ENTRY) return;
    tn__hash sum = tn__hash_bytes(data, len);
    pthread_mutex_lock(&lock);
    if (ready()) {
        bind(put_stmt, table, &key);
        sqlite3_bind_blob(put_stmt, 3, data, (int)len, SQLITE_STATIC);
        sqlite3_bind_blob(put_stmt, 4, &sum, sizeof sum, SQLITE_STATIC);
        sqlite3_bind_int64(put_stmt, 5, (int64_t)time(NULL));
        int rc = sqlite3_step(put_stmt);
        sqlite3_reset(put_stmt);
        sqlite3_clear_bindings(put_stmt);
        if (rc != SQLITE_DONE)
            trouble(rc);
        else if (!--puts_left)
            bound_size();
    }
    pthread_mutex_unlock(&lock);
}

void tn__diskcache_close(void)
{
    pthread_mutex_lock(&lock);
    close_db();
    gone = false;
    opened_for[0] = 0;
    pthread_mutex_unlock(&lock);
}

/* SQLite's connections must not cross a fork: it is closed before, and opened again where it is needed. */
void tn__diskcache_before_fork(void)
{
    pthread_mutex_lock(&lock);
    close_db();
    opened_for[0] = 0;
}

void tn__diskcache_after_fork(void) { pthread_mutex_unlock(&lock); }
#else

bool tn__cache_get(const char *table, tn__hash key, void **data, size_t *len)
{
    (void)table, (void)key;
    *data = NULL;
    *len = 0;
    return false;
}

void tn__cache_put(const char *table, tn__hash key, const void *data, size_t len)
{
    (void)table, (void)key, (void)data, (void)len;
}

void tn__diskcache_close(void) {}
void tn__diskcache_before_fork(void) {}
void tn__diskcache_after_fork(void) {}
#endif
