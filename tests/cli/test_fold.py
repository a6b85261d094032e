# SPDX-License-Identifier: Apache-2.0
"""tenon quantize --fold: the folded model gives the same, the bytes do not depend on threads or a kill, and graphs that do not
allow it stay as they are."""
import json
import shutil
import signal
import subprocess
import time

import common
from common import DEMO, SOURCE, TENON

HEADS, KV, SIZE, DIM, MLP = 4, 2, 16, 64, 96


class Fold(common.Case):
    def text(self):
        path = self.tmp / "cal.json"
        if not path.exists():
            texts = json.loads((SOURCE / "models" / "train" / "valid.json").read_text())
            path.write_text(json.dumps([t[:900] for t in texts[40:43]]))
        return path

    def feeds(self, s, ids):
        np = self.module("numpy")
        feeds = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64),
                 "position_ids": np.arange(len(ids))[None]}
        named = {i.name: i for i in s.get_inputs()}
        past = {n: np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32) for n, i in named.items() if n not in feeds}
        return {n: v for n, v in {**feeds, **past}.items() if n in named}

    def logits(self, folder, ids):
        s = self.module("onnxruntime").InferenceSession(str(folder / "model.onnx"))
        return s.run(["logits"], self.feeds(s, ids))[0][0]

    @staticmethod
    def bytes_of(folder):
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}

    def constants(self, folder):
        onnx = self.module("onnx")
        return {i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(folder / "model.onnx").graph.initializer}

    def test_the_same_model(self):
        np = self.module("numpy")
        command = lambda out, threads: ["quantize", DEMO, "-o", out, "--text", self.text(), "--piece", "256", "--fold",
                                        "scales,rotate-vo", "--threads", str(threads)]
        one, two = self.tmp / "one", self.tmp / "two"
        self.assertIn("folded: 13 norms, 6 factors, 6 values turned", self.ok(*command(one, 2)).stdout)
        # killed once the folded model is there, and again
        p = subprocess.Popen([TENON, *map(str, command(two, 1))], stdout=subprocess.DEVNULL)
        floats = self.tmp / "two.partial" / "floats"
        end = time.time() + 300
        while p.poll() is None and not floats.exists() and time.time() < end:
            time.sleep(0.01)
        p.send_signal(signal.SIGKILL)
        self.assertEqual(p.wait(), -signal.SIGKILL)
        ids = list(range(5, 4000, 37))
        want, got = self.logits(DEMO, ids), self.logits(floats, ids)
        self.assertLess(np.abs(want - got).max(), 1e-5 * np.abs(want).max())
        before, after = self.constants(DEMO), self.constants(floats)
        changed = {n for n in before if not np.array_equal(before[n], after[n])}
        self.assertEqual(len(changed), 13 + 43)  # all gains, all products
        kept = (floats / "model.onnx").stat().st_mtime_ns
        self.ok(*command(two, 1))
        self.assertEqual(self.bytes_of(one), self.bytes_of(two))
        self.assertGreater(kept, 0)
        notes = json.loads((one / "quantize.json").read_text())
        self.assertEqual(notes, {"schema": 1, "fold": {"norms": 13, "factors": 6, "values": 0, "rotated": 6}})
        # the result alone is a model
        self.ok("run", one, "-p", "Once upon a time", "-n", "4", "--profile", "host")

    # --- graphs made here

    def model(self, name, bias=False, gqa=False, half=False, peek=None, shared=False):
        """One layer. bias: v has one. gqa: with com.microsoft's operators. peek: this value is an output too. shared: q and k are
        one matrix."""
        np, onnx = self.module("numpy"), self.module("onnx")
        h, T = onnx.helper, onnx.TensorProto
        r = np.random.default_rng(7)
        kind, elem = (np.float16, T.FLOAT16) if half else (np.float32, T.FLOAT)
        c = {}

        def const(name, *shape, scale=None):
            c[name] = (r.normal(0, scale or shape[0] ** -.5, shape)).astype(kind)
            return name
        for n in ("g1", "g2", "g3"):
            c[n] = r.uniform(.5, 2, DIM).astype(kind)
        const("table", 4096, DIM, scale=1)
        for n, shape in {"q": (DIM, HEADS * SIZE), "k": (DIM, KV * SIZE), "v": (DIM, KV * SIZE), "o": (HEADS * SIZE, DIM),
                         "gate": (DIM, MLP), "up": (DIM, MLP), "down": (MLP, DIM), "head": (DIM, 4096)}.items():
            const(n, *shape)
        if shared:
            const("k", DIM, HEADS * SIZE)
            c["v"] = c["k"]
        nodes = [h.make_node("Gather", ["table", "input_ids"], ["e"])]
        add = lambda *a, **k: nodes.append(h.make_node(*a, **k))
        norm = lambda x, g, y: add("RMSNormalization", [x, g], [y], epsilon=1e-5)
        norm("e", "g1", "x1")
        for n in "qkv":
            add("MatMul", ["x1", "k" if shared and n == "v" else n], [n + "_out"])
        v = "v_out"
        if bias:
            const("v_bias", KV * SIZE, scale=1)
            add("Add", ["v_bias", v], ["v_sum"])
            v = "v_sum"
        add("Identity", [v], ["v_mid"])
        v = "v_mid"
        past = ["past_key_values.0.key", "past_key_values.0.value"]
        if gqa:
            c["lengths"], c["total"] = np.array([0], np.int32), np.array(1, np.int32)
            add("ReduceSum", ["attention_mask", "one"], ["seq64"], keepdims=0)
            add("Sub", ["seq64", "one"], ["seq0"])
            add("Cast", ["seq0"], ["lens"], to=T.INT32)
            add("Shape", ["attention_mask"], ["mask_shape"])
            add("Gather", ["mask_shape", "one0"], ["total64"])
            add("Cast", ["total64"], ["total32"], to=T.INT32)
            c["one"], c["one0"] = np.array([1], np.int64), np.array(1, np.int64)
            del c["lengths"], c["total"]
            add("GroupQueryAttention", ["q_out", "k_out", v, *past, "lens", "total32"], ["y", "present.0.key", "present.0.value"],
                domain="com.microsoft", num_heads=HEADS, kv_num_heads=KV)
        else:
            add("Attention", ["q_out", "k_out", v, "", *past], ["y", "present.0.key", "present.0.value"], is_causal=1,
                q_num_heads=HEADS, kv_num_heads=HEADS if shared else KV)
        add("MatMul", ["y", "o"], ["o_out"])
        add("Add", ["e", "o_out"], ["r"])
        norm("r", "g2", "x2")
        add("MatMul", ["x2", "gate"], ["gate_out"])
        add("Sigmoid", ["gate_out"], ["sig"])
        add("Mul", ["gate_out", "sig"], ["act"])
        add("MatMul", ["x2", "up"], ["up_out"])
        add("Mul", ["act", "up_out"], ["m"])
        add("MatMul", ["m", "down"], ["down_out"])
        add("Add", ["r", "down_out"], ["s"])
        norm("s", "g3", "x3")
        add("MatMul", ["x3", "head"], ["logits"])
        i64 = lambda n, d: h.make_tensor_value_info(n, T.INT64, d)
        flt = lambda n, d: h.make_tensor_value_info(n, elem, d)
        heads = HEADS if shared else KV
        ins = [i64("input_ids", ["b", "s"])] + [i64("attention_mask", ["b", "t"])] * gqa + [flt(p, ["b", heads, "p", SIZE]) for p in past]
        outs = [flt("logits", ["b", "s", 4096])] + [flt(f"present.0.{n}", ["b", heads, "t", SIZE]) for n in ("key", "value")]
        outs += [flt(peek, ["b", "s", None])] if peek else []
        graph = h.make_graph(nodes, "g", ins, outs, [onnx.numpy_helper.from_array(v, k) for k, v in c.items() if not (shared and k == "v")])
        folder = self.tmp / name
        folder.mkdir()
        m = h.make_model(graph, opset_imports=[h.make_opsetid("", 23), h.make_opsetid("com.microsoft", 1)], ir_version=10)
        onnx.save(m, folder / "model.onnx")
        for n in ("tokenizer.json", "config.json"):
            shutil.copy(DEMO / n, folder / n)
        return folder

    def fold(self, folder, *more, block=("--bits", "8", "--block", "16")):
        """Notes, what it printed and the largest difference of logits over the largest, at 8 bits."""
        np = self.module("numpy")
        out = self.tmp / (folder.name + "-out")
        said = self.ok("quantize", folder, "-o", out, *block, *more).stdout
        ids = list(range(3, 4000, 131))
        given = self.tmp / (folder.name + "-ids.npy")
        np.save(given, np.array([ids]))
        logits = []
        for f in (folder, out):
            extra = []
            for n in ("key", "value"):
                extra += ["--in", f"past_key_values.0.{n}={self.past(folder, n)}"]
            if "gqa" in folder.name:
                mask = self.tmp / "mask.npy"
                np.save(mask, np.ones((1, len(ids)), np.int64))
                extra += ["--in", f"attention_mask={mask}"]
            to = self.tmp / (f.name + "-logits")
            self.ok("infer", f, "--in", f"input_ids={given}", *extra, "--out", to, "--profile", "host")
            logits.append(np.load(to / "logits.npy").astype(np.float64))
        notes = json.loads((out / "quantize.json").read_text())["fold"]
        return notes, said, float(np.abs(logits[0] - logits[1]).max() / np.abs(logits[0]).max())

    def past(self, folder, name):
        np = self.module("numpy")
        path = self.tmp / f"{folder.name}-{name}.npy"
        heads = HEADS if folder.name == "shared" else KV
        np.save(path, np.zeros((1, heads, 0, SIZE), np.float16 if folder.name == "half" else np.float32))
        return path

    def test_values(self):
        """The values of heads are turned through Attention and GroupQueryAttention, with a bias, in halves."""
        for name, options in (("plain", {}), ("bias", {"bias": True}), ("gqa", {"gqa": True}), ("half", {"half": True})):
            notes, said, off = self.fold(self.model(name, **options), "--round", "--fold", "rotate-vo")
            self.assertEqual((name, notes), (name, {"rotated": 1}))
            self.assertIn("folded: 1 values turned", said)
            self.assertLess(off, 0.02, name)

    def test_scales(self):
        for name, options in (("plain", {}), ("bias", {"bias": True})):
            notes, said, off = self.fold(self.model(name, **options), "--text", self.text(), "--fold", "scales")
            self.assertEqual(notes, {"norms": 3, "factors": 1, "values": 1})
            self.assertLess(off, 0.02, name)

    def test_budget(self):
        notes, said, off = self.fold(self.model("plain"), "--text", self.text(), "--max-tokens", "64", "--bits", "6.5", "--weights", "4:32+8:32", "--fold",
                                     "scales,rotate-vo", block=())
        self.assertEqual(notes, {"norms": 3, "factors": 1, "values": 0, "rotated": 1})
        self.assertIn("folded: 3 norms, 1 factors, 1 values turned", said)
        self.assertIn("measured: 8 of 8 products", said)
        self.assertLess(off, 0.2)

    def test_left_alone(self):
        """What else reads the channels, or the matrix, leaves them as they are, and the command says so."""
        for name, options, flags, want in (
                ("peek_v", {"peek": "v_out"}, "rotate-vo", {"rotated": 0}), ("peek_mid", {"peek": "v_mid"}, "rotate-vo", {"rotated": 0}), ("peek_y", {"peek": "y"}, "rotate-vo", {"rotated": 0}),
                ("shared", {"shared": True}, "rotate-vo", {"rotated": 0})):
            notes, said, off = self.fold(self.model(name, **options), "--round", "--fold", flags)
            self.assertEqual((name, notes), (name, want))
            self.assertIn("folded: nothing", said)
            self.assertLess(off, 0.02, name)
        for name, peek, want in (("peek_x", "x1", {"norms": 2, "factors": 1, "values": 1}), ("peek_up", "up_out", {"norms": 3, "factors": 0, "values": 1}),
                                 ("peek_m", "m", {"norms": 3, "factors": 0, "values": 1})):
            notes, _, off = self.fold(self.model(name, peek=peek), "--text", self.text(), "--fold", "scales")
            self.assertEqual((name, notes), (name, want))
            self.assertLess(off, 0.02, name)

    def test_refusals(self):
        for more, code, word in ((["--round", "--fold", "scale"], 2, "--fold scale"), (["--round", "--fold", "scales"], 2, "--text FILE"),
                                 (["--round", "--fold", "rotate-vo,"], 0, "")):
            r = self.tenon("quantize", DEMO, "-o", self.tmp / "x", *more)
            self.assertEqual(r.returncode, code, r.stderr)
            self.assertIn(word, r.stderr)
            self.assertEqual((self.tmp / "x").exists(), code == 0)


if __name__ == "__main__":
    common.main()
