# SPDX-License-Identifier: Apache-2.0
"""tenon chat: lines from a pipe and from a terminal."""
import ctypes.util
import json
import os
import pty
import re
import resource
import select
import shutil
import signal
import subprocess
import time

from common import BUILD, DEMO, EMULATOR, SOURCE, TENON, Case, main

HOST = ["--profile", "host", "--temp", 0]
TEMPLATE = "{{ bos_token }}{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"


class Piped(Case):
    def chat(self, *lines, args=(), **kw):
        return self.tenon("chat", DEMO, *HOST, "-n", 12, *args, stdin="".join(x + "\n" for x in lines), timeout=120, **kw)

    def folder(self, template=TEMPLATE):
        d = self.tmp / "model"
        shutil.copytree(DEMO, d, ignore=shutil.ignore_patterns("chat_template*"))
        if template is not None:
            (d / "chat_template.jinja").write_text(template)
        return d

    def test_the_demo_model_answers(self):
        r = self.chat("In the beginning", "/stats", "/quit", "never read")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertTrue(r.stdout.strip())
        self.assertRegex(r.stderr, r"12 tokens, [\d.]+ tokens/s; prompt \d+, 0 kept; context \d+ of \d+")
        self.assertIn("1 answers, 12 tokens", r.stderr)

    def test_an_answer_is_that_of_run_on_the_template_s_text(self):
        d = self.folder()
        text = "<user> And God said\n<assistant>"
        want = self.ok("run", d, *HOST, "-n", 12, "-p", text).stdout
        self.assertEqual(self.tenon("chat", d, *HOST, "-n", 12, stdin="And God said\n").stdout, want)

    def test_a_second_turn_prefills_its_own_tokens(self):
        r = self.chat("In the beginning God created the heaven and the earth", "And", args=["--system", "Once upon a time"])
        first, second = re.findall(r"prompt (\d+), (\d+) kept; context (\d+)", r.stderr)
        self.assertEqual(first[1], "0")
        self.assertGreater(int(second[1]), int(first[0]) - 2)  # the prompt before, and what of the answer is the same
        self.assertLess(int(second[0]), int(first[0]))
        # What is kept changes nothing: the same conversation in one go.
        saved = self.tmp / "c.json"
        a = self.chat("In the beginning", "/save %s" % saved, "And it came to pass").stdout.splitlines()
        b = self.chat("/load %s" % saved, "And it came to pass").stdout.splitlines()
        self.assertEqual(a[-len(b):], b)

    def test_a_kept_conversation_is_not_computed_again(self):
        kept, state = self.tmp / "c.json", self.tmp / "c.json.state"
        a = self.chat("In the beginning God created", f"/keep {kept}", "And it came to pass").stdout.splitlines()
        r = self.chat(f"/load {kept}", "And it came to pass")
        self.assertEqual(a[-len(r.stdout.splitlines()):], r.stdout.splitlines())
        self.assertGreater(int(re.search(r", (\d+) kept", r.stderr)[1]), 5)
        bad = bytearray(state.read_bytes())
        bad[len(bad) // 2] ^= 1
        state.write_bytes(bad)
        r = self.chat(f"/load {kept}", "And it came to pass")
        self.assertIn("computed again", r.stderr)
        self.assertIn(", 0 kept", r.stderr)
        self.assertEqual(a[-len(r.stdout.splitlines()):], r.stdout.splitlines())

    def test_commands(self):
        saved = self.tmp / "c.json"
        r = self.chat("/system Be short", "one \\", "two", '"""', "three", "four", '"""', "/undo", "/retry", f"/save {saved}", "/help")
        self.assertEqual(r.returncode, 0, r.stderr)
        said = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in said], ["system", "user", "assistant"])
        self.assertEqual([said[0]["content"], said[1]["content"]], ["Be short", "one \ntwo"])
        self.assertIn("/system [TEXT]", r.stderr)

    def test_what_is_quoted_is_no_command(self):
        saved = self.tmp / "c.json"
        r = self.chat('"""', "/quit", "is a command", '"""', f"/save {saved}")
        self.assertEqual(r.returncode, 0, r.stderr)
        self.assertEqual(json.loads(saved.read_text())["messages"][0]["content"], "/quit\nis a command")

    def test_a_full_disk_leaves_what_was_saved(self):
        saved = self.tmp / "c.json"
        self.assertEqual(self.chat("In the beginning", f"/save {saved}").returncode, 0)
        before = saved.read_text()
        saved.chmod(0o600)
        limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_IGN), resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16)))
        r = subprocess.run([*EMULATOR, TENON, "chat", DEMO, *map(str, HOST), "-n", "2"], input=f"Another\n/save {saved}\n", capture_output=True, text=True,
                           preexec_fn=limit, timeout=120)
        self.assertEqual(r.returncode, 3, r.stderr)
        self.assertIn("File too large", r.stderr)
        self.assertEqual((saved.read_text(), [f.name for f in self.tmp.glob("c.json*")]), (before, ["c.json"]))
        self.assertEqual(self.chat("Another", f"/save {saved}", "/save /dev/stderr").returncode, 0)
        self.assertEqual((saved.stat().st_mode & 0o777, json.loads(saved.read_text())["messages"][0]["content"]), (0o600, "Another"))

    def test_what_cannot_be(self):
        d = self.folder(None)
        self.fails(3, "no chat template", "tenon run", args=["chat", d, "--profile", "host"], stdin="x\n")
        self.fails(3, "there is no '/nonsense'", args=["chat", DEMO, *HOST], stdin="/nonsense\n")
        self.fails(3, "nothing was said", args=["chat", DEMO, *HOST], stdin="/retry\n")
        (self.tmp / "bad.json").write_text("[]")
        self.fails(3, "messages", args=["chat", DEMO, *HOST], stdin=f"/load {self.tmp / 'bad.json'}\n")
        (d / "chat_template.jinja").write_text("a\n{{ raise_exception('only tools') }}")
        self.fails(3, "chat_template.jinja: line 2: only tools", args=["chat", d, *HOST], stdin="x\n")
        (d / "chat_template.jinja").write_text("{% if %}")
        self.fails(3, "chat_template.jinja: line 1", args=["chat", d, *HOST], stdin="x\n")

    def test_a_template_of_genai_config(self):
        template = "{{ bos_token }}{{ messages[-1].content }}"
        d = self.folder(template)
        ask = lambda: self.ok("chat", d, *HOST, "-n", 8, "--temp", 0, stdin="In the beginning\n").stdout
        want = ask()
        (d / "chat_template.jinja").unlink()
        self.fails(3, "no chat template", args=["chat", d, *HOST], stdin="x\n")
        for where in ({"model": {"chat_template": template}}, {"chat_template": template}):
            (d / "genai_config.json").write_text(json.dumps({"model": {"type": "llama"}, **where}))
            self.assertEqual(ask(), want)

    def test_special_tokens_that_are_typed_are_text(self):
        d = self.folder("{{ bos_token }}{{ messages[-1].content }}")
        self.ok("chat", d, *HOST, "-n", 1, stdin="<|endoftext|>\n")
        r = self.tenon("chat", d, *HOST, "-n", 1, stdin="<|endoftext|>\n")
        prompt = int(re.search(r"prompt (\d+)", r.stderr).group(1))
        self.assertGreater(prompt, 3)  # not BOS twice


class Typed(Case):
    TERM, LONGEST = "dumb", 2048

    def setUp(self):
        super().setUp()
        if self.TERM != "dumb" and not ctypes.util.find_library("edit"):
            self.skipTest("libedit is not installed")
        self.master, slave = pty.openpty()
        env = dict(os.environ, TENON_PLUGIN_PATH=str(BUILD / "plugins/cpu-avx2-lut"), TENON_PROFILE_PATH=str(SOURCE / "configs"),
                   TENON_CACHE_DIR=str(self.cache), TERM=self.TERM, LC_ALL="C.UTF-8", HOME=str(self.tmp))
        self.p = subprocess.Popen([*EMULATOR, TENON, "chat", str(DEMO), "--profile", "host", "--temp", "0", "-n", str(self.LONGEST)],
                                  stdin=slave, stdout=slave, stderr=slave, env=env, start_new_session=True)
        os.close(slave)
        self.seen = ""

    def tearDown(self):
        if self.p.poll() is None:
            self.p.kill()
        self.p.wait()
        os.close(self.master)
        super().tearDown()

    def until(self, what, seconds=120):
        end = time.time() + seconds
        while what not in self.seen and time.time() < end:
            if select.select([self.master], [], [], 1)[0]:
                try:
                    self.seen += os.read(self.master, 4096).decode(errors="replace")
                except OSError:
                    break
        self.assertIn(what, self.seen)
        before, self.seen = self.seen.split(what, 1)
        return before

    def type(self, text):
        os.write(self.master, text.encode())


class Terminal(Typed):
    def test_ctrl_c_stops_an_answer_and_keeps_the_conversation(self):
        self.until("> ")
        self.type("In the beginning\n")
        self.until("beginning\r\n")
        time.sleep(1)
        self.p.send_signal(signal.SIGINT)
        self.until("stopped")
        self.until("> ")
        saved = self.tmp / "c.json"
        self.type(f"/save {saved}\n")
        self.until("> ")
        said = json.loads(saved.read_text())["messages"]
        self.assertEqual([m["role"] for m in said], ["user", "assistant"])
        self.p.send_signal(signal.SIGINT)  # at the prompt: the line, not the program
        self.until("> ")
        time.sleep(4)  # longer than a cancel may take
        self.type("/nonsense\n")
        self.until("there is no '/nonsense'")
        self.until("> ")
        self.type("\x04")
        self.p.wait(timeout=60)
        self.assertEqual(self.p.returncode, 0)


    def test_ctrl_c_before_an_answer_forgets_the_line(self):
        long, saved = self.tmp / "long.json", self.tmp / "c.json"
        said = [{"role": r, "content": "In the beginning " * 250} for r in ("user", "assistant")]
        long.write_text(json.dumps({"messages": said}))
        self.until("> ")
        for line in ("And then?", "/retry"):  # where a token comes before the signal there is an answer, and nothing to see
            self.type(f"/load {long}\n")
            self.until("> ")
            self.type(line + "\n")
            self.until(line[-3:])
            time.sleep(0.1)
            self.p.send_signal(signal.SIGINT)
            self.until("stopped")
            self.until("> ")
            self.type(f"/save {saved}\n")
            self.until("> ")
            now = json.loads(saved.read_text())["messages"]
            self.assertEqual([m["role"] for m in now], ["user", "assistant"] * (len(now) // 2))


class TerminalEdited(Terminal):
    TERM = "xterm"


class Edited(Typed):
    """What libedit adds."""
    TERM, LONGEST = "xterm", 12

    def said(self):
        saved = self.tmp / "c.json"
        self.type(f"/sav\t{saved}\n")  # Tab completes the command
        end = time.time() + 60
        while not saved.exists() and time.time() < end:
            self.until("> ")
        return [m["content"] for m in json.loads(saved.read_text())["messages"] if m["role"] == "user"]

    def test_lines_are_edited_and_come_back(self):
        left, up = "\x1b[D", "\x1b[A"
        self.until("> ")
        self.type("Gd said \u00e9" + left * 8 + "o\n")  # a letter of two bytes is passed as one
        self.until(" tokens/s; ")
        self.until("> ")
        self.type(up + "!\n")
        self.until(" tokens/s; ")
        self.until("> ")
        self.assertEqual(self.said(), ["God said \u00e9", "God said \u00e9!"])


if __name__ == "__main__":
    main()
