#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sixteen levels for a whole matrix, step by step: what weights of elements, rows' scales and shifted inputs give.

  bench/palette.py [--model DIR] [--texts FILE.json] [--score N] [--record N] [--check]

Rows: plain least squares; elements weighed by the mean square of their input (the activation proxy) or by Fisher information (the mean
squared gradient of the loss over the recorded pieces, words drawn by the model); each output's weights divided by their
standard deviation; inputs without their means, what that takes given back by the unquantized weights. Levels are the exact optimum of a
histogram of 1,024 bins, refined on the weights, in f16. The model is a Llama without biases (models/demo): forward and backward pass
are here, in numpy; --check compares gradients with differences. Scored are the first 30 texts of models/train/valid.json, each cut at
1,200 characters and 320 tokens; recorded are the texts from the 40th on, in pieces of 320 tokens. Python with numpy, onnx and tokenizers.
"""
import argparse
import json
import os

import numpy as np
import onnx
from tokenizers import Tokenizer

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKENS, CHARS, BINS, LEVELS = 320, 1200, 1024, 16


class Llama:
    """Weights as [K,N]; forward keeps what backward needs. cached(keys, values), both [T,heads,dim], gives what attention reads."""

    @staticmethod
    def cached(k, v):
        return k, v

    def __init__(self, folder):
        g = onnx.load(os.path.join(folder, "model.onnx")).graph
        init = {i.name: onnx.numpy_helper.to_array(i) for i in g.initializer}
        c = json.load(open(os.path.join(folder, "config.json"), encoding="utf-8"))
        self.layers, self.heads, self.kv = c["num_hidden_layers"], c["num_attention_heads"], c["num_key_value_heads"]
        self.dim, self.eps = c["head_dim"], c["rms_norm_eps"]
        self.freq = c["rope_theta"] ** (-np.arange(0, self.dim, 2, dtype=np.float32) / self.dim)
        self.emb, self.norm = init["model.embed_tokens.weight"], init["model.norm.weight"]
        self.norms = [[init[f"model.layers.{i}.{n}_layernorm.weight"] for n in ("input", "post_attention")] for i in range(self.layers)]
        self.w = {}
        for n in g.node:
            if n.op_type == "MatMul" and n.input[1] in init and init[n.input[1]].ndim == 2:
                part = n.name.split("/")
                at = next((p for p in part if p.startswith("layers.")), None)
                self.w[f"{at[7:]}.{part[-2][:-5]}" if at else "head"] = init[n.input[1]]

    def rope(self, x, sign):
        """x [T,heads,dim]; sign -1: the transposed turn."""
        a = np.arange(x.shape[0], dtype=np.float32)[:, None] * self.freq
        cos, sin, h = np.cos(a)[:, None], sign * np.sin(a)[:, None], self.dim // 2
        return np.concatenate([x[..., :h] * cos - x[..., h:] * sin, x[..., h:] * cos + x[..., :h] * sin], -1)

    def rms(self, x, weight):
        r = 1 / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps)
        return x * r * weight, r

    def rms_back(self, d, x, r, weight):
        d = d * weight
        return r * (d - x * r * r * (d * x).mean(-1, keepdims=True))

    def forward(self, ids, w, bias=None):
        """Logits, inputs of the products, and the rest that backward reads."""
        x, ins, kept = self.emb[ids], {}, []
        T, each = len(ids), self.heads // self.kv

        def product(name, v):
            ins[name] = v
            return v @ w[name] + (bias[name] if bias else 0)
        for i in range(self.layers):
            h, r1 = self.rms(x, self.norms[i][0])
            q, k, v = (product(f"{i}.{n}", h).reshape(T, -1, self.dim) for n in "qkv")
            q, k = self.rope(q, 1), self.rope(k, 1)
            k, v = self.cached(k, v)
            kr, vr = np.repeat(k, each, 1), np.repeat(v, each, 1)
            s = np.einsum("thd,shd->hts", q, kr) / np.float32(np.sqrt(self.dim))
            s = np.where(np.tri(T, dtype=bool), s, np.float32(-1e30))
            p = np.exp(s - s.max(-1, keepdims=True))
            p /= p.sum(-1, keepdims=True)
            o = np.einsum("hts,shd->thd", p, vr).reshape(T, -1)
            mid = x + product(f"{i}.o", o)
            h, r2 = self.rms(mid, self.norms[i][1])
            gate, up = product(f"{i}.gate", h), product(f"{i}.up", h)
            sig = 1 / (1 + np.exp(-gate))
            kept.append((x, r1, q, kr, vr, p, mid, r2, gate, up, sig))
            x = mid + product(f"{i}.down", gate * sig * up)
        h, r = self.rms(x, self.norm)
        return product("head", h), ins, (kept, x, r)

    def backward(self, d, w, kept):
        """Gradients of the products' outputs from that of the logits."""
        kept, x, r = kept
        out, each = {"head": d}, self.heads // self.kv
        T = d.shape[0]
        d = self.rms_back(d @ w["head"].T, x, r, self.norm)
        for i in reversed(range(self.layers)):
            x, r1, q, kr, vr, p, mid, r2, gate, up, sig = kept[i]
            out[f"{i}.down"] = d
            a = d @ w[f"{i}.down"].T
            out[f"{i}.up"] = a * gate * sig
            out[f"{i}.gate"] = a * up * sig * (1 + gate * (1 - sig))
            d = d + self.rms_back(out[f"{i}.gate"] @ w[f"{i}.gate"].T + out[f"{i}.up"] @ w[f"{i}.up"].T, mid, r2, self.norms[i][1])
            out[f"{i}.o"] = d
            o = (d @ w[f"{i}.o"].T).reshape(T, self.heads, self.dim)
            dv = np.einsum("hts,thd->shd", p, o)
            dp = np.einsum("thd,shd->hts", o, vr)
            ds = p * (dp - (dp * p).sum(-1, keepdims=True)) / np.float32(np.sqrt(self.dim))
            dq, dk = np.einsum("hts,shd->thd", ds, kr), np.einsum("hts,thd->shd", ds, q)
            dk, dv = (t.reshape(T, self.kv, each, self.dim).sum(2) for t in (dk, dv))
            dq, dk = self.rope(dq, -1), self.rope(dk, -1)
            h = 0
            for n, t in zip("qkv", (dq, dk, dv)):
                out[f"{i}.{n}"] = t.reshape(T, -1)
                h = h + out[f"{i}.{n}"] @ w[f"{i}.{n}"].T
            d = d + self.rms_back(h, x, r1, self.norms[i][0])
        return out


def log_softmax(x):
    x = x - x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def record(m, pieces):
    """Of each product: squares and means of inputs, mean squared gradient of each weight."""
    rng, square, mean, fisher, n = np.random.default_rng(1), {}, {}, {}, 0
    for ids in pieces:
        z, ins, kept = m.forward(ids, m.w)
        p = np.exp(log_softmax(z))
        drawn = (p.cumsum(-1) < rng.random((len(ids), 1))).sum(-1).clip(max=p.shape[1] - 1)
        p[np.arange(len(ids)), drawn] -= 1
        for name, d in m.backward(p, m.w, kept).items():
            x = ins[name]
            for into, v in ((square, (x * x).sum(0)), (mean, x.sum(0)), (fisher, (x.T @ d) ** 2)):
                into[name] = into.get(name, 0) + v
        n += len(ids)
    return {k: v / n for k, v in square.items()}, {k: v / n for k, v in mean.items()}, fisher


def levels_of(w, weight):
    """The values of w brought to 16 levels of least weighted squared error."""
    lo, hi = float(w.min()), float(w.max())
    at = np.minimum(((w - lo) * (BINS / (hi - lo))).astype(np.int64), BINS - 1)
    c, s = (np.concatenate([[0], np.bincount(at, v, BINS).cumsum()]) for v in (weight, weight * w))
    count, total = c[None] - c[:, None], s[None] - s[:, None]
    gain = np.where(count > 0, total * total / np.where(count > 0, count, 1), 0)  # of bins [i, j): what their mean saves
    gain[np.tri(BINS + 1, k=-1, dtype=bool)] = -np.inf
    best, cuts = gain[0], []
    for _ in range(LEVELS - 1):
        both = best[:, None] + gain
        cuts.append(both.argmax(0))
        best = both.max(0)
    edges, j = [], BINS
    for cut in reversed(cuts):
        j = cut[j]
        edges.append(j)
    edges = lo + (hi - lo) / BINS * np.array(edges[::-1], np.float64)
    for _ in range(12):
        code = np.searchsorted(edges, w)
        of, sums = np.bincount(code, weight, LEVELS), np.bincount(code, weight * w, LEVELS)
        level = np.where(of > 0, sums / np.where(of > 0, of, 1), np.concatenate([[lo], edges]))
        edges = (level[1:] + level[:-1]) / 2
    return level.astype(np.float16).astype(np.float32)[np.searchsorted(edges, w)]


def palettize(w, weight, scaled):
    s = w.std(0) if scaled else np.ones(w.shape[1], np.float32)
    weight = np.broadcast_to(weight, w.shape) * s * s
    return levels_of((w / s).ravel().astype(np.float64), (weight / weight.mean() + 1e-6).ravel().astype(np.float64)).reshape(w.shape) * s


def check(m, ids):
    """The backward pass beside differences of the loss."""
    m.emb, ids = m.emb.astype(np.float64), ids[:24]
    w = {k: v.astype(np.float64) for k, v in m.w.items()}
    z, ins, kept = m.forward(ids, w)
    d = np.exp(log_softmax(z))
    d[np.arange(len(ids)), ids] -= 1
    grad = {k: ins[k].T @ g for k, g in m.backward(d, w, kept).items()}
    worst, rng = 0, np.random.default_rng(2)
    for name in w:
        k, n = rng.integers(w[name].shape[0]), rng.integers(w[name].shape[1])
        loss = []
        for by in (1e-4, -1e-4):
            w[name][k, n] += by
            loss.append(-log_softmax(m.forward(ids, w)[0])[np.arange(len(ids)), ids].sum())
            w[name][k, n] -= by
        want = (loss[0] - loss[1]) / 2e-4
        worst = max(worst, abs(grad[name][k, n] - want) / (abs(want) + 1e-3))
    print(f"gradients beside differences: at most {worst:.1e} off")
    return 0 if worst < 1e-3 else 1


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("--model", default=os.path.join(ROOT, "models", "demo"))
    p.add_argument("--texts", default=os.path.join(ROOT, "models", "train", "valid.json"))
    p.add_argument("--score", type=int, default=30)
    p.add_argument("--record", type=int, default=100)
    p.add_argument("--check", action="store_true")
    a = p.parse_args()
    m, tok = Llama(a.model), Tokenizer.from_file(os.path.join(a.model, "tokenizer.json"))
    texts = json.load(open(a.texts, encoding="utf-8"))
    scored = [np.array(tok.encode(t[:CHARS]).ids[:TOKENS]) for t in texts[:a.score]]
    if a.check:
        return check(m, scored[0])
    ids = [tok.encode(t).ids for t in texts[40:]]
    pieces = [np.array(t[i:i + TOKENS]) for t in ids for i in range(0, len(t), TOKENS)][:a.record]
    base = [log_softmax(m.forward(t, m.w)[0]) for t in scored]
    square, mean, fisher = record(m, pieces)
    ones = {k: np.ones(1, np.float32) for k in m.w}
    proxy = {k: v[:, None] for k, v in square.items()}
    print(f"{sum(map(len, scored))} tokens are scored, {sum(map(len, pieces))} recorded in {len(pieces)} pieces\n")
    print("| elements weighed by | outputs scaled | inputs shifted | KL | perplexity |\n|" + "---|" * 5, flush=True)
    for name, weight, scaled, shifted in (
            ("nothing", ones, 0, 0), ("nothing", ones, 1, 0), ("mean square of the input", proxy, 0, 0), ("Fisher information", fisher, 0, 0),
            ("mean square of the input", proxy, 1, 0), ("Fisher information", fisher, 1, 0), ("mean square of the input", proxy, 1, 1),
            ("Fisher information", fisher, 1, 1)):
        w = {k: palettize(v, weight[k], scaled) for k, v in m.w.items()}
        bias = {k: mean[k] @ (m.w[k] - w[k]) for k in w} if shifted else None
        kl = nll = tokens = 0
        for t, b in zip(scored, base):
            y = log_softmax(m.forward(t, w, bias)[0])
            kl += float((np.exp(b) * (b - y)).sum())
            nll -= float(y[np.arange(len(t) - 1), t[1:]].sum())
            tokens += len(t)
        print(f"| {name} | {'yes' if scaled else 'no'} | {'yes' if shifted else 'no'} | {kl / tokens:.4f} | "
              f"{np.exp(nll / (tokens - len(scored))):.3f} |", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
