/* SPDX-License-Identifier: MIT */
/*
 * DEV's grammar, one item of it:
 *     NAME [':' ORDINAL] [':' RENDERER [':' ARCH {',' ['-'] FEATURE}]]  |  a path with a slash
 * A part of digits only, right after the name, is the ordinal.  Names are taken in either case.
 */
#include "device/module.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define GRAMMAR                                                                                \
    "the grammar is NAME[:ORDINAL][:RENDERER[:ARCH{,[-]FEATURE}]], or a plugin's path with a " \
    "slash"

static bool all(const char *s, size_t n, int (*is)(int), const char *also)
{
    for (size_t i = 0; i < n; i++)
        if (!is((unsigned char)s[i]) && !strchr(also, s[i])) return false;
    return n > 0;
}

/* Copies a part in upper case; false when it does not fit. */
static bool upper(char *out, size_t cap, const char *s, size_t n)
{
    if (n >= cap) return false;
    for (size_t i = 0; i < n; i++) out[i] = (char)toupper((unsigned char)s[i]);
    out[n] = 0;
    return true;
}

static bool take_ordinal(tn__spec *out, const char *s, size_t n, tn__why *why)
{
    uint64_t v = 0;
    for (size_t i = 0; i < n && v < 1u << 30; i++) v = v * 10 + (uint64_t)(s[i] - '0');
    if (v > 65535) return tn__why_set(why, "ordinal %.*s is out of range: " GRAMMAR, (int)n, s);
    out->ordinal = (uint32_t)v;
    out->has_ordinal = true;
    return true;
}

bool tn__spec_parse(const char *text, size_t n, tn__spec *out, tn__why *why)
{
    *out = (tn__spec){0};
    while (n && isspace((unsigned char)*text)) text++, n--;
    while (n && isspace((unsigned char)text[n - 1])) n--;
    if (!n) return tn__why_set(why, "the name is empty: " GRAMMAR);
    if (memchr(text, '/', n)) {
        if (n >= sizeof out->path)
            return tn__why_set(why, "a path of %zu bytes: at most %zu", n, sizeof out->path - 1);
        memcpy(out->path, text, n);
        return true;
    }
    const char *end = text + n;
    for (int stage = 0; text <= end; stage++) {
        const char *colon = memchr(text, ':', (size_t)(end - text));
        size_t len = (size_t)((colon ? colon : end) - text);
        if (stage == 1 && !all(text, len, isdigit, "")) stage = 2;
        bool ok = len > 0 && stage < 4;
        if (stage == 0)
            ok = ok && all(text, len, isalnum, "_") &&
                 upper(out->name, sizeof out->name, text, len);
        if (stage == 1) {
            if (!take_ordinal(out, text, len, why)) return false;
        }
        if (stage == 2)
            ok = ok && all(text, len, isalnum, "_") &&
                 upper(out->renderer, sizeof out->renderer, text, len);
        if (stage == 3) {
            ok = ok && all(text, len, isalnum, "-_.,+") && len < sizeof out->arch;
            if (ok) memcpy(out->arch, text, len), out->arch[len] = 0;
        }
        if (!ok && stage >= 4)
            return tn__why_set(why, "\"%.*s\" is one part too many: " GRAMMAR, (int)len, text);
        if (!ok) return tn__why_set(why, "\"%.*s\" has no place here: " GRAMMAR, (int)len, text);
        text += len + 1;
    }
    return true;
}
