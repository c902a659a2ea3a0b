#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The SDK's headers as C99, C11 and C++11 by each compiler that is here, for 32 bits too; the layout of every
# released minor (abi_N.c); and proof that the layout tests see a break: a field inserted in the middle, a
# shrunk struct, a changed enum.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
passed=0 failed=0
check() { # name command...
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: abi: $name"; fi
}
fails() { ! "$@" 2>/dev/null; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
warn=(-Wall -Wextra -Wpedantic -Wconversion -Wshadow -Werror -fsyntax-only -Itests/plugin)
compilers=(cc)
for c in gcc clang; do command -v $c >/dev/null && compilers+=("$c"); done

minors=$(sed -n 's/^#define TNP_MINOR \([0-9]*\)u.*/\1/p' sdk/include/tenon/plugin.h)
for m in $(seq 0 "$minors"); do
  check "minor $m has its layout test" [ -f "tests/plugin/abi_$m.c" ]
  check "minor $m stands in the change log" grep -q "^## Minor $m\b" sdk/CHANGELOG.md
done
printf "#define _DEFAULT_SOURCE 1\n" >"$tmp/all.c"
for h in sdk/include/tenon/*.h; do
  printf '#include <tenon/%s>\nextern int one;\n' "$(basename "$h")" >>"$tmp/all.c"
done
cp "$tmp/all.c" "$tmp/all.cc"
for c in "${compilers[@]}"; do
  for std in c99 c11; do
    check "all headers: $c -std=$std" "$c" -std=$std "${warn[@]}" -Isdk/include "$tmp/all.c"
    for f in tests/plugin/abi_*.c; do
      check "$f: $c -std=$std" "$c" -std=$std "${warn[@]}" -Isdk/include "$f"
    done
  done
  case $c in gcc) cxx='g++' ;; clang) cxx='clang++' ;; *) cxx='c++' ;; esac
  if command -v $cxx >/dev/null; then
    check "all headers: $cxx -std=c++11" "$cxx" -std=c++11 "${warn[@]}" -Isdk/include "$tmp/all.cc"
    for f in tests/plugin/abi_*.c; do
      check "$f: $cxx" "$cxx" -std=c++11 "${warn[@]}" -Isdk/include -x c++ "$f"
    done
  fi
done
printf '#include <tenon/plugin.h>\nextern int one;\n' >"$tmp/one.c"
check "plugin.h for 32 bits" cc -m32 -ffreestanding -std=c99 "${warn[@]}" -Isdk/include "$tmp/one.c"

planted() { # name sed-script: a header with this defect fails the newest layout test
  mkdir -p "$tmp/bad/tenon"
  sed -E "$2" sdk/include/tenon/plugin.h >"$tmp/bad/tenon/plugin.h"
  check "planted: $1: the header differs" fails cmp -s sdk/include/tenon/plugin.h "$tmp/bad/tenon/plugin.h"
  check "planted: $1: it still compiles by itself" cc -std=c11 -fsyntax-only -I"$tmp/bad" "$tmp/one.c"
  check "planted: $1: it is caught" fails cc -std=c11 -fsyntax-only -Itests/plugin -I"$tmp/bad" tests/plugin/abi_0.c
}
planted "a field inserted mid-struct" 's/^    uint32_t subgroup;$/    uint32_t planted[2];\n    uint32_t subgroup;/'
planted "a shrunk struct" '/^    uint64_t \*out_ns;/d'
planted "a changed enum" 's/TNP_E_LAUNCH = -7/TNP_E_LAUNCH = -13/'
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
