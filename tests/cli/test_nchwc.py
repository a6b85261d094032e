# SPDX-License-Identifier: Apache-2.0
"""CNNs in blocks of channels (com.microsoft.nchwc), as onnxruntime saves them at its highest level, become plain ones: as this
machine's onnxruntime writes them, and written here in blocks of 8 and of 16."""
import pathlib
import platform

from common import Case, main

BOUND = 2e-5  # of outputs around 10: sums of some 100 products in another order


class Net:
    """A CNN by parts. Channels of its parts: c."""

    def __init__(self, case, c, depthwise=False):
        self.np, self.onnx = case.module("numpy"), case.module("onnx")
        self.h = self.onnx.helper
        self.rng, self.nodes, self.fixed = self.np.random.default_rng(0), [], []
        x = self.conv("x", 3, c[0], 3, stride=2, then="Relu")
        x = self.op("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
        a = self.conv(x, c[0], c[1], 1, then="HardSigmoid")
        a = self.conv(a, c[1], c[1], 3, group=c[1], then="Relu")
        x = self.op("Relu", self.op("Add", a, self.conv(x, c[0], c[1], 1)))
        y, z = self.conv(x, c[1], c[2], 3, then="LeakyRelu"), self.conv(x, c[1], c[2], 3, then="Sigmoid")
        x = self.op("Concat", y, z, axis=1)
        x = self.op("AveragePool", self.op("Mul", x, x), kernel_shape=[2, 2], strides=[2, 2])
        if depthwise:
            x = self.conv(x, 2 * c[2], 2 * c[2], 3, group=2 * c[2])
        x = self.op("GlobalAveragePool", self.conv(x, 2 * c[2], c[3], 1, then="Relu"))
        self.nodes.append(self.h.make_node("Flatten", [x], ["out"]))
        self.model = self.made(["N", 3, 32, 32])

    def made(self, dims):
        info = lambda n, d: self.h.make_tensor_value_info(n, 1, d)
        graph = self.h.make_graph(self.nodes, "net", [info("x", dims)], [info("out", ["N", "C"])], self.fixed)
        opsets = [self.h.make_opsetid("", 17), self.h.make_opsetid("com.microsoft.nchwc", 1)]
        return self.h.make_model(graph, opset_imports=opsets, ir_version=8)

    def weight(self, *shape):
        w = self.rng.normal(0, 1, shape) / (self.np.prod(shape[1:]) ** 0.5 if len(shape) > 1 else 1)
        self.fixed.append(self.onnx.numpy_helper.from_array(w.astype(self.np.float32), f"w{len(self.fixed)}"))
        return self.fixed[-1].name

    def op(self, kind, *ins, **attrs):
        self.nodes.append(self.h.make_node(kind, list(ins), [f"y{len(self.nodes)}"], **attrs))
        return self.nodes[-1].output[0]

    def conv(self, x, ci, co, k, stride=1, group=1, then=None):
        y = self.op("Conv", x, self.weight(co, ci // group, k, k), self.weight(co), kernel_shape=[k, k],
                    strides=[stride] * 2, pads=[k // 2] * 4, group=group)
        return self.op(then, y) if then else y


def in_blocks(np, w, bias, block, plain):
    """A filter and a bias as onnxruntime packs them. plain: reads a tensor that is not in blocks, or one channel each."""
    O, I, kh, kw = w.shape
    up = lambda n: -(-n // block) * block
    full = np.zeros((up(O), I if plain else up(I), kh, kw), np.float32)
    full[:O, :I] = w
    b = np.zeros(up(O), np.float32)
    b[:O] = bias
    shape = full.shape
    rows = full.reshape(up(O) // block, block, shape[1], kh, kw)
    if plain:
        return rows.transpose(0, 2, 3, 4, 1).reshape(shape), b
    return rows.reshape(-1, block, shape[1] // block, block, kh, kw).transpose(0, 2, 4, 5, 3, 1).reshape(shape), b


def ort_block():
    """Channels of a block, as this machine's onnxruntime has them."""
    return 16 if " avx512f " in pathlib.Path("/proc/cpuinfo").read_text() or platform.machine() == "aarch64" else 8


class Blocks(Case):
    def compare(self, original, blocked, size=32, channels=3, profile="host", more=0):
        np, ort = self.module("numpy"), self.module("onnxruntime")
        x = np.random.default_rng(1).normal(0, 1, (2, channels, size, size)).astype(np.float32)
        np.save(self.tmp / "x.npy", x)
        want = ort.InferenceSession(str(original), providers=["CPUExecutionProvider"]).run(None, {"x": x})[0]
        self.ok("infer", blocked, "--in", f"x={self.tmp}/x.npy", "--out", self.tmp / "out", "--profile", profile)
        np.testing.assert_allclose(np.load(self.tmp / "out/out.npy"), want, rtol=BOUND, atol=BOUND)
        nodes = [self.json("inspect", f, "--profile", profile)["nodes_after"] for f in (original, blocked)]
        self.assertEqual(nodes[1], nodes[0] + more)

    def saved(self, c, *args):
        """As this machine's onnxruntime saves it."""
        onnx, ort = self.module("onnx"), self.module("onnxruntime")
        name = "-".join(map(str, c))
        original, saved = self.tmp / f"{name}.onnx", self.tmp / f"{name}-all.onnx"
        onnx.save(Net(self, c, *args).model, original)
        o = ort.SessionOptions()
        o.graph_optimization_level, o.optimized_model_filepath = ort.GraphOptimizationLevel.ORT_ENABLE_ALL, str(saved)
        o.log_severity_level = 3
        ort.InferenceSession(str(original), o, providers=["CPUExecutionProvider"])
        if not any(n.domain == "com.microsoft.nchwc" for n in onnx.load(saved).graph.node):
            self.skipTest(f"onnxruntime does not use blocks of channels on {platform.machine()}")
        return original, saved

    def test_shapes_tell(self):
        for c in ((24, 40, 24, 72), (32, 20, 12, 24), (20, 36, 52, 72), (32, 32, 8, 64)):
            with self.subTest(c):
                self.compare(*self.saved(c))

    def test_a_block_is_filled_for_channels_on_their_own(self):
        self.compare(*self.saved((32, 20, 12, 24), True), more=24 % ort_block() != 0)  # by a Pad

    def test_shapes_do_not_tell(self):
        original, saved = self.saved((32, 32, 16, 64))
        self.fails(4, "(Conv)", "nchwc_block: 16", "ORT_ENABLE_EXTENDED", args=["inspect", saved, "--profile", "host"])
        self.compare(original, saved, profile=self.profile(f"plugins: [host]\nnchwc_block: {ort_block()}\n"))
        self.fails(3, "nchwc_block", "8 or 16", args=["inspect", saved, "--profile",
                                                      self.profile("plugins: [host]\nnchwc_block: 12\n")])

    def written(self, block, c, end):
        """Two files, plain and in blocks: Conv of the plain input, depthwise, Conv of 1 x 1, its output to a plain one."""
        np, onnx = self.module("numpy"), self.module("onnx")
        h, nh = onnx.helper, onnx.numpy_helper
        net = Net(self, (8, 8, 8, 8))
        net.nodes, net.fixed = [], []
        x = net.conv("x", 3, c, 3, then="Relu")
        x = net.conv(x, c, c, 3, group=c)
        net.nodes.append(h.make_node("Flatten", [net.op("GlobalMaxPool", net.conv(x, c, end, 1))], ["out"]))
        original = self.tmp / f"plain{block}.onnx"
        onnx.save(net.made(["N", 3, 8, 8]), original)
        fixed = {i.name: nh.to_array(i) for i in net.fixed}
        nodes = []
        for n in net.nodes:
            n = onnx.NodeProto.FromString(n.SerializeToString())
            if n.op_type in ("Conv", "GlobalMaxPool"):
                n.domain = "com.microsoft.nchwc"
            if n.op_type == "Conv":
                group = next(a for a in n.attribute if a.name == "group")
                w, b = fixed[n.input[1]], fixed[n.input[2]]
                fixed[n.input[1]], fixed[n.input[2]] = in_blocks(np, w, b, block, w.shape[1] < block)
                if group.i > 1:
                    group.i = len(fixed[n.input[2]])
            if n.op_type == "Flatten":
                nodes.append(h.make_node("ReorderOutput", [n.input[0]], ["plain"], domain="com.microsoft.nchwc", channels=end))
                n.input[0] = "plain"
            nodes.append(n)
        net.nodes, net.fixed = nodes, [nh.from_array(v, k) for k, v in fixed.items()]
        blocked = self.tmp / f"blocked{block}.onnx"
        onnx.save(net.made(["N", 3, 8, 8]), blocked)
        return original, blocked

    def test_blocks_of_8_and_16(self):
        np, ort = self.module("numpy"), self.module("onnxruntime")
        for block, c, end in ((8, 24, 16), (8, 16, 40), (16, 32, 16), (16, 32, 48), (8, 16, 16)):
            with self.subTest(block, c=c, end=end):
                profile = self.profile(f"plugins: [host]\nnchwc_block: {block}\n")
                self.compare(*self.written(block, c, end), size=8, profile=profile)

    def test_a_file_that_tells_both_is_refused(self):
        onnx = self.module("onnx")
        for block, c, channels in ((8, 24, 5), (16, 32, 3)):  # of 16 channels, as blocks of 16 have them; of 48, as none have
            _, blocked = self.written(block, c, 2 * c - 16 if block == 16 else 16)
            m = onnx.load(blocked)
            next(a for n in m.graph.node if n.op_type == "ReorderOutput" for a in n.attribute).i = channels
            onnx.save(m, blocked)
            self.fails(3, "blocks of 8 channels, and in blocks of 16", args=["inspect", blocked, "--profile", "host"])


if __name__ == "__main__":
    main()
