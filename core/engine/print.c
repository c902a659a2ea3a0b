/* SPDX-License-Identifier: MIT */
/*
 * The text of a tensor, as numpy's str() gives it: at most 8 digits after the point, as few as tell
 * the values apart, columns aligned, lines of 75 characters, three elements from either end of long
 * axes.
 *
 *   1. Read the elements.
 *   2. Look at those that are shown: fixed or exponent notation, digits left and right of the
 *      point.
 *   3. Write them, axis by axis.
 */
#include "engine/engine.h"
#include "tensor/slot.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/core.h>

enum { WIDTH = 75, EDGE = 3, THRESHOLD = 1000, PRECISION = 8, BODY = 400, WORD = 512 };

typedef struct {
    tn_dtype dt;
    int rank;
    const int64_t *dims;
    const char *raw;
    bool summary;
    /* how numbers look */
    bool exponent;
    int left, right; /* digits before and after the point; left counts the sign */
    int power;       /* digits of exponents */
    int width;       /* of integers and bools */
    tn__buf out, line;
    size_t skip; /* columns of the line that are written already */
} text;

static tn__scalar element(const text *t, int64_t i)
{
    uint64_t bits = 0;
    size_t size = tn__dtype_size(t->dt);
    memcpy(&bits, t->raw + (size_t)i * size, size);
    return tn__scalar_from_bits(t->dt, bits);
}

/* ---- one number ---- */

/* Fewest digits after the point, up to `most`, from which v comes back; fmt is "%.*f" or "%.*e". */
static int digits(tn_dtype dt, const char *fmt, double v, int most)
{
    char word[BODY];
    int d = 0;
    for (; d < most; d++) {
        snprintf(word, sizeof word, fmt, d, v);
        if (tn__scalar_from_double(dt, strtod(word, NULL)).f == v) break;
    }
    snprintf(word, sizeof word, fmt, d, v);
    char *e = strchr(word, 'e'), *last = e ? e - 1 : word + strlen(word) - 1;
    for (; d > 0 && *last == '0'; last--) d--; /* zeros that rounding at `most` has left */
    return d;
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
static void number(char *word, size_t n, const char *fmt, int d, double v)
{
    snprintf(word, n, fmt, d, v);
    if (d) return;
    char *e = strchr(word, 'e'); /* numpy keeps the point: "1." and "1.e+10" */
    if (!e) e = word + strlen(word);
    memmove(e + 1, e, strlen(e) + 1);
    *e = '.';
}
#pragma GCC diagnostic pop

static void float_word(const text *t, double v, char *word)
{
    char body[BODY];
    if (!isfinite(v)) {
        int wide = t->left + 1 + t->right + (t->exponent ? 2 + t->power : 0);
        snprintf(word, WORD, "%*s", wide, isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    if (t->exponent) {
        number(body, sizeof body, "%.*e", t->right, v);
        for (char *e = strchr(body, 'e') + 2; (int)strlen(e) < t->power; *e = '0')
            memmove(e + 1, e, strlen(e) + 1);
        snprintf(word, WORD, "%*s%s", t->left - 1 - (signbit(v) != 0), "", body);
        return;
    }
    int d = digits(t->dt, "%.*f", v, t->right);
    number(body, sizeof body, "%.*f", d, v);
    const char *point = strchr(body, '.');
    snprintf(word, WORD, "%*s%s%*s", t->left - (int)(point - body), "", body, t->right - d, "");
}

/* From here on numbers are written with exponents. */
static double most_fixed(tn_dtype dt) { return dt == TN_F64 ? 1e8 : dt == TN_F32 ? 1e6 : 1e3; }

/* A float of rank 0: the shortest text that gives it back, as Python writes it. */
static void lone_float(tn_dtype dt, double v, char *word)
{
    if (!isfinite(v)) {
        snprintf(word, WORD, "%s", isnan(v) ? "nan" : v < 0 ? "-inf" : "inf");
        return;
    }
    int d = digits(dt, "%.*e", v, 17);
    char e[64];
    snprintf(e, sizeof e, "%.*e", d, v);
    int power = atoi(strchr(e, 'e') + 1);
    if (v != 0 && (fabs(v) < 1e-4 || fabs(v) >= (dt == TN_F64 ? 1e16 : most_fixed(dt)))) {
        snprintf(word, WORD, "%s", e);
        return;
    }
    int after = d - power;
    snprintf(word, WORD, "%.*f", after > 1 ? after : 1, v);
}

static void write_word(const text *t, int64_t i, char *word)
{
    tn__scalar s = element(t, i);
    if (tn__dtype_is_float(t->dt)) {
        if (t->rank)
            float_word(t, s.f, word);
        else
            lone_float(t->dt, s.f, word);
    } else if (t->dt == TN_BOOL) {
        snprintf(word, WORD, "%*s", t->rank ? 5 : 0, s.u ? "True" : "False");
    } else if (tn__dtype_is_signed(t->dt)) {
        snprintf(word, WORD, "%*" PRId64, t->width, s.i);
    } else {
        snprintf(word, WORD, "%*" PRIu64, t->width, s.u);
    }
}

/* ---- step 2: what is shown ---- */

/* Index of the k-th shown one of n along an axis, and how many are shown. */
static int64_t shown(const text *t, int64_t n) { return t->summary && n > 2 * EDGE ? 2 * EDGE : n; }
static int64_t nth(const text *t, int64_t n, int64_t k)
{
    return t->summary && n > 2 * EDGE && k >= EDGE ? n - 2 * EDGE + k : k;
}

typedef void each_fn(text *t, tn__scalar s, void *user);

static void each(text *t, each_fn *f, void *user)
{
    int64_t at[TN_MAX_RANK] = {0};
    for (;;) {
        int64_t flat = 0;
        for (int i = 0; i < t->rank; i++) flat = flat * t->dims[i] + nth(t, t->dims[i], at[i]);
        f(t, element(t, flat), user);
        int i = t->rank - 1;
        for (; i >= 0 && ++at[i] == shown(t, t->dims[i]); i--) at[i] = 0;
        if (i < 0) return;
    }
}

typedef struct {
    double least, most;
    bool odd; /* NaN or infinity */
    bool minus_odd;
} span;

static void measure(text *t, tn__scalar s, void *user)
{
    span *m = user;
    (void)t;
    if (!isfinite(s.f)) {
        m->odd = true;
        m->minus_odd = m->minus_odd || s.f < 0;
        return;
    }
    double a = fabs(s.f);
    if (a == 0) return;
    if (a < m->least) m->least = a;
    if (a > m->most) m->most = a;
}

static void widen(text *t, tn__scalar s, void *user)
{
    char word[BODY];
    (void)user;
    if (!isfinite(s.f)) return;
    const char *fmt = t->exponent ? "%.*e" : "%.*f";
    int d = digits(t->dt, fmt, s.f, PRECISION);
    number(word, sizeof word, fmt, d, s.f);
    int left = (int)(strchr(word, '.') - word);
    if (left > t->left) t->left = left;
    if (d > t->right) t->right = d;
    int power = t->exponent ? (int)strlen(strchr(word, 'e') + 2) : 0;
    if (power > t->power) t->power = power;
}

static void widen_int(text *t, tn__scalar s, void *user)
{
    char word[WORD];
    (void)user;
    int n = tn__dtype_is_signed(t->dt) ? snprintf(word, sizeof word, "%" PRId64, s.i)
                                       : snprintf(word, sizeof word, "%" PRIu64, s.u);
    if (n > t->width) t->width = n;
}

static void choose(text *t)
{
    if (!tn__dtype_is_float(t->dt)) {
        each(t, widen_int, NULL);
        return;
    }
    span m = {.least = INFINITY};
    each(t, measure, &m);
    t->exponent = m.most >= most_fixed(t->dt) ||
                  (m.most > 0 && (m.least < 1e-4 || m.most / m.least > 1000));
    each(t, widen, NULL);
    int odd = m.minus_odd ? 4
              : m.odd     ? 3
                          : 0,
        room = t->right + 1 + (t->exponent ? 2 + t->power : 0);
    if (odd - room > t->left) t->left = odd - room;
}

/* ---- step 3 ---- */

/* Adds a word to the line, which is first put out where it would grow too long. */
static void extend(text *t, const char *word, size_t width, size_t indent)
{
    if (t->line.data && t->line.len + strlen(word) > width && t->line.len > indent) {
        while (t->line.len && t->line.data[t->line.len - 1] == ' ') t->line.len--;
        tn__buf_put(&t->out, t->line.data + t->skip, t->line.len - t->skip);
        tn__buf_put(&t->out, "\n", 1);
        t->skip = 0;
        t->line.len = 0;
        for (size_t i = 0; i < indent; i++) tn__buf_put(&t->line, " ", 1);
    }
    tn__buf_put(&t->line, word, strlen(word));
}

/* The last axis: "[1. 2. 3.]"; the line starts after `indent` columns that are written already. */
static void write_row(text *t, int64_t base, size_t indent, size_t width)
{
    char word[WORD];
    int64_t n = t->dims[t->rank - 1], k = shown(t, n);
    t->line.len = 0;
    for (size_t i = 0; i < indent; i++) tn__buf_put(&t->line, " ", 1);
    t->skip = indent; /* the first line's stands there already */
    for (int64_t i = 0; i < k; i++) {
        if (i == EDGE && k < n) {
            extend(t, "...", width - 1, indent);
            tn__buf_put(&t->line, " ", 1);
        }
        write_word(t, base + nth(t, n, i), word);
        extend(t, word, width - 1, indent);
        if (i + 1 < k) tn__buf_put(&t->line, " ", 1);
    }
    if (t->line.data) tn__buf_put(&t->out, t->line.data + t->skip, t->line.len - t->skip);
}

static void newlines(text *t, int n, size_t indent)
{
    for (int i = 0; i < n; i++) tn__buf_put(&t->out, "\n", 1);
    for (size_t i = 0; i < indent; i++) tn__buf_put(&t->out, " ", 1);
}

/* Brackets by an odometer over all axes but the last. */
static void write_all(text *t)
{
    int64_t at[TN_MAX_RANK] = {0};
    const int outer = t->rank - 1;
    for (int i = 0; i < outer; i++) tn__buf_put(&t->out, "[", 1);
    for (;;) {
        int64_t flat = 0;
        for (int i = 0; i < outer; i++) flat = flat * t->dims[i] + nth(t, t->dims[i], at[i]);
        flat *= t->dims[outer];
        tn__buf_put(&t->out, "[", 1);
        write_row(t, flat, (size_t)t->rank, (size_t)(WIDTH - outer));
        tn__buf_put(&t->out, "]", 1);
        int i = outer - 1;
        for (; i >= 0 && ++at[i] == shown(t, t->dims[i]); i--) {
            at[i] = 0;
            tn__buf_put(&t->out, "]", 1);
        }
        if (i < 0) return;
        newlines(t, outer - i, (size_t)(i + 1));
        if (at[i] == EDGE && shown(t, t->dims[i]) < t->dims[i]) {
            tn__buf_put(&t->out, "...", 3);
            newlines(t, outer - i, (size_t)(i + 1));
        }
        for (int k = i + 1; k < outer; k++) tn__buf_put(&t->out, "[", 1);
    }
}

static char *write_text(text *t)
{
    int64_t n = 1;
    char word[WORD];
    for (int i = 0; i < t->rank; i++) n *= t->dims[i];
    t->summary = n > THRESHOLD;
    if (!n) {
        tn__buf_put(&t->out, "[]", 2);
    } else if (!t->rank) {
        write_word(t, 0, word);
        tn__buf_put(&t->out, word, strlen(word));
    } else {
        choose(t);
        write_all(t);
    }
    bool failed = t->out.failed || t->line.failed;
    tn__buf_free(&t->line);
    if (!failed) return t->out.data;
    tn__buf_free(&t->out);
    tn__fail_nomem();
    return NULL;
}

static char *repr(tn_tensor *t)
{
    tn__slot *s = tn__slot_get(t);
    tn__node *n = s ? tn__slot_in(s, false) : NULL;
    if (!n) return NULL;
    text x = {.dt = (tn_dtype)n->dt, .rank = n->rank, .dims = n->dims};
    size_t bytes = (size_t)tn__node_numel(n) * tn__dtype_size(x.dt);
    char *raw = tn__alloc(bytes), *out = NULL;
    x.raw = raw;
    tn__node_ref(n); /* reading may turn a kept tensor into a leaf */
    if (raw && (tn_data)(t, raw, bytes)) out = write_text(&x);
    tn__node_unref(n);
    tn__free(raw);
    return out;
}

char *tn_repr(tn_tensor *t)
{
    tn__enter("tn_repr");
    char *out = repr(t);
    tn__leave();
    return out;
}

void tn_text_free(char *p) { tn__free(p); }

bool(tn_print)(tn_tensor *t)
{
    tn__enter("tn_print");
    char *out = repr(t);
    bool ok = out != NULL;
    if (ok && (fputs(out, stdout) < 0 || fputc('\n', stdout) < 0))
        ok = tn__fail(TN_EIO, "print: standard output refuses the text");
    tn__free(out);
    tn__leave();
    return ok;
}
