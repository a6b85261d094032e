# SPDX-License-Identifier: Apache-2.0
"""Plugins that fail while several texts are generated: clients see nothing of it, but for a pause; metrics count it.

TENON_FAULT_CORPUS: the folder of misbehaving plugins (tests/faults/corpus).
"""
import os
import pathlib
import threading

from server import Case, Server, main

TEXT, CORPUS = "/v1/completions", os.environ["TENON_FAULT_CORPUS"]
PROMPTS = ["Once upon a time", "In the beginning", "And God said", "The words of the Preacher", "Alice was beginning to get very tired of",
           "Hear, O Israel"]


class Failover(Case):
    def start(self, *plugins, more="", args=()):
        path = pathlib.Path(self.tmp, f"{'-'.join(plugins)}.yaml")
        path.write_text("plugins:\n" + "".join(f"  - {{name: {p}, probe: inprocess}}\n" for p in plugins) + f"  - host\nthreads: 2\n{more}")
        s = Server("--plugin-dir", CORPUS, "--slots", 4, *args, cache=self.cache, profile=str(path))
        self.addCleanup(s.close)
        return s

    def ask(self, s, prompt, n=24):
        status, j = s.ask(TEXT, {"prompt": prompt, "max_tokens": n, "temperature": 0})
        self.assertEqual(status, 200, j)
        return j["choices"][0]["text"]

    def stream(self, s, prompt, n):
        text = ""
        for e in s.stream(TEXT, {"prompt": prompt, "max_tokens": n, "temperature": 0}):
            self.assertNotIn("error", e)
            text += "" if e == "[DONE]" else e["choices"][0]["text"]
        return text

    def crowd(self, s):
        """Six clients at once, half of them by streams: what each of them got."""
        got = {}
        kinds = (self.ask, self.stream)
        threads = [threading.Thread(target=lambda i=i, p=p: got.update({p: kinds[i % 2](s, p, 24)})) for i, p in enumerate(PROMPTS)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        return got

    want = None

    def goes_on(self, *plugins, more="", losses=1, args=()):
        if not Failover.want:
            s = self.start()
            Failover.want = {p: self.ask(s, p) for p in PROMPTS}
            self.assertEqual(s.stop(), 0)
        s = self.start(*plugins, more=more, args=args)
        self.assertEqual(s.metric("device_losses_total"), 0)
        placed = s.ask("/v1/models")[1]["data"][0]["placement"]
        self.assertIn(plugins[0], placed)
        self.assertEqual(self.crowd(s), self.want)
        self.assertEqual(s.metric("device_losses_total"), losses)
        self.assertEqual(s.metric('requests_total{result="failed"}'), 0)
        self.assertEqual(self.crowd(s), self.want)  # what was kept is of the session that goes on
        self.assertEqual(s.metric("device_losses_total"), losses)
        self.assertEqual(s.metric('guesses_tried_total{model="demo"}') > 0, bool(args))
        self.assertEqual(s.stop(), 0)
        return s.said

    def test_a_call_that_hangs(self):
        self.assertIn("did not come back", self.goes_on("late-run-hang", more="timeout_ms: 500\n"))

    def test_numbers_that_are_none(self):
        self.assertIn("gave NaN", self.goes_on("late-run-nan"))

    def test_while_it_guesses(self):
        self.assertIn("gave NaN", self.goes_on("late-run-nan", args=("--lookup", 8)))

    def test_two_of_them(self):
        self.goes_on("late-run-hang", "late-run-inf", more="timeout_ms: 500\n", losses=2)


if __name__ == "__main__":
    main()
