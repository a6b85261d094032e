#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""embed.py OUT.h FILE.cl...: each file as a C string, static const char tni_src_FILE[]."""
import os
import sys

with open(sys.argv[1], "w") as out:
    out.write("/* SPDX-License-Identifier: Apache-2.0 */\n")
    for path in sys.argv[2:]:
        name = os.path.splitext(os.path.basename(path))[0]
        out.write("static const char tni_src_%s[] =\n" % name)
        for line in open(path):
            line = line.rstrip("\n")
            if line.startswith("//") or not line:
                continue
            out.write('    "%s\\n"\n' % line.replace("\\", "\\\\").replace('"', '\\"'))
        out.write("    ;\n")
