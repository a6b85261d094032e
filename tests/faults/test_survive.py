#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Plugins in the host's process that hang, under `tenon run`: the text goes on without them.

Usage: test_survive.py TENON CORPUS SOURCE ENGINE: the last is the folder of fake-engine.
"""
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest

TENON, CORPUS, SOURCE, ENGINE = sys.argv[1:5]
LATE_MS = 500
WORK = tempfile.TemporaryDirectory(prefix="tenon-survive-")


def profile(plugin, more="", options="completion: never"):
    path = pathlib.Path(WORK.name, f"{plugin}{abs(hash(more + options))}.yaml")
    options = f", options: {{{options}}}" if plugin == "fake-engine" else ""
    path.write_text(f"plugins:\n  - {{name: {plugin}, probe: inprocess{options}}}\n  - host\nthreads: 2\n{more}")
    return path


def command(path, *more):
    return [TENON, "run", f"{SOURCE}/models/demo", "-p", "Once upon a time", "-n", "24", "--temp", "0", "--profile",
            str(path), "--plugin-dir", CORPUS, "--plugin-dir", ENGINE, "--cache-dir", f"{WORK.name}/cache", *more]


def run(plugin, more=f"timeout_ms: {LATE_MS}\n"):
    return subprocess.run(command(profile(plugin, more)), capture_output=True, text=True, timeout=60)


def losses(text):
    return re.findall(r"plugin '([^']*)' is lost \(([^\n]*)", text)


class Survive(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        good = run("good")
        cls.text = good.stdout
        assert good.returncode == 0 and "good 43 nodes" in good.stderr and not losses(good.stderr), good.stderr

    def goes_on(self, plugin, where):
        """The same text, one line that names plugin and place, exit code 0."""
        got = run(plugin)
        self.assertEqual(got.returncode, 0, got.stderr)
        self.assertEqual(got.stdout, self.text)
        found = losses(got.stderr)
        self.assertEqual([name for name, _ in found], [plugin], got.stderr)
        self.assertRegex(found[0][1], where)
        self.assertNotIn("never freed", got.stderr)
        return got

    def test_run(self):
        got = self.goes_on("late-run-hang", f"'[^']*MatMul[^']*' did not come back within {LATE_MS} ms")
        self.assertRegex(got.stderr, "placed again; 1?[0-9] cached positions were kept")

    def test_threads(self):
        self.goes_on("late-pool-hang", f"'[^']*MatMul[^']*' did not come back within {LATE_MS} ms")

    def test_args_free(self):
        self.goes_on("args-free-hang", "'(args_free|[^']*MatMul[^']*)' did not come back")

    def test_signals(self):
        """Threads that a plugin starts in open get none of the application's signals."""
        got = run("open-thread", "")
        self.assertEqual((got.returncode, got.stdout), (0, self.text), got.stderr)
        self.assertIn("open-thread 43 nodes", got.stderr)

    def test_close(self):
        self.goes_on("close-hang", "'close' did not come back")

    def test_completion(self):
        self.goes_on("fake-engine", f"did not complete 'fake-add-0' within {LATE_MS} ms")

    def test_many(self):
        """Two plugins that hang, one after the other."""
        path = pathlib.Path(WORK.name, "two.yaml")
        path.write_text("plugins:\n  - {name: late-run-hang, probe: inprocess}\n  - {name: args-free-hang, probe: inprocess}\n"
                        f"  - host\nthreads: 2\ntimeout_ms: {LATE_MS}\n")
        got = subprocess.run(command(path), capture_output=True, text=True, timeout=60)
        self.assertEqual((got.returncode, got.stdout), (0, self.text), got.stderr)
        self.assertEqual([name for name, _ in losses(got.stderr)], ["late-run-hang", "args-free-hang"])

    def test_nan(self):
        """Numbers that are none, from the sixth step on: the host's text, and node and device are named."""
        for plugin, word in ("late-run-nan", "NaN"), ("late-run-inf", "inf"):
            got = run(plugin, "")
            self.assertEqual((got.returncode, got.stdout), (0, self.text), got.stderr)
            (name, why), = losses(got.stderr)
            self.assertEqual(name, plugin)
            self.assertRegex(why, f"'[^']*MatMul[^']*' gave {word} on device 'whole' .*the reference gives -?[0-9.]+ from")
            self.assertRegex(got.stderr, "placed again; 1?[0-9] cached positions were kept")
        got = run("late-run-nan", "watch: 0\n")
        self.assertEqual(losses(got.stderr), [])
        self.assertIn("is not a number", got.stderr)

    def engine(self, options):
        """A run in which sums of an engine are NaN: its text, losses, stderr."""
        got = subprocess.run(command(profile("fake-engine", "", f"completion: thread, {options}")),
                             capture_output=True, text=True, timeout=60)
        self.assertEqual((got.returncode, got.stdout), (0, self.text), got.stderr)
        return losses(got.stderr), got.stderr

    def test_nan_of_an_engine(self):
        """A task of an engine, in device memory: named as one of the CPU's is, and the text goes on without it."""
        lost, said = self.engine("nan_after: 90")
        self.assertEqual([name for name, _ in lost], ["fake-engine"], said)
        self.assertRegex(lost[0][1], "'[^']*Add[^']*' gave NaN on device '[^']*' .*the reference gives -?[0-9.]+ from")

    def test_nan_that_goes(self):
        """One sum, once: run again the step is right. That is said, and the engine is kept."""
        lost, said = self.engine("nan_after: 90, nan_items: 1")
        self.assertEqual(lost, [], said)
        self.assertRegex(said, "had NaN or infinite elements, and none when the step was run again: a plugin's results")

    def test_required(self):
        got = run("late-run-hang", f"timeout_ms: {LATE_MS}\nrequire: [late-run-hang]\n")
        self.assertEqual(got.returncode, 5, got.stderr)
        self.assertIn("the profile requires 'late-run-hang'", got.stderr)

    def ends_by(self, sig, within):
        child = subprocess.Popen(command(profile("late-run-hang")), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while child.stdout.read(1) not in (b"t", b""):  # of the text: it hangs soon after
            pass
        time.sleep(1)
        start = time.monotonic()
        child.send_signal(sig)
        child.communicate(timeout=30)
        self.assertLess(time.monotonic() - start, within)
        return child.returncode

    def test_sigterm(self):
        self.assertEqual(self.ends_by(signal.SIGTERM, 2), -signal.SIGTERM)

    def test_sigint(self):
        self.assertEqual(self.ends_by(signal.SIGINT, 6), 130)


if __name__ == "__main__":
    os.environ["LC_ALL"] = "C"
    unittest.main(argv=sys.argv[:1], verbosity=2)
