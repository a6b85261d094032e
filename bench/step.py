#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Step times of the 22-layer 1.1B Llama shape, by bench/step.c.

  bench/step.py BUILD overhead [--work DIR]            the runtime's own time per step, with the no-op plugin
  bench/step.py BUILD context [--work DIR] [--model M] [--profile P]
                                                       decode at context 100 .. 2000, and DIR/context.svg

`ninja -C BUILD bench-programs` comes first. Models are made in DIR once (overhead: a few MB; context: 4.4 GB). Needs
numpy and onnx; the plot needs nothing.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SHAPE = "--layers 22 --dim 2048 --heads 32 --kv-heads 4 --ffn 5632 --vocab 32000".split()
CONTEXTS = [100, 500, 1000, 2000]


def model(folder, *extra):
    if not os.path.exists(os.path.join(folder, "config.json")):
        subprocess.run([sys.executable, os.path.join(HERE, "make_llama.py"), folder, *SHAPE, *extra], check=True)
    return folder


def step(a, *args):
    env = dict(os.environ, TENON_CACHE_DIR=os.path.join(a.work, "cache"))
    cmd = [os.path.join(a.build, "bench", "bench-step"), *args]
    print("+", " ".join(cmd), file=sys.stderr)
    return json.loads(subprocess.run(cmd, env=env, check=True, stdout=subprocess.PIPE).stdout)


def profile(a, text):
    path = os.path.join(a.work, "step-profile.yaml")
    with open(path, "w") as f:
        f.write(text)
    return path


def overhead(a):
    m = model(os.path.join(a.work, "llama-1.1b-holes"), "--holes")
    p = profile(a, "plugins: [noop, host]\nrequire: [noop]\nthreads: 0\n")
    r = step(a, "overhead", m, p, os.path.join(a.build, "bench"), str(a.steps))
    print(f"one step of {r['tasks']} tasks that compute nothing: {r['step_ns'] / 1e3:.2f} us (p99 {r['p99_ns'] / 1e3:.2f}), "
          f"{r['ns_per_task']:.0f} ns per task; {r['allocations']} allocations in {r['steps']} steps")
    print(f"one fork-join over the pool, beyond its work: {r['fork_join_ns'] / 1e3:.2f} us; a CPU step pays it for each parallel loop")


def plot(points, limit, path):
    """Step time over context as SVG, with the line that reading the caches alone would give."""
    w, h, m = 640, 400, 60
    top = max(max(p["step_ns"] for p in points), max(limit)) * 1.1 / 1e6
    right = max(p["context"] for p in points)

    def xy(c, ms):
        return f"{m + (w - 2 * m) * c / right:.1f},{h - m - (h - 2 * m) * ms / top:.1f}"

    measured = " ".join(xy(p["context"], p["step_ns"] / 1e6) for p in points)
    bound = " ".join(xy(p["context"], ns / 1e6) for p, ns in zip(points, limit))
    text = []
    for c in range(0, right + 1, 500):
        x, y = xy(c, 0).split(",")
        text.append(f'<text x="{x}" y="{float(y) + 18}" text-anchor="middle">{c}</text>')
    for i in range(5):
        x, y = xy(0, top * i / 4).split(",")
        text.append(f'<text x="{float(x) - 8}" y="{y}" text-anchor="end">{top * i / 4:.1f}</text>')
    with open(path, "w") as f:
        f.write(f'<svg xmlns="http://www.w3.org/2000/svg" width="{w}" height="{h}" font-family="sans-serif" font-size="12">'
                f'<rect width="{w}" height="{h}" fill="white"/>'
                f'<polyline points="{measured}" fill="none" stroke="black" stroke-width="2"/>'
                f'<polyline points="{bound}" fill="none" stroke="gray" stroke-dasharray="5"/>{"".join(text)}'
                f'<text x="{w / 2}" y="{h - 16}" text-anchor="middle">context, positions</text>'
                f'<text x="{m}" y="24">ms per step (solid); first point + caches at read bandwidth (dashed)</text></svg>\n')


def heads_per_cache(folder):
    with open(os.path.join(folder, "config.json")) as f:
        c = json.load(f)
    return c["num_attention_heads"] // c.get("num_key_value_heads", c["num_attention_heads"])


def context(a):
    m = a.model or model(os.path.join(a.work, "llama-1.1b"))
    plugins = os.path.join(a.build, "plugins", "cpu-avx2-lut")
    if a.figures:
        with open(a.figures) as f:
            r = json.load(f)
    else:
        r = step(a, "context", m, a.profile, plugins, str(a.rounds), *map(str, CONTEXTS))
    row, group, rounds = r["kv_bytes_per_position"], heads_per_cache(m), r["rounds"]
    rates = [x["read_bytes_per_s"] for x in rounds]
    print(f"{len(rounds)} rounds; read bandwidth {statistics.median(rates) / 1e9:.1f} GB/s ({min(rates) / 1e9:.1f} to "
          f"{max(rates) / 1e9:.1f}); caches: {row} bytes per position, each read for {group} heads; micro tile "
          f"{statistics.median(x['products_per_s'] for x in rounds) / 1e9:.1f} G products/s")
    print("Medians over the rounds; every ratio is that of one round, with its own bandwidth.")
    print("| context | ms per step | extra ms | extra KV bytes / bandwidth, ms | ratio (quartiles) | rounds <= 1.3 | "
          "extra products / tile's rate, ms |")
    print("|---|---|---|---|---|---|---|")
    points, limit = [], []
    for i, c in enumerate(CONTEXTS):
        extra = [x["step_ns"][i] - x["step_ns"][0] for x in rounds]
        least = [(c - CONTEXTS[0]) * row / rate * 1e9 for rate in rates]
        ns = statistics.median(x["step_ns"][i] for x in rounds)
        points.append({"context": c, "step_ns": ns})
        limit.append(points[0]["step_ns"] + statistics.median(least))
        if not i:
            print(f"| {c} | {ns / 1e6:.2f} | | | | | |")
            continue
        ratios = [e / n for e, n in zip(extra, least)]
        q = statistics.quantiles(ratios, n=4) if len(ratios) > 1 else ratios * 3
        work = statistics.median((c - CONTEXTS[0]) * row / 4 * group / x["products_per_s"] * 1e3 for x in rounds)
        print(f"| {c} | {ns / 1e6:.2f} | {statistics.median(extra) / 1e6:.2f} | {statistics.median(least) / 1e6:.2f} | "
              f"{statistics.median(ratios):.2f} ({q[0]:.2f} to {q[2]:.2f}) | {sum(x <= 1.3 for x in ratios)} | {work:.2f} |")
    plot(points, limit, os.path.join(a.work, "context.svg"))
    print("plot:", os.path.join(a.work, "context.svg"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("what", choices=["overhead", "context"])
    p.add_argument("--work", default="bench-models")
    p.add_argument("--model", help="a folder that is there instead of the one made in DIR")
    p.add_argument("--profile", default=os.path.join(HERE, "..", "configs", "default.yaml"))
    p.add_argument("--figures", help="what bench-step context printed before, instead of a new run")
    p.add_argument("--rounds", type=int, default=25)
    p.add_argument("--steps", type=int, default=1000)
    a = p.parse_args()
    a.build, a.work = os.path.abspath(a.build), os.path.abspath(a.work)
    os.makedirs(a.work, exist_ok=True)
    (overhead if a.what == "overhead" else context)(a)


if __name__ == "__main__":
    main()
