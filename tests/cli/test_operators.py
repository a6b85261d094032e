#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Operators with many attributes against onnxruntime, sequences and optionals as inputs and outputs, and models of
TENON_TEST_DATA whose result is known. Exit 77 where Python has no numpy, onnx or onnxruntime."""
import itertools
import json
import random
import sys
import unittest

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

import common

SEED = 20241


def run_ort(model, feeds):
    o = ort.SessionOptions()
    o.log_severity_level = 4
    o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), o, providers=["CPUExecutionProvider"]).run(None, feeds)


def model_of(nodes, inputs, outputs, opset=21, init=()):
    g = helper.make_graph(nodes, "g", inputs, outputs, list(init))
    return helper.make_model(g, opset_imports=[helper.make_opsetid("", opset)], ir_version=10)


def info(name, dtype, shape=None):
    return helper.make_tensor_value_info(name, dtype, shape)


class Case(common.Case):
    def write(self, folder, model, feeds, want):
        """A folder with the model and one set of data; sequences are lists."""
        d = self.tmp / folder
        (d / "test_data_set_0").mkdir(parents=True)
        (d / "model.onnx").write_bytes(model.SerializeToString())
        for kind, names, values in (("input", model.graph.input, feeds), ("output", model.graph.output, want)):
            for i, (v, x) in enumerate(zip(names, values)):
                p = d / "test_data_set_0" / f"{kind}_{i}.pb"
                if v.type.HasField("sequence_type"):
                    p.write_bytes(numpy_helper.from_list(x, v.name).SerializeToString())
                elif v.type.HasField("optional_type"):
                    p.write_bytes(numpy_helper.from_optional(x, v.name).SerializeToString())
                else:
                    p.write_bytes(numpy_helper.from_array(np.asarray(x), v.name).SerializeToString())
        return d

    def verify(self, folder, model, feeds, want, rtol=1e-4, atol=1e-5, code=0):
        d = self.write(folder, model, feeds, want)
        r = self.tenon("verify", str(d), "--profile", "host", "--rtol", str(rtol), "--atol", str(atol))
        self.assertEqual(r.returncode, code, f"{folder} {model.graph.node[0]}\n{r.stdout}{r.stderr}")
        return r


class Sets(Case):
    def test_outputs_without_files(self):
        """What nothing was compared with is not ok, and a set that cannot fail is refused."""
        x = np.float32([1, 2])
        both = [helper.make_node("Identity", ["x"], ["y"]), helper.make_node("Neg", ["x"], ["z"])]
        m = model_of(both, [info("x", T.FLOAT, [2])], [info("y", T.FLOAT, [2]), info("z", T.FLOAT, [2])], 19)
        r = self.verify("half", m, [x], [x])
        self.assertRegex(r.stdout, r"y +ok .*\n.*z +not compared")
        self.assertIn("1 outputs were not compared", r.stderr)
        self.assertIn("nothing to compare with", self.verify("none", m, [x], [], code=3).stderr)
        d = self.write("more", m, [x], [x, -x])
        (d / "test_data_set_0/output_2.pb").write_bytes((d / "test_data_set_0/output_1.pb").read_bytes())
        r = self.tenon("verify", str(d), "--profile", "host")
        self.assertEqual((r.returncode, "an output_2.pb, the model has 2 outputs" in r.stderr), (3, True), r.stderr)


class Halves(Case):
    def test_tolerance(self):
        """Outputs of 16 bits are compared as numbers."""
        for kind, step in ((T.FLOAT16, 2.0 ** -10), (T.BFLOAT16, 2.0 ** -7)):
            dtype = helper.tensor_dtype_to_np_dtype(kind)
            x = np.array([1.0, -2.0, np.inf, 0.0]).astype(dtype)
            want = [(x.astype(np.float32) * (1 + step)).astype(dtype)]
            model = model_of([helper.make_node("Identity", ["x"], ["y"])], [info("x", kind, [4])], [info("y", kind, [4])], 19)
            self.verify(f"near{kind}", model, [x], want, rtol=2 * step)
            self.verify(f"far{kind}", model, [x], want, rtol=step / 2, atol=0, code=1)


class Recurrent(Case):
    GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
    ACTS = ["Relu", "Tanh", "Sigmoid", "Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu",
            "Softsign", "Softplus"]

    def one(self, rng, np_rng, op, direction):
        d = 2 if direction == "bidirectional" else 1
        t, b, i, h = rng.randint(1, 6), rng.randint(1, 3), rng.randint(1, 5), rng.choice([1, 3, 4])
        g = self.GATES[op]

        def f(*dims):
            return np_rng.uniform(-0.7, 0.7, dims).astype(np.float32)

        feeds = {"x": f(t, b, i), "w": f(d, g * h, i), "r": f(d, g * h, h)}
        optional = [("b", f(d, 2 * g * h)), ("lens", np_rng.integers(1, t + 1, b).astype(np.int32)), ("h0", f(d, b, h))]
        if op == "LSTM":
            optional += [("c0", f(d, b, h)), ("p", f(d, 3 * h))]
        names = ["x", "w", "r"]
        for name, v in optional:
            there = rng.random() < 0.6
            names.append(name if there else "")
            if there:
                feeds[name] = v
        attrs = {"hidden_size": h, "direction": direction}
        per = {"RNN": 1, "GRU": 2, "LSTM": 3}[op]
        if rng.random() < 0.6:
            attrs["activations"] = [rng.choice(self.ACTS) for _ in range(d * per)]
            takes = [a for a in attrs["activations"] if a in ("Affine", "LeakyRelu", "ThresholdedRelu", "ScaledTanh", "HardSigmoid", "Elu")]
            both = [a for a in attrs["activations"] if a in ("Affine", "ScaledTanh", "HardSigmoid")]
            if takes:
                attrs["activation_alpha"] = [round(rng.uniform(0.2, 0.9), 3) for _ in takes]
            if both:
                attrs["activation_beta"] = [round(rng.uniform(0.2, 0.9), 3) for _ in both]
        if op == "GRU":
            attrs["linear_before_reset"] = rng.randint(0, 1)
        if op == "LSTM" and rng.random() < 0.3:  # with clip, onnxruntime bounds more than ONNX says
            attrs["input_forget"] = 1
        elif rng.random() < 0.3:
            attrs["clip"] = 0.3
        outs = ["y", "yh"] + (["yc"] if op == "LSTM" else [])
        node = helper.make_node(op, names, outs, **attrs)
        return model_of([node], [info(k, T.INT32 if k == "lens" else T.FLOAT, v.shape) for k, v in feeds.items()],
                        [info(o, T.FLOAT) for o in outs], 14), feeds

    def test_random(self):
        rng, np_rng = random.Random(SEED), np.random.default_rng(SEED)
        cases = itertools.product(self.GATES, ["forward", "reverse", "bidirectional"], range(4))
        for k, (op, direction, _) in enumerate(cases):
            model, feeds = self.one(rng, np_rng, op, direction)
            self.verify(f"r{k}", model, list(feeds.values()), run_ort(model, feeds))

    def test_layout(self):
        """layout 1 is layout 0 with the batch first."""
        np_rng = np.random.default_rng(SEED)
        t, b, i, h, d = 4, 3, 2, 5, 2
        for op, g in self.GATES.items():
            x, w, r = (np_rng.uniform(-1, 1, s).astype(np.float32) for s in ((t, b, i), (d, g * h, i), (d, g * h, h)))
            h0 = np_rng.uniform(-1, 1, (d, b, h)).astype(np.float32)
            ins = [info("x", T.FLOAT, ["t", "b", i]), info("w", T.FLOAT, w.shape), info("r", T.FLOAT, r.shape),
                   info("h", T.FLOAT, [None] * 3)]
            outs = [info("y", T.FLOAT), info("yh", T.FLOAT)]
            names = (["x", "w", "r", "", "", "h"], ["y", "yh"])
            attrs = {"hidden_size": h, "direction": "bidirectional"}
            plain = model_of([helper.make_node(op, *names, **attrs)], ins, outs, 14)
            y, yh = run_ort(plain, {"x": x, "w": w, "r": r, "h": h0})
            swapped = model_of([helper.make_node(op, *names, layout=1, **attrs)], ins, outs, 14)
            self.verify(op, swapped, [x.transpose(1, 0, 2), w, r, h0.transpose(1, 0, 2)],
                        [y.transpose(2, 0, 1, 3), yh.transpose(1, 0, 2)])

    def test_constant(self):
        """Weights that are there before the run, both or one of them, give the bits of weights that are inputs."""
        np_rng = np.random.default_rng(SEED)
        t, b, i, h, d = 5, 2, 7, 300, 2  # more than a piece of 256
        nodes, feeds, weights, outs = [], {}, {}, []
        for dtype, (op, g) in itertools.product((np.float32, np.float16, np.float64), self.GATES.items()):
            tag = f"{op}{np.dtype(dtype).itemsize}"
            feeds["x" + tag] = np_rng.uniform(-1, 1, (t, b, i)).astype(dtype)
            weights["w" + tag] = np_rng.uniform(-0.1, 0.1, (d, g * h, i)).astype(dtype)
            weights["r" + tag] = np_rng.uniform(-0.1, 0.1, (d, g * h, h)).astype(dtype)
            nodes.append(helper.make_node(op, ["x" + tag, "w" + tag, "r" + tag], ["y" + tag], hidden_size=h,
                                          direction="bidirectional"))
            outs.append(info("y" + tag, helper.np_dtype_to_tensor_dtype(np.dtype(dtype))))
        for name, v in (feeds | weights).items():
            np.save(self.tmp / f"{name}.npy", v)
        got = {}
        for label, constant in (("none", ""), ("both", "wr"), ("one", "r")):
            inputs = {k: v for k, v in (feeds | weights).items() if k[0] == "x" or k[0] not in constant}
            init = [numpy_helper.from_array(v, k) for k, v in weights.items() if k not in inputs]
            model = model_of(nodes, [info(k, helper.np_dtype_to_tensor_dtype(v.dtype), v.shape) for k, v in inputs.items()],
                             outs, 22, init)
            onnx.save(model, self.tmp / f"{label}.onnx")
            args = [a for k in inputs for a in ("--in", f"{k}={self.tmp}/{k}.npy")]
            self.ok("infer", str(self.tmp / f"{label}.onnx"), *args, "--out", str(self.tmp / label), "--profile", "host")
            got[label] = [np.load(self.tmp / label / f"{o.name}.npy").tobytes() for o in outs]
        self.assertTrue(got["both"] == got["none"], "both weights constant: other bits")
        self.assertTrue(got["one"] == got["none"], "one weight constant: other bits")

    def test_refused(self):
        np_rng = np.random.default_rng(SEED)
        x, w, r = (np_rng.uniform(-1, 1, s).astype(np.float32) for s in ((2, 1, 3), (1, 4, 3), (1, 4, 4)))
        lens = np.array([3], np.int32)
        ins = [info("x", T.FLOAT, x.shape), info("w", T.FLOAT, w.shape), info("r", T.FLOAT, r.shape)]
        for k, (attrs, more, text) in enumerate([
                ({"direction": "sideways"}, [], "attribute 'direction' is 'sideways'"),
                ({"activations": ["Sine"]}, [], "attribute 'activations' is 'Sine'"),
                ({"hidden_size": 3}, [], "hidden_size is 3"), ({}, [lens], "sequence_lens has 3")]):
            node = helper.make_node("RNN", ["x", "w", "r"] + (["", "lens"] if more else []), ["y"], **attrs)
            m = model_of([node], ins + ([info("lens", T.INT32, [1])] if more else []), [info("y", T.FLOAT)], 14)
            d = self.write(f"bad{k}", m, [x, w, r] + more, [x])
            run = self.tenon("verify", str(d), "--profile", "host")
            self.assertNotIn(run.returncode, (0, 1), run.stdout)
            self.assertGreater(run.returncode, 0)
            self.assertIn(text, run.stderr)


class Quantized(Case):
    def test_round_trip(self):
        """Every form of scale and every integer type, bit by bit."""
        rng = np.random.default_rng(SEED)
        x = np.round(rng.uniform(-9, 9, (3, 5, 4)), 2).astype(np.float32)
        x[0, 0, :] = [0.5, 1.5, 2.5, -2.5]  # ties
        forms = [((), {}), ((5,), {"axis": 1}), ((4,), {"axis": -1}), ((3, 3, 4), {"axis": 1, "block_size": 2})]
        for k, ((shape, attrs), (dtype, onnx_type)) in enumerate(itertools.product(forms, [
                (np.uint8, T.UINT8), (np.int8, T.INT8), (np.uint16, T.UINT16), (np.int16, T.INT16), (None, T.INT4), (None, T.UINT4)])):
            scale = np.asarray(rng.uniform(0.1, 1, shape)).astype(np.float32)
            if shape == ():
                scale = np.float32(1)
            zero = rng.integers(0, 5, shape)
            zero = (numpy_helper.from_array(np.asarray(zero, dtype), "z") if dtype else
                    helper.make_tensor("z", onnx_type, shape, np.atleast_1d(zero).flatten().tolist()))
            nodes = [helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"], **attrs),
                     helper.make_node("DequantizeLinear", ["q", "s", "z"], ["y"], **attrs)]
            m = model_of(nodes, [info("x", T.FLOAT, x.shape)], [info("y", T.FLOAT)], 21,
                         [numpy_helper.from_array(np.asarray(scale), "s"), zero])
            self.verify(f"q{k}", m, [x], run_ort(m, {"x": x}), 0, 0)

    def test_products(self):
        """Sums are exact: of 4,000 terms of up to 255 * 255."""
        rng = np.random.default_rng(SEED)
        a, b = rng.integers(0, 256, (3, 4000)).astype(np.uint8), rng.integers(-128, 128, (4000, 6)).astype(np.int8)
        za, zb = np.uint8(17), np.int8(-5)
        m = model_of([helper.make_node("MatMulInteger", ["a", "b", "za", "zb"], ["y"])],
                     [info("a", T.UINT8, a.shape), info("b", T.INT8, b.shape)], [info("y", T.INT32)], 21,
                     [numpy_helper.from_array(np.asarray(za), "za"), numpy_helper.from_array(np.asarray(zb), "zb")])
        self.verify("mm", m, [a, b], [(a.astype(np.int32) - 17) @ (b.astype(np.int32) + 5)], 0, 0)

    def test_convolution(self):
        rng = np.random.default_rng(SEED)
        for k, attrs in enumerate([{"pads": [1, 1, 1, 1], "strides": [2, 1]}, {"group": 2, "dilations": [1, 2]},
                                   {"auto_pad": "SAME_LOWER"}]):
            x = rng.integers(0, 256, (2, 4, 7, 6)).astype(np.uint8)
            w = rng.integers(-128, 128, (6, 4 // attrs.get("group", 1), 3, 2)).astype(np.int8)
            c = {"xs": np.float32(0.03), "xz": np.uint8(120), "w": w, "ws": rng.uniform(0.01, 0.05, 6).astype(np.float32),
                 "wz": np.zeros(6, np.int8), "ys": np.float32(0.31), "yz": np.uint8(99), "b": rng.integers(-900, 900, 6).astype(np.int32)}
            m = model_of([helper.make_node("QLinearConv", ["x", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b"], ["y"], **attrs)],
                         [info("x", T.UINT8, x.shape)], [info("y", T.UINT8)], 10,
                         [numpy_helper.from_array(np.asarray(v), n) for n, v in c.items()])
            # ONNX's own evaluator: products of bytes saturate in some of onnxruntime's kernels.
            self.verify(f"c{k}", m, [x], ReferenceEvaluator(m).run(None, {"x": x}), 0, 0)


class Sequences(Case):
    SEQ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(T.FLOAT, [None, 2]))

    def model(self):
        """Appends the sum of x's rows to s three times in a Loop; also x split, joined, and the length."""
        it = [info("i", T.INT64, []), info("c", T.BOOL, []), helper.make_value_info("acc", self.SEQ)]
        body = helper.make_graph(
            [helper.make_node("Identity", ["c"], ["c2"]), helper.make_node("SequenceInsert", ["acc", "x"], ["acc2"])], "body", it,
            [info("c2", T.BOOL, []), helper.make_value_info("acc2", self.SEQ)])
        nodes = [helper.make_node("Loop", ["n", "", "s"], ["all"], body=body), helper.make_node("SequenceLength", ["all"], ["len"]),
                 helper.make_node("ConcatFromSequence", ["all"], ["joined"], axis=0),
                 helper.make_node("SplitToSequence", ["joined", "two"], ["parts"], axis=0)]
        return model_of(nodes, [helper.make_value_info("s", self.SEQ), info("x", T.FLOAT, ["k", 2]), info("n", T.INT64, [])],
                        [helper.make_value_info("all", self.SEQ), info("len", T.INT64, []), info("joined", T.FLOAT),
                         helper.make_value_info("parts", self.SEQ)], 17, [numpy_helper.from_array(np.int64(2), "two")])

    def test_through_the_whole(self):
        x = np.arange(6, dtype=np.float32).reshape(3, 2)
        s = [np.full((2, 2), 9, np.float32), np.zeros((0, 2), np.float32)]
        joined = np.concatenate(s + [x] * 3)
        m = self.model()
        self.verify("loop", m, [s, x, np.int64(3)], [s + [x] * 3, np.int64(5), joined, [joined[i:i + 2] for i in range(0, 11, 2)]], 0, 0)
        # What was expected is looked at: one element more, another value.
        self.verify("more", m, [s, x, np.int64(3)], [s + [x] * 4, np.int64(5), joined, [joined]], 0, 0, code=1)
        self.verify("other", m, [s, x, np.int64(3)], [s + [x] * 2 + [x + 1], np.int64(5), joined, [joined]], 0, 0, code=1)

    def test_bad_input(self):
        x = np.ones((3, 2), np.float32)
        m = self.model()
        for k, (s, text) in enumerate([([x.astype(np.float64)], "is float64"), ([x[0]], "rank 1")]):
            d = self.write(f"bad{k}", m, [s, x, np.int64(1)], [[x], np.int64(1), x, [x]])
            r = self.tenon("verify", str(d), "--profile", "host")
            self.assertEqual(r.returncode, 3, r.stderr)
            self.assertIn(text, r.stderr)

    def test_broken_files(self):
        """A sequence's bytes cut or turned: a message and a code, or a value that differs; never a crash."""
        x = np.ones((3, 2), np.float32)
        d = self.write("cut", self.model(), [[x, x], x, np.int64(1)], [[x] * 3, np.int64(3), np.ones((9, 2), np.float32), [x]])
        f = d / "test_data_set_0" / "input_0.pb"
        whole = f.read_bytes()
        rng = random.Random(SEED)
        for k in range(24):
            data = bytearray(whole)
            if k % 2:
                data = data[:rng.randrange(len(data))]
            else:
                data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
            f.write_bytes(data)
            self.assertIn(self.tenon("verify", str(d), "--profile", "host").returncode, (0, 1, 3, 4, 6), k)

    def test_optional(self):
        opt = helper.make_optional_type_proto(helper.make_tensor_type_proto(T.FLOAT, [None]))
        out = [info("y", T.FLOAT, None)]
        then = helper.make_graph([helper.make_node("OptionalGetElement", ["o"], ["t"])], "then", [], [info("t", T.FLOAT, [None])])
        seven = helper.make_node("Constant", [], ["e"], value=numpy_helper.from_array(np.float32([7]), "v"))
        other = helper.make_graph([seven], "else", [], [info("e", T.FLOAT, [None])])
        m = model_of([helper.make_node("OptionalHasElement", ["o"], ["has"]),
                      helper.make_node("If", ["has"], ["y"], then_branch=then, else_branch=other)],
                     [helper.make_value_info("o", opt)], out, 18)
        x = np.float32([1, 2, 3])
        self.verify("full", m, [x], [x], 0, 0)
        self.verify("empty", m, [None], [np.float32([7])], 0, 0)

    def test_scan_8(self):
        """Batches, a direction each, two carried values and two scanned ones: as NumPy does it."""
        b = [info(n, T.FLOAT, [2]) for n in ("s", "p", "u", "v")]
        body = helper.make_graph([helper.make_node("Add", ["s", "u"], ["s2"]), helper.make_node("Mul", ["p", "v"], ["p2"]),
                                  helper.make_node("Sub", ["s2", "p2"], ["z"])], "body", b,
                                 [info(n, T.FLOAT, [2]) for n in ("s2", "p2", "z")])
        rng = np.random.default_rng(SEED)
        s, p = (rng.uniform(-1, 1, (3, 2)).astype(np.float32) for _ in range(2))
        u, v = (rng.uniform(-1, 1, (3, 5, 2)).astype(np.float32) for _ in range(2))
        m = model_of([helper.make_node("Scan", ["", "s0", "p0", "us", "vs"], ["s1", "p1", "zs"], body=body, num_scan_inputs=2,
                                       directions=[0, 1])],
                     [info(n, T.FLOAT, a.shape) for n, a in (("s0", s), ("p0", p), ("us", u), ("vs", v))],
                     [info(n, T.FLOAT) for n in ("s1", "p1", "zs")], 8)
        zs, s1, p1 = np.zeros_like(u), s.copy(), p.copy()
        for t in range(5):
            s1, p1 = s1 + u[:, t], p1 * v[:, 4 - t]
            zs[:, t] = s1 - p1
        self.verify("scan8", m, [s, p, u, v], [s1, p1, zs], 1e-6, 1e-6)


class Models(Case):
    def data(self, *names):
        p = common.DATA.joinpath("onnx", *names)
        if not p.exists():
            self.skipTest(f"{p} is not there")
        return p

    def test_tashkeel(self):
        """Diacritics for two sentences: the text that the model's authors print."""
        d = self.data("tashkeel")
        golden, arrays = json.loads((d / "golden.json").read_text()), np.load(d / "golden.npz")
        marks = {v: k for k, v in json.loads((d / "target_id_map.json").read_text()).items()}
        marks[0] = ""
        for k, g in enumerate(golden):
            ids = arrays[f"in{k}"]
            for name, v in (("ids", ids), ("len", np.array([ids.shape[1]], np.int64))):
                np.save(self.tmp / f"{name}.npy", v)
            out = self.tmp / f"out{k}"
            self.ok("infer", str(d / "model_fp32.onnx"), "--in", f"char_inputs={self.tmp}/ids.npy", "--in",
                    f"input_lengths={self.tmp}/len.npy", "--out", str(out), "--profile", "host")
            logits = np.load(out / "onnx::ArgMax_2259.npy")
            np.testing.assert_allclose(logits, arrays[f"logits{k}"], rtol=1e-3, atol=1e-3)
            text = "".join(c + marks[int(m)] for c, m in zip(g["text"], np.load(out / "output.npy")[0]))
            self.assertEqual(text, g["result"])

    def test_encoders(self):
        """BERT, DistilBERT and T5 encoders and a Keras transformer as onnxruntime computes them: one sequence, and two of which one is padded."""
        names = ("optimum-bert", "optimum-distilbert", "optimum-t5-encoder", "tf2onnx-transformer")
        for name, (batch, tokens) in itertools.product(names, ((1, 7), (2, 7), (2, 12))):
            m = onnx.load(self.data("../exports", name, "model.onnx"))
            fixed = m.graph.input[0].type.tensor_type.shape.dim[1].dim_value
            if fixed and fixed != tokens:
                continue
            rng, feeds = np.random.default_rng(SEED + batch), {}
            for x in m.graph.input:
                values = rng.integers(1, 20, (batch, tokens)) if x.name in ("input_ids", "input_3") else np.ones((batch, tokens))
                if x.name == "attention_mask":
                    values[batch - 1, tokens - 3:] = batch == 1
                if x.name == "token_type_ids":
                    values[:, :tokens // 2] = 0
                feeds[x.name] = values.astype(helper.tensor_dtype_to_np_dtype(x.type.tensor_type.elem_type))
            with self.subTest(model=name, batch=batch, tokens=tokens):
                self.verify(f"{name}-{batch}-{tokens}", m, list(feeds.values()), run_ort(m, feeds), 1e-3, 1e-4)

    def test_resnet_qdq(self):
        """What onnxruntime gave when it quantized the model; floats between the quantizations within two of their steps."""
        d = self.data("../exports", "ort-resnet-qdq")
        m = onnx.load(d / "model.onnx")
        scale = next(n for n in m.graph.node if m.graph.output[0].name in n.output).input[1]
        step = float(numpy_helper.to_array(next(i for i in m.graph.initializer if i.name == scale)))
        self.ok("verify", str(d / "model.onnx"), "--data", str(d), "--rtol", "0", "--atol", str(2.01 * step), "--profile", "host")
        x = np.random.default_rng(SEED).standard_normal((4, 3, 32, 32)).astype(np.float32)
        np.save(self.tmp / "x.npy", x)
        self.ok("infer", str(d / "model.onnx"), "--in", f"{m.graph.input[0].name}={self.tmp}/x.npy", "--out",
                str(self.tmp / "o"), "--profile", "host")
        got, want = np.load(self.tmp / "o" / f"{m.graph.output[0].name}.npy"), run_ort(m, {m.graph.input[0].name: x})[0]
        self.assertGreater(np.abs(want).max(), 4 * step)
        self.assertLessEqual(np.abs(got - want).max(), 2.01 * step)


if __name__ == "__main__":
    unittest.main()
