#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The installed tree, moved after the installation: a program outside the tree is built by find_package, by
# pkg-config and with the static library, and runs; a plugin is built with the component sdk alone.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "${1:-build}")
[ -f "$build/CMakeCache.txt" ] || { echo "no build in $build"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cmake --install "$build" --prefix "$dir/first" >"$dir/log" || { cat "$dir/log"; exit 1; }
mv "$dir/first" "$dir/moved"
lib=$(dirname "$(find "$dir/moved" -name 'libtenon.so' | head -n 1)")

mkdir "$dir/src"
cat >"$dir/src/prog.c" <<'C'
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>
int main(void)
{
    TN_WITH(TN_TRAINING, 1);
    printf("%s %s\n", tn_version(), tn_dtype_name(TN_F32));
    return !(tn_ok() && tn_context_get(TN_TRAINING) == 1 && !strcmp(tn_dtype_name(TN_F32), "float32"));
}
C
cat >"$dir/src/plug.c" <<'C'
#include <tenon/plugin.h>
#include <tenon/linear.h>
const tnp_plugin *tenon_plugin_v0(uint32_t minor)
{
    static const tnp_plugin p = {.magic = TNP_MAGIC, .size = sizeof(tnp_plugin), .name = "OUTSIDE"};
    (void)minor;
    return &p;
}
C
cat >"$dir/src/CMakeLists.txt" <<'C'
cmake_minimum_required(VERSION 3.20)
project(outside C)
find_package(tenon 0.1 REQUIRED COMPONENTS sdk)
add_executable(prog prog.c)
target_link_libraries(prog PRIVATE tenon::tenon)
tenon_add_plugin(outside SOURCES plug.c)
C
cmake -S "$dir/src" -B "$dir/out" -G Ninja -DCMAKE_PREFIX_PATH="$dir/moved" >"$dir/log" 2>&1 &&
  cmake --build "$dir/out" >>"$dir/log" 2>&1 || { echo "find_package:"; tail -n 30 "$dir/log"; exit 1; }
"$dir/out/prog" >/dev/null || { echo "the program built by find_package does not run"; exit 1; }
[ -f "$dir/out/tenon_outside.so" ] || { echo "the plugin built with the SDK is not there"; exit 1; }

if command -v pkg-config >/dev/null; then
  export PKG_CONFIG_PATH=$lib/pkgconfig
  # shellcheck disable=SC2046
  cc "$dir/src/prog.c" -o "$dir/prog2" $(pkg-config --cflags --libs tenon) || { echo "pkg-config: does not build"; exit 1; }
  LD_LIBRARY_PATH=$lib "$dir/prog2" >/dev/null || { echo "the program built by pkg-config does not run"; exit 1; }
  # shellcheck disable=SC2046
  cc "$dir/src/prog.c" -o "$dir/prog3" $(pkg-config --cflags tenon) "$lib/libtenon.a" \
    $(pkg-config --static --libs-only-l tenon | sed 's/-ltenon / /') >"$dir/log" 2>&1 ||
    { echo "the static library does not link:"; tail -n 5 "$dir/log"; exit 1; }
  "$dir/prog3" >/dev/null || { echo "the static program does not run"; exit 1; }
fi
# the README's first program, on the installed plugins
if grep -q 'tn_sum' core/include/tenon/*.h; then
  awk '/^```c$/ {on = 1; next} /^```/ {on = 0} on' README.md >"$dir/src/hello.c"
  cc -Wall -Wextra -Werror "$dir/src/hello.c" -o "$dir/hello" -I"$dir/moved/include" -L"$lib" -ltenon || { echo "the README's program does not build"; exit 1; }
  got=$(env -u TENON_PLUGIN_PATH LD_LIBRARY_PATH="$lib" TENON_CACHE="$dir/cache" "$dir/hello") || { echo "the README's program fails: $got"; exit 1; }
  [[ $got =~ 2.*4.*6 ]] || { echo "the README's program prints '$got', not [2 4 6]"; exit 1; }
fi
for p in "$build"/tenon/plugins/tenon_*.so; do
  [ ! -f "$p" ] || [ -f "$lib/tenon/plugins/$(basename "$p")" ] || { echo "not installed: $(basename "$p")"; exit 1; }
done
readelf -d "$lib/libtenon.so" | grep -q 'SONAME.*libtenon\.so\.0' || { echo "no soname libtenon.so.0"; exit 1; }
