#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""bench/make_llama.py against onnxruntime: prefill and decode logits by `tenon verify`, greedy ids by `tenon run`.

check_llama.py SOURCE TENON. Exits 77 without onnx, numpy or onnxruntime.
"""
import os
import subprocess
import sys
import tempfile

try:
    import numpy as np
    import onnx
    import onnxruntime as ort
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

source, tenon = sys.argv[1], sys.argv[2]
LAYERS, KV, HEAD = 2, 2, 16


def feed(ids, past):
    n_past = past[0].shape[2] if past else 0
    batch, n = ids.shape
    f = {"input_ids": ids, "attention_mask": np.ones((batch, n_past + n), np.int64),
         "position_ids": np.tile(np.arange(n_past, n_past + n, dtype=np.int64), (batch, 1))}
    for i in range(2 * LAYERS):
        empty = np.zeros((batch, KV, 0, HEAD), np.float32)
        f[f"past_key_values.{i // 2}.{('key', 'value')[i % 2]}"] = past[i] if past else empty
    return f


def save(folder, index, f, names, values):
    d = os.path.join(folder, f"test_data_set_{index}")
    os.makedirs(d)
    for kind, items in (("input", list(f.items())), ("output", list(zip(names, values)))):
        for k, (name, v) in enumerate(items):
            with open(os.path.join(d, f"{kind}_{k}.pb"), "wb") as out:
                out.write(onnx.numpy_helper.from_array(v, name).SerializeToString())


def check(folder, extra, new=12, ring=False):
    subprocess.run([sys.executable, os.path.join(source, "bench", "make_llama.py"), folder, "--layers", str(LAYERS),
                    "--dim", "64", "--heads", "4", "--kv-heads", str(KV), "--ffn", "96"] + extra, check=True)
    path = os.path.join(folder, "model.onnx")
    onnx.checker.check_model(path)
    s = ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [o.name for o in s.get_outputs()]
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 4096, (2, 9))
    first = s.run(names, feed(ids, None))
    save(folder, 0, feed(ids, None), names, first)
    more = feed(rng.integers(0, 4096, (2, 3)), first[1:])
    save(folder, 1, more, names, s.run(names, more))
    profile = os.path.join(folder, "host.yaml")
    with open(profile, "w", encoding="utf-8") as f:
        f.write("plugins: [host]\nprefill_chunk: 16\n")
    if ring != (" ring" in subprocess.run([tenon, "inspect", path, "--profile", profile, "--format", "json"], check=True,
                                          capture_output=True, text=True).stdout):
        print(f"{folder}: caches that are {'no' if ring else ''} rings")
        sys.exit(1)
    subprocess.run([tenon, "verify", path, "--data", folder, "--profile", profile], check=True)
    # Greedy ids by onnxruntime from the ids that `tenon run` prints first.
    out = subprocess.run([tenon, "run", folder, "-p", "In the beginning", "-n", str(new), "--temp", "0", "--ids",
                          "--ignore-eos", "--profile", profile], check=True, capture_output=True, text=True).stdout
    got = [int(x) for x in out.split()]
    seq, past = got[:-new], None
    want, step = list(seq), np.array([seq])
    for _ in range(new):
        r = s.run(names, feed(step, past))
        want.append(int(r[0][0, -1].argmax()))
        step, past = np.array([[want[-1]]]), r[1:]
    if got != want:
        print(f"ids differ:\n  {got}\n  {want}")
        sys.exit(1)


with tempfile.TemporaryDirectory() as tmp:
    check(os.path.join(tmp, "external"), [])
    check(os.path.join(tmp, "single"), ["--single-file", "--tied", "once"])
    check(os.path.join(tmp, "twice"), ["--tied", "twice"])
    # 100 positions go round a ring of 64 rows.
    check(os.path.join(tmp, "window"), ["--single-file", "--window", "12"], 100, True)
print("make_llama.py: logits and greedy ids as onnxruntime's, with a sliding window too")
