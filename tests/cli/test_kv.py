# SPDX-License-Identifier: Apache-2.0
"""Caches of few bits (`kv: int4`): what is said of them, their bytes, and what they cost the demo model."""
import json

from common import DEMO, SOURCE, Case, main

LAYERS, HEADS, SIZE, END = 6, 4, 32, "<|endoftext|>"


class FewBits(Case):
    def host(self, kv):
        return self.profile(f"plugins: [host]\nkv: {kv}\n", f"{kv}.yaml")

    def test_bytes(self):
        stated = {kv: self.json("inspect", DEMO, "-c", 2048, "--profile", self.host(kv)) for kv in ("f16", "int4")}
        rows = 2048 * LAYERS * HEADS
        self.assertEqual(stated["f16"]["memory"]["kv_bytes"], rows * 2 * 2 * SIZE)
        self.assertEqual(stated["int4"]["memory"]["kv_bytes"], rows * (SIZE // 2 + SIZE // 8 + 2 + SIZE // 2 + 2))
        said = self.ok("inspect", DEMO, "--profile", self.host("int4")).stdout
        self.assertIn("int4 keys", said)
        self.assertIn("int4 values", said)

    def test_run(self):
        args = ("run", DEMO, "-p", "In the beginning", "-n", 24, "--temp", 0)
        r = self.ok(*args, "--profile", self.host("int4"))
        self.assertIn("kv i4", r.stderr)
        at_once = self.ids(*args[1:], "--profile", self.host("int4"))
        pieces = self.profile("plugins: [host]\nkv: int4\nprefill_chunk: 1\n", "pieces.yaml")
        self.assertEqual(self.ids(*args[1:], "--profile", pieces), at_once)

    def test_quality(self):
        """Not what the bits must be (tests/ops has that): that nothing is badly off. docs/quality.md has figures of more text."""
        texts = json.loads((SOURCE / "models/train/valid.json").read_text())
        joined, kl = self.tmp / "joined.txt", {}
        joined.write_text(END + END.join(texts)[:12000])
        for kv in ("int8", "int4"):
            r = self.json("eval", DEMO, "--text", joined, "--profile", self.host(kv), "--against", "host", "--max-tokens", 2048,
                          "--window", 2048)
            self.assertEqual((r["tokens"], r["windows"]), (2047, 1))
            kl[kv] = r["kl_divergence"]
        self.assertTrue(0 < kl["int8"] < 0.001 < kl["int4"] < 0.02, kl)


if __name__ == "__main__":
    main()
