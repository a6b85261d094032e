# SPDX-License-Identifier: Apache-2.0
"""cpu-neon-lut from the outside. On aarch64 (or under qemu) each kind of CPU runs the demo model with its own kernels and
writes the ids that cpu-avx2-lut writes on x86-64; there, the same plugin packs the same bytes and runs nothing.

Environment: TENON (program), TENON_BUILD, TENON_TEST_SOURCE, TENON_TEST_DATA, TENON_ARCH (aarch64 or x86_64), TENON_QEMU
(the emulator; empty on an aarch64 machine), QEMU_SME (one that has SME2: QEMU 10.1 or later), TENON_TEST_QUICK.
"""
import hashlib
import json
import os
import pathlib
import struct
import subprocess
import tempfile
import unittest

TENON = os.environ["TENON"]
BUILD = pathlib.Path(os.environ["TENON_BUILD"])
SOURCE = pathlib.Path(os.environ["TENON_TEST_SOURCE"])
DATA = pathlib.Path(os.environ["TENON_TEST_DATA"])
QEMU = os.environ.get("TENON_QEMU", "")
QEMU_SME = os.environ.get("QEMU_SME", "")
ARM = os.environ["TENON_ARCH"] == "aarch64"
QUICK = bool(os.environ.get("TENON_TEST_QUICK"))
DEMO = SOURCE / "models" / "demo"
GOLDEN = json.loads((SOURCE / "tests/arm/golden.json").read_text())

# Emulated CPU, and the kernels that one row and many rows must get on it. a64fx has SVE, but neither SDOT nor SMMLA.
CPUS = [("cortex-a72", "neon", "neon"), ("cortex-a76", "dotprod", "dotprod"), ("a64fx", "neon", "neon"),
        ("max,sve=off", "dotprod", "i8mm"), ("max", "dotprod", "i8mm")]
# Values of option isa, and the same.
MASKS = [("scalar", "scalar", "scalar"), ("neon", "neon", "neon"), ("dotprod", "dotprod", "dotprod"),
         ("i8mm", "dotprod", "i8mm")]


class Case(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls._tmp = tempfile.TemporaryDirectory()
        cls.tmp = pathlib.Path(cls._tmp.name)

    @classmethod
    def tearDownClass(cls):
        cls._tmp.cleanup()

    def tenon(self, *args, cpu=None, plugins=("cpu-neon-lut",), cache="cache", qemu=QEMU):
        env = dict(os.environ, TENON_PROBE="inprocess", TENON_PLUGIN_PATH=":".join(str(BUILD / "plugins" / p) for p in plugins),
                   TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_CACHE_DIR=str(self.tmp / cache))
        emulator = [qemu] + (["-cpu", cpu] if cpu else []) if qemu else []
        return subprocess.run([*emulator, TENON, *map(str, args)], capture_output=True, text=True, env=env, timeout=900)

    def ok(self, *args, **kw):
        r = self.tenon(*args, **kw)
        self.assertEqual(r.returncode, 0, f"{kw} tenon {' '.join(map(str, args))}\n{r.stdout}\n{r.stderr}")
        return r

    def profile(self, name, **options):
        path = self.tmp / f"{name}.yaml"
        path.write_text("plugins:\n  - name: cpu-neon-lut\n    options: {%s}\n  - host\nrequire: [cpu-neon-lut]\n" %
                        ", ".join(f"{k}: {v}" for k, v in options.items()))
        return path

    def generate(self, profile, **kw):
        """The ids and the names of the chosen kernels."""
        r = self.ok("run", DEMO, "-p", GOLDEN["prompt"], "-n", 64, "--temp", 0, "--ids", "--profile", profile,
                    "--log-level", "debug", **kw)
        line = [n for n in r.stderr.splitlines() if "gemv_f32" in n][0]
        return [int(i) for i in r.stdout.split()], line

    def packed(self, profile, **kw):
        """SHA-256 of the one file of packed weights, but for what it says of its source's inode and time of change
        (runtime/pack/layout.h: the two slots before the data)."""
        self.ok("pack", DEMO, "--profile", profile, cache="packed-" + profile, **kw)
        files = sorted((self.tmp / ("packed-" + profile)).glob("*.tnpack"))
        self.assertEqual(len(files), 1)
        content = files[0].read_bytes()
        stamps, _, data = struct.unpack_from("<3Q", content, 56)
        self.assertTrue(0 < stamps < data < len(content))
        return hashlib.sha256(content[:stamps] + content[data:]).hexdigest()


@unittest.skipUnless(ARM, "not aarch64")
class Tiers(Case):
    def check_kernels(self, line, gemv, gemm):
        self.assertIn(f"w4g32_1x16_{gemv}", line)
        self.assertRegex(line, rf"gemm_f32_q8g32_w4g32_\d+x\d+_{gemm}")

    @unittest.skipUnless(QEMU, "needs an emulator of several CPUs")
    def test_cpus(self):
        for cpu, gemv, gemm in CPUS:
            with self.subTest(cpu=cpu):
                ids, line = self.generate("cpu-neon", cpu=cpu)
                self.assertEqual(ids, GOLDEN["ids_g32"])
                self.check_kernels(line, gemv, gemm)

    def test_masks(self):
        for isa, gemv, gemm in MASKS:
            with self.subTest(isa=isa):
                ids, line = self.generate(self.profile("mask", isa=isa), cpu="max")
                self.assertEqual(ids, GOLDEN["ids_g32"])
                self.check_kernels(line, gemv, gemm)

    @unittest.skipUnless(QEMU_SME, "QEMU_SME names no emulator with SME2")
    def test_sme(self):
        for isa in "sme", "sme2":
            for length in 16, 32, 64:
                with self.subTest(isa=isa, length=length):
                    ids, line = self.generate(self.profile("sme", isa=isa), cpu=f"max,sme-default-vector-length={length}", qemu=QEMU_SME)
                    self.assertEqual(ids, GOLDEN["ids_g32"])
                    self.check_kernels(line, "dotprod", isa)

    def test_g128(self):
        ids, line = self.generate(self.profile("g128", group=128), cpu="max")
        self.assertEqual(ids, GOLDEN["ids_g128"])
        self.assertIn("w4g128_4x8_i8mm", line)

    def test_bit_serial(self):
        for b in ("lut3",) if QEMU else ("lut2", "lut3", "lut4"):
            with self.subTest(format=b):
                ids, line = self.generate(self.profile(b, format=b), cpu="cortex-a72")
                self.assertEqual(ids, GOLDEN[f"ids_{b}"])
                self.assertIn(f"gemv_f32_{b}p_1x16_neon", line)
                self.assertIn(f"gemm_f32_{b}p_4x16_neon", line)

    def test_one_scale_for_a_row(self):
        ids, line = self.generate(self.profile("row", act_scales="row"), cpu="max")
        self.assertEqual(ids, GOLDEN["ids_row"])
        self.assertIn("w4g32_4x8_i8mm", line)

    @unittest.skipUnless(QEMU, "needs an emulator of several CPUs")
    def test_eight_bits_for_tables(self):
        for cpu, isa in (("cortex-a76", "dotprod"), ("max", "i8mm")):
            with self.subTest(cpu=cpu):
                ids, line = self.generate(self.profile("eight", format="lut2", act_bits=8), cpu=cpu)
                self.assertEqual(ids, GOLDEN["ids_lut2_8"])
                self.assertIn(f"gemm_f32_q8g128_lut2p_4x8_{isa}", line)

    def test_no_product_falls_back(self):
        r = self.ok("check", DEMO, "--profile", "cpu-neon", "--format", "json", cpu="max")
        report = json.loads(r.stdout)
        products = [n for n in report["nodes"] if n["op"] in ("MatMul", "Gemm", "FusedMatMul")]
        self.assertGreater(len(products), 10)
        self.assertEqual({n["device"] for n in products}, {"cpu-neon-lut"})

    def eval(self, model, tokens):
        text = self.tmp / "text.txt"
        text.write_text(" ".join(json.loads((SOURCE / "models/train/valid.json").read_text())[:2]))
        r = self.ok("eval", model, "--text", text, "--max-tokens", tokens, "--against", "reference", "--profile",
                    "cpu-neon", "--format", "json", cpu="max")
        got = json.loads(r.stdout)
        self.assertLess(abs(got["mean_nll"] / got["other_mean_nll"] - 1), 0.002)
        self.assertGreater(got["kl_divergence"], 0)
        self.assertLess(got["kl_divergence"], 0.002)

    def test_demo_is_its_reference(self):
        self.eval(DEMO, 64 if QUICK else 256)

    def test_stories_are_their_reference(self):
        if not (DATA / "lm/stories260k-onnx").exists():
            self.skipTest("no test data")
        self.eval(DATA / "lm/stories260k-onnx", 64 if QUICK else 256)

    def test_bytes(self):
        self.assertEqual(self.packed("cpu-neon", cpu="max"), GOLDEN["pack_sha256"])


@unittest.skipIf(ARM, "not x86-64")
class Offline(Case):
    def test_bytes(self):
        self.assertEqual(self.packed("cpu-neon"), GOLDEN["pack_sha256"])

    def test_does_not_run(self):
        r = self.tenon("run", DEMO, "-p", "x", "-n", 1, "--profile", "cpu-neon")
        self.assertNotEqual(r.returncode, 0)
        self.assertIn("offline", r.stderr)
        self.assertIn("cpu-neon-lut", r.stderr)

    def test_optional_is_passed_over(self):
        r = self.ok("run", DEMO, "-p", GOLDEN["prompt"], "-n", 1, "--temp", 0, "--profile", "default")
        self.assertNotIn("cpu-neon-lut", r.stderr.split("placement:")[1])

    def test_claims(self):
        report = json.loads(self.ok("check", DEMO, "--profile", "cpu-neon", "--format", "json").stdout)
        products = [n for n in report["nodes"] if n["op"] in ("MatMul", "Gemm", "FusedMatMul")]
        self.assertGreater(len(products), 10)
        self.assertEqual({n["device"] for n in products}, {"cpu-neon-lut"})

    def test_x86_64_writes_the_same(self):
        plugins = ("cpu-avx2-lut",)
        if not (BUILD / "plugins/cpu-avx2-lut/cpu-avx2-lut.so").exists() or " avx2 " not in pathlib.Path(
                "/proc/cpuinfo").read_text().replace("\n", " "):
            self.skipTest("no AVX2 plugin here")
        for profile, ids in (("cpu-avx2", "ids_g32"), ("cpu-avx2-g128", "ids_g128"), ("cpu-avx2-lut2", "ids_lut2"),
                             ("cpu-avx2-lut3", "ids_lut3"), ("cpu-avx2-lut4", "ids_lut4")):
            self.assertEqual(self.generate(profile, plugins=plugins)[0], GOLDEN[ids])
        for options, ids in (("act_scales: row", "ids_row"), ("format: lut2, act_bits: 8", "ids_lut2_8")):
            path = self.tmp / f"{ids}.yaml"
            path.write_text("plugins:\n  - name: cpu-avx2-lut\n    options: {%s}\n  - host\n" % options)
            self.assertEqual(self.generate(path, plugins=plugins)[0], GOLDEN[ids])
        self.assertEqual(self.packed("cpu-avx2", plugins=plugins), GOLDEN["pack_sha256"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
