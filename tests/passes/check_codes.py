# SPDX-License-Identifier: Apache-2.0
"""Weights that DequantizeLinear brings reach products as codes (pass codes): against numpy in double, against onnxruntime, and
on cpu-avx2-lut against MatMulNBits with the same codes.

    check_codes.py TENON [FOLDER OF cpu-avx2-lut]

One model has a product of every form: codes of 2, 4 and 8 bits, signed and not, one scale, one per channel, one per block; zero
points or none; [K, N], [N, K] behind Transpose or in Gemm, a table that Gather reads too; odd sizes. Bound: K terms in f32 and
the rounding of each weight, (K + 2) * 2^-24 of the sum of absolute terms. The number of reads that the pass changed is exact, so
that forms which it must leave alone (blocks along the outputs, scales along what is summed) are left alone. Exit 77 where a
package is missing.
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

M = 3
TYPES = {(2, True): TensorProto.INT2, (2, False): TensorProto.UINT2, (4, True): TensorProto.INT4,
         (4, False): TensorProto.UINT4, (8, True): TensorProto.INT8, (8, False): TensorProto.UINT8}


def pack(codes, bits):
    """Elements from the low bits up, without a gap between rows."""
    c = (codes.astype(np.int64) & (2**bits - 1)).astype(np.uint8).ravel()
    per = 8 // bits
    c = np.concatenate([c, np.zeros(-len(c) % per, np.uint8)]).reshape(-1, per)
    return sum(c[:, i].astype(np.uint32) << (i * bits) for i in range(per)).astype(np.uint8).tobytes()


class Model:
    def __init__(self, seed):
        self.rng, self.nodes, self.weights, self.outputs, self.n, self.want = np.random.default_rng(seed), [], [], [], 0, {}
        self.inputs, self.changed, self.plain = {}, 0, []

    def const(self, array):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.ascontiguousarray(array), f"w{self.n}"))
        return f"w{self.n}"

    def raw(self, kind, codes, bits):
        self.n += 1
        self.weights.append(helper.make_tensor(f"w{self.n}", kind, codes.shape, pack(codes, bits), raw=True))
        return f"w{self.n}"

    def op(self, kind, *inputs, **attrs):
        self.n += 1
        self.nodes.append(helper.make_node(kind, inputs, [f"v{self.n}"], **attrs))
        return f"v{self.n}"

    def x(self, K):
        return self.inputs.setdefault(f"x{K}", self.rng.standard_normal((M, K)).astype(np.float32)), f"x{K}"

    def weight(self, shape, bits, signed, zeros, axis, block, scales, half=False):
        """DequantizeLinear's name, and what it stands for. scales: 'one', 'axis' or 'block'."""
        low, high = (-(2**(bits - 1)), 2**(bits - 1)) if signed else (0, 2**bits)
        codes = self.rng.integers(low, high, shape)
        grid = () if scales == "one" else (shape[axis],) if scales == "axis" else tuple(
            -(-n // block) if d == axis else n for d, n in enumerate(shape))
        scale = (self.rng.uniform(0.01, 0.1, grid) * self.rng.choice([1, -1], grid)).astype(np.float16)
        scale = scale if half else scale.astype(np.float32)
        zero = self.rng.integers(low, high, grid) if zeros == "any" else np.full(grid, (low + high) // 2)
        names = [self.raw(TYPES[bits, signed], codes, bits), self.const(scale)]
        if zeros:
            names.append(self.raw(TYPES[bits, signed], np.asarray(zero), bits))
        attrs = {} if scales == "one" else {"axis": axis}
        if scales == "block":
            attrs["block_size"] = block
        full = lambda v: v if scales == "one" else np.expand_dims(v, 1 - axis) if scales == "axis" else np.repeat(
            v, block, axis).take(range(shape[axis]), axis)
        value = (codes - (full(zero) if zeros else 0)) * full(scale).astype(np.float64)
        return self.op("DequantizeLinear", *names, **attrs), value

    def output(self, name, want, terms, K, ort_knows):
        self.want[name] = (want, (K + 2) * 2.0**-24 * terms)
        self.outputs.append(name)
        if ort_knows:
            self.plain.append(name)

    def product(self, form, K, N, bits, signed, zeros, scales, block=16, along="K", changed=1):
        """scales of an axis or a block lie so that the pass takes them (along K) or not (along N)."""
        x, xn = self.x(K)
        kn = form == "kn"
        sum_axis = 0 if kn else 1
        axis = sum_axis if (scales == "block") == (along == "K") else 1 - sum_axis
        w, value = self.weight((K, N) if kn else (N, K), bits, signed, zeros, axis, block, scales)
        value = value if kn else value.T
        if form == "gemm":
            bias = self.rng.standard_normal(N).astype(np.float32)
            y = self.op("Gemm", xn, w, self.const(bias), transB=1)
        else:
            bias = np.zeros(N)
            y = self.op("MatMul", xn, w if kn else self.op("Transpose", w, perm=[1, 0]))
        self.changed += changed
        self.output(y, x @ value + bias, np.abs(x) @ np.abs(value) + np.abs(bias), K + 1, bits != 2)

    def tied(self):
        """A table that Gather reads, and a product its Transpose."""
        x, xn = self.x(32)
        w, value = self.weight((10, 32), 4, False, "any", 1, 16, "block")
        ids = np.array([[3, 0, 9]])
        self.inputs["ids"] = ids
        self.output(self.op("Gather", w, "ids"), value[ids], np.abs(value[ids]), 1, True)
        self.output(self.op("MatMul", xn, self.op("Transpose", w, perm=[1, 0])), x @ value.T, np.abs(x) @ np.abs(value.T), 32,
                    True)
        self.changed += 2

    def save(self, path, outputs):
        info = lambda n, a: helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(a.dtype), a.shape)
        free = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in outputs]
        graph = helper.make_graph(self.nodes, "g", [info(n, a) for n, a in self.inputs.items()], free, self.weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)], ir_version=11), path)


def forms():
    m = Model(1)
    for bits in (2, 4, 8):
        for signed in (False, True):
            for zeros in (None, "middle", "any"):
                m.product("kn", 32, 24, bits, signed, zeros, "block")
            m.product("kn", 32, 24, bits, signed, "any", "axis")
            m.product("nk", 32, 24, bits, signed, "any", "axis")
            m.product("nk", 32, 24, bits, signed, "any", "block")
            m.product("gemm", 32, 24, bits, signed, None, "block")
            m.product("kn", 32, 24, bits, signed, "any", "one")
    m.product("kn", 33, 7, 4, True, "any", "axis")  # rows do not end at a byte
    m.product("nk", 33, 7, 4, True, "any", "axis")
    m.product("nk", 7, 5, 2, False, "any", "axis")
    m.product("kn", 40, 9, 4, False, "any", "block", 16)  # the last block is shorter
    m.product("nk", 40, 9, 4, True, None, "block", 16)
    m.product("kn", 32, 24, 4, True, "any", "block", along="N", changed=0)
    m.product("nk", 32, 24, 8, True, "any", "axis", along="N", changed=0)
    m.tied()
    return m


def run(tenon, path, m, out, *more):
    args = []
    for name, a in m.inputs.items():
        np.save(out.parent / f"{name}.npy", a)
        args += ["--in", f"{name}={out.parent}/{name}.npy"]
    r = subprocess.run([tenon, "infer", str(path), *args, "--out", str(out), *more], capture_output=True, text=True)
    if r.returncode:
        raise SystemExit(f"FAILED {path.name} {more}: {r.stderr}")
    return {p.stem: np.load(p) for p in out.glob("*.npy")}


def compare(label, got, m, names):
    failed = 0
    for n in names:
        want, bound = m.want[n]
        off = np.abs(got[n] - want) - bound
        if off.max() > 0:
            print(f"FAILED {label}: {n} is off by {off.max():.3g} more than the bound")
            failed += 1
    return failed


def check_forms(tenon, tmp):
    m = forms()
    path = tmp / "forms.onnx"
    m.save(path, m.outputs)
    failed = compare("host", run(tenon, path, m, tmp / "all", "--profile", "host"), m, m.outputs)
    failed += compare("without the pass", run(tenon, path, m, tmp / "off", "--profile", "host", "--disable-pass", "codes"), m,
                      m.outputs)
    report = subprocess.run([tenon, "inspect", str(path), "--format", "json", "--profile", "host"], capture_output=True,
                            text=True, check=True)
    fired = json.loads(report.stdout)["passes"]["codes"]
    if fired != m.changed:
        print(f"FAILED: codes fired {fired} times, not {m.changed}")
        failed += 1
    failed += check_ort(m, tmp)
    print(f"{len(m.outputs)} products, {fired} reads of codes")
    return failed


def check_ort(m, tmp):
    """ONNX Runtime knows no 2 bits: the rest of the model."""
    read, todo = set(), list(m.plain)
    makers = {n.output[0]: n for n in m.nodes}
    while todo:
        n = todo.pop()
        if n not in read:
            read.add(n)
            todo += makers[n].input if n in makers else []
    part = Model(1)
    part.nodes = [n for n in m.nodes if n.output[0] in read]
    part.weights = [w for w in m.weights if w.name in read]
    part.inputs = {n: a for n, a in m.inputs.items() if n in read}
    part.save(tmp / "ort.onnx", m.plain)
    o = ort.SessionOptions()
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    o.log_severity_level = 3
    s = ort.InferenceSession(str(tmp / "ort.onnx"), o, providers=["CPUExecutionProvider"])
    return compare("onnxruntime", dict(zip(m.plain, s.run(m.plain, part.inputs))), m, m.plain)


def check_claim(tenon, tmp):
    """The product is cpu-avx2-lut's, bit for bit what MatMulNBits with these codes gives."""
    K, N, block = 128, 64, 32
    rng = np.random.default_rng(2)
    codes = rng.integers(5, 11, (K, N))  # from the floats alone nobody would find this grid
    scale = rng.uniform(0.01, 0.1, (K // block, N)).astype(np.float16).astype(np.float32)
    m = Model(2)
    _, x = m.x(K)
    m.save(tmp / "nbits.onnx", [])
    dq = Model(2)
    dq.inputs = m.inputs
    w = dq.op("DequantizeLinear", dq.raw(TensorProto.UINT4, codes, 4), dq.const(scale),
              dq.raw(TensorProto.UINT4, np.full(scale.shape, 8), 4), axis=0, block_size=block)
    dq.save(tmp / "qdq.onnx", [dq.op("MatMul", x, w)])
    blocks = np.frombuffer(pack(codes.T, 4), np.uint8).reshape(N, K // block, block // 2)
    y = m.op("MatMulNBits", x, m.const(blocks), m.const(scale.T), domain="com.microsoft", K=K, N=N, bits=4, block_size=block)
    m.save(tmp / "nbits.onnx", [y])
    model = onnx.load(tmp / "nbits.onnx")
    model.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    onnx.save(model, tmp / "nbits.onnx")
    got = [next(iter(run(tenon, tmp / f"{n}.onnx", m, tmp / n, "--profile", "cpu-avx2").values())) for n in ("qdq", "nbits")]
    if got[0].tobytes() != got[1].tobytes():
        print("FAILED: DequantizeLinear's codes are not MatMulNBits' on cpu-avx2-lut")
        return 1
    print("cpu-avx2-lut: the bits of MatMulNBits")
    return 0


def main():
    tenon = sys.argv[1]
    with tempfile.TemporaryDirectory() as tmp:
        os.environ["TENON_CACHE_DIR"] = f"{tmp}/cache"
        failed = check_forms(tenon, pathlib.Path(tmp))
        if len(sys.argv) > 2:
            os.environ["TENON_PLUGIN_PATH"] = sys.argv[2]
            failed += check_claim(tenon, pathlib.Path(tmp))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
