#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Peak resident memory of `tenon run` against the memory statement of `tenon inspect`, in a first (packing) and a cached
start with a full context.

  bench/peak.py TENON MODEL_DIR [--max-seq 2048] [--tokens N] [--plugins "cpu-avx2-lut, host"]
  bench/peak.py --of COMMAND...

--of: the peaks of any command instead, and the time that it took.

MODEL_DIR: by bench/make_llama.py with a vocabulary of more than 4096, for instance the shape of a 1.1B Llama (4.4 GB):
  bench/make_llama.py OUT --layers 22 --dim 2048 --heads 32 --kv-heads 4 --ffn 5632 --vocab 32000

The child is sampled through /proc (every 2 ms: anonymous and file-backed parts at the highest sum seen) and by its own
high-water mark (VmHWM, exact). Exits 1 when a peak is above the statement, or the statement more than 10 % above the
peak of the cached start. Python's standard library only.
"""
import argparse
import json
import os
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

KEYS = ("weights_bytes", "packed_bytes", "kv_bytes", "arena_bytes", "outputs_bytes", "base_bytes", "anonymous_bytes",
        "file_bytes", "total_bytes")


def statement(a, cache):
    cmd = [a.tenon, "inspect", a.model, "--format", "json", "--profile", a.profile_file, "--cache-dir", cache]
    return json.loads(subprocess.run(cmd, check=True, capture_output=True, text=True).stdout)["memory"]


def memory(pid):
    """RssAnon, RssFile + RssShmem and VmHWM in bytes, or None when the process is gone."""
    try:
        with open(f"/proc/{pid}/status") as f:
            rows = dict(line.split(":", 1) for line in f)
        kb = {k: int(rows[k].split()[0]) * 1024 for k in ("RssAnon", "RssFile", "RssShmem", "VmHWM")}
    except (OSError, KeyError, ValueError):
        return None
    return kb["RssAnon"], kb["RssFile"] + kb["RssShmem"], kb["VmHWM"]


def watch(p, every=0.002):
    """Anonymous and file-backed bytes at the highest sum, the most anonymous ones, and the high-water mark."""
    best, anonymous, high = (0, 0), 0, 0
    while p.poll() is None:
        m = memory(p.pid)
        if m:
            best, anonymous, high = max(best, m[:2], key=sum), max(anonymous, m[0]), max(high, m[2])
        time.sleep(every)
    return best, anonymous, high


def of(command):
    start = time.monotonic()
    p = subprocess.Popen(command)
    _, anonymous, high = watch(p, 0.02)
    seconds, used = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    print(f"anonymous {anonymous / 1e6:.0f} MB, resident {high / 1e6:.0f} MB, {seconds:.0f} s, "
          f"{used.ru_utime + used.ru_stime:.0f} s of processor time")
    sys.exit(p.returncode)


def run(a, cache, prompt):
    cmd = [a.tenon, "run", a.model, "-f", prompt, "-n", str(a.tokens), "--temp", "0", "--ids", "--ignore-eos",
           "--profile", a.profile_file, "--cache-dir", cache]
    if a.threads:
        cmd += ["--threads", str(a.threads)]
    start = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(cmd, stdout=out, stderr=err)
        best, _, high = watch(p)
        out.seek(0)
        err.seek(0)
        ids = out.read().split()
        if p.returncode:
            sys.exit(err.read().decode())
    return {"anonymous": best[0], "file": best[1], "peak": max(high, sum(best)), "tokens": len(ids),
            "seconds": time.monotonic() - start}


def make_prompt(a, path):
    """Random words that are tokens of their own in the models of bench/make_llama.py, and as many as leave room for the new ones."""
    with open(os.path.join(a.model, "tokenizer.json"), encoding="utf-8") as f:
        vocab = json.load(f)["model"]["vocab"]
    words = [t[1:] for t, i in vocab.items() if i < 4096 and re.fullmatch("\u0120[a-z]{3,}", t)]
    rng = random.Random(1)
    with open(path, "w", encoding="utf-8") as f:
        f.write("".join(" " + rng.choice(words) for _ in range(a.max_seq - a.tokens - 1)))


def main():
    if sys.argv[1:2] == ["--of"]:
        of(sys.argv[2:])
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tenon")
    p.add_argument("model")
    p.add_argument("--max-seq", type=int, default=2048)
    p.add_argument("--tokens", type=int, default=8, help="to generate behind the prompt")
    p.add_argument("--threads", type=int, default=0)
    p.add_argument("--plugins", default="cpu-avx2-lut, host", help="the profile's plugins")
    p.add_argument("--json")
    a = p.parse_args()
    with tempfile.TemporaryDirectory(prefix="tenon-peak-", dir=os.environ.get("TMPDIR", "/tmp")) as tmp:
        a.profile_file = os.path.join(tmp, "peak.yaml")
        with open(a.profile_file, "w") as f:
            f.write(f"plugins: [{a.plugins}]\nmax_seq: {a.max_seq}\n")
        cache, prompt = os.path.join(tmp, "cache"), os.path.join(tmp, "prompt.txt")
        make_prompt(a, prompt)
        rows = []
        for start in ("first", "cached"):
            s = statement(a, cache)
            r = run(a, cache, prompt)
            rows.append({"start": start, "statement": {k: s.get(k, 0) for k in KEYS}, **r,
                         "ratio": s["total_bytes"] / r["peak"]})
        shutil.rmtree(cache, ignore_errors=True)
    print("statement: " + ", ".join(f"{k[:-6]} {rows[1]['statement'][k] / 1e6:.1f}" for k in KEYS) + " MB")
    print("| start | tokens | statement MB | peak MB | anonymous | file-backed | statement / peak | seconds |")
    print("|---|---|---|---|---|---|---|---|")
    for r in rows:
        print(f"| {r['start']} | {r['tokens']} | {r['statement']['total_bytes'] / 1e6:.1f} | {r['peak'] / 1e6:.1f} | "
              f"{r['anonymous'] / 1e6:.1f} | {r['file'] / 1e6:.1f} | {r['ratio']:.3f} | {r['seconds']:.1f} |")
    if a.json:
        with open(a.json, "w") as f:
            json.dump(rows, f, indent=1)
    bad = [r["start"] for r in rows if r["ratio"] < 1]
    if rows[1]["ratio"] > 1.1:
        bad.append("cached start: more than 10 % above")
    if bad:
        sys.exit("FAILED: " + ", ".join(bad))


if __name__ == "__main__":
    main()
