#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""fuzz_tokenizer.py TOK_CLI [--seconds S] [--seed N] [--count C]: random tokenizers against PyPI's `tokenizers`.

Each case is a tokenizer.json of random normalizers, pre-tokenizers, model, post-processors, added tokens and decoders, made from
its number alone, and random texts. Compared: whether the file loads; ids without and with special tokens; decoding at once and
id by id, with and without special tokens, of these ids and of random ones. A case that differs is printed with the shortest text
found, and kept as a file. Every REFUSED reason is a limit that Tenon states. Exit: 0 equal, 1 a difference, 77 no `tokenizers`.
"""
import argparse
import base64
import collections
import json
import os
import random
import resource
import sys
import tempfile

try:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, trainers
except ImportError:
    print("skipped: the Python package `tokenizers` is not installed")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from reference import charsmap, mixed, of_ids, run_cli, to_ids  # noqa: E402

# What Tenon says it does not take, by the text of its message.
REFUSED = ("an interval followed by", "have the same id", "is there twice", "here and", "is there 0 times", "is there 2 times",
           "empty content", "lookbehind assertion is not fixed length",
           "a template after one of")
RULES = {"\uff21": "A", "\ufb01": "fi", "e\u0301": "\u00e9", "\t": " ", "\n": " ", "\u200b": "", "\u3000": " ", "x\u0307": "y",
         "\u00c5": "\u00e5", "W": "w", "\u1100\u1161": "\uac00"}
REGEXES = [r"\s+", r"\p{L}+", r"\w+|[^\w\s]+", r"\p{N}{1,3}", r"[^\r\n\p{L}\p{N}]?\p{L}+", r"\s+(?!\S)", r" ?[^(\s|[.,!?\u2026\u3002\uff0c])]+",
           r"[\p{Han}]+", r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]*[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]+", r"[^\W\d_]+", r"\b\w",
           r"(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"(?i)[a-f&&[^c]]", r"[[:alpha:]&&[^[:upper:]]]+", r"[[:punct:]]", r"[^[:^alnum:]]+",
           r"\p{Script=Han}|\p{Hiragana}+|\p{Katakana}", r"\P{L}", r"\p{^L}+", r"[\p{P}\p{S}]", r"^.", r".$", r"[\s\S]{1,3}", r"\h+", r"\H",
           r"x*", r"", r"\B", r"[a-z&&aeiou]", r"[^a-z&&[^aeiou]]", r"\p{Emoji}+", r"[\p{Cyrillic}\p{Greek}]+", r"(?m:.)", r"\R",
           r"\p{Cn}", r"[^\p{M}]\p{M}*", r"\p{In_Hiragana}", r"\d{,2}", r"(?<=\s)\S", r"\A.|.\z", r"[\x{300}-\x{36f}]+", r"[a\-z]", r"e|er|ing"]
NEW = ("\u061d\u0870\u0c5d\u1b4e\u1c89\u1c8a\u20c0\u20c1\ua7c0\ua7cb\ua7dc\ua7f2\U00010570\U00010597\U000105c0\U000105c9\U00010d40"
       "\U00010d50\U00010d70\U00011380\U00011f00\U00011f50\U00016d63\U00016d67\U00016d68\U00016d70\U0001df25\U0001e030\U0001e4d0\U0001e4ec"
       "\U0001e5d0\U0001e5f1\U0001fae9\U0001fbcb\U0001ccd6\U0001ccf0\U00031350\u1734\u1885\ua9bd\u1cf2\u1cf7\U000111c9\U0001171e\U00011938"
       "\U00011935\U00011930\U000105d2\u0307\ufffe\uffff\U0010ffff\ue000\u200c\u200d\u00b2\u00bc\u1e9e\u0130\u01c5\u0345\u1f80\u03a3")


def text(rng, extra=(), most=80):
    k = rng.random()
    if k < 0.05:
        return ""
    if k < 0.2:
        return "".join(chr(c) for c in (rng.choice([rng.randrange(0x3000), rng.randrange(0x20000), rng.randrange(0x110000)])
                                        for _ in range(rng.randint(1, 12))) if not 0xd800 <= c < 0xe000)
    s = mixed(rng, rng.randint(1, most), extra)
    for _ in range(rng.randint(0, 4)):
        at = rng.randint(0, len(s))
        s = s[:at] + rng.choice(NEW) + s[at:]
    return s


def models_of(seed):
    """Small trained models, as JSON."""
    rng = random.Random(seed)
    corpus = [mixed(rng, 6000).replace("\0", "") for _ in range(3)]
    out = []

    def add(model, trainer, pre, corpus=corpus):
        t = Tokenizer(model)
        t.pre_tokenizer = pre
        t.train_from_iterator(corpus, trainer)
        out.append(json.loads(t.to_str())["model"])

    space, meta = pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    quiet = {"show_progress": False}
    add(models.BPE(), trainers.BpeTrainer(vocab_size=600, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), **quiet), level)
    bpe = {"vocab_size": 400, "limit_alphabet": 120, "special_tokens": ["<unk>"]}
    add(models.BPE(unk_token="<unk>"), trainers.BpeTrainer(**bpe, **quiet), space)
    add(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"), trainers.BpeTrainer(end_of_word_suffix="</w>", **bpe, **quiet), space)
    add(models.BPE(unk_token="<unk>", continuing_subword_prefix="##"),
        trainers.BpeTrainer(continuing_subword_prefix="##", **bpe, **quiet), space)
    add(models.BPE(unk_token="<unk>"), trainers.BpeTrainer(**bpe, **quiet), meta)
    words = dict(bpe, special_tokens=["[UNK]"])
    add(models.WordPiece(unk_token="[UNK]"), trainers.WordPieceTrainer(**words, **quiet), space)
    add(models.WordLevel(unk_token="[UNK]"), trainers.WordLevelTrainer(vocab_size=300, special_tokens=["[UNK]"], **quiet), space)
    words = [" ".join("".join(rng.choice("aeiourstlnm\u00e9\u00df\u4e2d\u6587") for _ in range(rng.randint(1, 8))) for _ in range(900))]
    add(models.Unigram(), trainers.UnigramTrainer(vocab_size=300, special_tokens=["<unk>"], unk_token="<unk>", **quiet), meta, words)
    for m in list(out):  # with all byte tokens, and with a few
        if m["type"] not in ("BPE", "Unigram"):
            continue
        m = json.loads(json.dumps(m))
        few = rng.random() < 0.3
        for b in range(256):
            if few and b % 7 == 0:
                continue
            if m["type"] == "BPE":
                m["vocab"].setdefault("<0x%02X>" % b, len(m["vocab"]))
            else:
                m["vocab"].append(["<0x%02X>" % b, 0.0])
        m["byte_fallback"] = True
        out.append(m)
    return out


MOST_BYTES = 4 << 30


class Maker:
    def __init__(self, rng, pool):
        self.rng, self.pool = rng, pool

    def flip(self, p=0.5):
        return self.rng.random() < p

    def word(self):
        r = self.rng
        return r.choice([" ", "e", "er", "a", "▁", "▁▁", "ing", "x", "##", "</w>", "\n", "é", "e\u0301", "İ", "  ", "ß", "1", "中", ".", "'s",
                         mixed(r, r.randint(1, 6)).replace("\0", "_") or "q"])

    def pattern(self):
        return {"String": self.word()} if self.flip(0.4) else {"Regex": self.rng.choice(REGEXES)}

    def normalizer(self, depth=0):
        r = self.rng
        k = r.choice(["NFC", "NFD", "NFKC", "NFKD", "Lowercase", "Strip", "StripAccents", "Replace", "Prepend", "BertNormalizer", "Nmt",
                      "Precompiled", "ByteLevel"] + ["Sequence"] * (4 if depth < 2 else 0))
        x = {"type": k}
        if k == "Strip":
            x.update(strip_left=self.flip(), strip_right=self.flip())
        if k == "Replace":
            x.update(pattern=self.pattern(), content=r.choice(["", " ", "▁", "_", "ab", "é"]))
        if k == "Prepend":
            x.update(prepend=r.choice(["▁", " ", "ab", "é"]))
        if k == "BertNormalizer":
            x.update(clean_text=self.flip(), handle_chinese_chars=self.flip(), lowercase=self.flip(),
                     strip_accents=r.choice([None, True, False]))
        if k == "Precompiled":
            x.update(precompiled_charsmap=base64.b64encode(charsmap(RULES)).decode())
        if k == "Sequence":
            x.update(normalizers=[self.normalizer(depth + 1) for _ in range(r.randint(0, 3))])
        return x

    def pre_tokenizer(self, depth=0):
        r = self.rng
        k = r.choice(["ByteLevel", "Metaspace", "Whitespace", "WhitespaceSplit", "Punctuation", "Digits", "BertPreTokenizer", "Split", "Split",
                      "CharDelimiterSplit", "FixedLength"] + ["Sequence"] * (4 if depth < 2 else 0))
        x = {"type": k}
        behavior = r.choice(["Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous"])
        if k == "ByteLevel":
            x.update(add_prefix_space=self.flip(), trim_offsets=self.flip(), use_regex=self.flip())
        if k == "Metaspace":
            x.update(replacement=r.choice(["▁", "▁", "_", "é"]), prepend_scheme=r.choice(["always", "first", "never"]), split=self.flip())
        if k == "Punctuation":
            x.update(behavior=behavior)
        if k == "Digits":
            x.update(individual_digits=self.flip())
        if k == "Split":
            x.update(pattern=self.pattern(), behavior=behavior, invert=self.flip(0.3))
        if k == "CharDelimiterSplit":
            x.update(delimiter=r.choice(["e", " ", "▁", "中"]))
        if k == "FixedLength":
            x.update(length=r.randint(1, 6))
        if k == "Sequence":
            x.update(pretokenizers=[self.pre_tokenizer(depth + 1) for _ in range(r.randint(0, 3))])
        return x

    def decoder(self, depth=0):
        r = self.rng
        k = r.choice(["ByteLevel", "Metaspace", "ByteFallback", "Fuse", "Strip", "Replace", "WordPiece", "BPEDecoder", "CTC"] +
                     ["Sequence"] * (6 if depth < 2 else 0))
        x = {"type": k}
        if k == "ByteLevel":
            x.update(add_prefix_space=self.flip(), trim_offsets=self.flip(), use_regex=self.flip())
        if k == "Metaspace":
            x.update(replacement=r.choice(["▁", "▁", "_", "e"]), prepend_scheme=r.choice(["always", "first", "never"]), split=self.flip())
        if k == "Strip":
            x.update(content=r.choice([" ", "e", "▁", "é"]), start=r.randint(0, 3), stop=r.randint(0, 3))
        if k == "Replace":
            x.update(pattern=self.pattern(), content=r.choice(["", " ", "▁", "ab", "é"]))
        if k == "WordPiece":
            x.update(prefix=r.choice(["##", "e", "▁"]), cleanup=self.flip())
        if k == "BPEDecoder":
            x.update(suffix=r.choice(["</w>", "e", "▁"]))
        if k == "CTC":
            x.update(pad_token=r.choice(["a", "<pad>", "e"]), word_delimiter_token=r.choice(["|", "e", " "]), cleanup=self.flip())
        if k == "Sequence":
            x.update(decoders=[self.decoder(depth + 1) for _ in range(r.randint(0, 4))])
        return x

    def post(self, vocab, depth=0):
        r = self.rng
        pair = lambda: [r.choice(list(vocab)), 0]
        k = r.choice(["TemplateProcessing", "BertProcessing", "RobertaProcessing", "ByteLevel"] + ["Sequence"] * (2 if depth < 1 else 0))
        x = {"type": k}
        if k == "ByteLevel":
            x.update(add_prefix_space=self.flip(), trim_offsets=self.flip(), use_regex=self.flip())
        if k in ("BertProcessing", "RobertaProcessing"):
            for key in ("sep", "cls"):
                x[key] = pair()
                x[key][1] = vocab[x[key][0]]
        if k == "RobertaProcessing":
            x.update(trim_offsets=self.flip(), add_prefix_space=self.flip())
        if k == "TemplateProcessing":
            names = r.sample(list(vocab), min(3, len(vocab)))
            special = lambda: {"SpecialToken": {"id": r.choice(names), "type_id": 0}}
            single = [special() for _ in range(r.randint(0, 2))] + [{"Sequence": {"id": "A", "type_id": 0}}] + \
                     [special() for _ in range(r.randint(0, 2))]
            x.update(single=single, pair=[{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                     special_tokens={n: {"id": n, "ids": [vocab[n]] * r.choice([1, 1, 2]), "tokens": [n] * 1} for n in names})
            for n in names:
                x["special_tokens"][n]["tokens"] = [n] * len(x["special_tokens"][n]["ids"])
        if k == "Sequence":
            x.update(processors=[self.post(vocab, depth + 1) for _ in range(r.randint(1, 3))])
        return x

    def tokenizer(self):
        r = self.rng
        model = json.loads(json.dumps(r.choice(self.pool)))
        if model["type"] == "BPE":
            model.update(fuse_unk=self.flip(), ignore_merges=self.flip(0.3))
            if self.flip(0.2):
                model["unk_token"] = None
            if self.flip(0.1):
                model["byte_fallback"] = not model.get("byte_fallback")
        if model["type"] == "WordPiece":
            model["max_input_chars_per_word"] = r.choice([100, 100, 5, 1])
        vocab = dict(model["vocab"]) if isinstance(model["vocab"], dict) else {k: i for i, (k, _) in reversed(list(enumerate(model["vocab"])))}
        top, added = max(vocab.values()) + 1, []
        names = ["<s>", "</s>", "[MASK]", "<|im_start|>", "[X]", "[XY]", "Word", "word", " lead", "trail ", "é", "É", "ab", "ABC", "e\u0301",
                 "İx", "<unk>", "[UNK]", "\n", "  ", "中", "ﬁ", self.word(), self.word()]
        for name in r.sample(names, r.choice([0, 0, 1, 3, 8])):
            if name in (a["content"] for a in added):
                continue
            if name in vocab:
                i = vocab[name]
            else:
                i, top = top, top + 1
            special = self.flip()
            added.append({"id": i, "content": name, "single_word": self.flip(0.3), "lstrip": self.flip(0.3), "rstrip": self.flip(0.3),
                          "normalized": self.flip(0.3 if special else 0.7), "special": special})
        added.sort(key=lambda a: a["id"])
        vocab.update((a["content"], a["id"]) for a in added)
        maybe = lambda f, p, *a: f(*a) if self.flip(p) else None
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "normalizer": maybe(self.normalizer, 0.6),
                "pre_tokenizer": maybe(self.pre_tokenizer, 0.75), "post_processor": maybe(self.post, 0.6, vocab),
                "decoder": maybe(self.decoder, 0.8), "model": model}


class Fuzz:
    def __init__(self, tok_cli, keep):
        self.cli, self.tmp, self.keep = tok_cli, tempfile.mkdtemp(prefix="tenon-tok-"), keep
        self.file = os.path.join(self.tmp, "tokenizer.json")
        self.count = collections.Counter()
        self.refused = collections.Counter()
        self.bad = 0

    def ours(self, mode, records, flag=False):
        return run_cli(self.cli, self.tmp, self.file, "try-" + mode, records, flag)[0]

    def differs(self, ref, mode, record, flag=False):
        """What the library says and what Tenon says, where they are not the same; both as (ok, value)."""
        want = self.theirs(ref, mode, record, flag)
        got = self.ours(mode, [record.encode() if mode == "encode" else of_ids(record)], flag)[0]
        got = self.read(mode, got)
        return None if got == want or want is None else (want, got)

    @staticmethod
    def read(mode, got):
        if got[:1] != b"\0":
            return False, None
        return True, to_ids(got[1:]) if mode == "encode" else got[1:].decode()

    @staticmethod
    def theirs(ref, mode, record, flag):
        try:
            if mode == "encode":
                return True, ref.encode(record, add_special_tokens=flag).ids
            return True, ref.decode(record, skip_special_tokens=flag)
        except Exception:
            return False, None
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            return None  # the library itself broke: nothing to compare with

    def shrink(self, ref, mode, record, flag):
        step = max(1, len(record) // 2)
        tries = 0
        while step and tries < 120:
            at = 0
            while at < len(record) and tries < 120:
                tries += 1
                less = record[:at] + record[at + step:]
                if self.differs(ref, mode, less, flag):
                    record = less
                else:
                    at += step
            step //= 2
        return record

    def report(self, name, ref, mode, record, flag):
        record = self.shrink(ref, mode, record, flag)
        want, got = self.differs(ref, mode, record, flag) or ("not shown again", "")
        j = json.load(open(self.file))
        what = {k: j[k] for k in ("normalizer", "pre_tokenizer", "post_processor", "decoder", "added_tokens")}
        what = json.loads(json.dumps(what), object_hook=lambda x: {k: v for k, v in x.items() if k != "precompiled_charsmap"})
        what["model"] = {k: v for k, v in j["model"].items() if k not in ("vocab", "merges")}
        print("DIFFERENT %s %s %r flag %s\n  wanted %r\n  got    %r\n  %s" % (name, mode, record, flag, want, got,
                                                                        json.dumps(what, ensure_ascii=False)[:3000]))
        self.bad += 1
        if self.keep:
            os.makedirs(self.keep, exist_ok=True)
            with open(self.file, "rb") as f, open(os.path.join(self.keep, name.replace(" ", "-") + ".json"), "wb") as g:
                g.write(f.read())

    def case(self, name, config, texts, rng):
        with open(self.file, "w", encoding="utf-8") as f:
            json.dump(config, f, ensure_ascii=False)
        try:
            ref = Tokenizer.from_file(self.file)
        except BaseException as e:
            if isinstance(e, KeyboardInterrupt):
                raise
            self.count["not a tokenizer for the library"] += 1
            return
        try:
            self.ours("encode", [])
        except RuntimeError as e:
            reason = next((r for r in REFUSED if r in str(e)), None)
            if reason:
                self.refused[reason] += 1
            else:
                print("REFUSED %s: %s" % (name, e))
                self.bad += 1
            return
        # Two added tokens that are searched by the same text: the library takes either, by the order of a hash table.
        patterns = [ref.normalizer.normalize_str(a["content"]) if a["normalized"] and ref.normalizer else a["content"]
                    for a in config["added_tokens"]]
        if len(set(patterns)) < len(patterns):
            self.count["of two minds"] += 1
            return
        self.count["configurations"] += 1
        if rng is None:
            self.many(name, ref, "encode", texts, False)
            return
        n = ref.get_vocab_size()
        ids = [[rng.randrange(rng.choice([n + 5, 262, 60])) for _ in range(rng.randint(0, 24))] for _ in range(10)]
        for flag in (False, True):
            if not self.many(name, ref, "encode", texts, flag):
                return
        ids += [w for ok, w in (self.theirs(ref, "encode", t, True) or (False, 0) for t in texts) if ok]
        for flag in (False, True):
            for mode in ("decode", "stream"):
                if not self.many(name, ref, mode, ids, flag):
                    return

    def many(self, name, ref, mode, records, flag):
        got = self.ours(mode, [r.encode() if mode == "encode" else of_ids(r) for r in records], flag)
        for r, g in zip(records, got):
            self.count[mode] += 1
            want = self.theirs(ref, mode, r, flag)
            self.count["panics of the library"] += want is None
            if want is not None and self.read(mode, g) != want:
                self.report(name, ref, mode, r, flag)
                return False
        return True


def every_character(fuzz):
    """All code points through each component that has a table: of long runs of the same kind the ends and every 97th."""
    dull = [(0x3400, 0x4dbf), (0x4e00, 0x9fff), (0xac00, 0xd7a3), (0xe000, 0xf8ff), (0x17000, 0x187f0), (0x20000, 0x2f7ff), (0x30000, 0xdffff),
            (0xe01f0, 0x10ffff)]
    rare = lambda c: any(lo + 2 <= c <= hi - 2 for lo, hi in dull) and c % 97 and c & 0xffff not in (0, 0xfffd, 0xfffe, 0xffff)
    chars = [chr(c) for c in range(0x110000) if not 0xd800 <= c < 0xe000 and not rare(c)]
    texts = ["".join(chars[i:i + 64]) for i in range(0, len(chars), 64)]
    spaced = [" ".join("a%sb" % c for c in chars[i:i + 64]) for i in range(0, len(chars), 64)]
    model = {"type": "BPE", "unk_token": None, "byte_fallback": True, "vocab": {"<0x%02X>" % b: b for b in range(256)}, "merges": []}
    bert = {"type": "BertNormalizer", "clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    norms = [{"type": t} for t in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "Nmt")]
    norms += [{**bert, k: True} for k in ("clean_text", "handle_chinese_chars", "strip_accents", "lowercase")]
    join = {"type": "Replace", "pattern": {"String": "\x01"}, "content": ""}
    base = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None, "pre_tokenizer": None,
            "post_processor": None, "decoder": None, "model": model}
    for x in norms:
        fuzz.case("every character " + json.dumps(x), {**base, "normalizer": {"type": "Sequence", "normalizers": [x, join]}}, texts, None)
    pres = [{"type": t} for t in ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")]
    pres += [{"type": "Punctuation", "behavior": "Removed"}, {"type": "Digits", "individual_digits": True}]
    pres += [{"type": "Split", "pattern": {"Regex": r}, "behavior": "Removed", "invert": False}
             for r in (r"\w", r"\W", r"\p{L}", r"\p{M}", r"[^\p{Lu}\p{N}]", r"[\p{P}\p{S}]", r"\p{Han}", r"\p{Latin}", r"[[:alpha:]&&[^\p{Han}]]",
                       r"\p{Cn}", r"[[:punct:]]", r"\p{Emoji}", r"\b", r"(?i)[[:upper:]]", r"\p{Common}", r"\p{ID_Start}", r"\p{Mn}")]
    mark = {**model, "vocab": {**model["vocab"], "▁": 256}}
    for x in pres:
        then = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": False}  # shows where pieces begin
        fuzz.case("every character " + json.dumps(x), {**base, "model": mark, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [x, then]}},
                  spaced, None)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("tok_cli")
    p.add_argument("--seconds", type=float, default=0, help="go on with cases for that long (processor time)")
    p.add_argument("--count", type=int, default=60, help="cases, where --seconds is not given")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--every", action="store_true", help="every character through every component as well")
    p.add_argument("--keep", default="", help="folder for files that differ")
    a = p.parse_args()
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, resource.getrlimit(resource.RLIMIT_AS)[1]))  # now and then the library takes all there is
    sys.stderr = os.fdopen(os.dup(2), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)  # the library's panics
    fuzz = Fuzz(a.tok_cli, a.keep)
    used = lambda: sum(os.times()[:4])
    if a.every:
        every_character(fuzz)
    pool, n = [], 0
    while used() < a.seconds if a.seconds else n < a.count:
        if n % 200 == 0:
            pool = models_of(a.seed + n)
        rng = random.Random(a.seed * 1000003 + n)
        make = Maker(rng, pool)
        config = make.tokenizer()
        extra = [t["content"] for t in config["added_tokens"]] or [" "]
        try:
            fuzz.case("case %d.%d" % (a.seed, n), config, [text(rng, extra) for _ in range(12)], rng)
        except RuntimeError as e:  # tok-cli did not end well
            print("BROKEN case %d.%d: %s" % (a.seed, n, e))
            fuzz.bad += 1
        n += 1
        if n % 500 == 0:
            print("%d cases, %d differences" % (n, fuzz.bad), flush=True)
        if fuzz.bad >= 12:
            print("stopped after %d findings" % fuzz.bad)
            break
    print("seed %d: %d cases in %.0f s of processor time; %s" % (a.seed, n, used(), ", ".join("%s %d" % x for x in sorted(fuzz.count.items()))))
    for reason, k in sorted(fuzz.refused.items()):
        print("refused by Tenon %4d: %s" % (k, reason))
    print("%d differences" % fuzz.bad)
    return 1 if fuzz.bad else 0


if __name__ == "__main__":
    sys.exit(main())
