#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the op table with the operator schemas of PyPI's onnx.

usage: check_ops.py PRINT_TABLES OPS_H

A row stands for the newest ONNX form within its versions: arity, attribute names, types and defaults must be equal to
that form's, apart from what is listed here with its reason. Of older forms in its range, every attribute must be in the
row or be one that the importer rewrites. Exit 77 when onnx cannot be imported.
"""

import json
import re
import subprocess
import sys

try:
    import onnx
    from onnx import defs
except ImportError as e:
    print(f"skipped: onnx is not importable ({e})")
    sys.exit(77)

OLDEST = 6  # oldest opset of which every operator is taken; of 1 to 5 only what upgrade_first.c knows or a row covers
NEWEST = 28
VARIADIC = 99

# tn_attr types (plugin.h) of ONNX attribute types; 0 marks one that is refused.
A = defs.OpSchema.AttrType
TYPES = {A.INT: 1, A.FLOAT: 2, A.STRING: 3, A.INTS: 4, A.FLOATS: 5, A.TENSOR: 6, A.GRAPH: 7, A.STRINGS: 8,
         A.SPARSE_TENSOR: 0, A.TYPE_PROTO: 4}  # types: as numbers (runtime/onnx/context.h)

# Attributes that are ours, or of an older form and kept: (operator, attribute).
EXTRA = {
    ("Softmax", "coerce_2d"), ("LogSoftmax", "coerce_2d"), ("Hardmax", "coerce_2d"),  # the flattening of versions before 13
    ("Dropout", "ratio"),  # 7 to 11; later an input
}
# Attributes of older forms that runtime/onnx/upgrade.c turns into inputs or drops.
REWRITTEN = {
    "axis": {"DFT"},
    "axis broadcast": {"Add", "Sub", "Mul", "Div", "Pow", "And", "Or", "Xor", "Equal", "Greater", "Less"},
    "axes": {"Squeeze", "Unsqueeze", "Slice"} | {f"Reduce{k}" for k in "Sum Mean Max Min Prod SumSquare L1 L2 LogSum LogSumExp".split()},
    "starts ends": {"Slice"},
    "split": {"Split"},
    "min max": {"Clip"},
    "pads value": {"Pad"},
    "k": {"TopK"},
    "is_test": {"Dropout"},
    "is_test spatial consumed_inputs": {"BatchNormalization"},
    "broadcast": {"Gemm"},
    "output_sequence": {"RNN", "GRU", "LSTM"},
}
# Defaults that are lists, which the table has none of: kernels and rules know them.
LIST_DEFAULTS = {("MeanVarianceNormalization", "axes"), ("RNN", "activations")}
# Arity that differs from the newest form: (operator, "in"/"out") -> why.
ARITY = {}

errors = []


def fail(row, text):
    errors.append(f"{row['name']} {row['since']}-{row['until'] or 'now'}: {text}")


def is_rewritten(op, attr):
    return any(attr in names.split() and op in ops for names, ops in REWRITTEN.items())


def default_of(attr):
    if attr.required or attr.default_value.type == 0:
        return None
    v = onnx.helper.get_attribute_value(attr.default_value)
    return v.decode() if isinstance(v, bytes) else v


def check_attr(row, ours, theirs):
    name = ours["name"]
    if TYPES.get(theirs.type) != ours["type"]:
        fail(row, f"attribute {name} has type {ours['type']}, ONNX {theirs.type}")
    if ours["required"] != theirs.required:
        fail(row, f"attribute {name}: required {ours['required']}, ONNX {theirs.required}")
    if ours["default"] != default_of(theirs) and (row["name"], name) not in LIST_DEFAULTS:
        fail(row, f"attribute {name}: default {ours['default']}, ONNX {default_of(theirs)}")


def check_row(row, history):
    op = row["name"]
    forms = [s for s in history if s.since_version <= (row["until"] or NEWEST)]
    if not forms:
        return fail(row, "ONNX has no such operator in these versions")
    newest = forms[-1]
    first = min(s.since_version for s in forms)
    if row["since"] < first:
        fail(row, f"starts at {row['since']}, ONNX at {first}")
    if newest.deprecated:
        fail(row, f"deprecated at {newest.since_version}")
    for side, lo, hi in (("in", newest.min_input, newest.max_input), ("out", newest.min_output, newest.max_output)):
        want = [lo, VARIADIC if hi > 1000 else hi]
        if row[side] != want and (op, side) not in ARITY:
            fail(row, f"{side}puts {row[side]}, ONNX {want}")
    ours = {a["name"]: a for a in row["attrs"]}
    for name, a in ours.items():
        if name in newest.attributes:
            check_attr(row, a, newest.attributes[name])
        elif (op, name) not in EXTRA:
            fail(row, f"attribute {name} is unknown to ONNX")
    for name in newest.attributes:
        if name not in ours:
            fail(row, f"lacks attribute {name}")
    # Older forms that a model of opset >= OLDEST may still mean in this row's range.
    for k, s in enumerate(forms):
        until = forms[k + 1].since_version - 1 if k + 1 < len(forms) else NEWEST
        if until < max(OLDEST, row["since"]):
            continue
        for name in s.attributes:
            if name not in ours and not is_rewritten(op, name):
                fail(row, f"lacks attribute {name} of version {s.since_version}")


def check_coverage(rows, history):
    """No operator of the table is left out in a version that ONNX has and the importer takes."""
    for op in {r["name"] for r in rows}:
        mine = [r for r in rows if r["name"] == op]
        for v in range(max(OLDEST, history[op][0].since_version), NEWEST + 1):
            n = sum(r["since"] <= v and (not r["until"] or v <= r["until"]) for r in mine)
            form = [s for s in history[op] if s.since_version <= v][-1]
            if n != 1 and not (n == 0 and (op, form.since_version) in UNTAKEN):
                fail(mine[0], f"{n} rows for version {v}")


UNTAKEN = set()


def check_ids(rows, path):
    """The names in ops.h are those of the operators: TN_OP_REDUCE_SUM_SQUARE = ReduceSumSquare. A name of both domains
    says which: TN_OP_TENON_ATTENTION."""
    ids = {int(n): k for k, n in re.findall(r"TN_OP_(\w+) = (\d+)", open(path).read())}
    onnx_names = {r["name"] for r in rows if not r["domain"]}
    for r in rows:
        prefix = r["domain"] if r["domain"] and r["name"] in onnx_names else ""
        if ids.get(r["id"], "").replace("_", "").lower() != prefix + r["name"].lower():
            fail(r, f"has the id of {ids.get(r['id'])}")


def main():
    out = subprocess.run([sys.argv[1], "ops"], check=True, capture_output=True, text=True).stdout
    rows = [json.loads(line) for line in out.splitlines()]
    check_ids(rows, sys.argv[2])
    rows = [r for r in rows if r["domain"] != "tenon"]  # ours: ops.h says what they mean
    history = {}
    for s in defs.get_all_schemas_with_history():
        if s.domain == "" and s.since_version <= NEWEST:
            history.setdefault(s.name, []).append(s)
    for h in history.values():
        h.sort(key=lambda s: s.since_version)
    for row in rows:
        check_row(row, history.get(row["name"], []))
    check_coverage([r for r in rows if r["name"] in history], history)
    for e in errors:
        print(e)
    print(f"{len(rows)} rows against onnx {onnx.__version__}: {len(errors)} differences")
    sys.exit(1 if errors else 0)


main()
