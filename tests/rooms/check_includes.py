#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py ROOT [TABLE]: the rooms of floors.txt, looked up in the tree and in its #include lines.

Every folder with C files under runtime/ and plugins/ is a room of the table. A room has a README.md of 3 to 20 lines, a
meson.build, its door header, at most 32 .c files and 6,000 lines, and a folder of tests: tests/ROOM, that of the room around it,
or those that the table names with a reason. Its files include their own folder's and the doors of rooms
on lower floors, no other header. A plugin includes <tenon/...>, plugins/common and its own folder; public headers include
public headers."""
import collections
import pathlib
import posixpath
import sys

import house

MOST_FILES, MOST_LINES = 32, 6000
README_LINES = range(3, 21)



def built(folder):
    """It has a build file, or the folder above builds its files one by one (a library for each set of instructions)."""
    above = folder.parent / "meson.build"
    return (folder / "meson.build").exists() or (above.exists() and f"'{folder.name}/" in above.read_text(encoding="utf-8"))


def plugin_of(path):
    """The plugin that a file belongs to, None elsewhere (plugins/common is none)."""
    parts = path.split("/")
    return "/".join(parts[:2]) if parts[0] == "plugins" and len(parts) > 2 and parts[1] != "common" else None


def outside(path, to):
    """Why a file may not include another whatever the floors say, or None."""
    if path.startswith("include/"):
        return None if to.startswith("include/") else "a public header includes public headers only"
    if to.startswith("include/"):
        return None
    if path.startswith("plugins/"):
        own = plugin_of(path)
        inside = to.startswith("plugins/common/") or (own and to.startswith(own + "/"))
        return None if inside else "a plugin includes <tenon/...>, plugins/common and its own folder"
    return None if to.startswith("runtime/") else "runtime/ includes runtime/ and <tenon/...>"


def between(table, path, to):
    """Why a room may not include another's header, or None."""
    room, other = table.of(path), table.of(to)
    if not room or not other:
        return "its folder is no room of floors.txt" if not room else f"{posixpath.dirname(to)} is no room of floors.txt"
    if other.floor >= room.floor:
        return f"{room.path} is on floor {room.floor}, {other.path} on floor {other.floor}: includes point down"
    if room.uses is not None and other.path not in room.uses:
        return f"{room.path} may use {', '.join(room.uses) or 'no other room'}"
    if to not in other.doors:
        return f"{other.path} is entered by {', '.join(other.doors) or 'nobody'}"
    return None


def refusal(table, path, to):
    """Why the file must not include it, or None."""
    why = outside(path, to)
    if why or to.startswith("include/") or posixpath.dirname(path) == posixpath.dirname(to):
        return why
    return between(table, path, to)


def check_includes(table, tree):
    found = []
    for path, includes in tree.includes.items():
        if posixpath.dirname(path) in table.data:
            continue
        for number, to in includes:
            why = refusal(table, path, to)
            if why:
                found.append(("include", f"{path}:{number}: includes {to}: {why}"))
    return found


def check_readme(folder):
    file = folder / "README.md"
    if not file.exists():
        return "has no README.md"
    lines = len(file.read_text(encoding="utf-8").splitlines())
    return None if lines in README_LINES else f"README.md has {lines} lines: at least {README_LINES[0]}, at most {README_LINES[-1]}"


def check_room(root, room, files, tree):
    """What a room's folder lacks, and where it is too large."""
    folder = root / room.path
    sources = [f for f in files if f.endswith(".c")]
    lines = sum(tree.lines[f] for f in files)
    found = [check_readme(folder)]
    found += [f"has no door {posixpath.basename(d)}" for d in room.doors if d not in tree.lines]
    found += [None if built(folder) else "has no meson.build"]
    found += [f"has {len(sources)} .c files: at most {MOST_FILES}"] if len(sources) > MOST_FILES else []
    found += [f"has {lines} lines: at most {MOST_LINES}"] if lines > MOST_LINES else []
    return [("room", f"{room.path} {text}") for text in found if text]


def tests_of(root, path):
    """The folder under tests/ that is named after the room or after one around it, or None."""
    name = path.partition("/")[2]
    while name and not (root / "tests" / name).is_dir():
        name = posixpath.dirname(name)
    return name or None


def check_tests(table, root):
    """Rooms without tests of their name, and rows of [tests] that are wrong or not needed."""
    found = []
    for path in sorted(table.rooms):
        own, named = tests_of(root, path), table.tests.get(path)
        if not own and not named:
            found.append(f"{path} has no folder tests/{path.partition('/')[2]} and no row in [tests]")
        if own and named:
            found.append(f"{path} is tested by tests/{own}: no row in [tests]")
        found += [f"{path}: tests/{name} is no folder" for name in named or [] if not (root / "tests" / name).is_dir()]
    return [("tests", text) for text in found]


def check_folders(table, tree):
    found, folders = [], tree.folders()
    for folder, files in sorted(folders.items()):
        if folder in table.rooms:
            found += check_room(tree.root, table.rooms[folder], files, tree)
        elif folder not in table.data:
            found.append(("table", f"{folder} is no room of floors.txt"))
    gone = sorted((set(table.rooms) | set(table.data)) - set(folders))
    return found + [("table", f"{folder} is in floors.txt and has no C file") for folder in gone]


def main(root, path=None):
    table = house.read_table(path) if path else house.read_table()
    tree = house.Tree(root)
    found = check_folders(table, tree) + check_tests(table, tree.root) + check_includes(table, tree)
    for _, text in found:
        print(text)
    seen = sum(len(i) for i in tree.includes.values())
    kinds = collections.Counter(kind for kind, _ in found)
    print(f"{len(table.rooms)} rooms, {seen} includes; refused: {sum(kinds.values())} {dict(kinds) or ''}")
    return 0 if seen and not found else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1]), *sys.argv[2:3]))
