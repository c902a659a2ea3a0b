/* SPDX-License-Identifier: MIT */
/*
 * Downloads against a server on the loopback interface (httpd.c): cache, checksum, mirrors, resumed and
 * restarted parts, redirects, refusals; and the names in the cache.
 */
#include "base/base.h"
#include "io/files.h"
#include "io_rig.h"
#include "httpd.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/io.h>

#ifndef TN_HAVE_CURL
START_TEST(without_libcurl_the_text_says_where_to_put_the_file)
{
    setenv("TENON_CACHE", io_folder(), 1);
    FAILS(tn_fetch("http://127.0.0.1/x", .name = "x"), TN_EUNSUPPORTED, "put the file at ");
    FAILS(tn_fetch(NULL), TN_ENULL, "url is NULL");
}
END_TEST
#else

enum { BYTES = 300000 };
static char body[BYTES], other[BYTES];
static const char *const wrong_sha =
    "0000000000000000000000000000000000000000000000000000000000000000";
static char sha[65];
enum { WHOLE, CUT, NORANGE, CHANGED, MISSING, REDIRECT, GZ, EMPTY, NOTAG, LOOP };
static httpd_page pages[] = {
    [WHOLE] = {.path = "/dir/file.bin", .body = body, .n = BYTES, .etag = "\"v1\"", .ranges = 1},
    [CUT] = {.path = "/cut", .body = body, .n = BYTES, .etag = "\"v1\"", .ranges = 1, .cut = 1},
    [NORANGE] = {.path = "/norange", .body = body, .n = BYTES, .etag = "\"v1\"", .cut = 1},
    [CHANGED] =
        {.path = "/changed", .body = other, .n = BYTES, .etag = "\"v1\"", .ranges = 1, .cut = 1},
    [MISSING] = {.path = "/missing", .status = 404},
    [REDIRECT] = {.path = "/redirect", .redirect = "/dir/file.bin"},
    [GZ] = {.path = "/two.gz"},
    [EMPTY] = {.path = "/empty", .body = body, .n = 0},
    [NOTAG] = {.path = "/notag", .body = body, .n = BYTES, .ranges = 1, .cut = 1},
    [LOOP] = {.path = "/loop", .redirect = "/loop"},
    {0},
};
static int port;
static size_t blocks;

static const char *url(int page)
{
    static char text[4][128];
    static unsigned next;
    char *p = text[next++ % 4];
    snprintf(p, 128, "http://127.0.0.1:%d%s", port, pages[page].path);
    return p;
}

static void setup(void)
{
    io_setup();
    setenv("TENON_CACHE", io_folder(),
           1); /* the text of the variable is read once a process: each test is one */
    for (const char *const *v =
             (const char *const[]){"http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY", NULL};
         *v; v++)
        unsetenv(*v);
    for (size_t i = 0; i < BYTES; i++) body[i] = (char)(i * 7 + i / 251), other[i] = (char)(i * 3);
    tn__sha256 s;
    tn__sha256_begin(&s);
    tn__sha256_put(&s, body, BYTES);
    tn__sha256_end(&s, sha);
    port = httpd_start(pages);
    /* curl keeps a few blocks and descriptors of its own from its first call on; ours are counted */
    blocks = tn__live_blocks();
}

static void teardown(void)
{
    httpd_stop();
    ck_assert_uint_eq(tn__live_blocks(), blocks);
    ck_assert(tn_ok());
    io_teardown();
}

static void check(char *path, const char *want)
{
    void *p;
    size_t n;
    ck_assert_msg(path != NULL, "%s", tn_ok() ? "no text" : tn_last_error()->msg);
    WORKS(tn_read_file(path, &p, &n));
    ck_assert_uint_eq(n, BYTES);
    ck_assert_mem_eq(p, want, BYTES);
    tn_bytes_free(p);
    tn_bytes_free(path);
}

START_TEST(a_file_is_loaded_once_and_checked)
{
    char *path = tn_fetch(url(WHOLE), .sha256 = sha);
    ck_assert_msg(path && strstr(path, "/downloads/") && strstr(path, "-file.bin"), "%s", path);
    check(path, body);
    check(tn_fetch(url(WHOLE), .sha256 = sha), body);
    ck_assert_int_eq(pages[WHOLE].requests, 1);
    check(tn_fetch(url(WHOLE), .name = "own-name_1.bin"), body);
    ck_assert(tn__file_exists(io_path("downloads/own-name_1.bin")));
    check(tn_fetch(url(REDIRECT)), body);
    ck_assert_int_eq(pages[WHOLE].requests, 3);
    path = tn_fetch(url(EMPTY));
    ck_assert(path && tn__file_exists(path));
    tn_bytes_free(path);
}
END_TEST

START_TEST(a_download_that_broke_off_goes_on_where_it_stopped)
{
    check(tn_fetch(url(CUT), .sha256 = sha), body);
    ck_assert_int_eq(pages[CUT].requests, 2);
    ck_assert_int_eq(pages[CUT].partial, 1);
    /* over calls, too */
    pages[CUT].cut = 1;
    FAILS(tn_fetch(url(CUT), .name = "again", .tries = 1), TN_EIO, "/cut: ");
    ck_assert(tn__file_exists(io_path("downloads/again.part")) &&
              !tn__file_exists(io_path("downloads/again")));
    check(tn_fetch(url(CUT), .name = "again", .tries = 1), body);
    ck_assert_int_eq(pages[CUT].partial, 2);
    ck_assert(!tn__file_exists(io_path("downloads/again.part")) &&
              !tn__file_exists(io_path("downloads/again.part.tag")));
}
END_TEST

START_TEST(servers_without_ranges_or_validators_start_again)
{
    check(tn_fetch(url(NORANGE), .sha256 = sha), body);
    ck_assert_int_eq(pages[NORANGE].requests, 2);
    check(tn_fetch(url(NOTAG), .sha256 = sha), body);
    ck_assert_int_eq(pages[NOTAG].partial, 0);
}
END_TEST

START_TEST(a_file_that_changed_meanwhile_is_not_patched_together)
{
    FAILS(tn_fetch(url(CHANGED), .name = "c", .tries = 1), TN_EIO, "/changed: ");
    pages[CHANGED].body = body;
    pages[CHANGED].etag = "\"v2\"";
    check(tn_fetch(url(CHANGED), .name = "c"), body);
    ck_assert_int_eq(pages[CHANGED].partial, 0);
}
END_TEST

START_TEST(mirrors_are_tried_in_order_and_each_reason_is_told)
{
    const char *mirrors[] = {url(NORANGE), url(WHOLE), NULL},
               *none[] = {"http://127.0.0.1:1/x", NULL};
    pages[NORANGE].body = other; /* a wrong file */
    pages[NORANGE].cut = 0;
    check(tn_fetch(url(MISSING), .sha256 = sha, .mirrors = mirrors), body);
    ck_assert(pages[MISSING].requests >= 1 && pages[NORANGE].requests == 1 &&
              pages[WHOLE].requests == 1);
    FAILS(tn_fetch(url(MISSING), .name = "n", .mirrors = none), TN_EIO,
          "/missing: The requested URL returned error: 404; http://127.0.0.1:1/x: ");
    FAILS(tn_fetch(url(NORANGE), .name = "w", .sha256 = wrong_sha), TN_EIO,
          "/norange: checksum: the SHA-256 is ");
    ck_assert(!tn__file_exists(io_path("downloads/w")) &&
              !tn__file_exists(io_path("downloads/w.part")));
}
END_TEST

START_TEST(gz_files_are_kept_unpacked)
{
#ifdef TN_HAVE_ZLIB
    void *gz, *p;
    size_t n;
    WORKS(tn_read_file(TEST_SOURCE_DIR "/tests/io/two.gz", &gz, &n));
    pages[GZ].body = gz;
    pages[GZ].n = n;
    char *path = tn_fetch(url(GZ), .gunzip = true, .name = "two");
    ck_assert_msg(path != NULL, "%s", tn_ok() ? "" : tn_last_error()->msg);
    WORKS(tn_read_file(path, &p, &n));
    ck_assert_uint_eq(n, 6006);
    tn_bytes_free(p);
    tn_bytes_free(path);
    pages[GZ].n = 40;
    FAILS(tn_fetch(url(GZ), .gunzip = true, .name = "cut"), TN_EIO, "/two.gz: gunzip: truncated");
    tn_bytes_free(gz);
#endif
}
END_TEST

START_TEST(urls_and_names_that_do_not_fit_are_refused)
{
    FAILS(tn_fetch(NULL), TN_ENULL, "url is NULL");
    FAILS(tn_fetch(""), TN_ENULL, "url is empty");
    FAILS(tn_fetch("file:///etc/passwd"), TN_EIO, "file:///etc/passwd: ");
    FAILS(tn_fetch(url(LOOP)), TN_EIO, "/loop: ");
    FAILS(tn_fetch(url(WHOLE), .name = "../x"), TN_EVALUE, "name \"../x\": only letters");
    FAILS(tn_fetch(url(WHOLE), .name = ".x"), TN_EVALUE, "name \".x\"");
    FAILS(tn_fetch(url(WHOLE), .name = ""), TN_EVALUE, "name \"\"");
    ck_assert_int_eq(pages[WHOLE].requests, 0);
}
END_TEST

START_TEST(a_cache_that_cannot_be_made_is_an_error)
{
    io_write(io_path("downloads"), "a file in its place", 4);
    FAILS(tn_fetch("http://127.0.0.1:1/y"), TN_EIO, "downloads: not a folder");
}
END_TEST

START_TEST(an_earlier_error_stays_the_first_one)
{
    const char *mirrors[] = {url(WHOLE), NULL};
    tn__fail(TN_ESHAPE, "earlier: 1: rule: way out");
    check(tn_fetch(url(NORANGE), .sha256 = sha, .mirrors = mirrors), body);
    EXPECT(TN_ESHAPE, "earlier");
    tn__fail(TN_ESHAPE, "earlier: 1: rule: way out");
    ck_assert_ptr_null(tn_fetch(url(MISSING)));
    EXPECT(TN_ESHAPE, "earlier");
}
END_TEST
#endif

Suite *suite_fetch(void)
{
    Suite *s = suite_create("fetch");
    TCase *t = tcase_create("fetch");
    tcase_set_timeout(t, 60);
#ifndef TN_HAVE_CURL
    tcase_add_checked_fixture(t, io_setup, io_teardown);
    tcase_add_test(t, without_libcurl_the_text_says_where_to_put_the_file);
#else
    tcase_add_checked_fixture(t, setup, teardown);
    tcase_add_test(t, a_file_is_loaded_once_and_checked);
    tcase_add_test(t, a_download_that_broke_off_goes_on_where_it_stopped);
    tcase_add_test(t, servers_without_ranges_or_validators_start_again);
    tcase_add_test(t, a_file_that_changed_meanwhile_is_not_patched_together);
    tcase_add_test(t, mirrors_are_tried_in_order_and_each_reason_is_told);
    tcase_add_test(t, gz_files_are_kept_unpacked);
    tcase_add_test(t, urls_and_names_that_do_not_fit_are_refused);
    tcase_add_test(t, a_cache_that_cannot_be_made_is_an_error);
    tcase_add_test(t, an_earlier_error_stays_the_first_one);
#endif
    suite_add_tcase(s, t);
    return s;
}
