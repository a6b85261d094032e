# SPDX-License-Identifier: Apache-2.0
"""check_models.py TENON: whole models of TENON_TEST_DATA/onnx on the host, beside goldens and onnxruntime.

ViT must give the golden logits and the right class of all 121 images; MNIST, super-resolution and Magika onnxruntime's
outputs at several batches; MobileNetV2 in QDQ form those of onnxruntime without its graph optimizations, up to two steps of
the last quantization. No shape operator may be left per step."""
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
    from onnx import numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TENON = os.path.abspath(sys.argv[1])
DATA = os.path.join(os.environ.get("TENON_TEST_DATA", ""), "onnx")
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
        text = f"{os.path.relpath(path, DATA)} {' '.join(extra)}"
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


def vit():
    path = os.path.join(DATA, "vit", "vit_ibp_3_3_8.onnx")
    images = np.load(os.path.join(DATA, "vit", "inputs_normalised_121x3x32x32.npy"))
    golden = np.load(os.path.join(DATA, "vit", "golden.npz"))
    right = int((golden["ibp_logits"].argmax(1) == golden["labels"]).sum())
    top = np.sort(golden["ibp_logits"], 1)
    margin = float((top[:, -1] - top[:, -2]).min())
    # Logits within atol of golden ones have their classes where the margin is above twice that.
    atol = min(1e-4, margin / 2.1)
    print(f"vit: {right} of {len(images)} images by the golden logits, margin {margin:.3g}")
    if right != len(images):
        failures.append("vit: the golden logits do not classify all images")
    verify(path, [({"input": images}, {"output": golden["ibp_logits"]}),
                  ({"input": images[:1]}, {"output": golden["ibp_logits"][:1]})], 0, atol)
    no_shape_ops(path)


def cnn(name, optimize, rtol, atol, feeds):
    path = os.path.join(DATA, "cnn", name, "model.onnx")
    verify(path, by_session(path, feeds, optimize), rtol, atol)
    no_shape_ops(path)


def qdq(image):
    """Sums in another order round a tie the other way here and there, so scores differ by steps of their quantization: two
    at most, as onnxruntime's own differ with its optimizations, and far less than between the first two classes."""
    path = os.path.join(DATA, "cnn", "mobilenetv2_qdq", "model.onnx")
    sets = by_session(path, [{"image": image}], False)
    scores = np.sort(next(iter(sets[0][1].values()))[0])
    step = np.diff(np.unique(scores)).min()
    print(f"mobilenetv2_qdq: step {step:.4g}, margin {scores[-1] - scores[-2]:.4g}")
    if scores[-1] - scores[-2] <= 4 * step:
        failures.append("mobilenetv2_qdq: the class of the stored image is not certain within two steps")
    verify(path, sets, 0, 2.001 * step)
    no_shape_ops(path)


def main():
    if not os.path.isdir(os.path.join(DATA, "vit")):
        print(f"skipped: no models in '{DATA}'")
        sys.exit(77)
    rng = np.random.default_rng(1)
    vit()
    cnn("mnist_8", True, 1e-4, 1e-3, [{"Input3": rng.uniform(0, 255, (1, 1, 28, 28)).astype(np.float32)}])
    cnn("super_resolution_10", True, 1e-4, 1e-5,
        [{"input": rng.uniform(0, 1, (b, 1, 224, 224)).astype(np.float32)} for b in (1, 2)])
    magika = [np.where(rng.uniform(size=(b, 2048)) < 0.3, 256, rng.integers(0, 256, (b, 2048))) for b in (1, 3)]
    path = os.path.join(DATA, "cnn", "magika_v3_3", "model.onnx")
    kind = {"tensor(int32)": np.int32, "tensor(int64)": np.int64, "tensor(float)": np.float32}[session(path).get_inputs()[0].type]
    cnn("magika_v3_3", True, 1e-3, 1e-5, [{"bytes": m.astype(kind)} for m in magika])
    stored = onnx.TensorProto()
    with open(os.path.join(DATA, "cnn", "mobilenetv2_qdq", "test_data_set_0", "input_0.pb"), "rb") as f:
        stored.ParseFromString(f.read())
    image = numpy_helper.to_array(stored)
    qdq(image)
    for f in failures:
        print("FAIL", f)
    sys.exit(1 if failures else 0)


main()
