#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The checker of arguments (runtime/serve/speech/valid.h) beside PyPI's jsonschema.

  check_valid.py VALID-CLI [--count N] [--suite SUITE]

Random schemas (tests/llm/schemas.py) with values at random, and values of one schema asked of another; cases of our own; and the
public JSON-Schema test suite (tests/llm/check_schema_suite.py says where from). Of the suite's files on what the checker
knows, every answer is the suite's; of the others none is asked.
"""
import argparse
import json
import os
import pathlib
import random
import subprocess
import sys

try:
    import jsonschema
except ImportError:
    print("skipped: PyPI's jsonschema is not there")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "llm"))
import check_schema_suite  # noqa: E402

# Files of the suite about what the checker passes over.
OTHERS = ("anchor", "dynamicRef", "format", "id", "optional/", "unevaluated", "vocabulary", "defs", "infinite-loop", "refRemote", "content", "default", "not")
WORDS = ["", "a", "ab", "abc", "Oslo", "Rome", "2024-01-31", "x" * 12, "ä✓"]
KEYS = ["a", "b", "city", "days", "x1"]


def value(r, depth=0):
    k = r.randrange(8 if depth < 3 else 5)
    if k < 5:
        return [None, r.random() < 0.5, r.choice((-3, 0, 1, 2, 7, 10, 1.0, 2.5, -0.5, 1e9)), r.choice(WORDS), r.randrange(-5, 20)][k]
    if k < 7:
        return {key: value(r, depth + 1) for key in r.sample(KEYS, r.randrange(4))}
    return [value(r, depth + 1) for _ in range(r.randrange(4))]


def schema(r, depth=0):
    """Keywords at random, so that about half of the values fit."""
    s = {}
    sub = lambda: schema(r, depth + 1) if depth < 3 else r.choice([True, {"type": "string"}, {"type": "integer"}])
    for key, make in (("type", lambda: r.choice(["object", "array", "string", "number", "integer", "boolean", "null", ["string", "null"], ["object", "integer"]])),
                      ("enum", lambda: [value(r, 2) for _ in range(4)]), ("const", lambda: value(r, 2)), ("minimum", lambda: r.randrange(-3, 5)),
                      ("maximum", lambda: r.randrange(0, 10)), ("exclusiveMinimum", lambda: r.randrange(-3, 5)), ("exclusiveMaximum", lambda: r.randrange(0, 10)),
                      ("multipleOf", lambda: r.choice([1, 2, 0.5, 3])), ("minLength", lambda: r.randrange(3)), ("maxLength", lambda: r.randrange(1, 12)),
                      ("pattern", lambda: r.choice(["^a", "b$", "^[A-Z]", "^\\d{4}-", "o"])), ("minItems", lambda: r.randrange(2)), ("maxItems", lambda: r.randrange(1, 4)),
                      ("uniqueItems", lambda: True), ("items", sub), ("prefixItems", lambda: [sub() for _ in range(2)]), ("contains", sub),
                      ("minContains", lambda: r.randrange(2)), ("maxContains", lambda: r.randrange(1, 3)), ("properties", lambda: {k: sub() for k in r.sample(KEYS, 2)}),
                      ("required", lambda: r.sample(KEYS, 1)), ("additionalProperties", sub), ("patternProperties", lambda: {r.choice(["^a", "y$", "1"]): sub()}),
                      ("propertyNames", lambda: r.choice([{"maxLength": 2}, {"pattern": "^[a-d]"}])), ("minProperties", lambda: r.randrange(2)),
                      ("maxProperties", lambda: r.randrange(1, 4)), ("dependentRequired", lambda: {r.choice(KEYS): r.sample(KEYS, 1)}),
                      ("dependentSchemas", lambda: {r.choice(KEYS): sub()}), ("allOf", lambda: [sub() for _ in range(2)]), ("anyOf", lambda: [sub() for _ in range(2)]),
                      ("oneOf", lambda: [sub() for _ in range(2)]), ("not", sub), ("if", sub), ("then", sub), ("else", sub)):
        if r.random() < 0.06:
            s[key] = make()
    if depth == 0:
        s["$defs"] = {"d": schema(r, 2), "a/b~c": {"type": "integer"}}
    if r.random() < 0.05:
        s["$ref"] = r.choice(["#/$defs/d", "#/$defs/a~1b~0c"]) if depth < 2 else "#/$defs/a~1b~0c"
    return s


def main():
    a = argparse.ArgumentParser()
    a.add_argument("cli")
    a.add_argument("--count", type=int, default=1500)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--suite", default=os.environ.get("TENON_SCHEMA_SUITE"))
    o = a.parse_args()
    cli = subprocess.Popen([o.cli], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(s, values):
        cli.stdin.write(json.dumps({"schema": s, "values": values}) + "\n")
        cli.stdin.flush()
        return json.loads(cli.stdout.readline())

    bad, n = 0, {True: 0, False: 0}

    def look(where, s, values, want):
        nonlocal bad
        for v, w, got in zip(values, want, ask(s, values)):
            n[w] += 1
            if w != got:
                bad += 1
                print(f"WRONG {where}: {json.dumps(v)} is {'valid' if w else 'invalid'}: {json.dumps(s)}")

    r = random.Random(o.seed)
    for i in range(o.count):
        s = schema(r)
        values = [value(r) for _ in range(12)]
        check = jsonschema.Draft202012Validator(s)
        look(f"seed {o.seed}, schema {i}", s, values, [check.is_valid(v) for v in values])
    drawn = dict(n)
    for s, good, wrong in check_schema_suite.OWN:
        text = json.dumps(s)
        if not any(w in text for w in ("unevaluated", "nchor", "urn:", "format")):
            look("own", s, good + wrong, [True] * len(good) + [False] * len(wrong))
    for name, cases in check_schema_suite.read_suite(o.suite) if o.suite else []:
        if name.startswith(OTHERS) and name != "not.json" or "proposals" in name:
            continue
        for case in cases:
            s, tests = case["schema"], case["tests"]
            if any(w in json.dumps({k: v for k, v in s.items() if k != "$schema"} if isinstance(s, dict) else s) for w in ('"$id"', "unevaluated", "nchor", "http", "$dynamicRef")):
                continue
            look(f"{name}: {case['description']}", s, [t["data"] for t in tests], [t["valid"] for t in tests])
    cli.stdin.close()
    print(f"{o.count} random schemas: {drawn[True]} values valid, {drawn[False]} not; all: {n[True]} and {n[False]}; wrong: {bad}")
    return 1 if bad or cli.wait() or min(drawn.values()) < o.count else 0


if __name__ == "__main__":
    sys.exit(main())
