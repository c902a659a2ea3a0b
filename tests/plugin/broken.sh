#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Eighteen broken plugins in one folder with a good one.  `tenon devices` tells of each with its own sentence, the
# good one is listed; a program that asks for each and may fall back gets the good one, and the sentence.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
tenon=$build/bin/tenon
[ -x "$tenon" ] || { echo "$tenon is not built"; exit 77; }
good=$build/tenon/plugins/tenon_null.so
[ -f "$good" ] || { echo "no $good: plugins are linked in"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0 skipped=0
verdict() { # name ok? text
  if [ "$2" = 0 ]; then passed=$((passed + 1)); else failed=$((failed + 1)); printf 'failed: broken: %s: %s\n' "$1" "$3"; fi
}
dir=$tmp/plugins
mkdir "$dir"
cp "$good" "$dir"
make_one() { # name [compiler option...]
  local name=$1 upper
  shift
  upper=$(tr a-z A-Z <<<"$name")
  cc -w -std=gnu11 -fPIC -shared -Isdk/include "-DME=$upper" tests/plugin/broken/broken.c -o "$dir/tenon_$name.so" "$@"
}
byte() { printf "\\$(printf %o "$3")" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none; } # file offset value

# name of the plugin | what its sentence says (a basic regular expression)
list='
text|is not a shared library (no ELF header)
machine|is a library for [a-z0-9-]*, this process is
bits|is a [36][24]-bit library, this process has [36][24] bits
nosymbol|has no tenon_plugin_v0: it is no plugin of tenon
borrowed|has no tenon_plugin_v0 of its own: the one found lies in
magic|has magic 0x12345678 where 0x[0-9a-f]* is expected
newer|is for plugin ABI 3 (exports tenon_plugin_v3), this program has ABI 0: update tenon
short|has a root of 40 bytes: at least [0-9]* are mandatory
nullptr|leaves the mandatory field count empty
misnamed|says that it is SOMEBODY_ELSE: the file.s name must be that or an alias
lacking|needs .*libbrokendep.so (missing).*: install what is missing
undefined|undefined symbol: nowhere_to_be_found
asan|is built with AddressSanitizer, this process is not
initfails|cannot start: driver library not found: tried libbroken.so.1
hangs|does not answer within 2 s
writable|can be written by everybody (mode 0666): chmod o-w it
countfails|cannot be used: driver 440 is too old: at least 525
'
echo 'this is not a library' >"$dir/tenon_text.so"
make_one machine
make_one bits
byte "$dir/tenon_machine.so" 18 "$([ "$(uname -m)" = aarch64 ] && echo 62 || echo 183)"
byte "$dir/tenon_bits.so" 4 "$([ "$(getconf LONG_BIT)" = 64 ] && echo 1 || echo 2)"
make_one nosymbol -DKIND_NO_SYMBOL
make_one borrowed
mv "$dir/tenon_borrowed.so" "$tmp/libowner.so"
echo 'int empty;' >"$tmp/empty.c"
cc -shared -fPIC "$tmp/empty.c" -o "$dir/tenon_borrowed.so" -Wl,--no-as-needed -L"$tmp" -lowner -Wl,-rpath,"$tmp"
make_one magic -DKIND_MAGIC
make_one newer -DKIND_NEWER_ABI
make_one short -DKIND_SHORT
make_one nullptr -DKIND_NULL
make_one misnamed -DKIND_NAME
cc -shared -fPIC "$tmp/empty.c" -o "$tmp/libbrokendep.so"
make_one lacking -Wl,--no-as-needed -L"$tmp" -lbrokendep
rm "$tmp/libbrokendep.so"
make_one undefined -DKIND_UNDEFINED
make_one initfails -DKIND_INIT_FAILS
make_one hangs -DKIND_INIT_HANGS
make_one writable
chmod 0666 "$dir/tenon_writable.so"
make_one first
ln "$dir/tenon_first.so" "$dir/tenon_twice.so"
make_one countfails -DKIND_COUNT_FAILS
if ! make_one asan -fsanitize=address 2>/dev/null; then
  echo "skipped: broken: asan: this compiler has no AddressSanitizer"
  skipped=1
  list=$(grep -v '^asan' <<<"$list")
fi

unset DEV
export TENON_PLUGIN_PATH=$dir HOME=$tmp XDG_DATA_HOME=$tmp
all=$("$tenon" devices --wait 2 2>/dev/null)
verdict "the command lives with all of them" "$?" "$all"
grep -q '^[ *] NULL:0 .. NULL:15 ' <<<"$all"
verdict "the good one is listed" $? "$all"
while IFS='|' read -r name says; do
  [ -n "$says" ] || continue
  upper=$(tr a-z A-Z <<<"$name")
  line=$(grep "^  $upper " <<<"$all")
  grep -q "$says" <<<"$line"
  verdict "$name is listed" $? "${line:-not listed at all}"
  [ "$name" != hangs ] || continue # nothing can cure that in the same process; see watch.c
  out=$(TENON_DEBUG=1 TENON_DEV="$upper;NULL" "$tenon" devices --default 2>"$tmp/err")
  [ "${out%%$'\037'*}" = NULL:0 ]
  verdict "after $name the next device is taken" $? "$out $(cat "$tmp/err")"
  grep -q "$says" "$tmp/err"
  verdict "and the reason is told" $? "$(cat "$tmp/err")"
done <<<"$list"

# the eighteenth: one file under two names is one plugin
mkdir "$tmp/two"
cp "$good" "$tmp/two"
ln "$dir/tenon_first.so" "$tmp/two/tenon_first.so"
ln "$dir/tenon_first.so" "$tmp/two/tenon_twice.so"
out=$(TENON_PLUGIN_PATH=$tmp/two TENON_DEBUG=1 TENON_DEV="$tmp/two/tenon_first.so;$tmp/two/tenon_twice.so;NULL" "$tenon" devices --default 2>&1)
grep -q "tenon_twice.so is the same file as .*tenon_first.so, which is loaded already" <<<"$out"
verdict "one file under two names is loaded once" $? "$out"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" = 0 ]
