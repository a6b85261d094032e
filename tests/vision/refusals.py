# SPDX-License-Identifier: Apache-2.0
"""refusals.py SHAPE_RUN PROFILE_DIR: what operators on images cannot do ends with a message that names the node, or is
done; never with a crash, a wrong read or hours of work. Inputs are dims that only the run knows, indices, regions,
thresholds; attributes are absurd numbers."""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import TensorProto as T
    from onnx import helper, numpy_helper
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

F = np.float32
BIG = 2**31 - 1


def f(*dims):
    return np.arange(int(np.prod(dims)), dtype=F).reshape(dims)


# name, op, opset, inputs (x, ...: fed; symbolic dims), constants, attributes, outputs, text of the message (None: runs)
CASES = [
    ("unpool index", "MaxUnpool", 11, [f(1, 1, 2, 2), np.array([[[[1, 2], [3, 99]]]])], [], {"kernel_shape": [2, 2]}, 1,
     "index 99 of 9"),
    ("unpool negative index", "MaxUnpool", 11, [f(1, 1, 2, 2), np.array([[[[1, -2], [3, 4]]]])], [],
     {"kernel_shape": [2, 2]}, 1, "index -2"),
    ("unpool small output", "MaxUnpool", 11, [f(2, 1, 2, 2), np.zeros((2, 1, 2, 2), np.int64)],
     [np.array([1, 1, 4, 4])], {"kernel_shape": [2, 2]}, 1, "output dim 0 is 1, less than 2"),
    ("conv channels", "Conv", 11, [f(1, 5, 4, 4)], [f(2, 3, 3, 3)], {}, 1, "channels do not fit"),
    ("conv kernel too large", "Conv", 11, [f(1, 3, 2, 1)], [f(2, 3, 3, 3)], {}, 1, ""),
    ("conv transpose channels", "ConvTranspose", 11, [f(1, 5, 4, 4)], [f(2, 3, 3, 3)], {}, 1, "channels do not fit"),
    ("deform offset", "DeformConv", 19, [f(1, 1, 4, 4)], [f(1, 1, 2, 2), f(1, 3, 3, 3)], {}, 1, "do not fit the output"),
    ("deform far", "DeformConv", 19, [f(1, 1, 4, 4)], [f(1, 1, 2, 2), np.full((1, 8, 3, 3), 3e38, F)], {}, 1, None),
    ("deform nan", "DeformConv", 19, [f(1, 1, 4, 4)], [f(1, 1, 2, 2), np.full((1, 8, 3, 3), np.nan, F)], {}, 1, None),
    ("huge kernel", "MaxPool", 12, [f(1, 1, 4, 4)], [],
     {"kernel_shape": [BIG, BIG], "pads": [BIG - 1] * 2 + [0] * 2, "strides": [BIG, BIG]}, 1, None),
    ("huge kernel, average", "AveragePool", 12, [f(1, 1, 4, 4, 4)], [],
     {"kernel_shape": [BIG] * 3, "pads": [BIG - 1] * 3 + [0] * 3, "strides": [BIG] * 3, "count_include_pad": 1}, 1, None),
    ("huge pads", "AveragePool", 12, [f(1, 1, 4, 4)], [], {"kernel_shape": [2, 2], "pads": [BIG] * 4}, 1, ""),
    ("lp of zero", "LpPool", 18, [f(1, 1, 4, 4)], [], {"kernel_shape": [2, 2], "p": 0}, 1, "'p' is 0"),
    ("global lp of -1", "GlobalLpPool", 8, [f(1, 1, 4, 4)], [], {"p": -1}, 1, "'p' is -1"),
    ("no pixels", "GlobalAveragePool", 8, [f(2, 3, 0, 4)], [], {}, 1, None),
    ("batch norm channels", "BatchNormalization", 15, [f(1, 3, 4)], [f(2)] * 4, {}, 1, "2 elements for 3 channels"),
    ("batch norm statistics", "BatchNormalization", 15, [f(1, 3, 4)], [f(3)] * 4, {}, 3, "training_mode only"),
    ("group norm groups", "GroupNormalization", 21, [f(1, 3, 4)], [f(3), f(3)], {"num_groups": 2}, 1, "3 channels in 2"),
    ("lrn size", "LRN", 13, [f(1, 3, 4, 4)], [], {"size": 0}, 1, "'size' is 0"),
    ("lrn huge", "LRN", 13, [f(1, 3, 4, 4)], [], {"size": 2**63 - 1}, 1, None),
    ("lp norm", "LpNormalization", 8, [f(1, 3)], [], {"p": 3}, 1, "p is 3"),
    ("mvn axes", "MeanVarianceNormalization", 13, [f(1, 3)], [], {"axes": [5]}, 1, "axis 5, rank 2"),
    ("resize mode", "Resize", 19, [f(1, 1, 2, 2)], [None, np.array([1, 1, 2, 2], F)], {"mode": "lanczos"}, 1, "'mode' is '"),
    ("resize roi", "Resize", 19, [f(1, 1, 2, 2)], [None, np.array([1, 1, 2, 2], F)],
     {"coordinate_transformation_mode": "tf_crop_and_resize"}, 1, "roi does not fit"),
    ("resize negative scale", "Resize", 19, [f(1, 1, 2, 2)], [None, np.array([1, 1, -2, 2], F)], {}, 1, ""),
    ("resize nan", "Resize", 19, [f(1, 1, 2, 2)], [None, np.array([1, 1, np.nan, 2], F)], {}, 1, ""),
    ("resize to nothing", "Resize", 19, [f(1, 1, 2, 2)], [None, np.array([1, 1, 0.25, 2], F)], {"mode": "linear"}, 1, None),
    ("resize of nothing", "Resize", 19, [f(1, 1, 0, 2)], [None, None, np.array([1, 1, 2, 2])], {}, 1, "nothing to resize"),
    ("resize crop far", "Resize", 19, [f(1, 1, 2, 2)], [np.array([0, 0, -1e30, np.nan, 1, 1, 1e38, 2], F), np.array([1, 1, 2, 2], F)],
     {"coordinate_transformation_mode": "tf_crop_and_resize", "mode": "cubic"}, 1, None),
    ("grid far", "GridSample", 20, [f(1, 1, 2, 2)], [np.array([1e38, -1e38, np.nan, np.inf], F).reshape(1, 1, 2, 2)],
     {"padding_mode": "reflection", "mode": "cubic"}, 1, None),
    ("grid nearest", "GridSample", 20, [f(1, 1, 2, 2)], [np.array([1e38, -1e38, np.nan, np.inf], F).reshape(1, 1, 2, 2)],
     {"padding_mode": "border", "mode": "nearest"}, 1, None),
    ("grid batch", "GridSample", 20, [f(2, 1, 2, 2)], [f(1, 1, 2, 2)], {}, 1, "does not fit"),
    ("grid mode", "GridSample", 20, [f(1, 1, 2, 2)], [f(1, 1, 2, 2)], {"mode": "best"}, 1, "'mode' is '"),
    ("blocks", "DepthToSpace", 13, [f(1, 6, 2, 2)], [], {"blocksize": 2}, 1, "do not fit"),
    ("col2im", "Col2Im", 18, [f(1, 4, 5)], [np.array([3, 3]), np.array([2, 2])], {}, 1, "5 columns of 4"),
    ("roi image", "RoiAlign", 16, [f(1, 1, 4, 4)], [f(1, 4), np.array([3])], {"output_height": 2}, 1, "out of range"),
    ("roi nan", "RoiAlign", 16, [f(1, 1, 4, 4)], [np.full((1, 4), np.nan, F), np.array([0])], {}, 1, "out of range"),
    ("roi far", "RoiAlign", 16, [f(1, 1, 4, 4)], [np.array([[0, 0, 1e30, 1e30]], F), np.array([0])], {}, 1, "out of range"),
    ("roi pool image", "MaxRoiPool", 8, [f(1, 1, 4, 4)], [np.array([[7, 0, 0, 1, 1]], F)], {"pooled_shape": [1, 1]}, 1,
     "out of range"),
    ("roi pool far", "MaxRoiPool", 8, [f(1, 1, 4, 4)], [np.array([[0, -1e30, -1e30, 1e30, 1e30]], F)],
     {"pooled_shape": [2, 2]}, 1, None),
    ("roi pool nan", "MaxRoiPool", 8, [f(1, 1, 4, 4)], [np.array([[0, -1e30, np.nan, 1e30, 1e30]], F)],
     {"pooled_shape": [2, 2]}, 1, "out of range"),
    ("boxes", "NonMaxSuppression", 11, [f(1, 3, 4), f(1, 1, 2)], [np.array([2])], {}, 1, ""),
    ("boxes nan", "NonMaxSuppression", 11, [np.full((1, 3, 4), np.nan, F), np.full((1, 1, 3), np.nan, F)],
     [np.array([BIG])], {}, 1, None),
    ("no boxes", "NonMaxSuppression", 11, [f(1, 0, 4), f(1, 1, 0)], [np.array([2])], {}, 1, None),
]


def make(folder, case):
    name, op, opset, fed, constants, attrs, outs, _ = case
    os.makedirs(os.path.join(folder, "0", "out"))
    inputs, names, inits = [], [], []
    for i, v in enumerate(fed):
        n = "xyz"[i]
        inputs.append(helper.make_tensor_value_info(n, helper.np_dtype_to_tensor_dtype(v.dtype), [f"d{i}{k}" for k in range(v.ndim)]))
        names.append(n)
        np.save(os.path.join(folder, "0", n + ".npy"), v)
    for i, v in enumerate(constants):
        names.append("" if v is None else f"c{i}")
        if v is not None:
            inits.append(numpy_helper.from_array(np.asarray(v), f"c{i}"))
    kind = T.INT64 if op == "NonMaxSuppression" else T.FLOAT
    outputs = [f"o{i}" for i in range(outs)]
    node = helper.make_node(op, names, outputs, name="the node", **attrs)
    graph = helper.make_graph([node], name, inputs, [helper.make_tensor_value_info(o, kind, None) for o in outputs], inits)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=8),
              os.path.join(folder, "model.onnx"))


def main():
    tool, profiles = sys.argv[1], sys.argv[2]
    bad = 0
    with tempfile.TemporaryDirectory(prefix="tenon-refusals-") as top:
        folders = [os.path.join(top, str(i)) for i in range(len(CASES))]
        for folder, case in zip(folders, CASES):
            make(folder, case)
        r = subprocess.run([tool, profiles] + folders, capture_output=True, text=True, timeout=120)
        if r.returncode != 0:
            sys.exit(f"FAIL: the tool ended with {r.returncode}: {r.stdout[-300:]} {r.stderr[-2000:]}")
        rows = [line.split("\t") for line in r.stdout.splitlines()]
        for folder, case in zip(folders, CASES):
            mine = [row for row in rows if row[1] == folder and row[0] in ("ok", "fail")]
            got = mine[0][3] if mine and mine[0][0] == "fail" else None
            want = case[7]
            ok = bool(mine) and (got is None if want is None else got is not None and want in got and ("the node" in got or "attribute '" in got))
            if not ok and want == "" and got is not None:
                ok = True  # any message
            if not ok:
                bad += 1
                print(f"FAIL {case[0]}: wanted {'a result' if want is None else repr(want)}, got {got or 'a result'}")
    print(f"{len(CASES)} cases, {bad} wrong")
    sys.exit(1 if bad else 0)


main()
