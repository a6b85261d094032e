#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""families.py TOK_CLI [--texts N] [--seed K] [--markdown]: the field's tokenizers against PyPI's `tokenizers`.

Each family is the normalizer, pre-tokenizer, model options, post-processor, decoder and added tokens of its published
tokenizer.json over a small vocabulary trained here; files of TENON_TEST_DATA/tokenizers are taken whole. Compared on N random
texts: ids with special tokens, and these ids decoded at once and id by id. Prints a table. Exit: 0 equal, 1 not, 77 no `tokenizers`.
"""
import argparse
import json
import os
import random
import sys
import tempfile

try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders as D, models, normalizers as N, pre_tokenizers as P, processors, trainers
except ImportError:
    print("skipped: the Python package `tokenizers` is not installed")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from fuzz_tokenizer import RULES, text  # noqa: E402
from reference import charsmap, mixed, of_ids, run_cli, to_ids  # noqa: E402

TAIL = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
LLAMA3 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}" + TAIL
QWEN2 = SHORT + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + TAIL
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
O200K = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + "+" + SHORT + r"?|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*" + SHORT +
         r"?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER +
          r"*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
KIMI = (r"[\p{Han}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+" + SHORT +
        r"?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*" + SHORT +
        r"?|\p{N}{1,3}" + TAIL)
DEEPSEEK = (r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*"
            r"|\s*[\r\n]+|\s+(?!\S)|\s+")
# What scripts/long.sh found once.
FOUND = ["\u2030\u2065\u06e8\u0693", "\u201c\u2041\u2065\u0307\u202b\u2057"]
BLOOM = r" ?[^(\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"
CLIP = r"'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"


def level(prefix=False, regex=False):
    return P.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def split(*patterns, behavior="isolated", then=None):
    return P.Sequence([P.Split(Regex(p), behavior) for p in patterns] + [then or level()])


class Vocabularies:
    """Small trained models, one of each kind."""

    def __init__(self):
        rng = random.Random(11)
        corpus = [mixed(rng, 8000).replace("\0", "") for _ in range(4)]
        words = ["".join(rng.choice("aeiourstlnmdhcp") for _ in range(rng.randint(1, 7))) for _ in range(400)]
        corpus += [" ".join(rng.choice(words) for _ in range(200)) for _ in range(20)]
        self.corpus = corpus
        q = {"show_progress": False}
        self.level = self.trained(models.BPE(), level(regex=True),
                                  trainers.BpeTrainer(vocab_size=1200, initial_alphabet=P.ByteLevel.alphabet(), **q))
        special = ["<unk>", "<s>", "</s>"]
        self.bpe = self.bytes(self.trained(models.BPE(unk_token="<unk>", fuse_unk=True), P.Metaspace(),
                                           trainers.BpeTrainer(vocab_size=900, limit_alphabet=200, special_tokens=special, **q)))
        self.clip = self.trained(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                                 split(CLIP, behavior="isolated"),
                                 trainers.BpeTrainer(vocab_size=1000, initial_alphabet=P.ByteLevel.alphabet(), end_of_word_suffix="</w>",
                                                     special_tokens=["<unk>"], **q))
        wp = trainers.WordPieceTrainer(vocab_size=5000, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"], **q)
        self.wordpiece = self.trained(models.WordPiece(unk_token="[UNK]"), P.BertPreTokenizer(), wp)
        self.unigram = self.trained(models.Unigram(), P.Metaspace(),
                                    trainers.UnigramTrainer(vocab_size=8000, special_tokens=["<pad>", "</s>", "<unk>", "<s>", "<mask>"],
                                                            unk_token="<unk>", **q))

    def trained(self, model, pre, trainer, corpus=None):
        t = Tokenizer(model)
        t.pre_tokenizer = pre
        t.train_from_iterator(corpus or self.corpus, trainer)
        return json.loads(t.to_str())

    @staticmethod
    def bytes(j):
        for b in range(256):
            j["model"]["vocab"].setdefault("<0x%02X>" % b, len(j["model"]["vocab"]))
        j["model"]["byte_fallback"] = True
        return j


def around(t, before, after=()):
    """A template of these tokens around the text."""
    names = [*before, "$A", *after]
    t.add_special_tokens([n for n in names if n != "$A"])
    return processors.TemplateProcessing(single=names, special_tokens=[(n, t.token_to_id(n)) for n in sorted(set(names) - {"$A"})])


def families(v):
    """name -> Tokenizer"""
    spm_norm = N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")])
    spm_dec = D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    precompiled = N.Precompiled(charsmap(RULES))
    albert = N.Sequence([N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase(), precompiled])
    t5 = P.Sequence([P.WhitespaceSplit(), P.Metaspace()])
    meta, B = D.Metaspace(), D.ByteLevel()
    spaces = [AddedToken(" " * n, normalized=True) for n in range(2, 12)]
    chat = [AddedToken("<|im_start|>", special=True), AddedToken("<|im_end|>", special=True), AddedToken("<tool_call>", normalized=False)]
    neox = spaces + [AddedToken("|||PHONE|||", normalized=True)]
    mask = [AddedToken("[MASK]", lstrip=True, special=True, normalized=False)]
    phi3 = [AddedToken("<|user|>", rstrip=True, special=True), AddedToken("<|end|>", rstrip=True, special=True),
            AddedToken("</s>", rstrip=True, normalized=False)]
    bert = lambda **k: N.BertNormalizer(**{"clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True, **k})
    nfc = N.NFC()
    rows = [
        # name, base, normalizer, pre-tokenizer, decoder, template (before, after), model options, added tokens
        ("GPT-2", v.level, None, level(regex=True), B, None, {}, []),
        ("GPT-J, CodeGen, Phi-1, Phi-2", v.level, None, level(regex=True), B, None, {}, spaces),
        ("RoBERTa, BART", v.level, None, level(regex=True), B, "roberta", {}, [AddedToken("<mask>", lstrip=True, special=True)]),
        ("OPT", v.level, None, level(regex=True), B, (["</s>"], []), {}, []),
        ("Whisper", v.level, None, level(regex=True), B, (["<|startoftranscript|>", "<|notimestamps|>"], ["<|endoftext|>"]), {}, []),
        ("GPT-NeoX, Pythia", v.level, nfc, level(regex=True), B, None, {}, neox),
        ("MPT, OLMo", v.level, nfc, level(regex=True), B, None, {}, neox + chat),
        ("ModernBERT", v.level, nfc, level(regex=True), B, (["[CLS]"], ["[SEP]"]), {}, neox + mask),
        ("Falcon", v.level, None, P.Sequence([P.Punctuation("contiguous"), level(regex=True), P.Digits(), P.Split(Regex("[0-9][0-9][0-9]"), "isolated")]),
         B, None, {}, []),
        ("BLOOM", v.level, None, split(BLOOM), B, None, {}, []),
        ("StarCoder, Granite, SmolLM", v.level, None, P.Sequence([P.Digits(True), level(regex=True)]), B, None, {}, chat),
        ("Command R", v.level, nfc, P.Sequence([P.Digits(True), level(regex=True)]), B, (["<BOS_TOKEN>"], []), {}, []),
        ("Llama 3", v.level, None, split(LLAMA3), B, (["<|begin_of_text|>"], []), {"ignore_merges": True}, chat),
        ("cl100k: GPT-4, Phi-4, DBRX, GLM-4", v.level, None, P.Sequence([P.Split(Regex(LLAMA3), "removed", invert=True), level()]), B, None, {}, chat),
        ("StableLM 2", v.level, nfc, split(LLAMA3), B, None, {}, chat),
        ("Qwen2, Qwen2.5, Qwen3", v.level, nfc, split(QWEN2), B, None, {}, chat),
        ("o200k: gpt-oss, Llama 4", v.level, None, split(O200K), B, None, {"ignore_merges": True}, chat),
        ("Tekken: Mistral NeMo", v.level, None, split(TEKKEN), B, (["<s>"], []), {"ignore_merges": True}, []),
        ("Kimi K2", v.level, None, split(KIMI), B, None, {"ignore_merges": True}, chat),
        ("DeepSeek V2, V3, R1", v.level, N.Sequence([]), split(r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+", DEEPSEEK), B,
         (["<｜begin▁of▁sentence｜>"], []), {}, []),
        ("DeepSeek Coder", v.level, N.Sequence([]), P.Sequence([P.Split(Regex(r), "isolated") for r in (
            r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", "[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+")] + [P.Digits(True), level()]), B,
         (["<｜begin▁of▁sentence｜>"], []), {}, []),
        ("Exaone", v.level, N.NFC(), P.Sequence([P.Digits(True), P.Split(Regex(LLAMA3), "isolated"), level()]), B, None, {}, []),
        ("CLIP", v.clip, N.Sequence([nfc, N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
         P.Sequence([P.Split(Regex(CLIP), "removed", invert=True), level(regex=True)]), D.BPEDecoder("</w>"), "roberta", {}, []),
        ("Llama 2, TinyLlama", v.bpe, spm_norm, None, spm_dec, (["<s>"], []), {}, []),
        ("Mistral 7B v0.1", v.bpe, spm_norm, None, spm_dec, (["<s>"], []), {}, chat),
        ("Mistral 7B v0.3", v.bpe, None, P.Metaspace(prepend_scheme="first", split=False), spm_dec, (["<s>"], []), {}, chat),
        ("Phi-3", v.bpe, spm_norm, None, spm_dec, (["<s>"], []), {}, phi3),
        ("Yi", v.bpe, N.Replace(" ", "▁"), None, D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), None, {}, chat),
        ("InternLM 2", v.bpe, spm_norm, None, spm_dec, (["<s>"], []), {}, chat),
        ("Gemma, Gemma 2", v.bpe, N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"),
         D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), (["<bos>"], []), {}, [AddedToken("\n\n", normalized=False)]),
        ("Gemma 3", v.bpe, N.Replace(" ", "▁"), P.Split(" ", "merged_with_previous"),
         D.Sequence([D.Replace("▁", " "), D.ByteFallback(), D.Fuse()]), (["<bos>"], []), {"ignore_merges": False},
         [AddedToken("\n" * n, normalized=False) for n in range(1, 5)] + [AddedToken("▁" * n, normalized=False) for n in range(2, 5)]),
        ("BERT uncased", v.wordpiece, bert(), P.BertPreTokenizer(), D.WordPiece(), (["[CLS]"], ["[SEP]"]), {}, []),
        ("BERT cased", v.wordpiece, bert(lowercase=False), P.BertPreTokenizer(), D.WordPiece(), (["[CLS]"], ["[SEP]"]), {}, []),
        ("BERT multilingual, LaBSE", v.wordpiece, bert(lowercase=False, strip_accents=False), P.BertPreTokenizer(), D.WordPiece(),
         (["[CLS]"], ["[SEP]"]), {}, []),
        ("BERT Chinese", v.wordpiece, bert(strip_accents=True), P.BertPreTokenizer(), D.WordPiece(cleanup=False), (["[CLS]"], ["[SEP]"]), {}, []),
        ("MPNet", v.wordpiece, bert(), P.BertPreTokenizer(), D.WordPiece(), "roberta", {}, [AddedToken("<mask>", lstrip=True, special=True)]),
        ("T5, FLAN-T5", v.unigram, precompiled, t5, meta, ([], ["</s>"]), {}, [AddedToken("<extra_id_%d>" % i, special=True) for i in range(5)]),
        ("mT5", v.unigram, N.Sequence([precompiled, N.Replace(Regex(" {2,}"), " ")]), t5, meta, ([], ["</s>"]), {}, []),
        ("ALBERT", v.unigram, albert, t5, meta, (["[CLS]"], ["[SEP]"]), {}, mask),
        ("XLNet", v.unigram, albert, t5, meta, ([], ["<sep>", "<cls>"]), {}, []),
        ("XLM-R, BGE-M3, E5 multilingual", v.unigram, precompiled, P.Sequence([P.WhitespaceSplit(), P.Metaspace()]), meta, (["<s>"], ["</s>"]), {}, []),
        ("CamemBERT", v.unigram, N.Sequence([precompiled, N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(), meta, (["<s>"], ["</s>"]), {}, []),
        ("NLLB, mBART", v.unigram, precompiled, P.Metaspace(), meta, (["eng_Latn"], ["</s>"]), {}, [AddedToken("<mask>", lstrip=True, special=True)]),
        ("Pegasus", v.unigram, N.Sequence([precompiled, N.Replace(Regex(" {2,}"), " ")]), P.Metaspace(), meta, ([], ["</s>"]), {}, []),
        ("DeBERTa v3", v.unigram, N.Sequence([N.Strip(), precompiled]), P.Metaspace(), meta, (["[CLS]"], ["[SEP]"]), {}, mask),
        ("XGLM, Marian", v.unigram, precompiled, P.Metaspace(prepend_scheme="first"), meta, (["</s>"], []), {}, []),
    ]
    for name, base, norm, pre, dec, template, options, added in rows:
        j = json.loads(json.dumps(base))
        j["model"].update(options)
        t = Tokenizer.from_str(json.dumps(j))
        if norm is not None: t.normalizer = norm
        t.pre_tokenizer = pre if pre is not None else P.Split("\0\1\2", "isolated")
        if dec is not None: t.decoder = dec
        t.add_special_tokens([x for x in added if x.special])
        t.add_tokens([x for x in added if not x.special])
        if template == "roberta":
            t.add_special_tokens(["<s>", "</s>"])
            t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
        elif template:
            t.post_processor = around(t, *template)
        j = json.loads(t.to_str())
        if pre is None: j["pre_tokenizer"] = None
        yield name, j


def files():
    top = os.path.join(os.environ.get("TENON_TEST_DATA", ""), "tokenizers")
    for name in sorted(os.listdir(top)) if os.path.isdir(top) else []:
        path = os.path.join(top, name, "tokenizer.json")
        if os.path.exists(path):
            yield name + " (published file)", json.load(open(path, encoding="utf-8"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tok_cli")
    p.add_argument("--texts", type=int, default=150)
    p.add_argument("--seed", type=int, default=0, help="other texts")
    p.add_argument("--markdown", action="store_true", help="the table of docs/tokenizers.md")
    a = p.parse_args()
    tmp = tempfile.mkdtemp(prefix="tenon-tok-")
    file = os.path.join(tmp, "tokenizer.json")
    rows = []
    for name, j in [*families(Vocabularies()), *files()]:
        j["truncation"] = j["padding"] = None
        with open(file, "w", encoding="utf-8") as f:
            json.dump(j, f, ensure_ascii=False)
        ref = Tokenizer.from_file(file)
        rng = random.Random(name if not a.seed else f"{name} {a.seed}")
        extra = [x["content"] for x in j["added_tokens"]] or [" "]
        texts = [text(rng, extra, 160) for _ in range(a.texts)] + FOUND
        want = [ref.encode(t).ids for t in texts]
        try:
            got = [to_ids(x) for x in run_cli(a.tok_cli, tmp, file, "encode", [t.encode() for t in texts], True)[0]]
            bad = [(t, w, g) for t, w, g in zip(texts, want, got) if w != g]
            back = [ref.decode(w, skip_special_tokens=False) for w in want]
            wrong = 0
            for mode in ("decode", "stream"):
                out = run_cli(a.tok_cli, tmp, file, mode, [of_ids(w) for w in want])[0]
                wrong += sum(o.decode() != b for o, b in zip(out, back))
        except RuntimeError as e:
            bad, wrong = [(str(e), [], [])] * a.texts, a.texts
        rows.append((name, len(texts), sum(map(len, want)), len(bad), wrong))
        print("| %s | %d | %d | %d | %d |" % rows[-1] if a.markdown else "%-36s %6d texts %8d ids %5d differ, %5d decoded" % rows[-1], flush=True)
        if bad and not a.markdown:
            print("   %r\n   wanted %r\n   got    %r" % bad[0])
    off = sum(r[3] + r[4] for r in rows)
    print("%d tokenizers, %d texts, %d ids: %d differences" % (len(rows), sum(r[1] for r in rows), sum(r[2] for r in rows), off))
    return 1 if off else 0


if __name__ == "__main__":
    sys.exit(main())
