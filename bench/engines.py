#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CNNs with backends of examples/, on Tenon's host and in onnxruntime: one run, in turns, on the same threads.

  bench/engines.py BUILD PLUGIN.so [PLUGIN.so ...] [--models NAME,...] [--work DIR] [--rounds N] [--threads N] [--table FILE]

Models are MobileNetV2 and ResNet-18 with random weights (beside_ort.py makes them in DIR once). Every round runs each side
once, in an order that turns; a row has medians, and the median of each side's ratio to onnxruntime in the same round. The
sums of outputs must agree. `ninja -C BUILD bench-programs` comes first. Needs numpy, onnx and onnxruntime.
"""
import argparse
import os
import statistics
import subprocess
import sys
import time

import numpy as np
import onnxruntime as ort

import beside_ort


class Tenon:
    """One process of bench-infer: a line in, a run and its time out."""

    def __init__(self, a, path, plugins, folder, dims):
        profile = os.path.join(a.work, "-".join(plugins) + ".yaml")
        with open(profile, "w") as f:
            f.write(f"plugins: [{', '.join(plugins)}]\nthreads: {a.threads}\n")
        env = dict(os.environ, TENON_CACHE_DIR=os.path.join(a.work, "cache"))
        self.p = subprocess.Popen([os.path.join(a.build, "bench", "bench-infer"), path, profile, folder, *dims], env=env,
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self):
        self.p.stdin.write("\n")
        self.p.stdin.flush()
        ns, total = self.p.stdout.readline().split()
        return int(ns) / 1e6, float(total)

    def close(self):
        self.p.stdin.close()
        self.p.wait()


class Ort:
    def __init__(self, session, feeds):
        self.session, self.feeds = session, feeds

    def run(self):
        began = time.perf_counter()
        out = self.session.run(None, self.feeds)[0]
        return (time.perf_counter() - began) * 1e3, float(out.astype(np.float64).sum())

    def close(self):
        pass


def compare(a, name, path):
    o = ort.SessionOptions()
    o.intra_op_num_threads = a.threads
    session = ort.InferenceSession(path, o, providers=["CPUExecutionProvider"])
    feeds = beside_ort.feeds_of(session)
    dims = [f"{n}={','.join(map(str, v.shape))}" for n, v in feeds.items()]
    size = float(np.abs(session.run(None, feeds)[0].astype(np.float64)).sum())
    sides = {"onnxruntime": Ort(session, feeds), "host": Tenon(a, path, ["host"], os.path.dirname(a.plugins[0]), dims)}
    for so in a.plugins:
        plugin = os.path.basename(so)[:-3]
        sides[plugin] = Tenon(a, path, [plugin, "host"], os.path.dirname(os.path.abspath(so)), dims)
    times = {s: [] for s in sides}
    names = list(sides)
    for i in range(a.rounds + 2):
        for s in names[i % len(names):] + names[:i % len(names)]:
            ms, total = sides[s].run()
            time.sleep(beside_ort.REST)
            if s == "onnxruntime":
                want = total
            elif i and abs(total - want) > 1e-3 * size:
                sys.exit(f"{name}: outputs with {s} sum to {total}, onnxruntime's to {want}")
            if i > 1:
                times[s].append(ms)
    for s in sides.values():
        s.close()
    row = [f"{statistics.median(t):.2f}" for t in times.values()]
    row += [f"{statistics.median(x / y for x, y in zip(times[s], times['onnxruntime'])):.2f}" for s in names[1:]]
    a.say(f"| {name} | " + " | ".join(row) + f" | {a.rounds} |")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("build")
    p.add_argument("plugins", nargs="+")
    p.add_argument("--models", default="mobilenet-v2,resnet-18")
    p.add_argument("--work", default="bench-engines")
    p.add_argument("--rounds", type=int, default=15)
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--table")
    a = p.parse_args()
    a.build, a.work = os.path.abspath(a.build), os.path.abspath(a.work)
    a.plugins = [os.path.abspath(so) for so in a.plugins]
    os.makedirs(a.work, exist_ok=True)
    a.say = beside_ort.teller(a.table)
    sides = ["onnxruntime", "host"] + [os.path.basename(so)[:-3] for so in a.plugins]
    a.say("| model | " + " | ".join(f"{s}, ms" for s in sides) + " | " + " | ".join(f"{s} / onnxruntime" for s in sides[1:]) + " | rounds |")
    a.say("|---" * (2 * len(sides) + 1) + "|")
    for name in a.models.split(","):
        path = os.path.join(a.work, name + ".onnx")
        if not os.path.exists(path):
            beside_ort.MADE[name](path)
        compare(a, name, path)


if __name__ == "__main__":
    main()
