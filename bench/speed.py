#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Language models' speed by weight format beside peers, with the formats' quality; and the page that shows it.

  bench/speed.py measure TENON --model MODEL --out FILE.json [--formats w4g:32,w2g,...] [--peer NAME,BITS,CMD]...
                 [-p 512] [-n 64] [-d 0,1900] [--rounds 5] [--threads 2] [--isa avx2] [--kv f16] [--plugins DIR] [--data DIR]
                 [--packed] [--add] [--no-quality]
  bench/speed.py report FILE.json... [--page docs/speed.md] [--picture docs/pictures/speed.svg]

measure: every format and every peer once per round, in turns; before each, memory is read for as long as a step or two takes
on all threads, so that each sample knows the bandwidth of its moment. Every contender warms up in its process before it is timed. A peer is any
command that `tenon bench --peer` takes, with the bits that its weights have, and t behind them where they are ternary (2.06t). FILE.json is written after every round. Perplexity of models/demo (held-out
texts) and stories260k (--data, default ../shared/data) is computed with each format before the first round. A round that does not count
comes first, in which weights are packed and files come into the page cache; --packed: a run before this one did that (--cache). --add: rounds
are added to those in FILE.json, of the same contenders on the same machine.
report: writes the page and the picture from what was measured; the newest file comes first. Needs numpy (measure).
"""
import argparse
import concurrent.futures
import datetime
import json
import math
import os
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

import quality

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FORMATS = "w8g,w4g:32,w4g:128,pal16,lut4,w3g,lut3,w2g,lut2,tern20,tern17,lutt,w1g,lut1"
READ_BYTES = 128 << 20


# --- measuring

def profile_of(fmt, tmp, isa="auto", kv="f32"):
    name, _, group = fmt.partition(":")
    path = os.path.join(tmp, fmt.replace(":", "-") + ".yaml")
    options = f"format: {name}, isa: {isa}" + (f", group: {group}" if group else "")
    with open(path, "w", encoding="utf-8") as f:
        f.write(f"plugins:\n  - name: cpu-avx2-lut\n    options: {{{options}}}\n  - host\nrequire: [cpu-avx2-lut]\nkv: {kv}\n")
    return path


class Memory:
    """Reads arrays that no cache holds, one on each thread."""

    def __init__(self, threads):
        import numpy as np
        self.reduce = np.bitwise_xor.reduce
        self.arrays = [np.ones(READ_BYTES // 8, np.uint64) for _ in range(threads)]
        self.pool = concurrent.futures.ThreadPoolExecutor(threads)

    def read(self):
        """GB/s of all threads together: the best of three."""
        best = 0
        for _ in range(3):
            t = time.perf_counter()
            list(self.pool.map(self.reduce, self.arrays))
            best = max(best, READ_BYTES * len(self.arrays) / (time.perf_counter() - t) / 1e9)
        return best


def bits_of(tenon, env):
    j, why = quality.run([tenon], ["plugins"], env)
    if not j:
        sys.exit(f"tenon plugins: {why}")
    return {f["name"]: f["bits_per_weight"] for p in j["plugins"] for f in p["formats"]}


def perplexities(a, fmt, tmp, env):
    """Change of perplexity against f32 in percent, by model."""
    data, out = a.data or os.path.join(ROOT, "..", "shared", "data"), {}
    for name, model, text in (("demo", os.path.join(ROOT, "models", "demo"), "lm/demo-lm/train/valid.json"),
                              ("stories260k", os.path.join(data, "lm", "stories260k-onnx"), "text/tinystories_30.json")):
        text = os.path.join(data, text)
        if not os.path.exists(model) or not os.path.exists(text):
            continue
        scored = os.path.join(tmp, name + ".json")
        json.dump(quality.texts_of(text, 12)[0], open(scored, "w", encoding="utf-8"))
        nll = []
        for p in ("host", profile_of(fmt, tmp, a.isa, a.kv)):
            j, why = quality.run([a.tenon], ["eval", model, "--text", scored, "--max-tokens", "256", "--profile", p], env)
            if not j:
                sys.exit(f"{fmt} on {name}: {why}")
            nll.append(j["mean_nll"])
        out[name] = 100 * (math.exp(nll[1] - nll[0]) - 1)
    return out


def tests_of(command, env):
    r = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
    try:
        return json.loads(r.stdout)
    except ValueError:
        sys.exit(f"{' '.join(command)}: {(r.stderr.strip().splitlines() or ['no output'])[-1]}")


def sample(a, c, tmp, env):
    """Tokens per second of one contender, by test; a peer's command runs as `tenon bench --peer` runs it."""
    depths = a.d.split(",")
    if c["kind"] == "tenon":
        j = tests_of([a.tenon, "bench", a.model, "--profile", profile_of(c["name"], tmp, a.isa, a.kv), "--threads", str(a.threads), "-p", str(a.p),
                      "-n", str(a.n), "-d", a.d, "-r", "1", "--format", "json"], env)
        return {f"{r['test'].split()[0]}@{r['depth']}": r["tokens_per_s"]["median"] for r in j["rows"]}
    out = {}
    for depth in depths:
        for p, n in ((a.p, 0), (0, a.n)):
            behind = ["-d", depth] if depth != "0" else []  # not every llama-bench has it
            j = tests_of([*c["command"], "-p", str(p), "-n", str(n), *behind, "-r", "1", "-o", "json"], dict(os.environ))
            out[f"{'pp' if p else 'tg'}{p or n}@{depth}"] = j[0]["avg_ts"]
            c["label"] = j[0]["model_type"]
    return out


def contenders(a, env):
    bits, out = bits_of(a.tenon, env), []
    for f in a.formats.split(","):
        b = 4.125 if f == "w4g:128" else bits.get(f.partition(":")[0])
        if b is None:
            sys.exit(f"no plugin has format '{f}'; there are {', '.join(sorted(bits))}")
        out.append({"kind": "tenon", "name": f, "label": f, "bits": b, "ternary": f.startswith(("tern", "lutt")), "samples": []})
    for p in a.peer:
        name, b, command = p.split(",", 2)
        out.append({"kind": "peer", "name": name, "label": name, "bits": float(b.rstrip("t")), "ternary": b.endswith("t"),
                    "command": shlex.split(command), "samples": []})
    return out


def earlier(a, all_):
    """Rounds that FILE.json has; their samples and qualities go to the contenders."""
    try:
        old = json.load(open(a.out, encoding="utf-8"))
        by_name = {c["name"]: c for c in old["contenders"]}
        if sorted(by_name) != sorted(c["name"] for c in all_) or (old["threads"], old["isa"], old["kv"]) != (a.threads, a.isa, a.kv):
            sys.exit(f"{a.out}: not of these contenders, threads, isa and kv")
        for c in all_:
            c.update({k: by_name[c["name"]][k] for k in ("samples", "label", "perplexity_change") if k in by_name[c["name"]]})
        return old["rounds"]
    except (OSError, ValueError, LookupError, TypeError) as e:
        sys.exit(f"{a.out}: nothing to add to: {e}")


def measure(a):
    memory = Memory(a.threads)
    with tempfile.TemporaryDirectory() as tmp:
        env = quality.environment(a.plugins or os.path.join(os.path.dirname(a.tenon), "..", "..", "plugins"),
                                  a.cache or os.path.join(tmp, "cache"))
        all_ = contenders(a, env)
        before = earlier(a, all_) if a.add else 0
        for c in all_:
            if c["kind"] == "tenon" and "perplexity_change" not in c:
                c["perplexity_change"] = {} if a.no_quality else perplexities(a, c["name"], tmp, env)
                print(f"{c['name']}: perplexity {c['perplexity_change']}", file=sys.stderr)
        machine = tests_of([a.tenon, "bench", a.model, "--profile", profile_of(all_[0]["name"], tmp, a.isa, a.kv), "-p", "1", "-n", "1",
                            "-r", "1", "--no-warmup", "--format", "json"], env)["machine"]
        for r in range(1 if a.packed else 0, a.rounds + 1):
            for c in all_:
                gb = memory.read()
                s = sample(a, c, tmp, env)
                print(f"round {r}, {gb:.1f} GB/s, {c['name']}: {s}", file=sys.stderr, flush=True)
                if r:
                    c["samples"].append({"read_gb_per_s": gb, "tokens_per_s": s})
            if not r:
                continue
            with open(a.out, "w", encoding="utf-8") as f:
                json.dump({"date": datetime.date.today().isoformat(), "machine": machine, "model": a.title or
                           os.path.basename(os.path.normpath(a.model)), "threads": a.threads, "isa": a.isa, "kv": a.kv,
                           "rounds": before + r, "contenders": all_}, f, indent=1)
                f.write("\n")
    return 0


# --- the page

def spread(values):
    m = statistics.median(values)
    digits = 1 if m < 100 else 0
    return f"{m:.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})" if len(values) > 1 else f"{m:.{digits}f}"


def values(c, test):
    return [s["tokens_per_s"][test] for s in c["samples"] if test in s["tokens_per_s"]]


def windows(result):
    """A bound between slow and fast moments of memory, or None where there was one kind only."""
    gb = sorted(s["read_gb_per_s"] for c in result["contenders"] for s in c["samples"])
    low, high = statistics.median(gb[:len(gb) // 2 or 1]), statistics.median(gb[len(gb) // 2:])
    return (low * high) ** .5 if high > 1.25 * low else None


def alike(c, p):
    """Both ternary, or neither and about as many bits."""
    if c.get("ternary") or p.get("ternary"):
        return bool(c.get("ternary") and p.get("ternary"))
    return round(p["bits"] - .2) == round(c["bits"] - .2)


def ratio(result, c, test):
    """This format's median by that of the best peer with such weights."""
    peers = [statistics.median(values(p, test)) for p in result["contenders"] if p["kind"] == "peer" and alike(c, p) and values(p, test)]
    return f"{statistics.median(values(c, test)) / max(peers):.2f}" if peers and values(c, test) else "–"


def table(result):
    tests = list(dict.fromkeys(t for c in result["contenders"] for s in c["samples"] for t in s["tokens_per_s"]))
    bound = windows(result)
    rows = [["", "bits"] + [t.replace("@0", "").replace("@", " behind ") for t in tests] +
            ([f"{t.replace('@0', '').replace('@', ' behind ')}, slow / fast" for t in tests if t.startswith("tg")] if bound else []) +
            ["by the best peer: " + t.replace("@0", "").replace("@", " behind ") for t in tests] + ["perplexity"]]
    for c in sorted(result["contenders"], key=lambda c: (-c["bits"], c["kind"] == "peer")):
        row = [("Tenon, " if c["kind"] == "tenon" else "") + c["label"], f"{c['bits']:.3g}"]
        row += [spread(values(c, t)) if values(c, t) else "–" for t in tests]
        for t in tests if bound else []:
            if t.startswith("tg"):
                parts = [[s["tokens_per_s"][t] for s in c["samples"] if (s["read_gb_per_s"] > bound) == fast and t in s["tokens_per_s"]]
                         for fast in (False, True)]
                row.append(" / ".join(f"{statistics.median(p):.1f}" if p else "–" for p in parts))
        row += [ratio(result, c, t) if c["kind"] == "tenon" else "" for t in tests]
        q = c.get("perplexity_change")
        row.append("not measured" if not q else ", ".join(f"{k} {v:+.2f} %" for k, v in q.items()))
        rows.append(row)
    lines = ["| " + " | ".join(r) + " |" for r in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0])] + lines[1:])


def page(results, picture):
    out = ["# Speed of language models by weight format", "",
           "Written by `bench/speed.py report` from `bench/results`; do not edit. Tokens per second, medians (least to most). Every line's",
           "perplexity is its change against f32 weights on the demo model and on stories260k; peers' weights are random, their quality is not",
           "measured. Peers are compared at about the same bits per weight, ternary ones with ternary ones.", "", f"![speed]({picture})", ""]
    for r in results:
        gb = [s["read_gb_per_s"] for c in r["contenders"] for s in c["samples"]]
        m = r["machine"]
        out += [f"## {r['model']}, {m['cpu']}, {r['date']}",
                f"{r['threads']} threads of {m['processors']} processors, {r['rounds']} round{'s' * (r['rounds'] > 1)} in turns; memory was read at {min(gb):.1f} to {max(gb):.1f} GB/s "
                f"(median {statistics.median(gb):.1f}). Tenon: isa {r.get('isa', 'auto')}, caches {r.get('kv', 'f32')}.", "", table(r), ""]
    return "\n".join(out)


def svg(result):
    """Bars of the newest result: decoding and prefill, formats and peers from many bits to few."""
    tests = list(dict.fromkeys(t for c in result["contenders"] for s in c["samples"] for t in s["tokens_per_s"]))
    shown = [next(t for t in tests if t.startswith(k)) for k in ("pp", "tg") if any(t.startswith(k) for t in tests)]
    cs = sorted(result["contenders"], key=lambda c: (-c["bits"], c["kind"] == "peer"))
    height, out = 22 * len(cs) + 50, []
    for i, t in enumerate(shown):
        x0, top = 230 + i * 340, max([statistics.median(values(c, t)) for c in cs if values(c, t)] or [1])
        out.append(f'<text x="{x0}" y="24" font-weight="bold">{t.replace("@0", "")}, tokens per second</text>')
        for j, c in enumerate(cs):
            if not values(c, t):
                continue
            v, y = statistics.median(values(c, t)), 38 + 22 * j
            out.append(f'<rect x="{x0}" y="{y}" width="{240 * v / top:.1f}" height="16" fill="{"#2a6f97" if c["kind"] == "tenon" else "#b0b7bf"}"/>')
            out.append(f'<text x="{x0 + 240 * v / top + 5:.1f}" y="{y + 13}">{v:.{1 if v < 100 else 0}f}</text>')
    names = [f'<text x="222" y="{51 + 22 * j}" text-anchor="end">{("Tenon " + c["label"] if c["kind"] == "tenon" else c["label"])[:34]}</text>'
             for j, c in enumerate(cs)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="920" height="{height}" font-family="sans-serif" font-size="12">'
            f'<rect width="920" height="{height}" fill="white"/>' + "".join(names + out) + "</svg>\n")


def report(a):
    results = []
    for path in a.files:
        try:
            results.append(json.load(open(path, encoding="utf-8")))
            results[-1]["contenders"][0]["samples"][0]
        except (OSError, ValueError, LookupError, TypeError) as e:
            sys.exit(f"{path}: no result of 'speed.py measure': {e}")
    results.sort(key=lambda r: r["date"], reverse=True)
    with open(a.picture, "w", encoding="utf-8") as f:
        f.write(svg(results[0]))
    with open(a.page, "w", encoding="utf-8") as f:
        f.write(page(results, os.path.relpath(a.picture, os.path.dirname(a.page) or ".")))
    return 0


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    m = sub.add_parser("measure")
    m.add_argument("tenon", type=os.path.abspath)
    m.add_argument("--model", required=True)
    m.add_argument("--out", required=True)
    m.add_argument("--title", help="the model's name on the page")
    m.add_argument("--formats", default=FORMATS)
    m.add_argument("--peer", action="append", default=[], metavar="NAME,BITS,CMD")
    m.add_argument("-p", type=int, default=512)
    m.add_argument("-n", type=int, default=64)
    m.add_argument("-d", default="0,1900")
    m.add_argument("--rounds", type=int, default=5)
    m.add_argument("--threads", type=int, default=2)
    m.add_argument("--isa", default="auto", help="instructions that kernels of cpu-avx2-lut may use")
    m.add_argument("--kv", default="f32", help="what caches are kept as; llama.cpp's are f16, OpenVINO's u8")
    m.add_argument("--plugins")
    m.add_argument("--data")
    m.add_argument("--cache", help="folder that keeps packed weights from run to run")
    m.add_argument("--packed", action="store_true", help="every format is packed in --cache")
    m.add_argument("--add", action="store_true", help="to what --out has")
    m.add_argument("--no-quality", action="store_true")
    r = sub.add_parser("report")
    r.add_argument("files", nargs="+")
    r.add_argument("--page", default=os.path.join(ROOT, "docs", "speed.md"))
    r.add_argument("--picture", default=os.path.join(ROOT, "docs", "pictures", "speed.svg"))
    a = p.parse_args()
    return measure(a) if a.command == "measure" else report(a)


if __name__ == "__main__":
    sys.exit(main())
