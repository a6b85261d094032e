#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""rooms.py [--build DIR] [--tables] [--draw | --check]: the rooms of the tree (tests/rooms/floors.txt).

--tables  prints Markdown: files and lines per room, circles in includes and (with --build) in links, statics of one word
--draw    writes docs/rooms.svg from the include graph, and the table of rooms in docs/architecture.md
--check   fails where either is not what --draw would write
Without arguments: --tables."""
import argparse
import collections
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "rooms"))
import house  # noqa: E402
import rooms_draw  # noqa: E402

PICTURE = ROOT / "docs" / "rooms.svg"
PAGE = ROOT / "docs" / "architecture.md"
BEGIN, END = "<!-- rooms: written by scripts/rooms.py --draw -->\n", "<!-- end of rooms -->"
STATIC = re.compile(r"^static\s+(?:inline\s+)?(?:const\s+)?[A-Za-z_][\w \t*]*?[\s*]([A-Za-z_]\w*)\s*\(", re.M)


def markdown(heading, rows):
    print("| " + " | ".join(heading) + " |\n|" + "---|" * len(heading))
    for row in rows:
        print("| " + " | ".join(str(c) for c in row) + " |")
    print()


def print_rooms(table, tree):
    """Files and lines of every folder with C files, room or not."""
    rows = []
    for folder, files in sorted(tree.folders().items()):
        sources = [f for f in files if f.endswith(".c")]
        room = table.rooms.get(folder)
        floor = room.floor if room else "none"
        rows.append((f"`{folder}`", floor, len(sources), len(files) - len(sources), sum(tree.lines[f] for f in files)))
    rows.sort(key=lambda r: -r[4])
    rows.append(("all", "", *(sum(r[i] for r in rows) for i in (2, 3, 4))))
    print(f"{len(rows) - 1} folders\n")
    markdown(("room", "floor", ".c files", "headers and tables", "lines"), rows)


def include_circles(tree):
    after = collections.defaultdict(set)
    for path, includes in tree.includes.items():
        for _, to in includes:
            a, b = path.rpartition("/")[0], to.rpartition("/")[0]
            if to in tree.lines and a != b and to.startswith(house.TOPS):
                after[a].add(b)
    return house.circles(set(after), lambda n: after.get(n, ()))


def print_circles(tree, build):
    rows = [("includes of folders", len(c), " ".join(c)) for c in include_circles(tree)]
    if build:
        links = house.Objects(ROOT, build).links()
        between = house.folder_links(links)
        nodes = set(between) | {b for to in between.values() for b in to}
        rows += [("links of folders", len(c), " ".join(c)) for c in house.circles(nodes, lambda n: between.get(n, ()))]
        rows += [("links of files in a folder", len(c), " ".join(c)) for c in house.file_circles(links)]
    print(f"{len(rows)} circles{'' if build else ' (includes only: no --build)'}\n")
    markdown(("circle of", "members", "which"), rows)


def print_statics(tree):
    names = collections.defaultdict(collections.Counter)
    for path in tree.lines:
        if path.startswith(house.TOPS):
            names[path.split("/")[0]].update(STATIC.findall((ROOT / path).read_text(encoding="utf-8")))
    every = sum(names.values(), collections.Counter())
    rows = []
    for top, counts in (*sorted(names.items()), ("all", every)):
        one = [n for n in counts.elements() if "_" not in n]
        rows.append((top, counts.total(), len(one), sum(every[n] > 1 for n in one)))
    markdown(("static functions", "all", "of one word", "of one word, not unique"), rows)
    common = [(f"`{n}`", c) for n, c in every.most_common() if c > 1 and "_" not in n][:12]
    markdown(("name", "times"), common)


def page_of(table):
    """The page with its table of rooms, top floor first."""
    text = PAGE.read_text(encoding="utf-8")
    before, rest = text.split(BEGIN, 1)
    rows = sorted(table.rooms.values(), key=lambda r: (r.path.startswith("plugins"), -r.floor, r.path))
    lines = ["| floor | room | what it is |", "|---|---|---|"]
    lines += [f"| {r.floor} | `{r.path}` | {r.purpose} |" for r in rows]
    return before + BEGIN + "\n".join(lines) + "\n" + END + rest.split(END, 1)[1]


def settle(wanted, check):
    """Writes the files, or says which are not as they would be written."""
    stale = [f for f, text in wanted.items() if not f.exists() or f.read_text(encoding="utf-8") != text]
    for file in stale:
        if check:
            print(f"{file.relative_to(ROOT)} is not what the tree gives: scripts/rooms.py --draw writes it")
        else:
            file.write_text(wanted[file], encoding="utf-8")
    return 1 if check and stale else 0


def main():
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--build", help="a build folder, for circles at link level")
    for name in ("--tables", "--draw", "--check"):
        options.add_argument(name, action="store_true")
    args = options.parse_args()
    table, tree = house.read_table(), house.Tree(ROOT)
    if args.tables or not (args.draw or args.check):
        print_rooms(table, tree)
        print_circles(tree, args.build)
        print_statics(tree)
    if not (args.draw or args.check):
        return 0
    return settle({PICTURE: rooms_draw.picture(table, tree), PAGE: page_of(table)}, args.check)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BrokenPipeError:  # the reader has seen enough
        sys.exit(1)
