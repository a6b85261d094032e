# SPDX-License-Identifier: Apache-2.0
"""PyPI's jinja2 as transformers uses it (utils/chat_template_utils.py), and jinja_cli beside it."""
import datetime
import json
import os
import subprocess

try:
    import jinja2
    import jinja2.ext
    import jinja2.sandbox
except ImportError:
    raise SystemExit("jinja2 is missing: pip install jinja2, as scripts/test.sh does")

NOW = 1753500000  # 2025-07-26
os.environ["TZ"] = "UTC"


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_support"), [], [], body).set_lineno(line)

    def _support(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).strftime(format)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = strftime_now
    return env


class Renderer:
    """jinja_cli, a template at a time."""

    def __init__(self, program):
        self.p = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last = None

    def __call__(self, template, values, trusted=None):
        ask = {"vars": values, "trusted": trusted or {}, "now": NOW}
        if template != self.last:
            ask["template"] = template
        self.last = template
        self.p.stdin.write(json.dumps(ask).encode() + b"\n")
        self.p.stdin.flush()
        line = self.p.stdout.readline()
        if not line:
            raise SystemExit(f"jinja_cli ended with {self.p.wait()} at template {template!r} of {values!r}")
        return json.loads(line)
