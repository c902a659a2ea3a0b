#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every header compiles alone, without a warning; public ones and the SDK's as plain C11 (and C++, where there is a
# compiler).  A .c file includes its own header, or another of its folder, first.  Each public function has a
# comment of its own: right above its declaration or behind it on the same line.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
bad=0
gen=${1:-build}/gen
warn="-Wall -Wextra -Wpedantic -Wstrict-prototypes -Werror -fsyntax-only"
one=$(mktemp) # a file with one declaration: a header of macros alone is no translation unit
trap 'rm -f "$one"' EXIT
echo 'extern int one;' >"$one"
try() { # file command...
  local f=$1 log
  shift
  log=$("$@" 2>&1) || { printf '%s does not compile alone:\n%s\n' "$f" "$(printf '%s' "$log" | head -n 8)"; bad=1; }
}
for f in core/*/*.h; do
  # shellcheck disable=SC2086
  try "$f" cc -std=gnu11 $warn -Icore -Icore/include -Isdk/include -I"$gen" -include "$f" -x c "$one"
done
for f in core/include/tenon/*.h sdk/include/tenon/*.h; do
  dir=${f%/tenon/*}
  # shellcheck disable=SC2086
  try "$f" cc -std=c11 $warn -I"$dir" -include "$f" -x c "$one"
  # shellcheck disable=SC2086
  if command -v g++ >/dev/null; then
    try "$f (C++)" g++ -std=c++17 -Wall -Wextra -Werror -fsyntax-only -I"$dir" -include "$f" -x c++ "$one"
  fi
done
for f in core/*/*.c; do
  own=${f#core/}
  own=${own%.c}.h
  [ -e "core/$own" ] || continue
  first=$(grep -m1 -E '^ *# *include' "$f" | sed 's/.*["<]\(.*\)[">].*/\1/')
  [ "$first" = "$own" ] || [ "${first%/*}" = "${own%/*}" ] || { printf '%s: a header of its own folder comes first, not %s\n' "$f" "$first"; bad=1; }
done
mute=$(awk '
  FNR == 1 { above = 0 }
  /^TN_API/ {
    text = $0
    while (text !~ /;/ && (getline line) > 0) text = text " " line
    if (!above && text !~ /;[ \t]*\/\*/) printf "%s: no comment: %s\n", FILENAME, text
    above = 0
    next
  }
  { above = /\*\/[ \t]*$/ && /^( \*|\/\*)/ && !/^\/\* ----/ }
' core/include/tenon/*.h)
[ -z "$mute" ] || { printf '%s\n' "$mute"; bad=1; }
umbrella=$(cc -MM -Icore/include core/include/tenon/tenon.h)
for f in core/include/tenon/*.h; do
  f=$(basename "$f")
  [[ $umbrella == *"/tenon/$f"* ]] || { printf 'tenon.h does not include <tenon/%s>\n' "$f"; bad=1; }
done
exit $bad
