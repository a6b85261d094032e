#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Which 4-bit format and which cache a profile should have by default: quality and speed of every pair, in one run.

  bench/choose_default.py TENON [--tokens 256] [--speed MODEL] [--rounds 5] [-o FILE.json]
  bench/choose_default.py TENON --speed MODEL --depth 4096,16384 [--rounds 5] [-o FILE.json]

--depth: decode speed of each type of cache at these positions, with the default format, and nothing else.

Quality: KL divergence of the demo model's next tokens from its own f32 on the host, `tenon eval --against host` on
models/train/valid.json. Speed: `tenon bench` of MODEL (bench/make_llama.py writes the 1.1B shape; without --speed there
is none), pairs in turns, a round of all before the next, medians. What is printed says which pair the rule chooses: the
fastest to decode of those whose divergence is at most 10 % above the least. Needs nothing but Python.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
FORMATS = {"w4g:32": "format: w4g, group: 32", "w4g:128": "format: w4g, group: 128", "pal16": "format: pal16",
           "lut4": "format: lut4"}
CACHES = ["f32", "f16", "bf16"]
SLACK = 1.1  # of the least divergence


def profile(folder, fmt, kv):
    path = pathlib.Path(folder) / f"{fmt.replace(':', '-')}-{kv}.yaml"
    path.write_text(f"plugins:\n  - name: cpu-avx2-lut\n    options: {{{FORMATS[fmt]}}}\n  - host\nkv: {kv}\n")
    return str(path)


def tenon(program, *args):
    build = pathlib.Path(program).resolve().parent.parent.parent
    env = dict(os.environ, TENON_PLUGIN_PATH=str(build / "plugins/cpu-avx2-lut"), TENON_PROFILE_PATH=str(ROOT / "configs"))
    r = subprocess.run([program, *args, "--format", "json"], capture_output=True, text=True, env=env)
    if r.returncode:
        raise SystemExit(f"tenon {' '.join(args)}\n{r.stdout}{r.stderr}")
    return json.loads(r.stdout)


def quality(program, path, tokens):
    j = tenon(program, "eval", str(ROOT / "models/demo"), "--text", str(ROOT / "models/train/valid.json"), "--max-tokens",
              str(tokens), "--against", "host", "--profile", path)
    return {"kl": j["kl_divergence"], "top1": j["top1_agreement"], "tokens": j["tokens"],
            "perplexity": j["perplexity"]}


def speed(program, model, path):
    j = tenon(program, "bench", model, "-p", "512", "-n", "32", "-r", "1", "--profile", path)
    return {("prefill" if r["test"].startswith("p") else "decode"): r["tokens_per_s"]["median"] for r in j["rows"]}


def depths(program, model, depth, rounds):
    """Tokens per second by type of cache and depth, caches in turns: rows."""
    times, context = {}, max(map(int, depth.split(","))) + 64
    with tempfile.TemporaryDirectory() as folder:
        for _ in range(rounds):
            for kv in CACHES:
                j = tenon(program, "bench", model, "-p", "0", "-n", "16", "-d", depth, "-r", "1", "--no-warmup", "-c", str(context), "--profile",
                          profile(folder, "w4g:32", kv))
                for r in j["rows"]:
                    times.setdefault((kv, r["test"]), []).append(r["tokens_per_s"]["median"])
    return [{"kv": kv, "test": test, "decode": statistics.median(v), "least": min(v), "most": max(v)} for (kv, test), v in times.items()]


def show_depths(rows, path):
    print("| caches | test | decode, tokens/s | least | most |\n|---|---|---|---|---|")
    for r in sorted(rows, key=lambda r: (len(r["test"]), r["test"])):
        print(f"| {r['kv']} | {r['test']} | {r['decode']:.1f} | {r['least']:.1f} | {r['most']:.1f} |")
    if path:
        pathlib.Path(path).write_text(json.dumps({"rows": rows}, indent=1) + "\n")


def choose(rows):
    least = min(r["kl"] for r in rows)
    good = [r for r in rows if r["kl"] <= least * SLACK]
    return max(good, key=lambda r: r.get("decode", -r["kl"]))


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("tenon")
    ap.add_argument("--tokens", type=int, default=256)
    ap.add_argument("--speed", metavar="MODEL")
    ap.add_argument("--rounds", type=int, default=5)
    ap.add_argument("--depth", metavar="N,...", help="decode at these positions, by type of cache")
    ap.add_argument("-o", metavar="FILE.json")
    a = ap.parse_args()
    if a.depth:
        if not a.speed:
            ap.error("--depth needs --speed MODEL")
        show_depths(depths(a.tenon, a.speed, a.depth, a.rounds), a.o)
        return
    rows = [{"format": f, "kv": kv} for f in FORMATS for kv in CACHES]
    with tempfile.TemporaryDirectory() as folder:
        for r in rows:
            r.update(quality(a.tenon, profile(folder, r["format"], r["kv"]), a.tokens))
        times = {}
        for _ in range(a.rounds if a.speed else 0):
            for r in rows:
                for what, v in speed(a.tenon, a.speed, profile(folder, r["format"], r["kv"])).items():
                    times.setdefault((r["format"], r["kv"], what), []).append(v)
        for (fmt, kv, what), v in times.items():
            next(r for r in rows if (r["format"], r["kv"]) == (fmt, kv))[what] = statistics.median(v)
    best = choose(rows)
    print("| format | caches | KL divergence | same first choice | perplexity | prefill | decode |\n|---|---|---|---|---|---|---|")
    for r in rows:
        shown = [f"{r[w]:.1f}" if w in r else "" for w in ("prefill", "decode")]
        mark = " (chosen)" if r is best else ""
        print(f"| {r['format']}{mark} | {r['kv']} | {r['kl']:.5f} | {100 * r['top1']:.2f} % | {r['perplexity']:.3f} | "
              f"{' | '.join(shown)} |")
    if a.o:
        pathlib.Path(a.o).write_text(json.dumps({"rows": rows, "chosen": best}, indent=1) + "\n")


if __name__ == "__main__":
    main()
