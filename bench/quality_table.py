# SPDX-License-Identifier: Apache-2.0
"""The table of bench/quality.py table: every weight format, rounded and calibrated, and types of caches.

Each figure is what a command of Tenon prints. Rows are kept in WORK/results.json as they come, so that a stopped call goes on; one
of another model file or another build of the program begins anew.
"""
import datetime
import glob
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import textwrap
import time

import quality

CHARS, TOKENS = 1200, 320
# Formats that tenon quantize takes, and means of packed bits with the formats that they are made of.
GRIDS = ["lev4s", "lev4", "lev3", "lev2", "lev1", "w4g:32", "w4g:128", "w3g", "w2g", "w8g"]
MIXES = ["4.5", "4.25", "4.125", "4.0", "3.4", "3.125", "2.625", "2.125", "1.75"]
OF_MIXES = "lev1+lev2+lev3+lev4+lev4s+8:128"
CACHES = ["f16", "bf16", "int8", "int4"]
TURNS = 3
PAGE = os.path.join(quality.ROOT, "docs", "quality-table.md")
SHOWN = 5e-4  # of bits: what three digits hide
NEAR = 0.05  # of bits: a mix need not come nearer to what it may take
# Formats for codes that a model brings: they round no floats.
CODES = ["int8", "grid2", "grid4", "grid8"]
# What a goal says at its bits, on the demo model's first texts.
GOALS = [(4.5, .0118), (4.25, .0138), (4.125, .0158), (3.4, .050), (3.125, .064), (2.625, .136), (2.125, .280), (1.75, .57)]
HEADER = ("weights", "how", "bits, packed", "bits, file", "KL", "same first", "perplexity", "KL, second draw", "same first", "perplexity",
          "prefill 256", "decode 64")


def hash_of(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()[:16]


def hash_of_program(tenon):
    """Of the program and of the library beside it, where it has one."""
    libraries = sorted(glob.glob(os.path.join(os.path.dirname(tenon), "..", "libtenon.so*")))
    return " ".join(hash_of(p) for p in [tenon, *libraries[:1]])


class Table:
    """Rows of one language model."""

    def __init__(self, a, name, model, draws):
        self.a, self.name, self.model, self.draws, self.turns = a, name, model, draws, TURNS
        self.work = os.path.join(a.work, name)
        os.makedirs(self.work, exist_ok=True)
        self.env = quality.environment(a.plugins, os.path.join(self.work, "cache"))
        self.path = os.path.join(self.work, "results.json")
        stamp = [hash_of(os.path.join(model, "model.onnx")), hash_of_program(a.tenon)]
        try:
            self.kept = json.load(open(self.path, encoding="utf-8"))
        except (OSError, ValueError):
            self.kept = {}
        if self.kept.get("stamp") != stamp:
            shutil.rmtree(self.work)
            os.makedirs(self.work)
            self.kept = {"stamp": stamp, "answers": {}}
        for draw, (scored, recorded) in draws.items():
            for what, texts in (("scored", scored), ("recorded", recorded)):
                with open(self.file(f"{draw}-{what}.json"), "w", encoding="utf-8") as f:
                    json.dump(texts, f)

    def file(self, name):
        return os.path.join(self.work, name)

    def ask(self, *args, turn=0):
        """What the command prints as JSON, which is kept for each turn, or {"why": ...}. None: the time is up."""
        key = " ".join(args).replace(self.work, "WORK") + (f" #{turn}" if turn else "")
        if key in self.kept["answers"]:
            return self.kept["answers"][key]
        if time.time() > self.a.end:
            return None
        print(f"{self.name}: {key}", file=sys.stderr, flush=True)
        j, why = quality.run([self.a.tenon], [*args, "--threads", str(self.a.threads)], self.env)
        for big in ("nodes", "tensors"):
            (j or {}).pop(big, None)
        if not j:
            return {"why": why}
        self.kept["answers"][key] = j
        with open(self.path + ".half", "w", encoding="utf-8") as f:
            json.dump(self.kept, f, indent=1)
        os.replace(self.path + ".half", self.path)
        return j

    def profile(self, name, text):
        path = self.file(name.replace(":", "-") + ".yaml")
        with open(path, "w", encoding="utf-8") as f:
            f.write(text + "\n")
        return ["--profile", path]

    def score(self, model, draw, profile):
        more = ["--original", self.model] if model != self.model else []
        return self.ask("eval", model, "--text", self.file(draw + "-scored.json"), "--max-tokens", str(TOKENS), "--against", "host", *more,
                        *profile)

    def row(self, label, how, models, profile, packed=True):
        """models: a folder for each draw; None where it was not made."""
        r = {"weights": label, "how": how, "draws": {}}
        for draw in self.draws:
            got = self.score(models[draw], draw, profile) if models.get(draw) else None
            if got and "why" in got:
                r["why"] = got["why"]
            elif got:
                r["draws"][draw] = {k: got[k] for k in ("kl_divergence", "top1_agreement", "perplexity", "tokens")}
        first = models.get(next(iter(self.draws)))
        if not r["draws"] or not first:
            return r
        got = self.ask("pack", first, "--report", *profile) if packed else None
        if got and "total" in got:
            r["bits"] = got["total"]["bits_per_weight"]
        for turn in range(self.turns if not self.a.no_speed else 0):
            got = self.ask("bench", first, "-p", "256", "-n", "64", "-r", "5", *profile, turn=turn)
            for t in (got or {}).get("rows", []):
                what = "prefill" if t["test"].startswith("pp") else "decode"
                r[what] = max(r.get(what, 0), t["tokens_per_s"]["max"])
        return r

    def quantized(self, label, args):
        """The folder of each draw, and the file's bits where the command says them."""
        models, bits, why = {}, None, None
        for draw in self.draws:
            out = self.file(f"{label.replace(':', '-')}-{draw}")
            asked = ["quantize", self.model, "-o", out, "--text", self.file(draw + "-recorded.json"), *args]
            if not os.path.isdir(out):
                self.kept["answers"].pop(" ".join(asked).replace(self.work, "WORK"), None)
            got = self.ask(*asked)
            if got and "why" in got:
                why = got["why"]
            elif got:
                models[draw] = out
                bits = got.get("bits") if isinstance(got.get("bits"), float) else bits
        return models, bits, why

    def packed(self, models):
        """The most bits of the folders as the default device packs them."""
        got = [self.ask("pack", m, "--report") for m in models.values()]
        return max((g["total"]["bits_per_weight"] for g in got if g and "total" in g), default=None)

    def mixed(self, bits):
        """A budget counts what the file holds. The row is that of the most that packs to no more than `bits`: first the budget is
        lowered by what was too much, then it goes to the middle between one that fits and one that does not."""
        target, fits, best = float(bits), 0, None
        budget = above = target
        for _ in range(6):
            name = f"{budget:.4f}"
            args = ["--bits", name, "--weights", OF_MIXES]
            packed = self.packed(self.quantized(name, args)[0])
            best = best or (args, name)
            if packed is None:
                break
            if packed <= target + SHOWN:
                fits, best = budget, (args, name)
                if target - packed <= NEAR or budget == target:
                    break
            else:
                above = budget
            budget = (fits + above) / 2 if fits else budget - (packed - target) - 5e-5
        return self.calibrated(bits, *best)

    def calibrated(self, label, args, name=None):
        models, bits, why = self.quantized(name or label, args)
        r = self.row(label, "calibrated", models, []) if models else {"weights": label, "how": "calibrated", "draws": {}}
        if bits:
            r["file_bits"] = bits
        if why:
            r["why"] = why
        return r

    def device(self):
        got = self.ask("plugins", "--formats", "--profile", "default") or {}
        return next((p for p in got.get("plugins", []) if p.get("devices") and p.get("formats")), None)

    def rows(self):
        same = {d: self.model for d in self.draws}
        device, only = self.device(), self.a.only.split(",") if self.a.only else None
        out = []
        if not device:
            sys.exit("no device with weight formats: tenon plugins says why")
        formats = [g for f in device["formats"] if f["name"] not in CODES for g in ({"w4g": ["w4g:32", "w4g:128"]}.get(f["name"], [f["name"]]))]
        for c in CACHES if not only or "kv" in only else []:
            r = self.row("f32", f"caches in {c}", same, self.profile("kv-" + c, f"plugins: [host]\nkv: {c}"), packed=False)
            if any(d.get("kl_divergence") == 0 for d in r["draws"].values()):
                r["draws"], r["why"] = {}, "not taken: they stay in f32"
            out.append(r)
        for f in formats:
            if only and f not in only:
                continue
            name, _, group = f.partition(":")
            options = f"format: {name}" + (f", group: {group}" if group else "")
            profile = self.profile(f, f"plugins: [{{name: {device['name']}, options: {{{options}}}}}, host]")
            out.append(self.row(f, "rounded", same, profile))
        for f in GRIDS if not self.a.rounded else []:
            if f in formats and (not only or f in only):
                out.append(self.calibrated(f, ["--weights", f]))
        for b in MIXES if not self.a.rounded and "lev2" in formats else []:
            if not only or b in only:
                out.append(self.mixed(b))
        return [r for r in out if r["draws"] or "why" in r]


# --- what is written

def cell(v, text):
    return "-" if v is None else format(v, ".1e" if text == ".4f" and 0 < v < 1e-3 else text)


def cells(r, draws):
    out = [r["weights"], r["how"], cell(r.get("bits"), ".3f"), cell(r.get("file_bits"), ".3f")]
    for d in draws:
        s = r["draws"].get(d, {})
        top = s.get("top1_agreement")
        out += [cell(s.get("kl_divergence"), ".4f"), cell(top and 100 * top, ".2f"), cell(s.get("perplexity"), ".3f")]
    out += [cell(r.get("prefill"), ".0f"), cell(r.get("decode"), ".0f")]
    return out if r["draws"] else out[:2] + [r["why"]]


def markdown(header, rows):
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    return "\n".join(lines + ["| " + " | ".join(map(str, r + [""] * (len(header) - len(r)))) + " |" for r in rows]) + "\n"


def points(rows, draw):
    """Bits, KL and the row, of rows that are packed and were scored on this draw."""
    return [(r["bits"], r["draws"][draw]["kl_divergence"], r) for r in rows if r.get("bits") and draw in r["draws"]]


def best(ps, bits):
    """The point of the least loss that packs to no more than `bits`, as they are printed."""
    return min((p for p in ps if p[0] <= bits + SHOWN), key=lambda p: p[1], default=None)


def goals(rows, draws):
    """Each goal beside the best row that packs to no more than its bits, of the first draw; that row on the other draws."""
    out = []
    for bits, kl in GOALS:
        b = best(points(rows, draws[0]), bits)
        r = [bits, kl] + ([f"{b[2]['weights']}, {b[2]['how']}", f"{b[0]:.3f}", cell(b[2].get("file_bits"), ".3f")] if b else ["-"] * 3)
        for d in draws:
            got = b[2]["draws"].get(d) if b else None
            r += [f"{got['kl_divergence']:.4f}", judged(got["kl_divergence"], kl)] if got else ["-"] * 2
        out.append(r)
    more = [c for d in draws[1:] for c in (f"KL, {d} draw", "result")]
    return markdown(("bits", "goal, KL", "best row of so many packed bits", "bits, packed", "bits, file", "its KL", "result", *more), out)


def judged(kl, goal):
    return "met" if kl <= goal else f"{kl / goal:.2f} of it"


def peers_section(known, hows, header, body):
    return "\n\n".join(["### Peers", known["by"] + ".", *(textwrap.fill(how, 150) for how in hows), markdown(header, body)])


def peers_of_language(known, of, rows, draws):
    """Each peer's KL beside that of Tenon's best row of no more bits, by draw."""
    body = {}
    for i, d in enumerate(draws):
        for p in (of if d == "first" else of.get(d, {"rows": []}))["rows"]:
            r = body.setdefault(p["name"], [p["name"], cell(p["bits"], ".3f"), cell(p.get("packed"), ".3f")] + ["-"] * 3 * len(draws))
            b = best(points(rows, d), p["bits"])
            r[3 + 3 * i:6 + 3 * i] = [cell(p["kl"], ".4f")] + ([cell(b[1], ".4f"), f"{b[2]['weights']}, {b[2]['how']}"] if b else ["-"] * 2)
    header = [h if d == "first" else f"{h}, {d} draw" for d in draws for h in ("its KL", "Tenon's", "by")]
    hows = [of["how"], *(of[d]["how"] for d in draws if "how" in of.get(d, {}))]
    return peers_section(known, hows, ["peer", "bits", "bits, packed", *header], list(body.values()))


def peers_of_vectors(known, of, rows):
    """Each peer's cosines beside those of Tenon's best row of no more bits. rows: as embeddings() has them."""
    ours, body = [(float(r[2]), -float(r[3]), r) for r in rows if len(r) == 6 and r[2] != "-"], []
    for p in of["rows"]:
        b = best(ours, p["packed"])
        body.append([p["name"], f"{p['packed']:.3f}", f"{p['mean']:.5f}", f"{p['least']:.5f}", p["nearest"]] +
                    ([*b[2][3:], f"{b[2][0]}, {b[2][1]}"] if b else ["-"] * 4))
    return peers_section(known, [of["how"]], ("peer", "bits, packed", "its cosine, mean", "least", "the same nearest text", "Tenon's, mean", "least",
                                     "the same nearest text", "by"), body)


def embeddings(a):
    """all-MiniLM-L6-v2: cosine of vectors to those of f32, rounded and calibrated."""
    import embeddings as e
    e_args = type("Args", (), {"tenon": a.tenon, "plugins": a.plugins, "work": os.path.join(a.work, "minilm-vectors")})()
    os.makedirs(e_args.work, exist_ok=True)
    folder, kept = os.path.join(e_args.work, "minilm"), os.path.join(e_args.work, "rows.json")
    env = quality.environment(a.plugins, os.path.join(e_args.work, "cache"))
    if not os.path.exists(os.path.join(folder, "model.onnx")):
        shutil.rmtree(folder, ignore_errors=True)
        e.make(folder)
    text = os.path.join(a.data, e.TEXT)
    every = e.paragraphs(text, 400)
    scored, recorded = every[::2], every[1::2]
    with open(os.path.join(e_args.work, "recorded.json"), "w", encoding="utf-8") as f:
        json.dump(recorded, f)
    base, why = e.embed(e_args, folder, "host", scored, env)
    if why:
        return [["-", "-", why]]
    stamp = hash_of_program(a.tenon)
    try:
        rows = json.load(open(kept, encoding="utf-8"))
    except (OSError, ValueError):
        rows = {}
    if rows.get("stamp") != stamp:
        rows = {"stamp": stamp}
    for how in ("rounded",) if a.rounded else ("rounded", "calibrated"):
        for f in GRIDS:
            if f"{f} {how}" in rows or time.time() > a.end or (a.only and f not in a.only.split(",")):
                continue
            model, profile = folder, e.profile_of(e_args, f)
            if how == "calibrated":
                model, profile = os.path.join(e_args.work, f.replace(":", "-")), "default"
                shutil.rmtree(model, ignore_errors=True)
                _, why = quality.run([a.tenon], ["quantize", folder, "-o", model, "--text", os.path.join(e_args.work, "recorded.json"), "--weights",
                                                 f, "--threads", str(a.threads)], env)
                if why:
                    rows[f"{f} {how}"] = [f, how, why]
                    continue
            v, why = e.embed(e_args, model, profile, scored, env)
            j, _ = quality.run([a.tenon], ["pack", model, "--report", "--profile", profile], env)
            bits = f"{j['total']['bits_per_weight']:.3f}" if j else "-"
            c = (v * base).sum(1) if not why else None
            rows[f"{f} {how}"] = [f, how, bits, f"{c.mean():.5f}", f"{c.min():.5f}",
                                  f"{(e.nearest(v) == e.nearest(base)).sum()} of {len(scored)}"] if c is not None else [f, how, bits, why]
            with open(kept, "w", encoding="utf-8") as out:
                json.dump(rows, out, indent=1)
    return [r for k, r in rows.items() if k != "stamp"]


def charts(known, rows, draws, under):
    """KL over bits and over decode speed, as SVG."""
    import chart
    before, peers = {}, []
    with open(os.path.join(quality.HERE, "results", "2026-11-24-demo-quality.json"), encoding="utf-8") as f:
        before = json.load(f)["formats"]
    # Below 5 bits, those that no other one of as few bits betters: names want room.
    peers = [("peers", p["name"], p["bits"], p["kl"]) for p in known["rows"] if p["bits"] < 5 and not any(
        o["bits"] <= p["bits"] and o["kl"] < p["kl"] for o in known["rows"])]
    now, speed, old = [], [], []
    for r in rows:
        kl, bits = r["draws"].get(draws[0], {}).get("kl_divergence"), r.get("bits")
        if not kl or not bits or r["how"].startswith("caches"):
            continue
        if r["how"] == "rounded" and r["weights"] in GRIDS and bits < 5:
            old.append(("Tenon, rounded", r["weights"], bits, before.get(r["weights"], {"kl": kl})["kl"]))
        if r["how"] == "calibrated" and bits < 5:
            now.append(("Tenon, calibrated", r["weights"], bits, kl))
        if r.get("decode") and kl < 1.5:
            speed.append(("Tenon, calibrated" if r["how"] == "calibrated" else "Tenon, rounded", r["weights"], r["decode"], kl))
    colours = {"Tenon, rounded": "#8fb8d4", "Tenon, calibrated": "#1d5c85", "peers": "#b0853c"}
    out = {}
    if now or old:
        out["kl-bits.svg"] = chart.scatter(old + now + peers, colours, 1, "KL divergence over bits (down is closer to the f32 model)",
                                           f"models/demo. Peers: {known['by']}.", "bits a weight, packed bytes x 8 / weights")
    if speed:
        step = 10 ** (len(str(int(max(p[2] for p in speed)))) - 1)
        out["kl-decode.svg"] = chart.scatter(speed, {k: v for k, v in colours.items() if k != "peers"}, max(1, step // 2),
                                             "KL divergence over decode speed (right is faster, down is closer)", under,
                                             "decode of 64 tokens, tokens per second")
    return out


def take_speeds(rows, page):
    """Speeds of the page that is there, for rows that are not mixes (whose products may have changed), and their date."""
    try:
        with open(page, encoding="utf-8") as f:
            lines = f.read().splitlines()
    except OSError:
        return None
    last = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    known = {(c[0], c[1]): c[-2:] for c in last if len(c) in (9, 12)}
    for r in rows:
        for what, v in zip(("prefill", "decode"), known.get((r["weights"], r["how"]), ())):
            if r["weights"] not in MIXES and v.strip().isdigit():
                r[what] = float(v)
    dates = [d for line in lines for d in re.findall(r"(?:processors, |Speeds are of )(\d{4}-\d\d-\d\d)", line)]
    return dates[-1] if dates else None


def machine():
    cpu = next((s.split(":", 1)[1].strip() for s in open("/proc/cpuinfo", encoding="utf-8") if s.startswith("model name")), "?")
    return f"{cpu}, {os.cpu_count()} processors, {datetime.date.today()}"


def draws_of(texts, n, cut):
    """Two draws: what is scored, what is calibrated on; no text is on both sides of one."""
    def short(ts):
        return [t[:cut] for t in ts]
    return {"first": (short(texts[:n]), texts[n + n // 3:]), "second": (short(texts[n + n // 3:]), texts[:n + n // 3])}


def make(a):
    a.end = time.time() + 60 * a.minutes if a.minutes else float("inf")
    a.data = a.data or os.path.join(quality.ROOT, "..", "shared", "data")
    a.peers = a.peers or os.path.join(quality.HERE, "results", "2026-11-29-ik-quality.json")
    with open(a.peers, encoding="utf-8") as f:
        known = json.load(f)
    texts = {"demo": (os.path.join(quality.ROOT, "models", "demo"), os.path.join(quality.ROOT, "models", "train", "valid.json"), 30),
             "stories260k": (os.path.join(a.data, "lm", "stories260k-onnx"), os.path.join(a.data, "text", "tinystories_30.json"), 12)}
    page, pictures, speeds = [], {}, datetime.date.today()
    for name in a.models.split(","):
        if name == "minilm":
            rows = embeddings(a)
            page.append("## all-MiniLM-L6-v2\n\nCosines of 200 paragraphs of WikiText-2 to the vectors of f32; calibrated on 200 others.\n\n" + markdown(
                ("weights", "how", "bits, packed", "cosine, mean", "least", "the same nearest text"), rows))
            if name in known:
                page.append(peers_of_vectors(known, known[name], rows))
            continue
        model, path, n = texts[name]
        if not os.path.exists(model) or not os.path.exists(path):
            print(f"{name}: not here, or {path} is not", file=sys.stderr)
            continue
        draws = draws_of(json.load(open(path, encoding="utf-8")), n, CHARS)
        draws = {d: draws[d] for d in a.draws.split(",")}
        table = Table(a, name, model, draws)
        # The first draw of all rows, speeds of all rows in turns, the other draws: what --minutes cuts off is the last.
        table.draws = {d: draws[d] for d in list(draws)[:1]}
        for table.turns in range(1, TURNS + 1):
            table.rows()
        table.draws = draws
        rows = table.rows()
        tokens = [next((r["draws"][d]["tokens"] for r in rows if d in r["draws"]), 0) for d in draws]
        header = HEADER[:4] + HEADER[4:4 + 3 * len(draws)] + HEADER[10:]
        if name == "demo":
            pictures = charts(known, rows, list(draws), f"models/demo, {tokens[0]} tokens, {machine()}.")
            speeds = take_speeds(rows, PAGE) if a.no_speed else speeds
        page.append(f"## {name}\n\n{' and '.join(str(t) for t in tokens if t)} tokens are scored.\n\n" + markdown(header, [cells(r, draws) for r in rows]))
        if name == "demo":
            page.append("### Goals\n\n" + (GOALS_ARE if len(draws) > 1 else "") + goals(rows, list(draws)))
        if name == "demo" or name in known:
            page.append(peers_of_language(known, known if name == "demo" else known[name], rows, draws))
    text = "\n".join(page)
    print(text)
    for folder in [a.work] + ([os.path.join(quality.ROOT, "docs", "pictures")] if a.write else []):
        for name, svg in pictures.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as f:
                f.write(svg)
    if a.write:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(INTRO.format(machine=machine(), command=a.command, mixes=OF_MIXES, turns=TURNS, runs=5 * TURNS, speeds=speeds) + text)
    return 0 if time.time() <= a.end else 3


GOALS_ARE = """Goals are of the first draw. The second has other texts, which calibrated formats lose more on, peers' too, and a fifth less text
to calibrate on.

"""

INTRO = """# Quality of every weight format

Made by `{command}`. {machine}.

Each text is cut at 1,200 characters and 320 tokens. KL is the divergence from the model in f32, per token, by
`tenon eval --against host`: rounding of activations is in it. The second draw scores other texts and calibrates on other ones.
Bits are packed bytes x 8 / weights, scales and padding included; those of the file are what `quantize` says where a budget chose.
KL of `rounded` rows in the first chart is that of 2026-11-24 where the format was there; peers are the best of their width.
Rows and figures that are missing were not run. Mixed rows are of {mixes}. They are named by their packed bits:
the budget, which counts the file, is lowered until what is packed takes no more. Small models pad much, so that it may end lower.
Speeds are tokens per second of this small model, which lies in the caches of the processor: [speed](speed.md) has those of large ones.
They are the fastest of {runs} runs, in {turns} rounds over all rows, by `tenon bench`; other work on the machine shows in them.
Speeds are of {speeds}. A call with --no-speed leaves those that the page had, but for mixed rows, and the second chart.

![KL divergence over bits](pictures/kl-bits.svg)

![KL divergence over decode speed](pictures/kl-decode.svg)

"""
