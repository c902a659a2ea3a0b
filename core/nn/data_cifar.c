/* SPDX-License-Identifier: MIT */
/*
 * CIFAR-10 from its archive of binary files: data_batch_1.bin .. data_batch_5.bin and test_batch.bin, rows of a
 * label and 3 * 32 * 32 bytes, channels first.  Read entry by entry; nothing is unpacked to disk.
 */
#include "nn/nn.h"
#include "device/device.h"
#include "io/archive.h"
#include "io/files.h"
#include <string.h>
#include <tenon/io.h>

enum { IMAGE = 3 * 32 * 32, ROW = IMAGE + 1, PARTS = 6 };
static const char archive_name[] = "cifar-10-binary.tar.gz";

typedef struct {
    const char *path;
    unsigned char *x[PARTS], *y[PARTS]; /* own; the last is the test set */
    size_t n[PARTS];
} batches;

static int part_of(const char *name)
{
    const char *base = strrchr(name, '/');
    base = base ? base + 1 : name;
    if (!strcmp(base, "test_batch.bin")) return PARTS - 1;
    if (strlen(base) != strlen("data_batch_1.bin") || strncmp(base, "data_batch_", 11) ||
        strcmp(base + 12, ".bin"))
        return -1;
    return base[11] >= '1' && base[11] <= '5' ? base[11] - '1' : -1;
}

static bool take(void *user, const char *name, const void *data, size_t n)
{
    batches *b = user;
    const unsigned char *row = data;
    const int i = part_of(name);
    if (i < 0) return true;
    const size_t rows = n / ROW;
    if (!rows || n % ROW || b->x[i])
        return tn__fail(TN_EFORMAT,
                        "cifar: %s: %s has %zu bytes: must be there once, with rows of %d", b->path,
                        name, n, ROW);
    b->n[i] = rows;
    b->x[i] = tn__alloc(rows * IMAGE);
    b->y[i] = tn__alloc(rows);
    if (!b->x[i] || !b->y[i]) return false;
    for (size_t r = 0; r < rows; r++, row += ROW) {
        b->y[i][r] = row[0];
        memcpy(b->x[i] + r * IMAGE, row + 1, IMAGE);
    }
    return true;
}

/* Parts first .. last as one tensor: images of size IMAGE, or labels of size 1. */
static tn_tensor *joined(const batches *b, bool images, int first, int last, const char *device)
{
    tn__call c;
    size_t n = 0, at = 0, size = images ? IMAGE : 1;
    tn__node *x = NULL;
    tn__call_begin(&c, "tn_cifar_load");
    for (int i = first; i <= last; i++) n += b->n[i];
    tn__device *d = device ? tn__device_get(device) : tn__device_default();
    unsigned char *all = d ? tn__alloc(n * size) : NULL;
    for (int i = first; all && i <= last; i++) {
        memcpy(all + at, images ? b->x[i] : b->y[i], b->n[i] * size);
        at += b->n[i] * size;
    }
    const int64_t dims[4] = {(int64_t)n, 3, 32, 32};
    if (all) x = tn__leaf_of(all, TN_U8, dims, images ? 4 : 1, tn__placement_one(d));
    tn__free(all);
    return tn__state_end(&c, x, false);
}

/* The archive's path, own; downloaded where no folder has it. */
static char *find(const char *dir)
{
    if (dir) return tn__format("%s/%s", dir, archive_name);
    const char *sets = tn_context_text(TN_DATASETS);
    static const char *const below[] = {"", "/cifar", "/cifar-10"};
    for (size_t i = 0; *sets && i < TN_LEN(below); i++) {
        char *path = tn__format("%s%s/%s", sets, below[i], archive_name);
        if (!path || tn__file_exists(path)) return path;
        tn__free(path);
    }
    return (tn_fetch)("https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz",
                      &(const tn_fetch_opts){
                          .size = sizeof(tn_fetch_opts),
                          .name = archive_name,
                          .sha256 =
                              "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd"});
}

static bool complete(const batches *b)
{
    for (int i = 0; i < PARTS; i++)
        if (!b->x[i])
            return tn__fail(
                TN_EFORMAT,
                "cifar: %s: part %d of %d is missing: the archive has data_batch_1.bin to "
                "data_batch_5.bin and test_batch.bin",
                b->path, i + 1, PARTS);
    return true;
}

bool(tn_cifar_load)(tn_cifar *d, const char *dir, const tn_cifar_opts *opts)
{
    tn_cifar_opts o;
    batches b = {0};
    tn__options(&o, opts, sizeof o);
    if (!d) return tn__fail(TN_ENULL, "cifar_load: the place for the data is NULL");
    *d = (tn_cifar){0};
    char *path = find(dir);
    if (!path) return false;
    tn_scope s = tn_scope_begin();
    b.path = path;
    bool ok = tn__archive_each(path, TN__TAR, UINT64_C(1) << 30, take, &b) && complete(&b) &&
              (d->x_train = joined(&b, true, 0, 4, o.device)) &&
              (d->y_train = joined(&b, false, 0, 4, o.device)) &&
              (d->x_test = joined(&b, true, 5, 5, o.device)) &&
              (d->y_test = joined(&b, false, 5, 5, o.device));
    for (int i = 0; i < PARTS; i++) {
        tn__free(b.x[i]);
        tn__free(b.y[i]);
    }
    tn__free(path);
    if (!ok) tn_state_free(d, tn_cifar_visit);
    tn_scope_end(&s);
    return ok;
}

void tn_cifar_visit(tn_visitor *v, void *obj)
{
    tn_cifar *d = obj;
    tn_visit_buffer(v, "x_train", &d->x_train);
    tn_visit_buffer(v, "y_train", &d->y_train);
    tn_visit_buffer(v, "x_test", &d->x_test);
    tn_visit_buffer(v, "y_test", &d->y_test);
}
