# SPDX-License-Identifier: Apache-2.0
"""Calls of tools and thoughts, in the shapes in which models write them, by a model that says what it is told to."""
import json
import pathlib
import tempfile

import scripted
from server import Serving, main

TOOLS = [{"type": "function", "function": {"name": n, "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}
         for n in ("weather", "clock")]
OSLO = {"city": "Oslo"}
SCRIPTS = {
    "[hermes]": ["Let me look.", "\n<tool_", "call>\n{\"name\": \"weather\", ", "\"arguments\": {\"city\": \"Oslo\"}}\n</", "tool_call>"],
    "[two]": ["<tool_call>{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}</tool_call>\n<tool_",
              "call>{\"name\": \"clock\", \"arguments\": {}}</tool_call>"],
    "[mistral]": ["[TOOL", "_CALLS] [{\"name\": \"weather\", \"arguments\": ", "{\"city\": \"Oslo\"}}]"],
    "[phi]": ["<|tool_call|>[{\"name\": \"weather\", \"arguments\": {\"city\": \"Oslo\"}}]<|/tool", "_call|>"],
    "[llama]": ["{\"name\": \"weather\"", ", \"parameters\": {\"city\": \"Oslo\"}} "],
    "[python]": ["<|python_", "tag|>{\"name\": \"weather\", \"parameters\":{\"city\": \"Oslo\"}}"],
    "[json]": ["{\"name\": \"nobody\", \"age\": ", "7}"],
    "[broken]": ["<tool_call>{\"name\": ", "</tool_call> after"],
    "[open]": ["a < b <tool", " <tool_call", "er> <tool_"],
    "[think]": ["<th", "ink>\nIs it", " </ so?", "\n</thi", "nk>\n\n", "It is."],
    "[thinkcall]": ["<think>w", "ell</think>", "<tool_call>{\"name\": \"clock\", \"arguments\":", " \"{}\"}</tool_call>"],
    "[endless]": ["<think>on and", " on"],
    "[special]": ["[TOOL_CALLS]", "[{\"name\": \"clock\", ", "\"arguments\": {}}]"],
    "[harmony]": ["<|channel|>", "commentary", "<|odd|>", " to=functions.weather ", "<|constrain|>", "json", "<|message|>", "{\"city\": \"Os", "lo\"}", "<|call|>"],
    "[channels]": ["<|channel|>analysis<|message|>Is it", " so?<|end|><|start|>assist", "ant<|channel|>final<|mess", "age|>It is", ".<|return|>"],
    "[args]": ["Well. ", "[TOOL_", "CALLS]", "weather", "[ARGS]", "{\"city\":", "\"Oslo\"", " }"],
    "[ids]": ["[TOOL_CALLS]clock[CALL_ID]Ab3dE6gh9", "[ARGS]{}[TOOL_CALLS]weather[CALL", "_ID]zzzzzzzz1[ARGS]{\"city\": \"", "Oslo\"} "],
    "[wrong args]": ["[TOOL_CALLS]weather[ARGS]{\"city\": ", "\"Oslo\", }"],
    "[magistral]": ["[THINK]", "Is it so?", "[/THINK]", "It", " is."],
    "[words]": ["✓ ble", "skiver", " ☂"],
}


SPECIAL = ("[TOOL_CALLS]", "<|channel|>", "<|odd|>", "<|constrain|>", "<|message|>", "<|call|>", "[ARGS]", "[THINK]", "[/THINK]")


class Tools(Serving):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.KW = {"models": (scripted.write(pathlib.Path(cls.folder.name) / "scripted", SCRIPTS, special=SPECIAL),)}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    def message(self, script, tools=TOOLS, **kw):
        """What a whole answer says, after a look that the stream says the same."""
        body = dict({"messages": [{"role": "user", "content": script}], "temperature": 0}, **kw)
        if tools:
            body["tools"] = tools
        status, j = self.server.ask("/v1/chat/completions", body)
        self.assertEqual(status, 200, j)
        m, finish = j["choices"][0]["message"], j["choices"][0]["finish_reason"]
        content, thoughts, calls, last = "", "", {}, None
        for e in self.server.stream("/v1/chat/completions", body):
            if e == "[DONE]":
                break
            d = e["choices"][0]["delta"]
            content += d.get("content", "")
            thoughts += d.get("reasoning_content", "")
            for c in d.get("tool_calls", []):
                calls[c["index"]] = c["function"]
            last = e["choices"][0]["finish_reason"]
        self.assertEqual((content, thoughts, [calls[i] for i in sorted(calls)], last),
                         (m["content"] or "", m.get("reasoning_content", ""), [c["function"] for c in m.get("tool_calls", [])], finish))
        return m, finish

    def called(self, script, *want, content=None, **kw):
        m, finish = self.message(script, **kw)
        self.assertEqual([(c["function"]["name"], json.loads(c["function"]["arguments"])) for c in m["tool_calls"]], list(want))
        self.assertEqual((m["content"], finish), (content, "tool_calls"))
        self.assertEqual(len({c["id"] for c in m["tool_calls"]}), len(want))
        return m

    def test_calls(self):
        self.called("[hermes]", ("weather", OSLO), content="Let me look.")
        self.called("[two]", ("weather", OSLO), ("clock", {}))
        self.called("[two]", ("weather", OSLO), parallel_tool_calls=False)
        for script in ("[mistral]", "[phi]", "[llama]", "[python]"):
            self.called(script, ("weather", OSLO))
        self.called("[args]", ("weather", OSLO), content="Well.")
        m = self.called("[ids]", ("clock", {}), ("weather", OSLO))
        self.assertEqual([c["id"] for c in m["tool_calls"]], ["Ab3dE6gh9", "zzzzzzzz1"])
        self.called("[ids]", ("clock", {}), parallel_tool_calls=False)
        # Marks that are special tokens come through; others do not.
        self.called("[special]", ("clock", {}))
        self.called("[harmony]", ("weather", OSLO))
        j = self.server.ask("/v1/completions", {"prompt": "[harmony]", "temperature": 0})[1]
        self.assertEqual(j["choices"][0]["text"], "".join(p for p in SCRIPTS["[harmony]"] if p != "<|odd|>"))

    def test_what_is_no_call(self):
        for script in ("[json]", "[broken]", "[open]", "[words]", "[wrong args]"):
            m, finish = self.message(script)
            self.assertEqual((m["content"], finish), ("".join(SCRIPTS[script]), "stop"))
            self.assertNotIn("tool_calls", m)
        for kw in ({"tools": None}, {"tool_choice": "none"}):
            m, finish = self.message("[hermes]", **kw)
            self.assertEqual((m["content"], finish), ("".join(SCRIPTS["[hermes]"]), "stop"))

    def test_thoughts(self):
        m, _ = self.message("[think]", tools=None)
        self.assertEqual((m["reasoning_content"].strip(), m["content"]), ("Is it </ so?", "It is."))
        m = self.called("[thinkcall]", ("clock", {}))
        self.assertEqual(m["reasoning_content"], "well")
        m, finish = self.message("[channels]", tools=None)
        self.assertEqual((m["reasoning_content"], m["content"], finish), ("Is it so?", "It is.", "stop"))
        m, finish = self.message("[harmony]", tools=None)
        self.assertEqual((m["content"], finish), (json.dumps(OSLO), "stop"))
        m, finish = self.message("[magistral]", tools=None)
        self.assertEqual((m["reasoning_content"], m["content"]), ("Is it so?", "It is."))
        m, finish = self.message("[endless]", tools=None)
        self.assertEqual((m["reasoning_content"], m["content"], finish), ("on and on", "", "stop"))
        # A template may open the thoughts.
        m, _ = self.message("x", tools=None, chat_template_kwargs={"opened": "<think>[words]"})
        self.assertEqual(m["content"], "✓ bleskiver ☂")

    def test_chat_prints_what_is_said(self):
        model = self.KW["models"][0]
        r = self.ok("chat", model, "--profile", "host", "--temp", 0, stdin="[channels]\n")
        self.assertEqual(r.stdout, "It is.\n")
        self.assertIn("Is it so?\n", r.stderr)
        for script in ("[words]", "[think]", "[open]"):
            r = self.ok("chat", model, "--profile", "host", "--temp", 0, stdin=script + "\n")
            self.assertEqual(r.stdout, "".join(SCRIPTS[script]) + "\n")
        # What goes on after it has the answer without thoughts.
        r = self.ok("chat", model, "--profile", "host", "--temp", 0, stdin=f"[channels]\n/save {self.tmp}/c.json\n")
        said = json.loads((self.tmp / "c.json").read_text())["messages"][1]
        self.assertEqual(said, {"role": "assistant", "content": "It is.", "thinking": "Is it so?"})

    def test_the_template_sees_tools_and_their_answers(self):
        call = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": json.dumps(OSLO)}}
        messages = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": [call]},
                    {"role": "tool", "tool_call_id": "call_1", "content": "rain"}, {"role": "user", "content": "[words]"}]
        body = {"messages": messages, "temperature": 0, "max_tokens": 1}
        a, b = (self.server.ask("/v1/chat/completions", dict(body, tools=t))[1] for t in ([], TOOLS))
        self.assertEqual(b["usage"]["prompt_tokens"] - a["usage"]["prompt_tokens"],
                         self.server.ask("/tokenize", {"content": json.dumps(TOOLS)})[1]["count"])
        self.assertEqual(a["choices"][0]["message"]["content"], "✓ ble")

    def test_thoughts_come_back_by_the_name_of_harmony(self):
        call = {"id": "c", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
        for message, want in (({"content": "x", "reasoning_content": "[words]"}, "✓ bleskiver ☂"),
                              ({"content": None, "tool_calls": [call], "reasoning_content": "[words]"}, "✓ bleskiver ☂"),
                              ({"content": "[words]", "tool_calls": [call], "reasoning_content": "[endless]"}, "✓ bleskiver ☂"),
                              ({"content": "x", "reasoning_content": "[endless]", "thinking": "[words]"}, "✓ bleskiver ☂")):
            j = self.server.ask("/v1/chat/completions", {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", **message}], "temperature": 0})[1]
            self.assertEqual(j["choices"][0]["message"]["content"], want, message)

    def test_openai_client(self):
        openai = self.module("openai")
        client = openai.OpenAI(base_url=self.server.url + "/v1", api_key="none", max_retries=0)
        r = client.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "[hermes]"}], tools=TOOLS, tool_choice="auto",
                                           temperature=0)
        call = r.choices[0].message.tool_calls[0]
        self.assertEqual((call.function.name, json.loads(call.function.arguments)), ("weather", OSLO))
        more = [{"role": "user", "content": "x"}, r.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "rain"},
                {"role": "user", "content": "[words]"}]
        self.assertEqual(client.chat.completions.create(model="scripted", messages=more, tools=TOOLS, temperature=0).choices[0].message.content, "✓ bleskiver ☂")
        with client.chat.completions.stream(model="scripted", messages=[{"role": "user", "content": "[two]"}], tools=TOOLS, temperature=0) as s:
            s.until_done()
            self.assertEqual([c.function.name for c in s.get_final_completion().choices[0].message.tool_calls], ["weather", "clock"])


if __name__ == "__main__":
    main()
