#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""manifest_sha256.py FOLDER NAME...: runs at the end of `meson install` and writes the SHA-256 of the installed
FOLDER/NAME.so into FOLDER/NAME.yaml beside it, where the loader checks it. It runs after stripping, so the sum is of
the file as it will be loaded. FOLDER is below the prefix; DESTDIR is respected.

manifest_sha256.py --note FILE...: writes the hash of what is loaded into the manifest note of each plugin (tenon/manifest.h;
runtime/plugin/elfnote.h says what is hashed), in place. Before or after `strip`: the hash is the same."""
import hashlib
import os
import pathlib
import shutil
import struct
import sys

OWNER, NOTE_TYPE, HASH_BYTES = b"Tenon\0", 1, 32
PT_LOAD, PT_NOTE = 1, 4


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


def segments(data):
    """(type, file offset, bytes in the file) of each program header of a 64-bit little-endian ELF file."""
    if data[:6] != b"\x7fELF\x02\x01":
        raise ValueError("is no 64-bit little-endian ELF file")
    at, (size, count) = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<HH", data, 54)
    for i in range(count):
        kind, _, offset, _, _, n = struct.unpack_from("<IIQQQQ", data, at + i * size)
        yield kind, offset, n


def find_hash(data):
    """Where the 32 bytes of the manifest note lie in the file."""
    for kind, offset, n in segments(data):
        at, end = offset, offset + n
        while kind == PT_NOTE and end - at >= 12:
            name_n, desc_n, note = struct.unpack_from("<III", data, at)
            desc = at + 12 + (name_n + 3 & ~3)
            if note == NOTE_TYPE and data[at + 12 : at + 12 + name_n] == OWNER and desc_n > HASH_BYTES:
                return desc
            at = desc + (desc_n + 3 & ~3)
    raise ValueError("has no manifest note (tenon/manifest.h)")


def loaded_sha256(data):
    """Of the ELF header, the program headers and what PT_LOAD segments hold, with the hash and the fields about sections
    (e_shoff, e_shentsize, e_shnum, e_shstrndx) as zeros."""
    clean, at = bytearray(data), find_hash(data)
    clean[at : at + HASH_BYTES] = bytes(HASH_BYTES)
    clean[40:48] = bytes(8)
    clean[58:64] = bytes(6)
    phoff, phnum = struct.unpack_from("<Q", data, 32)[0], struct.unpack_from("<H", data, 56)[0]
    sha = hashlib.sha256(clean[:64])
    sha.update(clean[phoff : phoff + 56 * phnum])
    for kind, offset, n in segments(data):
        if kind == PT_LOAD:
            sha.update(clean[offset : offset + n])
    return at, sha.digest()


def stamp_note(path):
    data = bytearray(path.read_bytes())
    at, digest = loaded_sha256(bytes(data))
    data[at : at + HASH_BYTES] = digest
    new = path.with_name(f".{path.name}.new")
    new.write_bytes(data)
    shutil.copymode(path, new)
    os.replace(new, path)


def main(folder, *names):
    if folder == "--note":
        for name in names:
            try:
                stamp_note(pathlib.Path(name))
            except (OSError, ValueError, struct.error) as e:
                sys.exit(f"manifest_sha256: {name}: {e}")
        return
    for name in names:
        try:
            stamp(installed(folder), name)
        except OSError as e:
            sys.exit(f"manifest_sha256: {e}")


if __name__ == "__main__":
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
