# SPDX-License-Identifier: Apache-2.0
"""Beginnings that outlive their slots: who comes back finds his own, and texts are those of a server that keeps nothing."""
import random
import threading

from server import Case, Server, main

TEXT, CHAT = "/v1/completions", "/v1/chat/completions"
WORDS = "the king went over a river with his people and they made bread in those days while no man knew of it".split()


def words(seed, n):
    r = random.Random(seed)
    return " ".join(r.choice(WORDS) for _ in range(n))


class Prefixes(Case):
    def start(self, slots, mb):
        s = Server("--slots", slots, "--prefix-mb", mb, cache=self.cache)
        self.addCleanup(s.close)
        return s

    def ask(self, s, prompt):
        """Text, tokens of the prompt, those that did not run."""
        status, j = s.ask(TEXT, {"prompt": prompt, "max_tokens": 6, "temperature": 0})
        self.assertEqual(status, 200, j)
        return j["choices"][0]["text"], j["usage"]["prompt_tokens"], j["usage"]["prompt_tokens_details"]["cached_tokens"]

    def metric(self, s, name, more=""):
        return s.metric(name + '{model="demo"' + more + "}")

    def test_one_slot_many_texts(self):
        system = words(1, 120)
        prompts = [f"{system} {words(i, 8)}" for i in range(3)] + [words(9, 60), words(10, 60), system]
        order = [0, 3, 1, 4, 2, 5, 3, 0]
        kept, none = self.start(1, 64), self.start(1, 0)
        for i in order:
            a, b = self.ask(kept, prompts[i]), self.ask(none, prompts[i])
            self.assertEqual(a[:2], b[:2])
            prompts_tokens, cached = a[1:]
            if i in (1, 2):
                self.assertGreater(cached, 100)
            if i == 5:  # what another begins with
                self.assertGreaterEqual(cached, prompts_tokens - 2)
        self.assertEqual(self.ask(kept, prompts[4])[1] - 1, self.ask(kept, prompts[4])[2])
        self.assertGreaterEqual(self.metric(kept, "prefix_hits_total", ',from="store"'), 4)
        self.assertGreater(self.metric(kept, "prefix_tokens_total", ',from="store"'), 400)
        self.assertEqual(self.metric(none, "prefix_hits_total", ',from="store"'), 0)
        self.assertEqual(self.metric(none, "prefix_bytes"), 0)
        self.assertEqual((kept.stop(), none.stop()), (0, 0))

    def test_the_bound(self):
        s = self.start(1, 1)
        first = None
        for i in range(12):
            got = self.ask(s, words(100 + i % 6, 150))
            first = first or got
            self.assertLessEqual(self.metric(s, "prefix_bytes"), 1 << 20)
        self.assertGreater(self.metric(s, "prefix_dropped_total"), 0)
        self.assertEqual(self.ask(s, words(100, 150))[0], first[0])
        self.assertEqual(s.stop(), 0)

    def test_four_clients_of_one_system_prompt(self):
        s, alone = self.start(4, 64), self.start(1, 0)
        system, got = words(2, 150), {}
        prompts = [f"{system} {words(50 + i, 6)}" for i in range(4)]
        threads = [threading.Thread(target=lambda p=p: got.update({p: self.ask(s, p)})) for p in prompts]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        for p in prompts:
            self.assertEqual(got[p][0], self.ask(alone, p)[0])
        ran = sorted(n - cached for _, n, cached in got.values())
        self.assertLess(sum(ran[:3]), 3 * 30)  # whoever comes first runs it for all
        self.assertEqual((s.stop(), alone.stop()), (0, 0))


if __name__ == "__main__":
    main()
