# SPDX-License-Identifier: Apache-2.0
"""tenon calibrate: figures against onnxruntime, the file and its refusals, what depends on it."""
import json
import os
import pathlib
import re
import resource
import signal
import struct
import subprocess
import time

import common
from common import DEMO, SOURCE, TENON

TEXT = ("In the beginning God created the heaven and the earth. And the earth was without form, and void; and "
        "darkness was upon the face of the deep. ")


def read_yaml(path):
    """Just enough of YAML for the file that tenon writes."""
    values, text = [], pathlib.Path(path).read_text()
    head, body = text.split("values:\n", 1)
    for entry in re.split(r"(?m)^- ", body)[1:]:
        v = {"name": json.loads(re.match(r'name: (".*")', entry).group(1))}
        for key in ("rows", "channels", "absmax", "p999"):
            v[key] = float(re.search(rf"(?m)^  {key}: (\S+)$", entry).group(1))
        for key in ("weights", "mean", "mean_square", "channels", "counts"):
            m = re.search(rf"(?ms)^\s+{key}: (\[.*?\])$", entry)
            if m:
                v["over_channels" if key == "channels" else key] = json.loads(re.sub(r"\s+", " ", m.group(1)))
        values.append(v)
    return head, values


class Calibrate(common.Case):
    def setUp(self):
        super().setUp()
        self.text = self.tmp / "t.txt"
        self.text.write_text(TEXT)
        self.out = self.tmp / "c.yaml"

    def calibrate(self, *more):
        return self.ok("calibrate", DEMO, "--text", self.text, "-o", self.out, *more)

    def test_against_onnxruntime(self):
        ort, onnx, np = self.module("onnxruntime"), self.module("onnx"), self.module("numpy")
        tokenizers = self.module("tokenizers")
        self.calibrate()
        _, values = read_yaml(self.out)
        model = onnx.load(DEMO / "model.onnx")
        made = {o for n in model.graph.node for o in n.output}
        wanted = [v for v in values if v["name"] in made]
        self.assertGreaterEqual(len(wanted), 18)
        for v in wanted:
            model.graph.output.append(onnx.helper.make_tensor_value_info(v["name"], 1, None))
        ids = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json")).encode(TEXT).ids
        if ids[0] != 0:
            ids = [0] + ids
        feeds = {}
        for i in model.graph.input:
            shape = [d.dim_value if d.HasField("dim_value") else 0 for d in i.type.tensor_type.shape.dim]
            if "past" in i.name:
                feeds[i.name] = np.zeros([1] + shape[1:2] + [0] + shape[3:], np.float32)
            elif "position" in i.name:
                feeds[i.name] = np.arange(len(ids), dtype=np.int64)[None]
            else:
                feeds[i.name] = np.ones([1, len(ids)], np.int64) if "mask" in i.name else np.array([ids], np.int64)
        s = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        for v, x in zip(wanted, s.run([v["name"] for v in wanted], feeds)):
            x = x.reshape(-1, x.shape[-1]).astype(np.float64)
            a = np.sort(np.abs(x).ravel())
            top = a[-(a.size // 1000) - 1]
            self.assertEqual((v["rows"], v["channels"]), x.shape)
            self.assertAlmostEqual(v["absmax"] / a[-1], 1, delta=1e-4)
            self.assertTrue(1 - 1e-4 <= v["p999"] / top <= 1 + 2 ** -8 + 1e-4 or v["p999"] == v["absmax"])
            scale = np.sqrt((x ** 2).mean())
            np.testing.assert_allclose(v["mean"], x.mean(0), atol=1e-4 * scale)
            np.testing.assert_allclose(v["mean_square"], (x ** 2).mean(0), atol=1e-4 * scale ** 2, rtol=1e-4)
            over = (np.abs(x) > v["p999"] / 127 * 127.5).sum(0)
            got = np.zeros(x.shape[1])
            got[v["over_channels"]] = v["counts"]
            self.assertLessEqual(np.abs(got - over).sum(), 2)  # what lies on the line may fall on either side

    def test_pieces_and_lists(self):
        a = json.loads(self.calibrate("--format", "json").stdout)
        self.assertEqual(a["file"], str(self.out))
        self.assertEqual(len(a["values"]), 25)
        self.assertTrue(all(v["outliers"] >= v["outlier_channels"] for v in a["values"]))
        rows = a["values"][0]["rows"]
        # BOS begins every piece, so 8 tokens a piece run 7 of the text
        b = json.loads(self.calibrate("--piece", 8, "--format", "json").stdout)
        self.assertEqual(b["values"][0]["rows"], rows + (rows - 1 + 6) // 7 - 1)
        self.text = self.tmp / "t.json"
        self.text.write_text(json.dumps([TEXT, TEXT]))
        c = json.loads(self.calibrate("--format", "json").stdout)
        self.assertEqual(c["values"][0]["rows"], 2 * rows)
        self.assertEqual(c["values"][3]["absmax"], a["values"][3]["absmax"])
        d = json.loads(self.calibrate("--max-tokens", 5, "--format", "json").stdout)
        self.assertEqual(d["values"][0]["rows"], 10)
        self.assertIn("| activation | channels |", self.calibrate("--max-tokens", 2, "--format", "md").stdout)

    def test_path_that_is_not_utf8(self):
        model = self.tmp / os.fsdecode(b"m\xe4")
        model.symlink_to(DEMO)
        r = self.ok("calibrate", model, "--text", self.text, "-o", self.out, "--max-tokens", 2, "--format", "json")
        self.assertEqual(json.loads(r.stdout)["model"], "(not UTF-8)")

    def test_seen_with_any_passes(self):
        self.calibrate()
        for more in ([], ["--disable-pass", "siblings"], ["--disable-pass", "all"]):
            r = self.ok("check", DEMO, "--profile", "host", "--calibration", self.out, "--log-level", "info", *more)
            found, of = map(int, re.search(r"statistics for (\d+) of (\d+) matrix products", r.stderr).groups())
            self.assertEqual(found, of, more)
            self.assertGreaterEqual(found, 25)

    def test_profile_key(self):
        self.calibrate()
        p = self.profile("plugins: [host]\ncalibration: c.yaml\n")
        r = self.ok("run", DEMO, "-p", "In the", "-n", 4, "--temp", 0, "--profile", p, "--log-level", "info")
        self.assertIn("statistics for 25 of 25", r.stderr)
        r = self.ok("check", DEMO, "--profile", p, "--calibration", "", "--log-level", "info")
        self.assertNotIn("statistics for", r.stderr)
        p = self.profile("plugins: [host]\ncalibration: missing.yaml\n")
        self.fails(3, "missing.yaml", args=["check", DEMO, "--profile", p])
        self.ok("plugins", "--profile", p)
        p = self.profile("plugins: [host]\ncalibration: '${model}/none.yaml'\n")
        self.fails(3, "no 'none.yaml' beside the model", "tenon calibrate", args=["check", DEMO, "--profile", p])
        p = self.profile("plugins: [host]\ncalibration: '${model}/calibration.yaml'\n")
        r = self.ok("check", DEMO, "--profile", p, "--log-level", "info")
        self.assertIn("statistics for 25 of 25", r.stderr)
        p = self.profile("plugins: [host]\ncalibration: '${model}/'\n")
        self.fails(3, "p.yaml:2:14", "the name of a file", args=["check", DEMO, "--profile", p])
        p = self.profile("plugins: [host]\ncalibration: [c.yaml]\n")
        self.fails(3, "p.yaml:2:14", "'calibration' must be a single value", args=["check", DEMO, "--profile", p])

    def test_another_model(self):
        self.calibrate()
        text = self.out.read_text()
        want = re.search(r"hash: \"?([0-9a-f]{32})", text).group(1)
        other = self.tmp / "other"
        other.mkdir()
        for f in DEMO.iterdir():
            if f.suffix == ".json":
                (other / f.name).write_bytes(f.read_bytes())
        onnx = self.module("onnx")
        model = onnx.load(DEMO / "model.onnx")
        w = max(model.graph.initializer, key=lambda t: len(t.raw_data))
        w.raw_data = b"\0" * len(w.raw_data)
        onnx.save(model, other / "model.onnx")
        for cmd in (["check", other], ["run", other, "-p", "a", "-n", "1"]):
            r = self.fails(3, "belongs to another model", str(self.out), want,
                           args=[*cmd, "--profile", "host", "--calibration", self.out])
            self.assertEqual(len(set(re.findall(r"[0-9a-f]{32}", r.stderr))), 2)
        r = self.fails(3, args=["check", other, "--profile", "host", "--calibration", self.out, "--format", "json"])
        self.assertEqual(json.loads(r.stdout)["error"]["code"], "INVALID")

    def test_malformed(self):
        self.calibrate()
        good = self.out.read_text()
        for a, b, says in (("absmax: ", "absmaxx: ", ["unknown key 'absmaxx'", "did you mean 'absmax'?"]),
                           ("p999: ", "p999: -", ["'p999' is -", "out of range"]),
                           ("channels: 256", "channels: 255", ["'mean' has 256 numbers, not 255"]),
                           ("tenon_calibration: 1", "tenon_calibration: x", ["whole number"])):
            self.out.write_text(good.replace(a, b, 1))
            self.fails(3, "c.yaml:", *says, args=["check", DEMO, "--profile", "host", "--calibration", self.out])

    def test_conversations(self):
        """Lists of messages and lines of them are the texts that the model's template makes of them, with one BOS."""
        jinja2 = self.module("jinja2")
        chats = [[{"role": "user", "content": TEXT}, {"role": "assistant", "content": "And it was so."}],
                 [{"role": "user", "content": "Who rests on the seventh day?"}]]
        template = jinja2.Template((DEMO / "chat_template.jinja").read_text())
        files = {"texts.json": json.dumps([template.render(messages=m, bos_token="") for m in chats]),
                 "chats.json": json.dumps([chats[0], {"messages": chats[1]}]),
                 "lines.jsonl": json.dumps({"messages": chats[0]}) + "\n \n" + json.dumps(chats[1]) + "\n",
                 "half.jsonl": json.dumps({"text": template.render(messages=chats[0], bos_token="")}) + "\n" + json.dumps(chats[1])}
        made = {}
        for name, text in files.items():
            self.text = self.tmp / name
            self.text.write_text(text)
            self.calibrate()
            made[name] = read_yaml(self.out)[1]
        for name in files:
            self.assertEqual(made["texts.json"], made[name], name)
        (self.tmp / "bad.jsonl").write_text('"a"\n{"messages":\n')
        self.fails(3, "bad.jsonl': line 2", args=["calibrate", DEMO, "--text", self.tmp / "bad.jsonl", "-o", self.out])
        (self.tmp / "bad.json").write_text('[[{"content": "no role"}]]')
        self.fails(3, "not an object with a \"role\"", args=["calibrate", DEMO, "--text", self.tmp / "bad.json", "-o", self.out])

    def test_bad_command_lines(self):
        for args, says in ((["--text", self.text], "-o FILE is needed"), (["-o", self.out], "--text FILE is needed"),
                           (["--text", self.text, "-o", self.out, "--piece", -1], "0 or more"),
                           (["--text", self.text, "-o", self.out, "--profile", "cpu-avx2"], "on the host")):
            self.fails(2, says, args=["calibrate", DEMO, *args])
        self.fails(3, "nothere.txt", args=["calibrate", DEMO, "--text", "nothere.txt", "-o", self.out])
        self.fails(6, "cannot write", args=["calibrate", DEMO, "--text", self.text, "-o", self.tmp / "no" / "c.yaml"])
        self.text.write_text("")
        self.fails(3, "has no text", args=["calibrate", DEMO, "--text", self.text, "-o", self.out])
        bad = self.tmp / "l.json"
        bad.write_text('["a", 3]')
        self.fails(3, "element 1 is neither a string nor a conversation", args=["calibrate", DEMO, "--text", bad, "-o", self.out])

    # --- stopped, and gone on with

    TEXTS = 40

    def long_texts(self):
        """Two passes in many pieces: some seconds of processor time."""
        self.text = self.tmp / "long.json"
        self.text.write_text(json.dumps([TEXT * (1 + i % 3) for i in range(self.TEXTS)]))
        return ["--piece", 16, "--threads", 1]

    def place(self):
        """Pass and pieces that OUT.partial says; (0, 0) where there is none."""
        try:
            magic, order, p, done = struct.unpack_from("<8sIIQ", self.partial.read_bytes())
        except FileNotFoundError:
            return 0, 0
        self.assertEqual(magic, b"TENONCP1")
        return p, done

    @staticmethod
    def processor_time(pid):
        fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def stop(self, there, more, how=signal.SIGKILL, code=-signal.SIGKILL):
        """Runs until there(place()), then `how`. The process stands still for a while after each 0.1 s of its own time: the
        clock that OUT.partial is written by goes on, so that it is written in a pass of 0.3 s too."""
        env = dict(os.environ, TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_CACHE_DIR=str(self.cache))
        p = subprocess.Popen([*common.EMULATOR, TENON, *map(str, ["calibrate", DEMO, "--text", self.text, "-o", self.out, *more])],
                             env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        last = 0
        try:
            while p.poll() is None and not there(self.place()):
                time.sleep(0.005)
                if self.processor_time(p.pid) < last + 0.1:
                    continue
                p.send_signal(signal.SIGSTOP)
                time.sleep(0.7)
                last = self.processor_time(p.pid)
                if not there(self.place()):
                    p.send_signal(signal.SIGCONT)
            p.send_signal(how)
            p.send_signal(signal.SIGCONT)
            err = p.communicate(timeout=300)[1]
        finally:
            p.kill()
        self.assertEqual(p.returncode, code, err)
        self.assertTrue(there(self.place()), self.place())
        return err

    @property
    def partial(self):
        return self.out.with_name(self.out.name + ".partial")

    def clean(self, *more):
        """What a call that nobody stops writes."""
        out = self.tmp / "clean.yaml"
        r = self.ok("calibrate", DEMO, "--text", self.text, "-o", out, *more)
        self.assertNotIn("goes on", r.stderr)
        return out.read_bytes()

    def left(self):
        return sorted(f.name for f in self.tmp.iterdir() if f.name.startswith(self.out.name))

    def test_killed(self):
        """In the first pass, between the passes, in the second: the bytes of a call that nobody stopped. Then that file
        under other texts and options, and damaged."""
        more = self.long_texts()
        want = self.clean(*more)
        self.out.write_text("before")
        err = self.stop(lambda at: at > (1, 0), more)
        self.assertNotIn("goes on", err)
        first = self.partial.read_bytes()
        (self.tmp / "c.yaml.partial.tmp").write_text("left by a process that was killed")
        err = self.stop(lambda at: at >= (2, 0), more)
        self.assertRegex(err, rf"goes on at text [1-9]\d* of {self.TEXTS}, pass 1 of 2\n")
        at = self.place()
        err = self.stop(lambda now: now > at, more)
        self.assertRegex(err, rf"goes on at text [1-9]\d* of {self.TEXTS}, pass 2 of 2\n")
        self.assertEqual(self.out.read_text(), "before")
        self.assertEqual(self.left(), ["c.yaml", "c.yaml.partial"])
        err = self.calibrate(*more).stderr
        self.assertRegex(err, rf"goes on at text [1-9]\d* of {self.TEXTS}, pass 2 of 2\n")
        self.assertEqual(self.out.read_bytes(), want)
        self.assertEqual(self.left(), ["c.yaml"])
        self.begins_anew(first, more)

    def begins_anew(self, kept, more):
        short = self.tmp / "short.txt"
        short.write_text(TEXT)
        cases = [("is of this text with other options", self.text, kept, ["--max-tokens", 2, *more[2:]]), ("is of another text", short, kept, more)]
        cases += [("is damaged", short, bytes(b), more) for b in (
            kept[:-1], kept[:100], b"", b"a text of somebody\n" * 100, kept[:500] + bytes([kept[500] ^ 1]) + kept[501:], kept + b"\0")]
        for says, self.text, held, options in cases:
            want = self.clean(*options)
            self.partial.write_bytes(held)
            err = self.calibrate(*options).stderr
            self.assertRegex(err, rf"(?m)^'{self.partial}' {says}.*: begins anew$")
            self.assertEqual(self.out.read_bytes(), want, says)
            self.assertEqual(self.left(), ["c.yaml"])

    def test_interrupted(self):
        """Ctrl-C: 130, the file that was there is the same, and the same command goes on."""
        more = self.long_texts()
        self.out.write_text("before")
        self.stop(lambda at: at > (1, 0), more, signal.SIGINT, 130)
        self.assertEqual(self.out.read_text(), "before")
        self.assertEqual(self.left(), ["c.yaml", "c.yaml.partial"])
        r = self.calibrate(*more)
        self.assertRegex(r.stderr, rf"goes on at text [1-9]\d* of {self.TEXTS}, pass 1 of 2\n")
        self.assertEqual(self.out.read_bytes(), self.clean(*more))
        self.assertEqual(self.left(), ["c.yaml"])

    def test_out_cannot_be_written(self):
        """What was recorded is kept, and the next call only writes."""
        want = self.clean()
        self.out.mkdir()
        self.fails(6, f"cannot write '{self.out}'", args=["calibrate", DEMO, "--text", self.text, "-o", self.out])
        self.assertEqual(self.left(), ["c.yaml", "c.yaml.partial"])
        self.out.rmdir()
        self.assertIn("all texts ran before", self.calibrate().stderr)
        self.assertEqual(self.out.read_bytes(), want)
        self.assertEqual(self.left(), ["c.yaml"])

    def test_full_disk(self):
        """An error that names the file; what was there stays."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))

        self.out.write_text("before")
        env = dict(os.environ, TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_CACHE_DIR=str(self.cache))
        line = [*common.EMULATOR, TENON, *map(str, ["calibrate", DEMO, "--text", self.text, "-o", self.out])]
        r = subprocess.run(line, capture_output=True, text=True, env=env, preexec_fn=limit, timeout=600)
        self.assertEqual(r.returncode, 6, r.stderr)
        self.assertIn(f"cannot write '{self.partial}': File too large", r.stderr)
        self.assertEqual(self.out.read_text(), "before")
        self.assertEqual(self.left(), ["c.yaml"])

    def test_weights_are_not_packed_anew(self):
        """A format that does not read statistics is mapped as before."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        self.calibrate()
        args = ["run", DEMO, "-p", "In the", "-n", 2, "--temp", 0, "--profile", "cpu-avx2", "--log-level", "info"]
        self.assertRegex(self.ok(*args).stderr, r"packed [1-9]\d* matrices")
        self.assertIn("packed 0 matrices", self.ok(*args, "--calibration", self.out).stderr)


if __name__ == "__main__":
    common.main()
