# SPDX-License-Identifier: Apache-2.0
"""check_models.py TENON: whole models of TENON_TEST_DATA on the host, beside onnxruntime.

ViT, MNIST, super-resolution and Magika must give onnxruntime's outputs at several batches; a ResNet in QDQ form those within two
steps of its last quantization, and every operator of it the codes of the floats between, up to one. No shape operator may be
left per step."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TENON = os.path.abspath(sys.argv[1])
DATA = os.path.join(os.environ.get("TENON_TEST_DATA", ""), "onnx")
MADE = os.path.join(os.environ.get("TENON_TEST_DATA", ""), "exports")
failures = []


def tenon(*words):
    return subprocess.run([TENON, *words, "--profile", "host", "--cache-dir", ""], capture_output=True, text=True)


def write_set(folder, k, ins, outs):
    d = os.path.join(folder, f"test_data_set_{k}")
    os.makedirs(d)
    for kind, values in (("input", ins), ("output", outs)):
        for i, (name, v) in enumerate(values.items()):
            with open(os.path.join(d, f"{kind}_{i}.pb"), "wb") as f:
                f.write(numpy_helper.from_array(v, name).SerializeToString())


def verify(path, sets, rtol, atol, passes=True):
    """sets: pairs of inputs and outputs."""
    folder = tempfile.mkdtemp(prefix="tenon-vision-")
    for k, (ins, outs) in enumerate(sets):
        write_set(folder, k, ins, outs)
    for extra in ([], ["--disable-pass", "all"]) if passes else ([],):
        r = tenon("verify", path, "--data", folder, "--rtol", str(rtol), "--atol", str(atol), *extra)
        text = f"{os.path.relpath(path, os.path.dirname(DATA))} {' '.join(extra)}"
        print(f"{text}: {len(sets)} sets, rtol {rtol}, atol {atol}: {'ok' if r.returncode == 0 else 'FAILED'}")
        if r.returncode != 0:
            failures.append(f"{text}: {r.stdout[-600:]}{r.stderr[-300:]}")
    shutil.rmtree(folder)


def no_shape_ops(path):
    r = tenon("inspect", path)
    left = re.search(r"shape ops left per step: (\d+)", r.stdout)
    if not left or left.group(1) != "0":
        failures.append(f"{path}: shape ops left: {left.group(0) if left else r.stderr[-300:]}")


def session(path, optimize=True):
    o = ort.SessionOptions()
    o.log_severity_level = 4
    if not optimize:
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])


def by_session(path, feeds, optimize=True):
    s = session(path, optimize)
    names = [o.name for o in s.get_outputs()]
    return [(f, dict(zip(names, s.run(None, f)))) for f in feeds]


def vit(rng):
    path = os.path.join(MADE, "optimum-vit", "model.onnx")
    images = [rng.standard_normal((b, 3, 32, 32)).astype(np.float32) for b in (1, 7)]
    verify(path, by_session(path, [{"pixel_values": x} for x in images]), 0, 1e-4)
    no_shape_ops(path)


def cnn(name, optimize, rtol, atol, feeds):
    path = os.path.join(DATA, "cnn", name, "model.onnx")
    verify(path, by_session(path, feeds, optimize), rtol, atol)
    no_shape_ops(path)


def aliases(graph):
    """What Identity and Cast between bytes only rename: name -> the name behind it."""
    same = {n.output[0]: n.input[0] for n in graph.node if n.op_type in ("Identity", "Cast")}

    def of(name):
        while name in same:
            name = same[name]
        return name
    return of


def codes_of(path, feeds):
    """Every activation's codes as onnxruntime computes them without optimizations: name -> array."""
    m = onnx.load(path)
    names = [n.output[0] for n in m.graph.node if n.op_type == "QuantizeLinear"]
    m.graph.output.extend(onnx.ValueInfoProto(name=n) for n in names)
    return dict(zip(names, session(m.SerializeToString(), False).run(names, feeds)))


def each_node(path, feeds):
    """Every quantized operator on the codes that onnxruntime hands it: within one code of the floats between."""
    m, codes, name = onnx.load(path), codes_of(path, feeds), os.path.basename(os.path.dirname(path))
    of, byte = aliases(m.graph), lambda v: helper.np_dtype_to_tensor_dtype(v.dtype)
    for n in m.graph.node:
        if n.op_type == "DequantizeLinear" and of(n.input[0]) in codes:
            n.input[0] = f"given.{of(n.input[0])}"
    kind = onnx.helper.make_tensor_value_info
    given = {f"given.{k}": v for k, v in codes.items()}
    m.graph.input.extend(kind(k, byte(v), v.shape) for k, v in given.items())
    del m.graph.output[:]
    m.graph.output.extend(kind(k, byte(v), v.shape) for k, v in codes.items())
    tmp = tempfile.mkdtemp(prefix="tenon-vision-")
    onnx.save(m, f"{tmp}/m.onnx")
    words = ["infer", f"{tmp}/m.onnx", "--out", f"{tmp}/out"]
    for i, (k, v) in enumerate({**feeds, **given}.items()):
        np.save(f"{tmp}/{i}.npy", v)
        words += ["--in", f"{k}={tmp}/{i}.npy"]
    r = tenon(*words)
    if r.returncode:
        failures.append(f"{name}, node by node: {r.stderr[-300:]}")
        return
    got = {k: np.load(f"{tmp}/out/{k.replace('/', '_')}.npy") for k in codes}
    off = {k: np.abs(got[k].astype(int) - v.astype(int)) for k, v in codes.items()}
    total, moved = sum(v.size for v in off.values()), sum(int((v > 0).sum()) for v in off.values())
    worst = max(int(v.max()) for v in off.values())
    print(f"{name}, node by node: {len(off)} nodes, {total} codes, {moved} differ, by {worst} at most")
    if worst > 1 or moved > total * 1e-3:
        failures.append(f"{name}, node by node: {moved} of {total} codes differ, by up to {worst}")
    shutil.rmtree(tmp)


def qdq(name, feeds):
    """Each operator is within one code of the floats between quantizations. onnxruntime with optimizations computes in
    integers too, without them it rounds floats, and one code that goes the other way at a tie moves what follows: two steps
    of the last quantization, a bound that only says that nothing else went wrong."""
    path = os.path.join(MADE, name, "model.onnx")
    each_node(path, feeds)
    m = onnx.load(path)
    scale = next(n for n in m.graph.node if m.graph.output[0].name in n.output).input[1]
    step = float(numpy_helper.to_array(next(i for i in m.graph.initializer if i.name == scale)))
    print(f"{name}: step {step:.4g}")
    verify(path, by_session(path, [feeds], False), 0, 2.001 * step)
    verify(path, by_session(path, [feeds]), 0, 2.001 * step, passes=False)
    no_shape_ops(path)


def main():
    if not os.path.isdir(MADE):
        print(f"skipped: no models in '{MADE}'")
        sys.exit(77)
    rng = np.random.default_rng(1)
    vit(rng)
    cnn("mnist_8", True, 1e-4, 1e-3, [{"Input3": rng.uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)}])
    cnn("super_resolution_10", True, 1e-4, 1e-5,
        [{"input": rng.uniform(0, 1, (b, 1, 224, 224)).astype(np.float32)} for b in (1, 2)])
    magika = [np.where(rng.uniform(size=(b, 2048)) < 0.3, 256, rng.integers(0, 256, (b, 2048))) for b in (1, 3)]
    path = os.path.join(DATA, "cnn", "magika_v3_3", "model.onnx")
    kind = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float)": np.float32}[session(path).get_inputs()[0].type]
    cnn("magika_v3_3", True, 1e-3, 1e-5, [{"bytes": m.astype(kind)} for m in magika])
    qdq("ort-resnet-qdq", {"pixel_values": rng.standard_normal((3, 3, 32, 32)).astype(np.float32)})
    for f in failures:
        print("FAIL", f)
    sys.exit(1 if failures else 0)


main()
