#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manifest_sha256.py FOLDER NAME...: runs at the end of `meson install` and writes the SHA-256 of the installed
FOLDER/NAME.so into FOLDER/NAME.yaml beside it, where the loader checks it. It runs after stripping, so the sum is of
the file as it will be loaded. FOLDER is below the prefix; DESTDIR is respected."""
import hashlib
import os
import pathlib
import shutil
import sys


def installed(folder):
    """Where FOLDER lies in this installation (with DESTDIR, below it)."""
    prefix = os.environ["MESON_INSTALL_PREFIX"]
    return pathlib.Path(os.environ["MESON_INSTALL_DESTDIR_PREFIX"], os.path.relpath(folder, prefix))


def stamp(folder, name):
    library, manifest = folder / f"{name}.so", folder / f"{name}.yaml"
    digest = hashlib.sha256(library.read_bytes()).hexdigest()
    lines = [x for x in manifest.read_text(encoding="utf-8").splitlines() if not x.startswith("sha256:")]
    new = manifest.with_name(f".{name}.yaml.new")
    new.write_text("\n".join([*lines, f"sha256: {digest}", ""]), encoding="utf-8")
    shutil.copymode(manifest, new)
    os.replace(new, manifest)


def main(folder, *names):
    for name in names:
        try:
            stamp(installed(folder), name)
        except OSError as e:
            sys.exit(f"manifest_sha256: {e}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
