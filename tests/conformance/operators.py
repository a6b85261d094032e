#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes docs/operators.md from the op table, the plugins' manifests and a run of the conformance cases.

usage: operators.py OPTABLE RUNNER FOLDER [--check]

FOLDER is where run.py keeps the cases. --check writes nothing and fails where the file differs from what would be written.
"""
import collections
import glob
import os
import re
import subprocess
import sys

import run

ROOT = os.path.dirname(os.path.dirname(run.HERE))
PAGE = os.path.join(ROOT, "docs", "operators.md")
CONTROL = 8  # flag of rows that run subgraphs or hold no tensors

# Numbers of TensorProto.DataType.
GROUPS = (("floats", (1, 11, 10, 16)), ("integers", (2, 3, 4, 5, 6, 7, 12, 13)), ("bool", (9,)), ("complex", (14, 15)),
          ("8-bit floats", (17, 18, 19, 20, 24)), ("2- and 4-bit", (21, 22, 23, 25, 26)), ("strings", (8,)))
NAMES = {1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 8: "string", 9: "bool",
         10: "float16", 11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
         17: "float8e4m3fn", 18: "float8e4m3fnuz", 19: "float8e5m2", 20: "float8e5m2fnuz", 21: "uint4", 22: "int4",
         23: "float4e2m1", 24: "float8e8m0", 25: "uint2", 26: "int2"}

# Operators of ai.onnx without a row, and why. One that is in neither place is an error here.
REWRITTEN = {"Scatter": "ScatterElements", "Upsample": "Resize", "GroupNormalization": "GroupNormalization"}
LEFT_OUT = {
    "StringConcat": "text", "StringNormalizer": "text", "StringSplit": "text", "RegexFullMatch": "text",
    "TfIdfVectorizer": "text", "ImageDecoder": "image files are decoded outside of graphs",
}


def dtypes(mask):
    if not mask:
        return ""
    words = []
    for name, members in GROUPS:
        have = [m for m in members if mask >> m & 1]
        words += [name] if len(have) == len(members) else [NAMES[m] for m in have]
    return ", ".join(words)


def read_table(path):
    ops = collections.OrderedDict()
    for line in subprocess.run([path], check=True, capture_output=True, text=True).stdout.splitlines():
        domain, name, since, until, flags, mask = line.split("\t")
        ops.setdefault((domain, name), []).append((int(since), int(until), int(flags), int(mask)))
    return ops


def devices():
    """Operator -> plugins whose manifest lists it."""
    out = collections.defaultdict(list)
    for path in sorted(glob.glob(os.path.join(ROOT, "plugins", "*", "*.yaml*"))):
        with open(path) as f:
            text = f.read()
        name, ops = re.search(r"^name: (\S+)", text, re.M), re.search(r"^ops: \[([^]]*)\]", text, re.M)
        for op in ops[1].split(",") if name and ops else []:
            out[op.strip()].append(name[1])
    return out


def counts(runner, root):
    """Operator -> [passed, cases] of the node cases."""
    passed = run.passed(runner, root, "run")
    out = collections.defaultdict(lambda: [0, 0])
    for name in os.listdir(os.path.join(root, "node")):
        with open(os.path.join(root, "node", name, "op")) as f:
            op = f.read()
        out[op][1] += 1
        out[op][0] += f"node/{name}" in passed
    return out


def versions(rows):
    return ", ".join(f"{s}-{u}" if u else f"{s}-" for s, u, _, _ in sorted(rows))


def page(table, takes, cases):
    import onnx

    known = {s.name for s in onnx.defs.get_all_schemas_with_history() if s.domain == "" and not s.deprecated}
    training = {s.name for s in onnx.defs.get_all_schemas_with_history() if "training" in s.domain}
    have = {name for domain, name in table if domain == ""}
    missing = sorted(known - have - set(REWRITTEN) - training)
    unsaid = [n for n in missing if n not in LEFT_OUT]
    if unsaid:
        sys.exit(f"operators.py: neither in the op table nor left out with a reason: {', '.join(unsaid)}")
    total = [sum(c[0] for c in cases.values()), sum(c[1] for c in cases.values())]
    lines = [
        "# Operators", "",
        "Made by `tests/conformance/operators.py` from the op table (`runtime/graph/ops.def`), the plugins' manifests and ONNX's",
        f"own node cases; a test keeps it current. {total[0]} of {total[1]} node cases pass; `tests/conformance/skips.txt` says why"
        " the others do not.", "",
        "- **Versions**: opset versions after import. Older forms are rewritten to the newest one there; opsets 1 to 5 where they",
        "  differ little. Operators of `com.microsoft`: [operators-contrib.md](operators-contrib.md).",
        "- **Types** that the host takes as the first operand. floats: float32, float64, float16, bfloat16; integers: 8 to 64 bits.",
        "  Halves are computed in float32 (or wider) and rounded once.",
        "- **Devices** beside the host that list it; `tenon check MODEL` says what each takes of a model, and why not.",
        "- **Cases**: ONNX's node cases of the operator that pass, of all; expanded forms count with their operator.", "",
        "| operator | versions | types | devices | cases |", "|---|---|---|---|---|",
    ]
    for (domain, name), rows in sorted(table.items(), key=lambda i: (i[0][0], i[0][1].lower())):
        mask = 0
        for _, _, _, m in rows:
            mask |= m
        control = rows[0][2] & CONTROL
        n = cases.get(name, [0, 0]) if domain == "" else [0, 0]
        lines.append(f"| {domain + '.' if domain else ''}{name} | {versions(rows)} | "
                     f"{'runs on the host' if control else dtypes(mask)} | {', '.join(takes.get(name, []))} | "
                     f"{f'{n[0]} of {n[1]}' if n[1] else ''} |")
    lines += ["", "Rewritten at import: " + ", ".join(f"{a} (to {b})" for a, b in sorted(REWRITTEN.items()) if a != b) + ".", "",
              "Resize of opset 10 in mode nearest: along an axis that grows the pixel before the position, along one that shrinks the one",
              "after, as onnxruntime has it; where the run computes the scales, the one before. Positions are in double.", "",
              "## Left out", "", "| operator | why |", "|---|---|"]
    lines += [f"| {n} | {LEFT_OUT[n]} |" for n in missing]
    lines += ["| strings as elements, in any operator | text is tokenized outside of graphs |",
              "| ai.onnx.ml | traditional machine learning |",
              "| ai.onnx.preview.training, Dropout with training_mode | training |",
              "| other ai.onnx.preview operators | not part of a released opset |", ""]
    return "\n".join(lines)


def main():
    optable, runner, folder = sys.argv[1:4]
    root = run.cases(folder)
    os.environ.setdefault("TENON_TEST_SOURCE", ROOT)
    text = page(read_table(optable), devices(), counts(runner, root))
    if "--check" not in sys.argv:
        with open(PAGE, "w") as f:
            f.write(text)
        return 0
    with open(PAGE) as f:
        old = f.read()
    if old == text:
        return 0
    for a, b in zip(old.splitlines(), text.splitlines()):
        if a != b:
            print(f"- {a}\n+ {b}")
    print(f"{PAGE} is not current: run operators.py {' '.join(sys.argv[1:4])}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
