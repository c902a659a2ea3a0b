/* SPDX-License-Identifier: MIT */
/*
 * The error record: one a thread, the first error wins until the user clears it.
 *
 * Invariant: `pending` and a code other than TN_OK go together; the public view points into the record,
 * so that reading an error allocates nothing.  Everything here is thread-local but tn__check_failed.
 */
#include "base/base.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static _Thread_local tn__error rec = {.file = ""};
static _Thread_local bool pending;
static _Thread_local tn_error view;
static _Thread_local const char *at_file = "";
static _Thread_local int at_line;
static _Thread_local const char *op_now = "";
static _Thread_local unsigned depth;

const tn_error *tn_last_error(void)
{
    if (!pending) return NULL;
    view = (tn_error){rec.code, rec.msg, rec.op, rec.file, rec.line};
    return &view;
}

void tn_clear_error(void)
{
    pending = false;
    rec.code = TN_OK;
    rec.msg[0] = rec.op[0] = '\0';
}

bool tn_ok(void) { return !pending; }

const char *tn_code_name(tn_code code)
{
    static const char *const names[] = {
        [TN_OK] = "TN_OK",
        [TN_ESHAPE] = "TN_ESHAPE",
        [TN_EDTYPE] = "TN_EDTYPE",
        [TN_EAXIS] = "TN_EAXIS",
        [TN_EINDEX] = "TN_EINDEX",
        [TN_EVALUE] = "TN_EVALUE",
        [TN_ENULL] = "TN_ENULL",
        [TN_ESTALE] = "TN_ESTALE",
        [TN_EBUSY] = "TN_EBUSY",
        [TN_ESTATE] = "TN_ESTATE",
        [TN_EGRAD] = "TN_EGRAD",
        [TN_EJIT] = "TN_EJIT",
        [TN_EDEVICE] = "TN_EDEVICE",
        [TN_ECOMPILE] = "TN_ECOMPILE",
        [TN_EIO] = "TN_EIO",
        [TN_EFORMAT] = "TN_EFORMAT",
        [TN_ENOMEM] = "TN_ENOMEM",
        [TN_EOOM] = "TN_EOOM",
        [TN_EUNSUPPORTED] = "TN_EUNSUPPORTED",
        [TN_EINTERNAL] = "TN_EINTERNAL",
    };
    return (size_t)code < TN_LEN(names) ? names[code] : "?";
}

/* Opens the record for a first error; false when one is pending already. */
static bool claim(tn_code code)
{
    if (pending) return false;
    pending = true;
    rec.code = code == TN_OK ? TN_EINTERNAL : code;
    snprintf(rec.op, sizeof rec.op, "%s", op_now);
    rec.file = at_file;
    rec.line = at_line;
    return true;
}

bool tn__vfail(tn_code code, const char *fmt, va_list ap)
{
    if (claim(code)) vsnprintf(rec.msg, sizeof rec.msg, fmt, ap);
    return false;
}

void (*tn__fail_seen)(const char *place, int line);

bool tn__fail_from(const char *place, int line, tn_code code, const char *fmt, ...)
{
    va_list ap;
    if (tn__fail_seen) tn__fail_seen(place, line);
    va_start(ap, fmt);
    tn__vfail(code, fmt, ap);
    va_end(ap);
    return false;
}

bool tn__fail_nomem(void)
{
    static const char text[] =
        "host memory: an allocation was refused: free tensors or caches and try again";
    if (claim(TN_ENOMEM)) memcpy(rec.msg, text, sizeof text);
    return false;
}

void tn__enter(const char *op)
{
    if (depth++ == 0) op_now = op ? op : "";
}

void tn__leave(void)
{
    TN_CHECK(depth > 0);
    if (--depth == 0) op_now = "";
}

void tn_at(const char *file, int line)
{
    at_file = file ? file : "";
    at_line = line;
}

void tn__here(const char **file, int *line)
{
    *file = at_file;
    *line = at_line;
}

void tn__error_take(tn__error *out)
{
    if (pending) {
        *out = rec;
    } else {
        memset(out, 0, sizeof *out);
        out->file = "";
    }
    tn_clear_error();
}

void tn__error_put(const tn__error *e)
{
    if (pending || e->code == TN_OK) return;
    rec = *e;
    pending = true;
}

/* The one place of the library that prints and aborts: a broken invariant of its own in a debug build. */
void tn__check_failed(const char *what, const char *file, int line)
{
    fprintf(stderr, "%s:%d: invariant broken: %s\n", file, line, what);
    abort();
}

const char *tn_version(void)
{
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)
    return TEXT(TN_VERSION_MAJOR) "." TEXT(TN_VERSION_MINOR) "." TEXT(TN_VERSION_PATCH);
}
