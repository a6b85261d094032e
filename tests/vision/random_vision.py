# SPDX-License-Identifier: Apache-2.0
"""random_vision.py SHAPE_RUN PROFILE_DIR [--models N] [--seed N] [--keep FOLDER]

Random convolutions, poolings, resizings and their like with random attributes, on inputs whose batch and spatial dims are
symbols, in every dtype that onnxruntime or ONNX's reference evaluator computes. Each model runs at several sizes: where
the other side gives an output Tenon must give the same (the bound follows from the dtype and the length of the sums), and
every dim that inference claims must be the true one. TENON_TEST_SEED sets the seed, which is printed."""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

RUNS = 3
EPS = {T.FLOAT: 2.0**-23, T.DOUBLE: 2.0**-52, T.FLOAT16: 2.0**-10, T.BFLOAT16: 2.0**-7}
HALVES = [T.FLOAT16, T.BFLOAT16]
NUMPY = {T.FLOAT: np.float32, T.DOUBLE: np.float64, T.INT8: np.int8, T.UINT8: np.uint8,
         T.INT32: np.int32, T.INT64: np.int64}


class Case:
    """One node over X [b, c, spatial symbols] and constants."""

    def __init__(self, rng, op, opset=22):
        self.rng, self.op, self.opset = rng, op, opset
        self.rank = rng.choice([1, 2, 2, 2, 3])
        self.dtype = T.FLOAT
        self.attrs, self.consts, self.extra, self.outputs, self.domain = {}, [], [], ["y"], ""
        self.channels = rng.choice([1, 2, 3, 4, 6])
        self.terms = 1  # of one sum
        self.exact = False
        self.half = None  # the operator between casts: X, constants and result are of this dtype, the files f32

    def window(self, kernel=None, dilations=True, ceil=False, auto=True):
        r = self.rng
        k = kernel or [r.randint(1, 4) for _ in range(self.rank)]
        self.attrs["kernel_shape"] = k
        if r.random() < 0.7:
            self.attrs["strides"] = [r.randint(1, 3) for _ in k]
        if dilations and r.random() < 0.4:
            self.attrs["dilations"] = [r.randint(1, 3) for _ in k]
        how = r.random()
        if auto and how < 0.3 and "dilations" not in self.attrs:
            self.attrs["auto_pad"] = r.choice(["SAME_UPPER", "SAME_LOWER", "VALID"])
        elif how < 0.8:
            self.attrs["pads"] = [r.randint(0, max(0, n - 1)) for n in k] + [r.randint(0, max(0, n - 1)) for n in k]
        if ceil and r.random() < 0.5:
            self.attrs["ceil_mode"] = 1
        return k

    def const(self, name, shape, dtype=None, low=-1.0, high=1.0):
        t = NUMPY[dtype or self.dtype]
        g = np.random.default_rng(self.rng.randrange(1 << 60))
        v = (g.uniform(low, high, shape) if np.issubdtype(t, np.floating) else g.integers(int(low), int(high) + 1, shape))
        self.consts.append((name, np.asarray(v).astype(t)))
        return name


def conv(rng):
    c = Case(rng, "Conv")
    c.dtype = rng.choice([T.FLOAT, T.FLOAT, T.DOUBLE])
    group = rng.choice([g for g in (1, 1, 2, 3, c.channels) if c.channels % g == 0])
    k = c.window()
    m = group * rng.choice([1, 1, 2, 5, 100 // group if rng.random() < 0.2 else 3])
    c.attrs["group"] = group
    c.terms = c.channels // group * int(np.prod(k)) + 1
    c.const("w", [m, c.channels // group] + k)
    if rng.random() < 0.6:
        c.const("bias", [m])
    return c


def conv_transpose(rng):
    c = Case(rng, "ConvTranspose")
    c.dtype = rng.choice([T.FLOAT, T.FLOAT, T.DOUBLE])
    group = rng.choice([g for g in (1, 1, 2, c.channels) if c.channels % g == 0])
    many = rng.random() < 0.25  # more columns than are made at a time
    if many:
        c.rank, c.dtype = 3, T.FLOAT
    k = c.window([3, 4, 4] if many else None)
    if c.attrs.get("auto_pad", "V")[0] == "S" and any(s > n for s, n in zip(c.attrs.get("strides", [1] * c.rank), k)):
        c.attrs.pop("auto_pad")  # onnxruntime leaves out the zeros that windows with gaps between them end in
    m = 200 if many else rng.choice([1, 2, 3])
    c.attrs["group"] = group
    c.terms = c.channels // group * int(np.prod(k)) + 1
    c.const("w", [c.channels, m] + k)
    if rng.random() < 0.6:
        c.const("bias", [group * m])
    if "strides" in c.attrs and rng.random() < 0.4:
        c.attrs["output_padding"] = [rng.randint(0, s - 1) for s in c.attrs["strides"]]
    return c


def pool(rng):
    c = Case(rng, rng.choice(["MaxPool", "AveragePool", "LpPool"]))
    c.dtype = rng.choice([T.FLOAT, T.FLOAT, T.DOUBLE])
    c.window(ceil=True)
    if "auto_pad" in c.attrs:
        c.attrs.pop("ceil_mode", None)
    c.terms = int(np.prod(c.attrs["kernel_shape"]))
    if c.op == "MaxPool":
        c.dtype = rng.choice([T.FLOAT, T.DOUBLE, T.INT8, T.UINT8])
        c.exact = True
        if rng.random() < 0.5:
            c.outputs.append("i")
            c.attrs["storage_order"] = rng.choice([0, 1])
    elif c.op == "AveragePool":
        c.attrs["count_include_pad"] = rng.choice([0, 1])
    else:
        c.attrs["p"] = rng.choice([1, 2, 3])
        c.terms *= 8
    return c


def global_pool(rng):
    c = Case(rng, rng.choice(["GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool"]), 21)
    c.dtype = rng.choice([T.FLOAT, T.FLOAT, T.DOUBLE]) if c.op != "GlobalLpPool" else T.FLOAT
    c.terms = 2000
    return c


def norm(rng):
    c = Case(rng, rng.choice(["BatchNormalization", "InstanceNormalization", "LRN", "LpNormalization",
                              "GroupNormalization", "MeanVarianceNormalization"]))
    c.dtype = rng.choice([T.FLOAT, T.FLOAT, T.DOUBLE]) if c.op in ("BatchNormalization", "LpNormalization") else T.FLOAT
    c.terms = 4000
    if c.op == "LRN":
        c.rank = 2
        c.attrs.update(size=rng.choice([1, 3, 5]), alpha=rng.uniform(1e-4, 1), beta=rng.uniform(0.3, 1), bias=1.5)
    elif c.op == "LpNormalization":
        c.attrs.update(axis=rng.randint(-c.rank - 2, c.rank + 1), p=rng.choice([1, 2]))
    elif c.op == "MeanVarianceNormalization":
        c.attrs["axes"] = sorted({c.rank + 1, *rng.sample(range(c.rank + 2), rng.randint(1, c.rank + 1))})
    else:
        c.const("scale", [c.channels])
        c.const("shift", [c.channels])
        if c.op == "BatchNormalization":
            c.const("mean", [c.channels])
            c.const("var", [c.channels], low=0.1)
        elif c.op == "GroupNormalization":
            c.attrs["num_groups"] = rng.choice([g for g in (1, 2, 3, c.channels) if c.channels % g == 0])
    return c


def resize(rng):
    c = Case(rng, "Resize")
    mode = rng.choice(["nearest", "linear", "cubic"])
    c.rank = 2 if mode == "cubic" else rng.choice([1, 2, 2, 3])
    c.dtype = rng.choice([T.FLOAT, T.FLOAT, T.INT32 if mode == "nearest" else T.FLOAT])
    c.exact = mode == "nearest"
    c.attrs["mode"] = mode
    ways = ["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"]
    c.attrs["coordinate_transformation_mode"] = rng.choice(ways)
    if mode == "nearest":
        c.attrs["nearest_mode"] = rng.choice(["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
    elif mode == "cubic":
        c.attrs["cubic_coeff_a"] = rng.choice([-0.5, -0.75])
        c.attrs["exclude_outside"] = rng.choice([0, 1])
    if mode != "nearest" and rng.random() < 0.3 and c.rank == 2:
        c.attrs["antialias"] = 1
        c.attrs["coordinate_transformation_mode"] = "half_pixel"
    c.terms = 4096
    scales = [1.0, 1.0] + [rng.choice([0.5, 0.75, 1.0, 1.5, 2.0, 2.0, 3.0]) for _ in range(c.rank)]
    if rng.random() < 0.5:
        c.consts += [("roi", np.zeros(0, np.float32)), ("scales", np.array(scales, np.float32))]
    else:
        c.extra = ["roi", "none", "sizes"]
        c.consts += [("roi", np.zeros(0, np.float32)), ("none", np.zeros(0, np.float32))]
        c.sizes = [rng.randint(1, 12) for _ in range(c.rank)]
    return c


def grid_sample(rng):
    c = Case(rng, "GridSample")
    mode = rng.choice(["nearest", "linear", "cubic"])
    c.rank = 2 if mode == "cubic" else rng.choice([2, 2, 3])
    c.attrs.update(mode=mode, padding_mode=rng.choice(["zeros", "border", "reflection"]), align_corners=rng.choice([0, 1]))
    c.terms = 512
    c.grid = [rng.randint(1, 5) for _ in range(c.rank)]
    c.extra = ["grid"]
    return c


def blocks(rng):
    c = Case(rng, rng.choice(["DepthToSpace", "SpaceToDepth"]), 13)
    c.rank, c.exact = 2, True
    b = rng.choice([1, 2, 3])
    c.attrs["blocksize"] = b
    c.multiple = b
    if c.op == "DepthToSpace":
        c.channels = b * b * rng.randint(1, 3)
        c.attrs["mode"] = rng.choice(["DCR", "CRD"])
    return c


def unary_pad(rng):
    c = Case(rng, "Pad", 21)
    c.exact = True
    mode = rng.choice(["constant", "reflect", "edge", "wrap"])
    c.attrs["mode"] = mode
    c.dtype = rng.choice([T.FLOAT, T.INT32, T.DOUBLE])
    low = 0 if mode != "constant" else -1
    pads = [0, 0] + [rng.randint(low, 1) for _ in range(c.rank)] + [0, 0] + [rng.randint(low, 1) for _ in range(c.rank)]
    c.consts.append(("pads", np.array(pads, np.int64)))
    if mode == "constant" and rng.random() < 0.5:
        c.consts.append(("value", np.array(3, NUMPY[c.dtype])))
    return c


def old(rng):
    """Forms of older opsets, which the importer rewrites."""
    c = Case(rng, rng.choice(["Upsample", "Resize", "GridSample", "BatchNormalization", "GroupNormalization", "AveragePool",
                              "MaxPool", "Conv"]))
    c.rank = 2
    c.terms = 4096
    if c.op in ("Upsample", "Resize"):
        c.attrs["mode"] = rng.choice(["nearest", "linear"])
        c.opset = 10 if c.op == "Resize" else rng.choice([7, 9])
        less = [0.5, 0.75, 0.6] if c.op == "Resize" and c.attrs["mode"] == "nearest" else []
        scales = [1.0, 1.0] + [float(rng.choice([1, 2, 3, *less])) for _ in range(2)]
        if c.opset == 7:
            c.attrs["scales"] = scales
        else:
            c.consts.append(("scales", np.array(scales, np.float32)))
    elif c.op == "GridSample":
        c.opset, c.grid, c.extra = 16, [3, 4], ["grid"]
        c.attrs.update(mode=rng.choice(["nearest", "bilinear", "bicubic"]), align_corners=rng.choice([0, 1]))
    elif c.op == "BatchNormalization":
        c.opset = rng.choice([7, 8, 9, 13])
        for n in ("scale", "shift", "mean"):
            c.const(n, [c.channels])
        c.const("var", [c.channels], low=0.1)
        if c.opset < 9:
            c.attrs["spatial"] = 1
    elif c.op == "GroupNormalization":
        c.opset = 18
        groups = rng.choice([g for g in (1, 2, 3) if c.channels % g == 0])
        c.attrs["num_groups"] = groups
        c.const("scale", [groups])
        c.const("shift", [groups])
    else:
        c.opset = 7
        k = c.window(dilations=c.op == "Conv")
        if c.op == "Conv":
            c.const("w", [3, c.channels] + k)
    return c


MAKERS = [old, old, conv, conv, conv, conv_transpose, pool, pool, pool, global_pool, norm, norm, resize, resize, resize, grid_sample,
          blocks, unary_pad]


def values(rng, dtype, shape):
    t = NUMPY[dtype]
    if np.issubdtype(t, np.floating):
        return rng.uniform(-2, 2, shape).astype(t)
    info = np.iinfo(t)
    return rng.integers(max(info.min, -100), min(info.max, 200), shape).astype(t)


def rounded(v, half):
    """v as a half holds it, in f32."""
    if half == T.FLOAT16:
        return v.astype(np.float16).astype(np.float32)
    bits = v.astype(np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def halve(c, names, nodes):
    """Casts around the operator; returns the models with them and without, as lists of nodes."""
    skip = {"roi", "scales", "none", "sizes", "grid", "pads"}
    inside = {n: n + "_half" for n in names if n not in skip}
    around = [helper.make_node("Cast", [n], [h], to=c.half) for n, h in inside.items()]
    node = nodes[-1]
    half = onnx.NodeProto()
    half.CopyFrom(node)
    half.input[:] = [inside.get(n, n) for n in names]
    half.output[0] = "y_half"
    return nodes[:-1] + around + [half, helper.make_node("Cast", ["y_half"], ["y"], to=T.FLOAT)]


def make(folder, rng):
    c = rng.choice(MAKERS)(rng)
    os.makedirs(folder)
    if c.dtype == T.FLOAT and c.opset > 13 and rng.random() < 0.35 and c.op != "GlobalLpPool":
        c.half = rng.choice(HALVES)
        c.consts = [(n, rounded(v, c.half) if v.dtype == np.float32 and n not in ("roi", "scales", "none") else v)
                    for n, v in c.consts]
    symbols = ["b"] + [f"s{i}" for i in range(c.rank)]
    inputs = [helper.make_tensor_value_info("x", c.dtype, [symbols[0], c.channels] + symbols[1:])]
    names = ["x"] + [n for n, _ in c.consts if n not in c.extra] + c.extra
    nodes = []
    if c.op == "Resize" and c.extra:  # sizes: batch and channels of x, then numbers
        nodes = [helper.make_node("Shape", ["x"], ["shape"], start=0, end=2),
                 helper.make_node("Concat", ["shape", "want"], ["sizes"], axis=0)]
        c.consts.append(("want", np.array(c.sizes, np.int64)))
    if c.op == "GridSample":
        inputs.append(helper.make_tensor_value_info("grid", T.FLOAT, ["b"] + c.grid + [c.rank]))
    nodes.append(helper.make_node(c.op, names, c.outputs, **c.attrs))
    outputs = [helper.make_tensor_value_info(n, T.INT64 if n == "i" else c.dtype, None) for n in c.outputs]
    def model_of(body):
        graph = helper.make_graph(body, c.op, inputs, outputs, [numpy_helper.from_array(v, n) for n, v in c.consts])
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", c.opset)], ir_version=10)

    model = model_of(nodes)
    onnx.save(model_of(halve(c, names, nodes)) if c.half else model, os.path.join(folder, "model.onnx"))
    gen = np.random.default_rng(rng.randrange(1 << 60))
    feeds = []
    for r in range(RUNS):
        size = [rng.randint(3, 11) * getattr(c, "multiple", 1) for _ in range(c.rank)]
        feed = {"x": values(gen, c.dtype, [rng.randint(1, 2), c.channels] + size)}
        if c.half:
            feed["x"] = rounded(feed["x"], c.half)
        if c.op == "GridSample":
            feed["grid"] = gen.uniform(-1.3, 1.3, [feed["x"].shape[0]] + c.grid + [c.rank]).astype(np.float32)
        os.makedirs(os.path.join(folder, str(r), "out"))
        for n, v in feed.items():
            np.save(os.path.join(folder, str(r), n + ".npy"), v)
        feeds.append(feed)
    return c, model, feeds


def session(model):
    options = ort.SessionOptions()
    options.log_severity_level = 4
    try:
        return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except Exception:
        return None


def expected(c, model, run, feed):
    """Outputs by onnxruntime; None where it does not have the case. Where it takes the output's rounded length in the place
    of scale * length, or positions in f32 (Resize), by the reference evaluator, whose way ONNX's own cases ask for. Halves: of the same numbers in f32."""
    if c.op == "Resize" and c.opset > 10 and (c.attrs["mode"] == "nearest" or
                             c.attrs["coordinate_transformation_mode"] in ("align_corners", "pytorch_half_pixel")):
        return ReferenceEvaluator(model).run(None, feed)
    if "kernel_shape" in c.attrs and c.op != "ConvTranspose":
        pads, n = c.attrs.get("pads", [0] * 2 * c.rank), c.rank
        spans = [(k - 1) * d + 1 for k, d in zip(c.attrs["kernel_shape"], c.attrs.get("dilations", [1] * n))]
        if any(feed["x"].shape[d + 2] + pads[d] + pads[n + d] < spans[d] for d in range(n)):
            return None  # no window fits: onnxruntime divides toward zero and finds one
        if c.attrs.get("auto_pad", "V")[0] == "S" and any(
                s > k for s, k in zip(c.attrs.get("strides", [1] * n), c.attrs["kernel_shape"])):
            return None  # its operators do not agree on windows with gaps between them
    if run:
        try:
            return run.run(None, feed)
        except Exception:
            return None
    return None


def differs(c, got, want):
    if got.shape != want.shape or got.dtype != want.dtype:
        return f"{got.dtype}{list(got.shape)}, not {want.dtype}{list(want.shape)}"
    if not np.issubdtype(want.dtype, np.floating) or (c.exact and not c.half):
        return None if np.array_equal(got, want, equal_nan=True) else f"{np.sum(got != want)} of {got.size} elements"
    # Both sides round each term and sum once in what they compute in, and the result once to its dtype.
    a, b = got.astype(np.float64), want.astype(np.float64)
    scale = max(1.0, float(np.abs(b[np.isfinite(b)]).max(initial=0)))
    bound = 4 * EPS[c.half or c.dtype] * scale + c.terms * EPS[c.dtype] * scale
    ok = (np.abs(a - b) <= bound) | (np.isnan(a) & np.isnan(b)) | (a == b)
    return None if ok.all() else f"off by {np.abs(a - b)[~ok].max():.3g}, bound {bound:.3g}"


def check(folder, made, rows):
    c, model, feeds = made
    run, bad, compared, claimed = session(model), [], 0, 0
    for r, feed in enumerate(feeds):
        want = expected(c, model, run, feed)
        if want is None:
            continue
        mine = [row for row in rows if row[2] in (str(r), "-")]
        failed = [row for row in mine if row[0] == "fail"]
        if failed:
            bad.append(f"run {r}: {failed[0][3]}")
            continue
        for row in mine:
            if row[0] == "dims" and row[3] in c.outputs:
                claim = [None if d == "?" else int(d) for d in row[4].split(",") if d]
                real = want[c.outputs.index(row[3])].shape
                if len(claim) != len(real) or any(d is not None and d != k for d, k in zip(claim, real)):
                    bad.append(f"run {r}: {row[3]} claimed {claim}, is {list(real)}")
                if None in claim:
                    bad.append(f"run {r}: {row[3]} is not known: {claim}")
                claimed += 1
        for n, w in zip(c.outputs, want):
            path = os.path.join(folder, str(r), "out", n + ".npy")
            why = differs(c, np.load(path), w) if os.path.exists(path) else "no output"
            if why:
                bad.append(f"run {r}: {n}: {why}")
            compared += 1
    return bad, compared, claimed


def main():
    p = argparse.ArgumentParser()
    p.add_argument("tool")
    p.add_argument("profiles")
    p.add_argument("--models", type=int, default=150)
    p.add_argument("--seed", type=int, default=None)
    p.add_argument("--keep", default=None)
    a = p.parse_args()
    seed = a.seed if a.seed is not None else int(os.environ.get("TENON_TEST_SEED", 20260101))
    print(f"seed {seed}, {a.models} models", flush=True)
    rng, top = random.Random(seed), tempfile.mkdtemp(prefix="tenon-vision-")
    np.seterr(all="ignore")
    made = {os.path.join(top, str(i)): None for i in range(a.models)}
    for folder in made:
        made[folder] = make(folder, random.Random(rng.randrange(1 << 60)))
    r = subprocess.run([a.tool, a.profiles] + list(made), capture_output=True, text=True)
    if r.returncode != 0:
        sys.exit(f"FAIL: the tool ended with {r.returncode}: {r.stderr[-2000:]}")
    rows = {}
    for line in r.stdout.splitlines():
        row = line.split("\t")
        rows.setdefault(row[1], []).append(row)
    wrong = compared = claimed = 0
    ops = {}
    for folder, m in made.items():
        bad, n, k = check(folder, m, rows.get(folder, []))
        compared, claimed = compared + n, claimed + k
        ops[m[0].op] = ops.get(m[0].op, 0) + n
        if bad:
            wrong += 1
            print(f"FAIL {m[0].op} {m[0].attrs} {T.DataType.Name(m[0].half or m[0].dtype)} {[(n, v.shape) for n, v in m[0].consts]}: {bad[0]}")
            if a.keep:
                shutil.copytree(folder, os.path.join(a.keep, os.path.basename(folder)), dirs_exist_ok=True)
    shutil.rmtree(top, ignore_errors=True)
    print(f"{a.models} models, {compared} outputs compared, {claimed} claims checked, {wrong} models wrong")
    print("compared:", ", ".join(f"{k} {v}" for k, v in sorted(ops.items())))
    if not compared or not claimed:
        sys.exit("FAIL: nothing was compared")
    sys.exit(1 if wrong else 0)


main()
