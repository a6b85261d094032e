# SPDX-License-Identifier: Apache-2.0
"""Weights that a model brings quantized keep their grid: tenon pack --report says rms 0, and numbers are the graph's.

TENON_ARCH: as which plugin: unset, cpu-avx2-lut; aarch64, cpu-neon-lut; x86_64, the same as an offline device, which
packs but runs nothing.
"""
import os
import pathlib
import subprocess
import sys
import time
import unittest

import common

MAKE_LLAMA = pathlib.Path(__file__).resolve().parents[2] / "bench" / "make_llama.py"
ARCH = os.environ.get("TENON_ARCH")
PLUGIN = "cpu-neon-lut" if ARCH else "cpu-avx2-lut"
PROFILE = "cpu-neon" if ARCH else "cpu-avx2"
# Formats for floats that hold a grid of the same bits, in groups of 128.
PLAIN = {4: "w4g", 8: "w8g", 3: "w3g", 2: "w2g"}
RACY_S = 2.2  # a file changed so recently is always read again
ISAS = ["neon", "dotprod", "i8mm"] if ARCH else ["auto"]


class OfPlugin(common.Case):
    def setUp(self):
        super().setUp()
        if not ARCH and not common.has_avx2():
            self.skipTest("no AVX2")
        self.onnx, self.np = self.module("onnx"), self.module("numpy")
        self.rng = self.np.random.default_rng(11)

    def tenon(self, *args, env=None, **kw):
        e = {"TENON_PLUGIN_PATH": str(common.BUILD / "plugins" / PLUGIN)}
        if common.EMULATOR:
            e["TENON_PROBE"] = "inprocess"
        return super().tenon(*args, env={**e, **(env or {})}, **kw)


class Grids(OfPlugin):
    """Models of one or two products; codes, scales and zero points at random, fixed seeds."""
    K, N = 320, 96

    def save(self, nodes, inits, inputs, opset=21, outputs=("y",)):
        h = self.onnx.helper
        g = h.make_graph(nodes, "g", [h.make_tensor_value_info(n, t, d) for n, t, d in inputs],
                         [h.make_tensor_value_info(o, 1, None) for o in outputs], inits)
        path = self.tmp / "m.onnx"
        self.onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)],
                                    ir_version=10), path)
        return path

    def tensor(self, a, name, dtype=None):
        if dtype is None:
            return self.onnx.numpy_helper.from_array(a, name)
        return self.onnx.helper.make_tensor(name, dtype, a.shape, a.tobytes() if a.dtype.itemsize == 1 and dtype in (2, 3)
                                            else a.flatten(), raw=dtype in (2, 3))

    def scales(self, shape, exact):
        s = (self.rng.integers(1, 1000, shape) * 2.0**-14).astype(self.np.float32)
        return s if exact else (s * self.np.float32(1.0001)).astype(self.np.float32)

    def nbits(self, bits, block, zeros=None, exact=True, K=None):
        """MatMulNBits: y = x * W. zeros: None, 'codes' or 'values'."""
        np, K = self.np, K or self.K
        blocks = -(-K // block)
        codes = self.rng.integers(0, 256, (self.N, blocks, block * bits // 8)).astype(np.uint8)
        inits = [self.tensor(codes, "w"), self.tensor(self.scales((self.N * blocks,), exact), "s")]
        ins = ["x", "w", "s"]
        if zeros == "codes":
            inits.append(self.tensor(self.rng.integers(0, 256, (self.N * (-(-blocks * bits // 8)),)).astype(np.uint8), "z"))
            ins.append("z")
        if zeros == "values":
            inits.append(self.tensor(self.rng.uniform(0, 2**bits - 1, (self.N * blocks,)).astype(np.float32), "z"))
            ins.append("z")
        node = self.onnx.helper.make_node("MatMulNBits", ins, ["y"], "p", domain="com.microsoft", K=K, N=self.N, bits=bits,
                                          block_size=block)
        return self.save([node], inits, [("x", 1, ["m", K])])

    def codes_of(self, packed, bits, n):
        """The first n codes of each row of bytes: from the low bits up, those of 3 bits run on in the next byte."""
        np = self.np
        rows = np.unpackbits(packed.reshape(packed.shape[0], -1), axis=1, bitorder="little")[:, :n * bits]
        return (rows.reshape(len(rows), n, bits) << np.arange(bits)).sum(axis=2).astype(np.float32)

    def floats_of(self, path, bits, block):
        """[N, K] of a MatMulNBits with codes as zero points, as the operator is defined."""
        t = {i.name: self.onnx.numpy_helper.to_array(i) for i in self.onnx.load(path).graph.initializer}
        blocks = self.K // block
        c = self.codes_of(t["w"], bits, self.K).reshape(self.N, blocks, block)
        z = self.codes_of(t["z"].reshape(self.N, -1), bits, blocks)
        return ((c - z[:, :, None]) * t["s"].reshape(self.N, blocks, 1)).reshape(self.N, self.K)

    def qdq(self, dtype, axis, block=0, zeros=True):
        """MatMul with DequantizeLinear of a constant [K, N]: per column, or blocks along K."""
        np, h = self.np, self.onnx.helper
        low, high = {2: (0, 256), 3: (-128, 128), 21: (0, 16), 22: (-8, 8)}[dtype]
        raw = {2: np.uint8, 3: np.int8}.get(dtype, np.int32)
        w = self.rng.integers(low, high, (self.K, self.N)).astype(raw)
        shape = (self.K // block, self.N) if block else (self.N,)
        inits = [self.tensor(w, "w", dtype), self.tensor(self.scales(shape, False), "s")]
        ins = ["w", "s"]
        if zeros:
            inits.append(self.tensor(self.rng.integers(low, high, shape).astype(raw), "z", dtype))
            ins.append("z")
        more = {"block_size": block} if block else {}
        return self.save([h.make_node("DequantizeLinear", ins, ["d"], "dq", axis=axis, **more),
                          h.make_node("MatMul", ["x", "d"], ["y"], "p")], inits, [("x", 1, ["m", self.K])])

    def embedding(self, bits, block):
        """GatherBlockQuantized whose table is the head's too."""
        np, h = self.np, self.onnx.helper
        V, K = 160, 64
        table = self.rng.integers(0, 256, (V, K * bits // 8)).astype(np.uint8)
        s = self.scales((V, K // block), True)
        z = self.rng.integers(0, 256, (V, -(-(K // block) * bits // 8))).astype(np.uint8)
        inits = [self.tensor(table, "t"), self.tensor(s, "s"), self.tensor(z, "z"),
                 self.tensor(table.reshape(V, K // block, block * bits // 8), "h"), self.tensor(s.flatten(), "hs"),
                 self.tensor(z.flatten(), "hz")]
        return self.save(
            [h.make_node("GatherBlockQuantized", ["t", "ids", "s", "z"], ["x"], "e", domain="com.microsoft", bits=bits,
                         block_size=block, gather_axis=0, quantize_axis=1),
             h.make_node("MatMulNBits", ["x", "h", "hs", "hz"], ["y"], "p", domain="com.microsoft", K=K, N=V, bits=bits,
                         block_size=block)], inits, [("ids", 7, [1, "m"])])

    def kept(self, path, want):
        """rms 0 of every matrix, in this format, and the task's numbers against the format's own."""
        j = self.json("pack", path, "--report", "--profile", PROFILE)
        self.assertEqual(len(j["tensors"]), 1)
        t = j["tensors"][0]
        self.assertEqual((t["format"], t["params"]), want)
        self.assertEqual((t["rms"], t["max_of_group"]), (0, 0))
        self.assertEqual(t["scales"], "float16" if want[1][1:2] in ([], [16]) else "float32")
        return t

    def test_blocks(self):
        """Asymmetric codes and scales of every block: whole rows where no block divides them."""
        for bits in 2, 4, 8:
            for block in 16, 32, 64, 128, 256:
                for exact in True, False:
                    with self.subTest(bits=bits, block=block, exact=exact):
                        t = self.kept(self.nbits(bits, block, "codes", exact),
                                      (f"grid{bits}", [min(block, 128), 16 if exact else 32, 8]))
                        self.assertEqual(t["source"], {"bits": bits, "group": block, "zeros": "codes",
                                                       "scales": "float16" if exact else "float32"})

    def test_symmetric(self):
        """Scales that binary16 holds stay in the plain formats, others get f32."""
        plain = lambda bits: (PLAIN[bits], []) if bits in PLAIN else (f"grid{bits}", [128, 16, 0])
        for bits, block, exact, want in ((4, 32, True, ("w4g", [32])), (4, 64, True, ("w4g", [32])),
                                         (4, 128, True, ("w4g", [128])), (4, 16, True, ("grid4", [16, 16, 0])),
                                         (4, 32, False, ("grid4", [32, 32, 0])), (8, 128, True, plain(8)),
                                         (8, 32, True, ("grid8", [32, 16, 0])), (2, 128, True, plain(2)),
                                         (2, 64, True, ("grid2", [64, 16, 0])), (3, 128, True, plain(3)),
                                         (3, 32, True, ("w4g", [32])), (3, 16, True, ("grid4", [16, 16, 0]))):
            with self.subTest(bits=bits, block=block, exact=exact):
                self.kept(self.nbits(bits, block, None, exact), want)

    def test_float_zeros(self):
        for bits in 2, 4, 8:
            self.kept(self.nbits(bits, 32, "values", False), (f"grid{bits}", [32, 32, 32]))

    def test_all_bits(self):
        """2 to 8 bits: the floats that the definition gives, exactly, and codes of 3 in 4 bits, of 5 to 7 in 8."""
        np = self.np
        np.save(self.tmp / "x.npy", np.eye(self.K, dtype=np.float32))
        for bits in 2, 3, 4, 5, 6, 7, 8:
            for block in 16, 64:
                with self.subTest(bits=bits, block=block):
                    path = self.nbits(bits, block, "codes", False)
                    self.kept(path, (f"grid{2 if bits == 2 else 4 if bits < 5 else 8}", [block, 32, 8]))
                    self.ok("infer", path, "--in", f"x={self.tmp / 'x.npy'}", "--out", self.tmp / "out", "--profile", "host")
                    y = np.load(next((self.tmp / "out").glob("*.npy")))
                    self.assertTrue((y.T == self.floats_of(path, bits, block)).all())
        self.kept(self.nbits(3, 32), ("w4g", [32]))

    def test_qdq(self):
        for dtype, bits in ((2, 8), (3, 8), (21, 4), (22, 4)):
            for block in 0, 32:
                for zeros in True, False:
                    with self.subTest(dtype=dtype, block=block, zeros=zeros):
                        signed = dtype in (3, 22)
                        zero = 8 if zeros or not signed else 0
                        self.kept(self.qdq(dtype, 0 if block else 1, block, zeros), (f"grid{bits}", [block or 128, 32, zero]))

    def levels_of(self, path):
        """[K, N] of a MatMulLevels, as the operator is defined."""
        np, model = self.np, self.onnx.load(path)
        node = model.graph.node[0]
        self.assertEqual((node.op_type, node.domain), ("MatMulLevels", "ai.tenon"))
        t = {i.name: self.onnx.numpy_helper.to_array(i, str(path.parent)) for i in model.graph.initializer}
        codes, parents, levels, steps, index = (t[i] for i in node.input[1:])
        at = {a.name: a.i for a in node.attribute}
        vec = levels.shape[1]
        own = self.codes_of(codes, at["bits"], -(-at["K"] // vec)).astype(int)
        scale = parents[:, None] * steps[self.codes_of(index, 4, -(-at["K"] // at["block_size"])).astype(int)]
        w = levels[own].reshape(at["N"], -1)[:, :at["K"]]
        return (w * np.repeat(scale, at["block_size"], axis=1)[:, :at["K"]]).T

    def test_levels(self):
        """What `quantize --weights` wrote: kept bit for bit by the plugin, and on the host what the definition says."""
        np = self.np
        w = self.tensor(self.rng.standard_normal((self.K, self.N)).astype(np.float32), "w")
        made = self.save([self.onnx.helper.make_node("MatMul", ["x", "w"], ["y"], "p")], [w], [("x", 1, ["m", self.K])])
        np.save(self.tmp / "x.npy", np.eye(self.K, dtype=np.float32))
        for name in "lev4", "lev4s", "lev3", "lev2", "lev1":
            with self.subTest(format=name):
                self.ok("quantize", made, "-o", self.tmp / name, "--round", "--weights", name, "--profile", PROFILE)
                path = self.tmp / name / "model.onnx"
                t = self.json("pack", path, "--report", "--profile", PROFILE)["tensors"]
                self.assertEqual([(i["format"], i["rms"], i["max_of_group"], i["source"]["zeros"]) for i in t],
                                 [(name, 0, 0, "none")])
                self.ok("infer", path, "--in", f"x={self.tmp / 'x.npy'}", "--out", self.tmp / name, "--profile", "host")
                y = np.load(next((self.tmp / name).glob("*.npy")))
                self.assertTrue((y == self.levels_of(path)).all())
                self.ok("check", path, "--exact", "--profile", PROFILE)
        r = self.fails(4, "--exact: this profile rounds", args=("check", path, "--exact", "--profile", self.order()))
        self.assertIn("rounded again from", r.stderr)

    def test_embedding(self):
        for bits, block in ((4, 32), (8, 16)):
            self.kept(self.embedding(bits, block), (f"grid{bits}", [block, 16, 8]))

    @unittest.skipIf(ARCH == "x86_64", "an offline device")
    def test_numbers(self):
        """One row and many against the format reference."""
        profiles = [self.profile("plugins:\n  - name: %s\n    options: {isa: %s}\n  - host\nrequire: [%s]\n" %
                                 (PLUGIN, isa, PLUGIN), isa + ".yaml") for isa in ISAS]
        for make in (lambda: self.nbits(4, 32, "codes", False), lambda: self.nbits(8, 16, "codes"),
                     lambda: self.nbits(4, 64, "values", False)):
            path = make()
            for i, m in enumerate((1, 37)):
                folder = self.tmp / "data" / f"test_data_set_{i}"
                folder.mkdir(parents=True, exist_ok=True)
                x = self.rng.standard_normal((m, self.K)).astype(self.np.float32)
                (folder / "input_0.pb").write_bytes(self.tensor(x, "x").SerializeToString())
            for p in profiles:
                self.ok("verify", path, "--data", self.tmp / "data", "--against", "reference", "--profile", p)

    def test_an_order_is_an_order(self):
        """A format that the profile names takes grids too: rounded again."""
        path = self.nbits(4, 32, "codes", False)
        p = self.profile("plugins:\n  - name: " + PLUGIN + "\n    options: {format: w4g}\n  - host\n")
        t = self.json("pack", path, "--report", "--profile", p)["tensors"][0]
        self.assertEqual((t["format"], t["params"]), ("w4g", [32]))
        self.assertGreater(t["rms"], 0.01)

    def order(self):
        return self.profile("plugins:\n  - name: " + PLUGIN + "\n    options: {format: w4g}\n  - host\n")

    def in_two_files(self, path):
        """The codes in a file of their own, scales and zeros in the model's."""
        model = self.onnx.load(path)
        for t in model.graph.initializer:
            if t.name == "w":
                self.onnx.external_data_helper.set_external_data(t, "codes.bin")
                (path.parent / "codes.bin").write_bytes(t.raw_data)
                t.ClearField("raw_data")
        path.write_bytes(model.SerializeToString())

    @unittest.skipIf(ARCH == "x86_64", "an offline device")
    def test_known_without_being_read(self):
        """The second start reads no weights. Codes, scales, zeros that change, with size and time kept, are seen, wherever they lie."""
        def read():
            return self.json("pack", path, "--profile", PROFILE)["devices"][0]["read"]

        def ones(name):  # as many elements as this test changes
            return {i.name: i for i in self.onnx.load(path).graph.initializer}[name].raw_data[:16]

        def change(file, old, new):
            st, data = os.stat(file), file.read_bytes()
            self.assertEqual(data.count(old), 1)
            with open(file, "r+b") as f:
                f.write(data.replace(old, new))
            os.utime(file, ns=(st.st_atime_ns, st.st_mtime_ns))
            time.sleep(RACY_S)

        path = self.nbits(4, 32, "codes")
        scales, zeros = ones("s"), ones("z")
        self.in_two_files(path)
        time.sleep(RACY_S)
        x = self.rng.standard_normal((1, self.K)).astype(self.np.float32)
        self.np.save(self.tmp / "x.npy", x)

        def y():
            self.ok("infer", path, "--in", f"x={self.tmp / 'x.npy'}", "--out", self.tmp / "out", "--profile", PROFILE)
            return self.np.load(self.tmp / "out" / "y.npy").tobytes()

        self.assertEqual((read(), read()), (1, 0))
        said = [y()]
        codes = path.parent / "codes.bin"
        for file, old in (path, scales), (path, zeros), (codes, codes.read_bytes()[:16]):
            change(file, old, old[4:8] + old[:4] + old[8:])
            self.assertEqual((read(), read()), (1, 0), file)
            said.append(y())
        self.assertEqual(len(set(said)), 4)

    def test_check_says_what_is_rounded(self):
        path = self.nbits(4, 32, "codes", False)
        r = self.ok("check", path, "--profile", PROFILE, "--exact")
        self.assertRegex(r.stderr, r"weights: grid4:32,32,8, [\d.]+ bits, as stored\n")
        r = self.fails(4, "rounded again from 4 bits in blocks of 32", "--exact: this profile rounds", "1 matrices",
                       args=("check", path, "--profile", self.order(), "--exact"))
        self.assertRegex(r.stderr, r"weights: w4g:32, .* \(rms 0\.\d+\); --profile host: as stored")
        self.ok("check", path, "--profile", self.order())
        self.ok("check", path, "--profile", "host", "--exact")
        self.fails(2, "--exact", args=("check", path, "--exact", "--unsupported"))
        j = self.json("check", path, "--profile", self.order())["weights"]
        self.assertFalse(j["exact"])
        self.assertGreater(j["weights"][0]["rms"], 0.01)

    def test_one_exact_matrix_says_nothing_of_the_next(self):
        """Floats that a format holds exactly, before floats that it does not."""
        np, h = self.np, self.onnx.helper
        whole = np.where(self.rng.random((self.K, self.N)) < 0.5, 0, -8).astype(np.float32)
        late = np.concatenate([whole[:, :self.N // 2], self.rng.standard_normal((self.K, self.N // 2))], 1).astype(np.float32)
        for second in (self.rng.standard_normal((self.K, self.N)).astype(np.float32), late):
            path = self.save([h.make_node("MatMul", ["x", "a"], ["p"], "first"), h.make_node("MatMul", ["x", "b"], ["q"], "second"),
                              h.make_node("Concat", ["p", "q"], ["y"], axis=-1)],
                             [self.tensor(whole, "a"), self.tensor(second, "b")], [("x", 1, ["m", self.K])])
            r = self.ok("check", path, "--profile", self.order())
            self.assertRegex(r.stderr, r"weights: w4g:32, .*rounded from f32 \(rms 0\.\d+\)")
        (self.tmp / "m.onnx").unlink()
        path = self.save([h.make_node("MatMul", ["x", "a"], ["y"], "first")], [self.tensor(whole, "a")], [("x", 1, ["m", self.K])])
        self.assertIn("as stored", self.ok("check", path, "--profile", self.order(), "--exact").stderr)

    def test_halves_are_named(self):
        """Halves are computed in f32, and were stored as halves."""
        np, h = self.np, self.onnx.helper
        w = self.rng.standard_normal((self.K, self.N)).astype(np.float16)
        g = h.make_graph([h.make_node("MatMul", ["x", "w"], ["y"], "p")], "g", [h.make_tensor_value_info("x", 10, ["m", self.K])],
                         [h.make_tensor_value_info("y", 10, None)], [self.tensor(w, "w")])
        path = self.tmp / "m.onnx"
        self.onnx.save(h.make_model(g, opset_imports=[h.make_opsetid("", 21)], ir_version=10), path)
        self.assertRegex(self.ok("check", path, "--profile", self.order()).stderr, r"weights: w4g:32, .*rounded from f16 ")
        source = self.json("pack", path, "--report", "--profile", self.order())["tensors"][0]["source"]
        self.assertEqual(source, {"dtype": "float16"})

    def test_no_grid_of_ours(self):
        """Blocks of 8: no format holds them, and check says so."""
        path = self.nbits(4, 8, "codes")
        self.fails(4, "w4g:32", "rounded again from 4 bits in blocks of 8", args=("check", path, "--profile", PROFILE,
                                                                                 "--exact"))

    @unittest.skipIf(ARCH == "x86_64", "an offline device")
    def test_verify_names_the_ways_on(self):
        """Expected outputs of the model as stored, and a profile that rounds."""
        np = self.np
        path = self.nbits(4, 32, "codes", False)
        folder = self.tmp / "data" / "test_data_set_0"
        folder.mkdir(parents=True)
        x = self.rng.standard_normal((3, self.K)).astype(np.float32)
        (folder / "input_0.pb").write_bytes(self.tensor(x, "x").SerializeToString())
        np.save(self.tmp / "x.npy", x)
        self.ok("infer", path, "--in", f"x={self.tmp / 'x.npy'}", "--out", self.tmp / "out", "--profile", "host")
        y = np.load(next((self.tmp / "out").glob("*.npy")))
        (folder / "output_0.pb").write_bytes(self.tensor(y, "y").SerializeToString())
        self.ok("verify", path, "--data", self.tmp / "data", "--profile", "host")
        self.fails(1, "weights: w4g:32", "this profile rounds the weights", "--profile host", "--against reference",
                   args=("verify", path, "--data", self.tmp / "data", "--profile", self.order()))


@unittest.skipIf(ARCH == "x86_64", "an offline device")
class TwoBits(OfPlugin):
    """A decoder of two layers, all products in 2 bits, as three operators have them: from the file to ids."""
    BLOCK, IDS, TOKENS = 32, [1, 15, 7, 200], 24

    def setUp(self):
        super().setUp()
        self.ort = self.module("onnxruntime")
        subprocess.run([sys.executable, MAKE_LLAMA, self.tmp / "f32", "--layers", "2", "--dim", "64", "--heads", "4", "--kv-heads",
                        "2", "--ffn", "160", "--vocab", "512", "--seed", "3", "--single-file"], check=True, capture_output=True)

    def packed(self, codes):
        """Four to a byte, the first lowest."""
        c = codes.reshape(-1, 4).astype(self.np.uint8)
        return c[:, 0] | c[:, 1] << 2 | c[:, 2] << 4 | c[:, 3] << 6

    def split(self, w):
        """Codes [K, N], scales and zero points [K / block, N] of a matrix: asymmetric, of the range of a block."""
        np, g = self.np, w.reshape(w.shape[0] // self.BLOCK, self.BLOCK, w.shape[1])
        low = np.minimum(g.min(axis=1), 0)
        scale = ((np.maximum(g.max(axis=1), 0) - low) / 3).astype(np.float32)
        zero = np.rint(-low / scale)
        return np.clip(np.rint(g / scale[:, None]) + zero[:, None], 0, 3).reshape(w.shape), scale, zero

    def write(self, form):
        """form: 'nbits', or the type of a DequantizeLinear."""
        np, onnx, h = self.np, self.onnx, self.onnx.helper
        m = onnx.load(self.tmp / "f32" / "model.onnx")
        inits = {i.name: i for i in m.graph.initializer}
        nodes, opset = [], 17 if form == "nbits" else 25
        for n in m.graph.node:
            if n.op_type != "MatMul" or n.input[1] not in inits:
                # since opset 18 axes are an input
                if opset == 25 and n.op_type == "ReduceMean":
                    m.graph.initializer.append(onnx.numpy_helper.from_array(np.array([-1]), n.name + "_axes"))
                    n.input.append(n.name + "_axes")
                    del n.attribute[:]
                    n.attribute.append(h.make_attribute("keepdims", 1))
                nodes.append(n)
                continue
            name = n.input[1]
            codes, scale, zero = self.split(onnx.numpy_helper.to_array(inits[name]))
            K, N = codes.shape
            m.graph.initializer.remove(inits[name])
            ins = [n.input[0], name + "_q", name + "_s", name + "_z"]
            if form == "nbits":
                rows = np.zeros((N, -(-(K // self.BLOCK) // 4) * 4))
                rows[:, :K // self.BLOCK] = zero.T
                tensors = [onnx.numpy_helper.from_array(self.packed(codes.T).reshape(N, K // self.BLOCK, self.BLOCK // 4), ins[1]),
                           onnx.numpy_helper.from_array(np.ascontiguousarray(scale.T).flatten(), ins[2]),
                           onnx.numpy_helper.from_array(self.packed(rows), ins[3])]
                nodes.append(h.make_node("MatMulNBits", ins, n.output, n.name, domain="com.microsoft", K=K, N=N, bits=2,
                                         block_size=self.BLOCK))
            else:
                dtype = getattr(onnx.TensorProto, form)
                flip = 2 if form == "INT2" else 0  # two's complement less 2
                tensors = [onnx.TensorProto(name=ins[1], data_type=dtype, dims=codes.shape,
                                            raw_data=self.packed(codes.astype(int) ^ flip).tobytes()),
                           onnx.numpy_helper.from_array(scale, ins[2]),
                           onnx.TensorProto(name=ins[3], data_type=dtype, dims=zero.shape,
                                            raw_data=self.packed(zero.astype(int) ^ flip).tobytes())]
                nodes.append(h.make_node("DequantizeLinear", ins[1:], [name], name + "_dq", axis=0, block_size=self.BLOCK))
                nodes.append(n)
            m.graph.initializer.extend(tensors)
        del m.graph.node[:]
        m.graph.node.extend(nodes)
        del m.opset_import[:]
        m.opset_import.extend([h.make_opsetid("", opset), h.make_opsetid("com.microsoft", 1)])
        m.ir_version = 13 if opset == 25 else 10
        folder = self.tmp / form
        folder.mkdir()
        onnx.save(m, folder / "model.onnx")
        (folder / "config.json").write_text((self.tmp / "f32" / "config.json").read_text())
        return folder

    def expected(self, folder):
        """Greedy ids of onnxruntime, all positions anew for each."""
        np = self.np
        s = self.ort.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        none = {i.name: np.zeros((1, i.shape[1], 0, i.shape[3]), np.float32) for i in s.get_inputs() if "past" in i.name}
        ids, gaps = list(self.IDS), []
        while len(ids) < len(self.IDS) + self.TOKENS:
            x = np.array([ids])
            y = s.run(["logits"], {"input_ids": x, "attention_mask": np.ones_like(x),
                                   "position_ids": np.arange(x.shape[1])[None], **none})[0][0, -1]
            ids.append(int(y.argmax()))
            gaps.append(float(np.diff(np.sort(y)[-2:])[0]))
        self.assertGreater(min(gaps), 1e-3)  # no near-ties: another order of sums chooses the same
        return ids

    def ids(self, folder, profile):
        out = self.ok("run", folder, "--profile", profile, "--prompt-ids", ",".join(map(str, self.IDS)), "--ids", "--temp", 0,
                      "--ignore-eos", "-n", self.TOKENS).stdout
        return [int(i) for i in out.split()]

    def test_from_file_to_ids(self):
        folders = [self.write(form) for form in ("nbits", "UINT2", "INT2")]
        expected, on_plugin = self.expected(folders[0]), []
        for folder in folders:
            with self.subTest(form=folder.name):
                self.assertEqual(self.ids(folder, "host"), expected)
                t = self.json("pack", folder, "--report", "--profile", PROFILE)["tensors"]
                self.assertGreaterEqual(len(t), 9)  # q, k and v are one, gate and up
                self.assertEqual({(m["format"], m["rms"], m["source"]["bits"]) for m in t}, {("grid2", 0, 2)})
                on_plugin.append(self.ids(folder, PROFILE))
        self.assertEqual(on_plugin[0], on_plugin[1])
        self.assertEqual(on_plugin[0], on_plugin[2])


if __name__ == "__main__":
    unittest.main()
