#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packing speed, its memory and the first token of a packed model, by weight format, against what is promised.

  bench/start.py TENON --model MODEL [--formats w4g:32,...] [--threads N] [--rounds 5] [--cold] [--plugins DIR]
                 [--cache DIR] [--json FILE]

By format, from a process each: `tenon pack` (GB/s of source by the processor time of the whole process; peak of anonymous
memory, sampled every 2 ms; VmHWM, which counts pages of the source and of what is written, too), then `tenon run -n 1`
from files in the page cache, best and median of the rounds; --cold: also with the packed file dropped from it before. Source:
bytes of the model's .onnx and data files, so tables that are not packed count as well. Prints a table; exits 1 where a
promise is not kept. Python's standard library and numpy (speed.py).
"""
import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time

import peak
import quality
import speed

FORMATS = "w8g,w4g:32,w4g:128,w3g,w2g,w1g,tern20,tern17,pal16,lut2,lut4"
PROMISES = {"gb_per_core_s": 0.5, "above_bytes": 256 << 20, "first_s_per_gb": 0.3}


def files_of(model):
    return [os.path.join(model, f) for f in os.listdir(model) if ".onnx" in f]


def child(cmd, env):
    """Output, seconds, processor seconds, and the largest anonymous and whole memory of a process."""
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(cmd, stdout=out, stderr=err, env=env)
        anonymous = whole = 0
        while p.poll() is None:
            m = peak.memory(p.pid)
            if m:
                anonymous, whole = max(anonymous, m[0]), max(whole, m[2])
            time.sleep(0.002)
        seconds, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        out.seek(0)
        err.seek(0)
        if p.returncode:
            sys.exit(f"{' '.join(cmd)}: {err.read().decode()}")
        return (out.read().decode(), seconds, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, anonymous, whole)


def into_cache(paths):
    for path in paths:
        with open(path, "rb", buffering=0) as f:
            while f.read(1 << 24):
                pass


def out_of_cache(path):
    fd = os.open(path, os.O_RDONLY)
    os.fdatasync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def first_token(a, profile, env):
    """Seconds from starting the process to its first bytes of output."""
    start = time.monotonic()
    p = subprocess.Popen([a.tenon, "run", a.model, "-p", "a", "-n", "1", "--temp", "0", "--ids", "--profile", profile, "--threads",
                          str(a.threads)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=env)
    first = p.stdout.read(1)
    seconds = time.monotonic() - start
    p.stdout.read()
    if p.wait() or not first:
        sys.exit(f"tenon run with {profile} fails")
    return seconds


def measure(a, fmt, tmp, env):
    profile = speed.profile_of(fmt, tmp)
    source = files_of(a.model)
    into_cache(source)
    out, wall, cpu, anonymous, whole = child([a.tenon, "pack", a.model, "--profile", profile, "--threads", str(a.threads), "--format",
                                              "json"], env)
    made = json.loads(out)["devices"][0]
    if made["mapped"]:
        sys.exit(f"{fmt}: packed before; --cache wants an empty folder")
    gb = sum(map(os.path.getsize, source)) / 1e9
    row = {"format": fmt, "source_gb": gb, "packed_gb": made["packed_bytes"] / 1e9, "seconds": wall, "cpu_seconds": cpu,
           "gb_per_core_s": gb / cpu, "anonymous_bytes": anonymous, "vmhwm_bytes": whole}
    into_cache([made["path"]])
    first_token(a, profile, env)
    warm = [first_token(a, profile, env) for _ in range(a.rounds)]
    row.update(first_s=statistics.median(warm), first_least_s=min(warm), first_s_per_gb=statistics.median(warm) / row["packed_gb"])
    if a.cold:
        out_of_cache(made["path"])
        row["first_cold_s"] = first_token(a, profile, env)
    os.remove(made["path"])  # one file holds a model's formats: each would copy those before
    return row


def missed(r):
    out = [k for k, wrong in (("packing speed", r["gb_per_core_s"] < PROMISES["gb_per_core_s"]),
                              ("memory", r["anonymous_bytes"] > PROMISES["above_bytes"]),
                              ("first token", r["first_s_per_gb"] > PROMISES["first_s_per_gb"])) if wrong]
    return ", ".join(out)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tenon", type=os.path.abspath)
    p.add_argument("--model", required=True)
    p.add_argument("--formats", default=FORMATS)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--cold", action="store_true")
    p.add_argument("--plugins")
    p.add_argument("--cache")
    p.add_argument("--json")
    a = p.parse_args()
    rows = []
    print("| format | packed, GB | packing, s | processor, s | GB/s per core | anonymous, MB | VmHWM, MB | first token, s (least) | "
          "s per GB | cold, s | missed |\n|" + "---|" * 11)
    with tempfile.TemporaryDirectory(prefix="tenon-start-") as tmp:
        env = quality.environment(a.plugins or os.path.join(os.path.dirname(a.tenon), "..", "..", "plugins"), a.cache or
                                  os.path.join(tmp, "cache"))
        for fmt in a.formats.split(","):
            r = measure(a, fmt, tmp, env)
            rows.append(r)
            print(f"| {fmt} | {r['packed_gb']:.3f} | {r['seconds']:.1f} | {r['cpu_seconds']:.1f} | {r['gb_per_core_s']:.2f} | "
                  f"{r['anonymous_bytes'] / 1e6:.0f} | {r['vmhwm_bytes'] / 1e6:.0f} | {r['first_s']:.2f} ({r['first_least_s']:.2f}) | "
                  f"{r['first_s_per_gb']:.2f} | {r.get('first_cold_s', 0):.2f} | {missed(r)} |", flush=True)
            if a.json:
                with open(a.json, "w", encoding="utf-8") as f:
                    json.dump(rows, f, indent=1)
    return 1 if any(map(missed, rows)) else 0


if __name__ == "__main__":
    sys.exit(main())
