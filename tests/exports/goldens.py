# SPDX-License-Identifier: Apache-2.0
"""Greedy continuations of the decoders in tests/exports by ONNX Runtime, as goldens of generate.py.

    goldens.py OUT [NAME...]

Writes OUT/NAME/generate.json for each decoder with a cache: three prompts, what ONNX Runtime's own loop with cache makes of
them, and how far apart its two best logits were at each step. make.py calls it for what it makes; it needs onnxruntime and
onnx only. README.md says what the cases are.
"""
import json
import pathlib
import sys

import numpy as np
import onnx
import onnxruntime as ort

TOKENS = 40
TRIES = 24  # prompts that are tried for one without near-ties; where halves make more of them, 25 times as many
PLAIN, LONG = 5, 20  # windows are 4 positions long
LEFT, RIGHT = "left", "right"


def session(path, level=ort.GraphOptimizationLevel.ORT_ENABLE_BASIC):
    o = ort.SessionOptions()
    o.log_severity_level = 3
    o.graph_optimization_level = level
    o.intra_op_num_threads = 1
    return ort.InferenceSession(path if isinstance(path, bytes) else str(path), o, providers=["CPUExecutionProvider"])


BF16, F32 = onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT


def widened(tensor):
    """A tensor of halves in f32: the same numbers."""
    values = onnx.numpy_helper.to_array(tensor).astype(np.float32)
    return onnx.numpy_helper.from_array(values, tensor.name)


def widen(graph, half):
    """f32 in place of `half` in a graph and its bodies."""
    for t in graph.initializer:
        if t.data_type == half:
            t.CopyFrom(widened(t))
    for v in list(graph.input) + list(graph.output) + list(graph.value_info):
        if v.type.tensor_type.elem_type == half:
            v.type.tensor_type.elem_type = F32
    for n in graph.node:
        for a in n.attribute:
            if a.type == onnx.AttributeProto.GRAPH:
                widen(a.g, half)
            elif a.type == onnx.AttributeProto.TENSOR and a.t.data_type == half:
                a.t.CopyFrom(widened(a.t))
            elif n.op_type == "Cast" and a.name == "to" and a.i == half:
                a.i = F32


def oracle(path):
    """What ONNX Runtime's CPU is asked: the model, with f32 in place of halves that it has no kernels for (of bf16 it has
    none), and of MatMulNBits the level that does not round activations."""
    model = onnx.load(path)
    widen(model.graph, BF16)
    for n in model.graph.node:
        if n.op_type == "MatMulNBits":
            keep = [a for a in n.attribute if a.name != "accuracy_level"] + [onnx.helper.make_attribute("accuracy_level", 1)]
            del n.attribute[:]
            n.attribute.extend(keep)
    try:
        s = session(model.SerializeToString())
        greedy(s, [[5, 6], [7]], LEFT, 3)
    except Exception:  # of a kernel that gives up
        widen(model.graph, onnx.TensorProto.FLOAT16)
        s = session(model.SerializeToString())
    return s


NUMPY = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(int64)": np.int64,
         "tensor(int32)": np.int32, "tensor(bool)": np.bool_}


def is_decoder(model):
    names = [i.name for i in model.graph.input]
    return "input_ids" in names and any(n.startswith("past") for n in names) and not any("encoder" in n for n in names)


def present_of(s, past):
    """The output that continues the input `past`."""
    outs = [o.name for o in s.get_outputs()]
    for name in (past.replace("past_key_values", "present"), past.replace("past", "present")):
        if name in outs:
            return name
    raise RuntimeError(f"no present for {past}")


def size_of(name):
    """Of an axis of a cache: no rows yet; WIDE's heads, which one form gives a name."""
    return 16 if name == "kv_cache_dim" else 0


def logits_of(outs):
    """Of outputs, or of what is known of them, by name."""
    return outs["logits"] if "logits" in outs else next(v for n, v in outs.items() if not n.startswith("present"))


class Loop:
    """A batch in ONNX Runtime: feeds rows of ids with their mask behind the caches of the last call."""

    def __init__(self, s, batch):
        self.s, self.batch, self.mask = s, batch, np.zeros((batch, 0), np.int64)
        self.past = {i.name: np.zeros([batch] + [d if isinstance(d, int) else size_of(d) for d in i.shape[1:]],
                                      NUMPY[i.type]) for i in s.get_inputs() if i.name.startswith("past")}

    def feeds(self, ids, mask):
        self.mask = np.concatenate([self.mask, mask], 1)
        known = {"input_ids": ids, "attention_mask": self.mask,
                 "position_ids": np.maximum(np.cumsum(self.mask, 1) - 1, 0)[:, -ids.shape[1]:]}
        return {i.name: (self.past[i.name] if i.name in self.past else known[i.name].astype(NUMPY[i.type]))
                for i in self.s.get_inputs()}

    def step(self, ids, mask):
        outs = dict(zip([o.name for o in self.s.get_outputs()], self.s.run(None, self.feeds(ids, mask))))
        self.past = {n: outs[present_of(self.s, n)] for n in self.past}
        return logits_of(outs).astype(np.float64)


def greedy(s, prompts, pad, tokens=TOKENS):
    """ids and margins [batch][tokens]. A margin is the distance of the two best logits by the size of the best."""
    width = max(map(len, prompts))
    ids, mask = np.zeros((len(prompts), width), np.int64), np.zeros((len(prompts), width), np.int64)
    for b, p in enumerate(prompts):
        at = slice(width - len(p), None) if pad == LEFT else slice(0, len(p))
        ids[b, at], mask[b, at] = p, 1
    last = [width - 1 if pad == LEFT else len(p) - 1 for p in prompts]
    loop = Loop(s, len(prompts))
    logits = loop.step(ids, mask)
    logits = logits[range(len(prompts)), last] if logits.shape[1] > 1 else logits[:, 0]  # or of the last token alone
    out, margins = [], []
    while True:
        best = np.sort(logits, 1)[:, -2:]
        out.append(logits.argmax(1))
        margins.append((best[:, 1] - best[:, 0]) / np.maximum(1, np.abs(best[:, 1])))
        if len(out) == tokens:
            return np.stack(out, 1), np.stack(margins, 1)
        logits = loop.step(out[-1][:, None], np.ones((len(prompts), 1), np.int64))[:, -1]


def compared(margins, bound):
    """How many tokens of a sequence count: those before the first near-tie, and the one that it decides."""
    near = np.flatnonzero(margins < bound)
    return len(margins) if len(near) == 0 else int(near[0])


def search(s, length, bound, vocab, seed):
    """Of random prompts the one that compares most, and among such the one with the most different tokens."""
    best = None
    for k in range(TRIES if bound < 0.01 else 25 * TRIES):
        prompt = np.random.default_rng([seed, length, k]).integers(3, vocab, length).tolist()
        ids, margins = greedy(s, [prompt], LEFT)
        n = compared(margins[0], bound)
        score = (min(30, n), len(set(ids[0, :n].tolist())), n)
        if best is None or score > best[0]:
            best = (score, prompt)
        if bound >= 0.01 and best[0] >= (30, 10):
            break
    return best[1]


def case(s, lengths, pad, bound, vocab, seed):
    """Prompts of these lengths in a batch, and what comes of them."""
    prompts = [search(s, n, bound, vocab, seed + k) for k, n in enumerate(lengths)]
    ids, margins = greedy(s, prompts, pad)
    return {"prompts": prompts, "pad": pad, "ids": ids.tolist(),
            "margins": [[float(f"{x:.2e}") for x in row] for row in margins]}


ERROR = 2e-4                    # of a logit by its size: the bound of run.sh
HALF, BRAIN = 2.0 ** -11, 2.0 ** -8  # what one rounding to fp16 or bf16 may add
OPERATORS = 25                  # behind one another


def error_of(model):
    """The most a logit may be off, by its size. Roundings to halves are independent of each other: their sum grows as the
    root of their number."""
    types = {i.type.tensor_type.elem_type for i in model.graph.input}
    if onnx.TensorProto.BFLOAT16 in types:
        return OPERATORS ** 0.5 * BRAIN
    return OPERATORS ** 0.5 * HALF if onnx.TensorProto.FLOAT16 in types else ERROR


def counts_rows(model):
    """GroupQueryAttention counts a sequence's rows from its first one: it is padded on the right."""
    return any(n.op_type == "GroupQueryAttention" for n in model.graph.node)


def write(folder, seed=1):
    """generate.json of one export; its text, or None where it is no decoder with a cache."""
    path = pathlib.Path(folder) / "model.onnx"
    model = onnx.load(path)
    if not is_decoder(model):
        return None
    s = oracle(path)
    shape = logits_of({o.name: o.shape for o in s.get_outputs()})
    vocab = shape[-1] if isinstance(shape[-1], int) else 96
    bound = 2 * error_of(model)
    pad = RIGHT if counts_rows(model) else LEFT
    lengths = [5, 5] if shape[1] == 1 else [6, 4]  # where the last row is all there is, all prompts end in it
    cases = {name: case(s, n, side, bound, vocab, seed)
             for name, n, side in (("plain", [PLAIN], LEFT), ("long", [LONG], LEFT), ("batch", lengths, pad))}
    (path.parent / "generate.json").write_text(json.dumps({"bound": bound, "cases": cases}) + "\n")
    return ", ".join(f"{n} {[compared(np.array(m), bound) for m in c['margins']]} "
                     f"({min(len(set(r)) for r in c['ids'])} different)" for n, c in cases.items())


def main():
    out = pathlib.Path(sys.argv[1])
    for folder in sorted(p for p in out.iterdir() if not sys.argv[2:] or p.name in sys.argv[2:]):
        text = write(folder) if (folder / "model.onnx").exists() else None
        if text:
            print(f"{folder.name}: {text}", flush=True)


if __name__ == "__main__":
    main()
