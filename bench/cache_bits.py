#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""KL divergence of caches of few bits: how `kv: int4` came to its format, and what else was tried (docs/quality.md).

  bench/cache_bits.py [--model DIR] [--positions N] [--windows N] [--tenon PROGRAM]

Windows of N positions (2,048) of the texts in models/train/valid.json, joined by the end of text. Weights and activations stay f32; only
keys and values are rounded, all positions, the newest too. `row`: one scale (and least value) for a head at a position. `channel`: one for
a channel of a head over 32 or 128 positions. `turned`: rows after a Hadamard matrix, which the query takes as well. int8 and int4 are
Tenon's own (runtime/ops/kernel/kvrow.h); int4's scale and zero take 16 bits together. Other bits count 16 for a scale and 16 for a least
value. Python with numpy, onnx and tokenizers. --tenon: instead, what the program says of its own caches on the same windows (`eval`).
"""
import argparse
import json
import os
import subprocess
import tempfile

import numpy as np
from palette import ROOT, Llama, log_softmax
from tokenizers import Tokenizer


def symmetric(x, axis, bits):
    most = 2 ** (bits - 1) - 1
    a = np.abs(x).max(axis, keepdims=True)
    scale = np.where(a > 0, a, 1) / most
    return np.rint(x / scale).clip(-most, most) * scale


def between(x, axis, bits):
    """With a least value, searched over clipped ranges for the least squared error."""
    lo, hi, best, least = x.min(axis, keepdims=True), x.max(axis, keepdims=True), None, None
    for keep in (1, .95, .9, .85, .8):
        a, b = (lo + hi) / 2 - (hi - lo) * keep / 2, (lo + hi) / 2 + (hi - lo) * keep / 2
        scale = (np.where(b > a, b - a, 1) / (2 ** bits - 1)).astype(np.float16).astype(np.float32)
        scale[scale == 0] = 1
        a = a.astype(np.float16).astype(np.float32)
        y = np.rint((x - a) / scale).clip(0, 2 ** bits - 1) * scale + a
        e = ((x - y) ** 2).sum(axis, keepdims=True)
        best, least = (y, e) if best is None else (np.where(e < least, y, best), np.minimum(e, least))
    return best


def rows(x, bits, how=between):
    return how(x, -1, bits)


def zeroed(x, bits):
    """kvrow.h's rows of few bits: a whole zero, a scale of 6 bits of mantissa, the next above where codes would not reach."""
    most = 2 ** bits - 1
    lo, hi = np.minimum(x.min(-1, keepdims=True), 0), np.maximum(x.max(-1, keepdims=True), 0)
    step = (hi - lo) / most
    unit = np.exp2(np.floor(np.log2(np.where(step > 0, step, 1)))) / 64
    scale = np.rint(step / unit) * unit
    scale[scale == 0] = 1
    scale += unit * ((scale < step) & (np.rint(hi / scale) + np.rint(-lo / scale) > most))
    zero = np.rint(-lo / scale).clip(0, most)
    return ((np.rint(x / scale) + zero).clip(0, most) - zero) * scale


def channels(x, bits, block):
    out = np.empty_like(x)
    for t in range(0, len(x), block):
        out[t:t + block] = between(x[t:t + block], 0, bits)
    return out


def turned(x, bits):
    """Rows of x H, brought back: what scores see, as q H times them is q times these."""
    h = np.ones((1, 1), np.float32)
    while len(h) < x.shape[-1]:
        h = np.block([[h, h], [h, -h]])
    h /= np.sqrt(np.float32(len(h)))
    return rows(x @ h, bits) @ h


def row_bits(bits, dim):
    return bits + 32 / dim


KINDS = [  # name, keys, values, bits of keys and of values for a head of so many elements
    ("int8 rows", lambda k: rows(k, 8, symmetric), lambda v: rows(v, 8, symmetric), lambda d: (8 + 32 / d, 8 + 32 / d)),
    ("int4: keys 5 bits by row, values 4", lambda k: zeroed(k, 5), lambda v: zeroed(v, 4), lambda d: (5 + 16 / d, 4 + 16 / d)),
    ("4 bits by row, a whole zero", lambda k: zeroed(k, 4), lambda v: zeroed(v, 4), lambda d: (4 + 16 / d,) * 2),
    ("4 bits: keys by row, values by row", lambda k: rows(k, 4), lambda v: rows(v, 4), lambda d: (row_bits(4, d),) * 2),
    ("4 bits: keys by row turned, values by row", lambda k: turned(k, 4), lambda v: rows(v, 4), lambda d: (row_bits(4, d),) * 2),
    ("4 bits: keys by channel of 32, values by row", lambda k: channels(k, 4, 32), lambda v: rows(v, 4), lambda d: (5, row_bits(4, d))),
    ("4 bits: keys by channel of 128, values by row", lambda k: channels(k, 4, 128), lambda v: rows(v, 4), lambda d: (4.25, row_bits(4, d))),
    ("keys int8, values 4 bits by row", lambda k: rows(k, 8, symmetric), lambda v: rows(v, 4), lambda d: (8 + 32 / d, row_bits(4, d))),
    ("keys 4 bits by channel of 32, values int8", lambda k: channels(k, 4, 32), lambda v: rows(v, 8, symmetric), lambda d: (5, 8 + 32 / d)),
    ("5 bits: keys by channel of 32, values by row", lambda k: channels(k, 5, 32), lambda v: rows(v, 5), lambda d: (6, row_bits(5, d))),
]


END = "<|endoftext|>"


def measured(a, texts):
    """Rows of what `tenon eval` says."""
    with tempfile.TemporaryDirectory() as tmp:
        text = os.path.join(tmp, "joined.txt")
        with open(text, "w", encoding="utf-8") as f:
            f.write(END + END.join(texts))
        print("| caches | KL | same first |\n|---|---|---|")
        for kv in ("f16", "bf16", "int8", "int4"):
            profile = os.path.join(tmp, "p.yaml")
            with open(profile, "w", encoding="utf-8") as f:
                f.write(f"plugins: [host]\nkv: {kv}\n")
            args = ["eval", a.model, "--text", text, "--profile", profile, "--against", "host", "--max-tokens", a.windows * a.positions,
                    "--window", a.positions, "--stride", a.positions, "--format", "json"]
            r = json.loads(subprocess.run([a.tenon, *map(str, args)], capture_output=True, text=True, check=True).stdout)
            print(f"| {kv} | {r['kl_divergence']:.5f} | {100 * r['top1_agreement']:.2f} |", flush=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", default=os.path.join(ROOT, "models", "demo"))
    p.add_argument("--positions", type=int, default=2048)
    p.add_argument("--windows", type=int, default=4)
    p.add_argument("--tenon", metavar="PROGRAM")
    a = p.parse_args()
    texts = json.load(open(os.path.join(ROOT, "models", "train", "valid.json"), encoding="utf-8"))
    if a.tenon:
        measured(a, texts)
        return
    m, tok = Llama(a.model), Tokenizer.from_file(os.path.join(a.model, "tokenizer.json"))
    ids = []
    for text in texts:
        ids += [0] + tok.encode(text, add_special_tokens=False).ids
    windows = [np.array(ids[i * a.positions:(i + 1) * a.positions]) for i in range(a.windows)]
    want = [log_softmax(m.forward(w, m.w)[0].astype(np.float64)) for w in windows]
    print(f"{len(windows)} windows of {a.positions} positions, heads of {m.dim} elements\n")
    print("| caches | bits | of f16 | KL | same first |\n|---|---|---|---|---|")
    for name, keys, values, bits in KINDS:
        m.cached = lambda k, v, keys=keys, values=values: (keys(k), values(v))
        kl, same = [], []
        for w, t in zip(windows, want):
            z = log_softmax(m.forward(w, m.w)[0].astype(np.float64))
            kl.append((np.exp(t) * (t - z)).sum(-1))
            same.append(t.argmax(-1) == z.argmax(-1))
        b = np.mean(bits(m.dim))
        print(f"| {name} | {b:.2f} | {b / 16:.2f} | {np.mean(kl):.5f} | {100 * np.mean(same):.2f} |", flush=True)


if __name__ == "__main__":
    main()
