/* SPDX-License-Identifier: MIT */
/*
 * Context variables.  The value on a thread is the first that exists of: the thread's own (TN_WITH), the
 * host's (tn_context_set), the environment's (TENON_NAME, then NAME, read once), the table's default.
 *
 * Texts are kept in fixed storage, so that reading the environment allocates nothing.  Host and
 * environment layers are shared by all threads; texts may change only while no thread reads them.
 */
#include "base/base.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INT, TEXT, TEXT_MAX = 4096 };

static const tn__var_info info[TN_VARS] = {
#define TN_CTX(name, kind, def, when, doc) [TN_##name] = {#name, kind == TEXT, def, when, doc},
#include <tenon/context.def>
#undef TN_CTX
};

typedef struct {
    bool set;
    int64_t value;
} number;

static _Thread_local number mine[TN_VARS];
_Thread_local tn__context_watch *tn__context_watching;
static struct {
    atomic_bool set;
    _Atomic int64_t value;
} host[TN_VARS];
static number env[TN_VARS];
static char host_text[TN_VARS][TEXT_MAX], env_text[TN_VARS][TEXT_MAX];
static atomic_bool env_off, env_read;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const tn__var_info *tn__var_info_of(tn_context_var v)
{
    return (unsigned)v < TN_VARS ? &info[v] : NULL;
}

static const char *env_string(const char *name)
{
    const char *s = getenv(name);
    return s && *s ? s : NULL;
}

static bool whole_number(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    while (*end == ' ') end++;
    if (end == s || *end || errno) return false;
    *out = v;
    return true;
}

static void read_text(tn_context_var v, const char *name, const char *s)
{
    if (strlen(s) < TEXT_MAX)
        strcpy(env_text[v], s);
    else
        tn__log(TN_LOG_WARN, "%s: the value has %zu bytes and the limit is %d: it is ignored", name,
                strlen(s), TEXT_MAX - 1);
}

static void read_var(tn_context_var v)
{
    char name[64];
    snprintf(name, sizeof name, "TENON_%s", info[v].name);
    const char *s = env_string(name), *used = name;
    if (!s) s = env_string(used = info[v].name);
    if (!s) return;
    if (info[v].text) {
        read_text(v, used, s);
    } else if (whole_number(s, &env[v].value)) {
        env[v].set = true;
    } else if (v == TN_NO_COLOR) { /* by its convention any text switches colours off */
        env[v] = (number){true, 1};
    } else {
        tn__log(TN_LOG_WARN, "%s: '%.64s' is not an integer: the default %lld is used", used, s,
                (long long)info[v].def);
    }
}

static void read_environment(void)
{
    if (atomic_load_explicit(&env_read, memory_order_acquire)) return;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&env_read, memory_order_relaxed)) {
        for (int v = 0; v < TN_VARS; v++) read_var((tn_context_var)v);
        atomic_store_explicit(&env_read, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
}

void tn__context_reload(void)
{
    pthread_mutex_lock(&lock);
    memset(env, 0, sizeof env);
    memset(env_text, 0, sizeof env_text);
    memset(host_text, 0, sizeof host_text);
    for (int v = 0; v < TN_VARS; v++) atomic_store(&host[v].set, false);
    atomic_store(&env_off, false);
    atomic_store(&env_read, false);
    pthread_mutex_unlock(&lock);
}

void tn_context_use_environment(bool yes) { atomic_store(&env_off, !yes); }

static bool known(const char *op, tn_context_var v, bool text)
{
    if ((unsigned)v >= TN_VARS)
        return tn__fail(TN_EVALUE,
                        "%s: %d is not a context variable: use the TN_ names of context.def", op,
                        (int)v);
    if (info[v].text == text) return true;
    return tn__fail(TN_EVALUE, "%s: %s is %s variable: use %s", op, info[v].name,
                    text ? "an integer" : "a text",
                    text ? "tn_context_get and tn_context_set"
                         : "tn_context_text and tn_context_set_text");
}

int64_t tn_context_get(tn_context_var v)
{
    if (!known("tn_context_get", v, false)) return 0;
    tn__context_watch *w = tn__context_watching;
    if (w && !w->own[v]) w->read |= UINT64_C(1) << v;
    if (mine[v].set) return mine[v].value;
    if (atomic_load_explicit(&host[v].set, memory_order_acquire))
        return atomic_load_explicit(&host[v].value, memory_order_relaxed);
    if (!atomic_load_explicit(&env_off, memory_order_relaxed)) {
        read_environment();
        if (env[v].set) return env[v].value;
    }
    return info[v].def;
}

const char *tn_context_text(tn_context_var v)
{
    if (!known("tn_context_text", v, true)) return "";
    if (atomic_load_explicit(&host[v].set, memory_order_acquire)) return host_text[v];
    if (atomic_load_explicit(&env_off, memory_order_relaxed)) return "";
    read_environment();
    return env_text[v];
}

void tn_context_set(tn_context_var v, int64_t value)
{
    if (!known("tn_context_set", v, false)) return;
    atomic_store_explicit(&host[v].value, value, memory_order_relaxed);
    atomic_store_explicit(&host[v].set, true, memory_order_release);
}

void tn_context_set_text(tn_context_var v, const char *text)
{
    if (!known("tn_context_set_text", v, true)) return;
    if (text && strlen(text) >= TEXT_MAX) {
        tn__fail(TN_EVALUE, "tn_context_set_text: %s: the value has %zu bytes: the limit is %d",
                 info[v].name, strlen(text), TEXT_MAX - 1);
        return;
    }
    pthread_mutex_lock(&lock);
    strcpy(host_text[v], text ? text : "");
    atomic_store_explicit(&host[v].set, text != NULL, memory_order_release);
    pthread_mutex_unlock(&lock);
}

void tn_with_open(tn_with *w, tn_context_var v, int64_t value)
{
    *w = (tn_with){.var = v};
    if (!known("TN_WITH", v, false)) return;
    w->old = mine[v].value;
    w->had = mine[v].set;
    w->live = true;
    mine[v] = (number){true, value};
    if (tn__context_watching) tn__context_watching->own[v]++;
}

void tn_with_end(tn_with *w)
{
    if (!w || !w->live) return;
    mine[w->var] = (number){w->had, w->old};
    if (tn__context_watching && tn__context_watching->own[w->var])
        tn__context_watching->own[w->var]--;
    w->live = false;
}

int64_t tn_getenv_int(const char *name, int64_t otherwise)
{
    if (!name || atomic_load(&env_off)) return otherwise;
    const char *s = env_string(name);
    int64_t v;
    if (!s) return otherwise;
    if (whole_number(s, &v)) return v;
    tn__hash h = tn__hash_bytes(name, strlen(name));
    tn__log_once((const void *)(uintptr_t)(h.lo | 1), TN_LOG_WARN,
                 "%s: '%.64s' is not an integer: the default %lld is used", name, s,
                 (long long)otherwise);
    return otherwise;
}
