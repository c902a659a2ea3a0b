/* SPDX-License-Identifier: MIT */
/*
 * tenon-plugin-check [options] PLUGIN.so: asks a plugin whether it keeps what tenon/plugin.h promises.
 *
 * Each check runs in a child with a time limit and reports through a pipe: first byte o (fine), f (failed) or s
 * (does not apply, always with the reason), then text.  The parent never loads the plugin.
 */
#define _GNU_SOURCE
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <regex.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

const char *plugin_path;
bool long_run;
static bool tap, strict_time, use_ops;
static const char *only, *xfail;
static double patience = 1;

static const struct {
    const char *name;
    const check_row *rows;
} lists[] = {{"load", load_checks},       {"enumerate", enum_checks}, {"memory", memory_checks},
             {"program", program_checks}, {"launch", launch_checks},  {"sync", sync_checks},
             {"process", process_checks}, {"graph", graph_checks},    {"other", other_checks}};

/* ---- in the child ---- */

static int report_fd = -1;
static char notes[600];

static void finish(char verdict, const char *fmt, va_list ap)
{
    char text[1200];
    text[0] = verdict;
    vsnprintf(text + 1, sizeof text - 1, fmt, ap);
    const ssize_t n = write(report_fd, text, strlen(text));
    _exit(n < 0);
}

void fail(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    finish('f', fmt, ap);
    va_end(ap);
    abort();
}

void skip(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    finish('s', fmt, ap);
    va_end(ap);
    abort();
}

static void fine(const char *fmt, ...) PRINTF(1, 2);
static void fine(const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    finish('o', fmt, ap);
    va_end(ap);
}

void note(const char *fmt, ...)
{
    const size_t n = strlen(notes);
    va_list ap;
    va_start(ap, fmt);
    if (n) snprintf(notes + n, sizeof notes - n, "; ");
    vsnprintf(notes + strlen(notes), sizeof notes - strlen(notes), fmt, ap);
    va_end(ap);
}

void late(const char *what, uint64_t ns, uint64_t limit_ns)
{
    if (ns <= limit_ns) return;
    const double ms = (double)ns * 1e-6, limit = (double)limit_ns * 1e-6;
    if (strict_time) fail("%s took %.1f ms: at most %.0f", what, ms, limit);
    note("%s took %.1f ms, the limit is %.0f", what, ms, limit);
}

/* ---- one check ---- */

typedef struct {
    char verdict; /* o f s, and t: it hung, c: it crashed */
    char text[1200];
    double seconds;
} outcome;

static void child(const check_row *r, int fd)
{
    report_fd = fd;
    setvbuf(stdout, NULL, _IONBF, 0);
    r->run();
    fine("%s", notes);
}

static void hear(int fd, uint64_t end, outcome *o, bool *hung)
{
    size_t n = 0;
    for (;;) {
        const uint64_t now = now_ns();
        struct pollfd p = {.fd = fd, .events = POLLIN};
        *hung = now >= end || poll(&p, 1, (int)((end - now) / 1000000) + 1) == 0;
        char buf[256];
        const ssize_t got = *hung ? 0 : read(fd, buf, sizeof buf);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return;
        for (ssize_t i = 0; i < got; i++) {
            if (!o->verdict)
                o->verdict = buf[i];
            else if (n + 1 < sizeof o->text)
                o->text[n++] = (unsigned char)buf[i] < 32 ? ' ' : buf[i];
        }
    }
}

static outcome run(const check_row *r)
{
    outcome o = {0};
    int fd[2], status = 0;
    bool hung = false;
    const uint64_t start = now_ns();
    if (pipe2(fd, O_CLOEXEC)) {
        perror("tenon-plugin-check: pipe");
        exit(2);
    }
    fflush(stdout);
    const pid_t pid = fork();
    if (pid < 0) {
        perror("tenon-plugin-check: fork");
        exit(2);
    }
    if (pid == 0) {
        setpgid(0, 0);
        close(fd[0]);
        child(r, fd[1]);
    }
    close(fd[1]);
    const double limit = (r->seconds ? r->seconds : 20) * patience * (long_run ? 6 : 1);
    hear(fd[0], start + (uint64_t)(limit * 1e9), &o, &hung);
    close(fd[0]);
    if (hung) kill(pid, SIGKILL);
    waitpid(pid, &status, 0);
    kill(-pid, SIGKILL); /* what it left behind */
    if (hung) {
        o.verdict = 't';
        snprintf(o.text, sizeof o.text, "no end after %.0f s", limit);
    } else if (WIFSIGNALED(status) && o.verdict != 'f') {
        o.verdict = 'c';
        snprintf(o.text, sizeof o.text, "crashed: %s", strsignal(WTERMSIG(status)));
    } else if (!o.verdict || (WEXITSTATUS(status) && o.verdict == 'o')) {
        o.verdict = 'c';
        snprintf(o.text, sizeof o.text, "the process ended with status %d, called by the plugin",
                 WEXITSTATUS(status));
    }
    o.seconds = (double)(now_ns() - start) * 1e-9;
    return o;
}

/* ---- names, --only, --xfail ---- */

static void title(const check_row *r, char *out, size_t n)
{
    if (r->number)
        snprintf(out, n, "%d %s: %s", r->number, r->group, r->name);
    else
        snprintf(out, n, "%s: %s", r->group, r->name);
}

static bool wanted(const char *name)
{
    static regex_t re;
    static bool ready;
    if (!only) return true;
    if (!ready && regcomp(&re, only, REG_EXTENDED | REG_NOSUB)) {
        fprintf(stderr, "tenon-plugin-check: --only %s: no regular expression\n", only);
        exit(2);
    }
    ready = true;
    return regexec(&re, name, 0, NULL, 0) == 0;
}

/* A line of the file: a check's number or a piece of its title; # begins a comment. */
static bool expected_to_fail(const check_row *r, const char *name)
{
    static FILE *f;
    char line[300];
    if (!xfail) return false;
    if (!f && !(f = fopen(xfail, "r"))) {
        fprintf(stderr, "tenon-plugin-check: --xfail %s: %s\n", xfail, strerror(errno));
        exit(2);
    }
    rewind(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "#\n")] = 0;
        size_t n = strlen(line);
        while (n && line[n - 1] == ' ') line[--n] = 0;
        char *end;
        const long number = strtol(line, &end, 10);
        if (n && !*end ? number == r->number : n && strstr(name, line)) return true;
    }
    return false;
}

/* ---- the whole ---- */

typedef struct {
    int passed, failed, skipped, xfailed, nth;
} tally;

static void show(tally *t, const check_row *r, const char *name, const outcome *o)
{
    const bool bad = strchr("ftc", o->verdict) != NULL, expected = expected_to_fail(r, name);
    const char *word = o->verdict == 's' ? "skip"
                       : bad && expected ? "xfail"
                       : expected        ? "FAIL"
                       : bad             ? "FAIL"
                                         : "ok";
    const char *text = expected && !bad && o->verdict == 'o' ? "passes, and was expected to fail"
                                                             : o->text;
    t->nth++;
    if (o->verdict == 's')
        t->skipped++;
    else if (bad && expected)
        t->xfailed++;
    else if (bad || expected)
        t->failed++;
    else
        t->passed++;
    if (tap) {
        printf("%sok %d - %s", strcmp(word, "FAIL") && strcmp(word, "xfail") ? "" : "not ", t->nth,
               name);
        if (o->verdict == 's') printf(" # SKIP %s", text);
        if (!strcmp(word, "xfail"))
            printf(" # TO"
                   "DO expected to fail: %s",
                   text);
        printf("\n");
        if (*text && o->verdict != 's' && strcmp(word, "xfail") != 0) printf("# %s\n", text);
    } else {
        printf("%-5s %-64s %6.2f s\n", word, name, o->seconds);
        if (*text) printf("      %s\n", text);
    }
    fflush(stdout);
}

static int count_wanted(void)
{
    int n = 0;
    char name[160];
    for (size_t i = 0; i < LEN(lists); i++)
        for (const check_row *r = lists[i].rows; r->run; r++) {
            title(r, name, sizeof name);
            n += wanted(name);
        }
    return n;
}

/* The op tests of the library, on this plugin: TENON_OP_TESTS, beside this program, or as installed. */
static int op_tests(const char *self)
{
    static const char *const places[] = {"", "/../tenon-tests", "/../libexec/tenon/tenon-tests"};
    char dir[4000], path[4200];
    const char *given = getenv("TENON_OP_TESTS");
    ssize_t n = readlink("/proc/self/exe", dir, sizeof dir - 1);
    if (n < 0) n = snprintf(dir, sizeof dir, "%s", self);
    dir[n] = 0;
    char *slash = strrchr(dir, '/');
    if (slash) *slash = 0;
    for (size_t i = 0; i < LEN(places); i++) {
        if (i == 0 && !given) continue;
        snprintf(path, sizeof path, "%s%s", i ? dir : given, places[i]);
        if (access(path, X_OK)) continue;
        char folder[64];
        snprintf(folder, sizeof folder, "/tmp/tenon-op-tests-%u", (unsigned)getuid());
        setenv("TENON_CACHE", folder, 0);
        setenv("TENON_DEV", plugin_path, 1);
        unsetenv("DEV");
        char data[4200];
        snprintf(data, sizeof data, "%s/../share/tenon/tests", dir);
        if (!access(data, R_OK)) setenv("TENON_TEST_DATA", data, 0);
        printf("op tests: %s methods\n", path);
        fflush(stdout);
        execl(path, path, "methods", (char *)NULL);
    }
    fprintf(
        stderr,
        "tenon-plugin-check: --ops: no tenon-tests beside this program, nor in ../libexec/tenon; "
        "TENON_OP_TESTS names it\n");
    return 2;
}

static int usage(FILE *f)
{
    fprintf(
        f, "usage: tenon-plugin-check [options] PLUGIN.so\n"
           "  --only RE        checks whose title matches: '^3 ', 'memory', 'fork'\n"
           "  --xfail FILE     numbers or pieces of titles, one a line, that are expected to fail\n"
           "  --tap            output for machines\n"
           "  --strict-time    limits of time fail\n"
           "  --long           checks that repeat, repeat more\n"
           "  --patience X     multiplies the time limit of each check\n"
           "  --list           titles\n"
           "  --ops            runs the library's op tests on the plugin instead\n");
    return f == stderr ? 2 : 0;
}

static int options(int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        const bool more = i + 1 < argc;
        if (!strcmp(a, "--only") && more)
            only = argv[++i];
        else if (!strcmp(a, "--xfail") && more)
            xfail = argv[++i];
        else if (!strcmp(a, "--patience") && more)
            patience = strtod(argv[++i], NULL);
        else if (!strcmp(a, "--tap"))
            tap = true;
        else if (!strcmp(a, "--strict-time"))
            strict_time = true;
        else if (!strcmp(a, "--long"))
            long_run = true;
        else if (!strcmp(a, "--ops"))
            use_ops = true;
        else if (!strcmp(a, "--help"))
            exit(usage(stdout));
        else if (!strcmp(a, "--list"))
            plugin_path = "";
        else if (a[0] == '-' || (plugin_path && *plugin_path))
            exit(usage(stderr));
        else
            plugin_path = a;
    }
    if (!plugin_path) exit(usage(stderr));
    return count_wanted();
}

int main(int argc, char **argv)
{
    tally t = {0};
    char name[160];
    const int n = options(argc, argv);
    const bool list = !*plugin_path;
    if (!list) {
        plugin_path = realpath(plugin_path, NULL);
        if (!plugin_path) {
            fprintf(stderr, "tenon-plugin-check: %s: %s\n", argv[argc - 1], strerror(errno));
            return 2;
        }
    }
    if (use_ops) return op_tests(argv[0]);
    if (tap) printf("TAP version 13\n1..%d\n", n);
    for (size_t i = 0; i < LEN(lists); i++)
        for (const check_row *r = lists[i].rows; r->run; r++) {
            title(r, name, sizeof name);
            if (!wanted(name)) continue;
            if (list) {
                printf("%s\n", name);
                continue;
            }
            const outcome o = run(r);
            show(&t, r, name, &o);
        }
    if (list) return 0;
    if (t.xfailed) printf("%s%d expected to fail and do\n", tap ? "# " : "", t.xfailed);
    printf("%s%d passed, %d failed, %d skipped\n", tap ? "# " : "", t.passed, t.failed, t.skipped);
    return t.failed != 0;
}
