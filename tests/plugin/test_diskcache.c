/* SPDX-License-Identifier: MIT */
/* The disk cache: kept across processes, and harmless when it is damaged, foreign, full or absent. */
#include "device/module.h"
#include "kernels.h"
#include <dirent.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#ifdef TN_HAVE_SQLITE
static char dir[32], warning[1024];
static int warnings;

static void keep(void *user, tn_log_level level, const char *msg)
{
    (void)user;
    if (level > TN_LOG_WARN) return;
    warnings++;
    snprintf(warning, sizeof warning, "%s", msg);
}

static void use(const char *path)
{
    setenv("TENON_CACHE", path, 1);
    tn__context_reload();
}

static void start(void)
{
    snprintf(dir, sizeof dir, "/tmp/tenon-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    tn_set_log(keep, NULL);
    use(dir);
}

static void stop(void)
{
    char cmd[128];
    tn__diskcache_close();
    snprintf(cmd, sizeof cmd, "chmod -R u+w %s; rm -rf %s", dir, dir);
    if (system(cmd)) ck_abort_msg("%s", cmd);
    ck_assert(tn_ok());
}

static const tn__hash key = {1, 2};

/* What the cache has under `key`, as a text; "" for nothing. */
static const char *got(void)
{
    static char text[64];
    void *p;
    size_t n;
    text[0] = 0;
    if (!tn__cache_get("test", key, &p, &n)) return text;
    ck_assert_uint_lt(n, sizeof text);
    memcpy(text, p, n);
    text[n] = 0;
    tn__free(p);
    return text;
}

static void put(const char *text) { tn__cache_put("test", key, text, strlen(text)); }

/* Files of the folder whose name has `part`. */
static int files(const char *part)
{
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));) n += strstr(e->d_name, part) != NULL;
    closedir(d);
    return n;
}

START_TEST(what_was_put_is_found_by_another_process)
{
    ck_assert_str_eq(got(), "");
    put("one");
    put("two");
    ck_assert_str_eq(got(), "two");
    pid_t pid = fork();
    if (!pid) _exit(strcmp(got(), "two") != 0);
    int status = -1;
    waitpid(pid, &status, 0);
    ck_assert_int_eq(status, 0);
    tn__diskcache_close();
    ck_assert_str_eq(got(), "two");
    void *p;
    size_t n;
    ck_assert(!tn__cache_get("other", key, &p, &n));
    ck_assert(!tn__cache_get("test", (tn__hash){1, 3}, &p, &n));
    ck_assert_int_eq(warnings, 0);
}
END_TEST

START_TEST(an_empty_value_is_a_hit)
{
    void *p;
    size_t n = 9;
    tn__cache_put("test", key, "", 0);
    ck_assert(tn__cache_get("test", key, &p, &n));
    ck_assert_uint_eq(n, 0);
    tn__free(p);
}
END_TEST

START_TEST(level_zero_touches_nothing)
{
    setenv("CACHELEVEL", "0", 1);
    tn__context_reload();
    put("one");
    ck_assert_str_eq(got(), "");
    ck_assert_int_eq(files("cache"), 0);
}
END_TEST

/* Overwrites the database from `at` on. */
static void damage(long at)
{
    char path[100], junk[8000];
    tn__diskcache_close();
    snprintf(path, sizeof path, "%s/cache.db", dir);
    memset(junk, 0x5a, sizeof junk);
    FILE *f = fopen(path, "r+");
    ck_assert_ptr_nonnull(f);
    fseek(f, at, SEEK_SET);
    fwrite(junk, 1, sizeof junk, f);
    fclose(f);
}

START_TEST(a_damaged_database_is_set_aside_and_made_anew)
{
    put("one");
    damage(_i ? 100 : 0); /* header, or the first page's contents */
    ck_assert_str_eq(got(), "");
    put("three");
    ck_assert_str_eq(got(), "three");
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "was damaged: it is now"));
    ck_assert_int_ge(files("damaged"), 1);
    tn__diskcache_close();
    ck_assert_str_eq(got(), "three");
    ck_assert_int_eq(warnings, 1);
}
END_TEST

START_TEST(eight_processes_repair_it_once)
{
    put("one");
    damage(0);
    pid_t pid[8];
    for (int i = 0; i < 8; i++)
        if (!(pid[i] = fork())) {
            put("three");
            _exit(strcmp(got(), "three") != 0);
        }
    for (int i = 0; i < 8; i++) {
        int status = -1;
        waitpid(pid[i], &status, 0);
        ck_assert_int_eq(status, 0);
    }
    ck_assert_str_eq(got(), "three");
    int n = 0;
    DIR *d = opendir(dir);
    for (struct dirent *e; (e = readdir(d));)
        n += strstr(e->d_name, "damaged") && !strstr(e->d_name, "-wal") &&
             !strstr(e->d_name, "-shm");
    closedir(d);
    ck_assert_int_eq(n, 1);
}
END_TEST

START_TEST(a_folder_that_cannot_be_had_is_one_warning)
{
    char path[100];
    snprintf(path, sizeof path, "%s/file", dir);
    FILE *f = fopen(path, "w");
    fclose(f);
    use(path);
    put("one");
    ck_assert_str_eq(got(), "");
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(
        strstr(warning, "file: is not a folder: kernels are compiled again in every process"));
    snprintf(path, sizeof path, "%s/file/below", dir);
    use(path);
    put("one");
    ck_assert_str_eq(got(), "");
    ck_assert_int_eq(warnings, 1);
}
END_TEST

START_TEST(a_folder_that_others_can_write_is_refused)
{
    chmod(dir, 0777);
    put("one");
    ck_assert_str_eq(got(), "");
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "can be written by others: chmod 700 it"));
    ck_assert_int_eq(files("cache"), 0);
    chmod(dir, 0700);
}
END_TEST

START_TEST(a_folder_of_another_user_is_refused)
{
    if (geteuid()) test_skip("only root can give a folder away");
    if (chown(dir, 65534, 65534)) test_skip("this file system knows no owners");
    put("one");
    ck_assert_str_eq(got(), "");
    ck_assert_ptr_nonnull(strstr(warning, "belongs to another user"));
}
END_TEST

START_TEST(a_new_folder_is_closed_to_others)
{
    char path[100];
    struct stat st;
    snprintf(path, sizeof path, "%s/a/b", dir);
    use(path);
    put("one");
    ck_assert_str_eq(got(), "one");
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_uint_eq(st.st_mode & 0777, 0700);
}
END_TEST

START_TEST(a_full_disk_is_one_warning_and_everything_goes_on)
{
    static char big[1 << 20];
    put("one");
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit lim = {200 << 10, 200 << 10};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
    for (uint64_t i = 0; i < 8; i++) tn__cache_put("test", (tn__hash){9, i}, big, sizeof big);
    ck_assert_int_eq(warnings, 1);
    ck_assert_ptr_nonnull(strstr(warning, "kernels are compiled again in every process"));
    tn__program *p = NULL;
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 1, &p));
    tn__program_unref(p);
    ck_assert_int_eq(warnings, 1);
}
END_TEST

START_TEST(a_second_build_finds_the_binary_and_does_not_compile)
{
    tn__program *p[3];
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 3, p));
    ck_assert_uint_eq(tn__count.compiles, 1);
    for (int k = 0; k < 3; k++) tn__program_unref(p[k]);
    tn__device *other = tn__device_get("CPU:5:CC");
    OK(other);
    OK(tn__program_build(other, add_source, strlen(add_source), add_sigs, 3, p));
    ck_assert_uint_eq(tn__count.compiles, 1);
    for (int k = 0; k < 3; k++) tn__program_unref(p[k]);
}
END_TEST

START_TEST(a_binary_that_is_damaged_is_compiled_again)
{
    tn__program *p;
    char path[100], cmd[400];
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 1, &p));
    tn__program_unref(p);
    tn__diskcache_close();
    static const char *const values[] = {
        "x''", "x'7f454c46'", "substr(value, 1, length(value) / 2)", "zeroblob(20000)",
        "CAST(substr(value, 1, 4000) || x'55' || substr(value, 4002) AS BLOB)"};
    snprintf(path, sizeof path, "%s/cache.db", dir);
    snprintf(cmd, sizeof cmd,
             "command -v sqlite3 >/dev/null && sqlite3 %s \"UPDATE entry SET value=%s\"", path,
             values[_i]);
    if (system(cmd)) test_skip("no sqlite3 command");
    OK(tn__program_build(d, add_source, strlen(add_source), add_sigs, 1, &p));
    ck_assert_uint_eq(tn__count.compiles, 2);
    tn__program_unref(p);
    ck_assert_int_eq(warnings, 0);
}
END_TEST

START_TEST(the_plugin_itself_refuses_damaged_binaries)
{
    tn__device *d = tn__device_get("CPU:CC");
    OK(d);
    tnp_blob bin, log;
    tn__plug_err e;
    const tnp_entry en = {.name = "add", .args = f32_args, .nargs = 3, .local = {1, 1, 1}};
    const tnp_compile c = {.size = sizeof c,
                           .arch = d->caps.arch,
                           .dialect = "gnu-c",
                           .src = add_source,
                           .len = strlen(add_source),
                           .entries = &en,
                           .nentries = 1};
    ck_assert_int_eq(d->plugin->root->compile(&c, &bin, &log, tn__plug_err_init(&e)), TNP_OK);
    tn__free(log.data);
    tnp_blob again;
    ck_assert_int_eq(d->plugin->root->compile(&c, &again, NULL, tn__plug_err_init(&e)), TNP_OK);
    ck_assert(again.len == bin.len && !memcmp(again.data, bin.data, bin.len)); /* deterministic */
    tn__free(again.data);
    for (size_t i = 0; i < bin.len; i += 97) {
        tnp_prog *p = NULL;
        tnp_load l = {.size = sizeof l, .format = "so", .entry = &en, .bin = bin.data, .len = i};
        ck_assert_int_lt(d->ops->prog_load(d->h, &l, &p, tn__plug_err_init(&e)), 0);
        ck_assert_uint_gt(strlen(e.text), 10);
        ((char *)bin.data)[i] ^= 4;
        l.len = bin.len;
        ck_assert_int_lt(d->ops->prog_load(d->h, &l, &p, tn__plug_err_init(&e)), 0);
        ((char *)bin.data)[i] ^= 4;
    }
    tn__free(bin.data);
}
END_TEST

static void *hammer(void *arg)
{
    for (uint64_t i = 0; i < 60; i++) {
        tn__hash k = {i % 7, 5};
        void *p;
        size_t n;
        uint64_t v[2] = {i % 7, (uintptr_t)arg};
        tn__cache_put("hammer", k, v, sizeof v);
        if (!tn__cache_get("hammer", k, &p, &n)) return "nothing there";
        bool ok = n == sizeof v && ((uint64_t *)p)[0] == i % 7;
        tn__free(p);
        if (!ok) return "another value";
    }
    return NULL;
}

START_TEST(eight_threads_read_and_write)
{
    pthread_t t[8];
    for (uintptr_t i = 0; i < 8; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, hammer, (void *)i), 0);
    for (int i = 0; i < 8; i++) {
        void *why = NULL;
        pthread_join(t[i], &why);
        ck_assert_msg(!why, "%s", (const char *)why);
    }
    ck_assert_int_eq(warnings, 0);
}
END_TEST
#endif

Suite *suite_diskcache(void)
{
    Suite *s = suite_create("diskcache");
    TCase *t = tcase_create("diskcache");
    tcase_set_timeout(t, 120);
#ifdef TN_HAVE_SQLITE
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_test(t, what_was_put_is_found_by_another_process);
    tcase_add_test(t, an_empty_value_is_a_hit);
    tcase_add_test(t, level_zero_touches_nothing);
    tcase_add_loop_test(t, a_damaged_database_is_set_aside_and_made_anew, 0, 2);
    tcase_add_test(t, eight_processes_repair_it_once);
    tcase_add_test(t, a_folder_that_cannot_be_had_is_one_warning);
    tcase_add_test(t, a_folder_that_others_can_write_is_refused);
    tcase_add_test(t, a_folder_of_another_user_is_refused);
    tcase_add_test(t, a_new_folder_is_closed_to_others);
    tcase_add_test(t, a_full_disk_is_one_warning_and_everything_goes_on);
    tcase_add_test(t, a_second_build_finds_the_binary_and_does_not_compile);
    tcase_add_loop_test(t, a_binary_that_is_damaged_is_compiled_again, 0, 5);
    tcase_add_test(t, the_plugin_itself_refuses_damaged_binaries);
    tcase_add_test(t, eight_threads_read_and_write);
#endif
    suite_add_tcase(s, t);
    return s;
}
