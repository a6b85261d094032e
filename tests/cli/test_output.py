# SPDX-License-Identifier: Apache-2.0
"""Output is complete or an error: every command on a full disk, a closed descriptor, a pipe whose reader is gone, and with
write failing as the kernel lets it fail (seccomp answers write to descriptor 1 with ENOSPC or EIO, after none or some bytes).
What a command writes into files fails too (RLIMIT_FSIZE). Then signals, and names that would command a terminal."""
import concurrent.futures
import ctypes
import errno
import os
import platform
import pty
import resource
import shutil
import signal
import struct
import subprocess
import time
import unittest
import zlib

import families
from common import DATA, DEMO, SOURCE, TENON, Case, has_asan

FULL, CLOSED, GONE, NOSPC, IO = "full", "closed", "gone", "ENOSPC", "EIO"
MNIST = DATA / "onnx" / "cnn" / "mnist_8"
HOST = ["--profile", "host"]


def refuse_writes(number):
    """This process's write and writev to descriptor 1 fail with errno `number`."""
    nr = {"x86_64": (1, 20), "aarch64": (64, 66)}[platform.machine()]
    ins = [(0x20, 0, 0, 0), (0x15, 1, 0, nr[0]), (0x15, 0, 3, nr[1]), (0x20, 0, 0, 16), (0x15, 0, 1, 1),
           (0x06, 0, 0, 0x00050000 | number), (0x06, 0, 0, 0x7FFF0000)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *i) for i in ins))
    prog = struct.pack("HxxxxxxQ", len(ins), ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) or libc.prctl(22, 2, ctypes.c_char_p(prog), 0, 0):
        raise OSError(ctypes.get_errno(), "seccomp")


def embedder(tmp):
    """A table of rows behind the demo's tokenizer."""
    g = families.Graph()
    for name in ("input_ids", "attention_mask"):
        g.input(name, ["batch", "sequence"], families.INT64)
    g.init("table", [4096, 2])
    g.node("Gather", ["table", "input_ids"], ["rows"])
    g.node("Cast", ["attention_mask"], ["m"], attrs=[families.attr_int("to", families.FLOAT)])
    g.init("axis", [1], families.INT64)
    g.node("Unsqueeze", ["m", "axis"], ["m3"])
    g.node("Add", ["rows", "m3"], ["last_hidden_state"])
    g.output("last_hidden_state", ["batch", "sequence", 2])
    (tmp / "embedder").mkdir()
    families.save(g, tmp / "embedder" / "model.onnx")
    shutil.copy(DEMO / "tokenizer.json", tmp / "embedder")
    return tmp / "embedder"


def classifier(tmp):
    """The pixels of one image, multiplied by a weight."""
    g = families.Graph()
    g.input("pixel_values", ["n", 3, 2, 2])
    g.node("Flatten", ["pixel_values"], ["flat"])
    g.init("w", [12, 2])
    g.node("MatMul", ["flat", "w"], ["logits"])
    g.output("logits", ["n", 2])
    (tmp / "classifier").mkdir()
    families.save(g, tmp / "classifier" / "model.onnx")
    (tmp / "classifier" / "preprocessor_config.json").write_text('{"size": {"height": 2, "width": 2}}')

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    (tmp / "classifier" / "x.png").write_bytes(
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)) +
        chunk(b"IDAT", zlib.compress((b"\0" + bytes(6)) * 2)) + chunk(b"IEND", b""))
    return tmp / "classifier"


def commands(tmp):
    """Each command line that ends with 0 where nothing is in the way."""
    pictures = classifier(tmp)
    text = tmp / "t.txt"
    text.write_text("In the beginning God created the heaven and the earth.")
    lines = [["--version"], ["--help"], ["help", "man"], ["help", "bash"], ["run", "--help"], ["plugins"],
             ["check", DEMO, *HOST], ["inspect", DEMO, *HOST], ["inspect", DEMO, "--format", "json", *HOST],
             ["run", DEMO, "-p", "And", "-n", 3, *HOST], ["run", DEMO, "-p", "And", "-n", 3, "--ids", *HOST],
             ["run", DEMO, "-p", "And", "-n", 3, "--format", "json", *HOST], ["eval", DEMO, "--text", text, *HOST],
             ["bench", DEMO, "-p", 4, "-n", 2, "-r", 1, *HOST], ["trace", DEMO, "-p", "And", "-n", 2, "--summary", *HOST],
             ["pack", DEMO, "--format", "json", *HOST], ["new-plugin", "nothing", "--dir", tmp / "{}" / "new"],
             ["embed", embedder(tmp), "-p", "And", *HOST], ["classify", pictures, "--image", pictures / "x.png", *HOST],
             ["conform", "host", "--list"], ["calibrate", DEMO, "--text", text, "-o", tmp / "{}" / "c.yaml", *HOST],
             ["bundle", DEMO, "-o", tmp / "{}" / "b", *HOST]]
    if MNIST.exists():
        lines += [["verify", MNIST, *HOST], ["infer", MNIST, "--out", tmp / "{}" / "o", *HOST, "--in",
                                             f"Input3={next(MNIST.glob('test_data_set_0/input_0.pb'))}"]]
    return lines


class Output(Case):
    def setUp(self):
        super().setUp()
        self.env = dict(os.environ, TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_PLUGIN_PATH="",
                        TENON_CACHE_DIR=str(self.cache), ASAN_OPTIONS="detect_leaks=0")

    def run_at(self, line, how, name):
        """The command with stdout as `how` says; name: of a folder for what it writes."""
        (self.tmp / name).mkdir(exist_ok=True)
        kw = {}
        write = None
        if how == FULL:
            kw["stdout"] = write = os.open("/dev/full", os.O_WRONLY)
        elif how == GONE:
            read, write = os.pipe()
            os.close(read)
            kw.update(stdout=write, restore_signals=False)
        elif how == CLOSED:
            kw["preexec_fn"] = lambda: os.close(1)
        elif how in (NOSPC, IO):
            kw.update(stdout=subprocess.PIPE, preexec_fn=lambda: refuse_writes(getattr(errno, how)))
        else:
            kw["stdout"] = subprocess.PIPE
        args = [TENON, *(str(a).format(name) if "{}" in str(a) else str(a) for a in line)]
        try:
            return subprocess.run(args, stderr=subprocess.PIPE, env=self.env, timeout=600, **kw)
        finally:
            if write is not None:
                os.close(write)

    def one(self, i, line):
        """What is wrong with a command, as lines."""
        plain = self.run_at(line, "", f"{i}-plain")
        bad = [f"exit {plain.returncode}: {plain.stderr}"] if plain.returncode else []
        for how in (FULL, CLOSED, GONE, NOSPC, IO):
            r = self.run_at(line, how, f"{i}-{how}")
            want = 0 if not plain.stdout else 141 if how == GONE else 6
            said = b"the output could not be written" in r.stderr
            if r.returncode != want or said != (want == 6):
                bad.append(f"{how}: exit {r.returncode}, not {want}: {r.stderr.decode()[-300:]}")
            if want == 6 and how == NOSPC and b"No space left on device" not in r.stderr:
                bad.append(f"{how}: no reason: {r.stderr.decode()[-300:]}")
            if want == 6 and how == IO and b"Input/output error" not in r.stderr:
                bad.append(f"{how}: no reason: {r.stderr.decode()[-300:]}")
        return bad

    def test_every_command(self):
        lines = commands(self.tmp)
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for line, bad in zip(lines, pool.map(lambda x: self.one(*x), enumerate(lines))):
                with self.subTest(str(line[0])):
                    self.assertFalse(bad, f"tenon {' '.join(map(str, line))}\n" + "\n".join(bad))

    def test_files_that_cannot_be_written(self):
        """A file-size limit of some bytes: what is asked for does not fit, the exit code is 6 and the file is named."""
        text = self.tmp / "t.txt"
        text.write_text("In the beginning God created the heaven and the earth.")
        lines = [(["trace", DEMO, "-p", "And", "-n", 2, "-o", self.tmp / "t.json", *HOST], "t.json"),
                 (["inspect", DEMO, "--dump", self.tmp / "d.dot", *HOST], "d.dot"),
                 (["calibrate", DEMO, "--text", text, "-o", self.tmp / "c.yaml", *HOST], "c.yaml"),
                 (["new-plugin", "nothing", "--dir", self.tmp / "new"], "new"),
                 (["bundle", DEMO, "-o", self.tmp / "b", *HOST], "b"),
                 (["trace", DEMO, "-p", "And", "-o", self.tmp / "no" / "t.json", *HOST], "t.json")]
        if MNIST.exists():
            lines.append((["infer", MNIST, "--out", self.tmp / "o", *HOST, "--in",
                           f"Input3={next(MNIST.glob('test_data_set_0/input_0.pb'))}"], "o"))

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (16, 16))

        for line, name in lines:
            with self.subTest(line[0]):
                r = subprocess.run([TENON, *map(str, line)], capture_output=True, text=True, env=self.env, preexec_fn=limit,
                                   timeout=600)
                self.assertEqual(r.returncode, 6, f"{line}\n{r.stdout}{r.stderr}")
                self.assertIn(name, r.stderr)

    def test_stderr(self):
        """A full stderr is an error where nothing else was; a closed one is what the caller wants."""
        line = [TENON, "run", str(DEMO), "-p", "And", "-n", "3", *HOST]
        with open("/dev/full", "w") as full:
            r = subprocess.run(line, stdout=subprocess.PIPE, stderr=full, env=self.env, timeout=600)
        self.assertEqual(r.returncode, 6)
        r = subprocess.run(line, stdout=subprocess.PIPE, env=self.env, preexec_fn=lambda: os.close(2), timeout=600)
        self.assertEqual((r.returncode, r.stdout.count(b"\n")), (0, 1))

    def test_one_pipe_for_both(self):
        """Notes on stderr stand between whole lines of stdout, after those that were printed before."""
        r = subprocess.run([TENON, "check", str(DEMO), "--all", *HOST], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                           env=self.env, timeout=600)
        lines = r.stdout.splitlines()
        at = [i for i, line in enumerate(lines) if "placement: " in line]
        self.assertEqual(len(at), 1, r.stdout)
        self.assertTrue(lines[at[0]].startswith("placement: "), lines[at[0]])
        self.assertFalse([line for line in lines[at[0]:] if " host " in line and "placement" not in line], r.stdout)

    def test_all_closed(self):
        """No file that is opened gets the number of a closed stream, and then what is printed."""
        before = (DEMO / "model.onnx").read_bytes()[:64] if (DEMO / "model.onnx").exists() else b""
        r = subprocess.run([TENON, "run", str(DEMO), "-p", "And", "-n", "3", *HOST], env=self.env, timeout=600,
                           preexec_fn=lambda: [os.close(fd) for fd in (0, 1, 2)])
        self.assertEqual(r.returncode, 6)
        self.assertEqual(before, (DEMO / "model.onnx").read_bytes()[:64] if before else b"")
        r = subprocess.run([TENON, "run", str(DEMO), "-f", "-", "-n", "3", *HOST], env=self.env, timeout=600,
                           capture_output=True, preexec_fn=lambda: os.close(0))
        self.assertEqual((r.returncode, b"cannot read '-'" in r.stderr), (3, True), r.stderr)


class Signals(Case):
    def start(self, *args, **kw):
        """tenon, busy for a while."""
        p = subprocess.Popen([TENON, *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                             env=dict(os.environ, TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_PLUGIN_PATH="",
                                      TENON_CACHE_DIR=str(self.cache)), **kw)
        p.stdout.read(1)  # it generates
        return p

    def long_run(self, **kw):
        return self.start("run", DEMO, "-p", "In the beginning", "-n", 0, "--ignore-eos", "--temp", 0, *HOST, **kw)

    def test_exit_codes(self):
        """SIGTERM ends the process as the system does: a shell sees 143. SIGINT lets it say so: 130."""
        for sig, code, said in ((signal.SIGTERM, -signal.SIGTERM, ""), (signal.SIGINT, 130, "cancelled")):
            p = self.long_run()
            p.send_signal(sig)
            out, err = p.communicate(timeout=60)
            self.assertEqual(p.returncode, code, err)
            self.assertIn(said, err)

    def test_ignored_stays_ignored(self):
        p = self.long_run(preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN))
        p.send_signal(signal.SIGINT)
        time.sleep(0.3)
        self.assertIsNone(p.poll())
        p.send_signal(signal.SIGTERM)
        p.communicate(timeout=60)
        self.assertEqual(p.returncode, -signal.SIGTERM)


class Terminal(Case):
    def test_names_do_not_command(self):
        """A node and an input whose names hold ESC, BEL and a C1 control."""
        g = families.Graph()
        g.input("x\x1b[2J", [4])
        g.node("NoSuchOp", ["x\x1b[2J"], ["y"], name="n\x1b]0;title\x07\x9b1m")
        g.output("y", [4])
        path = self.tmp / "m\x1b[31m.onnx"
        families.save(g, path)
        for args, code in ((["inspect", path], 0), (["check", path, "--unsupported"], 4), (["check", path, "--format", "md"], 4),
                           (["infer", path, "--out", self.tmp / "o"], 4), (["inspect", self.tmp / "no\x1b[2J.onnx"], 3)):
            r = self.tenon(*args, *HOST)
            text = r.stdout + r.stderr
            self.assertEqual(r.returncode, code, text)
            self.assertIn("\\x1b", text)
            for c in ("\x1b", "\x07", "\x9b"):
                self.assertNotIn(c, text, f"tenon {args}: {text!r}")


if __name__ == "__main__":
    from common import main
    main()
