# SPDX-License-Identifier: Apache-2.0
"""Products of bytes as quantize_dynamic writes them (pass integers): the bits of onnxruntime, with exact sums.

    check_integers.py TENON [FOLDER OF A CPU PLUGIN]

DynamicQuantizeLinear, MatMulInteger, Cast, Mul and Add; onnxruntime's DynamicQuantizeMatMul and MatMulIntegerToFloat.
Weights int8 and uint8, with one scale and zero point or one per column, with a bias or none; sizes that are no multiple of
a kernel's; one row and many; activations at both ends of the range, so that sums of bytes in 16 bits would saturate. Those of
onnxruntime do on processors without VNNI, so it is given the same model with products of int32.
Every operator is given the codes, scale and zero point that onnxruntime computes, and its results are equal bit for bit: on
the host and on the plugin with every `isa`. Where one input goes through DynamicQuantizeLinear, results are equal up to a
step of its codes. TENON_QEMU: what runs TENON, in a cross build. Exit 77 where a package is missing.
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
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

ISAS = {"cpu-avx2-lut": ["scalar", "avx2", "avxvnni", "avx512vnni", "auto"],
        "cpu-neon-lut": ["scalar", "neon", "dotprod", "i8mm", "auto"]}
EMULATOR = os.environ.get("TENON_QEMU", "").split()
SIZES = [(64, 32), (65, 33), (7, 5), (256, 48), (320, 17), (1000, 100)]


class Model:
    def __init__(self, rows, seed):
        self.rows, self.rng = rows, np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], {}, []

    def const(self, a):
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(a), name))
        return name

    def op(self, kind, ins, n=1, **more):
        outs = [f"v{len(self.nodes)}_{i}" for i in range(n)]
        self.nodes.append(helper.make_node(kind, ins, outs, **more))
        return outs[0] if n == 1 else outs

    def weight(self, K, N, signed, columns):
        """b, scale, zero point: constants' names."""
        low, high, kind = (-128, 127, np.int8) if signed else (0, 255, np.uint8)
        b = self.rng.choice([low, high], (K, N)) if self.rng.integers(2) else self.rng.integers(low, high + 1, (K, N))
        n = (N,) if columns else ()
        return [self.const(b.astype(kind)), self.const(self.rng.uniform(0.001, 0.01, n).astype(np.float32)),
                self.const(self.rng.integers(low, high + 1, n).astype(kind))]

    def given(self, K):
        """a, its scale and zero point: inputs."""
        i = len(self.inputs)
        a = self.rng.choice([0, 255], (2, self.rows, K)) if self.rng.integers(2) else self.rng.integers(0, 256, (2, self.rows, K))
        values = {f"a{i}": a.astype(np.uint8), f"s{i}": np.array(self.rng.uniform(0.01, 0.1), np.float32),
                  f"z{i}": np.array(self.rng.integers(0, 256), np.uint8)}
        self.inputs.update(values)
        return list(values)

    def product(self, K, N, signed, columns, zero, bias, a=None):
        a, scale, za = a or self.given(K)
        b, sb, zb = self.weight(K, N, signed, columns)
        y = self.op("MatMulInteger", [a, b, za] + ([zb] if zero else []))
        y = self.op("Mul", [self.op("Cast", [y], to=TensorProto.FLOAT), self.op("Mul", [scale, sb])])
        if bias:
            y = self.op("Add", [y, self.const(self.rng.standard_normal(N).astype(np.float32))])
        self.outputs.append(y)

    def contrib(self, K, N, signed):
        a, scale, za = self.given(K)
        b, sb, zb = self.weight(K, N, signed, False)
        bias = self.const(self.rng.standard_normal(N).astype(np.float32))
        self.outputs.append(self.op("MatMulIntegerToFloat", [a, b, scale, sb, za, zb, bias], domain="com.microsoft"))

    def with_int32(self):
        """The nodes, with products of bytes as products of int32, whose sums onnxruntime keeps on every processor."""
        out = []

        def op(kind, ins, y=None, **more):
            y = y or f"x{len(out)}"
            out.append(helper.make_node(kind, ins, [y], **more))
            return y

        def product(a, b, za, zb, y=None):
            wide = lambda v: op("Cast", [v], to=TensorProto.INT32)
            return op("MatMul", [op("Sub", [wide(v), wide(z)]) if z else wide(v) for v, z in ((a, za), (b, zb))], y)

        for n in self.nodes:
            i = list(n.input) + [""] * 7
            if n.op_type == "MatMulInteger":
                product(i[0], i[1], i[2], i[3], n.output[0])
            elif n.op_type in ("MatMulIntegerToFloat", "DynamicQuantizeMatMul"):
                if n.op_type == "DynamicQuantizeMatMul":  # x, b, b's scale and zero point, bias
                    q = [f"{n.output[0]}_{k}" for k in range(3)]
                    out.append(helper.make_node("DynamicQuantizeLinear", [i[0]], q))
                    i = [q[0], i[1], q[1], i[2], q[2], i[3], i[4]]
                y = op("Cast", [product(i[0], i[1], i[4], i[5])], to=TensorProto.FLOAT)
                y = op("Mul", [y, op("Mul", [i[2], i[3]])], None if i[6] else n.output[0])
                if i[6]:
                    op("Add", [y, i[6]], n.output[0])
            else:
                out.append(n)
        return out

    def save(self, path, nodes=None):
        info = lambda n, a: helper.make_tensor_value_info(
            n, helper.np_dtype_to_tensor_dtype(a.dtype), ["batch", "rows", a.shape[2]] if a.ndim == 3 else a.shape)
        outs = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in self.outputs]
        g = helper.make_graph(nodes or self.nodes, "g", [info(n, np.asarray(a)) for n, a in self.inputs.items()], outs, self.weights)
        onnx.save(helper.make_model(g, ir_version=9, opset_imports=[helper.make_opsetid("", 17),
                                                                    helper.make_opsetid("com.microsoft", 1)]), path)

    def session(self, at):
        path = at / "int32.onnx"
        self.save(path, self.with_int32())
        o = ort.SessionOptions()
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        o.log_severity_level = 4
        return ort.InferenceSession(str(path), o, providers=["CPUExecutionProvider"]).run(self.outputs, self.inputs)


def forms(rows):
    m = Model(rows, rows)
    for i, (K, N) in enumerate(SIZES):
        for signed in (True, False):
            m.product(K, N, signed, columns=i % 2 == 1, zero=True, bias=signed)
            m.product(K, N, signed, columns=i % 2 == 0, zero=False, bias=not signed)
    return m


def verify(tenon, at, profile, rtol, atol):
    r = subprocess.run([*EMULATOR, tenon, "verify", at / "model.onnx", "--data", at, "--profile", profile, "--rtol", str(rtol), "--atol",
                        str(atol)], capture_output=True, text=True)
    return r.returncode == 0, r.stdout[-1500:] + r.stderr


def write_set(m, at, outputs):
    d = at / "test_data_set_0"
    d.mkdir(parents=True, exist_ok=True)
    put = lambda kind, values: [(d / f"{kind}_{i}.pb").write_bytes(numpy_helper.from_array(np.asarray(a), n).SerializeToString())
                                for i, (n, a) in enumerate(values)]
    put("input", m.inputs.items())
    put("output", zip(m.outputs, outputs))


def main():
    tenon, plugins, failed, count = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None, 0, 0
    plugin = pathlib.Path(plugins).name if plugins else None
    if EMULATOR:
        os.environ["TENON_PROBE"] = "inprocess"
    with tempfile.TemporaryDirectory() as t:
        os.environ["TENON_CACHE_DIR"] = t + "/cache"
        profiles = ["host"]
        for isa in ISAS[plugin] if plugin else []:
            os.environ["TENON_PLUGIN_PATH"] = plugins
            path = pathlib.Path(t) / f"{isa}.yaml"
            path.write_text(f"plugins:\n  - name: {plugin}\n    options: {{isa: {isa}, min_k: 1, min_n: 1}}\n  - host\n")
            profiles.append(str(path))
        for rows in (1, 2, 3, 13, 50, 97):
            m = forms(rows)
            at = pathlib.Path(t) / f"rows{rows}"
            at.mkdir()
            m.save(at / "model.onnx")
            write_set(m, at, m.session(at))
            for p in profiles:
                ok, text = verify(tenon, at, p, 0, 0)
                count += 1
                if not ok:
                    failed += 1
                    print(f"FAILED: {rows} rows, {p}\n{text}")
                if p != "host" and rows == 1:
                    nodes = json.loads(subprocess.run([*EMULATOR, tenon, "check", at / "model.onnx", "--profile", p, "--format", "json"],
                                                      capture_output=True, text=True).stdout)["nodes"]
                    on = sum(n.get("device") == plugin for n in nodes)
                    if on != len(m.outputs):
                        failed += 1
                        print(f"FAILED: {on} of {len(m.outputs)} products on {plugin}, {p}")
        # A whole chain: codes of the run may differ by one where a float lies next to a tie.
        m = Model(5, 1)
        x = m.rng.standard_normal((2, 5, 96)).astype(np.float32)
        m.inputs["x"] = x
        q = m.op("DynamicQuantizeLinear", ["x"], 3)
        m.product(96, 40, True, False, True, True, q)
        m.product(96, 24, False, True, True, False, q)
        b, sb, zb = m.weight(96, 32, False, False)
        m.outputs.append(m.op("DynamicQuantizeMatMul", ["x", b, sb, zb], domain="com.microsoft"))
        m.contrib(96, 40, True)
        at = pathlib.Path(t) / "chain"
        at.mkdir()
        m.save(at / "model.onnx")
        write_set(m, at, m.session(at))
        for p in profiles:
            ok, text = verify(tenon, at, p, 1e-6, 1e-5)
            count += 1
            if not ok:
                failed += 1
                print(f"FAILED: chain, {p}\n{text}")
    print(f"{count} comparisons, {failed} failed")
    return failed != 0


sys.exit(main())
