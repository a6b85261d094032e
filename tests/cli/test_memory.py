# SPDX-License-Identifier: Apache-2.0
"""--max-memory: models of a kilobyte that ask for gigabytes, each by another operator, end with a message inside the limit."""
import os
import resource
import sys

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

from common import TENON, Case, has_asan, main

LIMIT_MB = 300
FLOATS = {"x1": (1,), "x4": (4,), "x64": (64,), "x44": (1, 1, 4, 4)}


def info(name, dtype, dims):
    return h.make_tensor_value_info(name, dtype, dims)


def ints(name, *v):
    return h.make_tensor(name, T.INT64, [len(v)], v)


def one(name, dtype, v):
    return h.make_tensor(name, dtype, [], [v])


def loop_body():
    return h.make_graph([h.make_node("Identity", ["c"], ["co"]), h.make_node("ConstantOfShape", ["s"], ["o"])], "body",
                        [info("i", T.INT64, []), info("c", T.BOOL, [])], [info("co", T.BOOL, []), info("o", T.FLOAT, None)])


# name: (nodes, input's shape or None, constants, dtype of y)
MODELS = {
    "constant of shape": ([h.make_node("ConstantOfShape", ["s"], ["y"])], None, [ints("s", 1 << 20, 1 << 16)], T.FLOAT),
    "many of them": ([h.make_node("ConstantOfShape", ["s"], [f"y{i}"]) for i in range(20)] +
                     [h.make_node("Concat", [f"y{i}" for i in range(20)], ["y"], axis=0)], None, [ints("s", 1 << 23)], T.FLOAT),
    "folded and added": ([h.make_node("ConstantOfShape", ["s"], ["y0"])] +
                         [h.make_node("Concat", [f"y{i}", f"y{i}"], [f"y{i + 1}"], axis=0) for i in range(12)] +
                         [h.make_node("Neg", ["y12"], ["y"])], None, [ints("s", 1 << 20)], T.FLOAT),
    "expand": ([h.make_node("Expand", ["x", "s"], ["y"])], "x1", [ints("s", 1 << 40)], T.FLOAT),
    "tile": ([h.make_node("Tile", ["x", "s"], ["a"]), h.make_node("Tile", ["a", "s"], ["b"]), h.make_node("Tile", ["b", "s"], ["y"])], "x4",
             [ints("s", 100000)], T.FLOAT),
    "known only when it runs": ([h.make_node("NonZero", ["x"], ["n"]), h.make_node("Tile", ["n", "s"], ["y"])], "x64", [ints("s", 1000, 10**6)],
                                T.INT64),
    "loop": ([h.make_node("Loop", ["n", "t"], ["y"], body=loop_body())], None, [one("n", T.INT64, 10**6), one("t", T.BOOL, 1), ints("s", 1 << 20)],
             T.FLOAT),
    "resize": ([h.make_node("Resize", ["x", "", "f"], ["y"])], "x44", [h.make_tensor("f", T.FLOAT, [4], [1, 1, 1e5, 1e5])], T.FLOAT),
    "pad": ([h.make_node("Pad", ["x", "s"], ["y"])], "x4", [ints("s", 1 << 36, 0)], T.FLOAT),
    "range": ([h.make_node("Range", ["a", "b", "c"], ["y"])], None, [one("a", T.INT64, 0), one("b", T.INT64, 1 << 36), one("c", T.INT64, 1)], T.INT64),
    "one hot": ([h.make_node("OneHot", ["i", "d", "v"], ["y"])], None,
                [ints("i", *range(8)), one("d", T.INT64, 1 << 34), h.make_tensor("v", T.FLOAT, [2], [0, 1])], T.FLOAT),
    "eye": ([h.make_node("ConstantOfShape", ["s"], ["z"]), h.make_node("EyeLike", ["z"], ["y"])], None, [ints("s", 1 << 17, 1 << 17)], T.FLOAT),
}


class Memory(Case):
    def setUp(self):
        super().setUp()
        if has_asan():
            self.skipTest("the address sanitizer's own mappings are over every limit")

    def call(self, *args):
        return self.tenon(*args, "--profile", "host", timeout=120)

    def test_bombs(self):
        for name, shape in FLOATS.items():
            np.save(self.tmp / f"{name}.npy", np.ones(shape, np.float32))
        for name, (nodes, x, constants, dtype) in MODELS.items():
            with self.subTest(name):
                inputs = [info("x", T.FLOAT, FLOATS[x])] if x else []
                graph = h.make_graph(nodes, "g", inputs, [info("y", dtype, None)], constants)
                f = self.tmp / "m.onnx"
                onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), f)
                self.assertLess(f.stat().st_size, 2048)
                feed = ["--in", f"x={self.tmp / x}.npy"] if x else []
                for command in (["infer", f, *feed], ["inspect", f], ["check", f]):
                    r = self.call(*command, "--max-memory", f"{LIMIT_MB}M")
                    self.assertIn(r.returncode, (3, 5) if command[0] == "infer" else (0, 3, 4, 5), r.stderr)
                    if r.returncode:
                        self.assertIn("tenon:", r.stderr)
        peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        self.assertLess(peak, (LIMIT_MB + 64) * 1024)  # the program's own pages and mapped files beside it

    def test_sizes(self):
        f = self.tmp / "m.onnx"
        onnx.save(h.make_model(h.make_graph([h.make_node("Neg", ["x"], ["y"])], "g", [info("x", T.FLOAT, [1])], [info("y", T.FLOAT, [1])])), f)
        for size in ("1G", "512m", "500000K", str(1 << 30)):
            self.assertEqual(self.call("check", f, "--max-memory", size).returncode, 0, size)
        for size in ("", "x", "-1", "1T", "1GG", "99999999999999999999", "0"):
            self.assertEqual(self.call("check", f, "--max-memory", size).returncode, 2, size)


if __name__ == "__main__":
    main()
