# SPDX-License-Identifier: Apache-2.0
"""tenon eval: windows with a stride, against onnxruntime on the same windows (the loop of Hugging Face's page on
perplexity: only the tokens that are new in a window count)."""
import json
import math
import shutil

from common import DATA, SOURCE, Case, main

MODEL = DATA / "lm/stories260k-onnx"


class Oracle:
    def __init__(self, ort, np):
        self.np = np
        self.session = ort.InferenceSession(str(next(MODEL.glob("*.onnx"))), providers=["CPUExecutionProvider"])

    def log_softmax(self, ids):
        np, n, feed = self.np, len(ids), {}
        for x in self.session.get_inputs():
            if x.name == "input_ids":
                feed[x.name] = np.array([ids], np.int64)
            elif x.name == "attention_mask":
                feed[x.name] = np.ones((1, n), np.int64)
            elif x.name == "position_ids":
                feed[x.name] = np.arange(n, dtype=np.int64)[None]
            else:
                feed[x.name] = np.zeros([1, x.shape[1], 0, x.shape[3]], np.float32)
        logits = self.session.run(["logits"], feed)[0][0].astype(np.float64)
        logits -= logits.max(axis=1, keepdims=True)
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))

    def windows(self, ids, window, stride):
        total, count, windows, done = 0.0, 0, 0, 0
        for begin in range(0, len(ids), stride):
            end = min(begin + window, len(ids))
            p = self.log_softmax(ids[begin:end])
            for i in range(max(begin + 1, done), end):
                total -= p[i - 1 - begin, ids[i]]
                count += 1
            windows, done = windows + 1, end
            if end == len(ids):
                break
        return total / count, count, windows


class Eval(Case):
    def setUp(self):
        super().setUp()
        text = "\n".join(json.loads((SOURCE / "models/train/valid.json").read_text()))[:2500]
        self.text = self.tmp / "long.txt"
        self.text.write_text(text)

    def scored(self, *args):
        return self.json("eval", MODEL, "--text", self.text, "--profile", "host", *args)

    def test_windows_as_onnxruntime(self):
        oracle = Oracle(self.module("onnxruntime"), self.module("numpy"))
        ids = self.all_ids()
        for window, stride in ((512, 256), (100, 37), (64, 64), (2, 1)):
            n = 200 if window < 64 else 900
            want, count, windows = oracle.windows(ids[:n], window, stride)
            got = self.scored("--window", window, "--stride", stride, "--max-tokens", n)
            with self.subTest(window=window, stride=stride):
                self.assertEqual((got["tokens"], got["windows"], got["window"], got["stride"]), (count, windows, window, stride))
                self.assertAlmostEqual(got["mean_nll"], want, delta=2e-4)
                self.assertAlmostEqual(got["perplexity"], math.exp(got["mean_nll"]), delta=1e-6 * got["perplexity"])

    def all_ids(self):
        """The text's ids, by the tokenizer that made the file; eval begins with BOS."""
        tok = self.module("tokenizers").Tokenizer.from_file(str(MODEL / "tokenizer.json"))
        ids = tok.encode(self.text.read_text()).ids
        bos = json.loads((MODEL / "config.json").read_text())["bos_token_id"]
        return ids if ids[0] == bos else [bos] + ids

    def test_the_whole_file_is_scored(self):
        j = self.scored()
        self.assertGreater(j["tokens"], 900)
        self.assertEqual((j["window"], j["stride"]), (512, 256))
        self.assertEqual(j["windows"], math.ceil((j["tokens"] + 1 - 512) / 256) + 1)
        self.assertGreater(j["bytes"], 2400)

    def test_against_over_windows(self):
        args = ("--window", 128, "--stride", 64, "--max-tokens", 400)
        j, alone = self.scored(*args, "--against", "host"), self.scored(*args)
        self.assertEqual((j["kl_divergence"], j["top1_agreement"], j["largest_logit_difference"]), (0, 1, 0))
        self.assertEqual(j["other_mean_nll"], j["mean_nll"])
        self.assertEqual(alone["mean_nll"], j["mean_nll"])

    def test_forbidden_words(self):
        """Logits of -inf in both models are no difference; logits that are no numbers are an error."""
        np, onnx = self.module("numpy"), self.module("onnx")
        args = ("--text", self.text, "--profile", "host", "--against", "host", "--max-tokens", 20)
        for pad in (-np.inf, np.nan):
            out = self.tmp / f"pad{pad}"
            shutil.copytree(MODEL, out)
            path = next(out.glob("*.onnx"))
            m = onnx.load(path)
            words = np.zeros(512, np.float32)
            words[-1] = pad
            m.graph.initializer.append(onnx.numpy_helper.from_array(words, "pad"))
            for n in m.graph.node:
                n.output[:] = ["plain" if o == "logits" else o for o in n.output]
            m.graph.node.append(onnx.helper.make_node("Add", ["plain", "pad"], ["logits"]))
            onnx.save(m, path)
            if np.isnan(pad):
                self.fails(4, "no probability of token", args=("eval", out, *args))
                continue
            j = self.json("eval", out, *args)
            self.assertEqual((j["kl_divergence"], j["largest_logit_difference"]), (0, 0))

    def test_one_by_one_in_windows(self):
        args = ("--window", 96, "--stride", 48, "--max-tokens", 200)
        self.assertEqual(self.scored(*args, "--decode", 20)["mean_nll"], self.scored(*args)["mean_nll"])

    def test_refused(self):
        self.fails(2, "--window 513: the context is 512", args=["eval", MODEL, "--text", self.text, "--window", 513])
        self.fails(2, "--stride 65: at most the window of 64",
                   args=["eval", MODEL, "--text", self.text, "--window", 64, "--stride", 65])


if __name__ == "__main__":
    main()
