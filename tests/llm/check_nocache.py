#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A decoder without a cache says what the same decoder with a cache says.

The exports' past inputs become empty constants and their present outputs go away.
usage: check_nocache.py TENON   (data: TENON_TEST_DATA, configs: TENON_TEST_SOURCE; without them or `onnx`: exit 77)
"""
import os
import shutil
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    from onnx import numpy_helper
except ImportError:
    print("skipped: the Python package `onnx` is not installed")
    sys.exit(77)

DATA, SOURCE = os.environ.get("TENON_TEST_DATA", ""), os.environ.get("TENON_TEST_SOURCE", "")


def without_cache(src, dst):
    m = onnx.load(os.path.join(src, "model.onnx"))
    g, keep = m.graph, []
    for i in g.input:
        if i.name.startswith("past"):
            d = [x.dim_value for x in i.type.tensor_type.shape.dim]
            g.initializer.append(numpy_helper.from_array(np.zeros([1, d[1], 0, d[3]], np.float32), i.name))
        else:
            keep.append(i)
    outputs = [o for o in g.output if not o.name.startswith("present")]
    del g.input[:], g.output[:]
    g.input.extend(keep)
    g.output.extend(outputs)
    onnx.save(m, os.path.join(dst, "model.onnx"))
    for f in os.listdir(src):
        if f.endswith(".json"):
            shutil.copy(os.path.join(src, f), dst)


def ids(folder):
    p = subprocess.run([sys.argv[1], "run", folder, "--profile", os.path.join(SOURCE, "configs", "host.yaml"), "-p", "",
                        "-n", "60", "--temp", "0", "--ids"], capture_output=True, text=True)
    if p.returncode:
        sys.exit("%s: %s" % (folder, p.stderr))
    return p.stdout.split()


src = os.path.join(DATA, "lm", "stories260k-onnx")
if not os.path.isdir(src):
    print("skipped: no models (TENON_TEST_DATA)")
    sys.exit(77)
with tempfile.TemporaryDirectory(prefix="tenon-nocache-") as tmp:
    without_cache(src, tmp)
    a, b = ids(src), ids(tmp)
    print("%d ids with a cache, %d without: %s" % (len(a), len(b), "equal" if a == b else "different"))
    sys.exit(a != b or len(a) != 61)
