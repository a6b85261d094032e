# SPDX-License-Identifier: Apache-2.0
"""Answers that keep to a form, calls that are forced, and how likely tokens were."""
import json
import math

from server import Serving, main

CHAT, TEXT = "/v1/chat/completions", "/v1/completions"
PERSON = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "kind": {"enum": ["cat", "dog"]}}, "required": ["name", "age", "kind"], "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": {
              "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"], "additionalProperties": False}}},
         {"type": "function", "function": {"name": "clock"}}]


def schema(s):
    return {"type": "json_schema", "json_schema": {"name": "x", "schema": s}}


class Forms(Serving):
    def ask(self, **kw):
        return self.server.ask(CHAT, dict({"messages": [{"role": "user", "content": "Tell me of somebody"}], "max_tokens": 200, "temperature": 1, "seed": 1}, **kw))

    def choice(self, **kw):
        status, j = self.ask(**kw)
        self.assertEqual(status, 200, j)
        return j["choices"][0]

    def is_person(self, text):
        p = json.loads(text)
        self.assertEqual(set(p), {"name", "age", "kind"})
        self.assertTrue(isinstance(p["name"], str) and len(p["name"]) <= 12 and 0 <= p["age"] <= 120 and p["kind"] in ("cat", "dog"), p)

    def test_schema(self):
        for seed in range(5):
            c = self.choice(response_format=schema(PERSON), seed=seed)
            self.is_person(c["message"]["content"])
            self.assertEqual(c["finish_reason"], "stop")
        self.is_person(self.choice(response_format=schema(PERSON), max_tokens=60)["message"]["content"])
        text = "".join(e["choices"][0]["delta"].get("content", "") for e in self.server.stream(CHAT, {
            "messages": [{"role": "user", "content": "x"}], "response_format": schema(PERSON), "max_tokens": 200, "seed": 3}) if e != "[DONE]")
        self.is_person(text)
        self.assertIsInstance(json.loads(self.choice(response_format={"type": "json_object"}, max_tokens=80)["message"]["content"]), dict)

    def test_numbers_are_as_the_schema_writes_them(self):
        numbers = {"enum": [0.1, 21.7]}
        self.assertIn(self.choice(response_format=schema(numbers))["message"]["content"], ("0.1", "21.7"))
        tools = [{"type": "function", "function": {"name": "set", "parameters": {"type": "object", "properties": {"x": numbers}, "required": ["x"]}}}]
        text = self.choice(tools=tools, tool_choice="required")["message"]["tool_calls"][0]["function"]["arguments"]
        self.assertIn(text, ('{"x": 0.1}', '{"x": 21.7}'))

    def test_rules(self):
        j = self.server.ask(TEXT, {"prompt": "Well, ", "grammar": 'root ::= ("yes" | "no") "!"', "max_tokens": 20, "temperature": 1})[1]
        self.assertIn(j["choices"][0]["text"], ("yes!", "no!"))

    def test_what_a_limit_cuts_says_so(self):
        ask = dict(max_tokens=6, temperature=0)
        plain, free = self.choice(**ask), self.choice(**ask, tools=TOOLS)
        self.assertEqual((free["message"]["content"], free["finish_reason"]), (plain["message"]["content"], "length"))
        rules = lambda text, n: self.server.ask(TEXT, {"prompt": "Well, ", "grammar": "root ::= " + text, "max_tokens": n, "min_tokens": 3, "temperature": 0})[1]
        self.assertEqual(rules("[a-z]+", 3)["choices"][0]["finish_reason"], "length")  # whole, but it can go on
        n = rules("[a-z]{9}", 30)["usage"]["completion_tokens"]
        self.assertEqual(rules("[a-z]{9}", n)["choices"][0]["finish_reason"], "stop")  # it ends where the limit is

    def test_a_call_is_forced(self):
        for choice, names in (("required", {"weather", "clock"}), ({"type": "function", "function": {"name": "weather"}}, {"weather"})):
            for seed in range(3):
                c = self.choice(tools=TOOLS, tool_choice=choice, seed=seed)
                self.assertEqual(c["finish_reason"], "tool_calls", c)
                f = c["message"]["tool_calls"][0]["function"]
                self.assertIn(f["name"], names)
                if f["name"] == "weather":
                    self.assertIn(json.loads(f["arguments"])["city"], ("Oslo", "Rome"))

    def test_refusals(self):
        self.assertEqual(self.refused(400, "response_format", CHAT, self.body(response_format=schema({"type": "king"})))["type"], "invalid_request_error")
        self.refused(400, "response_format", CHAT, self.body(response_format=schema({"allOf": [{"type": "string"}, {"type": "integer"}]})))
        self.refused(400, "response_format.json_schema.schema", CHAT, self.body(response_format={"type": "json_schema"}))
        self.refused(400, "grammar", TEXT, {"prompt": "x", "grammar": "root = ("})
        self.refused(400, "tool_choice", CHAT, self.body(tools=TOOLS, tool_choice={"type": "function", "function": {"name": "nobody"}}))

    def body(self, **kw):
        return dict({"messages": [{"role": "user", "content": "x"}]}, **kw)

    def test_bias_and_penalties(self):
        ask = lambda **kw: self.server.ask(TEXT, dict({"prompt": "In the beginning", "max_tokens": 12, "temperature": 0}, **kw))[1]["choices"][0]["text"]
        first = self.server.ask("/tokenize", {"content": ask(max_tokens=1)})[1]["tokens"][0]
        self.assertNotEqual(ask(logit_bias={str(first): -100}, max_tokens=1), ask(max_tokens=1))
        other = 300 if first != 300 else 301
        self.assertEqual(ask(logit_bias={str(other): 100}, max_tokens=3), self.server.ask("/detokenize", {"tokens": [other] * 3})[1]["content"])
        self.assertNotEqual(ask(frequency_penalty=2, max_tokens=40), ask(max_tokens=40))
        self.refused(400, "logit_bias", TEXT, {"prompt": "x", "logit_bias": {"x": 1}})
        self.refused(400, "logit_bias.7", TEXT, {"prompt": "x", "logit_bias": {"7": 101}})

    def test_logprobs(self):
        c = self.choice(logprobs=True, top_logprobs=5, temperature=0, max_tokens=6)
        log = c["logprobs"]["content"]
        self.assertEqual("".join(t["token"] for t in log), c["message"]["content"])
        for t in log:
            self.assertEqual((t["token"], t["logprob"]), (t["top_logprobs"][0]["token"], t["top_logprobs"][0]["logprob"]))
            self.assertEqual(bytes(t["bytes"]).decode(), t["token"])
            probs = [math.exp(x["logprob"]) for x in t["top_logprobs"]]
            self.assertEqual((len(probs), sorted(probs, reverse=True)), (5, probs))
            self.assertTrue(0 < sum(probs) <= 1 + 1e-5)
        streamed = [t for e in self.server.stream(CHAT, {"messages": [{"role": "user", "content": "Tell me of somebody"}], "logprobs": True, "top_logprobs": 5,
                    "temperature": 0, "max_tokens": 6}) if e != "[DONE]" and e["choices"][0]["logprobs"] for t in e["choices"][0]["logprobs"]["content"]]
        self.assertEqual(streamed, log)
        j = self.server.ask(TEXT, {"prompt": "And", "logprobs": 2, "max_tokens": 4, "temperature": 0})[1]["choices"][0]
        self.assertEqual("".join(j["logprobs"]["tokens"]), j["text"])
        self.assertEqual([len(t) for t in j["logprobs"]["top_logprobs"]], [2] * 4)

    def test_where_tokens_begin_is_counted_in_letters(self):
        ask = {"prompt": "And", "logprobs": 2, "max_tokens": 30, "temperature": 0, "grammar": 'root ::= "\u00e9\u2014 \u00e9" "x"'}
        log = self.server.ask(TEXT, ask)[1]["choices"][0]["logprobs"]
        self.assertEqual(log["text_offset"], [sum(map(len, log["tokens"][:i])) for i in range(len(log["tokens"]))])
        parts = [e["choices"][0]["logprobs"] for e in self.server.stream(TEXT, ask) if e != "[DONE]" and e["choices"][0]["logprobs"]]
        self.assertGreater(len(parts), 1)
        self.assertEqual({k: [x for p in parts for x in p[k]] for k in log}, log)

    def test_openai_client(self):
        client = self.module("openai").OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        r = client.chat.completions.create(model="demo", messages=[{"role": "user", "content": "x"}], response_format=schema(PERSON), max_tokens=200)
        self.is_person(r.choices[0].message.content)


if __name__ == "__main__":
    main()
