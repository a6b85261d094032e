# SPDX-License-Identifier: Apache-2.0
"""`tenon trace`: the trace file, and where the time goes by what tasks compute."""
import json

import common
from common import DEMO

MATMUL = {"MatMul", "FusedMatMul", "Gemm"}
PARTS = ["matmul", "attention", "norm", "rotary", "caches", "embedding", "other", "between tasks", "between steps"]
ARGS = ["-p", "In the beginning", "-n", "9", "--temp", "0", "--ignore-eos"]


def part_of(ops):
    ops = set(ops.split())
    for part, names in (("attention", {"Attention"}), ("matmul", MATMUL), ("norm", {"RMSNormalization"}),
                        ("rotary", {"RotaryEmbedding"}), ("caches", {"TensorScatter"}), ("embedding", {"Gather"})):
        if ops & names:
            return part
    return "other"


class Trace(common.Case):
    def both(self, profile):
        path = self.tmp / "trace.json"
        j = json.loads(self.ok("trace", DEMO, *ARGS, "--profile", profile, "-o", path, "--summary", "--format", "json").stdout)
        return j, [e for e in json.loads(path.read_text())["traceEvents"] if e["ph"] == "X"]

    def check_sum(self, s, events):
        """Parts are in order and add up to the time; each has the file's tasks and, but for rounding, their time."""
        self.assertEqual([p["part"] for p in s["parts"]], PARTS)
        self.assertAlmostEqual(sum(p["share"] for p in s["parts"]), 1, places=6)
        self.assertAlmostEqual(sum(p["ms"] for p in s["parts"]), s["ms"], places=6)
        self.assertEqual(s["steps"], len({e["args"]["step"] for e in events}))
        for p in s["parts"][:-2]:
            mine = [e for e in events if part_of(e["args"]["ops"]) == p["part"]]
            self.assertEqual(p["tasks"], len(mine), p["part"])
            self.assertAlmostEqual(p["ms"], sum(e["dur"] for e in mine) / 1000, delta=0.001 * (1 + len(mine)))
        outside = sum(p["share"] for p in s["parts"] if p["part"] not in ("matmul", "attention"))
        self.assertAlmostEqual(s["outside_matmul_and_attention"], outside, places=6)
        self.assertTrue(all(p["ms"] >= 0 for p in s["parts"]))

    def check(self, profile):
        j, events = self.both(profile)
        first = min(e["args"]["step"] for e in events)
        self.check_sum(j["prompt"], [e for e in events if e["args"]["step"] == first])
        self.check_sum(j["decode"], [e for e in events if e["args"]["step"] != first])
        self.assertEqual((j["decode"]["steps"], j["prompt"]["steps"], j["elsewhere"]), (8, 1, 0))
        tasks = {p["part"]: p["tasks"] for p in j["decode"]["parts"]}
        self.assertEqual((tasks["attention"], tasks["embedding"]), (6 * 8, 8))  # six layers
        self.assertGreaterEqual(tasks["matmul"], 4 * 6 * 8)
        self.assertGreaterEqual(tasks["norm"], 2 * 6 * 8)
        self.assertGreater(j["decode"]["parts"][-2]["ms"], 0)
        return events

    def test_host(self):
        self.check("host")

    def test_plugin(self):
        """q, k and v are one task of three nodes, which says its operator once."""
        if not common.has_avx2():
            self.skipTest("no cpu-avx2-lut here")
        events = self.check("cpu-avx2")
        self.assertLessEqual({e["args"]["ops"] for e in events if e["name"].startswith("linear")}, MATMUL)

    def test_formats(self):
        r = self.ok("trace", DEMO, *ARGS, "--profile", "host", "--summary", "--format", "md")
        self.assertTrue(r.stdout.startswith("| part "))
        self.assertIn("| all |", r.stdout)
        self.assertIn("outside matmul and attention", r.stderr)

    def test_wrong_use(self):
        self.fails(2, "-o FILE or --summary", args=["trace", DEMO, *ARGS])
        self.fails(6, "cannot write", args=["trace", DEMO, *ARGS, "--summary", "-o", self.tmp / "none" / "x.json"])


if __name__ == "__main__":
    common.main()
