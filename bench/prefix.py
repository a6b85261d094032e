#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Time to the first token of prompts that begin alike, by `tenon serve` (docs/serve.md).

  bench/prefix.py BUILD MODEL [--profile P] [--shared 1500] [--own 16] [--slots 4] [--json FILE]

A first client sends `shared` random ids and `own` of its own, and asks for one token. Others begin alike: one while a slot
still has the beginning, and one after every slot went to another text. Prints each time, the tokens that ran, and the ratio to
the first; fails where one is not under a tenth. MODEL: bench/make_llama.py, or any folder. Python's standard library only.
"""
import argparse
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]

p = argparse.ArgumentParser()
p.add_argument("build")
p.add_argument("model")
p.add_argument("--profile", default="cpu-avx2")
p.add_argument("--shared", type=int, default=1500)
p.add_argument("--own", type=int, default=16)
p.add_argument("--slots", type=int, default=4)
p.add_argument("--vocab", type=int, default=30000)
p.add_argument("--cache-dir")
p.add_argument("--json")
a = p.parse_args()


def ids(seed, n):
    r = random.Random(seed)
    return [r.randrange(5, a.vocab) for _ in range(n)]


def main():
    env = dict(os.environ, TENON_PLUGIN_PATH=f"{a.build}/plugins/cpu-avx2-lut", TENON_PROFILE_PATH=str(ROOT / "configs"))
    args = [f"{a.build}/runtime/cli/tenon", "serve", f"m={a.model}", "--profile", a.profile, "--port", "0", "--slots", str(a.slots)]
    s = subprocess.Popen(args + (["--cache-dir", a.cache_dir] if a.cache_dir else []), stderr=subprocess.PIPE, text=True, env=env)
    url = next((m.group(1) for m in (re.search(r"listening on (\S+)", line) for line in s.stderr) if m), None)
    if not url:
        sys.exit("the server did not start")

    def ask(prompt):
        body = json.dumps({"prompt": prompt, "max_tokens": 1, "temperature": 0}).encode()
        start = time.perf_counter()
        with urllib.request.urlopen(urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})) as r:
            u = json.load(r)["usage"]
        return time.perf_counter() - start, u["prompt_tokens"] - u["prompt_tokens_details"]["cached_tokens"]

    rows = []
    try:
        ask(ids(1, 8))  # what a first step makes is there
        shared = ids(2, a.shared)
        rows.append(("first", *ask(shared + ids(3, a.own))))
        rows.append(("from a slot", *ask(shared + ids(4, a.own))))
        for i in range(a.slots):
            ask(ids(10 + i, 24))
        rows.append(("from the store", *ask(shared + ids(5, a.own))))
        rows.append(("the same again", *ask(shared + ids(5, a.own))))
    finally:
        s.terminate()
        s.wait()
    first = rows[0][1]
    for name, seconds, ran in rows:
        print(f"{name:16} {seconds * 1e3:9.1f} ms   {ran:5} tokens ran   {seconds / first:6.3f}")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps([{"what": n, "seconds": t, "ran": k} for n, t, k in rows]))
    return any(t > first / 10 for _, t, _ in rows[1:])


if __name__ == "__main__":
    sys.exit(main())
