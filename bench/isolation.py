#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `isolation: process` costs per token: the same model and plugin in the process and in one of its own, in turns.

  bench/isolation.py BUILD [--plugin cpu-avx2-lut] [--model models/demo] [--prefill 128] [--tokens 256] [--rounds 9] [--cli NAME]

Medians, quartiles and the best of the microseconds per token of a prompt and per decoded token, and the differences. --prefill: how
many words the prompt has, some of which are more than one token; what was counted is printed. Needs nothing but Python; run it on a
machine that does nothing else.
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
    return {"prompt": int(m.group(1)), "prefill": float(m.group(2)), "decode": float(m.group(4))}, r.stdout


def spread(speeds):
    """Microseconds per token of speeds in tokens per second."""
    us = [1e6 / s for s in speeds]
    q = statistics.quantiles(us, n=4) if len(us) > 1 else [us[0]] * 3
    return {"us_per_token": round(statistics.median(us), 1), "quartiles": [round(q[0], 1), round(q[2], 1)], "best": round(min(us), 1)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--plugin", default="cpu-avx2-lut")
    p.add_argument("--model", default="models/demo")
    p.add_argument("--prefill", type=int, default=128)
    p.add_argument("--tokens", type=int, default=256)
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--cli", default="tenon")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--cache", default=None)
    a = p.parse_args()
    a.prompt = " ".join(("the", "beginning", "of", "all", "things")[i % 5] for i in range(a.prefill))
    with tempfile.TemporaryDirectory() as d:
        cache = a.cache or os.path.join(d, "cache")
        os.makedirs(cache, exist_ok=True)
        profiles = {}
        for kind in ("none", "process"):
            profiles[kind] = os.path.join(d, kind + ".yaml")
            with open(profiles[kind], "w") as f:
                f.write(f"isolation: {kind}\nplugins: [{a.plugin}, host]\nrequire: [{a.plugin}]\n")
        runs, texts = {"none": [], "process": []}, set()
        once(a, profiles["none"], cache)  # packs
        for _ in range(a.rounds):
            for kind, profile in profiles.items():
                run, text = once(a, profile, cache)
                runs[kind].append(run)
                texts.add(text)
    out = {"model": a.model, "plugin": a.plugin, "rounds": a.rounds, "same_text": len(texts) == 1,
           "prompt": runs["none"][0]["prompt"], "decoded": a.tokens}
    for part in ("prefill", "decode"):
        of = {kind: spread([r[part] for r in v]) for kind, v in runs.items()}
        out[part] = of | {"price_us": round(of["process"]["us_per_token"] - of["none"]["us_per_token"], 1),
                          "price_best_us": round(of["process"]["best"] - of["none"]["best"], 1)}
    print(json.dumps(out, indent=1))


if __name__ == "__main__":
    main()
