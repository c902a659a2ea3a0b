/* SPDX-License-Identifier: MIT */
/*
 * Compilation; linear code goes to llvm_compile.c.  C source to a shared object through the system's C compiler: the host's option "cc", else the first of
 * cc, gcc, clang.  The source goes in through a memory file as standard input, messages come back through
 * another; only the output needs a place in the file system, in a folder of mode 0700 that goes away again.
 *
 * Pure and [any]: equal source, arch and compiler give equal bytes.  The process is made by posix_spawn,
 * never by fork, so a host with many threads or much memory pays nothing.
 */
#define _GNU_SOURCE
#include "llvm_api.h"
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { MAX_ARGV = 80, MAX_WORDS = 16 };

/* Integers wrap, floats keep their order, kernels reinterpret memory; no start-up files, since a kernel
 * has no constructors; no build id, so that the bytes depend on the source alone. */
static const char *const flags[] = {"-O2",
                                    "-std=gnu11",
                                    "-fPIC",
                                    "-shared",
                                    "-nostartfiles",
                                    "-pipe",
                                    "-fwrapv",
                                    "-fno-strict-aliasing",
                                    "-fno-math-errno",
                                    "-ffp-contract=off",
                                    "-fno-trapping-math",
                                    "-fno-ident",
                                    "-fno-asynchronous-unwind-tables",
                                    "-Wno-psabi",
                                    "-Wl,--build-id=none",
                                    "-Wl,-z,noexecstack"};

typedef struct {
    char dir[512], out[560]; /* folder, output file */
    int src, log;            /* memory files */
    char *words;             /* the compiler's name and its own arguments, split in place */
    char *feature_text;      /* -march and -m flags */
} job;

/* ---- finding the compiler ---- */

static const char *chosen(void)
{
    const char *cc = cpu__host->option ? cpu__host->option(cpu__host->ctx, "cc") : NULL;
    return cc && cc[0] ? cc : NULL;
}

static bool find_in_path(const char *name, char *out, size_t cap)
{
    if (strchr(name, '/')) {
        snprintf(out, cap, "%s", name);
        return !access(name, X_OK);
    }
    const char *path = getenv("PATH");
    if (!path || !path[0]) path = "/usr/local/bin:/usr/bin:/bin";
    while (*path) {
        size_t n = strcspn(path, ":");
        int w = snprintf(out, cap, "%.*s/%s", n ? (int)n : 1, n ? path : ".", name);
        if (w > 0 && (size_t)w < cap && !access(out, X_OK)) return true;
        path += n;
        if (*path) path++;
    }
    return false;
}

void cpu__compiler_path(char *out, size_t cap)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    const char *cc = chosen();
    if (cc) {
        char first[256];
        snprintf(first, sizeof first, "%.*s", (int)strcspn(cc, " "), cc);
        if (find_in_path(first, out, cap)) return;
    } else {
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            if (find_in_path(names[i], out, cap)) return;
    }
    out[0] = 0;
}

/* ---- small files ---- */

static int memory_file(void)
{
    int fd = memfd_create("tenon", MFD_CLOEXEC);
    if (fd >= 0) return fd;
    char name[] = "/tmp/tenon-XXXXXX";
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    return fd;
}

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR) continue;
        if (w <= 0) return false;
        p += w;
        n -= (size_t)w;
    }
    return lseek(fd, 0, SEEK_SET) == 0;
}

/* The whole of an open file, in host memory with `extra` bytes of room after it, NUL-terminated. */
static tnp_rc read_all(int fd, size_t extra, tnp_blob *out, tnp_err *e)
{
    struct stat st;
    if (fstat(fd, &st) || lseek(fd, 0, SEEK_SET) < 0)
        return cpu__fail(e, TNP_E_INTERNAL, errno, "CPU: compiler output: %s", strerror(errno));
    size_t n = (size_t)st.st_size, got = 0;
    char *p = cpu__take(n + extra + 1);
    if (!p)
        return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for %zu bytes of compiler output",
                         n);
    while (got < n) {
        ssize_t r = read(fd, p + got, n - got);
        if (r < 0 && errno == EINTR) continue;
        if (r <= 0) break;
        got += (size_t)r;
    }
    out->data = p;
    out->len = got;
    return TNP_OK;
}

static bool make_dir(job *j)
{
    const char *const places[] = {getenv("TMPDIR"), "/tmp", "/dev/shm", "/var/tmp"};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        if (!places[i] || !places[i][0] || strlen(places[i]) > 480) continue;
        snprintf(j->dir, sizeof j->dir, "%s/tenon-XXXXXX", places[i]);
        if (!mkdtemp(j->dir)) continue;
        snprintf(j->out, sizeof j->out, "%s/k.so", j->dir);
        return true;
    }
    j->dir[0] = 0;
    return false;
}

static void clean(job *j)
{
    if (j->dir[0]) {
        unlink(j->out);
        rmdir(j->dir);
    }
    if (j->src >= 0) close(j->src);
    if (j->log >= 0) close(j->log);
    cpu__give(j->words);
    cpu__give(j->feature_text);
}

/* ---- arguments ---- */

static char *copy_text(const char *s)
{
    char *p = cpu__take(strlen(s) + 1);
    if (p) memcpy(p, s, strlen(s));
    return p;
}

/* Splits at spaces, in place. */
static int split(char *s, char **word, int max)
{
    int n = 0;
    for (char *t = strtok_r(s, " ", &s); t && n < max; t = strtok_r(NULL, " ", &s)) word[n++] = t;
    return n;
}

/* "" and the device's own arch mean this machine; else ARCH{,[-]FEATURE} becomes -march and -m flags. */
static tnp_rc arch_flags(job *j, const char *arch, char **argv, int *n, tnp_err *e)
{
    if (!arch || !arch[0] || !strcmp(arch, cpu__arch()) || !strcmp(arch, "native")) {
        argv[(*n)++] = (char *)(uintptr_t) "-march=native";
        return TNP_OK;
    }
    for (const char *c = arch; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("-_.,+", *c))
            return cpu__fail(e, TNP_E_ARG, 0, "CPU: arch \"%s\": letters, digits and - _ . + only",
                             arch);
    size_t cap = 2 * strlen(arch) + 16 * MAX_WORDS;
    j->feature_text = cpu__take(cap);
    char *copy = copy_text(arch), *rest = copy;
    if (!j->feature_text || !copy) {
        cpu__give(copy);
        return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for compiler arguments");
    }
    char *w = j->feature_text;
    int k = 0;
    for (char *t = strtok_r(rest, ",", &rest); t && k < MAX_WORDS;
         t = strtok_r(NULL, ",", &rest), k++) {
        argv[(*n)++] = w;
        w += sprintf(w, "%s%s",
                     !k          ? "-march="
                     : *t == '-' ? "-mno-"
                                 : "-m",
                     k && *t == '-' ? t + 1 : t) +
             1;
    }
    cpu__give(copy);
    return TNP_OK;
}

/* A copy of the environment with English messages; only the array is new. */
static char **english(void)
{
    size_t n = 0, w = 0;
    while (environ && environ[n]) n++;
    char **e = cpu__take((n + 2) * sizeof *e);
    if (!e) return NULL;
    for (size_t i = 0; i < n; i++)
        if (strncmp(environ[i], "LC_ALL=", 7)) e[w++] = environ[i];
    e[w] = (char *)(uintptr_t) "LC_ALL=C";
    return e;
}

/* ---- running it ---- */

/* Signals as a fresh process has them: a host that ignores SIGCHLD would break the compiler's driver. */
static int start(pid_t *pid, const job *j, char **argv)
{
    posix_spawn_file_actions_t fa;
    posix_spawnattr_t at;
    sigset_t none, reset;
    int err = posix_spawn_file_actions_init(&fa);
    if (err) return err;
    err = posix_spawnattr_init(&at);
    if (err) {
        posix_spawn_file_actions_destroy(&fa);
        return err;
    }
    sigemptyset(&none);
    sigemptyset(&reset);
    sigaddset(&reset, SIGCHLD);
    sigaddset(&reset, SIGPIPE);
    posix_spawnattr_setsigmask(&at, &none);
    posix_spawnattr_setsigdefault(&at, &reset);
    posix_spawnattr_setflags(&at, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    posix_spawn_file_actions_adddup2(&fa, j->src, 0);
    posix_spawn_file_actions_adddup2(&fa, j->log, 1);
    posix_spawn_file_actions_adddup2(&fa, j->log, 2);
    char **env = english();
    err = posix_spawnp(pid, argv[0], &fa, &at, argv, env ? env : environ);
    cpu__give(env);
    posix_spawnattr_destroy(&at);
    posix_spawn_file_actions_destroy(&fa);
    return err;
}

/* Exit status of a child, -1 when it was killed; 0 when someone else took the status. */
static int finish(pid_t pid)
{
    int st;
    while (waitpid(pid, &st, 0) < 0)
        if (errno != EINTR) return 0;
    return WIFEXITED(st) ? WEXITSTATUS(st) : -1;
}

static tnp_rc no_compiler(const char *cc, int err, tnp_err *e)
{
    if (cc)
        return cpu__fail(e, TNP_E_DRIVER, err,
                         "CPU: C compiler \"%s\" (CC) cannot be started: %s: correct CC, or run "
                         "with DEV=INTERP, "
                         "which needs no compiler",
                         cc, strerror(err));
    return cpu__fail(
        e, TNP_E_DRIVER, err,
        "CPU: no C compiler (tried cc, gcc, clang): install one (Debian: apt-get install gcc), or "
        "run with DEV=INTERP, which needs no compiler");
}

/* The compiler ran and there is no kernel: `how` says what it did. */
static tnp_rc refused(int code, const char *how, tnp_err *e)
{
    const char *cc = chosen();
    return cpu__fail(e, TNP_E_COMPILE, code,
                     "CPU: C compiler %s%s%s %s: set CC to %sgcc or clang (Debian: apt-get install "
                     "gcc), or run with DEV=INTERP, which needs no compiler",
                     cc ? "\"" : "", cc ? cc : "of the system", cc ? "\" (CC)" : "", how,
                     cc ? "" : "another ");
}

/* Runs the compiler; *status is its exit status. */
static tnp_rc run(job *j, const tnp_compile *c, int *status, tnp_err *e)
{
    static const char *const names[] = {"cc", "gcc", "clang"};
    char *argv[MAX_ARGV], *word[MAX_WORDS];
    const char *cc = chosen();
    int nw = 1, n = 0;
    if (cc) {
        j->words = copy_text(cc);
        if (!j->words)
            return cpu__fail(e, TNP_E_NOMEM, 0, "CPU: no host memory for compiler arguments");
        nw = split(j->words, word, MAX_WORDS);
        if (!nw) return no_compiler(cc, ENOENT, e);
    }
    for (int i = 0; i < nw; i++) argv[n++] = cc ? word[i] : NULL;
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        argv[n++] = (char *)(uintptr_t)flags[i];
    tnp_rc rc = arch_flags(j, c->arch, argv, &n, e);
    if (rc) return rc;
    static const char *const tail[] = {"-x", "c", "-", "-o"};
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++) argv[n++] = (char *)(uintptr_t)tail[i];
    argv[n++] = j->out;
    argv[n++] = (char *)(uintptr_t) "-lm";
    argv[n] = NULL;
    pid_t pid;
    int err = 0;
    for (size_t i = 0; i < (cc ? 1 : sizeof names / sizeof *names); i++) {
        if (!cc) argv[0] = (char *)(uintptr_t)names[i];
        err = start(&pid, j, argv);
        if (err != ENOENT && err != EACCES) break;
    }
    if (err) return no_compiler(cc, err, e);
    *status = finish(pid);
    return TNP_OK;
}

/* The output file with its trailer. */
static tnp_rc collect(const job *j, tnp_blob *bin, tnp_err *e)
{
    int fd = open(j->out, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return refused(errno, "left no output", e);
    tnp_rc rc = read_all(fd, sizeof(cpu__trailer), bin, e);
    close(fd);
    if (rc) return rc;
    cpu__trailer t = {.magic = CPU_TRAILER_MAGIC, .len = bin->len};
    cpu__hash(bin->data, bin->len, t.hash);
    memcpy((char *)bin->data + bin->len, &t, sizeof t);
    bin->len += sizeof t;
    return TNP_OK;
}

tnp_rc cpu__compile(const tnp_compile *c, tnp_blob *bin, tnp_blob *log, tnp_err *e)
{
    job j = {.src = -1, .log = -1};
    int status = 0;
    *bin = (tnp_blob){0};
    if (log) *log = (tnp_blob){0};
    if (c->flags)
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0, "CPU: compile flags %#x: none is known",
                         c->flags);
    if (c->dialect && !strcmp(c->dialect, "linear")) return cpu__llvm_compile(c, bin, log, e);
    if (!c->dialect || strcmp(c->dialect, "gnu-c"))
        return cpu__fail(e, TNP_E_UNSUPPORTED, 0,
                         "CPU: dialect \"%s\": only gnu-c and linear are compiled here",
                         c->dialect ? c->dialect : "");
    j.src = memory_file();
    j.log = memory_file();
    tnp_rc rc = TNP_OK;
    if (j.src < 0 || j.log < 0 || !make_dir(&j) || !write_all(j.src, c->src, c->len))
        rc = cpu__fail(
            e, TNP_E_INTERNAL, errno,
            "CPU: temporary files for the C compiler: %s: set TMPDIR to a writable folder",
            strerror(errno));
    if (!rc) rc = run(&j, c, &status, e);
    if (!rc && log) rc = read_all(j.log, 0, log, e);
    if (!rc && status) {
        char how[64];
        snprintf(how, sizeof how,
                 status < 0 ? "was killed" : "refuses the kernel's source (status %d)", status);
        rc = refused(status, how, e);
    }
    if (!rc) rc = collect(&j, bin, e);
    clean(&j);
    return rc;
}
