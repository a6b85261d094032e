# SPDX-License-Identifier: Apache-2.0
"""The table of embeddings in few bits: `tenon quantize --embeddings`, and as an item of --max-mb. What is written, against
onnxruntime, equal bytes, what reports say, refusals. TestQuantize has the products."""
import json
import signal
import subprocess
import sys
import time

import common
from common import DEMO, SOURCE, TENON

TABLE = "model.embed_tokens.weight"


class Embeddings(common.Case):
    def texts(self):
        return json.loads((SOURCE / "models" / "train" / "valid.json").read_text())

    def text(self, n):
        path = self.tmp / "cal.json"
        path.write_text(json.dumps([t[:1500] for t in self.texts()[40:40 + n]]))
        return path

    @staticmethod
    def bytes_of(folder):
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}

    @staticmethod
    def size(folder):
        return sum((folder / n).stat().st_size for n in ("model.onnx", "model.onnx_data"))

    def model_of(self, folder):
        """Nodes by operator, initializers by name."""
        m = self.module("onnx").load(folder / "model.onnx")
        nodes = {}
        for n in m.graph.node:
            nodes.setdefault(n.op_type, []).append(n)
        return nodes, {i.name: i for i in m.graph.initializer}

    def made_llama(self, *more):
        """Two layers in which the head has the table's constant behind a Transpose, or its elements in another one."""
        self.module("onnx"), self.module("numpy")
        out = self.tmp / "llama"
        subprocess.run([sys.executable, SOURCE / "bench/make_llama.py", out, "--layers", "2", "--dim", "64", "--heads", "2", "--kv-heads",
                        "1", "--ffn", "128", *([] if "--vocab" in more else ["--vocab", "4200"]), *more], check=True, capture_output=True)
        return out

    def feeds(self, folder, ids):
        """One text, and caches that are empty."""
        np, feeds = self.module("numpy"), {}
        for i in self.module("onnxruntime").InferenceSession(str(folder / "model.onnx")).get_inputs():
            feeds[i.name] = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64),
                             "position_ids": np.arange(len(ids))[None]}.get(i.name)
            if feeds[i.name] is None:
                feeds[i.name] = np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32)
        return feeds

    def by_ort(self, folder, ids):
        session = self.module("onnxruntime").InferenceSession(str(folder / "model.onnx"))
        return session.run(["logits"], self.feeds(folder, ids))[0][0]

    def by_host(self, folder, ids):
        np, ins = self.module("numpy"), []
        for k, (name, a) in enumerate(self.feeds(folder, ids).items()):
            np.save(self.tmp / f"in{k}.npy", a)
            ins += ["--in", f"{name}={self.tmp / f'in{k}.npy'}"]
        self.ok("infer", folder, *ins, "--out", self.tmp / "outputs", "--profile", "host")
        return np.load(self.tmp / "outputs" / "logits.npy")[0]

    def greedy(self, folder, ids, n):
        """Ids that onnxruntime finds likeliest, without a cache."""
        for _ in range(n):
            ids = ids + [int(self.by_ort(folder, ids)[-1].argmax())]
        return ids

    def test_written(self):
        """Bits, blocks and zero points; no floats are left; the same ids as onnxruntime; reports say the bits."""
        plain = self.tmp / "plain"
        self.ok("quantize", DEMO, "-o", plain, "--round", "--bits", "8")
        self.assertIn(TABLE, self.model_of(plain)[1])
        for form, bits, block, zeros in (("8", 8, 32, False), ("4:32", 4, 32, False), ("4:16z", 4, 16, True), ("2:16z", 2, 16, True)):
            with self.subTest(form=form):
                out = self.tmp / form.replace(":", "-")
                said = self.ok("quantize", DEMO, "-o", out, "--round", "--bits", "8", "--embeddings", form).stdout
                self.assertIn(f"embeddings: {form}", said)
                nodes, inits = self.model_of(out)
                [g] = nodes["GatherBlockQuantized"]
                self.assertEqual({a.name: a.i for a in g.attribute}, {"bits": bits, "block_size": block, "gather_axis": 0, "quantize_axis": 1})
                self.assertEqual((g.domain, len(g.input)), ("com.microsoft", 4 if zeros else 3))
                self.assertEqual(list(inits[g.input[0]].dims), [4096, 256 * bits // 8])
                self.assertEqual(list(inits[g.input[2]].dims), [4096, 256 // block])
                self.assertNotIn(TABLE, inits)
                smaller = 4096 * 256 * 4 - 4096 * (256 * bits // 8 + 4 * 256 // block + (256 // block * bits // 8 if zeros else 0))
                self.assertAlmostEqual(self.size(plain) - self.size(out), smaller, delta=2000)
                ids = self.ids(out, "-p", "Once upon a time there was", "-n", "6", "--temp", "0", "--profile", "host")
                self.assertEqual(self.greedy(out, ids[:-6], 6), ids)
                [t] = self.json("inspect", out, "--profile", "host")["embeddings"]["tables"]
                self.assertEqual((t["bits"], t["block"]), (bits, block))
        for command in ("check",), ("inspect",), ("pack", "--report"):
            r = self.ok(command[0], out, *command[1:], "--profile", "cpu-avx2" if common.has_avx2() else "host")
            self.assertRegex(r.stderr, r"embeddings: '.*' has 2 bits in blocks of 16")

    def test_every_block_is_rounded_best(self):
        """Scales are searched: the error is below that of scales which reach the largest weight."""
        np, onnx = self.module("numpy"), self.module("onnx")
        out = self.tmp / "out"
        self.ok("quantize", DEMO, "-o", out, "--round", "--bits", "8", "--embeddings", "4:32")
        nodes, inits = self.model_of(out)
        get = lambda i: onnx.numpy_helper.to_array(inits[nodes["GatherBlockQuantized"][0].input[i]])
        w = onnx.numpy_helper.to_array(self.model_of(DEMO)[1][TABLE])
        codes = np.stack([get(0) & 15, get(0) >> 4], -1).reshape(4096, 8, 32).astype(np.float32)
        q = ((codes - 8) * get(2)[..., None]).reshape(w.shape)
        blocks = w.reshape(4096, 8, 32)
        scale = np.abs(blocks).max(-1, keepdims=True) / 7
        usual = (np.clip(np.rint(blocks / scale), -8, 7) * scale).reshape(w.shape)
        self.assertLess(((q - w)**2).sum(), 0.85 * ((usual - w)**2).sum())

    def test_head(self):
        """The codes of the head, once in the file: the head's constant behind a Transpose, and its elements written twice."""
        for how in "once", "twice":
            with self.subTest(how=how):
                model, out, two = self.made_llama("--tied", how), self.tmp / f"one-{how}", self.tmp / f"two-{how}"
                self.ok("quantize", model, "-o", out, "--round", "--bits", "4", "--embeddings", "head")
                self.ok("quantize", model, "-o", two, "--round", "--bits", "4", "--embeddings", "4:32")
                nodes, inits = self.model_of(out)
                [g], [r] = nodes["GatherBlockQuantized"], nodes["Reshape"][:1]
                head = [n for n in nodes["MatMulNBits"] if "logits" in n.output][0]
                self.assertEqual((r.output[0], r.input[0], g.input[2]), (g.input[0], head.input[1], head.input[2]))
                self.assertFalse([i for i in inits.values() if i.data_type == 1 and 4200 in i.dims and 64 in i.dims])
                self.assertGreater(self.size(two) - self.size(out), 4200 * (32 + 8) - 2000)
                np, ids = self.module("numpy"), [5, 77, 4100, 9]
                ours = self.by_host(out, ids)
                self.assertLess(np.abs(ours - self.by_ort(out, ids)).max(), 1e-4)
                self.assertEqual(np.abs(ours - self.by_host(two, ids)).max(), 0)

    def test_memory(self):
        """Of codes and scales, as of floats, a context touches some pages; inspect says so."""
        model, bytes_of = self.made_llama("--vocab", "100000"), {}
        for form in "none", "8:32":
            out = self.tmp / form.replace(":", "-")
            self.ok("quantize", model, "-o", out, "--round", "--embeddings", form)
            bytes_of[form] = self.json("inspect", out, "-c", "64", "--profile", "host")["memory"]["weights_bytes"]
        self.assertLess(bytes_of["8:32"] - bytes_of["none"], 100000 * 8 + 100000)

    def test_refusals(self):
        no = self.tmp / "no"
        for more, code, word in ((["--embeddings", "5"], 3, "BITS or BITS:BLOCK"), (["--embeddings", "3:32"], 3, "BITS or BITS:BLOCK"),
                                 (["--embeddings", "8:24"], 3, "BITS or BITS:BLOCK"), (["--embeddings", ""], 3, "BITS or BITS:BLOCK"),
                                 (["--embeddings", "head", "--bits", "3"], 4, "cannot be looked up in format '3:32'")):
            self.fails(code, word, args=("quantize", DEMO, "-o", no, "--round", *more))
        # nobody looks rows of input_ids up, no product has them, and rows that are no whole blocks
        model = self.made_llama()
        self.fails(4, "no product of", args=("quantize", model, "-o", no, "--round", "--embeddings", "head"))
        onnx = self.module("onnx")
        m = onnx.load(model / "model.onnx")
        for g in m.graph.node:
            if g.op_type == "Gather" and "input_ids" in g.input:
                m.graph.node.append(onnx.helper.make_node("Identity", list(g.output), ["same"]))
                g.op_type, g.input[:] = "GatherND", [g.input[0], "column"]
                del g.attribute[:]
        m.graph.initializer.append(onnx.numpy_helper.from_array(self.module("numpy").array([1, -1, 1]), "shape"))
        m.graph.node.insert(0, onnx.helper.make_node("Unsqueeze", ["input_ids", "last"], ["column"]))
        m.graph.initializer.append(onnx.numpy_helper.from_array(self.module("numpy").array([-1]), "last"))
        onnx.save(m, model / "model.onnx")
        self.fails(4, "no constant float matrix", args=("quantize", model, "-o", no, "--round", "--embeddings", "8"))
        self.assertFalse(no.exists())

    # --- with calibration

    def mixed(self, out, *more):
        # Rows of levels cannot be looked up.
        return ["quantize", DEMO, "-o", out, "--text", self.text(2), "--piece", "128", "--max-tokens", "256", "--weights", common.UNIFORM, *more]

    def test_budget(self):
        """--max-mb: the table is one of the parts, and a file that is smaller than a table of floats is possible. Killed while
        it measures, other threads: the same bytes."""
        one, two = self.tmp / "one", self.tmp / "two"
        said = self.ok(*self.mixed(one, "--max-mb", "3.2", "--threads", "2")).stdout
        self.assertLessEqual(self.size(one), 3.2e6)
        self.assertGreater(self.size(one), 3.1e6)
        notes = json.loads((one / "quantize.json").read_text())
        e = notes["embeddings"]
        self.assertEqual((e["N"], e["K"]), (4096, 256))
        self.assertRegex(said, f"embeddings: {e['format']}, the codes of {e['codes_of']}" if "codes_of" in e else f"embeddings: {e['format']}")
        for what in "losses", "errors":
            self.assertGreater(e[what]["2:32z"], e[what]["4:32"])
            self.assertGreater(e[what]["4:32"], 10 * e[what]["8:32"])
            self.assertGreater(e[what]["8:32"], 0)
        self.assertNotIn("3:32", e["losses"])
        self.assertGreater(notes["whole"]["mix"], notes["loss"] / 3)
        self.assertLess(notes["whole"]["mix"], 3 * notes["loss"])
        nodes, inits = self.model_of(one)
        self.assertEqual(len(nodes["GatherBlockQuantized"]), 1)
        self.assertNotIn(TABLE, inits)
        command = [TENON, *map(str, self.mixed(two, "--max-mb", "3.2", "--threads", "1"))]
        work = self.tmp / "two.partial"
        for pattern in ("00043.sense", "*.solved"):
            p = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            end = time.time() + 300
            while p.poll() is None and not list(work.glob(pattern)) and time.time() < end:
                time.sleep(0.01)
            p.send_signal(signal.SIGKILL)
            self.assertEqual(p.wait(), -signal.SIGKILL)
            self.assertTrue(list(work.glob(pattern)))
        self.ok(*self.mixed(two, "--max-mb", "3.2", "--threads", "1"))
        self.assertEqual(self.bytes_of(one), self.bytes_of(two))

    def test_budget_ways(self):
        """A table that the options name is no item; with room for floats it stays; --bits takes none."""
        for more, form in ((["--max-mb", "10.6"], None), (["--max-mb", "4", "--embeddings", "8:32"], "8:32"),
                           (["--bits", "3.5", "--embeddings", "4:32"], "4:32"), (["--bits", "3.5", "--embeddings", "none"], "none"),
                           (["--max-mb", "3.2", "--embeddings", "head"], "head")):
            with self.subTest(more=more):
                out = self.tmp / "-".join(more).replace(":", "")
                self.ok(*self.mixed(out, *more))
                notes = json.loads((out / "quantize.json").read_text())
                nodes, inits = self.model_of(out)
                self.assertEqual(TABLE in inits, "GatherBlockQuantized" not in nodes)
                self.assertEqual("embeddings" in notes, form != "none")
                self.assertNotEqual(TABLE in inits, form not in (None, "none") or "GatherBlockQuantized" in nodes)
                if form in ("8:32", "4:32"):
                    self.assertEqual(notes["embeddings"]["format"], form)
                if form == "head":
                    self.assertEqual(notes["embeddings"]["codes_of"], notes["products"][-1]["name"])
                    self.assertEqual(notes["embeddings"]["format"], notes["products"][-1]["format"])
                if "--max-mb" in more:
                    self.assertLessEqual(self.size(out), float(more[1]) * 1e6)
        # products are solved for what the rounded table gives
        solved = [self.model_of(self.tmp / f"--bits-3.5---embeddings-{form}")[1] for form in ("432", "none")]
        first = next(n for n in solved[0] if n.endswith("_codes") and "Gather" not in n)
        self.assertTrue(solved[0][first].raw_data != solved[1][first].raw_data)
        self.fails(2, "one of them", args=self.mixed(self.tmp / "no", "--max-mb", "4", "--bits", "3"))


if __name__ == "__main__":
    common.main()
