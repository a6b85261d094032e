# SPDX-License-Identifier: Apache-2.0
"""verify --against on inputs that are made up, for models without test data."""
import re
import unittest

import families
from common import DEMO, Case, has_avx2, main


class Made(Case):
    def rows(self, *args):
        return self.json("verify", *args)["rows"]

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_a_language_model(self):
        """Ids, a mask over past and run, positions after the past, caches."""
        r = self.ok("verify", DEMO, "--against", "reference")
        self.assertIn("holds no test data: inputs are made up, --seed 1", r.stderr)
        self.assertRegex(r.stdout, r"made up, seed 1 +logits +ok")
        self.assertRegex(r.stdout, r"each task +[1-9][0-9]* plugin tasks, [0-9]{5,} elements +ok")
        seven = self.rows(DEMO, "--against", "reference", "--seed", 7)
        self.assertEqual(seven, self.rows(DEMO, "--against", "reference", "--seed", 7))
        self.assertNotEqual(seven, self.rows(DEMO, "--against", "reference", "--seed", 8))
        per_task = [int(re.search(r"([0-9]+) elements", self.ok("verify", DEMO, "--against", "reference", "--length", n).stdout)[1])
                    for n in (1, 16)]
        self.assertEqual(per_task[1] % 16, 0)
        self.assertGreater(per_task[1], 8 * per_task[0])

    def graph(self, *inputs):
        """Each input through an Identity of its own."""
        g = families.Graph()
        for name, dims, dtype in inputs:
            g.input(name, dims, dtype)
            g.node("Identity", [name], [f"y_{name}"])
            g.output(f"y_{name}", dims, dtype)
        families.save(g, self.tmp / "m.onnx")
        return self.tmp / "m.onnx"

    def test_types_and_dims(self):
        kinds = range(1, 14)  # but for text (8)
        path = self.graph(*[(f"x{k}", ["batch", "n", "batch + 2*n", 3], k) for k in kinds if k != 8])
        rows = self.rows(path, "--against", "host", "--profile", "host")
        self.assertEqual([r["result"] for r in rows], ["ok"] * 12)

    def test_refusals(self):
        path = self.graph(("x", ["batch"], families.FLOAT))
        self.fails(3, "holds no test_data_set_* folder", args=["verify", path])
        self.fails(3, "holds no test_data_set_* folder", args=["verify", path, "--against", "host", "--data", self.tmp])
        huge = self.graph(("x", [1 << 20, 1 << 20], families.FLOAT))
        self.fails(3, "'x' cannot be made up: it would take over 4 GiB",
                   args=["verify", huge, "--against", "host", "--profile", "host"])


if __name__ == "__main__":
    main()
