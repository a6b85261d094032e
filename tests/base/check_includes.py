#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""check_includes.py ROOT: dependencies point one way (docs/architecture.md), looked up in the #include lines.

A plugin includes <tenon/...>, plugins/common and its own folder. A folder under runtime/ includes its own files and
those of the folders that FLOW lists for it; nothing under runtime/ includes a plugin. Public headers include public
headers. A quoted name without a folder, such as a generated header's, is the file's own folder."""
import pathlib
import posixpath
import re
import sys

CORE = ["base", "shape/expr", "graph"]
FLOW = {
    "base": [],
    "shape/expr": ["base"],
    "graph": ["base", "shape/expr"],
    "shape": CORE,
    "onnx": CORE,
    "host": [*CORE, "shape"],
    "passes": [*CORE, "shape"],
    "profile": ["base"],
    "calib": [*CORE, "profile"],
    "plugin": [*CORE, "host", "profile", "isolate"],  # its loader opens what isolate stands in for
    "isolate": [*CORE, "shape", "profile", "plugin"],
    "plan": [*CORE, "profile", "plugin"],
    "pack": [*CORE, "profile", "plugin", "plan"],
    "sched": [*CORE, "shape", "onnx", "host", "passes", "profile", "plugin", "plan", "pack", "calib", "isolate"],
    "helper": [*CORE, "host", "profile", "plugin", "isolate"],
    "conform": [*CORE, "shape", "host", "profile", "plugin", "plan", "sched", "llm"],  # llm: the session under a chat
    "bundle": ["base", "profile", "sched"],
    "llm": ["base"],  # and the public API
    "tasks": ["base", "llm"],  # and the public API
    "cli": ["base", "conform"],  # and the public API
}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


def target(path, quote, name):
    """The file that an include names, relative to the root; None for the system's headers."""
    name = posixpath.normpath(name)
    if name.startswith(("runtime/", "plugins/", "tests/", "include/")):
        return name
    if name.startswith("tenon/"):
        return "include/" + name
    return posixpath.normpath(posixpath.join(posixpath.dirname(path), name)) if quote == '"' else None


def refusal(path, to):
    """Why the file must not include it, or None."""
    source, goal = posixpath.dirname(path), posixpath.dirname(to)
    if goal in (source, "include/tenon"):
        return None
    if path.startswith("include/"):
        return "a public header includes public headers only"
    if path.startswith("plugins/"):
        own = "/".join(path.split("/")[:2])
        inside = any(goal == d or goal.startswith(d + "/") for d in (own, "plugins/common"))
        return None if inside else "a plugin includes <tenon/...>, plugins/common and its own folder"
    folder = source.removeprefix("runtime").lstrip("/")
    if folder not in FLOW:
        return "FLOW in check_includes.py does not know this folder"
    if goal.removeprefix("runtime/") in FLOW[folder]:
        return None
    return f"runtime/{folder} may include: {', '.join(FLOW[folder]) or 'only its own files'}"


def main(root):
    bad = seen = 0
    for top in ("include", "runtime", "plugins"):
        for file in sorted(p for p in (root / top).rglob("*") if p.suffix in (".c", ".h", ".def")):
            path = file.relative_to(root).as_posix()
            for number, line in enumerate(file.read_text(encoding="utf-8").splitlines(), 1):
                m = INCLUDE.match(line)
                to = m and target(path, m[1], m[2])
                why = to and refusal(path, to)
                seen += bool(to)
                if why:
                    print(f"{path}:{number}: includes {to}: {why}")
                    bad += 1
    print(f"{seen} includes, {bad} against the flow")
    return 0 if seen > 100 and not bad else 1


if __name__ == "__main__":
    sys.exit(main(pathlib.Path(sys.argv[1])))
