/* SPDX-License-Identifier: MIT */
/* Public functions made by hand from nodes: tn__call_begin, operands, a node, tn__call_end. */
#include "support/handle_rig.h"
#include <string.h>

tn_tensor *handle_binary(tn__op op, tn_tensor *a, tn_tensor *b)
{
    tn__call c;
    tn__call_begin(&c, "bin");
    return tn__call_end(&c, tn__binary(op, tn__in(a), tn__in(b)));
}

tn_tensor *handle_sum(tn_tensor *a)
{
    tn__call c;
    tn__call_begin(&c, "sum");
    tn__node *x = tn__in(a);
    return tn__call_end(&c, x ? tn__reshape(tn__reduce(TN_OP_ADD, x, (1u << x->rank) - 1), NULL, 0)
                              : NULL);
}

tn_tensor *handle_rows(tn_tensor *a, int64_t first, int64_t n)
{
    tn__call c;
    tn__call_begin(&c, "rows");
    tn__node *x = tn__in_view(a);
    if (!x) return tn__call_end(&c, NULL);
    int64_t at[TN_MAX_RANK] = {first}, size[TN_MAX_RANK];
    memcpy(size, x->dims, x->rank * sizeof *size);
    size[0] = n;
    return tn__call_view(&c, a, tn__shrink(x, at, size));
}
