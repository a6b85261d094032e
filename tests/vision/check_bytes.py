#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_bytes.py TENON FOLDER PROFILE PLUGINS: convolutions and products of bytes, one after the other, with that profile and on
the host: all on the first plugin, and no code more than one off.

Every node reads what another one wrote in another form: int8 and uint8, images and rows, weights with one scale and with one per
channel. onnxruntime has no node of uint8 to int8, so that it is not asked. Needs numpy and onnx."""
import os
import subprocess
import sys

import numpy as np
from onnx import TensorProto as T
from onnx import helper, numpy_helper, save

U, I = np.uint8, np.int8


class Graph:
    def __init__(self):
        self.rng = np.random.default_rng(3)
        self.init, self.nodes, self.type, self.zero = [], [], {"x": U}, {"x": U(128)}

    def const(self, name, value):
        self.init.append(numpy_helper.from_array(np.asarray(value), name))
        return name

    def add(self, x, y, dims, kind, zero, per_channel, bias=True, **attrs):
        """y = x by a weight of these dims; two dims are a product."""
        product = len(dims) == 2
        n, k = (dims[1], dims[0]) if product else (dims[0], int(np.prod(dims[1:])))
        scale = np.float32(0.7 / (np.sqrt(k) * 40))
        w = self.rng.integers(-100, 100, dims) + (128 if kind is U else 0)
        values = [("xs", np.float32(0.03)), ("xz", self.zero[x]), ("w", w.astype(kind)),
                  ("ws", (scale * (0.5 + self.rng.random(n))).astype(np.float32) if per_channel else scale),
                  ("wz", np.zeros(n, kind) if per_channel else kind(131 if kind is U else 3)),
                  ("ys", np.float32(0.03)), ("yz", zero)]
        if bias and not product:
            values.append(("b", self.rng.integers(-2000, 2000, n).astype(np.int32)))
        self.type[y], self.zero[y] = type(zero), zero
        self.nodes.append(helper.make_node("QLinearMatMul" if product else "QLinearConv",
                                           [x] + [self.const(y + a, v) for a, v in values], [y], name=y, **attrs))

    def write(self, path, x_dims, outputs):
        of = {U: T.UINT8, I: T.INT8}
        info = [helper.make_tensor_value_info(v, of[self.type[v]], ["B", v + "1", v + "2", v + "3"]) for v in outputs]
        graph = helper.make_graph(self.nodes, "bytes", [helper.make_tensor_value_info("x", T.UINT8, ["B", *x_dims])], info, self.init)
        save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 19)], ir_version=8), path)


def main():
    tenon, folder, profile, plugins = sys.argv[1:]
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "bytes.onnx")
    g, pads, out = Graph(), {"pads": [1, 1, 1, 1]}, ["b", "e", "f", "j"]
    g.add("x", "a", (64, 3, 3, 3), I, U(117), True, strides=[2, 2], **pads)
    g.add("a", "b", (64, 1, 3, 3), I, I(-7), True, group=64, **pads)
    g.add("b", "c", (64, 64, 1, 1), U, I(5), False)
    g.add("b", "d", (64, 64, 1, 1), I, I(5), True, bias=False)  # the same value, in the other type
    g.add("c", "e", (48, 64, 3, 3), I, U(120), False, auto_pad="SAME_UPPER", strides=[2, 2])
    g.add("d", "f", (48, 32, 3, 3), I, U(120), True, dilations=[2, 2], pads=[2, 2, 2, 2], strides=[2, 2], group=2)
    g.add("c", "g", (16, 72), I, I(9), True)  # rows of what lies with its channels last
    g.add("g", "h", (72, 16), U, U(100), False)
    g.add("h", "j", (64, 64, 3, 3), I, U(128), True, **pads)  # images of what lies in rows
    g.write(path, (3, 32, 32), out)
    np.save(os.path.join(folder, "x.npy"), g.rng.integers(0, 256, (2, 3, 32, 32)).astype(U))
    host = os.path.join(folder, "host.yaml")
    with open(host, "w") as f:
        f.write("plugins: [host]\n")
    there = ["--profile", profile, "--plugin-dir", plugins]
    placed = subprocess.run([tenon, "check", "--all", path, *there], stdout=subprocess.PIPE, text=True, check=True).stdout
    if " host " in placed:
        sys.exit(placed)
    for side, options in (("plugin", there), ("host", ["--profile", host])):
        subprocess.run([tenon, "infer", path, "--in", f"x={folder}/x.npy", "--out", os.path.join(folder, side), *options],
                       stdout=subprocess.DEVNULL, check=True)
    for v in out:
        a, b = (np.load(os.path.join(folder, side, v + ".npy")).astype(np.int32) for side in ("plugin", "host"))
        print(f"{v}: {a.size} codes from {a.min()} to {a.max()}, {np.count_nonzero(a != b)} differ, by {np.abs(a - b).max()} at most")
        if np.abs(a - b).max() > 1 or np.ptp(b) < 100:
            sys.exit(1)


if __name__ == "__main__":
    main()
