#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints the rows of test_real.c for all models of a data folder, taken with PyPI's onnx and numpy.

check_models.py DATA

Per model: IR, ai.onnx opset, nodes (subgraphs included), Constant nodes, initializers, inputs, outputs, and the bytes of
all initializers and Constant tensors with their sum.
"""
import glob
import sys

import numpy as np
import onnx
from onnx import numpy_helper


def count(graph):
    attrs = [a for n in graph.node for a in n.attribute]
    subs = [a.g for a in attrs if a.HasField("g")] + [g for a in attrs for g in a.graphs]
    return len(graph.node) + sum(count(g) for g in subs)


for path in sorted(glob.glob(sys.argv[1] + "/**/*.onnx", recursive=True)):
    m = onnx.load(path)
    g = m.graph
    constants = [n for n in g.node if n.op_type == "Constant"]
    names = {t.name for t in g.initializer}
    tensors = list(g.initializer) + [n.attribute[0].t for n in constants]
    data = [t.raw_data or numpy_helper.to_array(t).tobytes() for t in tensors]
    total = sum(int(np.frombuffer(b, np.uint8).sum(dtype=np.uint64)) for b in data)
    opset = max(o.version for o in m.opset_import if o.domain in ("", "ai.onnx"))
    row = [m.ir_version, opset, count(g), len(constants), len(names), sum(i.name not in names for i in g.input),
           len(g.output), sum(map(len, data)), total]
    print('    {"%s", %s},' % (path[len(sys.argv[1]) + 1:], ", ".join(map(str, row))))
