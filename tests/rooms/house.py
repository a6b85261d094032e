# SPDX-License-Identifier: Apache-2.0
"""What the checks of rooms and scripts/rooms.py share: the table (floors.txt), the tree's includes, the build's objects."""
import collections
import json
import os
import pathlib
import posixpath
import re
import subprocess

TOPS = ("runtime", "plugins")
SOURCES = (".c", ".h", ".def")
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')

# Names that say nothing about rooms: programs' starts, the C library's that a program may define (conform counts calls of
# malloc), the compiler's and the sanitizers'.
FOREIGN = re.compile(r"(main|malloc|calloc|realloc|free|posix_memalign|memalign|aligned_alloc|mmap|mmap64|munmap|_.*)$")


class Room:
    """One row of [rooms]. uses: the rooms whose doors it may include, None for all on lower floors; doors: the headers by
    which others enter, its own first; none where nobody does."""

    def __init__(self, floor, path, uses, door, purpose):
        self.floor, self.path, self.uses, self.purpose = floor, path, uses, purpose
        names = [] if door == "-" else door.split()
        self.doors = ["include/" + n if n.startswith("tenon/") else path + "/" + n for n in names]
        if door != "-" and not any(n.startswith("tenon/") for n in names):
            self.doors.insert(0, path + "/" + posixpath.basename(path) + ".h")



class Table:
    def __init__(self, text):
        self.rooms, self.data, self.public, self.tests, self.circles = {}, {}, {}, {}, {}
        section = None
        for number, line in enumerate(text.splitlines(), 1):
            if not line.strip() or line.startswith("#"):
                continue
            if line.startswith("["):
                section = line.strip().strip("[]")
                continue
            cells = [c.strip() for c in line.split("|")]
            try:
                self._row(section, cells)
            except (ValueError, KeyError) as e:
                raise SystemExit(f"floors.txt:{number}: {line.strip()}: {e!r}")
        self._check()

    def _row(self, section, cells):
        if section == "rooms":
            floor, path, uses, door, purpose = cells
            if path in self.rooms or not purpose:
                raise ValueError("a room has one row and a purpose")
            uses = None if uses == "*" else [u for u in uses.split() if u != "-"]
            self.rooms[path] = Room(int(floor), path, uses, door, purpose)
        elif section == "data":
            path, purpose = cells
            self.data[path] = purpose
        elif section == "public":
            header, room = cells
            self.public["include/tenon/" + header] = room
        elif section == "tests":
            room, folders, reason = cells
            if not folders.split() or not reason:
                raise ValueError("folders and a reason")
            self.tests[room] = folders.split()
        elif section == "circles":
            room, names, reason = cells
            if not reason:
                raise ValueError("a circle needs a reason")
            self.circles[frozenset(f"{room}/{n}" for n in names.split())] = reason
        else:
            raise ValueError("not in a section")

    def _check(self):
        for path in set(self.tests) - set(self.rooms):
            raise SystemExit(f"floors.txt: tests of {path}, which is no room")
        for header, path in self.public.items():
            if path not in self.rooms:
                raise SystemExit(f"floors.txt: {header}: {path} is no room")
        for room in self.rooms.values():
            for used in room.uses or []:
                if used not in self.rooms or self.rooms[used].floor >= room.floor:
                    raise SystemExit(f"floors.txt: {room.path} may use {used}, which is no room on a lower floor")

    def of(self, path):
        """The room that a file lies in, None where its folder is no room."""
        return self.rooms.get(posixpath.dirname(path))


def read_table(path=pathlib.Path(__file__).with_name("floors.txt")):
    return Table(pathlib.Path(path).read_text(encoding="utf-8"))


def target(path, quote, name):
    """The file that an include names, relative to the root; None for the system's headers."""
    name = posixpath.normpath(name)
    if name.startswith(("runtime/", "plugins/", "tests/", "include/", "bench/", "examples/")):
        return name
    if name.startswith("tenon/"):
        return "include/" + name
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if quote == '"' else None


class Tree:
    """Every source file under include/, runtime/ and plugins/: its number of lines and what it includes."""

    def __init__(self, root):
        self.root = pathlib.Path(root)
        self.lines, self.includes = {}, {}
        for top in ("include", *TOPS):
            for file in sorted(p for p in (self.root / top).rglob("*") if p.suffix in SOURCES and p.is_file()):
                self._read(file.relative_to(self.root).as_posix(), file.read_text(encoding="utf-8"))

    def _read(self, path, text):
        lines = text.splitlines()
        self.lines[path] = len(lines)
        found = []
        for number, line in enumerate(lines, 1):
            m = INCLUDE.match(line)
            to = m and target(path, m[1], m[2])
            if to:
                found.append((number, to))
        self.includes[path] = found

    def folders(self):
        """folder -> its files, of runtime/ and plugins/."""
        out = collections.defaultdict(list)
        for path in self.lines:
            if path.startswith(TOPS):
                out[posixpath.dirname(path)].append(path)
        return out


class Objects:
    """What each source file defines and needs, read with nm. A file that is compiled several times counts once."""

    def __init__(self, root, build, nm="nm"):
        self.root, self.build = os.path.realpath(root), os.path.realpath(build)
        self.defines, self.needs = collections.defaultdict(set), collections.defaultdict(set)
        self.missing = []
        sources = self._sources()
        objects = {o: s for s, outs in sources.items() for o in outs if os.path.exists(o)}
        self.missing = sorted(s for s, outs in sources.items() if not any(os.path.exists(o) for o in outs))
        for source in sources:
            self.defines[source], self.needs[source] = set(), set()
        self._read(objects, nm)

    def _sources(self):
        """source, relative to the root (a generated one: to the build) -> objects, of runtime/ and plugins/."""
        out = collections.defaultdict(list)
        commands = json.loads(pathlib.Path(self.build, "compile_commands.json").read_text(encoding="utf-8"))
        for c in commands:
            at = c.get("directory", self.build)
            file = os.path.realpath(os.path.join(at, c["file"]))
            base = self.build if file.startswith(self.build + os.sep) else self.root
            source = os.path.relpath(file, base)
            if source.startswith(tuple(t + "/" for t in TOPS)) and source.endswith(".c"):
                out[source].append(os.path.join(at, c["output"]))
        return out

    def _read(self, objects, nm):
        names = sorted(objects)
        for start in range(0, len(names), 400):
            run = subprocess.run([nm, "-A", "-g", *names[start:start + 400]], capture_output=True, text=True, check=False)
            if run.returncode:
                raise SystemExit(f"{nm} cannot read an object: {run.stderr.strip()}")
            for line in run.stdout.splitlines():
                object_, _, rest = line.rpartition(".o:")
                fields = rest.split()
                if len(fields) < 2:
                    continue
                kind, name = fields[-2], fields[-1]
                if not FOREIGN.match(name):
                    (self.needs if kind in "Uwv" else self.defines)[objects[object_ + ".o"]].add(name)

    def links(self):
        """file -> file -> the names that hold them together. A name with several definitions: the same folder's first."""
        where = collections.defaultdict(set)
        for file, names in self.defines.items():
            for name in names:
                where[name].add(file)
        out = collections.defaultdict(lambda: collections.defaultdict(set))
        for file, names in self.needs.items():
            for name in names - self.defines[file]:
                near = {f for f in where[name] if posixpath.dirname(f) == posixpath.dirname(file)}
                for to in near or where[name]:
                    out[file][to].add(name)
        return out


def circles(nodes, after):
    """The strongly connected components of more than one node, sorted; after(node) gives its successors (Tarjan)."""
    index, low, stack, on, found = {}, {}, [], set(), []

    def visit(root):
        work = [(root, iter(sorted(after(root))))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on.add(root)
        while work:
            node, rest = work[-1]
            for nxt in rest:
                if nxt not in index:
                    index[nxt] = low[nxt] = len(index)
                    stack.append(nxt)
                    on.add(nxt)
                    work.append((nxt, iter(sorted(after(nxt)))))
                    break
                if nxt in on:
                    low[node] = min(low[node], index[nxt])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    part = []
                    while not part or part[-1] != node:
                        part.append(stack.pop())
                        on.discard(part[-1])
                    if len(part) > 1:
                        found.append(sorted(part))

    for node in sorted(nodes):
        if node not in index:
            visit(node)
    return sorted(found)


def room_includes(table, tree):
    """room -> the rooms whose headers its files include."""
    out = {room: set() for room in table.rooms}
    for path, includes in tree.includes.items():
        room = table.of(path)
        for _, to in includes:
            other = table.of(to)
            if room and other and room is not other:
                out[room.path].add(other.path)
    return out


def folder_links(links):
    """folder -> folder -> 'file needs name' lines, of links between folders."""
    out = collections.defaultdict(lambda: collections.defaultdict(set))
    for file, targets in links.items():
        for to, names in targets.items():
            a, b = posixpath.dirname(file), posixpath.dirname(to)
            if a != b:
                out[a][b] |= {f"{posixpath.basename(file)} needs {n} of {posixpath.basename(to)}" for n in names}
    return out


def file_circles(links):
    """Circles between files of one folder."""
    inside = {f: {t for t in to if posixpath.dirname(t) == posixpath.dirname(f)} for f, to in links.items()}
    nodes = set(inside) | {t for to in inside.values() for t in to}
    return circles(nodes, lambda f: inside.get(f, ()))
