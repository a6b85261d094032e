# SPDX-License-Identifier: Apache-2.0
"""Runs the built tenon with its own plugins, profiles and a private cache folder.

Environment: TENON (program), TENON_BUILD (build folder), TENON_TEST_SOURCE, TENON_TEST_DATA; TENON_QEMU (what runs the
program, in a cross build).
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TENON = os.environ["TENON"]
EMULATOR = os.environ.get("TENON_QEMU", "").split()
BUILD = pathlib.Path(os.environ["TENON_BUILD"])
SOURCE = pathlib.Path(os.environ["TENON_TEST_SOURCE"])
DATA = pathlib.Path(os.environ["TENON_TEST_DATA"])
# Formats of MatMulNBits that a budget of `tenon quantize` chooses among where no plugin states levels.
UNIFORM = "2:32z+2:16z+3:128+3:32+4:128+4:32+4:16+8:128+8:32"
DEMO = SOURCE / "models" / "demo"


def has_avx2():
    return " avx2 " in pathlib.Path("/proc/cpuinfo").read_text().replace("\n", " ") and (
        BUILD / "plugins/cpu-avx2-lut/cpu-avx2-lut.so").exists()


def has_asan():
    """Its own mappings are over every limit, and its shadow counts as memory."""
    return "libasan" in os.popen(f"ldd {TENON}").read()


class Case(unittest.TestCase):
    """Each test has a cache folder of its own."""

    def setUp(self):
        self._tmp = tempfile.TemporaryDirectory()
        self.tmp = pathlib.Path(self._tmp.name)
        self.cache = self.tmp / "cache"

    def tearDown(self):
        self._tmp.cleanup()

    def tenon(self, *args, env=None, stdin=None, timeout=600, **kw):
        e = dict(os.environ, TENON_PLUGIN_PATH=str(BUILD / "plugins/cpu-avx2-lut"),
                 TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_CACHE_DIR=str(self.cache))
        e.update(env or {})
        return subprocess.run([*EMULATOR, TENON, *map(str, args)], capture_output=True, text=True, env=e, input=stdin,
                              timeout=timeout, **kw)

    def ok(self, *args, **kw):
        r = self.tenon(*args, **kw)
        self.assertEqual(r.returncode, 0, f"tenon {' '.join(map(str, args))}\n{r.stdout}\n{r.stderr}")
        return r

    def fails(self, code, *words, args, **kw):
        """Exit code, every word in the message, and no sanitizer report."""
        r = self.tenon(*args, **kw)
        text = r.stdout + r.stderr
        self.assertEqual(r.returncode, code, f"tenon {' '.join(map(str, args))}\n{text}")
        for w in words:
            self.assertIn(w, text)
        self.assertNotIn("Sanitizer", text)
        self.assertNotIn("runtime error", text)
        return r

    def ids(self, *args, **kw):
        return [int(x) for x in self.ok("run", *args, "--ids", **kw).stdout.split()]

    def json(self, *args, **kw):
        return json.loads(self.ok(*args, "--format", "json", **kw).stdout)

    def profile(self, text, name="p.yaml"):
        p = self.tmp / name
        p.write_text(text)
        return p

    def module(self, name):
        try:
            return __import__(name, fromlist=["*"])
        except ImportError:
            self.skipTest(f"Python's {name} is not here")

    def need(self, path):
        if not pathlib.Path(path).exists():
            self.skipTest(f"{path} is not here")
        return path


def main():
    """Exit 77 when every test was skipped."""
    result = unittest.main(exit=False, verbosity=2).result
    if result.testsRun and len(result.skipped) == result.testsRun:
        print(result.skipped[0][1])
        sys.exit(77)
    sys.exit(not result.wasSuccessful())
