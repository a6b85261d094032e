# SPDX-License-Identifier: Apache-2.0
"""Graphs of TensorFlow as tf2onnx writes them, with ONNX Runtime's outputs as goldens.

    make_tf.py OUT

It needs PyPI's tensorflow-cpu 2.15, tf2onnx and onnxruntime, in an environment of its own: they ask for older packages than
make.py's.
"""
import pathlib
import shutil
import sys

import numpy as np
import onnx
import onnxruntime as ort
import tensorflow as tf
import tf2onnx
from onnx import numpy_helper

K = tf.keras


def cnn():
    x = i = K.Input((32, 32, 3))
    for n, s in ((8, 2), (16, 2)):
        x = K.layers.Conv2D(n, 3, s, padding="same", use_bias=False)(x)
        x = K.layers.BatchNormalization()(x)
        x = K.layers.ReLU(6.0)(x)
        x = K.layers.DepthwiseConv2D(3, padding="same", activation="swish")(x)
    x = K.layers.UpSampling2D(2, interpolation="bilinear")(x)
    x = K.layers.MaxPool2D(3, 2, "same")(x)
    return K.Model(i, K.layers.Dense(10, activation="softmax")(K.layers.GlobalAveragePooling2D()(x)))


def recurrent():
    i = K.Input((None,), dtype=tf.int32)
    x = K.layers.Embedding(96, 16)(i)
    x = K.layers.Bidirectional(K.layers.LSTM(12, return_sequences=True))(x)
    x = K.layers.GRU(8, return_sequences=True)(x)
    return K.Model(i, K.layers.Dense(5)(x))


def transformer():
    i = K.Input((None,), dtype=tf.int32)
    x = K.layers.Embedding(96, 32)(i)
    for _ in range(2):
        a = K.layers.MultiHeadAttention(4, 8)(x, x, use_causal_mask=True)
        x = K.layers.LayerNormalization()(x + a)
        h = K.layers.Dense(64, activation="gelu")(x)
        x = K.layers.LayerNormalization()(x + K.layers.Dense(32)(h))
    return K.Model(i, K.layers.Dense(96)(x))


def coarse(model, seed):
    rng = np.random.default_rng(seed)
    for w in model.weights:
        n = rng.integers(-7, 8, w.shape)
        scale = 64 if len(w.shape) < 2 else 8 * 2 ** round(np.log2(max(1, np.prod(w.shape[:-1])) ** 0.5))
        one = any(k in w.name for k in ("gamma", "variance"))
        w.assign((n / scale + one).astype(np.float32))


def main():
    out = pathlib.Path(sys.argv[1])
    for name, build in (("tf2onnx-cnn", cnn), ("tf2onnx-recurrent", recurrent), ("tf2onnx-transformer", transformer)):
        folder = out / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        model = build()
        coarse(model, len(name))
        proto, _ = tf2onnx.convert.from_keras(model, opset=17)
        onnx.save(proto, folder / "model.onnx")
        s = ort.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
        rng = np.random.default_rng(1)
        for k, batch in enumerate((1, 2)):
            i = s.get_inputs()[0]
            x = rng.standard_normal((batch, 32, 32, 3), dtype=np.float32) if len(i.shape) == 4 else \
                rng.integers(0, 96, (batch, 6), dtype=np.int32)
            d = folder / f"test_data_set_{k}"
            d.mkdir()
            (d / "input_0.pb").write_bytes(numpy_helper.from_array(x, i.name).SerializeToString())
            for n, (o, v) in enumerate(zip(s.get_outputs(), s.run(None, {i.name: x}))):
                (d / f"output_{n}.pb").write_bytes(numpy_helper.from_array(v, o.name).SerializeToString())
        print(name)


if __name__ == "__main__":
    main()
