#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The library exports functions called tn_... and no data; a plugin exports its one entry and takes nothing from the
# library.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
bad=0
found=$(nm -D --defined-only "$build/libtenon.so" | awk '$3 !~ /^tn_[a-zA-Z0-9]/ || $2 != "T"' | grep -vE ' (_init|_fini|__gcov|__asan|__ubsan)' | head -n 10)
[ -z "$found" ] || { printf 'libtenon exports more than functions tn_...:\n%s\n' "$found"; bad=1; }
[ "$(nm -D --defined-only "$build/libtenon.so" | grep -c ' T tn_')" -gt 10 ] || { echo "libtenon exports no API"; bad=1; }
found=$(nm -D --undefined-only "$build/libtenon.so" | grep -E ' tn_|tenon_' | head -n 10)
[ -z "$found" ] || { printf 'libtenon uses functions that no file defines:\n%s\n' "$found"; bad=1; }
for p in "$build"/tenon/plugins/tenon_*.so; do
  [ -f "$p" ] && [ ! -L "$p" ] || continue
  found=$(nm -D --defined-only "$p" | awk '{print $3}' | grep -vE '^tenon_plugin_v0(@.*)?$' | head -n 5)
  [ -z "$found" ] || { printf '%s exports more than its entry: %s\n' "$p" "$found"; bad=1; }
  nm -D --defined-only "$p" | grep -q ' T tenon_plugin_v0' || { printf '%s: no tenon_plugin_v0\n' "$p"; bad=1; }
  found=$(nm -D --undefined-only "$p" | grep -E ' tn_' | head -n 5)
  [ -z "$found" ] || { printf '%s takes symbols from the library: %s\n' "$p" "$found"; bad=1; }
done
exit $bad
