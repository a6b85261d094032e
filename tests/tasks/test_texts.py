# SPDX-License-Identifier: Apache-2.0
"""tenon embed, and tenon classify with a CLIP-like model: tokens from PyPI's tokenizers, the rest in NumPy."""
import json
import os

import numpy as np
from onnx import TensorProto, helper
from PIL import Image
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

import common
from common import check, folder, save, softmax, tenon, value, write_json

rng = np.random.default_rng(3)
WORDS = "the a cat dog sat on mat in house red blue sky is under over ##s ##ed play run photo of and not".split()
TEXTS = ["the cat sat on the mat", "a dog", "the sky is blue and the house is red", "dogs played in the house", "cat", "unknownword cat",
         "a photo of a dog under the red sky and a cat over the blue mat in the house and not on it", "Mats!"]
SIZE = 12


def tokenizer(path, truncation=None, padding=None):
    vocab = {w: i for i, w in enumerate(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "!", ","] + WORDS)}
    t = Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    t.normalizer = normalizers.BertNormalizer(lowercase=True)
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    t.decoder = decoders.WordPiece()
    t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    if truncation:
        t.enable_truncation(truncation)
    if padding:
        t.enable_padding(length=padding)
    t.save(path)
    t.no_truncation()
    t.no_padding()
    return t, len(vocab)


def encoder(path, vocab, batch="batch", length="length", extra=(), pooled=False, dtype=TensorProto.INT64):
    """Rows: a table's entries times what the mask lets through, plus the mean over the masked text, so that padding which is not masked
    would be seen in every row."""
    table = rng.normal(size=(vocab, SIZE)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["e"]),
             helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["m", "two"], ["m3"]),
             helper.make_node("Mul", ["e", "m3"], ["em"]),
             helper.make_node("ReduceSum", ["em", "one"], ["sum"], keepdims=1),
             helper.make_node("ReduceSum", ["m3", "one"], ["n"], keepdims=1),
             helper.make_node("Div", ["sum", "n"], ["mean"]),
             helper.make_node("Add", ["e", "mean"], ["last_hidden_state"])]
    outs = [value("last_hidden_state", TensorProto.FLOAT, [batch, length, SIZE])]
    if pooled:
        nodes.append(helper.make_node("Squeeze", ["mean", "one"], ["sentence_embedding"]))
        outs.append(value("sentence_embedding", TensorProto.FLOAT, [batch, SIZE]))
    ins = [value(n, dtype, [batch, length]) for n in ("input_ids", "attention_mask", *extra)]
    if extra:  # read and without effect: 0 * token type
        nodes = [helper.make_node("Mul", [extra[0], "zero"], ["none"]), helper.make_node("Add", ["input_ids", "none"], ["ids"])] + nodes
        nodes[2].input[1] = "ids"
    weights = {"table": table, "one": np.array([1]), "two": np.array([2])}
    if extra:
        weights["zero"] = np.array(0)
    save(path, nodes, ins, outs, weights)
    return table


def rows_of(t, table, text, limit=None):
    ids = t.encode(text).ids
    if limit and len(ids) > limit:
        ids = ids[:limit - 1] + [3]
    e = table[ids].astype(np.float64)
    return e + e.mean(0)


POOLS = {"mean": lambda r: r.mean(0), "cls": lambda r: r[0], "max": lambda r: r.max(0), "last": lambda r: r[-1],
         "mean_sqrt_len": lambda r: r.sum(0) / np.sqrt(len(r))}


def vectors(d, texts, *args):
    out = os.path.join(folder("out"), "v.npy")
    tenon("embed", d, "-f", "-", "-o", out, *args, text="\n".join(texts) + "\n")
    return np.load(out)


def close(got, want, what):
    want = np.asarray(want)
    check(got.shape == want.shape, f"{what}: {got.shape}, not {want.shape}")
    off = np.abs(got - want).max()
    check(off < 1e-5, f"{what}: off by {off}")


def length1(v):
    return v / np.linalg.norm(v)


def plain():
    d = folder("plain")
    t, n = tokenizer(d + "/tokenizer.json")
    table = encoder(d + "/model.onnx", n)
    for name, f in POOLS.items():
        for batch in (1, 3, 32):
            close(vectors(d, TEXTS, "--pool", name, "--batch", batch), [f(rows_of(t, table, x)) for x in TEXTS], f"{name}, batch {batch}")
    close(vectors(d, TEXTS), [POOLS["mean"](rows_of(t, table, x)) for x in TEXTS], "mean is the default")
    want = [length1(POOLS["mean"](rows_of(t, table, x))) for x in TEXTS]
    close(vectors(d, TEXTS, "--normalize"), want, "length 1")
    close(vectors(d, TEXTS, "--max-tokens", 4), [POOLS["mean"](rows_of(t, table, x, 4)) for x in TEXTS], "cut")
    got = json.loads(tenon("embed", d, "-p", TEXTS[0], "-p", TEXTS[3], "--format", "json", "--normalize"))
    check((got["size"], got["pool"], got["normalized"]) == (SIZE, "mean", True), got)
    close(np.array(got["vectors"]), [want[0], want[3]], "json")
    lines = tenon("embed", d, "-p", TEXTS[0]).splitlines()
    check(len(lines) == 1 and len(lines[0].split()) == SIZE, lines)
    ranked = json.loads(tenon("embed", d, "-f", "-", "--query", "a cat", "--format", "json", text="\r\n".join(TEXTS) + "\n\n"))["rows"]
    q = length1(POOLS["mean"](rows_of(t, table, "a cat")))
    scores = np.array([q @ w for w in want])
    check([int(r["line"]) - 1 for r in ranked] == list(np.argsort(-scores)), "the order of the hits")
    check(max(abs(float(r["cosine"]) - scores[int(r["line"]) - 1]) for r in ranked) < 2e-6, "cosines")
    gap = json.loads(tenon("embed", d, "-f", "-", "--query", "b", "--top", 1, "--format", "json", text="a\n\nb\n"))["rows"]
    check([r["line"] for r in gap] == ["3"], "empty lines count")
    check(len(json.loads(tenon("embed", d, "-f", "-", "--query", "x", "--top", 2, "--format", "json", text="a\nb\nc\n"))["rows"]) == 2, "--top")


def sentence_transformers():
    d = folder("st")
    t, n = tokenizer(d + "/tokenizer.json", truncation=5, padding=40)  # both are overridden, as that library does
    table = encoder(d + "/model.onnx", n, extra=["token_type_ids"])
    write_json(d + "/sentence_bert_config.json", {"max_seq_length": 9, "do_lower_case": True})
    modules = [{"idx": i, "name": str(i), "path": p, "type": "sentence_transformers.models." + k}
               for i, (p, k) in enumerate((("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize")))]
    write_json(d + "/modules.json", modules)
    for key, name in (("cls_token", "cls"), ("mean_tokens", "mean"), ("max_tokens", "max"), ("lasttoken", "last"), ("mean_sqrt_len_tokens", "mean_sqrt_len")):
        write_json(os.path.join(folder("st/1_Pooling"), "config.json"), {"pooling_mode_" + key: True, "pooling_mode_none": False})
        close(vectors(d, TEXTS), [length1(POOLS[name](rows_of(t, table, x, 9))) for x in TEXTS], f"folder says {name}")
    close(vectors(d, TEXTS, "--no-normalize", "--pool", "mean"), [POOLS["mean"](rows_of(t, table, x, 9)) for x in TEXTS], "overridden")
    write_json(d + "/1_Pooling/config.json", {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True})
    check("pooling_mode_mean_tokens" in tenon("embed", d, "-p", "x", code=4)[1], "two poolings")
    write_json(d + "/modules.json", modules[:1] + [dict(modules[1], type="sentence_transformers.models.Dense")])
    check("Dense" in tenon("embed", d, "-p", "x", code=4)[1], "a dense layer")
    write_json(d + "/modules.json", [dict(modules[0], path="../x")])
    check("modules.json" in tenon("embed", d, "-p", "x", code=3)[1], "a folder elsewhere")


def shapes():
    d = folder("pooled")
    t, n = tokenizer(d + "/tokenizer.json")
    table = encoder(d + "/model.onnx", n, pooled=True)
    means = [rows_of(t, table, x).mean(0) / 2 for x in TEXTS]
    close(vectors(d, TEXTS), means, "the model pools")
    close(vectors(d, TEXTS, "--pool", "cls"), [rows_of(t, table, x)[0] for x in TEXTS], "unless told otherwise")
    d = folder("fixed")
    t, n = tokenizer(d + "/tokenizer.json")
    table = encoder(d + "/model.onnx", n, batch=3, length=24)
    close(vectors(d, TEXTS), [rows_of(t, table, x, 24).mean(0) for x in TEXTS], "batch 3 of 24 tokens is fixed")
    check(len(t.encode(TEXTS[6]).ids) > 24, "one text is longer")


def clip():
    d = folder("clip")
    t, n = tokenizer(d + "/tokenizer.json")
    wt, wi = rng.normal(size=(n, SIZE)).astype(np.float32), rng.normal(size=(3, SIZE)).astype(np.float32)
    nodes = [helper.make_node("Gather", ["wt", "input_ids"], ["e"]), helper.make_node("Cast", ["attention_mask"], ["m"], to=TensorProto.FLOAT),
             helper.make_node("Unsqueeze", ["m", "two"], ["m3"]), helper.make_node("Mul", ["e", "m3"], ["em"]),
             helper.make_node("ReduceSum", ["em", "one"], ["text"], keepdims=0),
             helper.make_node("ReduceMean", ["pixel_values"], ["px"], axes=[2, 3], keepdims=0), helper.make_node("MatMul", ["px", "wi"], ["image"]),
             helper.make_node("Transpose", ["text"], ["tt"]), helper.make_node("MatMul", ["image", "tt"], ["logits_per_image"]),
             helper.make_node("Transpose", ["logits_per_image"], ["logits_per_text"])]
    save(d + "/model.onnx", nodes,
         [value("input_ids", TensorProto.INT64, ["texts", "length"]), value("pixel_values", TensorProto.FLOAT, ["images", 3, "height", "width"]),
          value("attention_mask", TensorProto.INT64, ["texts", "length"])],
         [value("logits_per_text", TensorProto.FLOAT, ["texts", "images"]), value("logits_per_image", TensorProto.FLOAT, ["images", "texts"])],
         {"wt": wt, "wi": wi, "one": np.array([1]), "two": np.array([2])})
    write_json(d + "/preprocessor_config.json", {"size": {"height": 6, "width": 6}})
    Image.fromarray(rng.integers(0, 256, (6, 6, 3), dtype=np.uint8)).save(d + "/x.png")
    px = np.asarray(Image.open(d + "/x.png"), np.float64).mean((0, 1)) / 255
    labels = ["cat", "red dog", "house on the blue mat"]
    for prompt in ("a photo of a {}", "the {}!"):
        want = softmax(np.array([px @ wi @ wt[t.encode(prompt.replace("{}", x)).ids].sum(0) for x in labels]))
        rows = json.loads(tenon("classify", d, "--image", d + "/x.png", "--labels", ",".join(labels), "--prompt", prompt, "--format", "json"))["rows"]
        check([r["label"] for r in rows] == [labels[i] for i in np.argsort(-want)], rows)
        check(max(abs(float(r["probability"]) - want[int(r["class"])]) for r in rows) < 1e-5, "probabilities")
    write_json(d + "/config.json", {"model_type": "siglip"})
    check("model_type" in tenon("classify", d, "--image", d + "/x.png", "--labels", "a", code=4)[1], "each text alone")
    write_json(d + "/config.json", {"model_type": "clip"})
    check("labels" in tenon("classify", d, "--image", d + "/x.png", code=3)[1], "no labels")
    check("{}" in tenon("classify", d, "--image", d + "/x.png", "--labels", "a", "--prompt", "x", code=3)[1], "a prompt without a place")
    check("pixel_values" in tenon("embed", d, "-p", "x", code=4)[1], "a model of pictures embeds no texts")


def bad():
    d = folder("plain")
    tenon("embed", d, code=2)
    tenon("embed", d, "-p", "x", "--pool", "middle", code=2)
    tenon("embed", d, "-f", "-", code=3, text="\n\n")
    tenon("embed", d, "-f", d + "/missing", code=3)
    check("text 2" in tenon("embed", d, "-p", "ok", "-p", os.fsdecode(b"a\xff"), code=3)[1], "not UTF-8")
    empty = folder("empty")
    encoder(empty + "/model.onnx", 5)
    check("tokenizer.json" in tenon("embed", empty, "-p", "x", code=3)[1], "no tokenizer")


for part in (plain, sentence_transformers, shapes, clip, bad):
    part()
    print(f"{part.__name__}: {common.checks} checks so far")
