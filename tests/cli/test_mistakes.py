# SPDX-License-Identifier: Apache-2.0
"""What users type wrongly: a table of command lines, exit codes and messages. Each runs twice: as text (one message on
stderr, nothing on stdout) and with --format json (one object on stdout, the same code and message)."""
import concurrent.futures
import json
import re
import shlex
import unittest

from common import DEMO, SOURCE, Case

# (command line, exit code, the whole message; "/.../" is a regular expression that finds a part of it)
USAGE = [
    ("hlep", 2, "there is no command 'hlep': did you mean 'help'?"),
    ("rnu {demo} -p a", 2, "there is no command 'rnu': did you mean 'run'?"),
    ("xyzzy", 2, "there is no command 'xyzzy'"),
    ("help inspct", 2, "there is no command 'inspct': did you mean 'inspect'?"),
    ("run", 2, "one MODEL is needed: tenon run MODEL -p TEXT [options]"),
    ("run {demo} a b -p c", 2, "/^one MODEL is needed, not '.*demo' and 'a' \\(a text with spaces needs quotes\\)$/"),
    ("run {demo}", 2, "a prompt is needed: -p TEXT, -f FILE or --prompt-ids LIST"),
    ("run {demo} -p a -f b", 2, "-p, -f and --prompt-ids exclude each other"),
    ("run {demo} --tmep 1", 2, "there is no option --tmep: did you mean --temp?"),
    ("run {demo} --colour", 2, "there is no option --colour"),
    ("run {demo} -temp 1", 2, "there is no option -t: did you mean --temp?"),
    ("run {demo} -p", 2, "-p needs a value: TEXT"),
    ("run {demo} --ids=3 -p a", 2, "--ids takes no value"),
    ("run {demo} -p a --temp -1", 2, "--temp takes a number, 0 or more, not '-1'"),
    ("run {demo} -p a --temp hot", 2, "--temp takes a number, 0 or more, not 'hot'"),
    ("run {demo} -p a --temp nan", 2, "--temp takes a number, 0 or more, not 'nan'"),
    ("run {demo} -p a --top-k -3", 2, "--top-k takes a whole number, 0 or more, not '-3'"),
    ("run {demo} -p a --top-k 1.5", 2, "--top-k takes a whole number, 0 or more, not '1.5'"),
    ("run {demo} -p a --top-p 7", 2, "--top-p takes a number above 0 and at most 1, not '7'"),
    ("run {demo} -p a --min-p -0.1", 2, "--min-p takes a number from 0 to 1, not '-0.1'"),
    ("run {demo} -p a --repeat-penalty 0", 2, "--repeat-penalty takes a number above 0, not '0'"),
    ("run {demo} -p a -n -5", 2, "-n takes a whole number, 0 or more, not '-5'"),
    ("run {demo} -p a -n 99999999999", 2, "-n takes a whole number, 0 or more, not '99999999999'"),
    ("run {demo} -p a --seed -", 2, "--seed takes a whole number, not '-'"),
    ("run {demo} -p a --threads 999", 2, "--threads takes a whole number from 0 to 256, not '999'"),
    ("eval {demo} --text {demo}/config.json --against hsot", 2,
     "--against takes reference or host, not 'hsot': did you mean 'host'?"),
    ("plugins demo", 2, "'demo' is too much: plugins takes options only"),
    ("run {demo} -p a --log-level loud", 2, "--log-level takes error, warn, info or debug, not 'loud'"),
]


class Mistakes(Case):
    def one(self, line, code, text):
        args = [a.format(demo=DEMO, tmp=self.tmp, source=SOURCE) for a in shlex.split(line)]
        r = self.tenon(*args)
        said = r.stderr.split("\n")[0].removeprefix("tenon: ")
        bad = []
        if not self.matches(text, said):
            bad.append(f"said: {r.stderr}")
        if r.returncode != code or r.stdout:
            bad.append(f"exit code {r.returncode}, stdout: {r.stdout}")
        at = 1 if args[-1] == "-p" else len(args)
        j = self.tenon(*args[:at], "--format", "json", *args[at:])
        try:
            error = json.loads(j.stdout)["error"]
        except (ValueError, KeyError, TypeError):
            return bad + [f"no JSON error: {j.stdout}"]
        if j.returncode != code or not self.matches(text, error["message"]) or set(error) != {"code", "message", "where"}:
            bad.append(f"JSON: exit code {j.returncode}, {error}")
        return bad

    @staticmethod
    def matches(text, said):
        if text.startswith("/"):
            return re.search(text[1:-1], said)
        return text == said

    def run_table(self, table):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for (line, code, text), bad in zip(table, pool.map(lambda row: self.one(*row), table)):
                with self.subTest(line):
                    self.assertFalse(bad, f"tenon {line}\nwanted {code}: {text}\n" + "\n".join(bad))

    def test_usage(self):
        self.run_table(USAGE)


class Help(Case):
    def test_every_option_is_listed(self):
        commands = re.findall(r"^  (\S+) +\S", self.ok("help").stdout, re.M)
        self.assertGreater(len(commands), 15)
        for command in commands:
            text = self.ok("help", command).stdout
            self.assertEqual(text, self.ok(command, "--help").stdout)
            self.assertEqual(text, self.ok(command, "--bogus", "-h").stdout, "help wins over mistakes")
            self.assertTrue(text.startswith(f"Usage: tenon {command} "), text)
            self.assertIn("--profile NAME|FILE", text)
            for line in text.splitlines():
                self.assertLessEqual(len(line), 100, line)

    def test_version(self):
        self.assertRegex(self.ok("-V").stdout, r"^tenon \d+\.\d+")
        self.assertEqual(self.ok("-V").stdout, self.ok("--version").stdout)

    def test_man_and_completion(self):
        man, bash = self.ok("help", "man").stdout, self.ok("help", "bash").stdout
        for word in ("\\-\\-temp", "\\-\\-each\\-node", "tenon conform"):
            self.assertIn(word, man)
        self.assertIn("--temp\n", bash)


if __name__ == "__main__":
    unittest.main()
