#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""long_context.py TENON CONFIGS POSITIONS: a prompt of so many tokens on a decoder of one layer, against a pass in float64.

What the prompt's last four positions choose must be what float64 chooses (no near-ties), and the memory of a run at that
context at most what `tenon inspect` states for it, and more than its caches. The prompt goes through a tokenizer of a word
for each id. The last line has the figures. Exit 1: something differs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import numpy as np

import tiny_decoder

GENERATED = 4


def tokenizer(folder):
    model = {"type": "WordLevel", "vocab": {f"w{i}": i for i in range(tiny_decoder.VOCAB)}, "unk_token": "w0"}
    j = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
         "pre_tokenizer": {"type": "WhitespaceSplit"}, "post_processor": None, "decoder": None, "model": model}
    (folder / "tokenizer.json").write_text(json.dumps(j))


def expected(ids):
    want, least = [], np.inf
    for _ in range(GENERATED):
        logits = tiny_decoder.logits_after(ids + want)
        first, second = np.sort(logits)[::-1][:2]
        least = min(least, first - second)
        want.append(int(logits.argmax()))
    return want, least


def tenon(program, configs, *args):
    env = dict(os.environ, TENON_PROFILE_PATH=configs, TENON_CACHE_DIR="")
    # A shell stands between: a process inherits the peak of the one that it is made from.
    r = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", program, *map(str, args), "--profile", "host"], env=env, capture_output=True,
                       text=True)
    if r.returncode:
        sys.exit(f"tenon {args[0]}: {r.stderr.strip()}")
    return r.stdout


def main():
    program, configs, positions = sys.argv[1], sys.argv[2], int(sys.argv[3])
    with tempfile.TemporaryDirectory() as tmp:
        folder = tiny_decoder.write(pathlib.Path(tmp) / "tiny", positions + 64)
        tokenizer(folder)
        ids = np.random.default_rng(5).integers(0, tiny_decoder.VOCAB, positions).tolist()
        want, least = expected(ids)
        if least < 1e-3:
            sys.exit(f"the two best logits are {least:.2g} apart: choose another seed")
        text = pathlib.Path(tmp) / "prompt.txt"
        text.write_text(" ".join(f"w{i}" for i in ids))
        begin = time.monotonic()
        out = tenon(program, configs, "run", folder, "-f", text, "-n", GENERATED, "--temp", 0, "--ids", "-c", positions + 64)
        seconds = time.monotonic() - begin
        got = [int(i) for i in out.split()][positions:]
        stated = json.loads(tenon(program, configs, "inspect", folder, "-c", positions + 64, "--format", "json"))["memory"]
        bench = json.loads(tenon(program, configs, "bench", folder, "-p", positions, "-n", 0, "-r", 1, "--no-warmup", "-c",
                                 positions + 64, "--format", "json"))
    most, peak = stated["anonymous_bytes"] + stated["file_bytes"], bench["peak_rss_bytes"]
    figures = (f"{positions} positions in {seconds:.0f} s, ids {got} (float64: {want}, best logits {least:.2g} apart), peak {peak / 1e6:.1f} MB, "
               f"stated {most / 1e6:.1f} MB, {stated['kv_bytes'] / 1e6:.1f} MB of them caches")
    print(figures)
    return got != want or peak > most or peak < stated["kv_bytes"]


if __name__ == "__main__":
    sys.exit(main())
