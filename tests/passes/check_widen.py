# SPDX-License-Identifier: Apache-2.0
"""Graphs of float16 and bfloat16 (pass widen): exports made halves as converters make them.

    check_widen.py TENON MODELS.tar.xz LM-FOLDER [FOLDER OF cpu-avx2-lut]

Each export is converted to float16 (its inputs and outputs too, or kept float32; masks' lowest number as onnxruntime's
converter or as onnxconverter-common writes it) and to bfloat16. Oracle: the same graph with every half widened, by
onnxruntime; bound: half a step of the outputs' dtype beside the bound of tests/exports. What onnxruntime itself makes of the
float16 graph is printed beside it. Caches hold halves, so k and v are rounded once more: at most two steps. Then: all products that the float32 original has on cpu-avx2-lut are there, caches are in
place and of the pasts' dtype, and nothing but Casts of inputs and outputs is more to run. The language model generates
the tokens that onnxruntime's greedy loop gives. Exit 77 where a package is missing.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto, helper, numpy_helper
    from onnxruntime.transformers.float16 import convert_float_to_float16
    from tokenizers import Tokenizer
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

F32, F16, BF16 = TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16
ort.set_default_logger_severity(4)
NAMES = ["optimum-llama", "optimum-gpt2", "optimum-bloom", "optimum-gemma2", "optimum-t5-encoder", "optimum-bert",
         "genai-llama-int4-asymmetric", "genai-qwen3-int4", "genai-llama-qdq", "ort-gpt2-fused", "dynamo-vit"]
WAYS = {"float16": dict(keep_io_types=False), "float16, float32 outside": dict(keep_io_types=True),
        "float16, masks of -10000": dict(keep_io_types=False, max_finite_val=1e4)}


def walk(graph):
    yield graph
    for n in graph.node:
        for a in n.attribute:
            for g in [a.g] if a.type == onnx.AttributeProto.GRAPH else a.graphs:
                yield from walk(g)


def bits_to(t, kind):
    """Tensor t in another float type, in place."""
    if t.data_type not in (F32, F16, BF16) or t.data_type == kind:
        return
    x = numpy_helper.to_array(t).astype(np.float32)
    if kind == BF16:
        x = np.clip(x, -3.3895e38, 3.3895e38)  # the lowest stays a number
        u = x.view(np.uint32).astype(np.uint64)
        raw = ((u + 0x7fff + (u >> 16 & 1)) >> 16).astype(np.uint16)
    else:
        raw = x.astype(np.float32 if kind == F32 else np.float16)
    made = helper.make_tensor(t.name, kind, t.dims, np.ascontiguousarray(raw).tobytes(), raw=True)
    t.CopyFrom(made)


def cast_all(model, froms, kind):
    """Every float of these types becomes `kind`: weights, attributes, inputs, outputs."""
    m = onnx.ModelProto()
    m.CopyFrom(model)
    for g in walk(m.graph):
        for t in g.initializer:
            if t.data_type in froms:
                bits_to(t, kind)
        for v in [*g.input, *g.output, *g.value_info]:
            if v.type.tensor_type.elem_type in froms:
                v.type.tensor_type.elem_type = kind
        for n in g.node:
            for a in n.attribute:
                if a.type == onnx.AttributeProto.TENSOR and a.t.data_type in froms:
                    bits_to(a.t, kind)
                if a.name == "to" and n.op_type == "Cast" and a.i in froms:
                    a.i = kind
    return m


def session(model):
    o = ort.SessionOptions()
    o.log_severity_level = 4
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_BASIC
    return ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"])


def rounded(x, kind):
    return numpy_helper.to_array(tensor_of(x, kind, "x")).astype(np.float32)


def tensor_of(x, kind, name):
    t = numpy_helper.from_array(np.ascontiguousarray(x.astype(np.float32)), name)
    bits_to(t, kind)
    return t


def sets(folder):
    for d in sorted(folder.glob("test_data_set_*")):
        yield d.name, [onnx.TensorProto.FromString(p.read_bytes()) for p in sorted(d.glob("input_*.pb"), key=lambda p: int(p.stem[6:]))]


class Check:
    def __init__(self, tenon, plugins, work):
        self.tenon, self.work, self.failed = tenon, work, 0
        self.env = dict(os.environ, TENON_CACHE_DIR=str(work / "cache"))
        if plugins:
            self.env["TENON_PLUGIN_PATH"] = plugins
        self.plugins = plugins

    def run(self, *args):
        return subprocess.run([self.tenon, *map(str, args)], env=self.env, capture_output=True, text=True)

    def expect(self, ok, what, more=""):
        if not ok:
            self.failed += 1
            print("FAILED:", what, more)

    def shape(self, path):
        """Products on a plugin, nodes to run, caches of which dtype."""
        on = 0
        if self.plugins:
            nodes = json.loads(self.run("check", path, "--format", "json").stdout)["nodes"]
            on = sum(n.get("device") == "cpu-avx2-lut" for n in nodes)
        text = self.run("inspect", path, "--passes").stdout
        caches = re.search(r"caches: (\d+) of (\w+)", text)
        return on, int(re.search(r"(\d+) to run", text)[1]), caches.groups() if caches else None

    def compare(self, name, model, kind, original, folder):
        """model: of halves. Its goldens: the widened graph's, rounded."""
        at = self.work / "model"
        shutil.rmtree(at, ignore_errors=True)
        at.mkdir()
        onnx.save(model, at / "model.onnx")
        wide = session(cast_all(model, (F16, BF16), F32))
        own = session(model) if kind == F16 else None
        types = {i.name: i.type.tensor_type.elem_type for i in [*model.graph.input, *model.graph.output]}
        outs, ours, largest = [o.name for o in model.graph.output], 0.0, 0.0
        for d, inputs in sets(folder):
            (at / d).mkdir(exist_ok=True)
            feed = {}
            for i, t in enumerate(inputs):
                x = numpy_helper.to_array(t)
                if t.data_type in (F32, F16):
                    t = tensor_of(x, types[t.name], t.name)
                    x = numpy_helper.to_array(t).astype(np.float32)
                feed[t.name] = x
                (at / d / f"input_{i}.pb").write_bytes(t.SerializeToString())
            exact = wide.run(outs, feed)
            largest = max([largest] + [float(np.abs(y).max(initial=0)) for y in exact])
            for i, (o, y) in enumerate(zip(outs, exact)):
                (at / d / f"output_{i}.pb").write_bytes(tensor_of(y, types[o], o).SerializeToString())
            if own:
                half = {n: x.astype(np.float16) if types[n] == F16 else x for n, x in feed.items()}
                ours = max([ours] + [float(np.abs(a.astype(np.float32) - b).max(initial=0)) for a, b in
                                     zip(own.run(outs, half), exact)])
        step = 2.0**-7 if kind == BF16 else 2.0**-10  # of numbers up to 2
        bound = 2e-4 + (2 if any("past" in n for n in types) else 0.5) * step * max(1, largest / 2)
        v = self.run("verify", at / "model.onnx", "--data", at, "--profile", "host", "--rtol", 1e-3 + step, "--atol", bound)
        worst = max((float(m[1]) for m in re.finditer(r"^\S+ +\S+ +(?:ok|FAILED) +(\S+)", v.stdout, re.M)), default=0)
        self.expect(v.returncode == 0, f"{name}: verify", v.stdout[-600:] + v.stderr)
        was, now = self.shape(original), self.shape(at / "model.onnx")
        io = sum(t in (F16, BF16) for n, t in types.items() if "past" not in n and "present" not in n)
        self.expect(now[0] >= was[0] and now[1] <= was[1] + io, f"{name}: (products, nodes, caches)", f"{was} became {now}")
        if was[2]:
            want = {F16: "float16", BF16: "bfloat16"}.get(types[next(n for n in types if "past" in n)], "float32")
            self.expect(now[2] == (was[2][0], want), f"{name}: caches", f"{was[2]} became {now[2]}")
        print(f"{name}: off by {worst:.2g}" + (f", onnxruntime by {ours:.2g}" if own else ""))

    def large(self, kind, rows, K=256, N=320, V=700):
        """Weights that stay as they are stored: products of every form and a table, of one row and of several; and two of
        MatMulNBits on one activation, wider than a tile."""
        rng, at = np.random.default_rng(rows), self.work / "large"
        shutil.rmtree(at, ignore_errors=True)
        (at / "test_data_set_0").mkdir(parents=True)
        x, ids = rng.standard_normal((rows, K)), rng.integers(0, V, (rows,))
        w = {"kn": (K, N), "kn2": (K, N), "nk": (N, K), "table": (V, K)}
        w = {n: rng.standard_normal(s) / 16 for n, s in w.items()}
        codes, scales = rng.integers(0, 16, (2, N, K)), rng.uniform(0.01, 0.02, (2, N, K // 32))
        weights = [tensor_of(v, kind, n) for n, v in w.items()]
        w = {n: rounded(v, kind) for n, v in w.items()}
        nodes = [helper.make_node("MatMul", ["x", "kn"], ["a"]), helper.make_node("MatMul", ["x", "kn2"], ["b"]),
                 helper.make_node("Gemm", ["x", "nk"], ["c"], transB=1), helper.make_node("Gather", ["table", "ids"], ["d"]),
                 helper.make_node("Transpose", ["table"], ["turned"], perm=[1, 0]),
                 helper.make_node("MatMul", ["x", "turned"], ["e"])]
        for i, y in enumerate("fg"):
            packed = (codes[i, :, 0::2] | codes[i, :, 1::2] << 4).astype(np.uint8).reshape(N, K // 32, 16)
            weights += [numpy_helper.from_array(packed, y + "c"), tensor_of(scales[i].ravel(), kind, y + "s")]
            w[y] = ((codes[i] - 8) * np.repeat(rounded(scales[i], kind), 32, 1)).T
            nodes.append(helper.make_node("MatMulNBits", ["x", y + "c", y + "s"], [y], domain="com.microsoft", bits=4, K=K,
                                          N=N, block_size=32))
        x = rounded(x, kind)
        want = {"a": x @ w["kn"], "b": x @ w["kn2"], "c": x @ w["nk"].T, "d": w["table"][ids], "e": x @ w["table"].T,
                "f": x @ w["f"], "g": x @ w["g"]}
        io = lambda n, k, s: helper.make_tensor_value_info(n, k, s)
        graph = helper.make_graph(nodes, "g", [io("x", kind, ["rows", K]), io("ids", TensorProto.INT64, ["rows"])],
                                  [io(n, kind, ["rows", y.shape[1]]) for n, y in want.items()], weights)
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18), helper.make_opsetid("com.microsoft", 1)],
                                    ir_version=9), at / "model.onnx")
        put = lambda name, t: (at / "test_data_set_0" / name).write_bytes(t.SerializeToString())
        put("input_0.pb", tensor_of(x, kind, "x"))
        put("input_1.pb", numpy_helper.from_array(ids, "ids"))
        for i, (n, y) in enumerate(want.items()):
            put(f"output_{i}.pb", tensor_of(y, kind, n))
        step = 2.0**-8 if kind == BF16 else 2.0**-11
        v = self.run("verify", at / "model.onnx", "--data", at, "--profile", "host", "--rtol", step * 1.01, "--atol", 1e-4)
        name = f"stored weights, {rows} rows of {helper.tensor_dtype_to_np_dtype(kind)}"
        self.expect(v.returncode == 0, name, v.stdout + v.stderr)
        held = re.search(r"weights_bytes +(\d+)", self.run("inspect", at / "model.onnx", "--profile", "host").stdout)
        stored = 2 * (3 * K * N + V * K) + 2 * N * K * 9 // 16
        self.expect(held and int(held[1]) <= stored * 1.01, f"{name}: memory", f"{held and held[1]}, stored {stored}")
        if self.plugins:
            on = self.shape(at / "model.onnx")[0]
            # Every product; those of MatMulNBits keep their grid, so one fused node of all six is none that the plugin takes.
            self.expect(on == 6, f"{name}: on cpu-avx2-lut", on)

    def generate(self, name, model, lm, n=16):
        folder = self.work / "lm"
        folder.mkdir(exist_ok=True)
        for f in lm.glob("*.json"):
            (folder / f.name).write_bytes(f.read_bytes())
        onnx.save(model, folder / "model.onnx")
        prompt = "Once upon a time there was"
        wide = session(cast_all(model, (F16, BF16), F32))
        ids = Tokenizer.from_file(str(lm / "tokenizer.json")).encode(prompt).ids
        feed = {i.name: np.zeros([d if isinstance(d, int) else 1 if k == 0 else 0 for k, d in enumerate(i.shape)], np.float32)
                for i in wide.get_inputs() if "past" in i.name}
        out, known, step, total = [o.name for o in wide.get_outputs()], [], list(ids), 0
        for _ in range(n):
            total += len(step)
            feed["input_ids"] = np.array([step])
            feed["attention_mask"] = np.ones((1, total), np.int64)
            feed["position_ids"] = np.arange(total - len(step), total)[None]
            r = dict(zip(out, wide.run(out, {i.name: feed[i.name] for i in wide.get_inputs()})))
            step = [int(r["logits"][0, -1].argmax())]
            known += step
            feed.update({o.replace("present", "past_key_values"): r[o] for o in out if "present" in o})
        v = self.run("run", folder, "-p", prompt, "-n", n, "--temp", 0, "--profile", "host", "--ignore-eos")
        want = Tokenizer.from_file(str(lm / "tokenizer.json")).decode(known)
        self.expect(v.returncode == 0 and v.stdout.strip() == want.strip(), f"{name}: generation",
                    f"{v.stdout!r}, onnxruntime {want!r} {v.stderr}")


def main():
    tenon, archive, lm = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3])
    with tempfile.TemporaryDirectory() as t, tarfile.open(archive) as tar:
        work = pathlib.Path(t)
        tar.extractall(work, [m for m in tar if set(m.name.split("/")) & set(NAMES)], **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
        c = Check(tenon, sys.argv[4] if len(sys.argv) > 4 else None, work)
        for name in NAMES:
            folder = work / name
            original = onnx.load(folder / "model.onnx")
            for way, how in WAYS.items():
                half = convert_float_to_float16(onnx.load(folder / "model.onnx"), disable_shape_infer=True, **how)
                c.compare(f"{name}, {way}", half, F16, folder / "model.onnx", folder)
            c.compare(f"{name}, bfloat16", cast_all(original, (F32,), BF16), BF16, folder / "model.onnx", folder)
        for kind in (F16, BF16):
            c.large(kind, 1)
            c.large(kind, 5)
        f32 = onnx.load(lm / "model.onnx")
        c.generate("float16", convert_float_to_float16(f32, disable_shape_infer=True), lm)
        c.generate("bfloat16", cast_all(onnx.load(lm / "model.onnx"), (F32,), BF16), lm)
        print(f"{len(NAMES)} exports, {c.failed} failed")
        return c.failed != 0


sys.exit(main())
