#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The README's list of variables is that of core/include/tenon/context.def.  --update rewrites it.
set -euo pipefail
cd "$(dirname "$0")/../.."
table() {
  printf '| variable | default | acts | meaning |\n|---|---|---|---|\n'
  sed -nE 's/^TN_CTX\(([A-Z_0-9]+), ([A-Z]+), (-?[0-9]+), "([^"]*)", "(.*)"\)$/\1\t\2\t\3\t\4\t\5/p' core/include/tenon/context.def |
    awk -F'\t' '{gsub(/\|/, "\\|", $5); printf "| %s | %s | %s | %s |\n", $1, $2 == "TEXT" ? "" : $3, $4, $5}'
}
whole() {
  sed '/^<!-- variables:/q' README.md
  printf '\n'
  table
  printf '\n'
  sed -n '/^<!-- end of variables/,$p' README.md
}
if [ "${1:-}" = --update ]; then
  whole >README.md.new && mv README.md.new README.md
  exit 0
fi
[ "$(grep -c '^TN_CTX(' core/include/tenon/context.def)" = "$(table | tail -n +3 | wc -l)" ] || { echo "a row of context.def is not understood"; exit 1; }
diff <(whole) README.md || { echo "README.md: run tests/lint/readme.sh --update"; exit 1; }
