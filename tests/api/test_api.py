#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The folder that test-api needs, and the run. test_api.py PROGRAM SOURCE DATA [FUNCTION]"""
import json, os, shutil, struct, subprocess, sys, tempfile, zlib


def png(path, side=32):
    rows = b"".join(b"\0" + bytes(3 * side) for _ in range(side))
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def main():
    program, source, data, *more = sys.argv[1:]
    exports = os.path.join(data, "exports")
    if not os.path.isdir(exports):
        return 77
    with tempfile.TemporaryDirectory() as d:
        shutil.copytree(os.path.join(source, "models/demo"), os.path.join(d, "lm"))
        shutil.copytree(os.path.join(exports, "optimum-bert"), os.path.join(d, "embed"))
        shutil.copytree(os.path.join(exports, "optimum-resnet"), os.path.join(d, "classify"))
        shutil.copy(os.path.join(source, "configs/host.yaml"), d)
        with open(os.path.join(d, "embed/tokenizer.json"), "w") as f:
            json.dump({"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "WhitespaceSplit"},
                       "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
                                 "max_input_chars_per_word": 100,
                                 "vocab": {w: i for i, w in enumerate(["[UNK]", "a", "big", "dog", "##s"])}}}, f)
        with open(os.path.join(d, "classify/preprocessor_config.json"), "w") as f:
            json.dump({"do_resize": True, "size": {"height": 32, "width": 32}, "do_rescale": True,
                       "do_normalize": True, "image_mean": [0.5] * 3, "image_std": [0.5] * 3}, f)
        png(os.path.join(d, "image.png"))
        header = b"{'descr': '<f4', 'fortran_order': False, 'shape': (4,), }"
        header += b" " * (64 - (10 + len(header) + 1) % 64) + b"\n"
        with open(os.path.join(d, "tensor.npy"), "wb") as f:
            f.write(b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header + struct.pack("<4f", 1, 2, 3, 4))
        return subprocess.run([program, d, *more]).returncode


if __name__ == "__main__":
    sys.exit(main())
