#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Two builds of Tenon run by run in turns, over the models at hand: is anything slower than before?

  bench/before.py OLD_BUILD NEW_BUILD [NAME ...] [--work DIR] [--rounds N] [--seconds S] [--threads N] [--data DIR]
                  [--add NAME=FILE]... [--text NAME=FOLDER]... [--table FILE]

Language models (models/demo, those of --data, --text) by `tenon bench`, plugin cpu-avx2-lut and the host: a prompt of 512 and 64 generated
tokens, as ms per token; encoders and CNNs (those of beside_ort.py) by bench-infer on the host, ms per run, short ones many times in a
row, of which the median counts. The ratio is new by
old; each side has its own cache folder, and a run before the first that counts. Exits 1 where a median of the new build is more than
a tenth above the old one's. `ninja -C BUILD bench-programs` in both comes first. Needs numpy, onnx and onnxruntime.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import beside_ort
import quality

HERE = os.path.dirname(os.path.abspath(__file__))
TEXTS = {"cappgpt": "lm/cappgpt-onnx", "stories260k": "lm/stories260k-onnx"}
SLOWER = 1.1
TOGETHER_MS, MOST_TOGETHER = 20, 100  # runs of one side in a row: a run of microseconds alone is mostly what waking up costs


class Side:
    """One build, its caches and profiles."""

    def __init__(self, build, a, label):
        self.build, self.threads = os.path.abspath(build), a.threads
        self.cache = os.path.join(a.work, "cache-" + label)
        self.env = quality.environment(os.path.join(self.build, "plugins"), self.cache)
        self.profiles = {}
        for name, plugins in (("text", "cpu-avx2-lut, host"), ("host", "host")):
            self.profiles[name] = os.path.join(a.work, f"{name}.yaml")
            with open(self.profiles[name], "w", encoding="utf-8") as f:
                f.write(f"plugins: [{plugins}]\nthreads: {a.threads}\n")

    def tokens(self, model, p, n):
        """ms per token by test."""
        cmd = [os.path.join(self.build, "runtime", "cli", "tenon"), "bench", model, "--profile", self.profiles["text"], "-p", str(p), "-n",
               str(n), "-r", "1", "--no-warmup"]
        j, why = quality.run(cmd[:1], cmd[1:], self.env)
        if not j:
            sys.exit(f"{' '.join(cmd)}: {why}")
        return {r["test"].split()[0]: 1e3 / r["tokens_per_s"]["median"] for r in j["rows"]}

    def infer(self, path, dims):
        return subprocess.Popen([os.path.join(self.build, "bench", "bench-infer"), path, self.profiles["host"],
                                 os.path.join(self.build, "plugins", "cpu-avx2-lut"), *dims], env=self.env, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, text=True)


def rounds_of(a):
    """Rounds that count, and one before them, as far as there is time."""
    began = time.monotonic()
    for i in range(a.rounds + 1):
        if i > 3 and time.monotonic() - began > a.seconds:
            return
        yield i


def text_rows(a, model, sides):
    shown = {}
    for i in rounds_of(a):
        for k, side in enumerate(sides):
            for test, ms in side.tokens(model, a.p, a.n).items():
                if i:
                    shown.setdefault(test, ([], []))[k].append(ms)
    return shown


def run_once(process, path, side):
    """ms"""
    process.stdin.write("\n")
    process.stdin.flush()
    answer = process.stdout.readline().split()
    if len(answer) != 2:
        sys.exit(f"{path}: {side.build} gives no result")
    return int(answer[0]) / 1e6


def graph_rows(a, path, sides):
    o = beside_ort.ort.SessionOptions()
    o.log_severity_level = 3
    feeds = beside_ort.feeds_of(beside_ort.ort.InferenceSession(path, o, providers=["CPUExecutionProvider"]))
    dims = [f"{n}={','.join(map(str, v.shape))}" for n, v in feeds.items()]
    runs, times, together = [s.infer(path, dims) for s in sides], ([], []), 1
    for i in rounds_of(a):
        of_round = [statistics.median(run_once(p, path, s) for _ in range(together)) for p, s in zip(runs, sides)]
        together = max(1, min(MOST_TOGETHER, round(TOGETHER_MS / max(of_round))))
        if i:
            for k, ms in enumerate(of_round):
                times[k].append(ms)
    for p in runs:
        p.stdin.close()
        p.wait()
    return {"run": times}


def models_of(a):
    """(name, path, language model or not)"""
    out = [("demo", os.path.join(HERE, "..", "models", "demo"), True)]
    out += [(n, os.path.join(a.data, p), True) for n, p in TEXTS.items()] if a.data else []
    out += [(*m.split("=", 1), True) for m in a.text]
    out += [(n, os.path.join(a.work, n + ".onnx"), False) for n in beside_ort.MADE]
    out += [(f[:-5].replace("_", "-"), os.path.join(beside_ort.LIGHT, f), False) for f in sorted(os.listdir(beside_ort.LIGHT)) if f.endswith(".onnx")]
    out += [(n, os.path.join(a.data, p), False) for n, p in beside_ort.GIVEN.items()] if a.data else []
    return out + [(*m.split("=", 1), False) for m in a.add]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("old")
    p.add_argument("new")
    p.add_argument("names", nargs="*")
    p.add_argument("--work", default="bench-models")
    p.add_argument("--rounds", type=int, default=9)
    p.add_argument("--seconds", type=float, default=20, help="of one model, after three rounds")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--data")
    p.add_argument("--add", action="append", default=[], metavar="NAME=FILE")
    p.add_argument("--text", action="append", default=[], metavar="NAME=FOLDER")
    p.add_argument("--table")
    p.add_argument("-p", type=int, default=512)
    p.add_argument("-n", type=int, default=64)
    a = p.parse_intermixed_args()
    a.work = os.path.abspath(a.work)
    os.makedirs(a.work, exist_ok=True)
    models = models_of(a)
    unknown = set(a.names) - {m[0] for m in models}
    if unknown:
        sys.exit(f"no such model: {', '.join(sorted(unknown))}; there are {', '.join(m[0] for m in models)}")
    sides, slower = [Side(a.old, a, "old"), Side(a.new, a, "new")], []
    say = beside_ort.teller(a.table)
    if not a.table or not os.path.exists(a.table) or os.path.getsize(a.table) == 0:
        say("| model | test | before, ms | now, ms | now by before | rounds |\n|---|---|---|---|---|---|")
    for name, path, text in models:
        if a.names and name not in a.names:
            continue
        if name in beside_ort.MADE and not os.path.exists(path):
            beside_ort.MADE[name](path)
        for test, (old, new) in (text_rows if text else graph_rows)(a, path, sides).items():
            ratio = statistics.median(new) / statistics.median(old)
            say(f"| {name} | {test} | {statistics.median(old):.4g} | {statistics.median(new):.4g} | {ratio:.2f} | {len(new)} |")
            slower += [f"{name} {test}"] if ratio > SLOWER else []
    if slower:
        sys.exit(f"slower than before: {', '.join(slower)}")


if __name__ == "__main__":
    main()
