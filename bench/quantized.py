#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What `tenon quantize` costs: KL divergence, perplexity and first choices of its folders beside the model in f32.

  bench/quantized.py TENON [--model DIR] [--texts FILE.json] [--only BITS:BLOCK[z]|FORMAT|BITS=FORMAT+...,...]
                     [--calibrated] [--packed] [--reversed] [--threads N] [--keep DIR]

Each width, or weight format of a plugin (lev4, w4g:32; profile default), is quantized twice, by rounding (--round; not
with --calibrated) and with calibration on the texts from the 40th on. 3.4=lev2+lev3+lev4 is a budget of 3.4 bits, for which
a format is chosen for each product. A budget counts the file's bits. With --packed it is lowered until the bits that the
default device packs are no more than asked for. Scored are the first 30 texts, each cut at 1,200 characters and 320 tokens,
and the ten after them. --reversed takes the texts from the last to the first: another draw for both. Weights alone count: onnxruntime
computes in f32 with the codes taken as floats. For widths that its MatMulNBits has, it also runs the folder as it is: the
largest difference of logits is printed, and that of Tenon's from onnxruntime's. Python with numpy, onnx, onnxruntime
and tokenizers.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
FIRST, OTHER, CALIBRATION, CHARS, TOKENS = 30, 40, 40, 1200, 320
SHOWN = 5e-4  # of bits: what three digits hide


def unpack(x, rows, count, bits, np):
    """Codes of rows, low bits first."""
    b = np.unpackbits(x.reshape(rows, -1), axis=1, bitorder="little")[:, :count * bits].reshape(rows, count, bits)
    return (b << np.arange(bits, dtype=np.uint32)).sum(-1)


def uniform(t, at, np):
    """[N, K] of a MatMulNBits, and the bytes it takes."""
    bits, block, N, K = at["bits"], at["block_size"], at["N"], at["K"]
    blocks = (K + block - 1) // block
    zero = unpack(t[2], N, blocks, bits, np) if len(t) > 2 else np.full((N, blocks), 2 ** (bits - 1))
    codes = unpack(t[0], N, blocks * block, bits, np).reshape(N, blocks, block)
    w = (codes.astype(np.float32) - zero[..., None].astype(np.float32)) * t[1].reshape(N, blocks, 1)
    return w.reshape(N, -1)[:, :K], t[0].size + 2 * t[1].size + (t[2].size if len(t) > 2 else 0)


def levels(t, at, np):
    """[N, K] of a MatMulLevels, and the bytes it takes."""
    block, N, K = at["block_size"], at["N"], at["K"]
    values, vec = t[2], t[2].shape[1]
    codes = unpack(t[0], N, -(-K // vec), at["bits"], np)
    scale = t[1].reshape(N, 1) * t[3][unpack(t[4], N, -(-K // block), 4, np)]
    return values[codes].reshape(N, -1)[:, :K] * np.repeat(scale, block, 1)[:, :K], t[0].size + t[4].size + 2 * N


def codes_as_floats(folder, onnx, np):
    """The folder's model with MatMul of f32 in the place of MatMulNBits and MatMulLevels, and bits per weight."""
    m = onnx.load(os.path.join(folder, "model.onnx"))
    init = {i.name: i for i in m.graph.initializer}
    read = {"MatMulNBits": uniform, "MatMulLevels": levels}
    stored = weights = 0
    gone = set()
    for n in m.graph.node:
        if n.op_type not in read:
            continue
        at = {a.name: a.i for a in n.attribute}
        w, size = read[n.op_type]([onnx.numpy_helper.to_array(init[i]) for i in n.input[1:]], at, np)
        stored += size
        weights += w.size
        gone.update(n.input[1:])
        m.graph.initializer.append(onnx.numpy_helper.from_array(np.ascontiguousarray(w.T.astype(np.float32)), n.output[0] + "_w"))
        x = n.input[0]
        del n.input[:], n.attribute[:]
        n.input.extend([x, n.output[0] + "_w"])
        n.op_type, n.domain = "MatMul", ""
    for i in gone:
        m.graph.initializer.remove(init[i])
    own = [o for o in m.opset_import if o.domain == "ai.tenon"]
    for o in own:
        m.opset_import.remove(o)
    return m.SerializeToString(), 8 * stored / weights


def open_session(model, threads, ort):
    o = ort.SessionOptions()
    o.intra_op_num_threads = threads
    return ort.InferenceSession(model, o, providers=["CPUExecutionProvider"])


def feeds_of(s, ids, np):
    feeds = {}
    for i in s.get_inputs():
        if i.name == "input_ids":
            feeds[i.name] = np.array([ids])
        elif i.name == "attention_mask":
            feeds[i.name] = np.ones((1, len(ids)), np.int64)
        elif i.name == "position_ids":
            feeds[i.name] = np.arange(len(ids))[None]
        else:
            feeds[i.name] = np.zeros([1, i.shape[1], 0, i.shape[3]], np.float32)
    return feeds


def log_softmax(s, ids, np):
    x = s.run(["logits"], feeds_of(s, ids, np))[0][0].astype(np.float64)
    x -= x.max(-1, keepdims=True)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


def score(s, seqs, base, np):
    """Mean KL, perplexity, share of equal first choices."""
    kl = tokens = same = nll = predicted = 0
    for ids, b in zip(seqs, base):
        c = log_softmax(s, ids, np)
        kl += (np.exp(b) * (b - c)).sum()
        same += (b.argmax(-1) == c.argmax(-1)).sum()
        nll -= c[np.arange(len(ids) - 1), ids[1:]].sum()
        tokens += len(ids)
        predicted += len(ids) - 1
    return kl / tokens, float(np.exp(nll / predicted)), same / tokens


def largest_difference(folder, floats, ids, threads, np, ort):
    """Of log probabilities, onnxruntime's own kernel beside f32 over the same codes."""
    try:
        direct = open_session(os.path.join(folder, "model.onnx"), threads, ort)
        return f"{np.abs(log_softmax(direct, ids, np) - log_softmax(floats, ids, np)).max():.2g}"
    except Exception as e:  # the kernel lacks this width
        print(f"{folder}: {str(e).splitlines()[0][:120]}", file=sys.stderr)
        return "-"


def tenon_beside(tenon, folder, ids, threads, np, ort):
    """Largest difference of logits, Tenon beside onnxruntime on the same file: in f32, and by the default profile."""
    try:
        s = open_session(os.path.join(folder, "model.onnx"), threads, ort)
        feeds = feeds_of(s, ids, np)
        want = s.run(["logits"], feeds)[0]
    except Exception:  # the kernel lacks this width
        return "-"
    out = []
    with tempfile.TemporaryDirectory() as tmp:
        given = []
        for i, (name, v) in enumerate(feeds.items()):
            np.save(os.path.join(tmp, f"{i}.npy"), v)
            given += ["--in", f"{name}={tmp}/{i}.npy"]
        for profile in ("host", "default"):
            subprocess.run([tenon, "infer", folder, *given, "--out", os.path.join(tmp, profile), "--profile", profile], check=True,
                           capture_output=True)
            out.append(np.abs(np.load(os.path.join(tmp, profile, "logits.npy")) - want).max())
    return f"{out[0]:.2g} / {out[1]:.2g} of {np.abs(want).max():.1f}"


def options_of(width):
    """What tenon quantize is asked for a width of --only."""
    if "=" in width:
        bits, formats = width.split("=")
        return ["--bits", bits, *(["--weights", formats] if formats else [])]
    if not width[0].isdigit():
        return ["--weights", width]
    bits, block = width.rstrip("z").split(":")
    return ["--bits", bits, "--block", block, *(["--zeros"] if width.endswith("z") else [])]


def packed_bits(tenon, folder):
    """Of all products, as the default device packs them; None where none does."""
    with tempfile.TemporaryDirectory() as tmp:
        got = subprocess.run([tenon, "pack", folder, "--report", "--format", "json", "-o", tmp], check=False, capture_output=True, text=True)
    return json.loads(got.stdout)["total"]["bits_per_weight"] if got.returncode in (0, 1) and got.stdout else None


def quantize(a, width, out, more):
    subprocess.run([a.tenon, "quantize", a.model, "-o", out, "--threads", str(a.threads), *options_of(width), *more], check=True,
                   stdout=subprocess.DEVNULL)


def folder_of(a, keep, width, how, more):
    """The folder of a width, made where it is not there, and its packed bits."""
    budget = width
    for _ in range(4):
        out = os.path.join(keep, budget.replace(":", "-") + "-" + how)
        if not os.path.exists(out):
            quantize(a, budget, out, more)
        packed = packed_bits(a.tenon, out)
        if not a.packed or "=" not in width or packed is None or packed <= float(width.split("=")[0]) + SHOWN:
            break
        file, formats = budget.split("=")
        budget = f"{float(file) - (packed - float(width.split('=')[0])) - 5e-5:.4f}={formats}"
    return out, packed


def main():
    p = argparse.ArgumentParser(usage=__doc__.split("\n\n")[1].strip())
    p.add_argument("tenon")
    p.add_argument("--model", default=os.path.join(ROOT, "models", "demo"))
    p.add_argument("--texts", default=os.path.join(ROOT, "models", "train", "valid.json"))
    p.add_argument("--only", default="8:32,4:32,4:32z,4:128,3:32,3:128,2:16z,2:32z")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--keep")
    p.add_argument("--calibrated", action="store_true")
    p.add_argument("--packed", action="store_true")
    p.add_argument("--reversed", action="store_true")
    a = p.parse_args()
    import numpy as np
    import onnx
    import onnxruntime as ort
    from tokenizers import Tokenizer
    tok = Tokenizer.from_file(os.path.join(a.model, "tokenizer.json"))
    texts = json.load(open(a.texts, encoding="utf-8"))[::-1 if a.reversed else 1]
    sets = [[tok.encode(t[:CHARS]).ids[:TOKENS] for t in part] for part in (texts[:FIRST], texts[FIRST:OTHER])]
    f32 = open_session(os.path.join(a.model, "model.onnx"), a.threads, ort)
    bases = [[log_softmax(f32, ids, np) for ids in s] for s in sets]
    plain = [score(f32, s, b, np) for s, b in zip(sets, bases)]
    print(f"f32: perplexity {plain[0][1]:.3f} and {plain[1][1]:.3f}, {sum(map(len, sets[0]))} and {sum(map(len, sets[1]))} tokens\n")
    print("| weights | bits, file | bits, packed | how | KL | perplexity | same first choice | KL, other texts | perplexity, other "
          "texts | onnxruntime's kernel, log probabilities | Tenon beside onnxruntime, logits: f32 / default of largest |\n|" + "---|" * 11, flush=True)
    with tempfile.TemporaryDirectory() as tmp:
        tmp = a.keep or tmp
        text = os.path.join(tmp, "calibration.json")
        os.makedirs(tmp, exist_ok=True)
        json.dump(texts[CALIBRATION:], open(text, "w", encoding="utf-8"))
        for width in a.only.split(","):
            for how, more in (("rounding", ["--round"]), ("calibrated", ["--text", text]))[a.calibrated or "=" in width:]:
                out, packed = folder_of(a, tmp, width, how, more)
                model, each = codes_as_floats(out, onnx, np)
                s = open_session(model, a.threads, ort)
                r = [score(s, q, b, np) for q, b in zip(sets, bases)]
                print(f"| {width} | {each:.3f} | {'-' if packed is None else f'{packed:.3f}'} | {how} | {r[0][0]:.4f} | {r[0][1]:.3f} | "
                      f"{100 * r[0][2]:.2f} % | {r[1][0]:.4f} | {r[1][1]:.3f} | "
                      f"{largest_difference(out, s, sets[0][0], a.threads, np, ort)} | "
                      f"{tenon_beside(a.tenon, out, sets[0][0], a.threads, np, ort)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
