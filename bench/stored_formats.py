#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""One Llama shape as fp16, q4f16, GenAI's int4 and quantize_dynamic int8: Tenon beside onnxruntime on the same files, in turns.

  bench/stored_formats.py BUILD WORK [--layers N] [--rounds N] [--threads N] [--prompt N] [--gen N] [--profile P] [KIND ...]
  bench/stored_formats.py BUILD WORK --make [KIND ...]     # the models alone

KIND: fp16, q4f16, genai, int8. WORK keeps the models. Three are make_llama.py's 1.1B shape (22 layers: 12 GB on disk, 12 GB of
memory while they are made) converted by onnxruntime's own tools: float16.py, MatMulNBitsQuantizer (4 bits, symmetric blocks
of 32) and then float16.py, quantize_dynamic (int8, per tensor). onnxruntime runs its own greedy loop over OrtValues, so that
caches are not copied. genai is what onnxruntime-genai's builder writes for the CPU of a random checkpoint of that shape: int4,
asymmetric blocks of 32, accuracy level 4, f32 inputs and outputs; onnxruntime-genai runs it with its own loop and shared caches.
A round is one run of each; medians of the rounds and of the ratios of each round are printed. The `tenon` of BUILD finds its
own plugins and profiles. Needs numpy, onnx, onnx_ir, onnxruntime; genai also onnxruntime_genai, torch and transformers.
"""
import argparse
import json
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np
import onnx
import onnxruntime as ort
from onnxruntime.quantization import QuantType, quantize_dynamic
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
from onnxruntime.transformers.float16 import convert_float_to_float16

HERE = pathlib.Path(__file__).resolve().parent
SHAPE = "--dim 2048 --heads 32 --kv-heads 4 --ffn 5632 --vocab 32000".split()
TYPES = {"tensor(float)": np.float32, "tensor(float16)": np.float16}


def save(model, folder):
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(model, folder / "model.onnx", save_as_external_data=True, location="model.onnx_data", size_threshold=1024)


def make_genai(folder, layers):
    """A checkpoint of random weights, and what the builder makes of it."""
    import torch
    import transformers
    from onnxruntime_genai.models import builder
    dim, heads, kv_heads, ffn, vocab = (int(v) for v in SHAPE[1::2])
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory(dir=folder.parent) as t:
        src = pathlib.Path(t) / "src"
        # its tokenizer is make_llama.py's
        subprocess.run([sys.executable, HERE / "make_llama.py", src, "--layers", "1", "--holes", *SHAPE], check=True)
        for name in ("model.onnx", "model.onnx_data"):
            (src / name).unlink()
        c = transformers.LlamaConfig(hidden_size=dim, num_attention_heads=heads, num_key_value_heads=kv_heads,
                                     intermediate_size=ffn, vocab_size=vocab, num_hidden_layers=layers,
                                     max_position_embeddings=2048, bos_token_id=0, eos_token_id=0)
        transformers.LlamaForCausalLM(c).half().save_pretrained(src)
        made = pathlib.Path(t) / "made"
        builder.create_model(None, str(src), str(made), "int4", "cpu", str(pathlib.Path(t) / "cache"),
                             int4_block_size=32, int4_is_symmetric=False, int4_accuracy_level=4)
        # transformers 5 names options that have no value; onnxruntime-genai 0.11 refuses null
        path = made / "genai_config.json"
        config = json.loads(path.read_text())
        config["search"] = {k: v for k, v in config["search"].items() if v is not None}
        path.write_text(json.dumps(config, indent=2))
        made.rename(folder)


def make(kind, work, layers):
    folder, f32 = work / f"{kind}-{layers}", work / f"f32-{layers}"
    if (folder / "model.onnx").exists():
        return folder
    if kind == "genai":
        make_genai(folder, layers)
        return folder
    if not (f32 / "model.onnx").exists():
        f32.mkdir(parents=True)
        subprocess.run([sys.executable, HERE / "make_llama.py", f32, "--layers", str(layers), *SHAPE], check=True)
    if kind == "int8":
        folder.mkdir(parents=True)
        quantize_dynamic(f32 / "model.onnx", folder / "model.onnx", weight_type=QuantType.QInt8, use_external_data_format=True)
    else:
        model = onnx.load(f32 / "model.onnx")
        if kind == "q4f16":
            q = MatMulNBitsQuantizer(model, bits=4, block_size=32, is_symmetric=True)
            q.process()
            model = q.model.model
        save(convert_float_to_float16(model, disable_shape_infer=True), folder)
    shutil.copy(f32 / "config.json", folder)
    return folder


class Ort:
    def __init__(self, folder, threads):
        o = ort.SessionOptions()
        o.intra_op_num_threads, o.log_severity_level = threads, 3
        self.s = ort.InferenceSession(str(folder / "model.onnx"), o, providers=["CPUExecutionProvider"])
        self.ins, self.outs = self.s.get_inputs(), [x.name for x in self.s.get_outputs()]

    def step(self, ids, total, past):
        value = ort.OrtValue.ortvalue_from_numpy
        given = {"input_ids": value(ids), "attention_mask": value(np.ones((1, total), np.int64)),
                 "position_ids": value(np.arange(total - ids.shape[1], total)[None])}
        feed = {i.name: past[i.name] if i.name in past else given[i.name] for i in self.ins}
        r = dict(zip(self.outs, self.s.run_with_ort_values(self.outs, feed)))
        return {k.replace("present", "past_key_values"): v for k, v in r.items() if "present" in k}

    def speed(self, prompt, gen):
        """Tokens a second of a prompt, and of steps of one token after an empty cache, as `tenon bench` has them."""
        empty = {i.name: ort.OrtValue.ortvalue_from_numpy(
            np.zeros([d if isinstance(d, int) else 1 if k == 0 else 0 for k, d in enumerate(i.shape)], TYPES[i.type]))
            for i in self.ins if "past" in i.name}
        at = time.perf_counter()
        self.step(np.arange(prompt)[None] % 1000, prompt, empty)
        mid, past = time.perf_counter(), empty
        for i in range(gen):
            past = self.step(np.array([[i % 1000]]), i + 1, past)
        return prompt / (mid - at), gen / (time.perf_counter() - mid)


class Genai:
    def __init__(self, folder, threads):
        import onnxruntime_genai as og
        c = og.Config(str(folder))
        c.overlay(json.dumps({"model": {"decoder": {"session_options": {"intra_op_num_threads": threads}}}}))
        self.og, self.model = og, og.Model(c)

    def after(self, ids, more):
        """A generator that has read ids, and the seconds that this took. It never ends by itself."""
        p = self.og.GeneratorParams(self.model)
        p.set_search_options(do_sample=False, min_length=len(ids) + more, max_length=len(ids) + more)
        g, at = self.og.Generator(self.model, p), time.perf_counter()
        g.append_tokens(ids)
        return g, time.perf_counter() - at

    def speed(self, prompt, gen):
        read = self.after(np.arange(prompt) % 1000, 1)[1]
        g = self.after(np.array([1]), gen + 1)[0]
        g.generate_next_token()  # chooses from logits that are there; each further one runs the model
        at = time.perf_counter()
        for _ in range(gen):
            g.generate_next_token()
        return prompt / read, gen / (time.perf_counter() - at)


def tenon(build, folder, a):
    r = subprocess.run([build / "runtime/cli/tenon", "bench", folder, "-p", str(a.prompt), "-n", str(a.gen), "-r", "1", "--threads",
                        str(a.threads), "--profile", a.profile, "--cache-dir", folder / "packed", "--format", "json"],
                       capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"tenon bench: {r.stderr}")
    rows = {row["test"]: row["tokens_per_s"]["median"] for row in json.loads(r.stdout)["rows"]}
    return rows[f"pp{a.prompt}"], rows[f"tg{a.gen}"]


def main():
    p = argparse.ArgumentParser()
    p.add_argument("build", type=pathlib.Path)
    p.add_argument("work", type=pathlib.Path)
    p.add_argument("kinds", nargs="*", default=["fp16", "q4f16", "genai", "int8"])
    p.add_argument("--layers", type=int, default=22)
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--prompt", type=int, default=512)
    p.add_argument("--gen", type=int, default=24)
    p.add_argument("--profile", default="default")
    p.add_argument("--make", action="store_true")
    a = p.parse_intermixed_args()
    if a.make:
        for kind in a.kinds:
            print(make(kind, a.work, a.layers))
        return
    print(f"{a.layers} layers, {a.threads} threads, profile {a.profile}; tokens/s, medians of {a.rounds} rounds\n")
    print("| format | prefill tenon | onnxruntime | ratio | decode tenon | onnxruntime | ratio |\n|---|---|---|---|---|---|---|", flush=True)
    for kind in a.kinds:
        folder = make(kind, a.work, a.layers)
        other, mine, theirs = (Genai if kind == "genai" else Ort)(folder, a.threads), [], []
        tenon(a.build, folder, a)  # packs
        for _ in range(a.rounds):
            mine.append(tenon(a.build, folder, a))
            theirs.append(other.speed(a.prompt, a.gen))
        cells = [kind]
        for i in range(2):
            ratio = statistics.median(m[i] / t[i] for m, t in zip(mine, theirs))
            cells += [f"{statistics.median(m[i] for m in mine):.1f}", f"{statistics.median(t[i] for t in theirs):.1f}", f"{ratio:.2f}"]
        print("| " + " | ".join(cells) + " |", flush=True)


main()
