#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Decode speed with guesses (--lookup, --draft) beside none, by `tenon run`, in turns; fails where ids differ.

  bench/guesses.py BUILD MODEL [--lookup N] [--draft MODEL] [--draft-tokens N] [--prompt TEXT | --ids LIST] [--tokens N]
                   [--own N] [--cpu] [--rounds R] [--temp T] [--least RATIO] [-- more options of `tenon run`]

Prints medians of decode tokens/s of both and their ratio; --least: fails below it. The default prompt says one sentence
several times. --own: the prompt is what the model says greedily after "Once upon a time", N tokens, twice. --cpu: of the
program's CPU time, less that of the same run with one token, on one thread: it bears a busy machine. Python's standard
library only.
"""
import argparse, json, os, resource, statistics, subprocess, sys

SENTENCES = "Tom saw a red ball. The red ball was in the big tree. Tom said: I want the red ball. "


def once(a, tenon, extra, seed, tokens):
    """Ids, tokens/s of the clock, CPU seconds."""
    what = ["--prompt-ids", a.ids, "--ids"] if a.ids else ["-p", a.prompt]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    r = subprocess.run([tenon, "run", a.model, *what, "-n", str(tokens), "--temp", str(a.temp), "--seed", str(seed), "--ignore-eos",
                        "--format", "json", *extra, *a.more, *(["--threads", "1"] if a.cpu else [])], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if r.returncode:
        sys.exit(f"tenon run: {r.returncode}\n{r.stderr}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    j = json.loads(r.stdout)
    return j["ids"], j["decode"]["tokens_per_s"], after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def run(a, tenon, extra, seed):
    if not a.cpu:
        return once(a, tenon, extra, seed, a.tokens)[:2]
    ids, _, whole = once(a, tenon, extra, seed, a.tokens)
    rest = whole - once(a, tenon, extra, seed, 1)[2]
    return ids, (len(ids) - 1) / max(rest, 1e-3)


def own_text(a, tenon):
    a.ids, a.prompt = None, "Once upon a time"
    greedy, a.temp = a.temp, 0
    ids = once(a, tenon, [], 0, a.own)[0]
    a.temp = greedy
    return ",".join(map(str, ids * 2))


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("model")
    p.add_argument("--lookup", type=int, default=0)
    p.add_argument("--draft")
    p.add_argument("--draft-tokens", type=int, default=8)
    p.add_argument("--prompt", default=SENTENCES * 4)
    p.add_argument("--ids")
    p.add_argument("--tokens", type=int, default=100)
    p.add_argument("--own", type=int, default=0)
    p.add_argument("--cpu", action="store_true")
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--temp", type=float, default=0)
    p.add_argument("--least", type=float, default=0)
    a, more = p.parse_known_args()
    a.more = [x for x in more if x != "--"]
    extra = (["--lookup", str(a.lookup)] if a.lookup else []) + (["--draft", a.draft, "--draft-tokens", str(a.draft_tokens)] if a.draft else [])
    if not extra:
        p.error("--lookup or --draft is wanted")
    tenon = os.path.join(a.build, "runtime/cli/tenon")
    if a.own:
        a.ids = own_text(a, tenon)
    rates, same = {"without": [], "with": []}, True
    for seed in range(a.rounds):
        ids, rate = run(a, tenon, [], seed)
        rates["without"].append(rate)
        other, rate = run(a, tenon, extra, seed)
        rates["with"].append(rate)
        same = same and ids == other
    x, y = (statistics.median(rates[k]) for k in ("without", "with"))
    pairs = [b / a_ for a_, b in zip(rates["without"], rates["with"])]
    print(f"without {x:.2f} tokens/s{' of CPU time' if a.cpu else ''}; with {' '.join(extra)} {y:.2f} ({statistics.median(pairs):.2f}x, {min(pairs):.2f} to {max(pairs):.2f}); "
          f"ids equal: {same}")
    return not same or statistics.median(pairs) < a.least


sys.exit(main())
