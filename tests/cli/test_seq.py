# SPDX-License-Identifier: Apache-2.0
"""Encoder-decoders: a folder with an encoder and a decoder, merged or as a pair, generates what onnxruntime's own loop does."""
import json
import pathlib
import subprocess
import tarfile

from common import BUILD, EMULATOR, Case, main

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = [9, 15, 7, 60, 2, 33, 12, 41, 1]
MERGED, PAIR = ["decoder_model_merged.onnx"], ["decoder_model.onnx", "decoder_with_past_model.onnx"]
CASES = [("t5", MERGED), ("t5", PAIR), ("bart", MERGED), ("bart", PAIR), ("marian", MERGED)]
ENCODER = "encoder_model.onnx"


def listed(ids):
    return ",".join(map(str, ids))


class Seq(Case):
    def folder(self, name, decoders=MERGED, below=False, to="model"):
        folder = self.tmp / f"{to}-{name}-{len(decoders)}"
        files = folder / "onnx" if below else folder
        files.mkdir(parents=True, exist_ok=True)
        with tarfile.open(HERE / "seq.tar.xz") as tar:
            for file in [ENCODER, *decoders]:
                (files / file).write_bytes(tar.extractfile(f"{name}/{file}").read())
            for file in ("config.json", "generation_config.json"):
                (folder / file).write_bytes(tar.extractfile(f"{name}/{file}").read())
        return folder

    def configure(self, folder, **keys):
        file = folder / "generation_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | keys))

    def oracle(self, folder, source, n):
        """onnxruntime's greedy loop: the encoder once, the decoder without a past for the first token, then the other one."""
        ort, np = self.module("onnxruntime"), self.module("numpy")
        config = json.loads((folder / "generation_config.json").read_text())
        load = lambda f: ort.InferenceSession(str(folder / f), providers=["CPUExecutionProvider"])
        merged = (folder / MERGED[0]).exists()
        first = load(MERGED[0] if merged else PAIR[0])
        then = first if merged else load(PAIR[1])
        mask = np.ones((1, len(source)), np.int64)
        states = load(ENCODER).run(None, {"input_ids": np.array([source], np.int64), "attention_mask": mask})[0]
        past = {i.name: np.zeros([1 if d == "batch_size" else 0 if isinstance(d, str) else d for d in i.shape], np.float32)
                for i in then.get_inputs() if i.name.startswith("past")}
        ids = [config["decoder_start_token_id"]]
        for t in range(n):
            s = then if t else first
            feeds = past | {"input_ids": np.array([ids[-1:]], np.int64), "encoder_attention_mask": mask,
                            "encoder_hidden_states": states, "use_cache_branch": np.array([t > 0])}
            out = dict(zip([o.name for o in s.get_outputs()],
                           s.run(None, {i.name: feeds[i.name] for i in s.get_inputs()})))
            for k in past:
                if t == 0 or ".encoder." not in k:  # these are of the first run alone
                    past[k] = out[k.replace("past_key_values", "present")]
            second, best = np.sort(out["logits"][0, -1])[-2:]
            self.assertGreater(best - second, 1e-3 * max(1, abs(best)))  # no near-tie
            forced = config.get("forced_bos_token_id") if t == 0 else None
            ids.append(int(out["logits"][0, -1].argmax()) if forced is None else forced)
        return ids[1:]

    def generated(self, folder, source, n, *more, profile="host"):
        got = self.ids(folder, "--prompt-ids", listed(source), "-n", n, "--temp", 0, "--profile", profile, *more)
        self.assertEqual(got[:len(source)], source)
        return got[len(source):]

    def test_40_tokens_as_onnxruntime(self):
        for name, decoders in CASES:
            with self.subTest(name, files=decoders):
                folder = self.folder(name, decoders)
                want = self.oracle(folder, SOURCE, 40)
                self.assertGreater(len(set(want)), 10)
                self.assertEqual(self.generated(folder, SOURCE, 40, "--ignore-eos"), want)

    def test_a_source_of_another_length_is_another_text(self):
        folder = self.folder("bart")
        for source in ([5], SOURCE * 3):
            self.assertEqual(self.generated(folder, source, 12, "--ignore-eos"), self.oracle(folder, source, 12))

    def test_one_conversation_takes_one_source_after_the_other(self):
        sources = [SOURCE, SOURCE * 3, [5, 6], SOURCE]
        for name, decoders in (("t5", MERGED), ("bart", PAIR)):
            folder = self.folder(name, decoders)
            r = subprocess.run([*EMULATOR, BUILD / "tests/cli/chat-ids", HERE.parents[1] / "configs/host.yaml", folder, "12",
                                *map(listed, sources)], capture_output=True, text=True)
            self.assertEqual(r.returncode, 0, r.stderr)
            self.assertEqual([[int(i) for i in line.split()] for line in r.stdout.splitlines()],
                             [self.oracle(folder, s, 12) for s in sources])

    def test_caches_stay_in_place(self):
        for name, decoders in CASES:
            folder = self.folder(name, decoders)
            j = self.json("inspect", folder, "--profile", "host")
            self.assertEqual(sum(c["caches"] for c in j["caches"]), 4, name)  # those of the encoder are inputs that stay
            names = [i["name"] for i in j["inputs"]]
            self.assertNotIn("encoder_hidden_states", names)
            self.assertIn("past_key_values.1.encoder.value", names)

    def test_on_the_usual_profile(self):
        for name, decoders in CASES:
            folder = self.folder(name, decoders)
            self.assertEqual(len(self.generated(folder, SOURCE, 12, "--ignore-eos", profile="default")), 12)
            for command in ("check", "pack"):
                self.ok(command, folder)

    def test_text(self):
        folder = self.folder("t5", below=True)
        words = {f"w{i}": i for i in range(2, 64)} | {"<pad>": 0, "</s>": 1}
        special = [{"id": i, "content": t, "special": True, "single_word": False, "lstrip": False, "rstrip": False,
                    "normalized": False} for t, i in (("<pad>", 0), ("</s>", 1))]
        (folder / "tokenizer.json").write_text(json.dumps({
            "version": "1.0", "added_tokens": special, "normalizer": None, "pre_tokenizer": {"type": "Whitespace"},
            "post_processor": {"type": "TemplateProcessing", "single": [{"Sequence": {"id": "A", "type_id": 0}},
                               {"SpecialToken": {"id": "</s>", "type_id": 0}}], "pair": [],
                               "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
            "decoder": None, "model": {"type": "WordLevel", "vocab": words, "unk_token": "<pad>"}}))
        self.configure(folder, eos_token_id=None)
        flat = self.folder("t5", to="flat")
        want = [i for i in self.oracle(flat, SOURCE, 12) if i > 1]
        r = self.ok("run", folder, "-p", " ".join(f"w{i}" for i in SOURCE[:-1]), "-n", 12, "--temp", 0, "--profile", "host")
        self.assertEqual(r.stdout.split(), [f"w{i}" for i in want])
        self.assertFalse(r.stdout.startswith(" "))

    def test_tokens_that_config_files_name(self):
        folder = self.folder("bart")
        plain = self.oracle(folder, SOURCE, 12)
        self.assertEqual(plain[0], 5)  # forced_bos_token_id
        stop = next(i for i in plain[2:] if plain.index(i) > 2)
        self.configure(folder, eos_token_id=stop)
        self.assertEqual(self.generated(folder, SOURCE, 12), plain[:plain.index(stop) + 1])
        self.configure(folder, eos_token_id=None, forced_eos_token_id=44)
        self.assertEqual(self.generated(folder, SOURCE, 12), plain[:-1] + [44])
        self.configure(folder, forced_eos_token_id=None, forced_decoder_ids=[[1, 5], [2, None], [3, 50]])
        self.assertEqual(self.generated(folder, SOURCE, 4)[:3], plain[:2] + [50])
        self.configure(folder, forced_decoder_ids=[[1, 5, 6]])
        self.fails(3, "generation_config.json", "forced_decoder_ids", args=["run", folder, "--prompt-ids", "5", "--ids"])

    def test_refused(self):
        run = lambda folder: ["run", folder, "--prompt-ids", listed(SOURCE), "--ids", "-n", 2, "--profile", "host"]
        alone = self.folder("bart", to="alone")
        (alone / ENCODER).unlink()
        self.fails(3, "encoder_model.onnx", args=run(alone))
        half = self.folder("bart", PAIR, to="half")
        (half / PAIR[0]).unlink()
        self.fails(3, "decoder_model.onnx", args=run(half) + ["--model-file", PAIR[1]])
        first = self.folder("bart", PAIR[:1], to="first")
        self.fails(4, "encoder_hidden_states", "decoder_with_past_model.onnx", args=run(first) + ["--model-file", PAIR[0]])
        start = self.folder("bart", to="start")
        for file in ("config.json", "generation_config.json"):
            keys = json.loads((start / file).read_text())
            (start / file).write_text(json.dumps({k: v for k, v in keys.items() if "start" not in k and "bos" not in k}))
        self.fails(3, "decoder_start_token_id", args=run(start))
        whole = self.folder("bart", to="whole")
        self.fails(3, "encoder was made for 128", args=["run", whole, "--prompt-ids", listed(SOURCE * 20), "--ids"])
        self.fails(4, "encoder-decoder", "scores none", args=["bench", whole, "-p", 8, "-n", 8])
        self.fails(4, "no bundle", "encoder-decoder", args=["bundle", whole, "-o", self.tmp / "out", "--profile", "host"])

    def test_decoders_that_differ_do_not_generate(self):
        onnx = self.module("onnx")
        folder = self.folder("t5", PAIR)
        m = onnx.load(folder / PAIR[1])
        last = next(n for n in m.graph.node if "logits" in n.output)
        last.output[0] = "quiet"
        m.graph.initializer.append(onnx.numpy_helper.from_array(self.module("numpy").float32(-1), "minus"))
        m.graph.node.append(onnx.helper.make_node("Mul", ["quiet", "minus"], ["logits"]))
        onnx.save(m, folder / PAIR[1])
        self.fails(4, "is not seen to be", "logits",
                   args=["run", folder, "--prompt-ids", listed(SOURCE), "--ids", "-n", 2, "--profile", "host"])

    def test_an_encoder_of_images(self):
        onnx = self.module("onnx")
        folder = self.folder("t5")
        m = onnx.load(folder / ENCODER)
        for n in m.graph.node:
            for k, name in enumerate(n.input):
                n.input[k] = "pixel_values" if name == "attention_mask" else name
        next(i for i in m.graph.input if i.name == "attention_mask").name = "pixel_values"
        onnx.save(m, folder / ENCODER)
        self.fails(4, "encoder_model.onnx", "pixel_values",
                   args=["run", folder, "--prompt-ids", listed(SOURCE), "--ids", "-n", 2, "--profile", "host"])


if __name__ == "__main__":
    main()
