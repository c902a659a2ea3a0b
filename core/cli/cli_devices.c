/* SPDX-License-Identifier: MIT */
/*
 * `tenon devices`: each plugin is probed in a child process of its own, so that one that crashes or hangs takes
 * no other down.  A child writes a record a device: fields ended by byte 31, records by a newline.
 */
#include "cli/cli.h"
#include "base/base.h"
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <tenon/device.h>
#include <unistd.h>

extern char **environ;
enum { FIELDS = 13 };
static const char *const keys[FIELDS] = {"name",        "backend", "chip",      "arch",   "driver",
                                         "kind",        "path",    "version",   "reason", "memory",
                                         "memory_free", "cores",   "simd_bytes"};
enum {
    NAME,
    BACKEND,
    CHIP,
    ARCH,
    DRIVER,
    KIND,
    PATH,
    VERSION,
    REASON,
    MEMORY,
    MEMORY_FREE,
    CORES,
    SIMD
};

/* ---- the child ---- */

static void put_text(const char *s)
{
    for (; *s; s++) putchar((unsigned char)*s < 32 ? ' ' : *s);
    putchar(31);
}

static void put_record(void *user, const tn_device_info *d)
{
    (void)user;
    const char *text[] = {d->name, d->backend, d->chip,    d->arch,  d->driver,
                          d->kind, d->path,    d->version, d->reason};
    for (size_t i = 0; i < TN_LEN(text); i++) put_text(text[i]);
    printf("%" PRIu64 "\037%" PRIu64 "\037%" PRIu32 "\037%" PRIu32 "\037\n", d->memory,
           d->memory_free, d->cores, d->simd_bytes);
}

static int failed(void)
{
    const tn_error *e = tn_last_error();
    put_text(e ? e->msg : "unknown");
    putchar('\n');
    return 1;
}

int cli_probe(const char *plugin)
{
    return tn_devices_probe(plugin, put_record, NULL) ? 0 : failed();
}

int cli_default(void)
{
    const char *name = tn_device_current();
    if (!name) return failed();
    put_text(name);
    putchar('\n');
    return 0;
}

/* ---- the parent ---- */

typedef struct {
    const char *self;
    bool json;
    int seconds;
    int count, usable;
    char current[64];                                  /* default device */
    char first[64], last[64], backend[64], about[512]; /* of the line that is being made */
    bool starred;
} list;

/* What a child with these arguments writes, and how it ended; "" fine, else the reason. */
static void ask(const list *l, char *const argv[], tn__buf *out, char *reason, size_t n)
{
    int fd[2], status = 0;
    pid_t pid;
    posix_spawn_file_actions_t a;
    reason[0] = 0;
    if (pipe(fd)) {
        snprintf(reason, n, "no pipe: %s", strerror(errno));
        return;
    }
    posix_spawn_file_actions_init(&a);
    posix_spawn_file_actions_adddup2(&a, fd[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&a, fd[0]);
    posix_spawn_file_actions_addclose(&a, fd[1]);
    int rc = posix_spawnp(&pid, access("/proc/self/exe", X_OK) ? l->self : "/proc/self/exe", &a,
                          NULL, argv, environ);
    posix_spawn_file_actions_destroy(&a);
    close(fd[1]);
    const uint64_t end = tn__now_ns() + (uint64_t)l->seconds * UINT64_C(1000000000);
    bool late = false;
    while (!rc) {
        char part[4096];
        const uint64_t now = tn__now_ns();
        struct pollfd p = {.fd = fd[0], .events = POLLIN};
        late = now >= end || poll(&p, 1, (int)((end - now) / 1000000) + 1) == 0;
        const ssize_t got = late ? 0 : read(fd[0], part, sizeof part);
        if (got <= 0 || !tn__buf_put(out, part, (size_t)got)) break;
    }
    close(fd[0]);
    if (rc) snprintf(reason, n, "no process to probe it in: %s", strerror(rc));
    if (!rc && late) kill(pid, SIGKILL);
    if (!rc) waitpid(pid, &status, 0);
    if (late)
        snprintf(reason, n, "does not answer within %d s", l->seconds);
    else if (!rc && WIFSIGNALED(status))
        snprintf(reason, n, "crashes: %s", strsignal(WTERMSIG(status)));
    else if (!rc && WEXITSTATUS(status))
        snprintf(reason, n, "%.*s", (int)strcspn(out->data ? out->data : "", "\037"),
                 out->data ? out->data : "");
}

static void put_json(const char *s)
{
    putchar('"');
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') putchar('\\');
        if ((unsigned char)*s >= 32) putchar(*s);
    }
    putchar('"');
}

static void show_json(list *l, char *const *field)
{
    printf("%s\n  {", l->count ? "," : "");
    for (int i = 0; i < FIELDS; i++) {
        printf("%s\"%s\": ", i ? ", " : "", keys[i]);
        if (i < MEMORY)
            put_json(field[i]);
        else
            fputs(*field[i] ? field[i] : "0", stdout);
    }
    printf(", \"default\": %s}",
           *field[NAME] && !strcmp(field[NAME], l->current) ? "true" : "false");
}

/* Equal devices of a plugin share a line. */
static void flush(list *l)
{
    char names[140];
    if (!l->about[0]) return;
    snprintf(names, sizeof names, strcmp(l->first, l->last) ? "%s .. %s" : "%s", l->first, l->last);
    printf("%c %-18s %s\n", l->starred ? '*' : ' ', names, l->about);
    l->about[0] = 0;
}

static void about(char *const *field, char *out, size_t n)
{
    tn__buf b = {0};
    tn__buf_printf(&b, "%s", field[CHIP]);
    if (*field[ARCH]) tn__buf_printf(&b, ", %s", field[ARCH]);
    if (strcmp(field[CORES], "0"))
        tn__buf_printf(&b, ", %s core%s", field[CORES], strcmp(field[CORES], "1") ? "s" : "");
    if (strcmp(field[MEMORY], "0"))
        tn__buf_printf(&b, ", %.1f GB", strtod(field[MEMORY], NULL) * 1e-9);
    if (*field[DRIVER]) tn__buf_printf(&b, ", %s", field[DRIVER]);
    tn__buf_printf(&b, " (%s, plugin %s)", field[KIND], field[VERSION]);
    snprintf(out, n, "%s", b.data ? b.data : "?");
    tn__buf_free(&b);
}

static void show_line(list *l, char *const *field)
{
    char text[sizeof l->about];
    if (!*field[NAME]) {
        flush(l);
        printf("  %-18s not usable: %s\n", field[BACKEND], field[REASON]);
        return;
    }
    about(field, text, sizeof text);
    if (strcmp(text, l->about) || strcmp(l->backend, field[BACKEND])) {
        flush(l);
        snprintf(l->first, sizeof l->first, "%s", field[NAME]);
        snprintf(l->backend, sizeof l->backend, "%s", field[BACKEND]);
        memcpy(l->about, text, sizeof text);
        l->starred = false;
    }
    snprintf(l->last, sizeof l->last, "%s", field[NAME]);
    l->starred = l->starred || !strcmp(field[NAME], l->current);
}

static void show(list *l, char *const *field)
{
    if (l->json)
        show_json(l, field);
    else
        show_line(l, field);
    l->count++;
    l->usable += *field[NAME] != 0;
}

static void each_plugin(void *user, const tn_device_info *file)
{
    list *l = user;
    tn__buf out = {0};
    char reason[1100], empty[] = "";
    const bool built_in = file->path[0] != '/';
    char *const argv[] = {"tenon", "devices", "--probe",
                          (char *)(built_in ? file->backend : file->path), NULL};
    ask(l, argv, &out, reason, sizeof reason);
    for (char *line = out.data; line && *line && !reason[0];) {
        char *field[FIELDS], *end = line + strcspn(line, "\n");
        int n = 0;
        for (char *p = line; p < end && n < FIELDS; n++) {
            field[n] = p;
            p += strcspn(p, "\037\n");
            *p++ = 0;
        }
        while (n < FIELDS) field[n++] = empty;
        show(l, field);
        line = end + 1;
    }
    if (reason[0]) {
        char *field[FIELDS];
        for (int i = 0; i < FIELDS; i++) field[i] = empty;
        field[BACKEND] = (char *)file->backend;
        field[PATH] = (char *)file->path;
        field[REASON] = reason;
        show(l, field);
    }
    tn__buf_free(&out);
}

int cli_devices(const char *self, bool json, int seconds)
{
    list l = {.self = self, .json = json, .seconds = seconds};
    tn__buf out = {0};
    char why[1100];
    char *const argv[] = {"tenon", "devices", "--default", NULL};
    ask(&l, argv, &out, why, sizeof why);
    if (!why[0] && out.data)
        snprintf(l.current, sizeof l.current, "%.*s", (int)strcspn(out.data, "\037"), out.data);
    tn__buf_free(&out);
    if (json) printf("[");
    tn_plugins_each(each_plugin, &l);
    flush(&l);
    if (json)
        printf("%s]\n", l.count ? "\n" : "");
    else if (l.usable)
        printf("* holds %s, where new tensors go; DEV=NAME chooses another\n",
               *l.current ? l.current : "none");
    if (why[0] && !json) printf("no default device: %s\n", why);
    if (!l.count && !json) printf("no plugin is there: see PLUGIN_PATH in tenon env\n");
    return l.usable ? 0 : 1;
}
