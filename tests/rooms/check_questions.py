#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_questions.py ROOT: the table 'Where is X decided' of docs/architecture.md.

Each row is | question | `function` ... | `file` |: the file must exist and define every name that the row gives (a function,
a type, a macro or a table). There are at least twenty rows."""
import pathlib
import re
import sys

HEADING = "## Where is X decided"
LEAST = 20
QUOTED = re.compile(r"`([^`]+)`")


def rows(page):
    """The cells of the table's rows, without its two lines of heading."""
    lines = page.split(HEADING, 1)[1].split("\n## ", 1)[0].splitlines() if HEADING in page else []
    table = [line for line in lines if line.startswith("|")]
    return [[c.strip() for c in line.strip("|").split("|")] for line in table[2:]]


def defines(text, name):
    """True where the file's text defines the name: at a line's start but for its type, or as a macro or a rule."""
    word = re.escape(name)
    return bool(re.search(rf"^(?:[A-Za-z_#][^\n;]*[\s*])?{word}\b(?!\s*;)", text, re.M))


def check(root, row):
    question, names, file = row[0], QUOTED.findall(row[1]), QUOTED.findall(row[2])
    if not file or not names:
        return [f"{question}: names no file or no function in backquotes"]
    path = root / file[0]
    if not path.is_file():
        return [f"{question}: no file {file[0]}"]
    text = path.read_text(encoding="utf-8")
    return [f"{question}: {file[0]} does not define {name}" for name in names if not defines(text, name)]


def main(root, least=LEAST):
    found = rows((root / "docs/architecture.md").read_text(encoding="utf-8"))
    bad = [text for row in found for text in (check(root, row) if len(row) == 3 else [f"not three cells: {row}"])]
    for text in bad:
        print(text)
    print(f"{len(found)} questions, {len(bad)} answers are wrong")
    return 0 if len(found) >= least and not bad else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
