/* SPDX-License-Identifier: MIT */
/* Checks 1 to 8: the file, its entry, its root, the host's table in other sizes. */
#define _GNU_SOURCE
#include "check.h"
#include <ctype.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern char **environ;

static void one_symbol(void)
{
    elf_names e;
    int n = 0;
    if (!elf_read(plugin_path, &e)) skip("no ELF file: exports are not read here");
    for (char **s = e.exported; *s; s++) {
        if (!strcmp(*s, TNP_ENTRY)) {
            n++;
            continue;
        }
        if (!strncmp(*s, "__asan_", 7) || !strncmp(*s, "__gcov", 6) || !strcmp(*s, "_init") ||
            !strcmp(*s, "_fini"))
            continue; /* of sanitizers and coverage */
        fail("exports %s beside " TNP_ENTRY ": build with -fvisibility=hidden", *s);
    }
    NEED(n == 1, "exports no " TNP_ENTRY);
}

/* Libraries of the C run time, and of sanitizers. */
static bool is_system(const char *lib)
{
    static const char *const ok[] = {
        "libc.",      "libm.",   "libdl.",    "libpthread.", "librt.",   "ld-linux", "libgcc_s",
        "libatomic.", "libc++.", "libstdc++", "libasan",     "libubsan", "libtsan",  "linux-vdso"};
    for (size_t i = 0; i < LEN(ok); i++)
        if (!strncmp(lib, ok[i], strlen(ok[i]))) return true;
    return false;
}

static void stands_alone(void)
{
    elf_names e;
    if (!elf_read(plugin_path, &e)) skip("no ELF file: symbols are not read here");
    void *h[64];
    size_t n = 0;
    for (char **s = e.needed; *s; s++) {
        NEED(strstr(*s, "tenon") == NULL, "needs %s: a plugin takes nothing from the host", *s);
        NEED(is_system(*s),
             "needs %s (DT_NEEDED): open it with host->lib_open, so that the plugin loads "
             "without it",
             *s);
        if (n < LEN(h) && (h[n] = dlopen(*s, RTLD_NOW | RTLD_LOCAL))) n++;
    }
    for (char **s = e.undefined; *s; s++) {
        bool found = false;
        NEED(strncmp(*s, "tn_", 3) != 0,
             "takes %s from the host: everything comes through tnp_host", *s);
        for (size_t i = 0; i < n && !found; i++) found = dlsym(h[i], *s) != NULL;
        const bool tool = !strncmp(*s, "__asan", 6) || !strncmp(*s, "__ubsan", 7) ||
                          !strncmp(*s, "__tsan", 6) || !strncmp(*s, "__sanitizer", 11);
        NEED(found || tool, "symbol %s is in none of the libraries it needs: link with -Wl,-z,defs",
             *s);
    }
}

typedef struct {
    tnp_entry_fn *fn;
    const tnp_plugin *got;
} asker;

static void *ask(void *arg)
{
    asker *a = arg;
    a->got = a->fn(TNP_MINOR);
    return NULL;
}

static void pure_entry(void)
{
    pthread_t t[64];
    static asker a[64];
    tnp_entry_fn *fn = need_entry();
    for (size_t i = 0; i < LEN(t); i++) {
        a[i].fn = fn;
        NEED(!pthread_create(&t[i], NULL, ask, &a[i]), "no thread");
    }
    for (size_t i = 0; i < LEN(t); i++) pthread_join(t[i], NULL);
    for (size_t i = 0; i < LEN(t); i++) {
        NEED(a[i].got, "the entry answers NULL");
        NEED(a[i].got == a[0].got, "64 threads get different roots");
    }
    for (uint32_t m = 0; m < 4; m++)
        NEED(fn(m) != NULL,
             "the entry answers NULL to a host of minor %u: refuse by min_host_minor", m);
    NEED(fn(0xffffffffu) != NULL, "the entry answers NULL to a newer host");
}

/* ---- 4: what loading must not touch ---- */

typedef struct {
    int threads, round;
    mode_t mask;
    uint64_t env;
    char locale[200];
    struct sigaction sig[NSIG];
    fenv_t fp;
} world;

static world look(void)
{
    static world w;
    memset(&w, 0, sizeof w);
    w.threads = threads_now();
    w.round = fegetround();
    fegetenv(&w.fp);
    w.mask = umask(0);
    umask(w.mask);
    snprintf(w.locale, sizeof w.locale, "%s", setlocale(LC_ALL, NULL));
    for (char **e = environ; *e; e++)
        for (const char *p = *e; *p; p++) w.env = w.env * 131 + (unsigned char)*p + 1;
    for (int i = 1; i < NSIG; i++) sigaction(i, NULL, &w.sig[i]);
    return w;
}

static void quiet_load(void)
{
    char out[] = "/tmp/tenon-check-XXXXXX";
    const int fd = mkstemp(out), one = dup(1), two = dup(2);
    struct stat st;
    NEED(fd >= 0, "no file in /tmp");
    unlink(out);
    fflush(stdout);
    dup2(fd, 1), dup2(fd, 2);
    const world a = look();
    const uint64_t t0 = now_ns();
    tnp_entry_fn *fn = need_entry();
    const uint64_t t1 = now_ns();
    const world b = look();
    fn(TNP_MINOR);
    fflush(stdout);
    dup2(one, 1), dup2(two, 2);
    NEED(!fstat(fd, &st) && st.st_size == 0, "loading prints %lld bytes", (long long)st.st_size);
    NEED(a.threads == b.threads, "loading starts threads: %d before, %d after", a.threads,
         b.threads);
    NEED(a.round == b.round, "loading changes the rounding mode");
#if defined(__x86_64__)
    NEED(a.fp.__mxcsr == b.fp.__mxcsr && a.fp.__control_word == b.fp.__control_word,
         "loading changes the floating-point mode (built with -ffast-math?)");
#endif
    NEED(a.mask == b.mask, "loading changes the umask");
    NEED(a.env == b.env, "loading changes the environment");
    NEED(!strcmp(a.locale, b.locale), "loading changes the locale");
    for (int i = 1; i < NSIG; i++)
        NEED(a.sig[i].sa_handler == b.sig[i].sa_handler, "loading changes the handler of signal %d",
             i);
    late("loading", t1 - t0, 50000000);
}

static void good_root(void)
{
    char file[64];
    need_root();
    NEED(root->name && root->name[0], "the root has no name");
    for (const char *p = root->name; *p; p++)
        NEED(isupper((unsigned char)*p) || isdigit((unsigned char)*p) || *p == '_',
             "name %s: capitals, digits and _", root->name);
    NEED(root->version && root->version[0], "the root has no version");
    NEED(root->vendor && root->vendor[0], "the root has no vendor");
    NEED(root->build && root->build[0], "the root does not say how it was built");
    NEED(!(root->flags & ~(uint32_t)TNP_ROOT_SURVIVES_FORK), "the root has unknown flags %#x",
         root->flags);
    NEED(root->reserved == 0, "the root's reserved field is %u", root->reserved);
    NEED(root->minor <= TNP_MINOR || root->min_host_minor <= TNP_MINOR,
         "it needs a host of minor %u", root->min_host_minor);
    const char *base = strrchr(plugin_path, '/');
    snprintf(file, sizeof file, "%s", base ? base + 1 : plugin_path);
    NEED(!strncmp(file, "tenon_", 6), "file %s: a plugin is called tenon_<name>.so", file);
    file[6 + strcspn(file + 6, ".")] = 0;
    bool fits = !strcasecmp(file + 6, root->name);
    for (const char *const *a = root->aliases; a && *a; a++)
        fits = fits || !strcasecmp(file + 6, *a);
    NEED(fits, "file tenon_%s.so holds a plugin that says it is %s", file + 6, root->name);
    const tnp_dialect *const *d = TNP_FN(root, tnp_plugin, dialects) ? root->dialects : NULL;
    for (; d && *d; d++)
        NEED((*d)->name && (*d)->kernel && (*d)->buffer, "a dialect is not filled in");
}

/* ---- 6 to 8 ---- */

/* init, count, probe, open and what a host does first; the first refusal ends it. */
static tnp_rc whole_life(void)
{
    tnp_dev *d = NULL;
    const tnp_dev_ops *o = NULL;
    tnp_buf *b = NULL;
    tnp_queue *q = NULL;
    tnp_sem *s = NULL;
    uint32_t n = 0;
    tnp_caps c = {.size = sizeof c};
    const tnp_alloc a = {.size = sizeof a, .bytes = 1000};
    host_init();
    tnp_rc rc = root->init(&host, fresh());
    if (rc < 0) return rc;
    rc = root->count(&n, fresh());
    if (!rc && !n) skip("no device here");
    if (rc == TNP_E_DRIVER) skip("no driver here: %s", err_text);
    if (!rc) rc = root->probe(0, &c, fresh());
    if (!rc) rc = root->open(0, &d, &o, fresh());
    if (!rc) rc = o->queue_new(d, 0, &q, fresh());
    if (!rc) rc = o->sem_new(d, 0, &s, fresh());
    if (!rc) rc = o->buf_alloc(d, &a, &b, fresh());
    if (b) o->buf_free(d, b);
    if (s) o->sem_free(d, s);
    if (q) o->queue_free(d, q);
    if (d) o->close(d);
    root->fini();
    host_closed = true;
    return rc;
}

static void no_leak(void)
{
    need_root();
    for (int i = 0; i < 2; i++) {
        worked(whole_life(), "init, open, close, fini");
        NEED(host_live == 0, "round %d leaves %lld blocks of the host's allocator", i + 1,
             (long long)host_live);
    }
    host_count = 0;
    worked(whole_life(), "init, open, close, fini");
    const int64_t all = host_count;
    for (int64_t i = 1; i <= all && i < 400; i++) {
        host_fail_at = i;
        const tnp_rc rc = whole_life();
        host_fail_at = 0;
        if (rc < 0)
            NEED(rc == TNP_E_NOMEM || rc == TNP_E_OOM,
                 "allocation %lld fails: rc %d (%s), not NOMEM", (long long)i, rc, err_text);
        if (rc < 0) NEED(err_text[0], "allocation %lld fails without a message", (long long)i);
        NEED(host_live == 0, "allocation %lld fails: %lld blocks leak", (long long)i,
             (long long)host_live);
    }
    note("%lld allocations", (long long)all);
}

static void no_extras(void)
{
    host_bare = true;
    need_dev();
    tnp_buf *b = buf_new(64, 0);
    put(b, 0, "0123456789", 10);
    ops->buf_free(dev, b);
    close_dev();
}

/* The host's table at the very end of a page, so that a look behind it crashes. */
static tnp_host *at_the_edge(size_t n, uint32_t minor)
{
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    NEED(p != MAP_FAILED && !mprotect(p + page, page, PROT_NONE), "no memory");
    host_init();
    tnp_host *h = (tnp_host *)(void *)(p + page - (n + 15) / 16 * 16);
    memset(h, 0, (n + 15) / 16 * 16);
    memcpy(h, &host, n < sizeof host ? n : sizeof host);
    h->size = (uint32_t)n;
    h->minor = minor;
    return h;
}

static void try_host(const tnp_host *h, const char *what)
{
    uint32_t n = 0;
    tnp_rc rc = root->init(h, fresh());
    NEED(rc >= 0, "init of %s: rc %d: %s", what, rc, err_text);
    if (root->count(&n, fresh()) == TNP_OK && n) {
        tnp_dev *d;
        const tnp_dev_ops *o;
        tnp_buf *b;
        const tnp_alloc a = {.size = sizeof a, .bytes = 100};
        worked(root->open(0, &d, &o, fresh()), what);
        worked(o->buf_alloc(d, &a, &b, fresh()), what);
        o->buf_free(d, b);
        o->close(d);
    }
    root->fini();
    host_closed = true;
}

static void other_hosts(void)
{
    need_root();
    if (root->min_host_minor == 0)
        try_host(at_the_edge(TNP_END(tnp_host, cache_put), 0), "the smallest host of minor 0");
    try_host(at_the_edge(TNP_END(tnp_host, threads), TNP_MINOR ? TNP_MINOR - 1 : 0),
             "an older host");
    try_host(at_the_edge(sizeof(tnp_host) + 128, TNP_MINOR + 7), "a newer host");
}

const check_row load_checks[] = {
    {1, "load", "the file exports its entry and nothing else", one_symbol, 0},
    {2, "load", "nothing is undefined, nothing comes from the host or a vendor", stands_alone, 0},
    {3, "load", "the entry is pure", pure_entry, 0},
    {4, "load", "loading touches nothing of the process", quiet_load, 0},
    {5, "load", "the root is filled in and fits the file's name", good_root, 0},
    {6, "load", "init and fini repeat; a failing allocation is NOMEM", no_leak, 60},
    {7, "load", "optional host services may be NULL", no_extras, 0},
    {8, "load", "hosts of older and newer minors", other_hosts, 0},
    {0}};
