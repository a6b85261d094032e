#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_prefix.c on models whose caches are rings, and on models with states of fixed size beside caches and alone.

usage: check_prefix.py TEST-PREFIX   (without numpy or `onnx`: exit 77)
"""
import json
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "hybrids"))
try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper as h
    from onnx import numpy_helper as nh

    import graphs
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

VOCAB, D, HEADS, KV, SIZE = 96, 32, 4, 2, 8


def windows(*sizes):
    """A decoder whose layers look back so far each; -1: all of it."""
    rng = np.random.default_rng(7)
    nodes, weights = [], []
    inputs = [h.make_tensor_value_info("input_ids", T.INT64, ["batch", "seq"])]
    outputs = [h.make_tensor_value_info("logits", T.FLOAT, ["batch", "seq", VOCAB])]

    def weight(*shape):
        weights.append(nh.from_array(rng.normal(0, 0.35, shape).astype(np.float32), f"w{len(weights)}"))
        return weights[-1].name

    def op(kind, ins, **attributes):
        nodes.append(h.make_node(kind, ins, [f"y{len(nodes)}"], **attributes))
        return nodes[-1].output[0]

    x = op("Gather", [weight(VOCAB, D), "input_ids"])
    for layer, window in enumerate(sizes):
        q, k, v = (op("MatMul", [x, weight(D, n * SIZE)]) for n in (HEADS, KV, KV))
        past = [f"past_key_values.{layer}.{n}" for n in ("key", "value")]
        now = [f"present.{layer}.{n}" for n in ("key", "value")]
        nodes.append(h.make_node("Attention", [q, k, v, "", *past], [f"a{layer}", *now], q_num_heads=HEADS, kv_num_heads=KV, is_causal=1,
                                 **({} if window < 0 else {"left_window_size": window})))
        inputs += [h.make_tensor_value_info(n, T.FLOAT, ["batch", KV, "past", SIZE]) for n in past]
        outputs += [h.make_tensor_value_info(n, T.FLOAT, ["batch", KV, "total", SIZE]) for n in now]
        x = op("Add", [x, op("MatMul", [f"a{layer}", weight(D, D)])])
    nodes.append(h.make_node("MatMul", [x, weight(D, VOCAB)], ["logits"]))
    return h.make_model(h.make_graph(nodes, "windows", inputs, outputs, weights), opset_imports=[h.make_opsetid("", 24)], ir_version=10)


MODELS = {"rings": [windows(20, 33), windows(20, -1)], "states": [graphs.Graph(seed).model(block) for block, seed in
                                                                 (graphs.MODELS[n] for n in ("short_conv", "state_space"))]}
for kind, models in MODELS.items():
    for i, model in enumerate(models):
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, folder + "/model.onnx")
            pathlib.Path(folder, "config.json").write_text(json.dumps({"max_position_embeddings": 256, "vocab_size": VOCAB}))
            print(kind, i, flush=True)
            rc = subprocess.run([sys.argv[1], str(VOCAB), kind, folder]).returncode
            if rc:
                sys.exit(rc)
