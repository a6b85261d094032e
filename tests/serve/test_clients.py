# SPDX-License-Identifier: Apache-2.0
"""Many clients at once, some of which hang up: nobody gets another's text, and nothing is left behind.

TENON_SERVE_SECONDS: how long (default: a few seconds). Prints times to the first token.
"""
import json
import os
import random
import signal
import socket
import statistics
import struct
import threading
import time

from server import Case, Server, Serving, has_asan, main

SECONDS = float(os.environ.get("TENON_SERVE_SECONDS", "3"))
PROMPTS = ["In the beginning", "And God said", "The words of the Preacher", "Once upon a time there was", "Alice was beginning to get",
           "Blessed is the man that", "Now it came to pass in the days", "Hear, O Israel"]


class Clients(Serving):
    ARGS = ("--slots", 4)

    def body(self, prompt, n):
        return {"prompt": prompt, "max_tokens": n, "temperature": 0}

    def solo(self):
        return {p: self.server.ask("/v1/completions", self.body(p, 24))[1]["choices"][0]["text"] for p in PROMPTS}

    def hang_up(self, r):
        c = self.server.connect()
        c.request("POST", "/v1/completions", json.dumps(dict(self.body(r.choice(PROMPTS), 500), stream=r.random() < 0.5)), {"Content-Type": "application/json"})
        time.sleep(r.random() * 0.2)
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()

    def client(self, seed, want, end, first, wrong):
        r = random.Random(seed)
        while time.time() < end and not wrong:
            if r.random() < 0.2:
                self.hang_up(r)
                continue
            prompt, n = r.choice(PROMPTS), r.randint(4, 24)
            start, text = time.time(), ""
            for e in self.server.stream("/v1/completions", self.body(prompt, n)):
                if e == "[DONE]":
                    break
                if "error" in e:
                    wrong.append(e)
                    break
                if not text:
                    first.append(time.time() - start)
                text += e["choices"][0]["text"]
            if not want[prompt].startswith(text) or not text:
                wrong.append((prompt, text, want[prompt]))

    def crowd(self, n):
        want, first, wrong = self.solo(), [], []
        before, half = self.server.metric("resident_bytes"), []
        end = time.time() + SECONDS
        watch = threading.Timer(SECONDS / 2, lambda: half.append(self.server.metric("resident_bytes")))
        watch.start()
        threads = [threading.Thread(target=self.client, args=(i, want, end, first, wrong)) for i in range(n)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        watch.join()
        self.assertEqual(wrong, [])
        self.assertGreater(len(first), 1)
        self.server.until(lambda: self.server.metric('running{model="demo"}') == 0 and self.server.metric('waiting{model="demo"}') == 0)
        self.assertEqual(self.server.metric('requests_total{result="failed"}'), 0)
        # Nothing grows without end: what threads and beginnings take is there by the middle. A sanitizer keeps what was freed.
        after = self.server.metric("resident_bytes")
        if SECONDS >= 60 and not has_asan():
            self.assertLess(after - half[0], 32 << 20)
        q = statistics.quantiles(first, n=100)
        print(f"{n} clients, {SECONDS:g} s: {len(first)} answers, first token p50 {q[49] * 1e3:.0f} ms, p99 {q[98] * 1e3:.0f} ms, "
              f"{self.server.metric('disconnects_total'):.0f} hung up, {before / 1e6:.0f} MB before, {half[0] / 1e6:.0f} MB in the middle, "
              f"{after / 1e6:.0f} MB after", flush=True)

    def test_4(self):
        self.crowd(4)

    def test_16(self):
        self.crowd(16)
        # Descriptors and threads of clients that are gone are given back.
        proc = f"/proc/{self.server.p.pid}"
        self.server.until(lambda: len(os.listdir(proc + "/fd")) < 40 and len(os.listdir(proc + "/task")) < 40)


class Unread(Case):
    """Nobody reads what the server says: it goes on."""

    def setUp(self):
        super().setUp()
        self.server = Server(cache=self.cache)

    def tearDown(self):
        self.server.close()
        super().tearDown()

    def test_full_pipe(self):
        said = self.server.p.stderr.fileno()
        self.server.ask("/health")
        pipe = os.open(f"/proc/self/fd/{said}", os.O_WRONLY | os.O_NONBLOCK)
        try:
            while True:
                os.write(pipe, b"x" * 4096)
        except BlockingIOError:
            pass
        for _ in range(6):
            c = self.server.connect()
            c.request("POST", "/v1/completions", json.dumps({"prompt": "In", "max_tokens": 1500, "stream": True}), {"Content-Type": "application/json"})
            time.sleep(0.1)
            c.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # a reset
            c.sock.close()
            c.close()
        self.server.until(lambda: self.server.metric("disconnects_total") >= 1)
        self.assertEqual(self.server.ask("/v1/completions", {"prompt": "In", "max_tokens": 4})[0], 200)
        self.server.p.send_signal(signal.SIGTERM)  # it says that it shuts down
        self.assertEqual(self.server.p.wait(60), 0)


if __name__ == "__main__":
    main()
