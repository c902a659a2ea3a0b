/* SPDX-License-Identifier: MIT */
/*
 * DEBUG=7: a kernel's machine code as text, by objdump where there is one.
 *
 * A binary that is no ELF file (a text, linear code) is said to be none.  The binary goes into a temporary file,
 * objdump's output comes through a pipe; posix_spawn, no shell.  Nothing here fails the caller, and without
 * the tool one line says so.
 */
#include "device/module.h"
#include <errno.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PART = 3600, MOST = 1 << 20 }; /* bytes in a message; in all */

static bool write_all(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t k = write(fd, p, n);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return false;
        p += k;
        n -= (size_t)k;
    }
    return true;
}

/* Everything that comes out of fd, up to MOST. */
static void read_all(int fd, tn__buf *out)
{
    char part[4096];
    for (;;) {
        const ssize_t k = read(fd, part, sizeof part);
        if (k < 0 && errno == EINTR) continue;
        if (k <= 0) return;
        if (out->len < MOST) tn__buf_put(out, part, (size_t)k);
    }
}

/* objdump's exit status, 127 where it cannot be started. */
static int run_tool(const char *path, tn__buf *out)
{
    extern char **environ;
    char *argv[] = {(char[]){"objdump"}, (char[]){"-d"}, (char[]){"--no-show-raw-insn"},
                    (char *)(uintptr_t)path, NULL};
    posix_spawn_file_actions_t fa;
    int end[2], status = 0;
    pid_t pid;
    if (pipe(end)) return 127;
    if (posix_spawn_file_actions_init(&fa)) {
        close(end[0]);
        close(end[1]);
        return 127;
    }
    posix_spawn_file_actions_adddup2(&fa, end[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&fa, end[0]);
    posix_spawn_file_actions_addclose(&fa, end[1]);
    posix_spawn_file_actions_addopen(&fa, STDERR_FILENO, "/dev/null", 1, 0);
    const int err = posix_spawnp(&pid, argv[0], &fa, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&fa);
    close(end[1]);
    if (!err) read_all(end[0], out);
    close(end[0]);
    if (err) return 127;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : 126;
}

static void show(const char *name, const char *text, size_t len)
{
    for (size_t at = 0; at < len;) {
        size_t n = len - at < PART ? len - at : PART;
        while (at + n < len && n > 1 && text[at + n - 1] != '\n') n--;
        if (n == 1) n = len - at < PART ? len - at : PART;
        tn__log(TN_LOG_INFO, "%s: machine code%s:\n%.*s", name, at ? ", continued" : "", (int)n,
                text + at);
        at += n;
    }
}

void tn__disassemble(const tn__device *d, const char *name, const void *bin, size_t len)
{
    const char *dir = getenv("TMPDIR");
    char path[512];
    tn__buf text = {0};
    tn__error none;
    const bool clean = tn_ok();
    if (len < 4 || memcmp(bin, "\177ELF", 4)) {
        tn__log(TN_LOG_INFO, "%s: %s: machine code: the binary is no ELF file: not shown", d->name,
                name);
        return;
    }
    snprintf(path, sizeof path, "%s/tenon-XXXXXX", dir && *dir ? dir : "/tmp");
    const int fd = mkstemp(path);
    const bool written = fd >= 0 && write_all(fd, bin, len);
    if (fd >= 0) close(fd);
    const int rc = written ? run_tool(path, &text) : 127;
    if (fd >= 0) unlink(path);
    if (!written)
        tn__log(TN_LOG_INFO, "%s: machine code: %s: %s", name, path, strerror(errno));
    else if (rc)
        tn__log(TN_LOG_INFO, "%s: machine code: objdump is not there or refuses (install binutils)",
                name);
    else if (text.data)
        show(name, text.data, text.len);
    tn__buf_free(&text);
    if (clean && !tn_ok()) tn__error_take(&none);
}
