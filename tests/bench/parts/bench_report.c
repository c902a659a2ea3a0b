/* SPDX-License-Identifier: MIT */
/* The cases, and what is said about their figures: see the header and README.md. */
#include "bench_report.h"
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#define CUBE(n) (2.0 * (n) * (n) * (n))
#define CONV    (2.0 * 128 * 64 * 11 * 11 * 32 * 9)

const bench_case bench_cases[] = {
    {.name = "mnist_step",
     .unit = "ms",
     .tenon = "mnist_step",
     .peer = "torch:mnist_step",
     .flop = 1.83e9,
     .goal = GOAL_RATIO,
     .limit = 1.2},
    {.name = "mnist_eager",
     .unit = "ms",
     .tenon = "mnist_eager",
     .peer = "tenon:mnist_step",
     .goal = GOAL_OVER,
     .limit = 3},
    {.name = "mnist_first_cold",
     .unit = "ms",
     .tenon = "mnist_first",
     .peer = "torch:mnist_first",
     .how = HOW_START,
     .goal = GOAL_VALUE,
     .limit = 6000,
     .cache = 1},
    {.name = "mnist_first_warm",
     .unit = "ms",
     .tenon = "mnist_first",
     .peer = "torch:mnist_first",
     .how = HOW_START,
     .goal = GOAL_VALUE,
     .limit = 1000,
     .cache = 2},
    {.name = "mnist_eval",
     .unit = "ms",
     .tenon = "mnist_eval",
     .peer = "torch:mnist_eval",
     .flop = 49e9,
     .goal = GOAL_RATIO,
     .limit = 1},
    {.name = "step_peak",
     .unit = "KB",
     .tenon = "step_peak",
     .peer = "torch:step_peak",
     .how = HOW_FRESH,
     .goal = GOAL_RATIO,
     .limit = 1.5},
    {.name = "replay_null",
     .unit = "us",
     .tenon = "replay_null",
     .goal = GOAL_VALUE,
     .limit = 2,
     .null_device = true},
    {.name = "replay_call", .unit = "us", .tenon = "replay_call", .null_device = true},
    {.name = "plan_lookup",
     .unit = "ms",
     .tenon = "plan_lookup",
     .goal = GOAL_VALUE,
     .limit = 1,
     .null_device = true},
    {.name = "matmul_1000",
     .unit = "ms",
     .tenon = "matmul_1000",
     .peer = "openblas:matmul_1000",
     .flop = CUBE(1000)},
    {.name = "matmul_1024",
     .unit = "ms",
     .tenon = "matmul_1024",
     .peer = "openblas:matmul_1024",
     .flop = CUBE(1024)},
    {.name = "matmul_1537",
     .unit = "ms",
     .tenon = "matmul_1537",
     .peer = "openblas:matmul_1537",
     .flop = CUBE(1537)},
    {.name = "matmul_tuned_1000",
     .unit = "ms",
     .tenon = "matmul_1000",
     .peer = "openblas:matmul_tuned_1000",
     .flop = CUBE(1000)},
    {.name = "matmul_tuned_1024",
     .unit = "ms",
     .tenon = "matmul_1024",
     .peer = "openblas:matmul_tuned_1024",
     .flop = CUBE(1024)},
    {.name = "matmul_tuned_1537",
     .unit = "ms",
     .tenon = "matmul_1537",
     .peer = "openblas:matmul_tuned_1537",
     .flop = CUBE(1537)},
    {.name = "conv2d", .unit = "ms", .tenon = "conv2d", .peer = "torch:conv2d", .flop = CONV},
    {.name = "elementwise",
     .unit = "ms",
     .tenon = "elementwise",
     .peer = "torch:elementwise",
     .bytes = 3 * 4.0 * (1 << 24)},
    {.name = "softmax",
     .unit = "ms",
     .tenon = "softmax",
     .peer = "torch:softmax",
     .bytes = 2 * 4.0 * 4096 * 1024},
    {.name = "copy", .unit = "ms", .tenon = "copy", .peer = "tenon:memcpy", .bytes = 2 * 256e6},
};
const int bench_case_count = (int)(sizeof bench_cases / sizeof *bench_cases);
static const double copy_bytes = 2 * 256e6;

bool bench_wanted(const bench_case *c, const char *only)
{
    const size_t n = only ? strlen(only) : 0;
    return !only || (!strncmp(c->name, only, n) && (c->name[n] == 0 || c->name[n] == '_'));
}

/* ---- figures ---- */
static double tenon_of(const bench_row *r, int i) { return r->tenon[i]; }
static double peer_of(const bench_row *r, int i) { return r->peer[i]; }
static double ratio_of(const bench_row *r, int i)
{
    return r->peer[i] > 0 && r->tenon[i] >= 0 ? r->tenon[i] / r->peer[i] : -1;
}
/* Bytes a time as a share of what a copy moved in the same round. */
static double share_of(const bench_row *r, int i)
{
    return r->copy[i] > 0 && r->tenon[i] > 0 ? r->c->bytes / r->tenon[i] / (copy_bytes / r->copy[i])
                                             : -1;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double middle(double *v, int n)
{
    qsort(v, (size_t)n, sizeof *v, by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double bench_median(const bench_row *r, double (*f)(const bench_row *r, int i))
{
    double v[ROUNDS_MOST];
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (f(r, i) >= 0) v[n++] = f(r, i);
    return n ? middle(v, n) : -1;
}

/* What Tenon takes more than the peer, pair by pair; may be negative. */
static bool median_over(const bench_row *r, double *over)
{
    double v[ROUNDS_MOST];
    int n = 0;
    for (int i = 0; i < r->n; i++)
        if (r->tenon[i] >= 0 && r->peer[i] >= 0) v[n++] = r->tenon[i] - r->peer[i];
    if (n) *over = middle(v, n);
    return n > 0;
}

/* ---- the table ---- */
static void goal_text(const bench_row *r, char *out, size_t cap)
{
    double got = -1;
    bool known = false;
    const char *what = "";
    switch (r->c->goal) {
    case GOAL_NONE: break;
    case GOAL_VALUE:
        got = bench_median(r, tenon_of);
        known = got >= 0;
        break;
    case GOAL_RATIO:
        got = bench_median(r, ratio_of);
        known = got >= 0;
        what = "ratio ";
        break;
    case GOAL_OVER:
        known = median_over(r, &got);
        what = "over the peer ";
        break;
    }
    out[0] = 0;
    if (!known) return;
    const char *unit = r->c->goal == GOAL_RATIO ? "" : r->c->unit;
    if (r->c->goal == GOAL_OVER)
        snprintf(out, cap, "%s%+.2f %s, goal <= %.4g %s: %s", what, got, unit, r->c->limit, unit,
                 got <= r->c->limit ? "met" : "MISSED");
    else
        snprintf(out, cap, "goal %s<= %.4g%s%s: %s", what, r->c->limit, *unit ? " " : "", unit,
                 got <= r->c->limit ? "met" : "MISSED");
}

static void number(char *out, size_t cap, double v, const char *unit)
{
    if (v < 0)
        snprintf(out, cap, "-");
    else
        snprintf(out, cap,
                 v >= 1000  ? "%.0f %s"
                 : v >= 100 ? "%.1f %s"
                 : v >= 10  ? "%.2f %s"
                            : "%.3f %s",
                 v, unit);
}

static double milliseconds(const bench_row *r, double v)
{
    return !strcmp(r->c->unit, "ms") ? v : -1;
}

/* Work a time, the share of a copy, the goal: what a column of its own would leave empty. */
static void remark(const bench_row *r, char *out, size_t cap)
{
    char goal[120], rate[80] = "", part[60] = "", noise[60] = "";
    const double ms = milliseconds(r, bench_median(r, tenon_of)), share = bench_median(r, share_of);
    goal_text(r, goal, sizeof goal);
    if (r->others > 0.05)
        snprintf(noise, sizeof noise, "NOISY: others took %.0f %%", r->others * 100);
    if (ms > 0 && r->c->flop > 0) snprintf(rate, sizeof rate, "%.1f GFLOPS", r->c->flop / ms / 1e6);
    if (ms > 0 && r->c->bytes > 0) snprintf(rate, sizeof rate, "%.2f GB/s", r->c->bytes / ms / 1e6);
    if (share > 0) snprintf(part, sizeof part, ", %.0f %% of memcpy's", share * 100);
    snprintf(out, cap, "%s%s", rate, part);
    const char *const further[] = {goal, noise, r->trouble};
    for (size_t i = 0; i < 3; i++) {
        const size_t n = strlen(out);
        if (further[i][0]) snprintf(out + n, cap - n, "%s%s", n ? "; " : "", further[i]);
    }
}

/* The field `"key": number` of an earlier file's row; negative when it is not there. */
static double field(const char *line, const char *key)
{
    char pattern[64];
    snprintf(pattern, sizeof pattern, "\"%s\": ", key);
    const char *at = strstr(line, pattern);
    return at && strncmp(at + strlen(pattern), "null", 4) != 0 ? atof(at + strlen(pattern)) : -1;
}

static bool earlier(const char *path, const bench_row *r, double *tenon, double *ratio)
{
    char line[8192], want[128];
    bool found = false;
    FILE *f = fopen(path, "r");
    snprintf(want, sizeof want, "{\"case\": \"%s\", \"threads\": %d,", r->c->name, r->threads);
    while (f && !found && fgets(line, sizeof line, f)) {
        if (!strstr(line, want)) continue;
        *tenon = field(line, "tenon");
        *ratio = field(line, "ratio");
        found = true;
    }
    if (f) fclose(f);
    return found;
}

static void compared(const bench_row *r, const char *path, char *out, size_t cap)
{
    double tenon = -1, ratio = -1;
    char old[40];
    const double now = bench_median(r, tenon_of), now_ratio = bench_median(r, ratio_of);
    snprintf(out, cap, "-");
    if (!earlier(path, r, &tenon, &ratio) || tenon < 0 || now < 0) return;
    number(old, sizeof old, tenon, r->c->unit);
    int n = snprintf(out, cap, "%s x%.2f", old, tenon > 0 ? now / tenon : 1);
    if (ratio > 0 && now_ratio >= 0 && n > 0 && (size_t)n < cap)
        snprintf(out + n, cap - (size_t)n, " (ratio x%.2f)", now_ratio / ratio);
}

void bench_print_head(bool against)
{
    printf("%-17s %12s %12s %7s %7s %8s  %s%-26s %s\n", "case", "Tenon", "peer", "ratio", "best",
           "threads", against ? "before, now/before           " : "", "peer's name", "remarks");
}

void bench_print_row(const bench_row *r, const char *against)
{
    char a[40], b[40], ratio[40] = "-", least[40] = "-", text[1024], then[120];
    const double q = bench_median(r, ratio_of);
    number(a, sizeof a, bench_median(r, tenon_of), r->c->unit);
    number(b, sizeof b, bench_median(r, peer_of), r->c->unit);
    if (q >= 0) snprintf(ratio, sizeof ratio, q < 0.1 ? "%.3f" : "%.2f", q);
    remark(r, text, sizeof text);
    if (r->tenon_best >= 0 && r->peer_best > 0)
        snprintf(least, sizeof least, r->tenon_best < 0.1 * r->peer_best ? "%.3f" : "%.2f",
                 r->tenon_best / r->peer_best);
    printf("%-17s %12s %12s %7s %7s %8d  ", r->c->name, a, b, ratio, least, r->threads);
    if (against) {
        compared(r, against, then, sizeof then);
        printf("%-29s", then);
    }
    printf("%-26s %s\n", r->peer_name[0] ? r->peer_name : "-", text);
    fflush(stdout);
}

/* ---- the machine ---- */
static void first_line(char *out, size_t cap, const char *path, const char *key)
{
    char line[512];
    FILE *f = fopen(path, "r");
    snprintf(out, cap, "?");
    while (f && fgets(line, sizeof line, f)) {
        const char *at = line;
        if (key && strncmp(line, key, strlen(key)) != 0) continue;
        if (key && (at = strchr(line, ':'))) at += 1 + strspn(at + 1, " \t");
        snprintf(out, cap, "%.*s", (int)strcspn(at ? at : line, "\n"), at ? at : line);
        break;
    }
    if (f) fclose(f);
}

void bench_machine_get(bench_machine *m)
{
    struct utsname u;
    char load[128];
    time_t now = time(NULL);
    struct tm *t = gmtime(&now);
    const char *commit = getenv("BENCH_COMMIT");
    first_line(m->cpu, sizeof m->cpu, "/proc/cpuinfo", "model name");
    first_line(load, sizeof load, "/proc/loadavg", NULL);
    snprintf(m->load, sizeof m->load, "%.*s", (int)strcspn(load, " "), load);
    if (uname(&u) == 0)
        snprintf(m->system, sizeof m->system, "%.30s %.50s %.30s", u.sysname, u.release, u.machine);
    m->cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
    m->commit = commit && *commit ? commit : "?";
    if (t) strftime(m->when, sizeof m->when, "%Y-%m-%d %H:%M UTC", t);
}

void bench_print_machine(const bench_machine *m)
{
    printf("%s, %d cores, %s; commit %s; data: %s; %d alternations; load average at the start "
           "%s%s; %s\n",
           m->cpu, m->cores, m->system, m->commit, m->data, m->rounds, m->load,
           atof(m->load) > 1 ? " (NOISY)" : "", m->when);
}

/* ---- JSON: one row a line ---- */
static void text_json(FILE *f, const char *s)
{
    fputc('"', f);
    for (; *s; s++) {
        if (*s == '"' || *s == '\\') fputc('\\', f);
        fputc((unsigned char)*s < 32 ? ' ' : *s, f);
    }
    fputc('"', f);
}

static void number_json(FILE *f, const char *key, double v)
{
    fprintf(f, v >= 0 ? ", \"%s\": %.9g" : ", \"%s\": null", key, v);
}

static void list_json(FILE *f, const char *key, const bench_row *r,
                      double (*of)(const bench_row *r, int i))
{
    fprintf(f, ", \"%s\": [", key);
    for (int i = 0; i < r->n; i++)
        fprintf(f, of(r, i) >= 0 ? "%s%.9g" : "%snull", i ? ", " : "", of(r, i));
    fputc(']', f);
}

static void row_json(FILE *f, const bench_row *r)
{
    fprintf(f, "  {\"case\": \"%s\", \"threads\": %d, \"unit\": \"%s\"", r->c->name, r->threads,
            r->c->unit);
    number_json(f, "tenon", bench_median(r, tenon_of));
    number_json(f, "peer", bench_median(r, peer_of));
    number_json(f, "ratio", bench_median(r, ratio_of));
    number_json(f, "tenon_best", r->tenon_best);
    number_json(f, "peer_best", r->peer_best);
    number_json(f, "others", r->others);
    number_json(f, "copy_share", bench_median(r, share_of));
    list_json(f, "tenon_all", r, tenon_of);
    list_json(f, "peer_all", r, peer_of);
    fputs(", \"tenon_name\": ", f);
    text_json(f, r->tenon_name);
    fputs(", \"peer_name\": ", f);
    text_json(f, r->peer_name);
    fputs(", \"trouble\": ", f);
    text_json(f, r->trouble);
    fputc('}', f);
}

bool bench_write_json(const char *path, const bench_machine *m, const bench_row *rows, int n)
{
    FILE *f = fopen(path, "w");
    if (!f) return false;
    fputs("{\"format\": 1, \"when\": ", f);
    text_json(f, m->when);
    fputs(", \"cpu\": ", f);
    text_json(f, m->cpu);
    fputs(", \"system\": ", f);
    text_json(f, m->system);
    fputs(", \"commit\": ", f);
    text_json(f, m->commit);
    fputs(", \"data\": ", f);
    text_json(f, m->data);
    fprintf(f, ", \"cores\": %d, \"rounds\": %d, \"load\": %.2f,\n \"rows\": [\n", m->cores,
            m->rounds, atof(m->load));
    for (int i = 0; i < n; i++) {
        row_json(f, &rows[i]);
        fputs(i + 1 < n ? ",\n" : "\n", f);
    }
    fputs("]}\n", f);
    bool ok = !ferror(f);
    return fclose(f) == 0 && ok;
}
