# SPDX-License-Identifier: Apache-2.0
"""The OpenCL plugins on devices that the layer (tests/cl-layer) plays, counted by the layer, not by Tenon.

Environment, beside that of tests/cli: OCL_ICD_VENDORS (a driver), OPENCL_LAYERS (the layer), CL_PLUGIN (opencl-mali or
opencl-adreno), CL_AS (the layer's device, "as=mali").
"""
import json
import os
import pathlib
import re
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.environ["TENON_TEST_SOURCE"], "tests", "cli"))
from common import BUILD, DATA, DEMO, Case  # noqa: E402

PLUGIN = os.environ["CL_PLUGIN"]
AS = os.environ["CL_AS"]
MALI = PLUGIN == "opencl-mali"
STORIES = DATA / "lm" / "stories260k-onnx"
FOLDERS = ":".join(str(BUILD / "plugins" / p) for p in (PLUGIN, "cpu-avx2-lut"))


def counters(path):
    return {name: int(value) for name, value in (line.split() for line in path.read_text().splitlines())}


SHARED = tempfile.TemporaryDirectory()


class Device(Case):
    """Kernels are built once for all tests, but for those that say cold()."""

    def setUp(self):
        super().setUp()
        self.cache = pathlib.Path(SHARED.name) / "cache"

    def cold(self):
        self.cache = pathlib.Path(tempfile.mkdtemp(dir=self.tmp))

    def env(self, words="", **more):
        self.report = self.tmp / "report"
        self.report.unlink(missing_ok=True)
        e = {"TENON_CL_LAYER": f"{AS} {words} report={self.report} log={self.tmp / 'log'}",
             "TENON_PLUGIN_PATH": FOLDERS}
        e.update(more)
        return e

    def write(self, n, model=DEMO, words="", profile=PLUGIN, prompt="In the beginning"):
        """n token ids behind the prompt, and the layer's counters."""
        r = self.ok("run", model, "-p", prompt, "-n", n, "--temp", 0, "--ignore-eos", "--ids", "--profile", profile,
                    "--log-level", "debug", env=self.env(words))
        self.assertIn("(layer)", r.stderr, "this did not run on the layer's device")
        self.assertIn(f"placement: {PLUGIN}", r.stderr)
        return r.stdout.split(), counters(self.report), r.stderr

    def models(self):
        return [DEMO] + ([STORIES] if STORIES.exists() else [])


class Counts(Device):
    def test_steps(self):
        """What more tokens cost: nothing created, one submission, one read-back, the plugin's flushes."""
        for model in self.models():
            self.write(2, model)  # fills the caches
            few, many = self.write(8, model)[1], self.write(40, model)[1]
            more = {k: many[k] - few[k] for k in many}
            for k in ("objects", "programs", "kernels", "args_set", "fills", "copies", "source_builds"):
                self.assertEqual(more[k], 0, f"{model.name}: {k}")
            steps = 32
            per_step = more["kernels_run"] // steps
            self.assertEqual(more["kernels_run"], steps * per_step)
            self.assertGreaterEqual(per_step, 10)
            self.assertEqual(more["reads"], steps, f"{model.name}: read-backs")
            flushes = -(-per_step // 24) if MALI else 1
            self.assertEqual(more["flushes"], steps * flushes, f"{model.name}: flushes")
            if MALI:
                self.assertLessEqual(many["longest_batch"], 24)
            self.assertEqual(self.submissions(per_step), steps, f"{model.name}: submissions")

    def submissions(self, kernels):
        """Waits of the host that had all kernels of a step behind them, in the last 32 steps."""
        last, n = None, 0
        for line in (self.tmp / "log").read_text().splitlines():
            words = line.split()
            run = int(words[words.index("kernels_run") + 1])
            if last is not None and run != last:
                self.assertEqual(run - last, kernels if n else run - last)
                n += run - last == kernels
            last = run
        return min(n, 32)

    def test_second_start(self):
        self.cold()
        first, second = self.write(4)[1], self.write(4)[1]
        self.assertGreater(first["source_builds"], 5)
        self.assertEqual(second["source_builds"], 0)
        self.assertEqual(second["binary_builds"], first["source_builds"])

    def test_weights_are_not_copied(self):
        """Packed weights are taken over as they lie. What the model's file holds raw is not aligned there: the table of
        embeddings is written once; the rest is small."""
        self.write(4)
        _, c, _ = self.write(4)  # without self-tests
        config = json.loads((DEMO / "config.json").read_text())
        table = 4 * config["vocab_size"] * config["hidden_size"]
        self.assertGreater(c["bytes_imported"], 2 << 20)
        self.assertEqual((c["bytes_shadow"], c["bytes_between"]), (0, 0))
        self.assertLess(c["bytes_in"] + c["bytes_map_write"] - table, 128 << 10)

    def test_priority(self):
        _, c, err = self.write(2)
        self.assertEqual((c["priority_hints"], c["priority_errors"]), (1, 0))
        self.assertIn("low priority", err)
        _, c, err = self.write(2, words="hide=priority")
        self.assertEqual((c["priority_hints"], c["priority_errors"]), (0, 0))
        self.assertNotIn("low priority", err)


class Same(Device):
    """The same ids as on the plain device, whatever the device does to memory, callbacks and features."""

    def check(self, words, at_least=(), models=None):
        for model in models or self.models():
            want, _, _ = self.write(24, model)
            got, c, _ = self.write(24, model, words)
            self.assertEqual(got, want, f"{model.name} with {words}")
            for k in at_least:
                self.assertGreater(c[k], 0, k)

    def test_discrete(self):
        self.check("discrete", ["bytes_shadow"])

    def test_callbacks(self):
        self.check("callback=slow", models=[DEMO])

    def test_alignment(self):
        self.check("align=4096", models=[DEMO])


    def test_slice_of_five_dims(self):
        """Kernels know four dims: one with more is the host's."""
        np, onnx = self.module("numpy"), self.module("onnx")
        h, out = onnx.helper, self.tmp / "out"
        numbers = [onnx.numpy_helper.from_array(np.array(v), n)
                   for n, v in (("from", [2]), ("to", [6]), ("axis", [-1]), ("shape", [2, 2, 2, 8]))]
        nodes = [h.make_node("Slice", ["x", "from", "to", "axis"], ["part"]), h.make_node("Reshape", ["part", "shape"], ["z"]),
                 h.make_node("Mul", ["z", "z"], ["y"])]
        g = h.make_graph(nodes, "g", [h.make_tensor_value_info("x", 1, [2, 2, 2, 2, 6])],
                         [h.make_tensor_value_info("y", 1, [2, 2, 2, 8])], numbers)
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 18)], ir_version=8), self.tmp / "slice.onnx")
        x = np.arange(96, dtype=np.float32).reshape(2, 2, 2, 2, 6)
        np.save(self.tmp / "x.npy", x)
        self.ok("infer", self.tmp / "slice.onnx", "--in", f"x={self.tmp / 'x.npy'}", "--out", out, "--profile", PLUGIN, env=self.env())
        self.assertEqual(np.load(out / "y.npy").tolist(), (x[..., 2:].reshape(2, 2, 2, 8) ** 2).tolist())


class Shared(Device):
    """Caches that are half, as all agreed, where attention is not in the piece of the graph that appends to them."""

    def test_appended_elsewhere(self):
        m = self.need(DATA / "onnx/exports/genai-llama-int4")
        np, told = self.module("numpy"), []
        past = {f"past_key_values.{i}.{w}": np.zeros((1, 2, 0, 16), np.float32) for i in range(2) for w in ("key", "value")}
        ids = np.array([[1, 2, 3, 4]])
        for name, v in {"input_ids": ids, "attention_mask": np.ones_like(ids), **past}.items():
            np.save(self.tmp / f"{name}.npy", v)
            told += ["--in", f"{name}={self.tmp / name}.npy"]
        nodes = self.json("check", m, "--profile", PLUGIN, env=self.env())["nodes"]
        where = [x["device"] for x in nodes if x["op"] in ("TensorScatter", "Attention")]
        self.assertEqual(where, [PLUGIN] * 6)
        self.assertIn("host", [x["device"] for x in nodes])
        for words in ("", "discrete"):
            self.ok("infer", m, *told, "--out", self.tmp / "out", "--profile", PLUGIN, env=self.env(words))
            self.assertTrue(np.isfinite(np.load(self.tmp / "out/logits.npy")).all())
        self.ok("verify", m, "--data", m, "--against", "reference", "--profile", PLUGIN, env=self.env())


class Less(Device):
    """What a device lacks ends in another kernel: nothing falls back."""

    def check(self, words):
        _, _, err = self.write(8, words=words)
        self.assertNotIn("host", err.split("placement:")[1].splitlines()[0])

    def test_table_larger_than_an_allocation(self):
        """The host looks its rows up; all else stays on the device."""
        env = self.env(f"max_alloc={4 * 4096 * 256 - 1}")
        r = self.ok("check", DEMO, "--profile", PLUGIN, "--format", "json", env=env)
        self.assertEqual({n["op"] for n in json.loads(r.stdout)["nodes"] if n["device"] == "host"}, {"Gather"})
        self.assertIn("a constant is larger than the device allocates at once", r.stdout)
        self.ok("run", DEMO, "-p", "In the beginning", "-n", 2, "-c", 128, "--profile", PLUGIN, env=env)

    def test_no_images(self):
        self.check("hide=images")

    def test_no_subgroups(self):
        self.check("hide=subgroups")

    def test_small_groups(self):
        self.check("max_group=64")

    def test_storage_halves(self):
        self.check("hide=fp16")

    def test_all_of_it(self):
        self.check("hide=fp16,images,subgroups,priority max_group=64")


class Broken(Device):
    """A device that fails is unavailable, or code 5 with the cause; the default profile runs all the same."""

    def default_runs(self, words="", **more):
        r = self.ok("run", DEMO, "-p", "In the beginning", "-n", 4, "--temp", 0, env=self.env(words, **more))
        self.assertTrue(r.stdout.strip())

    def lost(self, words, *say):
        r = self.tenon("run", DEMO, "-p", "In the beginning", "-n", 8, "--temp", 0, "--profile", PLUGIN,
                       env=self.env(words))
        self.assertEqual(r.returncode, 5, f"{words}\n{r.stdout}\n{r.stderr}")
        for w in say:
            self.assertIn(w, r.stderr)
        return r

    def test_no_library(self):
        path = self.profile(f"plugins: [{{name: {PLUGIN}, options: {{libraries: libNoSuchDriver.so}}}}, host]\n"
                            f"require: [{PLUGIN}]\n")
        r = self.tenon("run", DEMO, "-p", "In", "-n", 2, "--profile", path, env=self.env())
        self.assertEqual(r.returncode, 5, r.stderr)
        self.assertIn("libNoSuchDriver.so", r.stderr)
        optional = self.profile(f"plugins: [{{name: {PLUGIN}, optional: true, options: {{libraries: libNoSuchDriver.so}}}},"
                                " host]\n", "optional.yaml")
        self.ok("run", DEMO, "-p", "In", "-n", 2, "--profile", optional, env=self.env())
        r = self.ok("plugins", "--profile", optional, env=self.env())
        self.assertIn("libNoSuchDriver.so", r.stdout + r.stderr)  # listed, with the reason
        self.default_runs()

    def test_no_device(self):
        self.lost("no_devices", PLUGIN, "no OpenCL device")
        self.default_runs("no_devices")

    def test_no_platform(self):
        empty = self.tmp / "icd"
        empty.mkdir()
        r = self.tenon("run", DEMO, "-p", "In", "-n", 2, "--profile", PLUGIN, env=self.env(OCL_ICD_VENDORS=str(empty)))
        self.assertEqual(r.returncode, 5, r.stderr)
        self.assertIn("platform", r.stderr)
        self.default_runs(OCL_ICD_VENDORS=str(empty))

    def test_allocations(self):
        self.write(2)  # builds, so that the failing starts are short
        total = self.write(8)[1]["objects"]
        words = f"fail_alloc={total // 2}"  # every n: faults.c
        r = self.tenon("run", DEMO, "-p", "In the beginning", "-n", 8, "--temp", 0, "--profile", PLUGIN,
                       env=self.env(words))
        self.assertIn(r.returncode, (0, 5), f"{words}\n{r.stderr}")
        self.assertNotIn("never freed", r.stderr)
        self.lost("fail_alloc_from=1", PLUGIN)
        self.default_runs("fail_alloc_from=1")

    def test_builds(self):
        """One kernel that does not build: another takes its place, and the failed build is not tried again."""
        self.cold()
        name = "mali_gemm" if MALI else "adreno_gemm"
        _, c, err = self.write(4, words=f"fail_build={name}")
        self.assertGreater(c["builds_failed"], 0)
        self.assertIn(name, err)
        _, c, err = self.write(4, words=f"fail_build={name}")
        self.assertEqual((c["builds_failed"], c["source_builds"]), (0, 0))
        self.assertIn(name, err)

    def test_no_build_works(self):
        self.cold()
        r = self.tenon("run", DEMO, "-p", "In", "-n", 2, "--profile", PLUGIN, env=self.env("fail_build=kernel"))
        self.assertEqual(r.returncode, 4, r.stderr)  # `require`: the products would fall back
        self.assertIn("layer: this build is to fail", r.stderr)
        self.default_runs("fail_build=kernel")

    def test_miscompiled(self):
        """A driver that makes something else of a kernel: another kernel, or a refusal with the reason."""
        want = self.write(8)[0]
        self.cold()
        got, _, err = self.write(8, words="wrong_optimized=ew")
        self.assertEqual(got, want)
        self.assertIn("kernel ew: self-test: wrong results", err)
        got, c, err = self.write(8, words="wrong_optimized=ew")  # and is not asked again
        self.assertEqual((got, c["source_builds"]), (want, 0))
        self.cold()
        r = self.lost("wrong=ew", "no element-wise kernel works", "self-test: wrong results")
        self.assertNotIn("never freed", r.stderr)
        self.default_runs("wrong=ew")
        self.cold()
        own = "mali_" if MALI else "adreno_"
        _, _, err = self.write(8, words=f"wrong={own}")
        self.assertRegex(err, re.compile(f"kernel {own}.*: self-test: wrong results"))

    def test_crash_in_a_build(self):
        """The process dies in the driver's compiler; the next start leaves that kernel out."""
        self.cold()
        name = "mali_norm" if MALI else "adreno_gemm"
        r = self.tenon("run", DEMO, "-p", "In the beginning", "-n", 4, "--temp", 0, "--profile", PLUGIN,
                       env=self.env(f"crash_build={name}"))
        self.assertLess(r.returncode, 0, r.stderr)
        for _ in range(6):  # one program each time
            r = self.tenon("run", DEMO, "-p", "In the beginning", "-n", 4, "--temp", 0, "--profile", PLUGIN,
                           env=self.env(f"crash_build={name}"))
            if r.returncode == 0:
                break
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertIn("crashed when it was built", r.stderr)

    def test_lost(self):
        self.write(8)
        run = self.write(8)[1]["kernels_run"]
        self.is_lost(f"lose={run // 3} lost=late")  # many n: faults.c
        self.is_lost(f"lose_event={run - 2} lost=late")
        self.is_lost(f"lose={run // 2}")  # work in flight is finished
        self.default_runs("lose=1 lost=late")

    def is_lost(self, words):
        r = self.lost(words)
        self.assertRegex(r.stderr, re.compile(f"{PLUGIN}|lost|OUT_OF_RESOURCES"), words)


if __name__ == "__main__":
    unittest.main(verbosity=2)
