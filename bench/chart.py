#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Speed beside quality: how fast each weight format decodes, and how far it is from the model's own weights.

  bench/chart.py quality TENON -o QUALITY.json [--texts N] [--chars N]
  bench/chart.py draw SPEED.json QUALITY.json -o PICTURE.svg

quality: KL divergence per token of models/demo from its f32 weights, on the first N held-out texts (models/train/valid.json), each
cut at so many characters, by `tenon eval --against host`; one entry a format of cpu-avx2-lut. Peers that the file already holds
under "peers" are kept.
draw: SPEED.json is a result of bench/speed.py. A point is a format of both files: decode speed there, KL here.
"""
import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile

import quality

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FORMATS = {"w8g": "format: w8g", "w4g:32": "format: w4g, group: 32", "w4g:128": "format: w4g, group: 128", "pal16": "format: pal16",
           "w3g": "format: w3g", "w2g": "format: w2g", "tern20": "format: tern20", "tern17": "format: tern17"}
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 760, 430, 78, 24, 64, 58


def measure(a):
    with open(os.path.join(ROOT, "models", "train", "valid.json"), encoding="utf-8") as f:
        texts = [t[:a.chars] for t in json.load(f)[:a.texts]]
    try:
        with open(a.out, encoding="utf-8") as f:
            peers = json.load(f).get("peers", {})
    except (OSError, ValueError):
        peers = {}
    tenon = os.path.abspath(a.tenon)
    out = {"model": "models/demo", "texts": a.texts, "chars": a.chars, "formats": {}, "peers": peers}
    with tempfile.TemporaryDirectory() as work:
        text = os.path.join(work, "texts.json")
        with open(text, "w", encoding="utf-8") as f:
            json.dump(texts, f)
        env = quality.environment(os.path.join(os.path.dirname(tenon), "..", "..", "plugins"), os.path.join(work, "cache"))
        for name, options in FORMATS.items():
            profile = os.path.join(work, "profile.yaml")
            with open(profile, "w", encoding="utf-8") as f:
                f.write(f"plugins: [{{name: cpu-avx2-lut, options: {{{options}}}}}, host]\n")
            cmd = ["eval", os.path.join(ROOT, "models", "demo"), "--text", text, "--against", "host", "--profile", profile]
            got, why = quality.run([tenon], cmd, env)
            if not got:
                sys.exit(f"{name}: {why}")
            out["formats"][name] = {"kl": got["kl_divergence"], "perplexity": got["perplexity"], "top1": got["top1_agreement"]}
            out["tokens"] = got["tokens"]
            print(f"{name}: KL {got['kl_divergence']:.4f}, perplexity {got['perplexity']:.2f}", flush=True)
    with open(a.out, "w", encoding="utf-8") as f:
        json.dump(out, f, indent=1)
        f.write("\n")


def points(speed, kl):
    """(tenon or not, label, tokens per second, KL)"""
    out = []
    for c in speed["contenders"]:
        tenon = c["kind"] == "tenon"
        known = kl["formats"].get(c["name"]) if tenon else next((v for k, v in kl["peers"].items() if k in c["label"]), None)
        rates = [v for s in c["samples"] for t, v in s["tokens_per_s"].items() if t.startswith("tg") and t.endswith("@0")]
        if known and rates:
            label = c["name"] if tenon else next(k for k in kl["peers"] if k in c["label"])
            out.append((tenon, label, c["bits"], statistics.median(rates), known["kl"]))
    return out


class Axes:
    """Linear to the right, in steps, from 0; logarithmic upwards; better is down."""

    def __init__(self, ps, step):
        self.step = step
        self.most = math.ceil(max(p[2] for p in ps) / step) * step
        self.low = math.floor(math.log10(min(p[3] for p in ps)) * 2) / 2
        self.high = math.ceil(math.log10(max(p[3] for p in ps)) * 2 + 0.2) / 2

    def x(self, v):
        return LEFT + (WIDTH - LEFT - RIGHT) * v / self.most

    def y(self, v):
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - math.log10(v)) / (self.high - self.low)

    def lines(self):
        out = []
        for v in range(0, self.most + 1, self.step):
            out.append(f'<path d="M{self.x(v):.1f} {TOP}V{HEIGHT - BOTTOM}" stroke="#e3e6ea"/>'
                       f'<text x="{self.x(v):.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{v}</text>')
        for v in (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3):
            if self.low <= math.log10(v) <= self.high:
                out.append(f'<path d="M{LEFT} {self.y(v):.1f}H{WIDTH - RIGHT}" stroke="#e3e6ea"/>'
                           f'<text x="{LEFT - 8}" y="{self.y(v) + 4:.1f}" text-anchor="end">{v}</text>')
        return out


def labels(axes, ps):
    """(x, y, anchor) of each point's label: right of it, left where there is no room, away from labels that are there."""
    taken, out = [(axes.x(p[2]) - 6, axes.y(p[3]) + 4, 12) for p in ps], []
    for _, label, rate, d in ps:
        width = 7 * len(label)
        left = axes.x(rate) + 9 + width > WIDTH - RIGHT
        x0 = axes.x(rate) - 9 - width if left else axes.x(rate) + 9
        y = axes.y(d) + 4
        for step in (0, -15, 15, -30, 30):
            if all(abs(y + step - ty) > 12 or x0 > tx + tw or x0 + width < tx for tx, ty, tw in taken):
                y += step
                break
        taken.append((x0, y, width))
        out.append((axes.x(rate) + (-9 if left else 9), y, "end" if left else "start"))
    return out


def scatter(ps, groups, step, title, under, across):
    """A picture of points (group, label, x, KL); groups: name to colour, in the order of the key."""
    axes = Axes(ps, step)
    out = axes.lines()
    for (group, label, v, d), (x, y, anchor) in zip(ps, labels(axes, ps)):
        colour = groups[group]
        out.append(f'<circle cx="{axes.x(v):.1f}" cy="{axes.y(d):.1f}" r="5" fill="{colour}"/>'
                   f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{label}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    key, at = "", WIDTH - RIGHT
    for group, colour in reversed(groups.items()):
        at -= 8 * len(group) + 24
        key = (f'<circle cx="{at}" cy="{TOP + 12}" r="5" fill="{colour}"/><text x="{at + 10}" '
               f'y="{TOP + 16}">{group}</text>') + key
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
            f'font-size="13"><title>{title}</title><rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>'
            f'<text x="{LEFT}" y="24" font-weight="bold">{title}</text><text x="{LEFT}" y="44" font-size="12" fill="#59636e">{under}</text>'
            + key + "".join(out) + f'<text x="{(LEFT + WIDTH) / 2:.0f}" y="{HEIGHT - 14}" text-anchor="middle">{across}</text>'
            f'<text x="20" y="{middle:.0f}" text-anchor="middle" transform="rotate(-90 20 {middle:.0f})">KL divergence per token, nats</text></svg>\n')


def picture(speed, kl):
    ps = [("Tenon" if tenon else "ik_llama.cpp", f"{label}, {bits:.3g} bits", rate, d) for tenon, label, bits, rate, d in points(speed, kl)]
    if not ps:
        sys.exit("the two files have no format in common")
    under = f"Speed: {speed['model'].split(',')[0]}, {speed['threads']} threads, {speed['machine']['cpu']}, {speed['date']}. KL: {kl['model']}, {kl['tokens']} tokens."
    return scatter(ps, {"Tenon": "#2a6f97", "ik_llama.cpp": "#8a929b"}, 20,
                   "Decode speed and what it costs (right is faster, down is closer to the f32 model)", under, "decode, tokens per second")


def draw(a):
    files = []
    for path in (a.speed, a.kl):
        try:
            with open(path, encoding="utf-8") as f:
                files.append(json.load(f))
        except (OSError, ValueError) as e:
            sys.exit(f"{path}: {e}")
    with open(a.out, "w", encoding="utf-8") as f:
        f.write(picture(*files))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="command", required=True)
    q = sub.add_parser("quality")
    q.add_argument("tenon")
    q.add_argument("-o", "--out", required=True)
    q.add_argument("--texts", type=int, default=30)
    q.add_argument("--chars", type=int, default=1200)
    d = sub.add_parser("draw")
    d.add_argument("speed")
    d.add_argument("kl")
    d.add_argument("-o", "--out", required=True)
    a = p.parse_args()
    return measure(a) if a.command == "quality" else draw(a)


if __name__ == "__main__":
    sys.exit(main())
