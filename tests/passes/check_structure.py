# SPDX-License-Identifier: Apache-2.0
"""What is left of exports after the passes.

    check_structure.py TENON MODELS.tar.xz

- Decoders with fused q, k, v products and with norms of heads have no Transpose and no Reshape in the step.
- Graphs that ONNX Runtime's session saved (extended, all) have as many nodes left as their originals, and their outputs.
- Pasts that each have a symbol of their own are kept in place; runs with pasts of different lengths are refused.
- Fused products of 4-bit weights are split without a change of the results.
Exit 77 where onnxruntime is missing.
"""
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

TENON = sys.argv[1]
FLAT = ("falcon", "falcon-alibi", "bloom", "gptj", "codegen", "phi3", "gpt-neox", "mpt", "gpt-bigcode", "qwen3", "gemma3", "llama", "qwen2",
        "gpt2", "gemma", "phi", "stablelm", "granite", "olmo2")
GENAI = ("genai-qwen3-int4", "genai-gemma3-int4")
SAVED = ("optimum-llama", "optimum-qwen2", "optimum-qwen3", "optimum-gpt2", "optimum-gemma", "optimum-phi3", "optimum-gpt-neox",
         "optimum-bert", "optimum-vit", "dynamo-llama", "dynamo-bert")
OWN = ("optimum-llama", "optimum-qwen2", "optimum-gpt2", "optimum-gemma")
QUANTIZED = ("optimum-gpt-neox", "optimum-bloom", "optimum-codegen")


def inspect(model):
    r = subprocess.run([TENON, "inspect", str(model), "--format", "json", "--profile", "host"], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{model}: {r.stdout}{r.stderr}")
    return json.loads(r.stdout)


def saved(source, target, level):
    o = onnxruntime.SessionOptions()
    o.graph_optimization_level = level
    o.optimized_model_filepath = str(target)
    o.log_severity_level = 3
    onnxruntime.InferenceSession(str(source), o, providers=["CPUExecutionProvider"])


def verifies(model, folder):
    r = subprocess.run([TENON, "verify", str(model), "--data", str(folder), "--profile", "host", "--rtol", "1e-3", "--atol", "2e-4"],
                       capture_output=True, text=True)
    return r.returncode == 0


def check_flat(folder):
    bad = []
    for name in [f"optimum-{n}" for n in FLAT] + list(GENAI):
        left = inspect(folder / name / "model.onnx")["layout_ops_left"]
        if left:
            bad.append(f"{name}: {left} Transposes and Reshapes are left")
    return bad


def check_saved(folder, tmp):
    bad = []
    for name in SAVED:
        original = folder / name / "model.onnx"
        want = inspect(original)["nodes_after"]
        for label, level in (("extended", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED),
                             ("all", onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL)):
            if label == "all" and name == "optimum-vit":
                continue  # its Conv is in blocks of this machine's channels (com.microsoft.nchwc)
            copy = tmp / f"{name}-{label}.onnx"
            saved(original, copy, level)
            got = inspect(copy)["nodes_after"]
            if got != want:
                bad.append(f"{name}, {label}: {got} nodes, the original {want}")
            if not verifies(copy, folder / name):
                bad.append(f"{name}, {label}: other outputs than its original's")
    return bad


def in_4_bits(model, target, block=16):
    """Constant weights of MatMul as MatMulNBits: asymmetric, in blocks of `block`."""
    m = onnx.load(model)
    weights = {i.name: i for i in m.graph.initializer}
    for n in m.graph.node:
        if n.op_type != "MatMul" or n.input[1] not in weights:
            continue
        w = onnx.numpy_helper.to_array(weights[n.input[1]]).T  # [N, K]
        N, K = w.shape
        if K % (2 * block):
            continue
        b = w.reshape(N, K // block, block)
        low, high = np.minimum(b.min(2), 0), np.maximum(b.max(2), 0)
        scale = ((high - low) / 15).astype(np.float32) + 1e-9
        zero = np.clip(np.round(-low / scale), 0, 15).astype(np.uint8)
        q = np.clip(np.round(b / scale[..., None]) + zero[..., None], 0, 15).astype(np.uint8)
        name = n.input[1]
        for what, a in (("q", q[..., ::2] | q[..., 1::2] << 4), ("s", scale.reshape(-1)), ("z", (zero[:, ::2] | zero[:, 1::2] << 4).reshape(-1))):
            if f"{name}_{what}" not in weights:
                weights[f"{name}_{what}"] = onnx.numpy_helper.from_array(np.ascontiguousarray(a), f"{name}_{what}")
                m.graph.initializer.append(weights[f"{name}_{what}"])
        n.op_type, n.domain = "MatMulNBits", "com.microsoft"
        n.input[:] = [n.input[0]] + [f"{name}_{what}" for what in "qsz"]
        n.attribute.extend(onnx.helper.make_attribute(k, v) for k, v in (("K", K), ("N", N), ("bits", 4), ("block_size", block)))
    m.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    onnx.save(m, target)


def check_quantized(folder, tmp):
    """The results with every pass against those without `lanes`: of 4-bit weights too each column stays itself."""
    bad = []
    for name in QUANTIZED:
        model = tmp / f"{name}-4.onnx"
        in_4_bits(folder / name / "model.onnx", model)
        if inspect(model)["layout_ops_left"]:
            bad.append(f"{name} in 4 bits: Transposes and Reshapes are left")
        args = []
        for f in sorted((folder / name / "test_data_set_0").glob("input_*.pb")):
            t = onnx.TensorProto()
            t.ParseFromString(f.read_bytes())
            np.save(tmp / f"{f.stem}.npy", onnx.numpy_helper.to_array(t))
            args += ["--in", f"{t.name}={tmp}/{f.stem}.npy"]
        out = []
        for off in ([], ["--disable-pass", "lanes"]):
            to = tmp / f"{name}-{len(off)}"
            r = subprocess.run([TENON, "infer", str(model), *args, "--out", str(to), "--profile", "host", *off], capture_output=True,
                               text=True)
            if r.returncode:
                bad.append(f"{name} in 4 bits: {r.stderr}")
            out.append({f.name: np.load(f) for f in to.glob("*.npy")})
        if not out[0] or out[0].keys() != out[1].keys():
            bad.append(f"{name} in 4 bits: no outputs")
        for key in out[0].keys() & out[1].keys():
            if not np.allclose(out[0][key], out[1][key], rtol=1e-5, atol=1e-5):
                bad.append(f"{name} in 4 bits: '{key}' changes by {np.abs(out[0][key] - out[1][key]).max()}")
    return bad


def own_symbols(source, target):
    """Each past has a symbol of its own, but for the first, which the mask's length is told by."""
    m = onnx.load(source)
    n = 0
    for i in m.graph.input:
        for d in i.type.tensor_type.shape.dim if i.name.startswith("past") else ():
            if d.dim_param.startswith("past"):
                d.dim_param = f"s{n}" if n else d.dim_param
                n += 1
    for o in m.graph.output:
        for d in o.type.tensor_type.shape.dim if o.name.startswith("present") else ():
            if "past" in d.dim_param:
                d.ClearField("dim_param")
    onnx.save(m, target)


def ids_of(model):
    r = subprocess.run([TENON, "run", str(model), "--prompt-ids", "5,9,33,2,71,8", "--temp", "0", "--ids", "-n", "20", "--profile", "host"],
                       capture_output=True, text=True)
    return r.stdout.split() if r.returncode == 0 else r.stderr


def refuses_lengths_that_differ(model, tmp):
    """A run whose second past is longer than the first is told so."""
    args = []
    for i in onnx.load(model).graph.input:
        dims = [d.dim_value or {"batch_size": 1, "sequence_length": 2}.get(d.dim_param, 3 + 2 * ("+" in d.dim_param) + (d.dim_param == "s1"))
                for d in i.type.tensor_type.shape.dim]
        np.save(tmp / "x.npy", np.ones(dims, np.int64 if i.type.tensor_type.elem_type == onnx.TensorProto.INT64 else np.float32))
        (tmp / "x.npy").rename(tmp / f"{i.name}.npy")
        args += ["--in", f"{i.name}={tmp}/{i.name}.npy"]
    r = subprocess.run([TENON, "infer", str(model), *args, "--out", str(tmp / "out"), "--profile", "host"], capture_output=True, text=True)
    return r.returncode == 3 and "axis 2 must be past_sequence_length" in r.stderr


def check_own_symbols(folder, tmp):
    bad = []
    for name in OWN:
        original, model = folder / name / "model.onnx", tmp / f"{name}-own.onnx"
        own_symbols(original, model)
        kept = sum(c["caches"] for c in inspect(model)["caches"])
        if kept != sum(c["caches"] for c in inspect(original)["caches"]) or not kept:
            bad.append(f"{name}, pasts with symbols of their own: {kept} caches are kept in place")
        if not verifies(model, folder / name) or ids_of(model) != ids_of(original):
            bad.append(f"{name}, pasts with symbols of their own: other outputs, or ids: {ids_of(model)}")
        if not refuses_lengths_that_differ(model, tmp):
            bad.append(f"{name}, pasts with symbols of their own: a run takes pasts of different lengths")
    return bad


def main():
    with tempfile.TemporaryDirectory() as name:
        tmp = pathlib.Path(name)
        with tarfile.open(sys.argv[2]) as archive:
            archive.extractall(tmp / "models", **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        bad = check_flat(tmp / "models") + check_saved(tmp / "models", tmp) + check_quantized(tmp / "models", tmp)
        bad += check_own_symbols(tmp / "models", tmp)
    for line in bad:
        print(line)
    print(f"{len(FLAT) + len(GENAI)} decoders, {len(SAVED)} saved graphs, {len(QUANTIZED)} of 4 bits: {len(bad)} failed")
    return bool(bad)


sys.exit(main())
