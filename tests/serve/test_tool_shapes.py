# SPDX-License-Identifier: Apache-2.0
"""Calls in the shape of the model's template: nothing but a valid call comes after its mark, and tool_choice makes one."""
import json
import pathlib
import tempfile

import numpy as np
import onnx
import scripted
from onnx import numpy_helper as nh
from server import SOURCE, Serving, main

WEATHER = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}, "days": {"$ref": "#/$defs/few"}}, "required": ["city"],
           "additionalProperties": False, "$defs": {"few": {"type": "integer", "minimum": 1, "maximum": 3}}}
CLOCK = {"type": "object", "properties": {"zone": {"type": "string", "maxLength": 8}}, "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "weather", "parameters": WEATHER}}, {"type": "function", "function": {"name": "clock", "parameters": CLOCK}}]
SCHEMAS = {"weather": WEATHER, "clock": CLOCK}
CALL = "c.function.arguments | tojson"
DS, DE, DC, DD, DP = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>", "<｜tool▁call▁begin｜>", "<｜tool▁call▁end｜>", "<｜tool▁sep｜>")
K, KE, KC, KD, KP = ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>", "<|tool_call_begin|>", "<|tool_call_end|>", "<|tool_call_argument_begin|>")
OBJECT = "{\"name\": \"' ~ c.function.name ~ '\", \"arguments\": ' ~ " + CALL + " ~ '}"
ACTION = "[{\"tool_name\": \"' ~ c.function.name ~ '\", \"parameters\": ' ~ " + CALL + " ~ '}]"
# shape: (what a template writes of a call; what a model says, with $N and $A; its special tokens)
SHAPES = {
    "json": ("", '{"name": "$N", "arguments": $A}', ()),
    "json-parameters": ("{\"name\": \"' ~ c.function.name ~ '\", \"parameters\": ' ~ " + CALL + " ~ '}", '{"name": "$N", "parameters": $A}', ()),
    "tool_call": ("<tool_call>\n" + OBJECT + "\n</tool_call>", '<tool_call>\n{"name": "$N", "arguments": $A}\n</tool_call>', ()),
    "tool_call-list": ("<|tool_call|>[" + OBJECT + "]<|/tool_call|>", '<|tool_call|>[{"name": "$N", "arguments": $A}]<|/tool_call|>', ("<|tool_call|>", "<|/tool_call|>")),
    "function-xml": ("<tool_call>\n<function=' ~ c.function.name ~ '>\n</function>\n</tool_call>",
                     "<tool_call>\n<function=$N>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>", ()),
    "mistral-list": ("[TOOL_CALLS] [" + OBJECT + "]", '[TOOL_CALLS] [{"name": "$N", "arguments": $A}]', ("[TOOL_CALLS]",)),
    "mistral-args": ("[TOOL_CALLS]' ~ c.function.name ~ '[ARGS]' ~ " + CALL + " ~ '", "[TOOL_CALLS]$N[ARGS]$A", ("[TOOL_CALLS]", "[ARGS]")),
    "mistral-args-id": ("[TOOL_CALLS]' ~ c.function.name ~ '[CALL_ID]' ~ c.id ~ '[ARGS]' ~ " + CALL + " ~ '", "[TOOL_CALLS]$N[CALL_ID]Ab3dE6gh9[ARGS]$A",
                        ("[TOOL_CALLS]", "[CALL_ID]", "[ARGS]")),
    "harmony": ("<|channel|>commentary to=functions.' ~ c.function.name ~ ' <|constrain|>json<|message|>' ~ " + CALL + " ~ '<|call|>",
                "<|channel|>commentary to=functions.$N <|constrain|>json<|message|>$A<|call|>", ("<|channel|>", "<|constrain|>", "<|message|>", "<|call|>")),
    "deepseek": (DC + "' ~ c.function.name ~ '" + DP + "' ~ " + CALL + " ~ '" + DD, DS + DC + "$N" + DP + "$A" + DD + DE, (DS, DE, DC, DD, DP)),
    "deepseek-r1": (DC + "function" + DP + "' ~ c.function.name ~ '\n```json\n' ~ " + CALL + " ~ '\n```" + DD,
                    DS + DC + "function" + DP + "$N\n```json\n$A\n```" + DD + DE, (DS, DE, DC, DD, DP)),
    "kimi": (K + KC + "functions.' ~ c.function.name ~ ':0" + KP + "' ~ " + CALL + " ~ '" + KD + KE, K + KC + "functions.$N:0" + KP + "$A" + KD + KE, (K, KE, KC, KD, KP)),
    "action": ("<|START_ACTION|>" + ACTION + "<|END_ACTION|>", '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "$N", "parameters": $A}]<|END_ACTION|>',
               ("<|START_ACTION|>", "<|END_ACTION|>")),
    "action-block": ("Action:\n```json\n" + ACTION + "\n```", 'Action:\n```json\n[{"tool_name": "$N", "parameters": $A}]\n```', ()),
}
OSLO = '{"city": "Oslo", "days": 2}'
# What is no call: of no tool, and with arguments that its schema does not allow.
WRONG = {"[nobody]": ("nobody", OSLO), "[days]": ("weather", '{"city": "Oslo", "days": 9}'), "[lacks]": ("weather", '{"king": 1}')}
# A template of each family, and how it writes calls. "json": it does not show how.
FAMILIES = {"hermes-3": "tool_call", "qwen-2.5": "tool_call", "qwen-3": "tool_call", "smollm-3": "json", "granite-4": "tool_call", "falcon-3": "tool_call",
            "qwen-3-coder": "function-xml", "granite-3": "json", "phi-4-mini": "json", "llama-3-tools": "json-parameters", "llama-4": "json-parameters",
            "mistral-tools": "mistral-list", "mistral-small-3.2": "mistral-args-id", "ministral-3": "mistral-args", "harmony": "harmony",
            "deepseek-v3.1": "deepseek", "deepseek-r1": "deepseek-r1", "kimi-k2": "kimi", "command-r-tools": "action-block", "glm-4": "json", "chatml": "json"}


def split(text, special):
    """Special tokens alone, the rest in pieces of a length by which all differ: each is a token, which another one follows."""
    for n in range(5, 40):
        out, at = [], 0
        while at < len(text):
            mark = next((s for s in special if text.startswith(s, at)), None)
            end = at + len(mark) if mark else min([i for i in (text.find(s, at) for s in special) if i >= 0] + [at + n])
            out.append(text[at:end])
            at = end
        if len(set(out)) == len(out) and min(map(len, out)) > 1:  # a single letter is a token already
            return out
    raise ValueError(text)


def template(written):
    call = "{% for c in m.tool_calls or [] %}{{ '" + written.replace("\n", "\\n") + "' }}{% endfor %}" if written else ""
    return "{% for m in messages %}{{ m.content or '' }}" + call + "{% endfor %}"


def noise(folder, seed, begins):
    """Tokens at random, the same after the same one; the end, and what begins a call, are likelier than others."""
    m = onnx.load(folder / "model.onnx")
    t = m.graph.initializer[0]
    n = t.dims[0]
    table = np.random.default_rng(seed).normal(0, 3, (n, n)).astype(np.float32)
    table[:, [256, *begins]] += 3
    t.CopyFrom(nh.from_array(table, t.name))
    onnx.save(m, folder / "model.onnx")
    return folder


class Shapes(Serving):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.KW = {"models": tuple(cls.models(pathlib.Path(cls.folder.name)))}
        super().setUpClass()

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.folder.cleanup()

    @staticmethod
    def model(folder, scripts, special, jinja):
        scripted.write(folder, scripts, special=special)
        (folder / "chat_template.jinja").write_text(jinja)
        return folder

    def ask(self, model, content, **kw):
        status, j = self.server.ask("/v1/chat/completions", dict({"model": model, "messages": [{"role": "user", "content": content}], "tools": TOOLS,
                                                                  "temperature": 0, "max_tokens": 400}, **kw))
        self.assertEqual(status, 200, (model, j))
        return j["choices"][0]

    def valid(self, value, schema):
        import jsonschema
        jsonschema.validate(value, schema, jsonschema.Draft202012Validator)

    def are_calls(self, choice, names=("weather", "clock"), where=""):
        calls = choice["message"].get("tool_calls", [])
        for c in calls:
            self.assertIn(c["function"]["name"], names, (where, choice))
            self.valid(json.loads(c["function"]["arguments"]), SCHEMAS[c["function"]["name"]])
        return calls

class Scripted(Shapes):
    @classmethod
    def models(cls, top):
        for name, (written, said, special) in SHAPES.items():
            for kind, (tool, arguments) in {"[call]": ("weather", OSLO), **WRONG}.items():
                text = said.replace("$N", tool).replace("$A", arguments)
                yield cls.model(top / f"{name}.{kind[1:-1]}", {kind: split(text, special)}, special, template(written))

    def test_what_a_model_says_is_read(self):
        for name in SHAPES:
            c = self.ask(name + ".call", "[call]")
            want = {"city": "Oslo"} if name == "function-xml" else json.loads(OSLO)
            self.assertEqual([(x["function"]["name"], json.loads(x["function"]["arguments"])) for x in c["message"].get("tool_calls", [])], [("weather", want)], (name, c))
            self.assertEqual((c["finish_reason"], c["message"]["content"]), ("tool_calls", None))

    def test_what_is_no_call_cannot_be_said(self):
        for name in SHAPES:
            for kind in ("nobody", "days", "lacks"):
                if name == "function-xml" and kind != "nobody":
                    continue  # its script has no such arguments
                c = self.ask(f"{name}.{kind}", f"[{kind}]", logprobs=True)
                if name.startswith("json") and kind == "nobody":
                    self.assertNotIn("tool_calls", c["message"])  # JSON that names no tool is an answer
                    continue
                if name == "harmony" and kind == "nobody":  # its mark and the name come as one token, which cannot be said
                    self.assertNotIn("functions.", "".join(t["token"] for t in c["logprobs"]["content"]))
                    continue
                self.assertEqual(c["finish_reason"], "tool_calls", (name, kind, c["message"], "".join(t["token"] for t in c["logprobs"]["content"])))
                self.assertTrue(self.are_calls(c), (name, kind, c))

    def test_without_a_grammar_it_is_content(self):
        # A form of its own takes the place of the grammar of calls: what comes is looked at.
        for name, (_, said, special) in SHAPES.items():
            for kind in ("days", "nobody"):
                if name == "function-xml" and kind == "days":
                    continue
                c = self.ask(f"{name}.{kind}", f"[{kind}]", grammar='root ::= %without("never said")')
                self.assertNotIn("tool_calls", c["message"], (name, kind))
                self.assertEqual(c["finish_reason"], "stop")
                self.assertIn(WRONG[f"[{kind}]"][name == "harmony"], c["message"]["content"])
            self.assertEqual(len(self.are_calls(self.ask(name + ".call", "[call]", grammar='root ::= %without("never said")'))), 1, name)

    def test_none(self):
        for name in SHAPES:
            c = self.ask(name + ".call", "[call]", tool_choice="none")
            self.assertEqual((c["finish_reason"], "tool_calls" in c["message"]), ("stop", False), name)

    def test_schemas_beyond_grammars(self):
        odd = [{"type": "function", "function": {"name": "weather", "parameters": {**WEATHER, "not": {"properties": {"days": {"const": 2}}, "required": ["days"]}}}}]
        j = self.server.ask("/v1/chat/completions", {"model": "tool_call.call", "messages": [{"role": "user", "content": "[call]"}], "tools": odd, "tool_choice": "required"})
        self.assertEqual((j[0], j[1]["error"]["param"]), (400, "tools[0].function.parameters"))
        c = self.ask("tool_call.call", "[call]", tools=odd)  # a call that may come is looked at
        self.assertEqual((c["finish_reason"], "tool_calls" in c["message"]), ("stop", False))
        self.assertIn("<tool_call>", c["message"]["content"])


class Noise(Shapes):
    @classmethod
    def models(cls, top):
        for seed, (name, (written, said, special)) in enumerate(SHAPES.items()):
            words = [*special, "weather", "clock", "Oslo", '{"', '": "', '"}', "<tool_call>", "<function=", "</tool_call>"]
            begins = said.split("$N")[0].replace("\n", "").split('"')[0].rstrip("[{: ")
            words += [begins] if len(begins) > 1 and begins not in words else []
            yield noise(cls.model(top / f"{name}.noise", {"[noise]": words}, special, template(written)), seed,
                        [258 + i for i, w in enumerate(words) if w in (special[:1] or (begins, "<tool_call>"))])
        for name in FAMILIES:
            folder = cls.model(top / f"family.{name}", {"[x]": ["yes"]}, (), (SOURCE / f"tests/llm/templates/{name}.jinja").read_text())
            (folder / "tokenizer_config.json").write_text(json.dumps({"bos_token": "<s>", "eos_token": "</s>"}))
            yield folder

    def test_families_are_known_by_their_templates(self):
        found = {m["id"]: m["tool_calls"] for m in self.server.ask("/v1/models")[1]["data"]}
        self.assertEqual({n: found["family." + n] for n in FAMILIES}, FAMILIES)
        self.assertEqual({n: found[n + ".noise"] for n in SHAPES}, {n: n for n in SHAPES})

    def test_a_call_is_made_in_the_template_s_shape(self):
        for name, (_, said, special) in SHAPES.items():
            for seed in range(4):
                for choice, names in (("required", ("weather", "clock")), ({"type": "function", "function": {"name": "clock"}}, ("clock",))):
                    c = self.ask(name + ".noise", "[noise]", tool_choice=choice, temperature=1, seed=seed, logprobs=True, parallel_tool_calls=seed < 2)
                    n = len(self.are_calls(c, names, name))
                    self.assertTrue(n == 1 or (n > 1 and seed < 2), (name, c))
                    self.assertEqual((c["finish_reason"], c["message"]["content"]), ("tool_calls", None), (name, c))
                    raw = "".join(t["token"] for t in c["logprobs"]["content"])
                    mark = said.split("$N")[0].lstrip("{").split("\n")[0].split('"')[0].rstrip("[{ ")
                    self.assertTrue(mark in raw or mark.replace("<tool_call>", "<function=") in raw or DC in raw, (name, mark, raw))

    def test_texts_between_tags_keep_to_their_schema(self):
        texts = ({"type": ["string", "null"], "enum": ["ab"]}, {"type": ["string", "null"], "maxLength": 3}, {"type": "string", "minLength": 2, "maxLength": 5},
                 {"type": ["string", "null"], "enum": ["ab", None]}, {"type": "string", "const": "ab"})
        for x in texts:
            schema = {"type": "object", "properties": {"x": x}, "required": ["x"], "additionalProperties": False}
            tools = [{"type": "function", "function": {"name": "clock", "parameters": schema}}]
            for seed in range(3):
                c = self.ask("function-xml.noise", "[noise]", tools=tools, tool_choice="required", temperature=1, seed=seed)
                self.assertEqual(c["finish_reason"], "tool_calls", (x, c))
                for call in c["message"]["tool_calls"]:
                    self.valid(json.loads(call["function"]["arguments"]), schema)

    def test_noise_makes_no_wrong_call(self):
        made = 0
        for name in SHAPES:
            for seed in range(12):
                made += len(self.are_calls(self.ask(name + ".noise", "[noise]", temperature=1, seed=seed, max_tokens=150), where=name))
        self.assertGreater(made, 20)


if __name__ == "__main__":
    main()
