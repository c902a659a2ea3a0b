/* SPDX-License-Identifier: MIT */
/*
 * Calls that are refused before anything runs, one row a place: what is called, the code, a piece of the text.
 * A refused call gives poison and leaves everything else as it was.
 */
#include "test.h"
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <tenon/tenon.h>
#include <unistd.h>

static void refused(tn_code code, const char *text)
{
    const tn_error *e = tn_last_error();
    ck_assert_msg(e != NULL, "no error where one tells of '%s'", text);
    ck_assert_msg(e->code == code, "%s: %s", tn_code_name(e->code), e->msg);
    ck_assert_msg(strstr(e->msg, text) != NULL, "'%s' is not in '%s'", text, e->msg);
    tn_clear_error();
}

static tn_tensor *six(void) { return tn_reshape(tn_arange(6.0), SHAPE(2, 3)); }

/* A tensor of `rank` axes of one element. */
static tn_tensor *ones_of(size_t rank)
{
    int64_t d[16];
    for (size_t i = 0; i < rank; i++) d[i] = 1;
    const tn_shape s = {rank, d};
    return tn_ones(&s);
}

static const int64_t many[64] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
static const tn_shape seventeen = {17, many};

static void no_shape(void) { (tn_zeros)(NULL, NULL); }
static void long_shape(void) { tn_zeros(&seventeen); }
static void no_inputs(void) { (tn_cat)(NULL, 0); }
static void empty_inputs(void) { (tn_stack)(&(tn_inputs){0, NULL}, 0); }
static void no_indices(void) { (tn_index)(six(), NULL); }
static void many_indices(void)
{
    tn_idx at[40];
    for (int i = 0; i < 40; i++) at[i] = TN_NEWAXIS;
    (tn_index)(six(), &(tn_indices){40, at});
}
static void reshape_nowhere(void) { (tn_reshape)(six(), NULL); }
static void reshape_long(void) { tn_reshape(ones_of(1), &seventeen); }
static void split_nowhere(void)
{
    tn_tensor *out[2];
    (tn_split)(six(), NULL, 0, out, 2);
}
static void pad_nothing(void) { (tn_pad)(six(), NULL, NULL); }
static void roll_nothing(void) { (tn_roll)(six(), NULL, NULL); }
static void data_long(void)
{
    const float v = 0;
    tn_from_data(&v, &seventeen);
}
static void gradient_of_nothing(void)
{
    tn_tensor *g;
    (tn_gradient)(tn_sum(six()), NULL, NULL, &g);
}
static void gradient_to_nowhere(void) { (tn_gradient)(tn_sum(six()), IN(six()), NULL, NULL); }
static const tn_inputs none = {0, NULL};
static void einsum_nothing(void) { tn_einsum("i->i", &none); }
static void einsum_many(void)
{
    tn_tensor *x[64];
    for (int i = 0; i < 64; i++) x[i] = ones_of(1);
    const tn_inputs in = {64, x};
    tn_einsum("a", &in);
}
static void newaxis_many(void) { tn_index(ones_of(16), TN_NEWAXIS, TN_NEWAXIS); }
static void meshgrid_many(void)
{
    tn_tensor *x[20], *out[20];
    for (int i = 0; i < 20; i++) x[i] = ones_of(1);
    const tn_inputs in = {20, x};
    tn_meshgrid(&in, out);
}
static void matmul_deep(void) { tn_matmul(ones_of(16), ones_of(16)); }
static void attention_heads(void)
{
    tn_tensor *q = tn_zeros(SHAPE(1, 6, 2, 4)), *k = tn_zeros(SHAPE(1, 4, 2, 4));
    tn_scaled_dot_product_attention(q, k, k, .enable_gqa = true);
}
static void probe_nothing(void) { tn_devices_probe(NULL, NULL, NULL); }
static void long_text(void)
{
    char *s = malloc(1 << 20);
    memset(s, 'x', (1 << 20) - 1);
    s[(1 << 20) - 1] = 0;
    tn_context_set_text(TN_CACHE, s);
    free(s);
}
static void fetch_nothing(void) { (tn_fetch)(NULL, NULL); }
static void long_devices(void)
{
    char s[2000];
    memset(s, 'C', sizeof s - 1);
    s[sizeof s - 1] = 0;
    setenv("REFUSED_DEVICES", s, 1);
    tn_getenv_devices("REFUSED_DEVICES");
    unsetenv("REFUSED_DEVICES");
}
static void put_nothing(void) { tn_state_dict_put(NULL, "a", NULL); }
static void get_nothing(void) { tn_state_dict_get(NULL, "a"); }

static const struct {
    const char *what;
    void (*call)(void);
    tn_code code;
    const char *text;
} rows[] = {
    {"no shape", no_shape, TN_ENULL, "zeros: the shape is NULL: give SHAPE(..)"},
    {"17 axes", long_shape, TN_ESHAPE, "zeros: 17 axes: at most 16"},
    {"no inputs", no_inputs, TN_ENULL, "cat: no tensors: give IN(..) with at least one"},
    {"empty inputs", empty_inputs, TN_EVALUE, "stack: no tensors"},
    {"no indices", no_indices, TN_ENULL, "index: no indices: give at least one"},
    {"40 indices", many_indices, TN_EINDEX, "index: 40 indices: at most 32"},
    {"no new shape", reshape_nowhere, TN_ENULL, "reshape: the shape is NULL"},
    {"17 new axes", reshape_long, TN_ESHAPE, "reshape: 17 axes: at most 16"},
    {"no sizes", split_nowhere, TN_ENULL, "split: the sizes are NULL"},
    {"no pairs", pad_nothing, TN_ENULL, "pad: the pairs are NULL"},
    {"no shifts", roll_nothing, TN_ENULL, "roll: shifts or axes are NULL"},
    {"data of 17 axes", data_long, TN_ESHAPE, "from_data: 17 axes: a tensor has 0 to 16"},
    {"no list", gradient_of_nothing, TN_ENULL, "gradient: the list of inputs is NULL"},
    {"no room", gradient_to_nowhere, TN_ENULL, "gradient: out is NULL"},
    {"einsum of nothing", einsum_nothing, TN_EVALUE, "einsum: no tensors"},
    {"einsum of 64", einsum_many, TN_EVALUE, "einsum: 64 tensors: takes 1 to"},
    {"18 axes", newaxis_many, TN_ESHAPE, "index: more than 16 axes in the result of"},
    {"grid of 20", meshgrid_many, TN_EVALUE, "meshgrid: 20 tensors: takes 1 to 16"},
    {"deep product", matmul_deep, TN_ESHAPE, "at most 15 axes"},
    {"heads", attention_heads, TN_ESHAPE, "6 query heads and 4 key heads: must be a multiple"},
    {"no plugin", probe_nothing, TN_ENULL, "tn_devices_probe: plugin is NULL"},
    {"long variable", long_text, TN_EVALUE,
     "tn_context_set_text: CACHE: the value has 1048575 bytes"},
    {"no url", fetch_nothing, TN_ENULL, "url is NULL"},
    {"long list", long_devices, TN_EVALUE, "REFUSED_DEVICES: 1999 characters: takes up to 16"},
    {"no dict", put_nothing, TN_ENULL, "state_dict_put: the dict is NULL"},
    {"no dict to read", get_nothing, TN_ENULL, "state_dict_get: the dict is NULL"},
};

START_TEST(a_call_that_cannot_be_is_refused_with_its_values)
{
    TN_SCOPE;
    rows[_i].call();
    refused(rows[_i].code, rows[_i].text);
    ck_assert_double_eq(tn_item(tn_sum(six())), 15); /* all goes on */
}
END_TEST

START_TEST(a_result_of_too_many_axes_is_refused)
{
    TN_SCOPE;
    tn_tensor *at = tn_cast(ones_of(16), TN_I32);
    ck_assert(tn_bad(tn_index(tn_zeros(SHAPE(3, 4)), at)));
    refused(TN_ESHAPE, "more than 16 axes");
}
END_TEST

START_TEST(a_graph_over_more_than_sixteen_devices_is_refused)
{
    TN_SCOPE;
    tn_tensor *x[17];
    for (int i = 0; i < 17; i++) {
        char name[16] = "INTERP";
        if (i < 16) snprintf(name, sizeof name, "CPU:%d", i);
        x[i] = tn_add(tn_from_data(((float[]){1}), SHAPE(1), .device = name), 1);
    }
    const tn_inputs all = {17, x};
    ck_assert(!tn_realize_all(&all));
    refused(TN_EDEVICE, "realize: more than 16 devices in one graph: realize parts of it first");
}
END_TEST

START_TEST(printing_to_a_closed_output_is_an_error)
{
    TN_SCOPE;
    fflush(stdout);
    const int old = dup(1), full = open("/dev/full", O_WRONLY);
    if (full < 0) test_skip("no /dev/full here");
    dup2(full, 1);
    setvbuf(stdout, NULL, _IONBF, 0);
    const bool ok = tn_print(six());
    dup2(old, 1);
    close(full);
    close(old);
    ck_assert(!ok);
    refused(TN_EIO, "print: standard output refuses the text");
}
END_TEST

START_TEST(without_home_a_cache_folder_must_be_named)
{
    char path[4096];
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    tn_context_set_text(TN_CACHE, "");
    ck_assert_ptr_null(tn_fetch("http://127.0.0.1:1/x", .name = "x"));
    refused(TN_EIO, "cache: neither HOME nor XDG_CACHE_HOME is set: set TENON_CACHE to a folder");
    snprintf(path, sizeof path, "%s/refusals-%ld", TEST_BUILD_DIR, (long)getpid());
    tn_context_set_text(TN_CACHE, path);
    char lock[4200];
    snprintf(lock, sizeof lock, "%s/downloads", path);
    ck_assert(!mkdir(path, 0700) && !mkdir(lock, 0700));
    snprintf(lock, sizeof lock, "%s/downloads/x.lock", path);
    ck_assert(!mkdir(lock, 0700)); /* a folder stands where the lock file goes */
    ck_assert_ptr_null(tn_fetch("http://127.0.0.1:1/x", .name = "x"));
    if (tn_last_error()->code == TN_EUNSUPPORTED) {
        refused(TN_EUNSUPPORTED, "this build has no libcurl");
        test_skip("this build has no libcurl: no lock is taken");
    }
    refused(TN_EIO, "x.lock: open: ");
}
END_TEST

Suite *suite_refusals(void);
Suite *suite_refusals(void)
{
    Suite *s = suite_create("refusals");
    TCase *t = tcase_create("refusals");
    tcase_add_checked_fixture(t, test_clean_start, test_clean_end);
    tcase_add_loop_test(t, a_call_that_cannot_be_is_refused_with_its_values, 0,
                        (int)(sizeof rows / sizeof *rows));
    tcase_add_test(t, a_result_of_too_many_axes_is_refused);
    tcase_add_test(t, a_graph_over_more_than_sixteen_devices_is_refused);
    tcase_add_test(t, printing_to_a_closed_output_is_an_error);
    tcase_add_test(t, without_home_a_cache_folder_must_be_named);
    suite_add_tcase(s, t);
    return s;
}
