#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes a random-weight Llama of the shapes of bench/make_llama.py in a peer's own low-bit format.

  VENV/bin/python bench/peers/make.py OUT --peer llama.cpp|openvino|genai --shape tiny|1.1b|3b|FOLDER [--type Q4_0]

llama.cpp: OUT is a GGUF file, every matrix in --type. openvino: OUT is a folder with an IR as optimum-intel exports it, weights
i4 in groups of 128 (or --group 32). genai: OUT is a folder with the graph of GenAI's builder for `-p int4 -e cpu`, blocks of 32,
accuracy_level 4. FOLDER: one that make_llama.py wrote; its config.json has the shape. The last product is in 4 bits too, and
computed for the last position only.
"""
import argparse
import json
import os
import sys

import numpy as np

SHAPES = {"tiny": {"layers": 2, "dim": 256, "heads": 8, "kv_heads": 4, "ffn": 768, "vocab": 4096},
          "1.1b": {"layers": 22, "dim": 2048, "heads": 32, "kv_heads": 4, "ffn": 5632, "vocab": 32000},
          "3b": {"layers": 28, "dim": 3072, "heads": 24, "kv_heads": 8, "ffn": 8192, "vocab": 32000}}
CONTEXT, THETA, EPS = 4096, 10000.0, 1e-5
PYPI = {"llama_cpp": "llama-cpp-python"}
ROWS = 127  # random rows of a matrix; those behind repeat them, which takes no peer less time


class Shape:
    def __init__(self, text):
        if text in SHAPES:
            s = SHAPES[text]
        else:
            with open(os.path.join(text, "config.json"), encoding="utf-8") as f:
                c = json.load(f)
            s = {"layers": c["num_hidden_layers"], "dim": c["hidden_size"], "heads": c["num_attention_heads"],
                 "kv_heads": c["num_key_value_heads"], "ffn": c["intermediate_size"], "vocab": c["vocab_size"]}
        self.__dict__.update(s)
        self.head = self.dim // self.heads
        self.kv = self.kv_heads * self.head
        self.rng = np.random.default_rng(1)

    def matrix(self, n, k):
        """The first rows of [n, k], what a product of k inputs and n outputs takes."""
        return self.rng.standard_normal((min(n, ROWS), k), dtype=np.float32) * np.float32(k ** -0.5)

    def table(self):
        return np.resize(self.rng.standard_normal((min(self.vocab, ROWS), self.dim), dtype=np.float32),
                         (self.vocab, self.dim))

    def nibbles(self, n, k, group):
        """A matrix in 4 bits: [n, k / 2] bytes of codes 0..15 that stand for code - 8, low nibble first; scales [n, k / group]."""
        w = self.matrix(n, k).reshape(-1, k // group, group)
        scale = np.abs(w).max(axis=2) / np.float32(8)
        code = (np.clip(np.rint(w / scale[..., None]), -8, 7) + 8).astype(np.uint8).reshape(-1, k)
        return np.resize(code[:, 0::2] | code[:, 1::2] << 4, (n, k // 2)), np.resize(scale, (n, k // group))

    def params(self):
        return self.layers * self.dim * (2 * self.dim + 2 * self.kv + 3 * self.ffn) + 2 * self.vocab * self.dim

    def label(self, weights):
        n = self.params()
        return f"llama {n / 1e9:.1f}B {weights}" if n > 5e8 else f"llama {n / 1e6:.1f}M {weights}"


def matrices(s):
    """Of one layer: name in GGUF, rows, columns."""
    return (("attn_q", s.dim, s.dim), ("attn_k", s.kv, s.dim), ("attn_v", s.kv, s.dim), ("attn_output", s.dim, s.dim),
            ("ffn_gate", s.ffn, s.dim), ("ffn_up", s.ffn, s.dim), ("ffn_down", s.dim, s.ffn))


def ggml_quantize(w, kind):
    """The formats that PyPI's gguf does not write: llama-cpp-python brings ggml's own routine."""
    import ctypes

    import gguf
    import llama_cpp
    block, size = gguf.GGML_QUANT_SIZES[kind]
    lib = ctypes.CDLL(os.path.join(os.path.dirname(llama_cpp.__file__), "lib", "libggml-base.so"))
    out = np.empty((w.shape[0], w.shape[1] // block * size), np.uint8)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    wrote = lib.ggml_quantize_chunk(ctypes.c_int(kind), w.ctypes.data_as(ctypes.c_void_p), out.ctypes.data_as(ctypes.c_void_p),
                                    ctypes.c_int64(0), ctypes.c_int64(w.shape[0]), ctypes.c_int64(w.shape[1]), None)
    if wrote != out.nbytes:
        raise RuntimeError(f"ggml_quantize_chunk wrote {wrote} bytes, not {out.nbytes}")
    return out


def words(s, gguf, w):
    """A made-up vocabulary, for programs that turn ids into text: 3 control ids, bytes, and words."""
    w.add_tokenizer_model("llama")
    names = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + [f"\u2581w{i}" for i in range(259, s.vocab)]
    kinds = [gguf.TokenType.UNKNOWN] + 2 * [gguf.TokenType.CONTROL] + 256 * [gguf.TokenType.BYTE] + (s.vocab - 259) * [gguf.TokenType.NORMAL]
    w.add_token_list(names)
    w.add_token_scores([-float(i) for i in range(s.vocab)])
    w.add_token_types(kinds)
    w.add_bos_token_id(1)
    w.add_eos_token_id(2)


def make_gguf(s, out, kind, group, with_words=False):
    del group
    import gguf
    kind = gguf.GGMLQuantizationType[kind]
    files = {k.name: k for k in gguf.LlamaFileType}
    w = gguf.GGUFWriter(out, "llama")
    for add, value in ((w.add_context_length, CONTEXT), (w.add_embedding_length, s.dim), (w.add_block_count, s.layers),
                       (w.add_feed_forward_length, s.ffn), (w.add_head_count, s.heads), (w.add_head_count_kv, s.kv_heads),
                       (w.add_rope_dimension_count, s.head), (w.add_rope_freq_base, THETA), (w.add_layer_norm_rms_eps, EPS),
                       (w.add_vocab_size, s.vocab),
                       (w.add_quantization_version, gguf.GGML_QUANT_VERSION),
                       (w.add_file_type, files.get(f"MOSTLY_{kind.name}") or files[f"MOSTLY_{kind.name}_S"])):
        add(value)
    if with_words:
        words(s, gguf, w)
    else:
        w.add_tokenizer_model("no_vocab")

    def matrix(name, n, value):
        if value.shape[1] % gguf.GGML_QUANT_SIZES[kind][0]:
            raise SystemExit(f"make.py: {name} has rows of {value.shape[1]}, which {kind.name} does not divide")
        try:
            data = gguf.quants.quantize(value, kind)
        except NotImplementedError:
            data = ggml_quantize(value, kind)
        w.add_tensor(name + ".weight", np.resize(data, (n, data.shape[1])), raw_dtype=kind)

    def norm(name):
        w.add_tensor(name + ".weight", np.ones(s.dim, np.float32))

    matrix("token_embd", s.vocab, s.table()[:ROWS])
    for i in range(s.layers):
        norm(f"blk.{i}.attn_norm")
        norm(f"blk.{i}.ffn_norm")
        for name, rows, columns in matrices(s):
            matrix(f"blk.{i}.{name}", rows, s.matrix(rows, columns))
    norm("output_norm")
    matrix("output", s.vocab, s.matrix(s.vocab, s.dim))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


class OpenvinoGraph:
    """The graph that optimum-intel exports, each operator in the form that OpenVINO's passes look for."""

    def __init__(self, s, group):
        import openvino as ov
        from openvino import opset13
        self.ov, self.o, self.s, self.group, self.past, self.present = ov, opset13, s, group, [], []
        self.kept = []  # arrays that constants point into

    def const(self, value, dtype=np.int64):
        return self.o.constant(np.asarray(value, dtype))

    def weight(self, n, k):
        """[n, k] in i4 as nncf's INT4_SYM writes it, scales in f16."""
        ov, o, group = self.ov, self.o, self.group
        codes, scale = self.s.nibbles(n, k, group)
        codes ^= np.uint8(0x88)  # code - 8 in two's complement
        self.kept.append(codes)
        packed = o.constant(ov.Tensor(codes, ov.Shape([n, k // group, group]), ov.Type.i4))
        w = o.multiply(o.convert(packed, "f16"), self.const(scale[..., None], np.float16))
        return o.convert(o.reshape(w, self.const([n, k]), False), "f32")

    def linear(self, x, n, k):
        return self.o.matmul(x, self.weight(n, k), False, True)

    def norm(self, x):
        o = self.o
        mean = o.reduce_mean(o.power(x, self.const(2, np.float32)), self.const([-1]), True)
        root = o.sqrt(o.add(mean, self.const(EPS, np.float32)))
        y = o.multiply(x, o.divide(self.const(1, np.float32), root))
        return o.multiply(self.const(np.ones((1, 1, self.s.dim)), np.float32), y)

    def heads(self, x, heads):
        o = self.o
        return o.transpose(o.reshape(x, self.const([0, 0, heads, self.s.head]), True), self.const([0, 2, 1, 3]))

    def rotate(self, x):
        o, half = self.o, self.s.head // 2
        one, last = self.const([1]), self.const([3])
        lo = o.slice(x, self.const([0]), self.const([half]), one, last)
        hi = o.slice(x, self.const([half]), self.const([2**63 - 1]), one, last)
        turned = o.concat([o.multiply(hi, self.const(-1, np.float32)), lo], -1)
        return o.add(o.multiply(x, self.cos), o.multiply(turned, self.sin))

    def cached(self, name, x):
        """x behind what came before."""
        o, s = self.o, self.s
        past = o.parameter([-1, s.kv_heads, -1, s.head], np.float32, name)
        both = o.concat([o.gather(past, self.beam, self.const(0)), x], 2)
        self.past.append(past)
        self.present.append(o.result(both))
        past.output(0).set_names({name})
        self.present[-1].output(0).set_names({name.replace("past_key_values", "present")})
        return both

    def hold(self, model):
        """Caches become variables, empty at first, as optimum-intel makes them."""
        from openvino._offline_transformations import apply_make_stateful_transformation
        o, s = self.o, self.s
        names = [next(iter(p.output(0).get_names())) for p in self.past]
        apply_make_stateful_transformation(model, {n: n.replace("past_key_values", "present") for n in names})
        shape = o.concat([self.batch, self.const([s.kv_heads, 0, s.head])], 0)
        for node in model.get_ops():
            if node.get_type_name() == "ReadValue":
                node.set_arguments([o.broadcast(self.const(0, np.float32), shape)])
        model.validate_nodes_and_infer_types()
        return model

    def repeat(self, x):
        """Each head of the cache for the queries that share it."""
        o, s = self.o, self.s
        shape = o.concat([self.batch, self.const([s.kv_heads, s.heads // s.kv_heads]),
                          o.gather(o.shape_of(x), self.const([2]), self.const(0)), self.const([s.head])], 0)
        wide = o.broadcast(o.unsqueeze(x, self.const(2)), shape, broadcast_spec="BIDIRECTIONAL")
        return o.reshape(wide, self.const([0, s.heads, -1, s.head]), True)

    def layer(self, i, x):
        o, s = self.o, self.s
        y = self.norm(x)
        q = self.rotate(self.heads(self.linear(y, s.dim, s.dim), s.heads))
        k = self.cached(f"past_key_values.{i}.key", self.rotate(self.heads(self.linear(y, s.kv, s.dim), s.kv_heads)))
        v = self.cached(f"past_key_values.{i}.value", self.heads(self.linear(y, s.kv, s.dim), s.kv_heads))
        y = o.scaled_dot_product_attention(q, self.repeat(k), self.repeat(v), self.mask(k))
        y = o.reshape(o.transpose(y, self.const([0, 2, 1, 3])), self.const([0, 0, s.dim]), True)
        x = o.add(x, self.linear(y, s.dim, s.dim))
        y = self.norm(x)
        y = o.multiply(o.swish(self.linear(y, s.ffn, s.dim)), self.linear(y, s.ffn, s.dim))
        return o.add(x, self.linear(y, s.dim, s.ffn))

    def mask(self, keys):
        """0 where a query may see a key, else the lowest float; one for all layers."""
        if self.hidden is None:
            o = self.o
            total = o.gather(o.shape_of(keys), self.const(2), self.const(0))
            columns = o.range(self.const(0), total, self.const(1), "i64")
            late = o.greater(o.unsqueeze(columns, self.const([0, 1, 2])), o.unsqueeze(self.position, self.const([1, 3])))
            self.hidden = o.select(late, self.const(np.finfo(np.float32).min, np.float32), self.const(0, np.float32))
        return self.hidden

    def model(self):
        o, s = self.o, self.s
        ids, self.position = o.parameter([-1, -1], np.int64, "input_ids"), o.parameter([-1, -1], np.int64, "position_ids")
        self.beam, self.hidden = o.parameter([-1], np.int32, "beam_idx"), None
        self.batch = o.gather(o.shape_of(ids), self.const([0]), self.const(0))
        inv = (THETA ** -(np.arange(0, s.head, 2) / s.head)).reshape(1, 1, 1, -1)
        at = o.convert(o.unsqueeze(self.position, self.const([1, 3])), "f32")
        half = o.multiply(at, self.const(inv, np.float32))
        both = o.concat([half, half], -1)
        self.cos, self.sin = o.cos(both), o.sin(both)
        table = o.convert(self.const(s.table(), np.float16), "f32")
        x = o.gather(table, ids, self.const(0))
        for i in range(s.layers):
            x = self.layer(i, x)
        x = self.norm(x)
        x = o.slice(x, self.const([-1]), self.const([2**63 - 1]), self.const([1]), self.const([1]))
        logits = o.result(self.linear(x, s.vocab, s.dim))
        for node, name in ((ids, "input_ids"), (self.position, "position_ids"), (self.beam, "beam_idx"), (logits, "logits")):
            node.output(0).set_names({name})
        ins = [ids, self.position, self.beam]
        return self.hold(self.ov.Model([logits, *self.present], [*ins, *self.past], "llama"))


def make_openvino(s, out, kind, group):
    del kind
    import openvino as ov
    graph = OpenvinoGraph(s, group)
    model = graph.model()
    model.set_rt_info(s.label(f"i4 g{group}"), ["tenon", "label"])
    os.makedirs(out, exist_ok=True)
    ov.save_model(model, os.path.join(out, "openvino_model.xml"), compress_to_fp16=False)


class GenaiGraph:
    """The graph that GenAI's builder writes for `-p int4 -e cpu --extra_options prune_lm_head=true`."""

    def __init__(self, s, data):
        from onnx import helper, numpy_helper
        self.h, self.nh, self.s, self.data, self.nodes, self.inits = helper, numpy_helper, s, data, [], []

    def op(self, kind, inputs, outputs, domain="", **attrs):
        self.nodes.append(self.h.make_node(kind, inputs, outputs, name=outputs[0], domain=domain, **attrs))
        return outputs[0]

    def init(self, name, value):
        """Small ones in the graph, others in the file beside it."""
        from onnx import TensorProto
        if value.nbytes < 1024:
            self.inits.append(self.nh.from_array(value, name))
            return name
        t = TensorProto(name=name, data_type=self.h.np_dtype_to_tensor_dtype(value.dtype), dims=value.shape,
                        data_location=TensorProto.EXTERNAL)
        self.data.seek(-(-self.data.tell() // 4096) * 4096)
        for k, v in (("location", "model.onnx.data"), ("offset", self.data.tell()), ("length", value.nbytes)):
            t.external_data.add(key=k, value=str(v))
        value.tofile(self.data)
        self.inits.append(t)
        return name

    def linear(self, name, x, n, k):
        codes, scale = self.s.nibbles(n, k, 32)
        # Positive codes stand for code - 8, as here, where no zero points are given
        return self.op("MatMulNBits", [x, self.init(name + ".qweight", codes.reshape(n, k // 32, 16)),
                                       self.init(name + ".scales", scale)], [name], "com.microsoft", K=k, N=n, bits=4,
                       block_size=32, accuracy_level=4)

    def skip_norm(self, name, x, skip):
        """The sum that goes on, and its norm."""
        self.op("SkipSimplifiedLayerNormalization", [skip, x, self.ones], [name, "", "", name + ".sum"], "com.microsoft",
                epsilon=EPS)
        return name, name + ".sum"

    def lengths(self):
        one = self.init("one", np.array([1], np.int64))
        total = self.op("ReduceSum", ["attention_mask", one], ["mask.sum"], keepdims=0)
        self.op("Cast", [self.op("Sub", [total, one], ["mask.sub"])], ["seqlens_k"], to=6)
        shape = self.op("Shape", ["attention_mask"], ["mask.shape"])
        self.op("Cast", [self.op("Gather", [shape, self.init("one0", np.array(1, np.int64))], ["mask.length"])],
                ["total_length"], to=6)

    def layer(self, i, x, y):
        s, n = self.s, f"layers.{i}"
        qkv = self.linear(n + ".qkv", y, s.dim + 2 * s.kv, s.dim)
        past = [f"past_key_values.{i}.key", f"past_key_values.{i}.value"]
        y = self.op("GroupQueryAttention", [qkv, "", "", *past, "seqlens_k", "total_length", "cos_cache", "sin_cache"],
                    [n + ".gqa", f"present.{i}.key", f"present.{i}.value"], "com.microsoft", num_heads=s.heads,
                    kv_num_heads=s.kv_heads, scale=s.head ** -0.5, local_window_size=-1, softcap=0.0, do_rotary=1,
                    rotary_interleaved=0)
        y, x = self.skip_norm(n + ".post_norm", self.linear(n + ".o", y, s.dim, s.dim), x)
        gate, up = self.linear(n + ".gate", y, s.ffn, s.dim), self.linear(n + ".up", y, s.ffn, s.dim)
        gate = self.op("Mul", [gate, self.op("Sigmoid", [gate], [n + ".sigmoid"])], [n + ".silu"])
        y = self.linear(n + ".down", self.op("Mul", [gate, up], [n + ".act"]), s.dim, s.ffn)
        return self.skip_norm(n + ".next_norm", y, x)

    def model(self):
        s, h = self.s, self.h
        self.lengths()
        angles = np.outer(np.arange(CONTEXT), THETA ** -(np.arange(0, s.head, 2) / s.head))
        self.init("cos_cache", np.cos(angles).astype(np.float32))
        self.init("sin_cache", np.sin(angles).astype(np.float32))
        self.ones = self.init("ones", np.ones(s.dim, np.float32))
        x = self.op("Gather", [self.init("embed", s.table()), "input_ids"], ["embedded"])
        y = self.op("SimplifiedLayerNormalization", [x, self.ones], ["first_norm"], axis=-1, epsilon=EPS, stash_type=1)
        for i in range(s.layers):
            y, x = self.layer(i, x, y)
        last = self.init("last", np.array([-1], np.int64))
        self.linear("logits", self.op("Gather", [y, last], ["last_row"], axis=1), s.vocab, s.dim)
        ins = [h.make_tensor_value_info(n, 7, ["batch_size", d]) for n, d in (("input_ids", "sequence_length"),
                                                                              ("attention_mask", "total_sequence_length"))]
        outs = [h.make_tensor_value_info("logits", 1, ["batch_size", 1, s.vocab])]
        for i in range(s.layers):
            for kind in ("key", "value"):
                for into, name, length in ((ins, "past_key_values", "past_sequence_length"),
                                           (outs, "present", "total_sequence_length")):
                    into.append(h.make_tensor_value_info(f"{name}.{i}.{kind}", 1,
                                                         ["batch_size", s.kv_heads, length, s.head]))
        g = h.make_graph(self.nodes, "main_graph", ins, outs, self.inits)
        return h.make_model(g, opset_imports=[h.make_opsetid("", 21), h.make_opsetid("com.microsoft", 1)], ir_version=10,
                            producer_name="tenon-bench")


def make_genai(s, out, kind, group):
    del kind, group
    os.makedirs(out, exist_ok=True)
    with open(os.path.join(out, "model.onnx"), "wb") as f, open(os.path.join(out, "model.onnx.data"), "wb") as data:
        f.write(GenaiGraph(s, data).model().SerializeToString())
    names = {f"{w}_{k}_names": f"{p}.%d.{k}" for w, p in (("past", "past_key_values"), ("present", "present"))
             for k in ("key", "value")}
    ins = {"input_ids": "input_ids", "attention_mask": "attention_mask"}
    decoder = {"session_options": {"log_id": s.label("int4 b32"), "provider_options": []}, "filename": "model.onnx",
               "head_size": s.head, "hidden_size": s.dim, "num_attention_heads": s.heads, "num_hidden_layers": s.layers,
               "num_key_value_heads": s.kv_heads,
               "inputs": ins | {k: v for k, v in names.items() if k.startswith("past")},
               "outputs": {"logits": "logits"} | {k: v for k, v in names.items() if k.startswith("present")}}
    config = {"model": {"type": "llama", "vocab_size": s.vocab, "context_length": CONTEXT, "bos_token_id": 1,
                        "eos_token_id": 2, "pad_token_id": 0, "decoder": decoder},
              "search": {"do_sample": False, "max_length": CONTEXT, "past_present_share_buffer": True}}
    with open(os.path.join(out, "genai_config.json"), "w", encoding="utf-8") as f:
        json.dump(config, f, indent=1)


def main():
    peers = {"llama.cpp": (make_gguf, "gguf"), "openvino": (make_openvino, "openvino"), "genai": (make_genai, "onnx")}
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--peer", required=True, choices=list(peers))
    p.add_argument("--shape", required=True, help="tiny, 1.1b, 3b or a folder of make_llama.py's")
    p.add_argument("--type", default="Q4_0", choices=["Q4_0", "Q4_K", "Q3_K", "Q2_K", "TQ2_0", "IQ4_NL", "Q8_0"],
                   help="of llama.cpp's matrices (default Q4_0)")
    p.add_argument("--group", type=int, default=128, choices=[32, 128], help="of OpenVINO's weights (default 128)")
    p.add_argument("--words", action="store_true", help="llama.cpp: with a made-up vocabulary, which its server needs")
    a = p.parse_args()
    make, package = peers[a.peer]
    if a.words and a.peer != "llama.cpp":
        p.error("--words is of --peer llama.cpp")
    try:
        s = Shape(a.shape)
    except (OSError, KeyError, ValueError) as e:
        p.error(f"--shape {a.shape}: {e}")
    try:
        make(s, a.out, a.type, a.group, *([True] if a.words else []))
    except ImportError as e:
        print(f"make.py: {e}: install PyPI's {PYPI.get(e.name, e.name or package)} (bench/peers/install.sh VENV)", file=sys.stderr)
        return 3
    print(f"{a.out}: {s.label(a.type if a.peer == 'llama.cpp' else 'int4')}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
