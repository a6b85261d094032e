#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The sampler token by token against one written in numpy from the papers' definitions.

  check_sampler.py SAMPLER-CLI [--count N]

Both draw with PCG32, so the ids must be equal; a draw within 1e-6 of the edge of a token's share ends that case.
"""
import argparse, json, random, subprocess, sys

import numpy as np

M64 = (1 << 64) - 1


class Pcg:
    def __init__(self, seed):
        self.state = 0
        self.next32()
        self.state = (self.state + seed) & M64
        self.next32()

    def next32(self):
        old = self.state
        self.state = (old * 6364136223846793005 + 1442695040888963407) & M64
        x, r = (((old >> 18) ^ old) >> 27) & 0xFFFFFFFF, old >> 59
        return (x >> r | x << (-r & 31)) & 0xFFFFFFFF

    def uniform(self):
        hi = self.next32()
        return (hi << 32 | self.next32()) / 2**64


class Unclear(Exception):
    pass


def dry_penalties(d, ids):
    """As its author defines it: text-generation-webui, pull request 5677."""
    out = {}
    if d["last"]:
        ids = ids[-d["last"]:]
    breaks = set(d["breaks"])
    if len(ids) < 2 or ids[-1] in breaks:
        return out
    for i in range(len(ids) - 1):
        if ids[i] != ids[-1] or ids[i + 1] in breaks:
            continue
        n = 1
        while i - n >= 0 and ids[i - n] == ids[-1 - n] and ids[-1 - n] not in breaks:
            n += 1
        if n >= d["length"]:
            out[ids[i + 1]] = max(out.get(ids[i + 1], 0), d["amount"] * d["base"] ** (n - d["length"]))
    return out


def near(a, b, what):
    if abs(a - b) < 1e-6 * max(1, abs(b)):
        raise Unclear(what)


class Sampler:
    def __init__(self, p):
        self.p, self.rng, self.seen, self.counts = p, Pcg(int(p.get("seed", 0))), set(), {}
        self.mu = 2 * p.get("tau", 0)

    def pick(self, logits, dry):
        p = self.p
        l = np.array(logits, dtype=np.float32).astype(np.float64)
        for i in self.seen:
            l[i] = l[i] / p.get("repeat", 1) if l[i] > 0 else l[i] * p.get("repeat", 1)
        for i, n in self.counts.items():
            l[i] -= n * p.get("frequency", 0) + p.get("presence", 0)
        for i, a in dry.items():
            l[i] -= a
        best = max(range(len(l)), key=lambda i: (l[i], -i))
        if p.get("temperature", 1) == 0:
            second = np.sort(l)[-2]
            near(second, l[best], "greedy")
            return best
        w = np.exp((l - l.max()) / p.get("temperature", 1))
        if p.get("tau", 0) > 0:
            return self.mirostat(w, best)
        order = sorted(range(len(l)), key=lambda i: (-l[i], i))
        if p.get("top_k", 0):
            order = order[:int(p["top_k"])]
        if 0 < p.get("typical_p", 0) < 1:
            prob = w[order] / w[order].sum()
            surprise = -np.log(prob)
            off = np.abs(surprise - (prob * surprise).sum())
            rank = sorted(range(len(order)), key=lambda i: off[i])
            kept, total = [], 0.0
            for i in rank:
                if total >= p["typical_p"]:
                    near(off[i], off[kept[-1]], "typical-p's edge")
                    break
                kept.append(i)
                total += prob[i]
                near(total, p["typical_p"], "typical-p")
            order = [order[i] for i in sorted(kept)]
        if p.get("top_p", 1) < 1:
            total, kept = 0.0, []
            for i in order:
                if total >= p["top_p"] * w[order].sum():
                    break
                kept.append(i)
                total += w[i]
                near(total / w[order].sum(), p["top_p"], "top-p")
            order = kept
        measure = w[order[0]] if 0 < p.get("typical_p", 0) < 1 else 1.0
        if p.get("min_p", 0) > 0:
            for i in order:
                near(w[i] / measure, p["min_p"], "min-p")
            order = [i for i in order if w[i] / measure >= p["min_p"]]
        return self.draw(order, w, 0 < p.get("top_k", 0) < len(w) or p.get("top_p", 1) < 1 or 0 < p.get("typical_p", 0) < 1)

    def draw(self, order, w, is_sorted):
        if not is_sorted:
            order = sorted(order, reverse=True)
        at, total = self.rng.uniform() * w[order].sum(), 0.0
        for i in order:
            total += w[i]
            near(at / w[order].sum(), total / w[order].sum(), "draw")
            if at < total:
                return i
        return order[-1]

    def mirostat(self, w, best):
        surprise = -np.log2(w / w.sum())
        for i, s in enumerate(surprise):
            near(s, self.mu, "mirostat")
        order = [i for i in reversed(range(len(w))) if surprise[i] <= self.mu or i == best]
        i = self.draw(order, w, True)
        self.mu -= (self.p.get("eta", 0) or 0.1) * (-np.log2(w[i] / w[order].sum()) - self.p["tau"])
        return i


def random_case(rng):
    vocab = rng.choice([5, 40, 300])
    p = {"seed": rng.randrange(1000), "temperature": rng.choice([0, 0.5, 1, 1, 1.7])}
    for key, values in (("top_k", [3, 20]), ("top_p", [0.3, 0.9]), ("min_p", [0.02, 0.2]), ("typical_p", [0.2, 0.6, 0.95]),
                        ("repeat", [1.3, 0.8]), ("frequency", [0.7, -0.3]), ("presence", [0.5, -0.4])):
        if rng.random() < 0.35:
            p[key] = rng.choice(values)
    if rng.random() < 0.25:
        p.update(tau=rng.choice([1.0, 3.0, 5.0]), eta=rng.choice([0, 0.1, 0.5]))
    ids = [rng.randrange(min(vocab, 6)) for _ in range(rng.randint(0, 60))]
    case = {"params": p, "ids": ids, "seen": sorted(set(ids)),
            "logits": [[round(rng.gauss(0, 2.5), 3) for _ in range(vocab)] for _ in range(12)]}
    if rng.random() < 0.4:
        case["dry"] = {"amount": rng.choice([0.5, 2]), "base": rng.choice([1.0, 1.5, 2]), "length": rng.choice([1, 2, 3]),
                       "last": rng.choice([0, 0, 9]), "breaks": rng.choice([[], [], [2], [0, 4]])}
    return case


def main():
    a = argparse.ArgumentParser()
    a.add_argument("cli")
    a.add_argument("--count", type=int, default=200)
    o = a.parse_args()
    rng = random.Random(5)
    cases = [random_case(rng) for _ in range(o.count)]
    r = subprocess.run([o.cli], input="".join(json.dumps(c) + "\n" for c in cases), capture_output=True, text=True, check=True)
    bad = picks = unclear = 0
    for c, line in zip(cases, r.stdout.splitlines(), strict=True):
        got = [int(x) for x in line.split()]
        s, ids = Sampler(c["params"]), list(c["ids"])
        s.seen |= set(c["seen"])
        try:
            for row, logits in enumerate(c["logits"]):
                want = s.pick(logits, dry_penalties(c["dry"], ids) if "dry" in c else {})
                picks += 1
                if want != got[row]:
                    bad += 1
                    print(f"row {row}: {got[row]}, expected {want}: {json.dumps(c['params'])} {c.get('dry')}")
                    break
                s.seen.add(want)
                s.counts[want] = s.counts.get(want, 0) + 1
                ids.append(want)
        except Unclear:
            unclear += 1
    print(f"{o.count} cases, {picks} tokens, {unclear} ended at an edge: {bad} differ")
    return 1 if bad or picks < 5 * o.count else 0


sys.exit(main())
