# SPDX-License-Identifier: Apache-2.0
"""tenon serve: what each path answers, what is refused and how, and that nothing else is disturbed by it."""
import base64
import errno
import json
import pathlib
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time

import scripted
from server import DEMO, Case, Server, Serving, main

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"


def said(text):
    return [{"role": "user", "content": text}]


def ask(text, **kw):
    return dict({"model": "demo", "messages": said(text), "max_tokens": 8, "temperature": 0}, **kw)


class Answers(Serving):
    def test_text_is_that_of_run(self):
        want = self.ok("run", DEMO, "--profile", "host", "--temp", 0, "-n", 12, "-p", "In the beginning").stdout
        status, j = self.server.ask(TEXT, {"prompt": "In the beginning", "max_tokens": 12, "temperature": 0})
        self.assertEqual((status, j["choices"][0]["text"]), (200, want.rstrip("\n")))
        self.assertEqual(j["choices"][0]["finish_reason"], "length")
        self.assertEqual(j["usage"]["completion_tokens"], 12)

    def test_chat_is_that_of_chat(self):
        want = self.ok("chat", DEMO, "--profile", "host", "--temp", 0, "-n", 12, stdin="In the beginning\n").stdout
        status, j = self.server.ask(CHAT, ask("In the beginning", max_tokens=12))
        self.assertEqual((status, j["choices"][0]["message"]["content"]), (200, want.rstrip("\n")))

    def test_a_stream_is_the_whole_in_pieces(self):
        whole = self.server.ask(CHAT, ask("And God said", max_tokens=20))[1]["choices"][0]
        events = list(self.server.stream(CHAT, ask("And God said", max_tokens=20, stream_options={"include_usage": True})))
        self.assertEqual(events[-1], "[DONE]")
        self.assertEqual(events[-2]["usage"]["completion_tokens"], 20)
        deltas = [e["choices"][0]["delta"] for e in events[:-2]]
        self.assertEqual(deltas[0]["role"], "assistant")
        self.assertEqual("".join(d.get("content", "") for d in deltas), whole["message"]["content"])
        self.assertEqual(events[-3]["choices"][0]["finish_reason"], whole["finish_reason"])
        # How much comes at once depends on the machine; all of 400 tokens never does.
        self.assertGreater(len(list(self.server.stream(CHAT, ask("And God said", max_tokens=400)))), 6)

    def test_stop_seed_and_n(self):
        text = self.server.ask(TEXT, {"prompt": "In the beginning", "max_tokens": 20, "temperature": 0})[1]["choices"][0]["text"]
        word = text.split()[3]
        for stop in (word, [word, "never"]):
            j = self.server.ask(TEXT, {"prompt": "In the beginning", "max_tokens": 20, "temperature": 0, "stop": stop})[1]
            self.assertEqual((j["choices"][0]["text"], j["choices"][0]["finish_reason"]), (text[:text.index(word)], "stop"))
        texts = lambda **kw: [c["text"] for c in self.server.ask(TEXT, dict({"prompt": "And", "max_tokens": 12, "temperature": 1}, **kw))[1]["choices"]]
        self.assertEqual(texts(seed=5, n=3), texts(seed=5, n=3))
        self.assertEqual(len(set(texts(seed=5, n=3))), 3)
        self.assertEqual(texts(seed=6, n=1)[0], texts(seed=5, n=3)[1])

    def test_prompts_in_a_list_and_as_ids(self):
        ids = self.server.ask("/tokenize", {"content": "In the beginning", "add_special": True})[1]["tokens"]
        self.assertEqual(self.server.ask("/detokenize", {"tokens": ids[1:]})[1]["content"], "In the beginning")
        one = self.server.ask(TEXT, {"prompt": "In the beginning", "max_tokens": 5, "temperature": 0})[1]["choices"][0]["text"]
        two = self.server.ask(TEXT, {"prompt": [ids, [*ids, ids[-1]]], "max_tokens": 5, "temperature": 0})[1]["choices"]
        self.assertEqual([c["index"] for c in two], [0, 1])
        self.assertEqual(two[0]["text"], one)

    def test_contents_in_parts_and_the_developer(self):
        whole = self.server.ask(CHAT, {"messages": [{"role": "system", "content": "Once"}, *said("And God said")], "max_tokens": 8, "temperature": 0})[1]
        parts = [{"type": "text", "text": "And "}, {"type": "text", "text": "God said"}]
        j = self.server.ask(CHAT, {"messages": [{"role": "developer", "content": "Once"}, {"role": "user", "content": parts}],
                                   "max_completion_tokens": 8, "temperature": 0})[1]
        self.assertEqual(j["choices"], whole["choices"])
        self.assertEqual(j["usage"]["prompt_tokens"], whole["usage"]["prompt_tokens"])

    def test_a_second_turn_computes_its_own_tokens(self):
        first = ask("A conversation that goes on for a while, with many words in it, so that it is worth keeping")
        a = self.server.ask(CHAT, first)[1]
        more = first["messages"] + [a["choices"][0]["message"]] + said("And then?")
        b = self.server.ask(CHAT, dict(first, messages=[dict(m, refusal=None) for m in more]))[1]
        self.assertGreaterEqual(b["usage"]["prompt_tokens_details"]["cached_tokens"], a["usage"]["prompt_tokens"] - 2)

    def test_models_health_metrics(self):
        status, j = self.server.ask("/v1/models")
        self.assertEqual((status, j["data"][0]["id"]), (200, "demo"))
        self.assertIn("host", j["data"][0]["placement"])
        self.assertEqual(self.server.ask("/v1/models/demo"), (200, j["data"][0]))
        self.refused(404, "model", "/v1/models/dem", words="GET /v1/models")
        self.refused(404, None, "/v1/models/")
        self.refused(405, None, "/v1/models/demo", {})
        self.assertEqual(self.server.ask("/health"), (200, {"status": "ok"}))
        self.assertEqual(self.server.ask("/ready"), (200, {"status": "ready"}))
        before = self.server.metric('tokens_total{kind="generated"}')
        self.server.ask(TEXT, {"prompt": "And", "max_tokens": 3, "temperature": 0})
        self.assertEqual(self.server.metric('tokens_total{kind="generated"}'), before + 3)
        text = self.server.ask("/metrics")[1]
        for line in text.splitlines():
            self.assertRegex(line, r'^(# (HELP|TYPE) tenon_\w+ .+|tenon_\w+(\{[^}]*\})? [-+.\deE]+)$')

    def test_curl(self):
        r = subprocess.run(["curl", "-sS", self.server.url + CHAT, "-H", "Content-Type: application/json", "-d", json.dumps(ask("And"))],
                           capture_output=True, text=True, timeout=60) if self.has_curl() else self.skipTest("curl is not here")
        self.assertEqual(json.loads(r.stdout)["object"], "chat.completion")

    def has_curl(self):
        return subprocess.run(["sh", "-c", "command -v curl"], capture_output=True).returncode == 0

    def test_openai_client(self):
        openai = self.module("openai")
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        self.assertEqual([m.id for m in client.models.list()], ["demo"])
        self.assertEqual(client.models.retrieve("demo").id, "demo")
        r = client.chat.completions.create(model="demo", messages=said("And God said"), max_tokens=10, temperature=0)
        stream = client.chat.completions.create(model="demo", messages=said("And God said"), max_tokens=10, temperature=0, stream=True,
                                                stream_options={"include_usage": True})
        chunks = list(stream)
        self.assertEqual("".join(c.choices[0].delta.content or "" for c in chunks if c.choices), r.choices[0].message.content)
        self.assertEqual(chunks[-1].usage.completion_tokens, 10)
        self.assertEqual(client.completions.create(model="demo", prompt="And", max_tokens=4).usage.completion_tokens, 4)
        with self.assertRaises(openai.NotFoundError):
            client.chat.completions.create(model="gpt-4", messages=said("x"))
        with self.assertRaises(openai.BadRequestError) as e:
            client.chat.completions.create(model="demo", messages=said("x"), temperature=-1)
        self.assertEqual(e.exception.param, "temperature")


class Refusals(Serving):
    ARGS = ("--max-body", 1)

    def tearDown(self):
        # Nothing else is disturbed.
        self.assertEqual(self.server.ask(CHAT, ask("And"))[0], 200)
        super().tearDown()

    def test_json_that_is_none(self):
        for raw in ("", "{", "[1]", '{"a": }', '"x"', "\x00", '{"model": "\xff"}', "[" * 100000, "{" + '"a":{' * 5000):
            self.refused(400, None, CHAT, raw=raw.encode("latin1"))

    def test_types_name_the_key(self):
        for key, value in (("temperature", "hot"), ("temperature", -1), ("top_p", 2), ("n", 0), ("n", 1.5), ("max_tokens", "many"),
                           ("max_tokens", 0), ("seed", "x"), ("stream", "yes"), ("stop", 7), ("messages", "hello"), ("messages", []),
                           ("model", 7), ("top_k", -1), ("stop", ["x"] * 17), ("stream_options", {"include_usage": True}),
                           ("frequency_penalty", 9), ("tools", {}), ("response_format", "json"), ("tool_choice", "sometimes")):
            self.refused(400, key, CHAT, ask("x", **{key: value}))
        self.refused(400, "stop[1]", CHAT, ask("x", stop=["a", ""]))
        self.refused(400, "response_format.type", CHAT, ask("x", response_format={"type": "xml"}))
        self.refused(400, "tools[0].function.name", CHAT, ask("x", tools=[{"type": "function", "function": {}}]))

    def test_messages_name_the_key(self):
        for param, messages in (("messages[0]", ["x"]), ("messages[0].role", [{"content": "x"}]),
                                ("messages[1].role", said("a") + [{"role": "king", "content": "x"}]),
                                ("messages[0].content", [{"role": "user"}]), ("messages[0].content", [{"role": "user", "content": 7}]),
                                ("messages[0].content[1]", [{"role": "user", "content": [{"type": "text", "text": "a"}, 7]}]),
                                ("messages[0].content[0].type", [{"role": "user", "content": [{"type": "image_url"}]}]),
                                ("messages[0].tool_calls[0].function.name", [{"role": "assistant", "tool_calls": [{"function": {}}]}])):
            self.refused(400, param, CHAT, ask("", messages=messages))
        for part in ({"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA", "detail": "low"}},
                     {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}):
            parts = [{"type": "text", "text": "What is it?"}, part]
            e = self.refused(400, "messages[1].content[1].type", CHAT, ask("", messages=[*said("a"), {"role": "user", "content": parts}]),
                             words=f"'{part['type']}'")
            self.assertEqual((e["code"], e["type"]), ("unsupported", "invalid_request_error"))

    def test_prompts(self):
        for param, prompt in (("prompt", None), ("prompt", []), ("prompt", {}), ("prompt", [-1]), ("prompt", [1, "x"]), ("prompt[1]", ["x", 7]),
                              ("prompt", "word " * 3000)):
            self.refused(400, param, TEXT, {"prompt": prompt} if prompt is not None else {})
        self.assertIn("vocabulary", self.refused(400, None, TEXT, {"prompt": [99999]})["message"])

    def test_where_nothing_is(self):
        self.refused(404, None, "/v1/responses", {}, words="/v1/chat/completions")
        self.refused(404, None, "/v1/nonsense")
        self.refused(405, None, CHAT)
        self.refused(404, "model", CHAT, ask("x", model="gpt-4"))
        self.refused(400, "model", "/v1/embeddings", {"input": "x"})

    def test_too_large(self):
        self.refused(413, None, CHAT, ask("x" * (1 << 20)))
        c = self.server.connect()
        c.request("POST", CHAT, iter([b"x" * 65536] * 20), {"Content-Type": "application/json"}, encode_chunked=True)
        self.assertEqual(c.getresponse().status, 413)
        c.close()

    def test_what_pages_of_others_could_send(self):
        self.refused(415, None, CHAT, ask("x"), headers={"Content-Type": "text/plain"})
        for host in ("evil.example", "127.0.0.2.evil.example", "[::2]:80", "localhost.evil.example", "128.0.0.1"):
            self.refused(403, None, CHAT, ask("x"), headers={"Host": host})
        for host in ("127.0.0.2", "127.1.2.3:80", "[::1]", "[0:0::1]:80", "LOCALHOST:80"):
            self.assertEqual(self.server.ask("/health", headers={"Host": host})[0], 200, host)
        c = self.server.connect()
        c.request("POST", CHAT, json.dumps(ask("x")), {"Content-Type": "application/json", "Origin": "http://evil.example"})
        r = c.getresponse()
        self.assertIsNone(r.headers["Access-Control-Allow-Origin"])
        r.read()
        c.close()

    def test_garbage_on_the_socket(self):
        for data in (b"\x16\x03\x01\x02\x00", b"GET\r\n\r\n", b"POST / HTTP/1.1\r\nContent-Length: -5\r\n\r\n", b"A" * 100000):
            with socket.create_connection((self.server.host, self.server.port)) as s:
                s.settimeout(10)
                try:
                    s.sendall(data)
                    s.shutdown(socket.SHUT_WR)
                    while s.recv(4096):
                        pass
                except OSError as e:  # A server hangs up while garbage is still being sent, but does not wait for ever.
                    self.assertIn(e.errno, (errno.ECONNRESET, errno.EPIPE, errno.ENOTCONN))
        self.assertEqual(self.server.ask("/health")[0], 200)


class Embeddings(Serving):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.vectors = scripted.embedder(pathlib.Path(cls.folder.name) / "vectors")
        cls.ARGS = ("--embedding", cls.vectors)
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def test_vectors_are_those_of_embed(self):
        texts = ["one text", "another", *("word " * (1 + i * 7 % 45) + str(i) for i in range(70)), "x" * 600]  # more than a step, one that is cut
        want = self.json("embed", self.vectors, "--profile", "host", *(a for t in texts for a in ("-p", t)))["vectors"]
        status, j = self.server.ask("/v1/embeddings", {"model": "vectors", "input": texts})
        self.assertEqual((status, [d["embedding"] for d in j["data"]]), (200, want))
        tokens = sum(min(len(t), 512) for t in texts)
        self.assertEqual(j["usage"], {"prompt_tokens": tokens, "total_tokens": tokens})
        one = self.server.ask("/v1/embeddings", {"model": "vectors", "input": texts[1], "encoding_format": "base64"})[1]["data"]
        raw = base64.b64decode(one[0]["embedding"])
        for got, v in zip(struct.unpack(f"<{len(raw) // 4}f", raw), want[1], strict=True):
            self.assertAlmostEqual(got, v, places=6)

    def test_openai_client(self):
        client = self.module("openai").OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        want = self.json("embed", self.vectors, "--profile", "host", "-p", "one text")["vectors"][0]
        for got, v in zip(client.embeddings.create(model="vectors", input="one text").data[0].embedding, want, strict=True):
            self.assertAlmostEqual(got, v, places=6)

    def test_refusals(self):
        path = "/v1/embeddings"
        for param, more in (("input", {}), ("input", {"input": []}), ("input", {"input": 7}), ("input[1]", {"input": ["a", 7]}), ("input", {"input": ""}),
                            ("encoding_format", {"input": "x", "encoding_format": "hex"}), ("dimensions", {"input": "x", "dimensions": 3})):
            self.refused(400, param, path, dict(more, model="vectors"))
        self.refused(400, "model", path, {"model": "demo", "input": "x"}, words="--embedding")
        self.refused(400, "model", TEXT, {"model": "vectors", "prompt": "x"})


    def test_who_is_gone_gets_no_vectors(self):
        before = {m: self.server.metric(m) for m in ("embedded_texts_total", "disconnects_total")}
        body = json.dumps({"model": "vectors", "input": ["words and " * 300] * 2048})
        c = self.server.connect()
        c.request("POST", "/v1/embeddings", body, {"Content-Type": "application/json"})
        c.sock.shutdown(socket.SHUT_RDWR)
        c.close()
        self.server.until(lambda: self.server.metric("disconnects_total") > before["disconnects_total"])
        self.assertLess(self.server.metric("embedded_texts_total"), before["embedded_texts_total"] + 2048)


class Keys(Serving):
    KW = {"env": {"TENON_API_KEY": "sesame"}}

    def test_a_key_is_needed(self):
        for headers in ({}, {"Authorization": "Bearer sesam"}, {"Authorization": "Bearer sesame2"}, {"Authorization": "sesame"}, {"Authorization": "Bearer "}):
            self.refused(401, None, "/v1/models", headers=headers)
            self.refused(401, None, "/v1/models/nobody", headers=headers)
            self.refused(401, None, "/metrics", headers=headers)
        self.assertEqual(self.server.ask("/v1/models", headers={"Authorization": "Bearer sesame"})[0], 200)
        self.assertEqual(self.server.ask("/health")[0], 200)


class OtherOrigins(Serving):
    ARGS = ("--cors", "http://app.example")

    def test_a_browser_may_send_json(self):
        c = self.server.connect()
        wanted = "authorization,content-type,x-stainless-lang"
        c.request("OPTIONS", CHAT, headers={"Origin": "http://app.example", "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": wanted})
        r = c.getresponse()
        r.read()
        self.assertEqual((r.status, r.headers["Access-Control-Allow-Origin"], r.headers["Access-Control-Allow-Headers"]), (204, "http://app.example", wanted))
        self.assertIn("POST", r.headers["Access-Control-Allow-Methods"])
        c.request("POST", CHAT, json.dumps(ask("And")), {"Content-Type": "application/json", "Origin": "http://app.example"})
        r = c.getresponse()
        r.read()
        self.assertEqual((r.status, r.headers["Access-Control-Allow-Origin"]), (200, "http://app.example"))
        c.close()


class Life(Case):
    def start(self, *args, **kw):
        s = Server(*args, cache=self.cache, **kw)
        self.addCleanup(s.close)
        return s

    def test_what_does_not_start(self):
        self.fails(2, "MODEL", args=["serve"])
        self.fails(2, "two models are called 'demo'", args=["serve", DEMO, DEMO, "--profile", "host"])
        self.fails(3, "API key", args=["serve", DEMO, "--profile", "host", "--host", "0.0.0.0", "--port", "0"])
        self.fails(3, "no address", args=["serve", DEMO, "--profile", "host", "--host", "nowhere.example"])
        taken = socket.create_server(("127.0.0.1", 0))
        self.fails(3, "in use", args=["serve", DEMO, "--profile", "host", "--port", taken.getsockname()[1]])
        taken.close()

    def test_two_models(self):
        s = self.start(models=(DEMO, f"other={DEMO}"))
        self.assertEqual([m["id"] for m in s.ask("/v1/models")[1]["data"]], ["demo", "other"])
        self.assertEqual(s.ask(TEXT, {"prompt": "And"})[1]["error"]["param"], "model")
        a, b = (s.ask(TEXT, {"model": m, "prompt": "And", "max_tokens": 4, "temperature": 0})[1] for m in ("demo", "other"))
        self.assertEqual(a["choices"], b["choices"])
        self.assertEqual((a["model"], b["model"]), ("demo", "other"))
        self.assertEqual(s.stop(), 0)

    def test_sigterm_lets_answers_end(self):
        s = self.start()
        events = s.stream(CHAT, ask("In the beginning", max_tokens=300))
        next(events)
        s.p.send_signal(signal.SIGTERM)
        rest = list(events)
        self.assertEqual(rest[-1], "[DONE]")
        self.assertEqual(rest[-2]["choices"][0]["finish_reason"], "length")
        self.assertEqual(s.stop(None), 0, s.said)
        self.assertIn("shutting down", s.said)

    def test_sigterm_ends_what_takes_too_long(self):
        s = self.start("--drain", 0)
        events = s.stream(TEXT, {"prompt": "And", "max_tokens": 2000, "temperature": 0})
        next(events)
        start = time.time()
        self.assertEqual(s.stop(), 0)
        self.assertLess(time.time() - start, 30)
        self.assertIn("cut off", s.said)

    def test_a_full_queue_is_said(self):
        s = self.start("--slots", 1, "--queue", 1)
        streams = [s.stream(TEXT, {"prompt": "And", "max_tokens": 1000, "temperature": 0}) for _ in range(2)]
        next(streams[0])
        waiting = threading.Thread(target=lambda: next(streams[1]))
        waiting.start()
        s.until(lambda: s.metric('waiting{model="demo"}') == 1)
        status, j = s.ask(TEXT, {"prompt": "And", "max_tokens": 1})
        self.assertEqual((status, j["error"]["code"]), (429, "queue_full"))
        e = s.ask(TEXT, {"prompt": ["And"] * 2, "n": 2, "max_tokens": 1})[1]["error"]  # nor will it ever
        self.assertEqual((e["code"], e["param"]), ("limit_exceeded", "n"))
        for words in ("4 texts", "takes 2"):
            self.assertIn(words, e["message"])
        streams[0].close()
        waiting.join(60)
        streams[1].close()
        s.until(lambda: s.metric('running{model="demo"}') == 0)
        self.assertEqual(s.stop(), 0)

    def test_who_is_gone_computes_nothing(self):
        s = self.start("--slots", 1)
        for stream in (True, False):
            c = s.connect()
            c.request("POST", TEXT, json.dumps({"prompt": "And", "max_tokens": 1500, "temperature": 0, "stream": stream}), {"Content-Type": "application/json"})
            s.until(lambda: s.metric('running{model="demo"}') == 1)
            c.sock.shutdown(socket.SHUT_RDWR)
            c.close()
            start = time.time()
            s.until(lambda: s.metric('running{model="demo"}') == 0)
            self.assertLess(time.time() - start, 30)
        self.assertLess(s.metric('tokens_total{kind="generated"}'), 1500)
        self.assertEqual(s.ask(TEXT, {"prompt": "And", "max_tokens": 2})[0], 200)
        self.assertEqual(s.stop(), 0)


if __name__ == "__main__":
    main()
