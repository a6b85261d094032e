#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_links.py ROOT BUILD [TABLE]: the rooms of floors.txt, looked up in what the objects of a build define and need (nm).

Refused: a link that does not point down the floors; circles between rooms; circles between files inside a room, except
those that floors.txt lists with a reason; a listed circle that is none. A room with a list of rooms that it may use reaches
others by names of the public API (tn_) only."""
import posixpath
import sys

import house

SHOWN = 3  # names of one link that a message gives


def reason(room, other, names):
    """Why a room must not need these names of another, or None."""
    if room is None or other is None:
        return "not both are rooms of floors.txt"
    if other.floor >= room.floor:
        return f"links point down; they are on floors {room.floor} and {other.floor}"
    internal = any(not name.startswith("tn_") for name in names)
    if room.uses is not None and other.path not in room.uses and internal:
        return f"{room.path} may use {', '.join(room.uses) or 'no other room'} and the public API"
    return None


def check_floors(table, links):
    found = []
    for file, targets in sorted(links.items()):
        for to, names in sorted(targets.items()):
            if posixpath.dirname(file) == posixpath.dirname(to):
                continue
            why = reason(table.of(file), table.of(to), names)
            if why:
                found.append(f"{file} needs {', '.join(sorted(names)[:SHOWN])} of {to}: {why}")
    return found


def check_rooms(links):
    between = house.folder_links(links)
    nodes = set(between) | {b for to in between.values() for b in to}
    return [f"rooms in a circle: {' '.join(c)}" for c in house.circles(nodes, lambda r: between.get(r, ()))]


def check_files(table, links):
    found, listed = [], dict(table.circles)
    for circle in house.file_circles(links):
        if listed.pop(frozenset(circle), None) is None:
            folder = posixpath.dirname(circle[0])
            found.append(f"files of {folder} in a circle: {' '.join(posixpath.basename(f) for f in circle)}")
    return found + [f"floors.txt lists a circle that is none: {' '.join(sorted(c))}" for c in listed]


def unbuilt(objects):
    """Sources of the runtime that were configured and have no object: the answer would not be about them."""
    return [f"{s} has no object in this build" for s in objects.missing if s.startswith("runtime/")]


def main(root, build, path=None):
    table = house.read_table(path) if path else house.read_table()
    objects = house.Objects(root, build)
    names = sum(len(n) for n in objects.defines.values())
    if not names:
        print("the objects define no names that nm can read: built with link-time optimisation?")
        return 1
    links = objects.links()
    found = unbuilt(objects) + check_floors(table, links) + check_rooms(links) + check_files(table, links)
    for text in found:
        print(text)
    print(f"{len(objects.defines)} files, {names} names, {sum(len(t) for t in links.values())} links; refused: {len(found)}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:4]))
