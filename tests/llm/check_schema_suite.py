#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schemas with instances, valid and not, against structured output: cases of our own, and the public JSON-Schema test suite
(draft 2020-12) where it is at hand.

  check_schema_suite.py GRAMMAR-WALK [--suite SUITE] [--cli GRAMMAR-CLI] [--draws N] [--list]

SUITE, or TENON_SCHEMA_SUITE: jsonschema's source archive from PyPI, which holds the suite, or a folder of it:
  pip download --no-deps --no-binary jsonschema jsonschema==4.26.0

Our own: instances are accepted where they are valid. Of the suite, for each schema that is not refused: no invalid instance is accepted; valid ones are, or are counted by the rule of
docs/structured-output.md that leaves them out; texts at random (with --cli also those that the demo model writes at
temperature 1) are valid by PyPI's jsonschema with its format checker. Needs PyPI's jsonschema.
"""
import argparse, collections, json, os, re, subprocess, sys, tarfile

try:
    import jsonschema
except ImportError:
    print("skipped: PyPI's jsonschema is not there")
    sys.exit(77)

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
DRAFT = "tests/draft2020-12/"
# (schema, valid instances that a text may be, invalid ones)
OWN = [
    ({"allOf": [{"prefixItems": [{"minimum": 3}]}], "items": {"minimum": 5}}, [[5], [5, 6]], [[3], [3, 5], [5, 4]]),
    ({"allOf": [{"items": {"type": "integer"}}], "prefixItems": [{"minimum": 2}], "items": {"maximum": 9}}, [[2, 9]], [[1], [2.5], [2, 10]]),
    ({"allOf": [{"prefixItems": [{"const": 1}]}, {"prefixItems": [{}, {"const": 2}]}], "minItems": 2}, [[1, 2]], [[2, 2], [1, 1]]),
    ({"allOf": [{"properties": {"a": {"const": 1}}}, {"unevaluatedProperties": False}]}, [{}], [{"a": 1}]),
    ({"allOf": [{"unevaluatedProperties": False}], "properties": {"a": {"const": 1}}}, [{}], [{"a": 1}]),
    ({"allOf": [{"properties": {"a": {"const": 1}}}], "unevaluatedProperties": False}, [{}, {"a": 1}], [{"a": 2}, {"a": 1, "b": 1}]),
    ({"allOf": [{"prefixItems": [{"const": 1}]}, {"unevaluatedItems": False}]}, [[]], [[1]]),
    ({"allOf": [{"prefixItems": [{"const": 1}]}], "unevaluatedItems": False}, [[1], []], [[1, 1]]),
    ({"$defs": {"p": {"unevaluatedProperties": {"type": "null"}}}, "$ref": "#/$defs/p", "properties": {"a": {}}}, [{}, {"a": None}], [{"a": 1}]),
    ({"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}, {"properties": {"b": {}}}], "unevaluatedProperties": False},
     [{"a": 1}, {"b": 2}], [{"a": 2}, {"c": 1}]),
    ({"propertyNames": False}, [{}], [{"a": 1}]),
    ({"propertyNames": {"maxLength": 2}}, [{}, {"ab": 1}], [{"abc": 1}]),
    ({"$defs": {"n": {"$id": "urn:a", "$anchor": "x", "type": "number"}, "s": {"$anchor": "x", "type": "string"}}, "$ref": "#x"}, ["s"], [1]),
    ({"$defs": {"n": {"$id": "urn:a", "$anchor": "x", "type": "number"}, "s": {"$anchor": "x", "type": "string"}}, "$ref": "urn:a#x"}, [1], ["s"]),
    ({"$defs": {"a": {"enum": [{"$anchor": "x", "type": "null"}]}, "b": {"$anchor": "x", "type": "string"}}, "$ref": "#x"}, ["s"], [None]),
    ({"$defs": {"a": {"const": {"$id": "urn:b", "type": "null"}}, "b": {"$id": "urn:b", "type": "string"}}, "$ref": "urn:b"}, ["s"], [None]),
    ({"$defs": {"a": {"$dynamicAnchor": "x", "type": "string"}}, "items": {"$ref": "#x"}}, [["s"]], [[1]]),
    ({"format": "uri-template"}, ["http://a.example.com/{x,y}/{?z}"], ["http://a.example.com/{x", "http://{"]),
    ({"format": "idn-hostname"}, ["a-b.example.com"], ["ab--c.example.com", "a-.example.com", "-a.example.com"]),
    ({"format": "email"}, ["a.b+c@example.com"], ["te..st@example.com", ".a@example.com", "a"]),
    ({"type": "integer", "minimum": -3, "exclusiveMaximum": 12, "multipleOf": 3}, [-3, 0, 9], [12, -6, 1]),
    ({"type": "object", "properties": {"a": {"type": "string", "pattern": "^x+$"}}, "required": ["a"], "additionalProperties": False},
     [{"a": "xx"}], [{}, {"a": ""}, {"a": "xy"}, {"a": "x", "b": 1}]),
    ({"type": "array", "items": {"enum": [1, "1", None]}, "minItems": 1, "maxItems": 2}, [[1], ["1", None]], [[], [2], [1, 1, 1]]),
    ({"oneOf": [{"type": "object", "properties": {"k": {"const": "a"}, "v": {"type": "integer"}}, "required": ["k", "v"]},
                {"type": "object", "properties": {"k": {"const": "b"}}, "required": ["k"]}]}, [{"k": "a", "v": 1}, {"k": "b"}], [{"k": "a"}, {"k": "c"}]),
    ({"type": "object", "patternProperties": {"^f": {"type": "integer"}}, "additionalProperties": False}, [{}, {"foo": 1}], [{"foo": "x"}, {"b": 1}]),
    ({"type": "number", "minimum": 0, "multipleOf": 1}, [0, 1999, 2000, 999999999999999], [-1]),
    ({"maximum": 100000, "multipleOf": 5}, [5, 0, 100000, -5, -99999999999990], [100005, 3, 99999]),
    ({"type": "integer", "exclusiveMinimum": 7, "multipleOf": 7}, [14, 700000000000007], [7, 0, 15, -14]),
    ({"type": "integer", "minimum": -987, "maximum": 98765, "multipleOf": 12}, [-984, -12, 0, 12, 98760], [-996, -6, 98772, 98765, 1]),
    ({"type": "integer", "multipleOf": 5000}, [0, 5000, -15000, 123450000], [5, 500, 123450001]),
    ({"type": "integer", "multipleOf": 4097, "minimum": -5000, "maximum": 1000000}, [-4097, 0, 995571], [-8194, 4098, 1003765]),
    ({"type": "integer", "maximum": 18446744073709551615, "minimum": 250}, [255], [1]),
    ({"type": "array", "items": {"enum": ["a", "b", "c", "a"]}, "uniqueItems": True}, [[], ["b"], ["a", "c"], ["a", "b", "c"]], [["a", "a"], ["c", "d"]]),
    ({"type": "array", "items": {"$ref": "#/$defs/c"}, "uniqueItems": True, "minItems": 2, "maxItems": 2, "$defs": {"c": {"enum": [1, 1.0, 2, 3, "x"], "type": "integer"}}},
     [[1, 2], [1, 3], [2, 3]], [[1], [1, 1.0], [1, 2, 3], [1, "x"]]),
    ({"type": "array", "items": {"enum": list(range(200))}, "uniqueItems": True, "minItems": 1}, [[0, 1, 199]], [[], [5, 5]]),
    ({"type": "array", "prefixItems": [{"type": "null"}], "items": False, "uniqueItems": True}, [[], [None]], [[None, None]]),
    ({"type": "array", "items": {"type": "string"}, "uniqueItems": True, "maxItems": 1}, [[], ["a"]], [["a", "b"]]),
    ({"allOf": [{"enum": [1, 2, {"a": [2]}]}, {"enum": [2.0, 3, {"a": [2.0]}]}]}, [2, {"a": [2]}], [1, 3]),
    ({"$defs": {"A": {"$id": "http://x/a", "properties": {"v": {"$ref": "#/$defs/n"}}, "required": ["v"], "$defs": {"n": {"type": "integer"}}}, "n": {"type": "string"}},
      "$ref": "http://x/a"}, [{"v": 1}], [{"v": "s"}]),
    ({"$defs": {"A": {"$id": "urn:a", "properties": {"$ref": {"enum": ["#/$defs/n"]}}, "required": ["$ref"]}, "n": False}, "$ref": "urn:a"}, [{"$ref": "#/$defs/n"}], [{"$ref": 1}]),
    ({"description": "x" * 100000, "anyOf": [{"const": f"{i}"} for i in range(1000)]}, ["0", "999"], ["1000"]),
]
# (rules, texts that are of them, texts that are not): what GBNF has not, and Tenon has
RULES = [
    ('root ::= %json {"type": "object", "properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"enum": [1, "}"]}}} "!" # %json',
     ['{"a": 1}!', '{"a":"}"}!'], ['{"a": 2}!', '{"a": 1}', "!"]),
    ('root ::= %without("<a>", "[b]", "aab") ', ["", "<a", "<<a", "[b", "aa", "é", "<[b"], ["<a>", "x<a>", "<<a>", "[b]", "aaab", "<a[b]"]),
    ('root ::= %without("<a>") ("<a>" [0-9]+)*', ["x", "<a", "<<a>1", "x<a>12<a>3"], ["<a>", "<a>x", "<<a>1<"]),
    ('root ::= %unlike("{\\"a", "<") ', ["", "x<", "{", "{b", '{"b', " <"], ["<", "<x", '{"a', '{"ab']),
    ('root ::= %json {"type": "object", "required": ["a", "bc"], "minProperties": 3}', ['{"a":1,"bc":2,"b":3}'], ['{"a":1,"bc":2}', '{"a":1,"bc":2,"a":3}', '{"a":1,"bc":2,"bc":3}']),
    ('root ::= [0-9] + ("a" | "b") * # signs after blanks\n', ["1", "22ab"], ["", "a"]),
    ('root ::= ("x"\n  {2} "y" ?)', ["xx", "xxy"], ["x", "xyy"]),
    ('root ::= (%token("<t>") "x" | "y")+', ["<t>x", "y<t>x"], ["<t>", "<t>y", "x"]),
]

CHECKER = jsonschema.Draft202012Validator.FORMAT_CHECKER


def read_suite(path):
    """(name, cases) of each file."""
    out = []
    if os.path.isdir(path):
        for folder, _, files in os.walk(os.path.join(path, DRAFT)):
            for f in files:
                if f.endswith(".json"):
                    with open(os.path.join(folder, f), encoding="utf-8") as h:
                        out.append((os.path.relpath(os.path.join(folder, f), os.path.join(path, DRAFT)), json.load(h)))
    else:
        with tarfile.open(path) as t:
            for m in t.getmembers():
                if "/" + DRAFT in m.name and m.name.endswith(".json"):
                    out.append((m.name.split(DRAFT, 1)[1], json.load(t.extractfile(m))))
    return sorted(out)


class Cli:
    def __init__(self, *command):
        self.p = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(self, **what):
        self.p.stdin.write(json.dumps(what) + "\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            sys.exit(f"{self.p.args[0]} died ({self.p.wait()}) at {what}")
        return json.loads(line)


def write(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def errors_of(schema, text):
    if isinstance(schema, dict) and schema.get("format") == "relative-json-pointer" and re.fullmatch(r'"(0|[1-9]\d*)(/[^~"]*)*"', text):
        return []  # jsonschema 4.26 refuses zeros inside of the number
    try:
        return list(jsonschema.Draft202012Validator(schema, format_checker=CHECKER).iter_errors(json.loads(text)))
    except ValueError as e:
        return [e]


def main():
    a = argparse.ArgumentParser()
    a.add_argument("walk")
    a.add_argument("--suite", default=os.environ.get("TENON_SCHEMA_SUITE"))
    a.add_argument("--cli")
    a.add_argument("--draws", type=int, default=10)
    a.add_argument("--list", action="store_true", help="each valid instance that is left out, each refusal")
    o = a.parse_args()
    walk = Cli(o.walk)
    model = Cli(o.cli, f"{SOURCE}/configs/host.yaml", f"{SOURCE}/models/demo") if o.cli else None
    n = collections.Counter()
    bad = 0
    for rules, good, wrong in RULES:
        r = walk.ask(kind=3, text=rules, texts=good + wrong, draws=0, seed=1)
        if r.get("accepted") != [True] * len(good) + [False] * len(wrong):
            bad += 1
            print(f"WRONG rules {rules}: {r} for {good + wrong}")
    for rules in ('root ::= %json "x"', 'root ::= %json {"type": "king"}', "root ::= %without()", 'root ::= %without("")', 'root ::= %token("a", "b")', 'root ::= %x("a")'):
        r = walk.ask(kind=3, text=rules, texts=[], draws=0, seed=1)
        if r.get("status") not in ("INVALID", "LIMIT"):
            bad += 1
            print(f"WRONG rules {rules}: {r}")
    own = [{"description": write(s), "schema": s, "tests": [{"data": v, "valid": ok, "description": "own"} for k, ok in ((1, True), (2, False)) for v in case[k]]}
           for case in OWN for s in case[:1]]
    for name, cases in [("own", own)] + (read_suite(o.suite) if o.suite else []):
        if "proposals" in name:  # of later drafts
            continue
        for case in cases:
            schema, tests = case["schema"], case["tests"]
            where = f"{name}: {case['description']}"
            n["schemas"] += 1
            r = walk.ask(kind=1, text=write(schema), texts=[write(t["data"]) for t in tests], draws=o.draws, seed=n["schemas"])
            if "error" in r:
                bad += name == "own"
                n["refused " + r["status"]] += 1
                if not r["error"].startswith(("schema", "grammar", "no text has this form")):
                    bad += 1
                    print(f"{where}: an error that names nothing: {r['error']}")
                if o.list:
                    print(f"REFUSED {where}: {r['status']} {r['error']}\n  {write(schema)}")
                continue
            n["accepted schemas"] += 1
            for t, accepted in zip(tests, r["accepted"]):
                kind = "valid" if t["valid"] else "invalid"
                # the suite's main part says nothing of formats, which Tenon keeps: the validator's word counts there
                if t["valid"] and not accepted and errors_of(schema, write(t["data"])):
                    kind = "invalid"
                n[f"{kind} {'accepted' if accepted else 'left out'}"] += 1
                if kind == "invalid" and accepted and errors_of(schema, write(t["data"])):
                    bad += 1
                    print(f"WRONG {where}: accepted {write(t['data'])} ({t['description']})\n  {write(schema)}")
                elif kind == "invalid" and accepted:
                    n["invalid accepted, valid by jsonschema"] += 1
                    if o.list:
                        print(f"LENIENT {where}: accepted {write(t['data'])} ({t['description']})\n  {write(schema)}")
                if name == "own" and accepted != t["valid"]:
                    bad += 1
                    print(f"WRONG {where}: {write(t['data'])}: accepted {accepted}")
                if o.list and kind == "valid" and not accepted:
                    print(f"LEFT {where}: {write(t['data'])} ({t['description']})\n  {write(schema)}")
            texts = r["drawn"]
            if model:
                w = model.ask(kind=1, text=write(schema), max=60, seed=n["schemas"], temperature=1)
                if "error" in w and not (w["status"] == "LIMIT" and "shortest" in w["error"]):
                    bad += 1
                    print(f"WRONG {where}: the model's text: {w['error']}")
                n["model's texts"] += "text" in w
                texts = texts + [w.get("text")]
            for text in texts:
                if text is None:
                    n["draws cut off"] += 1
                    continue
                n["texts"] += 1
                try:
                    errors = errors_of(schema, text)
                except Exception as e:  # the validator itself fails: references that it has to fetch
                    n["not judged"] += 1
                    break
                if errors:
                    bad += 1
                    print(f"WRONG {where}: wrote {text}: {errors[0].args[0] if errors[0].args else errors[0]}\n  {write(schema)}")
                    break
    for k in sorted(n):
        print(f"{n[k]:6} {k}")
    print("all good" if not bad else f"{bad} wrong")
    return 1 if bad or not n["accepted schemas"] else 0


if __name__ == "__main__":
    sys.exit(main())
