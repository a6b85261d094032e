# SPDX-License-Identifier: Apache-2.0
"""Files that change: between two runs with their time kept, under a running one by a rename, in place or cut short; and
pipes where a file or a text is asked for."""
import os
import shutil
import signal
import subprocess
import threading
import time
import unittest

import families
from common import BUILD, DEMO, SOURCE, TENON, Case, has_asan, has_avx2, main

ARGS = ("-p", "In the beginning", "-n", 40, "--temp", 0)
HOST = ("--profile", "host")
RACY_S = 2.2  # a file changed so recently is always read again


def fields(data, at, end):
    """(number, begin, end) of the length-delimited fields of a message."""
    def varint(at):
        n = shift = 0
        while True:
            n |= (data[at] & 127) << shift
            shift += 7
            at += 1
            if data[at - 1] < 128:
                return n, at
    while at < end:
        key, at = varint(at)
        size = {1: 8, 5: 4}.get(key & 7)
        if key & 7 == 0:
            _, at = varint(at)
        elif size:
            at += size
        else:
            size, at = varint(at)
            yield key >> 3, at, at + size
            at += size


def largest_raw_data(data):
    graph = next((a, b) for n, a, b in fields(data, 0, len(data)) if n == 7)
    raw = [(b - a, a, b) for n, c, d in fields(data, *graph) if n == 5 for k, a, b in fields(data, c, d) if k == 9]
    return max(raw)[1:]


def rewrite(path):
    """Other weights in place, with size and time of the last write kept: every 16th of the largest matrix changes sign."""
    st = os.stat(path)
    with open(path, "r+b") as f:
        data = bytearray(f.read())
        begin, end = largest_raw_data(data)
        for i in range(begin + 3, end, 64):
            data[i] ^= 0x80
        f.seek(0)
        f.write(data)
    os.utime(path, ns=(st.st_atime_ns, st.st_mtime_ns))


class Files(Case):
    def setUp(self):
        super().setUp()
        self.model = self.tmp / "model"
        shutil.copytree(DEMO, self.model)
        self.file = self.model / "model.onnx"
        self.env = dict(os.environ, TENON_PLUGIN_PATH=str(BUILD / "plugins/cpu-avx2-lut"),
                        TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_CACHE_DIR=str(self.cache))

    def packed(self):
        return next(f for f in self.cache.iterdir() if f.name.endswith(".tnpack"))

    def changed_while_running(self, change, *args):
        """Output and exit code of a run that was stopped at its first byte, changed, and went on."""
        line = [TENON, "run", self.model, "-p", "In the beginning", "-n", 200, "--temp", 0, "--ignore-eos", *args]
        p = subprocess.Popen(list(map(str, line)), stdout=subprocess.PIPE, stderr=subprocess.PIPE, bufsize=0, env=self.env)
        first = p.stdout.read(1)
        p.send_signal(signal.SIGSTOP)
        self.assertIsNone(p.poll())
        change()
        p.send_signal(signal.SIGCONT)
        out, err = p.communicate(timeout=300)
        return p.returncode, (first + out).decode(), err.decode()

    def whole(self, *args):
        return self.ok("run", self.model, "-p", "In the beginning", "-n", 200, "--temp", 0, "--ignore-eos", *args).stdout

    def stops(self, change, name, *args):
        code, _, err = self.changed_while_running(change, *args)
        self.assertEqual(code, 3, err)
        self.assertIn(name, err)
        self.assertIn("while it is in use", err)
        self.assertNotIn("SIGBUS", err)
        return err


class Between(Files):
    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_rewritten_with_its_time_kept(self):
        time.sleep(RACY_S)
        before = self.ok("run", self.model, *ARGS).stdout
        self.assertEqual(self.ok("run", self.model, *ARGS).stdout, before)
        rewrite(self.file)
        now = self.ok("run", self.model, *ARGS).stdout
        fresh = self.ok("run", self.model, *ARGS, env={"TENON_CACHE_DIR": str(self.tmp / "fresh")}).stdout
        self.assertNotEqual(fresh, before)
        self.assertEqual(now, fresh)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_another_file_of_that_name(self):
        time.sleep(RACY_S)
        self.ok("run", self.model, *ARGS)
        other = self.tmp / "other.onnx"
        shutil.copy2(self.file, other)
        rewrite(other)
        os.rename(other, self.file)
        now = self.ok("run", self.model, *ARGS).stdout
        self.assertEqual(now, self.ok("run", self.model, *ARGS, env={"TENON_CACHE_DIR": str(self.tmp / "fresh")}).stdout)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_touched_is_not_packed_again(self):
        time.sleep(RACY_S)
        self.ok("run", self.model, *ARGS)
        inode = self.packed().stat().st_ino
        os.chmod(self.file, 0o640)
        os.utime(self.file)
        self.ok("run", self.model, *ARGS)
        self.assertEqual(self.packed().stat().st_ino, inode)


class Running(Files):
    def test_rename_over(self):
        want = self.whole(*HOST)
        other = self.tmp / "other.onnx"
        shutil.copy(self.file, other)
        rewrite(other)
        code, out, err = self.changed_while_running(lambda: os.rename(other, self.file), *HOST)
        self.assertEqual((code, out), (0, want), err)

    def test_written_in_place(self):
        def write():
            with open(self.file, "r+b") as f:
                f.seek(self.file.stat().st_size // 2)
                f.write(bytes(4096))
        self.stops(write, "model.onnx", *HOST)

    def test_model_cut_short(self):
        self.stops(lambda: os.truncate(self.file, 4096), "model.onnx", *HOST)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_packed_file_cut_short(self):
        for first in (True, False):  # packed by this run, and found by it
            if first:
                shutil.rmtree(self.cache, ignore_errors=True)
            else:
                self.ok("run", self.model, *ARGS)
            self.stops(lambda: os.truncate(self.packed(), 4096), ".tnpack")

    @unittest.skipUnless(has_avx2() and not has_asan(), "no AVX2 plugin here, or it is sanitized")
    def test_isolated_plugin_is_not_to_blame(self):
        p = self.profile("plugins: [{name: cpu-avx2-lut, isolation: process}]\n")
        self.ok("run", self.model, *ARGS, "--profile", p)
        err = self.stops(lambda: os.truncate(self.packed(), 4096), ".tnpack", "--profile", p)
        self.assertNotIn("is lost", err)

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_copies_do_not_care(self):
        p = self.profile("plugins: [cpu-avx2-lut, host]\nmap: copy\n")

        def cut():
            os.truncate(self.packed(), 4096)
            os.truncate(self.file, 4096)
        want = self.whole("--profile", p)
        code, out, err = self.changed_while_running(cut, "--profile", p)
        self.assertEqual((code, out), (0, want), err)

class Pipes(Case):
    def fifo(self, name):
        path = self.tmp / name
        path.parent.mkdir(exist_ok=True)
        os.mkfifo(path)
        return path

    def fed(self, path, data):
        def feed():
            with open(path, "wb") as f:
                f.write(data)
        t = threading.Thread(target=feed, daemon=True)
        t.start()
        return path

    def test_texts_may_come_from_pipes(self):
        text = "In the beginning God created the heaven and the earth."
        want = self.ok("run", DEMO, "-p", text, "-n", 5, "--temp", 0, *HOST).stdout
        fifo = self.fed(self.fifo("text"), text.encode())
        self.assertEqual(self.ok("run", DEMO, "-f", fifo, "-n", 5, "--temp", 0, *HOST).stdout, want)
        self.assertEqual(self.ok("run", DEMO, "-f", "-", "-n", 5, "--temp", 0, *HOST, stdin=text).stdout, want)
        line = f"'{TENON}' run '{DEMO}' -f <(printf '%s' '{text}') -n 5 --temp 0 --profile host"
        r = subprocess.run(["bash", "-c", line], capture_output=True, text=True,
                           env=dict(os.environ, TENON_PROFILE_PATH=str(SOURCE / "configs")))
        self.assertEqual((r.returncode, r.stdout), (0, want), r.stderr)
        for how in ("fifo", "-"):
            path = self.fed(self.fifo("eval"), text.encode()) if how == "fifo" else "-"
            r = self.ok("eval", DEMO, "--text", path, *HOST, stdin=text if how == "-" else None)
            self.assertIn("perplexity", r.stdout + r.stderr)

    def test_a_long_text_through_a_pipe(self):
        """More than a pipe holds arrives whole."""
        text = b"word " * 40000
        r = self.fails(3, "context", args=["run", DEMO, "-f", self.fed(self.fifo("long"), text), "-n", 1, *HOST])
        self.assertIn("4000", r.stderr)

    def test_files_may_not(self):
        """A pipe that nobody writes to is refused at once, and named."""
        model = self.tmp / "m"
        shutil.copytree(DEMO, model)
        families.write("adds", 4, self.tmp / "adds.onnx")
        rows = [("run", self.fifo("model.onnx"), "-p", "a"), ("inspect", self.tmp / "model.onnx"), ("check", self.tmp / "model.onnx"),
                ("run", DEMO, "-p", "a", "--profile", self.fifo("p.yaml")),
                ("infer", self.tmp / "adds.onnx", "--out", self.tmp / "o", "--in", f"x={self.fifo('x.npy')}"),
                ("infer", self.tmp / "adds.onnx", "--out", self.tmp / "o", "--in", f"x={self.fifo('x.pb')}"),
                ("run", DEMO, "-p", "a", "--calibration", self.fifo("c.yaml"))]
        for name in ("tokenizer.json", "config.json", "generation_config.json"):
            shutil.copytree(DEMO, self.tmp / f"m-{name}")
            (self.tmp / f"m-{name}" / name).unlink(missing_ok=True)
            rows.append(("run", self.fifo(f"m-{name}/{name}").parent, "-p", "a"))
        for row in rows:
            with self.subTest(str(row)):
                name = next(str(a) for a in row if str(a).split("=")[-1].startswith(str(self.tmp)) and "/o" not in str(a)[-2:])
                host = () if "--profile" in row else HOST
                r = self.fails(3, "is not a regular file", args=[*row, *host], timeout=60)
                self.assertTrue(str(self.tmp) in r.stderr, (name, r.stderr))

    @unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
    def test_pipe_in_the_place_of_packed_weights(self):
        want = self.ok("run", DEMO, *ARGS).stdout
        f = next(f for f in self.cache.iterdir() if f.name.endswith(".tnpack"))
        f.unlink()
        os.mkfifo(f)
        r = self.ok("run", DEMO, *ARGS, timeout=120)
        self.assertEqual(r.stdout, want)


if __name__ == "__main__":
    main()
