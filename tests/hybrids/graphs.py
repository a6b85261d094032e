# SPDX-License-Identifier: Apache-2.0
"""Decoders whose states are no attention caches, written as exporters would, with random weights.

    graphs.py OUT      writes OUT/NAME/model.onnx

- short_conv   LFM2's kind: gated short convolutions (past_conv.N) and, between them, attention with a cache
- state_space  Mamba 2's kind: a short convolution (past_conv.N) and a state that decays (past_ssm.N), a run computed at once
- delta_rule   Qwen3-Next's gated delta rule (past_recurrent.N) in a Scan, a short convolution (past_conv.N), attention between
- linear       gated linear attention (past_linear.N), a run computed at once, and attention with a cache, mixed as in Qwen3-Next
"""
import pathlib
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

VOCAB, D, LAYERS, HEADS, HEAD, STATE, KERNEL = 96, 32, 2, 4, 8, 8, 3
F, I64 = TensorProto.FLOAT, TensorProto.INT64
B, S, P = "batch_size", "sequence_length", "past_sequence_length"


class Graph:
    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.nodes, self.weights, self.inputs, self.outputs = [], [], [], []
        self.n = 0

    def op(self, kind, *inputs, outputs=1, **attributes):
        self.n += 1
        names = [f"{kind}_{self.n}_{i}" for i in range(outputs)]
        self.nodes.append(helper.make_node(kind, list(inputs), names, name=f"{kind}_{self.n}", **attributes))
        return names[0] if outputs == 1 else names

    def const(self, value, dtype=np.float32):
        self.n += 1
        self.weights.append(numpy_helper.from_array(np.asarray(value, dtype), f"c{self.n}"))
        return f"c{self.n}"

    def ints(self, *values):
        return self.const(list(values), np.int64)

    def weight(self, *shape, scale=None):
        return self.const(self.rng.standard_normal(shape) * (scale or shape[0] ** -0.5))

    def state(self, name, shape):
        self.inputs.append(helper.make_tensor_value_info(f"past{name}", F, shape))
        return f"past{name}"

    def present(self, name, value, shape):
        self.nodes.append(helper.make_node("Identity", [value], [f"present{name}"]))
        self.outputs.append(helper.make_tensor_value_info(f"present{name}", F, shape))

    # --- pieces ---

    def slice(self, x, first, last, axis):
        return self.op("Slice", x, self.ints(first), self.ints(last), self.ints(axis))

    def norm(self, x):
        mean = self.op("ReduceMean", self.op("Mul", x, x), self.ints(-1), keepdims=1)
        root = self.op("Sqrt", self.op("Add", mean, self.const(1e-5)))
        return self.op("Mul", self.op("Div", x, root), self.const(1 + 0.1 * self.rng.standard_normal(D)))

    def heads(self, x):
        return self.op("Transpose", self.op("Reshape", x, self.ints(0, 0, HEADS, HEAD)), perm=[0, 2, 1, 3])

    def silu(self, x):
        return self.op("Mul", x, self.op("Sigmoid", x))

    def short_conv(self, x, layer):
        """Causal depthwise convolution over x [B, S, D] and what came before."""
        shape = [B, D, KERNEL - 1]
        past = self.state(f"_conv.{layer}", shape)
        whole = self.op("Concat", past, self.op("Transpose", x, perm=[0, 2, 1]), axis=2)
        self.present(f"_conv.{layer}", self.slice(whole, -(KERNEL - 1), 2**62, 2), shape)
        y = self.op("Conv", whole, self.weight(D, 1, KERNEL, scale=0.6), group=D, kernel_shape=[KERNEL])
        return self.op("Transpose", y, perm=[0, 2, 1])

    def attention(self, x, layer):
        q, k, v = (self.heads(self.op("MatMul", x, self.weight(D, D))) for _ in range(3))
        kv = []
        for name, now in (("key", k), ("value", v)):
            past = self.state(f"_key_values.{layer}.{name}", [B, HEADS, P, HEAD])
            whole = self.op("Concat", past, now, axis=2)
            self.nodes.append(helper.make_node("Identity", [whole], [f"present.{layer}.{name}"]))
            self.outputs.append(helper.make_tensor_value_info(f"present.{layer}.{name}", F, [B, HEADS, f"{P} + {S}", HEAD]))
            kv.append(whole)
        scores = self.op("MatMul", self.op("Mul", q, self.const(HEAD**-0.5)), self.op("Transpose", kv[0], perm=[0, 1, 3, 2]))
        length = self.op("Squeeze", self.op("Shape", x, start=1, end=2), self.ints(0))
        total = self.op("Squeeze", self.op("Shape", kv[0], start=2, end=3), self.ints(0))
        one, zero = self.const(1, np.int64), self.const(0, np.int64)
        i = self.op("Unsqueeze", self.op("Range", self.op("Sub", total, length), total, one), self.ints(1))
        j = self.op("Unsqueeze", self.op("Range", zero, total, one), self.ints(0))
        mask = self.op("Where", self.op("LessOrEqual", j, i), self.const(0.0), self.const(-np.inf))
        y = self.op("MatMul", self.op("Softmax", self.op("Add", scores, mask), axis=-1), kv[1])
        y = self.op("Reshape", self.op("Transpose", y, perm=[0, 2, 1, 3]), self.ints(0, 0, D))
        return self.op("MatMul", y, self.weight(D, D))

    def feed_forward(self, x):
        up = self.op("Mul", self.silu(self.op("MatMul", x, self.weight(D, 2 * D))), self.op("MatMul", x, self.weight(D, 2 * D)))
        return self.op("MatMul", up, self.weight(2 * D, D))

    def model(self, block):
        self.inputs.append(helper.make_tensor_value_info("input_ids", I64, [B, S]))
        x = self.op("Gather", self.weight(VOCAB, D, scale=1.0), "input_ids")
        for layer in range(LAYERS):
            x = self.op("Add", x, block(self, self.norm(x), layer))
            x = self.op("Add", x, self.feed_forward(self.norm(x)))
        logits = self.op("MatMul", self.norm(x), self.weight(D, VOCAB, scale=0.5))
        self.nodes.append(helper.make_node("Identity", [logits], ["logits"]))
        self.outputs.insert(0, helper.make_tensor_value_info("logits", F, [B, S, VOCAB]))
        graph = helper.make_graph(self.nodes, "hybrid", self.inputs, self.outputs, self.weights)
        m = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        onnx.checker.check_model(m)
        return m


def short_conv(g, x, layer):
    if layer % 2:
        return g.attention(x, layer)
    gate, out, inner = (g.op("MatMul", x, g.weight(D, D)) for _ in range(3))
    y = g.op("Mul", out, g.short_conv(g.op("Mul", gate, inner), layer))
    return g.op("MatMul", y, g.weight(D, D))


def state_space(g, x, layer):
    """y_t = C_t h_t, h_t = exp(a_t) h_(t-1) + dt_t B_t x_t: all t of a run at once, by sums of the decays."""
    shape = [B, HEADS, HEAD, STATE]
    past = g.state(f"_ssm.{layer}", shape)
    inner = g.silu(g.short_conv(g.op("MatMul", x, g.weight(D, D)), layer))
    xs = g.heads(inner)  # [B, H, S, P]
    b, c = (g.op("Unsqueeze", g.op("MatMul", inner, g.weight(D, STATE)), g.ints(1)) for _ in range(2))  # [B, 1, S, N]
    dt = g.op("Transpose", g.op("Softplus", g.op("MatMul", x, g.weight(D, HEADS))), perm=[0, 2, 1])  # [B, H, S]
    a = g.op("Mul", dt, g.const(-np.exp(g.rng.uniform(-1, 0.5, (HEADS, 1)))))
    total = g.op("CumSum", a, g.const(2, np.int64))
    over = g.op("Sub", g.op("Unsqueeze", total, g.ints(3)), g.op("Unsqueeze", total, g.ints(2)))  # [B, H, S, S]
    decay = g.op("Trilu", g.op("Exp", g.op("Min", over, g.const(0.0))), upper=0)
    weighed = g.op("Mul", xs, g.op("Unsqueeze", dt, g.ints(3)))
    mix = g.op("Mul", g.op("MatMul", c, g.op("Transpose", b, perm=[0, 1, 3, 2])), decay)
    before = g.op("MatMul", c, g.op("Transpose", past, perm=[0, 1, 3, 2]))  # [B, H, S, P]
    y = g.op("Add", g.op("MatMul", mix, weighed), g.op("Mul", before, g.op("Exp", g.op("Unsqueeze", total, g.ints(3)))))
    last = g.slice(total, -1, 2**62, 2)  # [B, H, 1]
    left = g.op("Unsqueeze", g.op("Exp", g.op("Sub", last, total)), g.ints(3))
    new = g.op("MatMul", g.op("Transpose", g.op("Mul", weighed, left), perm=[0, 1, 3, 2]), b)  # [B, H, P, N]
    g.present(f"_ssm.{layer}", g.op("Add", g.op("Mul", past, g.op("Unsqueeze", g.op("Exp", last), g.ints(3))), new), shape)
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, D))
    return g.op("MatMul", g.op("Mul", y, g.silu(g.op("MatMul", x, g.weight(D, D)))), g.weight(D, D))


def linear(g, x, layer):
    """y_t = q_t h_t, h_t = decay_t h_(t-1) + beta_t k_t v_t, on layers of their own beside attention."""
    if layer % 2:
        return g.attention(x, layer)
    shape = [B, HEADS, HEAD, HEAD]
    past = g.state(f"_linear.{layer}", shape)
    q, k, v = (g.heads(g.op("MatMul", x, g.weight(D, D))) for _ in range(3))
    k = g.op("Div", k, g.op("Add", g.op("ReduceL2", k, g.ints(-1), keepdims=1), g.const(1e-6)))
    beta = g.op("Transpose", g.op("Sigmoid", g.op("MatMul", x, g.weight(D, HEADS))), perm=[0, 2, 1])
    decay = g.op("Transpose", g.op("Neg", g.op("Softplus", g.op("MatMul", x, g.weight(D, HEADS)))), perm=[0, 2, 1])
    total = g.op("CumSum", decay, g.const(2, np.int64))
    over = g.op("Sub", g.op("Unsqueeze", total, g.ints(3)), g.op("Unsqueeze", total, g.ints(2)))
    within = g.op("Trilu", g.op("Exp", g.op("Min", over, g.const(0.0))), upper=0)
    scores = g.op("Mul", g.op("MatMul", q, g.op("Transpose", k, perm=[0, 1, 3, 2])), within)
    v = g.op("Mul", v, g.op("Unsqueeze", beta, g.ints(3)))
    before = g.op("Mul", g.op("MatMul", q, past), g.op("Exp", g.op("Unsqueeze", total, g.ints(3))))
    y = g.op("Add", g.op("MatMul", scores, v), before)
    last = g.slice(total, -1, 2**62, 2)
    left = g.op("Unsqueeze", g.op("Exp", g.op("Sub", last, total)), g.ints(3))
    new = g.op("MatMul", g.op("Transpose", g.op("Mul", k, left), perm=[0, 1, 3, 2]), v)
    g.present(f"_linear.{layer}", g.op("Add", g.op("Mul", past, g.op("Unsqueeze", g.op("Exp", last), g.ints(3))), new), shape)
    y = g.op("Reshape", g.op("Transpose", y, perm=[0, 2, 1, 3]), g.ints(0, 0, D))
    return g.op("MatMul", y, g.weight(D, D))


def delta_turn(turn):
    """One turn: (h [B, H, K, V], q, k [B, H, K], v [B, H, V], decay, beta [B, H]) -> (h, y [B, H, V])."""
    f = lambda n, *d: helper.make_tensor_value_info(n, F, list(d))
    nodes = []

    def op(kind, *names):
        nodes.append(helper.make_node(kind, list(names), [f"{turn}.{len(nodes)}"]))
        return f"{turn}.{len(nodes) - 1}"

    def last(x, axes):
        return op("Unsqueeze", x, f"{turn}.axes{axes}")

    h, q, k, v, decay, beta = (f"{turn}.{n}" for n in ("h", "q", "k", "v", "decay", "beta"))
    kept = op("Mul", h, op("Exp", last(decay, "23")))
    known = op("Squeeze", op("MatMul", last(k, "2"), kept), f"{turn}.axes2")
    delta = op("Mul", op("Sub", v, known), last(beta, "2"))
    new = op("Add", kept, op("Mul", last(k, "3"), last(delta, "2")))
    y = op("Squeeze", op("MatMul", last(q, "2"), new), f"{turn}.axes2")
    axes = [numpy_helper.from_array(np.array([int(a) for a in n], np.int64), f"{turn}.axes{n}") for n in ("2", "3", "23")]
    ins = [f(h, B, HEADS, HEAD, HEAD), f(q, B, HEADS, HEAD), f(k, B, HEADS, HEAD), f(v, B, HEADS, HEAD), f(decay, B, HEADS), f(beta, B, HEADS)]
    # Dims of the results are left open: who carries the state must find them.
    outs = [helper.make_tensor_value_info(n, F, None) for n in (new, y)]
    return helper.make_graph(nodes, turn, ins, outs, axes)


def delta_rule(g, x, layer):
    """h_t = decay_t h_(t-1) + k_t beta_t (v_t - k_t decay_t h_(t-1)), y_t = q_t h_t: a turn of a Scan for each t."""
    if layer % 2:
        return g.attention(x, layer)
    shape = [B, HEADS, HEAD, HEAD]
    past = g.state(f"_recurrent.{layer}", shape)
    inner = g.silu(g.short_conv(x, layer))
    turns_first = lambda y: g.op("Transpose", y, perm=[1, 0, 2, 3])
    split = lambda: g.op("Reshape", g.op("MatMul", inner, g.weight(D, D)), g.ints(0, 0, HEADS, HEAD))
    norm = lambda y: g.op("Div", y, g.op("Add", g.op("ReduceL2", y, g.ints(-1), keepdims=1), g.const(1e-6)))
    q, k, v = norm(split()), norm(split()), split()
    beta = g.op("Transpose", g.op("Sigmoid", g.op("MatMul", x, g.weight(D, HEADS))), perm=[1, 0, 2])
    decay = g.op("Transpose", g.op("Neg", g.op("Softplus", g.op("MatMul", x, g.weight(D, HEADS)))), perm=[1, 0, 2])
    scanned = [turns_first(y) for y in (q, k, v)] + [decay, beta]
    new, y = g.op("Scan", past, *scanned, outputs=2, body=delta_turn(f"turn{layer}"), num_scan_inputs=len(scanned))
    g.present(f"_recurrent.{layer}", new, shape)
    y = g.op("Reshape", turns_first(y), g.ints(0, 0, D))
    return g.op("MatMul", g.op("Mul", y, g.silu(g.op("MatMul", x, g.weight(D, D)))), g.weight(D, D))


MODELS = {"short_conv": (short_conv, 11), "state_space": (state_space, 16), "linear": (linear, 13),
          "delta_rule": (delta_rule, 17)}


def write(out):
    for name, (block, seed) in MODELS.items():
        folder = pathlib.Path(out) / name
        folder.mkdir(parents=True, exist_ok=True)
        onnx.save(Graph(seed).model(block), folder / "model.onnx")


if __name__ == "__main__":
    write(sys.argv[1])
