# SPDX-License-Identifier: Apache-2.0
"""tenon quantize: folders that run alone, equal bytes for any threads and after a kill, against onnxruntime, refusals."""
import json
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
