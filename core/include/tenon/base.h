/* SPDX-License-Identifier: MIT */
/*
 * Errors, context variables, logging, allocation hooks, version: what every other public header uses.
 * All of it is per thread unless said otherwise; no function here starts a device.
 */
#ifndef TENON_BASE_H
#define TENON_BASE_H
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define TN_API __declspec(dllexport)
#elif defined(__GNUC__) || defined(__clang__)
#define TN_API __attribute__((visibility("default")))
#else
#define TN_API
#endif
#if defined(__GNUC__) || defined(__clang__)
#define TN_PRINTF(f, a) __attribute__((format(printf, f, a)))
#define TN_CLEANUP(f)   __attribute__((cleanup(f), unused))
#define TN_NODISCARD    __attribute__((warn_unused_result))
#else
#define TN_PRINTF(f, a)
#define TN_CLEANUP(f)
#define TN_NODISCARD
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define TN_VERSION_MAJOR 0
#define TN_VERSION_MINOR 1
#define TN_VERSION_PATCH 0

typedef enum {
    TN_OK,
    TN_ESHAPE,       /* shapes do not fit */
    TN_EDTYPE,       /* element types do not fit */
    TN_EAXIS,        /* an axis is out of range or named twice */
    TN_EINDEX,       /* an index is out of range */
    TN_EVALUE,       /* an argument has a value that is not allowed */
    TN_ENULL,        /* a required argument is NULL */
    TN_ESTALE,       /* the handle's tensor is gone */
    TN_EBUSY,        /* in use by another call */
    TN_ESTATE,       /* not allowed now (training mode, inside a capture, ...) */
    TN_EGRAD,        /* no gradient can be computed */
    TN_EJIT,         /* a call does not fit its capture */
    TN_EDEVICE,      /* no such device, or it is lost */
    TN_ECOMPILE,     /* a kernel does not compile */
    TN_EIO,          /* the operating system refused */
    TN_EFORMAT,      /* a file is not what it claims to be */
    TN_ENOMEM,       /* host memory */
    TN_EOOM,         /* device memory */
    TN_EUNSUPPORTED, /* not in this build or not on this device */
    TN_EINTERNAL     /* a defect of the library */
} tn_code;

typedef struct {
    tn_code code;
    const char *msg;  /* subject, values, rule, way out; one line */
    const char *op;   /* the public function, "" if unknown */
    const char *file; /* of the call, "" if unknown */
    int line;
} tn_error;

/* The first error of this thread since tn_clear_error; NULL when there is none.  Borrowed until then. */
TN_API const tn_error *tn_last_error(void);
TN_API void tn_clear_error(void); /* Forgets this thread's error. */
/* True when no error is pending on this thread. */
TN_API bool tn_ok(void);
/* The name of a code: "TN_ESHAPE". */
TN_API const char *tn_code_name(tn_code code);

/* "0.1.0" */
TN_API const char *tn_version(void);

/* ---- log: to a callback; default: to stderr, up to info; info lines come only with DEBUG ---- */
typedef enum { TN_LOG_ERROR, TN_LOG_WARN, TN_LOG_INFO, TN_LOG_DEBUG, TN_LOG_TRACE } tn_log_level;
typedef void tn_log_fn(void *user, tn_log_level level, const char *msg);
/* Process-wide; NULL restores the default.  fn may be called from any thread. */
TN_API void tn_set_log(tn_log_fn *fn, void *user);

/* ---- host memory: process-wide, before the first other call --------------------------------- */
typedef struct {
    void *(*alloc)(void *user, size_t n); /* n > 0; aligned for any type; NULL when there is none */
    void *(*resize)(void *user, void *p, size_t n);
    void (*release)(void *user, void *p);
    void *user;
} tn_allocator;
TN_API void tn_set_allocator(const tn_allocator *a); /* NULL restores malloc */

/* ---- context variables ---------------------------------------------------------------------- */
/* One table (tenon/context.def) gives this enum, `tenon env`, the README's list and the parser.
 * Each is also read once from the environment: TENON_NAME wins over NAME. */
typedef enum {
#define TN_CTX(name, kind, def, when, doc) TN_##name,
#include <tenon/context.def>
#undef TN_CTX
    TN_VARS
} tn_context_var;

/* The value of an integer variable on this thread; 0 on error.  fails VALUE (a text variable) */
TN_API int64_t tn_context_get(tn_context_var v);
/* The value of a text variable, "" when unset or on error; borrowed until it changes.
 * fails VALUE (an integer variable) */
TN_API const char *tn_context_text(tn_context_var v);
/* Sets the process-wide default, for hosts; wins over the environment.
 * fails VALUE (a text variable, or a value outside of its range) */
TN_API void tn_context_set(tn_context_var v, int64_t value);
/* The same for a text variable; text is copied, NULL takes the setting back.
 * fails VALUE (an integer variable, or too long) */
TN_API void tn_context_set_text(tn_context_var v, const char *text);
/* False: the environment is not read at all (call first). */
TN_API void tn_context_use_environment(bool yes);

typedef struct {
    tn_context_var var;
    int64_t old;
    bool had, live;
} tn_with;
/* Sets an integer variable on this thread until tn_with_end, or TN_WITH's block, takes it back.
 * fails VALUE (text variable) */
TN_API void tn_with_open(tn_with *w, tn_context_var v, int64_t value);
TN_API void tn_with_end(tn_with *w); /* Takes a tn_with_open back; a second call does nothing. */
static inline tn_with tn_with_begin(tn_context_var v, int64_t value)
{
    tn_with w;
    tn_with_open(&w, v, value);
    return w;
}

/* An integer of the environment, `otherwise` where unset; junk warns once and gives `otherwise`. */
TN_API int64_t tn_getenv_int(const char *name, int64_t otherwise);

/* Remembers file and line of the caller for the next public call of this thread; the macros call it. */
TN_API void tn_at(const char *file, int line);

#define TN_CAT_(a, b) a##b
#define TN_CAT(a, b)  TN_CAT_(a, b)
/* A declaration at the start of a block: the variable has the value until the block is left. */
#define TN_WITH(v, value) \
    tn_with TN_CAT(tn_with_, __LINE__) TN_CLEANUP(tn_with_end) = tn_with_begin((v), (value))

#ifdef __cplusplus
}
#endif
#endif
