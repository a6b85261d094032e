# SPDX-License-Identifier: Apache-2.0
"""Writes seq.tar.xz: small random encoder-decoders as Optimum exports them, each as NAME/encoder_model.onnx,
decoder_model_merged.onnx, decoder_model.onnx and decoder_with_past_model.onnx, with their configurations.

Run by hand: make_seq.py OUT.tar.xz, in a Python with torch, transformers 4.57 and optimum-onnx 0.1. Seeds are such that
greedy texts of test_seq.py's source have many tokens and no near-ties.
"""
import pathlib
import sys
import tarfile
import tempfile

import torch
import transformers as T
from optimum.exporters.onnx import onnx_export_from_model

VOCAB = 64
BOTH = dict(vocab_size=VOCAB, d_model=16, encoder_layers=1, decoder_layers=2, encoder_attention_heads=2, decoder_attention_heads=2,
            encoder_ffn_dim=24, decoder_ffn_dim=24, max_position_embeddings=128, pad_token_id=0, bos_token_id=1,
            eos_token_id=2, decoder_start_token_id=2, forced_eos_token_id=None, tie_word_embeddings=False)


def t5(seed):
    torch.manual_seed(seed)
    return T.T5ForConditionalGeneration(T.T5Config(
        vocab_size=VOCAB, d_model=16, d_kv=8, d_ff=24, num_layers=1, num_decoder_layers=2, num_heads=2, decoder_start_token_id=0,
        feed_forward_proj="gated-gelu", tie_word_embeddings=False))


def both(cls, seed, **more):
    torch.manual_seed(seed)
    return cls(cls.config_class(**dict(BOTH, **more)))


MODELS = {
    "t5": (t5, 1),
    "bart": (lambda seed: both(T.BartForConditionalGeneration, seed, forced_bos_token_id=5), 6),
    "marian": (lambda seed: both(T.MarianMTModel, seed, decoder_start_token_id=0), 6),
}


def build(name, seed):
    make, scale = MODELS[name]
    model = make(seed).eval()
    for p in model.parameters():  # far from ties
        p.data *= scale if p.dim() > 1 else 1
    return model


def write(name, seed, folder):
    onnx_export_from_model(build(name, seed), folder, task="text2text-generation-with-past")


def clean(t):
    t.mtime = t.uid = t.gid = 0
    t.uname = t.gname = ""
    return t


def main(out):
    with tempfile.TemporaryDirectory() as tmp, tarfile.open(out, "w:xz") as tar:
        for name, seed in SEEDS.items():
            folder = pathlib.Path(tmp) / name
            write(name, seed, folder)
            for file in sorted(folder.iterdir()):
                if name == "marian" and file.name in ("decoder_model.onnx", "decoder_with_past_model.onnx"):
                    continue  # BART's are like these
                tar.add(file, f"{name}/{file.name}", filter=clean)


SEEDS = {"t5": 1, "bart": 0, "marian": 0}

if __name__ == "__main__":
    main(sys.argv[1])
