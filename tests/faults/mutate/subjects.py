# SPDX-License-Identifier: Apache-2.0
"""The plugins that bugs are planted into, compiled as a vendor does: one file, public headers, no library of Tenon's."""
import dataclasses
import os
import platform
import re
import shutil
import subprocess

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
FOLDER = "tests/faults/mutate/grown"
# What replacements call; the code of the subject itself stays the same.
HEADERS = ("math.h stdlib.h unistd.h errno.h fcntl.h fenv.h locale.h pthread.h sched.h signal.h sys/mman.h sys/prctl.h "
           "sys/resource.h sys/stat.h").split()
FLAGS = ["-std=gnu11", "-O1", "-w", "-fPIC", "-fvisibility=hidden", "-D_GNU_SOURCE"]
FLAGS += ["-I", os.path.join(ROOT, "runtime/cli/new-plugin")]  # grown includes the skeleton
FLAGS += [f for h in HEADERS for f in ("-include", h)]
LINK = ["-shared", "-Wl,-z,now", "-Wl,-z,defs", "-lm", "-pthread"]


@dataclasses.dataclass
class Subject:
    name: str
    file: str  # its name in the manifest
    source: str
    manifest: str
    conform: list  # further arguments of `tenon conform`


def _read(*path):
    return open(os.path.join(ROOT, *path), encoding="utf-8").read()


def _arch(text):
    machine = platform.machine()
    return text.replace("@ARCH@", "x86-64" if machine == "x86_64" else machine)


def _skeleton(tenon, work):
    """What `tenon new-plugin` writes."""
    folder = os.path.join(work, "blank")
    shutil.rmtree(folder, ignore_errors=True)
    subprocess.run([tenon, "new-plugin", "blank"], cwd=work, check=True, capture_output=True)
    files = [open(os.path.join(folder, "blank." + e), encoding="utf-8").read() for e in ("c", "yaml")]
    return Subject("skeleton", "blank", *files, ["--level", "abi"])


def _grown():
    """grown.c with the parts of its folder in their places."""
    put = lambda m: _read(FOLDER, m[1]) if os.path.exists(os.path.join(ROOT, FOLDER, m[1])) else m[0]
    source = re.sub(r'^#include "(.+)"\n', put, _read(FOLDER, "grown.c"), flags=re.M)
    return Subject("grown", "grown", source, _arch(_read(FOLDER, "grown.yaml.in")), ["--level", "matmul"])


def load(tenon, work):
    """Subjects by name."""
    acme = Subject("acme", "acme", _read("examples/vendor-backend/acme.c"),
                   _arch(_read("examples/vendor-backend/acme.yaml.in")), ["--level", "matmul"])
    return {s.name: s for s in (acme, _skeleton(tenon, work), _grown())}


class Compiler:
    def __init__(self, include, work):
        self.cc = os.environ.get("CC", "cc").split()
        self.include, self.work = include, work

    def object(self, text, folder):
        """Path of the object file, or None and what the compiler says."""
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, "plugin.c"), "w", encoding="utf-8") as f:
            f.write(text)
        done = subprocess.run(self.cc + FLAGS + ["-I", self.include, "-c", "plugin.c", "-o", "plugin.o"], cwd=folder,
                              capture_output=True, text=True)
        return (os.path.join(folder, "plugin.o"), "") if done.returncode == 0 else (None, done.stderr)

    def link(self, subject, folder):
        """Path of the plugin, with its manifest beside it."""
        so = os.path.join(folder, subject.file + ".so")
        done = subprocess.run(self.cc + ["plugin.o", "-o", so] + LINK, cwd=folder, capture_output=True, text=True)
        with open(os.path.join(folder, subject.file + ".yaml"), "w", encoding="utf-8") as f:
            f.write(subject.manifest)
        return (so, "") if done.returncode == 0 else (None, done.stderr)
