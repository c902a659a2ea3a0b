/* SPDX-License-Identifier: MIT */
/*
 * "Did you mean": the nearest of some names by edit distance, letters compared without case.
 *
 * The distance counts insertions, deletions, substitutions and swaps of neighbours (optimal string
 * alignment), over three rows of a table.  A name is near when at most a third of the word differs, and
 * at least one letter may.  Words longer than the rows are not compared.
 */
#include "base/base.h"
#include <ctype.h>
#include <string.h>

enum { WORD_MAX = 63 };

static int lower(char c) { return tolower((unsigned char)c); }

static int least(int a, int b) { return a < b ? a : b; }

static int distance(const char *a, size_t na, const char *b, size_t nb)
{
    int row[3][WORD_MAX + 1];
    for (size_t j = 0; j <= nb; j++) row[0][j] = (int)j;
    for (size_t i = 1; i <= na; i++) {
        int *now = row[i % 3], *up = row[(i + 2) % 3], *up2 = row[(i + 1) % 3];
        now[0] = (int)i;
        for (size_t j = 1; j <= nb; j++) {
            int d = up[j - 1] + (lower(a[i - 1]) != lower(b[j - 1]));
            d = least(d, least(up[j], now[j - 1]) + 1);
            bool swap = i > 1 && j > 1 && lower(a[i - 1]) == lower(b[j - 2]) &&
                        lower(a[i - 2]) == lower(b[j - 1]);
            if (swap) d = least(d, up2[j - 2] + 1);
            now[j] = d;
        }
    }
    return row[na % 3][nb];
}

const char *tn__nearest(const char *word, const char *const *names, size_t n)
{
    size_t len = word ? strlen(word) : 0;
    if (len == 0 || len > WORD_MAX) return NULL;
    int best = (int)(len / 3 > 1 ? len / 3 : 1) + 1;
    const char *found = NULL;
    for (size_t i = 0; i < n; i++) {
        size_t k = names[i] ? strlen(names[i]) : 0;
        if (k == 0 || k > WORD_MAX) continue;
        int d = distance(word, len, names[i], k);
        if (d < best && d < (int)k) {
            best = d;
            found = names[i];
        }
    }
    return found;
}
