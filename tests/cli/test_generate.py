# SPDX-License-Identifier: Apache-2.0
"""Text comes out: the goldens' ids on the host, plugin work under `require`, options, errors."""
import json
import shutil
import unittest

from common import DATA, DEMO, Case, has_avx2, main

REQUIRE = """plugins:
  - name: cpu-avx2-lut
  - name: host
    options: {no_matmul: true}
require: [cpu-avx2-lut]
"""


class Golden(Case):
    def test_demo_greedy_ids(self):
        for case in json.loads((DEMO / "golden.json").read_text())["cases"]:
            got = self.ids(DEMO, "--profile", "host", "-p", case["prompt"], "-n", len(case["greedy_ids"]), "--temp", 0)
            self.assertEqual(got, case["prompt_ids"] + case["greedy_ids"])

    def test_stories_201_ids(self):
        numpy = self.module("numpy")
        golden = numpy.load(self.need(DATA / "lm/stories260k/golden.npz"))["greedy_from_bos"].tolist()
        got = self.ids(DATA / "lm/stories260k-onnx", "--profile", "host", "-p", "", "-n", 200, "--temp", 0)
        self.assertEqual(got, golden)


class Default(Case):
    def test_writes_64_tokens_and_placement(self):
        r = self.ok("run", DEMO, "-p", "In the beginning", "-n", 64, "--temp", 0)
        self.assertGreater(len(r.stdout.split()), 30)
        self.assertIn("decode: 64 tokens", r.stderr)
        self.assertIn("placement:", r.stderr)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_require_without_the_hosts_products(self):
        p = self.profile(REQUIRE)
        r = self.ok("run", DEMO, "--profile", p, "-p", "In the beginning", "-n", 16, "--temp", 0)
        plain = self.ok("run", DEMO, "-p", "In the beginning", "-n", 16, "--temp", 0)
        self.assertEqual(r.stdout, plain.stdout)
        nodes = self.json("check", DEMO, "--profile", p)["nodes"]
        products = [n for n in nodes if n["op"] in ("MatMul", "Gemm")]
        self.assertTrue(products)
        self.assertEqual({n["device"] for n in products}, {"cpu-avx2-lut"})

    def test_host_alone_needs_its_products(self):
        p = self.profile("plugins:\n  - name: host\n    options: {no_matmul: true}\n")
        self.fails(4, "MatMul", args=["run", DEMO, "--profile", p, "-p", "x", "-n", 1])

    def test_same_seed_same_text(self):
        args = [DEMO, "-p", "And", "-n", 24, "--temp", 0.9, "--top-k", 40, "--top-p", 0.9, "--seed"]
        one, again, other = self.ids(*args, 7), self.ids(*args, 7), self.ids(*args, 8)
        self.assertEqual(one, again)
        self.assertNotEqual(one, other)

    def test_truncation_and_padding_are_not_of_prompts(self):
        copy = self.tmp / "limits"
        shutil.copytree(DEMO, copy)
        path = copy / "tokenizer.json"
        tok = json.loads(path.read_text())
        tok["truncation"] = {"direction": "Right", "max_length": 3, "strategy": "LongestFirst", "stride": 0}
        tok["padding"] = {"strategy": {"Fixed": 20}, "direction": "Right", "pad_to_multiple_of": None, "pad_id": 0,
                          "pad_type_id": 0, "pad_token": "<pad>"}
        path.chmod(0o644)
        path.write_text(json.dumps(tok))
        args = ["-p", "In the beginning God created", "-n", 3, "--temp", 0]
        self.assertEqual(self.ids(copy, *args), self.ids(DEMO, *args))

    def test_stop_string_is_not_printed(self):
        full = self.ok("run", DEMO, "-p", "In the beginning", "-n", 32, "--temp", 0).stdout
        word = full.split()[5]
        cut = self.ok("run", DEMO, "-p", "In the beginning", "-n", 32, "--temp", 0, "--stop", word).stdout
        self.assertEqual(cut.rstrip("\n"), full[:full.index(word)].rstrip("\n"))

    def test_prompt_from_standard_input(self):
        a = self.ok("run", DEMO, "-f", "-", "-n", 8, "--temp", 0, stdin="Prince Andrew").stdout
        self.assertEqual(a, self.ok("run", DEMO, "-p", "Prince Andrew", "-n", 8, "--temp", 0).stdout)

    def test_prompt_of_ids(self):
        case = json.loads((DEMO / "golden.json").read_text())["cases"][0]
        given = ",".join(map(str, case["prompt_ids"]))
        text = self.ok("run", DEMO, "-p", case["prompt"], "-n", 8, "--temp", 0).stdout
        self.assertEqual(text, self.ok("run", DEMO, "--prompt-ids", given, "-n", 8, "--temp", 0).stdout)
        got = self.ids(DEMO, "--profile", "host", "--prompt-ids", given, "-n", 8, "--temp", 0)
        self.assertEqual(got, case["prompt_ids"] + case["greedy_ids"][:8])
        self.ok("trace", DEMO, "--prompt-ids", given, "-n", 2, "--summary")
        for bad in ("", "5,", "5,,6", "5 6", "-1", "x", "99999999999"):
            self.fails(2, "--prompt-ids takes token ids", args=["run", DEMO, "--prompt-ids", bad])
        self.fails(2, "exclude each other", args=["run", DEMO, "--prompt-ids", "5", "-p", "x"])
        self.fails(3, "id 4096 at 1 is outside the vocabulary", args=["run", DEMO, "--prompt-ids", "5,4096"])
        alone = self.tmp / "alone"
        alone.mkdir()
        (alone / "model.onnx").symlink_to(DEMO / "model.onnx")
        self.fails(3, "add --ids to print token ids", args=["run", alone, "--prompt-ids", "5"])
        self.assertEqual(self.ids(alone, "--profile", "host", "--prompt-ids", given, "-n", 8, "--temp", 0), got)

    def test_where_the_weights_go(self):
        j = self.json("inspect", DEMO, "--profile", "host")
        self.assertTrue(j["caches_kept"])
        self.assertNotIn("caches_reason", j)
        macs = self.json("check", DEMO, "--profile", "host")["weight_macs"]
        layer = 256 * 256 * 2 + 256 * 128 * 2 + 3 * 256 * 704
        self.assertEqual(macs, {"host": 6 * layer + 256 * 4096})

    def test_phases(self):
        p = self.profile("plugins: [host]\nphases: {prefill: [host], decode: [host]}\n")
        case = json.loads((DEMO / "golden.json").read_text())["cases"][0]
        got = self.ids(DEMO, "--profile", p, "-p", case["prompt"], "-n", 8, "--temp", 0)
        self.assertEqual(got, case["prompt_ids"] + case["greedy_ids"][:8])

    def test_trace_opens_as_json(self):
        out = self.tmp / "t.json"
        self.ok("trace", DEMO, "-p", "In the", "-n", 3, "--temp", 0, "-o", out)
        events = json.loads(out.read_text())["traceEvents"]
        steps = {e["args"]["step"] for e in events if e["ph"] == "X"}
        self.assertEqual(len(steps), 3)
        self.assertTrue(all(e["dur"] >= 0 for e in events if e["ph"] == "X"))


class Errors(Case):
    def test_prompt_longer_than_context(self):
        f = self.tmp / "long.txt"
        f.write_text("the king of the north " * 2000)
        self.fails(3, "context", "2048", args=["run", DEMO, "-f", f, "-n", 1])

    def test_profile_limits_the_context(self):
        p = self.profile("plugins: [host]\nmax_seq: 8\n")
        self.fails(3, "context", "8", args=["run", DEMO, "--profile", p, "-p", "one two three four five six seven eight", "-n", 1])
        self.assertLessEqual(len(self.ids(DEMO, "--profile", p, "-p", "And the", "-n", 64, "--temp", 0)), 8)

    def test_usage(self):
        self.fails(2, "MODEL", args=["run", "-p", "x"])
        self.fails(2, "prompt", args=["run", DEMO])
        self.fails(2, "--nonsense", args=["run", DEMO, "--nonsense"])
        self.fails(3, "no-such-folder", args=["run", "no-such-folder", "-p", "x"])

    def test_error_as_json(self):
        r = self.fails(3, args=["run", "no-such-folder", "-p", "x", "--format", "json"])
        self.assertIn("no-such-folder", json.loads(r.stdout)["error"]["message"])

    def test_help_of_every_command(self):
        for c in ("run", "infer", "verify", "check", "inspect", "plugins", "eval", "trace", "pack", "calibrate", "embed", "classify",
                  "conform", "bundle", "bench"):
            told = self.ok(c, "--help").stdout
            self.assertTrue(told.startswith(f"Usage: tenon {c} "), told)
            self.assertIn("--profile", told)


if __name__ == "__main__":
    main()
