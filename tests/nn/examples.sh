#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The examples run for a few steps on a small data set; a run that stops and goes on ends with the same bits; every
# block of the tutorials is compiled and run against the installed library.
set -uo pipefail
cd "$(dirname "$0")/../.."
src=$PWD build=$(realpath "${1:-build}")
[ -x "$build/examples/mnist" ] || { echo "the examples are not built in $build"; exit 77; }
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
cc -O1 -o "$dir/digits" tests/nn/data/make_digits.c && mkdir "$dir/data" && "$dir/digits" "$dir/data" || { echo "no data set"; exit 1; }
export TENON_DATASETS=$dir/data TENON_CACHE=${TENON_CACHE:-$dir/cache}
passed=0 failed=0
check() { # name command...
  local name=$1
  shift
  if "$@" >"$dir/log" 2>&1; then passed=$((passed + 1)); else
    failed=$((failed + 1))
    echo "failed: $name"
    tail -n 15 "$dir/log"
  fi
}
ex=$build/examples
cd "$dir" || exit 1

check "hello runs" "$ex/hello"
cp log hello.log
check "hello adds" grep -qx '\[11\. 22\. 33\.\]' hello.log
check "mnist trains and a second process agrees" env STEPS=101 BS=32 SEED=1 "$ex/mnist" m.safetensors
cp log mnist.log
check "mnist prints step 0" grep -qE '^step    0, loss [0-9.]+, acc [0-9.]+%$' mnist.log
check "mnist prints step 100 with 95 % or more" grep -qE '^step  100, loss [0-9.]+, acc (9[5-9]|100)\.[0-9]+%$' mnist.log
check "mnist says that the outputs are equal" grep -q '^m.safetensors: reloaded, acc .*equal bit for bit$' mnist.log
check "mnist refuses a wrong checksum" bash -c "! '$ex/mnist' check m.safetensors 0123"
check "mnist refuses a missing file" bash -c "! '$ex/mnist' check none.safetensors 0"
steps=8 # of a run that stops half-way and goes on
[ -z "${TENON_TEST_LONG:-}" ] || steps=1000
check "the whole run" env STEPS=$steps BS=16 SEED=2 STATE=whole.state "$ex/mnist" whole.safetensors
check "the first half" env STEPS=$((steps / 2)) BS=16 SEED=2 STATE=half.state "$ex/mnist" half.safetensors
check "the second half" env STEPS=$steps BS=16 SEED=9 RESUME=half.state STATE=rest.state "$ex/mnist" rest.safetensors
check "halves make the whole" cmp whole.safetensors rest.safetensors
check "their states too" cmp whole.state rest.state
check "without the JIT" env JIT=0 STEPS=$steps BS=16 SEED=2 "$ex/mnist" eager.safetensors
check "steps without the JIT give the same bits" cmp whole.safetensors eager.safetensors
check "quickstart runs" env STEPS=5 EVALS=3 BS=8 "$ex/quickstart"
check "beautiful_mnist runs" env STEPS=3 BS=8 "$ex/beautiful_mnist"
check "beautiful_mnist with Muon" env STEPS=2 BS=8 MUON=1 "$ex/beautiful_mnist"
check "beautiful_mnist fails below its target" bash -c "! STEPS=1 BS=8 SGD=1 TARGET_EVAL_ACC_PCT=101 '$ex/beautiful_mnist'"

# ---- tutorials: ```c blocks make one program, ```sh blocks are run ----
if command -v pkg-config >/dev/null; then
  cmake --install "$build" --prefix "$dir/tree" >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
  lib=$(dirname "$(find "$dir/tree" -name 'libtenon.so' | head -n 1)")
  export PKG_CONFIG_PATH=$lib/pkgconfig LD_LIBRARY_PATH=$lib STEPS=5 BS=16
  blocks() { awk -v lang="$2" '/^```/ { on = !on && $0 == "```" lang; next } on' "$1"; }
  while read -r page program; do
    mkdir "$dir/$program.d" && cd "$dir/$program.d" || exit 1
    blocks "$src/examples/$page" c >"$program.c"
    blocks "$src/examples/$page" sh >"$program.sh"
    check "$page: has blocks" [ -s "$program.c" -a -s "$program.sh" ]
    check "$page: its program has no warning" bash -c "cc -std=c11 -Wall -Wextra -Werror -fsyntax-only $program.c \$(pkg-config --cflags tenon)"
    check "$page: its commands run" bash -e "$program.sh"
  done <<'PAGES'
quickstart.md quickstart
mnist.md mnist_tutorial
PAGES
fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
