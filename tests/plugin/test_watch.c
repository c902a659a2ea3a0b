/* SPDX-License-Identifier: MIT */
/* A call of a plugin that does not come back is named in the log; one that does is not. */
#include "device/module.h"
#include "kernels.h"
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char lines[2000];
static void keep(void *user, tn_log_level level, const char *msg)
{
    size_t n = strlen(lines);
    (void)user;
    if (level <= TN_LOG_WARN) snprintf(lines + n, sizeof lines - n, "%s\n", msg);
}

static void start(void)
{
    lines[0] = 0;
    tn__watch_ms = 100;
    tn_set_log(keep, NULL);
}

static void stop(void) { tn_set_log(NULL, NULL); }

static void nap(long ms) { nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL); }

START_TEST(a_call_that_comes_back_is_not_told)
{
    tn__watch w;
    for (int i = 0; i < 20; i++) {
        tn__watch_start(&w, "/somewhere/tenon_quick.so", "init");
        tn__watch_stop(&w);
    }
    ck_assert_str_eq(lines, "");
}
END_TEST

START_TEST(a_call_that_stays_away_is_told_once_with_the_plugin_and_the_call)
{
    tn__watch w;
    tn__watch_start(&w, "/somewhere/tenon_slow.so", "count");
    nap(400);
    tn__watch_stop(&w);
    ck_assert_str_eq(lines, "/somewhere/tenon_slow.so: count has not come back for 0.1 s; DEV=NAME "
                            "leaves it alone\n");
}
END_TEST

START_TEST(a_slow_init_is_told_by_the_loader)
{
    char dir[] = "/tmp/tenon-test-XXXXXX", text[600];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(text, sizeof text, "%s/slow.c", dir);
    FILE *f = fopen(text, "w");
    ck_assert_ptr_nonnull(f);
    fputs("#include <tenon/plugin.h>\n#include <unistd.h>\n"
          "static tnp_rc init(const tnp_host *h, tnp_err *e) { (void)h; (void)e; usleep(400000); "
          "return 0; }\n"
          "static void fini(void) {}\n"
          "static tnp_rc count(uint32_t *n, tnp_err *e) { (void)e; *n = 0; return 0; }\n"
          "static tnp_rc probe(uint32_t i, tnp_caps *c, tnp_err *e) { (void)i; (void)c; (void)e; "
          "return -9; }\n"
          "static tnp_rc open_(uint32_t i, tnp_dev **d, const tnp_dev_ops **o, tnp_err *e)\n"
          "{ (void)i; (void)d; (void)o; (void)e; return -9; }\n"
          "static const tnp_plugin r = {.magic = TNP_MAGIC, .size = sizeof r, .name = \"SLOW\", "
          ".version = \"1\",\n"
          "  .init = init, .fini = fini, .count = count, .probe = probe, .open = open_, .forked = "
          "fini};\n"
          "TNP_EXPORT const tnp_plugin *tenon_plugin_v0(uint32_t m) { (void)m; return &r; }\n",
          f);
    fclose(f);
    snprintf(text, sizeof text,
             "cc -w -shared -fPIC -I%s/sdk/include %s/slow.c -o %s/tenon_slow.so", TEST_SOURCE_DIR,
             dir, dir);
    ck_assert_int_eq(system(text), 0);
    snprintf(text, sizeof text, "%s/tenon_slow.so", dir);
    ck_assert_ptr_null(tn__device_get(text));
    SAYS(TN_EDEVICE, "count() says 0 devices");
    ck_assert_msg(strstr(lines, "tenon_slow.so: init has not come back") != NULL, "%s", lines);
    snprintf(text, sizeof text, "rm -rf %s", dir);
    ck_assert_int_eq(system(text), 0);
}
END_TEST

Suite *suite_watch(void)
{
    Suite *s = suite_create("watch");
    TCase *t = tcase_create("watch");
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, a_call_that_comes_back_is_not_told);
    tcase_add_test(t, a_call_that_stays_away_is_told_once_with_the_plugin_and_the_call);
    tcase_add_test(t, a_slow_init_is_told_by_the_loader);
    suite_add_tcase(s, t);
    return s;
}
