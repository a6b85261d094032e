#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators of a vendor's domain, with the plugin examples/vendor-backend/acme-ops.c: imported, their shapes inferred from
the plugin's rule, computed by the plugin, in its own process too; refused by name where nobody claims them. TENON_TEST_ACME
is the plugin's folder. Exit 77 where Python has no numpy or onnx."""
import os
import sys
import unittest

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

import common

WITH_OPS = "plugins: [acme-ops, host]\n"


def pair_max(x, scale):
    x = np.concatenate([x, x[..., -1:]], axis=-1) if x.shape[-1] % 2 else x
    return np.float32(scale) * np.maximum(x[..., 0::2], x[..., 1::2])


class Custom(common.Case):
    def model(self, scale=2.5, domain="com.acme", kind="PairMax", dims=("batch", "n"), dtype=T.FLOAT, version=1):
        """Abs, the operator twice, Neg."""
        attrs = {} if scale is None else {"scale": scale}
        nodes = [helper.make_node("Abs", ["x"], ["a"], name="abs"),
                 helper.make_node(kind, ["a"], ["b"], name="first", domain=domain, **attrs),
                 helper.make_node(kind, ["b"], ["c"], name="second", domain=domain),
                 helper.make_node("Neg", ["c"], ["y"], name="neg")]
        g = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", dtype, list(dims))],
                              [helper.make_tensor_value_info("y", dtype, None)])
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid(domain, version)],
                              ir_version=8)
        path = self.tmp / "model.onnx"
        path.write_bytes(m.SerializeToString())
        return path

    def plugin(self, *args, profile=WITH_OPS):
        return [*args, "--profile", self.profile(profile), "--plugin-dir", os.environ["TENON_TEST_ACME"]]

    def infer(self, path, x, profile=WITH_OPS):
        np.save(self.tmp / "x.npy", x)
        out = self.tmp / "out"
        self.ok(*self.plugin("infer", path, "--in", f"x={self.tmp / 'x.npy'}", "--out", out, profile=profile))
        return np.load(next(out.glob("*.npy")))

    def test_end_to_end(self):
        rng = np.random.default_rng(5)
        for profile in WITH_OPS, "isolation: process\n" + WITH_OPS:
            for shape in (1, 1), (3, 8), (2, 7), (5, 30):
                for scale in 2.5, None:
                    with self.subTest(profile=profile, shape=shape, scale=scale):
                        x = rng.standard_normal(shape, dtype=np.float32)
                        want = -pair_max(pair_max(np.abs(x), 1 if scale is None else scale), 1)
                        got = self.infer(self.model(scale), x, profile)
                        self.assertEqual(got.shape, want.shape)
                        self.assertTrue((got == want).all())

    def test_more_dims(self):
        x = np.random.default_rng(6).standard_normal((2, 3, 4, 10), dtype=np.float32)
        got = self.infer(self.model(dims=("a", "b", 4, "n")), x)
        self.assertTrue((got == -pair_max(pair_max(np.abs(x), 2.5), 1)).all())

    def test_shape_is_known(self):
        """Symbolic, by the plugin's rule: rounded up twice."""
        out = self.ok(*self.plugin("inspect", self.model(dims=("batch", 10)))).stdout
        self.assertRegex(out, r"y .*batch.*3")

    def test_who_takes_it(self):
        out = self.ok(*self.plugin("check", self.model(), "--all")).stdout
        self.assertIn("acme-ops", out)

    def test_nobody_knows_it(self):
        self.fails(4, "PairMax 'first'", "no plugin of profile", "lists this operator",
                   args=["infer", self.model(), "--in", f"x={self.vector()}", "--profile", "host"])

    def test_another_operator(self):
        self.fails(4, "Other 'first'", "no plugin of profile",
                   args=self.plugin("infer", self.model(kind="Other"), "--in", f"x={self.vector()}"))

    def test_known_but_refused(self):
        np.save(self.tmp / "x.npy", np.zeros((2, 4), np.float64))
        self.fails(4, "PairMax 'first'", "plugin 'acme-ops' lists the operator and refused this node",
                   "com.acme.PairMax is computed in float32",
                   args=self.plugin("infer", self.model(scale=None, dtype=T.DOUBLE), "--in", f"x={self.tmp / 'x.npy'}"))

    def test_of_a_constant(self):
        """It would be a slot that nobody writes: refused, though the plugin knows the operator."""
        g = helper.make_graph([helper.make_node("PairMax", ["w"], ["b"], name="first", domain="com.acme"),
                               helper.make_node("Add", ["x", "b"], ["y"])], "g",
                              [helper.make_tensor_value_info("x", T.FLOAT, [2, 2])],
                              [helper.make_tensor_value_info("y", T.FLOAT, None)],
                              [helper.make_tensor("w", T.FLOAT, [2, 4], list(range(8)))])
        m = helper.make_model(g, opset_imports=[helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)], ir_version=8)
        path = self.tmp / "constant.onnx"
        path.write_bytes(m.SerializeToString())
        np.save(self.tmp / "x.npy", np.ones((2, 2), np.float32))
        self.fails(4, "PairMax 'first'", "refused this node", "no constant and no cache",
                   args=self.plugin("infer", path, "--in", f"x={self.tmp / 'x.npy'}"))

    def test_against_the_rule(self):
        """No last dim: the rule wants one."""
        np.save(self.tmp / "x.npy", np.float32(1))
        self.fails(3, "first", "operand 0 has rank 0",
                   args=self.plugin("infer", self.model(dims=()), "--in", f"x={self.tmp / 'x.npy'}"))

    def vector(self):
        np.save(self.tmp / "x.npy", np.ones((2, 4), np.float32))
        return self.tmp / "x.npy"


if __name__ == "__main__":
    unittest.main()
