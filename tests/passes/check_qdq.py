# SPDX-License-Identifier: Apache-2.0
"""Quantized graphs with the pass qdq against the same graph without it, and against onnxruntime without optimizations.

    check_qdq.py TENON

Random cases of every form that the pass knows: operators between DequantizeLinear and QuantizeLinear, with every mix of int8
and uint8, scales per tensor and per channel, zero points, biases. What the pass says keeps every bit must; codes of products
and means may differ by one, and only where the exact value (in double) lies within rounding of a tie. Every form must have
fired. TENON_TEST_SEED=N tries other numbers. Exit 77 where a package is missing.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper
    import onnxruntime as ort
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

SEED = int(os.environ.get("TENON_TEST_SEED", "1"))
TYPES = {np.int8: TensorProto.INT8, np.uint8: TensorProto.UINT8}


class Case:
    """A graph in the making: floats in, codes out of the last QuantizeLinear, then DequantizeLinear."""

    def __init__(self, rng):
        self.rng, self.nodes, self.weights, self.inputs, self.feeds, self.n = rng, [], [], [], {}, 0

    def name(self):
        self.n += 1
        return f"v{self.n}"

    def const(self, array):
        name = self.name()
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def op(self, kind, *inputs, outs=1, **attrs):
        names = [self.name() for _ in range(outs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, **attrs))
        return names[0] if outs == 1 else names

    def dtype(self):
        return self.rng.choice([np.int8, np.uint8])

    def grid(self, low, high, dtype=None):
        """scale, zero point for values of about this range."""
        dtype = dtype or self.dtype()
        info = np.iinfo(dtype)
        scale = np.float32((high - low) / 255)
        zero = np.clip(np.rint(info.min - low / scale), info.min, info.max).astype(dtype)
        return self.const(scale if self.rng.integers(2) else scale.reshape(1)), (scale, zero)

    def params(self, low, high, dtype=None):
        s, (scale, zero) = self.grid(low, high, dtype)
        if zero == 0 and zero.dtype == np.uint8 and self.rng.integers(2):
            return s, ""  # left out: 0, uint8
        ranked = [w for w in self.weights if w.name == s][0].dims
        return s, self.const(zero.reshape(1) if ranked else zero)

    def quantize(self, x, low, high, dtype=None):
        s, z = self.params(low, high, dtype)
        return self.op("QuantizeLinear", x, s, *([z] if z else [])), s, z

    def pair(self, x, low, high, dtype=None):
        q, s, z = self.quantize(x, low, high, dtype)
        return self.op("DequantizeLinear", q, s, *([z] if z else []))

    def input(self, *dims, low=-3.0, high=3.0, **kw):
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, dims))
        self.feeds[name] = self.rng.uniform(low * 1.1, high * 1.1, dims).astype(np.float32)
        return self.pair(name, low, high, **kw)

    def weight(self, dims, axis, per=None):
        """DequantizeLinear of constant codes."""
        dtype = self.dtype()
        info = np.iinfo(dtype)
        codes = self.rng.integers(info.min, info.max + 1, dims).astype(dtype)
        per = bool(self.rng.integers(2)) if per is None else per
        n = dims[axis] if per else 1
        scale = (self.rng.uniform(0.5, 1.5, n) / 128).astype(np.float32)
        zero = self.rng.integers(info.min // 8, info.max // 8 + 1, n).astype(dtype)
        one = not per and self.rng.integers(2)
        inputs = [self.const(codes), self.const(scale[0] if one else scale)]
        if self.rng.integers(3):
            inputs.append(self.const(zero[0] if one else zero))
        attrs = {"axis": axis - len(dims) if self.rng.integers(2) else axis} if per else {}
        return self.op("DequantizeLinear", *inputs, **attrs), scale

    def bias(self, n, unit, dims=None):
        """As quantizers write it (int32 in units of the products), or as floats."""
        codes = self.rng.integers(-9000, 9000, n).astype(np.int32)
        unit = (np.broadcast_to(np.float32(unit), n)).astype(np.float32)
        if self.rng.integers(2) or dims:
            v = (codes * unit).astype(np.float32)
            return self.const(v.reshape(dims) if dims else v)
        if len(set(unit)) == 1:
            return self.op("DequantizeLinear", self.const(codes), self.const(unit[0]))
        return self.op("DequantizeLinear", self.const(codes), self.const(unit), axis=0)

    def scale_of(self, x):
        node = [n for n in self.nodes if n.output[0] == x][0]
        return float(numpy_helper.to_array([w for w in self.weights if w.name == node.input[1]][0]).reshape(-1)[0])

    def save(self, path, y):
        self.outputs = y
        g = helper.make_graph(self.nodes, "g", self.inputs,
                              [helper.make_tensor_value_info(v, TensorProto.FLOAT, None) for v in y], self.weights)
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
        m = onnx.shape_inference.infer_shapes(m)
        onnx.save(m, path)


def act(c, x):
    k = c.rng.integers(4)
    if k == 1:
        return c.op("Relu", x)
    if k == 2:
        return c.op("Clip", x, c.const(np.float32(-0.5)), c.const(np.float32(1.5)))
    if k == 3:
        return c.op("Clip", c.op("Relu", x), "", c.const(np.float32(2)))
    return x


def conv(c):
    rank = int(c.rng.choice([1, 2, 2, 2, 3]))
    groups = int(c.rng.integers(1, 4))
    depthwise = c.rng.integers(2)
    cin = groups if depthwise else groups * int(c.rng.integers(1, 7))
    cout = groups * int(c.rng.integers(1, 6))
    k = [int(v) for v in c.rng.integers(1, 4, rank)]
    d = [int(v) for v in c.rng.integers(1, 3, rank)]
    size = [int(v) for v in c.rng.integers(5, 13, rank)]
    x = c.input(int(c.rng.integers(1, 3)), cin, *size)
    w, scale = c.weight((cout, cin // groups, *k), 0)
    ins = [x, w]
    if c.rng.integers(3):
        ins.append(c.bias(cout, c.scale_of(x) * scale))
    pads = [int(v) for v in c.rng.integers(0, 3, 2 * rank)]
    y = c.op("Conv", *ins, kernel_shape=k, dilations=d, group=groups, strides=[int(v) for v in c.rng.integers(1, 3, rank)],
             pads=pads)
    width = 1 + np.sqrt(cin // groups * np.prod(k))
    return act(c, y), width, 1


def gemm(c):
    m, k, n = (int(v) for v in c.rng.integers(1, 40, 3))
    turned = int(c.rng.integers(2))
    x = c.input(m, k)
    w, scale = c.weight((n, k) if turned else (k, n), 0 if turned else 1)
    ins = [x, w]
    if c.rng.integers(3):
        ins.append(c.bias(n, c.scale_of(x) * scale, (1, n) if c.rng.integers(3) == 0 else None))
    return act(c, c.op("Gemm", *ins, transB=turned)), 1 + np.sqrt(k), 1


def matmul(c):
    m, k, n = (int(v) for v in c.rng.integers(1, 40, 3))
    x = c.input(2, m, k)
    w, scale = c.weight((k, n), 1)
    y = c.op("MatMul", x, w)
    if c.rng.integers(2):
        b = c.bias(n, c.scale_of(x) * scale)
        y = c.op("Add", *((y, b) if c.rng.integers(2) else (b, y)))
    return act(c, y), 1 + np.sqrt(k), 1


def attention(c):
    x, y = c.input(2, 3, 7, 19), c.input(2, 1, 19, 9)
    return c.op("MatMul", x, y), 12, 1


def binary(c):
    kind = str(c.rng.choice(["Add", "Sub", "Mul", "Div"]))
    dims = [(2, 5, 7), (2, 5, 7)] if c.rng.integers(2) else [(2, 1, 7), (5, 1)]
    x, y = c.input(*dims[0]), c.input(*dims[1], low=0.5 if kind == "Div" else -3.0)
    if c.rng.integers(3) == 0:
        y = c.op("DequantizeLinear", c.const(c.rng.integers(1, 99, dims[1]).astype(np.int8)), c.const(np.float32(0.02)))
    return act(c, c.op(kind, x, y)), 6, 0


def pool(c):
    x = c.input(2, 5, int(c.rng.integers(1, 20)), 7)
    k = c.rng.integers(3)
    if k == 0:
        return act(c, c.op("GlobalAveragePool", x)), 1.5, 1
    return act(c, c.op("ReduceMean", x, axes=[2, 3] if k == 1 else [-1, -2], keepdims=int(c.rng.integers(2)))), 1.5, 1


def move(c):
    x = c.input(2, 6, 5, 4)
    k = c.rng.integers(6)
    if k == 0:
        x = c.op("Transpose", x, perm=[0, 2, 3, 1])
    elif k == 1:
        x = c.op("Reshape", x, c.const(np.array([0, -1, 3], np.int64)))
    elif k == 2:
        x = c.op("MaxPool", x, kernel_shape=[3, 2], pads=[1, 1, 1, 0], strides=[2, 1])
    elif k == 3:
        x = c.op("Slice", x, c.const(np.array([1], np.int64)), c.const(np.array([5], np.int64)), c.const(np.array([1], np.int64)))
    elif k == 4:
        x = c.op("Flatten", x, axis=2)
    if c.rng.integers(2):
        x = c.op("Flatten", c.op("Transpose", x))
    return x, 3, 0


def concat(c):
    parts = [c.input(2, int(n), 3, low=-2, high=float(h)) for n, h in zip(c.rng.integers(1, 5, 3), (1, 2, 5))]
    return c.op("Concat", *parts, axis=int(c.rng.choice([1, -2]))), 3, 0


def function(c):
    x = c.input(3, 21)
    k = c.rng.integers(6)
    if k == 0:
        y = c.op("Sigmoid", x)
    elif k == 1:
        y = c.op("HardSwish", x)
    elif k == 2:
        y = c.op("Mul", x, c.op("Sigmoid", x))
    elif k == 3:
        half = c.op("Mul", x, c.const(np.float32(0.5)))
        erf = c.op("Erf", c.op("Div", x, c.const(np.float32(np.sqrt(2)))))
        y = c.op("Mul", half, c.op("Add", erf, c.const(np.float32(1))))
    elif k == 4:
        y = c.op("LeakyRelu", c.op("Clip", x, c.const(np.float32(-2)), ""), alpha=0.1)
    else:
        y = c.op("Tanh", c.op("Reshape", x, c.const(np.array([7, 9], np.int64))))
    return y, 2, 0


def chain(c):
    """A piece of a network: convolution, depthwise, residual, mean, product."""
    x = c.input(1, 8, 9, 9)
    w, s = c.weight((8, 8, 1, 1), 0)
    y = c.pair(c.op("Relu", c.op("Conv", x, w, c.bias(8, c.scale_of(x) * s))), 0, 6)
    w, s = c.weight((8, 1, 3, 3), 0)
    y = c.pair(c.op("Conv", y, w, c.bias(8, c.scale_of(y) * s), group=8, pads=[1] * 4), -8, 8)
    y = c.pair(c.op("Add", x, y), -8, 8)
    y = c.pair(c.op("Flatten", c.pair(c.op("GlobalAveragePool", y), -8, 8)), -8, 8)
    w, s = c.weight((5, 8), 0)
    return c.op("Gemm", y, w, c.bias(5, c.scale_of(y) * s), transB=1), 8, 3


FORMS = {f.__name__: (f, n) for f, n in ((conv, 24), (gemm, 10), (matmul, 10), (attention, 3), (binary, 10), (pool, 6),
                                         (move, 10), (concat, 4), (function, 10), (chain, 4))}


def infer(tenon, model, c, off, out):
    cmd = [tenon, "infer", str(model), "--profile", "host", "--out", str(out)]
    for k, v in c.feeds.items():
        np.save(model.parent / f"{k}.npy", v)
        cmd += ["--in", f"{k}={model.parent}/{k}.npy"]
    r = subprocess.run(cmd + (["--disable-pass", off] if off else []), capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(cmd)}: {r.stderr}")
    return [np.load(out / f"{name}.npy") for name in c.outputs]


def fired(tenon, model):
    r = subprocess.run([tenon, "inspect", str(model), "--profile", "host", "--passes", "--format", "json"], capture_output=True,
                       text=True)
    if r.returncode:
        raise RuntimeError(r.stderr)
    found = [line.split(":")[1] for line in r.stdout.replace('"', "").replace("{", "\n").replace(",", "\n").splitlines()
             if line.strip().startswith("qdq")]
    return int(found[0].strip(" }")) if found else None


def graph_without_optimizations(model, c):
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 4
    o.intra_op_num_threads = 1
    s = ort.InferenceSession(str(model), o, providers=["CPUExecutionProvider"])
    return s.run(c.outputs, c.feeds)


def main():
    tenon, failed, moved, codes = sys.argv[1], 0, 0, 0
    with tempfile.TemporaryDirectory() as tmp:
        for form, (make, count) in FORMS.items():
            for i in range(count):
                c = Case(np.random.default_rng([SEED, i, sum(map(ord, form))]))
                y, width, steps = make(c)
                q, s, z = c.quantize(y, -width, width)
                step = float(numpy_helper.to_array([w for w in c.weights if w.name == s][0]).reshape(-1)[0])
                model = pathlib.Path(tmp) / f"{form}{i}.onnx"
                c.save(model, [c.op("DequantizeLinear", q, s, *([z] if z else []))])
                got = infer(tenon, model, c, None, model.parent / "with")[0]
                plain = infer(tenon, model, c, "qdq", model.parent / "without")[0]
                theirs = graph_without_optimizations(model, c)[0]
                n = fired(tenon, model)
                off = [np.rint(np.abs(got - other) / step) for other in (plain, theirs)]
                moved += int((off[0] > 0).sum())
                codes += got.size
                allowed = (steps, max(steps, 1))  # onnxruntime's own floats round too
                many = any((o > 0).sum() > max(2, 0.02 * o.size) for o in off)
                if off[0].max() > allowed[0] or off[1].max() > allowed[1] or (many and form != "chain") or not n or \
                        got.dtype != plain.dtype or got.shape != theirs.shape or not np.ptp(got) > 0:
                    failed += 1
                    print(f"FAILED {form} {i}: fired {n} times, off by {off[0].max():g} steps from the graph without the pass "
                          f"({int((off[0] > 0).sum())} of {got.size}), {off[1].max():g} from onnxruntime "
                          f"({int((off[1] > 0).sum())})")
    print(f"{sum(n for _, n in FORMS.values())} graphs, {codes} codes, {moved} of them a step off the floats'; {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
