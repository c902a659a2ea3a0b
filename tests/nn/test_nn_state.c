/* SPDX-License-Identifier: MIT */
/* Walkers, state dicts, files: names, tied tensors, strict loading, resuming bit for bit, data sets, the bar. */
#include "nn_rig.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct {
    tn_nn_conv2d conv;
    tn_nn_batchnorm2d bn;
    tn_nn_linear layers[2];
    tn_tensor *scale, *missing;
    tn_nn_linear tied;
} model;

static void model_visit(tn_visitor *v, void *obj)
{
    model *m = obj;
    tn_field(v, m, conv);
    tn_field(v, m, bn);
    tn_field_array(v, m, layers);
    tn_field(v, m, scale);
    tn_field(v, m, missing);
    tn_field(v, m, tied);
}

static void model_init(model *m)
{
    *m = (model){0};
    tn_nn_conv2d_init(&m->conv, 1, 2, 3);
    tn_nn_batchnorm_init(&m->bn, 2);
    tn_nn_linear_init(&m->layers[0], 3, 4);
    tn_nn_linear_init(&m->layers[1], 4, 4, .no_bias = true);
    m->scale = tn_keep(tn_param(tn_from_data((const float[]){3}, SHAPE(1))));
    m->tied.weight = m->layers[1].weight;
    ck_assert(tn_ok());
}

static char folder[256];
static const char *file(const char *name)
{
    static char path[512];
    if (!folder[0]) {
        snprintf(folder, sizeof folder, "%s/nn-test-%ld", TEST_BUILD_DIR, (long)getpid());
        mkdir(folder, 0700);
    }
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}
static void remove_folder(void)
{
    char command[320];
    if (!folder[0]) return;
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    ck_assert_int_eq(system(command), 0);
    folder[0] = 0;
}

static void join_names(void *user, const char *name, tn_tensor **field, bool trained)
{
    (void)field;
    strcat(user, name);
    strcat(user, trained ? " " : "* ");
}

START_TEST(names_are_those_of_other_libraries_files)
{
    TN_SCOPE;
    model m;
    char names[512] = "";
    model_init(&m);
    ck_assert(tn_state_each(&m, model_visit, join_names, names));
    ck_assert_str_eq(
        names, "conv.weight conv.bias bn.weight bn.bias bn.num_batches_tracked* bn.running_mean* "
               "bn.running_var* layers.0.weight layers.0.bias layers.1.weight scale ");
    ck_assert_int_eq(tn_state_count(&m, model_visit), 18 + 2 + 2 + 2 + 12 + 4 + 16 + 1);
    tn_tensor *some[3];
    ck_assert_uint_eq(tn_state_parameters(&m, model_visit, some, 3), 8);
    ck_assert_ptr_eq(some[2], m.bn.weight);
    tn_state_free(&m, model_visit);
    ck_assert(!m.tied.weight && !m.layers[1].weight && !m.conv.bias);
}
END_TEST

START_TEST(a_saved_model_loads_bit_for_bit)
{
    if (!HAVE_JSON) test_skip("safetensors need jansson, which this build does not have");
    TN_SCOPE;
    model a, b;
    model_init(&a);
    model_init(&b);
    ck_assert(!same_bits(a.conv.weight, b.conv.weight));
    ck_assert(tn_safe_save(file("m.safetensors"), &a, model_visit));
    tn_tensor *param = b.conv.weight;
    ck_assert(tn_safe_load(file("m.safetensors"), &b, model_visit));
    ck_assert(param == b.conv.weight && tn_is_param(param));
    ck_assert(same_bits(a.conv.weight, b.conv.weight) &&
              same_bits(a.layers[1].weight, b.layers[1].weight));
    ck_assert(same_bits(a.bn.running_var, b.bn.running_var) && same_bits(a.scale, b.scale));
    tn_state_free(&a, model_visit);
    tn_state_free(&b, model_visit);
    remove_folder();
}
END_TEST

START_TEST(loading_is_strict_unless_told_otherwise)
{
    TN_SCOPE;
    model m;
    model_init(&m);
    tn_state_dict *sd = tn_get_state_dict(&m, model_visit);
    ck_assert_uint_eq(tn_state_dict_count(sd), 11);
    ck_assert_str_eq(tn_state_dict_name(sd, 7), "layers.0.weight");
    ck_assert_ptr_null(tn_state_dict_name(sd, 11));
    ck_assert_ptr_null(tn_state_dict_metadata(sd, "x"));
    ck_assert(tn_load_state_dict(&m, model_visit, sd));
    ck_assert(
        tn_state_dict_put(sd, "tied.weight", m.tied.weight)); /* as other libraries write it */
    ck_assert(tn_load_state_dict(&m, model_visit, sd));
    ck_assert(tn_state_dict_put(sd, "head.weight", tn_zeros(SHAPE(2))));
    ck_assert(!tn_load_state_dict(&m, model_visit, sd));
    test_fails(TN_EVALUE, "load_state_dict: 'head.weight' is in the dict and not in the object: "
                          "give .lax = true to skip it");
    ck_assert(tn_load_state_dict(&m, model_visit, sd, .lax = true));
    ck_assert(!tn_state_dict_put(sd, "scale", m.scale));
    test_fails(TN_EVALUE, "state: 'scale' is named twice");
    ck_assert(tn_bad(tn_state_dict_get(sd, "scal")));
    test_fails(TN_EVALUE, "state_dict_get: no 'scal' among 13 tensors: did you mean 'scale'?");
    tn_state_dict_free(sd);

    sd = tn_state_dict_new();
    ck_assert(tn_state_dict_put(sd, "scale", tn_zeros(SHAPE(2))));
    ck_assert(!tn_load_state_dict(&m, model_visit, sd));
    test_fails(TN_EVALUE, "load_state_dict: no 'conv.weight' among 1 tensors: give .lax = true "
                          "to keep what is missing");
    ck_assert(!tn_load_state_dict(&m, model_visit, sd, .lax = true));
    test_fails(TN_ESHAPE,
               "load_state_dict: 'scale' is (2) in the dict and (1) here: shapes must be equal");
    ck_assert_double_eq(tn_item(m.scale), 3);
    tn_state_dict_free(sd);
    ck_assert(!tn_load_state_dict(&m, model_visit, NULL));
    test_fails(TN_ENULL, "load_state_dict: the dict is NULL");
    tn_state_free(&m, model_visit);
}
END_TEST

START_TEST(loading_converts_dtypes_and_scalars)
{
    TN_SCOPE;
    model m;
    model_init(&m);
    tn_state_dict *sd = tn_state_dict_new();
    ck_assert(tn_state_dict_put(sd, "scale",
                                tn_from_data((const int32_t[]){7}, SHAPE0, .dtype = TN_I32)));
    ck_assert(tn_load_state_dict(&m, model_visit, sd, .lax = true));
    ck_assert(tn_dtype_of(m.scale) == TN_F32 && tn_ndim(m.scale) == 1);
    ck_assert_double_eq(tn_item(m.scale), 7);
    tn_state_dict_free(sd);
    tn_state_free(&m, model_visit);
}
END_TEST

START_TEST(metadata_and_lazy_tensors_of_a_file)
{
    if (!HAVE_JSON) test_skip("safetensors need jansson, which this build does not have");
    TN_SCOPE;
    tn_state_dict *sd = tn_state_dict_new();
    ck_assert(tn_state_dict_put(sd, "a", tn_from_data((const float[]){1, 2}, SHAPE(2))));
    ck_assert(tn_state_dict_put(sd, "b",
                                tn_from_data((const int64_t[]){-5}, SHAPE(1, 1), .dtype = TN_I64)));
    ck_assert(
        tn_safe_save_dict(file("d.safetensors"), sd,
                          .metadata = (const char *const[]){"format", "pt", "note", "x", NULL}));
    ck_assert(!tn_safe_save_dict(file("d.safetensors"), sd,
                                 .metadata = (const char *const[]){"format", NULL}));
    test_fails(TN_EVALUE, "safe_save: metadata 'format' has no value");
    tn_state_dict_free(sd);
    sd = tn_safe_load_dict(file("d.safetensors"));
    ck_assert(sd != NULL);
    ck_assert_str_eq(tn_state_dict_metadata(sd, "note"), "x");
    ck_assert_int_eq(tn_item_i(tn_state_dict_get(sd, "b")), -5);
    ck_assert_int_eq(tn_numel(tn_state_dict_get(sd, "a")), 2);
    ck_assert(tn_safe_save_dict(file("again.safetensors"), sd)); /* straight from the file */
    tn_state_dict_free(sd);
    ck_assert_ptr_null(tn_safe_load_dict(NULL));
    test_fails(TN_ENULL, "safe_load: the path is NULL");
    sd = tn_state_dict_new();
    ck_assert(!tn_safe_save_dict(NULL, sd));
    test_fails(TN_ENULL, "safe_save: the path is NULL");
    tn_state_dict_free(sd);
    remove_folder();
}
END_TEST

/* ---- a run that stops and goes on ---- */

typedef struct {
    tn_nn_linear l;
    tn_optim *o;
    tn_sched *s;
    uint64_t step;
} run;

static void run_visit(tn_visitor *v, void *obj)
{
    run *r = obj;
    tn_field(v, r, l);
    tn_visit_sub(v, "optim", r->o, tn_optim_visit);
    tn_visit_sub(v, "sched", r->s, tn_sched_visit);
    tn_visit_sub(v, "random", r, tn_random_visit);
    tn_visit_number(v, "step", &r->step);
}

static void run_init(run *r, uint64_t seed)
{
    *r = (run){0};
    tn_manual_seed(seed);
    tn_nn_linear_init(&r->l, 6, 3);
    r->o = tn_adam_new(&r->l, tn_nn_linear_visit, .lr = 0.1);
    r->s = tn_sched_cosine(r->o, 20);
    ck_assert(r->s != NULL);
}

static void run_end(run *r)
{
    tn_sched_free(r->s);
    tn_optim_free(r->o);
    tn_state_free(&r->l, tn_nn_linear_visit);
}

static void put_two(void *user, const char *name, tn_tensor **field, bool trained)
{
    (void)field;
    (void)trained;
    ck_assert(tn_state_dict_put(user, name, tn_from_data(((float[]){1, 2}), SHAPE(2))));
}

/* What a field of the model or a number of it cannot take is named, and nothing is loaded. */
START_TEST(a_number_and_a_view_are_named_when_they_cannot_be_loaded)
{
    TN_SCOPE;
    run r;
    run_init(&r, 1);
    r.step = 7;
    tn_state_dict *sd = tn_state_dict_new();
    tn_tensor *two = tn_from_data(((float[]){1, 2}), SHAPE(2));
    ck_assert(tn_state_dict_put(sd, "step", two));
    ck_assert(!tn_load_state_dict(&r, run_visit, sd, .lax = true));
    ck_assert_int_eq(tn_last_error()->code, TN_EDTYPE);
    ck_assert_msg(strstr(tn_last_error()->msg, "'step' is float32 (2) in the dict") != NULL, "%s",
                  tn_last_error()->msg);
    tn_clear_error();
    ck_assert_uint_eq(r.step, 7);
    tn_state_dict_free(sd);
    tn_tensor *whole = tn_contiguous(tn_arange(6.0)), *view = tn_index(whole, TN_SLICE(0, 2));
    sd = tn_state_dict_new();
    tn_state_each(&view, tn_tensor_visit, put_two, sd);
    ck_assert(!tn_load_state_dict(&view, tn_tensor_visit, sd));
    ck_assert_msg(strstr(tn_last_error()->msg, "it is a view of another one: use that one") != NULL,
                  "%s", tn_last_error()->msg);
    tn_clear_error();
    tn_state_dict_free(sd);
    run_end(&r);
}
END_TEST

static void advance(run *r, int steps)
{
    TN_WITH(TN_TRAINING, 1);
    for (int i = 0; i < steps; i++) {
        TN_SCOPE;
        tn_optim_zero_grad(r->o);
        tn_tensor *y = tn_dropout(tn_call(&r->l, tn_randn(SHAPE(5, 6))), 0.3);
        tn_backward(tn_mean(tn_mul(y, y)));
        ck_assert(tn_optim_step(r->o) && tn_sched_step(r->s));
        r->step++;
    }
}

START_TEST(a_resumed_run_goes_on_bit_for_bit)
{
    if (!HAVE_JSON) test_skip("safetensors need jansson, which this build does not have");
    TN_SCOPE;
    run a, b;
    run_init(&a, 3);
    advance(&a, 4);
    ck_assert(tn_safe_save(file("run.safetensors"), &a, run_visit));
    advance(&a, 4);
    run_init(&b, 99);
    ck_assert(tn_safe_load(file("run.safetensors"), &b, run_visit));
    ck_assert_uint_eq(b.step, 4);
    advance(&b, 4);
    ck_assert(same_bits(a.l.weight, b.l.weight) && same_bits(a.l.bias, b.l.bias));
    ck_assert(tn_optim_lr(a.o) == tn_optim_lr(b.o));
    run_end(&a);
    run_end(&b);
    remove_folder();
}
END_TEST

START_TEST(casting_keeps_parameters_and_their_handles)
{
    TN_SCOPE;
    model m;
    model_init(&m);
    ck_assert(tn_state_cast(&m, model_visit, TN_F16));
    ck_assert(tn_dtype_of(m.conv.weight) == TN_F16 && tn_is_param(m.conv.weight));
    ck_assert_int_eq(tn_dtype_of(m.bn.num_batches_tracked), TN_I64);
    ck_assert(tn_state_realize(&m, model_visit));
    ck_assert_double_eq(tn_item(m.scale), 3);
    ck_assert(!tn_state_cast(&m, model_visit, TN_I32));
    test_fails(TN_EDTYPE, "state_cast: int32: takes a floating-point dtype");
    tn_state_free(&m, model_visit);
}
END_TEST

START_TEST(placing_refuses_what_does_not_fit)
{
    TN_SCOPE;
    model m;
    model_init(&m);
    ck_assert(!tn_state_replicate(&m, model_visit, NULL));
    test_fails(TN_EVALUE, "state_replicate: 0 devices: takes 1 to 16");
    ck_assert(!tn_state_shard(&m, model_visit, NULL, -1));
    test_fails(TN_EAXIS, "state_shard: axis -1: must not be negative");
    const char *here = tn_device_current();
    ck_assert(!tn_state_shard(&m, model_visit,
                              &(const tn_devices){2, (const char *const[]){here, here}}, 3));
    test_fails(TN_ESHAPE, "along axis 3 over 2 devices: the axis must be there and divide evenly");
    tn_state_free(&m, model_visit);
}
END_TEST

/* ---- data sets ---- */

static void put_idx(const char *name, int rank, const int *dims, int step)
{
    FILE *f = fopen(file(name), "wb");
    long n = 1;
    fputc(0, f), fputc(0, f), fputc(8, f), fputc(rank, f);
    for (int i = 0; i < rank; i++) {
        fputc(0, f), fputc(0, f), fputc(dims[i] >> 8, f), fputc(dims[i] & 255, f);
        n *= dims[i];
    }
    for (long i = 0; i < n; i++) fputc((int)(i * step) & 255, f);
    fclose(f);
}

START_TEST(mnist_gives_images_and_labels_in_memory)
{
    TN_SCOPE;
    tn_mnist d;
    put_idx("train-images-idx3-ubyte", 3, (int[]){6, 4, 5}, 1);
    put_idx("train-labels-idx1-ubyte", 1, (int[]){6}, 2);
    put_idx("t10k-images-idx3-ubyte", 3, (int[]){3, 4, 5}, 3);
    put_idx("t10k-labels-idx1-ubyte", 1, (int[]){3}, 1);
    file("");
    ck_assert_msg(tn_mnist_load(&d, folder), "%s", tn_last_error() ? tn_last_error()->msg : "");
    ck_assert(tn_dim(d.x_train, 0) == 6 && tn_dim(d.x_train, 1) == 1 && tn_dim(d.x_train, 3) == 5);
    ck_assert(tn_dtype_of(d.y_test) == TN_U8 && tn_ndim(d.y_test) == 1);
    unsigned char y[6];
    ck_assert(tn_data(d.y_train, y, 6) && y[5] == 10);
    tn_state_free(&d, tn_mnist_visit);
    put_idx("t10k-labels-idx1-ubyte", 1, (int[]){2}, 1);
    ck_assert(!tn_mnist_load(&d, folder));
    ck_assert(tn_last_error()->code == TN_EFORMAT);
    tn_clear_error();
    ck_assert_ptr_null(d.x_train);
    remove_folder();
}
END_TEST

static void put_batch(const char *name, int rows, int first, int extra)
{
    FILE *f = fopen(file(name), "wb");
    for (int r = 0; r < rows; r++) {
        fputc(first + r, f);
        for (int i = 0; i < 3072; i++) fputc((first + r + i) & 255, f);
    }
    for (int i = 0; i < extra; i++) fputc(0, f);
    fclose(f);
}

static void pack(const char *what)
{
    char command[900];
    snprintf(command, sizeof command, "cd '%s' && tar czf cifar-10-binary.tar.gz %s", folder, what);
    ck_assert_int_eq(system(command), 0);
}

START_TEST(cifar_reads_its_archive)
{
    TN_SCOPE;
    tn_cifar d;
    char name[40];
    file("");
    mkdir(file("cifar-10-batches-bin"), 0700);
    for (int i = 1; i <= 5; i++) {
        snprintf(name, sizeof name, "cifar-10-batches-bin/data_batch_%d.bin", i);
        put_batch(name, 2, 2 * i, 0);
    }
    put_batch("cifar-10-batches-bin/test_batch.bin", 3, 7, 0);
    pack("cifar-10-batches-bin");
    bool ok = tn_cifar_load(&d, folder);
    if (!ok && tn_last_error()->code == TN_EUNSUPPORTED) {
        tn_clear_error();
        remove_folder();
        test_skip("this build reads no tar files");
    }
    ck_assert_msg(ok, "%s", tn_last_error() ? tn_last_error()->msg : "");
    unsigned char y[10], x[3 * 3072];
    ck_assert(tn_dim(d.x_train, 0) == 10 && tn_dim(d.x_train, 1) == 3 &&
              tn_dim(d.x_train, 3) == 32);
    ck_assert(tn_data(d.y_train, y, 10) && y[0] == 2 && y[9] == 11);
    ck_assert(tn_data(d.x_test, x, sizeof x) && x[3072] == 8 && x[3072 + 31] == 39);
    tn_state_free(&d, tn_cifar_visit);
    pack("cifar-10-batches-bin/test_batch.bin");
    ck_assert(!tn_cifar_load(&d, folder));
    test_fails(TN_EFORMAT, "part 1 of 6 is missing: the archive has data_batch_1.bin to");
    put_batch("cifar-10-batches-bin/test_batch.bin", 1, 7, 5);
    pack("cifar-10-batches-bin");
    ck_assert(!tn_cifar_load(&d, folder));
    test_fails(TN_EFORMAT, "has 3078 bytes: must be there once, with rows of 3073");
    ck_assert(!(tn_cifar_load)(NULL, NULL, NULL));
    test_fails(TN_ENULL, "cifar_load: the place for the data is NULL");
    ck_assert(!(tn_mnist_load)(NULL, NULL, NULL));
    test_fails(TN_ENULL, "mnist_load: the place for the data is NULL");
    remove_folder();
}
END_TEST

START_TEST(bars_count_and_stop_on_errors)
{
    int n = 0;
    TN_BAR(b, 5) n += (int)b.i;
    ck_assert_int_eq(n, 10);
    n = 0;
    TN_BAR(b, 5)
    {
        tn_bar_text(&b, "at %d", n);
        if (++n == 2) tn_item(NULL);
    }
    ck_assert_int_eq(n, 2);
    tn_clear_error();
    TN_BAR(b, 3) break;
    {
        TN_TIMING("nothing");
    }
}
END_TEST

START_TEST(devices_come_from_the_environment)
{
    ck_assert_ptr_null(tn_getenv_devices("NN_TEST_DEVICES"));
    setenv("NN_TEST_DEVICES", "A:0,,B:1", 1);
    const tn_devices *d = tn_getenv_devices("NN_TEST_DEVICES");
    ck_assert_uint_eq(d->n, 2);
    ck_assert_str_eq(d->name[1], "B:1");
    setenv("NN_TEST_DEVICES", "a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", 1);
    ck_assert_ptr_null(tn_getenv_devices("NN_TEST_DEVICES"));
    test_fails(TN_EVALUE, "takes up to 16 devices, separated by commas");
    unsetenv("NN_TEST_DEVICES");
}
END_TEST

Suite *suite_nn_state(void)
{
    Suite *s = suite_create("nn_state");
    TCase *t = tcase_create("state");
    tcase_set_timeout(t, 120);
    tcase_add_checked_fixture(t, nn_begin, nn_end);
    tcase_add_test(t, a_number_and_a_view_are_named_when_they_cannot_be_loaded);
    tcase_add_test(t, names_are_those_of_other_libraries_files);
    tcase_add_test(t, a_saved_model_loads_bit_for_bit);
    tcase_add_test(t, loading_is_strict_unless_told_otherwise);
    tcase_add_test(t, loading_converts_dtypes_and_scalars);
    tcase_add_test(t, metadata_and_lazy_tensors_of_a_file);
    tcase_add_test(t, a_resumed_run_goes_on_bit_for_bit);
    tcase_add_test(t, casting_keeps_parameters_and_their_handles);
    tcase_add_test(t, placing_refuses_what_does_not_fit);
    tcase_add_test(t, mnist_gives_images_and_labels_in_memory);
    tcase_add_test(t, cifar_reads_its_archive);
    tcase_add_test(t, bars_count_and_stop_on_errors);
    tcase_add_test(t, devices_come_from_the_environment);
    suite_add_tcase(s, t);
    return s;
}
