#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The core names no backend outside comments: no CUDA, OPENCL, METAL, INTERP, and CPU only in NUM_CPU_THREADS
# and TNP_KIND_CPU.  The command's and the library's help text are no exception.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
bad=0
for f in core/*/*.[ch] core/*/*.def core/include/tenon/*; do
  [ -f "$f" ] || continue
  found=$(cc -fpreprocessed -dD -E -P -x c "$f" 2>/dev/null |
    grep -nwiE 'cuda|opencl|metal|interp|cpu|tenon_(cuda|opencl|metal|interp|cpu)' | head -n 5)
  [ -z "$found" ] || { printf '%s names a backend outside comments:\n%s\n' "$f" "$found"; bad=1; }
done
exit $bad
