/* SPDX-License-Identifier: MIT */
/*
 * Context variables.  The value on a thread is the first that exists of: the thread's own (TN_WITH), the
 * host's (tn_context_set), the environment's (TENON_NAME, then NAME, read once), the table's default.
 *
 * Texts are kept in fixed storage, so that reading the environment allocates nothing.  Host and
 * environment layers are shared by all threads; texts may change only while no thread reads them.
 * A value outside of a variable's range is refused: from the environment by one warning, after which the
 * default holds, from a program by an error.  The log is called with no lock held.
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

/* The values that an integer variable may have. */
static const struct {
    int64_t min, max;
} range[TN_VARS] = {
    [TN_DEBUG] = {0, 7},
    [TN_TRAINING] = {0, 1},
    [TN_JIT] = {0, 2},
    [TN_JIT_BATCH_SIZE] = {0, INT32_MAX},
    [TN_JIT_CHECK] = {0, INT32_MAX},
    [TN_BEAM] = {0, 10000},
    [TN_NOOPT] = {0, 1},
    [TN_NUM_CPU_THREADS] = {0, 4095},
    [TN_VIZ] = {0, 1},
    [TN_CHECK_NAN] = {0, 1},
    [TN_CACHELEVEL] = {0, 2},
    [TN_DEFAULT_FLOAT] = {10, 13},
    [TN_SEED] = {INT64_MIN, INT64_MAX},
    [TN_NO_COLOR] = {INT64_MIN, INT64_MAX}, /* by its convention any text switches colours off */
    [TN_POISON] = {0, 1},
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

typedef enum { WHOLE, HUGE_NUMBER, JUNK } reading;

static reading whole_number(const char *s, int64_t *out)
{
    char *end;
    errno = 0;
    long long v = strtoll(s, &end, 10);
    while (*end == ' ') end++;
    if (end == s || *end) return JUNK;
    if (errno) return HUGE_NUMBER;
    *out = v;
    return WHOLE;
}

static bool in_range(tn_context_var v, int64_t value)
{
    return value >= range[v].min && value <= range[v].max;
}

/* The text of a variable in the environment, NULL when it is unset; `name` (64 bytes) becomes what it is called. */
static const char *given(tn_context_var v, char *name)
{
    snprintf(name, 64, "TENON_%s", info[v].name);
    const char *s = env_string(name);
    if (s) return s;
    snprintf(name, 64, "%s", info[v].name);
    return env_string(name);
}

/* False: the value is not one of the variable's. */
static bool read_var(tn_context_var v)
{
    char name[64];
    int64_t n;
    const char *s = given(v, name);
    if (!s) return true;
    if (info[v].text) {
        if (strlen(s) >= TEXT_MAX) return false;
        strcpy(env_text[v], s);
    } else if (whole_number(s, &n) == WHOLE && in_range(v, n)) {
        env[v] = (number){true, n};
    } else if (v == TN_NO_COLOR) {
        env[v] = (number){true, 1};
    } else {
        return false;
    }
    return true;
}

static void warn(tn_context_var v)
{
    char name[64];
    int64_t n;
    const char *s = given(v, name);
    if (!s) return;
    if (info[v].text)
        tn__log(TN_LOG_WARN, "%s: the value has %zu bytes and the limit is %d: it is ignored", name,
                strlen(s), TEXT_MAX - 1);
    else if (whole_number(s, &n) == JUNK)
        tn__log(TN_LOG_WARN, "%s: '%.64s' is not an integer: the default %lld is used", name, s,
                (long long)info[v].def);
    else
        tn__log(TN_LOG_WARN, "%s: %.64s is not in %lld to %lld: the default %lld is used", name, s,
                (long long)range[v].min, (long long)range[v].max, (long long)info[v].def);
}

static void read_environment(void)
{
    bool bad[TN_VARS] = {false};
    if (atomic_load_explicit(&env_read, memory_order_acquire)) return;
    pthread_mutex_lock(&lock);
    if (!atomic_load_explicit(&env_read, memory_order_relaxed)) {
        for (int v = 0; v < TN_VARS; v++) bad[v] = !read_var((tn_context_var)v);
        atomic_store_explicit(&env_read, true, memory_order_release);
    }
    pthread_mutex_unlock(&lock);
    for (int v = 0; v < TN_VARS; v++)
        if (bad[v]) warn((tn_context_var)v);
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

/* May a program set an integer variable to this? */
static bool allowed(const char *op, tn_context_var v, int64_t value)
{
    if (!known(op, v, false)) return false;
    if (in_range(v, value)) return true;
    return tn__fail(TN_EVALUE, "%s: %s: %lld is not in %lld to %lld: the value stays %lld", op,
                    info[v].name, (long long)value, (long long)range[v].min,
                    (long long)range[v].max, (long long)tn_context_get(v));
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
    if (!allowed("tn_context_set", v, value)) return;
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
    if (!allowed("TN_WITH", v, value)) return;
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
    const reading r = whole_number(s, &v);
    if (r == WHOLE) return v;
    tn__hash h = tn__hash_bytes(name, strlen(name));
    tn__log_once((const void *)(uintptr_t)(h.lo | 1), TN_LOG_WARN,
                 "%s: '%.64s' is not an integer%s: the default %lld is used", name, s,
                 r == HUGE_NUMBER ? " of 64 bits" : "", (long long)otherwise);
    return otherwise;
}
