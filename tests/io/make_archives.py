#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
# Writes the small archives that io's tests read: two.gz (two members), good.tgz, good.zip, evil.zip, and
# cifar.tgz: CIFAR-10's six files with two records each, the label and all pixels of one being the same.
# Run by hand; needs only Python's own libraries.
import gzip
import io
import tarfile
import zipfile

open("two.gz", "wb").write(gzip.compress(b"first " * 1000, mtime=0) + gzip.compress(b"second", mtime=0))
with tarfile.open("good.tgz", "w:gz") as t:
    for name, data in (("a.txt", b"hello\n"), ("d/e/b.bin", bytes(range(256)) * 300), ("d/empty", b"")):
        i = tarfile.TarInfo(name)
        i.size = len(data)
        t.addfile(i, io.BytesIO(data))
    i = tarfile.TarInfo("folder")
    i.type = tarfile.DIRTYPE
    i.mode = 0o755
    t.addfile(i)
with zipfile.ZipFile("good.zip", "w", zipfile.ZIP_DEFLATED) as z:
    z.writestr("a.txt", b"hello\n")
    z.writestr("d/e/b.bin", bytes(range(256)) * 300)
with zipfile.ZipFile("evil.zip", "w") as z:
    z.writestr("fine.txt", b"fine")
    z.writestr("d/../../evil.txt", b"evil")
names = [f"data_batch_{i}.bin" for i in (3, 1, 2, 4, 5)] + ["test_batch.bin"]
with tarfile.open("cifar.tgz", "w:gz") as t:
    for name in names + ["readme.html"]:
        k = int(name[11]) if name[0] == "d" else 0
        data = b"".join(bytes([v]) * 3073 for v in (2 * k, 2 * k + 1)) if name != "readme.html" else b"x"
        i = tarfile.TarInfo("cifar-10-batches-bin/" + name)
        i.size = len(data)
        t.addfile(i, io.BytesIO(data))
