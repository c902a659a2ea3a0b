#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The tree: a licence line at the top of each source, guards, names of sources used once, no path of one machine,
# files of at most 800 lines.  Prints the longest files and the functions of more than 60 lines.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
bad=0
complain() { printf '%s\n' "$*"; bad=1; }
mapfile -t files < <(git ls-files -- '*.c' '*.h' '*.def' '*.sh' '*.cmake' dev)
for f in "${files[@]}"; do
  [ -f "$f" ] || continue
  head -n 2 "$f" | grep -q 'SPDX-License-Identifier: MIT' || complain "$f: no SPDX line at the top"
  n=$(wc -l <"$f")
  [ "$n" -le 800 ] || complain "$f: $n lines: at most 800"
  case $f in
  tests/*) ;;
  *.h) grep -q '^#ifndef' "$f" || complain "$f: no guard" ;;
  esac
done
twice=$(git ls-files -- 'core/*.c' 'plugins/*.c' 'tests/*.c' | sed 's,.*/,,' | sort | uniq -d)
[ -z "$twice" ] || complain "names of sources are unique in the tree: $(echo "$twice" | tr '\n' ' ')"
here='/(wo''rk|fa''rm)/|/home/[a-z]+/'
found=$(git grep -nIE "$here" -- . 2>/dev/null | head -n 5)
[ -z "$found" ] || complain "paths of one machine: $found"

printf 'longest files:\n'
git ls-files -- '*.c' '*.h' | xargs -r wc -l 2>/dev/null | grep -v ' total$' | sort -rn | head -n 5
long=$(git ls-files -- '*.c' | xargs -r awk '
  FNR == 1 { name = "" }
  /^[a-zA-Z_].*\(/ && !/;[ \t]*$/ { name = $0 }
  /^{/ { start = FNR }
  /^}/ && start { if (FNR - start - 1 > 60 && name != "") { sub(/\(.*/, "", name); printf "%5d %s: %s\n", FNR - start - 1, FILENAME, name } start = 0 }')
[ -z "$long" ] || printf 'functions of more than 60 lines:\n%s\n' "$long"
exit $bad
