#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""shared.py TENON ADRENO.so MALI.so: one packed file serves both OpenCL plugins. Each packs the demo with each format: the
files have equal bytes, and the one plugin maps what the other has packed."""
import os
import re
import shutil
import subprocess
import sys
import tempfile

from checks import DEMO, expect, failures

TENON, PLUGINS = sys.argv[1], {"opencl-adreno": sys.argv[2], "opencl-mali": sys.argv[3]}


def pack(folder, plugin, name):
    """Into FOLDER/PLUGIN: the packed file, how many matrices were packed and how many mapped."""
    profile, cache = os.path.join(folder, "p.yaml"), os.path.join(folder, plugin)
    with open(profile, "w") as f:
        f.write("plugins:\n  - name: %s\n    options: {device_type: any, format: %s}\n  - host\nrequire: [%s]\n" % (plugin, name, plugin))
    env = dict(os.environ, TENON_PLUGIN_PATH=os.path.dirname(PLUGINS[plugin]))
    done = subprocess.run([TENON, "pack", DEMO, "--profile", profile, "-o", cache, "--log-level", "info"], env=env, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=200)
    found = re.search(r"packed (\d+) matrices .*, mapped (\d+) ", done.stderr)
    files = [os.path.join(cache, f) for f in os.listdir(cache) if f.endswith(".tnpack")] if os.path.isdir(cache) else []
    expect(done.returncode == 0 and found and len(files) == 1, "%s packs %s" % (plugin, name), done.stdout + done.stderr)
    return (files[0], int(found[1]), int(found[2])) if found and files else (None, 0, 0)


def read(path):
    with open(path, "rb") as f:
        return f.read()


def main():
    for name in ("e0m2", "e0m3", "e0m4", "e0m8"):
        with tempfile.TemporaryDirectory() as folder:
            first, n_first, _ = pack(folder, "opencl-adreno", name)
            second, n_second, _ = pack(folder, "opencl-mali", name)
            if not first or not second:
                continue
            expect(n_first > 20 and n_first == n_second and read(first) == read(second), "%s: equal bytes" % name)
            os.remove(second)
            shutil.copy(first, second)
            _, packed, mapped = pack(folder, "opencl-mali", name)
            expect((packed, mapped) == (0, n_first), "%s: opencl-mali maps all of opencl-adreno's file" % name,
                   "packed %d, mapped %d" % (packed, mapped))
    sys.exit(1 if failures else 0)


main()
