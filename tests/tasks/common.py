# SPDX-License-Identifier: Apache-2.0
"""Small models and folders for the task tests, and calling tenon."""
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

TENON = os.environ["TENON"]
SOURCE = os.environ["TENON_TEST_SOURCE"]
checks = 0


def check(ok, what):
    global checks
    checks += 1
    if not ok:
        sys.exit(f"FAILED: {what}")


def call(*args, text=None):
    env = dict(os.environ, TENON_PROFILE_PATH=os.path.join(SOURCE, "configs"), TENON_CACHE_DIR=folder("cache"))
    return subprocess.run([TENON, *[a if isinstance(a, str) else str(a) for a in args], "--profile", "host"], capture_output=True, env=env,
                          input=text.encode() if text is not None else None)


def ends(*args):
    """The code that a command ends with."""
    return call(*args).returncode


def tenon(*args, code=0, text=None):
    """stdout of a command that must end with code; (stdout, stderr) where that is not 0."""
    r = call(*args, text=text)
    out, err = r.stdout.decode(), r.stderr.decode()
    if r.returncode != code:
        sys.exit(f"FAILED: tenon {' '.join(map(str, args))}: code {r.returncode}, not {code}\n{out[:500]}\n{err[:2000]}")
    return out if code == 0 else (out, err)


_work = tempfile.TemporaryDirectory()


def folder(name):
    path = os.path.join(_work.name, name)
    os.makedirs(path, exist_ok=True)
    return path


def save(path, nodes, inputs, outputs, weights):
    graph = helper.make_graph(nodes, "g", inputs, outputs, [numpy_helper.from_array(v, k) for k, v in weights.items()])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, path)


def value(name, dtype, dims):
    return helper.make_tensor_value_info(name, dtype, dims)


def write_json(path, v):
    with open(path, "w") as f:
        json.dump(v, f)
    return path


def image_model(path, dims, channels=3, classes=7, last=False, dtype=TensorProto.FLOAT):
    """Scores of a picture: the means of its channels through a matrix. Returns it [channels, classes]."""
    w = np.random.default_rng(5).normal(size=(channels, classes)).astype(np.float32)
    axes = [1, 2] if last else [2, 3]
    nodes = []
    name = "pixel_values"
    if dtype != TensorProto.FLOAT:
        nodes.append(helper.make_node("Cast", [name], ["x"], to=TensorProto.FLOAT))
        name = "x"
    nodes += [helper.make_node("ReduceMean", [name], ["mean"], axes=axes, keepdims=0),
              helper.make_node("MatMul", ["mean", "w"], ["logits"])]
    save(path, nodes, [value("pixel_values", dtype, dims)], [value("logits", TensorProto.FLOAT, ["batch", classes])], {"w": w})
    return w


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max())
    return e / e.sum()
