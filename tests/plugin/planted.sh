#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Does tenon-plugin-check see anything?  The example plugin with one defect planted at a time, in it or in the
# SDK's helpers that it uses, or in an asynchronous device (outside/tenon_later.c): the check of that number must
# fail.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit 1
build=$(realpath "${1:-build}")
check=$build/bin/tenon-plugin-check
[ -x "$check" ] || { echo "$check is not built"; exit 77; }
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# number | file: p the plugin, h hostdev.h (H: and two devices), t timeline.h, k kit.h, l tenon_later.c | sed -E script, @ stands for a newline
defects='
1|p|$ s/$/@TNP_EXPORT int one_too_many;/
3|p|s/^    return &root;/    static tnp_plugin copy[64]; static unsigned n; copy[n % 64] = root; return \&copy[__atomic_fetch_add(\&n, 1, 5) % 64];/
4|p|$ s/$/@__attribute__((constructor)) static void early(void) { setenv("PLANTED", "1", 1); }/
5|p|s/^static const tnp_plugin root = \{/&.reserved = 7, /
6|p|s/^    tnk_host = h;/&@    tnk_take(h, 10);/
7|p|s/^    tnk_host = h;/&@    h->span(h->ctx, \&(tnp_span){.size = sizeof(tnp_span), .name = "x"});/
8|p|s/^    tnk_host = h;/&@    if (*(void *volatile const *)(const void *)\&h->span) e = NULL;/
9|p|s/^    \*n = DEVICES;/    static uint32_t planted; *n = ++planted;/
10|p|s/^    \*n = DEVICES;/    static const char *const lib[] = {"libm.so.6", NULL}; if (!tnk_host->lib_open(tnk_host->ctx, lib, NULL)) return TNP_E_DRIVER;@&/
11|k|s/memcpy\(out, full, n\)/memcpy(out, full, sizeof *full)/
12|p|s/"plain:%u", i\)/"plain:%u.%u", i, (unsigned)getpid())/
13|p|s/^    return fill_caps\(d->index, out\);/    fill_caps(d->index, out); out->cores++; return TNP_OK;/
14|p|s/if \(i >= DEVICES\)/if (0)/
15|p|s/^    return tnk_ext\(id\);/    return \&root_sized;/; s/^static const void \*ext\(/static const uint32_t root_sized[2] = {8, 0};@&/
16|h|s/% TNK_ALIGN\) % TNK_ALIGN;/% TNK_ALIGN) % TNK_ALIGN + 4;/
17|h|s/TNP_E_OOM, ENOMEM/TNP_E_NOMEM, ENOMEM/
18|h|s/memcpy\(dst.buf->p \+ dst.off, src/memcpy(dst.buf->p + (dst.off \& ~1u), src/
19|h|s/if \(zero\) memset/if (0) memset/
21|h|s/tnk_fill_bytes\(dst.buf->p \+ dst.off, \(size_t\)dst.len, pattern/&+1/
22|h|s/b->p = \(char \*\)a->host_ptr;/ok = tnk_take_block(b, b->bytes, 0);/
23|h|s/^    tnk_give\(TNK_HOST, b->block\);/    if (b->bytes % 100 != 7) tnk_give(TNK_HOST, b->block);/
24|p|s/\{"add", INTS \| FLOATS, SCALAR, "\(\$1 \+/{"add", INTS | FLOATS, SCALAR, "($1 -/
25|p|s/TNP_E_COMPILE/TNP_E_INTERNAL/
26|p|s/^        memcpy\(bin->data, &h, 8\);/        static uint64_t planted; const uint64_t x = h ^ planted++; memcpy(bin->data, \&x, 8);/
27|p|s/l->len <= 8 \|\| h !=/l->len <= 8 || 0 \&\& h !=/
28|p|s/l->nbufs != p->nargs \|\| //
29|p|s/14695981039346656037u;/14695981039346656037u + (uint64_t)getpid();/
30|p|s/\{"mul", INTS \| FLOATS, SCALAR, "\(\$1 \* \$2/&+1/
31|p|s/"\(\(\$s\)imms\[\$i\]\)"/"(($s)imms[0])"/
32|p|s/"gid\[1\]", "gid\[2\]"/"gid[2]", "gid[1]"/
33|p|s/\*l->out_ns = .*/*l->out_ns = 1;/
34|p|s/if \(l->local\[0\] > 1/if (0 \&\& l->local[0] > 1/
35|p|s/if \(!rc\) rc = run\(p, l, e\);/static unsigned planted; if (!rc \&\& __atomic_add_fetch(\&planted, 1, 5) % 5000) rc = run(p, l, e);/
36|h|s/if \(src.len\) memmove\(/if (src.len \&\& !(s \&\& s->nwait)) memmove(/
37|t|s/if \(value <= old\)/if (value < 1)/
38|p|s/TNP_F_TIMESTAMP/TNP_F_TIMESTAMP | TNP_F_CONTAINS_FAULTS/
39|p|s/^static void forked\(void\) \{\}/static void forked(void) { abort(); }/
40|p|s/^    tnk_host = h;/&@    atexit(abort);/
17|h|s/return tnk_fail\(e, TNP_E_OOM, ENOMEM,/if (e) e->msg[e->cap] = 0; &/
20|l|s/w->staged \? w->staged : w->src/w->src/
36|l|s/i < s->nwait/i + 1 < s->nwait/
39|l|s/return in_child \?/return 0 ?/
peer|H|s/m->p = b->p;/m->p = (char *)tnk_take(TNK_HOST, b->bytes);/
import|h|s/b->release = i->release;//
tc|p|s/^static const void \*ext\(/static const uint16_t planted_map[4] = {0, 1, 2, 2}; static const tnp_tc planted = {sizeof planted, 0, "mma.m2n2k2", 2, 2, 2, 4, 1, 1, 1, TNP_F32, TNP_F32, TNP_F32, planted_map, planted_map, planted_map, NULL, "$d[0] = $a[0] + $b[0];"}; static const tnp_tc *const planted_list[] = {\&planted, NULL}; static const tnp_tc_ops planted_ops = {sizeof planted_ops, 1, "plain-c", planted_list};@&/; s/^    return tnk_ext\(id\);/    return strcmp(id, "tenon.tc\/1") ? tnk_ext(id) : \&planted_ops;/
render|p|s/\.compile = compile/.render = \&planted, &/; s/^static const tnp_plugin root/static tnp_rc planted_render(const void *p, size_t n, tnp_blob *src, tnp_blob *log, tnp_err *e) { static char c; (void)p, (void)log, (void)e; src->data = tnk_take(tnk_host, 1); memset(src->data, ++c, 1); src->len = 1; (void)n; return 0; }@static const tnp_render_ops planted = {sizeof planted, 1, "planted", planted_render, NULL};@&/
dialect|p|/\{"imod"/d
'
mkdir -p "$tmp/tenon"
build_one() { # file script: the defect in its file, then the plugin
  local file=$1 script=${2//@/\\n}
  cp sdk/include/tenon/*.h "$tmp/tenon"
  cp examples/plugin/tenon_plain.c tests/plugin/outside/tenon_later.c "$tmp"
  name=tenon_plain
  [ "$file" != l ] || name=tenon_later
  local path=$tmp/$name.c
  [ "$file" != H ] || sed -i "s/DEVICES = 1,/DEVICES = 2,/" "$path"
  case $file in h | H) path=$tmp/tenon/hostdev.h ;; t) path=$tmp/tenon/timeline.h ;; k) path=$tmp/tenon/kit.h ;; esac
  cp "$path" "$tmp/before"
  sed -E -i "$script" "$path"
  if [ -n "$script" ] && cmp -s "$path" "$tmp/before"; then
    echo "the defect is not in the source any more"
    return 1
  fi
  cc -w -std=gnu11 -O1 -fPIC -fvisibility=hidden -I"$tmp" "$tmp/$name.c" -o "$tmp/$name.so" \
    -shared -Wl,-z,nodelete,-Bsymbolic -lpthread -lm -ldl ${3:-} 2>"$tmp/log" || { cat "$tmp/log"; return 1; }
}
verdict() { # name
  if [ "$2" = yes ]; then passed=$((passed + 1)); else failed=$((failed + 1)); echo "failed: planted defect $1: $3"; fi
}
while IFS='|' read -r number file script; do
  [ -n "$number" ] || continue
  if ! build_one "$file" "$script" >"$tmp/why"; then
    verdict "$number" no "$(head -n 3 "$tmp/why")"
    continue
  fi
  re="^$number "
  [[ $number =~ ^[0-9] ]] || re="^$number:"
  out=$("$check" --only "$re" "$tmp/$name.so" 2>&1)
  if grep -q '^FAIL' <<<"$out"; then verdict "$number" yes; else verdict "$number" no "$out"; fi
done <<<"$defects"
if [ -e /usr/lib/x86_64-linux-gnu/libz.so ] && build_one p "" "-Wl,--no-as-needed -lz"; then
  out=$("$check" --only '^2 ' "$tmp/tenon_plain.so" 2>&1)
  if grep -q 'needs libz' <<<"$out"; then verdict 2 yes; else verdict 2 no "$out"; fi
fi
# and without a defect all is well; expected failures that pass are failures
build_one p "" >/dev/null
out=$("$check" --only '^(1|5|11|16) ' "$tmp/tenon_plain.so")
if [ "$(tail -n 1 <<<"$out")" = "4 passed, 0 failed, 0 skipped" ]; then verdict none yes; else verdict none no "$out"; fi
build_one l "" >/dev/null
printf '%s\n' 25 28 30 32 >"$tmp/xfail" # it knows six ops, and no names
out=$("$check" --xfail "$tmp/xfail" "$tmp/tenon_later.so")
if grep -q '^33 passed, 0 failed' <<<"$out"; then verdict "none, asynchronous" yes; else verdict "none, asynchronous" no "$out"; fi
printf '11 # not true\n' >"$tmp/xfail"
out=$("$check" --only '^11 ' --xfail "$tmp/xfail" "$tmp/tenon_plain.so")
if grep -q 'passes, and was expected to fail' <<<"$out"; then verdict xpass yes; else verdict xpass no "$out"; fi
echo "$passed passed, $failed failed, 0 skipped"
[ "$failed" = 0 ]
