# SPDX-License-Identifier: Apache-2.0
"""check_templates.py JINJA_CLI [--count N] [--seed S] [--transformers]: the templates of templates/ on N random conversations each.

Texts must be those of jinja2 as transformers uses it; where that raises, an error is wanted. --transformers: of the function that
transformers' apply_chat_template calls. Of each text the bytes that come from messages are known: content that looks like a special
token is never the template's.
"""
import argparse
import pathlib
import random
import sys

import jinja_reference

TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}
TEXTS = ["Hello", " two words ", "", "\n", "line one\nline two\n", "naïve café", "日本語のテキスト", "it's \"quoted\"", "<|im_end|>", "</s>", "a<think>\nhmm\n</think>\n\nb", "{{ not }} {% jinja %}",
         "tab\tend", "/no_think now", "1 + 1 = 2", "🙂 emoji", "a\r\nb\n\nc", "<tool_response>x</tool_response>", "x" * 300, "\u2028sep"]
TYPES = [{"type": "string"}, {"type": "string", "enum": ["a", "b"]}, {"type": "integer", "description": "how many"}, {"type": "number", "default": 1.5}, {"type": "boolean"},
         {"type": "array", "items": {"type": "string"}}, {"type": ["string", "null"]}, {"type": "object", "properties": {"k": {"type": "integer"}}, "required": ["k"]}]


class Conversations:
    def __init__(self, seed):
        self.r = random.Random(seed)

    def text(self):
        return self.r.choice(TEXTS) + (self.r.choice(TEXTS) if self.r.random() < 0.3 else "")

    def value(self, depth=0):
        k = self.r.randrange(7 if depth < 2 else 5)
        if k < 2:
            return self.text()
        if k < 5:
            return self.r.choice([None, True, 3, -7, 2.5, 1e-9, 1e22])
        return [self.value(depth + 1) for _ in range(self.r.randrange(3))] if k == 5 else {self.r.choice(["q", "n", "é"]): self.value(depth + 1) for _ in range(self.r.randrange(3))}

    def tool(self, i):
        names = self.r.sample(["city", "unit", "days", "é"], self.r.randrange(4))
        return {"type": "function", "function": {"name": f"f_{i}", "description": self.text(), "parameters": {
            "type": "object", "properties": {n: dict(self.r.choice(TYPES)) for n in names}, "required": [n for n in names if self.r.random() < 0.5]}}}

    def call(self):
        return {"id": "".join(self.r.choice("abc123") for _ in range(9)), "type": "function",
                "function": {"name": f"f_{self.r.randrange(3)}", "arguments": {n: self.value() for n in self.r.sample(["city", "unit", "days"], self.r.randrange(3))}}}

    def conversation(self):
        messages = []
        if self.r.random() < 0.4:
            messages.append({"role": "system", "content": self.text()})
        for _ in range(self.r.randrange(1, 5)):
            messages.append({"role": "user", "content": self.text()})
            if self.r.random() < 0.25:
                messages.append({"role": "assistant", "content": self.r.choice([None, self.text()]), "tool_calls": [self.call() for _ in range(self.r.choice([1, 1, 2]))]})
                for c in messages[-1]["tool_calls"]:
                    messages.append({"role": "tool", "name": c["function"]["name"], "tool_call_id": c["id"], "content": self.text()})
            messages.append({"role": "assistant", "content": self.text(), **({"reasoning_content": self.text()} if self.r.random() < 0.2 else {})})
        if self.r.random() < 0.6:
            messages.pop()
        if self.r.random() < 0.08:
            self.r.shuffle(messages)
        if self.r.random() < 0.1:
            for m in messages:
                if m["role"] == "user":
                    m["content"] = [{"type": "text", "text": m["content"]}, {"type": "image"}]
        more = {}
        if self.r.random() < 0.3:
            more["enable_thinking"] = self.r.random() < 0.5
        if self.r.random() < 0.2:
            more["reasoning_effort"] = self.r.choice(["low", "high"])
        return {"messages": messages, "tools": [self.tool(i) for i in range(self.r.randrange(1, 4))] if self.r.random() < 0.4 else None, "documents": None,
                "add_generation_prompt": self.r.random() < 0.6, **more}


def of_transformers():
    sys.modules["torch"] = None  # not needed for templates
    import datetime
    import types

    from transformers.utils import chat_template_utils as u

    class Frozen(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls.fromtimestamp(jinja_reference.NOW, datetime.timezone.utc)

    u.datetime = Frozen

    def render(template, values):
        values = dict(values)
        out, _ = u.render_jinja_template([values.pop("messages")], chat_template=template, **{**TOKENS, **values})
        return out[0]
    return render


def of_jinja2():
    env, kept = jinja_reference.environment(), {}

    def render(template, values):
        if template not in kept:
            kept[template] = env.from_string(template)
        return kept[template].render(**{**values, **TOKENS})
    return render


def typed(answer):
    """The template's own bytes, in order."""
    raw = answer["text"].encode()
    return b"".join(raw[a:b] for a, b in answer["mine"])


def main():
    a = argparse.ArgumentParser()
    a.add_argument("program")
    a.add_argument("--count", type=int, default=50)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--transformers", action="store_true")
    o = a.parse_args()
    reference, ours = of_transformers() if o.transformers else of_jinja2(), jinja_reference.Renderer(o.program)
    files = sorted((pathlib.Path(__file__).parent / "templates").glob("*.jinja"))
    bad = equal = refused = 0
    for f in files:
        template, mine = f.read_text(), 0
        for i in range(o.count):
            values = Conversations(f"{o.seed} {f.name} {i}").conversation()
            try:
                want, why = reference(template, values), None
            except Exception as e:  # a template may raise whatever it likes
                want, why = None, e
            got = ours(template, values, TOKENS)
            if want is None and "error" in got:
                refused += 1
            elif want is not None and got.get("text") == want and not ("🙂" in typed(got).decode() and "🙂" not in template):
                equal += 1
                mine += 1
            else:
                bad += 1
                if bad <= 5:
                    print(f"DIFFERENT {f.name} {o.seed} {i}\n  values {values!r}\n  wanted {want!r} {why!r}\n  got    {got.get('text', got.get('error'))!r}")
        if mine < o.count // 5:
            print(f"{f.name}: {mine} of {o.count} conversations have a text: too few to say something")
            bad += 1
    print(f"{len(files)} templates, {o.count} conversations each: {equal} texts equal, {refused} refused by both, {bad} different")
    return 1 if bad or not files else 0


if __name__ == "__main__":
    sys.exit(main())
