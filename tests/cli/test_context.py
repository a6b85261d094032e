# SPDX-License-Identifier: Apache-2.0
"""The context: what config.json says, cut to memory by the command line, set by --max-seq; long ones cost what is used."""
import json
import os
import subprocess

from common import BUILD, DEMO, SOURCE, TENON, Case, has_asan, main

LONG = 131072


class Context(Case):
    def tiny(self, context=LONG):
        self.module("onnx")
        import tiny_decoder
        return tiny_decoder.write(self.tmp / f"tiny-{context}", context)

    def demo(self, context):
        """The demo model, which says that it has this context."""
        root = self.tmp / f"demo-{context}"
        root.mkdir()
        for n in ("model.onnx", "tokenizer.json", "tokenizer_config.json"):
            (root / n).symlink_to(DEMO / n)
        config = json.loads((DEMO / "config.json").read_text())
        (root / "config.json").write_text(json.dumps(config | {"max_position_embeddings": context}))
        return root

    def peak(self, *args):
        """Largest resident memory of a bench. A shell stands between: a process inherits the peak of the one that it is made from."""
        env = dict(os.environ, TENON_PROFILE_PATH=str(SOURCE / "configs"), TENON_CACHE_DIR=str(self.cache))
        r = subprocess.run(["sh", "-c", '"$@"; exit $?', "sh", TENON, "bench", *map(str, args), "-r", "1", "--no-warmup",
                            "--format", "json", "--profile", "host"], env=env, capture_output=True, text=True)
        self.assertEqual(r.returncode, 0, r.stderr)
        return json.loads(r.stdout)["peak_rss_bytes"]


class Chosen(Context):
    def test_inspect_says_what_run_would_take(self):
        table = [(self.tiny(512), [], 512), (self.tiny(), [], LONG), (self.tiny(), ["-c", 4096], 4096),
                 (self.tiny(), ["--max-seq=300"], 300)]
        for folder, args, want in table:
            with self.subTest(args=args, want=want):
                self.assertEqual(self.json("inspect", folder, "--profile", "host", *args)["context"], want)
                self.assertIn(f"context: {want} positions", self.ok("inspect", folder, "--profile", "host", *args).stdout)

    def test_the_profile_wins_over_config_and_the_option_over_both(self):
        p = self.profile("plugins:\n  - name: host\nmax_seq: 700\n")
        self.assertEqual(self.json("inspect", self.tiny(), "--profile", p)["context"], 700)
        self.assertEqual(self.json("inspect", self.tiny(), "--profile", p, "-c", 900)["context"], 900)
        ids = ",".join(["1"] * 701)
        self.fails(3, "700", args=["run", self.tiny(), "--profile", p, "--prompt-ids", ids, "--ids", "-n", 1])
        self.ok("run", self.tiny(), "--profile", p, "-c", 900, "--prompt-ids", ids, "--ids", "-n", 1)

    def test_every_command_has_the_option(self):
        text = self.tmp / "t.txt"
        text.write_text("In the beginning God created the heaven and the earth.\n")
        demo = self.demo(4096)
        for args in (["run", demo, "-p", "And", "-n", 4, "--ids", "-c", 3, "--temp", 0],):
            self.assertIn("context of 3 tokens is full", self.ok(*args, "--profile", "host").stderr)
        self.assertEqual(self.json("eval", demo, "--text", text, "-c", 6, "--profile", "host")["window"], 6)
        self.ok("bench", demo, "-p", 8, "-n", 2, "-r", 1, "-c", 64, "--profile", "host")
        self.ok("trace", demo, "-p", "And", "-n", 2, "-c", 64, "-o", self.tmp / "t.json", "--profile", "host")
        self.fails(2, "-c", "'0'", args=["run", demo, "-p", "x", "-c", 0])
        self.fails(2, "-c", args=["check", demo, "-c", 10])
        more = self.ok("run", demo, "-p", "And", "-n", 2, "-c", 9999, "--profile", "host").stderr
        self.assertIn("4096 positions, as config.json says", more)

    def test_memory_cuts_the_default_only(self):
        if has_asan():
            self.skipTest("the address sanitizer's own memory is over the limit")
        demo = self.demo(LONG)
        r = self.ok("run", demo, "-p", "And", "-n", 2, "--profile", "host", "--max-memory", "300M")
        line = [x for x in r.stderr.splitlines() if x.startswith("context:")]
        self.assertEqual(len(line), 1, r.stderr)
        self.assertRegex(line[0], r"cut from 131072 positions to \d+: .*--max-seq N overrides")
        cut = int(line[0].split(" to ")[1].split(":")[0])
        self.assertTrue(2048 < cut < 60000, cut)
        self.assertEqual(self.json("inspect", demo, "--profile", "host", "--max-memory", "300M")["context"] // 4096,
                         cut // 4096)
        self.fails(5, "cannot allocate", args=["run", demo, "-p", "And", "-n", 2, "--profile", "host", "--max-memory", "300M",
                                      "-c", LONG])
        self.assertNotIn("context:", self.ok("run", demo, "-p", "And", "-n", 2, "--profile", "host").stderr)


class Long(Context):
    def test_a_prompt_of_33000_positions(self):
        np = self.module("numpy")
        folder = self.tiny()
        import tiny_decoder
        ids = np.random.default_rng(5).integers(0, tiny_decoder.VOCAB, 33000).tolist()
        want = []
        for _ in range(4):
            logits = tiny_decoder.logits_after(ids + want)
            first, second = np.sort(logits)[::-1][:2]
            self.assertGreater(first - second, 1e-3)  # no near-tie: the ids below are sure
            want.append(int(logits.argmax()))
        got = self.ids(folder, "--prompt-ids", ",".join(map(str, ids)), "-n", 4, "--temp", 0, "--profile", "host")
        self.assertEqual(got[33000:], want)

    def test_memory_is_as_stated_and_as_used(self):
        if has_asan():
            self.skipTest("the address sanitizer's own memory is over the limit")
        demo = self.demo(LONG)
        stated = self.json("inspect", demo, "-c", LONG, "--profile", "host")["memory"]
        self.assertGreater(stated["kv_bytes"], 800_000_000)
        short = self.peak(demo, "-c", LONG, "-p", 8, "-n", 8)
        self.assertLess(short, 180_000_000)  # 16 positions: four pages of 2 MiB of each of 12 caches (805 MB)
        more = self.peak(demo, "-c", LONG, "-p", 2000, "-n", 0)
        self.assertLess(more - short, 80_000_000)  # 2,000 positions: 12.3 MB of caches, in pages of 2 MiB
        stated = self.json("inspect", self.tiny(), "-c", 33100, "--profile", "host")["memory"]
        full = self.peak(self.tiny(), "-p", 33000, "-n", 0, "-c", 33100)
        self.assertLessEqual(full, stated["anonymous_bytes"] + stated["file_bytes"])
        self.assertGreater(full, stated["kv_bytes"])


if __name__ == "__main__":
    main()
