#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Two plugins outside the tree, with the component `sdk` alone: the template and a patch of at most 60 lines that
# adds a working add kernel, by its Makefile; the example plugin, by its Makefile and by find_package.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
here=$PWD
build=$(realpath "${1:-build}")
[ -f "$build/CMakeCache.txt" ] || { echo "no build in $build"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
passed=0 failed=0 skipped=0
check() { # name command...
  local name=$1 out
  shift
  if out=$("$@" 2>&1); then passed=$((passed + 1)); else
    failed=$((failed + 1))
    printf 'failed: outside: %s:\n%s\n' "$name" "$(tail -n 12 <<<"$out")"
  fi
}
says() { grep -q "$1" <<<"$2"; }
cmake --install "$build" --component sdk --prefix "$dir/first" >"$dir/log" || { cat "$dir/log"; exit 1; }
mv "$dir/first" "$dir/sdk"
check "the component has no library" [ -z "$(find "$dir/sdk" -name 'libtenon*')" ]
check "nor headers of the library" [ ! -e "$dir/sdk/include/tenon/tensor.h" ]
for f in bin/tenon-plugin-check share/tenon/sdk/README.md share/tenon/sdk/CHANGELOG.md include/tenon/plugin.h; do
  check "the component has $f" [ -e "$dir/sdk/$f" ]
done
if ! command -v make >/dev/null; then
  echo "no make: the Makefiles are not tried"
  exit 77
fi
mk() { make -s -C "$1" TENON="$dir/sdk" CFLAGS="-O2 -Werror" "${@:2}"; }

# the template: as it is, renamed, patched
cp -r "$dir/sdk/share/tenon/sdk/template" "$dir/mine"
check "the template builds" mk "$dir/mine"
check "and passes the checks" mk "$dir/mine" check
check "the patch is short" [ "$(wc -l <tests/plugin/outside/add.patch)" -le 60 ]
check "the patch applies" patch -s -p1 -d "$dir/mine" -i "$here/tests/plugin/outside/add.patch"
check "the template is renamed" mk "$dir/mine" rename NAME=adder
check "the patched template builds" mk "$dir/mine"
out=$("$dir/sdk/bin/tenon-plugin-check" --only '^24 ' "$dir/mine/tenon_adder.so" 2>&1)
check "its add kernel works" says '^1 passed, 0 failed, 0 skipped$' "$out"
printf '%s\n' "28 # it looks at no names" "25 # nor at sources" "31 # it can add float32," "30" "32" "34" "35" "39" \
  "40 # and nothing else" >"$dir/xfail"
check "it passes all but what it lacks" "$dir/sdk/bin/tenon-plugin-check" --xfail "$dir/xfail" "$dir/mine/tenon_adder.so"

# the example
cp -r examples/plugin "$dir/plain"
rm -f "$dir"/plain/*.so
check "the example builds" mk "$dir/plain"
check "the example passes the checks" mk "$dir/plain" check
mkdir "$dir/cm"
cat >"$dir/cm/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.20)
project(outside C)
find_package(tenon 0.1 REQUIRED COMPONENTS sdk)
tenon_add_plugin(plain SOURCES ../plain/tenon_plain.c)
C
by_cmake() { cmake -S "$dir/cm" -B "$dir/out" -DCMAKE_PREFIX_PATH="$dir/sdk" && cmake --build "$dir/out"; }
check "the example builds by find_package with the SDK alone" by_cmake
check "and is the same plugin" "$dir/sdk/bin/tenon-plugin-check" --only '^(1|2|5|24) ' "$dir/out/tenon_plain.so"

# the library's op tests on it: all of them in the long run, else a method of each kind
if [ -x "$dir/sdk/libexec/tenon/tenon-tests" ]; then
  export TENON_CACHE=${TENON_CACHE:-$build/test-cache}
  if [ -n "${TENON_TEST_LONG:-}" ]; then
    check "the example passes every op test" "$dir/sdk/bin/tenon-plugin-check" --ops "$dir/plain/tenon_plain.so"
  else
    for m in tn_add tn_matmul tn_softmax tn_cast; do
      out=$(TENON_TEST_METHOD=$m "$dir/sdk/bin/tenon-plugin-check" --ops "$dir/plain/tenon_plain.so" 2>&1)
      check "$m on the example" says '^methods: [1-9][0-9]* rows, 0 more' "$out"
      check "$m on the example is right" says '^1 passed, 0 failed' "$out"
    done
  fi
else
  echo "skipped: outside: the tests are not built, so that --ops has none"
  skipped=1
fi
lines=$(wc -l <examples/plugin/tenon_plain.c)
check "the example's README tells its length" grep -q "\b$lines lines" examples/plugin/README.md
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
