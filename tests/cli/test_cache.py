# SPDX-License-Identifier: Apache-2.0
"""Packed weights: found again, repaired, survived by a killed or a second writer, done without."""
import os
import shutil
import subprocess
import threading
import unittest

from common import BUILD, DEMO, Case, has_avx2, main

ARGS = ("run", DEMO, "-p", "In the beginning", "-n", 12, "--temp", 0)
KILLAT = BUILD / "tests/pack/libkillat.so"


@unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
class Cache(Case):
    def setUp(self):
        super().setUp()
        self.want = self.ok(*ARGS, env={"TENON_CACHE_DIR": str(self.tmp / "elsewhere")}).stdout

    def good(self, **kw):
        self.assertEqual(self.ok(*ARGS, **kw).stdout, self.want)

    def packed(self):
        files = [f for f in self.cache.iterdir() if f.is_file() and f.stat().st_size > 1 << 20]
        self.assertEqual(len(files), 1, list(self.cache.iterdir()))
        return files[0]

    def test_second_start_packs_nothing(self):
        self.good()
        f = self.packed()
        before = f.stat()
        self.good()
        self.assertEqual((f.stat().st_ino, f.stat().st_mtime_ns // 10**9 >= before.st_mtime_ns // 10**9),
                         (before.st_ino, True))

    def test_a_flipped_byte_in_each_megabyte(self):
        self.good()
        f = self.packed()
        for at in range(1 << 19, f.stat().st_size, 1 << 20):
            with open(f, "r+b") as h:
                h.seek(at)
                b = h.read(1)
                h.seek(at)
                h.write(bytes([b[0] ^ 0x10]))
            self.good()
            f = self.packed()
        self.good()

    def test_truncated_file(self):
        self.good()
        f = self.packed()
        size = f.stat().st_size
        for n in (0, 1, 64, 4096, 65536, size // 2, size - 1):
            os.truncate(f, n)
            self.good()
            f = self.packed()

    def test_killed_at_each_call(self):
        if not KILLAT.exists():
            self.skipTest("killat.so was not built")
        for n in range(1, 10000):
            env = {"LD_PRELOAD": str(KILLAT), "TENON_KILL_AT": str(n)}
            if "libasan" in os.popen(f"ldd {os.environ['TENON']}").read():
                self.skipTest("preloading does not go with the address sanitizer")
            r = self.tenon(*ARGS, env=env)
            self.good()
            shutil.rmtree(self.cache)
            if r.returncode == 0:
                break
        self.assertGreater(n, 4)
        print(n - 1, "calls were killed one by one")

    def test_two_at_once(self):
        for _ in range(3):
            results = []
            threads = [threading.Thread(target=lambda: results.append(self.tenon(*ARGS))) for _ in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            for r in results:
                self.assertEqual((r.returncode, r.stdout), (0, self.want), r.stderr)
            self.good()
            self.packed().unlink()

    def test_folder_that_cannot_be_written(self):
        (self.tmp / "file").write_text("")
        r = self.ok(*ARGS, env={"TENON_CACHE_DIR": str(self.tmp / "file/cache")})
        self.assertEqual(r.stdout, self.want)
        self.assertIn("file/cache' is not used: is not a folder", r.stderr)

    def test_full_disk(self):
        self.cache.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k,mode=700", "none", str(self.cache)],
                          capture_output=True).returncode:
            self.skipTest("no small file system can be mounted here")
        try:
            r = self.ok(*ARGS)
        finally:
            subprocess.run(["umount", str(self.cache)], check=True)
        self.assertEqual(r.stdout, self.want)
        self.assertIn("packed weights are not kept", r.stderr)


if __name__ == "__main__":
    main()
