# SPDX-License-Identifier: Apache-2.0
"""Bad input: a message that names the cause, the exit code of the contract, never a crash."""
import json
import os
import pathlib
import random
import re
import shutil
import subprocess
import unittest

from common import BUILD, DATA, DEMO, TENON, Case, has_avx2, main


def varint(n):
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out + bytes([n]))


def field(number, payload):
    return varint(number << 3 | 2) + varint(len(payload)) + payload


def copy_model(src, dst):
    shutil.copytree(src, dst)
    for p in dst.rglob("*"):
        p.chmod(0o755 if p.is_dir() else 0o644)
    dst.chmod(0o755)
    return dst


class Models(Case):
    def test_truncated_at_200_lengths(self):
        src = self.need(DATA / "onnx/exports/gpt2/model.onnx") if (DATA / "onnx").exists() else DEMO / "model.onnx"
        data, seed = src.read_bytes(), int(os.environ.get("TENON_TEST_SEED", 20260101))
        print("seed", seed)
        rng = random.Random(seed)
        f = self.tmp / "t.onnx"
        for n in sorted(rng.randrange(len(data)) for _ in range(200)):
            f.write_bytes(data[:n])
            r = self.tenon("inspect", f, "--profile", "host")
            self.assertIn(r.returncode, (3,), f"length {n}: {r.stdout}{r.stderr}")
            self.assertIn("t.onnx", r.stderr)

    def test_pipes(self):
        """Nobody writes to them: a command that opened one to read would wait for ever."""
        if not hasattr(os, "mkfifo"):
            self.skipTest("no named pipes")
        folder = copy_model(DEMO, self.tmp / "piped")
        sets = self.tmp / "sets" / "test_data_set_0"
        sets.mkdir(parents=True)
        os.mkfifo(self.tmp / "pipe.onnx")
        os.mkfifo(self.tmp / "pipe.yaml")
        os.mkfifo(self.tmp / "pipe.npy")
        os.mkfifo(sets / "input_0.pb")
        for args in (["inspect", self.tmp / "pipe.onnx", "--profile", "host"], ["check", DEMO, "--profile", self.tmp / "pipe.yaml"],
                     ["infer", DEMO, "--profile", "host", "--in", f"input_ids={self.tmp / 'pipe.npy'}", "--out", self.tmp / "out"],
                     ["verify", DEMO, "--profile", "host", "--data", sets.parent], ["conform", self.tmp / "pipe.onnx"]):
            r = self.tenon(*args, timeout=60)
            self.assertIn(r.returncode, (2, 3), f"{args}: {r.stdout}{r.stderr}")
            self.assertRegex(r.stderr, "regular|ELF", f"{args}")
        for name in ("tokenizer.json", "config.json", "model.onnx"):
            (folder / name).rename(folder / "kept")
            os.mkfifo(folder / name)
            r = self.tenon("run", folder, "--profile", "host", "-p", "x", "-n", "1", timeout=60)
            self.assertEqual(r.returncode, 3, f"{name}: {r.stdout}{r.stderr}")
            self.assertIn(name, r.stderr)
            (folder / name).unlink()
            (folder / "kept").rename(folder / name)

    def test_nested_subgraphs(self):
        graph = b""
        for i in range(3000):
            if len(graph) > 40000:
                break
            attr = field(1, b"then_branch") + varint(20 << 3) + varint(5) + field(6, graph)
            graph = field(1, field(2, b"c") + field(4, b"If") + field(5, attr))
        f = self.tmp / "bomb.onnx"
        f.write_bytes(varint(8) + varint(8) + field(8, varint(16) + varint(17)) + field(7, graph))
        self.fails(3, "nest", args=["inspect", f, "--profile", "host"])

    def small(self, nodes, inputs, initializers=()):
        onnx = self.module("onnx")
        h = onnx.helper
        out = h.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
        g = h.make_graph(nodes, "g", inputs, [out], list(initializers))
        f = self.tmp / "small.onnx"
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 18)], ir_version=8), str(f))
        return f

    def test_absurd_sizes(self):
        onnx, np = self.module("onnx"), self.module("numpy")
        h, t = onnx.helper, onnx.TensorProto
        x, p = h.make_tensor_value_info("x", t.FLOAT, [4]), h.make_tensor_value_info("p", t.INT64, [2])
        f = self.small([h.make_node("Pad", ["x", "p"], ["y"], name="far")], [x, p])
        np.save(self.tmp / "x.npy", np.ones(4, np.float32))
        np.save(self.tmp / "p.npy", np.array([2**62, 2**62]))
        self.fails(3, "absurd", args=["infer", f, "--in", f"x={self.tmp}/x.npy", "--in", f"p={self.tmp}/p.npy",
                                      "--profile", "host"])

    def test_initializer_that_is_no_input(self):
        onnx, np = self.module("onnx"), self.module("numpy")
        h, t = onnx.helper, onnx.TensorProto
        x = h.make_tensor_value_info("x", t.FLOAT, [4])
        f = self.small([h.make_node("Add", ["x", "w"], ["y"])], [x], [h.make_tensor("w", t.FLOAT, [4], [1, 2, 3, 4])])
        np.save(self.tmp / "x.npy", np.ones(4, np.float32))
        self.ok("infer", f, "--in", f"x={self.tmp}/x.npy", "--profile", "host")
        self.fails(3, "has a value in the model", args=["infer", f, "--in", f"x={self.tmp}/x.npy", "--in",
                                                        f"w={self.tmp}/x.npy", "--profile", "host"])

    def test_names_do_not_reach_the_terminal_raw(self):
        onnx = self.module("onnx")
        h, t = onnx.helper, onnx.TensorProto
        name = "\x1b[2Jgone\x07\u009b1m"
        x = h.make_tensor_value_info(name, t.FLOAT, [4])
        f = self.small([h.make_node("Neg", [name], ["y"], name=name)], [x])
        for args in (["check", f, "--all"], ["check", f, "--format", "csv", "--all"], ["inspect", f], ["check", f"/{name}"]):
            r = self.tenon(*args, "--profile", "host")
            text = r.stdout + r.stderr
            self.assertIn("\\x1b[2J", text, args)
            for c in "\x1b\x07\u009b":
                self.assertNotIn(c, text, args)

    def external(self, location, offset=0, length=None):
        d = self.need(DATA / "onnx/exports/genai-llama-int4")
        onnx = self.module("onnx")
        m = onnx.load(str(d / "model.onnx"), load_external_data=False)
        for t in m.graph.initializer:
            for e in t.external_data:
                if e.key == "location":
                    e.value = location
        out = self.tmp / "m"
        out.mkdir(exist_ok=True)
        shutil.copy(d / "model.onnx.data", out / "model.onnx.data")
        onnx.save(m, str(out / "model.onnx"))
        return out

    def test_external_data_missing_escaping_short(self):
        out = self.external("nowhere.data")
        self.fails(3, "nowhere.data", args=["inspect", out, "--profile", "host"])
        out = self.external("../m/model.onnx.data")
        self.fails(3, "..", args=["inspect", out, "--profile", "host"])
        out = self.external("/etc/passwd")
        self.fails(3, "/etc/passwd", args=["inspect", out, "--profile", "host"])
        out = self.external("link.data")
        (self.tmp / "outside").write_bytes(b"x" * 200000)
        (out / "link.data").symlink_to(self.tmp / "outside")
        self.fails(3, "link.data", args=["inspect", out, "--profile", "host"])
        out = self.external("model.onnx.data")
        (out / "model.onnx.data").write_bytes(b"x" * 1000)
        self.fails(3, "model.onnx.data", args=["inspect", out, "--profile", "host"])

    def test_not_a_model(self):
        f = self.tmp / "text.onnx"
        f.write_text("hello")
        self.fails(3, "text.onnx", args=["inspect", f, "--profile", "host"])
        self.fails(3, str(self.tmp), args=["inspect", self.tmp, "--profile", "host"])


class Profiles(Case):
    def test_misspelt_key(self):
        p = self.profile("plugins: [host]\nthread: 2\n")
        self.fails(3, "thread", "p.yaml:2:1", args=["run", DEMO, "-p", "x", "--profile", p])

    def test_wrong_types_and_options(self):
        for text, word in (("plugins: 3\n", "plugins"), ("plugins: [host]\nthreads: many\n", "threads"),
                           ("plugins:\n  - name: host\n    options: {no_such: 1}\n", "no_such"),
                           ("plugins: [../host]\n", "../host"), ("plugins: [host\n", "p.yaml")):
            self.fails(3, word, args=["run", DEMO, "-p", "x", "--profile", self.profile(text)])

    def test_processors(self):
        run = ["plugins", "--format", "json", "--profile"]
        for text, *words in (("cpus: [0, two]\n", "p.yaml:1:11", "not 'two'"), ("cpus: []\n", "p.yaml:1:7", "no processor"),
                             ("cpus: 0,1021\n", "p.yaml:1:7", "names 1021", "there are ")):
            self.fails(3, "'cpus'", *words, args=[*run, self.profile(text)])
        for text, *words in (("2-1", "ends before"), ("", "such as 0,2-3"), ("1021", "names 1021")):
            self.fails(3, "cpus", *words, args=[*run, "host", "--cpus", text])
        said = json.loads(self.ok(*run, "host", "--cpus", "0").stdout)
        self.assertEqual((said["threads"], said["cpus"]), (1, "0"))
        said = json.loads(self.ok(*run, self.profile("threads: 1\n"), "--cpus", "0", "--threads", 3).stdout)
        self.assertEqual((said["threads"], said["cpus"]), (3, "0"))
        self.assertNotIn("cpus", json.loads(self.ok(*run, "host").stdout))
        self.ok(*run, "host", "--cpus", "big")
        self.ok(*run, self.profile("cpus: big\n"))

    def test_unknown_profile(self):
        self.fails(3, "nonesuch", args=["run", DEMO, "-p", "x", "--profile", "nonesuch"])


class Tokenizers(Case):
    def test_merge_of_unknown_pieces(self):
        m = copy_model(DEMO, self.tmp / "m")
        t = json.loads((m / "tokenizer.json").read_text())
        t["model"]["merges"][5] = ["nosuchpiece", "other"]
        (m / "tokenizer.json").write_text(json.dumps(t))
        self.fails(3, "merges", "nosuchpiece", args=["run", m, "-p", "x", "-n", 1])

    def test_truncated_and_missing(self):
        m = copy_model(DEMO, self.tmp / "m")
        text = (m / "tokenizer.json").read_text()
        (m / "tokenizer.json").write_text(text[:len(text) // 2])
        self.fails(3, "tokenizer.json", args=["run", m, "-p", "x", "-n", 1])
        (m / "tokenizer.json").unlink()
        self.fails(3, "tokenizer.json", args=["run", m, "-p", "x", "-n", 1])


@unittest.skipUnless(has_avx2(), "no AVX2 plugin here")
class Plugins(Case):
    """Through the program: a required plugin that cannot work is exit code 5 with the reason."""

    def broken(self, name, change):
        d = self.tmp / name
        d.mkdir()
        for f in ("cpu-avx2-lut.so", "cpu-avx2-lut.yaml"):
            shutil.copy(BUILD / "plugins/cpu-avx2-lut" / f, d / f)
        change(d)
        return {"TENON_PLUGIN_PATH": str(d)}

    def check(self, env, *words):
        self.fails(5, "cpu-avx2-lut", *words, args=["run", DEMO, "-p", "x", "-n", 1, "--profile", "cpu-avx2"], env=env)
        self.ok("run", DEMO, "-p", "x", "-n", 1, env=env)  # the default profile goes on without it

    def test_text_file(self):
        self.check(self.broken("text", lambda d: (d / "cpu-avx2-lut.so").write_text("not a library")))

    def test_other_abi_major(self):
        def change(d):
            y = (d / "cpu-avx2-lut.yaml").read_text()
            (d / "cpu-avx2-lut.yaml").write_text(re.sub(r"(?m)^abi:.*$", 'abi: {min: "2.0", max: "2.0"}', y))
        self.check(self.broken("major", change), "2.0", "1.")

    def test_no_manifest(self):
        self.check(self.broken("bare", lambda d: (d / "cpu-avx2-lut.yaml").unlink()), "manifest")

    def test_writable_by_others(self):
        self.check(self.broken("open", lambda d: (d / "cpu-avx2-lut.so").chmod(0o777)), "writ")

    def test_missing(self):
        self.check({"TENON_PLUGIN_PATH": str(self.tmp)})

    def test_processor_without_avx2(self):
        qemu = shutil.which("qemu-x86_64-static")
        if not qemu:
            self.skipTest("qemu-x86_64-static is not here")
        if "libasan" in subprocess.run(["ldd", TENON], capture_output=True, text=True).stdout:
            self.skipTest("the address sanitizer does not run under qemu")
        env = dict(os.environ, TENON_PLUGIN_PATH=str(BUILD / "plugins/cpu-avx2-lut"),
                   TENON_PROFILE_PATH=str(DEMO.parent.parent / "configs"), TENON_CACHE_DIR=str(self.cache))

        def old_cpu(*args):
            return subprocess.run([qemu, "-cpu", "Nehalem", TENON, *map(str, args)], capture_output=True, text=True, env=env)

        r = old_cpu("run", DEMO, "-p", "x", "-n", 1, "--profile", "cpu-avx2")
        self.assertEqual(r.returncode, 5, r.stderr)
        self.assertIn("avx2", r.stderr)
        r = old_cpu("run", DEMO, "-p", "In the beginning", "-n", 2, "--temp", 0, "--ids")
        golden = json.loads((DEMO / "golden.json").read_text())["cases"][0]
        self.assertEqual([int(x) for x in r.stdout.split()], golden["prompt_ids"] + golden["greedy_ids"][:2], r.stderr)
        self.assertNotIn("cpu-avx2-lut", r.stderr.split("placement:")[1])


if __name__ == "__main__":
    main()
