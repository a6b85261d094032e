# SPDX-License-Identifier: Apache-2.0
"""What loading may take: small files that ask for much are refused, and the message names the key that allows more.
Initializers that are inputs too, which a run may give."""
import resource
import subprocess
import unittest

import families
from common import EMULATOR, TENON, Case, has_asan, main

FLOATS = 16000  # 64,000 bytes: the most that is folded


def expands(n):
    """x + Expand(0.5) + Expand(0.5) ...: each becomes a constant of its own."""
    g = families.Graph()
    g.input("x", [FLOATS])
    g.init("half", [1])
    g.parts.append(families.field(5, families.field(1, 1) + families.field(2, families.INT64) + families.field(8, "shape") +
                                  families.field(9, FLOATS.to_bytes(8, "little"))))
    for i in range(n):
        g.node("Expand", ["half", "shape"], [f"e{i}"])
        g.node("Add", [f"a{i}" if i else "x", f"e{i}"], [f"a{i + 1}"])
    g.output(f"a{n}", [FLOATS])
    return g


def sums(n):
    """n sums of one constant of 4 MB, each folded."""
    g = families.Graph()
    g.input("x", [1])
    g.init("w", [1 << 20])
    for i in range(n):
        g.node("ReduceMax", ["w"], [f"s{i}"])
        g.node("Add", [f"a{i}" if i else "x", f"s{i}"], [f"a{i + 1}"])
    g.output(f"a{n}", [1])
    return g


class Limits(Case):
    def check(self, graph, load=""):
        path = self.tmp / "m.onnx"
        families.save(graph, path)
        p = self.profile(f"plugins: []\nthreads: 1\n{load}\n")
        return ("check", path, "--profile", p, "--cache-dir", "")

    def test_bytes(self):
        self.ok(*self.check(expands(300)))
        self.fails(3, "takes more than 8388608 bytes", "`load: {max_bytes: N}`",
                   args=self.check(expands(300), "load: {max_bytes: 8M}"))
        self.ok(*self.check(expands(300), "load: {max_bytes: 64M}"))

    def test_steps(self):
        self.ok(*self.check(sums(20)))
        self.fails(3, "takes more than 20000000 steps", "`load: {max_steps: N}`",
                   args=self.check(sums(20), "load: {max_steps: 20000000}"))
        self.ok(*self.check(sums(20), "load: {max_steps: 2000000000}"))

    def test_keys(self):
        g = expands(1)
        self.fails(3, "max_bites", "max_bytes", args=self.check(g, "load: {max_bites: 8M}"))
        self.fails(3, "load.max_steps", args=self.check(g, "load: {max_steps: 0}"))
        self.fails(3, "load", args=self.check(g, "load: 8M"))

    @unittest.skipIf(has_asan(), "its shadow counts as memory")
    def test_a_small_file_that_asks_for_much(self):
        """2 MB that would take 1.9 GB, without any key."""
        args = [*EMULATOR, TENON, *map(str, self.check(expands(30000)))]
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        r = subprocess.run(args, capture_output=True, text=True)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertEqual(r.returncode, 3, r.stderr)
        self.assertIn("`load: {max_bytes: N}`", r.stderr)
        self.assertLess(max(most, before) * 1024, 1 << 30)


class Presets(Case):
    """ONNX, IR version 4: an initializer that is an input too is that input's default."""

    def model(self, ir=8):
        g = families.Graph()
        g.input("x", [4])
        g.input("w", [4])
        g.init("w", [4])
        g.node("Add", ["x", "w"], ["y"])
        g.output("y", [4])
        path = self.tmp / "p.onnx"
        families.save(g, path)
        data = path.read_bytes()
        self.assertEqual(data[:2], b"\x08\x08")
        path.write_bytes(bytes([8, ir]) + data[2:])
        return path

    def infer(self, path, **given):
        np = self.module("numpy")
        args = []
        for name, value in given.items():
            np.save(self.tmp / f"{name}.npy", np.full(4, value, np.float32))
            args += ["--in", f"{name}={self.tmp / name}.npy"]
        return ("infer", path, "--profile", "host", *args, "--out", self.tmp / "out")

    def result(self, *args, **given):
        np = self.module("numpy")
        self.ok(*self.infer(*args, **given))
        return np.load(self.tmp / "out/y.npy").tolist()

    def test_given_or_not(self):
        path = self.model()
        self.assertEqual(self.result(path, x=1), [1.5] * 4)
        self.assertEqual(self.result(path, x=1, w=2), [3] * 4)

    def test_a_constant_without_asking(self):
        self.assertEqual([i["name"] for i in self.json("inspect", self.model(), "--profile", "host")["inputs"]], ["x"])

    def test_refusals(self):
        self.fails(3, "'w' cannot be given: before IR version 4", args=self.infer(self.model(3), x=1, w=2))
        self.assertEqual(self.result(self.model(3), x=1), [1.5] * 4)
        self.fails(3, "no input 'v'", args=self.infer(self.model(), x=1, v=2))
        self.fails(3, "input 'x' is missing", args=self.infer(self.model(), w=2))


if __name__ == "__main__":
    main()
