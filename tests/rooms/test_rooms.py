#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""test_rooms.py CC...: the checks of rooms on trees and objects made up for it. Each rule is broken once and must be seen."""
import contextlib
import io
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
import unittest

import check_frames
import check_includes
import check_links
import check_questions
import house

COMPILER = ["cc"]
TABLE = """
[rooms]
0 | runtime/base | - | | bottom
1 | runtime/graph | * | ops.def | middle
1 | runtime/side | * | | beside it
2 | runtime/top | runtime/base | - | a program
0 | plugins/common | * | | shared
1 | plugins/one | * | - | a plugin
1 | plugins/two | * | - | another
[data]
runtime/top/template | text
[tests]
runtime/top | graph | a program
plugins/common | one graph | shared
plugins/two | one | its twin
[circles]
"""
README = "# room\n\nWhat it is.\n"
TREE = {
    "include/tenon/tenon.h": "#include <stddef.h>\n",
    "runtime/base/base.h": '#include "memory.h"\n', "runtime/base/memory.h": "", "runtime/base/memory.c": '#include "base.h"\n',
    "runtime/graph/graph.h": '#include "runtime/base/base.h"\n', "runtime/graph/ops.def": "", "runtime/graph/node.c": "",
    "runtime/graph/inner.h": "", "runtime/side/side.h": "", "runtime/side/side.c": '#include "runtime/graph/../base/base.h"\n',
    "runtime/top/main.c": '#include <tenon/tenon.h>\n#include "runtime/base/base.h"\n', "runtime/top/template/x.c": '#include "no.h"\n',
    "plugins/common/common.h": "#include <tenon/tenon.h>\n", "plugins/one/plugin.c": '#include "plugins/common/common.h"\n',
    "plugins/two/plugin.c": "", "plugins/two/two.h": "",
}
ROOMS = ("runtime/base", "runtime/graph", "runtime/side", "runtime/top", "plugins/common", "plugins/one", "plugins/two")


@contextlib.contextmanager
def tree(changes=None, table=TABLE):
    """A tree that all checks accept, with files replaced; None removes one. Gives its root and its table's file."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        files = dict(TREE)
        for room in ROOMS:
            files[room + "/README.md"] = README
            files[room + "/meson.build"] = ""
        for name in ("base", "graph", "side", "one"):
            files[f"tests/{name}/meson.build"] = ""
        files |= changes or {}
        for name, text in files.items():
            if text is not None:
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_text(text)
        (root / "floors.txt").write_text(table)
        yield root, root / "floors.txt"


def said(check, *args):
    """The exit status of a check and what it printed."""
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        status = check(*args)
    return status, out.getvalue()


class Includes(unittest.TestCase):
    def refused(self, changes, *words, table=TABLE):
        with tree(changes, table) as (root, path):
            status, out = said(check_includes.main, root, path)
        self.assertEqual(status, 1, out)
        self.assertIn("refused: 1 ", out)
        for word in words:
            self.assertIn(word, out)

    def test_accepts(self):
        with tree() as (root, path):
            self.assertEqual(said(check_includes.main, root, path)[0], 0)
        with tree({"runtime/graph/node.c": '#include "ops.def"\n#include "inner.h"\n'}) as (root, path):
            self.assertEqual(said(check_includes.main, root, path)[0], 0)

    def test_direction(self):
        self.refused({"runtime/base/memory.c": '#include "runtime/graph/graph.h"\n'}, "includes point down", "memory.c:1")
        self.refused({"runtime/side/side.c": '#include "runtime/graph/graph.h"\n'}, "floor 1, runtime/graph on floor 1")
        self.refused({"runtime/side/side.c": '#include "../graph/graph.h"\n'}, "floor 1, runtime/graph on floor 1")
        self.refused({"runtime/top/main.c": '#  include "runtime/graph/graph.h"\n'}, "runtime/top may use runtime/base")

    def test_door(self):
        self.refused({"runtime/graph/node.c": '#include "runtime/base/memory.h"\n'}, "entered by runtime/base/base.h")
        up = TABLE.replace("2 | runtime/top | runtime/base ", "2 | runtime/top | * ")
        self.refused({"runtime/top/main.c": '#include "runtime/graph/inner.h"\n'}, "graph.h, runtime/graph/ops.def", table=up)
        with tree({"runtime/top/main.c": '#include "runtime/graph/ops.def"\n'}, up) as (root, path):
            self.assertEqual(said(check_includes.main, root, path)[0], 0)

    def test_folders(self):
        self.refused({"runtime/graph/README.md": None}, "runtime/graph has no README.md")
        self.refused({"runtime/graph/README.md": "a\nb\n"}, "has 2 lines")
        self.refused({"runtime/graph/README.md": "a\n" * 21}, "has 21 lines")
        self.refused({"runtime/graph/meson.build": None}, "has no meson.build")
        self.refused({"runtime/graph/graph.h": None}, "has no door graph.h")
        self.refused({"runtime/graph/ops.def": None}, "has no door ops.def")
        public = TABLE.replace("runtime/side | * | |", "runtime/side | * | tenon/tenon.h |")
        self.refused({"runtime/side/side.h": None, "runtime/top/main.c": '#include "runtime/side/x.h"\n'},
                     "entered by include/tenon/tenon.h", table=public.replace("top | runtime/base", "top | *"))
        self.refused({"runtime/new/new.c": ""}, "runtime/new is no room")
        self.refused({f"runtime/graph/f{i}.c": "" for i in range(32)}, "has 33 .c files")
        self.refused({"runtime/graph/node.c": "\n" * 6001}, "has 6002 lines")
        self.refused({"runtime/side/side.h": None, "runtime/side/side.c": None}, "runtime/side is in floors.txt and has no C")

    def test_tests(self):
        self.refused({"tests/side/meson.build": None}, "runtime/side has no folder tests/side")
        self.refused({"tests/top/meson.build": ""}, "runtime/top is tested by tests/top")
        self.refused({}, "runtime/top: tests/gone is no folder", table=TABLE.replace("top | graph", "top | gone"))
        with self.assertRaises(SystemExit):
            house.Table(TABLE.replace("runtime/top | graph | a program", "runtime/top | graph |"))
        with self.assertRaises(SystemExit):
            house.Table(TABLE.replace("runtime/top | graph", "runtime/nowhere | graph"))

    def test_sides(self):
        self.refused({"include/tenon/tenon.h": '#include "runtime/base/base.h"\n'}, "public headers only")
        self.refused({"plugins/one/plugin.c": '#include "plugins/two/two.h"\n'}, "its own folder")
        self.refused({"plugins/one/plugin.c": '#include "runtime/base/base.h"\n'}, "its own folder")
        self.refused({"plugins/common/common.h": '#include "plugins/two/two.h"\n'}, "its own folder")
        self.refused({"runtime/top/main.c": '#include "plugins/common/common.h"\n'}, "runtime/ includes runtime/")

    def test_table(self):
        with self.assertRaises(SystemExit):
            house.Table("[rooms]\n0 | a | - | |\n")
        with self.assertRaises(SystemExit):
            house.Table("[rooms]\n0 | a | b | | sideways\n0 | b | - | | other\n")
        with self.assertRaises(SystemExit):
            house.Table("[circles]\na | x.c y.c |\n")


class Links(unittest.TestCase):
    def run_on(self, sources, table=TABLE, compiled=None):
        """check_links on objects compiled from these sources."""
        with tree({}, table) as (root, path):
            build, commands = root / "build", []
            for name, text in sources.items():
                source, object_ = root / name, build / (name.replace("/", "_") + ".o")
                source.parent.mkdir(parents=True, exist_ok=True)
                object_.parent.mkdir(exist_ok=True)
                source.write_text(text)
                if compiled is None or name in compiled:
                    subprocess.run([*COMPILER, "-c", "-w", "-o", object_, source], check=True)
                commands.append({"directory": str(build), "file": os.path.relpath(source, build), "output": object_.name})
            (build / "compile_commands.json").write_text(json.dumps(commands))
            return said(check_links.main, root, build, path)

    def refused(self, sources, *words, table=TABLE, compiled=None):
        status, out = self.run_on(sources, table, compiled)
        self.assertEqual(status, 1, out)
        for word in words:
            self.assertIn(word, out)

    base = {"runtime/base/memory.c": "void tni_get(void) {}\nvoid malloc(void) {}"}

    def test_accepts(self):
        status, out = self.run_on(self.base | {"runtime/graph/node.c": "void tni_get(void); void tni_node(void) { tni_get(); }"})
        self.assertEqual(status, 0, out)

    def test_direction(self):
        up = {"runtime/base/memory.c": "void tni_node(void); void tni_get(void) { tni_node(); }"}
        self.refused(up | {"runtime/graph/node.c": "void tni_node(void) {}"}, "memory.c needs tni_node of runtime/graph/node.c")
        both = up | {"runtime/graph/node.c": "void tni_get(void); void tni_node(void) { tni_get(); }"}
        self.refused(both, "rooms in a circle: runtime/base runtime/graph")
        self.refused({"runtime/graph/node.c": "int tni_x;", "runtime/side/side.c": "extern int tni_x; int *tni_p = &tni_x;"},
                     "floors 1 and 1")

    def test_uses(self):
        graph = {"runtime/graph/node.c": "void tni_node(void) {} void tn_open(void) {}"}
        self.refused(graph | {"runtime/top/main.c": "void tni_node(void); int main(void) { tni_node(); }"}, "and the public API")
        status, out = self.run_on(graph | {"runtime/top/main.c": "void tn_open(void); int main(void) { tn_open(); }"})
        self.assertEqual(status, 0, out)

    def test_files(self):
        knot = {"runtime/graph/a.c": "void tni_b(void); void tni_a(void) { tni_b(); }",
                "runtime/graph/b.c": "void tni_a(void); void tni_b(void) { tni_a(); }"}
        self.refused(knot, "files of runtime/graph in a circle: a.c b.c")
        listed = TABLE + "runtime/graph | a.c b.c | they call each other down a tree\n"
        status, out = self.run_on(knot, listed)
        self.assertEqual(status, 0, out)
        self.refused(self.base, "lists a circle that is none", table=listed)

    def test_objects(self):
        self.refused(self.base | {"runtime/graph/node.c": "int tni_x;"}, "node.c has no object", compiled=list(self.base))
        self.refused({"runtime/graph/node.c": ""}, "no names")
        with tree() as (root, path):
            (root / "a.o").write_text("no object")
            command = {"directory": str(root), "file": "runtime/base/memory.c", "output": "a.o"}
            (root / "compile_commands.json").write_text(json.dumps([command]))
            with self.assertRaises(SystemExit):
                check_links.main(root, root, path)

    def test_circles(self):
        after = {1: [2], 2: [3], 3: [1], 4: [4, 1], 5: [6], 6: [5]}
        self.assertEqual(house.circles(after, lambda n: after.get(n, ())), [[1, 2, 3], [5, 6]])


class Frames(unittest.TestCase):
    def run_on(self, source):
        with tree({"a.c": source}) as (root, _):
            subprocess.run([*COMPILER, "-O2", "-c", root / "a.c", "-o", root / "a.o"], check=True)
            return said(check_frames.main, str(root / "a.o"))

    @unittest.skipUnless(platform.machine() == "x86_64", "reads x86-64 code")
    def test_frames(self):
        takes = "void use(char *);\nvoid f(void) {\n  char room[%d];\n  use(room);\n}\n"
        self.assertEqual(self.run_on(takes % (64 << 10))[0], 0)
        self.assertIn("f takes", self.run_on(takes % (100 << 10))[1])
        self.assertIn("not read", self.run_on("int f;\n")[1])


class Questions(unittest.TestCase):
    def run_on(self, rows, **more):
        page = "# x\n\n## Where is X decided\n\n| question | where | file |\n|---|---|---|\n" + rows
        code = "int tni_get(int a) {\n  return a;\n}\nint tni_put(int a);\n"
        with tree({"docs/architecture.md": page, "runtime/base/memory.c": code + more.get("comment", ""),
                   "docs/sources.md": "| TL1 | x |\n"}) as (root, _):
            return said(check_questions.main, root, 1)

    def test_answers(self):
        self.assertEqual(self.run_on("| memory | `tni_get` | `runtime/base/memory.c` |\n")[0], 0)
        self.assertIn("no file", self.run_on("| memory | `tni_get` | `runtime/base/gone.c` |\n")[1])
        self.assertIn("tni_got", self.run_on("| memory | `tni_got` | `runtime/base/memory.c` |\n")[1])
        self.assertIn("tni_put", self.run_on("| memory | `tni_put` | `runtime/base/memory.c` |\n")[1])
        self.assertIn("names no file", self.run_on("| memory | `tni_get` | memory.c |\n")[1])
        self.assertIn("0 questions", self.run_on("")[1])

    def test_names(self):
        row = "| memory | `tni_get` | `runtime/base/memory.c` |\n"
        self.assertEqual(self.run_on(row, comment="/* row TL1 */\n")[0], 0)
        for name in ("row TL2", "promise D16", "NPU3"):
            self.assertIn(f"names {name.split()[-1]}", self.run_on(row, comment=f"/* {name} */\n")[1])


if __name__ == "__main__":
    COMPILER[:] = sys.argv[1:] or COMPILER
    unittest.main(argv=sys.argv[:1])
