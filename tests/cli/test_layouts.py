# SPDX-License-Identifier: Apache-2.0
"""Folders as they are published: which .onnx file is meant, where its companions are found, what is said where neither is clear."""
import json
import os
import pathlib

from common import DEMO, Case, main

PROMPT = ["-p", "In the beginning", "-n", 6, "--temp", 0, "--profile", "host"]
COMPANIONS = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json")
ALL = COMPANIONS + ("model.onnx",)


class Layout(Case):
    def hub(self, name, files):
        """A folder whose files are the demo model's: {path: demo's file, or None for one that is no model}."""
        root = self.tmp / name
        for path, source in files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            if source is None:
                (root / path).write_bytes(b"no model")
            elif isinstance(source, dict):
                (root / path).write_text(json.dumps(source))
            else:
                (root / path).symlink_to(DEMO / source)
        return root

    def expected(self):
        return self.ids(DEMO, *PROMPT)


class Meant(Layout):
    def test_without_a_flag(self):
        want = self.expected()
        onnx = {"onnx/model.onnx": "model.onnx"}
        above = {n: n for n in COMPANIONS}
        genai = {"model": {"decoder": {"filename": "m-q4.onnx"}}}
        table = [
            ("plain", above | {"model.onnx": "model.onnx", "other.onnx": None}),
            ("merged", above | {"decoder_model_merged.onnx": "model.onnx", "decoder_model.onnx": None}),
            ("only", above | {"llama-int4.onnx": "model.onnx", "embed_tokens.onnx": None}),
            ("onnx", above | onnx | {"onnx/model_q4.onnx": None, "onnx/model_fp16.onnx": None}),
            ("onnx-merged", above | {"onnx/decoder_model_merged.onnx": "model.onnx", "onnx/decoder_with_past_model.onnx": None}),
            ("onnx-only", above | {"onnx/model_quantized.onnx": "model.onnx"}),
            ("above-first", above | {"model.onnx": "model.onnx", "onnx/model.onnx": None}),
            ("genai", above | {"m-q4.onnx": "model.onnx", "model.onnx": None, "genai_config.json": genai}),
            ("genai-moved", above | {"model.onnx": "model.onnx", "genai_config.json": genai}),
        ]
        for name, files in table:
            with self.subTest(name):
                self.assertEqual(self.ids(self.hub(name, files), *PROMPT), want)

    def test_by_name_and_as_a_file(self):
        want = self.expected()
        root = self.hub("q", {n: n for n in COMPANIONS} | {"onnx/model_q4.onnx": "model.onnx", "onnx/model.onnx": None,
                                                           "onnx/a.onnx": None, "b.onnx": "model.onnx"})
        for args in ([root, "--model-file", "model_q4.onnx"], [root, "--model-file", "onnx/model_q4.onnx"],
                     [root, "--model-file", "b.onnx"], [root / "onnx/model_q4.onnx"],
                     [root / "onnx", "--model-file", "model_q4.onnx"], [str(root) + "//", "--model-file", "b.onnx"]):
            with self.subTest(args=args):
                self.assertEqual(self.ids(*args, *PROMPT), want)
        here = os.getcwd()
        try:  # paths without a folder in them
            os.chdir(root / "onnx")
            for path in ("model_q4.onnx", "./model_q4.onnx"):
                self.assertEqual(self.ids(path, *PROMPT), want)
            os.chdir(root)
            self.assertEqual(self.ids(".", "--model-file", "model_q4.onnx", *PROMPT), want)
        finally:
            os.chdir(here)

    def test_every_command_takes_the_same_file(self):
        root = self.hub("h", {n: n for n in COMPANIONS} | {"onnx/model_q4.onnx": "model.onnx", "onnx/model.onnx": None})
        text = self.tmp / "t.txt"
        text.write_text("In the beginning God created the heaven and the earth.\n")
        for args in (["check"], ["inspect"], ["pack"], ["bench", "-p", 4, "-n", 2, "-r", 1], ["eval", "--text", text],
                     ["trace", "-p", "And", "-n", 2, "-o", self.tmp / "t.json"],
                     ["calibrate", "--text", text, "-o", self.tmp / "c.yaml"]):
            with self.subTest(args[0]):
                rest = [root, "--model-file", "model_q4.onnx", *args[1:]]
                self.ok(args[0], *rest, "--profile", "default" if args[0] == "pack" else "host")
                self.fails(3, "model.onnx", args=[args[0], root, *args[1:], "--profile", "host"])

    def test_bundle_of_the_layout(self):
        root = self.hub("h", {n: n for n in COMPANIONS} | {"onnx/model_q4.onnx": "model.onnx", "onnx/model.onnx": None,
                                                           "notes.txt": None})
        out = self.tmp / "bundle"
        r = self.ok("bundle", root, "--model-file", "model_q4.onnx", "-o", out, "--profile", "host")
        self.assertEqual(sorted(p.name for p in (out / "model").iterdir()), sorted(COMPANIONS + ("model_q4.onnx",)))
        for left in ("notes.txt", "model.onnx: another model"):
            self.assertIn(left, r.stderr)


class Stored(Layout):
    def test_external_data_in_the_cache_of_a_hub(self):
        """Files are kept in blobs/ by their hashes; a snapshot names them by links, the model and its data too."""
        onnx = self.module("onnx")
        blobs, snap = self.tmp / "blobs", self.tmp / "snapshots/rev"
        blobs.mkdir()
        (snap / "onnx").mkdir(parents=True)
        onnx.save(onnx.load(str(DEMO / "model.onnx")), str(blobs / "model.onnx"), save_as_external_data=True,
                  location="model.onnx_data")
        for n in COMPANIONS:
            (blobs / n).write_bytes((DEMO / n).read_bytes())
        for i, n in enumerate(COMPANIONS + ("onnx/model.onnx", "onnx/model.onnx_data")):
            (blobs / n.split("/")[-1]).rename(blobs / f"{i:040x}")
            (snap / n).symlink_to(f"{'../' * n.count('/')}../../blobs/{i:040x}")
        self.assertEqual(self.ids(snap, *PROMPT), self.expected())
        self.ok("bundle", snap, "-o", self.tmp / "bundle", "--profile", "host")
        data = self.tmp / "bundle/model/model.onnx_data"
        self.assertEqual((data.is_symlink(), data.read_bytes()), (False, (snap / "onnx/model.onnx_data").read_bytes()))
        own = (snap / "onnx/model.onnx").read_bytes()  # a model that is no link has nothing stored elsewhere
        (snap / "onnx/model.onnx").unlink()
        (snap / "onnx/model.onnx").write_bytes(own)
        self.fails(3, "model.onnx_data", "cp -rL", args=["run", snap, *PROMPT])


class Companions(Layout):
    def test_a_whole_folder_does_not_look_above(self):
        files = {"inner/" + n: n for n in ALL} | {"generation_config.json": {"do_sample": "wrong"}}
        root = self.hub("w", {k: v for k, v in files.items() if not k.endswith("inner/generation_config.json")})
        self.ok("run", root / "inner", *PROMPT)
        (root / "inner/config.json").unlink()  # now the folder is not whole
        self.fails(3, "do_sample", args=["run", root / "inner", *PROMPT])

    def test_no_tokenizer_says_where(self):
        root = self.hub("n", {"config.json": "config.json", "onnx/model.onnx": "model.onnx"})
        self.fails(3, "tokenizer.json", str(root / "onnx"), f"nor in '{root}'", args=["run", root, *PROMPT])


class Genai(Layout):
    def test_precedence(self):
        """Ids of a stop token and sampling: which file wins is seen by what is generated."""
        want = self.expected()
        third = want[-4]  # the third new token as EOS ends there
        def genai(name):
            return {"model": {"eos_token_id": [third], "decoder": {"filename": name}},
                    "search": {"do_sample": False, "repetition_penalty": 1.5}}
        base = {n: n for n in ("tokenizer.json", "tokenizer_config.json", "model.onnx")}
        quiet = {"config.json": {"max_position_embeddings": 512}}
        loud = {"config.json": {"max_position_embeddings": 512, "eos_token_id": 0},
                "generation_config.json": {"repetition_penalty": 1.0}}
        penalty = self.ids(DEMO, *PROMPT, "--repeat-penalty", 1.5, "-n", 40)
        table = [  # files, stops at the third token, has the penalty
            ("alone", base | {"genai_config.json": genai("model.onnx")}, True, True),
            ("alone, another", base | {"genai_config.json": genai("x.onnx")}, True, True),
            ("names it", base | quiet | {"genai_config.json": genai("model.onnx")}, True, True),
            ("names another", base | quiet | {"genai_config.json": genai("x.onnx")}, False, False),
            ("loses", base | loud | {"genai_config.json": genai("model.onnx")}, False, False),
        ]
        for name, files, stops, penalized in table:
            with self.subTest(name):
                root = self.hub(name.replace(" ", "-"), files)
                got = self.ids(root, "-p", "In the beginning", *([] if penalized else ["--temp", 0]),
                               "-n", 6, "--repeat-penalty", 1, "--profile", "host")
                self.assertEqual(got, want[:-3] if stops else want)
                got = self.ids(root, "-p", "In the beginning", "-n", 40, "--profile", "host", "--ignore-eos", "--temp", 0)
                self.assertEqual(got == penalty, penalized)


class Refused(Layout):
    def test_table(self):
        many = self.hub("many", {"onnx/model_q4.onnx": None, "onnx/model_fp16.onnx": None, "c.onnx": None, "b.onnx": None})
        crowd = self.hub("crowd", {f"onnx/a-rather-long-name-of-a-model-{i:02}.onnx": None for i in range(40)})
        empty = self.hub("empty", {"config.json": "config.json"})
        parts = self.hub("parts", {"onnx/embed_tokens.onnx": None, "onnx/vision_encoder.onnx": None})
        genai = self.hub("genai", {"genai_config.json": {"model": {"decoder": {"filename": "../m.onnx"}}}, "a.onnx": None})
        table = [
            ([many], ["4 models", "--model-file", "b.onnx, c.onnx, onnx/model_fp16.onnx, onnx/model_q4.onnx"]),
            ([crowd], ["40 models", "--model-file", "-00.onnx", " more"]),
            ([empty], ["no .onnx file in", str(empty), "onnx/"]),
            ([parts], ["no .onnx file in"]),
            ([genai], ["genai_config.json", "model.decoder.filename", "../m.onnx"]),
            ([many, "--model-file", "model_q8.onnx"], ["model_q8.onnx", "onnx/model_q4.onnx"]),
            ([empty, "--model-file", "x.onnx"], ["no .onnx file in"]),
            ([many / "b.onnx", "--model-file", "c.onnx"], ["is a file", "c.onnx"]),
            ([self.tmp / "nowhere"], ["cannot open", "nowhere"]),
        ]
        for args, words in table:
            with self.subTest(args=args):
                for command in ("run", "inspect"):
                    self.fails(3, *words, args=[command, *args, *(PROMPT if command == "run" else [])])


if __name__ == "__main__":
    main()
