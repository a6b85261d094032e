#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares tok-cli with PyPI's `tokenizers`: ids, texts, and texts decoded id by id.

usage: check_tokenizer.py TOK_CLI   (data: TENON_TEST_DATA; without it or `tokenizers`: exit 77)
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile

try:
    from tokenizers import Tokenizer, AddedToken, Regex, decoders, models, normalizers, pre_tokenizers, trainers
    from tokenizers import processors
except ImportError:
    print("skipped: the Python package `tokenizers` is not installed")
    sys.exit(77)

CLI = sys.argv[1]
DATA = os.environ.get("TENON_TEST_DATA", "")
TMP = tempfile.mkdtemp(prefix="tenon-tok-")
failures = 0
checks = 0


def cli(file, mode, records, flag=False, limit=None):
    src, dst = os.path.join(TMP, "in"), os.path.join(TMP, "out")
    with open(src, "wb") as f:
        for r in records:
            f.write(struct.pack("<I", len(r)) + r)
    p = subprocess.run([CLI, file, mode, src, dst] + (["flag"] if flag else []) + ([str(limit)] if limit else []), capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(p.stderr.strip())
    out, b, i = [], open(dst, "rb").read(), 0
    while i < len(b):
        n = struct.unpack_from("<I", b, i)[0]
        out.append(b[i + 4:i + 4 + n])
        i += 4 + n
    return out, float(p.stdout)


def to_ids(b):
    return list(struct.unpack("<%di" % (len(b) // 4), b))


def of_ids(ids):
    return struct.pack("<%di" % len(ids), *ids)


def check(what, got, want, context=""):
    global failures, checks
    checks += 1
    if got == want:
        return True
    failures += 1
    i = next((k for k, (a, b) in enumerate(zip(got, want)) if a != b), min(len(got), len(want)))
    print("FAIL %s: lengths %d, %d; first difference at %d: %r, expected %r   %s" % (
        what, len(got), len(want), i, got[max(0, i - 3):i + 8], want[max(0, i - 3):i + 8], context))
    return False


def compare(name, file, texts, round_trip=False, decode=True, limit=None):
    """Encodes without and with special tokens, decodes at once and id by id, keeping and dropping special tokens."""
    bare, ref = Tokenizer.from_file(file), Tokenizer.from_file(file)
    bare.no_truncation()  # truncation and padding are of batches, see tni_tokenizer_encode
    if not limit: ref.no_truncation()
    ref.no_padding()
    bare.no_padding()
    raw = [t.encode() for t in texts]
    try:
        got, seconds = cli(file, "encode", raw)
        special, _ = cli(file, "encode", raw, True, limit)
    except RuntimeError as e:
        check(name, str(e), "")
        return
    want = [bare.encode(t, add_special_tokens=False).ids for t in texts]
    full = [ref.encode(t).ids for t in texts]
    bad = 0
    for t, g, s, w, f in zip(texts, got, special, want, full):
        ok = check(name + " encode", to_ids(g), w, repr(t[:60])) and check(name + " special", to_ids(s), f, repr(t[:60]))
        bad += not ok
        if bad > 4:
            break
    if decode:
        for mode in ("decode", "stream"):
            for skip in (False, True):
                out, _ = cli(file, mode, [of_ids(f) for f in full], skip)
                for t, o, f in zip(texts, out, full):
                    if not check("%s %s" % (name, mode), o.decode(), bare.decode(f, skip_special_tokens=skip), repr(t[:60])):
                        break
    if round_trip:
        out, _ = cli(file, "decode", got)
        for t, o in zip(texts, out):
            check(name + " round trip", o.decode(), t)
    print("%-28s %5d texts %9d bytes %9d ids  %.2f s" % (name, len(texts), sum(map(len, raw)), sum(map(len, want)), seconds))


RANGES = [(0x20, 0x7e)] * 6 + [
    (0xa0, 0xff), (0x100, 0x17f), (0x300, 0x36f), (0x370, 0x3ff), (0x400, 0x4ff), (0x590, 0x5f4), (0x600, 0x6ff),
    (0x900, 0x97f), (0xe00, 0xe5b), (0x1100, 0x11ff), (0x1680, 0x169c), (0x1780, 0x17f9), (0x1e00, 0x1eff),
    (0x2000, 0x206f), (0x2070, 0x209c), (0x20a0, 0x20c0), (0x20d0, 0x20f0), (0x2100, 0x218b), (0x2460, 0x24ff),
    (0x2580, 0x25a0), (0x3000, 0x30ff), (0x3400, 0x3500), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xe000, 0xe010),
    (0xf900, 0xfaff), (0xfb00, 0xfb4f), (0xfe00, 0xfe0f), (0xff00, 0xffef), (0xfff0, 0xffff), (0x10330, 0x1034a),
    (0x12000, 0x12399), (0x1d15e, 0x1d165), (0x1d400, 0x1d7ff), (0x1f1e6, 0x1f1ff), (0x1f300, 0x1faff),
    (0x20000, 0x20100), (0x2f800, 0x2fa1d), (0x31350, 0x31360), (0x11f00, 0x11f59), (0xe0020, 0xe007f),
    (0xf0000, 0xf0005), (0x10fffd, 0x10ffff)]
PIECES = ["\0", "\0\0", "\n", "\r\n", "\t", " ", "  ", "\u00a0", "\u0085", "\u180e", "\u200b", "\u3000", "\u2028",
          "👨‍👩‍👧‍👦", "🏳️‍🌈", "👍🏽", "🇩🇪", "e\u0301", "q\u0307\u0323", "\u1100\u1161\u11a8", "שָׁלוֹם", "مرحبا", "नमस्ते",
          "don't", "I'LL", "we've", "'s", "x'", "İstanbul", "ſtraße", "Ǆ", "ﬁ", "½", "Ⅷ", "٣٤", "1234567", "3.14",
          "a_b", "--", "...", "!?", "<0x41>", "<|endoftext|", "▁", "▁▁", "\ufeff", "\u1e9b\u0323", "\u0344"]


def mixed(rng, n, extra=()):
    """Text of about n bytes: runs of one script, separators, awkward pieces, long whitespace."""
    out, size = [], 0
    while size < n:
        k = rng.random()
        if k < 0.45:
            lo, hi = rng.choice(RANGES)
            s = "".join(chr(rng.randint(lo, hi)) for _ in range(rng.randint(1, 9)))
        elif k < 0.6:
            s = rng.choice("bcdfghjklmnprstw") + rng.choice("aeiou") + rng.choice(["n", "st", "ing", "er", ""])
        elif k < 0.8:
            s = rng.choice(PIECES)
        elif k < 0.81:
            s = rng.choice([" ", "\n", "\t", " \n", "\u3000"]) * rng.randint(2, 300)
        elif k < 0.84 and extra:
            s = rng.choice(["", " ", "  ", "\n"]) + rng.choice(extra) + rng.choice(["", " ", "  ", "x"])
        else:
            s = " "
        out.append(s)
        size += len(s.encode())
    return "".join(out)


def vectors(name, file):
    base = os.path.join(DATA, "tokenizers", "vectors")
    texts = open(os.path.join(base, "strings.inp"), newline="", encoding="utf-8").read().split("\n__ggml_vocab_test__\n")
    want = [[int(x) for x in l.split()] for l in open(os.path.join(base, name + ".out")).read().split("\n")[:len(texts)]]
    got, _ = cli(file, "encode", [t.encode() for t in texts])
    good = sum(check("%s vector %d" % (name, i), to_ids(g), w, repr(texts[i])) for i, (g, w) in enumerate(zip(got, want)))
    print("%-28s %d of %d vectors" % (name, good, len(texts)))


def real_files():
    tok = lambda n: os.path.join(DATA, "tokenizers", n, "tokenizer.json")
    lm = lambda n: os.path.join(DATA, "lm", n, "tokenizer.json")
    vectors("gpt-2", tok("gpt2"))
    vectors("mistral", tok("mistral"))
    vectors("bert-bge", tok("bert"))
    book = open(os.path.join(DATA, "text", "war-and-peace.txt"), encoding="utf-8", newline="").read()
    big = mixed(random.Random(1), 1 << 20)
    for name, file, trip in (("gpt2", tok("gpt2"), True), ("mistral", tok("mistral"), True)):
        compare(name + " war and peace", file, [book], trip)
        # Metaspace has no way back for a text's own U+2581.
        compare(name + " mixed 1 MB", file, [big.replace("▁", "_") if name == "mistral" else big], trip)
    for name, file in (("demo-lm", lm("demo-lm")), ("stories260k", lm("stories260k-onnx")), ("gpt2", tok("gpt2")),
                       ("mistral", tok("mistral")), ("bert", tok("bert"))):
        special = [t["content"] for t in json.load(open(file))["added_tokens"]]
        rng = random.Random(name)
        texts = ["", " ", "\0"] + special[:20] + [mixed(rng, rng.randint(1, 400), special) for _ in range(400)]
        compare(name + " random", file, [old(x) for x in texts] if name == "bert" else texts)
    # With Llama's normalizer, which puts U+2581 in front and for each blank.
    compare("stories260k war and peace", lm("stories260k-onnx"), [book])
    compare("demo-lm war and peace", lm("demo-lm"), [book], True)


def old(text):
    """Without characters newer than the Unicode 8 tables that the reference keeps for BERT, Punctuation and accents."""
    return "".join(c for c in text if c != "\u061d" and not 0x11f00 <= ord(c) <= 0x11f59)


def train(corpus, byte_level=False, special=(), **kw):
    t = Tokenizer(models.BPE(unk_token="<unk>", **kw))
    alphabet = pre_tokenizers.ByteLevel.alphabet() if byte_level else []
    t.train_from_iterator([corpus], trainers.BpeTrainer(
        vocab_size=900, special_tokens=["<unk>"] + list(special), initial_alphabet=alphabet, show_progress=False))
    return t


def components():
    """Every component alone, over a small BPE, against the reference."""
    rng = random.Random(7)
    corpus = mixed(rng, 20000).replace("\0", "")  # no NUL in keys: the JSON library has none
    N, P, D = normalizers, pre_tokenizers, decoders
    L3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    O2 = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
          r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
    norms = {"NFC": N.NFC(), "NFD": N.NFD(), "NFKC": N.NFKC(), "NFKD": N.NFKD(), "Lowercase": N.Lowercase(),
             "Strip": N.Strip(), "StripAccents": N.Sequence([N.NFD(), N.StripAccents()]), "Nmt": N.Nmt(),
             "Prepend": N.Prepend("▁"), "Replace": N.Replace(" ", "▁"), "ReplaceRegex": N.Replace(Regex(r"\s+|^x*"), "_"),
             "Bert": N.BertNormalizer(), "BertCased": N.BertNormalizer(lowercase=False),
             "BertPlain": N.BertNormalizer(clean_text=False, handle_chinese_chars=False, strip_accents=False),
             "ByteLevelNorm": N.ByteLevel()}
    pres = {"ByteLevel": P.ByteLevel(add_prefix_space=True), "ByteLevelAll": P.ByteLevel(add_prefix_space=False, use_regex=False),
            "Metaspace": P.Metaspace(), "MetaFirst": P.Metaspace(prepend_scheme="first", split=False),
            "MetaNever": P.Metaspace(prepend_scheme="never"), "Whitespace": P.Whitespace(),
            "WhitespaceSplit": P.WhitespaceSplit(), "Punctuation": P.Punctuation(), "Digits": P.Digits(),
            "DigitsEach": P.Digits(individual_digits=True), "BertPre": P.BertPreTokenizer(),
            "Delimiter": P.CharDelimiterSplit("e"), "FixedLength": P.FixedLength(5),
            "Llama3": P.Sequence([P.Split(Regex(L3), "isolated"), P.ByteLevel(add_prefix_space=False, use_regex=False)]),
            "O200k": P.Split(Regex(O2), "removed", invert=True),
            "Word": P.Split(Regex(r"\w+|\h\d|[\s\d]"), "isolated"), "Lines": P.Split(Regex(r"^.{,3}|.$"), "isolated")}
    for b in ("removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"):
        pres["Split " + b] = P.Split(Regex(r"[\s\p{P}]"), b)
        pres["Split string " + b] = P.Split(" ", b)
        pres["Split invert " + b] = P.Split(Regex(r"\p{L}+"), b, invert=True)
        pres["Punct " + b] = P.Punctuation(b)
    decs = {"none": None, "BPEDecoder": D.BPEDecoder("er"), "Metaspace": D.Metaspace(), "Fuse": D.Fuse(), "CTC": D.CTC("a", "b"),
            "MetaNever": D.Metaspace(prepend_scheme="never"), "WordPiece": D.WordPiece("e"), "ByteLevel": D.ByteLevel(),
            "WordPieceNo": D.WordPiece("▁", cleanup=False), "Strip": D.Strip(" ", 2, 0), "Replace": D.Replace("e", "XY"),
            "FuseStrip": D.Sequence([D.Fuse(), D.Strip(" ", 3, 0)]),
            "FuseReplace": D.Sequence([D.Fuse(), D.Replace("er ", "[]"), D.Replace(Regex(r"\s+"), "_")]),
            "BytesReplace": D.Sequence([D.ByteLevel(), D.Replace("ing", "·"), D.WordPiece("x")]),
            "FuseBytes": D.Sequence([D.Fuse(), D.ByteLevel(), D.Metaspace("e"), D.ByteFallback()]),
            "StripRight": D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])}
    texts = ["", " ", "a", " Hello  World ", "Hello , world . do not"] + [mixed(rng, rng.randint(1, 200)) for _ in range(120)]
    cases = [("norm " + k, v, P.WhitespaceSplit(), None) for k, v in norms.items()]
    cases += [("pre " + k, None, v, None) for k, v in pres.items()]
    cases += [("dec " + k, None, None, v) for k, v in decs.items()]
    base = train(corpus[:4000], True)
    file = os.path.join(TMP, "t.json")
    for name, n, p, d in cases:
        t = Tokenizer.from_str(base.to_str())
        if n: t.normalizer = n
        if p: t.pre_tokenizer = p
        if d: t.decoder = d
        t.save(file)
        stale = any(k in name for k in ("Bert", "Punct", "Accents"))
        compare(name, file, [old(x) for x in texts] if stale else texts)


def model_variants():
    rng = random.Random(9)
    corpus = mixed(rng, 4000).replace("\0", "")
    texts = [mixed(rng, rng.randint(1, 200), ["<unk>", "[X]", "[XY]", "Word", "é"]) for _ in range(200)]
    file = os.path.join(TMP, "t.json")
    for name, kw in (("plain", {}), ("fuse_unk", {"fuse_unk": True}), ("suffix", {"end_of_word_suffix": "</w>"}),
                     ("prefix", {"continuing_subword_prefix": "##"}), ("fallback", {"byte_fallback": True, "fuse_unk": True}),
                     ("ignore_merges", {"ignore_merges": True})):
        special = ["<0x%02X>" % b for b in range(256)] if name == "fallback" else []
        t = Tokenizer(models.BPE(unk_token="<unk>", **kw))
        t.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
        args = {k: v for k, v in kw.items() if k in ("end_of_word_suffix", "continuing_subword_prefix")}
        t.train_from_iterator([corpus], trainers.BpeTrainer(vocab_size=700, limit_alphabet=150,
                                                            special_tokens=["<unk>"] + special, show_progress=False, **args))
        j = json.loads(t.to_str())
        j["added_tokens"] = [a for a in j["added_tokens"] if not a["content"].startswith("<0x")]
        json.dump(j, open(file, "w"))
        compare("bpe " + name, file, texts)
    t = Tokenizer(models.WordLevel({"<unk>": 0, "a": 1, "Hello": 2, "e": 3}, unk_token="<unk>"))
    t.pre_tokenizer = pre_tokenizers.Whitespace()
    t.save(file)
    compare("wordlevel", file, texts + ["Hello a e"])
    for name, norm in (("plain", None), ("lower", normalizers.Lowercase()), ("meta", normalizers.Prepend("▁"))):
        t = train(corpus)
        if norm: t.normalizer = norm
        t.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        for i in range(16):
            t.add_tokens([AddedToken("[X%d]" % i, lstrip=bool(i & 1), rstrip=bool(i & 2), single_word=bool(i & 4),
                                     normalized=bool(i & 8))])
        t.add_tokens([AddedToken("[X1]Y", normalized=False), AddedToken("Word", single_word=True, normalized=False)])
        t.add_special_tokens([AddedToken("<s>", special=True), AddedToken("</s>", special=True)])
        s, e = t.token_to_id("<s>"), t.token_to_id("</s>")
        extra = ["[X%d]" % i for i in range(16)] + ["[X1]Y", "Word", "word", "<s>", "</s>", "[x9]"]
        more = [mixed(rng, rng.randint(1, 120), extra) for _ in range(300)] + extra
        for post in (processors.TemplateProcessing(single="<s> $A </s> </s>", special_tokens=[("<s>", s), ("</s>", e)]),
                     processors.BertProcessing(("</s>", e), ("<s>", s)), processors.RobertaProcessing(("</s>", e), ("<s>", s)),
                     processors.Sequence([processors.ByteLevel(), processors.TemplateProcessing(
                         single="<s> $A", special_tokens=[("<s>", s)])])):
            t.post_processor = post
            t.no_truncation()
            t.no_padding()
            t.save(file)
            compare("added %s" % name, file, more)
        t.enable_truncation(9, direction="left")
        t.enable_padding(direction="left", pad_id=e, length=16)
        t.save(file)
        compare("a prompt, %s" % name, file, more)
        compare("limits left %s" % name, file, more, limit=9)
        t.enable_truncation(9)
        t.enable_padding(pad_id=e, pad_to_multiple_of=4)
        t.save(file)
        compare("limits right %s" % name, file, more, limit=9)


def charsmap(rules):
    """SentencePiece's compiled rules: a Darts-clone double array (runtime/llm/tokenizer/charsmap.h) over the rules' UTF-8."""
    blob, root = b"", [{}, None]  # node: children, offset of its text
    for k in sorted(rules):
        node = root
        for c in k.encode():
            node = node[0].setdefault(c, [{}, None])
        node[1] = len(blob)
        blob += rules[k].encode() + b"\0"
    units, used, queue = {0: 0}, {0}, [(root, 0)]
    for (children, text), at in queue:
        labels = sorted(children) + ([] if text is None else [0])
        base = next(b for b in range(1, 1 << 20) if all(b ^ c not in used for c in labels)) if labels else 0
        units[at] |= (at ^ base) << 10 | (text is not None) << 8
        for c in labels:
            used.add(base ^ c)
            units[base ^ c] = c
        if text is not None:
            units[base] = 1 << 31 | text
        queue += [(n, base ^ c) for c, n in children.items()]
    trie = b"".join(struct.pack("<I", units.get(i, 0)) for i in range((max(units) | 255) + 1))
    return struct.pack("<I", len(trie)) + trie + blob


def unigram():
    """SentencePiece's model, trained here, and its normalizer: whole words, no splitting, bytes for the unknown."""
    rng = random.Random(5)
    N, P, D = normalizers, pre_tokenizers, decoders
    words = ["".join(rng.choice("aeiourstlnm\u00e9\u00df\u4e2d\u6587") for _ in range(rng.randint(1, 8))) for _ in range(300)]
    corpus = [" ".join(rng.choice(words) for _ in range(40)) for _ in range(60)]
    rules = {"\uff21": "A", "\ufb01": "fi", "e\u0301": "\u00e9", "\t": " ", "\n": " ", "\r": " ", "\u200b": "", "\u00bd": "1\u20442",
             "\u3000": " ", "\u2460": "1", "\u338f": "kg", "\u1100\u1161": "\uac00", "\U0001f1e9": "D", "x\u0307": "y", "\u00a0": " ",
             "".join(chr(0x300 + k) for k in range(5)): "-", "\u0085": "", "\u1e9b\u0323": "s", "\u00c5": "\u00e5", "W": "w"}
    rules.update({chr(c): chr(c - 0xfee0) for c in range(0xff10, 0xff5b)})
    texts = ["", " ", "a", "\u200b", "\u200ba b", " e\u0301e\u0301", "\r\n a", "<unk>", "\u4e2d<unk>\u9999", "\u9999\u9999 \u9999"]
    texts += [" ".join(rng.choice(words) for _ in range(rng.randint(1, 30))) for _ in range(80)]
    texts += [mixed(rng, rng.randint(1, 300), words[:40] + list(rules)) for _ in range(300)]
    file = os.path.join(TMP, "t.json")
    trainer = trainers.UnigramTrainer(vocab_size=400, special_tokens=["<pad>", "</s>", "<unk>"], unk_token="<unk>", show_progress=False)
    meta, precompiled = P.Metaspace(), N.Precompiled(charsmap(rules))
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = meta
    t.train_from_iterator(corpus, trainer)
    base = json.loads(t.to_str())
    vocab = base["model"]["vocab"]
    falls = vocab + [["<0x%02X>" % b, 0.0] for b in range(256)]
    whole = [["<unk>", 0.0], ["a", -1.0], ["aa", -2.0], ["aaa", -3.0], ["b", -1.5], ["ab", -2.5], ["ba", -2.5], ["", -1.0], ["b", -4.0],
             ["\u9999\u8888", -900.0], ["abab", -5.0], [" ", -2.0], ["a" * 40, -20.0], ["a" * 39 + "b", -20.5]]
    short = ["".join(rng.choice("ab c\u9999\u8888") for _ in range(rng.randint(1, 60))) for _ in range(200)] + ["a" * n for n in range(90)]
    for name, model, norm, pre, dec, cases in (
            ("plain", {}, None, meta, D.Metaspace(), texts), ("precompiled", {}, precompiled, meta, D.Metaspace(), texts),
            ("t5", {}, precompiled, P.Sequence([P.WhitespaceSplit(), meta]), D.Metaspace(), texts),
            ("albert", {}, N.Sequence([N.Replace("``", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), precompiled]), meta,
             D.Metaspace(), [old(x) for x in texts]),
            ("pegasus", {}, N.Sequence([precompiled, N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(prepend_scheme="first"),
             D.Metaspace(), texts),
            ("bytes", {"vocab": falls, "byte_fallback": True}, precompiled, meta, D.Sequence([D.ByteFallback(), D.Metaspace()]), texts),
            ("few bytes", {"vocab": falls[:-60], "byte_fallback": True}, None, meta, D.Metaspace(), texts),
            ("no split", {}, precompiled, P.Metaspace(split=False), D.Metaspace(), texts),
            ("penalty 9.5", {"vocab": [["<unk>", 0.0], ["a", 9.5], ["\u9999a", -3.0]], "unk_id": 0}, None, None, D.Fuse(), short),
            ("penalty 10.5", {"vocab": [["<unk>", 0.0], ["a", 10.5], ["\u9999a", -3.0]], "unk_id": 0}, None, None, D.Fuse(), short),
            ("no pre-tokenizer", {"vocab": whole, "unk_id": 0}, None, None, D.Fuse(), short + texts)):
        j = json.loads(json.dumps(base))
        j["model"].update(model)
        if "vocab" in model:
            j["added_tokens"] = []
        t = Tokenizer.from_str(json.dumps(j))
        if norm: t.normalizer = norm
        if pre: t.pre_tokenizer = pre
        else: j["pre_tokenizer"] = None
        j2 = json.loads(t.to_str())
        if not pre: j2["pre_tokenizer"] = None
        t = Tokenizer.from_str(json.dumps(j2))
        t.decoder = dec
        t.save(file)
        compare("unigram " + name, file, cases)


def random_ids():
    """Decoding any ids, also such as no text gives: broken bytes, byte tokens, unknown ids."""
    rng = random.Random(3)
    for name in ("tokenizers/gpt2", "tokenizers/mistral", "tokenizers/bert", "lm/stories260k-onnx", "lm/demo-lm"):
        file = os.path.join(DATA, name, "tokenizer.json")
        t = Tokenizer.from_file(file)
        n = t.get_vocab_size()
        low = min(n, 800)
        seqs = [[rng.randrange(rng.choice([n + 5, low, min(n, 262)])) for _ in range(rng.randint(0, 40))] for _ in range(500)]
        for mode in ("decode", "stream"):
            out, _ = cli(file, mode, [of_ids(s) for s in seqs])
            for s, o in zip(seqs, out):
                if not check("%s %s of random ids" % (name, mode), o.decode(), t.decode(s, skip_special_tokens=False), str(s)):
                    break


components()
model_variants()
unigram()
if os.path.isdir(os.path.join(DATA, "tokenizers")):
    random_ids()
    real_files()
else:
    print("skipped: real files (no TENON_TEST_DATA)")
print("%d checks, %d failures" % (checks, failures))
sys.exit(1 if failures else 0)
