# SPDX-License-Identifier: Apache-2.0
"""Decoders with inputs that choose: use_cache_branch becomes one decoder with caches in place where that is seen to be
right, and stays two where it is not; num_logits_to_keep. What is generated is compared with onnxruntime or numpy."""
import pathlib
import tarfile

from common import Case, main

HERE = pathlib.Path(__file__).resolve().parent
PROMPT = [1, 15, 7, 60, 2, 33, 9]


class Merged(Case):
    def model(self, name, change=None):
        folder = self.tmp / name
        folder.mkdir(exist_ok=True)
        file = folder / "decoder_model_merged.onnx"
        with tarfile.open(HERE / "merged.tar.xz") as tar:
            file.write_bytes(tar.extractfile(f"{name}.onnx").read())
        if change:
            onnx = self.module("onnx")
            m = onnx.load(file)
            change({a.name: a.g for a in m.graph.node[0].attribute})
            onnx.save(m, file)
        return folder

    def oracle(self, folder, n):
        """onnxruntime's greedy loop: the branch without a past for the prompt, the other one after it."""
        ort, np = self.module("onnxruntime"), self.module("numpy")
        s = ort.InferenceSession(str(folder / "decoder_model_merged.onnx"), providers=["CPUExecutionProvider"])
        past = {i.name: np.zeros([1 if isinstance(d, str) and "batch" in d else 0 if isinstance(d, str) else d for d in i.shape],
                                 np.float32) for i in s.get_inputs() if i.name.startswith("past")}
        names, ids, at = [o.name for o in s.get_outputs()], list(PROMPT), 0
        for _ in range(n):
            step = np.array([ids[at:]], np.int64)
            out = dict(zip(names, s.run(None, past | {
                "input_ids": step, "attention_mask": np.ones((1, len(ids)), np.int64),
                "position_ids": np.arange(at, len(ids), dtype=np.int64)[None], "use_cache_branch": np.array([at > 0])})))
            past = {k: out[k.replace("past_key_values", "present")] for k in past}
            at = len(ids)
            first, second = np.sort(out["logits"][0, -1])[::-1][:2]
            self.assertGreater(first - second, 1e-3)  # no near-tie
            ids.append(int(out["logits"][0, -1].argmax()))
        return ids

    def generated(self, folder, n, **kw):
        return self.ok("run", folder, "--prompt-ids", ",".join(map(str, PROMPT)), "--ids", "-n", n, "--temp", 0,
                       "--ignore-eos", "--profile", "host", **kw)

    def test_two_decoders_become_one(self):
        for name in ("llama", "gpt2"):
            with self.subTest(name):
                folder = self.model(name)
                r = self.generated(folder, 40)
                self.assertEqual(list(map(int, r.stdout.split())), self.oracle(folder, 40))
                self.assertNotIn("two decoders", r.stderr)
                j = self.json("inspect", folder, "--profile", "host")
                self.assertEqual(sum(c["caches"] for c in j["caches"]), 4)
                self.assertLess(j["nodes_after"], 40)
                self.assertNotIn("use_cache_branch", [i["name"] for i in j["inputs"]])
                for command in ("check", "pack"):  # on whatever the default profile has
                    self.ok(command, folder)

    def test_branches_that_differ_stay_two(self):
        onnx = self.module("onnx")

        def louder(branches):
            g = branches["then_branch"]
            last = next(n for n in g.node if n.output[0] == "logits")
            last.output[0] = "quiet"
            g.initializer.append(onnx.numpy_helper.from_array(self.module("numpy").float32(-1), "minus"))
            g.node.append(onnx.helper.make_node("Mul", ["quiet", "minus"], ["logits"]))

        def other_constant(branches):  # as where a mask was traced with one position
            for n in branches["then_branch"].node:
                if n.op_type == "Softmax":
                    n.attribute[0].i = 2

        for name, change in (("llama", louder), ("gpt2", other_constant)):
            with self.subTest(name):
                folder = self.model(name, change)
                r = self.generated(folder, 12)
                self.assertIn("stays two decoders behind use_cache_branch", r.stderr)
                if change is louder:
                    self.assertEqual(list(map(int, r.stdout.split())), self.oracle(folder, 12))

    def test_the_file_itself_keeps_its_inputs(self):
        np = self.module("numpy")
        folder = self.model("llama")
        sets = {"input_ids": np.array([PROMPT]), "attention_mask": np.ones((1, 7), np.int64),
                "position_ids": np.arange(7)[None], "use_cache_branch": np.array([False])}
        sets |= {f"past_key_values.{i}.{k}": np.zeros((1, 1, 1, 8), np.float32) for i in (0, 1) for k in ("key", "value")}
        args = []
        for k, v in sets.items():
            np.save(self.tmp / f"{k}.npy", v)
            args += ["--in", f"{k}={self.tmp}/{k}.npy"]
        self.ok("infer", folder, *args, "--out", self.tmp / "out", "--profile", "host")
        ort = self.module("onnxruntime").InferenceSession(str(folder / "decoder_model_merged.onnx"))
        np.testing.assert_allclose(np.load(self.tmp / "out/logits.npy"), ort.run(["logits"], sets)[0], rtol=1e-3, atol=1e-3)


class KeepLogits(Case):
    def test_logits_to_keep(self):
        self.module("onnx")
        import tiny_decoder
        folder = tiny_decoder.write(self.tmp / "keep", 256, keep_logits=True)
        plain = tiny_decoder.write(self.tmp / "plain", 256)
        args = ["--prompt-ids", ",".join(map(str, PROMPT)), "-n", 30, "--temp", 0, "--profile", "host"]
        got = self.ids(folder, *args)
        self.assertEqual(got, self.ids(plain, *args))
        self.assertEqual(got[7], int(tiny_decoder.logits_after(PROMPT).argmax()))
        keep, usual = (self.json("inspect", f, "--profile", "host") for f in (folder, plain))
        self.assertEqual(keep["caches"], usual["caches"])
        self.assertEqual(keep["nodes_after"], usual["nodes_after"])
        self.assertEqual(keep["memory"]["outputs_bytes"], usual["memory"]["outputs_bytes"])


class Embeds(Case):
    ARGS = ["--prompt-ids", ",".join(map(str, PROMPT)), "-n", 30, "--temp", 0, "--profile", "host"]

    def tiny(self, name, *args, **kw):
        self.module("onnx")
        import tiny_decoder
        folder = tiny_decoder.write(self.tmp / name, 256)
        (folder / "onnx").mkdir()
        return tiny_decoder.split(folder, *args, **kw) if args else folder

    def test_a_table_beside_the_decoder(self):
        plain = self.tiny("plain")
        want, usual = self.ids(plain, *self.ARGS), self.json("inspect", plain, "--profile", "host")
        for name, decoder, table in (("js", "onnx/decoder_model_merged.onnx", "onnx/embed_tokens.onnx"),
                                     ("q4", "onnx/decoder_model_merged_q4.onnx", "onnx/embed_tokens_q4.onnx"),
                                     ("genai", "model.onnx", "embeddings.onnx"), ("one", "model_fp16.onnx", "embed_tokens.onnx")):
            with self.subTest(name):
                folder = self.tiny(name, decoder, table)
                self.assertEqual(self.ids(folder, *self.ARGS), want)
                j = self.json("inspect", folder, "--profile", "host")
                self.assertEqual([i["name"] for i in j["inputs"]][:2], ["input_ids", "position_ids"])
                self.assertEqual(j["caches"], usual["caches"])
                self.assertEqual(j["nodes_after"], usual["nodes_after"])
                self.assertEqual(j["memory"]["weights_bytes"], usual["memory"]["weights_bytes"])

    def test_in_a_bundle(self):
        folder = self.tiny("b", "onnx/decoder_model_merged.onnx", "onnx/embed_tokens.onnx")
        self.ok("bundle", folder, "-o", self.tmp / "out", "--profile", "host")
        self.assertEqual(sorted(p.name for p in (self.tmp / "out/model").iterdir()),
                         ["config.json", "decoder_model_merged.onnx", "embed_tokens.onnx"])

    def test_refused(self):
        for name, table, more, words in (("none", None, (), ["inputs_embeds", "embed_tokens.onnx"]),
                                         ("image", "embedding.onnx", ("image_features",), ["embedding.onnx", "image_features"])):
            with self.subTest(name):
                folder = self.tiny(name, "model.onnx", table, more)
                self.fails(4, *words, args=["run", folder, "--ids", *self.ARGS])


class Halves(Case):
    def test_an_encoder_decoder_says_so(self):
        onnx = self.module("onnx")
        h, f32 = onnx.helper, onnx.TensorProto.FLOAT
        info = lambda n, t, d: h.make_tensor_value_info(n, t, d)
        graph = h.make_graph([h.make_node("Identity", ["encoder_hidden_states"], ["logits"])], "g",
                             [info("input_ids", onnx.TensorProto.INT64, ["b", "s"]),
                              info("encoder_hidden_states", f32, ["b", "e", 8])], [info("logits", f32, ["b", "e", 8])])
        folder = self.tmp / "t5"
        folder.mkdir()
        onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8),
                  folder / "decoder_model_merged.onnx")
        self.fails(4, "decoder of an encoder-decoder model", "'encoder_hidden_states'", "tenon infer",
                   args=["run", folder, "--prompt-ids", "1", "--ids", "-n", 1, "--profile", "host"])


if __name__ == "__main__":
    main()
