#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a random-weight Llama-shaped decoder as an ONNX folder: model.onnx with KV cache, config.json.

Nodes are the primitives that Optimum's export has: RMSNorm of Pow/ReduceMean/Sqrt/Div, rotary embedding of
Slice/Neg/Concat, grouped queries by Expand, a causal mask from Range, MatMul with [K,N] weights. Weights are written
one tensor at a time, so that a model of several GB takes little memory. --tied: the head has the embedding's weights, as
one constant behind a Transpose, or written twice as torch's exporter does. Needs numpy and onnx.

--repeats P: a model that goes on as texts that repeat do, for speculation. Random weights say nothing twice; here the
head knows the embeddings: of the tokens --first to --first + --cycle - 1, a share P has one token that follows it, the
others have eight that all fit, of which the layers choose by what stands before. So nobody can foresee these without the
layers, which cost what they cost anyway. Models of one --seed agree on what follows, whatever their shape: a small one is a
draft for a large one. A prompt of such tokens, whole cycles, is written to OUT/prompt.txt as ids.

  bench/make_llama.py OUT --layers 8 --dim 2048 --heads 32 --kv-heads 8 --ffn 5632 --vocab 32000 [--single-file]
"""
import argparse
import json
import math
import os
import random
import shutil

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h


EMBEDDING = "model.embed_tokens.weight"
CHOICES = 8  # that follow a token which does not tell


def followers(a):
    """Of each token of the cycle those that may follow it; the first alone where it tells."""
    rng = random.Random(a.seed)
    ids = list(range(a.first, a.first + a.cycle))
    rng.shuffle(ids)
    told = round(a.repeats * a.cycle)
    tells = [True] * told + [False] * (a.cycle - told)
    rng.shuffle(tells)
    return {t: [ids[(i + 1) % a.cycle], *([] if tells[i] else rng.sample(ids, CHOICES - 1))] for i, t in enumerate(ids)}


def write_prompt(a):
    """Three times through the cycle."""
    after, t, ids = followers(a), a.first, []
    while len(ids) < 3 * a.cycle:
        ids.append(t)
        t = after[t][0]
    with open(os.path.join(a.out, "prompt.txt"), "w") as f:
        f.write(",".join(map(str, ids)))


class Model:
    def __init__(self, args):
        self.a = args
        self.nodes, self.inits, self.external = [], [], []
        self.consts, self.table = {}, None
        self.rng = np.random.default_rng(args.seed)
        self.words = None  # embeddings that a head of --repeats knows
        self.data = None if args.single_file else open(os.path.join(args.out, "model.onnx_data"), "wb")

    def op(self, kind, name, ins, n_out=1, **attrs):
        outs = [f"{name}_out{i}" if n_out > 1 else f"{name}_out" for i in range(n_out)]
        self.nodes.append(h.make_node(kind, ins, outs, name=name, **attrs))
        return outs[0] if n_out == 1 else outs

    def const(self, value, dtype=np.int64):
        key = (np.dtype(dtype).str, np.asarray(value, dtype).tobytes(), np.shape(value))
        if key not in self.consts:
            name = f"c{len(self.consts)}"
            self.inits.append(onnx.numpy_helper.from_array(np.asarray(value, dtype), name))
            self.consts[key] = name
        return self.consts[key]

    def weight(self, name, *shape, scale=None, values=None):
        if scale is None:
            scale = 1.0 / np.sqrt(shape[0])
        if not self.a.holes:
            w = values
            if values is None:
                w = self.rng.standard_normal(shape, dtype=np.float32) * np.float32(scale)
            if name == EMBEDDING and self.a.tied == "twice":
                self.table = w
        if self.data is None:
            self.inits.append(onnx.numpy_helper.from_array(w, name))
            return name
        t = T(name=name, data_type=T.FLOAT, dims=shape, data_location=T.EXTERNAL)
        offset = -(-self.data.tell() // 4096) * 4096
        self.data.seek(offset)
        length = 4 * math.prod(shape)
        if self.a.holes:
            self.data.truncate(offset + length)
            self.data.seek(offset + length)
        else:
            w.tofile(self.data)
        for k, v in (("location", "model.onnx_data"), ("offset", offset), ("length", length)):
            t.external_data.add(key=k, value=str(v))
        self.inits.append(t)
        return name

    def head_that_repeats(self):
        """A follower's column is the sum of the embeddings that it may follow, and a little noise for all others."""
        a, e = self.a, self.words
        w = self.rng.standard_normal((a.dim, a.vocab), dtype=np.float32) * np.float32(0.1 / math.sqrt(a.dim))
        for t, after in followers(a).items():
            for f in after:
                w[:, f] += e[t] * np.float32(a.sure / a.dim)
        return w

    def norm(self, name, x):
        square = self.op("Pow", name + "/Pow", [x, self.const(2.0, np.float32)])
        mean = self.op("ReduceMean", name + "/ReduceMean", [square], axes=[-1])
        eps = self.op("Add", name + "/Add", [mean, self.const(1e-5, np.float32)])
        root = self.op("Sqrt", name + "/Sqrt", [eps])
        one = self.op("Div", name + "/Div", [self.const(1.0, np.float32), root])
        y = self.op("Mul", name + "/Mul", [x, one])
        self.inits.append(onnx.numpy_helper.from_array(np.ones(self.a.dim, np.float32), name + ".weight"))
        return self.op("Mul", name + "/Mul_1", [name + ".weight", y])

    def linear(self, name, x, k, n):
        scale = None
        if self.a.repeats and name.endswith(("q_proj", "k_proj", "o_proj")):
            scale = 2.0 / np.sqrt(k)  # attention that looks at few positions and counts: what follows depends on what stands there
        return self.op("MatMul", name + "/MatMul", [x, self.weight(name + ".weight", k, n, scale=scale)])

    def rotate(self, name, x, cos, sin):
        half = self.a.dim // self.a.heads // 2
        big = np.iinfo(np.int64).max
        lo = self.op("Slice", name + "/Slice", [x, self.const([0]), self.const([half]), self.const([3])])
        hi = self.op("Slice", name + "/Slice_1", [x, self.const([half]), self.const([big]), self.const([3])])
        turned = self.op("Concat", name + "/Concat", [self.op("Neg", name + "/Neg", [hi]), lo], axis=-1)
        return self.op("Add", name + "/Add", [self.op("Mul", name + "/Mul", [x, cos]),
                                              self.op("Mul", name + "/Mul_1", [turned, sin])])

    def split_heads(self, name, x, heads):
        d = self.a.dim // self.a.heads
        shape = self.op("Concat", name + "/Concat_shape", [self.batch, self.seq, self.const([heads]), self.const([d])],
                        axis=0)
        y = self.op("Reshape", name + "/Reshape", [x, shape])
        return self.op("Transpose", name + "/Transpose", [y], perm=[0, 2, 1, 3])

    def repeat(self, name, x):
        """[B,KV,S,D] -> [B,H,S,D]: each head of the cache serves heads / kv queries."""
        a, d = self.a, self.a.dim // self.a.heads
        if a.heads == a.kv_heads:
            return x
        five = self.op("Unsqueeze", name + "/Unsqueeze", [x, self.const([2])])
        wide = self.op("Concat", name + "/Concat_expand", [self.batch, self.const([a.kv_heads]),
                                                           self.const([a.heads // a.kv_heads]), self.total,
                                                           self.const([d])], axis=0)
        y = self.op("Expand", name + "/Expand", [five, wide])
        flat = self.op("Concat", name + "/Concat_flat", [self.batch, self.const([a.heads]), self.total,
                                                         self.const([d])], axis=0)
        return self.op("Reshape", name + "/Reshape_flat", [y, flat])

    def attention(self, i, x):
        a, d, n = self.a, self.a.dim // self.a.heads, f"/model/layers.{i}/self_attn"
        q = self.split_heads(n + "/q", self.linear(n + "/q_proj", x, a.dim, a.dim), a.heads)
        k = self.split_heads(n + "/k", self.linear(n + "/k_proj", x, a.dim, a.kv_heads * d), a.kv_heads)
        v = self.split_heads(n + "/v", self.linear(n + "/v_proj", x, a.dim, a.kv_heads * d), a.kv_heads)
        q, k = self.rotate(n + "/q_rot", q, self.cos, self.sin), self.rotate(n + "/k_rot", k, self.cos, self.sin)
        for kind, cur in (("key", k), ("value", v)):
            self.nodes.append(h.make_node("Concat", [f"past_key_values.{i}.{kind}", cur], [f"present.{i}.{kind}"],
                                          name=f"{n}/Concat_{kind}", axis=2))
        k, v = self.repeat(n + "/k_rep", f"present.{i}.key"), self.repeat(n + "/v_rep", f"present.{i}.value")
        scores = self.op("MatMul", n + "/MatMul_qk", [q, self.op("Transpose", n + "/Transpose_k", [k],
                                                                perm=[0, 1, 3, 2])])
        scores = self.op("Mul", n + "/Mul_scale", [scores, self.const(1 / np.sqrt(d), np.float32)])
        scores = self.op("Add", n + "/Add_mask", [scores, self.mask])
        probs = self.op("Softmax", n + "/Softmax", [scores], axis=-1)
        y = self.op("Transpose", n + "/Transpose_o", [self.op("MatMul", n + "/MatMul_pv", [probs, v])],
                    perm=[0, 2, 1, 3])
        shape = self.op("Concat", n + "/Concat_o", [self.batch, self.seq, self.const([a.dim])], axis=0)
        return self.linear(n + "/o_proj", self.op("Reshape", n + "/Reshape_o", [y, shape]), a.dim, a.dim)

    def mlp(self, i, x):
        a, n = self.a, f"/model/layers.{i}/mlp"
        gate = self.linear(n + "/gate_proj", x, a.dim, a.ffn)
        act = self.op("Mul", n + "/act/Mul", [gate, self.op("Sigmoid", n + "/act/Sigmoid", [gate])])
        both = self.op("Mul", n + "/Mul", [act, self.linear(n + "/up_proj", x, a.dim, a.ffn)])
        return self.linear(n + "/down_proj", both, a.ffn, a.dim)

    def shapes(self):
        def dim(name, value, axis):
            shape = self.op("Shape", f"/{name}/Shape", [value])
            return self.op("Gather", f"/{name}/Gather", [shape, self.const([axis])], axis=0)

        self.batch, self.seq = dim("batch", "input_ids", 0), dim("seq", "input_ids", 1)
        past = dim("past", "past_key_values.0.key", 2)
        self.total = self.op("Add", "/total/Add", [past, self.seq])
        d = self.a.dim // self.a.heads
        # cos and sin of [B,1,S,D] from position_ids
        inv = (1.0 / self.a.theta ** (np.arange(0, d, 2) / d)).astype(np.float32)
        pos = self.op("Cast", "/rotary/Cast", [self.op("Unsqueeze", "/rotary/Unsqueeze",
                                                       ["position_ids", self.const([1, 3])])], to=T.FLOAT)
        freqs = self.op("Mul", "/rotary/Mul", [pos, self.const(inv, np.float32)])
        both = self.op("Concat", "/rotary/Concat", [freqs, freqs], axis=-1)
        self.cos, self.sin = self.op("Cos", "/rotary/Cos", [both]), self.op("Sin", "/rotary/Sin", [both])
        # 0 where column j may be seen from row i (j <= past + i and attention_mask), else the lowest float
        zero, one = self.const(0), self.const(1)

        def scalar(name, v):
            return self.op("Squeeze", f"/mask/Squeeze_{name}", [v, self.const([0])])

        cols = self.op("Range", "/mask/Range_cols", [zero, scalar("total", self.total), one])
        rows = self.op("Range", "/mask/Range_rows", [scalar("past", past), scalar("total_1", self.total), one])
        rows = self.op("Unsqueeze", "/mask/Unsqueeze_rows", [rows, self.const([1])])
        late = self.op("Greater", "/mask/Greater", [cols, rows])
        pad = self.op("Equal", "/mask/Equal", [self.op("Unsqueeze", "/mask/Unsqueeze_pad",
                                                       ["attention_mask", self.const([1, 2])]), zero])
        if self.a.window:  # a row sees itself and the window - 1 before it
            early = self.op("LessOrEqual", "/mask/LessOrEqual", [cols, self.op("Sub", "/mask/Sub_window", [
                rows, self.const(self.a.window)])])
            late = self.op("Or", "/mask/Or_window", [late, early])
        hide = self.op("Or", "/mask/Or", [late, pad])
        self.mask = self.op("Where", "/mask/Where", [hide, self.const(np.finfo(np.float32).min, np.float32),
                                                     self.const(0.0, np.float32)])

    def build(self):
        a, d = self.a, self.a.dim // self.a.heads
        self.shapes()
        if a.repeats:
            self.words = self.rng.standard_normal((a.vocab, a.dim), dtype=np.float32)
        x = self.op("Gather", "/model/embed_tokens/Gather",
                    [self.weight(EMBEDDING, a.vocab, a.dim, scale=1.0, values=self.words), "input_ids"])
        for i in range(a.layers):
            n = f"/model/layers.{i}"
            y = self.attention(i, self.norm(n + "/input_layernorm", x))
            x = self.op("Add", n + "/Add", [x, y])
            x = self.op("Add", n + "/Add_1", [x, self.mlp(i, self.norm(n + "/post_attention_layernorm", x))])
        x = self.norm("/model/norm", x)
        if a.repeats:
            head = self.weight("lm_head.weight", a.dim, a.vocab, values=self.head_that_repeats())
        elif a.tied == "once":
            head = self.op("Transpose", "/lm_head/Transpose", [EMBEDDING], perm=[1, 0])
        else:
            head = self.weight("lm_head.weight", a.dim, a.vocab, values=None if self.table is None else self.table.T)
        self.nodes.append(h.make_node("MatMul", [x, head], ["logits"], name="/lm_head/MatMul"))
        ids = ["batch_size", "sequence_length"]
        ins = [h.make_tensor_value_info("input_ids", T.INT64, ids),
               h.make_tensor_value_info("attention_mask", T.INT64, ["batch_size", "past_sequence_length + sequence_length"]),
               h.make_tensor_value_info("position_ids", T.INT64, ids)]
        outs = [h.make_tensor_value_info("logits", T.FLOAT, ids + [a.vocab])]
        for i in range(a.layers):
            for kind in ("key", "value"):
                ins.append(h.make_tensor_value_info(f"past_key_values.{i}.{kind}", T.FLOAT,
                                                    ["batch_size", a.kv_heads, "past_sequence_length", d]))
                outs.append(h.make_tensor_value_info(
                    f"present.{i}.{kind}", T.FLOAT,
                    ["batch_size", a.kv_heads, "past_sequence_length + sequence_length", d]))
        g = h.make_graph(self.nodes, "main_graph", ins, outs, self.inits)
        m = h.make_model(g, opset_imports=[h.make_opsetid("", 17)], ir_version=8, producer_name="tenon-bench")
        with open(os.path.join(a.out, "model.onnx"), "wb") as f:
            f.write(m.SerializeToString())
        if self.data:
            self.data.close()


def grow_vocabulary(model, size):
    """The demo model's BPE with further merges of random pairs: as large as real ones, to read and to look up. They come
    last, so that its own tokens are still what their text becomes."""
    known, rng = list(model["vocab"]), random.Random(1)
    pieces = [t for t in known if len(t) <= 6 and not t.startswith("<")]
    while len(known) < size:
        left, right = rng.choice(pieces), rng.choice(pieces)
        if right.startswith("\u0120") or left + right in model["vocab"]:
            continue
        model["vocab"][left + right] = len(known)
        model["merges"].append(f"{left} {right}" if isinstance(model["merges"][0], str) else [left, right])
        known.append(left + right)


def write_config(a):
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": a.dim,
              "head_dim": a.dim // a.heads, "intermediate_size": a.ffn, "num_attention_heads": a.heads,
              "num_hidden_layers": a.layers, "num_key_value_heads": a.kv_heads, "vocab_size": a.vocab,
              "max_position_embeddings": a.context, "rms_norm_eps": 1e-5, "rope_theta": a.theta,
              "bos_token_id": 0, "eos_token_id": 0, "tie_word_embeddings": bool(a.tied), "use_cache": True}
    with open(os.path.join(a.out, "config.json"), "w") as f:
        json.dump(config, f, indent=2)
    demo = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "models", "demo")
    if a.vocab < 4096:
        return
    for name in ("tokenizer_config.json", "special_tokens_map.json", "generation_config.json"):
        shutil.copy(os.path.join(demo, name), a.out)
    with open(os.path.join(demo, "tokenizer.json"), encoding="utf-8") as f:
        tokenizer = json.load(f)
    grow_vocabulary(tokenizer["model"], a.vocab)
    with open(os.path.join(a.out, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(tokenizer, f)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    for name, value in (("layers", 4), ("dim", 256), ("heads", 8), ("kv-heads", 4), ("ffn", 704), ("vocab", 4096),
                        ("context", 2048), ("seed", 1)):
        p.add_argument("--" + name, type=int, default=value)
    p.add_argument("--window", type=int, default=0, help="keys that a query sees, itself included; 0: all before it")
    p.add_argument("--tied", choices=("once", "twice"), help="the head has the embedding's weights")
    p.add_argument("--repeats", type=float, default=0, metavar="P", help="share of the cycle's tokens that one token follows; 0: random")
    p.add_argument("--cycle", type=int, default=96, help="tokens that --repeats is about")
    p.add_argument("--first", type=int, default=300, help="the least of them")
    p.add_argument("--sure", type=float, default=60.0, help="logit of a token that follows, about")
    p.add_argument("--theta", type=float, default=10000.0)
    p.add_argument("--single-file", action="store_true", help="weights inside model.onnx (at most 2 GB)")
    p.add_argument("--holes", action="store_true",
                   help="weights of zeros that take no disk: for measuring everything but the products")
    a = p.parse_args()
    if a.holes and a.single_file:
        p.error("--holes needs external data")
    if a.dim % a.heads or a.heads % a.kv_heads or a.dim // a.heads % 2:
        p.error("dim must be heads * an even number, heads a multiple of kv-heads")
    if a.repeats and (a.tied or a.holes or not 0 < a.repeats <= 1 or a.first + a.cycle > a.vocab or a.cycle < 2 * CHOICES):
        p.error(f"--repeats is above 0 and at most 1, for heads of their own, and --cycle at least {2 * CHOICES}, below --vocab")
    os.makedirs(a.out, exist_ok=True)
    Model(a).build()
    write_config(a)
    if a.repeats:
        write_prompt(a)
    size = sum(os.path.getsize(os.path.join(a.out, n)) for n in ("model.onnx", "model.onnx_data")
               if os.path.exists(os.path.join(a.out, n)))
    print(f"{a.out}: {size / 1e6:.1f} MB, {a.layers} layers")


if __name__ == "__main__":
    main()
