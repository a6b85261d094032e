#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares our schema with the descriptor that PyPI's onnx carries.

check_schema.py SCHEMA.proto

Every message, field name, number, label, type, packing, oneof and enum value of ours must be upstream's. Fields that
upstream has and we lack are listed; the scan drops them. Ours alone: TensorProto.tenon_span.
"""
import re
import sys

from google.protobuf.descriptor import FieldDescriptor
from onnx import onnx_ml_pb2

OURS_ALONE = {("TensorProto", "tenon_span")}
SCALARS = {getattr(FieldDescriptor, n): n[5:].lower() for n in dir(FieldDescriptor) if n.startswith("TYPE_")}


def parse(text):
    """-> {message: {field: (number, label, type, packed, oneof)}}, {enum: {name: number}}; nested names with dots."""
    tokens = re.findall(r'"[^"]*"|[A-Za-z_][\w.]*|\d+|[{}=;\[\]]', re.sub(r"//[^\n]*", "", text))
    messages, enums, at = {}, {}, 0

    def expect(t):
        nonlocal at
        assert tokens[at] == t, f"{tokens[at - 3:at + 3]}: expected {t}"
        at += 1

    def enum(scope):
        nonlocal at
        name = ".".join(scope + [tokens[at]])
        at += 1
        expect("{")
        values = enums[name] = {}
        while tokens[at] != "}":
            key = tokens[at]
            at += 1
            expect("=")
            values[key] = int(tokens[at])
            at += 1
            expect(";")
        at += 1

    def field(fields, label, oneof):
        nonlocal at
        kind, name = tokens[at], tokens[at + 1]
        at += 2
        expect("=")
        number, packed = int(tokens[at]), False
        at += 1
        if tokens[at] == "[":
            assert tokens[at:at + 5] == ["[", "packed", "=", "true", "]"], tokens[at:at + 5]
            at, packed = at + 5, True
        expect(";")
        assert name not in fields, f"{name} twice"
        fields[name] = (number, label, kind, packed, oneof)

    def message(scope):
        nonlocal at
        scope = scope + [tokens[at]]
        fields = messages[".".join(scope)] = {}
        at += 1
        expect("{")
        while tokens[at] != "}":
            word = tokens[at]
            at += 1
            if word == "message":
                message(scope)
            elif word == "enum":
                enum(scope)
            elif word == "oneof":
                oneof = tokens[at]
                at += 1
                expect("{")
                while tokens[at] != "}":
                    field(fields, "optional", oneof)
                at += 1
            else:
                assert word in ("optional", "repeated"), word
                field(fields, word, None)
        at += 1

    while at < len(tokens):
        word = tokens[at]
        at += 1
        if word == "message":
            message([])
        elif word == "enum":
            enum([])
        else:  # syntax = "proto2"; package onnx;
            while tokens[at] != ";":
                at += 1
            at += 1
    return messages, enums


def upstream():
    """The same from the descriptor, and each message's enums."""
    messages, enums = {}, {}

    def local(d):
        return d.full_name.split(".", 1)[1]

    def repeated(f):
        return f.is_repeated if hasattr(f, "is_repeated") else f.label == FieldDescriptor.LABEL_REPEATED

    def walk(m):
        fields = messages[local(m)] = {}
        for f in m.fields:
            other = f.message_type or f.enum_type
            kind = local(other) if other else SCALARS[f.type]
            packed = repeated(f) and f.GetOptions().packed
            oneof = f.containing_oneof.name if f.containing_oneof else None
            fields[f.name] = (f.number, "repeated" if repeated(f) else "optional", kind, packed, oneof)
        for e in m.enum_types:
            enums[local(e)] = {v.name: v.number for v in e.values}
        for n in m.nested_types:
            walk(n)

    for m in onnx_ml_pb2.DESCRIPTOR.message_types_by_name.values():
        walk(m)
    return messages, enums


def qualify(kind, scope, known):
    """Resolves a type name as protoc does: from the innermost scope outwards."""
    parts = scope.split(".")
    for i in range(len(parts), -1, -1):
        name = ".".join(parts[:i] + [kind])
        if name in known:
            return name
    return kind


def main():
    ours, our_enums = parse(open(sys.argv[1], encoding="utf-8").read())
    theirs, their_enums = upstream()
    known = set(ours) | set(our_enums)
    errors, lacking, compared = [], [], 0
    for name, fields in ours.items():
        if name not in theirs:
            errors.append(f"message {name}: upstream has none")
            continue
        for field, (number, label, kind, packed, oneof) in fields.items():
            if (name, field) in OURS_ALONE:
                if field in theirs[name] or number in {f[0] for f in theirs[name].values()}:
                    errors.append(f"{name}.{field}: upstream uses its name or number")
                continue
            mine = (number, label, qualify(kind, name, known), packed, oneof)
            compared += 1
            if theirs[name].get(field) != mine:
                errors.append(f"{name}.{field}: ours {mine}, upstream {theirs[name].get(field)}")
        lacking += [f"{name}.{f}" for f in theirs[name] if f not in fields]
    for name, values in our_enums.items():
        for key, number in values.items():
            compared += 1
            if their_enums.get(name, {}).get(key) != number:
                errors.append(f"enum {name}.{key}: ours {number}, upstream {their_enums.get(name, {}).get(key)}")
    lacking += [f"message {m}" for m in theirs if m not in ours]
    newer = [f"{e}.{k}" for e in our_enums for k in their_enums.get(e, {}) if k not in our_enums[e]]
    print(f"{len(ours)} messages, {compared} fields and enum values compared, {len(errors)} differ")
    print("not read by us:", ", ".join(lacking))
    if newer:
        print("enum values that we do not know:", ", ".join(newer))
    for e in errors:
        print("ERROR", e)
    # A parser that finds nothing must not pass.
    return 1 if errors or compared < 140 else 0


sys.exit(main())
