# SPDX-License-Identifier: Apache-2.0
"""bench/peers: what a wrapper takes, what it asks of its engine and when, what it prints, what it says of what is missing; and the
real peers on a tiny model where TENON_PEERS names the environment of bench/peers/install.sh."""
import json
import os
import pathlib
import subprocess
import sys

import common

PEERS = common.SOURCE / "bench" / "peers"
MODULES = {"llama.cpp": ("run_llama_cpp.py", "llama_cpp", "llama-cpp-python"),
           "openvino": ("run_openvino.py", "openvino", "openvino"),
           "genai": ("run_genai.py", "onnxruntime_genai", "onnxruntime-genai")}
FAKE = """
import sys, types
sys.path.insert(0, {peers!r})
import peer
class Engine:
    seconds = 0  # of its own clock
    label, vocab = "mouse 1B", 100
    def __init__(self, model, threads, room):
        if threads == 3: raise peer.Refused("three is a crowd")
        self.room, self.at, self.log = room, 0, open({log!r}, "a")
        self.say(f"threads {{threads}} room {{room}}")
    def say(self, what): print(what, file=self.log, flush=True)
    def reset(self):
        self.at = 0
        self.say("reset")
    def prompt(self, ids):
        assert all(0 <= i < 100 for i in ids)
        self.at += len(ids)
        assert self.at <= self.room
        self.say(f"prompt {{len(ids)}} first {{ids[0]}}")
        Engine.seconds += 0.25 * len(ids)
    def pick(self):
        Engine.seconds += 64
        assert self.at + 1 < self.room  # a generator ends where its text is full
        return 7
    def step(self, token):
        assert token == 7
        self.at += 1
        assert self.at + 1 < self.room
        self.say("step")
        Engine.seconds += 0.5
        return 7
peer.time = types.SimpleNamespace(perf_counter=lambda: Engine.seconds)
sys.exit(peer.main("A mouse.", "mouse", Engine))
"""


class Peers(common.Case):
    def run_it(self, *args, env=None, python=sys.executable):
        return subprocess.run([python, *map(str, args)], check=False, capture_output=True, text=True, timeout=1800,
                              env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1", **(env or {})))

    def fake(self):
        path, log = self.tmp / "mouse.py", self.tmp / "log"
        path.write_text(FAKE.format(peers=str(PEERS), log=str(log)))
        return path, log

    def rows(self, r):
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)

    def test_calls(self):
        path, log = self.fake()
        rows = self.rows(self.run_it(path, "-m", path, "-t", "2", "-p", "9", "-n", "10", "-d", "40", "-r", "2", "-o", "json"))
        self.assertEqual([(r["n_prompt"], r["n_gen"], r["n_depth"], r["n_threads"]) for r in rows], [(9, 0, 40, 2), (0, 10, 40, 2)])
        self.assertEqual([r["model_type"] for r in rows], ["mouse 1B"] * 2)
        pp, tg = ["reset", "prompt 40 first", "prompt 9 first"], ["reset", "prompt 40 first"] + ["step"] * 10
        warm = ["reset", "prompt 32 first"]
        said = [" ".join(line.split()[:3]) for line in log.read_text().splitlines()]
        self.assertEqual(said[0], "threads 2 room")
        self.assertEqual(said[1:], warm + ["prompt 9 first"] + pp * 2 + warm + ["step"] * 8 + tg * 2)

    def test_clock(self):
        """What lies before the clock is not in the rate: a position of a prompt takes 1/4 s, a step 1/2."""
        path, _ = self.fake()
        rows = self.rows(self.run_it(path, "-m", path, "-p", "4", "-n", "2", "-d", "300", "-r", "1"))
        self.assertEqual([(r["samples_ts"], r["avg_ts"]) for r in rows], [([4.0], 4.0), ([2.0], 2.0)])

    def test_under_tenon(self):
        path, log = self.fake()
        j = self.json("bench", common.DEMO, "--profile", "host", "-r", "2", "-p", "8", "-n", "2", "-d", "0,5", "--peer",
                      f"{sys.executable} {path} -m {path} -t 1")
        rows = [r for r in j["rows"] if "peer" in r]
        self.assertEqual([(r["test"], r["peer_model"], len(r["samples"])) for r in rows],
                         [(t, "mouse 1B", 2) for t in ("pp8", "pp8 @ d5", "tg2", "tg2 @ d5")])
        self.assertEqual(log.read_text().count("threads 1"), 8)

    def test_wrong_use(self):
        path, _ = self.fake()
        for args, code, words in ((["-p", "0", "-n", "0"], 2, "nothing to measure"), (["-p", "-1"], 2, "below 0"),
                                  (["-r", "0"], 2, "at least 1"), (["-o", "md"], 2, "invalid choice"),
                                  (["-t", "3"], 3, "three is a crowd")):
            r = self.run_it(path, "-m", path, *args)
            self.assertEqual((r.returncode, r.stdout), (code, ""), args)
            self.assertIn(words, r.stderr)
        r = self.run_it(path, "-m", self.tmp / "none")
        self.assertEqual(r.returncode, 3)
        self.assertIn("none: no such file", r.stderr)

    def test_wrappers_say_what_is_missing(self):
        for script, module, package in MODULES.values():
            self.assertIn("--n-depth", self.run_it(PEERS / script, "--help").stdout)
            (self.tmp / f"{module}.py").write_text(f"raise ImportError('no {module} here')\n")
            r = self.run_it(PEERS / script, "-m", self.tmp, env={"PYTHONPATH": str(self.tmp)})
            self.assertEqual(r.returncode, 3, r.stderr)
            self.assertIn(f"install PyPI's {package} (bench/peers/install.sh", r.stderr)
            self.assertEqual(len(r.stderr.splitlines()), 1, r.stderr)

    def real(self, peer):
        if not os.environ.get("TENON_PEERS"):
            self.skipTest("TENON_PEERS names no environment of bench/peers/install.sh")
        python = pathlib.Path(os.environ["TENON_PEERS"]) / "bin" / "python"
        script, module, package = MODULES[peer]
        if self.run_it("-c", f"import {module}", python=python).returncode:
            self.skipTest(f"{package} is not in {os.environ['TENON_PEERS']}")
        model = self.tmp / "model"
        made = self.run_it(PEERS / "make.py", model, "--peer", peer, "--shape", "tiny", python=python)
        self.assertEqual(made.returncode, 0, made.stderr)
        r = self.run_it(PEERS / script, "-m", model, "-t", "1", "-p", "16", "-n", "4", "-d", "8", "-r", "2", python=python)
        rows = self.rows(r)
        self.assertEqual([(x["n_prompt"], x["n_gen"], len(x["samples_ts"])) for x in rows], [(16, 0, 2), (0, 4, 2)])
        self.assertTrue(all(0 < v < 1e7 for x in rows for v in x["samples_ts"]))
        self.assertIn("llama", rows[0]["model_type"])
        wrong = self.run_it(PEERS / script, "-m", PEERS, "-t", "1", "-p", "1", "-n", "0", "-r", "1", python=python)
        self.assertEqual(wrong.returncode, 3, wrong.stderr)

    def test_llama_cpp(self):
        self.real("llama.cpp")

    def test_openvino(self):
        self.real("openvino")

    def test_genai(self):
        self.real("genai")


if __name__ == "__main__":
    common.main()
