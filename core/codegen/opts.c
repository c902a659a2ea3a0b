/* SPDX-License-Identifier: MIT */
/* The heuristic and the opts it applies. */
#include "codegen/codegen.h"

bool tn__optimise(tn__kernel *k, const tn__codegen_target *t)
{
    (void)k;
    (void)t;
    return true;
}
