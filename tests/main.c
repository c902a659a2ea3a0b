/* SPDX-License-Identifier: MIT */
/*
 * The runner of all suites.  usage: tenon-tests [--long] [--device NAME] [--list] [SUITE or FOLDER]...
 *
 * Each test runs in a child of its own (CK_FORK=no: in this process).  A test that cannot run here calls
 * test_skip (tests/test.h) with the reason, which is printed; the last line counts everything.
 */
#include "base/base.h"
#include "test.h"
#include <check.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "suites.h"

static char skip_file[] = "/tmp/tenon-skips-XXXXXX";

void test_skip_at(const char *file, int line, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    FILE *f = fopen(getenv("TENON_TEST_SKIPS"), "a");
    if (!f) return;
    fprintf(f, "%s:%d: %s\n", strrchr(file, '/') ? strrchr(file, '/') + 1 : file, line, text);
    fclose(f);
}

/* Places that recorded an error, one a line in the file TENON_ERROR_PLACES: tests/base/errors.sh reads it. */
static int places = -1;

static void note_place(const char *place, int line)
{
    static atomic_uint_least32_t seen[4096]; /* a place may be written twice, none is left out */
    char text[512];
    uint32_t h = (uint32_t)line * 2654435761u;
    for (const char *p = place; *p; p++) h = (h ^ (uint32_t)*p) * 16777619u;
    if (!h || atomic_exchange(&seen[h % 4096], h) == h) return;
    const int n = snprintf(text, sizeof text, "%s:%d\n", place, line);
    if (n > 0 && write(places, text, (size_t)n) < 0) close(places);
}

static void note_places(void)
{
    const char *file = getenv("TENON_ERROR_PLACES");
    if (file) places = open(file, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (places >= 0) tn__fail_seen = note_place;
}

bool test_long(void) { return getenv("TENON_TEST_LONG") != NULL; }

static int print_skips(void)
{
    int n = 0;
    char line[1024];
    FILE *f = fopen(skip_file, "r");
    while (f && fgets(line, sizeof line, f)) {
        printf("skipped: %s", line);
        n++;
    }
    if (f) fclose(f);
    return n;
}

static int wanted(const char *folder, const char *name, char **only, int n)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(only[i], folder) || !strcmp(only[i], name)) return 1;
    return n == 0;
}

/* Suites find plugins of this build, not installed ones, and leave the user's cache alone. */
static void environment(void)
{
    setenv("TENON_PLUGIN_PATH", TEST_BUILD_DIR "/tenon/plugins", 0);
    setenv("TENON_CACHE", TEST_BUILD_DIR "/test-cache", 0);
    setenv("CK_DEFAULT_TIMEOUT", "120", 0);
    int fd = mkstemp(skip_file);
    if (fd >= 0) close(fd);
    setenv("TENON_TEST_SKIPS", skip_file, 1);
}

static int options(int argc, char **argv, char **only)
{
    int n = 0;
    for (int i = 1; i < argc; i++) {
        if (!strcmp(argv[i], "--long"))
            setenv("TENON_TEST_LONG", "1", 1);
        else if (!strcmp(argv[i], "--device") && i + 1 < argc)
            setenv("TENON_DEV", argv[++i], 1);
        else
            only[n++] = argv[i];
    }
    return n;
}

int main(int argc, char **argv)
{
    char **only = calloc((size_t)argc, sizeof *only);
    int nonly = options(argc, argv, only);
    if (nonly == 1 && !strcmp(only[0], "--list")) {
        for (int i = 0; suites[i].make; i++) printf("%s/%s\n", suites[i].folder, suites[i].name);
        free(only);
        return 0;
    }
    environment();
    note_places();
    SRunner *r = srunner_create(NULL);
    int added = 0;
    for (int i = 0; suites[i].make; i++) {
        if (!wanted(suites[i].folder, suites[i].name, only, nonly)) continue;
        srunner_add_suite(r, suites[i].make());
        added++;
    }
    free(only);
    if (!added) {
        fprintf(stderr, "tenon-tests: no such suite: see --list\n");
        return 2;
    }
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r), run = srunner_ntests_run(r);
    srunner_free(r);
    int skipped = print_skips();
    unlink(skip_file);
    printf("%d passed, %d failed, %d skipped\n", run - failed - skipped, failed, skipped);
    return failed != 0;
}
