# SPDX-License-Identifier: Apache-2.0
"""`tenon bench`: what it prints, that a peer is asked for the same and in turns, and what it says of wrong use."""
import csv
import io
import json
import unittest

import common
from common import DEMO

PEER = """#!/usr/bin/env python3
import json, sys
a = sys.argv[1:]
with open({log!r}, "a") as f:
    f.write(" ".join(a) + "\\n")
o = dict(zip(a[::2], a[1::2]))
rate = {rate}
print(json.dumps([{{"model_type": "mouse 1B Q4_0", "n_prompt": int(o["-p"]), "n_gen": int(o["-n"]), "avg_ts": rate,
                    "samples_ts": [rate]}}]))
sys.exit({code})
"""


class Bench(common.Case):
    def peer(self, name="peer", rate="1.5 * (1 + open({log!r}).read().count('\\n'))", code=0):
        path, log = self.tmp / name, str(self.tmp / (name + ".log"))
        path.write_text(PEER.format(log=log, rate=rate.format(log=log), code=code))
        path.chmod(0o755)
        return path, self.tmp / (name + ".log")

    def bench(self, *args):
        return self.json("bench", DEMO, "--profile", "host", "-r", "3", *args)

    def test_rows(self):
        j = self.bench("-p", "16,33", "-n", "4", "-d", "0,40")
        self.assertEqual([r["test"] for r in j["rows"]],
                         ["pp16", "pp33", "pp16 @ d40", "pp33 @ d40", "tg4", "tg4 @ d40"])
        for r in j["rows"]:
            t = r["tokens_per_s"]
            self.assertEqual(len(r["samples"]), 3)
            self.assertEqual(sorted(r["samples"]), [t["min"], t["median"], t["max"]])
            self.assertGreater(t["min"], 0)
        self.assertEqual((j["profile"], j["format"], j["rounds"]), ("host", "f32", 3))
        self.assertGreater(j["peak_rss_bytes"], 10 << 20)
        self.assertGreaterEqual(j["machine"]["processors"], 1)
        self.assertEqual(list(j["placement"]), ["host"])
        for args in (["-p", "0", "-n", "1,5"], ["-p", "0", "-n", "5", "-d", "7"], ["-p", "1", "-n", "0", "-d", "0,1"]):
            self.assertEqual(len(self.bench(*args)["rows"]), 2 if "," in "".join(args) else 1)  # caches just long enough

    def test_formats(self):
        args = ["bench", DEMO, "--profile", "host", "-r", "1", "--no-warmup", "-p", "8", "-n", "0"]
        rows = list(csv.DictReader(io.StringIO(self.ok(*args, "--format", "csv").stdout)))
        self.assertEqual([(r["who"], r["test"]) for r in rows], [("tenon", "pp8")])
        self.assertTrue(self.ok(*args, "--format", "md").stdout.startswith("| model "))
        self.assertIn("medians of 1", self.ok(*args).stderr)

    def test_peer(self):
        path, log = self.peer()
        j = self.bench("-p", "8", "-n", "2", "-d", "0,5", "--peer", f"{path}")
        want = ["-p 8 -n 0 -r 1 -o json", "-p 8 -n 0 -d 5 -r 1 -o json", "-p 0 -n 2 -r 1 -o json", "-p 0 -n 2 -d 5 -r 1 -o json"]
        self.assertEqual(log.read_text().splitlines(), want * 3)  # not in the round that is not counted
        rows = [r for r in j["rows"] if "peer" in r]
        self.assertEqual([r["test"] for r in rows], ["pp8", "pp8 @ d5", "tg2", "tg2 @ d5"])
        self.assertEqual(rows[0]["samples"], [3.0, 9.0, 15.0])
        self.assertEqual((rows[0]["tokens_per_s"]["median"], rows[0]["peer_model"]), (9.0, "mouse 1B Q4_0"))

    def test_wrong_peers(self):
        broken, _ = self.peer("broken", code=1)
        silent = self.tmp / "silent"
        silent.write_text("#!/bin/sh\nexit 0\n")
        silent.chmod(0o755)
        for cmd, words in ((broken, "ended with an error"), (silent, "printed no JSON"), (self.tmp / "none", "ended with")):
            self.fails(3, "--peer", words, args=["bench", DEMO, "--profile", "host", "-p", "4", "-n", "0", "--peer", cmd])

    def test_wrong_use(self):
        for args, words in ((["-p", "x"], "-p takes"), (["-p", "8,,9"], "-p takes"), (["-n", "-1"], "-n takes"),
                            (["-p", "0", "-n", "0"], "nothing to measure"), (["-r", "0"], "-r takes"),
                            (["-p", "2000", "-d", "2000"], "the model has 2048")):
            self.fails(2, words, args=["bench", DEMO, "--profile", "host", *args])
        self.fails(3, "no-such-folder", args=["bench", "no-such-folder"])
        e = json.loads(self.fails(3, args=["bench", "no-such-folder", "--format", "json"]).stdout)
        self.assertIn("no-such-folder", e["error"]["message"])


if __name__ == "__main__":
    common.main()
