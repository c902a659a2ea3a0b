/* SPDX-License-Identifier: MIT */
/*
 * Status words: where a plan's range checks (schedule/checks.c) tell of an index that is out of range.  A word
 * is 0 until a kernel finds one; the thread that ran the plan reads the words when it next waits for
 * the device anyway, and reports the first that is not 0.
 *
 * The words live as long as the plan and its parts.  Each thread keeps a short list of the plans it has run
 * since it last looked; a plan's run allocates and locks nothing here, but the 17th one without a wait waits.
 */
#include "engine/engine.h"
#include "engine/plan.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    int64_t rows;
    const char *op;
    int line;
    char file[128]; /* its end, where it is longer */
} check;

struct tn__status {
    atomic_uint refs;
    tn__buffer *words;
    int n;
    check check[];
};

enum { RECENT = 16 };

typedef struct {
    tn__status *ran[RECENT]; /* own */
    int n;
} recent;

static _Thread_local recent mine;
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;

/* ---- life ---- */

void tn__status_ref(tn__status *s)
{
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
}

void tn__status_unref(tn__status *s)
{
    if (!s || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1) return;
    tn__buffer_unref(s->words);
    tn__free(s);
}

static void forget(void *p)
{
    recent *r = p;
    while (r->n) tn__status_unref(r->ran[--r->n]);
}

static void make_key(void) { (void)pthread_key_create(&at_exit, forget); }

void tn__status_forget(void) { forget(&mine); }

bool tn__status_make(tn__plan *p, const tn__schedule *s)
{
    if (!s->ncheck) return true;
    const size_t bytes = (size_t)s->ncheck * sizeof(uint64_t);
    tn__status *t = tn__calloc(1, sizeof *t + (size_t)s->ncheck * sizeof *t->check);
    uint64_t *zero = tn__calloc((size_t)s->ncheck, sizeof *zero);
    bool ok = t && zero && (t->words = tn__buffer_new(p->devs[0], bytes)) &&
              tn__buffer_write(t->words, 0, zero, bytes);
    tn__free(zero);
    if (t) atomic_init(&t->refs, 1);
    if (!ok) {
        tn__status_unref(t);
        return false;
    }
    for (int i = 0; i < s->ncheck; i++) {
        const tn__origin *o = s->check[i].record < 0 ? NULL : &p->origin[s->check[i].record];
        check *c = &t->check[t->n++];
        *c = (check){.rows = s->check[i].rows, .op = o ? o->op : "", .line = o ? o->line : 0};
        const size_t len = o ? strlen(o->file) : 0,
                     cut = len < sizeof c->file ? 0 : len - sizeof c->file + 1;
        if (o) memcpy(c->file, o->file + cut, len - cut + 1);
    }
    p->status = t;
    return true;
}

void tn__status_bind(const tn__plan *p, const tn__binding *to)
{
    for (int i = 0; p->status && i < p->nbuf; i++) {
        if (p->buf[i].kind != TN__PBUF_STATUS) continue;
        to->ref[i] = tn__buffer_ref_of(p->status->words, (size_t)p->buf[i].slot * sizeof(uint64_t),
                                       sizeof(uint64_t));
        if (to->mem) to->mem[i] = p->status->words;
    }
}

/* ---- reports ---- */

static bool report(const check *c, uint64_t word)
{
    const int64_t at = word & 1 ? -(int64_t)(word / 2) - 1 : (int64_t)(word / 2) - 1;
    char where[256] = "";
    const char *op = strncmp(c->op, "tn_", 3) ? c->op : c->op + 3;
    if (c->line) snprintf(where, sizeof where, " at %s:%d", c->file, c->line);
    return tn__fail(
        TN_EINDEX,
        "%s%s: row %" PRId64 " of %" PRId64
        ": an element of the index tensor is out of range: what it read is 0 and what it "
        "wrote is dropped; check the indices or clamp them",
        *op ? op : "index", where, at, c->rows);
}

static bool look(tn__status *s)
{
    enum { CHUNK = 64 };
    uint64_t w[CHUNK];
    bool ok = true;
    for (int at = 0; ok && at < s->n; at += CHUNK) {
        const int n = s->n - at < CHUNK ? s->n - at : CHUNK;
        const size_t off = (size_t)at * sizeof *w, bytes = (size_t)n * sizeof *w;
        ok = tn__buffer_read(w, s->words, off, bytes);
        int bad = -1;
        for (int i = n - 1; ok && i >= 0; i--)
            if (w[i]) bad = i;
        if (bad < 0) continue;
        const uint64_t word = w[bad];
        memset(w, 0, sizeof w);
        ok = tn__buffer_write(s->words, off, w, bytes) && report(&s->check[at + bad], word);
    }
    return ok;
}

bool tn__status_report(void)
{
    bool ok = true;
    while (mine.n) {
        tn__status *s = mine.ran[--mine.n];
        ok = look(s) && ok;
        tn__status_unref(s);
    }
    return ok;
}

bool tn__status_ran(const tn__plan *p)
{
    tn__status *s = p->status;
    if (!s) return true;
    for (int i = 0; i < mine.n; i++)
        if (mine.ran[i] == s) return true;
    if (mine.n == RECENT && !tn__status_report()) return false;
    pthread_once(&once, make_key);
    if (!mine.n) (void)pthread_setspecific(at_exit, &mine);
    tn__status_ref(s);
    mine.ran[mine.n++] = s;
    return true;
}
