#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What masks of structured output cost beside a step of the model.

  bench/masks.py BUILD MODEL [--profile P] [--texts 8] [--tokens 120] [--most PERCENT] [--cache FOLDER]

MODEL with a tokenizer. Tokens are drawn by tn_sampler at temperature 1 from random logits, so that texts wander through
the grammar more than a model's would: with each grammar, and without one. Times are the thread's own. The step is the
median of one text's decode steps, two threads or what --threads says. Prints, per grammar, what it takes to make it and
the mean and largest cost of a token's mask in the first text and in those after it; --most: fails where a mean of the
texts after the first is above so many percent of a step. Python's standard library only.
"""
import argparse, array, ctypes as c, json, random, statistics, sys, time

import batch

PERSON = {"type": "object", "properties": {
    "name": {"type": "string", "maxLength": 40}, "age": {"type": "integer", "minimum": 0, "maximum": 150},
    "email": {"type": "string", "format": "email"}, "role": {"enum": ["admin", "user", "guest"]},
    "tags": {"type": "array", "items": {"type": "string", "pattern": "^[a-z]{1,12}$"}, "maxItems": 5},
    "address": {"type": "object", "properties": {"street": {"type": "string"}, "zip": {"type": "string", "pattern": "^\\d{5}$"}},
                "required": ["street", "zip"], "additionalProperties": False}},
    "required": ["name", "age", "role", "address"], "additionalProperties": False}
TREE = {"$defs": {"node": {"type": "object", "properties": {"value": {"type": "number"}, "children": {"type": "array", "items": {"$ref": "#/$defs/node"}}},
                           "required": ["value", "children"]}}, "$ref": "#/$defs/node"}
CALL = 'root ::= "<tool_call>" ws object ws "</tool_call>"\nobject ::= "{" ws (pair ("," ws pair)*)? "}"\npair ::= string ":" ws value\n' \
       'value ::= string | number | object | "true" | "false" | "null"\nstring ::= "\\"" [^"\\\\\\x00-\\x1f]* "\\""\nnumber ::= "-"? [0-9]+ ("." [0-9]+)?\nws ::= [ \\n]*\n'
GRAMMARS = [("any JSON", 1, "{}"), ("a person", 1, json.dumps(PERSON)), ("a tree", 1, json.dumps(TREE)),
            ("a date by regex", 2, r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}"), ("words by regex", 2, r"([A-Z][a-z]+ ){3,30}\."), ("a call by GBNF", 3, CALL)]


class Params(batch.GenParams):
    _fields_ = [("grammar", c.c_void_p), ("hook", c.c_void_p), ("hook_user", c.c_void_p), ("bias", c.c_void_p), ("n_bias", c.c_uint32),
                ("min_tokens", c.c_uint32)]


def pick_times(t, grammar, logits, tokens, seed):
    """us of each pick of one text."""
    p = batch.make(Params, max_tokens=tokens, temperature=1, top_p=1, repeat_penalty=1, seed=seed, grammar=grammar)
    s, out, first = c.c_void_p(), c.c_int32(), (c.c_int32 * 1)(1)
    t.call("tn_sampler_create", t.lm, c.byref(p), first, c.c_size_t(1), c.byref(s))
    times = []
    for k in range(tokens):
        row = logits[(seed * 7 + k) % len(logits)]
        t0 = time.thread_time_ns()
        t.call("tn_sampler_pick", s, row, c.c_size_t(len(row)), c.c_uint32(tokens - k), c.byref(out))
        times.append((time.thread_time_ns() - t0) / 1e3)
        if grammar and t.lib.tn_sampler_whole(s) == 2:
            break
    t.lib.tn_sampler_destroy(s)
    return times


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build")
    p.add_argument("model")
    p.add_argument("--profile", default="default")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--texts", type=int, default=8)
    p.add_argument("--tokens", type=int, default=120)
    p.add_argument("--vocab", type=int, default=32000)
    p.add_argument("--most", type=float, default=0)
    p.add_argument("--cache")
    a = p.parse_args()
    t = batch.Tenon(a)
    for f in ("tn_batch_destroy", "tn_sampler_destroy", "tn_grammar_destroy"):
        getattr(t.lib, f).restype = None
    rng = random.Random(1)
    step = 1e6 / statistics.median(t.run([[rng.randrange(3, 1000) for _ in range(16)]], 24, 128)[1] for _ in range(3))
    logits = [(c.c_float * a.vocab)(*(rng.gauss(0, 3) for _ in range(a.vocab))) for _ in range(8)]
    plain = statistics.mean(x for i in range(a.texts) for x in pick_times(t, None, logits, a.tokens, i))
    print(f"a step: {step / 1e3:.1f} ms; a token drawn without a grammar: {plain:.0f} us")
    worst = 0
    for name, kind, text in GRAMMARS:
        g, data = c.c_void_p(), text.encode()
        t0 = time.thread_time_ns()
        t.call("tn_grammar_create", t.lm, c.c_uint32(kind), data, c.c_size_t(len(data)), c.byref(g))
        made = (time.thread_time_ns() - t0) / 1e6
        first = pick_times(t, g, logits, a.tokens, 0)
        later = [x for i in range(1, a.texts) for x in pick_times(t, g, logits, a.tokens, i)]
        mean = [max(0, statistics.mean(x) - plain) for x in (first, later)]
        worst = max(worst, mean[1] / step * 100)
        print(f"{name:16} made in {made:6.1f} ms; first text: mean {mean[0]:6.0f} us, largest {max(first) - plain:7.0f}; "
              f"later: mean {mean[1]:6.0f} us ({mean[1] / step * 100:.2f} % of a step), largest {max(later) - plain:7.0f}", flush=True)
        t.lib.tn_grammar_destroy(g)
    return bool(a.most) and worst > a.most


sys.exit(main())
