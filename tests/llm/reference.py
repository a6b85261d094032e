# SPDX-License-Identifier: Apache-2.0
"""What the comparisons with PyPI's `tokenizers` share: driving tok-cli, texts, SentencePiece's rules."""
import os
import resource
import struct
import subprocess


def unlimited():
    """A caller's limit of memory is its own: sanitizers reserve terabytes."""
    hard = resource.getrlimit(resource.RLIMIT_AS)[1]
    resource.setrlimit(resource.RLIMIT_AS, (hard, hard))


def run_cli(tok_cli, tmp, file, mode, records, flag=False, limit=None):
    """tok-cli over records: its records and its seconds."""
    src, dst = os.path.join(tmp, "in"), os.path.join(tmp, "out")
    with open(src, "wb") as f:
        for r in records:
            f.write(struct.pack("<I", len(r)) + r)
    p = subprocess.run([tok_cli, file, mode, src, dst] + (["flag"] if flag else []) + ([str(limit)] if limit else []), capture_output=True, text=True,
                       preexec_fn=unlimited)
    if p.returncode:
        raise RuntimeError(p.stderr.strip() or "exit status %d" % p.returncode)
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
