#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_questions.py ROOT: the table 'Where is X decided' of docs/architecture.md, and the names of docs/sources.md.

Each row is | question | `function` ... | `file` |: the file must exist and define every name that the row gives (a function,
a macro, or the macro of a table's rows). There are at least twenty rows. A row or a promise that a comment
names (row TL1, NPU4, promise D16) is a row of docs/sources.md."""
import pathlib
import re
import sys

HEADING = "## Where is X decided"
LEAST = 20
QUOTED = re.compile(r"`([^`]+)`")

NAMED = re.compile(r"\brow ([A-Z]+\d+)\b|\bpromise ([A-Z]+\d+)\b|\b(NPU[1-9])\b")
ROW = re.compile(r"^\| ([A-Z]+\d+) \|", re.M)


def rows(page):
    """The cells of the table's rows, without its two lines of heading."""
    lines = page.split(HEADING, 1)[1].split("\n## ", 1)[0].splitlines() if HEADING in page else []
    table = [line for line in lines if line.startswith("|")]
    return [[c.strip() for c in line.strip("|").split("|")] for line in table[2:]]


def is_body(text, at):
    """True where the parentheses that open at `at` are followed by a body, not by a semicolon."""
    depth = 0
    for i in range(at, len(text)):
        depth += (text[i] == "(") - (text[i] == ")")
        if depth == 0:
            return text[i + 1:].lstrip()[:1] == "{"
    return False


def defines(text, name):
    """True where a line of the text starts the definition of a function, or where it has a macro or a row of that name."""
    word = re.escape(name)
    if re.search(rf"^#\s*define {word}\b", text, re.M) or name.isupper() and re.search(rf"^{word}\(", text, re.M):
        return True
    return any(is_body(text, m.end() - 1) for m in re.finditer(rf"^[A-Za-z_][^\n;(]*[\s*]{word}\(", text, re.M))


def check(root, row):
    question, names, file = row[0], QUOTED.findall(row[1]), QUOTED.findall(row[2])
    if not file or not names:
        return [f"{question}: names no file or no function in backquotes"]
    path = root / file[0]
    if not path.is_file():
        return [f"{question}: no file {file[0]}"]
    text = path.read_text(encoding="utf-8")
    return [f"{question}: {file[0]} does not define {name}" for name in names if not defines(text, name)]


def check_names(root):
    """Names of rows and promises that no page explains."""
    page = root / "docs/sources.md"
    known = set(ROW.findall(page.read_text(encoding="utf-8"))) if page.is_file() else set()
    found = []
    for top in ("include", "runtime", "plugins"):
        for file in sorted(p for p in (root / top).rglob("*") if p.suffix in (".c", ".h", ".cl", ".md") and p.is_file()):
            names = {n for m in NAMED.findall(file.read_text(encoding="utf-8")) for n in m if n}
            found += [f"{file.relative_to(root)} names {n}: docs/sources.md does not" for n in sorted(names - known)]
    return found


def main(root, least=LEAST):
    found = rows((root / "docs/architecture.md").read_text(encoding="utf-8"))
    bad = [text for row in found for text in (check(root, row) if len(row) == 3 else [f"not three cells: {row}"])]
    bad += check_names(root)
    for text in bad:
        print(text)
    print(f"{len(found)} questions, {len(bad)} answers or names are wrong")
    return 0 if len(found) >= least and not bad else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
