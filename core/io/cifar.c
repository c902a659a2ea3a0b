/* SPDX-License-Identifier: MIT */
/*
 * CIFAR-10 (Krizhevsky 2009), the binary version: records of one label byte and 3 x 32 x 32 pixels, in five
 * files for training and one for test, in a folder or in the tar file that is downloaded.
 *
 * The tar is read entry by entry; no file is unpacked to disk.  Files may come in any order; each fills
 * its own place, so all of them must have the size of the first.
 */
#include "io/archive.h"
#include "io/files.h"
#include "io/idx.h"
#include <string.h>
#include <tenon/io.h>

enum { PIXELS = 3 * 32 * 32, RECORD = PIXELS + 1, TRAIN = 5, PARTS = 6 };

static const char *const part_names[PARTS] = {"data_batch_1.bin", "data_batch_2.bin",
                                              "data_batch_3.bin", "data_batch_4.bin",
                                              "data_batch_5.bin", "test_batch.bin"};
static const char tar_name[] = "cifar-10-binary.tar.gz";
static const char url[] = "https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz";
static const char sha256[] = "c4a38c50a1bc5f3a1c5537f2155ab9d68f9f25eb1ed8d9ddda3db29a59bca1dd";

typedef struct {
    tn__mnist_raw *out;
    const char *place; /* for messages */
    size_t records;    /* of one training file, 0: not known yet */
    unsigned seen;     /* bit i: part i */
} job;

static bool make(tn__idx *x, size_t n, int rank)
{
    *x = (tn__idx){.dtype = TN_U8,
                   .rank = rank,
                   .dims = {(int64_t)n, 3, 32, 32},
                   .bytes = n * (rank == 4 ? PIXELS : 1)};
    if (rank == 1) x->dims[1] = x->dims[2] = x->dims[3] = 0;
    x->data = tn__alloc(x->bytes);
    return x->data != NULL;
}

/* One of the six files: its records into their place. */
static bool take(job *j, int part, const unsigned char *p, size_t n)
{
    const bool test = part == TRAIN;
    tn__idx *x = test ? &j->out->test_images : &j->out->train_images;
    tn__idx *y = test ? &j->out->test_labels : &j->out->train_labels;
    const size_t records = n / RECORD;
    if (j->seen >> part & 1) return true;
    if (n == 0 || n % RECORD)
        return tn__fail(TN_EFORMAT, "cifar: %s: %s has %zu bytes: no multiple of %d", j->place,
                        part_names[part], n, RECORD);
    if (!test && j->records && j->records != records)
        return tn__fail(
            TN_EFORMAT,
            "cifar: %s: %s has %zu records, another one has %zu: all must have the same", j->place,
            part_names[part], records, j->records);
    if (!test) j->records = records;
    const size_t all = test ? records : TRAIN * records;
    if (!x->data && !(make(x, all, 4) && make(y, all, 1))) return false;
    const size_t first = test ? 0 : (size_t)part * records;
    for (size_t i = 0; i < records; i++, p += RECORD) {
        ((unsigned char *)y->data)[first + i] = p[0];
        memcpy((unsigned char *)x->data + (first + i) * PIXELS, p + 1, PIXELS);
    }
    j->seen |= 1u << part;
    return true;
}

static bool entry(void *user, const char *name, const void *data, size_t n)
{
    const char *slash = strrchr(name, '/'), *last = slash ? slash + 1 : name;
    for (int i = 0; i < PARTS; i++)
        if (strcmp(last, part_names[i]) == 0) return take(user, i, data, n);
    return true;
}

static bool complete(const job *j)
{
    for (int i = 0; i < PARTS; i++)
        if (!(j->seen >> i & 1))
            return tn__fail(TN_EIO, "cifar: %s: %s is missing", j->place, part_names[i]);
    return true;
}

static bool read_tar(tn__mnist_raw *out, const char *path)
{
    job j = {.out = out, .place = path};
    return tn__archive_each(path, TN__TAR, UINT64_C(1) << 31, entry, &j) && complete(&j);
}

static bool read_parts(tn__mnist_raw *out, const char *folder)
{
    job j = {.out = out, .place = folder};
    for (int i = 0; i < PARTS; i++) {
        size_t n = 0;
        char *path = tn__format("%s/%s", folder, part_names[i]);
        const bool there = path && tn__file_exists(path);
        if (path && !there) complete(&j); /* says that part i is missing */
        void *p = there ? tn__file_read(path, &n) : NULL;
        const bool ok = p && take(&j, i, p, n);
        tn__free(p);
        tn__free(path);
        if (!ok) return false;
    }
    return true;
}

/* 1 read, 0 nothing there, -1 an error is pending. */
static int try_folder(tn__mnist_raw *out, const char *folder)
{
    static const char *const below[] = {"", "/cifar-10-batches-bin", "/cifar-10", "/cifar"};
    for (size_t i = 0; i < TN_LEN(below); i++) {
        char *bin = tn__format("%s%s/%s", folder, below[i], part_names[0]);
        char *tar = bin ? tn__format("%s%s/%s", folder, below[i], tar_name) : NULL;
        int rc = tar ? 0 : -1;
        if (tar && tn__file_exists(tar)) {
            rc = read_tar(out, tar) ? 1 : -1;
        } else if (tar && tn__file_exists(bin)) {
            *strrchr(bin, '/') = '\0';
            rc = read_parts(out, bin) ? 1 : -1;
        }
        tn__free(tar);
        tn__free(bin);
        if (rc) return rc;
    }
    return 0;
}

static bool find(const char *folder, tn__mnist_raw *out)
{
    const char *own = tn_context_text(TN_DATASETS);
    int rc = 0;
    if (folder) {
        rc = try_folder(out, folder);
        if (rc == 0)
            tn__fail(TN_EIO, "cifar: no %s and no %s in %s", tar_name, part_names[0], folder);
        return rc > 0;
    }
    if (own && *own) rc = try_folder(out, own);
    if (rc == 0) {
        char *cached = tn__cache_path("datasets/cifar-10");
        rc = cached ? try_folder(out, cached) : -1;
        tn__free(cached);
    }
    if (rc) return rc > 0;
    const tn_fetch_opts o = {.size = sizeof o, .sha256 = sha256, .name = tar_name};
    char *path = (tn_fetch)(url, &o);
    const bool ok = path && read_tar(out, path);
    tn__free(path);
    return ok;
}

bool tn__cifar_files(const char *folder, tn__mnist_raw *out)
{
    *out = (tn__mnist_raw){.train_images = {0}};
    if (find(folder, out)) return true;
    tn__mnist_free(out);
    return false;
}
