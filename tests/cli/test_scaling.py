# SPDX-License-Identifier: Apache-2.0
"""Loading costs what the file holds: each family of graphs at two sizes, one four times the other, in instructions that
callgrind counts. What a load of a graph of four nodes takes is no part of it. A step that were quadratic has a ratio of 16;
n log n has 4.6 at these sizes.

  test_scaling.py [--sizes 1000,4000] [--only FAMILY,...]
  test_scaling.py --million [--only FAMILY,...]      a million nodes, those of branches too: seconds of CPU and bytes
"""
import argparse
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile

import families

MOST_RATIO, MOST_SECONDS, MOST_BYTES = 6, 20, 4 << 30
# Nodes per unit of a family. Others ask for nodes of a million inputs or for a million outputs, which are refused.
MILLION = {"tree": 1, "adds": 1, "diamonds": 1, "matmuls": 1, "ifs": 3}
TENON = os.environ["TENON"]
ENV = dict(os.environ, TENON_PROFILE_PATH=os.environ["TENON_TEST_SOURCE"] + "/configs", TENON_PLUGIN_PATH="")


def load(folder, name, n, before=()):
    path = f"{folder}/{name}-{n}.onnx"
    families.write(name, n, path)
    return [*before, TENON, "check", path, "--profile", "host", "--threads", "1", "--format", "json", "--cache-dir",
            f"{folder}/cache"]


def instructions(folder, name, n):
    out = f"{folder}/{name}-{n}.count"
    line = load(folder, name, n, ["valgrind", "--tool=callgrind", f"--callgrind-out-file={out}"])
    r = subprocess.run(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=ENV)
    if r.returncode:
        raise SystemExit(f"{name} of {n} nodes: exit code {r.returncode}\n{r.stderr[-2000:]}")
    with open(out) as f:
        return next(int(line.split()[1]) for line in f if line.startswith(("summary:", "totals:")))


def ratio(folder, name, sizes):
    """Instructions per size, without those of a graph of four nodes."""
    base, *counts = [instructions(folder, name, n) for n in (4, *sizes)]
    return [c - base for c in counts]


def check_ratios(sizes, names):
    bad = []
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(2) as pool:
        jobs = {name: pool.submit(ratio, folder, name, sizes) for name in names}
        for name, job in jobs.items():
            small, large = job.result()
            print(f"{name:13} {sizes[0]:6} nodes {small / 1e6:9.1f} M, {sizes[1]:6} nodes {large / 1e6:9.1f} M: ratio {large / small:5.2f}",
                  flush=True)
            if large > MOST_RATIO * small:
                bad.append(name)
    return bad


def check_million(names, n=1000000):
    bad = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            line = load(folder, name, n // MILLION.get(name, 1))
            p = subprocess.Popen(line, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=ENV)
            said = p.stderr.read().decode()
            _, status, used = os.wait4(p.pid, 0)
            p.returncode = os.waitstatus_to_exitcode(status)
            seconds, rss = used.ru_utime + used.ru_stime, used.ru_maxrss * 1024
            print(f"{name:13} {n} nodes: {seconds:.1f} s of CPU, {rss / 1e6:.0f} MB, exit code {p.returncode}", flush=True)
            if p.returncode or seconds > MOST_SECONDS or rss > MOST_BYTES:
                print(said[-500:])
                bad.append(name)
    return bad


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--sizes", default="1000,4000")
    p.add_argument("--only")
    p.add_argument("--million", action="store_true")
    a = p.parse_args()
    names = a.only.split(",") if a.only else list(MILLION if a.million else families.FAMILIES)
    if a.million:
        bad = check_million(names)
    else:
        if not shutil.which("valgrind"):
            print("valgrind is not here")
            sys.exit(77)
        bad = check_ratios([int(n) for n in a.sizes.split(",")], names)
    sys.exit(f"too much: {', '.join(bad)}" if bad else 0)


if __name__ == "__main__":
    main()
