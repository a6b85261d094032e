# SPDX-License-Identifier: Apache-2.0
"""tenon bundle as a user makes and runs one: equal bytes, equal text, read-only, by another user, under strace, damaged."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import common
from common import BUILD, DEMO, SOURCE, TENON

ASK = ["-p", "In the beginning", "-n", "24", "--temp", "0"]
SANITIZED = b"__asan_init" in pathlib.Path(TENON).read_bytes()
PLUGINS = {"TENON_PLUGIN_PATH": f"{BUILD}/plugins/cpu-avx2-lut:{BUILD}/plugins/cpu-neon-lut"}


def bare(**more):
    """An environment in which nothing says where Tenon is."""
    e = {k: v for k, v in os.environ.items() if not k.startswith("TENON") and k != "LD_LIBRARY_PATH"}
    return dict(e, **more)


def run(folder, *args, env=None, **kw):
    return subprocess.run([f"{folder}/run.sh", *map(str, args)], capture_output=True, text=True, env=env or bare(),
                          cwd="/", timeout=120, **kw)


def tree(folder):
    """Path -> (mode, time, bytes) of everything."""
    out = {}
    for p in sorted(pathlib.Path(folder).rglob("*")):
        st = p.lstat()
        out[str(p.relative_to(folder))] = (st.st_mode, st.st_mtime_ns, p.read_bytes() if p.is_file() else None)
    return out


class Bundle(common.Case):
    one = None

    def make(self, *args, name="b", code=0, model=DEMO, env=None):
        out = self.tmp / name
        r = self.tenon("bundle", model, "-o", name, *args, env=dict(PLUGINS, **(env or {})), cwd=self.tmp)
        self.assertEqual(r.returncode, code, r.stdout + r.stderr)
        self.result = r
        return out

    def shared(self):
        """One bundle for the tests that leave it as it is."""
        cls = type(self)
        if not cls.one:
            cls.keep = tempfile.TemporaryDirectory()
            cls.addClassCleanup(cls.keep.cleanup)
            pathlib.Path(cls.keep.name).chmod(0o755)
            made = self.make("--format", "json")
            cls.one = pathlib.Path(cls.keep.name) / "else where"
            shutil.copytree(made, cls.one)
            cls.report, cls.want = self.result, self.expected()
        return cls.one

    def text(self, folder, *args, **kw):
        r = run(folder, *args, **kw)
        self.assertEqual(r.returncode, 0, r.stdout + r.stderr)
        return r.stdout

    def expected(self):
        return self.ok("run", DEMO, *ASK, env=PLUGINS).stdout

    def test_twice_is_the_same(self):
        a, b = self.make(name="a"), self.make(name="z")
        ta, tb = tree(a), tree(b)
        self.assertEqual(list(ta), list(tb))
        for path in ta:
            self.assertEqual(ta[path], tb[path], path)
        c = self.make(name="c", env={"SOURCE_DATE_EPOCH": "1700000000"})
        self.assertIn("2023-11-14T22:13:20Z", (c / "bundle.spdx.json").read_text())
        self.assertEqual({t[1] for t in tree(c).values()}, {1700000000 * 10**9})

    def test_text_and_nothing_packed(self):
        b = self.shared()
        self.assertEqual(self.text(b, *ASK), self.want)
        r = run(b, "run", *ASK, "--log-level", "info")
        if common.has_avx2():
            self.assertRegex(r.stderr, r"cpu-avx2-lut: packed 0 matrices .* mapped [1-9]")
            self.assertEqual(sorted(p.name for p in (b / "plugins").iterdir()), ["cpu-avx2-lut.so", "cpu-avx2-lut.yaml"])
        self.assertIn("golden.json", [e["what"] for e in json.loads(self.report.stdout)["left_out"]])

    def test_list(self):
        b = self.shared()
        j = json.loads(self.report.stdout)
        listed = json.loads((b / "bundle.json").read_text())
        there = {str(p.relative_to(b)) for p in b.rglob("*") if p.is_file()}
        self.assertEqual(there, {f["path"] for f in listed["files"]} | {"bundle.json"})
        self.assertEqual(j["total_bytes"], sum((b / p).stat().st_size for p in there))
        for f in listed["files"]:
            self.assertEqual(hashlib.sha256((b / f["path"]).read_bytes()).hexdigest(), f["sha256"], f["path"])
        text = (b / "bundle.json").read_bytes()
        at = text.rindex(b'"digest": "') + 11
        self.assertEqual(hashlib.sha256(text[:at]).hexdigest().encode(), text[at:at + 64])
        self.ok("bundle", "--verify", b)

    def test_spdx(self):
        b = self.shared()
        j = json.loads((b / "bundle.spdx.json").read_text())
        self.assertEqual(j["spdxVersion"], "SPDX-2.3")
        self.assertEqual(j["SPDXID"], "SPDXRef-DOCUMENT")
        ids = [x["SPDXID"] for x in j["packages"] + j["files"]]
        self.assertEqual(len(ids), len(set(ids)))
        for i in ids:
            self.assertRegex(i, r"^SPDXRef-[A-Za-z0-9.-]+$")
        for r in j["relationships"]:
            self.assertIn(r["relatedSpdxElement"], ids)
        whole = next(p for p in j["packages"] if p["filesAnalyzed"])
        sums = sorted(c["checksumValue"] for f in j["files"] for c in f["checksums"] if c["algorithm"] == "SHA1")
        self.assertEqual(whole["packageVerificationCode"]["packageVerificationCodeValue"],
                         hashlib.sha1("".join(sums).encode()).hexdigest())
        self.assertEqual(sorted(whole["hasFiles"]), sorted(f["SPDXID"] for f in j["files"]))
        for f in j["files"]:
            self.assertEqual(hashlib.sha1((b / f["fileName"]).read_bytes()).hexdigest(), f["checksums"][0]["checksumValue"])

    def test_moved_read_only_and_another_user(self):
        moved = self.shared()
        want = self.want
        for p in [moved, *moved.rglob("*")]:
            p.chmod(p.stat().st_mode & ~0o222)
        before = tree(moved)
        try:
            self.assertEqual(self.text(moved, *ASK, env=bare(HOME="/nonexistent")), want)
            link = self.tmp / "link"
            link.symlink_to(moved)
            self.assertEqual(self.text(link, *ASK), want)
            if os.geteuid() == 0:
                self.assertEqual(self.text(moved, *ASK, env=bare(HOME="/nonexistent"), user=65534, group=65534), want)
            self.assertEqual(tree(moved), before)
        finally:
            for p in [moved, *moved.rglob("*")]:
                p.chmod(p.stat().st_mode | 0o200)

    def test_unpacked_by_another(self):
        if os.geteuid() != 0 or not common.has_avx2():
            self.skipTest("needs root, to give files away, and AVX2")
        b = self.tmp / "given"
        shutil.copytree(self.shared(), b)
        for p in [b, *b.rglob("*")]:
            os.chown(p, 65534, 65534)
        self.assertEqual(self.text(b, *ASK), self.want)
        (b / "plugins").chmod(0o777)  # what others may write is still refused
        r = run(b, *ASK)
        self.assertNotEqual((r.returncode, "cpu-avx2-lut" in r.stderr.split("placement:")[-1]), (0, True), r.stderr)

    def traced(self, b, command, env):
        """Runs it under strace: what it opens lies in b or is the system loader's, /proc and /sys. Its output."""
        if not shutil.which("strace"):
            self.skipTest("strace is not there")
        if SANITIZED:
            self.skipTest("a sanitizer's runtime opens files of its own")
        log = self.tmp / "strace.log"
        r = subprocess.run(["strace", "-f", "-qq", "-o", log, "-e", "trace=open,openat,openat2,creat,execve,connect",
                            *map(str, command)], capture_output=True, text=True, env=env, cwd="/", timeout=300)
        if "ptrace" in r.stderr and r.returncode:
            self.skipTest("strace may not trace here")
        self.assertEqual(r.returncode, 0, r.stderr)
        system = re.compile(r"/(etc/ld\.so\.|proc/|sys/|(usr/)?lib(64)?/([a-z0-9_]+-linux-gnu/)?(libc|libm|ld-linux[^/]*|libgcc_s)\.so)")
        opened = 0
        for line in log.read_text().splitlines():
            call = re.search(r'(open\w*|creat|execve|connect)\((?:AT_FDCWD, )?"?([^",]*)', line)
            if not call or "ENOENT" in line:
                continue
            name, path = call.groups()
            self.assertNotEqual(name, "connect", line)
            opened += path.startswith(str(b))
            if name == "execve":
                self.assertTrue(path.startswith(str(b)) or path in ("/bin/sh", "/usr/bin/cksum", "/bin/cksum"), line)
            elif path.startswith("/"):
                self.assertTrue(path.startswith(str(b)) or system.match(path), line)
            if "O_WRONLY" in line or "O_RDWR" in line or "O_CREAT" in line:
                self.assertTrue(path.startswith("/proc/") or path.startswith("/dev/null"), line)
        self.assertGreater(opened, 5)
        return r.stdout

    def test_opens_nothing_else(self):
        b = self.shared()
        self.traced(b, [f"{b}/run.sh", *ASK], bare())

    def test_without_run_sh(self):
        """The program itself, as where there is no shell."""
        b = self.shared()
        home = self.tmp / "home"  # what a user has there must not be looked at
        home.mkdir()
        out = self.traced(b, [b / "bin/tenon", "run", b / "model", *ASK], bare(LD_LIBRARY_PATH=f"{b}/lib", HOME=str(home)))
        self.assertEqual(out, run(b, *ASK).stdout)
        self.assertEqual(list(home.rglob("*")), [])

    def test_too_large(self):
        out = self.make("--max-size", "20M", code=1)
        self.assertFalse(out.exists())
        self.assertEqual(list(self.tmp.glob("b*")), [])
        self.assertRegex(self.result.stdout, r"model +1 +26350731")
        self.assertIn("the limit of 20971520", self.result.stderr)
        r = self.tenon("bundle", DEMO, "-o", out, "--max-size", "20M", "--format", "json", env=PLUGINS)
        self.assertEqual(json.loads(r.stdout)["error"]["code"], "LIMIT")
        self.make("--max-size", "400M")  # with sanitizers it is larger

    def test_mistakes(self):
        cases = [
            (2, "-o DIR is needed", [DEMO]),
            (2, "one MODEL", ["-o", self.tmp / "x"]),
            (2, "--max-size 'many'", [DEMO, "-o", self.tmp / "x", "--max-size", "many"]),
            (2, "no bin/tenon", [DEMO, "-o", self.tmp / "x", "--prefix", self.tmp]),
            (2, "--arch vax", [DEMO, "-o", self.tmp / "x", "--arch", "vax"]),
            (3, "not empty", [DEMO, "-o", self.tmp]),
            (3, "nowhere", [self.tmp / "nowhere", "-o", self.tmp / "x"]),
            (3, "'absent' is not in the profile", [DEMO, "-o", self.tmp / "x", "--with", "absent"]),
        ]
        (self.tmp / "something").touch()
        for code, word, args in cases:
            self.fails(code, word, args=["bundle", *args], env=PLUGINS)
        self.assertEqual([p.name for p in self.tmp.iterdir() if p.name != "cache"], ["something"])

    def test_with_and_profile(self):
        profile = self.profile("plugins:\n  - name: cpu-neon-lut\n    optional: true\n    options: {format: w4g}\n"
                               "  - host\nthreads: 2\nrequire: []\nkv: f16\ncache: {dir: /nowhere}\n")
        b = self.make("--profile", profile, "--with", "cpu-neon-lut")
        text = (b / "profile.yaml").read_text()
        self.assertIn("name: cpu-neon-lut", text)
        self.assertIn("threads: 2", text)
        self.assertIn("kv: f16", text)
        self.assertNotIn("nowhere", text)
        self.assertTrue((b / "plugins/cpu-neon-lut.so").exists())
        b = self.make("--profile", profile, name="c")
        self.assertFalse((b / "plugins").exists())
        self.assertEqual(self.text(b, *ASK), self.ok("run", DEMO, *ASK, "--profile", profile, env=PLUGINS).stdout)

    def test_calibration_comes_along(self):
        if not common.has_avx2():
            self.skipTest("no AVX2")
        profile = self.profile("plugins: [cpu-avx2-lut, host]\ncalibration: ${model}/calibration.yaml\n")
        b = self.make("--profile", profile)
        self.assertIn("calibration: calibration.yaml", (b / "profile.yaml").read_text())
        self.assertEqual((b / "calibration.yaml").read_bytes(), (DEMO / "calibration.yaml").read_bytes())
        self.text(b, *ASK)

    def test_damage_before_the_program_runs(self):
        """What the program cannot check itself: run.sh, the program, its libraries."""
        b = self.shared()
        want = self.want
        targets = ["run.sh", "bin/tenon", "lib/libtenon.so.0", "lib/libyaml-0.so.2", "bundle.json"]
        for i, name in enumerate(targets * (2 if os.environ.get("TENON_TEST_QUICK") else 8)):
            whole = (b / name).read_bytes()
            at = int.from_bytes(hashlib.sha256(f"{name}{i}".encode()).digest()[:8], "little") % len(whole)
            bad = bytearray(whole)
            bad[at] ^= 1 << (i % 8)
            (b / name).write_bytes(bad)
            r = run(b, *ASK)
            (b / name).write_bytes(whole)
            where = f"{name} at {at}: {r.returncode}\n{r.stdout}\n{r.stderr}"
            self.assertGreaterEqual(r.returncode, 0, where)  # no signal
            self.assertLess(r.returncode, 128, where)
            if r.returncode == 0:
                self.assertEqual(r.stdout, want, where)
            else:
                self.assertTrue(r.stderr.strip(), where)
            if name not in ("run.sh", "bundle.json"):
                self.assertEqual((r.returncode, "is damaged" in r.stderr), (3, True), where)

    def test_static(self):
        if not (BUILD / "static/tenon-cli.o").exists():
            self.skipTest("built without static parts")
        a, b = self.make("--static", name="a"), self.make("--static", name="z")
        self.assertEqual(tree(a), tree(b))
        self.assertFalse((a / "plugins").exists())
        self.assertFalse((a / "lib").exists())
        self.assertEqual(self.text(a, *ASK), self.expected())
        listed = self.text(a, "plugins")
        self.assertIn("host", listed)
        if common.has_avx2():
            self.assertRegex(listed, r"cpu-avx2-lut .* loaded")
            self.assertTrue((a / "licenses/common").exists())  # of what was linked
        needed = subprocess.run(["readelf", "-d", a / "bin/tenon"], capture_output=True, text=True).stdout
        for name in re.findall(r"NEEDED.*\[(.*)\]", needed):
            self.assertRegex(name, r"^(libc|libm|ld-linux.*|libgcc_s)\.so")
        r = self.tenon("bundle", DEMO, "-o", self.tmp / "n", "--static", "--cc", "no-such-compiler", env=PLUGINS)
        self.assertEqual(r.returncode, 3)
        self.assertIn("'no-such-compiler': No such file", r.stderr)
        self.assertFalse((self.tmp / "n").exists())

    def from_an_empty_root(self, bundle, want, ask, emulator=None):
        """The bundle in a root where nothing else is, /proc neither; needs root, for chroot."""
        root = self.tmp / f"root of {bundle.name}"
        shutil.copytree(bundle, root / "phone")
        if emulator:
            shutil.copy2(emulator, root / "emulator")
        before = [str(p.relative_to(root)) for p in sorted(root.rglob("*"))]
        self.assertEqual([p.name for p in sorted(root.iterdir())], ["emulator", "phone"] if emulator else ["phone"])
        args = ["/emulator"] * bool(emulator) + ["/phone/bin/tenon", "run", "/phone/model", *ask]
        r = subprocess.run([shutil.which("chroot") or "/usr/sbin/chroot", root, *args, "--log-level", "info"],
                           capture_output=True, text=True, env={}, timeout=300)
        self.assertEqual((r.returncode, r.stdout), (0, want), r.stderr)
        self.assertEqual([str(p.relative_to(root)) for p in sorted(root.rglob("*"))], before)
        return r

    def check_whole(self, bundle):
        """No loader is asked for, no library, and the C library's licence is there."""
        program = subprocess.run(["readelf", "-dlW", bundle / "bin/tenon"], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("INTERP", program)
        self.assertNotIn("NEEDED", program)
        self.assertFalse((bundle / "lib").exists())
        self.assertRegex(" ".join(p.name for p in (bundle / "licenses").rglob("*")), r"libc6-dev")

    def test_static_libc(self):
        if not (BUILD / "static/tenon-cli.o").exists():
            self.skipTest("built without static parts")
        b = self.make("--static-libc")
        self.check_whole(b)
        self.assertEqual(self.text(b, *ASK), self.expected())
        if os.geteuid() == 0:
            self.from_an_empty_root(b, self.expected(), ASK)

    def test_measured_width(self):
        """What this machine chose for b2 stands in the bundle, which packs and measures nothing."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        profile = self.profile("plugins:\n  - name: cpu-avx2-lut\n    options: {format: b2, group: 128}\n  - host\n")
        b = self.make("--profile", profile)
        text = (b / "profile.yaml").read_text()
        chosen = re.search(r"format: (w2g|lut2), group: 128", text)
        self.assertTrue(chosen, text)
        r = run(b, "run", *ASK, "--log-level", "info")
        self.assertRegex(r.stderr, r"cpu-avx2-lut: packed 0 matrices .* mapped [1-9]")
        self.assertNotIn("b2 is", r.stderr)

    def test_process_of_its_own(self):
        if not common.has_avx2():
            self.skipTest("no AVX2")
        b = self.make("--profile", self.profile("isolation: process\nplugins: [cpu-avx2-lut, host]\n"))
        self.assertEqual(self.text(b, *ASK), self.expected())
        (b / "bin/tenon-helper").unlink()
        self.assertEqual(run(b, *ASK).returncode, 3)

    def test_files_of_a_plugin(self):
        """A plugin under its name on phones, libNAME.so, and a file that it asks for: in the process and in its own."""
        there = pathlib.Path(os.environ["TENON_TEST_ASKS"])
        folder = self.tmp / "asked"
        folder.mkdir()
        shutil.copy(there / "asks.so", folder / "libasks.so")
        shutil.copy(there / "asks.yaml", folder)
        (folder / "asks.bin").write_text("here")
        (folder / "other.bin").write_text("nobody's")
        for more in "", "isolation: process\n":
            profile = self.profile(more + "plugins: [asks, host]\nrequire: [asks]\n")
            b = self.make("--profile", profile, "--plugin-dir", folder, name="b" + more[:1])
            self.assertEqual(sorted(p.name for p in (b / "plugins").iterdir()), ["asks.bin", "asks.so", "asks.yaml"])
            self.assertEqual([f["role"] for f in json.loads((b / "bundle.json").read_text())["files"]
                              if f["path"] == "plugins/asks.bin"], ["resource"])
            folder.rename(self.tmp / "gone")
            self.assertRegex(self.text(b, "plugins", "--profile", b / "profile.yaml"), r"asks .* loaded")
            (self.tmp / "gone").rename(folder)

    def packed_tables(self, more, model=DEMO, profile="plugins: [cpu-avx2-lut, host]\n"):
        """(a bundle with the tables, one without, its report); both say what a normal run says."""
        whole = self.make("--profile", self.profile(profile), name="whole", model=model)
        path = self.profile(profile + "embeddings: packed\n" + more)
        cut = self.make("--profile", path, "--format", "json", name="cut", model=model)
        report = json.loads(self.result.stdout)
        want = self.ok("run", model, *ASK, "--profile", path, env=PLUGINS).stdout
        self.assertEqual(self.text(cut, *ASK), want)
        r = run(cut, "run", *ASK, "--log-level", "info")
        self.assertRegex(r.stderr, r"cpu-avx2-lut: packed 0 matrices .* mapped [1-9]")
        self.ok("bundle", "--verify", cut)
        said = self.ok("check", model, "--profile", path, env=PLUGINS).stderr
        self.assertIn("embeddings: rows of 'model.embed_tokens.weight' are read from what cpu-avx2-lut packs as w4g", said)
        again = self.make("--profile", path, name="again", model=model)
        self.assertEqual(tree(cut), tree(again))
        return whole, cut, report

    def test_tables_left_out(self):
        """What is read from packed weights is not in the bundle; who would need it is told."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        whole, cut, report = self.packed_tables("calibration: ${model}/calibration.yaml\n")
        table = 4096 * 256 * 4
        sizes = [(b / "model/model.onnx").stat().st_size for b in (whole, cut)]
        self.assertGreater(sizes[0] - sizes[1], 2 * table - 4 * 65536)  # the table and its transposed twin
        self.assertLessEqual(sizes[0] - sizes[1], 2 * table)
        self.assertEqual(sum(e["what"].startswith("tensor ") for e in report["left_out"]), 2)
        self.assertIn("calibration: calibration.yaml", (cut / "profile.yaml").read_text())
        for profile, word in (("plugins: [{name: cpu-avx2-lut, probe: inprocess}, host]\n", "the host reads it"),
                              ("plugins: [host]\nembeddings: packed\n", "the host reads it")):
            r = run(cut, "run", "--profile", self.profile(profile), *ASK)
            self.assertEqual(r.returncode, 3, r.stderr)
            self.assertIn("was left out of this model", r.stderr)
            self.assertIn(word, r.stderr)
        profile = self.profile("plugins: [{name: cpu-avx2-lut, probe: inprocess}, host]\nembeddings: packed\n")
        r = run(cut, "run", "--profile", profile, "--cache-dir", self.tmp / "empty", *ASK)
        self.assertEqual(r.returncode, 3, r.stderr)
        self.assertIn("cannot be packed as 'w4g' here: its elements were left out", r.stderr)
        shutil.copytree(cut / "model", self.tmp / "model")
        (self.tmp / "model/left_out.json").unlink()
        self.fails(3, "model.onnx", args=["inspect", self.tmp / "model"])

    def test_table_of_another_file(self):
        """One constant for both, in external data; plugins in processes of their own."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        self.module("onnx"), self.module("numpy")
        model = self.tmp / "model"
        subprocess.run([sys.executable, SOURCE / "bench/make_llama.py", model, "--layers", "1", "--tied", "once"],
                       check=True, capture_output=True)
        whole, cut, report = self.packed_tables("isolation: process\n", model=model)
        sizes = [(b / "model/model.onnx_data").stat().st_size for b in (whole, cut)]
        self.assertEqual(sizes[0] - sizes[1], 4096 * 256 * 4 - 65536 * (json.loads(
            (cut / "model/left_out.json").read_text())["tensors"][0]["offset"] % 65536 != 0))

    def test_aarch64(self):
        """Made on x86-64 from an installed tree for aarch64 (scripts/aarch64.sh): runs under qemu, packs nothing."""
        prefix = os.environ.get("TENON_TEST_AARCH64_PREFIX")
        qemu = shutil.which("qemu-aarch64-static")
        if not prefix or not qemu:
            self.skipTest("TENON_TEST_AARCH64_PREFIX names no tree for aarch64, or there is no qemu")
        ask = ["-p", "In the beginning", "-n", "8", "--temp", "0", "--log-level", "info"]
        lib = next(pathlib.Path(prefix).glob("lib/**/libtenon.so.0")).parent  # lib, or lib/TRIPLET

        def under_qemu(program, libraries, *args):
            r = subprocess.run([qemu, "-E", f"LD_LIBRARY_PATH={libraries}", program, *map(str, args)], capture_output=True,
                               text=True, env=bare(), timeout=300)
            self.assertEqual(r.returncode, 0, r.stderr)
            return r

        want = under_qemu(f"{prefix}/bin/tenon", lib, "run", DEMO, *ask, "--profile", SOURCE / "configs/cpu-neon.yaml",
                          "--plugin-dir", lib / "tenon/plugins", "--cache-dir", self.tmp / "arm").stdout
        b = self.make("--arch", "aarch64", "--prefix", prefix)
        before = tree(b)
        r = under_qemu(b / "bin/tenon", b / "lib", "run", b / "model", *ask)
        self.assertEqual(r.stdout, want)
        self.assertRegex(r.stderr, r"cpu-neon-lut: packed 0 matrices .* mapped [1-9]")
        self.assertEqual(tree(b), before)
        self.assertEqual(tree(self.make("--prefix", prefix, name="again")), before)
        self.fails(2, "is built for x86-64", args=["bundle", DEMO, "-o", self.tmp / "x", "--arch", "aarch64"])
        if shutil.which("aarch64-linux-gnu-gcc") and (lib / "tenon/static/tenon-cli.o").exists():
            s = self.make("--prefix", prefix, "--static", "--cc", "aarch64-linux-gnu-gcc", name="s")
            r = under_qemu(s / "bin/tenon", "", "run", s / "model", *ask)
            self.assertEqual(r.stdout, want)
            self.assertRegex(r.stderr, r"cpu-neon-lut: packed 0 matrices .* mapped [1-9]")
            w = self.make("--prefix", prefix, "--static-libc", "--cc", "aarch64-linux-gnu-gcc", name="w")
            self.check_whole(w)
            print(f"programs: {(s / 'bin/tenon').stat().st_size} bytes with --static, "
                  f"{(w / 'bin/tenon').stat().st_size} with --static-libc", file=sys.stderr)
            if os.geteuid() == 0:
                r = self.from_an_empty_root(w, want, ask[:-2], qemu)
                self.assertRegex(r.stderr, r"cpu-neon-lut: packed 0 matrices .* mapped [1-9]")

    def test_other_models(self):
        """A model that is a file, on the host: the command is infer."""
        onnx, np = self.module("onnx"), self.module("numpy")
        h = onnx.helper
        g = h.make_graph([h.make_node("Add", ["x", "x"], ["y"])], "g", [h.make_tensor_value_info("x", 1, [3])],
                         [h.make_tensor_value_info("y", 1, [3])])
        path = self.tmp / "it's $(touch x) \"double\".onnx"
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), path)
        np.save(self.tmp / "x.npy", np.array([1, 2, 3], np.float32))
        b = self.make(model=path, name="d")
        self.text(b, "--in", f"x={self.tmp}/x.npy", "--out", self.tmp / "out")
        self.assertEqual(np.load(next((self.tmp / "out").glob("*.npy"))).tolist(), [2, 4, 6])
        self.assertIn("inputs", self.text(b, "inspect", "--format", "json"))


if __name__ == "__main__":
    common.main()
