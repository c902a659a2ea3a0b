#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Writes tests/plugin/abi_N.c, the layout of minor N of the plugin ABI, from the header of that minor.

usage: make_abi.py MINOR HEADER >tests/plugin/abi_MINOR.c

Run once when a minor is released; afterwards the file is never made again.
"""
import re, subprocess, sys, tempfile, os

minor, header = sys.argv[1], os.path.abspath(sys.argv[2])
text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
structs, values = [], []
for body, name in re.findall(r"typedef struct \w+ \{(.*?)\}\s*(tnp_\w+);", text, flags=re.S):
    fields = []
    for decl in body.split(";"):
        decl = decl.strip()
        if not decl:
            continue
        fn = re.search(r"\(\*(\w+)\)", decl)
        if fn:
            fields.append(fn.group(1))
            continue
        for part in decl.split(","):
            fields.append(re.search(r"(\w+)\s*(\[[^]]*\])?$", part.strip()).group(1))
    structs.append((name, fields))
for body in re.findall(r"enum \{(.*?)\}", text, flags=re.S):
    values += re.findall(r"(TNP_\w+)", re.sub(r"=[^,]*", "", body))
values += ["TNP_MAJOR", "TNP_MAGIC"]

src = f'#include <stdio.h>\n#include "{header}"\nint main(void) {{\n'
for name, fields in structs:
    for f in fields:
        src += f'printf("AT({name}, {f}, %zu);\\n", offsetof({name}, {f}));\n'
    kind = "ROOM" if fields[0] == "size" or name == "tnp_plugin" else "FROZEN"
    src += f'printf("{kind}({name}, %zu);\\n", sizeof({name}));\n'
for v in values:
    src += f'printf("IS({v}, %lld);\\n", (long long){v});\n'
src += "return 0; }\n"
with tempfile.TemporaryDirectory() as d:
    open(d + "/a.c", "w").write(src)
    subprocess.run(["cc", "-o", d + "/a", d + "/a.c"], check=True)
    rows = subprocess.run([d + "/a"], check=True, capture_output=True, text=True).stdout
print(f"""/* SPDX-License-Identifier: MIT */
/*
 * Minor {minor} of the plugin ABI: every offset, size and value, as 64-bit machines lay them out.  Compiling is
 * the test.  Made by make_abi.py when the minor came out; a change here breaks plugins that exist.
 *
 * A struct with a size may have grown since (ROOM), one without is as it was (FROZEN).
 */
#include <tenon/plugin.h>
#include "abi.h"
#if UINTPTR_MAX == 0xffffffffffffffffu
/* clang-format off */""")
print(rows, end="")
print("/* clang-format on */\n#endif\nextern int abi_%s_is_checked;" % minor)
