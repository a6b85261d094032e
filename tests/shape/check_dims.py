# SPDX-License-Identifier: Apache-2.0
"""check_dims.py SHAPE_DUMP: inferred dims and elements against ONNX's reference evaluator.

Each model runs at random sizes (0 among them for the past). Every value that both sides know must have the dims, the
dtype and the elements that inference stated; models of language must have no unknown dim and no shape op left."""
import os
import random
import re
import subprocess
import sys

try:
    import numpy
    import onnx
    from onnx.reference import ReferenceEvaluator
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

# path, complete: every value known and no shape op left after the passes
MODELS = [
    ("onnx/exports/llama/model.onnx", True),
    ("onnx/exports/gemma/model.onnx", True),
    ("onnx/exports/gpt2/model.onnx", True),
    ("onnx/exports/phi3/model.onnx", True),
    ("onnx/exports/qwen2/model.onnx", True),
    ("lm/cappgpt-onnx/model.onnx", True),
    ("lm/stories260k-onnx/model.onnx", True),
    ("exports/optimum-t5-encoder/model.onnx", True),
    ("exports/optimum-bert/model.onnx", True),
    ("exports/optimum-distilbert/model.onnx", True),
    ("onnx/tashkeel/model_fp32.onnx", False),
    ("exports/dynamo-vit/model.onnx", True),
]
NUMPY = {"float32": numpy.float32, "int64": numpy.int64, "int32": numpy.int32, "bool": numpy.bool_}


def parse_list(text):
    return [None if t == "?" else int(t) for t in text.strip("[]").split(",") if t]


def dump(tool, path, extra):
    out = subprocess.run([tool, path] + extra, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(f"FAIL {path}: {out.stderr.strip()}")
    return [line.split("\t") for line in out.stdout.splitlines()]


def symbols_of(rows):
    names = set()
    for row in rows:
        if row[0] == "input":
            names |= set(re.findall(r"[A-Za-z_][A-Za-z_0-9]*", row[2]))
    return sorted(names)


def feed(name, dtype, dims, rng):
    if dtype == "float32":
        return rng.standard_normal(dims).astype(numpy.float32)
    if name == "attention_mask":
        return numpy.ones(dims, NUMPY[dtype])
    if name.endswith("lengths"):
        return numpy.full(dims, 2, NUMPY[dtype])
    return rng.integers(0, 2, dims).astype(NUMPY[dtype])


def compare(rows, real, what):
    dims = elems = 0
    for row in rows:
        if row[0] not in ("value", "elems") or row[1] not in real:
            continue
        got = real[row[1]]
        if not isinstance(got, numpy.ndarray) and not numpy.isscalar(got):
            continue
        got = numpy.asarray(got)
        if row[0] == "value":
            if row[4] == "?":
                continue
            want = parse_list(row[4])
            if len(want) != got.ndim or any(w is not None and w != g for w, g in zip(want, got.shape)):
                sys.exit(f"FAIL {what}: {row[1]}: inferred {row[4]}, is {list(got.shape)}")
            if row[3] not in ("undefined", str(got.dtype)):
                sys.exit(f"FAIL {what}: {row[1]}: inferred {row[3]}, is {got.dtype}")
            dims += 1
        else:
            want = parse_list(row[2])
            flat = got.reshape(-1)
            if len(want) != flat.size or any(w is not None and w != int(g) for w, g in zip(want, flat)):
                sys.exit(f"FAIL {what}: {row[1]}: elements {row[2]}, are {flat.tolist()}")
            elems += 1
    return dims, elems


def check(tool, data, path, complete, rng):
    full = os.path.join(data, path)
    symbols = symbols_of(dump(tool, full, ["--raw"]))
    model = onnx.load(full)
    runner = ReferenceEvaluator(model)
    tried = 0
    for trial in range(3):
        size = {s: int(rng.integers(0 if "past" in s and trial else 1, 4)) for s in symbols}
        if "seq" in size:
            size["seq"] = max(size["seq"], 2)
        if trial == 0:
            size.update({s: 0 for s in symbols if "past" in s})
        extra = [f"{s}={v}" for s, v in size.items()]
        raw = dump(tool, full, ["--raw"] + extra)
        inputs = {row[1]: (row[3], parse_list(row[4])) for row in raw if row[0] == "value" and row[2] == "INPUT"}
        feeds = {n: feed(n, t, d, rng) for n, (t, d) in inputs.items()}
        try:
            real = runner.run(None, feeds, intermediate=True)
        except Exception as e:  # the evaluator has gaps of its own
            print(f"{path}: the reference evaluator refuses {size}: {str(e)[:100]}")
            continue
        tried += 1
        a = compare(raw, real, f"{path} {size}")
        after = dump(tool, full, extra or ["-"])
        b = compare(after, real, f"{path} {size} after passes")
        if a[0] < 0.9 * len(model.graph.node) and complete:
            sys.exit(f"FAIL {path}: only {a[0]} of {len(model.graph.node)} values were compared")
        bad = [r for r in after if r[0] in ("unknown", "left")]
        if complete and bad:
            sys.exit(f"FAIL {path}: {len(bad)} values or shape ops are left, first {bad[0]}")
        print(f"{path} {size}: {a[0]} dims, {a[1]} elements; after passes {b[0]}, {b[1]}")
    if complete and not tried:
        sys.exit(f"FAIL {path}: not checked")


def main():
    data = os.environ.get("TENON_TEST_DATA", "")
    present = [m for m in MODELS if os.path.exists(os.path.join(data, m[0]))]
    if not present:
        print(f"skipped: no models in '{data}'")
        sys.exit(77)
    seed = int(os.environ.get("TENON_TEST_SEED", 20260101))
    print(f"seed {seed}")
    rng = numpy.random.default_rng(seed)
    numpy.seterr(all="ignore")
    for path, complete in present:
        check(sys.argv[1], data, path, complete, rng)


main()
