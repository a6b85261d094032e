# SPDX-License-Identifier: Apache-2.0
"""A model that says what it is told to: each token has one that follows it, by a table, and a prompt's last token begins a text."""
import json

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

TEMPLATE = "{% if tools %}{{ tools | tojson }}{% endif %}{% for m in messages %}{{ m.content }}{{ m.thinking or '' }}{% endfor %}{% if opened %}{{ opened }}{% endif %}"


def byte_letters():
    """GPT-2's letters for bytes."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    odd = [b for b in range(256) if b not in plain]
    return {**{b: chr(b) for b in plain}, **{b: chr(256 + i) for i, b in enumerate(odd)}}


def write(folder, scripts, context=4096, special=()):
    """scripts: {"[begin]": ["piece", ...]}; all pieces of all scripts differ. special: pieces that are special tokens."""
    pieces = ["</s>"] + [p for begin, said in scripts.items() for p in (begin, *said)]
    assert len(set(pieces)) == len(pieces)
    vocab = {c: i for i, c in enumerate(byte_letters().values())}
    ids = {p: 256 + i for i, p in enumerate(pieces)}
    size = 256 + len(pieces)
    table = np.zeros((size, size), np.float32)
    table[:, ids["</s>"]] = 1
    for begin, said in scripts.items():
        for a, b in zip((begin, *said), (*said, "</s>")):
            table[ids[a], ids[b]] = 9
    step = ["batch_size", "sequence_length"]
    graph = h.make_graph([h.make_node("Gather", ["table", "input_ids"], ["logits"])], "scripted",
                         [h.make_tensor_value_info("input_ids", T.INT64, step)],
                         [h.make_tensor_value_info("logits", T.FLOAT, [*step, size])], [nh.from_array(table, "table")])
    save(folder, graph)
    write_tokenizer(folder, vocab, ids, special)
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": context, "vocab_size": size, "eos_token_id": ids["</s>"]}))
    (folder / "chat_template.jinja").write_text(TEMPLATE)
    return folder


def save(folder, graph):
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 17)], ir_version=8), folder / "model.onnx")


def embedder(folder, width=8):
    """Vectors of bytes, whose mean is the text's."""
    table = np.random.default_rng(5).normal(0, 1, (257, width)).astype(np.float32)
    step = ["batch_size", "sequence_length"]
    save(folder, h.make_graph([h.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])], "embedder",
                              [h.make_tensor_value_info("input_ids", T.INT64, step)],
                              [h.make_tensor_value_info("last_hidden_state", T.FLOAT, [*step, width])], [nh.from_array(table, "table")]))
    write_tokenizer(folder, {c: i for i, c in enumerate(byte_letters().values())}, {"</s>": 256})
    return folder


def write_tokenizer(folder, vocab, ids, special=()):
    """Bytes, and texts that are a token each."""
    added = [{"id": i, "content": p, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": p in ("</s>", *special)}
             for p, i in ids.items()]
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    (folder / "tokenizer.json").write_text(json.dumps({
        "version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": None, "pre_tokenizer": level,
        "post_processor": None, "decoder": level,
        "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
                  "fuse_unk": False, "byte_fallback": False, "vocab": vocab, "merges": []}}))
