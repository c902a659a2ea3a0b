#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every place of the library that records an error has been seen by a test.  The suites write the places they
# came by to TENON_ERROR_PLACES; this compares them with the sources.  Not counted: TN_EINTERNAL, which is a fault
# of the library's own.  tests/base/errors-unseen.txt lists what no test can reach, each with the reason:
#   core/folder/file.c: a piece of the message's text: why
# A line there that is stale, or without a reason, fails too.
set -euo pipefail
cd "$(dirname "$0")/../.."
seen=${TENON_ERROR_PLACES:-}
list=tests/base/errors-unseen.txt
if [ -z "$seen" ] || [ ! -s "$seen" ]; then
  echo "the suites did not note the places of errors (./dev test without suites or --device does)"
  exit 77
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# places: file:line<TAB>text of the statement up to its end
find core -name '*.c' | sort | while read -r f; do
  awk -v f="$f" '
    /tn__fail\(/ && !/^#/ && !/^ \*/ {
      if (text != "") print at "\t" text
      at = f ":" FNR; text = ""; open = 1
    }
    open { line = $0; sub(/^ +/, "", line); text = text line " "; if (line ~ /;/) { print at "\t" text; text = ""; open = 0 } }
  ' "$f"
done | grep -v TN_EINTERNAL >"$work/places"
# a noted line belongs to the last place that begins at or before it
sort -u "$seen" | awk -F: '
  NR == FNR { split($0, p, "\t"); split(p[1], q, ":"); n[q[1]]++; line[q[1], n[q[1]]] = q[2]; next }
  { best = 0; for (i = 1; i <= n[$1]; i++) if (line[$1, i] + 0 <= $2 + 0) best = line[$1, i]; if (best) print $1 ":" best }
' "$work/places" - | sort -u >"$work/hit"
awk -F'\t' 'NR == FNR { hit[$1] = 1; next } !($1 in hit)' "$work/hit" "$work/places" >"$work/unseen"
bad=0
while IFS= read -r entry; do
  case $entry in '' | '#'*) continue ;; esac
  file=${entry%%:*} rest=${entry#*: }
  text=${rest%%: *} why=${rest#*: }
  if [ "$why" = "$rest" ] || [ -z "$why" ]; then
    echo "$list: no reason: $entry"
    bad=1
  elif ! grep -F "$file:" "$work/unseen" | grep -qF -- "$text"; then
    echo "$list: stale, a test sees it or it is gone: $entry"
    bad=1
  else
    grep -vF -- "$(grep -F "$file:" "$work/unseen" | grep -F -- "$text" | head -n 1)" "$work/unseen" >"$work/rest" || true
    mv "$work/rest" "$work/unseen"
  fi
done <"$list"
if [ -s "$work/unseen" ]; then
  echo "places that record an error and that no test has seen:"
  cut -c1-150 "$work/unseen"
  bad=1
fi
printf '%s places record an error, %s seen by tests, %s listed with a reason\n' "$(wc -l <"$work/places")" \
  "$(wc -l <"$work/hit")" "$(grep -cv -e '^#' -e '^$' "$list" || true)"
exit $bad
