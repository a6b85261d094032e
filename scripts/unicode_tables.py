#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""unicode_tables.py [--versions]: writes runtime/llm/text/unicode_{cats,props,sets}.c.

The tables say what the parts of PyPI's `tokenizers` know of each code point. They are not taken from one Unicode version: the
parts of that library use different ones (docs/tokenizers.md). So each table is read off the library itself, by asking it about
every code point. --versions prints how new the newest code point of each table is instead, and writes nothing.

Needs (PyPI) tokenizers, unicodedata2; (Debian) unicode-data, whose folder is /usr/share/unicode or $UNICODE_DATA; Python 3.11,
whose own tables are Unicode 14 as those of the oldest PCRE2 that is supported (10.40).
"""
import os
import sys
import unicodedata

import tokenizers
import unicodedata2
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

UCD = os.environ.get("UNICODE_DATA", "/usr/share/unicode")
OUT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "runtime", "llm", "text")
ALL = [c for c in range(0x110000) if not 0xd800 <= c < 0xe000]
TEXT = "".join(map(chr, ALL))
# Planes without or with private characters only are the same all over, but for both ends: asking about some is enough.
DULL = [p << 16 for p in [*range(4, 14), 15, 16]]
FEW = [c for c in ALL if c >> 16 << 16 not in DULL or c & 0xffff in (0, 1, 0xfffc, 0xfffd, 0xfffe, 0xffff)]
FEW_TEXT = "".join(map(chr, FEW))
CATS = "Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Cs Co Cn".split()
# Scripts that are newer than Debian's unicode-data 15.
NEW_SCRIPTS = [("Gara", "Garay"), ("Gukh", "Gurung_Khema"), ("Krai", "Kirat_Rai"), ("Onao", "Ol_Onal"), ("Sunu", "Sunuwar"),
               ("Todr", "Todhri"), ("Tutg", "Tulu_Tigalari"), ("Berf", "Beria_Erfe"), ("Sidt", "Sidetic"), ("Tayo", "Tai_Yo"),
               ("Tols", "Tolong_Siki")]
POSIX = "alnum alpha blank cntrl digit graph lower print punct space upper xdigit word ascii".split()


def ranges(points):
    out = []
    for c in sorted(points):
        if out and (out[-1][1] == c - 1 or (c == 0xe000 and out[-1][1] == 0xd7ff)):
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


# --- asking the library ---------------------------------------------------------------------------------------------------------

def removed(pre, text=TEXT, points=ALL):
    """Code points that a pre-tokenizer removes from a text of all of them."""
    out, at = set(), 0
    for _, (b, e) in pre.pre_tokenize_str(text):
        out.update(points[at:b])
        at = e
    out.update(points[at:])
    return out


def regex(pattern):
    """Code points that match, None if the pattern is refused."""
    try:
        out = removed(pre_tokenizers.Split(Regex(pattern + "+"), "removed"), FEW_TEXT, FEW)
    except Exception:
        return None
    for p in DULL:
        assert (p + 1 in out) == (p + 0xfffc in out)
        if p + 1 in out:
            out.update(range(p + 1, p + 0xfffd))
    return out


def dropped(norm):
    return {c for c in ALL if norm.normalize_str("a" + chr(c) + "b") == "ab"}


def bert(**kw):
    args = {"clean_text": False, "handle_chinese_chars": False, "strip_accents": False, "lowercase": False}
    return normalizers.BertNormalizer(**{**args, **kw})


def alone():
    """Code points beside which an added token with single_word does not stand."""
    t = Tokenizer(models.WordLevel({"u": 0}, unk_token="u"))
    t.add_tokens([AddedToken("X", single_word=True, normalized=False)])
    x = t.token_to_id("X")
    return {c for c in ALL if x not in t.encode(chr(c) + "X").ids}


def words():
    w = pre_tokenizers.Whitespace()
    return {c for c in ALL if len(w.pre_tokenize_str("a" + chr(c) + "b")) == 1}


def lower():
    n = normalizers.Lowercase()
    return {c: n.normalize_str(chr(c)) for c in ALL if n.normalize_str(chr(c)) != chr(c)}


def normalized():
    """What the library's normal forms do something with: decompositions, their parts, and classes other than 0."""
    nfd, nfkd = normalizers.NFD(), normalizers.NFKD()
    known = set()
    for c in ALL:
        s = chr(c)
        d = nfd.normalize_str(s)
        if d != s:
            known.update(map(ord, d))
        if d != s or nfkd.normalize_str(s) != s:
            known.add(c)
        if nfd.normalize_str(s + "\u0334") != s + "\u0334" and d == s:
            known.add(c)
        if nfd.normalize_str("\u0345" + s) != "\u0345" + s and d == s:
            known.add(c)
    return known


def newest_normalized():
    known = set()
    for c in ALL:
        s = chr(c)
        d = unicodedata2.normalize("NFD", s)
        if d != s:
            known.update(map(ord, d))
        if d != s or unicodedata2.normalize("NFKD", s) != s or unicodedata2.combining(s):
            known.add(c)
    return known


def inert(known):
    """The fewest ranges with all code points that newer tables normalize or may do one day, and none that is known."""
    need = (newest_normalized() | {c for c in ALL if unicodedata2.category(chr(c)) == "Cn"}) - known
    out = []
    run = None
    for c in ALL:
        if c in known:
            run = None
        elif c in need and run:
            run[1] = c
        elif c in need:
            run = [c, c]
            out.append(run)
    return out


# --- properties of regexes ------------------------------------------------------------------------------------------------------

def plain(name):
    return "".join(c for c in name if c not in " _-").lower()


def candidates():
    """(names of one property, kind)"""
    out = []
    for line in open(os.path.join(UCD, "PropertyValueAliases.txt"), encoding="utf-8"):
        f = [x.strip() for x in line.split("#")[0].split(";")]
        if f[0] in ("gc", "sc"):
            out.append(f[1:])
    out += [list(x) for x in NEW_SCRIPTS]
    for line in open(os.path.join(UCD, "PropertyAliases.txt"), encoding="utf-8"):
        f = [x.strip() for x in line.split("#")[0].split(";")]
        if len(f) > 1:
            out.append(f)
    out += [[p] for p in POSIX + ["Any", "Assigned", ":punct", ":word"]]  # of POSIX brackets these two differ
    for line in open(os.path.join(UCD, "Blocks.txt"), encoding="utf-8"):
        f = [x.strip() for x in line.split("#")[0].split(";")]
        if len(f) > 1:
            out.append(["In_" + f[1]])
    return out


def properties(members, cats):
    """names -> (mask of categories, only assigned ones, ranges in which the set differs from these categories)"""
    unassigned = members["Cn"]
    out = {}
    for names in candidates():
        for name in names:
            # in{script} takes \p{in_...}: a name is what the library says it is, so each is asked alone.
            if plain(name) in out or not plain(name).strip(":").isalnum():
                continue
            points = regex("[[%s:]]" % name if name[0] == ":" else r"\p{%s}" % name)
            if points is None:
                continue
            mask, base = 0, set()
            for i, c in enumerate(CATS):
                if members[c] and 2 * len(points & members[c]) > len(members[c]):
                    mask |= 1 << i
                    base |= members[c]
            diff = points ^ base
            only = not points & unassigned
            # Over code points that are not assigned a range may go on.
            spread = [r[:] for r in ranges(diff)]
            if only and spread:
                merged = [spread[0]]
                for lo, hi in spread[1:]:
                    if all(c in unassigned or 0xd800 <= c < 0xe000 for c in range(merged[-1][1] + 1, lo)):
                        merged[-1][1] = hi
                    else:
                        merged.append([lo, hi])
                spread = merged
            out[plain(name)] = (mask, only and spread != ranges(diff), tuple(map(tuple, spread)))
    return out


# --- writing --------------------------------------------------------------------------------------------------------------------

def head(what):
    return ("/* SPDX-License-Identifier: Apache-2.0\n *\n * %s\n * Written by scripts/unicode_tables.py from tokenizers %s.\n */\n"
            "#include \"runtime/llm/text/unicode_tables.h\"\n\n" % (what, tokenizers.__version__))


def table(f, declaration, cells):
    f.write("/* clang-format off */\n%s = {\n" % declaration)
    line = ""
    for c in cells:
        if len(line) + len(c) > 116:
            f.write(" " + line + "\n")
            line = ""
        line += " " + c + ","
    f.write((" " + line + "\n" if line else "") + "};\n/* clang-format on */\n")


def pairs(points):
    return ["{0x%x, 0x%x}" % (lo, hi) for lo, hi in points]


def count(f, name):
    f.write("const size_t tni_n_%s = sizeof tni_%s / sizeof *tni_%s;\n\n" % (name, name, name))


def runs_of(cat):
    """Starts of runs; a run of Lu and Ll in turns is one of its own kinds (30: Lu first)."""
    out = []
    c = 0
    while c < 0x110000:
        k = cat[c]
        if k == 0 and cat[c + 1] == 1 and cat[c + 2] == 0 and cat[c + 3] == 1:
            out.append((c, 30))
            while cat[c] == 0 and cat[c + 1] == 1:
                c += 2
            continue
        if not (out and out[-1][1] == k):
            out.append((c, k))
        c += 1
    return out


def write_cats(members):
    cat = [CATS.index("Cs")] * 0x110000 + [CATS.index("Cn")] * 4
    for i, c in enumerate(CATS):
        for p in members[c]:
            cat[p] = i
    with open(os.path.join(OUT, "unicode_cats.c"), "w") as f:
        f.write(head("General categories of the regexes and of \\w. A run starts at v >> 8 and has category v & 255."))
        table(f, "const uint32_t tni_category_runs[]", ["0x%x" % (c << 8 | k) for c, k in runs_of(cat)])
        count(f, "category_runs")
        f.write("/* Assigned after Unicode 14, so maybe not known to PCRE2. */\n")
        newer = [c for c in ALL if unicodedata.category(chr(c)) == "Cn" and c not in members["Cn"]]
        moved = [c for c in ALL if unicodedata.category(chr(c)) not in ("Cn", CATS[cat[c]])]
        assert unicodedata.unidata_version == "14.0.0" and moved == [0x1171e], moved  # from Mn to Mc, see regex_class.c
        table(f, "const tni_cp_range tni_newer[]", pairs(ranges(newer + moved)))
        count(f, "newer")


def write_props(props):
    store, at = [], {}
    for _, _, rs in props.values():
        if rs not in at:
            at[rs] = len(store)
            store += rs
    with open(os.path.join(OUT, "unicode_props.c"), "w") as f:
        f.write(head("Properties of regexes by name: categories of a mask, and ranges in which it is the other way round."))
        table(f, "const tni_cp_range tni_prop_ranges[]", pairs(store))
        f.write("\n")
        table(f, "const tni_prop tni_props[]",
              ['{"%s", 0x%x, %d, %d, %d}' % (n, m, only, at[rs], len(rs)) for n, (m, only, rs) in sorted(props.items())])
        count(f, "props")


def strides(low):
    """lo, hi, delta, stride of code points whose lower case is one code point."""
    out = []
    for c, s in sorted(low.items()):
        if len(s) != 1:
            assert (c, s) == (0x130, "i\u0307")
            continue
        d = ord(s) - c
        last = out[-1] if out else None
        if last and d == last[2] and (c - last[1] == last[3] or (last[0] == last[1] and c - last[1] <= 2)):
            last[3] = c - last[1]
            last[1] = c
        else:
            out.append([c, c, d, 1])
    return out


def write_sets(sets, low, still):
    with open(os.path.join(OUT, "unicode_sets.c"), "w") as f:
        f.write(head("Sets of single components, each as old as the library's table for it."))
        for name, points in sets.items():
            table(f, "static const tni_cp_range %s[]" % name, pairs(ranges(points)))
            f.write("const tni_cp_ranges tni_set_%s = {%s, sizeof %s / sizeof *%s};\n\n" % (name, name, name, name))
        table(f, "static const tni_cp_range inert[]", pairs(still))
        f.write("const tni_cp_ranges tni_set_inert = {inert, sizeof inert / sizeof *inert};\n\n")
        table(f, "const tni_lower_run tni_lower_runs[]", ["{0x%x, 0x%x, %d, %d}" % tuple(x) for x in strides(low)])
        count(f, "lower_runs")


def versions(tables):
    age = {}
    for line in open(os.path.join(UCD, "DerivedAge.txt"), encoding="utf-8"):
        f = [x.strip() for x in line.split("#")[0].split(";")]
        if len(f) > 1:
            lo, hi = (f[0].split("..") * 2)[:2]
            age.update(dict.fromkeys(range(int(lo, 16), int(hi, 16) + 1), float(f[1])))
    print("tokenizers %s, DerivedAge of %s" % (tokenizers.__version__, UCD))
    for name, points in tables.items():
        newest = max(age.get(c, 99) for c in points)
        print("%-12s %7d code points, newest of Unicode %s" % (name, len(points), "16 or later" if newest == 99 else newest))


def main():
    members = {c: regex(r"\p{%s}" % c) or set() for c in CATS}
    assert all(regex("[[:%s:]]" % p) == regex(r"\p{%s}" % p) for p in POSIX if p not in ("punct", "word"))
    sets = {"punct": removed(pre_tokenizers.Punctuation("removed")),
            "number": {c for c in ALL if len(pre_tokenizers.Digits(True).pre_tokenize_str("a" + chr(c) + "b")) == 3},
            "mark": dropped(normalizers.StripAccents()), "accent": dropped(bert(strip_accents=True)),
            "control": dropped(bert(clean_text=True))}
    low, known = lower(), normalized()
    white = removed(pre_tokenizers.WhitespaceSplit())
    assert white == regex(r"\s") == {c for c in ALL if chr(c).isspace()} - set(range(0x1c, 0x20))
    word = alone()
    assert word == words() == regex("[[:word:]]") | {0x200c, 0x200d} and regex(r"\w") == regex(r"\p{word}")
    if "--versions" in sys.argv:
        assigned = {c for c in ALL if c not in members["Cn"]}
        versions({**sets, "lower": low, "normal forms": known, "categories": assigned, "\\w": word})
        return
    write_cats(members)
    write_props(properties(members, members))
    write_sets(sets, low, inert(known))


if __name__ == "__main__":
    main()
