# SPDX-License-Identifier: Apache-2.0
"""Writes merged.tar.xz: small random decoders with and without past inputs, merged by Optimum behind use_cache_branch.

Run by hand: make_merged.py OUT.tar.xz, in a Python with torch, transformers 4.57 and optimum-onnx 0.1.
"""
import pathlib
import sys
import tarfile
import tempfile

import torch
from optimum.exporters.onnx import export
from optimum.exporters.tasks import TasksManager
from optimum.onnx.graph_transformations import merge_decoders
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

MODELS = {
    "llama": lambda: LlamaForCausalLM(LlamaConfig(
        vocab_size=64, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=128)),
    "gpt2": lambda: GPT2LMHeadModel(GPT2Config(vocab_size=64, n_embd=16, n_layer=2, n_head=2, n_positions=128)),
}


def main(out):
    with tempfile.TemporaryDirectory() as tmp, tarfile.open(out, "w:xz") as tar:
        for name, make in MODELS.items():
            torch.manual_seed(0)
            model = make().eval()
            for p in model.parameters():  # far from ties
                p.data *= 8 if p.dim() > 1 else 1
            constructor = TasksManager.get_exporter_config_constructor(
                "onnx", model, task="text-generation", library_name="transformers")
            files = []
            for past in (False, True):
                files.append(pathlib.Path(tmp) / f"{name}-{past}.onnx")
                export(model, constructor(model.config, use_past=True, use_past_in_inputs=past), files[-1], opset=17)
            merged = pathlib.Path(tmp) / f"{name}.onnx"
            merge_decoders(*files, strict=False, save_path=str(merged))
            tar.add(merged, f"{name}.onnx", filter=clean)


def clean(t):
    t.mtime = t.uid = t.gid = 0
    t.uname = t.gname = ""
    return t


if __name__ == "__main__":
    main(sys.argv[1])
