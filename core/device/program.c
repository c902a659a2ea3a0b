/* SPDX-License-Identifier: MIT */
/*
 * Kernels from source to something that can be launched.  A whole source text is compiled at once; its
 * binary is looked up in the disk cache under the device's key, the text and the entries, and one that does
 * not load (another machine's, damaged) is compiled again.
 */
#include "device/module.h"
#include <stdio.h>
#include <string.h>

struct tn__program {
    atomic_uint refs;
    tn__device *dev;
    tnp_prog *h;
};

/* Version of what is hashed and stored here. */
static const char format[] = "binary 1";

static tn__hash binary_key(const tn__device *d, const void *src, size_t len, const tnp_entry *en,
                           size_t n, bool *ok)
{
    tn__hash h = tn__hash_bytes(src, len);
    tn__buf b = {0};
    tn__buf_put(&b, format, sizeof format);
    tn__buf_put(&b, &d->key, sizeof d->key);
    tn__buf_put(&b, &h, sizeof h);
    for (size_t i = 0; i < n; i++) {
        tn__buf_printf(&b, "%s %u %u %u %u %u;", en[i].name, en[i].nargs, en[i].nimms,
                       en[i].local[0], en[i].local[1], en[i].local[2]);
        if (en[i].nargs) tn__buf_put(&b, en[i].args, en[i].nargs * sizeof *en[i].args);
    }
    *ok = !b.failed;
    if (*ok) h = tn__hash_bytes(b.data, b.len);
    tn__buf_free(&b);
    return h;
}

/* First line of the log that speaks of an error, without its surroundings. */
static void first_error(const tnp_blob *log, char *out, size_t cap)
{
    const char *p = log->data, *end = p + log->len;
    const char *best = p;
    size_t best_len = 0;
    while (p && p < end) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        size_t n = (size_t)((nl ? nl : end) - p);
        char line[512];
        snprintf(line, sizeof line, "%.*s", n < sizeof line ? (int)n : (int)sizeof line - 1, p);
        bool error = strstr(line, "error") != NULL;
        if (n && (!best_len || error)) best = p, best_len = n;
        if (error) break;
        p += n + 1;
    }
    snprintf(out, cap, "%.*s", best_len < cap ? (int)best_len : (int)cap - 1, best_len ? best : "");
}

static bool compile_failed(const tn__device *d, const tnp_entry *en, size_t n, const tnp_blob *log,
                           tnp_rc rc, const tn__plug_err *e)
{
    char line[480] = "";
    first_error(log, line, sizeof line);
    if (log->len && tn_context_get(TN_DEBUG) >= 1)
        tn__log(TN_LOG_INFO, "%s: compiler's log:\n%.*s", d->name,
                log->len < 3000 ? (int)log->len : 3000, (const char *)log->data);
    tn_code code = rc == TNP_E_NOMEM ? TN_ENOMEM : TN_ECOMPILE;
    return tn__fail(code, "%s: kernel %s%s does not compile: %s%s%s", d->name, n ? en[0].name : "?",
                    n > 1 ? " (and others)" : "", tn__plug_text(e, rc), line[0] ? ": " : "", line);
}

/* The binary of a source text; where the plugin has no compiler, the text itself.  *own: to be freed. */
static bool compile(tn__device *d, const void *src, size_t len, const tnp_entry *en, size_t n,
                    tnp_blob *bin, bool *own)
{
    const tnp_plugin *root = d->plugin->root;
    *own = false;
    if (!TNP_FN(root, tnp_plugin, compile)) {
        *bin = (tnp_blob){(void *)(uintptr_t)src, len};
        return true;
    }
    tn__plug_err e;
    tnp_blob log = {0};
    tnp_compile c = {.size = sizeof c,
                     .arch = d->arch[0] ? d->arch : d->caps.arch,
                     .dialect = d->source,
                     .src = src,
                     .len = len,
                     .entries = en,
                     .nentries = (uint32_t)n};
    tnp_rc rc = root->compile(&c, bin, &log, tn__plug_err_init(&e));
    atomic_fetch_add_explicit(&tn__count.compiles, 1, memory_order_relaxed);
    bool ok = rc >= 0 || compile_failed(d, en, n, &log, rc, &e);
    if (ok && log.len && tn_context_get(TN_DEBUG) >= 1)
        tn__log(TN_LOG_INFO, "%s: compiler's log:\n%.*s", d->name,
                log.len < 3000 ? (int)log.len : 3000, (char *)log.data);
    tn__free(log.data);
    *own = ok;
    return ok;
}

static void drop(tn__program **out, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        tn__program_unref(out[i]);
        out[i] = NULL;
    }
}

/* Loads every entry; `loud`: a refusal is an error.  *nomem: there was no host memory, which always is. */
static bool load(tn__device *d, const tnp_blob *bin, const tnp_entry *en,
                 const tn__kernel_sig *sigs, size_t n, tn__program **out, bool loud, bool *nomem)
{
    *nomem = false;
    bool compiled = TNP_FN(d->plugin->root, tnp_plugin, compile);
    const char *fmt = compiled && d->caps.formats && d->caps.formats[0] ? d->caps.formats[0]
                                                                        : d->source;
    for (size_t i = 0; i < n; i++) {
        tn__plug_err e;
        tn__program *p = tn__calloc(1, sizeof *p);
        tnp_rc rc = TNP_E_NOMEM;
        if (p) {
            tnp_load l = {.size = sizeof l,
                          .format = fmt,
                          .entry = &en[i],
                          .bin = bin->data,
                          .len = bin->len,
                          .scratch_bytes = sigs[i].scratch_bytes};
            tn__dev_lock(d);
            rc = d->ops->prog_load(d->h, &l, &p->h, tn__plug_err_init(&e));
            tn__dev_unlock(d);
        }
        if (rc < 0) {
            if (p && loud)
                tn__fail(rc == TNP_E_COMPILE ? TN_ECOMPILE : tn__plug_code(rc),
                         "%s: kernel %s cannot be loaded: %s", d->name, en[i].name,
                         tn__plug_text(&e, rc));
            *nomem = !p;
            tn__free(p);
            drop(out, i);
            return false;
        }
        p->dev = d;
        atomic_store(&p->refs, 1);
        out[i] = p;
    }
    if (n && tn_context_get(TN_DEBUG) >= 7) tn__disassemble(d, en[0].name, bin->data, bin->len);
    return true;
}

static tnp_entry *make_entries(const tn__kernel_sig *sigs, size_t n)
{
    tnp_entry *en = tn__calloc(n, sizeof *en);
    for (size_t i = 0; en && i < n; i++)
        en[i] = (tnp_entry){.name = sigs[i].name,
                            .args = sigs[i].args,
                            .nargs = sigs[i].nargs,
                            .nimms = sigs[i].nimms,
                            .local = {sigs[i].local[0], sigs[i].local[1], sigs[i].local[2]}};
    return en;
}

bool tn__program_build(tn__device *d, const void *src, size_t len, const tn__kernel_sig *sigs,
                       size_t n, tn__program **out)
{
    tnp_blob bin = {0};
    bool own = false, ok = true, cached, nomem = false;
    for (size_t i = 0; i < n; i++) out[i] = NULL;
    tnp_entry *en = make_entries(sigs, n);
    if (!en) return false;
    cached = TNP_FN(d->plugin->root, tnp_plugin, compile) && tn_context_get(TN_CACHELEVEL) >= 1;
    tn__hash key = {0};
    if (cached) key = binary_key(d, src, len, en, n, &ok);
    if (cached && !ok) {
        tn__free(en);
        return false;
    }
    bool done = false;
    if (cached && tn__cache_get("binary", key, &bin.data, &bin.len)) {
        done = load(d, &bin, en, sigs, n, out, false, &nomem);
        tn__free(bin.data);
        bin = (tnp_blob){0};
    }
    if (!done && !nomem) {
        done = compile(d, src, len, en, n, &bin, &own) &&
               load(d, &bin, en, sigs, n, out, true, &nomem);
        if (done && cached) tn__cache_put("binary", key, bin.data, bin.len);
        if (own) tn__free(bin.data);
    }
    tn__free(en);
    return done;
}

void tn__program_ref(tn__program *p)
{
    atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

void tn__program_unref(tn__program *p)
{
    if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1) return;
    tn__device *d = p->dev;
    if (d->async) tn__device_sync(d);
    tn__dev_lock(d);
    d->ops->prog_free(d->h, p->h);
    tn__dev_unlock(d);
    tn__free(p);
}

tnp_prog *tn__program_handle(const tn__program *p) { return p->h; }
