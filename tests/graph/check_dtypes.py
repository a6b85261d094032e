#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares every code of every dtype of at most 16 bits, and float -> half conversions, with numpy and ml_dtypes.

usage: check_dtypes.py PRINT_TABLES

Exit 77 when numpy or ml_dtypes cannot be imported.
"""

import subprocess
import sys

try:
    import ml_dtypes as ml
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

TYPES = {
    "uint8": np.uint8, "int8": np.int8, "uint16": np.uint16, "int16": np.int16, "float16": np.float16,
    "bfloat16": ml.bfloat16, "float8e4m3fn": ml.float8_e4m3fn, "float8e4m3fnuz": ml.float8_e4m3fnuz,
    "float8e5m2": ml.float8_e5m2, "float8e5m2fnuz": ml.float8_e5m2fnuz, "float8e8m0": ml.float8_e8m0fnu,
    "uint4": ml.uint4, "int4": ml.int4, "float4e2m1": ml.float4_e2m1fn, "uint2": ml.uint2, "int2": ml.int2,
    "bool": None,
}


def expected(name, codes):
    if name == "bool":
        return (codes != 0).astype(np.float32)
    t = np.dtype(TYPES[name])
    raw = codes.astype(np.uint8 if t.itemsize == 1 else np.uint16).view(t)
    return raw.astype(np.float32)


def differing(a, b):
    """Indices where two float arrays differ; NaN equals NaN, -0 does not equal 0."""
    same = (a.view(np.uint32) == b.view(np.uint32)) | (np.isnan(a) & np.isnan(b))
    return np.flatnonzero(~same)


def main():
    out = subprocess.run([sys.argv[1], "dtypes"], check=True, capture_output=True, text=True).stdout
    tables = {}
    for line in out.splitlines():
        what, code, bits = line.split()
        tables.setdefault(what, []).append((int(code), int(bits)))
    bad = 0
    for what, to in (("f16", np.float16), ("bf16", ml.bfloat16)):
        table = np.array(tables.pop(what), dtype=np.uint32)
        x = np.ascontiguousarray(table[:, 0]).view(np.float32)
        got = table[:, 1].astype(np.uint16).view(to).astype(np.float32)
        with np.errstate(all="ignore"):
            want = x.astype(to).astype(np.float32)
        for i in differing(got, want)[:5]:
            print(f"{x[i]!r} to {what}: {got[i]!r}, must be {want[i]!r}")
            bad += 1
    for name in TYPES:
        if name not in tables:
            print(f"{name}: not printed")
            bad += 1
    for name, rows in tables.items():
        table = np.array(rows, dtype=np.uint32)
        got = np.ascontiguousarray(table[:, 1]).view(np.float32)
        want = expected(name, table[:, 0])
        for i in differing(got, want)[:5]:
            print(f"{name} code {i:#x}: {got[i]!r}, must be {want[i]!r}")
            bad += 1
    print(f"{len(tables)} dtypes: {bad} differences")
    sys.exit(1 if bad else 0)


main()
