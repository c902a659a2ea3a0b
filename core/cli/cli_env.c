/* SPDX-License-Identifier: MIT */
/* `tenon env`: the table of context variables with the values that this process would use. */
#include "cli/cli.h"
#include "base/base.h"
#include <inttypes.h>
#include <stdio.h>

int cli_env(void)
{
    for (int i = 0; i < TN_VARS; i++) {
        const tn__var_info *v = tn__var_info_of((tn_context_var)i);
        char value[64];
        if (v->text)
            snprintf(value, sizeof value, "%s", tn_context_text((tn_context_var)i));
        else
            snprintf(value, sizeof value, "%" PRId64, tn_context_get((tn_context_var)i));
        printf("%-16s = %-8s %s", v->name, value, v->doc);
        if (v->text)
            printf(" (%s)\n", v->when);
        else
            printf(" (%s; default %" PRId64 ")\n", v->when, v->def);
    }
    return 0;
}
