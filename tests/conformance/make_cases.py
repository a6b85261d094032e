#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes ONNX's backend test cases in the layout of its own data: FOLDER/KIND/NAME/{model.onnx,test_data_set_N}.

usage: make_cases.py FOLDER

Kinds: node (made by onnx.backend.test.case.node of the onnx package that Python has), simple, pytorch-converted,
pytorch-operator and light (which lie in that package; light models get the input that ONNX's runner makes up), and
old-node where Debian's libonnx-testdata is installed (the cases of ONNX 1.12, written in older opsets).
Casts of floats to integers of 2 and 4 bits get inputs that the type can hold: ONNX leaves the others undefined, and what
it expects of them is what ml_dtypes does with them (0.6 takes the low bits, 0.7 gives 0).
Four things differ from ONNX's layout: a file `tolerance` holds rtol and atol, `op` the operator that a node case is of; a sequence is a folder input_0.seq with
0.pb, 1.pb, ... ; an optional that is empty is a file input_0.none.
"""
import contextlib
import io
import os
import shutil
import sys
import warnings

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

OLD = "/usr/share/libonnx-testdata/data/node"
RTOL, ATOL = 1e-3, 1e-7  # of onnx.backend.test.loader


def write(path, data):
    with open(path, "wb") as f:
        f.write(data)


def write_tensor(path, value, name):
    if isinstance(value, onnx.TensorProto):
        if name and not value.name:
            value.name = name
        write(path, value.SerializeToString())
    else:
        write(path, numpy_helper.from_array(np.asarray(value), name).SerializeToString())


def write_value(stem, value, name):
    if value is None:
        write(stem + ".none", b"")
    elif isinstance(value, (list, tuple)):
        os.mkdir(stem + ".seq")
        for i, v in enumerate(value):
            write_value(os.path.join(stem + ".seq", str(i)), v, "")
    elif isinstance(value, dict):
        write(stem + ".map", b"")
    else:
        write_tensor(stem + ".pb", value, name)


NARROW = {TensorProto.UINT4: (0, 15), TensorProto.INT4: (-8, 7), TensorProto.UINT2: (0, 3), TensorProto.INT2: (-2, 1)}


def defined_cast(inputs, outputs):
    """Inputs and outputs of a case of Cast or CastLike, with floats limited to what a narrow integer type can hold."""
    x, y = inputs[0], outputs[0]
    if getattr(y, "data_type", None) not in NARROW or x.data_type not in (TensorProto.FLOAT, TensorProto.FLOAT16):
        return inputs, outputs
    values = numpy_helper.to_array(x)
    limited = np.clip(values, *NARROW[y.data_type])
    right = np.trunc(limited).astype(np.int8).astype(numpy_helper.to_array(y).dtype)
    return [numpy_helper.from_array(limited, x.name), *inputs[1:]], [numpy_helper.from_array(right, y.name)]


def make_folder(path, rtol=RTOL, atol=ATOL):
    os.makedirs(path)
    write(os.path.join(path, "tolerance"), b"%.9g %.9g\n" % (rtol, atol))


def node_cases(root):
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        cases = collect_testcases(None)
    ops = {}  # an expanded case comes behind the one that it is made of
    for case in cases:
        path = os.path.join(root, case.name)
        atol = case.atol
        if case.name.startswith(("test_dft", "test_stft")):  # stored by a transform in float32: one step of the largest
            atol = max([atol] + [2.0**-23 * float(np.abs(o).max()) for _, outs in case.data_sets for o in outs])
        make_folder(path, case.rtol, atol)
        expanded = case.name.split("_expanded")[0]
        ops[case.name] = case.model.graph.node[0].op_type if expanded == case.name else ops.get(expanded, "")
        write(os.path.join(path, "op"), ops[case.name].encode())
        write(os.path.join(path, "model.onnx"), case.model.SerializeToString())
        for i, (inputs, outputs) in enumerate(case.data_sets):
            folder = os.path.join(path, f"test_data_set_{i}")
            os.mkdir(folder)
            if ops[case.name] in ("Cast", "CastLike"):
                inputs, outputs = defined_cast(inputs, outputs)
            for what, values, infos in (("input", inputs, case.model.graph.input),
                                        ("output", outputs, case.model.graph.output)):
                for k, value in enumerate(values):
                    write_value(os.path.join(folder, f"{what}_{k}"), value, infos[k].name)


def read_value(path, info):
    """Value of one .pb file as write_value takes it."""
    with open(path, "rb") as f:
        data = f.read()
    kind = info.type.WhichOneof("value")
    if kind == "sequence_type":
        return numpy_helper.to_list(onnx.SequenceProto.FromString(data))
    if kind == "optional_type":
        return numpy_helper.to_optional(onnx.OptionalProto.FromString(data))
    return {} if kind == "map_type" else onnx.TensorProto.FromString(data)


def stored_case(source, path):
    """A case that lies in a package: linked, but for data that are not tensors."""
    make_folder(path)
    model = os.path.join(source, "model.onnx")
    os.symlink(model, os.path.join(path, "model.onnx"))
    graph = onnx.load(model, load_external_data=False).graph
    given = {t.name for t in graph.initializer}
    infos = {"input": [i for i in graph.input if i.name not in given], "output": graph.output}
    for folder in sorted(os.listdir(source)):
        if not folder.startswith("test_data_set_"):
            continue
        os.mkdir(os.path.join(path, folder))
        for file in os.listdir(os.path.join(source, folder)):
            stem, end = os.path.splitext(file)
            what, _, k = stem.partition("_")
            src, dst = os.path.join(source, folder, file), os.path.join(path, folder, stem)
            if end != ".pb" or what not in infos or int(k) >= len(infos[what]):
                continue
            info = infos[what][int(k)]
            if info.type.WhichOneof("value") == "tensor_type":
                os.symlink(src, dst + end)
            else:
                write_value(dst, read_value(src, info), "")


def stored_cases(source, root):
    for name in sorted(os.listdir(source)):
        if os.path.exists(os.path.join(source, name, "model.onnx")):
            stored_case(os.path.join(source, name), os.path.join(root, name))


def light_cases(source, root):
    """The input is what onnx.backend.test.runner makes up: 0, 1/n, 2/n, ... The output lies beside the model."""
    for file in sorted(os.listdir(source)):
        if not file.endswith(".onnx"):
            continue
        name = file[:-5]
        path = os.path.join(root, name)
        make_folder(path)
        os.symlink(os.path.join(source, file), os.path.join(path, "model.onnx"))
        folder = os.path.join(path, "test_data_set_0")
        os.mkdir(folder)
        graph = onnx.load(os.path.join(source, file)).graph
        given = {t.name for t in graph.initializer}
        inputs = [i for i in graph.input if i.name not in given]
        for k, info in enumerate(inputs):
            shape = [d.dim_value if d.HasField("dim_value") else 1 for d in info.type.tensor_type.shape.dim]
            n = int(np.prod(shape))
            write_tensor(os.path.join(folder, f"input_{k}.pb"), (np.arange(n).reshape(shape) / n).astype(np.float32), info.name)
        for k in range(len(graph.output)):
            os.symlink(os.path.join(source, f"{name}_output_{k}.pb"), os.path.join(folder, f"output_{k}.pb"))


def make(folder):
    data = os.path.join(os.path.dirname(onnx.__file__), "backend", "test", "data")
    shutil.rmtree(folder, ignore_errors=True)
    node_cases(os.path.join(folder, "node"))
    for kind in ("simple", "pytorch-converted", "pytorch-operator"):
        stored_cases(os.path.join(data, kind), os.path.join(folder, kind))
    light_cases(os.path.join(data, "light"), os.path.join(folder, "light"))
    if os.path.isdir(OLD):
        stored_cases(OLD, os.path.join(folder, "old-node"))


if __name__ == "__main__":
    make(sys.argv[1])
