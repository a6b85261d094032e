# SPDX-License-Identifier: Apache-2.0
"""Mixtures of experts: the pass `experts`, and that only experts which the router chose are computed.

    check_experts.py TENON [FOLDER of cpu-avx2-lut]

Models as exporters write them (NonZero, Gather, ScatterElements) with random weights. Those that are recognised must have no
NonZero left and no shape operator per step, and give the bits that they give without the pass; those that are not the
pattern must be left alone. All agree with ONNX Runtime within 2e-5 of the largest value: sums of K <= 64 products are off by
at most K * 2^-24 of theirs, three behind one another. An expert that nobody chooses holds NaN, which reaches the result
where it is computed. With a plugin that leaves out rows of zeros, a row alone must give the bits that it gives among others.
Exit 77 without onnx or onnxruntime.
"""
import json
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T, helper, numpy_helper
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

BOUND, K, F = 2e-5, 32, 64
LAST = 2 ** 63 - 1


class Graph:
    def __init__(self, rng, dtype):
        self.rng, self.dtype, self.nodes, self.init, self.n = rng, dtype, [], {}, 0

    def const(self, v):
        self.n += 1
        self.init[f"c{self.n}"] = np.asarray(v)
        return f"c{self.n}"

    def weight(self, *shape):
        return self.const((self.rng.standard_normal(shape) / 4).astype(self.dtype))

    def ints(self, *v):
        return self.const(np.array(v, np.int64))

    def op(self, op_type, *inputs, n_out=1, **attrs):
        self.n += 1
        out = [f"v{self.n}_{i}" for i in range(n_out)]
        self.nodes.append(helper.make_node(op_type, list(inputs), out, name=f"n{self.n}", **attrs))
        return out[0] if n_out == 1 else out


def expert(g, x, form, nan):
    """Row-wise networks of x [n, K]; one that is not, for which the pass must leave all as it is."""
    def w(*shape):
        return g.const(np.full(shape, np.nan, g.dtype)) if nan else g.weight(*shape)

    def silu(v):
        return g.op("Mul", v, g.op("Sigmoid", v))
    if form == "cut":  # gate and up in one product
        gate, up = g.op("Split", g.op("MatMul", x, w(K, 2 * F)), g.ints(F, F), n_out=2, axis=-1)
        return g.op("MatMul", g.op("Mul", silu(gate), up), w(F, K))
    if form == "slice":
        both = g.op("MatMul", x, w(K, 2 * F))
        gate = g.op("Slice", both, g.ints(0), g.ints(F), g.ints(1))
        up = g.op("Slice", both, g.ints(F), g.ints(LAST), g.ints(-1))
        return g.op("MatMul", g.op("Mul", g.op("Relu", gate), up), w(F, K))
    if form == "gemm":  # biases
        h = g.op("Relu", g.op("Gemm", x, w(F, K), g.weight(F), transB=1))
        return g.op("Add", g.op("MatMul", h, w(F, K)), g.weight(K))
    h = g.op("Mul", silu(g.op("MatMul", x, w(K, F))), g.op("MatMul", x, w(K, F)))
    if form == "columns":  # what a row gets depends on the others
        h = g.op("Div", h, g.op("ReduceMax", g.op("Add", g.op("Abs", h), g.const(np.array(1, g.dtype))), g.ints(0)))
    if form == "softmax":
        h = g.op("Softmax", h, axis=0)
    return g.op("MatMul", h, w(F, K))


def model(rng, experts=4, k=2, order="k", form="gated", dtype=np.float32, nan=False, wrong=None, lead=True,
          depth=None):
    g = Graph(rng, dtype)
    x = g.op("Reshape", "x", g.ints(-1, K))
    logits = g.op("MatMul", x, g.weight(K, experts))
    if nan:  # the last expert is out of reach
        logits = g.op("Sub", logits, g.const(np.array([0] * (experts - 1) + [60000 if dtype == np.float16 else 1e9], dtype)))
    probs = g.op("Softmax", logits, axis=-1)
    values, picked = g.op("TopK", probs, g.ints(k), n_out=2, axis=-1)
    values = g.op("Div", values, g.op("ReduceSum", values, g.ints(-1), keepdims=1))
    if wrong == "picked":  # an expert may stand twice in a row
        picked = g.op("Mul", picked, g.const(np.array(1 if k == 1 else 0, np.int64)))
    hot = g.op("OneHot", picked, g.const(np.array(depth or experts, np.int64)), g.ints(0, 1), axis=-1)
    hot = g.op("Transpose", hot, perm=[2, 1, 0] if order == "k" else [2, 0, 1])
    shape = g.op("Shape", x)
    total = zeros = g.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.zeros(1, dtype)))
    flat = g.op("Reshape", values, g.ints(-1, 1) if lead else g.ints(-1))
    for e in range(experts):
        mask = g.op("Cast", g.op("Gather", hot, g.const(np.array(e, np.int64)), axis=0), to=T.BOOL)
        rows = g.op("Transpose", g.op("NonZero", mask), perm=[1, 0])
        a, b = (g.op("Squeeze", v, g.ints(1)) for v in g.op("Split", rows, g.ints(1, 1), n_out=2, axis=1))
        place, token = (a, b) if order == "k" else (b, a)
        if wrong == "swapped":
            place, token = token, place
        taken = g.op("Reshape", g.op("Gather", g.op("Unsqueeze", x, g.ints(0)), token, axis=1), g.ints(-1, K)) if lead \
            else g.op("Gather", x, token, axis=0)
        stride = k + 1 if wrong == "stride" else k
        at = g.op("Add", place, g.op("Mul", token, g.const(np.array(stride, np.int64))))
        if wrong == "stride":
            at = g.op("Mod", at, g.op("Shape", flat, end=1))
        weight = g.op("Gather", flat, at, axis=0)
        if not lead:
            weight = g.op("Unsqueeze", weight, g.ints(1))
        y = g.op("Mul", expert(g, taken, form, nan and e == experts - 1), weight)
        index = g.op("Expand", g.op("Unsqueeze", token, g.ints(1)), g.op("Shape", y))
        base = g.op("ConstantOfShape", shape, value=numpy_helper.from_array(np.full(1, 1 if wrong == "base" else 0, dtype)))
        total = g.op("Add", total, g.op("ScatterElements", base, index, y, axis=0))
    return finish(g, total, g.op("Shape", "x"), dtype)


def finish(g, total, shape, dtype):
    g.nodes.append(helper.make_node("Reshape", [total, shape], ["y"], name="last"))
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(dtype))
    graph = helper.make_graph(g.nodes, "experts", [helper.make_tensor_value_info("x", kind, ["B", "S", K])],
                              [helper.make_tensor_value_info("y", kind, ["B", "S", K])],
                              [numpy_helper.from_array(v, n) for n, v in g.init.items()])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)


def dense(rng, experts=4, k=2, repeat="tile", nan=False, wrong=None):
    """Experts that are one product of three axes, as gpt-oss is exported: gate and up side by side, biases, all computed."""
    g = Graph(rng, np.float32)
    tokens = g.op("Reshape", "x", g.ints(-1, K))
    logits = g.op("Gemm", tokens, g.weight(experts, K), g.weight(experts), transB=1)
    if nan:  # the last expert is out of reach
        logits = g.op("Sub", logits, g.const(np.array([0] * (experts - 1) + [1e9], np.float32)))
    values, picked = g.op("TopK", logits, g.ints(k), n_out=2, axis=-1)
    zeros = g.op("ConstantOfShape", g.op("Shape", logits))
    scores = g.op("ScatterElements", zeros, picked, g.op("Softmax", values, axis=1), axis=1)
    if repeat == "tile":
        wide = g.op("Reshape", g.op("Tile", tokens, g.ints(experts, 1)), g.ints(experts, -1, K))
    else:
        wide = g.op("Expand", g.op("Unsqueeze", tokens, g.ints(0)), g.ints(experts, 1, 1))
    first, second = g.weight(experts, K, 2 * F), g.weight(experts, F, K)
    if nan:
        g.init[first][-1] = g.init[second][-1] = np.nan
    both = g.op("Add", g.op("MatMul", wide, first), g.weight(experts, 1, 2 * F))
    gate = g.op("Slice", both, g.ints(0), g.ints(LAST), g.ints(2), g.ints(2))
    up = g.op("Slice", both, g.ints(1), g.ints(LAST), g.ints(-1), g.ints(2))
    gate = g.op("Clip", gate, "", g.const(np.array(7, np.float32)))
    h = g.op("Mul", g.op("Add", up, g.const(np.array(1, np.float32))), g.op("Mul", gate, g.op("Sigmoid", gate)))
    if wrong == "softmax":  # experts see each other
        h = g.op("Softmax", h, axis=0)
    y = g.op("Add", g.op("MatMul", h, second), g.weight(experts, 1, K))
    lead = g.op("Concat", g.ints(experts), g.op("Shape", "x", start=0, end=2), g.ints(-1), axis=0)
    weight = g.op("Transpose", scores, perm=[1, 0])
    if wrong == "weights":  # of another axis
        weight = g.op("Reshape", scores, g.ints(experts, -1))
    weight = g.op("Unsqueeze", g.op("Reshape", weight, g.op("Concat", g.ints(experts), g.op("Shape", "x", start=0, end=2), axis=0)),
                  g.ints(-1))
    total = g.op("ReduceSum", g.op("Mul", g.op("Reshape", y, lead), weight), g.ints(0), keepdims=int(wrong == "kept"))
    return finish(g, total, g.op("Shape", "x"), np.float32)


def cases():
    for repeat in ("tile", "expand"):
        yield f"dense {repeat}", dict(dense=True, repeat=repeat), True
    yield "dense nan", dict(dense=True, experts=8, nan=True), True
    for wrong in ("softmax", "weights", "kept"):
        yield f"dense wrong {wrong}", dict(dense=True, wrong=wrong), False
    yield "gated", {}, True
    for order in ("k", "token"):
        for form in ("cut", "slice", "gemm"):
            yield f"{form} {order}", dict(order=order, form=form, lead=order == "k"), True
    yield "one of three", dict(experts=3, k=1), True
    yield "three of eight", dict(experts=8, k=3, order="token"), True
    yield "halves", dict(dtype=np.float16, experts=8), True
    yield "nan", dict(nan=True, experts=8), True
    yield "nan halves", dict(nan=True, dtype=np.float16), True
    yield "too many", dict(depth=65536), False
    for form in ("columns", "softmax"):
        yield form, dict(form=form), False
    for wrong in ("stride", "base", "picked"):
        yield f"wrong {wrong}", dict(wrong=wrong), False


def tenon(path, command, *args, profile=("host",)):
    r = subprocess.run([sys.argv[1], command, path, *args, "--profile", *profile], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr.strip())
    return r.stdout


def infer(folder, path, x, *more, profile=("host",)):
    out = folder / "out"
    out.mkdir(exist_ok=True)
    np.save(folder / "x.npy", x)
    tenon(path, "infer", "--in", f"x={folder}/x.npy", "--out", out, *more, profile=profile)
    return np.load(out / "y.npy")


def check(folder, name, options, fires):
    rng = np.random.default_rng(sum(name.encode()))
    dtype, is_dense = options.get("dtype", np.float32), options.pop("dense", False)
    make = dense if is_dense else model
    m, path, bad = make(rng, **options), folder / "model.onnx", []
    onnx.save(m, path)
    told = json.loads(tenon(path, "inspect", "--passes", "--format", "json"))
    fired = told["passes"]["experts"]
    if fired != (1 if is_dense else options.get("experts", 4)) * fires:
        bad.append(f"fired {fired} times")
    text = folder / "graph.txt"
    tenon(path, "inspect", "--dump", text)
    if not is_dense and fires == ("NonZero \"" in text.read_text()):
        bad.append("NonZero is left" if fires else "NonZero is gone")
    if is_dense and fires and (told["layout_ops_left"] or "Tile \"" in text.read_text()):
        bad.append(f"{told['layout_ops_left']} moves are left")
    if fires and (told["shape_ops_left"] or told["dynamic_nodes"]):
        bad.append(f"{told['shape_ops_left']} shape operators and {told['dynamic_nodes']} dynamic ones are left")
    if is_dense and options.get("nan"):  # what nobody chose is multiplied by 0
        for t in m.graph.initializer:
            t.CopyFrom(numpy_helper.from_array(np.nan_to_num(numpy_helper.to_array(t)), t.name))
        onnx.save(m, folder / "finite.onnx")
    plain = folder / "finite.onnx" if is_dense and options.get("nan") else path
    s = ort.InferenceSession(m.SerializeToString(), providers=["CPUExecutionProvider"])
    for shape in ((1, 1, K), (2, 7, K), (1, 150, K)):
        x = rng.standard_normal(shape).astype(dtype)
        want, got = s.run(None, {"x": x})[0], infer(folder, path, x)
        without = "chain,experts"  # a chain rounds halves once, and the sum of two experts is one where dims are known
        both = [infer(folder, plain, x, "--disable-pass", p) for p in ("chain", without)]
        if not np.isfinite(got).all():
            bad.append(f"{shape}: not finite: an expert that nobody chose was computed")
        if both[0].tobytes() != both[1].tobytes() or (dtype == np.float32 and got.tobytes() != both[1].tobytes()):
            bad.append(f"{shape}: not the bits that it gives without the pass")
        off = np.abs(got.astype(np.float64) - want).max() / np.abs(want.astype(np.float64)).max()
        if not off <= (BOUND if dtype == np.float32 else 2e-3 * 4):
            bad.append(f"{shape}: off by {off:.3g} of the largest value")
    return bad


def check_plugin(folder, plugin):
    """Eight equal tokens side by side: a group of rows goes to an expert as a whole, or is left out as a whole."""
    rng, path, profile, bad = np.random.default_rng(7), folder / "model.onnx", ("cpu-avx2", "--plugin-dir", plugin), []
    onnx.save(model(rng, experts=8), path)
    told = json.loads(tenon(path, "inspect", "--format", "json", profile=profile))
    if told["dynamic_nodes"] or "cpu-avx2-lut" not in json.dumps(told["placement"]):
        bad.append("the plugin takes no expert")
    tokens = rng.standard_normal((5, K)).astype(np.float32)
    for n in (8, 3):  # whole groups, and rows of several tokens in one
        all_rows = infer(folder, path, np.repeat(tokens, n, 0)[None], profile=profile)[0]
        for i, token in enumerate(tokens):
            alone = infer(folder, path, token[None, None], profile=profile)[0, 0]
            if any(alone.tobytes() != row.tobytes() for row in all_rows[i * n:i * n + n]):
                bad.append(f"token {i} alone is not what it is among {n * len(tokens)}")
    return bad


def main():
    failed = n = 0
    with tempfile.TemporaryDirectory() as t:
        for name, options, fires in cases():
            folder = pathlib.Path(t) / name.replace(" ", "_")
            folder.mkdir()
            bad = check(folder, name, options, fires)
            n += 1
            failed += bool(bad)
            print(f"{name}: {'; '.join(bad) or 'ok'}")
        if len(sys.argv) > 2:
            (pathlib.Path(t) / "plugin").mkdir()
            bad = check_plugin(pathlib.Path(t) / "plugin", sys.argv[2])
            n += 1
            failed += bool(bad)
            print(f"plugin: {'; '.join(bad) or 'ok'}")
    print(f"{n} models, {failed} failed")
    sys.exit(1 if failed or not n else 0)


if __name__ == "__main__":
    main()
