#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""seeds.py FOLDER [MODELS...]: first inputs for the targets, made from what is there rather than kept here.

FOLDER/import and FOLDER/models get ONNX's node cases (the `onnx` package) and every .onnx file of up to 8 KiB under MODELS;
FOLDER/files gets small files of each kind that target_files.c reads; FOLDER/tokenizer the tokenizers with texts; FOLDER/shapes and
FOLDER/host random bytes."""
import io
import json
import os
import random
import sys
import tempfile
import warnings

MOST = 8192
PNG = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100"
                    "c9fe92ef0000000049454e44ae426082")
TOKENIZERS = [
    '{"version":"1.0","added_tokens":[{"id":0,"content":"<s>","special":true,"lstrip":false,"rstrip":false,"normalized":false,'
    '"single_word":false}],"normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},'
    '"post_processor":null,"decoder":{"type":"ByteLevel"},"model":{"type":"BPE","vocab":{"<s>":0,"H":1,"e":2,"l":3,"o":4,'
    '"He":5,"ll":6,"\\u0120":7},"merges":["H e","l l"],"unk_token":null}}',
    '{"version":"1.0","added_tokens":[],"normalizer":{"type":"BertNormalizer","lowercase":true,"clean_text":true,'
    '"handle_chinese_chars":true,"strip_accents":null},"pre_tokenizer":{"type":"BertPreTokenizer"},"post_processor":{"type":'
    '"TemplateProcessing","single":[{"SpecialToken":{"id":"[CLS]","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[],'
    '"special_tokens":{"[CLS]":{"id":"[CLS]","ids":[1],"tokens":["[CLS]"]}}},"decoder":{"type":"WordPiece","prefix":"##",'
    '"cleanup":true},"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##",'
    '"max_input_chars_per_word":100,"vocab":{"[UNK]":0,"[CLS]":1,"hello":2,"##x":3,"world":4}}}',
    '{"version":"1.0","added_tokens":[],"normalizer":{"type":"Sequence","normalizers":[{"type":"NFKC"},{"type":"Replace",'
    '"pattern":{"Regex":" {2,}"},"content":" "}]},"pre_tokenizer":{"type":"Metaspace","replacement":"\\u2581",'
    '"prepend_scheme":"always"},"decoder":{"type":"Metaspace","replacement":"\\u2581"},"model":{"type":"Unigram","unk_id":0,'
    '"vocab":[["<unk>",0.0],["\\u2581H",-1.5],["e",-2.0],["llo",-3.0],["\\u2581",-2.5]]}}',
] + [
    '{"version":"1.0","added_tokens":[{"id":3,"content":" ","normalized":true,"lstrip":true,"rstrip":true,"special":true}],"normalizer":'
    '{"type":"Replace","pattern":{"Regex":"%s"},"content":"b"},"pre_tokenizer":{"type":"Split","pattern":{"Regex":"%s"},"behavior":'
    '"Isolated","invert":true},"post_processor":{"type":"Sequence","processors":[{"type":"TemplateProcessing","single":[{"SpecialToken":'
    '{"id":"a","type_id":0}},{"Sequence":{"id":"A","type_id":0}}],"pair":[{"Sequence":{"id":"B","type_id":0}}],"special_tokens":{"a":'
    '{"id":"a","ids":[0],"tokens":["a"]}}},{"type":"RobertaProcessing","sep":["b",1],"cls":["a",0]}]},"decoder":null,"model":{"type":'
    '"WordLevel","unk_token":"u","vocab":{"a":0,"b":1,"u":2}}}' % (one.replace("\\", "\\\\"), two.replace("\\", "\\\\"))
    for one, two in ((r"[\p{Lu}\p{Lo}&&[^\p{Han}]]*[a-z&&[^b-d[x]]]+", r"(?i)[^[:alpha:]\W&&[\p{^Greek}]]|\p{sc=Latin}\b"),
                     (r"[]a-\x{4e00}[^\H&&\d]-]", r"(?i:[\p{Emoji}k]|(?-i)\B\p{In_Basic_Latin}{,2})|[\u0041-\o{132}]"),
                     (r"[[[[a]&&[^b]]&&c]&&[[:^punct:]]]", r" ?[^(\s|[.,!?\u2026\u3002\uff0c])]+"))
]
PROFILE = ("plugins:\n  - cpu-avx2-lut\n  - name: npu-int8-sim\n    options: {chunk: 32}\nphases: {prefill: [npu-int8-sim, host], "
           "decode: [cpu-avx2-lut]}\nthreads: 2\nmax_seq: 2048\nmemory: 512M\ncache: {dir: c, max_bytes: 8G}\nkv: int8\n")
CALIBRATION = ("tenon-calibration: 1\nmodel: {name: m, hash: 00000000000000000000000000000000}\ntext: {name: t, hash: "
               "00000000000000000000000000000000, tokens: 3}\nactivations:\n  - name: x\n    weights: [w]\n")
PREPROCESSOR = ('{"do_resize":true,"size":{"shortest_edge":8},"resample":3,"do_center_crop":true,"crop_size":{"height":4,"width":4},'
                '"do_rescale":true,"rescale_factor":0.0039,"do_normalize":true,"image_mean":[0.5,0.5,0.5],"image_std":[0.5,0.5,0.5]}')


def put(folder, name, data):
    os.makedirs(folder, exist_ok=True)
    if len(data) <= MOST:
        with open(os.path.join(folder, name), "wb") as f:
            f.write(data)


def models(top):
    from onnx.backend.test.case.node import collect_testcases

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.stdout, out = io.StringIO(), sys.stdout
        cases = collect_testcases(None)
        sys.stdout = out
    for case in cases:
        for target in ("import", "models"):
            put(os.path.join(top, target), case.name, case.model.SerializeToString())


def found(top, folders):
    for folder in folders:
        for where, _, names in os.walk(folder):
            for name in names:
                path = os.path.join(where, name)
                if name.endswith(".onnx") and os.path.getsize(path) <= MOST:
                    with open(path, "rb") as f:
                        data = f.read()
                    for target in ("import", "models"):
                        put(os.path.join(top, target), os.path.relpath(path, folder).replace("/", "_"), data)


def files(top):
    import numpy as np

    npy = io.BytesIO()
    np.save(npy, np.arange(6, dtype=np.float32).reshape(2, 3))
    kinds = [[t.encode() for t in TOKENIZERS], [PROFILE.encode()], [CALIBRATION.encode()], [PNG], [jpeg()], [npy.getvalue()],
             [PREPROCESSOR.encode()]]
    for kind, datas in enumerate(kinds):
        for i, data in enumerate(datas):
            put(os.path.join(top, "files"), f"seed-{kind}-{i}", bytes([kind]) + data)


def tokenizers(top):
    """What target_tokenizer.c reads: flags, the length of a text, the text, a tokenizer.json."""
    texts = ["", "Hello  world, na\u00efve \u4e2d\u6587 12345 <s> ##x don't\n\t[MASK]", "a  b", "\u0130\u00df\ufb01e\u0301\U0001f600 \u2581H"]
    for i, t in enumerate(TOKENIZERS):
        for j, text in enumerate(texts):
            b = text.encode()
            put(os.path.join(top, "tokenizer"), f"seed-{i}-{j}", bytes([(i + j) % 4, len(b)]) + b + t.encode())


def jpeg():
    """A baseline JPEG of 8 x 8 gray pixels, all the same, written by hand (ITU T.81): one DC code, one end of block."""
    dqt = b"\xff\xdb\x00\x43\x00" + bytes([1] * 64)
    sof = b"\xff\xc0\x00\x0b\x08\x00\x08\x00\x08\x01\x01\x11\x00"
    dc = b"\xff\xc4\x00\x14\x00" + bytes([1] + [0] * 15) + b"\x00"
    ac = b"\xff\xc4\x00\x14\x10" + bytes([1] + [0] * 15) + b"\x00"
    return b"\xff\xd8" + dqt + sof + dc + ac + b"\xff\xda\x00\x08\x01\x01\x00\x00\x3f\x00" + b"\x3f" + b"\xff\xd9"


def noise(top):
    r = random.Random(1)
    for target in ("shapes", "host"):
        for i in range(400):
            put(os.path.join(top, target), f"seed-{i}", r.randbytes(r.choice([24, 48, 96, 160])))


def grammars(top):
    """What target_grammar.c reads: the kind, how many bytes choose tokens, the grammar, those bytes."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "llm"))
    from schemas import random_schema

    r = random.Random(1)
    for i in range(200):
        text = json.dumps(random_schema(r), ensure_ascii=False).encode()
        put(os.path.join(top, "grammar"), f"seed-{i}", bytes([0, 24]) + text + r.randbytes(24))


if __name__ == "__main__":
    files(sys.argv[1])
    grammars(sys.argv[1])
    tokenizers(sys.argv[1])
    noise(sys.argv[1])
    models(sys.argv[1])
    found(sys.argv[1], sys.argv[2:])
