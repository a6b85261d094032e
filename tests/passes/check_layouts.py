# SPDX-License-Identifier: Apache-2.0
"""Caches in every layout that a model may declare, through a session: outputs against onnxruntime's, and no Transpose.

    check_layouts.py TENON

One attention layer with 4 heads of q and 2 of k and v, written in primitives, for each order of the axes of past. A
batch of 2, with and without past, several new positions and one. Exit 77 without onnx or onnxruntime.
"""
import itertools
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

H, KV, D, B = 4, 2, 8, 2
# Axes of past by those of [batch, heads, length, size].
LAYOUTS = {"heads": (0, 1, 2, 3), "length": (0, 2, 1, 3), "sequence first": (2, 0, 1, 3), "transposed": (0, 1, 3, 2)}


def const(name, value):
    return numpy_helper.from_array(np.asarray(value), name)


def side(nodes, inits, name, layout):
    """x @ w split into heads, joined with past in its layout; returns the value [batch, heads, whole, size]."""
    perm = LAYOUTS[layout]
    axis = perm.index(2)
    back = [perm.index(d) for d in range(4)]
    inits.append(const(f"w_{name}", np.random.default_rng(ord(name)).standard_normal((H * D, KV * D), np.float32) / 4))
    by_length = [(0, 2, 1, 3)[p] for p in perm]  # from [batch, length, heads, size]
    nodes += [helper.make_node("MatMul", ["x", f"w_{name}"], [f"{name}0"]),
              helper.make_node("Reshape", [f"{name}0", "kv_shape"], [f"{name}1"]),
              helper.make_node("Transpose", [f"{name}1"], [f"{name}2"], perm=by_length),
              helper.make_node("Concat", [f"past_{name}", f"{name}2"], [f"present_{name}"], axis=axis),
              helper.make_node("Transpose", [f"present_{name}"], [f"{name}3"], perm=back),
              helper.make_node("Unsqueeze", [f"{name}3", "two"], [f"{name}4"]),
              helper.make_node("Expand", [f"{name}4", "repeat"], [f"{name}5"]),
              helper.make_node("Reshape", [f"{name}5", "heads_shape"], [f"{name}6"])]
    dims = {0: "b", 1: KV, 3: D}
    shapes = [[dims.get(p, length) for p in perm] for length in ("past", "past + s")]
    return [helper.make_tensor_value_info(f"{n}_{name}", TensorProto.FLOAT, s)
            for n, s in zip(("past", "present"), shapes)]


def make(path, key, value):
    nodes, inits = [], [const("kv_shape", [0, 0, KV, D]), const("q_shape", [0, 0, H, D]), const("two", [2]),
                        const("repeat", [1, 1, H // KV, 1, 1]), const("heads_shape", [0, H, -1, D]),
                        const("flat", [0, 0, H * D]), const("scale", np.float32(D ** -0.5)),
                        const("w_q", np.random.default_rng(1).standard_normal((H * D, H * D), np.float32) / 4)]
    (pk, k), (pv, v) = side(nodes, inits, "k", key), side(nodes, inits, "v", value)
    nodes += [helper.make_node("MatMul", ["x", "w_q"], ["q0"]), helper.make_node("Reshape", ["q0", "q_shape"], ["q1"]),
              helper.make_node("Transpose", ["q1"], ["q2"], perm=[0, 2, 1, 3]),
              helper.make_node("Transpose", ["k6"], ["kt"], perm=[0, 1, 3, 2]),
              helper.make_node("MatMul", ["q2", "kt"], ["s0"]), helper.make_node("Mul", ["s0", "scale"], ["s1"]),
              helper.make_node("Softmax", ["s1"], ["p"], axis=-1), helper.make_node("MatMul", ["p", "v6"], ["o0"]),
              helper.make_node("Transpose", ["o0"], ["o1"], perm=[0, 2, 1, 3]),
              helper.make_node("Reshape", ["o1", "flat"], ["o2"]), helper.make_node("MatMul", ["o2", "w_q"], ["y"])]
    info = helper.make_tensor_value_info
    x, y = (info(n, TensorProto.FLOAT, ["b", "s", H * D]) for n in "xy")
    graph = helper.make_graph(nodes, "layouts", [x, pk, pv], [y, k, v], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def inputs(layouts, past, new):
    rng = np.random.default_rng(past * 10 + new)
    feeds = {"x": rng.standard_normal((B, new, H * D), np.float32)}
    for name, layout in zip("kv", layouts):
        shape = [(B, KV, past, D)[p] for p in LAYOUTS[layout]]
        feeds[f"past_{name}"] = rng.standard_normal(shape, np.float32)
    return feeds


def run(tenon, model, feeds, folder):
    args = []
    for name, value in feeds.items():
        np.save(folder / f"{name}.npy", value)
        args += ["--in", f"{name}={folder}/{name}.npy"]
    r = subprocess.run([tenon, "infer", str(model), *args, "--out", str(folder / "out"), "--profile", "host"],
                       capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(r.stderr)
    return {f.stem: np.load(f) for f in (folder / "out").glob("*.npy")}


def caches(tenon, model, folder):
    dump = folder / "graph.txt"
    subprocess.run([tenon, "inspect", str(model), "--profile", "host", "--dump", str(dump)], capture_output=True,
                   check=True)
    text = dump.read_text()
    return text.count("  cache "), text.count("  Transpose ")


def check(tenon, layouts, folder):
    model = folder / "model.onnx"
    make(model, *layouts)
    failed = int(caches(tenon, model, folder) != (2, 0))
    if failed:
        print(f"FAILED {layouts}: {caches(tenon, model, folder)} caches and Transposes instead of (2, 0)")
    session = ort.InferenceSession(str(model), providers=["CPUExecutionProvider"])
    names = [o.name for o in session.get_outputs()]
    for past, new in ((0, 5), (3, 4), (70, 1)):
        feeds = inputs(layouts, past, new)
        want = dict(zip(names, session.run(names, feeds)))
        got = run(tenon, model, feeds, folder)
        for name in names:
            # k and v are sums of 32 products of numbers around 1/4 to 4; y adds a softmax and 32 more
            bound = 2.0 ** -23 * 32 * 4 * max(1.0, float(np.abs(want[name]).max()))
            if got[name].shape != want[name].shape or np.abs(got[name] - want[name]).max() > bound:
                failed += 1
                print(f"FAILED {layouts} with {past} past and {new} new: {name}")
    return failed


def main():
    failed = 0
    for layouts in itertools.product(LAYOUTS, LAYOUTS):
        with tempfile.TemporaryDirectory() as tmp:
            failed += check(sys.argv[1], layouts, pathlib.Path(tmp))
    print(f"{len(LAYOUTS) ** 2} pairs of layouts, {failed} failed")
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
