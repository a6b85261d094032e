# SPDX-License-Identifier: Apache-2.0
"""Outputs of real models without any pass against those with all, with each alone and with each off.

    check_models.py TENON [MODEL...]

The largest |difference| of every output must be at most 1e-5 times the largest |value| of that output. Inputs are random
with a fixed seed: a batch of 2, 3 past and 4 new positions, the second row padded on the left. Models: those of
TENON_TEST_DATA that the runtime has all operators for, and the demo of TENON_TEST_SOURCE. Exit 77 where there is none.
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
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

BOUND = 1e-5
BATCH, PAST, NEW = 2, 3, 4
DTYPES = {onnx.TensorProto.FLOAT: np.float32, onnx.TensorProto.INT64: np.int64, onnx.TensorProto.INT32: np.int32}


def models():
    data = pathlib.Path(os.environ.get("TENON_TEST_DATA", "/nonexistent"))
    found = [data / "onnx/exports" / n / "model.onnx" for n in ("llama", "qwen2", "gpt2", "phi3", "gemma")]
    found += [data / "exports" / n / "model.onnx" for n in ("optimum-bert", "optimum-t5-encoder", "tf2onnx-transformer")]
    found += [data / "lm" / n / "model.onnx" for n in ("cappgpt-onnx", "stories260k-onnx")]
    found += [pathlib.Path(os.environ.get("TENON_TEST_SOURCE", ".")) / "models/demo/model.onnx"]
    return [m for m in found if m.exists()]


def size(dim):
    name = dim.dim_param
    if not name:
        return dim.dim_value
    if name.startswith("batch") or name in ("N", "B"):
        return BATCH
    if "+" in name or name.startswith(("total", "sum")):
        return PAST + NEW
    return PAST if name.startswith("past") else NEW


def value(rng, name, dtype, shape, past):
    if dtype == np.float32:
        return rng.standard_normal(shape, dtype=dtype)
    if "mask" in name:
        mask = np.ones(shape, dtype)
        if len(shape) == 2 and shape[0] > 1:
            mask[1, :2] = 0
        return mask
    if "position" in name:
        return np.broadcast_to(np.arange(shape[-1], dtype=dtype) + past, shape).copy()
    return rng.integers(0, 2 if "type" in name else 16, shape, dtype)


def make_inputs(model, folder):
    graph = onnx.load(model, load_external_data=False).graph
    weights = {i.name for i in graph.initializer}
    rng, args = np.random.default_rng(1), []
    inputs = [i for i in graph.input if i.name not in weights]
    past = PAST if any(i.name.startswith("past") for i in inputs) else 0
    for k, i in enumerate(inputs):
        shape = [size(d) for d in i.type.tensor_type.shape.dim]
        np.save(folder / f"in{k}.npy", value(rng, i.name, DTYPES[i.type.tensor_type.elem_type], shape, past))
        args += ["--in", f"{i.name}={folder}/in{k}.npy"]
    return args


def infer(tenon, model, inputs, off, out):
    cmd = [tenon, "infer", str(model), *inputs, "--out", str(out), "--profile", "host"]
    r = subprocess.run(cmd + (["--disable-pass", ",".join(off)] if off else []), capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{' '.join(cmd)} without {off}: {r.stderr}")
    return {f.name: np.load(f) for f in sorted(out.glob("*.npy"))}


def difference(got, want):
    """The largest over all outputs, in parts of what is allowed."""
    worst = 0.0
    if got.keys() != want.keys():
        return float("inf")
    for name, w in want.items():
        g = got[name]
        if g.shape != w.shape or g.dtype != w.dtype or not np.array_equal(np.isnan(g), np.isnan(w)):
            return float("inf")
        if not w.size:
            continue
        if np.isnan(w).all() or not np.ptp(w):
            raise RuntimeError(f"'{name}' says nothing: it is the same everywhere")
        most = np.nanmax(np.abs(w.astype(np.float64)))
        d = np.nanmax(np.abs(np.where(g == w, 0, g.astype(np.float64) - w)))
        worst = max(worst, 0.0 if d == 0 else d / (BOUND * most) if most > 0 else float("inf"))
    return worst


def check(tenon, model, names, tmp):
    inputs = make_inputs(model, tmp)
    want = infer(tenon, model, inputs, names, tmp / "none")
    variants = {"all": []}
    variants.update({f"{n} alone": [o for o in names if o != n] for n in names})
    variants.update({f"{n} off": [n] for n in names})
    worst = (-1.0, "")
    failed = 0
    for label, off in variants.items():
        d = difference(infer(tenon, model, inputs, off, tmp / label.replace(" ", "-")), want)
        worst = max(worst, (d, label), key=lambda w: w[0])
        if d > 1:
            failed += 1
            print(f"FAILED {model}: {label}: {d:.3g} times the bound")
    print(f"{model.parent.name}/{model.name}: {len(want)} outputs, {len(variants)} variants, worst {worst[0]:.3g} of the "
          f"bound ({worst[1]})", flush=True)
    return failed


def main():
    tenon = sys.argv[1]
    todo = [pathlib.Path(m) for m in sys.argv[2:]] or models()
    if not todo:
        print("skipped: no model here")
        return 77
    env = subprocess.run([tenon, "inspect", str(todo[0]), "--format", "json", "--profile", "host"], capture_output=True,
                         text=True, check=True)
    names = list(json.loads(env.stdout)["passes"])
    failed = 0
    for model in todo:
        with tempfile.TemporaryDirectory() as tmp:
            failed += check(tenon, model, names, pathlib.Path(tmp))
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
