#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The command `tenon`: version, env, devices as text and JSON, a plugin that crashes, wrong use.
set -uo pipefail
tenon=${1:?build folder}/bin/tenon
[ -x "$tenon" ] || { echo "$tenon is not built"; exit 77; }
unset DEV TENON_DEV
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0
check() { # name command...
  local name=$1
  shift
  if "$@"; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: tenon: $name"; fi
}
version=$("$tenon" version)
check "the version has three numbers" [ -n "$(expr "$version" : '\([0-9]*\.[0-9]*\.[0-9]*\)$')" ]
rows=$(grep -c '^TN_CTX(' core/include/tenon/context.def)
check "env has a line a variable" [ "$("$tenon" env | wc -l)" = "$rows" ]
check "env shows values of the environment" grep -q '^BEAM  *= 7 ' <(TENON_BEAM=7 "$tenon" env)
check "devices names the default" grep -q '^\* ' <("$tenon" devices)
if command -v python3 >/dev/null; then
  check "devices --json is JSON" python3 -c 'import json, sys; d = json.load(sys.stdin); assert any(x["default"] for x in d)' < <("$tenon" devices --json)
fi
check "a wrong command is refused" [ "$("$tenon" frob 2>&1 >/dev/null | head -n 1)" = "tenon: no such command: frob " ]
"$tenon" frob >/dev/null 2>&1
check "with status 2" [ $? = 2 ]
printf '#include <stdlib.h>\n__attribute__((constructor)) static void f(void) { abort(); }\n' >"$tmp/x.c"
if cc -shared -fPIC -o "$tmp/tenon_broken.so" "$tmp/x.c" 2>/dev/null; then
  out=$(TENON_PLUGIN_PATH=$tmp "$tenon" devices --json)
  check "a plugin that crashes takes no other down" grep -q '"reason": "crashes: ' <<<"$out"
  check "and the others are listed" grep -q '"kind": "SOFT"\|"kind": "CPU"' <<<"$out"
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
