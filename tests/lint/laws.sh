#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What the library does not do: abort, exit, print, allocate past base, leave unfinished marks; and how the text of
# an error looks: "subject: values: rule: way out", no newline, no full stop, no "failed to".
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
bad=0
complain() { printf '%s\n' "$*"; bad=1; }
bare() { cc -fpreprocessed -dD -E -x c "$1" 2>/dev/null; } # the file without comments
for f in core/*/*.c; do
  case $f in core/cli/* | core/base/error.c | core/base/log.c) continue ;; esac
  found=$(bare "$f" | grep -nE '(^|[^_a-zA-Z0-9.>])(abort|_?exit|printf|puts|putchar|perror|fork|system|popen|setenv|putenv) *\(' | head -n 3)
  [ -z "$found" ] || complain "$f: the library does not abort, exit, print, fork or change the environment: $found"
  [ "$f" != core/base/alloc.c ] || continue
  found=$(bare "$f" | grep -nE '(^|[^_a-zA-Z0-9.>])(malloc|calloc|realloc|strdup|strndup|asprintf|posix_memalign|aligned_alloc) *\(' | head -n 3)
  [ -z "$found" ] || complain "$f: memory comes from tn__alloc and its kin: $found"
done
for f in core/*/*.c; do
  found=$(tr '\n' ' ' <"$f" | grep -oE 'tn__fail\([A-Za-z_]+, *"([^"\\]|\\.)*"' | sed 's/^[^"]*//' |
    grep -E -i '\\n"$|[^.]\."$|failed to|^"[^:]*"$' | grep -vx '"%s"' | head -n 5)
  [ -z "$found" ] || complain "$f: an error's text is 'subject: values: rule: way out', one line without a full stop: $found"
done
marks='TO''DO|FIX''ME|XX''X'
found=$(git grep -nwIE "$marks" -- '*.c' '*.h' '*.sh' '*.cmake' dev 2>/dev/null | head -n 5)
[ -z "$found" ] || complain "unfinished marks: $found"
exit $bad
