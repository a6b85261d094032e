#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The arena that `tenon inspect` plans, and the lower bound that no plan can be under, at several sequence lengths: a
Markdown table.

  bench/memory_table.py TENON [--data FOLDER] [--profile NAME ...] [MODEL ...]

Without MODELs: models/demo and, from the folder of test data, every language model and the encoders. Exits 1 when the
arena of a language model (one with past inputs) is more than 1.05 of its bound. Python's standard library only.
"""
import argparse
import glob
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
LENGTHS = (1, 128, 1024)
PATTERNS = ("onnx/exports/*", "lm/cappgpt-onnx", "lm/stories260k-onnx", "onnx/structural/*.onnx", "onnx/tashkeel/*.onnx",
            "onnx/vit/*.onnx")


def inspect(tenon, model, profile, dims):
    cmd = [tenon, "inspect", model, "--format", "json", "--profile", profile]
    if dims:
        cmd += ["--dims", ",".join(f"{k}={v}" for k, v in dims.items())]
    r = subprocess.run(cmd, capture_output=True, text=True, check=False)
    try:
        j = json.loads(r.stdout)
    except ValueError:
        return None, r.stderr.strip().splitlines()[-1:] or ["no answer"]
    if "error" in j:
        return None, j["error"]["message"]
    return (j, None) if "arena_bytes" in j["memory"] else (None, j["memory"].get("unknown", "no statement"))


def lengths(j):
    """Names of the symbols for the step and the past, or None."""
    step = past = None
    for io in j["inputs"]:
        dims = io["dims"] or []
        if "past" in io["name"]:
            past = past or next((d for d in dims[1:] if isinstance(d, str) and d != step), None)
        elif step is None and len(dims) == 2 and isinstance(dims[1], str):
            step = dims[1]
    names = [s["name"] for s in j["symbols"]]
    return step if step in names else None, past if past in names else None


def name_of(path):
    parts = os.path.normpath(path).split(os.sep)
    return parts[-1] if not parts[-1].startswith(("model", "decoder")) else parts[-2]


def row(tenon, path, profile):
    j, why = inspect(tenon, path, profile, {})
    if not j:
        return [name_of(path), profile, f"{why}"] + [""] * (len(LENGTHS) - 1), False
    step, past = lengths(j)
    lm, cells, bad = any("past" in io["name"] for io in j["inputs"]), [], False
    for n in LENGTHS if step else (0,):
        k, why = inspect(tenon, path, profile, {s: v for s, v in ((step, n), (past, 0)) if s})
        if not k:
            cells.append(str(why))
            continue
        m = k["memory"]
        bound = m["arena_lower_bound_bytes"]
        ratio = m["arena_bytes"] / bound if bound else 1.0
        bad = bad or (lm and ratio > 1.05)
        cells.append(f"{m['arena_bytes']:,} ({ratio:.3f})" + ("" if step else ", fixed dims"))
    cells += [""] * (len(LENGTHS) - len(cells))
    return [name_of(path), profile] + cells, bad


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tenon")
    p.add_argument("models", nargs="*")
    p.add_argument("--data", default=os.path.join(HERE, "..", "..", "shared", "data"))
    p.add_argument("--profile", action="append")
    a = p.parse_args()
    models = a.models or [os.path.join(HERE, "..", "models", "demo")] + [
        m for pattern in PATTERNS for m in sorted(glob.glob(os.path.join(a.data, pattern)))]
    print("| model | profile | " + " | ".join(f"{n}: arena, bytes (/ bound)" for n in LENGTHS) + " |")
    print("|" + "---|" * (len(LENGTHS) + 2))
    failed = []
    for m in models:
        for profile in a.profile or ["host", "default"]:
            cells, bad = row(a.tenon, m, profile)
            print("| " + " | ".join(cells) + " |", flush=True)
            if bad:
                failed.append(f"{cells[0]} ({profile})")
    if failed:
        sys.exit("FAILED, more than 1.05 of the bound: " + ", ".join(failed))


if __name__ == "__main__":
    main()
