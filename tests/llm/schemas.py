# SPDX-License-Identifier: Apache-2.0
"""Random JSON Schemas, each with at least one value: random_schema(rng, depth)."""
import random

WORDS = ["name", "age", "kind", "id", "tags", "point", "x", "y", "größe", "a b", "quo\"te", "on/off", "val~ue", "日本", "total", "next"]
PATTERNS = ["^[a-z]{2,6}$", "[0-9]{3}", "^(cat|dog|bird)s?$", "^\\d{4}-\\d{2}$", "^[^aeiou]{1,5}$", "x", "^\\w+@\\w+\\.com$", "^\"[a-z]*\"$",
            "a.c|^b", "^\\S{1,8}$", "^[\\w.-]{1,12}$", "\\\\", "^(?:[A-F0-9]{2}:){2}[A-F0-9]{2}$", "^\\D{2,4}$", "^(a|bc)*d$", "^[^\\d\\s]{3}$"]
FORMATS = ["date", "time", "date-time", "email", "hostname", "ipv4", "ipv6", "uri", "uuid", "regex", "json-pointer", "duration", "no-such-format"]


def literal(rng, depth=1):
    kinds = [lambda: None, lambda: True, lambda: rng.randint(-1000, 1000), lambda: round(rng.uniform(-9, 9), 3),
             lambda: rng.choice(WORDS), lambda: "line\n\ttab \"q\" \\ é 😀"]
    if depth:
        kinds += [lambda: [literal(rng, 0) for _ in range(rng.randint(0, 3))],
                  lambda: {rng.choice(WORDS): literal(rng, 0) for _ in range(rng.randint(0, 2))}]
    return rng.choice(kinds)()


def number(rng, integer):
    s = {"type": "integer" if integer else "number"}
    scale = rng.choice([1, 10, 1000, 10**6, 10**12])
    lo = rng.randint(-scale, scale)
    hi = lo + rng.randint(2, 2 * scale)
    if not integer and rng.random() < 0.7:
        digits = rng.randint(1, 6)
        lo, hi = round(lo / 7, digits), round(hi / 7 + 1, digits)
    if rng.random() < 0.15:
        lo, hi = (0.1, 0.3) if not integer else (0, 1)
    if rng.random() < 0.6:
        s["exclusiveMinimum" if rng.random() < 0.3 and hi - lo > 1 else "minimum"] = lo
    if rng.random() < 0.6:
        s["exclusiveMaximum" if rng.random() < 0.3 and hi - lo > 1 else "maximum"] = hi
    if rng.random() < 0.15 and not ("Minimum" in str(s) or "minimum" in s) and not ("maximum" in s or "exclusiveMaximum" in s):
        s["multipleOf"] = rng.choice([2, 3, 7, 10, 128])
    return s


def string(rng):
    s = {"type": "string"}
    way = rng.random()
    if way < 0.3:
        s["pattern"] = rng.choice(PATTERNS)
    elif way < 0.6:
        s["format"] = rng.choice(FORMATS)
    elif way < 0.9:
        if rng.random() < 0.5:
            s["minLength"] = rng.randint(0, 5)
        if rng.random() < 0.7:
            s["maxLength"] = rng.randint(5, 30)
    else:
        s.update(pattern="[a-z]", minLength=rng.randint(2, 4), maxLength=rng.randint(5, 9))
    return s


def array(rng, depth):
    s = {"type": "array"}
    if rng.random() < 0.25:
        s["prefixItems"] = [schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]
        s["items"] = rng.choice([False, schema(rng, 0)])
        return s
    s["items"] = schema(rng, depth - 1)
    if rng.random() < 0.5:
        s["minItems"] = rng.randint(0, 3)
    if rng.random() < 0.7:
        s["maxItems"] = rng.randint(3, 5)
    if rng.random() < 0.1:
        s.pop("minItems", None)
        s["uniqueItems"] = True
        if not isinstance(s["items"], dict) or "enum" not in s["items"]:
            s["maxItems"] = 1
    return s


def record(rng, depth):
    names = rng.sample(WORDS, rng.randint(0, 5))
    s = {"type": "object", "properties": {n: schema(rng, depth - 1) for n in names}}
    s["required"] = [n for n in names if rng.random() < 0.6]
    way = rng.random()
    if way < 0.5:
        s["additionalProperties"] = False
    elif way < 0.7:
        s["additionalProperties"] = schema(rng, 0)
    if rng.random() < 0.1:
        s["minProperties"] = rng.randint(0, len(names))
    if rng.random() < 0.1:
        s["maxProperties"] = rng.randint(max(len(s["required"]), s.get("minProperties", 0)), 7)
    if rng.random() < 0.05:
        s = {"type": "object", "patternProperties": {"^k_[a-z]+$": schema(rng, 0)}, "additionalProperties": False}
    if rng.random() < 0.05:
        s = {"type": "object", "propertyNames": {"pattern": "^[a-z]{1,8}$"}, "additionalProperties": schema(rng, 0), "maxProperties": 3}
    return s


def choice(rng, depth):
    if rng.random() < 0.4:  # told apart by a constant
        key = rng.choice(WORDS)
        branches = []
        for i in range(rng.randint(2, 3)):
            b = record(rng, depth - 1)
            if "properties" not in b:
                continue
            b.pop("minProperties", None)
            b.pop("maxProperties", None)
            b["properties"][key] = {"const": f"kind {i}"}
            b["required"] = sorted(set(b["required"]) | {key})
            branches.append(b)
        if branches:
            return {"oneOf": branches}
    if rng.random() < 0.3:
        return {"oneOf": [{"type": "string", "maxLength": 9}, number(rng, True), {"type": "null"}]}
    return {"anyOf": [schema(rng, depth - 1) for _ in range(rng.randint(1, 3))]}


def together(rng, depth):
    way = rng.random()
    if way < 0.5:
        a, b = record(rng, depth - 1), record(rng, depth - 1)
        for s in (a, b):
            for key in ("additionalProperties", "minProperties", "maxProperties", "patternProperties", "propertyNames"):
                s.pop(key, None)
        for name in set(a.get("properties", {})) & set(b.get("properties", {})):
            del b["properties"][name]
            if name in b["required"]:
                b["required"].remove(name)
        return {"allOf": [a, b]}
    if way < 0.75:
        return {"type": "integer", "allOf": [{"minimum": rng.randint(-9, 0)}, {"maximum": rng.randint(1, 99)}]}
    return {"allOf": [{"type": "string", "pattern": "^[a-z]+$"}, {"maxLength": rng.randint(3, 9)}, {"pattern": "e"}]}


def schema(rng, depth):
    simple = [lambda: {"type": "boolean"}, lambda: {"type": "null"}, lambda: number(rng, True), lambda: number(rng, False),
              lambda: string(rng), lambda: string(rng), lambda: {"const": literal(rng)},
              lambda: {"enum": [literal(rng) for _ in range(rng.randint(1, 5))]},
              lambda: {"type": rng.sample(["string", "integer", "boolean", "null"], 2)}]
    if depth <= 0:
        return rng.choice(simple)()
    deep = [lambda: array(rng, depth), lambda: record(rng, depth), lambda: record(rng, depth), lambda: choice(rng, depth),
            lambda: together(rng, depth), lambda: {}, lambda: True]
    return rng.choice(simple + deep * 2)()


def recursive(rng):
    node = {"type": "object", "properties": {"value": schema(rng, 0), "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
                                             "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2}},
            "required": ["value"] + (["next"] if rng.random() < 0.5 else []), "additionalProperties": False}
    return {"$defs": {"node": node}, "$ref": "#/$defs/node"}


def random_schema(rng, depth=3):
    if rng.random() < 0.07:
        return recursive(rng)
    return record(rng, depth) if rng.random() < 0.5 else schema(rng, depth)


if __name__ == "__main__":
    import json, sys
    r = random.Random(int(sys.argv[1]))
    for _ in range(int(sys.argv[2])):
        print(json.dumps(random_schema(r), ensure_ascii=False))
