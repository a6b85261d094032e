# SPDX-License-Identifier: Apache-2.0
"""bench/speed.py: a run of one format and one peer, and what the page says of given results."""
import json
import subprocess
import sys

import common

SPEED = common.SOURCE / "bench" / "speed.py"
PEER = """import json, sys
n = dict(zip(sys.argv[1::2], sys.argv[2::2]))
print(json.dumps([{"model_type": "mouse Q4", "avg_ts": 2.0 if n["-p"] != "0" else 1.0}]))
"""


def contender(kind, name, bits, pp, tg, read, **more):
    samples = [{"read_gb_per_s": g, "tokens_per_s": {"pp512@0": p, "tg64@0": t}} for p, t, g in zip(pp, tg, read)]
    return {"kind": kind, "name": name, "label": name, "bits": bits, "samples": samples, **more}


class Speed(common.Case):
    def speed(self, *args):
        return subprocess.run([sys.executable, SPEED, *map(str, args)], capture_output=True, text=True, timeout=600)

    def report(self, *files):
        page, picture = self.tmp / "page.md", self.tmp / "page.svg"
        r = self.speed("report", *files, "--page", page, "--picture", picture)
        self.assertEqual(r.returncode, 0, r.stderr)
        return page.read_text(), picture.read_text()

    def write(self, *contenders):
        path = self.tmp / "r.json"
        path.write_text(json.dumps({"date": "2026-01-02", "machine": {"cpu": "C", "processors": 2}, "model": "1.1B", "threads": 2,
                                    "rounds": 3, "contenders": contenders}))
        return path

    def test_page(self):
        page, picture = self.report(self.write(
            contender("tenon", "w4g:32", 4.5, [200, 240, 220], [30, 50, 40], [20, 20, 21], perplexity_change={"demo": 0.9}),
            contender("tenon", "w2g", 2.125, [300, 300, 300], [60, 60, 60], [20, 20, 20]),
            contender("peer", "mouse Q4", 4.5, [100, 100, 110], [10, 20, 20], [20, 20, 20]),
            contender("tenon", "tern17", 1.69, [300, 300, 300], [80, 80, 80], [20, 20, 20], ternary=True),
            contender("peer", "mouse T2", 2.06, [100, 100, 100], [50, 50, 50], [20, 20, 20], ternary=True),
            contender("peer", "cat Q4", 4.6, [110, 110, 110], [16, 16, 16], [20, 20, 20])))
        row = {line.split("|")[1].strip(): [c.strip() for c in line.split("|")[2:-1]] for line in page.splitlines() if line[:1] == "|"}
        self.assertEqual(row["Tenon, w4g:32"], ["4.5", "220 (200 to 240)", "40.0 (30.0 to 50.0)", "2.00", "2.00", "demo +0.90 %"])
        self.assertEqual(row["Tenon, w2g"][3:], ["–", "–", "not measured"])  # no peer of two bits but a ternary one
        self.assertEqual(row["Tenon, tern17"][3:5], ["3.00", "1.60"])
        self.assertEqual(row["cat Q4"][1], "110 (110 to 110)")
        self.assertIn("Tenon w4g:32", picture)

    def test_windows(self):
        page, _ = self.report(self.write(contender("tenon", "w4g:32", 4.5, [1, 1, 1, 1], [30, 50, 31, 52], [20, 40, 21, 41])))
        self.assertIn("| 30.5 / 51.0 |", page)

    def test_measure(self):
        self.module("numpy")
        if not common.has_avx2():
            self.skipTest("no AVX2")
        peer, out = self.tmp / "peer.py", self.tmp / "out.json"
        peer.write_text(PEER)
        command = ["measure", common.TENON, "--model", common.DEMO, "--out", out, "--no-quality", "-p", "8", "-n", "2", "-d", "0,4",
                   "--peer", f"m,4.5,{sys.executable} {peer}", "--cache", self.tmp / "cache"]
        r = self.speed(*command, "--formats", "w4g:32", "--rounds", "2")
        self.assertEqual(r.returncode, 0, r.stderr)
        j = json.loads(out.read_text())
        self.assertEqual([c["label"] for c in j["contenders"]], ["w4g:32", "mouse Q4"])
        for c in j["contenders"]:
            self.assertEqual(len(c["samples"]), 2)
            self.assertEqual(sorted(c["samples"][0]["tokens_per_s"]), ["pp8@0", "pp8@4", "tg2@0", "tg2@4"])
        self.report(out)
        r = self.speed(*command, "--formats", "w4g:32", "--rounds", "1", "--add", "--packed")
        self.assertEqual(r.returncode, 0, r.stderr)
        more = json.loads(out.read_text())
        self.assertEqual((more["rounds"], [len(c["samples"]) for c in more["contenders"]]), (3, [3, 3]))
        self.assertEqual([c["samples"][:2] for c in more["contenders"]], [c["samples"] for c in j["contenders"]])
        r = self.speed(*command, "--formats", "w4g:128", "--rounds", "1", "--add")
        self.assertEqual((r.returncode, "not of these" in r.stderr), (1, True), r.stderr)

    def test_wrong_use(self):
        bad = self.tmp / "bad.json"
        bad.write_text("{}")
        for path in (bad, self.tmp / "none.json"):
            r = self.speed("report", path, "--page", self.tmp / "p", "--picture", self.tmp / "s")
            self.assertEqual(r.returncode, 1)
            self.assertIn(path.name, r.stderr)
            self.assertFalse((self.tmp / "p").exists())


if __name__ == "__main__":
    common.main()
