/* SPDX-License-Identifier: MIT */
/*
 * DEV's grammar, the search for plugins and what is said of each broken one.  The broken plugins are made
 * here by the C compiler from a few lines against the SDK's header, in a folder of the test.
 */
#include "device/module.h"
#include "kernels.h"
#include <sys/stat.h>
#include <unistd.h>

static char dir[32];

static void start(void)
{
    snprintf(dir, sizeof dir, "/tmp/tenon-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    setenv("TENON_PLUGIN_PATH", dir, 1);
    unsetenv("DEV");
    unsetenv("TENON_DEV");
    tn__context_reload();
    tn_clear_error();
}

static void stop(void)
{
    char cmd[128];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    if (system(cmd)) ck_abort_msg("%s", cmd);
    ck_assert(tn_ok());
}

static void put(const char *name, const char *text)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
}

/* A plugin that is right but for `change`, C statements on its root `r`. */
static void build(const char *file, const char *entry, const char *change, const char *flags)
{
    char cmd[800];
    tn__buf b = {0};
    tn__buf_printf(
        &b,
        "#include <tenon/plugin.h>\n"
        "static tnp_rc init(const tnp_host *h, tnp_err *e) { (void)h; (void)e; return 0; }\n"
        "static tnp_rc failing(const tnp_host *h, tnp_err *e) { (void)h; const char *s = \"no luck "
        "today\"; int i = 0;\n"
        "  for (; s[i]; i++) e->msg[i] = s[i]; e->msg[i] = 0; return TNP_E_DRIVER; }\n"
        "static void fini(void) {}\n"
        "static tnp_rc count(uint32_t *n, tnp_err *e) { (void)e; *n = 1; return 0; }\n"
        "static tnp_rc none(uint32_t *n, tnp_err *e) { e->native = 100; *n = 0; return 0; }\n"
        "static tnp_rc probe(uint32_t i, tnp_caps *c, tnp_err *e) { (void)i; (void)c; (void)e; "
        "return TNP_E_NODEV; }\n"
        "static tnp_rc open_(uint32_t i, tnp_dev **d, const tnp_dev_ops **o, tnp_err *e)\n"
        "{ (void)i; (void)e; static int x; static const tnp_dev_ops ops = {.size = sizeof ops}; *d "
        "= (tnp_dev *)&x; *o = &ops; return 0; }\n"
        "static tnp_plugin r = {.magic = TNP_MAGIC, .size = sizeof r, .name = \"BROKEN\", .version "
        "= \"9\",\n"
        "  .init = init, .fini = fini, .count = count, .probe = probe, .open = open_, .forked = "
        "fini};\n"
        "TNP_EXPORT const tnp_plugin *%s(uint32_t m);\n"
        "const tnp_plugin *%s(uint32_t m) { (void)m; (void)failing; (void)none; %s; return &r; }\n",
        entry, entry, change);
    put("broken.c", b.data);
    tn__buf_free(&b);
    snprintf(cmd, sizeof cmd, "cc -shared -fPIC -I%s/sdk/include %s/broken.c -o %s/%s %s",
             TEST_SOURCE_DIR, dir, dir, file, flags);
    ck_assert_msg(!system(cmd), "%s", cmd);
}

static const struct {
    const char *entry, *change, *says;
} broken[] = {
    {"tenon_plugin_v0", "r.magic = 7", "has magic 0x7 where 0x30504e54 is expected"},
    {"tenon_plugin_v0", "r.size = 24", "has a root of 24 bytes: at least"},
    {"tenon_plugin_v0", "r.min_host_minor = 99",
     "needs plugin ABI 0.99, this program has 0.1: update tenon"},
    {"tenon_plugin_v0", "r.name = 0", "leaves the mandatory field name empty"},
    {"tenon_plugin_v0", "r.version = 0", "leaves the mandatory field version empty"},
    {"tenon_plugin_v0", "r.init = 0", "leaves the mandatory field init empty"},
    {"tenon_plugin_v0", "r.fini = 0", "leaves the mandatory field fini empty"},
    {"tenon_plugin_v0", "r.count = 0", "leaves the mandatory field count empty"},
    {"tenon_plugin_v0", "r.probe = 0", "leaves the mandatory field probe empty"},
    {"tenon_plugin_v0", "r.open = 0", "leaves the mandatory field open empty"},
    {"tenon_plugin_v0", "r.forked = 0", "leaves the mandatory field forked empty"},
    {"tenon_plugin_v0", "r.name = \"OTHER\"",
     "says that it is OTHER: the file's name must be that or an alias"},
    {"tenon_plugin_v0", "r.init = failing", "(9, ABI 0.0) cannot start: no luck today"},
    {"tenon_plugin_v0", "r.count = none", "count() says 0 devices (native 100)"},
    {"tenon_plugin_v0", "return 0", "answers NULL"},
    {"tenon_plugin_v0", "", "empty mandatory entry"},
    {"tenon_plugin_v2", "",
     "is for plugin ABI 2 (exports tenon_plugin_v2), this program has ABI 0: update tenon"},
    {"something_else", "", "has no tenon_plugin_v0: it is no plugin of tenon"},
};

START_TEST(every_broken_plugin_gets_a_sentence_of_its_own)
{
    build("tenon_broken.so", broken[_i].entry, broken[_i].change, "");
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, broken[_i].says);
}
END_TEST

START_TEST(an_alias_may_be_the_files_name)
{
    build("tenon_other.so", "tenon_plugin_v0",
          "static const char *const a[] = {\"THIRD\", \"OTHER\", 0}; r.aliases = a", "");
    ck_assert_ptr_null(tn__device_get("OTHER"));
    SAYS(TN_EDEVICE, "empty mandatory entry"); /* it got as far as open */
}
END_TEST

START_TEST(a_text_file_is_no_library)
{
    put("tenon_broken.so",
        "this is not a library, however long its text may be, and it is longer than a header\n");
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "tenon_broken.so is not a shared library (no ELF header)");
    put("tenon_broken.so", "\177ELF");
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "is a truncated library");
    put("tenon_broken.so", "");
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "is not a shared library");
}
END_TEST

/* Writes one byte of a file. */
static void patch(const char *file, long at, int value)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    FILE *f = fopen(path, "r+");
    ck_assert_ptr_nonnull(f);
    fseek(f, at, SEEK_SET);
    fputc(value, f);
    fclose(f);
}

START_TEST(a_library_of_another_machine_is_named)
{
    build("tenon_broken.so", "tenon_plugin_v0", "", "");
#if defined(__x86_64__)
    patch("tenon_broken.so", 18, 183);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "is a library for aarch64, this process is x86-64");
    patch("tenon_broken.so", 4, 1);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "is a 32-bit library, this process has 64 bits");
#endif
}
END_TEST

START_TEST(a_truncated_library_is_refused_before_it_is_mapped)
{
    char path[200];
    build("tenon_broken.so", "tenon_plugin_v0", "", "");
    snprintf(path, sizeof path, "%s/tenon_broken.so", dir);
    ck_assert_int_eq(truncate(path, 4096), 0);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "is a truncated library");
}
END_TEST

START_TEST(a_plugin_that_anybody_can_write_is_refused)
{
    char path[200];
    build("tenon_broken.so", "tenon_plugin_v0", "", "");
    snprintf(path, sizeof path, "%s/tenon_broken.so", dir);
    chmod(path, 0777);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "can be written by everybody (mode 0777): chmod o-w it");
    unlink(path);
    mkdir(path, 0700);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "is not a regular file");
}
END_TEST

START_TEST(a_missing_dependency_is_named)
{
    char flags[300];
    put("dep.c", "int dep(void) { return 1; }\n");
    char cmd[300];
    snprintf(cmd, sizeof cmd, "cc -shared -fPIC %s/dep.c -o %s/libtenondep.so", dir, dir);
    ck_assert_int_eq(system(cmd), 0);
    snprintf(flags, sizeof flags, "-Wl,--no-as-needed -L%s -ltenondep", dir);
    build("tenon_broken.so", "tenon_plugin_v0", "", flags);
    snprintf(cmd, sizeof cmd, "%s/libtenondep.so", dir);
    unlink(cmd);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "needs libtenondep.so (missing), libc.so.6 (ok): install what is missing");
}
END_TEST

START_TEST(an_entry_that_lies_in_a_dependency_does_not_count)
{
    char cmd[600], flags[300];
    build("libreal.so", "tenon_plugin_v0", "", "");
    put("empty.c", "int nothing(void) { return 0; }\n");
    snprintf(flags, sizeof flags, "-Wl,--no-as-needed -L%s -lreal -Wl,-rpath,%s", dir, dir);
    snprintf(cmd, sizeof cmd, "cc -shared -fPIC %s/empty.c -o %s/tenon_broken.so %s", dir, dir,
             flags);
    ck_assert_int_eq(system(cmd), 0);
    ck_assert_ptr_null(tn__device_get("BROKEN"));
    SAYS(TN_EDEVICE, "has no tenon_plugin_v0 of its own: the one found lies in");
}
END_TEST

START_TEST(an_unknown_backend_is_told_with_the_nearest_name)
{
    setenv("TENON_PLUGIN_PATH", TEST_BUILD_DIR "/tenon/plugins", 1);
    tn__context_reload();
    ck_assert_ptr_null(tn__device_get("CPV"));
    ck_assert_ptr_nonnull(
        strstr(error_text(), "Looked for tenon_cpv.so in " TEST_BUILD_DIR "/tenon/plugins ("));
    ck_assert_ptr_nonnull(strstr(error_text(), "TENON_PLUGIN_PATH is set"));
    ck_assert_ptr_nonnull(strstr(error_text(), "Did you mean CPU?"));
    SAYS(TN_EDEVICE, "DEV=CPV: no such backend. Available: ");
}
END_TEST

START_TEST(a_plugin_can_be_given_by_its_path)
{
    char path[300];
    ck_assert_ptr_null(tn__device_get("/nonexistent/tenon_cpu.so"));
    SAYS(TN_EDEVICE, "/nonexistent/tenon_cpu.so cannot be opened: No such file or directory");
    snprintf(path, sizeof path, "%s/tenon/plugins/tenon_null.so", TEST_BUILD_DIR);
    if (access(path, R_OK)) test_skip("no %s: plugins are linked in", path);
    tn__device *d = tn__device_get(path);
    OK(d);
    ck_assert_str_eq(tn__device_name(d), "NULL:0");
    ck_assert_ptr_eq(tn__device_get("NULL"), d);
    char again[320]; /* another name of the same file is the same plugin */
    snprintf(again, sizeof again, "%s/tenon_null.so", dir);
    ck_assert_int_eq(symlink(path, again), 0);
    ck_assert_ptr_eq(tn__device_get(again), d);
}
END_TEST

static const struct {
    const char *spec, *says;
} bad_specs[] = {
    {":1", "\"\" has no place here: the grammar is NAME[:ORDINAL][:RENDERER[:ARCH{,[-]FEATURE}]]"},
    {"CPU:", "\"\" has no place here"},
    {"C PU", "\"C PU\" has no place here"},
    {"CPU:0:CC:native:more", "\"more\" is one part too many"},
    {"CPU:0:CC:a;b", "\"a;b\" has no place here"},
    {"CPU:70000", "ordinal 70000 is out of range"},
    {"CPU:16", "CPU has 16 devices: ordinals 0 to 15"},
    {"CPU:CD", "CPU has no renderer CD: it has CC"},
    {"CPU:CD", "Did you mean CC?"},
    {"  ", "the name is empty"},
};

START_TEST(a_spec_that_breaks_the_grammar_is_told_so)
{
    setenv("TENON_PLUGIN_PATH", TEST_BUILD_DIR "/tenon/plugins", 1);
    tn__context_reload();
    ck_assert_ptr_null(tn__device_get(bad_specs[_i].spec));
    SAYS(TN_EDEVICE, bad_specs[_i].says);
}
END_TEST

START_TEST(the_grammar_is_parsed_in_all_its_parts)
{
    tn__spec s;
    tn__why w;
    ck_assert(tn__spec_parse(" cuda:1:nvrtc:sm_90a,-fma,ptx ", 30, &s, &w));
    ck_assert_str_eq(s.name, "CUDA");
    ck_assert_uint_eq(s.ordinal, 1);
    ck_assert(s.has_ordinal);
    ck_assert_str_eq(s.renderer, "NVRTC");
    ck_assert_str_eq(s.arch, "sm_90a,-fma,ptx");
    ck_assert(tn__spec_parse("CPU:LLVM", 8, &s, &w));
    ck_assert(!s.has_ordinal && !s.ordinal && !s.arch[0]);
    ck_assert_str_eq(s.renderer, "LLVM");
    ck_assert(tn__spec_parse("./x:y.so", 8, &s, &w));
    ck_assert_str_eq(s.path, "./x:y.so");
    ck_assert_str_eq(s.name, "");
}
END_TEST

START_TEST(equal_specs_are_one_device)
{
    setenv("TENON_PLUGIN_PATH", TEST_BUILD_DIR "/tenon/plugins", 1);
    tn__context_reload();
    tn__device *d = tn__device_get("CPU");
    OK(d);
    ck_assert_str_eq(tn__device_name(d), "CPU:0");
    const bool llvm = tn__device_dialect(d) == NULL; /* the default where it was built */
    const char *const same[] = {"cpu", "CPU:0", llvm ? "CPU:LLVM" : "CPU:CC",
                                llvm ? "cpu:0:llvm" : "cpu:0:cc", " CPU "};
    for (size_t i = 0; i < TN_LEN(same); i++) ck_assert_ptr_eq(tn__device_get(same[i]), d);
    tn__device *cc = tn__device_get("CPU:CC");
    OK(cc);
    ck_assert_str_eq(tn__device_name(cc), llvm ? "CPU:0:CC" : "CPU:0");
    ck_assert(tn__hash_eq(tn__device_key(cc), tn__device_key(d)) == !llvm);
    tn__device *other = tn__device_get("CPU:3");
    ck_assert(other && other != d && tn__device_id(other) != tn__device_id(d));
    ck_assert(tn__hash_eq(tn__device_key(other), tn__device_key(d))); /* they share binaries */
    tn__device *arch = tn__device_get("CPU:CC:x86-64");
    OK(arch);
    ck_assert_str_eq(tn__device_name(arch), "CPU:0:CC:x86-64");
    ck_assert(!tn__hash_eq(tn__device_key(arch), tn__device_key(d)));
    ck_assert_ptr_eq(tn__device_get(tn__device_name(arch)), arch);
}
END_TEST

START_TEST(the_default_is_the_first_of_dev_that_works_and_never_a_soft_one)
{
    setenv("TENON_PLUGIN_PATH", TEST_BUILD_DIR "/tenon/plugins", 1);
    tn__context_reload();
    OK(tn_device_current());
    ck_assert_str_eq(tn_device_current(), "CPU:0");
    setenv("DEV", "CUDDA:1; NULL:2 ;CPU", 1);
    tn__context_reload();
    OK(tn_device_current());
    ck_assert_str_eq(tn_device_current(), "NULL:2");
    setenv("DEV", "CUDDA;CPU:99", 1);
    tn__context_reload();
    ck_assert_ptr_null(tn_device_current());
    ck_assert_ptr_nonnull(strstr(error_text(), "DEV=CUDDA: no such backend"));
    SAYS(TN_EDEVICE, "DEV=CPU:99: CPU has 16 devices");
}
END_TEST

START_TEST(a_scope_changes_the_device_until_it_is_left)
{
    setenv("TENON_PLUGIN_PATH", TEST_BUILD_DIR "/tenon/plugins", 1);
    setenv("DEV", "CPU", 1);
    tn__context_reload();
    for (int i = 0; i < 2; i++) {
        TN_WITH_DEVICE("CPU:1");
        ck_assert_str_eq(tn_device_current(), "CPU:1");
        {
            TN_WITH_DEVICE("NULL");
            ck_assert_str_eq(tn_device_current(), "NULL:0");
            if (i) break;
        }
        ck_assert_str_eq(tn_device_current(), "CPU:1");
    }
    ck_assert_str_eq(tn_device_current(), "CPU:0");
    {
        TN_WITH_DEVICE("CPU:77");
        SAYS(TN_EDEVICE, "ordinals 0 to 15");
        ck_assert_str_eq(tn_device_current(), "CPU:0");
    }
}
END_TEST

static int ncpu, nrefused, ndefault;
static void see(void *user, const tn_device_info *i)
{
    (void)user;
    ncpu += !strcmp(i->backend, "CPU") && !strcmp(i->kind, "CPU") && i->memory > 0;
    nrefused += strstr(i->reason, "no luck today") != NULL;
    ndefault += i->is_default;
}

START_TEST(the_list_has_every_device_and_every_refusal)
{
    char path[300];
    build("tenon_broken.so", "tenon_plugin_v0", "r.init = failing", "");
    snprintf(path, sizeof path, "%s:%s", dir, TEST_BUILD_DIR "/tenon/plugins");
    setenv("TENON_PLUGIN_PATH", path, 1);
    tn__context_reload();
    tn_devices_each(see, NULL);
    ck_assert_int_eq(ncpu, 16);
    ck_assert_int_eq(nrefused, 1);
    ck_assert_int_eq(ndefault, 1);
    ck_assert(tn_devices_probe("CPU", see, NULL));
    ck_assert_int_eq(ncpu, 32);
    ck_assert(!tn_devices_probe("BROKEN", see, NULL));
    SAYS(TN_EDEVICE, "no luck today");
}
END_TEST

Suite *suite_loader(void)
{
    Suite *s = suite_create("loader");
    TCase *t = tcase_create("loader");
    tcase_set_timeout(t, 60);
    tcase_add_checked_fixture(t, start, stop);
    tcase_add_loop_test(t, every_broken_plugin_gets_a_sentence_of_its_own, 0, (int)TN_LEN(broken));
    tcase_add_test(t, an_alias_may_be_the_files_name);
    tcase_add_test(t, a_text_file_is_no_library);
    tcase_add_test(t, a_library_of_another_machine_is_named);
    tcase_add_test(t, a_truncated_library_is_refused_before_it_is_mapped);
    tcase_add_test(t, a_plugin_that_anybody_can_write_is_refused);
    tcase_add_test(t, a_missing_dependency_is_named);
    tcase_add_test(t, an_entry_that_lies_in_a_dependency_does_not_count);
    tcase_add_test(t, an_unknown_backend_is_told_with_the_nearest_name);
    tcase_add_test(t, a_plugin_can_be_given_by_its_path);
    tcase_add_loop_test(t, a_spec_that_breaks_the_grammar_is_told_so, 0, (int)TN_LEN(bad_specs));
    tcase_add_test(t, the_grammar_is_parsed_in_all_its_parts);
    tcase_add_test(t, equal_specs_are_one_device);
    tcase_add_test(t, the_default_is_the_first_of_dev_that_works_and_never_a_soft_one);
    tcase_add_test(t, a_scope_changes_the_device_until_it_is_left);
    tcase_add_test(t, the_list_has_every_device_and_every_refusal);
    suite_add_tcase(s, t);
    return s;
}
