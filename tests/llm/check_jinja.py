# SPDX-License-Identifier: Apache-2.0
"""check_jinja.py JINJA_CLI [--count N] [--seed S] [--seconds T]: random templates on random values, rendered by
runtime/llm/jinja and by PyPI's jinja2. Texts must be equal; where jinja2 raises, an error is wanted.

Not compared: whole numbers of more than 64 bits, time and memory (each has bounds of its own), unknown filters and tests (asked for when they run), texts of objects that
have none but an address (generators, functions).
"""
import argparse
import random
import re
import sys
import time

import jinja_reference

WORDS = ["user", "a", "B", "Zeta", "x y", "", " pad ", "\n", "l1\nl2\n", "é", "日本", "it's", '"q"', "<|im_end|>", "12", "-3", "4.5", "a,b,c", "ß", "tab\t", "\u2028"]


class Generator:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.depth = 0

    def pick(self, *options):
        return self.r.choice(options)

    def value(self, depth=0):
        k = self.r.randrange(9 if depth < 3 else 6)
        if k < 3:
            return self.r.choice(WORDS)
        if k == 3:
            return self.r.choice([0, 1, -1, 7, 100, -12])
        if k == 4:
            return self.r.choice([None, True, False])
        if k == 5:
            return self.r.choice([0.5, -2.0, 1e20, 3.14159, 1e-7, 100.0])
        if k < 8:
            return [self.value(depth + 1) for _ in range(self.r.randrange(4))]
        return {self.pick("a", "b", "role", "content", "k y"): self.value(depth + 1) for _ in range(self.r.randrange(4))}

    def values(self):
        messages = [{"role": self.pick("user", "assistant", "system", "tool"), "content": self.r.choice(WORDS), **({"n": self.r.randrange(5)} if self.r.random() < 0.4 else {})}
                    for _ in range(self.r.randrange(1, 5))]
        return {"messages": messages, "s": self.r.choice(WORDS), "t": self.r.choice(WORDS), "i": self.r.randrange(-5, 9), "f": self.pick(0.5, 2.0, -1.25, 1e16),
                "l": [self.r.choice(WORDS) for _ in range(self.r.randrange(5))], "n": [self.r.randrange(9) for _ in range(self.r.randrange(5))],
                "d": {w: self.value(1) for w in self.r.sample(["a", "b", "c", "A", "x"], self.r.randrange(4))}, "v": self.value(), "b": self.pick(True, False), "none": None}

    def literal(self):
        w = self.r.choice(WORDS)
        return self.pick('"%s"', '"%s"', '"%s"') % w.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\u2028", "\\u2028")

    def deep(self, f, shallow):
        if self.depth > 2 or self.depth and self.r.random() < 0.4:
            return shallow()
        self.depth += 1
        try:
            return f()
        finally:
            self.depth -= 1

    def text(self):
        def more():
            s, t = self.text, self.text
            return self.r.choice([
                lambda: f"({s()} + {t()})", lambda: f"({s()} ~ {self.any()})", lambda: f"{s()}|trim", lambda: f"{s()}|upper", lambda: f"{s()}|lower", lambda: f"{s()}.strip()",
                lambda: f"({s()})[{self.num()}:]", lambda: f"({s()})[:{self.num()}]", lambda: f"({s()})[::{self.pick(-1, 2, -2)}]", lambda: f"{s()}|replace({t()}, {self.literal()})",
                lambda: f"{s()}.replace({t()}, {s()}, 1)", lambda: f"{self.list()}|join({t()})", lambda: f"({s()} if {self.any()} else {t()})", lambda: f"{self.any()}|string",
                lambda: f"{s()}|capitalize", lambda: f"{s()}|title", lambda: f"{s()}.title()", lambda: f"{s()}|indent({self.pick(2, 4)}{self.pick('', ', true', ', first=true, blank=true')})",
                lambda: f"{self.json()}|tojson{self.pick('', '(indent=2)', '(separators=(%s, %s))' % (chr(34) + ',' + chr(34), chr(34) + ':' + chr(34)), '(ensure_ascii=true)', '(sort_keys=true)')}",
                lambda: f"{s()}.lstrip({t()})", lambda: f"{s()}.rstrip()", lambda: f"{s()}.split({self.literal()})[0]", lambda: f"{s()}.split({self.pick('', 'none, 1', chr(39) + ',' + chr(39) + ', 1')})[-1]",
                lambda: f"{s()} * {self.pick(0, 2, 3)}", lambda: f"({s()}).{self.pick('upper', 'lower', 'capitalize', 'swapcase')}()", lambda: f"{s()}|default({t()}, true)", lambda: f"undefinedname|default({t()})",
                lambda: f"{s()}.removeprefix({t()})", lambda: f"{s()}.zfill(5)", lambda: f"{s()}.center(9, '*')", lambda: f"{s()}.ljust(6)", lambda: f"'%s|%d' % ({s()}, {self.num()})", lambda: f"'{{}}-{{}}'.format({s()}, {self.num()})",
                lambda: f"'%7.2s|%-5s|' % ({s()}, {t()})", lambda: f"'%04d|%+.1f|%x' % ({self.num()}, {self.num()}, i)", lambda: f"'{{:>6}}|{{:*^9.3}}'.format({self.num()}, {s()})",
                lambda: f"{s()}|reverse", lambda: f"{s()}.partition({self.literal()})[2]", lambda: f"{s()}.rsplit({self.pick('', 'none, 1', chr(39) + ',' + chr(39) + ', 1')})[0]", lambda: f"({s()})[{self.num()}]"])()
        return self.deep(more, lambda: self.pick("s", "t", self.literal(), self.literal(), "'x'", "messages[0].content", "messages[-1]['role']"))

    def num(self):
        def more():
            a, b = self.num, self.num
            return self.r.choice([lambda: f"({a()} + {b()})", lambda: f"({a()} - {b()})", lambda: f"({a()} * {b()})", lambda: f"({a()} // {self.pick(2, -3, 0.5)})", lambda: f"({a()} % {self.pick(2, -3, 7)})",
                                  lambda: f"{self.list()}|length", lambda: f"{self.text()}|length", lambda: f"{self.text()}|int", lambda: f"{self.text()}|int({a()})", lambda: f"-{a()}", lambda: f"({a()} / {self.pick(2, 4)})", lambda: f"{a()}|abs",
                                  lambda: f"{self.text()}.find({self.text()})", lambda: f"{self.text()}.count({self.literal()})", lambda: f"n|sum", lambda: f"n|max", lambda: f"{a()}|float", lambda: f"({a()})|round(1)", lambda: f"(2 ** {self.pick(0, 3, 5)})",
                                  lambda: f"{self.text()}|float"])()
        return self.deep(more, lambda: self.pick("i", "i", "f", "0", "1", "2", "-1", "7", "1_000"))

    def list(self):
        def more():
            return self.r.choice([lambda: f"({self.list()} + {self.list()})", lambda: f"{self.list()}[{self.num()}:]", lambda: f"{self.list()}[::-1]", lambda: f"{self.text()}.split()", lambda: f"{self.text()}.splitlines()",
                                  lambda: f"{self.list()}|map('upper')|list", lambda: f"messages|map(attribute='content')|list", lambda: f"messages|selectattr('role', 'equalto', 'user')|map(attribute='content')|list",
                                  lambda: f"messages|rejectattr('role', 'in', ['system', 'tool'])|map(attribute='role')|list", lambda: f"messages|selectattr('n')|map(attribute='n')|list", lambda: f"messages|selectattr('n', 'defined')|map(attribute='n')|list",
                                  lambda: f"{self.list()}|sort", lambda: f"{self.list()}|sort(reverse=true, case_sensitive=true)", lambda: f"{self.list()}|unique|list", lambda: f"d.keys()|list", lambda: f"d|list", lambda: f"{self.text()}|list",
                                  lambda: f"[{self.any()}, {self.any()}]", lambda: f"{self.list()}|select('string')|list", lambda: f"{self.list()}|reject('equalto', {self.text()})|list", lambda: f"range({self.pick(0, 3, 5)})|list", lambda: f"{self.list()}|reverse|list",
                                  lambda: f"d|dictsort|map('first')|list", lambda: f"{self.text()}.split({self.literal()})", lambda: f"{self.list()}|batch(2)|map('join')|list", lambda: f"{self.list()} * 2"])()
        return self.deep(more, lambda: self.pick("l", "l", "['b', 'A', 'c']", "[]"))

    def json(self):
        return self.r.choice([lambda: "d", lambda: "v", lambda: "messages", self.text, self.list, self.num, lambda: "{'k': %s, %s: [%s]}" % (self.any(), self.text(), self.num()), lambda: "none"])()

    def any(self):
        return self.r.choice([self.text, self.num, self.list, self.cond, self.json, lambda: "v", lambda: "d.a", lambda: "d['b']", lambda: "d.get('a', 'zz')", lambda: "nothing", lambda: "w", lambda: "u", lambda: "none", lambda: "d.items()|list", lambda: "d|items|list", lambda: "(1, 'x')", lambda: "n|first", lambda: "l|last", lambda: "messages[0]", lambda: "d.keys()", lambda: "range(4)[%s:]" % self.num(), lambda: "d.pop"])()

    def cond(self):
        def more():
            return self.r.choice([lambda: f"({self.cond()} and {self.cond()})", lambda: f"({self.cond()} or {self.any()})", lambda: f"(not {self.any()})", lambda: f"({self.text()} == {self.text()})", lambda: f"({self.num()} {self.pick('<', '<=', '>', '>=', '==', '!=')} {self.num()})",
                                  lambda: f"({self.text()} in {self.text()})", lambda: f"({self.any()} in {self.list()})", lambda: f"({self.text()} not in d)", lambda: f"({self.any()} is {self.pick('', 'not ')}{self.pick('defined', 'string', 'mapping', 'iterable', 'none', 'sequence', 'boolean', 'number', 'integer', 'float', 'true', 'false', 'undefined', 'callable')})",
                                  lambda: f"({self.num()} is {self.pick('even', 'odd', 'divisibleby 3', 'gt 2', 'equalto(1)')})" if self.r.random() < .9 else "(s is lower)", lambda: f"{self.text()}.startswith({self.text()})", lambda: f"{self.text()}.endswith(({self.text()}, 'x'))", lambda: f"({self.text()} is in {self.list()})",
                                  lambda: f"({self.num()} < {self.num()} <= {self.num()})", lambda: f"{self.text()}.{self.pick('isdigit', 'isalpha', 'isspace', 'isupper', 'islower', 'isalnum')}()", lambda: f"({self.any()} == {self.any()})", lambda: f"({self.text()} < {self.text()})"])()
        return self.deep(more, lambda: self.pick("b", "true", "false", "s", "i", "l", "v", "nothing", "none"))

    def tag(self, body):
        return "{%" + self.pick("", "", "-", "+") + " " + body + " " + self.pick("", "", "-", "+") + "%}"

    def print(self):
        return "{{" + self.pick("", "", "-") + " " + self.any() + " " + self.pick("", "", "-") + "}}"

    def space(self):
        return self.pick("", "", "\n", "  ", "\n  ", " \n", "x", "text ", "\t", "\n\n", "a\n    ", "{", "} ", "%")

    def block(self, depth=0):
        return "".join(self.space() + self.statement(depth) + self.space() for _ in range(self.r.choice([1, 1, 2])))

    def statement(self, depth):
        if depth > 2 or self.r.random() < 0.4:
            return self.print()
        t, body = self.tag, lambda: self.block(depth + 1)
        k = self.r.randrange(13)
        if k < 2:
            return t(f"if {self.any()}") + body() + (t(f"elif {self.cond()}") + body() if self.r.random() < .4 else "") + (t("else") + body() if self.r.random() < .5 else "") + t("endif")
        if k < 5:
            of, name = self.r.choice([("messages", "m"), (self.list(), "t"), ("d.items()", "k, v"), ("range(3)", "i"), ("n", "i"), (self.text(), "s"), ("d|dictsort", "k, v"), ("messages", "s"), ("l|select('string')", "t"), ("gen", "t")])
            inside = self.pick("{{ loop.index }}", "{{ loop.last }}{{ loop.revindex0 }}", "{{ loop.previtem }}", "{{ loop.nextitem is defined }}", "{{ loop.cycle('a', 'b') }}", "{{ loop.length }}", "", "{{ loop.changed(m.role) if m is defined else loop.first }}")
            control = t(f"if {self.cond()}") + t(self.pick("break", "continue")) + t("endif") if self.r.random() < .4 else ""
            return t(f"for {name} in {of}" + (f" if {self.cond()}" if self.r.random() < .2 else "")) + inside + control + body() + (t("else") + body() if self.r.random() < .2 else "") + t("endfor")
        if k < 7 and self.r.random() < .1:
            return t("set gen = " + self.pick("l|select", "n|map('string')", "l|reverse")) + body() + "{{ gen|first }}{{ gen|join }}"
        if k < 7:
            return t(f"set {self.pick('w', 'u')} = {self.any()}") + body()
        if k == 7:
            return t(f"set ns = namespace(x={self.any()}, n=0)") + t("for q in l") + t("set ns.n = ns.n + 1") + t(f"set ns.x = {self.any()}") + t("endfor") + "{{ ns.n }}{{ ns.x }}"
        if k == 8:
            return t(f"macro mac(s, w={self.literal()}, i=2)") + body() + t("endmacro") + "{{ mac(%s) }}{{ mac('q', i=%s) }}" % (self.text(), self.num())
        if k == 9:
            return t("set block") + body() + t("endset") + "{{ block|length }}{{ block|upper }}"
        if k == 10:
            return t("filter upper") + body() + t("endfilter") if self.r.random() < .5 else t("generation") + body() + t("endgeneration")
        if k == 11:
            return t("macro outer(w)") + "<{{ caller(w) }}>" + t("endmacro") + t(f"call(x) outer({self.any()})") + "{{ x }}" + body() + t("endcall")
        return self.pick("{# a comment #}", "{#- another -#}\n", "{% raw %}{{ no }}{% endraw %}", "{%- raw -%} {% x %} {%- endraw -%}\n", t(f"with s = {self.any()}, q = s") + body() + "{{ q }}" + t("endwith"))


def unlike(text):
    """A text that tells addresses or more than 64 bits: not compared."""
    return "<" in text and re.search(r"<(generator|function|built-in|bound|Macro|jinja2|dict_|method|itertools|list_rev)", text) or "Undefined" in text or re.search(r"\d{19}", text)


def main():
    a = argparse.ArgumentParser()
    a.add_argument("program")
    a.add_argument("--count", type=int, default=3000)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--seconds", type=float, default=0)
    a.add_argument("--show", type=int, default=5)
    o = a.parse_args()
    env, ours = jinja_reference.environment(), jinja_reference.Renderer(o.program)
    began, n, equal, errors, bad, left = time.time(), 0, 0, 0, 0, 0
    while time.time() - began < o.seconds if o.seconds else n < o.count:
        g = Generator(o.seed * 1000003 + n)
        n += 1
        template, values = g.block(), g.values()
        try:
            want, why = env.from_string(template).render(**values), None
        except Exception as e:  # whatever a template does wrong
            want, why = None, e
        got = ours(template, values)
        if why and re.match(r"No (filter|test) named", str(why)):
            why = want = None
            got = {"error": ""}
        if want is not None and unlike(want) or "64 bits" in got.get("error", ""):
            left += 1
        elif want is None and "error" in got:
            errors += 1
        elif want is not None and got.get("text") == want:
            equal += 1
        else:
            bad += 1
            if bad <= o.show:
                print(f"DIFFERENT {o.seed} {n - 1}\n  template {template!r}\n  values {values!r}\n  wanted {want!r} {why!r}\n  got    {got.get('text', got.get('error'))!r}")
    print(f"{n} templates: {equal} equal, {errors} refused by both, {left} left out, {bad} different")
    return 1 if bad or equal < n // 4 else 0


if __name__ == "__main__":
    sys.exit(main())
