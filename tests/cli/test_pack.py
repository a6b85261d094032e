# SPDX-License-Identifier: Apache-2.0
"""tenon pack and plugins --formats: reports against numpy, devices that are not here, Ctrl-C; check by phase."""
import csv
import io
import json
import os
import pathlib
import re
import signal
import subprocess
import time

import common
from common import BUILD, DEMO, SOURCE, TENON


class Pack(common.Case):
    def setUp(self):
        super().setUp()
        self.plugins = {"TENON_PLUGIN_PATH": f"{BUILD}/plugins/cpu-avx2-lut:{BUILD}/tests/session"}

    def model(self, K=256, N=96, n=1):
        """n products of x [m,K] with constants [K,N], each its own."""
        onnx, np = self.module("onnx"), self.module("numpy")
        h, rng = onnx.helper, np.random.default_rng(5)
        self.w = [rng.standard_t(4, (K, N)).astype(np.float32) for _ in range(n)]
        g = h.make_graph([h.make_node("MatMul", ["x", f"w{i}"], [f"y{i}"], f"p{i}") for i in range(n)], "g",
                         [h.make_tensor_value_info("x", 1, ["m", K])],
                         [h.make_tensor_value_info(f"y{i}", 1, ["m", N]) for i in range(n)],
                         [onnx.numpy_helper.from_array(w, f"w{i}") for i, w in enumerate(self.w)])
        path = self.tmp / "m.onnx"
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)]), path)
        return path

    def sched(self, options="", more=""):
        return self.profile(f"plugins:\n  - name: sched-packed\n    options: {{{options}}}\n  - host\n{more}")

    def test_formats(self):
        j = self.json("plugins", "--formats", "--profile", "host", env=self.plugins)
        formats = {(p["name"], f["name"]): f for p in j["plugins"] for f in p["formats"]}
        f = formats["sched-packed", "rows32s"]
        self.assertTrue(f["reads_statistics"])
        self.assertEqual((f["bits"], f["group"], f["bits_per_weight"]), (32, 1, 32))
        for f in formats.values():
            self.assertIn("numerics", f)
            self.assertGreater(f["bits_per_weight"], 0)
            self.assertIn(f["numerics"]["activation_scheme"], ("none", "absmax", "runsum", "static"))
        for how in ("text", "md", "csv"):
            out = self.ok("plugins", "--formats", "--profile", "host", "--format", how, env=self.plugins).stdout
            self.assertIn("rows32s", out)
            self.assertIn("statistics", out)
        rows = list(csv.reader(io.StringIO(out)))
        self.assertEqual({len(r) for r in rows}, {15})

    def test_widths_are_measured_once(self):
        """b2 is one format from its first start on, whatever the clock says later; profiles of every format open."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        env, cache = dict(self.plugins, TENON_PROFILE_PATH=str(SOURCE / "configs")), self.tmp / "cache"

        def chosen():
            j = self.json("plugins", "--profile", "cpu-avx2-b2", "--cache-dir", cache, env=env)
            driver = next(p for p in j["plugins"] if p["name"] == "cpu-avx2-lut")["devices"][0]["driver"]
            return re.search(r"b2 is (w2g|lut2) \(ps per weight.*w2g [\d.]+ [\d.]+, lut2 [\d.]+ [\d.]+\)", driver)

        first = chosen()
        self.assertEqual(chosen().group(0), first.group(0))
        packed = self.json("pack", self.model(), "--profile", "cpu-avx2-b2", "--cache-dir", cache, env=env)
        self.assertEqual({f for d in packed["devices"] for f in d["formats"]}, {first.group(1)})
        r = self.tenon("plugins", "--profile", "cpu-avx2-b2", "--cache-dir", "", env=env)
        self.assertIn("name the format", r.stderr)
        for profile in sorted((SOURCE / "configs").glob("cpu-avx2*.yaml")):
            with self.subTest(profile=profile.stem):
                self.ok("plugins", "--profile", profile.stem, "--cache-dir", cache, env=env)

    def test_report_against_numpy(self):
        """w4g of one matrix: its errors by numpy from the unpacked product with one-hot rows."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        np = self.module("numpy")
        path = self.model()
        for group in (32, 128):
            j = self.json("pack", path, "--weights", f"w4g:{group}", "--report", "--profile", "host", env=self.plugins)
            self.assertEqual((j["format"], j["params"], j["refused"]), ("w4g", [group], 0))
            t = j["tensors"][0]
            self.assertEqual((t["name"], t["N"], t["K"], t["within_bound"]), ("w0", 96, 256, True))
            # the host computing with unpack(pack(W)) on one-hot rows gives the weights back, up to 8-bit activations
            p = self.profile(f"plugins:\n  - name: cpu-avx2-lut\n    options: {{group: {group}}}\n  - host\n")
            np.save(self.tmp / "x.npy", np.eye(256, dtype=np.float32))
            self.ok("infer", path, "--in", f"x={self.tmp}/x.npy", "--out", self.tmp / "o", "--profile", p)
            u = np.load(self.tmp / "o" / "y0.npy").T.astype(np.float64)
            w = self.w[0].T.astype(np.float64)
            e = np.abs(w - u)
            top = np.abs(w).reshape(96, -1, group).max(2).repeat(group, 1)
            self.assertAlmostEqual(t["max_of_group"], (e / top).max(), delta=1e-5)
            self.assertAlmostEqual(t["rms"], np.sqrt((e ** 2).sum() / (w ** 2).sum()), delta=1e-5)
            self.assertAlmostEqual(t["mean_abs"], e.mean(), delta=1e-5)
            self.assertAlmostEqual(t["mean_abs_of_weights"], e.sum() / np.abs(w).sum(), delta=1e-5)
            self.assertEqual(j["total"]["worst"], "w0")
            self.assertAlmostEqual(j["total"]["bits_per_weight"], 4 + 16 / group, delta=0.2)

    def test_report_of_what_is_packed(self):
        if not common.has_avx2():
            self.skipTest("no AVX2")
        j = self.json("pack", DEMO, "--report", "--profile", "cpu-avx2")
        self.assertEqual([d["device"] for d in j["devices"]], ["cpu-avx2-lut"])
        self.assertEqual(len(j["tensors"]), j["devices"][0]["matrices"])
        self.assertEqual(j["total"]["outside_bound"], 0)
        self.assertEqual(j["devices"][0]["packed"], 25)
        self.assertEqual(max(t["max_of_group"] for t in j["tensors"]), j["total"]["max_of_group"])
        again = self.json("pack", DEMO, "--profile", "cpu-avx2")
        self.assertEqual((again["devices"][0]["packed"], again["devices"][0]["mapped"]), (0, 25))
        self.assertNotIn("tensors", again)
        for how in ("md", "csv", "text"):
            self.assertIn("w4g:32", self.ok("pack", DEMO, "--report", "--format", how, "--profile", "cpu-avx2").stdout)

    def test_bad_command_lines(self):
        path = self.model()
        for args, says in ((["--weights", "w4g"], "goes with --report"),
                           (["--weights", "w4g:x", "--report"], "NAME:NUMBER"),
                           (["--format", "w4g:32", "--report"], "text, md, csv or json")):
            self.fails(2, says, args=["pack", path, *args])
        self.fails(3, "states a weight format 'nope'", args=["pack", path, "--weights", "nope", "--report", "--profile",
                                                             "host"])
        self.fails(3, "packs none of 1 matrices with 2 params",
                   args=["pack", path, "--weights", "rows32:1,2", "--report", "--profile", "host"], env=self.plugins)

    def test_offline(self):
        path, p = self.model(), self.sched("offline: true")
        common_args = ["--profile", p]
        r = self.ok("check", path, *common_args, env=self.plugins)
        self.assertIn("is offline", r.stderr)
        self.assertIn("1 matrix products with constant weights, 0 fell back", r.stderr)
        self.assertEqual(self.json("check", path, *common_args, env=self.plugins)["offline"], ["sched-packed"])
        self.ok("inspect", path, *common_args, env=self.plugins)
        j = self.json("pack", path, *common_args, "--report", env=self.plugins)
        self.assertTrue(j["devices"][0]["offline"])
        self.assertEqual(j["total"]["max_of_group"], 0)
        self.assertIn("cannot run", self.ok("plugins", *common_args, env=self.plugins).stdout)
        np = self.module("numpy")
        np.save(self.tmp / "x.npy", np.zeros((1, 256), np.float32))
        infer = ["infer", path, "--in", f"x={self.tmp}/x.npy", "--out", self.tmp / "o", *common_args]
        self.fails(4, "'test packer' of plugin 'sched-packed' is offline", args=infer, env=self.plugins)
        r = self.fails(4, args=[*infer, "--format", "json"], env=self.plugins)
        self.assertEqual(json.loads(r.stdout)["error"]["code"], "UNSUPPORTED")

    def test_on_disk(self):
        """What is read from the disk is stated, and not counted as resident; results are those of memory."""
        path, results, np = self.model(), [], self.module("numpy")
        np.save(self.tmp / "x.npy", np.random.default_rng(1).standard_normal((3, 256)).astype(np.float32))
        stated = {}
        for residency in ("host", "disk"):
            p = self.sched(f"residency: {residency}")
            stated[residency] = self.json("inspect", path, "--profile", p, env=self.plugins)["memory"]
            self.ok("infer", path, "--in", f"x={self.tmp}/x.npy", "--out", self.tmp / residency, "--profile", p,
                    env=self.plugins)
            results.append(np.load(self.tmp / residency / "y0.npy"))
        self.assertTrue((results[0] == results[1]).all())
        self.assertEqual(stated["host"]["on_disk_bytes"], 0)
        self.assertEqual(stated["disk"]["on_disk_bytes"], stated["disk"]["packed_bytes"])
        self.assertEqual(stated["disk"]["packed_bytes"], 64 + 256 * 96 * 4)

    def test_phases(self):
        path = self.model()
        p = self.sched("", "phases: {prefill: [sched-packed], decode: [host]}\n")
        j = self.json("check", path, "--profile", p, env=self.plugins)
        self.assertEqual((j["phase"], j["placement"], j["fell_back"]), ("prefill", {"sched-packed": 1}, 0))
        self.assertEqual((j["decode"]["placement"], j["decode"]["fell_back"]), ({"host": 1}, 0))
        for how, cell in (("text", "sched-packed  host"), ("md", "| sched-packed | host | rows32 |"),
                          ("csv", "sched-packed,host,rows32")):
            r = self.ok("check", path, "--profile", p, "--format", how, env=self.plugins)
            self.assertIn(cell, r.stdout)
            self.assertIn("prefill: sched-packed 1 nodes; 1 matrix products", r.stderr)
            self.assertIn("decode: host 1 nodes", r.stderr)
        p = self.sched("needs_stats: true")
        r = self.ok("check", path, "--profile", p, env=self.plugins)
        self.assertIn("1 fell back to the host", r.stderr)
        self.assertIn("its activation has no statistics", r.stdout)

    def catches(self, child, number):
        """Waits until a process has a handler for a signal: a busy machine takes its time to start one."""
        until = time.monotonic() + 60
        while time.monotonic() < until and child.poll() is None:
            caught = re.search(r"SigCgt:\s*(\w+)", pathlib.Path(f"/proc/{child.pid}/status").read_text())
            if caught and int(caught[1], 16) >> (number - 1) & 1:
                return
            time.sleep(0.05)
        self.fail("no handler")

    def test_interrupted(self):
        """Ctrl-C while a matrix is packed: 130, no file, no half of one."""
        path, p = self.model(n=4), self.sched("slow: true")
        for command in (["pack", path], ["pack", path, "--weights", "rows32", "--report"]):
            env = dict(os.environ, TENON_CACHE_DIR=str(self.cache), TENON_PROFILE_PATH=str(SOURCE / "configs"),
                       **self.plugins)
            child = subprocess.Popen([TENON, *map(str, command), "--profile", str(p)], env=env, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, text=True)
            self.catches(child, signal.SIGINT)
            time.sleep(1)
            child.send_signal(signal.SIGINT)
            start = time.monotonic()
            _, err = child.communicate(timeout=100)
            self.assertEqual(child.returncode, 130, err)
            self.assertLess(time.monotonic() - start, 8)
            # plugins/: what is remembered of loading them
            left = [f.name for f in self.cache.iterdir()] if self.cache.exists() else []
            self.assertEqual([f for f in left if not f.endswith(".lock") and f != "plugins"], [])


if __name__ == "__main__":
    common.main()
