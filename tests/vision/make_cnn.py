#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""make_cnn.py FOLDER: MobileNetV2 and ResNet-18 of random weights (bench/beside_ort.py), each with an input and what onnxruntime gives."""
import os
import sys

import numpy as np
import onnxruntime as ort
from onnx import numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench"))
import beside_ort  # noqa: E402


def main():
    for name, make in (("mobilenet-v2", beside_ort.mobilenet_v2), ("resnet-18", beside_ort.resnet18)):
        folder = os.path.join(sys.argv[1], name)
        data = os.path.join(folder, "test_data_set_0")
        os.makedirs(data)
        path = os.path.join(folder, "model.onnx")
        make(path)
        x = np.random.default_rng(7).random((1, 3, 224, 224), np.float32)
        session = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
        for file, tensor, value in (("input_0.pb", "x", x), ("output_0.pb", "out", session.run(None, {"x": x})[0])):
            with open(os.path.join(data, file), "wb") as f:
                f.write(numpy_helper.from_array(value, tensor).SerializeToString())


if __name__ == "__main__":
    main()
