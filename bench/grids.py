#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Grids, rotations and refinements that no plugin has, beside those of lev4, lev4s, lev3 and lev2: prints one table for each part.

  bench/grids.py [MODEL] [--part N]... [--texts FILE.json] [--rows 64] [--record 25]

Parts: 1 several tables, of which each block takes one; 2 scales that are sixteenths of one for 128 weights; 3 bits between those of
lev2, lev3 and lev4, and codes of pairs; 4 inputs turned by a Hadamard matrix; 5 rows' scales that are fitted again after GPTQ.
Weights are rounded with the search of plugins/common/formats/lev_fit.c, to tables that are trained here as bench/levels.py does.
Error: tr(dW H dW^T) / tr(W H W^T), --rows outputs of each product, geometric mean over products. H is of --record pieces of 320 tokens
of the texts that calibrate. KL: from the f32 model, all products replaced, by onnxruntime in f32. Each figure is of both draws of
bench/quality_table.py: the first 30 texts are scored and those from the 41st on calibrate; then the other way round. The model is a
Llama without biases (models/demo). Python with numpy, onnx, onnxruntime and tokenizers.
"""
import argparse
import json
import os

import numpy as np
import onnx
import onnxruntime
from tokenizers import Tokenizer

import levels
import palette
import quality_table

SCORED, CHARS, TOKENS, DAMP = 30, 1200, 320, 0.3
REACH = np.array([72, 84, 97, 110, 124, 138, 155, 175], np.float32) / 127  # where a block's largest weight is tried: lev_fit.c
NEAR = np.arange(-2, 3)
KINDS = ("q", "k", "v", "o", "gate", "up", "down", "head")


class Grid:
    """codes [n, vec]: the levels of each code, in units of a block's scale."""

    def __init__(self, codes):
        self.codes, self.vec, self.peak = codes.astype(np.float32), codes.shape[1], float(np.abs(codes).max())

    def nearest(self, y, codes=None):
        """The code of each of y [n, vec]; `codes` in place of the own ones, in the same order."""
        codes = self.codes if codes is None else codes
        if self.vec == 1:
            return np.searchsorted((codes[1:, 0] + codes[:-1, 0]) / 2, y[:, 0])
        across, half, best = np.ascontiguousarray(codes.T), (codes * codes).sum(1) / 2, np.empty(len(y), np.int64)
        for a in range(0, len(y), 256):  # 256: what stays in the processor's cache
            best[a:a + 256] = (y[a:a + 256] @ across - half).argmax(1)
        return best

    def round(self, x, scale):
        """x [n, block], scale [n]: the levels, and squared errors of blocks."""
        y = (x / scale[:, None]).reshape(-1, self.vec)
        q = self.codes[self.nearest(y)].reshape(x.shape)
        d = q * scale[:, None] - x
        return q, np.einsum("ij,ij->i", d, d)

    def best(self, x, scales):
        """Of scales [n, m]: those with the least error, the levels, the errors."""
        q, error = self.round(x, scales[:, 0])
        scale = scales[:, 0].copy()
        for s in scales.T[1:]:
            tried, e = self.round(x, s)
            at = e < error
            q[at], error[at], scale[at] = tried[at], e[at], s[at]
        return scale, q, error

    def free(self, x):
        """Scales and errors of blocks that take any scale."""
        most = np.maximum(np.abs(x).max(1), 1e-12) / self.peak
        scale, q, error = self.best(x, most[:, None] / REACH)
        fit = np.einsum("ij,ij->i", x, q) / np.maximum(np.einsum("ij,ij->i", q, q), 1e-12)
        return np.where((fit > most * 127 / 190) & (fit < most * 127 / 64), fit, scale), error


# Scales that blocks may take, near s [rows, blocks], below what their free scales `own` make the row's: [rows, blocks, 5].
def halving(per_octave, count):
    """Steps of 2^(-i / per_octave) below the row's scale, i < count."""
    def near(own, s):
        row = own.max(1, keepdims=True).astype(np.float16).astype(np.float32)
        i = np.rint(-per_octave * np.log2(s / row))[..., None] + NEAR
        return row[..., None] * 2 ** (-np.clip(i, 0, count - 1) / np.float32(per_octave)).astype(np.float32)
    return near


def sixteenths(logarithmic):
    """j / 16 of one scale for four blocks, j = 1 to 16; that one is a number of 16 bits, or 4 bits of steps below the row's."""
    def near(own, s):
        most = np.stack([own[:, i:i + 4].max(1) for i in range(0, own.shape[1], 4)], 1)
        if logarithmic:
            row = most.max(1, keepdims=True)
            most = row * 2 ** (-np.clip(np.floor(5 * np.log2(row / most)), 0, 15) / 5)
        parent = np.repeat(most, 4, 1)[:, :s.shape[1]].astype(np.float16).astype(np.float32)[..., None]
        return parent * np.clip(np.rint(16 * s[..., None] / parent) + NEAR, 1, 16).astype(np.float32) / 16
    return near


LEV = halving(5, 16)


def rounded(w, grids, block, near=LEV):
    """w [K, N] rounded: each block of a row takes the grid that leaves least error."""
    n = w.shape[1]
    x = np.ascontiguousarray(w.T).reshape(-1, block)
    scales, errors = zip(*(g.free(x) for g in grids))
    own = np.choose(np.argmin(errors, 0), scales).reshape(n, -1)
    out, least = np.empty_like(x), np.full(len(x), np.inf, np.float32)
    for g, s in zip(grids, scales):
        scale, q, error = g.best(x, near(own, s.reshape(n, -1)).reshape(len(x), -1))
        at = error < least
        out[at], least[at] = (q * scale[:, None])[at], error[at]
    return out.reshape(n, -1).T


def trained(folder, block, index, entries, bits=0, count=1, begin=None):
    """`count` grids that read `entries` entries by index [codes, vec]: k-means as in bench/levels.py, from its tables; each block
    belongs to the table that serves it best. Of two starts, blocks in the order of their largest weight or of their skewness, the better."""
    x = levels.blocks_of(folder, block).astype(np.float32)
    y = x.reshape(-1, index.shape[1])
    start, best = levels.begin(x, entries, bits) if begin is None else begin(y), (np.inf, None)
    for what in (np.abs(x).max(1), (x**3).mean(1))[:min(count, 2)]:
        own = np.argsort(np.argsort(what)) * count // len(x)
        tables = [start] * count
        for turn in range(40):
            at = [Grid(t[index]).nearest(y) for t in tables]
            q = [t[index[a]].reshape(x.shape) for t, a in zip(tables, at)]
            # The error that is left when the block's scale is fitted; of one table it does not choose.
            errors = np.stack([(x * x).sum(1) - (x * v).sum(1) ** 2 / (v * v).sum(1) for v in q])
            own = errors.argmin(0) if turn > 3 else own
            for t in range(count):
                flat, part = index[at[t].reshape(len(x), -1)[own == t]].reshape(-1), x[own == t].reshape(-1)
                n, total = np.bincount(flat, minlength=entries), np.bincount(flat, part, entries)
                tables[t] = np.where(n > 0, total / np.maximum(n, 1), tables[t])
        best = min(best, (float(errors.min(0).sum()), tables), key=lambda b: b[0])
    most = max(np.abs(t).max() for t in best[1])
    tables = [np.rint(t * 127 / most) / 127 for t in best[1]]
    return [Grid((np.sort(t) if index.shape[1] == 1 else t)[index]) for t in tables]


class Formats:
    """Grids by name, each trained once."""

    def __init__(self, folder):
        self.folder, self.known = folder, {}

    def grids(self, name, block=32, count=1):
        """name: lev5 (32 levels; only a yardstick), lev4, plain3, plain2, lev3, lev2, lev1, pairs, int4."""
        key = (name, block, count)
        if name == "int4":
            return [Grid((np.arange(16)[:, None] - 8) / 8)]
        if key not in self.known:
            bits, more = int(name[-1]) if name != "pairs" else 0, {}
            if name == "pairs":
                index, entries, more = np.arange(64).reshape(32, 2), 64, {"begin": lambda y: y[np.linspace(0, len(y) - 1, 32).astype(int)].reshape(-1)}
            elif name == "lev1":
                index, entries, more = levels.shared(4), 16, {"begin": lambda y: levels.of_starts(y[::8], levels.shared(4), 16, 4)[0]}
            elif name in ("lev3", "lev2"):
                index, entries = levels.window(bits, 4, 2 if bits == 3 else 4), 16
            else:
                index, entries = np.arange(2**bits)[:, None], 2**bits
            self.known[key] = trained(self.folder, block, index, entries, bits, count, **more)
        return self.known[key]


def attend(m, q, k, v):
    """What o reads, of pieces: q, k, v [pieces, T, channels]."""
    out, each = np.empty_like(q), m.heads // m.kv
    for p in range(len(q)):
        a, b = (m.rope(t[p].reshape(len(t[p]), -1, m.dim), 1).transpose(1, 0, 2) for t in (q, k))
        s = a @ np.repeat(b, each, 0).transpose(0, 2, 1) / np.float32(np.sqrt(m.dim))
        s = np.exp(np.where(np.tri(s.shape[1], dtype=bool), s - s.max(-1, keepdims=True), -np.inf))
        c = np.repeat(v[p].reshape(s.shape[1], -1, m.dim).transpose(1, 0, 2), each, 0)
        out[p] = (s / s.sum(-1, keepdims=True) @ c).transpose(1, 0, 2).reshape(s.shape[1], -1)
    return out


def walk(m, ids, w):
    """From product to product: names that share an input, that input, the residual stream. What the caller then puts into w, or into
    the input, is what later products see."""
    x = m.emb[ids]
    for i in range(m.layers):
        h = m.rms(x, m.norms[i][0])[0]
        yield [f"{i}.{n}" for n in "qkv"], h, x
        o = attend(m, *(h @ w[f"{i}.{n}"] for n in "qkv"))
        yield [f"{i}.o"], o, x
        x = x + o @ w[f"{i}.o"]
        h = m.rms(x, m.norms[i][1])[0]
        yield [f"{i}.gate", f"{i}.up"], h, x
        gate = h @ w[f"{i}.gate"]
        a = gate / (1 + np.exp(-gate)) * (h @ w[f"{i}.up"])
        yield [f"{i}.down"], a, x
        x = x + a @ w[f"{i}.down"]
    yield ["head"], m.rms(x, m.norm)[0], x


class Bench:
    def __init__(self, a):
        self.m, self.rows, self.formats = palette.Llama(a.model), a.rows, Formats(a.model)
        tok = Tokenizer.from_file(os.path.join(a.model, "tokenizer.json"))
        draws = quality_table.draws_of(json.load(open(a.texts, encoding="utf-8")), SCORED, CHARS).values()
        self.scored = [[np.array(tok.encode(t).ids[:TOKENS]) for t in scored] for scored, _ in draws]
        whole = [[t[i:i + TOKENS] for t in (tok.encode(t).ids for t in texts) for i in range(0, len(t) - TOKENS + 1, TOKENS)] for _, texts in draws]
        self.pieces = [np.array(p[::len(p) // a.record][:a.record]) for p in whole]
        self.session, self.base, self.h, self.x = self.onnx(os.path.join(a.model, "model.onnx")), None, [], {}
        print(f"{' and '.join(str(sum(map(len, s))) for s in self.scored)} tokens are scored, {self.pieces[0].size} recorded of each draw", flush=True)

    def onnx(self, path):
        """The model with weights of products as inputs."""
        model = onnx.load(path)
        g, self.names = model.graph, {}
        init = {i.name: i for i in g.initializer}
        products = (n for n in g.node if n.op_type == "MatMul" and n.input[1] in init and len(init[n.input[1]].dims) == 2)
        for node, key in zip(products, self.m.w):
            t = init[node.input[1]]
            self.names[key] = t.name
            g.initializer.remove(t)
            g.input.append(onnx.helper.make_tensor_value_info(t.name, t.data_type, t.dims))
        del g.output[1:]
        self.feeds = [i.name for i in g.input]
        o = onnxruntime.SessionOptions()
        o.intra_op_num_threads = o.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), o, ["CPUExecutionProvider"])

    def log_p(self, ids, w):
        n, past = len(ids), (1, self.m.kv, 0, self.m.dim)
        feed = {k: np.zeros(past, np.float32) for k in self.feeds if k.startswith("past")}
        feed |= {"input_ids": ids[None], "attention_mask": np.ones((1, n), np.int64), "position_ids": np.arange(n)[None]}
        feed |= {self.names[k]: np.ascontiguousarray(v, np.float32) for k, v in w.items()}
        return palette.log_softmax(self.session.run(["logits"], {k: feed[k] for k in self.feeds})[0][0])

    def kl(self, w, draws=(0, 1)):
        if self.base is None:
            self.base = [[self.log_p(t, self.m.w) for t in texts] for texts in self.scored]
        w = {k: np.ascontiguousarray(v, np.float32) for k, v in w.items()}
        return [sum(float((np.exp(b) * (b - self.log_p(t, w))).sum()) for t, b in zip(self.scored[d], self.base[d])) / sum(map(len, self.scored[d]))
                for d in draws]

    def record(self):
        """Of both draws H by product; of the first draw every fourth input."""
        for ids in () if self.h else self.pieces:
            h = {}
            for names, x, _ in walk(self.m, ids, self.m.w):
                x = x.reshape(-1, x.shape[-1])
                h |= dict.fromkeys(names, x.T @ x / len(x))
                if not self.h:
                    self.x |= dict.fromkeys(names, x[::4].copy())
            self.h.append(h)

    def some(self, name):
        w = self.m.w[name]
        return w[:, ::max(1, w.shape[1] // self.rows)][:, :self.rows]

    def errors(self, rounding, turns=None):
        """[draws, products]: logarithms of relative errors; turns: matrices that turn a product's inputs."""
        self.record()
        out = []
        for name in self.m.w:
            w = self.some(name)
            t = turns[name] if turns else None
            d = (t @ rounding(t.T @ w) if turns else rounding(w)) - w
            out.append([np.log((d * (h[name] @ d)).sum() / (w * (h[name] @ w)).sum()) for h in self.h])
        return np.array(out).T

    def whole(self, rounding):
        return {k: rounding(v) for k, v in self.m.w.items()}


def shown(values, digits=4):
    return ", ".join(f"{v:.{digits}f}" for v in values)


def table(header, rows):
    print("\n| " + " | ".join(header) + " |\n|" + "---|" * len(header), flush=True)
    for r in rows:
        print("| " + " | ".join(map(str, r)) + " |", flush=True)


def line(b):
    """Bits and log errors of formats with one table: what a mix of two neighbours costs lies on the line between them."""
    points = []
    for name, block, bits in (("lev1", 32, 1.625), ("lev2", 32, 2.125), ("lev3", 32, 3.125), ("lev4", 32, 4.125), ("lev4", 16, 4.25), ("lev5", 32, 5.125)):
        points.append((bits, *b.errors(lambda w, g=b.formats.grids(name, block), n=block: rounded(w, g, n)).mean(1)))
    return lambda bits: [np.interp(bits, [p[0] for p in points], [p[1 + d] for p in points]) for d in (0, 1)]


def row_of(b, at, what, bits, rounding, kl):
    """A format beside the mix of one-table formats with its bits."""
    e = b.errors(rounding).mean(1)
    return [what, f"{bits:.3f}", shown(np.exp(e), 5), shown(np.exp(e - at(bits)), 3), shown(b.kl(b.whole(rounding))) if kl else "-"]


HEADER = ("format", "bits", "error", "error beside a mix with those bits", "KL")


def tables(b):
    at = line(b)

    def rows():
        for name, bits, blocks in (("lev4", 4, (32, 16)), ("plain3", 3, (32,)), ("lev3", 3, (32, 16)), ("plain2", 2, (32,)), ("lev2", 2, (32, 16)),
                                   ("lev1", 1.5, (32,))):
            for block in blocks:
                for count in (1, 2, 4):
                    grids = b.formats.grids(name, block, count)
                    index = (count.bit_length() - 1) / block
                    yield row_of(b, at, f"{name}, blocks of {block}, tables: {count}", bits + 4 / block + index, lambda w: rounded(w, grids, block),
                                 block == 32 and name[:3] == "lev" and name != "lev1")
    table(HEADER, rows())


def shared_scales(b):
    at = line(b)

    def rows():
        for name in ("lev4", "int4"):
            for what, bits, near in (("steps below the row's scale", 4.125, LEV),
                                     ("sixteenths of a scale for 128, that in 4 bits below the row's", 4.15625, sixteenths(True)),
                                     ("sixteenths of a scale for 128, that in fp16", 4.25, sixteenths(False))):
                yield row_of(b, at, f"{name}, {what}", bits, lambda w: rounded(w, b.formats.grids(name), 32, near), True)
        yield row_of(b, at, "lev4s", 4.25, lambda w: rounded(w, b.formats.grids("lev4", 16), 16), True)
    table(HEADER, rows())


def mixed(b, bits, low, high, low_bits):
    """Weights of low and, one bit more, of high. High is for products whose error falls most a weight; for some rows of the last one."""
    gain = b.errors(low)[0], b.errors(high)[0]
    names = list(b.m.w)
    size = np.array([b.m.w[n].size for n in names])
    order = np.argsort(-(np.exp(gain[0]) - np.exp(gain[1])) / size)
    left, out = (bits - low_bits) * size.sum(), {}
    for i in order:
        w, rows = b.m.w[names[i]], int(min(left, size[i]) / size[i] * b.m.w[names[i]].shape[1])
        out[names[i]] = halves(w, low, high, np.arange(rows))
        left -= min(left, size[i])
    return out


def halves(w, low, high, rows):
    """[K, N] by low, but for some rows (columns of w) by high."""
    q = low(w)
    if len(rows):
        q[:, rows] = high(w[:, rows])
    return q


def between(b):
    at, fine = line(b), halving(32, 256)

    def of(name, block=32, near=LEV):
        return lambda w: rounded(w, b.formats.grids(name, block), block, near)

    def rows():
        for name, high, bits in (("lev2", "lev3", 2.125), ("lev3", "lev4", 3.125)):
            yield row_of(b, at, name, bits, of(name), True)
            yield row_of(b, at, f"{name}, scales of 8 bits (2^(-i/32))", bits + 0.125, of(name, 32, fine), True)
            yield row_of(b, at, f"{name}, blocks of 16", bits + 0.125, of(name, 16), True)
            yield [f"{name} and {high}, by products", f"{bits + 0.125:.3f}", "-", "1", shown(b.kl(mixed(b, bits + 0.125, of(name), of(high), bits)))]
        yield row_of(b, at, "pairs of 5 bits, 32 entries of two levels", 2.625, of("pairs"), True)
        yield ["lev2 and lev3, by products", "2.625", "-", "1", shown(b.kl(mixed(b, 2.625, of("lev2"), of("lev3"), 2.125)))]
        half = b.whole(lambda w: halves(w, of("lev2"), of("lev3"), np.arange(1, w.shape[1], 2)))
        yield ["lev2 and lev3, every second row", "2.625", "-", "1", shown(b.kl(half))]
    table(HEADER, rows())


def hadamard(K):
    """The widest whose blocks fill K, and log2 of a block."""
    n = K & -K
    h = np.ones((1, 1), np.float32)
    while len(h) < n:
        h = np.block([[h, h], [h, -h]])
    return np.kron(np.eye(K // n, dtype=np.float32), h / np.float32(np.sqrt(n))), n.bit_length() - 1


def int8_error(x, w, group):
    """Of the product, relative: inputs rounded to int8 with one scale for `group` of them."""
    q = np.empty_like(x)
    for a in range(0, x.shape[1], group):
        part = x[:, a:a + group]
        s = np.maximum(np.abs(part).max(1, keepdims=True), 1e-12) / 127
        q[:, a:a + group] = np.rint(part / s) * s
    return np.log((((q - x) @ w) ** 2).sum() / ((x @ w) ** 2).sum())


def rotations(b):
    b.record()
    turn = {k: hadamard(w.shape[0])[0] for k, w in b.m.w.items()}
    ratios, act = {}, {}
    names = np.array([k.split(".")[-1] for k in b.m.w])
    width_of = {k.split(".")[-1]: w.shape for k, w in b.m.w.items()}
    formats = {n: (lambda w, g=b.formats.grids(n): rounded(w, g, 32)) for n in ("lev4", "lev3", "lev2")}
    for n, f in formats.items():
        ratios[n] = b.errors(f, turn) - b.errors(f)
    for group in (32, 128):
        act[group] = np.array([[int8_error(b.x[k], b.some(k), group), int8_error(b.x[k] @ turn[k], turn[k].T @ b.some(k), group)] for k in b.m.w])

    def kinds():
        for kind in KINDS:
            K = width_of[kind][0]
            together = sum(width_of[k][1] for k in next((g for g in (("q", "k", "v"), ("gate", "up")) if kind in g), (kind,)))
            at = names == kind
            yield [kind, 1 << hadamard(K)[1], *(shown(np.exp(ratios[n][:, at].mean(1)), 3) for n in formats),
                   *(shown(1e6 * np.exp(act[g][at].mean(0)), 1) for g in act), f"{100 * hadamard(K)[1] / (2 * together):.2f} %"]
    table(("product", "turned in runs of", *(f"error turned / not, {n}" for n in formats),
           *(f"int8 inputs by {g}, error x 1e6: not, turned" for g in act), "additions"), kinds())

    def models():
        for n, f in formats.items():
            for what, kinds in (("nothing", ()), ("down", ("down",)), ("head", ("head",)), ("all", KINDS)):
                yield [n, what, shown(b.kl({k: turn[k] @ f(turn[k].T @ w) if k.split(".")[-1] in kinds else f(w) for k, w in b.m.w.items()}))]
    table(("format", "turned", "KL"), models())


def gptq(w, h, grid, block=32):
    """[K, N]: columns in their order, each code's errors spread over later ones; scales of blocks are searched on the way."""
    K, N = w.shape
    h = h.astype(np.float64) / np.diag(h).mean() + DAMP * np.eye(K)
    u = np.linalg.cholesky(np.linalg.inv(h)).T.astype(np.float32)
    v, q = np.ascontiguousarray(w.T), np.empty((N, K), np.float32)
    row = grid.free(v.reshape(-1, block))[0].reshape(N, -1).max(1, keepdims=True)
    for b in range(0, K, block):
        x, e = v[:, b:b + block], np.empty((N, block), np.float32)
        block_of = np.ascontiguousarray(x)
        scale = grid.best(block_of, LEV(row, grid.free(block_of)[0][:, None])[:, 0])[0][:, None]
        for k in range(0, block, grid.vec):
            at = slice(k, k + grid.vec)
            spread = np.linalg.inv(u[b + k:b + k + grid.vec, b + k:b + k + grid.vec])
            q[:, b + k:b + k + grid.vec] = level = grid.codes[grid.nearest(x[:, at] / scale @ spread, grid.codes @ spread)] * scale
            e[:, at] = (x[:, at] - level) @ spread
            x[:, k + grid.vec:] -= e[:, at] @ u[b + k:b + k + grid.vec, b + k + grid.vec:b + block]
        v[:, b + block:] -= e @ u[b:b + block, b + block:]
    return q.T


def inner(h, q, aim, tie=None):
    """A factor for each input of a product, least squares with a pull to 1: what the rows before it may take. tie: inputs that share one."""
    a, t = h * (q @ q.T), (q * aim).sum(1)
    if tie is not None:
        a, t = tie.T @ a @ tie, tie.T @ t
    pull = 0.03 * np.diag(a).mean() * np.eye(len(a))
    f = np.linalg.solve(a + pull, t + np.diag(pull))
    return (f if tie is None else tie @ f).astype(np.float32), f.astype(np.float32)


def solved(b, ids, grid, follow, against):
    """Weights by GPTQ, product by product; against: what rows' scales are then fitted to: "", own, block, inner."""
    m, w = b.m, dict(b.m.w)
    tie = np.kron(np.kron(np.eye(m.kv), np.ones((m.heads // m.kv, 1))), np.eye(m.dim)).astype(np.float32)
    for (names, x0, r0), (_, x, r) in zip(walk(m, ids, m.w), walk(m, ids, w)):
        x, x0, drift = (t.reshape(-1, t.shape[-1]) for t in (x, x0, r0 - r))
        h, cross = x.T @ x / len(x), x.T @ x0 / len(x)
        into_stream = names[0].split(".")[-1] in ("o", "down")
        rest = x.T @ drift / len(x) if into_stream else 0
        damped = h + DAMP * np.diag(h).mean() * np.eye(len(h), dtype=np.float32)
        for n in names:
            aim = cross @ m.w[n]  # what x tells of the float product's output
            full = aim + rest     # and of the residual stream's drift
            q = gptq(m.w[n] + np.linalg.solve(damped, full - h @ m.w[n]) if follow else m.w[n], h, grid)
            if against == "inner" and into_stream:
                layer = n.split(".")[0]
                f, own = inner(h, q, full, tie if n.endswith(".o") else None)
                x *= f
                w[layer + (".v" if n.endswith(".o") else ".up")] *= own
                h, full = h * f * f[:, None], full * f[:, None]
            to = full if against in ("block", "inner") else aim
            if against:
                q = q * ((q * to).sum(0) / np.maximum((q * (h @ q)).sum(0), 1e-20)).astype(np.float32)
            w[n] = q
    return w


def refinements(b):
    def rows():
        for name in ("lev3", "lev2"):
            grid = b.formats.grids(name)[0]
            yield [name, "rounding", "-", shown(b.kl(b.whole(lambda w: rounded(w, [grid], 32))))]
            for follow in (False, True):
                for against, what in (("", "-"), ("own", "the product's output (a)"), ("block", "the block's output (b)"),
                                      ("inner", "the block's output (b), rows of v and up too"))[:3 if follow else 4]:
                    yield [name, "GPTQ, aim follows the float model" if follow else "GPTQ", what,
                           shown(b.kl(solved(b, b.pieces[d], grid, follow, against), [d])[0] for d in (0, 1))]
    table(("format", "codes", "rows' scales fitted to", "KL"), rows())


PARTS = {1: tables, 2: shared_scales, 3: between, 4: rotations, 5: refinements}


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("model", nargs="?", default=os.path.join(palette.ROOT, "models", "demo"))
    p.add_argument("--part", type=int, action="append", choices=PARTS)
    p.add_argument("--texts", default=os.path.join(palette.ROOT, "models", "train", "valid.json"))
    p.add_argument("--rows", type=int, default=64)
    p.add_argument("--record", type=int, default=25)
    a = p.parse_args()
    b = Bench(a)
    for n in a.part or PARTS:
        print(f"\nPart {n}")
        PARTS[n](b)


if __name__ == "__main__":
    main()
