/* SPDX-License-Identifier: MIT */
/*
 * einsum: each operand in one order of labels, stretched over all of them, multiplied, summed over what the
 * output does not name.  "..." takes part, repeated labels of a term are diagonals, as in PyTorch.
 */
#include "tensor/ops.h"
#include <string.h>

static const char *text(const tn__node *x) { return tn__shape_text(x->dims, x->rank); }

#define LABELS (53 + TN_MAX_RANK) /* 1..52: letters; the axes of "..." are the last ones */

static int label_of(char c)
{
    return c >= 'a' && c <= 'z' ? c - 'a' + 1 : c >= 'A' && c <= 'Z' ? c - 'A' + 27 : -1;
}

/* One term of the formula, up to ',' '-' or the end, as labels; dots: axes that "..." stands for. */
static int term(const char **p, int *labels, int dots)
{
    int n = 0;
    for (; **p && **p != ',' && **p != '-'; (*p)++) {
        if (**p == ' ') continue;
        if (!strncmp(*p, "...", 3)) {
            *p += 2;
            for (int i = 0; i < dots && n < TN_MAX_RANK; i++) labels[n++] = LABELS - dots + i;
        } else if (label_of(**p) < 0 || n == TN_MAX_RANK) {
            return -1;
        } else {
            labels[n++] = label_of(**p);
        }
    }
    return n;
}

static bool has_dots(const char *p)
{
    for (; *p && *p != ',' && *p != '-'; p++)
        if (*p == '.') return true;
    return false;
}

static int letters(const char *p)
{
    int n = 0;
    for (; *p && *p != ',' && *p != '-'; p++) n += label_of(*p) > 0;
    return n;
}

typedef struct {
    int64_t size[LABELS]; /* 0: not seen, else size + 1 */
    int count[LABELS];    /* how often in the formula's inputs */
    int out[TN_MAX_RANK], nout;
} sums;

static bool bad_formula(const char *formula, const char *why)
{
    return tn__fail(TN_EVALUE, "einsum: \"%.80s\": %s", formula, why);
}

/* x with one axis a label, in ascending order of labels: repeated ones become diagonals. */
static tn__node *in_order(tn__node *x, int *labels, int n, unsigned char *present)
{
    memset(present, 0, LABELS);
    for (int i = 0; i < n; i++)
        for (int j = i + 1; j < n && x; j++) {
            if (labels[i] != labels[j]) continue;
            x = tn__diagonal(x, 0, i, j);
            int l = labels[i];
            memmove(labels + j, labels + j + 1, (size_t)(n - j - 1) * sizeof *labels);
            memmove(labels + i, labels + i + 1, (size_t)(n - i - 2) * sizeof *labels);
            labels[--n - 1] = l;
            i = -1; /* begin again: the axes moved */
            break;
        }
    int order[TN_MAX_RANK];
    for (int l = 0, k = 0; l < LABELS; l++)
        for (int i = 0; i < n; i++)
            if (labels[i] == l) order[k++] = i, present[l] = 1;
    return x ? tn__permute(x, order) : NULL;
}

static bool sizes_of(const char *formula, const tn__node *x, const int *labels, int n, sums *s)
{
    if (n != x->rank)
        return tn__fail(TN_ESHAPE, "einsum: \"%.80s\": %d labels for %s: one an axis", formula, n,
                        text(x));
    for (int i = 0; i < n; i++) {
        int64_t *have = &s->size[labels[i]], d = x->dims[i] + 1;
        s->count[labels[i]]++;
        if (*have && *have != d && *have != 2 && d != 2)
            return tn__fail(TN_ESHAPE, "einsum: \"%.80s\": one label has sizes %lld and %lld",
                            formula, (long long)*have - 1, (long long)d - 1);
        if (!*have || *have == 2) *have = d;
    }
    return true;
}

/* Reads the formula; fills sizes and the output's labels. */
static bool read_formula(const char *formula, tn__node *const *xs, size_t n, sums *s, int *dots)
{
    const char *p = formula;
    int labels[TN_MAX_RANK], most = 0;
    for (size_t i = 0; i < n; i++) {
        dots[i] = has_dots(p) ? xs[i]->rank - letters(p) : 0;
        if (dots[i] < 0) return bad_formula(formula, "more labels than axes");
        if (dots[i] > most) most = dots[i];
        int k = term(&p, labels, dots[i]);
        if (k < 0) return bad_formula(formula, "a term holds letters and \"...\" only");
        if (!sizes_of(formula, xs[i], labels, k, s)) return false;
        bool last = i + 1 == n;
        if (*p == ',' && !last)
            p++;
        else if (!last || *p == ',')
            return bad_formula(formula, "not as many terms as tensors");
    }
    if (*p == '-') {
        if (p[1] != '>') return bad_formula(formula, "inputs and output are parted by \"->\"");
        p += 2;
        s->nout = term(&p, s->out, most);
        if (s->nout < 0 || *p)
            return bad_formula(formula, "the output holds letters and \"...\" only");
        for (int i = 0; i < s->nout; i++) {
            if (!s->size[s->out[i]])
                return bad_formula(formula, "a label of the output is in no input");
            for (int j = 0; j < i; j++)
                if (s->out[i] == s->out[j])
                    return bad_formula(formula, "a label is twice in the output");
        }
        return true;
    }
    for (int l = LABELS - most; l < LABELS; l++) s->out[s->nout++] = l;
    static const char abc[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"; /* in ASCII order */
    for (const char *c = abc; *c; c++)
        if (s->count[label_of(*c)] == 1 && s->nout < TN_MAX_RANK) s->out[s->nout++] = label_of(*c);
    return true;
}

/* Multiplies all operands over the labels of the formula, sums what the output does not name. */
static tn__node *contract(const char *formula, tn__node *const *xs, size_t n, const sums *s,
                          const int *dots)
{
    int64_t full[TN_MAX_RANK], part[TN_MAX_RANK];
    int at[LABELS], rank = 0;
    for (int l = 0; l < LABELS; l++) {
        at[l] = rank;
        if (!s->size[l]) continue;
        if (rank == TN_MAX_RANK) return bad_formula(formula, "more than 16 labels"), NULL;
        full[rank++] = s->size[l] - 1;
    }
    const char *p = formula;
    tn__node *y = NULL;
    for (size_t i = 0; i < n; i++, p++) {
        int labels[TN_MAX_RANK], k = term(&p, labels, dots[i]), r = 0, f = 0;
        unsigned char present[LABELS];
        tn__node *x = in_order(xs[i], labels, k, present);
        if (!x) return NULL;
        for (int l = 0; l < LABELS; l++)
            if (s->size[l]) part[f++] = present[l] ? x->dims[r++] : 1;
        x = tn__expand(tn__reshape(x, part, rank), full, rank);
        y = y ? tn__binary(TN_OP_MUL, y, x) : x;
    }
    unsigned keep = 0;
    int order[TN_MAX_RANK];
    for (int i = 0; i < s->nout; i++) keep |= 1u << at[s->out[i]];
    unsigned gone = y ? tn__mask_all(y) & ~keep : 0;
    y = tn__drop_axes(tn__reduce(TN_OP_ADD, y, gone), gone, false);
    for (int i = 0; i < s->nout; i++) {
        order[i] = 0;
        for (int b = 0; b < at[s->out[i]]; b++) order[i] += (int)(keep >> b & 1u);
    }
    return y ? tn__permute(y, order) : NULL;
}

tn__node *tn__einsum(const char *formula, tn__node *const *in, size_t n, tn_dtype dt)
{
    tn__node *xs[16];
    int dots[16];
    sums s = {0};
    if (!formula) return tn__fail(TN_ENULL, "einsum: the formula is NULL"), NULL;
    if (!n || n > TN_LEN(xs))
        return tn__fail(TN_EVALUE, "einsum: %zu tensors: takes 1 to %zu", n, TN_LEN(xs)), NULL;
    memcpy(xs, in, n * sizeof *xs);
    if (!tn__promote("einsum", xs, (int)n)) return NULL;
    tn_dtype own = (tn_dtype)xs[0]->dt, acc = dt != TN_DTYPE_DEFAULT ? dt : tn__dtype_sum(own);
    for (size_t i = 0; i < n; i++)
        if (!(xs[i] = tn__cast(xs[i], acc))) return NULL;
    if (!read_formula(formula, xs, n, &s, dots)) return NULL;
    tn__node *y = contract(formula, xs, n, &s, dots);
    return tn__cast(y, dt != TN_DTYPE_DEFAULT ? dt : own);
}
