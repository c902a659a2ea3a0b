/* SPDX-License-Identifier: MIT */
/*
 * In builds with a sanitizer: tenon-plugin-check, which has the same sanitizer, over every plugin of the build.
 * (Elsewhere check.sh runs it and counts its checks.)  Its threads are made by pthread_create, so that
 * ./dev tsan takes this suite.
 */
#define _GNU_SOURCE
#include "../test.h"
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif
#else
enum { SANITIZED = 0 };
#endif

START_TEST(every_plugin_keeps_the_rules_under_the_sanitizer)
{
    glob_t g;
    int n = 0;
    ck_assert_int_eq(glob(TEST_BUILD_DIR "/tenon/plugins/tenon_*.so", 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i++, n++) {
        char line[4000], bad[1000] = "";
        snprintf(line, sizeof line, "%s/bin/tenon-plugin-check --patience 10 --tap %s 2>&1",
                 TEST_BUILD_DIR, g.gl_pathv[i]);
        FILE *f = popen(line, "r");
        ck_assert_ptr_nonnull(f);
        while (fgets(line, sizeof line, f)) {
            const size_t have = strlen(bad);
            const int wrong = !strncmp(line, "not ok", 6) || strstr(line, "SUMMARY: ") != NULL;
            if (wrong) snprintf(bad + have, sizeof bad - have, "%.300s", line);
        }
        ck_assert_msg(pclose(f) == 0 && !bad[0], "%s:\n%s", g.gl_pathv[i], bad);
    }
    globfree(&g);
    ck_assert_int_gt(n, 0);
}
END_TEST

Suite *suite_conformance(void)
{
    Suite *s = suite_create("conformance");
    TCase *t = tcase_create("conformance");
    tcase_set_timeout(t, 300);
    if (SANITIZED) tcase_add_test(t, every_plugin_keeps_the_rules_under_the_sanitizer);
    suite_add_tcase(s, t);
    return s;
}
