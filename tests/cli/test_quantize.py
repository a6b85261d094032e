# SPDX-License-Identifier: Apache-2.0
"""tenon quantize: folders that run alone, equal bytes for any threads and after a kill, against onnxruntime, refusals."""
import json
import shutil
import signal
import subprocess
import time

import common
from common import DEMO, SOURCE, TENON


class Quantize(common.Case):
    def texts(self):
        return json.loads((SOURCE / "models" / "train" / "valid.json").read_text())

    def text(self, n=6):
        path = self.tmp / "cal.json"
        path.write_text(json.dumps([t[:1500] for t in self.texts()[40:40 + n]]))
        return path

    def command(self, out, *more):
        return ["quantize", DEMO, "-o", out, "--text", self.text(), "--piece", "256", *more]

    @staticmethod
    def bytes_of(folder):
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}

    def logits(self, folder, ids):
        ort, np = self.module("onnxruntime"), self.module("numpy")
        s = ort.InferenceSession(str(folder / "model.onnx"))
        feeds = {}
        for i in s.get_inputs():
            if i.name == "input_ids":
                feeds[i.name] = np.array([ids])
            elif i.name == "attention_mask":
                feeds[i.name] = np.ones((1, len(ids)), np.int64)
            elif i.name == "position_ids":
                feeds[i.name] = np.arange(len(ids))[None]
            else:
                feeds[i.name] = np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32)
        x = s.run(["logits"], feeds)[0][0].astype(np.float64)
        return x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True)

    def test_bytes_and_quality(self):
        np, tokenizers = self.module("numpy"), self.module("tokenizers")
        one, two, rounded = self.tmp / "one", self.tmp / "two", self.tmp / "rounded"
        self.ok(*self.command(one, "--threads", "2"))
        self.assertFalse((self.tmp / "one.partial").exists())
        # killed on the way, and again
        p = subprocess.Popen([TENON, *map(str, self.command(two, "--threads", "1"))], stdout=subprocess.DEVNULL)
        work = self.tmp / "two.partial"
        end = time.time() + 300
        while p.poll() is None and len(list(work.glob("*.solved"))) < 5 and time.time() < end:
            time.sleep(0.01)
        p.send_signal(signal.SIGKILL)
        self.assertEqual(p.wait(), -signal.SIGKILL)
        self.assertFalse(two.exists())
        kept = {f.name: f.stat().st_mtime_ns for f in work.glob("*.solved")}
        self.assertGreaterEqual(len(kept), 5)
        self.ok(*self.command(two, "--threads", "1"))
        self.assertEqual(self.bytes_of(one), self.bytes_of(two))
        self.assertIn("tokenizer.json", self.bytes_of(one))
        # closer to the model than rounding, by what onnxruntime gives
        self.ok("quantize", DEMO, "-o", rounded, "--round")
        tok = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
        kl = {one: 0.0, rounded: 0.0}
        for t in self.texts()[:4]:
            ids = tok.encode(t).ids[:256]
            base = self.logits(DEMO, ids)
            for folder in kl:
                kl[folder] += float((np.exp(base) * (base - self.logits(folder, ids))).sum(-1).mean()) / 4
        self.assertLess(kl[one], 0.92 * kl[rounded])
        self.assertLess(kl[rounded], 0.04)
        # what Tenon's host makes of the folder is what onnxruntime does
        ids = self.ids(one, "-p", "Once upon a time there was", "-n", "1", "--temp", "0", "--profile", "host")
        self.assertEqual(int(self.logits(one, ids[:-1])[-1].argmax()), ids[-1])

    def test_widths(self):
        onnx = self.module("onnx")
        for bits, block, zeros in ((2, 16, True), (3, 128, False), (8, 32, False), (4, 64, True)):
            out = self.tmp / f"w{bits}"
            self.ok("quantize", DEMO, "-o", out, "--round", "--bits", str(bits), "--block", str(block),
                    *(["--zeros"] if zeros else []))
            m = onnx.load(out / "model.onnx", load_external_data=False)
            nodes = [n for n in m.graph.node if n.op_type == "MatMulNBits"]
            self.assertEqual(len(nodes), 43)
            self.assertEqual({len(n.input) for n in nodes}, {4 if zeros else 3})
            self.assertEqual({a.i for n in nodes for a in n.attribute if a.name == "bits"}, {bits})
            self.ok("run", out, "-p", "Once", "-n", "2", "--profile", "host")

    def folder(self, *more):
        out = self.tmp / "folder"
        self.ok("quantize", self.model, "-o", out, "--round", *more)
        return out

    def test_a_folder_is_a_model(self):
        """run, chat, bench, eval and bundle take it; what lies beside the model comes along, from folders too."""
        self.model = self.tmp / "model"
        shutil.copytree(DEMO, self.model, ignore=shutil.ignore_patterns("chat_template*"))
        more = self.model / "additional_chat_templates"
        more.mkdir()
        (more / "tool_use.jinja").write_text("{{ messages[0].content }}!")
        (self.model / "chat_template.json").write_text(json.dumps(
            {"chat_template": "{{ bos_token }}{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"}))
        out = self.folder()
        names = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
        self.assertLessEqual({"model.onnx", "model.onnx_data", "config.json", "chat_template.json", "tokenizer.json",
                              "generation_config.json", "additional_chat_templates/tool_use.jinja"}, names)
        host = ["--profile", "host"]
        want = self.ok("run", out, "-p", "<user> And God said\n", "-n", "4", "--temp", "0", *host).stdout
        self.assertTrue(want.strip())
        said = self.tenon("chat", out, "-n", "4", "--temp", "0", *host, stdin="And God said\n")
        self.assertEqual((said.returncode, said.stdout), (0, want), said.stderr)
        self.assertIn("tg2", self.ok("bench", out, "-p", "4", "-n", "2", *host).stdout)
        text = self.tmp / "text.txt"
        text.write_text(self.texts()[0][:200])
        self.assertGreater(self.json("eval", out, "--text", text, *host)["perplexity"], 1)
        bundle = self.tmp / "bundle"
        left = self.json("bundle", out, "-o", bundle, *host)["left_out"]
        self.assertTrue((bundle / "model" / "additional_chat_templates" / "tool_use.jinja").exists())
        self.assertNotIn("additional_chat_templates", [e["what"] for e in left])

    def test_weights(self):
        """A plugin's format by its name: what is written, and names that are none."""
        onnx = self.module("onnx")
        self.model = DEMO
        if not common.has_avx2():
            self.skipTest("no AVX2")
        self.ok("quantize", DEMO, "-o", self.tmp / "named", "--round", "--weights", "w4g:32")
        self.ok("quantize", DEMO, "-o", self.tmp / "bits", "--round", "--bits", "4", "--block", "32")
        self.assertEqual(self.bytes_of(self.tmp / "named"), self.bytes_of(self.tmp / "bits"))
        m = onnx.load(self.tmp / "named" / "model.onnx", load_external_data=False)
        self.assertEqual({o.domain for o in m.opset_import} & {"com.microsoft", "ai.tenon"}, {"com.microsoft"})
        for text, code, word in (("lev9", 3, "no plugin has a weight format 'lev9'"), ("int8", 4, "does not say"),
                                 ("w4g:7", 3, "does not take the numbers"), ("w4g:x", 3, "NAME:NUMBER")):
            self.fails(code, word, args=("quantize", DEMO, "-o", self.tmp / "no", "--round", "--weights", text))
        self.fails(2, "--weights says bits", args=("quantize", DEMO, "-o", self.tmp / "no", "--round", "--weights", "lev4",
                                                   "--bits", "4"))

    def test_refusals(self):
        there = self.tmp / "there"
        there.mkdir()
        (there / "file").write_text("")
        bad = self.tmp / "bad.json"
        bad.write_text("{}")
        for args, code, word in ((["quantize", DEMO, "-o", self.tmp / "x"], 2, "--text FILE is needed"),
                                 (["quantize", DEMO, "--round"], 2, "-o DIR is needed"),
                                 (["quantize", DEMO, "-o", self.tmp / "x", "--round", "--bits", "5"], 2, "2, 3, 4 or 8"),
                                 (["quantize", DEMO, "-o", self.tmp / "x", "--round", "--block", "24"], 2, "16, 32, 64 or 128"),
                                 (["quantize", DEMO, "-o", there, "--round"], 3, "no empty folder"),
                                 (["quantize", DEMO, "-o", self.tmp / "x", "--text", bad], 3, "list of strings"),
                                 (["quantize", self.tmp / "none", "-o", self.tmp / "x", "--round"], 3, "none")):
            r = self.tenon(*args)
            self.assertEqual(r.returncode, code, r.stderr)
            self.assertIn(word, r.stderr)
        self.assertFalse((self.tmp / "x").exists())


if __name__ == "__main__":
    common.main()
