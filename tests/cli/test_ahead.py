# SPDX-License-Identifier: Apache-2.0
"""Compiling ahead of time: tenon pack and bundle prepare the graphs of npu-int8-sim, runs find them."""
import json
import os
import pathlib
import re
import subprocess

import common
from common import BUILD, DEMO, SOURCE, TENON

PREPARED = re.compile(r"npu-int8-sim: (\d+) graphs prepared, (\d+) kept ones")


class Ahead(common.Case):
    def setUp(self):
        super().setUp()
        if not (BUILD / "plugins/npu-int8-sim/npu-int8-sim.so").exists():
            self.skipTest("npu-int8-sim is not built")
        self.env = {"TENON_PLUGIN_PATH": str(BUILD / "plugins/npu-int8-sim"), "TENON_LOG": "debug"}

    def npu(self, options=""):
        return self.profile(f"calibration: {DEMO}/calibration.yaml\nplugins:\n  - name: npu-int8-sim\n    options: {{{options}}}\n"
                            "  - host\nphases: {prefill: [npu-int8-sim, host], decode: [host]}\n")

    def text(self, command, *args, **more):
        """What is printed, and graphs prepared and found."""
        got = subprocess.run([*command, "-p", "In the beginning", "-n", "12", "--temp", "0", *map(str, args)],
                             capture_output=True, text=True, env=dict(os.environ, **self.env, **more), timeout=120)
        self.assertEqual(got.returncode, 0, got.stderr)
        found = PREPARED.search(got.stderr)
        self.assertTrue(found, got.stderr)
        return got.stdout, int(found.group(1)), int(found.group(2))

    def run_in(self, cache, options=""):
        return self.text([TENON, "run", DEMO], "--profile", self.npu(options), "--cache-dir", cache)

    def test_pack(self):
        """Packed by a device that is not here, found by one that is; another chunk is other graphs."""
        want, made, kept = self.run_in(self.tmp / "other")
        self.assertTrue(made > 0 and kept == 0)
        packed = self.tmp / "packed"
        j = self.json("pack", DEMO, "--profile", self.npu("offline: true"), "-o", packed, env=self.env)
        (device,) = [d for d in j["devices"] if d["device"] == "npu-int8-sim"]
        self.assertTrue(device["offline"])
        self.assertEqual((device["compiled"], device["not_compiled"]), (made, 0))
        files = sorted((packed / "plugins/npu-int8-sim/ahead").iterdir())
        self.assertEqual(len(files), made)
        self.assertEqual(self.run_in(packed), (want, 0, made))
        self.assertEqual(self.run_in(packed, "chunk: 128")[1:], (made, 0))
        said = self.tenon("pack", DEMO, "--profile", self.npu("offline: true"), "-o", packed, env=self.env)
        self.assertIn(f"npu-int8-sim: {made} tasks compiled ahead of time", said.stderr)
        text = self.tenon("run", DEMO, "-p", "x", "--profile", self.npu("offline: true"), env=self.env)
        self.assertEqual(text.returncode, 4)
        # A damaged one is made anew; the text is the same.
        files[0].write_bytes(files[0].read_bytes()[:-1] + b"?")
        self.assertEqual(self.run_in(packed), (want, 1, made - 1))

    def test_bundle(self):
        """The bundle carries what was compiled; a run of it finds that, and looks at it at the start."""
        want, made, _ = self.run_in(self.tmp / "other")
        folder = self.tmp / "bundle"
        for again in (False, True):
            at = self.tmp / "again" if again else folder
            self.ok("bundle", DEMO, "--profile", self.npu(), "-o", at, env=self.env)
            files = json.loads((at / "bundle.json").read_text())["files"]
            compiled = {f["path"]: f["sha256"] for f in files if f["role"] == "compiled"}
            self.assertEqual(len(compiled), made)
            if again:
                self.assertEqual(compiled, first)
            first = compiled
        self.assertEqual(self.text([str(folder / "run.sh"), "run"]), (want, 0, made))
        one = folder / next(iter(first))
        one.chmod(0o644)
        one.write_bytes(one.read_bytes()[:-1] + b"?")
        got = subprocess.run([str(folder / "run.sh"), "run", "-p", "x", "-n", "1"], capture_output=True, text=True)
        self.assertNotEqual(got.returncode, 0)
        self.assertIn("is damaged", got.stderr)


if __name__ == "__main__":
    common.main()
