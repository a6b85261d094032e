#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Structured output: what the demo model writes at temperature 1 is of the form that was asked for.

  check_grammar.py GRAMMAR-CLI [--count N] [--seed S]

Random schemas (schemas.py) against PyPI's jsonschema with its format checker, regexes against re, GBNF by hand, and what
must be refused with its path.
"""
import argparse, json, os, random, re, subprocess, sys

import schemas

try:
    import jsonschema
except ImportError:
    print("skipped: PyPI's jsonschema is not there")
    sys.exit(77)

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SCHEMA, REGEX, GBNF = 1, 2, 3


class Cli:
    def __init__(self, path):
        self.p = subprocess.Popen([path, f"{SOURCE}/configs/host.yaml", f"{SOURCE}/models/demo"], stdin=subprocess.PIPE,
                                  stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, kind, text, most=200, seed=0, **more):
        if not isinstance(text, str):
            text = json.dumps(text, ensure_ascii=False)
        self.p.stdin.write(json.dumps({"kind": kind, "text": text, "max": most, "seed": seed, **more}) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"grammar-cli died ({self.p.wait()}) at {text}")
        return json.loads(line)


def check_random(cli, count, seed):
    rng = random.Random(seed)
    checker = jsonschema.Draft202012Validator.FORMAT_CHECKER
    bad = short = refused = tokens = 0
    for i in range(count):
        s = schemas.random_schema(rng)
        r = cli.ask(SCHEMA, s, most=rng.choice([60, 200, 400]), seed=i)
        if "error" in r:
            if r["status"] == "LIMIT" and "shortest text" in r["error"]:
                short += 1
                continue
            refused += 1
            print(f"schema {i}: {r['error']}\n  {json.dumps(s, ensure_ascii=False)}")
            continue
        tokens += r["tokens"]
        try:
            errors = list(jsonschema.Draft202012Validator(s, format_checker=checker).iter_errors(json.loads(r["text"])))
        except ValueError as e:
            errors = [e]
        if errors or r["reason"] != 2:
            bad += 1
            print(f"schema {i}: reason {r['reason']}: {errors[:1]}\n  {json.dumps(s, ensure_ascii=False)}\n  {r['text']}")
    print(f"{count} random schemas, {tokens} tokens: {count - bad - refused - short} valid, {bad} not, {refused} refused, "
          f"{short} longer than the limit")
    return bad + refused + (short > count // 4)


# (schema, values that must come out at some time, values that never may)
MUST_BE_REFUSED = [
    ('{"type": "object", "properties": {"age": {"minimum": "x"}}}', "INVALID", "schema: properties.age.minimum"),
    ('{"type": "objekt"}', "INVALID", "schema: type"),
    ('{"type": "object"', "INVALID", "schema: not JSON"),
    ('{"$ref": "#/$defs/none"}', "INVALID", "schema: $ref"),
    ('{"$ref": "#"}', "INVALID", ""),
    ('{"allOf": [{"$ref": "#"}]}', "INVALID", ""),
    ('{"enum": []}', "INVALID", "no text"),
    ('false', "INVALID", "no text"),
    ('{"type": "integer", "minimum": 5, "maximum": 4}', "INVALID", "no text"),
    ('{"type": "array", "items": {"not": {}}}', "UNSUPPORTED", "schema: items.not"),
    ('{"properties": {"a": {"items": [{"if": true}]}}}', "UNSUPPORTED", "schema: properties.a.items[0].if"),
    ('{"type": "string", "pattern": "a("}', "INVALID", "schema: pattern: column"),
    ('{"type": "string", "pattern": "(?=a)b"}', "UNSUPPORTED", "schema: pattern: column"),
    ('{"type": "string", "pattern": "(a)\\\\1"}', "UNSUPPORTED", "schema: pattern: column"),
    ('{"oneOf": [{"type": "integer"}, {"type": "number"}]}', "UNSUPPORTED", "schema: oneOf"),
    ('{"type": "array", "uniqueItems": true, "minItems": 2}', "UNSUPPORTED", "schema: uniqueItems"),
    ('{"type": "array", "items": {"type": "string"}, "uniqueItems": true}', "UNSUPPORTED", "schema: uniqueItems"),
    ('{"prefixItems": [{}, {}], "items": false, "uniqueItems": true}', "UNSUPPORTED", "schema: uniqueItems"),
    ('{"type": "integer", "multipleOf": 999983}', "UNSUPPORTED", "schema: multipleOf"),
    ('{"enum": [18446744073709551615]}', "UNSUPPORTED", "63 bits"),
    ('{"enum": [{"a": 1}], "unevaluatedProperties": false}', "UNSUPPORTED", "schema: unevaluatedProperties"),
    ('{"enum": [[1]], "unevaluatedItems": false}', "UNSUPPORTED", "schema: unevaluatedItems"),
    ('{"oneOf": [{"const": 1}, {"const": 1.0}]}', "UNSUPPORTED", "schema: oneOf"),
    (json.dumps({"oneOf": [{"anyOf": [{"$ref": "#/$defs/S"}] * 100}, {"anyOf": [{"$ref": "#/$defs/I"}] * 100}],
                 "$defs": {"S": {"anyOf": [{"type": "string"}] * 100}, "I": {"anyOf": [{"type": "integer"}] * 100}}}), "LIMIT", "comparisons"),
    ('{"items": ' * 110 + '{"description": "' + "x" * 700000 + '"}' + "}" * 110, "LIMIT", "more than 64 MiB"),
    ('{"type": "number", "multipleOf": 0.01}', "UNSUPPORTED", "schema: multipleOf"),
    ('{"type": "object", "properties": {"n": {"$ref": "#"}}, "required": ["n"]}', "INVALID", "no text"),
    ('{"anyOf": 3}', "INVALID", "schema: anyOf"),
    ('{"type": "string", "minLength": -1}', "INVALID", "schema: minLength"),
    ('{"type": "string", "pattern": "' + "(a{1000}){1000}" + '"}', "LIMIT", ""),
]
MUST_BE_REFUSED_OTHERS = [
    (REGEX, "a{3", "INVALID", "regex: column"), (REGEX, "[z-a]", "INVALID", "regex: column"), (REGEX, "(?<=a)b", "UNSUPPORTED", "regex: column 2"),
    (REGEX, "a)b", "INVALID", "regex: column 2"), (REGEX, "*", "INVALID", "regex: column 1"), (REGEX, "\\bword", "UNSUPPORTED", "regex: column 2"),
    (GBNF, 'root ::= "a" item', "INVALID", "line 1, column 14"), (GBNF, 'root ::= root "a" | "a"', "INVALID", "left recursion"),
    (GBNF, 'item ::= "a"', "INVALID", "no rule 'root'"), (GBNF, 'root ::= "a', "INVALID", "line 1"), (GBNF, 'root ::= "a"\nroot ::= "b"', "INVALID", "line 2"),
    (GBNF, 'root ::= ("a"', "INVALID", "')' is missing"), (GBNF, 'root ::= a\na ::= b "x"\nb ::= a?', "INVALID", "left recursion"), (7, "x", "INVALID", "kind 7"),
    (GBNF, 'root ::= <think>', "UNSUPPORTED", "%token"), (GBNF, 'root ::= "a" !<[10]>', "UNSUPPORTED", "line 1, column 14"),
]


def check_refusals(cli):
    bad = 0
    for kind, text, status, says in [(SCHEMA, *row) for row in MUST_BE_REFUSED] + MUST_BE_REFUSED_OTHERS:
        r = cli.ask(kind, text, most=20)
        if r.get("status") != status or says not in r.get("error", ""):
            bad += 1
            print(f"{text}: expected {status} '{says}', not {r}")
    return bad


REGEXES = ["[a-c]{3}-\\d+", "(yes|no)( maybe)?", "\\d{3}-\\d{4}", "[^\\W\\d]+ing", "(?:a|b)*c", "x{2,4}y?", "[\\u4e00-\\u4e20]{2}", "\\x41\\t.", "\\S+ \\S+",
           "a|", "[\\]\\-a]{3}", "\\$\\d+\\.\\d\\d", "(ab{0,2}c){2}", "é+ü", "[^a]", "\\w+?\\s\\w+", "^anchored$"]
GRAMMARS = [
    ('root ::= "yes" | "no" item*\nitem ::= " " [a-z]{2,4} # a word\n', "(yes|no( [a-z]{2,4})*)"),
    ('root ::= expr\nexpr ::= term ([+*] term)*\nterm ::= [0-9]+ |\n  "(" expr ")"', "[0-9+*()]+"),
    ('root ::= ("a" | "b"){3} "\\x41" "\\u00e9"?\n', "[ab]{3}Aé?"),
    ('root ::= [^a-z\\n] . "\\"" "\\\\"', '[^a-z\\n](.|\\n)"\\\\'),
    ('root ::= a{2,} b{,2}\na ::= "x"\nb ::= "y"', "x{2,}y{0,2}"),
]


def check_forms(cli):
    bad = 0
    for kind, text, want in [(REGEX, r, r) for r in REGEXES] + [(GBNF, g, r) for g, r in GRAMMARS]:
        for seed in range(4):
            r = cli.ask(kind, text, most=24, seed=seed)
            if "text" not in r or not re.fullmatch(want, r["text"]):
                bad += 1
                print(f"{text!r}: {r}")
    return bad


def check_endings(cli):
    """At every limit from the shortest text on, the text is whole; below it, the error says how much it takes."""
    bad = 0
    s = {"type": "object", "properties": {"name": {"type": "string"}, "list": {"type": "array", "items": {"type": "object"}}},
         "required": ["name", "list"], "additionalProperties": False}
    worked = 0
    for most in range(1, 60):
        r = cli.ask(SCHEMA, s, most=most, seed=most)
        if "error" in r:
            if worked or r["status"] != "LIMIT":
                bad += 1
                print(f"{most} tokens: {r}")
            continue
        worked += 1
        try:
            jsonschema.validate(json.loads(r["text"]), s)
        except (ValueError, jsonschema.ValidationError) as e:
            bad += 1
            print(f"{most} tokens: {r['text']}: {e}")
        if r["tokens"] > most or r["reason"] != 2:
            bad += 1
            print(f"{most} tokens: {r}")
    return bad + (worked < 30)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("cli")
    a.add_argument("--count", type=int, default=60)
    a.add_argument("--seed", type=int, default=1)
    o = a.parse_args()
    cli = Cli(o.cli)
    bad = 0
    for check in (check_refusals, check_forms, check_endings):
        n = check(cli)
        print(f"{check.__name__}: {'good' if not n else f'{n} wrong'}")
        bad += n
    bad += check_random(cli, o.count, o.seed)
    return 1 if bad else 0


sys.exit(main())
