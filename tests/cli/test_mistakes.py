# SPDX-License-Identifier: Apache-2.0
"""What users type wrongly: a table of command lines, exit codes and messages. Each runs twice: as text (one message on
stderr, nothing on stdout) and with --format json (one object on stdout, the same code and message)."""
import concurrent.futures
import csv
import io
import json
import os
import re
import shlex
import subprocess
import unittest

from common import DEMO, SOURCE, TENON, Case, has_avx2

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
    ("run {demo} -p a --top-p 0", 2, "--top-p takes a number above 0 and at most 1, not '0'"),
    ("run {demo} -p a --format md", 2, "--format md: run prints only: text json"),
    ("run {demo} -p a --prompt-ids 1", 2, "-p, -f and --prompt-ids exclude each other"),
    ("run {demo} --prompt-ids 1,,2", 2, "/^--prompt-ids takes token ids with commas between them/"),
    ("run {demo} -p a --max-memory lots", 2, "--max-memory 'lots': bytes, or a number with K, M or G"),
    ("conform host --level fast", 2, "--level takes abi, claimed, matmul, llm or vision, not 'fast'"),
    ("conform host --format csv", 2, "--format csv: conform prints only: text json"),
    ("inspect {demo} --dims foo=3", 2, "/^--dims: the model has no dim 'foo'; it has batch_size, sequence_length/"),
    ("inspect {demo} --dims foo", 2, "--dims takes NAME=NUMBER,..., not 'foo'"),
    ("eval {demo}", 2, "--text FILE is needed"),
    ("eval {demo} --text {tmp}/a.txt --window 1", 2, "--window takes a whole number, 2 or more, not '1'"),
    ("bench {demo} -p x", 2, "/^-p takes up to 16 whole numbers of at least 0, separated by commas, not 'x'$/"),
    ("bench {demo} -r 0", 2, "-r takes a whole number from 1 to 10000, not '0'"),
    ("embed {demo}", 2, "what is to be embedded? -f FILE or -p TEXT"),
    ("embed {demo} -p a --pool avg", 2, "/^--pool takes auto, mean, cls, max, last, mean_sqrt_len or none, not 'avg'/"),
    ("classify {demo}", 2, "which --image?"),
    ("verify {demo} --save x", 2, "--save belongs to --each-node"),
    ("verify {demo} --each-node --against host", 2, "--each-node goes with --against reference"),
    ("embed {demo} -p a --top 3", 2, "--top goes with --query TEXT"),
    ("classify {demo} --image a.png --image b.png --save-pixels c.npy", 2, "--save-pixels is for one --image"),
    ("bundle {demo} -o x --cc clang", 2, "--cc goes with --static or --static-libc"),
    ("bench {demo} --draft-tokens 4", 2, "--draft-tokens goes with --draft MODEL"),
    ("run {demo} -p a --draft-tokens 4", 2, "--draft-tokens goes with --draft MODEL"),
    ("conform host --seed 0x10", 2, "--seed takes a number below 2^63, not '0x10'"),
    ("trace {demo} -p a", 2, "-o FILE or --summary is needed"),
    ("bundle {demo}", 2, "-o DIR is needed"),
    ("new-plugin 9lives", 2, "/^a NAME is 1 to 31 of a-z/"),
    ("plugins --retry nobody", 2, "--retry: no plugin is called 'nobody'"),
]

# What is wrong with files: the message names the file, and what to do next where something can be done.
INPUT = [
    ("run {tmp}/nowhere -p a", 3, "cannot open model '{tmp}/nowhere': No such file or directory"),
    ("run {tmp} -p a", 3, "/no .onnx file in '{tmp}'/"),
    ("run {tmp}/a.gguf -p a", 3, "/'{tmp}/a.gguf' is GGUF \\(llama.cpp's format\\), not ONNX: export the model/"),
    ("inspect {tmp}/a.pt", 3, "/'{tmp}/a.pt' is a zip file \\(PyTorch saves such\\), not ONNX/"),
    ("inspect {tmp}/a.safetensors", 3, "/'{tmp}/a.safetensors' is safetensors, not ONNX/"),
    ("run {tmp}/st -p a", 3, "/no .onnx file in '{tmp}/st'; b.safetensors is not ONNX: export it .*--model {tmp}/st FOLDER/"),
    ("run {tmp}/gguf -p a", 3, "/; q4.gguf is not ONNX: export the model it was made from .*--model NAME FOLDER/"),
    ("run Qwen/Qwen3-0.6B -p a", 3, "/no folder 'Qwen/Qwen3-0.6B'; .* exported first: .*--model Qwen/Qwen3-0.6B FOLDER/"),
    ("run {demo}/none -p a", 3, "cannot open model '{demo}/none': No such file or directory"),
    ("embed {demo} -p a", 4, "input past_key_values.0.key (float32, rank 4) is not one that this task feeds"),
    ("classify {demo} --image a.png", 4, "input past_key_values.0.value (float32, rank 4) is not one that this task feeds"),
    ("inspect {tmp}/a.txt", 3, "/{tmp}/a.txt/"),
    ("inspect {tmp}/none.onnx", 3, "/{tmp}/none.onnx/"),
    ("run {demo} -f {tmp}/none.txt", 3, "cannot read '{tmp}/none.txt': No such file or directory"),
    ("run {demo} -p a --profile cpu-avx22", 3, "/no profile 'cpu-avx22' \\(did you mean 'cpu-avx2'\\?\\)/"),
    ("run {demo} -p a --profile {tmp}/plugin.yaml", 5,
     "/{tmp}/plugin.yaml:2:5: plugin 'hsot': is in none of the plugin folders .*: did you mean 'host'\\?$/"),
    ("run {demo} -p a --profile {tmp}/key.yaml", 3, "/{tmp}/key.yaml:1:1: unknown key 'plugin'.*did you mean 'plugins'/"),
    ("eval {demo} --text {tmp}/none.txt", 3, "cannot read '{tmp}/none.txt': No such file or directory"),
    ("eval {demo} --text {tmp}/a.json", 3, "/'{tmp}/a.json' is not a JSON list of texts/"),
    ("eval {demo} --text {tmp}/empty.txt", 3, "'{tmp}/empty.txt' has no text of two tokens, so that there is nothing to score"),
    ("eval {demo} --text {tmp}/two.jsonl", 3, "/'{tmp}/two.jsonl': line 2: .+/"),
    ("eval {demo} --text {tmp}/seven.jsonl", 3, "'{tmp}/seven.jsonl': line 3 is neither a string nor a conversation"),
    ("calibrate {demo} --text {tmp}/empty.txt -o {tmp}/c.yaml", 3, "'{tmp}/empty.txt' has no text, so that there is nothing to record"),
    ("conform host --worker {tmp}/none", 5, "/{tmp}/none/"),
    ("infer {demo} --in x", 3, "--in takes NAME=FILE, not 'x'"),
    ("infer {demo} --in input_ids={tmp}/none.npy", 3, "/{tmp}/none.npy/"),
    ("verify {demo}", 3, "'{demo}' holds no test_data_set_* folder: --data DIR names one"),
    ("conform {tmp}/none.so", 3, "/there is no such file/"),
    ("conform {tmp}/a.txt", 3, "/{tmp}/a.txt/"),
    ("bundle --verify {tmp}", 3, "/{tmp}/"),
    ("calibrate {demo} --text {tmp}/a.txt -o {tmp}/no/such/c.yaml", 6, "/{tmp}/no/such/c.yaml/"),
]


class Mistakes(Case):
    def setUp(self):
        super().setUp()
        for name, data in (("a.gguf", b"GGUF" + bytes(60)), ("a.pt", b"PK\x03\x04" + bytes(60)), ("a.txt", b"some words\n" * 9),
                           ("a.json", b"{}"), ("empty.txt", b""), ("two.jsonl", b'"a"\n{"text": "b"}, {"text": "c"}\n'),
                           ("seven.jsonl", b'"a"\n\n7\n'), ("plugin.yaml", b"plugins:\n  - name: hsot\n"), ("key.yaml", b"plugin: []\n")):
            (self.tmp / name).write_bytes(data)
        (self.tmp / "a.safetensors").write_bytes(bytes([64, 0, 0, 0, 0, 0, 0, 0]) + b'{"__metadata__":{}}' + bytes(60))
        for folder, names in (("st", ("config.json", "c.safetensors", "b.safetensors")), ("gguf", ("q4.gguf",))):
            (self.tmp / folder).mkdir()
            for name in names:
                (self.tmp / folder / name).write_bytes(b"{}")

    def one(self, line, code, text):
        args = [a.format(demo=DEMO, tmp=self.tmp, source=SOURCE) for a in shlex.split(line)]
        text = text.replace("{tmp}", str(self.tmp)).replace("{demo}", str(DEMO))
        r = self.tenon(*args)
        said = r.stderr.split("\n")[0].removeprefix("tenon: ")
        bad = []
        if not self.matches(text, said):
            bad.append(f"said: {r.stderr}")
        if r.returncode != code or r.stdout:
            bad.append(f"exit code {r.returncode}, stdout: {r.stdout}")
        if "--format" in args:
            return bad
        at = 1 if args[-1] == "-p" else len(args)
        j = self.tenon(*args[:at], "--format", "json", *args[at:])
        try:
            error = json.loads(j.stdout)["error"]
        except (ValueError, KeyError, TypeError):
            return bad + [f"no JSON error: {j.stdout}"]
        whole = f"{error['where']}: {error['message']}"
        if j.returncode != code or not (self.matches(text, error["message"]) or self.matches(text, whole)) or set(error) != {"code", "message", "where"}:
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

    def test_input(self):
        self.run_table(INPUT)

    @unittest.skipIf(os.environ.get("TENON_TEST_QUICK"), "a sanitizer's own memory is over such limits")
    def test_what_memory_is_needed(self):
        self.fails(5, "out of memory: --max-memory 20M is too little, the model takes ", " MB (tenon inspect lists them)",
                   args=["run", DEMO, "-p", "a", "--max-memory", "20M", "--profile", "host"])

    def test_said_once(self):
        """What is wrong is printed once: not by the log and again by the command."""
        r = self.fails(5, "hsot", args=["run", DEMO, "-p", "a", "--profile", self.tmp / "plugin.yaml"])
        self.assertEqual(r.stderr.count("none of the plugin folders"), 1, r.stderr)


class Output(Case):
    def test_full_disk_and_closed_pipe(self):
        with open("/dev/full", "w") as full:
            r = subprocess.run([TENON, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual((r.returncode, r.stderr.startswith("tenon: the output could not be written")), (6, True), r.stderr)
        read, write = os.pipe()
        os.close(read)  # before it starts: the page fits into a pipe that is closed a moment later
        r = subprocess.run([TENON, "help", "man"], stdout=write, stderr=subprocess.PIPE, restore_signals=False)
        os.close(write)
        self.assertEqual((r.returncode, r.stderr), (141, b""))

    def test_schema(self):
        for args in (["plugins"], ["inspect", DEMO], ["check", DEMO], ["run", DEMO, "-p", "And", "-n", 3],
                     ["bench", DEMO, "-p", 4, "-n", 2, "-r", 1]):
            self.assertEqual(self.json(*args, "--profile", "host")["schema"], 1, args)

    def test_run_as_json(self):
        j = self.json("run", DEMO, "-p", "In the beginning", "-n", 5, "--temp", 0, "--profile", "host")
        text = self.ok("run", DEMO, "-p", "In the beginning", "-n", 5, "--temp", 0, "--profile", "host").stdout
        ids = self.ids(DEMO, "-p", "In the beginning", "-n", 5, "--temp", 0, "--profile", "host")
        self.assertEqual((j["text"] + "\n", j["prompt_ids"] + j["ids"], j["stopped"]), (text, ids, "length"))
        self.assertEqual((j["prefill"]["tokens"], j["decode"]["tokens"]), (len(j["prompt_ids"]), 5))

    def test_inspect_as_csv(self):
        rows = list(csv.DictReader(io.StringIO(self.ok("inspect", DEMO, "--format", "csv", "--profile", "host").stdout)))
        self.assertIn({"part": "input", "name": "input_ids", "value": "int64 [batch_size, sequence_length]"}, rows)
        self.assertIn("| memory | total_bytes |", self.ok("inspect", DEMO, "--format", "md", "--profile", "host").stdout)

    def test_check_rolls_up(self):
        if not has_avx2():
            self.skipTest("a plugin that refuses nodes is needed")
        short, long = (self.ok("check", DEMO, *more).stdout for more in ([], ["--all"]))
        self.assertRegex(short, r"(?m)^\d+ nodes: /model/layers.0/input_layernorm/\S+ \.\.\.")
        self.assertLess(len(short.splitlines()), len(long.splitlines()) - 20)
        total = sum(int(m) - 1 for m in re.findall(r"(?m)^(\d+) nodes: ", short)) + len(short.splitlines())
        self.assertEqual(total, len(long.splitlines()))

    def test_unsupported_as_json(self):
        """The same nodes as in the table: of a model that runs, none."""
        j = self.json("check", DEMO, "--unsupported", "--profile", "host")
        self.assertEqual((j["nodes"], j["unsupported"], j["schema"]), ([], 0, 1))

    def test_options_as_md(self):
        """A bar in a cell is no end of it."""
        rows = self.ok("plugins", "--options", "--format", "md").stdout.splitlines()
        self.assertEqual({len(re.findall(r"(?<!\\)\|", r)) for r in rows}, {len(re.findall(r"\|", rows[0]))})

    def test_build_folder_without_environment(self):
        env = {k: v for k, v in os.environ.items() if not k.startswith("TENON_")}
        r = subprocess.run([TENON, "run", DEMO, "-p", "And", "-n", "2", "--temp", "0", "--cache-dir", self.tmp], env=env, cwd=self.tmp,
                           capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        r = subprocess.run([TENON, "run", DEMO, "-p", "And"], env=dict(env, TENON_PROFILE_PATH=""), capture_output=True, text=True)
        self.assertEqual(r.returncode, 3, "an empty variable says that there is none")


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
        script = f"COMP_WORDS=(tenon help che); COMP_CWORD=2; {bash}\n_tenon tenon che; echo ${{COMPREPLY[@]}}"
        self.assertEqual(subprocess.run(["bash", "-c", script], capture_output=True, text=True).stdout, "check\n")


if __name__ == "__main__":
    unittest.main()
