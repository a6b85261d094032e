#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""`tenon serve` beside llama.cpp's llama-server on one shape of random weights, in turns (docs/serve.md).

  bench/serve_beside.py BUILD MODEL LLAMA_SERVER GGUF [--profile P] [--clients 4] [--tokens 64] [--prompt 32] [--shared 1500]
                        [--rounds 3] [--threads 2] [--json FILE]

MODEL: bench/make_llama.py. GGUF: bench/peers/make.py --peer llama.cpp --words, the same shape. LLAMA_SERVER is the program of a build
of llama.cpp's sources. Each server is started anew each round with as many slots as clients, and asked through /v1/completions, by streams,
with random ids and greedy: one client alone; all clients at once; then prompts that begin alike. Prints medians: decode tokens/s of
one (between its first and last token), tokens/s of all together (from the first request to the last token, prompts included), the time to
the first token of a prompt of `shared` + 16 ids and of another that begins alike. Python's standard library only.
"""
import argparse
import http.client
import json
import os
import pathlib
import random
import socket
import statistics
import subprocess
import sys
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("build")
p.add_argument("model")
p.add_argument("llama_server")
p.add_argument("gguf")
p.add_argument("--profile", default="cpu-avx2")
p.add_argument("--clients", type=int, default=4)
p.add_argument("--tokens", type=int, default=64)
p.add_argument("--prompt", type=int, default=32)
p.add_argument("--shared", type=int, default=1500)
p.add_argument("--rounds", type=int, default=3)
p.add_argument("--threads", type=int, default=2)
p.add_argument("--context", type=int, default=2048, help="positions of a client")
p.add_argument("--json")
a = p.parse_args()


def ids(seed, n):
    r = random.Random(seed)
    return [r.randrange(300, 30000) for _ in range(n)]


class Server:
    """A server that runs, and what it is asked."""

    def __init__(self, kind, port, argv, env):
        self.kind, self.port = kind, port
        self.process = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)
        for _ in range(1200):
            if self.process.poll() is not None:
                sys.exit(f"{kind} ended: {' '.join(argv)}")
            try:
                c = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
                c.request("GET", "/health")
                if c.getresponse().status == 200:
                    return
            except OSError:
                pass
            time.sleep(0.1)
        sys.exit(f"{kind} does not answer")

    def ask(self, prompt, n):
        """(time of the request, times of its tokens)."""
        body = {"prompt": prompt, "max_tokens": n, "temperature": 0, "stream": True, "model": "m"}
        # Equal work: as many tokens as were asked for, whatever the text.
        body |= {"min_tokens": n} if self.kind == "tenon" else {"ignore_eos": True, "cache_prompt": True}
        c = http.client.HTTPConnection("127.0.0.1", self.port, timeout=600)
        start = time.perf_counter()
        c.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        r = c.getresponse()
        if r.status != 200:
            sys.exit(f"{self.kind}: {r.status} {r.read()[:300]}")
        first = last = None
        for line in r:
            if not line.startswith(b"data: {"):
                continue
            last = time.perf_counter()
            first = first or last
        return start, first, last

    def stop(self):
        self.process.terminate()
        self.process.wait()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def start(kind):
    port = free_port()
    if kind == "tenon":
        env = dict(os.environ, TENON_PROFILE_PATH=str(ROOT / "configs"))
        argv = [f"{a.build}/runtime/cli/tenon", "serve", f"m={a.model}", "--profile", a.profile, "--port", str(port), "--slots",
                str(a.clients), "--threads", str(a.threads), "-c", str(a.context)]
        return Server(kind, port, argv, env)
    argv = [a.llama_server, "-m", a.gguf, "--host", "127.0.0.1", "--port", str(port), "-np", str(a.clients), "-t", str(a.threads),
            "-tb", str(a.threads), "-c", str(a.context * a.clients)]
    return Server(kind, port, argv, dict(os.environ))


def together(server, seed):
    """Tokens per second of all clients at once, and the longest wait for a first token."""
    out = [None] * a.clients

    def client(i):
        out[i] = server.ask(ids(seed + i, a.prompt), a.tokens)

    threads = [threading.Thread(target=client, args=(i,)) for i in range(a.clients)]
    begun = time.perf_counter()
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if None in out:
        sys.exit(f"{server.kind}: a client failed")
    return a.clients * a.tokens / (max(o[2] for o in out) - begun), max(o[1] - o[0] for o in out)


def measure(kind, round_):
    s = start(kind)
    try:
        seed = 1000 * round_
        s.ask(ids(seed, 8), 4)  # what a first step makes is there
        t = s.ask(ids(seed + 1, a.prompt), a.tokens)
        one = (a.tokens - 1) / (t[2] - t[1])
        alone = a.tokens / (t[2] - t[0])
        sum_, wait = together(s, seed + 10)
        shared = ids(seed + 2, a.shared)
        t = s.ask(shared + ids(seed + 3, 16), 1)
        first = t[1] - t[0]
        t = s.ask(shared + ids(seed + 4, 16), 1)
        return {"one": one, "all": sum_, "gain": sum_ / alone, "wait": wait, "first": first, "again": t[1] - t[0]}
    finally:
        s.stop()


def main():
    rows = {"tenon": [], "llama-server": []}
    for r in range(a.rounds):
        for kind in sorted(rows, reverse=bool(r % 2)):
            rows[kind].append(measure(kind, r + 1))
            print(f"round {r + 1} {kind}: " + ", ".join(f"{k} {v:.3f}" for k, v in rows[kind][-1].items()), file=sys.stderr)
    mid = {k: {f: statistics.median(x[f] for x in v) for f in v[0]} for k, v in rows.items()}
    print(f"| server | one client, decode tokens/s | {a.clients} clients, tokens/s | to one | longest wait for a first token, s | "
          f"first token of {a.shared + 16}, s | of one that begins alike, s |\n|---|---|---|---|---|---|---|")
    for kind, m in mid.items():
        print(f"| {kind} | {m['one']:.1f} | {m['all']:.1f} | {m['gain']:.2f} | {m['wait']:.2f} | {m['first']:.2f} | {m['again']:.3f} |")
    if a.json:
        pathlib.Path(a.json).write_text(json.dumps(rows))


if __name__ == "__main__":
    main()
