#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""assemble.py OUT SOURCE HEADER...: SOURCE with its #include "HEADER" lines replaced by what the headers hold: without
their first comment, their guard, and the blocks that only other plugins need (#ifdef PLUGIN_... to #endif)."""
import os
import re
import sys


def body(path):
    text = re.sub(r"\A/\*.*?\*/\n", "", open(path).read(), flags=re.S)
    text = re.sub(r"\A#ifndef (\w+)\n#define \1\n(.*)#endif\n\Z", r"\2", text, flags=re.S)
    return re.sub(r"^#ifdef PLUGIN_.*?^#endif\n", "", text, flags=re.S | re.M).rstrip("\n") + "\n"


headers = {os.path.basename(p): body(p) for p in sys.argv[3:]}
with open(sys.argv[1], "w") as out:
    for line in open(sys.argv[2]):
        name = re.match(r'#include "(.+)"$', line)
        out.write(headers[name[1]] if name else line)
