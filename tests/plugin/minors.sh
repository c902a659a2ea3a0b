#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Minors meet: a plugin of minor 0, kept as source, on today's host; today's plugins on an older host's table.
# All with AddressSanitizer, the check program too, so that a byte beyond a struct is seen.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
check() { # name command...
  local name=$1 out
  shift
  if out=$("$@" 2>&1); then passed=$((passed + 1)); else
    failed=$((failed + 1))
    printf 'failed: minors: %s\n' "$name"
    grep -A1 -E '^FAIL|ERROR|error:' <<<"$out" | head -n 12 || true
  fi
}
asan=(-fsanitize=address -fno-omit-frame-pointer -g)
echo 'int main(void) { return 0; }' >"$tmp/x.c"
if ! cc "${asan[@]}" "$tmp/x.c" -o "$tmp/x" 2>/dev/null || ! "$tmp/x"; then
  echo "no AddressSanitizer with this compiler"
  exit 77
fi
export ASAN_OPTIONS=detect_leaks=0:allocator_may_return_null=1:${ASAN_OPTIONS:-}
cc "${asan[@]}" -O1 -w -std=gnu11 -Isdk/include sdk/check/*.c -o "$tmp/check" -lpthread -lm -ldl || exit 1
plugin() { # source name include-folder
  cc "${asan[@]}" -O1 -w -std=gnu11 -fPIC -fvisibility=hidden -I"$3" "$1" -o "$tmp/tenon_$2.so" -shared \
    -Wl,-z,nodelete,-Bsymbolic -lpthread -lm -ldl
}
check "a plugin of minor 0 builds with the header of its day" plugin tests/plugin/old/tenon_old.c old tests/plugin/old
sed 's,"plugin_minor0.h",<tenon/plugin.h>,' tests/plugin/old/tenon_old.c >"$tmp/old.c"
check "and with today's" cc -fsyntax-only -Werror -Wall -std=gnu11 -Isdk/include "$tmp/old.c"
check "it passes the checks of today's host" "$tmp/check" --patience 5 --xfail tests/plugin/old/old.xfail "$tmp/tenon_old.so"
check "today's template builds" plugin sdk/template/tenon_skeleton.c skeleton sdk/include
check "and runs on an older host's table" "$tmp/check" --patience 5 "$tmp/tenon_skeleton.so"
check "today's example builds" plugin examples/plugin/tenon_plain.c plain sdk/include
check "and runs on an older host's table" "$tmp/check" --patience 5 --only '^([1-9]|1[0-9]|2[0-9]|3[1-9]) ' "$tmp/tenon_plain.so"
# the library itself, without the sanitizer
asan=()
check "the old plugin builds plain" plugin tests/plugin/old/tenon_old.c old tests/plugin/old
mkdir "$tmp/only"
mv "$tmp/tenon_old.so" "$tmp/only"
if [ -x "$build/bin/tenon" ]; then
  out=$(TENON_PLUGIN_PATH=$tmp/only "$build/bin/tenon" devices)
  check "the library lists its devices" grep -q 'OLD:0 .. OLD:15' <<<"$out"
  check "and uses one" [ "$(TENON_PLUGIN_PATH=$tmp/only TENON_DEV=OLD:3 "$build/bin/tenon" devices | grep -c '^\* OLD:0')" = 1 ]
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
