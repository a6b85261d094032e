# SPDX-License-Identifier: Apache-2.0
"""A decoder of one layer and one head, small enough for contexts of 100,000 positions, and what it computes in numpy."""
import json

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper as h
from onnx import numpy_helper as nh

VOCAB, DIM, SIZE = 64, 16, 16
RATE = 0.001  # of the cosine that makes a position matter


def weights():
    r = np.random.default_rng(3)
    f = lambda *s: r.normal(0, 1, s).astype(np.float32)
    return {"table": f(VOCAB, DIM), "q": f(DIM, SIZE), "k": f(DIM, SIZE), "v": f(DIM, SIZE), "head": f(SIZE, VOCAB)}


def write(folder, context):
    """model.onnx and config.json as an exporter would write them; no tokenizer."""
    w = weights()
    past = ["batch_size", 1, "past_sequence_length", SIZE]
    total = ["batch_size", 1, "past_sequence_length + sequence_length", SIZE]
    nodes = [
        h.make_node("Gather", ["table", "input_ids"], ["rows"]),
        h.make_node("Cast", ["position_ids"], ["position"], to=T.FLOAT),
        h.make_node("Mul", ["position", "rate"], ["angle"]), h.make_node("Cos", ["angle"], ["cos"]),
        h.make_node("Unsqueeze", ["cos", "last"], ["cos3"]), h.make_node("Mul", ["rows", "cos3"], ["x"]),
    ]
    for n in "qkv":
        nodes += [h.make_node("MatMul", ["x", n], [n + "_flat"]), h.make_node("Unsqueeze", [n + "_flat", "one"], [n + "4"])]
    nodes += [h.make_node("Attention", ["q4", "k4", "v4", "", "past_key_values.0.key", "past_key_values.0.value"],
                          ["y4", "present.0.key", "present.0.value"], is_causal=1),
              h.make_node("Squeeze", ["y4", "one"], ["y"]), h.make_node("MatMul", ["y", "head"], ["logits"])]
    i64 = lambda name, dims: h.make_tensor_value_info(name, T.INT64, dims)
    f32 = lambda name, dims: h.make_tensor_value_info(name, T.FLOAT, dims)
    step = ["batch_size", "sequence_length"]
    constants = {**w, "rate": np.float32(RATE), "one": np.array([1], np.int64), "last": np.array([-1], np.int64)}
    graph = h.make_graph(
        nodes, "tiny", [i64("input_ids", step), i64("position_ids", step)] +
        [f32(f"past_key_values.0.{n}", past) for n in ("key", "value")],
        [f32("logits", step + [VOCAB])] + [f32(f"present.0.{n}", total) for n in ("key", "value")],
        [nh.from_array(np.asarray(v), k) for k, v in constants.items()])
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(h.make_model(graph, opset_imports=[h.make_opsetid("", 23)], ir_version=10), folder / "model.onnx")
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": context, "vocab_size": VOCAB}))
    return folder


def logits_after(ids):
    """Of the last of ids, in float64."""
    w = {k: v.astype(np.float64) for k, v in weights().items()}
    x = w["table"][ids] * np.cos(np.arange(len(ids)) * RATE)[:, None]
    scores = (x @ w["k"]) @ (x[-1] @ w["q"]) / np.sqrt(SIZE)
    p = np.exp(scores - scores.max())
    return (p / p.sum()) @ (x @ w["v"]) @ w["head"]
