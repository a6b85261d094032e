# SPDX-License-Identifier: Apache-2.0
"""Portable packed files hold the bytes that packed_bytes.json says: what is packed today is mapped by tomorrow's Tenon.

    test_packed_bytes.py [--write]     --write: what this build packs becomes the golden; a format's version moves with its bytes

Five formats of the demo model, packed as a bundle packs them. Of each segment: format and version, N, K, its key, and
SHA-256 of its bytes (runtime/pack/layout.h). Stamps and what says where a segment lies are not compared. Exit 77 without
AVX2. TENON_TEST_QUICK: two of the five.
"""
import hashlib
import json
import os
import struct
import sys
import unittest

from common import DEMO, SOURCE, Case, has_avx2, main

GOLDEN = SOURCE / "tests/cli/packed_bytes.json"
PROFILES = ("cpu-avx2", "cpu-avx2-w8g", "cpu-avx2-w3g", "cpu-avx2-tern20", "cpu-avx2-pal16")
HEADER, SEGMENT = struct.Struct("<8s4I7Q"), struct.Struct("<16s16s3Q2q4I24s")


def segments(content):
    """One line for each segment of a packed file, in its order."""
    magic, version, count, _, _, size, table = HEADER.unpack_from(content)[:7]
    if magic != b"TENONPK\0" or version != 2 or size != len(content):
        raise ValueError("not a packed file of version 2")
    for i in range(count):
        key, _, at, n, _, N, K, _, _, revision, _, name = SEGMENT.unpack_from(content, table + i * SEGMENT.size)
        data = content[at:at + n]
        if len(data) != n:
            raise ValueError(f"segment {i} ends after the file")
        yield f"{name.rstrip(bytes(1)).decode()}.{revision} {N}x{K} {key.hex()} {hashlib.sha256(data).hexdigest()}"


class PackedBytes(Case):
    def packed(self, profile):
        self.ok("bundle", DEMO, "--profile", profile, "-o", self.tmp / profile)
        found = sorted((self.tmp / profile).rglob("*.tnpack"))
        self.assertEqual(len(found), 1)
        return found[0].read_bytes()

    @unittest.skipUnless(has_avx2(), "no AVX2")
    def test_as_before(self):
        golden = json.loads(GOLDEN.read_text())
        self.assertEqual(sorted(golden), sorted(PROFILES))
        for profile in PROFILES[3:] if os.environ.get("TENON_TEST_QUICK") else PROFILES:
            with self.subTest(profile=profile):
                got = list(segments(self.packed(profile)))
                self.assertGreater(len(got), 20)
                self.assertEqual(got, golden[profile])

    @unittest.skipUnless(has_avx2(), "no AVX2")
    def test_each_byte_counts(self):
        """One bit of a segment makes its line another, and no other's."""
        content = bytearray(self.packed(PROFILES[-1]))
        whole = list(segments(content))
        at, n = SEGMENT.unpack_from(content, HEADER.unpack_from(content)[6])[2:4]
        for byte in (at, at + n // 2, at + n - 1):
            content[byte] ^= 1
            self.assertEqual([a == b for a, b in zip(whole, segments(content))], [False] + [True] * (len(whole) - 1))
            content[byte] ^= 1


def write():
    case = PackedBytes()
    case.setUp()
    GOLDEN.write_text(json.dumps({p: list(segments(case.packed(p))) for p in PROFILES}, indent=1) + "\n")
    case.tearDown()


if __name__ == "__main__":
    write() if sys.argv[1:] == ["--write"] else main()
