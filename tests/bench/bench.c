/* SPDX-License-Identifier: MIT */
/*
 * The benchmarks' driver: bench [--case NAME] [--against FILE] [--json FILE] [--rounds N] [--threads 2,1] [--no-pin] [--list]
 *
 * For each case and thread count it starts Tenon's side and the peer's (README.md), drops a warm-up, and asks them
 * in turn, which first changing each round; between two sides it rests, since idle workers of a thread pool spin
 * for tens of milliseconds.  One row a case and thread count; JSON of all of them at the end.  Exit status 1 when
 * a side of Tenon's failed; a missing peer is said and changes nothing.
 */
#define _GNU_SOURCE
#include "parts/bench_report.h"
#include "parts/bench_serve.h"
#include "parts/bench_side.h"
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define BIN TEST_BUILD_DIR "/bench/"
enum { REST_US = 80000, BATCH_MS = 250, ROWS_MOST = 256 };

typedef struct {
    const char *only, *against, *json, *threads;
    int rounds;
    bool pin, list;
} options;

static char data_dir[1024]; /* "": random data */

/* ---- starting sides ---- */
static const char *python(void)
{
    const char *own = getenv("BENCH_PYTHON");
    return own && *own ? own : !access("/usr/bin/python3", X_OK) ? "/usr/bin/python3" : "python3";
}

/* spec: "tenon:CASE", "torch:CASE" or "openblas:CASE". */
static void open_side(side *s, const char *spec, const bench_case *c, int threads,
                      const char *cache)
{
    static char env[8][1200];
    const char *list[16], *argv[4] = {NULL}, *arg = strchr(spec, ':') + 1;
    size_t n = 0;
    snprintf(env[0], sizeof env[0], "TENON_NUM_CPU_THREADS=%d", threads);
    snprintf(env[1], sizeof env[1], "OPENBLAS_NUM_THREADS=%d", threads);
    snprintf(env[2], sizeof env[2], "OMP_NUM_THREADS=%d", threads);
    snprintf(env[3], sizeof env[3], "BENCH_THREADS=%d", threads);
    snprintf(env[4], sizeof env[4], "BENCH_DATA=%s", c->null_device ? "" : data_dir);
    snprintf(env[5], sizeof env[5], "TENON_CACHE=%s", cache);
    for (; n < 6; n++) list[n] = env[n];
    list[n++] = "OPENBLAS_CORETYPE";
    list[n++] = "OPENBLAS_L2_SIZE";
    if (!getenv("TENON_PLUGIN_PATH"))
        list[n++] = "TENON_PLUGIN_PATH=" TEST_BUILD_DIR "/tenon/plugins";
    if (c->null_device) list[n++] = "TENON_DEV=NULL";
    list[n] = NULL;
    if (!strncmp(spec, "torch:", 6)) {
        argv[0] = python();
        argv[1] = TEST_SOURCE_DIR "/tests/bench/peers/torch_peer.py";
        argv[2] = arg;
    } else {
        argv[0] = !strncmp(spec, "openblas:", 9) ? BIN "bench_openblas" : BIN "bench_cases";
        argv[1] = arg;
    }
    side_open(s, argv, list);
    if (s->state == SIDE_FAILED) side_close(s); /* it may say which signal ended it */
}

/* ---- folders of one case ---- */
static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    return remove(path);
}

static void folder_remove(char *dir)
{
    if (*dir) nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    *dir = 0;
}

static bool folder_make(char *dir, size_t cap)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(dir, cap, "%s/tenon-bench-XXXXXX", tmp && *tmp ? tmp : "/tmp");
    if (mkdtemp(dir)) return true;
    *dir = 0;
    return false;
}

/* ---- rounds ---- */
enum { TENON, PEER, COPY, SIDES };

typedef struct {
    bench_row *row;
    side s[SIDES];
    const char *spec[SIDES]; /* NULL: no such side, or given up */
    char tenon_spec[64];
    int batch[SIDES];
} match;

static double *slot(bench_row *r, int which, int i)
{
    return which == TENON ? &r->tenon[i] : which == PEER ? &r->peer[i] : &r->copy[i];
}

static void best(bench_row *r, int which, double least)
{
    double *b = which == TENON ? &r->tenon_best : &r->peer_best;
    if (which != COPY && (*b < 0 || least < *b)) *b = least;
}

/* A side that is not ready is left out from here on; what it said stands in the row. */
static bool usable(match *m, int which)
{
    side *s = &m->s[which];
    if (!m->spec[which]) return false;
    if (s->state == SIDE_READY) {
        if (which != COPY)
            snprintf(which == TENON ? m->row->tenon_name : m->row->peer_name,
                     sizeof m->row->peer_name, "%s", s->text);
        return true;
    }
    if (s->state == SIDE_FAILED) side_close(s);
    size_t n = strlen(m->row->trouble);
    snprintf(m->row->trouble + n, sizeof m->row->trouble - n, "%s%s: %s", n ? "; " : "",
             which == TENON  ? "Tenon"
             : which == PEER ? "no peer"
                             : "no copy",
             s->text);
    if (which != TENON) fprintf(stderr, "bench: %s: no peer: %s\n", m->row->c->name, s->text);
    m->spec[which] = NULL;
    return false;
}

/* The warm-up, and how many iterations make a batch. */
static void calibrate(match *m, int which)
{
    double unused, least, start;
    if (!usable(m, which)) return;
    if (side_ask(&m->s[which], 1, &unused, &least)) {
        start = serve_now_ms();
        side_ask(&m->s[which], 1, &unused, &least);
        double each = (serve_now_ms() - start) / 2;
        m->batch[which] = each <= 0.0125     ? 20000
                          : each >= BATCH_MS ? 1
                                             : (int)(BATCH_MS / each) + 1;
        usleep(REST_US);
    }
    usable(m, which);
}

static void ask(match *m, int which, int round)
{
    double value, least;
    if (m->spec[which] && side_ask(&m->s[which], m->batch[which], &value, &least)) {
        *slot(m->row, which, round) = value;
        best(m->row, which, least);
    }
    usable(m, which);
    usleep(REST_US);
}

static void rounds_alive(match *m, int rounds, const char *cache)
{
    bench_row *r = m->row;
    for (int w = 0; w < SIDES; w++)
        if (m->spec[w]) open_side(&m->s[w], m->spec[w], r->c, r->threads, cache);
    for (int w = 0; w < SIDES; w++) calibrate(m, w);
    for (int i = 0; i < rounds && m->spec[TENON]; i++) {
        for (int k = 0; k < SIDES; k++) ask(m, i % 2 ? SIDES - 1 - k : k, i);
        r->n = i + 1;
    }
    for (int w = 0; w < SIDES; w++) side_close(&m->s[w]);
}

/* One process of a side: its start or its answer. */
static void process(match *m, int which, int round, const char *cache)
{
    double value = -1, unused, least;
    side *s = &m->s[which];
    if (!m->spec[which]) return;
    open_side(s, m->spec[which], m->row->c, m->row->threads, cache);
    if (s->state == SIDE_READY) {
        if (m->row->c->how == HOW_START)
            value = s->start_ms;
        else if (side_ask(s, 10, &unused, &least))
            side_ask(s, 1, &value, &least);
    }
    if (usable(m, which) && round >= 0) {
        *slot(m->row, which, round) = value;
        best(m->row, which, value);
    }
    side_close(s);
    usleep(REST_US);
}

/* New processes in turn; the first round fills caches and does not count. */
static void rounds_new(match *m, int rounds, const char *own_cache)
{
    char dir[512] = "";
    const int kind = m->row->c->cache;
    for (int i = -1; i < rounds && m->spec[TENON]; i++) {
        if ((kind == 1 || (kind == 2 && i < 0)) && !folder_make(dir, sizeof dir)) {
            snprintf(m->row->trouble, sizeof m->row->trouble, "Tenon: no folder for a cache");
            break;
        }
        const bool flip = i % 2 != 0;
        process(m, flip ? PEER : TENON, i, *dir ? dir : own_cache);
        process(m, flip ? TENON : PEER, i, *dir ? dir : own_cache);
        m->row->n = i + 1;
        if (kind == 1) folder_remove(dir);
    }
    folder_remove(dir);
}

/* Processor time that all processes together have taken, stolen time included; negative: not known. */
static double busy_seconds(void)
{
    unsigned long long v[8] = {0};
    int n = 0;
    FILE *f = fopen("/proc/stat", "r");
    if (f) {
        n = fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", v, v + 1, v + 2, v + 3, v + 4,
                   v + 5, v + 6, v + 7);
        fclose(f);
    }
    if (n != 8) return -1;
    return (double)(v[0] + v[1] + v[2] + v[5] + v[6] + v[7]) / (double)sysconf(_SC_CLK_TCK);
}

static double seconds(const struct timeval *t)
{
    return (double)t->tv_sec + (double)t->tv_usec * 1e-6;
}

/* The same of this process and of the sides that have ended. */
static double own_seconds(void)
{
    struct rusage self, sides;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &sides);
    return seconds(&self.ru_utime) + seconds(&self.ru_stime) + seconds(&sides.ru_utime) +
           seconds(&sides.ru_stime);
}

static void run_row(bench_row *r, int rounds)
{
    const char *cache = TEST_BUILD_DIR "/bench-cache";
    match m = {.row = r};
    snprintf(m.tenon_spec, sizeof m.tenon_spec, "tenon:%s", r->c->tenon);
    m.spec[TENON] = m.tenon_spec;
    m.spec[PEER] = r->c->peer;
    m.spec[COPY] = r->c->bytes > 0 && strcmp(r->c->name, "copy") != 0 ? "tenon:memcpy" : NULL;
    for (int w = 0; w < SIDES; w++) {
        m.batch[w] = 1;
        for (int i = 0; i < ROUNDS_MOST; i++) *slot(r, w, i) = -1;
    }
    r->tenon_best = r->peer_best = -1;
    const double busy = busy_seconds(), own = own_seconds(), start = serve_now_ms();
    if (r->c->how == HOW_LOOP)
        rounds_alive(&m, rounds, cache);
    else
        rounds_new(&m, rounds, cache);
    const double wall = (serve_now_ms() - start) / 1e3 * (double)sysconf(_SC_NPROCESSORS_ONLN);
    const double others = busy_seconds() - busy - (own_seconds() - own);
    r->others = busy < 0 || wall <= 0 ? -1 : others > 0 ? others / wall : 0;
}

/* ---- processors ---- */
/* This process and so its children on `threads` of the processors in `all`, where there are more. */
static void pin(const cpu_set_t *all, int threads)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    for (size_t c = CPU_SETSIZE; c-- > 0 && CPU_COUNT(&set) < threads;)
        if (CPU_ISSET(c, all)) CPU_SET(c, &set);
    sched_setaffinity(0, sizeof set, &set);
}

/* ---- data ---- */
static bool has_data(const char *dir)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    char path[1200];
    for (size_t i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s.gz", dir, names[i]);
        if (!access(path, R_OK)) continue;
        path[strlen(path) - 3] = 0;
        if (access(path, R_OK)) return false;
    }
    return true;
}

static const char *find_data(void)
{
    const char *dir = getenv("TENON_DATASETS");
    if (!dir || !*dir) dir = getenv("DATASETS");
    if (!dir || !*dir) return "random, of MNIST's shape (TENON_DATASETS is not set)";
    for (int i = 0; i < 2; i++) {
        snprintf(data_dir, sizeof data_dir, "%s%s", dir, i ? "/mnist" : "");
        if (has_data(data_dir)) return "MNIST";
    }
    data_dir[0] = 0;
    fprintf(stderr, "bench: no MNIST in %s: the data is random\n", dir);
    return "random, of MNIST's shape";
}

/* ---- the command line ---- */
static int usage(void)
{
    fprintf(stderr, "usage: bench [--case NAME] [--against FILE] [--json FILE] [--rounds N] "
                    "[--threads 2,1] [--no-pin] [--list]\n");
    return 2;
}

static bool parse(options *o, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], **text = NULL;
        if (!strcmp(a, "--case")) text = &o->only;
        if (!strcmp(a, "--against")) text = &o->against;
        if (!strcmp(a, "--json")) text = &o->json;
        if (!strcmp(a, "--threads")) text = &o->threads;
        if (!strcmp(a, "--list")) {
            o->list = true;
        } else if (!strcmp(a, "--no-pin")) {
            o->pin = false;
        } else if (!strcmp(a, "--rounds") && i + 1 < argc) {
            o->rounds = atoi(argv[++i]);
        } else if (text && i + 1 < argc) {
            *text = argv[++i];
        } else {
            return false;
        }
    }
    return o->rounds >= 1 && o->rounds <= ROUNDS_MOST;
}

static int known(const options *o)
{
    int n = 0;
    for (int i = 0; i < bench_case_count; i++) {
        if (!bench_wanted(&bench_cases[i], o->only)) continue;
        if (o->list) printf("%s\n", bench_cases[i].name);
        n++;
    }
    if (!n) fprintf(stderr, "bench: no case '%s'; --list names them\n", o->only);
    return n;
}

/* All rows of one case; how many of Tenon's sides failed. */
static int run_case(const options *o, const bench_case *c, const cpu_set_t *all, bench_row *rows,
                    int *n)
{
    int bad = 0;
    for (const char *t = o->threads; *t && *n < ROWS_MOST; t += strspn(t, ",")) {
        bench_row *r = &rows[*n];
        char *end;
        const int threads = c->null_device ? 1 : (int)strtol(t, &end, 10);
        *r = (bench_row){.c = c, .threads = threads};
        if (threads < 1) break;
        if (o->pin) pin(all, threads);
        run_row(r, o->rounds);
        sched_setaffinity(0, sizeof *all, all);
        bench_print_row(r, o->against);
        bad += !strncmp(r->trouble, "Tenon: ", 7);
        ++*n;
        t += strcspn(t, ",");
        if (c->null_device) break;
    }
    return bad;
}

int main(int argc, char **argv)
{
    static bench_row rows[ROWS_MOST];
    options o = {.json = TEST_BUILD_DIR "/bench.json", .threads = "2,1", .rounds = 5, .pin = true};
    bench_machine machine = {{0}, {0}, {0}, {0}, NULL, NULL, 0, 0};
    cpu_set_t all;
    int n = 0, bad = 0;
    if (!parse(&o, argc, argv)) return usage();
    if (!known(&o)) return 2;
    if (o.list) return 0;
    if (o.against && access(o.against, R_OK)) {
        fprintf(stderr, "bench: %s cannot be read\n", o.against);
        return 2;
    }
    sched_getaffinity(0, sizeof all, &all);
    bench_machine_get(&machine);
    machine.data = find_data();
    machine.rounds = o.rounds;
    bench_print_head(o.against != NULL);
    for (int i = 0; i < bench_case_count; i++)
        if (bench_wanted(&bench_cases[i], o.only))
            bad += run_case(&o, &bench_cases[i], &all, rows, &n);
    bench_print_machine(&machine);
    if (bench_write_json(o.json, &machine, rows, n))
        fprintf(stderr, "bench: figures in %s\n", o.json);
    else
        fprintf(stderr, "bench: %s cannot be written\n", o.json);
    return bad ? 1 : 0;
}
