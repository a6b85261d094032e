# SPDX-License-Identifier: Apache-2.0
"""Goldens of real exports, the format reference, perplexity."""
import json
import os
import unittest

from common import DATA, DEMO, SOURCE, Case, has_avx2, main

EXPORTS = ["llama", "qwen2", "gpt2", "phi3", "gemma"]
QUICK = os.environ.get("TENON_TEST_QUICK")  # sanitizer builds score four texts instead of all
LUT = "plugins:\n  - name: cpu-avx2-lut\n    options: {format: %s, min_k: 1, min_n: 1}\n  - host\n"
G128 = "plugins:\n  - name: cpu-avx2-lut\n    options: {group: 128}\nrequire: [cpu-avx2-lut]\n"


class Verify(Case):
    def test_exports_on_the_host(self):
        self.need(DATA / "onnx/exports")
        for name in EXPORTS:
            d = DATA / "onnx/exports" / name
            self.ok("verify", d / "model.onnx", "--data", d, "--profile", "host")
        d = DATA / "lm/cappgpt-onnx"
        self.ok("verify", d / "model.onnx", "--data", d, "--profile", "host")

    def test_a_wrong_golden_fails(self):
        d = self.need(DATA / "onnx/exports/llama")
        r = self.tenon("verify", d / "model.onnx", "--data", d, "--profile", "host", "--rtol", 0, "--atol", 0)
        self.assertEqual(r.returncode, 1)
        self.assertIn("FAILED", r.stdout)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_exports_against_the_reference(self):
        self.need(DATA / "onnx/exports")
        for name in EXPORTS:
            d = DATA / "onnx/exports" / name
            j = self.json("verify", d / "model.onnx", "--data", d, "--against", "reference")
            self.assertGreater(len(j["tasks"]), 4)
            self.assertEqual(j["failed"], 0)

    def test_one_by_one(self):
        """Positions computed one by one: on the host the same sums in the same order, on a device near its reference."""
        texts = self.tmp / "t.json"
        texts.write_text(json.dumps([json.loads((SOURCE / "models/train/valid.json").read_text())[3]]))
        n, last = (40, 20) if QUICK else (300, 200)
        args = ("eval", DEMO, "--text", texts, "--max-tokens", n)
        at_once = self.json(*args, "--profile", "host")
        for k in (1, last, n):
            self.assertEqual(self.json(*args, "--decode", k, "--profile", "host")["mean_nll"], at_once["mean_nll"], k)
        self.fails(2, "--decode takes a whole number, 0 or more", args=[*args, "--decode", "-1"])
        if not has_avx2():
            return
        got = self.json(*args, "--decode", last, "--against", "reference", "--profile", "cpu-avx2")
        self.assertEqual(got["tokens"], at_once["tokens"])
        self.assertLess(abs(got["mean_nll"] / got["other_mean_nll"] - 1), 0.002)
        self.assertGreater(got["largest_logit_difference"], 0)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_bit_serial_weights_against_the_reference(self):
        self.need(DATA / "onnx/exports")
        for name in EXPORTS:
            d = DATA / "onnx/exports" / name
            for planes in ("lut1", "lut2", "lut3", "lut4", "lutt"):
                j = self.json("verify", d / "model.onnx", "--data", d, "--against", "reference", "--profile",
                              self.profile(LUT % planes))
                self.assertGreater(len(j["tasks"]), 4)
                self.assertEqual(j["failed"], 0, f"{name} {planes}")

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_fast_aggregation(self):
        """Off, on, on with scalar kernels, on in a process of its own: one packed file, each within what it declares."""
        d = self.need(DATA / "onnx/exports") / "llama"
        texts = self.tmp / "t.json"
        texts.write_text(json.dumps([json.loads((SOURCE / "models/train/valid.json").read_text())[0][:200]]))
        on = ", fast_aggregation: true"
        for planes in ("lut1", "lut2", "lut3", "lut4", "lutt"):
            packed, nll = None, []
            for options, more in (("", ""), (on, ""), (on + ", isa: scalar", ""), (on, "isolation: process\n")):
                p = self.profile(LUT % (planes + options) + more)
                j = self.json("verify", d / "model.onnx", "--data", d, "--against", "reference", "--profile", p)
                self.assertEqual(j["failed"], 0, f"{planes}{options} {more}")
                files = {f.name: f.read_bytes() for f in self.cache.glob("llama*.tnpack")}
                self.assertEqual(len(files), 1)
                self.assertTrue(packed in (None, files), f"{planes}{options} {more}")
                packed = files
                nll.append(self.json("eval", DEMO, "--text", texts, "--decode", 20, "--profile", p)["mean_nll"])
            self.assertNotEqual(nll[0], nll[1], planes)
            self.assertEqual(nll[1:], nll[1:2] * 3, planes)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_fast_aggregation_is_for_tables(self):
        for f in ("w4g", "w2g", "b2"):
            p = self.profile(LUT % f"{f}, fast_aggregation: true")
            self.fails(5, "fast_aggregation is for formats of tables", f"not '{f}'", args=["check", DEMO, "--profile", p])
        for on in ("false", "true"):
            j = self.json("plugins", "--profile", self.profile(LUT % f"lut2, fast_aggregation: {on}"))
            n = {f["name"]: f["numerics"] for f in j["plugins"][0]["formats"]}
            self.assertEqual(n["lut2"].get("average_error"), 0.5 if on == "true" else None)
            self.assertNotIn("average_error", n["w4g"])

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_formats_as_options_have_them(self):
        for how in ("group: 32", "group: 128", "group: 128, act_scales: row", "group: 32, act_scales: row"):
            j = self.json("plugins", "--profile", self.profile(f"plugins:\n  - {{name: cpu-avx2-lut, options: {{{how}}}}}\n  - host\n"))
            f = {f["name"]: f for p in j["plugins"] for f in p["formats"]}["w4g"]
            group, row = (128 if "128" in how else 32), "row" in how
            self.assertEqual(f["numerics"]["activation_group"], 0 if row else group, how)
            self.assertEqual(f["numerics"].get("accumulator_group"), group if row else None, how)
            self.assertAlmostEqual(f["bits_per_weight"], 4 + 16 / group, places=2)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_options_are_listed(self):
        p = self.profile("plugins:\n  - {name: cpu-avx2-lut}\n  - {name: host}\n")
        known = {}
        for isolated in (p, self.profile("plugins:\n  - {name: cpu-avx2-lut, isolation: process}\n  - {name: host}\n", "i.yaml")):
            j = self.json("plugins", "--options", "--profile", isolated)
            of = {o["key"]: o for o in next(q["options"] for q in j["plugins"] if q["name"] == "cpu-avx2-lut")}
            self.assertEqual((of["group"]["type"], of["group"]["default"], of["group"]["choices"]), ("int", "32", ["32", "128"]))
            self.assertEqual((of["min_k"]["least"], of["min_k"]["most"]), (1, 1048576))
            self.assertIn("same bits", of["isa"]["help"])
            self.assertEqual(of, known or of)
            known = of
        text = self.ok("plugins", "--options", "--profile", p).stdout
        for key, o in known.items():  # each by its line, with its help as it is in the table
            line = next(x for x in text.splitlines() if x.split()[:2] == ["cpu-avx2-lut", key])
            self.assertIn(o["default"], line)
            self.assertTrue(line.rstrip().endswith(o["help"].rstrip()), line)
        self.fails(2, "one of them", args=["plugins", "--options", "--formats"])

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_one_scale_for_a_row(self):
        """Each within what it declares, in one packed file; scalar kernels and a process of its own give the same."""
        d = self.need(DATA / "onnx/exports") / "llama"
        texts = self.tmp / "t.json"
        texts.write_text(json.dumps([json.loads((SOURCE / "models/train/valid.json").read_text())[0][:200]]))
        row = ", act_scales: row"
        for f in ("w4g", "lev4"):
            packed, nll = None, []
            for options, more in (("", ""), (row, ""), (row + ", isa: scalar", ""), (row, "isolation: process\n")):
                p = self.profile(LUT % (f + options) + more)
                j = self.json("verify", d / "model.onnx", "--data", d, "--against", "reference", "--profile", p)
                self.assertEqual(j["failed"], 0, f"{f}{options} {more}")
                files = {f.name: f.read_bytes() for f in self.cache.glob("llama*.tnpack")}
                self.assertTrue(packed in (None, files), f"{f}{options} {more}")
                packed = files
                nll.append(self.json("eval", DEMO, "--text", texts, "--decode", 20, "--profile", p)["mean_nll"])
            self.assertNotEqual(nll[0], nll[1], f)
            self.assertEqual(nll[1:], nll[1:2] * 3, f)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_eight_bits_for_tables(self):
        """Each within what it declares, in one packed file; a prompt at once and one by one, scalar kernels and
        those without dot products agree."""
        d = self.need(DATA / "onnx/exports") / "llama"
        texts = self.tmp / "t.json"
        texts.write_text(json.dumps([json.loads((SOURCE / "models/train/valid.json").read_text())[0][:200]]))
        eight = ", act_bits: 8"
        for planes, other in (("lut1", ", isa: scalar"), ("lut2", ", isa: avx2"), ("lutt", "")):
            packed, nll = None, []
            for options, more, decode in (("", "", [20]), (eight, "", [0, 20]), (eight + other, "", [0]),
                                          (eight, "isolation: process\n", [20])):
                p = self.profile(LUT % (planes + options) + more)
                j = self.json("verify", d / "model.onnx", "--data", d, "--against", "reference", "--profile", p)
                self.assertEqual(j["failed"], 0, f"{planes}{options} {more}")
                files = {f.name: f.read_bytes() for f in self.cache.glob("llama*.tnpack")}
                self.assertTrue(packed in (None, files), f"{planes}{options} {more}")
                packed = files
                nll += [self.json("eval", DEMO, "--text", texts, "--decode", n, "--profile", p)["mean_nll"] for n in decode]
            self.assertNotEqual(nll[0], nll[1], planes)
            self.assertEqual(nll[1:], nll[1:2] * 4, planes)
        on = self.profile(LUT % "lut2, act_bits: 8, fast_aggregation: true")
        j = self.json("verify", d / "model.onnx", "--data", d, "--against", "reference", "--profile", on)
        self.assertEqual(j["failed"], 0)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_eight_bits_are_for_tables(self):
        p = self.profile(LUT % "w2g, act_bits: 8")
        self.fails(5, "act_bits: 8 is for formats of tables", "not 'w2g'", args=["check", DEMO, "--profile", p])
        self.fails(3, "act_bits", args=["check", DEMO, "--profile", self.profile(LUT % "lut2, act_bits: 7")])
        for bits, want in ((9, ("int16", 253)), (8, ("int8", 127))):
            j = self.json("plugins", "--profile", self.profile(LUT % f"lut2, act_bits: {bits}"))
            n = {f["name"]: f["numerics"] for f in j["plugins"][0]["formats"]}["lut2"]
            self.assertEqual((n["activation"], n["activation_max"]), want)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_one_scale_for_a_row_is_declared(self):
        for f in ("lut2", "b2"):
            p = self.profile(LUT % f"{f}, act_scales: row")
            self.fails(5, "act_scales: row is for formats of dot products", f"not '{f}'", args=["check", DEMO, "--profile", p])
        self.fails(3, "act_scales", "group|row", args=["check", DEMO, "--profile", self.profile(LUT % "w4g, act_scales: rows")])
        for scales, want in (("group", (128, None)), ("row", (0, 128))):
            j = self.json("plugins", "--profile", self.profile(LUT % f"auto, act_scales: {scales}"))
            n = {f["name"]: f["numerics"] for f in j["plugins"][0]["formats"]}
            self.assertEqual((n["w8g"]["activation_group"], n["w8g"].get("accumulator_group")), want)
            self.assertEqual(n["lut2"]["activation_group"], 128)

    def test_check_names_every_device_and_reason(self):
        j = self.json("check", DEMO)
        self.assertTrue(all(n["device"] for n in j["nodes"]))
        self.assertEqual(sum(j["placement"].values()), len(j["nodes"]))
        if has_avx2():
            for n in j["nodes"]:
                if n["device"] == "host":
                    self.assertTrue(n["refusals"]["cpu-avx2-lut"]["text"], n["name"])


class Eval(Case):
    def stories(self):
        """The texts to score, and the golden's mean NLL of them."""
        numpy = self.module("numpy")
        texts = json.loads(self.need(DATA / "text/tinystories_30.json").read_text())
        n = 4 if QUICK else len(texts)
        f = self.tmp / "stories.json"
        f.write_text(json.dumps(texts[:n]))
        return f, float(numpy.load(DATA / "lm/stories260k/golden.npz")["story_nll"][:n].mean())

    @unittest.skipIf(QUICK, "too long for a sanitizer build")
    def test_demo_golden_nll(self):
        want = json.loads((DEMO / "golden.json").read_text())["valid"]
        got = self.json("eval", DEMO, "--text", SOURCE / "models/train/valid.json", "--max-tokens", 1024, "--profile", "host")
        self.assertEqual(got["tokens"], want["predicted_tokens"])
        self.assertAlmostEqual(got["mean_nll"], want["mean_nll"], delta=1e-4)

    def test_stories_golden_nll(self):
        texts, want = self.stories()
        got = self.json("eval", DATA / "lm/stories260k-onnx", "--text", texts, "--profile", "host")
        self.assertAlmostEqual(got["mean_nll_of_texts"], want, delta=1e-4)
        if not QUICK:
            golden = json.loads((DATA / "lm/stories260k/golden.json").read_text())
            self.assertEqual(got["tokens"], golden["tinystories30_tokens"])
            self.assertAlmostEqual(want, golden["tinystories30_nll_per_token_mean_of_stories"], delta=1e-9)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_device_is_its_reference(self):
        texts, _ = self.stories()
        for profile in ("cpu-avx2", self.profile(G128)):
            got = self.json("eval", DATA / "lm/stories260k-onnx", "--text", texts, "--against", "reference", "--profile",
                            profile)
            self.assertLess(abs(got["mean_nll"] / got["other_mean_nll"] - 1), 0.002)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_demo_is_its_reference(self):
        texts = self.tmp / "t.json"
        texts.write_text(json.dumps(json.loads((SOURCE / "models/train/valid.json").read_text())[:2]))
        got = self.json("eval", DEMO, "--text", texts, "--max-tokens", 64 if QUICK else 512, "--against", "reference",
                        "--profile", "cpu-avx2")
        self.assertLess(abs(got["mean_nll"] / got["other_mean_nll"] - 1), 0.002)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_bit_serial_weights_are_their_reference(self):
        """Short texts: near the reference, and each plane pays."""
        texts = self.tmp / "t.json"
        texts.write_text(json.dumps([t[:400] for t in json.loads((SOURCE / "models/train/valid.json").read_text())[:2]]))
        last = None
        for planes in (2, 3, 4):
            got = self.json("eval", DEMO, "--text", texts, "--against", "reference", "--profile", f"cpu-avx2-lut{planes}")
            self.assertLess(abs(got["mean_nll"] / got["other_mean_nll"] - 1), 0.002, planes)
            self.assertTrue(last is None or got["mean_nll"] < last, planes)
            last = got["mean_nll"]

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_quality_is_reported(self):
        texts, _ = self.stories()
        got = self.json("eval", DATA / "lm/stories260k-onnx", "--text", texts, "--against", "host")
        self.assertGreater(got["kl_divergence"], 0)
        self.assertNotEqual(got["mean_nll"], got["other_mean_nll"])


class Infer(Case):
    def test_round_trip_of_files(self):
        d = self.need(DATA / "onnx/exports/llama")
        ins = []
        for i, name in enumerate(["input_ids", "attention_mask", "position_ids", "past_key_values.0.key",
                                  "past_key_values.0.value", "past_key_values.1.key", "past_key_values.1.value"]):
            ins += ["--in", f"{name}={d}/test_data_set_1/input_{i}.pb"]
        self.ok("infer", d / "model.onnx", *ins, "--out", self.tmp / "out", "--profile", "host")
        numpy, onnx = self.module("numpy"), self.module("onnx")
        self.module("onnx.numpy_helper")
        want = onnx.numpy_helper.to_array(onnx.load_tensor(str(d / "test_data_set_1/output_0.pb")))
        got = numpy.load(self.tmp / "out/logits.npy")
        self.assertTrue(numpy.allclose(got, want, rtol=1e-3, atol=1e-4))
        numpy.save(self.tmp / "ids.npy", numpy.array([[1]], numpy.int64))
        ins[1] = f"input_ids={self.tmp}/ids.npy"
        self.ok("infer", d / "model.onnx", *ins, "--out", self.tmp / "out2", "--profile", "host")

    def test_inputs_are_named_in_errors(self):
        d = self.need(DATA / "onnx/exports/llama")
        one = f"input_ids={d}/test_data_set_1/input_0.pb"
        self.fails(3, "attention_mask", "missing", args=["infer", d / "model.onnx", "--in", one, "--profile", "host"])
        self.fails(3, "nonsense", args=["infer", d / "model.onnx", "--in", "nonsense" + one[9:], "--profile", "host"])


if __name__ == "__main__":
    main()
