#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a single-file ONNX model with random weights: a chain of MatMuls. Needs Python's standard library only.

make_big_onnx.py OUT.onnx [--mib 1024] [--dim 4096] [--seed 1]

The model: x [n, dim] f32 -> MatMul with w_i [dim, dim] -> Tanh -> ... -> y. Weights are about uniform in
+-sqrt(3 / dim), so that activations neither die nor grow. Written message by message: memory stays small.
"""
import argparse
import array
import random


def varint(v):
    out = bytearray()
    while v > 0x7F:
        out.append(v & 0x7F | 0x80)
        v >>= 7
    out.append(v)
    return bytes(out)


def number(field, v):
    return varint(field << 3) + varint(v)


def data(field, b):
    return varint(field << 3 | 2) + varint(len(b)) + b


def text(field, s):
    return data(field, s.encode())


def value(name, dims):
    shape = b"".join(data(1, text(2, d) if isinstance(d, str) else number(1, d)) for d in dims)
    return text(1, name) + data(2, data(1, number(1, 1) + data(2, shape)))


def node(kind, name, inputs, output):
    return b"".join(text(1, i) for i in inputs) + text(2, output) + text(3, name) + text(4, kind)


def weights(rng, n_bytes, limit):
    """Pieces of 1 MiB: one random block, rotated anew for each."""
    block = array.array("f", (rng.uniform(-limit, limit) for _ in range(1 << 18))).tobytes()
    while n_bytes > 0:
        at = rng.randrange(1 << 18) * 4
        piece = block[at:] + block[:at]
        yield piece[:n_bytes]
        n_bytes -= len(piece)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--mib", type=int, default=1024)
    p.add_argument("--dim", type=int, default=4096)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    rng, size = random.Random(a.seed), a.dim * a.dim * 4
    layers = max(1, (a.mib << 20) // size)
    head = number(1, a.dim) + number(1, a.dim) + number(2, 1)
    heads, tail, x = [], b"", "x"
    for i in range(layers):
        t = head + text(8, f"w{i}") + varint(9 << 3 | 2) + varint(size)
        heads.append(varint(5 << 3 | 2) + varint(len(t) + size) + t)
        y = "y" if i + 1 == layers else f"t{i}"
        tail += data(1, node("MatMul", f"matmul{i}", [x, f"w{i}"], f"m{i}"))
        tail += data(1, node("Tanh", f"tanh{i}", [f"m{i}"], y))
        x = y
    tail += text(2, "big") + data(11, value("x", ["n", a.dim])) + data(12, value("y", ["n", a.dim]))
    graph = sum(len(h) + size for h in heads) + len(tail)
    with open(a.out, "wb") as f:
        f.write(number(1, 8) + data(8, text(1, "") + number(2, 17)) + varint(7 << 3 | 2) + varint(graph))
        for h in heads:
            f.write(h)
            for piece in weights(rng, size, (3 / a.dim) ** 0.5):
                f.write(piece)
        f.write(tail)
    print(f"{a.out}: {layers} layers, {layers * size >> 20} MiB of weights")


main()
