# SPDX-License-Identifier: Apache-2.0
"""Models with states of fixed size: 40 greedy tokens as ONNX Runtime's own loop gives them.

    check.py TENON REWIND EXPORTS.tar.xz

Of graphs.py and of the archive (make.py). The prompt goes at once, and in chunks of 4 (the last one shorter). REWIND is rewind.c.
States and caches are kept: `tenon inspect` says so. Exit 77 without onnxruntime.
"""
import json
import pathlib
import subprocess
import sys
import tarfile
import tempfile

try:
    import numpy as np
    import onnxruntime

    import graphs
except ImportError as e:
    print("skipped:", e)
    sys.exit(77)

PROMPT = [5, 9, 33, 2, 71, 8, 14, 60, 3, 3, 41]
EXPORTS = 4
TOKENS, BOUND = 40, 1e-3  # BOUND: what the two best logits, of about 5, must be apart


def continued(name):
    return name.replace("past_key_values", "present") if "key_values" in name else name.replace("past", "present")


def greedy(path):
    """Ids, and the smallest distance of the two best logits."""
    s = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    dims = {"batch_size": 1}
    states = {i.name: np.zeros([d if isinstance(d, int) else dims.get(d, 0) for d in i.shape], np.float32)
              for i in s.get_inputs() if i.name != "input_ids"}
    names = [o.name for o in s.get_outputs()]
    ids, out, gap = PROMPT, [], np.inf
    for _ in range(TOKENS):
        r = dict(zip(names, s.run(None, {"input_ids": np.array([ids], np.int64), **states})))
        best = np.sort(r["logits"][0, -1])[-2:]
        gap = min(gap, best[1] - best[0])
        ids = [int(r["logits"][0, -1].argmax())]
        out += ids
        states = {k: r[continued(k)] for k in states}
    return out, gap


def run(tenon, model, profile):
    r = subprocess.run([tenon, "run", str(model), "--prompt-ids", ",".join(map(str, PROMPT)), "--temp", "0", "--ids", "-n", str(TOKENS),
                        "--profile", profile], capture_output=True, text=True)
    if r.returncode:
        raise RuntimeError(f"{model}: {r.stderr}")
    return [int(i) for i in r.stdout.split()][-TOKENS:]


def kept(tenon, model):
    r = subprocess.run([tenon, "inspect", str(model), "--profile", "host", "--format", "json"], capture_output=True, text=True)
    j = json.loads(r.stdout)
    if not j.get("caches_kept"):
        print(f"{model.parent.name}: {j.get('caches_reason', r.stderr)}")
    return j.get("caches_kept")


def main():
    tenon, rewind, archive = sys.argv[1:4]
    host = pathlib.Path(__file__).resolve().parents[2] / "configs/host.yaml"
    failed = 0
    with tempfile.TemporaryDirectory() as tmp:
        graphs.write(tmp)
        with tarfile.open(archive) as exports:
            exports.extractall(tmp)
        chunks = pathlib.Path(tmp) / "chunks.yaml"
        chunks.write_text("plugins: [host]\nprefill_chunk: 4\n")
        models = sorted(pathlib.Path(tmp).glob("*/model.onnx"))
        if len(models) != len(graphs.MODELS) + EXPORTS:
            print(f"{len(models)} models")
            failed += 1
        for model in models:
            name = model.parent.name
            failed += not kept(tenon, model)
            want, gap = greedy(model)
            if gap < BOUND:
                print(f"{name}: the two best logits are {gap} apart: choose another seed")
                failed += 1
            for profile in ("host", str(chunks)):
                got = run(tenon, model, profile)
                if got != want:
                    print(f"{name}, {profile}: {got}\n  ONNX Runtime: {want}")
                    failed += 1
            r = subprocess.run([rewind, str(model), str(host)], capture_output=True, text=True)
            print(f"{name}: {TOKENS} ids compared twice, the best two logits at least {gap:.2g} apart")
            if r.returncode:
                print(f"{name}: {r.stderr}")
                failed += 1
    return failed != 0


sys.exit(main())
