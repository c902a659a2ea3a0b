/* SPDX-License-Identifier: MIT */
/*
 * MNIST and Fashion-MNIST as bytes: where their four files are looked for, and from where they come.
 *
 * Order: the caller's folder and nothing else; or TENON_DATASETS, the user's cache, Debian's package (for
 * Fashion-MNIST), then a download.  Checksums are those of the unpacked files, since mirrors pack
 * them differently.  A folder counts as soon as it has one of the four files; then all must be there.
 */
#include "io/idx.h"
#include "io/files.h"
#include <string.h>
#include <tenon/io.h>

#define FILES 4

static const char *const file_names[FILES] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                              "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};

static const struct set {
    const char *name, *cache;
    const char *folders[4]; /* below a folder of data sets; "" is itself; NULL-ended */
    const char *system;     /* of a Debian package, or NULL */
    const char *mirrors[4]; /* NULL-ended */
    const char *sha256[FILES];
} sets[] = {
    [TN__MNIST] = {"mnist",
                   "mnist",
                   {"", "/mnist", NULL},
                   NULL,
                   {"https://ossci-datasets.s3.amazonaws.com/mnist/",
                    "https://storage.googleapis.com/cvdf-datasets/mnist/",
                    "http://yann.lecun.com/exdb/mnist/", NULL},
                   {"ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db",
                    "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5",
                    "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7",
                    "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"}},
    [TN__FASHION] = {"fashion-mnist",
                     "fashion-mnist",
                     {"/fashion-mnist", "/fashion_mnist", "/fashion", NULL},
                     "/usr/share/datasets/fashion-mnist",
                     {"http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/", NULL},
                     {"5b4141f0afbad91edebe8549f8fcffe087ea10ca49f1dbef5c9a5cd8815ce37b",
                      "0402a96d92fd2663957122ceb108a494c5af83dab82d92729df917d7dec38c34",
                      "c59f468a2f672dc815687fe0f83887768d799fd8a3f3276145d20f83aa44d888",
                      "bad3541b69d912435c50bb6ba87bec294ff4f6a2e1246121d8633921760443d9"}},
};

typedef struct {
    const struct set *set;
    tn__buf looked; /* folders that were looked at, for the error */
    tn__mnist_raw *out;
} search;

static tn__idx *part(tn__mnist_raw *m, int i)
{
    tn__idx *const parts[FILES] = {&m->train_images, &m->train_labels, &m->test_images,
                                   &m->test_labels};
    return parts[i];
}

void tn__mnist_free(tn__mnist_raw *m)
{
    for (int i = 0; i < FILES; i++) tn__idx_free(part(m, i));
}

/* folder/NAME or folder/NAME.gz, own; NULL without an error when neither is there. */
static char *find_file(const char *folder, int i)
{
    static const char *const tails[] = {"", ".gz"};
    for (size_t k = 0; k < TN_LEN(tails); k++) {
        char *path = tn__format("%s/%s%s", folder, file_names[i], tails[k]);
        if (!path || tn__file_exists(path)) return path;
        tn__free(path);
    }
    return NULL;
}

static bool check_part(const tn__mnist_raw *m, int i, const char *path)
{
    const tn__idx *const parts[FILES] = {&m->train_images, &m->train_labels, &m->test_images,
                                         &m->test_labels};
    const tn__idx *x = parts[i];
    const bool images = i % 2 == 0;
    if (x->dtype != TN_U8 || x->rank != (images ? 3 : 1))
        return tn__fail(TN_EFORMAT, "%s: %s of rank %d: not %s", path, tn_dtype_name(x->dtype),
                        x->rank, images ? "uint8 images of rank 3" : "uint8 labels of rank 1");
    if (!images && x->dims[0] != parts[i - 1]->dims[0])
        return tn__fail(TN_EFORMAT, "%s: %lld labels for %lld images", path, (long long)x->dims[0],
                        (long long)parts[i - 1]->dims[0]);
    return true;
}

static bool load_part(search *s, int i, const char *path)
{
    return tn__idx_load(path, part(s->out, i)) && check_part(s->out, i, path);
}

typedef enum { ABSENT, LOADED, BROKEN } found;

/* All four files of one folder; BROKEN: an error is pending. */
static found load_folder(search *s, const char *folder)
{
    found result = ABSENT;
    tn__buf_printf(&s->looked, "%s%s", s->looked.len ? ", " : "", folder);
    for (int i = 0; i < FILES; i++) {
        char *path = find_file(folder, i);
        bool ok = path != NULL;
        if (!path && !tn_ok()) return BROKEN;
        if (!path && i == 0) return ABSENT;
        if (!path)
            tn__fail(TN_EIO, "%s: %s: %s is there, %s (or .gz) is not", s->set->name, folder,
                     file_names[0], file_names[i]);
        ok = ok && load_part(s, i, path);
        tn__free(path);
        if (!ok) return BROKEN;
        result = LOADED;
    }
    return result;
}

/* The places that a set may have below a folder of data sets. */
static found load_below(search *s, const char *base, bool itself)
{
    found f = itself ? load_folder(s, base) : ABSENT;
    for (size_t i = 0; f == ABSENT && s->set->folders[i]; i++) {
        if (itself && !*s->set->folders[i]) continue;
        char *folder = tn__format("%s%s", base, s->set->folders[i]);
        if (!folder) return BROKEN;
        f = load_folder(s, folder);
        tn__free(folder);
    }
    return f;
}

static found load_cached(search *s)
{
    char *folder = tn__cache_path("datasets/%s", s->set->cache);
    const found f = folder ? load_folder(s, folder) : BROKEN;
    tn__free(folder);
    return f;
}

static found download_part(search *s, int i)
{
    char *urls[TN_LEN(s->set->mirrors)] = {NULL}, *path = NULL;
    char *name = tn__format("%s-%s", s->set->name, file_names[i]);
    bool ok = name != NULL;
    for (size_t k = 0; ok && s->set->mirrors[k]; k++)
        ok = (urls[k] = tn__format("%s%s.gz", s->set->mirrors[k], file_names[i])) != NULL;
    if (ok) {
        const tn_fetch_opts o = {.size = sizeof o,
                                 .sha256 = s->set->sha256[i],
                                 .mirrors = (const char *const *)urls + 1,
                                 .name = name,
                                 .gunzip = true,
                                 .tries = 1};
        path = (tn_fetch)(urls[0], &o);
    }
    ok = path && load_part(s, i, path);
    for (size_t k = 0; k < TN_LEN(urls); k++) tn__free(urls[k]);
    tn__free(path);
    tn__free(name);
    return ok ? LOADED : BROKEN;
}

static found download(search *s)
{
    for (int i = 0; i < FILES; i++)
        if (download_part(s, i) == BROKEN) return BROKEN;
    return LOADED;
}

/* A failed download becomes an error that also says where the files may be put. */
static bool not_found(search *s, bool tried_download)
{
    tn__error e = {.msg = ""};
    if (tried_download && !tn_ok()) tn__error_take(&e);
    if (tried_download && e.code != TN_EIO && e.code != TN_EUNSUPPORTED) {
        tn__error_put(&e);
        return false;
    }
    return tn__fail(
        TN_EIO,
        "%s: no files in %s%s%.400s: put %s.gz and its three siblings in a folder and set "
        "TENON_DATASETS to it",
        s->set->name, s->looked.data ? s->looked.data : "", tried_download ? "; " : "", e.msg,
        file_names[0]);
}

static bool names_fashion(const char *folder)
{
    size_t n = strlen(folder);
    while (n > 1 && folder[n - 1] == '/') n--;
    size_t from = n;
    while (from > 0 && folder[from - 1] != '/') from--;
    return n - from >= 7 && strncmp(folder + from, "fashion", 7) == 0;
}

static bool find(search *s, const char *folder)
{
    const char *own = tn_context_text(TN_DATASETS);
    found f = ABSENT;
    if (folder) {
        f = load_below(s, folder, true);
        if (f == ABSENT) return not_found(s, false);
        return f == LOADED;
    }
    /* Fashion-MNIST's files have MNIST's names: four files in the folder itself are MNIST's, unless the
     * folder is called fashion.. */
    if (own && *own) f = load_below(s, own, s->set == &sets[TN__FASHION] && names_fashion(own));
    if (f == ABSENT) f = load_cached(s);
    if (f == ABSENT && s->set->system) f = load_folder(s, s->set->system);
    if (f == BROKEN) return false;
    return f == LOADED || download(s) == LOADED || not_found(s, true);
}

bool tn__mnist_files(tn__mnist_kind kind, const char *folder, tn__mnist_raw *out)
{
    search s = {.set = &sets[kind], .out = out};
    *out = (tn__mnist_raw){.train_images = {0}};
    /* the search reads the error record: an earlier error waits meanwhile */
    const bool pending = !tn_ok();
    tn__error old, own;
    if (pending) tn__error_take(&old);
    const bool ok = find(&s, folder);
    tn__buf_free(&s.looked);
    if (!ok) tn__mnist_free(out);
    if (pending) {
        if (!tn_ok()) tn__error_take(&own);
        tn__error_put(&old);
    }
    return ok;
}
