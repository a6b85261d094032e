# SPDX-License-Identifier: Apache-2.0
"""Single bytes of a bundle, a cache and a plugin folder, turned: an error with a message or the same output, never a crash.

TENON_TEST_SEED tries other bytes.
"""
import os
import shutil
import subprocess

import common
from common import BUILD

SEED = os.environ.get("TENON_TEST_SEED", "7")
SHARE = 10 if os.environ.get("TENON_TEST_QUICK") else 1
TRIES = {"bundle": 1100 // SHARE, "cache": 500 // SHARE, "plugin": 400 // SHARE}


class Flips(common.Case):
    def setUp(self):
        super().setUp()
        if not common.has_avx2():
            self.skipTest("no AVX2: no plugin whose packed weights run here")
        onnx, np = self.module("onnx"), self.module("numpy")
        h, rng = onnx.helper, np.random.default_rng(3)
        w = [rng.standard_normal((256, 256)).astype(np.float32) for _ in range(2)]
        g = h.make_graph([h.make_node("MatMul", ["x", "w0"], ["t"], "first"), h.make_node("MatMul", ["t", "w1"], ["y"], "second")],
                         "g", [h.make_tensor_value_info("x", 1, ["m", 256])], [h.make_tensor_value_info("y", 1, ["m", 256])],
                         [onnx.numpy_helper.from_array(v, f"w{i}") for i, v in enumerate(w)])
        self.model = self.tmp / "model.onnx"
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), self.model)
        self.plain = self.profile("plugins: [cpu-avx2-lut, host]\n")

    def test_flips(self):
        bundle = self.tmp / "bundle"
        self.ok("bundle", self.model, "-o", bundle, "--profile", self.plain)
        plugins = self.tmp / "plugins"
        plugins.mkdir()
        for suffix in (".so", ".yaml"):
            shutil.copy(BUILD / f"plugins/cpu-avx2-lut/cpu-avx2-lut{suffix}", plugins)
        digest = subprocess.run(["sha256sum", plugins / "cpu-avx2-lut.so"], capture_output=True, text=True).stdout.split()[0]
        with open(plugins / "cpu-avx2-lut.yaml", "a") as f: # as the installed one says
            f.write(f"sha256: {digest}\n")
        flips = BUILD / "tests/bundle/bundle-flips"
        own = BUILD / "plugins/cpu-avx2-lut"
        cases = {"bundle": (bundle, bundle / "model/model.onnx", bundle / "profile.yaml", bundle / "plugins"),
                 "cache": (self.cache, self.model, self.plain, own), "plugin": (plugins, self.model, self.plain, plugins)}
        running = {mode: subprocess.Popen([flips, mode, folder, model, profile, str(TRIES[mode]), SEED, found],
                                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                   for mode, (folder, model, profile, found) in cases.items()}
        for mode, p in running.items():
            text = p.communicate(timeout=500)[0]
            print(text.strip().splitlines()[-1] if text.strip() else "")
            with self.subTest(mode):
                self.assertEqual(p.returncode, 0, text)
                self.assertIn(f"{mode}: {TRIES[mode]} flips", text)
        self.ok("bundle", "--verify", bundle)


if __name__ == "__main__":
    common.main()
