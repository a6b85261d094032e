#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Bits per weight of packed bytes, beside what codes and scales alone take.

  bench/padding.py TENON [FORMAT...]

For each weight format, two models' products: those of models/demo and of a Llama of 1.1B weights. Bits depend on K alone
where N is a multiple of 16, so that of each K a matrix of 64 rows is packed (tenon pack --report). `stated` are codes,
scales and zero points, scales of rows included, without a byte to fill up. Python with numpy and onnx.
"""
import json
import os
import subprocess
import sys
import tempfile

# Weights by K, of one layer and of the head.
SHAPES = {"demo": {256: 6 * (256 * (256 + 128 + 128 + 256) + 2 * 256 * 704) + 4096 * 256, 704: 6 * 256 * 704},
          "1.1B": {2048: 22 * (2048 * (2048 + 256 + 256 + 2048) + 2 * 2048 * 5632) + 32000 * 2048, 5632: 22 * 2048 * 5632}}
ROWS = 64


def per_block(bits, block, row=0):
    return lambda k: bits + row / k + -(-k // block) / k * (4 if row else 16)


# What codes and scales take at a K.
STATED = {"w4g:32": per_block(4, 32), "w4g:128": per_block(4, 128), "lev4s": per_block(4, 16, 16), "lev4": per_block(4, 32, 16),
          "lev3": per_block(3, 32, 16), "lev2": per_block(2, 32, 16), "lev1": per_block(1.5, 32, 16), "w8g": per_block(8, 128),
          "w3g": per_block(3, 128), "w2g": per_block(2, 128), "w1g": per_block(1, 128), "lut4": per_block(4, 128),
          "lut3": per_block(3, 128), "lut2": per_block(2, 128), "lut1": per_block(1, 128), "lutt": per_block(2, 128),
          "tern20": lambda k: 2 + 32 / k, "tern17": lambda k: 5 / 3 + 32 / k, "pal16": lambda k: 4 + 32 / k + 128 / ROWS / k,
          "grid8:32,16,0": per_block(8, 32), "grid4:32,16,0": per_block(4, 32), "grid4:16,16,0": per_block(4, 16),
          "grid2:32,16,8": lambda k: 2 + -(-k // 32) / k * 24}


def make(path, every_k):
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper, save
    rng = np.random.default_rng(1)
    weights = [numpy_helper.from_array(rng.standard_normal((k, ROWS)).astype(np.float32), f"k{k}") for k in every_k]
    io = [[helper.make_tensor_value_info(f"{n}{k}", TensorProto.FLOAT, [1, size or k]) for k in every_k] for n, size in (("x", 0), ("y", ROWS))]
    nodes = [helper.make_node("MatMul", [f"x{k}", f"k{k}"], [f"y{k}"]) for k in every_k]
    save(helper.make_model(helper.make_graph(nodes, "g", *io, weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def packed_bits(tenon, model, weight_format):
    """Of each K."""
    got = subprocess.run([tenon, "pack", model, "--report", "--weights", weight_format, "--format", "json"],
                         capture_output=True, text=True, check=False)
    if not got.stdout:
        sys.exit(f"{weight_format}: {got.stderr.strip()}")
    j = json.loads(got.stdout)
    return {t["K"]: 8 * t["bytes"] / t["N"] / t["K"] for t in j.get("tensors", [])}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    every_k = sorted({k for s in SHAPES.values() for k in s})
    header = ["format", *(f"{n}, {what}" for n in SHAPES for what in ("stated", "packed", "more"))]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header))
    with tempfile.TemporaryDirectory() as tmp:
        model = os.path.join(tmp, "k.onnx")
        make(model, every_k)
        for f in sys.argv[2:] or STATED:
            bits, stated = packed_bits(sys.argv[1], model, f), STATED[f]
            cells = []
            for shape in SHAPES.values():
                n = sum(shape.values())
                a, b = (sum(w * of(k) for k, w in shape.items()) / n for of in (stated, bits.get))
                cells += [a, b, b - a]
            print(f"| `{f}` | " + " | ".join(f"{abs(c):.3f}" for c in cells) + " |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
