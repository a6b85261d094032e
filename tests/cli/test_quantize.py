# SPDX-License-Identifier: Apache-2.0
"""tenon quantize: folders that run alone, equal bytes for any threads and after a kill, against onnxruntime, refusals."""
import json
import re
import resource
import shutil
import signal
import subprocess
import sys
import time

import common
from common import DEMO, SOURCE, TENON, UNIFORM


class Quantize(common.Case):
    def texts(self):
        return json.loads((SOURCE / "models" / "train" / "valid.json").read_text())

    def text(self, n=6):
        path = self.tmp / "cal.json"
        path.write_text(json.dumps([t[:1500] for t in self.texts()[40:40 + n]]))
        return path

    def command(self, out, *more):
        return ["quantize", DEMO, "-o", out, "--text", self.text(), "--piece", "256", *more]

    @staticmethod
    def bytes_of(folder):
        return {p.name: p.read_bytes() for p in sorted(folder.iterdir())}

    def logits(self, folder, ids, output="logits", plain=False):
        """plain: node by node, as the graph says."""
        ort, np = self.module("onnxruntime"), self.module("numpy")
        o = ort.SessionOptions()
        if plain:
            o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
        s = ort.InferenceSession(str(folder / "model.onnx"), o)
        feeds = {}
        for i in s.get_inputs():
            if i.name == "input_ids":
                feeds[i.name] = np.array([ids])
            elif i.name == "attention_mask":
                feeds[i.name] = np.ones((1, len(ids)), np.int64)
            elif i.name == "position_ids":
                feeds[i.name] = np.arange(len(ids))[None]
            else:
                feeds[i.name] = np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32)
        x = s.run([output], feeds)[0][0].astype(np.float64)
        return x - np.log(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True)) - x.max(-1, keepdims=True)

    def test_bytes_and_quality(self):
        np, tokenizers = self.module("numpy"), self.module("tokenizers")
        one, two, rounded = self.tmp / "one", self.tmp / "two", self.tmp / "rounded"
        self.ok(*self.command(one, "--threads", "2"))
        self.assertFalse((self.tmp / "one.partial").exists())
        # killed on the way, and again
        again = self.command(two, "--threads", "1", "--memory", "1")
        p = subprocess.Popen([TENON, *map(str, again)], stdout=subprocess.DEVNULL)
        work = self.tmp / "two.partial"
        end = time.time() + 300
        while p.poll() is None and len(list(work.glob("*.solved"))) < 5 and time.time() < end:
            time.sleep(0.01)
        p.send_signal(signal.SIGKILL)
        self.assertEqual(p.wait(), -signal.SIGKILL)
        self.assertFalse(two.exists())
        kept = {f.name: f.stat().st_mtime_ns for f in work.glob("*.solved")}
        self.assertGreaterEqual(len(kept), 5)
        self.assertFalse((work / "activations").exists())
        self.ok(*again)
        self.assertEqual(self.bytes_of(one), self.bytes_of(two))
        self.assertIn("tokenizer.json", self.bytes_of(one))
        # closer to the model than rounding, by what onnxruntime gives
        self.ok("quantize", DEMO, "-o", rounded, "--round")
        tok = tokenizers.Tokenizer.from_file(str(DEMO / "tokenizer.json"))
        kl = {one: 0.0, rounded: 0.0}
        for t in self.texts()[:4]:
            ids = tok.encode(t).ids[:256]
            base = self.logits(DEMO, ids)
            for folder in kl:
                kl[folder] += float((np.exp(base) * (base - self.logits(folder, ids))).sum(-1).mean()) / 4
        self.assertLess(kl[one], 0.92 * kl[rounded])
        self.assertLess(kl[rounded], 0.04)
        # what Tenon's host makes of the folder is what onnxruntime does
        ids = self.ids(one, "-p", "Once upon a time there was", "-n", "1", "--temp", "0", "--profile", "host")
        self.assertEqual(int(self.logits(one, ids[:-1])[-1].argmax()), ids[-1])

    def test_conversations(self):
        """Lines of messages give the bytes that their texts give."""
        (self.tmp / "chats.jsonl").write_text(json.dumps([{"role": "user", "content": t[:300]} for t in self.texts()[:2]]) + "\n")
        (self.tmp / "texts.json").write_text(json.dumps(["".join(t[:300] + "\n" for t in self.texts()[:2])]))
        made = []
        for name in ("chats.jsonl", "texts.json"):
            out = self.tmp / name.split(".")[0]
            self.ok("quantize", DEMO, "-o", out, "--text", self.tmp / name, "--piece", "256")
            made.append(self.bytes_of(out))
        self.assertEqual(*made)

    def renamed(self, folder, to, old, new):
        """A copy whose output `old` is called `new`."""
        onnx = self.module("onnx")
        shutil.copytree(folder, to)
        m = onnx.load(to / "model.onnx")
        for o in m.graph.output:
            o.name = new if o.name == old else o.name
        for n in m.graph.node:
            n.output[:] = [new if o == old else o for o in n.output]
        for f in to.glob("model.onnx*"):
            f.unlink()
        onnx.save(m, to / "model.onnx")
        return to

    def test_head(self):
        """The product that gives the logits is solved by what its errors cost there; another one of that shape is not."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        onnx, known, plain = self.module("onnx"), self.tmp / "known", self.tmp / "plain"
        other = self.renamed(DEMO, self.tmp / "other", "logits", "scores")
        more = ["--text", self.text(20), "--max-tokens", "6000", "--weights", "lev2"]
        self.ok("quantize", DEMO, "-o", known, *more, "--threads", "2")
        self.ok("quantize", DEMO, "-o", self.tmp / "again", *more, "--threads", "1")
        self.assertEqual(self.bytes_of(known), self.bytes_of(self.tmp / "again"))
        self.ok("quantize", other, "-o", plain, *more)
        init = [{i.name: onnx.numpy_helper.to_array(i) for i in onnx.load(f / "model.onnx").graph.initializer} for f in (known, plain)]
        same = {k for k in init[0] if k in init[1] and (init[0][k] == init[1][k]).all()}
        self.assertEqual({k.rsplit("_", 1)[0] for k in set(init[0]) - same}, {"logits"})
        # The layers are the same, so that heads alone differ. On 30 texts it is 0.97 of it.
        (self.tmp / "scored.json").write_text(json.dumps([t[:1200] for t in self.texts()[:12]]))
        kl = [self.json("eval", f, "--text", self.tmp / "scored.json", "--max-tokens", "320", "--against", "host", "--original", DEMO,
                        timeout=600)["kl_divergence"] for f in (known, self.renamed(plain, self.tmp / "back", "scores", "logits"))]
        self.assertLess(kl[0], 0.99 * kl[1])

    def test_widths(self):
        onnx = self.module("onnx")
        for bits, block, zeros in ((2, 16, True), (3, 128, False), (8, 32, False), (4, 64, True)):
            out = self.tmp / f"w{bits}"
            self.ok("quantize", DEMO, "-o", out, "--round", "--bits", str(bits), "--block", str(block),
                    *(["--zeros"] if zeros else []))
            m = onnx.load(out / "model.onnx", load_external_data=False)
            nodes = [n for n in m.graph.node if n.op_type == "MatMulNBits"]
            self.assertEqual(len(nodes), 43)
            self.assertEqual({len(n.input) for n in nodes}, {4 if zeros else 3})
            self.assertEqual({a.i for n in nodes for a in n.attribute if a.name == "bits"}, {bits})
            self.ok("run", out, "-p", "Once", "-n", "2", "--profile", "host")

    def test_forms(self):
        """--to: the same codes as MatMulNBits and as DequantizeLinear, which onnxruntime runs to the same logits."""
        np, onnx = self.module("numpy"), self.module("onnx")
        ids = list(range(5, 37))
        for bits, zeros in ((4, False), (4, True), (8, False)):
            said = {}
            for to in ("onnx", "qdq"):
                out = self.tmp / f"{to}{bits}{zeros}"
                self.ok("quantize", DEMO, "-o", out, "--round", "--bits", str(bits), "--to", to, *(["--zeros"] if zeros else []))
                said[to] = self.logits(out, ids, plain=True)
                said[to, "host"] = self.ids(out, "-p", "In the beginning", "-n", "4", "--temp", "0", "--profile", "host")
            self.assertLess(np.abs(said["onnx"] - said["qdq"]).max(), 1e-4)
            self.assertEqual(said["onnx", "host"], said["qdq", "host"])
            m = onnx.load(out / "model.onnx", load_external_data=False)
            self.assertEqual({n.op_type for n in m.graph.node if n.domain == "com.microsoft"}, set())
            self.assertEqual(sum(n.op_type == "DequantizeLinear" for n in m.graph.node), 43)
            onnx.checker.check_model(str(out / "model.onnx"), full_check=True)

    def older(self, opset=17):
        """A model whose ReduceMean has its axes as an attribute and whose Split has no number of outputs."""
        np, onnx = self.module("numpy"), self.module("onnx")
        h, rng = onnx.helper, np.random.default_rng(3)
        init = [onnx.numpy_helper.from_array(rng.standard_normal(s).astype(np.float32), n)
                for n, s in (("table", (64, 32)), ("w", (32, 64)), ("v", (32, 64)))]
        nodes = [h.make_node("Gather", ["table", "input_ids"], ["x"], "g"), h.make_node("ReduceMean", ["x"], ["m"], "r", axes=[-1], keepdims=1),
                 h.make_node("Sub", ["x", "m"], ["c"], "s"), h.make_node("MatMul", ["c", "w"], ["y"], "first"),
                 h.make_node("Split", ["y"], ["a", "b"], "t", axis=-1), h.make_node("Mul", ["a", "b"], ["z"], "u"),
                 h.make_node("MatMul", ["z", "v"], ["logits"], "last")]
        g = h.make_graph(nodes, "g", [h.make_tensor_value_info("input_ids", 7, ["b", "s"])],
                         [h.make_tensor_value_info("logits", 1, ["b", "s", 64])], init)
        (self.tmp / f"older{opset}").mkdir()
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", opset)], ir_version=8), self.tmp / f"older{opset}" / "model.onnx")
        return self.tmp / f"older{opset}"

    def test_opset(self):
        """QDQ raises an older opset; below 13 it refuses."""
        np, onnx = self.module("numpy"), self.module("onnx")
        out, model = self.tmp / "out", self.older()
        self.ok("quantize", model, "-o", out, "--round", "--bits", "8", "--to", "qdq")
        m = onnx.load(out / "model.onnx")
        self.assertEqual((m.opset_import[0].version, m.ir_version), (21, 10))
        onnx.checker.check_model(m, full_check=True)
        ids = list(range(8))
        before, after = self.logits(model, ids), self.logits(out, ids)
        self.assertLess(np.abs(before - after).max(), 0.02 * np.abs(before).max())
        self.fails(4, "has opset 11", args=("quantize", self.older(11), "-o", self.tmp / "no", "--round", "--bits", "8", "--to", "qdq"))
        for more, says in ((["--weights", "lev4", "--to", "onnx"], "its levels come from a table"),
                           (["--bits", "3", "--to", "onnx"], "codes have 2, 4 or 8 bits there"),
                           (["--bits", "2", "--to", "qdq"], "codes have 4 or 8 bits there")):
            self.fails(4, says, args=("quantize", DEMO, "-o", self.tmp / "no", "--round", *more))
        self.fails(2, "tenon, onnx or qdq", args=("quantize", DEMO, "-o", self.tmp / "no", "--round", "--to", "gguf"))

    def test_full_disk(self):
        """Activations that memory may not hold go into a file. One that cannot grow is an error with its name."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        for memory, name in (("1", "out.partial/activations'"), ("100", "out.partial/00000.solved")):
            line = [TENON, *map(str, self.command(self.tmp / "out", "--memory", memory))]
            r = subprocess.run(line, capture_output=True, text=True, preexec_fn=limit, timeout=600)
            self.assertEqual(r.returncode, 6, r.stderr)
            self.assertIn(name, r.stderr)
            self.assertFalse((self.tmp / "out").exists())
            self.assertFalse((self.tmp / "out.partial" / "activations").exists())

    def folder(self, *more):
        out = self.tmp / "folder"
        self.ok("quantize", self.model, "-o", out, "--round", *more)
        return out

    def test_a_folder_is_a_model(self):
        """run, chat, serve, bench, eval and bundle take it; what lies beside the model comes along, from folders too."""
        self.model = self.tmp / "model"
        shutil.copytree(DEMO, self.model, ignore=shutil.ignore_patterns("chat_template*"))
        more = self.model / "additional_chat_templates"
        more.mkdir()
        (more / "tool_use.jinja").write_text("{{ messages[0].content }}!")
        (self.model / "chat_template.json").write_text(json.dumps(
            {"chat_template": "{{ bos_token }}{% for m in messages %}<{{ m.role }}> {{ m.content }}\n{% endfor %}"}))
        out = self.folder()
        names = {str(p.relative_to(out)) for p in out.rglob("*") if p.is_file()}
        self.assertLessEqual({"model.onnx", "model.onnx_data", "config.json", "chat_template.json", "tokenizer.json",
                              "generation_config.json", "additional_chat_templates/tool_use.jinja"}, names)
        host = ["--profile", "host"]
        want = self.ok("run", out, "-p", "<user> And God said\n", "-n", "4", "--temp", "0", *host).stdout
        self.assertTrue(want.strip())
        said = self.tenon("chat", out, "-n", "4", "--temp", "0", *host, stdin="And God said\n")
        self.assertEqual((said.returncode, said.stdout), (0, want), said.stderr)
        self.assertIn("tg2", self.ok("bench", out, "-p", "4", "-n", "2", *host).stdout)
        sys.path.insert(0, str(SOURCE / "tests" / "serve"))
        from server import Server
        s = Server(cache=self.cache, models=(out,))
        status, j = s.ask("/v1/completions", {"prompt": "<user> And God said\n", "max_tokens": 4, "temperature": 0})
        self.assertEqual((status, s.stop()), (200, 0))
        self.assertEqual(j["choices"][0]["text"].strip(), want.strip())
        text = self.tmp / "text.txt"
        text.write_text(self.texts()[0][:200])
        self.assertGreater(self.json("eval", out, "--text", text, *host)["perplexity"], 1)
        bundle = self.tmp / "bundle"
        left = self.json("bundle", out, "-o", bundle, *host)["left_out"]
        self.assertTrue((bundle / "model" / "additional_chat_templates" / "tool_use.jinja").exists())
        self.assertNotIn("additional_chat_templates", [e["what"] for e in left])

    def test_weights(self):
        """A plugin's format by its name: what is written, and names that are none."""
        onnx = self.module("onnx")
        self.model = DEMO
        if not common.has_avx2():
            self.skipTest("no AVX2")
        self.ok("quantize", DEMO, "-o", self.tmp / "named", "--round", "--weights", "w4g:32")
        self.ok("quantize", DEMO, "-o", self.tmp / "bits", "--round", "--bits", "4", "--block", "32")
        self.assertEqual(self.bytes_of(self.tmp / "named"), self.bytes_of(self.tmp / "bits"))
        m = onnx.load(self.tmp / "named" / "model.onnx", load_external_data=False)
        self.assertEqual({o.domain for o in m.opset_import} & {"com.microsoft", "ai.tenon"}, {"com.microsoft"})
        for text, code, word in (("lev9", 3, "no plugin has a weight format 'lev9'"), ("int8", 4, "does not say"),
                                 ("w4g:7", 3, "does not take the numbers"), ("w4g:x", 3, "NAME:NUMBER")):
            self.fails(code, word, args=("quantize", DEMO, "-o", self.tmp / "no", "--round", "--weights", text))
        self.fails(2, "--weights says bits", args=("quantize", DEMO, "-o", self.tmp / "no", "--round", "--weights", "lev4",
                                                   "--bits", "4"))

    def small(self, name, nodes, more=(), inputs=("input_ids",), dtype="float32", **weights):
        """A model of the demo's words: `nodes` get `x` of [batch, seq, 48] from its table, and give `logits`. Weights are
        random matrices of the dims that are given; more: initializers; inputs: names of float inputs have a third dim."""
        np, onnx = self.module("numpy"), self.module("onnx")
        h, rng, out = onnx.helper, np.random.default_rng(3), self.tmp / name
        weights = {"table": (4096, 48), **weights}
        init = [onnx.numpy_helper.from_array((rng.standard_normal(s) / np.sqrt(s[0])).astype(dtype), n) for n, s in weights.items()]
        ins = [h.make_tensor_value_info(n, 7, ["batch", "seq"]) if n.endswith("_ids") else
               h.make_tensor_value_info(n, 1, ["batch", "rows", 48]) for n in inputs]
        nodes = [h.make_node(op, i.split(), o.split(), o, **a) for op, i, o, a in nodes]
        if "input_ids" in inputs:
            nodes.insert(0, h.make_node("Gather", ["table", "input_ids"], ["x"]))
        g = h.make_graph(nodes, "g", ins, [h.make_tensor_value_info("logits", init[0].data_type, ["batch", "seq", 4096])], init + list(more))
        out.mkdir()
        onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8), out / "model.onnx")
        shutil.copy(DEMO / "tokenizer.json", out)
        return out

    def test_inputs(self):
        """Nothing but a cache is taken for an empty past. Rounding needs no inputs."""
        head = [("MatMul", "y a", "logits", {})]
        cross = [("Transpose", "{} ", "turned", {"perm": [0, 2, 1]}), ("MatMul", "x turned", "scores", {}), ("Softmax", "scores", "p", {}),
                 ("MatMul", "p {}", "y", {}), *head]
        for name, inputs, nodes in (
                ("encoder_hidden_states", ("input_ids", "encoder_hidden_states"), cross),
                ("past_key_values.0.encoder.key", ("input_ids", "past_key_values.0.encoder.key"), cross),
                ("inputs_embeds", ("inputs_embeds",), [("Tanh", "inputs_embeds", "y", {}), *head]),
                ("input_ids", ("position_ids",), [("Gather", "table position_ids", "y", {}), *head])):
            nodes = [(op, i.format(name), o, a) for op, i, o, a in nodes]
            model, out = self.small(f"of-{name}", nodes, inputs=inputs, a=(48, 4096)), self.tmp / "no"
            self.fails(4, f"'{name}'", args=("quantize", model, "-o", out, "--text", self.text(1), "--max-tokens", "16"))
            self.assertFalse(out.exists())
        self.ok("quantize", model, "-o", out, "--round")

    def test_halves(self):
        """Scales of a float16 model are halves before products after them are solved, whatever the format has."""
        if not common.has_avx2():
            self.skipTest("no AVX2")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 15, 1 << 15))

        np, N, K = self.module("numpy"), 96, 48
        model = self.small("model", [("MatMul", "x a", "y", {}), ("MatMul", "y b", "logits", {})], dtype="float16", a=(K, N), b=(N, 4096))
        line = ["quantize", model, "-o", self.tmp / "out", "--round", "--weights", "grid4:16,32,32"]
        self.assertEqual(self.tenon(*line, preexec_fn=limit).returncode, 6)  # the first product is there, the second too large
        solved = (self.tmp / "out.partial" / "00000.solved").read_bytes()
        values = np.frombuffer(solved[-2 * 4 * N * (K // 16):], np.float32) # scales and zero points
        self.assertTrue((values[:N] > 0).all())
        self.assertTrue((values == values.astype(np.float16)).all())
        self.ok(*line)

    def one_constant(self, name, second):
        """x a, then the same matrix again, as one constant or as a copy of it."""
        onnx = self.module("onnx")
        nodes = [("MatMul", "x a", "y", {}), ("Tanh", "y", "z", {}), ("MatMul", f"z {second}", "t", {}), ("MatMul", "t head", "logits", {})]
        model = self.small(name, nodes, a=(48, 48), head=(48, 4096), b=(48, 48))
        m = onnx.load(model / "model.onnx")
        init = {i.name: i for i in m.graph.initializer}
        init["b"].raw_data = init["a"].raw_data
        onnx.save(m, model / "model.onnx")
        return model

    def test_one_constant_of_two_products(self):
        """Each is solved from the model's floats: as if each had a copy. Rounded, the codes are the same, and stand there once."""
        onnx, np, solved = self.module("onnx"), self.module("numpy"), []
        models = [self.one_constant("one", "a"), self.one_constant("copies", "b")]
        for model in models:
            out = self.tmp / f"{model.name}-q"
            self.ok("quantize", model, "-o", out, "--text", self.text(1), "--max-tokens", "64", "--bits", "2")
            init = {i.name: onnx.numpy_helper.to_array(i).tobytes() for i in onnx.load(out / "model.onnx").graph.initializer}
            solved.append({n: hash(init[n]) for n in ("t_codes", "t_scales", "logits_codes")})
        self.assertEqual(*solved)
        for to, op, n in (("onnx", "MatMulNBits", 3), ("qdq", "DequantizeLinear", 2)):
            outs = [self.tmp / f"{m.name}-{to}" for m in models]
            for model, out in zip(models, outs):
                self.ok("quantize", model, "-o", out, "--round", "--bits", "4", "--block", "16", "--to", to)
            m = onnx.load(outs[0] / "model.onnx")
            self.assertEqual([x.op_type for x in m.graph.node].count(op), n)
            self.assertNotIn("t_codes", [i.name for i in m.graph.initializer])
            onnx.checker.check_model(m)
            logits = [self.logits(out, [5, 6, 7], plain=True) for out in outs]
            self.assertTrue((logits[0] == logits[1]).all())
            self.assertEqual(*[self.ok("run", out, "-p", "Once", "-n", "3", "-c", "64", "--temp", "0", "--profile", "host").stdout for out in outs])

    # --- widths by a budget

    def test_forbidden_words(self):
        """Logits of -inf in both models lose nothing; the others lose what they lose without them. Logits that are no
        numbers are an error."""
        np, onnx = self.module("numpy"), self.module("onnx")
        layers = [("MatMul", "x a", "y", {}), ("Tanh", "y", "z", {}), ("MatMul", "z b", "plain", {})]
        losses = {}
        for name, pad in (("none", 0), ("some", -np.inf), ("no-number", np.nan)):
            words = np.zeros(4096, np.float32)
            words[:16] = pad
            model = self.small(name, [*layers, ("Add", "plain pad", "logits", {})], [onnx.numpy_helper.from_array(words, "pad")],
                               a=(48, 96), b=(96, 4096))
            command = ["quantize", model, "-o", self.tmp / f"{name}-q", "--text", self.text(1), "--max-tokens", "32",
                       "--weights", "2:32z+4:32+8:32", "--bits", "5.0"]
            if name == "no-number":
                self.fails(4, "are no numbers", "logits", args=command)
                continue
            self.ok(*command)
            losses[name] = json.loads((self.tmp / f"{name}-q" / "quantize.json").read_text())
        for p, q in zip(losses["none"]["products"], losses["some"]["products"]):
            self.assertEqual(p["format"], q["format"])
            for a, b in zip(p["losses"], q["losses"]):
                self.assertGreater(a, 0)
                self.assertLess(abs(a - b), 0.1 * a)
        self.assertGreater(losses["some"]["whole"]["mix"], 0)

    def mixed(self, out, *more):
        more = (*more, *(() if "--weights" in more else ("--weights", UNIFORM)))
        return ["quantize", DEMO, "-o", out, "--text", self.text(2), "--piece", "128", "--max-tokens", "256", *more]

    def products_of(self, folder):
        """Bits, block and whether it has zero points of each MatMulNBits, by name."""
        m = self.module("onnx").load(folder / "model.onnx", load_external_data=False)
        at = {n.name: {a.name: a.i for a in n.attribute} for n in m.graph.node if n.op_type == "MatMulNBits"}
        zeros = {n.name: len(n.input) > 3 for n in m.graph.node}
        return {n: f"{a['bits']}:{a['block_size']}{'z' if zeros[n] else ''}" for n, a in at.items()}

    def test_mixed(self):
        one, two = self.tmp / "one", self.tmp / "two"
        said = self.ok(*self.mixed(one, "--bits", "3.5", "--threads", "2"))
        notes = json.loads((one / "quantize.json").read_text())
        chosen = self.products_of(one)
        self.assertEqual({p["name"]: p["format"] for p in notes["products"]}, chosen)
        self.assertEqual(len(chosen), 43)
        self.assertGreater(len(set(chosen.values())), 2)
        self.assertEqual(notes["measured"], 43)
        self.assertIn("measured: 43 of 43 products", said if isinstance(said, str) else said.stdout)
        # bits are what was asked for, scales and zero points included
        weights = bits = 0
        for p in notes["products"]:
            width, _, block = p["format"].rstrip("z").partition(":")
            blocks = -(-p["K"] // int(block))
            zeros = (blocks * int(width) + 7) // 8 * 8 if p["format"].endswith("z") else 0
            bits += p["N"] * (blocks * int(block) * int(width) + 16 * blocks + zeros)
            weights += p["N"] * p["K"]
        self.assertLessEqual(bits / weights, 3.5)
        self.assertGreater(bits / weights, 3.49)
        self.assertAlmostEqual(notes["bits"], bits / weights, 6)
        # wider formats lose less, and the product that is measured loses something
        for p in notes["products"]:
            losses = dict(zip(notes["formats"], p["losses"]))
            self.assertGreater(losses["2:32z"], losses["4:32"])
            self.assertGreater(losses["4:32"], losses["8:32"])
            self.assertGreater(losses["8:32"], 0)
        # the whole is near the sum of its products, and one format for all is not better
        whole = notes["whole"]
        self.assertGreater(whole["mix"], notes["loss"] / 3)
        self.assertLess(whole["mix"], 3 * notes["loss"])
        self.assertLess(whole["mix"], whole["alone"])
        self.assertEqual(whole["format"], "3:32")
        # killed while it measures, and while it solves; other threads
        command = [TENON, *map(str, self.mixed(two, "--bits", "3.5", "--threads", "1"))]
        work = self.tmp / "two.partial"
        for pattern in ("*.sense", "*.solved"):
            p = subprocess.Popen(command, stdout=subprocess.DEVNULL)
            end = time.time() + 300
            while p.poll() is None and len(list(work.glob(pattern))) < 4 and time.time() < end:
                time.sleep(0.01)
            p.send_signal(signal.SIGKILL)
            self.assertEqual(p.wait(), -signal.SIGKILL)
            self.assertGreaterEqual(len(list(work.glob(pattern))), 4)
        self.ok(*self.mixed(two, "--bits", "3.5", "--threads", "1"))
        self.assertEqual(self.bytes_of(one), self.bytes_of(two))
        # what runs are these weights: onnxruntime has no 3 bits, Tenon's devices agree with each other
        ids = [self.ids(one, "-p", "Once upon a time there was", "-n", "4", "--temp", "0", "--profile", p)
               for p in ("host", "cpu-avx2")]
        self.assertEqual(ids[0], ids[1])

    def test_few_products(self):
        """Fewer of them than are measured of a large model: each is."""
        self.module("onnx"), self.module("numpy")
        model, out = self.tmp / "small", self.tmp / "out"
        subprocess.run([sys.executable, SOURCE / "bench/make_llama.py", model, "--layers", "1", "--dim", "64", "--heads", "2", "--kv-heads",
                        "1", "--ffn", "128", "--vocab", "4200"], check=True, capture_output=True)
        self.ok("quantize", model, "-o", out, "--text", self.text(1), "--max-tokens", "128", "--bits", "3.5", timeout=300)
        notes = json.loads((out / "quantize.json").read_text())
        self.assertEqual((len(notes["products"]), notes["measured"]), (8, 8))

    def test_usual_formats(self):
        """A budget is of levels; for onnxruntime it is of the widths that it runs."""
        if not common.has_avx2():
            self.skipTest("no AVX2")
        for more, names in (([], ["lev1", "lev2", "lev3", "lev4", "lev4s", "8:128"]),
                            (["--to", "onnx"], ["2:32z", "2:16z", "4:128", "4:32", "4:16", "8:128", "8:32"])):
            out = self.tmp / f"usual{len(names)}"
            self.ok("quantize", DEMO, "-o", out, "--text", self.text(1), "--piece", "128", "--max-tokens", "128", "--bits", "4.2", *more)
            self.assertEqual(json.loads((out / "quantize.json").read_text())["formats"], names)
        self.assertEqual(self.logits(out, [5, 6, 7]).shape, (3, 4096))

    def test_max_mb(self):
        out = self.tmp / "out"
        self.ok(*self.mixed(out, "--max-mb", "7", "--embeddings", "none"))
        size = sum((out / n).stat().st_size for n in ("model.onnx", "model.onnx_data"))
        self.assertLessEqual(size, 7e6)
        self.assertGreater(size, 6.8e6)

    def test_padded_rows(self):
        """--max-mb holds where rows are no whole blocks, and with scales of levels: the largest budget that is not too much."""
        products = [("MatMul", f"x {w}", f"of_{w}", {}) for w in "abcd"]
        model = self.small("model", [*products, ("Sum", "of_a of_b of_c of_d", "logits", {})], **{w: (48, 4096) for w in "abcd"})
        usual = ["quantize", model, "--text", self.text(1), "--max-tokens", "16", "--embeddings", "none"]
        for weights in ("4:32+8:32", *(["lev3+lev4"] if common.has_avx2() else [])):
            said = self.tenon(*usual, "-o", self.tmp / "no", "--weights", weights, "--max-mb", "9").stderr
            self.assertIn("the most is", said)
            most = float(re.search(r"the most is ([\d.]+) MB", said).group(1)) - 0.006
            out = self.tmp / weights
            self.ok(*usual, "-o", out, "--weights", weights, "--max-mb", most)
            self.assertLessEqual(sum(f.stat().st_size for f in out.glob("model.onnx*")), most * 1e6)
        uniform = json.loads((self.tmp / "4:32+8:32" / "quantize.json").read_text())
        self.assertAlmostEqual(uniform["bits"], sum((64 * int(p["format"][0]) + 2 * 16) / 48 for p in uniform["products"]) / 4, 6)

    def test_budget_refusals(self):
        for more, code, word in ((["--bits", "2.5"], 3, "the least is 2.5"), (["--bits", "9.5"], 3, "the most is 8.5"),
                                 (["--max-mb", "2"], 3, "the least is"), (["--max-mb", "90"], 3, "the most is"),
                                 (["--bits", "3.5x"], 2, "2, 3, 4 or 8"),
                                 (["--bits", "nan"], 2, "2, 3, 4 or 8"), (["--bits", "-1.0"], 2, "2, 3, 4 or 8"),
                                 (["--bits", "3.5", "--max-mb", "7"], 2, "one of them"),
                                 (["--bits", "3.5", "--zeros"], 2, "takes no"), (["--bits", "3.5", "--block", "32"], 2, "takes no"),
                                 (["--bits", "3.5", "--weights", "lev3+none"], 3, "'none'")):
            out = self.tmp / "no"
            r = self.tenon(*self.mixed(out, *more))
            self.assertEqual(r.returncode, code, (more, r.stderr))
            self.assertIn(word, r.stderr)
            self.assertFalse(out.exists())
            self.assertFalse((self.tmp / "no.partial").exists(), more)

    def test_refusals(self):
        there = self.tmp / "there"
        there.mkdir()
        (there / "file").write_text("")
        (self.tmp / "empty").mkdir()
        bad = self.tmp / "bad.json"
        bad.write_text("{}")
        for args, code, word in ((["quantize", DEMO, "-o", self.tmp / "x"], 2, "--text FILE is needed"),
                                 (["quantize", DEMO, "--round"], 2, "-o DIR is needed"),
                                 (["quantize", DEMO, "-o", self.tmp / "x", "--round", "--bits", "5"], 2, "2, 3, 4 or 8"),
                                 (["quantize", DEMO, "-o", self.tmp / "x", "--round", "--block", "24"], 2, "16, 32, 64 or 128"),
                                 (["quantize", DEMO, "-o", there, "--round"], 3, "no empty folder"),
                                 (["quantize", DEMO, "-o", there / "file", "--round"], 3, "is no folder"),
                                 (["quantize", DEMO, "-o", f"{self.tmp}/empty/.", "--round"], 3, "by its name"),
                                 (["quantize", DEMO, "-o", self.tmp / "x", "--text", bad], 3, "list of texts"),
                                 (["quantize", self.tmp / "none", "-o", self.tmp / "x", "--round"], 3, "none")):
            r = self.tenon(*args)
            self.assertEqual(r.returncode, code, r.stderr)
            self.assertIn(word, r.stderr)
        self.assertFalse((self.tmp / "x").exists())


if __name__ == "__main__":
    common.main()
