#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Folders stand in dependency order: each folder of core includes only folders above it (and the SDK's
# headers); plugins include their own files and the SDK's headers; plugin.h includes two standard headers.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
order="base ir device tensor schedule codegen engine jit io nn cli"
bad=0
complain() { printf '%s\n' "$*"; bad=1; }
rank() { local i=0 f; for f in $order; do i=$((i + 1)); [ "$f" != "$1" ] || { echo $i; return; }; done; echo 0; }

for folder in core/*/; do
  folder=$(basename "$folder")
  [ "$folder" != include ] || continue
  mine=$(rank "$folder")
  [ "$mine" != 0 ] || complain "core/$folder: not in the order of folders: $order"
  while IFS=: read -r file line text; do
    target=$(printf '%s' "$text" | sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p')
    other=${target%%/*}
    case $target in
    tenon_build.h) continue ;; # made by the build
    */*) ;;
    *) [ -e "core/$folder/$target" ] || complain "$file:$line: \"$target\": write includes from core/: \"folder/file.h\""
      continue ;;
    esac
    theirs=$(rank "$other")
    if [ "$theirs" = 0 ]; then
      complain "$file:$line: \"$target\": no folder of core"
    elif [ "$theirs" -gt "$mine" ]; then
      complain "$file:$line: $folder includes \"$target\", and $other stands below it: $order"
    fi
  done < <(grep -nE '^ *# *include *"' core/"$folder"/*.[ch] /dev/null 2>/dev/null)
done

for dir in plugins/*/; do
  [ -d "$dir" ] || continue
  while IFS=: read -r file line text; do
    quoted=$(printf '%s' "$text" | sed -n 's/^ *# *include *"\([^"]*\)".*/\1/p')
    angled=$(printf '%s' "$text" | sed -n 's/^ *# *include *<\(tenon\/[^>]*\)>.*/\1/p')
    [ -z "$quoted" ] || [ -e "$dir$quoted" ] || complain "$file:$line: \"$quoted\" is not a file of $dir"
    [ -z "$angled" ] || [ -e "sdk/include/$angled" ] || complain "$file:$line: <$angled> is not a header of the SDK"
  done < <(grep -nE '^ *# *include' "$dir"*.[ch] /dev/null 2>/dev/null)
done

extra=$(grep -hE '^ *# *include' sdk/include/tenon/plugin.h | grep -vE '<std(def|int)\.h>')
[ -z "$extra" ] || complain "sdk/include/tenon/plugin.h: only <stddef.h> and <stdint.h>: $extra"
extra=$(grep -nE '^ *# *include' core/include/tenon/*.h | grep -vE '<(std(def|int|bool)\.h|tenon/[a-z_]+\.(h|def))>')
[ -z "$extra" ] || complain "public headers include <stdint.h>, <stddef.h>, <stdbool.h> and <tenon/...> only: $extra"
exit $bad
