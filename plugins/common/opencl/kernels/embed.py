#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py [--whole] OUT.h FILE...: each file as a C string, static const char tni_src_FILE[], without empty lines and
OpenCL comments, or with all its lines."""
import os
import sys

whole = sys.argv[1] == "--whole"
args = sys.argv[2:] if whole else sys.argv[1:]
with open(args[0], "w") as out:
    out.write("/* SPDX-License-Identifier: Apache-2.0 */\n")
    for path in args[1:]:
        name = os.path.splitext(os.path.basename(path))[0]
        out.write("static const char tni_src_%s[] =\n" % name)
        for line in open(path):
            line = line.rstrip("\n")
            if not whole and (line.startswith("//") or not line):
                continue
            out.write('    "%s\\n"\n' % line.replace("\\", "\\\\").replace('"', '\\"'))
        out.write("    ;\n")
