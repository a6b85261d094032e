#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""CPU time of `tenon serve` per token, with guesses (--lookup, --draft) and without, for 1, 2, 4 and 8 clients at once (docs/sampling.md).

  bench/serve_guesses.py BUILD MODEL [--lookup N] [--draft MODEL] [--draft-tokens N] [--tokens N] [--own N | --ids FILE] [--temp T]
                         [--rounds R] [--profile P] [--cache FOLDER] [--clients 1,2,4,8]

The prompt is what the model says greedily after "Once upon a time", --own tokens, twice, or the ids of FILE (of
bench/make_llama.py --repeats); each client asks for --tokens more, with
a seed of its own. Prints medians over rounds, in turns, of CPU microseconds per token, and the guesses that came; fails where
texts differ. It bears a busy machine. Python's standard library only.
"""
import argparse
import json
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]


class Server:
    def __init__(self, a, *more):
        env = dict(os.environ, TENON_PLUGIN_PATH=f"{a.build}/plugins/cpu-avx2-lut", TENON_PROFILE_PATH=str(ROOT / "configs"))
        self.p = subprocess.Popen([f"{a.build}/runtime/cli/tenon", "serve", f"m={a.model}", "--profile", a.profile, "--port", "0", "--slots", "8",
                                   "--threads", "1", *(["--cache-dir", a.cache] if a.cache else []), *more], stderr=subprocess.PIPE, text=True, env=env)
        self.url = next((m.group(1) for m in (re.search(r"listening on (\S+)", line) for line in self.p.stderr) if m), None)
        if not self.url:
            sys.exit("the server did not start")

    def cpu(self):
        t = pathlib.Path(f"/proc/{self.p.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(t[11]) + int(t[12])) / os.sysconf("SC_CLK_TCK")

    def ask(self, prompt, **more):
        body = json.dumps({"prompt": prompt, "temperature": 0, **more}).encode()
        with urllib.request.urlopen(urllib.request.Request(self.url + "/v1/completions", body, {"Content-Type": "application/json"})) as r:
            return json.load(r)

    def several(self, a, n, prompt, seed):
        """Texts of n clients, CPU seconds, guesses tried and those that came."""
        got, before = {}, self.cpu()
        ask = lambda i: got.update({i: self.ask(prompt, max_tokens=a.tokens, temperature=a.temp, seed=seed + i)})
        threads = [threading.Thread(target=ask, args=(i,)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        d = [g["usage"].get("completion_tokens_details", {}) for g in got.values()]
        yes, no = (sum(x.get(k + "_prediction_tokens", 0) for x in d) for k in ("accepted", "rejected"))
        tokens = sum(g["usage"]["completion_tokens"] for g in got.values())
        return [got[i]["choices"][0]["text"] for i in range(n)], (self.cpu() - before) / tokens, yes + no, yes


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("model")
    p.add_argument("--lookup", type=int, default=0)
    p.add_argument("--draft")
    p.add_argument("--draft-tokens", type=int, default=8)
    p.add_argument("--tokens", type=int, default=300)
    p.add_argument("--ids", type=pathlib.Path)
    p.add_argument("--cache", help="folder of packed weights")
    p.add_argument("--clients", default="1,2,4,8")
    p.add_argument("--own", type=int, default=300)
    p.add_argument("--temp", type=float, default=0)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--profile", default="cpu-avx2")
    a = p.parse_args()
    extra = (["--lookup", str(a.lookup)] if a.lookup else []) + (["--draft", a.draft, "--draft-tokens", str(a.draft_tokens)] if a.draft else [])
    plain, guessing = Server(a), Server(a, *extra)
    try:
        prompt = json.loads(f"[{a.ids.read_text()}]") if a.ids else 2 * plain.ask("Once upon a time", max_tokens=a.own)["choices"][0]["text"]
        for s in (plain, guessing):
            s.ask(prompt, max_tokens=1)  # the prompt is in a slot
        print(f"{' '.join(extra)}: clients, CPU us per token without, with, ratio, guesses that came of those tried")
        same = True
        for n in map(int, a.clients.split(",")):
            without, others, tried, came = [], [], 0, 0
            for r in range(a.rounds):
                texts, t, _, _ = plain.several(a, n, prompt, 100 * r)
                mine, u, k, yes = guessing.several(a, n, prompt, 100 * r)
                without, others, tried, came, same = [*without, t], [*others, u], tried + k, came + yes, same and texts == mine
            x, y = statistics.median(without), statistics.median(others)
            print(f"{n} {1e6 * x:.0f} {1e6 * y:.0f} {x / y:.2f} {came} of {tried}", flush=True)
        print("texts equal:", same)
        return not same
    finally:
        for s in (plain, guessing):
            s.p.terminate()
            s.p.communicate()


sys.exit(main())
