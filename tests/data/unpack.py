#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unpack.py ARCHIVE STAMP [FOLDER]: an archive of test data into the folder of STAMP, or into FOLDER below it.

STAMP keeps the archive's hash, so that configuring again costs nothing; Meson runs this when it configures a build. The demo
model is no second copy there: lm/demo-lm leads to models/demo.
"""
import hashlib
import os
import pathlib
import shutil
import sys
import tarfile

archive, stamp = map(pathlib.Path, sys.argv[1:3])
folder = stamp.parent / (sys.argv[3] if len(sys.argv) > 3 else ".")
demo = stamp.parent / "lm" / "demo-lm"
want = hashlib.sha256(archive.read_bytes()).hexdigest() + "\n"
if not stamp.exists() or stamp.read_text() != want:
    with tarfile.open(archive) as tar:
        for name in {m.name.lstrip("./").split("/")[0] for m in tar if sys.argv[3:]} - {""}:
            shutil.rmtree(folder / name, ignore_errors=True)
        tar.extractall(folder)
    stamp.write_text(want)
if not demo.exists():
    demo.parent.mkdir(parents=True, exist_ok=True)
    demo.is_symlink() and demo.unlink()
    os.symlink(pathlib.Path(__file__).resolve().parents[2] / "models" / "demo", demo)
