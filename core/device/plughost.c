/* SPDX-License-Identifier: MIT */
/*
 * The services that a plugin gets from its host, and the translation of its errors.  All callbacks are
 * [any] and take no lock of device/; a plugin's failed allocation is not an error of the thread yet, so the
 * record is left as it was.
 */
#include "device/module.h"
#include <ctype.h>
#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

bool tn__why_set(tn__why *w, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->text, sizeof w->text, fmt, ap);
    va_end(ap);
    return false;
}

void tn__why_add(tn__why *w, const char *fmt, ...)
{
    size_t n = strlen(w->text);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->text + n, sizeof w->text - n, fmt, ap);
    va_end(ap);
}

tn_code tn__plug_code(tnp_rc rc)
{
    switch (rc) {
    case TNP_E_NOMEM: return TN_ENOMEM;
    case TNP_E_OOM: return TN_EOOM;
    case TNP_E_UNSUPPORTED: return TN_EUNSUPPORTED;
    case TNP_E_COMPILE: return TN_ECOMPILE;
    case TNP_E_ARG:
    case TNP_E_INTERNAL: return TN_EINTERNAL;
    default: return TN_EDEVICE;
    }
}

const char *tn__plug_text(const tn__plug_err *p, tnp_rc rc)
{
    static const char *const names[] = {"no error",
                                        "wrong argument",
                                        "no host memory",
                                        "out of device memory",
                                        "not supported",
                                        "the source does not compile",
                                        "time limit",
                                        "the launch failed",
                                        "the device is lost",
                                        "no such device",
                                        "driver missing or too old",
                                        "internal error of the plugin",
                                        "opened before a fork"};
    if (p->text[0]) return p->text;
    return rc <= 0 && -rc < (int)TN_LEN(names) ? names[-rc] : "unknown error";
}

/* ---- callbacks ---- */

static void *host_realloc(void *ctx, void *p, size_t n)
{
    (void)ctx;
    if (!n) {
        tn__free(p);
        return NULL;
    }
    bool clean = tn_ok();
    void *q = p ? tn__realloc(p, n) : tn__alloc(n);
    if (!q && clean) tn_clear_error();
    return q;
}

static void host_log(void *ctx, int32_t level, const char *msg)
{
    const tn__plugin *p = ctx;
    if (level < TN_LOG_ERROR) level = TN_LOG_ERROR;
    if (level > TN_LOG_TRACE) level = TN_LOG_TRACE;
    tn__log((tn_log_level)level, "%s: %s", p->root ? p->root->name : "plugin", msg);
}

static const char *host_option(void *ctx, const char *key)
{
    const tn__plugin *p = ctx;
    const char *v = "";
    if (!strcmp(key, "renderer"))
        v = p->renderer;
    else if (!strcmp(key, "arch"))
        v = p->arch;
    else if (!strcmp(key, "cc"))
        v = tn_context_text(TN_CC);
    return v[0] ? v : NULL;
}

static tnp_rc set_err(tnp_err *e, tnp_rc rc, const char *text)
{
    if (!e) return rc;
    e->rc = rc;
    if (e->msg && e->cap) {
        snprintf(e->msg, e->cap, "%s", text);
        e->len = (uint32_t)strlen(e->msg);
    }
    return rc;
}

static void *host_lib_open(void *ctx, const char *const *names, tnp_err *e)
{
    (void)ctx;
    char text[512] = "tried", why[200] = "";
    for (; *names; names++) {
        void *h = dlopen(*names, RTLD_NOW | RTLD_LOCAL);
        if (h) return h;
        size_t n = strlen(text);
        snprintf(text + n, sizeof text - n, " %s%s", *names, names[1] ? "," : ": ");
        const char *err = dlerror();
        snprintf(why, sizeof why, "%s", err ? err : "cannot be opened");
    }
    size_t n = strlen(text);
    snprintf(text + n, sizeof text - n, "%s", why);
    set_err(e, TNP_E_DRIVER, text);
    return NULL;
}

static void *host_lib_sym(void *ctx, void *lib, const char *sym, tnp_err *e)
{
    (void)ctx;
    void *p = dlsym(lib, sym);
    if (!p) {
        char text[256];
        snprintf(text, sizeof text, "the driver's library has no %s: it is too old", sym);
        set_err(e, TNP_E_DRIVER, text);
    }
    return p;
}

/* Keys of plugins live apart from ours, under the plugin's name and version. */
static tn__hash own_key(const tn__plugin *p, const void *key, size_t n, bool *ok)
{
    tn__hash h = {0};
    bool clean = tn_ok();
    tn__buf b = {0};
    tn__buf_printf(&b, "%s %s %s ", p->root->name, p->root->version, p->arch);
    tn__buf_put(&b, key, n);
    *ok = !b.failed;
    if (*ok) h = tn__hash_bytes(b.data, b.len);
    tn__buf_free(&b);
    if (clean && !*ok) tn_clear_error();
    return h;
}

static tnp_rc host_cache_get(void *ctx, const void *key, size_t n, tnp_blob *out)
{
    bool ok;
    tn__hash h = own_key(ctx, key, n, &ok);
    *out = (tnp_blob){0};
    return ok && tn__cache_get("plugin", h, &out->data, &out->len) ? TNP_OK : TNP_E_NODEV;
}

static tnp_rc host_cache_put(void *ctx, const void *key, size_t n, const void *v, size_t nv)
{
    bool ok;
    tn__hash h = own_key(ctx, key, n, &ok);
    if (ok) tn__cache_put("plugin", h, v, nv);
    return TNP_OK;
}

void tn__plug_host_threads(tn__plugin *p)
{
    int64_t n = tn_context_get(TN_NUM_CPU_THREADS);
    p->host.threads = n > 0 && n < 4096 ? (uint32_t)n : 0;
}

void tn__plug_host_init(tn__plugin *p)
{
    p->host = (tnp_host){.size = sizeof p->host,
                         .minor = TNP_MINOR,
                         .version = tn_version(),
                         .ctx = p,
                         .realloc = host_realloc,
                         .log = host_log,
                         .option = host_option,
                         .lib_open = host_lib_open,
                         .lib_sym = host_lib_sym,
                         .cache_get = host_cache_get,
                         .cache_put = host_cache_put};
    tn__plug_host_threads(p);
}
