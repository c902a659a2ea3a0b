#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tenon-plugin-check over every plugin of the build.  A plugin's checks that are expected to fail stand in
# tests/plugin/NAME.xfail, each with its reason.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=${1:-build}
check=$build/bin/tenon-plugin-check
[ -x "$check" ] || { echo "$check is not built"; exit 77; }
passed=0 failed=0 skipped=0
for p in "$build"/tenon/plugins/tenon_*.so; do
  [ -f "$p" ] || continue
  name=$(basename "$p" .so)
  args=()
  [ ! -f "tests/plugin/${name#tenon_}.xfail" ] || args+=(--xfail "tests/plugin/${name#tenon_}.xfail")
  out=$("$check" "${args[@]}" "$p" 2>&1)
  rc=$?
  line=$(tail -n 1 <<<"$out")
  read -r np _ nf _ ns _ <<<"$line"
  if [[ ! $line =~ ^[0-9]+\ passed ]]; then
    failed=$((failed + 1))
    printf 'failed: %s: no verdict, status %s:\n%s\n' "$name" "$rc" "$out"
    continue
  fi
  passed=$((passed + np)) failed=$((failed + nf)) skipped=$((skipped + ns))
  grep -A1 '^FAIL' <<<"$out" | sed "s/^/$name: /"
  # a skip's reason is on the line after its title
  awk -v name="$name" '/^skip/ {sub(/ +[0-9.]+ s$/, ""); sub(/^skip +/, ""); title = $0; getline; sub(/^ +/, "")
    print "skipped: " name ": " title ": " $0}' <<<"$out"
done
[ $((passed + failed)) -gt 0 ] || { echo "no plugin in $build/tenon/plugins"; exit 77; }
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
