#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_pages.py ROOT: every link of docs/*.md leads to a file of docs/, which is installed as a whole, and to a heading there.

README.md's links lead to something in ROOT. Links to other hosts are not looked at.
"""
import pathlib
import re
import sys

LINK = re.compile(r"(?<!\\)\]\(([^()\s]*(?:\([^()]*\))?[^()\s]*)\)")


def anchors(text):
    """What a heading is called in a link: lower case, no punctuation, dashes for spaces; -1, -2 ... where it stands again."""
    out, seen = set(), {}
    fenced = False
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        m = None if fenced else re.match(r"#{1,6}\s+(.*?)\s*#*$", line)
        if not m:
            continue
        title = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", m[1])
        slug = re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")
        n = seen.get(slug, 0)
        seen[slug] = n + 1
        out.add(f"{slug}-{n}" if n else slug)
    return out


def check(page, inside):
    """Links of a page that lead nowhere, or out of `inside`."""
    text, wrong = page.read_text(encoding="utf-8"), []
    plain = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.S)
    for target in LINK.findall(plain):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        to = (page.parent / name).resolve() if name else page
        if not to.exists() or inside not in to.parents and to != inside:
            wrong.append(f"{page}: ({target}) is not there")
        elif anchor and anchor not in anchors(to.read_text(encoding="utf-8")):
            wrong.append(f"{page}: ({target}): no such heading")
    return wrong


def main():
    root = pathlib.Path(sys.argv[1]).resolve()
    pages = sorted((root / "docs").glob("**/*.md"))
    wrong = [w for p in pages for w in check(p, root / "docs")] + check(root / "README.md", root)
    print("\n".join(wrong))
    print(f"{len(pages) + 1} pages, {len(wrong)} links that lead nowhere")
    return bool(wrong) or len(pages) < 20


sys.exit(main())
