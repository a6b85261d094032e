# SPDX-License-Identifier: Apache-2.0
"""What the wrappers share: llama-bench's arguments, the clock around a peer's calls, llama-bench's JSON.

An engine is a class that is made of (model, threads, room) and has
  vocab, label    ids it knows; what it calls its model (docs/bench.md, model_type)
  reset()         empties the caches
  prompt(ids)     computes ids behind what is in the caches and the logits of the last one
  pick()          the greedy token of those logits
  step(token)     computes one token and picks the next
and raises ImportError where its package is missing.
"""
import argparse
import json
import os
import sys
import time


class Refused(Exception):
    """The peer cannot do what it is asked: one line for the user."""


class Greedy:
    """pick and step of an engine whose prompt leaves the logits of its last id in self.logits."""

    def pick(self):
        return int(self.logits.argmax())

    def step(self, token):
        self.prompt([token])
        return self.pick()


def natural(text):
    n = int(text)
    if n < 0:
        raise argparse.ArgumentTypeError(f"{n} is below 0")
    return n


def arguments(doc, argv):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("-m", "--model", required=True, help="what make.py wrote")
    p.add_argument("-t", "--threads", type=natural, default=len(os.sched_getaffinity(0)), help="default: every processor")
    p.add_argument("-p", "--n-prompt", type=natural, default=512, metavar="N", help="tokens of a prompt; 0: none")
    p.add_argument("-n", "--n-gen", type=natural, default=128, metavar="N", help="tokens to generate; 0: none")
    p.add_argument("-d", "--n-depth", type=natural, default=0, metavar="N", help="positions in the caches before")
    p.add_argument("-r", "--repetitions", type=natural, default=5, metavar="N", help="samples (default 5)")
    p.add_argument("-o", "--output", choices=["json"], default="json")
    a = p.parse_args(argv)
    if not a.n_prompt and not a.n_gen:
        p.error("nothing to measure: both -p and -n are 0")
    if not a.repetitions or not a.threads:
        p.error("-r and -t are at least 1")
    return a


def make_ids(n, vocab):
    """The ids that tenon bench computes."""
    x, ids = 1, []
    for _ in range(n):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        ids.append((x >> 33) % vocab)
    return ids


def measure(engine, ids, n_prompt, n_gen, depth):
    """Seconds of n_prompt tokens at once, or of n_gen one by one, behind `depth` positions (n_gen: at least one)."""
    engine.reset()
    if n_gen:
        engine.prompt(ids[:max(depth, 1)])
        token = engine.pick()
        start = time.perf_counter()
        for _ in range(n_gen):
            token = engine.step(token)
    else:
        if depth:
            engine.prompt(ids[:depth])
        start = time.perf_counter()
        engine.prompt(ids[depth:depth + n_prompt])
    return time.perf_counter() - start


def one_test(engine, a, n_prompt, n_gen):
    n = n_prompt + n_gen
    ids = make_ids(a.n_depth + n_prompt + 1, engine.vocab)
    measure(engine, ids, n_prompt, min(n_gen, 8), min(a.n_depth, 32))  # warms up
    seconds = [measure(engine, ids, n_prompt, n_gen, a.n_depth) for _ in range(a.repetitions)]
    rates = [n / s for s in seconds]
    return {"model_filename": a.model, "model_type": engine.label, "n_threads": a.threads, "n_prompt": n_prompt,
            "n_gen": n_gen, "n_depth": a.n_depth, "avg_ts": sum(rates) / len(rates), "samples_ts": rates}


def main(doc, package, make_engine, argv=None):
    """Measures and prints; the exit code. package: PyPI's name of what make_engine imports."""
    a = arguments(doc, argv)
    fail = f"{os.path.basename(sys.argv[0])}: "
    if not os.path.exists(a.model):
        print(f"{fail}{a.model}: no such file or folder", file=sys.stderr)
        return 3
    try:
        engine = make_engine(a.model, a.threads, max(a.n_depth, 1) + max(a.n_prompt, a.n_gen + 1) + 1)
        out = [one_test(engine, a, p, n) for p, n in ((a.n_prompt, 0), (0, a.n_gen)) if p or n]
    except ImportError as e:
        print(f"{fail}{e}: install PyPI's {package} (bench/peers/install.sh VENV) and run this with VENV's python",
              file=sys.stderr)
        return 3
    except (Refused, OSError, KeyError, RuntimeError, ValueError) as e:  # a wrong model, as the peers' bindings say it
        print(f"{fail}{a.model}: {str(e).strip()}", file=sys.stderr)
        return 3
    print(json.dumps(out, indent=1))
    return 0
