# SPDX-License-Identifier: Apache-2.0
"""--lookup and --draft: answers are those of a server that guesses nothing, alone and beside others, and guesses are counted."""
import os
import pathlib
import threading
import unittest

from server import DEMO, Case, Server, main

TEXT = "/v1/completions"
STORIES = pathlib.Path(os.environ.get("TENON_TEST_DATA", "/none")) / "lm/stories260k-onnx"
VERSE = "And the king said unto them, Go ye and bring me the bread. And they went and brought him the bread. "
SCHEMA = {"type": "object", "properties": {"name": {"enum": ["bread", "water"]}, "list": {"type": "array", "items": {"enum": ["bread", "water"]},
          "minItems": 6, "maxItems": 9}}, "required": ["name", "list"], "additionalProperties": False}


def all_asks(own):
    """What is asked: greedy after its own text, where guesses come, and after others, sampled with penalties and a stop, within a schema; with how likely
    tokens were."""
    yield dict(prompt=own, max_tokens=120, temperature=0)
    yield dict(prompt=own, max_tokens=80, temperature=0.1, seed=3, logprobs=1)
    yield dict(prompt=VERSE * 3, max_tokens=60, temperature=0, logprobs=2)
    yield dict(prompt=VERSE + "In the beginning", max_tokens=50, temperature=0.7, seed=11, logprobs=1)
    yield dict(prompt=VERSE * 2, max_tokens=50, temperature=1, seed=5, frequency_penalty=0.2, stop=["thou art"], logprobs=0)
    yield dict(prompt=VERSE * 2 + "As JSON: ", max_tokens=80, temperature=0, logprobs=0,
               response_format={"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}})
    yield dict(prompt=[VERSE * 2, VERSE * 3], max_tokens=30, temperature=0, n=1)


class Guesses(Case):
    def start(self, *args):
        s = Server("--slots", 3, *args, cache=self.cache)
        self.addCleanup(s.close)
        return s

    def ask(self, s, body):
        """What is said, and the guesses that came and that did not."""
        status, j = s.ask(TEXT, body)
        self.assertEqual(status, 200, j)
        details = j["usage"].get("completion_tokens_details")
        count = details and (details["accepted_prediction_tokens"], details["rejected_prediction_tokens"])
        return [(c["text"], c["finish_reason"], c["logprobs"]) for c in j["choices"]], count

    def own(self, s):
        """What the model says, twice: what it says then was there before."""
        begin = "In the beginning"
        return 2 * (begin + self.ask(s, dict(prompt=begin, max_tokens=120, temperature=0))[0][0][0]) + begin

    def same(self, *args, at_once):
        plain, guessing = self.start(), self.start(*args)
        asks = [*all_asks(self.own(plain))]
        want = [self.ask(plain, a) for a in asks]
        self.assertTrue(all(count is None for _, count in want))
        came = tried = 0
        for (text, _), a in zip(want, asks):
            got, (yes, no) = self.ask(guessing, a)
            self.assertEqual(got, text)
            came, tried = came + yes, tried + yes + no
        # The first steps of several rows are run whatever they take. How many follow depends on how long they took: tests/llm asks without a clock.
        self.assertGreater(tried, 0)
        self.assertEqual(guessing.metric('guesses_tried_total{model="demo"}'), tried)
        self.assertEqual(guessing.metric('guesses_accepted_total{model="demo"}'), came)
        self.assertEqual(plain.metric('guesses_tried_total{model="demo"}'), 0)
        # Two clients, and more than there are slots.
        for n in at_once:
            got = {}
            threads = [threading.Thread(target=lambda i=i, a=a: got.update({i: self.ask(guessing, a)})) for i, a in enumerate(asks)]
            for first in range(0, len(threads), n):
                for t in threads[first:first + n]:
                    t.start()
                for t in threads[first:first + n]:
                    t.join()
            self.assertEqual([got[i][0] for i in range(len(want))], [text for text, _ in want])
        self.assertEqual((plain.stop(), guessing.stop()), (0, 0))

    def test_lookup(self):
        self.same("--lookup", 8, at_once=(2, 5))

    def test_lookup_on_steps_of_their_own(self):
        self.same("--exact", "--lookup", 8, at_once=(2,))

    def test_a_draft_and_lookup(self):
        self.same("--lookup", 4, "--draft", DEMO, "--draft-tokens", 5, at_once=(2,))

    def test_a_stream_is_the_whole(self):
        s = self.start("--draft", DEMO)
        a = dict(prompt=self.own(s), max_tokens=100, temperature=0, logprobs=2)
        whole = self.ask(s, a)[0][0][0]
        events = list(s.stream(TEXT, dict(a, stream_options={"include_usage": True})))
        self.assertEqual("".join(e["choices"][0]["text"] for e in events[:-2]), whole)
        self.assertIn("accepted_prediction_tokens", events[-2]["usage"]["completion_tokens_details"])
        self.assertGreater(s.metric('guesses_accepted_total{model="demo"}'), 0)  # how many more depends on how fast steps are
        self.assertEqual(s.stop(), 0)

    def test_refused(self):
        serve = ("serve", DEMO, "--profile", "host", "--port", 0)
        self.fails(2, "--draft is for one MODEL", args=(*serve, f"two={DEMO}", "--draft", DEMO))
        self.fails(2, "--draft is for one MODEL", args=(*serve, "--models-mb", 500, "--draft", DEMO))
        self.fails(2, "--lookup", args=(*serve, "--lookup", 16))

    @unittest.skipUnless(STORIES.exists(), "no test data")
    def test_a_draft_of_another_vocabulary(self):
        self.fails(3, "vocabulary", args=("serve", DEMO, "--profile", "host", "--port", 0, "--draft", STORIES))


if __name__ == "__main__":
    main()
