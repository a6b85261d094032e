# SPDX-License-Identifier: Apache-2.0
"""Several models under a budget of memory: each comes when a request wants it, and the idle one that was used longest ago goes."""
import pathlib
import tempfile
import threading
import time

import scripted
from server import DEMO, Case, Server, main

TEXT = "/v1/completions"
ARGS = ("--slots", 2, "--prefix-mb", 8, "--max-seq", 256)


class Models(Case):
    def start(self, *args, models=(DEMO, f"two={DEMO}", f"three={DEMO}")):
        s = Server(*ARGS, *args, cache=self.cache, models=models)
        self.addCleanup(s.close)
        return s

    def ask(self, s, model, n=4, **kw):
        return s.ask(TEXT, dict({"model": model, "prompt": "In the beginning", "max_tokens": n, "temperature": 0}, **kw))

    def loaded(self, s):
        return [m["id"] for m in s.ask("/v1/models")[1]["data"] if m["loaded"]]

    def room_for_two(self):
        """MiB that two of three models fit into, as the server counts them."""
        s = self.start("--models-mb", 4096)
        self.assertEqual(self.loaded(s), [])
        self.ask(s, "demo")
        one = s.metric("models_bytes")
        self.assertGreater(one, 8 << 20)
        self.assertEqual(s.stop(), 0)
        return int(2.5 * one) >> 20

    def test_the_oldest_goes(self):
        s = self.start("--models-mb", self.room_for_two())
        want = self.ask(s, "demo")[1]["choices"]
        for model, there in (("two", ["demo", "two"]), ("demo", ["demo", "two"]), ("three", ["demo", "three"]), ("two", ["two", "three"]),
                             ("demo", ["demo", "two"])):
            status, j = self.ask(s, model)
            self.assertEqual((status, j["choices"], j["model"]), (200, want, model))
            self.assertEqual(self.loaded(s), there)
            self.assertLessEqual(s.metric("models_bytes"), self.budget(s))
        self.assertEqual((s.metric('model_changes_total{to="memory"}'), s.metric('model_changes_total{to="nowhere"}')), (5, 3))
        self.assertEqual(self.ask(s, "nobody")[0], 404)
        self.assertEqual(s.stop(), 0)

    def budget(self, s):
        return (int(s.p.args[s.p.args.index("--models-mb") + 1])) << 20

    def test_who_is_used_stays(self):
        """One model's room and two models, many clients: nobody loses his text, and all come to theirs."""
        s = self.start("--models-mb", self.room_for_two() * 3 // 5, models=(DEMO, f"two={DEMO}"))
        want = self.ask(s, "two", 40)[1]["choices"][0]["text"]
        events = s.stream(TEXT, {"model": "demo", "prompt": "In the beginning", "max_tokens": 200, "temperature": 0})
        first = next(events)
        got = {}
        threads = [threading.Thread(target=lambda i=i: got.update({i: self.ask(s, ("two", "demo")[i % 2], 40)})) for i in range(6)]
        for t in threads:
            t.start()
        self.assertEqual(self.loaded(s), ["demo"])
        text = first["choices"][0]["text"] + "".join(e["choices"][0]["text"] for e in events if e != "[DONE]")
        for t in threads:
            t.join(120)
        self.assertTrue(text.startswith(want))
        self.assertEqual([got[i][0] for i in range(6)], [200] * 6)
        self.assertEqual({got[i][1]["choices"][0]["text"] for i in range(6)}, {want})
        self.assertEqual(s.stop(), 0)

    def test_nobody_waits_for_ever(self):
        """Room for one of three models, clients that ask for two of them all the time: who asks for the third is served after
        those who were there before, each time."""
        s = self.start("--models-mb", self.room_for_two() * 3 // 5)
        for model in ("demo", "two", "three"):
            self.ask(s, model)
        over, order, lock = threading.Event(), [], threading.Lock()

        def busy(model):
            while not over.is_set():
                status = self.ask(s, model, 8)[0]
                with lock:
                    order.append((model, status))
        threads = [threading.Thread(target=busy, args=(m,)) for m in ("demo", "demo", "demo", "two", "two", "two")]
        for t in threads:
            t.start()
        between = []
        while len(order) < 20:
            time.sleep(0.01)
        for _ in range(12):
            before = len(order)
            self.assertEqual(self.ask(s, "three", 1)[0], 200)
            between.append(len(order) - before)
        over.set()
        for t in threads:
            t.join(60)
        self.assertEqual({status for _, status in order}, {200})
        self.assertGreater(min(sum(m == name for m, _ in order) for name in ("demo", "two")), 20)
        # Six were asked before; as many again may have begun with them, whose answers come first.
        self.assertLessEqual(max(between), 12, between)
        self.assertEqual(s.stop(), 0)

    def test_what_does_not_fit(self):
        s = self.start("--models-mb", 9)
        status, j = self.ask(s, "demo")
        self.assertEqual((status, j["error"]["code"], j["error"]["param"]), (503, "no_memory", "model"))
        self.assertIn("--models-mb", j["error"]["message"])
        self.assertEqual(self.loaded(s), [])
        self.assertEqual(s.ask("/health")[0], 200)
        self.assertEqual(s.stop(), 0)

    def test_a_model_that_breaks_and_an_embedder(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            vectors = scripted.embedder(folder / "vectors")
            bad = scripted.embedder(folder / "bad")
            s = self.start("--models-mb", 512, "--embedding", vectors, "--embedding", bad, models=(DEMO,))
            (bad / "model.onnx").write_bytes(b"no model")
            self.assertEqual(s.ask("/v1/embeddings", {"model": "bad", "input": "x"})[0] // 100, 5)
            self.assertEqual(s.ask("/v1/embeddings", {"model": "vectors", "input": "x"})[0], 200)
            self.assertEqual(s.ask("/v1/embeddings", {"model": "demo", "input": "x"})[0], 400)
            self.assertEqual(self.loaded(s), ["vectors"])
            self.assertEqual(self.ask(s, "demo")[0], 200)
            self.assertEqual(s.stop(), 0)
        self.fails(3, "nowhere", args=["serve", "nowhere", "--profile", "host", "--models-mb", 100])


if __name__ == "__main__":
    main()
