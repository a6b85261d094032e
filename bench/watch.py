#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `watch` of a profile (looks at NaN) costs in a decode step, by bench/step.c.

  bench/watch.py BUILD [--plugin cpu-avx2-lut] [--model models/demo] [--watch N] [--rounds 1000] [--limit 1]

Steps with and without it in turns in one process; fails where the median of --repeat such runs is more than --limit
percent. `ninja -C BUILD bench-programs` comes first. Needs nothing but Python; run it on a machine that does nothing else.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("--plugin", default="cpu-avx2-lut")
    p.add_argument("--model", default="models/demo")
    p.add_argument("--watch", type=int)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=1000)
    p.add_argument("--repeat", type=int, default=5)
    p.add_argument("--limit", type=float, default=1)
    a = p.parse_args()
    with tempfile.TemporaryDirectory() as d:
        profile = os.path.join(d, "watch.yaml")
        with open(profile, "w") as f:
            f.write(f"plugins: [{a.plugin}, host]\nrequire: [{a.plugin}]\nthreads: {a.threads}\n")
            f.write(f"watch: {a.watch}\n" if a.watch else "")
        cmd = [os.path.join(a.build, "bench", "bench-step"), "watch", a.model, profile,
               os.path.abspath(os.path.join(a.build, "plugins", a.plugin)), str(a.rounds)]
        env = dict(os.environ, TENON_CACHE_DIR=os.path.join(d, "cache"))
        runs = [json.loads(subprocess.run(cmd, env=env, check=True, stdout=subprocess.PIPE).stdout) for _ in range(a.repeat)]
    for r in runs:
        print(json.dumps(r))
    percent = statistics.median(r["percent"] for r in runs)
    print(f"median: {percent:.2f} %")
    if percent > a.limit:
        sys.exit(f"more than {a.limit} %")


if __name__ == "__main__":
    main()
