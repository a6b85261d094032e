# SPDX-License-Identifier: Apache-2.0
"""Rows of planted bugs: text files of

    @ ID OPERATOR SUBJECT
    What goes wrong, in one sentence.
    <<<
    exact text, once in the subject
    ===
    what stands there instead
    >>>

with one block of <<< === >>> for each place."""
import dataclasses
import glob
import hashlib
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = ("tuning", "measured")


class RowError(Exception):
    pass


@dataclasses.dataclass
class Row:
    id: str
    operator: str
    subject: str
    where: str  # file:line
    says: str = ""
    edits: list = dataclasses.field(default_factory=list)

    def key(self):
        """Names the row without its id: of what it says and does."""
        text = "\0".join([self.operator, self.subject, self.says] + [t for e in self.edits for t in e])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def apply(self, text):
        """The subject with this bug. RowError where a text is missing or stands there more than once."""
        for old, new in self.edits:
            if text.count(old) != 1:
                raise RowError(f"{self.where}: {self.id}: the text stands {text.count(old)} times in {self.subject}")
            text = text.replace(old, new)
        return text


def _block(lines, i, end, where):
    out = []
    while i < len(lines) and lines[i] != end:
        out.append(lines[i])
        i += 1
    if i == len(lines):
        raise RowError(f"{where}: {end} is missing")
    return "\n".join(out), i + 1


def parse(path):
    lines = open(path, encoding="utf-8").read().split("\n")
    rows, i = [], 0
    while i < len(lines):
        where, line = f"{os.path.basename(path)}:{i + 1}", lines[i]
        i += 1
        if line == "<<<" and rows:
            old, i = _block(lines, i, "===", where)
            new, i = _block(lines, i, ">>>", where)
            rows[-1].edits.append((old, new))
        elif line.startswith("@ "):
            words = line.split()
            if len(words) != 4 or i == len(lines):
                raise RowError(f"{where}: a row begins with '@ ID OPERATOR SUBJECT' and a line that says what goes wrong")
            rows.append(Row(*words[1:], where, lines[i]))
            i += 1
        elif line and not line.startswith("#"):
            raise RowError(f"{where}: this line belongs to no row")
    for r in rows:
        if not r.edits:
            raise RowError(f"{r.where}: {r.id} changes nothing")
    return rows


def load(which):
    """The rows of a set; their ids are unique in both."""
    rows = [r for path in sorted(glob.glob(os.path.join(HERE, which + ".*.rows"))) for r in parse(path)]
    seen = set()
    for r in rows:
        if r.id in seen:
            raise RowError(f"{r.where}: {r.id} is there twice")
        seen.add(r.id)
    return rows


def equivalents(which):
    """Key (or id, in the tuning set) to the reason why no graph shows a difference."""
    path, out = os.path.join(HERE, which + ".equivalent"), {}
    for line in open(path, encoding="utf-8") if os.path.exists(path) else []:
        name, colon, reason = line.strip().partition(": ")
        if name.startswith("#") or not name:
            continue
        if not colon:
            raise RowError(f"{which}.equivalent: '{name}' has no reason")
        out[name] = reason
    return out
