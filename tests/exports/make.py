# SPDX-License-Identifier: Apache-2.0
"""Random-weight exports as exporters write them, with ONNX Runtime's outputs as goldens.

    make.py OUT [NAME...]

Writes OUT/NAME/model.onnx (and test_data_set_K) for each architecture of the tables below, or for those that are named.
README.md says what it needs and how models.tar.xz is made of it. Weights lie on a coarse grid, so that they compress.
"""
import pathlib
import shutil
import sys
import tempfile
import traceback

import ml_dtypes
import numpy as np
import onnx
import onnxruntime as ort
import torch
import transformers
from onnx import numpy_helper

import goldens
from goldens import NUMPY, oracle, session

VOCAB, HIDDEN, INNER, LAYERS, HEADS, KV = 96, 32, 64, 2, 4, 2
SMALL = dict(vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=LAYERS,
             num_attention_heads=HEADS, max_position_embeddings=64, bos_token_id=1, eos_token_id=2, pad_token_id=0)
GROUPED = dict(SMALL, num_key_value_heads=KV)
TORCH = {np.dtype(np.float32): "tensor(float)", np.dtype(np.float16): "tensor(float16)"}


def coarse(model, seed):
    """Parameters on a grid: norms around 1, matrices scaled by their inputs."""
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, p in model.named_parameters():
            n = torch.randint(-7, 8, p.shape, generator=g).to(p.dtype)
            if p.dim() < 2:
                p.copy_(n / 64 + (1 if "norm" in name.lower() or "ln" in name.lower() else 0))
            else:
                p.copy_(n / 8 / (2 ** round(np.log2(max(1, p[0].numel()) ** 0.5))))
    return model.eval()


def lively(model, gain):
    """Stronger layers and weaker biases. Biases and tied embeddings would else choose one token, and that for ever."""
    outside = {id(model.get_input_embeddings().weight), id(model.get_output_embeddings().weight)}
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith("bias"):
                p.div_(16)
            elif p.dim() > 1 and id(p) not in outside and "wpe" not in name and "embed_positions" not in name:
                p.mul_(gain)
    return model


def causal(name, gain=1, **cfg):
    config = transformers.AutoConfig.for_model(name, **cfg)
    torch.manual_seed(0)
    model = coarse(transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager"), len(name))
    return model if gain == 1 else lively(model, gain)


# --- inputs and goldens ---

def dims(info, known, default):
    return [d if isinstance(d, int) else known.get(d, default) for d in info.shape]


class Feeder:
    """Feeds for a run of S new positions behind P of a batch of B."""

    def __init__(self, sess, seed=0, padded=True):
        self.sess, self.rng, self.padded = sess, np.random.default_rng(seed), padded
        self.vocab, self.size, self.left = VOCAB, 32, True

    def feeds(self, B, S, P, past=None, extra=None):
        mask = np.ones((B, P + S), np.int64)
        if B > 1 and self.padded:
            mask[1, slice(0, 2) if self.left else slice(-2, None)] = 0
        positions = np.maximum(np.cumsum(mask, 1) - 1, 0)[:, P:]
        out = {}
        for i in self.sess.get_inputs():
            t, n = NUMPY[i.type], i.name
            if extra and n in extra:
                v = extra[n]
            elif n.startswith("past"):
                shape = [B] + list(i.shape[1:])
                shape = [s if isinstance(s, int) else goldens.size_of(s) or P for s in shape]
                v = past[n] if past else np.zeros(shape)
            elif n in ("attention_mask", "encoder_attention_mask"):
                v = mask
            elif n == "position_ids":
                v = positions
            elif n in ("input_ids", "decoder_input_ids"):
                v = self.rng.integers(3, self.vocab, (B, S))
            elif n == "token_type_ids":
                v = self.rng.integers(0, 2, (B, S))
            elif n == "use_cache_branch":
                v = np.array([past is not None])
            elif n == "inputs_embeds":
                v = self.rng.standard_normal((B, S, i.shape[2]))
            elif n == "encoder_hidden_states":
                v = self.rng.standard_normal((B, S, HIDDEN))
            elif n == "input_values":
                v = self.rng.standard_normal((B, 800))
            elif n == "pixel_mask":
                v = np.ones([B] + [s if isinstance(s, int) else self.size for s in i.shape[1:]])
            elif n == "pixel_values" or len(i.shape) == 4:
                v = self.rng.standard_normal([B, 3] + [s if isinstance(s, int) else self.size for s in i.shape[2:]])
            else:
                raise RuntimeError(f"input {n} {i.shape} {i.type}")
            out[n] = np.ascontiguousarray(v).astype(t)
        return out


def halves(folder):
    """Inputs and outputs of halves, which an oracle may have in f32."""
    graph = onnx.load(folder / "model.onnx", load_external_data=False).graph
    types = {goldens.BF16: ml_dtypes.bfloat16, onnx.TensorProto.FLOAT16: np.float16}
    return {v.name: types[v.type.tensor_type.elem_type] for v in list(graph.input) + list(graph.output)
            if v.type.tensor_type.elem_type in types}


def write_set(folder, k, sess, feeds):
    """Runs and writes test_data_set_K; outputs by name."""
    narrow = halves(folder)
    for n in narrow.keys() & feeds.keys():
        feeds[n] = feeds[n].astype(narrow[n]).astype(feeds[n].dtype)
    outs = sess.run(None, feeds)
    d = folder / f"test_data_set_{k}"
    d.mkdir()

    def save(path, name, v):
        v = v.astype(narrow.get(name, v.dtype))
        path.write_bytes(numpy_helper.from_array(v, name).SerializeToString())

    for i, info in enumerate(sess.get_inputs()):
        save(d / f"input_{i}.pb", info.name, feeds[info.name])
    for i, (info, v) in enumerate(zip(sess.get_outputs(), outs)):
        assert np.isfinite(v.astype(np.float64)).all(), f"{info.name} is not finite"
        save(d / f"output_{i}.pb", info.name, v)
    return {info.name: v for info, v in zip(sess.get_outputs(), outs)}


def presents(sess, outs, before=None):
    """past_* of the next run. A branch that hands on empty presents keeps the one before."""
    past = {}
    for i in sess.get_inputs():
        n = i.name
        if not n.startswith("past"):
            continue
        for o in (n.replace("past_key_values", "present"), n.replace("past", "present")):
            if o in outs:
                past[n] = outs[o] if outs[o].size or not before else before[n]
    return past


def lm_sets(folder, padded=True, chunk=True):
    """Prefill, cached decode, chunked decode; batch 2 without a past, and with one that is padded on the left."""
    s = oracle(folder / "model.onnx")
    f = Feeder(s, 1, padded)
    first = presents(s, write_set(folder, 0, s, f.feeds(1, 6, 0)))
    f.padded = False  # rows of padding are not compared: what they hold nothing may read
    write_set(folder, 1, s, f.feeds(2, 5, 0))
    f.padded = padded
    feeds = f.feeds(2, 5, 0)
    two = presents(s, dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds))))
    write_set(folder, 2, s, f.feeds(1, 1, 6, first))
    if chunk:
        write_set(folder, 3, s, f.feeds(1, 3, 6, first))
    write_set(folder, 4, s, f.feeds(2, 1, 5, two))


def ragged_sets(folder, first):
    """Two steps behind a prompt whose second sequence is padded on the right. Of GroupQueryAttention alone: it writes each
    sequence's row behind that sequence's last one, where models with a mask append behind the padding."""
    s = oracle(folder / "model.onnx")
    f = Feeder(s, 2)
    mask = np.array([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]])

    def feeds(S, past):
        told = {"attention_mask": mask, "position_ids": np.maximum(np.cumsum(mask, 1) - 1, 0)[:, mask.shape[1] - S:]}
        return f.feeds(2, S, mask.shape[1] - S, past, told)
    outs = dict(zip([o.name for o in s.get_outputs()], s.run(None, feeds(5, None))))
    for k in range(2):
        mask = np.concatenate([mask, np.ones((2, 1), mask.dtype)], 1)
        outs = write_set(folder, first + k, s, feeds(1, presents(s, outs)))


def plain_sets(folder, size=32):
    s = session(folder / "model.onnx")
    f = Feeder(s, 1)
    f.size, f.left = size, False
    fixed = s.get_inputs()[0].shape[0] == 1
    write_set(folder, 0, s, f.feeds(1, 7, 0))
    if not fixed:
        write_set(folder, 1, s, f.feeds(2, 5, 0))


# --- exporters ---

def optimum(model, folder, task, keep="model.onnx", **more):
    from optimum.exporters.onnx import onnx_export_from_model
    with tempfile.TemporaryDirectory() as t:
        onnx_export_from_model(model, t, task=task, do_validation=False, opset=more.pop("opset", 18), **more)
        for k in ([keep] if isinstance(keep, str) else keep):
            shutil.copy(pathlib.Path(t) / k, folder / ("model.onnx" if isinstance(keep, str) else k))


def optimum_lm(name, **cfg):
    def make(folder):
        optimum(causal(name, **cfg), folder, "text-generation-with-past")
        lm_sets(folder)
    return make


class Bare(torch.nn.Module):
    """Logits only. A causal model gets its mask ready made, as exporters' own masks take code that tracing cannot follow."""

    def __init__(self, model):
        super().__init__()
        self.model, self.causal = model, hasattr(model, "lm_head")

    def run(self, first, **named):
        if self.causal:
            length = first.shape[1]
            seen = torch.ones(length, length, dtype=torch.bool).tril()[None, None]
            seen = seen & (named["attention_mask"] != 0)[:, None, None, :]
            named["attention_mask"] = torch.where(seen, 0.0, torch.finfo(torch.float32).min)
            named["use_cache"] = False
        return self.model(**named, return_dict=True)[0]


class Ids(Bare):
    def forward(self, input_ids, attention_mask):
        return self.run(input_ids, input_ids=input_ids, attention_mask=attention_mask)


class Embeds(Bare):
    def forward(self, inputs_embeds, attention_mask):
        return self.run(inputs_embeds, inputs_embeds=inputs_embeds, attention_mask=attention_mask)


class Pixels(Bare):
    def forward(self, pixel_values):
        return self.model(pixel_values=pixel_values, return_dict=True)[0]


FORMS = {"input_ids": Ids, "inputs_embeds": Embeds, "pixel_values": Pixels}


def example(model, names):
    values = {"input_ids": torch.randint(3, VOCAB, (2, 5)), "attention_mask": torch.ones(2, 5, dtype=torch.int64),
              "inputs_embeds": torch.randn(2, 5, HIDDEN),
              "pixel_values": torch.randn(2, 3, 32, 32)}
    return tuple(values[n] for n in names)


def torch_export(build, names, dynamo):
    def make(folder):
        model, form = build(), FORMS[names[0]]
        axes = {n: {0: "batch"} if n == "pixel_values" else {0: "batch", 1: "sequence"} for n in names}
        args = example(model, names)
        if dynamo:
            shapes = {n: {k: torch.export.Dim.DYNAMIC for k in a} for n, a in axes.items()}
            torch.onnx.export(form(model), args, folder / "model.onnx", input_names=list(names),
                              output_names=["logits"], dynamic_shapes=shapes, dynamo=True, external_data=False)
        else:
            torch.onnx.export(form(model), args, folder / "model.onnx", input_names=list(names),
                              output_names=["logits"], dynamic_axes=dict(axes, logits={0: "batch"}), dynamo=False,
                              opset_version=17)
        plain_sets(folder)
    return make


HALVES = 25 * 2.0 ** -11  # some 25 operators behind one another, each rounding a value around 1 to 11 bits
BRAINS = 25 * 2.0 ** -8   # to 8 bits


def build(name, precision="int4", options=None, ep="cpu", **cfg):
    """What GenAI's builder makes of a random model."""
    from tokenizers import Tokenizer, models as tm
    from onnxruntime_genai.models import builder
    with tempfile.TemporaryDirectory() as t:
        src, dst = pathlib.Path(t) / "src", pathlib.Path(t) / "dst"
        causal(name, **cfg).save_pretrained(src)
        tok = Tokenizer(tm.WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w0"))
        transformers.PreTrainedTokenizerFast(tokenizer_object=tok, eos_token="w2").save_pretrained(src)
        more = dict({"int4_accuracy_level": 1, "int4_block_size": 32}, **(options or {}))
        builder.create_model(None, str(src), str(dst), precision, ep, str(pathlib.Path(t) / "cache"), **more)
        return onnx.load(dst / "model.onnx")


def genai(name, precision="int4", padded=False, options=None, ep="cpu", change=None, **cfg):
    def make(folder):
        m = build(name, precision, options, ep, **cfg)
        if change:
            change(m.graph)
        onnx.save(m, folder / "model.onnx")
        counts = goldens.counts_rows(m)
        lm_sets(folder, padded, counts)  # the builder's own masks fit prompts and single tokens
        if counts:
            ragged_sets(folder, 5)
        types = {i.type.tensor_type.elem_type for i in m.graph.input}
        if types & {onnx.TensorProto.FLOAT16, goldens.BF16}:
            bound = BRAINS if goldens.BF16 in types else HALVES
            (folder / "bound").write_text(f"{bound:.3f} {bound:.3f}\n")
    return make


def named_size(graph):
    """The size of a head gets a name in caches, as the builder's version 0.18 gives it."""
    for v in list(graph.input) + list(graph.output):
        if v.name.startswith(("past", "present")):
            v.type.tensor_type.shape.dim[3].dim_param = "kv_cache_dim"


def pruned(graph):
    """Logits of the last token alone, as the builder's prune_lm_head makes them: its hidden state is cut out before the
    head."""
    head = next(n for n in graph.node if n.output[0] == "logits")
    graph.initializer.append(numpy_helper.from_array(np.array([-1]), "/lm_head/last"))
    cut = onnx.helper.make_node("Gather", [head.input[0], "/lm_head/last"], ["/lm_head/Gather/output_0"],
                                "/lm_head/Gather", axis=1)
    at = list(graph.node).index(head)
    head.input[0] = "/lm_head/Gather/output_0"
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend(nodes[:at] + [cut] + nodes[at:])


def encoder(build, task, size=32):
    def make(folder):
        optimum(build(), folder, task)
        plain_sets(folder, size)
    return make


def auto(cls, name, seed=3, **cfg):
    def build():
        torch.manual_seed(0)
        model = cls(transformers.AutoConfig.for_model(name, **cfg)) if not hasattr(cls, "from_config") else \
            cls.from_config(transformers.AutoConfig.for_model(name, **cfg), attn_implementation="eager")
        return coarse(model, seed)
    return build


def merged(build, task="text2text-generation-with-past", length=7):
    """A merged decoder behind an encoder's `length` states."""
    def make(folder):
        optimum(build(), folder, task, keep="decoder_model_merged.onnx")
        s = session(folder / "model.onnx")
        f = Feeder(s, 1)
        for B, k in ((1, 0), (2, 2)):
            known = {"encoder_hidden_states": f.rng.standard_normal((B, length, HIDDEN)),
                     "encoder_attention_mask": np.ones((B, length), np.int64)}
            empty = {i.name: np.zeros([B] + [d if isinstance(d, int) else 1 for d in i.shape[1:]])
                     for i in s.get_inputs() if i.name.startswith("past")}
            one = f.feeds(B, 4, 0, None, dict(known, **empty))
            first = write_set(folder, k, s, one)
            write_set(folder, k + 1, s, f.feeds(B, 1, 4, presents(s, first, empty), known))
    return make


def t5():
    return coarse(transformers.T5ForConditionalGeneration(t5_config()), 5)


def trocr():
    config = T.VisionEncoderDecoderConfig.from_encoder_decoder_configs(
        T.ViTConfig(**VISION), T.TrOCRConfig(vocab_size=VOCAB, d_model=HIDDEN, decoder_layers=2, decoder_ffn_dim=INNER,
                                             decoder_attention_heads=4, max_position_embeddings=64,
                                             cross_attention_hidden_size=HIDDEN))
    config.decoder_start_token_id, config.pad_token_id = 1, 0
    torch.manual_seed(0)
    return coarse(T.VisionEncoderDecoderModel(config), 3)


def both(cls, **more):
    """Encoder and decoder of one width."""
    def build():
        config = cls.config_class(**dict(BOTH, **more))
        torch.manual_seed(0)
        return coarse(cls._from_config(config, attn_implementation="eager"), 3)
    return build


def detr():
    backbone = T.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic",
                              out_features=["stage2"])
    torch.manual_seed(0)
    return coarse(T.DetrForObjectDetection(T.DetrConfig(
        use_timm_backbone=False, use_pretrained_backbone=False, backbone=None, backbone_config=backbone, d_model=HIDDEN,
        encoder_layers=1, decoder_layers=1, encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=32,
        decoder_ffn_dim=32, num_queries=5)), 3)


def owlvit():
    one = dict(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=1, num_attention_heads=4)
    torch.manual_seed(0)
    return coarse(T.OwlViTForObjectDetection(T.OwlViTConfig(
        text_config=dict(one, vocab_size=VOCAB, max_position_embeddings=16, bos_token_id=1, eos_token_id=2),
        vision_config=dict(one, image_size=32, patch_size=8), projection_dim=HIDDEN)), 3)


def t5_config():
    return transformers.T5Config(vocab_size=VOCAB, d_model=HIDDEN, d_kv=8, d_ff=INNER, num_layers=2, num_heads=4,
                                 decoder_start_token_id=0, feed_forward_proj="gated-gelu")


def t5_part(part):
    def make(folder):
        optimum(t5(), folder, "text2text-generation-with-past", keep=part, no_post_process=True)
        s = session(folder / "model.onnx")
        f = Feeder(s, 1)
        if part == "encoder_model.onnx":
            return plain_sets(folder)
        for B in (1, 2):
            known = {"encoder_hidden_states": f.rng.standard_normal((B, 7, HIDDEN)),
                     "encoder_attention_mask": np.ones((B, 7), np.int64)}
            past = {i.name: f.rng.standard_normal(
                [B] + [d if isinstance(d, int) else 7 if "encoder" in i.name else 4 for d in i.shape[1:]])
                for i in s.get_inputs() if i.name.startswith("past")}
            S = 1 if past else 4
            write_set(folder, B - 1, s, f.feeds(B, S, 4, past or None, dict(known, **past)))
    return make


def clip():
    c = dict(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2, num_attention_heads=4)
    torch.manual_seed(0)
    return coarse(transformers.CLIPModel(transformers.CLIPConfig(
        text_config=dict(c, vocab_size=VOCAB, max_position_embeddings=32, bos_token_id=1, eos_token_id=2),
        vision_config=dict(c, image_size=32, patch_size=8), projection_dim=16)), 4)


def tv(name, **kw):
    def build():
        import torchvision
        torch.manual_seed(0)
        return coarse(getattr(torchvision.models, name)(weights=None, **kw), 7)
    return build


def efficientnet():
    from torchvision.models.efficientnet import EfficientNet, MBConvConfig
    torch.manual_seed(0)
    return EfficientNet([MBConvConfig(1, 3, 1, 8, 8, 1), MBConvConfig(4, 3, 2, 8, 16, 2)], 0.0, num_classes=10)


class Image(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, pixel_values):
        return self.model(pixel_values)


def image(build, dynamo, size=32):
    def make(folder):
        x = torch.randn(2, 3, size, size)
        m = Image(build())
        if dynamo:
            torch.onnx.export(m, (x,), folder / "model.onnx", input_names=["pixel_values"], output_names=["logits"],
                              dynamic_shapes=({0: torch.export.Dim.DYNAMIC},), dynamo=True, external_data=False)
        else:
            torch.onnx.export(m, (x,), folder / "model.onnx", input_names=["pixel_values"], output_names=["logits"],
                              dynamic_axes={"pixel_values": {0: "batch"}, "logits": {0: "batch"}}, dynamo=False,
                              opset_version=17)
        plain_sets(folder)
    return make


WIDE = dict(SMALL, num_attention_heads=2, num_key_value_heads=1)  # heads of 16: less ONNX Runtime refuses
BLOCKS = dict(WIDE, hidden_size=128, intermediate_size=128)
EVEN = dict(WIDE, hidden_size=64)  # zero points of two blocks in a byte, which the builder takes for granted
ONE = dict(SMALL, num_attention_heads=1, num_key_value_heads=1)
# --- what ONNX Runtime's own tools make of an export ---

def rewritten(base):
    """Makes the export `base`, keeps its goldens (its own where change returns True) and changes its model."""
    def wrap(change):
        def make(folder):
            MODELS[base](folder)
            path = folder / "model.onnx"
            if change(path):
                for d in folder.glob("test_data_set_*"):
                    feeds = {t.name: numpy_helper.to_array(t) for t in (
                        onnx.TensorProto.FromString(p.read_bytes()) for p in d.glob("input_*.pb"))}
                    shutil.rmtree(d)
                    s = session(path, ort.GraphOptimizationLevel.ORT_DISABLE_ALL)
                    write_set(folder, int(d.name.rsplit("_", 1)[1]), s, feeds)
        return make
    return wrap


def transformers_optimizer(base, kind, heads=HEADS, hidden=HIDDEN, mha=False):
    def change(path):
        from onnxruntime.transformers import optimizer
        from onnxruntime.transformers.fusion_options import FusionOptions
        options = FusionOptions(kind)
        options.use_multi_head_attention = mha
        optimizer.optimize_model(str(path), model_type=kind, num_heads=heads, hidden_size=hidden, opt_level=0,
                                 optimization_options=options).save_model_to_file(str(path))
    return rewritten(base)(change)


def session_optimizer(base):
    def change(path):
        o = ort.SessionOptions()
        o.graph_optimization_level = ort.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        o.optimized_model_filepath = str(path) + ".new"
        ort.InferenceSession(str(path), o, providers=["CPUExecutionProvider"])
        shutil.move(str(path) + ".new", path)
    return rewritten(base)(change)


def quantizer(base, kind):
    def change(path):
        from onnxruntime import quantization as q
        new = path.with_suffix(".new")
        if kind == "dynamic":
            q.quantize_dynamic(path, new, reduce_range=True)
        else:
            class Reader(q.CalibrationDataReader):
                def __init__(self):
                    self.sets = iter([{t.name: numpy_helper.to_array(t) for t in (
                        onnx.TensorProto.FromString(p.read_bytes())
                        for p in (path.parent / "test_data_set_0").glob("input_*.pb"))}])

                def get_next(self):
                    return next(self.sets, None)

            q.quantize_static(path, new, Reader(), reduce_range=True,
                              quant_format=q.QuantFormat.QDQ if kind == "qdq" else q.QuantFormat.QOperator)
        new.rename(path)
        return True
    return rewritten(base)(change)


BERT = dict(SMALL, max_position_embeddings=40, type_vocab_size=2)
VISION = dict(hidden_size=HIDDEN, intermediate_size=INNER, num_hidden_layers=2, num_attention_heads=4, image_size=32,
              patch_size=8)
SPEECH = dict(hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=4, intermediate_size=INNER, vocab_size=VOCAB,
              conv_dim=[16, 16, 16], conv_kernel=[10, 3, 3], conv_stride=[5, 2, 2], num_conv_pos_embeddings=8,
              num_conv_pos_embedding_groups=4, pad_token_id=0)
BOTH = dict(d_model=HIDDEN, encoder_layers=2, decoder_layers=2, encoder_attention_heads=4, decoder_attention_heads=4,
            encoder_ffn_dim=INNER, decoder_ffn_dim=INNER, vocab_size=VOCAB, max_position_embeddings=64, pad_token_id=0,
            bos_token_id=1, eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=2)
T = transformers
MODELS = {
    # Optimum, decoders with a cache
    "optimum-llama": optimum_lm("llama", **GROUPED),
    "optimum-qwen2": optimum_lm("qwen2", **GROUPED),
    "optimum-qwen3": optimum_lm("qwen3", **GROUPED, head_dim=16),
    "optimum-mistral-window": optimum_lm("mistral", **GROUPED, sliding_window=4),
    "optimum-gpt2": optimum_lm("gpt2", gain=4, vocab_size=VOCAB, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=64),
    "optimum-gpt-neo": optimum_lm("gpt_neo", gain=4, vocab_size=VOCAB, hidden_size=HIDDEN, num_layers=2, num_heads=4,
                                  attention_types=[[["global", "local"], 1]], window_size=4, max_position_embeddings=64),
    "optimum-gpt-neox": optimum_lm("gpt_neox", gain=4, **SMALL, rotary_pct=0.5),
    "optimum-gptj": optimum_lm("gptj", gain=4, vocab_size=VOCAB, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=64,
                               rotary_dim=4),
    "optimum-codegen": optimum_lm("codegen", gain=4, vocab_size=VOCAB, n_embd=HIDDEN, n_layer=2, n_head=4, n_positions=64,
                                  rotary_dim=4),
    "optimum-phi": optimum_lm("phi", gain=4, **SMALL),
    "optimum-phi3": optimum_lm("phi3", **GROUPED),
    "optimum-gemma": optimum_lm("gemma", gain=4, **GROUPED, head_dim=8),
    "optimum-gemma3": optimum_lm("gemma3_text", **GROUPED, head_dim=8, sliding_window=4, query_pre_attn_scalar=8,
                                 layer_types=["sliding_attention", "full_attention"]),
    "optimum-falcon": optimum_lm("falcon", gain=4, vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=2,
                                 num_attention_heads=4, max_position_embeddings=64),
    "optimum-bloom": optimum_lm("bloom", gain=8, vocab_size=VOCAB, hidden_size=HIDDEN, n_layer=2, n_head=4),
    "optimum-opt": optimum_lm("opt", gain=4, vocab_size=VOCAB, hidden_size=HIDDEN, ffn_dim=INNER, num_hidden_layers=2,
                              num_attention_heads=4, max_position_embeddings=64, word_embed_proj_dim=HIDDEN),
    "optimum-mpt": optimum_lm("mpt", gain=4, vocab_size=VOCAB, d_model=HIDDEN, n_heads=4, n_layers=2, max_seq_len=64),
    "optimum-stablelm": optimum_lm("stablelm", gain=4, **GROUPED),
    "optimum-olmo": optimum_lm("olmo", **GROUPED),
    "optimum-olmo2": optimum_lm("olmo2", **GROUPED),
    "optimum-granite": optimum_lm("granite", **GROUPED),
    "optimum-smollm3": optimum_lm("smollm3", gain=4, **GROUPED),
    "optimum-cohere": optimum_lm("cohere", gain=4, **GROUPED),
    "optimum-nemotron": optimum_lm("nemotron", gain=4, **GROUPED),
    "optimum-llama-yarn": optimum_lm("llama", **GROUPED, rope_scaling={
        "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32}),
    "optimum-gpt-bigcode": optimum_lm("gpt_bigcode", gain=4, vocab_size=VOCAB, n_embd=HIDDEN, n_layer=2, n_head=4,
                                      n_positions=64),
    "optimum-falcon-alibi": optimum_lm("falcon", gain=4, vocab_size=VOCAB, hidden_size=HIDDEN, num_hidden_layers=2,
                                       num_attention_heads=4, alibi=True, new_decoder_architecture=False),
    "optimum-glm": optimum_lm("glm", **GROUPED, head_dim=8),
    "optimum-helium": optimum_lm("helium", **GROUPED, head_dim=8),
    "optimum-gemma2": optimum_lm("gemma2", **GROUPED, head_dim=8, sliding_window=4, query_pre_attn_scalar=8),
    "optimum-qwen3-moe": optimum_lm("qwen3_moe", **GROUPED, num_experts=4, num_experts_per_tok=2,
                                    moe_intermediate_size=16, head_dim=8),
    "optimum-gpt-oss": optimum_lm("gpt_oss", **GROUPED, head_dim=8, num_local_experts=4, num_experts_per_tok=2,
                                  sliding_window=4, layer_types=["sliding_attention", "full_attention"]),
    "optimum-deepseek-v3": optimum_lm("deepseek_v3", **dict(GROUPED, num_key_value_heads=4), q_lora_rank=16,
                                      kv_lora_rank=16, qk_rope_head_dim=8, qk_nope_head_dim=8, v_head_dim=8,
                                      n_routed_experts=4, num_experts_per_tok=2, moe_intermediate_size=16, n_group=2,
                                      topk_group=1, first_k_dense_replace=1, n_shared_experts=1),
    "optimum-phi3-longrope": optimum_lm("phi3", **GROUPED, original_max_position_embeddings=32, rope_scaling={
        "type": "longrope", "short_factor": [1.0, 1.1, 1.2, 1.3], "long_factor": [2.0, 2.1, 2.2, 2.3]}),
    # Optimum, encoders and both
    "optimum-bert-relative": encoder(auto(T.AutoModel, "bert", **BERT, position_embedding_type="relative_key_query"),
                                     "feature-extraction"),
    "optimum-xlm": encoder(auto(T.AutoModel, "xlm", n_words=VOCAB, emb_dim=HIDDEN, n_layers=2, n_heads=4,
                                max_position_embeddings=40), "feature-extraction"),
    "optimum-squeezebert": encoder(auto(T.AutoModel, "squeezebert", **BERT, embedding_size=32), "feature-extraction"),
    "optimum-esm": encoder(auto(T.AutoModel, "esm", **BERT, position_embedding_type="rotary", mask_token_id=3),
                           "feature-extraction"),
    "optimum-convbert": encoder(auto(T.AutoModel, "convbert", **BERT, embedding_size=16, head_ratio=2,
                                     conv_kernel_size=3), "feature-extraction"),
    "optimum-wav2vec2": encoder(auto(T.AutoModelForCTC, "wav2vec2", **SPEECH), "automatic-speech-recognition"),
    "optimum-wav2vec2-conformer": encoder(auto(T.AutoModelForCTC, "wav2vec2-conformer", **SPEECH,
                                               position_embeddings_type="relative", conv_depthwise_kernel_size=3),
                                          "automatic-speech-recognition"),
    "optimum-bart-merged": merged(both(T.BartForConditionalGeneration)),
    "optimum-marian-merged": merged(both(T.MarianMTModel)),
    "optimum-trocr-merged": merged(trocr, "image-to-text-with-past", 17),
    "optimum-detr": encoder(detr, "object-detection", 64),
    "optimum-owlvit": encoder(owlvit, "zero-shot-object-detection"),
    "optimum-beit": encoder(auto(T.AutoModelForImageClassification, "beit", **VISION,
                                 use_relative_position_bias=True), "image-classification"),
    "optimum-bert": encoder(auto(T.AutoModel, "bert", **BERT), "feature-extraction"),
    "optimum-roberta": encoder(auto(T.AutoModel, "roberta", **BERT), "feature-extraction"),
    "optimum-distilbert": encoder(auto(T.AutoModelForSequenceClassification, "distilbert", vocab_size=VOCAB, dim=HIDDEN,
                                       n_layers=2, n_heads=4, hidden_dim=INNER, max_position_embeddings=40),
                                  "text-classification"),
    "optimum-mpnet": encoder(auto(T.AutoModel, "mpnet", **BERT), "feature-extraction"),
    "optimum-albert": encoder(auto(T.AutoModel, "albert", **BERT, embedding_size=16), "feature-extraction"),
    "optimum-electra": encoder(auto(T.AutoModel, "electra", **BERT, embedding_size=16), "feature-extraction"),
    "optimum-deberta-v2": encoder(auto(T.AutoModel, "deberta-v2", **BERT, relative_attention=True,
                                       pos_att_type=["p2c", "c2p"], position_buckets=8), "feature-extraction"),
    "optimum-roformer": encoder(auto(T.AutoModel, "roformer", **BERT), "feature-extraction"),
    "optimum-mobilebert": encoder(auto(T.AutoModel, "mobilebert", **dict(BERT, intra_bottleneck_size=16,
                                                                         embedding_size=16)), "feature-extraction"),
    "optimum-modernbert": encoder(auto(T.AutoModel, "modernbert", **SMALL, local_attention=4), "feature-extraction"),
    "optimum-t5-merged": merged(t5),
    "optimum-t5-encoder": t5_part("encoder_model.onnx"),
    "optimum-t5-prefill": t5_part("decoder_model.onnx"),
    "optimum-t5-decode": t5_part("decoder_with_past_model.onnx"),
    "optimum-clip": encoder(clip, "zero-shot-image-classification"),
    "optimum-vit": encoder(auto(T.AutoModelForImageClassification, "vit", **VISION), "image-classification"),
    "optimum-swin": encoder(auto(T.AutoModelForImageClassification, "swin", image_size=32, patch_size=4, embed_dim=16,
                                 depths=[1, 1], num_heads=[2, 4], window_size=4), "image-classification"),
    "optimum-swinv2": encoder(auto(T.AutoModelForImageClassification, "swinv2", image_size=32, patch_size=4,
                                   embed_dim=16, depths=[1, 1], num_heads=[2, 4], window_size=4),
                              "image-classification"),
    "optimum-segformer": encoder(auto(T.AutoModelForSemanticSegmentation, "segformer", num_encoder_blocks=2,
                                      depths=[1, 1], sr_ratios=[2, 1], hidden_sizes=[8, 16], patch_sizes=[7, 3],
                                      strides=[4, 2], num_attention_heads=[1, 2], mlp_ratios=[2, 2],
                                      decoder_hidden_size=16), "semantic-segmentation"),
    "optimum-levit": encoder(auto(T.LevitForImageClassification, "levit", image_size=64, hidden_sizes=[16, 24, 32],
                                  num_attention_heads=[2, 3, 4], depths=[1, 1, 1], key_dim=[8, 8, 8]),
                             "image-classification", 64),
    "optimum-yolos": encoder(auto(T.AutoModelForObjectDetection, "yolos", **dict(VISION, image_size=[32, 32]),
                                  num_detection_tokens=4), "object-detection"),
    "optimum-resnet": encoder(auto(T.ResNetForImageClassification, "resnet", embedding_size=8, hidden_sizes=[8, 16],
                                   depths=[1, 1], layer_type="basic"), "image-classification"),
    "optimum-convnext": encoder(auto(T.ConvNextForImageClassification, "convnext", hidden_sizes=[8, 16],
                                     depths=[1, 1], num_stages=2), "image-classification"),
    "optimum-mobilevit": encoder(auto(T.MobileViTForImageClassification, "mobilevit", image_size=64,
                                      hidden_sizes=[16, 24, 32], neck_hidden_sizes=[8, 8, 16, 16, 24, 24, 32],
                                      num_attention_heads=2), "image-classification", 64),
    # torch.onnx.export through TorchScript: no cache, positions computed inside, embeddings as input
    "torchscript-gpt2": torch_export(lambda: causal("gpt2", vocab_size=VOCAB, n_embd=HIDDEN, n_layer=2, n_head=4,
                                                    n_positions=64), ("input_ids", "attention_mask"), False),
    "torchscript-llama-embeds": torch_export(lambda: causal("llama", **GROUPED), ("inputs_embeds", "attention_mask"),
                                             False),
    "torchscript-mobilenet": image(tv("mobilenet_v2", width_mult=0.1, num_classes=10), False),
    # torch.onnx.export(dynamo=True)
    "dynamo-llama": torch_export(lambda: causal("llama", **GROUPED), ("input_ids", "attention_mask"), True),
    "dynamo-qwen2-embeds": torch_export(lambda: causal("qwen2", **GROUPED), ("inputs_embeds", "attention_mask"), True),
    "dynamo-gpt2": torch_export(lambda: causal("gpt2", vocab_size=VOCAB, n_embd=HIDDEN, n_layer=2, n_head=4,
                                               n_positions=64), ("input_ids", "attention_mask"), True),
    "dynamo-gemma2": torch_export(lambda: causal("gemma2", **GROUPED, head_dim=8, sliding_window=4,
                                                 query_pre_attn_scalar=8), ("input_ids", "attention_mask"), True),
    "dynamo-bert": torch_export(auto(T.AutoModel, "bert", **BERT), ("input_ids", "attention_mask"), True),
    "dynamo-vit": torch_export(auto(T.AutoModelForImageClassification, "vit", **VISION), ("pixel_values",), True),
    "dynamo-mobilenet": image(tv("mobilenet_v2", width_mult=0.1, num_classes=10), True),
    "dynamo-efficientnet": image(lambda: coarse(efficientnet(), 7), True),
    "dynamo-shufflenet": image(lambda: coarse(__import__("torchvision").models.ShuffleNetV2(
        [1, 1, 1], [8, 16, 32, 64, 64], num_classes=10), 7), True),
    # ONNX Runtime GenAI's builder
    "genai-llama-int4": genai("llama", **WIDE),
    "genai-qwen2-int4": genai("qwen2", **WIDE),
    "genai-qwen3-int4": genai("qwen3", **dict(GROUPED, head_dim=16)),
    "genai-phi3-int4": genai("phi3", **WIDE, original_max_position_embeddings=64),
    "genai-gemma2-int4": genai("gemma2", **WIDE, head_dim=16, sliding_window=4, query_pre_attn_scalar=16),
    "genai-mistral-int4": genai("mistral", **WIDE, sliding_window=4, head_dim=16),
    "genai-granite-int4": genai("granite", **WIDE),
    "genai-olmo-fp32": genai("olmo", precision="fp32", **WIDE),
    "genai-gemma3-int4": genai("gemma3_text", **WIDE, head_dim=16, sliding_window=4, query_pre_attn_scalar=16,
                               layer_types=["sliding_attention", "full_attention"]),
    "genai-qwen2-fp16": genai("qwen2", "fp16", ep="cuda", **WIDE),
    "genai-llama-embeds-int4": genai("llama", options={"exclude_embeds": True}, **WIDE),
    "genai-llama-int4-asymmetric": genai("llama", options={"int4_is_symmetric": False}, **WIDE),
    "genai-llama-int8": genai("llama", options={"int4_algo_config": "rtn_last"}, **WIDE),
    "genai-llama-qdq": genai("llama", options={"use_qdq": True}, **WIDE),
    # its other forms: blocks, levels, types, providers, heads
    "genai-llama-int4-b128": genai("llama", options={"int4_block_size": 128, "int4_accuracy_level": 4}, **BLOCKS),
    "genai-llama-int4-b128-asymmetric": genai("llama", options={"int4_block_size": 128, "int4_is_symmetric": False}, **BLOCKS),
    "genai-llama-int4-b16-level2": genai("llama", options={"int4_block_size": 16, "int4_is_symmetric": False,
                                                           "int4_accuracy_level": 2}, **WIDE),
    "genai-llama-qdq-asymmetric": genai("llama", options={"use_qdq": True, "int4_is_symmetric": False}, **WIDE),
    "genai-llama-q4f16": genai("llama", ep="cuda", **WIDE),
    "genai-llama-q4bf16": genai("llama", gain=2, ep="cuda", options={"use_cuda_bf16": True}, **WIDE),
    "genai-llama-bf16": genai("llama", "bf16", gain=2, ep="cuda", **WIDE),
    "genai-llama-fp16-mha": genai("llama", "fp16", True, **WIDE),
    "genai-llama-webgpu-graph": genai("llama", ep="webgpu", options={"enable_webgpu_graph": True}, **WIDE),
    "genai-llama-dml": genai("llama", ep="dml", **WIDE),
    "genai-llama-trt-rtx": genai("llama", ep="NvTensorRtRtx", **WIDE),
    "genai-llama-shared-int8": genai("llama", options={"int4_algo_config": "rtn_last", "shared_embeddings": True,
                                                       "int4_is_symmetric": False}, gain=4, tie_word_embeddings=True, **EVEN),
    "genai-llama-shared-int4": genai("llama", options={"int4_algo_config": "rtn", "shared_embeddings": True,
                                                       "int4_is_symmetric": False}, gain=4, tie_word_embeddings=True, **EVEN),
    "genai-llama-shared-fp32": genai("llama", "fp32", gain=4, tie_word_embeddings=True, **WIDE),
    "genai-llama-k-quant-mixed": genai("llama", options={"int4_algo_config": "k_quant_mixed", "int4_is_symmetric": False},
                                       **EVEN),
    "genai-llama-int4-gather": genai("llama", options={"int4_op_types_to_quantize": ("MatMul", "Gather")}, **WIDE),
    "genai-llama-hidden-states": genai("llama", options={"include_hidden_states": True}, **WIDE),
    "genai-llama-named-size": genai("llama", change=named_size, **WIDE),
    "genai-llama-pruned": genai("llama", change=pruned, **WIDE),
    "genai-smollm3-int4": genai("smollm3", gain=4, **WIDE),
    "genai-gemma-int4": genai("gemma", gain=4, head_dim=16, **WIDE),
    "genai-phi-int4": genai("phi", gain=4, partial_rotary_factor=0.5, **ONE),
    "genai-nemotron-int4": genai("nemotron", gain=4, **ONE),
    "genai-phi3-longrope-int4": genai("phi3", original_max_position_embeddings=32, rope_scaling={
        "type": "longrope", "short_factor": [1 + i / 20 for i in range(8)],
        "long_factor": [2 + i / 20 for i in range(8)]}, **WIDE),
    # models of ONNX Runtime's optimizers and quantizers
    "ort-bert-fused": transformers_optimizer("optimum-bert", "bert"),
    "ort-bert-fused-mha": transformers_optimizer("optimum-bert", "bert", mha=True),
    "ort-gpt2-fused": transformers_optimizer("optimum-gpt2", "gpt2"),
    "ort-t5-encoder-fused": transformers_optimizer("optimum-t5-encoder", "t5"),
    "ort-vit-fused": transformers_optimizer("optimum-vit", "vit"),
    "ort-clip-fused": transformers_optimizer("optimum-clip", "clip"),
    "ort-distilbert-session": session_optimizer("optimum-distilbert"),
    "ort-mobilenet-session": session_optimizer("torchscript-mobilenet"),
    "ort-llama-session": session_optimizer("genai-llama-int4"),
    "ort-bert-dynamic": quantizer("optimum-bert", "dynamic"),
    "ort-resnet-qdq": quantizer("optimum-resnet", "qdq"),
    "ort-resnet-qoperator": quantizer("optimum-resnet", "qoperator"),
}


def main():
    out = pathlib.Path(sys.argv[1])
    failed = []
    for name in sys.argv[2:] or MODELS:
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        try:
            MODELS[name](folder)
            print(goldens.write(folder) or "no decoder with a cache")
            print(f"{name}: {sum(f.stat().st_size for f in folder.rglob('*') if f.is_file()) >> 10} KiB", flush=True)
        except Exception as e:  # an exporter that cannot is named at the end
            failed.append(f"{name}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}"[:300])
            traceback.print_exc()
            shutil.rmtree(folder)
    print("\n".join(["not made:"] + failed) if failed else "all made")


if __name__ == "__main__":
    main()
