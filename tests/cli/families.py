# SPDX-License-Identifier: Apache-2.0
"""Graphs of n nodes of one kind each, written without a library: what makes a load slow shows in one of them.

  families.py NAME N FILE
"""
import struct
import sys

FLOAT, INT64, BOOL = 1, 7, 9


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def field(number, data):
    """A length-delimited field (bytes or text) or a number."""
    if isinstance(data, int):
        return varint(number << 3) + varint(data)
    data = data.encode() if isinstance(data, str) else data
    return varint(number << 3 | 2) + varint(len(data)) + data


def value(name, dims, dtype=FLOAT):
    shape = b"".join(field(1, field(2 if isinstance(d, str) else 1, d)) for d in dims)
    return field(1, name) + field(2, field(1, field(1, dtype) + field(2, shape)))


def tensor(name, dims, dtype=FLOAT):
    n = 1
    for d in dims:
        n *= d
    data = {FLOAT: struct.pack("<f", 0.5), INT64: struct.pack("<q", 1), BOOL: b"\1"}[dtype] * n
    return b"".join(field(1, d) for d in dims) + field(2, dtype) + field(8, name) + field(9, data)


def node(op, ins, outs, name="", attrs=()):
    return (b"".join(field(1, i) for i in ins) + b"".join(field(2, o) for o in outs) + field(3, name or outs[0]) +
            field(4, op) + b"".join(field(5, a) for a in attrs))


def attr_int(name, v):
    return field(1, name) + field(3, v) + field(20, 2)


def attr_graph(name, g):
    return field(1, name) + field(6, g) + field(20, 5)


class Graph:
    def __init__(self):
        self.parts = [field(2, "g")]

    def node(self, *args, **kw):
        self.parts.append(field(1, node(*args, **kw)))

    def init(self, name, dims, dtype=FLOAT):
        self.parts.append(field(5, tensor(name, dims, dtype)))

    def input(self, name, dims, dtype=FLOAT):
        self.parts.append(field(11, value(name, dims, dtype)))

    def output(self, name, dims, dtype=FLOAT):
        self.parts.append(field(12, value(name, dims, dtype)))

    def bytes(self):
        return b"".join(self.parts)


def adds(n):
    """x + x + ... : a chain of n Adds."""
    g = Graph()
    g.input("x", [4])
    for i in range(n):
        g.node("Add", [f"a{i}" if i else "x", "x"], [f"a{i + 1}"])
    g.output(f"a{n}", [4])
    return g


def matmuls(n):
    """A chain of n MatMuls with one constant weight."""
    g = Graph()
    g.input("x", ["batch", 4])
    g.init("w", [4, 4])
    for i in range(n):
        g.node("MatMul", [f"a{i}" if i else "x", "w"], [f"a{i + 1}"])
    g.output(f"a{n}", ["batch", 4])
    return g


def outputs(n):
    """n Relus of the input, each an output."""
    g = Graph()
    g.input("x", [4])
    for i in range(n):
        g.node("Relu", ["x"], [f"y{i}"])
        g.output(f"y{i}", [4])
    return g


def symbols(n):
    """n inputs, each with a dim of its own name, and a Relu of each."""
    g = Graph()
    for i in range(n):
        g.input(f"x{i}", [f"s{i}"])
        g.node("Relu", [f"x{i}"], [f"y{i}"])
        g.output(f"y{i}", [f"s{i}"])
    return g


def wide_sum(n):
    """A Sum of n inputs, each a Relu."""
    g = Graph()
    g.input("x", [4])
    for i in range(n):
        g.node("Relu", ["x"], [f"r{i}"])
    g.node("Sum", [f"r{i}" for i in range(n)], ["y"])
    g.output("y", [4])
    return g


def concat(n):
    """A Concat of n inputs, each a Neg."""
    g = Graph()
    g.input("x", [1, 4])
    for i in range(n):
        g.node("Neg", ["x"], [f"r{i}"])
    g.node("Concat", [f"r{i}" for i in range(n)], ["y"], attrs=[attr_int("axis", 0)])
    g.output("y", [n, 4])
    return g


def ifs(n):
    """A chain of n Ifs of one condition; each branch has a node."""
    g = Graph()
    g.input("c", [], BOOL)
    g.input("x", [4])
    for i in range(n):
        before = f"a{i}" if i else "x"
        branches = []
        for which, op in (("then", "Relu"), ("else", "Neg")):
            b = Graph()
            b.node(op, [before], [f"{which}{i}"])
            b.output(f"{which}{i}", [4])
            branches.append(attr_graph(f"{which}_branch", b.bytes()))
        g.node("If", ["c"], [f"a{i + 1}"], attrs=branches)
    g.output(f"a{n}", [4])
    return g


def initializers(n):
    """n initializers, added to the input one after another in a tree's leaves."""
    g = Graph()
    g.input("x", [4])
    for i in range(n):
        g.init(f"w{i}", [4])
        g.node("Mul", ["x", f"w{i}"], [f"m{i}"])
    level = [f"m{i}" for i in range(n)]
    g.node("Sum", level, ["y"])
    g.output("y", [4])
    return g


def tree(n):
    """A binary tree of n Adds."""
    g = Graph()
    g.input("x", [4])
    level, made = ["x"] * (n + 1), 0
    while len(level) > 1:
        up = []
        for i in range(0, len(level) - 1, 2):
            up.append(f"t{made}")
            g.node("Add", level[i:i + 2], [up[-1]])
            made += 1
        level = up + level[len(level) // 2 * 2:]
    g.output(level[0], [4])
    return g


def diamonds(n):
    """Blocks of Conv, two activations of it and their Add, n nodes in all."""
    g = Graph()
    g.input("x", [1, 2, 4, 4])
    g.init("w", [2, 2, 1, 1])
    last = "x"
    for i in range(n // 4):
        g.node("Conv", [last, "w"], [f"c{i}"])
        g.node("Relu", [f"c{i}"], [f"p{i}"])
        g.node("Sigmoid", [f"c{i}"], [f"q{i}"])
        g.node("Add", [f"p{i}", f"q{i}"], [f"d{i}"])
        last = f"d{i}"
    g.output(last, [1, 2, 4, 4])
    return g


FAMILIES = {f.__name__: f for f in (adds, matmuls, outputs, symbols, wide_sum, concat, ifs, initializers, tree, diamonds)}


def save(graph, path):
    """A model of opset 17."""
    with open(path, "wb") as f:
        f.write(field(1, 8) + field(2, "families") + field(7, graph.bytes()) + field(8, field(1, "") + field(2, 17)))


def write(name, n, path):
    """A model with some n nodes."""
    save(FAMILIES[name](n), path)


if __name__ == "__main__":
    write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
