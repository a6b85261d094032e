#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `isolation: process` costs per token: the same model and plugin in the process and in one of its own, in turns.

  bench/isolation.py BUILD [--plugin cpu-avx2-lut] [--model models/demo] [--tokens 256] [--rounds 9] [--cli NAME]

Medians, quartiles and the best of the microseconds per decoded token, and the difference. Needs nothing but Python; run it on a machine
that does nothing else.
"""
import argparse
import json
import os
import re
import statistics
import subprocess
import tempfile


def once(a, profile, cache):
    cmd = [os.path.join(a.build, "runtime/cli", a.cli), "run", a.model, "-p", a.prompt, "-n", str(a.tokens), "--temp", "0",
           "--ignore-eos", "--profile", profile, "--plugin-dir", os.path.abspath(os.path.join(a.build, "plugins", a.plugin)),
           "--cache-dir", cache, "--threads", str(a.threads)]
    r = subprocess.run(cmd, capture_output=True, text=True, check=True)
    m = re.search(r"prefill: (\d+) tokens, ([0-9.]+) tokens/s; decode: (\d+) tokens, ([0-9.]+) tokens/s", r.stderr)
    return float(m.group(4)), r.stdout


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--plugin", default="cpu-avx2-lut")
    p.add_argument("--model", default="models/demo")
    p.add_argument("--prompt", default="In the beginning")
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--cli", default="tenon")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--cache", default=None)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        cache = a.cache or os.path.join(d, "cache")
        os.makedirs(cache, exist_ok=True)
        profiles = {}
        for kind in ("none", "process"):
            profiles[kind] = os.path.join(d, kind + ".yaml")
            with open(profiles[kind], "w") as f:
                f.write(f"isolation: {kind}\nplugins: [{a.plugin}, host]\nrequire: [{a.plugin}]\n")
        speeds, texts = {"none": [], "process": []}, set()
        once(a, profiles["none"], cache)  # packs
        for _ in range(a.rounds):
            for kind, profile in profiles.items():
                tps, text = once(a, profile, cache)
                speeds[kind].append(tps)
                texts.add(text)
    us = {k: [1e6 / t for t in v] for k, v in speeds.items()}
    out = {"model": a.model, "plugin": a.plugin, "rounds": a.rounds, "same_text": len(texts) == 1}
    for k, v in us.items():
        q = statistics.quantiles(v, n=4) if len(v) > 1 else [v[0]] * 3
        out[k] = {"us_per_token": round(statistics.median(v), 1), "quartiles": [round(q[0], 1), round(q[2], 1)], "best": round(min(v), 1)}
    out["price_us"] = round(out["process"]["us_per_token"] - out["none"]["us_per_token"], 1)
    out["price_best_us"] = round(out["process"]["best"] - out["none"]["best"], 1)
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
